package states

import (
	"bytes"
	"time"

	"go.etcd.io/bbolt"
)

// keys counts the keys of buckets.
func (h host) keys(buckets ...string) map[string]int {
	h.t.Helper()
	counts := map[string]int{}
	if err := h.store.view(func(tx *bbolt.Tx) error {
		for _, name := range buckets {
			counts[name] = 0
			if err := tx.Bucket([]byte(name)).ForEach(func(k, v []byte) error { counts[name]++; return nil }); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		h.t.Fatal(err)
	}
	return counts
}

// childrenOf gives the ARNs of all children of a Map, in no order that says anything.
func (h host) childrenOf(machine string) (arns []string) {
	h.t.Helper()
	prefix := []byte(machine + "\x00")
	if err := h.store.view(func(tx *bbolt.Tx) error {
		c := tx.Bucket(bucketNames).Cursor()
		for k, _ := c.Seek(prefix); k != nil && bytes.HasPrefix(k, prefix); k, _ = c.Next() {
			arns = append(arns, h.executionARN(machine, string(k[len(prefix):])))
		}
		return nil
	}); err != nil {
		h.t.Fatal(err)
	}
	return arns
}

// settled waits until nothing runs and nothing of Map Runs that are over is left.
func (h host) settled() {
	h.t.Helper()
	left := map[string]int{}
	for start := time.Now(); time.Since(start) < h.patience; time.Sleep(10 * time.Millisecond) {
		left = h.keys("mapRuns", "items", "results", "garbage", "running", "frames")
		sum := 0
		for _, n := range left {
			sum += n
		}
		if sum == 0 {
			return
		}
	}
	h.t.Errorf("keys are left: %v", left)
}
