// Command generate writes statemachines/flow_batch.asl.json: around the states of
// flow_run, which every case of a Batch goes through, the states of the Batch. go
// generate ./shared/run/task runs it, and a test holds the file to it.
package main

import (
	"fmt"
	"os"

	"github.com/pxhost/pxhost/shared/run/task/machine"
)

func main() {
	if err := write(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func write() error {
	const folder = "../../../statemachines/"
	single, err := os.ReadFile(folder + "flow_run.asl.json")
	if err != nil {
		return err
	}
	text, err := machine.FlowBatch(single)
	if err != nil {
		return err
	}
	return os.WriteFile(folder+"flow_batch.asl.json", text, 0o644)
}
