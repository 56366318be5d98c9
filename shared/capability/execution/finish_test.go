package execution_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/capability"
	"github.com/pxhost/pxhost/shared/capability/execution"
	"github.com/pxhost/pxhost/shared/capability/host"
	"github.com/pxhost/pxhost/shared/capability/safeschema"
	"github.com/pxhost/pxhost/shared/outcome"
)

const storing = `{"pluginKey":"study","version":"1.0.0","title":"학습","permissions":["storage","notifications"],"capabilities":[
	{"id":"plan","kind":"tool","title":"계획","description":"d","permissions":["storage"],"timeout_seconds":30,"runtime":{"adapter":"calendar_store","operation":"save","namespace":"study.schedule"}},
	{"id":"slow","kind":"tool","title":"계획","description":"d","permissions":["storage"],"timeout_seconds":300,"runtime":{"adapter":"calendar_store","operation":"save","namespace":"study.schedule"}},
	{"id":"job","kind":"tool","title":"분석","description":"d","permissions":["storage"],"timeout_seconds":30,
	 "output_schema":{"type":"object","properties":{"n":{"type":"integer"}}},"runtime":{"adapter":"sandbox_python","entrypoint":"src/a.py"}},
	{"id":"told","kind":"tool","title":"알림","description":"d","permissions":["storage","notifications"],"timeout_seconds":30,"runtime":{"adapter":"sandbox_python","entrypoint":"src/b.py"}}]}`

var notes = host.Namespace{Workspace: workspace, InstanceID: "inst", Name: "notes"}

func openStoring(t *testing.T) *world {
	w := openWith(t, capability.CalendarStore, storing)
	w.edit(func(i *capability.Instance) { i.Granted = []capability.Permission{"storage", "notifications"} })
	return w
}

func (w *world) finisher() *execution.Finisher {
	return &execution.Finisher{Store: w.faults, Objects: w.store, Workspaces: w.runner.Workspaces, Schemas: w.runner.Schemas, Now: func() time.Time { return w.clock }}
}

func asked(capabilityID, key string) execution.Request {
	q := request(key)
	q.CapabilityID = capabilityID
	return q
}

// seed keeps a value under a key, at version 1 or the next.
func (w *world) seed(key, value string) {
	w.Helper()
	items, err := w.store.Some(w.Context(), notes, []string{key})
	if err != nil {
		w.Fatal(err)
	}
	x := host.Expectation{Namespace: notes.Name, Key: key}
	if items != nil {
		x.Version = items[0].Version
	}
	e := host.Execution{ExecutionID: fmt.Sprint("seed", key, x.Version), Workspace: workspace, InstanceID: "inst", State: host.Running}
	if err := w.store.CreateExecution(w.Context(), e); err != nil {
		w.Fatal(err)
	}
	e.Version, e.State = 1, host.Succeeded
	if err := w.store.Apply(w.Context(), host.Step{Execution: e, Puts: []host.Put{{Expectation: x, Value: canon.Raw(value)}}}); err != nil {
		w.Fatal(err)
	}
}

// queue is an execution of a job that was handed something.
func (w *world) queue(capabilityID, key string, reads ...host.Expectation) host.Execution {
	w.Helper()
	e, err := w.desk.Accept(w.Context(), asked(capabilityID, key))
	if err != nil {
		w.Fatal(err)
	}
	e.Phase, e.Fence, e.Reads, e.DueAt = host.Queued, 1, reads, e.Deadline
	if err := w.store.Apply(w.Context(), host.Step{Execution: e}); err != nil {
		w.Fatal(err)
	}
	return w.read(e.ExecutionID)
}

func (w *world) read(id string) host.Execution {
	w.Helper()
	e, err := w.store.Execution(w.Context(), id)
	if err != nil {
		w.Fatal(err)
	}
	return e
}

// kept is what the storage holds, as key=value@version, and how often it has changed.
func (w *world) kept() string {
	w.Helper()
	items, version, err := w.store.Items(w.Context(), notes)
	if err != nil {
		w.Fatal(err)
	}
	out := fmt.Sprint(version)
	for _, i := range items {
		out += fmt.Sprintf(" %s=%s@%d", i.Key, i.Value, i.Version)
	}
	return out
}

func version(n int64) *int64 { return &n }

func put(key, value string, expected *int64) capability.Action {
	return capability.Action{Kind: "storage.put", Namespace: "notes", Key: key, Value: canon.Raw(value), ExpectedVersion: expected}
}

func with(actions ...capability.Action) capability.Result {
	return capability.Result{Summary: "done", Data: canon.Raw(`{"n":1}`), Actions: actions}
}

// covers: A2, X3
func TestActionsAreAppliedWithTheEnd(t *testing.T) {
	w := openStoring(t)
	w.seed("old", `1`)
	at := w.clock.Add(time.Hour)
	w.call = func(context.Context, capability.Call) (capability.Result, error) {
		return with(put("new", `{"a":1}`, version(0)), capability.Action{Kind: "storage.delete", Namespace: "notes", Key: "old", ExpectedVersion: version(1)},
			capability.Action{Kind: "notification.schedule", Namespace: "notes", Key: "new", At: at, Title: "제목", Text: "글"}), nil
	}
	first := asked("plan", "k").ID()
	e, err := w.do(asked("plan", "k"))
	if err != nil || e.State != host.Succeeded || e.Actions == "" || e.Result == "" || !e.DueAt.IsZero() || w.kept() != `2 new={"a":1}@1` {
		t.Fatalf("%+v %v, and there is %s", e, err, w.kept())
	}
	want := host.Notification{NotificationID: execution.NotificationID("inst", first, "notes", "new"), Workspace: workspace, Actor: actor, InstanceID: "inst", Namespace: "notes", Key: "new",
		At: at, Title: "제목", Text: "글", Version: 1}
	if due, err := w.store.DueNotifications(t.Context(), at, 10); err != nil || len(due) != 1 || !reflect.DeepEqual(due[0], want) {
		t.Errorf("%+v %v", due, err)
	}
	// Another takes it back.
	w.call = func(context.Context, capability.Call) (capability.Result, error) {
		return with(capability.Action{Kind: "notification.withdraw", Namespace: "notes", Key: "new", ExecutionID: first}), nil
	}
	if e, err := w.do(asked("plan", "l")); err != nil || e.State != host.Succeeded {
		t.Error(e, err)
	}
	if due, err := w.store.DueNotifications(t.Context(), at, 10); err != nil || len(due) != 0 {
		t.Errorf("%+v %v", due, err)
	}
}

// Whichever write fails, before it was done or after, and whether the process lives on or
// dies there: the actions are applied once, or the execution ends with none of them.
//
// covers: X3, U5
func TestWhateverWriteFailsActionsAreAppliedOnce(t *testing.T) {
	for _, kill := range []bool{false, true} {
		for _, after := range []bool{false, true} {
			for fail := 1; fail <= 5; fail++ {
				t.Run(fmt.Sprintf("write %d, after %v, killed %v", fail, after, kill), func(t *testing.T) {
					w := openStoring(t)
					w.call = func(ctx context.Context, c capability.Call) (capability.Result, error) {
						return with(put("a", `1`, version(0)), capability.Action{Kind: "notification.schedule", Key: "a", At: w.clock, Title: "t"}), nil
					}
					w.faults.fail, w.faults.after, w.faults.kill = fail, after, kill
					_, _ = w.do(asked("plan", "k"))
					w.faults.dead, w.faults.fail = false, 0
					if _, err := w.do(asked("plan", "k")); err != nil {
						t.Error(err)
					}
					for range 5 {
						w.clock = w.clock.Add(time.Minute)
						if err := w.desk.Tick(t.Context(), 10); err != nil {
							t.Error(err)
						}
					}
					e := w.read(asked("plan", "k").ID())
					due, err := w.store.DueNotifications(t.Context(), w.clock, 10)
					applied := w.kept() == `1 a=1@1` && len(due) == 1
					nothing := w.kept() == `0` && len(due) == 0
					if err != nil || !e.State.Terminal() || (e.State == host.Succeeded) != applied || !applied && !nothing {
						t.Errorf("it is %s %s %s, and there is %s with %d notifications", e.State, e.Phase, e.Code, w.kept(), len(due))
					}
					// Only who died before anything was computed leaves nothing.
					if e.State != host.Succeeded && (fail > 2 && (after || fail > 3)) {
						t.Errorf("what was computed is lost: %+v", e)
					}
				})
			}
		}
	}
}

// What died before anything was computed begins anew while there is time, since nothing
// was done for it; who was slow and not dead brings nothing any more.
func TestWhatReachesNothingOutsideBeginsAnew(t *testing.T) {
	w := openStoring(t)
	w.call = func(ctx context.Context, c capability.Call) (capability.Result, error) {
		if w.calls.Load() == 1 { // it hangs, for longer than a minute looks on
			w.clock = w.clock.Add(61 * time.Second)
			if err := w.desk.Tick(ctx, 10); err != nil {
				t.Error(err)
			}
			return with(put("a", `"late"`, version(0))), nil
		}
		return with(put("a", `1`, version(0))), nil
	}
	e, err := w.do(asked("slow", "k"))
	if err != nil || e.State != host.Succeeded || w.calls.Load() != 2 || w.kept() != `1 a=1@1` || e.Fence != 2 {
		t.Errorf("%+v %v, and there is %s", e, err, w.kept())
	}
	// One that died with its claim.
	w.faults.writes, w.faults.fail, w.faults.kill = 0, 3, true
	w.call = func(context.Context, capability.Call) (capability.Result, error) {
		return with(put("b", `1`, version(0))), nil
	}
	_, _ = w.do(asked("slow", "l"))
	w.faults.fail, w.faults.dead = 0, false
	if e := w.read(asked("slow", "l").ID()); e.Phase != host.Claimed {
		t.Fatalf("%+v", e)
	}
	w.clock = w.clock.Add(time.Minute)
	if err := w.desk.Tick(t.Context(), 10); err != nil {
		t.Error(err)
	}
	if e := w.read(asked("slow", "l").ID()); e.State != host.Succeeded || w.kept() != `2 a=1@1 b=1@1` {
		t.Errorf("%+v, and there is %s", e, w.kept())
	}
}

// covers: X2
func TestAResultIsNotAppliedToAnotherState(t *testing.T) {
	edit := func(how func(*capability.Instance)) func(*world) { return func(w *world) { w.edit(how) } }
	for name, c := range map[string]struct {
		change func(*world)
		state  host.State
		code   outcome.Code
	}{
		"nothing has changed":      {func(*world) {}, host.Succeeded, ""},
		"another package":          {edit(func(i *capability.Instance) { i.PluginVersion = "1.0.1" }), host.Failed, outcome.ExtensionVersionMismatch},
		"other settings":           {edit(func(i *capability.Instance) { i.Settings = canon.Raw(`{"a":1}`) }), host.Failed, outcome.ExtensionVersionMismatch},
		"a permission taken away":  {edit(func(i *capability.Instance) { i.Granted = nil }), host.Failed, outcome.ExtensionPermissionDenied},
		"another permission given": {edit(func(i *capability.Instance) { i.Granted = append(i.Granted, "network") }), host.Failed, outcome.ExtensionVersionMismatch},
		"switched off":             {edit(func(i *capability.Instance) { i.Enabled = false }), host.Failed, outcome.ExtensionDisabled},
		"removed":                  {edit(func(i *capability.Instance) { i.Removed = true }), host.Failed, outcome.ExtensionNotFound},
		"off and on again": {func(w *world) {
			w.edit(func(i *capability.Instance) { i.Enabled = false })
			w.edit(func(i *capability.Instance) { i.Enabled = true })
		}, host.Failed, outcome.ExtensionVersionMismatch},
		"the actor's right taken away": {func(w *world) {
			m, err := w.store.Member(w.Context(), workspace, actor)
			if err != nil {
				w.Fatal(err)
			}
			w.change(host.Change{Member: &host.Membership{Actor: actor, Member: capability.Member{Version: m.Version}}})
		}, host.Failed, outcome.ExtensionNotFound},
		"the chat stopped": {func(w *world) {
			if _, err := w.desk.Cancel(w.Context(), actor, asked("job", "k").ID()); err != nil {
				w.Error(err)
			}
		}, host.Cancelled, ""},
	} {
		result := with(put("a", `1`, version(0)))
		check := func(t *testing.T, w *world) {
			e := w.read(asked("job", "k").ID())
			if e.State != c.state || e.Code != c.code || (w.kept() == `1 a=1@1`) != (c.state == host.Succeeded) || (e.Result != "") != (c.state == host.Succeeded) || c.state != host.Succeeded && w.kept() != `0` {
				t.Errorf("%+v, and there is %s", e, w.kept())
			}
		}
		t.Run(name+", before there was a result", func(t *testing.T) {
			w := openStoring(t)
			e := w.queue("job", "k")
			c.change(w)
			if _, err := w.finisher().Complete(t.Context(), e.ExecutionID, 1, result); err != nil {
				t.Error(err)
			}
			check(t, w)
		})
		t.Run(name+", between the result and its actions", func(t *testing.T) {
			w := openStoring(t)
			e := w.queue("job", "k")
			w.faults.fail, w.faults.kill = 2, true
			w.faults.writes = 0
			if _, err := w.finisher().Complete(t.Context(), e.ExecutionID, 1, result); !errors.Is(err, errStore) || w.read(e.ExecutionID).Phase != host.Computed {
				t.Fatal(err, w.read(e.ExecutionID))
			}
			w.faults.fail, w.faults.dead = 0, false
			c.change(w)
			w.clock = w.clock.Add(2 * time.Minute)
			if err := w.desk.Tick(t.Context(), 10); err != nil {
				t.Error(err)
			}
			check(t, w)
		})
		t.Run(name+", in the very write", func(t *testing.T) {
			w := openStoring(t)
			e := w.queue("job", "k")
			f := w.finisher()
			f.Store = &between{Store: w.store, at: 2, do: func() { c.change(w) }}
			if _, err := f.Complete(t.Context(), e.ExecutionID, 1, result); err != nil {
				t.Error(err)
			}
			if name == "the actor's right taken away" {
				return // rights are read right before; who loses his in that moment had it
			}
			check(t, w)
		})
	}
}

// between does something right before a write.
type between struct {
	host.Store
	at, writes int
	do         func()
}

func (b *between) Apply(ctx context.Context, s host.Step) error {
	if b.writes++; b.writes == b.at {
		b.do()
	}
	return b.Store.Apply(ctx, s)
}

// covers: X4
func TestStorageThatHasChangedIsAConflict(t *testing.T) {
	whole := func(v int64) host.Expectation { return host.Expectation{Namespace: "notes", Version: v} }
	key := func(k string, v int64) host.Expectation {
		return host.Expectation{Namespace: "notes", Key: k, Version: v}
	}
	drop := func(k string, v *int64) capability.Action {
		return capability.Action{Kind: "storage.delete", Namespace: "notes", Key: k, ExpectedVersion: v}
	}
	for name, c := range map[string]struct {
		reads   []host.Expectation
		actions []capability.Action
		change  string // a key that is changed meanwhile
		kept    string
		version int64 // that the conflict tells; -1 is none
	}{
		"what it was handed is as it was":             {[]host.Expectation{key("a", 1)}, []capability.Action{put("a", `2`, nil)}, "", `3 a=2@2 b=1@1`, -1},
		"what it was handed has changed":              {[]host.Expectation{key("a", 1)}, []capability.Action{put("a", `2`, nil)}, "a", `3 a="x"@2 b=1@1`, 2},
		"what it was handed alone has changed":        {[]host.Expectation{key("b", 1)}, []capability.Action{put("a", `2`, version(1))}, "b", `3 a=1@1 b="x"@2`, 2},
		"what is none of its own has changed":         {[]host.Expectation{key("a", 1)}, []capability.Action{put("a", `2`, nil)}, "b", `4 a=2@2 b="x"@2`, -1},
		"it was handed that there is none":            {[]host.Expectation{key("c", 0)}, []capability.Action{put("c", `2`, nil)}, "", `3 a=1@1 b=1@1 c=2@1`, -1},
		"there is one by now":                         {[]host.Expectation{key("c", 0)}, []capability.Action{put("c", `2`, nil)}, "c", `3 a=1@1 b=1@1 c="x"@1`, 1},
		"a namespace as it was":                       {[]host.Expectation{whole(2)}, []capability.Action{put("a", `2`, nil), put("c", `2`, nil), drop("b", nil)}, "", `3 a=2@2 c=2@1`, -1},
		"another item of the namespace has changed":   {[]host.Expectation{whole(2)}, []capability.Action{put("a", `2`, nil)}, "b", `3 a=1@1 b="x"@2`, 3},
		"a namespace that was read, and other":        {[]host.Expectation{whole(2)}, nil, "c", `3 a=1@1 b=1@1 c="x"@1`, 3},
		"it names the version that there is":          {nil, []capability.Action{put("a", `2`, version(1)), drop("b", version(1))}, "", `3 a=2@2`, -1},
		"it names another version":                    {nil, []capability.Action{put("a", `2`, version(7))}, "", `2 a=1@1 b=1@1`, 1},
		"it names that there is none":                 {nil, []capability.Action{put("a", `2`, version(0))}, "", `2 a=1@1 b=1@1`, 1},
		"it names another than it was handed":         {[]host.Expectation{key("a", 1)}, []capability.Action{put("a", `2`, version(2))}, "a", `3 a="x"@2 b=1@1`, 2},
		"nothing is deleted, and there is none":       {[]host.Expectation{key("c", 0)}, []capability.Action{drop("c", nil)}, "", `2 a=1@1 b=1@1`, -1},
		"nothing is to be deleted, and there is one":  {[]host.Expectation{key("c", 0)}, []capability.Action{drop("c", nil)}, "c", `3 a=1@1 b=1@1 c="x"@1`, 1},
		"one of several has changed: none is applied": {nil, []capability.Action{put("a", `2`, version(1)), put("b", `2`, version(1))}, "b", `3 a=1@1 b="x"@2`, 2},
	} {
		t.Run(name, func(t *testing.T) {
			w := openStoring(t)
			w.seed("a", `1`)
			w.seed("b", `1`)
			e := w.queue("job", "k", c.reads...)
			if c.change != "" {
				w.seed(c.change, `"x"`)
			}
			e, err := w.finisher().Complete(t.Context(), e.ExecutionID, 1, with(c.actions...))
			if err != nil || w.kept() != c.kept {
				t.Errorf("%v, and there is %s, want %s", err, w.kept(), c.kept)
			}
			want := outcome.Params(nil)
			if c.version >= 0 {
				want = outcome.Params{"namespace": "notes", "version": c.version}
			}
			if now := w.read(e.ExecutionID); (now.Code == outcome.PluginStorageConflict) != (want != nil) || !reflect.DeepEqual(now.Params, want) || now.State == host.Succeeded != (want == nil) {
				t.Errorf("%+v", now)
			}
		})
	}
}

// An item that was removed and stored anew has the version that the job was handed, and
// is another one.
//
// covers: X4
func TestAnItemThatIsAnotherOneIsAConflict(t *testing.T) {
	for name, actions := range map[string][]capability.Action{"changed": {put("a", `2`, nil)}, "changed by its version": {put("a", `2`, version(1))}, "read": nil} {
		w := openStoring(t)
		w.seed("a", `1`)
		items, err := w.store.Some(t.Context(), host.Namespace{Workspace: workspace, InstanceID: "inst", Name: "notes"}, []string{"a"})
		if err != nil {
			t.Fatal(err)
		}
		x := host.Expectation{Namespace: "notes", Key: "a", Version: 1, Written: items[0].Written}
		e := w.queue("job", "k", x)
		other := host.Execution{ExecutionID: "exec_other", Workspace: workspace, InstanceID: "inst", State: host.Running}
		if err := w.store.CreateExecution(t.Context(), other); err != nil {
			t.Fatal(err)
		}
		other.Version = 1
		if err := w.store.Apply(t.Context(), host.Step{Execution: other, Deletes: []host.Expectation{x}}); err != nil {
			t.Fatal(err)
		}
		other.Version, x.Version, x.Written = 2, 0, 0
		if err := w.store.Apply(t.Context(), host.Step{Execution: other, Puts: []host.Put{{Expectation: x, Value: canon.Raw(`"x"`)}}}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.finisher().Complete(t.Context(), e.ExecutionID, 1, with(actions...)); err != nil || w.kept() != `3 a="x"@1` {
			t.Errorf("%s: %v, and there is %s", name, err, w.kept())
		}
		if now := w.read(e.ExecutionID); now.Code != outcome.PluginStorageConflict {
			t.Errorf("%s: %+v", name, now)
		}
	}
}

// covers: X4
func TestAJobThatGivesOtherActionsThanBefore(t *testing.T) {
	first, other := with(put("a", `1`, version(0))), with(put("a", `2`, version(0)))
	t.Run("before they were applied", func(t *testing.T) {
		for name, second := range map[string]capability.Result{"others": other, "none": with(), "more": with(first.Actions[0], put("b", `1`, version(0)))} {
			w := openStoring(t)
			e := w.queue("job", "k")
			w.faults.writes, w.faults.fail = 0, 2
			if _, err := w.finisher().Complete(t.Context(), e.ExecutionID, 1, first); !errors.Is(err, errStore) {
				t.Fatal(err)
			}
			now, err := w.finisher().Complete(t.Context(), e.ExecutionID, 1, second)
			if err != nil || now.State != host.Failed || now.Code != outcome.PluginOutcomeChanged || w.kept() != "0" {
				t.Errorf("%s: %+v %v, and there is %s", name, now, err, w.kept())
			}
		}
	})
	t.Run("after they were applied", func(t *testing.T) {
		w := openStoring(t)
		e := w.queue("job", "k")
		for _, result := range []capability.Result{first, first} {
			if now, err := w.finisher().Complete(t.Context(), e.ExecutionID, 1, result); err != nil || now.State != host.Succeeded || w.kept() != "1 a=1@1" {
				t.Errorf("%+v %v, and there is %s", now, err, w.kept())
			}
		}
		if now, err := w.finisher().Complete(t.Context(), e.ExecutionID, 1, other); code(err) != outcome.PluginOutcomeChanged || now.State != host.Succeeded || w.kept() != "1 a=1@1" {
			t.Errorf("%+v %v, and there is %s", now, err, w.kept())
		}
	})
	t.Run("the same actions with other data: what was computed first stands", func(t *testing.T) {
		w := openStoring(t)
		e := w.queue("job", "k")
		w.faults.writes, w.faults.fail = 0, 2
		if _, err := w.finisher().Complete(t.Context(), e.ExecutionID, 1, first); !errors.Is(err, errStore) {
			t.Fatal(err)
		}
		again := first
		again.Summary = "other"
		now, err := w.finisher().Complete(t.Context(), e.ExecutionID, 1, again)
		if err != nil || now.State != host.Succeeded {
			t.Fatal(now, err)
		}
		if r, err := w.desk.Result(t.Context(), now); err != nil || r.Summary != "done" {
			t.Error(r, err)
		}
	})
	t.Run("a claim that is over brings nothing", func(t *testing.T) {
		w := openStoring(t)
		e := w.queue("job", "k")
		if now, err := w.finisher().Complete(t.Context(), e.ExecutionID, 0, first); !errors.Is(err, execution.ErrStale) || now.State != host.Running || w.kept() != "0" {
			t.Error(now, err)
		}
		if _, err := w.finisher().Fail(t.Context(), e.ExecutionID, 2, &capability.Failure{Code: outcome.ExtensionTimeout}); !errors.Is(err, execution.ErrStale) {
			t.Error(err)
		}
		for range 2 {
			if now, err := w.finisher().Fail(t.Context(), e.ExecutionID, 1, &capability.Failure{Code: outcome.ExtensionTimeout}); err != nil || now.State != host.Failed || now.Code != outcome.ExtensionTimeout {
				t.Error(now, err)
			}
		}
	})
}

// covers: C4, C5
func TestActionsThatAreNone(t *testing.T) {
	at := time.Date(2026, 12, 1, 9, 0, 0, 0, time.UTC)
	many := func(n int) (out []capability.Action) {
		for i := range n {
			out = append(out, put(fmt.Sprint("k", i), `1`, version(0)))
		}
		return out
	}
	spread := func(n int) (out []capability.Action) {
		for i := range n {
			out = append(out, capability.Action{Kind: "storage.put", Namespace: fmt.Sprint("n", i), Key: "k", Value: canon.Raw(`1`), ExpectedVersion: version(0)})
		}
		return out
	}
	schedule := capability.Action{Kind: "notification.schedule", Key: "k", At: at, Title: "t"}
	for name, c := range map[string]struct {
		capability string
		actions    []capability.Action
		code       outcome.Code
		path       string
		keyword    string
	}{
		"another kind":                 {"job", []capability.Action{{Kind: "secret", Key: "k"}}, outcome.ExtensionResponseInvalid, "/actions/0/kind", "enum"},
		"no key":                       {"job", []capability.Action{put("a", `1`, version(0)), put("", `1`, version(0))}, outcome.ExtensionResponseInvalid, "/actions/1/key", "minLength"},
		"a key with a line":            {"job", []capability.Action{put("secret\n", `1`, version(0))}, outcome.ExtensionResponseInvalid, "/actions/0/key", "characters"},
		"no namespace":                 {"job", []capability.Action{{Kind: "storage.put", Key: "a", Value: canon.Raw(`1`), ExpectedVersion: version(0)}}, outcome.ExtensionResponseInvalid, "/actions/0/namespace", "required"},
		"a namespace of no form":       {"job", []capability.Action{{Kind: "storage.delete", Namespace: "secret/..", Key: "a", ExpectedVersion: version(1)}}, outcome.ExtensionResponseInvalid, "/actions/0/namespace", "pattern"},
		"no value":                     {"job", []capability.Action{{Kind: "storage.put", Namespace: "notes", Key: "a", ExpectedVersion: version(0)}}, outcome.ExtensionResponseInvalid, "/actions/0/value", "required"},
		"a value to be deleted":        {"job", []capability.Action{{Kind: "storage.delete", Namespace: "notes", Key: "a", Value: canon.Raw(`"secret"`), ExpectedVersion: version(0)}}, outcome.ExtensionResponseInvalid, "/actions/0/*", "additionalProperties"},
		"a version below 0":            {"job", []capability.Action{put("a", `1`, version(-1))}, outcome.ExtensionResponseInvalid, "/actions/0/expectedVersion", "minimum"},
		"a value that is too long":     {"job", []capability.Action{put("a", `"`+strings.Repeat("secret", host.MaxValue/6+1)+`"`, version(0))}, outcome.ExtensionResponseInvalid, "/actions/0/value", "maxLength"},
		"a value as long as it may be": {"job", []capability.Action{put("a", `"`+strings.Repeat("x", host.MaxValue-2)+`"`, version(0))}, "", "", ""},
		"what was never seen":          {"job", []capability.Action{put("a", `1`, nil)}, outcome.ExtensionResponseInvalid, "/actions/0/expectedVersion", "required"},
		"one item twice":               {"job", []capability.Action{put("a", `1`, version(0)), put("a", `2`, version(0))}, outcome.ExtensionResponseInvalid, "/actions/1/key", "unique"},
		"one notification twice":       {"told", []capability.Action{schedule, schedule}, outcome.ExtensionResponseInvalid, "/actions/1/key", "unique"},
		"scheduled and taken back":     {"told", []capability.Action{schedule, {Kind: "notification.withdraw", Key: "k", ExecutionID: asked("told", "k").ID()}}, outcome.ExtensionResponseInvalid, "/actions/1/key", "unique"},
		"no time":                      {"told", []capability.Action{{Kind: "notification.schedule", Key: "k", Title: "t"}}, outcome.ExtensionResponseInvalid, "/actions/0/at", "required"},
		"a time beyond all years":      {"told", []capability.Action{{Kind: "notification.schedule", Key: "k", Title: "t", At: time.Date(9999, 12, 31, 23, 0, 0, 0, time.FixedZone("", -7200))}}, outcome.ExtensionResponseInvalid, "/actions/0/at", "range"},
		"not asked for":                {"job", []capability.Action{schedule}, outcome.ExtensionPermissionDenied, "", ""},
		"as many as there may be":      {"job", many(host.MaxChanges), "", "", ""},
		"one more":                     {"job", many(host.MaxChanges + 1), outcome.ExtensionResponseInvalid, "", ""},
		"as many namespaces":           {"job", spread(host.MaxNamespaces), "", "", ""},
		"one namespace more":           {"job", spread(host.MaxNamespaces + 1), outcome.ExtensionResponseInvalid, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := openStoring(t)
			e := w.queue(c.capability, "k")
			e, err := w.finisher().Complete(t.Context(), e.ExecutionID, 1, with(c.actions...))
			now := w.read(e.ExecutionID)
			if err != nil || now.Code != c.code || (now.State == host.Succeeded) != (c.code == "") || c.code != "" && w.kept() != "0" || strings.Contains(fmt.Sprintf("%+v", now), "secret") {
				t.Errorf("%s %v, and there is %.80s", now.Code, err, w.kept())
			}
			if found, _ := now.Params["violations"].([]safeschema.Violation); c.path != "" && (len(found) != 1 || found[0].Path != c.path || found[0].Keyword != c.keyword) {
				t.Errorf("%+v", now.Params)
			}
		})
	}
	t.Run("of another adapter", func(t *testing.T) {
		w := open(t)
		w.call = func(context.Context, capability.Call) (capability.Result, error) {
			return with(put("a", `1`, version(0))), nil
		}
		if e, err := w.do(request("k")); err != nil || e.Code != outcome.ExtensionResponseInvalid || w.kept() != "0" {
			t.Error(e, err)
		}
	})
	t.Run("more items than a namespace holds", func(t *testing.T) {
		w := openStoring(t)
		for i := range host.MaxItems / host.MaxChanges {
			actions := many(host.MaxChanges)
			for j := range actions {
				actions[j].Key += fmt.Sprint("-", i)
			}
			e := w.queue("job", fmt.Sprint(i))
			if e, err := w.finisher().Complete(t.Context(), e.ExecutionID, 1, with(actions...)); err != nil || e.State != host.Succeeded {
				t.Fatal(e, err)
			}
		}
		e := w.queue("job", "more")
		if e, err := w.finisher().Complete(t.Context(), e.ExecutionID, 1, with(put("one more", `1`, version(0)))); err != nil || e.Code != outcome.LimitExceeded {
			t.Error(e, err)
		}
	})
	t.Run("a result that does not fit", func(t *testing.T) {
		w := openStoring(t)
		e := w.queue("job", "k")
		bad := with(put("a", `1`, version(0)))
		bad.Data = canon.Raw(`{"n":"secret"}`)
		if e, err := w.finisher().Complete(t.Context(), e.ExecutionID, 1, bad); err != nil || e.Code != outcome.ExtensionOutputInvalid || w.kept() != "0" {
			t.Error(e, err)
		}
	})
}

// Whatever is tried in whatever order, with writes that fail and processes that die: the
// actions are applied once exactly when the execution has succeeded, and then stay.
//
// covers: X1, X3
func TestNoSequenceAppliesActionsTwice(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w := openStoring(t)
		w.call = func(context.Context, capability.Call) (capability.Result, error) {
			return with(put("a", `1`, version(0)), capability.Action{Kind: "notification.schedule", Key: "a", At: w.clock, Title: "t"}), nil
		}
		id := asked("plan", "k").ID()
		var ended host.Execution
		for range rapid.IntRange(1, 12).Draw(r, "steps") {
			w.faults.dead, w.faults.writes = false, 0
			w.faults.fail = rapid.IntRange(0, 5).Draw(r, "fail")
			w.faults.after, w.faults.kill = rapid.Bool().Draw(r, "after"), rapid.Bool().Draw(r, "kill")
			switch rapid.SampledFrom([]string{"do", "run", "tick", "later", "edit", "cancel", "complete", "change"}).Draw(r, "what") {
			case "do":
				_, _ = w.do(asked("plan", "k"))
			case "run":
				_ = w.runner.Run(t.Context(), id)
			case "tick":
				_ = w.desk.Tick(t.Context(), 10)
			case "later":
				w.clock = w.clock.Add(time.Minute)
			case "edit":
				w.edit(func(i *capability.Instance) {})
			case "cancel":
				_, _ = w.desk.Cancel(t.Context(), actor, id)
			case "complete":
				if e, err := w.store.Execution(t.Context(), id); err == nil {
					result, _ := w.call(t.Context(), capability.Call{})
					_, _ = w.finisher().Complete(t.Context(), id, e.Fence, result)
				}
			case "change":
				if items, _ := w.store.Some(t.Context(), notes, []string{"b"}); items == nil {
					w.seed("b", `1`)
				}
			}
			e, err := w.store.Execution(t.Context(), id)
			if err != nil {
				continue
			}
			items, _ := w.store.Some(t.Context(), notes, []string{"a"})
			due, _ := w.store.DueNotifications(t.Context(), w.clock, 10)
			if applied := len(items) == 1 && items[0].Version == 1 && len(due) == 1; applied != (e.State == host.Succeeded) || !applied && len(items)+len(due) > 0 {
				r.Fatalf("it is %s %s, and there are %v and %v", e.State, e.Phase, items, due)
			}
			if ended.State != "" && !reflect.DeepEqual(ended, e) {
				r.Fatalf("it has ended as %+v, and is %+v", ended, e)
			}
			if e.State.Terminal() {
				ended = e
			}
		}
	})
}
