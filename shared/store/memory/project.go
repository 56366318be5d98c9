package memory

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/policy"
	"github.com/pxhost/pxhost/shared/project"
	"github.com/pxhost/pxhost/shared/target"
)

var (
	_ policy.Store     = (*Store)(nil)
	_ policy.Approvals = (*Store)(nil)
	_ project.Store    = (*Store)(nil)
)

func spaceOf(p target.Project) history.Space { return history.Space(p.String()) }

// Grant implements policy.Store.
func (s *Store) Grant(ctx context.Context, p target.Project, principal string) (policy.Grant, error) {
	if err := ctx.Err(); err != nil {
		return policy.Grant{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.grants[rowKey{spaceOf(p), principal}]
	g.Rights = slices.Clone(g.Rights)
	return g, nil
}

// Grants returns the grants of one principal in several Projects, in their order.
func (s *Store) Grants(ctx context.Context, principal string, projects ...target.Project) ([]policy.Grant, error) {
	out := make([]policy.Grant, len(projects))
	for i, p := range projects {
		var err error
		if out[i], err = s.Grant(ctx, p, principal); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Policy implements policy.Store.
func (s *Store) Policy(ctx context.Context, p target.Project) (policy.Policy, error) {
	if err := ctx.Err(); err != nil {
		return policy.Policy{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.policies[spaceOf(p)]
	out.Rules = cloneRules(out.Rules)
	return out, nil
}

func cloneRules(rules []policy.Rule) []policy.Rule {
	rules = slices.Clone(rules)
	for i := range rules {
		rules[i].Kinds, rules[i].Paths = slices.Clone(rules[i].Kinds), slices.Clone(rules[i].Paths)
		if b := rules[i].SeparateApprover; b != nil {
			separate := *b
			rules[i].SeparateApprover = &separate
		}
	}
	return rules
}

// Approval implements policy.Store.
func (s *Store) Approval(ctx context.Context, p target.Project, approvalRef string) (policy.Approval, error) {
	if err := ctx.Err(); err != nil {
		return policy.Approval{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	a, ok := s.approvals[rowKey{spaceOf(p), approvalRef}]
	if !ok {
		return policy.Approval{}, fmt.Errorf("memory: approval: %w", history.ErrNotFound)
	}
	return a, nil
}

// CreateApproval implements policy.Approvals.
func (s *Store) CreateApproval(ctx context.Context, a policy.Approval) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if a.ApprovalRef == "" || a.UsedBy != "" {
		return errors.New("memory: a new approval has a ref and is not used")
	}
	a.ApprovedAt, a.ExpiresAt = exact(a.ApprovedAt), exact(a.ExpiresAt)
	s.mu.Lock()
	defer s.mu.Unlock()
	key := rowKey{spaceOf(a.Project), a.ApprovalRef}
	if old, ok := s.approvals[key]; ok {
		old.UsedBy = ""
		if old != a {
			return policy.ErrApprovalExists
		}
		return nil
	}
	s.approvals[key] = a
	return nil
}

// CreateProject implements project.Store.
func (s *Store) CreateProject(ctx context.Context, r project.Record) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r.Label, r.CreatedAt = maps.Clone(r.Label), exact(r.CreatedAt)
	if old, ok := s.projects[r.Project]; ok {
		if !maps.Equal(old.Label, r.Label) || old.Description != r.Description || old.CreatedAt != r.CreatedAt {
			return project.ErrExists
		}
		return nil
	}
	s.projects[r.Project] = r
	return nil
}

// Project implements project.Store.
func (s *Store) Project(ctx context.Context, p target.Project) (project.Record, error) {
	if err := ctx.Err(); err != nil {
		return project.Record{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.projects[p]
	if !ok {
		return project.Record{}, fmt.Errorf("memory: project: %w", history.ErrNotFound)
	}
	r.Label = maps.Clone(r.Label)
	return r, nil
}

// WriteGrant implements project.Store.
func (s *Store) WriteGrant(ctx context.Context, w project.GrantWrite) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.projects[w.Project]; !ok {
		return fmt.Errorf("memory: project: %w", history.ErrNotFound)
	}
	key := rowKey{spaceOf(w.Project), w.Principal}
	if s.grants[key].Version != w.Read || !at(s.heads[w.Directory], w.From) {
		return project.ErrMoved
	}
	s.grants[key] = policy.Grant{Rights: slices.Clone(w.Rights), Version: w.Read + 1}
	s.heads[w.Directory] = w.To
	return nil
}

// WritePolicy implements project.Store.
func (s *Store) WritePolicy(ctx context.Context, p target.Project, read int64, rules []policy.Rule) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.projects[p]; !ok {
		return fmt.Errorf("memory: project: %w", history.ErrNotFound)
	}
	if s.policies[spaceOf(p)].Version != read {
		return project.ErrMoved
	}
	s.policies[spaceOf(p)] = policy.Policy{Version: read + 1, Rules: cloneRules(rules)}
	return nil
}
