package plugins

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io/fs"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/pxhost/pxhost/shared/adapter/calendarstore"
	"github.com/pxhost/pxhost/shared/adapter/httpjson"
	"github.com/pxhost/pxhost/shared/adapter/texttemplate"
	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/capability"
	"github.com/pxhost/pxhost/shared/capability/execution"
	"github.com/pxhost/pxhost/shared/capability/host"
	"github.com/pxhost/pxhost/shared/capability/installation"
	"github.com/pxhost/pxhost/shared/capability/packaging"
	"github.com/pxhost/pxhost/shared/capability/safeschema"
	"github.com/pxhost/pxhost/shared/capability/slash"
	"github.com/pxhost/pxhost/shared/outbound"
	"github.com/pxhost/pxhost/shared/store/memory"
)

var names = []string{"repository_search", "research_mcp", "study_calendar", "text_analyzer", "workspace_notes"}

func read(t *testing.T, name string) packaging.Package {
	t.Helper()
	p, findings := packaging.Files(Files(name))
	if findings != nil {
		t.Fatal(name, findings)
	}
	return p
}

// covers: C1, C4
func TestTheSamplePluginsAreValid(t *testing.T) {
	if got := Names(); !slices.Equal(got, names) {
		t.Fatal(got)
	}
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		m, findings := (&installation.Manager{CheckURL: outbound.CheckURL}).Judge(read(t, name))
		for _, f := range findings {
			t.Errorf("%s: %s at %s %v", name, f.Code, f.Path, f.Params)
		}
		if strings.ReplaceAll(m.PluginKey, ".", "_") != name {
			t.Errorf("%s is of the plugin %s", name, m.PluginKey)
		}
		if !strings.Contains(string(readme), "| `"+name+"` |") {
			t.Errorf("the README has no line for %s", name)
		}
		// The folder and what is embedded of it are one package.
		folder, findings := packaging.Files(os.DirFS(name))
		embedded, err := read(t, name).Digest()
		if got, err2 := folder.Digest(); findings != nil || err != nil || err2 != nil || got != embedded {
			t.Errorf("%s: the folder has more than is embedded: %v", name, findings)
		}
	}
}

// examples are the declarations of the contract, as they stand there.
var examples = map[string]string{
	"study_calendar/study.request.format":    `{"adapter": "text_template", "template": "요청을 다음 형식으로 정리합니다: {query}"}`,
	"study_calendar/study.schedule.reminder": `{"adapter": "calendar_store", "operation": "reminder", "namespace": "study.schedule"}`,
	"workspace_notes/workspace.notes.ask":    `{"adapter": "http_json", "connector_id": "notes_api", "method": "POST", "request_body": {"query": "{query}"}, "response": {"summary_path": "message", "data_path": "data"}}`,
	"repository_search/repository.search.find": `{"adapter": "http_json", "endpoint": "https://api.github.com/search/repositories?per_page=2&sort=stars", "method": "GET",
		"request_params": {"q": "{query}", "page": "{arguments.page}"},
		"response": {"collection_path": "items", "id_path": "id", "title_paths": ["full_name"], "url_path": "html_url", "content_paths": ["description"], "max_items": 2, "summary_prefix": "저장소 검색"}}`,
	"research_mcp/research.search": `{"adapter": "mcp_http", "connector_id": "research_mcp", "tool_name": "search", "protocol_version": "2025-11-25", "argument_template": {"query": "{query}"}}`,
	"workspace_notes/workspace.notes.search": `{"id": "workspace.notes.search", "kind": "tool", "title": "노트 검색", "description": "연결한 서비스에서 노트를 검색합니다.", "permissions": ["network", "credentials"], "timeout_seconds": 10,
		"input_schema": {"type": "object", "properties": {"query": {"type": "string"}}, "additionalProperties": false},
		"output_schema": {"type": "object", "properties": {"items": {"type": "array", "items": {"type": "object"}}}, "required": ["items"]},
		"runtime": {"adapter": "http_json", "connector_id": "workspace_api", "method": "GET"}}`,
	"workspace_notes/workspace.notes.search_command": `{"id": "workspace.notes.search_command", "command": "notes", "title": "노트 검색", "description": "연결한 서비스에서 노트를 검색합니다.", "capability": "workspace.notes.search", "argument_template": {}}`,
}

// covers: A1, A2, A3, A7, C7
func TestTheSamplePluginsHoldTheExamplesOfTheContract(t *testing.T) {
	for place, want := range examples {
		name, id, _ := strings.Cut(place, "/")
		var m struct {
			Capabilities []canon.Raw `json:"capabilities"`
			Commands     []canon.Raw `json:"slash_commands"`
		}
		text, err := fs.ReadFile(Files(name), "manifest.json")
		if err == nil {
			err = json.Unmarshal(text, &m)
		}
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, one := range append(m.Capabilities, m.Commands...) {
			var is struct {
				ID      string    `json:"id"`
				Runtime canon.Raw `json:"runtime"`
			}
			if err := json.Unmarshal(one, &is); err != nil || is.ID != id {
				continue
			}
			if !strings.HasPrefix(want, `{"id"`) {
				one = is.Runtime
			}
			a, _ := canon.Canonicalize(one)
			b, err := canon.Canonicalize([]byte(want))
			if found = true; err != nil || string(a) != string(b) {
				t.Errorf("%s is\n%s\nnot\n%s", place, a, b)
			}
		}
		if !found {
			t.Errorf("there is no %s", place)
		}
	}
	// The entrypoint of the contract is a file of the package.
	if p := read(t, "text_analyzer"); p.Sources["src/analyze.py"] == "" {
		t.Error("there is no src/analyze.py")
	}
}

const (
	team = "structural_team"
	who  = "https://issuer.test|engineer"
)

// world is a capability host in this process.
type world struct {
	*testing.T
	store   *memory.Store
	desk    *execution.Desk
	manager *installation.Manager
	runners map[capability.AdapterName]*execution.Runner
	calls   int
}

func (w *world) Invoke(ctx context.Context, adapter capability.AdapterName, id string) error {
	return w.runners[adapter].Run(context.WithoutCancel(ctx), id)
}

type noCredentials struct{}

func (noCredentials) Bearer(context.Context, capability.Call) (string, error) { return "", nil }
func (noCredentials) Refused(context.Context, capability.Call, string) error  { return nil }

func open(t *testing.T, client *outbound.Client) *world {
	w := &world{T: t, store: memory.New(time.Now)}
	reader, schemas := &execution.Reader{Store: w.store, Objects: w.store}, new(safeschema.Cache)
	w.desk = &execution.Desk{Store: w.store, Objects: w.store, Workspaces: reader, Schemas: schemas, Invoke: w, Now: time.Now, Patience: 5 * time.Second}
	w.manager = &installation.Manager{Store: w.store, Objects: w.store, Workspaces: reader, Schemas: schemas, CheckURL: outbound.CheckURL, Now: time.Now}
	w.runners = map[capability.AdapterName]*execution.Runner{}
	for name, adapter := range map[capability.AdapterName]capability.Adapter{
		capability.TextTemplate:  texttemplate.Adapter{},
		capability.CalendarStore: calendarstore.New(w.store, time.Now),
		capability.HTTPJSON:      httpjson.Adapter{Sender: client, Credentials: noCredentials{}, Sleep: func(context.Context, time.Duration) error { return nil }},
	} {
		w.runners[name] = &execution.Runner{Store: w.store, Objects: w.store, Workspaces: reader, Schemas: schemas, Adapter: adapter, Now: time.Now}
	}
	_, err := w.store.Change(t.Context(), host.Change{Workspace: team, Member: &host.Membership{Actor: who, Member: capability.Member{Rights: []capability.Right{capability.Use, capability.Manage}}}})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// install installs a sample with all that it asks for.
func (w *world) install(name string) string {
	w.Helper()
	p := read(w.T, name)
	m, _ := w.manager.Judge(p)
	plugin, findings, err := w.manager.Install(w.Context(), installation.Order{Actor: who, Workspace: team, Key: name, Package: p, Granted: m.Permissions, Enabled: true})
	if findings != nil || err != nil {
		w.Fatal(findings, err)
	}
	return plugin.InstanceID
}

// call performs a capability that must succeed, and returns its result.
func (w *world) call(instance, id, arguments string) capability.Result {
	w.Helper()
	w.calls++
	e, err := w.desk.Accept(w.Context(), execution.Request{Actor: who, InstanceID: instance, CapabilityID: id, Arguments: canon.Raw(arguments), Surface: "ai", Key: fmt.Sprint(w.calls)})
	if err == nil {
		e, err = w.desk.Wait(w.Context(), e)
	}
	if err != nil || e.State != host.Succeeded {
		w.Fatalf("%s: %s %s %v, %v", id, e.State, e.Code, e.Params, err)
	}
	r, err := w.desk.Result(w.Context(), e)
	if err != nil {
		w.Fatal(err)
	}
	return r
}

// github is a stand-in of GitHub's search, over HTTPS, and a client that takes it for it.
func github(t *testing.T, answer http.HandlerFunc) *outbound.Client {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	of := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "stand-in"}, DNSNames: []string{"api.github.com"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, of, of, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(answer)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	server.StartTLS()
	t.Cleanup(server.Close)
	roots := x509.NewCertPool()
	roots.AddCert(cert)
	return outbound.NewWith(outbound.Exceptions{Hosts: map[string]string{"api.github.com": server.Listener.Addr().String()}, Roots: roots}, nil)
}

// covers: A4, A5, A6
func TestRepositoriesAreFound(t *testing.T) {
	var asked []url.Values
	w := open(t, github(t, func(out http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/search/repositories" || r.Method != http.MethodGet || r.Header.Get("Authorization") != "" {
			http.NotFound(out, r)
			return
		}
		asked = append(asked, r.URL.Query())
		out.Header().Set("Content-Type", "application/json")
		fmt.Fprint(out, `{"total_count": 3, "items": [
			{"id": 1, "full_name": "a/girder", "html_url": "https://github.com/a/girder", "description": "거더"},
			{"id": 2, "full_name": "b/girder", "html_url": "https://github.com/b/girder", "description": null},
			{"id": 3, "full_name": "c/girder", "html_url": "https://github.com/c/girder", "description": "one too many"}]}`)
	}))
	instance := w.install("repository_search")
	r := w.call(instance, "repository.search.find", `{"query": "girder & co", "page": 2}`)
	w.call(instance, "repository.search.find", `{"query": "girder"}`)
	w.call(instance, "repository.search.provider", `{"query": "girder"}`)
	for i, want := range []url.Values{
		{"per_page": {"2"}, "sort": {"stars"}, "q": {"girder & co"}, "page": {"2"}},
		{"per_page": {"2"}, "sort": {"stars"}, "q": {"girder"}},
		{"per_page": {"2"}, "sort": {"stars"}, "q": {"girder"}},
	} {
		if i >= len(asked) || asked[i].Encode() != want.Encode() {
			t.Fatalf("request %d is %v, want %v", i, asked, want)
		}
	}
	var data struct {
		Items []struct{ Title, URL string }
	}
	if err := json.Unmarshal(r.Data, &data, json.MatchCaseInsensitiveNames(true)); err != nil || len(data.Items) != 2 || data.Items[0].Title != "a/girder" || data.Items[1].URL != "https://github.com/b/girder" {
		t.Errorf("%s: %v", r.Data, err)
	}
	if !strings.HasPrefix(r.Summary, "저장소 검색") {
		t.Errorf("%q", r.Summary)
	}
}

// covers: A1, A2, C7
func TestTheStudyCalendarKeepsAndReminds(t *testing.T) {
	w := open(t, outbound.New())
	instance := w.install("study_calendar")
	w.call(instance, "study.schedule.save", `{"itemId": "exam", "title": "강구조 시험", "at": "2026-12-14T09:00:00+09:00", "note": "계산기"}`)
	w.call(instance, "study.schedule.reminder", `{"itemId": "exam", "remindAt": "2026-12-13T20:00:00+09:00"}`)
	at := time.Date(2026, 12, 13, 11, 0, 0, 0, time.UTC)
	due := func() int {
		t.Helper()
		n, err := w.store.DueNotifications(t.Context(), at, 10)
		if err != nil {
			t.Fatal(err)
		}
		return len(n)
	}
	if due() != 1 {
		t.Fatal("there is no reminder")
	}
	if r := w.call(instance, "study.schedule.list", `{"query": "강구조"}`); !strings.Contains(string(r.Data), "강구조 시험") {
		t.Errorf("%s", r.Data)
	}
	w.call(instance, "study.schedule.get", `{"itemId": "exam"}`)
	w.call(instance, "study.schedule.cancel_reminder", `{"itemId": "exam"}`)
	if due() != 0 {
		t.Error("the reminder stays")
	}
	w.call(instance, "study.schedule.reminder", `{"itemId": "exam", "remindAt": "2026-12-13T20:00:00+09:00"}`)
	w.call(instance, "study.schedule.delete", `{"itemId": "exam"}`)
	if due() != 0 {
		t.Error("the reminder of what is gone stays")
	}
	// What is typed is what is called.
	space, err := w.desk.Workspaces.Read(t.Context(), team)
	if err != nil {
		t.Fatal(err)
	}
	member, err := w.store.Member(t.Context(), team, who)
	if err != nil {
		t.Fatal(err)
	}
	found, err := slash.Resolve(space.Catalog(member, who), slash.Choice{Text: "/study 거더를 복습한다"})
	if err != nil {
		t.Fatal(err)
	}
	if r := w.call(found.InstanceID, found.CapabilityID, string(found.Arguments)); r.Summary != "요청을 다음 형식으로 정리합니다: 거더를 복습한다" {
		t.Errorf("%q", r.Summary)
	}
}

// The analyzer does what its schema says, in the machine's own Python: what the sandbox
// does with it is the sandbox's.
func TestTheAnalyzerCounts(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("there is no python3")
		}
		t.Skip("there is no python3")
	}
	source := read(t, "text_analyzer").Sources["src/analyze.py"]
	run := exec.CommandContext(t.Context(), python, "-I", "-c", source+`
import json, sys
print(json.dumps(main(json.load(sys.stdin))))`)
	run.Stdin = strings.NewReader(`{"arguments": {"text": "Steel bends. Steel does not break! 거더는 휜다.", "top": 2}, "settings": {}, "storage": {"text.analyses": {"last": {"value": {"words": 3, "sentences": 1}, "version": 1}}}}`)
	out, err := run.Output()
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Summary  string      `json:"summary"`
		Data     canon.Raw   `json:"data"`
		Evidence []canon.Raw `json:"evidence"`
		Actions  []canon.Raw `json:"actions"`
	}
	if err := json.Unmarshal(out, &got, json.RejectUnknownMembers(true)); err != nil {
		t.Fatal(err)
	}
	m, _ := (&installation.Manager{CheckURL: outbound.CheckURL}).Judge(read(t, "text_analyzer"))
	schema, err := safeschema.Compile(m.Capabilities[0].OutputSchema)
	if err != nil {
		t.Fatal(err)
	}
	if violations, err := schema.Validate(got.Data); err != nil || violations != nil {
		t.Errorf("%s: %v %v", got.Data, violations, err)
	}
	want := `{"frequent":[{"count":2,"word":"steel"},{"count":1,"word":"bends"}],"sentences":3,"since":5,"words":8}`
	if data, _ := canon.Canonicalize(got.Data); string(data) != want || got.Summary == "" || len(got.Evidence) != 2 || len(got.Actions) != 1 {
		t.Errorf("%s", out)
	}
}
