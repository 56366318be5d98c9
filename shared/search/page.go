package search

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
)

// The limit of a page.
const (
	DefaultLimit = 25
	MaxLimit     = 100
)

// A Request are the members that every search takes, besides scope and filters.
// Input types embed it.
type Request struct {
	Query string `json:"query,omitzero" schema:"maxLength=1000" desc:"Words that must all occur, in any language. Left out: everything."`
	Limit int    `json:"limit,omitzero" schema:"minimum=1,maximum=100" desc:"Items a page; 25 if left out."`
}

// AppliedLimit is the limit that a page obeys.
func (r Request) AppliedLimit() int {
	if r.Limit == 0 {
		return DefaultLimit
	}
	return min(r.Limit, MaxLimit)
}

// An Answer is the data of a search.
type Answer[Item any] struct {
	Items []Item `json:"items"`
	// NextCursor is there exactly when a further page is, and then Truncation
	// is PageLimit.
	NextCursor   string      `json:"nextCursor,omitzero"`
	AppliedLimit int         `json:"appliedLimit"`
	Truncation   *Truncation `json:"truncation,omitzero" schema:"bare"`
}

// A Truncation says why a search answer is not all: truncated and reason for a
// further page; the other members, of a budget, are written by the frame.
type Truncation struct {
	Truncated    bool          `json:"truncated"`
	Reason       string        `json:"reason,omitzero" schema:"enum=page_limit"`
	Budget       string        `json:"budget,omitzero"`
	Limit        int           `json:"limit,omitzero"`
	Observed     int           `json:"observed,omitzero"`
	Continuation *Continuation `json:"continuation,omitzero"`
}

// A Continuation is how the rest of a cut answer is asked for.
type Continuation struct {
	Member string `json:"member"`
	Value  string `json:"value"`
}

// PageLimit is the truncation of a page that another follows.
func PageLimit() *Truncation { return &Truncation{Truncated: true, Reason: "page_limit"} }

// An Entry is one thing that can be found, and its normalized text.
type Entry struct {
	Key  string
	Text string
	// Passed is more than 0 for an Entry that is none: the source left out what
	// cannot match, up to Key, and deciding that took so many bytes.
	Passed int
}

// A Source gives entries in the order of their keys, from the first that is not
// less than from. It reads lazily, and always the same snapshot. It may leave out
// what has not all terms, and then says at times how far it is.
type Source func(from string) iter.Seq2[Entry, error]

// The most that one call looks at. A page that stops here may be short or even
// empty, and then has a next position: nothing is lost, and no query costs more
// than this. It is enough to pass 100,000 entries that lack a word.
const (
	MaxScanned = 25_000  // entries, and steps over what was left out
	MaxText    = 8 << 20 // bytes of text, and of what was looked at instead
)

// A Query is what one page is made of.
type Query struct {
	Terms []string
	Limit int
	// Sources follow each other in the order of their scopes (S3).
	Sources []Source
	// Keep decides about entries that have all terms; nil keeps all. It is where
	// the right to read is. It is asked about as many entries at once as the page
	// has room for, and one more.
	Keep func(ctx context.Context, source int, entries []Entry) ([]bool, error)
	// From is the position of this page, "" for the first.
	From string
}

// A Hit is an entry that was found.
type Hit struct {
	Source int
	Key    string
}

// ErrPosition is returned for a From that no Page gave.
var ErrPosition = errors.New("search: no such position")

// Page returns the hits of one page and the position of the next, "" when there
// is none. It looks one hit further than the page, so that a next page that is
// told has something in it, unless the bounds of one call ended the look.
func Page(ctx context.Context, q Query) (hits []Hit, next string, err error) {
	source, from, err := readPosition(q.From, len(q.Sources))
	if err != nil {
		return nil, "", err
	}
	p := &paging{ctx: ctx, q: q}
	entries, bytes := 0, 0
	for ; source < len(q.Sources); source++ {
		for e, err := range q.Sources[source](from) {
			if err != nil {
				return nil, "", fmt.Errorf("search: source %d: %w", source, err)
			}
			if entries >= MaxScanned || bytes >= MaxText {
				if full, err := p.decide(source); full || err != nil {
					return p.end(err)
				}
				p.next = position(source, e.Key)
				return p.end(nil)
			}
			entries++
			bytes += len(e.Text) + e.Passed
			if e.Passed > 0 || !Match(e.Text, q.Terms) {
				continue
			}
			p.waiting = append(p.waiting, e)
			if len(p.hits)+len(p.waiting) > q.Limit {
				if full, err := p.decide(source); full || err != nil {
					return p.end(err)
				}
			}
		}
		from = ""
		if full, err := p.decide(source); full || err != nil {
			return p.end(err)
		}
	}
	return p.end(nil)
}

// paging is a page that is being made.
type paging struct {
	ctx     context.Context
	q       Query
	hits    []Hit
	waiting []Entry // of one source: they have all terms, and Keep was not asked yet
	next    string
}

// decide asks Keep about what waits. It reports whether that is more than the page
// holds; the first that is too many is where the next page begins.
func (p *paging) decide(source int) (full bool, err error) {
	if len(p.waiting) == 0 {
		return false, nil
	}
	var keep []bool
	if p.q.Keep != nil {
		if keep, err = p.q.Keep(p.ctx, source, p.waiting); err != nil {
			return false, fmt.Errorf("search: keep: %w", err)
		}
	}
	for i, e := range p.waiting {
		switch {
		case keep != nil && !keep[i]:
		case len(p.hits) == p.q.Limit:
			p.next = position(source, e.Key)
			return true, nil
		default:
			p.hits = append(p.hits, Hit{source, e.Key})
		}
	}
	p.waiting = p.waiting[:0]
	return false, nil
}

func (p *paging) end(err error) ([]Hit, string, error) {
	if err != nil {
		return nil, "", err
	}
	return p.hits, p.next, p.ctx.Err()
}

func position(source int, key string) string { return strconv.Itoa(source) + ":" + key }

func readPosition(text string, sources int) (source int, from string, err error) {
	if text == "" {
		return 0, "", nil
	}
	number, from, ok := strings.Cut(text, ":")
	source, err = strconv.Atoi(number)
	if !ok || err != nil || source < 0 || source >= sources {
		return 0, "", ErrPosition
	}
	return source, from, nil
}
