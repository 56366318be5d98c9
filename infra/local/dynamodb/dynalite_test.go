package dynamodb

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The differential test sends the same random requests, valid and invalid, to
// this package and to dynalite, and compares answers and error texts. Where the
// two differ, one of knownFaults must say why dynalite is wrong.
//
// PX_DYNALITE is the directory of the npm package. PX_DYNALITE_SEED chooses other
// requests than the usual ones, "random" new ones every time;
// PX_DYNALITE_REQUESTS sets their number.

type answer struct {
	status int
	body   map[string]any
}

func (a answer) failed() bool { return a.status != http.StatusOK }

// kind is the name of an error without its namespace.
func (a answer) kind() string {
	typ, _ := a.body["__type"].(string)
	return typ[strings.LastIndexByte(typ, '#')+1:]
}

func (a answer) message() string {
	for _, member := range []string{"message", "Message"} {
		if m, ok := a.body[member].(string); ok {
			return m
		}
	}
	return ""
}

func (a answer) String() string {
	text, _ := json.Marshal(a.body)
	return strconv.Itoa(a.status) + " " + string(text)
}

// endpoint answers requests.
type endpoint func(t testing.TB, operation string, request map[string]any) answer

func skipOrFail(t testing.TB, reason string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal(reason)
	}
	t.Skip(reason)
}

func startDynalite(t testing.TB) endpoint {
	t.Helper()
	dir := os.Getenv("PX_DYNALITE")
	if dir == "" {
		skipOrFail(t, "PX_DYNALITE does not name the directory of the npm package dynalite")
	}
	cmd := exec.Command("node", "testdata/dynalite.js", dir)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stdin.Close()
		cmd.Process.Kill()
		cmd.Wait()
	})
	port, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatalf("dynalite did not start: %v", err)
	}
	url := "http://127.0.0.1:" + strings.TrimSpace(port)
	return func(t testing.TB, operation string, request map[string]any) answer {
		t.Helper()
		body, _ := json.Marshal(request)
		r, _ := http.NewRequest(http.MethodPost, url, bytes.NewReader(body))
		r.Header.Set("Content-Type", contentType)
		r.Header.Set("X-Amz-Target", targetPrefix+operation)
		r.Header.Set("X-Amz-Date", "20261130T120000Z")
		r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=a/20261130/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=a")
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatalf("dynalite died of %s %s: %v", operation, body, err)
		}
		defer response.Body.Close()
		text, _ := io.ReadAll(response.Body)
		return parseAnswer(t, response.StatusCode, text)
	}
}

func parseAnswer(t testing.TB, status int, text []byte) answer {
	t.Helper()
	a := answer{status: status}
	if err := json.Unmarshal(text, &a.body); err != nil {
		t.Fatalf("answer %d %q: %v", status, text, err)
	}
	return a
}

func ownEndpoint(s *Service) endpoint {
	return func(t testing.TB, operation string, request map[string]any) answer {
		t.Helper()
		body, _ := json.Marshal(request)
		status, text := s.Do(t.Context(), operation, body)
		return parseAnswer(t, status, text)
	}
}

// difference is a request that the two answered differently.
type difference struct {
	operation    string
	request      map[string]any
	ours, theirs answer
}

func (d difference) String() string {
	request, _ := json.Marshal(d.request)
	return fmt.Sprintf("%s %s\n    ours: %s\ndynalite: %s", d.operation, request, d.ours, d.theirs)
}

func (d difference) ourMessage(parts ...string) bool {
	return d.ours.failed() && containsAll(d.ours.message(), parts)
}
func (d difference) theirMessage(parts ...string) bool {
	return d.theirs.failed() && containsAll(d.theirs.message(), parts)
}

func containsAll(s string, parts []string) bool {
	return !slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(s, p) })
}

// knownFaults are differences where AWS does what this package does.
var knownFaults = []struct {
	fault string
	holds func(difference) bool
}{
	{"the text of a syntax error is that of its parser generator", func(d difference) bool {
		prefix := func(a answer) string { head, _, _ := strings.Cut(a.message(), "Syntax error;"); return head }
		return d.ourMessage("Syntax error; token:") && d.theirMessage("Syntax error; ") && prefix(d.ours) == prefix(d.theirs)
	}},
	{"an empty key value in a Key is called invalid, where AWS says not valid", func(d difference) bool {
		return d.ourMessage("One or more parameter values are not valid. The AttributeValue for a key attribute cannot contain an empty") &&
			d.theirMessage("One or more parameter values were invalid: The AttributeValue for a key attribute cannot contain an empty")
	}},
	{"a batch takes keys for duplicates that lack attributes or are empty", func(d difference) bool {
		return d.operation == "BatchGetItem" && d.theirMessage("contains duplicates") && (d.ourMessage("does not match the schema") || d.ourMessage("empty"))
	}},
	{"a scan may have any number of segments", func(d difference) bool { return d.ourMessage("'totalSegments'", "1000000") }},
	{"a scan of an index does not refuse consistent reads", func(d difference) bool {
		return d.operation == "Scan" && d.ourMessage("Consistent reads are not supported on global secondary indexes")
	}},
	{"of several conflicts between paths the last is told", func(d difference) bool {
		return d.ourMessage("Two document paths conflict") && d.theirMessage("Two document paths conflict")
	}},
	{"DeleteItem takes any ReturnValues", func(d difference) bool {
		return d.operation == "DeleteItem" && d.ourMessage("ReturnValues can only be ALL_OLD or NONE")
	}},
	{"a key condition may compare with an empty key value", func(d difference) bool {
		return d.operation == "Query" && d.ourMessage("One or more parameter values are not valid. The AttributeValue for a key attribute cannot contain an empty")
	}},
	{"of two values of wrong JSON types it does not tell the one that comes first", func(d difference) bool {
		return d.ours.kind() == "SerializationException" && d.theirs.kind() == "SerializationException"
	}},
	{"a wrong type for an index key is told before a later action's fault", func(d difference) bool {
		return d.operation == "UpdateItem" && d.ours.failed() && d.theirMessage("secondary index key to unsupported type")
	}},
	{"sums may have more than 38 digits", func(d difference) bool {
		return d.operation == "UpdateItem" && d.ourMessage("Number overflow. Attempting to store")
	}},
	{"the key of an index may be empty", func(d difference) bool {
		return d.ourMessage("One or more parameter values are not valid.", "secondary index key")
	}},
	{"IN may compare with its own first operand", func(d difference) bool { return d.ourMessage("must be distinct", "operator: IN") }},
	{"operators take constants that have no order", func(d difference) bool {
		return slices.ContainsFunc([]string{"<", "<=", ">", ">=", "BETWEEN"}, func(operator string) bool {
			return d.ourMessage("Incorrect operand type", "operator or function: "+operator+", operand type:")
		})
	}},
	{"the operand type of ADD and DELETE lacks the type set that AWS names", func(d difference) bool {
		return d.ourMessage(", typeSet: ALLOWED_FOR_") && strings.HasPrefix(d.ours.message(), d.theirs.message())
	}},
}

// covers: H1
func TestAnswersAreThoseOfDynalite(t *testing.T) {
	dynalite := startDynalite(t)
	f := newFixture(t)
	own := ownEndpoint(f.service)
	seed, requests := uint64(1), 3000
	if s := os.Getenv("PX_DYNALITE_SEED"); s == "random" {
		seed = rand.Uint64()
	} else if s != "" {
		seed, _ = strconv.ParseUint(s, 10, 64)
	}
	if s := os.Getenv("PX_DYNALITE_REQUESTS"); s != "" {
		requests, _ = strconv.Atoi(s)
	}
	t.Logf("PX_DYNALITE_SEED=%d PX_DYNALITE_REQUESTS=%d", seed, requests)
	g := &requestGenerator{Rand: rand.New(rand.NewPCG(seed, 1))}
	for _, table := range differentialTables() {
		for name, e := range map[string]endpoint{"ours": own, "dynalite": dynalite} {
			if a := e(t, "CreateTable", table); a.failed() {
				t.Fatalf("%s: %s", name, a)
			}
		}
	}
	waitForTables(t, dynalite)

	succeeded, failed, different, tolerated := 0, 0, 0, map[string]int{}
	for range requests {
		operation, request := g.request()
		d := difference{operation, request, own(t, operation, request), dynalite(t, operation, request)}
		if d.ours.failed() {
			failed++
		} else {
			succeeded++
		}
		if operation == "UpdateItem" && !d.ours.failed() && agree(d) {
			d.operation, d.request = "GetItem", map[string]any{"TableName": request["TableName"], "Key": request["Key"]}
			d.ours, d.theirs = own(t, "GetItem", d.request), dynalite(t, "GetItem", d.request)
			if !agree(d) {
				update, _ := json.Marshal(request)
				t.Errorf("seed %d: after %s: %s", seed, update, d)
			}
		}
		if agree(d) {
			continue
		}
		fault := knownFault(d)
		if fault == "" {
			t.Errorf("seed %d: %s", seed, d)
			if different++; different == 10 {
				return
			}
		}
		tolerated[fault]++
		g.forget(t, d, own, dynalite)
	}
	t.Logf("%d answered, %d refused; tolerated: %v", succeeded, failed, tolerated)
	if succeeded < requests/10 || failed < requests/10 {
		t.Errorf("of %d requests %d were answered and %d refused: the generator is one-sided", requests, succeeded, failed)
	}
}

// covers: H1
func TestTablesAreRefusedAsByDynalite(t *testing.T) {
	dynalite, own := startDynalite(t), ownEndpoint(newFixture(t).service)
	compare := func(name, operation, body string) {
		t.Helper()
		var request map[string]any
		if err := json.Unmarshal([]byte(body), &request); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		d := difference{operation, request, own(t, operation, request), dynalite(t, operation, request)}
		if !d.ours.failed() || !agree(d) {
			t.Errorf("%s: %s", name, d)
		}
	}
	for _, c := range refusedTables {
		if !c.ours {
			compare(c.name, "CreateTable", `{"TableName":"table",`+c.body+`}`)
		}
	}
	for _, operation := range []string{"CreateTable", "DescribeTable", "DeleteTable", "DescribeTimeToLive"} {
		compare("no name", operation, `{}`)
		compare("a short name", operation, `{"TableName":"ab"}`)
		compare("a long name", operation, `{"TableName":"`+strings.Repeat("x", 256)+`"}`)
		compare("a wrong name", operation, `{"TableName":"a b c"}`)
		compare("a name of a wrong type", operation, `{"TableName":{}}`)
		if operation != "CreateTable" {
			compare("a name of nothing", operation, `{"TableName":"absent"}`)
		}
	}
	compare("a limit of nothing", "ListTables", `{"Limit":0}`)
	compare("a limit of too much", "ListTables", `{"Limit":101,"ExclusiveStartTableName":"a"}`)
}

func knownFault(d difference) string {
	for _, k := range knownFaults {
		if k.holds(d) {
			return k.fault
		}
	}
	return ""
}

func waitForTables(t testing.TB, e endpoint) {
	for _, table := range differentialTables() {
		for {
			a := e(t, "DescribeTable", map[string]any{"TableName": table["TableName"]})
			if description, _ := a.body["Table"].(map[string]any); description["TableStatus"] == "ACTIVE" {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
}

// agree compares the answers: errors by type and text, results by content. The
// order of sets, of scans and of batches does not count.
func agree(d difference) bool {
	if d.ours.failed() || d.theirs.failed() {
		return d.ours.status == d.theirs.status && d.ours.kind() == d.theirs.kind() &&
			quotedComposite.ReplaceAllString(d.ours.message(), "") == quotedComposite.ReplaceAllString(d.theirs.message(), "")
	}
	if d.operation == "Scan" || d.request["IndexName"] != nil {
		return d.request["ExclusiveStartKey"] != nil || sameScan(d.ours.body, d.theirs.body)
	}
	return reflect.DeepEqual(canonical(d.ours.body, d.operation), canonical(d.theirs.body, d.operation))
}

// quotedComposite is a list or map in a message. DynamoDB, dynalite and this
// package show them in three different ways.
var quotedComposite = regexp.MustCompile(`'[\[{].*[\]}]'`)

// sameScan compares two pages of a scan, or of an index, where many items have
// the same key. Their order is that of the hashes, which differ, so that only
// whole pages have the same content.
func sameScan(a, b map[string]any) bool {
	if a["LastEvaluatedKey"] != nil || b["LastEvaluatedKey"] != nil {
		return (a["LastEvaluatedKey"] == nil) == (b["LastEvaluatedKey"] == nil) && a["ScannedCount"] == b["ScannedCount"]
	}
	return reflect.DeepEqual(canonical(a, "Scan"), canonical(b, "Scan"))
}

// canonical sorts what has no order.
func canonical(v any, member string) any {
	switch v := v.(type) {
	case map[string]any:
		c := make(map[string]any, len(v))
		for name, e := range v {
			next := name
			if member == "Scan" && name == "Items" || member == "Responses" {
				next = "unordered"
			}
			c[name] = canonical(e, next)
		}
		return c
	case []any:
		c := make([]any, len(v))
		for i, e := range v {
			c[i] = canonical(e, "")
		}
		if member == "SS" || member == "NS" || member == "BS" || member == "unordered" {
			slices.SortFunc(c, func(a, b any) int {
				ta, _ := json.Marshal(a)
				tb, _ := json.Marshal(b)
				return bytes.Compare(ta, tb)
			})
		}
		return c
	}
	return v
}

func differentialTables() []map[string]any {
	attribute := func(name, kind string) any { return map[string]any{"AttributeName": name, "AttributeType": kind} }
	key := func(names ...string) (schema []any) {
		for i, n := range names {
			schema = append(schema, map[string]any{"AttributeName": n, "KeyType": []string{"HASH", "RANGE"}[i]})
		}
		return schema
	}
	return []map[string]any{
		{"TableName": "single", "BillingMode": "PAY_PER_REQUEST", "AttributeDefinitions": []any{attribute("pk", "S")}, "KeySchema": key("pk")},
		{
			"TableName": "paired", "BillingMode": "PAY_PER_REQUEST",
			"AttributeDefinitions": []any{attribute("pk", "S"), attribute("sk", "N"), attribute("g", "S"), attribute("h", "N")},
			"KeySchema":            key("pk", "sk"),
			"GlobalSecondaryIndexes": []any{
				map[string]any{"IndexName": "all", "KeySchema": key("g", "h"), "Projection": map[string]any{"ProjectionType": "ALL"}},
				map[string]any{"IndexName": "keys", "KeySchema": key("g"), "Projection": map[string]any{"ProjectionType": "KEYS_ONLY"}},
			},
		},
		{"TableName": "binary", "BillingMode": "PAY_PER_REQUEST", "AttributeDefinitions": []any{attribute("pk", "N"), attribute("sk", "B")}, "KeySchema": key("pk", "sk")},
	}
}

// requestGenerator makes random requests over a few tables, keys, attributes
// and values, so that they meet each other.
type requestGenerator struct {
	*rand.Rand

	names  map[string]any // of the request at hand
	values map[string]any
}

func pick[T any](g *requestGenerator, from ...T) T { return from[g.IntN(len(from))] }

// rarely is true once in n times.
func (g *requestGenerator) rarely(n int) bool { return g.IntN(n) == 0 }

var tableKeys = map[string][][2]string{
	"single": {{"pk", "S"}},
	"paired": {{"pk", "S"}, {"sk", "N"}},
	"binary": {{"pk", "N"}, {"sk", "B"}},
}

func (g *requestGenerator) table() string { return pick(g, "single", "paired", "paired", "binary") }

func (g *requestGenerator) key(table string) map[string]any {
	key := map[string]any{}
	for _, k := range tableKeys[table] {
		if g.rarely(60) {
			continue
		}
		key[k[0]] = g.scalar(k[1])
		if g.rarely(60) {
			key[k[0]] = g.value(1)
		}
		if g.rarely(40) {
			key[k[0]] = pick(g, map[string]any{"S": ""}, map[string]any{"B": ""}, map[string]any{"S": "é"})
		}
	}
	if g.rarely(60) {
		key["extra"] = g.scalar("S")
	}
	return key
}

// scalar never makes an empty string or binary, which dynalite takes for nothing,
// and no string whose size in UTF-8 differs from that in UTF-16.
func (g *requestGenerator) scalar(kind string) map[string]any {
	switch kind {
	case "S":
		return map[string]any{"S": pick(g, "a", "b", "ab", "abc", "c", "a/b")}
	case "N":
		return map[string]any{"N": pick(g, "0", "1", "2", "-1", "1.5", "10", "1e2", "-0.001", "100", "12345678901234567890123456789012345678")}
	}
	return map[string]any{"B": pick(g, "AA==", "AAE=", "/w==", "YQ==")}
}

func (g *requestGenerator) badScalar() map[string]any {
	return pick(g,
		map[string]any{"N": "x"}, map[string]any{"N": ""}, map[string]any{"N": "1e126"}, map[string]any{"N": "1e-131"},
		map[string]any{"N": strings.Repeat("1", 39)}, map[string]any{"SS": []any{}}, map[string]any{"NS": []any{}}, map[string]any{"BS": []any{}},
		map[string]any{"SS": []any{"a", "a"}}, map[string]any{"BS": []any{"YQ==", "YQ=="}}, map[string]any{"NS": []any{"1", "1"}},
		map[string]any{"NULL": false}, map[string]any{}, map[string]any{"S": "a", "N": "1"},
		map[string]any{"S": 1}, map[string]any{"S": true}, map[string]any{"N": 1}, map[string]any{"B": "a"}, map[string]any{"B": "YR=="},
		map[string]any{"L": map[string]any{}}, map[string]any{"M": []any{}}, map[string]any{"SS": "a"}, map[string]any{"S": []any{}}, map[string]any{"S": map[string]any{}},
	)
}

func (g *requestGenerator) value(depth int) map[string]any {
	if g.rarely(150) {
		return g.badScalar()
	}
	kinds := []string{"S", "S", "N", "N", "N", "B", "BOOL", "NULL", "SS", "NS", "BS"}
	if depth > 0 {
		kinds = append(kinds, "L", "M", "L", "M")
	}
	switch kind := pick(g, kinds...); kind {
	case "BOOL":
		return map[string]any{"BOOL": true} // to dynalite, false is nothing
	case "NULL":
		return map[string]any{"NULL": true}
	case "SS":
		return map[string]any{"SS": g.some("a", "b", "ab", "é")}
	case "NS":
		return map[string]any{"NS": g.some("1", "2", "10", "-1", "1.5")}
	case "BS":
		return map[string]any{"BS": g.some("YQ==", "AAE=", "/w==")}
	case "L":
		elements := []any{}
		for range g.IntN(4) {
			elements = append(elements, g.value(depth-1))
		}
		return map[string]any{"L": elements}
	case "M":
		return map[string]any{"M": g.attributes(depth-1, "a", "b", "x")}
	default:
		return g.scalar(kind)
	}
}

// some returns a random part of the members, at least one.
func (g *requestGenerator) some(members ...string) []any {
	some := []any{pick(g, members...)}
	for _, m := range members {
		if g.rarely(2) && m != some[0] {
			some = append(some, m)
		}
	}
	return some
}

func (g *requestGenerator) attributes(depth int, names ...string) map[string]any {
	m := map[string]any{}
	for _, n := range names {
		if g.rarely(2) {
			m[n] = g.value(depth)
		}
	}
	return m
}

func (g *requestGenerator) item(table string) map[string]any {
	item := g.attributes(2, "a", "b", "m", "l", "x")
	if table == "paired" {
		if g.rarely(2) {
			item["g"] = map[string]any{"S": pick(g, "p", "q")}
		}
		if g.rarely(2) {
			item["h"] = g.scalar("N")
		}
		if g.rarely(40) {
			item[pick(g, "g", "h")] = g.value(1)
		}
	}
	maps.Copy(item, g.key(table))
	return item
}

// name returns an attribute name for an expression, perhaps as a placeholder.
func (g *requestGenerator) name(attribute string) string {
	if g.rarely(3) {
		placeholder := "#" + attribute
		g.names[placeholder] = attribute
		return placeholder
	}
	return attribute
}

func (g *requestGenerator) path() string {
	if g.rarely(150) {
		return pick(g, "#undefined", "status", "m.count", "pk.a", "1a", "a[-1]", "a[b]", "a.", "")
	}
	path := g.name(pick(g, "a", "b", "m", "l", "x", "a", "b", "g"))
	for g.rarely(3) {
		if g.rarely(2) {
			path += "." + g.name(pick(g, "a", "x"))
		} else {
			path += pick(g, "[0]", "[1]", "[3]")
		}
	}
	return path
}

func (g *requestGenerator) placeholder(value map[string]any) string {
	name := ":v" + strconv.Itoa(len(g.values))
	g.values[name] = value
	return name
}

func (g *requestGenerator) constant() string {
	if g.rarely(200) {
		return ":undefined"
	}
	return g.placeholder(g.value(1))
}

func (g *requestGenerator) operand() string {
	switch g.IntN(12) {
	case 0:
		return "size(" + g.path() + ")"
	case 1:
		return "(" + g.path() + ")"
	case 2, 3, 4, 5, 6:
		return g.constant()
	}
	return g.path()
}

func (g *requestGenerator) condition(depth int) string {
	if g.rarely(200) {
		return pick(g, "a", "((a = b))", "a = = b", "a =", "size(a)", "unknown(a)", "attribute_exists(a) = b", "a IN ()", "NOT", "a AND b", "a = a", "contains(a, a)", "attribute_exists(:v)")
	}
	if depth > 0 && g.rarely(2) {
		switch g.IntN(3) {
		case 0:
			return g.condition(depth-1) + " AND " + g.condition(depth-1)
		case 1:
			return "(" + g.condition(depth-1) + ") OR " + g.condition(depth-1)
		}
		return "NOT (" + g.condition(depth-1) + " and " + g.condition(0) + ")"
	}
	switch g.IntN(9) {
	case 0:
		return "attribute_exists(" + g.path() + ")"
	case 1:
		return "attribute_not_exists(" + g.path() + ")"
	case 2:
		return "attribute_type(" + g.path() + ", " + g.placeholder(map[string]any{"S": pick(g, "S", "N", "L", "M", "SS", "BOOL", "X")}) + ")"
	case 3:
		return "begins_with(" + g.path() + ", " + g.placeholder(g.scalar(pick(g, "S", "S", "B", "N"))) + ")"
	case 4:
		return "contains(" + g.path() + ", " + g.placeholder(g.scalar(pick(g, "S", "N", "B"))) + ")"
	case 5:
		return g.operand() + " BETWEEN " + g.orderedConstant() + " AND " + g.orderedConstant()
	case 6:
		return g.operand() + " IN (" + g.plainConstant() + ", " + g.plainConstant() + ")" // dynalite dies of paths that lead nowhere
	}
	operator := pick(g, "=", "<>", "<", "<=", ">", ">=")
	if operator != "=" && operator != "<>" {
		return g.operand() + " " + operator + " " + g.orderedConstant()
	}
	// To dynalite, two paths that lead nowhere are equal, and no two maps are: so
	// one side is a constant that is neither map nor list.
	return g.operand() + " " + operator + " " + g.plainConstant()
}

func (g *requestGenerator) plainConstant() string { return g.placeholder(g.value(0)) }

func (g *requestGenerator) orderedConstant() string {
	return g.placeholder(g.scalar(pick(g, "S", "N", "N", "B")))
}

func (g *requestGenerator) update() string {
	if g.rarely(100) {
		return pick(g, "SET", "SET a", "SET a =", "REMOVE", "a = b", "SET a = b + ", "SET a = b SET b = a", "SET a = a, a = b", "REMOVE a, a.b", "REMOVE a[0], a.b", "SET a = size(b)x", "ADD a b", "SET a = unknown(b)", "SET pk = a", "SET a = if_not_exists(a)", "SET a = if_not_exists(:v, b)")
	}
	var sections []string
	if g.rarely(2) {
		var sets []string
		for range 1 + g.IntN(2) {
			target := g.path()
			if strings.ContainsAny(target, ".[") { // dynalite dies of what it puts into itself
				sets = append(sets, target+" = "+g.constant())
			} else {
				sets = append(sets, target+" = "+g.setValue())
			}
		}
		sections = append(sections, pick(g, "SET ", "set ")+strings.Join(sets, ", "))
	}
	if g.rarely(3) {
		sections = append(sections, "REMOVE "+g.path())
	}
	if g.rarely(3) {
		sections = append(sections, "ADD "+g.path()+" "+g.placeholder(g.setOrNumber()))
	}
	if g.rarely(4) {
		sections = append(sections, "DELETE "+g.path()+" "+g.placeholder(g.setOrNumber()))
	}
	if len(sections) == 0 {
		return "REMOVE " + g.path()
	}
	return strings.Join(sections, " ")
}

func (g *requestGenerator) setOrNumber() map[string]any {
	if g.rarely(30) {
		return g.value(1)
	}
	return pick(g, map[string]any{"SS": g.some("a", "b", "é")}, map[string]any{"NS": g.some("1", "2", "10")},
		map[string]any{"BS": g.some("YQ==", "/w==")}, map[string]any{"N": pick(g, "1", "-2", "0.5")})
}

func (g *requestGenerator) setValue() string {
	switch g.IntN(6) {
	case 0:
		return g.path() + pick(g, " + ", " - ") + g.placeholder(g.scalar("N"))
	case 1:
		return "if_not_exists(" + g.path() + ", " + g.constant() + ")"
	case 2:
		return "list_append(" + g.path() + ", " + g.placeholder(map[string]any{"L": []any{g.value(0)}}) + ")"
	case 3:
		return g.path()
	}
	return g.constant()
}

func (g *requestGenerator) projection() string {
	paths := []string{g.path()}
	for g.rarely(2) {
		paths = append(paths, g.path())
	}
	return strings.Join(paths, pick(g, ",", ", "))
}

// request makes one request.
func (g *requestGenerator) request() (operation string, request map[string]any) {
	g.names, g.values = map[string]any{}, map[string]any{}
	table := g.table()
	r := map[string]any{"TableName": table}
	if g.rarely(150) {
		r["TableName"] = pick[any](g, "missing", "a", "", strings.Repeat("x", 256), "a b", nil, 1)
	}
	operation = pick(g, "PutItem", "PutItem", "UpdateItem", "UpdateItem", "UpdateItem", "DeleteItem", "GetItem", "Query", "Query", "Scan", "BatchGetItem", "BatchWriteItem")
	switch operation {
	case "PutItem":
		r["Item"] = g.item(table)
		g.maybeCondition(r)
		g.maybe(r, 2, "ReturnValues", "ALL_OLD", "NONE", "ALL_OLD", "ALL_NEW", "X")
	case "UpdateItem":
		r["Key"] = g.key(table)
		if !g.rarely(20) {
			r["UpdateExpression"] = g.update()
		}
		g.maybeCondition(r)
		g.maybe(r, 1, "ReturnValues", "ALL_OLD", "ALL_NEW", "UPDATED_OLD", "UPDATED_NEW", "NONE")
	case "DeleteItem":
		r["Key"] = g.key(table)
		g.maybeCondition(r)
		g.maybe(r, 2, "ReturnValues", "ALL_OLD", "NONE", "UPDATED_OLD")
	case "GetItem":
		r["Key"] = g.key(table)
		if g.rarely(2) {
			r["ProjectionExpression"] = g.projection()
		}
		g.maybe(r, 2, "ConsistentRead", true, false)
		g.maybe(r, 3, "ReturnConsumedCapacity", "TOTAL", "INDEXES", "NONE", "total")
	case "Query":
		g.query(r, table)
	case "Scan":
		g.scan(r, table)
	case "BatchGetItem":
		r = map[string]any{"RequestItems": g.batchGet()}
	case "BatchWriteItem":
		r = map[string]any{"RequestItems": g.batchWrite()}
	}
	g.define(operation, r)
	return operation, r
}

// define adds the names and values that the expressions use, rarely one more or
// one fewer.
func (g *requestGenerator) define(operation string, r map[string]any) {
	if strings.HasPrefix(operation, "Batch") {
		return
	}
	if g.rarely(100) {
		g.names["#unused"] = "a"
	}
	if g.rarely(100) && operation != "GetItem" {
		g.values[":unused"] = map[string]any{"S": "a"}
	}
	if g.rarely(200) {
		g.names[pick(g, "a", "#", "#a b", "")] = "a"
	}
	if len(g.names) > 0 || g.rarely(200) {
		r["ExpressionAttributeNames"] = g.names
	}
	if len(g.values) > 0 || g.rarely(200) && operation != "GetItem" {
		r["ExpressionAttributeValues"] = g.values
	}
}

func (g *requestGenerator) maybe(r map[string]any, n int, member string, values ...any) {
	if g.rarely(n) {
		r[member] = pick(g, values...)
	}
}

func (g *requestGenerator) maybeCondition(r map[string]any) {
	if g.rarely(2) {
		r["ConditionExpression"] = g.condition(2)
	}
}

func (g *requestGenerator) query(r map[string]any, table string) {
	keys := tableKeys[table]
	if table == "paired" && g.rarely(2) {
		r["IndexName"] = pick(g, "all", "keys", "all", "keys", "none")
		keys = [][2]string{{"g", "S"}, {"h", "N"}}
		if r["IndexName"] == "keys" {
			keys = keys[:1]
		}
	}
	hash := g.scalar(keys[0][1])
	if keys[0][0] == "g" {
		hash = map[string]any{"S": pick(g, "p", "q")}
	}
	condition := g.name(keys[0][0]) + " = " + g.placeholder(hash)
	if g.rarely(40) {
		condition = g.name(keys[0][0]) + pick(g, " < ", " <> ") + g.placeholder(hash)
	}
	if len(keys) == 2 && g.rarely(2) || g.rarely(60) {
		sort := keys[len(keys)-1]
		value := func() string { return g.placeholder(g.scalar(sort[1])) }
		sortCondition := g.name(sort[0]) + " " + pick(g, "=", "<", "<=", ">", ">=", "<>") + " " + value()
		switch g.IntN(5) {
		case 0:
			sortCondition = g.name(sort[0]) + " BETWEEN " + value() + " AND " + value()
		case 1:
			sortCondition = "begins_with(" + g.name(sort[0]) + ", " + value() + ")"
		}
		condition = pick(g, condition+" AND "+sortCondition, sortCondition+" and "+condition)
	}
	if g.rarely(60) {
		switch g.IntN(4) {
		case 0:
			condition += " AND a = " + g.constant()
		case 1:
			condition += " OR a = " + g.constant()
		case 2:
			condition += " AND " + g.condition(1)
		case 3:
			condition, g.names, g.values = "", map[string]any{}, map[string]any{}
		}
	}
	if !g.rarely(100) {
		r["KeyConditionExpression"] = condition
	}
	g.maybe(r, 3, "ScanIndexForward", false, true)
	g.page(r, table)
}

func (g *requestGenerator) scan(r map[string]any, table string) {
	if table == "paired" && g.rarely(3) {
		r["IndexName"] = pick(g, "all", "keys", "none")
	}
	if g.rarely(10) {
		r["TotalSegments"] = pick[any](g, 1, 1, 2, 0, 1000001)
		if !g.rarely(10) {
			r["Segment"] = pick[any](g, 0, 0, 0, 1, -1)
		}
		if r["TotalSegments"] == 2 { // the segments differ, only faults can be compared
			r["Segment"] = pick[any](g, 2, 3, -1)
		}
	}
	g.page(r, table)
}

func (g *requestGenerator) page(r map[string]any, table string) {
	if g.rarely(4) && r["IndexName"] == nil {
		r["FilterExpression"] = g.condition(1)
	}
	if g.rarely(4) && r["IndexName"] == nil {
		r["ProjectionExpression"] = g.projection()
	}
	g.maybe(r, 4, "Limit", 1, 2, 3, 100, 0, -1)
	g.maybe(r, 6, "ConsistentRead", true, false)
	if r["ProjectionExpression"] == nil {
		g.maybe(r, 8, "Select", "COUNT", "ALL_ATTRIBUTES", "COUNT", "X")
	}
	if g.rarely(12) {
		r["ExclusiveStartKey"] = g.key(table)
	}
}

func (g *requestGenerator) batchGet() map[string]any {
	items := map[string]any{}
	table := g.table()
	keys := []any{}
	for range g.IntN(5) {
		keys = append(keys, g.key(table))
	}
	get := map[string]any{"Keys": keys}
	if g.rarely(4) {
		get["ProjectionExpression"] = g.projection()
	}
	if len(g.names) > 0 {
		get["ExpressionAttributeNames"] = g.names
	}
	items[table] = get
	if g.rarely(100) {
		return map[string]any{}
	}
	if g.rarely(60) {
		return map[string]any{pick(g, "missing", "a", "a b"): get}
	}
	return items
}

func (g *requestGenerator) batchWrite() map[string]any {
	table := g.table()
	requests := []any{}
	for range g.IntN(5) {
		if g.rarely(3) {
			requests = append(requests, map[string]any{"DeleteRequest": map[string]any{"Key": g.key(table)}})
		} else {
			requests = append(requests, map[string]any{"PutRequest": map[string]any{"Item": g.item(table)}})
		}
	}
	if g.rarely(60) {
		requests = append(requests, map[string]any{})
	}
	if g.rarely(60) {
		return map[string]any{pick(g, "missing", "a", "a b"): requests}
	}
	return map[string]any{table: requests}
}

// forget removes, on both sides, the items that a request may have left
// different.
func (g *requestGenerator) forget(t testing.TB, d difference, ends ...endpoint) {
	table, _ := d.request["TableName"].(string)
	remove := func(table string, from any) {
		item, ok := from.(map[string]any)
		if !ok {
			return
		}
		key := map[string]any{}
		for _, k := range tableKeys[table] {
			if item[k[0]] == nil {
				return // the request cannot have changed anything
			}
			key[k[0]] = item[k[0]]
		}
		for _, e := range ends {
			e(t, "DeleteItem", map[string]any{"TableName": table, "Key": key})
		}
	}
	switch d.operation {
	case "PutItem":
		remove(table, d.request["Item"])
	case "UpdateItem", "DeleteItem":
		remove(table, d.request["Key"])
	case "BatchWriteItem":
		for table, requests := range d.request["RequestItems"].(map[string]any) {
			for _, r := range requests.([]any) {
				for _, inner := range r.(map[string]any) {
					for _, item := range inner.(map[string]any) {
						remove(table, item)
					}
				}
			}
		}
	}
}
