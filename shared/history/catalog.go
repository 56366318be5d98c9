package history

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/pxhost/pxhost/shared/canon"
)

// A Root names both trees of one catalog snapshot. It is an object; Head.Root
// and Commit.Root are its Ref. The empty Ref is the empty catalog.
type Root struct {
	Catalog Ref `json:"catalog,omitzero"` // CatalogShape: keys to entries, and reverse uses
	Search  Ref `json:"search,omitzero"`  // SearchShape: the same keys to normalized text, with summaries
}

// An Entry is what the catalog says of one thing of a Project. Its key is
// "kind/key", as in "flow/girder_check".
type Entry struct {
	// RevisionRef is the object that holds the current revision.
	RevisionRef Ref `json:"revisionRef,omitzero"`
	// Generation is 0 at the first save and grows by one with each change.
	Generation  int64             `json:"generation"`
	Label       map[string]string `json:"label,omitzero"` // by BCP 47 tag
	Description string            `json:"description,omitzero"`
	// Uses are the keys of what this revision refers to. The reverse entries are
	// derived from them and from nothing else.
	Uses []string `json:"uses,omitzero"`
	// Detail is what else this kind needs without reading the revision, such as
	// a Function's version and digests. Canonical.
	Detail canon.Raw `json:"detail,omitzero"`
}

// Key returns the catalog key of a thing.
func Key(kind, key string) string { return kind + "/" + key }

// RevisionKey returns the key under which one revision of a thing is remembered,
// beside the thing's own key: so that an old revision can be told from a document
// that was planned and never saved. Its entry holds revision and generation only.
func RevisionKey(key string, revision Ref) string { return key + "@" + string(revision) }

const usedPrefix = "used/"

func useKey(used, by string) string { return usedPrefix + used + "/" + by }

// A Catalog reads and stages catalog snapshots.
type Catalog struct {
	objects Objects
	cache   *Cache
	catalog Tree
	search  Tree
}

// NewCatalog returns a catalog over the objects of any number of Spaces. cache
// may be shared by all of the process, or be nil.
func NewCatalog(objects Objects, cache *Cache) Catalog {
	return Catalog{objects, cache, Tree{objects, cache, CatalogShape}, Tree{objects, cache, SearchShape}}
}

// Root reads the root object.
func (c Catalog) Root(ctx context.Context, space Space, ref Ref) (Root, error) {
	if ref == "" {
		return Root{}, nil
	}
	if root, ok := c.cache.Get(space, ref).(Root); ok {
		return root, nil
	}
	bodies, err := c.objects.Get(ctx, space, ref)
	if err != nil {
		return Root{}, fmt.Errorf("history: read catalog root: %w", err)
	}
	var root Root
	if err := decodeExactly(bodies[0], &root); err != nil {
		return Root{}, fmt.Errorf("%w: %s: catalog root: %w", ErrCorrupt, ref, err)
	}
	c.cache.Put(space, ref, root, 512)
	return root, nil
}

// decodeExactly reads an object of which canon.Encode gives the same bytes again.
func decodeExactly(body []byte, into any) error {
	if err := json.Unmarshal(body, into, json.RejectUnknownMembers(true)); err != nil {
		return err
	}
	again, err := canon.Encode(into)
	if err == nil && string(again) != string(body) {
		err = errors.New("not in canonical form")
	}
	return err
}

// Entry returns the entry of a key, or nil when there is none.
func (c Catalog) Entry(ctx context.Context, space Space, root Ref, key string) (*Entry, error) {
	entries, err := c.Entries(ctx, space, root, key)
	if err != nil {
		return nil, err
	}
	return entries[0], nil
}

// Entries returns the entries in the order of keys, nil for those that are not
// there. It makes one read a level, however many keys there are.
func (c Catalog) Entries(ctx context.Context, space Space, root Ref, keys ...string) ([]*Entry, error) {
	entries := make([]*Entry, len(keys))
	r, err := c.Root(ctx, space, root)
	if err != nil {
		return nil, err
	}
	values, err := c.catalog.GetMany(ctx, space, r.Catalog, keys...)
	if err != nil {
		return nil, err
	}
	for i, value := range values {
		if value != nil && !strings.HasPrefix(keys[i], usedPrefix) {
			if entries[i], err = decodeEntry(value); err != nil {
				return nil, err
			}
		}
	}
	return entries, nil
}

func decodeEntry(value []byte) (*Entry, error) {
	var e Entry
	if err := json.Unmarshal(value, &e, json.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf("%w: catalog entry: %w", ErrCorrupt, err)
	}
	return &e, nil
}

// A Listed is an entry with its key.
type Listed struct {
	Key   string
	Entry Entry
}

// List returns the entries whose key has the prefix ("flow/") and is at least
// from, in key order, lazily as Tree.Range does. Reverse uses are not listed.
func (c Catalog) List(ctx context.Context, space Space, root Ref, from, prefix string) iter.Seq2[Listed, error] {
	return func(yield func(Listed, error) bool) {
		r, err := c.Root(ctx, space, root)
		if err != nil {
			yield(Listed{}, err)
			return
		}
		for it, err := range c.catalog.Range(ctx, space, r.Catalog, from, prefix) {
			if err != nil {
				yield(Listed{}, err)
				return
			}
			if strings.HasPrefix(it.Key, usedPrefix) {
				continue
			}
			e, err := decodeEntry(it.Value)
			if err != nil {
				yield(Listed{}, err)
				return
			}
			if !yield(Listed{it.Key, *e}, nil) {
				return
			}
		}
	}
}

// Users returns the keys of what refers to used, in order: a range read, however
// large the Project is.
func (c Catalog) Users(ctx context.Context, space Space, root Ref, used string) iter.Seq2[string, error] {
	return c.UsersFrom(ctx, space, root, used, "", "")
}

// UsersFrom is Users of those keys that have the prefix and are at least from.
func (c Catalog) UsersFrom(ctx context.Context, space Space, root Ref, used, from, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		r, err := c.Root(ctx, space, root)
		if err != nil {
			yield("", err)
			return
		}
		all := useKey(used, "")
		for it, err := range c.catalog.Range(ctx, space, r.Catalog, all+from, all+prefix) {
			if err != nil {
				yield("", err)
				return
			}
			if !yield(strings.TrimPrefix(it.Key, all), nil) {
				return
			}
		}
	}
}

// A Text is the normalized search text of a key.
type Text struct {
	Key  string
	Text string
	// Passed is more than 0 for a Text that is none: texts that cannot match were
	// left out up to Key, and deciding that took so many bytes.
	Passed int
}

// Texts returns the search texts whose key has the prefix and is at least from,
// in key order: all, or all of those in which every term occurs and whatever else
// was read with them. What it leaves out is not read; see Tree.Matching.
func (c Catalog) Texts(ctx context.Context, space Space, root Ref, from, prefix string, terms ...string) iter.Seq2[Text, error] {
	return func(yield func(Text, error) bool) {
		r, err := c.Root(ctx, space, root)
		if err != nil {
			yield(Text{}, err)
			return
		}
		for it, err := range c.search.Matching(ctx, space, r.Search, from, prefix, terms...) {
			if err != nil {
				yield(Text{}, err)
				return
			}
			if !yield(Text{it.Key, string(it.Value), it.Passed}, nil) {
				return
			}
		}
	}
}

// An EntryDifference is what changed of one key between two snapshots. Nil means
// not there.
type EntryDifference struct {
	Key      string
	Old, New *Entry
}

// Diff returns the entries that differ between two snapshots, in key order,
// without the reverse uses. It reads only what the snapshots do not share.
func (c Catalog) Diff(ctx context.Context, space Space, old, new Ref) iter.Seq2[EntryDifference, error] {
	return func(yield func(EntryDifference, error) bool) {
		a, err := c.Root(ctx, space, old)
		if err != nil {
			yield(EntryDifference{}, err)
			return
		}
		b, err := c.Root(ctx, space, new)
		if err != nil {
			yield(EntryDifference{}, err)
			return
		}
		for d, err := range c.catalog.Diff(ctx, space, a.Catalog, b.Catalog) {
			out := EntryDifference{Key: d.Key}
			if err == nil && strings.HasPrefix(d.Key, usedPrefix) {
				continue
			}
			if err == nil && d.Old != nil {
				out.Old, err = decodeEntry(d.Old)
			}
			if err == nil && d.New != nil {
				out.New, err = decodeEntry(d.New)
			}
			if err != nil {
				yield(EntryDifference{}, err)
				return
			}
			if !yield(out, nil) {
				return
			}
		}
	}
}

// A Change sets or removes one entry.
type Change struct {
	Key   string
	Entry *Entry // nil removes the entry and its text
	// Text is the entry's search text, folded and normalized by the caller; ""
	// is none. Nil leaves the text as it is and costs no read of the search tree.
	Text *string
}

// Stage computes the snapshot that the changes make of root, and the objects
// that must be durable before the new root is used: the caller puts them
// together with what else belongs to the change. The reverse uses follow from
// the old and new entries. Changes of one key twice are an error.
func (c Catalog) Stage(ctx context.Context, space Space, root Ref, changes []Change) (Ref, [][]byte, error) {
	before, err := c.Root(ctx, space, root)
	if err != nil {
		return "", nil, err
	}
	keys := make([]string, len(changes))
	for i, change := range changes {
		if change.Key == "" || strings.HasPrefix(change.Key, usedPrefix) {
			return "", nil, errors.New("history: no key for an entry")
		}
		keys[i] = change.Key
	}
	old, err := c.Entries(ctx, space, root, keys...)
	if err != nil {
		return "", nil, err
	}
	var entries, texts []Edit
	for i, change := range changes {
		edit, uses, err := entryEdits(change, old[i])
		if err != nil {
			return "", nil, err
		}
		entries = append(append(entries, edit), uses...)
		switch {
		case change.Entry == nil || (change.Text != nil && *change.Text == ""):
			texts = append(texts, Edit{Key: change.Key, Delete: true})
		case change.Text != nil:
			texts = append(texts, Edit{Key: change.Key, Value: []byte(*change.Text)})
		}
	}
	after := before
	var bodies, more [][]byte
	if after.Catalog, bodies, err = c.catalog.Stage(ctx, space, before.Catalog, entries); err != nil {
		return "", nil, err
	}
	if after.Search, more, err = c.search.Stage(ctx, space, before.Search, texts); err != nil {
		return "", nil, err
	}
	switch after {
	case before:
		return root, nil, nil
	case Root{}:
		return "", nil, nil
	}
	body, err := canon.Encode(after)
	if err != nil {
		return "", nil, err
	}
	return RefOf(body), slices.Concat(bodies, more, [][]byte{body}), nil
}

// entryEdits returns the edit of the entry and those of its reverse uses.
func entryEdits(change Change, old *Entry) (Edit, []Edit, error) {
	gone, made := map[string]bool{}, map[string]bool{}
	if old != nil {
		for _, used := range old.Uses {
			gone[used] = true
		}
	}
	edit := Edit{Key: change.Key, Delete: true}
	if change.Entry != nil {
		e := *change.Entry
		e.Uses = slices.Compact(slices.Sorted(slices.Values(e.Uses)))
		value, err := canon.Encode(e)
		if err != nil {
			return edit, nil, err
		}
		edit = Edit{Key: change.Key, Value: value}
		for _, used := range e.Uses {
			// Two parts each, or one use could be read as another's.
			if strings.Count(used, "/") != 1 || strings.Count(change.Key, "/") != 1 {
				return edit, nil, errors.New("history: a use is between two keys of the form kind/key")
			}
			made[used] = !gone[used]
			delete(gone, used)
		}
	}
	var edits []Edit
	for _, used := range slices.Sorted(maps.Keys(gone)) {
		edits = append(edits, Edit{Key: useKey(used, change.Key), Delete: true})
	}
	for _, used := range slices.Sorted(maps.Keys(made)) {
		if made[used] {
			edits = append(edits, Edit{Key: useKey(used, change.Key), Value: []byte("{}")})
		}
	}
	return edit, edits, nil
}

// Apply stages the changes and stores what they need.
func (c Catalog) Apply(ctx context.Context, space Space, root Ref, changes []Change) (Ref, error) {
	next, bodies, err := c.Stage(ctx, space, root, changes)
	if err != nil || len(bodies) == 0 {
		return next, err
	}
	if err := c.objects.Put(ctx, space, bodies...); err != nil {
		return "", fmt.Errorf("history: store catalog: %w", err)
	}
	return next, nil
}
