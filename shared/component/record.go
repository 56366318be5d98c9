package component

import (
	"crypto/ed25519"
	_ "embed"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/target"
)

// A Record is what is stored of one admitted or refused contribution: the minimum
// that discovery answers (K2), never a descriptor or a presentation entry.
type Record struct {
	Scope             RecordScope       `json:"scope"`
	ComponentContract ComponentContract `json:"componentContract"`
	// ContractVersion is the version of the contract, which targets name.
	ContractVersion           int                 `json:"contractVersion"`
	ElementContributionFields []string            `json:"elementContributionFields"` // at most 32
	PackageRelease            PackageRelease      `json:"packageRelease"`
	Signature                 SignatureState      `json:"signature"`
	RevocationList            RevocationListState `json:"revocationList"`
}

// RecordScope says who brought a contribution: the product, or one Project's
// installation.
type RecordScope string

// The record scopes.
const (
	ProductRecord RecordScope = "product"
	ProjectRecord RecordScope = "project"
)

// ComponentContract is the part of a contract that is stored.
type ComponentContract struct {
	ComponentKey string `json:"componentKey"`
	// DeclaredInputKeys are the inputs that do not depend on settings, in order.
	DeclaredInputKeys []string `json:"declaredInputKeys"`
}

// PackageRelease names one release exactly.
type PackageRelease struct {
	Publisher         string `json:"publisher"`
	PackageKey        string `json:"packageKey"`
	PackageVersion    string `json:"packageVersion"`
	PackageDigest     string `json:"packageDigest"`     // of what the package declares
	ReleaseByteDigest string `json:"releaseByteDigest"` // of the signed release
}

// Package is the release as targets name it.
func (p PackageRelease) Package() target.Package {
	return target.Package{PackageKey: p.PackageKey, Version: p.PackageVersion, Digest: p.PackageDigest}
}

// SignatureState is what was found when the contribution was recorded.
type SignatureState string

// The signature states. An accepted unsigned install is absent: a record, and no
// admission.
const (
	SignatureValid   SignatureState = "valid"
	SignatureAbsent  SignatureState = "absent"
	SignatureInvalid SignatureState = "invalid"
)

// RevocationListState is whether the release was checked against a revocation
// list within its window.
type RevocationListState string

// The revocation list states.
const (
	RevocationValidWindow RevocationListState = "valid-window"
	RevocationNotChecked  RevocationListState = "not-checked"
	RevocationExpired     RevocationListState = "expired"
)

// The bounds of what a record answers.
const (
	MaxElementContributionFields = 32
	MaxDeclaredInputKeys         = 500
)

// Admitted is the one predicate by which search, describe, placing and running
// judge a stored record (K2, K3). It is strict: a product record that was
// verified against the registry, with every name and digest in place and nothing
// beyond its bounds. No record of a Project is admitted, since there is no trust
// authority for one; it looks at the stored state alone and never at a clock.
func Admitted(r Record) bool {
	p := r.PackageRelease
	return r.Scope == ProductRecord &&
		r.Signature == SignatureValid && r.RevocationList == RevocationValidWindow &&
		validKey(r.ComponentContract.ComponentKey) && r.ContractVersion >= 1 &&
		bounded(r.ComponentContract.DeclaredInputKeys, MaxDeclaredInputKeys) && bounded(r.ElementContributionFields, MaxElementContributionFields) &&
		p.Publisher != "" && target.ValidKey(p.PackageKey) && p.PackageVersion != "" && isDigest(p.PackageDigest) && isDigest(p.ReleaseByteDigest)
}

// validKey reports whether a componentKey is keys with dots between them.
func validKey(componentKey string) bool {
	const longest = 130
	for part := range strings.SplitSeq(componentKey, ".") {
		if !target.ValidKey(part) {
			return false
		}
	}
	return len(componentKey) <= longest
}

// bounded reports whether a list is there, holds no more than it may, and has keys alone,
// each of them once.
func bounded(keys []string, most int) bool {
	if keys == nil || len(keys) > most {
		return false
	}
	seen := make(map[string]bool, len(keys))
	for _, k := range keys {
		if seen[k] || !target.ValidKey(k) {
			return false
		}
		seen[k] = true
	}
	return true
}

func isDigest(s string) bool {
	const prefix = "sha256:"
	if len(s) != len(prefix)+64 || s[:len(prefix)] != prefix {
		return false
	}
	for _, c := range s[len(prefix):] {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// registryText is the signed registry entry of the built-ins, which go generate
// writes. The signature binds the entry to the definitions in this package: a
// Component whose key, version, settings example or description was changed
// without signing anew is not admitted, and so can be neither placed nor run.
//
//go:generate go run ./internal/sign
//go:embed registry.json
var registryText []byte

// A Registry is the embedded file.
type Registry struct {
	Release   canon.Raw `json:"release"`   // canonical Release
	PublicKey []byte    `json:"publicKey"` // Ed25519
	Signature []byte    `json:"signature"` // over SignatureContext and Release
}

// SignatureContext separates these signatures from any other use of a key.
const SignatureContext = "pxhost built-in components v1"

// A Release is what is signed: the package and the digest of each definition.
type Release struct {
	Publisher      string            `json:"publisher"`
	PackageKey     string            `json:"packageKey"`
	PackageVersion string            `json:"packageVersion"`
	Components     map[string]string `json:"components"` // "px.formula@1": digest of its definition
	// Revoked lists what of the release is withdrawn, by the same names; the
	// list is part of the release and so is always within its window.
	Revoked []string `json:"revoked"`
}

// CurrentRelease describes the definitions in this package, for signing.
func CurrentRelease() (Release, error) {
	out := Release{Publisher: "pxhost", PackageKey: "px", PackageVersion: "1.0.0", Components: map[string]string{}, Revoked: []string{}}
	for _, d := range definitions {
		digest, err := d.digest()
		if err != nil {
			return Release{}, err
		}
		out.Components[d.name()] = digest
	}
	return out, nil
}

func (d *definition) name() string { return fmt.Sprintf("%s@%d", d.key, d.version) }

func (d *definition) digest() (string, error) {
	return canon.DigestOf(struct {
		Key         string            `json:"key"`
		Version     int               `json:"version"`
		Label       map[string]string `json:"label"`
		Description string            `json:"description"`
		InputKeys   []string          `json:"inputKeys"`
		Example     string            `json:"example"`
	}{d.key, d.version, d.label, d.description, d.inputKeys, d.example})
}

// Records returns the stored record of every built-in, in key order. Judge each
// with Admitted.
func Records() []Record {
	out := slices.Clone(records())
	for i := range out {
		out[i].ComponentContract.DeclaredInputKeys = slices.Clone(out[i].ComponentContract.DeclaredInputKeys)
		out[i].ElementContributionFields = slices.Clone(out[i].ElementContributionFields)
	}
	return out
}

var records = sync.OnceValue(func() []Record { return verify(registryText) })

// verify turns a registry file into records. What does not hold becomes a state,
// not an error: the predicate refuses it.
func verify(text []byte) []Record {
	var registry Registry
	var release Release
	good := json.Unmarshal(text, &registry) == nil &&
		signed(registry) &&
		json.Unmarshal(registry.Release, &release) == nil
	if !good {
		release = Release{}
	}
	packageDigest, err := canon.DigestOf(release.Components)
	good = good && err == nil
	var out []Record
	for _, d := range definitions {
		digest, err := d.digest()
		r := Record{
			Scope:                     ProductRecord,
			ComponentContract:         ComponentContract{d.key, append([]string{}, d.inputKeys...)},
			ContractVersion:           d.version,
			ElementContributionFields: []string{},
			PackageRelease: PackageRelease{
				Publisher: release.Publisher, PackageKey: release.PackageKey, PackageVersion: release.PackageVersion,
				PackageDigest: packageDigest, ReleaseByteDigest: canon.Digest(registry.Release),
			},
			Signature:      SignatureInvalid,
			RevocationList: RevocationNotChecked,
		}
		if good && err == nil && release.Components[d.name()] == digest {
			r.Signature = SignatureValid
			if release.Revoked != nil && !slices.Contains(release.Revoked, d.name()) {
				r.RevocationList = RevocationValidWindow
			}
		}
		out = append(out, r)
	}
	return out
}

func admittedKey(key string, version int) bool {
	for i, d := range definitions {
		if d.key == key && d.version == version {
			return Admitted(records()[i])
		}
	}
	return false
}

// Verified reports whether a registry file holds a valid signature of exactly
// this release.
func Verified(file []byte, release Release) bool {
	var registry Registry
	text, err := canon.Encode(release)
	return err == nil && json.Unmarshal(file, &registry) == nil && string(registry.Release) == string(text) && signed(registry)
}

func signed(r Registry) bool {
	return len(r.PublicKey) == ed25519.PublicKeySize && ed25519.Verify(r.PublicKey, append([]byte(SignatureContext), r.Release...), r.Signature)
}

// SignRelease returns the registry file for a release; tests and the generator
// use it.
func SignRelease(release Release, key ed25519.PrivateKey) ([]byte, error) {
	text, err := canon.Encode(release)
	if err != nil {
		return nil, err
	}
	encode := base64.StdEncoding.EncodeToString
	return canon.Encode(map[string]any{
		"release":   canon.Raw(text),
		"publicKey": encode(key.Public().(ed25519.PublicKey)),
		"signature": encode(ed25519.Sign(key, append([]byte(SignatureContext), text...))),
	})
}
