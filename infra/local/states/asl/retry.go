package asl

import (
	"math"
	"time"
)

// Delay is how long to wait before the next attempt when n attempts of this
// retrier were made before. random gives a number in [0, 1); with JitterStrategy
// FULL the delay is anywhere between nothing and the capped backoff.
func (r Retrier) Delay(n int64, random func() float64) time.Duration {
	seconds := r.Interval.Seconds() * math.Pow(r.BackoffRate, float64(n))
	limit := float64(maxSeconds)
	if r.MaxDelay > 0 {
		limit = r.MaxDelay.Seconds()
	}
	if !(seconds < limit) { // also NaN and infinity
		seconds = limit
	}
	if r.FullJitter {
		seconds *= random()
	}
	return time.Duration(seconds * float64(time.Second))
}
