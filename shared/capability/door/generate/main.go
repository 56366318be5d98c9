// Command generate writes the entries of the tools that stand beside the capabilities,
// from their Go types, so that the Lambda links nothing that makes schemas. Run it with
// go generate ./shared/capability/door.
package main

import (
	"fmt"
	"os"

	"github.com/pxhost/pxhost/shared/capability/door"
	"github.com/pxhost/pxhost/shared/tool/catalog/render"
)

func main() {
	text, err := render.Catalog(door.Beside())
	if err == nil {
		err = os.WriteFile("tools.json", text, 0o666)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}
