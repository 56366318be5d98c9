package states

import (
	"container/heap"
	"context"
	"sync"
	"time"
)

// timers wakes executions at their due times: one entry an execution, its
// earliest. Due times are absolute and compared with the service's clock, so
// they survive restarts; a look at the clock every maxSleep at the latest
// notices that it jumped (a laptop that slept).
type timers struct {
	now  func() time.Time
	fire func(*execution)
	wake chan struct{}

	mu      sync.Mutex
	heap    timerHeap
	entries map[*execution]*timerEntry
}

const maxSleep = 5 * time.Second

type timerEntry struct {
	ex    *execution
	due   time.Time
	index int
}

func newTimers(now func() time.Time, fire func(*execution)) *timers {
	return &timers{now: now, fire: fire, wake: make(chan struct{}, 1), entries: map[*execution]*timerEntry{}}
}

// set replaces an execution's due time; zero removes it.
func (t *timers) set(ex *execution, due time.Time) {
	t.mu.Lock()
	before := t.earliest()
	entry := t.entries[ex]
	switch {
	case due.IsZero():
		if entry != nil {
			heap.Remove(&t.heap, entry.index)
			delete(t.entries, ex)
		}
	case entry == nil:
		entry = &timerEntry{ex: ex, due: due}
		t.entries[ex] = entry
		heap.Push(&t.heap, entry)
	case !entry.due.Equal(due):
		entry.due = due
		heap.Fix(&t.heap, entry.index)
	}
	after := t.earliest()
	t.mu.Unlock()
	if after.IsZero() || !before.IsZero() && !after.Before(before) {
		return // the sleeper wakes early enough
	}
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// earliest is the first due time; zero when nothing is due. Caller holds mu.
func (t *timers) earliest() time.Time {
	if len(t.heap) == 0 {
		return time.Time{}
	}
	return t.heap[0].due
}

func (t *timers) run(ctx context.Context) {
	timer := time.NewTimer(maxSleep)
	defer timer.Stop()
	for {
		var due []*execution
		sleep := maxSleep
		t.mu.Lock()
		now := t.now()
		for len(t.heap) > 0 {
			if wait := t.heap[0].due.Sub(now); wait > 0 {
				sleep = min(sleep, wait)
				break
			}
			entry := heap.Pop(&t.heap).(*timerEntry)
			delete(t.entries, entry.ex)
			due = append(due, entry.ex)
		}
		idle := len(t.heap) == 0
		t.mu.Unlock()
		for _, ex := range due {
			t.fire(ex)
		}
		var expired <-chan time.Time
		if !idle {
			timer.Reset(sleep)
			expired = timer.C
		}
		select {
		case <-ctx.Done():
			return
		case <-expired:
		case <-t.wake:
		}
	}
}

type timerHeap []*timerEntry

func (h timerHeap) Len() int           { return len(h) }
func (h timerHeap) Less(i, j int) bool { return h[i].due.Before(h[j].due) }
func (h timerHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}
func (h *timerHeap) Push(x any) {
	e := x.(*timerEntry)
	e.index = len(*h)
	*h = append(*h, e)
}
func (h *timerHeap) Pop() any {
	old := *h
	e := old[len(old)-1]
	*h = old[:len(old)-1]
	return e
}
