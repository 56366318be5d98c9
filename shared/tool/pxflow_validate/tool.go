// Package pxflowvalidate is the tool pxflow_validate: everything that is wrong
// with one exact saved Flow revision, or one draft.
package pxflowvalidate

import (
	"context"

	"github.com/pxhost/pxhost/shared/authored"
	"github.com/pxhost/pxhost/shared/component/planned"
	"github.com/pxhost/pxhost/shared/flow"
	"github.com/pxhost/pxhost/shared/flow/source"
	"github.com/pxhost/pxhost/shared/function/saved"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/snapshot"
	"github.com/pxhost/pxhost/shared/target"
	"github.com/pxhost/pxhost/shared/tool"
)

// Name of the tool.
const Name = "pxflow_validate"

// Input of the tool.
type Input struct {
	tool.Common
	Target target.FlowDocument `json:"target"`
}

// Output of the tool.
type Output struct {
	Valid bool `json:"valid" desc:"Whether it can run; the findings are the diagnostics."`
}

// Definition of the tool.
var Definition = tool.Define[Input, Output](tool.Spec{
	Name: Name,
	Description: "Check one Flow revision or draft: bindings, cycles, types, units, shapes, nullability, references. Each finding is a diagnostic with its path in the " +
		"document. Use it before running an older revision or when a Run was refused; a plan is checked by itself.",
	Annotations: tool.Reads,
})

// New returns the tool.
func New(frame tool.Frame, reader snapshot.Reader, drafts authored.Drafts, python source.Reader, catalog planned.Catalog) tool.Handler {
	functions := saved.New().Telling(catalog)
	return Definition.Handler(frame, func(ctx context.Context, call tool.Call[Input]) (tool.Answer[Output], error) {
		t := call.Input.Target
		s, findings, err := reader.Open(ctx, call.Principal.String(), t.Scope, call.Pin, "/target/scope")
		if findings != nil || err != nil {
			return tool.Refuse[Output](findings), err
		}
		found, findings, err := authored.LocateIn(ctx, s, drafts, authored.HolderOf(call.Principal), authored.Place{At: t.Address(), Path: "/target"})
		if findings != nil || err != nil {
			return tool.Refuse[Output](findings), err
		}
		revision := &found[0].Saved
		if err := s.Read(ctx, revision); err != nil {
			return tool.Answer[Output]{}, err
		}
		doc, told := flow.Decode(revision.Document)
		if !told.Refused() {
			if _, told, err = flow.Validate(ctx, doc, functions.In(s)); err != nil {
				return tool.Answer[Output]{}, err
			}
			differs, err := parity(ctx, s, python, doc, found[0])
			if err != nil {
				return tool.Answer[Output]{}, err
			}
			told = append(told, differs...)
		}
		return tool.Answer[Output]{Data: Output{Valid: !told.Refused()}, Found: told, Pin: s.Pin()}, nil
	})
}

// parity holds an SDK-linked Flow against its source. A draft may come without one, and
// cannot be saved so.
func parity(ctx context.Context, s snapshot.Snapshot, python source.Reader, doc flow.Document, found authored.Located) (findings outcome.Findings, err error) {
	if doc.Authoring.Kind != flow.SDK {
		return nil, nil
	}
	at := history.Ref(doc.Authoring.SourceDigest)
	if found.Draft {
		at = found.Source
	}
	if at == "" {
		findings.Add(outcome.SourceInvalid, "/authoring/sourceDigest", outcome.Params{"reason": "source_missing"})
		return findings, nil
	}
	text, err := s.Object(ctx, at)
	if err != nil {
		return nil, err
	}
	return source.Check(ctx, python, doc, string(text), "")
}
