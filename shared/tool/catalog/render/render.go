// Package render writes what is generated from the tools' Go types: the answer
// to tools/list, the schema snapshots that a review reads, and the reference
// page. It decides nothing about a tool.
package render

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/pxhost/pxhost/shared/budget"
	"github.com/pxhost/pxhost/shared/schema"
	"github.com/pxhost/pxhost/shared/tool"
)

// An Entry is one tool of tools/list.
type Entry struct {
	Name         string             `json:"name"`
	Description  string             `json:"description"`
	InputSchema  *jsonschema.Schema `json:"inputSchema"`
	OutputSchema *jsonschema.Schema `json:"outputSchema"`
	Annotations  tool.Annotations   `json:"annotations"`
}

// EntryOf makes the entry of a tool.
func EntryOf(d tool.Defined) Entry {
	spec := d.Spec()
	in, out := d.Types()
	return Entry{spec.Name, spec.Description, schema.JSONFor(in, schema.Closed), outputSchema(out, spec.Places), spec.Annotations}
}

// outputSchema is that of the envelope around data (E1). data is null in a
// failure; the frame adds truncation and, where an answer may be cut, at and
// nested. What diagnostics, resources and truncation hold is the same for all
// tools and stands on the reference page, to keep the list small.
func outputSchema(data reflect.Type, places []budget.Place) *jsonschema.Schema {
	d := schema.JSONFor(data, schema.Open)
	if d.Properties == nil {
		d.Properties = make(map[string]*jsonschema.Schema)
	}
	add := func(name string, s *jsonschema.Schema) {
		d.Properties[name] = s
		d.PropertyOrder = append(d.PropertyOrder, name)
	}
	if d.Properties["truncation"] == nil {
		add("truncation", &jsonschema.Schema{Type: "object"})
	}
	if len(places) > 0 {
		add("at", &jsonschema.Schema{Type: "string"})
	}
	if slices.ContainsFunc(places, func(p budget.Place) bool { return p.Value }) {
		add("nested", &jsonschema.Schema{Type: "object"})
	}
	d.Type, d.Types = "", []string{"object", "null"}
	return &jsonschema.Schema{
		Type: "object",
		Properties: map[string]*jsonschema.Schema{
			"ok": {Type: "boolean"}, "data": d,
			"diagnostics": {Type: "array"}, "resources": {Type: "array"},
		},
		PropertyOrder: []string{"ok", "data", "diagnostics", "resources"},
		Required:      []string{"ok", "data", "diagnostics", "resources"},
	}
}

// Catalog is the JSON array of the tools, compact.
func Catalog(tools []tool.Defined) ([]byte, error) {
	entries := make([]Entry, len(tools))
	for i, d := range tools {
		entries[i] = EntryOf(d)
	}
	text, err := marshal(entries)
	if err != nil {
		return nil, fmt.Errorf("render: %w", err)
	}
	return text, nil
}

// Snapshot is the entry of one tool, indented for reading.
func Snapshot(d tool.Defined) ([]byte, error) {
	text, err := marshal(EntryOf(d))
	if err != nil {
		return nil, fmt.Errorf("render: %s: %w", d.Spec().Name, err)
	}
	var out bytes.Buffer
	if err := json.Indent(&out, text, "", "  "); err != nil {
		return nil, fmt.Errorf("render: %s: %w", d.Spec().Name, err)
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}

func marshal(v any) ([]byte, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// Files returns what is generated for the tools, by path below shared/tool.
func Files(order []string, tools []tool.Defined) (map[string][]byte, error) {
	catalog, err := Catalog(tools)
	if err != nil {
		return nil, err
	}
	readme, err := Readme(order, tools)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{"catalog/catalog.json": catalog, "README.md": readme}
	for _, d := range tools {
		text, err := Snapshot(d)
		if err != nil {
			return nil, err
		}
		files["testdata/schema/"+d.Spec().Name+".json"] = text
	}
	return files, nil
}
