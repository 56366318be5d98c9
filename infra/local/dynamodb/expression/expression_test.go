package expression

import (
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/pxhost/pxhost/infra/local/dynamodb/attribute"
	"github.com/pxhost/pxhost/infra/local/dynamodb/decimal"
)

func str(s string) attribute.Value { return attribute.String(s) }
func bin(s string) attribute.Value { return attribute.Binary(s) }

func num(s string) attribute.Value {
	n, err := decimal.Parse(s)
	if err != nil {
		panic(err)
	}
	return attribute.Number(n)
}

func list(v ...attribute.Value) attribute.Value { return attribute.List(v) }
func doc(m attribute.Map) attribute.Value       { return attribute.Document(m) }
func strings_(s ...string) attribute.Value {
	var members []attribute.Value
	for _, m := range s {
		members = append(members, str(m))
	}
	return attribute.Set(attribute.SS, members)
}

// scope defines the values that the tables below use, and the names given.
func scope(names ...string) *Scope {
	var defined []Name
	for _, n := range names {
		placeholder, name, _ := strings.Cut(n, "=")
		defined = append(defined, Name{placeholder, name})
	}
	return NewScope(defined, []Definition{
		{":one", num("1")}, {":two", num("2")}, {":ten", num("10")}, {":s", str("s")}, {":ab", str("ab")}, {":a", str("a")},
		{":bytes", bin("ab")}, {":true", attribute.Bool(true)}, {":null", attribute.Null()}, {":list", list(str("x"))}, {":empty", list()},
		{":map", doc(attribute.Map{"k": num("1")})}, {":ss", strings_("a", "b")}, {":numbers", attribute.Set(attribute.NS, []attribute.Value{num("1"), num("2")})},
		{":S", str("S")}, {":X", str("X")}, {":huge", num("9e125")}, {":tiny", num("1e-130")},
	})
}

var sample = attribute.Map{
	"n": num("5"), "s": str("abc"), "e": str(""), "b": bin("abc"), "t": attribute.Bool(true), "z": attribute.Null(),
	"ss": strings_("a", "b"), "ns": attribute.Set(attribute.NS, []attribute.Value{num("1"), num("5")}),
	"l": list(num("1"), str("x"), doc(attribute.Map{"k": list(num("7"))})),
	"m": doc(attribute.Map{"k": doc(attribute.Map{"deep": str("yes")}), "data": num("3")}), "n2": num("5.0"),
}

// covers: H1
func TestConditionsHoldOrNot(t *testing.T) {
	for _, c := range []struct {
		text string
		want bool
	}{
		{"n = n2", true},
		{"n <> n2", false},
		{"n = :one", false},
		{"n > :two AND n < :ten", true},
		{"n >= n2 AND n <= n2", true},
		{"s < :s", true},
		{"b = :bytes", false},
		{"b > :bytes", true},
		// What does not exist differs from everything, and has no order.
		{"absent = :one", false},
		{"absent <> :one", true},
		{"absent = absent2", false},
		{"absent <> absent2", true},
		{"absent < :one", false},
		{"absent <= absent2", false},
		{"NOT absent < :one", true},
		// So do values of different types.
		{"n = :s", false},
		{"n <> :s", true},
		{"n < :s", false},
		{"s > :bytes", false},
		{"l < :one", false},
		{"t = :true", true},
		{"z = :null", true},
		{"ss = :ss", true},
		{"m.k <> :map", true},
		{"n BETWEEN :two AND :ten", true},
		{"n BETWEEN n2 AND n2", true},
		{":two BETWEEN n AND n2", false},
		{"s BETWEEN :two AND :ten", false},
		{"absent BETWEEN :two AND :ten", false},
		{"n IN (:one, :s, n2)", true},
		{"n IN (:one, :two)", false},
		{"absent IN (absent2)", false},
		{"attribute_exists(z)", true},
		{"attribute_exists(m.k.deep)", true},
		{"attribute_exists(m.k.shallow)", false},
		{"attribute_exists(l[2].k[0])", true},
		{"attribute_exists(l[3])", false},
		{"attribute_exists(l.k)", false},
		{"attribute_exists(m[0])", false},
		{"attribute_not_exists(absent)", true},
		{"attribute_not_exists(e)", false},
		{"attribute_type(s, :S)", true},
		{"attribute_type(e, :S)", true},
		{"attribute_type(n, :S)", false},
		{"attribute_type(absent, :S)", false},
		{"attribute_type(:one, :S)", false},
		{"begins_with(s, :ab)", true},
		{"begins_with(s, e)", true},
		{"begins_with(s, :s)", false},
		{"begins_with(b, :bytes)", true},
		{"begins_with(b, :ab)", false},
		{"begins_with(n, :ab)", false},
		{"begins_with(absent, :ab)", false},
		{"begins_with(s, absent)", false},
		{"contains(s, :ab)", true},
		{"contains(s, :s)", false},
		{"contains(b, :bytes)", true},
		{"contains(s, :bytes)", false},
		{"contains(ss, :a)", true},
		{"contains(ss, :s)", false},
		{"contains(ns, n)", true},
		{"contains(l, :one)", true},
		{"contains(l, :two)", false},
		{"contains(m, :one)", false},
		{"contains(absent, :one)", false},
		{"contains(l, absent)", false},
		{"size(s) > :two AND size(b) > :two AND size(ss) = :two AND size(m) = :two", true},
		{"size(e) < :one", true},
		{"size(l) > size(ss)", true},
		{"size(n) = :one", false},
		{"size(n) <> :one", true},
		{"size(absent) = :one", false},
		{"size(:map) = :one", true},
		// NOT binds tighter than AND, AND tighter than OR.
		{"attribute_exists(n) OR attribute_exists(absent) AND attribute_exists(absent)", true},
		{"(attribute_exists(n) OR attribute_exists(absent)) AND attribute_exists(absent)", false},
		{"NOT attribute_exists(absent) AND attribute_exists(n)", true},
		{"NOT (attribute_exists(absent) AND attribute_exists(n))", true},
		{"NOT NOT attribute_exists(n)", true},
		{"not attribute_exists(n) or attribute_exists(s) and n between :one and :ten", true},
		// Parentheses and spaces.
		{"(n) = (:one)", false},
		{"(n = n2)", true},
		{"((n = n2) AND (s = s2)) OR t = :true", true},
		{"(m.k).deep = m.k.deep2", false},
		{"(l[2]).k[0] > :two", true},
		{"\t n=n2\r\n", true},
		{"m . k . deep > :a", true},
		{"l [ 0 ] = :one", true},
		{"#n = n2 AND #m.#k.deep > :a", true},
	} {
		condition, err := ParseCondition(c.text, scope("#n=n", "#m=m", "#k=k"))
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		if got := condition.Match(sample); got != c.want {
			t.Errorf("%s: got %t", c.text, got)
		}
	}
}

// covers: H1
func TestConditionsAreRefusedWithDynamoDBsMessages(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "The expression can not be empty;"},
		{strings.Repeat("x", 4097), "Expression size has exceeded the maximum allowed size; expression size: 4097"},
		{"n", `Syntax error; token: "<EOF>", near: "n"`},
		{"(n)", `Syntax error; token: "<EOF>", near: ")"`},
		{"n =", `Syntax error; token: "<EOF>", near: "="`},
		{"n = = :one", `Syntax error; token: "=", near: "= = :one"`},
		{"attribute_exists()", `Syntax error; token: ")", near: "()"`},
		{"n IN ()", `Syntax error; token: ")", near: "()"`},
		{"n AND s = :s", `Syntax error; token: "AND", near: "n AND s"`},
		{"n = :one = :two", `Syntax error; token: "=", near: ":one = :two"`},
		{"(n = :one) = :two", `Syntax error; token: "=", near: ") = :two"`},
		{"hello!", `Syntax error; token: "!", near: "hello!"`},
		{"héllo = :one", `Syntax error; token: "é", near: "héllo"`},
		{"_n = :one", `Syntax error; token: "_", near: "_n"`},
		{"# = :one", `Syntax error; token: "#", near: "# ="`},
		{"l[x] = :one", `Syntax error; token: "x", near: "[x]"`},
		{"l[-1] = :one", `Syntax error; token: "-", near: "[-1"`},
		{"n = :one AND", `Syntax error; token: "<EOF>", near: "AND"`},
		{"n = :one s", `Syntax error; token: "s", near: ":one s"`},
		{"(n = :one", `Syntax error; token: "<EOF>", near: ":one"`},
		{"l[99999999999] = :one", "List index is not within the allowable range; index: [99999999999]"},
		{"((n = :one))", "The expression has redundant parentheses;"},
		{"((n)) = :one", "The expression has redundant parentheses;"},
		{"(n = :one) AND ((s = :s))", "The expression has redundant parentheses;"},
		{"dog(n) = :one", "Invalid function name; function: dog"},
		{"if_not_exists(n, :one) = :one", "The function is not allowed in a condition expression; function: if_not_exists"},
		{"size(n)", "The function is not allowed to be used this way in an expression; function: size"},
		{"NOT size(n)", "The function is not allowed to be used this way in an expression; function: size"},
		{"attribute_exists(n) = :true", "The function is not allowed to be used this way in an expression; function: attribute_exists"},
		{"size(contains(n, :one)) = :one", "The function is not allowed to be used this way in an expression; function: contains"},
		{"status = :one", "Attribute name is a reserved keyword; reserved keyword: status"},
		{"m.Count = :one", "Attribute name is a reserved keyword; reserved keyword: Count"},
		{"#undefined = :one", "An expression attribute name used in the document path is not defined; attribute name: #undefined"},
		{"n = :undefined", "An expression attribute value used in expression is not defined; attribute value: :undefined"},
		{"size(n, s) = :one", "Incorrect number of operands for operator or function; operator or function: size, number of operands: 2"},
		{"contains(n)", "Incorrect number of operands for operator or function; operator or function: contains, number of operands: 1"},
		{"n = n", "The first operand must be distinct from the remaining operands for this operator or function; operator: =, first operand: [n]"},
		{"contains(l[0].k, l[0].k)", "The first operand must be distinct from the remaining operands for this operator or function; operator: contains, first operand: [l, [0], k]"},
		{"attribute_exists(:one)", "Operator or function requires a document path; operator or function: attribute_exists"},
		{"begins_with(s, :one)", "Incorrect operand type for operator or function; operator or function: begins_with, operand type: N"},
		{"size(:one) = :one", "Incorrect operand type for operator or function; operator or function: size, operand type: N"},
		{"n < :list", "Incorrect operand type for operator or function; operator or function: <, operand type: L"},
		{":true >= n", "Incorrect operand type for operator or function; operator or function: >=, operand type: BOOL"},
		{"attribute_type(n, s)", "Incorrect operand type for operator or function; operator or function: attribute_type, operand type: {NS,SS,L,BS,N,M,B,BOOL,NULL,S}"},
		{"attribute_type(n, :one)", "Incorrect operand type for operator or function; operator or function: attribute_type, operand type: N"},
		{"attribute_type(n, :X)", "Invalid attribute type name found; type: X, valid types: {B,NULL,SS,BOOL,L,BS,N,NS,S,M}"},
		{"n BETWEEN :ten AND :one", "The BETWEEN operator requires upper bound to be greater than or equal to lower bound; lower bound operand: AttributeValue: {N:10}, upper bound operand: AttributeValue: {N:1}"},
		{"n BETWEEN :one AND :s", "The BETWEEN operator requires same data type for lower and upper bounds; lower bound operand: AttributeValue: {N:1}, upper bound operand: AttributeValue: {S:s}"},
		{"n IN (" + strings.Repeat(":one,", 100) + ":one)", "The IN operator is provided with too many operands; number of operands: 101"},
		{"n = :one" + strings.Repeat(" OR n = :one", 150), "The expression contains too many operators; operator count: 301"},
		{strings.Repeat("NOT ", 1000) + "n = :one", "The expression contains too many operators; operator count: 1001"},
		{"a" + strings.Repeat(".a", 32) + " = :one", "The document path has too many nesting elements; nesting levels: 33"},
		{strings.Repeat("(", 4096), `Syntax error; token: "<EOF>", near: "("`},
		// Of several faults, the one that DynamoDB looks for first.
		{"((dog(status) = :undefined))", "The expression has redundant parentheses;"},
		{"dog(status) = :undefined", "Invalid function name; function: dog"},
		{"size(status, n) = :undefined", "Attribute name is a reserved keyword; reserved keyword: status"},
		{"contains(n) OR n = :undefined", "Incorrect number of operands for operator or function; operator or function: contains, number of operands: 1"},
		{"contains(n, :undefined, s)", "An expression attribute value used in expression is not defined; attribute value: :undefined"},
	} {
		if _, err := ParseCondition(c.text, scope()); err == nil || err.Error() != c.want {
			t.Errorf("%.80s\n got %v\nwant %s", c.text, err, c.want)
		}
	}
}

// covers: H1
func TestTheLimitsThemselvesAreAllowed(t *testing.T) {
	for _, text := range []string{
		"n" + strings.Repeat(" ", 4096-len("n=:one")) + "=:one",
		"n IN (" + strings.Repeat(":one,", 99) + ":one)",
		"n = :one" + strings.Repeat(" OR n = :one", 149) + " OR attribute_exists(n)", // 1 + 2×149 + 1 operators
		"a" + strings.Repeat(".a", 31) + " = :one",
	} {
		if _, err := ParseCondition(text, scope()); err != nil {
			t.Errorf("%.80s: %v", text, err)
		}
	}
}

// covers: H1
func TestUnusedDefinitionsAreTold(t *testing.T) {
	s := NewScope([]Name{{"#a", "a"}, {"#b", "b"}, {"#c", "c"}}, []Definition{{":x", num("1")}, {":y", num("1")}})
	if _, err := ParseCondition("#b = :x", s); err != nil {
		t.Fatal(err)
	}
	if err := s.CheckUsed(); err == nil || err.Error() != "Value provided in ExpressionAttributeNames unused in expressions: keys: {#a, #c}" {
		t.Errorf("names: %v", err)
	}
	if _, err := ParseProjection("#a, #c", s); err != nil {
		t.Fatal(err)
	}
	if err := s.CheckUsed(); err == nil || err.Error() != "Value provided in ExpressionAttributeValues unused in expressions: keys: {:y}" {
		t.Errorf("values: %v", err)
	}
	if _, err := ParseCondition("a = :y", s); err != nil {
		t.Fatal(err)
	}
	if err := s.CheckUsed(); err != nil {
		t.Errorf("all used: %v", err)
	}
}

func jsonOf(t *testing.T, m attribute.Map) string {
	t.Helper()
	text, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// covers: H1
func TestProjectionsReturnTheNamedPlaces(t *testing.T) {
	item := attribute.Map{
		"a": num("1"), "l": list(num("0"), num("1"), num("2"), doc(attribute.Map{"x": num("3"), "y": num("4")})),
		"m": doc(attribute.Map{"x": num("5"), "y": doc(attribute.Map{"z": num("6")})}),
	}
	for _, c := range []struct{ text, want string }{
		{"a", `{"a":{"N":"1"}}`},
		{"a, absent, m.absent, l[9]", `{"a":{"N":"1"}}`},
		{"absent", `{}`},
		{"m.y.z, m.x", `{"m":{"M":{"x":{"N":"5"},"y":{"M":{"z":{"N":"6"}}}}}}`},
		{"l[2], l[0]", `{"l":{"L":[{"N":"0"},{"N":"2"}]}}`},
		{"l[3].y,l[1]", `{"l":{"L":[{"N":"1"},{"M":{"y":{"N":"4"}}}]}}`},
		{"#a,#m.#y", `{"a":{"N":"1"},"m":{"M":{"y":{"M":{"z":{"N":"6"}}}}}}`},
	} {
		p, err := ParseProjection(c.text, scope("#a=a", "#m=m", "#y=y"))
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		if got := jsonOf(t, p.Apply(item)); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.text, got, c.want)
		}
	}
	for _, c := range []struct{ text, want string }{
		{"", "The expression can not be empty;"},
		{"a,", `Syntax error; token: "<EOF>", near: ","`},
		{"a b", `Syntax error; token: "b", near: "a b"`},
		{"a, size", "Attribute name is a reserved keyword; reserved keyword: size"},
		{"#u", "An expression attribute name used in the document path is not defined; attribute name: #u"},
		{"a, b, a", "Two document paths overlap with each other; must remove or rewrite one of these paths; path one: [a], path two: [a]"},
		{"a.b, a", "Two document paths overlap with each other; must remove or rewrite one of these paths; path one: [a, b], path two: [a]"},
		{"a[0].x, a[0]", "Two document paths overlap with each other; must remove or rewrite one of these paths; path one: [a, [0], x], path two: [a, [0]]"},
		{"a[0], a.b", "Two document paths conflict with each other; must remove or rewrite one of these paths; path one: [a, [0]], path two: [a, b]"},
	} {
		if _, err := ParseProjection(c.text, scope()); err == nil || err.Error() != c.want {
			t.Errorf("%s\n got %v\nwant %s", c.text, err, c.want)
		}
	}
}

// covers: H1
func TestUpdatesChangeTheNamedPlaces(t *testing.T) {
	item := attribute.Map{
		"n": num("5"), "s": str("x"), "ss": strings_("a", "b"), "l": list(num("0"), num("1"), num("2"), num("3")),
		"m": doc(attribute.Map{"n": num("7"), "l": list(doc(attribute.Map{"k": num("8")}))}),
	}
	for _, c := range []struct {
		text   string
		change attribute.Map // attributes that differ afterwards; no value for those that are gone
	}{
		{"SET n = :one", attribute.Map{"n": num("1")}},
		{"SET x = n, n = s", attribute.Map{"x": num("5"), "n": str("x")}},
		{"SET n = m.n, m.n = n", attribute.Map{"n": num("7"), "m": doc(attribute.Map{"n": num("5"), "l": list(doc(attribute.Map{"k": num("8")}))})}},
		{"SET n = n + :one", attribute.Map{"n": num("6")}},
		{"SET n = :one - n", attribute.Map{"n": num("-4")}},
		{"SET n = (n + :one)", attribute.Map{"n": num("6")}},
		{"SET n = (n) - (m.n)", attribute.Map{"n": num("-2")}},
		{"SET x = if_not_exists(x, :ten), n = if_not_exists(n, :ten)", attribute.Map{"x": num("10")}},
		{"SET x = if_not_exists(x, :one) + :one", attribute.Map{"x": num("2")}},
		{"SET x = if_not_exists(m.n, if_not_exists(n, :one))", attribute.Map{"x": num("7")}},
		{"SET l = list_append(l, :list)", attribute.Map{"l": list(num("0"), num("1"), num("2"), num("3"), str("x"))}},
		{"SET l = list_append(:list, l)", attribute.Map{"l": list(str("x"), num("0"), num("1"), num("2"), num("3"))}},
		{"SET x = list_append(if_not_exists(x, :empty), :list)", attribute.Map{"x": list(str("x"))}},
		{"SET l[1] = :s, l[3] = l[0]", attribute.Map{"l": list(num("0"), str("s"), num("2"), num("0"))}},
		{"SET l[9] = :two, l[7] = :one", attribute.Map{"l": list(num("0"), num("1"), num("2"), num("3"), num("1"), num("2"))}},
		{"SET m.l[0].k = :s, m.extra = :one", attribute.Map{"m": doc(attribute.Map{"n": num("7"), "extra": num("1"), "l": list(doc(attribute.Map{"k": str("s")}))})}},
		{"SET #a.#b = :one REMOVE #c", attribute.Map{"m": doc(attribute.Map{"n": num("1"), "l": list(doc(attribute.Map{"k": num("8")}))}), "s": {}}},
		{"REMOVE n, absent", attribute.Map{"n": {}}},
		{"REMOVE l[0], l[2]", attribute.Map{"l": list(num("1"), num("3"))}},
		{"REMOVE l[9]", nil},
		{"REMOVE m.l[0].k, m.n", attribute.Map{"m": doc(attribute.Map{"l": list(doc(attribute.Map{}))})}},
		{"SET l[1] = :s REMOVE l[0]", attribute.Map{"l": list(str("s"), num("2"), num("3"))}},
		{"ADD n :ten", attribute.Map{"n": num("15")}},
		{"ADD x :ten", attribute.Map{"x": num("10")}},
		{"ADD m.n :ten", attribute.Map{"m": doc(attribute.Map{"n": num("17"), "l": list(doc(attribute.Map{"k": num("8")}))})}},
		{"ADD ss :ss, x :ss", attribute.Map{"x": strings_("a", "b")}},
		{"DELETE ss :ss", attribute.Map{"ss": {}}},
		{"DELETE x :ss", nil},
		{"set n = :one remove s add x :two delete ss :ss", attribute.Map{"n": num("1"), "s": {}, "x": num("2"), "ss": {}}},
		{"ADD n :one SET s = :one", attribute.Map{"n": num("6"), "s": num("1")}},
	} {
		u, err := ParseUpdate(c.text, scope("#a=m", "#b=n", "#c=s"))
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		before := jsonOf(t, item)
		got, err := u.Apply(item)
		want := attribute.Map{}
		for name, v := range item {
			want[name] = v
		}
		for name, v := range c.change {
			if want[name] = v; v.IsZero() {
				delete(want, name)
			}
		}
		if err != nil || !got.Equal(want) {
			t.Errorf("%s: %v\n got %s\nwant %s", c.text, err, jsonOf(t, got), jsonOf(t, want))
		}
		if jsonOf(t, item) != before {
			t.Errorf("%s changed the item it was given", c.text)
		}
	}
}

// covers: H1
func TestUpdatesAreRefusedWithDynamoDBsMessages(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "The expression can not be empty;"},
		{"SET", `Syntax error; token: "<EOF>", near: "SET"`},
		{"INVALID SYNTAX HERE", `Syntax error; token: "INVALID", near: "INVALID SYNTAX"`},
		{"SET a = :one,", `Syntax error; token: "<EOF>", near: ","`},
		{"SET a", `Syntax error; token: "<EOF>", near: "a"`},
		{"SET a = 0", `Syntax error; token: "0", near: "= 0"`},
		{"SET a = if_not_exists(a, 0)", `Syntax error; token: "0", near: ", 0)"`},
		{"SET a = b + c + d", `Syntax error; token: "+", near: "c + d"`},
		{"ADD a b", `Syntax error; token: "b", near: "a b"`},
		{"REMOVE a = :one", `Syntax error; token: "=", near: "a = :one"`},
		{"SET set = :one", `Syntax error; token: "set", near: "SET set ="`},
		{"SET status = :one", "Attribute name is a reserved keyword; reserved keyword: status"},
		{"SET a = count", "Attribute name is a reserved keyword; reserved keyword: count"},
		{"SET a = dog(a)", "Invalid function name; function: dog"},
		{"SET a = size(b)", "The function is not allowed in an update expression; function: size"},
		{"SET a = :one SET b = :one", `The "SET" section can only be used once in an update expression;`},
		{"SET #u = :one", "An expression attribute name used in the document path is not defined; attribute name: #u"},
		{"SET a = :undefined", "An expression attribute value used in expression is not defined; attribute value: :undefined"},
		{"SET a = :one, a = :two", "Two document paths overlap with each other; must remove or rewrite one of these paths; path one: [a], path two: [a]"},
		{"SET a.b = :one REMOVE a", "Two document paths overlap with each other; must remove or rewrite one of these paths; path one: [a, b], path two: [a]"},
		{"SET a[1] = :one, a.b = :two", "Two document paths conflict with each other; must remove or rewrite one of these paths; path one: [a, [1]], path two: [a, b]"},
		{"ADD a :s", "Incorrect operand type for operator or function; operator: ADD, operand type: STRING, typeSet: ALLOWED_FOR_ADD_OPERAND"},
		{"ADD a :list", "Incorrect operand type for operator or function; operator: ADD, operand type: LIST, typeSet: ALLOWED_FOR_ADD_OPERAND"},
		{"DELETE a :one", "Incorrect operand type for operator or function; operator: DELETE, operand type: NUMBER, typeSet: ALLOWED_FOR_DELETE_OPERAND"},
		{"SET a = b + :s", "Incorrect operand type for operator or function; operator or function: +, operand type: S"},
		{"SET a = list_append(a, :one)", "Incorrect operand type for operator or function; operator or function: list_append, operand type: N"},
		{"SET a = if_not_exists(:one, :two)", "Operator or function requires a document path; operator or function: if_not_exists"},
		{"SET a = if_not_exists(a)", "Incorrect number of operands for operator or function; operator or function: if_not_exists, number of operands: 1"},
		// In DynamoDB's order.
		{"SET status = dog(#u) SET a = :undefined", "Attribute name is a reserved keyword; reserved keyword: status"},
		{"SET a = dog(#u) SET a = :undefined", "Invalid function name; function: dog"},
		{"SET a = :undefined SET #u = b", `The "SET" section can only be used once in an update expression;`},
		{"SET a = :undefined, #u = b, a = :s", "An expression attribute name used in the document path is not defined; attribute name: #u"},
		{"SET a = :s, a = a + :s", "Two document paths overlap with each other; must remove or rewrite one of these paths; path one: [a], path two: [a]"},
	} {
		if _, err := ParseUpdate(c.text, scope()); err == nil || err.Error() != c.want {
			t.Errorf("%s\n got %v\nwant %s", c.text, err, c.want)
		}
	}
}

// covers: H1
func TestUpdatesFailOnItemsTheyDoNotFit(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"SET x = absent", errMissing.Message},
		{"SET x = absent + :one", errMissing.Message},
		{"SET x = list_append(absent, :list)", errMissing.Message},
		{"SET x = s + :one", errType.Message},
		{"SET x = list_append(n, :list)", errType.Message},
		{"SET absent.x = :one", errBadPath.Message},
		{"SET l.x = :one", errBadPath.Message},
		{"SET m[0] = :one", errBadPath.Message},
		{"SET l[9].x = :one", errBadPath.Message},
		{"REMOVE absent.x", errBadPath.Message},
		{"REMOVE s.x", errBadPath.Message},
		{"ADD s :one", errType.Message},
		{"ADD ss :numbers", errType.Message},
		{"DELETE n :ss", errType.Message},
		{"ADD absent.x :one", errBadPath.Message},
		{"SET x = :huge + :huge", errOverflow.Message},
		{"SET x = :huge + :one", errOverflow.Message}, // exact, it would need 126 digits
		{"SET x = :huge - :tiny", errOverflow.Message},
		// The fault of the action that was written first.
		{"SET absent.x = :one ADD s :one", errBadPath.Message},
		{"ADD s :one SET absent.x = :one", errType.Message},
	} {
		u, err := ParseUpdate(c.text, scope())
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		if got, err := u.Apply(sample); err == nil || err.Error() != c.want {
			t.Errorf("%s: got %v, %v; want %s", c.text, got, err, c.want)
		}
	}
}

// covers: H1
func TestKeyConditionsBecomeTerms(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"pk = :s", "pk = 1"},
		{":s = pk", "pk = 1"},
		{"pk = :s AND sk > :one", "pk = 1; sk > 1"},
		{"sk BETWEEN :one AND :two and pk = :s", "sk BETWEEN 2; pk = 1"},
		{"#p = :s AND begins_with(sk, :a)", "pk = 1; sk begins_with 1"},
		{":one <= sk AND pk = :s", "sk >= 1; pk = 1"},
		{"(pk = :s) AND (sk < :one)", "pk = 1; sk < 1"},
	} {
		terms, _, err := ParseKeyCondition(c.text, scope("#p=pk"))
		var got []string
		for _, term := range terms {
			got = append(got, term.Attribute+" "+term.Operator+" "+string(rune('0'+len(term.Values))))
		}
		if err != nil || strings.Join(got, "; ") != c.want {
			t.Errorf("%s: got %s, %v; want %s", c.text, strings.Join(got, "; "), err, c.want)
		}
	}
	for _, c := range []struct {
		text, want string
		prefixed   bool
	}{
		{"", "The expression can not be empty;", true},
		{"pk", `Syntax error; token: "<EOF>", near: "pk"`, true},
		{"pk = :undefined", "An expression attribute value used in expression is not defined; attribute value: :undefined", true},
		{"pk = :s OR sk = :one", "Invalid operator used in KeyConditionExpression: OR", false},
		{"NOT pk = :s", "Invalid operator used in KeyConditionExpression: NOT", false},
		{"pk IN (:s)", "Invalid operator used in KeyConditionExpression: IN", false},
		{"pk <> :s", "Invalid operator used in KeyConditionExpression: <>", false},
		{"attribute_exists(pk)", "Invalid operator used in KeyConditionExpression: attribute_exists", false},
		{"size(pk) = :one", "KeyConditionExpressions cannot contain nested operations", false},
		{"pk.a = :s", "KeyConditionExpressions cannot have conditions on nested attributes", false},
		{"pk = sk", "Invalid condition in KeyConditionExpression: Multiple attribute names used in one condition", false},
		{":s = :a", "Invalid condition in KeyConditionExpression: No key attribute specified", false},
		{"pk = :s AND pk = :a", "KeyConditionExpressions must only contain one condition per key", false},
		{"begins_with(:s, pk)", "Invalid condition in KeyConditionExpression: begins_with operator must have the key attribute as its first operand", false},
		{":one BETWEEN pk AND sk", "Invalid condition in KeyConditionExpression: BETWEEN operator must have the key attribute as its first operand", false},
		{"pk = :true", "One or more parameter values were invalid: ComparisonOperator EQ is not valid for BOOL AttributeValue type", false},
		{"a = :s AND b = :s AND c = :s", "Conditions can be of length 1 or 2 only", false},
	} {
		_, prefixed, err := ParseKeyCondition(c.text, scope())
		if err == nil || err.Error() != c.want || prefixed != c.prefixed {
			t.Errorf("%s\n got %v, %t\nwant %s", c.text, err, prefixed, c.want)
		}
	}
}

// covers: H1
func TestReservedWordsAreThoseOfTheDeveloperGuide(t *testing.T) {
	if got := len(reserved); got != 573 {
		t.Errorf("%d words", got)
	}
	if words := strings.Fields(reservedWords); !slices.IsSorted(words) {
		t.Error("the words are not in order")
	}
	for word, want := range map[string]bool{"ABORT": true, "zone": true, "Status": true, "Name": true, "ttl": true, "statuses": false, "pk": false} {
		if IsReserved(word) != want {
			t.Errorf("%s: %t", word, !want)
		}
	}
}

func FuzzExpressions(f *testing.F) {
	for _, text := range []string{
		"a = :one AND NOT (b.c[0] BETWEEN :one AND :two OR size(#d) IN (:one))", "SET a = if_not_exists(b, :one) + :two REMOVE l[0], l[2] ADD n :one DELETE s :ss",
		"a.b, c[1], #d", "pk = :s AND begins_with(sk, :a)", "((a))", "SET l[1].x = list_append(:list, l)", "attribute_type(a, :S)",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if c, err := ParseCondition(text, scope("#d=d")); err == nil {
			if c.Match(sample) == (&Condition{&node{kind: nodeNot, args: []*node{c.root}}}).Match(sample) {
				t.Errorf("%q and its opposite both hold, or neither", text)
			}
		}
		if p, err := ParseProjection(text, scope("#d=d")); err == nil {
			part := p.Apply(sample)
			if again := p.Apply(sample); !again.Equal(part) {
				t.Errorf("%q gives different parts", text)
			}
		}
		if u, err := ParseUpdate(text, scope("#d=d")); err == nil {
			before := sample.Size()
			_, _ = u.Apply(sample)
			if sample.Size() != before {
				t.Errorf("%q changed the item", text)
			}
		}
		_, _, _ = ParseKeyCondition(text, scope("#d=d"))
	})
}
