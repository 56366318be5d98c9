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
	"github.com/pxhost/pxhost/shared/run"
	"github.com/pxhost/pxhost/shared/target"
)

// A projection's item is written by updates of two kinds that never touch each other's
// attributes: taking a generation sets generation and intent, settling one sets
// settled and shown, and reopening one sets settled to no state. settled names its
// generation, so that taking the next one needs not remove it. The one condition of all is on the generation, which only
// grows: as transact asks.
func projectionKey(project target.Project, reportKey, connectionKey string) attributes {
	return attributes{"pk": str(projectionsOf(project, reportKey)), "sk": str("connection#" + connectionKey)}
}

// projectionsOf is the partition of all connections of a Report. No key has a '#' or
// a '/', so that no two Reports share one.
func projectionsOf(project target.Project, reportKey string) string {
	return "projection#" + project.String() + "/" + reportKey
}

// A settled is how a generation ended.
type settled struct {
	Generation int64     `json:"generation"`
	State      run.State `json:"state"` // empty: it goes on, after a retry
}

// encoded is a small value of ours as an attribute. That cannot fail.
func encoded(v any) types.AttributeValue {
	text, err := canon.Encode(v)
	if err != nil {
		panic(err)
	}
	return str(string(text))
}

// take is the part of a transaction that moves a projection to its next generation.
func (s *Store) take(t run.Take) types.TransactWriteItem {
	c := condition{"attribute_not_exists(pk)", map[string]string{}, attributes{}}
	if t.Generation > 1 {
		c = condition{"#generation = :before", map[string]string{}, attributes{":before": num(t.Generation - 1)}}
	}
	c.names["#generation"], c.names["#intent"] = "generation", "intent"
	c.values[":generation"], c.values[":intent"] = num(t.Generation), encoded(t.Intent)
	return c.update(s.tables.Runs, projectionKey(t.Connection.Project, t.Connection.ReportKey, t.Connection.ConnectionKey),
		"SET #generation = :generation, #intent = :intent")
}

// settle is the part of a transaction that says how a generation ended, and what
// is shown from now on.
func (s *Store) settle(t run.Settle) types.TransactWriteItem {
	c := condition{"#generation = :generation",
		map[string]string{"#generation": "generation", "#settled": "settled"},
		attributes{":generation": num(t.Generation), ":settled": encoded(settled{t.Generation, t.Ended})}}
	update := "SET #settled = :settled"
	if t.Shown != nil {
		c.names["#shown"], c.values[":shown"] = "shown", encoded(t.Shown)
		update += ", #shown = :shown"
	}
	return c.update(s.tables.Runs, projectionKey(t.Connection.Project, t.Connection.ReportKey, t.Connection.ConnectionKey), update)
}

// reopen is the part of a transaction that puts a generation under way again.
func (s *Store) reopen(c run.Connection, generation int64) types.TransactWriteItem {
	is := condition{"#generation = :generation", map[string]string{"#generation": "generation", "#settled": "settled"}, attributes{":generation": num(generation), ":settled": encoded(settled{Generation: generation})}}
	return is.update(s.tables.Runs, projectionKey(c.Project, c.ReportKey, c.ConnectionKey), "SET #settled = :settled")
}

func readProjection(r *row, c run.Connection) (run.Projection, error) {
	p := run.Projection{Connection: c, Generation: r.num("generation")}
	var ended settled
	for name, into := range map[string]any{"intent": &p.Intent, "settled": &ended, "shown": &p.Shown} {
		if text := r.optional(name); text != "" {
			if err := json.Unmarshal([]byte(text), into, json.RejectUnknownMembers(true)); err != nil {
				return p, fmt.Errorf("dynamo: projection: stored %s: %w", name, err)
			}
		}
	}
	if ended.Generation == p.Generation {
		p.Ended = ended.State
	}
	return p, r.err
}

// Projections implements run.Store.
func (s *Store) Projections(ctx context.Context, project target.Project, reportKey string) (map[string]run.Projection, error) {
	found := map[string]run.Projection{}
	var from attributes
	for {
		var out *dynamodb.QueryOutput
		err := repeat(ctx, s, "query projections", func(ctx context.Context) (err error) {
			out, err = s.client.Query(ctx, &dynamodb.QueryInput{
				TableName: &s.tables.Runs, ConsistentRead: aws.Bool(true), ExclusiveStartKey: from,
				KeyConditionExpression:    aws.String("pk = :report"),
				ExpressionAttributeValues: attributes{":report": str(projectionsOf(project, reportKey))},
			}, noRetries)
			return err
		})
		if err != nil {
			return nil, err
		}
		for _, item := range out.Items {
			r := &row{item: item}
			key := r.str("sk")[len("connection#"):]
			p, err := readProjection(r, run.Connection{Project: project, ReportKey: reportKey, ConnectionKey: key})
			if err != nil {
				return nil, err
			}
			found[key] = p
		}
		if from = out.LastEvaluatedKey; len(from) == 0 {
			return found, nil
		}
	}
}

// caseItem is where a case of a Batch stands, as an item.
func caseItem(c run.CaseRow) attributes {
	item := batchKey(c.BatchRef, caseSort(c.Index))
	item["case"], item["attempt"], item["child"], item["state"] = encoded(c), num(int64(c.Attempt)), str(c.RunRef), str(string(c.State))
	return item
}

// endCase is the part of a transaction that ends the current attempt of a case.
// Attempts only grow and an attempt ends once, so its condition is one that
// transact may be given.
func (s *Store) endCase(c run.CaseRow) types.TransactWriteItem {
	is := at(0)
	if c.Attempt > 0 {
		is = condition{"#attempt = :attempt AND #child = :child AND #state = :queued",
			map[string]string{"#attempt": "attempt", "#child": "child", "#state": "state"},
			attributes{":attempt": num(int64(c.Attempt)), ":child": str(c.RunRef), ":queued": str(string(run.Queued))}}
	}
	return is.put(s.tables.Runs, caseItem(c))
}

// Finish implements run.Store. It moves the Run's version, which makes its own
// condition false for ever. After a lost reply the same write is sent again and
// finds its own version: that is ErrMoved, and the caller reads and sees it done.
func (s *Store) Finish(ctx context.Context, f run.Finish) error {
	if err := f.Check(); err != nil {
		return err
	}
	if f.Row.Version < 1 {
		return run.ErrMoved
	}
	if f.Settle == nil && f.Case == nil {
		return s.Replace(ctx, f.Row)
	}
	item, err := runItem(f.Row, f.Row.Version+1)
	if err != nil {
		return err
	}
	items := []types.TransactWriteItem{at(f.Row.Version).put(s.tables.Runs, item)}
	identity := []string{"finish", f.Row.RunRef, fmt.Sprint(f.Row.Version), string(encoded(f.Row).(*types.AttributeValueMemberS).Value)}
	add := func(part types.TransactWriteItem, what any) int {
		items, identity = append(items, part), append(identity, encoded(what).(*types.AttributeValueMemberS).Value)
		return len(items) - 1
	}
	settle, end := 0, 0
	if f.Settle != nil {
		settle = add(s.settle(*f.Settle), f.Settle)
	}
	if f.Case != nil {
		end = add(s.endCase(*f.Case), f.Case)
		items = append(items, s.count(*f.Case, f.Case.State, 1))
	}
	r, err := s.transact(ctx, "finish run", items, identity...)
	switch {
	case err != nil || r.failed == nil:
		return err
	case r.failed[0]:
		return run.ErrMoved
	}
	late := &run.SupersededError{Projection: settle > 0 && r.failed[settle], Case: end > 0 && r.failed[end]}
	if *late == (run.SupersededError{}) {
		return errors.New("dynamo: finish run: refused for no reason")
	}
	return late
}
