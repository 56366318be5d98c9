package lambda

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	bolt "go.etcd.io/bbolt"
)

// alive tells whether a process runs; one that is dead but not yet reaped does not.
func alive(pid int) bool {
	if b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat"); err == nil {
		_, rest, _ := strings.Cut(string(b), ") ")
		return !strings.HasPrefix(rest, "Z")
	}
	p, err := os.FindProcess(pid)
	return err == nil && p.Signal(syscall.Signal(0)) == nil
}

func queued(h *Host) (n int) {
	h.queue.db.View(func(tx *bolt.Tx) error {
		n = tx.Bucket(eventsBucket).Stats().KeyN
		return nil
	})
	return n
}

// skip skips a test, except where skipping is a failure.
func skip(t testing.TB, why string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("not skipped under CI: %s", why)
	}
	t.Skip(why)
}
