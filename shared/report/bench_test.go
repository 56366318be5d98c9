package report

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/quantity"
	"github.com/pxhost/pxhost/shared/schema"
)

// wide is a Flow with ports enough for the large Report.
func wide() shelf {
	inputs, results := map[string]quantity.Port{}, map[string]quantity.Port{}
	for i := range 100 {
		inputs[fmt.Sprintf("i%d", i)], results[fmt.Sprintf("r%d", i)] = number("m"), number("kN*m")
	}
	return shelf{"wide": {Inputs: inputs, Results: results}}
}

// large is a Report of 500 blocks, 3 fields or slots in most of them, and with as
// many commands as it takes 200 mappings in one connection, half of them converted.
func large(t testing.TB) (base Document, list []Command) {
	order, blocks, maps := make([]string, 500), make([]string, 500), make([]string, 0, 200)
	for i := range order {
		order[i] = fmt.Sprintf("b%03d", i)
		unit := []string{"m", "ft"}[i/3%2]
		switch i % 3 {
		case 0:
			blocks[i] = values(order[i], fmt.Sprintf(`"f":{"type":"number","unit":%q,"value":{"value":%d.5,"unit":%q}},"g":{"type":"string","value":{"value":"a"}},"h":{"type":"integer","value":{"value":1}}`, unit, i, unit))
		case 1:
			blocks[i] = fmt.Sprintf(`%q:{"kind":"text","text":%q}`, order[i], strings.Repeat("Text of a method. ", 20))
		default:
			blocks[i] = results(order[i], `"s":{"type":"number","unit":"kip*ft"},"t":{"type":"boolean"},"u":{"type":"string"}`)
		}
	}
	for i := range 100 {
		maps = append(maps, setInput("main", fmt.Sprintf("in%d", i), on("wide", "r1"), fmt.Sprintf("i%d", i), fmt.Sprintf("b%03d.f", 3*i)),
			setResult("main", fmt.Sprintf("out%d", i), fmt.Sprintf("r%d", i), fmt.Sprintf("b%03d.s", 3*i+2)))
	}
	return decode(t, document(strings.Join(order, " "), strings.Join(blocks, ","), ``)), commands(t, strings.Join(maps, ","))
}

// BenchmarkPropose is what planning a Report of 500 blocks and 200 mappings takes,
// with its parts; canonicalize is the reference for what has to be read and written
// of a document in any case.
func BenchmarkPropose(b *testing.B) {
	base, list := large(b)
	shelf := wide()
	p, findings, err := Propose(context.Background(), &base, list, shelf)
	if err != nil || findings.Refused() || len(p.Mappings) != 200 {
		b.Fatal(err, show(findings), len(p.Mappings))
	}
	text := p.Analysis.Canonical
	request, err := canon.Encode(request{list})
	if err != nil {
		b.Fatal(err)
	}
	run := func(name string, f func() bool) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if !f() {
					b.Fatal("failed")
				}
			}
		})
	}
	run("canonicalize", func() bool { _, err := canon.Canonicalize(text); return err == nil })
	run("decode", func() bool { _, findings := Decode(text); return findings == nil })
	run("validate", func() bool {
		_, findings, err := Validate(context.Background(), p.Document, shelf)
		return err == nil && !findings.Refused()
	})
	run("propose/all_new", func() bool {
		_, findings, err := Propose(context.Background(), &base, list, shelf)
		return err == nil && !findings.Refused()
	})
	one := commands(b, `{"kind":"SetFieldValue","blockKey":"b000","fieldKey":"f","value":{"value":2,"unit":"m"}}`)
	run("propose/one_value", func() bool {
		_, findings, err := Propose(context.Background(), &p.Document, one, shelf)
		return err == nil && !findings.Refused()
	})
	run("plan/decode_and_propose", func() bool {
		var r struct {
			Commands []Command `json:"commands"`
		}
		if schema.Decode(request, &r) != nil {
			return false
		}
		doc, findings := Decode(text)
		_, more, err := Propose(context.Background(), &doc, r.Commands, shelf)
		return err == nil && findings == nil && !more.Refused()
	})
	run("inputs", func() bool {
		_, findings, err := Inputs(context.Background(), p.Document, "main", shelf)
		return err == nil && !findings.Refused()
	})
	run("bases", func() bool { _, ok, err := Bases(p.Document, "main"); return ok && err == nil })
}
