package ecs

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
	"github.com/aws/smithy-go"
)

// The program of the tests is a shell script: what it does as a worker is in $WORK of
// the override.
func program(t *testing.T, prepare string) string {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("tasks run on Linux only")
	}
	path := filepath.Join(t.TempDir(), "worker")
	text := "#!/bin/sh\nif [ \"$1\" = prepare ]; then " + prepare + "; exit $?; fi\neval \"$WORK\"\n"
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

type world struct {
	t       *testing.T
	service *Service
	client  *ecs.Client
	dir     string
	mu      sync.Mutex
	said    []string
	denied  string
}

func (w *world) say(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.said = append(w.said, text)
}

func (w *world) heard(text string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(w.said, func(s string) bool { return strings.Contains(s, text) })
}

func (w *world) until(what string, f func() bool) {
	w.t.Helper()
	for end := time.Now().Add(20 * time.Second); !f(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.t.Fatalf("not seen: %s\n%s", what, strings.Join(w.said, "\n"))
		}
	}
}

const definition = "arn:aws:ecs:us-east-1:000000000000:task-definition/sandbox:1"

func open(t *testing.T, path string) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir()}
	p, done := Prepare(t.Context(), path, filepath.Join(w.dir, "cache"), w.say)
	w.service = Open(Options{
		Region: "us-east-1", AccountID: "000000000000", Clusters: []string{"sandbox"}, MaxTasks: 3, Log: w.say, Program: p,
		Tasks:       []Task{{ARN: definition, Role: "role", ExecutionRole: "starter", Container: "worker", Environment: map[string]string{"PX_BROKER": "broker", "PX_DRIVER": "task"}}},
		Environment: func(Task) map[string]string { return map[string]string{"KEY": "of the task"} },
		Passes:      func(_ context.Context, role string) bool { return role != w.denied },
	})
	server := httptest.NewServer(w.service)
	w.client = ecs.New(ecs.Options{BaseEndpoint: &server.URL, Region: "us-east-1", HTTPClient: server.Client(), Retryer: aws.NopRetryer{},
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "k", SecretAccessKey: "s"}, nil
		})})
	t.Cleanup(func() {
		server.Close()
		<-done
		if err := w.service.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

func input(work, token string) *ecs.RunTaskInput {
	return &ecs.RunTaskInput{
		Cluster: aws.String("sandbox"), TaskDefinition: aws.String(definition), LaunchType: types.LaunchTypeFargate, PlatformVersion: aws.String("1.4.0"), Count: aws.Int32(1),
		ClientToken: &token, StartedBy: aws.String("pxhost"),
		NetworkConfiguration: &types.NetworkConfiguration{AwsvpcConfiguration: &types.AwsVpcConfiguration{Subnets: []string{"subnet"}, SecurityGroups: []string{"group"}, AssignPublicIp: types.AssignPublicIpEnabled}},
		Overrides: &types.TaskOverride{ContainerOverrides: []types.ContainerOverride{{Name: aws.String("worker"), Environment: []types.KeyValuePair{
			{Name: aws.String("WORK"), Value: &work}, {Name: aws.String("PX_WORKER"), Value: aws.String("wrk_1")}}}}},
	}
}

// covers: H1, H4
func TestATaskIsAProcessWithTheEnvironmentOfItsDefinitionAndOverrides(t *testing.T) {
	w := open(t, program(t, `echo '{"runsc":"/r","rootfs":"/f","python":"3.11.2"}'`))
	t.Setenv("SECRET_OF_THE_HOST", "x")
	out, err := w.client.RunTask(t.Context(), input(`echo "$PX_BROKER $PX_WORKER $PX_DRIVER $PX_RUNSC $PX_ROOTFS $KEY [$SECRET_OF_THE_HOST]"; exit 3`, "one"))
	if err != nil || len(out.Tasks) != 1 || len(out.Failures) != 0 || *out.Tasks[0].LastStatus != "PROVISIONING" || *out.Tasks[0].TaskDefinitionArn != definition || out.Tasks[0].CreatedAt == nil {
		t.Fatalf("%+v %v", out, err)
	}
	w.until("the task's words", func() bool { return w.heard("broker wrk_1 rootless /r /f of the task []") })
	w.until("its end", func() bool { return w.heard("exit status 3") })
	w.until("that it is told", func() bool {
		arn := *out.Tasks[0].TaskArn
		told, err := w.client.DescribeTasks(t.Context(), &ecs.DescribeTasksInput{Cluster: aws.String("sandbox"), Tasks: []string{arn, arn + "x"}})
		if err != nil || len(told.Tasks) != 1 || len(told.Failures) != 1 || *told.Failures[0].Reason != "MISSING" || *told.Failures[0].Arn != arn+"x" {
			t.Fatalf("%+v %v", told, err)
		}
		return *told.Tasks[0].LastStatus == "STOPPED"
	})
}

func TestAClientTokenStartsOneTask(t *testing.T) {
	w := open(t, program(t, "true"))
	in := input("echo begun; sleep 60", "token")
	first, err := w.client.RunTask(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	again, err := w.client.RunTask(t.Context(), in)
	if err != nil || *again.Tasks[0].TaskArn != *first.Tasks[0].TaskArn {
		t.Fatal(again, err)
	}
	other := input("echo another", "token")
	var conflict *types.ConflictException
	if _, err := w.client.RunTask(t.Context(), other); !errors.As(err, &conflict) {
		t.Fatal(err)
	}
	w.until("it", func() bool { return w.heard("begun") })
	w.service.mu.Lock()
	defer w.service.mu.Unlock()
	if w.service.tasks != 1 {
		t.Errorf("%d tasks run", w.service.tasks)
	}
}

// As on AWS, an answer of 200 may have placed nothing.
func TestMoreTasksThanFitAreFailuresInAnAnswerOf200(t *testing.T) {
	w := open(t, program(t, "true"))
	for n := range 3 {
		if out, err := w.client.RunTask(t.Context(), input("sleep 60", fmt.Sprint(n))); err != nil || len(out.Tasks) != 1 {
			t.Fatal(out, err)
		}
	}
	out, err := w.client.RunTask(t.Context(), input("sleep 60", "more"))
	if err != nil || len(out.Tasks) != 0 || len(out.Failures) != 1 || *out.Failures[0].Reason != "RESOURCE:CPU" {
		t.Fatalf("%+v %v", out, err)
	}
}

func TestWhatIsNotSupportedIsRefusedByName(t *testing.T) {
	w := open(t, program(t, "true"))
	for name, row := range map[string]struct {
		spoil func(*ecs.RunTaskInput)
		code  string
		named string
	}{
		"another cluster":           {func(in *ecs.RunTaskInput) { in.Cluster = aws.String("x") }, "ClusterNotFoundException", ""},
		"another task definition":   {func(in *ecs.RunTaskInput) { in.TaskDefinition = aws.String("x:1") }, "ClientException", ""},
		"another platform":          {func(in *ecs.RunTaskInput) { in.PlatformVersion = aws.String("1.3.0") }, "PlatformUnknownException", "1.4.0"},
		"instances":                 {func(in *ecs.RunTaskInput) { in.LaunchType = types.LaunchTypeEc2 }, "InvalidParameterException", "launchType"},
		"two at once":               {func(in *ecs.RunTaskInput) { in.Count = aws.Int32(2) }, "InvalidParameterException", "one task"},
		"no network":                {func(in *ecs.RunTaskInput) { in.NetworkConfiguration = nil }, "InvalidParameterException", "awsvpc"},
		"another container":         {func(in *ecs.RunTaskInput) { in.Overrides.ContainerOverrides[0].Name = aws.String("web") }, "InvalidParameterException", "web"},
		"another command":           {func(in *ecs.RunTaskInput) { in.Overrides.ContainerOverrides[0].Command = []string{"sh"} }, "InvalidParameterException", "command"},
		"another role":              {func(in *ecs.RunTaskInput) { in.Overrides.TaskRoleArn = aws.String("admin") }, "InvalidParameterException", "taskRoleArn"},
		"a shell into the task":     {func(in *ecs.RunTaskInput) { in.EnableExecuteCommand = true }, "InvalidParameterException", "enableExecuteCommand"},
		"tags":                      {func(in *ecs.RunTaskInput) { in.Tags = []types.Tag{{Key: aws.String("a")}} }, "InvalidParameterException", "tags"},
		"a role that is not passed": {func(*ecs.RunTaskInput) { w.denied = "role" }, "AccessDeniedException", "role"},
	} {
		t.Run(name, func(t *testing.T) {
			in := input("echo begun", name)
			row.spoil(in)
			_, err := w.client.RunTask(t.Context(), in)
			w.denied = ""
			var api smithy.APIError
			if !errors.As(err, &api) || api.ErrorCode() != row.code || !strings.Contains(api.ErrorMessage(), row.named) {
				t.Error(err)
			}
		})
	}
	var api smithy.APIError
	if _, err := w.client.StopTask(t.Context(), &ecs.StopTaskInput{Task: aws.String("x")}); !errors.As(err, &api) || !strings.Contains(api.ErrorMessage(), "StopTask") {
		t.Error(err)
	}
	if w.heard("begun") {
		t.Error("something was started")
	}
}

// covers: H4
func TestATaskWaitsUntilItsProgramIsPrepared(t *testing.T) {
	gate := filepath.Join(t.TempDir(), "gate")
	w := open(t, program(t, `echo building 1 of 2; while [ ! -e `+gate+` ]; do sleep 0.05; done; [ "$2 $3" = "--cache `+"$3"+`" ]`))
	if _, err := w.client.RunTask(t.Context(), input("echo begun", "one")); err != nil {
		t.Fatal(err)
	}
	time.Sleep(100 * time.Millisecond)
	if w.heard("begun") {
		t.Fatal("it did not wait")
	}
	if err := os.WriteFile(gate, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	w.until("the task's words", func() bool { return w.heard("begun") })
}

// covers: H4
func TestAMachineThatCannotRunItSaysSoOnceAndRefusesForGood(t *testing.T) {
	for name, row := range map[string]struct{ path, why, programs string }{
		"there is no program": {filepath.Join(t.TempDir(), "px-worker"), "there is no ", os.Getenv("PATH")},
		"there is no python3": {program(t, "true"), "there is no python3; Functions answer PX_SANDBOX_UNAVAILABLE, everything else works", t.TempDir()},
		"preparing it fails":  {program(t, "echo no network >&2; exit 1"), "preparing it failed: no network", os.Getenv("PATH")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("PATH", row.programs)
			w := open(t, row.path)
			w.until("why", func() bool { return w.heard(row.why) })
			_, err := w.client.RunTask(t.Context(), input("echo begun", "one"))
			var never *types.PlatformTaskDefinitionIncompatibilityException
			if !errors.As(err, &never) {
				t.Fatal(err)
			}
			if n := len(w.said); n != 1 || !strings.Contains(w.said[0], "PX_SANDBOX_UNAVAILABLE") {
				t.Errorf("%q", w.said)
			}
		})
	}
}

func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }

// pidOf reads what a task wrote.
func pidOf(t *testing.T, w *world, file string) (pid int) {
	t.Helper()
	w.until("the pid in "+file, func() bool {
		text, err := os.ReadFile(file)
		pid, _ = strconv.Atoi(strings.TrimSpace(string(text)))
		return err == nil && pid > 0
	})
	return pid
}

// covers: X5
func TestNothingOfATaskIsLeftBehind(t *testing.T) {
	for name, work := range map[string]string{
		"it ends by itself":  "sleep 60 & echo $! > %s",
		"the host closes":    "sleep 60 & echo $! > %s; sleep 60",
		"it does not listen": "trap '' INT TERM; sleep 60 & echo $! > %s; while true; do sleep 1; done",
	} {
		t.Run(name, func(t *testing.T) {
			w := open(t, program(t, "true"))
			file := filepath.Join(w.dir, "pid")
			if _, err := w.client.RunTask(t.Context(), input(fmt.Sprintf(work, file), "one")); err != nil {
				t.Fatal(err)
			}
			pid := pidOf(t, w, file)
			if name != "it ends by itself" {
				if err := w.service.Close(); err != nil {
					t.Fatal(err)
				}
			}
			w.until("the end of what the task started", func() bool { return !alive(pid) })
		})
	}
}

// A host that is killed runs no deferred call.
//
// covers: U5
func TestATaskDiesWithAHostThatIsKilled(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	path := program(t, "true")
	cmd := exec.Command(os.Args[0], "-test.run", "^TestHostToBeKilled$", "-test.v")
	cmd.Env = append(os.Environ(), "ECS_TEST_PROGRAM="+path, "ECS_TEST_PID="+file)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w := &world{t: t}
	pid := pidOf(t, w, file)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	w.until("the end of the task", func() bool { return !alive(pid) })
}

// TestHostToBeKilled is the host of the test above.
func TestHostToBeKilled(t *testing.T) {
	path, file := os.Getenv("ECS_TEST_PROGRAM"), os.Getenv("ECS_TEST_PID")
	if path == "" {
		return
	}
	w := open(t, path)
	if _, err := w.client.RunTask(t.Context(), input("echo $$ > "+file+"; exec sleep 60", "one")); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Minute)
}
