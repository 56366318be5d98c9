// Package schema makes one contract of a Go type: a strict decoder that reports
// everything that is wrong with a request at once, and the JSON Schema that a
// client sees. Neither can drift from the other, because both are read from the
// same compiled shape.
//
// It knows no tool, no Flow and no Report. What must hold between several
// fields beyond the few rules below belongs to the caller.
//
// # How a type is read
//
//   - Struct fields are named by their json tags, and names match exactly. A
//     field with omitzero or omitempty may be absent; every other field is
//     required. Embedded structs without a name are part of the outer object; of
//     one behind a pointer, every field may be absent.
//   - null is refused, except where the encoder writes it: for a pointer without
//     omitzero or omitempty, which is required and may be null.
//   - int, int32 and int64 are integers within ±(2^53−1); 1.0 and 1e2 are
//     integers too. float64 is any number that binary64 holds: an integer
//     literal that would be rounded is refused, never rounded. -0 is 0.
//   - map[string]T is an object of keys that a user chose. They follow
//     target.KeyPattern unless the rule keys says otherwise, and are never
//     unknown fields.
//   - canon.Raw is any JSON value and is kept in canonical form.
//   - time.Time is an RFC 3339 date and time.
//   - An interface registered with Union is one of its variants, told apart by
//     the member "kind".
//   - A type that implements Custom reads itself.
//
// # Tags
//
//	desc:"…"      description, also on a blank field (_ struct{}) for the type
//	schema:"…"    rules, separated by commas:
//	    minimum=0 maximum=9 exclusiveMinimum=0 exclusiveMaximum=1
//	    minLength=1 maxLength=64 (code points) minItems=1 maxItems=9 (of a list or map); not in the JSON Schema
//	    enum=a|b      the allowed strings
//	    pattern=key   a named pattern: key, member (a camelCase name), language, dotted
//	    keys=language the pattern of a map's keys; keys=any allows all. Of languages,
//	                  two that differ in case alone are one twice
//	    text=line     text that shows what it is: no control characters and none that
//	                  turn the direction of writing; text=prose has \n and tabs
//	    only=a|b      of an object with kinds: the kinds allowed here
//	    copied        the text is copied from an answer: the JSON Schema leaves out its form
//	    bare          of an object in an answer: the JSON Schema leaves out its members
//	    brief         of an object in a request that is copied from an answer, or said by
//	                  another tool: the JSON Schema leaves out its members
//	    each.RULE     RULE for the elements of a list or the values of a map
//	pattern:"…"   a regular expression for a string
//	kinds:"A!,B"  of an object with a member "kind": the field exists for A and B
//	              alone and is required for A
//
// A blank field may state what holds between fields: schema:"oneOf=a|b"
// (exactly one is present), "anyOf=a|b" (at least one), "atMostOne=a|b",
// "forms=a+b|c" (either a and b, or c; the fields are omitzero, and an object with
// none of them lacks those of the first form).
//
// An embedded struct with schema:"widen" is what the outer object adds members
// to: where both stand in one JSON Schema, that of the embedded type is written
// once, with the members of the outer one beside its own. Their descriptions
// say where they belong; the decoder holds it.
//
// A type may carry its own rules: a method SchemaRules() string holds what the
// schema tag would, and a method Enum() []string lists the allowed strings. A
// struct with a method JSONSchema() string states its JSON Schema itself, where
// a shorter one says the same; it is still read by its fields.
//
// # Diagnostics
//
// PX_SCHEMA_UNKNOWN_FIELD for a name the object does not have, the five legacy
// fields included; PX_SCHEMA_INVALID with params.rule for everything else;
// PX_SCHEMA_UNSUPPORTED_VERSION for a result or port that is addressed by one
// dotted string (L1). Params name rules and limits and never repeat what was
// sent.
package schema
