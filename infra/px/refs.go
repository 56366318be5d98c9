package main

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/pxhost/pxhost/shared/target"
)

// What a person names on a command line. The tools take exact targets alone. px takes
// those, as JSON; and in a Project that is named beside it, a key, of which it finds the
// one exact target and says which it is, or KEY@REVISION, which is exact itself. It never
// has a Project of its own, never takes the first of several, and never keeps a target
// for the next command.

const targetForms = `TARGET is an exact target, as JSON, @FILE or - (standard input); or with --project
WORKSPACE/PROJECT, flow/KEY@REVISION or report/KEY@REVISION; or there flow/KEY,
report/KEY, function/KEY or KEY, where px looks the key up, goes on if exactly one has
it, and prints the exact target that it uses.`

// A named target.
type named struct {
	kind       string // flow, report or function
	target     jsontext.Value
	generation *int64 // where a search told it: of the head
	looked     bool   // it was found by its key, and is the head
	none       bool   // of a key that nothing has: scope and key alone
}

// kinds are what can be planned, with the tool that finds each.
var kinds = []struct{ kind, member, search string }{
	{"flow", "flowKey", "pxflow_search"}, {"report", "reportKey", "report_search"}, {"function", "functionKey", "function_search"},
}

func projectFlag(fs *flag.FlagSet) *string {
	return fs.String("project", "", "`WORKSPACE/PROJECT` in which keys are looked up")
}

// name finds what a text names. of are the kinds that a bare key may be of.
func (e *environment) name(ctx context.Context, to *endpoint, command, text, project string, of ...string) (named, error) {
	if text == "-" || strings.HasPrefix(text, "@") || strings.HasPrefix(strings.TrimSpace(text), "{") {
		given, err := e.given(text, "the target")
		if err == nil {
			err = checkJSON(given, "the target")
		}
		if err != nil {
			return named{}, err
		}
		return exact(given, of)
	}
	if project == "" {
		return named{}, usagef("%q is no exact target: give one as JSON, or --project WORKSPACE/PROJECT in which the key is looked up", plainText(text))
	}
	workspace, projectKey, _ := strings.Cut(project, "/")
	p := target.Project{WorkspaceKey: workspace, ProjectKey: projectKey}
	if !target.ValidKey(workspace) || !target.ValidKey(projectKey) {
		return named{}, usagef("--project is WORKSPACE/PROJECT, each %s", target.KeyPattern)
	}
	key := text
	if kind, rest, ok := strings.Cut(text, "/"); ok {
		key = rest
		if !slices.Contains(of, kind) {
			return named{}, usagef("a target is KEY or one of %s/KEY", strings.Join(of, "/KEY, "))
		}
		of = []string{kind}
	}
	key, revision, exactly := strings.Cut(key, "@")
	if !target.ValidKey(key) {
		return named{}, usagef("a key is %s", target.KeyPattern)
	}
	if exactly {
		if len(of) != 1 || of[0] == "function" || revision == "" {
			return named{}, usagef("a revision stands behind flow/KEY@ or report/KEY@; a Function's exact target is given as JSON")
		}
		return exactOf(of[0], p, key, revision)
	}
	var found []named
	for _, k := range kinds {
		if slices.Contains(of, k.kind) {
			hits, err := to.find(ctx, k.kind, k.member, k.search, p, key)
			if err != nil {
				return named{}, err
			}
			found = append(found, hits...)
		}
	}
	switch len(found) {
	case 1:
		fmt.Fprintf(e.err, "px %s: %s/%s is %s\n", command, found[0].kind, key, found[0].target)
		return found[0], nil
	case 0:
		none := &exitError{exitFailed, fmt.Errorf("nothing in %s that this principal may read has the key %s (%s)\n  what there is: px call pxflow_search '{\"scope\": %s}', and so report_search and function_search", p, key, strings.Join(of, ", "), scopeText(p))}
		if len(of) == 1 {
			text, err := json.Marshal(map[string]any{"scope": p.Scope(), of[0] + "Key": key}, json.Deterministic(true))
			return named{kind: of[0], target: text, none: true}, firstError(err, none)
		}
		return named{none: true}, none
	}
	told := fmt.Sprintf("%d targets in %s have the key %s; name one of them exactly:", len(found), p, key)
	for _, f := range found {
		told += "\n  " + plainText(string(f.target))
	}
	return named{}, &exitError{code: exitFailed, err: fmt.Errorf("%s", told)}
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func scopeText(p target.Project) string {
	text, err := json.Marshal(p.Scope())
	if err != nil {
		return "{}"
	}
	return string(text)
}

// exact reads an exact target.
func exact(text []byte, of []string) (named, error) {
	var members map[string]jsontext.Value
	if err := json.Unmarshal(text, &members); err != nil || members == nil {
		return named{}, usagef("the target is no JSON object")
	}
	compact := jsontext.Value(slices.Clone(text))
	if err := compact.Compact(); err != nil {
		return named{}, usagef("the target is no JSON object")
	}
	for _, k := range kinds {
		if members[k.member] == nil {
			continue
		}
		if !slices.Contains(of, k.kind) {
			return named{}, usagef("the target is of a %s; here it is of a %s", k.kind, strings.Join(of, " or a "))
		}
		return named{kind: k.kind, target: compact}, nil
	}
	if members["documentHandle"] != nil {
		return named{}, usagef("the target is of a draft: px call pxflow_plan_change or report_plan_change takes it")
	}
	return named{}, usagef("the target names no flowKey, reportKey or functionKey")
}

func exactOf(kind string, p target.Project, key, revision string) (named, error) {
	var of any = target.Flow{Scope: p.Scope(), FlowKey: key, RevisionRef: revision}
	if kind == "report" {
		of = target.Report{Scope: p.Scope(), ReportKey: key, RevisionRef: revision}
	}
	text, err := json.Marshal(of)
	return named{kind: kind, target: text}, err
}

// find returns everything of a kind that has a key, in all pages of a search for it.
func (e *endpoint) find(ctx context.Context, kind, member, tool string, p target.Project, key string) ([]named, error) {
	var found []named
	arguments, err := json.Marshal(map[string]any{"scope": p.Scope(), "query": key, "limit": 100}, json.Deterministic(true))
	for err == nil {
		var answer answered
		if answer, err = e.call(ctx, tool, arguments); err != nil {
			return nil, err
		}
		if !answer.OK {
			return nil, &refusal{answer}
		}
		var page struct {
			Items []struct {
				Target     jsontext.Value `json:"target"`
				Generation int64          `json:"generation"`
			} `json:"items"`
		}
		if err := json.Unmarshal(answer.Data, &page); err != nil {
			return nil, &exitError{exitUnknown, fmt.Errorf("the answer of %s cannot be read", tool)}
		}
		for _, item := range page.Items {
			var members map[string]jsontext.Value
			var has string
			if json.Unmarshal(item.Target, &members) == nil && json.Unmarshal(members[member], &has) == nil && has == key {
				found = append(found, named{kind: kind, target: item.Target, generation: &item.Generation, looked: true})
			}
		}
		cursor := cursorOf(answer.Data)
		if cursor == "" {
			return found, nil
		}
		arguments, err = withCursor(arguments, cursor)
	}
	return nil, err
}

// A refusal is an answer that a command cannot go on with. It is shown as an answer.
type refusal struct{ answer answered }

func (r *refusal) Error() string {
	var codes []string
	for _, d := range r.answer.Diagnostics {
		codes = append(codes, fmt.Sprintf("%s at %q", d.Code, plainText(d.Path)))
	}
	return strings.Join(codes, ", ")
}

// ask calls a tool that is asked on the way to something else, into a value.
func (e *endpoint) ask(ctx context.Context, tool string, arguments, into any) error {
	text, err := json.Marshal(arguments, json.Deterministic(true))
	if err != nil {
		return err
	}
	answer, err := e.call(ctx, tool, text)
	if err != nil {
		return err
	}
	if !answer.OK {
		return &refusal{answer}
	}
	if err := json.Unmarshal(answer.Data, into); err != nil {
		return &exitError{exitUnknown, fmt.Errorf("the answer of %s cannot be read", tool)}
	}
	return nil
}

// explained shows a refusal as the answer that it is, and lets any other error be.
func (e *environment) explained(as showing, err error) error {
	if r, ok := err.(*refusal); ok {
		return e.show(as, r.answer, moreNone)
	}
	return err
}
