package door_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pxhost/pxhost/shared/capability"
	"github.com/pxhost/pxhost/shared/capability/door"
	"github.com/pxhost/pxhost/shared/capability/execution"
	"github.com/pxhost/pxhost/shared/capability/host"
)

// A reply is what an ordinary MCP client gets.
type reply struct {
	status int
	header map[string]string
	Result struct {
		Tools []struct {
			Name, Title, Description string
			InputSchema              map[string]any
			Annotations              map[string]any
			Meta                     map[string]string `json:"_meta"`
		}
		NextCursor        string
		Content           []struct{ Text string }
		StructuredContent json.RawMessage
		IsError           *bool
		TTLMs             *int `json:"ttlMs"`
		CacheScope        string
	}
	Error struct {
		Code    int
		Message string
		Data    struct {
			Retryable bool
			Outcome   string
		}
	}
	answer // of the structured content
}

func (r reply) names() []string {
	var out []string
	for _, t := range r.Result.Tools {
		out = append(out, t.Name)
	}
	return out
}

// rpc sends one message as an ordinary client does, to the endpoint of the team.
func (b *bench) rpc(as, method string, params object, headers ...string) reply {
	b.Helper()
	return b.rpcIn(as, "team", method, params, headers...)
}

func (b *bench) rpcIn(as, workspace, method string, params object, headers ...string) reply {
	b.Helper()
	body, err := json.Marshal(object{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	b.must(err)
	var event map[string]any
	b.must(json.Unmarshal(b.event(as, door.ToolsKey, nil, string(body), headers...), &event))
	event["rawPath"] = "/mcp/capabilities"
	event["requestContext"].(map[string]any)["http"] = map[string]any{"method": "POST"}
	event["headers"].(map[string]any)["host"] = "px.test"
	if workspace != "" {
		event["rawQueryString"], event["queryStringParameters"] = "workspaceKey="+workspace, map[string]string{"workspaceKey": workspace}
	}
	payload, err := json.Marshal(event)
	b.must(err)
	text, err := b.door.Invoke(b.Context(), payload)
	b.must(err)
	var out struct {
		StatusCode int
		Headers    map[string]string
		Body       string
	}
	b.must(json.Unmarshal(text, &out))
	r := reply{status: out.StatusCode, header: out.Headers}
	if json.Unmarshal([]byte(out.Body), &r); r.Result.StructuredContent != nil {
		if string(r.Result.StructuredContent) != r.Result.Content[0].Text {
			b.Errorf("the text is not the structured content: %s", out.Body)
		}
		inner, err := json.Marshal(map[string]any{"statusCode": 200, "headers": map[string]string{"cache-control": "no-store"}, "body": r.Result.Content[0].Text})
		b.must(err)
		r.answer = b.read(inner)
	}
	return r
}

func (b *bench) tool(as, name string, arguments any, meta object) reply {
	b.Helper()
	params := object{"name": name, "arguments": arguments}
	if meta != nil {
		params["_meta"] = meta
	}
	return b.rpc(as, "tools/call", params)
}

// named is the tool of a capability in the list.
func (b *bench) named(as, capabilityID string) string {
	b.Helper()
	for _, t := range b.rpc(as, "tools/list", object{}).Result.Tools {
		if t.Meta["px/capabilityId"] == capabilityID {
			return t.Name
		}
	}
	b.Fatalf("%s is not in the list", capabilityID)
	return ""
}

// covers: W9, C2, C3, C4
func TestAnOrdinaryClientHasTheActorsCapabilitiesAsTools(t *testing.T) {
	b := newBench(t)
	if got := b.rpc(ai+"user", "tools/list", object{}).names(); !slices.Equal(got, []string{"execution_cancel", "execution_get", "validate"}) {
		t.Fatal(got)
	}
	id, other := b.install("one"), b.install("two")
	list := b.rpc(ai+"user", "tools/list", object{})
	if list.status != 200 || len(list.Result.Tools) != 9 || !slices.IsSorted(list.names()) {
		t.Fatal(list.status, list.names())
	}
	seen := map[string]int{}
	for _, one := range list.Result.Tools {
		seen[one.Name]++
		if one.Meta == nil {
			continue
		}
		if len(one.Name) > 64 || seen[one.Name] > 1 || one.InputSchema["type"] != "object" || one.Title == "" || one.Annotations["title"] != one.Title {
			t.Errorf("%+v", one)
		}
		if ready := one.Meta["px/ready"] == "READY"; ready != (one.Meta["px/capabilityId"] == "notes.tidy") || ready == strings.HasPrefix(one.Description, "Not ready: EXTENSION_PERMISSION_DENIED (") {
			t.Errorf("%+v", one)
		}
		if reads := one.Meta["px/capabilityId"] == "notes.tidy"; one.Annotations["readOnlyHint"] != reads || one.Annotations["destructiveHint"] == reads {
			t.Errorf("%s: %v", one.Name, one.Annotations)
		}
	}

	name := ""
	for _, one := range list.Result.Tools {
		if one.Meta["px/instanceId"] == id && one.Meta["px/capabilityId"] == "notes.tidy" {
			name = one.Name
		}
	}
	// The same capability as by HTTP, with the same checks and the same record.
	got := b.tool(ai+"user", name, object{"query": "메모"}, object{"px/idempotencyKey": "k1"})
	if *got.Result.IsError || got.text("state") != "succeeded" || got.text("surface") != "ai" || got.text("instanceId") != id || got.text("result", "data", "text") != "정리합니다: 메모" {
		t.Fatal(got.body)
	}
	byHTTP := b.send(ai+"user", invokeKey, []string{id, "notes.tidy"}, call("ai", "k1", "메모", 0))
	again := b.tool(ai+"user", name, object{"query": "메모"}, object{"px/idempotencyKey": "k1"})
	if byHTTP.text("executionId") != got.text("executionId") || again.text("executionId") != got.text("executionId") || b.calls.Load() != 1 {
		t.Error("a call under one key was another one", b.calls.Load(), byHTTP.body, again.body)
	}
	if a := b.tool(ai+"user", name, object{"query": "다른"}, object{"px/idempotencyKey": "k1"}); !*a.Result.IsError || a.told() != "PX_COMMAND_REUSED /_meta/px~1idempotencyKey" {
		t.Error(a.body)
	}
	// Without a key each call is one of its own.
	one, two := b.tool(ai+"user", name, object{"query": "x"}, nil), b.tool(ai+"user", name, object{"query": "x"}, nil)
	if one.text("executionId") == two.text("executionId") || b.calls.Load() != 3 {
		t.Error("two calls without a key were one", b.calls.Load())
	}
	if a := b.tool(ai+"user", name, object{"query": 7}, nil); !*a.Result.IsError || a.told() != "EXTENSION_INPUT_INVALID" || strings.Contains(a.body, "/arguments") || b.calls.Load() != 3 {
		t.Error(a.body, b.calls.Load())
	}
	for number, at := range map[string]string{"1e400": "/query", "9007199254740993": "/query"} {
		a := b.tool(ai+"user", name, json.RawMessage(`{"query":`+number+`}`), nil)
		if !*a.Result.IsError || a.told() != "PX_SCHEMA_INVALID "+at {
			t.Errorf("%s: %s", number, a.body)
		}
	}
	if a := b.tool(ai+"user", b.named(ai+"user", "notes.stored"), object{}, nil); !*a.Result.IsError || a.told() != "EXTENSION_PERMISSION_DENIED" {
		t.Error(a.body)
	}
	if a := b.tool(ai+"user", "execution_get", object{"executionId": got.text("executionId")}, nil); *a.Result.IsError || a.text("result", "data", "text") != "정리합니다: 메모" {
		t.Error(a.body)
	}
	if a := b.tool(ai+"second", "execution_get", object{"executionId": got.text("executionId")}, nil); !*a.Result.IsError || a.told() != "EXTENSION_NOT_FOUND" {
		t.Error("another's execution was told", a.body)
	}

	// Switched off, the very next call says so, and the list has it no more.
	b.manage(id, "disable", object{"generation": 1})
	if a := b.tool(ai+"user", name, object{"query": "x"}, nil); !*a.Result.IsError || a.told() != "EXTENSION_DISABLED" || b.calls.Load() != 3 {
		t.Error(a.body, b.calls.Load())
	}
	if now := b.rpc(ai+"user", "tools/list", object{}).names(); len(now) != 6 || slices.Contains(now, name) {
		t.Error(now)
	}
	// What is granted to others is not there for this one.
	b.manage(other, "grant", object{"generation": 1, "actors": []string{issuer + "second"}})
	if now := b.rpc(ai+"user", "tools/list", object{}).names(); len(now) != 3 {
		t.Error(now)
	}
	if a := b.tool(ai+"user", b.named(ai+"second", "notes.tidy"), object{"query": "x"}, nil); a.Error.Code != -32602 || a.Error.Message != "there is no such tool" {
		t.Errorf("%+v", a)
	}
}

// covers: C4
func TestAPackageIsValidatedByAnOrdinaryClient(t *testing.T) {
	b := newBench(t)
	good := b.tool(ai+"user", "validate", object{"package": files(notes)}, nil)
	byHTTP := b.send(ai+"user", validateKey, nil, object{"package": files(notes)})
	if *good.Result.IsError || good.text("valid") != "true" || good.text("packageDigest") != byHTTP.text("packageDigest") {
		t.Error(good.body)
	}
	wrong := edited(notes, `"timeout_seconds":60`, `"timeout_seconds":301`, `"maxLength":70000`, `"$ref":"https://example.com/x"`, `{query}`, `{query`)
	bad := b.tool(ai+"user", "validate", object{"package": files(wrong)}, nil)
	byHTTP = b.send(ai+"user", validateKey, nil, object{"package": files(wrong)})
	if *bad.Result.IsError || bad.text("valid") != "false" || len(bad.found) < 4 || !slices.Equal(bad.found, byHTTP.found) {
		t.Errorf("by MCP %v\nby HTTP %v", bad.found, byHTTP.found)
	}
	if a := b.tool(ai+"user", "validate", object{"package": object{}}, nil); !*a.Result.IsError || a.told() != "PX_SCHEMA_INVALID /package" {
		t.Error(a.body)
	}
	if b.store.writes.Load() != 0 {
		t.Error("something was stored")
	}
}

func TestWhoMayUseNothingHasNoTools(t *testing.T) {
	b := newBench(t)
	b.install("one")
	const refusal = "the workspaceKey of the URL is of no workspace whose plugins you may use"
	tidy := b.named(ai+"user", "notes.tidy")
	for _, as := range []string{"manager", "stranger"} {
		if r := b.rpc(ai+as, "tools/list", object{}); r.Error.Code != -32602 || r.Error.Message != refusal {
			t.Errorf("%s: %+v", as, r)
		}
		if r := b.tool(ai+as, tidy, object{"query": "x"}, nil); r.Error.Code != -32602 || r.Error.Message != refusal {
			t.Errorf("%s: %+v", as, r)
		}
	}
	if r := b.rpcIn(ai+"user", "other", "tools/list", object{}); r.Error.Message != refusal {
		t.Errorf("%+v", r)
	}
	for _, workspace := range []string{"", "No Key", "team&x=y"} {
		if r := b.rpcIn(ai+"user", workspace, "tools/list", object{}); r.status != 400 {
			t.Errorf("%q: %+v", workspace, r)
		}
	}
	if r := b.rpc(person+"user", "tools/list", object{}); r.status != 403 || !strings.Contains(r.header["www-authenticate"], "insufficient_scope") {
		t.Error("a person's token is an AI's here", r.status, r.header)
	}
	r := b.rpc("", "tools/list", object{})
	if r.status != 401 || !strings.Contains(r.header["www-authenticate"], `resource_metadata="https://px.test/.well-known/oauth-protected-resource/mcp/capabilities"`) {
		t.Error(r.status, r.header)
	}
	if r := b.rpc(ai+"user", "tools/list", object{}, "origin", "https://evil.example.com"); r.status != 403 {
		t.Error(r.status)
	}
	for _, name := range []string{"", "capability", "notes.tidy", tidy[:len(tidy)-1] + "9", strings.ToUpper(tidy)} {
		if r := b.tool(ai+"user", name, object{"query": "x"}, nil); r.Error.Code != -32602 {
			t.Errorf("%q: %+v", name, r)
		}
	}
	for name, key := range map[string]any{"empty": "", "long": strings.Repeat("k", 201), "a number": 1} {
		if r := b.tool(ai+"user", tidy, object{"query": "x"}, object{"px/idempotencyKey": key}); r.Error.Code != -32602 {
			t.Errorf("a key that is %s: %+v", name, r)
		}
	}
	if b.calls.Load() != 0 {
		t.Error("something was called")
	}
}

// What clients' models refuse stands in no schema of the list, and is judged all the same.
//
// covers: W9
func TestTheSchemasOfToolsAreWhatClientsTake(t *testing.T) {
	b := newBench(t)
	const head, tail = `{"pluginKey":"acme.%[1]s","version":"1.0.0","title":"P","capabilities":[{"id":"acme.%[1]s.go","kind":"skill","title":"C","description":"D","permissions":[],"timeout_seconds":60,`, `"runtime":{"adapter":"text_template","template":"x"}}]}`
	for _, c := range []struct{ key, schema, want, description string }{
		{"none", ``, `{"properties":{},"type":"object"}`, "D (P)"},
		{"bare", `{"type":"object"}`, `{"properties":{},"type":"object"}`, "D (P)"},
		{"usual", `{"type":"object","properties":{"a":{"oneOf":[{"type":"null"}]}}}`, `{"properties":{"a":{"oneOf":[{"type":"null"}]}},"type":"object"}`, "D (P)"},
		{"union", `{"type":"object","properties":{"a":{"type":"string"}}, "oneOf":[ {"required":["a"]},{"required":["b"]}],"anyOf":[{"required":["a"]}]}`,
			`{"properties":{"a":{"type":"string"}},"type":"object"}`,
			`D (P) The arguments must also fit this JSON Schema: {"anyOf":[{"required":["a"]}],"oneOf":[{"required":["a"]},{"required":["b"]}]}`},
		{"long", `{"type":"object","anyOf":[{"title":"` + strings.Repeat("x", 5000) + `"}]}`, `{"properties":{},"type":"object"}`, "D (P) The arguments have further rules, which are too long to be told here."},
	} {
		if c.schema != "" {
			c.schema = `"input_schema":` + c.schema + `,`
		}
		a := b.send(person+"manager", installKey, nil, order(c.key, files(fmt.Sprintf(head, c.key)+c.schema+tail)))
		id := "acme." + c.key + ".go"
		found := false
		for _, one := range b.rpc(ai+"user", "tools/list", object{}).Result.Tools {
			if one.Meta["px/capabilityId"] != id {
				continue
			}
			found = true
			text, err := json.Marshal(one.InputSchema)
			if b.must(err); string(text) != c.want || one.Description != c.description {
				t.Errorf("%s: %s %s", c.key, text, one.Description)
			}
		}
		if !found {
			t.Errorf("%s: %s", c.key, a.body)
		}
	}
	if a := b.tool(ai+"user", b.named(ai+"user", "acme.union.go"), object{"a": "x", "b": "y"}, nil); a.told() != "EXTENSION_INPUT_INVALID" {
		t.Error(a.body)
	}
}

// The pages of the list are the whole of it, each tool once, even where tools come and go
// between two of them.
func TestTheListOfToolsComesInPages(t *testing.T) {
	b := newBench(t)
	long := strings.Repeat("설명 ", 600) // 4,200 bytes
	capabilities := make([]string, 100)
	for i := range capabilities {
		capabilities[i] = fmt.Sprintf(`{"id":"many.c%03d","kind":"skill","title":"C","description":"%s","permissions":[],"timeout_seconds":60,"runtime":{"adapter":"text_template","template":"x"}}`, i, long)
	}
	manifest := `{"pluginKey":"acme.many","version":"1.0.0","title":"Many","capabilities":[` + strings.Join(capabilities, ",") + `]}`
	var ids []string
	for i := range 3 {
		a := b.send(person+"manager", "POST /v1/plugins", nil, object{"workspaceKey": "team", "idempotencyKey": fmt.Sprint(i), "package": files(manifest)})
		ids = append(ids, a.text("instanceId"))
	}
	read := func(between func(page int)) map[string]int {
		seen, params := map[string]int{}, object{}
		for page := 1; ; page++ {
			r := b.rpc(ai+"user", "tools/list", params)
			if r.status != 200 || len(r.Result.Tools) == 0 || page > 9 {
				t.Fatalf("page %d: %d %+v", page, r.status, r.Error)
			}
			for _, name := range r.names() {
				seen[name]++
			}
			if r.Result.NextCursor == "" {
				if page < 3 {
					t.Errorf("%d pages", page)
				}
				return seen
			}
			params = object{"cursor": r.Result.NextCursor}
			between(page)
		}
	}
	all := read(func(int) {})
	if len(all) != 303 || slices.Max(slices.Collect(maps.Values(all))) != 1 {
		t.Errorf("%d tools", len(all))
	}
	moved := read(func(page int) {
		if page == 1 {
			b.manage(ids[0], "remove", object{"generation": 1})
			b.install("meanwhile")
		}
	})
	for name := range b.whole() {
		if strings.HasPrefix(name, "many_") && moved[name] != 1 {
			t.Errorf("%s came %d times", name, moved[name])
		}
	}
	for _, cursor := range []any{"", "x", "!", "bWFueSBj", 7} {
		if r := b.rpc(ai+"user", "tools/list", object{"cursor": cursor}); r.Error.Code != -32602 {
			t.Errorf("%v: %+v", cursor, r)
		}
	}
}

// whole are the names of all tools now.
func (b *bench) whole() map[string]bool {
	b.Helper()
	out, params := map[string]bool{}, object{}
	for {
		r := b.rpc(ai+"user", "tools/list", params)
		for _, name := range r.names() {
			out[name] = true
		}
		if r.Result.NextCursor == "" {
			return out
		}
		params = object{"cursor": r.Result.NextCursor}
	}
}

// covers: X1
func TestAToolThatIsStillAtWorkIsAskedForAndStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{TB: t, tokens: &tokens{}, now: time.Now}
		b.build()
		b.install("one")
		name := b.named(ai+"user", "notes.tidy")
		run := b.invoke
		b.invoke = func(ctx context.Context, adapter capability.AdapterName, id string) error {
			go func() {
				time.Sleep(30 * time.Second)
				run(context.WithoutCancel(ctx), adapter, id)
			}()
			return nil
		}
		began := time.Now()
		r := b.tool(ai+"user", name, object{"query": "메모"}, nil)
		if waited := time.Since(began); *r.Result.IsError || r.text("state") == "succeeded" || waited != 20*time.Second {
			t.Error(waited, r.body)
		}
		time.Sleep(time.Minute)
		if a := b.tool(ai+"user", "execution_get", object{"executionId": r.text("executionId")}, nil); a.text("state") != "succeeded" || a.text("result", "data", "text") != "정리합니다: 메모" {
			t.Error(a.body)
		}
		b.invoke = func(context.Context, capability.AdapterName, string) error { return nil } // it is never begun
		r = b.tool(ai+"user", name, object{"query": "메모"}, nil)
		if a := b.tool(ai+"user", "execution_cancel", object{"executionId": r.text("executionId")}, nil); *a.Result.IsError || a.text("state") != "cancelled" {
			t.Error(a.body)
		}
	})
}

// What does not fit comes in parts, by execution_get, and the parts are the whole.
//
// covers: B2
func TestAnAnswerThatIsCutGoesOnWithExecutionGet(t *testing.T) {
	b := newBench(t)
	b.install("one")
	name, query := b.named(ai+"user", "notes.tidy"), strings.Repeat("가나다라마바사아", 2000)
	r := b.tool(ai+"user", name, object{"query": query}, object{"px/maxBytes": 8192})
	var text strings.Builder
	id := r.text("executionId")
	for part := 0; ; part++ {
		if len(r.Result.StructuredContent) > 8192 || part > 20 || *r.Result.IsError {
			t.Fatalf("part %d of %d bytes", part, len(r.body))
		}
		text.WriteString(r.text("result", "data", "text"))
		cursor := r.text("truncation", "continuation", "value")
		if cursor == "" {
			break
		}
		r = b.tool(ai+"user", "execution_get", object{"executionId": id, "cursor": cursor}, object{"px/maxBytes": 8192})
	}
	if text.String() != "정리합니다: "+query {
		t.Errorf("the parts have %d bytes, the whole %d", text.Len(), len(query)+len("정리합니다: "))
	}
	if b.calls.Load() != 1 {
		t.Errorf("it was called %d times", b.calls.Load())
	}
}

// A failure of the machinery says that it may be sent again only where that does nothing
// twice.
//
// covers: A9
func TestAFailureIsRetryableOnlyUnderAKey(t *testing.T) {
	b := newBench(t)
	b.install("one")
	name := b.named(ai+"user", "notes.tidy")
	b.door = door.New(b, b.frame(), door.Host{Rows: b.store, Workspaces: &execution.Reader{Store: b.store, Objects: b.store}, Executions: failing{}})
	for key, want := range map[string]bool{"": false, "k": true} {
		meta := object{}
		if key != "" {
			meta["px/idempotencyKey"] = key
		}
		r := b.tool(ai+"user", name, object{"query": "x"}, meta)
		if r.Error.Code != -32603 || r.Error.Data.Retryable != want || r.Error.Data.Outcome != "unknown" {
			t.Errorf("under %q: %+v", key, r.Error)
		}
	}
}

// failing are executions whose rows cannot be written.
type failing struct{ door.Executions }

func (failing) Accept(context.Context, execution.Request) (host.Execution, error) {
	return host.Execution{}, context.DeadlineExceeded
}

// covers: W9
func TestTheModernListIsFreshForEachLook(t *testing.T) {
	b := newBench(t)
	b.install("one")
	const version = "2026-07-28"
	meta := object{"io.modelcontextprotocol/protocolVersion": version, "io.modelcontextprotocol/clientCapabilities": object{}}
	r := b.rpc(ai+"user", "tools/list", object{"_meta": meta}, "mcp-protocol-version", version, "mcp-method", "tools/list")
	if r.status != 200 || *r.Result.TTLMs != 0 || r.Result.CacheScope != "private" || len(r.Result.Tools) != 6 {
		t.Errorf("%+v", r)
	}
}
