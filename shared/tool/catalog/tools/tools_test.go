package tools_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/pxhost/pxhost/shared/tool"
	"github.com/pxhost/pxhost/shared/tool/catalog"
	"github.com/pxhost/pxhost/shared/tool/catalog/render"
	"github.com/pxhost/pxhost/shared/tool/catalog/tools"
)

// covers: W10
func TestWhatIsGeneratedIsUpToDate(t *testing.T) {
	files, err := render.Files(catalog.Order, tools.All(), tools.Planned())
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
	shown := map[string]bool{}
	for _, name := range catalog.Order {
		shown[catalog.Titles[name]] = true
	}
	if shown[""] || len(shown) != 21 || len(catalog.Titles) != 21 {
		t.Errorf("each of the 21 tools has a title of its own: %q", catalog.Titles)
	}
	var names []string
	for _, d := range tools.All() {
		names = append(names, d.Spec().Name)
	}
	want := slices.DeleteFunc(slices.Clone(catalog.Order), func(name string) bool { return !slices.Contains(names, name) })
	if !slices.Equal(names, want) {
		t.Errorf("the tools are %q, in the contract's order %q", names, want)
	}
	// What a client may do without asking a person stands and falls with these: all else
	// but the five writes reads. A plan is kept for a while and changes nothing. Nothing is
	// destroyed, a repeated commandId repeats nothing, and no tool reaches outside.
	writes := []string{"report_apply_change", "function_apply_change", "pxflow_apply_change", "pxflow_run", "run_cancel"}
	for _, d := range tools.All() {
		spec := d.Spec()
		if want := (tool.Annotations{ReadOnlyHint: !slices.Contains(writes, spec.Name), IdempotentHint: true}); spec.Annotations != want {
			t.Errorf("%s: the annotations are %+v", spec.Name, spec.Annotations)
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
			// Legal, and refused by clients that turn a schema into another dialect.
			if regexp.MustCompile(`":true`).Match(entry[name]) {
				t.Errorf("%s %s has true for a schema", entry["name"], name)
			}
		}
		var annotations map[string]bool
		if err := json.Unmarshal(entry["annotations"], &annotations); err != nil || len(annotations) != 4 {
			t.Errorf("%s: annotations %s", entry["name"], entry["annotations"])
		}
	}
}

// shares is what each of the 21 tools may take of the list, in bytes. All of
// them together have to fit 64 KB, so that the list is held while tools are
// still missing: nothing is guessed from what is there, and a tool that comes
// gets what is kept for it. Whoever needs more takes it from another's share,
// here.
//
// pxflow_run and run_get have room for the kinds that come with Reports,
// pxflow_plan_change and report_plan_change for rebaseFromPlanRef, the latter for
// RunReportFlowBatch too. What is kept for the others is what the sibling takes (a
// search as pxflow_search, and so on).
var shares = map[string]int{
	"project_search": 1570, "pxflow_search": 1620, "component_search": 1490, "report_search": 1660, "function_search": 1720,
	"pxflow_describe": 3050, "component_describe": 2025, "report_describe": 3100, "function_describe": 2870,
	"pxflow_plan_change": 14_990, "report_plan_change": 11_155, "function_plan_change": 3870, "function_validate_change": 1860,
	"pxflow_apply_change": 1970, "report_apply_change": 1990, "function_apply_change": 1960,
	"pxflow_validate": 1450, "pxflow_run": 2640, "run_get": 2000, "run_cancel": 1110, "result_read": 1295,
}

// covers: W7
func TestTheListStaysSmall(t *testing.T) {
	const (
		most  = 64 << 10
		frame = 128 // the JSON-RPC response around the list
	)
	sum := 0
	for _, name := range catalog.Order {
		if shares[name] == 0 {
			t.Errorf("%s has no share", name)
		}
		sum += shares[name]
	}
	if sum+frame > most || len(shares) != len(catalog.Order) {
		t.Errorf("the shares of %d tools are %d bytes", len(shares), sum)
	}
	var list []struct {
		Name                      string
		Description               string
		InputSchema, OutputSchema json.RawMessage
	}
	var raw []json.RawMessage
	if json.Unmarshal(catalog.JSON, &list) != nil || json.Unmarshal(catalog.JSON, &raw) != nil {
		t.Fatal("the list is no list")
	}
	t.Logf("%-24s %6s %6s %6s %6s %6s", "bytes", "all", "share", "text", "input", "output")
	for i, e := range list {
		if len(raw[i])+1 > shares[e.Name] {
			t.Errorf("%s takes %d bytes of %d", e.Name, len(raw[i])+1, shares[e.Name])
		}
		t.Logf("%-24s %6d %6d %6d %6d %6d", e.Name, len(raw[i]), shares[e.Name], len(e.Description), len(e.InputSchema), len(e.OutputSchema))
		var in struct {
			Defs map[string]json.RawMessage `json:"$defs"`
		}
		if err := json.Unmarshal(e.InputSchema, &in); err != nil {
			t.Fatal(err)
		}
		for _, name := range slices.Sorted(maps.Keys(in.Defs)) {
			t.Logf("    %-20s %6d", name, len(in.Defs[name]))
		}
	}
	t.Logf("%d tools take %d bytes, with the shares of those to come %d", len(list), len(catalog.JSON), sum)
}

// The switch changes the two tools of Components and nothing else, and off there is no
// word of it.
//
// covers: K4
func TestThePlannedCatalogChangesTwoTools(t *testing.T) {
	var off, on []map[string]json.RawMessage
	if json.Unmarshal(catalog.JSON, &off) != nil || json.Unmarshal(catalog.Planned, &on) != nil || len(on) != len(off) {
		t.Fatal("the lists are no lists of one length")
	}
	for i := range off {
		var name string
		if err := json.Unmarshal(off[i]["name"], &name); err != nil {
			t.Fatal(err)
		}
		a, _ := json.Marshal(off[i])
		b, _ := json.Marshal(on[i])
		if differs := !bytes.Equal(a, b); differs != (name == "component_search" || name == "component_describe") {
			t.Errorf("%s differs: %v", name, differs)
		}
		for _, word := range []string{"availability", "dependencyHandoff", "declaration", "presentation"} {
			if strings.HasPrefix(name, "component_") && bytes.Contains(a, []byte(word)) {
				t.Errorf("%s tells of %s while it is switched off", name, word)
			}
		}
	}
	if len(catalog.Planned) > 66<<10 {
		t.Errorf("switched on, the list takes %d bytes", len(catalog.Planned))
	}
}
