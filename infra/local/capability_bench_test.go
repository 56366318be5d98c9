package local

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/pxhost/pxhost/infra/local/oidc"
	"github.com/pxhost/pxhost/shared/capability"
	hosted "github.com/pxhost/pxhost/shared/capability/host"
)

const benchWorkspace = "structural_team"

// tools is a manifest of so many tools of text_template, each with schemas and texts of
// the size that developers write.
func tools(plugin string, count int) string {
	var list []object
	for i := range count {
		list = append(list, object{
			"id": fmt.Sprintf("%s.tool_%d", plugin, i), "kind": "tool", "title": fmt.Sprint("노트 검색 ", i), "permissions": []string{}, "timeout_seconds": 30,
			"description": "Finds notes in the connected service by a query, and answers their titles with what they begin with.",
			"input_schema": object{"type": "object", "additionalProperties": false, "required": []string{"query"}, "properties": object{
				"query": object{"type": "string", "maxLength": 500, "description": "What is looked for."}, "limit": object{"type": "integer", "minimum": 1, "maximum": 100}}},
			"output_schema": object{"type": "object", "required": []string{"text"}, "properties": object{"text": object{"type": "string"}}},
			"runtime":       object{"adapter": "text_template", "template": "요청을 다음 형식으로 정리합니다: {query}"},
		})
	}
	text, err := json.Marshal(object{"pluginKey": plugin, "version": "1.0.0", "title": "Notes", "capabilities": list})
	if err != nil {
		panic(err)
	}
	return string(text)
}

// pluggable gives the engineer all rights in the workspace.
func (s *system) pluggable(b *testing.B) {
	b.Helper()
	actor := s.URL + "|engineer"
	member, err := s.parts.Store.Member(b.Context(), benchWorkspace, actor)
	if err == nil {
		member.Rights = []capability.Right{capability.Use, capability.Manage}
		_, err = s.parts.Store.Change(b.Context(), hosted.Change{Workspace: benchWorkspace, Member: &hosted.Membership{Actor: actor, Member: member}})
	}
	if err != nil {
		b.Fatal(err)
	}
}

// ask sends a request to the door of the capability host and reads the data of its
// answer, which must have a status.
func (s *system) ask(b *testing.B, token, method, path string, body any, status int) object {
	b.Helper()
	_, text := s.send(b, token, method, path, body, status)
	var envelope struct{ Data object }
	if err := json.Unmarshal(text, &envelope); err != nil {
		b.Fatal(err)
	}
	return envelope.Data
}

// send does that and leaves the answer as it is: what a client does with it is not
// measured.
func (s *system) send(b *testing.B, token, method, path string, body any, status int, headers ...string) (http.Header, []byte) {
	b.Helper()
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			b.Fatal(err)
		}
	}
	request, err := http.NewRequestWithContext(context.Background(), method, s.URL+path, bytes.NewReader(text))
	if err != nil {
		b.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		b.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != status {
		b.Fatalf("%s %s: %d %.2000s %v", method, path, response.StatusCode, answer, err)
	}
	return response.Header, answer
}

// install installs a manifest and returns the instance's ID.
func (s *system) install(b *testing.B, person, key, manifest string, granted ...string) string {
	b.Helper()
	data := s.ask(b, person, "POST", "/v1/plugins", object{"workspaceKey": benchWorkspace, "idempotencyKey": key, "granted": append([]string{}, granted...),
		"package": object{"files": object{"manifest.json": manifest}}}, http.StatusOK)
	return data["instanceId"].(string)
}

// person is a token of a browser.
func (s *system) person(b *testing.B) string {
	b.Helper()
	token, err := s.Key.Token(s.URL, "engineer", oidc.ScopeApprove, time.Now())
	if err != nil {
		b.Fatal(err)
	}
	return token
}

// BenchmarkCatalog is an actor's catalog of 500 capabilities, whole and for who has it
// already. The reference is the chain of two functions that do nothing.
func BenchmarkCatalog(b *testing.B) {
	chain, s := startChain(b), startSystem(b)
	s.pluggable(b)
	person := s.person(b)
	for i := range 5 {
		key := fmt.Sprintf("acme.p%d", i)
		s.install(b, person, key, tools(key, 100))
	}
	path := "/v1/capabilities?workspaceKey=" + benchWorkspace
	header, whole := s.send(b, s.token, "GET", path, nil, http.StatusOK)
	if count := bytes.Count(whole, []byte(`"ready":"READY"`)); count != 500 || bytes.Contains(whole, []byte("truncation")) {
		b.Fatal(count, len(whole))
	}
	subjects := []subject{
		{name: "noop-chain", once: func() { post(b, chain.URL+"/chain", []byte(`{}`)) }},
		{"unchanged", func() {
			s.send(b, s.token, "GET", path, nil, http.StatusNotModified, "If-None-Match", header.Get("Etag"))
		}, []string{"noop-chain"}, ""},
		{"catalog-of-500", func() { s.send(b, s.token, "GET", path, nil, http.StatusOK) }, []string{"noop-chain"}, "at most 20 ms"},
	}
	for range 10 {
		for _, one := range subjects {
			one.once()
		}
	}
	inTurn(b, nil, subjects...)
}

// BenchmarkExecution is a call of a capability, from the request to its result. The
// reference is the same two functions with the same number of durable writes, and
// nothing else in them.
func BenchmarkExecution(b *testing.B) {
	chain, s := startChain(b), startSystem(b)
	s.pluggable(b)
	id := s.install(b, s.person(b), "notes", tools("acme.notes", 1))
	n := 0
	subjects := []subject{
		{name: "noop-execution", once: func() { post(b, chain.URL+"/execution", []byte(`{}`)) }},
		{"text_template", func() {
			n++
			data := s.ask(b, s.token, "POST", "/v1/capabilities/"+id+"/acme.notes.tool_0/invoke",
				object{"arguments": object{"query": "회의"}, "surface": "ai", "idempotencyKey": fmt.Sprint(n)}, http.StatusOK)
			if data["state"] != "succeeded" {
				b.Fatal(data)
			}
		}, []string{"noop-execution"}, "at most 3 × noop-execution"},
	}
	for range 10 {
		for _, one := range subjects {
			one.once()
		}
	}
	inTurn(b, nil, subjects...)
}
