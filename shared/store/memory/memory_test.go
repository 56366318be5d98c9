package memory

import (
	"testing"
	"time"

	"github.com/pxhost/pxhost/shared/store/storetest"
)

func TestStore(t *testing.T) {
	storetest.Run(t, func(*testing.T) storetest.Store { return New(func() time.Time { return storetest.Now }) })
}
