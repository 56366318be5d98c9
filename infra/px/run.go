package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/pxhost/pxhost/shared/canon"
)

// A keptCommand is a request that starts a Run, exactly as it was sent.
type keptCommand struct {
	URL       string         `json:"url"`
	Tool      string         `json:"tool"`
	Arguments jsontext.Value `json:"arguments"`
	Ref       string         `json:"ref,omitzero"` // the Run or Batch that it gave
}

var runCommand = command{
	name:    "run",
	summary: "start a Run of a Flow, of a Report's connection, or of a planned Batch",
	run: func(ctx context.Context, env *environment, args []string) error {
		fs := env.flags("run", `TARGET --in KEY=VALUE … [flags]
       px run TARGET --connection KEY [flags]
       px run PLANREF [flags]
       px run --retry COMMANDID [flags]

`+targetForms+`

A Flow runs on inputs: --in span=60ft, --in steel=S355, --in 'loads={"value": [1, 2], "unit":
"kN"}'. A quantity needs its unit; one that fits is converted by the host, and of a pure
number it is left out. A Report runs one of its connections, on the values that it maps.
A PLANREF is that of a Batch, which px plan showed. The commandId is made, printed and
kept before anything is sent: --retry sends the very same request again, after a lost
answer or with an approval, and it is done once.`)
		var to endpointFlags
		to.add(fs)
		var as showing
		as.add(fs)
		project := projectFlag(fs)
		var in []string
		fs.Func("in", "`KEY=VALUE` of an input; again for each", func(text string) error {
			in = append(in, text)
			return nil
		})
		inputs := fs.String("inputs", "", "inputs as the tool takes them, a JSON `object`, @FILE or -")
		connection := fs.String("connection", "", "`key` of the Report's connection")
		command := fs.String("command-id", "", "`commandId` (default: one of its own, which is printed)")
		approval := fs.String("approval", "", "`approvalRef`, where the Run takes an approval")
		reason := fs.String("reason", "", "`text` for who approves and for the history")
		retry := fs.String("retry", "", "send the request of this `commandId` again")
		watch := fs.Bool("watch", false, "follow it to its end, and print its results")
		positional, err := env.parseMixed(fs, args)
		if err != nil {
			return err
		}
		endpoint, err := env.endpoint(to)
		if err != nil {
			return err
		}
		var request keptCommand
		id := *command
		switch {
		case *retry != "" && len(positional) == 0 && in == nil && *inputs == "" && *connection == "" && *command == "":
			id = *retry
			if !env.kept(keptCommands, id, &request) {
				return usagef("no request is kept under that commandId in the state folder %s", plainText(env.state))
			}
			if request.URL != endpoint.url {
				return usagef("the request went to %s, and this is %s: name the host with --url or --state", plainText(request.URL), plainText(endpoint.url))
			}
		case *retry != "" || len(positional) != 1:
			return usagef("one target, or one planRef of a Batch, or --retry alone")
		default:
			request, id, err = env.runRequest(ctx, endpoint, positional[0], *project, in, *inputs, *connection, id, *reason)
			if err != nil {
				return env.explained(as, err)
			}
		}
		if *approval != "" {
			if request.Arguments, err = withMember(request.Arguments, "approvalRef", *approval); err != nil {
				return err
			}
		}
		fmt.Fprintf(env.err, "commandId   %s\n", plainText(id))
		again := "  px run --retry " + quoted(plainText(id)) + " sends the very same request again"
		if err := env.keep(keptCommands, id, request); err != nil {
			again = "  the same with --command-id " + quoted(plainText(id)) + " is the very same request again"
		}
		answer, err := endpoint.call(ctx, request.Tool, request.Arguments)
		if err != nil {
			if exit, ok := errors.AsType[*exitError](err); ok && exit.code != exitUsage {
				fmt.Fprintln(env.err, again)
			}
			return err
		}
		var started struct {
			RunRef   string `json:"runRef"`
			BatchRef string `json:"batchRef"`
		}
		if !answer.OK {
			for _, d := range answer.Diagnostics {
				if d.SuggestedAction == "REQUEST_APPROVAL" {
					again += ", with --approval APPROVALREF"
					defer fmt.Fprintln(env.err, again)
				}
			}
			return env.show(as, answer, moreNone)
		}
		if err := json.Unmarshal(answer.Data, &started); err != nil {
			return &exitError{exitUnknown, errors.New("the answer cannot be read")}
		}
		request.Ref = started.RunRef + started.BatchRef
		if started.BatchRef != "" && started.RunRef != "" { // a case that is repeated
			request.Ref = started.RunRef
		}
		env.keep(keptCommands, id, request) // for completion alone
		if *watch {
			fmt.Fprintf(env.err, "%s\n", plainText(request.Ref))
			return env.follow(ctx, endpoint, as, request.Ref)
		}
		if err := env.show(as, answer, moreNone); err != nil {
			return err
		}
		_, err = fmt.Fprintf(env.err, "px watch %s follows it to its end\n", plainText(request.Ref))
		return err
	},
}

// runRequest makes the request that a command line asks for.
func (e *environment) runRequest(ctx context.Context, to *endpoint, text, project string, in []string, inputs, connection, id, reason string) (keptCommand, string, error) {
	request := map[string]any{}
	if strings.HasPrefix(text, "plan_") {
		if in != nil || inputs != "" || connection != "" {
			return keptCommand{}, "", usagef("a planned Batch has its inputs in the plan")
		}
		plan, err := e.planOf(to, text, "", "", -1)
		if err != nil {
			return keptCommand{}, "", err
		}
		if !plan.Batch {
			return keptCommand{}, "", usagef("the plan is no Batch: px apply %s applies it", plainText(plan.PlanRef))
		}
		if id != "" || plan.CommandID == "" {
			plan.CommandID = id
			if id == "" {
				plan.CommandID = newCommandID()
			}
			e.keep(keptPlans, plan.PlanRef, plan) // who cannot keep it is told the commandId
		}
		id = plan.CommandID
		request["kind"], request["target"], request["planRef"], request["planDigest"] = batchKind, plan.Target, plan.PlanRef, plan.PlanDigest
	} else {
		of := []string{"flow"}
		switch report := strings.HasPrefix(text, "report/"); {
		case connection != "":
			of = []string{"report"}
		case report:
			return keptCommand{}, "", usagef("of a Report, one connection is run: give --connection KEY, one of those that px call report_describe tells")
		}
		at, err := e.name(ctx, to, "run", text, project, of...)
		if err != nil {
			return keptCommand{}, "", err
		}
		request["target"] = at.target
		if connection != "" {
			if in != nil || inputs != "" {
				return keptCommand{}, "", usagef("a connection runs on the values that the Report maps to it, and takes no inputs")
			}
			request["kind"], request["connectionKey"] = "RunReportFlowConnection", connection
		} else {
			request["kind"] = "RunFlow"
			if request["inputs"], err = e.inputs(ctx, to, at, in, inputs); err != nil {
				return keptCommand{}, "", err
			}
		}
	}
	if id == "" {
		id = newCommandID()
	}
	request["commandId"] = id
	if reason != "" {
		request["reason"] = reason
	}
	arguments, err := json.Marshal(request, json.Deterministic(true))
	return keptCommand{URL: to.url, Tool: "pxflow_run", Arguments: arguments}, id, err
}

// A contract is what of a port's contract a value is written by.
type contract struct {
	Type string `json:"type"`
	Unit string `json:"unit"`
}

// inputs reads the inputs of a command line, each as its port has it.
func (e *environment) inputs(ctx context.Context, to *endpoint, at named, in []string, object string) (map[string]jsontext.Value, error) {
	all := map[string]jsontext.Value{}
	if object != "" {
		text, err := e.given(object, "the inputs")
		if err == nil {
			err = checkJSON(text, "the inputs")
		}
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(text, &all); err != nil || all == nil {
			return nil, usagef("the inputs are no JSON object")
		}
	}
	if in == nil {
		return all, nil
	}
	var described struct {
		Inputs map[string]contract `json:"inputs"`
	}
	if err := to.ask(ctx, "pxflow_describe", map[string]any{"target": at.target}, &described); err != nil {
		return nil, err
	}
	for _, text := range in {
		key, value, ok := strings.Cut(text, "=")
		if !ok || key == "" {
			return nil, usagef("--in is KEY=VALUE, such as span=60ft")
		}
		if all[key] != nil {
			return nil, usagef("%s is given twice", plainText(key))
		}
		typed, err := valueOf(key, value, described.Inputs[key])
		if err != nil {
			return nil, err
		}
		all[key] = typed
	}
	return all, nil
}

var quantity = regexp.MustCompile(`^([-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?)\s*(.*)$`)

// valueOf reads a value as a person writes it. What could be meant in two ways is
// refused: a number without a unit where the port has one.
func valueOf(key, text string, port contract) (jsontext.Value, error) {
	text = strings.TrimSpace(text)
	if strings.HasPrefix(text, "{") || strings.HasPrefix(text, "[") || strings.HasPrefix(text, `"`) {
		if err := checkJSON([]byte(text), "the value of "+plainText(key)); err != nil {
			return nil, err
		}
		if v := jsontext.Value(text); v.Kind() == '{' {
			return v, nil // as the tool takes it
		}
		return json.Marshal(map[string]jsontext.Value{"value": jsontext.Value(text)})
	}
	typed := func(value any, unit string) (jsontext.Value, error) {
		v := map[string]any{"value": value}
		if unit != "" {
			v["unit"] = unit
		}
		return json.Marshal(v, json.Deterministic(true))
	}
	switch port.Type {
	case "boolean":
		if text == "true" || text == "false" {
			return typed(text == "true", "")
		}
		return nil, usagef("%s is true or false", plainText(key))
	case "string", "enum":
		return typed(text, "")
	case "number", "integer", "":
	default:
		return nil, usagef("%s is a %s: give it as JSON, as px call pxflow_run takes it", plainText(key), plainText(port.Type))
	}
	parts := quantity.FindStringSubmatch(text)
	switch {
	case parts == nil && port.Type == "":
		return typed(text, "") // no such port: the host says so
	case parts == nil:
		return nil, usagef("%s is a number%s", plainText(key), inUnit(port.Unit))
	}
	unit := parts[2]
	if unit == "" && port.Unit == "1" {
		unit = "1"
	}
	if unit == "" && port.Unit != "" {
		return nil, usagef("%s has no unit: say which, as --in %s=%s%s (the port is in %s; one that fits is converted)", plainText(key), plainText(key), plainText(parts[1]), plainText(port.Unit), plainText(port.Unit))
	}
	number, err := canon.Canonicalize([]byte(jsonNumber(parts[1])))
	if err != nil {
		return nil, usagef("%s is no number that is kept exactly", plainText(key))
	}
	return typed(jsontext.Value(number), unit)
}

func inUnit(unit string) string {
	if unit == "" || unit == "1" {
		return ""
	}
	return " and its unit, such as 1" + plainText(unit)
}

// jsonNumber writes a number as JSON does: without a plus, and with digits around the
// point.
func jsonNumber(text string) string {
	text = strings.TrimPrefix(text, "+")
	sign := ""
	if rest, ok := strings.CutPrefix(text, "-"); ok {
		sign, text = "-", rest
	}
	mantissa, exponent := text, ""
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		mantissa, exponent = text[:i], text[i:]
	}
	whole, fraction, point := strings.Cut(mantissa, ".")
	if whole = strings.TrimLeft(whole, "0"); whole == "" {
		whole = "0"
	}
	if point && fraction != "" {
		whole += "." + fraction
	}
	return sign + whole + exponent
}

// withMember sets a member of a JSON object.
func withMember(object jsontext.Value, name, text string) (jsontext.Value, error) {
	var members map[string]jsontext.Value
	if err := json.Unmarshal(object, &members); err != nil {
		return nil, err
	}
	value, err := json.Marshal(text)
	if err != nil {
		return nil, err
	}
	members[name] = value
	return json.Marshal(members, json.Deterministic(true))
}

var watchCommand = command{
	name:    "watch",
	summary: "follow a Run or a Batch to its end, and print its results",
	run: func(ctx context.Context, env *environment, args []string) error {
		fs := env.flags("watch", `RUNREF|BATCHREF [flags]

Shows how far it is: on a terminal in one line, elsewhere a line for each change, on
standard error. At the end the results are printed as a table, with units, and a table
value as one of its own; --json prints the exact answer of run_get in its place. Ctrl-C
asks whether to cancel it or to leave it running, which is what happens if nothing is
answered. It ends with 0 if it succeeded, 1 if it failed or was cancelled, 3 if it runs
on.`)
		var to endpointFlags
		to.add(fs)
		var as showing
		as.add(fs)
		positional, err := env.parseMixed(fs, args)
		if err != nil {
			return err
		}
		if len(positional) != 1 || !strings.HasPrefix(positional[0], "run_") && !strings.HasPrefix(positional[0], "batch_") {
			return usagef("one runRef (run_…) or batchRef (batch_…)")
		}
		endpoint, err := env.endpoint(to)
		if err != nil {
			return err
		}
		return env.follow(ctx, endpoint, as, positional[0])
	},
}
