package planning

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/pxhost/pxhost/shared/change"
	"github.com/pxhost/pxhost/shared/component"
	"github.com/pxhost/pxhost/shared/flow"
	"github.com/pxhost/pxhost/shared/flow/source"
	"github.com/pxhost/pxhost/shared/function"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/quantity"
	"github.com/pxhost/pxhost/shared/report"
	"github.com/pxhost/pxhost/shared/search"
	"github.com/pxhost/pxhost/shared/semantic"
	"github.com/pxhost/pxhost/shared/snapshot"
	"github.com/pxhost/pxhost/shared/target"
)

// together is how many documents are in memory at once, decoded.
const together = 250

// A moving is one Flow that is moved to a new revision.
type moving struct {
	key   string // flowKey
	entry history.Entry
	nodes []string // that run another version afterwards, in order
	from  []flow.FunctionTarget
	at    string // where the request names the Flow; "" for a usage that was found

	change   change.Change
	diff     []function.Change
	checks   []Check
	notes    outcome.Findings
	findings outcome.Findings
	is       report.Boundary // of the new revision
	after    flow.Document   // the next document, until it is validated
	unified  string          // how its Python source changes, of an SDK-linked Flow
	linked   *source.Move    // of an SDK-linked Flow
}

// base and next are the revisions as Reports name them.
func (m moving) base(project target.Project) target.Flow {
	return target.Flow{Scope: project.Scope(), FlowKey: m.key, RevisionRef: string(m.entry.RevisionRef)}
}

func (m moving) next(project target.Project) target.Flow {
	return target.Flow{Scope: project.Scope(), FlowKey: m.key, RevisionRef: string(m.change.Entry.RevisionRef)}
}

// on puts the target before a path of another document than the Function.
func on(kind, key, path string) string { return history.Key(kind, key) + ":" + path }

// overlay are the Functions of a snapshot with the one that the plan makes.
type overlay struct {
	made  flow.FunctionTarget
	ports component.Contract
	saved flow.Contracts
}

func (o overlay) Functions(ctx context.Context, refs []flow.FunctionTarget) (map[flow.FunctionTarget]component.Contract, error) {
	rest := slices.DeleteFunc(slices.Clone(refs), func(r flow.FunctionTarget) bool { return r == o.made })
	out := make(map[flow.FunctionTarget]component.Contract, len(refs))
	if len(rest) > 0 {
		found, err := o.saved.Functions(ctx, rest)
		if err != nil {
			return nil, err
		}
		maps.Copy(out, found)
	}
	if len(rest) < len(refs) {
		out[o.made] = o.ports
	}
	return out, nil
}

// Explain implements flow.Explainer.
func (o overlay) Explain(ref flow.FunctionTarget) (outcome.Code, outcome.Params) {
	if e, ok := o.saved.(flow.Explainer); ok {
		return e.Explain(ref)
	}
	return "", nil
}

// move finds what moves with the Function, and moves it.
func (m *making) move(ctx context.Context) (refused outcome.Findings, err error) {
	own, err := m.own()
	if err != nil {
		return nil, err
	}
	differences, err := function.Diff(m.before, m.out.Document)
	if err != nil {
		return nil, err
	}
	for _, d := range differences {
		m.out.Diff = append(m.out.Diff, function.Change{Path: d.Path, Op: d.Op, Before: d.Before, After: d.After})
	}
	m.out.Changes, m.out.Touched = []change.Change{own}, slices.Clone(own.Paths)
	m.begin()

	var flows []*moving
	if m.before != nil {
		flows, refused, err = m.usages(ctx)
	} else {
		flows, refused, err = m.named(ctx)
	}
	if refused != nil || err != nil {
		return refused, err
	}
	if refused, err = m.flowsMoved(ctx, flows); refused.Refused() || err != nil {
		return refused, err
	}
	for _, f := range flows {
		m.addFlow(f)
	}
	if len(flows) == 0 {
		return nil, nil
	}
	return m.reports(ctx, flows)
}

// usages are the Flows that use the Function as they stand: a range of the catalog.
func (m *making) usages(ctx context.Context) ([]*moving, outcome.Findings, error) {
	var keys []string
	for user, err := range m.s.Catalog.UsersFrom(ctx, m.s.Space, m.s.Root, history.Key(function.Kind, m.out.Document.FunctionKey), "", history.Key("flow", "")) {
		if err != nil {
			return nil, nil, err
		}
		keys = append(keys, user)
	}
	if n := 1 + len(keys); n > change.MaxTargets {
		return nil, outcome.Findings{outcome.New(outcome.LimitExceeded, "/commands", outcome.Params{"limit": change.MaxTargets, "observed": n, "of": "targets"})}, nil
	}
	entries, err := m.s.Catalog.Entries(ctx, m.s.Space, m.s.Root, keys...)
	if err != nil {
		return nil, nil, err
	}
	out := make([]*moving, len(keys))
	for i, e := range entries {
		if e == nil {
			return nil, nil, fmt.Errorf("planning: %s uses a Function and is not in the catalog", keys[i])
		}
		out[i] = &moving{key: strings.TrimPrefix(keys[i], history.Key("flow", "")), entry: *e}
	}
	return out, nil, nil
}

// named are the Flows whose Nodes the commands move, each at the exact revision that
// they name, which must be the head.
func (m *making) named(ctx context.Context) ([]*moving, outcome.Findings, error) {
	byKey := map[string]*moving{}
	var out []*moving
	var addresses []snapshot.Address
	var refused outcome.Findings
	for i, c := range m.q.Commands {
		r, ok := c.(function.ReplaceNodeTarget)
		if !ok {
			continue
		}
		at := "/commands/" + strconv.Itoa(i)
		f := byKey[r.FlowTarget.FlowKey]
		if f == nil {
			f = &moving{key: r.FlowTarget.FlowKey, at: at}
			byKey[f.key] = f
			out = append(out, f)
			addresses = append(addresses, snapshot.Address{Kind: "flow", Key: f.key, Ref: history.Ref(r.FlowTarget.RevisionRef), Path: at + "/flowTarget"})
		} else if string(addresses[slices.Index(out, f)].Ref) != r.FlowTarget.RevisionRef {
			refused.Add(outcome.SchemaInvalid, at+"/flowTarget/revisionRef", outcome.Params{"rule": "one_flow_revision", "flowKey": f.key})
		}
		if slices.Contains(f.nodes, r.NodeKey) {
			refused.Add(outcome.SchemaInvalid, at+"/nodeKey", outcome.Params{"rule": "duplicate", "nodeKey": r.NodeKey})
		}
		f.nodes = append(f.nodes, r.NodeKey)
	}
	if refused != nil || out == nil {
		return nil, refused, nil
	}
	located, refused, err := m.s.Locate(ctx, addresses...)
	if refused != nil || err != nil {
		return nil, refused, err
	}
	for i, l := range located {
		if !l.Current() {
			refused.Add(outcome.GenerationStale, addresses[i].Path+"/revisionRef", outcome.Params{"target": history.Key("flow", out[i].key), "current": l.Head.Generation, "currentRevisionRef": string(l.Head.RevisionRef)})
		}
		out[i].entry = l.Head
		slices.Sort(out[i].nodes)
	}
	return out, refused, nil
}

// flowsMoved makes the new revision of every Flow and validates it with the new
// contract, some hundred at a time.
func (m *making) flowsMoved(ctx context.Context, flows []*moving) (refused outcome.Findings, err error) {
	contracts := overlay{m.out.Ref.Target(), m.out.Document.Contract(), m.contracts}
	for part := range slices.Chunk(flows, together) {
		read := make([]*snapshot.Saved, len(part))
		for i, f := range part {
			read[i] = &snapshot.Saved{Ref: f.entry.RevisionRef}
		}
		if err := m.s.Read(ctx, read...); err != nil {
			return nil, err
		}
		docs := make([]flow.Document, len(part))
		if err := each(len(part), func(i int) error {
			var unreadable outcome.Findings
			if docs[i], unreadable = flow.Decode(read[i].Document); unreadable.Refused() {
				return fmt.Errorf("planning: flow %s cannot be read", part[i].key)
			}
			m.retarget(part[i], &docs[i])
			return nil
		}); err != nil {
			return nil, err
		}
		if err := m.relink(ctx, part); err != nil {
			return nil, err
		}
		if err := each(len(part), func(i int) error { return m.flowMoved(ctx, part[i], docs[i], contracts) }); err != nil {
			return nil, err
		}
		for _, f := range part {
			refused = append(refused, f.findings...)
		}
	}
	return refused, nil
}

// retarget finds the Nodes of a Flow that move and makes its next document.
func (m *making) retarget(f *moving, doc *flow.Document) {
	made := m.out.Ref.Target()
	if f.at == "" {
		for key, node := range doc.Nodes {
			if t, ok := node.Target.(flow.FunctionTarget); ok && t.FunctionKey == made.FunctionKey && !t.Owned() {
				f.nodes = append(f.nodes, key)
			}
		}
		slices.Sort(f.nodes)
	}
	next := *doc
	next.Nodes = maps.Clone(doc.Nodes)
	for _, key := range f.nodes {
		node, ok := next.Nodes[key]
		if !ok {
			f.findings.Add(outcome.ReferenceUnknown, m.nodeAt(f, key), outcome.Params{"nodeKey": key})
			continue
		}
		was, _ := node.Target.(flow.FunctionTarget)
		f.from = append(f.from, was)
		node.Target = made
		next.Nodes[key] = node
	}
	f.after = next
	if doc.Authoring.Kind == flow.SDK {
		f.linked = &source.Move{Document: *doc, Targets: map[string]flow.Target{}}
		for _, key := range f.nodes {
			f.linked.Targets[key] = made
		}
	}
}

// nodeAt is where the request names a Node.
func (m *making) nodeAt(f *moving, nodeKey string) string {
	for i, c := range m.q.Commands {
		if r, ok := c.(function.ReplaceNodeTarget); ok && r.FlowTarget.FlowKey == f.key && r.NodeKey == nodeKey {
			return "/commands/" + strconv.Itoa(i) + "/nodeKey"
		}
	}
	return on("flow", f.key, semantic.Pointer("nodes", nodeKey))
}

// relink edits the Python sources of the SDK-linked Flows among those that move.
func (m *making) relink(ctx context.Context, part []*moving) error {
	var linked []*moving
	var read []*snapshot.Saved
	for _, f := range part {
		if f.linked == nil || f.findings.Refused() {
			continue
		}
		linked = append(linked, f)
		read = append(read, &snapshot.Saved{Ref: history.Ref(f.linked.Document.Authoring.SourceDigest)})
	}
	if linked == nil {
		return nil
	}
	if err := m.s.Read(ctx, read...); err != nil {
		return err
	}
	moves := make([]source.Move, len(linked))
	for i, f := range linked {
		f.linked.Source = string(read[i].Document)
		moves[i] = *f.linked
	}
	moved, err := source.Retarget(ctx, m.Python, moves)
	if err != nil {
		return err
	}
	for i, f := range linked {
		for _, n := range moved[i].Findings {
			n.Path = on("flow", f.key, n.Path)
			f.findings = append(f.findings, n)
		}
		f.linked, f.after = nil, moved[i].Document
		f.change.Objects = [][]byte{[]byte(moved[i].Source.Text)}
		f.unified = moved[i].Source.Unified
	}
	return nil
}

// flowMoved validates the next document of a Flow and makes its change.
func (m *making) flowMoved(ctx context.Context, f *moving, base flow.Document, contracts flow.Contracts) error {
	next := f.after
	f.after = flow.Document{}
	if f.findings.Refused() {
		return nil
	}
	analysis, findings, err := flow.Validate(ctx, next, contracts)
	if err != nil {
		return err
	}
	for _, n := range findings {
		n.Path = on("flow", f.key, n.Path)
		f.findings = append(f.findings, n)
	}
	if f.findings.Refused() {
		f.findings = slices.DeleteFunc(f.findings, func(n outcome.Diagnostic) bool { return n.Severity != outcome.Error })
		return nil
	}
	f.findings, f.notes = nil, f.findings
	if len(m.changed) > 0 || m.before == nil {
		before, _, err := flow.Validate(ctx, base, contracts)
		if err != nil {
			return err
		}
		for _, c := range flow.ChangedChecks(before, analysis, nil) {
			f.checks = append(f.checks, Check{history.Key("flow", f.key), c})
		}
	}
	differences, err := flow.Diff(&base, next)
	if err != nil {
		return err
	}
	var paths []string
	for _, key := range f.nodes {
		paths = append(paths, semantic.Pointer("nodes", key, "target"))
	}
	for _, d := range differences {
		c := function.Change{Path: on("flow", f.key, d.Path), Op: d.Op, Before: d.Before, After: d.After}
		if d.Path == "/authoring" { // of which the source alone changes
			c.Unified = f.unified
		}
		f.diff = append(f.diff, c)
	}
	f.is = report.Boundary{Inputs: next.Inputs, Results: ports(next.Results), Cost: flow.Cost(next)}
	f.change = change.Change{
		Kind: "flow", Key: f.key, Base: &history.Revision{RevisionRef: f.entry.RevisionRef, Generation: f.entry.Generation},
		Entry: f.entry, Paths: paths, Kinds: []string{flow.ReplaceNodeTarget{}.Variant()}, Document: analysis.Canonical, Objects: f.change.Objects,
	}
	f.change.Entry.RevisionRef, f.change.Entry.Generation = history.Ref(analysis.RevisionRef), f.entry.Generation+1
	if uses := flow.Uses(next); slices.Equal(uses, f.entry.Uses) {
		f.change.KeepText = true // it names what it named
	} else {
		f.change.Entry.Uses, f.change.Text = uses, search.Normalize(flow.SearchText(next)...)
	}
	return nil
}

func ports(results map[string]flow.ResultPort) map[string]quantity.Port {
	out := make(map[string]quantity.Port, len(results))
	for key, r := range results {
		out[key] = r.Port
	}
	return out
}

// reports finds the Reports that are connected to the Flows that move, and moves the
// connections that are pinned to what the Flows were until now. A connection that is
// pinned to an earlier revision stays. Where single Nodes move, all Reports stay: each
// is pinned to the revision that it names.
func (m *making) reports(ctx context.Context, flows []*moving) (refused outcome.Findings, err error) {
	users := map[string]bool{}
	for _, f := range flows {
		for user, err := range m.s.Catalog.UsersFrom(ctx, m.s.Space, m.s.Root, history.Key("flow", f.key), "", history.Key("report", "")) {
			if err != nil {
				return nil, err
			}
			users[user] = true
		}
	}
	keys := slices.Sorted(maps.Keys(users))
	if m.before == nil {
		for _, key := range keys {
			m.out.Impact.preserve(key, "it stays pinned to the Flow revision that it names")
		}
		return nil, nil
	}
	entries, err := m.s.Catalog.Entries(ctx, m.s.Space, m.s.Root, keys...)
	if err != nil {
		return nil, err
	}
	moves := make(map[target.Flow]*moving, len(flows))
	known := make(map[target.Flow]report.Boundary, 2*len(flows))
	for _, f := range flows {
		moves[f.base(m.s.Project)] = f
		known[f.next(m.s.Project)] = f.is
		known[f.base(m.s.Project)] = f.is // the public ports stand in the Flow, and no Node changes them
	}
	find := among{known, m.flows.In(m.s)}
	moving := make(map[string]bool, len(flows))
	for _, f := range flows {
		moving[f.key] = true
	}
	looked := 0
	for start := 0; start < len(keys); start += together {
		part, of := keys[start:min(start+together, len(keys))], entries[start:]
		read := make([]*snapshot.Saved, len(part))
		for i := range part {
			if of[i] == nil {
				return nil, fmt.Errorf("planning: %s uses a Flow and is not in the catalog", part[i])
			}
			read[i] = &snapshot.Saved{Ref: of[i].RevisionRef}
		}
		if err := m.s.Read(ctx, read...); err != nil {
			return nil, err
		}
		moved := make([]*movedReport, len(part))
		if err := each(len(part), func(i int) (err error) {
			moved[i], err = m.reportMoved(ctx, part[i], *of[i], read[i].Document, moves, moving, find)
			return err
		}); err != nil {
			return nil, err
		}
		if looked, err = m.lookUp(ctx, moved, looked); err != nil {
			return nil, err
		}
		for _, r := range moved {
			refused = append(refused, r.findings...)
			m.addReport(r)
		}
	}
	if n := len(m.out.Changes); n > change.MaxTargets {
		refused = append(refused, outcome.New(outcome.LimitExceeded, "/commands", outcome.Params{"limit": change.MaxTargets, "observed": n, "of": "targets"}))
	}
	return refused, nil
}

// MaxExamined is of how many Reports, in order of their keys, a plan looks up whether
// a slot that turns Stale has a Current result. Of those behind it, it does not say.
const MaxExamined = 500

// among finds Flow revisions that the plan makes or knows, and those that are saved.
type among struct {
	known report.Known
	saved report.Flows
}

func (a among) Boundaries(ctx context.Context, targets []target.Flow) (map[target.Flow]report.Boundary, error) {
	out, err := a.known.Boundaries(ctx, targets)
	if err != nil {
		return nil, err
	}
	rest := slices.DeleteFunc(slices.Clone(targets), func(t target.Flow) bool { _, ok := out[t]; return ok })
	if len(rest) == 0 {
		return out, nil
	}
	found, err := a.saved.Boundaries(ctx, rest)
	maps.Copy(out, found)
	return out, err
}

// A movedReport is one Report that uses a Flow that moves. change is zero where all
// of its connections stay.
type movedReport struct {
	key         string // "report/girder_review"
	connections []string
	stays       []string // flowKeys of connections that are pinned to an earlier revision
	change      change.Change
	diff        []function.Change
	stale       []StaleSlot
	findings    outcome.Findings
	cost        int64            // of one Run of each connection that moves
	base        *report.Document // until it was asked what its slots show
}

// lookUp asks which of the slots that turn Stale have a Current result, of many
// Reports at once: each answer is waited for, and none takes work. looked is of how
// many Reports it was asked.
func (m *making) lookUp(ctx context.Context, moved []*movedReport, looked int) (int, error) {
	var wait sync.WaitGroup
	errs := make([]error, len(moved))
	slots := make(chan struct{}, sideBySide)
	for i, r := range moved {
		base := r.base
		r.base = nil
		if m.Results == nil || len(r.stale) == 0 || looked >= MaxExamined {
			continue
		}
		looked++
		slots <- struct{}{}
		wait.Go(func() {
			defer func() { <-slots }()
			var current map[report.ReportResultSlot]bool
			if current, errs[i] = m.Results.Current(ctx, m.s, *base); errs[i] != nil {
				return
			}
			for k := range r.stale {
				is := current[report.ReportResultSlot{BlockKey: r.stale[k].BlockKey, SlotKey: r.stale[k].SlotKey}]
				r.stale[k].Current = &is
			}
		})
	}
	wait.Wait()
	return looked, errors.Join(errs...)
}

// sideBySide is how many Reports are asked about at once.
const sideBySide = 16

func (m *making) reportMoved(ctx context.Context, key string, entry history.Entry, document []byte, moves map[target.Flow]*moving, moving map[string]bool, flows report.Flows) (*movedReport, error) {
	r := &movedReport{key: key}
	base, unreadable := report.Decode(document)
	if unreadable.Refused() {
		return nil, fmt.Errorf("planning: %s cannot be read", key)
	}
	var commands []report.Command
	for _, name := range slices.Sorted(maps.Keys(base.Connections)) {
		t := base.Connections[name].FlowTarget
		if f := moves[t]; f != nil {
			r.connections = append(r.connections, name)
			r.cost += f.is.Cost
			commands = append(commands, report.SetConnectionFlow{ConnectionKey: name, FlowTarget: f.next(m.s.Project)})
		} else if moving[t.FlowKey] && t.Scope == m.s.Project.Scope() && !slices.Contains(r.stays, t.FlowKey) {
			r.stays = append(r.stays, t.FlowKey)
		}
	}
	if commands == nil {
		return r, nil
	}
	proposal, findings, err := report.Propose(ctx, &base, commands, flows)
	if err != nil {
		return nil, err
	}
	if findings.Refused() {
		name := strings.TrimPrefix(key, history.Key("report", ""))
		for _, n := range findings {
			if n.Severity == outcome.Error {
				n.Path = on("report", name, n.Path)
				r.findings = append(r.findings, n)
			}
		}
		return r, nil
	}
	for _, d := range proposal.Diff {
		r.diff = append(r.diff, function.Change{Path: key + ":" + d.Path, Op: d.Op, Before: d.Before, After: d.After})
	}
	for _, slot := range proposal.Stale {
		r.stale = append(r.stale, StaleSlot{key, slot})
	}
	r.base = &base
	r.change = change.Change{
		Kind: "report", Key: strings.TrimPrefix(key, history.Key("report", "")), Base: &history.Revision{RevisionRef: entry.RevisionRef, Generation: entry.Generation},
		Entry: entry, KeepText: true, Paths: proposal.Touched, Kinds: []string{report.SetConnectionFlow{}.Variant()}, Document: proposal.Analysis.Canonical,
	}
	r.change.Entry.RevisionRef, r.change.Entry.Generation = history.Ref(proposal.Analysis.RevisionRef), entry.Generation+1
	return r, nil
}

// each calls f for 0 to n-1, as many at once as there are processors, and returns the
// errors.
func each(n int, f func(i int) error) error {
	workers := min(n, runtime.GOMAXPROCS(0))
	if workers <= 1 {
		for i := range n {
			if err := f(i); err != nil {
				return err
			}
		}
		return nil
	}
	var wait sync.WaitGroup
	errs := make([]error, workers)
	for w := range workers {
		wait.Go(func() {
			for i := w; i < n; i += workers {
				if errs[w] = f(i); errs[w] != nil {
					return
				}
			}
		})
	}
	wait.Wait()
	return errors.Join(errs...)
}
