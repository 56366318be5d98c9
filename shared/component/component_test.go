package component

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/quantity"
	"github.com/pxhost/pxhost/shared/schema"
)

func get(t testing.TB, key string) Component {
	t.Helper()
	c, ok := Lookup(key, 1)
	if !ok {
		t.Fatalf("%s is not there", key)
	}
	return c
}

func number(x float64, unit string) quantity.Number {
	return quantity.Number{Magnitude: x, Unit: quantity.MustParseUnit(unit)}
}

func TestEveryComponentTakesItsOwnExample(t *testing.T) {
	var keys []string
	for _, c := range All() {
		keys = append(keys, c.Key())
		if text, err := canon.Canonicalize(c.Example()); err != nil || string(text) != string(c.Example()) {
			t.Errorf("%s: the example is not canonical JSON: %v", c.Key(), err)
		}
		contract, found := c.Derive(c.Example(), "/settings")
		if len(found) > 0 {
			t.Errorf("%s: %+v", c.Key(), found)
		}
		for _, key := range c.DeclaredInputKeys() {
			if _, ok := contract.Inputs[key]; !ok {
				t.Errorf("%s declares input %s and does not have it", c.Key(), key)
			}
		}
		for key, p := range contract.Inputs {
			if found := p.Check(key); len(found) > 0 {
				t.Errorf("%s: input %+v", c.Key(), found)
			}
		}
		for key, p := range contract.Results {
			if found := p.Check(key); len(found) > 0 {
				t.Errorf("%s: result %+v", c.Key(), found)
			}
		}
		if n := len(c.Description()); n == 0 || n > 1024 {
			t.Errorf("%s: description of %d bytes", c.Key(), n)
		}
	}
	if !slices.IsSorted(keys) || len(keys) != 7 {
		t.Errorf("components %v", keys)
	}
}

// The settings as the documentation writes them.
func TestTheDocumentedSettingsDerive(t *testing.T) {
	contract, found := get(t, "px.formula").Derive(canon.Raw(`{"results":{"m":{"expression":"w * span ^ 2 / 8","unit":"kN*m"}},"inputs":{"w":{"unit":"kN/m"},"span":{"unit":"m"}}}`), "/nodes/moment/settings")
	if found != nil || len(contract.Inputs) != 2 || contract.Results["m"].Unit != "kN*m" {
		t.Errorf("%+v %+v", contract, found)
	}
}

// What a model reads in the schema of the settings is what Derive takes.
// covers: W10
func TestExamplesFitTheSchemaOfTheirSettings(t *testing.T) {
	for _, c := range All() {
		s := schema.JSONFor(c.SettingsType(), schema.Closed)
		resolved, err := s.Resolve(nil)
		if err != nil {
			t.Fatalf("%s: %v", c.Key(), err)
		}
		var example any
		if err := json.Unmarshal(c.Example(), &example); err != nil {
			t.Fatal(err)
		}
		if err := resolved.Validate(example); err != nil {
			t.Errorf("%s: %v", c.Key(), err)
		}
		example.(map[string]any)["more"] = true
		if resolved.Validate(example) == nil {
			t.Errorf("%s: the schema takes a member more", c.Key())
		}
	}
}

func TestComponentsMayBeEvaluatedSideBySide(t *testing.T) {
	c := get(t, "px.formula")
	var wait sync.WaitGroup
	for i := range 16 {
		wait.Go(func() {
			span := 40 + float64(i)
			settings := canon.Raw(fmt.Sprintf(`{"inputs":{"x":{"unit":"ft"},"s":{"type":"string"}},"results":{"r":{"expression":"x * 2","unit":"ft"},"n":{"expression":"s == 'a' ? r : x","unit":"ft"}},"constants":{"c%d":{"value":1,"unit":"m"}}}`, i%4))
			for range 50 {
				out, found := c.Evaluate(context.Background(), settings, map[string]quantity.Value{"x": number(span, "ft"), "s": quantity.Text("a")})
				if found != nil || math.Abs(out["n"].(quantity.Number).Magnitude-2*span) > 1e-12 {
					t.Errorf("%v %v", out, found)
					return
				}
			}
		})
	}
	wait.Wait()
}

// The truck of the sample: by statics the largest moment of HS20-44 on a simple
// span over 34 ft is 72*(L/2 - 7/3)^2/L - 112 kip*ft, L in ft.
func TestTheLiveMomentEqualsStaticsAndHandbook(t *testing.T) {
	c := get(t, "px.formula")
	handbook := map[float64]float64{40: 449.8, 60: 806.5, 70: 985.6, 80: 1164.9, 90: 1344.4}
	for _, unit := range []string{"ft", "m"} {
		settings := canon.Raw(`{"constants":{"p":{"value":72,"unit":"kip"},"a":{"value":7,"unit":"ft"},"m0":{"value":112,"unit":"kip*ft"}},
			"inputs":{"span":{"unit":"` + unit + `"}},
			"results":{"us":{"expression":"p*(span/2 - a/3)^2/span - m0","unit":"kip*ft","quantityKind":"moment"},
			           "si":{"expression":"p*(span/2 - a/3)^2/span - m0","unit":"kN*m"}}}`)
		for span, rounded := range handbook {
			closed := 72*(span/2-7.0/3)*(span/2-7.0/3)/span - 112
			out, found := c.Evaluate(context.Background(), settings, map[string]quantity.Value{"span": number(span, "ft").In(quantity.MustParseUnit(unit))})
			if found != nil {
				t.Fatal(found)
			}
			us, si := out["us"].(quantity.Number), out["si"].(quantity.Number)
			if math.Abs(us.Magnitude-closed) > 1e-12*closed || math.Abs(us.Magnitude-rounded) > 0.1 {
				t.Errorf("span %g in %s: %v, closed form %v, handbook %v", span, unit, us.Magnitude, closed, rounded)
			}
			if math.Abs(si.Magnitude-closed*1.3558179483314004) > 1e-12*si.Magnitude {
				t.Errorf("span %g in %s: %v kN*m", span, unit, si.Magnitude)
			}
		}
	}
}

// covers: K3
func TestEveryBuiltInIsAdmittedAndNothingElseIs(t *testing.T) {
	records := Records()
	if len(records) != len(definitions) {
		t.Fatalf("%d records", len(records))
	}
	for i, r := range records {
		if !Admitted(r) {
			t.Fatalf("%s is not admitted: its definition is not the signed one; run go generate ./shared/component", definitions[i].name())
		}
	}
	for _, name := range []string{"", "px.other", "px.formula ", "PX.formula", "formula", "acme.formula"} {
		if _, ok := Lookup(name, 1); ok {
			t.Errorf("%q is runnable", name)
		}
	}
	for _, version := range []int{-1, 0, 2} {
		if _, ok := Lookup("px.formula", version); ok {
			t.Errorf("version %d is runnable", version)
		}
	}
}
