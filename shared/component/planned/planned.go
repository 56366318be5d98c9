// Package planned is the planned catalog of Components: what a Project could install, and
// what of it it has (K4).
//
// It is behind a switch that is off. With it off there is no Catalog, and nothing on the
// wire tells that there could be one. With it on, the releases that this program carries
// are found and described, and who would install one is handed on to where a Project's
// dependencies are kept. Nothing here installs, and what is installed is still not run:
// that a release was verified against the registry says who made it, and not that a host
// may execute it.
//
// A release is signed as those of Functions are (package packages), and judged by the same
// strict predicate: what does not hold becomes a state, and is left out of everything.
package planned

import (
	"cmp"
	"crypto/ed25519"
	"embed"
	"encoding/base64"
	"io/fs"
	"maps"
	"slices"
	"sync"

	"github.com/go-json-experiment/json"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/component"
	"github.com/pxhost/pxhost/shared/component/declared"
	"github.com/pxhost/pxhost/shared/target"
)

// releases has a folder for each release, of the package and of the signed release, which
// the test of this package writes anew with -update. A release that was given out is never
// changed: Projects pin it.
//
//go:embed releases
var releases embed.FS

// SignatureContext separates these signatures from any other use of a key.
const SignatureContext = "pxhost packages of components v2"

// A Release is what is signed.
type Release struct {
	Package canon.Raw `json:"package"` // canonical declared.Package
	// Revoked lists what of the release is withdrawn, by componentKey; the list is part of
	// the release and so is always within its window.
	Revoked []string `json:"revoked"`
}

// A Registry is a release with its signature.
type Registry struct {
	Release   canon.Raw `json:"release"`   // canonical Release
	PublicKey []byte    `json:"publicKey"` // Ed25519
	Signature []byte    `json:"signature"` // over SignatureContext and Release
}

// A Component is one that a release declares, with what is stored of it.
type Component struct {
	Record      component.Record
	Declaration declared.Component
	License     string
}

// A Catalog is a set of releases. The zero Catalog is switched off.
type Catalog struct {
	on         bool
	components []Component
}

// Of returns the Catalog of Components as Verify returns them, switched on.
func Of(releases ...[]Component) Catalog {
	c := Catalog{true, slices.Concat(releases...)}
	slices.SortFunc(c.components, func(a, b Component) int {
		p, q := a.Record.PackageRelease, b.Record.PackageRelease
		return cmp.Or(cmp.Compare(a.Record.ComponentContract.ComponentKey, b.Record.ComponentContract.ComponentKey), cmp.Compare(p.PackageKey, q.PackageKey),
			cmp.Compare(p.PackageVersion, q.PackageVersion), cmp.Compare(p.PackageDigest, q.PackageDigest))
	})
	return c
}

// Product returns the Catalog that this program carries.
func Product() Catalog { return product() }

var product = sync.OnceValue(func() Catalog {
	files, err := fs.Glob(releases, "releases/*/registry.json")
	if err != nil {
		panic(err) // it is embedded
	}
	var all [][]Component
	for _, f := range files {
		text, err := fs.ReadFile(releases, f)
		if err != nil {
			panic(err)
		}
		all = append(all, Verify(text))
	}
	return Of(all...)
})

// On reports whether the catalog is switched on.
func (c Catalog) On() bool { return c.on }

// All returns all that is stored, admitted or not, by componentKey and release.
func (c Catalog) All() []Component { return slices.Clone(c.components) }

// Release returns the Components of an exact release, admitted or not; none of one that
// is not there.
func (c Catalog) Release(p target.Package) (out []Component) {
	for _, one := range c.components {
		if one.Record.PackageRelease.Package() == p {
			out = append(out, one)
		}
	}
	return out
}

// Find returns the admitted Components of a key and version, of whatever releases.
func (c Catalog) Find(componentKey string, version int) (out []Component) {
	for _, one := range c.components {
		if one.Record.ComponentContract.ComponentKey == componentKey && one.Record.ContractVersion == version && component.Admitted(one.Record) {
			out = append(out, one)
		}
	}
	return out
}

// Refusal is why a Component is not admitted.
func (c Component) Refusal() string {
	if c.Record.Signature != component.SignatureValid {
		return "signature_" + string(c.Record.Signature)
	}
	return "withdrawn"
}

// Verify turns a registry file into Components with their states, by componentKey. What
// does not hold becomes a state and not an error: the predicate refuses it. A release that
// cannot be read by the contract has none.
func Verify(text []byte) (out []Component) {
	var registry Registry
	var release Release
	if json.Unmarshal(text, &registry) != nil || json.Unmarshal(registry.Release, &release) != nil {
		return nil
	}
	p, canonical, findings := declared.Decode(release.Package)
	if findings.Refused() {
		return nil
	}
	named, err := p.Release(canonical)
	if err != nil {
		return nil
	}
	named.ReleaseByteDigest = canon.Digest(registry.Release)
	good := string(canonical) == string(release.Package) && len(registry.PublicKey) == ed25519.PublicKeySize &&
		ed25519.Verify(registry.PublicKey, append([]byte(SignatureContext), registry.Release...), registry.Signature)
	for _, key := range slices.Sorted(maps.Keys(p.Components)) {
		r := p.Record(key, named)
		r.Scope, r.Signature, r.RevocationList = component.ProductRecord, component.SignatureInvalid, component.RevocationNotChecked
		if good {
			r.Signature = component.SignatureValid
			if release.Revoked != nil && !slices.Contains(release.Revoked, key) {
				r.RevocationList = component.RevocationValidWindow
			}
		}
		out = append(out, Component{r, p.Components[key], p.License})
	}
	return out
}

// Sign returns the registry file of a package; the test that writes it uses it.
func Sign(pack declared.Package, revoked []string, key ed25519.PrivateKey) ([]byte, error) {
	text, err := canon.Encode(pack)
	if err != nil {
		return nil, err
	}
	if text, err = canon.Encode(Release{text, append([]string{}, revoked...)}); err != nil {
		return nil, err
	}
	encode := base64.StdEncoding.EncodeToString
	return canon.Encode(map[string]any{"release": canon.Raw(text), "publicKey": encode(key.Public().(ed25519.PublicKey)),
		"signature": encode(ed25519.Sign(key, append([]byte(SignatureContext), text...)))})
}
