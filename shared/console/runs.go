package console

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/resource"
	"github.com/pxhost/pxhost/shared/review"
	"github.com/pxhost/pxhost/shared/run"
	"github.com/pxhost/pxhost/shared/target"
	resultread "github.com/pxhost/pxhost/shared/tool/result_read"
	runget "github.com/pxhost/pxhost/shared/tool/run_get"
)

// Runs are what a person reads of Runs and no tool tells; *run.Runs does.
type Runs interface {
	Origin(ctx context.Context, principal, runRef string) (run.Origin, outcome.Findings, error)
	Result(ctx context.Context, principal, runRef, resultKey string) (run.Result, outcome.Findings, error)
}

// Results are the merged results of Batches; *run.Batches does.
type Results interface {
	Result(ctx context.Context, principal, batchRef, resultKey string) (run.Result, outcome.Findings, error)
}

// RunList lists the Runs of a Project; run.List does.
type RunList interface {
	Recent(ctx context.Context, principal string, project target.Project, before string, limit int) ([]run.Listed, string, outcome.Findings, error)
}

// Resources follows links to large values; resource.Resources does.
type Resources interface {
	Use(ctx context.Context, principal, ref string) (resource.Download, outcome.Findings, error)
}

func runPath(runRef string) string     { return Root + "/runs/" + url.PathEscape(runRef) }
func batchPath(batchRef string) string { return Root + "/batches/" + url.PathEscape(batchRef) }

// resultPath is the page of one result of a Run or a Batch.
func resultPath(ref, key string) string {
	if strings.HasPrefix(ref, run.BatchPrefix) {
		return batchPath(ref) + "/results/" + url.PathEscape(key)
	}
	return runPath(ref) + "/results/" + url.PathEscape(key)
}

// Bounds of the page of one Run.
const (
	readResults = 24      // results whose values are read; the others are linked
	drawBytes   = 8 << 20 // of a large table that is drawn
	pollSeconds = 1
)

// A live part of a page is fetched again by the script until what it shows has ended.
type live struct {
	Poll  string // its address; "" where there is nothing to wait for
	Every int    // seconds at first
	Said  string // in a few words, for who hears the page
}

// A runData is the page of one Run.
type runData struct {
	live
	RunRef            string
	State             run.State
	Terminal          bool
	Completed, Total  int
	Stages            []stage
	Partial           bool // the Nodes of the stages are not all named
	Started, Ended    string
	Took              string
	Diagnostics       []outcome.Diagnostic
	Results           []shownResult
	Inputs            []shownInput
	Flow              Words
	FlowTo            string
	FlowKey, Revision string
	Project           target.Project
	ProjectTo         string
	InputsDigest      string
	RanBy, Packages   []string
	Origin            run.Origin
	ReportTo, BatchTo string
	Command           string // of the form that cancels
	Cancel            string // where it is sent
	CancelSent        bool
	Asked             string // when somebody asked it to stop
}

// A stage is a group of Nodes that are done together.
type stage struct {
	Number int
	Nodes  []Words
	State  string // done, running, waiting, stopped
	Ended  time.Time
}

// A shownInput is an input as it was given.
type shownInput struct {
	Key   string
	Label Words
	Value Value
}

// A shownResult is a result with where it came from.
type shownResult struct {
	Key, Type, Unit, Shape string
	Size                   string
	Value                  Value
	Drawing                *Drawing
	To                     string // its own page
	From                   string // what made it
	Large                  bool
	Rows                   int
	Link                   string // where the whole of a large one is fetched
	Expires                string
	Unread                 bool
	Cell                   Cell // of a number
}

// Scalar reports whether the value is one line.
func (r shownResult) Scalar() bool {
	return !r.Unread && (r.Value.Kind == "number" || r.Value.Kind == "text" || r.Value.Kind == "null" || r.Value.Kind == "none") && !r.Large
}

// More reports whether there is more on the page of the result.
func (r shownResult) More() bool { return r.Value.Cut() }

// align makes the numbers of scalar results stand below each other at their points.
func align(results []shownResult) {
	most := 0
	for i, r := range results {
		if r.Scalar() && r.Value.Kind == "number" {
			whole, fraction := cutNumber(r.Value.Digits)
			results[i].Cell = Cell{Whole: whole, Fraction: fraction, Number: true}
			most = max(most, len(fraction))
		}
	}
	for i := range results {
		results[i].Cell.Pad = min(most, maxPad)
	}
}

// watched is of a page that is fetched again: with all that its address says.
func watched(v *Visit, path, command, said string) live {
	query := url.Values{"command": {command}}
	for _, name := range []string{"asked", "cursor"} {
		if value := v.Query.Get(name); value != "" {
			query.Set(name, value)
		}
	}
	return live{path + "/live?" + query.Encode(), pollSeconds, said}
}

// newCommand is the commandId of a form, so that the form sent twice is one command.
func newCommand() string { return "console-" + rand.Text() }

// commandOf is the commandId that a page brings with it when a part of it is fetched
// again.
func commandOf(v *Visit) string {
	if c := v.Query.Get("command"); strings.HasPrefix(c, "console-") && len(c) <= 64 {
		return c
	}
	return newCommand()
}

// runPage shows a Run.
func (h *Handler) runPage(ctx context.Context, v *Visit) (Answer, error) {
	data, err := h.readRun(ctx, v, v.Path["runRef"], commandOf(v))
	if problem, ok := err.(*Problem); ok && problem.Status == http.StatusNotFound {
		// One that waits for an approval is not a Run yet, and has a page as plans have.
		if _, findings, err := h.Reviews.Read(ctx, v.Principal(), review.Run, v.Path["runRef"]); err == nil && findings == nil {
			return Redirect(planPath(v.Path["runRef"])), nil
		}
	}
	if err != nil {
		return nil, err
	}
	page := Page{Title: "Run of " + data.Flow.Text, Crumbs: projectCrumbs(data.Project, Crumb{"Runs", projectPath(data.Project) + "/runs"}), Body: "run", Data: data}
	if !data.Terminal {
		page.Reload = reloadSeconds
	}
	return page, nil
}

// runLive is the part of the page of a Run that changes.
func (h *Handler) runLive(ctx context.Context, v *Visit) (Answer, error) {
	data, err := h.readRun(ctx, v, v.Path["runRef"], commandOf(v))
	if err != nil {
		return nil, err
	}
	return Fragment{Body: "run-live", Data: data}, nil
}

// cancelRun asks a Run to stop. A form that is sent twice is one command; of a Run that
// has ended the page says so.
func (h *Handler) cancelRun(ctx context.Context, v *Visit) (Answer, error) {
	return h.cancel(ctx, v, "runRef", v.Path["runRef"], runPath(v.Path["runRef"]))
}

func (h *Handler) cancel(ctx context.Context, v *Visit, member, ref, page string) (Answer, error) {
	command := v.Form.Get("command")
	if !strings.HasPrefix(command, "console-") {
		return nil, badRequest("The form has no command. Load the page again and use its button.")
	}
	if _, err := h.tool(ctx, v, "run_cancel", map[string]any{member: ref, "commandId": command, "reason": "cancelled in the console"}, nil); err != nil {
		return nil, err
	}
	return Redirect(page + "?asked=cancel"), nil
}

func (h *Handler) readRun(ctx context.Context, v *Visit, runRef, command string) (*runData, error) {
	var told runget.Output
	if _, err := h.tool(ctx, v, "run_get", map[string]any{"runRef": runRef}, &told); err != nil {
		return nil, err
	}
	origin, findings, err := h.Runs.Origin(ctx, v.Principal(), runRef)
	if findings != nil {
		return nil, refused(findings)
	}
	if err != nil {
		return nil, err
	}
	doc, err := h.flowOf(ctx, v, told.Target)
	if err != nil {
		return nil, err
	}
	project, _ := told.Target.Scope.Project()
	d := &runData{
		RunRef: told.RunRef, State: told.State, Terminal: told.State.Terminal(), Completed: told.Progress.Completed, Total: told.Progress.Total,
		Started: told.StartedAt, Ended: told.EndedAt, Diagnostics: told.Diagnostics, FlowKey: told.Target.FlowKey, Revision: told.Target.RevisionRef, Project: project,
		ProjectTo: projectPath(project), InputsDigest: told.InputsDigest, RanBy: told.RanBy, Packages: told.Packages, Origin: origin, Command: command,
		FlowTo: flowPath(told.Target), Flow: Words{Text: told.Target.FlowKey}, Cancel: runPath(runRef) + "/cancel", CancelSent: v.Query.Get("asked") == "cancel",
	}
	if doc != nil {
		d.Partial = doc.Truncation != nil
		d.Flow = v.words(doc.Label, told.Target.FlowKey)
	}
	done := 0
	if told.Progress.Stage != nil {
		done = *told.Progress.Stage
	}
	d.Stages = stages(v, doc, told.State, done, d.Completed, origin)
	d.Took = took(told.StartedAt, told.EndedAt)
	if origin.Cancelled != nil {
		d.Asked = origin.Cancelled.At.UTC().Format(time.RFC3339Nano)
	}
	if origin.Projecting.ReportKey != "" {
		d.ReportTo = projectPath(project) + "/reports/" + origin.Projecting.ReportKey
	}
	if origin.Part.BatchRef != "" {
		d.BatchTo = batchPath(origin.Part.BatchRef)
	}
	for _, key := range slices.Sorted(maps.Keys(origin.Inputs)) {
		in := shownInput{Key: key, Label: Words{Text: key}, Value: readValue(origin.Inputs[key], "", beside)}
		d.Inputs = append(d.Inputs, in)
	}
	d.Said = fmt.Sprintf("%s. %d of %s done.", told.State, d.Completed, count(d.Total, "Node"))
	if !d.Terminal {
		d.live = watched(v, runPath(runRef), command, d.Said)
		return d, nil
	}
	if told.State == run.Succeeded {
		if d.Results, err = h.readResults(ctx, v, "runRef", runRef, told.Results); err != nil {
			return nil, err
		}
		for i := range d.Results {
			d.Results[i].From = doc.madeBy(d.Results[i].Key, told.RanBy)
		}
	}
	return d, nil
}

// stages tells each stage of a Run: the Nodes in it, and how it stands.
func stages(v *Visit, doc *flowText, state run.State, done, completed int, origin run.Origin) []stage {
	out := make([]stage, origin.Stages)
	for i := range out {
		out[i].Number = i + 1
		switch {
		case i < done:
			out[i].State = "done"
			if i < len(origin.StageEnds) {
				out[i].Ended = origin.StageEnds[i]
			}
		case state.Terminal():
			out[i].State = "not done"
		case i == done && (state == run.Running || state == run.Cancelling):
			out[i].State = "running"
		default:
			out[i].State = "waiting"
		}
	}
	if doc == nil {
		return out
	}
	for _, key := range slices.Sorted(maps.Keys(doc.Nodes)) {
		if n := doc.Nodes[key]; n.Stage != nil && *n.Stage >= 0 && *n.Stage < len(out) {
			out[*n.Stage].Nodes = append(out[*n.Stage].Nodes, v.words(n.Label, key))
		}
	}
	// A stage that failed was gone through and did not do all of its Nodes.
	if state == run.Failed && done > 0 && done <= len(out) && doc.Truncation == nil {
		nodes := 0
		for _, s := range out[:done] {
			nodes += len(s.Nodes)
		}
		if nodes > completed {
			out[done-1].State = "failed"
		}
	}
	return out
}

// took says how long something took, to the millisecond.
func took(started, ended string) string {
	a, errA := time.Parse(time.RFC3339Nano, started)
	b, errB := time.Parse(time.RFC3339Nano, ended)
	if errA != nil || errB != nil {
		return ""
	}
	return b.Sub(a).Round(time.Millisecond).String()
}

// readResults reads the results of a Run or a Batch, side by side. What is too much for
// one page is linked and not left out.
func (h *Handler) readResults(ctx context.Context, v *Visit, member, ref string, listed []run.ResultSummary) ([]shownResult, error) {
	out := make([]shownResult, len(listed))
	errs := make([]error, len(listed))
	var wait sync.WaitGroup
	room := make(chan struct{}, 6)
	for i, r := range listed {
		out[i] = shownResult{Key: r.ResultKey, Type: r.Type, Unit: plainUnit(r.Unit), Shape: shape(r.Shape), Size: bytesText(r.Bytes), To: resultPath(ref, r.ResultKey), Unread: i >= readResults}
		if out[i].Unread {
			continue
		}
		wait.Go(func() {
			room <- struct{}{}
			defer func() { <-room }()
			errs[i] = h.readResult(ctx, v, member, ref, &out[i], beside, "", "result-"+strconv.Itoa(i+1))
		})
	}
	wait.Wait()
	align(out)
	return out, errors.Join(errs...)
}

// readResult reads one result. A large one is told by its first rows and a link to the
// whole of it; a large table is drawn whole all the same, so that no extreme is missed.
func (h *Handler) readResult(ctx context.Context, v *Visit, member, ref string, into *shownResult, in room, over, id string) error {
	var told resultread.Output
	envelope, err := h.tool(ctx, v, "result_read", map[string]any{member: ref, "resultKey": into.Key}, &told)
	if err != nil {
		return err
	}
	into.Type, into.Unit, into.Shape = told.Type, plainUnit(told.Unit), shape(told.Shape)
	if len(told.Value) > 0 {
		into.Value = readValue(told.Value, told.Unit, in)
		if t := into.Value.Table; t != nil {
			into.Rows = t.Rows
			into.Drawing = t.draw(id, into.Key, over)
		}
		return nil
	}
	into.Large, into.Size = true, bytesText(told.Bytes)
	into.Value = readValue(told.Preview, told.Unit, in)
	if len(envelope.Resources) > 0 {
		into.Link = Root + "/resources/" + strings.TrimPrefix(envelope.Resources[0].URI, resource.Path)
		into.Expires = envelope.Resources[0].ExpiresAt
	}
	if told.Schema == nil || told.Schema.Columns == nil {
		return nil
	}
	into.Rows = told.Schema.Rows
	if into.Value.Table != nil {
		into.Value.Table.Rows = told.Schema.Rows
	}
	if told.Bytes > drawBytes {
		return nil
	}
	read := h.Runs.Result
	if member == "batchRef" {
		read = h.BatchResults.Result
	}
	whole, findings, err := read(ctx, v.Principal(), ref, into.Key)
	if findings != nil || err != nil {
		return cmp.Or(err, error(refused(findings)))
	}
	if t, ok := tableOf([]byte(whole.Value), in.rows); ok {
		into.Value = Value{Kind: "table", Table: t}
		into.Drawing = t.draw(id, into.Key, over)
	}
	return nil
}

// resultPage shows one result of a Run or a Batch, with as many rows as a page holds.
func (h *Handler) resultPage(ctx context.Context, v *Visit) (Answer, error) {
	member, ref, back := "runRef", v.Path["runRef"], runPath(v.Path["runRef"])
	if ref == "" {
		member, ref, back = "batchRef", v.Path["batchRef"], batchPath(v.Path["batchRef"])
	}
	var told runget.Output
	if _, err := h.tool(ctx, v, "run_get", map[string]any{member: ref}, &told); err != nil {
		return nil, err
	}
	data := struct {
		shownResult
		Ref, Back, Here string
		turned
	}{shownResult: shownResult{Key: v.Path["resultKey"], To: resultPath(ref, v.Path["resultKey"])}, Ref: ref, Back: back, Here: resultPath(ref, v.Path["resultKey"])}
	if told.State != run.Succeeded {
		text := "It has not ended: results come with its end."
		if told.State.Terminal() {
			text = "It ended without results."
		}
		return nil, &Problem{Status: http.StatusNotFound, Title: "There is no result here", Text: "The Run is " + string(told.State) + ". " + text, Link: &Crumb{"To the Run", back}}
	}
	err := h.readResult(ctx, v, member, ref, &data.shownResult, alone, v.Query.Get("over"), "result")
	if err != nil {
		return nil, err
	}
	if data.turned, err = turn(v, data.Value.Table, data.Here); err != nil {
		return nil, err
	}
	project, _ := told.Target.Scope.Project()
	name := "Run"
	if member == "batchRef" {
		name = "Batch"
	}
	return Page{Title: "Result " + data.Key, Crumbs: projectCrumbs(project, Crumb{name, back}), Body: "result", Data: data}, nil
}

// turned are the pages of a table's rows before and after the one that is shown.
type turned struct {
	Before, After string
	Pages         bool // there are several
}

// turn turns to the page of a table that an address asks for. Of a table of which only the
// beginning was read there are none.
func turn(v *Visit, t *Table, here string) (turned, error) {
	if t == nil || len(t.raw) < t.Rows || t.Rows <= alone.rows {
		return turned{}, nil
	}
	first, err := strconv.Atoi(cmp.Or(v.Query.Get("row"), "1"))
	if err != nil || first < 1 || first > t.Rows {
		return turned{}, badRequest("There is no such row.")
	}
	t.show(first-1, alone.rows)
	to := func(row int) string {
		query := url.Values{"row": {strconv.Itoa(row)}}
		for _, name := range []string{"over", "revision"} {
			if value := v.Query.Get(name); value != "" {
				query.Set(name, value)
			}
		}
		return here + "?" + query.Encode()
	}
	out := turned{Pages: true}
	if first > 1 {
		out.Before = to(max(1, first-alone.rows))
	}
	if t.Last() < t.Rows {
		out.After = to(t.Last() + 1)
	}
	return out, nil
}

// A valueData is the page of one value that somebody gave: an input of a Run, or an
// authored value of a Report.
type valueData struct {
	turned
	Key, Of, Back, Here string
	Value               Value
	Drawing             *Drawing
}

func (h *Handler) valuePage(v *Visit, data valueData, project target.Project, crumb Crumb) (Answer, error) {
	var err error
	if data.turned, err = turn(v, data.Value.Table, data.Here); err != nil {
		return nil, err
	}
	data.Drawing = data.Value.Table.draw("value", data.Key, v.Query.Get("over"))
	return Page{Title: data.Key, Crumbs: projectCrumbs(project, crumb), Body: "valuepage", Data: data}, nil
}

// inputPage shows one input of a Run, as it was given.
func (h *Handler) inputPage(ctx context.Context, v *Visit) (Answer, error) {
	ref, key := v.Path["runRef"], v.Path["portKey"]
	origin, findings, err := h.Runs.Origin(ctx, v.Principal(), ref)
	if findings != nil {
		return nil, refused(findings)
	}
	if err != nil {
		return nil, err
	}
	raw, ok := origin.Inputs[key]
	if !ok {
		return nil, refused(outcome.Findings{outcome.New(outcome.TargetNotFound, "/portKey", nil)})
	}
	return h.valuePage(v, valueData{Key: key, Of: ref, Back: runPath(ref), Here: runPath(ref) + "/inputs/" + url.PathEscape(key), Value: readValue(raw, "", alone)}, origin.Project, Crumb{"Run", runPath(ref)})
}

// resource leads to where a large value is stored, good for five minutes.
func (h *Handler) resource(ctx context.Context, v *Visit) (Answer, error) {
	d, findings, err := h.Resources.Use(ctx, v.Principal(), v.Path["ref"])
	if findings != nil {
		return nil, &Problem{Status: http.StatusNotFound, Title: "This link leads nowhere any more", Text: "Links to large values are good for a day and for one person. Load the page that it stood on again.", Findings: findings}
	}
	if err != nil {
		return nil, err
	}
	return Away(d.URL), nil
}
