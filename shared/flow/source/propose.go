package source

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"

	"github.com/aymanbagabas/go-udiff"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/flow"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/python"
	"github.com/pxhost/pxhost/shared/semantic"
)

// A Reader reads sources, an answer each, in order, several requests at once;
// *python.Client does. The error is
// of the machinery, and wraps python.ErrUnavailable where there is no Python, as nil
// stands for too. Native Flows need none.
type Reader interface {
	ReadAll(ctx context.Context, requests []python.Request) ([]python.Reply, error)
}

// maxTogether is how many bytes of sources are read in one request: what stands where
// takes some ten times as many in the answer, of which a Lambda's holds 6 MB.
// sideBySide is how many requests wait at once: each may have a Python of its own.
const (
	maxTogether = 400 << 10
	sideBySide  = 4
)

// read reads sources. The findings are one list a source, with path before the paths
// of them all; a reading is of use where none refuses.
func read(ctx context.Context, reader Reader, path string, sources ...string) ([]Reading, []outcome.Findings, error) {
	readings, findings := make([]Reading, len(sources)), make([]outcome.Findings, len(sources))
	var parts [][2]int
	for from := 0; from < len(sources); {
		to := from
		for size := 0; to < len(sources) && to-from < python.MaxItems; to++ {
			if size += len(sources[to]); size > maxTogether && to > from {
				break
			}
		}
		parts = append(parts, [2]int{from, to})
		from = to
	}
	errs := make([]error, len(parts))
	slots := make(chan struct{}, sideBySide)
	var wait sync.WaitGroup
	for i, p := range parts {
		slots <- struct{}{}
		wait.Go(func() {
			defer func() { <-slots }()
			errs[i] = readPart(ctx, reader, path, sources[p[0]:p[1]], readings[p[0]:p[1]], findings[p[0]:p[1]])
		})
	}
	wait.Wait()
	for _, err := range errs {
		d, none := python.Unavailable(err, path)
		switch {
		case none:
			for i := range findings {
				findings[i] = outcome.Findings{d}
			}
			return readings, findings, nil
		case err != nil:
			return nil, nil, err
		}
	}
	return readings, findings, nil
}

// readPart is read of what one request holds.
func readPart(ctx context.Context, reader Reader, path string, sources []string, readings []Reading, findings []outcome.Findings) error {
	if reader == nil {
		return python.ErrUnavailable
	}
	requests := make([]python.Request, len(sources))
	for i, source := range sources {
		requests[i] = python.Request{Kind: python.FlowKind, Source: source}
	}
	replies, err := reader.ReadAll(ctx, requests)
	if err != nil {
		return err
	}
	if len(replies) != len(requests) {
		return errors.New("source: an answer that is not one a source")
	}
	for i, reply := range replies {
		if reply.Refused() {
			findings[i] = reply.Diagnostics(path)
			continue
		}
		if readings[i], findings[i], err = Decode(sources[i], reply.Flow); err != nil {
			return err
		}
		for k := range findings[i] {
			findings[i][k].Path = path + findings[i][k].Path
		}
	}
	return nil
}

// readOne is read of one source.
func readOne(ctx context.Context, reader Reader, path, source string) (Reading, outcome.Findings, error) {
	readings, findings, err := read(ctx, reader, path, source)
	if err != nil {
		return Reading{}, nil, err
	}
	return readings[0], findings[0], nil
}

// Parity is what differs between a document and what its source says: none, or each
// path with PX_SOURCE_PARITY. The whole of both is compared, canonically.
func Parity(document, materialized flow.Document, path string) (outcome.Findings, error) {
	_, a, err := document.RevisionRef()
	if err != nil {
		return nil, err
	}
	_, b, err := materialized.RevisionRef()
	if err != nil || a == b {
		return nil, err
	}
	changes, err := flow.Diff(&document, materialized)
	if err != nil {
		return nil, err
	}
	var findings outcome.Findings
	for i, c := range changes {
		if i == maxParity {
			findings.Add(outcome.LimitExceeded, path, outcome.Params{"of": "findings", "limit": maxParity, "observed": len(changes)})
			break
		}
		findings.Add(outcome.SourceParity, path+c.Path, outcome.Params{"op": c.Op})
	}
	if findings == nil {
		// What means the same is written in two ways: {} for nothing, or a key.
		findings.Add(outcome.SourceParity, path, outcome.Params{"materialized": b})
	}
	return findings, nil
}

// maxParity bounds how many differences are told.
const maxParity = 50

// Check reads the source of a saved or proposed document and holds one against the
// other. A native document has none and is in order.
func Check(ctx context.Context, reader Reader, document flow.Document, text, path string) (outcome.Findings, error) {
	if document.Authoring.Kind != flow.SDK {
		return nil, nil
	}
	reading, findings, err := readOne(ctx, reader, path, text)
	if findings.Refused() || err != nil {
		return findings, err
	}
	return Parity(document, reading.Document, path)
}

// CheckAll is Check of many documents, with one list of findings each, in order; texts
// are their sources. All are read in few requests.
func CheckAll(ctx context.Context, reader Reader, documents []flow.Document, texts []string) ([]outcome.Findings, error) {
	readings, findings, err := read(ctx, reader, "", texts...)
	if err != nil {
		return nil, err
	}
	for i, document := range documents {
		if findings[i].Refused() {
			continue
		}
		if findings[i], err = Parity(document, readings[i].Document, ""); err != nil {
			return nil, err
		}
	}
	return findings, nil
}

// A Change is what an edit makes of the source of a Flow.
type Change struct {
	Text    string // the new source
	Digest  string // of it
	Before  string // the digest of the old one; "" of a first save
	Unified string // the difference, as a unified diff; "" of a first save
}

// A Proposal is a flow.Proposal with what becomes of the source. Source is nil of a
// native Flow.
type Proposal struct {
	flow.Proposal
	Source *Change
}

// Propose is flow.Propose for Flows of any authoring. text is the source of base,
// where base is an SDK-linked Flow. The document of the proposal names the source of
// the proposal, and both say the same: they were held against each other.
func Propose(ctx context.Context, reader Reader, base *flow.Document, text string, commands []flow.Command, contracts flow.Contracts) (Proposal, outcome.Findings, error) {
	if base == nil {
		return create(ctx, reader, commands, contracts)
	}
	if base.Authoring.Kind != flow.SDK {
		p, findings, err := flow.Propose(ctx, base, commands, contracts, nil)
		return Proposal{Proposal: p}, findings, err
	}
	reading, refused, err := readOne(ctx, reader, atTarget, text)
	if refused.Refused() || err != nil {
		return Proposal{}, refused, err
	}
	if refused, err = Parity(*base, reading.Document, atTarget); refused != nil || err != nil {
		return Proposal{}, refused, err
	}
	var edited string
	var dangling error
	p, findings, err := flow.Propose(ctx, base, commands, contracts, func(next flow.Document) (string, error) {
		var err error
		edited, err = Edit(text, reading, next)
		if errors.Is(err, ErrDangling) {
			// What the document lacks is told of the document.
			dangling = err
			return base.Authoring.SourceDigest, nil
		}
		return Digest(edited), err
	})
	if none, ok := errors.AsType[*NotWritable](err); ok {
		findings = nil
		findings.Add(outcome.SourceInvalid, none.Path, outcome.Params{"reason": cmp.Or(none.Reason, "contract_not_writable"), "member": none.Member})
		return Proposal{}, findings, nil
	}
	if findings.Refused() || err != nil {
		return Proposal{Proposal: p}, findings, err
	}
	if dangling != nil {
		return Proposal{}, nil, dangling
	}
	change := &Change{Text: edited, Digest: p.Document.Authoring.SourceDigest, Before: base.Authoring.SourceDigest, Unified: Unified(base.FlowKey, text, edited)}
	if refused, err = Check(ctx, reader, p.Document, edited, ""); refused.Refused() || err != nil {
		return Proposal{Proposal: p}, refused, err
	}
	return Proposal{p, change}, findings, nil
}

// Where a base and the parts of a first save stand in the request.
const (
	atTarget   = "/target"
	atSource   = "/commands/0/source"
	atDocument = "/commands/0/document"
)

func create(ctx context.Context, reader Reader, commands []flow.Command, contracts flow.Contracts) (Proposal, outcome.Findings, error) {
	p, findings, err := flow.Propose(ctx, nil, commands, contracts, nil)
	if findings.Refused() || err != nil || p.Document.Authoring.Kind != flow.SDK {
		return Proposal{Proposal: p}, findings, err
	}
	if none := owned(p.Document); none != nil {
		var refused outcome.Findings
		refused.Add(outcome.SourceInvalid, atDocument+none.Path, outcome.Params{"reason": none.Reason, "member": none.Member})
		return Proposal{Proposal: p}, refused, nil
	}
	text := commands[0].(flow.CreateFlow).Source
	reading, refused, err := readOne(ctx, reader, atSource, text)
	if refused.Refused() || err != nil {
		return Proposal{Proposal: p}, refused, err
	}
	if refused, err = Parity(p.Document, reading.Document, atDocument); refused != nil || err != nil {
		return Proposal{Proposal: p}, refused, err
	}
	return Proposal{p, &Change{Text: text, Digest: p.Document.Authoring.SourceDigest}}, findings, nil
}

// Unified is the difference of two sources of a Flow for people to review.
func Unified(flowKey, before, after string) string {
	name := "flow/" + flowKey + ".py"
	return udiff.Unified(name, name, before, after)
}

// A Difference is one change of a document as a plan shows it: that of its source
// with the lines of Python that differ.
type Difference struct {
	semantic.Change
	Unified string `json:"unified,omitzero"`
}

// Differences are the changes of a proposal, the source among them.
func (p Proposal) Differences() []Difference {
	out := make([]Difference, 0, len(p.Diff))
	for _, c := range p.Diff {
		d := Difference{Change: c}
		if p.Source != nil && c.Path == atAuthoring {
			// Of authoring nothing but the digest changes.
			d.Path, d.Unified = atAuthoring+"/sourceDigest", p.Source.Unified
			d.Before, d.After = quoted(p.Source.Before), quoted(p.Source.Digest)
		}
		out = append(out, d)
	}
	return out
}

const atAuthoring = "/authoring"

func quoted(digest string) canon.Raw {
	text, err := canon.Encode(digest)
	if err != nil {
		panic(err) // a string always encodes
	}
	return text
}

// A Move is an SDK-linked Flow of which Nodes run something else from now on.
type Move struct {
	Document flow.Document
	Source   string                 // that Document names
	Targets  map[string]flow.Target // by nodeKey; all are there
}

// A Moved is what became of it. Where Findings refuse, nothing did.
type Moved struct {
	Document flow.Document
	Source   Change
	Findings outcome.Findings // paths into the document
}

// Retarget changes the targets of Nodes in the sources of many Flows, as
// ReplaceNodeTarget does, and holds each result against its source, with one answer a
// move, in order. Whether the documents are valid is flow.Validate's question.
func Retarget(ctx context.Context, reader Reader, moves []Move) ([]Moved, error) {
	texts := make([]string, len(moves))
	for i, m := range moves {
		texts[i] = m.Source
	}
	readings, findings, err := read(ctx, reader, "", texts...)
	if err != nil {
		return nil, err
	}
	moved := make([]Moved, len(moves))
	var at []int // of texts in moves
	texts = texts[:0]
	for i, m := range moves {
		if moved[i].Findings = findings[i]; findings[i].Refused() {
			continue
		}
		if moved[i].Findings, err = Parity(m.Document, readings[i].Document, ""); err != nil || moved[i].Findings != nil {
			if err != nil {
				return nil, err
			}
			continue
		}
		next := m.Document
		next.Nodes = maps.Clone(next.Nodes)
		for key, t := range m.Targets {
			node, ok := next.Nodes[key]
			if !ok {
				return nil, fmt.Errorf("source: %s has no Node %s", next.FlowKey, key)
			}
			node.Target = t
			next.Nodes[key] = node
		}
		text, err := Edit(m.Source, readings[i], next)
		if err != nil {
			return nil, err
		}
		next.Authoring.SourceDigest = Digest(text)
		moved[i].Document = next
		moved[i].Source = Change{Text: text, Digest: next.Authoring.SourceDigest, Before: m.Document.Authoring.SourceDigest, Unified: Unified(next.FlowKey, m.Source, text)}
		texts, at = append(texts, text), append(at, i)
	}
	if readings, findings, err = read(ctx, reader, "", texts...); err != nil {
		return nil, err
	}
	for k, i := range at {
		moved[i].Findings = findings[k]
		if !findings[k].Refused() {
			if moved[i].Findings, err = Parity(moved[i].Document, readings[k].Document, ""); err != nil {
				return nil, err
			}
		}
	}
	return moved, nil
}
