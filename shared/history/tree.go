package history

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Limits of a tree's entries, in bytes. Keys and values are never empty.
const (
	MaxKey   = 1024
	MaxValue = 256 << 10
)

// A Tree reads and changes persistent, content-addressed maps from string keys
// to byte strings. A map is named by the Ref of its root node; the empty Ref is
// the empty map. Roots never change: applying edits gives another root that
// shares every node that did not change.
//
// # Why content-defined boundaries
//
// Where a node ends is decided by a hash of the key it ends with, not by how the
// tree was filled. So the shape is a function of the content alone: the same
// entries have the same root, whoever applied which edits in which order and
// batches. A classic B+tree with split and merge thresholds has as many roots
// for one content as there are histories. The price is that node sizes vary, and
// that the bound on nodes written by one edit is an expectation and not a
// guarantee: replacing a value writes one node a level (unless the value's size
// changes and the end of its node depends on just that); adding or removing a
// key writes one more where a boundary moves. Shape bounds the size of every
// node. Who chooses keys so that their hashes never make a boundary gets nodes
// of the greatest size, and pays with more written nodes in his own Project.
//
// # Why nodes are not compressed here
//
// A Ref is the digest of a node's plain bytes. Compressed bytes depend on the
// compressor's version, and would give one content two roots. The store
// compresses what it keeps; SearchShape has larger nodes because text shrinks to
// a quarter or less there.
type Tree struct {
	Objects Objects
	Cache   *Cache // may be nil
	Shape   Shape
}

// A Shape says how large the nodes of a tree are. It is part of the format: the
// same entries in another shape have another root.
type Shape struct {
	// Target is the usual size of a node in bytes, before keys are shortened. No
	// node is larger than twice that and one entry.
	Target int
	// Summaries says that a summary of each leaf stands in the node above, which
	// then is some hundred bytes larger for it. Texts are found by them (Matching).
	Summaries bool
}

// The shapes in use.
var (
	CatalogShape = Shape{Target: 16 << 10}
	SearchShape  = Shape{Target: 64 << 10, Summaries: true}
)

// An Edit sets a key to Value, or deletes it.
type Edit struct {
	Key    string
	Value  []byte
	Delete bool
}

// ErrCorrupt is wrapped by what reading reports of an object that is not what
// its place in a tree or chain demands.
var ErrCorrupt = errors.New("history: corrupt object")

// ends reports whether a node ends after an item of this key and weight, when
// the node weighs before without it. Small nodes never end, usual ones sometimes,
// large ones often, too large ones always.
func (s Shape) ends(level int, key string, before, weight int) bool {
	after := before + weight
	mean := s.Target * 3 / 4
	switch {
	case after < s.Target/4:
		return false
	case after >= 2*s.Target:
		return true
	case after >= s.Target:
		mean = s.Target / 4
	}
	if weight >= mean {
		return true
	}
	// The level is hashed too: else a key that ends a leaf would tend to end
	// every node above.
	var buffer [64]byte
	sum := sha256.Sum256(append(append(buffer[:0], byte(level)), key...))
	return binary.BigEndian.Uint64(sum[:8]) < math.MaxUint64/uint64(mean)*uint64(weight)
}

// weightOf an item is what it adds to a node, in bytes before keys are shortened.
func weightOf(it item) int { return len(it.key) + len(it.value) + 4 }

// A chunker cuts a stream of items into nodes. At a boundary it remembers nothing.
type chunker struct {
	shape  Shape
	level  int
	items  []item
	weight int
	out    []chunk
}

type chunk struct {
	last    string
	ref     Ref
	body    []byte
	summary summary // of a leaf, where the shape has them
}

func (c *chunker) add(it item) {
	w := weightOf(it)
	c.items = append(c.items, it)
	end := c.shape.ends(c.level, it.key, c.weight, w)
	c.weight += w
	if end {
		c.close()
	}
}

func (c *chunker) close() {
	if len(c.items) == 0 {
		return
	}
	body := encodeNode(c.level, c.items)
	made := chunk{last: c.items[len(c.items)-1].key, ref: RefOf(body), body: body}
	if c.level == 0 && c.shape.Summaries {
		made.summary = summarize(c.items)
	}
	c.out = append(c.out, made)
	c.items, c.weight = c.items[:0], 0
}

func (c *chunker) atBoundary() bool { return len(c.items) == 0 }

// load returns nodes in the order of refs, from the cache or in one read.
func (t Tree) load(ctx context.Context, space Space, refs ...Ref) ([]*node, error) {
	nodes := make([]*node, len(refs))
	var missing []Ref
	var places []int
	for i, ref := range refs {
		if nodes[i], _ = t.Cache.Get(space, ref).(*node); nodes[i] == nil {
			missing, places = append(missing, ref), append(places, i)
		}
	}
	if len(missing) == 0 {
		return nodes, nil
	}
	bodies, err := t.Objects.Get(ctx, space, missing...)
	if err != nil {
		return nil, fmt.Errorf("history: read tree nodes: %w", err)
	}
	for i, body := range bodies {
		n, err := decodeNode(body)
		if err != nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrCorrupt, missing[i], err)
		}
		t.Cache.Put(space, missing[i], n, n.size)
		nodes[places[i]] = n
	}
	return nodes, nil
}

func (t Tree) loadOne(ctx context.Context, space Space, ref Ref) (*node, error) {
	nodes, err := t.load(ctx, space, ref)
	if err != nil {
		return nil, err
	}
	return nodes[0], nil
}

// Get returns the value of a key. Callers must not change it.
func (t Tree) Get(ctx context.Context, space Space, root Ref, key string) (value []byte, ok bool, err error) {
	values, err := t.GetMany(ctx, space, root, key)
	if err != nil {
		return nil, false, err
	}
	return values[0], values[0] != nil, nil
}

// GetMany returns the values in the order of keys, nil for those that are not
// there. It makes one read a level, however many keys there are.
func (t Tree) GetMany(ctx context.Context, space Space, root Ref, keys ...string) ([][]byte, error) {
	values := make([][]byte, len(keys))
	if root == "" || len(keys) == 0 {
		return values, nil
	}
	at := make([]Ref, len(keys))
	for i := range at {
		at[i] = root
	}
	for level := -1; ; {
		unique := slices.Compact(slices.Sorted(slices.Values(at)))
		loaded, err := t.load(ctx, space, unique...)
		if err != nil {
			return nil, err
		}
		for i, ref := range at {
			j, _ := slices.BinarySearch(unique, ref)
			n := loaded[j]
			if level >= 0 && n.level != level {
				return nil, fmt.Errorf("%w: %s: level %d where %d belongs", ErrCorrupt, ref, n.level, level)
			}
			if n.level == 0 {
				if k := n.find(keys[i]); k < len(n.items) && n.items[k].key == keys[i] {
					values[i] = n.items[k].value
				}
				continue
			}
			at[i] = n.ref(n.child(keys[i]))
		}
		if level = loaded[0].level - 1; level < 0 {
			return values, nil
		}
	}
}

// Apply makes the edits and returns the new root, which is durable with all that
// it needs. Edits are a set: their order has no meaning, and two of one key are an
// error. Deleting what is not there changes nothing. New nodes are stored in one
// Put; if nothing changes, nothing is stored and the root stays.
func (t Tree) Apply(ctx context.Context, space Space, root Ref, edits []Edit) (Ref, error) {
	next, bodies, err := t.Stage(ctx, space, root, edits)
	if err != nil || len(bodies) == 0 {
		return next, err
	}
	if err := t.Objects.Put(ctx, space, bodies...); err != nil {
		return "", fmt.Errorf("history: store tree nodes: %w", err)
	}
	for _, body := range bodies {
		if n, err := decodeNode(body); err == nil {
			t.Cache.Put(space, RefOf(body), n, n.size)
		}
	}
	return next, nil
}

// Stage is Apply without the Put: it returns the new nodes, so that the caller
// can store them together with what else belongs to the change. The root may be
// used only after they are durable.
func (t Tree) Stage(ctx context.Context, space Space, root Ref, edits []Edit) (Ref, [][]byte, error) {
	sorted, err := checkEdits(edits)
	if err != nil || len(sorted) == 0 {
		return root, nil, err
	}
	w := &writer{Tree: t, ctx: ctx, space: space, root: root, nodes: map[Ref]*node{}}
	return w.write(sorted)
}

func checkEdits(edits []Edit) ([]Edit, error) {
	sorted := slices.Clone(edits)
	slices.SortFunc(sorted, func(a, b Edit) int { return strings.Compare(a.Key, b.Key) })
	for i, e := range sorted {
		switch {
		case e.Key == "" || len(e.Key) > MaxKey:
			return nil, fmt.Errorf("history: an edit's key has %d bytes, not 1 to %d", len(e.Key), MaxKey)
		case i > 0 && sorted[i-1].Key == e.Key:
			return nil, errors.New("history: two edits of one key")
		case !e.Delete && (len(e.Value) == 0 || len(e.Value) > MaxValue):
			return nil, fmt.Errorf("history: an edit's value has %d bytes, not 1 to %d", len(e.Value), MaxValue)
		}
	}
	return sorted, nil
}

// A writer rewrites one tree, level by level from the leaves up. What happens on
// a level is a set of edits for the level above: the same operation again, with
// children's last keys for keys and digests for values.
type writer struct {
	Tree
	ctx   context.Context
	space Space
	root  Ref
	top   int // level of the old root, -1 without one
	nodes map[Ref]*node
	fresh []chunk // new nodes, leaves first
}

func (w *writer) write(edits []Edit) (Ref, [][]byte, error) {
	if err := w.prefetch(edits); err != nil {
		return "", nil, err
	}
	for level := 0; ; level++ {
		gone, made, err := w.rewrite(level, edits)
		if err != nil {
			return "", nil, err
		}
		for _, m := range made {
			if w.nodes[m.ref] == nil {
				w.fresh = append(w.fresh, m)
			}
		}
		if level < w.top {
			if edits = upward(gone, made); len(edits) == 0 {
				return w.root, nil, nil
			}
			continue
		}
		// The old root, if there was one, was the only node of this level, so made is all of it.
		switch len(made) {
		case 0:
			return "", nil, nil
		case 1:
			return w.finish(made[0].ref)
		}
		edits = upward(nil, made)
	}
}

// finish returns the tree under root. A root with one child is no root: the
// child is. Only nodes over the true root can have one child, and those are left out.
func (w *writer) finish(root Ref) (Ref, [][]byte, error) {
	for {
		var n *node
		var err error
		i := slices.IndexFunc(w.fresh, func(c chunk) bool { return c.ref == root })
		if i >= 0 {
			n, err = decodeNode(w.fresh[i].body)
		} else {
			n, err = w.node(root)
		}
		if err != nil {
			return "", nil, err
		}
		if n.level == 0 || len(n.items) > 1 {
			break
		}
		if i >= 0 {
			w.fresh = slices.Delete(w.fresh, i, i+1)
		}
		root = n.ref(0)
	}
	bodies := make([][]byte, len(w.fresh))
	for i, c := range w.fresh {
		bodies[i] = c.body
	}
	return root, bodies, nil
}

// prefetch reads the nodes that the edits lie in, one read a level.
func (w *writer) prefetch(edits []Edit) error {
	w.top = -1
	if w.root == "" {
		return nil
	}
	for refs := []Ref{w.root}; len(refs) > 0; {
		loaded, err := w.load(w.ctx, w.space, refs...)
		if err != nil {
			return err
		}
		var next []Ref
		i := 0
		for k, n := range loaded {
			w.nodes[refs[k]] = n
			w.top = max(w.top, n.level)
			if n.level == 0 {
				continue
			}
			for c := range n.items {
				first := i
				for i < len(edits) && (edits[i].Key <= n.items[c].key || (k == len(loaded)-1 && c == len(n.items)-1)) {
					i++
				}
				if i > first {
					next = append(next, n.ref(c))
				}
			}
		}
		refs = next
	}
	return nil
}

func (w *writer) node(ref Ref) (*node, error) {
	if n := w.nodes[ref]; n != nil {
		return n, nil
	}
	n, err := w.loadOne(w.ctx, w.space, ref)
	if err == nil {
		w.nodes[ref] = n
	}
	return n, err
}

// A place is a node of the old tree, found on the way from the root.
type place struct {
	ref  Ref
	node *node
	last bool // no node of its level comes after it
}

// seek finds the node of a level that key belongs to; with after, the node that
// holds the first key behind it. There is one.
func (w *writer) seek(level int, key string, after bool) (place, error) {
	at := place{ref: w.root, last: true}
	for want := w.top; ; want-- {
		n, err := w.node(at.ref)
		if err != nil {
			return at, err
		}
		if n.level != want {
			return at, fmt.Errorf("%w: %s: level %d where %d belongs", ErrCorrupt, at.ref, n.level, want)
		}
		if at.node = n; n.level == level {
			return at, nil
		}
		i := n.child(key)
		if after && n.items[i].key == key && i+1 < len(n.items) {
			i++
		}
		at.ref, at.last = n.ref(i), at.last && i == len(n.items)-1
	}
}

// rewrite applies edits to one level. It returns the nodes that are no longer
// part of it and those that are new; a node may be in both.
//
// It starts at the beginning of a node, which is a boundary before and after the
// edits alike since nothing before it changed, and goes on to the next node until
// a boundary falls on the end of an old one: from there on nothing differs.
func (w *writer) rewrite(level int, edits []Edit) (gone []place, made []chunk, err error) {
	c := &chunker{shape: w.Shape, level: level}
	for len(edits) > 0 {
		if level > w.top {
			for _, e := range edits {
				if !e.Delete {
					c.add(item{e.Key, e.Value})
				}
			}
			c.close()
			break
		}
		at, err := w.seek(level, edits[0].Key, false)
		for {
			if err != nil {
				return nil, nil, err
			}
			gone = append(gone, at)
			edits = merge(c, at, edits)
			if at.last {
				c.close()
			}
			if c.atBoundary() {
				break
			}
			at, err = w.seek(level, at.node.last(), true)
		}
	}
	return gone, c.out, nil
}

// merge feeds an old node with the edits that belong to it to the chunker, and
// returns the other edits.
func merge(c *chunker, at place, edits []Edit) []Edit {
	for _, it := range at.node.items {
		for len(edits) > 0 && edits[0].Key < it.key {
			if !edits[0].Delete {
				c.add(item{edits[0].Key, edits[0].Value})
			}
			edits = edits[1:]
		}
		if len(edits) > 0 && edits[0].Key == it.key {
			if !edits[0].Delete {
				c.add(item{it.key, edits[0].Value})
			}
			edits = edits[1:]
			continue
		}
		c.add(it)
	}
	for at.last && len(edits) > 0 {
		if !edits[0].Delete {
			c.add(item{edits[0].Key, edits[0].Value})
		}
		edits = edits[1:]
	}
	return edits
}

// upward turns what happened on a level into edits for the level above.
func upward(gone []place, made []chunk) []Edit {
	before := make(map[string]Ref, len(gone))
	for _, g := range gone {
		before[g.node.last()] = g.ref
	}
	var edits []Edit
	for _, m := range made {
		if before[m.last] != m.ref {
			digest, _ := m.ref.digest()
			edits = append(edits, Edit{Key: m.last, Value: append(digest, m.summary...)})
		}
		delete(before, m.last)
	}
	for key := range before {
		edits = append(edits, Edit{Key: key, Delete: true})
	}
	slices.SortFunc(edits, func(a, b Edit) int { return strings.Compare(a.Key, b.Key) })
	return edits
}
