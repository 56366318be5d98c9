// Package wait is how whoever tries again waits: for a while, or until nobody waits for
// the answer any more.
package wait

import (
	"context"
	"time"
)

// For waits for d, or returns ctx's error as soon as ctx ends.
func For(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
