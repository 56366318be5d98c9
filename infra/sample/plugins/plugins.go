// Package plugins is the sample plugins: one package a folder.
package plugins

import (
	"embed"
	"io/fs"
)

//go:embed */manifest.json */src/*.py
var files embed.FS

// Names are the folders of the sample plugins, in order.
func Names() []string {
	entries, err := files.ReadDir(".")
	if err != nil {
		panic(err) // it is embedded
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// Files is the package of a sample plugin.
func Files(name string) fs.FS {
	sub, err := fs.Sub(files, name)
	if err != nil {
		panic(err)
	}
	return sub
}
