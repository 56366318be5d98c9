package storetest

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/sandbox"
	"github.com/pxhost/pxhost/shared/target"
)

// A JobStore keeps jobs.
type JobStore interface {
	sandbox.Store
	sandbox.Keys
}

// Jobs runs the suite of sandbox.Store. open returns an empty store.
func Jobs(t *testing.T, open func(t *testing.T) JobStore) {
	for name, test := range map[string]func(*testing.T, JobStore){
		"a job is created once":                                createsJobs,
		"of 16 creates of one job one wins":                    createRace,
		"a job is replaced only as it was read":                replacesJobs,
		"of 16 leases of one job one wins":                     leaseRace,
		"the queue holds what has not ended, the oldest first": queues,
		"a queue of many pages":                                longQueue,
		"a lease hides a job until it ends":                    leases,
		"due jobs are found in time and others never":          dueJobs,
		"a worker is added for the fleet that was read":        fleets,
		"of 16 who add a worker one does":                      fleetRace,
		"a worker is saved and removed only as it was read":    workerRows,
		"what a job holds comes back to the nanosecond":        jobRoundTrip,
		"the job key is made once":                             jobKeys,
	} {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
}

func job(n int) sandbox.Job {
	return sandbox.Job{
		JobRef: fmt.Sprintf("job_%026d", n), Project: place, Kind: sandbox.Functions, Python: "3.11", Spec: history.RefOf([]byte("spec")), Signature: []byte{1, 2, 255},
		WallMilliseconds: 5000, State: sandbox.Queued, Token: "token", CreatedAt: Now.Add(time.Duration(n)), DueAt: Now.Add(time.Minute),
	}
}

// stored is a job as the store gives it, read anew.
func stored(t *testing.T, s JobStore, n int) sandbox.Job {
	t.Helper()
	j, err := s.Job(t.Context(), job(n).JobRef)
	must(t, err)
	return j
}

func queue(t *testing.T, s JobStore, q sandbox.Search, want ...int) {
	t.Helper()
	if q.Limit == 0 {
		q.Limit = 1000
	}
	got, err := s.Leasable(t.Context(), q)
	must(t, err)
	var refs []string
	for _, n := range want {
		refs = append(refs, job(n).JobRef)
	}
	if !slices.Equal(got, refs) {
		t.Fatalf("leasable are %v, want %v", got, refs)
	}
}

func createsJobs(t *testing.T, s JobStore) {
	if _, err := s.Job(t.Context(), job(1).JobRef); !errors.Is(err, history.ErrNotFound) {
		t.Fatal(err)
	}
	queue(t, s, sandbox.Search{Now: Now})
	must(t, s.CreateJob(t.Context(), job(1)))
	again := job(1)
	again.Token = "another"
	if err := s.CreateJob(t.Context(), again); !errors.Is(err, sandbox.ErrExists) {
		t.Fatal(err)
	}
	if got := stored(t, s, 1); got.Token != "token" || got.Version != 1 {
		t.Fatalf("%+v", got)
	}
	queue(t, s, sandbox.Search{Now: Now}, 1)
}

// at16 calls f sixteen times at once and counts the calls that return nil; all others
// must return fine.
func at16(t *testing.T, fine error, f func(n int) error) (wins int) {
	t.Helper()
	errs := make([]error, 16)
	var all sync.WaitGroup
	for n := range errs {
		all.Go(func() { errs[n] = f(n) })
	}
	all.Wait()
	for _, err := range errs {
		if err == nil {
			wins++
		} else if !errors.Is(err, fine) {
			t.Error(err)
		}
	}
	return wins
}

func createRace(t *testing.T, s JobStore) {
	if wins := at16(t, sandbox.ErrExists, func(n int) error {
		j := job(1)
		j.Token = fmt.Sprint(n)
		return s.CreateJob(t.Context(), j)
	}); wins != 1 {
		t.Fatalf("%d creates won", wins)
	}
	queue(t, s, sandbox.Search{Now: Now}, 1)
}

func replacesJobs(t *testing.T, s JobStore) {
	for name, replace := range map[string]func(sandbox.Job) error{
		"replace": func(j sandbox.Job) error { return s.ReplaceJob(t.Context(), j) },
		"note":    func(j sandbox.Job) error { return s.NoteJob(t.Context(), j) },
	} {
		n := len(name)
		if err := replace(job(n)); !errors.Is(err, sandbox.ErrMoved) {
			t.Fatalf("%s of a job that there is not: %v", name, err)
		}
		must(t, s.CreateJob(t.Context(), job(n)))
		old := stored(t, s, n)
		j := old
		j.Token = "new"
		must(t, replace(j))
		if got := stored(t, s, n); got.Token != "new" || got.Version == old.Version {
			t.Fatalf("%s: %+v", name, got)
		}
		if err := replace(old); !errors.Is(err, sandbox.ErrMoved) {
			t.Fatalf("%s of an old row: %v", name, err)
		}
	}
}

func leaseRace(t *testing.T, s JobStore) {
	must(t, s.CreateJob(t.Context(), job(1)))
	read := stored(t, s, 1)
	if wins := at16(t, sandbox.ErrMoved, func(n int) error {
		j := read
		j.State, j.Worker, j.Until = sandbox.Leased, fmt.Sprint("wrk_", n), Now.Add(time.Second)
		j.Fence++
		return s.ReplaceJob(t.Context(), j)
	}); wins != 1 {
		t.Fatalf("%d leases won", wins)
	}
	if got := stored(t, s, 1); got.Fence != 1 {
		t.Fatalf("%+v", got)
	}
}

func queues(t *testing.T, s JobStore) {
	foreign := job(2)
	foreign.Project = target.Project{WorkspaceKey: "other_team", ProjectKey: "bridge_package"}
	must(t, s.CreateJob(t.Context(), job(3)))
	must(t, s.CreateJob(t.Context(), foreign))
	must(t, s.CreateJob(t.Context(), job(1)))
	queue(t, s, sandbox.Search{Now: Now}, 1, 2, 3)
	queue(t, s, sandbox.Search{Now: Now, Limit: 2}, 1, 2)
	queue(t, s, sandbox.Search{Now: Now, Tenant: place.WorkspaceKey}, 1, 3)
	queue(t, s, sandbox.Search{Now: Now, Tenant: "nobody"})
	for tenant, want := range map[string]int{place.WorkspaceKey: 2, "other_team": 1, "nobody": 0} {
		if n, err := s.Backlog(t.Context(), tenant, 10); n != want || err != nil {
			t.Errorf("the backlog of %s is %d, %v", tenant, n, err)
		}
	}
	if n, err := s.Backlog(t.Context(), place.WorkspaceKey, 1); n != 1 || err != nil {
		t.Errorf("more than asked for: %d, %v", n, err)
	}
	for n, state := range map[int]sandbox.State{1: sandbox.Cancelled, 2: sandbox.Failed, 3: sandbox.Done} {
		j := stored(t, s, n)
		j.State = state
		must(t, s.ReplaceJob(t.Context(), j))
	}
	queue(t, s, sandbox.Search{Now: Now.Add(time.Hour)})
	if n, err := s.Backlog(t.Context(), place.WorkspaceKey, 10); n != 0 || err != nil {
		t.Errorf("ended jobs count: %d, %v", n, err)
	}
	j := stored(t, s, 3) // a note about an ended one does not bring it back
	j.Token = ""
	must(t, s.NoteJob(t.Context(), j))
	queue(t, s, sandbox.Search{Now: Now.Add(time.Hour)})
}

func longQueue(t *testing.T, s JobStore) {
	const many = 230
	for n := range many {
		j := job(n)
		if n < many-1 {
			j.State, j.Until = sandbox.Leased, Now.Add(time.Minute)
		}
		must(t, s.CreateJob(t.Context(), j))
	}
	queue(t, s, sandbox.Search{Now: Now, Limit: 1}, many-1) // behind all that are leased
	if n, err := s.Backlog(t.Context(), place.WorkspaceKey, 1000); n != many || err != nil {
		t.Errorf("the backlog is %d, %v", n, err)
	}
}

func leases(t *testing.T, s JobStore) {
	must(t, s.CreateJob(t.Context(), job(1)))
	j := stored(t, s, 1)
	j.State, j.Until = sandbox.Leased, Now.Add(time.Second)
	must(t, s.ReplaceJob(t.Context(), j))
	queue(t, s, sandbox.Search{Now: Now.Add(time.Second - 1)})
	queue(t, s, sandbox.Search{Now: Now.Add(time.Second)}, 1)
	j = stored(t, s, 1)
	j.Until = Now.Add(time.Minute)
	must(t, s.ReplaceJob(t.Context(), j))
	queue(t, s, sandbox.Search{Now: Now.Add(time.Second)})
	j = stored(t, s, 1)
	j.State, j.Until = sandbox.Queued, time.Time{}
	must(t, s.ReplaceJob(t.Context(), j))
	queue(t, s, sandbox.Search{Now: Now}, 1)
}

func dueJobs(t *testing.T, s JobStore) {
	want := func(at time.Time, limit int, want ...int) {
		t.Helper()
		got, err := s.DueJobs(t.Context(), at, limit)
		must(t, err)
		var refs []string
		for _, n := range want {
			refs = append(refs, job(n).JobRef)
		}
		slices.Sort(got)
		if !slices.Equal(got, refs) {
			t.Fatalf("due are %v, want %v", got, refs)
		}
	}
	for n := range 8 {
		j := job(n)
		j.DueAt = Now.Add(time.Duration(n) * time.Minute)
		must(t, s.CreateJob(t.Context(), j))
	}
	want(Now.Add(-1), 100)
	want(Now, 100, 0)
	want(Now.Add(3*time.Minute), 100, 0, 1, 2, 3)
	if got, err := s.DueJobs(t.Context(), Now.Add(time.Hour), 3); len(got) > 3 || err != nil {
		t.Errorf("more than asked for: %v, %v", got, err)
	}
	j := stored(t, s, 0)
	j.State, j.DueAt = sandbox.Done, time.Time{}
	must(t, s.ReplaceJob(t.Context(), j))
	want(Now.Add(time.Minute), 100, 1)
}

func worker(n int) sandbox.Worker {
	return sandbox.Worker{Ref: fmt.Sprint("wrk_", n), Standing: sandbox.Serving, Slots: 2, Python: "3.11.2", GVisor: "x", Driver: "task", Tenant: "team", SeenAt: Now, Until: Now.Add(time.Minute)}
}

func fleets(t *testing.T, s JobStore) {
	fleet, err := s.Fleet(t.Context())
	if must(t, err); fleet.Version != 0 || len(fleet.Workers) != 0 {
		t.Fatalf("%+v", fleet)
	}
	must(t, s.AddWorker(t.Context(), worker(1), 0))
	again := worker(1)
	again.Slots = 9
	for name, w := range map[string]sandbox.Worker{"another": worker(2), "the same": again} {
		if err := s.AddWorker(t.Context(), w, 0); !errors.Is(err, sandbox.ErrMoved) {
			t.Fatalf("%s worker for an old fleet: %v", name, err)
		}
	}
	fleet, err = s.Fleet(t.Context())
	must(t, err)
	must(t, s.AddWorker(t.Context(), worker(2), fleet.Version))
	fleet, err = s.Fleet(t.Context())
	one, two := worker(1), worker(2)
	one.Version, two.Version = 1, 1
	if must(t, err); !reflect.DeepEqual(fleet.Workers, []sandbox.Worker{one, two}) {
		t.Fatalf("%+v", fleet)
	}
}

func fleetRace(t *testing.T, s JobStore) {
	if wins := at16(t, sandbox.ErrMoved, func(n int) error { return s.AddWorker(t.Context(), worker(n), 0) }); wins != 1 {
		t.Fatalf("%d were added", wins)
	}
}

func workerRows(t *testing.T, s JobStore) {
	if _, err := s.Worker(t.Context(), "wrk_1"); !errors.Is(err, history.ErrNotFound) {
		t.Fatal(err)
	}
	must(t, s.SaveWorker(t.Context(), worker(1)))
	if err := s.SaveWorker(t.Context(), worker(1)); !errors.Is(err, sandbox.ErrMoved) {
		t.Fatal(err)
	}
	old, err := s.Worker(t.Context(), "wrk_1")
	must(t, err)
	w := old
	w.Standing = sandbox.Draining
	must(t, s.SaveWorker(t.Context(), w))
	must(t, s.RemoveWorker(t.Context(), old)) // has moved on, and stays
	w, err = s.Worker(t.Context(), "wrk_1")
	if must(t, err); w.Standing != sandbox.Draining {
		t.Fatalf("%+v", w)
	}
	must(t, s.RemoveWorker(t.Context(), w))
	must(t, s.RemoveWorker(t.Context(), w))
	if _, err := s.Worker(t.Context(), "wrk_1"); !errors.Is(err, history.ErrNotFound) {
		t.Fatal(err)
	}
}

func jobRoundTrip(t *testing.T, s JobStore) {
	must(t, s.CreateJob(t.Context(), job(1)))
	j := stored(t, s, 1)
	j.State, j.Fence, j.Attempts, j.Worker, j.Claim, j.Result, j.Reason = sandbox.Failed, 1<<40, 3, "wrk_1", "claim_1", history.RefOf([]byte("r")), sandbox.WorkerLost
	j.Until, j.LeasedAt, j.EndedAt = Now.Add(1), Now.Add(2), Now.Add(3)
	must(t, s.ReplaceJob(t.Context(), j))
	j.Version++
	if got := stored(t, s, 1); !reflect.DeepEqual(got, j) {
		t.Fatalf("%+v\nis not\n%+v", got, j)
	}
	of := job(2)
	of.Project, of.Kind = target.Project{}, sandbox.Entrypoint
	of.Plugin = sandbox.Plugin{WorkspaceKey: place.WorkspaceKey, InstanceID: "inst_1", ExecutionID: "exec_1"}
	must(t, s.CreateJob(t.Context(), of))
	of.Version = 1
	if got := stored(t, s, 2); !reflect.DeepEqual(got, of) {
		t.Fatalf("%+v\nis not\n%+v", got, of)
	}
	queue(t, s, sandbox.Search{Now: Now.Add(time.Hour), Tenant: of.Tenant(), Limit: 10}, 2)
	queue(t, s, sandbox.Search{Now: Now.Add(time.Hour), Tenant: place.WorkspaceKey, Limit: 10})
}

func jobKeys(t *testing.T, s JobStore) {
	keys := make([]ed25519.PrivateKey, 16)
	if wins := at16(t, nil, func(n int) (err error) { keys[n], err = s.JobKey(t.Context()); return err }); wins != 16 {
		t.Fatal("no key")
	}
	for _, k := range keys {
		if !k.Equal(keys[0]) || len(k) != ed25519.PrivateKeySize {
			t.Fatal("there are several keys")
		}
	}
}
