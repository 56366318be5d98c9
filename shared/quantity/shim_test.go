package quantity

import (
	"bufio"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/pxhost/pxhost/shared/canon"
)

// throughPython is what the sandbox does with what a Function returns, and before that,
// where the line says so, with what it is given.
const throughPython = `
import json, sys
sys.path.insert(0, "../../infra/worker/shim")
import contract
for line in sys.stdin:
    port, given, value = json.loads(line)
    if given:
        value = contract.argument(port, value)
    try:
        print(json.dumps({"value": contract.result(port, value)}), flush=True)
    except contract.Refused as e:
        print(json.dumps({"refused": e.reason}), flush=True)
`

// sandboxContracts starts the contracts of the sandbox, which are read in Python.
func sandboxContracts(t *testing.T) (ask func(t rapid.TB, p Port, given bool, value canon.Raw) (back canon.Raw, refused string)) {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	cmd := exec.Command(python, "-I", "-B", "-c", throughPython)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
	answers := bufio.NewReader(out)
	return func(t rapid.TB, p Port, given bool, value canon.Raw) (canon.Raw, string) {
		line, err := canon.Encode([]any{p, given, value})
		if err == nil {
			_, err = in.Write(append(line, '\n'))
		}
		var text []byte
		if err == nil {
			text, err = answers.ReadBytes('\n')
		}
		var answer struct {
			Value   json.RawMessage
			Refused string
		}
		if err == nil {
			err = json.Unmarshal(text, &answer)
		}
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		return canon.Raw(answer.Value), answer.Refused
	}
}

// The sandbox has its own reading of contracts, in Python. Every value that is one
// here is one there too, and comes through it unchanged.
//
// covers: N2, U1
func TestEveryValueComesThroughTheContractsOfTheSandboxUnchanged(t *testing.T) {
	ask := sandboxContracts(t)
	rapid.Check(t, func(t *rapid.T) {
		p := anyPort(2).Filter(Port.HasPlain).Draw(t, "port")
		v := anyValue(t, p)
		text, err := p.Plain(v)
		if err != nil {
			t.Fatal(err)
		}
		told, refused := ask(t, p, true, text)
		if refused != "" {
			t.Fatalf("%s of %+v: %s", text, p, refused)
		}
		if back, found := p.DecodePlain(told, ""); len(found) > 0 || !Equal(v, back) {
			t.Fatalf("%s of %+v comes back as %s: %v", text, p, told, found)
		}
	})
}

// Of everything that a Function may return, right or wrong, the sandbox takes what is
// taken here, and refuses what is refused here.
//
// covers: N2, U1
func TestTheSandboxRefusesWhatIsRefusedHere(t *testing.T) {
	ask := sandboxContracts(t)
	taken, refusals := 0, 0
	check := func(t rapid.TB, p Port, text canon.Raw) {
		v, found := p.DecodePlain(text, "")
		told, refused := ask(t, p, false, text)
		if (refused != "") != found.Refused() {
			t.Fatalf("%s of %+v: in the sandbox %q, here %v", text, p, refused, found)
		}
		if refused != "" {
			refusals++
			return
		}
		taken++
		if back, found := p.DecodePlain(told, ""); len(found) > 0 || !Equal(v, back) {
			t.Fatalf("%s of %+v comes back as %s: %v", text, p, told, found)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		p := anyPort(2).Filter(Port.HasPlain).Draw(t, "port")
		if p.Type == ListType || p.Type == TableType {
			if least := rapid.IntRange(-1, 2).Draw(t, "least"); least >= 0 {
				p.MinItems = &least
			}
			if most := rapid.IntRange(-1, 2).Draw(t, "most"); most >= 0 && (p.MinItems == nil || *p.MinItems <= most) {
				p.MaxItems = &most
			}
		}
		text, err := canon.Encode(almost(t, p))
		if err != nil {
			t.Fatal(err)
		}
		check(t, p, text)
	})
	if taken == 0 || refusals == 0 {
		t.Errorf("%d were taken and %d refused", taken, refusals)
	}

	numbers := func(dims ...int) Port { return Port{Type: NumberType, Unit: "1", Shape: ArrayShape(dims...)} }
	rows := numbers(AnySize, AnySize)
	for _, c := range []struct {
		port    Port
		text    string
		refused bool
	}{
		{rows, `[[1],[1,2]]`, true},
		{rows, `[[],[1]]`, true},
		{rows, `[[1,2],[3,4]]`, false},
		{rows, `[[],[]]`, false},
		{rows, `[]`, false},
		{rows, `[[1],null]`, true},
		{numbers(AnySize, 2), `[[1,2],[1]]`, true},
		{numbers(2, AnySize), `[[1,2],[3,4]]`, false},
		{numbers(AnySize, AnySize, AnySize), `[[[1],[2]],[[1,2],[3,4]]]`, true}, // each is a rectangle, and they are not the same
		{numbers(AnySize, AnySize, AnySize), `[[[1],[2]],[[3],[4]]]`, false},
		{Port{Type: ListType, Of: &rows}, `[[[1]],[[1,2]]]`, false}, // each element is an array of its own
	} {
		if _, found := c.port.DecodePlain(canon.Raw(c.text), ""); found.Refused() != c.refused {
			t.Errorf("%s of %s: %v", c.text, c.port.Shape, found)
		}
		typed := canon.Raw(`{"value":` + c.text + `,"unit":"1"}`)
		if _, found := c.port.Decode(typed, ""); found.Refused() != c.refused {
			t.Errorf("%s of %s, with a unit: %v", c.text, c.port.Shape, found)
		}
		check(t, c.port, canon.Raw(c.text))
	}
}

// almost draws plain JSON that is of a port, but for some places.
func almost(t *rapid.T, p Port) any {
	switch rapid.IntRange(0, 11).Draw(t, "turn") {
	case 0:
		return rapid.SampledFrom([]any{nil, true, 0, 1.5, -3, "a", "", []any{}, []any{nil}, []any{1}, []any{[]any{1}, []any{1, 2}}, map[string]any{}, map[string]any{"a": 1}}).Draw(t, "other")
	case 1:
		if p.AllowsNull() {
			return nil
		}
	}
	if !p.Shape.IsScalar() {
		return almostArray(t, p, p.Shape.dims)
	}
	some := func(of Port) []any {
		list := make([]any, rapid.IntRange(0, 3).Draw(t, "n"))
		for i := range list {
			list[i] = almost(t, of)
		}
		return list
	}
	switch p.Type {
	case RecordType:
		return almostMembers(t, p.Fields)
	case ListType:
		return some(*p.Of)
	case TableType:
		cells := map[string]Port{}
		for _, c := range p.Columns {
			cells[c.ColumnKey] = c.Port()
		}
		rows := make([]any, rapid.IntRange(0, 3).Draw(t, "rows"))
		for i := range rows {
			rows[i] = almostMembers(t, cells)
		}
		return rows
	}
	p.Nullable = nil
	text, err := p.Plain(anyValue(t, p))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func almostArray(t *rapid.T, p Port, dims []int) any {
	if len(dims) == 0 {
		p.Shape = Scalar
		return almost(t, p)
	}
	n := dims[0]
	if n == AnySize {
		n = 2
	}
	if rapid.IntRange(0, 5).Draw(t, "other size") == 0 {
		n = rapid.IntRange(0, 3).Draw(t, "size")
	}
	list := make([]any, n)
	for i := range list {
		list[i] = almostArray(t, p, dims[1:])
	}
	return list
}

func almostMembers(t *rapid.T, ports map[string]Port) any {
	out := map[string]any{}
	for _, key := range slices.Sorted(maps.Keys(ports)) {
		if rapid.IntRange(0, 19).Draw(t, "missing") > 0 {
			out[key] = almost(t, ports[key])
		}
	}
	if rapid.IntRange(0, 19).Draw(t, "too many") == 0 {
		out["other"] = 1
	}
	return out
}
