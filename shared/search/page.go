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
}

// A Source gives entries in the order of their keys, from the first that is not
// less than from. It reads lazily, and always the same snapshot.
type Source func(from string) iter.Seq2[Entry, error]

// The most that one call looks at. A page that stops here may be short or even
// empty, and then has a next position: nothing is lost, and no query costs more
// than this.
const (
	MaxScanned = 25_000  // entries
	MaxText    = 8 << 20 // bytes of text
)

// A Query is what one page is made of.
type Query struct {
	Terms []string
	Limit int
	// Sources follow each other in the order of their scopes (S3).
	Sources []Source
	// Keep decides about an entry that has all terms; nil keeps all. It is where
	// filters are, and the right to read.
	Keep func(ctx context.Context, source int, e Entry) (bool, error)
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
	entries, bytes := 0, 0
	for ; source < len(q.Sources); source++ {
		for e, err := range q.Sources[source](from) {
			if err != nil {
				return nil, "", fmt.Errorf("search: source %d: %w", source, err)
			}
			if entries >= MaxScanned || bytes >= MaxText {
				return hits, position(source, e.Key), ctx.Err()
			}
			entries++
			bytes += len(e.Text)
			if !Match(e.Text, q.Terms) {
				continue
			}
			if q.Keep != nil {
				keep, err := q.Keep(ctx, source, e)
				if err != nil {
					return nil, "", fmt.Errorf("search: keep: %w", err)
				}
				if !keep {
					continue
				}
			}
			if len(hits) == q.Limit {
				return hits, position(source, e.Key), ctx.Err()
			}
			hits = append(hits, Hit{source, e.Key})
		}
		from = ""
	}
	return hits, "", ctx.Err()
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
