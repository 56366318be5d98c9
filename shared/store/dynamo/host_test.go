package dynamo

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/capability"
	"github.com/pxhost/pxhost/shared/capability/host"
)

const team = "structural_team"

func anInstance(id string) capability.Instance {
	return capability.Instance{InstanceID: id, Workspace: team, PluginKey: "p", Enabled: true, Settings: canon.Raw(`{}`), Granted: []capability.Permission{}, InstalledAt: clock()}
}

func aLink(id string) host.Connection {
	return host.Connection{ConnectionID: id, Workspace: team, InstanceID: "inst_x", ConnectorID: "c", Kind: "bearer", State: host.Live, Sealed: []byte("secret"), CreatedAt: clock()}
}

func anExecution(id string) host.Execution {
	return host.Execution{ExecutionID: id, Workspace: team, Actor: engineer, InstanceID: "inst_x", CapabilityID: "c", State: host.Running, Phase: host.Accepted, CreatedAt: clock(), Deadline: clock(), DueAt: clock()}
}

func aSlot(at time.Time) host.Slot {
	return host.Slot{Workspace: team, InstanceID: "inst_x", CapabilityID: "c", At: at, Minutes: 15}
}

func aNotification(id string) host.Notification {
	return host.Notification{NotificationID: id, Workspace: team, Actor: engineer, InstanceID: "inst_x", Key: "k", At: clock(), Title: "t"}
}

// populate stores one of each.
func populate(ctx context.Context, s *Store) error {
	i, c := anInstance("inst_x"), aLink("conn_x")
	_, err := s.Change(ctx, host.Change{Workspace: team, Instance: &i, Slots: []host.Slot{aSlot(clock())}})
	_, connected := s.Change(ctx, host.Change{Workspace: team, Connection: &c})
	if err := errors.Join(err, connected, s.CreateExecution(ctx, anExecution("exec_x"))); err != nil {
		return err
	}
	return s.Apply(ctx, host.Step{Execution: read(ctx, s, "exec_x"), Puts: []host.Put{{Expectation: host.Expectation{Namespace: "n", Key: "a"}, Value: canon.Raw("1")}},
		Schedule: []host.Notification{aNotification("note_x")}})
}

func read(ctx context.Context, s *Store, id string) host.Execution {
	e, err := s.Execution(ctx, id)
	if err != nil {
		panic(err)
	}
	return e
}

// largest is a step with all kinds of parts.
func largest(ctx context.Context, s *Store) host.Step {
	e := read(ctx, s, "exec_x")
	e.State, e.DueAt = host.Succeeded, time.Time{}
	return host.Step{Execution: e, Instance: 1, Unchanged: []host.Expectation{{Namespace: "n", Version: 1}, {Namespace: "other"}, {Namespace: "other", Key: "k"}},
		Puts: []host.Put{{Expectation: host.Expectation{Namespace: "n", Key: "b"}, Value: canon.Raw("2")}}, Deletes: []host.Expectation{{Namespace: "n", Key: "a", Version: 1}},
		Schedule: []host.Notification{aNotification("note_y")}, Withdraw: []string{"note_x"}}
}

// hostOperations are the writes, over what populate stored. Those that are certain say
// that they are done even when they find their own write.
var hostOperations = map[string]struct {
	certain bool
	do      func(context.Context, *Store) error
}{
	"install": {true, func(ctx context.Context, s *Store) error {
		i := anInstance("inst_new")
		_, err := s.Change(ctx, host.Change{Workspace: team, Instance: &i})
		return err
	}},
	"update with slots": {true, func(ctx context.Context, s *Store) error {
		i, err := s.Instance(ctx, "inst_x")
		if err != nil {
			return err
		}
		i.PluginVersion = "2.0.0"
		other := aSlot(clock())
		other.CapabilityID = "other"
		_, err = s.Change(ctx, host.Change{Workspace: team, Instance: &i, Slots: []host.Slot{other}, Drop: []host.Slot{aSlot(clock())}})
		return err
	}},
	"remove": {true, func(ctx context.Context, s *Store) error {
		i, err := s.Instance(ctx, "inst_x")
		if err != nil {
			return err
		}
		i.Removed = true
		_, err = s.Change(ctx, host.Change{Workspace: team, Instance: &i, Drop: []host.Slot{aSlot(clock())}})
		return err
	}},
	"connect": {true, func(ctx context.Context, s *Store) error {
		c := aLink("conn_new")
		_, err := s.Change(ctx, host.Change{Workspace: team, Connection: &c})
		return err
	}},
	"forget": {true, func(ctx context.Context, s *Store) error {
		c, err := s.Connection(ctx, "conn_x")
		if err != nil {
			return err
		}
		_, err = s.Change(ctx, host.Change{Workspace: team, Forget: &c})
		return err
	}},
	"member": {true, func(ctx context.Context, s *Store) error {
		_, err := s.Change(ctx, host.Change{Workspace: team, Member: &host.Membership{Actor: engineer, Member: capability.Member{Rights: []capability.Right{capability.Use}}}})
		return err
	}},
	"NoteConnection": {true, func(ctx context.Context, s *Store) error {
		c, err := s.Connection(ctx, "conn_x")
		if err != nil {
			return err
		}
		c.Sealed = []byte("another")
		return s.NoteConnection(ctx, c)
	}},
	"CreateExecution": {false, func(ctx context.Context, s *Store) error { return s.CreateExecution(ctx, anExecution("exec_new")) }},
	"Apply alone": {false, func(ctx context.Context, s *Store) error {
		e := read(ctx, s, "exec_x")
		e.Phase = host.Claimed
		return s.Apply(ctx, host.Step{Execution: e})
	}},
	"Apply": {false, func(ctx context.Context, s *Store) error { return s.Apply(ctx, largest(ctx, s)) }},
	"Deliver": {false, func(ctx context.Context, s *Store) error {
		n := aNotification("note_x")
		n.Version, n.DeliveredAt = 1, clock()
		return s.Deliver(ctx, n)
	}},
	"StartSlot": {false, func(ctx context.Context, s *Store) error {
		slot, e := aSlot(clock().Add(time.Hour)), anExecution("exec_new")
		slot.Version = 1
		return s.StartSlot(ctx, slot, &e)
	}},
}

// Whatever is lost, a write is done once when it says so, and where it says that the row
// moved on, who reads finds it done.
//
// covers: X3
func TestLostRequestsAndRepliesOfTheHost(t *testing.T) {
	for name, operation := range hostOperations {
		want := "" // what is stored without a fault
		cases := append([]fault{{}, {name: "a collision", err: errCollision}}, faults...)
		for _, broken := range cases {
			for _, times := range []int{1, 3} {
				for _, forgotten := range []bool{false, true} {
					synctest.Test(t, func(t *testing.T) {
						f := &faulty{fake: newFake()}
						s := over(f)
						if err := populate(t.Context(), s); err != nil {
							t.Fatal(err)
						}
						for range times {
							if single := name == "CreateExecution" || name == "Apply alone"; broken.name != "" && !(single && broken.err == errCollision) {
								f.faults = append(f.faults, broken)
							}
						}
						if forgotten { // the ten minutes of the token are over before the first resend
							f.after = func() { f.fake.mu.Lock(); clear(f.tokens); f.fake.mu.Unlock() }
						}
						err := operation.do(t.Context(), s)
						doubtful := broken.name != "" && !operation.certain
						if err != nil && !(doubtful && (errors.Is(err, host.ErrMoved) || errors.Is(err, host.ErrExists))) {
							t.Errorf("%s, %s %d times (token forgotten: %v): %v", name, broken.name, times, forgotten, err)
						}
						if len(f.faults) > 0 {
							t.Errorf("%s, %s: %d faults did not happen", name, broken.name, len(f.faults))
						}
						if got := contents(f.tables); want == "" {
							want = got
						} else if got != want {
							t.Errorf("%s, %s %d times: stored\n%s\nnot\n%s", name, broken.name, times, got, want)
						}
					})
				}
			}
		}
	}
}

// A write whose reply is lost and that then meets a collision has a fresh token, and
// finds its own write.
func TestACollisionAfterALostReply(t *testing.T) {
	for name, operation := range hostOperations {
		synctest.Test(t, func(t *testing.T) {
			f := &faulty{fake: newFake()}
			s := over(f)
			if err := populate(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			f.faults = []fault{{perform: true, err: errLost}, {err: errCollision}}
			if name == "CreateExecution" || name == "Apply alone" {
				f.faults[1].err = &types.TransactionConflictException{}
			}
			err := operation.do(t.Context(), s)
			if operation.certain && err != nil || !operation.certain && !errors.Is(err, host.ErrMoved) && !errors.Is(err, host.ErrExists) {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}

// A reading that fails is repeated, and never taken for a row that is not there: that
// would be rights revoked, or an execution forgotten.
func TestAFailedReadingOfTheHostIsNotNothing(t *testing.T) {
	reads := map[string]func(context.Context, *Store) (any, error){
		"Generation": func(ctx context.Context, s *Store) (any, error) { return s.Generation(ctx, team) },
		"Workspace":  func(ctx context.Context, s *Store) (any, error) { return s.Workspace(ctx, team) },
		"Member":     func(ctx context.Context, s *Store) (any, error) { return s.Member(ctx, team, engineer) },
		"Instance":   func(ctx context.Context, s *Store) (any, error) { return s.Instance(ctx, "inst_x") },
		"Connection": func(ctx context.Context, s *Store) (any, error) { return s.Connection(ctx, "conn_x") },
		"Execution":  func(ctx context.Context, s *Store) (any, error) { return s.Execution(ctx, "exec_x") },
		"Some": func(ctx context.Context, s *Store) (any, error) {
			return s.Some(ctx, host.Namespace{Workspace: team, InstanceID: "inst_x", Name: "n"}, []string{"a"})
		},
		"Items": func(ctx context.Context, s *Store) (any, error) {
			items, _, err := s.Items(ctx, host.Namespace{Workspace: team, InstanceID: "inst_x", Name: "n"})
			return items, err
		},
	}
	for name, reading := range reads {
		synctest.Test(t, func(t *testing.T) {
			f := &faulty{fake: newFake()}
			s := over(f)
			if err := populate(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Change(t.Context(), host.Change{Workspace: team, Member: &host.Membership{Actor: engineer, Member: capability.Member{Rights: []capability.Right{capability.Use}}}}); err != nil {
				t.Fatal(err)
			}
			want, err := reading(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			for _, fault := range faults {
				f.faults = append(f.faults[:0], fault, fault, fault)
				if got, err := reading(t.Context(), over(broken{f})); err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("%s, %s: %v, %v", name, fault.name, got, err)
				}
			}
			for range 50 {
				f.faults = append(f.faults, fault{err: server})
			}
			if _, err := reading(t.Context(), over(broken{f})); err == nil || errors.Is(err, host.ErrNotFound) {
				t.Errorf("%s of a service that always fails: %v", name, err)
			}
		})
	}
}

// late answers the next queries with what was there before.
type late struct {
	*fake
	before  map[string]attributes
	queries int
}

func (l *late) Query(ctx context.Context, in *dynamodb.QueryInput, o ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	if l.queries == 0 {
		return l.fake.Query(ctx, in, o...)
	}
	l.queries--
	old := newFake()
	old.tables[*in.TableName] = l.before
	return old.Query(ctx, in, o...)
}

// A query may see what was there before a transaction of which the generation is there
// already. Kept under that generation, an instance that was disabled would stay enabled
// until the next change.
//
// covers: C3
func TestAReadingBetweenThePartsOfAWriteIsDoneAgain(t *testing.T) {
	writes := map[string]func(context.Context, *Store) error{"a step": hostOperations["Apply"].do}
	for _, name := range []string{"install", "update with slots", "remove", "connect", "forget"} {
		writes[name] = hostOperations[name].do
	}
	n := host.Namespace{Workspace: team, InstanceID: "inst_x", Name: "n"}
	shown := func(ctx context.Context, s *Store) string {
		w, err := s.Workspace(ctx, team)
		items, version, failed := s.Items(ctx, n)
		if err := errors.Join(err, failed); err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(w, items, version)
	}
	for name, write := range writes {
		synctest.Test(t, func(t *testing.T) {
			l := &late{fake: newFake()}
			s := over(l)
			if err := populate(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			l.before = maps.Clone(l.tables[names.Host])
			if err := write(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			want := shown(t.Context(), s)
			if l.queries = 3; name == "a step" {
				l.queries = 0
				if _, err := s.Workspace(t.Context(), team); err != nil {
					t.Fatal(err)
				}
				l.queries = 3
				items, version, err := s.Items(t.Context(), n)
				if err != nil || version != 2 || len(items) != 1 || items[0].Key != "b" || l.queries != 0 {
					t.Errorf("%s: %v at %d (%v), %d late queries left", name, items, version, err, l.queries)
				}
			} else if got := shown(t.Context(), s); got != want || l.queries != 0 {
				t.Errorf("%s: read\n%s\nnot\n%s", name, got, want)
			}
		})
	}
}

// What a call costs does not grow with the workspace, but for reading the whole of it.
//
// covers: C3
func TestHowManyRequestsACallIs(t *testing.T) {
	want := map[string]map[string]int{
		"Generation":        {"GetItem": 1},
		"Instance":          {"GetItem": 1},
		"Member":            {"GetItem": 1},
		"Execution":         {"GetItem": 1},
		"Workspace":         {"GetItem": 2, "Query": 1},
		"Items":             {"GetItem": 2, "Query": 1},
		"Some":              {"BatchGetItem": 1},
		"CreateExecution":   {"PutItem": 1},
		"Apply alone":       {"GetItem": 1, "PutItem": 1}, // reading the execution
		"Apply":             {"GetItem": 1, "BatchGetItem": 1, "TransactWriteItems": 1},
		"install":           {"GetItem": 1, "TransactWriteItems": 1},
		"update with slots": {"GetItem": 2, "BatchGetItem": 1, "TransactWriteItems": 1},
		"connect":           {"GetItem": 2, "TransactWriteItems": 1},
		"NoteConnection":    {"GetItem": 1, "TransactWriteItems": 1},
		"Deliver":           {"TransactWriteItems": 1},
		"StartSlot":         {"TransactWriteItems": 1},
	}
	calls := map[string]func(context.Context, *Store) error{
		"Generation": func(ctx context.Context, s *Store) error { _, err := s.Generation(ctx, team); return err },
		"Instance":   func(ctx context.Context, s *Store) error { _, err := s.Instance(ctx, "inst_x"); return err },
		"Member":     func(ctx context.Context, s *Store) error { _, err := s.Member(ctx, team, engineer); return err },
		"Execution":  func(ctx context.Context, s *Store) error { _, err := s.Execution(ctx, "exec_x"); return err },
		"Workspace":  func(ctx context.Context, s *Store) error { _, err := s.Workspace(ctx, team); return err },
		"Items": func(ctx context.Context, s *Store) error {
			_, _, err := s.Items(ctx, host.Namespace{Workspace: team, InstanceID: "inst_x", Name: "n"})
			return err
		},
		"Some": func(ctx context.Context, s *Store) error {
			_, err := s.Some(ctx, host.Namespace{Workspace: team, InstanceID: "inst_x", Name: "n"}, []string{"a", "b"})
			return err
		},
	}
	for name, operation := range hostOperations {
		calls[name] = operation.do
	}
	for name, requests := range want {
		for _, others := range []int{0, 300} {
			f := newFake()
			s := over(f)
			for n := range others {
				i := anInstance(fmt.Sprint("inst_", n))
				if _, err := s.Change(t.Context(), host.Change{Workspace: team, Instance: &i}); err != nil {
					t.Fatal(err)
				}
			}
			if err := populate(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			clear(f.counts)
			if err := calls[name](t.Context(), s); err != nil {
				t.Fatal(name, err)
			}
			if !maps.Equal(f.counts, requests) {
				t.Errorf("%s beside %d instances: %v, want %v", name, others, f.counts, requests)
			}
		}
	}
}
