package python_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pxhost/pxhost/shared/python/pythontest"
)

// What may be imported stands where sources are read, where they run, and where it is
// written down for people. All say the same.
func TestWhatMayBeImportedIsOneList(t *testing.T) {
	list := func(file, expression string) []string {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		found := regexp.MustCompile(expression).FindSubmatch(text)
		if found == nil {
			t.Fatalf("%s has no list any more", file)
		}
		words := regexp.MustCompile(`[a-z]+`).FindAllString(string(found[1]), -1)
		words = slices.DeleteFunc(words, func(w string) bool { return w == "px" })
		slices.Sort(words)
		return words
	}
	want := list(filepath.Join(pythontest.Folder(), "pxsource", "rules.py"), `(?s)IMPORTS = frozenset\(\s*"""(.*?)"""`)
	for file, expression := range map[string]string{
		filepath.Join(pythontest.Folder(), "README.md"): "Imports stand at the top and are of `([^`]*)`",
		"../../infra/worker/shim/shim.py":               `(?s)ALLOWED = frozenset\((.*?)\.split`,
	} {
		if got := list(file, expression); !slices.Equal(got, want) {
			t.Errorf("%s allows %s\nand the reader %s", file, strings.Join(got, " "), strings.Join(want, " "))
		}
	}
}
