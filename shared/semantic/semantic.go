// Package semantic holds what every kind of document shares when it is changed
// by commands: JSON Pointers as semantic paths, and differences told by key and
// never by position.
//
// It knows no document; what is compared, and how finely, its callers say.
package semantic

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pxhost/pxhost/shared/canon"
)

var escape = strings.NewReplacer("~", "~0", "/", "~1")

// Pointer returns the JSON Pointer of the member reached by the names.
func Pointer(names ...string) string {
	var b strings.Builder
	for _, name := range names {
		b.WriteByte('/')
		escape.WriteString(&b, name)
	}
	return b.String()
}

// Within reports whether path is at or below the other path.
func Within(path, other string) bool {
	return strings.HasPrefix(path, other) && (len(path) == len(other) || path[len(other)] == '/')
}

// Outermost returns the paths that lie below no other, in order.
func Outermost(paths map[string]bool) []string {
	out := []string{}
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		below := path != "" && paths[""]
		for i := strings.LastIndexByte(path, '/'); i > 0 && !below; i = strings.LastIndexByte(path[:i], '/') {
			below = paths[path[:i]]
		}
		if !below {
			out = append(out, path)
		}
	}
	return out
}

// The operations of a Change.
const (
	OpAdd     = "add"
	OpRemove  = "remove"
	OpReplace = "replace"
)

// A Change is one difference between two documents at one semantic path.
type Change struct {
	Path   string    `json:"path"`
	Op     string    `json:"op"`
	Before canon.Raw `json:"before,omitzero"` // not of an add
	After  canon.Raw `json:"after,omitzero"`  // not of a remove
}

// A Differ collects the differences of two documents. The zero value is ready.
type Differ struct {
	changes []Change
	err     error
}

// Compare adds a change if the canonical encodings differ. A nil value is one
// that is not there; a canon.Raw must be canonical.
func (d *Differ) Compare(path string, before, after any) {
	a, b := d.encode(path, before), d.encode(path, after)
	switch {
	case a == nil && b == nil, a != nil && b != nil && bytes.Equal(a, b):
	case a == nil:
		d.changes = append(d.changes, Change{Path: path, Op: OpAdd, After: b})
	case b == nil:
		d.changes = append(d.changes, Change{Path: path, Op: OpRemove, Before: a})
	default:
		d.changes = append(d.changes, Change{Path: path, Op: OpReplace, Before: a, After: b})
	}
}

func (d *Differ) encode(path string, v any) canon.Raw {
	if v == nil || d.err != nil {
		return nil
	}
	if raw, ok := v.(canon.Raw); ok {
		return raw
	}
	text, err := canon.Encode(v)
	if err != nil {
		d.err = fmt.Errorf("semantic: encode %s: %w", path, err)
	}
	return text
}

// Changes returns what was collected, in order of paths.
func (d *Differ) Changes() ([]Change, error) {
	slices.SortFunc(d.changes, func(a, b Change) int { return strings.Compare(a.Path, b.Path) })
	return d.changes, d.err
}

// At returns the element as a value that is nil when the key is not there.
func At[V any](m map[string]V, key string) any {
	if v, ok := m[key]; ok {
		return v
	}
	return nil
}

// BothKeys returns the keys of either map, once each, in order.
func BothKeys[V, W any](a map[string]V, b map[string]W) []string {
	keys := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(keys)
	return slices.Compact(keys)
}
