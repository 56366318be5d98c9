// Command sign writes registry.json, the signed registry entry of the built-in
// Components. It makes a key, signs and forgets the key: the entry says that the
// definitions are those that were released together, and nothing about anyone
// else's packages. An entry that holds for the definitions as they are is left
// alone, so that generating changes nothing where nothing changed.
package main

import (
	"crypto/ed25519"
	"fmt"
	"os"

	"github.com/pxhost/pxhost/shared/component"
)

func main() {
	if err := write("registry.json"); err != nil {
		fmt.Fprintln(os.Stderr, "sign:", err)
		os.Exit(1)
	}
}

func write(path string) error {
	release, err := component.CurrentRelease()
	if err != nil {
		return err
	}
	text, err := os.ReadFile(path)
	if err == nil && component.Verified(text, release) {
		return nil
	}
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		return err
	}
	text, err = component.SignRelease(release, key)
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}
