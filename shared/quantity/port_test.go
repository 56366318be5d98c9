package quantity

import (
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/pxhost/pxhost/shared/canon"
)

func port(t testing.TB, text string) Port {
	t.Helper()
	var p Port
	if err := decodePort([]byte(text), &p); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return p
}

func decodePort(text []byte, into *Port) error { return json.Unmarshal(text, into) }

func TestAPortThatIsReadAndWrittenHasTheSameDigest(t *testing.T) {
	for _, text := range []string{
		`{"type":"number","unit":"kN*m","shape":"scalar","nullable":false,"constraints":{"minimum":0},"quantityKind":"moment","default":{"value":0,"unit":"kN*m"}}`,
		`{"type":"number","unit":"m"}`, `{"type":"integer","shape":[3,null]}`, `{"type":"enum","values":["a","b"],"nullable":true}`,
		`{"type":"record","fields":{"a":{"type":"boolean","constraints":{}}}}`, `{"type":"list","of":{"type":"string"},"minItems":0,"maxItems":9}`,
		`{"type":"table","columns":[{"columnKey":"x","type":"number","unit":"m"},{"columnKey":"y","type":"string"}]}`, `{"type":"file","mediaType":"text/csv"}`,
	} {
		want, err := canon.Canonicalize([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		p := port(t, text)
		if got, err := canon.Encode(p); err != nil || string(got) != string(want) {
			t.Errorf("%s\nbecomes %s, %v", want, got, err)
		}
		if found := p.Check(""); found != nil {
			t.Errorf("%s: %v", text, found)
		}
	}
}
