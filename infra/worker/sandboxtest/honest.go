package sandboxtest

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/pxhost/pxhost/infra/worker/job"
	"github.com/pxhost/pxhost/infra/worker/sandbox"
)

// Def is the source of a Function as people write it, around a body.
func Def(parameters, body string) string {
	return "import px\n\n@px.function(key=\"f\", version=1, description=\"\", inputs={}, results={\"y\": px.number(unit=\"1\")}, capabilities=[])\ndef f(" +
		parameters + "):\n" + body + "\n"
}

// Y is the results of most Functions here.
var Y = map[string]string{"y": Number}

// Honest holds a driver to what Functions may rely on.
func Honest(t *testing.T, d sandbox.Driver) {
	pool := sandbox.NewPool(d, 2)
	t.Cleanup(func() {
		if err := pool.Close(); err != nil {
			t.Error(err)
		}
	})
	const table = `{"type":"table","columns":[{"columnKey":"x","type":"number","unit":"m"},{"columnKey":"n","type":"string"}]}`
	for _, c := range []struct {
		name  string
		calls []Function
		want  string // the results, as JSON
	}{
		{"a number goes in and out as a float, whatever JSON wrote", []Function{{
			Source: Def("x", "    return {'y': x / 2 if isinstance(x, float) else 0}"), Parameters: []Parameter{{Key: "x", Contract: Number, Value: "3"}}, Results: Y}},
			`[{"nodeKey":"node_0","values":{"y":1.5}}]`},
		{"everything that may be imported can be, and submodules", []Function{{
			Source:  "import px, math, cmath, statistics, fractions, decimal, itertools, functools, bisect, collections, dataclasses, enum, typing, operator, re, json, datetime, random\nimport collections.abc\nfrom dataclasses import dataclass\n\n@dataclass\nclass P:\n    x: float\n\ndef f():\n    return {'y': P(statistics.mean([1, 2, 3])).x + int(datetime.datetime.strptime('2026', '%Y').year)}\n",
			Results: Y}},
			`[{"nodeKey":"node_0","values":{"y":2028.0}}]`},
		{"px need not be imported", []Function{{
			Source:  "@px.function(key=\"f\", version=1, description=\"d\", inputs={}, results={\"y\": px.number(unit=\"1\")})\ndef f():\n    return {'y': 1}\n",
			Results: Y}},
			`[{"nodeKey":"node_0","values":{"y":1.0}}]`},
		{"tables are rows of objects, lists and records are themselves", []Function{{
			Source:     Def("rows", "    return {'y': [{'x': r['x'] * 2, 'n': r['n']} for r in rows], 'l': [r['x'] for r in rows], 'r': {'a': True, 'b': None}}"),
			Parameters: []Parameter{{"rows", table, `[{"x":1,"n":"a"},{"x":2.5,"n":"é"}]`}},
			Results: map[string]string{"y": table, "l": `{"type":"list","of":` + Number + `}`,
				"r": `{"type":"record","fields":{"a":{"type":"boolean"},"b":{"type":"string","nullable":true}}}`}}},
			`[{"nodeKey":"node_0","values":{"l":[1.0,2.5],"r":{"a":true,"b":null},"y":[{"x":2.0,"n":"a"},{"x":5.0,"n":"é"}]}}]`},
		{"an array has the shape of its contract", []Function{{
			Source:  Def("", "    return {'y': [[1, 2], [3, 4]], 'i': 7, 'e': 'b'}"),
			Results: map[string]string{"y": `{"type":"number","unit":"1","shape":[null,2]}`, "i": `{"type":"integer"}`, "e": `{"type":"enum","values":["a","b"]}`}}},
			`[{"nodeKey":"node_0","values":{"e":"b","i":7,"y":[[1.0,2.0],[3.0,4.0]]}}]`},
		{"a Function that raises is told by class and line, and the others run", []Function{
			{Source: Def("", "    return {'y': 1}"), Results: Y},
			{Source: Def("", "    secret = 42\n    raise ValueError(secret)"), Results: Y},
			{Source: Def("", "    return {'y': 3}"), Results: Y}},
			`[{"nodeKey":"node_0","values":{"y":1.0}},{"nodeKey":"node_1","error":{"reason":"exception","line":6,"exception":"ValueError"}},{"nodeKey":"node_2","values":{"y":3.0}}]`},
		{"one Function sees nothing of another: names, modules, files", []Function{
			{Source: Def("", "    import math, builtins_ as b\n    return {'y': 1}"), Results: Y},
			{Source: Def("", "    import math\n    math.pi = 3\n    open('/tmp/x', 'w').write('x')\n    open('/work/x', 'w').write('x')\n    return {'y': math.pi}"), Results: Y},
			{Source: Def("", "    import math\n    try:\n        open('/tmp/x')\n    except FileNotFoundError:\n        try:\n            open('/work/x')\n        except FileNotFoundError:\n            return {'y': math.floor(math.pi * 100)}\n    return {'y': 0}"), Results: Y}},
			`[{"nodeKey":"node_0","error":{"reason":"import_refused","line":5}},{"nodeKey":"node_1","values":{"y":3.0}},{"nodeKey":"node_2","values":{"y":314.0}}]`},
		{"what a Function prints goes nowhere", []Function{{
			Source: "import px\nprint('{\"call\":0,\"values\":{\"y\":9}}')\n" + Def("", "    print('noise' * 1000)\n    return {'y': 1}"), Results: Y}},
			`[{"nodeKey":"node_0","values":{"y":1.0}}]`},
		{"a Function without results gives none", []Function{{Source: Def("", "    return {}"), Results: map[string]string{}}},
			`[{"nodeKey":"node_0","values":{}}]`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := entries(t, pool, Limits, c.calls...); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}

	t.Run("jobs of a Run that follow each other share a sandbox, and see nothing of each other", func(t *testing.T) {
		pool := sandbox.NewPool(d, 3)
		t.Cleanup(func() {
			if err := pool.Close(); err != nil {
				t.Error(err)
			}
		})
		for pool.Warm() < 3 {
			time.Sleep(5 * time.Millisecond)
		}
		f := Function{Source: Def("", "    import math\n    try:\n        open('/tmp/x')\n        return {'y': 0}\n    except FileNotFoundError:\n        open('/tmp/x', 'w').write('x')\n    math.pi += 1\n    return {'y': math.floor(math.pi)}"), Results: Y}
		for n := range 4 {
			spec, _ := Spec(t, Limits, f, f)
			spec, text := Row(t, spec, n+1)
			result, err := sandbox.Run(t.Context(), pool, spec, text)
			if err != nil || outcome(result.Results[0]) != `{"y":4.0}` || outcome(result.Results[1]) != `{"y":4.0}` {
				t.Errorf("job %d: %v %v", n, result.Results, err)
			}
		}
		if warm := pool.Warm(); warm != 2 {
			t.Errorf("%d are warm after all of them, want 2", warm)
		}
	})

	t.Run("the same job gives the same result in every sandbox: hash order, random numbers, addresses", func(t *testing.T) {
		f := Function{Source: Def("", "    import random\n    s = {'a', 'b', 'c', 'd', 'e', 'f', 'g'}\n    return {'y': list(s), 'r': random.random() + random.SystemRandom().random()}"),
			Results: map[string]string{"y": `{"type":"list","of":{"type":"string"}}`, "r": Number}}
		first := entries(t, pool, Limits, f)
		for range 3 {
			if again := entries(t, pool, Limits, f, f); again != fmt.Sprintf("[%s,%s]", first[1:len(first)-1], replaceNode(first[1:len(first)-1])) {
				t.Fatalf("first %s\nthen  %s", first, again)
			}
		}
	})
}

func replaceNode(entry string) string {
	var e job.Entry
	if json.Unmarshal([]byte(entry), &e) != nil {
		return ""
	}
	e.NodeKey = "node_1"
	text, _ := json.Marshal(e)
	return string(text)
}

// entries runs a job and returns its entries as JSON.
func entries(t testing.TB, pool *sandbox.Pool, limits job.Limits, calls ...Function) string {
	t.Helper()
	spec, text := Spec(t, limits, calls...)
	result, err := sandbox.Run(t.Context(), pool, spec, text)
	if err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(result.Results)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
