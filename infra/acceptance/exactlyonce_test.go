package acceptance

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pxhost/pxhost/infra/local"
	"github.com/pxhost/pxhost/infra/local/apigateway"
	"github.com/pxhost/pxhost/infra/local/awsapi"
	"github.com/pxhost/pxhost/infra/local/lambda"
	"github.com/pxhost/pxhost/infra/local/template"
)

// endpointStack serves the template's HTTP API and functions over the services of
// a host that has none: an mcp_endpoint and tools of its own, which share nothing
// with those of another stack but the tables, the bucket and the issuer. It
// returns the URL.
func (h *host) endpointStack(t *testing.T, name, planLife string) string {
	t.Helper()
	where, key := h.operator(t)
	tpl, err := template.Load(filepath.Join(built, "template.yaml"), template.Options{Region: local.Region, AccountID: local.AccountID, StackName: local.StackName,
		APIEndpoint: h.URL, Parameters: map[string]string{local.IssuerParameter: h.URL, "PlanLife": planLife}})
	if err != nil {
		t.Fatal(err)
	}
	listen := func() net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	public, internal := listen(), listen()
	var functions []lambda.Function
	for _, f := range tpl.Functions {
		functions = append(functions, lambda.Function{Name: f.Name, ARN: f.ARN, Bootstrap: filepath.Join(f.CodeDir, "bootstrap"),
			Timeout: f.Timeout, MemoryMB: f.MemoryMB, Environment: f.Environment, MaxRetryAttempts: f.MaxRetryAttempts, MaxEventAge: f.MaxEventAge})
	}
	out := &output{}
	log := func(text string) { fmt.Fprintln(out, text) }
	own := "http://" + internal.Addr().String()
	functionsHost, err := lambda.Open(lambda.Options{Functions: functions, Region: local.Region, Log: log, MaxInstances: 6, Queue: filepath.Join(t.TempDir(), "lambda.db"),
		Environment: func(lambda.Function) map[string]string {
			return map[string]string{"AWS_ACCESS_KEY_ID": key.AccessKeyID, "AWS_SECRET_ACCESS_KEY": key.SecretAccessKey,
				"AWS_ENDPOINT_URL": where.AWSEndpoint, "AWS_ENDPOINT_URL_LAMBDA": own}
		}})
	if err != nil {
		t.Fatal(err)
	}
	var routes []apigateway.Route
	for _, r := range tpl.Routes {
		routes = append(routes, apigateway.Route{Method: r.Method, Path: r.Path, Function: r.Function, Timeout: r.Timeout})
	}
	operator := awsapi.Credential{AccessKeyID: key.AccessKeyID, Secret: key.SecretAccessKey, Principal: "operator"}
	api := &http.Server{Handler: apigateway.New(apigateway.Options{Routes: routes, AccountID: local.AccountID, APIID: name, Invoke: functionsHost.Invoke, Log: log})}
	invoke := &http.Server{Handler: awsapi.New(awsapi.Options{Region: local.Region, Services: map[string]http.Handler{"lambda": functionsHost},
		Credential: func(id string) (awsapi.Credential, bool) { return operator, id == operator.AccessKeyID },
		Allow:      func(string, string, string, awsapi.Context) bool { return true },
		Resources:  awsapi.Resources{Function: func(name string) string { return name }, Table: func(name string) string { return name }}})}
	go api.Serve(public)
	go invoke.Serve(internal)
	t.Cleanup(func() {
		api.Close()
		invoke.Close()
		if err := functionsHost.Close(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			text := out.String()
			t.Logf("the stack %s printed (its last bytes):\n%s", name, text[max(0, len(text)-8_000):])
		}
	})
	return "http://" + public.Addr().String()
}

// settled sends a line until its answer is no failure that may be tried again.
func (c caller) settled(ctx context.Context, line string) (string, error) {
	for {
		r, err := send(ctx, c.url, c.token, line)
		if err != nil {
			return "", err
		}
		if r.status == http.StatusServiceUnavailable || strings.Contains(r.body, `"code":-32603`) && strings.Contains(r.body, `"retryable":true`) {
			continue
		}
		if r.status != http.StatusOK {
			return "", fmt.Errorf("status %d: %s", r.status, r.body)
		}
		return r.body, nil
	}
}

// together sends lines at the same time, one after the other through each of the
// callers, and returns the settled replies.
func together(t *testing.T, through []caller, lines []string) []string {
	t.Helper()
	replies, errs := make([]string, len(lines)), make([]error, len(lines))
	var ready, done sync.WaitGroup
	begin := make(chan struct{})
	for i, text := range lines {
		ready.Add(1)
		done.Go(func() {
			ready.Done()
			<-begin
			replies[i], errs[i] = through[i%len(through)].settled(t.Context(), text)
		})
	}
	ready.Wait()
	close(begin)
	done.Wait()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
	return replies
}

// dropped sends a line and never reads the reply: the connection is closed when
// gone says that the line has had its effect.
func (c caller) dropped(t *testing.T, text string, gone func() bool) {
	t.Helper()
	to, err := url.Parse(c.url)
	if err != nil {
		t.Fatal(err)
	}
	connection, err := net.Dial("tcp", to.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	if _, err := fmt.Fprintf(connection, "POST /v1/mcp HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/x-ndjson\r\nContent-Length: %d\r\n\r\n%s",
		to.Host, c.token, len(text), text); err != nil {
		t.Fatal(err)
	}
	if !eventually(gone) {
		connection.SetReadDeadline(time.Now().Add(time.Second))
		said, _ := io.ReadAll(connection)
		t.Fatalf("the line had no effect: %s", said)
	}
}

// covers: P6, P7, P9, U1
func TestAppliesThroughTwoEndpointsHappenExactlyOnce(t *testing.T) {
	t.Parallel()
	const crowd = 64
	h := start(t, "--services-only")
	h.operate(t, "seed")
	// Plans made through the second one can be applied for five seconds.
	const short = 5 * time.Second
	urls := []string{h.endpointStack(t, "one", "30m"), h.endpointStack(t, "two", "5s")}
	token := h.token(t, "engineer")
	one, two := caller{urls[0], token}, caller{urls[1], token}
	both := []caller{one, two}
	viewer := caller{urls[0], h.token(t, "viewer")}

	f := one.head(t, sample, "girder_check")
	label := func(text string) m { return m{"kind": "SetFlowLabel", "label": m{"en": text}} }
	lines := make([]string, crowd)
	var planning []string
	for i := range crowd {
		planning = append(planning, line(t, 1, "pxflow_plan_change", m{"target": f.Target, "expectedGeneration": 0, "commands": list{label(fmt.Sprint("Change ", i))}}))
	}
	for i, text := range together(t, []caller{one}, planning) {
		got := read(t, text)
		var p plan
		if got.Envelope == nil || !got.Envelope.OK || json.Unmarshal(got.Envelope.Data, &p) != nil {
			t.Fatalf("plan %d: %+v", i, got)
		}
		lines[i] = line(t, 1, "pxflow_apply_change", p.application(fmt.Sprint("crowd-", i)))
	}

	winner, original := -1, ""
	for i, text := range together(t, both, lines) {
		got := read(t, text)
		switch {
		case got.Envelope == nil:
			t.Errorf("apply %d: %+v", i, got)
		case got.Envelope.OK && winner < 0:
			winner, original = i, text
		case got.Envelope.OK:
			t.Errorf("%d and %d both won", winner, i)
		case !slices.Equal(got.Envelope.told(), []string{"PX_GENERATION_STALE /expectedGeneration"}):
			t.Errorf("apply %d: %q", i, got.Envelope.told())
		}
	}
	if winner < 0 {
		t.Fatal("nobody won")
	}
	var won applied
	if err := json.Unmarshal(read(t, original).Envelope.Data, &won); err != nil || won.NewGeneration != 1 {
		t.Fatalf("the winner is told %s", original)
	}
	now := viewer.head(t, sample, "girder_check")
	if now.Generation != 1 || now.Target.RevisionRef != won.NewRevisionRef {
		t.Errorf("the head is %+v and the winner was told %+v", now, won)
	}
	for i, text := range together(t, both, slices.Repeat([]string{lines[winner]}, crowd)) {
		if text != original {
			t.Errorf("retry %d:\n got %s\nwant %s", i, text, original)
		}
	}
	if again := viewer.head(t, sample, "girder_check"); again.Generation != now.Generation || again.Target.RevisionRef != now.Target.RevisionRef {
		t.Errorf("the retries moved the head to %+v", again)
	}

	// The same apply sixteen times at once, before anybody had an answer.
	twin := line(t, 1, "pxflow_apply_change", one.plan(t, now, label("Twin")).application("twin"))
	twins := together(t, both, slices.Repeat([]string{twin}, 16))
	for i, text := range twins {
		if got := read(t, text); text != twins[0] || got.Envelope == nil || !got.Envelope.OK {
			t.Errorf("twin %d: %s", i, text)
		}
	}
	if now = viewer.head(t, sample, "girder_check"); now.Generation != 2 {
		t.Errorf("the twins moved the head to generation %d", now.Generation)
	}

	// Changes of different Flows do not stand in each other's way: all of them win.
	const flows = 24
	var creations, applications []string
	for i := range flows {
		document := beam(fmt.Sprintf("beam_%02d", i))
		target := flowTarget{sample, document["flowKey"].(string), digest(t, document)}
		creations = append(creations, line(t, 1, "pxflow_plan_change", m{"target": target, "expectedGeneration": 0, "commands": list{m{"kind": "CreateFlow", "document": document}}}))
	}
	for i, text := range together(t, []caller{one}, creations) {
		var p plan
		if got := read(t, text); got.Envelope == nil || !got.Envelope.OK || json.Unmarshal(got.Envelope.Data, &p) != nil {
			t.Fatalf("the plan of Flow %d: %s", i, text)
		}
		applications = append(applications, line(t, 1, "pxflow_apply_change", p.application("create")))
	}
	for i, text := range together(t, both, applications) {
		if got := read(t, text); got.Envelope == nil || !got.Envelope.OK {
			t.Errorf("the first save of Flow %d: %s", i, text)
		}
	}
	var saved struct{ Items []flowHead }
	viewer.ok(t, "pxflow_search", m{"scope": sample, "query": "beam", "limit": 100}, &saved)
	if len(saved.Items) != flows {
		t.Errorf("%d Flows were saved at the same time, and %d are there", flows, len(saved.Items))
	}

	// One Run, however often and wherever its command arrives.
	inputs := m{"span": number(60, "ft"), "dead_load": number(1, "kip/ft"), "impact": number(0, "1"), "section_modulus": number(1500, "in^3"), "yield_stress": number(50, "ksi")}
	running := line(t, 1, "pxflow_run", m{"kind": "RunFlow", "target": now.Target, "commandId": "one-run", "inputs": inputs})
	runs := together(t, both, slices.Repeat([]string{running}, 16))
	if slices.Compact(slices.Clone(runs))[0] != runs[0] || len(slices.Compact(slices.Clone(runs))) != 1 || !read(t, runs[0]).Envelope.OK {
		t.Errorf("one command started %q", slices.Compact(runs))
	}

	// An apply whose reply was read, and one whose reply nobody read, each of a plan
	// that expires soon.
	soon := func(commandID string) (text string, expires time.Time) {
		t.Helper()
		for attempt := 0; ; attempt++ {
			f = viewer.head(t, sample, "girder_check")
			p := two.plan(t, f, label(fmt.Sprint(commandID, " ", attempt)))
			expires, err := time.Parse(time.RFC3339, p.ExpiresAt)
			if err != nil || time.Until(expires) > short {
				t.Fatalf("a plan of %v expires at %s", short, p.ExpiresAt)
			}
			// On a slow machine it might expire before it is applied.
			if time.Until(expires) > short/3 || attempt == 5 {
				return line(t, 1, "pxflow_apply_change", p.application(commandID)), expires
			}
		}
	}
	heard, _ := soon("heard")
	said := together(t, both, []string{heard})[0]
	if e := read(t, said).Envelope; e == nil || !e.OK {
		t.Fatalf("the apply was told %s", said)
	}
	lost, until := soon("lost")
	two.dropped(t, lost, func() bool { return viewer.head(t, sample, "girder_check").Generation == f.Generation+1 })
	lostGeneration := f.Generation + 1
	// A client that goes away as soon as it has sent: whether the line was carried
	// out, nobody knows; with its retry, through the other endpoint, it was once.
	for i := range 6 {
		f = viewer.head(t, sample, "girder_check")
		text := line(t, 1, "pxflow_apply_change", one.plan(t, f, label(fmt.Sprint("Gone ", i))).application(fmt.Sprint("gone-", i)))
		both[i%2].dropped(t, text, func() bool { time.Sleep(time.Duration(i) * 4 * time.Millisecond); return true })
		var a applied
		answer := together(t, []caller{both[1-i%2]}, []string{text})[0]
		if got := read(t, answer); got.Envelope == nil || !got.Envelope.OK || json.Unmarshal(got.Envelope.Data, &a) != nil || a.NewGeneration != f.Generation+1 {
			t.Fatalf("the retry of a client that was gone: %s", answer)
		}
		if again := together(t, both, []string{text, text}); again[0] != answer || again[1] != answer {
			t.Errorf("and its retries: %q", again)
		}
		if head := viewer.head(t, sample, "girder_check"); head.Generation != f.Generation+1 || head.Target.RevisionRef != a.NewRevisionRef {
			t.Errorf("the head is %+v, and the retry was told %+v", head, a)
		}
	}
	// The head moves on, the right is revoked, the plans expire.
	f = one.change(t, viewer.head(t, sample, "girder_check"), "after", label("After the lost one"))
	h.operate(t, "project", "grant", "structural_team/bridge_package", "--to", "engineer")
	time.Sleep(time.Until(until.Add(100 * time.Millisecond)))
	one.refused(t, "pxflow_describe", m{"target": f.Target}, "PX_TARGET_NOT_FOUND /target/scope")
	before := h.dump(t)
	for i, text := range together(t, both, slices.Repeat([]string{heard}, 8)) {
		if text != said {
			t.Errorf("retry %d:\n got %s\nwant %s", i, text, said)
		}
	}
	retries := together(t, both, slices.Repeat([]string{lost}, 8))
	for i, text := range retries {
		var a applied
		got := read(t, text)
		if text != retries[0] || got.Envelope == nil || !got.Envelope.OK || json.Unmarshal(got.Envelope.Data, &a) != nil || a.NewGeneration != lostGeneration {
			t.Errorf("retry %d of the lost apply: %s", i, text)
		}
	}
	if text := together(t, both, []string{lines[winner], lines[winner]}); text[0] != original || text[1] != original {
		t.Errorf("the first winner's retry says %q", text)
	}
	// The command stands for that plan alone, and the loser's for nothing.
	one.refused(t, "pxflow_apply_change", m{"target": f.Target, "expectedGeneration": f.Generation, "planRef": "plan_01ARZ3NDEKTSV4RRFFQ69G5FAV", "planDigest": "sha256:x", "commandId": "lost"},
		"PX_COMMAND_REUSED /commandId")
	got := read(t, together(t, both, []string{lines[(winner+1)%crowd]})[0])
	if got.Envelope == nil || !slices.Equal(got.Envelope.told(), []string{"PX_TARGET_NOT_FOUND /target/scope"}) {
		t.Errorf("a loser without rights is told %+v", got)
	}
	if changed := before.changes(h.dump(t)); len(changed) > 0 {
		t.Errorf("the retries changed %q", changed)
	}
}
