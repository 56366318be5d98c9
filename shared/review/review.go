// Package review is where people decide about what an AI proposed: they read a
// plan, or a costly Run that waits, and approve or reject it (U6).
//
// It is reached through a door of its own with a credential that no AI holds. It
// applies nothing and starts nothing: an approval is consent to exactly one plan or
// request, and the write that uses it up checks again all that makes it good. It
// knows no transport and no AWS.
package review

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/change"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/policy"
	"github.com/pxhost/pxhost/shared/run"
	"github.com/pxhost/pxhost/shared/target"
)

// DefaultApprovalLife is how long an approval can be used, unless what it approves
// expires before. It is longer than a plan lives by default; the bound is for plans
// of operators who let them live for weeks, and for Runs that wait.
const DefaultApprovalLife = 24 * time.Hour

// Plans reads and rejects what waits for a decision.
type Plans interface {
	// FindPlan returns the row of a planRef, or of the runRef of a Run that waits,
	// whatever its Project is, consistently read; or history.ErrNotFound.
	FindPlan(ctx context.Context, planRef string) (change.PlanRow, error)
	// RejectPlan stores the row as rejected if the stored one is open, or else
	// returns a *change.ConflictError. The same rejection again is no error.
	RejectPlan(ctx context.Context, row change.PlanRow) error
}

// Reviews are all that a reviewer does.
type Reviews struct {
	Objects   history.Objects
	Plans     Plans
	Policy    policy.Store
	Approvals policy.Approvals
	Now       func() time.Time
	Life      time.Duration // of an approval, at least a second; 0 is DefaultApprovalLife
}

func (r *Reviews) life() time.Duration {
	if r.Life == 0 {
		return DefaultApprovalLife
	}
	return r.Life
}

// A Subject tells plans from Runs that wait.
type Subject int

// The subjects.
const (
	Plan Subject = iota
	Run
)

// path is where the reference stands in a request.
func (s Subject) path() string {
	if s == Run {
		return "/runRef"
	}
	return "/planRef"
}

// digestPath is where the digest stands.
func (s Subject) digestPath() string {
	if s == Run {
		return "/requestDigest"
	}
	return "/planDigest"
}

// An Asked is what is asked of a reviewer: all of it, since an approval is of all.
type Asked struct {
	PlanRef       string `json:"planRef,omitzero"`
	PlanDigest    string `json:"planDigest,omitzero"`
	RunRef        string `json:"runRef,omitzero"` // the Run gets it when it is started
	RequestDigest string `json:"requestDigest,omitzero"`
	// State is open, expired, applied, superseded or rejected.
	State     string              `json:"state"`
	Scope     target.Scope        `json:"scope" schema:"bare"`
	Tool      string              `json:"tool"`
	Requester string              `json:"requester"`            // "iss|sub"
	Assistant *history.Assistant  `json:"assistant,omitzero"`   // as the client said of itself
	CreatedAt string              `json:"createdAt"`            // RFC 3339, UTC
	ExpiresAt string              `json:"expiresAt"`            //
	Target    canon.Raw           `json:"target"`               //
	Cost      int64               `json:"cost"`                 // Node evaluations plus sandbox seconds
	Approval  change.ApprovalNeed `json:"approval"`             // by the policy of now
	Separate  bool                `json:"separateApprover"`     // the requester may not approve
	Rejection *Rejected           `json:"rejection,omitzero"`   //
	Plan      *PlanText           `json:"plan,omitzero"`        //
	Run       *RunText            `json:"run,omitzero"`         //
	Approved  *Approved           `json:"ownApproval,omitzero"` // of who asks, while it can be used
	// Decides says that who asks has the right to approve here.
	Decides bool `json:"-"`
}

// A PlanText is what a plan would change.
type PlanText struct {
	ExpectedGeneration   int64       `json:"expectedGeneration"`
	Base                 change.Base `json:"base"`
	Commands             []canon.Raw `json:"commands"`
	TouchedSemanticPaths []string    `json:"touchedSemanticPaths"`
	Diff                 canon.Raw   `json:"diff"`
	Impact               canon.Raw   `json:"impact"`
}

// A RunText is what a Run would calculate.
type RunText struct {
	Kind          string               `json:"kind"`
	ConnectionKey string               `json:"connectionKey,omitzero"` // of the Report that the target is; it gives the inputs
	BatchRef      string               `json:"batchRef,omitzero"`      // of a case that is repeated; it gives the inputs
	CaseKey       string               `json:"caseKey,omitzero"`
	Inputs        map[string]canon.Raw `json:"inputs"`
	Reason        string               `json:"reason,omitzero"`
}

// An Approved is the consent that was given.
type Approved struct {
	ApprovalRef   string `json:"approvalRef"`
	PlanRef       string `json:"planRef,omitzero"`
	PlanDigest    string `json:"planDigest,omitzero"`
	RunRef        string `json:"runRef,omitzero"`
	RequestDigest string `json:"requestDigest,omitzero"`
	Requester     string `json:"requester"` // who alone can use it
	Approver      string `json:"approver"`
	ApprovedAt    string `json:"approvedAt"`
	ExpiresAt     string `json:"expiresAt"`
	Comment       string `json:"comment,omitzero"`
}

// A Rejected is a no.
type Rejected struct {
	PlanRef    string `json:"planRef,omitzero"`
	RunRef     string `json:"runRef,omitzero"`
	State      string `json:"state"`
	RejectedBy string `json:"rejectedBy"`
	RejectedAt string `json:"rejectedAt"`
	Comment    string `json:"comment,omitzero"`
}

// A Decision is about exactly one plan or request.
type Decision struct {
	Principal string // "iss|sub", of who decides
	Subject   Subject
	Ref       string // planRef or runRef
	Digest    string // of what was read: another one is refused
	Comment   string
}

// A matter is a row with what it says.
type matter struct {
	row     change.PlanRow
	project target.Project
	grant   policy.Grant // of who asks
	need    policy.Need
	asked   Asked
}

// find returns what a reference names, for a principal who may read there. A
// reference of nothing, of the other subject, or in a Project that the principal
// may not read is one that does not exist.
func (r *Reviews) find(ctx context.Context, principal string, subject Subject, ref string) (matter, outcome.Findings, error) {
	code := outcome.PlanNotFound
	if subject == Run {
		code = outcome.TargetNotFound
	}
	missing := outcome.Findings{outcome.New(code, subject.path(), nil)}
	row, err := r.Plans.FindPlan(ctx, ref)
	if errors.Is(err, history.ErrNotFound) {
		return matter{}, missing, nil
	}
	if err != nil {
		return matter{}, nil, err
	}
	m := matter{row: row}
	m.project.WorkspaceKey, m.project.ProjectKey, _ = strings.Cut(string(row.Space), "/")
	if (row.Tool == run.AskTool) != (subject == Run) {
		return matter{}, missing, nil
	}
	if m.grant, err = r.Policy.Grant(ctx, m.project, principal); err != nil {
		return matter{}, nil, err
	}
	if !m.grant.Allows(policy.Read) {
		return matter{}, missing, nil
	}
	rules, err := r.Policy.Policy(ctx, m.project)
	if err != nil {
		return matter{}, nil, err
	}
	m.asked = Asked{State: string(row.StateAt(r.Now())), Scope: m.project.Scope(), Tool: row.Tool, Requester: row.Principal, CreatedAt: stamp(row.CreatedAt), ExpiresAt: stamp(row.ExpiresAt)}
	if subject == Run {
		err = r.readRun(ctx, &m, rules)
	} else {
		err = r.readPlan(ctx, &m, rules)
	}
	if err != nil {
		return matter{}, nil, err
	}
	// Where the policy of now asks for nobody, an approval can still be given, and
	// by default not by who asked for it.
	m.asked.Decides = m.grant.Allows(policy.Approve)
	m.asked.Separate = !m.need.Required || m.need.Separate
	m.asked.Approval = change.ApprovalNeed{Required: m.need.Required, Reasons: append([]string{}, m.need.Reasons...)}
	if row.State == change.PlanRejected {
		rejected := m.rejected()
		m.asked.Rejection = &rejected
	}
	return m, nil, nil
}

func (r *Reviews) readPlan(ctx context.Context, m *matter, rules policy.Policy) error {
	body, err := change.ReadBody(ctx, r.Objects, m.row)
	if err != nil {
		return err
	}
	m.asked.PlanRef, m.asked.PlanDigest = m.row.PlanRef, m.row.Digest
	m.asked.Assistant, m.asked.Target, m.asked.Cost = body.Assistant, body.Target, body.Cost
	m.asked.Plan = &PlanText{body.ExpectedGeneration, body.Base, body.Commands, body.TouchedSemanticPaths, body.Diff, body.Impact}
	m.need = body.Judge(rules)
	return nil
}

func (r *Reviews) readRun(ctx context.Context, m *matter, rules policy.Policy) error {
	var ask run.Ask
	bodies, err := r.Objects.Get(ctx, m.row.Space, m.row.Body)
	if err == nil {
		err = json.Unmarshal(bodies[0], &ask)
	}
	if err != nil {
		return fmt.Errorf("review: a Run that waits: %w", err)
	}
	m.asked.RunRef, m.asked.RequestDigest = m.row.PlanRef, m.row.Digest
	m.asked.Assistant, m.asked.Target, m.asked.Cost = ask.Assistant, ask.Target, ask.Cost
	m.asked.Run = &RunText{ask.Kind, ask.ConnectionKey, ask.BatchRef, ask.CaseKey, ask.Inputs, ask.Reason}
	m.need = rules.Judge(policy.OnRun, []string{ask.Kind}, ask.Cost)
	return nil
}

// Read tells what is asked. It is for who may approve, and for who asked.
func (r *Reviews) Read(ctx context.Context, principal string, subject Subject, ref string) (Asked, outcome.Findings, error) {
	m, findings, err := r.find(ctx, principal, subject, ref)
	if findings != nil || err != nil {
		return Asked{}, findings, err
	}
	if !m.grant.Allows(policy.Approve) && m.row.Principal != principal {
		return Asked{}, lacks(subject, m.project), nil
	}
	own, _, err := r.own(ctx, m, principal)
	if err != nil {
		return Asked{}, nil, err
	}
	if own != nil {
		approved := m.approved(*own)
		m.asked.Approved = &approved
	}
	return m.asked, nil, nil
}

func lacks(subject Subject, project target.Project) outcome.Findings {
	return outcome.Findings{outcome.New(outcome.PermissionDenied, subject.path(), policy.Lacks(policy.Approve, project))}
}

// decide finds what a decision is about, if it may be made.
func (r *Reviews) decide(ctx context.Context, d Decision) (matter, outcome.Findings, error) {
	m, findings, err := r.find(ctx, d.Principal, d.Subject, d.Ref)
	switch {
	case findings != nil || err != nil:
		return matter{}, findings, err
	case !m.grant.Allows(policy.Approve):
		return matter{}, lacks(d.Subject, m.project), nil
	case d.Digest != m.row.Digest:
		return matter{}, outcome.Findings{outcome.New(outcome.PlanMismatch, d.Subject.digestPath(), nil)}, nil
	}
	return m, nil, nil
}

// over refuses what can no longer be decided.
func (m matter) over(subject Subject) outcome.Findings {
	return outcome.Findings{outcome.New(outcome.PlanExpired, subject.path(), outcome.Params{"state": m.asked.State, "expiresAt": m.asked.ExpiresAt})}
}

// Approve gives consent. The same principal, asked again, gives the same approval
// as long as it can be used; its reference follows from what it is of, so that a
// lost answer makes no second one.
func (r *Reviews) Approve(ctx context.Context, d Decision) (Approved, outcome.Findings, error) {
	m, findings, err := r.decide(ctx, d)
	if findings != nil || err != nil {
		return Approved{}, findings, err
	}
	if m.asked.Separate && d.Principal == m.row.Principal {
		return Approved{}, outcome.Findings{outcome.New(outcome.ApprovalInvalid, d.Subject.path(), outcome.Params{"reason": policy.SamePerson})}, nil
	}
	if m.asked.State != string(change.PlanOpen) {
		return Approved{}, m.over(d.Subject), nil
	}
	for range 4 {
		own, next, err := r.own(ctx, m, d.Principal)
		if err != nil {
			return Approved{}, nil, err
		}
		if own != nil {
			return m.approved(*own), nil, nil
		}
		now := r.Now().UTC().Truncate(time.Second) // whole seconds: what is told is what is stored
		expires := now.Add(r.life())
		if m.row.ExpiresAt.Before(expires) {
			expires = m.row.ExpiresAt
		}
		a := policy.Approval{
			ApprovalRef: next, Project: m.project, PlanRef: m.row.PlanRef, Digest: m.row.Digest, Requester: m.row.Principal,
			Approver: d.Principal, Comment: d.Comment, ApprovedAt: now, ExpiresAt: expires,
		}
		switch err := r.Approvals.CreateApproval(ctx, a); {
		case err == nil:
			return m.approved(a), nil, nil
		case !errors.Is(err, policy.ErrApprovalExists):
			return Approved{}, nil, err
		}
		// The same principal approves twice at once: the first counts.
	}
	return Approved{}, nil, errors.New("review: busy; approve again")
}

// own returns the approval that the principal gave and that can be used, or nil and
// the reference of the next.
//
// The time since the matter was made is cut into periods of an approval's life, and
// in each of them a principal gives one approval at most. So what can still be used
// was given in this period or in the one before, and two reads find it, however
// often approvals expire while a plan waits. An approval that was used needs no next
// one: what it was of is then open no more.
func (r *Reviews) own(ctx context.Context, m matter, principal string) (*policy.Approval, string, error) {
	period := int64(r.Now().UTC().Truncate(time.Second).Sub(m.row.CreatedAt.Truncate(time.Second)) / r.life())
	var next string
	for n := max(0, period-1); n <= max(0, period); n++ {
		next = canon.Ref("approval_", m.row.PlanRef, m.row.Digest, principal, r.life().String(), strconv.FormatInt(n, 10))
		a, err := r.Policy.Approval(ctx, m.project, next)
		switch {
		case errors.Is(err, history.ErrNotFound):
		case err != nil:
			return nil, "", err
		case a.UsedBy == "" && a.ExpiresAt.After(r.Now()):
			return &a, "", nil
		}
	}
	return nil, next, nil
}

// Reject says no. What was rejected can never be applied or started, an approval
// of another reviewer notwithstanding: the write that would use that finds the plan
// not open. The requester plans again.
func (r *Reviews) Reject(ctx context.Context, d Decision) (Rejected, outcome.Findings, error) {
	m, findings, err := r.decide(ctx, d)
	if findings != nil || err != nil {
		return Rejected{}, findings, err
	}
	if m.row.State == change.PlanRejected && m.row.RejectedBy == d.Principal {
		return m.rejected(), nil, nil
	}
	if m.asked.State != string(change.PlanOpen) {
		return Rejected{}, m.over(d.Subject), nil
	}
	m.row.State, m.row.RejectedBy, m.row.RejectedAt, m.row.Comment = change.PlanRejected, d.Principal, r.Now().UTC().Truncate(time.Second), d.Comment
	var conflict *change.ConflictError
	switch err := r.Plans.RejectPlan(ctx, m.row); {
	case errors.As(err, &conflict):
		// Applied, or rejected by another, since it was read.
		m, findings, err := r.find(ctx, d.Principal, d.Subject, d.Ref)
		if findings != nil || err != nil {
			return Rejected{}, findings, err
		}
		return Rejected{}, m.over(d.Subject), nil
	case err != nil:
		return Rejected{}, nil, err
	}
	return m.rejected(), nil, nil
}

func (m matter) approved(a policy.Approval) Approved {
	return Approved{
		ApprovalRef: a.ApprovalRef, PlanRef: m.asked.PlanRef, PlanDigest: m.asked.PlanDigest, RunRef: m.asked.RunRef, RequestDigest: m.asked.RequestDigest,
		Requester: a.Requester, Approver: a.Approver, ApprovedAt: stamp(a.ApprovedAt), ExpiresAt: stamp(a.ExpiresAt), Comment: a.Comment,
	}
}

func (m matter) rejected() Rejected {
	return Rejected{PlanRef: m.asked.PlanRef, RunRef: m.asked.RunRef, State: string(change.PlanRejected),
		RejectedBy: m.row.RejectedBy, RejectedAt: stamp(m.row.RejectedAt), Comment: m.row.Comment}
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
