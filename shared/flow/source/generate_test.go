package source

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/flow"
	"github.com/pxhost/pxhost/shared/quantity"
	"github.com/pxhost/pxhost/shared/target"
)

// Keys are few, so that random commands meet what is there. Some are words of
// Python, or names that the source gives to other things.
var (
	someNodes    = rapid.SampledFrom([]string{"n1", "n2", "if", "flow", "a"})
	somePorts    = rapid.SampledFrom([]string{"a", "b", "lambda", "px"})
	someSettings = rapid.SampledFrom([]string{"k", "l", "inputs", "none_1"})
	someUnits    = rapid.SampledFrom([]string{"m", "ft", "kN*m", "1"})
	someLabels   = rapid.SampledFrom([]target.Label{nil, {"en": "x"}, {"en": "it's \"so\" # no comment", "ko": "거더 검토"}, {"en": "a\u200bb\\n"}})
	someValues   = rapid.SampledFrom([]canon.Raw{canon.Raw(`1`), canon.Raw(`{"unit":"m","value":1}`), canon.Raw(`[1,"a"]`), canon.Raw(`-0.5`), canon.Raw(`{}`), canon.Raw(`[]`),
		canon.Raw(`true`), canon.Raw(`{"a":[{"b":false},null,1e+21,5e-324]}`), canon.Raw(`"#\t\u0001é🌉\u2028"`), canon.Raw(`{"expression":"` + strings.Repeat("w * span ^ 2 + ", 9) + `1","unit":"kN*m"}`),
		canon.Raw(`[` + strings.Repeat(`"some text",`, 20) + `0.1]`), canon.Raw(`9007199254740991`), canon.Raw(`[100000000000000000000,-1e+300]`)})
)

func number64(unit string) quantity.Port { return quantity.Port{Type: quantity.NumberType, Unit: unit} }

func pointer[T any](v T) *T { return &v }

var someContracts = []quantity.Port{
	{Type: quantity.NumberType, Unit: "m", Shape: quantity.Scalar, Nullable: pointer(false), Constraints: &quantity.Constraints{ExclusiveMinimum: pointer(0.), Maximum: pointer(1e20)}, QuantityKind: "length"},
	{Type: quantity.NumberType, Unit: "kN*m", Shape: quantity.ArrayShape(3, quantity.AnySize), Nullable: pointer(true), Constraints: &quantity.Constraints{Minimum: pointer(-0.1), ExclusiveMaximum: pointer(5e-324)}},
	{Type: quantity.NumberType, Unit: "1", Default: canon.Raw(`{"value":2}`)},
	{Type: quantity.NumberType, Unit: "m", Default: canon.Raw(`{"unit":"ft","value":2}`)},
	{Type: quantity.IntegerType, Constraints: &quantity.Constraints{Minimum: pointer(1.)}, Default: canon.Raw(`{"value":null}`)},
	{Type: quantity.BooleanType, Nullable: pointer(true)},
	{Type: quantity.StringType, Constraints: &quantity.Constraints{MinLength: pointer(0), MaxLength: pointer(20), Pattern: pointer(`^[a-z"\\]+\d가$`)}},
	{Type: quantity.EnumType, Values: []string{"pinned", "fixed", `"'`}},
	{Type: quantity.RecordType, Fields: map[string]quantity.Port{"x": number64("m"), "in": {Type: quantity.ListType, Of: &quantity.Port{Type: quantity.BooleanType}, MinItems: pointer(1)}}},
	{Type: quantity.ListType, Of: &quantity.Port{Type: quantity.NumberType, Unit: "kN"}, MinItems: pointer(1), MaxItems: pointer(3)},
	{Type: quantity.TableType, Columns: []quantity.Column{{ColumnKey: "z", Type: quantity.NumberType, Unit: "m", QuantityKind: "length"}, {ColumnKey: "kind", Type: quantity.EnumType, Values: []string{"a"}, Nullable: pointer(false)}}, MaxItems: pointer(9)},
	{Type: quantity.FileType, MediaType: "text/csv"},
}

func somePort(t *rapid.T) quantity.Port {
	if rapid.Bool().Draw(t, "plain") {
		return number64(someUnits.Draw(t, "unit"))
	}
	return rapid.SampledFrom(someContracts).Draw(t, "contract")
}

func someTarget(t *rapid.T) flow.Target {
	if rapid.Bool().Draw(t, "component") {
		return flow.ComponentTarget{ComponentKey: "px.formula", Version: rapid.IntRange(1, 2).Draw(t, "version")}
	}
	return flow.FunctionTarget{FunctionKey: "length", Version: rapid.IntRange(1, 2).Draw(t, "version"), Digest: "sha256:" + strings.Repeat("0a", 32)}
}

// someBinding is a binding to something of a document, so that it has a source.
func someBinding(t *rapid.T, inputs, nodes []string) flow.Binding {
	if len(inputs) > 0 && rapid.Bool().Draw(t, "input") {
		return flow.FlowInput{PortKey: rapid.SampledFrom(inputs).Draw(t, "port")}
	}
	if len(nodes) > 0 && rapid.Bool().Draw(t, "node") {
		return flow.NodeResult{NodeKey: rapid.SampledFrom(nodes).Draw(t, "node"), PortKey: somePorts.Draw(t, "port")}
	}
	return flow.Literal{Value: someValues.Draw(t, "value")}
}

// someDocument is a document that is closed: what its bindings name is there. It
// need not be valid otherwise.
func someDocument(t *rapid.T) flow.Document {
	doc := flow.Document{Format: flow.Format, FlowKey: "f", Label: someLabels.Draw(t, "label"), Authoring: flow.Authoring{Kind: flow.SDK, SourceDigest: "sha256:0"},
		Inputs: rapid.MapOfN(somePorts, rapid.Custom(somePort), 0, 3).Draw(t, "inputs"), Results: map[string]flow.ResultPort{}, Nodes: map[string]flow.Node{}}
	keys := rapid.SliceOfNDistinct(someNodes, 0, 4, rapid.ID).Draw(t, "nodes")
	inputs := slices.Sorted(maps.Keys(doc.Inputs))
	for _, key := range keys {
		node := flow.Node{Target: someTarget(t), Label: someLabels.Draw(t, "label")}
		if rapid.Bool().Draw(t, "settings") {
			node.Settings = rapid.MapOfN(someSettings, someValues, 1, 3).Draw(t, "settings")
		}
		for _, port := range rapid.SliceOfNDistinct(somePorts, 0, 3, rapid.ID).Draw(t, "bound") {
			if node.InputBindings == nil {
				node.InputBindings = map[string]flow.Binding{}
			}
			node.InputBindings[port] = someBinding(t, inputs, keys)
		}
		doc.Nodes[key] = node
	}
	for _, key := range rapid.SliceOfNDistinct(somePorts, 0, 3, rapid.ID).Draw(t, "results") {
		r := flow.ResultPort{Port: somePort(t)}
		if rapid.Bool().Draw(t, "bound") {
			r.Binding = someBinding(t, inputs, keys)
		}
		doc.Results[key] = r
	}
	return canonical(t, doc)
}

func canonical(t fataler, doc flow.Document) flow.Document {
	text, err := canon.Encode(doc)
	if err != nil {
		t.Fatal(err)
	}
	out, findings := flow.Decode(text)
	if findings != nil {
		t.Fatalf("%s\n%s", text, findings[0].Path)
	}
	return out
}

type fataler interface {
	Fatal(...any)
	Fatalf(string, ...any)
}

// someCommands are commands of which each applies after the ones before it, and
// that leave a closed document.
func someCommands(t *rapid.T, doc flow.Document, most int) []flow.Command {
	var list []flow.Command
	for range rapid.IntRange(1, most).Draw(t, "count") {
		inputs, nodes, results := slices.Sorted(maps.Keys(doc.Inputs)), slices.Sorted(maps.Keys(doc.Nodes)), slices.Sorted(maps.Keys(doc.Results))
		pick := func(keys []string) string { return rapid.SampledFrom(keys).Draw(t, "key") }
		var c flow.Command
		switch kind := rapid.IntRange(0, 13).Draw(t, "command"); {
		case kind == 1:
			key := someNodes.Draw(t, "nodeKey")
			add := flow.AddNode{NodeKey: key, Target: someTarget(t), Label: someLabels.Draw(t, "label"), InputBindings: map[string]flow.Binding{}}
			if rapid.Bool().Draw(t, "settings") {
				add.Settings = rapid.MapOfN(someSettings, someValues, 0, 3).Draw(t, "settings")
			}
			for _, port := range rapid.SliceOfNDistinct(somePorts, 0, 3, rapid.ID).Draw(t, "bound") {
				add.InputBindings[port] = someBinding(t, inputs, append(nodes, key))
			}
			c = add
		case kind == 2 && len(nodes) > 0:
			c = flow.RemoveNode{NodeKey: pick(nodes)}
		case kind == 3 && len(nodes) > 0:
			c = flow.ReplaceNodeTarget{NodeKey: pick(nodes), Target: someTarget(t)}
		case kind == 4 && len(nodes) > 0:
			value := someValues.Draw(t, "value")
			if rapid.Bool().Draw(t, "null") {
				value = canon.Raw(`null`)
			}
			c = flow.SetNodeSetting{NodeKey: pick(nodes), SettingKey: someSettings.Draw(t, "settingKey"), Value: value}
		case kind == 5 && len(nodes) > 0:
			c = flow.ConnectInput{NodeKey: pick(nodes), PortKey: somePorts.Draw(t, "port"), Binding: someBinding(t, inputs, nodes)}
		case kind == 6 && len(nodes) > 0:
			c = flow.DisconnectInput{NodeKey: pick(nodes), PortKey: somePorts.Draw(t, "port")}
		case kind == 7:
			c = flow.AddInputPort{PortKey: somePorts.Draw(t, "port"), Contract: somePort(t)}
		case kind == 8 && len(inputs) > 0:
			c = flow.ChangeInputPort{PortKey: pick(inputs), Contract: somePort(t)}
		case kind == 9 && len(inputs) > 0:
			c = flow.RemoveInputPort{PortKey: pick(inputs)}
		case kind == 10:
			c = flow.AddResultPort{PortKey: somePorts.Draw(t, "port"), Contract: somePort(t)}
		case kind == 11 && len(results) > 0:
			c = flow.ChangeResultPort{PortKey: pick(results), Contract: somePort(t)}
		case kind == 12 && len(results) > 0:
			c = flow.RemoveResultPort{PortKey: pick(results)}
		case kind == 13 && len(results) > 0:
			c = flow.BindResult{PortKey: pick(results), Binding: someBinding(t, inputs, nodes)}
		default:
			c = flow.SetFlowLabel{Label: someLabels.Draw(t, "label")}
		}
		if next, _, findings := flow.Apply(&doc, []flow.Command{c}); len(findings) == 0 {
			list, doc = append(list, c), next
		}
	}
	return list
}

// A hand writes a document as an author might: in any order that Python allows, with
// any spacing, line ends, names and comments. It shares no code with what edits.
type hand struct {
	t     *rapid.T
	eol   string
	names map[string]string
}

func (h *hand) chance(n int) bool { return rapid.IntRange(1, n).Draw(h.t, "chance") == 1 }

// space is what may stand between two tokens inside brackets.
func (h *hand) space() string {
	if !h.chance(6) {
		return ""
	}
	return rapid.SampledFrom([]string{" ", "  ", h.eol + "    ", h.eol + "\t", "  # 주석 (, \"" + h.eol + "  ", h.eol + h.eol + " "}).Draw(h.t, "space")
}

// list writes items between brackets.
func (h *hand) list(open, end string, items []string) string {
	var b strings.Builder
	b.WriteString(open)
	lines := len(items) > 0 && h.chance(3)
	for i, item := range items {
		switch {
		case lines:
			b.WriteString(h.eol + rapid.SampledFrom([]string{"    ", "\t"}).Draw(h.t, "indent"))
		case i > 0:
			b.WriteString(" ")
		}
		b.WriteString(h.space() + item + h.space())
		if i < len(items)-1 || h.chance(3) {
			b.WriteString(",")
		}
		if lines && h.chance(4) {
			b.WriteString("  # of item")
			if i == len(items)-1 {
				b.WriteString(h.eol)
			}
		}
	}
	if lines {
		b.WriteString(h.eol)
	}
	b.WriteString(h.space() + end)
	return b.String()
}

func (h *hand) text(s string) string {
	var b strings.Builder
	mark := rapid.SampledFrom([]string{`"`, `'`}).Draw(h.t, "quote")
	b.WriteString(mark)
	for _, r := range s {
		switch {
		case string(r) == mark || r == '\\':
			b.WriteString(`\` + string(r))
		case r < ' ' || r == 0x200b || r == 0x2028:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String() + mark
}

func (h *hand) value(raw canon.Raw) string {
	switch raw.Kind() {
	case 'n':
		return "None"
	case 't':
		return "True"
	case 'f':
		return "False"
	case '"':
		var s string
		must(h.t, unmarshal(raw, &s))
		return h.text(s)
	case '[':
		var list []canon.Raw
		must(h.t, unmarshal(raw, &list))
		items := make([]string, len(list))
		for i, v := range list {
			items[i] = h.value(v)
		}
		return h.list("[", "]", items)
	case '{':
		members := map[string]canon.Raw{}
		must(h.t, unmarshal(raw, &members))
		var items []string
		for _, key := range rapid.Permutation(slices.Sorted(maps.Keys(members))).Draw(h.t, "order") {
			items = append(items, h.text(key)+h.space()+":"+h.space()+" "+h.value(members[key]))
		}
		return h.list("{", "}", items)
	}
	return string(raw)
}

func (h *hand) encoded(v any) string {
	text, err := canon.Encode(v)
	must(h.t, err)
	return h.value(text)
}

func (h *hand) binding(b flow.Binding) string {
	switch b := b.(type) {
	case flow.FlowInput:
		return h.names["input "+b.PortKey]
	case flow.NodeResult:
		return h.names["node "+b.NodeKey] + ".output" + h.list("(", ")", []string{h.text(b.PortKey)})
	case flow.Literal:
		return "px.literal" + h.list("(", ")", []string{h.value(b.Value)})
	}
	panic("binding")
}

func (h *hand) port(p quantity.Port) string {
	t, err := contract(p) // what a type call may look like is python_source's to test
	must(h.t, err)
	return t.flat()
}

// write returns a source of the document.
func write(t *rapid.T, doc flow.Document) string {
	h := &hand{t: t, eol: rapid.SampledFrom([]string{"\n", "\r\n"}).Draw(t, "eol"), names: map[string]string{}}
	self := rapid.SampledFrom([]string{"flow", "f", "self_"}).Draw(t, "flow")
	taken := map[string]bool{self: true, "px": true}
	name := func(kind, key string) string {
		name := key + rapid.SampledFrom([]string{"", "_1", "X"}).Draw(t, "name")
		for taken[name] || keywords[name] {
			name += "_"
		}
		taken[name] = true
		h.names[kind+" "+key] = name
		return name
	}
	type statement struct {
		text  string
		needs []string // definitions, as in names
		gives string
	}
	var left []statement
	for _, key := range slices.Sorted(maps.Keys(doc.Inputs)) {
		n := name("input", key)
		left = append(left, statement{n + " = " + self + ".input" + h.list("(", ")", []string{h.text(key), h.port(doc.Inputs[key])}), nil, "input " + key})
	}
	for _, key := range slices.Sorted(maps.Keys(doc.Nodes)) {
		node, n := doc.Nodes[key], name("node", key)
		items := []string{h.text(key), targetTerm(node.Target).flat()}
		var more []string
		if node.Settings != nil || h.chance(4) {
			more = append(more, "settings"+h.space()+"="+h.encoded(orEmpty(node.Settings)))
		}
		if node.Label != nil || h.chance(4) {
			more = append(more, "label="+h.space()+h.encoded(orEmpty(node.Label)))
		}
		items = append(items, rapid.Permutation(more).Draw(t, "keywords")...)
		left = append(left, statement{n + "=" + self + ".node" + h.list("(", ")", items), nil, "node " + key})
	}
	needs := func(b flow.Binding) []string {
		switch b := b.(type) {
		case flow.FlowInput:
			return []string{"input " + b.PortKey}
		case flow.NodeResult:
			return []string{"node " + b.NodeKey}
		}
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(doc.Nodes)) {
		for _, port := range slices.Sorted(maps.Keys(doc.Nodes[key].InputBindings)) {
			b := doc.Nodes[key].InputBindings[port]
			left = append(left, statement{self + ".connect" + h.list("(", ")", []string{h.names["node "+key] + ".input" + h.list("(", ")", []string{h.text(port)}), h.binding(b)}),
				append(needs(b), "node "+key), ""})
		}
	}
	for _, key := range slices.Sorted(maps.Keys(doc.Results)) {
		r := doc.Results[key]
		items := []string{h.text(key), h.port(r.Port)}
		if r.Binding != nil {
			items = append(items, h.binding(r.Binding))
		}
		left = append(left, statement{self + ".result" + h.list("(", ")", items), needs(r.Binding), ""})
	}
	begin := []string{"import px", self + " = px.flow" + h.list("(", ")", slices.DeleteFunc([]string{h.text(doc.FlowKey), map[bool]string{true: "label=" + h.encoded(orEmpty(doc.Label))}[doc.Label != nil]}, func(s string) bool { return s == "" }))}
	if h.chance(3) {
		begin = slices.Insert(begin, 0, `"""What it is for."""`)
	}
	texts, given := begin, map[string]bool{}
	for len(left) > 0 {
		var ready []int
		for i, s := range left {
			if !slices.ContainsFunc(s.needs, func(n string) bool { return !given[n] }) {
				ready = append(ready, i)
			}
		}
		i := rapid.SampledFrom(ready).Draw(t, "next")
		given[left[i].gives] = true
		texts = append(texts, left[i].text)
		left = slices.Delete(left, i, i+1)
	}
	var b strings.Builder
	for i, text := range texts {
		for h.chance(3) {
			b.WriteString(rapid.SampledFrom([]string{"", "# a comment", "\t# 설명: flow.connect(…)", "  "}).Draw(t, "between") + h.eol)
		}
		b.WriteString(text)
		if h.chance(4) {
			b.WriteString("  # on its line " + fmt.Sprint(i))
		}
		if i < len(texts)-1 || h.chance(2) {
			b.WriteString(h.eol)
			if i == len(texts)-1 && h.chance(2) {
				b.WriteString("# the end")
			}
		}
	}
	return b.String()
}

func orEmpty[M ~map[string]V, V any](m M) M {
	if m == nil {
		return M{}
	}
	return m
}

func must(t *rapid.T, err error) {
	if err != nil {
		t.Fatal(err)
	}
}
