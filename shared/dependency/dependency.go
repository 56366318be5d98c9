// Package dependency is the dependency lock of a Project: which exact releases of
// packages it has installed, with the license that was accepted of each, and which minor
// of Python it pins.
//
// The lock is one document of the Project, under the catalog key dependency/lock, and is
// changed as every other one is: by a plan that is applied in one conditional
// transaction (package lock). So each installation is a commit of the Project's history,
// with who accepted which license when; the generation of the lock grows by one with each
// change; and every reader of a snapshot sees the lock of that snapshot. It is not a row
// of its own, as policy is, because what a Flow may name depends on it: a Flow and the
// lock must not move past each other.
//
// The lock holds digests and no contract and no source. What a release holds, and
// whether it is admitted now, the catalog of packages says (package packages): a release
// that was withdrawn after it was installed stays in the lock, and is refused wherever it
// is used, until somebody removes it. Nothing takes its place.
//
// There is one version of a packageKey. A Flow whose Nodes run a package's Functions has
// the package among its uses, so that who uses it is a range of the catalog.
//
// The package knows no Flow, no Function and no catalog of packages, so that what
// starts Runs does not link what evaluates them.
package dependency

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/schema"
	"github.com/pxhost/pxhost/shared/snapshot"
	"github.com/pxhost/pxhost/shared/target"
)

// Where the lock stands in the catalog.
const (
	Kind    = "dependency"
	Name    = "lock"
	LockKey = Kind + "/" + Name
)

// Format is the version of the document form that this package reads and writes.
const Format = "pxdependencies/1"

// MaxPackages is how many packages a Project may install.
const MaxPackages = 200

// packageKind is of the catalog keys that stand for packages. They have no entries: they
// are only used.
const packageKind = "package/"

// UseKey is the catalog key by which what uses a package says so.
func UseKey(packageKey string) string { return packageKind + packageKey }

// A Lock is what a Project depends on. The zero Lock is that of a Project without any.
type Lock struct {
	Format string `json:"format" schema:"enum=pxdependencies/1"`
	// Packages are by packageKey.
	Packages map[string]Installed `json:"packages"`
	// Python is the minor that reads and runs the Project's Functions, such as "3.13".
	// "" is any.
	Python string `json:"python,omitzero" pattern:"^3\\.[0-9]{1,3}$"`
}

// Installed is one exact release, and what was accepted of it.
type Installed struct {
	Version           string `json:"version" schema:"minLength=1,maxLength=64"`
	Digest            string `json:"digest" schema:"minLength=1,maxLength=200"`
	Publisher         string `json:"publisher" schema:"minLength=1,maxLength=200"`
	ReleaseByteDigest string `json:"releaseByteDigest" schema:"minLength=1,maxLength=200"`
	License           string `json:"license" schema:"minLength=1,maxLength=200"`
}

// Decode reads a lock strictly.
func Decode(text []byte) (Lock, error) {
	var l Lock
	if findings := schema.Decode(text, &l); findings.Refused() {
		return Lock{}, fmt.Errorf("dependency: a lock that cannot be read: %s at %s", findings[0].Code, findings[0].Path)
	}
	return l, nil
}

// Encode returns the canonical bytes and their digest.
func (l Lock) Encode() ([]byte, history.Ref, error) {
	l.Format = Format
	if l.Packages == nil {
		l.Packages = map[string]Installed{}
	}
	text, err := canon.Encode(l)
	if err != nil {
		return nil, "", err
	}
	return text, history.RefOf(text), nil
}

// Has reports whether an exact release is installed.
func (l Lock) Has(p target.Package) bool {
	is, ok := l.Packages[p.PackageKey]
	return ok && is.Package(p.PackageKey) == p
}

// Package is the release as targets name it.
func (i Installed) Package(packageKey string) target.Package {
	return target.Package{PackageKey: packageKey, Version: i.Version, Digest: i.Digest}
}

// All are the installed releases, in order.
func (l Lock) All() []target.Package {
	var out []target.Package
	for _, key := range slices.Sorted(maps.Keys(l.Packages)) {
		out = append(out, l.Packages[key].Package(key))
	}
	return out
}

// With returns the lock with another release of its packageKey, or the first.
func (l Lock) With(packageKey string, is Installed) Lock {
	l.Packages = maps.Clone(l.Packages)
	if l.Packages == nil {
		l.Packages = map[string]Installed{}
	}
	l.Packages[packageKey] = is
	return l
}

// Without returns the lock without a package.
func (l Lock) Without(packageKey string) Lock {
	l.Packages = maps.Clone(l.Packages)
	delete(l.Packages, packageKey)
	return l
}

// In reads the lock of a snapshot.
func In(ctx context.Context, s snapshot.Snapshot) (Lock, error) {
	l, _, err := At(ctx, s)
	return l, err
}

// At is In with the entry of the lock, nil where nothing was ever locked.
func At(ctx context.Context, s snapshot.Snapshot) (Lock, *history.Entry, error) {
	entry, err := s.Catalog.Entry(ctx, s.Space, s.Root, LockKey)
	if entry == nil || err != nil {
		return Lock{}, nil, err
	}
	text, err := s.Object(ctx, entry.RevisionRef)
	if err != nil {
		return Lock{}, nil, err
	}
	l, err := Decode(text)
	return l, entry, err
}

// Users returns the keys of the heads that use a package, in order.
func Users(ctx context.Context, s snapshot.Snapshot, packageKey string) ([]string, error) {
	var out []string
	for user, err := range s.Catalog.Users(ctx, s.Space, s.Root, UseKey(packageKey)) {
		if err != nil {
			return nil, err
		}
		out = append(out, user)
	}
	return out, nil
}

// The actions of hand-offs: OpenDependencies leads to where a Project's dependencies are
// kept, OpenOwningPackage to where the owner's releases and sources are.
const (
	OpenDependencies  = "OPEN_PROJECT_DEPENDENCIES"
	OpenOwningPackage = "OPEN_OWNING_PACKAGE"
)

// A Handoff names a release to whoever can install it. It is no approval, and installs
// nothing.
type Handoff struct {
	HandoffRef     string `json:"handoffRef"`
	PackageKey     string `json:"packageKey"`
	PackageVersion string `json:"packageVersion"`
	PackageDigest  string `json:"packageDigest"`
	Action         string `json:"action"`
}

// HandoffOf is the hand-off of a Project to a release that it has not installed.
func HandoffOf(project target.Project, p target.Package) Handoff {
	return handoff(project, p, OpenDependencies)
}

// OwnerOf is the hand-off of a Project to the owner of a release that it has.
func OwnerOf(project target.Project, p target.Package) Handoff {
	return handoff(project, p, OpenOwningPackage)
}

func handoff(project target.Project, p target.Package, action string) Handoff {
	return Handoff{canon.Ref("dependency_handoff_", project.String(), p.PackageKey, p.Version, p.Digest, action), p.PackageKey, p.Version, p.Digest, action}
}

// NotInstalled holds the releases that a saved Flow names against the lock of a snapshot,
// before a Run of it is begun: those that are not installed, each with its hand-off.
// path is of the target in the request. Whether a release is still admitted, the Run's
// first stage asks before anything is calculated.
func (l Lock) NotInstalled(project target.Project, named []target.Package, path string) (findings outcome.Findings) {
	for _, p := range named {
		if l.Has(p) {
			continue
		}
		params := outcome.Params{"package": p, "handoff": HandoffOf(project, p)}
		if is, other := l.Packages[p.PackageKey]; other {
			params["installed"] = is.Package(p.PackageKey)
		}
		findings.Add(outcome.DependencyNotInstalled, path, params)
	}
	return findings
}

var errPackage = errors.New("a release is named PACKAGE@VERSION#sha256:DIGEST, exactly: there is no newest one")

// ParsePackage reads PACKAGE@VERSION#sha256:DIGEST. All three are needed.
func ParsePackage(text string) (target.Package, error) {
	key, rest, _ := strings.Cut(text, "@")
	version, digest, _ := strings.Cut(rest, "#")
	p := target.Package{PackageKey: key, Version: version, Digest: digest}
	if !target.ValidKey(key) || version == "" || len(version) > 64 || !strings.HasPrefix(digest, "sha256:") || len(digest) != len("sha256:")+64 {
		return target.Package{}, errPackage
	}
	return p, nil
}

// Text is what ParsePackage reads.
func Text(p target.Package) string { return p.PackageKey + "@" + p.Version + "#" + p.Digest }
