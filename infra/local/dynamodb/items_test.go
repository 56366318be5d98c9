package dynamodb

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// nested wraps a string into maps: levels counts the string too.
func nested(levels int) types.AttributeValue {
	v := str("leaf")
	for range levels - 1 {
		v = doc(item{"n": v})
	}
	return v
}

// covers: H1
func TestItemsAreRefusedWithDynamoDBsMessages(t *testing.T) {
	f := newFixture(t)
	f.table(t, "items", "SN", index("by_owner", types.Projection{ProjectionType: "ALL"}, "owner", "nrank"))
	full := 400 << 10
	key := func(extra item) item {
		i := item{"pk": str("a"), "sk": num(1)} // 5 and 4 bytes: names, "a", and two for 1
		for name, v := range extra {
			i[name] = v
		}
		return i
	}
	room := full - len("pk"+"a"+"sk") - 2 - len("v")
	for _, c := range []struct {
		name    string
		item    item
		message string // empty for success
	}{
		{"the largest item", key(item{"v": str(strings.Repeat("x", room))}), ""},
		{"a byte more", key(item{"v": str(strings.Repeat("x", room+1))}), "Item size has exceeded the maximum allowed size"},
		{"a size in UTF-8", key(item{"v": str(strings.Repeat("é", room/2+1))}), "Item size has exceeded the maximum allowed size"},
		{"the deepest value", key(item{"v": nested(32)}), ""},
		{"a level more", key(item{"v": nested(33)}), "Nesting Levels have exceeded supported limits"},
		{"the longest partition key", item{"pk": str(strings.Repeat("x", 2048)), "sk": num(1)}, ""},
		{"a byte more of it", item{"pk": str(strings.Repeat("x", 2049)), "sk": num(1)}, "One or more parameter values were invalid: Size of hashkey has exceeded the maximum size limit of2048 bytes"},
		{"no sort key", item{"pk": str("a")}, "One or more parameter values were invalid: Missing the key sk in the item"},
		{"an empty partition key", item{"pk": str(""), "sk": num(1)}, "One or more parameter values are not valid. The AttributeValue for a key attribute cannot contain an empty string value. Key: pk"},
		{"a sort key of a wrong type", item{"pk": str("a"), "sk": str("1")}, "One or more parameter values were invalid: Type mismatch for key sk expected: N actual: S"},
		{"an empty string that is no key", key(item{"v": str("")}), ""},
		{"an empty list and an empty map", key(item{"l": list(), "m": doc(nil)}), ""},
		{"an empty string set", key(item{"v": &types.AttributeValueMemberSS{}}), "One or more parameter values were invalid: An string set  may not be empty"},
		{"an empty number set deep down", key(item{"v": list(doc(item{"x": &types.AttributeValueMemberNS{}}))}), "One or more parameter values were invalid: An number set  may not be empty"},
		{"an empty binary set", key(item{"v": &types.AttributeValueMemberBS{}}), "One or more parameter values were invalid: Binary sets should not be empty"},
		{"a set with one member twice", key(item{"v": &types.AttributeValueMemberSS{Value: []string{"a", "b", "a"}}}), "One or more parameter values were invalid: Input collection [a, b, a] contains duplicates."},
		{"a set with one number twice", key(item{"v": &types.AttributeValueMemberNS{Value: []string{"1", "1.0"}}}), "Input collection contains duplicates"},
		{"a null that is false", key(item{"v": &types.AttributeValueMemberNULL{}}), "One or more parameter values were invalid: Null attribute value types must have the value of true"},
		{"a number that is none", key(item{"v": number("1,5")}), "The parameter cannot be converted to a numeric value: 1,5"},
		{"a number that is empty", key(item{"v": number("")}), "The parameter cannot be converted to a numeric value"},
		{"a number too large", key(item{"v": number("1e126")}), "Number overflow. Attempting to store a number with magnitude larger than supported range"},
		{"a number too small", key(item{"v": number("-1e-131")}), "Number underflow. Attempting to store a number with magnitude smaller than supported range"},
		{"a number of 39 digits", key(item{"v": number(strings.Repeat("9", 39))}), "Attempting to store more than 38 significant digits in a Number"},
		{"a number of 38 digits", key(item{"v": number(strings.Repeat("9", 38))}), ""},
		{"an index key of a wrong type", key(item{"nrank": str("1")}), "One or more parameter values were invalid: Type mismatch for Index Key nrank Expected: N Actual: S IndexName: by_owner"},
		{"an index key that is empty", key(item{"owner": str("")}), "A value specified for a secondary index key is not supported. The AttributeValue for a key attribute cannot contain an empty string value. IndexName: by_owner, IndexKey: owner"},
		{"an index key that is too long", key(item{"owner": str(strings.Repeat("x", 2049))}), "Size of hashkey has exceeded the maximum size limit of2048 bytes"},
		{"an attribute without a name", key(item{"": num(1)}), "An attribute name may not be empty"},
		{"an attribute with a long name", key(item{strings.Repeat("n", 65536): num(1)}), "Attribute name is too large, must be less than 65536 bytes"},
	} {
		_, err := f.PutItem(t.Context(), &sdk.PutItemInput{TableName: aws.String("items"), Item: c.item})
		if c.message != "" {
			fails(t, c.name, err, "ValidationException", c.message)
		} else if err != nil {
			t.Errorf("%s: %v", c.name, err)
		} else if got := f.get(t, "items", item{"pk": c.item["pk"], "sk": c.item["sk"]}); !same(got, c.item) {
			t.Errorf("%s: came back different", c.name)
		}
	}
	_, err := f.PutItem(t.Context(), &sdk.PutItemInput{TableName: aws.String("items"), Item: key(nil), ReturnValues: types.ReturnValueAllNew})
	fails(t, "the new values of a put", err, "ValidationException", "ReturnValues can only be ALL_OLD or NONE")
	_, err = f.GetItem(t.Context(), &sdk.GetItemInput{TableName: aws.String("items"), Key: item{"pk": str("a")}})
	fails(t, "half a key", err, "ValidationException", "The provided key element does not match the schema")
}

// covers: H1
func TestUpdatesAreRefusedWhereTheyMayNotChange(t *testing.T) {
	f := newFixture(t)
	f.table(t, "items", "S", index("by_owner", types.Projection{ProjectionType: "ALL"}, "owner", "nrank"))
	f.put(t, "items", item{"pk": str("a"), "text": str("x"), "deep": nested(31), "big": str(strings.Repeat("x", 300_000)), "nrank": num(1)})
	for _, c := range []struct {
		name, update string
		values       item
		message      string
	}{
		{"the key", "SET pk = :v", item{":v": str("b")}, "One or more parameter values were invalid: Cannot update attribute pk. This attribute is part of the key"},
		{"the key, removed", "REMOVE pk", nil, "Cannot update attribute pk. This attribute is part of the key"},
		{"into the key", "SET pk.a = :v", item{":v": str("b")}, "Cannot update attribute pk. This attribute is part of the key"},
		{"into an index key", "SET nrank.a = :v", item{":v": num(1)}, "Key attributes must be scalars; list random access '[]' and map lookup '.' are not allowed: IndexKey: nrank"},
		{"from within the key", "SET a = pk.a", nil, "Key attributes must be scalars; list random access '[]' and map lookup '.' are not allowed: Key: pk"},
		{"an index key to a wrong type", "SET nrank = :v", item{":v": str("1")}, "Type mismatch for Index Key nrank Expected: N Actual: S IndexName: by_owner"},
		{"an index key to a wrong type, known only then", "SET nrank = #t", nil, "The update expression attempted to update the secondary index key to unsupported type"},
		{"an index key to nothing", "SET #o = :v", item{":v": str("")}, "The update expression attempted to update a secondary index key to a value that is not supported."},
		{"an index key to too much", "SET #o = big", nil, "The update expression attempted to update the secondary index key beyond allowed size limits"},
		{"more than 400 KB", "SET more = big", nil, "Item size to update has exceeded the maximum allowed size"},
		{"more than 32 levels", "SET deeper = :v", item{":v": nested(33)}, "ExpressionAttributeValues contains invalid value: Nesting Levels have exceeded supported limits"},
		{"more than 32 levels, known only then", "SET deep.n.m = deep, x = list_append(:v, :v)", item{":v": list(nested(31))}, "Nesting Levels have exceeded supported limits"},
	} {
		in := &sdk.UpdateItemInput{TableName: aws.String("items"), Key: item{"pk": str("a")}, UpdateExpression: &c.update, ExpressionAttributeValues: c.values}
		for placeholder, name := range map[string]string{"#o": "owner", "#t": "text"} {
			if strings.Contains(c.update, placeholder) {
				in.ExpressionAttributeNames = map[string]string{placeholder: name}
			}
		}
		_, err := f.UpdateItem(t.Context(), in)
		fails(t, c.name, err, "ValidationException", c.message)
	}
}

// covers: H1
func TestReturnValuesAreWhatWasAskedFor(t *testing.T) {
	f := newFixture(t)
	f.table(t, "items", "S")
	before := item{"pk": str("a"), "n": num(1), "m": doc(item{"x": num(2), "y": num(3)}), "l": list(num(4), num(5))}
	for _, c := range []struct {
		asked types.ReturnValue
		want  item // of an update of an item that is there
		fresh item // of one that is not
	}{
		{types.ReturnValueNone, nil, nil},
		{types.ReturnValueAllOld, before, nil},
		{types.ReturnValueAllNew, item{"pk": str("a"), "n": num(2), "m": doc(item{"x": num(9), "y": num(3)}), "l": list(num(5)), "z": num(9)}, nil},
		{types.ReturnValueUpdatedOld, item{"n": num(1), "m": doc(item{"x": num(2)}), "l": list(num(4))}, nil},
		{types.ReturnValueUpdatedNew, item{"n": num(2), "m": doc(item{"x": num(9)}), "l": list(num(5)), "z": num(9)}, nil},
	} {
		f.put(t, "items", before)
		out, err := f.UpdateItem(t.Context(), &sdk.UpdateItemInput{
			TableName: aws.String("items"), Key: item{"pk": str("a")}, ReturnValues: c.asked,
			UpdateExpression: aws.String("SET n = n + :one, m.x = :nine, z = :nine REMOVE l[0]"), ExpressionAttributeValues: item{":one": num(1), ":nine": num(9)},
		})
		if err != nil || !same(out.Attributes, c.want) {
			t.Errorf("%s: got %v, %v; want %s", c.asked, out, err, showItem(c.want))
		}
	}
	out, err := f.UpdateItem(t.Context(), &sdk.UpdateItemInput{
		TableName: aws.String("items"), Key: item{"pk": str("new")}, ReturnValues: types.ReturnValueAllNew, UpdateExpression: aws.String("ADD n :one"), ExpressionAttributeValues: item{":one": num(1)},
	})
	if err != nil || !same(out.Attributes, item{"pk": str("new"), "n": num(1)}) {
		t.Errorf("an update that makes an item: %+v, %v", out, err)
	}
	if out, err = f.UpdateItem(t.Context(), &sdk.UpdateItemInput{TableName: aws.String("items"), Key: item{"pk": str("bare")}, ReturnValues: types.ReturnValueAllOld}); err != nil || out.Attributes != nil {
		t.Errorf("an update of nothing: %+v, %v", out, err)
	}
	if got := f.get(t, "items", item{"pk": str("bare")}); !same(got, item{"pk": str("bare")}) {
		t.Errorf("an update without an expression makes an item of its key: %s", showItem(got))
	}
	old, err := f.PutItem(t.Context(), &sdk.PutItemInput{TableName: aws.String("items"), Item: item{"pk": str("bare"), "v": num(1)}, ReturnValues: types.ReturnValueAllOld})
	if err != nil || !same(old.Attributes, item{"pk": str("bare")}) {
		t.Errorf("PutItem: %+v, %v", old, err)
	}
	gone, err := f.DeleteItem(t.Context(), &sdk.DeleteItemInput{TableName: aws.String("items"), Key: item{"pk": str("nobody")}, ReturnValues: types.ReturnValueAllOld})
	if err != nil || gone.Attributes != nil {
		t.Errorf("DeleteItem of nothing: %+v, %v", gone, err)
	}
}

// covers: H1
func TestBatchesHaveTheirLimits(t *testing.T) {
	f := newFixture(t)
	f.table(t, "items", "S")
	f.table(t, "others", "S")
	puts := func(n, size int) (list []types.WriteRequest) {
		for i := range n {
			list = append(list, types.WriteRequest{PutRequest: &types.PutRequest{Item: item{"pk": str(strconv.Itoa(i)), "v": str(strings.Repeat("x", size))}}})
		}
		return list
	}
	keys := func(n int) (list []item) {
		for i := range n {
			list = append(list, item{"pk": str(strconv.Itoa(i))})
		}
		return list
	}
	for _, c := range []struct {
		name    string
		in      map[string][]types.WriteRequest
		code    string
		message string
	}{
		{"26 writes of one table", map[string][]types.WriteRequest{"items": puts(26, 1)}, "ValidationException", "Member must have length less than or equal to 25"},
		{"26 writes of two tables", map[string][]types.WriteRequest{"items": puts(13, 1), "others": puts(13, 1)}, "ValidationException", "Too many items requested for the BatchWriteItem call"},
		{"one item twice", map[string][]types.WriteRequest{"items": {puts(1, 1)[0], {DeleteRequest: &types.DeleteRequest{Key: item{"pk": str("0")}}}}}, "ValidationException", "Provided list of item keys contains duplicates"},
		{"a missing table", map[string][]types.WriteRequest{"absent": puts(1, 1)}, "ResourceNotFoundException", "Requested resource not found"},
		{"an item without a key", map[string][]types.WriteRequest{"items": {{PutRequest: &types.PutRequest{Item: item{"v": num(1)}}}}}, "ValidationException", "The provided key element does not match the schema"},
		{"an item too large", map[string][]types.WriteRequest{"items": puts(1, 400<<10)}, "ValidationException", "Item size has exceeded the maximum allowed size"},
		{"a request of nothing", map[string][]types.WriteRequest{"items": {{}}}, "ValidationException", "Supplied AttributeValue has more than one datatypes set"},
	} {
		_, err := f.BatchWriteItem(t.Context(), &sdk.BatchWriteItemInput{RequestItems: c.in})
		fails(t, c.name, err, c.code, c.message)
	}
	for start := 0; start < 50; start += 25 { // 50 items of 400 KB
		var large []types.WriteRequest
		for i := start; i < start+25; i++ {
			large = append(large, types.WriteRequest{PutRequest: &types.PutRequest{Item: item{"pk": str(strconv.Itoa(i)), "v": str(strings.Repeat("x", 400_000))}}})
		}
		out, err := f.BatchWriteItem(t.Context(), &sdk.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{"items": large}})
		if err != nil || len(out.UnprocessedItems) != 0 {
			t.Fatalf("25 items: %+v, %v", out, err)
		}
	}
	request, read := map[string]types.KeysAndAttributes{"items": {Keys: keys(50), ProjectionExpression: aws.String("#p"), ExpressionAttributeNames: map[string]string{"#p": "pk"}}}, 0
	for pages := 0; len(request) > 0; pages++ {
		out, err := f.BatchGetItem(t.Context(), &sdk.BatchGetItemInput{RequestItems: request})
		if err != nil {
			t.Fatal(err)
		}
		if pages == 0 && len(out.UnprocessedKeys["items"].Keys) != 9 { // 41 of 400 KB are just below 16 MB
			t.Errorf("16 MB: %d keys left", len(out.UnprocessedKeys["items"].Keys))
		}
		for _, i := range out.Responses["items"] {
			if len(i) != 1 {
				t.Fatalf("not projected: %d attributes", len(i))
			}
		}
		read += len(out.Responses["items"])
		request = out.UnprocessedKeys
	}
	if read != 50 {
		t.Errorf("%d items were read", read)
	}
	_, err := f.BatchGetItem(t.Context(), &sdk.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{"items": {Keys: keys(101)}}})
	fails(t, "101 keys of one table", err, "ValidationException", "Member must have length less than or equal to 100")
	_, err = f.BatchGetItem(t.Context(), &sdk.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{"items": {Keys: keys(60)}, "others": {Keys: keys(60)}}})
	fails(t, "120 keys of two tables", err, "ValidationException", "Too many items requested for the BatchGetItem call")
	_, err = f.BatchGetItem(t.Context(), &sdk.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{"items": {Keys: append(keys(2), keys(1)...)}}})
	fails(t, "one key twice", err, "ValidationException", "Provided list of item keys contains duplicates")
}

// covers: H1
func TestCapacityIsCountedAsAWSCountsIt(t *testing.T) {
	f := newFixture(t)
	f.table(t, "items", "S", index("some", types.Projection{ProjectionType: "INCLUDE", NonKeyAttributes: []string{"proj"}}, "g"))
	type counted struct{ total, table, index float64 }
	counts := func(c *types.ConsumedCapacity) (got counted) {
		if c != nil {
			got.total = aws.ToFloat64(c.CapacityUnits)
			if c.Table != nil {
				got.table = aws.ToFloat64(c.Table.CapacityUnits)
			}
			got.index = aws.ToFloat64(c.GlobalSecondaryIndexes["some"].CapacityUnits)
		}
		return got
	}
	put := func(i item) counted {
		out, err := f.PutItem(t.Context(), &sdk.PutItemInput{TableName: aws.String("items"), Item: i, ReturnConsumedCapacity: "INDEXES"})
		if err != nil {
			t.Fatal(err)
		}
		return counts(out.ConsumedCapacity)
	}
	update := func(text string, values item) counted {
		out, err := f.UpdateItem(t.Context(), &sdk.UpdateItemInput{TableName: aws.String("items"), Key: item{"pk": str("a")}, UpdateExpression: &text, ExpressionAttributeValues: values, ReturnConsumedCapacity: "INDEXES"})
		if err != nil {
			t.Fatal(err)
		}
		return counts(out.ConsumedCapacity)
	}
	indexed := item{"pk": str("a"), "g": str("g1"), "proj": str("p"), "rest": str("o")}
	for _, c := range []struct {
		name      string
		got, want counted
	}{
		{"a put that an index takes", put(indexed), counted{2, 1, 1}},
		{"the same put again changes no index", put(indexed), counted{1, 1, 0}},
		{"an attribute that the index does not hold", update("SET rest = :v", item{":v": str("o2")}), counted{1, 1, 0}},
		{"an attribute that it holds", update("SET proj = :v", item{":v": str("p2")}), counted{2, 1, 1}},
		{"a key of the index: one out, one in", update("SET g = :v", item{":v": str("g2")}), counted{3, 1, 2}},
		{"a key of the index that goes", update("REMOVE g", nil), counted{2, 1, 1}},
		{"a sparse put", put(item{"pk": str("b"), "v": str("x")}), counted{1, 1, 0}},
		{"a put of just 1 KB", put(item{"pk": str("c"), "v": str(strings.Repeat("x", 1024-4))}), counted{1, 1, 0}},
		{"a put of a byte more", put(item{"pk": str("c"), "v": str(strings.Repeat("x", 1024-3))}), counted{2, 2, 0}},
		{"a smaller put pays for the larger item it replaces", put(item{"pk": str("c")}), counted{2, 2, 0}},
	} {
		if c.got != c.want {
			t.Errorf("%s: got %+v, want %+v", c.name, c.got, c.want)
		}
	}

	f.put(t, "items", item{"pk": str("d"), "g": str("g"), "v": str(strings.Repeat("x", 5000))})
	get := func(key string, consistent bool) float64 {
		out, err := f.GetItem(t.Context(), &sdk.GetItemInput{TableName: aws.String("items"), Key: item{"pk": str(key)}, ConsistentRead: &consistent, ReturnConsumedCapacity: "TOTAL"})
		if err != nil || out.ConsumedCapacity.Table != nil {
			t.Fatalf("%+v, %v", out, err)
		}
		return *out.ConsumedCapacity.CapacityUnits
	}
	query, err := f.Query(t.Context(), &sdk.QueryInput{
		TableName: aws.String("items"), IndexName: aws.String("some"), KeyConditionExpression: aws.String("g = :g"), ExpressionAttributeValues: item{":g": str("g")}, ReturnConsumedCapacity: "INDEXES",
	})
	if err != nil {
		t.Fatal(err)
	}
	transaction := func(writes bool) float64 {
		if writes {
			out, err := f.TransactWriteItems(t.Context(), &sdk.TransactWriteItemsInput{ReturnConsumedCapacity: "TOTAL", TransactItems: []types.TransactWriteItem{
				putAction("items", item{"pk": str("t1")}, ""), putAction("items", item{"pk": str("t2")}, ""),
			}})
			if err != nil || *out.ConsumedCapacity[0].WriteCapacityUnits != *out.ConsumedCapacity[0].CapacityUnits {
				t.Fatalf("%+v, %v", out, err)
			}
			return *out.ConsumedCapacity[0].CapacityUnits
		}
		out, err := f.TransactGetItems(t.Context(), &sdk.TransactGetItemsInput{ReturnConsumedCapacity: "INDEXES", TransactItems: []types.TransactGetItem{
			{Get: &types.Get{TableName: aws.String("items"), Key: item{"pk": str("t1")}}}, {Get: &types.Get{TableName: aws.String("items"), Key: item{"pk": str("nobody")}}},
		}})
		if err != nil || *out.ConsumedCapacity[0].Table.ReadCapacityUnits != *out.ConsumedCapacity[0].CapacityUnits {
			t.Fatalf("%+v, %v", out, err)
		}
		return *out.ConsumedCapacity[0].CapacityUnits
	}
	for _, c := range []struct {
		name      string
		got, want float64
	}{
		{"a consistent read", get("a", true), 1},
		{"an eventually consistent read", get("a", false), 0.5},
		{"a read of nothing", get("nobody", true), 1},
		{"a read of 5 KB", get("d", true), 2},
		{"a query of an index counts what the index holds", counts(query.ConsumedCapacity).index, 0.5},
		{"a transaction writes twice", transaction(true), 4},
		{"a transaction reads twice, nothing too", transaction(false), 4},
	} {
		if c.got != c.want {
			t.Errorf("%s: got %v, want %v", c.name, c.got, c.want)
		}
	}
}

// covers: H1
func TestExpiredItemsAreSweptLate(t *testing.T) {
	f := newFixture(t)
	f.table(t, "items", "S", index("by_g", types.Projection{ProjectionType: "ALL"}, "g"))
	at := func(d time.Duration) types.AttributeValue {
		return number(strconv.FormatInt(f.now.Add(d).Unix(), 10))
	}
	start := f.now
	f.put(t, "items",
		item{"pk": str("before it was on"), "until": at(-time.Hour), "g": str("x")},
		item{"pk": str("soon"), "until": at(time.Minute), "g": str("x")},
		item{"pk": str("later"), "until": at(time.Hour)},
		item{"pk": str("six years ago"), "until": at(-6 * 365 * 24 * time.Hour)},
		item{"pk": str("text"), "until": str(strconv.FormatInt(f.now.Unix()-1000, 10))},
		item{"pk": str("fraction"), "until": number("1.5")}, item{"pk": str("negative"), "until": num(-5)}, item{"pk": str("never")},
	)
	setTTL := func(attribute string, enabled bool) error {
		_, err := f.UpdateTimeToLive(t.Context(), &sdk.UpdateTimeToLiveInput{TableName: aws.String("items"), TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: &attribute, Enabled: &enabled}})
		return err
	}
	there := func() (names []string) {
		items, _ := f.scanAll(t, sdk.ScanInput{TableName: aws.String("items")})
		for _, i := range items {
			names = append(names, sortKeyText(i["pk"]))
		}
		return names
	}
	sweep := func(want int) {
		t.Helper()
		if got, err := f.service.SweepExpired(t.Context()); err != nil || got != want {
			t.Errorf("swept %d, %v; want %d", got, err, want)
		}
	}
	sweep(0)
	if err := setTTL("until", true); err != nil {
		t.Fatal(err)
	}
	fails(t, "on twice", setTTL("until", true), "ValidationException", "TimeToLive is already enabled")
	fails(t, "on for another", setTTL("other", true), "ValidationException", "TimeToLive is active on a different AttributeName: current AttributeName is until")
	sweep(1)
	f.now = start.Add(90 * time.Second) // "soon" has expired 30 s ago, and may still be read
	sweep(0)
	if got := len(there()); got != 7 {
		t.Errorf("%d items are there: %q", got, there())
	}
	f.now = start.Add(2 * time.Minute)
	sweep(1)
	out, err := f.Scan(t.Context(), &sdk.ScanInput{TableName: aws.String("items"), IndexName: aws.String("by_g")})
	if err != nil || out.Count != 0 {
		t.Errorf("the index still has %d", out.Count)
	}
	// An item whose time is moved is swept at its new time alone.
	f.put(t, "items", item{"pk": str("later"), "until": at(24 * time.Hour)})
	f.now = start.Add(2 * time.Hour)
	sweep(0)
	if err := setTTL("until", false); err != nil {
		t.Fatal(err)
	}
	fails(t, "off twice", setTTL("until", false), "ValidationException", "TimeToLive is already disabled")
	f.now = start.Add(48 * time.Hour)
	sweep(0)
	if got := len(there()); got != 6 {
		t.Errorf("%d items are there: %q", got, there())
	}
}

// Parts of CreateTable requests.
const (
	pkOnly   = `"AttributeDefinitions":[{"AttributeName":"pk","AttributeType":"S"}],"KeySchema":[{"AttributeName":"pk","KeyType":"HASH"}]`
	pkAndG   = `"AttributeDefinitions":[{"AttributeName":"pk","AttributeType":"S"},{"AttributeName":"g","AttributeType":"S"}],"KeySchema":[{"AttributeName":"pk","KeyType":"HASH"}]`
	onDemand = `"BillingMode":"PAY_PER_REQUEST"`
)

// indexOnG is a table with one index, whose members besides name and key are
// given.
func indexOnG(rest string) string {
	return pkAndG + "," + onDemand + `,"GlobalSecondaryIndexes":[{"IndexName":"one","KeySchema":[{"AttributeName":"g","KeyType":"HASH"}],` + rest + `}]`
}

// refusedTables are CreateTable requests, less the name, with DynamoDB's messages.
// ours are those where dynalite accepts what AWS refuses.
var refusedTables = []struct {
	name, body, message string
	ours                bool
}{
	{"no throughput", pkOnly, "ReadCapacityUnits and WriteCapacityUnits must both be specified when BillingMode is PROVISIONED", false},
	{"throughput on demand", pkOnly + "," + onDemand + `,"ProvisionedThroughput":{"ReadCapacityUnits":1,"WriteCapacityUnits":1}`, "Neither ReadCapacityUnits nor WriteCapacityUnits can be specified when BillingMode is PAY_PER_REQUEST", false},
	{"throughput of nothing", pkOnly + `,"ProvisionedThroughput":{"ReadCapacityUnits":0,"WriteCapacityUnits":1}`, "Value '0' at 'provisionedThroughput.readCapacityUnits' failed to satisfy constraint: Member must have value greater than or equal to 1", false},
	{"a key that is not defined", onDemand + `,"AttributeDefinitions":[{"AttributeName":"a","AttributeType":"S"}],"KeySchema":[{"AttributeName":"pk","KeyType":"HASH"}]`, "Some index key attributes are not defined in AttributeDefinitions. Keys: [pk], AttributeDefinitions: [a]", false},
	{"a definition without a key", pkAndG + "," + onDemand, "Number of attributes in KeySchema does not exactly match number of attributes defined in AttributeDefinitions", false},
	{"one key twice", onDemand + `,"AttributeDefinitions":[{"AttributeName":"pk","AttributeType":"S"},{"AttributeName":"g","AttributeType":"S"}],"KeySchema":[{"AttributeName":"pk","KeyType":"HASH"},{"AttributeName":"pk","KeyType":"RANGE"}]`, "Both the Hash Key and the Range Key element in the KeySchema have the same name", false},
	{"a sort key first", onDemand + `,"AttributeDefinitions":[{"AttributeName":"pk","AttributeType":"S"}],"KeySchema":[{"AttributeName":"pk","KeyType":"RANGE"}]`, "Invalid KeySchema: The first KeySchemaElement is not a HASH key type", false},
	{"a key of a type that is none", onDemand + `,"AttributeDefinitions":[{"AttributeName":"pk","AttributeType":"SS"}],"KeySchema":[{"AttributeName":"pk","KeyType":"HASH"}]`, "Value 'SS' at 'attributeDefinitions.1.member.attributeType' failed to satisfy constraint: Member must satisfy enum value set: [B, N, S]", false},
	{"no indexes in the list", pkOnly + "," + onDemand + `,"GlobalSecondaryIndexes":[]`, "List of GlobalSecondaryIndexes is empty", false},
	{"an index without a projection type", indexOnG(`"Projection":{}`), "Unknown ProjectionType: null", false},
	{"an index that includes nothing", indexOnG(`"Projection":{"ProjectionType":"INCLUDE"}`), "ProjectionType is INCLUDE, but NonKeyAttributes is not specified", true},
	{"an index of all that includes some", indexOnG(`"Projection":{"ProjectionType":"ALL","NonKeyAttributes":["a"]}`), "ProjectionType is ALL, but NonKeyAttributes is specified", false},
	{"an index with throughput on demand", indexOnG(`"Projection":{"ProjectionType":"ALL"},"ProvisionedThroughput":{"ReadCapacityUnits":1,"WriteCapacityUnits":1}`), "ProvisionedThroughput should not be specified for index: one when BillingMode is PAY_PER_REQUEST", false},
	{"an index key that is not defined", strings.Replace(indexOnG(`"Projection":{"ProjectionType":"ALL"}`), `"AttributeName":"g","KeyType"`, `"AttributeName":"h","KeyType"`, 1), "Some index key attributes are not defined in AttributeDefinitions. Keys: [h], AttributeDefinitions: [pk, g]", false},
}

// covers: H1
func TestTablesAreCreatedOrRefused(t *testing.T) {
	f := newFixture(t)
	for _, c := range refusedTables {
		status, text := f.service.Do(t.Context(), "CreateTable", []byte(`{"TableName":"table",`+c.body+`}`))
		if a := parseAnswer(t, status, text); a.kind() != "ValidationException" || !strings.Contains(a.message(), c.message) {
			t.Errorf("%s: %s, want %s", c.name, a, c.message)
		}
	}
	body := []byte(`{"TableName":"table","DeletionProtectionEnabled":true,` + indexOnG(`"Projection":{"ProjectionType":"ALL"}`) + `}`)
	status, text := f.service.Do(t.Context(), "CreateTable", body)
	a := parseAnswer(t, status, text)
	described, _ := a.body["TableDescription"].(map[string]any)
	if a.failed() || described["TableStatus"] != "CREATING" || described["TableArn"] != "arn:aws:dynamodb:us-east-1:000000000000:table/table" {
		t.Errorf("CreateTable: %s", a)
	}
	status, text = f.service.Do(t.Context(), "CreateTable", body)
	if a := parseAnswer(t, status, text); a.kind() != "ResourceInUseException" {
		t.Errorf("a table twice: %s", a)
	}
	f.put(t, "table", item{"pk": str("a"), "g": str("g")}, item{"pk": str("b")})
	out, err := f.DescribeTable(t.Context(), &sdk.DescribeTableInput{TableName: aws.String("table")})
	if err != nil || *out.Table.ItemCount != 2 || *out.Table.GlobalSecondaryIndexes[0].ItemCount != 1 || *out.Table.TableSizeBytes == 0 {
		t.Errorf("DescribeTable: %+v, %v", out, err)
	}
	_, err = f.DeleteTable(t.Context(), &sdk.DeleteTableInput{TableName: aws.String("table")})
	fails(t, "a protected table", err, "ValidationException", "protected against deletion")
	_, err = f.DescribeTable(t.Context(), &sdk.DescribeTableInput{TableName: aws.String("absent")})
	fails(t, "a table that is not there", err, "ResourceNotFoundException", "Requested resource not found: Table: absent not found")
}

// covers: H1
func TestADeletedTableLeavesNothingToTheNextOfItsName(t *testing.T) {
	f := newFixture(t)
	for round := range 2 {
		f.table(t, "items", "S", index("by_g", types.Projection{ProjectionType: "ALL"}, "g"))
		for _, in := range []sdk.ScanInput{{TableName: aws.String("items")}, {TableName: aws.String("items"), IndexName: aws.String("by_g")}} {
			if items, _ := f.scanAll(t, in); len(items) != 0 {
				t.Errorf("round %d: %q", round, texts(items))
			}
		}
		f.put(t, "items", item{"pk": str("a"), "g": str("g")})
		if _, err := f.DeleteTable(t.Context(), &sdk.DeleteTableInput{TableName: aws.String("items")}); err != nil {
			t.Fatal(err)
		}
	}
	var buckets []string
	f.service.store.view(func(r *readTx) *apiError {
		c := r.tx.Cursor()
		for name, _ := c.First(); name != nil; name, _ = c.Next() {
			buckets = append(buckets, string(name))
		}
		return nil
	})
	if want := "meta tables token expiry tokens"; strings.Join(buckets, " ") != want {
		t.Errorf("buckets left: %q", buckets)
	}
}

// covers: H1
func TestTablesAreListedInPages(t *testing.T) {
	f := newFixture(t)
	for i := range 5 {
		f.table(t, fmt.Sprint("table", i), "S")
	}
	var names []string
	in := &sdk.ListTablesInput{Limit: aws.Int32(2)}
	for {
		out, err := f.ListTables(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, out.TableNames...)
		if in.ExclusiveStartTableName = out.LastEvaluatedTableName; in.ExclusiveStartTableName == nil {
			break
		}
	}
	if strings.Join(names, " ") != "table0 table1 table2 table3 table4" {
		t.Errorf("%q", names)
	}
}

// covers: H1
func TestTheProtocolIsAWSJSON(t *testing.T) {
	f := newFixture(t)
	f.table(t, "items", "S")
	send := func(method, target string, body io.Reader) (*http.Response, string) {
		t.Helper()
		r, err := http.NewRequest(method, f.url, body)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Amz-Target", target)
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		text, _ := io.ReadAll(response.Body)
		return response, string(text)
	}
	response, text := send(http.MethodPost, "DynamoDB_20120810.ListTables", strings.NewReader("{}"))
	if response.StatusCode != 200 || text != `{"TableNames":["items"]}` || response.Header.Get("Content-Type") != "application/x-amz-json-1.0" ||
		response.Header.Get("X-Amz-Crc32") != strconv.FormatUint(uint64(crc32.ChecksumIEEE([]byte(text))), 10) || len(response.Header.Get("X-Amzn-Requestid")) != 52 {
		t.Errorf("%d %s %v", response.StatusCode, text, response.Header)
	}
	response, text = send(http.MethodPost, "DynamoDB_20120810.PutItem", strings.NewReader(`{"TableName":"items","Item":{"pk":{"S":"a"}},"ConditionExpression":"attribute_exists(pk)"}`))
	if want := `{"__type":"com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException","message":"The conditional request failed"}`; response.StatusCode != 400 || text != want {
		t.Errorf("%d %s", response.StatusCode, text)
	}
	for _, target := range []string{"", "DynamoDB_20111205.ListTables", "Other.ListTables", "DynamoDB_20120810.Nothing"} {
		if response, text = send(http.MethodPost, target, strings.NewReader("{}")); response.StatusCode != 400 || !strings.Contains(text, "UnknownOperationException") {
			t.Errorf("target %q: %d %s", target, response.StatusCode, text)
		}
	}
	if response, _ = send(http.MethodGet, "DynamoDB_20120810.ListTables", nil); response.StatusCode != 405 {
		t.Errorf("GET: %d", response.StatusCode)
	}
	if response, _ = send(http.MethodPost, "DynamoDB_20120810.ListTables", bytes.NewReader(make([]byte, 16<<20+1))); response.StatusCode != 413 {
		t.Errorf("a request over 16 MB: %d", response.StatusCode)
	}
}
