package door_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/draft"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/identity"
	"github.com/pxhost/pxhost/shared/policy"
	"github.com/pxhost/pxhost/shared/review/door"
)

const (
	author      = identity.ScopeTools + " engineer s1"
	bridgeScope = `{"kind":"project","workspaceKey":"team","projectKey":"bridge"}`
	aFlow       = `{"format":"pxflow/1","flowKey":"beam","authoring":{"kind":"native"},"inputs":{"span":{"type":"number","unit":"m"}},"results":{},"nodes":{}}`
	aReport     = `{"format":"pxreport/1","reportKey":"review","blockOrder":[],"blocks":{},"connections":{}}`
)

func drafting(document string) string {
	return `{"scope":` + bridgeScope + `,"document":` + document + `}`
}

// linked is a Flow that is made from a Python source.
func linked(source string) string {
	return strings.Replace(aFlow, `{"kind":"native"}`, `{"kind":"sdk","sourceDigest":"`+canon.Digest([]byte(source))+`"}`, 1)
}

func sourced(document, source string) string {
	text, err := json.Marshal(source)
	if err != nil {
		panic(err)
	}
	body := drafting(document)
	return body[:len(body)-1] + `,"source":` + string(text) + `}`
}

// told are all diagnostics, with the rule of each.
func told(a answer) string {
	var envelope struct {
		Diagnostics []struct {
			Code, Path string
			Params     map[string]any
		}
	}
	if err := json.Unmarshal([]byte(a.body), &envelope); err != nil {
		return a.body
	}
	var out []string
	for _, d := range envelope.Diagnostics {
		out = append(out, strings.TrimSpace(fmt.Sprint(d.Code, " ", d.Path, " ", text_(d.Params["rule"]))))
	}
	return strings.Join(out, ", ")
}

// covers: T4
func TestADraftIsMadeOfWhateverCanBeDecoded(t *testing.T) {
	b := newBench(t)
	for name, c := range map[string]struct{ document, key string }{
		"a Flow":   {aFlow, "beam"},
		"a Report": {aReport, "review"},
		"a Flow with a cycle, a binding that leads nowhere and a Component that is not there": {`{"format":"pxflow/1","flowKey":"beam","authoring":{"kind":"native"},"inputs":{},
			"results":{"r":{"type":"number","unit":"m","binding":{"kind":"nodeResult","nodeKey":"gone","portKey":"x"}}},
			"nodes":{"a":{"target":{"kind":"component","componentKey":"acme.solver","version":1},"inputBindings":{"x":{"kind":"nodeResult","nodeKey":"a","portKey":"y"}}}}}`, "beam"},
		"a Flow written in another order, with white space": {"\n\t" + `{ "flowKey" : "beam", "nodes":{}, "results":{}, "format":"pxflow/1", "inputs":{"span":{"unit":"m","type":"number"}}, "authoring":{"kind":"native"} }` + "\r\n ", "beam"},
	} {
		a := b.send(author, door.DraftsKey, "", drafting(c.document))
		if a.status != http.StatusOK {
			t.Fatalf("%s: %d %s", name, a.status, a.body)
		}
		handle, kind := a.data["documentHandle"].(string), "flow"
		if a.data["reportKey"] != nil {
			kind = "report"
		}
		opened, ok, err := b.handles().Open(t.Context(), draft.Holder{Principal: issuer + "engineer", Session: "s1"}, bridge, kind, handle)
		if err != nil || !ok || opened.Key != c.key || a.data["digest"] != string(opened.Object) || a.data[kind+"Key"] != c.key {
			t.Errorf("%s: %+v, %v, %v of %s", name, opened, ok, err, a.body)
		}
		if _, err := b.store.Get(t.Context(), history.Space(bridge.String()), opened.Object); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if at := a.data["target"].(map[string]any); at["documentHandle"] != handle || len(at) != 2 || a.data["expiresAt"] != b.now.Add(draft.Life).Format(time.RFC3339) {
			t.Errorf("%s: %s", name, a.body)
		}
	}
	// The source of an SDK-linked Flow comes with it, to the byte; without one it is a draft too.
	const source = "import px\r\n# 보\n"
	for body, want := range map[string]string{drafting(linked(source)): "", sourced(linked(source), source): source} {
		a := b.send(author, door.DraftsKey, "", body)
		opened, ok, err := b.handles().Open(t.Context(), draft.Holder{Principal: issuer + "engineer", Session: "s1"}, bridge, "flow", fmt.Sprint(a.data["documentHandle"]))
		if err != nil || !ok || (opened.Source != "") != (want != "") {
			t.Fatalf("%s: %+v, %v, %v", body, opened, ok, err)
		}
		if want != "" {
			if got, err := b.store.Get(t.Context(), history.Space(bridge.String()), opened.Source); err != nil || string(got[0]) != want {
				t.Errorf("%q, %v", got, err)
			}
		}
	}
	// The same document is the same object, and another handle.
	first, second := b.send(author, door.DraftsKey, "", drafting(aFlow)), b.send(author, door.DraftsKey, "", drafting(strings.Replace(aFlow, ":", ": ", 3)))
	if first.data["digest"] != second.data["digest"] || first.data["documentHandle"] == second.data["documentHandle"] {
		t.Errorf("%s and %s", first.body, second.body)
	}
}

// The sample event makes a draft, as it stands.
//
// covers: H2
func TestTheSampleEventMakesADraft(t *testing.T) {
	b := newBench(t)
	text, err := os.ReadFile("../../../events/review_api.draft.json")
	b.must(err)
	text = []byte(strings.NewReplacer("Bearer engineer", "Bearer "+author, "structural_team", "team", "bridge_package", "bridge").Replace(string(text)))
	answer, err := b.door.Invoke(t.Context(), text)
	b.must(err)
	if !strings.Contains(string(answer), `documentHandle`) {
		t.Errorf("%s", answer)
	}
}

// covers: T4, E2, W6
func TestADraftThatIsNoneIsToldAllThatIsWrongAtOnce(t *testing.T) {
	b := newBench(t)
	b.must(b.admin.SetGrant(t.Context(), bridge, issuer+"editor", []policy.Right{policy.Edit}))
	padded := func(size int) string {
		text := drafting(aFlow)
		return text[:len(text)-1] + strings.Repeat(" ", size-len(text)) + "}"
	}
	large := func(bytes int) string {
		document := strings.Replace(aReport, `"blockOrder":[],"blocks":{}`, `"blockOrder":["t"],"blocks":{"t":{"kind":"text","text":"TEXT"}}`, 1)
		return drafting(strings.Replace(document, "TEXT", strings.Repeat("x", bytes-len(document)+len("TEXT")), 1))
	}
	for name, c := range map[string]struct {
		as, body string
		status   int
		told     string
	}{
		"nothing":                     {author, `{}`, 400, "PX_SCHEMA_INVALID /scope required, PX_SCHEMA_INVALID /document required"},
		"no document":                 {author, `{"scope":` + bridgeScope + `}`, 400, "PX_SCHEMA_INVALID /document required"},
		"no scope":                    {author, `{"document":` + aFlow + `}`, 400, "PX_SCHEMA_INVALID /scope required"},
		"half a scope":                {author, `{"scope":{"kind":"project","projectKey":"bridge"},"document":` + aFlow + `}`, 400, "PX_SCHEMA_INVALID /scope/workspaceKey required"},
		"a scope of another kind":     {author, `{"scope":{"kind":"principal"},"document":` + aFlow + `}`, 400, "PX_SCHEMA_INVALID /scope/kind enum, PX_SCHEMA_INVALID /scope/workspaceKey required, PX_SCHEMA_INVALID /scope/projectKey required"},
		"more than there is":          {author, strings.Replace(drafting(aFlow), `{`, `{"session":"s1","kind":"flow",`, 1), 400, "PX_SCHEMA_UNKNOWN_FIELD /kind, PX_SCHEMA_UNKNOWN_FIELD /session"},
		"a document that is text":     {author, drafting(`"pxflow/1"`), 400, "PX_SCHEMA_INVALID /document type"},
		"a document that is a list":   {author, drafting(`[` + aFlow + `]`), 400, "PX_SCHEMA_INVALID /document type"},
		"a document that is null":     {author, drafting(`null`), 400, "PX_SCHEMA_INVALID /document type"},
		"a document without a format": {author, drafting(strings.Replace(aFlow, `"format":"pxflow/1",`, "", 1)), 400, "PX_SCHEMA_INVALID /document/format required"},
		"a format of another version": {author, drafting(strings.Replace(aFlow, `pxflow/1`, `pxflow/2`, 1)), 400, "PX_SCHEMA_INVALID /document/format enum"},
		"a format that is a number":   {author, drafting(strings.Replace(aFlow, `"pxflow/1"`, `1`, 1)), 400, "PX_SCHEMA_INVALID /document/format type"},
		"a Flow that says it is a Report": {author, drafting(strings.Replace(aFlow, `pxflow/1`, `pxreport/1`, 1)), 400, "PX_SCHEMA_UNKNOWN_FIELD /document/flowKey, " +
			"PX_SCHEMA_UNKNOWN_FIELD /document/authoring, PX_SCHEMA_UNKNOWN_FIELD /document/inputs, PX_SCHEMA_UNKNOWN_FIELD /document/results, PX_SCHEMA_UNKNOWN_FIELD /document/nodes, " +
			"PX_SCHEMA_INVALID /document/reportKey required, PX_SCHEMA_INVALID /document/blockOrder required, PX_SCHEMA_INVALID /document/blocks required, PX_SCHEMA_INVALID /document/connections required"},
		"a key that is none, a field that is unknown, a port without a type, and no scope": {author,
			`{"document":{"format":"pxflow/1","flowKey":"Beam","authoring":{"kind":"native"},"inputs":{"span":{"unit":"m"}},"results":{},"nodes":{},"color":1}}`, 400,
			"PX_SCHEMA_INVALID /document/flowKey pattern, PX_SCHEMA_INVALID /document/inputs/span/type required, PX_SCHEMA_UNKNOWN_FIELD /document/color, PX_SCHEMA_INVALID /scope required"},
		"a number that nothing holds":                {author, drafting(strings.Replace(aFlow, `"unit":"m"`, `"unit":"m","default":{"value":1e400,"unit":"m"}`, 1)), 400, "PX_SCHEMA_INVALID /document/inputs/span/default/value range"},
		"a native Flow with a source":                {author, sourced(aFlow, "import px\n"), 400, "PX_SCHEMA_INVALID /source sdk_only"},
		"a Report with a source":                     {author, sourced(aReport, "import px\n"), 400, "PX_SCHEMA_INVALID /source sdk_only"},
		"a Flow with another source":                 {author, sourced(linked("import px\n"), "import px"), 400, "PX_SOURCE_PARITY /document/authoring/sourceDigest"},
		"a Flow with no text for a source":           {author, sourced(linked("import px\n"), ""), 400, "PX_SCHEMA_INVALID /source minLength"},
		"a Flow with a source of 256 KiB and a byte": {author, sourced(linked(strings.Repeat("#", 256<<10+1)), strings.Repeat("#", 256<<10+1)), 413, "PX_LIMIT_EXCEEDED /source"},
		"half a body":                                {author, drafting(aFlow)[:60], 400, ""},
		"a name twice":                               {author, drafting(strings.Replace(aFlow, `"flowKey":"beam"`, `"flowKey":"beam","flowKey":"beam"`, 1)), 400, ""},
		"a body of 2 MiB and a byte":                 {author, padded(2<<20 + 1), 413, ""},
		"a document of 1 MiB and a byte":             {author, large(1<<20 + 1), 413, "PX_LIMIT_EXCEEDED /document"},
		"by who may only read":                       {identity.ScopeTools + " viewer s1", drafting(aFlow), 403, "PX_PERMISSION_DENIED /scope"},
		"by who may edit and not read":               {identity.ScopeTools + " editor s1", drafting(aFlow), 404, "PX_TARGET_NOT_FOUND /scope"},
		"by a stranger":                              {identity.ScopeTools + " nobody s1", drafting(aFlow), 404, "PX_TARGET_NOT_FOUND /scope"},
		"where there is no Project":                  {author, strings.Replace(drafting(aFlow), `"bridge"`, `"nowhere"`, 1), 404, "PX_TARGET_NOT_FOUND /scope"},
		"of no session":                              {identity.ScopeTools + " engineer", drafting(aFlow), 403, "PX_PERMISSION_DENIED"},
		"with the token of who approves":             {identity.ScopeApprove + " engineer s1", drafting(aFlow), 403, ""},
	} {
		made := b.objects.made
		if a := b.send(c.as, door.DraftsKey, "", c.body); a.status != c.status || told(a) != c.told {
			t.Errorf("%s: %d %s\nwant %d %s", name, a.status, told(a), c.status, c.told)
		}
		if b.objects.made != made {
			t.Errorf("%s: something is stored", name)
		}
	}
	// The limits themselves are allowed.
	for name, body := range map[string]string{"a body of 2 MiB": padded(2 << 20), "a document of 1 MiB": large(1 << 20)} {
		if a := b.send(author, door.DraftsKey, "", body); a.status != http.StatusOK {
			t.Errorf("%s: %d %.300s", name, a.status, a.body)
		}
	}
	// A decision is still short.
	if a := b.send(reviewer, approvePlan, "plan_x", `{"planDigest":"`+strings.Repeat("x", 64<<10)+`"}`); a.status != 413 {
		t.Errorf("a decision of 64 KiB and more: %d", a.status)
	}
}
