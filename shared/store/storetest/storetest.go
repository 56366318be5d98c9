// Package storetest is the one suite that every store passes: what the contracts
// in history, change, policy and project say, as tests.
package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pxhost/pxhost/shared/change"
	"github.com/pxhost/pxhost/shared/cursor"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/policy"
	"github.com/pxhost/pxhost/shared/project"
	"github.com/pxhost/pxhost/shared/target"
)

// A Store is all that a store implements.
type Store interface {
	history.Objects
	history.Heads
	change.Store
	policy.Store
	policy.Approvals
	Reviewed
	project.Store
	cursor.Keys
	Grants(ctx context.Context, principal string, projects ...target.Project) ([]policy.Grant, error)
}

// Reviewed is what package review asks of plans.
type Reviewed interface {
	FindPlan(ctx context.Context, planRef string) (change.PlanRow, error)
	RejectPlan(ctx context.Context, row change.PlanRow) error
}

// Now is the time at which the suite happens; stores are opened with this clock.
var Now = time.Date(2026, 11, 30, 9, 0, 0, 123456789, time.UTC)

// Run runs the suite. open returns an empty store.
func Run(t *testing.T, open func(t *testing.T) Store) {
	for name, test := range map[string]func(*testing.T, Store){
		"objects come back as they were put":              objects,
		"objects of many batches and sizes":               manyObjects,
		"plans are created once":                          plans,
		"a plan that was rejected is never applied":       rejections,
		"an Opening is what its rows are":                 openings,
		"a commit does everything":                        commits,
		"a commit with a false condition does nothing":    conditions,
		"malformed commitments are refused":               malformed,
		"of 64 commits on one head one wins":              race,
		"of 64 commits of one command one wins":           retries,
		"approvals are created once":                      approvals,
		"Projects, grants and policies are conditional":   admin,
		"grants and directories change together":          grants,
		"the cursor key is made once":                     cursorKey,
		"a catalog built over the store is its own model": catalog,
	} {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
}

const space = history.Space("structural_team/bridge_package")

var (
	place     = target.Project{WorkspaceKey: "structural_team", ProjectKey: "bridge_package"}
	principal = "https://issuer.test|engineer"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func noise(seed uint64, n int) []byte {
	source := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)})
	out := make([]byte, n)
	source.Read(out)
	return out
}

func objects(t *testing.T, s Store) {
	ctx := t.Context()
	a, b := []byte(`{"a":1}`), bytes.Repeat([]byte("girder "), 2000)
	kept := bytes.Clone(a)
	must(t, s.Put(ctx, space, a, b, a))
	a[2] = 'x' // the store has its own copy
	refs := []history.Ref{history.RefOf(b), history.RefOf(kept), history.RefOf(b)}
	got, err := s.Get(ctx, space, refs...)
	must(t, err)
	for i, want := range [][]byte{b, kept, b} {
		if !bytes.Equal(got[i], want) {
			t.Errorf("object %d differs", i)
		}
	}
	must(t, s.Put(ctx, space, kept))
	must(t, s.Put(ctx, space))
	if got, err := s.Get(ctx, space); err != nil || len(got) != 0 {
		t.Errorf("getting nothing: %d, %v", len(got), err)
	}
	for name, ask := range map[string]func() error{
		"one of several missing": func() error { _, err := s.Get(ctx, space, refs[0], history.RefOf([]byte("no"))); return err },
		"another Space":          func() error { _, err := s.Get(ctx, "structural_team/other", refs[0]); return err },
		"a malformed ref":        func() error { _, err := s.Get(ctx, space, "sha256:xyz"); return err },
	} {
		if err := ask(); !errors.Is(err, history.ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func manyObjects(t *testing.T, s Store) {
	ctx := t.Context()
	var bodies [][]byte
	var refs []history.Ref
	for i := range 230 {
		bodies = append(bodies, fmt.Appendf(nil, `{"n":%d}`, i))
	}
	bodies = append(bodies,
		noise(1, 340<<10), noise(2, 420<<10), noise(3, 3<<20), // inline, and too large for an item
		bytes.Repeat([]byte(`{"moment":1164.9},`), 100_000)) // large, and small when compressed
	for _, b := range bodies {
		refs = append(refs, history.RefOf(b))
	}
	must(t, s.Put(ctx, space, bodies...))
	got, err := s.Get(ctx, space, refs...)
	must(t, err)
	for i := range bodies {
		if !bytes.Equal(got[i], bodies[i]) {
			t.Errorf("object %d of %d bytes differs", i, len(bodies[i]))
		}
	}
}

func planRow(ref string) change.PlanRow {
	return change.PlanRow{
		PlanRef: ref, Space: space, Tool: "pxflow_plan_change", Principal: principal, Digest: "sha256:plan" + ref,
		Body: history.RefOf([]byte(ref)), CreatedAt: Now, ExpiresAt: Now.Add(30 * time.Minute), State: change.PlanOpen,
		Asks: true, About: "flow/girder_check", Targets: 3,
	}
}

func plans(t *testing.T, s Store) {
	ctx := t.Context()
	row := planRow("plan_1")
	row.CreatedAt = row.CreatedAt.In(time.FixedZone("KST", 9*3600))
	if _, err := s.Plan(ctx, space, row.PlanRef); !errors.Is(err, history.ErrNotFound) {
		t.Errorf("before it is created: %v", err)
	}
	must(t, s.CreatePlan(ctx, row))
	must(t, s.CreatePlan(ctx, row))
	other := row
	other.Digest = "sha256:other"
	if err := s.CreatePlan(ctx, other); err == nil {
		t.Error("another plan under the same ref is accepted")
	}
	got, err := s.Plan(ctx, space, row.PlanRef)
	must(t, err)
	if got != planRow("plan_1") {
		t.Errorf("got %+v", got)
	}
	if _, err := s.Plan(ctx, "structural_team/other", row.PlanRef); !errors.Is(err, history.ErrNotFound) {
		t.Errorf("in another Space: %v", err)
	}
	if got, err := s.FindPlan(ctx, row.PlanRef); err != nil || got != planRow("plan_1") {
		t.Errorf("by its ref alone: %+v, %v", got, err)
	}
	if _, err := s.FindPlan(ctx, "plan_none"); !errors.Is(err, history.ErrNotFound) {
		t.Errorf("by a ref of none: %v", err)
	}
	moved := planRow("plan_1")
	moved.Space = "structural_team/other"
	if s.CreatePlan(ctx, moved) == nil {
		t.Error("a ref is taken twice, in two Spaces")
	}
	for name, bad := range map[string]change.PlanRow{"no ref": {Space: space, State: change.PlanOpen}, "applied already": func() change.PlanRow {
		row := planRow("plan_2")
		row.State = change.PlanApplied
		return row
	}()} {
		if s.CreatePlan(ctx, bad) == nil {
			t.Errorf("a plan with %s is accepted", name)
		}
	}
}

// covers: U6
func rejections(t *testing.T, s Store) {
	ctx := t.Context()
	setUp(t, s)
	c := commitment(t, s, 1)
	row, err := s.FindPlan(ctx, c.PlanRef)
	must(t, err)
	if s.RejectPlan(ctx, row) == nil {
		t.Error("a rejection by nobody is accepted")
	}
	row.State, row.RejectedBy, row.RejectedAt, row.Comment = change.PlanRejected, "https://issuer.test|reviewer", Now.In(time.FixedZone("KST", 9*3600)), "too slender"
	must(t, s.RejectPlan(ctx, row))
	must(t, s.RejectPlan(ctx, row)) // a lost reply
	row.RejectedAt = Now
	if got, err := s.FindPlan(ctx, c.PlanRef); err != nil || got != row {
		t.Errorf("got %+v, %v", got, err)
	}
	// What created it may be sent again, and revives nothing.
	must(t, s.CreatePlan(ctx, row.Created()))
	var conflict *change.ConflictError
	if err := s.Commit(ctx, c); !errors.As(err, &conflict) || *conflict != (change.ConflictError{Plan: true}) {
		t.Errorf("a rejected plan is applied: %v", err)
	}
	other := row
	other.RejectedBy = "https://issuer.test|other"
	if err := s.RejectPlan(ctx, other); !errors.As(err, &conflict) || *conflict != (change.ConflictError{Plan: true}) {
		t.Errorf("rejected twice: %v", err)
	}
	// A plan that was applied is not rejected any more, nor one that never was.
	c = commitment(t, s, 2)
	applied, err := s.FindPlan(ctx, c.PlanRef)
	must(t, err)
	must(t, s.Commit(ctx, c))
	for _, late := range []change.PlanRow{applied, planRow("plan_none")} {
		late.State, late.RejectedBy, late.RejectedAt = change.PlanRejected, row.RejectedBy, Now
		if err := s.RejectPlan(ctx, late); !errors.As(err, &conflict) || *conflict != (change.ConflictError{Plan: true}) {
			t.Errorf("%s: %v", late.PlanRef, err)
		}
	}
}

// openings compares an Opening with the rows read one by one: of a Project with
// nothing in it, and with everything, asked for together and apart.
func openings(t *testing.T, s Store) {
	ctx := t.Context()
	compare := func(when, principal, commandKey, planRef string) {
		t.Helper()
		var want change.Opening
		var err error
		want.Head, err = s.Head(ctx, space)
		must(t, err)
		want.Grant, err = s.Grant(ctx, place, principal)
		must(t, err)
		want.Policy, err = s.Policy(ctx, place)
		must(t, err)
		if row, err := s.Command(ctx, space, commandKey); err == nil && commandKey != "" {
			want.Command = &row
		}
		if row, err := s.Plan(ctx, space, planRef); err == nil && planRef != "" {
			want.Plan = &row
		}
		if got, err := s.Begin(ctx, place, principal, commandKey, planRef); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, %v, want %+v", when, got, err, want)
		}
	}
	compare("nothing there", principal, "command_1", "plan_1")
	setUp(t, s)
	must(t, s.Commit(ctx, commitment(t, s, 1)))
	compare("everything", principal, "command_1", "plan_1")
	compare("neither command nor plan", principal, "", "")
	compare("a command alone", principal, "command_1", "")
	compare("a plan alone", principal, "", "plan_1")
	compare("a command and a plan that are not there", principal, "command_2", "plan_2")
	compare("somebody else", "https://issuer.test|a#b", "command_1", "plan_1")
	if got, err := s.Begin(ctx, target.Project{WorkspaceKey: place.WorkspaceKey, ProjectKey: "other"}, principal, "command_1", "plan_1"); err != nil || !reflect.DeepEqual(got, change.Opening{}) {
		t.Errorf("another Project: got %+v, %v", got, err)
	}
}

// commitment returns a commitment of plan n, whose row it creates, on what is
// stored now. The n in everything keeps two of them apart.
func commitment(t *testing.T, s Store, n int) change.Commitment {
	t.Helper()
	ctx := t.Context()
	head, err := s.Head(ctx, space)
	must(t, err)
	grant, err := s.Grant(ctx, place, principal)
	must(t, err)
	rules, err := s.Policy(ctx, place)
	must(t, err)
	row := planRow(fmt.Sprintf("plan_%d", n))
	must(t, s.CreatePlan(ctx, row))
	return change.Commitment{
		Space: space, Read: head,
		Next:    history.Head{Commit: history.RefOf(fmt.Append(nil, "commit", n)), Root: history.RefOf(fmt.Append(nil, "root", n)), Version: head.Version + 1},
		Command: change.CommandRow{Key: fmt.Sprintf("command_%d", n), PlanRef: row.PlanRef, PlanDigest: row.Digest, Answer: history.RefOf(fmt.Append(nil, "answer", n))},
		PlanRef: row.PlanRef, Now: Now.Add(time.Minute), PolicyVersion: rules.Version, Principal: principal, GrantVersion: grant.Version,
	}
}

func approval(ref string) policy.Approval {
	return policy.Approval{
		ApprovalRef: ref, Project: place, PlanRef: "plan_1", Digest: "sha256:plan", Requester: principal,
		Approver: "https://issuer.test|reviewer", Comment: "as discussed", ApprovedAt: Now, ExpiresAt: Now.Add(time.Hour),
	}
}

// performed reports what of a commitment is stored.
func performed(t *testing.T, s Store, c change.Commitment) (head, command, plan, approved bool) {
	t.Helper()
	ctx := t.Context()
	h, err := s.Head(ctx, c.Space)
	must(t, err)
	row, err := s.Command(ctx, c.Space, c.Command.Key)
	if err != nil && !errors.Is(err, history.ErrNotFound) {
		t.Fatal(err)
	}
	p, err := s.Plan(ctx, c.Space, c.PlanRef)
	if err != nil && !errors.Is(err, history.ErrNotFound) {
		t.Fatal(err)
	}
	if c.ApprovalRef != "" {
		a, err := s.Approval(ctx, place, c.ApprovalRef)
		if err != nil && !errors.Is(err, history.ErrNotFound) {
			t.Fatal(err)
		}
		approved = a.UsedBy == c.Command.Key
	}
	return h == c.Next, row == c.Command, p.State == change.PlanApplied, approved
}

// setUp makes the Project with a policy and a grant.
func setUp(t *testing.T, s Store) *project.Projects {
	t.Helper()
	projects := project.New(s, nil, func() time.Time { return Now })
	must(t, projects.Create(t.Context(), place, target.Label{"en": "Bridges", "ko": "교량"}, "Girders"))
	must(t, projects.SetPolicy(t.Context(), place, []policy.Rule{{On: policy.OnFunction, Approval: "required"}}))
	must(t, projects.SetGrant(t.Context(), place, principal, []policy.Right{policy.Read, policy.Edit}))
	return projects
}

func commits(t *testing.T, s Store) {
	ctx := t.Context()
	// Without Project, policy and grant: version 0 is a condition too.
	bare := commitment(t, s, 1)
	must(t, s.Commit(ctx, bare))
	if head, command, plan, _ := performed(t, s, bare); !head || !command || !plan {
		t.Fatalf("without grant: head %v, command %v, plan %v", head, command, plan)
	}
	setUp(t, s)
	must(t, s.CreateApproval(ctx, approval("approval_1")))
	c := commitment(t, s, 2)
	c.ApprovalRef = "approval_1"
	c.Now = Now.Add(30*time.Minute - 1) // the last nanosecond before expiry
	must(t, s.Commit(ctx, c))
	if head, command, plan, approved := performed(t, s, c); !head || !command || !plan || !approved {
		t.Fatalf("head %v, command %v, plan %v, approval %v", head, command, plan, approved)
	}
}

// covers: P4, P5
func conditions(t *testing.T, s Store) {
	ctx := t.Context()
	projects := setUp(t, s)
	n := 100
	next := func() change.Commitment { n++; return commitment(t, s, n) }
	first := next()
	must(t, s.Commit(ctx, first))
	type row struct {
		name string
		make func() change.Commitment
		want change.ConflictError
	}
	withApproval := func(edit func(*policy.Approval)) change.Commitment {
		c := next()
		a := approval(fmt.Sprintf("approval_%d", n))
		edit(&a)
		must(t, s.CreateApproval(ctx, a))
		c.ApprovalRef = a.ApprovalRef
		return c
	}
	for _, r := range []row{
		{"the head was read before another commit", func() change.Commitment {
			c := next()
			must(t, s.Commit(ctx, next()))
			return c
		}, change.ConflictError{Head: true}},
		{"the head has the version but another commit", func() change.Commitment {
			c := next()
			c.Read.Commit = history.RefOf([]byte("forged"))
			return c
		}, change.ConflictError{Head: true}},
		{"the head was read as absent", func() change.Commitment {
			c := next()
			c.Read, c.Next.Version = history.Head{}, 1
			return c
		}, change.ConflictError{Head: true}},
		{"the command exists with the same plan", func() change.Commitment {
			c := next()
			c.Command.Key = first.Command.Key
			return c
		}, change.ConflictError{Command: true}},
		{"the plan does not exist", func() change.Commitment {
			c := next()
			c.PlanRef, c.Command.PlanRef = "plan_none", "plan_none"
			return c
		}, change.ConflictError{Plan: true}},
		{"the plan is applied", func() change.Commitment {
			c := next()
			c.PlanRef, c.Command.PlanRef = first.PlanRef, first.PlanRef
			return c
		}, change.ConflictError{Plan: true}},
		{"the plan expires this very nanosecond", func() change.Commitment {
			c := next()
			c.Now = Now.Add(30 * time.Minute)
			return c
		}, change.ConflictError{Plan: true}},
		{"the policy has changed", func() change.Commitment {
			c := next()
			must(t, projects.SetPolicy(ctx, place, nil))
			return c
		}, change.ConflictError{Policy: true}},
		{"a policy was read as absent", func() change.Commitment {
			c := next()
			c.PolicyVersion = 0
			return c
		}, change.ConflictError{Policy: true}},
		{"the right was revoked", func() change.Commitment {
			c := next()
			must(t, projects.SetGrant(ctx, place, principal, nil))
			return c
		}, change.ConflictError{Grant: true}},
		{"the grant is another principal's", func() change.Commitment {
			c := next()
			c.Principal = "https://issuer.test|other"
			return c
		}, change.ConflictError{Grant: true}},
		{"the approver's grant has another version", func() change.Commitment {
			c := withApproval(func(*policy.Approval) {})
			c.Approver, c.ApproverVersion = "https://issuer.test|reviewer", 7
			return c
		}, change.ConflictError{Grant: true}},
		{"the approver had a grant and has none", func() change.Commitment {
			c := withApproval(func(*policy.Approval) {})
			c.Approver, c.ApproverVersion = "https://issuer.test|nobody", 1
			return c
		}, change.ConflictError{Grant: true}},
		{"the plan is of another Space", func() change.Commitment {
			c := next()
			row := planRow("plan_elsewhere")
			row.Space = "structural_team/other"
			must(t, s.CreatePlan(ctx, row))
			c.PlanRef, c.Command.PlanRef = row.PlanRef, row.PlanRef
			return c
		}, change.ConflictError{Plan: true}},
		{"the approval does not exist", func() change.Commitment {
			c := next()
			c.ApprovalRef = "approval_none"
			return c
		}, change.ConflictError{Approval: true}},
		{"the approval expires this very nanosecond", func() change.Commitment {
			return withApproval(func(a *policy.Approval) { a.ExpiresAt = Now.Add(time.Minute) })
		}, change.ConflictError{Approval: true}},
		{"the approval was used", func() change.Commitment {
			c := withApproval(func(*policy.Approval) {})
			must(t, s.Commit(ctx, c))
			again := next()
			again.ApprovalRef = c.ApprovalRef
			return again
		}, change.ConflictError{Approval: true}},
		{"everything is false at once", func() change.Commitment {
			c := withApproval(func(a *policy.Approval) { a.ExpiresAt = Now })
			c.Read.Version, c.Next.Version = c.Read.Version-1, c.Read.Version
			c.Command.Key = first.Command.Key
			c.Now = Now.Add(time.Hour)
			c.PolicyVersion, c.GrantVersion = 77, 77
			return c
		}, change.ConflictError{Head: true, Command: true, Plan: true, Policy: true, Grant: true, Approval: true}},
	} {
		c := r.make()
		before := look(t, s, c)
		err := s.Commit(ctx, c)
		var conflict *change.ConflictError
		if !errors.As(err, &conflict) || *conflict != r.want {
			t.Errorf("%s: %v", r.name, err)
		}
		if after := look(t, s, c); after != before {
			t.Errorf("%s: something was written: %s, before %s", r.name, after, before)
		}
	}
	must(t, s.Commit(ctx, next()))
}

// look is everything that a commitment could change, as text.
func look(t *testing.T, s Store, c change.Commitment) string {
	t.Helper()
	ctx := t.Context()
	head, err1 := s.Head(ctx, c.Space)
	command, err2 := s.Command(ctx, c.Space, c.Command.Key)
	plan, err3 := s.Plan(ctx, c.Space, c.PlanRef)
	grant, err4 := s.Grant(ctx, place, c.Principal)
	rules, err5 := s.Policy(ctx, place)
	used, err6 := s.Approval(ctx, place, c.ApprovalRef)
	for _, err := range []error{err1, err2, err3, err4, err5, err6} {
		if err != nil && !errors.Is(err, history.ErrNotFound) {
			t.Fatal(err)
		}
	}
	return fmt.Sprint(head, command, plan, grant, rules.Version, len(rules.Rules), used)
}

func malformed(t *testing.T, s Store) {
	for name, spoil := range map[string]func(*change.Commitment){
		"a version that skips one": func(c *change.Commitment) { c.Next.Version++ },
		"no next commit":           func(c *change.Commitment) { c.Next.Commit = "" },
		"another plan's command":   func(c *change.Commitment) { c.Command.PlanRef = "plan_other" },
		"no answer":                func(c *change.Commitment) { c.Command.Answer = "" },
		"no principal":             func(c *change.Commitment) { c.Principal = "" },
	} {
		c := commitment(t, s, len(name))
		spoil(&c)
		var conflict *change.ConflictError
		if err := s.Commit(t.Context(), c); err == nil || errors.As(err, &conflict) || errors.Is(err, history.ErrOutcomeUnknown) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if head, err := s.Head(t.Context(), space); err != nil || head != (history.Head{}) {
		t.Errorf("head %+v, %v", head, err)
	}
}

const crowd = 64

// together runs f in crowd goroutines and returns the errors.
func together(f func(i int) error) []error {
	errs := make([]error, crowd)
	var ready, done sync.WaitGroup
	ready.Add(1)
	for i := range crowd {
		done.Go(func() {
			ready.Wait()
			errs[i] = f(i)
		})
	}
	ready.Done()
	done.Wait()
	return errs
}

// covers: P9
func race(t *testing.T, s Store) {
	setUp(t, s)
	all := make([]change.Commitment, crowd)
	for i := range all {
		all[i] = commitment(t, s, i)
	}
	winner := -1
	for i, err := range together(func(i int) error { return s.Commit(t.Context(), all[i]) }) {
		var conflict *change.ConflictError
		switch {
		case err == nil && winner < 0:
			winner = i
		case err == nil:
			t.Fatalf("both %d and %d won", winner, i)
		case !errors.As(err, &conflict) || *conflict != (change.ConflictError{Head: true}):
			t.Fatalf("a loser is told %v", err)
		}
	}
	if winner < 0 {
		t.Fatal("nobody won")
	}
	for i, c := range all {
		if head, command, plan, _ := performed(t, s, c); head != (i == winner) || command != (i == winner) || plan != (i == winner) {
			t.Fatalf("commit %d (winner %d): head %v, command %v, plan %v", i, winner, head, command, plan)
		}
	}
}

// covers: P9
func retries(t *testing.T, s Store) {
	c := commitment(t, s, 1)
	won := 0
	for _, err := range together(func(i int) error {
		mine := c
		mine.Command.Answer = history.RefOf(fmt.Append(nil, "answer of attempt", i)) // each would answer with another time
		mine.Next.Commit = history.RefOf(fmt.Append(nil, "commit of attempt", i))
		return s.Commit(t.Context(), mine)
	}) {
		var conflict *change.ConflictError
		switch {
		case err == nil:
			won++
		case !errors.As(err, &conflict) || *conflict != (change.ConflictError{Head: true, Command: true, Plan: true}):
			t.Fatalf("a loser is told %v", err)
		}
	}
	head, err := s.Head(t.Context(), space)
	if must(t, err); won != 1 || head.Version != 1 {
		t.Fatalf("%d won, head %+v", won, head)
	}
}

func approvals(t *testing.T, s Store) {
	ctx := t.Context()
	a := approval("approval_1")
	if _, err := s.Approval(ctx, place, a.ApprovalRef); !errors.Is(err, history.ErrNotFound) {
		t.Errorf("before it is created: %v", err)
	}
	must(t, s.CreateApproval(ctx, a))
	must(t, s.CreateApproval(ctx, a))
	other := a
	other.PlanRef = "plan_2"
	if err := s.CreateApproval(ctx, other); !errors.Is(err, policy.ErrApprovalExists) {
		t.Errorf("another approval under the same ref: %v", err)
	}
	if used := (policy.Approval{ApprovalRef: "approval_2", Project: place, UsedBy: "command"}); s.CreateApproval(ctx, used) == nil {
		t.Error("an approval that is used already is accepted")
	}
	if got, err := s.Approval(ctx, place, a.ApprovalRef); err != nil || got != a {
		t.Errorf("got %+v, %v", got, err)
	}
}

func admin(t *testing.T, s Store) {
	ctx := t.Context()
	record := project.Record{Project: place, Label: target.Label{"en": "Bridges", "ko": "교량"}, Description: "Girders", CreatedAt: Now}
	grant := project.GrantWrite{Project: place, Principal: principal, Rights: []policy.Right{policy.Read}, Directory: project.Directory(principal),
		To: history.Head{Commit: history.RefOf([]byte("grant")), Version: 1}}
	for name, err := range map[string]error{
		"reading the Project": func() error { _, err := s.Project(ctx, place); return err }(),
		"a grant":             s.WriteGrant(ctx, grant), "a policy": s.WritePolicy(ctx, place, 0, nil),
	} {
		if !errors.Is(err, history.ErrNotFound) {
			t.Errorf("%s before the Project is there: %v", name, err)
		}
	}
	must(t, s.CreateProject(ctx, record))
	must(t, s.CreateProject(ctx, record))
	other := record
	other.Description = "Decks"
	if err := s.CreateProject(ctx, other); !errors.Is(err, project.ErrExists) {
		t.Errorf("the same Project again: %v", err)
	}
	if got, err := s.Project(ctx, place); err != nil || got.Description != "Girders" || !maps.Equal(got.Label, record.Label) || got.CreatedAt != Now {
		t.Errorf("got %+v, %v", got, err)
	}
	if g, err := s.Grant(ctx, place, principal); err != nil || g.Version != 0 || len(g.Rights) != 0 {
		t.Errorf("no grant is %+v, %v", g, err)
	}
	must(t, s.WriteGrant(ctx, grant))
	later := grant
	later.Rights, later.Read = nil, 1
	if err := s.WriteGrant(ctx, later); !errors.Is(err, project.ErrMoved) {
		t.Errorf("a grant over a directory that moved: %v", err)
	}
	later.From, later.To = grant.To, history.Head{Commit: history.RefOf([]byte("next")), Version: 2}
	later.Read = 0
	if err := s.WriteGrant(ctx, later); !errors.Is(err, project.ErrMoved) {
		t.Errorf("a grant that was read as absent: %v", err)
	}
	if g, err := s.Grant(ctx, place, principal); err != nil || g.Version != 1 || !slices.Equal(g.Rights, grant.Rights) {
		t.Errorf("after what was refused: %+v, %v", g, err)
	}
	later.Read = 1
	must(t, s.WriteGrant(ctx, later))
	if g, err := s.Grant(ctx, place, principal); err != nil || g.Version != 2 || len(g.Rights) != 0 {
		t.Errorf("revoked: %+v, %v", g, err)
	}
	if head, err := s.Head(ctx, project.Directory(principal)); err != nil || head != later.To {
		t.Errorf("directory %+v, %v", head, err)
	}

	separate := false
	rules := []policy.Rule{{On: policy.OnBatch, Kinds: []string{"RunReportFlowBatch"}, MaxCost: 200, Approval: "required", SeparateApprover: &separate}}
	must(t, s.WritePolicy(ctx, place, 0, rules))
	rules[0].Kinds[0] = "changed by the caller"
	if err := s.WritePolicy(ctx, place, 0, nil); !errors.Is(err, project.ErrMoved) {
		t.Errorf("a policy that was read as absent: %v", err)
	}
	got, err := s.Policy(ctx, place)
	if must(t, err); got.Version != 1 || len(got.Rules) != 1 || got.Rules[0].Kinds[0] != "RunReportFlowBatch" || got.Rules[0].MaxCost != 200 || got.Rules[0].SeparateApprover == nil || *got.Rules[0].SeparateApprover {
		t.Errorf("got %+v", got)
	}
	must(t, s.WritePolicy(ctx, place, 1, nil))
	if got, err := s.Policy(ctx, place); err != nil || got.Version != 2 || len(got.Rules) != 0 {
		t.Errorf("got %+v, %v", got, err)
	}
}

// covers: S4
func grants(t *testing.T, s Store) {
	ctx := t.Context()
	projects := project.New(s, history.NewCache(1<<20), func() time.Time { return Now })
	var want []string
	for i := range 8 {
		p := target.Project{WorkspaceKey: fmt.Sprintf("team_%d", i%2), ProjectKey: fmt.Sprintf("bridge_%d", i)}
		must(t, projects.Create(ctx, p, target.Label{"en": p.ProjectKey}, ""))
		want = append(want, p.String())
	}
	slices.Sort(want)
	// All at once to one principal: each moves the same directory.
	var wait sync.WaitGroup
	errs := make([]error, 8)
	for i := range 8 {
		wait.Go(func() {
			p := target.Project{WorkspaceKey: fmt.Sprintf("team_%d", i%2), ProjectKey: fmt.Sprintf("bridge_%d", i)}
			errs[i] = projects.SetGrant(ctx, p, principal, []policy.Right{policy.Run, policy.Read})
		})
	}
	wait.Wait()
	must(t, errors.Join(errs...))
	list := func(root history.Ref, workspace, from string) (out []string) {
		for text, err := range projects.Texts(ctx, principal, root, workspace, from) {
			must(t, err)
			w, p, _ := strings.Cut(text.Key, "/")
			place := target.Project{WorkspaceKey: w, ProjectKey: p}
			l, err := projects.Listed(ctx, principal, root, place)
			must(t, err)
			if l[0].Project != place || l[0].Label["en"] != p {
				t.Errorf("%v is listed as %v", place, l)
			}
			out = append(out, text.Key)
		}
		return out
	}
	pinned, err := projects.Snapshot(ctx, principal)
	must(t, err)
	if got := list(pinned, "", ""); !slices.Equal(got, want) {
		t.Fatalf("listed %v", got)
	}
	if got := list(pinned, "team_1", "team_1/bridge_4"); !slices.Equal(got, []string{"team_1/bridge_5", "team_1/bridge_7"}) {
		t.Fatalf("page of a workspace: %v", got)
	}
	// Rights without read: no longer listed, except in the pinned snapshot.
	gone := target.Project{WorkspaceKey: "team_0", ProjectKey: "bridge_0"}
	must(t, projects.SetGrant(ctx, gone, principal, []policy.Right{policy.Run}))
	now, err := projects.Snapshot(ctx, principal)
	must(t, err)
	if got := list(now, "", ""); !slices.Equal(got, want[1:]) {
		t.Fatalf("after a revocation: %v", got)
	}
	if got := list(pinned, "", ""); !slices.Equal(got, want) {
		t.Fatalf("the pinned snapshot changed: %v", got)
	}
	// Of several Projects at once what each alone has, also of more than one read
	// takes, of none and of one that is not there.
	var many []target.Project
	for i := range 230 {
		p := target.Project{WorkspaceKey: fmt.Sprintf("team_%d", i%2), ProjectKey: fmt.Sprintf("bridge_%d", i)}
		many = append(many, p)
	}
	all, err := s.Grants(ctx, principal, many...)
	if must(t, err); len(all) != len(many) {
		t.Fatalf("%d grants of %d Projects", len(all), len(many))
	}
	for i, p := range many {
		one, err := s.Grant(ctx, p, principal)
		if must(t, err); one.Version != all[i].Version || !slices.Equal(one.Rights, all[i].Rights) || (one.Version == 0) != (i >= 8) {
			t.Errorf("%v: %+v among others, %+v alone", p, all[i], one)
		}
	}
	if none, err := s.Grants(ctx, principal); err != nil || len(none) != 0 {
		t.Errorf("of no Project: %v, %v", none, err)
	}
	if root, err := projects.Snapshot(ctx, "https://issuer.test|nobody"); err != nil || root != "" {
		t.Fatalf("a principal without grants: %s, %v", root, err)
	}
	for name, err := range map[string]error{
		"an unknown right":    projects.SetGrant(ctx, gone, principal, []policy.Right{"own"}),
		"a principal without": projects.SetGrant(ctx, gone, "engineer", nil),
		"a very long one":     projects.SetGrant(ctx, gone, "issuer|"+strings.Repeat("s", 900), nil),
		"no such Project":     projects.SetGrant(ctx, target.Project{WorkspaceKey: "a", ProjectKey: "b"}, principal, nil),
		"a bad key":           projects.Create(ctx, target.Project{WorkspaceKey: "A", ProjectKey: "b"}, nil, ""),
	} {
		if err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	page, next, err := history.Log(ctx, s, project.Directory(principal), func() history.Ref {
		head, err := s.Head(ctx, project.Directory(principal))
		must(t, err)
		return head.Commit
	}(), 100)
	if must(t, err); len(page) != 9 || next != "" || page[0].Commit.Version != 9 {
		t.Fatalf("%d grants in the log, next %q", len(page), next)
	}
}

func cursorKey(t *testing.T, s Store) {
	ctx := t.Context()
	first := [8]byte([]byte("00000001"))
	if _, err := s.Key(ctx, first); !errors.Is(err, cursor.ErrNoKey) {
		t.Errorf("before it is made: %v", err)
	}
	keys := make([]cursor.Key, crowd)
	must(t, errors.Join(together(func(i int) (err error) {
		keys[i], err = s.Current(ctx)
		return err
	})...))
	for _, key := range keys {
		if key != keys[0] || key.ID != first || key.Secret == ([32]byte{}) {
			t.Fatal("two keys were made, or none")
		}
	}
	if got, err := s.Key(ctx, first); err != nil || got != keys[0] {
		t.Errorf("looked up another key: %v", err)
	}
	for _, id := range []string{"00000002", "\x00\xff/#|\n\"\\"} {
		if _, err := s.Key(ctx, [8]byte([]byte(id))); !errors.Is(err, cursor.ErrNoKey) {
			t.Errorf("an ID that was never made: %v", err)
		}
	}
}

func catalog(t *testing.T, s Store) {
	ctx := t.Context()
	c := history.NewCatalog(s, history.NewCache(1<<20))
	var changes []history.Change
	for i := range 3000 {
		text := fmt.Sprintf("girder check %d", i)
		changes = append(changes, history.Change{Key: fmt.Sprintf("flow/girder_%04d", i), Text: &text, Entry: &history.Entry{
			RevisionRef: history.RefOf(fmt.Append(nil, i)), Label: map[string]string{"ko": "거더"}, Uses: []string{"function/resistance"}}})
	}
	root, err := c.Apply(ctx, space, "", changes)
	must(t, err)
	fresh := history.NewCatalog(s, nil)
	n := 0
	for l, err := range fresh.List(ctx, space, root, "", "") {
		must(t, err)
		if l.Key != changes[n].Key || l.Entry.RevisionRef != changes[n].Entry.RevisionRef {
			t.Fatalf("entry %d is %+v", n, l)
		}
		n++
	}
	users := 0
	for _, err := range fresh.Users(ctx, space, root, "function/resistance") {
		must(t, err)
		users++
	}
	if n != 3000 || users != 3000 {
		t.Fatalf("%d entries, %d users", n, users)
	}
}
