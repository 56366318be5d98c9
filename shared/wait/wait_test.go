package wait_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pxhost/pxhost/shared/wait"
)

func TestItEndsInTimeOrWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if err := wait.For(t.Context(), time.Second); err != nil || time.Since(began) != time.Second {
			t.Error(time.Since(began), err)
		}
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		if err := wait.For(ctx, time.Hour); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 2*time.Second {
			t.Error(time.Since(began), err)
		}
	})
}
