// Command generate writes what is generated from the tools' Go types: the
// catalog, the schema snapshots and the reference page. Run it with
// go generate ./shared/tool/catalog.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/pxhost/pxhost/shared/tool/catalog"
	"github.com/pxhost/pxhost/shared/tool/catalog/render"
	"github.com/pxhost/pxhost/shared/tool/catalog/tools"
)

func main() {
	if err := run(".."); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

// run writes below root, the folder shared/tool, and removes the snapshots of
// tools that are no more.
func run(root string) error {
	files, err := render.Files(catalog.Order, tools.All(), tools.Planned())
	if err != nil {
		return err
	}
	old, err := filepath.Glob(filepath.Join(root, "testdata/schema/*.json"))
	if err != nil {
		return err
	}
	for _, path := range old {
		if files["testdata/schema/"+filepath.Base(path)] == nil {
			if err := os.Remove(path); err != nil {
				return err
			}
		}
	}
	for path, text := range files {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			return err
		}
		if err := os.WriteFile(path, text, 0o666); err != nil {
			return err
		}
	}
	return nil
}
