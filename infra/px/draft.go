package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/draft"
	"github.com/pxhost/pxhost/shared/target"
)

// draftsPath is where a host makes drafts.
const draftsPath = "/v1/drafts"

// maxFile is the most that is read of a file: what the host takes as a body.
const maxFile = 2 << 20

var draftCommand = command{
	name:    "draft",
	summary: "let tools read a .pxflow or .pxreport that is not saved",
	run: func(ctx context.Context, env *environment, args []string) error {
		fs := env.flags("draft", `WORKSPACE/PROJECT FILE|- [flags]

Makes a local draft of a document and prints its target, which pxflow_validate,
pxflow_describe, report_describe and the plan tools take in place of a saved one:
  px call pxflow_validate "{\"target\": $(px draft WORKSPACE/PROJECT beam.pxflow --target)}"
It is good for hours, for you alone, and only with tokens of the session of the
token that made it. Nothing is saved. A draft may be invalid: the tools say how.`)
		var to endpointFlags
		to.add(fs)
		bare := fs.Bool("target", false, "print the target alone, on one line")
		source := fs.String("source", "", "`file` with the Python source of an SDK-linked Flow")
		raw := fs.Bool("json", false, "print the answer on one line")
		positional, err := env.parseMixed(fs, args)
		if err != nil {
			return err
		}
		if len(positional) != 2 {
			return usagef("WORKSPACE/PROJECT, and a file or -")
		}
		workspace, key, _ := strings.Cut(positional[0], "/")
		project := target.Project{WorkspaceKey: workspace, ProjectKey: key}
		if !target.ValidKey(workspace) || !target.ValidKey(key) {
			return usagef("a project is WORKSPACE/PROJECT, each %s", target.KeyPattern)
		}
		document, err := env.document(positional[1])
		if err != nil {
			return err
		}
		body := map[string]any{"scope": project.Scope(), "document": document}
		if *source != "" {
			text, err := env.file(*source)
			if err != nil {
				return err
			}
			if !utf8.Valid(text) {
				return &exitError{exitUsage, fmt.Errorf("%s is not UTF-8", *source)}
			}
			body["source"] = string(text)
		}
		// Where the wire is, and with its token: a draft is used with that.
		wire, err := env.endpoint(to)
		if err != nil {
			return err
		}
		base, err := env.baseURL()
		if err != nil {
			return &exitError{exitNoHost, err}
		}
		d := &reviewDoor{base: base + draftsPath, token: wire.token, http: wire.http}
		answer, err := d.send(ctx, http.MethodPost, "", "", body)
		if err != nil {
			return err
		}
		var made draft.Made
		if err := json.Unmarshal(answer.Data, &made); err != nil {
			return &exitError{exitUnknown, errors.New("the answer cannot be read")}
		}
		at, err := json.Marshal(made.Target, json.Deterministic(true))
		if err != nil {
			return err
		}
		switch {
		case *raw:
			text, err := json.Marshal(answer, json.Deterministic(true))
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(env.out, "%s\n", text)
			return err
		case *bare:
			_, err = fmt.Fprintf(env.out, "%s\n", at)
			return err
		}
		kind, plan, look := "Flow "+made.FlowKey, "pxflow_plan_change", "pxflow_validate"
		if made.ReportKey != "" {
			kind, plan, look = "Report "+made.ReportKey, "report_plan_change", "report_describe"
		}
		_, err = fmt.Fprintf(env.out, "Draft       %s, until %s\nDigest      %s\nTarget      %s\n\nCheck it with %s. To save it, plan it with %s, with\nexpectedGeneration 0 and without commands, and apply the plan to the target that\nthe plan answers.\n",
			plainText(kind), plainText(made.ExpiresAt), plainText(made.Digest), at, look, plan)
		return err
	},
}

// document reads a document. What is wrong with it as JSON is told here, where it can
// be seen.
func (e *environment) document(name string) (jsontext.Value, error) {
	text, err := e.file(name)
	if err != nil {
		return nil, err
	}
	var syntax *canon.SyntaxError
	if err := canon.CheckGrammar(text); errors.As(err, &syntax) {
		return nil, &exitError{exitUsage, fmt.Errorf("%s is %w", name, err)}
	}
	return text, nil
}

// file reads a file, or for - standard input.
func (e *environment) file(name string) ([]byte, error) {
	in := e.in
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return nil, &exitError{exitUsage, err}
		}
		defer file.Close()
		in = file
	}
	text, err := io.ReadAll(io.LimitReader(in, maxFile+1))
	if err != nil {
		return nil, &exitError{exitUsage, err}
	}
	if len(text) > maxFile {
		return nil, &exitError{exitUsage, fmt.Errorf("%s is larger than %d bytes", name, maxFile)}
	}
	return text, nil
}
