package dynamodb

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"pgregory.net/rapid"
)

// allPages follows LastEvaluatedKey and returns the items and the number of pages.
func allPages(t testing.TB, page func(start item) ([]item, item)) (items []item, pages int) {
	t.Helper()
	for start := item(nil); ; {
		part, next := page(start)
		items, pages = append(items, part...), pages+1
		if len(next) == 0 {
			return items, pages
		}
		if start = next; pages > 1000 {
			t.Fatal("the pages do not end")
		}
	}
}

func (f *fixture) queryAll(t testing.TB, in sdk.QueryInput) (items []item, pages int) {
	t.Helper()
	return allPages(t, func(start item) ([]item, item) {
		in.ExclusiveStartKey = start
		out, err := f.Query(t.Context(), &in)
		if err != nil {
			t.Fatal(err)
		}
		return out.Items, out.LastEvaluatedKey
	})
}

func (f *fixture) scanAll(t testing.TB, in sdk.ScanInput) (items []item, pages int) {
	t.Helper()
	return allPages(t, func(start item) ([]item, item) {
		in.ExclusiveStartKey = start
		out, err := f.Scan(t.Context(), &in)
		if err != nil {
			t.Fatal(err)
		}
		return out.Items, out.LastEvaluatedKey
	})
}

func texts(items []item) []string {
	list := make([]string, len(items))
	for i, it := range items {
		list[i] = showItem(it)
	}
	return list
}

// covers: H1
func TestQueriesReturnTheRangeInOrder(t *testing.T) {
	f := newFixture(t)
	f.table(t, "numbers", "SN")
	f.table(t, "strings", "SS")
	f.table(t, "bytes", "SB")
	for _, n := range []string{"-1e100", "-10", "-9.5", "-0.001", "0", "0.001", "1", "2", "10", "10.5", "1e100"} {
		f.put(t, "numbers", item{"pk": str("p"), "sk": number(n)})
	}
	f.put(t, "numbers", item{"pk": str("p2"), "sk": num(3)}, item{"pk": str("o"), "sk": num(3)})
	for _, s := range []string{"\x00", "B", "a", "a\x00", "a\x00b", "aa", "ab", "b", "é"} {
		f.put(t, "strings", item{"pk": str("p"), "sk": str(s)})
		f.put(t, "bytes", item{"pk": str("p"), "sk": &types.AttributeValueMemberB{Value: []byte(s)}})
	}
	for _, c := range []struct {
		table, condition string
		x, y             types.AttributeValue
		want             string
	}{
		{"numbers", "pk = :p", nil, nil, "-1e100 -10 -9.5 -0.001 0 0.001 1 2 10 10.5 1e100"},
		{"numbers", "pk = :p AND sk = :x", number("2.0"), nil, "2"},
		{"numbers", "pk = :p AND sk < :x", num(0), nil, "-1e100 -10 -9.5 -0.001"},
		{"numbers", "pk = :p AND sk <= :x", num(0), nil, "-1e100 -10 -9.5 -0.001 0"},
		{"numbers", "pk = :p AND sk > :x", num(2), nil, "10 10.5 1e100"},
		{"numbers", ":x <= sk AND pk = :p", num(2), nil, "2 10 10.5 1e100"},
		{"numbers", "pk = :p AND sk BETWEEN :x AND :y", number("-9.5"), num(1), "-9.5 -0.001 0 0.001 1"},
		{"numbers", "pk = :p AND sk BETWEEN :x AND :y", num(3), num(4), ""},
		{"strings", "pk = :p", nil, nil, "\x00 B a a\x00 a\x00b aa ab b é"},
		{"strings", "pk = :p AND begins_with(sk, :x)", str("a"), nil, "a a\x00 a\x00b aa ab"},
		{"strings", "pk = :p AND begins_with(sk, :x)", str("a\x00"), nil, "a\x00 a\x00b"},
		{"strings", "pk = :p AND sk > :x", str("a"), nil, "a\x00 a\x00b aa ab b é"},
		{"strings", "pk = :p AND sk <= :x", str("a\x00"), nil, "\x00 B a a\x00"},
		{"strings", "pk = :p AND sk BETWEEN :x AND :y", str("a\x00b"), str("b"), "a\x00b aa ab b"},
		{"bytes", "pk = :p AND begins_with(sk, :x)", &types.AttributeValueMemberB{Value: []byte("a\x00")}, nil, "a\x00 a\x00b"},
		{"bytes", "pk = :p AND sk >= :x", &types.AttributeValueMemberB{Value: []byte("b")}, nil, "b é"},
	} {
		values := item{":p": str("p")}
		if c.x != nil {
			values[":x"] = c.x
		}
		if c.y != nil {
			values[":y"] = c.y
		}
		for _, forward := range []bool{true, false} {
			for _, limit := range []*int32{nil, aws.Int32(1), aws.Int32(2)} {
				items, _ := f.queryAll(t, sdk.QueryInput{
					TableName: &c.table, KeyConditionExpression: &c.condition, ExpressionAttributeValues: values, ScanIndexForward: &forward, Limit: limit,
				})
				var got []string
				for _, it := range items {
					got = append(got, sortKeyText(it["sk"]))
				}
				want := strings.Fields(strings.ReplaceAll(c.want, "1e100", "1"+strings.Repeat("0", 100)))
				if !forward {
					slices.Reverse(want)
				}
				if !slices.Equal(got, want) {
					t.Errorf("%s: %s, forward %t, limit %v:\n got %q\nwant %q", c.table, c.condition, forward, aws.ToInt32(limit), got, want)
				}
			}
		}
	}
}

func sortKeyText(v types.AttributeValue) string {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return v.Value
	case *types.AttributeValueMemberB:
		return string(v.Value)
	case *types.AttributeValueMemberN:
		return v.Value
	}
	return "?"
}

// covers: H1
func TestPagesTogetherAreTheWhole(t *testing.T) {
	f := newFixture(t)
	f.table(t, "items", "SN", index("by_g", types.Projection{ProjectionType: "ALL"}, "g", "n"), index("keys", types.Projection{ProjectionType: "KEYS_ONLY"}, "g"))
	var all, indexed []string
	random := rand.New(rand.NewPCG(1, 1))
	for i := range 120 {
		it := item{"pk": str("p" + strconv.Itoa(i%7)), "sk": num(i), "v": num(random.IntN(4))}
		if i%3 != 0 { // the index is sparse
			it["g"] = str("g" + strconv.Itoa(i%2))
			if i%5 != 0 {
				it["n"] = num(random.IntN(5)) // many ties
				indexed = append(indexed, showItem(it))
			}
		}
		all = append(all, showItem(it))
		f.put(t, "items", it)
	}
	slices.Sort(all)
	slices.Sort(indexed)
	rapid.Check(t, func(rt *rapid.T) {
		limit := aws.Int32(int32(rapid.IntRange(1, 40).Draw(rt, "limit")))
		segments := int32(rapid.IntRange(1, 9).Draw(rt, "segments"))
		filtered := rapid.Bool().Draw(rt, "filtered")
		var filter *string
		var values item
		want, wantIndexed := all, indexed
		if filtered {
			filter, values = aws.String("v = :v"), item{":v": num(1)}
			keep := func(s string) bool { return !strings.Contains(s, "v=1;") }
			want, wantIndexed = slices.DeleteFunc(slices.Clone(all), keep), slices.DeleteFunc(slices.Clone(indexed), keep)
		}
		var got []string
		for segment := range segments {
			items, _ := f.scanAll(t, sdk.ScanInput{
				TableName: aws.String("items"), Limit: limit, Segment: &segment, TotalSegments: &segments, FilterExpression: filter, ExpressionAttributeValues: values,
			})
			got = append(got, texts(items)...)
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			rt.Fatalf("the segments have %d items, the table %d", len(got), len(want))
		}
		items, _ := f.scanAll(t, sdk.ScanInput{TableName: aws.String("items"), IndexName: aws.String("by_g"), Limit: limit, FilterExpression: filter, ExpressionAttributeValues: values})
		if got := slices.Sorted(slices.Values(texts(items))); !slices.Equal(got, wantIndexed) {
			rt.Fatalf("the scan of the index has %d items, the index %d", len(got), len(wantIndexed))
		}
		got = nil
		forward := rapid.Bool().Draw(rt, "forward")
		for _, g := range []string{"g0", "g1"} {
			query := item{":g": str(g)}
			for name, v := range values {
				query[name] = v
			}
			items, _ := f.queryAll(t, sdk.QueryInput{
				TableName: aws.String("items"), IndexName: aws.String("by_g"), Limit: limit, ScanIndexForward: &forward,
				KeyConditionExpression: aws.String("g = :g"), FilterExpression: filter, ExpressionAttributeValues: query,
			})
			if !slices.IsSortedFunc(items, func(a, b item) int {
				x, _ := strconv.Atoi(sortKeyText(a["n"]))
				y, _ := strconv.Atoi(sortKeyText(b["n"]))
				if forward {
					return x - y
				}
				return y - x
			}) {
				rt.Fatal("the index is not in order")
			}
			got = append(got, texts(items)...)
		}
		slices.Sort(got)
		if !slices.Equal(got, wantIndexed) {
			rt.Fatalf("the queries of the index have %d items, the index %d", len(got), len(wantIndexed))
		}
	})
}

// covers: H1
func TestAPageEndsAtItsLimits(t *testing.T) {
	f := newFixture(t)
	f.table(t, "items", "SN")
	for i := range 12 { // of 100,000 bytes each, names and keys included
		f.put(t, "items", item{"pk": str("p"), "sk": num(i), "v": str(strings.Repeat("x", 99_992)), "odd": num(i % 2)})
	}
	in := &sdk.QueryInput{
		TableName: aws.String("items"), KeyConditionExpression: aws.String("pk = :p"), ExpressionAttributeValues: item{":p": str("p")},
		ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal, ConsistentRead: aws.Bool(true),
	}
	out, err := f.Query(t.Context(), in)
	if err != nil || out.Count != 11 || out.ScannedCount != 11 || !same(out.LastEvaluatedKey, item{"pk": str("p"), "sk": num(10)}) {
		t.Errorf("1 MB: %d items, last %s, %v", out.Count, showItem(out.LastEvaluatedKey), err)
	}
	in.FilterExpression, in.ExpressionAttributeValues[":odd"] = aws.String("odd = :odd"), num(1)
	if out, err = f.Query(t.Context(), in); err != nil || out.Count != 5 || out.ScannedCount != 11 || out.LastEvaluatedKey == nil {
		t.Errorf("1 MB is counted before the filter: %d of %d, %v", out.Count, out.ScannedCount, err)
	}
	in.Select = types.SelectCount
	if out, err = f.Query(t.Context(), in); err != nil || out.Count != 5 || out.Items != nil {
		t.Errorf("a count: %+v, %v", out, err)
	}
	in.Limit = aws.Int32(3)
	if out, err = f.Query(t.Context(), in); err != nil || out.Count != 1 || out.ScannedCount != 3 || !same(out.LastEvaluatedKey, item{"pk": str("p"), "sk": num(2)}) {
		t.Errorf("the limit counts what is examined: %+v, %v", out, err)
	}
	in.Limit, in.ExclusiveStartKey = aws.Int32(2), item{"pk": str("p"), "sk": num(9)}
	if out, err = f.Query(t.Context(), in); err != nil || out.ScannedCount != 2 || out.LastEvaluatedKey == nil {
		t.Errorf("a page that ends with the last item does not know it: %+v, %v", out, err)
	}
	in.ExclusiveStartKey = out.LastEvaluatedKey
	if out, err = f.Query(t.Context(), in); err != nil || out.ScannedCount != 0 || out.LastEvaluatedKey != nil {
		t.Errorf("after the last item: %+v, %v", out, err)
	}
	in.ExclusiveStartKey = item{"pk": str("p"), "sk": number("4.5")}
	if out, err = f.Query(t.Context(), in); err != nil || !same(out.LastEvaluatedKey, item{"pk": str("p"), "sk": num(6)}) {
		t.Errorf("a start that is no item: %+v, %v", out, err)
	}
}

// covers: H1
func TestQueriesAreRefusedWithDynamoDBsMessages(t *testing.T) {
	f := newFixture(t)
	f.table(t, "items", "SN", index("keys", types.Projection{ProjectionType: "KEYS_ONLY"}, "g"), index("some", types.Projection{ProjectionType: "INCLUDE", NonKeyAttributes: []string{"a"}}, "g"))
	f.table(t, "single", "S")
	for _, c := range []struct {
		name    string
		change  func(*sdk.QueryInput)
		message string
	}{
		{"no condition", func(in *sdk.QueryInput) { in.KeyConditionExpression, in.ExpressionAttributeValues = nil, nil }, "Either the KeyConditions or KeyConditionExpression parameter must be specified in the request."},
		{"no partition key", func(in *sdk.QueryInput) { in.KeyConditionExpression = aws.String("sk = :n") }, "Query condition missed key schema element: pk"},
		{"another attribute", func(in *sdk.QueryInput) { in.KeyConditionExpression = aws.String("pk = :p AND x = :n") }, "Query condition missed key schema element: sk"},
		{"a range of partitions", func(in *sdk.QueryInput) { in.KeyConditionExpression = aws.String("pk > :p") }, "Query key condition not supported"},
		{"a sort key that the table has not", func(in *sdk.QueryInput) {
			in.TableName, in.KeyConditionExpression = aws.String("single"), aws.String("pk = :p AND sk = :n")
		}, "Query key condition not supported"},
		{"a value of a wrong type", func(in *sdk.QueryInput) { in.KeyConditionExpression = aws.String("pk = :n") }, "One or more parameter values were invalid: Condition parameter type does not match schema type"},
		{"an empty value", func(in *sdk.QueryInput) { in.ExpressionAttributeValues[":p"] = str("") }, "cannot contain an empty string value. Key: pk"},
		{"an operator that is no range", func(in *sdk.QueryInput) { in.KeyConditionExpression = aws.String("pk = :p OR sk = :n") }, "Invalid operator used in KeyConditionExpression: OR"},
		{"a filter on the key", func(in *sdk.QueryInput) { in.FilterExpression = aws.String("sk > :n") }, "Filter Expression can only contain non-primary key attributes: Primary key attribute: sk"},
		{"a filter into the key", func(in *sdk.QueryInput) { in.FilterExpression = aws.String("attribute_exists(pk.a)") }, "Filter Expression can only contain non-primary key attributes: Primary key attribute: pk"},
		{"a projection into a key", func(in *sdk.QueryInput) { in.ProjectionExpression = aws.String("pk.a") }, "Key attributes must be scalars; list random access '[]' and map lookup '.' are not allowed: Key: pk"},
		{"a projection into an index key", func(in *sdk.QueryInput) { in.ProjectionExpression = aws.String("g[0]") }, "Key attributes must be scalars; list random access '[]' and map lookup '.' are not allowed: IndexKey: g"},
		{"an index that is not there", func(in *sdk.QueryInput) { in.IndexName = aws.String("none") }, "The table does not have the specified index: none"},
		{"a consistent read of an index", func(in *sdk.QueryInput) { in.IndexName, in.ConsistentRead = aws.String("keys"), aws.Bool(true) }, "Consistent reads are not supported on global secondary indexes"},
		{"all attributes of an index that has not all", func(in *sdk.QueryInput) {
			in.IndexName, in.Select, in.KeyConditionExpression = aws.String("keys"), types.SelectAllAttributes, aws.String("g = :p")
		}, "Select type ALL_ATTRIBUTES is not supported for global secondary index keys because its projection type is not ALL"},
		{"an attribute that the index has not", func(in *sdk.QueryInput) {
			in.IndexName, in.ProjectionExpression, in.KeyConditionExpression = aws.String("some"), aws.String("a, b, c"), aws.String("g = :p")
		}, "Global secondary index some does not project [b, c]"},
		{"a filter on what the index has not", func(in *sdk.QueryInput) {
			in.IndexName, in.FilterExpression, in.KeyConditionExpression = aws.String("some"), aws.String("attribute_exists(b)"), aws.String("g = :p")
		}, "Global secondary index some does not project [b]"},
		{"a projection with a count", func(in *sdk.QueryInput) { in.Select, in.ProjectionExpression = types.SelectCount, aws.String("a") }, "Cannot specify the ProjectionExpression when choosing to get only the Count"},
		{"a projection with all attributes", func(in *sdk.QueryInput) {
			in.Select, in.ProjectionExpression = types.SelectAllAttributes, aws.String("a")
		}, "Cannot specify the ProjectionExpression when choosing to get ALL_ATTRIBUTES"},
		{"specific attributes that are not named", func(in *sdk.QueryInput) { in.Select = types.SelectSpecificAttributes }, "Must specify the AttributesToGet or ProjectionExpression when choosing to get SPECIFIC_ATTRIBUTES"},
		{"projected attributes of no index", func(in *sdk.QueryInput) { in.Select = types.SelectAllProjectedAttributes }, "ALL_PROJECTED_ATTRIBUTES can be used only when Querying using an IndexName"},
		{"a start without a key", func(in *sdk.QueryInput) { in.ExclusiveStartKey = item{"pk": str("p")} }, "The provided starting key is invalid"},
		{"a start in another partition", func(in *sdk.QueryInput) { in.ExclusiveStartKey = item{"pk": str("q"), "sk": num(1)} }, "The provided starting key is outside query boundaries based on provided conditions"},
		{"a start outside the range", func(in *sdk.QueryInput) {
			in.KeyConditionExpression, in.ExclusiveStartKey = aws.String("pk = :p AND sk < :n"), item{"pk": str("p"), "sk": num(5)}
		}, "The provided starting key does not match the range key predicate"},
		{"a start of a wrong type", func(in *sdk.QueryInput) { in.ExclusiveStartKey = item{"pk": str("p"), "sk": str("1")} }, "The provided key element does not match the schema"},
		{"a start that is no number", func(in *sdk.QueryInput) { in.ExclusiveStartKey = item{"pk": str("p"), "sk": number("x")} }, "The parameter cannot be converted to a numeric value: x"},
	} {
		in := &sdk.QueryInput{TableName: aws.String("items"), KeyConditionExpression: aws.String("pk = :p"), ExpressionAttributeValues: item{":p": str("p"), ":n": num(1)}}
		c.change(in)
		// Leave out the values that no expression uses.
		used := aws.ToString(in.KeyConditionExpression) + aws.ToString(in.FilterExpression)
		for name := range in.ExpressionAttributeValues {
			if !strings.Contains(used, name) {
				delete(in.ExpressionAttributeValues, name)
			}
		}
		_, err := f.Query(t.Context(), in)
		fails(t, c.name, err, "ValidationException", c.message)
	}
}

// covers: H1
func TestScansAreRefusedWithDynamoDBsMessages(t *testing.T) {
	f := newFixture(t)
	f.table(t, "items", "S", index("keys", types.Projection{ProjectionType: "KEYS_ONLY"}, "g"))
	f.put(t, "items", item{"pk": str("a")})
	// One of two segments holds "a"; the other refuses it as a start.
	var foreign int32
	for segment := range int32(2) {
		out, err := f.Scan(t.Context(), &sdk.ScanInput{TableName: aws.String("items"), Segment: &segment, TotalSegments: aws.Int32(2)})
		if err != nil {
			t.Fatal(err)
		}
		if out.Count == 0 {
			foreign = segment
		}
	}
	for _, c := range []struct {
		name    string
		in      sdk.ScanInput
		message string
	}{
		{"a segment of nothing", sdk.ScanInput{Segment: aws.Int32(0)}, "The TotalSegments parameter is required but was not present in the request when Segment parameter is present"},
		{"no segment of some", sdk.ScanInput{TotalSegments: aws.Int32(2)}, "The Segment parameter is required but was not present in the request when parameter TotalSegments is present"},
		{"a segment too far", sdk.ScanInput{Segment: aws.Int32(2), TotalSegments: aws.Int32(2)}, "The Segment parameter is zero-based and must be less than parameter TotalSegments: Segment: 2 is not less than TotalSegments: 2"},
		{"a start in another segment", sdk.ScanInput{Segment: &foreign, TotalSegments: aws.Int32(2), ExclusiveStartKey: item{"pk": str("a")}}, fmt.Sprintf("The provided starting key is invalid: Invalid ExclusiveStartKey. Please use ExclusiveStartKey with correct Segment. TotalSegments: 2 Segment: %d", foreign)},
		{"a start without a key", sdk.ScanInput{ExclusiveStartKey: item{}}, "The provided starting key is invalid: The provided key element does not match the schema"},
		{"a start without the index's key", sdk.ScanInput{IndexName: aws.String("keys"), ExclusiveStartKey: item{"pk": str("a")}}, "The provided starting key is invalid"},
		{"a consistent read of an index", sdk.ScanInput{IndexName: aws.String("keys"), ConsistentRead: aws.Bool(true)}, "Consistent reads are not supported on global secondary indexes"},
		{"projected attributes of no index", sdk.ScanInput{Select: types.SelectAllProjectedAttributes}, "ALL_PROJECTED_ATTRIBUTES can be used only when Scanning using an IndexName"},
	} {
		c.in.TableName = aws.String("items")
		_, err := f.Scan(t.Context(), &c.in)
		fails(t, c.name, err, "ValidationException", c.message)
	}
}

// covers: H1
func TestIndexesHoldWhatTheyProject(t *testing.T) {
	f := newFixture(t)
	f.table(t, "items", "S",
		index("all", types.Projection{ProjectionType: "ALL"}, "g", "n"),
		index("keys", types.Projection{ProjectionType: "KEYS_ONLY"}, "n"),
		index("some", types.Projection{ProjectionType: "INCLUDE", NonKeyAttributes: []string{"a"}}, "g"))
	content := func(name string) []string {
		items, _ := f.scanAll(t, sdk.ScanInput{TableName: aws.String("items"), IndexName: &name})
		return slices.Sorted(slices.Values(texts(items)))
	}
	check := func(step string, all, keys, some []string) {
		t.Helper()
		for name, want := range map[string][]string{"all": all, "keys": keys, "some": some} {
			if got := content(name); !slices.Equal(got, want) {
				t.Errorf("%s: index %s:\n got %q\nwant %q", step, name, got, want)
			}
		}
	}
	update := func(text string, values item) {
		t.Helper()
		if _, err := f.UpdateItem(t.Context(), &sdk.UpdateItemInput{TableName: aws.String("items"), Key: item{"pk": str("1")}, UpdateExpression: &text, ExpressionAttributeValues: values}); err != nil {
			t.Fatal(err)
		}
	}
	f.put(t, "items", item{"pk": str("1"), "g": str("x"), "n": num(1), "a": num(5), "b": num(6)}, item{"pk": str("2"), "n": num(2)}, item{"pk": str("3"), "a": num(1)})
	check("after the puts", []string{`a=5;b=6;g="x";n=1;pk="1";`}, []string{`n=1;pk="1";`, `n=2;pk="2";`}, []string{`a=5;g="x";pk="1";`})
	update("SET n = :n, a = :a", item{":n": num(9), ":a": num(0)})
	check("after a move", []string{`a=0;b=6;g="x";n=9;pk="1";`}, []string{`n=2;pk="2";`, `n=9;pk="1";`}, []string{`a=0;g="x";pk="1";`})
	update("REMOVE n", nil)
	check("after a key is gone", nil, []string{`n=2;pk="2";`}, []string{`a=0;g="x";pk="1";`})
	f.put(t, "items", item{"pk": str("1"), "n": num(3)})
	check("after a replacement", nil, []string{`n=2;pk="2";`, `n=3;pk="1";`}, nil)
	if _, err := f.DeleteItem(t.Context(), &sdk.DeleteItemInput{TableName: aws.String("items"), Key: item{"pk": str("1")}}); err != nil {
		t.Fatal(err)
	}
	check("after a deletion", nil, []string{`n=2;pk="2";`}, nil)
}
