// Package componentdescribe is the tool component_describe: the stored minimum of
// one Component, or null.
package componentdescribe

import (
	"context"

	"github.com/pxhost/pxhost/shared/budget"
	"github.com/pxhost/pxhost/shared/component"
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
type ComponentRef struct {
	Publisher                string `json:"publisher" schema:"minLength=1,maxLength=200"`
	PackageKey               string `json:"packageKey" schema:"minLength=1,maxLength=200"`
	PackageVersion           string `json:"packageVersion" schema:"minLength=1,maxLength=100"`
	PackageDigest            string `json:"packageDigest" schema:"minLength=1,maxLength=200"`
	ReleaseByteDigest        string `json:"releaseByteDigest" schema:"minLength=1,maxLength=200"`
	ComponentKey             string `json:"componentKey" schema:"pattern=dotted,maxLength=130,copied"`
	ComponentContractVersion int    `json:"componentContractVersion" schema:"minimum=1"`
}

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

// New returns the tool.
func New(frame tool.Frame, reader snapshot.Reader) tool.Handler {
	return Definition.Handler(frame, func(ctx context.Context, call tool.Call[Input]) (tool.Answer[Output], error) {
		in := call.Input
		if in.Target.Scope.Kind == target.ProjectScope {
			_, findings, err := reader.Open(ctx, call.Principal.String(), in.Target.Scope, "", "/target/scope")
			if findings != nil || err != nil {
				return tool.Refuse[Output](findings), err
			}
		}
		var out Output
		pin := "product:"
		for _, r := range component.Records() {
			if component.Admitted(r) && in.names(r) {
				out.Component = &Component{r.ComponentContract, r.ElementContributionFields, r.PackageRelease, r.Signature, r.RevocationList}
				pin += r.PackageRelease.ReleaseByteDigest
			}
		}
		return tool.Answer[Output]{Data: out, Pin: pin}, nil
	})
}

// names reports whether the request is of this record, exactly.
func (in Input) names(r component.Record) bool {
	key := r.ComponentContract.ComponentKey
	if ref := in.ComponentRef; ref != (ComponentRef{}) {
		_, ok := component.Lookup(ref.ComponentKey, ref.ComponentContractVersion)
		p := r.PackageRelease
		return ok && ref.ComponentKey == key && ref.Publisher == p.Publisher && ref.PackageKey == p.PackageKey && ref.PackageVersion == p.PackageVersion &&
			ref.PackageDigest == p.PackageDigest && ref.ReleaseByteDigest == p.ReleaseByteDigest
	}
	if in.Target.ComponentKey != key {
		return false
	}
	if in.Target.Version == 0 {
		return true
	}
	_, ok := component.Lookup(key, in.Target.Version)
	return ok
}
