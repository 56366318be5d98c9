package function_test

import (
	"testing"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/function"
	"github.com/pxhost/pxhost/shared/schema"
)

// FuzzCommands holds that commands are refused with paths, or are read back as what
// they are from their canonical form, as a rebase reads those of a stored plan.
func FuzzCommands(f *testing.F) {
	for _, text := range []string{
		`{"commands":[{"kind":"CreateFunction","source":"x"}]}`,
		`{"commands":[{"kind":"CreateFunctionVersion","functionRef":{"functionKey":"a","version":1,"digest":"d"},"source":"\n","referencePolicy":"all_current_usages"}]}`,
		`{"commands":[{"kind":"BranchProjectFunction","functionRef":{"functionKey":"a","version":1,"digest":"d"},"functionKey":"b","source":"가"},` +
			`{"kind":"ReplaceNodeTarget","flowTarget":{"scope":{"kind":"project","workspaceKey":"w","projectKey":"p"},"flowKey":"f","revisionRef":"r"},"nodeKey":"n","target":{"kind":"function","functionKey":"b","version":1}}]}`,
		`{"commands":[{"kind":"PatchLines"}]}`, `{"commands":[{"kind":"CreateFunction","source":""}]}`, `{"commands":[]}`, `{`, `{"commands":[{"kind":"CreateFunction","source":"\ud800"}]}`,
	} {
		f.Add([]byte(text))
	}
	type request struct {
		Commands []function.Command `json:"commands"`
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var first, again request
		if findings := schema.Decode(text, &first); findings != nil {
			for _, d := range findings {
				if d.Code == "" || d.Params == nil {
					t.Fatalf("%v", d)
				}
			}
			return
		}
		canonical, err := canon.Encode(first)
		if err != nil {
			t.Fatal(err)
		}
		if findings := schema.Decode(canonical, &again); findings != nil {
			t.Fatalf("the canonical form is refused: %v\n%s", findings, canonical)
		}
		if twice, err := canon.Encode(again); err != nil || string(twice) != string(canonical) {
			t.Fatalf("%v\n%s\n%s", err, canonical, twice)
		}
	})
}
