package semantic

import (
	"slices"
	"testing"

	"github.com/pxhost/pxhost/shared/canon"
)

func TestPointersEscapeAndNest(t *testing.T) {
	if got := Pointer("a/b", "~", ""); got != "/a~1b/~0/" || Pointer() != "" {
		t.Errorf("%s", got)
	}
	for _, c := range []struct {
		path, other string
		want        bool
	}{{"/a/b", "/a", true}, {"/a", "/a", true}, {"/ab", "/a", false}, {"/a", "/a/b", false}, {"/a", "", true}, {"", "/a", false}} {
		if Within(c.path, c.other) != c.want {
			t.Errorf("%q within %q: %v", c.path, c.other, !c.want)
		}
	}
	for _, c := range [][2][]string{
		{{"/a", "/a/b", "/ab", "/c/d/e", "/c"}, {"/a", "/ab", "/c"}},
		{{"", "/a"}, {""}},
		{{"/a-b", "/a", "/a/c"}, {"/a", "/a-b"}}, // "-" sorts before "/"
		{nil, {}},
	} {
		paths := map[string]bool{}
		for _, p := range c[0] {
			paths[p] = true
		}
		if got := Outermost(paths); !slices.Equal(got, c[1]) {
			t.Errorf("of %q: %q", c[0], got)
		}
	}
}

// covers: P2
func TestDifferencesComeByKeyAndInOrder(t *testing.T) {
	d := &Differ{}
	a, b := map[string]int{"x": 1, "y": 2, "z": 3}, map[string]int{"w": 0, "y": 2, "z": 4}
	for _, key := range BothKeys(b, a) {
		d.Compare(Pointer(key), At(a, key), At(b, key))
	}
	d.Compare("/raw", canon.Raw(`1`), canon.Raw(`1`))
	d.Compare("/none", nil, nil)
	d.Compare("/", nil, canon.Raw(`{}`))
	changes, err := d.Changes()
	text, _ := canon.Encode(changes)
	want := `[{"after":{},"op":"add","path":"/"},{"after":0,"op":"add","path":"/w"},{"before":1,"op":"remove","path":"/x"},{"after":4,"before":3,"op":"replace","path":"/z"}]`
	if err != nil || string(text) != want {
		t.Errorf("%v %s", err, text)
	}
	d.Compare("/bad", nil, func() {})
	if _, err := d.Changes(); err == nil {
		t.Error("what cannot be encoded is no failure")
	}
}
