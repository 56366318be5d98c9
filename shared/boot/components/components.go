// Package components wires the planned catalog of Components for the few Lambdas that
// tell of it (K4). The others do not link what evaluates Components.
package components

import (
	"github.com/pxhost/pxhost/shared/boot"
	"github.com/pxhost/pxhost/shared/component/planned"
)

// Planned returns the product's catalog where the environment switches it on, and one
// that is switched off everywhere else.
func Planned(env *boot.Env) planned.Catalog {
	if env.Switch(boot.PlannedCatalog) {
		return planned.Product()
	}
	return planned.Catalog{}
}
