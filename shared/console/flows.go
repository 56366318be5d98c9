package console

import (
	"cmp"
	"context"
	"fmt"
	"html/template"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/console/figure"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/quantity"
	"github.com/pxhost/pxhost/shared/search"
	"github.com/pxhost/pxhost/shared/snapshot"
	"github.com/pxhost/pxhost/shared/target"
)

// Snapshots opens what a person may read of a Project; snapshot.Reader does.
type Snapshots interface {
	Open(ctx context.Context, principal string, scope target.Scope, pin, path string) (snapshot.Snapshot, outcome.Findings, error)
}

// A position says which revision is shown, and whether there is a newer one.
type position struct {
	Generation *int64             `json:"generation"`
	Current    bool               `json:"current"`
	Head       *history.Revision  `json:"head"`
	Label      map[string]string  `json:"label"`
	Truncation *search.Truncation `json:"truncation"`
}

// A flowText is what pxflow_describe says of a Flow, as far as pages show it. Bindings
// and targets are read as what they say, not as the sealed types of package flow: a page
// needs their words, and not the code that evaluates them.
type flowText struct {
	position
	Target  target.Flow              `json:"target"`
	Inputs  map[string]quantity.Port `json:"inputs"`
	Results map[string]struct {
		Contract quantity.Port `json:"contract"`
		Binding  *bindingText  `json:"binding"`
		State    string        `json:"state"`
	} `json:"results"`
	Nodes        map[string]nodeText `json:"nodes"`
	Dependencies []struct {
		Target    nodeTarget `json:"target"`
		NodeKeys  []string   `json:"nodeKeys"`
		Available bool       `json:"available"`
	} `json:"dependencies"`
	UsedBy    []string `json:"usedBy"`
	Authoring struct {
		Kind         string `json:"kind"`
		SourceDigest string `json:"sourceDigest"`
	} `json:"authoring"`
	Policy struct {
		RunNeedsApproval    bool  `json:"runNeedsApproval"`
		ChangeNeedsApproval bool  `json:"changeNeedsApproval"`
		RunCost             int64 `json:"runCost"`
	} `json:"policy"`
}

type nodeText struct {
	Label    map[string]string    `json:"label"`
	Target   nodeTarget           `json:"target"`
	Settings map[string]canon.Raw `json:"settings"`
	Inputs   map[string]struct {
		Contract *quantity.Port `json:"contract"`
		Binding  *bindingText   `json:"binding"`
		State    string         `json:"state"`
	} `json:"inputs"`
	Results map[string]quantity.Port `json:"results"`
	Stage   *int                     `json:"stage"`
}

type nodeTarget struct {
	Kind         string         `json:"kind"`
	ComponentKey string         `json:"componentKey"`
	FunctionKey  string         `json:"functionKey"`
	Version      int            `json:"version"`
	Digest       string         `json:"digest"`
	Package      target.Package `json:"package"`
}

// String says what runs: "Function resistance, version 3".
func (t nodeTarget) String() string {
	if t.Kind != "function" {
		return fmt.Sprintf("Component %s, version %d", t.ComponentKey, t.Version)
	}
	text := fmt.Sprintf("Function %s, version %d", t.FunctionKey, t.Version)
	if t.Package != (target.Package{}) {
		text += " of package " + t.Package.PackageKey + " " + t.Package.Version
	}
	return text
}

type bindingText struct {
	Kind    string    `json:"kind"`
	PortKey string    `json:"portKey"`
	NodeKey string    `json:"nodeKey"`
	Value   canon.Raw `json:"value"`
}

// String says where a value comes from.
func (b *bindingText) String() string {
	switch {
	case b == nil:
		return ""
	case b.Kind == "flowInput":
		return "input " + b.PortKey
	case b.Kind == "nodeResult":
		return "Node " + b.NodeKey + ", " + b.PortKey
	}
	return "literal"
}

// Literal is the value of a literal.
func (b *bindingText) Literal() *Value {
	if b == nil || b.Kind != "literal" {
		return nil
	}
	v := readValue(b.Value, "", little)
	return &v
}

// madeBy says what made a result: the Node, what it runs, and what ran that.
func (d *flowText) madeBy(resultKey string, ranBy []string) string {
	if d == nil {
		return ""
	}
	b := d.Results[resultKey].Binding
	if b == nil || b.Kind != "nodeResult" {
		return b.String()
	}
	n := d.Nodes[b.NodeKey]
	text := "Node " + b.NodeKey + ": " + n.Target.String()
	if n.Stage == nil || n.Target.Kind != "function" {
		return text
	}
	for _, by := range ranBy {
		for _, part := range strings.Fields(by) {
			if list, ok := strings.CutPrefix(part, "stages="); ok && slices.Contains(strings.Split(list, ","), strconv.Itoa(*n.Stage)) {
				return text + ", in " + strings.TrimSpace(strings.TrimSuffix(by, part))
			}
		}
	}
	return text
}

// flowPath is the page of an exact revision of a Flow.
func flowPath(t target.Flow) string {
	p, _ := t.Scope.Project()
	return projectPath(p) + "/flows/" + t.FlowKey + "?" + url.Values{"revision": {t.RevisionRef}}.Encode()
}

// known keeps descriptions of revisions, which never change, for the parts of pages that
// are fetched again and again. Who is told one may read its Project: run_get said so of
// a Run in it. What of a description does change is not shown from here.
type known struct {
	mu   sync.Mutex
	flow map[target.Flow]*flowText
}

const knownFlows = 64

// flowOf returns the description of a Flow that a Run runs; nil where it cannot be had.
func (h *Handler) flowOf(ctx context.Context, v *Visit, t target.Flow) (*flowText, error) {
	h.known.mu.Lock()
	doc := h.known.flow[t]
	h.known.mu.Unlock()
	if doc != nil {
		return doc, nil
	}
	doc = &flowText{}
	_, err := h.tool(ctx, v, "pxflow_describe", map[string]any{"target": t}, doc)
	if problem, ok := err.(*Problem); ok && len(problem.Findings) > 0 {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	h.known.mu.Lock()
	defer h.known.mu.Unlock()
	if h.known.flow == nil || len(h.known.flow) >= knownFlows {
		h.known.flow = map[target.Flow]*flowText{}
	}
	h.known.flow[t] = doc
	return doc, nil
}

// revision is the revision that a page is asked for: the one in its address, or the head
// of the key, which the page then names.
func (h *Handler) revision(ctx context.Context, v *Visit, kind, key string) (target.Project, string, error) {
	p := target.Project{WorkspaceKey: v.Path["workspaceKey"], ProjectKey: v.Path["projectKey"]}
	if r := v.Query.Get("revision"); r != "" {
		return p, r, nil
	}
	s, findings, err := h.Snapshots.Open(ctx, v.Principal(), p.Scope(), "", "/scope")
	if findings != nil {
		return p, "", refused(findings)
	}
	if err != nil {
		return p, "", err
	}
	entry, err := s.Catalog.Entry(ctx, s.Space, s.Root, history.Key(kind, key))
	if err != nil {
		return p, "", err
	}
	if entry == nil {
		return p, "", refused(outcome.Findings{outcome.New(outcome.TargetNotFound, "/"+kind+"Key", nil)})
	}
	return p, string(entry.RevisionRef), nil
}

// described has a tool describe the revision that a page is asked for, or the part of it
// to which the address goes on.
func (h *Handler) described(ctx context.Context, v *Visit, kind, key, tool string, to func(scope target.Scope, revision string) any, doc any) (target.Project, string, outcome.Envelope, error) {
	project, revision, err := h.revision(ctx, v, kind, key)
	if err != nil {
		return project, "", outcome.Envelope{}, err
	}
	arguments := map[string]any{"target": to(project.Scope(), revision)}
	if c := v.Query.Get("cursor"); c != "" {
		arguments["cursor"] = c
	}
	envelope, err := h.tool(ctx, v, tool, arguments, doc)
	return project, revision, envelope, err
}

// A portRow is a line of a table of ports.
type portRow struct {
	Key         string
	Type, Unit  string
	Shape       string
	Constraints string
	Default     *Value
	Nullable    bool
	From, State string
	Literal     *Value
}

func portOf(key string, p quantity.Port) portRow {
	row := portRow{Key: key, Type: string(p.Type), Unit: plainUnit(p.Unit), Nullable: p.AllowsNull()}
	if text, err := canon.Encode(p.Shape); err == nil {
		row.Shape = shape(canon.Raw(text))
	}
	if p.Constraints != nil {
		row.Constraints = bounds(*p.Constraints)
	}
	if len(p.Default) > 0 {
		d := readValue(p.Default, p.Unit, little)
		row.Default = &d
	}
	if p.Type == quantity.TableType {
		var columns []string
		for _, c := range p.Columns {
			columns = append(columns, strings.TrimSpace(c.ColumnKey+" "+plainUnit(c.Unit)))
		}
		row.Constraints = strings.TrimSpace(row.Constraints + " columns: " + strings.Join(columns, ", "))
	}
	return row
}

// bounds are constraints as engineers write them, each with all its digits.
func bounds(c quantity.Constraints) string {
	var out []string
	for _, one := range []struct {
		sign  string
		bound *float64
	}{{">", c.ExclusiveMinimum}, {"≥", c.Minimum}, {"<", c.ExclusiveMaximum}, {"≤", c.Maximum}} {
		if one.bound != nil {
			if text, err := canon.Encode(*one.bound); err == nil {
				out = append(out, one.sign+" "+string(text))
			}
		}
	}
	for _, one := range []struct {
		words string
		count *int
	}{{"at least %d characters", c.MinLength}, {"at most %d characters", c.MaxLength}, {"at least %d items", c.MinItems}, {"at most %d items", c.MaxItems}} {
		if one.count != nil {
			out = append(out, fmt.Sprintf(one.words, *one.count))
		}
	}
	if c.Pattern != nil {
		out = append(out, "matches "+*c.Pattern)
	}
	return strings.Join(out, ", ")
}

// A nodeRow is a Node in the page of its Flow.
type nodeRow struct {
	Key      string
	Label    Words
	Runs     string
	Stage    int // from 1; 0: none
	Inputs   []portRow
	Results  []portRow
	Settings []settingRow
}

type settingRow struct {
	Key  string
	Text string
}

// A use is something that uses a Flow.
type use struct{ Kind, Key, To string }

// flowPage shows one revision of a Flow.
func (h *Handler) flowPage(ctx context.Context, v *Visit) (Answer, error) {
	key := v.Path["flowKey"]
	var doc flowText
	project, revision, envelope, err := h.described(ctx, v, "flow", key, "pxflow_describe", func(scope target.Scope, revision string) any {
		return target.Flow{Scope: scope, FlowKey: key, RevisionRef: revision}
	}, &doc)
	if err != nil {
		return nil, err
	}
	data := struct {
		*flowText
		Key, Revision   string
		Name            Words
		Findings        []outcome.Diagnostic
		Ports, Out      []portRow
		NodeRows        []nodeRow
		Graph           template.HTML
		Uses            []use
		HeadTo          string
		ProjectTo, More string
	}{flowText: &doc, Key: key, Revision: revision, Name: v.words(doc.Label, key), Findings: envelope.Diagnostics, ProjectTo: projectPath(project)}
	for _, k := range slices.Sorted(maps.Keys(doc.Inputs)) {
		data.Ports = append(data.Ports, portOf(k, doc.Inputs[k]))
	}
	for _, k := range slices.Sorted(maps.Keys(doc.Results)) {
		r := doc.Results[k]
		row := portOf(k, r.Contract)
		row.From, row.State, row.Literal = r.Binding.String(), r.State, r.Binding.Literal()
		data.Out = append(data.Out, row)
	}
	for _, k := range doc.ordered() {
		data.NodeRows = append(data.NodeRows, nodeOf(v, k, doc.Nodes[k]))
	}
	for _, u := range doc.UsedBy {
		kind, k, _ := strings.Cut(u, "/")
		one := use{Kind: strings.ToUpper(kind[:min(1, len(kind))]) + kind[min(1, len(kind)):], Key: k}
		if kind == "report" || kind == "flow" {
			one.To = projectPath(project) + "/" + kind + "s/" + k
		}
		data.Uses = append(data.Uses, one)
	}
	if doc.Head != nil && !doc.Current {
		data.HeadTo = flowPath(target.Flow{Scope: project.Scope(), FlowKey: key, RevisionRef: string(doc.Head.RevisionRef)})
	}
	data.More = continued(flowPath(target.Flow{Scope: project.Scope(), FlowKey: key, RevisionRef: revision}), doc.Truncation)
	data.Graph = doc.graph(v)
	return Page{Title: data.Name.Text, Crumbs: projectCrumbs(project, Crumb{"Flows", projectPath(project) + "/flows"}), Body: "flow", Data: data}, nil
}

// continued is the address of the rest of a page whose answer was cut; "" of a whole one.
func continued(path string, t *search.Truncation) string {
	if t == nil || t.Continuation == nil {
		return ""
	}
	separator := "?"
	if strings.Contains(path, "?") {
		separator = "&"
	}
	return path + separator + url.Values{"cursor": {t.Continuation.Value}}.Encode()
}

// ordered are the Nodes as they run: by stage, then by key.
func (d *flowText) ordered() []string {
	at := func(key string) int {
		if s := d.Nodes[key].Stage; s != nil {
			return *s
		}
		return 1 << 20
	}
	return slices.SortedFunc(maps.Keys(d.Nodes), func(a, b string) int { return cmp.Or(cmp.Compare(at(a), at(b)), cmp.Compare(a, b)) })
}

func nodeOf(v *Visit, key string, n nodeText) nodeRow {
	row := nodeRow{Key: key, Label: v.words(n.Label, key), Runs: n.Target.String()}
	if n.Stage != nil {
		row.Stage = *n.Stage + 1
	}
	for _, k := range slices.Sorted(maps.Keys(n.Inputs)) {
		in := n.Inputs[k]
		p := portRow{Key: k}
		if in.Contract != nil {
			p = portOf(k, *in.Contract)
		}
		p.From, p.State, p.Literal = in.Binding.String(), in.State, in.Binding.Literal()
		row.Inputs = append(row.Inputs, p)
	}
	for _, k := range slices.Sorted(maps.Keys(n.Results)) {
		row.Results = append(row.Results, portOf(k, n.Results[k]))
	}
	for _, k := range slices.Sorted(maps.Keys(n.Settings)) {
		row.Settings = append(row.Settings, settingRow{k, string(n.Settings[k])})
	}
	return row
}

// graph draws where values go: from the public inputs over the Nodes to the results.
func (d *flowText) graph(v *Visit) template.HTML {
	g := figure.Graph{ID: "graph", Title: "Where values go", ListHref: "#nodes"}
	for _, k := range slices.Sorted(maps.Keys(d.Inputs)) {
		g.Nodes = append(g.Nodes, figure.Node{Key: "in/" + k, Kind: "Input", Label: k, Note: plainUnit(d.Inputs[k].Unit), Href: "#inputs"})
	}
	edge := func(b *bindingText, to, port string) {
		switch {
		case b == nil:
		case b.Kind == "flowInput":
			g.Edges = append(g.Edges, figure.Edge{From: "in/" + b.PortKey, To: to, Label: arrow(b.PortKey, port)})
		case b.Kind == "nodeResult":
			g.Edges = append(g.Edges, figure.Edge{From: "node/" + b.NodeKey, To: to, Label: arrow(b.PortKey, port)})
		}
	}
	for _, k := range d.ordered() {
		n := d.Nodes[k]
		w := v.words(n.Label, k)
		g.Nodes = append(g.Nodes, figure.Node{Key: "node/" + k, Kind: "Node", Label: w.Text, Lang: w.Lang, Note: cmp.Or(n.Target.FunctionKey, n.Target.ComponentKey), Href: "#node-" + k})
		for _, port := range slices.Sorted(maps.Keys(n.Inputs)) {
			edge(n.Inputs[port].Binding, "node/"+k, port)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(d.Results)) {
		g.Nodes = append(g.Nodes, figure.Node{Key: "out/" + k, Kind: "Result", Label: k, Note: plainUnit(d.Results[k].Contract.Unit), Href: "#results"})
		edge(d.Results[k].Binding, "out/"+k, k)
	}
	return g.HTML()
}

func arrow(from, to string) string {
	if from == to {
		return from
	}
	return from + " → " + to
}
