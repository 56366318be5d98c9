package tools_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/pxhost/pxhost/shared/tool"
	"github.com/pxhost/pxhost/shared/tool/catalog"
	"github.com/pxhost/pxhost/shared/tool/catalog/render"
	"github.com/pxhost/pxhost/shared/tool/catalog/tools"
)

// covers: W10
func TestWhatIsGeneratedIsUpToDate(t *testing.T) {
	files, err := render.Files(catalog.Order, tools.All())
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range files {
		got, err := os.ReadFile(filepath.Join("../..", path))
		if err != nil {
			t.Errorf("%v; run go generate ./shared/tool/catalog", err)
		} else if !bytes.Equal(got, want) {
			t.Errorf("%s is not what the Go types say; run go generate ./shared/tool/catalog", path)
		}
	}
	snapshots, err := filepath.Glob("../../testdata/schema/*.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range snapshots {
		if files["testdata/schema/"+filepath.Base(path)] == nil {
			t.Errorf("%s is of no tool", path)
		}
	}
}

// covers: W7
func TestTheListOfToolsIsTheContracts(t *testing.T) {
	if len(catalog.Order) != 21 {
		t.Errorf("the catalog names %d tools", len(catalog.Order))
	}
	var names []string
	for _, d := range tools.All() {
		names = append(names, d.Spec().Name)
	}
	want := slices.DeleteFunc(slices.Clone(catalog.Order), func(name string) bool { return !slices.Contains(names, name) })
	if !slices.Equal(names, want) {
		t.Errorf("the tools are %q, in the contract's order %q", names, want)
	}
	writes := []string{"report_apply_change", "function_apply_change", "pxflow_apply_change", "pxflow_run", "run_cancel"}
	for _, d := range tools.All() {
		spec := d.Spec()
		if spec.Annotations.ReadOnlyHint == slices.Contains(writes, spec.Name) {
			t.Errorf("%s: readOnlyHint is %v", spec.Name, spec.Annotations.ReadOnlyHint)
		}
		if len(spec.Description) > tool.MaxDescription {
			t.Errorf("%s has a description of %d bytes", spec.Name, len(spec.Description))
		}
	}
}

// covers: W7
func TestEachSchemaIsOneObjectThatAClientCanRead(t *testing.T) {
	var list []map[string]json.RawMessage
	if err := json.Unmarshal(catalog.JSON, &list); err != nil {
		t.Fatal(err)
	}
	for _, entry := range list {
		for _, name := range []string{"inputSchema", "outputSchema"} {
			var top map[string]any
			if err := json.Unmarshal(entry[name], &top); err != nil {
				t.Fatal(err)
			}
			if top["type"] != "object" || top["oneOf"] != nil || top["anyOf"] != nil || top["allOf"] != nil {
				t.Errorf("%s %s is no plain object", entry["name"], name)
			}
			var s jsonschema.Schema
			if err := json.Unmarshal(entry[name], &s); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Resolve(nil); err != nil {
				t.Errorf("%s %s: %v", entry["name"], name, err)
			}
		}
		var annotations map[string]bool
		if err := json.Unmarshal(entry["annotations"], &annotations); err != nil || len(annotations) != 4 {
			t.Errorf("%s: annotations %s", entry["name"], entry["annotations"])
		}
	}
}

// covers: W7
func TestTheListStaysSmall(t *testing.T) {
	const most = 64 << 10 // with all 21 tools; what is left is for those to come
	if len(catalog.JSON) > most {
		t.Errorf("%d tools take %d bytes", len(tools.All()), len(catalog.JSON))
	}
	t.Logf("%d tools take %d bytes", len(tools.All()), len(catalog.JSON))
}
