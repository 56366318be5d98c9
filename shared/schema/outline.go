package schema

import "github.com/google/jsonschema-go/jsonschema"

// outlineOf is the JSON Schema of an answer; see Open.
func outlineOf(root *shape) *jsonschema.Schema {
	out := members(root, 1)
	for _, f := range root.fields {
		if p := out.Properties[f.name]; f.desc != "" {
			p.Description = f.desc
		}
		if !f.optional {
			out.Required = append(out.Required, f.name)
		}
	}
	return out
}

// members lists the members of an object. Those of an object inside another are
// only named, and of one with the rule bare not even that: what they are is said
// elsewhere. true is the schema of any value.
func members(s *shape, level int) *jsonschema.Schema {
	out := &jsonschema.Schema{Type: "object"}
	for _, f := range s.fields {
		p := &jsonschema.Schema{}
		if level == 1 {
			if p = outline(f.shape); f.nullable {
				p = orNull(p)
			}
		}
		if out.Properties == nil {
			out.Properties = make(map[string]*jsonschema.Schema)
		}
		out.Properties[f.name] = p
		out.PropertyOrder = append(out.PropertyOrder, f.name)
	}
	return out
}

// outline says what a member of the answer is.
func outline(s *shape) *jsonschema.Schema {
	switch s.form {
	case stringForm, textForm, timeForm:
		out := &jsonschema.Schema{Type: "string"}
		if s.rules.enum != nil {
			out.Type = ""
			for _, e := range s.rules.enum {
				out.Enum = append(out.Enum, e)
			}
		}
		return out
	case integerForm:
		return &jsonschema.Schema{Type: "integer"}
	case numberForm:
		return &jsonschema.Schema{Type: "number"}
	case booleanForm:
		return &jsonschema.Schema{Type: "boolean"}
	case pointerForm:
		return outline(s.elem)
	case objectForm:
		if s.rules.bare {
			return &jsonschema.Schema{Type: "object"}
		}
		return members(s, 2)
	case mapForm:
		return &jsonschema.Schema{Type: "object", AdditionalProperties: elementOutline(s.elem)}
	case listForm:
		return &jsonschema.Schema{Type: "array", Items: elementOutline(s.elem)}
	case unionForm:
		return &jsonschema.Schema{Type: "object"}
	default: // raw, any, custom
		return &jsonschema.Schema{}
	}
}

// elementOutline is nil, which says nothing, for any value.
func elementOutline(s *shape) *jsonschema.Schema {
	switch s.form {
	case pointerForm:
		return orNull(outline(s))
	case rawForm, anyForm, customForm:
		return nil
	}
	return outline(s)
}
