package local

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sfn"

	"github.com/pxhost/pxhost/infra/local/lambda"
	"github.com/pxhost/pxhost/infra/local/oidc"
	"github.com/pxhost/pxhost/infra/sample"
	"github.com/pxhost/pxhost/shared/boot"
	"github.com/pxhost/pxhost/shared/boot/awssfn"
	"github.com/pxhost/pxhost/shared/boot/projects"
	"github.com/pxhost/pxhost/shared/change"
	"github.com/pxhost/pxhost/shared/flow"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/policy"
	"github.com/pxhost/pxhost/shared/search"
	"github.com/pxhost/pxhost/shared/target"
)

// The benchmarks of this file measure the whole system: the bootstraps that make
// build made, started by the local host, called over HTTP. What is measured and
// its references take turns, one call each, so that whatever else the machine does
// falls on all of them alike; medians are reported, and their ratios. Only a ratio
// says much on a shared machine.

// A subject is one thing that is measured in turn with others.
type subject struct {
	name       string
	once       func()
	references []string // names of earlier subjects
	target     string   // what the project asks for
}

// inTurn measures the subjects and prints the median of each, also as a multiple of
// its references, and its target. around, which may be nil, prepares a round,
// and what it returns ends it; neither is measured.
func inTurn(b *testing.B, around func() func(), subjects ...subject) {
	b.Helper()
	times := make([][]time.Duration, len(subjects))
	for b.Loop() {
		end := func() {}
		if around != nil {
			end = around()
		}
		for i, s := range subjects {
			start := time.Now()
			s.once()
			times[i] = append(times[i], time.Since(start))
		}
		end()
	}
	medians := map[string]float64{}
	for i, s := range subjects {
		slices.Sort(times[i])
		medians[s.name] = float64(times[i][len(times[i])/2]) / float64(time.Millisecond)
	}
	var table strings.Builder
	for i, s := range subjects {
		// A benchmark's log is cut after ten lines.
		if i%(1+len(subjects)/9) == 0 {
			table.WriteByte('\n')
		}
		fmt.Fprintf(&table, "  %-20s %8.2f ms", s.name, medians[s.name])
		for _, reference := range s.references {
			fmt.Fprintf(&table, "  %.2f × %s", medians[s.name]/medians[reference], reference)
		}
		if s.target != "" {
			fmt.Fprintf(&table, "  (target: %s)", s.target)
		}
	}
	b.Log(table.String())
	// The result line is about the last subject; all of them together mean nothing.
	last := subjects[len(subjects)-1]
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(medians[last.name], last.name+"-ms")
	for _, reference := range last.references {
		b.ReportMetric(medians[last.name]/medians[reference], last.name+"/"+reference)
	}
}

// A system is a local host of the project's own template, with the sample Project.
type system struct {
	Running
	parts projects.Parts
	token string
}

const benchTemplate = "../../template.yaml"

// environmentOf is the environment of a program that works with the operator's key.
func environmentOf(r Running) *boot.Env {
	names := r.Host().Environment
	return boot.NewEnv(func(name string) (string, bool) {
		switch name {
		case "AWS_REGION":
			return Region, true
		case "AWS_ENDPOINT_URL":
			return r.AWSEndpoint, true
		case "AWS_ACCESS_KEY_ID":
			return r.Operator.AccessKeyID, true
		case "AWS_SECRET_ACCESS_KEY":
			return r.Operator.SecretAccessKey, true
		}
		value, ok := names[name]
		return value, ok
	})
}

func startSystem(b *testing.B, change ...func(*Config)) *system {
	b.Helper()
	built, err := filepath.Glob("../../.build/functions/*/bootstrap")
	if err != nil || len(built) == 0 {
		b.Fatal("make build first: there are no functions to measure")
	}
	s := &system{}
	s.Running = serve(b, benchTemplate, func(ctx context.Context, r Running) error {
		env := environmentOf(r)
		s.parts = projects.New(env)
		_, err := sample.Seed(ctx, s.parts, r.URL)
		return errors.Join(env.Err(), err)
	}, change...)
	if s.token, err = s.Key.Token(s.URL, "engineer", oidc.ScopeTools, time.Now()); err != nil {
		b.Fatal(err)
	}
	return s
}

type object = map[string]any

// call calls a tool over the formal wire and reads the data of its answer, which
// must be a success.
func (s *system) call(b *testing.B, tool string, arguments object, into any) {
	b.Helper()
	line, err := json.Marshal(object{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": object{"name": tool, "arguments": arguments}})
	if err != nil {
		b.Fatal(err)
	}
	request, err := http.NewRequest(http.MethodPost, s.URL+"/v1/mcp", bytes.NewReader(line))
	if err != nil {
		b.Fatal(err)
	}
	request.Header.Set("authorization", "Bearer "+s.token)
	request.Header.Set("content-type", "application/x-ndjson")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		b.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		b.Fatal(err)
	}
	var reply struct {
		Result struct {
			StructuredContent struct {
				OK   bool
				Data json.RawMessage
			}
		}
	}
	if err := json.Unmarshal(text, &reply); err != nil || !reply.Result.StructuredContent.OK {
		b.Fatalf("%s: %.2000s", tool, text)
	}
	if into != nil {
		if err := json.Unmarshal(reply.Result.StructuredContent.Data, into); err != nil {
			b.Fatal(err)
		}
	}
}

// A saved is a Flow as a client knows it.
type saved struct {
	address    object
	generation int64
}

// sampleFlow finds the sample's Flow.
func (s *system) sampleFlow(b *testing.B) saved {
	b.Helper()
	var found struct {
		Items []struct {
			Target     object
			Generation int64
		}
	}
	s.call(b, "pxflow_search", object{"scope": sample.Project.Scope(), "query": "girder"}, &found)
	if len(found.Items) != 1 {
		b.Fatalf("%d Flows found", len(found.Items))
	}
	return saved{found.Items[0].Target, found.Items[0].Generation}
}

func (s *system) describe(b *testing.B, f saved) {
	b.Helper()
	s.call(b, "pxflow_describe", object{"target": f.address}, nil)
}

// A planned is what a plan answers that apply needs.
type planned struct{ PlanRef, PlanDigest string }

// plan changes the expression of a Node.
func (s *system) plan(b *testing.B, f saved, n int) (p planned) {
	b.Helper()
	s.call(b, "pxflow_plan_change", object{"target": f.address, "expectedGeneration": f.generation, "commands": []object{{
		"kind": "SetNodeSetting", "nodeKey": "truck_weight", "settingKey": "results",
		"value": object{"w": object{"expression": fmt.Sprintf("front + middle + rear * %d", n+1), "unit": "kip", "quantityKind": "force"}},
	}}}, &p)
	return p
}

// apply applies a plan and moves f to the revision that it made.
func (s *system) apply(b *testing.B, f *saved, p planned) {
	b.Helper()
	var applied struct {
		NewRevisionRef string
		NewGeneration  int64
	}
	s.call(b, "pxflow_apply_change", object{"target": f.address, "expectedGeneration": f.generation, "planRef": p.PlanRef, "planDigest": p.PlanDigest, "commandId": p.PlanRef}, &applied)
	f.address = object{"scope": f.address["scope"], "flowKey": f.address["flowKey"], "revisionRef": applied.NewRevisionRef}
	f.generation = applied.NewGeneration
}

// BenchmarkWarm is one pxflow_describe of the sample through all there is: HTTP API,
// endpoint, Invoke, tool, DynamoDB. The references are a bare net/http echo and a
// chain of functions that do nothing but one Invoke and one GetItem.
func BenchmarkWarm(b *testing.B) {
	chain, s := startChain(b), startSystem(b)
	echo := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) }))
	defer echo.Close()
	f := s.sampleFlow(b)
	payload, err := json.Marshal(f.address)
	if err != nil {
		b.Fatal(err)
	}
	subjects := []subject{
		{name: "echo", once: func() { post(b, echo.URL, payload) }},
		{name: "noop-chain", once: func() { post(b, chain.URL+"/chain", payload) }, references: []string{"echo"}},
		{"describe", func() { s.describe(b, f) }, []string{"noop-chain", "echo"}, "at most 2 × noop-chain"},
	}
	for range 10 { // processes started, connections open, caches filled
		for _, one := range subjects {
			one.once()
		}
	}
	inTurn(b, nil, subjects...)
}

// BenchmarkCold is from the start of a process to its first answer, for the function
// that does nothing, for every tool, each with its sample event, and for the door of the
// capability host, with its event for a catalog.
func BenchmarkCold(b *testing.B) {
	chain, s := startChain(b), startSystem(b)
	functions := []lambda.Function{}
	payloads := map[string][]byte{}
	for _, f := range slices.Concat(chain.Template.Functions, s.Template.Functions) {
		name, tool := strings.CutPrefix(f.Name, StackName+"-tool-")
		if f.LogicalID == "Nothing" {
			payloads[f.Name] = []byte(`{}`)
		} else if f.LogicalID == "CapabilityApi" {
			event, err := os.ReadFile("../../events/capability_api.catalog.json")
			if err != nil {
				b.Fatal(err)
			}
			payloads[f.Name] = []byte(strings.NewReplacer("Bearer engineer", "Bearer "+s.token, `"team"`, `"structural_team"`).Replace(string(event)))
		} else if !tool {
			continue
		} else {
			event, err := os.ReadFile("../../events/" + name + ".json")
			if err != nil {
				b.Fatal(err)
			}
			// The events name an issuer of nowhere: with the host's own, they are
			// about a Project that is there.
			payloads[f.Name] = bytes.ReplaceAll(event, []byte("https://issuer.example"), []byte(s.URL))
		}
		functions = append(functions, lambda.Function{Name: f.Name, ARN: f.ARN, Bootstrap: filepath.Join(f.CodeDir, "bootstrap"),
			Timeout: f.Timeout, MemoryMB: f.MemoryMB, Environment: f.Environment})
	}
	var subjects []subject
	var host *lambda.Host
	for _, f := range functions {
		one := subject{name: "noop", once: func() {
			out, failed, err := host.Invoke(context.Background(), f.Name, payloads[f.Name])
			if err != nil || failed != "" || bytes.HasPrefix(out, []byte(`{"statusCode"`)) && !bytes.HasPrefix(out, []byte(`{"statusCode":200`)) {
				b.Fatalf("%s: %s %s %v", f.Name, failed, out, err)
			}
		}}
		if string(payloads[f.Name]) != `{}` {
			name := strings.TrimPrefix(strings.TrimPrefix(f.Name, StackName+"-"), "tool-")
			one.name, one.references, one.target = name, []string{"noop"}, "at most 150 ms"
		}
		subjects = append(subjects, one)
	}
	// A host of its own for each round, so that no process is there yet.
	inTurn(b, func() func() {
		var err error
		host, err = lambda.Open(lambda.Options{Functions: functions, Region: Region, Queue: filepath.Join(b.TempDir(), "queue.db"),
			Environment: func(lambda.Function) map[string]string {
				return map[string]string{"AWS_ACCESS_KEY_ID": s.Operator.AccessKeyID, "AWS_SECRET_ACCESS_KEY": s.Operator.SecretAccessKey, "AWS_ENDPOINT_URL": s.AWSEndpoint}
			}})
		if err != nil {
			b.Fatal(err)
		}
		return func() { host.Close() }
	}, subjects...)
}

// BenchmarkRun is a Flow of twelve formulas, each of which needs the one before,
// from pxflow_run to the run_get that finds it Succeeded. It costs three invocations
// and a few transitions of the state machine, as any Flow of built-in Components does,
// for they are one stage. The
// references are executions of three and of twelve tasks that do nothing, from
// StartExecution to the DescribeExecution that finds it SUCCEEDED.
func BenchmarkRun(b *testing.B) {
	chain, s := startChain(b), startSystem(b)
	f := s.create(b, twelve())
	env := environmentOf(chain)
	machines := awssfn.New(env)
	if err := env.Err(); err != nil {
		b.Fatal(err)
	}
	n := 0
	execute := func(logicalID string) func() {
		var arn string
		for _, m := range chain.Template.StateMachines {
			if m.LogicalID == logicalID {
				arn = m.ARN
			}
		}
		return func() {
			ctx := context.Background()
			started, err := machines.StartExecution(ctx, &sfn.StartExecutionInput{StateMachineArn: &arn})
			if err != nil {
				b.Fatal(err)
			}
			for {
				execution, err := machines.DescribeExecution(ctx, &sfn.DescribeExecutionInput{ExecutionArn: started.ExecutionArn})
				if err != nil {
					b.Fatal(err)
				}
				if execution.Status == "SUCCEEDED" {
					return
				}
				if execution.Status != "RUNNING" {
					b.Fatal(execution.Status)
				}
				time.Sleep(poll)
			}
		}
	}
	run := func() {
		n++
		var started struct{ RunRef string }
		s.call(b, "pxflow_run", object{"kind": "RunFlow", "target": f.address, "commandId": fmt.Sprint("bench-", n), "inputs": object{"x": object{"value": n, "unit": "kN"}}}, &started)
		for {
			var report struct{ State string }
			s.call(b, "run_get", object{"runRef": started.RunRef}, &report)
			if report.State == "Succeeded" {
				return
			}
			if report.State != "Queued" && report.State != "Running" {
				b.Fatal(report.State)
			}
			time.Sleep(poll)
		}
	}
	subjects := []subject{
		{name: "3-noop-tasks", once: execute("Three")}, {name: "12-noop-tasks", once: execute("Twelve")},
		{"run", run, []string{"3-noop-tasks", "12-noop-tasks"}, "at most 500 ms"},
	}
	for range 3 {
		for _, one := range subjects {
			one.once()
		}
	}
	inTurn(b, nil, subjects...)
}

// poll is how often a client asks how far an execution or a Run is.
const poll = 2 * time.Millisecond

// twelve is a Flow of twelve formulas in a row.
func twelve() object {
	number := object{"type": "number", "unit": "kN", "shape": "scalar"}
	nodes := object{}
	for i := range 12 {
		from := object{"kind": "flowInput", "portKey": "x"}
		if i > 0 {
			from = object{"kind": "nodeResult", "nodeKey": fmt.Sprintf("n%02d", i-1), "portKey": "y"}
		}
		nodes[fmt.Sprintf("n%02d", i)] = object{
			"target":        object{"kind": "component", "componentKey": "px.formula", "version": 1},
			"settings":      object{"inputs": object{"x": object{"unit": "kN"}}, "results": object{"y": object{"expression": fmt.Sprintf("x * 1.5 + %d * sqrt(x * x)", i), "unit": "kN"}}},
			"inputBindings": object{"x": from},
		}
	}
	result := object{"type": "number", "unit": "kN", "shape": "scalar", "binding": object{"kind": "nodeResult", "nodeKey": "n11", "portKey": "y"}}
	return object{"format": "pxflow/1", "flowKey": "twelve", "label": object{"en": "Twelve"}, "authoring": object{"kind": "native"},
		"inputs": object{"x": number}, "results": object{"y": result}, "nodes": nodes}
}

// create saves a new Flow.
func (s *system) create(b *testing.B, document object) saved {
	b.Helper()
	text, err := json.Marshal(document)
	if err != nil {
		b.Fatal(err)
	}
	doc, findings := flow.Decode(text)
	if findings.Refused() {
		b.Fatal(findings)
	}
	_, ref, err := doc.RevisionRef()
	if err != nil {
		b.Fatal(err)
	}
	f := saved{address: object{"scope": sample.Project.Scope(), "flowKey": doc.FlowKey, "revisionRef": ref}}
	var p planned
	s.call(b, "pxflow_plan_change", object{"target": f.address, "expectedGeneration": 0, "commands": []object{{"kind": "CreateFlow", "document": document}}}, &p)
	s.apply(b, &f, p)
	return f
}

// BenchmarkSize is describing, planning and applying a change of one Flow in a
// Project of 20,000 Flows, beside the same in one of 100. Each call meets the
// catalog that the change before it made.
func BenchmarkSize(b *testing.B) {
	s := startSystem(b)
	small, large := s.load(b, 100, 100), s.load(b, 20_000, 20_000)
	n := 0
	next := func(of []saved) *saved { return &of[n*7919%len(of)] }
	var a, z planned
	subjects := []subject{
		{name: "describe", once: func() { s.describe(b, *next(small)) }},
		{"describe-of-20000", func() { s.describe(b, *next(large)) }, []string{"describe"}, "at most 1.5 × describe"},
		{name: "plan", once: func() { a = s.plan(b, *next(small), n) }},
		{"plan-of-20000", func() { z = s.plan(b, *next(large), n) }, []string{"plan"}, "at most 1.5 × plan"},
		{name: "apply", once: func() { s.apply(b, next(small), a) }},
		{"apply-of-20000", func() { s.apply(b, next(large), z); n++ }, []string{"apply"}, "at most 1.5 × apply"},
	}
	for range 3 {
		for _, one := range subjects {
			one.once()
		}
	}
	inTurn(b, nil, subjects...)
}

// BenchmarkScale is searching, describing, planning and applying in a Project of
// 100,000 Flows, warm, beside the same in one of 100. A search is for everything, its
// first page and its 500th; for words that all have, a word that one has, the key of
// one, a word that none has, and words that all neighbours have and none both: that
// search ends where a call's bound is, with a cursor. Each call but the 500th page
// meets the catalog that the change before it made.
func BenchmarkScale(b *testing.B) {
	s := startSystem(b)
	small, large := s.load(b, 100, 100), s.load(b, 100_000, 100)
	type page struct {
		Items      []json.RawMessage
		NextCursor string
	}
	search := func(of []saved, query, cursor string, want int, more bool) (p page) {
		arguments := object{"scope": of[0].address["scope"], "query": query}
		if cursor != "" {
			arguments["cursor"] = cursor
		}
		s.call(b, "pxflow_search", arguments, &p)
		if len(p.Items) != want || (p.NextCursor != "") != more {
			b.Fatalf("%q: %d found, want %d; more %v", query, len(p.Items), want, p.NextCursor != "")
		}
		return p
	}
	cursor := "" // of the 500th page
	for range 499 {
		cursor = search(large, "", cursor, 25, true).NextCursor
	}
	n := 0
	next := func(of []saved) *saved { return &of[n*7919%len(of)] }
	var a, z planned
	const most = "at most 60 ms"
	subjects := []subject{
		{name: "search", once: func() { search(small, "", "", 25, true) }},
		{"of-100000", func() { search(large, "", "", 25, true) }, []string{"search"}, most},
		{"page-500", func() { search(large, "", cursor, 25, true) }, []string{"search"}, most},
		{"common-word", func() { search(large, "거더 girder", "", 25, true) }, []string{"search"}, most},
		{"word-of-one", func() { search(large, "교대", "", 1, false) }, []string{"search"}, most},
		{"key-of-one", func() { search(large, "girder_077777", "", 1, false) }, []string{"search"}, most},
		{"word-of-none", func() { search(large, "pylon", "", 0, false) }, []string{"search"}, most},
		{"words-of-no-entry", func() { search(large, "odd even", "", 0, true) }, []string{"search"}, most + ", and goes on"},
		{name: "describe", once: func() { s.describe(b, *next(small)) }},
		{"describe-of-100000", func() { s.describe(b, *next(large)) }, []string{"describe"}, most},
		{name: "plan", once: func() { a = s.plan(b, *next(small), n) }},
		{"plan-of-100000", func() { z = s.plan(b, *next(large), n) }, []string{"plan"}, "at most 1.5 × plan"},
		{name: "apply", once: func() { s.apply(b, next(small), a) }},
		{"apply-of-100000", func() { s.apply(b, next(large), z); n++ }, []string{"apply"}, "at most 1.5 × apply"},
	}
	for range 3 {
		for _, one := range subjects {
			one.once()
		}
	}
	inTurn(b, nil, subjects...)
}

// BenchmarkScaleCold is the first answer of a new process in a Project of 100,000
// Flows, from the start of the process, beside the same in one of 100.
func BenchmarkScaleCold(b *testing.B) {
	s := startSystem(b)
	small, large := s.load(b, 100, 1), s.load(b, 100_000, 1)
	functions := map[string]lambda.Function{}
	for _, f := range s.Template.Functions {
		name := strings.TrimPrefix(f.Name, StackName+"-tool-")
		functions[name] = lambda.Function{Name: f.Name, ARN: f.ARN, Bootstrap: filepath.Join(f.CodeDir, "bootstrap"), Timeout: f.Timeout, MemoryMB: f.MemoryMB, Environment: f.Environment}
	}
	var host *lambda.Host
	first := func(name string, arguments object) func() {
		event, err := os.ReadFile("../../events/" + name + ".json")
		if err != nil {
			b.Fatal(err)
		}
		var request object
		if err := json.Unmarshal(bytes.ReplaceAll(event, []byte("https://issuer.example"), []byte(s.URL)), &request); err != nil {
			b.Fatal(err)
		}
		request["arguments"] = arguments
		payload, err := json.Marshal(request)
		if err != nil {
			b.Fatal(err)
		}
		return func() {
			// A host of its own for each call, so that no process is there yet.
			out, failed, err := host.Invoke(context.Background(), functions[name].Name, payload)
			if err != nil || failed != "" || !bytes.Contains(out, []byte(`"ok":true`)) {
				b.Fatalf("%s: %s %.500s %v", name, failed, out, err)
			}
			host.Close()
			host = s.newHost(b, functions)
		}
	}
	scope := large[0].address["scope"]
	subjects := []subject{
		{name: "search", once: first("pxflow_search", object{"scope": small[0].address["scope"]})},
		{name: "of-100000", once: first("pxflow_search", object{"scope": scope}), references: []string{"search"}},
		{name: "key-of-one", once: first("pxflow_search", object{"scope": scope, "query": "girder_077777"}), references: []string{"search"}},
		{name: "word-of-none", once: first("pxflow_search", object{"scope": scope, "query": "pylon"}), references: []string{"search"}},
		{name: "describe", once: first("pxflow_describe", object{"target": small[0].address})},
		{name: "describe-of-100000", once: first("pxflow_describe", object{"target": large[0].address}), references: []string{"describe"}},
	}
	host = s.newHost(b, functions)
	defer func() { host.Close() }()
	inTurn(b, nil, subjects...)
}

// newHost opens a host of functions none of which has a process yet.
func (s *system) newHost(b *testing.B, functions map[string]lambda.Function) *lambda.Host {
	b.Helper()
	var all []lambda.Function
	for _, f := range functions {
		all = append(all, f)
	}
	host, err := lambda.Open(lambda.Options{Functions: all, Region: Region, Queue: filepath.Join(b.TempDir(), "queue.db"),
		Environment: func(lambda.Function) map[string]string {
			return map[string]string{"AWS_ACCESS_KEY_ID": s.Operator.AccessKeyID, "AWS_SECRET_ACCESS_KEY": s.Operator.SecretAccessKey, "AWS_ENDPOINT_URL": s.AWSEndpoint}
		}})
	if err != nil {
		b.Fatal(err)
	}
	return host
}

// load makes a Project of so many Flows, without a plan for each: what the
// catalog, the documents and the head are is what as many applied plans would
// have left. Only some of the documents are stored, spread over all, and returned.
func (s *system) load(b *testing.B, flows, stored int) []saved {
	b.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	project := target.Project{WorkspaceKey: "bench", ProjectKey: fmt.Sprintf("flows_%d", flows)}
	space, engineer := history.Space(project.String()), s.URL+"|engineer"
	admin := s.parts.Projects()
	if err := errors.Join(admin.Create(ctx, project, target.Label{"en": "Bench"}, ""), admin.SetGrant(ctx, project, engineer, []policy.Right{policy.Read, policy.Edit, policy.Run})); err != nil {
		b.Fatal(err)
	}
	doc, findings := flow.Decode(sample.GirderCheck)
	if findings.Refused() {
		b.Fatal(findings)
	}
	var out []saved
	var changes []history.Change
	var bodies [][]byte
	common := search.Normalize(flow.SearchText(doc)...)
	for i := range flows {
		doc.FlowKey = fmt.Sprintf("girder_%06d", i)
		doc.Label = target.Label{"en": fmt.Sprintf("Girder check %d %s", i, []string{"even", "odd"}[i%2]), "ko": fmt.Sprintf("거더 검토 %d", i)}
		if i == flows*2/3 {
			doc.Label["ko"] += " 교대"
		}
		// What is not stored has a revision that nobody reads, and a text that is
		// put together: encoding and folding 100,000 documents takes half a minute.
		ref, text := string(history.RefOf([]byte(doc.FlowKey))), common+"\n"+search.Normalize(doc.FlowKey, doc.Label["en"], doc.Label["ko"])
		if i%(flows/stored) == 0 {
			var document []byte
			var err error
			if document, ref, err = doc.RevisionRef(); err != nil {
				b.Fatal(err)
			}
			text = search.Normalize(flow.SearchText(doc)...)
			bodies = append(bodies, document)
			out = append(out, saved{address: object{"scope": project.Scope(), "flowKey": doc.FlowKey, "revisionRef": ref}})
		}
		key := history.Key("flow", doc.FlowKey)
		changes = append(changes,
			history.Change{Key: key, Text: &text, Entry: &history.Entry{RevisionRef: history.Ref(ref), Label: doc.Label, Uses: flow.Uses(doc)}},
			history.Change{Key: history.RevisionKey(key, history.Ref(ref)), Entry: &history.Entry{RevisionRef: history.Ref(ref)}})
	}
	root, nodes, err := s.parts.Catalog.Stage(ctx, space, "", changes)
	if err != nil {
		b.Fatal(err)
	}
	commit, body, err := history.EncodeCommit(history.Commit{Root: root, Version: 1, Principal: engineer, CommittedAt: time.Now()})
	if err != nil {
		b.Fatal(err)
	}
	grant, err := s.parts.Store.Grant(ctx, project, engineer)
	if err != nil {
		b.Fatal(err)
	}
	now := time.Now()
	row := change.PlanRow{PlanRef: "plan_load_" + project.ProjectKey, Space: space, Tool: "load", Principal: engineer, Digest: "load", Body: commit, CreatedAt: now, ExpiresAt: now.Add(time.Hour), State: change.PlanOpen}
	err = errors.Join(
		s.parts.Store.Put(ctx, space, slices.Concat(bodies, nodes, [][]byte{body})...),
		s.parts.Store.CreatePlan(ctx, row),
		s.parts.Store.Commit(ctx, change.Commitment{Space: space, Next: history.Head{Commit: commit, Root: root, Version: 1},
			Command: change.CommandRow{Key: "load", PlanRef: row.PlanRef, PlanDigest: row.Digest, Answer: commit},
			PlanRef: row.PlanRef, Now: now, Principal: engineer, GrantVersion: grant.Version}))
	if err != nil {
		b.Fatal(err)
	}
	return out
}
