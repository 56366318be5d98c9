// Package installing is the person's door by which a Component that somebody brings in a
// file is recorded in a Project (K3).
//
// There is no trust authority. So a file that is signed is refused before anything is
// recorded: nobody could say whether the signature holds, and a record would look as if
// somebody had. A file that is not is recorded where who brings it accepts that
// explicitly, as absent and not-checked: a record of the Project's history, with who
// accepted it when, and no admission. Nothing that is recorded here is found by a search,
// placed, bound or run.
package installing

import (
	"context"
	"maps"
	"slices"

	"github.com/pxhost/pxhost/shared/component"
	"github.com/pxhost/pxhost/shared/component/declared"
	"github.com/pxhost/pxhost/shared/component/installed"
	"github.com/pxhost/pxhost/shared/dependency/door"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/semantic"
	"github.com/pxhost/pxhost/shared/snapshot"
	"github.com/pxhost/pxhost/shared/target"
)

// Tool is the door's name in plans and commits.
const Tool = "px project component"

var document = door.Document{Name: installed.Name, Tool: Tool}

// A Door records Components.
type Door struct{ door.Door }

// Recorded is what a Project has recorded after a request.
type Recorded struct {
	Records []component.Record // in the order of componentKeys
	door.Saved
}

func recorded(saved door.Saved) Recorded { return Recorded{installed.Records(saved.Text), saved} }

// List reads the records, for who may read the Project.
func (d Door) List(ctx context.Context, who door.Who) (Recorded, outcome.Findings, error) {
	saved, findings, err := d.Door.List(ctx, who, document)
	return recorded(saved), findings, err
}

// A File is what is brought, and whether who brings it accepts that nobody signed it.
type File struct {
	Text           []byte
	AcceptUnsigned bool
}

// accepted is what a plan and the history keep of a request: names and digests.
type accepted struct {
	PackageRelease component.PackageRelease `json:"packageRelease"`
	License        string                   `json:"license"`
	Channel        string                   `json:"channel"`
	Warning        string                   `json:"warning"`
}

// Add records the Components of a package. Those of another release of the package give
// way; one whose componentKey another package has is refused.
func (d Door) Add(ctx context.Context, who door.Who, file File) (Recorded, outcome.Findings, error) {
	if declared.Signed(file.Text) {
		return Recorded{}, outcome.Findings{outcome.New(outcome.ComponentUnverifiable, "/file", outcome.Params{"reason": "no_trust_authority"})}, nil
	}
	p, canonical, findings := declared.Decode(file.Text)
	for i := range findings {
		findings[i].Path = "/file" + findings[i].Path
	}
	if findings.Refused() {
		return Recorded{}, findings, nil
	}
	release, err := p.Release(canonical)
	if err != nil {
		return Recorded{}, nil, err
	}
	if !file.AcceptUnsigned {
		return Recorded{}, outcome.Findings{outcome.New(outcome.ComponentUnsigned, "/file", outcome.Params{"packageRelease": release})}, nil
	}
	what := accepted{release, p.License, "px", "unsigned_and_not_checked"}
	return d.change(ctx, who, "RecordUnsignedComponents", what, func(now map[string]component.Record) (map[string]component.Record, outcome.Findings) {
		next, refused := without(now, release.PackageKey), outcome.Findings(nil)
		for _, key := range slices.Sorted(maps.Keys(p.Components)) {
			if other, taken := next[key]; taken {
				refused.Add(outcome.SchemaInvalid, "/file"+semantic.Pointer("components", key), outcome.Params{"rule": "unique", "packageRelease": other.PackageRelease})
				continue
			}
			r := p.Record(key, release)
			r.Scope, r.Signature, r.RevocationList = component.ProjectRecord, component.SignatureAbsent, component.RevocationNotChecked
			next[key] = r
		}
		if n := len(next); n > installed.MaxRecords {
			refused.Add(outcome.LimitExceeded, "/file", outcome.Params{"limit": installed.MaxRecords, "observed": n, "of": "components"})
		}
		return next, refused
	})
}

// Remove removes the records of an exact release. What is not recorded is removed
// already; another release of the package is left where it is, and refused.
func (d Door) Remove(ctx context.Context, who door.Who, p target.Package) (Recorded, outcome.Findings, error) {
	return d.change(ctx, who, "RemoveComponents", p, func(now map[string]component.Record) (map[string]component.Record, outcome.Findings) {
		for _, r := range now {
			if is := r.PackageRelease.Package(); is.PackageKey == p.PackageKey && is != p {
				return nil, outcome.Findings{outcome.New(outcome.TargetNotFound, "/package", outcome.Params{"package": p, "reason": "another_release", "installed": is})}
			}
		}
		return without(now, p.PackageKey), nil
	})
}

// without are the records but those of a package.
func without(records map[string]component.Record, packageKey string) map[string]component.Record {
	next := maps.Clone(records)
	maps.DeleteFunc(next, func(_ string, r component.Record) bool { return r.PackageRelease.PackageKey == packageKey })
	return next
}

func (d Door) change(ctx context.Context, who door.Who, kind string, what any, decide func(map[string]component.Record) (map[string]component.Record, outcome.Findings)) (Recorded, outcome.Findings, error) {
	saved, findings, err := d.Change(ctx, who, document, kind, what, func(_ snapshot.Snapshot, text []byte) (next door.Decision, refused outcome.Findings, err error) {
		now, err := installed.Decode(text)
		if err != nil {
			return next, nil, err
		}
		records, refused := decide(now)
		if refused.Refused() {
			return next, refused, nil
		}
		if next.Text, err = installed.Encode(records); err != nil {
			return next, nil, err
		}
		next.Diff = diff(now, records)
		return next, nil, nil
	})
	return recorded(saved), findings, err
}

func diff(now, next map[string]component.Record) (out []door.Difference) {
	keys := map[string]bool{}
	for _, records := range []map[string]component.Record{now, next} {
		for key := range records {
			keys[key] = true
		}
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		a, before := now[key]
		b, after := next[key]
		one := door.Difference{Path: "/records/" + key}
		if before && after && a.PackageRelease == b.PackageRelease {
			continue // the digests are of all that a record says
		}
		if before {
			one.Before = a
		}
		if after {
			one.After = b
		}
		out = append(out, one)
	}
	return out
}
