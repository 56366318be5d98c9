package machine_test

import (
	"os"
	"strings"
	"testing"

	"github.com/pxhost/pxhost/shared/run/task/machine"
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
