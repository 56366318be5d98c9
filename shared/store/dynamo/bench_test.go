package dynamo

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/pxhost/pxhost/shared/history"
)

// BenchmarkCommit is plan row and commit on the local DynamoDB. The reference is
// the least that could do the same: one bare PutItem and one bare transaction of
// five items, over the same client.
func BenchmarkCommit(b *testing.B) {
	client := emulated(b)
	ctx := context.Background()
	b.Run("reference_put_and_transaction", func(b *testing.B) {
		n := 0
		for b.Loop() {
			n++
			if _, err := client.PutItem(ctx, &dynamodb.PutItemInput{TableName: &names.Changes, Item: key("bench", fmt.Sprint("plan", n))}); err != nil {
				b.Fatal(err)
			}
			in := &dynamodb.TransactWriteItemsInput{}
			for i := range 5 {
				in.TransactItems = append(in.TransactItems, types.TransactWriteItem{Put: &types.Put{TableName: &names.Heads, Item: key("bench", fmt.Sprint(n, i)), ConditionExpression: aws.String("attribute_not_exists(pk)")}})
			}
			if _, err := client.TransactWriteItems(ctx, in); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("plan_row_and_commit", func(b *testing.B) {
		s := over(client)
		head := history.Head{}
		n := 0
		for b.Loop() {
			n++
			c := commitment(fmt.Sprint(n))
			c.Read, c.Next.Version, c.Command.Key = head, head.Version+1, fmt.Sprint("key", n)
			if err := s.CreatePlan(ctx, plan(c.PlanRef)); err != nil {
				b.Fatal(err)
			}
			if err := s.Commit(ctx, c); err != nil {
				b.Fatal(err)
			}
			head = c.Next
		}
	})
}

// BenchmarkCompress is the cost of a search node of 64 KB on its way in and out.
func BenchmarkCompress(b *testing.B) {
	var node bytes.Buffer
	for i := 0; node.Len() < 64<<10; i++ {
		fmt.Fprintf(&node, "flow/girder_check_%06d girder check %d 거더 검토 span moment utilization kn*m %d", i, i, i*7919%1000)
	}
	enc, stored := compress(node.Bytes())
	b.Logf("%d bytes become %d", node.Len(), len(stored))
	b.Run("in", func(b *testing.B) {
		b.SetBytes(int64(node.Len()))
		for b.Loop() {
			compress(node.Bytes())
		}
	})
	b.Run("out", func(b *testing.B) {
		b.SetBytes(int64(node.Len()))
		for b.Loop() {
			if _, err := decompress(enc, stored, int64(node.Len())); err != nil {
				b.Fatal(err)
			}
		}
	})
}
