package quantity

import (
	"fmt"

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
	return fmt.Sprintf(`{"description":"scalar, or the size of each dimension; null is any size","oneOf":[{"const":"scalar"},`+
		`{"type":"array","minItems":1,"maxItems":%d,"items":{"type":["integer","null"],"minimum":1,"maximum":%d}}]}`, MaxShapeDims, MaxShapeSize)
}

// ReadJSON reads a shape for package schema.
func (s *Shape) ReadJSON(text canon.Raw, found *schema.Report) {
	if err := s.UnmarshalJSON(text); err != nil {
		found.Invalid("shape", nil)
	}
}
