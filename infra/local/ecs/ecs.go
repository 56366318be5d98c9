// Package ecs emulates the two calls of ECS that the project makes: RunTask, and
// DescribeTasks to see what became of it. A task is a process here, of the program that
// stands for its image.
//
// A task is asked for as on AWS and may start later: PENDING is the time in which the
// program is still being prepared. Nothing outlives the host: a task dies with it, and
// a client token is remembered until then.
//
// It must not know what a worker does. Every other call, and every member of a request
// that would have to mean something here, is refused by name.
package ecs

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pxhost/pxhost/infra/local/child"
)

// A Task is a task definition of one container.
type Task struct {
	ARN                 string // with its revision
	Role, ExecutionRole string // ARNs
	Container           string // name
	Environment         map[string]string
}

// Options configure the service.
type Options struct {
	Region, AccountID string
	Clusters          []string // names
	Tasks             []Task
	// Program stands for the image of every task.
	Program *Program
	// Environment is what a task gets beside its own variables: credentials and where
	// AWS is.
	Environment func(Task) map[string]string
	// Passes tells whether who signed the request may give a role to a task.
	Passes func(ctx context.Context, role string) bool
	// MaxTasks is how many run at once; 0 is 16.
	MaxTasks int
	Log      func(string)
}

// A Service answers RunTask. Close ends all tasks.
type Service struct {
	opt     Options
	spawner *child.Spawner
	ctx     context.Context
	stop    context.CancelFunc
	running sync.WaitGroup

	mu     sync.Mutex
	tasks  int               // that have not ended
	known  map[string]string // status by ARN
	tokens map[string]remembered
}

// remembered is a request under a client token, and its answer.
type remembered struct {
	request string
	answer  runTaskOutput
}

// Open returns the service. It starts nothing.
func Open(opt Options) *Service {
	if opt.MaxTasks == 0 {
		opt.MaxTasks = 16
	}
	ctx, stop := context.WithCancel(context.Background())
	return &Service{opt: opt, spawner: child.NewSpawner(), ctx: ctx, stop: stop, known: map[string]string{}, tokens: map[string]remembered{}}
}

// Close ends all tasks as StopTask does, with less patience, and waits for them.
func (s *Service) Close() error {
	s.stop()
	s.running.Wait()
	s.spawner.Close()
	return nil
}

// An apiError is an error of ECS's own.
type apiError struct {
	code, message string
}

func (e *apiError) Error() string { return e.code + ": " + e.message }

func refuse(code, format string, args ...any) error {
	return &apiError{code, fmt.Sprintf(format, args...)}
}

const targetPrefix = "AmazonEC2ContainerServiceV20141113."

// ServeHTTP answers one request of the JSON 1.1 protocol.
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	out, err := s.serve(r)
	status := http.StatusOK
	if err != nil {
		var known *apiError
		if !errors.As(err, &known) {
			status, known = http.StatusInternalServerError, &apiError{"ServerException", "px local failed"}
			s.opt.Log("ecs failed: " + err.Error())
		} else {
			status = http.StatusBadRequest
		}
		out = map[string]string{"__type": known.code, "message": known.message}
	}
	body, err := json.Marshal(out)
	if err != nil {
		panic(err) // only plain values come here
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	w.Header().Set("X-Amzn-Requestid", rand.Text())
	w.WriteHeader(status)
	w.Write(body)
}

func (s *Service) serve(r *http.Request) (any, error) {
	op, ok := strings.CutPrefix(r.Header.Get("X-Amz-Target"), targetPrefix)
	if r.Method != http.MethodPost || r.URL.Path != "/" || !ok || r.Header.Get("Content-Type") != "application/x-amz-json-1.1" {
		return nil, refuse("InvalidParameterException", "px local serves ECS as POST / of the JSON 1.1 protocol")
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	switch op {
	case "RunTask":
		return s.runTask(r.Context(), body)
	case "DescribeTasks":
		return s.describeTasks(body)
	}
	return nil, refuse("UnsupportedFeatureException", "px local does not support %s of ECS; it has RunTask and DescribeTasks", printable(op))
}

// decode reads a request, and refuses a member that is not there by its name.
func decode(body []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		// encoding/json names the member and quotes no value.
		return refuse("InvalidParameterException", "px local cannot read the request: %v", err)
	}
	return nil
}

type describedTask struct {
	TaskARN    string `json:"taskArn"`
	ClusterARN string `json:"clusterArn"`
	LastStatus string `json:"lastStatus"`
}

type describeTasksOutput struct {
	Tasks    []describedTask `json:"tasks"`
	Failures []failure       `json:"failures"`
}

// describeTasks tells of tasks by ARN how they stand. One of an earlier start of the
// host is MISSING: it died with it.
func (s *Service) describeTasks(body []byte) (any, error) {
	var in struct {
		Cluster string   `json:"cluster"`
		Tasks   []string `json:"tasks"`
	}
	if err := decode(body, &in); err != nil {
		return nil, err
	}
	cluster := in.Cluster[strings.LastIndex(in.Cluster, "/")+1:]
	switch {
	case !slices.Contains(s.opt.Clusters, cluster):
		return nil, refuse("ClusterNotFoundException", "Cluster not found.")
	case len(in.Tasks) == 0 || len(in.Tasks) > 100:
		return nil, refuse("InvalidParameterException", "Tasks cannot be empty, or more than 100.")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	out := describeTasksOutput{Tasks: []describedTask{}, Failures: []failure{}}
	for _, arn := range in.Tasks {
		if status, ok := s.known[arn]; ok {
			out.Tasks = append(out.Tasks, describedTask{arn, "arn:aws:ecs:" + s.opt.Region + ":" + s.opt.AccountID + ":cluster/" + cluster, status})
		} else {
			out.Failures = append(out.Failures, failure{arn, "MISSING"})
		}
	}
	return out, nil
}

// printable keeps a caller's text out of our messages unless it is a name.
func printable(s string) string {
	for _, c := range s {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			return "?"
		}
	}
	return s[:min(len(s), 60)]
}

type keyValue struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type runTaskInput struct {
	Cluster              string `json:"cluster"`
	TaskDefinition       string `json:"taskDefinition"`
	Count                *int   `json:"count"`
	ClientToken          string `json:"clientToken"`
	LaunchType           string `json:"launchType"`
	PlatformVersion      string `json:"platformVersion"`
	StartedBy            string `json:"startedBy"`
	NetworkConfiguration *struct {
		AwsvpcConfiguration *struct {
			Subnets        []string `json:"subnets"`
			SecurityGroups []string `json:"securityGroups"`
			AssignPublicIP string   `json:"assignPublicIp"`
		} `json:"awsvpcConfiguration"`
	} `json:"networkConfiguration"`
	Overrides *struct {
		ContainerOverrides []struct {
			Name        string     `json:"name"`
			Environment []keyValue `json:"environment"`
		} `json:"containerOverrides"`
	} `json:"overrides"`
}

type failure struct {
	ARN    string `json:"arn"`
	Reason string `json:"reason"`
}

type runningTask struct {
	TaskARN           string  `json:"taskArn"`
	ClusterARN        string  `json:"clusterArn"`
	TaskDefinitionARN string  `json:"taskDefinitionArn"`
	LastStatus        string  `json:"lastStatus"`
	DesiredStatus     string  `json:"desiredStatus"`
	LaunchType        string  `json:"launchType"`
	PlatformVersion   string  `json:"platformVersion"`
	StartedBy         string  `json:"startedBy,omitempty"`
	CreatedAt         float64 `json:"createdAt"` // seconds since 1970
}

type runTaskOutput struct {
	Tasks    []runningTask `json:"tasks"`
	Failures []failure     `json:"failures"`
}

// check refuses what ECS refuses, and what it would do and this cannot.
func (s *Service) check(in runTaskInput) (Task, map[string]string, error) {
	invalid := func(format string, args ...any) (Task, map[string]string, error) {
		return Task{}, nil, refuse("InvalidParameterException", format, args...)
	}
	cluster := in.Cluster[strings.LastIndex(in.Cluster, "/")+1:]
	at := slices.IndexFunc(s.opt.Tasks, func(t Task) bool {
		family := t.ARN[strings.LastIndex(t.ARN, "/")+1:]
		return in.TaskDefinition == t.ARN || in.TaskDefinition == family || in.TaskDefinition == strings.Split(family, ":")[0]
	})
	switch {
	case !slices.Contains(s.opt.Clusters, cluster):
		return Task{}, nil, refuse("ClusterNotFoundException", "Cluster not found.")
	case at < 0:
		return Task{}, nil, refuse("ClientException", "TaskDefinition not found.")
	case in.LaunchType != "FARGATE":
		return invalid("px local supports the launchType FARGATE only")
	case in.PlatformVersion != "" && in.PlatformVersion != "LATEST" && in.PlatformVersion != "1.4.0":
		return Task{}, nil, refuse("PlatformUnknownException", "px local knows the platform version 1.4.0")
	case in.Count != nil && *in.Count != 1:
		return invalid("px local starts one task a call")
	case len(in.ClientToken) > 64:
		return invalid("clientToken is longer than 64 characters")
	case in.NetworkConfiguration == nil || in.NetworkConfiguration.AwsvpcConfiguration == nil || len(in.NetworkConfiguration.AwsvpcConfiguration.Subnets) == 0:
		return invalid("Network Configuration must be provided when networkMode 'awsvpc' is specified.")
	}
	task, own := s.opt.Tasks[at], map[string]string{}
	if in.Overrides != nil {
		for _, o := range in.Overrides.ContainerOverrides {
			if o.Name != task.Container {
				return invalid("Override for container named %s is not a container in the TaskDefinition.", printable(o.Name))
			}
			for _, v := range o.Environment {
				own[v.Name] = v.Value
			}
		}
	}
	return task, own, nil
}

func (s *Service) runTask(ctx context.Context, body []byte) (any, error) {
	var in runTaskInput
	if err := decode(body, &in); err != nil {
		return nil, err
	}
	task, own, err := s.check(in)
	if err != nil {
		return nil, err
	}
	for _, role := range []string{task.Role, task.ExecutionRole} {
		if role != "" && !s.opt.Passes(ctx, role) {
			return nil, refuse("AccessDeniedException", "no policy allows iam:PassRole on %s", role)
		}
	}
	if why := s.opt.Program.Refused(); why != "" {
		return nil, refuse("PlatformTaskDefinitionIncompatibilityException", "the task cannot run on this machine: %s", why)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if before, ok := s.tokens[in.ClientToken]; ok && in.ClientToken != "" {
		if before.request != string(body) {
			return nil, refuse("ConflictException", "the clientToken is of another request")
		}
		return before.answer, nil
	}
	if s.ctx.Err() != nil {
		return nil, refuse("ServerException", "px local stops")
	}
	if s.tasks >= s.opt.MaxTasks {
		return runTaskOutput{Tasks: []runningTask{}, Failures: []failure{{task.ARN, "RESOURCE:CPU"}}}, nil
	}
	id := make([]byte, 16)
	rand.Read(id)
	name := hex.EncodeToString(id)
	cluster := in.Cluster[strings.LastIndex(in.Cluster, "/")+1:]
	prefix := "arn:aws:ecs:" + s.opt.Region + ":" + s.opt.AccountID + ":"
	out := runTaskOutput{Failures: []failure{}, Tasks: []runningTask{{
		TaskARN: prefix + "task/" + cluster + "/" + name, ClusterARN: prefix + "cluster/" + cluster, TaskDefinitionARN: task.ARN, LastStatus: "PROVISIONING", DesiredStatus: "RUNNING",
		LaunchType: "FARGATE", PlatformVersion: "1.4.0", StartedBy: in.StartedBy, CreatedAt: float64(time.Now().UnixMilli()) / 1000,
	}}}
	if in.ClientToken != "" {
		s.tokens[in.ClientToken] = remembered{string(body), out}
	}
	s.tasks++
	arn := out.Tasks[0].TaskARN
	s.known[arn] = "PROVISIONING"
	s.running.Go(func() {
		s.run(name[:8], task, own, func() { s.stands(arn, "RUNNING", 0) })
		s.stands(arn, "STOPPED", -1)
	})
	return out, nil
}

// stands says how a task stands, and counts it out when it has ended.
func (s *Service) stands(arn, status string, count int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known[arn] = status
	s.tasks += count
}

// stopPatience is how long a task may take to end when the host does.
const stopPatience = 2 * time.Second

// run is the life of a task.
func (s *Service) run(id string, task Task, own map[string]string, begun func()) {
	log := func(format string, args ...any) { s.opt.Log("task " + id + ": " + fmt.Sprintf(format, args...)) }
	if err := s.opt.Program.wait(s.ctx); err != nil {
		log("not started: %v", err)
		return
	}
	cmd := exec.Command(s.opt.Program.path)
	cmd.Dir = filepath.Dir(s.opt.Program.path)
	env := map[string]string{}
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "LANG", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR"} {
		if value, ok := os.LookupEnv(name); ok {
			env[name] = value
		}
	}
	// What is said of this machine comes last: the task definition speaks of AWS's.
	for _, part := range []map[string]string{task.Environment, own, s.opt.Environment(task), s.opt.Program.environment} {
		for name, value := range part {
			env[name] = value
		}
	}
	for name, value := range env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	out := &child.Lines{Prefix: func() string { return "worker " + id + " | " }, Log: s.opt.Log}
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = out, out, time.Second
	if err := s.spawner.Start(cmd); err != nil {
		log("not started: %v", err)
		return
	}
	begun()
	ended := make(chan struct{})
	go func() { child.AwaitExit(cmd.Process.Pid); close(ended) }()
	select {
	case <-ended:
	case <-s.ctx.Done():
		_ = cmd.Process.Signal(os.Interrupt) // a worker ends its sandboxes; on Windows there is none
		select {
		case <-ended:
		case <-time.After(stopPatience):
		}
	}
	// Not reaped yet, so its group is still its own: with a worker goes all that it
	// started and left.
	child.Kill(cmd)
	err := cmd.Wait()
	out.Flush()
	if s.ctx.Err() == nil {
		log("ended: %s", ending(err))
	}
}

func ending(err error) string {
	if err == nil {
		return "exit status 0"
	}
	return err.Error()
}
