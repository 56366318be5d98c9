package attribute

import (
	"bytes"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"pgregory.net/rapid"

	"github.com/pxhost/pxhost/infra/local/dynamodb/decimal"
)

func num(s string) Value {
	n, err := decimal.Parse(s)
	if err != nil {
		panic(err)
	}
	return Number(n)
}

// scalars draws an S, N or B.
func scalars(kind Kind) *rapid.Generator[Value] {
	switch kind {
	case S:
		return rapid.Map(rapid.StringMatching(`[a-c\x00é]{0,4}`), String)
	case B:
		return rapid.Map(rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 254, 255}), 0, 4), func(b []byte) Value { return Binary(string(b)) })
	}
	return rapid.Map(rapid.StringMatching(`-?[0-9]{1,6}e-?[0-9]{1,2}`), num)
}

func values(depth int) *rapid.Generator[Value] {
	return rapid.Custom(func(t *rapid.T) Value {
		kinds := []Kind{S, N, B, BOOL, NULL, SS, NS, BS}
		if depth > 0 {
			kinds = append(kinds, L, M)
		}
		switch kind := rapid.SampledFrom(kinds).Draw(t, "kind"); kind {
		case BOOL:
			return Bool(rapid.Bool().Draw(t, "flag"))
		case NULL:
			return Null()
		case SS, NS, BS:
			return Set(kind, rapid.SliceOfN(scalars(kind.Element()), 1, 4).Draw(t, "members"))
		case L:
			return List(rapid.SliceOfN(values(depth-1), 0, 3).Draw(t, "elements"))
		case M:
			return Document(Map(rapid.MapOfN(rapid.StringMatching(`[a-c]{1,2}`), values(depth-1), 0, 3).Draw(t, "fields")))
		default:
			return scalars(kind).Draw(t, "scalar")
		}
	})
}

func items() *rapid.Generator[Map] {
	return rapid.Custom(func(t *rapid.T) Map {
		return rapid.MapOfN(rapid.StringMatching(`[a-d]{1,2}`), values(2), 0, 4).Draw(t, "item")
	})
}

// covers: H1
func TestStoredItemsComeBackAsTheyWere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := items().Draw(t, "a"), items().Draw(t, "b")
		stored := a.AppendStored(nil)
		back, err := ReadStored(stored)
		if err != nil || !back.Equal(a) {
			t.Fatalf("%v came back as %v, %v", a, back, err)
		}
		if a.Equal(b) != bytes.Equal(stored, b.AppendStored(nil)) {
			t.Fatalf("items are equal: %t, their bytes are not", a.Equal(b))
		}
	})
}

// covers: H1
func TestDamagedItemsAreRefused(t *testing.T) {
	item := Map{"a": String("x"), "l": List([]Value{num("1"), Bool(true)}), "s": Set(SS, []Value{String("b"), String("a")})}
	stored := item.AppendStored(nil)
	for n := range stored {
		if _, err := ReadStored(stored[:n]); err == nil {
			t.Errorf("%d of %d bytes were read", n, len(stored))
		}
	}
	if _, err := ReadStored(append(stored, 0)); err == nil {
		t.Error("a byte too many was read")
	}
}

func FuzzReadStored(f *testing.F) {
	f.Add(Map{"a": String("x"), "n": num("1.5"), "m": Document(Map{"l": List([]Value{Null()})})}.AppendStored(nil))
	f.Add([]byte{1, 1, 'a', 9, 255, 255, 255, 255, 15})
	f.Fuzz(func(t *testing.T, stored []byte) {
		item, err := ReadStored(stored)
		if err != nil {
			return
		}
		if again, err := ReadStored(item.AppendStored(nil)); err != nil || !again.Equal(item) {
			t.Fatalf("%v is stored as %v, %v", item, again, err)
		}
	})
}

// covers: H1
func TestOrderedEncodingsKeepTheOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kind := rapid.SampledFrom([]Kind{S, N, B}).Draw(t, "kind")
		a, b := scalars(kind).Draw(t, "a"), scalars(kind).Draw(t, "b")
		ea, eb := a.AppendOrdered(nil), b.AppendOrdered(nil)
		order, ok := a.Compare(b)
		if !ok || bytes.Compare(ea, eb) != order {
			t.Fatalf("%v and %v compare %d, their encodings %d", a, b, order, bytes.Compare(ea, eb))
		}
		if order != 0 && bytes.HasPrefix(eb, ea) {
			t.Fatalf("the encoding of %v is a prefix of that of %v", a, b)
		}
		if kind != N {
			begins := strings.HasPrefix(b.Text(), a.Text())
			if got := bytes.HasPrefix(eb, a.AppendOrderedPrefix(nil)); got != begins {
				t.Fatalf("%q begins with %q: %t, the encodings say %t", b.Text(), a.Text(), begins, got)
			}
		}
	})
}

// covers: H1
func TestSizesAreThoseOfTheDeveloperGuide(t *testing.T) {
	for _, c := range []struct {
		name string
		item Map
		want int
	}{
		{"a string counts its UTF-8 bytes and those of its name", Map{"naïve": String("é")}, 6 + 2},
		{"a binary counts its raw bytes", Map{"b": Binary("\x00\x01\x02")}, 1 + 3},
		{"a boolean and a null count one", Map{"t": Bool(true), "n": Null()}, 1 + 1 + 1 + 1},
		{"a number counts one and a byte for two digits", Map{"n": num("1234567")}, 1 + 1 + 4},
		{"a negative number counts one more", Map{"n": num("-1234567")}, 1 + 1 + 4 + 1},
		{"zeros at the ends of a number count nothing", Map{"n": num("1000000")}, 1 + 1 + 1},
		{"zero counts one", Map{"n": num("0")}, 1 + 1},
		{"a set counts its members", Map{"s": Set(SS, []Value{String("ab"), String("c")})}, 1 + 3},
		{"a list counts three and one an element", Map{"l": List([]Value{String("ab"), Null()})}, 1 + 3 + 2 + 2 + 1},
		{"a map counts three and one a field, with its name", Map{"m": Document(Map{"ab": String("c")})}, 1 + 3 + 1 + 2 + 1},
		{"nothing counts nothing", nil, 0},
	} {
		if got := c.item.Size(); got != c.want {
			t.Errorf("%s: got %d, want %d", c.name, got, c.want)
		}
	}
}

// covers: H1
func TestValuesAreWrittenAsJSON(t *testing.T) {
	item := Map{
		"s": String("a\"é"), "n": num("1.50e2"), "b": Binary("\xff\x00"), "t": Bool(false), "z": Null(),
		"ss": Set(SS, []Value{String("b"), String("a"), String("b")}), "ns": Set(NS, []Value{num("10"), num("9")}), "bs": Set(BS, []Value{Binary("a")}),
		"l": List(nil), "m": Document(nil),
	}
	const want = `{"b":{"B":"/wA="},"bs":{"BS":["YQ=="]},"l":{"L":[]},"m":{"M":{}},"n":{"N":"150"},"ns":{"NS":["9","10"]},"s":{"S":"a\"é"},"ss":{"SS":["a","b"]},"t":{"BOOL":false},"z":{"NULL":true}}`
	if got, err := json.Marshal(item); err != nil || string(got) != want {
		t.Errorf("got %s, %v\nwant %s", got, err, want)
	}
}

// covers: H1
func TestEqualityAndOrder(t *testing.T) {
	for _, c := range []struct {
		name  string
		a, b  Value
		equal bool
		order int // 9 for none
	}{
		{"numbers are equal however they are written", num("1.0"), num("10e-1"), true, 0},
		{"numbers are ordered by value", num("9"), num("10"), false, -1},
		{"strings are ordered by bytes", String("B"), String("a"), false, -1},
		{"a longer string comes after its beginning", String("ab"), String("a"), false, 1},
		{"types differ", String("1"), num("1"), false, 9},
		{"a binary is no string", String("a"), Binary("a"), false, 9},
		{"sets have no order of members", Set(SS, []Value{String("a"), String("b")}), Set(SS, []Value{String("b"), String("a")}), true, 9},
		{"lists have one", List([]Value{num("1"), num("2")}), List([]Value{num("2"), num("1")}), false, 9},
		{"maps are equal by their fields", Document(Map{"a": num("1")}), Document(Map{"a": num("1.0")}), true, 9},
		{"an empty list is no empty map", List(nil), Document(nil), false, 9},
		{"booleans have no order", Bool(false), Bool(true), false, 9},
	} {
		order, ok := c.a.Compare(c.b)
		if !ok {
			order = 9
		}
		if got := c.a.Equal(c.b); got != c.equal || order != c.order {
			t.Errorf("%s: equal %t, order %d", c.name, got, order)
		}
	}
}
