package run

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/change"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/policy"
	"github.com/pxhost/pxhost/shared/snapshot"
	"github.com/pxhost/pxhost/shared/target"
)

// DefaultPatience is how long a Run may stay Queued before the minute tick looks
// at it.
const DefaultPatience = time.Minute

// How long a Run may stand still before the minute tick looks at it, in times of
// Runs.Patience.
const (
	startWithin  = 1 // from Queued to claimed
	moveWithin   = 5 // from one stage to the next
	cancelWithin = 2 // from Cancelling to Cancelled
)

// Runs starts, reads and cancels Runs.
type Runs struct {
	Objects    history.Objects
	Catalog    history.Catalog
	Policy     policy.Store
	Store      Store
	Executions Executions
	// Batch is needed to carry out and rescue the child Runs of Batches.
	Batch *Batches
	// Open is needed to carry out stages alone, and Tokens with it.
	Open   Open
	Tokens Tokens
	Warm   *Warm // optional
	// Sandbox is needed to carry out, cancel and end Runs.
	Sandbox Sandbox
	Now     func() time.Time
	NewRef  func(prefix string) string
	// Patience is the unit of the time that a Run may stand still; 0 is
	// DefaultPatience. Impatience costs a look, and never a Run: what still moves
	// is left alone.
	Patience time.Duration
	AskLife  time.Duration // 0 is DefaultAskLife
}

// dueIn returns when the tick looks at a Run that did something at a time.
func (r *Runs) dueIn(at time.Time, patience time.Duration) time.Time {
	unit := r.Patience
	if unit == 0 {
		unit = DefaultPatience
	}
	return at.Add(patience * unit)
}

// A Request asks for a Run of one exact saved revision.
type Request struct {
	Principal   string // "iss|sub"
	Assistant   *history.Assistant
	Project     target.Project
	Of          Source
	CommandID   string
	Reason      string
	ApprovalRef string
	// Digest covers all of the request but its commandId and approvalRef: the same
	// command with another digest is refused.
	Digest string
}

// A Started is the first answer to a Request, and the answer to every retry.
type Started struct {
	RunRef string `json:"runRef"`
	State  State  `json:"state"`
	// ProjectionIntentGeneration is of a Run from a Report's connection: its slots
	// show this Run as long as no later generation is started.
	ProjectionIntentGeneration int64 `json:"projectionIntentGeneration,omitzero"`
}

// ErrBusy is returned when rights or policy kept changing under a start. Nothing
// was started; the same request can be sent again.
var ErrBusy = errors.New("run: busy; send the same request again")

// Start creates a Run, or answers as the first request of the same command did.
// The Run, its command and its projection generation are one transaction; starting
// the execution comes after it and may be lost: then the minute tick does it (R6, U1,
// U5).
//
// A Report's revision is held against the head as it is read, and not again in that
// transaction: the Run is of the exact revision in any case, and where the Report
// moved on, the slots say that they are Stale.
func (r *Runs) Start(ctx context.Context, q Request) (canon.Raw, outcome.Findings, error) {
	space := history.Space(q.Project.String())
	key := change.CommandKey("run", q.Principal, q.Project, q.Of.Address, q.CommandID)
	runRef := canon.Ref("run_", key, q.Digest)
	for range 8 {
		opening, err := r.Store.Begin(ctx, q.Project, q.Principal, key, runRef)
		switch row := opening.Command; {
		case err != nil:
			return nil, nil, err
		case row != nil && row.PlanDigest != q.Digest:
			return nil, refuse(outcome.CommandReused, "/commandId", nil), nil
		case row != nil:
			bodies, err := r.Objects.Get(ctx, space, row.Answer)
			if err != nil {
				return nil, nil, fmt.Errorf("run: the answer of a command: %w", err)
			}
			return bodies[0], nil, nil
		}
		answer, findings, err := r.create(ctx, space, key, runRef, q, opening)
		if findings != nil {
			// An approval that is used up may be so by this very command, sent
			// twice at once.
			switch now, err := r.Store.Begin(ctx, q.Project, q.Principal, key, ""); {
			case err != nil:
				return nil, nil, err
			case now.Command != nil:
				continue
			}
		}
		var conflict *change.ConflictError
		if !errors.As(err, &conflict) {
			return answer, findings, err
		}
		// The command exists by now, or a right or policy moved: read again.
	}
	return nil, nil, ErrBusy
}

func (r *Runs) create(ctx context.Context, space history.Space, key, runRef string, q Request, opening change.Opening) (canon.Raw, outcome.Findings, error) {
	grant, rules := opening.Grant, opening.Policy
	if !grant.Allows(policy.Read) {
		return nil, refuse(outcome.TargetNotFound, "/target/scope", nil), nil
	}
	reader := snapshot.Reader{Objects: r.Objects, Catalog: r.Catalog}
	s := reader.At(q.Project, opening.Head.Root)
	prepare, findings, err := q.Of.Open(ctx, s)
	if findings != nil || err != nil {
		return nil, findings, err
	}
	if !grant.Allows(policy.Run) {
		return nil, refuse(outcome.PermissionDenied, "/target/scope", policy.Lacks(policy.Run, q.Project)), nil
	}
	run, findings, err := prepare(ctx)
	if findings.Refused() || err != nil {
		return nil, findings, err
	}
	pinned, findings, err := pins(ctx, s, run.Outline, "/target")
	if findings != nil || err != nil {
		return nil, findings, err
	}
	now := r.Now().UTC()
	need := rules.Judge(policy.OnRun, []string{q.Of.Kind}, run.Outline.Cost)
	used, findings, err := r.consent(ctx, need, q, run, runRef, opening.Plan, now)
	if findings != nil || err != nil {
		return nil, findings, err
	}
	start := Start{
		Row: Row{
			RunRef: runRef, Project: q.Project, FlowKey: run.FlowKey, RevisionRef: run.RevisionRef, Principal: q.Principal,
			RequestDigest: q.Digest, Pins: pinned, Reason: q.Reason, State: Queued, Total: run.Outline.Nodes,
			Stages: run.Outline.Stages, Sandbox: run.Outline.Sandbox, CreatedAt: now, DueAt: r.dueIn(now, startWithin),
		},
		PolicyVersion: rules.Version, GrantVersion: grant.Version, Now: now,
		ApprovalRef: used.ApprovalRef, Approver: used.By(q.Principal), ApproverVersion: used.ApproverVersion,
	}
	started := Started{RunRef: runRef, State: Queued}
	payload, err := canon.Encode(run.Inputs)
	if err != nil {
		return nil, nil, err
	}
	start.Row.Inputs = history.RefOf(payload)
	bodies := [][]byte{payload}
	if q.Of.ConnectionKey != "" {
		slots, err := canon.Encode(append([]ShownSlot{}, run.Slots...))
		if err != nil {
			return nil, nil, err
		}
		shown, err := r.Store.Projections(ctx, q.Project, run.ReportKey)
		if err != nil {
			return nil, nil, err
		}
		bodies = append(bodies, slots)
		started.ProjectionIntentGeneration = shown[q.Of.ConnectionKey].Generation + 1
		start.Row.Projecting = Projecting{ReportKey: run.ReportKey, RevisionRef: run.ReportRevision, ConnectionKey: q.Of.ConnectionKey,
			Generation: started.ProjectionIntentGeneration, Slots: history.RefOf(slots)}
		start.Take = &Take{Connection: start.Row.Connection(), Generation: started.ProjectionIntentGeneration, Intent: Intent{IntentRun, runRef}}
	}
	answer, err := canon.Encode(started)
	if err != nil {
		return nil, nil, err
	}
	start.Command = change.CommandRow{Key: key, PlanRef: runRef, PlanDigest: q.Digest, Answer: history.RefOf(answer)}
	if err := r.Objects.Put(ctx, space, append(bodies, answer)...); err != nil {
		return nil, nil, err
	}
	err = r.Store.Create(ctx, start)
	if err != nil {
		return nil, nil, err
	}
	if err := r.Executions.Start(ctx, q.Project, started.RunRef); err != nil {
		// The Run exists and is due in a minute: the tick starts it. The caller's
		// answer is the same either way.
		slog.WarnContext(ctx, "the execution was not started; the tick will", "runRef", started.RunRef, "error", err)
	}
	return answer, nil, nil
}

// A Progress tells how far a Run is.
type Progress struct {
	Completed int `json:"completed"` // Nodes
	Total     int `json:"total"`     // Nodes
	Stage     int `json:"stage"`     // stages done
}

// A Report is what run_get answers.
type Report struct {
	RunRef   string   `json:"runRef"`
	State    State    `json:"state"`
	Progress Progress `json:"progress"`
	// Diagnostics say why the Run failed, or what had failed when it was cancelled.
	// They are as they were stored, each with the diagnosticId of the log line that was
	// written then.
	Diagnostics []outcome.Diagnostic `json:"diagnostics"`
	Results     []ResultSummary      `json:"results"`
	RanBy       []Ran                `json:"ranBy"`
	// Pins are what the Project's dependency lock had of what the Run names.
	Pins         Pins        `json:"pins,omitzero" schema:"bare"`
	Target       target.Flow `json:"target" schema:"bare"`
	InputsDigest string      `json:"inputsDigest"`
	StartedAt    string      `json:"startedAt,omitzero"` // RFC 3339, UTC
	EndedAt      string      `json:"endedAt,omitzero"`
}

// A ResultSummary tells of one named result without its value.
type ResultSummary struct {
	ResultKey string    `json:"resultKey"`
	Type      string    `json:"type"`
	Unit      string    `json:"unit,omitzero"`
	Shape     canon.Raw `json:"shape"`
	Bytes     int64     `json:"bytes"`
}

// A stored is a summary as the Run keeps it, with the object that holds the value.
type stored struct {
	ResultSummary
	Ref history.Ref `json:"ref"`
}

// find returns the row of a Run that the principal may read. What one may not
// read does not exist.
func (r *Runs) find(ctx context.Context, principal, runRef string) (Row, policy.Grant, outcome.Findings, error) {
	missing := func() outcome.Findings { return refuse(outcome.TargetNotFound, "/runRef", nil) }
	row, err := r.Store.Fetch(ctx, runRef)
	if errors.Is(err, history.ErrNotFound) {
		return Row{}, policy.Grant{}, missing(), nil
	}
	if err != nil {
		return Row{}, policy.Grant{}, nil, err
	}
	grant, err := r.Policy.Grant(ctx, row.Project, principal)
	if err != nil {
		return Row{}, policy.Grant{}, nil, err
	}
	if !grant.Allows(policy.Read) {
		return Row{}, policy.Grant{}, missing(), nil
	}
	return row, grant, nil, nil
}

// Get tells how a Run stands (U2).
func (r *Runs) Get(ctx context.Context, principal, runRef string) (Report, outcome.Findings, error) {
	row, _, findings, err := r.find(ctx, principal, runRef)
	if findings != nil || err != nil {
		return Report{}, findings, err
	}
	report := Report{
		RunRef: row.RunRef, State: row.State, Progress: Progress{row.Completed, row.Total, row.Stage},
		Diagnostics: []outcome.Diagnostic{}, Results: []ResultSummary{}, RanBy: row.RanBy, Pins: row.Pins,
		Target:       target.Flow{Scope: row.Project.Scope(), FlowKey: row.FlowKey, RevisionRef: row.RevisionRef},
		InputsDigest: string(row.Inputs), StartedAt: stamp(row.StartedAt), EndedAt: stamp(row.EndedAt),
	}
	if row.Diagnostics != "" {
		if err := r.read(ctx, row, row.Diagnostics, &report.Diagnostics); err != nil {
			return Report{}, nil, err
		}
	}
	if row.Results != "" {
		var results []stored
		if err := r.read(ctx, row, row.Results, &results); err != nil {
			return Report{}, nil, err
		}
		for _, s := range results {
			report.Results = append(report.Results, s.ResultSummary)
		}
	}
	return report, nil, nil
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

func (r *Runs) read(ctx context.Context, row Row, ref history.Ref, into any) error {
	bodies, err := r.Objects.Get(ctx, row.Space(), ref)
	if err != nil {
		return fmt.Errorf("run: %s: %w", row.RunRef, err)
	}
	return json.Unmarshal(bodies[0], into)
}

// A Result is one named result with its typed value.
type Result struct {
	ResultSummary
	Value canon.Raw // the typed value, as it was stored: immutable
	// Project and Object are where that is, for a link to it.
	Project target.Project
	Object  history.Ref
}

// Result returns a named result of a Run (U3). A Run that has no such result, or
// none yet, is a finding.
func (r *Runs) Result(ctx context.Context, principal, runRef, resultKey string) (Result, outcome.Findings, error) {
	row, _, findings, err := r.find(ctx, principal, runRef)
	if findings != nil || err != nil {
		return Result{}, findings, err
	}
	var results []stored
	if row.Results != "" {
		if err := r.read(ctx, row, row.Results, &results); err != nil {
			return Result{}, nil, err
		}
	}
	for _, s := range results {
		if s.ResultKey == resultKey {
			bodies, err := r.Objects.Get(ctx, row.Space(), s.Ref)
			if err != nil {
				return Result{}, nil, fmt.Errorf("run: %s: %w", row.RunRef, err)
			}
			return Result{ResultSummary: s.ResultSummary, Value: bodies[0], Project: row.Project, Object: s.Ref}, nil, nil
		}
	}
	return Result{}, refuse(outcome.TargetNotFound, "/resultKey", outcome.Params{"state": string(row.State)}), nil
}

// A Cancellation asks a Run to stop.
type Cancellation struct {
	Principal string
	RunRef    string
	CommandID string
	Reason    string
}

// Cancel asks an active Run to stop; a terminal one stays as it is (U2). The
// first cancellation is remembered with the Run; asking again, by whichever
// command, changes nothing and tells the state.
func (r *Runs) Cancel(ctx context.Context, q Cancellation) (Started, outcome.Findings, error) {
	for range 16 {
		row, grant, findings, err := r.find(ctx, q.Principal, q.RunRef)
		if findings != nil || err != nil {
			return Started{}, findings, err
		}
		if !grant.Allows(policy.Run) {
			return Started{}, refuse(outcome.PermissionDenied, "/runRef", policy.Lacks(policy.Run, row.Project)), nil
		}
		if row.State == Cancelling {
			r.abandon(ctx, row) // the first request may have died before it did
		}
		if row.State.Terminal() || row.State == Cancelling {
			return Started{RunRef: row.RunRef, State: row.State}, nil, nil
		}
		now := r.Now().UTC()
		row.State, row.DueAt = Cancelling, r.dueIn(now, cancelWithin)
		row.Cancelled = &CancelledBy{q.Principal, q.CommandID, q.Reason, now}
		if row.ExecutionArn == "" {
			// Nothing runs yet and perhaps nothing ever will: the next tick ends it
			// unless the execution comes first.
			row.DueAt = now
		}
		switch err := r.Store.Replace(ctx, row); {
		case err == nil:
			r.abandon(ctx, row)
			return Started{RunRef: row.RunRef, State: row.State}, nil, nil
		case !errors.Is(err, ErrMoved):
			return Started{}, nil, err
		}
	}
	return Started{}, nil, ErrBusy
}

func refuse(code outcome.Code, path string, params outcome.Params) outcome.Findings {
	return outcome.Findings{outcome.New(code, path, params)}
}
