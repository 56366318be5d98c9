// Package functions holds the Lambdas' directories, the template, the catalog of
// tools and the sample events against each other.
package functions

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pxhost/pxhost/infra/local/apigateway"
	"github.com/pxhost/pxhost/infra/local/template"
	"github.com/pxhost/pxhost/shared/boot/plugins"
	capabilities "github.com/pxhost/pxhost/shared/capability/door"
	"github.com/pxhost/pxhost/shared/draft"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/resource"
	"github.com/pxhost/pxhost/shared/review"
	"github.com/pxhost/pxhost/shared/review/door"
	"github.com/pxhost/pxhost/shared/run/task"
	"github.com/pxhost/pxhost/shared/sandbox"
	"github.com/pxhost/pxhost/shared/schema"
	"github.com/pxhost/pxhost/shared/store/capacity"
	"github.com/pxhost/pxhost/shared/tool"
	"github.com/pxhost/pxhost/shared/tool/catalog"
	"github.com/pxhost/pxhost/shared/tool/catalog/tools"
	"github.com/pxhost/pxhost/shared/wire/event"
	"github.com/pxhost/pxhost/shared/wire/legacy"
)

const stack = "pxhost"

// oldEndpoint is the isolated function of a legacy cohort.
const oldEndpoint = "arn:aws:lambda:eu-central-1:111111111111:function:old"

func load(t *testing.T) *template.Template {
	t.Helper()
	tpl, err := template.Load("../template.yaml", template.Options{Region: "eu-central-1", AccountID: "000000000000", StackName: stack, APIEndpoint: "https://api",
		Parameters: map[string]string{"IssuerUrl": "https://issuer.example", "SandboxImage": "worker", "LegacyFunction": oldEndpoint}})
	if err != nil {
		t.Fatal(err)
	}
	return tpl
}

func directories(t *testing.T) []string {
	t.Helper()
	mains, err := filepath.Glob("*/main.go")
	if err != nil || len(mains) == 0 {
		t.Fatal(mains, err)
	}
	inPython, err := filepath.Glob("*/app.py")
	if err != nil || len(inPython) == 0 {
		t.Fatal(inPython, err)
	}
	mains = append(mains, inPython...)
	for i, m := range mains {
		mains[i] = filepath.Dir(m)
	}
	slices.Sort(mains)
	return mains
}

func toolNames() []string {
	var names []string
	for _, d := range tools.All() {
		names = append(names, d.Spec().Name)
	}
	return names
}

// pascal is the logical ID of a directory: pxflow_plan_change is PxflowPlanChange.
func pascal(name string) string {
	var out strings.Builder
	for _, part := range strings.Split(name, "_") {
		out.WriteString(strings.ToUpper(part[:1]) + part[1:])
	}
	return out.String()
}

// covers: H1, H3
func TestEveryDirectoryIsOneFunctionOfTheTemplate(t *testing.T) {
	tpl := load(t)
	declared := map[string]template.Function{}
	for _, f := range tpl.Functions {
		declared[f.LogicalID] = f
	}
	for _, dir := range directories(t) {
		f, ok := declared[pascal(dir)]
		if !ok {
			t.Errorf("%s has no resource %s", dir, pascal(dir))
			continue
		}
		delete(declared, pascal(dir))
		if want := filepath.Join(".build", "functions", dir); !strings.HasSuffix(f.CodeDir, want) {
			t.Errorf("%s runs %s", dir, f.CodeDir)
		}
		name := stack + "-" + dir
		if slices.Contains(toolNames(), dir) {
			name = stack + "-tool-" + dir
		}
		if f.Name != name {
			t.Errorf("%s is named %s, want %s", dir, f.Name, name)
		}
	}
	for id := range declared {
		t.Errorf("the resource %s has no directory", id)
	}
}

// Clients read what is asked of them in WWW-Authenticate, which API Gateway renames. The
// console asks nothing of clients: its 401 is a page that a person reads.
//
// covers: W9
func TestEveryRouteGivesBackTheChallengeThatAPIGatewayRenames(t *testing.T) {
	want := []apigateway.Mapping{{Action: "overwrite", Header: "Www-Authenticate", From: event.ChallengeHeader}, {Action: "remove", Header: event.ChallengeHeader}}
	for _, r := range load(t).Routes {
		if r.Function == stack+"-console" {
			continue
		}
		for _, status := range []int{401, 403} {
			if !reflect.DeepEqual(r.Responses[status], want) {
				t.Errorf("%s %s: a %d has no WWW-Authenticate", r.Method, r.Path, status)
			}
		}
	}
}

// A route that one side alone knows would be 404, or never reached.
//
// covers: H1, T4, U6
func TestTheDoorsServeTheRoutesOfTheTemplate(t *testing.T) {
	for function, served := range map[string][]string{
		"review_api":     door.New(nil, tool.Frame{}, (*review.Reviews)(nil), resource.Resources{}, draft.Drafts{}).Routes(),
		"capability_api": capabilities.New(nil, tool.Frame{}, capabilities.Host{}).Routes(),
	} {
		var routed []string
		for _, r := range load(t).Routes {
			if r.Function == stack+"-"+function {
				routed = append(routed, r.Method+" "+r.Path)
			}
		}
		slices.Sort(routed)
		if !slices.Equal(served, routed) {
			t.Errorf("%s serves %q, the template routes %q", function, served, routed)
		}
		samples, err := filepath.Glob("../events/" + function + "*.json")
		if err != nil || len(samples) < 2 {
			t.Fatal(samples, err)
		}
		for _, name := range samples {
			var event struct{ RouteKey string }
			if text, err := os.ReadFile(name); err != nil || json.Unmarshal(text, &event) != nil || !slices.Contains(routed, event.RouteKey) {
				t.Errorf("%s is of the route %q: %v", name, event.RouteKey, err)
			}
		}
	}
}

// covers: H1, W7
func TestEveryToolIsALambdaOfItsOwn(t *testing.T) {
	dirs := directories(t)
	for _, name := range toolNames() {
		if !slices.Contains(catalog.Order, name) {
			t.Errorf("%s is not in the fixed catalog", name)
		}
		if !slices.Contains(dirs, name) {
			t.Errorf("the tool %s has no Lambda", name)
		}
	}
	for _, dir := range dirs {
		if slices.Contains(catalog.Order, dir) && !slices.Contains(toolNames(), dir) {
			t.Errorf("the Lambda %s is no tool that tools/list lists", dir)
		}
	}
}

// The sample events are what each Lambda really takes.
//
// covers: H2
func TestEveryFunctionHasASampleEventThatItAccepts(t *testing.T) {
	definitions := map[string]tool.Defined{}
	for _, d := range tools.All() {
		definitions[d.Spec().Name] = d
	}
	payloads := map[string]func([]byte) outcome.Findings{
		"run_prepare":   func(text []byte) outcome.Findings { return schema.Decode(text, new(task.PrepareInput)) },
		"run_node":      func(text []byte) outcome.Findings { return schema.Decode(text, new(task.NodeInput)) },
		"run_finish":    func(text []byte) outcome.Findings { return schema.Decode(text, new(task.FinishInput)) },
		"batch_prepare": func(text []byte) outcome.Findings { return schema.Decode(text, new(task.RoundInput)) },
		"batch_merge":   func(text []byte) outcome.Findings { return schema.Decode(text, new(task.MergeInput)) },
	}
	files, err := filepath.Glob("../events/*.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		// A function may have more than one, told apart behind a dot.
		if name, _, _ := strings.Cut(filepath.Base(f), "."); !slices.Contains(directories(t), name) {
			t.Errorf("%s is an event of no function", f)
		}
	}
	for _, dir := range directories(t) {
		text, err := os.ReadFile("../events/" + dir + ".json")
		if err != nil {
			t.Error(err)
			continue
		}
		switch d, check := definitions[dir], payloads[dir]; {
		case d != nil:
			var request tool.Request
			if err := json.Unmarshal(text, &request); err != nil || request.Version != tool.RequestVersion || request.Tool != dir {
				t.Errorf("%s: %v", dir, err)
			}
			if found := d.Check(request.Arguments); found.Refused() {
				t.Errorf("%s: its arguments are refused: %+v", dir, found)
			}
		case check != nil:
			if found := check(text); found.Refused() {
				t.Errorf("%s: refused: %+v", dir, found)
			}
		case strings.HasPrefix(dir, "adapter_"):
			if found := schema.Decode(text, new(plugins.Event)); found.Refused() {
				t.Errorf("%s: refused: %+v", dir, found)
			}
		case dir == "sandbox_broker":
			if _, err := sandbox.DecodeRequest(text); err != nil {
				t.Errorf("%s: refused: %v", dir, err)
			}
		default:
			if !json.Valid(text) {
				t.Errorf("%s: not JSON", dir)
			}
		}
	}
}

// grants are the permissions that each constructor needs, as action@resource.
// Resources are logical IDs, with what follows the ARN behind them. Without
// ListBucket, S3 answers 403 and not 404 for a key that is missing.
var grants = map[string][]string{
	"p.Frame":    {"dynamodb:GetItem@Host", "dynamodb:Query@Host", "dynamodb:PutItem@Host"}, // the cursor keys
	"p.Reader":   {"dynamodb:BatchGetItem@Heads", "dynamodb:GetItem@Objects", "dynamodb:BatchGetItem@Objects", "s3:GetObject@Bucket/*", "s3:ListBucket@Bucket"},
	"p.Projects": {"dynamodb:GetItem@Heads", "dynamodb:GetItem@Objects", "dynamodb:BatchGetItem@Objects", "s3:GetObject@Bucket/*", "s3:ListBucket@Bucket"},
	"p.Store":    {"dynamodb:BatchGetItem@Heads"}, // grants
	"p.Links":    {"dynamodb:GetItem@Host", "dynamodb:Query@Host", "dynamodb:PutItem@Host"},
	"p.Handles":  {"dynamodb:GetItem@Host", "dynamodb:Query@Host", "dynamodb:PutItem@Host"},
	"p.Drafts":   {"dynamodb:GetItem@Heads", "dynamodb:BatchWriteItem@Objects", "s3:PutObject@Bucket/*", "dynamodb:GetItem@Host", "dynamodb:Query@Host", "dynamodb:PutItem@Host"},
	"resources.New": {"dynamodb:GetItem@Heads", "dynamodb:GetItem@Objects", "dynamodb:BatchGetItem@Objects", "s3:GetObject@Bucket/*", "s3:ListBucket@Bucket", "s3:PutObject@Bucket/*",
		"dynamodb:GetItem@Host", "dynamodb:Query@Host", "dynamodb:PutItem@Host"},
	"p.Results":  {"dynamodb:Query@Runs", "dynamodb:GetItem@Objects", "dynamodb:BatchGetItem@Objects", "s3:GetObject@Bucket/*", "s3:ListBucket@Bucket"},
	"p.Queue":    {"dynamodb:GetItem@Heads", "dynamodb:BatchGetItem@Changes", "dynamodb:Query@Changes/index/due"},
	"p.Sessions": {"dynamodb:GetItem@Host", "dynamodb:PutItem@Host"},
	"p.Reviews": {"dynamodb:GetItem@Heads", "dynamodb:GetItem@Objects", "dynamodb:BatchGetItem@Objects", "s3:GetObject@Bucket/*", "s3:ListBucket@Bucket",
		"dynamodb:GetItem@Changes", "dynamodb:PutItem@Changes"},
	"p.Planner": {"dynamodb:GetItem@Objects", "dynamodb:BatchGetItem@Objects", "dynamodb:BatchWriteItem@Objects",
		"s3:GetObject@Bucket/*", "s3:ListBucket@Bucket", "s3:PutObject@Bucket/*", "dynamodb:GetItem@Changes", "dynamodb:PutItem@Changes"},
	"p.Applier": {"dynamodb:BatchGetItem@Heads", "dynamodb:BatchGetItem@Changes", "dynamodb:GetItem@Heads", "dynamodb:PutItem@Heads", "dynamodb:ConditionCheckItem@Heads",
		"dynamodb:GetItem@Objects", "dynamodb:BatchGetItem@Objects", "dynamodb:BatchWriteItem@Objects", "s3:GetObject@Bucket/*", "s3:ListBucket@Bucket", "s3:PutObject@Bucket/*",
		"dynamodb:GetItem@Changes", "dynamodb:PutItem@Changes", "dynamodb:UpdateItem@Changes"},
	"pxflowrun.New": {"dynamodb:BatchGetItem@Heads", "dynamodb:BatchGetItem@Changes", "dynamodb:GetItem@Heads", "dynamodb:ConditionCheckItem@Heads",
		"dynamodb:GetItem@Objects", "dynamodb:BatchGetItem@Objects", "dynamodb:BatchWriteItem@Objects", "s3:GetObject@Bucket/*", "s3:ListBucket@Bucket", "s3:PutObject@Bucket/*",
		"dynamodb:GetItem@Changes", "dynamodb:PutItem@Changes", "dynamodb:UpdateItem@Changes", "dynamodb:GetItem@Runs", "dynamodb:PutItem@Runs", "dynamodb:Query@Runs", "dynamodb:UpdateItem@Runs",
		"states:StartExecution@FlowRun", "states:StartExecution@FlowBatch"},
	"runget.New":     {"dynamodb:GetItem@Heads", "dynamodb:GetItem@Runs", "dynamodb:BatchGetItem@Runs", "dynamodb:Query@Runs", "dynamodb:GetItem@Objects", "dynamodb:BatchGetItem@Objects", "s3:GetObject@Bucket/*", "s3:ListBucket@Bucket"},
	"resultread.New": {"dynamodb:GetItem@Heads", "dynamodb:GetItem@Runs", "dynamodb:GetItem@Objects", "dynamodb:BatchGetItem@Objects", "s3:GetObject@Bucket/*", "s3:ListBucket@Bucket"},
	// Of a Batch, its cases and what of them is under way.
	"runcancel.New": {"dynamodb:GetItem@Heads", "dynamodb:GetItem@Runs", "dynamodb:BatchGetItem@Runs", "dynamodb:Query@Runs", "dynamodb:PutItem@Runs",
		"dynamodb:GetItem@Objects", "dynamodb:BatchGetItem@Objects", "s3:GetObject@Bucket/*", "s3:ListBucket@Bucket"},
	"t.Prepare": {"dynamodb:GetItem@Runs", "dynamodb:PutItem@Runs", "dynamodb:Query@Runs", "dynamodb:UpdateItem@Runs", "dynamodb:GetItem@Objects", "dynamodb:BatchGetItem@Objects",
		"dynamodb:BatchWriteItem@Objects", "s3:GetObject@Bucket/*", "s3:ListBucket@Bucket", "s3:PutObject@Bucket/*"},
	"t.PrepareBatch": {"dynamodb:GetItem@Runs", "dynamodb:PutItem@Runs", "s3:GetObject@Bucket/*", "s3:ListBucket@Bucket"},
	"t.Merge": {"dynamodb:GetItem@Runs", "dynamodb:BatchGetItem@Runs", "dynamodb:PutItem@Runs", "dynamodb:Query@Runs", "dynamodb:UpdateItem@Runs",
		"dynamodb:GetItem@Objects", "dynamodb:BatchGetItem@Objects", "dynamodb:BatchWriteItem@Objects", "s3:GetObject@Bucket/*", "s3:ListBucket@Bucket", "s3:PutObject@Bucket/*"},
	"t.Node": {"dynamodb:GetItem@Runs", "dynamodb:PutItem@Runs", "dynamodb:GetItem@Objects", "dynamodb:BatchGetItem@Objects", "dynamodb:BatchWriteItem@Objects",
		"s3:GetObject@Bucket/*", "s3:ListBucket@Bucket", "s3:PutObject@Bucket/*"},
	"t.Finish": {"dynamodb:GetItem@Runs", "dynamodb:PutItem@Runs", "dynamodb:UpdateItem@Runs", "dynamodb:GetItem@Objects", "dynamodb:BatchGetItem@Objects", "dynamodb:BatchWriteItem@Objects",
		"s3:GetObject@Bucket/*", "s3:ListBucket@Bucket", "s3:PutObject@Bucket/*"},
	"t.Tick": {"dynamodb:GetItem@Runs", "dynamodb:BatchGetItem@Runs", "dynamodb:PutItem@Runs", "dynamodb:Query@Runs", "dynamodb:UpdateItem@Runs", "dynamodb:Query@Runs/index/due",
		"dynamodb:GetItem@Objects", "dynamodb:BatchGetItem@Objects", "dynamodb:BatchWriteItem@Objects", "s3:GetObject@Bucket/*", "s3:ListBucket@Bucket", "s3:PutObject@Bucket/*",
		"states:StartExecution@FlowRun", "states:DescribeExecution@FlowRun/execution", "states:StopExecution@FlowRun/execution",
		"states:StartExecution@FlowBatch", "states:DescribeExecution@FlowBatch/execution", "states:StopExecution@FlowBatch/execution",
		"states:DescribeExecution@FlowBatch/child", "states:StopExecution@FlowBatch/child", "ecs:DescribeTasks@SandboxCluster/task"},
	"p.ReadRuns":       {"dynamodb:GetItem@Heads", "dynamodb:GetItem@Runs", "dynamodb:GetItem@Objects", "dynamodb:BatchGetItem@Objects", "s3:GetObject@Bucket/*", "s3:ListBucket@Bucket"},
	"p.RunList":        {"dynamodb:GetItem@Heads", "dynamodb:BatchGetItem@Runs", "dynamodb:Query@Runs/index/listed"},
	"toolcall.New":     {"lambda:InvokeFunction@tools"},
	"pythonsource.New": {"lambda:InvokeFunction@PythonSource"},
	"isolated.New":     {"lambda:InvokeFunction@" + oldEndpoint},
	// The job key, the rows and objects of jobs, the tokens, and the task that works.
	"jobs.New": {"dynamodb:GetItem@Host", "dynamodb:PutItem@Host", "dynamodb:GetItem@Runs", "dynamodb:PutItem@Runs", "dynamodb:DeleteItem@Runs", "dynamodb:Query@Runs",
		"dynamodb:GetItem@Objects", "dynamodb:BatchGetItem@Objects", "dynamodb:BatchWriteItem@Objects", "s3:GetObject@Bucket/*", "s3:ListBucket@Bucket", "s3:PutObject@Bucket/*",
		"states:SendTaskSuccess@*", "states:SendTaskFailure@*", "ecs:RunTask@SandboxTask", "iam:PassRole@SandboxTaskRole", "iam:PassRole@SandboxExecutionRole"},
	// The same without tokens: no state machine waits for the job of a plugin.
	"jobs.Entrypoints": {"dynamodb:GetItem@Host", "dynamodb:PutItem@Host", "dynamodb:GetItem@Runs", "dynamodb:PutItem@Runs", "dynamodb:DeleteItem@Runs", "dynamodb:Query@Runs",
		"dynamodb:GetItem@Objects", "dynamodb:BatchGetItem@Objects", "dynamodb:BatchWriteItem@Objects", "s3:GetObject@Bucket/*", "s3:ListBucket@Bucket", "s3:PutObject@Bucket/*",
		"ecs:RunTask@SandboxTask", "iam:PassRole@SandboxTaskRole", "iam:PassRole@SandboxExecutionRole"},
	"jobs.Brokered": {"dynamodb:GetItem@Runs", "dynamodb:PutItem@Runs", "dynamodb:DeleteItem@Runs", "dynamodb:Query@Runs",
		"dynamodb:GetItem@Objects", "dynamodb:BatchGetItem@Objects", "dynamodb:BatchWriteItem@Objects", "s3:GetObject@Bucket/*", "s3:ListBucket@Bucket", "s3:PutObject@Bucket/*",
		"states:SendTaskSuccess@*", "states:SendTaskFailure@*"},
	// The capability host. Its rows are read by key and by partition, and written one by
	// one or, where a change moves a generation, in a transaction.
	"h.Frame":         {"dynamodb:GetItem@Host", "dynamodb:Query@Host", "dynamodb:PutItem@Host"},
	"h.Store":         {"dynamodb:GetItem@Host", "dynamodb:Query@Host"},
	"h.Reader":        {"dynamodb:GetItem@Host", "dynamodb:Query@Host", "dynamodb:GetItem@Objects", "dynamodb:BatchGetItem@Objects", "s3:GetObject@Bucket/*", "s3:ListBucket@Bucket"},
	"h.Manager":       append(slices.Clone(performs), "dynamodb:BatchGetItem@Host", "dynamodb:DeleteItem@Host"),
	"h.Desk":          append(slices.Clone(performs), invokes...),
	"h.Serve":         performs,
	"h.SandboxPython": append(slices.Clone(performs), applies...),
	"h.Completed":     append(slices.Clone(performs), applies...),
	"h.CalendarStore": append(slices.Clone(performs), applies...),
	"h.Minute":        slices.Concat(performs, applies, invokes, []string{"dynamodb:Query@Host/index/due"}),
	// What calls outside opens credentials, and seals those that it renews.
	"h.Connections": append(slices.Clone(credentials), "dynamodb:DeleteItem@Host"),
	"h.HTTPJSON":    append(slices.Clone(performs), credentials...),
	"h.MCPHTTP":     append(slices.Clone(performs), credentials...),
	// A job is cancelled: its row, its place in the queue, its token.
	"jobs.Ending": {"dynamodb:GetItem@Runs", "dynamodb:PutItem@Runs", "dynamodb:DeleteItem@Runs", "states:SendTaskSuccess@*", "states:SendTaskFailure@*"},
}

// rowsOf are the partitions of the Host table that a constructor needs. Nothing that reads
// what clients send reaches the rows of another: no tool can make a session of a person,
// or give itself a right.
func rowsOf(constructor string) string {
	switch {
	case constructor == "p.Sessions":
		return "session#*"
	case strings.HasPrefix(constructor, "jobs."):
		return "sandbox"
	case strings.HasPrefix(constructor, "h.") && constructor != "h.Frame":
		return "connection#* execution#* instance#* members#* notification#* storage#* told#* workspace#*"
	}
	return "cursor"
}

// invokes is what it takes to have executions performed, by all adapters that there are.
var invokes = []string{"lambda:InvokeFunction@AdapterTextTemplate", "lambda:InvokeFunction@AdapterCalendarStore", "lambda:InvokeFunction@AdapterHttpJson", "lambda:InvokeFunction@AdapterMcpHttp",
	"lambda:InvokeFunction@AdapterSandboxPython"}

// applies is what it takes to apply the actions of a result: storage is read by key, held
// to its versions, changed and deleted.
var applies = []string{"dynamodb:BatchGetItem@Host", "dynamodb:ConditionCheckItem@Host", "dynamodb:DeleteItem@Host"}

// credentials is what it takes to use and to renew the secret of a Connection. The key
// opens nothing that was not sealed for one.
var credentials = []string{"dynamodb:GetItem@Host", "dynamodb:Query@Host", "dynamodb:PutItem@Host", "kms:Decrypt@ConnectionKey for connection and workspace", "kms:GenerateDataKey@ConnectionKey for connection and workspace"}

// performs is what every execution needs: what is installed, its record, its arguments
// and its result.
var performs = []string{"dynamodb:GetItem@Host", "dynamodb:Query@Host", "dynamodb:PutItem@Host",
	"dynamodb:GetItem@Objects", "dynamodb:BatchGetItem@Objects", "dynamodb:BatchWriteItem@Objects", "s3:GetObject@Bucket/*", "s3:ListBucket@Bucket", "s3:PutObject@Bucket/*"}

var constructor = regexp.MustCompile(`\b(?:h\.[A-Z]\w*|p\.[A-Z]\w*|t\.[A-Z]\w*|toolcall\.New|pythonsource\.New|isolated\.New|resources\.New|pxflowrun\.New|runget\.New|runcancel\.New|resultread\.New|jobs\.[A-Z]\w*)\b`)

// A policy grants exactly what the constructors in main need: nothing is missing,
// and nothing is there that no code of this Lambda uses.
//
// covers: H1
func TestPoliciesGrantWhatTheConstructorsNeedAndNothingElse(t *testing.T) {
	tpl := load(t)
	for _, f := range tpl.Functions {
		dir := filepath.Base(f.CodeDir)
		source, err := os.ReadFile(dir + "/main.go")
		if f.Handler != "" {
			source, err = nil, nil // Python parses, and calls nothing of AWS
		}
		if err != nil {
			t.Error(err)
			continue
		}
		need := map[string]bool{}
		for _, name := range constructor.FindAllString(string(source), -1) {
			for _, g := range grants[name] {
				if strings.HasSuffix(g, "@Host") {
					g += " of " + rowsOf(name)
				}
				need[g] = true
			}
			if grants[name] == nil {
				t.Errorf("%s: nothing says what %s needs", dir, name)
			}
		}
		have := map[string]bool{}
		for _, s := range f.Policy {
			for _, a := range s.Actions {
				for _, r := range s.Resources {
					name := fmt.Sprintf("%s@%s", a, short(tpl, r))
					if s.Present != nil {
						name += " for " + strings.ReplaceAll(strings.Join(s.Present, " and "), "kms:EncryptionContext:", "")
					}
					if s.Every != nil {
						name += " of " + strings.Join(s.Every["dynamodb:LeadingKeys"], " ")
					}
					have[name] = true
				}
			}
		}
		for _, g := range slices.Sorted(maps.Keys(need)) {
			if !have[g] {
				t.Errorf("%s lacks %s", dir, g)
			}
		}
		for _, g := range slices.Sorted(maps.Keys(have)) {
			if !need[g] {
				t.Errorf("%s is granted %s and does not need it", dir, g)
			}
		}
	}
}

// A worker runs code of strangers: whatever it does with its role, it does to the
// broker, which looks at leases and fences.
//
// covers: A8
func TestAWorkerMayCallTheBrokerAndNothingElse(t *testing.T) {
	tpl := load(t)
	if len(tpl.Tasks) != 1 {
		t.Fatal(tpl.Tasks)
	}
	task := tpl.Tasks[0]
	for _, f := range tpl.Functions {
		if f.LogicalID == "SandboxBroker" && task.Environment["PX_BROKER"] != f.Name {
			t.Errorf("a worker calls %s, and the broker is %s", task.Environment["PX_BROKER"], f.Name)
		}
	}
	for _, role := range tpl.Roles {
		switch role.ARN {
		case task.Role:
			want := []template.Statement{{Actions: []string{"lambda:InvokeFunction"}, Resources: []string{"arn:aws:lambda:eu-central-1:000000000000:function:" + stack + "-sandbox_broker"}}}
			if !reflect.DeepEqual(role.Policy, want) {
				t.Errorf("a worker may %+v", role.Policy)
			}
		case task.ExecutionRole:
			if len(role.Policy) > 0 {
				t.Errorf("what starts a worker may %+v", role.Policy)
			}
		}
	}
	if task.Role == "" || task.Role == task.ExecutionRole || task.Container != capacity.Container {
		t.Errorf("%+v", task)
	}
}

// Without a function to route to, nothing of a legacy cohort is there; with one, it is a
// function, a route and a log of its own, and nothing else is another thing.
//
// covers: L3
func TestALegacyCohortIsAddedAndTakenAwayByRoutingAlone(t *testing.T) {
	with := load(t)
	without, err := template.Load("../template.yaml", template.Options{Region: "eu-central-1", AccountID: "000000000000", StackName: stack, APIEndpoint: "https://api",
		Parameters: map[string]string{"IssuerUrl": "https://issuer.example", "SandboxImage": "worker", "LegacyCohort": "*"}})
	if err != nil {
		t.Fatal(err)
	}
	added := slices.DeleteFunc(slices.Clone(with.Functions), func(f template.Function) bool {
		return slices.ContainsFunc(without.Functions, func(g template.Function) bool { return reflect.DeepEqual(f, g) })
	})
	routes := slices.DeleteFunc(slices.Clone(with.Routes), func(r template.Route) bool {
		return slices.ContainsFunc(without.Routes, func(q template.Route) bool { return reflect.DeepEqual(r, q) })
	})
	if len(added) != 1 || added[0].LogicalID != "LegacyProxy" || len(with.Functions) != len(without.Functions)+1 ||
		len(routes) != 1 || routes[0].Path != legacy.Path || routes[0].Method != "POST" || routes[0].Function != stack+"-legacy_proxy" || len(with.Routes) != len(without.Routes)+1 {
		t.Errorf("added are %+v and %+v", added, routes)
	}
	if !reflect.DeepEqual(with.Tables, without.Tables) || !reflect.DeepEqual(with.StateMachines, without.StateMachines) || !reflect.DeepEqual(with.Roles, without.Roles) {
		t.Error("more than routing differs")
	}
	text, err := os.ReadFile("../template.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"LoggingConfig: {LogGroup: !Ref LegacyLog}", `LogGroupName: !Sub "/pxhost/${AWS::StackName}/legacy"`} {
		if strings.Count(string(text), want) != 1 {
			t.Errorf("%s is not there once", want)
		}
	}
}

// An installation without an image deploys no cluster and grants nothing on one.
func TestWithoutAnImageThereIsNoSandbox(t *testing.T) {
	tpl, err := template.Load("../template.yaml", template.Options{Region: "eu-central-1", AccountID: "000000000000", StackName: stack, APIEndpoint: "https://api",
		Parameters: map[string]string{"IssuerUrl": "https://issuer.example"}})
	if err != nil {
		t.Fatal(err)
	}
	if len(tpl.Tasks)+len(tpl.Clusters)+len(tpl.Roles) > 0 {
		t.Error("there is one")
	}
	for _, f := range tpl.Functions {
		for _, s := range f.Policy {
			for _, a := range s.Actions {
				if strings.HasPrefix(a, "ecs:") || strings.HasPrefix(a, "iam:") {
					t.Errorf("%s may %s", f.Name, a)
				}
			}
		}
		if f.Environment["PX_SANDBOX_TASK"] != "" {
			t.Errorf("%s would start a task", f.Name)
		}
	}
}

// short names a resource by its logical ID.
func short(tpl *template.Template, arn string) string {
	for _, table := range tpl.Tables {
		if rest, ok := strings.CutPrefix(arn, table.ARN); ok {
			return table.LogicalID + rest
		}
	}
	for _, b := range tpl.Buckets {
		if rest, ok := strings.CutPrefix(arn, b.ARN); ok {
			return b.LogicalID + rest
		}
	}
	for _, f := range tpl.Functions {
		if arn == f.ARN {
			return f.LogicalID
		}
	}
	for _, k := range tpl.Keys {
		if arn == k.ARN {
			return k.LogicalID
		}
	}
	for _, m := range tpl.StateMachines {
		if arn == m.ARN {
			return m.LogicalID
		}
		if arn == strings.Replace(m.ARN, ":stateMachine:", ":execution:", 1)+":*" {
			return m.LogicalID + "/execution"
		}
		if arn == strings.Replace(m.ARN, ":stateMachine:", ":execution:", 1)+"/*" {
			return m.LogicalID + "/child"
		}
	}
	for _, c := range tpl.Clusters {
		if arn == strings.Replace(c.ARN, ":cluster/", ":task/", 1)+"/*" {
			return c.LogicalID + "/task"
		}
	}
	for _, task := range tpl.Tasks {
		if arn == task.ARN {
			return task.LogicalID
		}
	}
	for _, role := range tpl.Roles {
		if arn == role.ARN {
			return role.LogicalID
		}
	}
	if strings.HasSuffix(arn, ":function:"+stack+"-tool-*") {
		return "tools"
	}
	return arn
}
