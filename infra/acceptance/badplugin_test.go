package acceptance

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/pxhost/pxhost/shared/boot/plugins"
	"github.com/pxhost/pxhost/shared/capability"
	rows "github.com/pxhost/pxhost/shared/capability/host"
)

// What a plugin may not name or say is refused by the product's own function, at its
// place and by its rule, and not quoted.
//
// covers: A1, A3, A4, C1, C4
func TestAPluginThatNamesWhatItMayNotIsRefusedAtItsPlace(t *testing.T) {
	h := start(t)
	person := h.approver(t, "engineer")
	names, values := m{}, list{}
	for i := range 65 {
		if i < 33 {
			names[fmt.Sprint("n", i)] = "x"
		}
		values = append(values, i)
	}
	at := func(connector m, capabilities ...m) m {
		all := list{}
		for _, c := range capabilities {
			all = append(all, c)
		}
		if len(all) == 0 {
			all = list{skill("a.b", 10, m{"adapter": "http_json", "connector_id": "api", "method": "GET"})}
		}
		return plugin(list{connector}, all)
	}
	good := connectorTo("api", notesHost, "/")
	based := func(url string) m { return at(connectorTo("api", "", "/", m{"base_url": url})) }
	runtime := func(r m) m { return at(good, skill("a.b", 10, r)) }
	get := func(more m) m {
		r := m{"adapter": "http_json", "connector_id": "api", "method": "GET"}
		for name, value := range more {
			r[name] = value
		}
		return runtime(r)
	}
	input := func(schema string) m {
		c := skill("a.b", 10, m{"adapter": "text_template", "template": "x"})
		c["input_schema"] = json.RawMessage(schema)
		return at(good, c)
	}
	background := func(minutes int) m {
		return runtime(m{"adapter": "text_template", "template": "x", "background": m{"interval_minutes": minutes}})
	}
	const (
		base     = "/manifest.json/connectors/0/base_url"
		of       = "/manifest.json/capabilities/0"
		template = of + "/runtime/template"
	)
	deep := strings.Repeat(`{"type":"object","properties":{"a":`, 20) + `{}` + strings.Repeat(`}}`, 20)
	for name, c := range map[string]struct {
		manifest   m
		path, rule string
	}{
		"this machine":                 {based("https://127.0.0.1/s3cret"), base, "url_host_name"},
		"0":                            {based("https://0/s3cret"), base, "url_host_name"},
		"one number":                   {based("https://2130706433/s3cret"), base, "url_host_name"},
		"a hexadecimal address":        {based("https://0x7f.1/s3cret"), base, "url_host_name"},
		"a loopback of IPv6":           {based("https://[::1]/s3cret"), base, "url_host_name"},
		"an IPv4 address in IPv6":      {based("https://[::ffff:169.254.169.254]/s3cret"), base, "url_host_name"},
		"NAT64":                        {based("https://[64:ff9b::7f00:1]/s3cret"), base, "url_host_name"},
		"a task's credentials":         {based("https://169.254.170.2/s3cret"), base, "url_host_name"},
		"a user that looks like hosts": {based("https://api.github.com@127.0.0.1/s3cret"), base, "url_userinfo"},
		"a backslash":                  {based(`https://api.github.com\@evil.com/s3cret`), base, "url_url"},
		"port 22":                      {based("https://api.github.com:22/s3cret"), base, "url_port"},
		"http":                         {based("http://api.github.com/s3cret"), base, "url_https"},
		"a Cyrillic letter":            {based("https://gіthub.com/s3cret"), base, "url_host_name"},
		"full-width digits":            {based("https://１２７.0.0.1/s3cret"), base, "url_host_name"},
		"another full stop":            {based("https://api。github.com/s3cret"), base, "url_host_name"},
		"a name of an inside":          {based("https://metadata.google.internal/s3cret"), base, "url_not_public"},
		"an endpoint of this machine":  {runtime(m{"adapter": "http_json", "endpoint": "https://127.0.0.1/s3cret", "method": "GET"}), of + "/runtime/endpoint", "url_host_name"},
		"a token URL of this machine": {at(connectorTo("api", notesHost, "/", m{"auth": m{"kind": "oauth2", "grant": "client_credentials", "token_url": "https://localhost/s3cret"}})),
			"/manifest.json/connectors/0/auth/token_url", "url_host_name"},
		"an endpoint of another host than the connector's": {get(m{"endpoint": "https://evil.example.com/s3cret"}), of + "/runtime/endpoint", "origin_of_connector"},

		"two braces":               {runtime(m{"adapter": "text_template", "template": "{{s3cret}}"}), template, "placeholder"},
		"an expression":            {runtime(m{"adapter": "text_template", "template": "{query.toUpperCase()}"}), template, "placeholder"},
		"33 names":                 {get(m{"request_params": names}), of + "/runtime/request_params", "maxItems"},
		"65 values":                {get(m{"request_params": m{"n": values}}), of + "/runtime/request_params/n", "values"},
		"a value that is none":     {get(m{"request_params": m{"n": m{"s3cret": 1}}}), of + "/runtime/request_params/n", "type"},
		"PUT":                      {get(m{"method": "PUT"}), of + "/runtime/method", "enum"},
		"a list in one result":     {get(m{"response": m{"data_path": "a.*"}}), of + "/runtime/response/data_path", "path"},
		"both shapes":              {get(m{"response": m{"data_path": "a", "collection_path": "b"}}), of + "/runtime/response/data_path", "not_of_a_list"},
		"a schema from outside":    {input(`{"type":"object","properties":{"a":{"$ref":"https://evil.example.com/s3cret"}}}`), of + "/input_schema/properties/a/$ref", "local_ref"},
		"a schema of itself":       {input(`{"type":"object","properties":{"a":{"$ref":"#/$defs/a"}},"$defs":{"a":{"type":"object","properties":{"b":{"$ref":"#/$defs/a"}}}}}`), "", "recursion"},
		"a pattern that is no RE2": {input(`{"type":"object","properties":{"a":{"type":"string","pattern":"(a+)+\\1$"}}}`), of + "/input_schema/properties/a/pattern", "pattern"},
		"a deep schema":            {input(deep), "", "depth"},
		"14 minutes":               {background(14), of + "/runtime/background/interval_minutes", "minimum"},
		"10,081 minutes":           {background(10081), of + "/runtime/background/interval_minutes", "maximum"},
	} {
		status, _, e := h.decide(t, person, "POST", "/v1/plugins/validate", encode(t, m{"package": m{"files": m{"manifest.json": encode(t, c.manifest)}}}))
		told, found := []string{}, false
		for _, d := range e.Diagnostics {
			told = append(told, fmt.Sprintf("%s %s %v", d.Code, d.Path, d.Params))
			broken := d.Code == "PX_SCHEMA_INVALID" && d.Params["rule"] == c.rule || d.Code == "PX_LIMIT_EXCEEDED" && d.Params["of"] == c.rule
			found = found || broken && (d.Path == c.path || c.path == "" && strings.HasPrefix(d.Path, of))
		}
		if status != 200 || !strings.Contains(string(e.Data), `"valid":false`) || !found {
			t.Errorf("%s: %d %.300s told %q, want %s by %s", name, status, e.Data, told, c.path, c.rule)
		}
		if text := encode(t, e); strings.Contains(text, "s3cret") || strings.Contains(h.out.String(), "s3cret") {
			t.Errorf("%s is quoted: %.500s", name, text)
		}
	}
	// Ten megabytes do not come in at all.
	request, err := http.NewRequestWithContext(t.Context(), "POST", h.URL+"/v1/plugins/validate", strings.NewReader(`{"package":{"files":{"manifest.json":"`+strings.Repeat("x", 10<<20)+`"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+person)
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil || response.StatusCode != http.StatusRequestEntityTooLarge {
		t.Fatal(response, err)
	}
	response.Body.Close()
}

// Arguments that a declaration cannot take in are refused by the product's own adapters,
// each by its rule, before anything is sent.
//
// covers: A1, A4, A5, C4
func TestArgumentsThatDoNotFitAreNotSent(t *testing.T) {
	h := start(t)
	env := h.environmentOf(t, "capability_api")
	store := plugins.New(env).Store()
	if _, err := store.Change(t.Context(), rows.Change{Workspace: "team", Member: &rows.Membership{Actor: h.URL + "|engineer", Member: capability.Member{Rights: []capability.Right{capability.Use, capability.Manage}}}}); err != nil {
		t.Fatal(err)
	}
	w := &outerWorld{host: h, t: t}
	// No name below .example is ever of anybody, and nothing is asked of it: see below.
	nobody := connectorTo("api", "nobody.example.com", "/")
	runtime := func(more m) m {
		r := m{"adapter": "http_json", "connector_id": "api", "method": "POST"}
		for name, value := range more {
			r[name] = value
		}
		return r
	}
	w.install(plugin(list{nobody}, list{
		skill("t.params", 10, runtime(m{"request_params": m{"n": "{arguments.n}"}})),
		skill("t.inside", 10, runtime(m{"request_body": m{"n": "x {arguments.n}"}})),
		skill("t.text", 10, m{"adapter": "text_template", "template": "x {arguments.n}"}),
		skill("t.proto", 10, m{"adapter": "text_template", "template": "{arguments.__proto__}{arguments.constructor}"}),
		skill("t.mcp", 10, m{"adapter": "mcp_http", "connector_id": "mcp", "tool_name": "t", "protocol_version": "2025-11-25", "argument_template": m{"n": list{"{arguments.n}"}}}),
	}, connectorTo("mcp", "nobody.example.com", "/", m{"protocol": "mcp"})))
	values := list{}
	for i := range 65 {
		values = append(values, i)
	}
	for name, c := range map[string]struct {
		capability string
		arguments  m
		argument   string // all together where it is empty
		rule       string
	}{
		"65 values":                 {"t.params", m{"n": values}, "n", "too_many"},
		"16 KiB and one byte":       {"t.params", m{"n": strings.Repeat("x", 16<<10-1)}, "", "too_long"},
		"16 KiB of what grows":      {"t.params", m{"n": strings.Repeat("가", 1821)}, "", "too_long"},
		"an object in a URL":        {"t.params", m{"n": m{"s3cret": 1}}, "n", "not_list"},
		"a list in a list in a URL": {"t.params", m{"n": list{list{1}}}, "n", "not_list"},
		"an object in a text":       {"t.inside", m{"n": m{"s3cret": 1}}, "n", "not_scalar"},
		"a missing key of a body":   {"t.inside", m{"other": "s3cret"}, "n", "missing"},
		"a missing key of a text":   {"t.text", m{"other": "s3cret"}, "n", "missing"},
		"a missing key of a call":   {"t.mcp", m{"other": "s3cret"}, "n", "missing"},
		"a prototype":               {"t.proto", m{"n": "s3cret"}, "__proto__", "missing"},
	} {
		e := w.call(c.capability, c.arguments, "")
		if e.State != "failed" || e.code() != "EXTENSION_INPUT_INVALID" || e.Failure.Params["argument"] != c.argument || e.Failure.Params["rule"] != c.rule {
			t.Errorf("%s: %s, want %s", name, e.body, c.rule)
		}
		w.silent("s3cret", e)
	}
}
