package componentdescribe

import (
	"context"

	"github.com/pxhost/pxhost/shared/budget"
	"github.com/pxhost/pxhost/shared/component/declared"
	"github.com/pxhost/pxhost/shared/component/discovery"
	"github.com/pxhost/pxhost/shared/component/planned"
	"github.com/pxhost/pxhost/shared/dependency"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/quantity"
	"github.com/pxhost/pxhost/shared/snapshot"
	"github.com/pxhost/pxhost/shared/target"
	"github.com/pxhost/pxhost/shared/tool"
)

// PlannedInput is the input with the planned catalog switched on (K4): a componentRef is
// looked for in a scope, and without one among the built-ins.
type PlannedInput struct {
	tool.Common
	_            struct{}     `schema:"oneOf=target|componentRef"`
	Target       Target       `json:"target,omitzero"`
	ComponentRef ComponentRef `json:"componentRef,omitzero"`
	Scope        target.Scope `json:"scope,omitzero" schema:"only=product|project" desc:"Of componentRef."`
}

// PlannedOutput is the output with the planned catalog switched on.
type PlannedOutput struct {
	Component    *Component             `json:"component" desc:"null: not installed, or not there."`
	ComponentRef *ComponentRef          `json:"componentRef,omitzero" schema:"bare"`
	Availability discovery.Availability `json:"availability,omitzero"`
	// DependencyHandoff leads to where the very release is installed. It is no approval.
	DependencyHandoff *dependency.Handoff `json:"dependencyHandoff,omitzero"`
	// OwnerHandoff leads to who changes a package that is installed (T5).
	OwnerHandoff *dependency.Handoff `json:"ownerHandoff,omitzero" schema:"bare"`
	Declaration  *Declaration        `json:"declaration,omitzero"`
}

// A Declaration is what a host may draw of a Component that a package declares.
type Declaration struct {
	Contract         string                     `json:"contract"`
	Label            target.Label               `json:"label"`
	Description      string                     `json:"description"`
	Inputs           map[string]quantity.Port   `json:"inputs" schema:"each.bare"`
	Results          map[string]quantity.Port   `json:"results" schema:"each.bare"`
	DeclaredSettings *declared.DeclaredSettings `json:"declaredSettings,omitzero" schema:"bare"`
	Presentation     *declared.Presentation     `json:"presentation,omitzero" schema:"bare"`
}

// Planned is the Definition with the planned catalog switched on.
var Planned = tool.Define[PlannedInput, PlannedOutput](tool.Spec{
	Name: Name,
	Description: "Describe one Component: its stored record if it is installed, or, of a package that the Project could install, the hand-off to where a person installs that exact release; " +
		"then describe again and plan anew. component is null when it is not installed, not there or not admitted. Installs and approves nothing.",
	Annotations: tool.Reads,
	Places: []budget.Place{
		{Path: "/component/elementContributionFields", Counts: budget.AsItems}, {Path: "/component/componentContract/declaredInputKeys", Counts: budget.AsItems},
		{Path: "/declaration/inputs"}, {Path: "/declaration/results"},
	},
})

func newPlanned(frame tool.Frame, reader snapshot.Reader, catalog planned.Catalog) tool.Handler {
	return Planned.Handler(frame, func(ctx context.Context, call tool.Call[PlannedInput]) (tool.Answer[PlannedOutput], error) {
		in := call.Input
		scope := in.Scope
		if in.ComponentRef == (ComponentRef{}) {
			if scope != (target.Scope{}) {
				return tool.Refuse[PlannedOutput](outcome.Findings{outcome.New(outcome.SchemaUnknownField, "/scope", outcome.Params{"reason": "target_has_its_own"})}), nil
			}
			scope = in.Target.Scope
		}
		found, refused, err := find(ctx, reader, asking{call.Principal, scope, in.Target, in.ComponentRef, call.Pin}, catalog)
		if refused != nil || err != nil {
			return tool.Refuse[PlannedOutput](refused), err
		}
		answer := tool.Answer[PlannedOutput]{Pin: found.Pin}
		if found.is == nil {
			return answer, nil
		}
		s, ref := *found.is, found.is.Ref()
		answer.Data = PlannedOutput{ComponentRef: &ref, Availability: s.Availability}
		if d := s.Declaration; d != nil {
			answer.Data.Declaration = &Declaration{d.Contract, d.Label, d.Description, d.Inputs, d.Results, d.DeclaredSettings, d.Presentation}
			if d.Label == nil {
				answer.Data.Declaration.Label = target.Label{}
			}
		}
		if s.Availability == discovery.Available {
			handoff := dependency.HandoffOf(found.Project, s.PackageRelease.Package())
			answer.Data.DependencyHandoff = &handoff
		} else {
			answer.Data.Component = minimum(s)
			if !s.BuiltIn {
				handoff := dependency.OwnerOf(found.Project, s.PackageRelease.Package())
				answer.Data.OwnerHandoff = &handoff
			}
		}
		return answer, nil
	})
}
