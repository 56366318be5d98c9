// Package projectsearch is the tool project_search: the Projects that the
// principal may read.
package projectsearch

import (
	"context"
	"iter"
	"strings"

	"github.com/pxhost/pxhost/shared/budget"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/policy"
	"github.com/pxhost/pxhost/shared/project"
	"github.com/pxhost/pxhost/shared/search"
	"github.com/pxhost/pxhost/shared/target"
	"github.com/pxhost/pxhost/shared/tool"
)

// Name of the tool.
const Name = "project_search"

// Input of the tool.
type Input struct {
	tool.Common
	search.Request
	Scope target.Scope `json:"scope" schema:"only=workspace|principal" desc:"One workspace, or principal for all that you may read."`
}

// An Item is one Project.
type Item struct {
	Target      Target         `json:"target"`
	Label       target.Label   `json:"label"`
	Description string         `json:"description"`
	Rights      []policy.Right `json:"rights" desc:"What you may do there now: read, edit, run, approve."`
}

// A Target is a Project; its scope is what every other tool takes.
type Target struct {
	Scope target.Scope `json:"scope" schema:"only=project"`
}

// Output of the tool.
type Output = search.Answer[Item]

// Definition of the tool.
var Definition = tool.Define[Input, Output](tool.Spec{
	Name: Name,
	Description: "Find the Projects that you may read, by words in keys, labels and descriptions. Start here: every other tool needs a Project's exact " +
		"scope, copied from an item's target; none assumes a current Project.",
	Annotations: tool.Reads,
	Places:      []budget.Place{{Path: "/items", Counts: budget.AsItems}},
})

// Projects lists what a principal may read.
type Projects interface {
	Snapshot(ctx context.Context, principal string) (history.Ref, error)
	Texts(ctx context.Context, principal string, root history.Ref, workspaceKey, from string, terms ...string) iter.Seq2[history.Text, error]
	Listed(ctx context.Context, principal string, root history.Ref, projects ...target.Project) ([]project.Listed, error)
}

// Grants reads what a principal may do now, of a page at once.
type Grants interface {
	Grants(ctx context.Context, principal string, projects ...target.Project) ([]policy.Grant, error)
}

// pinPrefix keeps the pin of an empty directory from being no pin.
const pinPrefix = "root:"

// New returns the tool.
func New(frame tool.Frame, projects Projects, grants Grants) tool.Handler {
	return Definition.Handler(frame, func(ctx context.Context, call tool.Call[Input]) (tool.Answer[Output], error) {
		in, principal := call.Input, call.Principal.String()
		pin := call.Pin
		if pin == "" {
			root, err := projects.Snapshot(ctx, principal)
			if err != nil {
				return tool.Answer[Output]{}, err
			}
			pin = pinPrefix + string(root)
		}
		root, terms := history.Ref(strings.TrimPrefix(pin, pinPrefix)), search.Terms(in.Query)
		source := func(from string) iter.Seq2[search.Entry, error] {
			return func(yield func(search.Entry, error) bool) {
				for t, err := range projects.Texts(ctx, principal, root, in.Scope.WorkspaceKey, from, terms...) {
					if !yield(search.Entry{Key: t.Key, Text: t.Text, Passed: t.Passed}, err) || err != nil {
						return
					}
				}
			}
		}
		rights := map[string][]policy.Right{}
		hits, next, err := search.Page(ctx, search.Query{
			Terms: terms, Limit: in.AppliedLimit(), Sources: []search.Source{source}, From: call.Page,
			// The directory is a snapshot; a right that was taken away since then
			// hides the Project at once (S4).
			Keep: func(ctx context.Context, _ int, entries []search.Entry) ([]bool, error) {
				places := make([]target.Project, len(entries))
				for i, e := range entries {
					places[i] = place(e.Key)
				}
				granted, err := grants.Grants(ctx, principal, places...)
				if err != nil {
					return nil, err
				}
				keep := make([]bool, len(entries))
				for i, g := range granted {
					keep[i], rights[entries[i].Key] = g.Allows(policy.Read), g.Rights
				}
				return keep, nil
			},
		})
		if err != nil {
			return tool.Answer[Output]{}, err
		}
		places := make([]target.Project, len(hits))
		for i, h := range hits {
			places[i] = place(h.Key)
		}
		listed, err := projects.Listed(ctx, principal, root, places...)
		if err != nil {
			return tool.Answer[Output]{}, err
		}
		out := Output{Items: make([]Item, len(hits)), AppliedLimit: in.AppliedLimit()}
		for i, l := range listed {
			label := l.Label
			if label == nil {
				label = target.Label{}
			}
			out.Items[i] = Item{Target: Target{l.Project.Scope()}, Label: label, Description: l.Description, Rights: rights[hits[i].Key]}
		}
		if next != "" {
			out.Truncation = search.PageLimit()
			if out.NextCursor, err = call.NextCursor(ctx, pin, next); err != nil {
				return tool.Answer[Output]{}, err
			}
		}
		return tool.Answer[Output]{Data: out, Pin: pin}, nil
	})
}

// place is the Project of a key of the directory.
func place(key string) target.Project {
	workspaceKey, projectKey, _ := strings.Cut(key, "/")
	return target.Project{WorkspaceKey: workspaceKey, ProjectKey: projectKey}
}
