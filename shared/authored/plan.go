package authored

import (
	"context"
	"slices"
	"strings"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/change"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/policy"
	"github.com/pxhost/pxhost/shared/snapshot"
	"github.com/pxhost/pxhost/shared/target"
	"github.com/pxhost/pxhost/shared/tool"
)

// A Planner stores drafts as plans and finds them again.
type Planner interface {
	Plan(ctx context.Context, author change.Author, d change.Draft) (change.Plan, outcome.Findings, error)
	Recall(ctx context.Context, space history.Space, planRef string) (change.Plan, error)
	Earlier(ctx context.Context, space history.Space, principal, tool, planRef string) (change.Body, change.RebasedFrom, bool, error)
}

// A Compiler makes a draft of a request. refused are the findings of the first
// stage that fails; notes refuse nothing.
type Compiler func(ctx context.Context, s snapshot.Snapshot) (d change.Draft, notes, refused outcome.Findings, err error)

// Plan answers one call of a plan tool: a draft that is stored as a plan, or, where
// a cut answer is continued, the plan that was stored.
func Plan[In tool.Input](ctx context.Context, call tool.Call[In], reader snapshot.Reader, planner Planner, scope target.Scope, compile Compiler) (tool.Answer[change.Plan], error) {
	s, findings, err := reader.Open(ctx, call.Principal.String(), scope, "", "/target/scope")
	if findings != nil || err != nil {
		return tool.Refuse[change.Plan](findings), err
	}
	if call.Pin != "" {
		plan, err := planner.Recall(ctx, s.Space, call.Pin)
		return tool.Answer[change.Plan]{Data: plan, Pin: call.Pin}, err
	}
	draft, notes, findings, err := compile(ctx, s)
	if findings.Refused() || err != nil {
		return tool.Refuse[change.Plan](findings), err
	}
	author := change.Author{Principal: call.Principal.String(), RequestDigest: call.Digest}
	if a := call.Request.Assistant; a != nil {
		author.Assistant = &history.Assistant{Provider: a.Provider, Model: a.Model}
	}
	plan, findings, err := planner.Plan(ctx, author, draft)
	if findings != nil || err != nil {
		return tool.Refuse[change.Plan](findings), err
	}
	return tool.Answer[change.Plan]{Data: plan, Diagnostics: notes, Pin: plan.PlanRef}, nil
}

// Base finds what a change begins from: existence, permission, generation and
// revision, in this order; the findings of the first that fails are reported
// together (decision 4). right is what the change takes. Of a first save there is
// nothing, and there must be none.
func Base(ctx context.Context, s snapshot.Snapshot, at target.Address, expectedGeneration int64, creates bool, right policy.Right) (saved snapshot.Saved, refused outcome.Findings, err error) {
	if creates {
		entry, err := s.Catalog.Entry(ctx, s.Space, s.Root, history.Key(at.Kind, at.Key))
		if err != nil {
			return saved, nil, err
		}
		if entry != nil {
			refused.Add(change.AlreadyExists(at.Kind), "/target/"+at.Kind+"Key", outcome.Params{at.Kind + "Key": at.Key})
			return saved, refused, nil
		}
	} else {
		saved, refused, err = s.Revision(ctx, snapshot.Address{Kind: at.Kind, Key: at.Key, Ref: history.Ref(at.RevisionRef), Path: "/target"})
		if refused != nil || err != nil {
			return saved, refused, err
		}
	}
	if refused = s.Needs(right, "/target/scope"); refused != nil {
		return saved, refused, nil
	}
	stale := func(path string) {
		params := outcome.Params{"expected": expectedGeneration, "current": saved.Head.Generation}
		if !creates {
			params["currentRevisionRef"] = string(saved.Head.RevisionRef)
		}
		refused.Add(outcome.GenerationStale, path, params)
	}
	if expectedGeneration != saved.Head.Generation { // 0 for a first save
		stale("/expectedGeneration")
	}
	if !creates && !saved.Current() {
		stale("/target/revisionRef")
	}
	return saved, refused, nil
}

// A Revision is the document that a change makes of one target, and what the
// catalog will say of it.
type Revision struct {
	At                 target.Address // as requested; its RevisionRef is the base
	ExpectedGeneration int64
	Creates            bool

	Document    []byte // canonical
	RevisionRef string // its digest
	Label       target.Label
	Uses        []string
	Text        string // normalized
	Paths       []string
}

// Change is the one change of a plan that moves a single document, with the base
// of that plan.
func (r Revision) Change() (change.Change, change.Base) {
	c := change.Change{
		Kind: r.At.Kind, Key: r.At.Key, Paths: r.Paths, Document: r.Document, Text: r.Text,
		Entry: history.Entry{RevisionRef: history.Ref(r.RevisionRef), Label: r.Label, Uses: r.Uses},
	}
	if r.Creates {
		return c, change.Base{}
	}
	c.Base = &history.Revision{RevisionRef: history.Ref(r.At.RevisionRef), Generation: r.ExpectedGeneration}
	c.Entry.Generation = r.ExpectedGeneration + 1
	return c, change.Base{RevisionRef: r.At.RevisionRef}
}

// A Preserved is a reference that a plan leaves alone.
type Preserved struct {
	Target string `json:"target"`
	Reason string `json:"reason"`
}

// Preserved are the references that stay whatever a plan does: the revision that
// it changes, where there is one.
func (r Revision) Preserved() []Preserved {
	if r.Creates {
		return []Preserved{}
	}
	return []Preserved{{change.RevisionKey(r.At.Kind, r.At.Key, history.Ref(r.At.RevisionRef)), "saved revisions are never overwritten"}}
}

// Show encodes what a plan shows of a target.
func Show(d *change.Draft, target, diff, impact any) error {
	var err error
	for _, part := range []struct {
		into *canon.Raw
		from any
	}{{&d.Target, target}, {&d.Diff, diff}, {&d.Impact, impact}} {
		if *part.into, err = canon.Encode(part.from); err != nil {
			return err
		}
	}
	return nil
}

// Conversions keeps, of the notes about a whole document, those that are no warning
// only where the plan concerns their path: what is converted elsewhere is converted
// as it was before. Warnings are kept.
func Conversions(notes outcome.Findings, concerned map[string]bool) outcome.Findings {
	return slices.DeleteFunc(slices.Clone(notes), func(d outcome.Diagnostic) bool {
		return d.Severity == outcome.Info && !concerned[strings.TrimPrefix(d.Path, firstDocument)]
	})
}

// firstDocument is where the document of a first save stands in the request.
const firstDocument = "/commands/0/document"
