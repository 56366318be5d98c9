package run

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/pxhost/pxhost/shared/batch"
	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/change"
	"github.com/pxhost/pxhost/shared/dependency"
	"github.com/pxhost/pxhost/shared/flow/outline"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/policy"
	"github.com/pxhost/pxhost/shared/quantity"
	"github.com/pxhost/pxhost/shared/snapshot"
	"github.com/pxhost/pxhost/shared/target"
)

// Batches starts, reads, repeats and cancels Batches, on what Runs has.
type Batches struct {
	Runs   *Runs
	Store  BatchStore
	Lines  Lines
	Rounds Rounds
	// Repeat is needed to start Batches alone.
	Repeat Repeat
}

// Repeat reads the saved Report that a plan is of and holds its command against
// the code and the Flow that are there now. Package repetition has the one that
// links Reports. Findings are told as Compile and report.Inputs tell them.
type Repeat func(ctx context.Context, project target.Project, root history.Ref, of target.Report, command canon.Raw) (Repetition, outcome.Findings, error)

// A Repetition is all that a Batch pins when it starts.
type Repetition struct {
	ConnectionKey string
	FlowTarget    target.Flow
	Given         map[string]canon.Raw // by the connection, by portKey
	Plan          batch.Plan
	Inputs        map[string]quantity.Port // of the Flow
	Slots         []ShownSlot              // that the connection feeds, with their bases and without results
}

// A MergeObject is what a Batch's merge needs of its Flow, stored with it.
type MergeObject struct {
	Merge  batch.Resolved           `json:"merge"`
	Inputs map[string]quantity.Port `json:"inputs"` // of the Flow, for what cases leave out
}

// BatchPrefix begins every batchRef.
const BatchPrefix = "batch_"

// planTool makes the plans that start Batches.
const planTool = "report_plan_change"

// A BatchRequest asks for the Batch of a plan.
type BatchRequest struct {
	Principal   string
	Target      target.Report
	Project     target.Project
	PlanRef     string
	PlanDigest  string
	CommandID   string
	ApprovalRef string
	Digest      string // of the request without its commandId
}

// A BatchStarted is the first answer to a BatchRequest or a retry, and the answer to
// every repetition.
type BatchStarted struct {
	BatchRef                   string `json:"batchRef"`
	RunRef                     string `json:"runRef,omitzero"` // of a retry: the new child
	State                      State  `json:"state"`
	ProjectionIntentGeneration int64  `json:"projectionIntentGeneration,omitzero"`
}

// runKeyOf is the key of a command that runs something of a Report.
func runKeyOf(principal string, project target.Project, reportKey, commandID string) string {
	return change.CommandKey("run", principal, project, history.Key("report", reportKey), commandID)
}

// again runs one command until it is done or refused: it answers as the first of
// the same command did, and otherwise tries to be the first.
func (b *Batches) again(ctx context.Context, project target.Project, principal, key, planRef string, same func(change.CommandRow) bool,
	create func(change.Opening) (canon.Raw, outcome.Findings, error)) (canon.Raw, outcome.Findings, error) {
	r := b.Runs
	for range 8 {
		opening, err := r.Store.Begin(ctx, project, principal, key, planRef)
		switch row := opening.Command; {
		case err != nil:
			return nil, nil, err
		case row != nil && !same(*row):
			return nil, refuse(outcome.CommandReused, "/commandId", nil), nil
		case row != nil:
			bodies, err := r.Objects.Get(ctx, history.Space(project.String()), row.Answer)
			if err != nil {
				return nil, nil, fmt.Errorf("run: the answer of a command: %w", err)
			}
			return bodies[0], nil, nil
		}
		answer, findings, err := create(opening)
		if findings != nil {
			// What refuses may be what this very command has done, sent twice at once.
			switch now, err := r.Store.Begin(ctx, project, principal, key, ""); {
			case err != nil:
				return nil, nil, err
			case now.Command != nil:
				continue
			}
		}
		var conflict *change.ConflictError
		if !errors.As(err, &conflict) && !errors.Is(err, ErrMoved) {
			return answer, findings, err
		}
	}
	return nil, nil, ErrBusy
}

// Start starts the Batch of a plan, once. The Batch, the end of its plan and its
// generation are one transaction, and with it every first child is registered; the
// cases are durable before it, the execution is started after it and may be lost:
// then the minute tick does it (R6, U5).
func (b *Batches) Start(ctx context.Context, q BatchRequest) (canon.Raw, outcome.Findings, error) {
	key := runKeyOf(q.Principal, q.Project, q.Target.ReportKey, q.CommandID)
	same := func(row change.CommandRow) bool { return row.PlanRef == q.PlanRef && row.PlanDigest == q.PlanDigest }
	return b.again(ctx, q.Project, q.Principal, key, q.PlanRef, same, func(opening change.Opening) (canon.Raw, outcome.Findings, error) {
		return b.start(ctx, key, q, opening)
	})
}

func (b *Batches) start(ctx context.Context, key string, q BatchRequest, opening change.Opening) (canon.Raw, outcome.Findings, error) {
	r, space := b.Runs, history.Space(q.Project.String())
	grant, rules := opening.Grant, opening.Policy
	if !grant.Allows(policy.Read) {
		return nil, refuse(outcome.TargetNotFound, "/target/scope", nil), nil
	}
	entries, err := r.Catalog.Entries(ctx, space, opening.Head.Root, history.Key("report", q.Target.ReportKey),
		change.RevisionKey("report", q.Target.ReportKey, history.Ref(q.Target.RevisionRef)))
	switch {
	case err != nil:
		return nil, nil, err
	case entries[0] == nil:
		return nil, refuse(outcome.TargetNotFound, "/target/reportKey", nil), nil
	case entries[1] == nil:
		return nil, refuse(outcome.TargetNotFound, "/target/revisionRef", nil), nil
	case opening.Plan == nil || opening.Plan.Principal != q.Principal || opening.Plan.Tool != planTool:
		// A plan of somebody else, or of another tool, does not exist for this caller.
		return nil, refuse(outcome.PlanNotFound, "/planRef", nil), nil
	}
	if !grant.Allows(policy.Run) {
		return nil, refuse(outcome.PermissionDenied, "/target/scope", policy.Lacks(policy.Run, q.Project)), nil
	}
	row := *opening.Plan
	body, err := change.ReadBody(ctx, r.Objects, row)
	if err != nil {
		return nil, nil, err
	}
	if findings, err := b.planned(q, row, body, entries[0]); findings != nil || err != nil {
		return nil, findings, err
	}
	now := r.Now().UTC()
	need := rules.Judge(policy.OnBatch, body.Kinds, body.Cost)
	asked := policy.Asked{Project: q.Project, PlanRef: row.PlanRef, Digest: row.Digest, Requester: q.Principal, At: now}
	used, findings, err := b.approved(ctx, need, asked, q.ApprovalRef)
	if findings != nil || err != nil {
		return nil, findings, err
	}
	repeated, findings, err := b.Repeat(ctx, q.Project, opening.Head.Root, q.Target, body.Commands[0])
	if findings.Refused() || err != nil {
		return nil, findings, err
	}
	bodies, err := r.Objects.Get(ctx, space, history.Ref(repeated.FlowTarget.RevisionRef))
	if err != nil {
		return nil, nil, fmt.Errorf("run: a saved revision: %w", err)
	}
	flow, err := outline.Read(bodies[0])
	if err != nil {
		return nil, nil, fmt.Errorf("run: flow %s: %w", repeated.FlowTarget.FlowKey, err)
	}
	pinned, findings, err := pins(ctx, b.at(q.Project, opening), flow, "/target")
	if findings != nil || err != nil {
		return nil, findings, err
	}
	projections, err := r.Store.Projections(ctx, q.Project, q.Target.ReportKey)
	if err != nil {
		return nil, nil, err
	}
	generation := projections[repeated.ConnectionKey].Generation + 1
	started := BatchStarted{BatchRef: r.NewRef(BatchPrefix), State: Queued, ProjectionIntentGeneration: generation}
	batchRow := BatchRow{
		BatchRef: started.BatchRef, Project: q.Project, FlowKey: repeated.FlowTarget.FlowKey, RevisionRef: repeated.FlowTarget.RevisionRef,
		Projecting: Projecting{ReportKey: q.Target.ReportKey, RevisionRef: q.Target.RevisionRef, ConnectionKey: repeated.ConnectionKey, Generation: generation},
		Principal:  q.Principal, RequestDigest: q.Digest, Pins: pinned, PlanRef: q.PlanRef, Count: len(repeated.Plan.Cases), Needs: append([]string{}, repeated.Plan.Merge.Needs()...), Stages: flow.Stages, Sandbox: flow.Sandbox, Nodes: flow.Nodes,
		State: Queued, Rounds: 1, CreatedAt: now, DueAt: r.dueIn(now, startWithin),
	}
	answer, err := b.stage(ctx, &batchRow, repeated, started)
	if err != nil {
		return nil, nil, err
	}
	err = b.Store.CreateBatch(ctx, StartBatch{
		Row: batchRow, Command: change.CommandRow{Key: key, PlanRef: q.PlanRef, PlanDigest: q.PlanDigest, Answer: history.RefOf(answer)},
		PolicyVersion: rules.Version, GrantVersion: grant.Version, Now: now,
		ApprovalRef: used.ApprovalRef, Approver: used.By(q.Principal), ApproverVersion: used.ApproverVersion,
		Take: Take{Connection: batchRow.Connection(), Generation: generation, Intent: Intent{IntentBatch, batchRow.BatchRef}},
	})
	if err != nil {
		return nil, nil, err
	}
	b.launch(ctx, batchRow, 0)
	return answer, nil, nil
}

// at is the Project as a request found it.
func (b *Batches) at(project target.Project, opening change.Opening) snapshot.Snapshot {
	return snapshot.Reader{Objects: b.Runs.Objects, Catalog: b.Runs.Catalog}.At(project, opening.Head.Root)
}

// planned holds the request against the plan, and both against the head of the
// Report: generation, revision, digest, expiry (decision 4).
func (b *Batches) planned(q BatchRequest, row change.PlanRow, body change.Body, head *history.Entry) (outcome.Findings, error) {
	if string(head.RevisionRef) != q.Target.RevisionRef {
		return refuse(outcome.GenerationStale, "/target/revisionRef", outcome.Params{"current": head.Generation, "currentRevisionRef": string(head.RevisionRef)}), nil
	}
	target, err := canon.Encode(q.Target)
	if err != nil {
		return nil, err
	}
	var findings outcome.Findings
	if string(target) != string(body.Target) {
		findings.Add(outcome.PlanMismatch, "/target", nil)
	}
	if q.PlanDigest != row.Digest {
		findings.Add(outcome.PlanMismatch, "/planDigest", nil)
	}
	switch {
	case body.ToolContractVersion != outcome.ContractVersion:
		findings.Add(outcome.PlanMismatch, "/planRef", nil)
	case body.Subject != policy.OnBatch || len(body.Commands) != 1:
		findings.Add(outcome.PlanMismatch, "/planRef", outcome.Params{"rule": "change_plan", "applyWith": "report_apply_change"})
	}
	if findings != nil {
		return findings, nil
	}
	if state := row.StateAt(b.Runs.Now()); state != change.PlanOpen {
		return refuse(outcome.PlanExpired, "/planRef", outcome.Params{"state": string(state), "expiresAt": body.ExpiresAt}), nil
	}
	return nil, nil
}

// approved returns the approval of the plan, where policy needs one.
func (b *Batches) approved(ctx context.Context, need policy.Need, asked policy.Asked, approvalRef string) (policy.Used, outcome.Findings, error) {
	if approvalRef == "" {
		if need.Required {
			return policy.Used{}, refuse(outcome.ApprovalRequired, "/approvalRef", outcome.Params{"planRef": asked.PlanRef, "reasons": need.Reasons}), nil
		}
		return policy.Used{}, nil, nil
	}
	used, reason, err := policy.Use(ctx, b.Runs.Policy, approvalRef, need, asked)
	if err != nil {
		return policy.Used{}, nil, err
	}
	if reason != "" {
		return policy.Used{}, refuse(outcome.ApprovalInvalid, "/approvalRef", outcome.Params{"reason": reason}), nil
	}
	return used, nil, nil
}

// stage makes everything durable that a new Batch names: its cases as JSON Lines
// for the state machine, and its keys, inputs, merge, slots and answer as objects.
func (b *Batches) stage(ctx context.Context, row *BatchRow, repeated Repetition, started BatchStarted) (answer []byte, err error) {
	keys := make([]string, len(repeated.Plan.Cases))
	orders := make([]Order, len(keys))
	for i, one := range repeated.Plan.Cases {
		keys[i] = one.CaseKey
		if orders[i], err = b.order(ctx, *row, one.CaseKey, i, 0, one.Inputs); err != nil {
			return nil, err
		}
	}
	if row.Lines, err = b.write(ctx, *row, orders); err != nil {
		return nil, err
	}
	row.Open = []OpenRound{{Round: 0, Lines: row.Lines, Count: len(orders)}}
	var bodies [][]byte
	for _, part := range []struct {
		into *history.Ref
		from any
	}{{&row.Keys, keys}, {&row.Given, repeated.Given}, {&row.Merge, MergeObject{repeated.Plan.Merge, repeated.Inputs}}, {&row.Projecting.Slots, repeated.Slots}} {
		text, err := canon.Encode(part.from)
		if err != nil {
			return nil, err
		}
		*part.into = history.RefOf(text)
		bodies = append(bodies, text)
	}
	if answer, err = canon.Encode(started); err != nil {
		return nil, err
	}
	return answer, b.Runs.Objects.Put(ctx, row.Space(), append(bodies, answer)...)
}

// launch starts the execution of a round, which the tick does otherwise.
func (b *Batches) launch(ctx context.Context, row BatchRow, round int) {
	if err := b.Rounds.Start(ctx, row.Project, row.BatchRef, round); err != nil {
		slog.WarnContext(ctx, "the execution of a batch was not started; the tick will", "batchRef", row.BatchRef, "round", round, "error", err)
	}
}

// An Order is one case of a round as its state machine reads it: a line. Inputs is
// JSON inside a string, so that no number passes through an expression of the state
// machine.
type Order struct {
	RunRef string    `json:"runRef"`
	Case   CaseOrder `json:"case"`
}

// A CaseOrder says which case a child Run is of, and what it sets.
type CaseOrder struct {
	BatchRef string `json:"batchRef"`
	CaseKey  string `json:"caseKey"`
	Index    int    `json:"index"`
	Attempt  int    `json:"attempt"`
	Inputs   string `json:"inputs"` // by portKey; "" where they are an object
	// InputsRef is the object of inputs that are too large for the state machine,
	// which carries at most 256 KB from state to state.
	InputsRef string `json:"inputsRef"`
}

// inlineInputs is how many bytes of inputs a line holds.
const inlineInputs = 64 << 10

func (b *Batches) order(ctx context.Context, row BatchRow, caseKey string, index, attempt int, inputs map[string]canon.Raw) (Order, error) {
	text, err := canon.Encode(inputs)
	if err != nil {
		return Order{}, err
	}
	o := Order{batch.ChildRunRef(row.BatchRef, caseKey, attempt), CaseOrder{BatchRef: row.BatchRef, CaseKey: caseKey, Index: index, Attempt: attempt}}
	if len(text) <= inlineInputs {
		o.Case.Inputs = string(text)
		return o, nil
	}
	o.Case.InputsRef = string(history.RefOf(text))
	return o, b.Runs.Objects.Put(ctx, row.Space(), text)
}

// LinesPrefix is where the cases of all Batches are kept.
const LinesPrefix = "batches/"

// linesName is content-addressed, so that of two retries at once neither writes over
// what the other runs. It has no part of a Project in the clear, as names of blobs
// have none.
func linesName(project target.Project, batchRef, digest string) string {
	sum := sha256.Sum256([]byte(project.String()))
	return fmt.Sprintf("%s%s/%s/%s.jsonl", LinesPrefix, hex.EncodeToString(sum[:]), batchRef, strings.TrimPrefix(digest, "sha256:"))
}

// write stores the lines of a round and returns their digest. What is written for a
// start or retry that then is refused is never read.
func (b *Batches) write(ctx context.Context, row BatchRow, orders []Order) (string, error) {
	var text bytes.Buffer
	for _, o := range orders {
		line, err := canon.Encode(o)
		if err != nil {
			return "", err
		}
		text.Write(line)
		text.WriteByte('\n')
	}
	digest := canon.Digest(text.Bytes())
	if err := b.Lines.Put(ctx, linesName(row.Project, row.BatchRef, digest), text.Bytes()); err != nil {
		return "", fmt.Errorf("run: the cases of a batch: %w", err)
	}
	return digest, nil
}

// read returns lines, which must be those that were written.
func (b *Batches) read(ctx context.Context, row BatchRow, digest string) ([]Order, error) {
	text, err := b.Lines.Get(ctx, linesName(row.Project, row.BatchRef, digest))
	if err != nil {
		return nil, fmt.Errorf("run: the cases of a batch: %w", err)
	}
	if canon.Digest(text) != digest {
		return nil, fmt.Errorf("run: the cases of %s: %w", row.BatchRef, history.ErrCorrupt)
	}
	var orders []Order
	for line := range bytes.Lines(text) {
		var o Order
		if err := json.Unmarshal(line, &o, json.RejectUnknownMembers(true)); err != nil {
			return nil, fmt.Errorf("run: the cases of %s: %w", row.BatchRef, err)
		}
		orders = append(orders, o)
	}
	return orders, nil
}

// find returns a Batch that the principal may read.
func (b *Batches) find(ctx context.Context, principal, batchRef string) (BatchRow, policy.Grant, outcome.Findings, error) {
	missing := func() outcome.Findings { return refuse(outcome.TargetNotFound, "/batchRef", nil) }
	row, err := b.Store.Batch(ctx, batchRef)
	if errors.Is(err, history.ErrNotFound) {
		return BatchRow{}, policy.Grant{}, missing(), nil
	}
	if err != nil {
		return BatchRow{}, policy.Grant{}, nil, err
	}
	grant, err := b.Runs.Policy.Grant(ctx, row.Project, principal)
	if err != nil {
		return BatchRow{}, policy.Grant{}, nil, err
	}
	if !grant.Allows(policy.Read) {
		return BatchRow{}, policy.Grant{}, missing(), nil
	}
	return row, grant, nil, nil
}

// A RetryRequest asks for another child Run of one case.
type RetryRequest struct {
	Principal   string
	Target      target.Report // as the Batch was started with
	Project     target.Project
	BatchRef    string
	CaseKey     string
	CommandID   string
	ApprovalRef string
	Digest      string
}

// Retry gives a case that ended another child Run, with the same inputs, in a new
// round of the Batch. Only that case's child is another one: the Batch keeps its
// generation, and shows its results if that is still the current one (R6). A Batch
// that Succeeded or Failed is under way again until the retry has ended; a cancelled
// one stays cancelled.
//
// A retry is one child Run that nobody planned, so that policy judges it as an
// ordinary Run, and one that needs an approval waits for it as such a Run does.
func (b *Batches) Retry(ctx context.Context, q RetryRequest) (canon.Raw, outcome.Findings, error) {
	key := runKeyOf(q.Principal, q.Project, q.Target.ReportKey, q.CommandID)
	same := func(row change.CommandRow) bool { return row.PlanRef == q.BatchRef && row.PlanDigest == q.Digest }
	return b.again(ctx, q.Project, q.Principal, key, "", same, func(opening change.Opening) (canon.Raw, outcome.Findings, error) {
		return b.retry(ctx, key, q, opening)
	})
}

func (b *Batches) retry(ctx context.Context, key string, q RetryRequest, opening change.Opening) (canon.Raw, outcome.Findings, error) {
	r, grant, rules := b.Runs, opening.Grant, opening.Policy
	if !grant.Allows(policy.Read) {
		return nil, refuse(outcome.TargetNotFound, "/target/scope", nil), nil
	}
	row, err := b.Store.Batch(ctx, q.BatchRef)
	if err != nil && !errors.Is(err, history.ErrNotFound) {
		return nil, nil, err
	}
	if err != nil || row.Project != q.Project || row.Projecting.ReportKey != q.Target.ReportKey {
		return nil, refuse(outcome.TargetNotFound, "/batchRef", nil), nil
	}
	if own := row.Projecting.RevisionRef; own != q.Target.RevisionRef {
		// The head may be another by now; the cases are of the revision that the
		// Batch was planned on.
		return nil, refuse(outcome.TargetNotFound, "/target/revisionRef", outcome.Params{"batchRef": q.BatchRef, "revisionRef": own}), nil
	}
	var keys []string
	if err := b.object(ctx, row, row.Keys, &keys); err != nil {
		return nil, nil, err
	}
	index := slices.Index(keys, q.CaseKey)
	if index < 0 {
		return nil, refuse(outcome.TargetNotFound, "/caseKey", outcome.Params{"batchRef": q.BatchRef}), nil
	}
	if !grant.Allows(policy.Run) {
		return nil, refuse(outcome.PermissionDenied, "/target/scope", policy.Lacks(policy.Run, q.Project)), nil
	}
	if len(row.Pins.Packages) > 0 { // a new child Run is begun
		lock, err := dependency.In(ctx, b.at(q.Project, opening))
		if err != nil {
			return nil, nil, err
		}
		if findings := lock.NotInstalled(q.Project, row.Pins.Packages, "/batchRef"); findings != nil {
			return nil, findings, nil
		}
	}
	now := r.Now().UTC()
	current, err := b.current(ctx, row, index)
	if err != nil {
		return nil, nil, err
	}
	active := func(state State, runRef string) (canon.Raw, outcome.Findings, error) {
		return nil, refuse(outcome.CaseActive, "/caseKey", outcome.Params{"batchRef": q.BatchRef, "batchState": string(row.State), "runRef": runRef, "state": string(state)}), nil
	}
	attempt := 1
	switch {
	case current == nil && !row.State.Terminal():
		return active(Running, batch.ChildRunRef(row.BatchRef, q.CaseKey, 0))
	case current != nil && !current.State.Terminal():
		return active(current.State, current.RunRef)
	case row.State == Cancelled:
		// Who cancelled it wanted none of it any more, and was told that it stays so.
		return nil, refuse(outcome.PlanExpired, "/batchRef", outcome.Params{"batchRef": q.BatchRef, "state": string(row.State)}), nil
	case row.State == Cancelling:
		return active(Cancelling, batch.ChildRunRef(row.BatchRef, q.CaseKey, 0))
	case current != nil:
		attempt = current.Attempt + 1
	}
	runRef := batch.ChildRunRef(row.BatchRef, q.CaseKey, attempt)
	used, findings, err := b.consent(ctx, q, row, runRef, rules, now)
	if findings != nil || err != nil {
		return nil, findings, err
	}
	first, err := b.read(ctx, row, row.Lines)
	if err != nil {
		return nil, nil, err
	}
	round := row.Rounds
	order := first[index]
	order.RunRef = runRef
	order.Case.Attempt = attempt
	digest, err := b.write(ctx, row, []Order{order})
	if err != nil {
		return nil, nil, err
	}
	answer, err := canon.Encode(BatchStarted{BatchRef: row.BatchRef, RunRef: order.RunRef, State: Queued, ProjectionIntentGeneration: row.Projecting.Generation})
	if err != nil {
		return nil, nil, err
	}
	if err := r.Objects.Put(ctx, row.Space(), answer); err != nil {
		return nil, nil, err
	}
	row.State, row.EndedAt, row.DueAt = Running, time.Time{}, r.dueIn(now, startWithin)
	row.Results, row.Diagnostics, row.Cancelled = "", "", nil
	row.Rounds, row.Open = round+1, append(slices.Clone(row.Open), OpenRound{Round: round, Lines: digest, Count: 1})
	retry := RetryCase{
		Reopen: true,
		Batch:  row, Was: current, Case: CaseRow{BatchRef: row.BatchRef, CaseKey: q.CaseKey, Index: index, Attempt: attempt, RunRef: order.RunRef, State: Queued},
		Command:   change.CommandRow{Key: key, PlanRef: row.BatchRef, PlanDigest: q.Digest, Answer: history.RefOf(answer)},
		Principal: q.Principal, PolicyVersion: rules.Version, GrantVersion: grant.Version, Now: now,
		ApprovalRef: used.ApprovalRef, Approver: used.By(q.Principal), ApproverVersion: used.ApproverVersion,
	}
	err = b.Store.RetryCase(ctx, retry)
	var late *SupersededError
	if errors.As(err, &late) { // a newer generation: this Batch is history, and is retried as that
		retry.Reopen = false
		err = b.Store.RetryCase(ctx, retry)
	}
	if err != nil {
		return nil, nil, err
	}
	b.launch(ctx, row, round)
	return answer, nil, nil
}

// consent asks of a retry what policy asks of an ordinary Run of its Flow.
func (b *Batches) consent(ctx context.Context, q RetryRequest, row BatchRow, runRef string, rules policy.Policy, now time.Time) (policy.Used, outcome.Findings, error) {
	cost := int64(row.Nodes)
	need := rules.Judge(policy.OnRun, []string{"RetryBatchCase"}, cost)
	if !need.Required && q.ApprovalRef == "" {
		return policy.Used{}, nil, nil
	}
	opening, err := b.Runs.Store.Begin(ctx, q.Project, q.Principal, "", runRef)
	if err != nil {
		return policy.Used{}, nil, err
	}
	of, err := OfFlow(target.Flow{Scope: q.Project.Scope(), FlowKey: row.FlowKey, RevisionRef: row.RevisionRef}, nil)
	if err != nil {
		return policy.Used{}, nil, err
	}
	of.Kind, of.BatchRef, of.CaseKey = "RetryBatchCase", q.BatchRef, q.CaseKey
	return b.Runs.consent(ctx, need, Request{Principal: q.Principal, Project: q.Project, Of: of,
		CommandID: q.CommandID, Reason: "retry of case " + q.CaseKey + " of " + q.BatchRef, ApprovalRef: q.ApprovalRef, Digest: q.Digest},
		Prepared{Outline: outline.Outline{Cost: cost}}, runRef, opening.Plan, now)
}

// current returns the row of a case, nil where its first attempt did not end.
func (b *Batches) current(ctx context.Context, row BatchRow, index int) (*CaseRow, error) {
	cases, err := b.Store.Cases(ctx, row.BatchRef, index, index+1)
	if err != nil || len(cases) == 0 {
		return nil, err
	}
	return &cases[0], nil
}

// object reads an object of the Batch's Project.
func (b *Batches) object(ctx context.Context, row BatchRow, ref history.Ref, into any) error {
	bodies, err := b.Runs.Objects.Get(ctx, row.Space(), ref)
	if err != nil {
		return fmt.Errorf("run: %s: %w", row.BatchRef, err)
	}
	return json.Unmarshal(bodies[0], into)
}

// Cancel asks an active Batch to stop; a terminal one stays as it is. Cases that
// did not begin end Cancelled, and those that run stop before their next stage.
func (b *Batches) Cancel(ctx context.Context, q Cancellation) (BatchStarted, outcome.Findings, error) {
	for range 16 {
		row, grant, findings, err := b.find(ctx, q.Principal, q.RunRef)
		if findings != nil || err != nil {
			return BatchStarted{}, findings, err
		}
		if !grant.Allows(policy.Run) {
			return BatchStarted{}, refuse(outcome.PermissionDenied, "/batchRef", policy.Lacks(policy.Run, row.Project)), nil
		}
		if row.State == Cancelling {
			b.halt(ctx, row) // the first request may have died before it did
		}
		if row.State.Terminal() || row.State == Cancelling {
			return BatchStarted{BatchRef: row.BatchRef, State: row.State}, nil, nil
		}
		now := b.Runs.Now().UTC()
		row.State, row.DueAt = Cancelling, b.Runs.dueIn(now, cancelWithin)
		row.Cancelled = &CancelledBy{q.Principal, q.CommandID, q.Reason, now}
		if !row.Claimed {
			row.DueAt = now // nothing runs yet and perhaps nothing ever will
		}
		switch err := b.Store.ReplaceBatch(ctx, row, nil); {
		case err == nil:
			b.halt(ctx, row)
			return BatchStarted{BatchRef: row.BatchRef, State: row.State}, nil, nil
		case !errors.Is(err, ErrMoved):
			return BatchStarted{}, nil, err
		}
	}
	return BatchStarted{}, nil, ErrBusy
}
