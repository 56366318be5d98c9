package run

import (
	"context"
	"time"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/change"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/policy"
)

// AskTool is the Tool of the plan rows by which Runs wait for an approval.
const AskTool = "pxflow_run"

// DefaultAskLife is how long a Run that was asked for can be approved and started. The
// revision and the inputs are exact, so that nothing goes stale meanwhile; it is
// bounded so that nobody starts what was forgotten.
const DefaultAskLife = 7 * 24 * time.Hour

// An Ask is a Run that the Project's policy lets nobody start without an approval,
// as it was asked for: what a reviewer reads. The Run that is started by it gets the
// RunRef, which follows from command and request, and so is this very request.
type Ask struct {
	RunRef        string               `json:"runRef"`
	Kind          string               `json:"kind"`
	Principal     string               `json:"principal"` // who asked, "iss|sub"
	Assistant     *history.Assistant   `json:"assistant,omitzero"`
	Target        canon.Raw            `json:"target"`
	ConnectionKey string               `json:"connectionKey,omitzero"` // of a Report; then Inputs are what it gives
	BatchRef      string               `json:"batchRef,omitzero"`      // of a case that is repeated; its inputs are the Batch's
	CaseKey       string               `json:"caseKey,omitzero"`
	Inputs        map[string]canon.Raw `json:"inputs"`
	Reason        string               `json:"reason,omitzero"`
	Cost          int64                `json:"cost"`    // Node evaluations plus sandbox seconds
	Reasons       []string             `json:"reasons"` // of the policy
	RequestDigest string               `json:"requestDigest"`
	CreatedAt     string               `json:"createdAt"` // RFC 3339, UTC
	ExpiresAt     string               `json:"expiresAt"`
}

// consent returns the approval by which the request may be carried out, where the
// policy wants one. asked is the row of an earlier ask for this Run, or nil: the
// first request without an approval writes it, and nothing else.
func (r *Runs) consent(ctx context.Context, need policy.Need, q Request, run Prepared, runRef string, asked *change.PlanRow, now time.Time) (policy.Used, outcome.Findings, error) {
	if q.ApprovalRef == "" && !need.Required {
		return policy.Used{}, nil, nil
	}
	if asked != nil {
		if state := asked.StateAt(now); state != change.PlanOpen {
			return policy.Used{}, refuse(outcome.PlanExpired, "/commandId", outcome.Params{"runRef": runRef, "state": string(state), "expiresAt": stamp(asked.ExpiresAt)}), nil
		}
	}
	if q.ApprovalRef == "" {
		if asked == nil {
			if err := r.ask(ctx, need, q, run, runRef, now); err != nil {
				return policy.Used{}, nil, err
			}
		}
		return policy.Used{}, refuse(outcome.ApprovalRequired, "/approvalRef", outcome.Params{"runRef": runRef, "requestDigest": q.Digest, "reasons": need.Reasons}), nil
	}
	used, reason := policy.Used{}, policy.NotOfThis
	if asked != nil {
		var err error
		used, reason, err = policy.Use(ctx, r.Policy, q.ApprovalRef, need, policy.Asked{Project: q.Project, PlanRef: runRef, Digest: q.Digest, Requester: q.Principal, At: now})
		if err != nil {
			return policy.Used{}, nil, err
		}
	}
	if reason != "" {
		return policy.Used{}, refuse(outcome.ApprovalInvalid, "/approvalRef", outcome.Params{"reason": reason}), nil
	}
	return used, nil, nil
}

// ask stores what was asked for. Its object is durable before its row.
func (r *Runs) ask(ctx context.Context, need policy.Need, q Request, run Prepared, runRef string, now time.Time) error {
	now = now.Truncate(time.Second)
	life := r.AskLife
	if life == 0 {
		life = DefaultAskLife
	}
	expires := now.Add(life)
	text, err := canon.Encode(Ask{
		RunRef: runRef, Kind: q.Of.Kind, Principal: q.Principal, Assistant: q.Assistant, Target: q.Of.Target, ConnectionKey: q.Of.ConnectionKey, BatchRef: q.Of.BatchRef, CaseKey: q.Of.CaseKey, Inputs: run.Inputs, Reason: q.Reason,
		Cost: run.Outline.Cost, Reasons: need.Reasons, RequestDigest: q.Digest, CreatedAt: stamp(now), ExpiresAt: stamp(expires),
	})
	if err != nil {
		return err
	}
	space := history.Space(q.Project.String())
	if err := r.Objects.Put(ctx, space, text); err != nil {
		return err
	}
	err = r.Store.CreatePlan(ctx, change.PlanRow{
		PlanRef: runRef, Space: space, Tool: AskTool, Principal: q.Principal, Digest: q.Digest,
		Body: history.RefOf(text), CreatedAt: now, ExpiresAt: expires, State: change.PlanOpen,
		Asks: true, About: change.About(q.Of.Target),
	})
	if err == nil {
		return nil
	}
	// Of two that ask for one Run at once, one writes the row. Both asked the same.
	switch opening, again := r.Store.Begin(ctx, q.Project, q.Principal, "", runRef); {
	case again != nil:
		return again
	case opening.Plan != nil:
		return nil
	}
	return err
}
