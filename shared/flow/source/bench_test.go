package source

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/flow"
	"github.com/pxhost/pxhost/shared/python"
	"github.com/pxhost/pxhost/shared/python/pythontest"
)

// wide is a source with this many Nodes in a row, five statements each.
func wide(nodes int) string {
	var b strings.Builder
	b.WriteString("import px\n\nflow = px.flow(\"wide\")\nspan = flow.input(\"span\", px.number(unit=\"m\"))\n")
	for i := range nodes {
		from := "span"
		if i > 0 {
			from = fmt.Sprintf("n%d.output(\"y\")", i-1)
		}
		fmt.Fprintf(&b, "\n# %d\nn%d = flow.node(\n    \"n%d\",\n    px.component(\"px.formula\", 1),\n    settings={\"inputs\": {\"x\": {\"unit\": \"m\"}}, \"results\": {\"y\": {\"expression\": \"x + 1\", \"unit\": \"m\"}}},\n)\nflow.connect(n%d.input(\"x\"), %s)\n", i, i, i, i, from)
		for k := range 3 {
			fmt.Fprintf(&b, "flow.connect(n%d.input(\"z%d\"), px.literal({\"value\": %d, \"unit\": \"m\"}))\n", i, k, k)
		}
	}
	return b.String()
}

// BenchmarkEdit makes one command's change of a Flow of 25 or of 500 Nodes, and 500
// commands' at once, with the unified difference.
func BenchmarkEdit(b *testing.B) {
	reader := pythontest.Reader(b)
	for _, c := range []struct{ nodes, commands int }{{25, 1}, {500, 1}, {500, 500}} {
		text := wide(c.nodes)
		r := reading(b, reader, text)
		var list []flow.Command
		for i := range c.commands {
			list = append(list, flow.SetNodeSetting{NodeKey: fmt.Sprint("n", i*c.nodes/c.commands), SettingKey: "inputs", Value: canon.Raw(`{"x":{"unit":"ft"}}`)})
		}
		after, _, _ := flow.Apply(&r.Document, list)
		b.Run(fmt.Sprintf("nodes=%d/commands=%d", c.nodes, c.commands), func(b *testing.B) {
			for b.Loop() {
				next, err := Edit(text, r, after)
				if err != nil {
					b.Fatal(err)
				}
				Unified("wide", text, next)
			}
			b.ReportMetric(float64(len(text)), "source-bytes")
		})
	}
}

// BenchmarkRead reads the source of a Flow with a warm reader, beside a Function of as
// many lines of the same reader.
func BenchmarkRead(b *testing.B) {
	reader := pythontest.Reader(b)
	source := wide(20) // 203 lines
	function := "import px\n\n@px.function(key=\"f\", version=1, description=\"d\", inputs={\"x\": px.number(unit=\"m\")}, results={\"y\": px.number(unit=\"m\")})\ndef f(x):\n" +
		strings.Repeat("    x = x * 1.5 + 2\n", 200) + "    return {\"y\": x}\n"
	for name, request := range map[string]python.Request{"flow": {Kind: python.FlowKind, Source: source}, "function": {Kind: python.FunctionKind, Source: function}} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				reply, err := reader.ReadAll(context.Background(), []python.Request{request})
				if err != nil || reply[0].Refused() {
					b.Fatal(err, reply)
				}
			}
			b.ReportMetric(float64(strings.Count(request.Source, "\n")), "lines")
		})
	}
	reply, err := reader.Read(context.Background(), python.Request{Kind: python.FlowKind, Source: source})
	if err != nil {
		b.Fatal(err)
	}
	b.Run("decode", func(b *testing.B) {
		for b.Loop() {
			if _, _, err := Decode(source, reply.Flow); err != nil {
				b.Fatal(err)
			}
		}
	})
}
