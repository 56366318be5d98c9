package door_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/change"
	"github.com/pxhost/pxhost/shared/cursor"
	"github.com/pxhost/pxhost/shared/draft"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/identity"
	"github.com/pxhost/pxhost/shared/policy"
	"github.com/pxhost/pxhost/shared/project"
	"github.com/pxhost/pxhost/shared/resource"
	"github.com/pxhost/pxhost/shared/review"
	"github.com/pxhost/pxhost/shared/review/door"
	"github.com/pxhost/pxhost/shared/run"
	"github.com/pxhost/pxhost/shared/store/memory"
	"github.com/pxhost/pxhost/shared/target"
	"github.com/pxhost/pxhost/shared/tool"
	"github.com/pxhost/pxhost/shared/wire/route"
)

var (
	bridge = target.Project{WorkspaceKey: "team", ProjectKey: "bridge"}
	tunnel = target.Project{WorkspaceKey: "team", ProjectKey: "tunnel"}
)

const issuer = "https://issuer.test|"

// A bench is a door over a store in memory, with a clock. A token is "scope subject",
// or "scope subject session".
type bench struct {
	*testing.T
	store *memory.Store
	admin *project.Projects
	now   time.Time
	door  *route.Door
	ring  cursor.Static

	downloads downloads
	objects   objects
}

// objects counts what is stored by the door itself.
type objects struct {
	*memory.Store
	made int
}

func (o *objects) Put(ctx context.Context, space history.Space, bodies ...[]byte) error {
	o.made += len(bodies)
	return o.Store.Put(ctx, space, bodies...)
}

// downloads keeps what was made ready to be fetched.
type downloads struct {
	bodies map[string]string
	made   int
}

func (d *downloads) Address(_ context.Context, name, fileName, mediaType string, life time.Duration, body func() ([]byte, error)) (string, error) {
	if _, ok := d.bodies[name]; !ok {
		text, err := body()
		if err != nil {
			return "", err
		}
		d.made++
		d.bodies[name] = string(text)
	}
	return fmt.Sprintf("https://store.test/%s?name=%s&type=%s&life=%v", name, fileName, mediaType, life), nil
}

func (b *bench) links() resource.Links {
	clock := func() time.Time { return b.now }
	return resource.Links{Sealer: cursor.New(b.ring, time.Hour, clock), Life: time.Hour, Now: clock}
}

func (b *bench) handles() draft.Handles {
	clock := func() time.Time { return b.now }
	return draft.Handles{Sealer: cursor.New(b.ring, draft.Life, clock), Life: draft.Life, Now: clock}
}

func (b *bench) Verify(_ context.Context, authorization, scope string) (identity.Token, error) {
	has, subject, ok := strings.Cut(strings.TrimPrefix(authorization, "Bearer "), " ")
	if !ok {
		return identity.Token{}, &identity.Error{Reason: identity.ReasonMissing}
	}
	if has != scope {
		return identity.Token{}, &identity.Error{Reason: identity.ReasonScope}
	}
	subject, session, _ := strings.Cut(subject, " ")
	return identity.Token{Issuer: "https://issuer.test", Subject: subject, Scopes: []string{has}, Session: session}, nil
}

func newBench(t *testing.T) *bench {
	b := &bench{T: t, now: time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC), ring: cursor.NewStatic(), downloads: downloads{bodies: map[string]string{}}}
	clock := func() time.Time { return b.now }
	b.store = memory.New(clock)
	b.objects.Store = b.store
	b.admin = project.New(b.store, nil, clock)
	for _, p := range []target.Project{bridge, tunnel} {
		b.must(b.admin.Create(t.Context(), p, nil, ""))
		b.must(b.admin.SetGrant(t.Context(), p, issuer+"engineer", []policy.Right{policy.Read, policy.Edit, policy.Run, policy.Approve}))
	}
	for subject, rights := range map[string][]policy.Right{"reviewer": {policy.Read, policy.Approve}, "second": {policy.Read, policy.Approve}, "viewer": {policy.Read}} {
		b.must(b.admin.SetGrant(t.Context(), bridge, issuer+subject, rights))
	}
	b.must(b.admin.SetPolicy(t.Context(), bridge, []policy.Rule{{On: policy.OnFlow, Approval: "required"}, {On: policy.OnRun, Approval: "required"}}))
	frame := tool.Frame{Cursors: cursor.New(cursor.NewStatic(), time.Hour, clock), Log: slog.New(slog.NewTextHandler(io.Discard, nil))}
	b.door = door.New(b, frame, &review.Reviews{Objects: b.store, Plans: b.store, Policy: b.store, Approvals: b.store, Now: clock}, resource.Resources{
		Links: b.links(), Objects: b.store, Policy: b.store, Downloads: &b.downloads}, draft.Drafts{Handles: b.handles(), Objects: &b.objects, Policy: b.store})
	return b
}

func (b *bench) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// plan stores a plan of the engineer.
func (b *bench) plan(p target.Project, name string, life time.Duration) change.Plan {
	b.Helper()
	n := 0
	planner := change.Planner{Objects: b.store, Store: b.store, Now: func() time.Time { return b.now }, Life: life,
		NewRef: func(prefix string) string { n++; return prefix + name }}
	raw := func(text string) canon.Raw { return canon.Raw(text) }
	out, findings, err := planner.Plan(b.Context(), change.Author{Principal: issuer + "engineer", Assistant: &history.Assistant{Provider: "p", Model: "m"}}, change.Draft{
		Tool: "pxflow_plan_change", Project: p, Target: raw(`{"flowKey":"` + name + `"}`), Commands: []canon.Raw{raw(`{"kind":"SetFlowLabel"}`)}, Unlabelled: []canon.Raw{raw(`{"kind":"SetFlowLabel"}`)},
		Subject: policy.OnFlow, Kinds: []string{"SetFlowLabel"}, Diff: raw(`[{"path":"/label"}]`), Impact: raw(`{"checks":[]}`), TouchedSemanticPaths: []string{"/label"}})
	if b.must(err); findings != nil {
		b.Fatal(findings)
	}
	return out
}

type answer struct {
	status int
	header map[string]string
	body   string
	data   map[string]any
	told   string // code, path and reason or state of the first diagnostic
}

// send sends a request to a route; the path is made from the key.
func (b *bench) send(as, key, ref, body string, edit ...func(map[string]any)) answer {
	b.Helper()
	method, path, _ := strings.Cut(key, " ")
	variable, _, _ := strings.Cut(key[strings.Index(key, "{")+1:], "}")
	event := map[string]any{
		"version": "2.0", "routeKey": key, "rawPath": strings.Replace(path, "{"+variable+"}", ref, 1), "pathParameters": map[string]string{variable: ref},
		"headers":        map[string]string{"authorization": "Bearer " + as, "content-type": "application/json"},
		"requestContext": map[string]any{"requestId": "r", "http": map[string]any{"method": method}},
	}
	if body != "" {
		event["body"] = body
	}
	for _, e := range edit {
		e(event)
	}
	payload, err := json.Marshal(event)
	b.must(err)
	text, err := b.door.Invoke(b.Context(), payload)
	b.must(err)
	var out struct {
		StatusCode int
		Headers    map[string]string
		Body       string
	}
	b.must(json.Unmarshal(text, &out))
	a := answer{status: out.StatusCode, header: out.Headers, body: out.Body}
	var envelope struct {
		Data        map[string]any
		Diagnostics []struct {
			Code, Path, DiagnosticID string
			Params                   map[string]any
		}
	}
	b.must(json.Unmarshal([]byte(out.Body), &envelope))
	a.data = envelope.Data
	for _, d := range envelope.Diagnostics {
		if d.DiagnosticID == "" {
			b.Errorf("a diagnostic without an ID: %s", out.Body)
		}
		a.told = strings.TrimSpace(d.Code + " " + d.Path + " " + text_(d.Params["reason"]) + text_(d.Params["state"]))
	}
	if a.header["cache-control"] != "no-store" || a.header["access-control-allow-origin"] != "" {
		b.Errorf("headers %v", a.header)
	}
	return a
}

func text_(v any) string {
	if v == nil {
		return ""
	}
	return fmt.Sprint(v)
}

const (
	readPlan, approvePlan, rejectPlan = "GET /v1/plans/{planRef}", "POST /v1/plans/{planRef}/approve", "POST /v1/plans/{planRef}/reject"
	readRun, approveRun, rejectRun    = "GET /v1/runs/{runRef}", "POST /v1/runs/{runRef}/approve", "POST /v1/runs/{runRef}/reject"
	reviewer                          = identity.ScopeApprove + " reviewer"
)

func digest(p change.Plan) string { return `{"planDigest":"` + p.PlanDigest + `"}` }

// covers: U6
func TestAReviewerReadsAndApprovesOnce(t *testing.T) {
	b := newBench(t)
	p := b.plan(bridge, "one", 0)
	read := b.send(reviewer, readPlan, p.PlanRef, "")
	want := map[string]any{"state": "open", "planDigest": p.PlanDigest, "requester": issuer + "engineer", "separateApprover": true}
	for name, value := range want {
		if read.status != http.StatusOK || read.data[name] != value {
			t.Errorf("%d %s", read.status, read.body)
		}
	}
	if text, ok := read.data["plan"].(map[string]any); !ok || text["diff"] == nil || text["impact"] == nil || text["commands"] == nil {
		t.Errorf("not all that is approved is read: %s", read.body)
	}
	for _, hidden := range []string{`\u001b[2J`, `\u202e`} {
		if got := b.send(reviewer, approvePlan, p.PlanRef, `{"planDigest":"`+p.PlanDigest+`","comment":"fine`+hidden+`"}`); got.status != http.StatusBadRequest || !strings.Contains(got.body, `"/comment"`) {
			t.Errorf("a comment with %s: %d %s", hidden, got.status, got.body)
		}
	}
	first := b.send(reviewer, approvePlan, p.PlanRef, `{"planDigest":"`+p.PlanDigest+`","comment":"fine"}`)
	b.now = b.now.Add(time.Minute)
	again := b.send(reviewer, approvePlan, p.PlanRef, digest(p))
	if first.status != http.StatusOK || first.body != again.body || first.data["requester"] != issuer+"engineer" || first.data["comment"] != "fine" {
		t.Fatalf("first %s, again %s", first.body, again.body)
	}
	if got := first.data["expiresAt"]; got != p.ExpiresAt {
		t.Errorf("an approval outlives its plan: %v", got)
	}
	a, err := b.store.Approval(t.Context(), bridge, first.data["approvalRef"].(string))
	if err != nil || a.PlanRef != p.PlanRef || a.Digest != p.PlanDigest || a.Approver != issuer+"reviewer" || a.Requester != issuer+"engineer" || a.Project != bridge {
		t.Errorf("stored %+v, %v", a, err)
	}
	// Another reviewer's approval is another one.
	if second := b.send(identity.ScopeApprove+" second", approvePlan, p.PlanRef, digest(p)); second.data["approvalRef"] == first.data["approvalRef"] || second.status != http.StatusOK {
		t.Errorf("%s", second.body)
	}
}

// covers: U6
func TestAnApprovalOfALongPlanExpiresAndIsGivenAnew(t *testing.T) {
	b := newBench(t)
	p := b.plan(bridge, "long", 72*time.Hour)
	first := b.send(reviewer, approvePlan, p.PlanRef, digest(p))
	if got, want := first.data["expiresAt"], b.now.Add(review.DefaultApprovalLife).Format(time.RFC3339); got != want {
		t.Errorf("expires %v, want %v", got, want)
	}
	b.now = b.now.Add(review.DefaultApprovalLife)
	second := b.send(reviewer, approvePlan, p.PlanRef, digest(p))
	if second.status != http.StatusOK || second.data["approvalRef"] == first.data["approvalRef"] {
		t.Errorf("%s", second.body)
	}
}

// covers: U6, S4
func TestWhatIsNotApproved(t *testing.T) {
	b := newBench(t)
	p, other := b.plan(bridge, "one", 0), b.plan(tunnel, "elsewhere", 0)
	rejected, late := b.plan(bridge, "rejected", 0), b.plan(bridge, "late", time.Second)
	if got := b.send(reviewer, rejectPlan, rejected.PlanRef, `{"planDigest":"`+rejected.PlanDigest+`","comment":"too slender"}`); got.status != http.StatusOK || got.data["state"] != "rejected" {
		t.Fatal(got.body)
	}
	b.now = b.now.Add(time.Second)
	const engineer, viewer, nobody = identity.ScopeApprove + " engineer", identity.ScopeApprove + " viewer", identity.ScopeApprove + " nobody"
	for name, c := range map[string]struct {
		as, key, ref, body string
		status             int
		told               string
	}{
		"by who asked":                        {engineer, approvePlan, p.PlanRef, digest(p), 409, "PX_APPROVAL_INVALID /planRef approver is requester"},
		"without the right":                   {viewer, approvePlan, p.PlanRef, digest(p), 403, "PX_PERMISSION_DENIED /planRef"},
		"without the right to read":           {nobody, approvePlan, p.PlanRef, digest(p), 404, "PX_PLAN_NOT_FOUND /planRef"},
		"of another Project":                  {reviewer, approvePlan, other.PlanRef, digest(other), 404, "PX_PLAN_NOT_FOUND /planRef"},
		"of nothing":                          {reviewer, approvePlan, "plan_none", digest(p), 404, "PX_PLAN_NOT_FOUND /planRef"},
		"of a plan as a Run":                  {reviewer, approveRun, p.PlanRef, `{"requestDigest":"` + p.PlanDigest + `"}`, 404, "PX_TARGET_NOT_FOUND /runRef"},
		"of another digest":                   {reviewer, approvePlan, p.PlanRef, digest(other), 409, "PX_PLAN_MISMATCH /planDigest"},
		"of what was rejected":                {reviewer, approvePlan, rejected.PlanRef, digest(rejected), 409, "PX_PLAN_EXPIRED /planRef rejected"},
		"of what expired":                     {reviewer, approvePlan, late.PlanRef, digest(late), 409, "PX_PLAN_EXPIRED /planRef expired"},
		"without a digest":                    {reviewer, approvePlan, p.PlanRef, `{}`, 400, "PX_SCHEMA_INVALID /planDigest"},
		"with more than there is":             {reviewer, approvePlan, p.PlanRef, `{"planDigest":"` + p.PlanDigest + `","approver":"me"}`, 400, "PX_SCHEMA_UNKNOWN_FIELD /approver"},
		"with a digest of another type":       {reviewer, approvePlan, p.PlanRef, `{"planDigest":1}`, 400, "PX_SCHEMA_INVALID /planDigest"},
		"read without the right":              {viewer, readPlan, p.PlanRef, "", 403, "PX_PERMISSION_DENIED /planRef"},
		"read without the right to read":      {nobody, readPlan, p.PlanRef, "", 404, "PX_PLAN_NOT_FOUND /planRef"},
		"rejected without the right":          {viewer, rejectPlan, p.PlanRef, digest(p), 403, "PX_PERMISSION_DENIED /planRef"},
		"rejected of another digest":          {reviewer, rejectPlan, p.PlanRef, digest(other), 409, "PX_PLAN_MISMATCH /planDigest"},
		"rejected by another after the first": {identity.ScopeApprove + " second", rejectPlan, rejected.PlanRef, digest(rejected), 409, "PX_PLAN_EXPIRED /planRef rejected"},
	} {
		if got := b.send(c.as, c.key, c.ref, c.body); got.status != c.status || got.told != c.told {
			t.Errorf("%s: %d %q, want %d %q", name, got.status, got.told, c.status, c.told)
		}
	}
	// Who asked may read, too, without the right.
	b.must(b.admin.SetGrant(t.Context(), bridge, issuer+"engineer", []policy.Right{policy.Read}))
	if got := b.send(engineer, readPlan, rejected.PlanRef, ""); got.status != 200 || got.data["rejection"].(map[string]any)["comment"] != "too slender" {
		t.Errorf("%s", got.body)
	}
	// A rejection is repeated by who made it.
	if got := b.send(reviewer, rejectPlan, rejected.PlanRef, digest(rejected)); got.status != 200 || got.data["comment"] != "too slender" {
		t.Errorf("%s", got.body)
	}
	// A policy may let the requester approve.
	no := false
	b.must(b.admin.SetPolicy(t.Context(), bridge, []policy.Rule{{On: policy.OnFlow, Approval: "required", SeparateApprover: &no}}))
	b.must(b.admin.SetGrant(t.Context(), bridge, issuer+"engineer", []policy.Right{policy.Read, policy.Approve}))
	if got := b.send(engineer, approvePlan, p.PlanRef, digest(p)); got.status != 200 {
		t.Errorf("%s", got.body)
	}
}

// covers: U6
func TestTheDoorRefusesBeforeItReads(t *testing.T) {
	b := newBench(t)
	p := b.plan(bridge, "one", 0)
	header := func(name, value string) func(map[string]any) {
		return func(e map[string]any) { e["headers"].(map[string]string)[name] = value }
	}
	for name, c := range map[string]struct {
		as, key, body string
		edit          func(map[string]any)
		status        int
	}{
		"no token":                  {"", approvePlan, digest(p), nil, 401},
		"what an AI holds":          {identity.ScopeTools + " reviewer", approvePlan, digest(p), nil, 403},
		"reading by what an AI has": {identity.ScopeTools + " reviewer", readPlan, "", nil, 403},
		"no such route":             {reviewer, "POST /v1/plans/{planRef}/apply", digest(p), nil, 404},
		"a form":                    {reviewer, approvePlan, digest(p), header("content-type", "application/x-www-form-urlencoded"), 415},
		"text":                      {reviewer, approvePlan, digest(p), header("content-type", "text/plain"), 415},
		"a compressed body":         {reviewer, approvePlan, digest(p), header("content-encoding", "gzip"), 415},
		"no JSON":                   {reviewer, approvePlan, `{"planDigest":`, nil, 400},
		"a list":                    {reviewer, approvePlan, `[]`, nil, 400},
		"no body":                   {reviewer, approvePlan, ``, nil, 400},
		"a name twice":              {reviewer, approvePlan, `{"planDigest":"a","planDigest":"` + p.PlanDigest + `"}`, nil, 400},
		"the ref twice":             {reviewer, approvePlan, `{"planRef":"x","planDigest":"` + p.PlanDigest + `"}`, nil, 400},
		"a body that is too large":  {reviewer, approvePlan, `{"comment":"` + strings.Repeat("x", 64<<10) + `"}`, nil, 413},
		"a query at a decision":     {reviewer, approvePlan, digest(p), func(e map[string]any) { e["queryStringParameters"] = map[string]string{"a": "b"} }, 400},
		"a query of nothing":        {reviewer, readPlan, "", func(e map[string]any) { e["queryStringParameters"] = map[string]string{"a": "b"} }, 400},
		"a query with the ref":      {reviewer, readPlan, "", func(e map[string]any) { e["queryStringParameters"] = map[string]string{"planRef": "b"} }, 400},
	} {
		edit := c.edit
		if edit == nil {
			edit = func(map[string]any) {}
		}
		got := b.send(c.as, c.key, p.PlanRef, c.body, edit)
		if got.status != c.status {
			t.Errorf("%s: %d %s", name, got.status, got.body)
		}
		if c.status == 403 && !strings.Contains(got.header["www-authenticate"], "insufficient_scope") {
			t.Errorf("%s: %v", name, got.header)
		}
	}
	if got := b.send(reviewer, readPlan, p.PlanRef, ""); got.data["ownApproval"] != nil || got.data["state"] != "open" {
		t.Errorf("something was written: %s", got.body)
	}
}

// covers: U6
func TestARunThatWaitsIsReadAndDecided(t *testing.T) {
	b := newBench(t)
	ask := func(ref string) string {
		text, err := canon.Encode(run.Ask{RunRef: ref, Kind: "RunFlow", Principal: issuer + "engineer", Target: canon.Raw(`{"flowKey":"girder"}`),
			Inputs: map[string]canon.Raw{"span": canon.Raw(`{"unit":"m","value":3}`)}, Reason: "why not", Cost: 7, Reasons: []string{"run"}, RequestDigest: "sha256:q"})
		b.must(err)
		space := history.Space(bridge.String())
		b.must(b.store.Put(t.Context(), space, text))
		b.must(b.store.CreatePlan(t.Context(), change.PlanRow{PlanRef: ref, Space: space, Tool: run.AskTool, Principal: issuer + "engineer", Digest: "sha256:q",
			Body: history.RefOf(text), CreatedAt: b.now, ExpiresAt: b.now.Add(run.DefaultAskLife), State: change.PlanOpen}))
		return ref
	}
	one, two := ask("run_1"), ask("run_2")
	const body = `{"requestDigest":"sha256:q"}`
	read := b.send(reviewer, readRun, one, "")
	if read.status != 200 || read.data["requestDigest"] != "sha256:q" || read.data["cost"] != 7.0 || !strings.Contains(read.body, `"inputs":{"span":{"unit":"m","value":3}}`) || !strings.Contains(read.body, "why not") {
		t.Errorf("%s", read.body)
	}
	if got := b.send(reviewer, readPlan, one, ""); got.status != 404 {
		t.Errorf("a Run is read as a plan: %s", got.body)
	}
	if got := b.send(reviewer, approveRun, one, body); got.status != 200 || got.data["runRef"] != one || got.data["requestDigest"] != "sha256:q" {
		t.Errorf("%s", got.body)
	}
	if got := b.send(identity.ScopeApprove+" engineer", approveRun, two, body); got.told != "PX_APPROVAL_INVALID /runRef approver is requester" {
		t.Errorf("%s", got.body)
	}
	if got := b.send(reviewer, approveRun, two, `{"requestDigest":"sha256:other"}`); got.told != "PX_PLAN_MISMATCH /requestDigest" {
		t.Errorf("%s", got.body)
	}
	if got := b.send(reviewer, rejectRun, two, body); got.status != 200 || got.data["runRef"] != two {
		t.Errorf("%s", got.body)
	}
	if got := b.send(reviewer, approveRun, two, body); got.told != "PX_PLAN_EXPIRED /runRef rejected" {
		t.Errorf("%s", got.body)
	}
}

// covers: U3, G2, S4
func TestALinkIsFollowedByWhomItWasMadeForWhileHeMayRead(t *testing.T) {
	b := newBench(t)
	space := history.Space(bridge.String())
	b.must(b.store.Put(t.Context(), space, []byte(`{"rows":[]}`)))
	link := resource.Link{Project: bridge, Object: history.RefOf([]byte(`{"rows":[]}`)), MediaType: "application/json", Bytes: 11, Name: "table.json"}
	made, err := b.links().Make(t.Context(), issuer+"viewer", link)
	b.must(err)
	ref, ok := strings.CutPrefix(made.URI, resource.Path)
	if !ok || made.Bytes != 11 || made.MediaType != "application/json" || made.ExpiresAt != "2026-11-30T10:00:00Z" {
		t.Fatalf("%+v", made)
	}
	const route, viewer = "GET /v1/resources/{ref}", identity.ScopeTools + " viewer"
	json := func(e map[string]any) { e["headers"].(map[string]string)["accept"] = "application/json" }
	got := b.send(viewer, route, ref, "", json)
	if got.status != 200 || got.data["digest"] != string(link.Object) || got.data["expiresAt"] != "2026-11-30T09:05:00Z" || got.header["location"] != "" ||
		!strings.HasSuffix(got.data["url"].(string), "?name=table.json&type=application/json&life=5m0s") {
		t.Errorf("%d %s", got.status, got.body)
	}
	followed := b.send(viewer, route, ref, "")
	if followed.status != 302 || followed.header["location"] != got.data["url"] || b.downloads.made != 1 {
		t.Errorf("%d %v, made %d times", followed.status, followed.header, b.downloads.made)
	}
	for name, body := range b.downloads.bodies {
		if body != `{"rows":[]}` || !strings.Contains(name, bridge.String()) {
			t.Errorf("%s is %s", name, body)
		}
	}
	refused := func(name, as, ref string, status int) {
		t.Helper()
		if got := b.send(as, route, ref, "", json); got.status != status || status == 404 && got.told != "PX_TARGET_NOT_FOUND /ref" {
			t.Errorf("%s: %d %s", name, got.status, got.body)
		}
	}
	refused("another principal who may read", identity.ScopeTools+" reviewer", ref, 404)
	refused("what people approve with", identity.ScopeApprove+" viewer", ref, 403)
	refused("nobody", "", ref, 401)
	refused("a digest", viewer, string(link.Object), 404)
	refused("a guess", viewer, strings.Repeat("A", len(ref)), 404)
	for i := range len(ref) {
		other := byte('A')
		if ref[i] == other {
			other = 'B'
		}
		refused(fmt.Sprint("altered at ", i), viewer, ref[:i]+string(other)+ref[i+1:], 404)
	}
	cursorText, err := cursor.New(b.ring, time.Hour, func() time.Time { return b.now }).Seal(t.Context(), cursor.Binding{Tool: "result_read", Principal: issuer + "viewer"}, cursor.Claims{Position: []byte(`{}`)})
	b.must(err)
	refused("a cursor", viewer, cursorText, 404)
	b.must(b.admin.SetGrant(t.Context(), bridge, issuer+"viewer", nil))
	refused("after the right was taken away", viewer, ref, 404)
	b.must(b.admin.SetGrant(t.Context(), bridge, issuer+"viewer", []policy.Right{policy.Read}))
	b.now = b.now.Add(time.Hour - time.Second)
	if got := b.send(viewer, route, ref, "", json); got.status != 200 {
		t.Errorf("in the last second: %s", got.body)
	}
	b.now = b.now.Add(time.Second)
	refused("once it has expired", viewer, ref, 404)
}

// Whatever comes as a body is answered, and approves nothing without its digest.
func FuzzADecision(f *testing.F) {
	for _, seed := range []string{`{}`, `{"planDigest":"x"}`, `{"planDigest":null}`, `[`, `{"comment":"\ud800"}`, "\xff", `{"planRef":1}`, `{"budget":{"bytes":1},"planDigest":"x"}`, `{"cursor":"x","planDigest":"x"}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		b := newBench(t)
		p := b.plan(bridge, "one", 0)
		if strings.Contains(body, p.PlanDigest) {
			t.Skip()
		}
		if got := b.send(reviewer, approvePlan, p.PlanRef, body); got.status < 400 || got.status == 500 {
			t.Errorf("%q: %d %s", body, got.status, got.body)
		}
	})
}
