package run

import (
	"slices"
	"sync"
)

// warmRuns is how many opened Runs a process keeps. It carries out one stage at a
// time, and the next one it is asked for is mostly of a Run that it has just seen.
const warmRuns = 4

// Warm keeps opened Runs between the steps that one process carries out, so that a
// step need not read and validate again what the one before has. All that is in them
// is immutable: what a Run pins, and the first stored results of its stages. A nil
// *Warm keeps nothing.
type Warm struct {
	mu   sync.Mutex
	runs []warmRun // the most recent last
}

type warmRun struct {
	runRef string
	calc   Calculation
	stages int // whose results it has taken over
}

// take takes out the Run, for one step to use alone.
func (w *Warm) take(runRef string) (Calculation, int) {
	if w == nil {
		return nil, 0
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	at := slices.IndexFunc(w.runs, func(r warmRun) bool { return r.runRef == runRef })
	if at < 0 {
		return nil, 0
	}
	r := w.runs[at]
	w.runs = slices.Delete(w.runs, at, at+1)
	return r.calc, r.stages
}

// keep puts it back, with the results of so many stages.
func (w *Warm) keep(runRef string, calc Calculation, stages int) {
	if w == nil || calc == nil {
		return
	}
	w.take(runRef) // of a step that was carried out twice at once
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.runs) == warmRuns {
		w.runs = slices.Delete(w.runs, 0, 1)
	}
	w.runs = append(w.runs, warmRun{runRef, calc, stages})
}
