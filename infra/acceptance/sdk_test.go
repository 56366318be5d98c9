package acceptance

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	samples "github.com/pxhost/pxhost/infra/sample"
)

// beamSource is beam in Python, as an author might write it: with tabs, comments,
// Hangul and the line ends of Windows.
func beamSource(key string) string {
	return strings.ReplaceAll(`"""A beam."""
import px

flow = px.flow("`+key+`", label={'en': 'Beam', 'ko': '보'})

# What is given.
span = flow.input("span", px.number(unit="m", shape="scalar"))  # 경간
load = flow.input("load", px.number(unit="kN/m", shape="scalar"))

moment = flow.node(
	"moment",
	px.component("px.formula", 1),
	settings={
		"inputs": {"w": {"unit": "kN/m"}, "l": {"unit": "m"}},
		"results": {"r": {"expression": "w * l ^ 2 / 8", "unit": "kN*m"}},  # simply supported
	},
)
flow.connect(moment.input("w"), load)
flow.connect(moment.input("l"), span)

flow.result("moment", px.number(unit="kN*m", shape="scalar"), moment.output("r"))
# the end`, "\n", "\r\n")
}

func sha(text string) string { return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(text))) }

// linked is a document that is SDK-linked to a source.
func linked(document m, source string) m {
	return with(document, m{"authoring": m{"kind": "sdk", "sourceDigest": sha(source)}})
}

// createLinked saves a new SDK-linked Flow.
func (c caller) createLinked(t testing.TB, document m, source string) flowHead {
	t.Helper()
	document = linked(document, source)
	f := flowHead{Target: flowTarget{sample, document["flowKey"].(string), digest(t, document)}}
	return c.change(t, f, "create-"+f.Target.FlowKey, m{"kind": "CreateFlow", "document": document, "source": source})
}

type sourcePlan struct {
	plan
	Base struct{ RevisionRef, SourceDigest string }
	Diff []struct {
		Path, Op      string
		Before, After any
		Unified       string
	}
	Impact struct {
		Source struct {
			Linked, Safe bool
			SourceDigest string
		}
	}
}

// fetched follows the one link of an answer, as somebody.
func (h *host) fetched(t *testing.T, as string, told envelope) (status int, text string) {
	t.Helper()
	if len(told.Resources) != 1 {
		t.Fatalf("%d links", len(told.Resources))
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, h.URL+told.Resources[0]["uri"].(string), nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+h.token(t, as))
	request.Header.Set("Accept", "*/*")
	response, err := client.Transport.RoundTrip(request) // the token is for one host alone
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusFound {
		return response.StatusCode, ""
	}
	response, err = client.Get(response.Header.Get("Location"))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

// covers: F4, F2, F3, P2, P3, P4, D2, T2
func TestAnSDKLinkedFlowIsChangedInItsPythonSource(t *testing.T) {
	t.Parallel()
	h := start(t)
	engineer, viewer := h.as(t, "engineer"), h.as(t, "viewer")
	source, document := beamSource("linked"), beam("linked")
	created := linked(document, source)
	target := flowTarget{sample, "linked", digest(t, created)}
	creating := func(document m, source any) m {
		command := m{"kind": "CreateFlow", "document": document}
		if source != nil {
			command["source"] = source
		}
		return m{"target": with(encoded(t, target), m{"revisionRef": digest(t, document)}), "expectedGeneration": 0, "commands": list{command}}
	}

	// Source and document that do not agree are not even planned.
	before := h.dump(t)
	engineer.refused(t, "pxflow_plan_change", creating(created, nil), "PX_SCHEMA_INVALID /commands/0/source")
	engineer.refused(t, "pxflow_plan_change", creating(document, source), "PX_SCHEMA_INVALID /commands/0/source")
	told := engineer.refused(t, "pxflow_plan_change", creating(with(document, m{"authoring": m{"kind": "sdk", "sourceDigest": "sha256:0"}}), source), "PX_SOURCE_PARITY /commands/0/document/authoring/sourceDigest")
	if told.Diagnostics[0].Params["sourceDigest"] != sha(source) {
		t.Errorf("told %v", told.Diagnostics[0].Params)
	}
	other := copied(t, created)
	at(other, "nodes", "moment", "settings", "results", "r")["expression"] = "w * l ^ 2 / 12"
	at(other, "inputs", "span")["unit"] = "ft"
	engineer.refused(t, "pxflow_plan_change", creating(other, source), "PX_SOURCE_PARITY /commands/0/document/inputs/span", "PX_SOURCE_PARITY /commands/0/document/nodes/moment/settings/results")
	for name, s := range map[string]struct{ text, reason string }{
		"a loop":                {strings.Replace(source, "# the end", "while True: pass", 1), "statement_not_allowed"},
		"a value that computes": {strings.Replace(source, `"m", shape`, `"m" + open("/etc/passwd").read(), shape`, 1), "string_expected"},
		"another import":        {strings.Replace(source, "import px", "import px, os", 1), "import_not_allowed"},
		"no Python":             {"flow = (", "syntax"},
		"two on a line":         {strings.Replace(source, "import px", "import px; import px", 1), "layout"},
	} {
		told := engineer.refused(t, "pxflow_plan_change", creating(linked(document, s.text), s.text), "PX_SOURCE_INVALID /commands/0/source")
		if len(told.Diagnostics) != 1 || told.Diagnostics[0].Params["reason"] != s.reason || told.Diagnostics[0].Params["line"] == nil || strings.Contains(encode(t, told), "passwd") {
			t.Errorf("%s: %+v", name, told.Diagnostics)
		}
	}
	if changed := before.changes(h.dump(t)); len(changed) != 0 {
		t.Errorf("written: %q", changed)
	}

	// The first save.
	f := engineer.createLinked(t, document, source)
	if !reflect.DeepEqual(f.Target, target) || f.Generation != 0 {
		t.Fatalf("saved as %+v", f)
	}
	var described struct {
		Authoring struct{ Kind, SourceDigest string }
	}
	told = viewer.ok(t, "pxflow_describe", m{"target": f.Target}, &described)
	if described.Authoring.SourceDigest != sha(source) || strings.Contains(encode(t, told), "import px") {
		t.Errorf("described as %s", told.Data)
	}
	if status, text := h.fetched(t, "viewer", told); status != http.StatusOK || text != source {
		t.Errorf("the link gives %d %q", status, text)
	}
	if status, _ := h.fetched(t, "other", told); status != http.StatusNotFound {
		t.Errorf("somebody else's link answers %d", status)
	}

	// An edit: each command its statement, the rest to the byte as it was.
	edits := list{
		m{"kind": "SetNodeSetting", "nodeKey": "moment", "settingKey": "results", "value": m{"r": m{"expression": "w * l ^ 2 / 12", "unit": "kN*m"}}},
		m{"kind": "ConnectInput", "nodeKey": "moment", "portKey": "w", "binding": literal(4, "kN/m")},
		m{"kind": "RemoveInputPort", "portKey": "load"},
		m{"kind": "SetFlowLabel", "label": m{"en": "Fixed \"beam\""}},
	}
	replaced := strings.NewReplacer(
		`label={'en': 'Beam', 'ko': '보'}`, `label={"en": "Fixed \"beam\""}`,
		`load = flow.input("load", px.number(unit="kN/m", shape="scalar"))`+"\r\n", ``,
		`{"r": {"expression": "w * l ^ 2 / 8", "unit": "kN*m"}},  # simply`, `{"r": {"expression": "w * l ^ 2 / 12", "unit": "kN*m"}},  # simply`,
		`moment.input("w"), load`, `moment.input("w"), px.literal({"unit": "kN/m", "value": 4})`)
	edited := replaced.Replace(source)
	changed := copied(t, document)
	changed["label"] = m{"en": "Fixed \"beam\""}
	delete(at(changed, "inputs"), "load")
	at(changed, "nodes", "moment", "settings", "results", "r")["expression"] = "w * l ^ 2 / 12"
	at(changed, "nodes", "moment", "inputBindings")["w"] = literal(4, "kN/m")

	var p, twice sourcePlan
	engineer.ok(t, "pxflow_plan_change", m{"target": f.Target, "expectedGeneration": 0, "commands": edits}, &p)
	engineer.ok(t, "pxflow_plan_change", m{"target": f.Target, "expectedGeneration": 0, "commands": edits}, &twice)
	if p.Base.RevisionRef != f.Target.RevisionRef || p.Base.SourceDigest != sha(source) || p.PlanDigest != twice.PlanDigest {
		t.Errorf("planned from %+v", p.Base)
	}
	if s := p.Impact.Source; !s.Linked || !s.Safe || s.SourceDigest != sha(edited) {
		t.Errorf("the source is told as %+v", s)
	}
	shown := 0
	for _, d := range p.Diff {
		if d.Unified == "" {
			continue
		}
		shown++
		if d.Path != "/authoring/sourceDigest" || d.Before != sha(source) || d.After != sha(edited) {
			t.Errorf("shown as %+v", d)
		}
		var out, in []string
		for line := range strings.SplitSeq(d.Unified, "\n") {
			switch {
			case strings.HasPrefix(line, "---"), strings.HasPrefix(line, "+++"):
			case strings.HasPrefix(line, "-"):
				out = append(out, strings.TrimSuffix(line[1:], "\r"))
			case strings.HasPrefix(line, "+"):
				in = append(in, strings.TrimSuffix(line[1:], "\r"))
			}
		}
		want := []string{`flow = px.flow("linked", label={'en': 'Beam', 'ko': '보'})`, `load = flow.input("load", px.number(unit="kN/m", shape="scalar"))`,
			`		"results": {"r": {"expression": "w * l ^ 2 / 8", "unit": "kN*m"}},  # simply supported`, `flow.connect(moment.input("w"), load)`}
		if !reflect.DeepEqual(out, want) || len(in) != 3 || !strings.HasPrefix(d.Unified, "--- flow/linked.py\n+++ flow/linked.py\n@@ ") {
			t.Errorf("the difference is\n%s", d.Unified)
		}
	}
	if shown != 1 {
		t.Errorf("%d differences of the source in %+v", shown, p.Diff)
	}

	// Applied, both are there: the revision is the digest of a document that names the
	// source by its digest.
	var a applied
	engineer.ok(t, "pxflow_apply_change", p.application("edit"), &a)
	now := flowHead{moved(f.Target, a.NewRevisionRef), a.NewGeneration}
	if want := digest(t, linked(changed, edited)); a.NewRevisionRef != want || a.NewGeneration != 1 {
		t.Errorf("saved as %+v, want %s", a, want)
	}
	told = engineer.ok(t, "pxflow_describe", m{"target": now.Target}, nil)
	if status, text := h.fetched(t, "engineer", told); status != http.StatusOK || text != edited {
		t.Errorf("the new source is %d\n%q\nwant\n%q", status, text, edited)
	}
	told = engineer.ok(t, "pxflow_describe", m{"target": f.Target}, nil)
	if _, text := h.fetched(t, "engineer", told); text != source {
		t.Errorf("the old source became %q", text)
	}
	var valid struct{ Valid bool }
	engineer.ok(t, "pxflow_validate", m{"target": now.Target}, &valid)
	if !valid.Valid {
		t.Error("the saved revision is not valid")
	}

	// A Run gives what the native Flow gives, to the last digit.
	native := engineer.create(t, sample, with(changed, m{"flowKey": "native"}))
	var values []any
	for i, flow := range []flowHead{now, native} {
		var started struct{ RunRef string }
		engineer.ok(t, "pxflow_run", m{"kind": "RunFlow", "target": flow.Target, "commandId": fmt.Sprint("run", i), "inputs": m{"span": number(7.3, "m")}}, &started)
		if r := engineer.finished(t, started.RunRef); r.State != "Succeeded" {
			t.Fatalf("%+v", r)
		}
		var result struct{ Value any }
		engineer.ok(t, "result_read", m{"runRef": started.RunRef, "resultKey": "moment"}, &result)
		values = append(values, result.Value)
	}
	if !reflect.DeepEqual(values[0], values[1]) || values[0] == nil {
		t.Errorf("calculated %v", values)
	}

	// What was independent is planned anew on the edited source; what was not is told.
	independent := engineer.plan(t, now, m{"kind": "AddInputPort", "portKey": "factor", "contract": scalar("1")})
	meeting := engineer.plan(t, now, m{"kind": "DisconnectInput", "nodeKey": "moment", "portKey": "l"}, m{"kind": "ConnectInput", "nodeKey": "moment", "portKey": "l", "binding": literal(1, "m")})
	head := engineer.change(t, now, "theirs", m{"kind": "ConnectInput", "nodeKey": "moment", "portKey": "l", "binding": literal(2, "m")})
	conflictsOf(t, engineer.refused(t, "pxflow_plan_change", head.rebase(meeting), "PX_MERGE_CONFLICT /rebaseFromPlanRef"))
	var anew, fresh sourcePlan
	engineer.ok(t, "pxflow_plan_change", head.rebase(independent), &anew)
	engineer.ok(t, "pxflow_plan_change", m{"target": head.Target, "expectedGeneration": head.Generation, "commands": list{m{"kind": "AddInputPort", "portKey": "factor", "contract": scalar("1")}}}, &fresh)
	if anew.PlanDigest != fresh.PlanDigest || anew.Impact.Source.SourceDigest != fresh.Impact.Source.SourceDigest || anew.PlanDigest == independent.PlanDigest {
		t.Errorf("rebased %+v\nfresh %+v", anew, fresh)
	}
	engineer.ok(t, "pxflow_apply_change", anew.application("anew"), &a)
	rebased := strings.Replace(strings.Replace(edited, `moment.input("l"), span`, `moment.input("l"), px.literal({"unit": "m", "value": 2})`, 1),
		"# 경간\r\n", "# 경간\r\nfactor = flow.input(\"factor\", px.number(unit=\"1\", shape=\"scalar\"))\r\n", 1)
	told = engineer.ok(t, "pxflow_describe", m{"target": moved(f.Target, a.NewRevisionRef)}, nil)
	if _, text := h.fetched(t, "engineer", told); text != rebased {
		t.Errorf("after the rebase the source is\n%s", text)
	}

	// The history holds each source, and is verified with them.
	file := filepath.Join(t.TempDir(), "history")
	h.operate(t, "history", "export", "structural_team/bridge_package", file)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{source, edited, rebased} {
		if strings.Count(string(text), `"ref":"`+sha(s)+`"`) != 1 {
			t.Errorf("the history holds %s not once", sha(s))
		}
	}
	h.operate(t, "history", "verify", file)
}

func moved(t flowTarget, revisionRef string) flowTarget {
	t.RevisionRef = revisionRef
	return t
}

// The whole sample in Python gives what the sample gives, edited alike.
//
// covers: F4, F1
func TestTheSampleInPythonCalculatesWhatTheSampleCalculates(t *testing.T) {
	t.Parallel()
	h := start(t)
	engineer := h.as(t, "engineer")
	native := engineer.head(t, sample, "girder_check")
	var document m
	if err := json.Unmarshal(samples.GirderCheck, &document); err != nil {
		t.Fatal(err)
	}
	document["flowKey"] = "girder_check_sdk"
	source := strings.Replace(samples.GirderCheckSource, `"girder_check"`, `"girder_check_sdk"`, 1)
	inPython := engineer.createLinked(t, document, source)
	factor := m{"kind": "AddNode", "nodeKey": "factored", "target": m{"kind": "component", "componentKey": "px.formula", "version": 1},
		"settings":      m{"inputs": m{"m": m{"unit": "kip*ft"}}, "results": m{"r": m{"expression": "1.3 * m", "unit": "kip*ft"}}},
		"inputBindings": m{"m": nodeResult("total_moment", "m")}}
	bind := m{"kind": "BindResult", "portKey": "total_moment", "binding": nodeResult("factored", "r")}
	var values []m
	for i, f := range []flowHead{native, inPython} {
		f = engineer.change(t, f, "factored", factor, bind)
		var started struct{ RunRef string }
		engineer.ok(t, "pxflow_run", m{"kind": "RunFlow", "target": f.Target, "commandId": fmt.Sprint("run", i), "inputs": m{"span": number(80, "ft"), "dead_load": number(1, "kip/ft"), "impact": number(0.2, "1"),
			"section_modulus": number(1500, "in^3"), "yield_stress": number(50, "ksi")}}, &started)
		r := engineer.finished(t, started.RunRef)
		if r.State != "Succeeded" {
			t.Fatalf("%+v", r)
		}
		found := m{}
		for _, key := range r.Results {
			var result struct{ Value any }
			engineer.ok(t, "result_read", m{"runRef": started.RunRef, "resultKey": key.ResultKey}, &result)
			found[key.ResultKey] = result.Value
		}
		values = append(values, found)
	}
	if !reflect.DeepEqual(values[0], values[1]) || len(values[0]) != 5 {
		t.Errorf("calculated\n%v\nand in Python\n%v", values[0], values[1])
	}
}

// Prohibition 6 of the original, of an SDK-linked Flow.
//
// covers: G2, R3
func TestMappingCommandsOfAReportNeverEditThePythonSourceOfAFlow(t *testing.T) {
	t.Parallel()
	h := start(t)
	engineer := h.as(t, "engineer")
	f := engineer.createLinked(t, beam("mapped"), beamSource("mapped"))
	r := engineer.createReport(t, reviewOf("bridge_review"))
	commands := list{feed(f, "span_in", "span", "basis", "span"), feed(f, "load_in", "load", "basis", "load"), showIn("moment_out", "moment", "summary", "moment")}
	p, _ := engineer.planReport(t, r, commands...)
	if text := encode(t, p); strings.Contains(text, "flow.connect") || strings.Contains(text, "sourceDigest") {
		t.Errorf("the plan tells of source: %s", text)
	}
	r = engineer.changeReport(t, r, "connect", commands...)
	r = engineer.changeReport(t, r, "again", m{"kind": "AddField", "blockKey": "basis", "fieldKey": "length", "field": with(scalar("m"), m{"value": number(9, "m")})}, feed(f, "span_in", "span", "basis", "length"))
	engineer.changeReport(t, r, "away", m{"kind": "RemoveReportFlowMapping", "connectionKey": "check", "mappingKey": "span_in"})
	if now := engineer.head(t, sample, "mapped"); !reflect.DeepEqual(now, f) {
		t.Errorf("the Flow is %+v now, and was %+v", now, f)
	}
	told := engineer.ok(t, "pxflow_describe", m{"target": f.Target}, nil)
	if _, text := h.fetched(t, "engineer", told); text != beamSource("mapped") {
		t.Errorf("its source is %q", text)
	}
	// A Report's tool takes neither a source nor a statement of one, and a Flow's no mapping.
	before := h.dump(t)
	engineer.refused(t, "report_plan_change", m{"target": r.Target, "expectedGeneration": r.Generation, "commands": list{with(commands[0].(m), m{"source": "flow.connect(moment.input(\"l\"), span)"})}},
		"PX_SCHEMA_INVALID /commands/0/source")
	engineer.refused(t, "report_plan_change", m{"target": r.Target, "expectedGeneration": r.Generation, "commands": list{m{"kind": "ConnectInput", "nodeKey": "moment", "portKey": "l", "binding": flowInput("span")}}},
		"PX_SCHEMA_INVALID /commands/0/kind")
	engineer.refused(t, "pxflow_plan_change", m{"target": f.Target, "expectedGeneration": f.Generation, "commands": list{commands[0]}}, "PX_SCHEMA_INVALID /commands/0/kind")
	if changed := before.changes(h.dump(t)); len(changed) != 0 {
		t.Errorf("written: %q", changed)
	}
}

// covers: F4, F1
func TestWithoutPythonSDKLinkedFlowsAreRefusedAndEverythingElseWorks(t *testing.T) {
	dir := t.TempDir()
	h := startAt(t, dir, built)
	engineer := h.as(t, "engineer")
	f := engineer.createLinked(t, beam("linked"), beamSource("linked"))
	h.stop(t)

	t.Setenv("PATH", t.TempDir())
	h = startAt(t, dir, built)
	engineer = h.as(t, "engineer")
	relabel := m{"kind": "SetFlowLabel", "label": m{"en": "x"}}
	told := engineer.refused(t, "pxflow_plan_change", m{"target": f.Target, "expectedGeneration": 0, "commands": list{relabel}}, "PX_SANDBOX_UNAVAILABLE /target")
	if len(told.Diagnostics) == 1 && told.Diagnostics[0].Params["reason"] != "python_missing" {
		t.Errorf("told %v", told.Diagnostics[0].Params)
	}
	other, source := linked(beam("other"), beamSource("other")), beamSource("other")
	engineer.refused(t, "pxflow_plan_change", m{"target": flowTarget{sample, "other", digest(t, other)}, "expectedGeneration": 0, "commands": list{m{"kind": "CreateFlow", "document": other, "source": source}}},
		"PX_SANDBOX_UNAVAILABLE /commands/0/source")
	// It is described and run as it was saved, and a native Flow is changed.
	engineer.ok(t, "pxflow_describe", m{"target": f.Target}, nil)
	var started struct{ RunRef string }
	engineer.ok(t, "pxflow_run", m{"kind": "RunFlow", "target": f.Target, "commandId": "run", "inputs": m{"span": number(10, "m"), "load": number(4, "kN/m")}}, &started)
	if r := engineer.finished(t, started.RunRef); r.State != "Succeeded" {
		t.Errorf("%+v", r)
	}
	engineer.change(t, engineer.create(t, sample, beam("native")), "native", relabel)
}
