package flow

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/pxhost/pxhost/shared/canon"
)

// chain is a Flow of n px.formula Nodes, each fed by the one before and the one
// half way back, in mixed units.
func chain(t testing.TB, n int) Document {
	units := []string{"m", "ft", "mm"}
	nodes := make([]string, n)
	for i := range nodes {
		source := func(j int) string {
			if j < 0 {
				return "span"
			}
			return fmt.Sprintf("n%03d.r", j)
		}
		nodes[i] = formulaNode(fmt.Sprintf("n%03d", i), "(a + b) / 2", units[i%3], `"a":{"unit":"m"},"b":{"unit":"ft"}`, from("a", source(i-1)), from("b", source(i/2-1)))
	}
	return decode(t, document(lengthInput, result("out", `"type":"number","unit":"m"`, fmt.Sprintf("n%03d.r", n-1)), strings.Join(nodes, ",")))
}

func BenchmarkValidate(b *testing.B) {
	for _, n := range []int{12, 500} {
		doc := chain(b, n)
		b.Run(fmt.Sprintf("nodes=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, findings, err := Validate(context.Background(), doc, NoFunctions{}); err != nil || findings.Refused() {
					b.Fatal(err, show(findings))
				}
			}
		})
	}
}

// BenchmarkCanonicalize is the reference for what has to be read and written of
// a document in any case.
func BenchmarkCanonicalize(b *testing.B) {
	for _, n := range []int{12, 500} {
		text := []byte(encoded(b, chain(b, n)))
		b.Run(fmt.Sprintf("nodes=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := canon.Canonicalize(text); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	for _, n := range []int{12, 500} {
		text := []byte(encoded(b, chain(b, n)))
		b.Run(fmt.Sprintf("nodes=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, findings := Decode(text); len(findings) > 0 {
					b.Fatal(show(findings))
				}
			}
		})
	}
}

func BenchmarkEvaluate(b *testing.B) {
	for _, n := range []int{12, 500} {
		doc := chain(b, n)
		analysis, _, err := Validate(context.Background(), doc, NoFunctions{})
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("nodes=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c, findings := Prepare(doc, analysis, map[string]canon.Raw{"span": canon.Raw(`{"value":30,"unit":"ft"}`)}, "")
				have, more, err := c.Evaluate(context.Background(), analysis.Stages[0], nil)
				if err != nil || findings.Refused() || more.Refused() {
					b.Fatal(err, show(findings), show(more))
				}
				if _, findings := c.Results(have); findings.Refused() {
					b.Fatal(show(findings))
				}
			}
		})
	}
}

// BenchmarkDescribeSample is what pxflow_describe does with the sample's bytes.
func BenchmarkDescribeSample(b *testing.B) {
	text := []byte(encoded(b, sample(b)))
	var doc Document
	var analysis Analysis
	b.Run("canonicalize", func(b *testing.B) { // the reference
		for b.Loop() {
			if _, err := canon.Canonicalize(text); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			doc, _ = Decode(text)
		}
	})
	b.Run("validate", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			analysis, _, _ = Validate(context.Background(), doc, NoFunctions{})
		}
	})
	b.Run("describe", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := canon.Encode(Describe(doc, analysis)); err != nil {
				b.Fatal(err)
			}
		}
	})
}
