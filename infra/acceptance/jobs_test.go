package acceptance

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/smithy-go"

	"github.com/pxhost/pxhost/infra/local"
	"github.com/pxhost/pxhost/infra/local/template"
	"github.com/pxhost/pxhost/shared/boot"
	"github.com/pxhost/pxhost/shared/boot/awsdynamodb"
	"github.com/pxhost/pxhost/shared/boot/awslambda"
	"github.com/pxhost/pxhost/shared/boot/jobs"
	"github.com/pxhost/pxhost/shared/boot/projects"
	"github.com/pxhost/pxhost/shared/sandbox"
	"github.com/pxhost/pxhost/shared/sandbox/sandboxtest"
	"github.com/pxhost/pxhost/shared/target"
)

// The worker of these tests is this test binary (see TestMain): px local starts it as
// it starts the real one, with the same environment. It runs no Python, so that the
// queue is tested on machines without gVisor.

// actAsWorker is what the process does if it was started as a worker, or to prepare
// one; it does not return then.
func actAsWorker() {
	switch {
	case len(os.Args) > 1 && os.Args[1] == "prepare":
		fmt.Println(`{"runsc":"none","rootfs":"none","python":"3.11.2"}`)
		os.Exit(0)
	case os.Getenv("PX_TEST_CONTENDER") != "":
		contend()
		os.Exit(0)
	case os.Getenv("PX_WORKER") == "" || os.Getenv("PX_BROKER") == "":
		return
	}
	fmt.Println("pid", os.Getpid())
	env := boot.NewEnv(os.LookupEnv)
	client := awslambda.New(env)
	tryEverythingElse(env, client)
	key, err := base64.StdEncoding.DecodeString(env.Need("PX_JOB_KEY"))
	boot.Check(errors.Join(err, env.Err()))
	w := sandboxtest.Worker{Ref: env.Need("PX_WORKER"), Key: key, Invoke: brokerBy(client, env.Need("PX_BROKER")), Run: slowly, Stubborn: true,
		Counted: func(j *sandbox.LeasedJob) { fmt.Println("counted", j.JobRef, "of fence", j.Fence) }}
	var slots sync.WaitGroup
	for range 2 {
		slots.Go(func() { w.Serve(context.Background(), time.Hour) })
	}
	slots.Wait()
	os.Exit(0)
}

// tryEverythingElse is what code that got hold of a worker's role would do.
func tryEverythingElse(env *boot.Env, client *lambda.Client) {
	forbidden := 0
	for _, name := range []string{"run_node", "background_tick", "mcp_endpoint", "tool-pxflow_run"} {
		_, err := client.Invoke(context.Background(), &lambda.InvokeInput{FunctionName: aws.String(local.StackName + "-" + name), Payload: []byte(`{}`)})
		var api smithy.APIError
		if errors.As(err, &api) && api.ErrorCode() == "AccessDeniedException" {
			forbidden++
		}
	}
	_, err := awsdynamodb.New(env).GetItem(context.Background(), &dynamodb.GetItemInput{TableName: aws.String(local.StackName + "-Host"),
		Key: map[string]types.AttributeValue{"pk": &types.AttributeValueMemberS{Value: "sandbox"}, "sk": &types.AttributeValueMemberS{Value: "key"}}})
	var api smithy.APIError
	if errors.As(err, &api) && api.ErrorCode() == "AccessDeniedException" {
		forbidden++
	}
	fmt.Println("forbidden", forbidden)
}

// slowly takes x milliseconds for a job whose first value is x, from 1000, and runs
// noisy Functions noisily.
func slowly(ctx context.Context, s sandbox.Spec) (sandbox.Result, error) {
	if s.Calls[0].FunctionKey == noisy {
		time.Sleep(50 * time.Millisecond) // as long as it takes to see who has a lease
		return noisily(s)
	}
	if x, err := strconv.ParseFloat(string(s.Calls[0].Values["x"]), 64); err == nil && x >= 1000 {
		select {
		case <-ctx.Done():
			fmt.Println("stopped", s.JobRef)
		case <-time.After(time.Duration(x) * time.Millisecond):
		}
	}
	return sandboxtest.Double(s), nil
}

// noisy is a Function of which no two executions give the same result, so that a result
// tells which execution it is of.
const noisy = "noisy"

// noisily takes up to 300 ms, whatever it is told, and adds to each result a fraction
// that no other execution of a test is likely to add.
func noisily(s sandbox.Spec) (sandbox.Result, error) {
	time.Sleep(time.Duration(rand.IntN(int(300 * time.Millisecond))))
	out := sandboxtest.Double(s)
	for _, r := range out.Results {
		y, err := strconv.ParseFloat(string(r.Values["y"]), 64)
		if err != nil {
			return out, err
		}
		// Of 20 bits, so that sums are exact.
		r.Values["y"] = strconv.AppendFloat(nil, y+float64(rand.IntN(1<<20))/(1<<20), 'f', -1, 64)
	}
	return out, nil
}

func brokerBy(client *lambda.Client, name string) func(context.Context, []byte) ([]byte, error) {
	return func(ctx context.Context, request []byte) ([]byte, error) {
		out, err := client.Invoke(ctx, &lambda.InvokeInput{FunctionName: &name, Payload: request})
		if err != nil {
			return nil, err
		}
		if out.FunctionError != nil {
			return nil, fmt.Errorf("the broker failed: %s", out.Payload)
		}
		return out.Payload, nil
	}
}

// environmentOf is the environment of a function of the template, for this process,
// with the operator's key.
func (h *host) environmentOf(t *testing.T, function string) *boot.Env {
	t.Helper()
	where, key := h.operator(t)
	tpl, err := template.Load(filepath.Join(built, "template.yaml"), template.Options{Region: local.Region, AccountID: local.AccountID, StackName: local.StackName, APIEndpoint: h.URL,
		Parameters: map[string]string{local.IssuerParameter: h.URL, "RunPatience": "1s", "SandboxImage": "worker", "SandboxSubnets": "subnet", "SandboxWorkers": "1"}})
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(tpl.Functions, func(f template.Function) bool { return f.Name == local.StackName+"-"+function })
	own := map[string]string{"AWS_REGION": local.Region, "AWS_ENDPOINT_URL": where.AWSEndpoint, "AWS_ACCESS_KEY_ID": key.AccessKeyID, "AWS_SECRET_ACCESS_KEY": key.SecretAccessKey}
	return boot.NewEnv(func(name string) (string, bool) {
		if value, ok := own[name]; ok {
			return value, true
		}
		value, ok := tpl.Functions[at].Environment[name]
		return value, ok
	})
}

// queue is the jobs of a host as run_node has them.
func (h *host) queue(t *testing.T) *sandbox.Jobs {
	t.Helper()
	env := h.environmentOf(t, "background_tick")
	p := projects.New(env)
	j := jobs.New(env, p)
	if err := env.Err(); err != nil {
		t.Fatal(err)
	}
	return j
}

// flagsOfJobs are those of a host whose worker is this test.
func flagsOfJobs(t *testing.T) []string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return []string{"--worker-program", self, "--cache", t.TempDir(), "--minute", "500ms", "--parameter", "RunPatience=1s"}
}

var bridge = target.Project{WorkspaceKey: "structural_team", ProjectKey: "bridge_package"}

// leased waits until a worker has a job.
func leased(t *testing.T, j *sandbox.Jobs, jobRef string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		row, err := j.Store.Job(t.Context(), jobRef)
		switch {
		case err == nil && row.State == sandbox.Leased:
			return
		case err == nil && row.State.Terminal() || time.Now().After(deadline):
			t.Fatalf("no worker has %s: %+v %v", jobRef, row, err)
		}
	}
}

// ended waits until a job has ended.
func ended(t *testing.T, j *sandbox.Jobs, spec sandbox.Spec) sandbox.Outcome {
	t.Helper()
	for deadline := time.Now().Add(90 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		got, err := j.Result(t.Context(), spec.JobRef)
		if err == nil && got.State.Terminal() {
			return got
		}
		if time.Now().After(deadline) {
			row, _ := j.Store.Job(t.Context(), spec.JobRef)
			t.Fatalf("%s has not ended: %+v %v", spec.JobRef, row, err)
		}
	}
}

// doubled holds a job to the values it was given.
func doubled(t *testing.T, j *sandbox.Jobs, spec sandbox.Spec, values ...float64) {
	t.Helper()
	got := ended(t, j, spec)
	if got.State != sandbox.Done || len(got.Result.Results) != len(values) {
		t.Fatalf("%+v", got)
	}
	for i, v := range values {
		if text := string(got.Result.Results[i].Values["y"]); text != strconv.FormatFloat(2*v, 'f', -1, 64) {
			t.Errorf("twice %v is %s", v, text)
		}
	}
}

func (h *host) printed(t *testing.T, pattern string) []string {
	t.Helper()
	re := regexp.MustCompile(pattern)
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if found := re.FindAllStringSubmatch(h.out.String(), -1); found != nil {
			var out []string
			for _, f := range found {
				out = append(out, f[len(f)-1])
			}
			return out
		}
		if time.Now().After(deadline) {
			t.Fatalf("px local has not printed %s", pattern)
		}
	}
}

// covers: A8, H1
func TestJobsRunOnAWorkerThatIsStartedForThem(t *testing.T) {
	t.Parallel()
	h := start(t, flagsOfJobs(t)...)
	j := h.queue(t)
	var all sync.WaitGroup
	for n := range 40 {
		all.Go(func() {
			spec := sandboxtest.Spec(bridge, fmt.Sprint("run#", n), float64(n), 0.5)
			if _, err := j.Enqueue(t.Context(), spec, ""); err != nil {
				t.Error(err)
				return
			}
			doubled(t, j, spec, float64(n), 0.5)
		})
	}
	all.Wait()
	if pids := h.printed(t, `worker \w+ \| pid (\d+)`); len(pids) != 1 {
		t.Errorf("%d workers were started", len(pids))
	}
	if got := h.printed(t, `worker \w+ \| forbidden (\d+)`); got[0] != "5" {
		t.Errorf("of 5 things that a worker may not do, %s were refused", got[0])
	}
}

// The real broker, and of two workers one that is forced past its lease.
//
// covers: A8, U5
func TestOfTwoWorkersTheHolderOfTheFenceCounts(t *testing.T) {
	t.Parallel()
	h := start(t, append(flagsOfJobs(t), "--worker-program", "")...)
	env := h.environmentOf(t, "background_tick")
	p := projects.New(env)
	j := jobs.New(env, p)
	j.Starter = nothing{} // the workers are below
	key, err := p.Store.JobKey(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	worker := func(ref string) sandboxtest.Worker {
		return sandboxtest.Worker{Ref: ref, Key: key.Public().(ed25519.PublicKey), Invoke: brokerBy(awslambda.New(env), local.StackName+"-sandbox_broker")}
	}
	slow, fast := worker("wrk_slow"), worker("wrk_fast")
	spec := sandboxtest.Spec(bridge, "run#1", 3)
	if _, err := j.Enqueue(t.Context(), spec, ""); err != nil {
		t.Fatal(err)
	}
	held, err := slow.Claim(t.Context())
	if err != nil || held == nil {
		t.Fatal(held, err)
	}
	var taken *sandbox.LeasedJob
	for deadline := time.Now().Add(30 * time.Second); taken == nil && time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if taken, err = fast.Claim(t.Context()); err != nil {
			t.Fatal(err)
		}
		if taken != nil && time.Now().Before(held.Until) {
			t.Fatal("it was leased twice at once")
		}
	}
	if taken == nil || taken.Fence <= held.Fence {
		t.Fatalf("%+v after %+v", taken, held)
	}
	wrong := sandboxtest.Double(sandboxtest.Spec(bridge, "run#1", 1000)) // what the one that hung would say
	if ok, err := slow.Complete(t.Context(), held, wrong); ok || err != nil {
		t.Fatal("a stale fence was accepted", err)
	}
	if beaten, err := slow.Heartbeat(t.Context(), held); err != nil || !beaten.Stale {
		t.Fatalf("%+v %v", beaten, err)
	}
	if ok, err := fast.Do(t.Context(), taken); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if ok, err := slow.Complete(t.Context(), held, wrong); ok || err != nil {
		t.Fatal("a stale fence was accepted afterwards", err)
	}
	doubled(t, j, spec, 3)
}

// nothing starts no worker, and says that one will come.
type nothing struct{}

func (nothing) Start(context.Context, string, ed25519.PublicKey) (string, error) { return "", nil }

func (nothing) Look(context.Context, []string) (waiting, over []string, err error) {
	return nil, nil, nil
}

// contend is one process of the test below: four workers without a broker's Lambda. It
// says when it is ready, and begins when its input ends.
func contend() {
	env := boot.NewEnv(os.LookupEnv)
	p := projects.New(env)
	b := jobs.Brokered(env, p)
	boot.Check(env.Err())
	key, err := p.Store.JobKey(context.Background())
	boot.Check(err)
	fmt.Println("ready")
	_, err = io.Copy(io.Discard, os.Stdin)
	boot.Check(err)
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	var mu sync.Mutex
	var slots sync.WaitGroup
	for n := range 4 {
		w := sandboxtest.Worker{Ref: fmt.Sprintf("wrk_%s%d", os.Getenv("PX_TEST_CONTENDER"), n), Key: key.Public().(ed25519.PublicKey),
			Invoke: func(ctx context.Context, text []byte) ([]byte, error) {
				out, err := b.Handle(ctx, text)
				if err != nil {
					return nil, err
				}
				if done, ok := out.(sandbox.Completed); ok && done.Accepted {
					mu.Lock()
					fmt.Println("accepted")
					mu.Unlock()
				}
				return jsonOf(out), nil
			}}
		slots.Go(func() { w.Serve(ctx, 2*time.Second) })
	}
	slots.Wait()
}

// covers: U5, A8
func TestWorkersOfTwoProcessesShareAQueue(t *testing.T) {
	t.Parallel()
	h := start(t, "--services-only", "--worker-program", "")
	env := h.environmentOf(t, "background_tick")
	p := projects.New(env)
	j := jobs.New(env, p)
	j.Starter = nothing{}
	const many = 60
	var specs []sandbox.Spec
	for n := range many {
		specs = append(specs, sandboxtest.Spec(bridge, fmt.Sprint("run#", n), float64(n)))
		if _, err := j.Enqueue(t.Context(), specs[n], ""); err != nil {
			t.Fatal(err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var variables []string
	for _, name := range []string{"AWS_REGION", "AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "PX_BUCKET", "PX_TABLE_HEADS", "PX_TABLE_OBJECTS", "PX_TABLE_CHANGES", "PX_TABLE_RUNS", "PX_TABLE_HOST"} {
		variables = append(variables, name+"="+env.Get(name))
	}
	type contender struct {
		cmd *exec.Cmd
		in  io.Closer
		out *bufio.Scanner
	}
	contenders := make([]contender, 2)
	for n := range contenders {
		cmd := exec.CommandContext(t.Context(), self)
		cmd.Env = append(append(os.Environ(), variables...), fmt.Sprint("PX_TEST_CONTENDER=", n))
		cmd.Stderr = os.Stderr
		in, errIn := cmd.StdinPipe()
		out, errOut := cmd.StdoutPipe()
		if err := errors.Join(errIn, errOut, cmd.Start()); err != nil {
			t.Fatal(err)
		}
		contenders[n] = contender{cmd, in, bufio.NewScanner(out)}
	}
	// Neither begins before the other can, or it might find nothing left.
	for _, c := range contenders {
		if !c.out.Scan() || c.out.Text() != "ready" {
			t.Fatalf("a process begins with %q", c.out.Text())
		}
	}
	var all sync.WaitGroup
	accepted := make([]int, len(contenders))
	for n, c := range contenders {
		c.in.Close()
		all.Go(func() {
			for c.out.Scan() {
				if c.out.Text() == "accepted" {
					accepted[n]++
				}
			}
			if err := c.cmd.Wait(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for n, spec := range specs {
		doubled(t, j, spec, float64(n))
		if row, err := j.Store.Job(t.Context(), spec.JobRef); err != nil || row.Attempts != 1 || row.Fence != 1 {
			t.Errorf("%s was leased %d times, %v", spec.JobRef, row.Attempts, err)
		}
	}
	if accepted[0]+accepted[1] != many || accepted[0] == 0 || accepted[1] == 0 {
		t.Errorf("of %d jobs, the processes finished %v", many, accepted)
	}
}

// A worker that is killed comes back to nobody; the job does.
//
// covers: U5
func TestAJobOutlivesItsWorker(t *testing.T) {
	t.Parallel()
	h := start(t, flagsOfJobs(t)...)
	j := h.queue(t)
	const x = 8000 // milliseconds: a slow machine shall not be too late to kill it
	spec := sandboxtest.Spec(bridge, "run#1", x)
	if _, err := j.Enqueue(t.Context(), spec, ""); err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(h.printed(t, `worker \w+ \| pid (\d+)`)[0])
	if err != nil {
		t.Fatal(err)
	}
	leased(t, j, spec.JobRef)
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	doubled(t, j, spec, x)
	if row, err := j.Store.Job(t.Context(), spec.JobRef); err != nil || row.Attempts != 2 {
		t.Errorf("%d leases, %v", row.Attempts, err)
	}
}

// covers: A8
func TestACancelledJobStopsAtItsWorker(t *testing.T) {
	t.Parallel()
	h := start(t, flagsOfJobs(t)...)
	j := h.queue(t)
	spec := sandboxtest.Spec(bridge, "run#1", 60_000)
	if _, err := j.Enqueue(t.Context(), spec, ""); err != nil {
		t.Fatal(err)
	}
	leased(t, j, spec.JobRef)
	if err := j.Cancel(t.Context(), spec.JobRef); err != nil {
		t.Fatal(err)
	}
	h.printed(t, `stopped (`+spec.JobRef+`)`)
	if got := ended(t, j, spec); got.State != sandbox.Cancelled {
		t.Errorf("%+v", got)
	}
}

// Wherever the host is killed while jobs go through the queue, each ends once and with
// its own result.
//
// covers: U5, A8
func TestNoJobIsLostWhereverTheHostIsKilled(t *testing.T) {
	t.Parallel()
	for _, point := range []string{"dynamodb.committing:12", "dynamodb.committed:17", "lambda.handed:9", "lambda.answered:14"} {
		t.Run(point, func(t *testing.T) {
			dir, flags := t.TempDir(), flagsOfJobs(t)
			first := startAt(t, dir, built, flags...)
			first.stop(t)
			h := startAt(t, dir, built, append(flags, "--failpoint", point)...)
			j := h.queue(t)
			var specs []sandbox.Spec
			for n := range 8 {
				specs = append(specs, sandboxtest.Spec(bridge, fmt.Sprint("run#", n), float64(n)))
			}
			ctx, stop := context.WithCancel(t.Context())
			go func() { <-h.ended; stop() }()
			for _, spec := range specs {
				_, _ = j.Enqueue(ctx, spec, "")
			}
			select {
			case <-h.ended:
			case <-time.After(30 * time.Second):
				t.Fatal("the point was not reached")
			}
			again := startAt(t, dir, built, flags...)
			j = again.queue(t)
			for n, spec := range specs { // as the state machine does, whose call failed
				if _, err := j.Enqueue(t.Context(), spec, ""); err != nil {
					t.Fatal(err)
				}
				doubled(t, j, spec, float64(n))
				if row, err := j.Store.Job(t.Context(), spec.JobRef); err != nil || row.Attempts > 2 {
					t.Errorf("%d leases, %v", row.Attempts, err)
				}
			}
		})
	}
}

// covers: A8
func TestAMachineWithoutWorkerSaysSoAndItsJobsFail(t *testing.T) {
	t.Parallel()
	h := start(t, append(flagsOfJobs(t), "--worker-program", filepath.Join(t.TempDir(), "px-worker"))...)
	h.printed(t, `px local: (no Python: there is no .*px-worker \(make build\); Functions answer PX_SANDBOX_UNAVAILABLE, everything else works)\n`)
	j := h.queue(t)
	spec := sandboxtest.Spec(bridge, "run#1", 1)
	if state, err := j.Enqueue(t.Context(), spec, ""); err != nil || state != sandbox.Failed {
		t.Fatal(state, err)
	}
	if got := ended(t, j, spec); got.Reason != sandbox.Unavailable {
		t.Errorf("%+v", got)
	}
}

func jsonOf(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return text
}
