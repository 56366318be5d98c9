package python_test

import (
	"strings"
	"testing"

	"github.com/pxhost/pxhost/shared/python"
	"github.com/pxhost/pxhost/shared/python/pythontest"
)

const girder = `import math
import px

LIMIT = 1.0


@px.function(
    key="resistance", version=3, description="Bending resistance of a steel girder",
    inputs={"moment": px.number(unit="kN*m", minimum=0), "span": px.number(unit="m", exclusive_minimum=0, default=10)},
    results={"utilization": px.number(unit="1", quantity_kind="ratio")},
    capabilities=[],
)
def resistance(moment, span):
    """거더의 휨 저항"""
    return {"utilization": moment / (100 * math.sqrt(span)) / LIMIT}
`

func read(t testing.TB, r python.Reader, source string) python.Reply {
	t.Helper()
	reply, err := r.Read(t.Context(), python.Request{Kind: python.FunctionKind, Source: source})
	if err != nil {
		t.Fatal(err)
	}
	return reply
}

// covers: N2
func TestASourceTellsItsContract(t *testing.T) {
	reply := read(t, pythontest.Reader(t), girder)
	if reply.Refused() {
		t.Fatalf("%+v", reply.Diagnostics(""))
	}
	f := reply.Function
	if f.FunctionKey != "resistance" || f.Version != 3 || f.Description != "Bending resistance of a steel girder" || f.Symbol != "resistance" ||
		strings.Join(f.Parameters, " ") != "moment span" || strings.Join(f.Imports, " ") != "math" || len(f.Capabilities) != 0 {
		t.Errorf("%+v", f)
	}
	span := f.Inputs["span"]
	if span.Unit != "m" || *span.Constraints.ExclusiveMinimum != 0 || string(span.Default) != `{"unit":"m","value":10}` {
		t.Errorf("span: %+v", span)
	}
	if u := f.Results["utilization"]; u.Unit != "1" || u.QuantityKind != "ratio" {
		t.Errorf("utilization: %+v", u)
	}
	for name, c := range map[string]struct {
		at          python.Range
		first, last string
	}{
		"definition": {f.Definition, "@px.function(", "/ LIMIT}"},
		"decorator":  {f.Decorator, "@px.function(", "[],\n)"},
		"body":       {f.Body, `"""거더의`, "/ LIMIT}"},
		"span":       {f.Places["/inputs/span"], `px.number(unit="m"`, "default=10)"},
	} {
		if got := c.at.In(girder); !strings.HasPrefix(got, c.first) || !strings.HasSuffix(got, c.last) {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// What is wrong with a contract alone is found beside the place where it is written.
func TestAContractIsCheckedWhereItIsRead(t *testing.T) {
	reply := read(t, pythontest.Reader(t), strings.Replace(girder, `px.number(unit="m", e`, `px.number(unit="metre", e`, 1))
	if !reply.Refused() || reply.Function != nil || len(reply.Findings) != 0 {
		t.Fatalf("%+v", reply)
	}
	d := reply.Diagnostics("/commands/0/source")[0]
	if d.Path != "/commands/0/source" || d.Params["contractPath"] != "/inputs/span/unit" || d.Params["line"] != 9 || d.Params["column"] != 66 {
		t.Errorf("%+v", d)
	}
}
