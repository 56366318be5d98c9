package canon

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"
)

// testData returns the folder of outside test data, or skips; in CI a missing
// folder is a failure.
func testData(t *testing.T, path string) string {
	t.Helper()
	root := os.Getenv("PX_TESTDATA")
	if root == "" {
		if os.Getenv("CI") == "true" {
			t.Fatal("PX_TESTDATA is not set, and CI must run this test")
		}
		t.Skip("PX_TESTDATA is not set: the outside test data is not run")
	}
	return filepath.Join(root, filepath.FromSlash(path))
}

// covers: P3
func TestEncodeOrdersNamesAndWritesNegativeZeroAsZero(t *testing.T) {
	got, err := Canonicalize([]byte(`{"b": -0.0, "a": [1.0, 1e2]}`))
	if err != nil || string(got) != `{"a":[1,100],"b":0}` {
		t.Fatalf("got %s, %v", got, err)
	}
}

// covers: W6
func TestCheckNamesTheReason(t *testing.T) {
	for _, c := range []struct {
		name, text, reason string
		offset             int64
	}{
		{"nothing", "", ReasonEmpty, 0},
		{"white space only", " \t ", ReasonEmpty, 0},
		{"two values", `1 2`, ReasonTrailing, 1},
		{"two objects side by side", `{}{}`, ReasonTrailing, 2},
		{"a duplicate name", `{"a":1,"a":2}`, ReasonDuplicate, 7},
		{"a duplicate name that is escaped once", `{"a":1,"\u0061":2}`, ReasonDuplicate, 7},
		{"a duplicate name deep inside", `[{"b":{"a":1,"a":2}}]`, ReasonDuplicate, 13},
		{"a lone high surrogate", `["ab\ud800x"]`, ReasonSurrogate, 4},
		{"a lone low surrogate in a name", `{"\uDC00":1}`, ReasonSurrogate, 2},
		{"a high surrogate before a plain escape", `"\ud83d\u0041"`, ReasonSurrogate, 1},
		{"bad UTF-8", "\"a\xffb\"", ReasonUTF8, 2},
		{"an overlong UTF-8 form", "\"\xc0\xaf\"", ReasonUTF8, 1},
		{"a surrogate in UTF-8", "\"\xed\xa0\x80\"", ReasonUTF8, 1},
		{"a byte order mark", "\ufeff{}", ReasonMalformed, 0},
		{"half an object", `{"a":`, ReasonEndsEarly, 5},
		{"half a string", `"abc`, ReasonEndsEarly, 4},
		{"a leading zero", `01`, ReasonTrailing, 1},
		{"a plus sign", `+1`, ReasonMalformed, 0},
		{"NaN", `[NaN]`, ReasonMalformed, 1},
		{"a comment", `{} // no`, ReasonTrailing, 2},
		{"a trailing comma", `[1,]`, ReasonMalformed, 2},
		{"a raw tab in a string", "\"a\tb\"", ReasonMalformed, 2},
		{"depth 65", strings.Repeat("[", 65) + strings.Repeat("]", 65), ReasonDepth, 65},
		{"depth 65 of objects", strings.Repeat(`{"a":`, 65) + "1" + strings.Repeat("}", 65), ReasonDepth, 321},
		{"overflow", `1e400`, ReasonRange, 5},
		{"negative overflow inside", `{"a":[-1e309]}`, ReasonRange, 12},
		{"overflow by digits", "1" + strings.Repeat("0", 309), ReasonRange, 310},
	} {
		t.Run(c.name, func(t *testing.T) {
			var syntax *SyntaxError
			if err := Check([]byte(c.text)); !errors.As(err, &syntax) {
				t.Fatalf("got %v", err)
			}
			if syntax.Reason != c.reason || syntax.Offset != c.offset {
				t.Errorf("got %q at %d, want %q at %d", syntax.Reason, syntax.Offset, c.reason, c.offset)
			}
			if grammar := CheckGrammar([]byte(c.text)); (grammar == nil) != (c.reason == ReasonRange) {
				t.Errorf("CheckGrammar: %v", grammar)
			}
		})
	}
}

// covers: W6
func TestCheckAcceptsTheBounds(t *testing.T) {
	for name, text := range map[string]string{
		"depth 64":            strings.Repeat("[", 64) + strings.Repeat("]", 64),
		"the largest number":  "1.7976931348623157e308",
		"a number that is 0":  "1e-400",
		"a surrogate pair":    `"\ud83d\ude00"`,
		"NUL as an escape":    `"\u0000"`,
		"names by letter":     `{"a":1,"A":2}`,
		"a name of no letter": `{"":1}`,
		"white space around":  " \r\n\t1 \r\n",
		"301 digits":          "1" + strings.Repeat("0", 300),
	} {
		if err := Check([]byte(text)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// An error must be fit for a log and for a caller: no part of the text in it.
// covers: W3
func TestSyntaxErrorNeverQuotes(t *testing.T) {
	for _, text := range []string{`{"secret":"token-1234" x`, `{"token-1234":1,"token-1234":2}`, `["token-1234\ud800"]`} {
		if err := Check([]byte(text)); err == nil || strings.Contains(err.Error(), "token-1234") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// exceptions are the files of JSONTestSuite that the rule of their first letter
// would accept, and that our own rows refuse.
var exceptions = map[string]string{
	"y_object_duplicated_key.json":           ReasonDuplicate, // W6
	"y_object_duplicated_key_and_value.json": ReasonDuplicate, // W6
}

// covers: W2, W6
func TestJSONTestSuite(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(testData(t, "JSONTestSuite/test_parsing"), "*.json"))
	if err != nil || len(files) < 300 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	seen := 0
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(path)
		got := Check(text)
		if reason, ok := exceptions[name]; ok {
			seen++
			var syntax *SyntaxError
			if !errors.As(got, &syntax) || syntax.Reason != reason {
				t.Errorf("%s: %v, want %s", name, got, reason)
			}
			continue
		}
		switch name[0] {
		case 'y':
			if got != nil {
				t.Errorf("%s is refused: %v", name, got)
			}
		case 'n':
			if got == nil {
				t.Errorf("%s is accepted", name)
			}
		}
		// An i_ file may go either way; what is accepted must have a canonical form.
		if got == nil {
			if _, err := Canonicalize(text); err != nil {
				t.Errorf("%s: accepted but not canonicalized: %v", name, err)
			}
		}
	}
	if seen != len(exceptions) {
		t.Errorf("%d of %d exceptions were there", seen, len(exceptions))
	}
}

// covers: P3
func TestRFC8785Vectors(t *testing.T) {
	root := testData(t, "rfc8785/testdata")
	inputs, err := filepath.Glob(filepath.Join(root, "input", "*.json"))
	if err != nil || len(inputs) < 6 {
		t.Fatalf("%d files, %v", len(inputs), err)
	}
	for _, path := range inputs {
		name := strings.TrimSuffix(filepath.Base(path), ".json")
		input, _ := os.ReadFile(path)
		output, err := os.ReadFile(filepath.Join(root, "output", name+".json"))
		if err != nil {
			t.Fatal(err)
		}
		got, err := Canonicalize(input)
		if err != nil || !bytes.Equal(got, output) {
			t.Errorf("%s: %v\n got %s\nwant %s", name, err, got, output)
		}
		if text, err := os.ReadFile(filepath.Join(root, "outhex", name+".txt")); err == nil {
			want, err := hex.DecodeString(strings.Join(strings.Fields(string(text)), ""))
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s: not the bytes of outhex (%v)", name, err)
			}
		}
	}
}

// The numbers of RFC 8785, appendix B.
// covers: P3
func TestRFC8785Numbers(t *testing.T) {
	for bits, want := range map[uint64]string{
		0x0000000000000000: "0", 0x8000000000000000: "0",
		0x0000000000000001: "5e-324", 0x8000000000000001: "-5e-324",
		0x7fefffffffffffff: "1.7976931348623157e+308", 0xffefffffffffffff: "-1.7976931348623157e+308",
		0x4340000000000000: "9007199254740992", 0xc340000000000000: "-9007199254740992",
		0x4430000000000000: "295147905179352830000",
		0x44b52d02c7e14af5: "9.999999999999997e+22", 0x44b52d02c7e14af6: "1e+23", 0x44b52d02c7e14af7: "1.0000000000000001e+23",
		0x444b1ae4d6e2ef4e: "999999999999999700000", 0x444b1ae4d6e2ef4f: "999999999999999900000", 0x444b1ae4d6e2ef50: "1e+21",
		0x3eb0c6f7a0b5ed8c: "9.999999999999997e-7", 0x3eb0c6f7a0b5ed8d: "0.000001",
		0x41b3de4355555553: "333333333.3333332", 0x41b3de4355555554: "333333333.33333325",
		0x41b3de4355555555: "333333333.3333333", 0x41b3de4355555556: "333333333.3333334", 0x41b3de4355555557: "333333333.33333343",
		0xbecbf647612f3696: "-0.0000033333333333333333", 0x43143ff3c1cb0959: "1424953923781206.2",
	} {
		if got, err := Encode(math.Float64frombits(bits)); err != nil || string(got) != want {
			t.Errorf("%016x: got %s, %v, want %s", bits, got, err, want)
		}
	}
	for _, f := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		if got, err := Encode(f); err == nil {
			t.Errorf("%v became %s", f, got)
		}
	}
}

// value draws any JSON value as text with odd spelling: escapes, white space,
// exponents. No duplicate names.
func value(depth int) *rapid.Generator[string] {
	leaf := rapid.OneOf(
		rapid.SampledFrom([]string{"null", "true", "false", "-0", "1.50", "1E2", "5e-324", `"\u00e9"`, `"\/"`, `"\ud83d\ude00"`}),
		rapid.Map(rapid.Float64(), func(f float64) string {
			if text, err := Encode(f); err == nil {
				return string(text)
			}
			return "0"
		}),
		rapid.Map(rapid.String(), func(s string) string {
			quoted, err := jsontext.AppendQuote(nil, strings.ToValidUTF8(s, "?"))
			if err != nil {
				panic(err)
			}
			return string(quoted)
		}),
	)
	if depth == 0 {
		return leaf
	}
	inner := rapid.Deferred(func() *rapid.Generator[string] { return value(depth - 1) })
	return rapid.OneOf(leaf,
		rapid.Map(rapid.SliceOfN(inner, 0, 4), func(list []string) string { return "[ " + strings.Join(list, " ,") + "]" }),
		rapid.Custom(func(t *rapid.T) string {
			names := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-c\x{e9}\x{1f600}\x{ff01}]{0,2}`), 0, 4, rapid.ID[string]).Draw(t, "names")
			var members []string
			for _, name := range names {
				members = append(members, `"`+name+`" : `+inner.Draw(t, "value"))
			}
			return "{" + strings.Join(members, ",") + "\t}"
		}))
}

// covers: P3
func TestCanonicalFormIsAFixedPointAndIndependentOfSpelling(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := value(3).Draw(t, "text")
		once, err := Canonicalize([]byte(text))
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		twice, err := Canonicalize(once)
		if err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("%s then %s: %v", once, twice, err)
		}
		indented := jsontext.Value(text)
		if err := indented.Indent(jsontext.WithIndent("  ")); err != nil {
			t.Fatal(err)
		}
		if other, err := Canonicalize(indented); err != nil || Digest(other) != Digest(once) {
			t.Fatalf("%s: another spelling has another digest: %v", text, err)
		}
	})
}

func FuzzCheck(f *testing.F) {
	for _, seed := range []string{`{"a":[1,1e400,"\ud800"]}`, `{"a":1,"\u0061":2}`, "\"\xff\"", strings.Repeat("[", 65), `-0`, `1 2`, ``, "\x00", `{"a":{"b":tru}}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		err, grammar := Check(text), CheckGrammar(text)
		if err == nil && grammar != nil {
			t.Fatalf("Check accepts what CheckGrammar refuses: %v", grammar)
		}
		var syntax *SyntaxError
		if err != nil && !errors.As(err, &syntax) {
			t.Fatalf("not a SyntaxError: %v", err)
		}
		if syntax != nil && (syntax.Offset < 0 || syntax.Offset > int64(len(text))) {
			t.Fatalf("offset %d of %d", syntax.Offset, len(text))
		}
		// A second, independent reader agrees on the grammar.
		if valid := jsontext.Value(text).IsValid(); (grammar == nil) != valid && (syntax == nil || syntax.Reason != ReasonDepth) {
			t.Fatalf("CheckGrammar: %v, IsValid: %v", grammar, valid)
		}
		if err != nil {
			return
		}
		once, err := Canonicalize(text)
		if err != nil {
			t.Fatalf("accepted, but has no canonical form: %v", err)
		}
		if twice, err := Canonicalize(once); err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("%s then %s: %v", once, twice, err)
		}
	})
}

func BenchmarkCheck(b *testing.B) {
	text := []byte(`[` + strings.Repeat(`{"nodeKey":"moment","value":{"value":32.5,"unit":"kN*m"},"list":[1,2,3]},`, 2000) + `{}]`)
	for name, check := range map[string]func([]byte) error{
		"Check": Check,
		"IsValid": func(text []byte) error {
			if !jsontext.Value(text).IsValid() {
				return errors.New("invalid")
			}
			return nil
		},
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				if err := check(text); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
