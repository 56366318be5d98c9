package acceptance

import (
	"archive/zip"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pxhost/pxhost/shared/capability"
	storage "github.com/pxhost/pxhost/shared/capability/host"
)

// notesPlugin is a plugin of texts; its second tool asks for a permission and its third for a
// Connection.
const notesPlugin = `{"pluginKey":"acme.notes","version":"1.0.0","title":"노트","permissions":["storage","network","credentials"],
"settings_schema":{"type":"object","properties":{"lang":{"type":"string","enum":["ko","en"]}},"additionalProperties":false},
"connectors":[{"connector_id":"api","base_url":"https://api.example.com","auth":{"kind":"bearer"}}],
"capabilities":[
 {"id":"notes.tidy","kind":"skill","title":"정리","description":"Tidies a note.","permissions":[],"timeout_seconds":60,
  "input_schema":{"type":"object","properties":{"query":{"type":"string","maxLength":70000}},"required":["query"],"additionalProperties":false},
  "runtime":{"adapter":"text_template","template":"요청을 다음 형식으로 정리합니다: {query}"}},
 {"id":"notes.stored","kind":"tool","title":"저장","description":"d","permissions":["storage"],"timeout_seconds":60,"runtime":{"adapter":"text_template","template":"x"}},
 {"id":"notes.search","kind":"tool","title":"찾기","description":"d","permissions":["network","credentials"],"timeout_seconds":60,"runtime":{"adapter":"http_json","connector_id":"api","method":"GET"}}],
"slash_commands":[{"id":"notes.tidy_command","command":"tidy","title":"정리","description":"d","capability":"notes.tidy","argument_template":{"query":"{query}"}}]}`

const pluginSpace = "structural_team"

// plugged is a host with the rows of its capability host, and rights in the workspace:
// the engineer uses, the reviewer manages and uses, the viewer and the other may nothing.
func plugged(t *testing.T, flags ...string) *host {
	t.Helper()
	h := start(t, flags...)
	h.mayIn(t, "engineer", capability.Use)
	h.mayIn(t, "reviewer", capability.Use, capability.Manage)
	return h
}

// mayIn gives a sample principal rights in the workspace, in place of those it had.
func (h *host) mayIn(t *testing.T, as string, rights ...capability.Right) {
	t.Helper()
	store, actor := h.parts(t).Store, h.URL+"|"+as
	m, err := store.Member(t.Context(), pluginSpace, actor)
	if err == nil {
		m.Rights = rights
		_, err = store.Change(t.Context(), storage.Change{Workspace: pluginSpace, Member: &storage.Membership{Actor: actor, Member: m}})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A client is a principal at the door of the capability host: the host of an AI by its
// token of tools, or a person's browser.
type plugClient struct {
	h     *host
	token string
}

func (h *host) ai(t *testing.T, as string) plugClient     { return plugClient{h, h.token(t, as)} }
func (h *host) person(t *testing.T, as string) plugClient { return plugClient{h, h.approver(t, as)} }

// A heard is an answer of the door.
type heard struct {
	status int
	header http.Header
	envelope
	data m
}

func (c plugClient) ask(t *testing.T, method, path string, body any) heard {
	t.Helper()
	text := ""
	if s, ok := body.(string); ok {
		text = s
	} else if body != nil {
		text = encode(t, body)
	}
	status, header, e := c.h.decide(t, c.token, method, path, text)
	out := heard{status, header, e, nil}
	if len(e.Data) > 0 {
		json.Unmarshal(e.Data, &out.data)
	}
	return out
}

// told is the first diagnostic of a refusal.
func (a heard) told() string {
	if len(a.Diagnostics) == 0 {
		return ""
	}
	return strings.TrimSpace(a.Diagnostics[0].Code + " " + a.Diagnostics[0].Path)
}

// at is a member of the data by its names.
func (a heard) at(names ...string) string {
	var v any = map[string]any(a.data)
	for _, n := range names {
		in, _ := v.(map[string]any)
		v = in[n]
	}
	if v == nil {
		return ""
	}
	return fmt.Sprint(v)
}

func (c plugClient) catalog(t *testing.T) heard {
	t.Helper()
	return c.ask(t, "GET", "/v1/capabilities?workspaceKey="+pluginSpace, nil)
}

func (c plugClient) invoke(t *testing.T, instance, capability string, body m) heard {
	t.Helper()
	return c.ask(t, "POST", "/v1/capabilities/"+instance+"/"+capability+"/invoke", body)
}

// install installs a manifest and returns the instance's ID.
func (c plugClient) install(t *testing.T, key, manifest string, granted ...string) string {
	t.Helper()
	a := c.ask(t, "POST", "/v1/plugins", m{"workspaceKey": pluginSpace, "idempotencyKey": key, "package": m{"files": m{"manifest.json": manifest}}, "granted": append([]string{}, granted...)})
	if a.status != http.StatusOK {
		t.Fatalf("%d %+v", a.status, a.envelope)
	}
	return a.at("instanceId")
}

func calling(surface, key, query string) m {
	return m{"arguments": m{"query": query}, "surface": surface, "idempotencyKey": key}
}

// Installed, a capability is called by a button, an AI and a slash command; switched off,
// the very next call is told so.
//
// covers: C1, C2, C3, C7
func TestAPluginIsInstalledCalledFromEverywhereAndSwitchedOff(t *testing.T) {
	t.Parallel()
	h := plugged(t)
	manager, screen, model := h.person(t, "reviewer"), h.person(t, "engineer"), h.ai(t, "engineer")
	before := model.catalog(t)
	if before.status != 200 || len(before.data["capabilities"].(list)) != 0 {
		t.Fatalf("%d %+v", before.status, before.envelope)
	}
	id := manager.install(t, "one", notesPlugin)
	after := model.catalog(t)
	if len(after.data["capabilities"].(list)) != 3 || after.header.Get("Etag") == before.header.Get("Etag") || after.header.Get("Etag") != `"`+after.at("generation")+`"` {
		t.Fatalf("%v %+v", after.header, after.envelope)
	}
	want := "요청을 다음 형식으로 정리합니다: 회의"
	first := screen.invoke(t, id, "notes.tidy", with(calling("ui", "k1", "회의"), m{"generation": 1}))
	if first.status != 200 || first.at("state") != "succeeded" || first.at("result", "data", "text") != want {
		t.Fatalf("%d %+v", first.status, first.envelope)
	}
	found := model.ask(t, "POST", "/v1/slash/resolve", m{"workspaceKey": pluginSpace, "text": "/tidy 회의"})
	if found.at("instanceId") != id || found.at("capabilityId") != "notes.tidy" || found.at("arguments", "query") != "회의" {
		t.Fatalf("%d %+v", found.status, found.envelope)
	}
	// One key is one execution, whoever's hand it comes from; another request under it is none.
	for _, c := range []heard{model.invoke(t, id, "notes.tidy", calling("ai", "k1", "회의")), model.invoke(t, id, "notes.tidy", calling("slash", "k1", "회의"))} {
		if c.status != 200 || c.at("executionId") != first.at("executionId") || c.at("result", "data", "text") != want {
			t.Errorf("%d %+v", c.status, c.envelope)
		}
	}
	if a := model.invoke(t, id, "notes.tidy", calling("ai", "k1", "다른 것")); a.status != 409 || a.told() != "PX_COMMAND_REUSED /idempotencyKey" {
		t.Errorf("%d %+v", a.status, a.envelope)
	}
	for _, surface := range []string{"ai", "slash"} {
		if a := model.invoke(t, id, "notes.tidy", calling(surface, "k-"+surface, "회의")); a.status != 200 || a.at("executionId") == first.at("executionId") || a.at("result", "data", "text") != want {
			t.Errorf("%d %+v", a.status, a.envelope)
		}
	}
	read := model.ask(t, "GET", "/v1/executions/"+first.at("executionId"), nil)
	if read.status != 200 || read.at("surface") != "ui" || read.at("result", "summary") != want {
		t.Errorf("%d %+v", read.status, read.envelope)
	}
	if a := h.ai(t, "reviewer").ask(t, "GET", "/v1/executions/"+first.at("executionId"), nil); a.status != 404 || a.told() != "EXTENSION_NOT_FOUND" {
		t.Errorf("another's execution is told: %d %+v", a.status, a.envelope)
	}
	if a := manager.ask(t, "POST", "/v1/plugins/"+id+"/disable", m{"generation": 1}); a.status != 200 {
		t.Fatalf("%d %+v", a.status, a.envelope)
	}
	if a := model.invoke(t, id, "notes.tidy", calling("ai", "k3", "회의")); a.status != 409 || a.told() != "EXTENSION_DISABLED" {
		t.Errorf("%d %+v", a.status, a.envelope)
	}
	if a := model.catalog(t); len(a.data["capabilities"].(list)) != 0 {
		t.Errorf("%+v", a.envelope)
	}
	if a := manager.ask(t, "POST", "/v1/plugins/"+id+"/enable", m{"generation": 2}); a.status != 200 || a.at("generation") != "3" {
		t.Errorf("%d %+v", a.status, a.envelope)
	}
	if a := model.invoke(t, id, "notes.tidy", calling("ai", "k3", "회의")); a.status != 200 || a.at("state") != "succeeded" {
		t.Errorf("%d %+v", a.status, a.envelope)
	}
}

// Every reason has its code, and nothing is stored for any of them.
//
// covers: C2, C4, C5, C8
func TestWhatCannotBeCalledSaysWhyAndStoresNothing(t *testing.T) {
	t.Parallel()
	h := plugged(t)
	manager, model := h.person(t, "reviewer"), h.ai(t, "engineer")
	id := manager.install(t, "one", notesPlugin, "network", "credentials")
	off := manager.install(t, "off", notesPlugin)
	gone := manager.install(t, "gone", notesPlugin)
	lacking := manager.install(t, "lacking", strings.Replace(notesPlugin, `"slash_commands"`, `"dependencies":[{"pluginKey":"acme.base","minimum":"1.0.0"}],"slash_commands"`, 1))
	for verb, instance := range map[string]string{"disable": off, "remove": gone} {
		if a := manager.ask(t, "POST", "/v1/plugins/"+instance+"/"+verb, m{"generation": 1}); a.status != 200 {
			t.Fatalf("%s: %d %+v", verb, a.status, a.envelope)
		}
	}
	noZip := base64.StdEncoding.EncodeToString([]byte("sekret"))
	order := func(more m) m {
		return with(m{"workspaceKey": pluginSpace, "idempotencyKey": "bad", "package": m{"files": m{"manifest.json": notesPlugin}}}, more)
	}
	tidy := "/v1/capabilities/" + id + "/notes.tidy/invoke"
	execution := "/v1/executions/exec_00000000000000000000000000"
	check := h.unchanged(t)
	for name, c := range map[string]struct {
		who          plugClient
		method, path string
		body         any
		status       int
		want         string
	}{
		"no such instance":                     {model, "POST", "/v1/capabilities/inst_none/notes.tidy/invoke", calling("ai", "k", "sekret"), 404, "EXTENSION_NOT_FOUND"},
		"no such capability":                   {model, "POST", "/v1/capabilities/" + id + "/notes.none/invoke", calling("ai", "k", "sekret"), 404, "EXTENSION_NOT_FOUND"},
		"one that was removed":                 {model, "POST", "/v1/capabilities/" + gone + "/notes.tidy/invoke", calling("ai", "k", "sekret"), 404, "EXTENSION_NOT_FOUND"},
		"of a workspace that is not his":       {h.ai(t, "viewer"), "POST", tidy, calling("ai", "k", "sekret"), 404, "EXTENSION_NOT_FOUND"},
		"one that is switched off":             {model, "POST", "/v1/capabilities/" + off + "/notes.tidy/invoke", calling("ai", "k", "sekret"), 409, "EXTENSION_DISABLED"},
		"a permission that is not granted":     {model, "POST", "/v1/capabilities/" + id + "/notes.stored/invoke", calling("ai", "k", "sekret"), 403, "EXTENSION_PERMISSION_DENIED"},
		"no Connection":                        {model, "POST", "/v1/capabilities/" + id + "/notes.search/invoke", calling("ai", "k", "sekret"), 409, "EXTENSION_CONNECTION_REQUIRED"},
		"a plugin that is not there":           {model, "POST", "/v1/capabilities/" + lacking + "/notes.tidy/invoke", calling("ai", "k", "sekret"), 409, "EXTENSION_DEPENDENCY_REQUIRED"},
		"another generation":                   {model, "POST", tidy, with(calling("ui", "k", "sekret"), m{"generation": 2}), 409, "EXTENSION_VERSION_MISMATCH /generation"},
		"a screen without generation":          {model, "POST", tidy, calling("ui", "k", "sekret"), 400, "PX_SCHEMA_INVALID /generation"},
		"arguments of another type":            {model, "POST", tidy, with(calling("ai", "k", ""), m{"arguments": m{"query": 7}}), 400, "EXTENSION_INPUT_INVALID /arguments"},
		"arguments that are missing":           {model, "POST", tidy, with(calling("ai", "k", ""), m{"arguments": m{}}), 400, "EXTENSION_INPUT_INVALID /arguments"},
		"arguments that are too many":          {model, "POST", tidy, with(calling("ai", "k", ""), m{"arguments": m{"query": "q", "sekret": 1}}), 400, "EXTENSION_INPUT_INVALID /arguments"},
		"arguments that are too long":          {model, "POST", tidy, calling("ai", "k", strings.Repeat("a", 70_001)), 400, "EXTENSION_INPUT_INVALID /arguments"},
		"arguments that are too large":         {model, "POST", tidy, calling("ai", "k", strings.Repeat("a", 300_000)), 400, "EXTENSION_INPUT_INVALID /arguments"},
		"arguments that are a list":            {model, "POST", tidy, with(calling("ai", "k", ""), m{"arguments": list{"sekret"}}), 400, "EXTENSION_INPUT_INVALID /arguments"},
		"a call without a key":                 {model, "POST", tidy, m{"arguments": m{"query": "sekret"}, "surface": "ai"}, 400, "PX_SCHEMA_INVALID /idempotencyKey"},
		"a call as the Host's own":             {model, "POST", tidy, calling("background", "k", "sekret"), 400, "PX_SCHEMA_INVALID /surface"},
		"a member that a call has not":         {model, "POST", tidy, with(calling("ai", "k", "q"), m{"capability": "sekret"}), 400, "PX_SCHEMA_UNKNOWN_FIELD /capability"},
		"a body that is too large":             {model, "POST", tidy, calling("ai", "k", strings.Repeat("a", 600_000)), 413, ""},
		"a body that is no JSON":               {model, "POST", tidy, `{"arguments":`, 400, ""},
		"an execution that is none":            {model, "GET", execution, nil, 404, "EXTENSION_NOT_FOUND"},
		"an execution that is none, to end":    {model, "POST", execution + "/cancel", "{}", 404, "EXTENSION_NOT_FOUND"},
		"a command that is none":               {model, "POST", "/v1/slash/resolve", m{"workspaceKey": pluginSpace, "text": "/sekret x"}, 404, "SLASH_COMMAND_UNAVAILABLE"},
		"a command of two plugins":             {model, "POST", "/v1/slash/resolve", m{"workspaceKey": pluginSpace, "text": "/tidy x"}, 409, "SLASH_COMMAND_AMBIGUOUS"},
		"a choice that was removed":            {model, "POST", "/v1/slash/resolve", m{"workspaceKey": pluginSpace, "text": "x", "instanceId": gone, "commandId": "notes.tidy_command"}, 404, "SLASH_COMMAND_UNAVAILABLE"},
		"half a choice":                        {model, "POST", "/v1/slash/resolve", m{"workspaceKey": pluginSpace, "text": "x", "instanceId": id}, 400, "PX_SCHEMA_INVALID /commandId"},
		"a catalog of no workspace":            {model, "GET", "/v1/capabilities", nil, 400, "PX_SCHEMA_INVALID /workspaceKey"},
		"a catalog of a workspace not his":     {h.ai(t, "viewer"), "GET", "/v1/capabilities?workspaceKey=" + pluginSpace, nil, 403, "EXTENSION_PERMISSION_DENIED"},
		"notifications of a workspace not his": {h.ai(t, "viewer"), "GET", "/v1/notifications?workspaceKey=" + pluginSpace, nil, 403, "EXTENSION_PERMISSION_DENIED"},
		"an AI that installs":                  {h.ai(t, "reviewer"), "POST", "/v1/plugins", order(nil), 403, ""},
		"an AI that grants":                    {h.ai(t, "reviewer"), "POST", "/v1/plugins/" + id + "/grant", m{"generation": 1, "granted": list{"storage"}}, 403, ""},
		"who may only use, and installs":       {h.person(t, "engineer"), "POST", "/v1/plugins", order(nil), 403, "EXTENSION_PERMISSION_DENIED"},
		"who may only use, and removes":        {h.person(t, "engineer"), "POST", "/v1/plugins/" + id + "/remove", m{"generation": 1}, 403, "EXTENSION_PERMISSION_DENIED"},
		"who may nothing, and removes":         {h.person(t, "viewer"), "POST", "/v1/plugins/" + id + "/remove", m{"generation": 1}, 404, "EXTENSION_NOT_FOUND"},
		"no zip":                               {manager, "POST", "/v1/plugins", order(m{"package": m{"zip": noZip}}), 400, "PX_SCHEMA_INVALID /package"},
		"no base64":                            {manager, "POST", "/v1/plugins", order(m{"package": m{"zip": "sekret!"}}), 400, "PX_SCHEMA_INVALID /package"},
		"a manifest that is wrong":             {manager, "POST", "/v1/plugins", order(m{"package": m{"files": m{"manifest.json": strings.Replace(notesPlugin, `"notes.tidy","kind":"skill"`, `"notes.tidy","kind":"sekret"`, 1)}}}), 400, "PX_SCHEMA_INVALID /package/manifest.json/capabilities/0/kind"},
		"more than is asked for":               {manager, "POST", "/v1/plugins", order(m{"granted": list{"notifications"}}), 400, "PX_SCHEMA_INVALID /granted"},
		"settings that do not fit":             {manager, "POST", "/v1/plugins", order(m{"settings": m{"lang": "sekret"}}), 400, "PX_SCHEMA_INVALID /settings/lang"},
		"an update of another generation":      {manager, "POST", "/v1/plugins/" + id + "/update", m{"generation": 5, "package": m{"files": m{"manifest.json": notesPlugin}}}, 409, "EXTENSION_VERSION_MISMATCH /generation"},
		"another key's order":                  {manager, "POST", "/v1/plugins", order(m{"idempotencyKey": "one"}), 409, "PX_COMMAND_REUSED /idempotencyKey"},
		"no token":                             {plugClient{h, ""}, "GET", "/v1/capabilities?workspaceKey=" + pluginSpace, nil, 401, ""},
	} {
		t.Run(name, func(t *testing.T) {
			a := c.who.ask(t, c.method, c.path, c.body)
			if a.status != c.status || a.told() != c.want {
				t.Errorf("%d %+v", a.status, a.envelope)
			}
			if strings.Contains(encode(t, a.envelope), "sekret") {
				t.Errorf("what was sent is told: %+v", a.envelope)
			}
		})
	}
	check(t)
}

// The answer of whoever has the catalog already is short.
//
// covers: C3
func TestACatalogIsNotSentTwice(t *testing.T) {
	t.Parallel()
	h := plugged(t)
	model := h.ai(t, "engineer")
	h.person(t, "reviewer").install(t, "one", notesPlugin)
	tag := model.catalog(t).header.Get("Etag")
	get := func() (int, string) {
		request, err := http.NewRequestWithContext(t.Context(), "GET", h.URL+"/v1/capabilities?"+url.Values{"workspaceKey": {pluginSpace}}.Encode(), nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+model.token)
		request.Header.Set("If-None-Match", tag)
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		text, _ := io.ReadAll(response.Body)
		return response.StatusCode, string(text)
	}
	if status, text := get(); status != 304 || text != "" {
		t.Errorf("%d %s", status, text)
	}
	h.mayIn(t, "other", capability.Use)
	if status, _ := get(); status != 200 {
		t.Errorf("a change of rights goes unseen: %d", status)
	}
}

// One key through two processes of the door at the same time is one execution, and one
// generation is changed once.
//
// covers: C1, C2, C3
func TestWhatComesThroughTwoDoorsHappensOnce(t *testing.T) {
	t.Parallel()
	const crowd = 32
	h := plugged(t, "--services-only")
	urls := []string{h.endpointStack(t, "one", "30m"), h.endpointStack(t, "two", "30m")}
	doors := []*host{{URL: urls[0], state: h.state, tokens: map[string]string{}}, {URL: urls[1], state: h.state, tokens: map[string]string{}}}
	token, manage := h.token(t, "engineer"), h.approver(t, "reviewer")
	id := plugClient{doors[0], manage}.install(t, "one", notesPlugin)
	answers := make([]heard, crowd)
	var done sync.WaitGroup
	begin := make(chan struct{})
	for i := range crowd {
		done.Go(func() {
			<-begin
			for {
				answers[i] = plugClient{doors[i%2], token}.invoke(t, id, "notes.tidy", calling("ai", "k", "회의"))
				if answers[i].status != http.StatusServiceUnavailable {
					return
				}
				time.Sleep(100 * time.Millisecond)
			}
		})
	}
	close(begin)
	done.Wait()
	for i, a := range answers {
		if a.status != 200 || a.at("state") != "succeeded" || a.at("executionId") != answers[0].at("executionId") || a.at("endedAt") != answers[0].at("endedAt") {
			t.Errorf("%d: %d %+v", i, a.status, a.envelope)
		}
	}
	executions := 0
	for key := range h.dump(t) {
		if strings.HasPrefix(key, "HOST execution#") {
			executions++
		}
	}
	if executions != 1 {
		t.Errorf("there are %d executions", executions)
	}

	// Of managers who change one instance at the same time, one does, and the others are
	// told that it has changed. The same order from all of them is one instance.
	orders := make([]heard, crowd)
	changes := make([]heard, crowd)
	begin = make(chan struct{})
	for i := range crowd {
		settled := func(into *heard, path string, body m) {
			for {
				*into = plugClient{doors[i%2], manage}.ask(t, "POST", path, body)
				if into.status != http.StatusServiceUnavailable {
					return
				}
				time.Sleep(100 * time.Millisecond)
			}
		}
		done.Go(func() {
			<-begin
			settled(&orders[i], "/v1/plugins", m{"workspaceKey": pluginSpace, "idempotencyKey": "two", "package": m{"files": m{"manifest.json": notesPlugin}}})
		})
		done.Go(func() {
			<-begin
			settled(&changes[i], "/v1/plugins/"+id+"/grant", m{"generation": 1, "actors": list{h.URL + "|engineer", fmt.Sprint("somebody|", i)}})
		})
	}
	close(begin)
	done.Wait()
	won := 0
	for i := range crowd {
		if a := orders[i]; a.status != 200 || a.at("instanceId") != orders[0].at("instanceId") || a.at("generation") != "1" {
			t.Errorf("order %d: %d %+v", i, a.status, a.envelope)
		}
		switch a := changes[i]; {
		case a.status == 200 && a.at("generation") == "2":
			won++
		case a.status != 409 || a.told() != "EXTENSION_VERSION_MISMATCH /generation":
			t.Errorf("change %d: %d %+v", i, a.status, a.envelope)
		}
	}
	if won != 1 {
		t.Errorf("%d managers won", won)
	}
	listed := plugClient{doors[0], manage}.ask(t, "GET", "/v1/plugins?workspaceKey="+pluginSpace, nil)
	if plugins := listed.data["plugins"].(list); len(plugins) != 2 {
		t.Errorf("%d instances", len(plugins))
	}
}

// A package of the largest size comes in as a zip; a larger one does not, and is told why.
//
// covers: C1
func TestAPackageOfTheLargestSize(t *testing.T) {
	t.Parallel()
	h := plugged(t)
	manager := h.person(t, "reviewer")
	const files = 12
	var capabilities list
	for i := range files {
		capabilities = append(capabilities, m{"id": fmt.Sprint("large.c", i), "kind": "tool", "title": "t", "description": "d", "permissions": list{}, "timeout_seconds": 30, "runtime": m{"adapter": "sandbox_python", "entrypoint": fmt.Sprintf("src/c%d.py", i)}})
	}
	manifest := encode(t, m{"pluginKey": "large", "version": "1.0.0", "title": "t", "capabilities": capabilities})
	packed := func(more int) string {
		var out bytes.Buffer
		w := zip.NewWriter(&out)
		add := func(name, text string) {
			// Stored, so that the size is that of what is in it.
			f, err := w.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Store})
			if err == nil {
				_, err = io.WriteString(f, text)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		add("manifest.json", manifest)
		source := "def main(input):\n    return {\"summary\": \"s\", \"data\": {}}\n#"
		// A zip names its files twice.
		each := (3<<20-len(manifest)-4000)/files - 1
		for i := range files {
			add(fmt.Sprintf("src/c%d.py", i), source+strings.Repeat("x", each-len(source)+more/files))
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return base64.StdEncoding.EncodeToString(out.Bytes())
	}
	order := func(key, zip string) m {
		return m{"workspaceKey": pluginSpace, "idempotencyKey": key, "package": m{"zip": zip}}
	}
	if a := manager.ask(t, "POST", "/v1/plugins", order("fits", packed(0))); a.status != 200 || len(a.data["capabilities"].(list)) != files {
		t.Errorf("%d %.2000s", a.status, fmt.Sprint(a.envelope))
	}
	check := h.unchanged(t)
	if a := manager.ask(t, "POST", "/v1/plugins", order("more", packed(8000))); a.status != 400 || a.told() != "PX_SCHEMA_INVALID /package/zip" || a.Diagnostics[0].Params["limit"] == nil {
		t.Errorf("%d %.2000s", a.status, fmt.Sprint(a.envelope))
	}
	if a := manager.ask(t, "POST", "/v1/plugins", order("much more", packed(400_000))); a.status < 400 || a.status > 499 {
		t.Errorf("%d %.2000s", a.status, fmt.Sprint(a.envelope))
	}
	check(t)
}
