// Package render writes what is generated from the tools' Go types: the answer
// to tools/list, the schema snapshots that a review reads, and the reference
// page. It decides nothing about a tool.
package render

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/pxhost/pxhost/shared/schema"
	"github.com/pxhost/pxhost/shared/tool"
)

// An Entry is one tool of tools/list.
type Entry struct {
	Name         string             `json:"name"`
	Description  string             `json:"description"`
	InputSchema  *jsonschema.Schema `json:"inputSchema"`
	OutputSchema outline            `json:"outputSchema"`
	Annotations  tool.Annotations   `json:"annotations"`
}

// EntryOf makes the entry of a tool.
func EntryOf(d tool.Defined) Entry {
	spec := d.Spec()
	in, out := d.Types()
	return Entry{spec.Name, spec.Description, schema.JSONFor(in, schema.Closed), outputSchema(out), spec.Annotations}
}

// outputSchema is that of the envelope around data (E1), in which data is null
// in a failure. It is an outline that every answer fits, so that a client which
// validates answers can, and says of the members of data neither which are
// required nor what the frame adds to a part (truncation, at, nested): that is
// on the reference page, and how to continue stands at cursor.
func outputSchema(data reflect.Type) outline {
	d := schema.JSONFor(data, schema.Open)
	d.Type, d.Types, d.Required = "", []string{"object", "null"}, nil
	return outline{&jsonschema.Schema{
		Type: "object",
		Properties: map[string]*jsonschema.Schema{
			"ok": {Type: "boolean"}, "data": d,
			"diagnostics": {Type: "array"}, "resources": {Type: "array"},
		},
		PropertyOrder: []string{"ok", "data", "diagnostics", "resources"},
		Required:      []string{"ok", "data", "diagnostics", "resources"},
	}}
}

// An outline is a schema that is written without true as the schema of a member: {} says
// the same, and some clients take no schema that is not an object.
type outline struct{ *jsonschema.Schema }

func (o outline) MarshalJSON() ([]byte, error) {
	text, err := json.Marshal(o.Schema)
	if err != nil {
		return nil, err
	}
	// Nothing else in an outline is true, and a quotation mark inside a description has a
	// backslash before it.
	return anyMember.ReplaceAll(text, []byte(`$1":{}`)), nil
}

var anyMember = regexp.MustCompile(`([^\\])":true`)

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

// Files returns what is generated for the tools, by path below shared/tool. planned are
// the tools with the planned catalog of Components switched on; the reference page is of
// the tools without.
func Files(order []string, tools, planned []tool.Defined) (map[string][]byte, error) {
	catalog, err := Catalog(tools)
	if err != nil {
		return nil, err
	}
	switched, err := Catalog(planned)
	if err != nil {
		return nil, err
	}
	readme, err := Readme(order, tools)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{"catalog/catalog.json": catalog, "catalog/planned.json": switched, "README.md": readme}
	for _, d := range tools {
		text, err := Snapshot(d)
		if err != nil {
			return nil, err
		}
		files["testdata/schema/"+d.Spec().Name+".json"] = text
	}
	return files, nil
}
