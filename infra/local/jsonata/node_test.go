package jsonata

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"reflect"
	"testing"
)

// expressions use every function of the language at least once, and what leans
// on the JavaScript engine most: regular expressions, dates, number formats,
// sorting, Unicode.
var expressions = []string{
	"$sum([1, 2.5])", "$count([1, [2, 3]])", "$max([1, 5, 3])", "$min([])", "$min([4, -2])", "$average([1, 2, 4])",
	"$string(1e21)", "$string(0.1 + 0.2)", "$string({'a': [1, null, true]})", "$string(1e-7)", "$string([1, 2], true)", "$string('<&>')",
	"$substring('héllo wörld', 2, 3)", "$substring('😀😁😂', -2, 1)", "$substringBefore('a-b-c', '-')", "$substringAfter('a-b-c', '-')",
	"$lowercase('ÀÉ İ')", "$uppercase('straße ﬁ')", "$length('😀é')", "$trim('  a \\n b  ')", "$pad('x', 5, '#')", "$pad('x', -5)",
	"$match('ab12cd345', /([a-z]+)([0-9]+)/)", "$match('aAbB', /[a-z]/i)", "$contains('abc', /b/)", "$contains('abc', 'd')",
	"$replace('ab12', /([a-z])([0-9])/, '$2$1')", "$replace('aaa', 'a', 'b', 2)", "$replace('265', /[0-9]/, function($m) { $string($number($m.match) + 1) })",
	"$split('a, b ,c', /\\s*,\\s*/)", "$split('abc', '')", "$join(['a', 'b'], '-')", "$formatNumber(12345.678, '#,##0.00')", "$formatNumber(0.14, '0%')", "$formatNumber(1234.5, '0.0e0')",
	"$formatBase(255, 16)", "$formatInteger(1999, 'I')", "$formatInteger(123, 'w')", "$parseInteger('MCMXCIX', 'I')", "$parseInteger('one hundred and five', 'w')",
	"$number('12.5')", "$number('0x1F')", "$number(true)", "$number('abc')", "$floor(-1.5)", "$ceil(-1.5)", "$round(2.5)", "$round(3.5)", "$round(123.456, -1)", "$round(-2.5)", "$abs(-3)", "$sqrt(2)", "$sqrt(-1)", "$power(2, 10)", "$power(2, 0.5)",
	"$boolean([0])", "$boolean({})", "$not(0)", "$map([1, 2], function($v, $i, $a) { $v + $i + $count($a) })", "$zip([1, 2], [3, 4, 5])",
	"$filter([1..10], function($v) { $v % 3 = 0 })", "$single([1, 2, 3], function($v) { $v = 2 })", "$single([1, 2], function($v) { true })", "$reduce([1..5], function($a, $b) { $a * $b })", "$reduce([], function($a, $b) { $a }, 9)",
	"$sift({'a': 1, 'b': 2}, function($v, $k) { $v > 1 })", "$keys([{'a': 1}, {'b': 2}])", "$lookup({'a': 1}, 'a')", "$append([1], [2, 3])", "$exists($nope)", "$spread({'a': 1, 'b': 2})", "$merge([{'a': 1}, {'a': 2, 'b': 3}])",
	"$reverse([1, 2, 3])", "$each({'a': 1, 'b': 2}, function($v, $k) { $k & $v })", "$error('gone')", "$assert(1 = 1, 'no')", "$assert(false, 'no')", "$type(null)", "$type([])", "$type($sum)",
	"$sort([3, 1, 2])", "$sort(['b', 'a', 'B'])", "$sort([{'k': 2}, {'k': 1}], function($l, $r) { $l.k > $r.k })", "$distinct([1, 2, 1, {'a': 1}, {'a': 1}])",
	"$base64encode('hello')", "$base64decode('aGVsbG8=')", "$encodeUrlComponent('a b&ü')", "$encodeUrl('https://x.y/ü?q=a b')", "$decodeUrlComponent('a%20b%26%C3%BC')", "$decodeUrl('https://x.y/%C3%BC')",
	"$toMillis('2018-03-30T12:34:56.789Z')", "$toMillis('30/03/2018 12:34', '[D01]/[M01]/[Y0001] [H01]:[m01]')", "$fromMillis(1522413296789)", "$fromMillis(1522413296789, '[FNn], [D1o] [MNn] [Y] [h]:[m01] [P]', '+0900')", "$fromMillis(0, '[W01] [d001] [X0001]')",
	"$clone({'a': [1]})", "[1..5][$ > 2]", "{'a': [1, 2]}.a[-1]", "[{'x': 3}, {'x': 1}]^(x)", "[{'x': 'b', 'y': 1}, {'x': 'a', 'y': 2}, {'x': 'b', 'y': 3}]{x: $sum(y)}", "[{'a': [{'b': 1}, {'b': 2}]}].a.b", "[[1, 2], [3]].$", "[1, 2] = [1, 2]", "{'a': 1} = {'a': 1}", "1 in [1, 2]", "'a' & 1 & null & true", "7 % -3", "-7 % 3", "5 / 2", "1 / 0", "null = null", "'b' > 'a'", "1 < 'a'", "true ? 'y' : 'n'", "$nope ? 'y' : 'n'", "($f := function($n) { $n <= 1 ? 1 : $n * $f($n - 1) }; $f(20))", "($add := function($a, $b) { $a + $b }; $inc := $add(?, 1); $inc(4))", "[1, 2, 3] ~> $map(function($v) { $v * 2 }) ~> $sum", "{'a': {'b': 1}} ~> |a|{'c': 2}, 'b'|", "[{'a': 1}, {'a': 2}]#$i.{'i': $i, 'a': a}", "[{'id': 1, 'l': [{'v': 'x'}]}]@$o.l@$p.{'id': $o.id, 'v': $p.v}", "'\\u00e9' & 'é'", "$count('abc')", "$sum('a')", "{'b': 1, '2': 2, 'a': 3, '1': 4}", "[0.1 * 3, 1e300 * 10, 123456789012345680000]",
}

const nodeScript = `
const jsonata = require(process.argv[1]);
(async () => {
  const out = [];
  for (const source of JSON.parse(require('fs').readFileSync(0, 'utf8'))) {
    try {
      const value = await jsonata(source).evaluate(undefined);
      out.push(value === undefined ? {undefined: true} : {value});
    } catch (e) { out.push({code: e.code || String(e)}); }
  }
  console.log(JSON.stringify(out));
})();`

// The same library on Node and on goja gives the same values and the same error
// codes: what the JavaScript engine contributes does not show.
func TestGojaEqualsNode(t *testing.T) {
	dir := os.Getenv("PX_JSONATA")
	if dir == "" {
		if os.Getenv("CI") == "true" {
			t.Fatal("PX_JSONATA is unset: install jsonata@" + Version + " with npm and point it at node_modules/jsonata")
		}
		t.Skip("PX_JSONATA is unset: no Node to compare with")
	}
	in, err := json.Marshal(expressions)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("node", "-e", nodeScript, dir)
	cmd.Stdin = bytes.NewReader(in)
	text, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var results []struct {
		Value     any
		Undefined bool
		Code      string
	}
	if err := json.Unmarshal(text, &results); err != nil || len(results) != len(expressions) {
		t.Fatalf("node gives %d results: %v", len(results), err)
	}
	engine := New(Options{})
	for i, source := range expressions {
		want := results[i]
		p, err := engine.Compile(source)
		if err != nil {
			t.Errorf("%s: %v", source, err)
			continue
		}
		out, err := engine.Eval(p, Bindings{})
		var e *Error
		switch {
		case errors.As(err, &e):
			if e.Code != want.Code || e.Undefined != want.Undefined {
				t.Errorf("%s: goja says %v, node %+v", source, err, want)
			}
		case err != nil:
			t.Errorf("%s: %v", source, err)
		default:
			var got any
			if err := json.Unmarshal(out, &got); err != nil {
				t.Errorf("%s gives %s: %v", source, out, err)
			}
			if want.Code != "" || want.Undefined || !reflect.DeepEqual(got, want.Value) {
				t.Errorf("%s: goja gives %s, node %+v", source, out, want)
			}
		}
	}
}
