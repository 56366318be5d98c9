package change_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"pgregory.net/rapid"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/change"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/policy"
	"github.com/pxhost/pxhost/shared/project"
	"github.com/pxhost/pxhost/shared/store/memory"
	"github.com/pxhost/pxhost/shared/target"
)

var bridge = target.Project{WorkspaceKey: "structural_team", ProjectKey: "bridge_package"}

const engineer = "https://issuer|engineer"

// world is a Project on the memory store with a clock that the test moves.
type world struct {
	t        testing.TB
	store    *memory.Store
	now      time.Time
	planner  change.Planner
	applier  change.Applier
	projects *project.Projects
	refs     int
}

func newWorld(t testing.TB) *world {
	w := &world{t: t, now: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)}
	clock := func() time.Time { return w.now }
	w.store = memory.New(clock)
	w.projects = project.New(w.store, nil, clock)
	must(t, w.projects.Create(t.Context(), bridge, nil, ""))
	w.grant(engineer, policy.Read, policy.Edit)
	w.planner = change.Planner{Objects: w.store, Store: w.store, Now: clock, NewRef: func(prefix string) string {
		w.refs++
		return fmt.Sprintf("%s%026d", prefix, w.refs)
	}}
	w.applier = change.Applier{Objects: w.store, Store: w.store, Policy: w.store, Now: clock,
		Catalog: history.NewCatalog(w.store, nil), Pause: func(ctx context.Context, _ int) error { return ctx.Err() }}
	return w
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func encode(t testing.TB, v any) canon.Raw {
	t.Helper()
	text, err := canon.Encode(v)
	must(t, err)
	return text
}

// draft is a plan that moves flow/key from base to a document with this text.
func (w *world) draft(key string, base *history.Revision, text string) change.Draft {
	document := encode(w.t, map[string]any{"key": key, "text": text})
	next := history.Entry{RevisionRef: history.RefOf(document)}
	d := change.Draft{Tool: "pxflow_plan_change", Project: bridge, Subject: policy.OnFlow, Kinds: []string{"SetText"},
		Commands: []canon.Raw{encode(w.t, text)}, Unlabelled: []canon.Raw{encode(w.t, text)},
		TouchedSemanticPaths: []string{"/text"}, Diff: canon.Raw("[]"), Impact: canon.Raw("{}")}
	revision := next.RevisionRef
	if base != nil {
		next.Generation, d.ExpectedGeneration = base.Generation+1, base.Generation
		revision, d.Base.RevisionRef = base.RevisionRef, string(base.RevisionRef)
	}
	d.Target = encode(w.t, target.Flow{Scope: bridge.Scope(), FlowKey: key, RevisionRef: string(revision)})
	d.Changes = []change.Change{{Kind: "flow", Key: key, Base: base, Entry: next, Text: text, Paths: []string{"/text"}, Document: document}}
	return d
}

func (w *world) plan(d change.Draft) change.Plan {
	w.t.Helper()
	var err error
	d.Policy, err = w.store.Policy(w.t.Context(), d.Project)
	must(w.t, err)
	p, findings, err := w.planner.Plan(w.t.Context(), change.Author{Principal: engineer, RequestDigest: "sha256:r"}, d)
	must(w.t, err)
	if findings != nil {
		w.t.Fatal(findings)
	}
	return p
}

func request(d change.Draft, p change.Plan, commandID string) change.Application {
	return change.Application{Author: change.Author{Principal: engineer}, Tool: d.Tool, Project: bridge, Target: d.Target,
		Address: d.Changes[0].CatalogKey(), ExpectedGeneration: d.ExpectedGeneration, PlanRef: p.PlanRef, PlanDigest: p.PlanDigest, CommandID: commandID}
}

func (w *world) apply(q change.Application) (string, outcome.Findings) {
	w.t.Helper()
	answer, findings, err := w.applier.Apply(w.t.Context(), q)
	must(w.t, err)
	return string(answer), findings
}

// saved applies a draft and returns the revision it made.
func (w *world) saved(d change.Draft, commandID string) history.Revision {
	w.t.Helper()
	answer, findings := w.apply(request(d, w.plan(d), commandID))
	if findings != nil {
		w.t.Fatal(findings)
	}
	var a change.Applied
	must(w.t, json.Unmarshal([]byte(answer), &a))
	return history.Revision{RevisionRef: history.Ref(a.NewRevisionRef), Generation: a.NewGeneration}
}

func (w *world) head() history.Head {
	head, err := w.store.Head(w.t.Context(), history.Space(bridge.String()))
	must(w.t, err)
	return head
}

// covers: P4, P5, P7
func TestApplyRefusesWhatIsNotExactlyThePlanAndWritesNothing(t *testing.T) {
	other := "https://issuer|other"
	cases := map[string]struct {
		before func(w *world, q *change.Application)
		code   outcome.Code
		path   string
	}{
		"an unknown plan":                {func(_ *world, q *change.Application) { q.PlanRef = "plan_x" }, outcome.PlanNotFound, "/planRef"},
		"a plan of another tool":         {func(_ *world, q *change.Application) { q.Tool = "report_plan_change" }, outcome.PlanNotFound, "/planRef"},
		"a tampered digest":              {func(_ *world, q *change.Application) { q.PlanDigest = "sha256:0" }, outcome.PlanMismatch, "/planDigest"},
		"another target":                 {func(w *world, q *change.Application) { q.Target = encode(w.t, "x") }, outcome.PlanMismatch, "/target"},
		"another generation":             {func(_ *world, q *change.Application) { q.ExpectedGeneration = 7 }, outcome.GenerationStale, "/expectedGeneration"},
		"a plan one second too old":      {func(w *world, _ *change.Application) { w.now = w.now.Add(30*time.Minute + time.Second) }, outcome.PlanExpired, "/planRef"},
		"a head that moved":              {func(w *world, _ *change.Application) { w.bump() }, outcome.GenerationStale, "/expectedGeneration"},
		"a right that was taken away":    {func(w *world, _ *change.Application) { w.grant(engineer, policy.Read) }, outcome.PermissionDenied, "/target/scope"},
		"a project that became unseen":   {func(w *world, _ *change.Application) { w.grant(engineer) }, outcome.TargetNotFound, "/target/scope"},
		"a policy that asks for consent": {func(w *world, _ *change.Application) { w.rule() }, outcome.ApprovalRequired, "/approvalRef"},
		"an approval of something else": {func(w *world, q *change.Application) {
			q.ApprovalRef = w.approve(policy.Approval{PlanRef: "plan_other", Digest: q.PlanDigest, Approver: other})
		}, outcome.ApprovalInvalid, "/approvalRef"},
		"an approval by the requester": {func(w *world, q *change.Application) {
			w.rule()
			q.ApprovalRef = w.approve(policy.Approval{PlanRef: q.PlanRef, Digest: q.PlanDigest, Approver: engineer})
		}, outcome.ApprovalInvalid, "/approvalRef"},
		"an expired approval": {func(w *world, q *change.Application) {
			q.ApprovalRef = w.approve(policy.Approval{PlanRef: q.PlanRef, Digest: q.PlanDigest, Approver: other, ExpiresAt: w.now})
		}, outcome.ApprovalInvalid, "/approvalRef"},
		"an approver without the right": {func(w *world, q *change.Application) {
			q.ApprovalRef = w.approve(policy.Approval{PlanRef: q.PlanRef, Digest: q.PlanDigest, Approver: other})
			w.grant(other, policy.Read)
		}, outcome.ApprovalInvalid, "/approvalRef"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			base := w.saved(w.draft("girder", nil, "one"), "c0")
			d := w.draft("girder", &base, "two")
			q := request(d, w.plan(d), "c1")
			c.before(w, &q)
			before := w.head()
			answer, findings := w.apply(q)
			if answer != "" || len(findings) != 1 || findings[0].Code != c.code || findings[0].Path != c.path {
				t.Fatalf("got %s %+v, want %s at %s", answer, findings, c.code, c.path)
			}
			if w.head() != before {
				t.Fatal("the head moved")
			}
		})
	}
}

// As many targets as a plan may have are one commit, unless the last of them moved on.
//
// covers: N5
func TestAPlanMovesFiveThousandTargetsOrNoneAndNoMore(t *testing.T) {
	w := newWorld(t)
	d := w.draft("flow_0000", nil, "one")
	for n := 1; n < change.MaxTargets; n++ {
		d.Changes = append(d.Changes, w.draft(fmt.Sprintf("flow_%04d", n), nil, "one").Changes[0])
	}
	p, meanwhile := w.plan(d), w.draft(d.Changes[change.MaxTargets-1].Key, nil, "meanwhile")
	large := d
	large.Changes = append(large.Changes, w.draft("flow_5000", nil, "one").Changes[0])
	if _, findings, err := w.planner.Plan(t.Context(), change.Author{Principal: engineer}, large); err != nil || len(findings) != 1 || findings[0].Code != outcome.LimitExceeded || findings[0].Params["observed"] != 5001 {
		t.Errorf("one more is planned as %+v, %v", findings, err)
	}
	before := w.head()
	if _, findings := w.apply(request(d, p, "all")); findings != nil {
		t.Fatal(findings)
	}
	if after := w.head(); after.Version != before.Version+1 {
		t.Errorf("%d commits", after.Version-before.Version)
	}
	key := meanwhile.Changes[0].CatalogKey()
	entry, err := w.applier.Catalog.Entry(t.Context(), history.Space(bridge.String()), w.head().Root, key)
	must(t, err)
	if entry == nil || entry.RevisionRef != d.Changes[change.MaxTargets-1].Entry.RevisionRef {
		t.Errorf("the last is at %+v", entry)
	}

	w = newWorld(t)
	p = w.plan(d)
	w.saved(meanwhile, "meanwhile")
	before = w.head()
	if _, findings := w.apply(request(d, p, "all")); len(findings) != 1 || findings[0].Params["target"] != key || w.head() != before {
		t.Errorf("where the last is there already: %+v", findings)
	}
}

func (w *world) bump() {
	head := w.head()
	entry, err := w.applier.Catalog.Entry(w.t.Context(), history.Space(bridge.String()), head.Root, "flow/girder")
	must(w.t, err)
	w.saved(w.draft("girder", &history.Revision{RevisionRef: entry.RevisionRef, Generation: entry.Generation}, "bumped"), "bump")
}

func (w *world) grant(principal string, rights ...policy.Right) {
	must(w.t, w.projects.SetGrant(w.t.Context(), bridge, principal, rights))
}

func (w *world) rule() {
	must(w.t, w.projects.SetPolicy(w.t.Context(), bridge, []policy.Rule{{On: policy.OnFlow, Approval: "required"}}))
}

func (w *world) approve(a policy.Approval) string {
	w.grant(a.Approver, policy.Read, policy.Edit, policy.Approve)
	a.ApprovalRef, a.Project, a.Requester, a.ApprovedAt = "approval_1", bridge, engineer, w.now
	if a.ExpiresAt.IsZero() {
		a.ExpiresAt = w.now.Add(time.Hour)
	}
	must(w.t, w.store.CreateApproval(w.t.Context(), a))
	return a.ApprovalRef
}

// covers: P4, P10
func TestAnApprovalIsUsedOnceAndStandsInTheProvenance(t *testing.T) {
	w := newWorld(t)
	w.rule()
	d := w.draft("girder", nil, "one")
	plan := w.plan(d)
	if !plan.Approval.Required || len(plan.Approval.Reasons) != 1 {
		t.Fatalf("the plan does not say that it needs consent: %+v", plan.Approval)
	}
	q := request(d, plan, "c1")
	q.ApprovalRef = w.approve(policy.Approval{PlanRef: plan.PlanRef, Digest: plan.PlanDigest, Approver: "https://issuer|reviewer"})
	answer, findings := w.apply(q)
	if findings != nil || !strings.Contains(answer, `"approvedBy":"https://issuer|reviewer"`) {
		t.Fatal(answer, findings)
	}
	stored, err := w.store.Approval(t.Context(), bridge, q.ApprovalRef)
	must(t, err)
	if stored.UsedBy == "" {
		t.Fatal("the approval was not used up")
	}
}

// covers: P6
func TestARetryGetsTheFirstAnswerWhateverHappenedMeanwhile(t *testing.T) {
	w := newWorld(t)
	d := w.draft("girder", nil, "one")
	q := request(d, w.plan(d), "c1")
	first, findings := w.apply(q)
	if findings != nil {
		t.Fatal(findings)
	}
	w.bump()
	w.grant(engineer)
	w.rule()
	w.now = w.now.Add(100 * 24 * time.Hour)
	if again, findings := w.apply(q); again != first || findings != nil {
		t.Fatalf("got %s %v, want %s", again, findings, first)
	}
	q.PlanDigest = "sha256:other"
	if _, findings := w.apply(q); len(findings) != 1 || findings[0].Code != outcome.CommandReused {
		t.Fatalf("another plan under the same commandId: %+v", findings)
	}
}

// covers: P9
func TestOldPlansNeverReviveWhenContentComesBack(t *testing.T) {
	w := newWorld(t)
	a := w.saved(w.draft("girder", nil, "A"), "c0")
	old := w.draft("girder", &a, "C")
	stale := request(old, w.plan(old), "late")
	b := w.saved(w.draft("girder", &a, "B"), "c1")
	again := w.saved(w.draft("girder", &b, "A"), "c2")
	if again.RevisionRef != a.RevisionRef || again.Generation != 2 {
		t.Fatalf("generation %d", again.Generation)
	}
	if _, findings := w.apply(stale); len(findings) != 1 || findings[0].Code != outcome.GenerationStale {
		t.Fatalf("got %+v", findings)
	}
}

// covers: F2
func TestTheFirstSaveOfAKeyIsTheOnlyOne(t *testing.T) {
	w := newWorld(t)
	one, two := w.draft("girder", nil, "one"), w.draft("girder", nil, "two")
	late := request(two, w.plan(two), "c2")
	if r := w.saved(one, "c1"); r.Generation != 0 || string(r.RevisionRef) == "" {
		t.Fatalf("got %+v", r)
	}
	if _, findings := w.apply(late); len(findings) != 1 || findings[0].Code != outcome.FlowHeadAlreadyExists {
		t.Fatalf("got %+v", findings)
	}
}

// Many plans of one generation, many retries of each: one is applied, and every
// retry of it has its bytes.
//
// covers: P9
func TestOfManyAppliesOnOneGenerationOneWins(t *testing.T) {
	w := newWorld(t)
	base := w.saved(w.draft("girder", nil, "base"), "c0")
	const plans, retries = 64, 4
	var mu sync.Mutex
	answers := map[int]map[string]bool{}
	var group sync.WaitGroup
	for i := range plans {
		d := w.draft("girder", &base, fmt.Sprint("text ", i))
		q := request(d, w.plan(d), fmt.Sprint("command ", i))
		for range retries {
			group.Go(func() {
				answer, findings, err := w.applier.Apply(t.Context(), q)
				if err != nil {
					t.Error(err)
					return
				}
				if findings != nil {
					if findings[0].Code != outcome.GenerationStale {
						t.Errorf("a loser is told %+v", findings)
					}
					return
				}
				mu.Lock()
				defer mu.Unlock()
				if answers[i] == nil {
					answers[i] = map[string]bool{}
				}
				answers[i][string(answer)] = true
			})
		}
	}
	group.Wait()
	if len(answers) != 1 {
		t.Fatalf("%d plans were applied", len(answers))
	}
	for _, distinct := range answers {
		if len(distinct) != 1 {
			t.Fatalf("%d different answers to one command", len(distinct))
		}
	}
	if v := w.head().Version; v != 2 {
		t.Fatalf("head version %d", v)
	}
}

// Plans of different targets only share the head: all of them are applied.
//
// covers: P9
func TestChangesOfOtherTargetsDoNotMakeAPlanStale(t *testing.T) {
	w := newWorld(t)
	requests := make([]change.Application, 8)
	for i := range requests {
		d := w.draft(fmt.Sprint("flow_", i), nil, "text")
		requests[i] = request(d, w.plan(d), "c")
	}
	var group sync.WaitGroup
	for _, q := range requests {
		group.Go(func() {
			if _, findings, err := w.applier.Apply(t.Context(), q); findings != nil || err != nil {
				t.Error(findings, err)
			}
		})
	}
	group.Wait()
	if v := w.head().Version; v != 8 {
		t.Fatalf("head version %d", v)
	}
}

// covers: P11
func TestEveryChangeIsACommitThatNamesItsParent(t *testing.T) {
	w := newWorld(t)
	a := w.saved(w.draft("girder", nil, "A"), "c0")
	b := w.saved(w.draft("girder", &a, "B"), "c1")
	commits, next, err := history.Log(t.Context(), w.store, history.Space(bridge.String()), w.head().Commit, 10)
	must(t, err)
	if len(commits) != 2 || next != "" || commits[0].Commit.Parent != commits[1].Ref || *commits[0].Commit.Changes[0].Result != b {
		t.Fatalf("got %+v", commits)
	}
}

// torn is a store in which something happens while an Opening is read: after its
// command was looked for, before its head was.
type torn struct {
	change.Store
	meanwhile func()
}

func (s *torn) Begin(ctx context.Context, project target.Project, principal, commandKey, planRef string) (change.Opening, error) {
	before, err := s.Store.Begin(ctx, project, principal, commandKey, planRef)
	if err != nil || s.meanwhile == nil {
		return before, err
	}
	s.meanwhile()
	s.meanwhile = nil
	after, err := s.Store.Begin(ctx, project, principal, commandKey, planRef)
	after.Command = before.Command
	return after, err
}

// Of two equal requests that are under way at once, the later sees a head that the
// earlier moved, and still answers what the earlier answered.
//
// covers: P6, P9
func TestACommandIsNeverStaleByItself(t *testing.T) {
	w := newWorld(t)
	a := w.saved(w.draft("girder", nil, "A"), "c0")
	d := w.draft("girder", &a, "B")
	q := request(d, w.plan(d), "c1")
	var first string
	w.applier.Store = &torn{w.store, func() {
		other := w.applier
		other.Store = w.store
		answer, findings, err := other.Apply(t.Context(), q)
		must(t, err)
		if findings != nil {
			t.Fatal(findings)
		}
		first = string(answer)
	}}
	if answer, findings := w.apply(q); findings != nil || answer != first {
		t.Errorf("got %s %v after %s", answer, findings, first)
	}
	// What another command did is another matter.
	d = w.draft("girder", &history.Revision{RevisionRef: d.Changes[0].Entry.RevisionRef, Generation: 1}, "C")
	q, late := request(d, w.plan(d), "c2"), request(d, w.plan(d), "c3")
	w.applier.Store = &torn{w.store, func() {
		other := w.applier
		other.Store = w.store
		_, _, err := other.Apply(t.Context(), q)
		must(t, err)
	}}
	if answer, findings := w.apply(late); len(findings) != 1 || findings[0].Code != outcome.GenerationStale {
		t.Errorf("got %s %v", answer, findings)
	}
}

// failing is a store whose writes fail before or after they happen.
type failing struct {
	change.Store
	before, after error
}

func (f *failing) Commit(ctx context.Context, c change.Commitment) error {
	if f.before != nil {
		return f.before
	}
	if err := f.Store.Commit(ctx, c); err != nil {
		return err
	}
	return f.after
}

// covers: P4, P6, P9
func TestAFailedCommitIsNeverABusinessAnswerAndARetryIsSafe(t *testing.T) {
	for name, c := range map[string]struct {
		before, after error
		version       int64
	}{
		"failed before it was written": {before: errors.New("no connection"), version: 0},
		"failed after it was written":  {after: history.ErrOutcomeUnknown, version: 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.applier.Store = &failing{w.store, c.before, c.after}
			d := w.draft("girder", nil, "one")
			q := request(d, w.plan(d), "c1")
			if answer, findings, err := w.applier.Apply(t.Context(), q); err == nil || answer != nil || findings != nil {
				t.Fatalf("got %s %v %v", answer, findings, err)
			}
			if w.head().Version != c.version {
				t.Fatalf("head version %d", w.head().Version)
			}
			w.applier.Store = w.store
			if answer, findings := w.apply(q); answer == "" || findings != nil {
				t.Fatal(findings)
			}
			if w.head().Version != 1 {
				t.Fatalf("applied %d times", w.head().Version)
			}
		})
	}
}

// overtaken has something happen before a commit.
type overtaken struct {
	change.Store
	by func()
}

func (o *overtaken) Commit(ctx context.Context, c change.Commitment) error {
	if by := o.by; by != nil {
		o.by = nil
		by()
	}
	return o.Store.Commit(ctx, c)
}

// What a check asks beside the revisions is asked again where it moves under an apply, and
// only then.
//
// covers: P5
func TestWhatACheckAsksBesideIsAskedAgainWhereItMoved(t *testing.T) {
	for name, c := range map[string]struct {
		moves  string
		checks int
		want   string
	}{
		"another target moves": {"other", 1, ""},
		"what was asked moves": {"beside", 2, "PX_DEPENDENCY_NOT_INSTALLED"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			d := w.draft("girder", nil, "one")
			q := request(d, w.plan(d), "c1")
			checks := 0
			applier := w.applier
			applier.Under = []string{"flow/beside"}
			applier.Recheck = func(ctx context.Context, p target.Project, root history.Ref, _ []change.Change) (found outcome.Findings, err error) {
				checks++
				entry, err := applier.Catalog.Entry(ctx, history.Space(p.String()), root, "flow/beside")
				if entry != nil {
					found.Add(outcome.DependencyNotInstalled, "/", nil)
				}
				return found, err
			}
			applier.Store = &overtaken{w.store, func() { w.saved(w.draft(c.moves, nil, "x"), "c2") }}
			_, findings, err := applier.Apply(t.Context(), q)
			got := ""
			if len(findings) > 0 {
				got = string(findings[0].Code)
			}
			if err != nil || got != c.want || checks != c.checks {
				t.Errorf("%q %v after %d checks", got, err, checks)
			}
		})
	}
}

// covers: P2, P3
func TestEqualPlansHaveEqualDigests(t *testing.T) {
	w := newWorld(t)
	base := w.saved(w.draft("girder", nil, "one"), "c0")
	rapid.Check(t, func(t *rapid.T) {
		d := w.draft("girder", &base, "two")
		d.TouchedSemanticPaths = rapid.SliceOfDistinct(rapid.StringMatching(`/[a-c]{1,2}`), rapid.ID).Draw(t, "paths")
		one, err := d.Digest()
		if err != nil {
			t.Fatal(err)
		}
		shuffled := d
		shuffled.TouchedSemanticPaths = rapid.Permutation(append([]string{}, d.TouchedSemanticPaths...)).Draw(t, "order")
		shuffled.Diff, shuffled.Impact = canon.Raw(`["other"]`), canon.Raw(`{"x":1}`)
		shuffled.Commands = []canon.Raw{canon.Raw(`"with a label"`)}
		if two, _ := shuffled.Digest(); two != one {
			t.Fatal("the digest depends on order or on what is outside it")
		}
		for name, alter := range map[string]func(*change.Draft){
			"target":     func(d *change.Draft) { d.Target = canon.Raw(`{"x":1}`) },
			"generation": func(d *change.Draft) { d.ExpectedGeneration++ },
			"base":       func(d *change.Draft) { d.Base.RevisionRef = "sha256:1" },
			"source":     func(d *change.Draft) { d.Base.SourceDigest = "sha256:1" },
			"commands":   func(d *change.Draft) { d.Unlabelled = []canon.Raw{canon.Raw(`1`)} },
			"paths":      func(d *change.Draft) { d.TouchedSemanticPaths = append([]string{"/zz"}, d.TouchedSemanticPaths...) },
		} {
			altered := d
			alter(&altered)
			if two, _ := altered.Digest(); two == one {
				t.Fatalf("the digest does not cover the %s", name)
			}
		}
	})
}

// covers: P1
func TestPlanningChangesNothingThatCanBeRead(t *testing.T) {
	w := newWorld(t)
	w.saved(w.draft("girder", nil, "one"), "c0")
	before := w.head()
	d := w.draft("other", nil, "x")
	plan := w.plan(d)
	if w.head() != before {
		t.Fatal("planning moved the head")
	}
	if plan.ExpiresAt != "2026-11-30T12:30:00Z" || !plan.Atomic || plan.Approval.Required {
		t.Fatalf("got %+v", plan)
	}
}
