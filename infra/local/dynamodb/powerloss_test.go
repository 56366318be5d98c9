package dynamodb

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sync"
	"testing"
	"unsafe"

	"go.etcd.io/bbolt"
)

// A power cut loses writes that were not synced, all of them or any part. The
// test records what bbolt writes to the file, and between the writes what the
// service answers, and then builds files as power cuts might leave them.
//
// bbolt commits in four steps: it writes pages, syncs, writes one of the two
// meta pages at the start of the file, and syncs. So when a meta page is being
// written everything before it is on disk, and when anything follows a meta page
// that is on disk as well.

// recorded is a write to the file, or an answer.
type recorded struct {
	offset int64
	data   []byte // nil for an answer
	worker int
	n      int
}

type recorder struct {
	mu     sync.Mutex
	events []recorded
}

func (r *recorder) add(e recorded) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

// record makes bbolt report each of its writes. It reaches for an unexported
// field, and fails where a version of bbolt does not have it.
func (r *recorder) record(t *testing.T, db *bbolt.DB) {
	t.Helper()
	ops := reflect.ValueOf(db).Elem().FieldByName("ops")
	if !ops.IsValid() || !ops.FieldByName("writeAt").IsValid() {
		t.Fatal("this version of bbolt writes in another way: change the test")
	}
	writeAt := (*func([]byte, int64) (int, error))(unsafe.Pointer(ops.FieldByName("writeAt").UnsafeAddr()))
	original := *writeAt
	*writeAt = func(b []byte, offset int64) (int, error) {
		r.add(recorded{offset: offset, data: slices.Clone(b)})
		return original(b, offset)
	}
}

func (e recorded) isMeta(page int) bool { return e.data != nil && e.offset < int64(2*page) }

// cut builds the file that a power cut after the event before at might leave.
func cut(base []byte, events []recorded, at, page int, random *rand.Rand) []byte {
	image := slices.Clone(base)
	apply := func(e recorded, length int) {
		if end := int(e.offset) + length; end > len(image) {
			image = append(image, make([]byte, end-len(image))...)
		}
		copy(image[e.offset:], e.data[:length])
	}
	synced := 0 // events before this one are on disk
	for i, e := range events[:at] {
		if e.isMeta(page) {
			if synced = i; i+1 < at {
				synced = i + 1
			}
		}
	}
	for _, e := range events[:synced] {
		if e.data != nil {
			apply(e, len(e.data))
		}
	}
	const sector = 512
	for _, e := range events[synced:at] {
		switch {
		case e.data == nil:
		case random.IntN(3) == 0: // lost
		case random.IntN(3) == 0: // in part
			apply(e, len(e.data)/sector*random.IntN(sector)/sector*sector)
		default:
			apply(e, len(e.data))
		}
	}
	return image
}

// covers: H1
func TestNothingAnsweredIsLostAndNothingIsHalfThereAfterAPowerCut(t *testing.T) {
	const workers, each, cuts = 4, 40, 60
	path := filepath.Join(t.TempDir(), "dynamodb.db")
	s, err := Open(Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	do := func(s *Service, operation, body string) answer {
		status, text := s.Do(t.Context(), operation, []byte(body))
		return parseAnswer(t, status, text)
	}
	if a := do(s, "CreateTable", recoveryTable); a.failed() {
		t.Fatal(a)
	}
	base, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	page := s.store.db.Info().PageSize
	var r recorder
	r.record(t, s.store.db)
	var all sync.WaitGroup
	for worker := range workers {
		all.Go(func() {
			for n := 1; n <= each; n++ {
				operation, body := recoveryWrite(worker, n)
				if status, text := s.Do(t.Context(), operation, []byte(body)); status != http.StatusOK {
					t.Errorf("%s", text)
				}
				r.add(recorded{worker: worker, n: n})
			}
		})
	}
	all.Wait()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(7, 7))
	for i := range cuts {
		at := 1 + random.IntN(len(r.events))
		damaged := filepath.Join(t.TempDir(), fmt.Sprint("cut", i))
		if err := os.WriteFile(damaged, cut(base, r.events, at, page, random), 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := Open(Options{Path: damaged})
		if err != nil {
			t.Fatalf("a cut after event %d of %d: %v", at, len(r.events), err)
		}
		answered := make([]int, workers)
		for _, e := range r.events[:at] {
			if e.data == nil {
				answered[e.worker] = e.n
			}
		}
		for worker, n := range answered {
			checkWorker(t, s, do, worker, n)
			operation, body := recoveryWrite(worker, n+1)
			if a := do(s, operation, body); a.failed() && !(operation == "PutItem" && a.kind() == "ConditionalCheckFailedException") {
				t.Errorf("worker %d, write %d sent again: %s", worker, n+1, a)
			}
			checkWorker(t, s, do, worker, n+1)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if t.Failed() {
			t.Fatalf("a cut after event %d of %d", at, len(r.events))
		}
	}
}
