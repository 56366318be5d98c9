package acceptance

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pxhost/pxhost/infra/acceptance/outside/standin"
	"github.com/pxhost/pxhost/shared/boot/plugins"
	"github.com/pxhost/pxhost/shared/capability"
	rows "github.com/pxhost/pxhost/shared/capability/host"
)

// buildOutside builds the program that stands for the functions which call outside, once.
var buildOutside = sync.OnceValues(func() (string, error) {
	program := filepath.Join(built, "outside")
	return program, standin.Build(program)
})

// A sent is a request as a stand-in got it.
type sent struct {
	host, method, uri, body string
	header                  http.Header
}

// An outerWorld is a host whose plugins call stand-ins on this machine: every service outside
// is the one HTTPS server, told apart by the name by which it is called.
type outerWorld struct {
	*host
	t       *testing.T
	dir     string
	site    string
	server  *httptest.Server
	mu      sync.Mutex
	seen    []sent
	answers map[string]http.HandlerFunc // by host and path
	actor   string
	id      string // of the instance
	n       int
}

// The names of the stand-ins. Nobody vouches for the stranger.
const (
	notesHost    = "api.notes-test.com"
	authHost     = "auth.notes-test.com"
	mcpHost      = "mcp.notes-test.com"
	githubHost   = "api.github.com"
	researchHost = "research.example.com" // of the sample
	strangerHost = "stranger.notes-test.com"
	closedHost   = "closed.notes-test.com"
)

// startWorld starts a host. names are what further names resolve to.
func startWorld(t *testing.T, names map[string][]string, flags ...string) *outerWorld {
	t.Helper()
	program, err := buildOutside()
	if err != nil {
		t.Fatal(err)
	}
	w := &outerWorld{t: t, answers: map[string]http.HandlerFunc{}}
	certificate, roots, err := standin.Vouch(notesHost, authHost, mcpHost, githubHost, researchHost)
	if err != nil {
		t.Fatal(err)
	}
	w.server = httptest.NewUnstartedServer(http.HandlerFunc(w.serve))
	w.server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	w.server.Config.ErrorLog = log.New(io.Discard, "", 0)
	w.server.StartTLS()
	t.Cleanup(w.server.Close)
	stranger := httptest.NewUnstartedServer(http.NotFoundHandler())
	stranger.Config.ErrorLog = log.New(io.Discard, "", 0)
	stranger.StartTLS()
	t.Cleanup(stranger.Close)
	closed := httptest.NewServer(nil)
	closed.Close()

	dir := t.TempDir()
	w.dir, w.site = dir, filepath.Join(dir, "site")
	at := w.server.Listener.Addr().String()
	if err := standin.Site(w.site, built, program, standin.Configuration{Names: names, Roots: roots, Hosts: map[string]string{notesHost: at, authHost: at, mcpHost: at, githubHost: at, researchHost: at,
		strangerHost: stranger.Listener.Addr().String(), closedHost: closed.Listener.Addr().String()}}); err != nil {
		t.Fatal(err)
	}
	w.host = startAt(t, dir, w.site, flags...)
	w.actor = w.URL + "|engineer"
	w.member(t, "engineer", capability.Use, capability.Manage)
	return w
}

// member gives rights in the workspace team.
func (w *outerWorld) member(t *testing.T, subject string, rights ...capability.Right) {
	t.Helper()
	env := w.environmentOf(t, "capability_api")
	store := plugins.New(env).Store()
	if err := env.Err(); err != nil {
		t.Fatal(err)
	}
	old, err := store.Member(t.Context(), "team", w.URL+"|"+subject)
	if err == nil {
		old.Rights = rights
		_, err = store.Change(t.Context(), rows.Change{Workspace: "team", Member: &rows.Membership{Actor: w.URL + "|" + subject, Member: old}})
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (w *outerWorld) serve(out http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	w.mu.Lock()
	w.seen = append(w.seen, sent{r.Host, r.Method, r.URL.RequestURI(), string(body), r.Header})
	answer := w.answers[r.Host+r.URL.Path]
	w.mu.Unlock()
	if answer == nil {
		http.NotFound(out, r)
		return
	}
	answer(out, r)
}

// on has a stand-in answer.
func (w *outerWorld) on(place string, answer http.HandlerFunc) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answers[place] = answer
}

// taken returns what was sent to a place, and forgets it.
func (w *outerWorld) taken(place string) []sent {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []sent
	w.seen = slices.DeleteFunc(w.seen, func(s sent) bool {
		path, _, _ := strings.Cut(s.uri, "?")
		if s.host+path != place {
			return false
		}
		out = append(out, s)
		return true
	})
	return out
}

func says(status int, body string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		io.WriteString(w, body)
	}
}

// install installs a plugin with all that it asks for.
func (w *outerWorld) install(manifest m) {
	w.t.Helper()
	text := encode(w.t, manifest)
	status, _, e := w.decide(w.t, w.person("engineer"), "POST", "/v1/plugins", encode(w.t, m{"workspaceKey": "team", "idempotencyKey": "install", "package": m{"files": m{"manifest.json": text}}, "granted": manifest["permissions"]}))
	var made struct{ InstanceID string }
	if err := json.Unmarshal(e.Data, &made); status != 200 || err != nil {
		w.t.Fatalf("%d %+v %v", status, e, err)
	}
	w.id = made.InstanceID
}

// person is the token of a person's browser, once.
func (w *outerWorld) person(as string) string {
	w.t.Helper()
	w.host.mu.Lock()
	defer w.host.mu.Unlock()
	if w.tokens["person "+as] == "" {
		w.tokens["person "+as] = w.approver(w.t, as)
	}
	return w.tokens["person "+as]
}

// An executed is what is told of an execution.
type executed struct {
	ExecutionID, State string
	Result             struct {
		Summary string
		Data    json.RawMessage
	}
	Failure struct {
		Code      string
		Params    m
		Retryable bool
	}
	status int
	told   []diagnostic
	body   string
}

// code is why it failed, before there was an execution or after.
func (e executed) code() string {
	if len(e.told) > 0 {
		return e.told[0].Code
	}
	return e.Failure.Code
}

// call calls a capability under a key; "" is a new one.
func (w *outerWorld) call(id string, arguments m, key string) executed {
	w.t.Helper()
	if key == "" {
		w.n++
		key = fmt.Sprint("key", w.n)
	}
	status, _, e := w.decide(w.t, w.token(w.t, "engineer"), "POST", "/v1/capabilities/"+w.id+"/"+id+"/invoke", encode(w.t, m{"arguments": arguments, "surface": "ai", "idempotencyKey": key}))
	return w.executed(status, e)
}

func (w *outerWorld) executed(status int, e envelope) executed {
	w.t.Helper()
	out := executed{status: status, told: e.Diagnostics, body: encode(w.t, e)}
	if len(e.Data) > 0 {
		if err := json.Unmarshal(e.Data, &out); err != nil {
			w.t.Fatal(err)
		}
	}
	return out
}

// look reads an execution.
func (w *outerWorld) look(id string) executed {
	w.t.Helper()
	status, _, e := w.decide(w.t, w.token(w.t, "engineer"), "GET", "/v1/executions/"+id, "")
	return w.executed(status, e)
}

// silent fails if a secret stands in what the host printed or answered.
func (w *outerWorld) silent(secret string, answers ...executed) {
	w.t.Helper()
	for _, line := range strings.Split(w.out.String(), "\n") {
		if strings.Contains(line, secret) {
			w.t.Errorf("the host printed a secret: %s", line)
		}
	}
	for _, a := range answers {
		if strings.Contains(a.body, secret) {
			w.t.Errorf("a secret was answered: %s", a.body)
		}
	}
}

// skill is a capability.
func skill(id string, seconds int, runtime m) m {
	return m{"id": id, "kind": "skill", "title": "제목", "description": "d", "permissions": list{"network", "credentials"}, "timeout_seconds": seconds, "runtime": runtime}
}

// plugin is a manifest; more are further connectors.
func plugin(connectors, capabilities list, more ...m) m {
	for _, c := range more {
		connectors = append(connectors, c)
	}
	return m{"pluginKey": "acme.outside", "version": "1.0.0", "title": "Outside", "permissions": list{"network", "credentials"}, "connectors": connectors, "capabilities": capabilities}
}

func connectorTo(id, hostName, path string, more ...m) m {
	out := m{"connector_id": id, "base_url": "https://" + hostName, "path": path, "auth": m{"kind": "none"}}
	for _, extra := range more {
		for name, value := range extra {
			out[name] = value
		}
	}
	return out
}

var patient = m{"retry": m{"max_attempts": 3, "on": list{"network", 429, 502, 503, 504}, "backoff_ms": 10}}

// connect gives a connector its secret.
func (w *outerWorld) connect(connector string, secret m, more ...m) (id string, data m) {
	w.t.Helper()
	order := m{"instanceId": w.id, "connectorId": connector, "owner": "everyone", "secret": secret}
	for _, extra := range more {
		for name, value := range extra {
			order[name] = value
		}
	}
	status, _, e := w.decide(w.t, w.person("engineer"), "POST", "/v1/connections", encode(w.t, order))
	if err := json.Unmarshal(e.Data, &data); status != 200 || err != nil {
		w.t.Fatalf("%d %+v %v", status, e, err)
	}
	return fmt.Sprint(data["connectionId"]), data
}
