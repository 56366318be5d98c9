package storetest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/capability"
	"github.com/pxhost/pxhost/shared/capability/host"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/outcome"
)

// Host runs the suite of host.Store. open returns an empty store.
func Host(t *testing.T, open func(t *testing.T) host.Store) {
	for name, test := range map[string]func(*testing.T, host.Store){
		"of an empty store everything is nothing":                 emptyHost,
		"instances are changed as they were read":                 instanceRows,
		"every change moves the generation of its workspace":      generations,
		"a grave stays and never changes":                         instanceGraves,
		"a workspace is full with 500 instances":                  fullWorkspace,
		"Connections are changed as they were read":               connectionRows,
		"a Connection that comes again is another":                connectionGraves,
		"a workspace is read without what is sealed":              nothingSealed,
		"members are changed as they were read":                   memberRows,
		"a workspace of many pages is read whole":                 largeWorkspace,
		"a reading of a workspace is of one generation":           steadyWorkspace,
		"of 16 changes of one row one wins":                       changeRace,
		"of 16 changes of different rows each moves a generation": changesAtOnce,
		"malformed changes write nothing":                         malformedChanges,
		"an execution is created once":                            executionRows,
		"an execution is replaced as it was read, until its end":  executionSteps,
		"of 16 claims of one execution one wins":                  claimRace,
		"due executions are found in time and others never":       dueExecutions,
		"what an execution holds comes back to the nanosecond":    executionRoundTrip,
		"a step for an instance that moved writes nothing":        instanceMoved,
		"items are stored, changed and removed as they were read": itemRows,
		"a namespace that was read is held to its version":        namespaceHeld,
		"what was read by key is held to its version":             keysHeld,
		"an item that was removed and stored anew is another":     anotherItem,
		"a step with a conflict writes nothing at all":            nothingInPart,
		"a step whose execution moved is no conflict":             movedFirst,
		"a namespace is full with 1000 items":                     fullNamespace,
		"a namespace of many pages is read whole":                 largeNamespace,
		"a reading of a namespace is of one version":              steadyNamespace,
		"of 16 steps for one item one wins":                       itemRace,
		"steps for different items of a namespace all win":        itemsAtOnce,
		"the largest step is one write":                           largestStep,
		"malformed steps write nothing":                           malformedSteps,
		"namespaces of others are others":                         namespaces,
		"a notification is due, delivered and told once":          notificationRows,
		"a notification is scheduled once, and withdrawn":         notificationSteps,
		"of 16 deliveries of one notification one wins":           deliveryRace,
		"notifications come newest first and no more than asked":  notificationPages,
		"slots come and go with their instance":                   slotRows,
		"a slot is started once, with its execution":              slotStarts,
		"a slot that was dropped is not started by who read it":   slotGraves,
		"of 16 starts of one slot one wins":                       slotRace,
		"who has gone away gets nothing":                          hostCancelled,
	} {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
}

const (
	team  = "structural_team"
	alice = "https://issuer.test|alice"
	bob   = "https://issuer.test|bob"
)

func instance(n int) capability.Instance {
	return capability.Instance{
		InstanceID: fmt.Sprintf("inst_%026d", n), Workspace: team, PluginKey: "study.calendar", PluginVersion: "1.0.0", PackageDigest: canon.Digest([]byte("p")), Package: string(history.RefOf([]byte("p"))),
		Enabled: true, Granted: []capability.Permission{capability.Storage}, Settings: canon.Raw(`{"a":1}`), Generation: 1, InstalledAt: Now, InstalledBy: alice,
	}
}

func link(n int) host.Connection {
	return host.Connection{ConnectionID: fmt.Sprintf("conn_%026d", n), Workspace: team, InstanceID: instance(1).InstanceID, ConnectorID: "notes_api", Kind: "bearer", State: host.Live,
		Sealed: []byte{0, 1, 2, 255}, CreatedAt: Now, CreatedBy: alice}
}

func execution(n int) host.Execution {
	return host.Execution{ExecutionID: fmt.Sprintf("exec_%026d", n), Workspace: team, Actor: alice, InstanceID: instance(1).InstanceID, CapabilityID: "notes.search", Adapter: capability.HTTPJSON,
		PackageDigest: canon.Digest([]byte("p")), Generation: 1, Surface: "ai", RequestDigest: canon.Digest([]byte("q")), Arguments: history.RefOf([]byte("{}")),
		State: host.Running, Phase: host.Accepted, CreatedAt: Now, Deadline: Now.Add(time.Minute), DueAt: Now.Add(time.Minute)}
}

func notification(n int, at time.Time) host.Notification {
	return host.Notification{NotificationID: fmt.Sprintf("note_%026d", n), Workspace: team, Actor: alice, InstanceID: instance(1).InstanceID, Namespace: "study.schedule", Key: "exam", At: at, Title: "시험"}
}

func slot(n int, at time.Time) host.Slot {
	return host.Slot{Workspace: team, InstanceID: instance(1).InstanceID, CapabilityID: fmt.Sprintf("sync.c%03d", n), At: at, Minutes: 15}
}

func schedule() host.Namespace {
	return host.Namespace{Workspace: team, InstanceID: instance(1).InstanceID, Name: "study.schedule"}
}

// installed stores an instance and returns it as it is stored.
func installed(t *testing.T, s host.Store, n int) capability.Instance {
	t.Helper()
	i := instance(n)
	changed(t, s, host.Change{Workspace: team, Instance: &i})
	got, err := s.Instance(t.Context(), i.InstanceID)
	must(t, err)
	return got
}

func changed(t *testing.T, s host.Store, c host.Change) int64 {
	t.Helper()
	g, err := s.Change(t.Context(), c)
	must(t, err)
	return g
}

// refused makes a change that must fail, and holds that it wrote nothing.
func refused(t *testing.T, s host.Store, c host.Change, want error) {
	t.Helper()
	before := generation(t, s)
	if _, err := s.Change(t.Context(), c); !errors.Is(err, want) || err == nil {
		t.Fatalf("%v, want %v", err, want)
	}
	if after := generation(t, s); after != before {
		t.Fatalf("the generation went from %d to %d", before, after)
	}
}

func generation(t *testing.T, s host.Store) int64 {
	t.Helper()
	g, err := s.Generation(t.Context(), team)
	must(t, err)
	return g
}

func workspace(t *testing.T, s host.Store) host.Read {
	t.Helper()
	w, err := s.Workspace(t.Context(), team)
	must(t, err)
	return w
}

// begun stores an execution and returns it as it is stored.
func begun(t *testing.T, s host.Store, n int) host.Execution {
	t.Helper()
	must(t, s.CreateExecution(t.Context(), execution(n)))
	return stands(t, s, n)
}

func stands(t *testing.T, s host.Store, n int) host.Execution {
	t.Helper()
	e, err := s.Execution(t.Context(), execution(n).ExecutionID)
	must(t, err)
	return e
}

// step performs a step of execution 1, which it creates if there is none.
func step(t *testing.T, s host.Store, of host.Step) error {
	t.Helper()
	e, err := s.Execution(t.Context(), execution(1).ExecutionID)
	if errors.Is(err, host.ErrNotFound) {
		e, err = begun(t, s, 1), nil
	}
	must(t, err)
	of.Execution = e
	return s.Apply(t.Context(), of)
}

func put(key string, version int64, value string) host.Put {
	return host.Put{Expectation: host.Expectation{Namespace: schedule().Name, Key: key, Version: version}, Value: canon.Raw(value)}
}

func expect(key string, version int64) host.Expectation {
	return host.Expectation{Namespace: schedule().Name, Key: key, Version: version}
}

// kept is a namespace as text: its version, and key, version and value of each item.
func kept(t *testing.T, s host.Store, n host.Namespace) string {
	t.Helper()
	items, version, err := s.Items(t.Context(), n)
	must(t, err)
	out := fmt.Sprint(version)
	for _, i := range items {
		out += fmt.Sprintf(" %s@%d=%s", i.Key, i.Version, i.Value)
		if !i.UpdatedAt.Equal(Now) {
			t.Errorf("%s was changed at %v", i.Key, i.UpdatedAt)
		}
	}
	return out
}

func same(t *testing.T, got, want any) {
	t.Helper()
	a, err := canon.Encode(got)
	must(t, err)
	b, err := canon.Encode(want)
	must(t, err)
	if string(a) != string(b) {
		t.Fatalf("got\n%s\nwant\n%s", a, b)
	}
}

func emptyHost(t *testing.T, s host.Store) {
	ctx := t.Context()
	if g := generation(t, s); g != 0 {
		t.Error(g)
	}
	if w := workspace(t, s); w.Generation != 0 || len(w.Instances)+len(w.Connections) != 0 {
		t.Errorf("%+v", w)
	}
	if m, err := s.Member(ctx, team, alice); err != nil || m.Version != 0 || m.Allows(capability.Use) {
		t.Error(m, err)
	}
	for name, err := range map[string]error{
		"instance":   second(s.Instance(ctx, instance(1).InstanceID)),
		"connection": second(s.Connection(ctx, link(1).ConnectionID)),
		"execution":  second(s.Execution(ctx, execution(1).ExecutionID)),
	} {
		if !errors.Is(err, host.ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := kept(t, s, schedule()); got != "0" {
		t.Error(got)
	}
	if items, err := s.Some(ctx, schedule(), []string{"a"}); err != nil || len(items) != 0 {
		t.Error(items, err)
	}
	if items, err := s.Some(ctx, schedule(), nil); err != nil || len(items) != 0 {
		t.Error(items, err)
	}
	if n, err := s.Notifications(ctx, team, alice, 10); err != nil || len(n) != 0 {
		t.Error(n, err)
	}
	dueAre(t, s, Now.Add(time.Hour), 0, 0, 0)
	for name, err := range map[string]error{
		"note":    s.NoteConnection(ctx, link(1)),
		"apply":   s.Apply(ctx, host.Step{Execution: execution(1)}),
		"deliver": s.Deliver(ctx, told(notification(1, Now))),
		"start":   s.StartSlot(ctx, slot(1, Now), nil),
	} {
		if !errors.Is(err, host.ErrMoved) {
			t.Errorf("%s of what is not there: %v", name, err)
		}
	}
	gone := link(1)
	refused(t, s, host.Change{Workspace: team, Forget: &gone}, host.ErrMoved)
}

func second[T any](_ T, err error) error { return err }

func told(n host.Notification) host.Notification {
	n.DeliveredAt = Now.Add(time.Minute)
	return n
}

// dueAre holds how many executions, notifications and slots are due.
func dueAre(t *testing.T, s host.Store, now time.Time, executions, notifications, slots int) {
	t.Helper()
	e, err := s.DueExecutions(t.Context(), now, 1000)
	must(t, err)
	n, err := s.DueNotifications(t.Context(), now, 1000)
	must(t, err)
	l, err := s.DueSlots(t.Context(), now, 1000)
	must(t, err)
	if len(e) != executions || len(n) != notifications || len(l) != slots {
		t.Fatalf("due are %d executions, %d notifications and %d slots, want %d, %d and %d", len(e), len(n), len(l), executions, notifications, slots)
	}
}

func instanceRows(t *testing.T, s host.Store) {
	i := installed(t, s, 1)
	want := instance(1)
	want.Version = i.Version
	if !reflect.DeepEqual(i, want) {
		t.Fatalf("%+v", i)
	}
	another := instance(1)
	another.PluginKey = "another"
	refused(t, s, host.Change{Workspace: team, Instance: &another}, host.ErrMoved)
	next := i
	next.Enabled, next.Generation, next.Actors = false, 2, []string{bob}
	changed(t, s, host.Change{Workspace: team, Instance: &next})
	refused(t, s, host.Change{Workspace: team, Instance: &next}, host.ErrMoved)
	unknown := instance(2)
	unknown.Version = 1
	refused(t, s, host.Change{Workspace: team, Instance: &unknown}, host.ErrMoved)
	got, err := s.Instance(t.Context(), i.InstanceID)
	must(t, err)
	if got.Version == i.Version || got.Enabled || !got.For(bob) || got.For(alice) {
		t.Fatalf("%+v", got)
	}
	w := workspace(t, s)
	if len(w.Instances) != 1 || !reflect.DeepEqual(w.Instances[0], got) {
		t.Fatalf("the workspace shows %+v, not %+v", w.Instances, got)
	}
	// Nobody's list is another list than everyone's.
	got.Actors = []string{}
	changed(t, s, host.Change{Workspace: team, Instance: &got})
	if got, err = s.Instance(t.Context(), i.InstanceID); err != nil || got.For(bob) {
		t.Fatal(got.Actors, err)
	}
}

func generations(t *testing.T, s host.Store) {
	i, c := instance(1), link(1)
	member := &host.Membership{Actor: alice, Member: capability.Member{Rights: []capability.Right{capability.Use}}}
	want := int64(0)
	moved := func(name string, c host.Change) {
		t.Helper()
		want++
		if g := changed(t, s, c); g != want {
			t.Fatalf("%s: generation %d, want %d", name, g, want)
		}
		if g := generation(t, s); g != want {
			t.Fatalf("%s: generation %d is stored, want %d", name, g, want)
		}
		if w := workspace(t, s); w.Generation != want {
			t.Fatalf("%s: read at %d, want %d", name, w.Generation, want)
		}
	}
	moved("an instance", host.Change{Workspace: team, Instance: &i})
	moved("a Connection", host.Change{Workspace: team, Connection: &c})
	moved("a member", host.Change{Workspace: team, Member: member})
	c, err := s.Connection(t.Context(), c.ConnectionID)
	must(t, err)
	c.ExpiresAt = Now
	must(t, s.NoteConnection(t.Context(), c))
	if g := generation(t, s); g != want {
		t.Fatalf("a note moved the generation to %d", g)
	}
	c, err = s.Connection(t.Context(), c.ConnectionID)
	must(t, err)
	moved("a Connection that is no more", host.Change{Workspace: team, Forget: &c})
	if g, err := s.Generation(t.Context(), "another"); err != nil || g != 0 {
		t.Fatal("another workspace's", g, err)
	}
	other := instance(2)
	other.Workspace = "another"
	changed(t, s, host.Change{Workspace: "another", Instance: &other})
	if w := workspace(t, s); w.Generation != want || len(w.Instances) != 1 {
		t.Fatalf("another workspace's instance: %+v", w)
	}
}

func instanceGraves(t *testing.T, s host.Store) {
	i := installed(t, s, 1)
	i.Removed, i.Enabled = true, false
	changed(t, s, host.Change{Workspace: team, Instance: &i})
	grave, err := s.Instance(t.Context(), i.InstanceID)
	must(t, err)
	if !grave.Removed || grave.Version == i.Version || len(workspace(t, s).Instances) != 0 {
		t.Fatalf("%+v", grave)
	}
	risen := grave
	risen.Removed = false
	refused(t, s, host.Change{Workspace: team, Instance: &risen}, host.ErrMoved)
	refused(t, s, host.Change{Workspace: team, Instance: &grave}, host.ErrMoved)
	anew := instance(1)
	refused(t, s, host.Change{Workspace: team, Instance: &anew}, host.ErrMoved)
}

func fullWorkspace(t *testing.T, s host.Store) {
	for n := range host.MaxInstances {
		i := instance(n)
		changed(t, s, host.Change{Workspace: team, Instance: &i})
	}
	more := instance(host.MaxInstances)
	refused(t, s, host.Change{Workspace: team, Instance: &more}, host.ErrFull)
	again := instance(1)
	refused(t, s, host.Change{Workspace: team, Instance: &again}, host.ErrMoved)
	one, err := s.Instance(t.Context(), instance(7).InstanceID)
	must(t, err)
	one.Enabled = false
	changed(t, s, host.Change{Workspace: team, Instance: &one}) // no more than before
	one, err = s.Instance(t.Context(), one.InstanceID)
	must(t, err)
	one.Removed = true
	changed(t, s, host.Change{Workspace: team, Instance: &one})
	changed(t, s, host.Change{Workspace: team, Instance: &more})
	last := instance(host.MaxInstances + 1)
	refused(t, s, host.Change{Workspace: team, Instance: &last}, host.ErrFull)
	last.Workspace = "another"
	changed(t, s, host.Change{Workspace: "another", Instance: &last})
	if w := workspace(t, s); len(w.Instances) != host.MaxInstances {
		t.Fatalf("%d instances", len(w.Instances))
	}
}

func connectionRows(t *testing.T, s host.Store) {
	ctx := t.Context()
	c := link(1)
	changed(t, s, host.Change{Workspace: team, Connection: &c})
	got, err := s.Connection(ctx, c.ConnectionID)
	must(t, err)
	c.Version = got.Version
	if !reflect.DeepEqual(got, c) {
		t.Fatalf("%+v", got)
	}
	anew := link(1)
	refused(t, s, host.Change{Workspace: team, Connection: &anew}, host.ErrMoved)
	next := got
	next.State, next.Refreshing, next.ExpiresAt = host.Rejected, Now.Add(1), Now.Add(2)
	must(t, s.NoteConnection(ctx, next))
	if err := s.NoteConnection(ctx, next); !errors.Is(err, host.ErrMoved) {
		t.Fatal(err)
	}
	refused(t, s, host.Change{Workspace: team, Connection: &next}, host.ErrMoved)
	refused(t, s, host.Change{Workspace: team, Forget: &next}, host.ErrMoved)
	noted, err := s.Connection(ctx, c.ConnectionID)
	must(t, err)
	next.Version = noted.Version
	if !reflect.DeepEqual(noted, next) || noted.Version == got.Version {
		t.Fatalf("%+v", noted)
	}
	w := workspace(t, s)
	if len(w.Connections) != 1 || w.Connections[0].Version != noted.Version || w.Connections[0].State != host.Rejected {
		t.Fatalf("the workspace shows %+v", w.Connections)
	}
	noted.State = host.Live
	changed(t, s, host.Change{Workspace: team, Connection: &noted})
	if w := workspace(t, s); w.Connections[0].Link() != noted.Link() || w.Connections[0].State != host.Live {
		t.Fatalf("the workspace shows %+v", w.Connections)
	}
}

func connectionGraves(t *testing.T, s host.Store) {
	ctx := t.Context()
	c := link(1)
	changed(t, s, host.Change{Workspace: team, Connection: &c})
	old, err := s.Connection(ctx, c.ConnectionID)
	must(t, err)
	changed(t, s, host.Change{Workspace: team, Forget: &old})
	refused(t, s, host.Change{Workspace: team, Forget: &old}, host.ErrMoved)
	if _, err := s.Connection(ctx, c.ConnectionID); !errors.Is(err, host.ErrNotFound) || len(workspace(t, s).Connections) != 0 {
		t.Fatal(err)
	}
	if err := s.NoteConnection(ctx, old); !errors.Is(err, host.ErrMoved) {
		t.Fatalf("what is gone is noted: %v", err)
	}
	c.Sealed = []byte("another secret")
	changed(t, s, host.Change{Workspace: team, Connection: &c})
	// Who read the old one would put the old secret back.
	if err := s.NoteConnection(ctx, old); !errors.Is(err, host.ErrMoved) {
		t.Fatalf("what came again is noted by who read the old: %v", err)
	}
	old.Version++
	if err := s.NoteConnection(ctx, old); !errors.Is(err, host.ErrMoved) {
		t.Fatalf("and counted on from there: %v", err)
	}
	got, err := s.Connection(ctx, c.ConnectionID)
	must(t, err)
	if string(got.Sealed) != "another secret" {
		t.Fatalf("%q", got.Sealed)
	}
	changed(t, s, host.Change{Workspace: team, Forget: &got})
}

func nothingSealed(t *testing.T, s host.Store) {
	for n := range 3 {
		c := link(n)
		changed(t, s, host.Change{Workspace: team, Connection: &c})
	}
	w := workspace(t, s)
	for n, c := range w.Connections {
		if c.ConnectionID != link(n).ConnectionID || len(c.Sealed) != 0 {
			t.Errorf("%d: %+v", n, c)
		}
	}
	if len(w.Connections) != 3 {
		t.Error(len(w.Connections))
	}
}

func memberRows(t *testing.T, s host.Store) {
	member := func(rights []capability.Right, version int64) host.Change {
		return host.Change{Workspace: team, Member: &host.Membership{Actor: alice, Member: capability.Member{Rights: rights, Version: version}}}
	}
	changed(t, s, member([]capability.Right{capability.Use, capability.Manage}, 0))
	refused(t, s, member(nil, 0), host.ErrMoved)
	m, err := s.Member(t.Context(), team, alice)
	if err != nil || !m.Allows(capability.Use) || !m.Allows(capability.Manage) {
		t.Fatal(m, err)
	}
	for _, other := range [][2]string{{team, bob}, {"another", alice}} {
		if m, err := s.Member(t.Context(), other[0], other[1]); err != nil || m.Version != 0 {
			t.Fatal(other, m, err)
		}
	}
	changed(t, s, member(nil, m.Version))
	refused(t, s, member(nil, m.Version), host.ErrMoved)
	none, err := s.Member(t.Context(), team, alice)
	if err != nil || none.Version == m.Version || none.Allows(capability.Use) {
		t.Fatal(none, err)
	}
}

func largeWorkspace(t *testing.T, s host.Store) {
	const n = 30
	settings := canon.Raw(`{"a":"` + strings.Repeat("설", 32<<10) + `"}`) // 96 KB, of which a page has ten
	for k := range n {
		i, c := instance(k), link(k)
		i.Settings = settings
		changed(t, s, host.Change{Workspace: team, Instance: &i})
		changed(t, s, host.Change{Workspace: team, Connection: &c})
	}
	w := workspace(t, s)
	if len(w.Instances) != n || len(w.Connections) != n || w.Generation != 2*n {
		t.Fatalf("%d instances and %d Connections at %d", len(w.Instances), len(w.Connections), w.Generation)
	}
	for k, i := range w.Instances {
		if i.InstanceID != instance(k).InstanceID || string(i.Settings) != string(settings) {
			t.Fatalf("%d: %s", k, i.InstanceID)
		}
	}
}

// A workspace is read while two instances take turns: at an even generation the first is
// enabled, at an odd one the second is.
func steadyWorkspace(t *testing.T, s host.Store) {
	installed(t, s, 1)
	i := instance(2)
	i.Enabled = false
	changed(t, s, host.Change{Workspace: team, Instance: &i})
	var over atomic.Bool
	var all sync.WaitGroup
	all.Go(func() {
		defer over.Store(true)
		for range 40 {
			for n := 1; n <= 2; n++ {
				i, err := s.Instance(t.Context(), instance(n).InstanceID)
				if err == nil {
					i.Enabled = !i.Enabled
					_, err = s.Change(t.Context(), host.Change{Workspace: team, Instance: &i})
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		}
	})
	for reads := 0; !over.Load() || reads == 0; reads++ {
		w, err := s.Workspace(t.Context(), team)
		must(t, err)
		first, second := w.Instances[0].Enabled, w.Instances[1].Enabled
		want := [][2]bool{{true, false}, {false, false}, {false, true}, {true, true}}[(w.Generation-2)%4]
		if [2]bool{first, second} != want {
			t.Errorf("at generation %d the instances are %v and %v", w.Generation, first, second)
			break
		}
	}
	all.Wait()
}

func changeRace(t *testing.T, s host.Store) {
	if wins := at16(t, host.ErrMoved, func(n int) error {
		i := instance(1)
		i.PluginKey = fmt.Sprint("p", n)
		return second(s.Change(t.Context(), host.Change{Workspace: team, Instance: &i}))
	}); wins != 1 || generation(t, s) != 1 {
		t.Fatalf("%d installs won, generation %d", wins, generation(t, s))
	}
	i, err := s.Instance(t.Context(), instance(1).InstanceID)
	must(t, err)
	if wins := at16(t, host.ErrMoved, func(int) error { // all the same words
		next := i
		next.Enabled = false
		return second(s.Change(t.Context(), host.Change{Workspace: team, Instance: &next}))
	}); wins != 1 || generation(t, s) != 2 {
		t.Fatalf("%d changes won, generation %d", wins, generation(t, s))
	}
}

func changesAtOnce(t *testing.T, s host.Store) {
	var mu sync.Mutex
	seen := map[int64]bool{}
	if wins := at16(t, host.ErrMoved, func(n int) error {
		i := instance(n)
		g, err := s.Change(t.Context(), host.Change{Workspace: team, Instance: &i})
		mu.Lock()
		defer mu.Unlock()
		seen[g] = true
		return err
	}); wins != 16 || len(seen) != 16 || generation(t, s) != 16 || len(workspace(t, s).Instances) != 16 {
		t.Fatalf("%d changes, generations %v", wins, seen)
	}
}

func malformedChanges(t *testing.T, s host.Store) {
	i, c, elsewhere, grave := instance(1), link(1), instance(1), instance(1)
	elsewhere.Workspace, grave.Removed = "another", true
	var slots []host.Slot
	for n := range host.MaxSlots + 1 {
		slots = append(slots, slot(n, Now))
	}
	others := slot(1, Now)
	others.InstanceID = instance(2).InstanceID
	for name, change := range map[string]host.Change{
		"nothing":                        {Workspace: team},
		"two rows":                       {Workspace: team, Instance: &i, Connection: &c},
		"no workspace":                   {Instance: &i},
		"an instance of another":         {Workspace: team, Instance: &elsewhere},
		"a Connection of another":        {Workspace: "another", Connection: &c},
		"a new grave":                    {Workspace: team, Instance: &grave},
		"a member without a name":        {Workspace: team, Member: &host.Membership{}},
		"too many slots":                 {Workspace: team, Instance: &i, Slots: slots},
		"too many slots that go":         {Workspace: team, Instance: &i, Drop: slots},
		"a slot of another instance":     {Workspace: team, Instance: &i, Slots: []host.Slot{others}},
		"a slot twice":                   {Workspace: team, Instance: &i, Slots: []host.Slot{slot(1, Now), slot(1, Now)}},
		"a slot beside a Connection":     {Workspace: team, Connection: &c, Slots: []host.Slot{slot(1, Now)}},
		"a slot that goes beside a name": {Workspace: team, Member: &host.Membership{Actor: alice}, Drop: []host.Slot{slot(1, Now)}},
	} {
		if _, err := s.Change(t.Context(), change); err == nil || errors.Is(err, host.ErrMoved) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if w := workspace(t, s); w.Generation != 0 {
		t.Errorf("%+v", w)
	}
	dueAre(t, s, Now, 0, 0, 0)
}

func executionRows(t *testing.T, s host.Store) {
	e := begun(t, s, 1)
	again := execution(1)
	again.Surface = "ui"
	if err := s.CreateExecution(t.Context(), again); !errors.Is(err, host.ErrExists) {
		t.Fatal(err)
	}
	if got := stands(t, s, 1); got.Version != e.Version || got.Surface != "ai" {
		t.Fatalf("%+v", got)
	}
	if wins := at16(t, host.ErrExists, func(n int) error {
		e := execution(2)
		e.RequestDigest = canon.Digest([]byte{byte(n)})
		return s.CreateExecution(t.Context(), e)
	}); wins != 1 {
		t.Fatalf("%d creates won", wins)
	}
}

func executionSteps(t *testing.T, s host.Store) {
	for n, of := range []host.Step{{}, {Schedule: []host.Notification{notification(1, Now)}}, {Puts: []host.Put{put("a", 0, "1")}}} {
		read := begun(t, s, n)
		next := read
		next.Phase, next.Fence = host.Claimed, 1
		of.Execution = next
		must(t, s.Apply(t.Context(), of))
		if err := s.Apply(t.Context(), of); !errors.Is(err, host.ErrMoved) {
			t.Fatalf("step %d, again: %v", n, err)
		}
		got := stands(t, s, n)
		if got.Phase != host.Claimed || got.Fence != 1 || got.Version == read.Version {
			t.Fatalf("step %d: %+v", n, got)
		}
		got.State, got.EndedAt, got.DueAt = host.Succeeded, Now, time.Time{}
		must(t, s.Apply(t.Context(), host.Step{Execution: got}))
		ended := stands(t, s, n)
		ended.State = host.Failed
		for _, late := range []host.Step{{Execution: ended}, {Execution: ended, Puts: []host.Put{put("late", 0, "1")}}} {
			if err := s.Apply(t.Context(), late); !errors.Is(err, host.ErrMoved) {
				t.Fatalf("step %d, after its end: %v", n, err)
			}
		}
		if got := stands(t, s, n); got.State != host.Succeeded {
			t.Fatalf("step %d: %+v", n, got)
		}
	}
	if got := kept(t, s, schedule()); got != "1 a@1=1" {
		t.Fatal(got)
	}
}

func claimRace(t *testing.T, s host.Store) {
	e := begun(t, s, 1)
	e.Phase, e.Fence = host.Claimed, 1
	if wins := at16(t, host.ErrMoved, func(int) error { return s.Apply(t.Context(), host.Step{Execution: e}) }); wins == 0 {
		t.Fatal("nobody won")
	} else if got := stands(t, s, 1); wins != 1 || got.Fence != 1 {
		t.Fatalf("%d claims won: %+v", wins, got)
	}
}

func dueExecutions(t *testing.T, s host.Store) {
	for n := range 12 {
		e := execution(n)
		e.DueAt = Now.Add(time.Duration(n) * time.Second)
		must(t, s.CreateExecution(t.Context(), e))
	}
	dueAre(t, s, Now.Add(-1), 0, 0, 0)
	dueAre(t, s, Now, 1, 0, 0)
	dueAre(t, s, Now.Add(11*time.Second), 12, 0, 0)
	for _, limit := range []int{1, 2, 5} {
		some, err := s.DueExecutions(t.Context(), Now.Add(time.Minute), limit)
		if err != nil || len(some) == 0 || len(some) > limit {
			t.Fatalf("%d of %d: %v", len(some), limit, err)
		}
	}
	e := stands(t, s, 0)
	e.State, e.DueAt = host.Cancelled, time.Time{}
	must(t, s.Apply(t.Context(), host.Step{Execution: e}))
	e = stands(t, s, 1)
	e.DueAt = Now.Add(time.Hour)
	must(t, s.Apply(t.Context(), host.Step{Execution: e}))
	refs, err := s.DueExecutions(t.Context(), Now.Add(time.Minute), 1000)
	must(t, err)
	slices.Sort(refs)
	if len(refs) != 10 || refs[0] != execution(2).ExecutionID || refs[9] != execution(11).ExecutionID {
		t.Fatal(refs)
	}
}

func executionRoundTrip(t *testing.T, s host.Store) {
	e := begun(t, s, 1)
	e.State, e.Phase, e.Fence, e.JobRef = host.Failed, host.Computed, 7, "job_x"
	e.Reads = []host.Expectation{{Namespace: "a", Version: 3}, {Namespace: "a", Key: "한글#/ \x00", Version: 1}}
	e.Result, e.Actions = history.RefOf([]byte("r")), canon.Digest([]byte("a"))
	e.Code, e.Params = outcome.ExtensionTimeout, outcome.Params{"limit": 12, "violations": []any{"a"}}
	e.Cancel, e.EndedAt, e.DueAt = true, Now.Add(1), time.Time{}
	must(t, s.Apply(t.Context(), host.Step{Execution: e}))
	same(t, stands(t, s, 1), e)
}

func instanceMoved(t *testing.T, s host.Store) {
	i := installed(t, s, 1)
	must(t, step(t, s, host.Step{Instance: i.Version, Puts: []host.Put{put("a", 0, "1")}}))
	i.Settings = canon.Raw(`{}`)
	changed(t, s, host.Change{Workspace: team, Instance: &i})
	read := stands(t, s, 1)
	for _, of := range []host.Step{{Instance: i.Version}, {Instance: i.Version, Puts: []host.Put{put("a", 1, "2")}, Schedule: []host.Notification{notification(1, Now)}}} {
		if err := step(t, s, of); !errors.Is(err, host.ErrInstanceMoved) {
			t.Fatal(err)
		}
	}
	if now := stands(t, s, 1); now.Version != read.Version || kept(t, s, schedule()) != "1 a@1=1" {
		t.Fatal("a refused step was written in part")
	}
	dueAre(t, s, Now, 0, 0, 0)
	i, err := s.Instance(t.Context(), i.InstanceID)
	must(t, err)
	must(t, step(t, s, host.Step{Instance: i.Version}))
	i.Removed = true
	changed(t, s, host.Change{Workspace: team, Instance: &i})
	if err := step(t, s, host.Step{Instance: i.Version}); !errors.Is(err, host.ErrInstanceMoved) {
		t.Fatal(err)
	}
}

func itemRows(t *testing.T, s host.Store) {
	n := schedule()
	must(t, step(t, s, host.Step{Puts: []host.Put{put("b", 0, `{"at":"β"}`), put("a", 0, "1")}}))
	if got := kept(t, s, n); got != `1 a@1=1 b@1={"at":"β"}` {
		t.Fatal(got)
	}
	must(t, step(t, s, host.Step{Puts: []host.Put{put("a", 1, "2")}, Deletes: []host.Expectation{expect("b", 1)}}))
	if got := kept(t, s, n); got != "2 a@2=2" {
		t.Fatal(got)
	}
	must(t, step(t, s, host.Step{Puts: []host.Put{put("b", 0, "3")}, Deletes: []host.Expectation{expect("none", 0)}}))
	if got := kept(t, s, n); got != "3 a@2=2 b@1=3" {
		t.Fatal(got)
	}
	items, err := s.Some(t.Context(), n, []string{"b", "none", "a", "b"})
	if err != nil || len(items) != 2 || items[0].Key != "b" || string(items[0].Value) != "3" || items[1].Key != "a" || items[1].Version != 2 {
		t.Fatalf("%v, %v", items, err)
	}
	for name, of := range map[string]host.Step{
		"a put of what there is":      {Puts: []host.Put{put("a", 0, "x")}},
		"a put of another version":    {Puts: []host.Put{put("a", 1, "x")}},
		"a put of what there is none": {Puts: []host.Put{put("none", 1, "x")}},
		"a removal of another":        {Deletes: []host.Expectation{expect("a", 1)}},
		"a removal of none":           {Deletes: []host.Expectation{expect("none", 1)}},
		"a removal of what must not":  {Deletes: []host.Expectation{expect("a", 0)}},
	} {
		var conflict *host.ConflictError
		want := "a"
		if strings.HasSuffix(name, "none") {
			want = "none"
		}
		if err := step(t, s, of); !errors.As(err, &conflict) || conflict.Key != want || conflict.Namespace != n.Name {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := kept(t, s, n); got != "3 a@2=2 b@1=3" {
		t.Fatal(got)
	}
	var keys []string
	for i := range 150 { // more than one batch
		keys = append(keys, fmt.Sprintf("no%d", i))
	}
	if items, err := s.Some(t.Context(), n, append(keys, "a")); err != nil || len(items) != 1 {
		t.Fatal(items, err)
	}
}

func conflicts(t *testing.T, err error, namespace, key string) {
	t.Helper()
	var conflict *host.ConflictError
	if !errors.As(err, &conflict) || *conflict != (host.ConflictError{Namespace: namespace, Key: key}) {
		t.Fatalf("%v (%+v), want a conflict of %s %s", err, conflict, namespace, key)
	}
}

func namespaceHeld(t *testing.T, s host.Store) {
	n := schedule()
	must(t, step(t, s, host.Step{Unchanged: []host.Expectation{expect("", 0)}})) // nothing was there, and is not
	must(t, step(t, s, host.Step{Unchanged: []host.Expectation{expect("", 0)}, Puts: []host.Put{put("a", 0, "1")}}))
	conflicts(t, step(t, s, host.Step{Unchanged: []host.Expectation{expect("", 0)}}), n.Name, "")
	conflicts(t, step(t, s, host.Step{Unchanged: []host.Expectation{expect("", 0)}, Puts: []host.Put{put("b", 0, "1")}}), n.Name, "")
	must(t, step(t, s, host.Step{Unchanged: []host.Expectation{expect("", 1)}, Puts: []host.Put{put("b", 0, "2")}}))
	must(t, step(t, s, host.Step{Unchanged: []host.Expectation{expect("", 2), {Namespace: "other"}}, Deletes: []host.Expectation{expect("b", 1)}}))
	conflicts(t, step(t, s, host.Step{Unchanged: []host.Expectation{{Namespace: "other", Version: 1}}, Deletes: []host.Expectation{expect("a", 1)}}), "other", "")
	// A removal and a storing anew are seen, though the items are as they were.
	must(t, step(t, s, host.Step{Deletes: []host.Expectation{expect("a", 1)}}))
	must(t, step(t, s, host.Step{Puts: []host.Put{put("a", 0, "1")}}))
	conflicts(t, step(t, s, host.Step{Unchanged: []host.Expectation{expect("", 3)}}), n.Name, "")
	if got := kept(t, s, n); got != "5 a@1=1" {
		t.Fatal(got)
	}
}

func keysHeld(t *testing.T, s host.Store) {
	n := schedule()
	must(t, step(t, s, host.Step{Puts: []host.Put{put("a", 0, "1"), put("b", 0, "1")}}))
	must(t, step(t, s, host.Step{Unchanged: []host.Expectation{expect("a", 1), expect("none", 0)}, Puts: []host.Put{put("b", 1, "2")}}))
	must(t, step(t, s, host.Step{Unchanged: []host.Expectation{expect("b", 2)}, Puts: []host.Put{put("b", 2, "3")}})) // what is changed was read
	must(t, step(t, s, host.Step{Unchanged: []host.Expectation{expect("", 3), expect("a", 1)}, Puts: []host.Put{put("b", 3, "4")}}))
	conflicts(t, step(t, s, host.Step{Unchanged: []host.Expectation{expect("b", 2)}}), n.Name, "b")
	conflicts(t, step(t, s, host.Step{Unchanged: []host.Expectation{expect("b", 2)}, Puts: []host.Put{put("b", 4, "5")}}), n.Name, "b")
	conflicts(t, step(t, s, host.Step{Unchanged: []host.Expectation{expect("b", 4)}, Puts: []host.Put{put("b", 3, "5")}}), n.Name, "b")
	conflicts(t, step(t, s, host.Step{Unchanged: []host.Expectation{expect("none", 1)}}), n.Name, "none")
	conflicts(t, step(t, s, host.Step{Unchanged: []host.Expectation{expect("a", 0)}}), n.Name, "a")
	if got := kept(t, s, n); got != "4 a@1=1 b@4=4" {
		t.Fatal(got)
	}
}

// An item that was removed and stored anew has the version that it had, and is another.
func anotherItem(t *testing.T, s host.Store) {
	n := schedule()
	read := func() host.Item {
		t.Helper()
		some, err := s.Some(t.Context(), n, []string{"a"})
		must(t, err)
		all, _, err := s.Items(t.Context(), n)
		must(t, err)
		if len(some) != 1 || !reflect.DeepEqual(some[0], all[0]) || some[0].Version != 1 {
			t.Fatalf("%+v %+v", some, all)
		}
		return some[0]
	}
	must(t, step(t, s, host.Step{Puts: []host.Put{put("a", 0, "1")}}))
	old := read()
	held := func(i host.Item) host.Expectation {
		x := expect("a", i.Version)
		x.Written = i.Written
		return x
	}
	must(t, step(t, s, host.Step{Unchanged: []host.Expectation{held(old)}}))
	must(t, step(t, s, host.Step{Deletes: []host.Expectation{held(old)}}))
	must(t, step(t, s, host.Step{Puts: []host.Put{put("a", 0, "2")}}))
	now := read()
	if now.Written <= old.Written {
		t.Fatalf("written %d and then %d", old.Written, now.Written)
	}
	for name, of := range map[string]host.Step{
		"unchanged":                        {Unchanged: []host.Expectation{held(old)}},
		"removed":                          {Deletes: []host.Expectation{held(old)}},
		"replaced":                         {Puts: []host.Put{{Expectation: held(old), Value: canon.Raw("3")}}},
		"read and replaced by its version": {Unchanged: []host.Expectation{held(old)}, Puts: []host.Put{put("a", 1, "3")}},
		"read, and replaced as another":    {Unchanged: []host.Expectation{held(old)}, Puts: []host.Put{{Expectation: held(now), Value: canon.Raw("3")}}},
		"with its namespace":               {Unchanged: []host.Expectation{expect("", 3)}, Puts: []host.Put{{Expectation: held(old), Value: canon.Raw("3")}}},
	} {
		var conflict *host.ConflictError
		if err := step(t, s, of); !errors.As(err, &conflict) || conflict.Key != "a" {
			t.Errorf("%s: %v", name, err)
		}
	}
	must(t, step(t, s, host.Step{Unchanged: []host.Expectation{held(now), expect("", 3)}, Puts: []host.Put{{Expectation: held(now), Value: canon.Raw("3")}}}))
	if items, version, err := s.Items(t.Context(), n); err != nil || version != 4 || items[0].Written != 4 || items[0].Version != 2 {
		t.Fatalf("%+v at %d, %v", items, version, err)
	}
	for name, x := range map[string]host.Expectation{"of a namespace": {Namespace: n.Name, Version: 4, Written: 1}, "of nothing": {Namespace: n.Name, Key: "b", Written: 1}, "below 0": {Namespace: n.Name, Key: "a", Version: 2, Written: -1}} {
		var conflict *host.ConflictError
		if err := step(t, s, host.Step{Unchanged: []host.Expectation{x}}); err == nil || errors.As(err, &conflict) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func nothingInPart(t *testing.T, s host.Store) {
	must(t, step(t, s, host.Step{Puts: []host.Put{put("a", 0, "1"), put("b", 0, "1")}, Schedule: []host.Notification{notification(1, Now)}}))
	read := stands(t, s, 1)
	next := read
	next.State, next.DueAt = host.Succeeded, time.Time{}
	other := host.Put{Expectation: host.Expectation{Namespace: "other", Key: "x"}, Value: canon.Raw("1")}
	conflicts(t, s.Apply(t.Context(), host.Step{Execution: next, Puts: []host.Put{put("a", 1, "2"), put("new", 0, "1"), other}, Deletes: []host.Expectation{expect("b", 7)},
		Schedule: []host.Notification{notification(2, Now)}, Withdraw: []string{notification(1, Now).NotificationID}}), schedule().Name, "b")
	if now := stands(t, s, 1); now.Version != read.Version || now.State != host.Running {
		t.Fatalf("%+v", now)
	}
	if got := kept(t, s, schedule()); got != "1 a@1=1 b@1=1" {
		t.Fatal(got)
	}
	if got := kept(t, s, host.Namespace{Workspace: team, InstanceID: instance(1).InstanceID, Name: "other"}); got != "0" {
		t.Fatal(got)
	}
	due, err := s.DueNotifications(t.Context(), Now, 10)
	if err != nil || len(due) != 1 || due[0].NotificationID != notification(1, Now).NotificationID {
		t.Fatal(due, err)
	}
}

// Who applies a step again whose reply was lost is told that it is done, not that the
// storage has changed, as it has by its own step.
func movedFirst(t *testing.T, s host.Store) {
	i := installed(t, s, 1)
	e := begun(t, s, 1)
	e.State, e.DueAt = host.Succeeded, time.Time{}
	of := host.Step{Execution: e, Instance: i.Version, Unchanged: []host.Expectation{expect("", 0)}, Puts: []host.Put{put("a", 0, "1")}, Schedule: []host.Notification{notification(1, Now)}}
	must(t, s.Apply(t.Context(), of))
	changed(t, s, host.Change{Workspace: team, Instance: &i})
	if err := s.Apply(t.Context(), of); !errors.Is(err, host.ErrMoved) {
		t.Fatal(err)
	}
	of.Unchanged, of.Puts[0].Version = append(of.Unchanged, expect("a", 0)), 1 // two versions at once
	if err := s.Apply(t.Context(), of); !errors.Is(err, host.ErrMoved) {
		t.Fatal(err)
	}
}

// fill stores items, the largest step at a time.
func fill(t *testing.T, s host.Store, from, to int, value string) {
	t.Helper()
	for from < to {
		var puts []host.Put
		for ; from < to && len(puts) < host.MaxChanges; from++ {
			puts = append(puts, put(fmt.Sprintf("k%04d", from), 0, value))
		}
		must(t, step(t, s, host.Step{Puts: puts}))
	}
}

func fullNamespace(t *testing.T, s host.Store) {
	fill(t, s, 0, host.MaxItems-1, "1")
	read := stands(t, s, 1)
	if err := step(t, s, host.Step{Puts: []host.Put{put("x", 0, "1"), put("y", 0, "1")}}); !errors.Is(err, host.ErrFull) {
		t.Fatal(err)
	}
	must(t, step(t, s, host.Step{Puts: []host.Put{put("x", 0, "1")}}))
	if err := step(t, s, host.Step{Puts: []host.Put{put("y", 0, "1")}}); !errors.Is(err, host.ErrFull) {
		t.Fatal(err)
	}
	if err := s.Apply(t.Context(), host.Step{Execution: read, Puts: []host.Put{put("y", 0, "1")}}); !errors.Is(err, host.ErrMoved) {
		t.Fatalf("of an execution that has moved: %v", err)
	}
	conflicts(t, step(t, s, host.Step{Unchanged: []host.Expectation{expect("", 1)}, Puts: []host.Put{put("y", 0, "1")}}), schedule().Name, "")
	must(t, step(t, s, host.Step{Puts: []host.Put{put("x", 1, "2")}})) // no more than before
	must(t, step(t, s, host.Step{Puts: []host.Put{put("y", 0, "1")}, Deletes: []host.Expectation{expect("x", 1+1)}}))
	must(t, step(t, s, host.Step{Deletes: []host.Expectation{expect("y", 1)}}))
	must(t, step(t, s, host.Step{Puts: []host.Put{put("z", 0, "1")}}))
	if err := step(t, s, host.Step{Puts: []host.Put{put("y", 0, "1")}}); !errors.Is(err, host.ErrFull) {
		t.Fatal(err)
	}
	items, _, err := s.Items(t.Context(), schedule())
	if err != nil || len(items) != host.MaxItems {
		t.Fatal(len(items), err)
	}
}

func largeNamespace(t *testing.T, s host.Store) {
	value := `"` + strings.Repeat("x", host.MaxValue-2) + `"` // of which a page has fifteen
	fill(t, s, 0, 50, value)
	items, version, err := s.Items(t.Context(), schedule())
	if err != nil || len(items) != 50 || version != 2 {
		t.Fatal(len(items), version, err)
	}
	for n, i := range items {
		if i.Key != fmt.Sprintf("k%04d", n) || string(i.Value) != value {
			t.Fatalf("%d: %s", n, i.Key)
		}
	}
	if err := step(t, s, host.Step{Puts: []host.Put{put("x", 0, value+" ")}}); err == nil {
		t.Fatal("a value beyond the limit is stored")
	}
}

// A namespace is read while two items are always changed together.
func steadyNamespace(t *testing.T, s host.Store) {
	must(t, step(t, s, host.Step{Puts: []host.Put{put("a", 0, "1"), put("z", 0, "1")}}))
	var over atomic.Bool
	var all sync.WaitGroup
	all.Go(func() {
		defer over.Store(true)
		for n := int64(1); n <= 50; n++ {
			e, err := s.Execution(t.Context(), execution(1).ExecutionID)
			if err == nil {
				err = s.Apply(t.Context(), host.Step{Execution: e, Puts: []host.Put{put("a", n, fmt.Sprint(n+1)), put("z", n, fmt.Sprint(n+1))}})
			}
			if err != nil {
				t.Error(err)
				return
			}
		}
	})
	for reads := 0; !over.Load() || reads == 0; reads++ {
		items, version, err := s.Items(t.Context(), schedule())
		must(t, err)
		if len(items) != 2 || items[0].Version != version || items[1].Version != version || string(items[0].Value) != fmt.Sprint(version) {
			t.Errorf("at version %d: %+v", version, items)
			break
		}
	}
	all.Wait()
}

func itemRace(t *testing.T, s host.Store) {
	must(t, step(t, s, host.Step{Puts: []host.Put{put("a", 0, "1")}}))
	for n := range 16 {
		begun(t, s, 100+n)
	}
	var lost atomic.Int32
	wins := at16(t, nil, func(n int) error {
		err := s.Apply(t.Context(), host.Step{Execution: stands(t, s, 100+n), Puts: []host.Put{put("a", 1, fmt.Sprint(n))}})
		var conflict *host.ConflictError
		if errors.As(err, &conflict) && conflict.Key == "a" {
			lost.Add(1)
			return nil
		}
		return err
	})
	if wins != 16 || lost.Load() != 15 {
		t.Fatalf("%d lost", lost.Load())
	}
	if items, version, err := s.Items(t.Context(), schedule()); err != nil || version != 2 || items[0].Version != 2 {
		t.Fatal(items, version, err)
	}
}

func itemsAtOnce(t *testing.T, s host.Store) {
	for n := range 16 {
		begun(t, s, 100+n)
	}
	if wins := at16(t, nil, func(n int) error {
		return s.Apply(t.Context(), host.Step{Execution: stands(t, s, 100+n), Puts: []host.Put{put(fmt.Sprintf("k%02d", n), 0, "1")}})
	}); wins != 16 {
		t.Fatalf("%d", wins)
	}
	if items, version, err := s.Items(t.Context(), schedule()); err != nil || version != 16 || len(items) != 16 {
		t.Fatal(len(items), version, err)
	}
}

// All that a step may be is one write: 16 namespaces, 40 items that were read, 40 values
// of 64 KB.
func largestStep(t *testing.T, s host.Store) {
	i := installed(t, s, 1)
	of := host.Step{Instance: i.Version}
	value := `"` + strings.Repeat("y", host.MaxValue-2) + `"`
	for n := range host.MaxNamespaces {
		of.Unchanged = append(of.Unchanged, host.Expectation{Namespace: fmt.Sprint("n", n)})
	}
	for n := range host.MaxReadKeys {
		of.Unchanged = append(of.Unchanged, host.Expectation{Namespace: fmt.Sprint("n", n%host.MaxNamespaces), Key: fmt.Sprint("r", n)})
	}
	for n := range host.MaxChanges {
		of.Puts = append(of.Puts, host.Put{Expectation: host.Expectation{Namespace: fmt.Sprint("n", n%host.MaxNamespaces), Key: fmt.Sprint("p", n)}, Value: canon.Raw(value)})
	}
	must(t, step(t, s, of))
	for n := range host.MaxNamespaces {
		items, version, err := s.Items(t.Context(), host.Namespace{Workspace: team, InstanceID: i.InstanceID, Name: fmt.Sprint("n", n)})
		if err != nil || version != 1 || len(items) < 2 {
			t.Fatal(len(items), version, err)
		}
	}
}

func malformedSteps(t *testing.T, s host.Store) {
	read := begun(t, s, 1)
	many := func(n int) (keys []host.Expectation, spaces []host.Expectation, puts []host.Put, ids []string) {
		for n := range n {
			keys = append(keys, expect(fmt.Sprint("k", n), 0))
			spaces = append(spaces, host.Expectation{Namespace: fmt.Sprint("n", n)})
			puts = append(puts, put(fmt.Sprint("k", n), 0, "1"))
			ids = append(ids, fmt.Sprint("note", n))
		}
		return
	}
	keys, _, puts, ids := many(41)
	_, spaces, _, _ := many(17)
	for name, of := range map[string]host.Step{
		"too many keys":                      {Unchanged: keys},
		"too many namespaces":                {Unchanged: spaces},
		"too many puts":                      {Puts: puts},
		"too many removals":                  {Deletes: keys},
		"too many notifications":             {Withdraw: ids},
		"too much together":                  {Puts: puts[:40], Withdraw: ids[:1]},
		"too many namespaces together":       {Unchanged: spaces[:16], Puts: []host.Put{put("a", 0, "1")}},
		"an item twice":                      {Puts: []host.Put{put("a", 0, "1"), put("a", 0, "2")}},
		"an item stored and removed":         {Puts: []host.Put{put("a", 1, "1")}, Deletes: []host.Expectation{expect("a", 1)}},
		"an expectation twice":               {Unchanged: []host.Expectation{expect("a", 1), expect("a", 2)}},
		"a put without a key":                {Puts: []host.Put{put("", 0, "1")}},
		"a removal without a key":            {Deletes: []host.Expectation{expect("", 1)}},
		"no namespace":                       {Unchanged: []host.Expectation{{Key: "a"}}},
		"a version below 0":                  {Unchanged: []host.Expectation{expect("a", -1)}},
		"a notification without a name":      {Schedule: []host.Notification{{At: Now}}},
		"a notification told and withdrawn":  {Schedule: []host.Notification{notification(1, Now)}, Withdraw: []string{notification(1, Now).NotificationID}},
		"a notification that is told twice":  {Schedule: []host.Notification{notification(1, Now), notification(1, Now.Add(1))}},
		"a value of more than 64 KB":         {Puts: []host.Put{put("a", 0, strings.Repeat("1", host.MaxValue+1))}},
		"a removal of a version that is not": {Deletes: []host.Expectation{expect("a", -1)}},
	} {
		of.Execution = read
		var conflict *host.ConflictError
		if err := s.Apply(t.Context(), of); err == nil || errors.Is(err, host.ErrMoved) || errors.As(err, &conflict) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if stands(t, s, 1).Version != read.Version || kept(t, s, schedule()) != "0" {
		t.Error("something was written")
	}
}

func namespaces(t *testing.T, s host.Store) {
	e := begun(t, s, 1)
	e.InstanceID = "inst_a"
	must(t, s.Apply(t.Context(), host.Step{Execution: e, Puts: []host.Put{{Expectation: host.Expectation{Namespace: "b#c", Key: "k#"}, Value: canon.Raw("1")}}}))
	if got := kept(t, s, host.Namespace{Workspace: team, InstanceID: "inst_a", Name: "b#c"}); got != "1 k#@1=1" {
		t.Fatal(got)
	}
	for _, other := range []host.Namespace{{Workspace: team, InstanceID: "inst_a", Name: "b"}, {Workspace: team, InstanceID: "inst_b", Name: "b#c"}, {Workspace: "another", InstanceID: "inst_a", Name: "b#c"}} {
		if got := kept(t, s, other); got != "0" {
			t.Errorf("%v: %s", other, got)
		}
	}
}

func notificationRows(t *testing.T, s host.Store) {
	ctx := t.Context()
	must(t, step(t, s, host.Step{Schedule: []host.Notification{notification(1, Now.Add(time.Second)), notification(2, Now.Add(2*time.Second))}}))
	dueAre(t, s, Now, 0, 0, 0)
	dueAre(t, s, Now.Add(time.Second), 0, 1, 0)
	due, err := s.DueNotifications(ctx, Now.Add(time.Minute), 10)
	must(t, err)
	if len(due) != 2 || due[0].NotificationID != notification(1, Now).NotificationID {
		t.Fatalf("%+v", due)
	}
	want := notification(1, Now.Add(time.Second))
	want.Version = due[0].Version
	if !reflect.DeepEqual(due[0], want) {
		t.Fatalf("%+v", due[0])
	}
	if err := s.Deliver(ctx, due[0]); err == nil {
		t.Fatal("delivered at no time")
	}
	must(t, s.Deliver(ctx, told(due[0])))
	if err := s.Deliver(ctx, told(due[0])); !errors.Is(err, host.ErrMoved) {
		t.Fatal(err)
	}
	dueAre(t, s, Now.Add(time.Minute), 0+1, 1, 0)
	got, err := s.Notifications(ctx, team, alice, 10)
	must(t, err)
	want = told(want)
	if len(got) != 1 {
		t.Fatalf("%+v", got)
	}
	same(t, got[0], want)
	for _, other := range [][2]string{{team, bob}, {"another", alice}} {
		if n, err := s.Notifications(ctx, other[0], other[1], 10); err != nil || len(n) != 0 {
			t.Error(other, n, err)
		}
	}
}

func notificationSteps(t *testing.T, s host.Store) {
	ctx := t.Context()
	first := func(at time.Time) []host.Notification { return []host.Notification{notification(1, at)} }
	ref := []string{notification(1, Now).NotificationID}
	due := func(want int) []host.Notification {
		t.Helper()
		got, err := s.DueNotifications(ctx, Now, 10)
		if err != nil || len(got) != want {
			t.Fatalf("%d are due, want %d: %v", len(got), want, err)
		}
		return got
	}
	must(t, step(t, s, host.Step{Withdraw: ref})) // of none
	must(t, step(t, s, host.Step{Schedule: first(Now)}))
	must(t, step(t, s, host.Step{Schedule: first(Now.Add(time.Hour))})) // it is there
	old := due(1)[0]
	must(t, step(t, s, host.Step{Withdraw: ref}))
	due(0)
	must(t, step(t, s, host.Step{Withdraw: ref}))
	if err := s.Deliver(ctx, told(old)); !errors.Is(err, host.ErrMoved) {
		t.Fatalf("what was withdrawn is delivered: %v", err)
	}
	must(t, step(t, s, host.Step{Schedule: first(Now)}))
	anew := due(1)[0]
	for range 2 { // by who read the one that was withdrawn, and by who counts on from there
		if err := s.Deliver(ctx, told(old)); !errors.Is(err, host.ErrMoved) {
			t.Fatalf("what was scheduled anew is delivered by who read the old: %v", err)
		}
		old.Version++
	}
	must(t, s.Deliver(ctx, told(anew)))
	must(t, step(t, s, host.Step{Withdraw: ref})) // too late
	must(t, step(t, s, host.Step{Schedule: first(Now)}))
	due(0)
	if got, err := s.Notifications(ctx, team, alice, 10); err != nil || len(got) != 1 {
		t.Fatal(got, err)
	}
}

func deliveryRace(t *testing.T, s host.Store) {
	must(t, step(t, s, host.Step{Schedule: []host.Notification{notification(1, Now)}}))
	due, err := s.DueNotifications(t.Context(), Now, 10)
	must(t, err)
	if wins := at16(t, host.ErrMoved, func(int) error { return s.Deliver(t.Context(), told(due[0])) }); wins != 1 {
		t.Fatalf("%d deliveries won", wins)
	}
	if got, err := s.Notifications(t.Context(), team, alice, 10); err != nil || len(got) != 1 {
		t.Fatal(got, err)
	}
}

func notificationPages(t *testing.T, s host.Store) {
	var all []host.Notification
	for n := range 30 {
		one := notification(n, Now)
		one.Text = strings.Repeat("글", 20<<10)
		all = append(all, one)
	}
	must(t, step(t, s, host.Step{Schedule: all}))
	due, err := s.DueNotifications(t.Context(), Now, 1000)
	must(t, err)
	if len(due) != 30 {
		t.Fatalf("%d are due", len(due))
	}
	for _, n := range due {
		var place int
		if _, err := fmt.Sscanf(n.NotificationID, "note_%d", &place); err != nil {
			t.Fatal(err)
		}
		n.DeliveredAt = Now.Add(time.Duration(place*37%30) * time.Second)
		must(t, s.Deliver(t.Context(), n))
	}
	for _, limit := range []int{1, 25, 100} { // 25 are more than a page of 1 MB
		got, err := s.Notifications(t.Context(), team, alice, limit)
		if err != nil || len(got) != min(limit, 30) {
			t.Fatalf("%d of %d: %v", len(got), limit, err)
		}
		for n := range got {
			if want := Now.Add(time.Duration(29-n) * time.Second); !got[n].DeliveredAt.Equal(want) {
				t.Fatalf("place %d of %d was delivered at %v, want %v", n, limit, got[n].DeliveredAt, want)
			}
		}
	}
}

func slotRows(t *testing.T, s host.Store) {
	ctx := t.Context()
	i := instance(1)
	changed(t, s, host.Change{Workspace: team, Instance: &i, Slots: []host.Slot{slot(1, Now), slot(2, Now.Add(time.Second))}})
	dueAre(t, s, Now.Add(-1), 0, 0, 0)
	dueAre(t, s, Now, 0, 0, 1)
	due, err := s.DueSlots(ctx, Now.Add(time.Minute), 10)
	must(t, err)
	if len(due) != 2 || due[0].CapabilityID != slot(1, Now).CapabilityID {
		t.Fatalf("%+v", due)
	}
	want := slot(1, Now)
	want.Version = due[0].Version
	if !reflect.DeepEqual(due[0], want) {
		t.Fatalf("%+v", due[0])
	}
	i, err = s.Instance(ctx, i.InstanceID)
	must(t, err)
	stale := i
	stale.Version = 99
	refused(t, s, host.Change{Workspace: team, Instance: &stale, Drop: due}, host.ErrMoved)
	dueAre(t, s, Now.Add(time.Minute), 0, 0, 2)
	// One is put off, one goes; that there is none of a third is fine.
	changed(t, s, host.Change{Workspace: team, Instance: &i, Slots: []host.Slot{slot(1, Now.Add(time.Hour))}, Drop: []host.Slot{slot(1, Now), slot(2, Now), slot(3, Now)}})
	dueAre(t, s, Now.Add(time.Minute), 0, 0, 0)
	dueAre(t, s, Now.Add(time.Hour), 0, 0, 1)
	i, err = s.Instance(ctx, i.InstanceID)
	must(t, err)
	var most []host.Slot
	for n := range host.MaxSlots {
		most = append(most, slot(100+n, Now))
	}
	changed(t, s, host.Change{Workspace: team, Instance: &i, Slots: most})
	i, err = s.Instance(ctx, i.InstanceID)
	must(t, err)
	var next []host.Slot
	for n := range host.MaxSlots {
		next = append(next, slot(200+n, Now))
	}
	changed(t, s, host.Change{Workspace: team, Instance: &i, Slots: next, Drop: most})
	dueAre(t, s, Now, 0, 0, host.MaxSlots)
	some, err := s.DueSlots(ctx, Now, 3)
	if err != nil || len(some) == 0 || len(some) > 3 {
		t.Fatal(len(some), err)
	}
}

// background stores an instance with one slot that is due, and returns the slot.
func background(t *testing.T, s host.Store) host.Slot {
	t.Helper()
	i := instance(1)
	changed(t, s, host.Change{Workspace: team, Instance: &i, Slots: []host.Slot{slot(1, Now)}})
	due, err := s.DueSlots(t.Context(), Now, 10)
	must(t, err)
	if len(due) != 1 {
		t.Fatal(due)
	}
	return due[0]
}

func slotStarts(t *testing.T, s host.Store) {
	ctx := t.Context()
	next := background(t, s)
	e := execution(1)
	next.At, next.Last = Now.Add(15*time.Minute), e.ExecutionID
	g := generation(t, s)
	must(t, s.StartSlot(ctx, next, &e))
	if stands(t, s, 1).Version != 1 || generation(t, s) != g {
		t.Fatal("the execution is not there, or the catalog has moved")
	}
	if err := s.StartSlot(ctx, next, &e); !errors.Is(err, host.ErrMoved) {
		t.Fatal(err)
	}
	dueAre(t, s, Now, 0, 0, 0)
	due, err := s.DueSlots(ctx, next.At, 10)
	must(t, err)
	if len(due) != 1 || due[0].Last != e.ExecutionID || !due[0].At.Equal(next.At) || due[0].Version == next.Version {
		t.Fatalf("%+v", due)
	}
	again := due[0]
	again.At = again.At.Add(15 * time.Minute)
	if err := s.StartSlot(ctx, again, &e); !errors.Is(err, host.ErrExists) {
		t.Fatalf("an execution that is there: %v", err)
	}
	must(t, s.StartSlot(ctx, again, nil)) // skipped
	dueAre(t, s, due[0].At, 1, 0, 0)
}

func slotGraves(t *testing.T, s host.Store) {
	ctx := t.Context()
	old := background(t, s)
	for _, c := range []host.Change{{Drop: []host.Slot{old}}, {Slots: []host.Slot{slot(1, Now)}}} {
		i, err := s.Instance(ctx, old.InstanceID)
		must(t, err)
		c.Workspace, c.Instance = team, &i
		changed(t, s, c)
		for back := range int64(2) {
			e := execution(1)
			next := old
			next.Version += back
			if back == 1 && len(c.Slots) == 0 {
				continue // the version of the grave, which nobody reads
			}
			if err := s.StartSlot(ctx, next, &e); !errors.Is(err, host.ErrMoved) {
				t.Fatalf("started by who read it before: %v", err)
			}
		}
	}
	if _, err := s.Execution(ctx, execution(1).ExecutionID); !errors.Is(err, host.ErrNotFound) {
		t.Fatal(err)
	}
	dueAre(t, s, Now, 0, 0, 1)
}

func slotRace(t *testing.T, s host.Store) {
	next := background(t, s)
	next.At = Now.Add(15 * time.Minute)
	if wins := at16(t, host.ErrMoved, func(int) error {
		e := execution(1)
		return s.StartSlot(t.Context(), next, &e)
	}); wins != 1 {
		t.Fatalf("%d starts won", wins)
	}
}

func hostCancelled(t *testing.T, s host.Store) {
	e := begun(t, s, 1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	i := instance(1)
	for name, err := range map[string]error{
		"Generation":    second(s.Generation(ctx, team)),
		"Workspace":     second(s.Workspace(ctx, team)),
		"Member":        second(s.Member(ctx, team, alice)),
		"Instance":      second(s.Instance(ctx, i.InstanceID)),
		"Change":        second(s.Change(ctx, host.Change{Workspace: team, Instance: &i})),
		"Apply":         s.Apply(ctx, host.Step{Execution: e, Puts: []host.Put{put("a", 0, "1")}}),
		"Apply alone":   s.Apply(ctx, host.Step{Execution: e}),
		"Some":          second(s.Some(ctx, schedule(), []string{"a"})),
		"DueExecutions": second(s.DueExecutions(ctx, Now, 1)),
		"Deliver":       s.Deliver(ctx, host.Notification{NotificationID: "x", DeliveredAt: Now, Version: 1}),
		"StartSlot":     s.StartSlot(ctx, host.Slot{InstanceID: "i", CapabilityID: "c", Version: 1}, nil),
	} {
		if err == nil || errors.Is(err, host.ErrMoved) || errors.Is(err, host.ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if generation(t, s) != 0 || stands(t, s, 1).Version != e.Version {
		t.Error("something was written")
	}
}
