package acceptance

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// One client of a workload works on the sample's Report, alone: it edits the span
// that the connection is given, runs the connection, plans and starts Batches of
// few cases and retries cases of Batches that ended. It does not wait for what it
// started, so Runs and Batches overlap and some of them end superseded.
//
// A Run's live_moment is the closed formula of its span, and so is a case's. Of a span
// that is tooLong there is none: its Run fails, and so does a Batch with such a case.
type workReview struct {
	generation int64 // of the Report's head, as far as the client was told
	revision   string
	span       int
	batches    []*command // acknowledged, and not yet retried
	starts     int64
}

// A workIntent is what one generation of the connection's projection was taken for.
type workIntent struct {
	generation int64
	batchRef   string
	spans      []int // of the cases; one for a Run
	report     reportTarget
	over       time.Time // when the client saw that it was over; zero: it did not look
	end        string    // what it then saw of the end, which there is only one of
}

// tooLong is a span, in ft, of which the square is no number. The journal calls it
// something shorter.
const tooLong = 1000

func spanOf(feet int) m {
	if feet == tooLong {
		return number(1e200, "ft")
	}
	return number(float64(feet), "ft")
}

func (i *workIntent) fails() bool { return slices.Contains(i.spans, tooLong) }

// batchCases is how many cases each Batch has.
const batchCases = 3

// seededGeneration is the generation of the sample's Report: created, then connected.
const seededGeneration = 1

func newReviewer(name string, random *rand.Rand) *workClient {
	return &workClient{name: name + "_report", random: rand.New(rand.NewPCG(random.Uint64(), random.Uint64())), review: &workReview{}}
}

func (cmd *command) ref() string {
	if cmd.intent != nil && cmd.intent.batchRef != "" {
		return cmd.intent.batchRef
	}
	return cmd.runRef
}

func (cmd *command) refArgument() m {
	if cmd.intent != nil && cmd.intent.batchRef != "" {
		return m{"batchRef": cmd.intent.batchRef}
	}
	return m{"runRef": cmd.runRef}
}

func (r *workReview) target() reportTarget { return reportTarget{sample, "girder_review", r.revision} }

// nextOfReview decides on a command for the Report. It rests before each, so that
// the other clients' work is not all about it.
func (w *workClient) nextOfReview(ctx context.Context, c caller, id string) (*command, error) {
	r := w.review
	if r.revision == "" {
		head, err := c.reviewHead(ctx)
		if err != nil {
			return nil, err
		}
		r.generation, r.revision = head.Generation, head.Target.RevisionRef
	}
	kind := w.random.IntN(10)
	if r.span == 0 {
		kind = 0
	}
	if kind > 3 {
		select {
		case <-time.After(time.Duration(w.random.IntN(300)) * time.Millisecond):
		case <-ctx.Done():
			return nil, errUnknown
		}
	}
	cmd := &command{id: id, key: "girder_review", tool: "pxflow_run"}
	switch {
	case kind < 4:
		span := 40 + w.random.IntN(81)
		if r.span == span {
			span = 40 + (span-39)%81
		}
		if r.span == 0 || r.span != tooLong && w.random.IntN(3) == 0 {
			span = tooLong
		}
		p, err := w.planReview(ctx, c, m{"kind": "SetFieldValue", "blockKey": "design_basis", "fieldKey": "span", "value": spanOf(span)})
		if err != nil {
			return nil, err
		}
		cmd.tool, cmd.generation, cmd.x, cmd.arguments = "report_apply_change", r.generation+1, int64(span), p.application(id)
	case kind == 4 && len(r.batches) > 0:
		of := r.batches[0]
		var b batchReport
		if _, err := c.insist(ctx, "run_get", of.refArgument(), &b); err != nil {
			return nil, err
		}
		if !over(b.State) { // its cases may be active: it is retried later
			return nil, errUnknown
		}
		r.batches = r.batches[1:]
		if b.State == "Cancelled" {
			return nil, errUnknown
		}
		cmd.batch = of
		cmd.intent = &workIntent{generation: of.intent.generation, spans: of.intent.spans, report: of.intent.report}
		cmd.arguments = m{"kind": "RetryBatchCase", "target": of.intent.report, "batchRef": of.intent.batchRef, "caseKey": b.Cases[w.random.IntN(batchCases)].CaseKey, "commandId": id}
	case kind <= 5:
		first := 40 + w.random.IntN(60)
		lengths := []int{first, first + 1, first + 2}
		if w.random.IntN(2) == 0 {
			lengths[w.random.IntN(batchCases)] = tooLong
		}
		var cases list
		for _, span := range lengths {
			cases = append(cases, m{"caseKey": fmt.Sprint("span_", span), "inputs": m{"span": spanOf(span)}})
		}
		p, err := w.planReview(ctx, c, batchOf("girder_check", m{"kind": "envelope", "portKeys": list{"live_moment"}, "by": "max"}, cases...))
		if err != nil {
			return nil, err
		}
		cmd.intent = &workIntent{generation: r.starts + 1, spans: lengths, report: r.target()}
		cmd.arguments = m{"kind": "RunReportFlowBatch", "target": r.target(), "planRef": p.PlanRef, "planDigest": p.PlanDigest, "commandId": id}
	default:
		cmd.intent = &workIntent{generation: r.starts + 1, spans: []int{r.span}, report: r.target()}
		cmd.arguments = m{"kind": "RunReportFlowConnection", "target": r.target(), "connectionKey": "girder_check", "commandId": id}
	}
	// What the last start came to, now and then, before the next one is sent.
	if cmd.intent != nil && cmd.batch == nil && w.random.IntN(2) == 0 {
		if err := w.look(ctx, c); err != nil {
			return nil, err
		}
	}
	w.number++
	cmd.planned = time.Now()
	return cmd, nil
}

func (w *workClient) planReview(ctx context.Context, c caller, change m) (p plan, err error) {
	_, err = c.insist(ctx, "report_plan_change", m{"target": w.review.target(), "expectedGeneration": w.review.generation, "commands": list{change}}, &p)
	return p, err
}

// look looks whether the last start is over.
func (w *workClient) look(ctx context.Context, c caller) error {
	w.mu.Lock()
	i := len(w.journal) - 1
	for i >= 0 && (w.journal[i].intent == nil || w.journal[i].batch != nil) {
		i--
	}
	w.mu.Unlock()
	if i < 0 {
		return nil
	}
	var r workEnd
	_, err := c.insist(ctx, "run_get", w.journal[i].refArgument(), &r)
	if err == nil && over(r.State) {
		w.mu.Lock()
		w.journal[i].intent.over, w.journal[i].intent.end = time.Now(), r.String()
		w.mu.Unlock()
	}
	return err
}

// A workEnd is how a Run or Batch stands.
type workEnd struct {
	batchReport
	EndedAt string
}

// String tells all of an end that never changes any more.
func (e workEnd) String() string { return fmt.Sprint(e.State, " at ", e.EndedAt, ", cases ", e.Cases) }

func (c caller) reviewHead(ctx context.Context) (reportHead, error) {
	var found struct{ Items []reportHead }
	if _, err := c.insist(ctx, "report_search", m{"scope": sample, "query": "girder_review", "limit": 100}, &found); err != nil {
		return reportHead{}, err
	}
	i := slices.IndexFunc(found.Items, func(h reportHead) bool { return h.Target.ReportKey == "girder_review" })
	if i < 0 {
		return reportHead{}, errors.New("the Report is not found")
	}
	return found.Items[i], nil
}

// started takes down what a start or a retry was told.
func (w *workClient) started(cmd *command, runRef, batchRef, state string, generation int64) error {
	isBatch := cmd.batch != nil || len(cmd.intent.spans) > 1
	if state != "Queued" || generation != cmd.intent.generation || (batchRef != "") != isBatch || (runRef == "") != (isBatch && cmd.batch == nil) {
		return fmt.Errorf("%s: generation %d is expected, started as", cmd.id, cmd.intent.generation)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	cmd.intent.batchRef = batchRef
	switch {
	case cmd.batch != nil:
		if batchRef != cmd.batch.intent.batchRef {
			return fmt.Errorf("%s: a retry in another Batch", cmd.id)
		}
	case isBatch:
		w.review.batches = append(w.review.batches, cmd)
		w.review.starts++
	default:
		w.review.starts++
	}
	return nil
}

func (w *workClient) edited(cmd *command, generation int64, revision string) error {
	if generation != cmd.generation {
		return fmt.Errorf("%s: generation %d instead of %d", cmd.id, generation, cmd.generation)
	}
	w.review.generation, w.review.revision, w.review.span = generation, revision, int(cmd.x)
	return nil
}

// verifyReview waits until all that was started is over and holds it, and what the
// slots show, to the journal. pending was sent again where it had not been
// acknowledged at the time, so it is there, once; its refs may be others now.
func (w *workClient) verifyReview(ctx context.Context, c caller, done []*command, pending *command, at time.Time, again bool) error {
	all := slices.Clone(done)
	if pending != nil && !slices.Contains(done, pending) {
		all = append(all, pending)
	}
	var intents []*command // by generation, from 1
	edits, span, retried := int64(0), 0, map[*command]int{}
	for _, cmd := range all {
		switch {
		case cmd.tool == "report_apply_change":
			edits, span = edits+1, int(cmd.x)
		case cmd.batch != nil:
			retried[cmd.batch]++
		default:
			intents = append(intents, cmd)
			if cmd.intent.generation != int64(len(intents)) {
				return fmt.Errorf("%s took generation %d, as start %d", cmd.id, cmd.intent.generation, len(intents))
			}
		}
	}
	head, err := c.reviewHead(ctx)
	if err != nil {
		return err
	}
	if head.Generation != seededGeneration+edits {
		return fmt.Errorf("the Report has generation %d after %d edits", head.Generation, edits)
	}
	states := make([]string, len(intents))
	children := make([]map[string]string, len(intents)) // the current child's runRef by caseKey
	ended := make([]time.Time, len(intents))
	w.failed = 0
	for i, cmd := range intents {
		if cmd == pending && !slices.Contains(done, cmd) {
			continue // on this image under a ref that the journal does not know
		}
		end, err := cmd.intentEnded(ctx, c, at, again)
		if err != nil {
			return err
		}
		if states[i], children[i] = end.State, map[string]string{}; end.State == "Failed" {
			w.failed++
		}
		for _, one := range end.Cases {
			children[i][one.CaseKey] = one.RunRef
		}
		if ended[i], err = time.Parse(time.RFC3339Nano, end.EndedAt); err != nil {
			return err
		}
		if seen := cmd.intent.over; !seen.IsZero() && !seen.After(at) && retried[cmd] == 0 && end.String() != cmd.intent.end {
			return fmt.Errorf("%s was seen to be %s, and is %s", cmd.id, cmd.intent.end, end)
		}
	}
	var d struct {
		Slots []struct {
			SlotKey, State string
			Result         *struct {
				RunRef, BatchRef, CaseKey, ResultKey string
				Generation                           int64
			}
		}
		Connections map[string]struct {
			Generation int64
			UnderWay   *struct{ RunRef, BatchRef string }
		}
	}
	for {
		if _, err := c.insist(ctx, "report_describe", m{"target": head.Target}, &d); err != nil {
			return err
		}
		if d.Connections["girder_check"].UnderWay == nil || ctx.Err() != nil {
			break
		}
		// Only what the journal has no ref of was not waited for above.
		if pending == nil || slices.Contains(done, pending) {
			return fmt.Errorf("all is over and under way is %+v", *d.Connections["girder_check"].UnderWay)
		}
		time.Sleep(20 * time.Millisecond)
	}
	if g := d.Connections["girder_check"].Generation; g != int64(len(intents)) {
		return fmt.Errorf("the projection has generation %d after %d starts", g, len(intents))
	}
	shown := int64(0)
	for i, s := range d.Slots {
		g := int64(0)
		if s.Result != nil {
			g = s.Result.Generation
		}
		if i > 0 && g != shown || (g == 0) != (s.State == "Empty") {
			return fmt.Errorf("the slots show %+v", d.Slots)
		}
		if shown = g; g == 0 {
			continue
		}
		if g > int64(len(intents)) {
			return fmt.Errorf("%s shows generation %d of %d", s.SlotKey, g, len(intents))
		}
		cmd, state := intents[g-1], states[g-1]
		if state == "" {
			continue
		}
		if g < int64(len(intents)) && retried[cmd] == 0 && intents[g] != pending && ended[g-1].After(intents[g].acknowledged) {
			return fmt.Errorf("%s shows %s, which ended at %v: after %s was started", s.SlotKey, cmd.id, ended[g-1], intents[g].id)
		}
		batch := len(cmd.intent.spans) > 1
		switch {
		case (s.State == "Failed") != (state == "Failed"):
			return fmt.Errorf("%s is %s and shows %s, which is %s", s.SlotKey, s.State, cmd.id, state)
		case state == "Failed":
			if s.Result.BatchRef != cmd.intent.batchRef || !batch && s.Result.RunRef != cmd.runRef || s.Result.CaseKey != "" || s.Result.ResultKey != "" {
				return fmt.Errorf("%s shows %+v of %s, which failed", s.SlotKey, *s.Result, cmd.id)
			}
		case state != "Succeeded" && retried[cmd] == 0:
			return fmt.Errorf("%s shows %s, which is %s", s.SlotKey, cmd.id, state)
		case !batch && (s.Result.RunRef != cmd.runRef || (s.State == "Current") != (cmd.intent.spans[0] == span)):
			return fmt.Errorf("%s shows %+v as %s, the Run of %s is %s with span %v, and it is %d now", s.SlotKey, *s.Result, s.State, cmd.id, cmd.runRef, cmd.intent.spans, span)
		case batch && s.Result.CaseKey != fmt.Sprint("span_", slices.Max(cmd.intent.spans)):
			return fmt.Errorf("%s shows the case %s of %s with %v", s.SlotKey, s.Result.CaseKey, cmd.id, cmd.intent.spans)
		case batch && g == int64(len(intents)) && state == "Succeeded" && s.Result.RunRef != children[g-1][s.Result.CaseKey]:
			return fmt.Errorf("%s shows %s of %s, and the cases are %v", s.SlotKey, s.Result.RunRef, cmd.id, children[g-1])
		}
	}
	for i, cmd := range intents[min(int(shown), len(intents)):] {
		g := int(shown) + i
		seen := !cmd.intent.over.IsZero() && !cmd.intent.over.After(at)
		if states[g] != "" && states[g] != "Cancelled" && retried[cmd] == 0 && (seen || g == len(intents)-1) {
			return fmt.Errorf("%s %s before anything newer was started, and generation %d is shown", cmd.id, states[g], shown)
		}
	}
	return nil
}

// intentEnded waits until a Run or Batch is over, and holds it to its closed form,
// the first time and where again is set.
func (cmd *command) intentEnded(ctx context.Context, c caller, at time.Time, again bool) (b workEnd, err error) {
	for {
		b = workEnd{}
		if _, err := c.insist(ctx, "run_get", cmd.refArgument(), &b); err != nil {
			return b, fmt.Errorf("%s, %s: %w", cmd.id, b.State, err)
		}
		if over(b.State) {
			break
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	known := !cmd.stopped.IsZero() && !cmd.stopped.After(at) && (cmd.stoppedAs == "Cancelling" || cmd.stoppedAs == "Cancelled")
	isBatch := cmd.intent.batchRef != ""
	want := "Succeeded"
	if cmd.intent.fails() {
		want = "Failed"
	}
	if b.State != want && (b.State != "Cancelled" || !cmd.cancelling) || known && !isBatch && b.State != "Cancelled" {
		return b, fmt.Errorf("%s of %v, told to be %q, ended as %+v", cmd.id, cmd.intent.spans, cmd.stoppedAs, b)
	}
	// Why it failed is told of each Node in a Run, and of the case in a Batch; and of a
	// Run that was cancelled when its Nodes had failed already.
	told := len(b.Diagnostics) > 0
	if failed := b.State == "Failed"; failed && !told || told && !failed && (isBatch || b.State != "Cancelled" || want != "Failed") || (b.State == "Succeeded") != (len(b.Results) > 0) ||
		failed && (b.Diagnostics[0].Code != "PX_RUN_FAILED" || isBatch && (len(b.Diagnostics) != 1 || b.Diagnostics[0].Params["caseKey"] != fmt.Sprint("span_", tooLong))) {
		return b, fmt.Errorf("%s of %v tells %+v", cmd.id, cmd.intent.spans, b)
	}
	moment := func(arguments m, span int) error {
		var result struct{ Value struct{ Value float64 } }
		if _, err := c.insist(ctx, "result_read", with(arguments, m{"resultKey": "live_moment"}), &result); err != nil {
			return err
		}
		if want := hs20(float64(span)); math.Abs(result.Value.Value-want) > 1e-9*want {
			return fmt.Errorf("%s gives %v of %d ft, and %v is right", cmd.id, result.Value.Value, span, want)
		}
		return nil
	}
	finished := cmd.finished && !again
	cmd.finished = true
	if isBatch {
		runs := map[string]bool{}
		for i, one := range b.Cases {
			want := "Succeeded"
			if cmd.intent.spans[i] == tooLong {
				want = "Failed"
			}
			if one.CaseKey != fmt.Sprint("span_", cmd.intent.spans[i]) || !over(one.State) || one.State != want && b.State != "Cancelled" {
				return b, fmt.Errorf("%s, %s: case %d is %+v", cmd.id, b.State, i, one)
			}
			runs[one.RunRef] = true
		}
		if len(b.Cases) != batchCases || len(runs) != batchCases || b.State != "Cancelled" && b.Progress.Completed != batchCases || b.Progress.Total != batchCases || b.State == "Failed" && b.Failed != 1 {
			return b, fmt.Errorf("%s has the cases %+v, %+v", cmd.id, b.Cases, b.Progress)
		}
	}
	if b.State == "Succeeded" && !finished {
		err = moment(cmd.refArgument(), slices.Max(cmd.intent.spans))
	}
	return b, err
}
