package dynamodb

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

func putAction(table string, i item, condition string) types.TransactWriteItem {
	p := &types.Put{TableName: &table, Item: i}
	if condition != "" {
		p.ConditionExpression = &condition
	}
	return types.TransactWriteItem{Put: p}
}

func checkAction(table string, key item, condition string) types.TransactWriteItem {
	return types.TransactWriteItem{ConditionCheck: &types.ConditionCheck{TableName: &table, Key: key, ConditionExpression: &condition}}
}

func updateAction(table string, key item, update string, values item) types.TransactWriteItem {
	return types.TransactWriteItem{Update: &types.Update{TableName: &table, Key: key, UpdateExpression: &update, ExpressionAttributeValues: values}}
}

func deleteAction(table string, key item, condition string) types.TransactWriteItem {
	d := &types.Delete{TableName: &table, Key: key}
	if condition != "" {
		d.ConditionExpression = &condition
	}
	return types.TransactWriteItem{Delete: d}
}

func (f *fixture) transact(t testing.TB, token string, actions ...types.TransactWriteItem) error {
	t.Helper()
	in := &sdk.TransactWriteItemsInput{TransactItems: actions}
	if token != "" {
		in.ClientRequestToken = &token
	}
	_, err := f.TransactWriteItems(t.Context(), in)
	return err
}

// reasons lists the cancellation reasons as "Code: Message".
func reasons(t testing.TB, err error) []string {
	t.Helper()
	var cancelled *types.TransactionCanceledException
	if !errors.As(err, &cancelled) {
		t.Fatalf("no cancellation: %v", err)
	}
	var list, codes []string
	for _, r := range cancelled.CancellationReasons {
		codes = append(codes, *r.Code)
		text := *r.Code
		if r.Message != nil {
			text += ": " + *r.Message
		}
		if r.Item != nil {
			text += " " + showItem(r.Item)
		}
		list = append(list, text)
	}
	want := "Transaction cancelled, please refer cancellation reasons for specific reasons [" + strings.Join(codes, ", ") + "]"
	if cancelled.ErrorMessage() != want {
		t.Errorf("message %q, want %q", cancelled.ErrorMessage(), want)
	}
	return list
}

// The cases are those of the AWS documentation of TransactWriteItems and of its
// CancellationReasons.
//
// covers: H1
func TestTransactionsAreCancelledWithReasonsInTheirPlaces(t *testing.T) {
	const none, failed = "None", "ConditionalCheckFailed: The conditional request failed"
	a, b, fresh := item{"pk": str("a")}, item{"pk": str("b")}, item{"pk": str("new")}
	for _, c := range []struct {
		name    string
		actions []types.TransactWriteItem
		want    []string
	}{
		{"a put whose condition fails", []types.TransactWriteItem{putAction("items", a, "attribute_not_exists(pk)")}, []string{failed}},
		{"a check that fails, with a write that would not", []types.TransactWriteItem{putAction("items", fresh, ""), checkAction("items", a, "attribute_not_exists(pk)")}, []string{none, failed}},
		{"every condition is looked at", []types.TransactWriteItem{
			deleteAction("items", a, "attribute_exists(x)"), putAction("items", fresh, "attribute_not_exists(pk)"), checkAction("items", b, "v = pk"),
		}, []string{failed, none, failed}},
		{"a condition on an item that is not there", []types.TransactWriteItem{updateAction("items", fresh, "SET v = :v", item{":v": num(1)}), checkAction("items", item{"pk": str("c")}, "attribute_exists(pk)")}, []string{none, failed}},
		{"a key of a wrong type", []types.TransactWriteItem{putAction("items", item{"pk": num(5)}, "")}, []string{"ValidationError: One or more parameter values were invalid: Type mismatch for key pk expected: S actual: N"}},
		{"only the first fault of the keys is told, and no condition", []types.TransactWriteItem{
			putAction("items", item{"pk": num(5)}, ""), putAction("items", item{"pk": num(6)}, ""), putAction("items", a, "attribute_not_exists(pk)"),
		}, []string{"ValidationError: One or more parameter values were invalid: Type mismatch for key pk expected: S actual: N", none, none}},
		{"a missing key", []types.TransactWriteItem{putAction("items", fresh, ""), putAction("items", item{"v": num(1)}, "")}, []string{none, "ValidationError: One or more parameter values were invalid: Missing the key pk in the item"}},
		{"a Key of a wrong type", []types.TransactWriteItem{deleteAction("items", item{"pk": num(1)}, "")}, []string{"ValidationError: The provided key element does not match the schema"}},
		{"a Key with too much", []types.TransactWriteItem{checkAction("items", item{"pk": str("a"), "v": num(1)}, "attribute_exists(pk)")}, []string{"ValidationError: The provided key element does not match the schema"}},
		{"an index key of a wrong type", []types.TransactWriteItem{putAction("items", item{"pk": str("new"), "owner": num(1)}, "")}, []string{"ValidationError: One or more parameter values were invalid: Type mismatch for Index Key owner Expected: S Actual: N IndexName: by_owner"}},
		{"an index key updated to a wrong type", []types.TransactWriteItem{updateAction("items", a, "SET nrank = :v", item{":v": str("x")})}, []string{"ValidationError: One or more parameter values were invalid: Type mismatch for Index Key nrank Expected: N Actual: S IndexName: by_owner"}},
		{"an update of the key", []types.TransactWriteItem{updateAction("items", a, "SET pk = :v", item{":v": str("x")})}, []string{"ValidationError: One or more parameter values were invalid: Cannot update attribute pk. This attribute is part of the key"}},
		{"an update that does not fit the item", []types.TransactWriteItem{putAction("items", fresh, ""), updateAction("items", a, "SET v = absent", nil)}, []string{none, "ValidationError: The provided expression refers to an attribute that does not exist in the item"}},
		{"an update of a wrong type", []types.TransactWriteItem{updateAction("items", a, "ADD v :v", item{":v": num(1)})}, []string{"ValidationError: An operand in the update expression has an incorrect data type"}},
		{"an update into nothing", []types.TransactWriteItem{updateAction("items", a, "SET absent.x = :v", item{":v": num(1)})}, []string{"ValidationError: The document path provided in the update expression is invalid for update"}},
	} {
		f := newFixture(t)
		f.table(t, "items", "S", index("by_owner", types.Projection{ProjectionType: "ALL"}, "owner", "nrank"))
		f.put(t, "items", item{"pk": str("a"), "v": str("A")}, item{"pk": str("b"), "v": str("B")})
		got := reasons(t, f.transact(t, "", c.actions...))
		if strings.Join(got, "\n") != strings.Join(c.want, "\n") {
			t.Errorf("%s:\n got %q\nwant %q", c.name, got, c.want)
		}
		if !same(f.get(t, "items", a), item{"pk": str("a"), "v": str("A")}) || f.get(t, "items", fresh) != nil {
			t.Errorf("%s: something was written", c.name)
		}
	}
}

// covers: H1
func TestTransactionsAreRefusedAsAWhole(t *testing.T) {
	f := newFixture(t)
	f.table(t, "items", "S", index("by_owner", types.Projection{ProjectionType: "ALL"}, "owner"))
	a := item{"pk": str("a")}
	many := func(n, size int) (actions []types.TransactWriteItem) {
		for i := range n {
			actions = append(actions, putAction("items", item{"pk": str(strconv.Itoa(i)), "v": str(strings.Repeat("x", size))}, ""))
		}
		return actions
	}
	both := putAction("items", a, "")
	emptied := updateAction("items", a, "SET #o = :e", item{":e": str("")})
	emptied.Update.ExpressionAttributeNames = map[string]string{"#o": "owner"}
	both.Delete = deleteAction("items", a, "").Delete
	for _, c := range []struct {
		name    string
		actions []types.TransactWriteItem
		code    string
		message string
	}{
		{"two writes on one item", []types.TransactWriteItem{putAction("items", a, ""), deleteAction("items", a, "")}, "ValidationException", "Transaction request cannot include multiple operations on one item"},
		{"a check and a write on one item", []types.TransactWriteItem{putAction("items", a, ""), checkAction("items", a, "attribute_exists(pk)")}, "ValidationException", "Transaction request cannot include multiple operations on one item"},
		{"no actions", []types.TransactWriteItem{}, "ValidationException", "Value '[]' at 'transactItems' failed to satisfy constraint: Member must have length greater than or equal to 1"},
		{"101 actions", many(101, 1), "ValidationException", "Member must have length less than or equal to 100"},
		{"more than 4 MB", many(12, 350_000), "ValidationException", "size cannot exceed 4 MB"},
		{"an item over 400 KB", many(1, 400<<10), "ValidationException", "Item size has exceeded the maximum allowed size"},
		{"an action of nothing", []types.TransactWriteItem{{}}, "ValidationException", "Invalid Request: TransactWriteRequest should contain Delete or Put or Update request"},
		{"an action of two", []types.TransactWriteItem{both}, "ValidationException", "TransactItems can only contain one of Check, Put, Update or Delete"},
		{"a missing table", []types.TransactWriteItem{putAction("items", a, ""), putAction("absent", a, "")}, "ResourceNotFoundException", "Requested resource not found"},
		{"an empty key", []types.TransactWriteItem{putAction("items", item{"pk": str("")}, "")}, "ValidationException", "One or more parameter values are not valid. The AttributeValue for a key attribute cannot contain an empty string value. Key: pk"},
		{"an empty Key", []types.TransactWriteItem{deleteAction("items", item{"pk": str("")}, "")}, "ValidationException", "cannot contain an empty string value. Key: pk"},
		{"an empty index key", []types.TransactWriteItem{putAction("items", item{"pk": str("a"), "owner": str("")}, "")}, "ValidationException", "A value specified for a secondary index key is not supported. The AttributeValue for a key attribute cannot contain an empty string value. IndexName: by_owner, IndexKey: owner"},
		{"an index key updated to empty", []types.TransactWriteItem{emptied}, "ValidationException", "The update expression attempted to update a secondary index key to a value that is not supported. The AttributeValue for a key attribute cannot contain an empty string value."},
		{"an undefined value", []types.TransactWriteItem{putAction("items", a, "v = :undefined")}, "ValidationException", "Invalid ConditionExpression: An expression attribute value used in expression is not defined; attribute value: :undefined"},
		{"an unused value", []types.TransactWriteItem{updateAction("items", a, "REMOVE v", item{":v": num(1)})}, "ValidationException", "Value provided in ExpressionAttributeValues unused in expressions: keys: {:v}"},
		{"a syntax error", []types.TransactWriteItem{putAction("items", a, "hello!")}, "ValidationException", `Invalid ConditionExpression: Syntax error; token: "!", near: "hello!"`},
		{"an empty set", []types.TransactWriteItem{putAction("items", item{"pk": str("a"), "s": &types.AttributeValueMemberSS{}}, "")}, "ValidationException", "An string set  may not be empty"},
	} {
		fails(t, c.name, f.transact(t, "", c.actions...), c.code, c.message)
	}
	if out, err := f.Scan(t.Context(), &sdk.ScanInput{TableName: aws.String("items")}); err != nil || out.Count != 0 {
		t.Errorf("something was written: %+v, %v", out, err)
	}
	if err := f.transact(t, "", many(100, 40_000)...); err != nil {
		t.Errorf("100 actions of nearly 4 MB: %v", err)
	}
}

// covers: H1
func TestAFailedConditionShowsTheItemToWhoAskedForIt(t *testing.T) {
	f := newFixture(t)
	f.table(t, "items", "S")
	f.put(t, "items", item{"pk": str("a"), "v": num(1)})
	condition, asked := aws.String("attribute_not_exists(pk)"), types.ReturnValuesOnConditionCheckFailureAllOld

	err := f.transact(t, "", types.TransactWriteItem{Put: &types.Put{
		TableName: aws.String("items"), Item: item{"pk": str("a")}, ConditionExpression: condition, ReturnValuesOnConditionCheckFailure: asked,
	}}, types.TransactWriteItem{ConditionCheck: &types.ConditionCheck{
		TableName: aws.String("items"), Key: item{"pk": str("b")}, ConditionExpression: aws.String("attribute_exists(pk)"), ReturnValuesOnConditionCheckFailure: asked,
	}})
	got := reasons(t, err)
	if want := `ConditionalCheckFailed: The conditional request failed pk="a";v=1;`; got[0] != want {
		t.Errorf("got %s, want %s", got[0], want)
	}
	if want := `ConditionalCheckFailed: The conditional request failed`; got[1] != want {
		t.Errorf("got %s, want %s", got[1], want)
	}

	var failed *types.ConditionalCheckFailedException
	_, err = f.PutItem(t.Context(), &sdk.PutItemInput{TableName: aws.String("items"), Item: item{"pk": str("a")}, ConditionExpression: condition, ReturnValuesOnConditionCheckFailure: asked})
	if !errors.As(err, &failed) || !same(failed.Item, item{"pk": str("a"), "v": num(1)}) {
		t.Errorf("PutItem: %v", err)
	}
	_, err = f.DeleteItem(t.Context(), &sdk.DeleteItemInput{TableName: aws.String("items"), Key: item{"pk": str("a")}, ConditionExpression: condition})
	if !errors.As(err, &failed) || failed.Item != nil {
		t.Errorf("DeleteItem that does not ask: %v", err)
	}
}

// covers: H1
func TestATokenIsGoodForTenMinutes(t *testing.T) {
	f := newFixture(t)
	f.table(t, "items", "S")
	add := func(n int) types.TransactWriteItem {
		return updateAction("items", item{"pk": str("a")}, "ADD v :v", item{":v": num(n)})
	}
	count := func(want int) {
		t.Helper()
		if got := f.get(t, "items", item{"pk": str("a")}); !same(got, item{"pk": str("a"), "v": num(want)}) {
			t.Errorf("got %s, want %d", showItem(got), want)
		}
	}
	steps := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	steps(f.transact(t, "t1", add(1)))
	steps(f.transact(t, "t1", add(1))) // sent again: nothing happens
	count(1)
	steps(f.transact(t, "t2", add(1))) // another token
	count(2)
	fails(t, "another request under the token", f.transact(t, "t1", add(2)), "IdempotentParameterMismatchException", "same client token")
	fails(t, "more under the token", f.transact(t, "t1", add(1), putAction("items", item{"pk": str("b")}, "")), "IdempotentParameterMismatchException", "same client token")

	f.now = f.now.Add(10*time.Minute - time.Second)
	steps(f.transact(t, "t1", add(1)))
	count(2)
	f.now = f.now.Add(time.Second)
	steps(f.transact(t, "t1", add(1))) // the window has passed
	count(3)
	steps(f.transact(t, "t1", add(1))) // a new one has begun
	count(3)

	// A cancelled transaction uses no token up.
	fails(t, "a failing condition", f.transact(t, "t3", add(1), checkAction("items", item{"pk": str("x")}, "attribute_exists(pk)")), "TransactionCanceledException", "")
	f.put(t, "items", item{"pk": str("x")})
	steps(f.transact(t, "t3", add(1), checkAction("items", item{"pk": str("x")}, "attribute_exists(pk)")))
	count(4)
}

// covers: H1
func TestTokensAreForgottenAfterTheirWindow(t *testing.T) {
	f := newFixture(t)
	f.table(t, "items", "S")
	for i := range 3 {
		if err := f.transact(t, fmt.Sprint("t", i), putAction("items", item{"pk": str("a")}, "")); err != nil {
			t.Fatal(err)
		}
		f.now = f.now.Add(time.Minute)
	}
	left := func() (n int) {
		f.service.store.view(func(r *readTx) *apiError {
			n = r.tx.Bucket(bucketTokens).Stats().KeyN + r.tx.Bucket(bucketTokenExpiry).Stats().KeyN
			return nil
		})
		return n
	}
	if got := left(); got != 6 {
		t.Fatalf("%d entries", got)
	}
	f.now = f.now.Add(8*time.Minute + 30*time.Second) // the first two are past, the third is not
	if _, err := f.service.SweepExpired(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := left(); got != 2 {
		t.Errorf("%d entries left, want those of one token", got)
	}
}

// covers: H1
func TestTransactGetItemsIsRefusedAsAWhole(t *testing.T) {
	f := newFixture(t)
	f.table(t, "items", "S")
	get := func(table string, key item, projection string) types.TransactGetItem {
		g := &types.Get{TableName: &table, Key: key}
		if projection != "" {
			g.ProjectionExpression = &projection
		}
		return types.TransactGetItem{Get: g}
	}
	var big []types.TransactGetItem
	for i := range 11 {
		key := item{"pk": str(strconv.Itoa(i))}
		big = append(big, get("items", key, ""))
		f.put(t, "items", item{"pk": key["pk"], "v": str(strings.Repeat("x", 400_000))})
	}
	a := item{"pk": str("a")}
	for _, c := range []struct {
		name          string
		gets          []types.TransactGetItem
		code, message string
	}{
		{"one item twice", []types.TransactGetItem{get("items", a, ""), get("items", a, "")}, "ValidationException", "Transaction request cannot include multiple operations on one item"},
		{"a missing table", []types.TransactGetItem{get("absent", a, "")}, "ResourceNotFoundException", "Requested resource not found"},
		{"more than 4 MB", big, "ValidationException", "4 MB"},
		{"an empty key", []types.TransactGetItem{get("items", item{"pk": str("")}, "")}, "ValidationException", "cannot contain an empty string value. Key: pk"},
		{"a bad projection", []types.TransactGetItem{get("items", a, "a,")}, "ValidationException", `Invalid ProjectionExpression: Syntax error; token: "<EOF>", near: ","`},
		{"a key of a wrong type", []types.TransactGetItem{get("items", item{"pk": num(1)}, "")}, "TransactionCanceledException", "[ValidationError]"},
	} {
		_, err := f.TransactGetItems(t.Context(), &sdk.TransactGetItemsInput{TransactItems: c.gets})
		fails(t, c.name, err, c.code, c.message)
	}
	out, err := f.TransactGetItems(t.Context(), &sdk.TransactGetItemsInput{TransactItems: []types.TransactGetItem{get("items", item{"pk": str("1")}, "pk"), get("items", a, "")}})
	if err != nil || len(out.Responses) != 2 || !same(out.Responses[0].Item, item{"pk": str("1")}) || out.Responses[1].Item != nil {
		t.Errorf("%+v, %v", out, err)
	}
}
