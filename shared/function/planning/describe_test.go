package planning_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/pxhost/pxhost/shared/python/pythontest"
)

// Of a Function that is used in more places than one answer holds, the parts together
// tell each use once; the links to its source and to its whole document stand in every
// part, and its source in none.
//
// covers: B2, D2, D3
func TestADescriptionThatIsCutHasItsLinksInEveryPart(t *testing.T) {
	w, at := used(t, pythontest.Reader(t), 12, 0)
	request, uses, parts := m{"target": at, "budget": m{"items": 5}}, map[string]bool{}, 0
	for ; parts < 10; parts++ {
		e := w.ask("function_describe", request)
		var data struct {
			Usages     []struct{ FlowKey string }
			Truncation *struct{ Continuation struct{ Value string } }
		}
		if !e.OK || json.Unmarshal(e.Data, &data) != nil {
			t.Fatalf("part %d: %s", parts, told(e))
		}
		var types []string
		for _, r := range e.Resources {
			types = append(types, r.MediaType)
		}
		if got := strings.Join(types, " "); got != "text/x-python application/json" {
			t.Errorf("part %d links to %q", parts, got)
		}
		if strings.Contains(string(e.Data), "def check") {
			t.Errorf("part %d tells the source", parts)
		}
		for _, u := range data.Usages {
			if uses[u.FlowKey] {
				t.Errorf("%s is told twice", u.FlowKey)
			}
			uses[u.FlowKey] = true
		}
		if data.Truncation == nil {
			break
		}
		request = with(request, m{"cursor": data.Truncation.Continuation.Value})
	}
	if len(uses) != 12 || parts < 2 {
		t.Errorf("%d uses in %d parts", len(uses), parts+1)
	}
	if whole := w.ask("function_describe", m{"target": at}); len(whole.Resources) != 1 || whole.Resources[0].MediaType != "text/x-python" {
		t.Errorf("in one answer it links to %+v", whole.Resources)
	}
}
