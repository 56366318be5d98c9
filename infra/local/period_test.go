package local

import (
	"testing"
	"time"
)

func TestAShorterMinuteShortensEveryPeriod(t *testing.T) {
	for _, c := range []struct{ minute, every, want time.Duration }{
		{0, time.Minute, time.Minute},
		{time.Minute, 5 * time.Minute, 5 * time.Minute},
		{500 * time.Millisecond, time.Minute, 500 * time.Millisecond},
		{time.Second, time.Hour, time.Minute},
		{10 * time.Millisecond, 24 * time.Hour, 14400 * time.Millisecond},
	} {
		h := host{cfg: Config{Minute: c.minute}}
		if got := h.period(c.every); got != c.want {
			t.Errorf("with a minute of %v, %v takes %v", c.minute, c.every, got)
		}
	}
}
