// Package expression parses and evaluates DynamoDB's expressions: conditions and
// filters, key conditions, projections and updates, with the names and values
// that a request defines for them.
//
// A parse fails with an *Error whose text is the part of DynamoDB's message that
// comes after "Invalid ConditionExpression: "; the order in which several faults
// of one expression are told is DynamoDB's as well. An update that fails when it
// is applied fails with an *Error too.
//
// The package knows nothing of tables, keys, requests or storage. What an
// expression may not touch (key attributes, attributes an index does not have)
// is its caller's concern; Roots and Nested tell what it names.
package expression

// The size limits of one expression.
const (
	maxBytes     = 4096 // length of the text
	maxOperators = 300  // comparators, logical operators, + and -, functions not counted
	maxIn        = 100  // values listed by IN
	maxDepth     = 32   // elements of a document path
)

// Error is a fault of an expression or of its application.
type Error struct{ Message string }

func (e *Error) Error() string { return e.Message }
