// Package componentdescribe is the tool component_describe: the stored minimum of
// one Component, or null.
package componentdescribe

import (
	"context"

	"github.com/pxhost/pxhost/shared/budget"
	"github.com/pxhost/pxhost/shared/component"
	"github.com/pxhost/pxhost/shared/component/discovery"
	"github.com/pxhost/pxhost/shared/component/planned"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/snapshot"
	"github.com/pxhost/pxhost/shared/target"
	"github.com/pxhost/pxhost/shared/tool"
)

// Name of the tool.
const Name = "component_describe"

// Input of the tool: a target, as component_search answers it, or the exact
// reference of a release.
type Input struct {
	tool.Common
	_            struct{}     `schema:"oneOf=target|componentRef"`
	Target       Target       `json:"target,omitzero"`
	ComponentRef ComponentRef `json:"componentRef,omitzero"`
}

// A Target names a Component in the product or as a Project sees it.
type Target struct {
	Scope        target.Scope `json:"scope" schema:"only=product|project"`
	ComponentKey string       `json:"componentKey" schema:"pattern=dotted,maxLength=130,copied"`
	Version      int          `json:"version,omitzero" schema:"minimum=1" desc:"Left out: the version that can be placed."`
}

// A ComponentRef names a Component of one exact release.
type ComponentRef = discovery.Ref

// Output of the tool. Component is null for what is not there or not admitted.
type Output struct {
	Component *Component `json:"component"`
}

// A Component is the stored minimum: never a full descriptor (K2).
type Component struct {
	ComponentContract         component.ComponentContract   `json:"componentContract"`
	ElementContributionFields []string                      `json:"elementContributionFields"`
	PackageRelease            component.PackageRelease      `json:"packageRelease"`
	Signature                 component.SignatureState      `json:"signature"`
	RevocationList            component.RevocationListState `json:"revocationList"`
}

// Definition of the tool.
var Definition = tool.Define[Input, Output](tool.Spec{
	Name: Name,
	Description: "Describe one Component by its stored record: declared inputs, exact package release, signature and revocation state. component is null when it is " +
		"not there or not admitted. Installs and approves nothing.",
	Annotations: tool.Reads,
	Places: []budget.Place{
		{Path: "/component/elementContributionFields", Counts: budget.AsItems}, {Path: "/component/componentContract/declaredInputKeys", Counts: budget.AsItems},
	},
})

// New returns the tool. With a catalog that is switched on it is that of Planned.
func New(frame tool.Frame, reader snapshot.Reader, catalog planned.Catalog) tool.Handler {
	if catalog.On() {
		return newPlanned(frame, reader, catalog)
	}
	return Definition.Handler(frame, func(ctx context.Context, call tool.Call[Input]) (tool.Answer[Output], error) {
		in := call.Input
		found, refused, err := find(ctx, reader, asking{call.Principal, in.Target.Scope, in.Target, in.ComponentRef, call.Pin}, catalog)
		if refused != nil || err != nil {
			return tool.Refuse[Output](refused), err
		}
		out := Output{}
		if found.is != nil {
			out.Component = minimum(*found.is)
		}
		return tool.Answer[Output]{Data: out, Pin: found.Pin}, nil
	})
}

// minimum is what is told of a stored Component (K2).
func minimum(s discovery.Stored) *Component {
	return &Component{s.ComponentContract, s.ElementContributionFields, s.PackageRelease, s.Signature, s.RevocationList}
}

// An asking is what is asked about, and where.
type asking struct {
	principal tool.Principal
	scope     target.Scope
	target    Target
	ref       ComponentRef
	pin       string
}

// A finding is what was found in a View: nothing is nil.
type finding struct {
	discovery.Pinned
	is *discovery.Stored
}

// find looks for what the request names, exactly. Where it names several, all of them are
// told and none is taken.
func find(ctx context.Context, reader snapshot.Reader, in asking, catalog planned.Catalog) (f finding, refused outcome.Findings, err error) {
	path := "/target/scope"
	if in.ref != (ComponentRef{}) {
		path = "/scope"
	}
	var moved bool
	f.Pinned, moved, refused, err = discovery.Open(ctx, reader, in.principal.String(), in.scope, in.pin, path, catalog)
	if refused != nil || err != nil {
		return f, refused, err
	}
	if moved {
		return f, tool.CursorInvalid(), nil
	}
	if in.ref != (ComponentRef{}) {
		if s, ok := f.Exact(in.ref); ok {
			f.is = &s
		}
		return f, nil, nil
	}
	named := f.Named(in.target.ComponentKey, in.target.Version)
	if len(named) > 1 {
		candidates := make([]ComponentRef, len(named))
		for i, s := range named {
			candidates[i] = s.Ref()
		}
		refused.Add(outcome.TargetAmbiguous, "/target/componentKey", outcome.Params{"candidates": candidates, "scope": in.scope})
		return f, refused, nil
	}
	if len(named) == 1 {
		f.is = &named[0]
	}
	return f, nil, nil
}
