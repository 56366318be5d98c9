package readable

import (
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/pxhost/pxhost/infra/px/term"
	"github.com/pxhost/pxhost/shared/outcome"
)

// steps says of each suggestedAction what a person does in a shell. REF, RIGHT and
// PACKAGE stand for what the diagnostic's params name.
// A line that begins with px is a command.
var steps = map[string]string{
	"NONE":                       "",
	"SELECT_EXACT_TARGET":        "search again and copy the target of an item as it stands (pxflow_search, report_search, function_search)",
	"OPEN_OWNING_PACKAGE":        "change it where it is owned; params name the package's source and release",
	"REMOVE_FIELD":               "leave the member at that path out; px call TOOL --schema prints what there is",
	"USE_CURRENT_CONTRACT":       "use one of the tools that px call --list names",
	"CORRECT_REQUEST":            "correct the member at that path and send the request again",
	"REQUEST_PERMISSION":         "ask who manages the Project for the right RIGHT, or use another principal: --as, or PX_TOKEN",
	"PLAN_AGAIN":                 "plan the change again, and apply the new plan",
	"DESCRIBE_AND_PLAN_AGAIN":    "describe the target as it is now, then plan the change again with its target and generation",
	"RESOLVE_CONFLICTS":          "decide each of the conflicts, then plan the change again on what is there now",
	"USE_NEW_COMMAND_ID":         "another request needs another commandId; the old one stands for the old request",
	"REQUEST_APPROVAL":           "a reviewer looks at it and decides:\npx review REF\npx approve REF\nthen the same again with the approvalRef that px approve prints (--approval)",
	"START_AGAIN_WITHOUT_CURSOR": "begin again without cursor (without --continue)",
	"CORRECT_BINDING":            "give what the other side takes, in a unit of the same kind, and send it again",
	"CORRECT_VALUE":              "give a value that keeps the constraint, and send it again",
	"CONNECT_INPUT":              "give a value for it (px run … --in KEY=VALUE), or bind it",
	"SELECT_SUPPORTED_COMPONENT": "px call component_search lists what can run",
	"OPEN_PROJECT_DEPENDENCIES":  "a person installs the exact release, then describe and plan again:\npx project dependency WORKSPACE/PROJECT add PACKAGE@VERSION#DIGEST --as SUBJECT --accept-license LICENSE",
	"REPLACE_NODE_TARGETS":       "give the Nodes that use it another target first (ReplaceNodeTarget)",
	"ACCEPT_LICENSE":             "read the license and name it (--accept-license LICENSE)",
	"ACCEPT_UNSIGNED":            "if you take it all the same, say so: --accept-unsigned",
	"CONTACT_PUBLISHER":          "ask its publisher for one that is not signed, or use another Component",
	"CORRECT_SOURCE":             "correct the source at that place, then plan again",
	"READ_RUN_AND_RETRY":         "px watch REF follows it; retry the case when it has ended",
	"READ_RUN_DIAGNOSTICS":       "params name the Node and the reason; correct that, and run under a new commandId",
	"RETRY_LATER":                "send the same request again in a while",
	"CHANGE_PYTHON_PIN":          "pin a Python that is there:\npx project python WORKSPACE/PROJECT 3.N --as SUBJECT",
	"REDUCE_REQUEST":             "ask for less at once; params name the limit",
	"RAISE_BUDGET":               "give a larger budget, or none",
	"READ_CATALOG":               "px capabilities --workspace WORKSPACE lists what may be called",
	"CONNECT":                    "px connection create INSTANCE CONNECTOR --secret FILE",
	"ENABLE_EXTENSION":           "a manager enables it: px plugin enable INSTANCE",
	"INSTALL_DEPENDENCY":         "px install DIR --workspace WORKSPACE",
	"CORRECT_ARGUMENTS":          "px capabilities --workspace WORKSPACE --json shows the inputSchema",
	"CONTACT_DEVELOPER":          "the plugin's developer has to mend it",
	"TRY_ALTERNATIVE":            "call another capability, or ask who runs the service",
	"VERIFY_OUTSIDE":             "look outside what happened before you do it again",
	"CHOOSE_PLUGIN":              "name one of the candidates: --instance and --command",
	"REQUEST_AGAIN":              "read what is there now, and ask again",
}

// Step says what a person does next about a diagnostic, "" if nothing.
func Step(d outcome.Diagnostic) string {
	step, known := steps[d.SuggestedAction]
	if !known {
		return d.SuggestedAction
	}
	text := func(name string) string { s, _ := d.Params[name].(string); return term.Plain(s) }
	ref := text("planRef")
	if ref == "" {
		ref = text("runRef")
	}
	if ref == "" {
		ref = "PLANREF|RUNREF"
	}
	right := text("right")
	if right == "" {
		right = "it takes"
	}
	key := text("portKey")
	if key == "" {
		key = "KEY"
	}
	return strings.NewReplacer("REF", ref, "RIGHT", right, "KEY=", key+"=").Replace(step)
}

// diagnostics writes findings.
func (p *page) diagnostics(indent string, all []jsontext.Value) {
	for _, v := range all {
		var d outcome.Diagnostic
		if json.Unmarshal(v, &d) != nil || d.Code == "" {
			p.block(indent, "", v) // of another contract than this one
			continue
		}
		params := member(v, "params")
		colour := map[outcome.Severity]term.Colour{outcome.Error: term.Red, outcome.Warning: term.Yellow}[d.Severity]
		if colour == "" {
			colour = term.Cyan
		}
		severity := string(d.Severity)
		if severity == "" {
			severity = "finding"
		}
		at := ""
		if d.Path != "" {
			at = " at " + term.Plain(d.Path)
		}
		p.printf("%s%s%s\n", indent, p.Paint(colour, term.Plain(severity+" "+string(d.Code))), at)
		if fact, ok := outcome.Lookup(d.Code); ok {
			p.long(indent+"  ", indent+"  ", p.Columns-len(indent)-2, term.Plain(fact.Meaning))
		}
		if params.Kind() == '{' {
			p.members(indent+"  ", params)
		}
		if step := Step(d); step != "" {
			if d.Retryable {
				step += " (the same request may be sent again)"
			}
			lead := indent + "  " + p.Paint(term.Bold, "next") + "  "
			for line := range strings.SplitSeq(step, "\n") {
				if strings.HasPrefix(line, "px ") { // to be copied: never broken
					p.printf("%s  %s\n", lead, line)
				} else {
					p.long(lead, indent+"        ", p.Columns-len(indent)-8, line)
				}
				lead = indent + "        "
			}
		}
		if d.DiagnosticID != "" {
			p.printf("%s  %s\n", indent, p.Paint(term.Dim, "id    "+term.Plain(d.DiagnosticID)))
		}
	}
}
