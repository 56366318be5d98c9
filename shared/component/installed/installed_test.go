package installed_test

import (
	"strings"
	"testing"

	"github.com/pxhost/pxhost/shared/component"
	"github.com/pxhost/pxhost/shared/component/installed"
)

func record(key string) component.Record {
	return component.Record{Scope: component.ProjectRecord, ContractVersion: 1, ElementContributionFields: []string{}, Signature: component.SignatureAbsent, RevocationList: component.RevocationNotChecked,
		ComponentContract: component.ComponentContract{ComponentKey: key, DeclaredInputKeys: []string{}}, PackageRelease: component.PackageRelease{Publisher: "acme", PackageKey: "truss", PackageVersion: "1"}}
}

// Whoever changes the records loses none of them: one that cannot be read keeps everything
// as it is, and keeps nobody from reading the others.
//
// covers: K2, K3
func TestARecordThatCannotBeReadIsKeptAndNotShown(t *testing.T) {
	text, err := installed.Encode(map[string]component.Record{"a": record("a"), "b": record("b")})
	if err != nil {
		t.Fatal(err)
	}
	if all, err := installed.Decode(text); err != nil || len(all) != 2 || len(installed.Records(text)) != 2 {
		t.Fatalf("%v %v", all, err)
	}
	for name, change := range map[string][2]string{
		"a version that is a word": {`"contractVersion":1`, `"contractVersion":"one"`}, "a member more": {`"signature":`, `"descriptor":{},"signature":`}, "another key": {`"componentKey":"a"`, `"componentKey":"c"`},
	} {
		broken := strings.Replace(string(text), change[0], change[1], 1)
		if broken == string(text) {
			t.Fatal(name)
		}
		if all := installed.Records([]byte(broken)); len(all) != 1 || all[0].ComponentContract.ComponentKey != "b" {
			t.Errorf("%s: %+v is read", name, all)
		}
		if _, err := installed.Decode([]byte(broken)); err == nil {
			t.Errorf("%s: it would be lost", name)
		}
	}
	if all, err := installed.Decode(nil); err != nil || len(all) != 0 {
		t.Error(all, err)
	}
}

// What is read is of the Project, whatever it says of itself, and none of it is admitted.
func FuzzRecords(f *testing.F) {
	text, err := installed.Encode(map[string]component.Record{"a": record("a")})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(strings.NewReplacer(`"project"`, `"product"`, `"absent"`, `"valid"`, `"not-checked"`, `"valid-window"`).Replace(string(text))))
	f.Add([]byte(`{"format":"pxcontributions/1","records":null}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, r := range installed.Records(text) {
			if r.Scope != component.ProjectRecord || component.Admitted(r) {
				t.Errorf("%+v is read from %s", r, text)
			}
		}
	})
}
