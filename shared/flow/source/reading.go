package source

import (
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/flow"
	"github.com/pxhost/pxhost/shared/outcome"
)

// A Reading is what python_source says of a source that it does not refuse.
type Reading struct {
	// Document is canonical in form and has the digest of the source as its
	// authoring.sourceDigest. Whether it is valid is flow.Validate's question.
	Document flow.Document
	// Statements are in the order of the text, all that there are.
	Statements []Statement
}

// The kinds of statements.
const (
	textStatement    = "text" // the module's docstring
	importStatement  = "import"
	flowStatement    = "flow"
	inputStatement   = "input"
	nodeStatement    = "node"
	connectStatement = "connect"
	resultStatement  = "result"
)

// A Range is a half-open range of bytes of the source.
type Range [2]int

// A Statement is one statement and where its parts stand.
type Statement struct {
	Kind    string `json:"kind"`
	Range   Range  `json:"range"`
	Name    string `json:"name,omitzero"`    // that it defines: of flow, input and node
	NodeKey string `json:"nodeKey,omitzero"` // of node and connect
	PortKey string `json:"portKey,omitzero"` // of input, connect and result
	Call    *Group `json:"call,omitzero"`    // its arguments; not of text and import
	// Settings are the entries of a Node's settings, where it has any written.
	Settings *Group `json:"settings,omitzero"`
}

// A Group is what stands between two brackets, separated by commas.
type Group struct {
	Open  int    `json:"open"`  // behind the opening bracket
	Close int    `json:"close"` // before the closing one
	Items []Item `json:"items"`
}

// An Item is an argument or an entry.
type Item struct {
	Name  string `json:"name"`  // the keyword or the key; "" for a positional argument
	Range Range  `json:"range"` // of the whole item
	Value Range  `json:"value"`
	Comma int    `json:"comma"` // the comma behind it, or -1
}

// find returns the index of the item with a name, or -1.
func (g *Group) find(name string) int {
	if g != nil {
		for i, item := range g.Items {
			if item.Name == name {
				return i
			}
		}
	}
	return -1
}

// Decode reads the answer of python_source about one source: the member flow of its
// reply. Findings are about the document, with paths into it; the error is of an
// answer that is none.
func Decode(source string, answer []byte) (Reading, outcome.Findings, error) {
	members := map[string]jsontext.Value{}
	if err := json.Unmarshal(answer, &members); err != nil {
		return Reading{}, nil, fmt.Errorf("source: the answer of python_source: %w", err)
	}
	var r Reading
	if err := json.Unmarshal(members["statements"], &r.Statements); err != nil {
		return Reading{}, nil, fmt.Errorf("source: the statements of python_source: %w", err)
	}
	if err := placed(r.Statements, len(source)); err != nil {
		return Reading{}, nil, err
	}
	delete(members, "statements")
	var err error
	for name, value := range map[string]any{"format": flow.Format, "authoring": flow.Authoring{Kind: flow.SDK, SourceDigest: Digest(source)}} {
		if members[name], err = canon.Encode(value); err != nil {
			return Reading{}, nil, err
		}
	}
	text, err := canon.Encode(members)
	if err != nil {
		// Depth and numbers are python_source's to refuse.
		return Reading{}, nil, fmt.Errorf("source: the document of python_source: %w", err)
	}
	var findings outcome.Findings
	r.Document, findings = flow.Decode(text)
	return r, findings, nil
}

// Digest is the sourceDigest of a source: the digest of its bytes, and so the ref
// of the object that it is stored as.
func Digest(source string) string { return flow.SourceDigest(source) }

var errPlaces = errors.New("source: python_source names places that are not in order")

// placed makes sure that no edit can reach out of the source or out of its
// statement: places of one answer are in order, each in what it is a part of.
func placed(statements []Statement, size int) error {
	at := 0
	for _, s := range statements {
		if s.Range[0] < at || s.Range[1] < s.Range[0] || s.Range[1] > size {
			return errPlaces
		}
		at = s.Range[1]
		for _, g := range []*Group{s.Call, s.Settings} {
			if g == nil {
				continue
			}
			in := g.Open
			if in < s.Range[0] || g.Close > s.Range[1] {
				return errPlaces
			}
			for _, item := range g.Items {
				ordered := in <= item.Range[0] && item.Range[0] <= item.Value[0] && item.Value[0] <= item.Value[1] && item.Value[1] == item.Range[1]
				in = item.Range[1]
				if item.Comma >= 0 {
					ordered = ordered && in <= item.Comma
					in = item.Comma + 1
				}
				if !ordered {
					return errPlaces
				}
			}
			if in > g.Close {
				return errPlaces
			}
		}
		wanted := map[string]int{textStatement: -1, importStatement: -1, flowStatement: 1, inputStatement: 2, nodeStatement: 2, connectStatement: 2, resultStatement: 2}
		least, known := wanted[s.Kind]
		if !known || least >= 0 && (s.Call == nil || len(s.Call.Items) < least) {
			return fmt.Errorf("source: python_source names a statement of kind %q without its arguments", s.Kind)
		}
	}
	return nil
}
