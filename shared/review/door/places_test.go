package door

import (
	"slices"
	"strings"
	"testing"

	"github.com/pxhost/pxhost/shared/budget"
	"github.com/pxhost/pxhost/shared/tool"
	"github.com/pxhost/pxhost/shared/tool/function_plan_change"
	"github.com/pxhost/pxhost/shared/tool/pxflow_plan_change"
	"github.com/pxhost/pxhost/shared/tool/report_plan_change"
)

// Whatever a tool can plan can be read before it is decided, however large it is:
// a plan can be cut here wherever its tool may cut it, and a place in a list is a
// place in a list of its own.
//
// covers: U6, B2
func TestAPlanOfAnyToolCanBeCut(t *testing.T) {
	paths := map[string]bool{}
	for _, p := range readPlaces {
		paths[p.Path] = true
	}
	for _, spec := range []tool.Spec{functionplanchange.Definition.Spec(), pxflowplanchange.Definition.Spec(), reportplanchange.Definition.Spec()} {
		if len(spec.Places) == 0 {
			t.Errorf("%s has no place", spec.Name)
		}
		for _, p := range spec.Places {
			if !paths["/plan"+p.Path] {
				t.Errorf("%s is cut at %s, and its review is not", spec.Name, p.Path)
			}
		}
	}
	for _, p := range readPlaces {
		if at, _, inside := strings.Cut(p.Path, "/*"); inside && !slices.ContainsFunc(readPlaces, func(q budget.Place) bool { return q.Path == at }) {
			t.Errorf("%s is inside a list that is no place", p.Path)
		}
	}
}
