package jsonata

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/dlclark/regexp2/v2"
	"pgregory.net/rapid"
)

func bindings(states map[string]string, vars map[string]string) Bindings {
	find := func(texts map[string]string) func(string) ([]byte, bool) {
		return func(name string) ([]byte, bool) {
			text, ok := texts[name]
			return []byte(text), ok
		}
	}
	return Bindings{States: find(states), Var: find(vars)}
}

func TestEval(t *testing.T) {
	engine := New(Options{Clock: func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }})
	input := `{"a":{"b":5,"list":[1,2,3],"deep":[{"x":1},{"x":2}],"one":[7]},"s":"héllo 😀 <&>","n":null,"big":9007199254740993,"f":1.50,"nested":[[1],[2]],"t":true}`
	for _, c := range []struct{ name, source, want string }{
		{"a plain path", `$states.input.a.b`, `5`},
		{"a path that maps over an array", `$states.input.a.deep.x`, `[1,2]`},
		{"a path to a singleton array", `$states.input.a.one`, `[7]`},
		{"a path to null", `$states.input.n`, `null`},
		{"a string keeps its characters", `$states.input.s`, `"héllo 😀 <&>"`},
		{"an integer beyond 2^53 is a double", `$states.input.big`, `9007199254740992`},
		{"a trailing zero goes", `$states.input.f`, `1.5`},
		{"arithmetic", `$states.input.a.b + 1`, `6`},
		{"a variable", `$v`, `{"k":[1,{"z":2}]}`},
		{"a member of a variable", `$v.k[1].z`, `2`},
		{"an object constructor leaves undefined out", `{"x": $states.input.missing, "y": 1}`, `{"y":1}`},
		{"comparison", `$states.input.a.b < 6 and $states.input.t`, `true`},
		{"higher-order functions", `$map($states.input.a.list, function($x){$x * 2})`, `[2,4,6]`},
		{"local variables", `($y := 2; $y * $y)`, `4`},
		{"partition", `$partition([1,2,3,4,5], 2)`, `[[1,2],[3,4],[5]]`},
		{"range up", `$range(0, 10, 5)`, `[0,5,10]`},
		{"range down", `$range(3, 1, -1)`, `[3,2,1]`},
		{"hash", `$hash('input data', 'SHA-1')`, `"aaff4a450a104cd177d28d18d74485e8cae074b7"`},
		{"parse", `$parse('{"a":[1]}')`, `{"a":[1]}`},
		{"random with a seed repeats", `$random(7) = $random(7)`, `true`},
		{"random is below one", `$random() < 1`, `true`},
		{"uuid", `$length($uuid())`, `36`},
		{"now is the engine's clock", `$now()`, `"2026-01-02T03:04:05.000Z"`},
		{"negative zero is zero", `-1 * 0`, `0`},
		{"a context in a predicate is a context", `$states.input.a.deep[x = 2].x`, `2`},
		{"a regular expression", `$match('ab12', /[0-9]+/).match`, `"12"`},
		{"all of $states", `$keys($states)`, `["input","context"]`},
		{"the transform operator", `$v ~> |$|{"k": 1}|`, `{"k":1}`},
		{"a shadowed eval", `($eval := function($x){$x}; $eval(3))`, `3`},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := engine.Compile(c.source)
			if err != nil {
				t.Fatal(err)
			}
			got, err := engine.Eval(p, bindings(map[string]string{"input": input, "context": `{"Execution":{}}`}, map[string]string{"v": `{"k":[1,{"z":2}]}`}))
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestRefusedWhenCompiled(t *testing.T) {
	engine := New(Options{})
	for _, c := range []struct{ name, source, message string }{
		{"a syntax error", `$states.input.`, "S0207"},
		{"an empty expression", ` `, "empty"},
		{"eval", `$eval('1')`, "$eval"},
		{"eval as a value", `$map(['1'], $eval)`, "$eval"},
		{"an unknown function", `$frobnicate(1)`, "$frobnicate"},
		{"a field at the top level", `foo.bar`, "'foo'"},
		{"a field in an operator", `$x + foo`, "'foo'"},
		{"a field as an argument", `$sum(prices)`, "'prices'"},
		{"a field in a constructor", `{"a": [foo]}`, "'foo'"},
		{"the context variable", `$.a`, "'$'"},
		{"the root variable", `$$.a`, "'$$'"},
		{"a wildcard", `*`, "'*'"},
		{"a context inside a lambda", `$map([1], function($x){ foo })`, "'foo'"},
		{"a context on the right of an apply", `$x ~> $append(foo)`, "'foo'"},
		{"a context inside a condition", `$x ? foo : 1`, "'foo'"},
		{"nesting without end", strings.Repeat("(", 20000) + "1" + strings.Repeat(")", 20000), "deeply"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := engine.Compile(c.source)
			if e := (*Error)(nil); !errors.As(err, &e) || !strings.Contains(err.Error(), c.message) {
				t.Errorf("got %v, want one that names %s", err, c.message)
			}
		})
	}
}

func TestNoValue(t *testing.T) {
	engine := New(Options{Limit: 200 * time.Millisecond})
	for _, c := range []struct {
		name, source, message string
		undefined             bool
	}{
		{"a missing member", `$states.input.missing`, "undefined", true},
		{"a missing member of a string", `$states.input.s.x`, "undefined", true},
		{"a missing variable", `$nobody`, "undefined", true},
		{"what does not exist here", `$states.result`, "undefined", true},
		{"a lambda", `function($x){$x}`, "function", false},
		{"a function inside an object", `{"f": $sum}`, "function", false},
		{"an infinity", `1e308 * 10`, "finite", false},
		{"a type error", `$states.input.s + 1`, "T2001", false},
		{"an explicit error", `$error('no')`, "no", false},
		{"an endless recursion", `($f := function($x){$f($x + 1)}; $f(1))`, "longer than", false},
		{"a deep recursion", `($f := function($x){1 + $f($x + 1)}; $f(1))`, "", false},
		{"too wide a range", `$range(1, 2000, 1)`, "1000", false},
		{"a bad hash algorithm", `$hash('x', 'CRC')`, "SHA-256", false},
		{"half a surrogate pair", `'\ud800'`, "surrogate", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := engine.Compile(c.source)
			if err != nil {
				t.Fatal(err)
			}
			out, err := engine.Eval(p, bindings(map[string]string{"input": `{"s":"x"}`}, nil))
			var e *Error
			if !errors.As(err, &e) {
				t.Fatalf("got %s and %v, want an *Error", out, err)
			}
			if e.Undefined != c.undefined || !strings.Contains(e.Error(), c.message) {
				t.Errorf("got %v (undefined %v)", e, e.Undefined)
			}
			// The engine works on, whatever state the runtime was left in.
			next, err := engine.Compile(`1 + 1`)
			if err != nil {
				t.Fatal(err)
			}
			if out, err := engine.Eval(next, Bindings{}); err != nil || string(out) != "2" {
				t.Errorf("afterwards 1 + 1 gives %s, %v", out, err)
			}
		})
	}
}

// A regular expression that backtracks without end is given up, and is an
// error, not a missing match.
func TestEndlessBacktracking(t *testing.T) {
	before := regexp2.DefaultMatchTimeout
	regexp2.DefaultMatchTimeout = 300 * time.Millisecond
	defer func() { regexp2.DefaultMatchTimeout = before }()
	engine := New(Options{Limit: 200 * time.Millisecond})
	p, err := engine.Compile(`$exists($match('` + strings.Repeat("a", 60) + `b', /(?=a)(a+)+$/))`)
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	out, err := engine.Eval(p, Bindings{})
	if e := (*Error)(nil); !errors.As(err, &e) || !strings.Contains(e.Message, "longer than") {
		t.Errorf("got %s, %v", out, err)
	}
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("it took %v", took)
	}
}

// The native shortcut and goja answer alike, whatever the document holds. A
// shortcut that unwrapped a singleton, kept a number's text or looked through
// an array would differ.
func TestNativePathEqualsJavaScript(t *testing.T) {
	engine := New(Options{})
	key := rapid.SampledFrom([]string{"a", "b", "c", "input"})
	var value func(depth int) *rapid.Generator[string]
	value = func(depth int) *rapid.Generator[string] {
		scalar := rapid.SampledFrom([]string{`1`, `-0`, `0`, `1.50`, `2.25`, `1e3`, `123456789012345678`, `0.0000001`, `"x"`, `"a\"1e9\\"`, `"é😀"`, `null`, `true`, `{}`, `[]`, `-7`})
		if depth == 0 {
			return scalar
		}
		inner := value(depth - 1)
		return rapid.OneOf(scalar,
			rapid.Custom(func(t *rapid.T) string {
				return "[" + strings.Join(rapid.SliceOfN(inner, 0, 3).Draw(t, "items"), ",") + "]"
			}),
			rapid.Custom(func(t *rapid.T) string {
				names := rapid.SliceOfNDistinct(key, 0, 3, func(k string) string { return k }).Draw(t, "names")
				var members []string
				for _, name := range names {
					members = append(members, `"`+name+`": `+inner.Draw(t, name))
				}
				return "{" + strings.Join(members, ", ") + "}"
			}))
	}
	rapid.Check(t, func(t *rapid.T) {
		document := value(3).Draw(t, "document")
		path := strings.Join(rapid.SliceOfN(key, 0, 3).Draw(t, "path"), ".")
		root := rapid.SampledFrom([]string{"$states.input", "$v"}).Draw(t, "root")
		source := strings.TrimSuffix(root+"."+path, ".")
		p, err := engine.Compile(source)
		if err != nil {
			t.Fatal(err)
		}
		if p.path == nil {
			t.Fatalf("%s is not seen as a plain path", source)
		}
		b := bindings(map[string]string{"input": document}, map[string]string{"v": document})
		native, ok := evalPath(p.path, b)
		if !ok {
			t.Skip("left to JavaScript")
		}
		script, err := engine.evalScript(p, b)
		var e *Error
		if errors.As(err, &e) && e.Undefined {
			if native != nil {
				t.Fatalf("%s on %s: native %s, JavaScript undefined", source, document, native)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		var x, y any
		if json.Unmarshal(native, &x) != nil || json.Unmarshal(script, &y) != nil || !reflect.DeepEqual(x, y) {
			t.Fatalf("%s on %s: native %s, JavaScript %s", source, document, native, script)
		}
	})
}

// vendored/jsonata.js is npm's file. The sum holds everywhere; the comparison
// with the package needs it installed (PX_JSONATA: the package's folder).
func TestVendoredFileIsNpmsOwn(t *testing.T) {
	sum := sha256.Sum256([]byte(librarySource))
	if got := hex.EncodeToString(sum[:]); got != librarySHA256 {
		t.Errorf("vendored/jsonata.js has the sum %s; it must stay npm's file", got)
	}
	dir := os.Getenv("PX_JSONATA")
	if dir == "" {
		if os.Getenv("CI") == "true" {
			t.Fatal("PX_JSONATA is unset: install jsonata@" + Version + " with npm and point it at node_modules/jsonata")
		}
		t.Skip("PX_JSONATA is unset: no npm package to compare with")
	}
	for ours, theirs := range map[string]string{"vendored/jsonata.js": "jsonata.js", "vendored/LICENSE": "LICENSE"} {
		a, err := os.ReadFile(ours)
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(filepath.Join(dir, theirs))
		if err != nil {
			t.Fatal(err)
		}
		if string(a) != string(b) {
			t.Errorf("%s differs from npm's %s", ours, theirs)
		}
	}
	var manifest struct{ Version, License string }
	text, err := os.ReadFile(filepath.Join(dir, "package.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &manifest); err != nil || manifest.Version != Version || manifest.License != "MIT" {
		t.Errorf("the package at PX_JSONATA is %+v (%v), want version %s under MIT", manifest, err, Version)
	}
}

func FuzzCompile(f *testing.F) {
	for _, seed := range []string{`$states.input.a`, `{"a": 1}`, `$map([1], function($x){$x})`, `/a/`, `$x[`, `%`, `a.b@$c#$d`, "`a b`.c", `$a ~> $b`, "\x00", `(((((`} {
		f.Add(seed)
	}
	engine := New(Options{Limit: time.Second})
	f.Fuzz(func(t *testing.T, source string) {
		p, err := engine.Compile(source)
		var e *Error
		if err != nil {
			if !errors.As(err, &e) {
				t.Fatalf("%q: %v is not an *Error", source, err)
			}
			return
		}
		if out, err := engine.Eval(p, bindings(map[string]string{"input": `{"a":1}`}, nil)); err == nil && !json.Valid(out) {
			t.Fatalf("%q gives %q, which is not JSON", source, out)
		}
	})
}

func BenchmarkEval(b *testing.B) {
	engine := New(Options{})
	for _, c := range []struct{ name, source string }{
		{"native path", `$states.input.a.b`},
		{"comparison", `$i < $n`},
		{"object constructor", `{"x": $states.input.a.b, "y": [1,2,3].($ * 2)}`},
	} {
		b.Run(c.name, func(b *testing.B) {
			p, err := engine.Compile(c.source)
			if err != nil {
				b.Fatal(err)
			}
			values := bindings(map[string]string{"input": `{"a":{"b":5}}`}, map[string]string{"i": "1", "n": "2"})
			for b.Loop() {
				if _, err := engine.Eval(p, values); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
