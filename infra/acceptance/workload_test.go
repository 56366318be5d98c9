package acceptance

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pxhost/pxhost/infra/local"
	"github.com/pxhost/pxhost/shared/boot"
	"github.com/pxhost/pxhost/shared/boot/projects"
	"github.com/pxhost/pxhost/shared/history"
)

// A workload is several clients that plan, apply and run without pause while the
// host dies and comes back. Each has Flows of its own in the one sample Project,
// so every applied change is in the way of the others' at the Project's head, and
// each writes down what it sent and what it was told: the journal. Nothing but the
// host dies, so the journal needs no file. One client more works on the sample's Report:
// see workReview.
//
// A Flow's first Node multiplies by its generation plus 2, so the result of a Run
// tells which revision ran: y = x*(generation+2) + 1.
type workload struct {
	name    string
	clients []*workClient
}

// A workClient sends one command after the other. A command that was not
// acknowledged is sent again, word for word, until it is.
type workClient struct {
	name   string
	number int // of the next command
	random *rand.Rand
	flows  []*workFlow
	large  int // how many of the next Flows have plans larger than an item of the store
	review *workReview
	failed int // of the Runs and Batches of the Report that were seen to be over

	mu      sync.Mutex
	journal []*command
}

// A workFlow is one Flow as far as its owner was told.
type workFlow struct {
	head  flowHead
	large bool
}

// A command is an apply or a run.
type command struct {
	tool      string
	id        string // commandId
	arguments m
	flow      *workFlow
	planned   time.Time // when the plan was acknowledged, or the run was decided on

	// What the answer must say of an apply.
	key        string
	generation int64
	// What the result of a run must be.
	x, y int64

	acknowledged time.Time   // zero: not yet
	answer       string      // the envelope
	revision     string      // of an apply
	runRef       string      // of a run
	intent       *workIntent // of what a Report's connection was started for
	batch        *command    // of a retry: what started the Batch
	finished     bool        // the run was seen to be over, with its result

	cancelling bool      // the run was asked to stop
	stopped    time.Time // when that was acknowledged; zero: not
	stoppedAs  string    // with which state
}

func newWorkload(name string, clients int, random *rand.Rand) *workload {
	w := &workload{name: name}
	for i := range clients {
		w.clients = append(w.clients, &workClient{name: fmt.Sprintf("%s_%d", name, i), random: rand.New(rand.NewPCG(random.Uint64(), random.Uint64()))})
	}
	w.clients = append(w.clients, newReviewer(name, random))
	return w
}

// failures is how many Runs and Batches failed, as far as the last verify saw.
func (w *workload) failures() (n int) {
	for _, c := range w.clients {
		n += c.failed
	}
	return n
}

// run lets the clients work until ctx is done. What a dying host answers is
// neither success nor failure; any definite answer that is not the right one is
// a failure.
func (w *workload) run(ctx context.Context, c caller) error {
	errs := make([]error, len(w.clients))
	var all sync.WaitGroup
	for i, client := range w.clients {
		all.Go(func() {
			for ctx.Err() == nil && errs[i] == nil {
				errs[i] = client.step(ctx, c)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// errUnknown says that a request may or may not have been carried out.
var errUnknown = errors.New("no definite answer")

// ask calls a tool. An answer of the router, or none, is errUnknown.
func (c caller) ask(ctx context.Context, tool string, arguments any) (text string, e envelope, err error) {
	body, err := json.Marshal(m{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": m{"name": tool, "arguments": arguments}})
	if err != nil {
		return "", e, err
	}
	r, err := send(ctx, c.url, c.token, string(body))
	if err != nil || r.status >= 500 {
		return "", e, errUnknown
	}
	var reply struct {
		Result struct {
			Structured json.RawMessage `json:"structuredContent"`
		}
		Error *struct {
			Code int
			Data struct{ Retryable bool }
		}
	}
	if err := json.Unmarshal([]byte(r.body), &reply); err != nil || r.status != http.StatusOK {
		return "", e, fmt.Errorf("%s: status %d: %s", tool, r.status, r.body)
	}
	if reply.Error != nil {
		if reply.Error.Code == -32603 {
			return "", e, errUnknown
		}
		return "", e, fmt.Errorf("%s: %s", tool, r.body)
	}
	if err := json.Unmarshal(reply.Result.Structured, &e); err != nil {
		return "", e, fmt.Errorf("%s: %s: %w", tool, r.body, err)
	}
	return string(reply.Result.Structured), e, nil
}

// insist calls a tool until the answer is definite, and fails if it refuses.
func (c caller) insist(ctx context.Context, tool string, arguments, data any) (string, error) {
	for {
		text, e, err := c.ask(ctx, tool, arguments)
		switch {
		case err == nil && !e.OK:
			return "", fmt.Errorf("%s %v is refused: %s", tool, arguments, text)
		case err == nil && data != nil:
			return text, json.Unmarshal(e.Data, data)
		case err == nil || !errors.Is(err, errUnknown):
			return text, err
		case ctx.Err() != nil:
			return "", errUnknown
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// step finishes the command under way, or decides on the next one.
func (w *workClient) step(ctx context.Context, c caller) error {
	cmd := w.last()
	if cmd == nil || !cmd.acknowledged.IsZero() {
		next, err := w.next(ctx, c)
		if errors.Is(err, errUnknown) {
			return nil
		}
		if err != nil {
			return err
		}
		w.mu.Lock()
		w.journal = append(w.journal, next)
		w.mu.Unlock()
		cmd = next
	}
	return w.finish(ctx, c, cmd)
}

func (w *workClient) last() *command {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.journal) == 0 {
		return nil
	}
	return w.journal[len(w.journal)-1]
}

// finish sends a command until it is acknowledged, and once more now and then:
// the answer is the same.
func (w *workClient) finish(ctx context.Context, c caller, cmd *command) error {
	var data struct {
		NewRevisionRef          string
		NewGeneration           int64
		RunRef, BatchRef, State string
		Intent                  int64 `json:"projectionIntentGeneration"`
	}
	text, err := c.insist(ctx, cmd.tool, cmd.arguments, &data)
	if errors.Is(err, errUnknown) {
		return nil
	}
	if err != nil {
		return err
	}
	w.mu.Lock()
	cmd.acknowledged, cmd.answer, cmd.revision, cmd.runRef = time.Now(), text, data.NewRevisionRef, data.RunRef
	w.mu.Unlock()
	switch {
	case cmd.intent != nil:
		if err := w.started(cmd, data.RunRef, data.BatchRef, data.State, data.Intent); err != nil {
			return fmt.Errorf("%w: %s", err, text)
		}
	case cmd.tool == "report_apply_change":
		if err := w.edited(cmd, data.NewGeneration, data.NewRevisionRef); err != nil {
			return err
		}
	case cmd.tool == "pxflow_apply_change":
		if data.NewGeneration != cmd.generation {
			return fmt.Errorf("%s: generation %d instead of %d", cmd.id, data.NewGeneration, cmd.generation)
		}
		cmd.flow.head.Generation, cmd.flow.head.Target.RevisionRef = data.NewGeneration, data.NewRevisionRef
	case data.RunRef == "" || data.State != "Queued":
		return fmt.Errorf("%s: started as %s", cmd.id, text)
	}
	switch n := w.random.IntN(8); {
	case n < 2:
		return cmd.again(ctx, c)
	case n == 2 && cmd.ref() != "" && cmd.batch == nil:
		return w.cancel(ctx, c, cmd)
	}
	return nil
}

// cancel asks a Run to stop. It is not asked again: without an answer, the Run may
// end either way.
func (w *workClient) cancel(ctx context.Context, c caller, cmd *command) error {
	w.mu.Lock()
	cmd.cancelling = true
	w.mu.Unlock()
	var data struct{ State string }
	_, err := c.insist(ctx, "run_cancel", with(cmd.refArgument(), m{"commandId": cmd.id + "-stop"}), &data)
	if errors.Is(err, errUnknown) {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	cmd.stopped, cmd.stoppedAs = time.Now(), data.State
	return err
}

// again sends an acknowledged command again: it must give the first answer, word
// for word.
func (cmd *command) again(ctx context.Context, c caller) error {
	text, err := c.insist(ctx, cmd.tool, cmd.arguments, nil)
	if errors.Is(err, errUnknown) {
		return nil
	}
	if err == nil && text != cmd.answer {
		err = fmt.Errorf("%s: the first answer was\n%s\nand the retry gives\n%s", cmd.id, cmd.answer, text)
	}
	return err
}

// next decides on a command: a new Flow, a change of one, or a Run.
func (w *workClient) next(ctx context.Context, c caller) (*command, error) {
	id := fmt.Sprintf("%s-%d", w.name, w.number)
	if w.review != nil {
		return w.nextOfReview(ctx, c, id)
	}
	var flow *workFlow
	if len(w.flows) > 0 {
		flow = w.flows[w.random.IntN(len(w.flows))]
	}
	switch {
	case flow == nil || w.large > 0 || len(w.flows) < 3 && w.random.IntN(6) == 0:
		key := fmt.Sprintf("work_%s_%d", w.name, w.number)
		document := workDocument(key, w.large > 0, w.random)
		flow = &workFlow{head: flowHead{Target: flowTarget{sample, key, testDigest(document)}, Generation: -1}, large: w.large > 0}
		cmd, err := w.plan(ctx, c, id, flow, m{"kind": "CreateFlow", "document": document})
		if err == nil { // else the same is decided again: a plan changes nothing
			w.flows = append(w.flows, flow)
			w.large = max(0, w.large-1)
		}
		return cmd, err
	case !flow.large && w.random.IntN(2) == 0:
		return w.plan(ctx, c, id, flow, m{"kind": "SetNodeSetting", "nodeKey": "first", "settingKey": "results", "value": workResults(flow.head.Generation + 1)})
	}
	w.number++
	x := w.random.Int64N(1000)
	return &command{tool: "pxflow_run", id: id, flow: flow, key: flow.head.Target.FlowKey, planned: time.Now(), x: x, y: x*(flow.head.Generation+2) + 1,
		arguments: m{"kind": "RunFlow", "target": flow.head.Target, "inputs": m{"x": number(float64(x), "1")}, "commandId": id}}, nil
}

func (w *workClient) plan(ctx context.Context, c caller, id string, flow *workFlow, change m) (*command, error) {
	var p plan
	_, err := c.insist(ctx, "pxflow_plan_change", m{"target": flow.head.Target, "expectedGeneration": max(flow.head.Generation, 0), "commands": list{change}}, &p)
	if err != nil {
		return nil, err
	}
	w.number++
	return &command{tool: "pxflow_apply_change", id: id, flow: flow, key: flow.head.Target.FlowKey, planned: time.Now(),
		generation: flow.head.Generation + 1, arguments: p.application(id)}, nil
}

func workResults(generation int64) m {
	return m{"a": m{"expression": fmt.Sprintf("x * %d", generation+2), "unit": "1"}}
}

// workDocument is a Flow of two Nodes, one after the other. A large one has
// more, with tables of random numbers.
func workDocument(key string, large bool, random *rand.Rand) m {
	one := m{"type": "number", "unit": "1", "shape": "scalar", "nullable": false}
	nodes := m{
		"first": m{"target": m{"kind": "component", "componentKey": "px.formula", "version": 1},
			"settings":      m{"inputs": m{"x": m{"unit": "1"}}, "results": workResults(0)},
			"inputBindings": m{"x": m{"kind": "flowInput", "portKey": "x"}}},
		"second": m{"target": m{"kind": "component", "componentKey": "px.formula", "version": 1},
			"settings":      m{"inputs": m{"a": m{"unit": "1"}}, "results": m{"y": m{"expression": "a + 1", "unit": "1"}}},
			"inputBindings": m{"a": m{"kind": "nodeResult", "nodeKey": "first", "portKey": "a"}}},
	}
	if large {
		for i := range 2 { // the settings of a Node have a limit of their own
			nodes[fmt.Sprint("table_", i)] = workTable(random)
		}
	}
	return m{"format": "pxflow/1", "flowKey": key, "label": m{"en": "Workload " + key}, "authoring": m{"kind": "native"},
		"inputs": m{"x": one}, "results": m{"y": with(one, m{"binding": m{"kind": "nodeResult", "nodeKey": "second", "portKey": "y"}})}, "nodes": nodes}
}

// workTable is a Node that looks a text up in a table of some 180 KB, which no
// compression makes much smaller. Two of them in a document still fit one answer
// of a plan, and the document and its plan no item of the store.
func workTable(random *rand.Rand) m {
	const rows, length = 600, 280
	body := list{}
	for i := range rows {
		text := make([]byte, length*3/4)
		for j := range text {
			text[j] = byte(random.Uint32())
		}
		body = append(body, list{float64(2 * i), base64.StdEncoding.EncodeToString(text)})
	}
	columns := list{m{"columnKey": "x", "type": "number", "unit": "1"}, m{"columnKey": "text", "type": "string"}}
	return m{"target": m{"kind": "component", "componentKey": "px.lookup", "version": 1},
		"settings":      m{"table": m{"columns": columns, "rows": body}, "keyColumn": "x", "resultColumns": list{"text"}, "method": "exact", "outOfRange": "error"},
		"inputBindings": m{"x": m{"kind": "literal", "value": number(2, "1")}}}
}

// upTo is the part of the journal that a client had at a time, on which what was
// acknowledged later is not acknowledged.
func (w *workClient) upTo(at time.Time) (acknowledged []*command, pending *command) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, cmd := range w.journal {
		if cmd.planned.After(at) {
			break
		}
		if cmd.acknowledged.IsZero() || cmd.acknowledged.After(at) {
			return acknowledged, cmd
		}
		acknowledged = append(acknowledged, cmd)
	}
	return acknowledged, nil
}

// verify holds a host that came back to the journal as it was at a time: what was
// acknowledged by then is there, and there once. What was sent then and not
// acknowledged is sent again and must be answered. The last resend commands of
// each client are sent again too.
func (w *workload) verify(ctx context.Context, c caller, at time.Time, resend int) error {
	ctx, cancel := context.WithTimeout(ctx, 90*time.Second)
	defer cancel()
	errs := make([]error, len(w.clients))
	var all sync.WaitGroup
	for i, client := range w.clients {
		all.Go(func() { errs[i] = client.verify(ctx, c, at, resend) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil || ctx.Err() != nil {
		return errors.Join(err, ctx.Err())
	}
	return nil
}

func (w *workClient) verify(ctx context.Context, c caller, at time.Time, resend int) error {
	done, pending := w.upTo(at)
	if pending != nil {
		if pending.acknowledged.IsZero() {
			if err := w.finish(ctx, c, pending); err != nil {
				return err
			}
			if pending.acknowledged.IsZero() {
				return fmt.Errorf("%s is not answered after the restart", pending.id)
			}
			if err := pending.again(ctx, c); err != nil {
				return err
			}
			done = append(done, pending)
		} else {
			// On this image it may or may not have been carried out. A Run may have
			// another runRef now, and a commit another time.
			if _, err := c.insist(ctx, pending.tool, pending.arguments, nil); err != nil {
				return err
			}
		}
	}
	for _, cmd := range done[max(0, len(done)-resend):] {
		if err := cmd.again(ctx, c); err != nil {
			return err
		}
	}
	if w.review != nil {
		return w.verifyReview(ctx, c, done, pending, at, resend > len(done))
	}
	// The Flows stand where the last change left them.
	last := map[string]*command{}
	for _, cmd := range done {
		if cmd.tool == "pxflow_apply_change" {
			last[cmd.key] = cmd
		}
	}
	for key, cmd := range last {
		if pending != nil && pending.key == key && pending.tool == cmd.tool {
			continue // that the pending one is answered says that it stands on this one
		}
		var found struct{ Items []flowHead }
		if _, err := c.insist(ctx, "pxflow_search", m{"scope": sample, "query": key, "limit": 100}, &found); err != nil {
			return err
		}
		at := slices.IndexFunc(found.Items, func(f flowHead) bool { return f.Target.FlowKey == key })
		if at < 0 || found.Items[at].Generation != cmd.generation || found.Items[at].Target.RevisionRef != cmd.revision {
			return fmt.Errorf("%s was acknowledged with generation %d and %s; found %+v", key, cmd.generation, cmd.revision, found.Items)
		}
	}
	for _, cmd := range done {
		if cmd.runRef != "" && (!cmd.finished || resend > len(done)) {
			if err := cmd.ended(ctx, c, at); err != nil {
				return err
			}
			cmd.finished = true
		}
	}
	return nil
}

// ended waits until a Run is over, and holds it to its closed form, or to having
// stopped where a cancellation had been acknowledged at a time.
func (cmd *command) ended(ctx context.Context, c caller, at time.Time) error {
	var r runReport
	for {
		if _, err := c.insist(ctx, "run_get", m{"runRef": cmd.runRef}, &r); err != nil {
			return fmt.Errorf("the run %s, %s: %w", cmd.id, r.State, err)
		}
		if r.State != "Queued" && r.State != "Running" && r.State != "Cancelling" {
			break
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	if known := !cmd.stopped.IsZero() && !cmd.stopped.After(at); known || cmd.cancelling {
		stopped := known && cmd.stoppedAs != "Succeeded"
		if r.State == "Cancelled" && (stopped || !known) && len(r.Results) == 0 && r.Progress.Completed <= r.Progress.Total {
			return nil
		}
		if stopped {
			return fmt.Errorf("the run %s of %s was told to be %s and ended as %+v", cmd.id, cmd.key, cmd.stoppedAs, r)
		}
	}
	if r.State != "Succeeded" || r.Progress.Completed != r.Progress.Total || r.Progress.Total < 2 {
		return fmt.Errorf("the run %s of %s ended as %+v", cmd.id, cmd.key, r)
	}
	var result struct{ Value struct{ Value float64 } }
	if _, err := c.insist(ctx, "result_read", m{"runRef": cmd.runRef, "resultKey": "y"}, &result); err != nil {
		return err
	}
	if result.Value.Value != float64(cmd.y) {
		return fmt.Errorf("the run %s of %s gives %v, and %d is right", cmd.id, cmd.key, result.Value.Value, cmd.y)
	}
	return nil
}

// verifyHistory reads the Project's whole history with the operator's key and
// proves it offline: every applied command that was acknowledged at a time is in
// it once, no command is in it twice, and every Flow's generations count up by one
// from 0. With exact, it holds nothing else.
func (w *workload) verifyHistory(t *testing.T, h *host, at time.Time, exact bool) error {
	ctx := t.Context()
	where, key := h.operator(t)
	env := boot.NewEnv(func(name string) (string, bool) {
		switch name {
		case "AWS_REGION":
			return local.Region, true
		case "AWS_ENDPOINT_URL":
			return where.AWSEndpoint, true
		case "AWS_ACCESS_KEY_ID":
			return key.AccessKeyID, true
		case "AWS_SECRET_ACCESS_KEY":
			return key.SecretAccessKey, true
		}
		value, ok := where.Environment[name]
		return value, ok
	})
	store := projects.New(env).Store
	if err := env.Err(); err != nil {
		return err
	}
	space := history.Space("structural_team/bridge_package")
	head, err := store.Head(ctx, space)
	if err != nil {
		return err
	}
	read := func(refs ...history.Ref) ([][]byte, error) { return store.Get(ctx, space, refs...) }
	verified, err := history.Verifier{Read: read}.Verify(head.Commit)
	if err != nil {
		return fmt.Errorf("the history: %w", err)
	}
	commands, generations, commits := map[string]int{}, map[string][]int64{}, 0
	for ref := head.Commit; ref != ""; commits++ {
		bodies, err := read(ref)
		if err != nil {
			return err
		}
		text := bodies[0]
		var commit struct {
			Parent    history.Ref
			CommandID string
			Changes   []struct {
				Key    string
				Result *struct{ Generation int64 }
			}
		}
		if err := json.Unmarshal(text, &commit); err != nil {
			return err
		}
		commands[commit.CommandID]++
		for _, change := range commit.Changes {
			if change.Result != nil {
				generations[change.Key] = append(generations[change.Key], change.Result.Generation)
			}
		}
		ref = commit.Parent
	}
	if commits != verified.Commits {
		return fmt.Errorf("%d commits, and %d were proved", commits, verified.Commits)
	}
	known := 5 // the sample's own: its Flow, its Report, the connection, and the Function with its Flow
	for _, client := range w.clients {
		done, _ := client.upTo(at)
		for _, cmd := range done {
			if !strings.HasSuffix(cmd.tool, "_apply_change") {
				continue
			}
			known++
			if commands[cmd.id] != 1 {
				return fmt.Errorf("%s was acknowledged and is %d times in the history", cmd.id, commands[cmd.id])
			}
		}
	}
	for id, n := range commands {
		if n != 1 && strings.HasPrefix(id, w.name) {
			return fmt.Errorf("%s is %d times in the history", id, n)
		}
	}
	if exact && commits != known {
		return fmt.Errorf("%d commits, and %d were acknowledged", commits, known)
	}
	for key, found := range generations {
		slices.Reverse(found)
		for i, g := range found {
			if g != int64(i) {
				return fmt.Errorf("the generations of %s are %v", key, found)
			}
		}
	}
	return nil
}

// acknowledged counts the journal.
func (w *workload) acknowledged(at time.Time) (applies, runs int) {
	for _, client := range w.clients {
		done, _ := client.upTo(at)
		for _, cmd := range done {
			if !strings.HasSuffix(cmd.tool, "_apply_change") {
				runs++
			} else {
				applies++
			}
		}
	}
	return applies, runs
}

func testDigest(v any) string { return digest(discard{}, v) }

// discard lets a document of the tests' own be digested where no test is at hand.
type discard struct{ testing.TB }

func (discard) Helper()           {}
func (discard) Fatal(args ...any) { panic(fmt.Sprint(args...)) }
