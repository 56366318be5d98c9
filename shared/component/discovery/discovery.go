// Package discovery is what may be shown of Components: the one place where stored state
// is judged for component_search and component_describe, so that whatever the one shows
// the other finds, and nothing else (K1, K2).
//
// With an exact Project, what that Project has recorded is looked at too, and of the
// planned catalog, where it is switched on, what the Project has and could have. Without
// one there are the product's built-ins alone: no Project is guessed.
//
// Showing approves nothing, installs nothing and runs nothing. The package must not know
// Flows or tools.
package discovery

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/component"
	"github.com/pxhost/pxhost/shared/component/declared"
	"github.com/pxhost/pxhost/shared/component/installed"
	"github.com/pxhost/pxhost/shared/component/planned"
	"github.com/pxhost/pxhost/shared/dependency"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/snapshot"
	"github.com/pxhost/pxhost/shared/target"
)

// Availability says whether a Component is there, or could be installed.
type Availability string

// The availabilities.
const (
	Installed Availability = "installed"
	Available Availability = "available"
)

// Enum lists the availabilities for package schema.
func (Availability) Enum() []string { return []string{string(Installed), string(Available)} }

// A Stored is what is stored of one Component, and the words by which it is found.
type Stored struct {
	component.Record
	BuiltIn      bool
	Label        target.Label
	Description  string
	Availability Availability
	// Declaration is of the planned catalog; nil of others.
	Declaration *declared.Component
}

// A Ref names a Component of one exact release.
type Ref struct {
	Publisher                string `json:"publisher" schema:"minLength=1,maxLength=200"`
	PackageKey               string `json:"packageKey" schema:"minLength=1,maxLength=200"`
	PackageVersion           string `json:"packageVersion" schema:"minLength=1,maxLength=100"`
	PackageDigest            string `json:"packageDigest" schema:"minLength=1,maxLength=200"`
	ReleaseByteDigest        string `json:"releaseByteDigest" schema:"minLength=1,maxLength=200"`
	ComponentKey             string `json:"componentKey" schema:"pattern=dotted,maxLength=130,copied"`
	ComponentContractVersion int    `json:"componentContractVersion" schema:"minimum=1"`
}

// Ref is the Component's own.
func (s Stored) Ref() Ref {
	p := s.PackageRelease
	return Ref{p.Publisher, p.PackageKey, p.PackageVersion, p.PackageDigest, p.ReleaseByteDigest, s.ComponentContract.ComponentKey, s.ContractVersion}
}

// A View is what one request may see, in order (S3).
type View struct{ shown []Stored }

// Judge leaves of what is stored what the predicate admits.
func Judge(stored ...Stored) View {
	shown := slices.DeleteFunc(slices.Clone(stored), func(s Stored) bool { return !component.Admitted(s.Record) })
	slices.SortStableFunc(shown, func(a, b Stored) int { return cmp.Or(boolFirst(a.BuiltIn, b.BuiltIn), compare(a.Ref(), b.Ref())) })
	return View{slices.CompactFunc(shown, func(a, b Stored) bool { return a.Ref() == b.Ref() })}
}

func boolFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

func compare(a, b Ref) int {
	return cmp.Or(cmp.Compare(a.ComponentKey, b.ComponentKey), cmp.Compare(a.ComponentContractVersion, b.ComponentContractVersion), cmp.Compare(a.PackageKey, b.PackageKey),
		cmp.Compare(a.PackageVersion, b.PackageVersion), cmp.Compare(a.PackageDigest, b.PackageDigest), cmp.Compare(a.ReleaseByteDigest, b.ReleaseByteDigest), cmp.Compare(a.Publisher, b.Publisher))
}

// All returns what is shown.
func (v View) All() []Stored { return slices.Clone(v.shown) }

// Named returns the Components of a key, in a version, or in any where that is 0.
func (v View) Named(componentKey string, version int) (out []Stored) {
	for _, s := range v.shown {
		if s.ComponentContract.ComponentKey == componentKey && (version == 0 || s.ContractVersion == version) {
			out = append(out, s)
		}
	}
	return out
}

// Exact returns the Component of an exact release.
func (v View) Exact(r Ref) (Stored, bool) {
	i := slices.IndexFunc(v.shown, func(s Stored) bool { return s.Ref() == r })
	if i < 0 {
		return Stored{}, false
	}
	return v.shown[i], true
}

// BuiltIns is what is stored of the product's own Components.
func BuiltIns() (out []Stored) {
	for _, r := range component.Records() {
		c, ok := component.Lookup(r.ComponentContract.ComponentKey, r.ContractVersion)
		if !ok {
			continue // not admitted: there are no words for it
		}
		out = append(out, Stored{Record: r, BuiltIn: true, Label: c.Label(), Description: c.Description(), Availability: Installed})
	}
	return out
}

// Product returns the View without a Project.
func Product() View { return Judge(BuiltIns()...) }

// In returns the View of a Project's snapshot.
func In(ctx context.Context, s snapshot.Snapshot, catalog planned.Catalog) (View, error) {
	stored := BuiltIns()
	records, err := installed.In(ctx, s)
	if err != nil {
		return View{}, err
	}
	for _, r := range records {
		stored = append(stored, Stored{Record: r, Availability: Installed})
	}
	if !catalog.On() {
		return Judge(stored...), nil
	}
	lock, err := dependency.In(ctx, s)
	if err != nil {
		return View{}, err
	}
	for _, c := range catalog.All() {
		one := Stored{Record: c.Record, Label: c.Declaration.Label, Description: c.Declaration.Description, Availability: Available, Declaration: &c.Declaration}
		if lock.Has(c.Record.PackageRelease.Package()) {
			one.Availability = Installed
		}
		stored = append(stored, one)
	}
	return Judge(stored...), nil
}

// A Pinned is a View of one state of the product and of a Project, and the name by which
// the same can be seen again.
type Pinned struct {
	View
	Project target.Project // none: zero
	Pin     string
}

// pinPrefix and pinSeparator are of a Pin: the product's releases, and the root of the
// Project.
const (
	pinPrefix    = "product:"
	pinSeparator = "|"
)

// Open returns what a principal may see in a scope: in that of an exact Project what the
// Project has beside the product's, in every other the product's alone. A Project that the
// principal may not read does not exist. With a pin it is the View that had it; moved says
// that there is none any more, since the product was updated.
func Open(ctx context.Context, reader snapshot.Reader, principal string, scope target.Scope, pin, path string, catalog planned.Catalog) (p Pinned, moved bool, findings outcome.Findings, err error) {
	product, root, _ := strings.Cut(pin, pinSeparator)
	releases := pinPrefix
	for _, s := range BuiltIns() {
		releases = pinPrefix + s.PackageRelease.ReleaseByteDigest
	}
	for _, c := range catalog.All() {
		releases = canon.Ref(pinPrefix, releases, c.Record.PackageRelease.ReleaseByteDigest)
	}
	p = Pinned{View: Product(), Pin: releases}
	project, exact := scope.Project()
	if !exact {
		return p, pin != "" && pin != p.Pin, nil, nil
	}
	s, findings, err := reader.Open(ctx, principal, scope, root, path)
	if findings != nil || err != nil {
		return p, false, findings, err
	}
	p.Project, p.Pin = project, releases+pinSeparator+s.Pin()
	p.View, err = In(ctx, s, catalog)
	return p, pin != "" && product != releases, nil, err
}
