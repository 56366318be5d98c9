package planning

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pxhost/pxhost/shared/change"
	"github.com/pxhost/pxhost/shared/flow"
	"github.com/pxhost/pxhost/shared/flow/source"
	"github.com/pxhost/pxhost/shared/function"
	"github.com/pxhost/pxhost/shared/function/saved"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/quantity"
	"github.com/pxhost/pxhost/shared/report"
	"github.com/pxhost/pxhost/shared/report/pinned"
	"github.com/pxhost/pxhost/shared/semantic"
	"github.com/pxhost/pxhost/shared/snapshot"
	"github.com/pxhost/pxhost/shared/target"
)

// Recheck returns a check, with the code that runs now, of everything that a plan of
// Functions would save: the Function against its source, the Flows against it and those
// that are there, SDK-linked Flows against their sources (F4), and the Reports against
// the Flows.
func Recheck(reader snapshot.Reader, python Python) change.Recheck {
	functions, flows := saved.New(), pinned.New()
	return func(ctx context.Context, project target.Project, root history.Ref, changes []change.Change) (outcome.Findings, error) {
		s := reader.At(project, root)
		within := functions.In(s)
		lock, err := within.Lock(ctx)
		if err != nil {
			return nil, err
		}
		c := &checking{ctx: ctx, s: s, minor: lock.Python, contracts: overlay{saved: within}, flows: among{report.Known{}, flows.In(s)}, python: python}
		return c.all(changes)
	}
}

type checking struct {
	ctx       context.Context
	s         snapshot.Snapshot
	contracts overlay
	flows     among
	python    Python
	minor     string // of Python, that the Project pins
	found     outcome.Findings
}

func (c *checking) add(kind, key string, findings outcome.Findings) {
	for _, n := range findings {
		if n.Severity == outcome.Error {
			n.Path = on(kind, key, n.Path)
			c.found = append(c.found, n)
		}
	}
}

func (c *checking) all(changes []change.Change) (outcome.Findings, error) {
	byKind := map[string][]change.Change{}
	for _, d := range changes {
		byKind[d.Kind] = append(byKind[d.Kind], d)
	}
	if n := len(byKind["flow"]) + len(byKind["report"]) + len(byKind[function.Kind]); n != len(changes) || len(byKind[function.Kind]) != 1 {
		return nil, fmt.Errorf("planning: a plan of Functions that moves %d other things", len(changes)-n)
	}
	own := byKind[function.Kind][0]
	doc, findings := function.Decode(own.Document)
	if c.add(function.Kind, own.Key, findings); findings.Refused() {
		return c.found, nil
	}
	for _, ports := range []struct {
		name string
		of   map[string]quantity.Port
	}{{"inputs", doc.Inputs}, {"results", doc.Results}} {
		for _, key := range slices.Sorted(maps.Keys(ports.of)) {
			c.add(function.Kind, own.Key, ports.of[key].Check(semantic.Pointer(ports.name, key)))
		}
	}
	if err := c.checkSource(own, doc); err != nil {
		return nil, err
	}
	c.contracts.made = function.Ref{FunctionKey: own.Key, Version: doc.Version, Digest: string(own.Entry.RevisionRef)}.Target()
	c.contracts.ports = doc.Contract()
	if err := c.checkFlows(byKind["flow"]); err != nil {
		return nil, err
	}
	return c.found, c.checkReports(byKind["report"])
}

// checkSource reads the source of the Function again: what refuses it by now, and what
// it says otherwise than the document, is not saved.
func (c *checking) checkSource(own change.Change, doc function.Document) error {
	text, err := c.s.Object(c.ctx, doc.Source())
	if err != nil {
		return err
	}
	read, findings, err := readSource(c.ctx, c.python, c.minor, string(text), function.SourcePath)
	if c.add(function.Kind, own.Key, findings); read == nil || err != nil {
		return err
	}
	said, findings, err := function.Judge(*read, string(text), function.SourcePath, own.Key, doc.Version)
	if c.add(function.Kind, own.Key, findings); findings.Refused() || err != nil {
		return err
	}
	differences, err := function.Diff(&doc, said)
	if err != nil {
		return err
	}
	findings = nil
	for _, d := range differences {
		findings.Add(outcome.SourceParity, d.Path, outcome.Params{"op": d.Op})
	}
	c.add(function.Kind, own.Key, findings)
	return nil
}

// checkFlows checks the Flows, some hundred at a time, and remembers what they show.
func (c *checking) checkFlows(changes []change.Change) error {
	for part := range slices.Chunk(changes, together) {
		docs, found, shown := make([]flow.Document, len(part)), make([]outcome.Findings, len(part)), make([]report.Boundary, len(part))
		if err := each(len(part), func(i int) (err error) {
			if docs[i], found[i] = flow.Decode(part[i].Document); found[i].Refused() {
				return nil
			}
			_, found[i], err = flow.Validate(c.ctx, docs[i], c.contracts)
			shown[i] = report.Boundary{Inputs: docs[i].Inputs, Results: ports(docs[i].Results), Cost: flow.Cost(docs[i])}
			return err
		}); err != nil {
			return err
		}
		for i, d := range part {
			c.add("flow", d.Key, found[i])
			c.flows.known[target.Flow{Scope: c.s.Project.Scope(), FlowKey: d.Key, RevisionRef: string(d.Entry.RevisionRef)}] = shown[i]
		}
		if err := c.checkParity(part, docs); err != nil {
			return err
		}
	}
	return nil
}

func (c *checking) checkParity(part []change.Change, docs []flow.Document) error {
	var keys []string
	var linked []flow.Document
	var read []*snapshot.Saved
	for i, d := range docs {
		if d.Authoring.Kind == flow.SDK {
			keys, linked = append(keys, part[i].Key), append(linked, d)
			read = append(read, &snapshot.Saved{Ref: history.Ref(d.Authoring.SourceDigest)})
		}
	}
	if linked == nil {
		return nil
	}
	if err := c.s.Read(c.ctx, read...); err != nil {
		return err
	}
	sources := make([]string, len(read))
	for i, r := range read {
		sources[i] = string(r.Document)
	}
	found, err := source.CheckAll(c.ctx, c.python, linked, sources)
	if err != nil {
		return err
	}
	for i, findings := range found {
		c.add("flow", keys[i], findings)
	}
	return nil
}

func (c *checking) checkReports(changes []change.Change) error {
	for part := range slices.Chunk(changes, together) {
		found := make([]outcome.Findings, len(part))
		if err := each(len(part), func(i int) error {
			doc, findings := report.Decode(part[i].Document)
			if findings.Refused() {
				found[i] = findings
				return nil
			}
			var err error
			_, found[i], err = report.Validate(c.ctx, doc, c.flows)
			return err
		}); err != nil {
			return err
		}
		for i, d := range part {
			c.add("report", d.Key, found[i])
		}
	}
	return nil
}

// Appeared returns the search for usages that came since a plan was made: Flows that
// use the Function and Reports that are pinned to what a Flow was that moves, and that
// the plan does not move. What was edited otherwise meanwhile, and what is pinned to an
// earlier revision, stays as the plan told. It reads what the two snapshots do not
// share.
func Appeared(reader snapshot.Reader) change.Appeared {
	return func(ctx context.Context, project target.Project, planned, now history.Ref, changes []change.Change) (outcome.Findings, error) {
		s := reader.At(project, now)
		moves := map[string]bool{}
		pinned := map[target.Flow]bool{}
		var uses []string // of what a usage would have
		for _, c := range changes {
			moves[c.CatalogKey()] = true
			switch {
			case c.Kind == function.Kind:
				uses = append(uses, c.CatalogKey())
			case c.Kind == "flow" && c.Base != nil:
				uses = append(uses, c.CatalogKey())
				pinned[target.Flow{Scope: project.Scope(), FlowKey: c.Key, RevisionRef: string(c.Base.RevisionRef)}] = true
			}
		}
		used := make(map[string]bool, len(uses))
		for _, key := range uses {
			used[key] = true
		}
		var findings outcome.Findings
		appeared := func(key string) {
			findings.Add(outcome.GenerationStale, "/planRef", outcome.Params{"target": key, "rule": "usage_appeared"})
		}
		var keys []string
		var reports []*snapshot.Saved
		for d, err := range s.Catalog.Diff(ctx, s.Space, planned, now) {
			switch {
			case err != nil:
				return nil, err
			case d.New == nil || moves[d.Key] || !slices.ContainsFunc(d.New.Uses, func(key string) bool { return used[key] }):
			case strings.HasPrefix(d.Key, history.Key("flow", "")):
				appeared(d.Key)
			case strings.HasPrefix(d.Key, history.Key("report", "")):
				keys, reports = append(keys, d.Key), append(reports, &snapshot.Saved{Ref: d.New.RevisionRef})
			}
		}
		if reports == nil {
			return findings, nil
		}
		if err := s.Read(ctx, reports...); err != nil {
			return nil, err
		}
		for i, r := range reports {
			doc, unreadable := report.Decode(r.Document)
			if unreadable.Refused() {
				return nil, fmt.Errorf("planning: %s cannot be read", keys[i])
			}
			for _, c := range doc.Connections {
				if pinned[c.FlowTarget] {
					appeared(keys[i])
					break
				}
			}
		}
		return findings, nil
	}
}
