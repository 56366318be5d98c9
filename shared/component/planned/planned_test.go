package planned_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/pxhost/pxhost/shared/component"
	"github.com/pxhost/pxhost/shared/component/declared"
	"github.com/pxhost/pxhost/shared/component/planned"
)

// folder is of the one release that there is.
const folder = "releases/structural_analysis-1.0.0"

var update = flag.Bool("update", false, "sign the release of the package in its folder anew")

func read(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(folder + "/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func pack(t *testing.T) (declared.Package, []byte) {
	t.Helper()
	p, canonical, findings := declared.Decode(read(t, "package.json"))
	if findings != nil {
		t.Fatal(findings)
	}
	return p, canonical
}

func sign(t *testing.T, p declared.Package, revoked ...string) []byte {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	text, err := planned.Sign(p, revoked, key)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// What is signed is what stands in the package, and all of it is admitted.
//
// covers: K4
func TestTheSignedReleaseIsItsPackage(t *testing.T) {
	p, canonical := pack(t)
	if *update {
		if err := os.WriteFile(folder+"/registry.json", sign(t, p), 0o644); err != nil {
			t.Fatal(err)
		}
		t.Skip("written; run again without -update")
	}
	var registry struct {
		Release struct {
			Package json.RawMessage `json:"package"`
			Revoked []string        `json:"revoked"`
		} `json:"release"`
	}
	if err := json.Unmarshal(read(t, "registry.json"), &registry); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(registry.Release.Package, canonical) || len(registry.Release.Revoked) != 0 {
		t.Error("the release is another than the package says; run go test ./shared/component/planned -update")
	}
	all := planned.Product().All()
	if len(all) != len(p.Components) {
		t.Errorf("%d Components", len(all))
	}
	for _, c := range all {
		if !component.Admitted(c.Record) {
			t.Errorf("%s is not admitted: %+v", c.Record.ComponentContract.ComponentKey, c.Record)
		}
	}
}

// covers: K4, K2
func TestWhatIsNotSignedAsItStandsIsLeftOut(t *testing.T) {
	file := read(t, "registry.json")
	for name, text := range map[string][]byte{
		"another unit":           bytes.Replace(file, []byte(`"kN/m"`), []byte(`"kN/mm"`), 1),
		"another signature":      bytes.Replace(file, []byte(`"signature":"`), []byte(`"signature":"AAAA`), 1),
		"no JSON":                file[:len(file)-1],
		"another contract":       bytes.Replace(file, []byte(`component.declarative@2`), []byte(`component.declarative@3`), 1),
		"a withdrawal taken out": bytes.Replace(sign(t, first(pack(t)), "mode_shapes"), []byte(`"revoked":["mode_shapes"]`), []byte(`"revoked":[]`), 1),
	} {
		for _, c := range planned.Verify(text) {
			if component.Admitted(c.Record) {
				t.Errorf("%s: %s is admitted", name, c.Record.ComponentContract.ComponentKey)
			}
		}
	}
	for _, c := range planned.Verify(sign(t, first(pack(t)), "mode_shapes")) {
		if key := c.Record.ComponentContract.ComponentKey; component.Admitted(c.Record) != (key != "mode_shapes") || c.Record.Signature != component.SignatureValid {
			t.Errorf("%s: %+v", key, c.Record)
		}
	}
	// A maker may sign what no contract allows: it is no Component.
	nine := first(pack(t))
	c := nine.Components["model_analysis"]
	settings := *c.DeclaredSettings
	for len(settings.Settings) < declared.MaxSettings+1 {
		settings.Settings = append(slices.Clone(settings.Settings), declared.Setting{SettingKey: "more_" + strings.Repeat("x", len(settings.Settings)), Control: "toggle"})
	}
	c.DeclaredSettings = &settings
	nine.Components["model_analysis"] = c
	if all := planned.Verify(sign(t, nine)); all != nil {
		t.Errorf("nine settings are %+v", all)
	}
}

func first(p declared.Package, _ []byte) declared.Package { return p }

// The zero Catalog has nothing, and is off.
//
// covers: K4
func TestWithoutTheSwitchThereIsNothing(t *testing.T) {
	var off planned.Catalog
	if off.On() || off.All() != nil || off.Release(planned.Product().All()[0].Record.PackageRelease.Package()) != nil || off.Find("model_analysis", 1) != nil {
		t.Error("there is something")
	}
	if !planned.Product().On() || len(planned.Product().Find("model_analysis", 1)) != 1 || planned.Product().Find("model_analysis", 2) != nil {
		t.Error("the product's is not what it carries")
	}
}
