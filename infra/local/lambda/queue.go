package lambda

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/pxhost/pxhost/infra/local/boltfile"
	"github.com/pxhost/pxhost/infra/local/failpoint"
)

// queue holds accepted asynchronous invocations until each succeeded, was
// retried as often as its function allows, or grew too old.
//
// Crash order: an event is on disk before it is accepted, and deleted only
// after its last attempt ended. A host that dies in between runs it again: at
// least once, as AWS promises.
type queue struct {
	host *Host
	db   *bolt.DB
	ctx  context.Context
	stop context.CancelFunc
	jobs sync.WaitGroup
}

type event struct {
	Function string    `json:"function"`
	Payload  []byte    `json:"payload"`
	Accepted time.Time `json:"accepted"`
	Due      time.Time `json:"due"`
	Attempts int       `json:"attempts"` // that ended in a function error
	Refusals int       `json:"refusals"` // by throttling
	Request  string    `json:"requestId"`
}

var eventsBucket = []byte("events")

func openQueue(h *Host, path string) (*queue, error) {
	ctx, cancel := context.WithCancel(context.Background())
	q := &queue{host: h, ctx: ctx, stop: cancel}
	if path == "" {
		cancel()
		return nil, errors.New("lambda: Options.Queue names no file")
	}
	db, err := boltfile.Open(path, time.Second)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("queue of asynchronous invocations %s: %w", path, err)
	}
	if err := db.Update(func(tx *bolt.Tx) error {
		_, err := tx.CreateBucketIfNotExists(eventsBucket)
		return err
	}); err != nil {
		cancel()
		db.Close()
		return nil, fmt.Errorf("queue of asynchronous invocations: %w", err)
	}
	q.db = db
	return q, nil
}

// start takes up what an earlier start left.
func (q *queue) start() {
	type kept struct {
		seq uint64
		ev  event
	}
	var left []kept
	q.db.View(func(tx *bolt.Tx) error {
		return tx.Bucket(eventsBucket).ForEach(func(k, v []byte) error {
			var ev event
			if err := json.Unmarshal(v, &ev); err != nil {
				q.host.logf("asynchronous invocation %x cannot be read and is left alone: %v", k, err)
				return nil
			}
			left = append(left, kept{binary.BigEndian.Uint64(k), ev})
			return nil
		})
	})
	for _, k := range left {
		q.run(k.seq, k.ev)
	}
}

func (q *queue) close() error {
	q.stop()
	q.jobs.Wait()
	return q.db.Close()
}

// InvokeEvent accepts an asynchronous invocation: when it returns nil, the
// event is on disk.
func (h *Host) InvokeEvent(nameOrARN string, payload []byte) error {
	f, err := h.lookup(nameOrARN)
	if err != nil {
		return err
	}
	if len(payload) > MaxEventRequest {
		return tooLarge(MaxEventRequest)
	}
	if len(payload) > 0 && !json.Valid(payload) {
		return &Error{Status: 400, Code: "InvalidRequestContentException", Message: "Could not parse request body into json."}
	}
	h.mu.Lock()
	closed := h.closed
	h.mu.Unlock()
	if closed {
		return errClosed
	}
	now := h.opt.Now()
	ev := event{Function: f.Name, Payload: payload, Accepted: now, Due: now, Request: newRequestID()}
	var seq uint64
	if err := h.queue.db.Batch(func(tx *bolt.Tx) error {
		b := tx.Bucket(eventsBucket)
		seq, _ = b.NextSequence()
		return put(b, seq, ev)
	}); err != nil {
		return fmt.Errorf("queue of asynchronous invocations: %w", err)
	}
	failpoint.Hit(failpoint.LambdaAccepted)
	h.queue.run(seq, ev)
	return nil
}

func put(b *bolt.Bucket, seq uint64, ev event) error {
	v, err := json.Marshal(ev)
	if err != nil {
		return err
	}
	return b.Put(binary.BigEndian.AppendUint64(nil, seq), v)
}

// run works on one event until it is gone or the host stops.
func (q *queue) run(seq uint64, ev event) {
	if q.ctx.Err() != nil {
		return
	}
	q.jobs.Add(1)
	go func() {
		defer q.jobs.Done()
		for {
			if !q.sleep(ev.Due.Sub(q.host.opt.Now())) {
				return
			}
			if q.attempt(&ev) {
				break
			}
			if q.ctx.Err() != nil {
				return
			}
			if err := q.db.Update(func(tx *bolt.Tx) error { return put(tx.Bucket(eventsBucket), seq, ev) }); err != nil {
				q.host.logf("%s %s | asynchronous invocation: %v", ev.Function, ev.Request, err)
				return
			}
		}
		if err := q.db.Batch(func(tx *bolt.Tx) error {
			return tx.Bucket(eventsBucket).Delete(binary.BigEndian.AppendUint64(nil, seq))
		}); err != nil {
			q.host.logf("%s %s | asynchronous invocation: %v", ev.Function, ev.Request, err)
		}
	}()
}

func (q *queue) sleep(d time.Duration) bool {
	if d <= 0 {
		return q.ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-q.ctx.Done():
		return false
	}
}

// attempt invokes once. It returns true when the event is done with, else it
// has set when to try again: one and two minutes after function errors, one
// second doubling to five minutes after throttling.
func (q *queue) attempt(ev *event) (done bool) {
	h := q.host
	f, ok := h.functions[ev.Function]
	if !ok {
		h.logf("%s %s | asynchronous invocation dropped: the function is not in the template any more", ev.Function, ev.Request)
		return true
	}
	now := h.opt.Now()
	if now.Sub(ev.Accepted) > f.MaxEventAge {
		h.logf("%s %s | asynchronous invocation dropped: older than %s", ev.Function, ev.Request, f.MaxEventAge)
		return true
	}
	res := h.invoke(q.ctx, ev.Function, ev.Payload, "", ev.Request)
	if q.ctx.Err() != nil && (res.err != nil || res.functionError != "") {
		return false // the host stops: the next start takes it up as it was
	}
	switch {
	case res.err == nil && res.functionError == "":
		failpoint.Hit(failpoint.LambdaAttempt)
		return true
	case res.err != nil:
		ev.Refusals++
		ev.Due = h.opt.Now().Add(min(time.Second<<min(ev.Refusals-1, 9), 5*time.Minute))
		return false
	}
	ev.Attempts++
	if ev.Attempts > f.MaxRetryAttempts {
		h.logf("%s %s | asynchronous invocation dropped after %d attempts: %.500s", ev.Function, ev.Request, ev.Attempts, res.payload)
		return true
	}
	ev.Due = h.opt.Now().Add(time.Duration(ev.Attempts) * time.Minute)
	return false
}
