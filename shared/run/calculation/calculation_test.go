package calculation_test

import (
	"slices"
	"testing"
	"time"

	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/run/calculation"
	"github.com/pxhost/pxhost/shared/store/memory"
	"github.com/pxhost/pxhost/shared/target"
)

// A saved Flow names only what could be placed when it was saved. Where the code that runs
// now has it no more, or a document got in by another way, the Run is refused before
// anything is calculated, and no other version takes its place.
//
// covers: K3, K5
func TestARunOfAComponentThatIsNotSupportedIsRefusedBeforeItBegins(t *testing.T) {
	open := calculation.Opener(memory.New(time.Now))
	for of, want := range map[string]outcome.Code{
		`"componentKey":"truss_solve","version":1`: outcome.ComponentNotRunnable,
		`"componentKey":"acme.truss","version":1`:  outcome.ComponentNotRunnable,
		`"componentKey":"px.formula","version":2`:  outcome.ReferenceUnknown,
		`"componentKey":"px.formulas","version":1`: outcome.ReferenceUnknown,
	} {
		document := `{"authoring":{"kind":"native"},"flowKey":"f","format":"pxflow/1","inputs":{},"nodes":{"n":{"target":{` + of + `,"kind":"component"}}},"results":{}}`
		flow, findings, err := open(t.Context(), target.Project{WorkspaceKey: "team", ProjectKey: "bridge"}, []byte(document))
		if err != nil || flow != nil || !slices.ContainsFunc(findings, func(d outcome.Diagnostic) bool { return d.Code == want && d.Path == "/nodes/n/target" }) {
			t.Errorf("%s: %+v %v", of, findings, err)
		}
	}
}
