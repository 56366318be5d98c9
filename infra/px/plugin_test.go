package main

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pxhost/pxhost/infra/local/oidc"
	"github.com/pxhost/pxhost/infra/local/statedir"
	"github.com/pxhost/pxhost/infra/sample"
	"github.com/pxhost/pxhost/infra/sample/plugins"
	"github.com/pxhost/pxhost/shared/adapter/calendarstore"
	"github.com/pxhost/pxhost/shared/adapter/texttemplate"
	"github.com/pxhost/pxhost/shared/capability"
	hostdoor "github.com/pxhost/pxhost/shared/capability/door"
	"github.com/pxhost/pxhost/shared/capability/execution"
	"github.com/pxhost/pxhost/shared/capability/host"
	"github.com/pxhost/pxhost/shared/capability/installation"
	"github.com/pxhost/pxhost/shared/capability/safeschema"
	"github.com/pxhost/pxhost/shared/connection"
	"github.com/pxhost/pxhost/shared/cursor"
	"github.com/pxhost/pxhost/shared/identity"
	"github.com/pxhost/pxhost/shared/outbound"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/store/memory"
	"github.com/pxhost/pxhost/shared/tool"
	"github.com/pxhost/pxhost/shared/wait"
)

// A pluginHost is a capability host as a person meets it: real tokens, the real door,
// and rows in memory.
type pluginHost struct {
	*door
	store *memory.Store
	desk  *execution.Desk
	run   map[capability.AdapterName]*execution.Runner
	late  bool // adapters are not reached
}

const team = "structural_team"

func openPlugins(t *testing.T) *pluginHost {
	t.Helper()
	h := &pluginHost{door: &door{state: t.TempDir()}, store: memory.New(time.Now)}
	dir, err := statedir.Open(h.state)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dir.Close() })
	if h.key, err = oidc.Open(dir); err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h.front == nil || !h.front(w, r) {
			mux.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	h.url = server.URL
	verifier, err := identity.New(identity.Config{Issuer: h.url, Audience: oidc.Audience, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	reader, schemas := &execution.Reader{Store: h.store, Objects: h.store}, new(safeschema.Cache)
	h.desk = &execution.Desk{Store: h.store, Objects: h.store, Workspaces: reader, Schemas: schemas, Invoke: h, Now: time.Now, Patience: 50 * time.Millisecond}
	h.run = map[capability.AdapterName]*execution.Runner{}
	for name, adapter := range map[capability.AdapterName]capability.Adapter{capability.TextTemplate: texttemplate.Adapter{}, capability.CalendarStore: calendarstore.New(h.store, time.Now)} {
		h.run[name] = &execution.Runner{Store: h.store, Objects: h.store, Workspaces: reader, Schemas: schemas, Adapter: adapter, Now: time.Now}
	}
	served := hostdoor.New(verifier, tool.Frame{Cursors: cursor.New(cursor.NewStatic(), time.Hour, time.Now), Log: slog.New(slog.DiscardHandler)}, hostdoor.Host{
		Rows: h.store, Workspaces: reader, Executions: h.desk,
		Plugins:     &installation.Manager{Store: h.store, Objects: h.store, Workspaces: reader, Schemas: schemas, CheckURL: outbound.CheckURL, Now: time.Now},
		Connections: &connection.Manager{Workspaces: reader, Service: &connection.Service{Store: h.store, Keys: plainKeys{}, Sender: outbound.New(), Now: time.Now, Sleep: wait.For}},
	})
	mux.Handle("/", h.key.Handler(h.url))
	for _, route := range served.Routes() {
		mux.HandleFunc(route, func(w http.ResponseWriter, r *http.Request) { forward(w, r, route, served.Invoke) })
	}
	if err := dir.WriteHost(statedir.Host{URL: h.url}); err != nil {
		t.Fatal(err)
	}
	for subject, rights := range sample.PluginRights {
		if _, err := setMember(t.Context(), h.store, team, h.url+"|"+subject, rights); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

// plainKeys wrap nothing: what is sealed is package connection's to show.
type plainKeys struct{}

func (plainKeys) Generate(context.Context, map[string]string) (plain, wrapped []byte, err error) {
	key := bytes.Repeat([]byte{7}, 32)
	return key, bytes.Clone(key), nil
}

func (plainKeys) Unwrap(_ context.Context, wrapped []byte, _ map[string]string) ([]byte, error) {
	return bytes.Clone(wrapped), nil
}

// forward makes the event that API Gateway makes of a request of a route.
func forward(w http.ResponseWriter, r *http.Request, route string, invoke func(context.Context, []byte) ([]byte, error)) {
	body, _ := io.ReadAll(r.Body)
	headers, path, query := map[string]string{}, map[string]string{}, map[string]string{}
	for name := range r.Header {
		headers[strings.ToLower(name)] = r.Header.Get(name)
	}
	for name := range r.URL.Query() {
		query[name] = r.URL.Query().Get(name)
	}
	for part := range strings.SplitSeq(route, "/") {
		if name := strings.Trim(part, "{}"); name != part {
			path[name] = r.PathValue(name)
		}
	}
	event, _ := json.Marshal(map[string]any{"version": "2.0", "routeKey": route, "rawPath": r.URL.Path, "rawQueryString": r.URL.RawQuery, "headers": headers, "pathParameters": path,
		"queryStringParameters": query, "body": string(body), "isBase64Encoded": false,
		"requestContext": map[string]any{"requestId": "request", "http": map[string]any{"method": r.Method, "path": r.URL.Path}}})
	answer, err := invoke(r.Context(), event)
	var out struct {
		StatusCode int
		Headers    map[string]string
		Body       string
	}
	if err != nil || json.Unmarshal(answer, &out) != nil {
		http.Error(w, fmt.Sprint(err), http.StatusInternalServerError)
		return
	}
	for name, value := range out.Headers {
		w.Header().Set(name, value)
	}
	w.WriteHeader(out.StatusCode)
	io.WriteString(w, out.Body)
}

// Invoke runs the adapter in this process.
func (h *pluginHost) Invoke(ctx context.Context, adapter capability.AdapterName, id string) error {
	if h.late {
		return nil
	}
	return h.run[adapter].Run(context.WithoutCancel(ctx), id)
}

// says runs a command line that must end with a code and print the texts, in either
// stream.
func (h *pluginHost) says(t *testing.T, code int, line []string, texts ...string) string {
	t.Helper()
	got, out, errs := h.px(t, strings.NewReader(""), line...)
	if got != code {
		t.Fatalf("px %s: exit %d, want %d\n%s%s", strings.Join(line, " "), got, code, out, errs)
	}
	for _, text := range texts {
		if !strings.Contains(out+errs, text) {
			t.Fatalf("px %s does not say %q:\n%s%s", strings.Join(line, " "), text, out, errs)
		}
	}
	return out
}

// folder writes a sample plugin into a folder.
func folder(t *testing.T, name string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), name)
	if err := os.CopyFS(to, plugins.Files(name)); err != nil {
		t.Fatal(err)
	}
	return to
}

func words(line string) []string { return strings.Fields(line) }

// The whole life of a plugin, each step by its command.
//
// covers: C2, C3, C5, C7, C8
func TestAPluginIsInstalledCalledAndRemoved(t *testing.T) {
	h := openPlugins(t)
	dir := folder(t, "study_calendar")
	h.says(t, 0, words("plugin list --workspace "+team), "nothing is installed in structural_team; px install DIR")
	h.says(t, 1, words("install "+dir+" --workspace "+team+" --as engineer"), "EXTENSION_PERMISSION_DENIED", "px workspace grant WORKSPACE --to SUBJECT --rights manage")
	out := h.says(t, 0, words("install "+dir+" --workspace "+team+" --grant storage --key one"), "study.calendar 1.0.0", "enabled", "not granted: notifications; px plugin grant inst_")
	id := words(out)[0]
	if again := h.says(t, 0, words("install "+dir+" --workspace "+team+" --grant storage --key one")); words(again)[0] != id {
		t.Errorf("the same key is another instance: %s", again)
	}
	h.says(t, 0, words("plugin list --workspace "+team), id, "study.schedule.save", "일정 저장")
	h.says(t, 0, words("capabilities --workspace "+team), id+" study.schedule.save", "[EXTENSION_PERMISSION_DENIED]", "/study")

	h.says(t, 0, append(words("invoke "+id+" study.schedule.save"), `{"itemId": "exam", "title": "시험", "at": "2026-12-14T09:00:00+09:00"}`), `"state": "succeeded"`, `"exam"`)
	h.says(t, 1, append(words("invoke "+id+" study.schedule.save"), `{"title": "시험"}`), "EXTENSION_INPUT_INVALID", "px capabilities --workspace WORKSPACE --json shows the inputSchema")
	h.says(t, 1, append(words("invoke "+id+" study.schedule.reminder"), `{"itemId": "exam"}`), "EXTENSION_PERMISSION_DENIED", "px plugin grant inst_")
	h.says(t, 1, append(words("invoke "+id+" study.schedule.get"), `{"itemId": "exam"}`, "--as", "viewer"), "EXTENSION_")
	h.says(t, 1, words("invoke "+id+" no.such"), "EXTENSION_NOT_FOUND", "px capabilities --workspace WORKSPACE lists what you may call")
	h.says(t, 1, append(words("invoke "+id+" study.schedule.get"), `{"itemId": "none"}`), "the execution is failed")
	h.says(t, 1, append(words("invoke "+id+" study.schedule.save"), `{"itemId": "exam", "title": "시험", "at": "2026-12-15T09:00:00+09:00"}`), "PLUGIN_STORAGE_CONFLICT", "read it, then call again under another --key")
	h.says(t, 2, append(words("invoke "+id+" study.schedule.get"), `[]`), "it is no JSON object")

	h.says(t, 0, words("plugin grant "+id+" --grant all"), "generation 2")
	h.says(t, 0, append(words("invoke "+id+" study.schedule.reminder"), `{"itemId": "exam"}`), `"state": "succeeded"`)
	h.says(t, 1, words("plugin grant "+id+" --grant storage --generation 1"), "EXTENSION_VERSION_MISMATCH", "px plugin show INSTANCE")
	h.says(t, 2, words("plugin grant "+id), "grant names something")
	h.says(t, 2, words("plugin grant "+id+" --grant files"), `"files" is no permission: all, none, network`)
	h.says(t, 0, words("plugin grant "+id+" --grant none"), "generation 3", "not granted: notifications, storage")
	h.says(t, 2, words("plugin grant "+id+" --actors engineer"), `"engineer" is no ISSUER|SUBJECT`)
	h.says(t, 0, words("plugin grant "+id+" --grant all --actors "+h.url+"|engineer"), "only for: "+h.url+"|engineer; px plugin grant "+id+" --everyone", "granted: notifications, storage")
	h.says(t, 1, append(words("invoke "+id+" study.schedule.get --as reviewer"), `{"itemId": "exam"}`), "EXTENSION_NOT_FOUND")
	if out := h.says(t, 0, words("plugin grant "+id+" --everyone")); strings.Contains(out, "only for") {
		t.Error(out)
	}

	h.says(t, 0, []string{"slash", "/study 거더 검토", "--workspace", team, "--resolve"}, `"capabilityId": "study.request.format"`, "거더 검토")
	h.says(t, 0, []string{"slash", "/study 거더 검토", "--workspace", team}, `"surface": "slash"`, "요청을 다음 형식으로 정리합니다: 거더 검토")
	h.says(t, 1, []string{"slash", "/none x", "--workspace", team}, "SLASH_COMMAND_UNAVAILABLE", "px capabilities")

	h.says(t, 0, words("plugin disable "+id), "disabled", "px plugin enable "+id+" enables it")
	h.says(t, 1, append(words("invoke "+id+" study.schedule.get"), `{"itemId": "exam"}`), "EXTENSION_DISABLED", "px plugin enable inst_")
	h.says(t, 0, words("plugin enable "+id), "enabled")
	h.says(t, 0, words("plugin show "+id+" --json"), `"instanceId": "`+id+`"`, `"enabled": true`)

	// An update is another package of the plugin.
	manifest := filepath.Join(dir, "manifest.json")
	text, err := os.ReadFile(manifest)
	if err == nil {
		err = os.WriteFile(manifest, bytes.Replace(text, []byte(`"version": "1.0.0"`), []byte(`"version": "1.1.0"`), 1), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	h.says(t, 0, words("plugin update "+id+" "+dir), "study.calendar 1.1.0")
	h.says(t, 0, words("plugin remove "+id), id+" is removed")
	h.says(t, 1, append(words("invoke "+id+" study.schedule.get"), `{"itemId": "exam"}`), "EXTENSION_NOT_FOUND")
	h.says(t, 2, words("plugin list"), "--workspace names the workspace")
	h.says(t, 2, words("plugin frobnicate x"), "list, or one of show, update")
}

// What is missing of another plugin is told as it is mended.
//
// covers: C5
func TestADependencyIsInstalledUpdatedOrEnabled(t *testing.T) {
	h := openPlugins(t)
	write := func(dir, key, version, more string) string {
		t.Helper()
		text := fmt.Sprintf(`{"pluginKey": %q, "version": %q, "title": "t", %s "capabilities": [{"id": "%s.run", "kind": "skill", "title": "t", "description": "d", "permissions": [], "timeout_seconds": 5, "runtime": {"adapter": "text_template", "template": "x"}}]}`, key, version, more, key)
		if err := os.WriteFile(filepath.Join(dir, "manifest.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	needs := write(t.TempDir(), "needs", "1.0.0", `"dependencies": [{"pluginKey": "base", "minimum": "1.2.0"}],`)
	run := words("invoke " + words(h.says(t, 0, words("install "+needs+" --workspace "+team)))[0] + " needs.run")
	h.says(t, 1, run, "EXTENSION_DEPENDENCY_REQUIRED", "install that plugin first")
	dir := write(t.TempDir(), "base", "1.1.0", "")
	base := words(h.says(t, 0, words("install "+dir+" --workspace "+team)))[0]
	h.says(t, 1, run, "a version from 1.2.0 to below the next major one", "px plugin update")
	h.says(t, 0, words("plugin update "+base+" "+write(dir, "base", "1.3.0", "")))
	h.says(t, 0, words("plugin disable "+base))
	h.says(t, 1, run, "a manager enables that plugin")
	h.says(t, 0, words("plugin enable "+base))
	h.says(t, 0, run, `"state": "succeeded"`)
}

// covers: C8
func TestTwoPluginsWithOneCommandAreChosenFrom(t *testing.T) {
	h := openPlugins(t)
	for range 2 {
		h.says(t, 0, words("install "+folder(t, "study_calendar")+" --workspace "+team+" --grant all"))
	}
	h.says(t, 1, []string{"slash", "/study x", "--workspace", team}, "SLASH_COMMAND_AMBIGUOUS", "inst_", "--instance INSTANCE --command COMMAND_ID")
	var catalog capability.Catalog
	if err := json.Unmarshal([]byte(h.says(t, 0, words("capabilities --json --workspace "+team))), &catalog); err != nil {
		t.Fatal(err)
	}
	id := catalog.Commands[0].InstanceID
	h.says(t, 2, []string{"slash", "/study x", "--workspace", team, "--instance", id}, "--instance and --command choose a command together")
	h.says(t, 0, []string{"slash", "/study x", "--workspace", team, "--instance", id, "--command", "study.request.format_command"}, `"instanceId": "`+id+`"`, `"state": "succeeded"`)
}

// A key is one execution, and what is not over can be asked after and stopped.
//
// covers: C5
func TestAnExecutionIsFollowedAndCancelled(t *testing.T) {
	h := openPlugins(t)
	id := words(h.says(t, 0, words("install "+folder(t, "study_calendar")+" --workspace "+team+" --grant all")))[0]
	h.late = true
	line := append(words("invoke "+id+" study.request.format --key mine"), `{"query": "x"}`)
	out := h.says(t, exitUnknown, line, `"state": "running"`, "it runs still: px execution get exec_")
	var e hostdoor.Execution
	if err := json.Unmarshal([]byte(out), &e); err != nil {
		t.Fatal(err)
	}
	h.says(t, exitUnknown, words("execution get "+e.ExecutionID), `"state": "running"`)
	h.says(t, 1, words("execution get "+e.ExecutionID+" --as reviewer"), "EXTENSION_NOT_FOUND", "another principal's")
	h.late = false
	time.AfterFunc(50*time.Millisecond, func() {
		if err := h.Invoke(context.Background(), capability.TextTemplate, e.ExecutionID); err != nil {
			t.Error(err)
		}
	})
	h.says(t, 0, words("execution get "+e.ExecutionID+" --wait 20s"), `"state": "succeeded"`, "정리합니다: x")
	h.says(t, 0, line, e.ExecutionID, `"state": "succeeded"`)
	h.says(t, 1, append(words("invoke "+id+" study.request.format --key mine"), `{"query": "y"}`), "PX_COMMAND_REUSED", "take another key")

	h.late = true
	json.Unmarshal([]byte(h.says(t, exitUnknown, append(words("invoke "+id+" study.request.format --key other"), `{"query": "x"}`))), &e)
	h.says(t, 0, words("execution cancel "+e.ExecutionID), `"state": "cancelled"`)
	h.says(t, 1, words("execution get "+e.ExecutionID), "the execution is cancelled")
	h.says(t, 2, words("execution stop "+e.ExecutionID), "get or cancel")
}

// Who gets no answer is told how to find out what became of it; who calls again by that
// key calls once.
func TestACallWithoutAnAnswerNamesItsKey(t *testing.T) {
	h := openPlugins(t)
	dir := folder(t, "study_calendar")
	id := words(h.says(t, 0, words("install "+dir+" --workspace "+team+" --grant all")))[0]
	h.front = func(w http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "/invoke") || r.Method == http.MethodPost && r.URL.Path == "/v1/plugins" {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				conn.Close()
			}
			return true
		}
		return false
	}
	h.says(t, exitUnknown, append(words("invoke "+id+" study.request.format --key mine"), `{"query": "x"}`), "the same with --key mine does it once")
	h.says(t, exitUnknown, words("install "+dir+" --workspace "+team), "the same with --key px-")
}

// A result of many parts is printed whole.
func TestALongResultIsPrintedWhole(t *testing.T) {
	h := openPlugins(t)
	id := words(h.says(t, 0, words("install "+folder(t, "study_calendar")+" --workspace "+team+" --grant all")))[0]
	for n := range 150 {
		h.says(t, 0, append(words("invoke "+id+" study.schedule.save"), fmt.Sprintf(`{"title": "일정 %03d", "at": "2026-12-14T09:00:00+09:00", "note": %q}`, n, strings.Repeat("긴 메모 ", 200))))
	}
	var e hostdoor.Execution
	if err := json.Unmarshal([]byte(h.says(t, 0, append(words("invoke "+id+" study.schedule.list"), `{"limit": 150}`))), &e); err != nil {
		t.Fatal(err)
	}
	var data struct {
		Items []struct{ Title, Note string }
	}
	if err := json.Unmarshal(e.Result.Data, &data); err != nil || len(data.Items) != 150 {
		t.Fatalf("%d items, %v", len(data.Items), err)
	}
	for n, i := range data.Items {
		if i.Note != strings.TrimSpace(strings.Repeat("긴 메모 ", 200)) && i.Note != strings.Repeat("긴 메모 ", 200) {
			t.Fatalf("item %d has a note of %d bytes", n, len(i.Note))
		}
	}
}

func TestNotificationsArePrinted(t *testing.T) {
	h := openPlugins(t)
	at := time.Date(2026, 12, 14, 0, 0, 0, 0, time.UTC)
	e := host.Execution{ExecutionID: "exec_x", Workspace: team, InstanceID: "inst_x", State: host.Running}
	if err := h.store.CreateExecution(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	e.Version = 1
	n := host.Notification{NotificationID: "note_x", Workspace: team, Actor: h.url + "|engineer", InstanceID: "inst_x", Key: "exam", At: at, Title: "강구조 시험\u202e", Text: "계산기"}
	if err := h.store.Apply(t.Context(), host.Step{Execution: e, Schedule: []host.Notification{n}}); err != nil {
		t.Fatal(err)
	}
	n.Version, n.DeliveredAt = 1, at
	if err := h.store.Deliver(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	h.says(t, 0, words("notifications --workspace "+team), at.Local().Format(time.DateTime), `강구조 시험\u{202e}`, "  계산기")
	h.says(t, 0, words("notifications --json --workspace "+team), `"notificationId": "note_x"`)
	e, n = host.Execution{ExecutionID: "exec_y", Workspace: team, InstanceID: "inst_y", State: host.Running}, host.Notification{NotificationID: "note_y", Workspace: team, Actor: n.Actor, InstanceID: "inst_y", At: at, Title: "s3cret"}
	if err := h.store.CreateExecution(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	if e.Version = 1; h.store.Apply(t.Context(), host.Step{Execution: e, Schedule: []host.Notification{n}}) != nil {
		t.Fatal("it is not scheduled")
	}
	n.Version, n.DeliveredAt, n.Withheld = 1, at, outcome.ExtensionDisabled
	if err := h.store.Deliver(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	h.says(t, 0, words("notifications --workspace "+team), "withheld: EXTENSION_DISABLED of inst_y")
	if out := h.says(t, 0, words("notifications --as reviewer --workspace "+team)); out != "" {
		t.Errorf("another's: %s", out)
	}
	h.says(t, 1, words("notifications --as viewer --workspace "+team), "EXTENSION_PERMISSION_DENIED", "--rights use")
}

// A secret goes in by a file, and comes out nowhere.
//
// covers: A3
func TestConnectionsAreMadeAndRemoved(t *testing.T) {
	h := openPlugins(t)
	id := words(h.says(t, 0, words("install "+folder(t, "workspace_notes")+" --workspace "+team+" --grant all"), "connector workspace_api takes a credential: bearer; px connection create inst_"))[0]
	h.says(t, 0, words("install "+folder(t, "research_mcp")+" --workspace "+team+" --grant all"), " research_mcp --secret FILE --redirect URL")
	h.says(t, 1, words("connection remove conn_none"), "EXTENSION_NOT_FOUND", "px connection list --workspace WORKSPACE lists them")
	h.says(t, 1, append(words("invoke "+id+" workspace.notes.search"), `{"query": "x"}`), "EXTENSION_CONNECTION_REQUIRED", "px connection create "+id+" workspace_api --secret FILE")
	secret := filepath.Join(t.TempDir(), "secret.json")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(secret, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(`{"token": "s3cret"`)
	if _, out, errs := h.px(t, nil, "connection", "create", id, "workspace_api", "--secret", secret); strings.Contains(out+errs, "s3cret") || !strings.Contains(errs, "the secret is no JSON object") {
		t.Errorf("it says %s%s", out, errs)
	}
	write(`{"token": "s3cret"}`)
	h.says(t, 1, words("connection create "+id+" workspace_api --as engineer --secret "+secret), "EXTENSION_PERMISSION_DENIED")
	made := words(h.says(t, 0, words("connection create "+id+" workspace_api --secret "+secret), "is live"))[0]
	h.says(t, 0, words("capabilities --workspace "+team), "workspace.notes.search  노트 검색  [READY]", "workspace.notes.ask  노트에 묻기  [EXTENSION_CONNECTION_REQUIRED]")
	if out := h.says(t, 0, words("connection list --workspace "+team), made, `"connectorId": "workspace_api"`); strings.Contains(out, "s3cret") {
		t.Errorf("the secret comes out: %s", out)
	}
	write(`{"token": "another"}`)
	h.says(t, 1, words("connection create "+id+" workspace_api --secret "+secret), "PX_COMMAND_REUSED", "px connection rotate "+made+" --secret FILE")
	h.says(t, 0, words("connection rotate "+made+" --secret "+secret), "is live")
	h.says(t, 0, words("connection remove "+made), made+" is removed")
	h.says(t, 0, words("capabilities --workspace "+team), "workspace.notes.search  노트 검색  [EXTENSION_CONNECTION_REQUIRED]")

	mcp := words(h.says(t, 0, words("install "+folder(t, "research_mcp")+" --workspace "+team+" --grant all")))[0]
	write(`{"clientId": "px"}`)
	out := h.says(t, 0, words("connection create "+mcp+" research_mcp --own --redirect https://px.example.com/back --secret "+secret), "is pending", "https://research.example.com/oauth/authorize?")
	h.says(t, 0, words("connection authorize "+words(out)[0]+" --redirect https://px.example.com/back"), "https://research.example.com/oauth/authorize?")
	h.says(t, 1, words("connection complete https://px.example.com/back?state=none&code=x"), "EXTENSION_")
	h.says(t, 2, words("connection complete https://px.example.com/back"), "?state=")
	h.says(t, 2, words("connection create "+id+" workspace_api"), "--secret names the file")
	h.says(t, 2, words("connection steal x"), "list, create INSTANCE CONNECTOR")
}

// An AI's token manages nothing.
func TestATokenOfAnAIInstallsNothing(t *testing.T) {
	h := openPlugins(t)
	token, err := h.key.Token(h.url, "reviewer", oidc.ScopeTools, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	install := words("install " + folder(t, "study_calendar") + " --workspace " + team)
	h.says(t, exitNoHost, append(install, "--approve-token", token), "HTTP status 403", "has to have the scope px.approve", "PX_APPROVE_TOKEN")
	// What is refused at the door was not done.
	for _, line := range [][]string{append(install, "--approve-token", token), append(install, "--approve-token", "x"), words("invoke inst_x a.b --token x"), append(install, "--url", "http://127.0.0.1:1")} {
		code, out, errs := h.px(t, strings.NewReader(""), line...)
		if code != exitNoHost || strings.Contains(errs, "may have been done") || strings.Count(errs, "\n") < 2 {
			t.Errorf("px %s: %d %s%s", strings.Join(line, " "), code, out, errs)
		}
	}
}

// covers: C4
func TestAPackageIsJudgedWithoutAHost(t *testing.T) {
	h := &pluginHost{door: &door{state: t.TempDir()}} // of which there is none
	for _, name := range plugins.Names() {
		dir := folder(t, name)
		out := h.says(t, 0, words("validate "+dir), "is valid\nsha256:", "nobody signed it")
		// The same package as a zip is the same.
		var archive bytes.Buffer
		w := zip.NewWriter(&archive)
		err := w.AddFS(plugins.Files(name))
		if err == nil {
			err = w.Close()
		}
		if err == nil {
			err = os.WriteFile(dir+".zip", archive.Bytes(), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		if zipped := h.says(t, 0, words("validate "+dir+".zip")); zipped != out {
			t.Errorf("as a zip %s is\n%s\nnot\n%s", name, zipped, out)
		}
		p, _, err := readPackage(dir)
		if err != nil {
			t.Fatal(err)
		}
		own, err := zipped(p)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(dir+".own.zip", own, 0o600); err != nil {
			t.Fatal(err)
		}
		h.says(t, 0, words("validate "+dir+".own.zip"), strings.SplitN(out, "\n", 3)[1])
	}

	dir := folder(t, "study_calendar")
	text, err := fs.ReadFile(plugins.Files("study_calendar"), "manifest.json")
	if err != nil {
		t.Fatal(err)
	}
	text = bytes.Replace(text, []byte(`"timeout_seconds": 10`), []byte(`"timeout_seconds": 301`), 1)
	text = bytes.Replace(text, []byte(`"operation": "list"`), []byte(`"operation": "wipe"`), 1)
	if err := os.WriteFile(filepath.Join(dir, "manifest.json"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	h.says(t, 1, words("validate "+dir), `PX_SCHEMA_INVALID at "/manifest.json/capabilities/0/timeout_seconds" {`, `PX_SCHEMA_INVALID at "/manifest.json/capabilities/1/runtime/operation" {`, "findings: 2; ", "shared/capability/README.md")
	var judged struct {
		Valid    bool
		Findings []outcome.Diagnostic
	}
	if err := json.Unmarshal([]byte(h.says(t, 1, words("validate --json "+dir))), &judged); err != nil || judged.Valid || len(judged.Findings) != 2 {
		t.Errorf("%+v %v", judged, err)
	}
	// What is not valid is not sent.
	h.says(t, 1, words("install "+dir+" --workspace "+team), "nothing was sent", "/manifest.json/capabilities/0/timeout_seconds", "px validate")
	if err := os.WriteFile(filepath.Join(dir, "notes.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	h.says(t, 1, words("validate "+dir), `at "/notes.txt" {"rule":"file_of_package"}`, `PX_SCHEMA_INVALID at "/manifest.json/capabilities/0/timeout_seconds" {`, "findings: 3; ")
	h.says(t, 1, words("install "+dir+" --workspace "+team), "nothing was sent", `at "/notes.txt"`, "/manifest.json/capabilities/0/timeout_seconds")
	h.says(t, 2, words("validate "+filepath.Join(dir, "none")), "no such file")
	h.says(t, 1, words("validate "+filepath.Join(dir, "notes.txt")), `{"rule":"zip"}`)
	h.says(t, 2, words("validate"), "one folder or zip")
}

// Of two operators who write at once, neither is lost on the way.
func TestRightsAreReplacedWhoeverElseDoesSo(t *testing.T) {
	s := memory.New(time.Now)
	race := racing{Store: s, actor: "i|a"}
	if _, err := setMember(t.Context(), &race, team, "i|a", []capability.Right{capability.Use}); err != nil {
		t.Fatal(err)
	}
	m, err := s.Member(t.Context(), team, "i|a")
	if err != nil || m.Version != 2 || !m.Allows(capability.Use) || m.Allows(capability.Manage) {
		t.Errorf("%+v %v", m, err)
	}
	h := &pluginHost{door: &door{state: t.TempDir()}}
	h.says(t, 2, words("workspace grant "+team+" --to engineer --rights use,own"), `"own" is no right: use, manage`)
	h.says(t, 2, words("workspace grant "+team), "--to names whom to grant")
	h.says(t, 2, words("workspace grant Structural/Team --to x"), "a workspace")
	h.says(t, 1, words("workspace grant "+team+" --to engineer --rights use"), "start px local first")
}

// racing lets another write between a reading and the first write.
type racing struct {
	*memory.Store
	actor string
	done  bool
}

func (r *racing) Change(ctx context.Context, c host.Change) (int64, error) {
	if !r.done {
		r.done = true
		if _, err := r.Store.Change(ctx, host.Change{Workspace: team, Member: &host.Membership{Actor: r.actor, Member: capability.Member{Rights: []capability.Right{capability.Manage}}}}); err != nil {
			return 0, err
		}
	}
	return r.Store.Change(ctx, c)
}

// What only a developer can mend is not told to a manager.
func TestTheNextStepIsOfWhoCanTakeIt(t *testing.T) {
	for params, want := range map[*outcome.Params]string{
		{"right": "use"}: "an operator grants it",
		{"permission": "storage", "instanceId": "inst_1"}:    "px plugin grant inst_1 --grant storage",
		{"permission": "storage", "reason": "not_asked_for"}: "developer adds storage",
		{"rule": "not_public"}:                               "developer",
		{}:                                                   "px plugin show",
	} {
		if got := nextStep(outcome.ExtensionPermissionDenied, *params); !strings.Contains(got, want) || (want == "developer" && strings.Contains(got, "px plugin")) {
			t.Errorf("%v: %s", *params, got)
		}
	}
}
