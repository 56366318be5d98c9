package report

import (
	"fmt"
	"slices"
	"testing"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/quantity"
	"github.com/pxhost/pxhost/shared/target"
)

// covers: F3
func TestChangedPortsOfAFlowConcernTheMappingsOfThem(t *testing.T) {
	port := func(p quantity.Port) *quantity.Port { return &p }
	optional := number("1")
	optional.Default = canon.Raw(`{"unit":"1","value":1}`)
	for name, c := range map[string]struct {
		change PortChange
		want   []string
	}{
		"another unit of an input":               {PortChange{Input, "span", port(number("m")), port(number("in"))}, []string{"/connections/main/inputs/span_in span converts"}},
		"another dimension of an input":          {PortChange{Input, "span", port(number("m")), port(number("kg"))}, []string{"/connections/main/inputs/span_in span mismatch"}},
		"an input that takes more":               {PortChange{Input, "span", port(number("m")), port(nullable(number("m")))}, []string{"/connections/main/inputs/span_in span fits"}},
		"an input less":                          {PortChange{Input, "span", port(number("m")), nil}, []string{"/connections/main/inputs/span_in span removed"}},
		"a required input more":                  {PortChange{Input, "more", nil, port(number("m"))}, []string{"/connections/main/inputs more required"}},
		"an optional input more":                 {PortChange{Input, "more", nil, port(optional)}, nil},
		"an input that becomes required":         {PortChange{Input, "factor", port(optional), port(number("1"))}, []string{"/connections/main/inputs factor required"}},
		"an input without mapping that goes":     {PortChange{Input, "factor", port(optional), nil}, nil},
		"another unit of a result":               {PortChange{Result, "moment", port(number("kN*m")), port(number("kip*ft"))}, []string{"/connections/main/results/moment_out moment converts"}},
		"a result that may be null":              {PortChange{Result, "moment", port(number("kN*m")), port(nullable(number("kN*m")))}, []string{"/connections/main/results/moment_out moment mismatch"}},
		"a result less":                          {PortChange{Result, "moment", port(number("kN*m")), nil}, []string{"/connections/main/results/moment_out moment removed"}},
		"a result more":                          {PortChange{Result, "more", nil, port(number("kN*m"))}, nil},
		"an input of the name that a result has": {PortChange{Input, "moment", port(optional), port(optional)}, nil},
	} {
		doc := decode(t, review)
		flow := doc.Connections["main"].FlowTarget
		flow.RevisionRef = "any"
		var got []string
		for _, a := range Affected(doc, flow, []PortChange{c.change}) {
			got = append(got, fmt.Sprint(a.Path, " ", a.PortKey, " ", a.Effect))
			if a.Before != c.change.Before || a.After != c.change.After || a.RevisionRef != "r1" || (a.Contract == nil) != (a.MappingKey == "") {
				t.Errorf("%s: %+v", name, a)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		for _, other := range []target.Flow{{Scope: flow.Scope, FlowKey: "constant"}, {FlowKey: flow.FlowKey}} {
			if got := Affected(doc, other, []PortChange{c.change}); got != nil {
				t.Errorf("%s, of another Flow: %+v", name, got)
			}
		}
	}
}
