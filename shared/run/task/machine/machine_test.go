package machine_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/pxhost/pxhost/shared/run"
	"github.com/pxhost/pxhost/shared/run/task/machine"
	"github.com/pxhost/pxhost/shared/sandbox"
)

const folder = "../../../../statemachines/"

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(folder + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// covers: R5
func TestTheStateMachineOfBatchesIsTheOneThatIsGenerated(t *testing.T) {
	text, err := machine.FlowBatch([]byte(read(t, "flow_run.asl.json")))
	if err != nil {
		t.Fatal(err)
	}
	if string(text) != read(t, "flow_batch.asl.json") {
		t.Error("statemachines/flow_batch.asl.json has drifted: go generate ./shared/run/task")
	}
}

func TestAChangedClaimIsNotOverlooked(t *testing.T) {
	single := read(t, "flow_run.asl.json")
	for name, text := range map[string]string{
		"no claim":      strings.Replace(single, "executionArn", "execution", 1),
		"another end":   strings.Replace(single, "px.RunNotFinished", "px.NotFinished", 1),
		"another start": strings.Replace(single, `"StartAt": "Prepare"`, `"StartAt": "Begin"`, 1),
		"no JSON":       single[1:],
	} {
		if _, err := machine.FlowBatch([]byte(text)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// What a job may take from the handing over to its end, with every worker but the last
// lost, is within the time of the state that waits for it: else the state machine
// gives up what still goes on.
//
// covers: U5
func TestTheStateThatWaitsForAJobWaitsForAllOfItsAttempts(t *testing.T) {
	var definition struct {
		States map[string]struct{ TimeoutSeconds, HeartbeatSeconds int64 }
	}
	if err := json.Unmarshal([]byte(read(t, "flow_run.asl.json")), &definition); err != nil {
		t.Fatal(err)
	}
	attempt := run.LongestJob + time.Minute + sandbox.LeaseFor // and what a worker and the tick may be late
	total := sandbox.WaitLimit + sandbox.MaxAttempts*attempt
	state := definition.States["RunJob"]
	if given := time.Duration(state.TimeoutSeconds) * time.Second; given < total || state.HeartbeatSeconds != 0 {
		t.Errorf("the state waits for %v, and a job may take %v", given, total)
	}
}
