package door

import (
	"context"

	"github.com/go-json-experiment/json"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/draft"
	"github.com/pxhost/pxhost/shared/flow"
	"github.com/pxhost/pxhost/shared/identity"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/report"
	"github.com/pxhost/pxhost/shared/schema"
	"github.com/pxhost/pxhost/shared/target"
	"github.com/pxhost/pxhost/shared/tool"
	"github.com/pxhost/pxhost/shared/wire/route"
)

// DraftsKey is the route that makes a draft. It takes the scope of tools: its user is
// the host in which a document is open, on behalf of the AI that it serves, and what
// comes of it is read by tools alone. Whoever holds that token may send the same
// document to a plan tool as a command, so that the route gives no power that the
// token does not have; a token that approves does not make what it is to approve.
const DraftsKey = "POST /v1/drafts"

type draftInput struct {
	tool.Common
	Scope    target.Scope  `json:"scope" schema:"only=project"`
	Document draftDocument `json:"document"`
	// Source is the Python text of an SDK-linked Flow, as CreateFlow takes it. Without
	// it such a draft can be read, and not be saved.
	Source string `json:"source,omitzero" schema:"minLength=1"`
}

// makeDraft adds the route of drafts.
//
// A document is decoded as strictly as one in a command, and all that is wrong with
// its form is told at once, each finding with its path: nothing is stored. Whether it
// makes sense is not asked. A draft may have a cycle, a missing binding, units that do
// not fit or too many Nodes: pxflow_validate and report_describe tell of that, which
// is what a draft is for, and a plan refuses it.
func makeDraft(d *route.Door, drafts Drafts) {
	route.Add(d, route.Route{Key: DraftsKey, Scopes: []string{identity.ScopeTools}, MaxBody: maxDraft}, func(ctx context.Context, c tool.Call[draftInput]) (tool.Answer[draft.Made], error) {
		d := c.Input.Document
		canonical, _, err := d.read.RevisionRef()
		if err != nil {
			return tool.Answer[draft.Made]{}, err
		}
		made, findings, err := drafts.Make(ctx, draft.Holder{Principal: c.Principal.String(), Session: c.Principal.Session}, c.Input.Scope,
			d.with(c.Input.Source, canonical))
		return tool.Answer[draft.Made]{Data: made, Diagnostics: findings}, err
	})
}

// A draftDocument is a .pxflow or a .pxreport, which of them its format says.
type draftDocument struct {
	kind, key string
	read      interface {
		RevisionRef() (canonical []byte, ref string, err error)
	}
}

// with is the document with its source. A source of another digest than the one that
// the document names is refused here: there is no telling which of them is the old one.
// Whether the two say the same is for the tools to find out.
func (d draftDocument) with(source string, canonical []byte) draft.Document {
	out := draft.Document{Kind: d.kind, Key: d.key, Canonical: canonical}
	if source == "" {
		return out
	}
	out.Source = []byte(source)
	doc, ok := d.read.(flow.Document)
	switch {
	case !ok || doc.Authoring.Kind != flow.SDK:
		out.Refused.Add(outcome.SchemaInvalid, "/source", outcome.Params{"rule": "sdk_only"})
	case doc.Authoring.SourceDigest != flow.SourceDigest(source):
		out.Refused.Add(outcome.SourceParity, "/document/authoring/sourceDigest", outcome.Params{"sourceDigest": flow.SourceDigest(source)})
	}
	return out
}

// JSONSchema is of any object: no client reads it.
func (*draftDocument) JSONSchema() string { return `{"type":"object"}` }

// ReadJSON reads the document as what it says it is.
func (d *draftDocument) ReadJSON(text canon.Raw, found *schema.Report) {
	var members map[string]canon.Raw
	if text.Kind() != '{' || json.Unmarshal(text, &members) != nil {
		found.Invalid("type", map[string]any{"expected": "object"})
		return
	}
	var format string
	switch raw, ok := members["format"]; {
	case !ok:
		found.In("format").Invalid("required", nil)
		return
	case json.Unmarshal(raw, &format) != nil:
		found.In("format").Invalid("type", map[string]any{"expected": "string"})
		return
	}
	switch format {
	case flow.Format:
		var doc flow.Document
		schema.ReadInto(found, text, &doc)
		*d = draftDocument{"flow", doc.FlowKey, doc}
	case report.Format:
		var doc report.Document
		schema.ReadInto(found, text, &doc)
		*d = draftDocument{"report", doc.ReportKey, doc}
	default:
		found.In("format").Invalid("enum", map[string]any{"allowed": []string{flow.Format, report.Format}})
	}
}
