package declared_test

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/pxhost/pxhost/shared/component/declared"
)

func sample(t testing.TB) string {
	t.Helper()
	text, err := os.ReadFile("../planned/releases/structural_analysis-1.0.0/package.json")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// settings is the member declaredSettings with so many settings.
func settings(n int) string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf(`{"settingKey": "s%d", "control": "toggle"}`, i))
	}
	return `"declaredSettings": {"contract": "component-declared-settings@1", "settings": [` + strings.Join(all, ",") + `]}, "elementContributionFields": []`
}

// What the contract has no place for is refused by name, and what it bounds, one beyond.
//
// covers: K4
func TestADeclarationIsOfItsContractAlone(t *testing.T) {
	const (
		plain = `"elementContributionFields": []`
		whole = `{"format": "pxcomponents/1", "publisher": "acme", "packageKey": "truss", "packageVersion": "1.0.0", "license": "MIT", "components": {"solve": {"contract": "component.declarative@2",` +
			`"version": 1, "description": "Solves.", "inputs": {"a": {"type": "number", "unit": "m"}}, "results": {}, ` + plain + `}}}`
		at = "/components/solve"
	)
	fields := func(n int) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf(`"f%d"`, i))
		}
		return `"elementContributionFields": [` + strings.Join(all, ",") + `]`
	}
	for name, c := range map[string]struct{ old, new, want string }{
		"as it is":                     {plain, plain, ""},
		"empty settings":               {plain, plain + `, "settings": {}`, ""},
		"settings of its own":          {plain, plain + `, "settings": {"a": 1}`, "PX_SCHEMA_UNKNOWN_FIELD " + at + "/settings/a"},
		"eight declared settings":      {plain, settings(8), ""},
		"nine declared settings":       {plain, settings(9), "PX_SCHEMA_INVALID " + at + "/declaredSettings/settings"},
		"settings by another contract": {plain, strings.Replace(settings(1), "settings@1", "settings@2", 1), "PX_SCHEMA_INVALID " + at + "/declaredSettings/contract"},
		"a setting twice":              {plain, strings.Replace(settings(2), `"s1"`, `"s0"`, 1), "PX_SCHEMA_INVALID " + at + "/declaredSettings/settings/1/settingKey"},
		"a control that no host has":   {plain, strings.Replace(settings(1), "toggle", "slider", 1), "PX_SCHEMA_INVALID " + at + "/declaredSettings/settings/0/control"},
		"a unit of a toggle":           {plain, strings.Replace(settings(1), `"toggle"`, `"toggle", "unit": "m"`, 1), "PX_SCHEMA_UNKNOWN_FIELD " + at + "/declaredSettings/settings/0/unit"},
		"a number without its unit":    {plain, strings.Replace(settings(1), `"toggle"`, `"number"`, 1), "PX_SCHEMA_INVALID " + at + "/declaredSettings/settings/0/unit"},
		"a unit that is none":          {plain, strings.Replace(settings(1), `"toggle"`, `"number", "unit": "furlongs"`, 1), "PX_UNIT_MISMATCH " + at + "/declaredSettings/settings/0/unit"},
		"a choice of nothing":          {plain, strings.Replace(settings(1), `"toggle"`, `"choice"`, 1), "PX_SCHEMA_INVALID " + at + "/declaredSettings/settings/0/choices"},
		"the first contract":           {"declarative@2", "declarative@1", "PX_SCHEMA_INVALID " + at + "/contract"},
		"a later contract":             {"declarative@2", "declarative@3", "PX_SCHEMA_INVALID " + at + "/contract"},
		"a named capability":           {plain, plain + `, "capabilities": ["gpu"]`, "PX_SCHEMA_UNKNOWN_FIELD " + at + "/capabilities"},
		"a Python dependency":          {plain, plain + `, "pythonDependencies": ["numpy"]`, "PX_SCHEMA_UNKNOWN_FIELD " + at + "/pythonDependencies"},
		"a renderer":                   {plain, plain + `, "renderer": "x.js"`, "PX_SCHEMA_UNKNOWN_FIELD " + at + "/renderer"},
		"a modal":                      {plain, plain + `, "modal": {}`, "PX_SCHEMA_UNKNOWN_FIELD " + at + "/modal"},
		"a schema of settings":         {plain, plain + `, "settingsSchema": {}`, "PX_SCHEMA_UNKNOWN_FIELD " + at + "/settingsSchema"},
		"a signed presentation entry":  {plain, plain + `, "presentationEntry": {}`, "PX_SCHEMA_UNKNOWN_FIELD " + at + "/presentationEntry"},
		"32 contribution fields":       {plain, fields(32), ""},
		"33 contribution fields":       {plain, fields(33), "PX_SCHEMA_INVALID " + at + "/elementContributionFields"},
		"a contribution field twice":   {plain, `"elementContributionFields": ["a", "a"]`, "PX_SCHEMA_INVALID " + at + "/elementContributionFields/1"},
		"a key of the product":         {`"solve"`, `"px.solve"`, "PX_SCHEMA_INVALID /components"},
		"a port that is none":          {`"unit": "m"`, `"unit": "parsec^"`, "PX_UNIT_MISMATCH " + at + "/inputs/a/unit"},
		"a rich surface of nothing":    {`"license"`, `"richSurfaces": {"other": {"contract": "component-rich-surface-declaration@1", "entry": "a", "digest": "sha256:` + strings.Repeat("0", 64) + `"}}, "license"`, "PX_REFERENCE_UNKNOWN /richSurfaces/other"},
		"a rich surface of this":       {`"license"`, `"richSurfaces": {"solve": {"contract": "component.declarative@2", "entry": "a", "digest": "sha256:` + strings.Repeat("0", 64) + `"}}, "license"`, "PX_SCHEMA_INVALID /richSurfaces/solve/contract"},
		"a name twice":                 {plain, plain + `, "version": 1`, "PX_SCHEMA_INVALID "},
		"more than the contract has":   {`"Solves."`, `"` + strings.Repeat("x", declared.MaxBytes) + `"`, "PX_LIMIT_EXCEEDED "},
	} {
		_, _, findings := declared.Decode([]byte(strings.Replace(whole, c.old, c.new, 1)))
		got := ""
		if findings.Refused() {
			got = string(findings[0].Code) + " " + findings[0].Path
		}
		if len(findings) > 1 || got != c.want && !(strings.HasPrefix(got, c.want) && c.want == "PX_SCHEMA_INVALID /components") {
			t.Errorf("%s: %q of %+v, want %q", name, got, findings, c.want)
		}
	}
}

// covers: K3
func TestWhatSaysThatItIsSignedIsSigned(t *testing.T) {
	for text, want := range map[string]bool{
		sample(t): false, `{`: false, `[]`: false, `{"Signature": "x"}`: false,
		`{"signature": null}`: true, `{"release": {}, "publicKey": "", "signature": ""}`: true, `{"a": {"signature": 1}}`: false,
	} {
		if declared.Signed([]byte(text)) != want {
			t.Errorf("%.40s is signed: %v", text, !want)
		}
	}
}

// What is read is written back as the canonical text of its own, and bounded.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(sample(f)))
	f.Add([]byte(`{}`))
	f.Add([]byte(`{"format": "pxcomponents/1"`))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, canonical, findings := declared.Decode(text)
		if findings.Refused() {
			return
		}
		again, same, findings := declared.Decode(canonical)
		if findings.Refused() || !bytes.Equal(same, canonical) || len(again.Components) != len(p.Components) {
			t.Errorf("%s is read as %s", canonical, same)
		}
		for key, c := range p.Components {
			if c.DeclaredSettings != nil && len(c.DeclaredSettings.Settings) > declared.MaxSettings || len(c.ElementContributionFields) > 32 || strings.Contains(key, ".") {
				t.Errorf("%s is beyond its bounds", key)
			}
		}
	})
}
