package semantic

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/pxhost/pxhost/shared/canon"
)

// A Conflict is one semantic path that a proposal and newer changes both concern,
// with what stands there in the proposal's base, now, and in the proposal. A
// member is absent where that side has nothing.
type Conflict struct {
	Path     string    `json:"path"`
	Base     canon.Raw `json:"base,omitzero"`
	Current  canon.Raw `json:"current,omitzero"`
	Proposed canon.Raw `json:"proposed,omitzero"`
}

// Conflicts returns, in order of paths, where a proposal that touches paths of a
// base meets what changed since that base: where one path is the other, or stands
// above or below it. Nothing is guessed to be compatible: the same change made
// twice is a conflict, too.
//
// Of two paths the lower is told, as the finer, unless one of the sides left what
// stands there alone; then it is the upper. So every conflict shows both changes.
// The documents are canonical.
func Conflicts(touched []string, changed []Change, base, current, proposed canon.Raw) ([]Conflict, error) {
	touches, changes := make(map[string]bool, len(touched)), make(map[string]bool, len(changed))
	for _, path := range touched {
		touches[path] = true
	}
	for _, c := range changed {
		changes[c.Path] = true
	}
	documents := [3]*document{newDocument(base), newDocument(current), newDocument(proposed)}
	found := map[string]Conflict{}
	meet := func(lower, upper string) error {
		c, err := at(documents, lower)
		if err == nil && lower != upper && (string(c.Base) == string(c.Current) || string(c.Base) == string(c.Proposed)) {
			c, err = at(documents, upper)
		}
		found[c.Path] = c
		return err
	}
	for path := range touches {
		for upper := range upwards(path) {
			if changes[upper] {
				if err := meet(path, upper); err != nil {
					return nil, err
				}
			}
		}
	}
	for path := range changes {
		for upper := range upwards(path) {
			if touches[upper] {
				if err := meet(path, upper); err != nil {
					return nil, err
				}
			}
		}
	}
	out := make([]Conflict, 0, len(found))
	for _, path := range slices.Sorted(maps.Keys(found)) {
		out = append(out, found[path])
	}
	return out, nil
}

// upwards yields a path and all above it, the whole document, "", last.
func upwards(path string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for {
			if !yield(path) || path == "" {
				return
			}
			path = path[:max(strings.LastIndexByte(path, '/'), 0)]
		}
	}
}

func at(documents [3]*document, path string) (Conflict, error) {
	c := Conflict{Path: path}
	for i, into := range []*canon.Raw{&c.Base, &c.Current, &c.Proposed} {
		var err error
		if *into, err = documents[i].at(path); err != nil {
			return c, err
		}
	}
	return c, nil
}

// A document is canonical JSON whose objects are taken apart when they are first
// looked into, each once, however many paths lead through it.
type document struct {
	text    canon.Raw
	members map[string]map[string]jsontext.Value // by the path of the object
}

func newDocument(text canon.Raw) *document {
	return &document{text, map[string]map[string]jsontext.Value{}}
}

var unescape = strings.NewReplacer("~1", "/", "~0", "~")

// at returns what stands at a path, nil for nothing. A path leads through objects
// alone: what is in a list has no semantic path.
func (d *document) at(path string) (canon.Raw, error) {
	if path == "" {
		return d.text, nil
	}
	cut := strings.LastIndexByte(path, '/')
	if cut < 0 {
		return nil, fmt.Errorf("semantic: %q is no path", path)
	}
	above, name := path[:cut], unescape.Replace(path[cut+1:])
	members, known := d.members[above]
	if !known {
		text, err := d.at(above)
		if err != nil {
			return nil, err
		}
		if text.Kind() == '{' {
			if err := json.Unmarshal(text, &members); err != nil {
				return nil, fmt.Errorf("semantic: a document that is no JSON: %w", err)
			}
		}
		d.members[above] = members
	}
	return canon.Raw(members[name]), nil
}
