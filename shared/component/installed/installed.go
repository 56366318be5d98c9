// Package installed is what a Project has recorded of Components that people have
// brought into it: one document of the Project, under the catalog key
// dependency/components, with the minimum of each (K2, K3).
//
// A record is no admission. What is written down, package installing decides; whoever
// reads it judges each record by the one predicate of package component. A record that
// cannot be read is none that could be admitted, and keeps nobody from reading the
// others. The scope of a record is where it stands and never what it says.
package installed

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/go-json-experiment/json"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/component"
	"github.com/pxhost/pxhost/shared/dependency"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/snapshot"
)

// Format is the version of the document form.
const Format = "pxcontributions/1"

// Name is the document's, among those of a Project's dependencies.
const Name = "components"

// MaxRecords is how many Components a Project may have recorded.
const MaxRecords = 500

type document struct {
	Format  string               `json:"format"`
	Records map[string]canon.Raw `json:"records"` // by componentKey
}

// Records reads what can be read, in the order of componentKeys.
func Records(text []byte) (out []component.Record) {
	var d document
	if json.Unmarshal(text, &d) != nil || d.Format != Format {
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(d.Records)) {
		var r component.Record
		if json.Unmarshal(d.Records[key], &r, json.RejectUnknownMembers(true)) == nil && r.ComponentContract.ComponentKey == key {
			r.Scope = component.ProjectRecord
			out = append(out, r)
		}
	}
	return out
}

// Decode reads a document all of which must be readable: whoever changes it loses
// nothing of it. nil is that of a Project that never recorded one.
func Decode(text []byte) (map[string]component.Record, error) {
	out := map[string]component.Record{}
	if text == nil {
		return out, nil
	}
	var d document
	if err := json.Unmarshal(text, &d, json.RejectUnknownMembers(true)); err != nil || d.Format != Format {
		return nil, fmt.Errorf("installed: the records of a project cannot be read: %w", err)
	}
	for _, r := range Records(text) {
		out[r.ComponentContract.ComponentKey] = r
	}
	if len(out) != len(d.Records) {
		return nil, fmt.Errorf("installed: %d of %d records of a project cannot be read", len(d.Records)-len(out), len(d.Records))
	}
	return out, nil
}

// Encode returns the canonical text.
func Encode(records map[string]component.Record) ([]byte, error) {
	d := document{Format, map[string]canon.Raw{}}
	for key, r := range records {
		text, err := canon.Encode(r)
		if err != nil {
			return nil, err
		}
		d.Records[key] = text
	}
	return canon.Encode(d)
}

// In reads the records of a snapshot.
func In(ctx context.Context, s snapshot.Snapshot) ([]component.Record, error) {
	entry, err := s.Catalog.Entry(ctx, s.Space, s.Root, history.Key(dependency.Kind, Name))
	if entry == nil || err != nil {
		return nil, err
	}
	text, err := s.Object(ctx, entry.RevisionRef)
	if err != nil {
		return nil, err
	}
	return Records(text), nil
}
