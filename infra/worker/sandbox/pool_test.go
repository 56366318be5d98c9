//go:build linux

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pxhost/pxhost/infra/worker/job"
)

// A held driver starts a sandbox when it is let, and counts.
type held struct {
	let chan error // one for each start

	mu      sync.Mutex
	waiting int // starts that are not let yet
	started []*stub
}

func (*held) Name() string   { return "held" }
func (*held) GVisor() string { return "" }

func (h *held) Start(ctx context.Context) (Process, error) {
	h.count(1)
	defer h.count(-1)
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case err := <-h.let:
		if err != nil {
			return nil, err
		}
	}
	out, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	io.WriteString(in, `{"ready":1,"python":"3.11.2","system":"x"}`+"\n")
	s := &stub{out: out, in: in}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.started = append(h.started, s)
	return s, nil
}

func (h *held) count(n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waiting += n
}

type stub struct {
	out, in  *os.File
	confined error
	killed   bool
}

func (s *stub) Stdin() io.WriteCloser { return s.in }
func (s *stub) Stdout() *os.File      { return s.out }
func (*stub) Stderr() string          { return "" }
func (s *stub) Confined() error       { return s.confined }
func (*stub) Use() Use                { return Use{} }
func (s *stub) Kill() error {
	s.killed = true
	return errors.Join(s.out.Close(), s.in.Close())
}

// filling is a pool in a bubble, with what a test does and sees.
type filling struct {
	*testing.T
	*held
	*Pool
}

func fillingOf(t *testing.T, size, processors int, test func(f *filling)) {
	synctest.Test(t, func(t *testing.T) {
		h := &held{let: make(chan error)}
		f := &filling{t, h, newPool(h, size, processors)}
		test(f)
		if err := f.Pool.Close(); err != nil {
			t.Error(err)
		}
		for _, s := range h.started {
			if !s.killed {
				t.Error("a sandbox was left")
			}
		}
	})
}

// is holds the pool to how many sandboxes are warm and how many are being started.
func (f *filling) is(warm, starting int) {
	f.Helper()
	synctest.Wait()
	f.held.mu.Lock()
	defer f.held.mu.Unlock()
	if f.Warm() != warm || f.held.waiting != starting {
		f.Errorf("%d are warm and %d start, want %d and %d", f.Warm(), f.held.waiting, warm, starting)
	}
}

// full lets a pool of size get there.
func (f *filling) full(size int) {
	for range size - f.Warm() {
		f.let <- nil
	}
	f.is(size, 0)
}

func (f *filling) take() *Sandbox {
	f.Helper()
	s, err := f.Take(f.Context())
	if err != nil {
		f.Fatal(err)
	}
	return s
}

func TestAnEmptyPoolStartsOneOnEachProcessor(t *testing.T) {
	fillingOf(t, 4, 2, func(f *filling) {
		f.is(0, 2)
		f.let <- nil
		f.is(1, 1) // a job can begin: the other processor is for it
		f.let <- nil
		f.is(2, 1)
		f.full(4)
	})
	fillingOf(t, 2, 8, func(f *filling) { f.is(0, 2) })
}

func (f *filling) taken(n int) (all []*Sandbox) {
	for range n {
		all = append(all, f.take())
	}
	return all
}

func TestAPoolStandsBackForJobsWhileSomethingIsWarm(t *testing.T) {
	fillingOf(t, 3, 2, func(f *filling) {
		f.full(3)
		jobs := f.taken(2)
		f.is(1, 0)
		jobs[0].Kill()
		f.is(1, 0)
		jobs[1].Kill()
		f.is(1, 0) // another may follow
		time.Sleep(quiet - time.Millisecond)
		f.is(1, 0)
		time.Sleep(time.Millisecond)
		f.is(1, 1) // nothing runs: one after another
		f.full(3)
	})
}

func TestAPoolStandsBackForJobsThatFollowEachOther(t *testing.T) {
	fillingOf(t, 4, 2, func(f *filling) {
		f.full(4)
		for left := 3; left > 0; left-- {
			f.take().Kill()
			f.is(left, 0)
			time.Sleep(quiet / 2)
			f.is(left, 0)
		}
		time.Sleep(quiet / 2)
		f.is(1, 1)
		f.full(4)
	})
}

func TestAPoolThatIsUsedUpStartsOneOnEachProcessorWhateverRuns(t *testing.T) {
	fillingOf(t, 3, 2, func(f *filling) {
		f.full(3)
		jobs := f.taken(3)
		f.is(0, 2)
		f.let <- nil
		f.is(1, 1)
		f.let <- nil
		f.is(2, 0) // jobs run
		for _, s := range jobs {
			s.Kill()
			s.Kill()
		}
		time.Sleep(quiet)
		f.is(2, 1)
		f.full(3)
	})
}

// said is a line of the shim in a sandbox.
func (f *filling) said(s *Sandbox, line string) {
	f.Helper()
	if _, err := io.WriteString(s.process.(*stub).in, line+"\n"); err != nil {
		f.Error(err)
	}
}

func TestASandboxStaysForTheJobAfterItsOwnAndForNoOther(t *testing.T) {
	fillingOf(t, 4, 2, func(f *filling) {
		f.full(4)
		s, other, spoilt := f.take(), f.take(), f.take()
		f.said(s, `{"again":1}`)
		f.keep("job_1", s, job.Limits{})
		f.said(other, `{"again":1}`)
		f.keep("job_2", other, job.Limits{})
		if got := f.kept("job_3"); got != nil {
			f.Error("it was given to a job that follows another")
		}
		if f.kept("job_1") != s || f.kept("job_1") != nil {
			f.Error("it was not given once")
		}
		f.said(spoilt, `{"spoilt":true}`)
		f.keep("job_4", spoilt, job.Limits{})
		if f.kept("job_4") != nil {
			f.Error("one that is not as it was before was given")
		}
		// The pool stands back for what may follow, and not for longer.
		time.Sleep(stayFor - time.Millisecond)
		f.is(1, 0)
		s.Kill()
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if f.kept("job_2") != nil || !other.process.(*stub).killed || !spoilt.process.(*stub).killed {
			f.Error("one that nobody came for stays")
		}
		time.Sleep(quiet)
		f.is(1, 1)
		f.full(4)
	})
}

func TestNoMoreSandboxesStayThanHalfAPool(t *testing.T) {
	fillingOf(t, 3, 1, func(f *filling) {
		f.full(3)
		for n, s := range f.taken(3) {
			f.said(s, `{"again":1}`)
			f.keep(fmt.Sprint("job_", n), s, job.Limits{})
		}
		synctest.Wait()
		if f.kept("job_2") != nil || !f.started[2].killed || f.started[0].killed || f.started[1].killed {
			f.Error("not two of three stay")
		}
	})
}

func TestASandboxThatIsNotConfinedAnyMoreDoesNotStay(t *testing.T) {
	fillingOf(t, 2, 1, func(f *filling) {
		f.full(2)
		s := f.take()
		f.said(s, `{"again":1}`)
		f.keep("job_1", s, job.Limits{})
		f.started[0].confined = errors.New("a thread without seccomp")
		if f.kept("job_1") != nil || !f.started[0].killed {
			f.Error("it was given")
		}
	})
}

func TestAStartThatFailsIsTriedAgain(t *testing.T) {
	fillingOf(t, 1, 1, func(f *filling) {
		for range 10 {
			f.let <- errors.New("no sandbox")
			time.Sleep(slowest)
			f.is(0, 1)
		}
		f.let <- nil
		f.is(1, 0)
	})
}

func TestASandboxThatIsNotConfinedIsDestroyedAndNotGiven(t *testing.T) {
	fillingOf(t, 2, 1, func(f *filling) {
		f.full(2)
		f.started[0].confined = errors.New("a thread without seccomp")
		if s := f.take(); s.process != f.started[1] || !f.started[0].killed {
			f.Error("it was given")
		} else {
			s.Kill()
		}
		f.is(0, 1)
	})
}

func TestAPoolThatIsClosedStartsNothing(t *testing.T) {
	fillingOf(t, 3, 2, func(f *filling) {
		f.let <- nil
		f.is(1, 1)
		s := f.take()
		f.is(0, 2)
		if err := f.Pool.Close(); err != nil {
			f.Error(err)
		}
		s.Kill()
		f.is(0, 0)
		if _, err := f.Take(f.Context()); !errors.Is(err, ErrClosed) {
			f.Error(err)
		}
		f.Pool = newPool(f.held, 1, 1) // closed by the helper
	})
}
