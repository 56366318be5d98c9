package dynamodb

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
)

// item is short for an attribute map in tests.
type item = map[string]types.AttributeValue

func str(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }
func num(n int) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.Itoa(n)}
}
func number(n string) types.AttributeValue { return &types.AttributeValueMemberN{Value: n} }
func list(v ...types.AttributeValue) types.AttributeValue {
	return &types.AttributeValueMemberL{Value: v}
}
func doc(m item) types.AttributeValue { return &types.AttributeValueMemberM{Value: m} }

// fixture is a service with an SDK client over HTTP, and a clock that only
// moves when a test moves it.
type fixture struct {
	*sdk.Client
	service *Service
	url     string
	now     time.Time
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	f := &fixture{now: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)}
	service, err := Open(Options{Path: filepath.Join(t.TempDir(), "dynamodb.db"), Clock: func() time.Time { return f.now }})
	if err != nil {
		t.Fatal(err)
	}
	f.service = service
	server := httptest.NewServer(service)
	t.Cleanup(func() {
		server.Close()
		if err := service.Close(); err != nil {
			t.Error(err)
		}
	})
	f.url = server.URL
	f.Client = client(server.URL)
	return f
}

func client(url string) *sdk.Client {
	return sdk.New(sdk.Options{
		Region:       "us-east-1",
		BaseEndpoint: &url,
		Credentials:  credentials.NewStaticCredentialsProvider("test", "test", ""),
		Retryer:      aws.NopRetryer{},
		HTTPClient:   &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}},
	})
}

// table makes a table with the key "pk", and "sk" if kinds has two letters, of
// the given types.
func (f *fixture) table(t testing.TB, name, kinds string, indexes ...types.GlobalSecondaryIndex) {
	t.Helper()
	in := &sdk.CreateTableInput{TableName: &name, BillingMode: types.BillingModePayPerRequest, GlobalSecondaryIndexes: indexes}
	for i, key := range []string{"pk", "sk"}[:len(kinds)] {
		in.KeySchema = append(in.KeySchema, types.KeySchemaElement{AttributeName: aws.String(key), KeyType: []types.KeyType{"HASH", "RANGE"}[i]})
		in.AttributeDefinitions = append(in.AttributeDefinitions,
			types.AttributeDefinition{AttributeName: aws.String(key), AttributeType: types.ScalarAttributeType(kinds[i])})
	}
	defined := map[string]bool{}
	for _, i := range indexes {
		for _, k := range i.KeySchema {
			if name := *k.AttributeName; name != "pk" && name != "sk" && !defined[name] {
				defined[name] = true
				kind := types.ScalarAttributeTypeS
				if strings.HasPrefix(name, "n") {
					kind = types.ScalarAttributeTypeN
				}
				in.AttributeDefinitions = append(in.AttributeDefinitions, types.AttributeDefinition{AttributeName: aws.String(name), AttributeType: kind})
			}
		}
	}
	if _, err := f.CreateTable(t.Context(), in); err != nil {
		t.Fatal(err)
	}
}

// index is a global secondary index on the given keys; names that begin with n
// are numbers, others strings.
func index(name string, projection types.Projection, keys ...string) types.GlobalSecondaryIndex {
	i := types.GlobalSecondaryIndex{IndexName: &name, Projection: &projection}
	for n, key := range keys {
		i.KeySchema = append(i.KeySchema, types.KeySchemaElement{AttributeName: aws.String(key), KeyType: []types.KeyType{"HASH", "RANGE"}[n]})
	}
	return i
}

func (f *fixture) put(t testing.TB, table string, items ...item) {
	t.Helper()
	for _, i := range items {
		if _, err := f.PutItem(t.Context(), &sdk.PutItemInput{TableName: &table, Item: i}); err != nil {
			t.Fatal(err)
		}
	}
}

func (f *fixture) get(t testing.TB, table string, key item) item {
	t.Helper()
	out, err := f.GetItem(t.Context(), &sdk.GetItemInput{TableName: &table, Key: key, ConsistentRead: aws.Bool(true)})
	if err != nil {
		t.Fatal(err)
	}
	return out.Item
}

// same compares items by their content.
func same(a, b item) bool { return showItem(a) == showItem(b) }

// show2 is a canonical text of an item.
func showItem(i item) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(i)) {
		b.WriteString(name + "=" + showValue(i[name]) + ";")
	}
	return b.String()
}

func showValue(v types.AttributeValue) string {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return strconv.Quote(v.Value)
	case *types.AttributeValueMemberN:
		return v.Value
	case *types.AttributeValueMemberB:
		return "b" + strconv.Quote(string(v.Value))
	case *types.AttributeValueMemberBOOL:
		return strconv.FormatBool(v.Value)
	case *types.AttributeValueMemberNULL:
		return "null"
	case *types.AttributeValueMemberSS:
		return "ss[" + strings.Join(slices.Sorted(slices.Values(v.Value)), ",") + "]"
	case *types.AttributeValueMemberNS:
		return "ns[" + strings.Join(slices.Sorted(slices.Values(v.Value)), ",") + "]"
	case *types.AttributeValueMemberBS:
		var all []string
		for _, b := range v.Value {
			all = append(all, strconv.Quote(string(b)))
		}
		return "bs[" + strings.Join(slices.Sorted(slices.Values(all)), ",") + "]"
	case *types.AttributeValueMemberL:
		var all []string
		for _, e := range v.Value {
			all = append(all, showValue(e))
		}
		return "[" + strings.Join(all, ",") + "]"
	case *types.AttributeValueMemberM:
		return "{" + showItem(v.Value) + "}"
	}
	return "?"
}

// fails checks the code and the text of an error.
func fails(t testing.TB, name string, err error, code, message string) {
	t.Helper()
	var api smithy.APIError
	if !errors.As(err, &api) {
		t.Errorf("%s: no API error: %v", name, err)
		return
	}
	if api.ErrorCode() != code || !strings.Contains(api.ErrorMessage(), message) {
		t.Errorf("%s: got %s: %s\nwant %s: %s", name, api.ErrorCode(), api.ErrorMessage(), code, message)
	}
}

// covers: H1
func TestEveryOperationAnswersTheSDK(t *testing.T) {
	f, ctx := newFixture(t), context.Background()
	f.table(t, "things", "SN", index("by_owner", types.Projection{ProjectionType: "KEYS_ONLY"}, "owner", "nrank"))
	name := aws.String("things")

	described, err := f.DescribeTable(ctx, &sdk.DescribeTableInput{TableName: name})
	if err != nil || described.Table.TableStatus != types.TableStatusActive || len(described.Table.GlobalSecondaryIndexes) != 1 {
		t.Fatalf("DescribeTable: %+v, %v", described, err)
	}
	listed, err := f.ListTables(ctx, &sdk.ListTablesInput{})
	if err != nil || !slices.Equal(listed.TableNames, []string{"things"}) {
		t.Fatalf("ListTables: %+v, %v", listed, err)
	}

	full := item{
		"pk": str("a"), "sk": num(1), "owner": str("x"), "nrank": num(7),
		"bool": &types.AttributeValueMemberBOOL{Value: true}, "null": &types.AttributeValueMemberNULL{Value: true},
		"bytes":   &types.AttributeValueMemberB{Value: []byte{0, 255, 1}},
		"strings": &types.AttributeValueMemberSS{Value: []string{"b", "a"}},
		"numbers": &types.AttributeValueMemberNS{Value: []string{"2", "10", "-1"}},
		"blobs":   &types.AttributeValueMemberBS{Value: [][]byte{{2}, {1}}},
		"list":    list(str("x"), num(2), list()),
		"map":     doc(item{"k": doc(item{})}),
		"empty":   str(""),
	}
	f.put(t, "things", full)
	if got := f.get(t, "things", item{"pk": str("a"), "sk": number("1.0")}); !same(got, full) {
		t.Errorf("GetItem:\n got %s\nwant %s", showItem(got), showItem(full))
	}

	updated, err := f.UpdateItem(ctx, &sdk.UpdateItemInput{
		TableName: name, Key: item{"pk": str("a"), "sk": num(2)}, ReturnValues: types.ReturnValueAllNew,
		UpdateExpression:         aws.String("SET #o = :o, nrank = if_not_exists(nrank, :zero) + :one"),
		ExpressionAttributeNames: map[string]string{"#o": "owner"}, ExpressionAttributeValues: item{":o": str("x"), ":zero": num(0), ":one": num(1)},
	})
	if err != nil || !same(updated.Attributes, item{"pk": str("a"), "sk": num(2), "owner": str("x"), "nrank": num(1)}) {
		t.Errorf("UpdateItem: %v, %v", updated, err)
	}

	queried, err := f.Query(ctx, &sdk.QueryInput{
		TableName: name, IndexName: aws.String("by_owner"), KeyConditionExpression: aws.String("#o = :o AND nrank < :r"),
		ExpressionAttributeNames: map[string]string{"#o": "owner"}, ExpressionAttributeValues: item{":o": str("x"), ":r": num(10)},
	})
	if err != nil || queried.Count != 2 || !same(queried.Items[0], item{"pk": str("a"), "sk": num(2), "owner": str("x"), "nrank": num(1)}) {
		t.Errorf("Query: %+v, %v", queried, err)
	}
	scanned, err := f.Scan(ctx, &sdk.ScanInput{TableName: name, FilterExpression: aws.String("attribute_exists(bytes)")})
	if err != nil || scanned.Count != 1 || scanned.ScannedCount != 2 {
		t.Errorf("Scan: %+v, %v", scanned, err)
	}

	_, err = f.BatchWriteItem(ctx, &sdk.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{"things": {
		{PutRequest: &types.PutRequest{Item: item{"pk": str("b"), "sk": num(1)}}},
		{DeleteRequest: &types.DeleteRequest{Key: item{"pk": str("a"), "sk": num(1)}}},
	}}})
	if err != nil {
		t.Errorf("BatchWriteItem: %v", err)
	}
	batch, err := f.BatchGetItem(ctx, &sdk.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{"things": {
		Keys: []item{{"pk": str("a"), "sk": num(1)}, {"pk": str("b"), "sk": num(1)}},
	}}})
	if err != nil || len(batch.Responses["things"]) != 1 || len(batch.UnprocessedKeys) != 0 {
		t.Errorf("BatchGetItem: %+v, %v", batch, err)
	}

	_, err = f.TransactWriteItems(ctx, &sdk.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{
		{Put: &types.Put{TableName: name, Item: item{"pk": str("c"), "sk": num(1)}, ConditionExpression: aws.String("attribute_not_exists(pk)")}},
		{Update: &types.Update{TableName: name, Key: item{"pk": str("c"), "sk": num(2)}, UpdateExpression: aws.String("SET a = :a"), ExpressionAttributeValues: item{":a": num(1)}}},
		{Delete: &types.Delete{TableName: name, Key: item{"pk": str("b"), "sk": num(1)}}},
		{ConditionCheck: &types.ConditionCheck{TableName: name, Key: item{"pk": str("a"), "sk": num(2)}, ConditionExpression: aws.String("nrank = :one"), ExpressionAttributeValues: item{":one": num(1)}}},
	}})
	if err != nil {
		t.Errorf("TransactWriteItems: %v", err)
	}
	read, err := f.TransactGetItems(ctx, &sdk.TransactGetItemsInput{TransactItems: []types.TransactGetItem{
		{Get: &types.Get{TableName: name, Key: item{"pk": str("c"), "sk": num(2)}}},
		{Get: &types.Get{TableName: name, Key: item{"pk": str("b"), "sk": num(1)}}},
	}})
	if err != nil || len(read.Responses) != 2 || !same(read.Responses[0].Item, item{"pk": str("c"), "sk": num(2), "a": num(1)}) || read.Responses[1].Item != nil {
		t.Errorf("TransactGetItems: %+v, %v", read, err)
	}

	deleted, err := f.DeleteItem(ctx, &sdk.DeleteItemInput{TableName: name, Key: item{"pk": str("c"), "sk": num(2)}, ReturnValues: types.ReturnValueAllOld})
	if err != nil || !same(deleted.Attributes, item{"pk": str("c"), "sk": num(2), "a": num(1)}) {
		t.Errorf("DeleteItem: %+v, %v", deleted, err)
	}

	if _, err := f.UpdateTimeToLive(ctx, &sdk.UpdateTimeToLiveInput{TableName: name, TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String("until"), Enabled: aws.Bool(true)}}); err != nil {
		t.Errorf("UpdateTimeToLive: %v", err)
	}
	ttl, err := f.DescribeTimeToLive(ctx, &sdk.DescribeTimeToLiveInput{TableName: name})
	if err != nil || ttl.TimeToLiveDescription.TimeToLiveStatus != types.TimeToLiveStatusEnabled || *ttl.TimeToLiveDescription.AttributeName != "until" {
		t.Errorf("DescribeTimeToLive: %+v, %v", ttl, err)
	}

	if _, err := f.DeleteTable(ctx, &sdk.DeleteTableInput{TableName: name}); err != nil {
		t.Errorf("DeleteTable: %v", err)
	}
	_, err = f.GetItem(ctx, &sdk.GetItemInput{TableName: name, Key: item{"pk": str("c"), "sk": num(2)}})
	fails(t, "a deleted table", err, "ResourceNotFoundException", "Requested resource not found")
	_, err = f.ListBackups(ctx, &sdk.ListBackupsInput{})
	fails(t, "an operation that is not supported", err, "UnknownOperationException", "ListBackups")
}
