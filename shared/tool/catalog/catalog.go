// Package catalog holds the answer to tools/list. It is bytes, so that the
// endpoint links no tool.
package catalog

import _ "embed"

// JSON is the array of the tools in catalog order, generated from their
// definitions.
//
//go:embed catalog.json
var JSON []byte
