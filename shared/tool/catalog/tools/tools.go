// Package tools lists the definitions of every tool that exists. It links them
// all, so only the generator, the local host and tests import it.
package tools

import "github.com/pxhost/pxhost/shared/tool"

// All returns the definitions in the order of catalog.Order. A tool is added
// here when it works; then run go generate ./shared/tool/catalog.
func All() []tool.Defined {
	return []tool.Defined{}
}
