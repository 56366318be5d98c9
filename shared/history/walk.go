package history

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"strings"
)

// An Item is one entry of a tree. Callers must not change Value.
type Item struct {
	Key   string
	Value []byte
	// Passed is of Matching alone, and more than 0 only without a Value.
	Passed int
}

// Range returns the entries whose key has the prefix and is at least from, in
// key order; from may be "" and a page goes on from the last key plus "\x00".
// It reads lazily: one leaf, then two at once, then four, up to readAhead, so
// that a short page costs what it shows and a whole tree few reads. It never
// reads a leaf outside the range. After an error it ends.
func (t Tree) Range(ctx context.Context, space Space, root Ref, from, prefix string) iter.Seq2[Item, error] {
	return t.Matching(ctx, space, root, from, prefix)
}

// Matching is Range without what certainly lacks one of the texts: of a tree whose
// Shape has summaries it leaves out leaves in none of whose values, taken together,
// all texts occur. Of any other tree, and without texts, it is Range.
//
// For every leaf that it leaves out it yields an Item without Value: its Key is
// where the walk goes on, and Passed is the bytes that deciding took. So who
// bounds the work of one call can end there and go on later.
func (t Tree) Matching(ctx context.Context, space Space, root Ref, from, prefix string, texts ...string) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		if root == "" {
			return
		}
		r := &ranging{Tree: t, ctx: ctx, space: space, from: max(from, prefix), prefix: prefix, yield: yield, window: 1, above: 1, sequences: lookedFor(texts)}
		n, err := t.loadOne(ctx, space, root)
		if err != nil {
			yield(Item{}, err)
			return
		}
		r.walk(n)
	}
}

// readAhead is how many leaves Range reads at once, at most.
const readAhead = 32

type ranging struct {
	Tree
	ctx          context.Context
	space        Space
	from, prefix string
	yield        func(Item, error) bool
	window       int      // how many leaves are read at once
	above        int      // how many nodes above leaves
	sequences    []uint32 // all of which a leaf must have
}

// beyond reports whether key lies behind everything with the prefix.
func (r *ranging) beyond(key string) bool {
	return key > r.prefix && !strings.HasPrefix(key, r.prefix)
}

// walk yields what a subtree has of the range and reports whether to go on.
func (r *ranging) walk(n *node) bool {
	if n.level == 0 {
		for _, it := range n.items[n.find(r.from):] {
			if r.beyond(it.key) || !r.yield(Item{Key: it.key, Value: it.value}, nil) {
				return false
			}
		}
		return true
	}
	first := n.find(r.from) // behind the last key: nothing here
	end := first
	for end < len(n.items) {
		end++
		if r.beyond(n.items[end-1].key) {
			break
		}
	}
	for first < end {
		// The next children to read, in order, and those that are left out before
		// and between them.
		count := 1
		switch {
		case n.level == 1:
			count = r.window
			r.window = min(2*r.window, readAhead)
		case n.level == 2 && len(r.sequences) > 0: // all leaves of one may be left out
			count = r.above
			r.above = min(2*r.above, readAhead/4)
		}
		var refs []Ref
		var at []int
		for ; first < end && len(refs) < count; first++ {
			at = append(at, -1)
			if n.level != 1 || n.summary(first).may(r.sequences) {
				at[len(at)-1] = len(refs)
				refs = append(refs, n.ref(first))
			}
		}
		children, err := r.load(r.ctx, r.space, refs...)
		if err != nil {
			r.yield(Item{}, err)
			return false
		}
		for k, i := range at {
			if i < 0 {
				left := n.items[first-len(at)+k]
				if !r.yield(Item{Key: left.key + "\x00", Passed: len(left.value)}, nil) {
					return false
				}
				continue
			}
			if child := children[i]; child.level != n.level-1 {
				r.yield(Item{}, fmt.Errorf("%w: %s: level %d where %d belongs", ErrCorrupt, refs[i], child.level, n.level-1))
				return false
			} else if !r.walk(child) {
				return false
			}
		}
	}
	return true
}

// A Difference is a key whose value differs between two trees. A nil value means
// that the key is not there.
type Difference struct {
	Key      string
	Old, New []byte
}

// Diff returns what differs between two trees of one shape, in key order.
// Subtrees that both share are neither read nor walked.
func (t Tree) Diff(ctx context.Context, space Space, old, new Ref) iter.Seq2[Difference, error] {
	return func(yield func(Difference, error) bool) {
		d := differ{Tree: t, ctx: ctx, space: space}
		a, err := d.open(old)
		if err == nil {
			var b *side
			if b, err = d.open(new); err == nil {
				err = d.run(a, b, yield)
			}
		}
		if err != nil {
			yield(Difference{}, err)
		}
	}
}

type differ struct {
	Tree
	ctx   context.Context
	space Space
}

// A side is what is left of one tree: a stack of subtrees and entries in key
// order, the next one last.
type side struct{ rest []part }

// A part is a subtree not yet opened (level 0 and up), or an entry (level -1).
type part struct {
	level int
	key   string // of the entry, or the last of the subtree ("" for a root)
	ref   Ref
	value []byte
}

func (d differ) open(root Ref) (*side, error) {
	if root == "" {
		return &side{}, nil
	}
	n, err := d.loadOne(d.ctx, d.space, root)
	if err != nil {
		return nil, err
	}
	return &side{rest: []part{{level: n.level, ref: root}}}, nil
}

// next returns the next part; at the end, an entry without a key.
func (s *side) next() part {
	if len(s.rest) == 0 {
		return part{level: -1}
	}
	return s.rest[len(s.rest)-1]
}

func (s *side) pop() { s.rest = s.rest[:len(s.rest)-1] }

// expand replaces the next subtree by its parts.
func (d differ) expand(s *side) error {
	top := s.next()
	n, err := d.loadOne(d.ctx, d.space, top.ref)
	if err != nil {
		return err
	}
	if n.level != top.level || (top.key != "" && n.last() != top.key) {
		return fmt.Errorf("%w: %s: not the node that belongs here", ErrCorrupt, top.ref)
	}
	s.rest = s.rest[:len(s.rest)-1]
	for i := len(n.items) - 1; i >= 0; i-- {
		p := part{level: n.level - 1, key: n.items[i].key}
		if n.level == 0 {
			p.value = n.items[i].value
		} else {
			p.ref = n.ref(i)
		}
		s.rest = append(s.rest, p)
	}
	return nil
}

// run merges the two sides. Equal subtrees at the front of both are dropped:
// what comes before them is done on both sides, so they hold the same entries.
func (d differ) run(a, b *side, yield func(Difference, error) bool) error {
	for len(a.rest) > 0 || len(b.rest) > 0 {
		x, y := a.next(), b.next()
		switch {
		case x.level >= 0 && x.level == y.level && x.ref == y.ref:
			a.pop()
			b.pop()
		case x.level >= 0 && x.level >= y.level:
			if err := d.expand(a); err != nil {
				return err
			}
		case y.level >= 0:
			if err := d.expand(b); err != nil {
				return err
			}
		case len(b.rest) == 0 || (len(a.rest) > 0 && x.key < y.key):
			if !yield(Difference{x.key, x.value, nil}, nil) {
				return nil
			}
			a.pop()
		case len(a.rest) == 0 || x.key > y.key:
			if !yield(Difference{y.key, nil, y.value}, nil) {
				return nil
			}
			b.pop()
		default:
			if !bytes.Equal(x.value, y.value) && !yield(Difference{x.key, x.value, y.value}, nil) {
				return nil
			}
			a.pop()
			b.pop()
		}
	}
	return nil
}
