package dynamo

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/go-json-experiment/json"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/change"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/run"
)

var _ run.Store = (*Store)(nil)

// dueShards is over how many partitions of the due index Runs are spread. It is
// part of the format: rows written under another number would not be found.
const dueShards = 4

func dueShard(runRef string) string {
	h := fnv.New32a()
	h.Write([]byte(runRef))
	return fmt.Sprintf("run#%d", h.Sum32()%dueShards)
}

func runKey(runRef, sk string) attributes { return attributes{"pk": str(runRef), "sk": str(sk)} }

// runItem is the row as an item: the Run as JSON, the version for conditions, and
// the two attributes of the due index, which is sparse: terminal Runs leave it.
func runItem(row run.Row, version int64) (attributes, error) {
	text, err := canon.Encode(row)
	if err != nil {
		return nil, err
	}
	item := runKey(row.RunRef, "run")
	item["run"], item["version"] = str(string(text)), num(version)
	if !row.DueAt.IsZero() {
		item["dueShard"], item["dueAt"] = str(dueShard(row.RunRef)), num(row.DueAt.UnixNano())
	}
	if row.Part.BatchRef == "" {
		listed(item, row.Project, run.ListPlace(row.CreatedAt, row.RunRef))
	}
	return item, nil
}

// Create implements run.Store. All its conditions are of the kinds that transact
// may be given: see Commit.
func (s *Store) Create(ctx context.Context, start run.Start) error {
	if err := start.Check(); err != nil {
		return err
	}
	item, err := runItem(start.Row, 1)
	if err != nil {
		return err
	}
	space := start.Row.Space()
	command := key(space, "cmd#"+start.Command.Key)
	set(command, "planRef", start.Command.PlanRef)
	set(command, "planDigest", start.Command.PlanDigest)
	set(command, "answer", string(start.Command.Answer))
	items := []types.TransactWriteItem{
		at(0).put(s.tables.Runs, item),
		at(0).put(s.tables.Changes, command),
		at(start.PolicyVersion).check(s.tables.Heads, key(space, "policy")),
		at(start.GrantVersion).check(s.tables.Heads, key(space, "grant#"+start.Row.Principal)),
	}
	if start.ApprovalRef != "" {
		items = append(items, s.useApproval(space, start.ApprovalRef, start.Command.Key, start.Now), s.applyPlan(space, start.Row.RunRef, start.Now))
	}
	if start.Approver != "" {
		items = append(items, at(start.ApproverVersion).check(s.tables.Heads, key(space, "grant#"+start.Approver)))
	}
	var generation int64
	if start.Take != nil {
		generation = start.Take.Generation
		items = append(items, s.take(*start.Take))
	}
	r, err := s.transact(ctx, "create run", items,
		"run", start.Row.RunRef, start.Command.Key, start.Command.PlanDigest, string(start.Command.Answer), fmt.Sprint(start.Now.UnixNano()),
		fmt.Sprint(start.PolicyVersion), start.Row.Principal, fmt.Sprint(start.GrantVersion), start.ApprovalRef, start.Approver, fmt.Sprint(start.ApproverVersion), fmt.Sprint(generation))
	if err != nil || r.failed == nil {
		return err
	}
	commanded := r.failed[1]
	if r.doubtful {
		switch row, err := s.Command(ctx, space, start.Command.Key); {
		case err == nil && row == start.Command:
			return nil
		case err == nil:
			commanded = true
		case !errors.Is(err, history.ErrNotFound):
			return fmt.Errorf("dynamo: create run: %w", history.ErrOutcomeUnknown)
		}
	}
	if r.failed[0] && !commanded {
		return errors.New("dynamo: another run has this runRef")
	}
	conflict := &change.ConflictError{Command: commanded, Policy: r.failed[2], Grant: r.failed[3]}
	if start.ApprovalRef != "" {
		conflict.Approval, conflict.Plan = r.failed[4], r.failed[5]
	}
	if start.Approver != "" {
		conflict.Grant = conflict.Grant || r.failed[6]
	}
	if start.Take != nil {
		conflict.Projection = r.failed[len(items)-1]
	}
	return conflict
}

// Fetch implements run.Store.
func (s *Store) Fetch(ctx context.Context, runRef string) (run.Row, error) {
	r, err := s.get(ctx, "read run", s.tables.Runs, runKey(runRef, "run"))
	if err != nil {
		return run.Row{}, err
	}
	if r == nil {
		return run.Row{}, fmt.Errorf("dynamo: run: %w", history.ErrNotFound)
	}
	return readRun(r)
}

func readRun(r *row) (run.Row, error) {
	var out run.Row
	if err := json.Unmarshal([]byte(r.str("run")), &out, json.RejectUnknownMembers(true)); err != nil {
		return run.Row{}, fmt.Errorf("dynamo: run: stored row: %w", err)
	}
	out.Version = r.num("version")
	return out, r.err
}

// Replace implements run.Store.
//
// After a lost reply the same write is sent again and finds its own version: that
// is ErrMoved too, and the caller reads and sees its step done.
func (s *Store) Replace(ctx context.Context, row run.Row) error {
	if row.Version < 1 {
		return run.ErrMoved
	}
	item, err := runItem(row, row.Version+1)
	if err != nil {
		return err
	}
	c := at(row.Version)
	err = repeat(ctx, s, "replace run", func(ctx context.Context) error {
		_, err := s.client.PutItem(ctx, &dynamodb.PutItemInput{TableName: &s.tables.Runs, Item: item,
			ConditionExpression: &c.text, ExpressionAttributeNames: c.names, ExpressionAttributeValues: c.values}, noRetries)
		return err
	})
	if errors.Is(err, errCondition) {
		return run.ErrMoved
	}
	return err
}

func stageSort(stage int) string { return fmt.Sprintf("stage#%05d", stage) }

// SaveStage implements run.Store.
func (s *Store) SaveStage(ctx context.Context, runRef string, stage int, result history.Ref) (history.Ref, error) {
	item := runKey(runRef, stageSort(stage))
	item["result"] = str(string(result))
	err := s.create(ctx, "save stage", s.tables.Runs, item)
	if errors.Is(err, errCondition) {
		return s.Stage(ctx, runRef, stage)
	}
	return result, err
}

// Stage implements run.Store.
func (s *Store) Stage(ctx context.Context, runRef string, stage int) (history.Ref, error) {
	r, err := s.get(ctx, "read stage", s.tables.Runs, runKey(runRef, stageSort(stage)))
	if err != nil {
		return "", err
	}
	if r == nil {
		return "", fmt.Errorf("dynamo: stage: %w", history.ErrNotFound)
	}
	return history.Ref(r.str("result")), r.err
}

// Due implements run.Store.
func (s *Store) Due(ctx context.Context, now time.Time, limit int) ([]string, error) {
	return s.due(ctx, "run", batchPrefix, now, limit)
}

// due returns the keys, without a prefix, of what is due of a kind of Runs.
func (s *Store) due(ctx context.Context, kind, prefix string, now time.Time, limit int) ([]string, error) {
	keys, err := s.dueKeys(ctx, s.tables.Runs, kind, now, limit)
	var refs []string
	for _, key := range keys {
		r := row{item: key}
		if refs = append(refs, strings.TrimPrefix(r.str("pk"), prefix)); r.err != nil {
			return nil, r.err
		}
	}
	return refs, err
}

// dueKeys returns the keys of what is due of a kind. It asks each shard for its
// earliest, so that no shard can keep another's waiting. The index is eventually
// consistent: what it misses now it shows a minute later, and who acts on it reads the
// row first.
func (s *Store) dueKeys(ctx context.Context, table, kind string, now time.Time, limit int) ([]attributes, error) {
	var keys []attributes
	each := int32((limit + dueShards - 1) / dueShards)
	for shard := range dueShards {
		var out *dynamodb.QueryOutput
		err := repeat(ctx, s, "query what is due", func(ctx context.Context) (err error) {
			out, err = s.client.Query(ctx, &dynamodb.QueryInput{
				TableName: &table, IndexName: aws.String("due"), Limit: &each,
				KeyConditionExpression:    aws.String("#shard = :shard AND #due <= :now"),
				ExpressionAttributeNames:  map[string]string{"#shard": "dueShard", "#due": "dueAt"},
				ExpressionAttributeValues: attributes{":shard": str(fmt.Sprintf("%s#%d", kind, shard)), ":now": num(now.UnixNano())},
			}, noRetries)
			return err
		})
		if err != nil {
			return nil, err
		}
		keys = append(keys, out.Items...)
	}
	return keys[:min(limit, len(keys))], nil
}
