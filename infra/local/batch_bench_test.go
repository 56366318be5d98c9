package local

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sfn"

	"github.com/pxhost/pxhost/infra/sample"
	"github.com/pxhost/pxhost/shared/batch"
	"github.com/pxhost/pxhost/shared/boot/awssfn"
	"github.com/pxhost/pxhost/shared/policy"
)

// BenchmarkBatch is a Batch of 1,000 cases of the sample, ten Components each, from
// pxflow_run to the run_get that finds it Succeeded with its table, and how much
// memory the host and all processes of its functions take together meanwhile. The
// reference is 1,000 executions of three tasks that do nothing, 50 at once: as many
// invocations as the cases need.
func BenchmarkBatch(b *testing.B) {
	took, reference, peak := measureBatches(b, 1000)
	b.Logf("\n  1000 × 3-noop-tasks %8.2f s\n  1000 cases          %8.2f s  %.2f × 1000 × 3-noop-tasks  (target: at most 90 s)\n  resident in all     %8d MB  (target: under 1536 MB)",
		reference.Seconds(), took.Seconds(), took.Seconds()/reference.Seconds(), peak>>20)
}

// BenchmarkLargestBatch is the same for as many cases as a Batch may have. What a case
// takes must not grow with their number: the ms/case of BenchmarkBatch in the same run
// are the measure. Of memory, it is the pages of the databases that grow, which the
// system takes back where it needs them; no process keeps a case that has ended.
func BenchmarkLargestBatch(b *testing.B) {
	took, reference, peak := measureBatches(b, batch.MaxCases)
	b.Logf("\n  1000 × 3-noop-tasks %8.2f s\n  10,000 cases        %8.2f s  %.2f × 10,000 × 3-noop-tasks\n  resident in all     %8d MB  (target: under 1536 MB)",
		reference.Seconds(), took.Seconds(), took.Seconds()/10/reference.Seconds(), peak>>20)
}

// measureBatches runs Batches of so many cases, and before each 1,000 executions that
// do nothing. It returns the median of both, and the most memory that was taken.
func measureBatches(b *testing.B, cases int) (took, reference time.Duration, peak int64) {
	chain, s := startChain(b), startSystem(b)
	if err := s.parts.Projects().SetPolicy(b.Context(), sample.Project, []policy.Rule{{On: policy.OnBatch, Approval: "none"}}); err != nil {
		b.Fatal(err)
	}
	env := environmentOf(chain)
	machines := awssfn.New(env)
	if err := env.Err(); err != nil {
		b.Fatal(err)
	}
	var three string
	for _, m := range chain.Template.StateMachines {
		if m.LogicalID == "Three" {
			three = m.ARN
		}
	}
	execute := func() error {
		started, err := machines.StartExecution(context.Background(), &sfn.StartExecutionInput{StateMachineArn: &three})
		for err == nil {
			var execution *sfn.DescribeExecutionOutput
			if execution, err = machines.DescribeExecution(context.Background(), &sfn.DescribeExecutionInput{ExecutionArn: started.ExecutionArn}); err == nil && execution.Status != "RUNNING" {
				if execution.Status != "SUCCEEDED" {
					err = fmt.Errorf("an execution %s", execution.Status)
				}
				return err
			}
			time.Sleep(20 * time.Millisecond)
		}
		return err
	}
	var found struct {
		Items []struct {
			Target     object
			Generation int64
		}
	}
	s.call(b, "report_search", object{"scope": sample.Project.Scope(), "query": "girder_review"}, &found)
	report := found.Items[0]
	var list []object
	for i := range cases {
		list = append(list, object{"caseKey": fmt.Sprintf("c%d", i), "inputs": object{"span": object{"value": 40 + float64(i)/100, "unit": "ft"}}})
	}
	var nothing, batches []time.Duration
	for n := 0; b.Loop(); n++ {
		start := time.Now()
		var wait sync.WaitGroup
		next := make(chan int)
		for range 50 {
			wait.Go(func() {
				for range next {
					if err := execute(); err != nil {
						b.Error(err)
					}
				}
			})
		}
		for i := range 1000 {
			next <- i
		}
		close(next)
		wait.Wait()
		nothing = append(nothing, time.Since(start))

		var p planned
		s.call(b, "report_plan_change", object{"target": report.Target, "expectedGeneration": report.Generation, "commands": []object{{"kind": "RunReportFlowBatch",
			"connectionKey": "girder_check", "cases": list, "merge": object{"kind": "table"}}}}, &p)
		start = time.Now()
		var started struct{ BatchRef string }
		s.call(b, "pxflow_run", object{"kind": "RunReportFlowBatch", "target": report.Target, "planRef": p.PlanRef, "planDigest": p.PlanDigest, "commandId": fmt.Sprint("bench-", n)}, &started)
		for {
			var stands struct {
				State    string
				Progress struct{ Completed int }
			}
			s.call(b, "run_get", object{"batchRef": started.BatchRef}, &stands)
			peak = max(peak, resident(b))
			if stands.State == "Succeeded" {
				if stands.Progress.Completed != cases {
					b.Fatalf("Succeeded with %d cases", stands.Progress.Completed)
				}
				break
			}
			if stands.State != "Queued" && stands.State != "Running" {
				b.Fatal(stands.State)
			}
			time.Sleep(max(250*time.Millisecond, time.Duration(cases)*100*time.Microsecond)) // to ask costs something too
		}
		batches = append(batches, time.Since(start))
	}
	slices.Sort(nothing)
	slices.Sort(batches)
	took, reference = batches[len(batches)/2], nothing[len(nothing)/2]
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(took.Seconds(), "batch-s")
	b.ReportMetric(float64(took.Milliseconds())/float64(cases), "ms/case")
	b.ReportMetric(took.Seconds()/float64(cases)*1000/reference.Seconds(), "batch/3-noop-tasks")
	b.ReportMetric(float64(peak>>20), "resident-MB")
	return took, reference, peak
}

// resident is how many bytes of memory this process, which the hosts run in, and all
// processes below it take: what several of them share, as the program text of one
// bootstrap, is shared out among them (the kernel's proportional set size).
func resident(b *testing.B) int64 {
	b.Helper()
	folders, err := os.ReadDir("/proc")
	if err != nil {
		b.Skip("no /proc to read memory from")
	}
	children := map[int][]int{}
	for _, f := range folders {
		pid, err := strconv.Atoi(f.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + f.Name() + "/stat")
		if err != nil { // it has ended
			continue
		}
		// The name in parentheses may hold anything; the state and the parent follow.
		rest := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		parent, err := strconv.Atoi(rest[1])
		if err != nil {
			b.Fatal(err)
		}
		children[parent] = append(children[parent], pid)
	}
	var sum func(pid int) int64
	sum = func(pid int) int64 {
		total := int64(0)
		if text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid)); err == nil {
			for line := range strings.Lines(string(text)) {
				if words := strings.Fields(line); words[0] == "Pss:" {
					kb, err := strconv.ParseInt(words[1], 10, 64)
					if err != nil {
						b.Fatal(err)
					}
					total = kb << 10
				}
			}
		}
		for _, child := range children[pid] {
			total += sum(child)
		}
		return total
	}
	return sum(os.Getpid())
}
