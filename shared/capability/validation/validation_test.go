package validation_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/capability"
	"github.com/pxhost/pxhost/shared/capability/validation"
	"github.com/pxhost/pxhost/shared/outbound"
)

// whole is a package with all that there is. Cases change one place of it.
const whole = `{
  "pluginKey": "workspace.notes", "version": "1.2.0", "title": "노트", "permissions": ["network", "credentials", "storage", "notifications"],
  "settings_schema": {"type": "object", "properties": {"unit": {"enum": ["m", "ft"]}}},
  "dependencies": [{"pluginKey": "study.calendar", "minimum": "1.0.0"}],
  "connectors": [
    {"connector_id": "workspace_api", "base_url": "https://api.example.com", "path": "/v1/notes", "auth": {"kind": "bearer"}, "retry": {"max_attempts": 3, "on": ["network", 429, 503], "backoff_ms": 200}},
    {"connector_id": "research_mcp", "base_url": "https://mcp.example.com/mcp", "protocol": "mcp", "auth": {"kind": "oauth2", "grant": "authorization_code", "token_url": "https://auth.example.com/token", "authorization_url": "https://auth.example.com/authorize", "scopes": ["read"]}}
  ],
  "capabilities": [
    {"id": "workspace.notes.search", "kind": "tool", "title": "노트 검색", "description": "연결한 서비스에서 노트를 검색합니다.", "permissions": ["network", "credentials"], "timeout_seconds": 10,
      "input_schema": {"type": "object", "properties": {"query": {"type": "string"}}, "additionalProperties": false},
      "output_schema": {"type": "object", "properties": {"items": {"type": "array", "items": {"type": "object"}}}, "required": ["items"]},
      "runtime": {"adapter": "http_json", "connector_id": "workspace_api", "method": "GET"}},
    {"id": "text", "kind": "skill", "title": "정리", "description": "d", "permissions": [], "timeout_seconds": 5, "runtime": {"adapter": "text_template", "template": "요청을 다음 형식으로 정리합니다: {query}"}},
    {"id": "remind", "kind": "tool", "title": "r", "description": "d", "permissions": ["storage", "notifications"], "timeout_seconds": 5, "runtime": {"adapter": "calendar_store", "operation": "reminder", "namespace": "study.schedule"}},
    {"id": "post", "kind": "tool", "title": "p", "description": "d", "permissions": ["network", "credentials"], "timeout_seconds": 5,
      "runtime": {"adapter": "http_json", "connector_id": "workspace_api", "method": "POST", "request_body": {"query": "{query}"}, "response": {"summary_path": "message", "data_path": "data"}}},
    {"id": "repositories", "kind": "provider", "title": "s", "description": "d", "permissions": ["network"], "timeout_seconds": 5,
      "input_schema": {"type": "object", "properties": {"query": {"type": "string"}, "page": {"type": "integer", "minimum": 1}}, "required": ["query"]},
      "runtime": {"role": "search", "adapter": "http_json", "endpoint": "https://api.github.com/search/repositories?per_page=2&sort=stars", "method": "GET", "request_params": {"q": "{query}", "page": "{arguments.page}"},
        "response": {"collection_path": "items", "id_path": "id", "title_paths": ["full_name"], "url_path": "html_url", "content_paths": ["description"], "max_items": 2, "summary_prefix": "저장소 검색"}}},
    {"id": "research", "kind": "tool", "title": "m", "description": "d", "permissions": ["network", "credentials"], "timeout_seconds": 5,
      "runtime": {"adapter": "mcp_http", "connector_id": "research_mcp", "tool_name": "search", "protocol_version": "2025-11-25", "argument_template": {"query": "{query}"}}},
    {"id": "analyze", "kind": "tool", "title": "a", "description": "d", "permissions": ["storage"], "timeout_seconds": 60, "input_schema": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": false},
      "runtime": {"adapter": "sandbox_python", "entrypoint": "src/analyze.py", "reads": [{"namespace": "study.schedule"}], "background": {"interval_minutes": 15, "arguments": {"n": 1}}}}
  ],
  "slash_commands": [{"id": "notes.search_command", "command": "notes", "title": "노트 검색", "description": "d", "capability": "workspace.notes.search", "argument_template": {}}],
  "ui": {
    "data_sources": [{"id": "found", "capability": "workspace.notes.search", "arguments": {"query": "x"}}],
    "invokes": [{"id": "again", "label": "다시", "capability": "analyze", "arguments": {"n": 2}}],
    "bindings": [{"id": "first", "path": "data.found.data.items.0.title"}, {"id": "said", "path": "data.found.summary"}]
  }
}`

func judge(text string) (capability.Manifest, []string) {
	m, findings := validation.Manifest([]byte(text), []string{"src/analyze.py"}, outbound.CheckURL)
	var out []string
	for _, f := range findings {
		rule, _ := f.Params["rule"].(string)
		if rule == "" {
			rule = fmt.Sprint(f.Params["kind"], f.Params["of"])
		}
		out = append(out, f.Path+" "+rule)
	}
	return m, out
}

// covers: C1, C4
func TestAPackageWithAllThatThereIsIsTaken(t *testing.T) {
	m, findings := judge(whole)
	if findings != nil {
		t.Fatal(findings)
	}
	if len(m.Capabilities) != 7 || m.Connectors[0].Retry.On[1] != capability.On429 {
		t.Errorf("%+v", m)
	}
	// What was read is what was written.
	var first, second any
	text, err := json.Marshal(m)
	if err == nil {
		err = json.Unmarshal(text, &first)
	}
	if err != nil || json.Unmarshal([]byte(whole), &second) != nil {
		t.Fatal(err)
	}
	a, _ := canon.Encode(first)
	b, _ := canon.Encode(second)
	if !bytes.Equal(a, b) {
		t.Errorf("%s\n%s", a, b)
	}
}

// What runs by the clock is switched on and off in one write.
//
// covers: C1
func TestNoMoreRunsByTheClockThanOneWriteHolds(t *testing.T) {
	for _, n := range []int{capability.MaxBackground, capability.MaxBackground + 1} {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf(`{"id": "c%d", "kind": "tool", "title": "t", "description": "d", "permissions": [], "timeout_seconds": 5, "runtime": {"adapter": "text_template", "template": "x", "background": {"interval_minutes": 15}}}`, i))
		}
		_, findings := validation.Manifest([]byte(`{"pluginKey": "p", "version": "1.0.0", "title": "t", "capabilities": [`+strings.Join(all, ",")+`]}`), nil, outbound.CheckURL)
		if (findings != nil) != (n > capability.MaxBackground) || findings != nil && (len(findings) != 1 || findings[0].Path != "/capabilities" || findings[0].Params["rule"] != "too_many_background") {
			t.Errorf("%d: %+v", n, findings)
		}
	}
}

// covers: C1, C4, C7, A1, A2, A3, A4, A6, A8
func TestEveryRuleIsToldAtItsPlace(t *testing.T) {
	for _, c := range []struct{ name, old, new, want string }{
		{"a background that is too often", `"interval_minutes": 15`, `"interval_minutes": 14`, "/capabilities/6/runtime/background/interval_minutes minimum"},
		{"a background that is too rare", `"interval_minutes": 15`, `"interval_minutes": 10081`, "/capabilities/6/runtime/background/interval_minutes maximum"},
		{"arguments of a background that do not fit", `"arguments": {"n": 1}}}`, `"arguments": {"n": "x"}}}`, "/capabilities/6/runtime/background/arguments/n type"},
		{"a background without required arguments", `"interval_minutes": 15, "arguments": {"n": 1}`, `"interval_minutes": 15`, "/capabilities/6/runtime/background/arguments required"},
		{"a kind that there is not", `"kind": "skill"`, `"kind": "agent"`, "/capabilities/1/kind enum"},
		{"a tool without an adapter", `{"adapter": "text_template", "template": "요청을 다음 형식으로 정리합니다: {query}"}`, `{}`, "/capabilities/1/runtime/adapter adapter_of_skill"},
		{"a provider without a role", `"role": "search", `, ``, "/capabilities/4/runtime/role role_of_provider"},
		{"an operation without the argument that it takes", `"runtime": {"adapter": "calendar_store", "operation": "reminder"`, `"input_schema": {"type": "object", "properties": {"id": {"type": "string"}}, "additionalProperties": false}, "runtime": {"adapter": "calendar_store", "operation": "get"`, "/capabilities/2/runtime/operation argument<nil>"},
		{"a role of a tool", `"adapter": "calendar_store"`, `"role": "search", "adapter": "calendar_store"`, "/capabilities/2/runtime/role of_provider"},
		{"an adapter that there is not", `"adapter": "text_template"`, `"adapter": "shell"`, "/capabilities/1/runtime/adapter enum"},
		{"an adapter that is no string", `"adapter": "text_template"`, `"adapter": 1`, "/capabilities/1/runtime/adapter type"},
		{"a runtime that is no object", `"runtime": {"adapter": "text_template", "template": "요청을 다음 형식으로 정리합니다: {query}"}`, `"runtime": []`, "/capabilities/1/runtime type"},
		{"a member that there is not", `"operation": "reminder"`, `"operation": "reminder", "repeat": 1`, "/capabilities/2/runtime/repeat unknown"},
		{"a timeout that is too long", `"timeout_seconds": 60`, `"timeout_seconds": 301`, "/capabilities/6/timeout_seconds maximum"},
		{"no timeout", `"timeout_seconds": 60, `, ``, "/capabilities/6/timeout_seconds required"},
		{"an ID twice", `"id": "text"`, `"id": "remind"`, "/capabilities/2/id unique"},
		{"a permission that the package does not ask for", `"permissions": ["network", "credentials", "storage", "notifications"],`, `"permissions": ["network", "credentials", "storage"],`, "/capabilities/2/permissions/1 permission_of_package"},
		{"a reminder without notifications", `"permissions": ["storage", "notifications"], "timeout_seconds"`, `"permissions": ["storage"], "timeout_seconds"`, "/capabilities/2/runtime/operation needs_permission"},
		{"a store without storage", `"permissions": ["storage", "notifications"], "timeout_seconds"`, `"permissions": ["notifications"], "timeout_seconds"`, "/capabilities/2/runtime/operation needs_permission"},
		{"a call without network", `"permissions": ["network"], "timeout_seconds"`, `"permissions": [], "timeout_seconds"`, "/capabilities/4/runtime/adapter needs_permission"},
		{"a token without credentials", `"permissions": ["network", "credentials"], "timeout_seconds": 10`, `"permissions": ["network"], "timeout_seconds": 10`, "/capabilities/0/runtime/connector_id needs_permission"},
		{"a read without storage", `"permissions": ["storage"], "timeout_seconds": 60`, `"permissions": [], "timeout_seconds": 60`, "/capabilities/6/runtime/reads needs_permission"},
		{"an expression in a text", `정리합니다: {query}`, `정리합니다: {{query}}`, "/capabilities/1/runtime/template placeholder"},
		{"an expression in a body", `"request_body": {"query": "{query}"}`, `"request_body": {"query": "{query.x}"}`, "/capabilities/3/runtime/request_body/query placeholder"},
		{"a body of a GET", `"method": "GET", "request_params"`, `"method": "GET", "request_body": {}, "request_params"`, "/capabilities/4/runtime/request_body of_post"},
		{"an argument that there is not", `"page": "{arguments.page}"`, `"page": "{arguments.seite}"`, "/capabilities/4/runtime/request_params argument<nil>"},
		{"a GET that sends a query that its schema does not have", `"properties": {"query": {"type": "string"}}, "additionalProperties": false}`, `"properties": {"q": {"type": "string"}}, "additionalProperties": false}`, "/capabilities/0/runtime/request_params no_argument_query"},
		{"a method that is not supported", `"method": "POST"`, `"method": "PUT"`, "/capabilities/3/runtime/method enum"},
		{"neither endpoint nor connector", `"connector_id": "workspace_api", "method": "POST"`, `"method": "POST"`, "/capabilities/3/runtime/endpoint endpoint_or_connector"},
		{"an endpoint of another origin than the token's", `"connector_id": "workspace_api", "method": "POST"`, `"connector_id": "workspace_api", "endpoint": "https://evil.example.com/x", "method": "POST"`, "/capabilities/3/runtime/endpoint origin_of_connector"},
		{"an endpoint without TLS", `https://api.github.com/search`, `http://api.github.com/search`, "/capabilities/4/runtime/endpoint url_https"},
		{"an endpoint of this machine", `https://api.github.com/search`, `https://127.0.0.1/search`, "/capabilities/4/runtime/endpoint url_host_name"},
		{"an endpoint with a password", `https://api.github.com/search`, `https://a:b@api.github.com/search`, "/capabilities/4/runtime/endpoint url_userinfo"},
		{"an endpoint of another port", `https://api.github.com/search`, `https://api.github.com:22/search`, "/capabilities/4/runtime/endpoint url_port"},
		{"shapes that mix", `"collection_path": "items"`, `"summary_path": "x", "collection_path": "items"`, "/capabilities/4/runtime/response/summary_path not_of_a_list"},
		{"a * in a single path", `"summary_path": "message"`, `"summary_path": "message.*"`, "/capabilities/3/runtime/response/summary_path path"},
		{"a connector that there is not", `"connector_id": "research_mcp", "tool_name"`, `"connector_id": "research", "tool_name"`, "/capabilities/5/runtime/connector_id connector<nil>"},
		{"a connector of another protocol", `"connector_id": "research_mcp", "tool_name"`, `"connector_id": "workspace_api", "tool_name"`, "/capabilities/5/runtime/connector_id protocol"},
		{"a protocol version that is not supported", `"protocol_version": "2025-11-25"`, `"protocol_version": "2024-11-05"`, "/capabilities/5/runtime/protocol_version enum"},
		{"arguments that are no object", `"argument_template": {"query": "{query}"}`, `"argument_template": "{query}"`, "/capabilities/5/runtime/argument_template type"},
		{"an entrypoint that is not there", `"entrypoint": "src/analyze.py"`, `"entrypoint": "src/analyse.py"`, "/capabilities/6/runtime/entrypoint file<nil>"},
		{"an entrypoint outside", `"entrypoint": "src/analyze.py"`, `"entrypoint": "src/../analyze.py"`, "/capabilities/6/runtime/entrypoint pattern"},
		{"an absolute entrypoint", `"entrypoint": "src/analyze.py"`, `"entrypoint": "/src/analyze.py"`, "/capabilities/6/runtime/entrypoint pattern"},
		{"an entrypoint of Windows", `"entrypoint": "src/analyze.py"`, `"entrypoint": "src\\analyze.py"`, "/capabilities/6/runtime/entrypoint pattern"},
		{"a schema with a remote $ref", `{"unit": {"enum": ["m", "ft"]}}`, `{"unit": {"$ref": "https://evil.com/s"}}`, "/settings_schema/properties/unit/$ref local_ref"},
		{"a schema of a list", `"output_schema": {"type": "object"`, `"output_schema": {"type": "array"`, "/capabilities/0/output_schema/type object_root"},
		{"a retry that is tried too often", `"max_attempts": 3`, `"max_attempts": 6`, "/connectors/0/retry/max_attempts maximum"},
		{"a status that is not tried again", `"on": ["network", 429, 503]`, `"on": ["network", 400]`, "/connectors/0/retry/on/1 enum"},
		{"a status as a string", `"on": ["network", 429, 503]`, `"on": ["429"]`, "/connectors/0/retry/on/0 enum"},
		{"a failure twice", `"on": ["network", 429, 503]`, `"on": [429, 429]`, "/connectors/0/retry/on/1 unique"},
		{"a path that leads away", `"path": "/v1/notes"`, `"path": "//evil.com/x"`, "/connectors/0/path path"},
		{"a path with a backslash", `"path": "/v1/notes"`, `"path": "/\\evil.com"`, "/connectors/0/path path"},
		{"a token of another kind", `"auth": {"kind": "bearer"}`, `"auth": {"kind": "bearer", "token_url": "https://a.example.com"}`, "/connectors/0/auth/token_url kind"},
		{"a secret in the package", `"auth": {"kind": "bearer"}`, `"auth": {"kind": "bearer", "token": "s3cret"}`, "/connectors/0/auth/token unknown"},
		{"a grant without its URL", `"authorization_url": "https://auth.example.com/authorize", `, ``, "/connectors/1/auth/authorization_url of_authorization_code"},
		{"a token URL of this network", `https://auth.example.com/token`, `https://10.0.0.1/token`, "/connectors/1/auth/token_url url_host_name"},
		{"a slash in a command", `"command": "notes"`, `"command": "/notes"`, "/slash_commands/0/command pattern"},
		{"a command of what there is not", `"capability": "workspace.notes.search", "argument_template"`, `"capability": "workspace.notes", "argument_template"`, "/slash_commands/0/capability capability<nil>"},
		{"a command of a provider", `"capability": "workspace.notes.search", "argument_template"`, `"capability": "repositories", "argument_template"`, "/slash_commands/0/capability kind"},
		{"a command with an argument that there is not", `"argument_template": {}`, `"argument_template": {"query": "{arguments.x}"}`, "/slash_commands/0/argument_template argument<nil>"},
		{"a command with an argument that its capability has not", `"argument_template": {}`, `"argument_template": {"text": "{query}"}`, "/slash_commands/0/argument_template argument<nil>"},
		{"a command that takes what nobody typed", `"argument_template": {}}]`, `"argument_template": {}}, {"id": "b", "command": "b", "title": "t", "description": "d", "capability": "analyze", "argument_template": {"n": "{arguments.n}"}}]`, "/slash_commands/1/argument_template argument<nil>"},
		{"an endpoint with a placeholder", `https://api.github.com/search`, `https://api.github.com/{query}`, "/capabilities/4/runtime/endpoint url_template"},
		{"a path with a placeholder", `"path": "/v1/notes"`, `"path": "/v1/{arguments.id}"`, "/connectors/0/path url_template"},
		{"two commands of one name", `"argument_template": {}}]`, `"argument_template": {}}, {"id": "b", "command": "Ｎotes", "title": "t", "description": "d", "capability": "text"}]`, "/slash_commands/1/command unique"},
		{"a source of a screen that does not fit", `"arguments": {"query": "x"}`, `"arguments": {"q": "x"}`, "/ui/data_sources/0/arguments additionalProperties"},
		{"a screen that shows what no result has", `data.found.data.items.0.title`, `data.found.data.itens.0.title`, "/ui/bindings/0/path data<nil>"},
		{"a screen that shows no source", `data.found.data.items.0.title`, `data.fund.data.items.0.title`, "/ui/bindings/0/path data_source<nil>"},
		{"a path that is none", `data.found.data.items.0.title`, `found.items`, "/ui/bindings/0/path binding_path"},
		{"a label that is an ID", `"label": "다시"`, `"label": "analyze"`, "/ui/invokes/0/label label_is_id"},
		{"a button with an argument that there is not", `"arguments": {"n": 2}`, `"arguments": {"m": 2}`, "/ui/invokes/0/arguments argument<nil>"},
		{"a package that needs itself", `"pluginKey": "study.calendar"`, `"pluginKey": "workspace.notes"`, "/dependencies/0/pluginKey not_itself"},
		{"a version that is none", `"version": "1.2.0"`, `"version": "1.2"`, "/version pattern"},
		{"a title with a newline", `"title": "노트", "permissions"`, `"title": "a\nb", "permissions"`, "/title characters"},
		{"no JSON", `"version": "1.2.0",`, `"version": "1.2.0"`, " json"},
	} {
		text := strings.Replace(whole, c.old, c.new, 1)
		if text == whole {
			t.Fatalf("%s: nothing was changed", c.name)
		}
		_, got := judge(text)
		at, _, _ := strings.Cut(c.want, " ")
		if !slices.Contains(got, c.want) && !(strings.HasSuffix(c.want, " unknown") && slices.ContainsFunc(got, func(g string) bool { return strings.HasPrefix(g, at+" ") })) &&
			!(strings.HasSuffix(c.want, " kind") && slices.ContainsFunc(got, func(g string) bool { return strings.HasPrefix(g, at+" ") })) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
		if len(got) > 3 && c.name != "no JSON" && !strings.HasPrefix(c.name, "a permission") {
			t.Errorf("%s: one fault gives %d findings: %q", c.name, len(got), got)
		}
	}
}

// covers: C4
func TestAllFindingsComeAtOnceAndQuoteNothing(t *testing.T) {
	text := strings.NewReplacer(`"kind": "skill"`, `"kind": "s3cret"`, `"method": "POST"`, `"method": "s3cret"`, `https://api.github.com/search`, `https://s3cret/search`, `"interval_minutes": 15`, `"interval_minutes": 3`,
		`"command": "notes"`, `"command": "/s3cret"`).Replace(whole)
	_, findings := validation.Manifest([]byte(text), []string{"src/analyze.py", "src/other.py"}, outbound.CheckURL)
	if len(findings) < 5 {
		t.Error(findings)
	}
	if said := fmt.Sprint(findings); strings.Contains(said, "s3cret") {
		t.Error(said)
	}
	if _, got := judge(strings.Repeat(" ", validation.MaxManifest+1)); !slices.Equal(got, []string{" <nil>bytes"}) {
		t.Error(got)
	}
}

// covers: A8
func TestEachSourceHasOneCapability(t *testing.T) {
	_, findings := validation.Manifest([]byte(whole), []string{"src/analyze.py", "src/other.py"}, outbound.CheckURL)
	if len(findings) != 1 || findings[0].Params["rule"] != "source_without_capability" || findings[0].Params["file"] != "src/other.py" {
		t.Error(findings)
	}
	twice := strings.Replace(whole, `"runtime": {"adapter": "text_template", "template": "요청을 다음 형식으로 정리합니다: {query}"}`, `"runtime": {"adapter": "sandbox_python", "entrypoint": "src/analyze.py"}`, 1)
	if _, got := judge(twice); !slices.Equal(got, []string{"/capabilities/6/runtime/entrypoint unique"}) {
		t.Error(got)
	}
}

// What is typed goes where the command says, whatever the capability calls its argument.
//
// covers: C7
func TestACommandGivesWhatIsTypedToAnyArgument(t *testing.T) {
	text := strings.Replace(whole, `"argument_template": {}}]`, `"argument_template": {}}, {"id": "b", "command": "b", "title": "t", "description": "d", "capability": "analyze", "argument_template": {"n": "{query}"}}]`, 1)
	if _, got := judge(text); got != nil {
		t.Error(got)
	}
}

// A fault hides no other one, and makes none where there is none.
//
// covers: C4
func TestAFaultHidesNoOtherAndMakesNone(t *testing.T) {
	for _, c := range []struct {
		name  string
		edits []string
		want  []string
	}{
		{"a reference to nothing beside an unknown member", []string{`"version": "1.2.0"`, `"version": "1.2.0", "author": "me"`, `"capability": "workspace.notes.search", "argument_template"`, `"capability": "workspace.nots", "argument_template"`},
			[]string{"/author <nil> <nil>", "/slash_commands/0/capability capability<nil>"}},
		{"a connector of nothing beside a timeout", []string{`"timeout_seconds": 60`, `"timeout_seconds": 0`, `"connector_id": "research_mcp", "tool_name"`, `"connector_id": "research", "tool_name"`},
			[]string{"/capabilities/6/timeout_seconds minimum", "/capabilities/5/runtime/connector_id connector<nil>"}},
		{"a name that cannot be read", []string{`"id": "workspace.notes.search"`, `"id": "Notes"`}, []string{"/capabilities/0/id pattern"}},
		{"a kind that cannot be read", []string{`"kind": "tool", "title": "노트 검색"`, `"kind": "agent", "title": "노트 검색"`}, []string{"/capabilities/0/kind enum"}},
		{"permissions that cannot be read", []string{`"permissions": ["network", "credentials", "storage", "notifications"],`, `"permissions": "network",`}, []string{"/permissions type"}},
		{"two failures that cannot be read", []string{`"on": ["network", 429, 503]`, `"on": [400, 401]`}, []string{"/connectors/0/retry/on/0 enum", "/connectors/0/retry/on/1 enum"}},
		{"titles that cannot be read", []string{`"title_paths": ["full_name"]`, `"title_paths": "full_name"`}, []string{"/capabilities/4/runtime/response/title_paths type"}},
		{"an adapter of a file that cannot be read", []string{`"adapter": "sandbox_python"`, `"adapter": "python"`}, []string{"/capabilities/6/runtime/adapter enum"}},
		{"an entrypoint that is no path", []string{`"entrypoint": "src/analyze.py"`, `"entrypoint": "./src/analyze.py"`}, []string{"/capabilities/6/runtime/entrypoint pattern"}},
		{"an entrypoint of another type", []string{`"entrypoint": "src/analyze.py"`, `"entrypoint": 1`}, []string{"/capabilities/6/runtime/entrypoint type"}},
		{"no runtime", []string{`"runtime": {"adapter": "sandbox_python", "entrypoint": "src/analyze.py", "reads": [{"namespace": "study.schedule"}], "background": {"interval_minutes": 15, "arguments": {"n": 1}}}`, `"description": "d"`, `"title": "a", "description": "d",`, `"title": "a",`}, []string{"/capabilities/6/runtime required"}},
	} {
		text := strings.NewReplacer(c.edits...).Replace(whole)
		if text == whole {
			t.Fatalf("%s: nothing was changed", c.name)
		}
		if _, got := judge(text); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func FuzzManifest(f *testing.F) {
	f.Add(whole)
	f.Add(`{"pluginKey":"a","version":"1.0.0","title":"t","capabilities":[{"id":"a","kind":"tool","title":"t","description":"d","permissions":[],"timeout_seconds":1,"runtime":{"adapter":"http_json","method":"GET","endpoint":"https://a.com"}}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		m, findings := validation.Manifest([]byte(text), nil, outbound.CheckURL)
		if findings == nil && len(m.Capabilities) == 0 {
			t.Error("a package without a capability is taken")
		}
	})
}
