package tool_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pxhost/pxhost/shared/budget"
	"github.com/pxhost/pxhost/shared/cursor"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/target"
	"github.com/pxhost/pxhost/shared/tool"
)

// The example: a tool that lists the beams of a Flow, one revision of which has
// as many beams as the test says.

type beamsInput struct {
	tool.Common
	Target target.Flow `json:"target"`
	Limit  int64       `json:"limit,omitzero" schema:"minimum=1,maximum=5000" desc:"How many beams."`
}

type beam struct {
	Key   string `json:"key"`
	Depth int64  `json:"depth"`
}

type beamsOutput struct {
	FlowKey string `json:"flowKey"`
	Beams   []beam `json:"beams"`
}

var beams = tool.Define[beamsInput, beamsOutput](tool.Spec{
	Name:        "beams_list",
	Description: "Lists the beams of one exact Flow revision.",
	Annotations: tool.Reads,
	Places:      []budget.Place{{Path: "/beams", Counts: budget.AsItems}},
})

// flows is what the tool depends on: declared by the tool, as small as it is.
type flows interface {
	Beams(ctx context.Context, t target.Flow) (int64, error)
}

func newBeams(f tool.Frame, flows flows) tool.Handler {
	return beams.Handler(f, func(ctx context.Context, call tool.Call[beamsInput]) (tool.Answer[beamsOutput], error) {
		n, err := flows.Beams(ctx, call.Input.Target)
		if errors.Is(err, history.ErrNotFound) {
			var found outcome.Findings
			found.Add(outcome.TargetNotFound, "/target/flowKey", outcome.Params{"flowKey": call.Input.Target.FlowKey})
			answer := tool.Refuse[beamsOutput](found)
			answer.Cause = err
			return answer, nil
		}
		if err != nil {
			return tool.Answer[beamsOutput]{}, err
		}
		data := beamsOutput{FlowKey: call.Input.Target.FlowKey}
		for i := range n {
			data.Beams = append(data.Beams, beam{fmt.Sprintf("b%04d", i), 10 * i})
		}
		return tool.Answer[beamsOutput]{Data: data, Pin: call.Input.Target.RevisionRef}, nil
	})
}

type stub func(ctx context.Context, t target.Flow) (int64, error)

func (s stub) Beams(ctx context.Context, t target.Flow) (int64, error) { return s(ctx, t) }

func has(n int64) stub {
	return func(context.Context, target.Flow) (int64, error) { return n, nil }
}

const exact = `"target":{"scope":{"kind":"project","workspaceKey":"structural_team","projectKey":"bridge_package"},"flowKey":"girder_check","revisionRef":"sha256:x"}`

var engineer = tool.Principal{Issuer: "https://issuer", Subject: "engineer"}

func request(arguments string) tool.Request {
	return tool.Request{Version: tool.RequestVersion, RequestID: "r1", Tool: "beams_list", Principal: engineer, Arguments: []byte(arguments)}
}

type bench struct {
	frame tool.Frame
	log   *bytes.Buffer
}

func newBench() bench {
	var log bytes.Buffer
	box := cursor.New(cursor.NewStatic(), time.Hour, func() time.Time { return time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC) })
	return bench{tool.Frame{Cursors: box, Log: slog.New(slog.NewJSONHandler(&log, nil))}, &log}
}

type envelope struct {
	OK          bool                 `json:"ok"`
	Data        json.RawMessage      `json:"data"`
	Diagnostics []outcome.Diagnostic `json:"diagnostics"`
	Resources   []outcome.Resource   `json:"resources"`
}

func call(t *testing.T, h tool.Handler, r tool.Request) (envelope, []byte) {
	t.Helper()
	text, err := h(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	var e envelope
	if err := json.Unmarshal(text, &e); err != nil {
		t.Fatal(err)
	}
	return e, text
}

// covers: E1
func TestAnAnswerHasExactlyTheMembersOfTheEnvelope(t *testing.T) {
	b := newBench()
	_, text := call(t, newBeams(b.frame, has(1)), request(`{`+exact+`}`))
	want := `{"ok":true,"data":{"flowKey":"girder_check","beams":[{"key":"b0000","depth":0}]},"diagnostics":[],"resources":[]}`
	if string(text) != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
	e, text := call(t, newBeams(b.frame, has(1)), request(`{}`))
	if e.OK || string(e.Data) != "null" || len(e.Diagnostics) != 1 || !strings.HasSuffix(string(text), `"resources":[]}`) {
		t.Errorf("got %s", text)
	}
}

// covers: E2, E3
func TestEveryDiagnosticHasItsOwnIDAndLogLine(t *testing.T) {
	b := newBench()
	e, text := call(t, newBeams(b.frame, has(1)), request(`{"flowId":"secret-flow","nope":"secret-nope"}`))
	codes := map[string]bool{}
	for _, d := range e.Diagnostics {
		codes[string(d.Code)+" "+d.Path] = true
		if len(d.DiagnosticID) != 26 || strings.Count(b.log.String(), d.DiagnosticID) != 1 {
			t.Errorf("ID %q is not in one line of\n%s", d.DiagnosticID, b.log)
		}
		if d.Severity == "" || d.SuggestedAction == "" || d.Params == nil {
			t.Errorf("incomplete: %+v", d)
		}
	}
	for _, want := range []string{"PX_SCHEMA_UNKNOWN_FIELD /flowId", "PX_SCHEMA_UNKNOWN_FIELD /nope", "PX_SCHEMA_INVALID /target"} {
		if !codes[want] {
			t.Errorf("no %s in %s", want, text)
		}
	}
	for _, secret := range []string{"secret-flow", "secret-nope", "engineer"} {
		if strings.Contains(b.log.String(), secret) || strings.Contains(string(text), secret) {
			t.Errorf("%s is told", secret)
		}
	}
	for _, member := range []string{`"tool":"beams_list"`, `"requestId":"r1"`, `"code":"PX_SCHEMA_UNKNOWN_FIELD"`, `"path":"/flowId"`, `"legacy":"flowId"`, `"principal":"`} {
		if !strings.Contains(b.log.String(), member) {
			t.Errorf("no %s in the log", member)
		}
	}
}

type portInput struct {
	tool.Common
	PortKey string `json:"portKey" schema:"pattern=key"`
}

// covers: L2, E3
func TestEachLegacyEntryOfARequestIsCountedOnceAndNothingIsTold(t *testing.T) {
	counts := func(arguments string) []string {
		b := newBench()
		call(t, newBeams(b.frame, has(1)), request(arguments))
		var entries []string
		for _, line := range strings.Split(b.log.String(), "\n") {
			if !strings.Contains(line, `"CloudWatchMetrics"`) {
				continue
			}
			var in struct {
				Entry          string `json:"entry"`
				LegacyRefusals int
			}
			if err := json.Unmarshal([]byte(line), &in); err != nil || in.LegacyRefusals != 1 {
				t.Errorf("%v %s", err, line)
			}
			if strings.Contains(line, "secret") || strings.Contains(line, "engineer") {
				t.Errorf("told: %s", line)
			}
			entries = append(entries, in.Entry)
		}
		return entries
	}
	for _, field := range []string{"projectId", "flowId", "nodeId", "projectRoot", "flowPath"} {
		if got := counts(`{` + exact + `,"` + field + `":"secret"}`); !slices.Equal(got, []string{field}) {
			t.Errorf("%s is counted as %q", field, got)
		}
	}
	// The one legacy payload.
	b := newBench()
	ported := tool.Define[portInput, beamsOutput](tool.Spec{Name: "beams_list", Description: "Reads a port."}).Handler(b.frame, func(context.Context, tool.Call[portInput]) (tool.Answer[beamsOutput], error) {
		return tool.Answer[beamsOutput]{}, errors.New("was called")
	})
	call(t, ported, request(`{"portKey":"secret.check.utilization"}`))
	if strings.Count(b.log.String(), `"CloudWatchMetrics"`) != 1 || !strings.Contains(b.log.String(), `"entry":"raw-dotted-result-path","LegacyRefusals":1}`) || strings.Contains(b.log.String(), "secret") {
		t.Errorf("a dotted path is counted as %s", b.log)
	}
	// At several depths, and where the answer has no room to tell of it.
	if got := counts(`{` + exact + `,"flowId":"secret","budget":{"flowId":"secret","items":1},"nodeId":1}`); !slices.Contains(got, "flowId") || len(got) != 2 {
		t.Errorf("counted %q", got)
	}
	if got := counts(`{` + exact + `}`); got != nil {
		t.Errorf("nothing legacy is counted as %q", got)
	}
	if got := counts(`{"nope":"flowId"}`); got != nil {
		t.Errorf("an unknown field is counted as %q", got)
	}
}

// covers: E3
func TestTheCauseIsLoggedAndNotSent(t *testing.T) {
	b := newBench()
	h := newBeams(b.frame, stub(func(context.Context, target.Flow) (int64, error) {
		return 0, fmt.Errorf("shelf 7: %w", history.ErrNotFound)
	}))
	e, text := call(t, h, request(`{`+exact+`}`))
	if e.Diagnostics[0].Code != outcome.TargetNotFound || strings.Contains(string(text), "shelf") || !strings.Contains(b.log.String(), "shelf 7") {
		t.Errorf("answer %s\nlog %s", text, b.log)
	}
}

// covers: W5
func TestErrorsAndPanicsBecomeFailuresWithAType(t *testing.T) {
	for name, c := range map[string]struct {
		does stub
		want string
	}{
		"an unknown outcome": {func(context.Context, target.Flow) (int64, error) {
			return 0, fmt.Errorf("apply: %w", history.ErrOutcomeUnknown)
		}, tool.RetryableErrorType},
		"a deadline": {func(ctx context.Context, _ target.Flow) (int64, error) { <-ctx.Done(); return 0, ctx.Err() }, tool.RetryableErrorType},
		"an error that says so": {func(context.Context, target.Flow) (int64, error) {
			return 0, fmt.Errorf("table: %w", says(true))
		}, tool.RetryableErrorType},
		"an error that says it will happen again": {func(context.Context, target.Flow) (int64, error) {
			return 0, fmt.Errorf("table: %w", says(false))
		}, tool.FatalErrorType},
		"an error made fatal": {func(context.Context, target.Flow) (int64, error) {
			return 0, fmt.Errorf("x: %w", tool.Fatal(errors.New("y")))
		}, tool.FatalErrorType},
		"an error made retryable": {func(context.Context, target.Flow) (int64, error) {
			return 0, fmt.Errorf("x: %w", tool.Retryable(errors.New("y")))
		}, tool.RetryableErrorType},
		"any other error": {func(context.Context, target.Flow) (int64, error) { return 0, errors.New("secret-cause") }, tool.RetryableErrorType},
		"a panic":         {func(context.Context, target.Flow) (int64, error) { panic("secret-panic") }, tool.FatalErrorType},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench()
			r := request(`{` + exact + `}`)
			r.Deadline = time.Now().Add(20 * time.Millisecond)
			text, err := newBeams(b.frame, c.does)(context.Background(), r)
			var failure *tool.Failure
			if !errors.As(err, &failure) || failure.Type != c.want || text != nil {
				t.Fatalf("got %s, %v", text, err)
			}
			if strings.Contains(failure.Error(), "secret") {
				t.Errorf("the cause is sent: %v", failure)
			}
			if b.log.Len() == 0 {
				t.Error("nothing is logged")
			}
			if strings.Contains(b.log.String(), "secret-panic") {
				t.Errorf("what a panic says is logged: %s", b.log)
			}
		})
	}
	for name, change := range map[string]func(*tool.Request){
		"another version": func(r *tool.Request) { r.Version++ },
		"another tool":    func(r *tool.Request) { r.Tool = "beams_drop" },
	} {
		r := request(`{` + exact + `}`)
		change(&r)
		var failure *tool.Failure
		if _, err := newBeams(newBench().frame, has(1))(context.Background(), r); !errors.As(err, &failure) || failure.Type != tool.FatalErrorType {
			t.Errorf("%s: %v", name, err)
		}
	}
}

type says bool

func (says) Error() string     { return "as it says" }
func (s says) Retryable() bool { return bool(s) }

type truncation struct {
	Truncated    bool   `json:"truncated"`
	Budget       string `json:"budget"`
	Limit        int    `json:"limit"`
	Observed     int    `json:"observed"`
	Continuation struct {
		Member, Value string
	} `json:"continuation"`
}

type beamsPart struct {
	FlowKey    string      `json:"flowKey"`
	Beams      []beam      `json:"beams"`
	Truncation *truncation `json:"truncation"`
}

// covers: B1, B2, S2
func TestACutAnswerIsContinuedByItsCursorAlone(t *testing.T) {
	b := newBench()
	read := func(e envelope) beamsPart {
		var p beamsPart
		if err := json.Unmarshal(e.Data, &p); err != nil || !e.OK {
			t.Fatalf("%s, %v, %+v", e.Data, err, e.Diagnostics)
		}
		return p
	}
	e, _ := call(t, newBeams(b.frame, has(500)), request(`{`+exact+`}`))
	if p := read(e); len(p.Beams) != 500 || p.Truncation != nil {
		t.Fatalf("500 items are cut: %+v", p.Truncation)
	}
	h := newBeams(b.frame, has(501))
	e, _ = call(t, h, request(`{`+exact+`}`))
	first := read(e)
	if len(first.Beams) != 500 || first.Truncation == nil || first.Truncation.Budget != "items" || first.Truncation.Limit != 500 || first.Truncation.Observed != 501 || first.Truncation.Continuation.Member != "cursor" {
		t.Fatalf("501 items: %d, %+v", len(first.Beams), first.Truncation)
	}
	next := `"cursor":"` + first.Truncation.Continuation.Value + `"`
	e, _ = call(t, h, request(`{`+exact+`,`+next+`,"budget":{"items":5}}`))
	if p := read(e); len(p.Beams) != 1 || p.Beams[0].Key != "b0500" || p.FlowKey != "girder_check" || p.Truncation != nil {
		t.Fatalf("the rest is %s", e.Data)
	}

	refused := func(name string, h tool.Handler, r tool.Request) {
		t.Helper()
		e, text := call(t, h, r)
		if e.OK || e.Diagnostics[0].Code != outcome.CursorInvalid || e.Diagnostics[0].Path != "/cursor" {
			t.Errorf("%s: %s", name, text)
		}
	}
	refused("other arguments", h, request(`{`+exact+`,"limit":3,`+next+`}`))
	other := request(`{` + exact + `,` + next + `}`)
	other.Principal.Subject = "reviewer"
	refused("another principal", h, other)
	refused("a document that is not the same", newBeams(b.frame, has(502)), request(`{`+exact+`,`+next+`}`))
	refused("no cursor at all", h, request(`{`+exact+`,"cursor":"AAAA"}`))
}

// A link is sealed anew each time it is made: it stands in every part, whether there is
// one or several, and the parts join all the same.
//
// covers: D2, B2
func TestALinkBesideAnAnswerStandsInEveryPart(t *testing.T) {
	b := newBench()
	made, broken := 0, error(nil)
	h := beams.Handler(b.frame, func(_ context.Context, call tool.Call[beamsInput]) (tool.Answer[beamsOutput], error) {
		data := beamsOutput{FlowKey: "girder_check"}
		for i := range 7 {
			data.Beams = append(data.Beams, beam{fmt.Sprint("b", i), 1})
		}
		link := func(kind string) outcome.Resource {
			made++
			return outcome.Resource{URI: fmt.Sprintf("/v1/resources/%s%0*d", kind, made%3, made), MediaType: "text/x-python", Bytes: 9, ExpiresAt: "2026-11-30T00:00:00Z"}
		}
		return tool.Answer[beamsOutput]{Data: data, Pin: "p",
			Beside: func(context.Context) ([]outcome.Resource, error) { return []outcome.Resource{link("source")}, broken },
			Whole:  func(context.Context) (outcome.Resource, error) { return link("whole"), nil }}, nil
	})
	e, _ := call(t, h, request(`{`+exact+`}`))
	if len(e.Resources) != 1 || !strings.Contains(e.Resources[0].URI, "source") {
		t.Fatalf("the whole answer has %+v", e.Resources)
	}
	var got []string
	for next := ""; ; {
		e, text := call(t, h, request(`{`+exact+next+`,"budget":{"items":3}}`))
		var p beamsPart
		if err := json.Unmarshal(e.Data, &p); err != nil || !e.OK || len(e.Resources) != 2 || !strings.Contains(e.Resources[0].URI, "source") || !strings.Contains(e.Resources[1].URI, "whole") {
			t.Fatalf("%s", text)
		}
		for _, b := range p.Beams {
			got = append(got, b.Key)
		}
		if p.Truncation == nil {
			break
		}
		next = `,"cursor":"` + p.Truncation.Continuation.Value + `"`
	}
	if want := []string{"b0", "b1", "b2", "b3", "b4", "b5", "b6"}; !slices.Equal(got, want) {
		t.Errorf("the parts hold %q", got)
	}
	broken = errors.New("no store")
	if _, err := h(t.Context(), request(`{`+exact+`}`)); !errors.Is(err, broken) {
		t.Errorf("a link that cannot be made: %v", err)
	}
}

// covers: B3
func TestACallerMayAskForLessAndNeverForMore(t *testing.T) {
	b := newBench()
	h := newBeams(b.frame, has(10))
	e, _ := call(t, h, request(`{`+exact+`,"budget":{"items":3}}`))
	var p beamsPart
	if err := json.Unmarshal(e.Data, &p); err != nil || len(p.Beams) != 3 || p.Truncation == nil || p.Truncation.Limit != 3 {
		t.Errorf("got %s", e.Data)
	}
	for name, limit := range map[string]int{"tokens": 200_000, "bytes": 2_097_152, "items": 500, "tableRows": 1_000, "depth": 8} {
		if e, text := call(t, h, request(fmt.Sprintf(`{%s,"budget":{"%s":%d}}`, exact, name, limit))); !e.OK {
			t.Errorf("the fixed limit of %s: %s", name, text)
		}
		for _, bad := range []int{limit + 1, 0, -1} {
			e, text := call(t, h, request(fmt.Sprintf(`{%s,"budget":{"%s":%d}}`, exact, name, bad)))
			if e.OK || e.Diagnostics[0].Code != outcome.SchemaInvalid || e.Diagnostics[0].Path != "/budget/"+name {
				t.Errorf("%s %d: %s", name, bad, text)
			}
		}
	}
	e, text := call(t, h, request(`{`+exact+`,"budget":{"bytes":40}}`))
	if e.OK || e.Diagnostics[0].Code != outcome.LimitExceeded || e.Diagnostics[0].SuggestedAction != outcome.RaiseBudget {
		t.Errorf("an answer that cannot be so small: %s", text)
	}
	refusing := beams.Handler(b.frame, func(context.Context, tool.Call[beamsInput]) (tool.Answer[beamsOutput], error) {
		var found outcome.Findings
		for range 9 {
			found.Add(outcome.UnitMismatch, "/x", nil)
		}
		return tool.Refuse[beamsOutput](found), nil
	})
	e, text = call(t, refusing, request(`{`+exact+`,"budget":{"items":3}}`))
	if last := e.Diagnostics[len(e.Diagnostics)-1]; e.OK || len(e.Diagnostics) > 3 || last.Code != outcome.LimitExceeded || last.SuggestedAction != outcome.RaiseBudget {
		t.Errorf("more findings than were asked for: %s", text)
	}
}

// What no budget of the caller's can mend is told as that: the line's share of a reply
// is smaller, or a piece of the answer larger than any answer.
//
// covers: B3, E2
func TestALimitThatIsNotTheCallersIsNotToBeRaised(t *testing.T) {
	b := newBench()
	small, large := request(`{`+exact+`}`), request(`{`+exact+`,"budget":{"bytes":1000}}`)
	small.ByteShare = 40
	huge := func(context.Context, tool.Call[beamsInput]) (tool.Answer[beamsOutput], error) {
		return tool.Answer[beamsOutput]{Pin: "root", Data: beamsOutput{FlowKey: strings.Repeat("x", 3<<20)}}, nil
	}
	for name, c := range map[string]struct {
		h tool.Handler
		r tool.Request
	}{"a small share": {newBeams(b.frame, has(10)), small}, "a huge piece": {beams.Handler(b.frame, huge), request(`{` + exact + `}`)}, "a huge piece, asked to be small": {beams.Handler(b.frame, huge), large}} {
		e, text := call(t, c.h, c.r)
		if e.OK || len(e.Diagnostics) != 1 || e.Diagnostics[0].Code != outcome.LimitExceeded || e.Diagnostics[0].SuggestedAction != "REDUCE_REQUEST" {
			t.Errorf("%s: %s", name, text)
		}
	}
}

// An empty cursor leads nowhere: whoever sends it believes to go on.
//
// covers: S2, W6
func TestAnEmptyCursorIsNotNone(t *testing.T) {
	b := newBench()
	e, text := call(t, newBeams(b.frame, has(10)), request(`{`+exact+`,"cursor":""}`))
	if e.OK || len(e.Diagnostics) != 1 || e.Diagnostics[0].Code != outcome.SchemaInvalid || e.Diagnostics[0].Path != "/cursor" {
		t.Errorf("%s", text)
	}
}

// covers: B3, E2
func TestTheByteShareBoundsSuccessAndFailure(t *testing.T) {
	b := newBench()
	fits := func(name string, text []byte, share int) {
		t.Helper()
		quoted, err := json.Marshal(string(text))
		if err != nil || len(quoted)-2 > share {
			t.Errorf("%s takes %d of %d", name, len(quoted)-2, share)
		}
	}
	r := request(`{` + exact + `}`)
	r.ByteShare = 6000
	e, text := call(t, newBeams(b.frame, has(400)), r)
	fits("success", text, r.ByteShare)
	var p beamsPart
	if err := json.Unmarshal(e.Data, &p); err != nil || p.Truncation == nil || p.Truncation.Budget != "bytes" || p.Truncation.Limit != 6000 || len(p.Beams) < 50 {
		t.Errorf("got %s", e.Data)
	}
	r = request(`{` + unknown(300) + `}`)
	r.ByteShare = 6000
	e, text = call(t, newBeams(b.frame, has(1)), r)
	fits("failure", text, r.ByteShare)
	last := e.Diagnostics[len(e.Diagnostics)-1]
	if e.OK || last.Code != outcome.LimitExceeded || last.Params["observed"] != 301.0 {
		t.Errorf("the last diagnostic is %+v", last)
	}
}

func unknown(n int) string {
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf(`"x%d":1`, i))
	}
	return strings.Join(names, ",")
}

func BenchmarkFrame(b *testing.B) {
	bench := newBench()
	bench.frame.Log = slog.New(slog.DiscardHandler)
	h := newBeams(bench.frame, has(100))
	r := request(`{` + exact + `}`)
	b.Run("a call that answers 100 items", func(b *testing.B) {
		for b.Loop() {
			if _, err := h(context.Background(), r); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("encoding json in and out, for reference", func(b *testing.B) {
		list := make([]beam, 100)
		for b.Loop() {
			var in beamsInput
			if err := json.Unmarshal(r.Arguments, &in); err != nil {
				b.Fatal(err)
			}
			if _, err := json.Marshal(beamsOutput{"girder_check", list}); err != nil {
				b.Fatal(err)
			}
		}
	})
}
