package planning

import (
	"context"

	"github.com/pxhost/pxhost/shared/function"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/quantity"
	"github.com/pxhost/pxhost/shared/snapshot"
	"github.com/pxhost/pxhost/shared/target"
)

// A Contract is what a Function takes and gives.
type Contract struct {
	FunctionRef  function.Ref             `json:"functionRef"`
	SourceDigest string                   `json:"sourceDigest"`
	Description  string                   `json:"description"`
	Inputs       map[string]quantity.Port `json:"inputs" schema:"each.bare"`
	Results      map[string]quantity.Port `json:"results" schema:"each.bare"`
	Capabilities []string                 `json:"capabilities"`
	Imports      []string                 `json:"imports"`
}

// ContractOf is the contract of a version.
func ContractOf(ref function.Ref, d function.Document) Contract {
	return Contract{ref, d.SourceDigest, d.Description, d.Inputs, d.Results, d.Capabilities, d.Imports}
}

// Validate tells whether a request could be planned. A scope alone is target enough of
// a new Function, whose key stands in the command or in the source. refused are findings
// about what the request names: that it is not there, not the newest, or not to be
// written. found are those about the draft and what it would move. The contract is nil
// where the source is not in order.
func (p *Planner) Validate(ctx context.Context, s snapshot.Snapshot, q Request) (contract *Contract, found, refused outcome.Findings, err error) {
	if q.Target == (target.FunctionChange{}) {
		q.Target.Scope = s.Project.Scope()
		switch c := q.Commands[0].(type) {
		case function.CreateFunction:
			if q.Target.FunctionKey, found, err = p.keyOf(ctx, c.Source); found.Refused() || err != nil {
				return nil, found, nil, err
			}
		case function.BranchProjectFunction:
			q.Target.FunctionKey = c.FunctionKey
		case function.CreateFunctionVersion:
			refused.Add(outcome.SchemaInvalid, "/target", outcome.Params{"rule": "required"})
			return nil, nil, refused, nil
		}
	} else if q.Target.Scope != s.Project.Scope() {
		refused.Add(outcome.SchemaInvalid, "/target/scope", outcome.Params{"rule": "same_scope"})
		return nil, nil, refused, nil
	}
	if refused = form(q); refused != nil {
		return nil, nil, refused, nil
	}
	m := &making{Planner: p, s: s, q: q, contracts: p.functions.In(s)}
	if refused, err = m.base(ctx); refused != nil || err != nil {
		return nil, nil, refused, err
	}
	if found, err = m.version(ctx); err != nil {
		return nil, nil, nil, err
	}
	if m.out.Ref.Digest != "" {
		c := ContractOf(m.out.Ref, m.out.Document)
		contract = &c
	}
	if found.Refused() {
		return contract, found, nil, nil
	}
	if found, err = m.move(ctx); err != nil {
		return nil, nil, nil, err
	}
	if !found.Refused() {
		found = m.notes
	}
	return contract, found, nil, nil
}
