package task_test

import (
	"context"
	"errors"
	"testing"

	"github.com/pxhost/pxhost/shared/run/task"
)

// part is one part of a minute, which fails if it is told to.
type part struct {
	task.Runs
	fail error
}

func (p part) Tick(context.Context, int) (int, error) { return 1, p.fail }

type plugins struct{ fail error }

func (p plugins) Tick(context.Context, int) (int, int, error) { return 2, 3, p.fail }

func TestAPartOfAMinuteThatFailsStopsNoOther(t *testing.T) {
	failed := errors.New("failed")
	for name, tasks := range map[string]task.Tasks{
		"Runs":    {Runs: part{fail: failed}, Queue: part{}, Plugins: plugins{}},
		"jobs":    {Runs: part{}, Queue: part{fail: failed}, Plugins: plugins{}},
		"plugins": {Runs: part{}, Queue: part{}, Plugins: plugins{failed}},
	} {
		did, err := tasks.Tick(t.Context(), nil)
		if want := (task.Ticked{Runs: 1, Jobs: 1, Slots: 2, Notifications: 3}); did != want || !errors.Is(err, failed) {
			t.Errorf("%s: %+v %v", name, did, err)
		}
	}
}
