// Package declared reads packages of Components that their makers declare: what a Project
// records of one that somebody brought, and what the planned catalog offers (K3, K4).
//
// A declaration is ports, at most eight settings and a few words for whoever draws it,
// by the contract component.declarative@2 and by no other. There is no place in it for a
// capability, a Python dependency, a renderer, a modal, a schema of settings or an entry
// that somebody signed for a screen: what the sandbox may do is said by the manifest of a
// package, and a host draws each setting with a control of its own. A rich surface is
// declared beside the Components, under a contract of its own; its entry is opened by
// nothing here.
//
// The package neither admits nor runs anything. That there is a declaration says nothing
// about trust: package component judges what is stored of one.
package declared

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/component"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/quantity"
	"github.com/pxhost/pxhost/shared/schema"
	"github.com/pxhost/pxhost/shared/semantic"
	"github.com/pxhost/pxhost/shared/target"
)

// The contracts.
const (
	Format              = "pxcomponents/1"
	Contract            = "component.declarative@2"
	SettingsContract    = "component-declared-settings@1"
	RichSurfaceContract = "component-rich-surface-declaration@1"
)

// Bounds of one package.
const (
	MaxBytes    = 256 << 10
	MaxSettings = 8 // of one declaration
)

// A Package is one release of declarations.
type Package struct {
	Format         string       `json:"format" schema:"enum=pxcomponents/1"`
	Publisher      string       `json:"publisher" schema:"minLength=1,maxLength=200,text=line"`
	PackageKey     string       `json:"packageKey" schema:"pattern=key"`
	PackageVersion string       `json:"packageVersion" schema:"maxLength=64" pattern:"^[0-9A-Za-z][0-9A-Za-z.+-]*$"`
	License        string       `json:"license" schema:"minLength=1,maxLength=200,text=line"`
	Label          target.Label `json:"label,omitzero"`
	// Components are by componentKey. No key has a dot: those are the product's.
	Components map[string]Component `json:"components" schema:"minItems=1,maxItems=100"`
	// RichSurfaces are by componentKey.
	RichSurfaces map[string]RichSurface `json:"richSurfaces,omitzero" schema:"maxItems=100"`
}

// A Component is one declaration.
type Component struct {
	Contract                  string                   `json:"contract" schema:"enum=component.declarative@2"`
	Version                   int                      `json:"version" schema:"minimum=1"`
	Label                     target.Label             `json:"label,omitzero"`
	Description               string                   `json:"description" schema:"minLength=1,maxLength=1000,text=prose"`
	Inputs                    map[string]quantity.Port `json:"inputs" schema:"maxItems=100"`
	Results                   map[string]quantity.Port `json:"results" schema:"maxItems=100"`
	ElementContributionFields []string                 `json:"elementContributionFields" schema:"maxItems=32,each.pattern=key"`
	// Settings is left out or empty: what is set is declared.
	Settings         *Nothing          `json:"settings,omitzero"`
	DeclaredSettings *DeclaredSettings `json:"declaredSettings,omitzero"`
	Presentation     *Presentation     `json:"presentation,omitzero"`
}

// Nothing is an object without members.
type Nothing struct{}

// DeclaredSettings are what a Node of the Component lets one choose.
type DeclaredSettings struct {
	Contract string    `json:"contract" schema:"enum=component-declared-settings@1"`
	Settings []Setting `json:"settings" schema:"maxItems=8"`
}

// A Setting is drawn by a control of the host's registry.
type Setting struct {
	SettingKey string       `json:"settingKey" schema:"pattern=key"`
	Control    string       `json:"control" schema:"enum=number|text|choice|toggle"`
	Label      target.Label `json:"label,omitzero"`
	// Unit is of a number and of nothing else; "1" is dimensionless.
	Unit string `json:"unit,omitzero" schema:"maxLength=100"`
	// Choices are of a choice and of nothing else.
	Choices []string `json:"choices,omitzero" schema:"minItems=1,maxItems=32,each.minLength=1,each.maxLength=64,each.text=line"`
}

// A Presentation is what a host may show of the Component where Components are listed.
type Presentation struct {
	Group target.Label `json:"group,omitzero"`
	Order int          `json:"order,omitzero" schema:"minimum=0,maximum=1000"`
}

// A RichSurface is declared by a contract of its own, which is not read here beyond its
// form.
type RichSurface struct {
	Contract string `json:"contract" schema:"enum=component-rich-surface-declaration@1"`
	Entry    string `json:"entry" schema:"minLength=1,maxLength=200,text=line"`
	Digest   string `json:"digest" pattern:"^sha256:[0-9a-f]{64}$"`
}

// signs are the members by which a file says that somebody signed it.
var signs = []string{"signature", "signatures", "publicKey", "certificate", "release"}

// Signed reports whether a file says that somebody signed it. Whether the signature
// holds, nobody can tell: there is no authority to ask.
func Signed(text []byte) bool {
	var members map[string]json.RawMessage
	return json.Unmarshal(text, &members) == nil && slices.ContainsFunc(signs, func(s string) bool { _, ok := members[s]; return ok })
}

// Decode reads a package strictly and returns its canonical text. Findings have paths in
// the file.
func Decode(text []byte) (Package, []byte, outcome.Findings) {
	var findings outcome.Findings
	if n := len(text); n > MaxBytes {
		findings.Add(outcome.LimitExceeded, "", outcome.Params{"limit": MaxBytes, "observed": n, "of": "packageBytes"})
		return Package{}, nil, findings
	}
	if err := canon.Check(text); err != nil {
		findings.Add(outcome.SchemaInvalid, "", outcome.Params{"rule": "json"})
		return Package{}, nil, findings
	}
	var p Package
	if findings = schema.Decode(text, &p); findings.Refused() {
		return Package{}, nil, findings
	}
	for _, key := range slices.Sorted(maps.Keys(p.Components)) {
		findings = append(findings, p.Components[key].check(semantic.Pointer("components", key))...)
	}
	for _, key := range slices.Sorted(maps.Keys(p.RichSurfaces)) {
		if _, ok := p.Components[key]; !ok {
			findings.Add(outcome.ReferenceUnknown, semantic.Pointer("richSurfaces", key), outcome.Params{"componentKey": key})
		}
	}
	if findings.Refused() {
		return Package{}, nil, findings
	}
	canonical, err := canon.Encode(p)
	if err != nil {
		findings.Add(outcome.SchemaInvalid, "", outcome.Params{"rule": "json"})
		return Package{}, nil, findings
	}
	return p, canonical, nil
}

// check looks at what the schema does not say.
func (c Component) check(path string) (findings outcome.Findings) {
	for _, ports := range []struct {
		name string
		of   map[string]quantity.Port
	}{{"inputs", c.Inputs}, {"results", c.Results}} {
		for _, key := range slices.Sorted(maps.Keys(ports.of)) {
			findings = append(findings, ports.of[key].Check(path+semantic.Pointer(ports.name, key))...)
		}
	}
	repeated := func(at, what string) {
		findings.Add(outcome.SchemaInvalid, at, outcome.Params{"rule": "unique", "of": what})
	}
	seen := map[string]bool{}
	for i, f := range c.ElementContributionFields {
		if seen[f] {
			repeated(path+semantic.Pointer("elementContributionFields", strconv.Itoa(i)), "elementContributionFields")
		}
		seen[f] = true
	}
	if c.DeclaredSettings == nil {
		return findings
	}
	clear(seen)
	for i, s := range c.DeclaredSettings.Settings {
		at := path + semantic.Pointer("declaredSettings", "settings", strconv.Itoa(i))
		if seen[s.SettingKey] {
			repeated(at+"/settingKey", "settingKey")
		}
		seen[s.SettingKey] = true
		findings = append(findings, s.check(at)...)
	}
	return findings
}

func (s Setting) check(path string) (findings outcome.Findings) {
	belongs := func(has bool, member, control string) {
		switch is := s.Control == control; {
		case has && !is:
			findings.Add(outcome.SchemaUnknownField, path+"/"+member, outcome.Params{"reason": "not_of_this_control"})
		case is && !has:
			findings.Add(outcome.SchemaInvalid, path+"/"+member, outcome.Params{"rule": "required"})
		}
	}
	belongs(s.Unit != "", "unit", "number")
	belongs(s.Choices != nil, "choices", "choice")
	if s.Unit != "" {
		findings = append(findings, quantity.Port{Type: quantity.NumberType, Unit: s.Unit}.Check(path)...)
	}
	return findings
}

// Release names the release of a package by its canonical text.
func (p Package) Release(canonical []byte) (component.PackageRelease, error) {
	digest, err := canon.DigestOf(p.Components)
	return component.PackageRelease{Publisher: p.Publisher, PackageKey: p.PackageKey, PackageVersion: p.PackageVersion, PackageDigest: digest,
		ReleaseByteDigest: canon.Digest(canonical)}, err
}

// Record is the stored minimum of one of the package's Components, without a word about
// trust.
func (p Package) Record(componentKey string, release component.PackageRelease) component.Record {
	c := p.Components[componentKey]
	return component.Record{
		ContractVersion: c.Version, PackageRelease: release, ElementContributionFields: append([]string{}, c.ElementContributionFields...),
		ComponentContract: component.ComponentContract{ComponentKey: componentKey, DeclaredInputKeys: append([]string{}, slices.Sorted(maps.Keys(c.Inputs))...)},
	}
}
