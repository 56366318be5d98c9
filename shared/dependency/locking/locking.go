// Package locking changes the dependency lock of a Project: the one door by which a
// package is installed, removed or moved to another version, and by which the Project
// pins its Python.
//
// It is a person's door, which no tool of the catalog has: what an AI is handed on with
// names a release, and approves and installs nothing. Who comes through it needs the
// right to edit, and names the exact release and the license that is accepted. Nothing is
// looked for: no newest version, and no similar one.
//
// How a change is decided and written, package door says.
//
// Moving a package to another version is removing the one and installing the other: it
// is refused while Nodes use it, whether or not the contracts are the same, since a
// Node's target pins its release. Whoever moves replaces the targets first.
package locking

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/pxhost/pxhost/shared/change"
	"github.com/pxhost/pxhost/shared/component"
	"github.com/pxhost/pxhost/shared/component/planned"
	"github.com/pxhost/pxhost/shared/dependency"
	"github.com/pxhost/pxhost/shared/dependency/door"
	"github.com/pxhost/pxhost/shared/function/packages"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/snapshot"
	"github.com/pxhost/pxhost/shared/target"
)

// Tool is the door's name in plans and commits.
const Tool = "px project dependency"

// A Door changes locks.
type Door struct {
	Reader  snapshot.Reader
	Planner *change.Planner
	// Applier is used with the checks of this package in place of its own.
	Applier *change.Applier
	Catalog packages.Catalog
	// Components is the planned catalog, if it is switched on (K4).
	Components planned.Catalog
}

// An offer is what the catalogs have of an exact release.
type offer struct {
	release component.PackageRelease
	license string
	// refusal is why nothing of it is admitted; "" where something is.
	refusal string
}

func (d Door) offered(p target.Package) (offer, bool) {
	if functions := d.Catalog.Release(p); len(functions) > 0 {
		o := offer{functions[0].PackageRelease, functions[0].License, functions[0].Refusal()}
		if slices.ContainsFunc(functions, packages.Admitted) {
			o.refusal = ""
		}
		return o, true
	}
	if components := d.Components.Release(p); len(components) > 0 {
		o := offer{components[0].Record.PackageRelease, components[0].License, components[0].Refusal()}
		if slices.ContainsFunc(components, func(c planned.Component) bool { return component.Admitted(c.Record) }) {
			o.refusal = ""
		}
		return o, true
	}
	return offer{}, false
}

// Who asks, and where.
type Who = door.Who

func (d Door) people() door.Door {
	return door.Door{Reader: d.Reader, Planner: d.Planner, Applier: d.Applier}
}

func (d Door) document() door.Document {
	return door.Document{Name: dependency.Name, Tool: Tool, Appeared: d.appeared}
}

// decode reads a lock; nil is that of a Project that never had one.
func decode(text []byte) (dependency.Lock, error) {
	if text == nil {
		return dependency.Lock{}, nil
	}
	return dependency.Decode(text)
}

// A Locked is a lock as it is after a request.
type Locked struct {
	Lock       dependency.Lock
	Generation int64
	Revision   history.Ref // "" where nothing was ever locked
	// Commit is what the request wrote; "" where it was so already.
	Commit history.Ref
}

// List reads the lock, for who may read the Project.
func (d Door) List(ctx context.Context, who Who) (Locked, outcome.Findings, error) {
	saved, findings, err := d.people().List(ctx, who, d.document())
	if findings != nil || err != nil {
		return Locked{}, findings, err
	}
	l, err := decode(saved.Text)
	return Locked{l, saved.Generation, saved.Revision, ""}, nil, err
}

// An Installation is what is to be installed, and the license that is accepted: "" where
// none was.
type Installation struct {
	Package target.Package `json:"package"`
	License string         `json:"license"`
}

// Add installs an exact release. One of another version of the package gives way to it,
// if no Node uses that.
func (d Door) Add(ctx context.Context, who Who, in Installation) (Locked, outcome.Findings, error) {
	return d.change(ctx, who, "InstallPackage", in, func(s snapshot.Snapshot, now dependency.Lock) (next dependency.Lock, refused outcome.Findings, err error) {
		p := in.Package
		o, ok := d.offered(p)
		if !ok {
			refused.Add(outcome.TargetNotFound, "/package", outcome.Params{"package": p, "reason": "release_unknown"})
			return now, refused, nil
		}
		if now.Has(p) {
			return now, nil, nil
		}
		if o.refusal != "" {
			refused.Add(outcome.DependencyUnavailable, "/package", outcome.Params{"package": p, "reason": o.refusal})
		}
		if in.License != o.license {
			refused.Add(outcome.LicenseNotAccepted, "/license", outcome.Params{"package": p, "license": o.license})
		}
		is, another := now.Packages[p.PackageKey]
		if another {
			found, err := inUse(ctx, s, is.Package(p.PackageKey))
			if err != nil {
				return now, nil, err
			}
			refused = append(refused, found...)
		} else if n := len(now.Packages); n >= dependency.MaxPackages {
			refused.Add(outcome.LimitExceeded, "/package", outcome.Params{"limit": dependency.MaxPackages, "observed": n + 1, "of": "packages"})
		}
		return now.With(p.PackageKey, dependency.Installed{Version: p.Version, Digest: p.Digest, Publisher: o.release.Publisher, ReleaseByteDigest: o.release.ReleaseByteDigest, License: in.License}), refused, nil
	})
}

// Remove removes an exact release that no head uses. What is not installed is removed
// already; another release under its packageKey is left where it is, and refused.
func (d Door) Remove(ctx context.Context, who Who, p target.Package) (Locked, outcome.Findings, error) {
	return d.change(ctx, who, "RemovePackage", p, func(s snapshot.Snapshot, now dependency.Lock) (dependency.Lock, outcome.Findings, error) {
		is, ok := now.Packages[p.PackageKey]
		if !ok {
			return now, nil, nil
		}
		if is.Package(p.PackageKey) != p {
			return now, outcome.Findings{outcome.New(outcome.TargetNotFound, "/package", outcome.Params{"package": p, "reason": "another_release", "installed": is.Package(p.PackageKey)})}, nil
		}
		refused, err := inUse(ctx, s, p)
		return now.Without(p.PackageKey), refused, err
	})
}

// oldestPython is the minor below which nothing reads or runs a source.
const oldestPython = 11

// Python pins the minor of Python, "" for any. Sources that were saved are not read
// again: a Run tells where the pinned one does not take them.
func (d Door) Python(ctx context.Context, who Who, minor string) (Locked, outcome.Findings, error) {
	return d.change(ctx, who, "PinPython", minor, func(_ snapshot.Snapshot, now dependency.Lock) (dependency.Lock, outcome.Findings, error) {
		now.Python = minor
		text, _, err := now.Encode()
		if err != nil {
			return now, nil, err
		}
		if minor == "" {
			return now, nil, nil
		}
		// A saved lock is read with more than these: what was pinned once stays readable.
		digits := strings.TrimPrefix(minor, "3.")
		n, _ := strconv.Atoi(digits)
		if _, err := dependency.Decode(text); err != nil || strconv.Itoa(n) != digits {
			return now, outcome.Findings{outcome.New(outcome.SchemaInvalid, "/python", outcome.Params{"rule": "pattern", "pattern": "3.N, such as 3.13"})}, nil
		}
		if n < oldestPython {
			return now, outcome.Findings{outcome.New(outcome.SchemaInvalid, "/python", outcome.Params{"rule": "minimum", "limit": "3." + strconv.Itoa(oldestPython)})}, nil
		}
		return now, nil, nil
	})
}

// toldUsers is how many users a refusal lists.
const toldUsers = 100

// inUse refuses what heads use.
func inUse(ctx context.Context, s snapshot.Snapshot, p target.Package) (refused outcome.Findings, err error) {
	users, err := dependency.Users(ctx, s, p.PackageKey)
	if err != nil || len(users) == 0 {
		return nil, err
	}
	refused.Add(outcome.DependencyInUse, "/package", outcome.Params{"package": p, "users": users[:min(len(users), toldUsers)], "observed": len(users)})
	return refused, nil
}

// ErrBusy is returned when the Project kept moving. Nothing was written.
var ErrBusy = door.ErrBusy

// change decides on the lock.
func (d Door) change(ctx context.Context, who Who, kind string, what any, decide func(snapshot.Snapshot, dependency.Lock) (dependency.Lock, outcome.Findings, error)) (Locked, outcome.Findings, error) {
	var is dependency.Lock
	saved, findings, err := d.people().Change(ctx, who, d.document(), kind, what, func(s snapshot.Snapshot, text []byte) (next door.Decision, findings outcome.Findings, err error) {
		now, err := decode(text)
		if err != nil {
			return next, nil, err
		}
		if is, findings, err = decide(s, now); findings.Refused() || err != nil {
			return next, findings, err
		}
		if next.Text, _, err = is.Encode(); err != nil {
			return next, nil, err
		}
		next.Diff, next.Pinned = diff(now, is)
		return next, nil, nil
	})
	if findings != nil || err != nil {
		return Locked{}, findings, err
	}
	return Locked{is, saved.Generation, saved.Revision, saved.Commit}, nil, nil
}

// diff is what of the lock changes. It is pinned where a release goes: nobody may begin
// to use that until the change is applied.
func diff(now, next dependency.Lock) (out []door.Difference, pinned bool) {
	for _, key := range slices.Sorted(keysOf(now, next)) {
		a, before := now.Packages[key]
		b, after := next.Packages[key]
		if a == b && before == after {
			continue
		}
		one := door.Difference{Path: "/packages/" + key}
		if before {
			one.Before, pinned = a, true
		}
		if after {
			one.After = b
		}
		out = append(out, one)
	}
	if now.Python != next.Python {
		out = append(out, door.Difference{Path: "/python", Before: now.Python, After: next.Python})
	}
	return out, pinned
}

func keysOf(locks ...dependency.Lock) func(func(string) bool) {
	return func(yield func(string) bool) {
		seen := map[string]bool{}
		for _, l := range locks {
			for key := range l.Packages {
				if !seen[key] && !yield(key) {
					return
				}
				seen[key] = true
			}
		}
	}
}

// appeared finds users of releases that go, which came since it was decided.
func (d Door) appeared(ctx context.Context, project target.Project, planned, now history.Ref, changes []change.Change) (findings outcome.Findings, err error) {
	was, err := dependency.In(ctx, d.Reader.At(project, planned))
	if err != nil {
		return nil, err
	}
	text, err := d.Reader.At(project, now).Object(ctx, changes[0].Entry.RevisionRef)
	if err != nil {
		return nil, err
	}
	next, err := dependency.Decode(text)
	if err != nil {
		return nil, err
	}
	for _, p := range was.All() {
		if !next.Has(p) {
			users, err := inUse(ctx, d.Reader.At(project, now), p)
			if err != nil {
				return nil, err
			}
			findings = append(findings, users...)
		}
	}
	return findings, nil
}
