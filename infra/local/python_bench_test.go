package local

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awslambda "github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/sfn"

	"github.com/pxhost/pxhost/infra/sample"
	lambdaclient "github.com/pxhost/pxhost/shared/boot/awslambda"
	"github.com/pxhost/pxhost/shared/boot/awssfn"
	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/change"
	"github.com/pxhost/pxhost/shared/function"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/policy"
	"github.com/pxhost/pxhost/shared/quantity"
	"github.com/pxhost/pxhost/shared/sandbox"
	"github.com/pxhost/pxhost/shared/sandbox/sandboxtest"
)

// workerProgram is the worker that make builds, where it did.
const workerProgram = "../../.build/px-worker"

// affine is the Function of the benchmarks: twenty lines, as engineers write them.
const affine = `import math
import px

FACTOR = 1.5


@px.function(
    key="affine", version=1, description="A load that grows and is rounded to nothing",
    inputs={"x": px.number(unit="kN")},
    results={"y": px.number(unit="kN")},
    capabilities=[],
)
def affine(x):
    total = 0.0
    for i in range(20):
        share = x / 20
        if math.isfinite(share):
            total += share
    grown = FACTOR * total
    y = grown + 1.0
    return {"y": y}
`

// A pythonSystem is a system whose Project has the Function affine, with a worker.
type pythonSystem struct {
	*system
	worker string // what runs Python, as the results say
	affine object // target of the Function
}

// startPython starts a host with the worker that make built, or where it built none
// with one that does in Go what affine says: then everything but Python and gVisor is
// measured.
func startPython(b *testing.B) *pythonSystem {
	b.Helper()
	s := &pythonSystem{}
	worker, err := filepath.Abs(workerProgram)
	if err != nil {
		b.Fatal(err)
	}
	_, err = os.Stat(worker)
	real := err == nil
	s.system = startSystem(b, func(cfg *Config) {
		if cfg.Parameters = sandboxParameters; real {
			cache, err := os.UserCacheDir()
			if err != nil {
				b.Fatal(err)
			}
			cfg.Worker, cfg.Cache = worker, filepath.Join(cache, "pxhost")
		}
	})
	if !real {
		s.work(b)
	}
	// Nobody is there who would approve.
	if err := s.parts.Projects().SetPolicy(b.Context(), sample.Project, []policy.Rule{{On: policy.OnFunction, Approval: "none"}, {On: policy.OnBatch, Approval: "none"}}); err != nil {
		b.Fatal(err)
	}
	s.saveAffine(b)
	return s
}

// work serves jobs in this process until the benchmark ends.
func (s *pythonSystem) work(b *testing.B) {
	env := environmentOf(s.Running)
	client := lambdaclient.New(env)
	key, err := s.parts.Store.JobKey(b.Context())
	if err := errors.Join(env.Err(), err); err != nil {
		b.Fatal(err)
	}
	broker := ""
	for _, f := range s.Template.Functions {
		if f.LogicalID == "SandboxBroker" {
			broker = f.Name
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{}, 2)
	for n := range cap(ended) {
		w := sandboxtest.Worker{Ref: fmt.Sprintf("wrk_bench%d", n), Key: key.Public().(ed25519.PublicKey), Run: grown,
			Invoke: func(ctx context.Context, request []byte) ([]byte, error) {
				out, err := client.Invoke(ctx, &awslambda.InvokeInput{FunctionName: &broker, Payload: request})
				if err != nil {
					return nil, err
				}
				if out.FunctionError != nil {
					return nil, errors.New(*out.FunctionError)
				}
				return out.Payload, nil
			}}
		go func() { w.Serve(ctx, 0); ended <- struct{}{} }()
	}
	b.Cleanup(func() {
		stop()
		for range cap(ended) {
			<-ended
		}
	})
}

// grown does what affine does.
func grown(_ context.Context, s sandbox.Spec) (sandbox.Result, error) {
	out := sandbox.Result{V: sandbox.Version, JobRef: s.JobRef, RanBy: sandbox.RanBy{Python: "3.11.2", GVisor: "none", Driver: "rootless"}}
	for _, c := range s.Calls {
		var x float64
		if err := json.Unmarshal(c.Values["x"], &x); err != nil {
			return out, err
		}
		text, err := canon.Encode(1.5*x + 1)
		if err != nil {
			return out, err
		}
		out.Results = append(out.Results, sandbox.CallResult{NodeKey: c.NodeKey, Values: map[string]canon.Raw{"y": text}})
	}
	return out, nil
}

// saveAffine commits the Function as the tools do.
func (s *pythonSystem) saveAffine(b *testing.B) {
	b.Helper()
	port := map[string]quantity.Port{"x": {Type: quantity.NumberType, Unit: "kN"}}
	doc := function.Document{Format: function.Format, FunctionKey: "affine", Version: 1, Description: "A load that grows and is rounded to nothing", Symbol: "affine",
		Parameters: []string{"x"}, Inputs: port, Results: map[string]quantity.Port{"y": port["x"]}, Capabilities: []string{}, Imports: []string{"math"}, SourceDigest: canon.Digest([]byte(affine))}
	text, digest, err := doc.RevisionRef()
	if err != nil {
		b.Fatal(err)
	}
	detail, err := canon.Encode(function.Detail{Version: 1, SourceDigest: doc.SourceDigest})
	if err != nil {
		b.Fatal(err)
	}
	if err := s.parts.Store.Put(b.Context(), history.Space(sample.Project.String()), []byte(affine)); err != nil {
		b.Fatal(err)
	}
	s.save(b, change.Change{Kind: function.Kind, Key: "affine", Entry: history.Entry{RevisionRef: history.Ref(digest), Detail: detail}, Document: text})
	s.affine = object{"kind": "function", "functionKey": "affine", "version": 1, "digest": digest}
}

// pythonFlow is a Flow of so many Nodes that run affine, in a row or side by side.
func (s *pythonSystem) pythonFlow(key string, nodes int, row bool) object {
	number := object{"type": "number", "unit": "kN", "shape": "scalar"}
	all, results := object{}, object{}
	for i := range nodes {
		from := object{"kind": "flowInput", "portKey": "x"}
		if row && i > 0 {
			from = object{"kind": "nodeResult", "nodeKey": fmt.Sprintf("n%02d", i-1), "portKey": "y"}
		}
		all[fmt.Sprintf("n%02d", i)] = object{"target": s.affine, "inputBindings": object{"x": from}}
		results[fmt.Sprintf("y%02d", i)] = object{"type": "number", "unit": "kN", "shape": "scalar", "binding": object{"kind": "nodeResult", "nodeKey": fmt.Sprintf("n%02d", i), "portKey": "y"}}
	}
	return object{"format": "pxflow/1", "flowKey": key, "label": object{"en": key}, "authoring": object{"kind": "native"},
		"inputs": object{"x": number}, "results": results, "nodes": all}
}

// ended waits for a Run or a Batch and returns what run_get says of it.
func (s *system) ended(b *testing.B, ref object, pause time.Duration, also func()) (report struct {
	State       string
	Diagnostics json.RawMessage
	RanBy       []string
}) {
	b.Helper()
	for {
		s.call(b, "run_get", ref, &report)
		if also != nil {
			also()
		}
		if report.State == "Succeeded" {
			return report
		}
		if report.State != "Queued" && report.State != "Running" {
			b.Fatalf("%s: %.2000s", report.State, report.Diagnostics)
		}
		time.Sleep(pause)
	}
}

// executions returns what runs a machine of the chain once, to its end.
func executions(b *testing.B, chain Running, logicalID string) func() {
	env := environmentOf(chain)
	machines := awssfn.New(env)
	if err := env.Err(); err != nil {
		b.Fatal(err)
	}
	var arn string
	for _, m := range chain.Template.StateMachines {
		if m.LogicalID == logicalID {
			arn = m.ARN
		}
	}
	return func() {
		ctx := context.Background()
		started, err := machines.StartExecution(ctx, &sfn.StartExecutionInput{StateMachineArn: aws.String(arn)})
		for err == nil {
			var execution *sfn.DescribeExecutionOutput
			if execution, err = machines.DescribeExecution(ctx, &sfn.DescribeExecutionInput{ExecutionArn: started.ExecutionArn}); err == nil && execution.Status != "RUNNING" {
				if execution.Status != "SUCCEEDED" {
					b.Fatal(execution.Status)
				}
				return
			}
			time.Sleep(poll)
		}
		b.Fatal(err)
	}
}

// BenchmarkPython is a Flow of six Nodes in Python, in a row (six jobs, one after the
// other) and side by side (one job), from pxflow_run to the run_get that finds it
// Succeeded. The references are executions of three and of twelve tasks that do
// nothing; six jobs in a row are fourteen tasks, six of which wait for a worker.
//
// Warm is a worker whose pool is full, so there is a pause before each Run. It is asked
// for each 10 ms: to ask each 2 ms would take one of two processors.
func BenchmarkPython(b *testing.B) {
	const full, pause = 2 * time.Second, 10 * time.Millisecond // to start the one that was used up; between two run_gets
	chain, s := startChain(b), startPython(b)
	n := 0
	run := func(f saved) func() {
		return func() {
			n++
			var started struct{ RunRef string }
			s.call(b, "pxflow_run", object{"kind": "RunFlow", "target": f.address, "commandId": fmt.Sprint("bench-", n), "inputs": object{"x": object{"value": n, "unit": "kN"}}}, &started)
			s.worker = strings.Join(s.ended(b, object{"runRef": started.RunRef}, pause, nil).RanBy, "; ")
		}
	}
	three, twelve := subject{name: "3-noop-tasks", once: executions(b, chain, "Three")}, subject{name: "12-noop-tasks", once: executions(b, chain, "Twelve")}
	side, row := s.create(b, s.pythonFlow("side", 6, false)), s.create(b, s.pythonFlow("row", 6, true))
	for _, c := range []struct {
		name     string
		subjects []subject
	}{
		{"side-by-side", []subject{three, {"6-side-by-side", run(side), []string{"3-noop-tasks"}, "at most 700 ms"}}},
		{"in-a-row", []subject{twelve, {"6-in-a-row", run(row), []string{"12-noop-tasks"}, "at most 700 ms"}}},
	} {
		b.Run(c.name, func(b *testing.B) {
			for range 2 {
				for _, one := range c.subjects {
					one.once()
				}
			}
			inTurn(b, func() func() { time.Sleep(full); return func() {} }, c.subjects...)
			b.Logf("ran by %s", s.worker)
		})
	}
}

// BenchmarkPythonBatch is a Batch of 200 cases of a Flow with one Node in Python, from
// pxflow_run to the run_get that finds it Succeeded. The reference is 200 executions
// of three tasks that do nothing, 50 at once.
func BenchmarkPythonBatch(b *testing.B) {
	const cases = 200
	chain, s := startChain(b), startPython(b)
	f := s.create(b, s.pythonFlow("one", 1, false))
	report := s.createReport(b, object{"format": "pxreport/1", "reportKey": "loads", "label": object{"en": "Loads"}, "blockOrder": []string{"basis", "found"},
		"blocks": object{
			"basis": object{"kind": "values", "fields": object{"x": object{"type": "number", "unit": "kN", "shape": "scalar", "value": object{"value": 1, "unit": "kN"}}}},
			"found": object{"kind": "results", "slots": object{"y": object{"type": "number", "unit": "kN", "shape": "scalar"}}}},
		"connections": object{"one": object{"flowTarget": f.address,
			"inputs":  object{"x_input": object{"portKey": "x", "source": object{"kind": "reportValue", "blockKey": "basis", "fieldKey": "x"}}},
			"results": object{"y_result": object{"portKey": "y00", "target": object{"kind": "reportResultSlot", "blockKey": "found", "slotKey": "y"}}}}}})
	var list []object
	for i := range cases {
		list = append(list, object{"caseKey": fmt.Sprintf("c%d", i), "inputs": object{"x": object{"value": i, "unit": "kN"}}})
	}
	execute := executions(b, chain, "Three")
	var nothing, batch []time.Duration
	for n := 0; b.Loop(); n++ {
		start := time.Now()
		next, done := make(chan int), make(chan struct{})
		for range 50 {
			go func() {
				for range next {
					execute()
				}
				done <- struct{}{}
			}()
		}
		for i := range cases {
			next <- i
		}
		close(next)
		for range 50 {
			<-done
		}
		nothing = append(nothing, time.Since(start))

		var p planned
		s.call(b, "report_plan_change", object{"target": report.address, "expectedGeneration": report.generation, "commands": []object{{"kind": "RunReportFlowBatch",
			"connectionKey": "one", "cases": list, "merge": object{"kind": "table"}}}}, &p)
		start = time.Now()
		var started struct{ BatchRef string }
		s.call(b, "pxflow_run", object{"kind": "RunReportFlowBatch", "target": report.address, "planRef": p.PlanRef, "planDigest": p.PlanDigest, "commandId": fmt.Sprint("bench-", n)}, &started)
		s.ended(b, object{"batchRef": started.BatchRef}, 100*time.Millisecond, nil)
		batch = append(batch, time.Since(start))
	}
	slices.Sort(nothing)
	slices.Sort(batch)
	took, reference := batch[len(batch)/2].Seconds(), nothing[len(nothing)/2].Seconds()
	b.Logf("\n  200 × 3-noop-tasks %8.2f s\n  200 Python cases   %8.2f s  %.2f × 200 × 3-noop-tasks  (target: at most 60 s)", reference, took, took/reference)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(took, "batch-s")
	b.ReportMetric(took/reference, "batch/3-noop-tasks")
}
