package target_test

import (
	"slices"
	"testing"

	"github.com/pxhost/pxhost/shared/schema"
	"github.com/pxhost/pxhost/shared/target"
)

// covers: T1
func TestAScopeIsNeverFilledIn(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"a Project":                                 {`{"kind":"project","workspaceKey":"a","projectKey":"b"}`, nil},
		"a Project without its workspace":           {`{"kind":"project","projectKey":"b"}`, []string{"/scope/workspaceKey"}},
		"a Project without its key":                 {`{"kind":"project","workspaceKey":"a"}`, []string{"/scope/projectKey"}},
		"a Project without either":                  {`{"kind":"project"}`, []string{"/scope/projectKey", "/scope/workspaceKey"}},
		"a Project with empty keys":                 {`{"kind":"project","workspaceKey":"","projectKey":""}`, []string{"/scope/projectKey", "/scope/workspaceKey"}},
		"a key with a slash, and one in upper case": {`{"kind":"project","workspaceKey":"a/b","projectKey":"B"}`, []string{"/scope/projectKey", "/scope/workspaceKey"}},
		"another kind":                              {`{"kind":"workspace","workspaceKey":"a"}`, []string{"/scope/kind", "/scope/projectKey"}},
		"no kind":                                   {`{"workspaceKey":"a","projectKey":"b"}`, []string{"/scope/kind"}},
		"no scope":                                  {``, []string{"/scope"}},
	} {
		text := `{"flowKey":"girder_check","revisionRef":"sha256:x"`
		if c.text != "" {
			text += `,"scope":` + c.text
		}
		var flow target.Flow
		var got []string
		for _, f := range schema.Decode([]byte(text+"}"), &flow) {
			got = append(got, f.Path)
		}
		slices.Sort(got)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
		if _, ok := flow.Scope.Project(); ok != (c.want == nil) {
			t.Errorf("%s: names a Project: %v", name, ok)
		}
	}
}
