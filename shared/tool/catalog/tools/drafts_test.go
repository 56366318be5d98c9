package tools_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

const exampleDraft = `{"scope": ` + exampleScope + `, "documentHandle": "AQAAAA"}`

// What reads or plans takes a draft, and so does its listed schema; what runs,
// applies, or refers to a saved revision refuses it by name, and its schema with it.
//
// covers: T4, W7
func TestDraftsAreTakenWhereTheyAreReadAndRefusedByNameElsewhere(t *testing.T) {
	for _, c := range []struct{ tool, arguments string }{
		{"pxflow_describe", `{"target": DRAFT}`},
		{"pxflow_describe", `{"targets": [DRAFT, FLOW]}`},
		{"pxflow_validate", `{"target": DRAFT}`},
		{"report_describe", `{"target": DRAFT}`},
		{"report_describe", `{"targets": [REPORT, DRAFT]}`},
		{"pxflow_plan_change", `{"target": DRAFT, "expectedGeneration": 0}`},
		{"report_plan_change", `{"target": DRAFT, "expectedGeneration": 0}`},
	} {
		arguments := strings.NewReplacer("DRAFT", exampleDraft, "FLOW", exampleFlow, "REPORT", exampleReport).Replace(c.arguments)
		if list := byName(c.tool).Check([]byte(arguments)); list != nil {
			t.Errorf("%s refuses %s: %q", c.tool, c.arguments, found(list))
		}
		_, resolved := inputSchema(t, c.tool)
		if err := validate(t, resolved, arguments); err != nil {
			t.Errorf("the schema of %s refuses %s: %v", c.tool, c.arguments, err)
		}
		// Both forms at once are a form of nothing.
		both := strings.Replace(arguments, `"documentHandle"`, `"revisionRef": "sha256:x", "documentHandle"`, 1)
		if list := found(byName(c.tool).Check([]byte(both))); len(list) != 1 || !strings.HasPrefix(list[0], "PX_SCHEMA_INVALID /target") {
			t.Errorf("%s with both forms: %q", c.tool, list)
		}
	}
	const applying = `, "expectedGeneration": 0, "planRef": "plan_1", "planDigest": "sha256:x", "commandId": "c"}`
	for _, c := range []struct{ tool, path, arguments string }{
		{"pxflow_apply_change", "/target", `{"target": DRAFT` + applying},
		{"report_apply_change", "/target", `{"target": DRAFT` + applying},
		{"function_apply_change", "/target", `{"target": DRAFT` + applying},
		{"function_plan_change", "/target", `{"target": DRAFT, "expectedGeneration": 0, "commands": []}`},
		{"function_validate_change", "/target", `{"scope": ` + exampleScope + `, "target": DRAFT, "commands": []}`},
		{"function_describe", "/target", `{"target": DRAFT}`},
		{"pxflow_run", "/target", `{"kind": "RunFlow", "target": DRAFT, "inputs": {}, "commandId": "c"}`},
		{"pxflow_run", "/target", `{"kind": "RunReportFlowConnection", "target": DRAFT, "connectionKey": "check", "commandId": "c"}`},
		{"report_plan_change", "/commands/0/flowTarget", `{"target": REPORT, "expectedGeneration": 0, "commands": [{"kind": "SetConnectionFlow", "connectionKey": "check", "flowTarget": DRAFT}]}`},
	} {
		d := byName(c.tool)
		if d == nil {
			continue // it comes with its tool
		}
		arguments := strings.NewReplacer("DRAFT", exampleDraft, "REPORT", exampleReport).Replace(c.arguments)
		told := ""
		for _, f := range d.Check([]byte(arguments)) {
			if f.Path == c.path+"/documentHandle" {
				told += string(f.Code) + " "
				if reason, ok := f.Params["reason"].(string); ok {
					told += reason
				}
			}
		}
		if told != "PX_SCHEMA_UNKNOWN_FIELD saved_revision_required" {
			t.Errorf("%s says of a draft: %q", c.tool, told)
		}
		if _, resolved := inputSchema(t, c.tool); validate(t, resolved, arguments) == nil {
			t.Errorf("the schema of %s takes a draft", c.tool)
		}
	}
}

// A dependency is pinned by all of package key, version and digest, or not at all:
// no part is filled in.
//
// covers: T4
func TestAPackageIsPinnedByKeyVersionAndDigest(t *testing.T) {
	var example string
	for _, e := range examples {
		if e.tool == "component_describe" {
			example = e.arguments
		}
	}
	var whole map[string]map[string]any
	if err := json.Unmarshal([]byte(example), &whole); err != nil {
		t.Fatal(err)
	}
	_, resolved := inputSchema(t, "component_describe")
	pins := []string{"packageKey", "packageVersion", "packageDigest"}
	for missing := 1; missing < 1<<len(pins); missing++ {
		ref := map[string]any{}
		for name, value := range whole["componentRef"] {
			ref[name] = value
		}
		var want []string
		for i, name := range pins {
			if missing&(1<<i) != 0 {
				delete(ref, name)
				want = append(want, "PX_SCHEMA_INVALID /componentRef/"+name)
			}
		}
		text, err := json.Marshal(map[string]any{"componentRef": ref})
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(want)
		if got := found(byName("component_describe").Check(text)); !slices.Equal(got, want) {
			t.Errorf("without %q: %q", want, got)
		}
		if validate(t, resolved, string(text)) == nil {
			t.Errorf("the schema takes a reference without %q", want)
		}
	}
	// An empty part, or one of another type, is missing too.
	for _, name := range pins {
		for value, rule := range map[any]string{"": "minLength", 1: "type", nil: "type", "x": ""} {
			ref := map[string]any{}
			for name, value := range whole["componentRef"] {
				ref[name] = value
			}
			ref[name] = value
			text, err := json.Marshal(map[string]any{"componentRef": ref})
			if err != nil {
				t.Fatal(err)
			}
			list := byName("component_describe").Check(text)
			switch {
			case rule == "" && list == nil:
			case len(list) != 1 || list[0].Path != "/componentRef/"+name || list[0].Params["rule"] != rule:
				t.Errorf("%s is %v: %+v", name, value, list)
			}
		}
	}
	// A Node of a package pins all three, and is never taken for the Project's own.
	node := func(pin string) string {
		return `{"target": ` + exampleFlow + `, "expectedGeneration": 0, "commands": [{"kind": "ReplaceNodeTarget", "nodeKey": "a",
			"target": {"kind": "function", "functionKey": "resistance", "version": 3, "digest": "sha256:x"` + pin + `}}]}`
	}
	if list := byName("pxflow_plan_change").Check([]byte(node(""))); list != nil {
		t.Fatalf("%q", found(list))
	}
	for pin, want := range map[string]string{
		`, "package": {"packageKey": "steel", "version": "1.0.0", "digest": "sha256:y"}`:            "",
		`, "package": {"packageKey": "steel", "version": "1.0.0"}`:                                  "PX_SCHEMA_INVALID /commands/0/target/package/digest",
		`, "package": {"packageKey": "steel", "digest": "sha256:y"}`:                                "PX_SCHEMA_INVALID /commands/0/target/package/version",
		`, "package": {"version": "1.0.0", "digest": "sha256:y"}`:                                   "PX_SCHEMA_INVALID /commands/0/target/package/packageKey",
		`, "package": {"packageKey": "steel", "version": "1.0.0", "digest": "sha256:y", "range":1}`: "PX_SCHEMA_UNKNOWN_FIELD /commands/0/target/package/range",
		`, "package": "steel"`:    "PX_SCHEMA_INVALID /commands/0/target/package",
		`, "packageKey": "steel"`: "PX_SCHEMA_UNKNOWN_FIELD /commands/0/target/packageKey",
	} {
		if list := found(byName("pxflow_plan_change").Check([]byte(node(pin)))); strings.Join(list, "\n") != want {
			t.Errorf("%s: %q", pin, list)
		}
	}
}
