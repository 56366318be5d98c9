package dynamodb

import (
	"net/http"
	"reflect"
	"strings"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// sdkInputs are the SDK's inputs of all supported operations, and ours.
var sdkInputs = map[string]struct{ theirs, ours reflect.Type }{
	"BatchGetItem":       {reflect.TypeFor[sdk.BatchGetItemInput](), reflect.TypeFor[batchGetItemInput]()},
	"BatchWriteItem":     {reflect.TypeFor[sdk.BatchWriteItemInput](), reflect.TypeFor[batchWriteItemInput]()},
	"CreateTable":        {reflect.TypeFor[sdk.CreateTableInput](), reflect.TypeFor[createTableInput]()},
	"DeleteItem":         {reflect.TypeFor[sdk.DeleteItemInput](), reflect.TypeFor[deleteItemInput]()},
	"DeleteTable":        {reflect.TypeFor[sdk.DeleteTableInput](), reflect.TypeFor[deleteTableInput]()},
	"DescribeTable":      {reflect.TypeFor[sdk.DescribeTableInput](), reflect.TypeFor[describeTableInput]()},
	"DescribeTimeToLive": {reflect.TypeFor[sdk.DescribeTimeToLiveInput](), reflect.TypeFor[describeTimeToLiveInput]()},
	"GetItem":            {reflect.TypeFor[sdk.GetItemInput](), reflect.TypeFor[getItemInput]()},
	"ListTables":         {reflect.TypeFor[sdk.ListTablesInput](), reflect.TypeFor[listTablesInput]()},
	"PutItem":            {reflect.TypeFor[sdk.PutItemInput](), reflect.TypeFor[putItemInput]()},
	"Query":              {reflect.TypeFor[sdk.QueryInput](), reflect.TypeFor[queryInput]()},
	"Scan":               {reflect.TypeFor[sdk.ScanInput](), reflect.TypeFor[scanInput]()},
	"TransactGetItems":   {reflect.TypeFor[sdk.TransactGetItemsInput](), reflect.TypeFor[transactGetItemsInput]()},
	"TransactWriteItems": {reflect.TypeFor[sdk.TransactWriteItemsInput](), reflect.TypeFor[transactWriteItemsInput]()},
	"UpdateItem":         {reflect.TypeFor[sdk.UpdateItemInput](), reflect.TypeFor[updateItemInput]()},
	"UpdateTimeToLive":   {reflect.TypeFor[sdk.UpdateTimeToLiveInput](), reflect.TypeFor[updateTimeToLiveInput]()},
}

// covers: H1
func TestEveryMemberTheSDKKnowsIsSupportedOrRefused(t *testing.T) {
	for _, name := range Operations() {
		in, ok := sdkInputs[name]
		if !ok {
			t.Errorf("operation %s is not compared with the SDK", name)
			continue
		}
		compareShapes(t, name, in.theirs, in.ours)
	}
}

// compareShapes fails for every member that only one of the two lists, and goes
// on into the members that both describe as structures.
func compareShapes(t *testing.T, path string, theirs, ours reflect.Type) {
	t.Helper()
	for i := range theirs.NumField() {
		field := theirs.Field(i)
		if !field.IsExported() {
			continue
		}
		mine, ok := ours.FieldByName(field.Name)
		if !ok {
			t.Errorf("%s.%s is neither supported nor refused", path, field.Name)
			continue
		}
		if mine.Type == reflect.TypeFor[refused]() {
			continue
		}
		inner, innerOurs := element(field.Type), element(mine.Type)
		if inner.Kind() == reflect.Struct && innerOurs.Kind() == reflect.Struct && innerOurs != reflect.TypeFor[rawAttribute]() {
			compareShapes(t, path+"."+field.Name, inner, innerOurs)
		} else if inner.Kind() == reflect.Struct {
			t.Errorf("%s.%s is a structure, decoded as %s", path, field.Name, mine.Type)
		}
	}
	for i := range ours.NumField() {
		if _, ok := theirs.FieldByName(ours.Field(i).Name); !ok {
			t.Errorf("%s.%s does not exist in the SDK", path, ours.Field(i).Name)
		}
	}
}

// element strips pointers, lists and maps from a type.
func element(typ reflect.Type) reflect.Type {
	for {
		switch {
		case typ == reflect.TypeFor[rawItem]() || typ == reflect.TypeFor[nameMap]():
			return typ // leaves
		case typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice || typ.Kind() == reflect.Map:
			typ = typ.Elem()
		case typ.Kind() == reflect.Struct && strings.HasPrefix(typ.Name(), "keyedEntry["):
			value, _ := typ.FieldByName("Value")
			typ = value.Type
		default:
			return typ
		}
	}
}

// covers: H1
func TestTheAttributeTypesAreThoseOfTheSDK(t *testing.T) {
	// A type that the SDK learns shows up here as a member of the union.
	known := []types.AttributeValue{
		&types.AttributeValueMemberS{}, &types.AttributeValueMemberN{}, &types.AttributeValueMemberB{}, &types.AttributeValueMemberBOOL{},
		&types.AttributeValueMemberNULL{}, &types.AttributeValueMemberSS{}, &types.AttributeValueMemberNS{}, &types.AttributeValueMemberBS{},
		&types.AttributeValueMemberL{}, &types.AttributeValueMemberM{},
	}
	for i, v := range known {
		want := strings.TrimPrefix(reflect.TypeOf(v).Elem().Name(), "AttributeValueMember")
		if got := [...]string{"S", "N", "B", "BOOL", "NULL", "SS", "NS", "BS", "L", "M"}[i]; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// covers: H1
func TestRequestsAreRefusedForWhatTheyHoldTooMuch(t *testing.T) {
	f := newFixture(t)
	f.table(t, "items", "S")
	for _, c := range []struct{ name, operation, body, code, message string }{
		{"a legacy condition", "PutItem", `{"TableName":"items","Item":{"pk":{"S":"a"}},"Expected":{}}`, "ValidationException", "/Expected of PutItem is not supported"},
		{"a legacy update", "UpdateItem", `{"TableName":"items","Key":{"pk":{"S":"a"}},"AttributeUpdates":{}}`, "ValidationException", "/AttributeUpdates of UpdateItem"},
		{"a legacy operator", "DeleteItem", `{"TableName":"items","Key":{"pk":{"S":"a"}},"ConditionalOperator":"AND"}`, "ValidationException", "/ConditionalOperator of DeleteItem"},
		{"a legacy projection", "GetItem", `{"TableName":"items","Key":{"pk":{"S":"a"}},"AttributesToGet":["a"]}`, "ValidationException", "/AttributesToGet of GetItem"},
		{"a legacy projection in a batch", "BatchGetItem", `{"RequestItems":{"items":{"Keys":[{"pk":{"S":"a"}}],"AttributesToGet":["a"]}}}`, "ValidationException", "/RequestItems/items/AttributesToGet of BatchGetItem"},
		{"legacy key conditions", "Query", `{"TableName":"items","KeyConditions":{}}`, "ValidationException", "/KeyConditions of Query"},
		{"a legacy query filter", "Query", `{"TableName":"items","QueryFilter":{}}`, "ValidationException", "/QueryFilter of Query"},
		{"a legacy scan filter", "Scan", `{"TableName":"items","ScanFilter":{}}`, "ValidationException", "/ScanFilter of Scan"},
		{"a local index", "CreateTable", `{"TableName":"other","LocalSecondaryIndexes":[]}`, "ValidationException", "/LocalSecondaryIndexes of CreateTable"},
		{"a stream", "CreateTable", `{"TableName":"other","StreamSpecification":{"StreamEnabled":true}}`, "ValidationException", "/StreamSpecification of CreateTable"},
		{"an index's warm throughput", "CreateTable", `{"TableName":"other","GlobalSecondaryIndexes":[{"WarmThroughput":{}}]}`, "ValidationException", "/GlobalSecondaryIndexes/0/WarmThroughput of CreateTable"},
		{"an unknown member", "GetItem", `{"TableName":"items","Key":{"pk":{"S":"a"}},"Consistent":true}`, "ValidationException", "GetItem does not have: /Consistent"},
		{"a member in the wrong case", "GetItem", `{"tableName":"items","Key":{"pk":{"S":"a"}}}`, "ValidationException", "does not have: /tableName"},
		{"an unknown member deep down", "TransactWriteItems", `{"TransactItems":[{"Put":{"TableName":"items","Item":{},"ReturnValues":"NONE"}}]}`, "ValidationException", "Put does not have: /TransactItems/0/Put/ReturnValues"},
		{"an unknown attribute type", "PutItem", `{"TableName":"items","Item":{"pk":{"D":"a"}}}`, "ValidationException", "AttributeValue does not have: /Item/pk/D"},
		{"a member twice", "GetItem", `{"TableName":"items","TableName":"items"}`, "SerializationException", "not valid JSON"},
		{"an attribute twice", "PutItem", `{"TableName":"items","Item":{"pk":{"S":"a"},"pk":{"S":"b"}}}`, "SerializationException", "not valid JSON"},
		{"half a request", "GetItem", `{"TableName":"items"`, "SerializationException", "not valid JSON"},
		{"two requests", "GetItem", `{"TableName":"items","Key":{"pk":{"S":"a"}}}{}`, "SerializationException", "data after"},
		{"no object", "GetItem", `[]`, "SerializationException", "not a JSON object"},
		{"nothing", "GetItem", ``, "SerializationException", ""},
		{"a lone surrogate", "GetItem", `{"TableName":"items","Key":{"pk":{"S":"\ud800"}}}`, "SerializationException", "not valid JSON"},
		{"bad UTF-8", "GetItem", "{\"TableName\":\"items\",\"Key\":{\"pk\":{\"S\":\"\xff\"}}}", "SerializationException", "not valid JSON"},
		{"a null in a list", "PutItem", `{"TableName":"items","Item":{"pk":{"S":"a"},"l":{"L":[null]}}}`, "SerializationException", "null"},
		{"a fraction for an integer", "Scan", `{"TableName":"items","Limit":1.5}`, "SerializationException", "DECIMAL_VALUE cannot be converted to Integer"},
		{"a table ARN", "GetItem", `{"TableName":"arn:aws:dynamodb:us-east-1:000000000000:table/items","Key":{"pk":{"S":"a"}}}`, "ValidationException", "Member must satisfy regular expression pattern"},
	} {
		status, text := f.service.Do(t.Context(), c.operation, []byte(c.body))
		a := parseAnswer(t, status, text)
		if a.status != http.StatusBadRequest || a.kind() != c.code || !strings.Contains(a.message(), c.message) {
			t.Errorf("%s: %s, want %s: %s", c.name, a, c.code, c.message)
		}
	}
}

// covers: H1
func TestViolationsAreToldTogether(t *testing.T) {
	f := newFixture(t)
	long := strings.Repeat("x", 256)
	for _, c := range []struct{ name, operation, body, message string }{
		{"one", "PutItem", `{"Item":{}}`, "1 validation error detected: Value null at 'tableName' failed to satisfy constraint: Member must not be null"},
		{
			"three", "PutItem", `{"TableName":"a","ReturnValues":"old"}`,
			"3 validation errors detected: Value 'a' at 'tableName' failed to satisfy constraint: Member must have length greater than or equal to 3; " +
				"Value null at 'item' failed to satisfy constraint: Member must not be null; " +
				"Value 'old' at 'returnValues' failed to satisfy constraint: Member must satisfy enum value set: [ALL_NEW, UPDATED_OLD, ALL_OLD, NONE, UPDATED_NEW]",
		},
		{"an empty transaction", "TransactWriteItems", `{"TransactItems":[]}`, "1 validation error detected: Value '[]' at 'transactItems' failed to satisfy constraint: Member must have length greater than or equal to 1"},
		{"a place in a list", "TransactWriteItems", `{"TransactItems":[{"Put":{"TableName":"abc","Item":{}}},{"Delete":{"TableName":"a b","Key":{}}}]}`, "1 validation error detected: Value 'a b' at 'transactItems.2.member.delete.tableName' failed to satisfy constraint: Member must satisfy regular expression pattern: [a-zA-Z0-9_.-]+"},
		{"a place in a map", "BatchGetItem", `{"RequestItems":{"abc":{}}}`, "1 validation error detected: Value null at 'requestItems.abc.member.keys' failed to satisfy constraint: Member must not be null"},
		{"a place in a map of lists", "BatchWriteItem", `{"RequestItems":{"abc":[{"PutRequest":{}}]}}`, "1 validation error detected: Value null at 'requestItems.abc.member.1.member.putRequest.item' failed to satisfy constraint: Member must not be null"},
		{"a token too long", "TransactWriteItems", `{"ClientRequestToken":"` + strings.Repeat("t", 37) + `","TransactItems":[{"Put":{"TableName":"abc","Item":{}}}]}`, "at 'clientRequestToken' failed to satisfy constraint: Member must have length less than or equal to 36"},
		{"a limit of nothing", "Query", `{"TableName":"abc","Limit":0}`, "1 validation error detected: Value '0' at 'limit' failed to satisfy constraint: Member must have value greater than or equal to 1"},
		{"a table operation without a table", "DescribeTable", `{}`, "The parameter 'TableName' is required but was not present in the request"},
		{"a table operation with a long name", "DeleteTable", `{"TableName":"` + long + `"}`, "TableName must be at least 3 characters long and at most 255 characters long"},
	} {
		status, text := f.service.Do(t.Context(), c.operation, []byte(c.body))
		if a := parseAnswer(t, status, text); a.kind() != "ValidationException" || !strings.Contains(a.message(), c.message) {
			t.Errorf("%s:\n got %s\nwant %s", c.name, a, c.message)
		}
	}
}

func FuzzRequest(f *testing.F) {
	for name := range operations {
		f.Add(name, `{"TableName":"items","Key":{"pk":{"S":"a"}},"Item":{"pk":{"S":"a"},"n":{"N":"1e5"},"l":{"L":[{"BOOL":true}]}}}`)
	}
	f.Add("TransactWriteItems", `{"TransactItems":[{"Put":{"TableName":"items","Item":{"pk":{"S":"a"}}}},{"Update":{"TableName":"items","Key":{"pk":{"S":"b"}},"UpdateExpression":"SET a = :a","ExpressionAttributeValues":{":a":{"NS":["1"]}}}}]}`)
	f.Add("BatchWriteItem", `{"RequestItems":{"items":[{"PutRequest":{"Item":{"pk":{"S":"a"}}}}]}}`)
	f.Add("Query", `{"TableName":"items","KeyConditionExpression":"pk = :p","ExpressionAttributeValues":{":p":{"S":"a"}},"ExclusiveStartKey":{"pk":{"S":"a"}}}`)
	f.Add("UpdateTimeToLive", `{"TableName":"items","TimeToLiveSpecification":{"AttributeName":"t","Enabled":true}}`)
	f.Add("\x8a", "")
	fixture := newFixture(f)
	fixture.table(f, "items", "S")
	f.Fuzz(func(t *testing.T, operation, body string) {
		if operation == "DeleteTable" {
			return
		}
		status, answer := fixture.service.Do(t.Context(), operation, []byte(body))
		if status != http.StatusOK && status != http.StatusBadRequest {
			t.Errorf("%s %s: %d %s", operation, body, status, answer)
		}
		parseAnswer(t, status, answer)
	})
}
