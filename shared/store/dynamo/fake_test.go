package dynamo

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/pxhost/pxhost/shared/history"
)

// fake is DynamoDB as far as this package calls it, for fault tests in a
// synctest bubble, where the emulator's files and sockets have no place. It knows
// only the forms of expression that are used here and panics at any other.
type fake struct {
	mu     sync.Mutex
	tables map[string]map[string]attributes
	tokens map[string]string // of performed transactions, to their input

	// stale hides objects from eventually consistent reads.
	stale bool
	// unprocessed makes batches leave that many of their parts undone, once each.
	unprocessed int
	counts      map[string]int // calls by operation
}

func newFake() *fake {
	return &fake{tables: map[string]map[string]attributes{}, tokens: map[string]string{}, counts: map[string]int{}}
}

func place(table string, item attributes) string {
	id := item["pk"].(*types.AttributeValueMemberS).Value
	if sk, ok := item["sk"]; ok {
		id += "\x00" + sk.(*types.AttributeValueMemberS).Value
	}
	return id
}

func (f *fake) table(name *string) map[string]attributes {
	t := f.tables[*name]
	if t == nil {
		t = map[string]attributes{}
		f.tables[*name] = t
	}
	return t
}

func compare(a, b types.AttributeValue) int {
	switch a := a.(type) {
	case *types.AttributeValueMemberS:
		return cmp.Compare(a.Value, b.(*types.AttributeValueMemberS).Value)
	case *types.AttributeValueMemberN:
		x, _ := new(big.Int).SetString(a.Value, 10)
		y, _ := new(big.Int).SetString(b.(*types.AttributeValueMemberN).Value, 10)
		return x.Cmp(y)
	default:
		panic("compare")
	}
}

func holds(item attributes, expression *string, names map[string]string, values attributes) bool {
	if expression == nil {
		return true
	}
	name := func(s string) string {
		if n, ok := names[s]; ok {
			return n
		}
		return s
	}
	for _, part := range strings.Split(*expression, " AND ") {
		ok := false
		if arg, is := strings.CutPrefix(part, "attribute_not_exists("); is {
			_, exists := item[name(strings.TrimSuffix(arg, ")"))]
			ok = !exists
		} else if arg, is := strings.CutPrefix(part, "attribute_exists("); is {
			_, ok = item[name(strings.TrimSuffix(arg, ")"))]
		} else if words := strings.Fields(part); len(words) == 3 && (words[1] == "=" || words[1] == ">") {
			if v, exists := item[name(words[0])]; exists {
				c := compare(v, values[words[2]])
				ok = (words[1] == "=" && c == 0) || (words[1] == ">" && c > 0)
			}
		} else {
			panic("expression: " + *expression)
		}
		if !ok {
			return false
		}
	}
	return true
}

func (f *fake) GetItem(_ context.Context, in *dynamodb.GetItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts["GetItem"]++
	if f.stale && !aws.ToBool(in.ConsistentRead) {
		return &dynamodb.GetItemOutput{}, nil
	}
	return &dynamodb.GetItemOutput{Item: maps.Clone(f.table(in.TableName)[place(*in.TableName, in.Key)])}, nil
}

func (f *fake) BatchGetItem(_ context.Context, in *dynamodb.BatchGetItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts["BatchGetItem"]++
	out := &dynamodb.BatchGetItemOutput{Responses: map[string][]attributes{}}
	for table, want := range in.RequestItems {
		if len(want.Keys) > 100 {
			return nil, &types.RequestLimitExceeded{}
		}
		rest := min(f.unprocessed, len(want.Keys))
		f.unprocessed -= rest
		for _, k := range want.Keys[rest:] {
			if item, ok := f.table(&table)[place(table, k)]; ok && (!f.stale || aws.ToBool(want.ConsistentRead)) {
				out.Responses[table] = append(out.Responses[table], maps.Clone(item))
			}
		}
		if rest > 0 {
			out.UnprocessedKeys = map[string]types.KeysAndAttributes{table: {Keys: want.Keys[:rest], ConsistentRead: want.ConsistentRead}}
		}
	}
	return out, nil
}

func (f *fake) BatchWriteItem(_ context.Context, in *dynamodb.BatchWriteItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.BatchWriteItemOutput, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts["BatchWriteItem"]++
	out := &dynamodb.BatchWriteItemOutput{}
	for table, requests := range in.RequestItems {
		if len(requests) == 0 || len(requests) > 25 {
			return nil, errors.New("ValidationException: 1 to 25 writes")
		}
		rest := min(f.unprocessed, len(requests))
		f.unprocessed -= rest
		seen := map[string]bool{}
		for i, r := range requests {
			id := place(table, r.PutRequest.Item)
			if seen[id] {
				return nil, errors.New("ValidationException: one item twice")
			}
			seen[id] = true
			if i >= rest {
				if body, ok := r.PutRequest.Item["body"].(*types.AttributeValueMemberB); ok && len(body.Value) > 399<<10 {
					return nil, errors.New("ValidationException: item too large")
				}
				item := maps.Clone(r.PutRequest.Item)
				if body, ok := item["body"].(*types.AttributeValueMemberB); ok {
					item["body"] = bin(bytes.Clone(body.Value))
				}
				f.table(&table)[id] = item
			}
		}
		if rest > 0 {
			out.UnprocessedItems = map[string][]types.WriteRequest{table: requests[:rest]}
		}
	}
	return out, nil
}

func (f *fake) PutItem(_ context.Context, in *dynamodb.PutItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts["PutItem"]++
	id := place(*in.TableName, in.Item)
	if !holds(f.table(in.TableName)[id], in.ConditionExpression, in.ExpressionAttributeNames, in.ExpressionAttributeValues) {
		return nil, &types.ConditionalCheckFailedException{}
	}
	f.table(in.TableName)[id] = in.Item
	return &dynamodb.PutItemOutput{}, nil
}

func (f *fake) Query(_ context.Context, in *dynamodb.QueryInput, _ ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts["Query"]++
	if *in.KeyConditionExpression == "pk = :pk" {
		prefix := in.ExpressionAttributeValues[":pk"].(*types.AttributeValueMemberS).Value + "\x00"
		out := &dynamodb.QueryOutput{}
		for _, id := range slices.Sorted(maps.Keys(f.table(in.TableName))) {
			if strings.HasPrefix(id, prefix) {
				out.Items = append(out.Items, f.table(in.TableName)[id])
			}
		}
		return out, nil
	}
	if *in.KeyConditionExpression != "pk = :ring AND begins_with(sk, :key)" || *in.ScanIndexForward || *in.Limit != 1 {
		panic("query")
	}
	prefix := in.ExpressionAttributeValues[":ring"].(*types.AttributeValueMemberS).Value + "\x00" + in.ExpressionAttributeValues[":key"].(*types.AttributeValueMemberS).Value
	ids := slices.Sorted(maps.Keys(f.table(in.TableName)))
	for _, id := range slices.Backward(ids) {
		if strings.HasPrefix(id, prefix) {
			return &dynamodb.QueryOutput{Items: []attributes{f.table(in.TableName)[id]}}, nil
		}
	}
	return &dynamodb.QueryOutput{}, nil
}

// show is attributes as text.
func show(a attributes) string {
	var out strings.Builder
	var value func(types.AttributeValue)
	value = func(v types.AttributeValue) {
		switch v := v.(type) {
		case *types.AttributeValueMemberS:
			fmt.Fprintf(&out, "%q ", v.Value)
		case *types.AttributeValueMemberN:
			fmt.Fprintf(&out, "%s ", v.Value)
		case *types.AttributeValueMemberB:
			fmt.Fprintf(&out, "%x ", v.Value)
		case *types.AttributeValueMemberL:
			for _, e := range v.Value {
				value(e)
			}
		default:
			panic("show")
		}
	}
	for _, k := range slices.Sorted(maps.Keys(a)) {
		out.WriteString(k + "=")
		value(a[k])
	}
	return out.String()
}

// text is a transaction as text, to tell equal ones.
func text(in *dynamodb.TransactWriteItemsInput) string {
	var out strings.Builder
	item := func(a attributes) { out.WriteString(show(a)) }
	for _, w := range in.TransactItems {
		switch {
		case w.Put != nil:
			fmt.Fprint(&out, "put ", *w.Put.TableName, aws.ToString(w.Put.ConditionExpression))
			item(w.Put.Item)
			item(w.Put.ExpressionAttributeValues)
		case w.Delete != nil:
			fmt.Fprint(&out, "delete ", *w.Delete.TableName, aws.ToString(w.Delete.ConditionExpression))
			item(w.Delete.Key)
			item(w.Delete.ExpressionAttributeValues)
		case w.Update != nil:
			fmt.Fprint(&out, "update ", *w.Update.TableName, aws.ToString(w.Update.ConditionExpression), *w.Update.UpdateExpression)
			item(w.Update.Key)
			item(w.Update.ExpressionAttributeValues)
		default:
			fmt.Fprint(&out, "check ", *w.ConditionCheck.TableName, *w.ConditionCheck.ConditionExpression)
			item(w.ConditionCheck.Key)
			item(w.ConditionCheck.ExpressionAttributeValues)
		}
		out.WriteByte('\n')
	}
	return out.String()
}

func (f *fake) TransactWriteItems(_ context.Context, in *dynamodb.TransactWriteItemsInput, _ ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts["TransactWriteItems"]++
	request := text(in)
	if len(*in.ClientRequestToken) > 36 {
		panic("token")
	}
	if done, ok := f.tokens[*in.ClientRequestToken]; ok {
		if done != request {
			return nil, &types.IdempotentParameterMismatchException{}
		}
		return &dynamodb.TransactWriteItemsOutput{}, nil
	}
	reasons := make([]types.CancellationReason, len(in.TransactItems))
	failed := false
	seen := map[string]bool{}
	var writes []func()
	for i, w := range in.TransactItems {
		var table *string
		var key, values attributes
		var names map[string]string
		var condition *string
		var write func()
		switch {
		case w.Put != nil:
			table, key, condition, names, values = w.Put.TableName, w.Put.Item, w.Put.ConditionExpression, w.Put.ExpressionAttributeNames, w.Put.ExpressionAttributeValues
			write = func() { f.table(table)[place(*table, key)] = w.Put.Item }
		case w.Delete != nil:
			table, key, condition, names, values = w.Delete.TableName, w.Delete.Key, w.Delete.ConditionExpression, w.Delete.ExpressionAttributeNames, w.Delete.ExpressionAttributeValues
			write = func() { delete(f.table(table), place(*table, key)) }
		case w.Update != nil:
			table, key, condition, names, values = w.Update.TableName, w.Update.Key, w.Update.ConditionExpression, w.Update.ExpressionAttributeNames, w.Update.ExpressionAttributeValues
			write = func() {
				item := maps.Clone(f.table(table)[place(*table, key)])
				if item == nil {
					item = maps.Clone(key)
				}
				if counts, ok := strings.CutPrefix(*w.Update.UpdateExpression, "ADD "); ok {
					for part := range strings.SplitSeq(counts, ", ") {
						words := strings.Fields(part) // #name :value
						item[names[words[0]]] = sum(item[names[words[0]]], values[words[1]])
					}
					f.table(table)[place(*table, key)] = item
					return
				}
				sets, removes, _ := strings.Cut(strings.TrimPrefix(*w.Update.UpdateExpression, "SET "), " REMOVE ")
				for name := range strings.SplitSeq(removes, ", ") {
					delete(item, names[name])
				}
				for part := range strings.SplitSeq(sets, ", ") {
					words := strings.Fields(part) // #name = :value
					item[names[words[0]]] = values[words[2]]
				}
				f.table(table)[place(*table, key)] = item
			}
		default:
			table, key, condition, names, values = w.ConditionCheck.TableName, w.ConditionCheck.Key, w.ConditionCheck.ConditionExpression, w.ConditionCheck.ExpressionAttributeNames, w.ConditionCheck.ExpressionAttributeValues
			write = func() {}
		}
		id := *table + place(*table, key)
		if seen[id] {
			panic("one item twice in a transaction")
		}
		seen[id] = true
		reasons[i].Code = aws.String("None")
		if !holds(f.table(table)[place(*table, key)], condition, names, values) {
			reasons[i].Code, failed = aws.String("ConditionalCheckFailed"), true
		}
		writes = append(writes, write)
	}
	if failed {
		return nil, &types.TransactionCanceledException{CancellationReasons: reasons}
	}
	for _, w := range writes {
		w()
	}
	f.tokens[*in.ClientRequestToken] = request
	return &dynamodb.TransactWriteItemsOutput{}, nil
}

// heap keeps blobs in a map.
type heap struct {
	mu    sync.Mutex
	blobs map[string][]byte
}

func (h *heap) Put(_ context.Context, name string, body []byte) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.blobs[name] = bytes.Clone(body)
	return nil
}

func (h *heap) Get(_ context.Context, name string) ([]byte, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if b, ok := h.blobs[name]; ok {
		return b, nil
	}
	return nil, history.ErrNotFound
}

// sum adds numbers as ADD does; what is absent is 0.
func sum(a, b types.AttributeValue) types.AttributeValue {
	var total int64
	for _, v := range []types.AttributeValue{a, b} {
		if n, ok := v.(*types.AttributeValueMemberN); ok {
			i, err := strconv.ParseInt(n.Value, 10, 64)
			if err != nil {
				panic(err)
			}
			total += i
		}
	}
	return num(total)
}
