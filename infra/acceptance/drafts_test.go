package acceptance

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pxhost/pxhost/shared/cursor"
	"github.com/pxhost/pxhost/shared/draft"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/identity"
	"github.com/pxhost/pxhost/shared/target"
)

// A draftTarget addresses a draft, as the host is told it.
type draftTarget struct {
	Scope          m      `json:"scope"`
	DocumentHandle string `json:"documentHandle"`
}

type madeDraft struct {
	DocumentHandle, ExpiresAt, Digest, FlowKey, ReportKey string
	Target                                                draftTarget
}

// draft makes a draft in a Project, by the route of a trusted host.
func (h *host) draft(t *testing.T, token string, scope, document any) madeDraft {
	t.Helper()
	status, _, e := h.decide(t, token, http.MethodPost, "/v1/drafts", encode(t, m{"scope": scope, "document": document}))
	var made madeDraft
	if status != http.StatusOK || !e.OK || json.Unmarshal(e.Data, &made) != nil || len(e.Diagnostics) > 0 {
		t.Fatalf("no draft: %d %+v", status, e)
	}
	return made
}

// session is the token of a principal in a session of its own.
func (h *host) session(t *testing.T, as, name string) string {
	t.Helper()
	return strings.TrimSpace(h.operate(t, "token", "--as", as, "--session", name))
}

// A draftShown is what a describe tool says of a draft, or of a saved revision.
type draftShown struct {
	Target     m
	Generation *int64
	Current    *bool
	Head       *struct {
		RevisionRef string
		Generation  int64
	}
	Label      m
	Nodes      m
	UsedBy     []string
	Operations []struct {
		Tool      string
		Kinds     []string
		Permitted bool
		Missing   []string
	}
	Slots []struct {
		BlockKey, SlotKey, State string
		Result                   any
	}
	Connections map[string]struct {
		State      string
		Generation int64
	}
	Items []draftShown
}

func (d draftShown) operations() string {
	var out []string
	for _, o := range d.Operations {
		text := o.Tool
		if len(o.Kinds) > 0 {
			text += fmt.Sprint(o.Kinds)
		}
		if !o.Permitted {
			text += fmt.Sprint(" lacks ", o.Missing)
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

// A document that is open in an editor is read, checked and saved, and nothing of it
// is in the Project before it is applied.
//
// covers: T4, D1, D3, D4, F2, F5, P2, P3
func TestALocalDraftIsReadPlannedAndSaved(t *testing.T) {
	t.Parallel()
	h := start(t)
	engineer, token := h.as(t, "engineer"), h.token(t, "engineer")
	document := beam("sketch")
	h.draft(t, token, sample, beam("first")) // the key that seals is made when it is first needed
	before := h.dump(t)
	made := h.draft(t, token, sample, document)
	if made.Digest != digest(t, document) || made.FlowKey != "sketch" || made.ReportKey != "" || made.Target.DocumentHandle != made.DocumentHandle || !reflect.DeepEqual(made.Target.Scope, sample) {
		t.Errorf("made %+v", made)
	}
	if until, err := time.Parse(time.RFC3339, made.ExpiresAt); err != nil || time.Until(until) > 12*time.Hour || time.Until(until) < 11*time.Hour {
		t.Errorf("good until %s", made.ExpiresAt)
	}
	// One object is all that there is of it.
	changed := before.changes(h.dump(t))
	if len(changed) != 1 || !strings.HasPrefix(changed[0], "OBJECTS ") || !strings.Contains(changed[0], made.Digest) {
		t.Fatalf("a draft writes %q", changed)
	}
	unchanged := h.unchanged(t)

	var shown draftShown
	told := engineer.ok(t, "pxflow_describe", m{"target": made.Target}, &shown)
	if shown.Generation != nil || shown.Current == nil || *shown.Current || shown.Head != nil || shown.Label["ko"] != "보" || len(shown.Nodes) != 1 || shown.UsedBy == nil || len(shown.UsedBy) != 0 || len(told.Diagnostics) > 0 {
		t.Errorf("described: %s", told.Data)
	}
	if !reflect.DeepEqual(shown.Target, m{"scope": m(made.Target.Scope), "documentHandle": made.DocumentHandle}) {
		t.Errorf("described as %v", shown.Target)
	}
	if got, want := shown.operations(), "pxflow_validate, pxflow_plan_change[CreateFlow], pxflow_apply_change[CreateFlow], pxflow_run[RunFlow] lacks [saved]"; got != want {
		t.Errorf("one may %q", got)
	}
	var valid struct{ Valid bool }
	if told := engineer.ok(t, "pxflow_validate", m{"target": made.Target}, &valid); !valid.Valid || len(told.Diagnostics) > 0 {
		t.Errorf("validated: %+v", told)
	}
	// Several at once, drafts and saved revisions, in their order.
	girder := engineer.head(t, sample, "girder_check")
	var several draftShown
	engineer.ok(t, "pxflow_describe", m{"targets": list{made.Target, girder.Target, made.Target}}, &several)
	if len(several.Items) != 3 || several.Items[0].Generation != nil || several.Items[1].Generation == nil || !*several.Items[1].Current || several.Items[1].Head.RevisionRef != girder.Target.RevisionRef || !reflect.DeepEqual(several.Items[0], several.Items[2]) {
		t.Errorf("several: %+v", several)
	}
	unchanged(t)

	// The plan is the one of CreateFlow with that document, digest and all.
	saving := flowTarget{sample, "sketch", digest(t, document)}
	type whole struct {
		PlanDigest           string
		Target, Base         m
		ExpectedGeneration   int64
		Commands, Diff       list
		TouchedSemanticPaths []string
		Impact               m
	}
	var ordinary, drafted whole
	engineer.ok(t, "pxflow_plan_change", m{"target": saving, "expectedGeneration": 0, "commands": list{m{"kind": "CreateFlow", "document": document}}}, &ordinary)
	answer := engineer.ok(t, "pxflow_plan_change", m{"target": made.Target, "expectedGeneration": 0}, &drafted)
	if !reflect.DeepEqual(ordinary, drafted) || ordinary.PlanDigest == "" || drafted.Target["revisionRef"] != saving.RevisionRef {
		t.Errorf("ordinary %+v\ndrafted  %+v", ordinary, drafted)
	}
	var p plan
	if err := json.Unmarshal(answer.Data, &p); err != nil {
		t.Fatal(err)
	}
	var a applied
	engineer.ok(t, "pxflow_apply_change", p.application("save-draft"), &a)
	if a.NewRevisionRef != made.Digest || a.NewGeneration != 0 {
		t.Errorf("applied %+v", a)
	}

	// Saved, it is still a draft, and there is nothing that it could be planned as.
	engineer.ok(t, "pxflow_describe", m{"target": made.Target}, &shown)
	if shown.Generation != nil || *shown.Current || shown.Head == nil || shown.Head.RevisionRef != made.Digest {
		t.Errorf("described: %+v", shown)
	}
	if got, want := shown.operations(), "pxflow_validate, pxflow_plan_change[CreateFlow] lacks [freeKey], pxflow_apply_change[CreateFlow] lacks [freeKey], pxflow_run[RunFlow] lacks [saved]"; got != want {
		t.Errorf("one may %q", got)
	}
	refused := engineer.refused(t, "pxflow_plan_change", m{"target": made.Target, "expectedGeneration": 0}, "FlowHeadAlreadyExists /target/documentHandle")
	if params := refused.Diagnostics[0].Params; params["flowKey"] != "sketch" || params["currentRevisionRef"] != made.Digest || params["current"] != 0.0 {
		t.Errorf("told %v", params)
	}
	// A continued answer of the plan is that plan, whatever was saved since.
	var cut struct {
		PlanRef    string
		Truncation struct{ Continuation m }
	}
	second := h.draft(t, token, sample, beam("second"))
	engineer.ok(t, "pxflow_plan_change", m{"target": second.Target, "expectedGeneration": 0, "budget": m{"bytes": 3300}}, &cut)
	next, _ := cut.Truncation.Continuation["value"].(string)
	if next == "" {
		t.Fatalf("not cut: %+v", cut)
	}
	engineer.create(t, sample, beam("second"))
	engineer.ok(t, "pxflow_plan_change", m{"target": second.Target, "expectedGeneration": 0, "budget": m{"bytes": 3300}, "cursor": next}, nil)
}

// covers: T4, F5, D3
func TestADraftMayBeInvalidAndSaysHow(t *testing.T) {
	t.Parallel()
	h := start(t)
	engineer := h.as(t, "engineer")
	document := copied(t, beam("broken"))
	document["results"].(m)["spare"] = scalar("kN*m")
	at(document, "nodes", "moment", "inputBindings")["w"] = flowInput("gone")
	at(document, "nodes")["other"] = m{"target": m{"kind": "component", "componentKey": "acme.solver", "version": 1}}
	made := h.draft(t, h.token(t, "engineer"), sample, document)
	want := []string{"PX_REFERENCE_UNKNOWN /nodes/moment/inputBindings/w/portKey", "PX_COMPONENT_NOT_RUNNABLE /nodes/other/target", "PX_BINDING_MISSING /results/spare/binding"}
	var valid struct{ Valid bool }
	if told := engineer.ok(t, "pxflow_validate", m{"target": made.Target}, &valid).told(); valid.Valid || !slices.Equal(told, want) {
		t.Errorf("validated: %v %q", valid.Valid, told)
	}
	if told := engineer.ok(t, "pxflow_describe", m{"target": made.Target}, nil).told(); !slices.Equal(told, want) {
		t.Errorf("described: %q", told)
	}
	unchanged := h.unchanged(t)
	in := slices.Clone(want)
	for i := range in {
		in[i] = strings.Replace(in[i], " /", " /commands/0/document/", 1)
	}
	engineer.refused(t, "pxflow_plan_change", m{"target": made.Target, "expectedGeneration": 0}, in...)
	unchanged(t)
}

// The Python source of an SDK-linked Flow comes with its document, and both are saved
// by the plan of the draft. Without it the draft is read and not saved, even where the
// source that it names is an object of the Project.
//
// covers: T4, F4
func TestADraftOfALinkedFlowBringsItsSource(t *testing.T) {
	t.Parallel()
	h := start(t)
	engineer, token := h.as(t, "engineer"), h.token(t, "engineer")
	linked := func(key, expression string) (document m, source string) {
		source = `"""보"""
import px

flow = px.flow("` + key + `", label={"en": "Linked"})
span = flow.input("span", px.number(unit="m"))
twice = flow.node("twice", px.component("px.formula", 1), settings={"inputs": {"l": {"unit": "m"}}, "results": {"r": {"expression": "2 * l", "unit": "m"}}})
flow.connect(twice.input("l"), span)  # the whole length
flow.result("double", px.number(unit="m"), twice.output("r"))
`
		length := m{"type": "number", "unit": "m"}
		return m{"format": "pxflow/1", "flowKey": key, "label": m{"en": "Linked"}, "authoring": m{"kind": "sdk", "sourceDigest": fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(source)))},
			"inputs": m{"span": length}, "results": m{"double": with(length, m{"binding": nodeResult("twice", "r")})},
			"nodes": m{"twice": formula(expression, "m", m{"l": m{"unit": "m"}}, m{"l": flowInput("span")})}}, source
	}
	make := func(document m, source string) madeDraft {
		t.Helper()
		body := m{"scope": sample, "document": document}
		if source != "" {
			body["source"] = source
		}
		status, _, e := h.decide(t, token, http.MethodPost, "/v1/drafts", encode(t, body))
		var made madeDraft
		if status != http.StatusOK || json.Unmarshal(e.Data, &made) != nil {
			t.Fatalf("%d %+v", status, e)
		}
		return made
	}
	document, source := linked("linked", "2 * l")
	whole, bare := make(document, source), make(document, "")
	var valid struct{ Valid bool }
	if told := engineer.ok(t, "pxflow_validate", m{"target": whole.Target}, &valid); !valid.Valid || len(told.Diagnostics) > 0 {
		t.Fatalf("validated: %+v", told)
	}
	engineer.ok(t, "pxflow_describe", m{"target": whole.Target}, nil)
	if told := engineer.ok(t, "pxflow_validate", m{"target": bare.Target}, &valid).told(); valid.Valid || !slices.Equal(told, []string{"PX_SOURCE_INVALID /authoring/sourceDigest"}) {
		t.Errorf("without its source: %v %q", valid.Valid, told)
	}
	engineer.refused(t, "pxflow_plan_change", m{"target": bare.Target, "expectedGeneration": 0}, "PX_SCHEMA_INVALID /commands/0/source")

	// What says something else than its source is told so, and not saved.
	other, otherSource := linked("other", "3 * l")
	apart := make(other, otherSource)
	told := engineer.ok(t, "pxflow_validate", m{"target": apart.Target}, &valid).told()
	if valid.Valid || len(told) == 0 || !strings.HasPrefix(told[0], "PX_SOURCE_PARITY /nodes/twice") {
		t.Errorf("apart: %v %q", valid.Valid, told)
	}
	unchanged := h.unchanged(t)
	if got := engineer.call(t, "pxflow_plan_change", m{"target": apart.Target, "expectedGeneration": 0}); got.Envelope.OK || !strings.HasPrefix(got.Envelope.told()[0], "PX_SOURCE_PARITY /commands/0/document/nodes/twice") {
		t.Errorf("apart: %+v", got)
	}
	unchanged(t)

	var ordinary, drafted plan
	engineer.ok(t, "pxflow_plan_change", m{"target": flowTarget{sample, "linked", whole.Digest}, "expectedGeneration": 0,
		"commands": list{m{"kind": "CreateFlow", "document": document, "source": source}}}, &ordinary)
	engineer.ok(t, "pxflow_plan_change", m{"target": whole.Target, "expectedGeneration": 0}, &drafted)
	if ordinary.PlanDigest != drafted.PlanDigest {
		t.Errorf("ordinary %s, drafted %s", ordinary.PlanDigest, drafted.PlanDigest)
	}
	engineer.ok(t, "pxflow_apply_change", drafted.application("save-linked"), nil)
	if told := engineer.ok(t, "pxflow_validate", m{"target": engineer.head(t, sample, "linked").Target}, &valid); !valid.Valid {
		t.Errorf("saved: %+v", told)
	}
	// px sends both.
	dir := t.TempDir()
	document, source = linked("by_px", "2 * l")
	for name, text := range map[string]string{"by_px.pxflow": encode(t, document), "by_px.py": source} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	target := h.operate(t, "draft", "structural_team/bridge_package", filepath.Join(dir, "by_px.pxflow"), "--source", filepath.Join(dir, "by_px.py"), "--target")
	engineer.ok(t, "pxflow_validate", `{"target":`+strings.TrimSpace(target)+`}`, &valid)
	if !valid.Valid {
		t.Error("what px sends is not valid")
	}
}

// covers: T4, D1, R3
func TestAReportIsDraftedToo(t *testing.T) {
	t.Parallel()
	h := start(t)
	engineer, token := h.as(t, "engineer"), h.token(t, "engineer")
	f := engineer.create(t, sample, beam("footbridge"))
	document := reviewOf("sketch_review")
	document["connections"] = m{"check": m{"flowTarget": f.Target,
		"inputs": m{"span_in": m{"portKey": "span", "source": m{"kind": "reportValue", "blockKey": "basis", "fieldKey": "span"}},
			"load_in": m{"portKey": "load", "source": m{"kind": "reportValue", "blockKey": "basis", "fieldKey": "load"}}},
		"results": m{"moment_out": m{"portKey": "moment", "target": m{"kind": "reportResultSlot", "blockKey": "summary", "slotKey": "moment"}}}}}
	made := h.draft(t, token, sample, document)
	if made.ReportKey != "sketch_review" || made.FlowKey != "" || made.Digest != digest(t, document) {
		t.Errorf("made %+v", made)
	}
	var shown draftShown
	engineer.ok(t, "report_describe", m{"target": made.Target}, &shown)
	if shown.Generation != nil || *shown.Current || shown.Head != nil || len(shown.Slots) != 1 || shown.Slots[0].State != "Empty" || shown.Connections["check"].State != "ready" || shown.Connections["check"].Generation != 0 {
		t.Errorf("described: %+v", shown)
	}
	const saveIt = "report_plan_change[CreateReport], report_apply_change[CreateReport], pxflow_run[RunReportFlowConnection RunReportFlowBatch] lacks [saved]"
	if got := shown.operations(); got != saveIt {
		t.Errorf("one may %q", got)
	}
	planned := func(arguments m) (digest string, p plan) {
		t.Helper()
		engineer.ok(t, "report_plan_change", arguments, &p)
		return p.PlanDigest, p
	}
	ordinary, _ := planned(m{"target": reportTarget{sample, "sketch_review", made.Digest}, "expectedGeneration": 0, "commands": list{m{"kind": "CreateReport", "document": document}}})
	drafted, p := planned(m{"target": made.Target, "expectedGeneration": 0})
	if ordinary != drafted {
		t.Errorf("ordinary %s, drafted %s", ordinary, drafted)
	}
	engineer.ok(t, "report_apply_change", p.application("save-report-draft"), nil)
	r := engineer.report(t, "sketch_review")

	// What the saved Report shows is none of the draft's.
	var started struct{ RunRef string }
	engineer.ok(t, "pxflow_run", m{"kind": "RunReportFlowConnection", "target": r.Target, "connectionKey": "check", "commandId": "run"}, &started)
	engineer.finished(t, started.RunRef)
	var both draftShown
	engineer.ok(t, "report_describe", m{"targets": list{r.Target, made.Target}}, &both)
	if both.Items[0].Slots[0].State != "Current" || both.Items[1].Slots[0].State != "Empty" || both.Items[1].Slots[0].Result != nil || both.Items[1].Connections["check"].Generation != 0 {
		t.Errorf("both: %+v", both.Items)
	}
	refused := engineer.refused(t, "report_plan_change", m{"target": made.Target, "expectedGeneration": 0}, "ReportHeadAlreadyExists /target/documentHandle")
	if params := refused.Diagnostics[0].Params; params["reportKey"] != "sketch_review" || params["currentRevisionRef"] != r.Target.RevisionRef {
		t.Errorf("told %v", params)
	}
}

// A handle is good for the principal, session, Project and kind that it was made for,
// and for the rights that the principal has when it is used.
//
// covers: T4, S4, W6
func TestADraftIsNobodyElses(t *testing.T) {
	t.Parallel()
	h := start(t)
	engineer, token := h.as(t, "engineer"), h.token(t, "engineer")
	tunnel := m{"kind": "project", "workspaceKey": "structural_team", "projectKey": "tunnel_package"}
	h.operate(t, "project", "create", "structural_team/tunnel_package")
	h.operate(t, "project", "grant", "structural_team/tunnel_package", "--to", "engineer", "--rights", "read,edit")
	made, review := h.draft(t, token, sample, beam("sketch")), h.draft(t, token, sample, reviewOf("sketch_review"))
	elsewhere := h.draft(t, token, tunnel, beam("sketch"))
	saved := engineer.create(t, sample, beam("saved"))
	var page struct{ NextCursor string }
	engineer.ok(t, "pxflow_search", m{"scope": sample, "limit": 1}, &page)
	earlier := engineer.plan(t, saved, m{"kind": "SetFlowLabel", "label": m{"en": "x"}})
	altered := []byte(made.DocumentHandle)
	altered[len(altered)/2] ^= 1

	unchanged := h.unchanged(t)
	on := func(handle string) m { return m{"target": draftTarget{sample, handle}} }
	planning := func(target any, more m) m { return with(m{"target": target, "expectedGeneration": 0}, more) }
	label := list{m{"kind": "SetFlowLabel", "label": m{"en": "x"}}}
	const missing = "PX_TARGET_NOT_FOUND /target/documentHandle"
	application := func(target any) m { return with(earlier.application("bad"), m{"target": target}) }
	reviewer := caller{h.URL, h.token(t, "reviewer")}
	another := caller{h.URL, h.session(t, "engineer", "another")}
	for _, c := range []struct {
		name      string
		as        caller
		tool      string
		arguments m
		told      []string
	}{
		{"altered by one bit", engineer, "pxflow_describe", on(string(altered)), []string{missing}},
		{"of another principal", reviewer, "pxflow_describe", on(made.DocumentHandle), []string{missing}},
		{"of another principal, validated", reviewer, "pxflow_validate", on(made.DocumentHandle), []string{missing}},
		{"of another principal, a Report", reviewer, "report_describe", on(review.DocumentHandle), []string{missing}},
		{"of another principal, planned", reviewer, "pxflow_plan_change", planning(made.Target, nil), []string{missing}},
		{"of a stranger", h.as(t, "other"), "pxflow_describe", on(made.DocumentHandle), []string{"PX_TARGET_NOT_FOUND /target/scope"}},
		{"of another session", another, "pxflow_describe", on(made.DocumentHandle), []string{missing}},
		{"of another session, planned", another, "pxflow_plan_change", planning(made.Target, nil), []string{missing}},
		{"of another Project", engineer, "pxflow_validate", on(elsewhere.DocumentHandle), []string{missing}},
		{"in another Project", engineer, "pxflow_validate", m{"target": draftTarget{tunnel, made.DocumentHandle}}, []string{missing}},
		{"of a Report, as a Flow", engineer, "pxflow_describe", on(review.DocumentHandle), []string{missing}},
		{"of a Flow, as a Report", engineer, "report_describe", on(made.DocumentHandle), []string{missing}},
		{"of a Flow, planned as a Report", engineer, "report_plan_change", planning(made.Target, nil), []string{missing}},
		{"a cursor", engineer, "pxflow_describe", on(page.NextCursor), []string{missing}},
		{"a digest", engineer, "pxflow_describe", on(made.Digest), []string{missing}},
		{"of no length", engineer, "pxflow_describe", on(""), []string{"PX_SCHEMA_INVALID /target/documentHandle"}},
		{"of several, two of them foreign", engineer, "pxflow_describe", m{"targets": list{made.Target, draftTarget{sample, "x"}, saved.Target, draftTarget{sample, "y"}}},
			[]string{"PX_TARGET_NOT_FOUND /targets/1/documentHandle", "PX_TARGET_NOT_FOUND /targets/3/documentHandle"}},
		{"without its scope", engineer, "pxflow_describe", m{"target": m{"documentHandle": made.DocumentHandle}}, []string{"PX_SCHEMA_INVALID /target/scope"}},
		{"with half its scope", engineer, "pxflow_describe", m{"target": m{"scope": m{"kind": "project", "projectKey": "bridge_package"}, "documentHandle": made.DocumentHandle}},
			[]string{"PX_SCHEMA_INVALID /target/scope/workspaceKey"}},
		{"and a revision", engineer, "pxflow_describe", m{"target": m{"scope": sample, "documentHandle": made.DocumentHandle, "flowKey": "saved", "revisionRef": saved.Target.RevisionRef}},
			[]string{"PX_SCHEMA_INVALID /target"}},
		{"and a revision, planned", engineer, "report_plan_change", planning(m{"scope": sample, "documentHandle": made.DocumentHandle, "reportKey": "saved"}, nil), []string{"PX_SCHEMA_INVALID /target"}},
		{"planned with commands", engineer, "pxflow_plan_change", planning(made.Target, m{"commands": label}), []string{"PX_SCHEMA_INVALID /commands"}},
		{"planned with its own CreateFlow", engineer, "pxflow_plan_change", planning(made.Target, m{"commands": list{m{"kind": "CreateFlow", "document": beam("sketch")}}}), []string{"PX_SCHEMA_INVALID /commands"}},
		{"planned as a rebase, with commands", engineer, "pxflow_plan_change", planning(made.Target, m{"commands": label, "rebaseFromPlanRef": earlier.PlanRef}),
			[]string{"PX_SCHEMA_INVALID /commands", "PX_SCHEMA_INVALID /rebaseFromPlanRef"}},
		{"planned on a generation", engineer, "pxflow_plan_change", planning(made.Target, m{"expectedGeneration": 1}), []string{"PX_GENERATION_STALE /expectedGeneration"}},
		{"nothing to plan", engineer, "pxflow_plan_change", planning(saved.Target, nil), []string{"PX_SCHEMA_INVALID "}},
		{"run", engineer, "pxflow_run", m{"kind": "RunFlow", "target": made.Target, "inputs": m{"span": number(10, "m"), "load": number(4, "kN/m")}, "commandId": "bad"},
			[]string{"PX_SCHEMA_UNKNOWN_FIELD /target/documentHandle", "PX_SCHEMA_INVALID /target/revisionRef"}},
		{"run as a Report", engineer, "pxflow_run", m{"kind": "RunReportFlowConnection", "target": review.Target, "connectionKey": "check", "commandId": "bad"},
			[]string{"PX_SCHEMA_UNKNOWN_FIELD /target/documentHandle", "PX_SCHEMA_INVALID /target/revisionRef"}},
		{"applied", engineer, "pxflow_apply_change", application(made.Target),
			[]string{"PX_SCHEMA_UNKNOWN_FIELD /target/documentHandle", "PX_SCHEMA_INVALID /target/flowKey", "PX_SCHEMA_INVALID /target/revisionRef"}},
		{"applied as a Report", engineer, "report_apply_change", application(review.Target),
			[]string{"PX_SCHEMA_UNKNOWN_FIELD /target/documentHandle", "PX_SCHEMA_INVALID /target/reportKey", "PX_SCHEMA_INVALID /target/revisionRef"}},
	} {
		got := c.as.call(t, c.tool, c.arguments)
		if got.Envelope == nil || got.Envelope.OK || !slices.Equal(got.Envelope.told(), c.told) {
			t.Errorf("a draft %s: want %q, got %+v", c.name, c.told, got)
		}
		for _, d := range got.Envelope.Diagnostics {
			if strings.HasSuffix(d.Path, "/documentHandle") && d.Code == "PX_SCHEMA_UNKNOWN_FIELD" && d.Params["reason"] != "saved_revision_required" {
				t.Errorf("a draft %s is told %v", c.name, d.Params)
			}
		}
		unchanged(t)
	}
	engineer.ok(t, "pxflow_describe", m{"target": made.Target}, nil)

	// The door refuses the same way.
	good := encode(t, m{"scope": sample, "document": beam("sketch_2")})
	for name, c := range map[string]struct {
		token, body string
		status      int
		told        string
	}{
		"by who may only read":            {h.token(t, "viewer"), good, http.StatusForbidden, "PX_PERMISSION_DENIED /scope"},
		"by a stranger":                   {h.token(t, "other"), good, http.StatusNotFound, "PX_TARGET_NOT_FOUND /scope"},
		"by who approves":                 {h.approver(t, "engineer"), good, http.StatusForbidden, ""},
		"without a token":                 {"", good, http.StatusUnauthorized, ""},
		"in a Project that is not there":  {token, strings.Replace(good, "bridge_package", "nowhere", 1), http.StatusNotFound, "PX_TARGET_NOT_FOUND /scope"},
		"of half a scope and no format":   {token, `{"scope":{"kind":"project","workspaceKey":"structural_team"},"document":{}}`, http.StatusBadRequest, "PX_SCHEMA_INVALID /document/format PX_SCHEMA_INVALID /scope/projectKey"},
		"of a document with two mistakes": {token, strings.NewReplacer(`"flowKey":"sketch_2"`, `"flowKey":"Sketch"`, `"kind":"native"`, `"kind":"other"`).Replace(good), http.StatusBadRequest, "PX_SCHEMA_INVALID /document/authoring/kind PX_SCHEMA_INVALID /document/flowKey"},
		"of a body that is no JSON":       {token, good[:40], http.StatusBadRequest, ""},
		"of a body that is too large":     {token, good[:len(good)-1] + strings.Repeat(" ", 2<<20) + "}", http.StatusRequestEntityTooLarge, ""},
	} {
		if status, _, e := h.decide(t, c.token, http.MethodPost, "/v1/drafts", c.body); status != c.status || strings.Join(e.told(), " ") != c.told {
			t.Errorf("made %s: %d %q", name, status, e.told())
		}
		unchanged(t)
	}

	// Another session of the same person has drafts of its own, of the same document.
	own := h.draft(t, another.token, sample, beam("sketch"))
	another.ok(t, "pxflow_describe", m{"target": own.Target}, nil)
	engineer.refused(t, "pxflow_describe", m{"target": own.Target}, missing)

	// Rights are those of the moment.
	h.operate(t, "project", "grant", "structural_team/bridge_package", "--to", "engineer", "--rights", "read")
	var shown draftShown
	engineer.ok(t, "pxflow_describe", m{"target": made.Target}, &shown)
	if got, want := shown.operations(), "pxflow_validate, pxflow_plan_change[CreateFlow] lacks [edit], pxflow_apply_change[CreateFlow] lacks [edit], pxflow_run[RunFlow] lacks [run saved]"; got != want {
		t.Errorf("one may %q", got)
	}
	engineer.refused(t, "pxflow_plan_change", planning(made.Target, nil), "PX_PERMISSION_DENIED /target/scope")
	h.operate(t, "project", "grant", "structural_team/bridge_package", "--to", "engineer")
	engineer.refused(t, "pxflow_describe", m{"target": made.Target}, "PX_TARGET_NOT_FOUND /target/scope")
	engineer.refused(t, "pxflow_plan_change", planning(made.Target, nil), "PX_TARGET_NOT_FOUND /target/scope")
}

// A handle that has expired is none. One that is sealed as the host seals them, for
// the very same holder, is good a minute before its time is up and not a moment after.
//
// covers: T4
func TestADraftExpires(t *testing.T) {
	t.Parallel()
	h := start(t)
	engineer, token := h.as(t, "engineer"), h.token(t, "engineer")
	made := h.draft(t, token, sample, beam("sketch"))
	verifier, err := identity.New(identity.Config{Issuer: h.URL, Audience: "pxhost"})
	if err != nil {
		t.Fatal(err)
	}
	who, err := verifier.Verify(t.Context(), "Bearer "+token, identity.ScopeTools)
	if err != nil {
		t.Fatal(err)
	}
	store := h.parts(t).Store
	sealed := func(ago time.Duration) draftTarget {
		t.Helper()
		then := func() time.Time { return time.Now().Add(-ago) }
		handles := draft.Handles{Sealer: cursor.New(store, draft.Life, then), Life: draft.Life, Now: then}
		handle, _, err := handles.Make(t.Context(), draft.Holder{Principal: who.Issuer + "|" + who.Subject, Session: who.Session},
			target.Project{WorkspaceKey: "structural_team", ProjectKey: "bridge_package"}, draft.Draft{Kind: "flow", Key: "sketch", Object: history.Ref(made.Digest)})
		if err != nil {
			t.Fatal(err)
		}
		return draftTarget{sample, handle}
	}
	young, old := sealed(draft.Life-time.Minute), sealed(draft.Life)
	unchanged := h.unchanged(t)
	engineer.ok(t, "pxflow_validate", m{"target": young}, nil)
	for tool, arguments := range map[string]m{"pxflow_describe": {"target": old}, "pxflow_validate": {"target": old}, "pxflow_plan_change": {"target": old, "expectedGeneration": 0}} {
		engineer.refused(t, tool, arguments, "PX_TARGET_NOT_FOUND /target/documentHandle")
	}
	unchanged(t)
}

// A draft of the largest document is an object of the bucket, and is described part
// by part.
//
// covers: T4, B2
func TestTheLargestDraftIsDescribedInParts(t *testing.T) {
	t.Parallel()
	h := start(t)
	engineer := h.as(t, "engineer")
	document := reviewOf("large_sketch")
	random := rand.New(rand.NewPCG(1, 2))
	text := func(n int) string { // no compression helps
		out := make([]byte, n)
		for i := range out {
			out[i] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"[random.IntN(64)]
		}
		return string(out)
	}
	const most, blocks = 1 << 20, 40
	order := list{"basis", "summary"}
	for i := range blocks {
		key := fmt.Sprintf("text_%02d", i)
		order = append(order, key)
		document["blocks"].(m)[key] = m{"kind": "text", "text": text(25_000)}
	}
	document["blockOrder"] = order
	last := document["blocks"].(m)["text_39"].(m)
	last["text"] = last["text"].(string) + text(most-len(encode(t, document)))
	if n := len(encode(t, document)); n != most {
		t.Fatalf("a document of %d bytes", n)
	}
	made := h.draft(t, h.token(t, "engineer"), sample, document)
	told := map[string]bool{}
	arguments := m{"target": made.Target, "budget": m{"bytes": 400_000}}
	for parts := 1; ; parts++ {
		var part struct {
			Blocks     m
			Truncation *struct{ Continuation struct{ Value string } }
		}
		if e := engineer.ok(t, "report_describe", arguments, &part); len(e.Resources) > 0 {
			t.Errorf("a part of a draft has a link, which would be good for longer: %v", e.Resources)
		}
		for key := range part.Blocks {
			if told[key] {
				t.Fatalf("%s is told twice", key)
			}
			told[key] = true
		}
		if part.Truncation == nil {
			if parts < 3 || len(told) != blocks+2 {
				t.Errorf("%d blocks in %d parts", len(told), parts)
			}
			break
		}
		arguments["cursor"] = part.Truncation.Continuation.Value
	}
	last["text"] = last["text"].(string) + "x"
	status, _, e := h.decide(t, h.token(t, "engineer"), http.MethodPost, "/v1/drafts", encode(t, m{"scope": sample, "document": document}))
	if status != http.StatusRequestEntityTooLarge || !slices.Equal(e.told(), []string{"PX_LIMIT_EXCEEDED /document"}) {
		t.Errorf("one byte more: %d %+v", status, e)
	}
}

// covers: T4
func TestAPersonMakesADraftByPx(t *testing.T) {
	t.Parallel()
	h := start(t)
	dir := t.TempDir()
	file := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	pretty, err := json.MarshalIndent(beam("sketch"), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	good := file("sketch.pxflow", string(pretty)+"\n")
	const project = "structural_team/bridge_package"
	out := h.operate(t, "draft", project, good)
	for _, want := range []string{"Flow sketch", digest(t, beam("sketch")), "pxflow_plan_change", `"documentHandle":"`} {
		if !strings.Contains(out, want) {
			t.Errorf("px draft printed %s", out)
		}
	}
	// What it prints alone goes into a call, with another token of the same session.
	target := strings.TrimSpace(h.operate(t, "draft", project, good, "--target"))
	if out := h.operate(t, "call", "pxflow_validate", `{"target": `+target+`}`); !strings.Contains(out, `"valid": true`) {
		t.Errorf("%s", out)
	}
	code, out, errs := h.px(t, encode(t, reviewOf("sketch_review")), "draft", project, "-", "--json")
	var answer struct {
		OK   bool
		Data madeDraft
	}
	if err := json.Unmarshal([]byte(out), &answer); code != 0 || err != nil || !answer.OK || answer.Data.ReportKey != "sketch_review" {
		t.Errorf("%d %s%s %v", code, out, errs, err)
	}
	for name, c := range map[string]struct {
		args []string
		in   string
		code int
		errs string
	}{
		"two mistakes":             {[]string{project, file("bad.pxflow", strings.NewReplacer(`"sketch"`, `"Sketch"`, `"native"`, `"other"`).Replace(string(pretty)))}, "", 1, `PX_SCHEMA_INVALID at "/document/flowKey"`},
		"no JSON":                  {[]string{project, file("half.pxflow", string(pretty[:99]))}, "", 2, "not strict JSON at byte"},
		"no file":                  {[]string{project, filepath.Join(dir, "gone.pxflow")}, "", 2, "no such file"},
		"nothing":                  {[]string{project, "-"}, "", 2, "not strict JSON"},
		"no Project":               {[]string{"bridge_package", good}, "", 2, "WORKSPACE/PROJECT"},
		"no arguments":             {nil, "", 2, "WORKSPACE/PROJECT"},
		"a Project of nobody":      {[]string{"structural_team/nowhere", good}, "", 1, `PX_TARGET_NOT_FOUND at "/scope"`},
		"by who may only read":     {[]string{project, good, "--as", "viewer"}, "", 1, "PX_PERMISSION_DENIED"},
		"by nobody who is known":   {[]string{project, good, "--as", "nobody"}, "", 2, "--as takes one of"},
		"a file that is too large": {[]string{project, file("large.pxflow", strings.Repeat(" ", 2<<20)+"{}")}, "", 2, "larger than"},
	} {
		if code, out, errs := h.px(t, c.in, append([]string{"draft"}, c.args...)...); code != c.code || out != "" || !strings.Contains(errs, c.errs) {
			t.Errorf("%s: %d %s%s", name, code, out, errs)
		}
	}
}
