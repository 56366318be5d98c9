package acceptance

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// approver is a token that approves, of a sample principal.
func (h *host) approver(t *testing.T, as string) string {
	t.Helper()
	return strings.TrimSpace(h.operate(t, "token", "--as", as, "--scope", "px.approve"))
}

// decide sends a request to the door of people.
func (h *host) decide(t *testing.T, token, method, path, body string) (int, http.Header, envelope) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, h.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	var e envelope
	if response.Header.Get("Cache-Control") != "no-store" || json.Unmarshal(text, &e) != nil {
		t.Errorf("%s %s: %d %v %s", method, path, response.StatusCode, response.Header, text)
	}
	return response.StatusCode, response.Header, e
}

// policy replaces the rules of the sample Project.
func (h *host) policy(t *testing.T, rules string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "policy.json")
	if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	h.operate(t, "project", "policy", "structural_team/bridge_package", file)
}

var approvalForm = regexp.MustCompile(`approvalRef (approval_[0-9A-HJKMNP-TV-Z]{26})`)

// approve approves by px and returns the approvalRef.
func (h *host) approve(t *testing.T, ref string, flags ...string) string {
	t.Helper()
	out := h.operate(t, append([]string{"approve", ref, "--yes"}, flags...)...)
	found := approvalForm.FindStringSubmatch(out)
	if found == nil {
		t.Fatalf("px approve printed %s", out)
	}
	return found[1]
}

const asksForAll = `{"rules":[{"on":"flow","approval":"required"},{"on":"run","approval":"required"}]}`

// Where policy asks, an AI's client gets no further than a request; a person reads
// it and approves, and the same request then goes through, once.
// covers: U6, U4, P5, P6, P10
func TestApprovalsOfPlansAndOfRuns(t *testing.T) {
	t.Parallel()
	h := start(t)
	engineer := h.as(t, "engineer")
	f := engineer.create(t, sample, beam("footbridge"))
	h.policy(t, asksForAll)
	p := engineer.plan(t, f, m{"kind": "SetFlowLabel", "label": m{"en": "Approved"}})
	told := engineer.refused(t, "pxflow_apply_change", p.application("apply"), "PX_APPROVAL_REQUIRED /approvalRef")
	if told.Diagnostics[0].Params["planRef"] != p.PlanRef || told.Diagnostics[0].SuggestedAction != "REQUEST_APPROVAL" {
		t.Errorf("told %+v", told)
	}

	// px shows it, and does nothing unless told so.
	before := h.dump(t)
	code, out, errs := h.px(t, "no\n", "approve", p.PlanRef)
	if code != 1 || !strings.Contains(out, "SetFlowLabel") || !strings.Contains(out, "/label") || !strings.Contains(out, p.PlanDigest) || !strings.Contains(errs, "nothing was done") {
		t.Errorf("%d %s%s", code, out, errs)
	}
	if code, out, errs := h.px(t, "", "review", p.PlanRef); code != 0 || !strings.Contains(out, "required for: flow") {
		t.Errorf("%d %s%s", code, out, errs)
	}
	if code, _, errs := h.px(t, "", "approve", p.PlanRef, "--yes", "--as", "viewer"); code != 1 || !strings.Contains(errs, "PX_PERMISSION_DENIED") {
		t.Errorf("%d %s", code, errs)
	}
	if code, _, errs := h.px(t, "", "approve", "flow_x"); code != 2 || !strings.Contains(errs, "planRef") {
		t.Errorf("%d %s", code, errs)
	}
	if changed := before.changes(h.dump(t)); len(changed) > 0 {
		t.Errorf("the store changed: %q", changed)
	}

	// A person approves at the prompt; the plan is applied by it, and the commit says so.
	code, out, errs = h.px(t, "yes\n", "approve", p.PlanRef, "--comment", "checked")
	found := approvalForm.FindStringSubmatch(out)
	if code != 0 || found == nil {
		t.Fatalf("%d %s%s", code, out, errs)
	}
	if again := h.approve(t, p.PlanRef); again != found[1] {
		t.Errorf("approved again, it is %s and not %s", again, found[1])
	}
	var done struct {
		AuthoringProvenance struct{ ApprovedBy, ApprovalRef, Principal string }
	}
	engineer.ok(t, "pxflow_apply_change", with(p.application("apply"), m{"approvalRef": found[1]}), &done)
	if who := done.AuthoringProvenance; !strings.HasSuffix(who.ApprovedBy, "|reviewer") || !strings.HasSuffix(who.Principal, "|engineer") || who.ApprovalRef != found[1] {
		t.Errorf("provenance %+v", who)
	}

	// A costly Run waits; the reference it will have is told, and is what it gets.
	f = engineer.head(t, sample, "footbridge")
	request := m{"kind": "RunFlow", "target": f.Target, "commandId": "costly", "inputs": m{"span": number(10, "m"), "load": number(4, "kN/m")}, "reason": "as drawn"}
	told = engineer.refused(t, "pxflow_run", request, "PX_APPROVAL_REQUIRED /approvalRef")
	runRef, _ := told.Diagnostics[0].Params["runRef"].(string)
	if again := engineer.refused(t, "pxflow_run", request, "PX_APPROVAL_REQUIRED /approvalRef"); again.Diagnostics[0].Params["runRef"] != runRef || runRef == "" {
		t.Errorf("asked again, it is told %+v", again)
	}
	engineer.refused(t, "run_get", m{"runRef": runRef}, "PX_TARGET_NOT_FOUND /runRef")
	if code, out, errs := h.px(t, "", "review", runRef); code != 0 || !strings.Contains(out, `span = {"unit":"m","value":10}`) || !strings.Contains(out, "as drawn") {
		t.Errorf("%d %s%s", code, out, errs)
	}
	approval := h.approve(t, runRef)
	var started struct{ RunRef string }
	engineer.ok(t, "pxflow_run", with(request, m{"approvalRef": approval}), &started)
	if started.RunRef != runRef {
		t.Errorf("the Run is %s and not the %s that was approved", started.RunRef, runRef)
	}
	if r := engineer.finished(t, runRef); r.State != "Succeeded" {
		t.Errorf("%+v", r)
	}
	// Sent again with the approval or without it, it is the same Run.
	engineer.ok(t, "pxflow_run", request, &started)
	if started.RunRef != runRef {
		t.Error("a retry is another Run")
	}
	// The same calculation under another command is another request.
	other := engineer.refused(t, "pxflow_run", with(request, m{"commandId": "another"}), "PX_APPROVAL_REQUIRED /approvalRef")
	if other.Diagnostics[0].Params["runRef"] == runRef {
		t.Error("two commands are one Run")
	}
}

// An approval that ends before what it is of serves no longer, whether that is a
// change, a Batch or a Run, and nothing is written; what it is of still waits, and a
// new approval serves. A Run that waited too long can be neither approved nor started.
//
// covers: U6, P5
func TestAnApprovalThatEndedServesNothing(t *testing.T) {
	t.Parallel()
	h := start(t, "--parameter", "ApprovalLife=3s")
	h.operate(t, "seed")
	engineer := h.as(t, "engineer")
	f, r := engineer.create(t, sample, beam("footbridge")), engineer.report(t, "girder_review")
	h.policy(t, `{"rules":[{"on":"flow","approval":"required"},{"on":"run","approval":"required"},{"on":"batch","approval":"required"}]}`)
	p := engineer.plan(t, f, m{"kind": "ConnectInput", "nodeKey": "moment", "portKey": "w", "binding": literal(4, "kN/m")})
	b, _ := engineer.planReport(t, r, batchOf("girder_check", m{"kind": "table"}, spans(40, 42)...))
	run := m{"kind": "RunFlow", "target": f.Target, "commandId": "costly", "inputs": m{"span": number(10, "m"), "load": number(4, "kN/m")}}
	connection := connectionRequest(r, "connection")
	asked := func(request m) string {
		ref, _ := engineer.refused(t, "pxflow_run", request, "PX_APPROVAL_REQUIRED /approvalRef").Diagnostics[0].Params["runRef"].(string)
		return ref
	}
	matters := []struct {
		name, ref, tool string
		arguments       m
	}{
		{"a change", p.PlanRef, "pxflow_apply_change", p.application("apply")},
		{"a Batch", b.PlanRef, "pxflow_run", m{"kind": "RunReportFlowBatch", "target": r.Target, "planRef": b.PlanRef, "planDigest": b.PlanDigest, "commandId": "batch"}},
		{"a Run", asked(run), "pxflow_run", run},
		{"a Run of a connection", asked(connection), "pxflow_run", connection},
	}
	old := map[string]string{}
	for _, c := range matters {
		old[c.ref] = h.approve(t, c.ref)
	}
	time.Sleep(3*time.Second + 10*time.Millisecond) // the last was given less than 3 s ago, and in a second before it
	before := h.dump(t)
	for _, c := range matters {
		told := engineer.refused(t, c.tool, with(c.arguments, m{"approvalRef": old[c.ref]}), "PX_APPROVAL_INVALID /approvalRef")
		if len(told.Diagnostics) == 1 && (told.Diagnostics[0].Params["reason"] != "expired" || told.Diagnostics[0].SuggestedAction != "REQUEST_APPROVAL") {
			t.Errorf("%s: told %+v", c.name, told.Diagnostics)
		}
	}
	if changed := before.changes(h.dump(t)); len(changed) > 0 {
		t.Errorf("the store changed: %q", changed)
	}
	for _, c := range matters {
		// A slow machine may be too late again, and asks again.
		for attempt := 0; ; attempt++ {
			next := h.approve(t, c.ref)
			if next == old[c.ref] {
				t.Errorf("%s: the approval that ended is given again", c.name)
			}
			got := engineer.call(t, c.tool, with(c.arguments, m{"approvalRef": next}))
			if got.Envelope != nil && got.Envelope.OK {
				break
			}
			if got.Envelope == nil || !slices.Equal(got.Envelope.told(), []string{"PX_APPROVAL_INVALID /approvalRef"}) || attempt == 5 {
				t.Fatalf("%s: with a new approval it is told %+v", c.name, got)
			}
		}
	}
}

// A Run that nobody approved and started in time is not started any more, whether
// it was approved or not, and is not approved any more.
//
// covers: U6
func TestARunDoesNotWaitForEver(t *testing.T) {
	t.Parallel()
	h := start(t, "--parameter", "AskLife=8s")
	engineer := h.as(t, "engineer")
	f := engineer.create(t, sample, beam("footbridge"))
	h.policy(t, asksForAll)
	request := func(command string) m {
		return m{"kind": "RunFlow", "target": f.Target, "commandId": command, "inputs": m{"span": number(10, "m"), "load": number(4, "kN/m")}}
	}
	person := h.approver(t, "reviewer")
	ask := func(command string) (path, digest string) {
		d := engineer.refused(t, "pxflow_run", request(command), "PX_APPROVAL_REQUIRED /approvalRef").Diagnostics[0]
		return "/v1/runs/" + d.Params["runRef"].(string), encode(t, m{"requestDigest": d.Params["requestDigest"]})
	}
	one, digest := ask("one")
	status, _, e := h.decide(t, person, http.MethodPost, one+"/approve", digest)
	var approved struct{ ApprovalRef string }
	if status != 200 || json.Unmarshal(e.Data, &approved) != nil || approved.ApprovalRef == "" {
		t.Fatalf("%d %q", status, e.told())
	}
	two, _ := ask("two")
	var waits struct {
		State     string
		ExpiresAt time.Time
	}
	if status, _, e := h.decide(t, person, http.MethodGet, two, ""); status != 200 || json.Unmarshal(e.Data, &waits) != nil || waits.ExpiresAt.IsZero() {
		t.Fatalf("%d %q: %+v", status, e.told(), waits)
	}
	time.Sleep(time.Until(waits.ExpiresAt) + 10*time.Millisecond)
	before := h.dump(t)
	for command, arguments := range map[string]m{"one": {"approvalRef": approved.ApprovalRef}, "two": nil} {
		d := engineer.refused(t, "pxflow_run", with(request(command), arguments), "PX_PLAN_EXPIRED /commandId").Diagnostics
		if len(d) == 1 && d[0].Params["state"] != "expired" {
			t.Errorf("%s: told %+v", command, d)
		}
	}
	for _, path := range []string{one, two} {
		var read struct{ State string }
		if status, _, e := h.decide(t, person, http.MethodGet, path, ""); status != 200 || json.Unmarshal(e.Data, &read) != nil || read.State != "expired" {
			t.Errorf("%d %q: it is %s", status, e.told(), read.State)
		}
		if status, _, e := h.decide(t, person, http.MethodPost, path+"/approve", digest); status != 409 || !slices.Equal(e.told(), []string{"PX_PLAN_EXPIRED /runRef"}) && path == one {
			t.Errorf("%d %q", status, e.told())
		}
	}
	if changed := before.changes(h.dump(t)); len(changed) > 0 {
		t.Errorf("the store changed: %q", changed)
	}
	ask("three") // another command is another request
}

// covers: U6, P5, G2
func TestNoApprovalServesButOfThisByAnotherInTime(t *testing.T) {
	t.Parallel()
	h := start(t)
	engineer := h.as(t, "engineer")
	f := engineer.create(t, sample, beam("footbridge"))
	h.operate(t, "project", "create", "structural_team/tunnel_package")
	h.operate(t, "project", "grant", "structural_team/tunnel_package", "--to", "engineer", "--rights", "read,edit,run,approve")
	h.operate(t, "project", "grant", "structural_team/bridge_package", "--to", "engineer", "--rights", "read,edit,run,approve")
	tunnel := with(sample, m{"projectKey": "tunnel_package"})
	elsewhere := engineer.plan(t, engineer.create(t, tunnel, beam("portal")), m{"kind": "SetFlowLabel", "label": m{"en": "Portal"}})
	h.policy(t, asksForAll)
	label := func(text string) plan {
		return engineer.plan(t, f, m{"kind": "SetFlowLabel", "label": m{"en": text}})
	}
	one, dead := label("One"), label("Dead")
	// Labels are no part of a digest: another digest takes another change.
	two := engineer.plan(t, f, m{"kind": "ConnectInput", "nodeKey": "moment", "portKey": "w", "binding": literal(4, "kN/m")})
	ofOne, ofDead := h.approve(t, one.PlanRef), h.approve(t, dead.PlanRef)
	request := func(command string) m {
		return m{"kind": "RunFlow", "target": f.Target, "commandId": command, "inputs": m{"span": number(10, "m"), "load": number(4, "kN/m")}}
	}
	asked := func(command string) string {
		told := engineer.refused(t, "pxflow_run", request(command), "PX_APPROVAL_REQUIRED /approvalRef")
		ref, _ := told.Diagnostics[0].Params["runRef"].(string)
		return ref
	}
	first, refused := asked("first"), asked("refused")
	ofFirst, ofRefused := h.approve(t, first), h.approve(t, refused)
	engineer.ok(t, "pxflow_run", with(request("first"), m{"approvalRef": ofFirst}), nil)
	engineer.finished(t, first)
	h.operate(t, "reject", dead.PlanRef, "--yes", "--comment", "too slender")
	h.operate(t, "reject", refused, "--yes")

	tools, approver, requester := h.token(t, "reviewer"), h.approver(t, "reviewer"), h.approver(t, "engineer")
	before := h.dump(t)
	unchanged := func(name string) {
		t.Helper()
		if changed := before.changes(h.dump(t)); len(changed) > 0 {
			t.Errorf("%s: the store changed: %q", name, changed)
		}
	}
	for _, c := range []struct {
		name, tool string
		arguments  m
		told       string
		params     m
	}{
		{"an approval of another plan", "pxflow_apply_change", with(two.application("x"), m{"approvalRef": ofOne}), "PX_APPROVAL_INVALID /approvalRef", m{"reason": "not of this"}},
		{"an approval of a Run for a plan", "pxflow_apply_change", with(two.application("x"), m{"approvalRef": ofFirst}), "PX_APPROVAL_INVALID /approvalRef", m{"reason": "not of this"}},
		{"an approval of another Project", "pxflow_apply_change", with(elsewhere.application("x"), m{"approvalRef": ofOne}), "PX_APPROVAL_INVALID /approvalRef", m{"reason": "not of this"}},
		{"a plan that was rejected", "pxflow_apply_change", with(dead.application("x"), m{"approvalRef": ofDead}), "PX_PLAN_EXPIRED /planRef", m{"state": "rejected"}},
		{"a Run that was rejected", "pxflow_run", with(request("refused"), m{"approvalRef": ofRefused}), "PX_PLAN_EXPIRED /commandId", m{"state": "rejected"}},
		{"an approval used twice", "pxflow_run", with(request("second"), m{"approvalRef": ofFirst}), "PX_APPROVAL_INVALID /approvalRef", m{"reason": "not of this"}},
		{"another request under an approved command", "pxflow_run", with(request("first"), m{"reason": "other"}), "PX_COMMAND_REUSED /commandId", nil},
	} {
		told := engineer.refused(t, c.tool, c.arguments, c.told)
		for name, want := range c.params {
			if len(told.Diagnostics) != 1 || told.Diagnostics[0].Params[name] != want {
				t.Errorf("%s: told %+v", c.name, told.Diagnostics)
			}
		}
		unchanged(c.name)
	}
	digest := func(p plan) string { return encode(t, m{"planDigest": p.PlanDigest}) }
	for _, c := range []struct {
		name, token, path, body string
		status                  int
		told, reason            string
	}{
		{"by the requester", requester, "/v1/plans/" + two.PlanRef + "/approve", digest(two), 409, "PX_APPROVAL_INVALID /planRef", "approver is requester"},
		{"of another digest", approver, "/v1/plans/" + two.PlanRef + "/approve", digest(one), 409, "PX_PLAN_MISMATCH /planDigest", ""},
		{"in a foreign Project", approver, "/v1/plans/" + elsewhere.PlanRef + "/approve", digest(elsewhere), 404, "PX_PLAN_NOT_FOUND /planRef", ""},
		{"of no plan", approver, "/v1/plans/plan_01ARZ3NDEKTSV4RRFFQ69G5FAV/approve", digest(two), 404, "PX_PLAN_NOT_FOUND /planRef", ""},
		{"of a rejected plan", approver, "/v1/plans/" + dead.PlanRef + "/approve", digest(dead), 409, "PX_PLAN_EXPIRED /planRef", ""},
		{"with a field that is not there", approver, "/v1/plans/" + two.PlanRef + "/approve", `{"planDigest":"x","force":true}`, 400, "PX_SCHEMA_UNKNOWN_FIELD /force", ""},
	} {
		status, _, e := h.decide(t, c.token, http.MethodPost, c.path, c.body)
		if told := strings.Join(e.told(), " "); status != c.status || told != c.told || c.reason != "" && e.Diagnostics[0].Params["reason"] != c.reason {
			t.Errorf("%s: %d %s", c.name, status, told)
		}
		unchanged(c.name)
	}
	// What an AI holds opens no door of people, and what people hold no tool.
	for _, path := range []string{"/v1/plans/" + two.PlanRef, "/v1/runs/" + refused} {
		for _, verb := range []string{"", "/approve", "/reject"} {
			method, body := http.MethodPost, digest(two)
			if verb == "" {
				method, body = http.MethodGet, ""
			}
			status, header, _ := h.decide(t, tools, method, path+verb, body)
			challenge := header.Get("WWW-Authenticate")
			if status != http.StatusForbidden || !strings.Contains(challenge, `error="insufficient_scope"`) || !strings.Contains(challenge, `scope="px.approve"`) {
				t.Errorf("%s %s by a token of tools: %d %q", method, path+verb, status, challenge)
			}
			if status, _, _ := h.decide(t, "", method, path+verb, body); status != http.StatusUnauthorized {
				t.Errorf("%s %s without a token: %d", method, path+verb, status)
			}
		}
	}
	if r := post(t, h.URL, approver, line(t, 1, "pxflow_search", m{"scope": sample})); r.status != http.StatusForbidden {
		t.Errorf("a token that approves is taken by the tools: %d", r.status)
	}
	unchanged("doors")

	// Whose right is taken away approved nothing.
	h.operate(t, "project", "grant", "structural_team/bridge_package", "--to", "reviewer", "--rights", "read")
	before = h.dump(t)
	told := engineer.refused(t, "pxflow_apply_change", with(one.application("one"), m{"approvalRef": ofOne}), "PX_APPROVAL_INVALID /approvalRef")
	if len(told.Diagnostics) == 1 && told.Diagnostics[0].Params["reason"] != "approver has no right to approve" {
		t.Errorf("told %+v", told)
	}
	unchanged("after the right was taken away")
	h.operate(t, "project", "grant", "structural_team/bridge_package", "--to", "reviewer", "--rights", "read,approve")
	engineer.ok(t, "pxflow_apply_change", with(one.application("one"), m{"approvalRef": ofOne}), nil)
	before = h.dump(t)
	engineer.refused(t, "pxflow_apply_change", with(one.application("twice"), m{"approvalRef": ofOne}), "PX_GENERATION_STALE /expectedGeneration")
	unchanged("after it was used")

	// Who approved his own plan while policy let him has approved nothing for a policy
	// that does not.
	h.policy(t, `{"rules":[{"on":"flow","approval":"required","separateApprover":false}]}`)
	f = engineer.head(t, sample, "footbridge")
	own := engineer.plan(t, f, m{"kind": "ConnectInput", "nodeKey": "moment", "portKey": "w", "binding": literal(5, "kN/m")})
	ofOwn := h.approve(t, own.PlanRef, "--as", "engineer")
	h.policy(t, asksForAll)
	before = h.dump(t)
	told = engineer.refused(t, "pxflow_apply_change", with(own.application("own"), m{"approvalRef": ofOwn}), "PX_APPROVAL_INVALID /approvalRef")
	if len(told.Diagnostics) == 1 && told.Diagnostics[0].Params["reason"] != "approver is requester" {
		t.Errorf("told %+v", told)
	}
	unchanged("by the requester's own approval")
}

// A rule on what changes is not passed by another command that comes to the same, nor by
// a Function whose next version moves what the rule is about.
//
// covers: U6, N3
func TestARuleOnWhatChangesIsNotPassedAnotherWay(t *testing.T) {
	t.Parallel()
	h := start(t)
	engineer := h.as(t, "engineer")
	scale := h.createFunction(t, engineer, "scale", scaler("scale", 1, "2"))
	other := h.createFunction(t, engineer, "other", scaler("other", 1, "4"))
	used := engineer.create(t, sample, scaling("scaled", scale, 1))
	h.saveAll(t, scaled("connected", used.Target))
	ref := func(f functionHead) m {
		return m{"functionKey": f.Target["functionKey"], "version": f.Target["version"], "digest": f.Target["digest"]}
	}
	pinned := func(f functionHead) m { return with(ref(f), m{"kind": "function"}) }
	input := m{"a": m{"kind": "flowInput", "portKey": "a"}}
	ways := map[string]struct {
		planTool, applyTool string
		request             m
	}{
		"the command itself": {"pxflow_plan_change", "pxflow_apply_change", m{"target": used.Target, "expectedGeneration": 0, "commands": list{m{"kind": "ReplaceNodeTarget", "nodeKey": "n0", "target": pinned(other)}}}},
		"a Node that goes and comes again": {"pxflow_plan_change", "pxflow_apply_change", m{"target": used.Target, "expectedGeneration": 0, "commands": list{
			m{"kind": "RemoveNode", "nodeKey": "n0"}, m{"kind": "AddNode", "nodeKey": "n0", "target": pinned(other), "inputBindings": input}}}},
		"a next version": {"function_plan_change", "function_apply_change", newVersion(scale, scaler("scale", 2, "3"))},
		"a branch": {"function_plan_change", "function_apply_change", m{"target": m{"scope": sample, "functionKey": "branch"}, "expectedGeneration": 0, "commands": list{
			m{"kind": "BranchProjectFunction", "functionKey": "branch", "functionRef": ref(scale), "source": scaler("branch", 1, "5")},
			m{"kind": "ReplaceNodeTarget", "flowTarget": used.Target, "nodeKey": "n0", "target": m{"kind": "function", "functionKey": "branch", "version": 1}}}}},
		"a label": {"pxflow_plan_change", "pxflow_apply_change", m{"target": used.Target, "expectedGeneration": 0, "commands": list{m{"kind": "SetFlowLabel", "label": m{"en": "Other"}}}}},
	}
	type answer struct {
		plan
		Approval struct {
			Required bool
			Reasons  []string
		}
	}
	for _, c := range []struct {
		rules string
		asked map[string]string // the reason, by way
	}{
		{`{"rules":[{"on":"flow","paths":["/nodes/*/target"],"approval":"required"}]}`, map[string]string{"the command itself": "flow at /nodes/*/target",
			"a Node that goes and comes again": "flow at /nodes/*/target", "a next version": "flow at /nodes/*/target", "a branch": "flow at /nodes/*/target"}},
		{`{"rules":[{"on":"flow","kinds":["ReplaceNodeTarget"],"approval":"required"}]}`, map[string]string{"the command itself": "flow ReplaceNodeTarget",
			"a next version": "flow ReplaceNodeTarget", "a branch": "flow ReplaceNodeTarget"}},
		{`{"rules":[{"on":"report","kinds":["SetConnectionFlow"],"approval":"required"}]}`, map[string]string{"a next version": "report SetConnectionFlow"}},
	} {
		h.policy(t, c.rules)
		for name, way := range ways {
			var p answer
			engineer.ok(t, way.planTool, way.request, &p)
			want := []string{}
			if reason, asked := c.asked[name]; asked {
				want = append(want, reason)
				engineer.refused(t, way.applyTool, p.application("alone"), "PX_APPROVAL_REQUIRED /approvalRef")
			}
			if p.Approval.Required != (len(want) > 0) || !slices.Equal(p.Approval.Reasons, want) {
				t.Errorf("%s: %s is told %+v", c.rules, name, p.Approval)
			}
		}
	}
	// Whether a next version will need one is told before it is written.
	for rules, want := range map[string]bool{`{"rules":[{"on":"flow","paths":["/nodes/n0"],"approval":"required"}]}`: true, `{"rules":[{"on":"flow","paths":["/nodes/n1"],"approval":"required"}]}`: false} {
		h.policy(t, rules)
		var d struct {
			Policy struct{ ChangeNeedsApproval bool }
		}
		engineer.ok(t, "function_describe", m{"target": scale.Target}, &d)
		if d.Policy.ChangeNeedsApproval != want {
			t.Errorf("%s: described as %+v", rules, d)
		}
	}
	// With the approval it goes through, whole.
	h.policy(t, `{"rules":[{"on":"flow","paths":["/nodes/*/target"],"approval":"required"}]}`)
	var p answer
	engineer.ok(t, "function_plan_change", ways["a next version"].request, &p)
	engineer.ok(t, "function_apply_change", with(p.application("move"), m{"approvalRef": h.approve(t, p.PlanRef)}), nil)
	if now := engineer.head(t, sample, "scaled"); now.Generation != 1 {
		t.Errorf("the Flow is %+v", now)
	}
}
