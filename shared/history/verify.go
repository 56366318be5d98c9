package history

import (
	"context"
	"fmt"
	"strings"
)

// A Verifier checks the whole history of a Space without its store: from an
// export, or from anything else that gives bytes for a Ref.
type Verifier struct {
	// Read returns the bytes of objects, in order. They are checked against the Refs.
	Read func(refs ...Ref) ([][]byte, error)
	// Follow names further objects that a revision needs, such as a Function's
	// source; they are read and checked too. It may be nil.
	Follow func(key string, entry Entry, revision []byte) ([]Ref, error)
}

// Verified counts what a Verifier has found in order.
type Verified struct {
	Commits int
	Changes int // of single targets, over all commits
	Objects int // distinct objects read, commits included
}

// maxTogether is how many revisions a Verifier reads at once: what it holds in
// memory is that, its cache of tree nodes, and the Refs of what it has seen.
const maxTogether = 64

// Verify walks the chain that ends in head and proves that
//
//   - every object has the digest by which it is named, and its one form;
//   - versions count up by one to a first commit without parent;
//   - every commit changed exactly the entries that it lists, from and to the
//     revisions that it says, and no other, save that it may remember a listed
//     result under its RevisionKey;
//   - the reverse uses are those that the entries imply.
//
// So a changed byte anywhere below head is found, and so is a commit that does
// not say what it did. The error wraps ErrCorrupt, or is what Read returned. All
// that Read was asked for is what an export of the Space has to hold.
func (v Verifier) Verify(head Ref) (Verified, error) {
	ctx := context.Background()
	source := &offline{read: v.Read, seen: map[Ref]bool{}}
	// The walk is from new to old, the proof from old to new. A commit may list
	// thousands of changes, so that they are read twice and not kept.
	var chain []Ref
	var version int64 // of the commit behind
	for at := head; at != ""; {
		c, err := ReadCommit(ctx, source, "", at)
		if err != nil {
			return Verified{}, fmt.Errorf("commit %s: %w", at, err)
		}
		if len(chain) > 0 && c.Version != version-1 {
			return Verified{}, fmt.Errorf("%w: commit %s: version %d before %d", ErrCorrupt, at, c.Version, version)
		}
		chain, version = append(chain, at), c.Version
		at = c.Parent
	}
	if n := len(chain); n > 0 && version != 1 {
		return Verified{}, fmt.Errorf("%w: commit %s: version %d is the first", ErrCorrupt, chain[n-1], version)
	}
	catalog := NewCatalog(source, NewCache(64<<20))
	done := Verified{Commits: len(chain)}
	root := Ref("")
	for i := len(chain) - 1; i >= 0; i-- {
		c, err := ReadCommit(ctx, source, "", chain[i])
		if err == nil {
			err = v.step(ctx, source, catalog, root, c)
		}
		if err != nil {
			return Verified{}, fmt.Errorf("commit %s: %w", chain[i], err)
		}
		root = c.Root
		done.Changes += len(c.Changes)
	}
	done.Objects = len(source.seen)
	return done, nil
}

// step proves one commit on the snapshot before it.
func (v Verifier) step(ctx context.Context, source *offline, catalog Catalog, before Ref, c Commit) error {
	listed := make(map[string]bool, len(c.Changes))
	remembered := make(map[string]*Revision, len(c.Changes)) // by RevisionKey
	keys := make([]string, len(c.Changes))
	for i, change := range c.Changes {
		if listed[change.Key] {
			return fmt.Errorf("%w: %s is listed twice", ErrCorrupt, change.Key)
		}
		listed[change.Key], keys[i] = true, change.Key
		if change.Result != nil {
			remembered[RevisionKey(change.Key, change.Result.RevisionRef)] = change.Result
		}
	}
	old, err := catalog.Entries(ctx, "", before, keys...)
	if err != nil {
		return err
	}
	now, err := catalog.Entries(ctx, "", c.Root, keys...)
	if err != nil {
		return err
	}
	for i, change := range c.Changes {
		if !change.Base.of(old[i]) || !change.Result.of(now[i]) {
			return fmt.Errorf("%w: %s is not what the commit says", ErrCorrupt, change.Key)
		}
	}

	a, err := catalog.Root(ctx, "", before)
	if err != nil {
		return err
	}
	b, err := catalog.Root(ctx, "", c.Root)
	if err != nil {
		return err
	}
	wanted, found := map[string]bool{}, map[string]bool{} // reverse uses: true when made, false when gone
	var together []named
	for d, err := range catalog.catalog.Diff(ctx, "", a.Catalog, b.Catalog) {
		if err != nil {
			return err
		}
		if strings.HasPrefix(d.Key, usedPrefix) {
			found[d.Key] = d.New != nil
			continue
		}
		if !listed[d.Key] && !remembers(d, remembered[d.Key]) {
			return fmt.Errorf("%w: %s changed and is not listed", ErrCorrupt, d.Key)
		}
		is, err := entry(d, wanted)
		if err != nil {
			return err
		}
		if is != nil && is.RevisionRef != "" {
			together = append(together, named{d.Key, *is})
		}
		if len(together) == maxTogether {
			if err := v.revisions(source, together); err != nil {
				return err
			}
			together = together[:0]
		}
	}
	if err := v.revisions(source, together); err != nil {
		return err
	}
	if len(wanted) != len(found) {
		return fmt.Errorf("%w: the reverse uses do not follow from the entries", ErrCorrupt)
	}
	for key, made := range wanted {
		if is, ok := found[key]; !ok || is != made {
			return fmt.Errorf("%w: the reverse use %s does not follow from the entries", ErrCorrupt, key)
		}
	}
	for d, err := range catalog.search.Diff(ctx, "", a.Search, b.Search) {
		if err != nil {
			return err
		}
		if !listed[d.Key] {
			return fmt.Errorf("%w: the text of %s changed and it is not listed", ErrCorrupt, d.Key)
		}
	}
	return nil
}

// A named is an entry whose revision has to be there.
type named struct {
	key   string
	entry Entry
}

// revisions reads and checks what entries name. Without Follow, what was read
// before is not read again.
func (v Verifier) revisions(source *offline, of []named) error {
	var refs []Ref
	for _, n := range of {
		if v.Follow != nil || !source.seen[n.entry.RevisionRef] {
			refs = append(refs, n.entry.RevisionRef)
		}
	}
	bodies, err := source.all(refs)
	if err != nil || v.Follow == nil {
		return err
	}
	for i, n := range of {
		more, err := v.Follow(n.key, n.entry, bodies[i])
		if err != nil {
			return fmt.Errorf("%w: the revision of %s: %w", ErrCorrupt, n.key, err)
		}
		if _, err := source.all(more); err != nil {
			return err
		}
	}
	return nil
}

// entry checks the form of a changed entry, and adds the reverse uses that the
// change implies. It returns the entry, nil for one that is gone.
func entry(d Difference, wanted map[string]bool) (*Entry, error) {
	change := Change{Key: d.Key}
	var old *Entry
	var err error
	if d.Old != nil {
		if old, err = decodeEntry(d.Old); err != nil {
			return nil, err
		}
	}
	if d.New != nil {
		if change.Entry, err = decodeEntry(d.New); err != nil {
			return nil, err
		}
	}
	edit, uses, err := entryEdits(change, old)
	if err != nil || string(edit.Value) != string(d.New) {
		return nil, fmt.Errorf("%w: the entry of %s has another form", ErrCorrupt, d.Key)
	}
	for _, use := range uses {
		wanted[use.Key] = !use.Delete
	}
	return change.Entry, nil
}

// remembers reports whether a difference is the memory of a listed result.
func remembers(d Difference, result *Revision) bool {
	if d.New == nil || result == nil {
		return false
	}
	e, err := decodeEntry(d.New)
	return err == nil && result.of(e) && len(e.Uses) == 0
}

// of reports whether r is the revision of an entry; nil is that of none.
func (r *Revision) of(e *Entry) bool {
	if r == nil || e == nil {
		return r == nil && e == nil
	}
	return *r == Revision{e.RevisionRef, e.Generation}
}

// offline gives the objects of an export, each checked.
type offline struct {
	read func(...Ref) ([][]byte, error)
	seen map[Ref]bool
}

func (o *offline) all(refs []Ref) ([][]byte, error) {
	if len(refs) == 0 {
		return nil, nil
	}
	bodies, err := o.read(refs...)
	if err != nil {
		return nil, fmt.Errorf("history: read for verification: %w", err)
	}
	for i, ref := range refs {
		if RefOf(bodies[i]) != ref {
			return nil, fmt.Errorf("%w: object %s has another digest", ErrCorrupt, ref)
		}
		o.seen[ref] = true
	}
	return bodies, nil
}

// Get implements Objects.
func (o *offline) Get(_ context.Context, _ Space, refs ...Ref) ([][]byte, error) { return o.all(refs) }

// Put implements Objects. A verifier writes nothing.
func (o *offline) Put(context.Context, Space, ...[]byte) error {
	panic("history: a verifier writes nothing")
}
