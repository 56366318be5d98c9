package acceptance

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"

	"github.com/pxhost/pxhost/infra/local"
	"github.com/pxhost/pxhost/shared/capability"
	storage "github.com/pxhost/pxhost/shared/capability/host"
)

// studyPlugin keeps a calendar; its last capability is the Host's to start.
const studyPlugin = `{"pluginKey":"study.calendar","version":"1.0.0","title":"학습 일정","permissions":["storage","notifications"],
"capabilities":[
 {"id":"study.save","kind":"tool","title":"일정 저장","description":"Keeps a date.","permissions":["storage"],"timeout_seconds":30,
  "input_schema":{"type":"object","properties":{"itemId":{"type":"string"},"title":{"type":"string"},"at":{"type":"string","format":"date-time"},"note":{"type":"string"},"expectedVersion":{"type":"integer"}},"required":["title","at"],"additionalProperties":false},
  "output_schema":{"type":"object","properties":{"item":{"type":"object","properties":{"itemId":{"type":"string"},"version":{"type":"integer"}},"required":["itemId","title","at","note","version"]}},"required":["item"]},
  "runtime":{"adapter":"calendar_store","operation":"save","namespace":"study.schedule"}},
 {"id":"study.get","kind":"tool","title":"일정","description":"d","permissions":["storage"],"timeout_seconds":30,"runtime":{"adapter":"calendar_store","operation":"get","namespace":"study.schedule"}},
 {"id":"study.list","kind":"tool","title":"일정 목록","description":"d","permissions":["storage"],"timeout_seconds":30,"runtime":{"adapter":"calendar_store","operation":"list","namespace":"study.schedule"}},
 {"id":"study.delete","kind":"tool","title":"일정 삭제","description":"d","permissions":["storage"],"timeout_seconds":30,"runtime":{"adapter":"calendar_store","operation":"delete","namespace":"study.schedule"}},
 {"id":"study.remind","kind":"tool","title":"알림","description":"d","permissions":["storage","notifications"],"timeout_seconds":30,"runtime":{"adapter":"calendar_store","operation":"reminder","namespace":"study.schedule"}},
 {"id":"study.cancel","kind":"tool","title":"알림 취소","description":"d","permissions":["storage","notifications"],"timeout_seconds":30,"runtime":{"adapter":"calendar_store","operation":"cancel_reminder","namespace":"study.schedule"}},
 {"id":"study.review","kind":"tool","title":"복습","description":"d","permissions":["storage"],"timeout_seconds":300,
  "runtime":{"adapter":"calendar_store","operation":"save","namespace":"study.reviews","background":{"interval_minutes":10080,"arguments":{"title":"복습","at":"2026-12-01T09:00:00+09:00"}}}},
 {"id":"study.reviews","kind":"tool","title":"복습 목록","description":"d","permissions":["storage"],"timeout_seconds":30,"runtime":{"adapter":"calendar_store","operation":"list","namespace":"study.reviews"}}]}`

// do calls a capability and returns its execution, which must be over.
func (c plugClient) do(t *testing.T, instance, capability, key string, arguments m) heard {
	t.Helper()
	a := c.invoke(t, instance, capability, m{"arguments": arguments, "surface": "ai", "idempotencyKey": key})
	for deadline := time.Now().Add(time.Minute); a.status == 202 || a.status == 503; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s is not over: %+v", capability, a.envelope)
		}
		if a.status == 503 {
			a = c.invoke(t, instance, capability, m{"arguments": arguments, "surface": "ai", "idempotencyKey": key})
			continue
		}
		a = c.ask(t, "GET", "/v1/executions/"+a.at("executionId"), nil)
	}
	if a.status != 200 {
		t.Fatalf("%s: %d %+v", capability, a.status, a.envelope)
	}
	return a
}

// notified is what a person was told, as texts.
func (c plugClient) notified(t *testing.T) (out []string) {
	t.Helper()
	a := c.ask(t, "GET", "/v1/notifications?workspaceKey="+pluginSpace, nil)
	var told struct {
		Notifications []struct{ Title, Text, Withheld string }
	}
	if a.status != 200 || json.Unmarshal(a.Data, &told) != nil {
		t.Fatalf("%d %+v", a.status, a.envelope)
	}
	for _, n := range told.Notifications {
		out = append(out, n.Title+"/"+n.Text+n.Withheld)
	}
	return out
}

// The calendar of the contract, with its reminder told by the rule of the minute, once.
//
// covers: A2, X3
func TestACalendarRemindsOnce(t *testing.T) {
	t.Parallel()
	h := plugged(t, "--minute", "300ms")
	id := h.person(t, "reviewer").install(t, "study", studyPlugin, "storage", "notifications")
	model := h.ai(t, "engineer")
	saved := model.do(t, id, "study.save", "k1", m{"itemId": "math", "title": "수학", "at": "2026-12-02T09:00:00+09:00", "note": "1장"})
	if saved.at("state") != "succeeded" || saved.at("result", "data", "item", "version") != "1" || saved.at("result", "data", "item", "at") != "2026-12-02T09:00:00+09:00" || saved.at("result", "summary") != "일정 저장: 수학" {
		t.Fatalf("%+v", saved.envelope)
	}
	if again := model.do(t, id, "study.save", "k1", m{"itemId": "math", "title": "수학", "at": "2026-12-02T09:00:00+09:00", "note": "1장"}); again.at("executionId") != saved.at("executionId") {
		t.Errorf("%+v", again.envelope)
	}
	// Who has not seen the item does not replace it, and is told what there is.
	stale := model.do(t, id, "study.save", "k2", m{"itemId": "math", "title": "sekret", "at": "2026-12-02T09:00:00Z", "expectedVersion": 7})
	if stale.at("state") != "failed" || stale.at("failure", "code") != "PLUGIN_STORAGE_CONFLICT" || stale.at("failure", "params", "version") != "1" || strings.Contains(encode(t, stale.envelope), "sekret") {
		t.Errorf("%+v", stale.envelope)
	}
	soon := time.Now().Add(2 * time.Second).UTC().Format(time.RFC3339)
	if a := model.do(t, id, "study.remind", "k3", m{"itemId": "math", "remindAt": soon}); a.at("result", "data", "item", "version") != "2" || a.at("result", "data", "item", "remindAt") != soon {
		t.Fatalf("%+v", a.envelope)
	}
	// One that is taken back is not told, nor one whose item is deleted.
	for _, item := range []string{"art", "music"} {
		if a := model.do(t, id, "study.remind", "k-"+item, m{"itemId": item, "title": item, "at": soon}); a.at("state") != "succeeded" {
			t.Fatalf("%+v", a.envelope)
		}
	}
	model.do(t, id, "study.cancel", "k4", m{"itemId": "art"})
	model.do(t, id, "study.delete", "k5", m{"itemId": "music"})
	for deadline := time.Now().Add(time.Minute); len(model.notified(t)) == 0; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("nothing is told")
		}
	}
	time.Sleep(2 * time.Second) // several minutes of this host
	if told := model.notified(t); len(told) != 1 || told[0] != "수학/1장" {
		t.Errorf("%q", told)
	}
	if told := h.ai(t, "reviewer").notified(t); len(told) != 0 {
		t.Errorf("another is told %q", told)
	}
	list := model.do(t, id, "study.list", "k6", m{})
	if list.at("result", "data", "total") != "2" {
		t.Errorf("%+v", list.envelope)
	}
}

// minute invokes background_tick as often at once, each in a process of its own.
func (h *host) minute(t *testing.T, times int) {
	t.Helper()
	config, _ := h.aws(t)
	functions := lambda.NewFromConfig(config)
	var all sync.WaitGroup
	for range times {
		all.Go(func() {
			for {
				out, err := functions.Invoke(t.Context(), &lambda.InvokeInput{FunctionName: aws.String(local.StackName + "-background_tick"), Payload: []byte(`{}`)})
				if err != nil && strings.Contains(err.Error(), "TooManyRequests") {
					time.Sleep(50 * time.Millisecond)
					continue
				}
				if err != nil || out.FunctionError != nil {
					t.Errorf("%v %s", err, out.Payload)
				}
				return
			}
		})
	}
	all.Wait()
}

// slotNow has another slot of an instance begin now.
func (h *host) slotNow(t *testing.T, instance string) {
	t.Helper()
	time.Sleep(1100 * time.Millisecond) // slots are told apart by the second
	store := h.parts(t).Store
	slots, err := store.DueSlots(t.Context(), time.Now().Add(8*24*time.Hour), 10)
	if err != nil || len(slots) != 1 || slots[0].InstanceID != instance {
		t.Fatalf("%+v %v", slots, err)
	}
	i, err := store.Instance(t.Context(), instance)
	if err == nil {
		slots[0].At = time.Now().Add(-time.Second).UTC()
		_, err = store.Change(t.Context(), storage.Change{Workspace: pluginSpace, Instance: &i, Slots: slots})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// backgrounds are the states of the executions that the Host began by itself.
func (h *host) backgrounds(t *testing.T) (states []string) {
	t.Helper()
	store := h.parts(t).Store
	for key := range h.dump(t) {
		id, ok := strings.CutPrefix(key, "HOST execution#")
		if !ok {
			continue
		}
		e, err := store.Execution(t.Context(), strings.Fields(id)[0])
		if err != nil {
			t.Fatal(err)
		}
		if e.Surface == "background" {
			states = append(states, string(e.State))
		}
	}
	return states
}

// Many minutes at once, each a process of its own, make one execution of a slot, and tell
// one notification once. Who switches an instance off has no next slot.
//
// covers: C3, X3
func TestTwoMinutesForOneSlotAreOneExecution(t *testing.T) {
	t.Parallel()
	const crowd = 6
	h := plugged(t, "--minute", "1h")
	manager := h.person(t, "reviewer")
	id := manager.install(t, "study", studyPlugin, "storage", "notifications")
	reviews := func(want int) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
			states := h.backgrounds(t)
			if ended := strings.Count(strings.Join(states, " "), "succeeded"); ended == want && len(states) == want {
				break
			} else if time.Now().After(deadline) || len(states) > want {
				t.Fatalf("background executions are %v, want %d", states, want)
			}
		}
		if a := manager.do(t, id, "study.reviews", "r"+time.Now().String(), m{}); a.at("result", "data", "total") != encode(t, want) {
			t.Errorf("%+v", a.envelope)
		}
	}
	if a := manager.do(t, id, "study.remind", "k", m{"title": "수학", "at": time.Now().UTC().Format(time.RFC3339)}); a.at("state") != "succeeded" {
		t.Fatalf("%+v", a.envelope)
	}
	h.minute(t, crowd) // the slot in which it was installed
	reviews(1)
	if told := manager.notified(t); len(told) != 1 || told[0] != "수학/" {
		t.Errorf("%q", told)
	}
	h.minute(t, crowd)
	reviews(1)
	h.slotNow(t, id)
	h.minute(t, crowd)
	reviews(2)
	h.slotNow(t, id)
	if a := manager.ask(t, "POST", "/v1/plugins/"+id+"/disable", m{"generation": 1}); a.status != 200 {
		t.Fatalf("%d %+v", a.status, a.envelope)
	}
	h.minute(t, crowd)
	if states := h.backgrounds(t); len(states) != 2 {
		t.Errorf("what is switched off runs: %v", states)
	}
	// Without the right to use it, nothing runs for whoever installed it: his slot says so.
	if a := manager.ask(t, "POST", "/v1/plugins/"+id+"/enable", m{"generation": 2}); a.status != 200 {
		t.Fatalf("%d %+v", a.status, a.envelope)
	}
	h.mayIn(t, "reviewer", capability.Manage)
	h.slotNow(t, id)
	h.minute(t, crowd)
	if states := h.backgrounds(t); len(states) != 3 || !strings.Contains(strings.Join(states, " "), "failed") {
		t.Errorf("%v", states)
	}
}

// What is due at nine o'clock is told at nine o'clock, however much it is: one minute tells
// all, and two at once tell each once.
//
// covers: A2, X3
func TestAMinuteTellsACrowd(t *testing.T) {
	t.Parallel()
	const crowd = 10 * storage.MaxChanges
	h := plugged(t, "--minute", "1h")
	id := h.person(t, "reviewer").install(t, "study", studyPlugin, "storage", "notifications")
	store, actor := h.parts(t).Store, h.URL+"|engineer"
	for n := range crowd / storage.MaxChanges {
		e := storage.Execution{ExecutionID: fmt.Sprint("exec_crowd", n), Workspace: pluginSpace, Actor: actor, InstanceID: id, State: storage.Running}
		err := store.CreateExecution(t.Context(), e)
		var due []storage.Notification
		for i := range storage.MaxChanges {
			due = append(due, storage.Notification{NotificationID: fmt.Sprint("ntf_", n, "_", i), Workspace: pluginSpace, Actor: actor, InstanceID: id, Key: fmt.Sprint(n, " ", i), At: time.Now().UTC(), Title: fmt.Sprint(n, " ", i)})
		}
		if err == nil {
			e.Version, e.State = 1, storage.Succeeded
			err = store.Apply(t.Context(), storage.Step{Execution: e, Schedule: due})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now()
	h.minute(t, 2)
	t.Logf("%d are told in %v", crowd, time.Since(began))
	told, err := store.Notifications(t.Context(), pluginSpace, actor, crowd+1)
	if err != nil || len(told) != crowd {
		t.Fatalf("%d of %d are told: %v", len(told), crowd, err)
	}
	seen := map[string]bool{}
	for _, n := range told {
		if seen[n.NotificationID] || n.Withheld != "" {
			t.Errorf("%+v", n)
		}
		seen[n.NotificationID] = true
	}
}

// Of many who change one item from one version, one does; who keep different things in
// one namespace at once all do.
//
// covers: A2
func TestManyWhoSaveAtOnce(t *testing.T) {
	t.Parallel()
	const crowd = 16
	h := plugged(t, "--minute", "1h")
	id := h.person(t, "reviewer").install(t, "study", studyPlugin, "storage", "notifications")
	model := h.ai(t, "engineer")
	together := func(arguments func(n int) m, key string) (codes map[string]int) {
		codes = map[string]int{}
		var mu sync.Mutex
		var all sync.WaitGroup
		for n := range crowd {
			all.Go(func() {
				a := model.do(t, id, "study.save", fmt.Sprint(key, n), arguments(n))
				mu.Lock()
				defer mu.Unlock()
				codes[a.at("state")+a.at("failure", "code")]++
			})
		}
		all.Wait()
		return codes
	}
	at := "2026-12-02T09:00:00+09:00"
	if got := together(func(n int) m { return m{"itemId": fmt.Sprint("i", n), "title": "t", "at": at} }, "own"); got["succeeded"] != crowd {
		t.Errorf("of %d items of their own: %v", crowd, got)
	}
	if got := together(func(n int) m { return m{"itemId": "one", "title": fmt.Sprint(n), "at": at} }, "new"); got["succeeded"] != 1 || got["failedPLUGIN_STORAGE_CONFLICT"] != crowd-1 {
		t.Errorf("of one new item: %v", got)
	}
	if got := together(func(n int) m { return m{"itemId": "one", "title": fmt.Sprint(n), "at": at, "expectedVersion": 1} }, "next"); got["succeeded"] != 1 || got["failedPLUGIN_STORAGE_CONFLICT"] != crowd-1 {
		t.Errorf("of one version of an item: %v", got)
	}
	if a := model.do(t, id, "study.get", "get", m{"itemId": "one"}); a.at("result", "data", "item", "version") != "2" {
		t.Errorf("%+v", a.envelope)
	}
	if a := model.do(t, id, "study.list", "list", m{}); a.at("result", "data", "total") != fmt.Sprint(crowd+1) {
		t.Errorf("%+v", a.envelope)
	}
}
