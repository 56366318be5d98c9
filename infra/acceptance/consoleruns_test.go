package acceptance

import (
	"fmt"
	"math"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// inConsole is the sample Project's page.
const inConsole = "/console/p/structural_team/bridge_package"

// girderInputs are inputs of the sample Flow.
func girderInputs(span float64) m {
	return m{"span": number(span, "ft"), "dead_load": number(1.2, "kip/ft"), "impact": number(0.3, "1"), "section_modulus": number(1500, "in^3"), "yield_stress": number(50, "ksi")}
}

func (c caller) runFlow(t testing.TB, f flowHead, commandID string, inputs m) string {
	t.Helper()
	var started struct{ RunRef string }
	c.ok(t, "pxflow_run", m{"kind": "RunFlow", "target": f.Target, "commandId": commandID, "inputs": inputs}, &started)
	return started.RunRef
}

// mark marks the page, so that it can be seen later that it was not loaded again.
func (b *tab) mark() {
	b.t.Helper()
	b.do(chromedp.Evaluate[chromedp.Void](`window.kept = true`))
}

func (b *tab) isMarked() bool {
	b.t.Helper()
	return evaluate[bool](b, `window.kept === true`)
}

// offline lets what the page's script asks for fail as it does without a connection.
func (b *tab) offline(on bool) {
	b.t.Helper()
	script := `window.fetch = window.online`
	if on {
		script = `(window.online = window.fetch, window.fetch = () => Promise.reject(new TypeError("no connection")))`
	}
	b.do(chromedp.Evaluate[chromedp.Void](script))
}

// press presses the tab key until an element has the focus, and then Enter.
func (b *tab) press(id string) {
	b.t.Helper()
	for range 40 {
		b.do(chromedp.KeyEvent(kb.Tab))
		if evaluate[string](b, `document.activeElement?.id ?? ""`) == id {
			b.do(chromedp.KeyEvent(kb.Enter))
			return
		}
	}
	b.t.Fatalf("the keyboard does not reach #%s\n%s", id, b.where())
}

// A Run of the sample Flow is followed in its page: values with their units, what they
// come from, and what was given.
//
// covers: U1, U2, U3
func TestARunIsReadInTheConsole(t *testing.T) {
	t.Parallel()
	h := start(t)
	engineer := h.as(t, "engineer")
	b := h.browse(t, 1280, 900)
	b.signIn("engineer")
	f := engineer.head(t, sample, "girder_check")
	runRef := engineer.runFlow(t, f, "one", girderInputs(60))
	b.open("/console/runs/" + runRef)
	b.mark()
	b.sees("#live .state", "Succeeded", "10 of 10 Nodes done")
	// To the last digit what the tool answers, with the unit beside it.
	b.sees("#live", "live_moment", "806.5333333333334", "kip*ft", "0.25415893333333334", "Node utilization: Component px.formula, version 1")
	b.sees("main", "60 ft", "1.2 kip/ft", "engineer", runRef)
	if !b.isMarked() {
		t.Error("the page was loaded again")
	}
	if strings.ContainsRune(b.text("main"), '\u2212') {
		t.Error("a minus that no program reads")
	}
	// A Run that nobody may read is one that is not there.
	other := h.browse(t, 1280, 900)
	other.signIn("other")
	for _, path := range []string{"/console/runs/" + runRef, "/console/runs/" + runRef + "/live", "/console/runs/" + runRef + "/results/stress", inConsole, inConsole + "/runs", inConsole + "/history",
		inConsole + "/flows", inConsole + "/flows/girder_check", inConsole + "/reports/girder_review"} {
		other.open(path)
		other.sees("main", "There is no such thing")
	}
	b.open("/console/runs/" + runRef + "/results/nothing")
	b.sees("main", "There is no such thing")
	b.shoot("problem-1280")
	b.open("/console/runs/" + runRef)
	b.shoot("run-1280")
	b.size(390, 844)
	b.open("/console/runs/" + runRef)
	b.fits()
	b.shoot("run-390")
	b.quiet()
	other.quiet()
}

// A Run whose Functions take their time is followed stage by stage without the page being
// loaded again, and says what ran it; another is cancelled from its page, by keyboard.
//
// covers: U2
func TestARunIsWatchedAndCancelledInTheConsole(t *testing.T) {
	t.Parallel()
	h := startPython(t)
	engineer := h.as(t, "engineer")
	slow := engineer.saveFunction(t, "slow", "    total = 0\n    for i in range(12_000_000):\n        total += i\n    return {\"y\": x + 1}\n")
	f := engineer.create(t, sample, loads("slow_chain", true, slow, slow, slow))
	b := h.browse(t, 1280, 900)
	b.signIn("engineer")
	runRef := engineer.begin(t, f, "watched", 5)
	b.open("/console/runs/" + runRef)
	b.mark()
	b.seesWithin(time.Minute, "#live .state", "Running")
	b.shoot("run-live-1280")
	b.seesWithin(2*time.Minute, "#live .state", "Succeeded", "3 of 3 Nodes done")
	b.sees("#live", "8", "kN", "python=", "gvisor=", "Function slow, version 1")
	b.sees("#said", "Succeeded. 3 of 3 Nodes done.")
	if !b.isMarked() {
		t.Error("the page was loaded again")
	}
	if evaluate[bool](b, `document.querySelector("#live").dataset.poll !== undefined || document.querySelector("#cancel") !== null`) {
		t.Error("a Run that has ended is still asked for, or can be cancelled")
	}
	b.shoot("run-python-1280")

	endless := engineer.saveFunction(t, "endless", "    while True:\n        x += 1\n")
	f = engineer.create(t, sample, loads("endless_flow", true, endless))
	runRef = engineer.begin(t, f, "cancelled", 5)
	b.open("/console/runs/" + runRef)
	b.seesWithin(time.Minute, "#live .state", "Running")
	// The form sent twice is one command: the second finds it done.
	again := evaluate[string](b, `new URLSearchParams(new FormData(document.querySelector("#cancel").form)).toString()`)
	b.press("cancel")
	b.sees("#live", "Asked to stop")
	b.seesWithin(time.Minute, "#live .state", "Cancelled")
	b.sees("#live", "It was cancelled.", "engineer")
	b.shoot("run-cancelled-1280")
	status := evaluate[string](b, `"" + (await fetch(location.pathname + "/cancel", {method: "POST", body: new URLSearchParams(`+quoted(again)+`)}).then(async r => r.status + " " + (await r.text()).includes("Cancelled")))`)
	if status != "200 true" {
		t.Errorf("the form again: %s", status)
	}
	b.quiet()

	// A Run that has ended stays as it is, and its page says so.
	b.open("/console/runs/" + runRef)
	b.sees("#live .state", "Cancelled")
}

// A Batch is followed to its end without the page being loaded again; it tells the
// governing case, and a merged table is drawn.
//
// covers: U2
func TestABatchIsWatchedInTheConsole(t *testing.T) {
	t.Parallel()
	h := start(t)
	engineer := h.as(t, "engineer")
	r := engineer.report(t, "girder_review")
	b := h.browse(t, 1280, 900)
	b.signIn("engineer")
	batch := engineer.startBatch(t, r, "one", batchOf("girder_check", m{"kind": "envelope", "portKeys": list{"live_moment"}, "by": "max"}, spans(60, 119)...))
	b.open("/console/batches/" + batch.BatchRef)
	b.mark()
	b.sees("#live .state", "of 60 cases done")
	b.shoot("batch-live-1280")
	b.seesWithin(2*time.Minute, "#live .state", "Succeeded", "60 of 60 cases done")
	b.sees("#live", "The governing case is span_119", "kip*ft", "governs")
	if !b.isMarked() {
		t.Error("the page was loaded again")
	}
	b.shoot("batch-1280")
	b.do(chromedp.Click(chromedp.CSS("#live .note a")))
	b.sees("main", "119 ft", "Case of a Batch", "span_119")

	batch = engineer.startBatch(t, r, "two", batchOf("girder_check", m{"kind": "table"}, spans(60, 99)...))
	engineer.batchEnded(t, batch.BatchRef)
	b.open("/console/batches/" + batch.BatchRef)
	b.sees("#live .state", "Succeeded")
	b.sees("#live .plot", "live_moment", "at 60 ft", "at 99 ft")
	b.shoot("batch-table-1280")
	b.size(390, 844)
	b.open("/console/batches/" + batch.BatchRef)
	b.fits()
	b.shoot("batch-390")
	b.quiet()
}

// A slot shows its value with its unit, becomes Stale with the value that it was made
// from, and says why. Labels are in the language that is asked for.
//
// covers: R4, R6
func TestAReportIsReadInTheConsole(t *testing.T) {
	t.Parallel()
	h := start(t)
	engineer := h.as(t, "engineer")
	r := engineer.report(t, "girder_review")
	b := h.browse(t, 1280, 900)
	b.signIn("engineer")
	b.open(inConsole + "/reports/girder_review")
	b.sees("main", "Live load moment", "Empty", "80 ft")
	b.shoot("report-empty-1280")
	runRef := engineer.runConnection(t, r, "one").RunRef
	engineer.finished(t, runRef)
	b.open(inConsole + "/reports/girder_review")
	b.sees(".slot", "Current", "1164.8999999999999", "kip*ft", runRef)
	b.shoot("report-current-1280")
	b.do(chromedp.Click(chromedp.CSS(".slot a")))
	b.sees("main", "Run of Girder check", "girder_review", "connection girder_check")

	engineer.changeReport(t, r, "two", m{"kind": "SetFieldValue", "blockKey": "design_basis", "fieldKey": "span", "value": number(90, "ft")})
	b.open(inConsole + "/reports/girder_review")
	b.sees(".slot", "Stale", "1164.8999999999999", "kip*ft", "Span was 80 ft and is 90 ft now.")
	b.shoot("report-stale-1280")
	// The revision before is read by its own address, and leads to the newest.
	b.open(inConsole + "/reports/girder_review?" + url.Values{"revision": {r.Target.RevisionRef}}.Encode())
	b.sees("main", "This is not the newest revision", "80 ft")

	b.do(chromedp.Click(chromedp.CSS(".languages a")))
	b.sees("main h1", "거더 검토서")
	b.sees(".languages b", "한국어")
	if evaluate[string](b, `document.querySelector("main h1 [lang]").lang`) != "ko" {
		t.Error("a text in Korean does not say so")
	}
	b.open(inConsole + "/flows/girder_check")
	b.sees("main h1", "거더 검토")
	b.shoot("flow-ko-1280")
	b.size(390, 844)
	for _, path := range []string{"/reports/girder_review", "/flows/girder_check", "", "/runs", "/history", "/reports", "/flows", "/functions"} {
		b.open(inConsole + path)
		b.sees("main h1", "")
		b.fits()
		b.shoot("ko" + strings.ReplaceAll(path, "/", "-") + "-390")
	}
	b.quiet()
}

// waves is a Flow that hands a table through, and a table with one peak and one null.
func waves(rows int) (document, table m) {
	column := func(key, unit string, more m) m {
		return with(m{"columnKey": key, "type": "number", "unit": unit}, more)
	}
	note := m{"columnKey": "note", "type": "string"}
	contract := m{"type": "table", "columns": list{column("x", "m", m{}), column("moment", "kN*m", m{}), column("shear", "kN", m{"nullable": true}), note}}
	out := list{}
	for i := range rows {
		x := float64(i) / 8
		moment, shear := 400*math.Sin(x), any(100*math.Cos(x))
		switch i {
		case rows / 3:
			moment = 1234.5
		case 7:
			shear = nil
		}
		out = append(out, list{x, moment, shear, fmt.Sprint("row ", i)})
	}
	return m{"format": "pxflow/1", "flowKey": "waves", "label": m{"en": "Moments along the girder", "ko": "거더의 모멘트"}, "authoring": m{"kind": "native"},
			"inputs": m{"table": contract}, "nodes": m{}, "results": m{"table": with(contract, m{"binding": flowInput("table")})}},
		m{"columns": list{column("x", "m", m{}), column("moment", "kN*m", m{}), column("shear", "kN", m{}), note}, "rows": out}
}

// A table is drawn with the right extremes; of a large one no peak is missed, its rows
// come in pages, and the whole of it by a link.
//
// covers: U3
func TestTablesAreDrawnInTheConsole(t *testing.T) {
	t.Parallel()
	h := start(t)
	engineer := h.as(t, "engineer")
	b := h.browse(t, 1280, 900)
	b.signIn("engineer")
	document, table := waves(40)
	f := engineer.create(t, sample, document)
	runRef := engineer.runFlow(t, f, "small", m{"table": table})
	engineer.finished(t, runRef)
	b.open("/console/runs/" + runRef)
	b.sees("#live .plot", "moment [kN*m]", "x [m]", "1234.5 kN*m at 1.625 m", "1500", "-500")
	b.sees("#live", "1 point without a value: gaps.", "null", "Shown: rows 1 to 20 of 40.")
	b.shoot("run-table-1280")

	_, table = waves(5000)
	runRef = engineer.runFlow(t, f, "large", m{"table": table})
	engineer.finished(t, runRef)
	b.open("/console/runs/" + runRef)
	b.do(chromedp.Click(chromedp.CSS("#live h3 a")))
	b.sees("main", "no peak is left out", "1234.5 kN*m at 208.25 m", "Shown: rows 1 to 200 of 5000.")
	b.shoot("result-large-1280")
	b.open("/console/runs/" + runRef + "/results/table?row=4801")
	b.sees("main", "row 4999", "Shown: rows 4801 to 5000 of 5000.")
	b.open("/console/runs/" + runRef + "/results/table?over=shear")
	b.sees("main", "moment over shear", "Points are not joined")
	if kind := evaluate[string](b, `await fetch(document.querySelector('a[href^="/console/resources/"]').href, {redirect: "manual"}).then(r => r.type)`); kind != "opaqueredirect" {
		t.Errorf("the link to all of it: %s", kind)
	}
	b.size(390, 844)
	b.open("/console/runs/" + runRef)
	b.fits()
	b.shoot("run-table-390")
	b.size(1280, 900)

	// A slot shows a table as its Run gave it.
	_, table = waves(30)
	contract := document["inputs"].(m)["table"].(m)
	engineer.createReport(t, m{"format": "pxreport/1", "reportKey": "waves", "label": m{"en": "Waves"}, "blockOrder": list{"given", "shown"},
		"blocks": m{"given": m{"kind": "values", "fields": m{"data": with(contract, m{"value": table})}}, "shown": m{"kind": "results", "slots": m{"curve": contract}}},
		"connections": m{"waves": m{"flowTarget": f.Target, "inputs": m{"data": m{"portKey": "table", "source": m{"kind": "reportValue", "blockKey": "given", "fieldKey": "data"}}},
			"results": m{"curve": m{"portKey": "table", "target": m{"kind": "reportResultSlot", "blockKey": "shown", "slotKey": "curve"}}}}}})
	var started struct{ RunRef string }
	engineer.ok(t, "pxflow_run", m{"kind": "RunReportFlowConnection", "commandId": "slot", "target": engineer.report(t, "waves").Target, "connectionKey": "waves"}, &started)
	engineer.finished(t, started.RunRef)
	b.open(inConsole + "/reports/waves")
	b.sees(".slot", "Current", "moment [kN*m]", "1234.5 kN*m at 1.25 m", "Shown: rows 1 to 20 of 30.", "The whole result")
	b.shoot("report-table-1280")
	// What was authored and given is read to its end, too.
	b.do(chromedp.Click(chromedp.CSS(`a[href*="/values/given/data"]`)))
	b.sees("main", "Value data", "row 29", "1234.5")
	b.open("/console/runs/" + runRef + "/inputs/table?row=4801")
	b.sees("main", "row 4999", "Shown: rows 4801 to 5000 of 5000.", "Rows before")
	b.quiet()
}

// Without a script all is there: what has ended and what has not, with a way to load it
// again; links lead on and forms work.
func TestTheConsoleNeedsNoScript(t *testing.T) {
	t.Parallel()
	h := start(t)
	engineer := h.as(t, "engineer")
	r := engineer.report(t, "girder_review")
	b := h.browse(t, 1280, 900)
	b.withoutScripts()
	b.signIn("engineer")
	batch := engineer.startBatch(t, r, "one", batchOf("girder_check", m{"kind": "envelope", "portKeys": list{"live_moment"}, "by": "max"}, spans(60, 199)...))
	b.open("/console/batches/" + batch.BatchRef)
	b.sees("#live", "Load it again now")
	b.shoot("batch-no-script-1280")
	b.do(chromedp.Click(chromedp.CSS("#cancel")))
	b.sees("#live", "It was asked to stop")
	if r := engineer.batchEnded(t, batch.BatchRef); r.State != "Cancelled" {
		t.Errorf("the Batch is %s", r.State)
	}
	b.seesWithin(time.Minute, "#live .state", "Cancelled") // it loads itself again
	runRef := engineer.runConnection(t, r, "two").RunRef
	engineer.finished(t, runRef)
	b.open("/console/runs/" + runRef)
	b.sees("#live", "Succeeded", "1164.8999999999999", "kip*ft")
	b.open(inConsole + "/reports/girder_review")
	b.sees(".slot", "Current", "1164.8999999999999")
	b.open(inConsole + "/flows")
	b.do(chromedp.SendKeys(chromedp.CSS("#q"), "girder 거더"), chromedp.Submit(chromedp.CSS("#q")))
	b.sees("main", "girder_check")
	b.quiet()
}

// What there is in a Project, its newest Runs and its history are read in pages, and each
// change says who made it, when, and what it was.
//
// covers: P11
func TestAProjectIsReadInTheConsole(t *testing.T) {
	t.Parallel()
	h := start(t)
	engineer := h.as(t, "engineer")
	f := engineer.head(t, sample, "girder_check")
	for i := range 22 {
		f = engineer.change(t, f, fmt.Sprint("change-", i), m{"kind": "SetFlowLabel", "label": m{"en": fmt.Sprint("Girder check ", i)}})
	}
	var runs []string
	for i := range 30 {
		runs = append(runs, engineer.runFlow(t, f, fmt.Sprint("run-", i), girderInputs(60+float64(i))))
	}
	for _, runRef := range runs {
		engineer.finished(t, runRef)
	}
	b := h.browse(t, 1280, 900)
	b.signIn("engineer")
	b.open(inConsole)
	b.sees("main", "girder_review", "girder_check", "resistance", "Girder check 21", "Succeeded")
	b.shoot("project-1280")
	b.open(inConsole + "/runs")
	hrefs := func() []string {
		return strings.Fields(evaluate[string](b, `[...document.querySelectorAll('main a[href^="/console/runs/run_"]')].map(a => a.pathname.split("/").pop()).join(" ")`))
	}
	listed := hrefs()
	b.do(chromedp.Click(chromedp.CSS("main > p a")))
	b.sees("main h1", "Runs")
	for deadline := time.Now().Add(10 * time.Second); len(hrefs()) == 25 && time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
	}
	listed = append(listed, hrefs()...)
	if len(listed) != 30 {
		t.Fatalf("%d Runs are listed", len(listed))
	}
	for i, runRef := range listed {
		if want := runs[len(runs)-1-i]; runRef != want {
			t.Errorf("Run %d is %s, not %s", i, runRef, want)
		}
	}
	b.open(inConsole + "/history")
	b.sees("main", "px history verify", "/label", "generation 22", "engineer")
	b.shoot("history-1280")
	first := evaluate[int](b, `document.querySelectorAll(".commits > li").length`)
	b.open(evaluate[string](b, `(a => a.pathname + a.search)([...document.querySelectorAll("main > p a")].pop())`))
	b.sees("main", "created flow", "girder_check")
	if second := evaluate[int](b, `document.querySelectorAll(".commits > li").length`); first != 20 || second < 5 {
		t.Errorf("pages of %d and %d changes", first, second)
	}
	// The address of a further page is good for who it was made for, and nobody else.
	page := evaluate[string](b, `location.pathname + location.search`)
	viewer := h.browse(t, 1280, 900)
	viewer.signIn("viewer")
	viewer.open(page)
	viewer.sees("main", "PX_CURSOR_INVALID")
	b.open(inConsole + "/flows/girder_check")
	b.sees("main", "Girder check 21", "girder_review")
	b.shoot("flow-1280")
	b.quiet()
}

// A Run that fails says why and what to do next. Where the connection is lost the page
// says so and since when, and goes on by itself when it is back.
//
// covers: U2
func TestAPageTellsOfFailuresInTheConsole(t *testing.T) {
	t.Parallel()
	h := start(t)
	engineer := h.as(t, "engineer")
	f := engineer.create(t, sample, m{"format": "pxflow/1", "flowKey": "inverse", "label": m{"en": "Inverse"}, "authoring": m{"kind": "native"},
		"inputs": m{"x": scalar("m")}, "results": m{"y": with(scalar("m"), m{"binding": nodeResult("inverse", "r")})},
		"nodes": m{"inverse": formula("1 / x * a * a", "m", m{"x": m{"unit": "m"}, "a": m{"unit": "m"}}, m{"x": flowInput("x"), "a": literal(1, "m")})}})
	b := h.browse(t, 1280, 900)
	b.signIn("engineer")
	b.open("/console/runs/" + engineer.runFlow(t, f, "by-zero", m{"x": number(0, "m")}))
	b.sees("#live .state", "Failed")
	b.sees("#live .findings", "PX_RUN_FAILED", "inverse")
	b.sees("#live", "failed", "The calculation could not be completed")
	b.shoot("run-failed-1280")

	r := engineer.report(t, "girder_review")
	batch := engineer.startBatch(t, r, "one", batchOf("girder_check", m{"kind": "table"}, spans(60, 109)...))
	b.open("/console/batches/" + batch.BatchRef)
	b.mark()
	b.sees("#live", "of 50 cases done")
	b.offline(true)
	b.sees("#lost", "The connection is lost. Shown is how it stood at", "Trying again.")
	b.shoot("lost-1280")
	engineer.batchEnded(t, batch.BatchRef)
	b.offline(false)
	b.seesWithin(time.Minute, "#live .state", "Succeeded")
	if b.text("#lost") != "" || !b.isMarked() {
		t.Error("the page does not go on by itself")
	}
	b.quiet()
}
