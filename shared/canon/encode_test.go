package canon

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Encode reads what the encoder wrote with a scan of its own: it must refuse all
// that Check refuses of a Raw, and change nothing else.
func TestEncodeRefusesInsideARawWhatCheckRefuses(t *testing.T) {
	type holder struct {
		Text string         `json:"text"`
		Raw  map[string]Raw `json:"raw"`
	}
	same := func(t interface {
		Fatalf(string, ...any)
	}, raw string) {
		got, err := Encode(holder{"say \"{[\\\" 1e999", map[string]Raw{"k\"\\": Raw(raw)}})
		// The Raw stands two levels deep.
		want, wantErr := Canonicalize([]byte(`{"text":"say \"{[\\\" 1e999","raw":{"k\"\\":` + raw + `}}`))
		if (err == nil) != (wantErr == nil) || string(got) != string(want) {
			t.Fatalf("%.80s: got %.200s, %v\nwant %.200s, %v", raw, got, err, want, wantErr)
		}
	}
	for _, raw := range []string{`1e400`, `-1e400`, `[1,{"a":1e309}]`, `1e-400`, `"1e400"`, `"\\"`, `"\"1e400"`, `{"1e400":1}`, `{"a":1,"a":2}`, `"\ud800"`, `nul`, ``, `1 2`, `[1,]`, "\"\xff\"",
		strings.Repeat("9", 400), `-` + strings.Repeat("1", 300) + `.5`, `9007199254740993`, `-0.0`, `1.7976931348623157e308`, `1.7976931348623159e308`,
		strings.Repeat("[", 62) + strings.Repeat("]", 62), strings.Repeat("[", 63) + strings.Repeat("]", 63), `"` + strings.Repeat("[", 100) + `"`} {
		same(t, raw)
	}
	rapid.Check(t, func(t *rapid.T) { same(t, value(4).Draw(t, "raw")) })
}

func BenchmarkEncode(b *testing.B) {
	raw := map[string]Raw{}
	for _, k := range strings.Split("abcdefghijklmnopqrstuvwxyz", "") {
		raw[k] = Raw(`{"expression":"w * span ^ 2 / 8","unit":"kN*m","value":[1,2.5,1e3],"label":{"en":"Moment","ko":"모멘트"}}`)
	}
	b.Run("Encode", func(b *testing.B) {
		for b.Loop() {
			if _, err := Encode(raw); err != nil {
				b.Fatal(err)
			}
		}
	})
	text, _ := Encode(raw)
	b.Run("Canonicalize", func(b *testing.B) { // the reference
		for b.Loop() {
			if _, err := Canonicalize(text); err != nil {
				b.Fatal(err)
			}
		}
	})
}
