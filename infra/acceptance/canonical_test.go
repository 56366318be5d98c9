package acceptance

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"
)

// digest is sha256 of the RFC 8785 form of a document, written for these tests
// alone, so that the system's own code is not what it is compared with.
func digest(t testing.TB, v any) string {
	t.Helper()
	var plain any
	d := json.NewDecoder(strings.NewReader(encode(t, v)))
	d.UseNumber()
	if err := d.Decode(&plain); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	canonical(t, &out, plain)
	sum := sha256.Sum256([]byte(out.String()))
	return "sha256:" + hex.EncodeToString(sum[:])
}

func canonical(t testing.TB, out *strings.Builder, v any) {
	switch v := v.(type) {
	case nil:
		out.WriteString("null")
	case bool:
		out.WriteString(strconv.FormatBool(v))
	case string:
		quote(out, v)
	case json.Number:
		f, err := v.Float64()
		if err != nil {
			t.Fatal(err)
		}
		out.WriteString(ecmaNumber(f))
	case []any:
		out.WriteByte('[')
		for i, e := range v {
			if i > 0 {
				out.WriteByte(',')
			}
			canonical(t, out, e)
		}
		out.WriteByte(']')
	case map[string]any:
		var names []string
		for name := range v {
			names = append(names, name)
		}
		slices.SortFunc(names, func(a, b string) int { return slices.Compare(utf16.Encode([]rune(a)), utf16.Encode([]rune(b))) })
		out.WriteByte('{')
		for i, name := range names {
			if i > 0 {
				out.WriteByte(',')
			}
			quote(out, name)
			out.WriteByte(':')
			canonical(t, out, v[name])
		}
		out.WriteByte('}')
	default:
		t.Fatalf("%T is not JSON", v)
	}
}

func quote(out *strings.Builder, s string) {
	out.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			out.WriteByte('\\')
			out.WriteRune(r)
		case r < 0x20:
			if i := strings.IndexRune("\b\t\n\f\r", r); i >= 0 {
				out.WriteByte('\\')
				out.WriteByte("btnfr"[i])
			} else {
				out.WriteString(`\u00` + hex.EncodeToString([]byte{byte(r)}))
			}
		default:
			out.WriteRune(r)
		}
	}
	out.WriteByte('"')
}

// ecmaNumber writes a number as ECMAScript does: the shortest digits that read
// back, plain from 1e-6 up to 1e21.
func ecmaNumber(f float64) string {
	if f == 0 {
		return "0"
	}
	sign := ""
	if f < 0 {
		sign = "-"
	}
	mantissa, exponent, _ := strings.Cut(strconv.FormatFloat(math.Abs(f), 'e', -1, 64), "e")
	digits := strings.Replace(mantissa, ".", "", 1)
	e, _ := strconv.Atoi(exponent)
	n, k := e+1, len(digits) // the point stands after n of the k digits
	switch {
	case k <= n && n <= 21:
		return sign + digits + strings.Repeat("0", n-k)
	case 0 < n && n <= 21:
		return sign + digits[:n] + "." + digits[n:]
	case -6 < n && n <= 0:
		return sign + "0." + strings.Repeat("0", -n) + digits
	}
	if k > 1 {
		digits = digits[:1] + "." + digits[1:]
	}
	return sign + digits + "e" + map[bool]string{true: "+", false: ""}[n > 0] + strconv.Itoa(n-1)
}

func TestTheTestsOwnEncodingIsRFC8785(t *testing.T) {
	for f, want := range map[float64]string{
		0: "0", 1: "1", -1.5: "-1.5", 1e20: "100000000000000000000", 1e21: "1e+21", 1e-6: "0.000001", 1e-7: "1e-7",
		333333333.33333329: "333333333.3333333", 4.5: "4.5", 2e-3: "0.002", 1.5e300: "1.5e+300", 5e-324: "5e-324", 9007199254740992: "9007199254740992",
	} {
		if got := ecmaNumber(f); got != want {
			t.Errorf("%g: got %s", f, got)
		}
	}
	var out strings.Builder
	canonical(t, &out, map[string]any{"\ufb33": "a", "\U0001f600": "b\u0001\n\"/", "é": nil})
	if want := `{"é":null,"😀":"b\u0001\n\"/","` + "\ufb33" + `":"a"}`; out.String() != want {
		t.Errorf("got %s", out.String())
	}
}
