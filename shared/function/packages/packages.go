// Package packages is the verified catalog of packages that own Functions: what may be
// found and described, and is written in its package alone (S6, T5).
//
// A package is one signed release. The signature binds the contract and the source of
// every Function in it; what does not hold becomes a state, and the same strict
// predicate that judges Components leaves it out of everything. No package is
// installed into a Project: there is no authority yet that could admit one, as of
// Components (K3). So each is available, and describing one hands the exact release on
// to where dependencies are kept, and installs nothing.
package packages

import (
	"crypto/ed25519"
	"embed"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/go-json-experiment/json"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/component"
	"github.com/pxhost/pxhost/shared/function"
	"github.com/pxhost/pxhost/shared/target"
)

// catalog has the source of each Function, and the signed release, which the test of
// this package writes anew with -update.
//
//go:embed catalog/*.py registry.json
var catalog embed.FS

// SignatureContext separates these signatures from any other use of a key.
const SignatureContext = "pxhost packages of functions v1"

// A Release is what is signed.
type Release struct {
	Publisher      string       `json:"publisher"`
	PackageKey     string       `json:"packageKey"`
	PackageVersion string       `json:"packageVersion"`
	License        string       `json:"license"`
	Label          target.Label `json:"label"`
	// Functions are the documents by functionKey. Each holds the digest of its source.
	Functions map[string]function.Document `json:"functions"`
	// Revoked lists what of the release is withdrawn, by functionKey; the list is part
	// of the release and so is always within its window.
	Revoked []string `json:"revoked"`
}

// A Registry is a release with its signature.
type Registry struct {
	Release   canon.Raw `json:"release"`   // canonical Release
	PublicKey []byte    `json:"publicKey"` // Ed25519
	Signature []byte    `json:"signature"` // over SignatureContext and Release
}

// A Function is one that a package owns.
type Function struct {
	Document       function.Document
	Digest         string
	License        string
	PackageRelease component.PackageRelease
	Signature      component.SignatureState
	RevocationList component.RevocationListState
}

// Package is the owner as targets name it.
func (f Function) Package() target.Package {
	return target.Package{PackageKey: f.PackageRelease.PackageKey, Version: f.PackageRelease.PackageVersion, Digest: f.PackageRelease.PackageDigest}
}

// Target is the Function in the scope of a Project.
func (f Function) Target(scope target.Scope) target.Function {
	return target.Function{Scope: scope, FunctionKey: f.Document.FunctionKey, Version: f.Document.Version, Digest: f.Digest, SourceDigest: f.Document.SourceDigest, Package: f.Package()}
}

// A Handoff leads to where the owner's releases and sources are, or to where a
// Project's dependencies are kept. It is no approval and installs nothing.
type Handoff struct {
	HandoffRef        string `json:"handoffRef"`
	Publisher         string `json:"publisher"`
	PackageKey        string `json:"packageKey"`
	PackageVersion    string `json:"packageVersion"`
	PackageDigest     string `json:"packageDigest"`
	ReleaseByteDigest string `json:"releaseByteDigest"`
	SourceDigest      string `json:"sourceDigest"`
	Action            string `json:"action"`
}

// The actions of hand-offs.
const (
	OpenDependencies  = "OPEN_PROJECT_DEPENDENCIES"
	OpenOwningPackage = "OPEN_OWNING_PACKAGE"
)

// Handoff is the hand-off of a Project to the release that owns the Function. Equal
// ones have equal refs.
func (f Function) Handoff(project target.Project, action string) Handoff {
	r := f.PackageRelease
	return Handoff{canon.Ref("dependency_handoff_", project.String(), r.PackageDigest, f.Digest, action), r.Publisher, r.PackageKey, r.PackageVersion, r.PackageDigest,
		r.ReleaseByteDigest, f.Document.SourceDigest, action}
}

// All returns the Functions of all packages that are in order, by package and key.
func All() []Function { return slices.Clone(all()) }

// Find returns the Function that an exact target names. ok is false where anything of
// the target is another's.
func Find(t target.Function) (Function, bool) {
	for _, f := range all() {
		if f.Target(t.Scope) == t {
			return f, true
		}
	}
	return Function{}, false
}

// Owns reports whether an exact release owns a Function, in whatever version, and
// returns it.
func Owns(p target.Package, functionKey string) (Function, bool) {
	for _, f := range all() {
		if f.Package() == p && f.Document.FunctionKey == functionKey {
			return f, true
		}
	}
	return Function{}, false
}

var all = sync.OnceValue(func() []Function {
	text, err := catalog.ReadFile("registry.json")
	if err != nil {
		panic(err) // it is embedded
	}
	return slices.DeleteFunc(Verify(text, Source), func(f Function) bool { return !Admitted(f) })
})

// Source returns the source of a Function of the catalog.
func Source(functionKey string) ([]byte, bool) {
	text, err := catalog.ReadFile("catalog/" + functionKey + ".py")
	return text, err == nil
}

// Admitted is the strict predicate on the stored state.
func Admitted(f Function) bool {
	return component.Admitted(component.Record{
		Scope: component.ProductRecord, ComponentContract: component.ComponentContract{ComponentKey: f.Document.FunctionKey, DeclaredInputKeys: f.Document.Parameters},
		ElementContributionFields: []string{}, PackageRelease: f.PackageRelease, Signature: f.Signature, RevocationList: f.RevocationList,
	})
}

// Verify turns a registry file into Functions with their states, in order of keys. What
// does not hold becomes a state and not an error: the predicate refuses it.
func Verify(text []byte, source func(functionKey string) ([]byte, bool)) []Function {
	var registry Registry
	var release Release
	if json.Unmarshal(text, &registry) != nil || json.Unmarshal(registry.Release, &release) != nil {
		return nil
	}
	good := len(registry.PublicKey) == ed25519.PublicKeySize && ed25519.Verify(registry.PublicKey, append([]byte(SignatureContext), registry.Release...), registry.Signature)
	packageDigest, err := canon.DigestOf(release.Functions)
	good = good && err == nil
	var out []Function
	for _, key := range slices.Sorted(maps.Keys(release.Functions)) {
		f := Function{Document: release.Functions[key], License: release.License, Signature: component.SignatureInvalid, RevocationList: component.RevocationNotChecked,
			PackageRelease: component.PackageRelease{Publisher: release.Publisher, PackageKey: release.PackageKey, PackageVersion: release.PackageVersion,
				PackageDigest: packageDigest, ReleaseByteDigest: canon.Digest(registry.Release)}}
		text, digest, err := f.Document.RevisionRef()
		f.Digest = digest
		_, findings := function.Decode(text)
		code, there := source(key)
		if good && err == nil && findings == nil && f.Document.FunctionKey == key && there && canon.Digest(code) == f.Document.SourceDigest {
			f.Signature = component.SignatureValid
			if release.Revoked != nil && !slices.Contains(release.Revoked, key) {
				f.RevocationList = component.RevocationValidWindow
			}
		}
		out = append(out, f)
	}
	return out
}

// Sign returns the registry file of a release; the test that writes it uses it.
func Sign(release Release, key ed25519.PrivateKey) ([]byte, error) {
	text, err := canon.Encode(release)
	if err != nil {
		return nil, fmt.Errorf("packages: %w", err)
	}
	encode := base64.StdEncoding.EncodeToString
	return canon.Encode(map[string]any{"release": canon.Raw(text), "publicKey": encode(key.Public().(ed25519.PublicKey)),
		"signature": encode(ed25519.Sign(key, append([]byte(SignatureContext), text...)))})
}
