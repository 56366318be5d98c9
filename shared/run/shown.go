package run

import (
	"context"
	"fmt"

	"github.com/pxhost/pxhost/shared/history"
)

// shownBytes is how large a scalar may be to stand in a slot's summary.
const shownBytes = 256

// shownResult sums a result up for a slot: with its value, where that is a small
// scalar.
func shownResult(ctx context.Context, objects history.Objects, space history.Space, s stored) (ShownResult, error) {
	out := ShownResult{ResultSummary: s.ResultSummary}
	switch s.Type {
	case "number", "integer", "boolean", "string", "enum":
	default:
		return out, nil
	}
	if s.Bytes > shownBytes || string(s.Shape) != `"scalar"` {
		return out, nil
	}
	bodies, err := objects.Get(ctx, space, s.Ref)
	if err != nil {
		return out, fmt.Errorf("run: a result: %w", err)
	}
	out.Value = bodies[0]
	return out, nil
}
