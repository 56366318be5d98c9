package budget

// A Name is one of the five budgets.
type Name string

// The budgets.
const (
	Tokens    Name = "tokens"
	Bytes     Name = "bytes"
	Items     Name = "items"
	TableRows Name = "tableRows"
	Depth     Name = "depth"
)

// Limits are the most that one answer holds of each.
type Limits struct {
	Tokens, Bytes, Items, TableRows, Depth int
}

// Fixed are the limits of the contract. No caller gets more.
var Fixed = Limits{Tokens: 200_000, Bytes: 2_097_152, Items: 500, TableRows: 1_000, Depth: 8}

// Of returns the limit of one budget, 0 of none.
func (l Limits) Of(name Name) int {
	switch name {
	case Tokens:
		return l.Tokens
	case Bytes:
		return l.Bytes
	case Items:
		return l.Items
	case TableRows:
		return l.TableRows
	case Depth:
		return l.Depth
	}
	return 0
}

// A Request is what a caller may ask for: less, never more (B3). The bounds are
// those of Fixed; a test holds them equal.
type Request struct {
	Tokens    int `json:"tokens,omitzero" schema:"minimum=1,maximum=200000"`
	Bytes     int `json:"bytes,omitzero" schema:"minimum=1,maximum=2097152"`
	Items     int `json:"items,omitzero" schema:"minimum=1,maximum=500"`
	TableRows int `json:"tableRows,omitzero" schema:"minimum=1,maximum=1000"`
	Depth     int `json:"depth,omitzero" schema:"minimum=1,maximum=8"`
}

// JSONSchema says only that it is an object, since it is written for every tool;
// the member's description names the five integers.
func (Request) JSONSchema() string { return `{"type":"object"}` }

// Limits returns Fixed, lowered to what is asked. A nil Request asks nothing.
func (r *Request) Limits() Limits {
	l := Fixed
	if r == nil {
		return l
	}
	lower := func(limit *int, asked int) {
		if asked > 0 && asked < *limit {
			*limit = asked
		}
	}
	lower(&l.Tokens, r.Tokens)
	lower(&l.Bytes, r.Bytes)
	lower(&l.Items, r.Items)
	lower(&l.TableRows, r.TableRows)
	lower(&l.Depth, r.Depth)
	return l
}

// TokensOf counts the tokens of a serialized document: half its bytes, rounded
// up (decision 8). It is part of the tool contract version.
func TokensOf(bytes int) int { return (bytes + 1) / 2 }

// A Truncation says that an answer is a part, which budget ended it, and how to
// ask for the rest. It has exactly these members.
type Truncation struct {
	Truncated    bool         `json:"truncated"`
	Budget       Name         `json:"budget"`
	Limit        int          `json:"limit"`
	Observed     int          `json:"observed"` // what the rest would have taken, this part included
	Continuation Continuation `json:"continuation"`
}

// A Continuation is the member of the next request and its opaque value.
type Continuation struct {
	Member string `json:"member"`
	Value  string `json:"value"`
}

// Counts says what the elements of a place count as.
type Counts uint8

// What an element counts as. Items are what was asked for or fans out: hits,
// descriptions, users, cases. Parts of a description, such as the Nodes of a
// Flow, are none: several ordinary descriptions have to fit one answer.
const (
	AsNothing Counts = iota // bounded by tokens and bytes alone
	AsItems
	AsRows
)

// A Place is where an answer may be cut.
type Place struct {
	// Path is a JSON Pointer in which * stands for every element or member. It
	// may lead to a list, an object of user keys, or a text. A place may be
	// inside another, and may be absent.
	Path   string
	Counts Counts
	// Value says that a typed value stands there: its lists and tables are
	// places too, and its depth is counted.
	Value bool
}
