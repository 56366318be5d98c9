package dynamo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/pxhost/pxhost/shared/change"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/target"
)

var (
	_ history.Heads = (*Store)(nil)
	_ change.Store  = (*Store)(nil)
)

// planLife is how long a plan's row is kept, so that an old plan is told expired.
const planLife = 90 * 24 * time.Hour

// Begin implements change.Store.
func (s *Store) Begin(ctx context.Context, p target.Project, principal, commandKey, planRef string) (change.Opening, error) {
	space := spaceOf(p)
	want := map[string]types.KeysAndAttributes{s.tables.Heads: consistently(space, "head", "policy", "grant#"+principal)}
	changes := consistently(space)
	if commandKey != "" {
		changes.Keys = append(changes.Keys, key(space, "cmd#"+commandKey))
	}
	if planRef != "" {
		changes.Keys = append(changes.Keys, planKey(planRef))
	}
	if changes.Keys != nil {
		want[s.tables.Changes] = changes
	}
	found, err := s.batchGet(ctx, "begin", want)
	if err != nil {
		return change.Opening{}, err
	}
	var out change.Opening
	for table, items := range found {
		for _, item := range items {
			r := &row{item: item}
			var err error
			switch kind, rest, _ := strings.Cut(r.str("sk"), "#"); {
			case table == s.tables.Heads && kind == "head":
				out.Head, err = readHead(r)
			case table == s.tables.Heads && kind == "policy":
				out.Policy, err = readPolicy(r)
			case table == s.tables.Heads && kind == "grant":
				out.Grant, err = readGrant(r)
			case kind == "cmd":
				out.Command = new(change.CommandRow)
				*out.Command, err = readCommand(r, rest)
			case kind == "plan":
				var plan change.PlanRow
				if plan, err = readPlan(r); plan.Space == space {
					out.Plan = &plan
				}
			}
			if err = errors.Join(r.err, err); err != nil {
				return change.Opening{}, err
			}
		}
	}
	return out, nil
}

func consistently(space history.Space, sks ...string) types.KeysAndAttributes {
	out := types.KeysAndAttributes{ConsistentRead: aws.Bool(true)}
	for _, sk := range sks {
		out.Keys = append(out.Keys, key(space, sk))
	}
	return out
}

// Head implements history.Heads.
func (s *Store) Head(ctx context.Context, space history.Space) (history.Head, error) {
	r, err := s.get(ctx, "read head", s.tables.Heads, key(space, "head"))
	if r == nil {
		return history.Head{}, err
	}
	return readHead(r)
}

func readHead(r *row) (history.Head, error) {
	head := history.Head{Commit: history.Ref(r.str("commit")), Root: history.Ref(r.optional("root")), Version: r.num("version")}
	return head, r.err
}

// moveHead is the write of a head that must still be as it was read.
func (s *Store) moveHead(space history.Space, read, next history.Head) types.TransactWriteItem {
	item := key(space, "head")
	item["commit"], item["version"] = str(string(next.Commit)), num(next.Version)
	set(item, "root", string(next.Root))
	c := at(read.Version)
	if read.Version != 0 {
		c.text += " AND #commit = :commit"
		c.names["#commit"] = "commit"
		c.values[":commit"] = str(string(read.Commit))
	}
	return c.put(s.tables.Heads, item)
}

// planKey is the key of a plan: its ref alone, since who reviews it has no more.
func planKey(planRef string) attributes {
	return attributes{"pk": str("plan#" + planRef), "sk": str("plan")}
}

func planItem(row change.PlanRow) attributes {
	item := planKey(row.PlanRef)
	set(item, "space", string(row.Space))
	set(item, "tool", row.Tool)
	set(item, "principal", row.Principal)
	set(item, "digest", row.Digest)
	set(item, "body", string(row.Body))
	set(item, "state", string(row.State))
	setTime(item, "createdAt", row.CreatedAt)
	setTime(item, "expiresAt", row.ExpiresAt)
	set(item, "rejectedBy", row.RejectedBy)
	setTime(item, "rejectedAt", row.RejectedAt)
	set(item, "comment", row.Comment)
	item["ttl"] = num(row.CreatedAt.Add(planLife).Unix())
	set(item, "about", row.About)
	if row.Targets != 0 {
		item["targets"] = num(int64(row.Targets))
	}
	if row.Asks {
		item["asks"] = num(1)
		if row.State == change.PlanOpen { // only what is open is looked for
			item["dueShard"], item["dueAt"] = str(waitingIn(row.Space)), num(row.ExpiresAt.UnixNano())
		}
	}
	return item
}

// CreatePlan implements change.Store.
func (s *Store) CreatePlan(ctx context.Context, row change.PlanRow) error {
	if row.Space == "" || row.PlanRef == "" || row.State != change.PlanOpen {
		return errors.New("dynamo: a new plan has a space and a ref and is open")
	}
	row.CreatedAt, row.ExpiresAt = exact(row.CreatedAt), exact(row.ExpiresAt)
	err := s.create(ctx, "create plan", s.tables.Changes, planItem(row))
	if !errors.Is(err, errCondition) {
		return err
	}
	// Taken: by an attempt of this very call whose reply was lost, or by another plan.
	old, err := s.Plan(ctx, row.Space, row.PlanRef)
	if err != nil {
		return err
	}
	if old.Created() != row {
		return errors.New("dynamo: another plan has this planRef")
	}
	return nil
}

// exact returns t as every store keeps it: to the nanosecond, in UTC.
func exact(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return time.Unix(0, t.UnixNano()).UTC()
}

// Plan implements change.Store.
func (s *Store) Plan(ctx context.Context, space history.Space, planRef string) (change.PlanRow, error) {
	row, err := s.FindPlan(ctx, planRef)
	if err == nil && row.Space != space {
		return change.PlanRow{}, fmt.Errorf("dynamo: plan: %w", history.ErrNotFound)
	}
	return row, err
}

// FindPlan implements review.Plans.
func (s *Store) FindPlan(ctx context.Context, planRef string) (change.PlanRow, error) {
	r, err := s.get(ctx, "read plan", s.tables.Changes, planKey(planRef))
	if err != nil {
		return change.PlanRow{}, err
	}
	if r == nil {
		return change.PlanRow{}, fmt.Errorf("dynamo: plan: %w", history.ErrNotFound)
	}
	return readPlan(r)
}

// waitingIn is the partition of the due index in which the plans of a Space are that wait
// for an approval, until they expire.
func waitingIn(space history.Space) string { return "waiting#" + string(space) }

// Waiting implements review.Rows: one query of the index and one consistent reading of
// what it names, however many plans there are. An index is behind its table now and then:
// a row that was decided since is left out.
func (s *Store) Waiting(ctx context.Context, space history.Space, now time.Time, after change.Place, limit int) (rows []change.PlanRow, next change.Place, err error) {
	in := &dynamodb.QueryInput{
		TableName: &s.tables.Changes, IndexName: aws.String("due"), Limit: aws.Int32(int32(limit)),
		KeyConditionExpression:    aws.String("#shard = :shard AND #due > :now"),
		ExpressionAttributeNames:  map[string]string{"#shard": "dueShard", "#due": "dueAt"},
		ExpressionAttributeValues: attributes{":shard": str(waitingIn(space)), ":now": num(now.UnixNano())},
	}
	if after.PlanRef != "" && after.ExpiresAt.After(now) {
		in.ExclusiveStartKey = planKey(after.PlanRef)
		in.ExclusiveStartKey["dueShard"], in.ExclusiveStartKey["dueAt"] = str(waitingIn(space)), num(after.ExpiresAt.UnixNano())
	}
	var out *dynamodb.QueryOutput
	err = repeat(ctx, s, "query what waits", func(ctx context.Context) (err error) {
		out, err = s.client.Query(ctx, in, noRetries)
		return err
	})
	if err != nil || len(out.Items) == 0 {
		return nil, change.Place{}, err
	}
	if len(out.LastEvaluatedKey) > 0 {
		last := &row{item: out.Items[len(out.Items)-1]}
		next = change.Place{ExpiresAt: last.time("dueAt"), PlanRef: strings.TrimPrefix(last.str("pk"), "plan#")}
		if last.err != nil {
			return nil, change.Place{}, last.err
		}
	}
	want := types.KeysAndAttributes{ConsistentRead: aws.Bool(true)}
	for _, item := range out.Items {
		want.Keys = append(want.Keys, attributes{"pk": item["pk"], "sk": item["sk"]})
	}
	found, err := s.batchGet(ctx, "read what waits", map[string]types.KeysAndAttributes{s.tables.Changes: want})
	if err != nil {
		return nil, change.Place{}, err
	}
	for _, item := range found[s.tables.Changes] {
		one, err := readPlan(&row{item: item})
		if err != nil {
			return nil, change.Place{}, err
		}
		if one.Space == space && one.StateAt(now) == change.PlanOpen {
			rows = append(rows, one)
		}
	}
	slices.SortFunc(rows, change.ByExpiry)
	return rows, next, nil
}

// RejectPlan implements review.Plans. The row as it was read is written back with
// the rejection, on condition that it is open: nothing of an open row changes but
// its state.
func (s *Store) RejectPlan(ctx context.Context, row change.PlanRow) error {
	if row.State != change.PlanRejected || row.RejectedBy == "" {
		return errors.New("dynamo: a rejection has somebody who rejects")
	}
	row.CreatedAt, row.ExpiresAt, row.RejectedAt = exact(row.CreatedAt), exact(row.ExpiresAt), exact(row.RejectedAt)
	item := planItem(row)
	err := repeat(ctx, s, "reject plan", func(ctx context.Context) error {
		_, err := s.client.PutItem(ctx, &dynamodb.PutItemInput{TableName: &s.tables.Changes, Item: item,
			ConditionExpression: aws.String("#state = :open"), ExpressionAttributeNames: map[string]string{"#state": "state"},
			ExpressionAttributeValues: attributes{":open": str(string(change.PlanOpen))}}, noRetries)
		return err
	})
	if !errors.Is(err, errCondition) {
		return err
	}
	// Not open any more: by an attempt of this very call, or by another's.
	if old, err := s.FindPlan(ctx, row.PlanRef); err != nil && !errors.Is(err, history.ErrNotFound) {
		return err
	} else if old == row {
		return nil
	}
	return &change.ConflictError{Plan: true}
}

func readPlan(r *row) (change.PlanRow, error) {
	out := change.PlanRow{
		PlanRef: strings.TrimPrefix(r.str("pk"), "plan#"), Space: history.Space(r.str("space")), Tool: r.optional("tool"), Principal: r.optional("principal"), Digest: r.optional("digest"),
		Body: history.Ref(r.optional("body")), CreatedAt: r.time("createdAt"), ExpiresAt: r.time("expiresAt"), State: change.PlanState(r.str("state")),
		RejectedBy: r.optional("rejectedBy"), RejectedAt: r.time("rejectedAt"), Comment: r.optional("comment"),
		Asks: r.item["asks"] != nil, About: r.optional("about"),
	}
	if r.item["targets"] != nil {
		out.Targets = int(r.num("targets"))
	}
	return out, r.err
}

// Command implements change.Store.
func (s *Store) Command(ctx context.Context, space history.Space, commandKey string) (change.CommandRow, error) {
	r, err := s.get(ctx, "read command", s.tables.Changes, key(space, "cmd#"+commandKey))
	if err != nil {
		return change.CommandRow{}, err
	}
	if r == nil {
		return change.CommandRow{}, fmt.Errorf("dynamo: command: %w", history.ErrNotFound)
	}
	return readCommand(r, commandKey)
}

func readCommand(r *row, commandKey string) (change.CommandRow, error) {
	out := change.CommandRow{Key: commandKey, PlanRef: r.optional("planRef"), PlanDigest: r.optional("planDigest"), Answer: history.Ref(r.optional("answer"))}
	return out, r.err
}

// Commit implements change.Store.
//
// Every condition of it is one that transact may be given: head, policy and
// grant have versions that only grow; a command row once created and an approval
// once used stay so; a plan leaves open once; the expiry times are fixed, and so
// is Now.
func (s *Store) Commit(ctx context.Context, c change.Commitment) error {
	if err := c.Check(); err != nil {
		return err
	}
	command := key(c.Space, "cmd#"+c.Command.Key)
	set(command, "planRef", c.Command.PlanRef)
	set(command, "planDigest", c.Command.PlanDigest)
	set(command, "answer", string(c.Command.Answer))
	items := []types.TransactWriteItem{
		s.moveHead(c.Space, c.Read, c.Next),
		at(0).put(s.tables.Changes, command),
		s.applyPlan(c.Space, c.PlanRef, c.Now),
		at(c.PolicyVersion).check(s.tables.Heads, key(c.Space, "policy")),
		at(c.GrantVersion).check(s.tables.Heads, key(c.Space, "grant#"+c.Principal)),
	}
	if c.ApprovalRef != "" {
		items = append(items, s.useApproval(c.Space, c.ApprovalRef, c.Command.Key, c.Now))
	}
	if c.Approver != "" {
		items = append(items, at(c.ApproverVersion).check(s.tables.Heads, key(c.Space, "grant#"+c.Approver)))
	}
	r, err := s.transact(ctx, "commit", items,
		"commit", string(c.Space), string(c.Read.Commit), fmt.Sprint(c.Read.Version), string(c.Next.Commit), string(c.Next.Root), fmt.Sprint(c.Next.Version),
		c.Command.Key, c.Command.PlanRef, c.Command.PlanDigest, string(c.Command.Answer), c.PlanRef, fmt.Sprint(c.Now.UnixNano()),
		fmt.Sprint(c.PolicyVersion), c.Principal, fmt.Sprint(c.GrantVersion), c.ApprovalRef, c.Approver, fmt.Sprint(c.ApproverVersion))
	if err != nil || r.failed == nil {
		return err
	}
	commanded := r.failed[1]
	if r.doubtful {
		// Our own success, or another command's? The row tells. If it is another
		// apply of the same plan, it holds another answer: that is the first
		// answer, and the caller finds it as it finds any earlier command. No row
		// means that no attempt was performed, and none can be any more.
		switch row, err := s.Command(ctx, c.Space, c.Command.Key); {
		case err == nil && row == c.Command:
			return nil
		case err == nil:
			commanded = true
		case !errors.Is(err, history.ErrNotFound):
			return fmt.Errorf("dynamo: commit: %w", history.ErrOutcomeUnknown)
		}
	}
	conflict := &change.ConflictError{Head: r.failed[0], Command: commanded, Plan: r.failed[2], Policy: r.failed[3], Grant: r.failed[4]}
	if c.ApprovalRef != "" {
		conflict.Approval = r.failed[5]
	}
	if c.Approver != "" {
		conflict.Grant = conflict.Grant || r.failed[6]
	}
	return conflict
}

// applyPlan is the write that moves a plan of the Space from open to applied, if it
// has not expired.
func (s *Store) applyPlan(space history.Space, planRef string, now time.Time) types.TransactWriteItem {
	return condition{
		"#state = :open AND #expiresAt > :now AND #space = :space",
		map[string]string{"#state": "state", "#expiresAt": "expiresAt", "#space": "space", "#shard": "dueShard", "#due": "dueAt"},
		attributes{":open": str(string(change.PlanOpen)), ":applied": str(string(change.PlanApplied)), ":now": num(now.UnixNano()), ":space": str(string(space))},
	}.update(s.tables.Changes, planKey(planRef), "SET #state = :applied REMOVE #shard, #due")
}

// useApproval is the write that uses an approval up, if it is unused and has not
// expired.
func (s *Store) useApproval(space history.Space, approvalRef, commandKey string, now time.Time) types.TransactWriteItem {
	return condition{
		"attribute_exists(pk) AND attribute_not_exists(#usedBy) AND #expiresAt > :now",
		map[string]string{"#usedBy": "usedBy", "#expiresAt": "expiresAt"},
		attributes{":command": str(commandKey), ":now": num(now.UnixNano())},
	}.update(s.tables.Changes, key(space, "approval#"+approvalRef), "SET #usedBy = :command")
}
