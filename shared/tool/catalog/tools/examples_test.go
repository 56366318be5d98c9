package tools_test

import (
	"testing"

	"github.com/pxhost/pxhost/shared/tool/catalog"
	"github.com/pxhost/pxhost/shared/tool/catalog/render"
)

// Each tool has an example, and each name in one is given by an example before it. The
// acceptance tests make them all.
//
// covers: W10
func TestEveryToolHasAnExample(t *testing.T) {
	given := map[string]bool{}
	has := map[string]bool{}
	for _, e := range render.Examples {
		if e.Approval != "" {
			if !given[e.Approval] {
				t.Errorf("%s: nothing before it gives %s", e.Tool, e.Approval)
			}
			given["APPROVAL"] = true
		}
		for _, name := range render.Named.FindAllString(e.Arguments, -1) {
			if name[0] != '"' && !given[name] {
				t.Errorf("%s: nothing before it gives %s", e.Tool, name)
			}
		}
		for name := range e.Gives {
			given[name] = true
		}
		has[e.Tool] = true
	}
	for _, name := range catalog.Order {
		if !has[name] {
			t.Errorf("%s has no example", name)
		}
	}
}
