package dynamo

import (
	"context"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/pxhost/pxhost/shared/run"
	"github.com/pxhost/pxhost/shared/target"
)

var _ run.ListStore = (*Store)(nil)

// listed gives an item the two attributes of the index of a Project's Runs. They never
// change, so that a Run is written to the index once.
func listed(item attributes, project target.Project, place string) {
	item["listed"], item["listedAt"] = str(project.String()), str(place)
}

// Recent implements run.ListStore: one query of the index, and the rows that it names.
func (s *Store) Recent(ctx context.Context, project target.Project, before string, limit int) ([]run.Listed, error) {
	condition, values := "#listed = :project", attributes{":project": str(project.String())}
	names := map[string]string{"#listed": "listed"}
	if before != "" {
		condition, values[":before"], names["#at"] = condition+" AND #at < :before", str(before), "listedAt"
	}
	var found *dynamodb.QueryOutput
	err := repeat(ctx, s, "query a project's runs", func(ctx context.Context) (err error) {
		found, err = s.client.Query(ctx, &dynamodb.QueryInput{TableName: &s.tables.Runs, IndexName: aws.String("listed"), Limit: aws.Int32(int32(limit)), ScanIndexForward: aws.Bool(false),
			KeyConditionExpression: &condition, ExpressionAttributeNames: names, ExpressionAttributeValues: values}, noRetries)
		return err
	})
	if err != nil || len(found.Items) == 0 {
		return nil, err
	}
	rows := map[string]run.Listed{}
	var order []string
	for items := found.Items; len(items) > 0; {
		part := items[:min(readBatch, len(items))]
		items = items[len(part):]
		want := types.KeysAndAttributes{ConsistentRead: aws.Bool(true)}
		for _, item := range part {
			key := row{item: item}
			order = append(order, key.str("pk"))
			want.Keys = append(want.Keys, attributes{"pk": item["pk"], "sk": item["sk"]})
			if key.err != nil {
				return nil, key.err
			}
		}
		got, err := s.batchGet(ctx, "read a project's runs", map[string]types.KeysAndAttributes{s.tables.Runs: want})
		if err != nil {
			return nil, err
		}
		for _, item := range got[s.tables.Runs] {
			r := &row{item: item}
			pk := r.str("pk")
			if strings.HasPrefix(pk, batchPrefix) {
				b, err := readBatchRow(r)
				if err != nil {
					return nil, err
				}
				rows[pk] = run.ListedBatch(b)
				continue
			}
			one, err := readRun(r)
			if err != nil {
				return nil, err
			}
			rows[pk] = run.ListedRun(one)
		}
	}
	out := make([]run.Listed, 0, len(order))
	for _, pk := range order {
		if l, ok := rows[pk]; ok { // rows are never removed
			out = append(out, l)
		}
	}
	return out, nil
}
