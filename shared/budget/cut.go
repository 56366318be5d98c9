package budget

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// An Answer is a document that is bounded, and how.
type Answer struct {
	// Document is the whole answer, one JSON object, as json.Marshal writes it:
	// valid and without white space between tokens. Cut does not change it, and
	// may return it.
	Document []byte
	// Told is the name of the member of Document that tells of the cut: the
	// object that gets "truncation" (and "at"). "" is Document itself.
	Told string
	// Places are where it may be cut, as pointers into Document.
	Places []Place
	Limits Limits
	// Share bounds the bytes that the part takes once it is escaped inside
	// another JSON text (decision 19); 0 is no bound.
	Share int
	// Tokens counts the tokens of so many bytes; nil is TokensOf. It must not
	// shrink when bytes grow.
	Tokens func(bytes int) int
	// From is the position of an earlier part, nil for the first.
	From []byte
	// Member is the name of the request's member that takes the continuation.
	Member string
	// Continue seals a position. It is called once when there is more; what it
	// returns may be MaxValue characters long.
	Continue func(position []byte) (string, error)
	MaxValue int
}

// ErrPosition is returned when From is no position of this document: it was made
// for another one, so that nothing tells what was told already.
var ErrPosition = errors.New("budget: the position is not one of this document")

// ExceededError is returned when some piece of the answer would not fit a part even
// alone. It is returned for the first part: a budget that serves one part serves
// all that follow.
type ExceededError struct {
	Budget Name
	Limit  int
	// Observed is what the part takes that the piece needs.
	Observed int
}

func (e *ExceededError) Error() string {
	return fmt.Sprintf("budget: the smallest part takes %d %s of %d", e.Observed, e.Budget, e.Limit)
}

// Cut returns the part at From. more tells whether another follows; the part
// then tells how to ask for it.
func Cut(a Answer) (part []byte, more bool, err error) {
	if a.Tokens == nil {
		a.Tokens = TokensOf
	}
	patterns, err := patternsOf(a.Places)
	if err != nil {
		return nil, false, err
	}
	if a.From == nil && fitsWhole(&a, patterns) {
		return a.Document, false, nil
	}
	stripped, tail, err := takeTail(a.Document, a.Told)
	if err != nil {
		return nil, false, err
	}
	// The told object is expanded even if no place is inside: no name is "\x00".
	toldPath := []string{"\x00"}
	if a.Told != "" {
		toldPath = []string{a.Told, "\x00"}
	}
	r := &reader{told: a.Told, depth: a.Limits.Depth}
	root, err := r.parse(stripped, append(patterns, pattern{path: toldPath}), "")
	if err != nil {
		return nil, false, err
	}
	root.always = true
	told := root
	if a.Told != "" {
		told = root.child(a.Told)
		told.always = true
	}
	told.told = true
	print := fingerprint(told.text)
	from := position{}
	if a.From != nil {
		if from, err = readPosition(a.From, print); err != nil {
			return nil, false, err
		}
	}

	tree := root
	for next := 0; next < from.segment; next++ {
		if next >= len(r.detached) {
			return nil, false, ErrPosition
		}
		if tree, err = r.segment(root, r.detached[next]); err != nil { // and may detach more
			return nil, false, err
		}
	}

	c := cutter{Answer: &a, tree: tree, told: tree.findTold(), from: from, print: print, last: from.segment == len(r.detached), deepest: r.deepest}
	c.later = func(look func(*node) error) error {
		ahead := *r // reading on may set more aside
		for next := from.segment; next < len(ahead.detached); next++ {
			tree, err := ahead.segment(root, ahead.detached[next])
			if err == nil {
				err = look(tree)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	if len(from.path) > 0 {
		at, ok := tree.pointer(from.path)
		if !ok {
			return nil, false, ErrPosition
		}
		if at != "" {
			quoted, err := jsontext.AppendQuote([]byte(`"at":`), r.inTold(at))
			if err != nil {
				return nil, false, fmt.Errorf("budget: at: %w", err)
			}
			c.told.extend(quoted)
		}
	}
	return c.part(tail)
}

// cutter makes one part of one tree.
type cutter struct {
	*Answer
	tree, told *node
	from       position
	print      [8]byte
	last       bool // no value that is nested too deep is left
	deepest    int
	later      func(look func(*node) error) error // goes through the trees after this one
}

func (c *cutter) part(tail []byte) ([]byte, bool, error) {
	last := c.last
	fixed := c.tree.frame
	if len(c.told.extra) > 0 {
		fixed = fixed.plus(costOf(c.told.extra)).plus(cost{bytes: 1, escaped: 1})
	}

	// Without any limit first: this is what the rest takes, and whether it is a
	// position of this tree at all.
	all := walker{c: c, used: fixed, fresh: fixed, unbounded: true}
	if err := all.run(); err != nil {
		return nil, false, err
	}
	if last && len(tail) > 0 {
		all.used = all.used.plus(costOf(tail)).plus(cost{bytes: 1, escaped: 1})
	}
	bound, over := c.over(all.used)
	if !over && last {
		if len(tail) > 0 {
			c.told.extend(tail)
		}
		return c.tree.write(nil), false, nil
	}

	// There is more: make room for telling it.
	t := Truncation{Truncated: true, Budget: TableRows, Limit: math.MaxInt32, Observed: math.MaxInt32, Continuation: Continuation{c.Member, ""}}
	room, err := truncationMember(t)
	if err != nil {
		return nil, false, err
	}
	reserved := costOf(room).plus(cost{bytes: c.MaxValue + 1, escaped: c.MaxValue + 1})
	if err := c.served(reserved, tail); err != nil {
		return nil, false, err
	}
	w := walker{c: c, used: fixed.plus(reserved), fresh: c.tree.frame.plus(reserved)}
	if name, over := c.over(w.used); over {
		return nil, false, c.exceeded(name, w.used)
	}
	if err := w.run(); err != nil {
		return nil, false, err
	}
	next := position{segment: c.from.segment, path: w.end}
	switch {
	case w.stopped:
		if w.atoms == 0 {
			return nil, false, c.exceeded(w.bound, w.wanted)
		}
		t.Budget = w.bound
		t.Limit, t.Observed = c.measure(w.bound, all.used)
		if t.Observed <= t.Limit { // only the room for telling it lacked
			t.Limit, t.Observed = c.measure(w.bound, all.used.plus(reserved))
		}
	case !last:
		next = position{segment: c.from.segment + 1}
		t.Budget, t.Limit, t.Observed = Depth, c.Limits.Depth, c.deepest
	default: // everything fits but the tail
		if w.atoms == 0 && len(c.from.path) > 0 {
			return nil, false, c.exceeded(bound, all.used)
		}
		next.path = []int{len(c.tree.children)}
		t.Budget = bound
		t.Limit, t.Observed = c.measure(bound, all.used)
	}
	value, err := c.Continue(next.append(nil, c.print))
	if err != nil {
		return nil, false, fmt.Errorf("budget: continuation: %w", err)
	}
	if len(value) > c.MaxValue {
		return nil, false, fmt.Errorf("budget: a continuation of %d characters is longer than %d", len(value), c.MaxValue)
	}
	t.Continuation.Value = value
	member, err := truncationMember(t)
	if err != nil {
		return nil, false, err
	}
	c.told.extend(member)
	return c.tree.write(nil), true, nil
}

func truncationMember(t Truncation) ([]byte, error) {
	text, err := json.Marshal(t)
	if err != nil {
		return nil, fmt.Errorf("budget: truncation: %w", err)
	}
	return append([]byte(`"truncation":`), text...), nil
}

// fitsWhole reports whether nothing of the document has to be cut. It only counts,
// where the parts need a tree: most answers are small. An answer with typed
// values is left to the tree, which knows their grammar.
func fitsWhole(a *Answer, patterns []pattern) bool {
	if !hasTold(a.Document, a.Told) {
		return false
	}
	counted := make([]pattern, 0, len(patterns))
	for _, p := range patterns {
		if p.value {
			return false
		}
		if p.counts != AsNothing {
			counted = append(counted, p)
		}
	}
	_, over := a.over(costOf(a.Document).plus(countPlaces(a.Document, counted)))
	return !over
}

// hasTold reports whether the document and its member told are objects.
func hasTold(document []byte, told string) bool {
	if document[0] != '{' || told == "" {
		return document[0] == '{'
	}
	found := false
	_ = each(document, func(name []byte, _ int, text []byte) error {
		found = found || text[0] == '{' && isName(name, told)
		return nil
	})
	return found
}

// over returns the first budget that a cost exceeds.
func (a *Answer) over(used cost) (Name, bool) {
	switch {
	case used.items > a.Limits.Items:
		return Items, true
	case used.rows > a.Limits.TableRows:
		return TableRows, true
	case a.Tokens(used.bytes) > a.Limits.Tokens:
		return Tokens, true
	case used.bytes > a.Limits.Bytes, a.Share > 0 && used.escaped > a.Share:
		return Bytes, true
	}
	return "", false
}

// measure returns a limit, and what a cost takes of it.
func (c *cutter) measure(name Name, used cost) (limit, observed int) {
	switch name {
	case Items:
		return c.Limits.Items, used.items
	case TableRows:
		return c.Limits.TableRows, used.rows
	case Tokens:
		return c.Limits.Tokens, c.Tokens(used.bytes)
	default:
		if used.bytes <= c.Limits.Bytes && c.Share > 0 && used.escaped > c.Share {
			return c.Share, used.escaped
		}
		return c.Limits.Bytes, used.bytes
	}
}

func (c *cutter) exceeded(name Name, used cost) error {
	limit, observed := c.measure(name, used)
	return &ExceededError{name, limit, observed}
}

// walker goes through the places in the order of the document and takes what
// fits.
type walker struct {
	c         *cutter
	unbounded bool
	used      cost
	fresh     cost // what a part takes that begins here: every frame around
	path      []int
	atoms     int // elements and pieces of text taken
	stopped   bool
	bound     Name  // the budget that stopped it
	wanted    cost  // what would have been used
	end       []int // where it stopped
}

func (w *walker) run() error {
	w.c.tree.open()
	if len(w.c.from.path) == 1 && w.c.from.path[0] == len(w.c.tree.children) {
		return nil // everything was told but the tail
	}
	return w.into(w.c.tree, w.c.from.path)
}

// open makes the node a frame: partial, with every place in it empty.
func (n *node) open() {
	if !n.inside && !n.always {
		return
	}
	n.partial, n.from, n.to = true, 0, 0
	if n.place {
		return
	}
	for _, c := range n.children {
		c.open()
	}
}

// into goes through the places inside a frame, from a position on.
func (w *walker) into(n *node, from []int) error {
	if n.place {
		return w.through(n, from)
	}
	first := 0
	if len(from) > 0 {
		if first = from[0]; first >= len(n.children) || !n.children[first].inside || len(from) < 2 {
			return ErrPosition
		}
		from = from[1:]
	}
	for i := first; i < len(n.children); i++ {
		c := n.children[i]
		if !c.inside {
			continue
		}
		w.path = append(w.path, i)
		if err := w.into(c, from); err != nil || w.stopped {
			return err
		}
		w.path = w.path[:len(w.path)-1]
		from = nil
	}
	return nil
}

// through takes the elements of a place, from a position on.
func (w *walker) through(n *node, from []int) error {
	if n.kind == '"' {
		return w.text(n, from)
	}
	first := 0
	if len(from) > 0 {
		if first = from[0]; first > len(n.children) || first == len(n.children) && len(from) > 1 {
			return ErrPosition
		}
		from = from[1:]
	}
	n.from, n.to = first, first
	for i := first; i < len(n.children); i++ {
		c := n.children[i]
		around := n.around(i, i > first)
		n.count(&around)
		if len(from) == 0 {
			if w.take(c.whole.plus(around)) {
				n.to = i + 1
				continue
			}
			alone := n.around(i, false)
			n.count(&alone)
			_, over := w.c.over(w.fresh.plus(c.whole).plus(alone))
			// The pointer "at" of a part that begins here is not counted: should
			// that be what lacks, the next part, which is empty yet, splits it.
			if !over && w.atoms > 0 || !c.inside {
				w.stopHere(i)
				return nil
			}
		}
		// Only a part of this element: it does not fit alone, or it is what an
		// earlier part began.
		if !c.inside {
			return ErrPosition
		}
		before, atoms := *w, w.atoms
		if !w.spend(c.frame.plus(around)) {
			w.stopHere(i)
			return nil
		}
		w.fresh = w.fresh.plus(c.frame).plus(around)
		w.path = append(w.path, i)
		c.open()
		n.to = i + 1
		if err := w.into(c, from); err != nil {
			return err
		}
		if w.stopped {
			if w.atoms == atoms && len(from) == 0 { // nothing of it fits: it waits for the next part
				bound, wanted := w.bound, w.wanted
				*w = before
				n.to = i
				w.stopHere(i)
				w.bound, w.wanted = bound, wanted
			}
			return nil
		}
		w.path = w.path[:len(w.path)-1]
		w.fresh = before.fresh
		from = nil
	}
	return nil
}

// text takes what fits of a text.
func (w *walker) text(n *node, from []int) error {
	first := 0
	if len(from) > 0 {
		if first = from[0]; len(from) > 1 || first > len(n.plain) || !startsCharacter(n.plain, first) {
			return ErrPosition
		}
	}
	n.from, n.to = first, first
	rest := costOfPlain(n.plain[first:])
	if w.take(rest) {
		n.to = len(n.plain)
		return nil
	}
	for n.to < len(n.plain) {
		next := nextBoundary(n.plain, n.to)
		if !w.take(costOfPlain(n.plain[n.to:next])) {
			break
		}
		n.to = next
	}
	w.stopHere(n.to)
	return nil
}

// take spends a cost for one more piece if it fits.
func (w *walker) take(c cost) bool {
	if !w.spend(c) {
		return false
	}
	w.atoms++
	return true
}

func (w *walker) spend(c cost) bool {
	wanted := w.used.plus(c)
	if name, over := w.c.over(wanted); over && !w.unbounded {
		w.bound, w.wanted = name, wanted
		return false
	}
	w.used = wanted
	return true
}

func (w *walker) stopHere(index int) {
	w.stopped = true
	w.end = append(slices.Clone(w.path), index)
}

// A position is where a part begins: a segment (0 is the document, k the k-th
// value that is nested too deep) and indices of children down to an element or
// a byte of a text.
type position struct {
	segment int
	path    []int
}

func (p position) append(out []byte, print [8]byte) []byte {
	out = append(out, print[:]...)
	out = binary.AppendUvarint(out, uint64(p.segment))
	for _, i := range p.path {
		out = binary.AppendUvarint(out, uint64(i))
	}
	return out
}

func readPosition(text []byte, print [8]byte) (position, error) {
	var p position
	if len(text) < 9 || [8]byte(text) != print {
		return p, ErrPosition
	}
	numbers := []int{}
	for rest := text[8:]; len(rest) > 0; {
		n, size := binary.Uvarint(rest)
		if size <= 0 || n > math.MaxInt32 {
			return p, ErrPosition
		}
		numbers = append(numbers, int(n))
		rest = rest[size:]
	}
	p.segment = numbers[0]
	if len(numbers) > 1 {
		p.path = numbers[1:]
	}
	return p, nil
}

// fingerprint tells documents apart.
func fingerprint(text []byte) [8]byte {
	sum := sha256.Sum256(text)
	return [8]byte(sum[:])
}

// Fits reports whether a serialized document is within bytes, tokens and share.
func Fits(document []byte, limits Limits, share int, tokens func(bytes int) int) bool {
	if tokens == nil {
		tokens = TokensOf
	}
	used := costOf(document)
	return used.bytes <= limits.Bytes && tokens(used.bytes) <= limits.Tokens && (share <= 0 || used.escaped <= share)
}
