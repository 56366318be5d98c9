package console

import (
	"bytes"
	stdjson "encoding/json"
	"fmt"
	"html/template"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/console/figure"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/review"
)

// A shown is a JSON value as people read it. Numbers stand as they were written.
type shown struct {
	Text  string
	Whole string // where Text has a digest in short, all of it; else ""
	Code  bool   // it is JSON, or has lines
}

// Long reports that a cell is to be wide where there is little room, not tall.
func (s shown) Long() bool { return len(s.Text) > 32 }

var digests = regexp.MustCompile(`\bsha256:[0-9a-f]{64}\b`)

// shorter is a text in which digests are short.
func shorter(text string) shown {
	s := shown{Text: digests.ReplaceAllStringFunc(text, func(d string) string { return d[:len("sha256:")+shortTo] + "…" })}
	if s.Text != text {
		s.Whole = text
	}
	return s
}

// A fact is a name with a value.
type fact struct {
	Name  string
	Value shown
}

// decode reads JSON and keeps the digits of numbers.
func decode(raw canon.Raw) (any, error) {
	d := stdjson.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var out any
	if err := d.Decode(&out); err != nil {
		return nil, fmt.Errorf("console: a value of a plan cannot be read: %w", err)
	}
	return out, nil
}

// show makes a value readable: a quantity as number and unit, a contract of a port in a
// few words, a list of plain values in a line, anything else as JSON.
func show(value any) shown {
	switch v := value.(type) {
	case nil:
		return shown{Text: "null", Code: true}
	case string:
		if v == "" {
			return shown{Text: `""`, Code: true}
		}
		if strings.Contains(v, "\n") {
			return shown{Text: v, Code: true}
		}
		return shorter(v)
	case bool:
		if v {
			return shown{Text: "yes"}
		}
		return shown{Text: "no"}
	case stdjson.Number:
		return shown{Text: fmt.Sprint(v)}
	case map[string]any:
		if text, ok := quantityText(v); ok {
			return shown{Text: text}
		}
		if text, ok := portText(v); ok {
			return shown{Text: text}
		}
		if text, ok := targetText(v); ok {
			return shorter(text)
		}
	case []any:
		if len(v) > 0 && !slices.ContainsFunc(v, func(one any) bool { _, plain := one.(string); return !plain }) {
			texts := make([]string, len(v))
			for i, one := range v {
				texts[i] = one.(string)
			}
			return shown{Text: strings.Join(texts, ", ")}
		}
	}
	var out bytes.Buffer
	e := stdjson.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(value); err != nil {
		return shown{Text: "(cannot be shown)"}
	}
	text := strings.TrimSuffix(out.String(), "\n")
	if len(text) <= 100 { // a short one in a line
		var line bytes.Buffer
		if stdjson.Compact(&line, []byte(text)) == nil {
			text = line.String()
		}
	}
	return shown{Text: text, Code: true}
}

// quantityText is of {"value": 32.5, "unit": "m"}.
func quantityText(v map[string]any) (string, bool) {
	value, has := v["value"]
	unit, united := v["unit"].(string)
	if !has || len(v) != 1 && (len(v) != 2 || !united) {
		return "", false
	}
	switch value.(type) {
	case stdjson.Number, bool, string:
	default:
		return "", false
	}
	if unit == "" || unit == "1" {
		return fmt.Sprint(value), true
	}
	return fmt.Sprintf("%v %s", value, unit), true
}

// portText is of the contract of a port: "number in kN*m, scalar, not null, minimum 0".
func portText(v map[string]any) (string, bool) {
	kind, ok := v["type"].(string)
	if !ok {
		return "", false
	}
	var parts []string
	first := kind
	for _, key := range sortedKeys(v) {
		switch inner := v[key].(type) {
		case string:
			switch key {
			case "type":
			case "unit":
				if inner == "1" {
					first += ", dimensionless"
				} else {
					first += " in " + inner
				}
			case "shape":
				parts = append(parts, inner)
			case "quantityKind":
				parts = append(parts, "kind "+inner)
			default:
				return "", false
			}
		case bool:
			if key != "nullable" {
				return "", false
			}
			if inner {
				parts = append(parts, "may be null")
			} else {
				parts = append(parts, "not null")
			}
		case map[string]any:
			switch key {
			case "constraints":
				for _, name := range sortedKeys(inner) {
					parts = append(parts, fmt.Sprintf("%s %v", name, inner[name]))
				}
			case "default", "value":
				text, ok := quantityText(inner)
				if !ok {
					return "", false
				}
				parts = append(parts, key+" "+text)
			default:
				return "", false
			}
		default:
			return "", false
		}
	}
	return strings.Join(append([]string{first}, parts...), ", "), true
}

// targetText is of an exact target: "flow/girder_check@sha256:…", "px.formula version 1".
func targetText(v map[string]any) (string, bool) {
	kinds := map[string]string{"flowKey": "flow/", "reportKey": "report/", "functionKey": "function/", "componentKey": ""}
	text := ""
	for _, key := range sortedKeys(v) {
		switch inner := v[key].(type) {
		case string:
			prefix, named := kinds[key]
			switch {
			case named && text == "":
				text = prefix + inner
			case key == "kind" || key == "revisionRef" || key == "digest":
			default:
				return "", false
			}
		case stdjson.Number:
			if key != "version" && key != "generation" {
				return "", false
			}
		case map[string]any:
			if key != "scope" {
				return "", false
			}
		default:
			return "", false
		}
	}
	if generation, ok := v["generation"].(stdjson.Number); ok && text == "" {
		text = "generation " + generation.String() // of a revision
	}
	if text == "" {
		return "", false
	}
	if version, ok := v["version"]; ok {
		text += fmt.Sprintf(" version %v", version)
	}
	for _, key := range []string{"revisionRef", "digest"} {
		if ref, ok := v[key].(string); ok {
			text += " @ " + ref
		}
	}
	return text, true
}

// heading makes a title of a column of a member's name: "slotKey" is "Slot".
func heading(name string) string {
	if name == "" {
		return "Value"
	}
	name = strings.TrimSuffix(name, "Keys")
	name = strings.TrimSuffix(name, "Key")
	var out strings.Builder
	for i, r := range name {
		switch {
		case i == 0:
			out.WriteRune(unicode.ToUpper(r))
		case unicode.IsUpper(r):
			out.WriteString(" " + string(unicode.ToLower(r)))
		default:
			out.WriteRune(r)
		}
	}
	return out.String()
}

// A section is a part of the impact with a table, facts, or a line of text.
type section struct {
	Title, Note string
	ID          string
	Facts       []fact
	Table       *table
}

// A table has rows of cells.
type table struct {
	Columns []string
	Rows    part[[]shown]
}

// objectsOf makes a table of objects: a column for each member that any has.
func objectsOf(v *Visit, name string, list []any, per int) table {
	columns := map[string]bool{}
	for _, one := range list {
		if object, ok := one.(map[string]any); ok {
			for key := range object {
				columns[key] = true
			}
		} else {
			columns[""] = true
		}
	}
	first := []string{"target", "caseKey", "flowKey", "reportKey", "blockKey", "fieldKey", "slotKey", "connectionKey", "mappingKey", "nodeKey", "portKey", "path", "op", "effect", "before", "after"}
	names := slices.SortedFunc(maps.Keys(columns), func(a, b string) int {
		at := func(s string) int {
			if i := slices.Index(first, s); i >= 0 {
				return i
			}
			return len(first)
		}
		if x, y := at(a), at(b); x != y {
			return x - y
		}
		return strings.Compare(a, b)
	})
	page := paged(v, name, list, per)
	headings := make([]string, len(names))
	for i, name := range names {
		headings[i] = heading(name)
	}
	out := table{Columns: headings, Rows: part[[]shown]{Total: page.Total, From: page.From, To: page.To, Prev: page.Prev, Next: page.Next, Name: name}}
	for _, one := range page.Items {
		object, ok := one.(map[string]any)
		row := make([]shown, len(names))
		for i, key := range names {
			if value, has := object[key]; has {
				row[i] = show(value)
			} else if !ok && key == "" {
				row[i] = show(one)
			}
		}
		out.Rows.Items = append(out.Rows.Items, row)
	}
	return out
}

// A check is one aspect in which two ends of a binding or mapping were compared.
type check struct {
	Target, Path string
	Kind         string
	From, To     string
	Verdict      string
	Code         outcome.Code // "" where it fits
}

// checkCodes are the diagnostics by which the same is told to clients.
var checkCodes = map[string]outcome.Code{"type": outcome.TypeMismatch, "unit": outcome.UnitMismatch, "shape": outcome.ShapeMismatch, "nullability": outcome.NullabilityMismatch}

func codeOf(kind, verdict string) outcome.Code {
	switch verdict {
	case "converted":
		return outcome.UnitConverted
	case "mismatch":
		return checkCodes[kind]
	}
	return ""
}

// titles are of the members of an impact, in the order in which they are shown. A member
// that is not here has its own name as title, and is shown all the same.
var titles = []struct{ key, title, note string }{
	{"function", "Versions", ""},
	{"contract", "Contract of the Function", "What changes for whoever uses it, port by port."},
	{"boundary", "Public ports", "What changes for whoever uses the Flow."},
	{"capabilities", "Capabilities", ""},
	{"uses", "Places that are affected", ""},
	{"flows", "Flows that get a new revision", ""},
	{"reports", "Reports", ""},
	{"stale", "Results that turn Stale", "They are shown as Stale until they are calculated again."},
	{"slots", "Slots that the Batch fills", ""},
	{"merge", "How the results are merged", ""},
	{"rerun", "To have all results anew", ""},
	{"dependencies", "What it runs afterwards", ""},
	{"source", "Python source", ""},
	{"permissions", "Rights that it takes", ""},
	{"preserved", "What stays as it is", ""},
}

// readImpact reads what a plan means beyond its differences. Three tools write impacts of
// different members; whatever one has is shown.
func (p *planPage) readImpact(v *Visit, text review.PlanText) error {
	if len(text.Impact) == 0 {
		return nil
	}
	value, err := decode(text.Impact)
	if err != nil {
		return err
	}
	members, _ := value.(map[string]any)
	p.readChecks(v, members["checks"])
	p.Graph = p.graph(text)
	order := map[string]int{}
	for i, t := range titles {
		order[t.key] = i + 1
	}
	keys := sortedKeys(members)
	slices.SortStableFunc(keys, func(a, b string) int {
		x, y := order[a], order[b]
		if x == 0 {
			x = len(titles) + 1
		}
		if y == 0 {
			y = len(titles) + 1
		}
		return x - y
	})
	var loose []fact
	for _, key := range keys {
		if key == "checks" || key == "cost" {
			continue
		}
		s := section{Title: key, ID: key}
		if i := order[key]; i > 0 {
			s.Title, s.Note = titles[i-1].title, titles[i-1].note
		}
		switch inner := members[key].(type) {
		case []any:
			if len(inner) == 0 {
				continue
			}
			if _, objects := inner[0].(map[string]any); objects {
				t := objectsOf(v, key, inner, perTable)
				s.Table = &t
			} else {
				s.Facts = []fact{{"", show(inner)}}
			}
		case map[string]any:
			for _, name := range sortedKeys(inner) {
				if list, ok := inner[name].([]any); ok && len(list) > 0 {
					if _, objects := list[0].(map[string]any); objects {
						t := objectsOf(v, key+"-"+name, list, perTable)
						s.Table = &t
						continue
					}
				} else if ok {
					continue
				}
				s.Facts = append(s.Facts, fact{name, show(inner[name])})
			}
			if s.Facts == nil && s.Table == nil {
				continue
			}
		default:
			loose = append(loose, fact{key, show(inner)})
			continue
		}
		p.Rest = append(p.Rest, s)
	}
	if loose != nil {
		p.Rest = append(p.Rest, section{Title: "Further", ID: "further", Facts: loose})
	}
	return nil
}

func (p *planPage) readChecks(v *Visit, value any) {
	list, _ := value.([]any)
	var all []check
	text := func(object map[string]any, key string) string { s, _ := object[key].(string); return s }
	for _, one := range list {
		object, ok := one.(map[string]any)
		if !ok {
			continue
		}
		c := check{Target: text(object, "target"), Path: text(object, "path")}
		inner, mapped := object["checks"].([]any)
		if !mapped { // of a binding of a Flow
			c.Kind, c.From, c.To, c.Verdict = text(object, "kind"), text(object, "producer"), text(object, "consumer"), text(object, "verdict")
			c.Code = codeOf(c.Kind, c.Verdict)
			all = append(all, c)
			continue
		}
		c.Target = ""
		for _, one := range inner { // of a mapping of a Report
			object, _ := one.(map[string]any)
			c.Kind, c.From, c.To, c.Verdict = text(object, "kind"), text(object, "report")+" (Report)", text(object, "flow")+" (Flow)", text(object, "verdict")
			c.Code = codeOf(c.Kind, c.Verdict)
			all = append(all, c)
		}
	}
	// What needs to be looked at stands first.
	slices.SortStableFunc(all, func(a, b check) int { return weight(a) - weight(b) })
	for _, c := range all {
		switch c.Verdict {
		case "converted":
			p.Converted++
		case "mismatch":
			p.Mismatched++
		}
	}
	p.Checks = paged(v, "checks", all, perTable)
}

func weight(c check) int {
	return slices.Index([]string{"mismatch", "converted", "fits"}, c.Verdict)
}

// graph draws what the plan reaches: Functions, Flows that run them, Reports that show
// the Flows' results.
func (p *planPage) graph(text review.PlanText) template.HTML {
	var impact struct {
		Function struct {
			Before *version `json:"before"`
			After  *version `json:"after"`
		} `json:"function"`
		Flows []struct {
			FlowKey  string           `json:"flowKey"`
			NodeKeys []string         `json:"nodeKeys"`
			Base     history.Revision `json:"base"`
		} `json:"flows"`
		Reports      canon.Raw `json:"reports"`
		Uses         canon.Raw `json:"uses"`
		Dependencies canon.Raw `json:"dependencies"`
		Stale        canon.Raw `json:"stale"`
		FlowTarget   struct {
			FlowKey string `json:"flowKey"`
		} `json:"flowTarget"`
		Connection string `json:"connectionKey"`
	}
	// Each part may be of another shape in another tool's impact; what cannot be read so
	// is in the tables below all the same.
	if json.Unmarshal(text.Impact, &impact) != nil {
		return ""
	}
	kind, key, _ := strings.Cut(p.About, "/")
	if key == "" {
		return ""
	}
	g := figure.Graph{ID: "reach", Title: "Functions, Flows and Reports"}
	names := map[string]string{"function": "Function", "flow": "Flow", "report": "Report"}
	pages := map[string]string{"flow": "/flows/", "report": "/reports/"}
	project, _ := p.Scope.Project()
	add := func(target, state, note string) {
		k, name, _ := strings.Cut(target, "/")
		n := figure.Node{Key: target, Kind: names[k], Label: name, State: state, Note: note}
		// What the plan creates has no page yet.
		if pages[k] != "" && (target != p.About || text.Base.RevisionRef != "") {
			n.Href = projectPath(project) + pages[k] + name
		}
		g.Nodes = append(g.Nodes, n)
	}
	var uses []struct {
		Target string `json:"target"`
		Effect string `json:"effect"`
		Path   string `json:"path"`
	}
	_ = json.Unmarshal(impact.Uses, &uses)
	stale := map[string]int{}
	var slots []struct {
		Target string `json:"target"`
	}
	_ = json.Unmarshal(impact.Stale, &slots)
	for _, s := range slots {
		stale[s.Target]++
	}
	staleNote := func(target string) string {
		if n := stale[target]; n > 0 {
			return count(n, "result")
		}
		return ""
	}
	var dependencies []struct {
		Target struct {
			Kind        string `json:"kind"`
			FunctionKey string `json:"functionKey"`
			FlowKey     string `json:"flowKey"`
			Version     int    `json:"version"`
		} `json:"target"`
		FlowTarget struct {
			FlowKey string `json:"flowKey"`
		} `json:"flowTarget"`
	}
	_ = json.Unmarshal(impact.Dependencies, &dependencies)
	switch kind {
	case "function":
		note := "new"
		if f := impact.Function; f.Before != nil && f.After != nil {
			note = fmt.Sprintf("version %d → %d", f.Before.Version, f.After.Version)
		}
		add(p.About, "", note)
		byRevision := map[string]string{}
		for _, f := range impact.Flows {
			target := history.Key("flow", f.FlowKey)
			add(target, "moved", count(len(f.NodeKeys), "Node"))
			g.Edges = append(g.Edges, figure.Edge{From: p.About, To: target})
			byRevision[string(f.Base.RevisionRef)] = target
		}
		var reports []struct {
			ReportKey      string   `json:"reportKey"`
			ConnectionKeys []string `json:"connectionKeys"`
		}
		_ = json.Unmarshal(impact.Reports, &reports)
		for _, r := range reports {
			target := history.Key("report", r.ReportKey)
			state := "moved"
			if stale[target] > 0 {
				state = "stale"
			}
			add(target, state, staleNote(target))
		}
		for _, e := range connections(text.Diff) {
			if from := byRevision[e.before]; from != "" {
				g.Edges = append(g.Edges, figure.Edge{From: from, To: e.report, Label: e.connection})
			}
		}
	case "flow":
		for _, d := range dependencies {
			if d.Target.Kind == "function" {
				target := history.Key("function", d.Target.FunctionKey)
				add(target, "", fmt.Sprintf("version %d", d.Target.Version))
				g.Edges = append(g.Edges, figure.Edge{From: target, To: p.About})
			}
		}
		add(p.About, "changed", "")
		for _, u := range uses {
			note := ""
			if u.Effect == "pinned" {
				note = "keeps its revision"
			}
			add(u.Target, "", note)
			g.Edges = append(g.Edges, figure.Edge{From: p.About, To: u.Target})
		}
	case "report":
		flows := map[string]bool{}
		for _, d := range dependencies {
			for _, flow := range []string{d.Target.FlowKey, d.FlowTarget.FlowKey} {
				if flow != "" {
					flows[flow] = true
				}
			}
		}
		state := "changed"
		if impact.FlowTarget.FlowKey != "" {
			flows[impact.FlowTarget.FlowKey], state = true, "shows the results"
		}
		for _, flow := range sortedKeys(flows) {
			target := history.Key("flow", flow)
			add(target, "", "")
			g.Edges = append(g.Edges, figure.Edge{From: target, To: p.About, Label: impact.Connection})
		}
		if n := len(slots); n > 0 {
			add(p.About, "stale", count(n, "result"))
		} else {
			add(p.About, state, "")
		}
	}
	return g.HTML()
}

// A version is that of a Function.
type version struct {
	Version int `json:"version"`
}

// A moved is a connection of a Report whose Flow revision a plan changes.
type moved struct{ report, connection, before string }

// connections finds them in a diff.
func connections(diff canon.Raw) (out []moved) {
	var raw []struct {
		Path   string    `json:"path"`
		Before canon.Raw `json:"before"`
	}
	if json.Unmarshal(diff, &raw) != nil {
		return nil
	}
	for _, r := range raw {
		of, path := splitPath(r.Path)
		rest, ok := strings.CutPrefix(path, "/connections/")
		if !ok || !strings.HasPrefix(of, "report/") {
			continue
		}
		connection, _, _ := strings.Cut(rest, "/")
		var text string
		var target struct {
			RevisionRef string `json:"revisionRef"`
		}
		if json.Unmarshal(r.Before, &text) != nil {
			if json.Unmarshal(r.Before, &target) != nil {
				continue
			}
			text = target.RevisionRef
		}
		out = append(out, moved{of, connection, text})
	}
	return out
}
