// Package packages is the verified catalog of packages that own Functions: what may be
// found and described, may be installed into a Project (package dependency), and is
// written in its package alone (S6, T5).
//
// A package is one signed release; there may be several of one packageKey. The
// signature binds the contract and the source of every Function in it; what does not
// hold becomes a state, and the same strict predicate that judges Components leaves it
// out of everything. All releases are the product's: those of others are neither found
// nor installed, since there is no authority yet that could admit one, as of
// Components (K3).
//
// A Function that a Project has not installed is available, and describing it hands
// the exact release on to where dependencies are kept, and installs nothing.
package packages

import (
	"crypto/ed25519"
	"embed"
	"encoding/base64"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/component"
	"github.com/pxhost/pxhost/shared/dependency"
	"github.com/pxhost/pxhost/shared/function"
	"github.com/pxhost/pxhost/shared/target"
)

// releases has a folder for each release, of the source of each Function and of the
// signed release, which the test of this package writes anew with -update. A release
// that was given out is never changed: Projects pin it.
//
//go:embed releases
var releases embed.FS

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

	source []byte // whole, of one whose signature is valid
}

// Source is the source that was signed; nil of a Function whose signature does not
// hold.
func (f Function) Source() []byte { return f.source }

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
	OpenDependencies  = dependency.OpenDependencies
	OpenOwningPackage = dependency.OpenOwningPackage
)

// Handoff is the hand-off of a Project to the release that owns the Function. Equal
// ones have equal refs.
func (f Function) Handoff(project target.Project, action string) Handoff {
	r := f.PackageRelease
	return Handoff{canon.Ref("dependency_handoff_", project.String(), r.PackageDigest, f.Digest, action), r.Publisher, r.PackageKey, r.PackageVersion, r.PackageDigest,
		r.ReleaseByteDigest, f.Document.SourceDigest, action}
}

// A Catalog is a set of releases. The zero Catalog has none.
type Catalog struct{ functions []Function }

// Of returns the Catalog of Functions as Verify returns them.
func Of(releases ...[]Function) Catalog {
	c := Catalog{slices.Concat(releases...)}
	slices.SortFunc(c.functions, func(a, b Function) int { return strings.Compare(a.Key(), b.Key()) })
	return c
}

// Product returns the Catalog that this program carries.
func Product() Catalog { return product() }

var product = sync.OnceValue(func() Catalog {
	folders, err := releases.ReadDir("releases")
	if err != nil {
		panic(err) // it is embedded
	}
	var all [][]Function
	for _, f := range folders {
		folder, err := fs.Sub(releases, path.Join("releases", f.Name()))
		if err != nil {
			panic(err)
		}
		text, err := fs.ReadFile(folder, "registry.json")
		if err != nil {
			panic(err)
		}
		all = append(all, Verify(text, Sources(folder)))
	}
	return Of(all...)
})

// Key orders Functions: by package, by functionKey, and by release.
func (f Function) Key() string {
	r := f.PackageRelease
	return strings.Join([]string{r.PackageKey, f.Document.FunctionKey, r.PackageVersion, r.PackageDigest}, "/")
}

// All returns the Functions that are admitted, by their Key.
func (c Catalog) All() []Function {
	return slices.DeleteFunc(slices.Clone(c.functions), func(f Function) bool { return !Admitted(f) })
}

// Release returns the Functions of an exact release, admitted or not; none of one that
// is not there.
func (c Catalog) Release(p target.Package) (out []Function) {
	for _, f := range c.functions {
		if f.Package() == p {
			out = append(out, f)
		}
	}
	return out
}

// Find returns the Function that an exact target names and that is admitted. ok is
// false where anything of the target is another's.
func (c Catalog) Find(t target.Function) (Function, bool) {
	f, ok := c.Owns(t.Package, t.FunctionKey)
	return f, ok && f.Target(t.Scope) == t
}

// Owns reports whether an exact release owns a Function, in whatever version, and
// returns it.
func (c Catalog) Owns(p target.Package, functionKey string) (Function, bool) {
	for _, f := range c.functions {
		if f.Package() == p && f.Document.FunctionKey == functionKey && Admitted(f) {
			return f, true
		}
	}
	return Function{}, false
}

// Sources reads the sources of a release from a folder, by functionKey.
func Sources(folder fs.FS) func(functionKey string) ([]byte, bool) {
	return func(functionKey string) ([]byte, bool) {
		text, err := fs.ReadFile(folder, functionKey+".py")
		return text, err == nil
	}
}

// Admitted is the strict predicate on the stored state.
func Admitted(f Function) bool {
	return component.Admitted(component.Record{
		Scope: component.ProductRecord, ComponentContract: component.ComponentContract{ComponentKey: f.Document.FunctionKey, DeclaredInputKeys: f.Document.Parameters},
		ContractVersion: f.Document.Version, ElementContributionFields: []string{}, PackageRelease: f.PackageRelease, Signature: f.Signature, RevocationList: f.RevocationList,
	})
}

// Refusal is why a Function is not admitted.
func (f Function) Refusal() string {
	if f.Signature != component.SignatureValid {
		return "signature_" + string(f.Signature)
	}
	return "withdrawn"
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
			f.Signature, f.source = component.SignatureValid, code
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
