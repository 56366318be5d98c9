package history

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
)

// The stored form of a tree node, an object of its Space:
//
//	byte    nodeMagic, or summaryMagic for a level 1 that has summaries
//	byte    level                     0 for leaves
//	uvarint n                         at least 1
//	n times:
//	  uvarint shared                  bytes shared with the key before
//	  uvarint rest, then rest bytes   of the key
//	  level 0: uvarint size, then size bytes of value
//	  else:    32 bytes               digest of the child; the key is the child's last
//	  with summaryMagic, then:
//	           uvarint size, then size bytes of the child's summary, 0 for none
//
// Every node has exactly one form: keys ascend strictly, shared is as long as it
// can be, varints are minimal, and summaryMagic says that there is a summary. A decoder that took another form would let
// two digests stand for one node.
const (
	nodeMagic    = 0xB7
	summaryMagic = 0xB8
	digestSize   = sha256.Size
)

var errNode = errors.New("history: not a tree node")

// An item is one key of a node with its value, or with the digest of the child
// that ends with this key, and after the digest of a leaf its summary.
type item struct {
	key   string
	value []byte
}

// A node is decoded and immutable: nodes are shared by everybody in the process.
type node struct {
	level int
	items []item
	size  int // approximate bytes in memory, for the cache
}

func (n *node) last() string { return n.items[len(n.items)-1].key }

// find returns the first index whose key is at least key.
func (n *node) find(key string) int {
	return sort.Search(len(n.items), func(i int) bool { return n.items[i].key >= key })
}

// child returns the index of the child whose range holds key. Keys behind the
// last one belong to the last child.
func (n *node) child(key string) int { return min(n.find(key), len(n.items)-1) }

func (n *node) ref(i int) Ref { return refOf(n.items[i].value[:digestSize]) }

func (n *node) summary(i int) summary { return summary(n.items[i].value[digestSize:]) }

func refOf(digest []byte) Ref { return Ref("sha256:" + hex.EncodeToString(digest)) }

// RefOf returns the Ref under which body is stored.
func RefOf(body []byte) Ref {
	sum := sha256.Sum256(body)
	return refOf(sum[:])
}

// Valid reports whether r has the form of a Ref.
func (r Ref) Valid() bool {
	digest, ok := strings.CutPrefix(string(r), "sha256:")
	if !ok || len(digest) != 2*digestSize {
		return false
	}
	for i := range len(digest) {
		if c := digest[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

func (r Ref) digest() ([]byte, error) {
	if !r.Valid() {
		return nil, errors.New("history: malformed ref")
	}
	return hex.DecodeString(string(r[len("sha256:"):]))
}

func encodeNode(level int, items []item) []byte {
	size := 16
	for _, it := range items {
		size += len(it.key) + len(it.value) + 6
	}
	magic := byte(nodeMagic)
	if level == 1 && slices.ContainsFunc(items, func(it item) bool { return len(it.value) > digestSize }) {
		magic = summaryMagic
	}
	out := append(make([]byte, 0, size), magic, byte(level))
	out = binary.AppendUvarint(out, uint64(len(items)))
	before := ""
	for _, it := range items {
		shared := sharedPrefix(before, it.key)
		out = binary.AppendUvarint(out, uint64(shared))
		out = binary.AppendUvarint(out, uint64(len(it.key)-shared))
		out = append(out, it.key[shared:]...)
		value := it.value
		switch {
		case level == 0:
			out = binary.AppendUvarint(out, uint64(len(value)))
		case magic == summaryMagic:
			out = append(out, value[:digestSize]...)
			value = value[digestSize:]
			out = binary.AppendUvarint(out, uint64(len(value)))
		}
		out = append(out, value...)
		before = it.key
	}
	return out
}

func sharedPrefix(a, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// decodeNode reads a node and refuses every other form of it. The values of the
// result are parts of body.
func decodeNode(body []byte) (*node, error) {
	if len(body) < 3 || body[0] != nodeMagic && (body[0] != summaryMagic || body[1] != 1) {
		return nil, errNode
	}
	summaries := body[0] == summaryMagic
	in := reader{rest: body[2:]}
	n := &node{level: int(body[1])}
	count := in.number(uint64(len(body)))
	if in.bad || count == 0 {
		return nil, fmt.Errorf("%w: count", errNode)
	}
	// All keys live in one string, so that a node is two allocations and not hundreds.
	n.items = make([]item, 0, min(count, len(body)/3+1))
	ends := make([]int, 0, cap(n.items))
	keys := make([]byte, 0, 2*len(body))
	start := 0 // of the key before
	some := !summaries
	for range count {
		before := keys[start:]
		shared := in.number(uint64(len(before)))
		rest := in.take(in.number(MaxKey))
		if in.bad || shared+len(rest) > MaxKey || shared+len(rest) == 0 {
			return nil, fmt.Errorf("%w: key", errNode)
		}
		start = len(keys)
		keys = append(append(keys, before[:shared]...), rest...)
		if len(ends) > 0 {
			key := keys[start:]
			if bytes.Compare(before, key) >= 0 || (shared < len(before) && shared < len(key) && before[shared] == key[shared]) {
				return nil, fmt.Errorf("%w: order", errNode)
			}
		}
		size := digestSize
		if n.level == 0 {
			size = in.number(MaxValue)
		}
		value := in.take(size)
		if in.bad || size == 0 {
			return nil, fmt.Errorf("%w: value", errNode)
		}
		if summaries {
			s := summary(in.take(in.number(summaryBits / 8)))
			if in.bad || !s.wellFormed() {
				return nil, fmt.Errorf("%w: summary", errNode)
			}
			some = some || len(s) > 0
			value = append(value, s...) // a copy: value has no room
		}
		n.items = append(n.items, item{value: value})
		ends = append(ends, len(keys))
	}
	if len(in.rest) != 0 || !some {
		return nil, fmt.Errorf("%w: trailing bytes, or no summary", errNode)
	}
	text, from := string(keys), 0
	for i, to := range ends {
		n.items[i].key, from = text[from:to], to
	}
	n.size = len(body) + len(text) + 48*len(n.items) + 64
	return n, nil
}

// A reader takes parts off a byte string; once bad, it stays bad.
type reader struct {
	rest []byte
	bad  bool
}

// number reads a minimal uvarint of at most limit.
func (r *reader) number(limit uint64) int {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 || v > limit || (n > 1 && r.rest[n-1] == 0) {
		r.bad = true
		return 0
	}
	r.rest = r.rest[n:]
	return int(v)
}

func (r *reader) take(n int) []byte {
	if r.bad || n > len(r.rest) {
		r.bad = true
		return nil
	}
	part := r.rest[:n:n]
	r.rest = r.rest[n:]
	return part
}
