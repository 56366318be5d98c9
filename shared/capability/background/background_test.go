package background_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/capability"
	"github.com/pxhost/pxhost/shared/capability/background"
	"github.com/pxhost/pxhost/shared/capability/execution"
	"github.com/pxhost/pxhost/shared/capability/host"
	"github.com/pxhost/pxhost/shared/capability/packaging"
	"github.com/pxhost/pxhost/shared/capability/safeschema"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/schema"
	"github.com/pxhost/pxhost/shared/store/memory"
)

const (
	workspace = "team"
	installer = "https://issuer|installer"
)

const manifest = `{"pluginKey":"watch","version":"1.0.0","title":"t","permissions":["storage","notifications"],"capabilities":[
	{"id":"watch","kind":"tool","title":"t","description":"d","permissions":["storage"],"timeout_seconds":300,
	 "input_schema":{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]},
	 "runtime":{"adapter":"text_template","template":"{arguments.n}","background":{"interval_minutes":15,"arguments":{"n":1}}}},
	{"id":"other","kind":"tool","title":"t","description":"d","permissions":[],"timeout_seconds":30,"runtime":{"adapter":"text_template","template":"x"}}]}`

// A world is a workspace with one instance that has a background capability.
type world struct {
	*testing.T
	clock   time.Time
	store   *memory.Store
	minute  background.Minute
	mu      sync.Mutex
	started []string
	refuse  error
}

// Invoke notes what is started: it ends when a test says so.
func (w *world) Invoke(_ context.Context, _ capability.AdapterName, id string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.refuse != nil {
		return w.refuse
	}
	if !slices.Contains(w.started, id) { // to call it again does nothing twice
		w.started = append(w.started, id)
	}
	return nil
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func open(t *testing.T) *world {
	w := &world{T: t, clock: time.Date(2026, 12, 1, 9, 0, 0, 0, time.UTC)}
	w.store = memory.New(func() time.Time { return w.clock })
	w.minute.Desk = w.desk(w.store)
	p := packaging.Package{Manifest: must(canon.Canonicalize([]byte(manifest)))}
	text := must(p.Stored())
	if err := w.store.Put(t.Context(), host.Space(workspace), text); err != nil {
		t.Fatal(err)
	}
	i := capability.Instance{InstanceID: "inst", Workspace: workspace, PluginKey: "watch", PluginVersion: "1.0.0", PackageDigest: must(p.Digest()), Package: string(history.RefOf(text)),
		Enabled: true, Granted: []capability.Permission{capability.Storage, capability.Notifications}, Settings: canon.Raw(`{}`), Generation: 1, InstalledBy: installer}
	w.change(host.Change{Instance: &i, Slots: background.Slots(w.installed(i), w.clock)})
	w.change(host.Change{Member: &host.Membership{Actor: installer, Member: capability.Member{Rights: []capability.Right{capability.Use}}}})
	return w
}

func (w *world) desk(s host.Store) *execution.Desk {
	return &execution.Desk{Store: s, Objects: w.store, Workspaces: &execution.Reader{Store: w.store, Objects: w.store}, Schemas: new(safeschema.Cache), Invoke: w, Now: func() time.Time { return w.clock }}
}

func (w *world) installed(i capability.Instance) capability.Installed {
	var m capability.Manifest
	if findings := schema.Decode([]byte(manifest), &m); findings != nil {
		w.Fatal(findings)
	}
	return capability.Install(i, m)
}

func (w *world) change(c host.Change) {
	w.Helper()
	c.Workspace = workspace
	if _, err := w.store.Change(w.Context(), c); err != nil {
		w.Fatal(err)
	}
}

// edit changes the instance as its managers' door does.
func (w *world) edit(how func(*capability.Instance)) {
	w.Helper()
	i := must(w.store.Instance(w.Context(), "inst"))
	before := w.installed(i)
	how(&i)
	i.Generation++
	after := w.installed(i)
	w.change(host.Change{Instance: &i, Slots: background.Slots(after, w.clock), Drop: background.Dropped(before, after)})
}

// slots are all due rows.
func (w *world) slots() []host.Slot {
	w.Helper()
	return must(w.store.DueSlots(w.Context(), w.clock.AddDate(1, 0, 0), 100))
}

// ticked is what a minute did.
type ticked struct{ Slots, Notifications int }

func (w *world) tick() ticked {
	w.Helper()
	slots, notifications, err := w.minute.Tick(w.Context(), 100)
	if err != nil {
		w.Error(err)
	}
	return ticked{slots, notifications}
}

func (w *world) read(id string) host.Execution {
	w.Helper()
	return must(w.store.Execution(w.Context(), id))
}

// end lets one come to its end.
func (w *world) end(id string) {
	w.Helper()
	e := w.read(id)
	if e.State.Terminal() { // its time was over
		return
	}
	e.State, e.DueAt = host.Succeeded, time.Time{}
	if err := w.store.Apply(w.Context(), host.Step{Execution: e}); err != nil {
		w.Fatal(err)
	}
}

// toSlot moves the clock to the beginning of the next slot that is to run.
func (w *world) toSlot() time.Time {
	w.Helper()
	w.clock = w.slots()[0].At
	return w.clock
}

func TestACapabilityRunsOnceInEachSlot(t *testing.T) {
	w := open(t)
	first := w.slots()
	at := first[0].At
	if len(first) != 1 || first[0].CapabilityID != "watch" || first[0].Minutes != 15 || at.After(w.clock) || w.clock.Sub(at) >= 15*time.Minute || at.Second() != 0 {
		t.Fatalf("%+v", first)
	}
	for n := range 4 {
		w.clock = at.Add(time.Duration(n)*15*time.Minute + 20*time.Second)
		for range 10 { // whatever is changed and however often it is asked
			w.tick()
			if len(w.started) != n+1 || !w.slots()[0].At.After(w.clock) {
				t.Fatalf("slot %d: started %v, and then %+v", n, w.started, w.slots())
			}
			w.clock = w.clock.Add(time.Minute)
			w.edit(func(i *capability.Instance) {})
		}
		e := w.read(w.started[n])
		if e.Actor != installer || e.Surface != "background" || e.ExecutionID != background.ExecutionID(first[0], at.Add(time.Duration(n)*15*time.Minute)) {
			t.Errorf("%+v", e)
		}
		w.end(w.started[n])
		w.clock = at.Add(time.Duration(n+1)*15*time.Minute - time.Second)
		if w.tick(); len(w.started) != n+1 {
			t.Errorf("slot %d begins before its time", n+1)
		}
	}
	// Instances do not all run at once.
	minutes := map[int]bool{}
	for n := range 50 {
		i := capability.Instance{InstanceID: fmt.Sprint("inst", n), Enabled: true, Granted: []capability.Permission{capability.Storage}}
		minutes[background.Slots(w.installed(i), w.clock)[0].At.Minute()%15] = true
	}
	if len(minutes) < 8 {
		t.Errorf("50 instances run in %d of 15 minutes", len(minutes))
	}
}

func TestSlotsFollowTheInstance(t *testing.T) {
	for name, how := range map[string]struct{ off, on func(*capability.Instance) }{
		"switched":             {func(i *capability.Instance) { i.Enabled = false }, func(i *capability.Instance) { i.Enabled = true }},
		"a permission":         {func(i *capability.Instance) { i.Granted = nil }, func(i *capability.Instance) { i.Granted = []capability.Permission{capability.Storage} }},
		"removed, and no more": {func(i *capability.Instance) { i.Removed = true }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := open(t)
			at := w.slots()[0].At
			w.tick()
			w.end(w.started[0])
			w.edit(how.off)
			if got := w.slots(); len(got) != 0 {
				t.Errorf("%+v", got)
			}
			w.clock = at.Add(16 * time.Minute)
			if got := w.tick(); got.Slots != 0 || len(w.started) != 1 {
				t.Errorf("it runs: %+v", got)
			}
			if how.on == nil {
				return
			}
			w.edit(how.on)
			for range 3 {
				w.tick()
			}
			if len(w.started) != 2 || w.started[1] != background.ExecutionID(host.Slot{InstanceID: "inst", CapabilityID: "watch"}, at.Add(15*time.Minute)) {
				t.Errorf("started %v", w.started)
			}
		})
	}
	t.Run("off and on in the slot in which it ran", func(t *testing.T) {
		w := open(t)
		w.tick()
		w.edit(func(i *capability.Instance) { i.Enabled = false })
		w.edit(func(i *capability.Instance) { i.Enabled = true })
		if w.tick(); len(w.started) != 1 || !w.slots()[0].At.After(w.clock) {
			t.Errorf("started %v", w.started)
		}
	})
	t.Run("off, when a minute has read the slot and not started it", func(t *testing.T) {
		w := open(t)
		w.minute.Desk = w.desk(&late{Store: w.store, before: func() { w.edit(func(i *capability.Instance) { i.Enabled = false }) }})
		if got := w.tick(); got.Slots != 0 || w.started != nil {
			t.Errorf("%+v, started %v", got, w.started)
		}
	})
}

// late does something right before a slot is started, and fails as it is told.
type late struct {
	host.Store
	before func()
	fail   error
	after  bool
}

func (l *late) StartSlot(ctx context.Context, next host.Slot, e *host.Execution) error {
	if l.before != nil {
		l.before()
	}
	if l.fail != nil && !l.after {
		return l.fail
	}
	return errors.Join(l.Store.StartSlot(ctx, next, e), l.fail)
}

// covers: X3
func TestTwoMinutesMakeOneExecutionOfASlot(t *testing.T) {
	w := open(t)
	at := w.slots()[0].At
	other := background.Minute{Desk: w.desk(w.store)}
	w.minute.Desk = w.desk(&late{Store: w.store, before: func() {
		if got, _, err := other.Tick(t.Context(), 10); err != nil || got != 1 {
			t.Error(got, err)
		}
	}})
	if got := w.tick(); got.Slots != 0 || len(w.started) != 1 {
		t.Errorf("%+v, started %v", got, w.started)
	}
	if e := w.read(background.ExecutionID(w.slots()[0], at)); e.ExecutionID != w.started[0] || e.State != host.Running {
		t.Errorf("%+v", e)
	}
	t.Run("many at once", func(t *testing.T) {
		w := open(t)
		w.toSlot()
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() { w.tick() })
		}
		all.Wait()
		if len(w.started) != 1 {
			t.Errorf("started %v", w.started)
		}
	})
}

// covers: U5
func TestWhateverFailsASlotRunsOnce(t *testing.T) {
	failed := errors.New("the store failed")
	for _, after := range []bool{false, true} {
		w := open(t)
		at := w.toSlot()
		w.minute.Desk = w.desk(&late{Store: w.store, fail: failed, after: after})
		if _, _, err := w.minute.Tick(t.Context(), 10); !errors.Is(err, failed) {
			t.Error(err)
		}
		w.minute.Desk = w.desk(w.store)
		for range 3 {
			w.clock = w.clock.Add(time.Minute)
			w.tick()
		}
		e := w.read(background.ExecutionID(w.slots()[0], at))
		if len(w.started) == 0 || e.State.Terminal() {
			t.Errorf("after %v: it was not started: %+v", after, e)
		}
		for _, id := range w.started {
			if id != e.ExecutionID {
				t.Errorf("after %v: another is started: %v", after, w.started)
			}
		}
	}
	// An adapter that cannot be called is called in the next minutes.
	w := open(t)
	w.toSlot()
	w.refuse = failed
	w.tick()
	w.refuse = nil
	w.clock = w.clock.Add(time.Minute)
	w.tick()
	if len(w.started) != 1 {
		t.Error(w.started)
	}
}

func TestASlotIsSkippedWhileTheOneBeforeRuns(t *testing.T) {
	w := open(t)
	at := w.toSlot()
	row := w.slots()[0]
	// What runs is kept from being given up: a sandbox job can run longer than a slot.
	hold := func(id string) {
		e := w.read(id)
		e.Phase, e.DueAt, e.Deadline = host.Queued, w.clock.AddDate(1, 0, 0), w.clock.AddDate(1, 0, 0)
		if err := w.store.Apply(t.Context(), host.Step{Execution: e}); err != nil {
			t.Fatal(err)
		}
	}
	w.tick()
	first := w.started[0]
	hold(first)
	w.edit(func(i *capability.Instance) {}) // before a minute has looked at its slot again
	w.clock = w.clock.Add(15 * time.Minute)
	if w.tick(); len(w.started) != 1 {
		t.Errorf("started %v", w.started)
	}
	for n := 1; n <= 3; n++ {
		w.toSlot()
		w.edit(func(i *capability.Instance) {}) // makes nobody forget it
		w.tick()
		e := w.read(background.ExecutionID(row, w.clock))
		if e.State != host.Cancelled || !e.DueAt.IsZero() || !reflect.DeepEqual(e.Params, outcome.Params{"reason": "skipped", "executionId": first}) || len(w.started) != 1 {
			t.Errorf("slot %d: %+v, started %v", n, e, w.started)
		}
	}
	w.end(first)
	w.toSlot()
	w.tick()
	if len(w.started) != 2 || w.started[1] != background.ExecutionID(row, w.clock) || !w.clock.After(at) {
		t.Error(w.started)
	}
}

func TestAfterAnOutageTheNewestSlotRunsAlone(t *testing.T) {
	w := open(t)
	at := w.toSlot()
	row := w.slots()[0]
	w.clock = at.Add(10*15*time.Minute + 7*time.Minute)
	w.tick()
	if len(w.started) != 1 || w.started[0] != background.ExecutionID(row, at.Add(10*15*time.Minute)) {
		t.Error(w.started)
	}
	if got := w.slots()[0].At; !got.Equal(at.Add(11 * 15 * time.Minute)) {
		t.Error(got)
	}
	for n := range 10 {
		if _, err := w.store.Execution(t.Context(), background.ExecutionID(row, at.Add(time.Duration(n)*15*time.Minute))); !errors.Is(err, host.ErrNotFound) {
			t.Errorf("slot %d: %v", n, err)
		}
	}
}

// covers: C2, C5
func TestASlotIsHeldToWhatItsInstallerMay(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*world)
		code   outcome.Code
	}{
		"he may not use it any more": {func(w *world) {
			m := must(w.store.Member(w.Context(), workspace, installer))
			w.change(host.Change{Member: &host.Membership{Actor: installer, Member: capability.Member{Version: m.Version, Rights: []capability.Right{capability.Manage}}}})
		}, outcome.ExtensionNotFound},
		"it is for others alone": {func(w *world) { w.edit(func(i *capability.Instance) { i.Actors = []string{"another"} }) }, outcome.ExtensionNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			w := open(t)
			c.change(w)
			w.toSlot()
			row := w.slots()[0]
			w.tick()
			e := w.read(background.ExecutionID(row, w.clock))
			if e.State != host.Failed || e.Code != c.code || w.started != nil || !e.DueAt.IsZero() || !w.slots()[0].At.After(w.clock) {
				t.Errorf("%+v, started %v", e, w.started)
			}
		})
	}
}

// ---- notifications ----

// schedule has something to be told.
func (w *world) schedule(id string, at time.Time) host.Notification {
	w.Helper()
	e := host.Execution{ExecutionID: "of " + id, Workspace: workspace, InstanceID: "inst", State: host.Running}
	n := host.Notification{NotificationID: id, Workspace: workspace, Actor: installer, InstanceID: "inst", Key: "k", At: at, Title: "title", Text: "text"}
	if err := w.store.CreateExecution(w.Context(), e); err != nil {
		w.Fatal(err)
	}
	e.Version, e.State = 1, host.Succeeded
	if err := w.store.Apply(w.Context(), host.Step{Execution: e, Schedule: []host.Notification{n}}); err != nil {
		w.Fatal(err)
	}
	return n
}

func (w *world) told() (out []string) {
	w.Helper()
	for _, n := range must(w.store.Notifications(w.Context(), workspace, installer, 100)) {
		out = append(out, strings.Join([]string{n.NotificationID, n.Title, n.Text, string(n.Withheld)}, "/"))
	}
	return out
}

// covers: A2, X3
func TestANotificationIsToldOnce(t *testing.T) {
	w := open(t)
	w.schedule("n", w.clock.Add(90*time.Second))
	for n, want := range []int{0, 0, 1, 0, 0} {
		w.clock = w.clock.Add(time.Duration(min(n, 1)) * time.Minute)
		if got := w.tick(); got.Notifications != want {
			t.Errorf("minute %d: %+v", n, got)
		}
	}
	if got := w.told(); !reflect.DeepEqual(got, []string{"n/title/text/"}) {
		t.Errorf("%q", got)
	}
	// Of many minutes at once, one tells it.
	w.schedule("m", w.clock)
	var mu sync.Mutex
	var all sync.WaitGroup
	told := 0
	for range 20 {
		all.Go(func() {
			got := w.tick()
			mu.Lock()
			defer mu.Unlock()
			told += got.Notifications
		})
	}
	all.Wait()
	if told != 1 || len(w.told()) != 2 {
		t.Errorf("told %d times: %q", told, w.told())
	}
}

// However many are due at once, one minute tells them all; one that cannot be told stops
// no other.
func TestAMinuteTellsAllThatIsDue(t *testing.T) {
	w := open(t)
	for n := range 450 {
		w.schedule(fmt.Sprintf("n%03d", n), w.clock)
	}
	w.minute.Desk = w.desk(&stuck{Store: w.store, id: "n000"})
	_, told, err := w.minute.Tick(t.Context(), 100)
	if !errors.Is(err, errPart) || told != 449 {
		t.Errorf("%d are told: %v", told, err)
	}
	w.minute.Desk = w.desk(w.store)
	if got := w.tick(); got.Notifications != 1 {
		t.Errorf("%+v", got)
	}
	// A minute that is nearly over begins nothing more.
	w.clock = time.Now().UTC().Add(50 * time.Second)
	for n := range 450 {
		w.schedule(fmt.Sprintf("m%03d", n), w.clock)
	}
	ctx, stop := context.WithDeadline(t.Context(), time.Now().Add(time.Minute))
	defer stop()
	if _, told, err := w.minute.Tick(ctx, 100); err != nil || told != 100 {
		t.Errorf("%d are told: %v", told, err)
	}
}

// Another minute at work takes things away under this one: its lists are short, or are of
// what has been told already, and it is not over for that.
func TestAMinuteBesideAnotherTellsWhatIsLeft(t *testing.T) {
	w := open(t)
	for n := range 450 {
		w.schedule(fmt.Sprintf("n%03d", n), w.clock)
	}
	c := &contended{Store: w.store}
	w.minute.Desk = w.desk(c)
	if _, told, err := w.minute.Tick(t.Context(), 100); err != nil || told+c.taken != 450 || c.taken == 0 {
		t.Errorf("%d are told, and %d by another: %v", told, c.taken, err)
	}
	if left, err := w.store.DueNotifications(t.Context(), w.clock, 1); err != nil || len(left) != 0 {
		t.Errorf("%+v %v", left, err)
	}
}

// contended is a store at which another minute is at work: of the first list it tells some
// before it is read, of the second all before they are told here.
type contended struct {
	host.Store
	lists, taken int
}

func (c *contended) DueNotifications(ctx context.Context, now time.Time, limit int) ([]host.Notification, error) {
	list, err := c.Store.DueNotifications(ctx, now, limit)
	take := 0
	switch c.lists++; c.lists {
	case 1:
		take = 10
	case 2:
		take = len(list)
	}
	for _, n := range list[:min(take, len(list))] {
		n.DeliveredAt = now
		if err := c.Store.Deliver(ctx, n); err != nil {
			return nil, err
		}
		c.taken++
	}
	if c.lists == 1 {
		list = list[take:]
	}
	return list, err
}

// stuck cannot tell one.
type stuck struct {
	host.Store
	id string
}

func (s *stuck) Deliver(ctx context.Context, n host.Notification) error {
	if n.NotificationID == s.id {
		return errPart
	}
	return s.Store.Deliver(ctx, n)
}

// covers: C5, X2
func TestWhatMayNotBeToldAnyMoreIsWithheld(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*world)
		told   string
	}{
		"switched off": {func(w *world) { w.edit(func(i *capability.Instance) { i.Enabled = false }) }, "n///EXTENSION_DISABLED"},
		"removed":      {func(w *world) { w.edit(func(i *capability.Instance) { i.Removed = true }) }, "n///EXTENSION_NOT_FOUND"},
		"a permission": {func(w *world) {
			w.edit(func(i *capability.Instance) { i.Granted = []capability.Permission{capability.Storage} })
		}, "n///EXTENSION_PERMISSION_DENIED"},
		"not for him any more": {func(w *world) { w.edit(func(i *capability.Instance) { i.Actors = []string{} }) }, "n///EXTENSION_NOT_FOUND"},
		"changed otherwise":    {func(w *world) { w.edit(func(i *capability.Instance) {}) }, "n/title/text/"},
	} {
		t.Run(name, func(t *testing.T) {
			w := open(t)
			w.schedule("n", w.clock)
			c.change(w)
			w.tick()
			if got := w.told(); !reflect.DeepEqual(got, []string{c.told}) {
				t.Errorf("%q", got)
			}
		})
	}
}

// broken fails in one part.
type broken struct {
	host.Store
	part string
}

var errPart = errors.New("this part failed")

func (b broken) DueSlots(ctx context.Context, now time.Time, limit int) ([]host.Slot, error) {
	if b.part == "slots" {
		return nil, errPart
	}
	return b.Store.DueSlots(ctx, now, limit)
}

func (b broken) DueNotifications(ctx context.Context, now time.Time, limit int) ([]host.Notification, error) {
	if b.part == "notifications" {
		return nil, errPart
	}
	return b.Store.DueNotifications(ctx, now, limit)
}

func (b broken) DueExecutions(ctx context.Context, now time.Time, limit int) ([]string, error) {
	if b.part == "executions" {
		return nil, errPart
	}
	return b.Store.DueExecutions(ctx, now, limit)
}

func TestAPartThatFailsStopsNoOther(t *testing.T) {
	for _, part := range []string{"slots", "notifications", "executions"} {
		w := open(t)
		w.clock = w.slots()[0].At
		w.schedule("n", w.clock)
		waiting := host.Execution{ExecutionID: "waiting", Workspace: workspace, InstanceID: "inst", State: host.Running, Phase: host.Accepted, Deadline: w.clock.Add(time.Hour), DueAt: w.clock}
		if err := w.store.CreateExecution(t.Context(), waiting); err != nil {
			t.Fatal(err)
		}
		w.minute.Desk = w.desk(broken{w.store, part})
		slots, notifications, err := w.minute.Tick(t.Context(), 10)
		if !errors.Is(err, errPart) {
			t.Error(part, err)
		}
		got := ticked{slots, notifications}
		if want := map[string]ticked{"slots": {0, 1}, "notifications": {1, 0}, "executions": {1, 1}}[part]; got != want {
			t.Errorf("%s: %+v", part, got)
		}
		if moved := w.read("waiting").DueAt.After(w.clock); moved != (part != "executions") {
			t.Errorf("%s: the execution that is due was called: %v", part, moved)
		}
	}
}

// Whatever happens in whatever order, no slot has two executions, and two of one
// capability never run at once.
func TestNoSequenceStartsASlotTwice(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w := open(t)
		running := map[string]bool{}
		seen := 0
		for range rapid.IntRange(1, 25).Draw(r, "steps") {
			switch rapid.SampledFrom([]string{"tick", "later", "much later", "off", "on", "end", "lost"}).Draw(r, "what") {
			case "tick":
				w.tick()
			case "later":
				w.clock = w.clock.Add(time.Duration(rapid.IntRange(1, 20).Draw(r, "minutes")) * time.Minute)
			case "much later":
				w.clock = w.clock.Add(3 * time.Hour)
			case "off":
				w.edit(func(i *capability.Instance) { i.Enabled = false })
			case "on":
				w.edit(func(i *capability.Instance) { i.Enabled = true })
			case "end":
				for id := range running {
					w.end(id)
					delete(running, id)
				}
			case "lost":
				w.minute.Desk = w.desk(&late{Store: w.store, fail: errPart, after: rapid.Bool().Draw(r, "after")})
				_, _, _ = w.minute.Tick(t.Context(), 10)
				w.minute.Desk = w.desk(w.store)
			}
			for ; seen < len(w.started); seen++ {
				id := w.started[seen]
				if e := w.read(id); e.State.Terminal() {
					continue
				}
				// Held, so that no minute gives it up.
				e := w.read(id)
				if e.Phase == host.Queued {
					continue // the minute has called for it again
				}
				e.Phase, e.DueAt = host.Queued, w.clock.AddDate(1, 0, 0)
				if err := w.store.Apply(t.Context(), host.Step{Execution: e}); err != nil {
					r.Fatal(err)
				}
				running[id] = true
			}
			for id := range running { // as the minute ends them
				if e := w.read(id); !e.Deadline.Add(time.Minute).After(w.clock) {
					w.end(id)
					delete(running, id)
				}
			}
			if len(running) > 1 {
				r.Fatalf("%v run at once", running)
			}
		}
	})
}
