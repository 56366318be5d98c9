package calendarstore_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pxhost/pxhost/shared/adapter/calendarstore"
	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/capability"
	"github.com/pxhost/pxhost/shared/capability/execution"
	"github.com/pxhost/pxhost/shared/capability/host"
	"github.com/pxhost/pxhost/shared/capability/packaging"
	"github.com/pxhost/pxhost/shared/capability/safeschema"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/store/memory"
)

const (
	workspace = "team"
	actor     = "https://issuer|student"
)

// manifest has the example of the contract and the other operations; none has a schema.
const manifest = `{"pluginKey":"study","version":"1.0.0","title":"학습","permissions":["storage","notifications"],"capabilities":[
	{"id":"save","kind":"tool","title":"일정 저장","description":"d","permissions":["storage"],"timeout_seconds":10,"runtime":{"adapter":"calendar_store","operation":"save","namespace":"study.schedule"}},
	{"id":"get","kind":"tool","title":"일정","description":"d","permissions":["storage"],"timeout_seconds":10,"runtime":{"adapter":"calendar_store","operation":"get","namespace":"study.schedule"}},
	{"id":"list","kind":"tool","title":"일정 목록","description":"d","permissions":["storage"],"timeout_seconds":10,"runtime":{"adapter":"calendar_store","operation":"list","namespace":"study.schedule"}},
	{"id":"delete","kind":"tool","title":"일정 삭제","description":"d","permissions":["storage"],"timeout_seconds":10,"runtime":{"adapter":"calendar_store","operation":"delete","namespace":"study.schedule"}},
	{"id":"reminder","kind":"tool","title":"알림","description":"d","permissions":["storage","notifications"],"timeout_seconds":10,"runtime":{"adapter":"calendar_store","operation":"reminder","namespace":"study.schedule"}},
	{"id":"cancel_reminder","kind":"tool","title":"알림 취소","description":"d","permissions":["storage","notifications"],"timeout_seconds":10,"runtime":{"adapter":"calendar_store","operation":"cancel_reminder","namespace":"study.schedule"}}]}`

// A world is a workspace with the calendar installed.
type world struct {
	*testing.T
	clock  time.Time
	store  *memory.Store
	desk   *execution.Desk
	runner *execution.Runner
	calls  int
}

func (w *world) Invoke(ctx context.Context, _ capability.AdapterName, id string) error {
	return w.runner.Run(context.WithoutCancel(ctx), id)
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func open(t *testing.T) *world {
	w := &world{T: t, clock: time.Date(2026, 12, 1, 9, 0, 0, 0, time.UTC)}
	now := func() time.Time { return w.clock }
	w.store = memory.New(now)
	reader := &execution.Reader{Store: w.store, Objects: w.store}
	w.desk = &execution.Desk{Store: w.store, Objects: w.store, Workspaces: reader, Schemas: new(safeschema.Cache), Invoke: w, Now: now, Patience: time.Millisecond}
	w.runner = &execution.Runner{Store: w.store, Objects: w.store, Workspaces: reader, Schemas: new(safeschema.Cache), Adapter: calendarstore.New(w.store, now), Now: now}
	p := packaging.Package{Manifest: must(canon.Canonicalize([]byte(manifest)))}
	text := must(p.Stored())
	if err := w.store.Put(t.Context(), host.Space(workspace), text); err != nil {
		t.Fatal(err)
	}
	w.change(host.Change{Instance: &capability.Instance{InstanceID: "inst", Workspace: workspace, PluginKey: "study", PluginVersion: "1.0.0", PackageDigest: must(p.Digest()), Package: string(history.RefOf(text)),
		Enabled: true, Granted: []capability.Permission{capability.Storage, capability.Notifications}, Settings: canon.Raw(`{}`), Generation: 1}})
	w.change(host.Change{Member: &host.Membership{Actor: actor, Member: capability.Member{Rights: []capability.Right{capability.Use}}}})
	return w
}

func (w *world) change(c host.Change) {
	w.Helper()
	c.Workspace = workspace
	if _, err := w.store.Change(w.Context(), c); err != nil {
		w.Fatal(err)
	}
}

func (w *world) grant(p ...capability.Permission) {
	i := must(w.store.Instance(w.Context(), "inst"))
	i.Granted, i.Generation = p, i.Generation+1
	w.change(host.Change{Instance: &i})
}

// do performs an operation: what it gives, or the failure.
func (w *world) do(operation, arguments string) (capability.Result, *capability.Failure) {
	w.Helper()
	w.calls++
	return w.again(operation, arguments, fmt.Sprint(w.calls))
}

// again performs it under a key.
func (w *world) again(operation, arguments, key string) (capability.Result, *capability.Failure) {
	w.Helper()
	e, err := w.desk.Accept(w.Context(), execution.Request{Actor: actor, InstanceID: "inst", CapabilityID: operation, Arguments: canon.Raw(arguments), Surface: "ui", Key: key})
	if f := (*capability.Failure)(nil); errors.As(err, &f) {
		return capability.Result{}, f
	}
	if err == nil {
		e, err = w.desk.Wait(w.Context(), e)
	}
	if err != nil || !e.State.Terminal() {
		w.Fatal(e, err)
	}
	if e.State != host.Succeeded {
		return capability.Result{}, &capability.Failure{Code: e.Code, Params: e.Params}
	}
	return must(w.desk.Result(w.Context(), e)), nil
}

type shown struct {
	ItemID, Title, At, Note, RemindAt string
	Version                           int64
}

func (w *world) item(operation, arguments string) shown {
	w.Helper()
	r, f := w.do(operation, arguments)
	if f != nil {
		w.Fatalf("%s: %v %v", operation, f, f.Params)
	}
	var data struct{ Item shown }
	if err := json.Unmarshal(r.Data, &data); err != nil {
		w.Fatal(err)
	}
	return data.Item
}

// due are the notifications that are not delivered, as "key: title at time".
func (w *world) due() (out []string) {
	for _, n := range must(w.store.DueNotifications(w.Context(), w.clock.AddDate(10, 0, 0), 100)) {
		out = append(out, fmt.Sprintf("%s: %s %s", n.Key, n.Title, n.At.Format("01-02 15:04")))
	}
	return out
}

func wants(t *testing.T, f *capability.Failure, code outcome.Code, params string) {
	t.Helper()
	if f == nil || f.Code != code {
		t.Errorf("%v, want %s", f, code)
		return
	}
	if text := string(must(canon.Encode(f.Params))); text != params {
		t.Errorf("%s %s, want %s", code, text, params)
	}
}

// covers: A2
func TestItemsAreKeptWithTheirVersions(t *testing.T) {
	w := open(t)
	r, f := w.again("save", `{"itemId":"math","title":"수학","at":"2026-12-02T09:00:00+09:00","note":"1장"}`, "k")
	if f != nil || r.Summary != "일정 저장: 수학" || string(r.Data) != `{"item":{"at":"2026-12-02T09:00:00+09:00","itemId":"math","note":"1장","title":"수학","version":1}}` {
		t.Fatalf("%s %s %v", r.Summary, r.Data, f)
	}
	// Sent again, it is the same save.
	if again, f := w.again("save", `{"itemId":"math","title":"수학","at":"2026-12-02T09:00:00+09:00","note":"1장"}`, "k"); f != nil || string(again.Data) != string(r.Data) {
		t.Errorf("%s %v", again.Data, f)
	}
	if got := w.item("get", `{"itemId":"math"}`); got != (shown{"math", "수학", "2026-12-02T09:00:00+09:00", "1장", "", 1}) {
		t.Errorf("%+v", got)
	}
	// Who has not seen it does not replace it.
	_, f = w.do("save", `{"itemId":"math","title":"secret","at":"2026-12-02T09:00:00Z"}`)
	wants(t, f, outcome.PluginStorageConflict, `{"namespace":"study.schedule","version":1}`)
	if got := w.item("save", `{"itemId":"math","title":"수학 2","at":"2026-12-03T00:00:00Z","expectedVersion":1}`); got != (shown{"math", "수학 2", "2026-12-03T00:00:00Z", "", "", 2}) {
		t.Errorf("%+v", got)
	}
	for _, operation := range []string{
		`save {"itemId":"math","title":"secret","at":"2026-12-02T09:00:00Z","expectedVersion":1}`, `save {"itemId":"math","title":"secret","at":"2026-12-02T09:00:00Z","expectedVersion":3}`,
		`reminder {"itemId":"math","expectedVersion":1}`, `reminder {"itemId":"math","title":"secret"}`, `reminder {"itemId":"math","note":"secret"}`, `cancel_reminder {"itemId":"math","expectedVersion":1}`, `delete {"itemId":"math","expectedVersion":1}`,
	} {
		name, arguments, _ := strings.Cut(operation, " ")
		_, f := w.do(name, arguments)
		wants(t, f, outcome.PluginStorageConflict, `{"namespace":"study.schedule","version":2}`)
	}
	_, f = w.do("save", `{"itemId":"none","title":"t","at":"2026-12-02T09:00:00Z","expectedVersion":1}`)
	wants(t, f, outcome.PluginStorageConflict, `{"namespace":"study.schedule","version":0}`)
	if got := w.item("get", `{"itemId":"math"}`); got.Title != "수학 2" || got.Version != 2 {
		t.Errorf("the value was not kept: %+v", got)
	}
	if r, f := w.do("delete", `{"itemId":"math","expectedVersion":2}`); f != nil || string(r.Data) != `{"deleted":{"at":"2026-12-03T00:00:00Z","itemId":"math","note":"","title":"수학 2","version":2}}` {
		t.Errorf("%s %v", r.Data, f)
	}
	for _, name := range []string{"get", "delete", "cancel_reminder"} {
		_, f := w.do(name, `{"itemId":"math"}`)
		wants(t, f, outcome.ExtensionInputInvalid, `{"violations":[{"keyword":"exists","path":"/itemId"}]}`)
	}
	// What had no ID gets one, and one item alone is made however often it is sent.
	if got := w.item("save", `{"query":"영어","at":"2026-12-02T09:00:00Z"}`); got.Title != "영어" || !strings.HasPrefix(got.ItemID, "item_") || got.Version != 1 {
		t.Errorf("%+v", got)
	}
}

// covers: A2
func TestAReminderIsOfOneVersionOfItsItem(t *testing.T) {
	w := open(t)
	expect := func(step string, due ...string) {
		t.Helper()
		if got := w.due(); !reflect.DeepEqual(got, due) {
			t.Errorf("%s: due are %q, want %q", step, got, due)
		}
	}
	if got := w.item("reminder", `{"itemId":"math","title":"수학","at":"2026-12-02T09:00:00+09:00"}`); got.RemindAt != "2026-12-02T09:00:00+09:00" || got.Version != 1 {
		t.Errorf("%+v", got)
	}
	expect("a new item with a reminder at its time", "math: 수학 12-02 00:00")
	if got := w.item("save", `{"itemId":"math","title":"수학 2","at":"2026-12-03T09:00:00+09:00","expectedVersion":1}`); got.RemindAt != "2026-12-03T09:00:00+09:00" || got.Version != 2 {
		t.Errorf("%+v", got)
	}
	expect("the item moves, and its reminder with it", "math: 수학 2 12-03 00:00")
	if got := w.item("reminder", `{"itemId":"math","remindAt":"2026-12-02T20:00:00+09:00"}`); got.RemindAt != "2026-12-02T20:00:00+09:00" || got.At != "2026-12-03T09:00:00+09:00" || got.Version != 3 {
		t.Errorf("%+v", got)
	}
	expect("another time", "math: 수학 2 12-02 11:00")
	w.item("save", `{"itemId":"math","title":"수학 3","at":"2026-12-04T09:00:00+09:00","expectedVersion":3}`)
	expect("the item moves, and a reminder at a time of its own stays there", "math: 수학 3 12-02 11:00")
	if got := w.item("cancel_reminder", `{"itemId":"math"}`); got.RemindAt != "" || got.Version != 5 {
		t.Errorf("%+v", got)
	}
	expect("taken back")
	if got := w.item("cancel_reminder", `{"itemId":"math"}`); got.Version != 5 {
		t.Errorf("there is none to take back, and yet %+v", got)
	}
	w.item("reminder", `{"itemId":"math"}`)
	expect("once more", "math: 수학 3 12-04 00:00")
	if _, f := w.do("delete", `{"itemId":"math"}`); f != nil {
		t.Error(f)
	}
	expect("no item, no reminder")
	// An item that was there before under the same ID is none: versions begin anew, and
	// its reminder is another.
	w.item("reminder", `{"itemId":"math","title":"새 수학","at":"2026-12-02T09:00:00Z"}`)
	expect("again", "math: 새 수학 12-02 09:00")
	w.clock = time.Date(2026, 12, 2, 9, 1, 0, 0, time.UTC)
	for _, n := range must(w.store.DueNotifications(t.Context(), w.clock, 10)) {
		n.DeliveredAt = w.clock
		if err := w.store.Deliver(t.Context(), n); err != nil {
			t.Error(err)
		}
	}
	w.item("save", `{"itemId":"math","title":"t","at":"2026-12-05T09:00:00Z","expectedVersion":1}`)
	expect("one that was told is not told again")
}

// covers: A2
func TestSavingTakesStorageAndRemindingNotificationsToo(t *testing.T) {
	w := open(t)
	w.grant(capability.Storage)
	w.item("save", `{"itemId":"a","title":"t","at":"2026-12-02T09:00:00Z"}`)
	_, f := w.do("reminder", `{"itemId":"a"}`)
	wants(t, f, outcome.ExtensionPermissionDenied, `{"instanceId":"inst","permission":"notifications"}`)
	w.grant(capability.Notifications)
	_, f = w.do("save", `{"itemId":"a","title":"t","at":"2026-12-02T09:00:00Z","expectedVersion":1}`)
	wants(t, f, outcome.ExtensionPermissionDenied, `{"instanceId":"inst","permission":"storage"}`)
}

// covers: A2, C4
func TestArgumentsThatDoNotDo(t *testing.T) {
	w := open(t)
	w.item("save", `{"itemId":"a","title":"t","at":"2026-12-02T09:00:00Z"}`)
	for operation, where := range map[string]string{
		`save {"title":"secret"}`:                                                                   "/at required",
		`save {"at":"2026-12-02T09:00:00Z"}`:                                                        "/title required",
		`save {"title":"t","at":"2026-12-02T09:00:00"}`:                                             "/at format",
		`save {"title":"t","at":"2026-12-02"}`:                                                      "/at format",
		`save {"title":"t","at":"2026-12-02T09:00:00+24:00"}`:                                       "/at format",
		`save {"title":"t","at":"2026-12-02T09:00:00-23:60"}`:                                       "/at format",
		`save {"title":"t","at":"2026-12-02T9:00:00Z"}`:                                             "/at format",
		`save {"title":"t","at":"2026-02-30T09:00:00Z"}`:                                            "/at format",
		`save {"title":"t","at":"9999-12-02T09:00:00Z"}`:                                            "/at range",
		`save {"title":"t","at":"2026-12-02T09:00:00Z","tags":["secret"]}`:                          "/* additionalProperties",
		`save {"title":"t","at":"2026-12-02T09:00:00Z","remindAt":"2026-12-02T09:00:00Z"}`:          "/* additionalProperties",
		`save {"title":3,"at":"2026-12-02T09:00:00Z"}`:                                              "/title type",
		`save {"title":"` + strings.Repeat("x", 201) + `","at":"2026-12-02T09:00:00Z"}`:             "/title maxLength",
		`save {"title":"t","at":"2026-12-02T09:00:00Z","note":"` + strings.Repeat("가", 2001) + `"}`: "/note maxLength",
		`save {"itemId":"","title":"t","at":"2026-12-02T09:00:00Z"}`:                                "/itemId minLength",
		`save {"itemId":"a\nb","title":"t","at":"2026-12-02T09:00:00Z"}`:                            "/itemId characters",
		`save {"title":"t","at":"2026-12-02T09:00:00Z","expectedVersion":-1}`:                       "/expectedVersion minimum",
		`reminder {"itemId":"none"}`:                                                                "/title required",
		`reminder {"itemId":"a","remindAt":"9999-12-02T09:00:00Z"}`:                                 "/remindAt range",
		`get {}`:                                "/itemId required",
		`get {"itemId":"none"}`:                 "/itemId exists",
		`list {"limit":201}`:                    "/limit maximum",
		`list {"limit":0}`:                      "/limit minimum",
		`list {"after":"secret"}`:               "/after cursor",
		`list {"after":"2026-12-02T09:00:00Z"}`: "/after cursor",
	} {
		name, arguments, _ := strings.Cut(operation, " ")
		_, f := w.do(name, arguments)
		if f == nil || f.Code != outcome.ExtensionInputInvalid || strings.Contains(fmt.Sprintf("%+v", f.Params), "secret") {
			t.Errorf("%.80s: %v", operation, f)
			continue
		}
		if found, _ := f.Params["violations"].([]safeschema.Violation); len(found) != 1 || found[0].Path+" "+found[0].Keyword != where {
			t.Errorf("%.80s: %+v, want %s", operation, f.Params, where)
		}
	}
	if got := w.item("get", `{"itemId":"a"}`); got.Version != 1 {
		t.Errorf("%+v", got)
	}
}

type listed struct {
	Items         []shown
	Total, Others int
	Next          string
}

func (w *world) list(arguments string) listed {
	w.Helper()
	r, f := w.do("list", arguments)
	if f != nil {
		w.Fatal(f, f.Params)
	}
	var out listed
	if err := json.Unmarshal(r.Data, &out); err != nil {
		w.Fatal(err)
	}
	return out
}

// A list tells how much there is, and its pages together are all of it, whatever is
// saved and deleted between them.
//
// covers: A2
func TestPagesOfAListAreAllOfIt(t *testing.T) {
	w := open(t)
	for i := range 7 {
		w.item("save", fmt.Sprintf(`{"itemId":"i %d","title":"t%d","note":"Über %d","at":"2026-12-0%dT09:00:00+0%d:00"}`, i, i%2, i, 1+i/2, i))
	}
	var got []string
	after := ""
	for page := 0; ; page++ {
		l := w.list(fmt.Sprintf(`{"limit":2%s}`, after))
		for _, i := range l.Items {
			got = append(got, i.ItemID)
		}
		if l.Total != 7-min(page, 1) {
			t.Error(page, l)
		}
		if page == 0 {
			if _, f := w.do("delete", `{"itemId":"i 1"}`); f != nil { // of the page that was read
				t.Error(f)
			}
		}
		if l.Next == "" {
			break
		}
		after = `,"after":` + string(must(canon.Encode(l.Next)))
	}
	if want := []string{"i 1", "i 0", "i 3", "i 2", "i 5", "i 4", "i 6"}; !reflect.DeepEqual(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if l := w.list(`{"from":"2026-12-02T00:00:00Z","to":"2026-12-03T05:00:00Z"}`); l.Total != 3 || len(l.Items) != 3 || l.Next != "" {
		t.Errorf("%+v", l)
	}
	if l := w.list(`{"query":"ÜBER 4"}`); l.Total != 1 || l.Items[0].ItemID != "i 4" {
		t.Errorf("%+v", l)
	}
	if l := w.list(`{"query":"t1"}`); l.Total != 2 {
		t.Errorf("%+v", l)
	}
	if r, f := w.do("list", `{}`); f != nil || r.Summary != "일정 목록: 6/6" {
		t.Error(r.Summary, f)
	}
	if l := w.list(`{"from":"2030-12-02T00:00:00Z"}`); l.Total != 0 || l.Items == nil {
		t.Errorf("%+v", l)
	}
}

// What a plugin's own code keeps in the namespace is no item, and is counted.
func TestWhatIsNoItemIsToldAndNotReplaced(t *testing.T) {
	w := open(t)
	e := host.Execution{ExecutionID: "other", Workspace: workspace, InstanceID: "inst", State: host.Running}
	if err := w.store.CreateExecution(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	e.Version = 1
	if err := w.store.Apply(t.Context(), host.Step{Execution: e, Puts: []host.Put{{Expectation: host.Expectation{Namespace: "study.schedule", Key: "a"}, Value: canon.Raw(`{"title":"x","secret":1}`)}}}); err != nil {
		t.Fatal(err)
	}
	w.item("save", `{"itemId":"b","title":"t","at":"2026-12-02T09:00:00Z"}`)
	if l := w.list(`{}`); l.Total != 1 || l.Others != 1 {
		t.Errorf("%+v", l)
	}
	for _, operation := range []string{"get", "delete", "cancel_reminder"} {
		_, f := w.do(operation, `{"itemId":"a"}`)
		wants(t, f, outcome.ExtensionInputInvalid, `{"violations":[{"keyword":"item","path":"/itemId"}]}`)
	}
	_, f := w.do("reminder", `{"itemId":"a","title":"t","at":"2026-12-02T09:00:00Z"}`)
	wants(t, f, outcome.PluginStorageConflict, `{"namespace":"study.schedule","version":1}`)
}

// The largest page fits into a result.
func TestTheLargestPageIsAResult(t *testing.T) {
	w := open(t)
	long := strings.Repeat("𝄞", 2000)
	for i := range calendarstore.MaxPage + 1 {
		w.item("save", fmt.Sprintf(`{"itemId":"%s%03d","title":"%s","note":"%s","at":"2026-12-02T09:00:00Z"}`, strings.Repeat("𝄞", 197), i, strings.Repeat("𝄞", 200), long))
	}
	if l := w.list(`{"limit":200}`); len(l.Items) != 200 || l.Total != 201 || l.Next == "" {
		t.Error(len(l.Items), l.Total)
	}
}

func TestAnotherAdaptersRuntimeIsRefused(t *testing.T) {
	a := calendarstore.New(memory.New(time.Now), time.Now)
	if _, err := a.Call(t.Context(), capability.Call{Capability: capability.Capability{Runtime: canon.Raw(`{"adapter":"text_template","template":"x"}`)}, Arguments: canon.Raw(`{}`)}); err == nil {
		t.Error("it is taken")
	}
}

// Whatever is done in whatever order: each item has at most one reminder that is still to
// come, it is the one that the item shows, and it says what the item says.
//
// covers: A2
func TestRemindersFollowTheirItems(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w := open(t)
		for range rapid.IntRange(1, 15).Draw(r, "steps") {
			id := rapid.SampledFrom([]string{"a", "b"}).Draw(r, "id")
			version := rapid.IntRange(0, 3).Draw(r, "version")
			day := rapid.IntRange(2, 9).Draw(r, "day")
			w.clock = w.clock.Add(time.Minute)
			switch rapid.SampledFrom([]string{"save", "reminder", "set", "cancel", "delete"}).Draw(r, "what") {
			case "save":
				w.do("save", fmt.Sprintf(`{"itemId":"%s","title":"t%d","at":"2026-12-0%dT09:00:00Z","expectedVersion":%d}`, id, day, day, version))
			case "reminder":
				w.do("reminder", fmt.Sprintf(`{"itemId":"%s","title":"t%d","at":"2026-12-0%dT09:00:00Z","expectedVersion":%d}`, id, day, day, version))
			case "set":
				w.do("reminder", fmt.Sprintf(`{"itemId":"%s","remindAt":"2026-12-0%dT10:00:00Z"}`, id, day))
			case "cancel":
				w.do("cancel_reminder", fmt.Sprintf(`{"itemId":"%s"}`, id))
			case "delete":
				w.do("delete", fmt.Sprintf(`{"itemId":"%s"}`, id))
			}
			var want []string
			for _, i := range w.list(`{}`).Items {
				if i.RemindAt != "" {
					want = append(want, fmt.Sprintf("%s: %s %s", i.ItemID, i.Title, must(time.Parse(time.RFC3339, i.RemindAt)).Format("01-02 15:04")))
				}
			}
			got := w.due()
			slices.Sort(got)
			slices.Sort(want)
			if !reflect.DeepEqual(got, want) {
				r.Fatalf("due are %q, and the items show %q", got, want)
			}
		}
	})
}

// FuzzArguments holds that no arguments break an operation, and that none is echoed.
func FuzzArguments(f *testing.F) {
	for _, seed := range []string{`{}`, `{"itemId":"a","title":"t","at":"2026-12-02T09:00:00Z"}`, `{"after":"2026-12-02T09:00:00Z a"}`, `{"itemId":"` + "\u202e" + `"}`, `{"at":"2026-12-02T09:00:00,5Z","title":"t"}`, `{"limit":1e2}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		arguments, err := canon.Canonicalize([]byte(text))
		if err != nil || arguments[0] != '{' {
			t.Skip()
		}
		w := open(t)
		for _, operation := range []string{"save", "get", "list", "delete", "reminder", "cancel_reminder"} {
			if _, f := w.do(operation, string(arguments)); f != nil && f.Code != outcome.ExtensionInputInvalid && f.Code != outcome.PluginStorageConflict {
				t.Errorf("%s: %v", operation, f)
			}
		}
	})
}
