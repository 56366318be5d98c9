package function_test

import (
	"strings"
	"testing"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/function"
)

// resistance is a stored version with every member that a version can have.
const resistance = `{"capabilities":[],"description":"Bending resistance of a steel girder","format":"pxfunction/1","functionKey":"resistance","imports":["math"],` +
	`"inputs":{"moment":{"type":"number","unit":"kN*m"},"span":{"constraints":{"exclusiveMinimum":0},"type":"number","unit":"m"}},"label":{"en":"Resistance","ko":"저항"},` +
	`"parameters":["moment","span"],"results":{"utilization":{"type":"number","unit":"1"}},"sourceDigest":"sha256:0000000000000000000000000000000000000000000000000000000000000000",` +
	`"symbol":"resistance","version":3}`

// covers: N2
func TestAStoredVersionIsItsCanonicalForm(t *testing.T) {
	doc, findings := function.Decode([]byte(resistance))
	if findings != nil {
		t.Fatal(findings)
	}
	text, digest, err := doc.RevisionRef()
	if err != nil || string(text) != resistance || digest != canon.Digest([]byte(resistance)) {
		t.Errorf("%v\n got %s\nwant %s", err, text, resistance)
	}
}

func TestWhatIsNoStoredVersionIsRefusedWithItsPath(t *testing.T) {
	for name, c := range map[string]struct{ old, new, code, path string }{
		"another format":              {`pxfunction/1`, `pxfunction/2`, "PX_SCHEMA_INVALID", "/format"},
		"a key that is none":          {`"functionKey":"resistance"`, `"functionKey":"Resistance"`, "PX_SCHEMA_INVALID", "/functionKey"},
		"version 0":                   {`"version":3`, `"version":0`, "PX_SCHEMA_INVALID", "/version"},
		"a version that is no number": {`"version":3`, `"version":"3"`, "PX_SCHEMA_INVALID", "/version"},
		"a digest of another length":  {`0000"`, `000"`, "PX_SCHEMA_INVALID", "/sourceDigest"},
		"a member that nobody knows":  {`"symbol"`, `"source":"","symbol"`, "PX_SCHEMA_UNKNOWN_FIELD", "/source"},
		"a parameter that is no key":  {`["moment"`, `["Moment"`, "PX_SCHEMA_INVALID", "/parameters/0"},
		"no inputs":                   {`"inputs":{"moment":{"type":"number","unit":"kN*m"},"span":{"constraints":{"exclusiveMinimum":0},"type":"number","unit":"m"}},`, ``, "PX_SCHEMA_INVALID", "/inputs"},
		"no JSON":                     {`{"capabilities"`, `{capabilities`, "PX_SCHEMA_INVALID", ""},
		"one byte too many":           {`Bending`, strings.Repeat("x", function.MaxBytes), "PX_LIMIT_EXCEEDED", ""},
	} {
		_, findings := function.Decode([]byte(strings.Replace(resistance, c.old, c.new, 1)))
		if len(findings) != 1 || string(findings[0].Code) != c.code || findings[0].Path != c.path {
			t.Errorf("%s: %v", name, findings)
		}
	}
}

// FuzzDecode holds that a text is refused, or is its own canonical form.
func FuzzDecode(f *testing.F) {
	for _, text := range []string{resistance, `{}`, `[]`, `{"format":"pxfunction/1"`, strings.Replace(resistance, "3}", "3.0}", 1), strings.Replace(resistance, `"m"`, `"furlong"`, 1)} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		doc, findings := function.Decode(text)
		if findings != nil {
			return
		}
		canonical, digest, err := doc.RevisionRef()
		if err != nil {
			t.Fatal(err)
		}
		if want, err := canon.Canonicalize(text); err != nil || string(want) != string(canonical) {
			t.Fatalf("%v\n got %s\nwant %s", err, canonical, want)
		}
		again, findings := function.Decode(canonical)
		if findings != nil {
			t.Fatalf("its canonical form is refused: %v", findings)
		}
		if _, d, _ := again.RevisionRef(); d != digest {
			t.Fatal("its canonical form has another digest")
		}
	})
}
