package authored

import (
	"context"
	"fmt"

	"github.com/pxhost/pxhost/shared/budget"
	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/change"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/schema"
	"github.com/pxhost/pxhost/shared/semantic"
	"github.com/pxhost/pxhost/shared/snapshot"
	"github.com/pxhost/pxhost/shared/tool"
)

// atRebase is where a request names the plan that it goes on from.
const atRebase = "/rebaseFromPlanRef"

// An Earlier is the plan that a request goes on from (P8).
//
// Rebasing makes another plan and does nothing to this one. It is not marked: a
// mark could not be written in the one step that stores the new plan, and nothing
// is missing without it. A plan whose base is the head no longer can never be
// applied, whatever the document looks like later, since generations only grow.
// One whose base is still the head gives an equal plan when it is rebased, with an
// equal digest and a ref of its own; of the two one can be applied.
type Earlier[C any] struct {
	From     change.RebasedFrom
	Commands []C
	Changes  []change.Change // that it would have made; documents are unread
}

// FindEarlier returns the plan that a request names: of the same principal, tool
// and Project, or it is PX_PLAN_NOT_FOUND, and of the same target and tool
// contract, or it is PX_PLAN_MISMATCH.
func FindEarlier[C any, T Target](ctx context.Context, s snapshot.Snapshot, planner Planner, principal tool.Principal, name, planRef string, to T) (*Earlier[C], outcome.Findings, error) {
	body, from, found, err := planner.Earlier(ctx, s.Space, principal.String(), name, planRef)
	if err != nil {
		return nil, nil, err
	}
	if !found {
		return nil, outcome.Findings{outcome.New(outcome.PlanNotFound, atRebase, nil)}, nil
	}
	mismatch := func(params outcome.Params) (*Earlier[C], outcome.Findings, error) {
		return nil, outcome.Findings{outcome.New(outcome.PlanMismatch, atRebase, params)}, nil
	}
	var of T
	if schema.Decode(body.Target, &of).Refused() {
		return nil, nil, fmt.Errorf("authored: the target of a stored plan cannot be read")
	}
	if of.Address().Key != to.Address().Key {
		return mismatch(outcome.Params{"target": history.Key(of.Address().Kind, of.Address().Key)})
	}
	var stored struct {
		Commands []C `json:"commands"`
	}
	text, err := canon.Encode(map[string][]canon.Raw{"commands": body.Commands})
	if err != nil {
		return nil, nil, err
	}
	if body.ToolContractVersion != outcome.ContractVersion || schema.Decode(text, &stored).Refused() {
		return mismatch(outcome.Params{"rule": "tool_contract_version"})
	}
	return &Earlier[C]{from, stored.Commands, body.Changes}, nil, nil
}

// BaseOf reads the document from which the earlier plan was made. It is nil where
// that is the head, so that nothing can have changed. A first save has no base: an
// edit cannot go on from it.
func (e *Earlier[C]) BaseOf(ctx context.Context, s snapshot.Snapshot, head snapshot.Saved, kind, key string) ([]byte, outcome.Findings, error) {
	base := history.Ref(e.From.Base.RevisionRef)
	switch base {
	case "":
		return nil, outcome.Findings{outcome.New(outcome.PlanMismatch, atRebase, outcome.Params{"rule": "first_save"})}, nil
	case head.Ref:
		return nil, nil, nil
	}
	found, err := s.Find(ctx, snapshot.Address{Kind: kind, Key: key, Ref: base})
	if err != nil {
		return nil, nil, err
	}
	if found[0] == nil {
		return nil, nil, fmt.Errorf("authored: the base of a stored plan was never saved")
	}
	if err := s.Read(ctx, found...); err != nil {
		return nil, nil, err
	}
	return found[0].Document, nil, nil
}

// An omittedConflict is one whose values do not fit into the answer. They are read
// where the documents are described.
type omittedConflict struct {
	Path    string `json:"path"`
	Omitted bool   `json:"omitted"`
}

// Refusal tells conflicts in one PX_MERGE_CONFLICT, all that the limits of the
// answer have room for: values that do not fit are left out by omitted, and of
// conflicts that do not fit a second diagnostic tells how many there are. share is
// the request's byteShare.
func Refusal(conflicts []semantic.Conflict, limits budget.Limits, share int) (outcome.Findings, error) {
	if len(conflicts) == 0 {
		return nil, nil
	}
	room := min(limits.Bytes, 2*limits.Tokens) - around
	if share > 0 {
		room = min(room, share-around)
	}
	shown := []canon.Raw{}
	fits := func(v any) (bool, error) {
		text, err := canon.Encode(v)
		if err != nil {
			return false, err
		}
		cost := len(text) + 1
		for _, c := range text { // escaped, at most twice as long
			if c == '"' || c == '\\' {
				cost++
			}
		}
		if cost > room {
			return false, nil
		}
		room -= cost
		shown = append(shown, text)
		return true, nil
	}
	for _, c := range conflicts[:min(len(conflicts), limits.Items)] {
		ok, err := fits(c)
		if err == nil && !ok {
			ok, err = fits(omittedConflict{c.Path, true})
		}
		if err != nil {
			return nil, err
		}
		if !ok {
			break
		}
	}
	var refused outcome.Findings
	refused.Add(outcome.MergeConflict, atRebase, outcome.Params{"conflicts": shown})
	if len(shown) < len(conflicts) {
		refused.Add(outcome.LimitExceeded, atRebase, outcome.Params{"of": "conflicts", "limit": len(shown), "observed": len(conflicts)})
	}
	return refused, nil
}

// around is what an answer holds besides the conflicts, in bytes, at most.
const around = 2048
