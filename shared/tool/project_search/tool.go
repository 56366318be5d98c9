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
	List(ctx context.Context, principal string, root history.Ref, workspaceKey, from string) iter.Seq2[project.Listed, error]
}

// Grants reads what a principal may do now.
type Grants interface {
	Grant(ctx context.Context, project target.Project, principal string) (policy.Grant, error)
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
		listed := map[string]project.Listed{}
		source := func(from string) iter.Seq2[search.Entry, error] {
			return func(yield func(search.Entry, error) bool) {
				root := history.Ref(strings.TrimPrefix(pin, pinPrefix))
				for l, err := range projects.List(ctx, principal, root, in.Scope.WorkspaceKey, from) {
					key := l.Project.String()
					listed[key] = l
					if !yield(search.Entry{Key: key, Text: text(l)}, err) {
						return
					}
				}
			}
		}
		rights := map[string][]policy.Right{}
		hits, next, err := search.Page(ctx, search.Query{
			Terms: search.Terms(in.Query), Limit: in.AppliedLimit(), Sources: []search.Source{source}, From: call.Page,
			// The directory is a snapshot; a right that was taken away since then
			// hides the Project at once (S4).
			Keep: func(ctx context.Context, _ int, e search.Entry) (bool, error) {
				grant, err := grants.Grant(ctx, listed[e.Key].Project, principal)
				rights[e.Key] = grant.Rights
				return grant.Allows(policy.Read), err
			},
		})
		if err != nil {
			return tool.Answer[Output]{}, err
		}
		out := Output{Items: make([]Item, len(hits)), AppliedLimit: in.AppliedLimit()}
		for i, h := range hits {
			l := listed[h.Key]
			label := l.Label
			if label == nil {
				label = target.Label{}
			}
			out.Items[i] = Item{Target: Target{l.Project.Scope()}, Label: label, Description: l.Description, Rights: rights[h.Key]}
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

// text is what a search finds the Project by.
func text(l project.Listed) string {
	parts := []string{l.Project.WorkspaceKey, l.Project.ProjectKey, l.Description}
	for _, label := range l.Label {
		parts = append(parts, label)
	}
	return search.Normalize(parts...)
}
