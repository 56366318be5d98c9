package local

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/pxhost/pxhost/infra/acceptance/outside/standin"
)

// BenchmarkHTTPJSON is a call of a capability of http_json, from the request to its
// result: a GET without a credential, and a POST with one that is opened for it. The
// service outside stands on this machine and answers at once; each call is a connection
// and a TLS handshake of its own. The references make the same durable writes, of which a
// POST has one more, and nothing else.
func BenchmarkHTTPJSON(b *testing.B) {
	const name = "api.notes-test.com"
	certificate, roots, err := standin.Vouch(name)
	if err != nil {
		b.Fatal(err)
	}
	service := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"message":"찾았습니다","data":{"items":[]}}`)
	}))
	service.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	service.StartTLS()
	b.Cleanup(service.Close)
	dir := b.TempDir()
	program, site := filepath.Join(dir, "outside"), filepath.Join(dir, "site")
	if err := standin.Build(program); err != nil {
		b.Fatal(err)
	}
	if err := standin.Site(site, "../..", program, standin.Configuration{Hosts: map[string]string{name: service.Listener.Addr().String()}, Roots: roots}); err != nil {
		b.Fatal(err)
	}
	chain, s := startChain(b), startSystem(b, func(c *Config) { c.Template = filepath.Join(site, "template.yaml") })
	s.pluggable(b)
	person := s.person(b)
	tool := func(id string, runtime object) object {
		return object{"id": id, "kind": "tool", "title": "노트 검색", "description": "Finds notes.", "permissions": []string{"network", "credentials"}, "timeout_seconds": 30, "runtime": runtime}
	}
	response := object{"summary_path": "message", "data_path": "data"}
	manifest, err := json.Marshal(object{"pluginKey": "acme.notes", "version": "1.0.0", "title": "Notes", "permissions": []string{"network", "credentials"},
		"connectors": []object{{"connector_id": "open", "base_url": "https://" + name, "auth": object{"kind": "none"}}, {"connector_id": "closed", "base_url": "https://" + name, "auth": object{"kind": "bearer"}}},
		"capabilities": []object{
			tool("notes.get", object{"adapter": "http_json", "connector_id": "open", "method": "GET", "response": response}),
			tool("notes.post", object{"adapter": "http_json", "connector_id": "closed", "method": "POST", "request_body": object{"query": "{query}"}, "response": response}),
		}})
	if err != nil {
		b.Fatal(err)
	}
	id := s.install(b, person, "notes", string(manifest), "network", "credentials")
	s.ask(b, person, "POST", "/v1/connections", object{"instanceId": id, "connectorId": "closed", "owner": "everyone", "secret": object{"token": "token"}}, http.StatusOK)
	n := 0
	call := func(capability string) func() {
		return func() {
			n++
			data := s.ask(b, s.token, "POST", "/v1/capabilities/"+id+"/"+capability+"/invoke", object{"arguments": object{"query": "회의"}, "surface": "ai", "idempotencyKey": fmt.Sprint(n)}, http.StatusOK)
			if data["state"] != "succeeded" {
				b.Fatal(data)
			}
		}
	}
	subjects := []subject{
		{name: "noop-execution", once: func() { post(b, chain.URL+"/execution", []byte(`{}`)) }},
		{name: "noop-effect", once: func() { post(b, chain.URL+"/execution-effect", []byte(`{}`)) }},
		{"http_json-get", call("notes.get"), []string{"noop-execution"}, "at most 3 × noop-execution"},
		{"http_json-post", call("notes.post"), []string{"noop-effect"}, "at most 3 × noop-effect"},
	}
	for range 10 {
		for _, one := range subjects {
			one.once()
		}
	}
	inTurn(b, nil, subjects...)
}
