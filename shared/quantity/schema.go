package quantity

import (
	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/schema"
)

// Enum returns the names of the types, for package schema.
func (Type) Enum() []string {
	var names []string
	for _, t := range Types() {
		names = append(names, string(t))
	}
	return names
}

// JSONSchema describes a shape for package schema.
func (Shape) JSONSchema() string {
	return `{"description":"scalar, or the size of each dimension, null for any","oneOf":[{"const":"scalar"},` +
		`{"type":"array","items":{"type":["integer","null"]}}]}`
}

// ReadJSON reads a shape for package schema.
func (s *Shape) ReadJSON(text canon.Raw, found *schema.Report) {
	if err := s.UnmarshalJSON(text); err != nil {
		found.Invalid("shape", nil)
	}
}
