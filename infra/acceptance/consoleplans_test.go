package acceptance

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

var approvalRefs = regexp.MustCompile(`approval_[0-9A-HJKMNP-TV-Z]{26}`)

// asAssistant calls a tool as an AI's client does, which says what assistant it is.
func (c caller) asAssistant(t *testing.T, tool string, arguments, data any) envelope {
	t.Helper()
	text := strings.TrimSuffix(line(t, 1, tool, arguments), "}}") + `,"_meta":{"px/assistant":{"provider":"example","model":"draughtsman <i>2</i>"}}}}`
	r := post(t, c.url, c.token, text)
	got := read(t, r.body)
	if got.Envelope == nil {
		t.Fatalf("%s: %s", tool, r.body)
	}
	if data != nil {
		if !got.Envelope.OK {
			t.Fatalf("%s: %s", tool, r.body)
		}
		if err := json.Unmarshal(got.Envelope.Data, data); err != nil {
			t.Fatal(err)
		}
	}
	return *got.Envelope
}

// What an AI may not do alone, a person decides: the AI plans a change and is told
// PX_APPROVAL_REQUIRED; the reviewer signs in with a browser, sees who asks, what changes,
// what it reaches and which results turn Stale, and approves; the same change then goes
// through by that approval, its Run is watched, and the Report shows the value with its
// unit.
//
// covers: U6, W10
func TestAReviewerApprovesInABrowserWhatAnAIProposes(t *testing.T) {
	t.Parallel()
	h := start(t)
	engineer := h.as(t, "engineer")
	h.policy(t, `{"rules":[{"on":"report","approval":"required"}]}`)
	r := engineer.report(t, "girder_review")
	var p reportPlan
	engineer.asAssistant(t, "report_plan_change", m{"target": r.Target, "expectedGeneration": r.Generation, "commands": list{
		m{"kind": "SetFieldValue", "blockKey": "design_basis", "fieldKey": "span", "value": m{"value": 24, "unit": "m"}}}}, &p)
	told := engineer.refused(t, "report_apply_change", p.application("lengthen"), "PX_APPROVAL_REQUIRED /approvalRef")
	if told.Diagnostics[0].Params["planRef"] != p.PlanRef {
		t.Fatalf("told %+v", told)
	}

	b := h.browse(t, 1280, 900)
	b.signIn("reviewer")
	b.sees("main", "Change of report/girder_review", "engineer")
	b.shoot("home-1280")
	b.do(chromedp.Click(chromedp.CSS(`a[href="/console/plans/` + p.PlanRef + `"]`)))
	b.sees("h1", "Change of report/girder_review", "open")
	b.sees("main", "engineer", "example · draughtsman <i>2</i>", "needed for: report", "/blocks/design_basis/fields/span/value", "80 ft", "24 m", "SetFieldValue", p.PlanDigest[:19])
	// What it reaches is drawn, and said in words.
	b.sees("#reach", "girder_check", "girder_review", "Flow", "Report")
	b.shoot("plan-report-1280")
	b.do(chromedp.SendKeys(chromedp.CSS("#comment"), "as in drawing 12"), chromedp.Click(chromedp.CSS("#decision button:not(.no)")))
	b.sees("#decision", "You approved this", "as in drawing 12", "approval_")
	b.shoot("plan-approved-1280")
	ref := approvalRefs.FindString(b.text("#decision"))
	b.quiet()

	var done applied
	engineer.ok(t, "report_apply_change", with(p.application("lengthen"), m{"approvalRef": ref}), &done)
	r = engineer.report(t, "girder_review")
	run := engineer.runConnection(t, r, "calculate")
	b.open("/console/runs/" + run.RunRef)
	b.sees("#live .state", "Succeeded")
	b.sees("main", "kip*ft", "23.57878403310806", "ksi")
	engineer.finished(t, run.RunRef)
	b.open("/console/p/structural_team/bridge_package/reports/girder_review")
	b.sees("main", "24 m", "Current", "kip*ft", "ksi")
	b.shoot("report-after-1280")
	b.open("/console/plans/" + p.PlanRef)
	b.sees("#decision", "It was applied")
	b.quiet()
}

// A new version of a Function shows its Python as a diff with signs, the units that are
// converted, and what follows it: Flows that run it and Reports that show their results.
// It fits a small window, works with the keyboard alone and without scripts, and text
// that looks like markup is text.
//
// covers: U6, N3
func TestAPlanIsReadAndApprovedByKeyboardAndWithoutScripts(t *testing.T) {
	t.Parallel()
	h := start(t)
	engineer := h.as(t, "engineer")
	girder := engineer.head(t, sample, "hs20_in_python")
	var commands list
	for _, field := range []string{"span", "dead_load", "impact", "section_modulus", "yield_stress"} {
		commands = append(commands, with(feed(girder, field+"_input", field, "design_basis", field), m{"connectionKey": "in_python"}))
	}
	commands = append(commands, m{"kind": "AddSlot", "blockKey": "check_summary", "slotKey": "in_python", "slot": m{"type": "number", "unit": "MPa", "shape": "scalar"}},
		with(showIn("stress_result", "stress", "check_summary", "in_python"), m{"connectionKey": "in_python"}))
	engineer.changeReport(t, engineer.report(t, "girder_review"), "connect", commands...)

	old, err := os.ReadFile("../sample/resistance.py")
	if err != nil {
		t.Fatal(err)
	}
	f := engineer.function(t, "resistance")
	source := strings.NewReplacer("version=1", "version=2", "Bending stress at", "Bending <script>window.xss=1</script> stress at", `"stress": px.number(unit="MPa"`, `"stress": px.number(unit="N/mm^2"`,
		"    stress = moment", "    # <img src=x onerror=\"window.xss=2\">\n    stress = moment").Replace(string(old))
	var first, second plan
	engineer.ok(t, "function_plan_change", newVersion(f, source), &first)
	engineer.ok(t, "function_plan_change", newVersion(f, strings.Replace(source, "1e6", "1e6 * 1.0", 1)), &second)

	b := h.browse(t, 1280, 900)
	b.signIn("reviewer")
	b.open("/console/plans/" + first.PlanRef)
	b.sees(".unified", `-    version=1,`, `+    version=2,`, `+    # <img src=x onerror="window.xss=2">`)
	b.sees("main", "PX_UNIT_CONVERTED", "N/mm^2", "needed for: function", "<script>window.xss=1</script>")
	b.sees("#reach", "resistance", "version 1 → 2", "hs20_in_python", "girder_review")
	if edges := evaluate[int](b, `document.querySelectorAll("#reach svg .edge").length`); edges != 2 {
		t.Errorf("%d arrows: the Function to its Flow, and that to its Report", edges)
	}
	if evaluate[bool](b, `window.xss !== undefined || document.querySelector("main img, main script") !== null`) {
		t.Error("text became markup")
	}
	b.shoot("plan-function-1280")
	b.fits()
	b.size(390, 844)
	b.open("/console/plans/" + first.PlanRef)
	b.fits()
	b.shoot("plan-function-390")
	b.open("/console")
	b.fits()
	b.shoot("home-390")
	b.size(1280, 900)

	// By the keyboard alone, from the first page: to the plan, to the decision, and yes.
	b.open("/console")
	b.tabTo(`a[href="/console/plans/`+first.PlanRef+`"]`, kb.Enter)
	b.sees("h1", "function/resistance")
	b.tabTo(`#comment`, "")
	b.do(chromedp.KeyEvent("by keyboard"))
	b.tabTo(`#decision button:not(.no)`, kb.Enter)
	b.sees("#decision", "You approved this", "by keyboard")
	b.quiet()

	// Without scripts, in a window of a telephone: no, and a reason.
	plain := h.browse(t, 390, 844)
	plain.withoutScripts()
	plain.signIn("reviewer")
	plain.open("/console/plans/" + second.PlanRef)
	plain.do(chromedp.SendKeys(chromedp.CSS("#comment"), "too slender"), chromedp.Click(chromedp.CSS("#decision button.no")))
	plain.do(chromedp.WaitVisible(chromedp.CSS("#decision .note.bad")))
	plain.fits()
	plain.shoot("plan-rejected-390")
	plain.quiet()
	engineer.refused(t, "function_apply_change", second.application("late"), "PX_PLAN_EXPIRED /planRef")
}

// A page of another site can neither decide by a form, nor frame a page of the console; a
// link on it leads to the page all the same, where the person is signed in as before.
//
// covers: U6
func TestAnotherSiteDecidesNothingAndItsLinksWork(t *testing.T) {
	t.Parallel()
	h := start(t)
	engineer := h.as(t, "engineer")
	engineer.create(t, sample, beam("footbridge"))
	h.policy(t, asksForAll)
	p := h.waiting(t, engineer, "footbridge")
	address := h.URL + "/console/plans/" + p.PlanRef
	// A site is told by its name: localhost is another one than 127.0.0.1.
	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprintf(w, `<!doctype html><a id="link" href=%[1]q>a plan</a><form id="form" method="post" action="%[1]s/approve"><input name="digest" value=%[2]q><button>go</button></form><iframe src=%[1]q></iframe>`, address, p.PlanDigest)
	}))
	defer evil.Close()
	there := strings.Replace(evil.URL, "127.0.0.1", "localhost", 1)

	b := h.browse(t, 1280, 900)
	b.signIn("reviewer")
	before := h.dump(t)
	b.do(chromedp.Navigate(there), chromedp.Click(chromedp.CSS("#form button")))
	b.sees("main", "Nothing was done")
	b.do(chromedp.Navigate(there), chromedp.Click(chromedp.CSS("#link")))
	b.sees("h1", "Change of flow/footbridge")
	b.sees("header", "signed in as reviewer")
	if changed := before.changes(h.dump(t)); len(changed) > 0 {
		t.Errorf("the store changed: %q", changed)
	}
}

// tabTo presses the tab key until an element has the focus, and then another key.
func (b *tab) tabTo(selector, key string) {
	b.t.Helper()
	for range 200 {
		if evaluate[bool](b, `document.activeElement?.matches(`+quoted(selector)+`) ?? false`) {
			if key != "" {
				b.do(chromedp.KeyEvent(key))
			}
			return
		}
		b.do(chromedp.KeyEvent(kb.Tab))
	}
	b.t.Fatalf("the keyboard does not reach %s\n%s", selector, b.where())
}

// A plan as large as there is shows all of it, page by page, and the form says that a page
// is not all. A Batch shows each of its cases.
//
// covers: U6, B2
func TestALargePlanIsShownPageByPage(t *testing.T) {
	t.Parallel()
	h := start(t)
	engineer := h.as(t, "engineer")
	p, _ := engineer.planReport(t, engineer.report(t, "girder_review"), batchOf("girder_check", m{"kind": "table"}, spans(50, 999)...))
	reviewer := h.at(t, "reviewer")
	address := "/console/plans/" + p.PlanRef
	seenCases := map[string]bool{}
	page := reviewer.ask("GET", address, "")
	page.shows(t, "the first page", 200, "This page does not show all of it", "1 to 100 of 950")
	next := regexp.MustCompile(`<a href="([^"#]*cases=[^"#]*)#cases" rel="next">`)
	for pages := 1; ; pages++ {
		for _, found := range regexp.MustCompile(`<td>(span_\d+)</td>`).FindAllStringSubmatch(page.body, -1) {
			seenCases[found[1]] = true
		}
		to := next.FindStringSubmatch(page.body)
		if to == nil {
			if pages != 10 {
				t.Errorf("%d pages", pages)
			}
			break
		}
		page = reviewer.ask("GET", strings.ReplaceAll(to[1], "&amp;", "&"), "")
	}
	if len(seenCases) != 950 {
		t.Errorf("%d cases are shown", len(seenCases))
	}
}
