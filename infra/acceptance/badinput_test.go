package acceptance

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pxhost/pxhost/infra/local/oidc"
	"github.com/pxhost/pxhost/infra/local/statedir"
)

// A bad is one line that must be refused.
type bad struct {
	name, line string
	// A JSON-RPC error: id, code and a part of the message. Or:
	id, message string
	code        int
	told        []string // the diagnostics of a refusing envelope
	params      m        // of the first diagnostic, those named
	action      string   // suggestedAction of the first diagnostic; "" is any
	as          string   // who sends it; engineer if ""
}

// A world is a host with something in its sample Project to go wrong with.
type world struct {
	*host
	flow    flowHead   // footbridge, at generation 1
	old     flowHead   // its first revision
	open    plan       // of the engineer, on flow, not applied
	second  plan       // another
	stale   plan       // of the engineer, on old, not applied
	done    plan       // applied as command "done"
	counter flowHead   // a Flow with an integer input
	report  reportHead // of every kind of value, connected to flow at generation 1
	unready reportHead // its first revision
}

func newWorld(t *testing.T, h *host) *world {
	t.Helper()
	w := &world{host: h}
	h.operate(t, "project", "grant", "structural_team/bridge_package", "--to", "reviewer", "--rights", "read,edit")
	engineer := h.as(t, "engineer")
	w.old = engineer.create(t, sample, beam("footbridge"))
	w.stale = engineer.plan(t, w.old, m{"kind": "SetFlowLabel", "label": m{"en": "Stale"}})
	w.done = engineer.plan(t, w.old, m{"kind": "SetFlowLabel", "label": m{"en": "Done"}})
	var a applied
	engineer.ok(t, "pxflow_apply_change", w.done.application("done"), &a)
	w.flow = flowHead{flowTarget{sample, "footbridge", a.NewRevisionRef}, a.NewGeneration}
	w.open = engineer.plan(t, w.flow, m{"kind": "SetFlowLabel", "label": m{"en": "Open"}})
	w.second = engineer.plan(t, w.flow, m{"kind": "RemoveInputPort", "portKey": "load"}, m{"kind": "ConnectInput", "nodeKey": "moment", "portKey": "w", "binding": literal(4, "kN/m")})
	counter := beam("counter")
	at(counter, "inputs")["count"] = m{"type": "integer", "shape": "scalar"}
	w.counter = engineer.create(t, sample, counter)
	w.report = w.newReport(t, engineer)
	// The key by which cursors are sealed is made when it is first needed.
	engineer.ok(t, "pxflow_search", m{"scope": sample, "limit": 1}, nil)
	return w
}

// planning is a plan of commands on the world's Flow; commands is JSON.
func (w *world) planning(t *testing.T, commands string) string {
	return line(t, 1, "pxflow_plan_change", fmt.Sprintf(`{"target":%s,"expectedGeneration":%d,"commands":%s}`, encode(t, w.flow.Target), w.flow.Generation, commands))
}

func (w *world) running(t *testing.T, f flowHead, inputs string) string {
	return line(t, 1, "pxflow_run", fmt.Sprintf(`{"kind":"RunFlow","target":%s,"commandId":"bad","inputs":%s}`, encode(t, f.Target), inputs))
}

// creating is a first save of a document that is bad, given as JSON.
func (w *world) creating(t *testing.T, key, document string) string {
	return line(t, 1, "pxflow_plan_change", fmt.Sprintf(`{"target":{"scope":%s,"flowKey":%s,"revisionRef":"sha256:any"},"expectedGeneration":0,"commands":[{"kind":"CreateFlow","document":%s}]}`,
		encode(t, sample), key, document))
}

// padded is a search whose query makes its line so many bytes long.
func (w *world) padded(t *testing.T, size int) string {
	call := line(t, 1, "pxflow_search", m{"scope": sample})
	return strings.Replace(call, `{"scope"`, `{"query":"`+strings.Repeat("x", size-len(call)-len(`"query":"",`))+`","scope"`, 1)
}

// malformed are lines that are wrong as JSON or as JSON-RPC.
func (w *world) malformed(t *testing.T) []bad {
	call := line(t, 1, "pxflow_search", m{"scope": sample})
	const parse, request, params = -32700, -32600, -32602
	return []bad{
		{name: "half a JSON line", line: call[:len(call)/2], id: "null", code: parse, message: "ends too early"},
		{name: "two messages on a line", line: call + call, id: "null", code: parse, message: "not strict JSON"},
		{name: "a line of 2 MiB and one byte", line: w.padded(t, 2<<20+1), id: "null", code: request, message: "longer than 2097152 bytes"},
		{name: "depth 65", line: line(t, 1, "pxflow_search", strings.Repeat(`{"a":`, 63)+"1"+strings.Repeat("}", 63)), id: "null", code: parse, message: "nested too deep"},
		{name: "duplicate names", line: `{"jsonrpc":"2.0","id":1,"id":1,"method":"tools/list"}`, id: "null", code: parse, message: "not strict JSON"},
		{name: "duplicate names within arguments", line: line(t, 1, "pxflow_search", `{"scope":{"kind":"principal","kind":"project"}}`), id: "null", code: parse, message: "not strict JSON"},
		{name: "a lone surrogate", line: line(t, 1, "pxflow_search", `{"query":"\ud800"}`), id: "null", code: parse, message: "not strict JSON"},
		{name: "invalid UTF-8", line: line(t, 1, "pxflow_search", "{\"query\":\"\xff\"}"), id: "null", code: parse, message: "not strict JSON"},
		{name: "a raw NUL", line: line(t, 1, "pxflow_search", "{\"query\":\"\x00\"}"), id: "null", code: parse, message: "not strict JSON"},
		{name: "a list of messages", line: `[` + call + `]`, id: "null", code: request, message: "object"},
		{name: "an id that is an object", line: `{"jsonrpc":"2.0","id":{},"method":"tools/list"}`, id: "null", code: request, message: "id must be"},
		{name: "an id that is null", line: `{"jsonrpc":"2.0","id":null,"method":"tools/list"}`, id: "null", code: request, message: "id must be"},
		{name: "a wrong-case Jsonrpc", line: `{"Jsonrpc":"2.0","id":1.5,"method":"tools/list"}`, id: "1.5", code: request, message: "jsonrpc must be"},
		{name: "another version", line: `{"jsonrpc":"1.0","id":9007199254740993,"method":"tools/list"}`, id: "9007199254740993", code: request, message: "jsonrpc must be"},
		{name: "no method", line: `{"jsonrpc":"2.0","id":"1"}`, id: `"1"`, code: request, message: "method is missing"},
		{name: "initialize", line: `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`, id: "1", code: -32601, message: "tools/list and tools/call"},
		{name: "ping", line: `{"jsonrpc":"2.0","id":1.5,"method":"ping"}`, id: "1.5", code: -32601, message: "tools/list and tools/call"},
		{name: "a wrong-case method", line: `{"jsonrpc":"2.0","id":9007199254740993,"method":"Tools/list"}`, id: "9007199254740993", code: -32601, message: "tools/list and tools/call"},
		{name: "params that are a list", line: `{"jsonrpc":"2.0","id":1.5,"method":"tools/call","params":[]}`, id: "1.5", code: params, message: "must be an object"},
		{name: "no name", line: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}`, id: "1", code: params, message: "name is missing"},
		{name: "arguments that are a list", line: line(t, 1, "pxflow_search", `[]`), id: "1", code: params, message: "arguments must be an object"},
		{name: "an unknown tool", line: line(t, 1, "pxflow_drop", `{}`), id: "1", code: params, message: "there is no such tool"},
		{name: "a task", line: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"pxflow_search","task":{}}}`, id: "1", code: params, message: "Tasks"},
		{name: "a list with a cursor", line: `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"x"}}`, id: "1", code: params, message: "cursor"},
	}
}

// refusals are lines that a tool refuses with diagnostics.
func (w *world) refusals(t *testing.T) []bad {
	target := encode(t, w.flow.Target)
	const anything = `{"kind":"SetFlowLabel","label":{"en":"x"}}`
	application := func(p plan, more m) m { return with(p.application("bad"), more) }
	var out []bad
	add := func(name, line string, told ...string) *bad {
		out = append(out, bad{name: name, line: line, told: told})
		return &out[len(out)-1]
	}

	// The largest line and the deepest nesting are read, and judged by the tool.
	add("a line of 2 MiB", w.padded(t, 2<<20), "PX_SCHEMA_INVALID /query")
	add("depth 64", line(t, 1, "pxflow_search", `{"scope":`+encode(t, sample)+`,"a":`+strings.Repeat("[", 61)+strings.Repeat("]", 61)+`}`), "PX_SCHEMA_UNKNOWN_FIELD /a")
	add("no scope", line(t, 1, "pxflow_search", `{}`), "PX_SCHEMA_INVALID /scope")
	add("half a scope", line(t, 1, "pxflow_search", `{"scope":{"kind":"project","workspaceKey":"structural_team"}}`), "PX_SCHEMA_INVALID /scope/projectKey")
	add("half a scope of a target", line(t, 1, "pxflow_describe", `{"target":{"scope":{"kind":"project","projectKey":"bridge_package"},"flowKey":"footbridge","revisionRef":"x"}}`),
		"PX_SCHEMA_INVALID /target/scope/workspaceKey")
	add("a scope of another kind", line(t, 1, "pxflow_search", `{"scope":{"kind":"principal"}}`),
		"PX_SCHEMA_INVALID /scope/kind", "PX_SCHEMA_INVALID /scope/workspaceKey", "PX_SCHEMA_INVALID /scope/projectKey")
	add("all that is wrong at once", line(t, 1, "pxflow_search", `{"limit":0,"query":1,"more":true}`),
		"PX_SCHEMA_INVALID /limit", "PX_SCHEMA_INVALID /query", "PX_SCHEMA_UNKNOWN_FIELD /more", "PX_SCHEMA_INVALID /scope")
	add("an unknown field at depth 3", w.planning(t, `[{"kind":"ConnectInput","nodeKey":"moment","portKey":"w","binding":{"kind":"flowInput","portKey":"load","color":1}}]`),
		"PX_SCHEMA_UNKNOWN_FIELD /commands/0/binding/color")
	add("a wrong-case field", line(t, 1, "pxflow_search", `{"Scope":`+encode(t, sample)+`}`), "PX_SCHEMA_UNKNOWN_FIELD /Scope", "PX_SCHEMA_INVALID /scope")
	for _, field := range []string{"projectId", "flowId", "nodeId", "projectRoot", "flowPath"} {
		add("the legacy field "+field, w.planning(t, `[{"kind":"ConnectInput","nodeKey":"moment","portKey":"w","binding":{"kind":"flowInput","portKey":"load","`+field+`":"x"}}]`),
			"PX_SCHEMA_UNKNOWN_FIELD /commands/0/binding/"+field)
		add("the legacy field "+field+" in a scope", line(t, 1, "pxflow_search", m{"scope": with(sample, m{field: 1})}), "PX_SCHEMA_UNKNOWN_FIELD /scope/"+field)
	}
	add("a raw dotted result path", line(t, 1, "result_read", `{"runRef":"run_x","resultKey":"nodes.check.utilization"}`), "PX_SCHEMA_UNSUPPORTED_VERSION /resultKey")
	add("a raw dotted path in place of a key", line(t, 1, "result_read", `{"runRef":"run_x","result":"nodes.check.utilization"}`),
		"PX_SCHEMA_UNSUPPORTED_VERSION /result", "PX_SCHEMA_INVALID /resultKey")
	for _, tool := range strings.Fields(`project.search adapter.search adapter.describe pxflow.search pxflow.describe pxflow.validate pxflow.change pxflow.run
		report.search report.describe report.change report.render run.get run.cancel result.read`) {
		add("the legacy tool "+tool, line(t, 1, tool, `{}`), "PX_SCHEMA_UNSUPPORTED_VERSION /name").params = m{"entry": tool, "kind": "tool"}
	}

	add("a plan on a stale generation", line(t, 1, "pxflow_plan_change", `{"target":`+target+`,"expectedGeneration":0,"commands":[`+anything+`]}`), "PX_GENERATION_STALE /expectedGeneration")
	add("a plan on a stale revision", line(t, 1, "pxflow_plan_change", fmt.Sprintf(`{"target":%s,"expectedGeneration":1,"commands":[%s]}`, encode(t, w.old.Target), anything)), "PX_GENERATION_STALE /target/revisionRef")
	add("an apply on a stale generation", line(t, 1, "pxflow_apply_change", w.stale.application("bad")), "PX_GENERATION_STALE /expectedGeneration")
	add("a foreign plan", line(t, 1, "pxflow_apply_change", w.open.application("bad")), "PX_PLAN_NOT_FOUND /planRef").as = "reviewer"
	add("a plan that nobody made", line(t, 1, "pxflow_apply_change", application(w.open, m{"planRef": "plan_01ARZ3NDEKTSV4RRFFQ69G5FAV"})), "PX_PLAN_NOT_FOUND /planRef")
	add("a tampered digest", line(t, 1, "pxflow_apply_change", application(w.open, m{"planDigest": w.second.PlanDigest})), "PX_PLAN_MISMATCH /planDigest")
	add("a tampered target", line(t, 1, "pxflow_apply_change", application(w.open, m{"target": w.old.Target})), "PX_PLAN_MISMATCH /target")
	add("a reused commandId", line(t, 1, "pxflow_apply_change", w.open.application("done")), "PX_COMMAND_REUSED /commandId")
	add("a plan that was applied", line(t, 1, "pxflow_apply_change", w.done.application("again")), "PX_GENERATION_STALE /expectedGeneration")
	add("an approval that nobody gave", line(t, 1, "pxflow_apply_change", application(w.open, m{"approvalRef": "approval_01ARZ3NDEKTSV4RRFFQ69G5FAV"})), "PX_APPROVAL_INVALID /approvalRef")
	add("a Flow that is not there", line(t, 1, "pxflow_describe", m{"target": flowTarget{sample, "nothing", "sha256:x"}}), "PX_TARGET_NOT_FOUND /target/flowKey")
	add("a revision that is not there", line(t, 1, "pxflow_validate", m{"target": flowTarget{sample, "footbridge", "sha256:x"}}), "PX_TARGET_NOT_FOUND /target/revisionRef")
	add("a Run that is not there", line(t, 1, "run_get", m{"runRef": "run_01ARZ3NDEKTSV4RRFFQ69G5FAV"}), "PX_TARGET_NOT_FOUND /runRef")
	add("a Run to cancel that is not there", line(t, 1, "run_cancel", m{"runRef": "run_01ARZ3NDEKTSV4RRFFQ69G5FAV", "commandId": "x"}), "PX_TARGET_NOT_FOUND /runRef")
	add("a cursor that nobody sealed", line(t, 1, "pxflow_search", m{"scope": sample, "cursor": "abc"}), "PX_CURSOR_INVALID /cursor")
	add("an empty cursor", line(t, 1, "pxflow_search", m{"scope": sample, "cursor": ""}), "PX_SCHEMA_INVALID /cursor")
	add("a budget that allows nothing", line(t, 1, "pxflow_search", m{"scope": sample, "budget": m{"bytes": 10}}), "PX_LIMIT_EXCEEDED /budget").action = "RAISE_BUDGET"
	for _, request := range []struct {
		tool      string
		arguments m
	}{{"pxflow_search", m{"scope": sample}}, {"pxflow_describe", m{"target": w.flow.Target}}, {"report_describe", m{"targets": list{w.report.Target}}}, {"run_get", m{"runRef": "run_x"}}} {
		for name, most := range map[string]int{"tokens": 200_000, "bytes": 2_097_152, "items": 500, "tableRows": 1_000, "depth": 8} {
			for _, asked := range []int{0, -1, most + 1} {
				add(fmt.Sprintf("%d %s asked of %s", asked, name, request.tool), line(t, 1, request.tool, with(request.arguments, m{"budget": m{name: asked}})), "PX_SCHEMA_INVALID /budget/"+name)
			}
		}
	}
	add("a budget of nothing that there is", line(t, 1, "pxflow_search", m{"scope": sample, "budget": m{"words": 5}}), "PX_SCHEMA_UNKNOWN_FIELD /budget/words")

	cycle := beam("cycle")
	at(cycle, "nodes")["a"] = formula("x", "m", m{"x": m{"unit": "m"}}, m{"x": nodeResult("b", "r")})
	at(cycle, "nodes")["b"] = formula("x", "m", m{"x": m{"unit": "m"}}, m{"x": nodeResult("a", "r")})
	add("a Flow with a cycle", w.creating(t, `"cycle"`, encode(t, cycle)), "PX_BINDING_CYCLE /commands/0/document/nodes/a/inputBindings/x").params = m{"nodeKeys": list{"a", "b"}}
	add("a cycle by a command", w.planning(t, `[{"kind":"ConnectInput","nodeKey":"moment","portKey":"w","binding":{"kind":"nodeResult","nodeKey":"moment","portKey":"r"}}]`),
		"PX_UNIT_MISMATCH /nodes/moment/inputBindings/w", "PX_BINDING_CYCLE /nodes/moment/inputBindings/w")
	add("a dangling binding", w.planning(t, `[{"kind":"ConnectInput","nodeKey":"moment","portKey":"w","binding":{"kind":"flowInput","portKey":"gone"}}]`),
		"PX_REFERENCE_UNKNOWN /nodes/moment/inputBindings/w/portKey")
	add("a binding that is left dangling", w.planning(t, `[{"kind":"RemoveInputPort","portKey":"load"}]`), "PX_REFERENCE_UNKNOWN /nodes/moment/inputBindings/w/portKey")
	add("a missing binding", w.planning(t, `[{"kind":"DisconnectInput","nodeKey":"moment","portKey":"w"}]`), "PX_BINDING_MISSING /nodes/moment/inputBindings/w")
	add("the second command of which fails", w.planning(t, `[`+anything+`,{"kind":"RemoveNode","nodeKey":"gone"}]`), "PX_REFERENCE_UNKNOWN /commands/1/nodeKey")
	add("kN into m", w.planning(t, `[{"kind":"ChangeInputPort","portKey":"span","contract":{"type":"number","unit":"kN","shape":"scalar"}}]`), "PX_UNIT_MISMATCH /nodes/moment/inputBindings/l")
	add("kN into m as a value", w.running(t, w.flow, `{"span":{"value":1,"unit":"kN"},"load":{"value":1,"unit":"kN/m"}}`), "PX_UNIT_MISMATCH /inputs/span/unit")
	add("a third-party Component", w.planning(t, `[{"kind":"ReplaceNodeTarget","nodeKey":"moment","target":{"kind":"component","componentKey":"acme.solver","version":1}}]`),
		"PX_COMPONENT_NOT_RUNNABLE /nodes/moment/target")

	add("1e400 as a value", w.running(t, w.flow, `{"span":{"value":1e400,"unit":"m"},"load":{"value":1,"unit":"kN/m"}}`), "PX_SCHEMA_INVALID /inputs/span/value")
	add("1e400 in a document", w.planning(t, `[{"kind":"ConnectInput","nodeKey":"moment","portKey":"w","binding":{"kind":"literal","value":{"value":1e400,"unit":"kN/m"}}}]`), "PX_SCHEMA_INVALID /commands/0/binding/value/value")
	add("1e400 as a generation", line(t, 1, "pxflow_plan_change", `{"target":`+target+`,"expectedGeneration":1e400,"commands":[`+anything+`]}`), "PX_SCHEMA_INVALID /expectedGeneration")
	add("2^53+1 into an integer", w.running(t, w.counter, `{"span":{"value":1,"unit":"m"},"load":{"value":1,"unit":"kN/m"},"count":{"value":9007199254740993}}`), "PX_SCHEMA_INVALID /inputs/count/value")
	add("2^53+1 as a generation", line(t, 1, "pxflow_plan_change", `{"target":`+target+`,"expectedGeneration":9007199254740993,"commands":[`+anything+`]}`), "PX_SCHEMA_INVALID /expectedGeneration")
	add("half an integer", w.running(t, w.counter, `{"span":{"value":1,"unit":"m"},"load":{"value":1,"unit":"kN/m"},"count":{"value":1.5}}`), "PX_TYPE_MISMATCH /inputs/count/value")
	add("a required input that is missing", w.running(t, w.flow, `{"span":{"value":1,"unit":"m"}}`), "PX_BINDING_MISSING /inputs/load")
	add("an input that the Flow does not have", w.running(t, w.flow, `{"span":{"value":1,"unit":"m"},"load":{"value":1,"unit":"kN/m"},"more":{"value":1}}`), "PX_REFERENCE_UNKNOWN /inputs/more")

	w.badReports(t, add)
	large := formula("x"+strings.Repeat(" + x", 4999), "m", m{"x": m{"unit": "m"}}, m{"x": flowInput("span")}) // 5,000 names and 4,999 sums
	add("a formula of 10,000 nodes", w.planning(t, encode(t, list{with(large, m{"kind": "AddNode", "nodeKey": "large"})})), "PX_LIMIT_EXCEEDED /nodes/large/settings/results/r/expression")

	for _, key := range []struct{ name, text, path string }{
		{"a slash", `"a/b"`, "a~1b"}, {"an emoji", `"b😀"`, "b😀"}, {"300 characters", `"` + strings.Repeat("k", 300) + `"`, strings.Repeat("k", 128) + "…"}, {"a NUL", `"a\u0000b"`, "a\x00b"},
		{"a tilde", `"a~b"`, "a~0b"}, {"no character", `""`, ""},
	} {
		add("a flowKey with "+key.name, line(t, 1, "pxflow_describe", `{"target":{"scope":`+encode(t, sample)+`,"flowKey":`+key.text+`,"revisionRef":"x"}}`), "PX_SCHEMA_INVALID /target/flowKey")
		add("a nodeKey with "+key.name, w.planning(t, `[{"kind":"RemoveNode","nodeKey":`+key.text+`}]`), "PX_SCHEMA_INVALID /commands/0/nodeKey")
		add("an input port with "+key.name, w.running(t, w.flow, `{`+key.text+`:{"value":1},"span":{"value":1,"unit":"m"},"load":{"value":1,"unit":"kN/m"}}`), "PX_SCHEMA_INVALID /inputs/"+key.path)
		document := strings.Replace(encode(t, beam("keys")), `"moment":{"inputB`, key.text+`:{"inputB`, 1)
		add("a Node of a document with "+key.name, w.creating(t, `"keys"`, document), "PX_SCHEMA_INVALID /commands/0/document/nodes/"+key.path)
	}
	return out
}

// judge sends the line and compares what comes back.
func (b bad) judge(t *testing.T, h *host) {
	t.Helper()
	as := b.as
	if as == "" {
		as = "engineer"
	}
	r := post(t, h.URL, h.token(t, as), b.line+"\n")
	if r.status != http.StatusOK {
		t.Errorf("%s: status %d %s", b.name, r.status, r.body)
		return
	}
	got := read(t, r.body)
	if b.code != 0 {
		if string(got.ID) != b.id || got.Code != b.code || !strings.Contains(got.Message, b.message) {
			t.Errorf("%s: got %+v", b.name, got)
		}
		return
	}
	if got.Envelope == nil || got.Envelope.OK {
		t.Errorf("%s: got %+v", b.name, got)
		return
	}
	if told := got.Envelope.told(); !slices.Equal(told, b.told) {
		t.Errorf("%s:\n got %q\nwant %q\n%s", b.name, told, b.told, got.Raw[:min(len(got.Raw), 600)])
		return
	}
	if is := got.Envelope.Diagnostics[0].SuggestedAction; b.action != "" && is != b.action {
		t.Errorf("%s: %s is suggested", b.name, is)
	}
	for name, want := range b.params {
		if is := got.Envelope.Diagnostics[0].Params[name]; !reflect.DeepEqual(is, want) {
			t.Errorf("%s: params.%s is %v", b.name, name, is)
		}
	}
}

// covers: E2, E3, L1, P1, P4, P7, R2, T1, W2, W3, W6
func TestBadInputIsToldExactlyAndLeavesNoTrace(t *testing.T) {
	t.Parallel()
	h := start(t)
	w := newWorld(t, h)
	before := h.dump(t)
	unchanged := func(name string) {
		t.Helper()
		after := h.dump(t)
		if changed := before.changes(after); len(changed) > 0 {
			t.Errorf("%s: the store changed: %q", name, changed)
			before = after // what changed is told once
		}
	}
	if len(before) < 20 || !slices.ContainsFunc(before.changes(nil), func(key string) bool { return strings.HasPrefix(key, "HOST ") }) {
		t.Fatalf("a dump of %d rows", len(before))
	}
	for _, b := range append(w.malformed(t), w.refusals(t)...) {
		b.judge(t, h)
		unchanged(b.name)
	}

	call := line(t, 1, "pxflow_search", m{"scope": sample})
	token := h.token(t, "engineer")
	for _, c := range []struct {
		name, body string
		status     int
		want       string
	}{
		{"65 lines", strings.Repeat(call+"\n", 65), http.StatusRequestEntityTooLarge, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"the request has more than 64 messages"}}` + "\n"},
		{"a body of 4 MiB and one byte", strings.Repeat(strings.Repeat(" ", 1<<20-1)+"\n", 4) + "\n", http.StatusRequestEntityTooLarge, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"the request is longer than 4194304 bytes"}}` + "\n"},
		{"nothing", "\n\n", http.StatusBadRequest, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"the request has no message"}}` + "\n"},
		{"a notification that would apply a plan", strings.Replace(line(t, 1, "pxflow_apply_change", w.open.application("quiet")), `"id":1,`, "", 1), http.StatusAccepted, ""},
	} {
		if r := post(t, h.URL, token, c.body); r.status != c.status || r.body != c.want {
			t.Errorf("%s: %d %s", c.name, r.status, r.body)
		}
		unchanged(c.name)
	}
	// One less is fine, and a bad line beside good ones harms none of them.
	if r := post(t, h.URL, token, strings.Repeat(call+"\n", 63)+call[:9]+"\n"); r.status != http.StatusOK || len(r.lines()) != 64 || strings.Count(r.body, `"ok":true`) != 63 || read(t, r.lines()[63]).Code != -32700 {
		t.Errorf("64 lines: %d, %d lines", r.status, len(r.lines()))
	}
	for _, id := range []string{"1.5", "9007199254740993", `"1"`, "1", `"\u0041"`} {
		r := post(t, h.URL, token, strings.Replace(call, `"id":1,`, `"id":`+id+`,`, 1))
		if got := read(t, r.body); string(got.ID) != id || got.Envelope == nil || !got.Envelope.OK {
			t.Errorf("id %s: %s", id, r.body)
		}
	}

	// Tokens. The line is one that would change something.
	apply := line(t, 1, "pxflow_apply_change", w.open.application("token"))
	dir := statedir.At(h.state)
	key, err := oidc.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	strange, err := statedir.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer strange.Close()
	foreignKey, err := oidc.Open(strange)
	if err != nil {
		t.Fatal(err)
	}
	mint := func(key *oidc.Key, issuer, scope string, when time.Time) string {
		t.Helper()
		token, err := key.Token(issuer, "engineer", scope, when)
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	now := time.Now()
	for name, c := range map[string]struct {
		token  string
		status int
		reason string
	}{
		"no token":                       {"", http.StatusUnauthorized, "token_missing"},
		"an expired token":               {mint(key, h.URL, oidc.ScopeTools, now.Add(-2*oidc.Lifetime)), http.StatusUnauthorized, "token_expired"},
		"a token of the future":          {mint(key, h.URL, oidc.ScopeTools, now.Add(time.Hour)), http.StatusUnauthorized, "token_not_yet_valid"},
		"a token of a foreign key":       {mint(foreignKey, h.URL, oidc.ScopeTools, now), http.StatusUnauthorized, "key_unknown"},
		"a token of a foreign issuer":    {mint(key, "http://127.0.0.1:1", oidc.ScopeTools, now), http.StatusUnauthorized, "issuer_not_accepted"},
		"a token that is none":           {"abc", http.StatusUnauthorized, "token_malformed"},
		"the token of who approves":      {mint(key, h.URL, oidc.ScopeApprove, now), http.StatusForbidden, "scope_missing"},
		"a token with a changed payload": {tampered(t, token), http.StatusUnauthorized, "signature_invalid"},
	} {
		r := post(t, h.URL, c.token, apply)
		if r.status != c.status || !strings.HasPrefix(r.header.Get("www-authenticate"), "Bearer") || r.header.Get("x-px-challenge") != "" || r.body != `{"error":"`+c.reason+`"}`+"\n" {
			t.Errorf("%s: %d %v %s", name, r.status, r.header, r.body)
		}
		unchanged(name)
	}

	// Every diagnostic can be found in the log by its ID, and nothing of what was
	// sent is told there.
	told := engineerTold(t, h, w)
	for _, id := range told {
		if !eventually(func() bool { return strings.Contains(h.out.String(), id) }) {
			t.Errorf("the log does not tell of %s", id)
		}
	}
	for _, sent := range []string{token, "nodes.check.utilization", "x + x + x", "pxflow_drop", "very-secret-label", "acme.solver"} {
		if strings.Contains(h.out.String(), sent) {
			t.Errorf("the log quotes %.30q", sent)
		}
	}
}

// engineerTold are the diagnosticIds of refusals of a request with text in it.
func engineerTold(t *testing.T, h *host, w *world) []string {
	t.Helper()
	var out []string
	for _, text := range []string{
		w.planning(t, `[{"kind":"SetFlowLabel","label":{"en":"very-secret-label"}},{"kind":"RemoveNode","nodeKey":"gone"}]`),
		line(t, 1, "pxflow_search", m{"scope": sample, "query": "very-secret-label", "cursor": "very-secret-label"}),
		line(t, 1, "report.change", m{"text": "very-secret-label"}),
	} {
		got := read(t, post(t, h.URL, h.token(t, "engineer"), text).body)
		if got.Envelope == nil || got.Envelope.OK {
			t.Fatalf("not refused: %+v", got)
		}
		for _, d := range got.Envelope.Diagnostics {
			out = append(out, *d.DiagnosticID)
		}
	}
	return out
}

// eventually waits up to ten seconds for something that comes by itself.
func eventually(is func() bool) bool {
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if is() {
			return true
		}
	}
	return is()
}

// tampered is a token that says another subject under the same signature.
func tampered(t *testing.T, token string) string {
	t.Helper()
	parts := strings.Split(token, ".")
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(payload), `"engineer"`, `"reviewer"`, 1)
	if changed == string(payload) {
		t.Fatal("the token names no engineer")
	}
	parts[1] = base64.RawURLEncoding.EncodeToString([]byte(changed))
	return strings.Join(parts, ".")
}

// An applied plan would have moved the head; an expired one does not.
// covers: P5, P7
func TestAPlanExpires(t *testing.T) {
	t.Parallel()
	h := start(t, "--parameter", "PlanLife=2s")
	engineer := h.as(t, "engineer")
	f := engineer.head(t, sample, "girder_check")
	p := engineer.plan(t, f, m{"kind": "SetFlowLabel", "label": m{"en": "Late"}})
	expires, err := time.Parse(time.RFC3339, p.ExpiresAt)
	if err != nil || time.Until(expires) > 2*time.Second {
		t.Fatalf("a plan of 2 s expires at %s", p.ExpiresAt)
	}
	before := h.dump(t)
	time.Sleep(time.Until(expires) + 10*time.Millisecond)
	told := engineer.refused(t, "pxflow_apply_change", p.application("late"), "PX_PLAN_EXPIRED /planRef")
	if len(told.Diagnostics) == 1 && told.Diagnostics[0].SuggestedAction != "PLAN_AGAIN" {
		t.Errorf("told %+v", told)
	}
	if changed := before.changes(h.dump(t)); len(changed) > 0 {
		t.Errorf("the store changed: %q", changed)
	}
	// Within its life the same is applied; a machine that is slow may be late again.
	for attempt := 0; ; attempt++ {
		p := engineer.plan(t, f, m{"kind": "SetFlowLabel", "label": m{"en": "Late"}})
		got := engineer.call(t, "pxflow_apply_change", p.application("late"))
		if got.Envelope != nil && got.Envelope.OK {
			break
		}
		if got.Envelope == nil || !slices.Equal(got.Envelope.told(), []string{"PX_PLAN_EXPIRED /planRef"}) || attempt == 5 {
			t.Fatalf("in time, it is told %+v", got)
		}
	}
}

// A formula that divides by zero is known only when it runs: the Run fails, says
// which Node and why, and has no results.
// covers: U1, U2
func TestARunThatDividesByZeroFailsAndNamesTheNode(t *testing.T) {
	t.Parallel()
	h := start(t)
	engineer := h.as(t, "engineer")
	document := beam("quotient")
	at(document, "nodes")["moment"] = formula("w * l / (l - l) * l ^ 2", "kN*m", m{"w": m{"unit": "kN/m"}, "l": m{"unit": "m"}}, m{"w": flowInput("load"), "l": flowInput("span")})
	f := engineer.create(t, sample, document)
	heads := regexp.MustCompile(`^(HEADS|CHANGES) `)
	before := h.dump(t)
	var started struct{ RunRef string }
	engineer.ok(t, "pxflow_run", m{"kind": "RunFlow", "target": f.Target, "commandId": "zero", "inputs": m{"span": number(2, "m"), "load": number(3, "kN/m")}}, &started)
	r := engineer.finished(t, started.RunRef)
	if r.State != "Failed" || len(r.Results) != 0 || len(r.Diagnostics) != 1 || r.Diagnostics[0].Code != "PX_RUN_FAILED" ||
		!strings.HasPrefix(r.Diagnostics[0].Path, "/nodes/moment/settings/results/r/expression") || r.Diagnostics[0].Params["nodeKey"] != "moment" {
		t.Errorf("got %+v", r)
	}
	engineer.refused(t, "result_read", m{"runRef": started.RunRef, "resultKey": "moment"}, "PX_TARGET_NOT_FOUND /resultKey")
	// A terminal Run stays as it is.
	var cancelled struct{ State string }
	ended := h.dump(t)
	engineer.ok(t, "run_cancel", m{"runRef": started.RunRef, "commandId": "c"}, &cancelled)
	if cancelled.State != "Failed" {
		t.Errorf("cancelled, it is %s", cancelled.State)
	}
	if changed := ended.changes(h.dump(t)); len(changed) > 0 {
		t.Errorf("cancelling a Run that had ended changed %q", changed)
	}
	for _, key := range before.changes(ended) {
		if heads.MatchString(key) && before[key] != "" {
			t.Errorf("a failing Run changed %s", key)
		}
	}

	// -0 is 0: the same request, and the same Run.
	run := func(span string) string {
		t.Helper()
		var s struct{ RunRef string }
		engineer.ok(t, "pxflow_run", `{"kind":"RunFlow","target":`+encode(t, f.Target)+`,"commandId":"minus","inputs":{"span":{"value":`+span+`,"unit":"m"},"load":{"value":1,"unit":"kN/m"}}}`, &s)
		return s.RunRef
	}
	if run("-0") != run("0") || run("0.0") != run("0e5") {
		t.Error("-0 is not 0")
	}
}
