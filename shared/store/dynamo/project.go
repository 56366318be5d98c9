package dynamo

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/go-json-experiment/json"

	"github.com/pxhost/pxhost/shared/canon"
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
	r, err := s.get(ctx, "read grant", s.tables.Heads, key(spaceOf(p), "grant#"+principal))
	if r == nil {
		return policy.Grant{}, err
	}
	return readGrant(r)
}

// Grants returns the grants of one principal in several Projects, in their order,
// consistently read: one request for each hundred.
func (s *Store) Grants(ctx context.Context, principal string, projects ...target.Project) ([]policy.Grant, error) {
	out := make([]policy.Grant, len(projects))
	at := make(map[string]int, len(projects))
	for first := 0; first < len(projects); first += readBatch {
		some := projects[first:min(first+readBatch, len(projects))]
		keys := make([]attributes, len(some))
		for i, p := range some {
			at[string(spaceOf(p))] = first + i
			keys[i] = key(spaceOf(p), "grant#"+principal)
		}
		found, err := s.batchGet(ctx, "read grants", map[string]types.KeysAndAttributes{s.tables.Heads: {Keys: keys, ConsistentRead: aws.Bool(true)}})
		if err != nil {
			return nil, err
		}
		for _, item := range found[s.tables.Heads] {
			r := &row{item: item}
			grant, err := readGrant(r)
			i, known := at[r.str("pk")]
			if err != nil || !known {
				return nil, errors.Join(err, r.err, errors.New("dynamo: read grants: a grant cannot be read"))
			}
			out[i] = grant
		}
	}
	return out, nil
}

func readGrant(r *row) (policy.Grant, error) {
	out := policy.Grant{Version: r.num("version")}
	list, ok := r.item["rights"].(*types.AttributeValueMemberL)
	if !ok {
		r.fail("rights")
		return policy.Grant{}, r.err
	}
	for _, v := range list.Value {
		right, ok := v.(*types.AttributeValueMemberS)
		if !ok {
			r.fail("rights")
			return policy.Grant{}, r.err
		}
		out.Rights = append(out.Rights, policy.Right(right.Value))
	}
	return out, r.err
}

// Policy implements policy.Store.
func (s *Store) Policy(ctx context.Context, p target.Project) (policy.Policy, error) {
	r, err := s.get(ctx, "read policy", s.tables.Heads, key(spaceOf(p), "policy"))
	if r == nil {
		return policy.Policy{}, err
	}
	return readPolicy(r)
}

func readPolicy(r *row) (policy.Policy, error) {
	out := policy.Policy{Version: r.num("version")}
	rules := r.str("rules")
	if r.err != nil {
		return policy.Policy{}, r.err
	}
	if err := json.Unmarshal([]byte(rules), &out.Rules, json.RejectUnknownMembers(true)); err != nil {
		return policy.Policy{}, errors.New("dynamo: stored policy cannot be read")
	}
	return out, nil
}

// Approval implements policy.Store.
func (s *Store) Approval(ctx context.Context, p target.Project, approvalRef string) (policy.Approval, error) {
	r, err := s.get(ctx, "read approval", s.tables.Changes, key(spaceOf(p), "approval#"+approvalRef))
	if err != nil {
		return policy.Approval{}, err
	}
	if r == nil {
		return policy.Approval{}, fmt.Errorf("dynamo: approval: %w", history.ErrNotFound)
	}
	out := policy.Approval{
		ApprovalRef: approvalRef, Project: p, PlanRef: r.optional("planRef"), Digest: r.optional("digest"),
		Requester: r.optional("requester"), Approver: r.optional("approver"), Comment: r.optional("comment"),
		ApprovedAt: r.time("approvedAt"), ExpiresAt: r.time("expiresAt"), UsedBy: r.optional("usedBy"),
	}
	return out, r.err
}

// CreateApproval implements policy.Approvals.
func (s *Store) CreateApproval(ctx context.Context, a policy.Approval) error {
	if a.ApprovalRef == "" || a.UsedBy != "" {
		return errors.New("dynamo: a new approval has a ref and is not used")
	}
	a.ApprovedAt, a.ExpiresAt = exact(a.ApprovedAt), exact(a.ExpiresAt)
	item := key(spaceOf(a.Project), "approval#"+a.ApprovalRef)
	set(item, "planRef", a.PlanRef)
	set(item, "digest", a.Digest)
	set(item, "requester", a.Requester)
	set(item, "approver", a.Approver)
	set(item, "comment", a.Comment)
	setTime(item, "approvedAt", a.ApprovedAt)
	setTime(item, "expiresAt", a.ExpiresAt)
	err := s.create(ctx, "create approval", s.tables.Changes, item)
	if !errors.Is(err, errCondition) {
		return err
	}
	old, err := s.Approval(ctx, a.Project, a.ApprovalRef)
	if err != nil {
		return err
	}
	old.UsedBy = ""
	if old != a {
		return policy.ErrApprovalExists
	}
	return nil
}

// CreateProject implements project.Store.
func (s *Store) CreateProject(ctx context.Context, r project.Record) error {
	r.CreatedAt = exact(r.CreatedAt)
	label, err := canon.Encode(r.Label)
	if err != nil {
		return err
	}
	item := key(spaceOf(r.Project), "project")
	item["label"] = str(string(label))
	set(item, "description", r.Description)
	setTime(item, "createdAt", r.CreatedAt)
	err = s.create(ctx, "create project", s.tables.Heads, item)
	if !errors.Is(err, errCondition) {
		return err
	}
	old, err := s.Project(ctx, r.Project)
	if err != nil {
		return err
	}
	if !maps.Equal(old.Label, r.Label) || old.Description != r.Description || !old.CreatedAt.Equal(r.CreatedAt) {
		return project.ErrExists
	}
	return nil
}

// Project implements project.Store.
func (s *Store) Project(ctx context.Context, p target.Project) (project.Record, error) {
	r, err := s.get(ctx, "read project", s.tables.Heads, key(spaceOf(p), "project"))
	if err != nil {
		return project.Record{}, err
	}
	if r == nil {
		return project.Record{}, fmt.Errorf("dynamo: project: %w", history.ErrNotFound)
	}
	out := project.Record{Project: p, Description: r.optional("description"), CreatedAt: r.time("createdAt")}
	label := r.str("label")
	if r.err != nil {
		return project.Record{}, r.err
	}
	if err := json.Unmarshal([]byte(label), &out.Label); err != nil {
		return project.Record{}, errors.New("dynamo: stored label cannot be read")
	}
	return out, nil
}

func (s *Store) projectExists(p target.Project) types.TransactWriteItem {
	return condition{text: "attribute_exists(pk)"}.check(s.tables.Heads, key(spaceOf(p), "project"))
}

// WriteGrant implements project.Store.
func (s *Store) WriteGrant(ctx context.Context, w project.GrantWrite) error {
	item := key(spaceOf(w.Project), "grant#"+w.Principal)
	rights := &types.AttributeValueMemberL{Value: []types.AttributeValue{}}
	identity := []string{"grant", w.Project.String(), w.Principal, fmt.Sprint(w.Read), string(w.Directory),
		string(w.From.Commit), fmt.Sprint(w.From.Version), string(w.To.Commit), string(w.To.Root), fmt.Sprint(w.To.Version)}
	for _, right := range w.Rights {
		rights.Value = append(rights.Value, str(string(right)))
		identity = append(identity, string(right))
	}
	item["rights"], item["version"] = rights, num(w.Read+1)
	r, err := s.transact(ctx, "write grant", []types.TransactWriteItem{
		s.projectExists(w.Project),
		at(w.Read).put(s.tables.Heads, item),
		s.moveHead(w.Directory, w.From, w.To),
	}, identity...)
	switch {
	case err != nil || r.failed == nil:
		return err
	case r.doubtful:
		// Only our own success has left To as the head. If others have moved it
		// since, this cannot be told here, and the caller looks at the grant.
		if head, err := s.Head(ctx, w.Directory); err == nil && head == w.To {
			return nil
		}
		return fmt.Errorf("dynamo: write grant: %w", history.ErrOutcomeUnknown)
	case r.failed[0]:
		return fmt.Errorf("dynamo: project: %w", history.ErrNotFound)
	default:
		return project.ErrMoved
	}
}

// WritePolicy implements project.Store.
func (s *Store) WritePolicy(ctx context.Context, p target.Project, read int64, rules []policy.Rule) error {
	if rules == nil {
		rules = []policy.Rule{}
	}
	text, err := canon.Encode(rules)
	if err != nil {
		return err
	}
	item := key(spaceOf(p), "policy")
	item["rules"], item["version"] = str(string(text)), num(read+1)
	r, err := s.transact(ctx, "write policy", []types.TransactWriteItem{
		s.projectExists(p),
		at(read).put(s.tables.Heads, item),
	}, "policy", p.String(), fmt.Sprint(read), string(text))
	switch {
	case err != nil || r.failed == nil:
		return err
	case r.doubtful:
		// The same rules under the next version are our success, or an equal one.
		if now, err := s.Policy(ctx, p); err == nil && now.Version == read+1 {
			if same, err := canon.Encode(now.Rules); err == nil && string(same) == string(text) {
				return nil
			}
			return project.ErrMoved
		}
		return fmt.Errorf("dynamo: write policy: %w", history.ErrOutcomeUnknown)
	case r.failed[0]:
		return fmt.Errorf("dynamo: project: %w", history.ErrNotFound)
	default:
		return project.ErrMoved
	}
}
