// Package planning compiles commands on Functions into a change of everything that
// they move: the Function, every Flow that uses it, and every Report that is pinned to
// such a Flow as it stands (N3, N5). It is what planning, validating and applying such
// a change have in common.
//
// It reads one snapshot, stores nothing, and executes no Python. What it costs grows
// with the usages and not with the Project: usages are a range of the catalog.
package planning

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/pxhost/pxhost/shared/authored"
	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/change"
	"github.com/pxhost/pxhost/shared/flow"
	"github.com/pxhost/pxhost/shared/flow/source"
	"github.com/pxhost/pxhost/shared/function"
	"github.com/pxhost/pxhost/shared/function/packages"
	"github.com/pxhost/pxhost/shared/function/saved"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/policy"
	"github.com/pxhost/pxhost/shared/python"
	"github.com/pxhost/pxhost/shared/report"
	"github.com/pxhost/pxhost/shared/report/pinned"
	"github.com/pxhost/pxhost/shared/search"
	"github.com/pxhost/pxhost/shared/semantic"
	"github.com/pxhost/pxhost/shared/snapshot"
	"github.com/pxhost/pxhost/shared/target"
)

// Results tells which slots of a Report, as it is saved, have a Current result.
type Results interface {
	Current(ctx context.Context, s snapshot.Snapshot, doc report.Document) (map[report.ReportResultSlot]bool, error)
}

// Python reads the sources of Functions and of SDK-linked Flows; *python.Client does.
type Python interface {
	python.Reader
	source.Reader
}

// A Planner compiles changes of Functions.
type Planner struct {
	Python Python
	// Results may be nil: then a plan tells of each slot whose result would turn
	// Stale, and not whether it has one.
	Results Results

	functions saved.Functions
	flows     pinned.Flows
}

// New returns a Planner.
func New(python Python, results Results) *Planner {
	return &Planner{python, results, saved.New(), pinned.New()}
}

// A Request is what is to be compiled.
type Request struct {
	Target target.FunctionChange
	// ExpectedGeneration is nil where nobody expects one: a validation need not.
	ExpectedGeneration *int64
	Commands           []function.Command
	Right              policy.Right // that it takes
	// Earlier is the plan that the request goes on from, nil for none; Missing says
	// why one that is named cannot be gone on from.
	Earlier *authored.Earlier[function.Command]
	Missing outcome.Findings
}

// A Compiled is what the commands of a Request make.
type Compiled struct {
	Ref      function.Ref
	Document function.Document // of the new version
	// Target is the request's, whole: of a validation, that may leave it out, too.
	Target target.FunctionChange

	Commands, Unlabelled []canon.Raw
	Kinds                []string
	Base                 change.Base
	Changes              []change.Change // the Function first
	Touched              []string
	Diff                 []function.Change
	Impact               Impact
	// Conflicts are where the request meets what changed since the earlier plan (P8).
	Conflicts []semantic.Conflict
}

// sourcePath is where the source stands in the request.
const sourcePath = "/commands/0/source"

// Compile compiles a request in the order of decision 4: form, existence, permission,
// generation, revision and source digest, the earlier plan, commands, all documents
// that move; the findings of the first stage that fails are reported together. notes
// refuse nothing. Conflicts are told by the Compiled and refuse nothing here: they
// come after the findings of the commands and before those of documents.
func (p *Planner) Compile(ctx context.Context, s snapshot.Snapshot, q Request) (c Compiled, notes, refused outcome.Findings, err error) {
	if refused = form(q); refused != nil {
		return c, nil, refused, nil
	}
	m := &making{Planner: p, s: s, q: q, contracts: p.functions.In(s)}
	if refused, err = m.base(ctx); refused != nil || err != nil {
		return c, nil, refused, err
	}
	if q.Missing != nil {
		return c, nil, q.Missing, nil
	}
	if q.Earlier != nil {
		if refused, err = m.conflicts(ctx); refused != nil || m.out.Conflicts != nil || err != nil {
			return m.out, nil, refused, err
		}
	}
	if refused, err = m.version(ctx); refused.Refused() || err != nil {
		return c, nil, refused, err
	}
	if refused, err = m.move(ctx); refused.Refused() || err != nil {
		return c, nil, refused, err
	}
	return m.out, m.notes, nil, m.finish(ctx)
}

// form refuses what no state of a Project makes right.
func form(q Request) (findings outcome.Findings) {
	exact := map[string]bool{"version": q.Target.Version != 0, "digest": q.Target.Digest != "", "sourceDigest": q.Target.SourceDigest != ""}
	for i, c := range q.Commands {
		at := "/commands/" + strconv.Itoa(i)
		_, moves := c.(function.ReplaceNodeTarget)
		switch {
		case i == 0 && moves:
			findings.Add(outcome.SchemaInvalid, at+"/kind", outcome.Params{"rule": "first_command", "allowed": []string{"CreateFunction", "CreateFunctionVersion", "BranchProjectFunction"}})
		case i > 0 && !moves:
			findings.Add(outcome.SchemaInvalid, at+"/kind", outcome.Params{"rule": "one_function_a_plan", "allowed": []string{"ReplaceNodeTarget"}})
		case i > 0:
			if _, all := q.Commands[0].(function.CreateFunctionVersion); all {
				// It moves all current usages; another Node is moved by pxflow_plan_change.
				findings.Add(outcome.SchemaInvalid, at+"/kind", outcome.Params{"rule": "single_command"})
			}
		}
	}
	if len(q.Commands) == 0 {
		return findings
	}
	for _, name := range []string{"version", "digest", "sourceDigest"} {
		switch _, next := q.Commands[0].(function.CreateFunctionVersion); {
		case next && !exact[name]:
			findings.Add(outcome.SchemaInvalid, "/target/"+name, outcome.Params{"rule": "required"})
		case !next && exact[name]:
			findings.Add(outcome.SchemaInvalid, "/target/"+name, outcome.Params{"rule": "new_function"})
		}
	}
	if b, ok := q.Commands[0].(function.BranchProjectFunction); ok && b.FunctionKey != q.Target.FunctionKey {
		findings.Add(outcome.PlanMismatch, "/target/functionKey", outcome.Params{"functionKey": b.FunctionKey})
	}
	return findings
}

// A making is a Compiled in the middle of being made.
type making struct {
	*Planner
	s         snapshot.Snapshot
	q         Request
	contracts saved.Within
	out       Compiled
	notes     outcome.Findings

	entry   *history.Entry     // of the Function that gets a version, nil for a new one
	before  *function.Document // its version that the request begins from
	text    string             // the new source
	origin  *function.Document // whose source the new one is compared with
	changed []flow.PortChange  // of the contract
}

// base finds what the request begins from: existence, permission, generation, revision
// and source digest.
func (m *making) base(ctx context.Context) (refused outcome.Findings, err error) {
	t := m.q.Target
	m.out.Target = t
	if t.Package != (target.Package{}) {
		return m.owned(), nil
	}
	if _, next := m.q.Commands[0].(function.CreateFunctionVersion); !next {
		m.entry, err = m.s.Catalog.Entry(ctx, m.s.Space, m.s.Root, history.Key(function.Kind, t.FunctionKey))
		if err != nil {
			return nil, err
		}
		if m.entry != nil {
			refused.Add(outcome.FuncHeadAlreadyExists, "/target/functionKey", outcome.Params{"functionKey": t.FunctionKey})
			return refused, nil
		}
		if refused = m.s.Needs(m.q.Right, "/target/scope"); refused != nil {
			return refused, nil
		}
		if e := m.q.ExpectedGeneration; e != nil && *e != 0 {
			refused.Add(outcome.GenerationStale, "/expectedGeneration", outcome.Params{"expected": *e, "current": 0})
		}
		return refused, nil
	}
	head, refused, err := m.s.Revision(ctx, snapshot.Address{Kind: function.Kind, Key: t.FunctionKey, Ref: history.Ref(t.Digest), Path: "/target"})
	for i := range refused {
		if refused[i].Path == "/target/revisionRef" {
			refused[i].Path = "/target/digest"
		}
	}
	if refused != nil || err != nil {
		return refused, err
	}
	doc, unreadable := function.Decode(head.Document)
	if unreadable.Refused() {
		return nil, fmt.Errorf("planning: a saved Function cannot be read")
	}
	if doc.Version != t.Version {
		refused.Add(outcome.TargetNotFound, "/target/version", outcome.Params{"functionKey": t.FunctionKey})
		return refused, nil
	}
	if refused = m.s.Needs(m.q.Right, "/target/scope"); refused != nil {
		return refused, nil
	}
	detail, err := function.DetailOf(head.Head)
	if err != nil {
		return nil, err
	}
	stale := func(path string, expected any) {
		refused.Add(outcome.GenerationStale, path, outcome.Params{"expected": expected, "current": head.Head.Generation,
			"currentFunctionRef": function.Ref{FunctionKey: t.FunctionKey, Version: detail.Version, Digest: string(head.Head.RevisionRef)}, "currentSourceDigest": detail.SourceDigest})
	}
	if e := m.q.ExpectedGeneration; e != nil && *e != head.Head.Generation {
		stale("/expectedGeneration", *e)
	}
	if !head.Current() {
		stale("/target/digest", t.Digest)
	}
	if t.SourceDigest != detail.SourceDigest {
		stale("/target/sourceDigest", t.SourceDigest)
	}
	m.entry, m.before, m.origin = &head.Head, &doc, &doc
	m.out.Base = change.Base{RevisionRef: t.Digest, SourceDigest: t.SourceDigest}
	return refused, nil
}

// owned refuses to write what a package owns, and hands on to where it is written (T5).
func (m *making) owned() (refused outcome.Findings) {
	t := m.q.Target
	f, ok := packages.Product().Owns(t.Package, t.FunctionKey)
	if !ok {
		refused.Add(outcome.TargetNotFound, "/target/package", outcome.Params{"functionKey": t.FunctionKey})
		return refused
	}
	refused.Add(outcome.TargetReadOnly, "/target/package", outcome.Params{"functionKey": t.FunctionKey, "handoff": f.Handoff(m.s.Project, packages.OpenOwningPackage)})
	return refused
}

// version reads the source and makes the new version.
func (m *making) version(ctx context.Context) (refused outcome.Findings, err error) {
	next := 1
	var ref *function.Ref // that the command names
	switch c := m.q.Commands[0].(type) {
	case function.CreateFunction:
		m.text = c.Source
	case function.CreateFunctionVersion:
		m.text, ref, next = c.Source, &c.FunctionRef, m.before.Version+1
		if *ref != (function.Ref{FunctionKey: m.q.Target.FunctionKey, Version: m.q.Target.Version, Digest: m.q.Target.Digest}) {
			refused.Add(outcome.PlanMismatch, "/commands/0/functionRef", outcome.Params{"rule": "as_in_target"})
		}
	case function.BranchProjectFunction:
		m.text, ref = c.Source, &c.FunctionRef
		found, err := m.contracts.Documents(ctx, []flow.FunctionTarget{ref.Target()})
		if err != nil {
			return nil, err
		}
		if origin, ok := found[ref.Target()]; ok {
			m.origin = &origin
		} else {
			refused.Add(outcome.TargetNotFound, "/commands/0/functionRef", outcome.Params{"functionKey": ref.FunctionKey, "version": ref.Version})
		}
	default:
		return nil, fmt.Errorf("planning: a first command %s", c.Variant())
	}
	lock, err := m.contracts.Lock(ctx)
	if err != nil {
		return nil, err
	}
	read, findings, err := readSource(ctx, m.Python, lock.Python, m.text, sourcePath)
	if err != nil {
		return nil, err
	}
	refused = append(refused, findings...)
	if read != nil {
		doc, findings, err := function.Judge(*read, m.text, sourcePath, m.q.Target.FunctionKey, next)
		if err != nil {
			return nil, err
		}
		refused = append(refused, findings...)
		if m.out.Document = doc; !findings.Refused() {
			m.out.Ref.FunctionKey, m.out.Ref.Version = doc.FunctionKey, doc.Version
			if _, m.out.Ref.Digest, err = doc.RevisionRef(); err != nil {
				return nil, err
			}
		}
	}
	return append(refused, m.nodes()...), nil
}

// readSource reads a source; what it says is nil where findings, which all stand at
// path, refuse it. minor is the Python that the Project pins, which has to run it; the
// declarative source of a Flow is run by none, and read by any.
func readSource(ctx context.Context, reader python.Reader, minor, source, path string) (*python.Function, outcome.Findings, error) {
	reply, err := reader.Read(ctx, python.Request{Kind: python.FunctionKind, Source: source, Python: minor})
	if d, ok := python.Unavailable(err, path); ok {
		return nil, outcome.Findings{d}, nil
	}
	if err != nil {
		return nil, nil, err
	}
	return reply.Function, reply.Diagnostics(path), nil
}

// keyOf returns the functionKey that a source says.
func (p *Planner) keyOf(ctx context.Context, source string) (string, outcome.Findings, error) {
	read, findings, err := readSource(ctx, p.Python, "", source, sourcePath) // it is read again by whoever compiles it
	if read == nil || err != nil {
		return "", findings, err
	}
	return read.FunctionKey, findings, nil
}

// nodes holds the Nodes that commands move against the Function that the plan creates.
func (m *making) nodes() (refused outcome.Findings) {
	for i, c := range m.q.Commands {
		r, ok := c.(function.ReplaceNodeTarget)
		if !ok {
			continue
		}
		at := "/commands/" + strconv.Itoa(i)
		if t := r.Target; t.FunctionKey != m.q.Target.FunctionKey || t.Version != 1 {
			refused.Add(outcome.SchemaInvalid, at+"/target", outcome.Params{"rule": "created_in_this_plan", "functionKey": m.q.Target.FunctionKey, "version": 1})
		} else if t.Digest != "" && t.Digest != m.out.Ref.Digest {
			refused.Add(outcome.PlanMismatch, at+"/target/digest", outcome.Params{"rule": "left_out"})
		}
		if r.FlowTarget.Scope != m.q.Target.Scope {
			refused.Add(outcome.SchemaInvalid, at+"/flowTarget/scope", outcome.Params{"rule": "same_scope"})
		}
	}
	return refused
}

// own is the change of the Function itself.
func (m *making) own() (change.Change, error) {
	doc := m.out.Document
	text, digest, err := doc.RevisionRef()
	if err != nil {
		return change.Change{}, err
	}
	detail, err := canon.Encode(function.Detail{Version: doc.Version, SourceDigest: doc.SourceDigest})
	if err != nil {
		return change.Change{}, err
	}
	c := change.Change{
		Kind: function.Kind, Key: doc.FunctionKey, Paths: []string{function.SourcePath}, Document: text, Objects: [][]byte{[]byte(m.text)},
		Text:  search.Normalize(function.SearchText(doc)...),
		Entry: history.Entry{RevisionRef: history.Ref(digest), Label: doc.Label, Description: doc.Description, Detail: detail},
	}
	if m.entry != nil {
		c.Base = &history.Revision{RevisionRef: m.entry.RevisionRef, Generation: m.entry.Generation}
		c.Entry.Generation = m.entry.Generation + 1
	} else {
		c.Paths = []string{""}
	}
	return c, nil
}

// normalized returns the command in the one form of all that say the same.
func normalized(c function.Command) function.Command {
	if r, ok := c.(function.ReplaceNodeTarget); ok {
		r.Target.Digest = ""
		return r
	}
	return c
}

// finish puts together what is shown and stored.
func (m *making) finish(ctx context.Context) error {
	commands := make([]function.Command, len(m.q.Commands))
	for i, c := range m.q.Commands {
		commands[i] = normalized(c)
		m.out.Kinds = append(m.out.Kinds, c.Variant())
	}
	slices.Sort(m.out.Kinds)
	m.out.Kinds = slices.Compact(m.out.Kinds)
	var err error
	if m.out.Commands, err = canon.EncodeEach(commands); err != nil {
		return err
	}
	// A source is code: there is no label in it that is not its author's to review.
	m.out.Unlabelled = m.out.Commands
	if m.origin != nil {
		sources, err := m.contracts.Sources(ctx, *m.origin)
		if err != nil {
			return err
		}
		m.out.Diff = slices.Insert(m.out.Diff, 0, function.SourceDiff(string(sources[m.origin.Source()]), m.text))
	}
	return nil
}

// Draft is the plan of a Compiled.
func (c Compiled) Draft(s snapshot.Snapshot, tool string, expectedGeneration int64) (change.Draft, error) {
	d := change.Draft{
		Tool: tool, Project: s.Project, ExpectedGeneration: expectedGeneration, Base: c.Base, Commands: c.Commands, Unlabelled: c.Unlabelled,
		Policy: s.Policy, Subject: policy.OnFunction, Kinds: c.Kinds, Cost: c.Impact.Cost, TouchedSemanticPaths: c.Touched, Changes: c.Changes,
	}
	if c.Base.RevisionRef != "" {
		d.Root = s.Root
	}
	return d, authored.Show(&d, c.Target, c.Diff, c.Impact)
}
