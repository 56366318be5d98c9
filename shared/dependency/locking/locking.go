// Package locking changes the dependency lock of a Project: the one door by which a
// package is installed, removed or moved to another version, and by which the Project
// pins its Python.
//
// It is a person's door, which no tool of the catalog has: what an AI is handed on with
// names a release, and approves and installs nothing. Who comes through it needs the
// right to edit, and names the exact release and the license that is accepted. Nothing is
// looked for: no newest version, and no similar one.
//
// No rule of a policy is about it: the person who decides stands at the door. A change of
// the lock is planned and applied as every change of a Project is, in one transaction that
// holds as long as the head is the one that it was decided on. Where the head moved, it is
// decided anew. Asking again for what is so already changes nothing, so that a request
// whose outcome is unknown is simply repeated.
//
// Moving a package to another version is removing the one and installing the other: it
// is refused while Nodes use it, whether or not the contracts are the same, since a
// Node's target pins its release. Whoever moves replaces the targets first.
package locking

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/change"
	"github.com/pxhost/pxhost/shared/dependency"
	"github.com/pxhost/pxhost/shared/function/packages"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/policy"
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
}

// Who asks, and where.
type Who struct {
	Principal string // "iss|sub"
	Project   target.Project
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
	s, findings, err := d.Reader.Open(ctx, who.Principal, who.Project.Scope(), "", "/project")
	if findings != nil || err != nil {
		return Locked{}, findings, err
	}
	l, entry, err := dependency.At(ctx, s)
	return locked(l, entry), nil, err
}

func locked(l dependency.Lock, entry *history.Entry) Locked {
	out := Locked{Lock: l}
	if entry != nil {
		out.Generation, out.Revision = entry.Generation, entry.RevisionRef
	}
	return out
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
		functions := d.Catalog.Release(p)
		if len(functions) == 0 {
			refused.Add(outcome.TargetNotFound, "/package", outcome.Params{"package": p, "reason": "release_unknown"})
			return now, refused, nil
		}
		if now.Has(p) {
			return now, nil, nil
		}
		if !slices.ContainsFunc(functions, packages.Admitted) {
			refused.Add(outcome.DependencyUnavailable, "/package", outcome.Params{"package": p, "reason": functions[0].Refusal()})
		}
		if license := functions[0].License; in.License != license {
			refused.Add(outcome.LicenseNotAccepted, "/license", outcome.Params{"package": p, "license": license})
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
		r := functions[0].PackageRelease
		return now.With(p.PackageKey, dependency.Installed{Version: p.Version, Digest: p.Digest, Publisher: r.Publisher, ReleaseByteDigest: r.ReleaseByteDigest, License: in.License}), refused, nil
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

// attempts is how often a change is decided anew where the lock or its users moved.
const attempts = 8

// ErrBusy is returned when the Project kept moving. Nothing was written.
var ErrBusy = errors.New("locking: the project is busy; ask again")

// change decides, plans and applies, until what it was decided on holds.
func (d Door) change(ctx context.Context, who Who, kind string, what any, decide func(snapshot.Snapshot, dependency.Lock) (dependency.Lock, outcome.Findings, error)) (Locked, outcome.Findings, error) {
	for range attempts {
		s, findings, err := d.Reader.Open(ctx, who.Principal, who.Project.Scope(), "", "/project")
		if findings == nil && err == nil {
			findings = s.Needs(policy.Edit, "/project")
		}
		if findings != nil || err != nil {
			return Locked{}, findings, err
		}
		now, entry, err := dependency.At(ctx, s)
		if err != nil {
			return Locked{}, nil, err
		}
		next, findings, err := decide(s, now)
		if findings.Refused() || err != nil {
			return Locked{}, findings, err
		}
		is := locked(now, entry)
		before, _, err := now.Encode()
		if err != nil {
			return Locked{}, nil, err
		}
		text, revision, err := next.Encode()
		if err != nil {
			return Locked{}, nil, err
		}
		if string(text) == string(before) {
			return is, nil, nil
		}
		draft, err := draftOf(s, is, kind, what, now, next, text, revision)
		if err != nil {
			return Locked{}, nil, err
		}
		applied, moved, err := d.apply(ctx, who, draft)
		if err != nil {
			return Locked{}, nil, err
		}
		if !moved {
			return Locked{next, draft.Changes[0].Entry.Generation, revision, applied}, nil, nil
		}
	}
	return Locked{}, nil, ErrBusy
}

// A command is what was asked, as the plan keeps it.
type command struct {
	Kind string `json:"kind"`
	What any    `json:"what"`
}

// A difference is one member of the lock that changes.
type difference struct {
	Path   string `json:"path"`
	Before any    `json:"before"`
	After  any    `json:"after"`
}

func draftOf(s snapshot.Snapshot, is Locked, kind string, what any, now, next dependency.Lock, text []byte, revision history.Ref) (d change.Draft, err error) {
	c := change.Change{Kind: dependency.Kind, Key: dependency.Name, Document: text, Entry: history.Entry{RevisionRef: revision}}
	at := map[string]any{"scope": s.Project.Scope(), "dependencyKey": dependency.Name}
	d = change.Draft{Tool: Tool, Project: s.Project, ExpectedGeneration: is.Generation, Policy: s.Policy, Subject: dependency.Kind, Kinds: []string{kind}}
	if is.Revision != "" {
		c.Base = &history.Revision{RevisionRef: is.Revision, Generation: is.Generation}
		c.Entry.Generation = is.Generation + 1
		at["revisionRef"], d.Base.RevisionRef = is.Revision, string(is.Revision)
	}
	var diff []difference
	for _, key := range slices.Sorted(keysOf(now, next)) {
		a, before := now.Packages[key]
		b, after := next.Packages[key]
		if a == b && before == after {
			continue
		}
		one := difference{Path: "/packages/" + key}
		if before {
			// Nobody may begin to use the release until this is applied.
			one.Before, d.Root = a, s.Root
		}
		if after {
			one.After = b
		}
		diff = append(diff, one)
	}
	if now.Python != next.Python {
		diff = append(diff, difference{"/python", now.Python, next.Python})
	}
	for _, one := range diff {
		c.Paths = append(c.Paths, one.Path)
	}
	d.TouchedSemanticPaths, d.Changes = c.Paths, []change.Change{c}
	for _, part := range []struct {
		into *canon.Raw
		from any
	}{{&d.Target, at}, {&d.Diff, diff}, {&d.Impact, map[string]any{}}} {
		if *part.into, err = canon.Encode(part.from); err != nil {
			return d, err
		}
	}
	d.Commands, err = canon.EncodeEach([]command{{kind, what}})
	d.Unlabelled = d.Commands
	return d, err
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

// apply plans a draft and applies it. moved says that it has to be decided anew:
// nothing was written.
func (d Door) apply(ctx context.Context, who Who, draft change.Draft) (commit history.Ref, moved bool, err error) {
	digest, err := canon.DigestOf(draft.Commands)
	if err != nil {
		return "", false, err
	}
	author := change.Author{Principal: who.Principal, RequestDigest: digest}
	plan, findings, err := d.Planner.Plan(ctx, author, draft)
	if err == nil && findings != nil {
		err = fmt.Errorf("locking: a plan of one target is refused: %s", findings[0].Code)
	}
	if err != nil {
		return "", false, err
	}
	applier := *d.Applier
	applier.Recheck, applier.Under, applier.Appeared = nil, nil, d.appeared
	text, findings, err := applier.Apply(ctx, change.Application{
		Author: author, Tool: Tool, Project: who.Project, Target: plan.Target, Address: dependency.LockKey, RevisionRef: plan.Base.RevisionRef,
		ExpectedGeneration: plan.ExpectedGeneration, PlanRef: plan.PlanRef, PlanDigest: plan.PlanDigest, CommandID: plan.PlanRef,
	})
	if findings != nil || err != nil {
		return "", findings != nil, err // what refuses is told by whoever decides anew
	}
	applied, err := change.DecodeApplied(text)
	return applied.AuthoringProvenance.CommitRef, false, err
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
