package execution_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/capability"
	"github.com/pxhost/pxhost/shared/capability/execution"
	"github.com/pxhost/pxhost/shared/capability/host"
	"github.com/pxhost/pxhost/shared/capability/packaging"
	"github.com/pxhost/pxhost/shared/capability/safeschema"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/store/memory"
)

const (
	workspace = "team"
	actor     = "https://issuer|engineer"
)

// A world is a workspace with one instance, and an adapter that does what a test says.
type world struct {
	*testing.T
	clock  time.Time
	store  *memory.Store
	faults *faults
	desk   *execution.Desk
	runner *execution.Runner
	calls  atomic.Int32
	// adapter is the one that is to be called.
	adapter capability.AdapterName
	call    func(ctx context.Context, c capability.Call) (capability.Result, error)
}

// faults is the store as an execution sees it: the next write fails before or after it
// was done.
type faults struct {
	host.Store
	writes, fail int
	after        bool
	kill         bool // the process dies there: nothing more is written
	dead         bool
}

var errStore = errors.New("the store failed")

func (f *faults) write(do func() error) error {
	if f.dead {
		return errStore
	}
	f.writes++
	if f.writes != f.fail {
		return do()
	}
	f.dead = f.kill
	if f.after {
		if err := do(); err != nil {
			return err
		}
	}
	return errStore
}

func (f *faults) Apply(ctx context.Context, s host.Step) error {
	return f.write(func() error { return f.Store.Apply(ctx, s) })
}

func (f *faults) CreateExecution(ctx context.Context, e host.Execution) error {
	return f.write(func() error { return f.Store.CreateExecution(ctx, e) })
}

func (w *world) Call(ctx context.Context, c capability.Call) (capability.Result, error) {
	w.calls.Add(1)
	return w.call(ctx, c)
}

// Invoke runs the adapter in this process.
func (w *world) Invoke(ctx context.Context, adapter capability.AdapterName, id string) error {
	if adapter == capability.SandboxPython && w.runner.Queue == nil {
		return errors.New("nobody is there")
	}
	if adapter != w.adapter {
		w.Errorf("the adapter %s is called", adapter)
	}
	return w.runner.Run(context.WithoutCancel(ctx), id)
}

const manifest = `{"pluginKey":"notes","version":"1.0.0","title":"노트","permissions":["storage"],"capabilities":[
	{"id":"text","kind":"skill","title":"정리","description":"d","permissions":[],"timeout_seconds":30,
	 "input_schema":{"type":"object","properties":{"query":{"type":"string","maxLength":50}},"required":["query"],"additionalProperties":false},
	 "output_schema":{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]},"runtime":{"adapter":"text_template","template":"{query}"}},
	{"id":"free","kind":"skill","title":"정리","description":"d","permissions":[],"timeout_seconds":30,"runtime":{"adapter":"text_template","template":"x"}},
	{"id":"stored","kind":"skill","title":"정리","description":"d","permissions":["storage"],"timeout_seconds":30,"runtime":{"adapter":"text_template","template":"x"}},
	{"id":"found","kind":"provider","title":"s","description":"d","permissions":[],"timeout_seconds":30,"runtime":{"role":"search"}}]}`

func open(t *testing.T) *world { return openWith(t, capability.TextTemplate, manifest) }

func openWith(t *testing.T, adapter capability.AdapterName, manifest string) *world {
	w := &world{T: t, adapter: adapter, clock: time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)}
	now := func() time.Time { return w.clock }
	w.store = memory.New(now)
	w.faults = &faults{Store: w.store}
	reader := &execution.Reader{Store: w.store, Objects: w.store}
	schemas := new(safeschema.Cache)
	w.desk = &execution.Desk{Store: w.faults, Objects: w.store, Workspaces: reader, Schemas: schemas, Invoke: w, Now: now, Patience: 10 * time.Millisecond}
	w.runner = &execution.Runner{Store: w.faults, Objects: w.store, Workspaces: reader, Schemas: schemas, Adapter: w, Now: now}
	w.call = func(context.Context, capability.Call) (capability.Result, error) { return good, nil }
	p := packaging.Package{Manifest: must(canon.Canonicalize([]byte(manifest))), Sources: map[string]string{}}
	text := must(p.Stored())
	if err := w.store.Put(t.Context(), host.Space(workspace), text); err != nil {
		t.Fatal(err)
	}
	w.change(host.Change{Instance: &capability.Instance{InstanceID: "inst", Workspace: workspace, PluginKey: "notes", PluginVersion: "1.0.0", PackageDigest: must(p.Digest()),
		Package: string(history.RefOf(text)), Enabled: true, Settings: canon.Raw(`{}`), Generation: 1}})
	w.change(host.Change{Member: &host.Membership{Actor: actor, Member: capability.Member{Rights: []capability.Right{capability.Use}}}})
	return w
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func (w *world) change(c host.Change) {
	w.Helper()
	c.Workspace = workspace
	if _, err := w.store.Change(w.Context(), c); err != nil {
		w.Fatal(err)
	}
}

// edit changes the instance.
func (w *world) edit(how func(*capability.Instance)) {
	w.Helper()
	i, err := w.store.Instance(w.Context(), "inst")
	if err != nil {
		w.Fatal(err)
	}
	how(&i)
	i.Generation++
	w.change(host.Change{Instance: &i})
}

var good = capability.Result{Summary: "done", Data: canon.Raw(`{"n":1}`)}

func request(key string) execution.Request {
	return execution.Request{Actor: actor, InstanceID: "inst", CapabilityID: "text", Arguments: canon.Raw(`{"query":"secret"}`), Surface: "ai", Key: key}
}

func code(err error) outcome.Code {
	f := (*capability.Failure)(nil)
	if errors.As(err, &f) {
		return f.Code
	}
	if err != nil {
		return outcome.Code("error: " + err.Error())
	}
	return ""
}

// do accepts a request and waits for its end.
func (w *world) do(q execution.Request) (host.Execution, error) {
	e, err := w.desk.Accept(w.Context(), q)
	if err != nil {
		return e, err
	}
	return w.desk.Wait(w.Context(), e)
}

// The limits of data are those of its JSON. How long a text or a list may be for a
// screen is a matter of who draws one: here a result of one text, or of one list, may be
// as large as any.
//
// covers: C9
func TestDataHasTheLimitsOfItsJSONAlone(t *testing.T) {
	long, many := strings.Repeat("거", 1_000_000), "["+strings.Repeat("0,", 1_000_000)+"0]"
	for _, surface := range []string{"ui", "ai"} {
		for name, c := range map[string]struct {
			arguments, data string
			accepted        outcome.Code
			ended           outcome.Code
		}{
			"a text of a million characters": {`{}`, `{"text":"` + long + `"}`, "", ""},
			"a list of a million":            {`{}`, `{"list":` + many + `}`, "", ""},
			"as much as there may be":        {`{"a":"` + strings.Repeat("x", execution.MaxArguments-8) + `"}`, `{"a":"` + strings.Repeat("x", execution.MaxResult-8-len("done")) + `"}`, "", ""},
			"a result of a byte more":        {`{}`, `{"a":"` + strings.Repeat("x", execution.MaxResult-7-len("done")) + `"}`, "", outcome.ExtensionResponseInvalid},
			"arguments of a byte more":       {`{"a":"` + strings.Repeat("x", execution.MaxArguments-7) + `"}`, `{}`, outcome.ExtensionInputInvalid, ""},
		} {
			w := open(t)
			w.call = func(context.Context, capability.Call) (capability.Result, error) {
				return capability.Result{Summary: "done", Data: canon.Raw(c.data)}, nil
			}
			e, err := w.do(execution.Request{Actor: actor, InstanceID: "inst", CapabilityID: "free", Arguments: canon.Raw(c.arguments), Surface: surface, Generation: 1, Key: "k"})
			if code(err) != c.accepted || e.Code != c.ended {
				t.Errorf("%s, %s: %v, %s", name, surface, err, e.Code)
				continue
			}
			if c.accepted != "" || c.ended != "" {
				continue
			}
			if r, err := w.desk.Result(t.Context(), e); err != nil || string(r.Data) != c.data {
				t.Errorf("%s, %s: %v, %d bytes", name, surface, err, len(r.Data))
			}
		}
	}
}

// covers: C2, C4
func TestWhatIsNotReadyOrDoesNotFitCallsNoAdapter(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*capability.Instance)
		ask  func(*execution.Request)
		want outcome.Code
	}{
		"no such instance":              {nil, func(q *execution.Request) { q.InstanceID = "x" }, outcome.ExtensionNotFound},
		"no such capability":            {nil, func(q *execution.Request) { q.CapabilityID = "x" }, outcome.ExtensionNotFound},
		"a provider without an adapter": {nil, func(q *execution.Request) { q.CapabilityID = "found" }, outcome.ExtensionNotFound},
		"nobody of the workspace":       {nil, func(q *execution.Request) { q.Actor = "x" }, outcome.ExtensionNotFound},
		"switched off":                  {func(i *capability.Instance) { i.Enabled = false }, nil, outcome.ExtensionDisabled},
		"removed":                       {func(i *capability.Instance) { i.Removed = true }, nil, outcome.ExtensionNotFound},
		"a permission is not granted":   {nil, func(q *execution.Request) { q.CapabilityID = "stored" }, outcome.ExtensionPermissionDenied},
		"another generation":            {func(*capability.Instance) {}, func(q *execution.Request) { q.Generation = 1 }, outcome.ExtensionVersionMismatch},
		"no arguments":                  {nil, func(q *execution.Request) { q.Arguments = canon.Raw(`{}`) }, outcome.ExtensionInputInvalid},
		"arguments that are too much":   {nil, func(q *execution.Request) { q.Arguments = canon.Raw(`{"query":"secret","x":1}`) }, outcome.ExtensionInputInvalid},
		"arguments of another type":     {nil, func(q *execution.Request) { q.Arguments = canon.Raw(`{"query":3}`) }, outcome.ExtensionInputInvalid},
		"a list":                        {nil, func(q *execution.Request) { q.Arguments = canon.Raw(`["secret"]`) }, outcome.ExtensionInputInvalid},
		"a list where no schema asks":   {nil, func(q *execution.Request) { q.Arguments, q.CapabilityID = canon.Raw(`[]`), "free" }, outcome.ExtensionInputInvalid},
		"more than can be stored": {nil, func(q *execution.Request) {
			q.Arguments, q.CapabilityID = canon.Raw(`{"a":"`+strings.Repeat("secret", 50_000)+`"}`), "free"
		}, outcome.ExtensionInputInvalid},
		"this generation":                {func(*capability.Instance) {}, func(q *execution.Request) { q.Generation = 2 }, ""},
		"anything, where no schema asks": {nil, func(q *execution.Request) { q.Arguments, q.CapabilityID = canon.Raw(`{"a":[1]}`), "free" }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := open(t)
			if c.edit != nil {
				w.edit(c.edit)
			}
			q := request("k")
			if c.ask != nil {
				c.ask(&q)
			}
			_, err := w.do(q)
			if code(err) != c.want || (w.calls.Load() > 0) != (c.want == "") {
				t.Errorf("%v, and %d calls", err, w.calls.Load())
			}
			if err != nil && strings.Contains(fmt.Sprintf("%+v", err.(*capability.Failure).Params), "secret") {
				t.Error(err)
			}
		})
	}
}

// covers: C3
func TestTheNextCallSeesEveryChange(t *testing.T) {
	w := open(t)
	for n, step := range []struct {
		edit func(*capability.Instance)
		want outcome.Code
	}{
		{nil, ""},
		{func(i *capability.Instance) { i.Enabled = false }, outcome.ExtensionDisabled},
		{func(i *capability.Instance) { i.Enabled = true }, ""},
		{func(i *capability.Instance) { i.Actors = []string{} }, outcome.ExtensionNotFound},
		{func(i *capability.Instance) { i.Actors = nil }, ""},
		{func(i *capability.Instance) { i.Removed = true }, outcome.ExtensionNotFound},
	} {
		if step.edit != nil {
			w.edit(step.edit)
		}
		if _, err := w.do(request(fmt.Sprint(n))); code(err) != step.want {
			t.Errorf("step %d: %v", n, err)
		}
	}
	if _, err := w.do(request("0")); err != nil {
		t.Error("a request that is sent again does not find its execution", err)
	}
}

func TestARequestIsPerformedOnce(t *testing.T) {
	w := open(t)
	for range 3 {
		e, err := w.do(request("k"))
		if err != nil || e.State != host.Succeeded {
			t.Fatal(e, err)
		}
		if r, err := w.desk.Result(t.Context(), e); err != nil || r.Summary != "done" {
			t.Error(r, err)
		}
	}
	other := request("k")
	other.Arguments = canon.Raw(`{"query":"x"}`)
	if _, err := w.do(other); code(err) != outcome.CommandReused {
		t.Error(err)
	}
	if w.calls.Load() != 1 {
		t.Errorf("%d calls", w.calls.Load())
	}
	if _, err := w.do(request("l")); err != nil || w.calls.Load() != 2 {
		t.Error("another key is no other request")
	}
}

// covers: C4, C5, A9
func TestHowAnExecutionEnds(t *testing.T) {
	dispatched := func(then error) func(context.Context, capability.Call) (capability.Result, error) {
		return func(ctx context.Context, c capability.Call) (capability.Result, error) {
			if err := errors.Join(c.Dispatch(ctx), c.Dispatch(ctx)); err != nil {
				return capability.Result{}, err
			}
			return good, then
		}
	}
	gives := func(r capability.Result) func(context.Context, capability.Call) (capability.Result, error) {
		return func(context.Context, capability.Call) (capability.Result, error) { return r, nil }
	}
	for name, c := range map[string]struct {
		call  func(context.Context, capability.Call) (capability.Result, error)
		state host.State
		code  outcome.Code
	}{
		"a result":                       {gives(good), host.Succeeded, ""},
		"a result from outside":          {dispatched(nil), host.Succeeded, ""},
		"a refusal from outside":         {dispatched(&capability.Failure{Code: outcome.ExtensionResponseInvalid}), host.Failed, outcome.ExtensionResponseInvalid},
		"nobody knows":                   {dispatched(&capability.Failure{Code: outcome.ExtensionOutcomeUnknown}), host.OutcomeUnknown, outcome.ExtensionOutcomeUnknown},
		"a fault of ours, after it left": {dispatched(errors.New("secret")), host.OutcomeUnknown, outcome.ExtensionOutcomeUnknown},
		"no summary":                     {gives(capability.Result{Data: canon.Raw(`{"n":1}`)}), host.Failed, outcome.ExtensionResponseInvalid},
		"no data":                        {gives(capability.Result{Summary: "s"}), host.Failed, outcome.ExtensionResponseInvalid},
		"data that is no object":         {gives(capability.Result{Summary: "s", Data: canon.Raw(`[1]`)}), host.Failed, outcome.ExtensionResponseInvalid},
		"data that does not fit":         {gives(capability.Result{Summary: "s", Data: canon.Raw(`{"n":"secret"}`)}), host.Failed, outcome.ExtensionOutputInvalid},
		"too much":                       {gives(capability.Result{Summary: "s", Data: canon.Raw(`{"n":1,"x":"` + strings.Repeat("x", execution.MaxResult) + `"}`)}), host.Failed, outcome.ExtensionResponseInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			w := open(t)
			w.call = c.call
			e, err := w.do(request("k"))
			if err != nil || e.State != c.state || e.Code != c.code || !e.DueAt.IsZero() || e.EndedAt.IsZero() {
				t.Errorf("%+v %v", e, err)
			}
			if (e.State == host.Succeeded) != (e.Result != "") || strings.Contains(fmt.Sprintf("%+v", e), "secret") {
				t.Errorf("%+v", e)
			}
			if again, err := w.do(request("k")); err != nil || again.State != c.state || w.calls.Load() != 1 {
				t.Errorf("sent again: %+v %v, %d calls", again, err, w.calls.Load())
			}
		})
	}
}

// Whichever write fails, before it was done or after, and whether the process lives on or
// dies there: what had its effect outside is never called again, and each execution ends.
//
// covers: A9, U5
func TestWhateverWriteFailsNothingIsSentTwice(t *testing.T) {
	for _, kill := range []bool{false, true} {
		for _, after := range []bool{false, true} {
			for fail := 1; fail <= 5; fail++ {
				t.Run(fmt.Sprintf("write %d, after %v, killed %v", fail, after, kill), func(t *testing.T) {
					w := open(t)
					sent := 0
					w.call = func(ctx context.Context, c capability.Call) (capability.Result, error) {
						if err := c.Dispatch(ctx); err != nil {
							return capability.Result{}, err
						}
						sent++
						return good, nil
					}
					w.faults.fail, w.faults.after, w.faults.kill = fail, after, kill
					_, err := w.do(request("k"))
					w.faults.dead, w.faults.fail = false, 0
					if _, again := w.do(request("k")); err == nil && again != nil {
						t.Error(again)
					}
					for range 5 {
						w.clock = w.clock.Add(time.Minute)
						if err := w.desk.Tick(t.Context(), 10); err != nil {
							t.Error(err)
						}
					}
					e, err := w.store.Execution(t.Context(), request("k").ID())
					if err != nil {
						t.Fatal(err)
					}
					if !e.State.Terminal() || !e.DueAt.IsZero() || sent > 1 || e.State == host.Succeeded && sent != 1 || e.State == host.Failed && sent != 0 {
						t.Errorf("sent %d times, and it is %s %s %s", sent, e.State, e.Phase, e.Code)
					}
				})
			}
		}
	}
}

// Of two adapters that are called with one execution, one performs it.
func TestTwoWhoRunOneExecution(t *testing.T) {
	w := open(t)
	e, err := w.desk.Accept(t.Context(), request("k"))
	if err != nil {
		t.Fatal(err)
	}
	sent := 0
	w.call = func(ctx context.Context, c capability.Call) (capability.Result, error) {
		if w.calls.Load() == 1 { // the first hangs; another begins before it has sent anything
			if err := w.runner.Run(ctx, e.ExecutionID); err != nil {
				t.Error(err)
			}
		}
		if err := c.Dispatch(ctx); err != nil {
			return capability.Result{}, err
		}
		sent++
		return good, nil
	}
	if err := w.runner.Run(t.Context(), e.ExecutionID); err != nil {
		t.Error(err)
	}
	now, err := w.store.Execution(t.Context(), e.ExecutionID)
	if err != nil || now.State != host.Succeeded || sent != 1 || w.calls.Load() != 2 || now.Fence != 2 {
		t.Errorf("%+v %v, sent %d times", now, err, sent)
	}
	// One that was sent is nobody else's.
	if err := w.runner.Run(t.Context(), e.ExecutionID); err != nil || sent != 1 {
		t.Error(err, sent)
	}
}

// One that is at work outside is begun by nobody else, however often its function is
// called: Lambda may call one twice, and two who ask may both find it accepted.
//
// covers: A9
func TestWhatIsSentIsNotBegunAnew(t *testing.T) {
	w := open(t)
	e, err := w.desk.Accept(t.Context(), request("k"))
	if err != nil {
		t.Fatal(err)
	}
	w.call = func(ctx context.Context, c capability.Call) (capability.Result, error) {
		if w.calls.Load() > 1 {
			return capability.Result{}, errors.New("it is called again")
		}
		if err := c.Dispatch(ctx); err != nil {
			return capability.Result{}, err
		}
		return good, w.runner.Run(ctx, e.ExecutionID)
	}
	if err := w.runner.Run(t.Context(), e.ExecutionID); err != nil {
		t.Error(err)
	}
	now, err := w.store.Execution(t.Context(), e.ExecutionID)
	if err != nil || now.State != host.Succeeded || w.calls.Load() != 1 || now.Fence != 1 {
		t.Errorf("%+v %v, called %d times", now, err, w.calls.Load())
	}
}

// covers: X2
func TestCancel(t *testing.T) {
	w := open(t)
	e, err := w.desk.Accept(t.Context(), request("k"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.desk.Cancel(t.Context(), "another", e.ExecutionID); code(err) != outcome.ExtensionNotFound {
		t.Error(err)
	}
	for range 2 {
		if e, err := w.desk.Cancel(t.Context(), actor, e.ExecutionID); err != nil || e.State != host.Cancelled {
			t.Error(e, err)
		}
	}
	if e, err := w.do(request("k")); err != nil || e.State != host.Cancelled || w.calls.Load() != 0 {
		t.Error(e, err)
	}
	// One that is at work and has sent nothing sends nothing any more.
	w.call = func(ctx context.Context, c capability.Call) (capability.Result, error) {
		if _, err := w.desk.Cancel(ctx, actor, c.ExecutionID); err != nil {
			t.Error(err)
		}
		if err := c.Dispatch(ctx); err == nil {
			t.Error("it was sent")
		} else {
			return capability.Result{}, err
		}
		return good, nil
	}
	if e, err := w.do(request("l")); err != nil || e.State != host.Cancelled {
		t.Error(e, err)
	}
	// One that has sent something ends as it ends.
	w.call = func(ctx context.Context, c capability.Call) (capability.Result, error) {
		if err := c.Dispatch(ctx); err != nil {
			return capability.Result{}, err
		}
		if e, err := w.desk.Cancel(ctx, actor, c.ExecutionID); err != nil || e.State != host.Running {
			t.Error(e, err)
		}
		return good, nil
	}
	if e, err := w.do(request("m")); err != nil || e.State != host.Succeeded || !e.Cancel {
		t.Error(e, err)
	}
}

func TestWhatIsAnothersIsNotThere(t *testing.T) {
	w := open(t)
	e, err := w.do(request("k"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.desk.Read(t.Context(), "another", e.ExecutionID); code(err) != outcome.ExtensionNotFound {
		t.Error(err)
	}
	if got, err := w.desk.Read(t.Context(), actor, e.ExecutionID); err != nil || got.State != host.Succeeded {
		t.Error(got, err)
	}
}
