package door_test

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pxhost/pxhost/shared/adapter/texttemplate"
	"github.com/pxhost/pxhost/shared/capability"
	"github.com/pxhost/pxhost/shared/capability/door"
	"github.com/pxhost/pxhost/shared/capability/execution"
	"github.com/pxhost/pxhost/shared/capability/host"
	"github.com/pxhost/pxhost/shared/capability/installation"
	"github.com/pxhost/pxhost/shared/capability/safeschema"
	"github.com/pxhost/pxhost/shared/connection"
	"github.com/pxhost/pxhost/shared/cursor"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/identity"
	"github.com/pxhost/pxhost/shared/outbound"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/store/memory"
	"github.com/pxhost/pxhost/shared/tool"
	"github.com/pxhost/pxhost/shared/wait"
	"github.com/pxhost/pxhost/shared/wire/route"
)

const (
	issuer = "https://issuer.test|"
	ai     = "px.tools "   // a token is "scope subject"
	person = "px.approve " // of a browser
)

// notes is a plugin with what the tests want of one.
const notes = `{"pluginKey":"acme.notes","version":"1.0.0","title":"노트","permissions":["storage","network","credentials"],
"settings_schema":{"type":"object","properties":{"lang":{"type":"string","enum":["ko","en"]}},"additionalProperties":false},
"connectors":[{"connector_id":"api","base_url":"https://api.example.com","auth":{"kind":"bearer"}}],
"capabilities":[
 {"id":"notes.tidy","kind":"skill","title":"정리","description":"Tidies a note.","permissions":[],"timeout_seconds":60,
  "input_schema":{"type":"object","properties":{"query":{"type":"string","maxLength":70000}},"required":["query"],"additionalProperties":false},
  "runtime":{"adapter":"text_template","template":"정리합니다: {query}"}},
 {"id":"notes.stored","kind":"tool","title":"저장","description":"d","permissions":["storage"],"timeout_seconds":60,"runtime":{"adapter":"text_template","template":"x"}},
 {"id":"notes.search","kind":"tool","title":"찾기","description":"d","permissions":["network","credentials"],"timeout_seconds":60,
  "runtime":{"adapter":"http_json","connector_id":"api","method":"GET"}}],
"slash_commands":[{"id":"notes.tidy_command","command":"tidy","title":"정리","description":"d","capability":"notes.tidy","argument_template":{"query":"{query}"}}]}`

func edited(manifest string, pairs ...string) string {
	return strings.NewReplacer(pairs...).Replace(manifest)
}

// A bench is a door over a store in memory.
type bench struct {
	testing.TB
	store  *counted
	desk   *execution.Desk
	runner *execution.Runner
	door   *route.Door
	log    bytes.Buffer
	// Of Connections, with the token URL that they ask.
	connections *connection.Service
	tokens      *tokens
	now         func() time.Time
	invoke      func(ctx context.Context, adapter capability.AdapterName, id string) error
	calls       atomic.Int32
}

// counted counts what is written.
type counted struct {
	*memory.Store
	writes atomic.Int32
}

func (c *counted) Put(ctx context.Context, space history.Space, bodies ...[]byte) error {
	c.writes.Add(1)
	return c.Store.Put(ctx, space, bodies...)
}

func (c *counted) Change(ctx context.Context, change host.Change) (int64, error) {
	c.writes.Add(1)
	return c.Store.Change(ctx, change)
}

func (c *counted) CreateExecution(ctx context.Context, e host.Execution) error {
	c.writes.Add(1)
	return c.Store.CreateExecution(ctx, e)
}

func (c *counted) Apply(ctx context.Context, s host.Step) error {
	c.writes.Add(1)
	return c.Store.Apply(ctx, s)
}

func (b *bench) Verify(_ context.Context, authorization, scope string) (identity.Token, error) {
	has, subject, ok := strings.Cut(strings.TrimPrefix(authorization, "Bearer "), " ")
	if !ok {
		return identity.Token{}, &identity.Error{Reason: identity.ReasonMissing}
	}
	if has != scope {
		return identity.Token{}, &identity.Error{Reason: identity.ReasonScope}
	}
	return identity.Token{Issuer: "https://issuer.test", Subject: subject, Scopes: []string{has}}, nil
}

func (b *bench) Call(ctx context.Context, c capability.Call) (capability.Result, error) {
	b.calls.Add(1)
	return texttemplate.Adapter{}.Call(ctx, c)
}

func (b *bench) Invoke(ctx context.Context, adapter capability.AdapterName, id string) error {
	return b.invoke(ctx, adapter, id)
}

func newBench(t testing.TB) *bench {
	b := &bench{TB: t, tokens: &tokens{}, now: func() time.Time { return time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC) }}
	b.build()
	return b
}

func (b *bench) build() {
	b.store = &counted{Store: memory.New(b.now)}
	reader := &execution.Reader{Store: b.store, Objects: b.store}
	schemas := new(safeschema.Cache)
	b.desk = &execution.Desk{Store: b.store, Objects: b.store, Workspaces: reader, Schemas: schemas, Invoke: b, Now: b.now, Patience: 20 * time.Second}
	b.runner = &execution.Runner{Store: b.store, Objects: b.store, Workspaces: reader, Schemas: schemas, Adapter: b, Now: b.now}
	b.invoke = func(ctx context.Context, _ capability.AdapterName, id string) error {
		return b.runner.Run(context.WithoutCancel(ctx), id)
	}
	b.connections = &connection.Service{Store: b.store, Keys: &dataKeys{}, Sender: b.tokens, Now: b.now, Sleep: wait.For}
	b.door = door.New(b, b.frame(), door.Host{Rows: b.store, Workspaces: reader, Executions: b.desk,
		Plugins:     &installation.Manager{Store: b.store, Objects: b.store, Workspaces: reader, Schemas: schemas, CheckURL: outbound.CheckURL, Now: b.now},
		Connections: &connection.Manager{Service: b.connections, Workspaces: reader}})
	b.member("manager", capability.Manage)
	b.member("user", capability.Use)
	b.member("second", capability.Use)
	b.store.writes.Store(0)
}

func (b *bench) frame() tool.Frame {
	return tool.Frame{Cursors: cursor.New(cursor.NewStatic(), time.Hour, b.now), Log: slog.New(slog.NewTextHandler(&b.log, nil))}
}

func (b *bench) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// member gives rights, which replace those that there were.
func (b *bench) member(subject string, rights ...capability.Right) {
	b.Helper()
	old, err := b.store.Member(b.Context(), "team", issuer+subject)
	b.must(err)
	old.Rights = rights
	_, err = b.store.Change(b.Context(), host.Change{Workspace: "team", Member: &host.Membership{Actor: issuer + subject, Member: old}})
	b.must(err)
}

// An answer is what came back.
type answer struct {
	status int
	header map[string]string
	body   string
	data   map[string]any
	found  []string // code and path of each diagnostic
	params []map[string]any
}

// told is the first diagnostic.
func (a answer) told() string {
	if len(a.found) == 0 {
		return ""
	}
	return a.found[0]
}

// text is a member of the data by its names.
func (a answer) text(names ...string) string {
	var v any = a.data
	for _, n := range names {
		m, _ := v.(map[string]any)
		v = m[n]
	}
	if v == nil {
		return ""
	}
	return fmt.Sprint(v)
}

// send sends a request. The variables of the key are filled from refs, in order; body is
// a text or what is encoded. Of a GET it is the query.
func (b *bench) send(as, key string, refs []string, body any, headers ...string) answer {
	b.Helper()
	text, err := b.door.Invoke(b.Context(), b.event(as, key, refs, body, headers...))
	b.must(err)
	return b.read(text)
}

// event is the event of a request.
func (b *bench) event(as, key string, refs []string, body any, headers ...string) []byte {
	b.Helper()
	method, path, _ := strings.Cut(key, " ")
	parameters := map[string]string{}
	for i, part := range strings.Split(path, "{")[1:] {
		name, _, _ := strings.Cut(part, "}")
		parameters[name] = refs[i]
	}
	head := map[string]string{"authorization": "Bearer " + as, "content-type": "application/json"}
	for i := 0; i < len(headers); i += 2 {
		head[headers[i]] = headers[i+1]
	}
	event := map[string]any{"version": "2.0", "routeKey": key, "rawPath": path, "pathParameters": parameters, "headers": head,
		"requestContext": map[string]any{"requestId": "r", "http": map[string]any{"method": method}}}
	switch body := body.(type) {
	case nil:
	case string:
		event["body"] = body
	case map[string]string:
		event["queryStringParameters"] = body
	default:
		text, err := json.Marshal(body)
		b.must(err)
		event["body"] = string(text)
	}
	payload, err := json.Marshal(event)
	b.must(err)
	return payload
}

// read reads the event's answer.
func (b *bench) read(text []byte) answer {
	b.Helper()
	var out struct {
		StatusCode int
		Headers    map[string]string
		Body       string
	}
	b.must(json.Unmarshal(text, &out))
	a := answer{status: out.StatusCode, header: out.Headers, body: out.Body}
	if out.Body != "" {
		var envelope struct {
			Data        map[string]any
			Diagnostics []struct {
				Code, Path, DiagnosticID string
				Params                   map[string]any
			}
		}
		b.must(json.Unmarshal([]byte(out.Body), &envelope))
		a.data = envelope.Data
		for _, d := range envelope.Diagnostics {
			if d.DiagnosticID == "" {
				b.Errorf("a diagnostic without an ID: %s", out.Body)
			}
			a.found = append(a.found, strings.TrimSpace(d.Code+" "+d.Path))
			a.params = append(a.params, d.Params)
		}
	}
	if a.header["cache-control"] != "no-store" || a.header["access-control-allow-origin"] != "" {
		b.Errorf("headers %v", a.header)
	}
	return a
}

type object = map[string]any

const (
	catalogKey = "GET /v1/capabilities"
	invokeKey  = "POST /v1/capabilities/{instanceId}/{capabilityId}/invoke"
	readKey    = "GET /v1/executions/{executionId}"
	cancelKey  = "POST /v1/executions/{executionId}/cancel"
	stopKey    = "POST /v1/capabilities/{instanceId}/{capabilityId}/cancel"
	slashKey   = "POST /v1/slash/resolve"
)

var team = map[string]string{"workspaceKey": "team"}

// files are a package of a manifest alone.
func files(manifest string) object { return object{"files": object{"manifest.json": manifest}} }

// zipped is the same as a zip in base64.
func zipped(files map[string]string) object {
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for name, text := range files {
		f, _ := w.Create(name)
		io.WriteString(f, text)
	}
	w.Close()
	return object{"zip": base64.StdEncoding.EncodeToString(out.Bytes())}
}

// install installs the notes and returns the instance's ID.
func (b *bench) install(key string, granted ...string) string {
	b.Helper()
	a := b.send(person+"manager", "POST /v1/plugins", nil, object{"workspaceKey": "team", "idempotencyKey": key, "package": files(notes), "granted": append([]string{}, granted...)})
	if a.status != 200 {
		b.Fatal(a.status, a.body)
	}
	return a.text("instanceId")
}

func call(surface, key, query string, generation int) object {
	out := object{"arguments": object{"query": query}, "surface": surface, "idempotencyKey": key}
	if generation > 0 {
		out["generation"] = generation
	}
	return out
}

// covers: C1, C2, C3
func TestOneCapabilityIsCalledFromAButtonAnAIAndASlashCommandUntilItIsSwitchedOff(t *testing.T) {
	b := newBench(t)
	before := b.send(ai+"user", catalogKey, nil, team)
	if n := len(before.data["capabilities"].([]any)); n != 0 {
		t.Fatal(before.body)
	}
	id := b.install("one")
	now := b.send(ai+"user", catalogKey, nil, team)
	if now.status != 200 || len(now.data["capabilities"].([]any)) != 3 || now.header["etag"] == before.header["etag"] {
		t.Fatal(now.status, now.header, now.body)
	}
	refs := []string{id, "notes.tidy"}
	first := b.send(person+"user", invokeKey, refs, call("ui", "k1", "메모", 1))
	if first.status != 200 || first.text("state") != "succeeded" || first.text("result", "data", "text") != "정리합니다: 메모" {
		t.Fatal(first.status, first.body)
	}
	found := b.send(ai+"user", slashKey, nil, object{"workspaceKey": "team", "text": "/tidy 메모"})
	if found.text("capabilityId") != "notes.tidy" || found.text("arguments", "query") != "메모" || found.text("generation") != "1" {
		t.Fatal(found.status, found.body)
	}
	for _, c := range []object{call("ai", "k1", "메모", 0), call("slash", "k1", "메모", 0), call("ui", "k1", "메모", 1)} {
		if again := b.send(ai+"user", invokeKey, refs, c); again.text("executionId") != first.text("executionId") || again.text("state") != "succeeded" {
			t.Errorf("%v: %s", c, again.body)
		}
	}
	if n := b.calls.Load(); n != 1 {
		t.Errorf("the adapter was called %d times for one key", n)
	}
	if a := b.send(ai+"user", invokeKey, refs, call("ai", "k1", "다른", 0)); a.status != 409 || a.told() != "PX_COMMAND_REUSED /idempotencyKey" {
		t.Error(a.status, a.body)
	}
	if a := b.send(ai+"user", invokeKey, refs, call("ai", "k2", "메모", 0)); a.text("executionId") == first.text("executionId") || a.text("state") != "succeeded" {
		t.Error(a.body)
	}
	if a := b.send(person+"manager", "POST /v1/plugins/{instanceId}/disable", []string{id}, object{"generation": 1}); a.status != 200 || a.text("enabled") != "false" || a.text("generation") != "2" {
		t.Fatal(a.body)
	}
	if a := b.send(ai+"user", invokeKey, refs, call("ai", "k3", "메모", 0)); a.status != 409 || a.told() != "EXTENSION_DISABLED" {
		t.Error(a.status, a.body)
	}
	// What was asked before is found by who asks again.
	if a := b.send(ai+"user", invokeKey, refs, call("ai", "k1", "메모", 0)); a.text("executionId") != first.text("executionId") {
		t.Error(a.body)
	}
	if a := b.send(ai+"user", catalogKey, nil, team); len(a.data["capabilities"].([]any)) != 0 {
		t.Error("what is switched off is still in the catalog")
	}
}

// covers: C2, C5
func TestEachReasonWhyACapabilityIsNotReadyHasItsOwnCode(t *testing.T) {
	for name, c := range map[string]struct {
		prepare    func(b *bench, id string)
		as         string
		capability string
		generation int
		surface    string
		status     int
		want       string
	}{
		"no such capability":             {nil, "user", "notes.none", 0, "ai", 404, "EXTENSION_NOT_FOUND"},
		"nobody of the workspace":        {nil, "stranger", "notes.tidy", 0, "ai", 404, "EXTENSION_NOT_FOUND"},
		"who manages and may not use":    {nil, "manager", "notes.tidy", 0, "ai", 404, "EXTENSION_NOT_FOUND"},
		"a permission that is not there": {nil, "user", "notes.stored", 0, "ai", 403, "EXTENSION_PERMISSION_DENIED"},
		"no connection":                  {nil, "user", "notes.search", 0, "ai", 409, "EXTENSION_CONNECTION_REQUIRED"},
		"switched off":                   {func(b *bench, id string) { b.manage(id, "disable", object{"generation": 1}) }, "user", "notes.tidy", 0, "ai", 409, "EXTENSION_DISABLED"},
		"another generation":             {nil, "user", "notes.tidy", 7, "ai", 409, "EXTENSION_VERSION_MISMATCH /generation"},
		"a screen that says none":        {nil, "user", "notes.tidy", 0, "ui", 400, "PX_SCHEMA_INVALID /generation"},
		"a call as the Host's own":       {nil, "user", "notes.tidy", 0, "background", 400, "PX_SCHEMA_INVALID /surface"},
		"removed":                        {func(b *bench, id string) { b.manage(id, "remove", object{"generation": 1}) }, "user", "notes.tidy", 0, "ai", 404, "EXTENSION_NOT_FOUND"},
		"for others alone": {func(b *bench, id string) {
			b.manage(id, "grant", object{"generation": 1, "actors": []string{issuer + "second"}})
		}, "user", "notes.tidy", 0, "ai", 404, "EXTENSION_NOT_FOUND"},
		"who lost the right to use": {func(b *bench, _ string) { b.member("user") }, "user", "notes.tidy", 0, "ai", 404, "EXTENSION_NOT_FOUND"},
		"a dependency that is not there": {func(b *bench, id string) {
			b.update(id, `"slash_commands"`, `"dependencies":[{"pluginKey":"acme.base","minimum":"1.0.0"}],"slash_commands"`)
		}, "user", "notes.tidy", 0, "ai", 409, "EXTENSION_DEPENDENCY_REQUIRED"},
		"arguments that do not fit": {func(b *bench, id string) { b.update(id, `"maxLength":70000`, `"maxLength":1`) }, "user", "notes.tidy", 0, "ai", 400, "EXTENSION_INPUT_INVALID /arguments"},
		"what was granted and taken back": {func(b *bench, id string) {
			b.manage(id, "grant", object{"generation": 1, "granted": []string{"storage"}})
			b.manage(id, "grant", object{"generation": 2, "granted": []string{}})
		}, "user", "notes.stored", 0, "ai", 403, "EXTENSION_PERMISSION_DENIED"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			granted := []string{}
			if c.capability == "notes.search" {
				granted = []string{"network", "credentials"}
			}
			id := b.install("one", granted...)
			if c.prepare != nil {
				c.prepare(b, id)
			}
			before := b.store.writes.Load()
			a := b.send(ai+c.as, invokeKey, []string{id, c.capability}, call(c.surface, "k", "secret", c.generation))
			if a.status != c.status || a.told() != c.want || strings.Contains(a.body, "secret") {
				t.Error(a.status, a.body)
			}
			if b.store.writes.Load() != before || b.calls.Load() != 0 {
				t.Error("something was written or called")
			}
		})
	}
}

// manage performs what a manager does.
func (b *bench) manage(id, verb string, body object) answer {
	b.Helper()
	a := b.send(person+"manager", "POST /v1/plugins/{instanceId}/"+verb, []string{id}, body)
	if a.status != 200 {
		b.Fatal(verb, a.status, a.body)
	}
	return a
}

// update puts the next version of the notes in place, with replacements in its manifest.
func (b *bench) update(id string, pairs ...string) answer {
	b.Helper()
	return b.manage(id, "update", object{"generation": 1, "package": files(edited(notes, append(pairs, `"1.0.0","title"`, `"1.1.0","title"`)...))})
}

// covers: C3
func TestACatalogTellsByItsETagThatItIsUnchanged(t *testing.T) {
	b := newBench(t)
	b.install("one")
	tag := b.send(ai+"user", catalogKey, nil, team).header["etag"]
	for has, want := range map[string]int{tag: 304, "W/" + tag: 304, `"x", ` + tag: 304, "*": 304, `"x"`: 200, strings.Trim(tag, `"`): 200} {
		if a := b.send(ai+"user", catalogKey, nil, team, "if-none-match", has); a.status != want || a.header["etag"] != tag || (want == 304) != (a.body == "") {
			t.Errorf("%s: %d %v", has, a.status, a.header)
		}
	}
	if a := b.send(ai+"stranger", catalogKey, nil, team, "if-none-match", tag); a.status != 403 || a.told() != "EXTENSION_PERMISSION_DENIED" {
		t.Error("a stranger is told of a generation", a.status, a.body)
	}
	b.member("third", capability.Use)
	if a := b.send(ai+"user", catalogKey, nil, team, "if-none-match", tag); a.status != 200 {
		t.Error("a change of rights goes unseen")
	}
}

// A screen is drawn of what the catalog says: its buttons call capabilities with the
// generation that stands beside them.
//
// covers: C2
func TestACatalogHasWhatAScreenShowsAndCalls(t *testing.T) {
	b := newBench(t)
	manifest := edited(notes, `"slash_commands"`, `"ui":{"data_sources":[{"id":"found","capability":"notes.stored"}],"invokes":[{"id":"go","label":"정리하기","capability":"notes.tidy","arguments":{"query":"메모"}}]},"slash_commands"`)
	id := b.send(person+"manager", installKey, nil, order("k", files(manifest))).text("instanceId")
	b.install("without a screen")
	screens := b.send(person+"user", catalogKey, nil, team).data["screens"].([]any)
	if len(screens) != 1 {
		t.Fatal(screens)
	}
	screen := screens[0].(object)
	button := screen["ui"].(object)["invokes"].([]any)[0].(object)
	a := b.send(person+"user", invokeKey, []string{screen["instanceId"].(string), button["capability"].(string)},
		object{"arguments": button["arguments"], "surface": "ui", "idempotencyKey": "k", "generation": screen["generation"]})
	if a.text("result", "data", "text") != "정리합니다: 메모" || button["label"] != "정리하기" {
		t.Error(a.status, a.body)
	}
	b.manage(id, "disable", object{"generation": 1})
	if left := b.send(person+"user", catalogKey, nil, team).data["screens"].([]any); len(left) != 0 {
		t.Error(left)
	}
}

// covers: C5
func TestACatalogTellsWhatIsMissingAndNoEmptyListToWhoMayNotUseIt(t *testing.T) {
	b := newBench(t)
	b.install("one", "network", "credentials")
	a := b.send(ai+"user", catalogKey, nil, team)
	ready := map[string]string{}
	for _, c := range a.data["capabilities"].([]any) {
		ready[c.(object)["capabilityId"].(string)] = c.(object)["ready"].(string)
	}
	if ready["notes.tidy"] != "READY" || ready["notes.stored"] != "EXTENSION_PERMISSION_DENIED" || ready["notes.search"] != "EXTENSION_CONNECTION_REQUIRED" {
		t.Error(ready)
	}
	for _, as := range []string{"manager", "stranger"} {
		if a := b.send(ai+as, catalogKey, nil, team); a.status != 403 || a.told() != "EXTENSION_PERMISSION_DENIED" || a.params[0]["right"] != "use" {
			t.Error(as, a.status, a.body)
		}
	}
}

func TestAnExecutionIsSeenByWhoseItIsAlone(t *testing.T) {
	b := newBench(t)
	id := b.install("one")
	first := b.send(ai+"user", invokeKey, []string{id, "notes.tidy"}, call("ai", "k", "메모", 0))
	refs := []string{first.text("executionId")}
	if a := b.send(person+"user", readKey, refs, nil); a.status != 200 || a.text("result", "summary") == "" {
		t.Error(a.status, a.body)
	}
	for _, as := range []string{"second", "manager", "stranger"} {
		for _, key := range []string{readKey, cancelKey} {
			var body any
			if key == cancelKey {
				body = object{}
			}
			if a := b.send(ai+as, key, refs, body); a.status != 404 || a.told() != "EXTENSION_NOT_FOUND" {
				t.Error(as, key, a.status, a.body)
			}
		}
	}
	// The same key of another actor is another execution.
	if a := b.send(ai+"second", invokeKey, []string{id, "notes.tidy"}, call("ai", "k", "메모", 0)); a.text("executionId") == refs[0] || a.status != 200 {
		t.Error(a.body)
	}
}

// A caller waits 20 seconds. What takes longer goes on without him.
//
// covers: C6
func TestACallThatTakesLongerThanTwentySecondsIsAccepted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{TB: t, now: time.Now}
		b.build()
		id := b.install("one")
		b.invoke = func(ctx context.Context, _ capability.AdapterName, id string) error {
			go func() {
				time.Sleep(30 * time.Second)
				b.runner.Run(context.WithoutCancel(ctx), id)
			}()
			<-ctx.Done()
			return ctx.Err()
		}
		began := time.Now()
		a := b.send(ai+"user", invokeKey, []string{id, "notes.tidy"}, call("ai", "k", "메모", 0))
		if waited := time.Since(began); a.status != 202 || a.text("state") != "running" || waited != 20*time.Second {
			t.Fatal(a.status, a.body, waited)
		}
		refs := []string{a.text("executionId")}
		if a := b.send(ai+"user", readKey, refs, nil); a.status != 202 || a.text("state") != "running" || a.data["result"] != nil {
			t.Error(a.status, a.body)
		}
		time.Sleep(15 * time.Second)
		if a := b.send(ai+"user", readKey, refs, nil); a.status != 200 || a.text("result", "data", "text") != "정리합니다: 메모" {
			t.Error(a.status, a.body)
		}
	})
}

// Of a function that died nobody waits to hear: what is to become of the execution is
// told later.
func TestNobodyWaitsForAFunctionThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{TB: t, tokens: &tokens{}, now: time.Now}
		b.build()
		id := b.install("one")
		b.invoke = func(context.Context, capability.AdapterName, string) error {
			return fmt.Errorf("it died: %w", execution.ErrGone)
		}
		began := time.Now()
		if a := b.send(ai+"user", invokeKey, []string{id, "notes.tidy"}, call("ai", "k", "메모", 0)); a.status != 202 || a.text("state") != "running" || time.Since(began) > time.Second {
			t.Error(a.status, a.body, time.Since(began))
		}
	})
}

// Who stops a chat has only what was sent: the answer that names the execution is not
// there yet.
//
// covers: X2
func TestACallThatIsWaitedForIsStoppedByItsKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{TB: t, now: time.Now}
		b.build()
		b.member("other", capability.Use)
		id := b.install("one")
		refs, key := []string{id, "notes.tidy"}, object{"idempotencyKey": "k"}
		b.invoke = func(ctx context.Context, _ capability.AdapterName, _ string) error { <-ctx.Done(); return ctx.Err() }
		if a := b.send(ai+"user", stopKey, refs, key); a.told() != "EXTENSION_NOT_FOUND" || a.status != 404 {
			t.Error("before it was asked for:", a.status, a.body)
		}
		var answer answer
		done := make(chan struct{})
		go func() {
			defer close(done)
			answer = b.send(ai+"user", invokeKey, refs, call("ai", "k", "메모", 0))
		}()
		time.Sleep(time.Second)
		for who, key := range map[string]object{"other": key, "user": {"idempotencyKey": "another"}} {
			if a := b.send(ai+who, stopKey, refs, key); a.told() != "EXTENSION_NOT_FOUND" {
				t.Error(who, a.status, a.body)
			}
		}
		if a := b.send(ai+"user", stopKey, refs, key); a.status != 200 || a.text("state") != "cancelled" || a.text("executionId") == "" {
			t.Error(a.status, a.body)
		}
		<-done
		if answer.status != 200 || answer.text("state") != "cancelled" || b.calls.Load() != 0 {
			t.Error(answer.status, answer.body, b.calls.Load())
		}
	})
}

// covers: C6
func TestWhatWasNotBegunIsCancelledAndIsNotPerformedAnyMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{TB: t, now: time.Now}
		b.build()
		id := b.install("one")
		b.invoke = func(ctx context.Context, _ capability.AdapterName, _ string) error { <-ctx.Done(); return ctx.Err() }
		a := b.send(ai+"user", invokeKey, []string{id, "notes.tidy"}, call("ai", "k", "메모", 0))
		refs := []string{a.text("executionId")}
		for range 2 {
			if a := b.send(ai+"user", cancelKey, refs, object{}); a.status != 200 || a.text("state") != "cancelled" || a.data["failure"] != nil {
				t.Error(a.status, a.body)
			}
		}
		b.must(b.runner.Run(t.Context(), refs[0]))
		if a := b.send(ai+"user", readKey, refs, nil); a.text("state") != "cancelled" || b.calls.Load() != 0 {
			t.Error(a.body, b.calls.Load())
		}
		// Who asks again under the same key is told the same.
		if a := b.send(ai+"user", invokeKey, []string{id, "notes.tidy"}, call("ai", "k", "메모", 0)); a.text("executionId") != refs[0] || a.text("state") != "cancelled" {
			t.Error(a.body)
		}
	})
}

// covers: C6
func TestAFailureOfAnExecutionIsDataWithItsCode(t *testing.T) {
	b := newBench(t)
	id := b.install("one")
	b.invoke = func(ctx context.Context, _ capability.AdapterName, executionID string) error {
		b.manage(id, "disable", object{"generation": 1}) // between the check and the work
		return b.runner.Run(context.WithoutCancel(ctx), executionID)
	}
	a := b.send(ai+"user", invokeKey, []string{id, "notes.tidy"}, call("ai", "k", "secret", 0))
	if a.status != 200 || a.text("state") != "failed" || a.text("failure", "code") != "EXTENSION_DISABLED" || a.text("failure", "suggestedAction") != "ENABLE_EXTENSION" || a.text("failure", "retryable") != "false" ||
		a.data["result"] != nil || strings.Contains(a.body, "secret") || len(a.found) != 0 {
		t.Error(a.status, a.body)
	}
}

// A result that is larger than an answer may be comes in parts that say so, and the rest
// of it calls nothing.
//
// covers: B2
func TestALargeResultComesInPartsAndIsNotCutInSilence(t *testing.T) {
	b := newBench(t)
	id := b.install("one")
	b.update(id, `"template":"정리합니다: {query}"`, `"template":"`+strings.Repeat("{query}", 10)+`"`)
	query := strings.Repeat("가나다", 20_000) // 180 KB
	body := call("ai", "k", query, 0)
	whole, parts := "", 0
	for {
		a := b.send(ai+"user", invokeKey, []string{id, "notes.tidy"}, body)
		if a.status != 200 {
			t.Fatal(a.status, a.body[:200])
		}
		if len(a.body) > 5<<20 {
			t.Error(len(a.body))
		}
		whole += a.text("result", "data", "text")
		parts++
		next, _ := a.data["truncation"].(object)
		if next == nil {
			break
		}
		body["cursor"] = next["continuation"].(object)["value"]
	}
	if parts < 2 || whole != strings.Repeat(query, 10) || b.calls.Load() != 1 {
		t.Errorf("%d parts of %d bytes, %d calls", parts, len(whole), b.calls.Load())
	}
	// And in the same parts to who reads it.
	execution := b.send(ai+"user", invokeKey, []string{id, "notes.tidy"}, call("ai", "k", query, 0)).text("executionId")
	a := b.send(ai+"user", readKey, []string{execution}, nil)
	rest := b.send(ai+"user", readKey, []string{execution}, map[string]string{"cursor": a.data["truncation"].(object)["continuation"].(object)["value"].(string)})
	if got := a.text("result", "data", "text") + rest.text("result", "data", "text"); !strings.HasPrefix(whole, got) || len(got) <= len(a.text("result", "data", "text")) {
		t.Error("the parts do not go on", rest.status)
	}
}

// covers: C7, C8
func TestASlashCommandIsFoundInTheCatalogOfNow(t *testing.T) {
	b := newBench(t)
	one := b.install("one")
	resolve := func(as string, body object) answer {
		body["workspaceKey"] = "team"
		return b.send(ai+as, slashKey, nil, body)
	}
	if a := resolve("user", object{"text": "/TIDY  메모 둘"}); a.text("instanceId") != one || a.text("arguments", "query") != "메모 둘" {
		t.Error(a.status, a.body)
	}
	two := b.install("two")
	a := resolve("user", object{"text": "/tidy 메모"})
	if a.status != 409 || a.told() != "SLASH_COMMAND_AMBIGUOUS" || len(a.params[0]["candidates"].([]any)) != 2 {
		t.Error(a.status, a.body)
	}
	choice := object{"text": "메모", "instanceId": two, "commandId": "notes.tidy_command"}
	if a := resolve("user", choice); a.text("instanceId") != two || a.text("capabilityId") != "notes.tidy" {
		t.Error(a.status, a.body)
	}
	b.manage(two, "remove", object{"generation": 1})
	for _, body := range []object{choice, {"text": "/none x"}, {"text": "메모"}} {
		if a := resolve("user", body); a.status != 404 || a.told() != "SLASH_COMMAND_UNAVAILABLE" {
			t.Error(body, a.status, a.body)
		}
	}
	if a := resolve("stranger", object{"text": "/tidy x"}); a.status != 404 || a.told() != "SLASH_COMMAND_UNAVAILABLE" {
		t.Error(a.status, a.body)
	}
	for at, body := range map[string]object{"/instanceId": {"text": "x", "commandId": "c"}, "/commandId": {"text": "x", "instanceId": "i"}} {
		if a := resolve("user", body); a.status != 400 || a.told() != "PX_SCHEMA_INVALID "+at {
			t.Error(a.status, a.body)
		}
	}
}

func TestNotificationsAreThoseOfAnActor(t *testing.T) {
	b := newBench(t)
	id := b.install("one")
	first := b.send(ai+"user", invokeKey, []string{id, "notes.tidy"}, call("ai", "k", "메모", 0))
	e := host.Execution{ExecutionID: "exec_n", Workspace: "team", InstanceID: id, State: host.Running}
	b.must(b.store.CreateExecution(t.Context(), e))
	e.Version = 1
	n := host.Notification{NotificationID: "n1", Workspace: "team", Actor: issuer + "user", InstanceID: id, Key: "k", At: b.now(), Title: "복습", Text: "3장"}
	b.must(b.store.Apply(t.Context(), host.Step{Execution: e, Schedule: []host.Notification{n}}))
	if a := b.send(person+"user", "GET /v1/notifications", nil, team); a.status != 200 || len(a.data["notifications"].([]any)) != 0 {
		t.Error("one that was not delivered is told", a.body, first.status)
	}
	n.Version, n.DeliveredAt = 1, b.now()
	b.must(b.store.Deliver(t.Context(), n))
	if a := b.send(person+"user", "GET /v1/notifications", nil, team); len(a.data["notifications"].([]any)) != 1 || !strings.Contains(a.body, "복습") {
		t.Error(a.body)
	}
	// What may not be told any more says why, and no more than that.
	e = host.Execution{ExecutionID: "exec_m", Workspace: "team", InstanceID: id, State: host.Running}
	b.must(b.store.CreateExecution(t.Context(), e))
	e.Version = 1
	withheld := host.Notification{NotificationID: "n2", Workspace: "team", Actor: issuer + "user", InstanceID: id, Key: "k", At: b.now(), Title: "t"}
	b.must(b.store.Apply(t.Context(), host.Step{Execution: e, Schedule: []host.Notification{withheld}}))
	withheld.Version, withheld.DeliveredAt, withheld.Title, withheld.Withheld = 1, b.now(), "", outcome.ExtensionDisabled
	b.must(b.store.Deliver(t.Context(), withheld))
	if a := b.send(person+"user", "GET /v1/notifications", nil, team); len(a.data["notifications"].([]any)) != 2 || !strings.Contains(a.body, `"title":"","at":"2026-11-30T09:00:00Z","deliveredAt":"2026-11-30T09:00:00Z","withheld":"EXTENSION_DISABLED"`) {
		t.Error(a.body)
	}
	if a := b.send(person+"second", "GET /v1/notifications", nil, team); len(a.data["notifications"].([]any)) != 0 {
		t.Error("another's is told", a.body)
	}
	if a := b.send(person+"stranger", "GET /v1/notifications", nil, team); a.status != 403 {
		t.Error(a.status, a.body)
	}
}

// covers: U6
func TestOnlyAPersonsTokenManages(t *testing.T) {
	b := newBench(t)
	b.member("user", capability.Use, capability.Manage)
	id := b.install("one")
	before := b.store.writes.Load()
	for _, key := range b.door.Routes() {
		if !strings.Contains(key, "/v1/plugins") || strings.HasSuffix(key, "/validate") {
			continue
		}
		var body any = object{"generation": 1}
		if strings.HasPrefix(key, "GET") {
			body = nil
		}
		if a := b.send(ai+"user", key, []string{id}, body); a.status != 403 || !strings.Contains(a.header["www-authenticate"], "insufficient_scope") {
			t.Error(key, a.status, a.body)
		}
	}
	if b.store.writes.Load() != before {
		t.Error("something was written")
	}
	for _, as := range []string{"", "px.other user"} {
		if a := b.send(as, catalogKey, nil, team); a.status != 401 && a.status != 403 {
			t.Error(as, a.status)
		}
	}
}

// Whatever comes as a body is answered, is no fault of the machinery, and calls nothing
// that it does not name.
func FuzzACall(f *testing.F) {
	for _, seed := range []string{`{}`, `{"arguments":{"query":"q"},"surface":"ai","idempotencyKey":"k"}`, `{"arguments":{"query":"q"},"surface":"ui","idempotencyKey":"k","generation":1}`,
		`{"arguments":[],"surface":"ai","idempotencyKey":"k"}`, `{"arguments":{"query":"\ud800"},"surface":"ai","idempotencyKey":"k"}`, `{"arguments":{"query":1e400},"surface":"ai","idempotencyKey":"k"}`,
		`{"arguments":{"__proto__":{}},"surface":"ai","idempotencyKey":"k"}`, `{"surface":"ai","idempotencyKey":"\u0000","arguments":{}}`, `{"cursor":"x","arguments":{},"surface":"ai","idempotencyKey":"k"}`, `[`, "\xff", `{"instanceId":"x"}`, `{"workspaceKey":"team","text":"/tidy x"}`,
		`{"workspaceKey":"team","idempotencyKey":"k","package":{"files":{"manifest.json":"{}"}}}`, `{"package":{"zip":"UEsFBgAAAAAAAAAAAAAAAAAAAAAAAA=="}}`, `{"generation":1,"granted":["storage"],"everyone":true}`, `{"generation":9007199254740993}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		b := newBench(t)
		b.member("user", capability.Use, capability.Manage)
		id := b.install("one")
		for _, key := range b.door.Routes() {
			if !strings.HasPrefix(key, "POST") || strings.Contains(key, "/connections") {
				continue
			}
			refs := []string{id, "notes.tidy"}
			if strings.Contains(key, "{executionId}") {
				refs = []string{"exec_none"}
			}
			if a := b.send(person+"user", key, refs, body); a.status >= 500 || a.status == 200 && key == cancelKey {
				t.Errorf("%s %q: %d %s", key, body, a.status, a.body)
			}
		}
		if b.calls.Load() > 1 {
			t.Errorf("%q called %d times", body, b.calls.Load())
		}
	})
}
