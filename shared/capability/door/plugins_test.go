package door_test

import (
	"archive/zip"
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/capability"
	"github.com/pxhost/pxhost/shared/capability/background"
	"github.com/pxhost/pxhost/shared/capability/host"
	"github.com/pxhost/pxhost/shared/capability/packaging"
	"github.com/pxhost/pxhost/shared/outcome"
)

const (
	listKey     = "GET /v1/plugins"
	installKey  = "POST /v1/plugins"
	validateKey = "POST /v1/plugins/validate"
	pluginKey   = "GET /v1/plugins/{instanceId}"
)

func order(key string, pkg object, more ...any) object {
	out := object{"workspaceKey": "team", "idempotencyKey": key, "package": pkg}
	for i := 0; i < len(more); i += 2 {
		out[more[i].(string)] = more[i+1]
	}
	return out
}

// signed are the files of a package that a key signed.
func signed(t *testing.T, manifest string, key ed25519.PrivateKey) map[string]string {
	t.Helper()
	p, findings := packaging.Texts(map[string]string{"manifest.json": manifest})
	if findings != nil {
		t.Fatal(findings)
	}
	p, err := p.Sign(key)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(p.Signature)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]string{"manifest.json": manifest, "signature.json": string(text)}
}

func key(seed byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed([]byte(strings.Repeat(string(rune(seed)), 32)))
}

// covers: C1
func TestAFolderAndAZipOfItAreOnePackage(t *testing.T) {
	b := newBench(t)
	for name, pkg := range map[string]object{"files": files(notes), "zip": zipped(map[string]string{"manifest.json": notes})} {
		a := b.send(person+"manager", installKey, nil, order(name, pkg, "granted", []string{"storage"}, "settings", object{"lang": "ko"}))
		if a.status != 200 || a.text("pluginKey") != "acme.notes" || a.text("enabled") != "true" || a.text("granted") != "[storage]" || a.text("settings", "lang") != "ko" || a.text("generation") != "1" {
			t.Fatal(name, a.status, a.body)
		}
	}
	a := b.send(person+"manager", listKey, nil, team)
	list := a.data["plugins"].([]any)
	if len(list) != 2 || list[0].(object)["packageDigest"] != list[1].(object)["packageDigest"] {
		t.Error(a.body)
	}
	for _, one := range list {
		if a := b.send(person+"manager", pluginKey, []string{one.(object)["instanceId"].(string)}, nil); a.status != 200 || len(a.data["capabilities"].([]any)) != 3 || a.data["connectors"].([]any)[0].(object)["auth"] != "bearer" {
			t.Error(a.status, a.body)
		}
	}
}

// An order that is sent again is the same instance; another one under its key is
// refused.
func TestAnOrderIsInstalledOnce(t *testing.T) {
	b := newBench(t)
	first := b.send(person+"manager", installKey, nil, order("k", files(notes)))
	generation := first.text("catalogGeneration")
	again := b.send(person+"manager", installKey, nil, order("k", zipped(map[string]string{"manifest.json": notes})))
	if again.status != 200 || again.text("instanceId") != first.text("instanceId") || again.text("catalogGeneration") != generation {
		t.Error(again.status, again.body)
	}
	for name, o := range map[string]object{
		"another package": order("k", files(edited(notes, "1.0.0", "1.0.1"))),
		"other grants":    order("k", files(notes), "granted", []string{"storage"}),
		"switched off":    order("k", files(notes), "enabled", false),
	} {
		writes := b.store.writes.Load()
		if a := b.send(person+"manager", installKey, nil, o); a.status != 409 || a.told() != "PX_COMMAND_REUSED /idempotencyKey" || b.store.writes.Load() != writes {
			t.Error(name, a.status, a.body)
		}
	}
	if a := b.send(person+"manager", listKey, nil, team); len(a.data["plugins"].([]any)) != 1 {
		t.Error(a.body)
	}
	// Also after it was changed, and not after it was removed.
	id := first.text("instanceId")
	b.manage(id, "disable", object{"generation": 1})
	if a := b.send(person+"manager", installKey, nil, order("k", files(notes))); a.status != 200 || a.text("enabled") != "false" || a.text("generation") != "2" {
		t.Error(a.status, a.body)
	}
	b.manage(id, "remove", object{"generation": 2})
	if a := b.send(person+"manager", installKey, nil, order("k", files(notes))); a.status != 404 || a.told() != "EXTENSION_NOT_FOUND" {
		t.Error(a.status, a.body)
	}
}

// All that is wrong with an order comes at once and nothing of it is stored.
//
// covers: C1, C4
func TestAnOrderThatIsWrongInstallsNothing(t *testing.T) {
	for name, c := range map[string]struct {
		as    string
		body  any
		found []string
	}{
		"who may only use":               {"user", order("k", files(notes)), []string{"EXTENSION_PERMISSION_DENIED"}},
		"who may nothing":                {"stranger", order("k", files(notes)), []string{"EXTENSION_PERMISSION_DENIED"}},
		"no workspace":                   {"manager", object{"idempotencyKey": "k", "package": files(notes)}, []string{"PX_SCHEMA_INVALID /workspaceKey"}},
		"a member that nobody has":       {"manager", order("k", files(notes), "secret", 1), []string{"PX_SCHEMA_UNKNOWN_FIELD /secret"}},
		"no package":                     {"manager", order("k", object{}), []string{"PX_SCHEMA_INVALID /package"}},
		"a package twice":                {"manager", order("k", object{"zip": "eA==", "files": object{"manifest.json": "{}"}}), []string{"PX_SCHEMA_INVALID /package"}},
		"no base64":                      {"manager", order("k", object{"zip": "secret!"}), []string{"PX_SCHEMA_INVALID /package"}},
		"no zip":                         {"manager", order("k", object{"zip": "c2VjcmV0"}), []string{"PX_SCHEMA_INVALID /package"}},
		"no manifest":                    {"manager", order("k", object{"files": object{"src/a.py": "secret"}}), []string{"PX_SCHEMA_INVALID /package/manifest.json"}},
		"a manifest that is no JSON":     {"manager", order("k", files(`{"secret`)), []string{"PX_SCHEMA_INVALID /package/manifest.json"}},
		"another file":                   {"manager", order("k", object{"files": object{"manifest.json": notes, "secret.txt": "x"}}), []string{"PX_SCHEMA_INVALID /package/secret.txt"}},
		"a zip that leads out":           {"manager", order("k", zipped(map[string]string{"manifest.json": notes, "../evil.py": "x"})), []string{"PX_SCHEMA_INVALID /package/..~1evil.py"}},
		"a Python file that nobody runs": {"manager", order("k", object{"files": object{"manifest.json": notes, "src/a.py": "secret"}}), []string{"PX_SCHEMA_INVALID /package/manifest.json/capabilities"}},
		"two things wrong with the manifest": {"manager", order("k", files(edited(notes, `"timeout_seconds":60,
  "input_schema"`, `"timeout_seconds":301,
  "input_schema"`, `"template":"x"`, `"template":"{secret}"`))), []string{"PX_SCHEMA_INVALID /package/manifest.json/capabilities/0/timeout_seconds", "PX_SCHEMA_INVALID /package/manifest.json/capabilities/1/runtime/template"}},
		"a signature of another package": {"manager", order("k", object{"files": merged(signed(t, edited(notes, "1.0.0", "9.0.0"), key('a')), "manifest.json", notes)}), []string{"PX_SCHEMA_INVALID /package/signature.json"}},
		"more than is asked for":         {"manager", order("k", files(notes), "granted", []string{"notifications"}), []string{"PX_SCHEMA_INVALID /granted"}},
		"a permission that is none":      {"manager", order("k", files(notes), "granted", []string{"root"}), []string{"PX_SCHEMA_INVALID /granted/0"}},
		"a permission twice, and settings that do not fit": {"manager", order("k", files(notes), "granted", []string{"storage", "storage"}, "settings", object{"lang": "secret", "x": 1}),
			[]string{"PX_SCHEMA_INVALID /granted", "PX_SCHEMA_INVALID /settings", "PX_SCHEMA_INVALID /settings/lang"}},
		"people of no issuer":    {"manager", order("k", files(notes), "actors", []string{issuer + "a", "user"}), []string{"PX_SCHEMA_INVALID /actors/1"}},
		"settings that are none": {"manager", order("k", files(notes), "settings", []int{1}), []string{"PX_SCHEMA_INVALID /settings"}},
		"settings where there are none": {"manager", order("k", files(edited(notes, `"settings_schema":{"type":"object","properties":{"lang":{"type":"string","enum":["ko","en"]}},"additionalProperties":false},`, "")), "settings", object{"lang": "ko"}),
			[]string{"PX_SCHEMA_INVALID /settings"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			a := b.send(person+c.as, installKey, nil, c.body)
			slices.Sort(a.found)
			if !slices.Equal(a.found, c.found) || a.status < 400 || a.status > 499 {
				t.Errorf("%d %q", a.status, a.found)
			}
			if b.store.writes.Load() != 0 {
				t.Error("something was written")
			}
			// Names of files and members are the sender's own; what is in them is never told.
			if strings.Contains(strings.NewReplacer("/secret.txt", "", "/secret", "").Replace(a.body), "secret") {
				t.Error(a.body)
			}
		})
	}
}

func merged(of map[string]string, name, text string) map[string]string {
	out := maps.Clone(of)
	out[name] = text
	return out
}

// covers: C4
func TestValidateFindsWhatAnInstallationWouldAndStoresNothing(t *testing.T) {
	b := newBench(t)
	good := b.send(ai+"stranger", validateKey, nil, object{"package": object{"files": signed(t, notes, key('a'))}})
	if good.status != 200 || good.text("valid") != "true" || len(good.found) != 0 || !strings.HasPrefix(good.text("packageDigest"), "sha256:") || good.text("publisher") == "" || good.text("version") != "1.0.0" {
		t.Error(good.status, good.body)
	}
	bad := b.send(ai+"stranger", validateKey, nil, object{"package": files(edited(notes, `"template":"x"`, `"template":"{{secret}}"`, `"method":"GET"`, `"method":"PUT"`))})
	slices.Sort(bad.found)
	want := []string{"PX_SCHEMA_INVALID /manifest.json/capabilities/1/runtime/template", "PX_SCHEMA_INVALID /manifest.json/capabilities/2/runtime/method"}
	if bad.status != 200 || bad.text("valid") != "false" || !slices.Equal(bad.found, want) || strings.Contains(bad.body, "secret") {
		t.Error(bad.status, bad.body)
	}
	unread := b.send(ai+"stranger", validateKey, nil, object{"package": object{"files": object{"src/a.py": "x"}}})
	if unread.status != 200 || unread.text("valid") != "false" || unread.told() != "PX_SCHEMA_INVALID /manifest.json" {
		t.Error(unread.status, unread.body)
	}
	// What is wrong with the files hides nothing of the manifest.
	pair := []string{"PX_SCHEMA_INVALID /notes.txt", "PX_SCHEMA_INVALID /manifest.json/capabilities/2/runtime/method"}
	both := b.send(ai+"stranger", validateKey, nil, object{"package": object{"files": object{"manifest.json": edited(notes, `"method":"GET"`, `"method":"PUT"`), "notes.txt": ""}}})
	if both.status != 200 || both.text("valid") != "false" || !slices.Equal(both.found, pair) {
		t.Error(both.status, both.body)
	}
	// Names that no answer can hold are the package's.
	var archive bytes.Buffer
	w := zip.NewWriter(&archive)
	link := &zip.FileHeader{Name: "src/\xff.py"}
	link.SetMode(fs.ModeSymlink | 0o777)
	_, err := w.CreateHeader(link)
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	if named := b.send(ai+"stranger", validateKey, nil, object{"package": object{"zip": archive.Bytes()}}); named.status != 200 || named.told() != "PX_SCHEMA_INVALID" {
		t.Error(named.status, named.body)
	}
	if b.store.writes.Load() != 0 {
		t.Error("something was written")
	}
}

// covers: C1, C3
func TestAnUpdateKeepsTheInstanceAndWhatItWasGranted(t *testing.T) {
	b := newBench(t)
	first := b.send(person+"manager", installKey, nil, order("k", files(notes), "granted", []string{"storage", "network"}, "settings", object{"lang": "ko"}))
	id := first.text("instanceId")
	// The next version asks for storage and something new, and no more for the network.
	next := edited(notes, `"1.0.0","title"`, `"1.1.0","title"`, `"permissions":["storage","network","credentials"]`, `"permissions":["storage","notifications"]`,
		`"permissions":["network","credentials"]`, `"permissions":[]`, `"connectors":[{"connector_id":"api","base_url":"https://api.example.com","auth":{"kind":"bearer"}}],`, "",
		`{"adapter":"http_json","connector_id":"api","method":"GET"}`, `{"adapter":"text_template","template":"찾음"}`)
	update := object{"generation": 1, "package": files(next)}
	a := b.manage(id, "update", update)
	if a.text("instanceId") != id || a.text("version") != "1.1.0" || a.text("generation") != "2" || a.text("granted") != "[storage]" || a.text("settings", "lang") != "ko" ||
		a.text("packageDigest") == first.text("packageDigest") || a.text("catalogGeneration") == first.text("catalogGeneration") {
		t.Error(a.body)
	}
	// Its reply was lost: the same update again is no other change.
	if again := b.manage(id, "update", update); again.text("generation") != "2" || again.text("catalogGeneration") != a.text("catalogGeneration") {
		t.Error(again.body)
	}
	// The next turn sees it.
	if a := b.send(ai+"user", invokeKey, []string{id, "notes.search"}, call("ui", "k", "x", 2)); a.text("result", "data", "text") != "찾음" {
		t.Error(a.body)
	}
	if a := b.send(ai+"user", invokeKey, []string{id, "notes.search"}, call("ui", "k2", "x", 1)); a.told() != "EXTENSION_VERSION_MISMATCH /generation" {
		t.Error(a.body)
	}
}

// covers: C1
func TestAnUpdateThatIsWrongChangesNothing(t *testing.T) {
	newer := edited(notes, `"1.0.0","title"`, `"1.1.0","title"`)
	for name, c := range map[string]struct {
		body  object
		found string
	}{
		"another generation":                 {object{"generation": 3, "package": files(newer)}, "EXTENSION_VERSION_MISMATCH /generation"},
		"none":                               {object{"package": files(newer)}, "PX_SCHEMA_INVALID /generation"},
		"another plugin":                     {object{"generation": 1, "package": object{"files": signed(t, edited(newer, `"acme.notes"`, `"acme.other"`), key('a'))}}, "PX_SCHEMA_INVALID /package/manifest.json/pluginKey"},
		"other contents as the same version": {object{"generation": 1, "package": object{"files": signed(t, edited(notes, "정리합니다", "다시"), key('a'))}}, "PX_SCHEMA_INVALID /package/manifest.json/version"},
		"another publisher":                  {object{"generation": 1, "package": object{"files": signed(t, newer, key('b'))}}, "PX_SCHEMA_INVALID /package/signature.json"},
		"no publisher":                       {object{"generation": 1, "package": files(newer)}, "PX_SCHEMA_INVALID /package/signature.json"},
		"settings that do not fit the new schema": {object{"generation": 1, "package": object{"files": signed(t, edited(newer, `"enum":["ko","en"]`, `"enum":["de"]`), key('a'))}}, "PX_SCHEMA_INVALID /settings/lang"},
		"a manifest that is wrong":                {object{"generation": 1, "package": object{"files": signed(t, edited(newer, `"timeout_seconds":60,"runtime":{"adapter":"text`, `"timeout_seconds":0,"runtime":{"adapter":"text`), key('a'))}}, "PX_SCHEMA_INVALID /package/manifest.json/capabilities/1/timeout_seconds"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			first := b.send(person+"manager", installKey, nil, order("k", object{"files": signed(t, notes, key('a'))}, "settings", object{"lang": "ko"}))
			writes := b.store.writes.Load()
			a := b.send(person+"manager", "POST /v1/plugins/{instanceId}/update", []string{first.text("instanceId")}, c.body)
			if a.told() != c.found || len(a.found) != 1 || a.status < 400 {
				t.Error(a.status, a.found)
			}
			if now := b.send(person+"manager", pluginKey, []string{first.text("instanceId")}, nil); now.text("packageDigest") != first.text("packageDigest") || now.text("generation") != "1" || b.store.writes.Load() != writes {
				t.Error(now.body)
			}
		})
	}
}

// covers: C3
func TestEveryChangeMovesTheGenerationOnce(t *testing.T) {
	b := newBench(t)
	id := b.install("one")
	at := func() string { return b.send(ai+"user", catalogKey, nil, team).header["etag"] }
	last := at()
	for _, step := range []struct {
		verb string
		body object
		want string // of the instance
	}{
		{"disable", object{"generation": 1}, "2"}, {"enable", object{"generation": 2}, "3"},
		{"grant", object{"generation": 3, "granted": []string{"network", "storage"}}, "4"},
		{"grant", object{"generation": 4, "settings": object{"lang": "en"}}, "5"},
		{"grant", object{"generation": 5, "actors": []string{issuer + "user"}}, "6"},
		{"grant", object{"generation": 6, "everyone": true}, "7"},
	} {
		a := b.manage(id, step.verb, step.body)
		now := at()
		if a.text("generation") != step.want || now == last || now != `"`+a.text("catalogGeneration")+`"` {
			t.Error(step, a.body, now)
		}
		// The same again is nothing new.
		again := b.manage(id, step.verb, step.body)
		if again.text("generation") != step.want || at() != now {
			t.Error("again", step, again.body)
		}
		last = now
	}
	for _, body := range []object{{"generation": 7}, {"generation": 7, "actors": []string{issuer + "a"}, "everyone": true}, {"generation": 7, "actors": []string{"user"}}, {"generation": 7, "actors": []string{issuer + "a", "|user"}}, {"generation": 7, "granted": []string{"notifications"}}, {"generation": 5, "granted": []string{}}, {"generation": 6, "granted": []string{}}} {
		if a := b.send(person+"manager", "POST /v1/plugins/{instanceId}/grant", []string{id}, body); a.status < 400 || at() != last {
			t.Error(body, a.status, a.body)
		}
	}
}

func TestWhoMayNotManageChangesNothing(t *testing.T) {
	b := newBench(t)
	id := b.install("one")
	writes := b.store.writes.Load()
	for _, verb := range []string{"update", "enable", "disable", "grant", "remove"} {
		body := object{"generation": 1}
		switch verb {
		case "update":
			body["package"] = files(notes)
		case "grant":
			body["granted"] = []string{}
		}
		for as, want := range map[string]string{"user": "EXTENSION_PERMISSION_DENIED", "stranger": "EXTENSION_NOT_FOUND"} {
			if a := b.send(person+as, "POST /v1/plugins/{instanceId}/"+verb, []string{id}, body); a.told() != want {
				t.Error(verb, as, a.status, a.body)
			}
		}
		if a := b.send(person+"manager", "POST /v1/plugins/{instanceId}/"+verb, []string{"inst_none"}, body); a.status != 404 {
			t.Error(verb, a.status, a.body)
		}
	}
	for _, as := range []string{"user", "stranger"} {
		if a := b.send(person+as, listKey, nil, team); a.status != 403 {
			t.Error(as, a.body)
		}
		if a := b.send(person+as, pluginKey, []string{id}, nil); a.status < 400 {
			t.Error(as, a.body)
		}
	}
	if b.store.writes.Load() != writes {
		t.Error("something was written")
	}
}

// covers: C3
func TestWhatIsRemovedLeavesNoConnectionBehind(t *testing.T) {
	b := newBench(t)
	one, two := b.install("one"), b.install("two")
	for id, of := range map[string]string{"conn_1": one, "conn_2": one, "conn_3": two} {
		_, err := b.store.Change(t.Context(), host.Change{Workspace: "team", Connection: &host.Connection{ConnectionID: id, Workspace: "team", InstanceID: of, ConnectorID: "api", State: host.Live}})
		b.must(err)
	}
	for range 2 { // again is the same
		if a := b.manage(one, "remove", object{"generation": 1}); a.text("removed") != "true" {
			t.Error(a.body)
		}
	}
	read, err := b.store.Workspace(t.Context(), "team")
	b.must(err)
	if len(read.Connections) != 1 || read.Connections[0].InstanceID != two {
		t.Errorf("%+v", read.Connections)
	}
	for _, as := range []string{"user", "stranger"} {
		if a := b.send(person+as, "POST /v1/plugins/{instanceId}/remove", []string{one}, object{"generation": 1}); a.status != 404 {
			t.Error(a.status, a.body)
		}
	}
	for _, verb := range []string{"enable", "grant"} {
		if a := b.send(person+"manager", "POST /v1/plugins/{instanceId}/"+verb, []string{one}, object{"generation": 2, "granted": []string{}}); a.status < 400 {
			t.Error(verb, a.body)
		}
	}
	if a := b.send(person+"manager", listKey, nil, team); len(a.data["plugins"].([]any)) != 1 {
		t.Error(a.body)
	}
}

// Due rows follow an instance in the write that changes it.
func TestTheDueRowsOfABackgroundCapabilityFollowItsInstance(t *testing.T) {
	b := newBench(t)
	background := edited(notes, `"template":"x"}`, `"template":"x","background":{"interval_minutes":15}}`)
	id := b.send(person+"manager", installKey, nil, order("k", files(background), "granted", []string{"storage"})).text("instanceId")
	due := func() []host.Slot {
		slots, err := b.store.DueSlots(t.Context(), b.now().Add(time.Hour), 10)
		b.must(err)
		return slots
	}
	if s := due(); len(s) != 1 || s[0].InstanceID != id || s[0].CapabilityID != "notes.stored" || s[0].Minutes != 15 || s[0].At.After(b.now()) || b.now().Sub(s[0].At) >= 15*time.Minute || s[0].Workspace != "team" {
		t.Fatalf("%+v", s)
	}
	b.manage(id, "disable", object{"generation": 1})
	if s := due(); len(s) != 0 {
		t.Errorf("%+v", s)
	}
	b.manage(id, "enable", object{"generation": 2})
	if s := due(); len(s) != 1 {
		t.Errorf("%+v", s)
	}
	b.manage(id, "update", object{"generation": 3, "package": files(edited(notes, `"1.0.0","title"`, `"1.1.0","title"`))})
	if s := due(); len(s) != 0 {
		t.Errorf("a version without it: %+v", s)
	}
	b.manage(id, "update", object{"generation": 4, "package": files(background)})
	if s := due(); len(s) != 1 {
		t.Errorf("%+v", s)
	}
	b.manage(id, "grant", object{"generation": 5, "granted": []string{}})
	if s := due(); len(s) != 0 {
		t.Errorf("without what it asks for: %+v", s)
	}
	b.manage(id, "grant", object{"generation": 6, "granted": []string{"storage"}})
	if s := due(); len(s) != 1 {
		t.Errorf("%+v", s)
	}
	b.manage(id, "remove", object{"generation": 7})
	if s := due(); len(s) != 0 {
		t.Errorf("%+v", s)
	}
}

// Nobody gave a key for what a schedule does: the managers are told of it.
//
// covers: C1
func TestAManagerSeesWhatAScheduleDid(t *testing.T) {
	clock := time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)
	b := &bench{TB: t, tokens: &tokens{}, now: func() time.Time { return clock }}
	b.build()
	every := edited(notes, `"template":"x"}`, `"template":"x","background":{"interval_minutes":15}}`)
	id := b.send(person+"manager", installKey, nil, order("k", files(every), "granted", []string{"storage"})).text("instanceId")
	slots, err := b.store.DueSlots(t.Context(), b.now(), 10)
	b.must(err)
	if len(slots) != 1 {
		t.Fatalf("%+v", slots)
	}
	slot := slots[0]
	at := func(minutes int) string {
		return slot.At.Add(time.Duration(minutes) * time.Minute).UTC().Format(time.RFC3339)
	}
	shows := func(want string) {
		t.Helper()
		a := b.send(person+"manager", pluginKey, []string{id}, nil)
		text, err := json.Marshal(a.data["schedule"])
		b.must(err)
		if a.status != 200 || string(text) != want {
			t.Errorf("%d %s, want %s", a.status, text, want)
		}
	}
	row := func(past string, next string) string {
		if next != "" {
			next = `"nextAt":"` + next + `",`
		}
		return `[{"capabilityId":"notes.stored","intervalMinutes":15,` + next + `"past":[` + past + `]}]`
	}
	// It has begun, and the next minute calls it.
	shows(row("", at(0)))
	start := func(minutes int, how func(*host.Execution)) string {
		t.Helper()
		slots, err := b.store.DueSlots(t.Context(), b.now().Add(time.Hour), 10)
		b.must(err)
		when := slot.At.Add(time.Duration(minutes) * time.Minute)
		e := host.Execution{ExecutionID: background.ExecutionID(slot, when), Workspace: "team", Actor: "https://issuer.test|manager", InstanceID: id, CapabilityID: "notes.stored", Surface: "background",
			Phase: host.Accepted, CreatedAt: when, Deadline: when, EndedAt: when}
		how(&e)
		next := slots[0]
		next.At, next.Last = when.Add(15*time.Minute), e.ExecutionID
		b.must(b.store.StartSlot(t.Context(), next, &e))
		return e.ExecutionID
	}
	first := start(0, func(e *host.Execution) { e.State, e.Code = host.Failed, outcome.ExtensionPermissionDenied })
	failed := `{"at":"` + at(0) + `","code":"EXTENSION_PERMISSION_DENIED","executionId":"` + first + `","state":"failed"}`
	shows(row(failed, at(15)))
	clock = clock.Add(15 * time.Minute)
	second := start(15, func(e *host.Execution) {
		e.State, e.Params = host.Cancelled, outcome.Params{"reason": "skipped", "executionId": first}
	})
	skipped := `{"at":"` + at(15) + `","executionId":"` + second + `","reason":"skipped","state":"cancelled"}`
	shows(row(skipped+","+failed, at(30)))
	b.manage(id, "disable", object{"generation": 1})
	shows(row(skipped+","+failed, ""))
	if a := b.send(person+"user", pluginKey, []string{id}, nil); a.status == 200 {
		t.Errorf("told to who does not manage: %d", a.status)
	}
}

func TestAWorkspaceHoldsNoMoreInstancesThanItMay(t *testing.T) {
	b := newBench(t)
	for i := range host.MaxInstances {
		_, err := b.store.Change(t.Context(), host.Change{Workspace: "team", Instance: &capability.Instance{InstanceID: "inst_" + string(rune('a'+i%26)) + strings.Repeat("x", i/26), Workspace: "team", Settings: canon.Raw(`{}`)}})
		b.must(err)
	}
	if a := b.send(person+"manager", installKey, nil, order("k", files(notes))); a.status != 413 || a.told() != "PX_LIMIT_EXCEEDED /workspaceKey" {
		t.Error(a.status, a.body)
	}
}
