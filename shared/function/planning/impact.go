package planning

import (
	"github.com/pxhost/pxhost/shared/authored"
	"github.com/pxhost/pxhost/shared/change"
	"github.com/pxhost/pxhost/shared/flow"
	"github.com/pxhost/pxhost/shared/function"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/report"
	"github.com/pxhost/pxhost/shared/semantic"
)

// An Impact is what a plan means beyond the Function (N3).
type Impact struct {
	Function Versions `json:"function"`
	// Contract is what changes for whoever uses the Function, by port.
	Contract []flow.PortChange `json:"contract"`
	// Capabilities are those of the version before and after.
	Capabilities Capabilities `json:"capabilities"`
	// Checks are those of the bindings that compare differently afterwards.
	Checks []Check `json:"checks"`
	// Uses are the places that name the Function or a Flow that moves, and move.
	Uses []Use `json:"uses"`
	// Flows and Reports are the revisions that follow.
	Flows   []MovedFlow   `json:"flows"`
	Reports []MovedReport `json:"reports"`
	// Stale are the slots whose result, where they show one, turns Stale.
	Stale []StaleSlot `json:"stale"`
	// Rerun is what it takes to have all results anew.
	Rerun Rerun `json:"rerun"`
	// Preserved are references that stay as they are, and why.
	Preserved []authored.Preserved `json:"preserved"`
	// Cost is what one Run of every Flow that moves costs together, in Node
	// evaluations plus sandbox seconds.
	Cost int64 `json:"cost"`
}

// Versions are the FunctionRef before, absent for a new Function, and after.
type Versions struct {
	Before *function.Ref `json:"before,omitzero"`
	After  function.Ref  `json:"after"`
}

// Capabilities are what the versions before and after ask for.
type Capabilities struct {
	Before []string `json:"before"`
	After  []string `json:"after"`
}

// A Check compares the two ends of a binding of one Flow.
type Check struct {
	Target string `json:"target"` // "flow/girder_check"
	flow.Check
}

// A Use is one place that moves.
type Use struct {
	Target string `json:"target"` // "flow/girder_check"
	Path   string `json:"path"`
	Effect string `json:"effect"` // "moved"
	// Version is that of the Function which a Node ran until now; 0 of a Node that ran
	// something else, and of a connection.
	Version int `json:"version,omitzero"`
}

// A MovedFlow is a Flow with the revision that it has and the one that it gets.
type MovedFlow struct {
	FlowKey  string           `json:"flowKey"`
	NodeKeys []string         `json:"nodeKeys"`
	Base     history.Revision `json:"base"`
	Result   history.Revision `json:"result"`
}

// A MovedReport is a Report with the revision that it has and the one that it gets.
type MovedReport struct {
	ReportKey      string           `json:"reportKey"`
	ConnectionKeys []string         `json:"connectionKeys"`
	Base           history.Revision `json:"base"`
	Result         history.Revision `json:"result"`
}

// A StaleSlot is a slot of one Report.
type StaleSlot struct {
	Target string `json:"target"` // "report/girder_review"
	report.StaleSlot
}

// A Rerun counts Runs that would bring the results up to date.
type Rerun struct {
	Connections int   `json:"connections"` // of Reports
	Slots       int   `json:"slots"`       // that they feed
	Cost        int64 `json:"cost"`        // of one Run of each connection, as flow.Cost counts
}

func (i *Impact) preserve(target, reason string) {
	i.Preserved = append(i.Preserved, authored.Preserved{Target: target, Reason: reason})
}

// begin is the Impact before anything moves.
func (m *making) begin() {
	i := &m.out.Impact
	*i = Impact{Function: Versions{After: m.out.Ref}, Checks: []Check{}, Uses: []Use{}, Flows: []MovedFlow{}, Reports: []MovedReport{}, Stale: []StaleSlot{},
		Preserved: []authored.Preserved{}, Capabilities: Capabilities{[]string{}, m.out.Document.Capabilities}}
	var before *flow.Document
	as := func(d function.Document) *flow.Document {
		doc := flow.Document{Inputs: d.Inputs, Results: map[string]flow.ResultPort{}}
		for key, p := range d.Results {
			doc.Results[key] = flow.ResultPort{Port: p}
		}
		return &doc
	}
	if m.before != nil {
		before = as(*m.before)
		t := m.q.Target
		i.Function.Before = &function.Ref{FunctionKey: t.FunctionKey, Version: t.Version, Digest: t.Digest}
		i.Capabilities.Before = m.before.Capabilities
		i.preserve(change.RevisionKey(function.Kind, t.FunctionKey, history.Ref(t.Digest)), "saved versions are never overwritten; Runs that name it keep it")
	}
	i.Contract = flow.BoundaryDiff(before, *as(m.out.Document))
	m.changed = i.Contract
}

func (m *making) addFlow(f *moving) {
	i, key := &m.out.Impact, history.Key("flow", f.key)
	m.out.Changes = append(m.out.Changes, f.change)
	m.out.Diff = append(m.out.Diff, f.diff...)
	m.notes = append(m.notes, concerned(f)...)
	for k, node := range f.nodes {
		path := semantic.Pointer("nodes", node, "target")
		i.Uses = append(i.Uses, Use{Target: key, Path: path, Effect: "moved", Version: f.from[k].Version})
	}
	for _, path := range f.change.Paths {
		m.out.Touched = append(m.out.Touched, key+":"+path)
	}
	i.Flows = append(i.Flows, MovedFlow{f.key, f.nodes, *f.change.Base, f.change.Next()})
	i.Checks = append(i.Checks, f.checks...)
	i.Cost += f.is.Cost
	if len(i.Flows) == 1 {
		i.preserve("history", "earlier revisions of what moves are never overwritten; Runs that name one keep it")
	}
}

// concerned are the notes about bindings that compare differently afterwards: what is
// converted elsewhere is converted as it was before.
func concerned(f *moving) (notes outcome.Findings) {
	shown := map[string]bool{}
	for _, c := range f.checks {
		shown[on("flow", f.key, c.Path)] = true
	}
	for _, n := range f.notes {
		if n.Severity != outcome.Info || shown[n.Path] {
			notes = append(notes, n)
		}
	}
	return notes
}

func (m *making) addReport(r *movedReport) {
	i := &m.out.Impact
	for _, key := range r.stays {
		i.preserve(r.key, "pinned to an earlier revision of "+history.Key("flow", key))
	}
	if r.connections == nil || r.findings.Refused() {
		return
	}
	m.out.Changes = append(m.out.Changes, r.change)
	m.out.Diff = append(m.out.Diff, r.diff...)
	for _, name := range r.connections {
		i.Uses = append(i.Uses, Use{Target: r.key, Path: semantic.Pointer("connections", name, "flowTarget"), Effect: "moved"})
	}
	for _, path := range r.change.Paths {
		m.out.Touched = append(m.out.Touched, r.key+":"+path)
	}
	i.Reports = append(i.Reports, MovedReport{r.change.Key, r.connections, *r.change.Base, r.change.Next()})
	i.Stale = append(i.Stale, r.stale...)
	i.Rerun.Connections += len(r.connections)
	i.Rerun.Slots += len(r.stale)
	i.Rerun.Cost += r.cost
}
