package python_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/python"
	"github.com/pxhost/pxhost/shared/python/pythontest"
)

// definition is a good one, with other arguments of the decorator and another body.
func definition(arguments, body string) string {
	return "@px.function(" + arguments + ")\ndef f(a):\n" + body
}

const (
	good = `key="f", version=1, description="d", inputs={"a": px.number(unit="m")}, results={"r": px.number(unit="m")}`
	body = "    return {\"r\": a}\n"
)

func with(input string) string { return strings.Replace(good, `px.number(unit="m")`, input, 1) }

func code(lines string) string { return definition(good, lines+"\n"+body) }

// covers: N2
func TestSourcesThatAreRefused(t *testing.T) {
	r := pythontest.Reader(t)
	plain := definition(good, body)
	for _, c := range []struct{ name, source, reasons string }{
		// text
		{"a byte order mark", "\ufeff" + plain, "byte_order_mark"},
		{"one in the middle", strings.Replace(plain, "def", "#\ufeff\ndef", 1), "invisible_character"},
		{"a carriage return alone", "x = 1\r" + plain, "bare_carriage_return"},
		{"one within a comment, behind which code would hide", "# comment\rimport os\n" + plain, "bare_carriage_return"},
		{"one within a string", "x = 'a\rb'\n" + plain, "bare_carriage_return"},
		{"NUL", plain + "#\x00", "nul_character"},
		{"a form feed", "\f" + plain, "control_character"},
		{"a backspace", plain + "# a\b", "control_character"},
		{"an escape sequence of a terminal", "# \x1b[2K\n" + plain, "control_character"},
		{"a C1 control", "# \u0085\n" + plain, "control_character"},
		{"a line separator", "# \u2028x\n" + plain, "line_separator"},
		{"writing that turns its direction", "# \u202e\n" + plain, "invisible_character"},
		{"an isolate", "x = '\u2066'\n" + plain, "invisible_character"},
		{"a space without width", "x = 'a\u200bb'\n" + plain, "invisible_character"},
		{"a hyphen that is not there", "x = 'a\u00adb'\n" + plain, "invisible_character"},
		{"an operator that is not there", "# \u2062\n" + plain, "invisible_character"},
		{"tags that no editor shows", "# \U000e0041\n" + plain, "invisible_character"},
		{"UTF-7", "# coding: utf-7\n" + plain, "foreign_encoding"},
		{"UTF-7 on the second line", "#!/usr/bin/env python3\n# -*- coding: utf-7 -*-\n" + plain, "foreign_encoding"},
		{"another encoding behind white space", " \t # vim: set fileencoding=latin-1 :\n" + plain, "foreign_encoding"},
		{"not UTF-8", "# \xff\n" + plain, "not_unicode"},
		{"a surrogate", "# \xed\xa0\x80\n" + plain, "not_unicode"},
		{"one byte more than 256 KB", plain + "#" + strings.Repeat("x", python.MaxSource-len(plain)), "source_bytes"},
		{"nothing", "", "definition_missing"},
		{"only a comment", "# nothing", "definition_missing"},
		// tokens
		{"a name that Python folds to eval", code("    ｅval('1')"), "name_refused non_ascii_identifier"},
		{"a name in Hangul", code("    값 = 1"), "non_ascii_identifier"},
		{"a Cyrillic letter in a name", code("    mаth = 1"), "non_ascii_identifier"},
		{"one within an f-string", code("    b = f\"{ｅval('1')}\""), "name_refused non_ascii_identifier"},
		{"one within an f-string within an f-string", code("    b = f\"{f'{ｅval}'}\""), "name_refused non_ascii_identifier"},
		{"one within the format of a field", code("    b = f\"{a:{ｅval}}\""), "name_refused non_ascii_identifier"},
		{"one behind a string that ends in quotes", "x = \"\"\"a\"\"\"\"b\"\n" + code("    ｅval"), "name_refused non_ascii_identifier"},
		{"one behind an empty string", "x = ''\n" + code("    ｅval"), "name_refused non_ascii_identifier"},
		{"one behind a continued line", code("    b = 1 + \\\n        ｅval"), "name_refused non_ascii_identifier"},
		{"an escape in a name", code("    \\u0065val('1')"), "syntax"},
		{"quotes within the fields of an f-string, as only 3.12 takes them", code("    b = f\"{a[\"k\"]}\""), "f_string_form"},
		{"a backslash there", code("    b = f\"{'\\n'}\""), "f_string_form"},
		{"a comment there", code("    b = f'''{a # x\n}'''"), "f_string_form"},
		{"a field that does not end", code("    b = f'{a'"), "f_string_form"},
		{"a brace alone", code("    b = f'}'"), "f_string_form"},
		{"fields in formats in formats", code("    b = f'{a:{a:{a}}}'"), "f_string_form"},
		{"a string that does not end", code("    b = 'a"), "string_not_closed"},
		{"a block of text that does not end", code("    b = \"\"\"a"), "string_not_closed"},
		{"brackets 65 deep", "x = " + strings.Repeat("(", 65) + "1" + strings.Repeat(")", 65) + "\n" + plain, "nesting_too_deep"},
		{"a chain 200 long", "x = " + strings.Repeat("-", 200) + "1\n" + plain, "nesting_too_deep"},
		{"a chain of dots", code("    b = a" + strings.Repeat(".b", 250)), "nesting_too_deep"},
		{"a chain that CPython's own stack would not take", code("    b = " + strings.Repeat("not ", 20_000) + "a"), "nesting_too_deep"},
		{"a number of 401 digits", code("    b = 1" + strings.Repeat("0", 400)), "number_too_long"},
		{"a number that is infinite", code("    b = 1e999"), "number_out_of_range"},
		{"an imaginary one", code("    b = 1e999j"), "number_out_of_range"},
		// imports
		{"os", "import os\n" + plain, "import_not_allowed"},
		{"a module below os", "import os.path as p\n" + plain, "import_not_allowed"},
		{"from os", "from os import system\n" + plain, "import_not_allowed"},
		{"from sys by way of another", "from statistics import sys\n" + plain, "name_refused"},
		{"everything of a module", "from math import *\n" + plain, "import_star"},
		{"a relative import", "from . import x\n" + plain, "import_relative"},
		{"a relative import of a module", "from ..math import x\n" + plain, "import_relative"},
		{"px by another name", "import px as q\n" + plain, "import_renamed"},
		{"from px", "from px import function\n" + plain, "import_not_allowed"},
		{"an import within the definition", code("    import math"), "import_not_at_top"},
		{"a private name of a module", "from random import _os\n" + plain, "name_refused"},
		{"a private attribute of a module", "import random\n" + code("    random._os"), "name_refused"},
		{"the system as an attribute", "import statistics\n" + code("    statistics.sys.exit()"), "name_refused"},
		{"two imports of one name", "import math\nfrom cmath import sqrt as math\n" + plain, "name_twice"},
		// names
		{"__import__", code("    __import__('os')"), "name_refused"},
		{"__builtins__", code("    __builtins__['eval']"), "name_refused"},
		{"eval", code("    eval('1')"), "name_refused"},
		{"exec by another name", code("    e = exec"), "name_refused"},
		{"open", code("    open('/etc/shadow')"), "name_refused"},
		{"getattr", code("    getattr(a, 'x')"), "name_refused"},
		{"the classes of everything", code("    ().__class__.__base__.__subclasses__()"), "name_refused name_refused name_refused"},
		{"globals of a method", code("    a.__init__.__globals__"), "name_refused"},
		{"a dunder in an f-string", code("    b = f'{a.__class__}'"), "name_refused"},
		{"a dunder as a keyword", code("    dict(__a=1)"), "name_refused"},
		{"a dunder in a pattern", code("    match a:\n        case int(__class__=b):\n            pass"), "name_refused"},
		{"a dunder that is caught", code("    try:\n        pass\n    except ValueError as __e:\n        pass"), "name_refused"},
		{"a global", code("    global b"), "syntax_not_supported"},
		{"px within the definition", code("    px.number(unit='m')"), "px_outside_contract"},
		{"px by a parameter", definition(with(`px.number(unit="m")`)+"", "    px = a\n"+body), "px_outside_contract"},
		// the module
		{"a call", "print('x')\n" + plain, "statement_not_supported"},
		{"a helper beside it", "def g():\n    pass\n" + plain, "definition_not_decorated"},
		{"a class beside it", "class C:\n    pass\n" + plain, "statement_not_supported"},
		{"an if", "if True:\n    x = 1\n" + plain, "statement_not_supported"},
		{"a text that is no docstring", "x = 1\n'text'\n" + plain, "statement_not_supported"},
		{"a constant that computes", "x = 1 + 1\n" + plain, "not_a_literal"},
		{"a constant that calls", "x = list()\n" + plain, "not_a_literal"},
		{"a constant that names", "x = 1\ny = x\n" + plain, "not_a_literal"},
		{"a constant that holds a name", "x = [1, {'a': (y,)}]\n" + plain, "not_a_literal"},
		{"a constant that is a text with fields", "x = f'{1}'\n" + plain, "not_a_literal"},
		{"a constant that unpacks", "x = [*'ab']\n" + plain, "not_a_literal"},
		{"two names at once", "x = y = 1\n" + plain, "statement_not_supported"},
		{"a pair of names", "x, y = 1, 2\n" + plain, "statement_not_supported"},
		{"an attribute that is set", "import math\nmath.pi = 3\n" + plain, "statement_not_supported"},
		{"an annotation that computes", "x: print('x') = 1\n" + plain, "annotation_computes"},
		{"a constant twice", "x = 1\nx = 2\n" + plain, "name_twice"},
		{"a constant over a module", "import math\nmath = 2\n" + plain, "name_twice"},
		{"a constant over the definition", "f = 2\n" + plain, "name_twice"},
		{"a constant named px", "px = 2\n" + plain, "px_outside_contract"},
		{"a dunder of the module", "__all__ = ['f']\n" + plain, "name_refused"},
		// the definition
		{"none", "import px\nx = 1\n", "definition_missing"},
		{"two of them", plain + strings.Replace(plain, "def f", "def g", 1), "definition_twice"},
		{"one without decorator", "def f(a):\n" + body, "definition_not_decorated"},
		{"the decorator is not called", "@px.function\ndef f(a):\n" + body, "decorator_form"},
		{"its call is called", "@px.function(" + good + ")()\ndef f(a):\n" + body, "decorator_form"},
		{"it is wrapped", "@(lambda f: px.function(" + good + ")(f))\ndef f(a):\n" + body, "decorator_form"},
		{"it is in brackets", "@(px.function(" + good + "))\ndef f(a):\n" + body, "decorator_form"},
		{"it is chosen", "@px.function(" + good + ") if 1 else print\ndef f(a):\n" + body, "decorator_form"},
		{"it stands behind another", "@print\n" + plain, "decorator_extra"},
		{"it stands before another", strings.Replace(plain, "\ndef", "\n@print\ndef", 1), "decorator_extra"},
		{"it stands twice", "@px.function(" + good + ")\n" + plain, "decorator_extra"},
		{"it is of a coroutine", strings.Replace(plain, "def f", "async def f", 1), "async_refused"},
		{"it is of a class", "@px.function(" + good + ")\nclass f:\n    pass\n", "definition_missing px_outside_contract px_outside_contract px_outside_contract statement_not_supported"},
		{"it is of a method", "class C:\n    @px.function(" + good + ")\n    def f(a):\n        return a\n", "definition_missing px_outside_contract px_outside_contract px_outside_contract statement_not_supported"},
		{"it is of a generator", code("    yield a"), "generator_refused"},
		{"it is of one that hands on", code("    yield from a"), "generator_refused"},
		{"it awaits", code("    await a"), "syntax_not_supported"},
		{"it loops over what is not there yet", code("    async for b in a:\n        pass"), "syntax_not_supported"},
		{"a definition within it is the decorator's again", code("    @px.function(" + good + ")\n    def g(a):\n        pass"), "px_outside_contract px_outside_contract px_outside_contract"},
		{"a default", "@px.function(" + good + ")\ndef f(a=1):\n" + body, "parameter_default"},
		{"a default that calls", "@px.function(" + good + ")\ndef f(a=print('x')):\n" + body, "parameter_default"},
		{"any arguments", "@px.function(" + good + ")\ndef f(a, *b):\n" + body, "parameter_form"},
		{"any keywords", "@px.function(" + good + ")\ndef f(a, **b):\n" + body, "parameter_form"},
		{"keywords alone", "@px.function(" + good + ")\ndef f(*, a):\n" + body, "input_without_parameter parameter_form"},
		{"places alone", "@px.function(" + good + ")\ndef f(a, /):\n" + body, "input_without_parameter parameter_form"},
		{"an annotation that calls", "@px.function(" + good + ")\ndef f(a: print('x')):\n" + body, "annotation_computes"},
		{"a result's annotation that calls", "@px.function(" + good + ")\ndef f(a) -> print('x'):\n" + body, "annotation_computes"},
		{"a parameter that is no input", "@px.function(" + good + ")\ndef f(a, b):\n" + body, "parameter_without_input"},
		{"an input that is no parameter", "@px.function(" + good + ")\ndef f():\n" + body, "input_without_parameter"},
		{"type parameters", "@px.function(" + good + ")\ndef f[T](a):\n" + body, "syntax"},
		{"a type alias", "type X = int\n" + plain, "syntax"},
		{"a return outside", plain + "return\n", "statement_not_supported"},
		{"a break outside a loop", code("    break"), "syntax"},
		{"a nonlocal of nothing", code("    nonlocal b"), "syntax"},
		{"a parameter twice", "@px.function(" + good + ")\ndef f(a, a):\n" + body, "syntax"},
		// the contract
		{"a place", strings.Replace(plain, `key="f"`, `"f"`, 1), "argument_missing positional_argument"},
		{"no key", strings.Replace(plain, `key="f", `, ``, 1), "argument_missing"},
		{"a key twice", strings.Replace(plain, `key="f"`, `key="f", key="g"`, 1), "syntax"},
		{"an argument that is unknown", strings.Replace(plain, `key="f"`, `key="f", name="g"`, 1), "argument_unknown"},
		{"arguments from elsewhere", strings.Replace(plain, `key="f"`, `**K`, 1), "argument_missing argument_unpacked"},
		{"a key that is computed", strings.Replace(plain, `key="f"`, `key="f" + "g"`, 1), "string_expected"},
		{"a key that is a field", strings.Replace(plain, `key="f"`, `key=f"f"`, 1), "string_expected"},
		{"a key that is none", strings.Replace(plain, `key="f"`, `key="F.g"`, 1), "key_form"},
		{"a key in bytes", strings.Replace(plain, `key="f"`, `key=b"f"`, 1), "string_expected"},
		{"version 0", strings.Replace(plain, `version=1`, `version=0`, 1), "number_out_of_range"},
		{"a version that is no whole number", strings.Replace(plain, `version=1`, `version=1.0`, 1), "integer_expected"},
		{"a version that is true", strings.Replace(plain, `version=1`, `version=True`, 1), "integer_expected"},
		{"a version that no number between programs can be", strings.Replace(plain, `version=1`, `version=9007199254740992`, 1), "number_out_of_range"},
		{"an empty description", strings.Replace(plain, `"d"`, `"  "`, 1), "text_length"},
		{"a description with half a character", strings.Replace(plain, `"d"`, `"\ud800"`, 1), "text_not_unicode"},
		{"no results", strings.Replace(plain, `{"r": px.number(unit="m")}`, `{}`, 1), "results_empty"},
		{"inputs that are made", strings.Replace(plain, `{"a": px.number(unit="m")}`, `dict(a=px.number(unit="m"))`, 1), "dict_expected"},
		{"inputs by comprehension", strings.Replace(plain, `{"a": px.number(unit="m")}`, `{k: px.number(unit="m") for k in "a"}`, 1), "dict_expected"},
		{"inputs that are unpacked", strings.Replace(plain, `{"a": px.number(unit="m")}`, `{**K, "a": px.number(unit="m")}`, 1), "not_a_literal"},
		{"an input twice", strings.Replace(plain, `{"a": px`, `{"a": px.string(), "a": px`, 1), "key_twice"},
		{"an input whose key is computed", strings.Replace(plain, `{"a": px`, `{"b" + "c": 1, "a": px`, 1), "string_expected"},
		{"a type that is no call", definition(with(`px.number`), body), "type_expected"},
		{"a type of another module", definition(with(`py.number(unit="m")`), body), "type_expected"},
		{"a type that is unknown", definition(with(`px.complex()`), body), "type_unknown"},
		{"a type that is made", definition(with(`(lambda: px.number(unit="m"))()`), body), "type_expected"},
		{"a number without unit", definition(with(`px.number()`), body), "argument_missing"},
		{"a unit of a text", definition(with(`px.string(unit="m")`), body), "argument_unknown"},
		{"a bound that is computed", definition(with(`px.number(unit="m", minimum=1+1)`), body), "number_expected"},
		{"a bound that is infinite", definition(with(`px.number(unit="m", minimum=1e999)`), body), "number_out_of_range"},
		{"a shape of no size", definition(with(`px.number(unit="m", shape=[])`), body), "shape_form"},
		{"a table in a table", definition(with(`px.table(columns={"b": px.table(columns={})})`), body), "type_unknown"},
		{"a default of another form", definition(with(`px.number(unit="m", default=[1])`), body), "default_form"},
		{"a default of a file", definition(with(`px.file(default="x")`), body), "argument_unknown"},
		{"records in records without end", definition(with(strings.Repeat(`px.list(of=`, 9)+`px.boolean()`+strings.Repeat(`)`, 9)), body), "nesting_too_deep"},
		{"a capability that is no key", strings.Replace(plain, `key="f"`, `key="f", capabilities=["a b"]`, 1), "key_form"},
		{"capabilities that are computed", strings.Replace(plain, `key="f"`, `key="f", capabilities=[]+[]`, 1), "list_expected"},
		{"an exception in an argument", strings.Replace(plain, `key="f"`, `key=1/0`, 1), "string_expected"},
	} {
		t.Run(c.name, func(t *testing.T) {
			reply := read(t, r, c.source)
			var got []string
			for _, f := range reply.Findings {
				got = append(got, f.Reason)
			}
			slices.Sort(got)
			if strings.Join(got, " ") != c.reasons {
				t.Errorf("reasons %q, want %q", got, c.reasons)
			}
			if reply.Function != nil || !reply.Refused() {
				t.Errorf("it has a contract: %+v", reply.Function)
			}
			// A finding says where, and never what stands there.
			text, err := json.Marshal(reply.Diagnostics("/source"))
			if err != nil {
				t.Fatal(err)
			}
			for _, secret := range []string{"shadow", "system(", "comment", "subclasses__()", "print(", "\\u"} {
				if strings.Contains(string(text), secret) {
					t.Errorf("%s tells %q", text, secret)
				}
			}
			for _, d := range reply.Diagnostics("/source") {
				if d.Path != "/source" || d.Params["line"].(int) < 1 || d.Params["column"].(int) < 1 {
					t.Errorf("%+v", d)
				}
			}
		})
	}
}

// covers: N2
func TestSourcesThatAreTaken(t *testing.T) {
	r := pythontest.Reader(t)
	plain := definition(good, body)
	for name, source := range map[string]string{
		"the plain one":                   plain,
		"exactly 256 KB":                  plain + "#" + strings.Repeat("x", python.MaxSource-len(plain)-1),
		"CRLF":                            strings.ReplaceAll(plain, "\n", "\r\n"),
		"tabs":                            strings.ReplaceAll(plain, "    ", "\t"),
		"no newline at its end":           strings.TrimSpace(plain),
		"a cookie that says UTF-8":        "# -*- coding: UTF-8 -*-\n" + plain,
		"Hangul in strings and comments":  "'거더 검토'\n# 저항\nNAME = '단면 😀'\n" + plain,
		"escapes in strings":              "X = '\\u0065\\x41\\N{HANGUL SYLLABLE GA}\\\\'\nY = r'\\u'\nZ = b'\\xff'\n" + plain,
		"constants of every kind":         "X = [1, -2.5, 1j, None, True, ('a', b'b'), {'k': {1, 2}}]\nY: list[int] | None = None\n" + plain,
		"imports":                         "import px, math, numpy as np\nimport collections.abc\nfrom statistics import mean as m, median\n" + code("    b = np.zeros(3); m([a]); math.pi"),
		"an f-string with all its parts":  code("    b = f'{a!r:>{10}} {{x}} {a==1} {a != 1} {a:=^8} {a=} {[1, 2][0]:d} {\"x\" if a else \"{y}\"}' rf'\\d{a}' f\"\"\"{\n    a}\"\"\" '가'"),
		"names in f-strings":              code("    b = f'{a}\\N{DIGIT ONE}가{a}'"),
		"nested definitions and classes":  code("    from_ = lambda x: (yield)\n    class C:\n        def __init__(self):\n            super().__init__()\n            self._x = 1\n    def g(x=a, *y, **z):\n        yield x\n    @g\n    def h(): pass"),
		"match, walrus, star, try":        code("    match a:\n        case {'x': int() as b, **c}: pass\n        case [1, *d]: pass\n        case _: pass\n    if (n := 1) > 0: pass\n    e, *g = 1, 2\n    try:\n        pass\n    except* ValueError: pass"),
		"a parameter named as a built-in": strings.NewReplacer(`"a"`, `"input"`, "f(a)", "f(input)", ": a}", ": input}").Replace(plain),
		"annotations":                     "@px.function(" + good + ")\ndef f(a: float) -> dict[str, 'float | None']:\n" + body,
		"a namedtuple's methods":          "from collections import namedtuple\n" + code("    b = namedtuple('p', 'x y')(1, 2)._replace(x=3)._asdict()"),
		"a chain within bounds":           "X = " + strings.Repeat("(", 60) + "1" + strings.Repeat(")", 60) + "\n" + code("    b = "+strings.Repeat("-", 150)+"a"),
		"a label":                         strings.Replace(plain, `key="f"`, `key="f", label={"en": "F", "ko": "함수"}`, 1),
		"a semicolon and a comment":       code("    b = 1; c = 2  # 'not a string"),
		"a line that goes on":             code("    b = 1 + \\\n        2"),
		"strings with all their prefixes": "X = [R'\\d', rb'\\d', Rb\"\", bR'''x''', u'a', U\"b\", '''a'b''c''', \"\"\"a\"b\"\"c\"\"\", 'a\\\nb', '\\'', '\\\\']\n" + plain,
		"spaces around the @":             strings.Replace(plain, "@px", "@ \tpx", 1),
	} {
		t.Run(name, func(t *testing.T) {
			if reply := read(t, r, source); reply.Refused() || reply.Function.FunctionKey != "f" {
				t.Errorf("%+v", reply.Diagnostics(""))
			}
		})
	}
}

// covers: N2
func TestEveryTypeBecomesItsContract(t *testing.T) {
	r := pythontest.Reader(t)
	for _, c := range []struct{ call, contract string }{
		{`px.number(unit="kN*m", shape="scalar", minimum=0, exclusive_maximum=1.5, nullable=True, quantity_kind="moment", default=0.5)`,
			`{"type":"number","unit":"kN*m","shape":"scalar","nullable":true,"constraints":{"minimum":0,"exclusiveMaximum":1.5},"quantityKind":"moment","default":{"unit":"kN*m","value":0.5}}`},
		{`px.number(unit="m", shape=[None, 3])`, `{"type":"number","unit":"m","shape":[null,3]}`},
		{`px.number(unit="m", shape=(2,), default=[1, 2.5])`, `{"type":"number","unit":"m","shape":[2],"default":{"unit":"m","value":[1,2.5]}}`},
		{`px.integer(minimum=-1, default=3)`, `{"type":"integer","constraints":{"minimum":-1},"default":{"value":3}}`},
		{`px.boolean(default=False)`, `{"type":"boolean","default":{"value":false}}`},
		{`px.string(min_length=1, max_length=9, pattern="^a" "b$", default="ab")`, `{"type":"string","constraints":{"minLength":1,"maxLength":9,"pattern":"^ab$"},"default":{"value":"ab"}}`},
		{`px.enum(values=["a", "나"], default="나")`, `{"type":"enum","default":{"value":"나"},"values":["a","나"]}`},
		{`px.list(of=px.number(unit="m"), min_items=1, max_items=3, default=[1])`, `{"type":"list","default":{"unit":"m","value":[1]},"of":{"type":"number","unit":"m"},"minItems":1,"maxItems":3}`},
		{`px.record(fields={"b": px.number(unit="m"), "c": px.string()}, default={"b": 1, "c": "x"})`,
			`{"type":"record","default":{"value":{"b":{"unit":"m","value":1},"c":{"value":"x"}}},"fields":{"b":{"type":"number","unit":"m"},"c":{"type":"string"}}}`},
		{`px.table(columns={"z": px.number(unit="m", nullable=True), "b": px.enum(values=["x"])}, max_items=5, default=[{"b": "x", "z": None}])`,
			`{"type":"table","default":{"columns":[{"columnKey":"z","type":"number","unit":"m"},{"columnKey":"b","type":"enum"}],"rows":[[null,"x"]]},"maxItems":5,"columns":[{"columnKey":"z","type":"number","unit":"m","nullable":true},{"columnKey":"b","type":"enum","values":["x"]}]}`},
		{`px.file(media_type="text/csv")`, `{"type":"file","mediaType":"text/csv"}`},
		{`px.list(of=px.record(fields={"b": px.boolean()}), default=[{"b": True}])`, `{"type":"list","default":{"value":[{"value":{"b":{"value":true}}}]},"of":{"type":"record","fields":{"b":{"type":"boolean"}}}}`},
		{`px.string(nullable=True, default=None)`, `{"type":"string","nullable":true,"default":{"value":null}}`},
	} {
		reply := read(t, r, definition(with(c.call), body))
		if reply.Refused() {
			t.Errorf("%s: %+v", c.call, reply.Diagnostics(""))
			continue
		}
		var want, got any
		text, err := json.Marshal(reply.Function.Inputs["a"])
		if err != nil {
			t.Fatal(err)
		}
		if json.Unmarshal([]byte(c.contract), &want) != nil || json.Unmarshal(text, &got) != nil || fmt.Sprint(want) != fmt.Sprint(got) {
			t.Errorf("%s:\n got %s\nwant %s", c.call, text, c.contract)
		}
	}
}

// A pinned minor reads, or refuses with the code that says it is the host's lack.
func TestAnotherMinorOfPythonRefuses(t *testing.T) {
	exchange := pythontest.Exchange(t)
	reply := read(t, python.New(exchange, "3.6"), girder)
	if len(reply.Findings) != 1 || reply.Findings[0].Code != outcome.SandboxUnavailable || reply.Findings[0].Reason != "python_minor" {
		t.Errorf("%+v", reply.Findings)
	}
	// To ask again is no use: the pin is to be changed.
	if d := reply.Diagnostics(""); len(d) != 1 || d[0].Retryable || d[0].SuggestedAction != outcome.ChangePythonPin {
		t.Errorf("%+v", d)
	}
	if again := read(t, python.New(exchange, reply.Python), girder); again.Refused() {
		t.Errorf("%+v", again.Diagnostics(""))
	}
	// A Request's own pin comes before the client's.
	for pin, refused := range map[string]bool{reply.Python: false, "3.7": true} {
		own, err := python.New(exchange, "3.6").Read(t.Context(), python.Request{Kind: python.FunctionKind, Source: girder, Python: pin})
		if err != nil || own.Refused() != refused {
			t.Errorf("%s: %+v, %v", pin, own.Diagnostics(""), err)
		}
	}
}
