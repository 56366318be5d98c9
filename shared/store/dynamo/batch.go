package dynamo

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/go-json-experiment/json"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/change"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/run"
)

var _ run.BatchStore = (*Store)(nil)

// A Batch is one partition: its row, a row a case in the order of the cases (so
// that a page of cases is one range), and the tallies.
const batchPrefix = "batch#"

// tallies is over how many items the count of ended cases is spread, so that
// children that end at once seldom meet. It may be changed: all there are are added.
const tallies = 16

func batchKey(batchRef, sk string) attributes {
	return attributes{"pk": str(batchPrefix + batchRef), "sk": str(sk)}
}

// caseSort has as many digits as run.BatchRow may have cases.
func caseSort(index int) string { return fmt.Sprintf("case#%05d", index) }

func batchItem(row run.BatchRow, version int64) (attributes, error) {
	text, err := canon.Encode(row)
	if err != nil {
		return nil, err
	}
	item := batchKey(row.BatchRef, "batch")
	item["batch"], item["version"] = str(string(text)), num(version)
	if !row.DueAt.IsZero() {
		item["dueShard"], item["dueAt"] = str(dueShard(row.BatchRef)), num(row.DueAt.UnixNano())
	}
	listed(item, row.Project, run.ListPlace(row.CreatedAt, row.BatchRef))
	return item, nil
}

// count is the part of a transaction that counts a case in, or out with -1.
func (s *Store) count(c run.CaseRow, state run.State, by int64) types.TransactWriteItem {
	is := func(want run.State) int64 {
		if state == want {
			return by
		}
		return 0
	}
	update := "ADD #ended :ended, #failed :failed, #cancelled :cancelled"
	return types.TransactWriteItem{Update: &types.Update{TableName: &s.tables.Runs, Key: batchKey(c.BatchRef, fmt.Sprintf("tally#%02d", c.Index%tallies)), UpdateExpression: &update,
		ExpressionAttributeNames:  map[string]string{"#ended": "ended", "#failed": "failed", "#cancelled": "cancelled"},
		ExpressionAttributeValues: attributes{":ended": num(by), ":failed": num(is(run.Failed)), ":cancelled": num(is(run.Cancelled))}}}
}

func commandItem(space history.Space, c change.CommandRow) attributes {
	item := key(space, "cmd#"+c.Key)
	set(item, "planRef", c.PlanRef)
	set(item, "planDigest", c.PlanDigest)
	set(item, "answer", string(c.Answer))
	return item
}

// committed looks whether a command that failed its condition is the very one of
// this transaction, performed by an attempt whose reply was lost.
func (s *Store) committed(ctx context.Context, op string, space history.Space, own change.CommandRow, r result, failed bool) (done, commanded bool, err error) {
	if !r.doubtful {
		return false, failed, nil
	}
	switch row, err := s.Command(ctx, space, own.Key); {
	case err == nil && row == own:
		return true, true, nil
	case err == nil:
		return false, true, nil
	case !errors.Is(err, history.ErrNotFound):
		return false, false, fmt.Errorf("dynamo: %s: %w", op, history.ErrOutcomeUnknown)
	}
	return false, failed, nil
}

// CreateBatch implements run.BatchStore. Its conditions are of the kinds that
// transact may be given: see Commit.
func (s *Store) CreateBatch(ctx context.Context, start run.StartBatch) error {
	if err := start.Check(); err != nil {
		return err
	}
	item, err := batchItem(start.Row, 1)
	if err != nil {
		return err
	}
	space := start.Row.Space()
	items := []types.TransactWriteItem{
		at(0).put(s.tables.Runs, item),
		at(0).put(s.tables.Changes, commandItem(space, start.Command)),
		s.applyPlan(space, start.Row.PlanRef, start.Now),
		at(start.PolicyVersion).check(s.tables.Heads, key(space, "policy")),
		at(start.GrantVersion).check(s.tables.Heads, key(space, "grant#"+start.Row.Principal)),
		s.take(start.Take),
	}
	if start.ApprovalRef != "" {
		items = append(items, s.useApproval(space, start.ApprovalRef, start.Command.Key, start.Now))
	}
	if start.Approver != "" {
		items = append(items, at(start.ApproverVersion).check(s.tables.Heads, key(space, "grant#"+start.Approver)))
	}
	r, err := s.transact(ctx, "create batch", items,
		"batch", start.Row.BatchRef, start.Command.Key, start.Command.PlanRef, start.Command.PlanDigest, string(start.Command.Answer), fmt.Sprint(start.Now.UnixNano()),
		fmt.Sprint(start.PolicyVersion), start.Row.Principal, fmt.Sprint(start.GrantVersion), start.ApprovalRef, start.Approver, fmt.Sprint(start.ApproverVersion))
	if err != nil || r.failed == nil {
		return err
	}
	done, commanded, err := s.committed(ctx, "create batch", space, start.Command, r, r.failed[1])
	if done || err != nil {
		return err
	}
	if r.failed[0] && !commanded {
		return errors.New("dynamo: another batch has this batchRef")
	}
	conflict := &change.ConflictError{Command: commanded, Plan: r.failed[2], Policy: r.failed[3], Grant: r.failed[4], Projection: r.failed[5]}
	if start.ApprovalRef != "" {
		conflict.Approval = r.failed[6]
	}
	if start.Approver != "" {
		conflict.Grant = conflict.Grant || r.failed[7]
	}
	return conflict
}

// Batch implements run.BatchStore.
func (s *Store) Batch(ctx context.Context, batchRef string) (run.BatchRow, error) {
	r, err := s.get(ctx, "read batch", s.tables.Runs, batchKey(batchRef, "batch"))
	if err != nil {
		return run.BatchRow{}, err
	}
	if r == nil {
		return run.BatchRow{}, fmt.Errorf("dynamo: batch: %w", history.ErrNotFound)
	}
	return readBatchRow(r)
}

func readBatchRow(r *row) (run.BatchRow, error) {
	var out run.BatchRow
	if err := json.Unmarshal([]byte(r.str("batch")), &out, json.RejectUnknownMembers(true)); err != nil {
		return run.BatchRow{}, fmt.Errorf("dynamo: batch: stored row: %w", err)
	}
	out.Version = r.num("version")
	return out, r.err
}

// ReplaceBatch implements run.BatchStore. After a lost reply it finds its own
// version, as Replace does.
func (s *Store) ReplaceBatch(ctx context.Context, row run.BatchRow, settle *run.Settle) error {
	if settle != nil {
		if err := settle.Check(); err != nil {
			return err
		}
	}
	if row.Version < 1 {
		return run.ErrMoved
	}
	item, err := batchItem(row, row.Version+1)
	if err != nil {
		return err
	}
	c := at(row.Version)
	if settle == nil {
		err := repeat(ctx, s, "replace batch", func(ctx context.Context) error {
			_, err := s.client.PutItem(ctx, &dynamodb.PutItemInput{TableName: &s.tables.Runs, Item: item,
				ConditionExpression: &c.text, ExpressionAttributeNames: c.names, ExpressionAttributeValues: c.values}, noRetries)
			return err
		})
		if errors.Is(err, errCondition) {
			return run.ErrMoved
		}
		return err
	}
	r, err := s.transact(ctx, "settle batch", []types.TransactWriteItem{c.put(s.tables.Runs, item), s.settle(*settle)},
		"settle batch", row.BatchRef, fmt.Sprint(row.Version), encodedText(row), encodedText(settle))
	switch {
	case err != nil || r.failed == nil:
		return err
	case r.failed[0]:
		return run.ErrMoved
	}
	return &run.SupersededError{Projection: true}
}

// encodedText is a small value of ours, encoded.
func encodedText(v any) string { return encoded(v).(*types.AttributeValueMemberS).Value }

// CreateChild implements run.BatchStore.
func (s *Store) CreateChild(ctx context.Context, row run.Row, end *run.CaseRow) error {
	item, err := runItem(row, 1)
	if err != nil {
		return err
	}
	if end == nil {
		err := s.create(ctx, "create child run", s.tables.Runs, item)
		if errors.Is(err, errCondition) {
			return run.ErrMoved
		}
		return err
	}
	r, err := s.transact(ctx, "create child run", []types.TransactWriteItem{at(0).put(s.tables.Runs, item), s.endCase(*end), s.count(*end, end.State, 1)},
		"create child", encodedText(row), encodedText(end))
	switch {
	case err != nil || r.failed == nil:
		return err
	case r.failed[0]:
		return run.ErrMoved
	}
	return &run.SupersededError{Case: true}
}

// RetryCase implements run.BatchStore. The version of the Batch only grows and so
// does the attempt of a case: conditions that transact may be given.
func (s *Store) RetryCase(ctx context.Context, q run.RetryCase) error {
	if err := q.Check(); err != nil {
		return err
	}
	if q.Batch.Version < 1 {
		return run.ErrMoved
	}
	item, err := batchItem(q.Batch, q.Batch.Version+1)
	if err != nil {
		return err
	}
	space := q.Batch.Space()
	was := at(0)
	if q.Was != nil {
		was = condition{"#attempt = :attempt AND #child = :child AND #state = :state",
			map[string]string{"#attempt": "attempt", "#child": "child", "#state": "state"},
			attributes{":attempt": num(int64(q.Was.Attempt)), ":child": str(q.Was.RunRef), ":state": str(string(q.Was.State))}}
	}
	items := []types.TransactWriteItem{
		at(q.Batch.Version).put(s.tables.Runs, item),
		was.put(s.tables.Runs, caseItem(q.Case)),
		at(0).put(s.tables.Changes, commandItem(space, q.Command)),
		at(q.PolicyVersion).check(s.tables.Heads, key(space, "policy")),
		at(q.GrantVersion).check(s.tables.Heads, key(space, "grant#"+q.Principal)),
	}
	approved := len(items)
	if q.ApprovalRef != "" {
		items = append(items, s.useApproval(space, q.ApprovalRef, q.Command.Key, q.Now), s.applyPlan(space, q.Case.RunRef, q.Now))
	}
	if q.Approver != "" {
		items = append(items, at(q.ApproverVersion).check(s.tables.Heads, key(space, "grant#"+q.Approver)))
	}
	if q.Was != nil {
		items = append(items, s.count(*q.Was, q.Was.State, -1))
	}
	reopen := len(items)
	if q.Reopen {
		items = append(items, s.reopen(q.Batch.Connection(), q.Batch.Projecting.Generation))
	}
	r, err := s.transact(ctx, "retry case", items,
		"retry", encodedText(q.Batch), fmt.Sprint(q.Batch.Version), encodedText(q.Case), q.Command.Key, q.Command.PlanDigest, string(q.Command.Answer), fmt.Sprint(q.Now.UnixNano()),
		fmt.Sprint(q.PolicyVersion), q.Principal, fmt.Sprint(q.GrantVersion), q.ApprovalRef, q.Approver, fmt.Sprint(q.ApproverVersion), fmt.Sprint(q.Reopen))
	if err != nil || r.failed == nil {
		return err
	}
	done, commanded, err := s.committed(ctx, "retry case", space, q.Command, r, r.failed[2])
	if done || err != nil {
		return err
	}
	conflict := change.ConflictError{Command: commanded, Policy: r.failed[3], Grant: r.failed[4]}
	if q.ApprovalRef != "" {
		conflict.Approval, conflict.Plan = r.failed[approved], r.failed[approved+1]
	}
	if q.Approver != "" {
		conflict.Grant = conflict.Grant || r.failed[approved+2]
	}
	if conflict != (change.ConflictError{}) {
		return &conflict
	}
	if q.Reopen && !r.failed[0] && !r.failed[1] && r.failed[reopen] {
		return &run.SupersededError{Projection: true}
	}
	return run.ErrMoved
}

// within reads a range of a Batch's partition, consistently.
func (s *Store) within(ctx context.Context, op, batchRef, first, last string, each func(*row) error) error {
	var from attributes
	for {
		var out *dynamodb.QueryOutput
		err := repeat(ctx, s, op, func(ctx context.Context) (err error) {
			out, err = s.client.Query(ctx, &dynamodb.QueryInput{
				TableName: &s.tables.Runs, ConsistentRead: aws.Bool(true), ExclusiveStartKey: from,
				KeyConditionExpression:    aws.String("pk = :batch AND sk BETWEEN :first AND :last"),
				ExpressionAttributeValues: attributes{":batch": str(batchPrefix + batchRef), ":first": str(first), ":last": str(last)},
			}, noRetries)
			return err
		})
		if err != nil {
			return err
		}
		for _, item := range out.Items {
			r := &row{item: item}
			if err := each(r); err != nil {
				return err
			}
			if r.err != nil {
				return r.err
			}
		}
		if from = out.LastEvaluatedKey; len(from) == 0 {
			return nil
		}
	}
}

// Cases implements run.BatchStore.
func (s *Store) Cases(ctx context.Context, batchRef string, first, end int) ([]run.CaseRow, error) {
	if first >= end {
		return nil, nil
	}
	var out []run.CaseRow
	err := s.within(ctx, "query cases", batchRef, caseSort(first), caseSort(end-1), func(r *row) error {
		var c run.CaseRow
		if err := json.Unmarshal([]byte(r.str("case")), &c, json.RejectUnknownMembers(true)); err != nil {
			return fmt.Errorf("dynamo: case: stored row: %w", err)
		}
		out = append(out, c)
		return nil
	})
	return out, err
}

// Tally implements run.BatchStore.
func (s *Store) Tally(ctx context.Context, batchRef string) (run.Tally, error) {
	var t run.Tally
	err := s.within(ctx, "query tally", batchRef, "tally#", "tally#~", func(r *row) error {
		t.Ended += int(r.num("ended"))
		t.Failed += int(r.num("failed"))
		t.Cancelled += int(r.num("cancelled"))
		return nil
	})
	return t, err
}

// Rows implements run.BatchStore.
func (s *Store) Rows(ctx context.Context, runRefs []string) (map[string]run.Row, error) {
	out := make(map[string]run.Row, len(runRefs))
	for len(runRefs) > 0 {
		part := runRefs[:min(readBatch, len(runRefs))]
		runRefs = runRefs[len(part):]
		want := types.KeysAndAttributes{ConsistentRead: aws.Bool(true)}
		for _, ref := range part {
			want.Keys = append(want.Keys, runKey(ref, "run"))
		}
		found, err := s.batchGet(ctx, "read runs", map[string]types.KeysAndAttributes{s.tables.Runs: want})
		if err != nil {
			return nil, err
		}
		for _, item := range found[s.tables.Runs] {
			row, err := readRun(&row{item: item})
			if err != nil {
				return nil, err
			}
			out[row.RunRef] = row
		}
	}
	return out, nil
}
