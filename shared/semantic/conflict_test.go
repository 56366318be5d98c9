package semantic

import (
	"testing"

	"github.com/pxhost/pxhost/shared/canon"
)

// covers: P8
func TestConflictsAreToldAtTheFinestPathThatShowsBothChanges(t *testing.T) {
	const base = `{"list":{"a":{"k":1,"l":1},"gone":{"k":1},"s/l~t":1},"order":["a"]}`
	for name, c := range map[string]struct {
		touched           []string
		changed           []string
		current, proposed string
		want              string
	}{
		"nothing in common":               {[]string{"/list/a/k"}, []string{"/list/a/l"}, `{}`, `{}`, `[]`},
		"a name that begins like another": {[]string{"/list/a"}, []string{"/list/ab", "/lis"}, `{}`, `{}`, `[]`},
		"the same path": {[]string{"/list/a/k"}, []string{"/list/a/k"}, `{"list":{"a":{"k":2}}}`, `{"list":{"a":{"k":3}}}`,
			`[{"base":1,"current":2,"path":"/list/a/k","proposed":3}]`},
		"the same change twice": {[]string{"/list/a/k"}, []string{"/list/a/k"}, `{"list":{"a":{"k":2}}}`, `{"list":{"a":{"k":2}}}`,
			`[{"base":1,"current":2,"path":"/list/a/k","proposed":2}]`},
		"added by both": {[]string{"/list/n"}, []string{"/list/n"}, `{"list":{"n":2}}`, `{"list":{"n":3}}`,
			`[{"current":2,"path":"/list/n","proposed":3}]`},
		"removed, and changed in it meanwhile": {[]string{"/list/a"}, []string{"/list/a/k", "/list/a/l"}, `{"list":{"a":{"k":2,"l":2}}}`, `{"list":{}}`,
			`[{"base":1,"current":2,"path":"/list/a/k"},{"base":1,"current":2,"path":"/list/a/l"}]`},
		"changed in what was removed meanwhile": {[]string{"/list/a/k"}, []string{"/list/a"}, `{"list":{}}`, `{"list":{"a":{"k":3,"l":1}}}`,
			`[{"base":1,"path":"/list/a/k","proposed":3}]`},
		"two sides of one thing": {[]string{"/list/a/k"}, []string{"/list/a"}, `{"list":{"a":{"k":1,"l":2}}}`, `{"list":{"a":{"k":3,"l":1}}}`,
			`[{"base":{"k":1,"l":1},"current":{"k":1,"l":2},"path":"/list/a","proposed":{"k":3,"l":1}}]`},
		"all of it": {[]string{""}, []string{"/order"}, `{"order":["b"]}`, `{"order":["c"]}`,
			`[{"base":["a"],"current":["b"],"path":"/order","proposed":["c"]}]`},
		"a name that is escaped": {[]string{"/list/s~1l~0t"}, []string{"/list/s~1l~0t"}, `{"list":{"s/l~t":2}}`, `{"list":{"s/l~t":3}}`,
			`[{"base":1,"current":2,"path":"/list/s~1l~0t","proposed":3}]`},
		"below a list there is nothing": {[]string{"/order/0"}, []string{"/order/0"}, `{"order":["b"]}`, `{"order":["c"]}`, `[{"path":"/order/0"}]`},
	} {
		var changed []Change
		for _, path := range c.changed {
			changed = append(changed, Change{Path: path})
		}
		got, err := Conflicts(c.touched, changed, canon.Raw(base), canon.Raw(c.current), canon.Raw(c.proposed))
		text, _ := canon.Encode(got)
		if err != nil || string(text) != c.want {
			t.Errorf("%s: %v\n got %s\nwant %s", name, err, text, c.want)
		}
	}
}
