package states

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Every definition of the repository, and every one that these tests run, is
// also accepted by asl-validator, whose schemas are others' reading of the
// language. PX_ASL_VALIDATOR is the folder of the installed npm package.
func TestDefinitionsPassAslValidator(t *testing.T) {
	dir := os.Getenv("PX_ASL_VALIDATOR")
	if dir == "" {
		if os.Getenv("CI") == "true" {
			t.Fatal("PX_ASL_VALIDATOR is unset: install asl-validator with npm and point it at node_modules/asl-validator")
		}
		t.Skip("PX_ASL_VALIDATOR is unset")
	}
	files, err := filepath.Glob("../../../statemachines/*.asl.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no definitions in statemachines: %v", err)
	}
	tmp := t.TempDir()
	add := func(name, definition string) {
		path := filepath.Join(tmp, fmt.Sprintf("%03d.json", len(files)))
		if err := os.WriteFile(path, []byte(definition), 0o644); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s is %q", path, name)
		files = append(files, path)
	}
	for _, c := range outcomes {
		add(c.name, c.definition)
	}
	for _, c := range timesAndErrors {
		add(c.name, c.definition)
	}
	for _, c := range histories {
		add(c.name, c.definition)
	}
	for _, c := range distributedOutcomes {
		add(c.name, c.definition)
	}
	add("the machine of the kill test", machine("First", killed))
	add("the Map of the kill test", killedMap)
	arguments := []string{filepath.Join(dir, "dist", "bin", "asl-validator.js")}
	for _, file := range files {
		arguments = append(arguments, "--json-path", file)
	}
	if out, err := exec.Command("node", arguments...).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
