package dynamo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/capability/host"
	"github.com/pxhost/pxhost/shared/change"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/policy"
	"github.com/pxhost/pxhost/shared/project"
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

// BenchmarkPlanAndApply saves one Flow in Projects of 100, 20,000 and 100,000,
// over the local DynamoDB, with the caches of a warm process. The reference is the
// smallest; the next may cost at most one and a half times that.
func BenchmarkPlanAndApply(b *testing.B) {
	for _, entries := range []int{100, 20_000, 100_000} {
		b.Run(fmt.Sprint("of_", entries), func(b *testing.B) {
			ctx := context.Background()
			s := over(emulated(b))
			projects := project.New(s, nil, clock)
			if err := errors.Join(projects.Create(ctx, bridge, nil, ""), projects.SetGrant(ctx, bridge, engineer, []policy.Right{policy.Read, policy.Edit})); err != nil {
				b.Fatal(err)
			}
			catalog := history.NewCatalog(s, history.NewCache(96<<20))
			name := func(i int) string { return fmt.Sprintf("girder_%06d", i) }
			var loaded []history.Change
			for i := range entries {
				document := fmt.Appendf(nil, `{"flowKey":%q}`, name(i))
				text := name(i) + " girder check 거더 검토 span moment kn*m"
				loaded = append(loaded, history.Change{Key: history.Key("flow", name(i)), Text: &text, Entry: &history.Entry{
					RevisionRef: history.RefOf(document), Label: map[string]string{"en": "Girder check", "ko": "거더 검토"}, Uses: []string{"function/resistance"}}})
			}
			root, err := catalog.Apply(ctx, space, "", loaded)
			if err != nil {
				b.Fatal(err)
			}
			ref, body, err := history.EncodeCommit(history.Commit{Root: root, Version: 1, Principal: engineer})
			if err != nil {
				b.Fatal(err)
			}
			c := commitment("load")
			grant, err := s.Grant(ctx, bridge, engineer)
			c.Next, c.GrantVersion = history.Head{Commit: ref, Root: root, Version: 1}, grant.Version
			if err := errors.Join(err, s.Put(ctx, space, body), s.CreatePlan(ctx, plan(c.PlanRef)), s.Commit(ctx, c)); err != nil {
				b.Fatal(err)
			}
			n := 0
			planner := change.Planner{Objects: s, Store: s, Now: clock, NewRef: func(p string) string { n++; return fmt.Sprint(p, n) }}
			applier := change.Applier{Objects: s, Store: s, Policy: s, Now: clock, Catalog: catalog}
			i := 0
			for b.Loop() {
				i = (i + 7919) % entries
				head, err := s.Head(ctx, space)
				if err != nil {
					b.Fatal(err)
				}
				old, err := catalog.Entry(ctx, space, head.Root, history.Key("flow", name(i)))
				if err != nil {
					b.Fatal(err)
				}
				document := fmt.Appendf(nil, `{"flowKey":%q,"n":%d}`, name(i), n)
				next := *old
				next.RevisionRef, next.Generation = history.RefOf(document), old.Generation+1
				draft := change.Draft{Tool: "pxflow_plan_change", Project: bridge, Target: []byte(`"t"`), ExpectedGeneration: old.Generation, Subject: policy.OnFlow, Diff: []byte("[]"), Impact: []byte("{}"),
					Changes: []change.Change{{Kind: "flow", Key: name(i), Base: &history.Revision{RevisionRef: old.RevisionRef, Generation: old.Generation}, Entry: next,
						Text: name(i) + " girder check 거더 검토 span moment kn*m", Document: document}}}
				p, findings, err := planner.Plan(ctx, change.Author{Principal: engineer}, draft)
				if err != nil || findings != nil {
					b.Fatal(findings, err)
				}
				if _, findings, err := applier.Apply(ctx, change.Application{Author: change.Author{Principal: engineer}, Tool: draft.Tool, Project: bridge, Target: draft.Target,
					Address: history.Key("flow", name(i)), ExpectedGeneration: old.Generation, PlanRef: p.PlanRef, PlanDigest: p.PlanDigest, CommandID: p.PlanRef}); err != nil || findings != nil {
					b.Fatal(findings, err)
				}
			}
		})
	}
}

// BenchmarkHost is what an execution writes on the local DynamoDB, beside the least that
// could do the same: a bare PutItem, and a bare transaction of three items. A workspace
// of 500 is read beside a bare Query of as many rows.
func BenchmarkHost(b *testing.B) {
	client := emulated(b)
	ctx := context.Background()
	s := over(client)
	b.Run("reference_put", func(b *testing.B) {
		n := 0
		for b.Loop() {
			n++
			if _, err := client.PutItem(ctx, &dynamodb.PutItemInput{TableName: &names.Host, Item: hostKey("bench", fmt.Sprint(n))}); err != nil {
				b.Fatal(err)
			}
		}
	})
	e := anExecution("exec_bench")
	if err := s.CreateExecution(ctx, e); err != nil {
		b.Fatal(err)
	}
	e.Version = 1
	b.Run("step", func(b *testing.B) {
		for b.Loop() {
			if err := s.Apply(ctx, host.Step{Execution: e}); err != nil {
				b.Fatal(err)
			}
			e.Version++
		}
	})
	b.Run("reference_transaction", func(b *testing.B) {
		n := 0
		for b.Loop() {
			n++
			in := &dynamodb.TransactWriteItemsInput{}
			for i := range 3 {
				in.TransactItems = append(in.TransactItems, types.TransactWriteItem{Put: &types.Put{TableName: &names.Host, Item: hostKey("bench", fmt.Sprint(n, i)), ConditionExpression: aws.String("attribute_not_exists(pk)")}})
			}
			if _, err := client.TransactWriteItems(ctx, in); err != nil {
				b.Fatal(err)
			}
		}
	})
	version := int64(0)
	b.Run("step_with_an_item", func(b *testing.B) {
		for b.Loop() {
			put := host.Put{Expectation: host.Expectation{Namespace: "n", Key: "a", Version: version}, Value: canon.Raw("1")}
			if err := s.Apply(ctx, host.Step{Execution: e, Puts: []host.Put{put}}); err != nil {
				b.Fatal(err)
			}
			e.Version++
			version++
		}
	})
	for n := range host.MaxInstances {
		i := anInstance(fmt.Sprintf("inst_%03d", n))
		if _, err := s.Change(ctx, host.Change{Workspace: team, Instance: &i}); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("reference_query_of_500", func(b *testing.B) {
		for b.Loop() {
			if _, err := client.Query(ctx, &dynamodb.QueryInput{TableName: &names.Host, KeyConditionExpression: aws.String("pk = :pk"), ExpressionAttributeValues: attributes{":pk": str("workspace#" + team)}}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("workspace_of_500", func(b *testing.B) {
		for b.Loop() {
			if w, err := s.Workspace(ctx, team); err != nil || len(w.Instances) != host.MaxInstances {
				b.Fatal(err)
			}
		}
	})
}
