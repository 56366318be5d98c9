package main

import (
	_ "embed"

	"github.com/pxhost/pxhost/infra/worker/prepare"
)

// The files that pin gVisor are part of the binary, so that it prepares a machine
// without the repository.
var (
	//go:embed go.mod
	goMod []byte
	//go:embed go.sum
	goSum []byte
)

func module() prepare.Module { return prepare.Module{Mod: goMod, Sum: goSum} }
