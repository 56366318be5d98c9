package run

import (
	"context"

	"github.com/pxhost/pxhost/shared/dependency"
	"github.com/pxhost/pxhost/shared/flow/outline"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/snapshot"
	"github.com/pxhost/pxhost/shared/target"
)

// Pins are what a Run takes from the Project's dependency lock when it is begun. What
// becomes of the lock afterwards does not reach it; what becomes of the releases
// themselves does: its first stage asks whether each is still admitted.
type Pins struct {
	// Python is the minor that has to run its Functions, "" for any.
	Python string `json:"python,omitzero"`
	// Packages are the releases whose Functions it runs.
	Packages []target.Package `json:"packages,omitzero"`
}

// pins takes them from the lock of a snapshot, for a Flow that calls Functions. Releases
// that are not installed refuse the Run; path is of the target in the request.
func pins(ctx context.Context, s snapshot.Snapshot, o outline.Outline, path string) (Pins, outcome.Findings, error) {
	if len(o.Sandbox) == 0 {
		return Pins{}, nil, nil
	}
	lock, err := dependency.In(ctx, s)
	if err != nil {
		return Pins{}, nil, err
	}
	return Pins{lock.Python, o.Packages}, lock.NotInstalled(s.Project, o.Packages, path), nil
}
