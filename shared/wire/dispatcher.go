package wire

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strconv"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/metric"
	"github.com/pxhost/pxhost/shared/tool"
)

// A Call reaches one tool once and returns its envelope. It must not try again
// by itself: a repeated call would repeat the effect. An error that is a
// *Failure says what went wrong; any other one counts as retryable with an
// unknown outcome.
type Call func(ctx context.Context, request tool.Request) (envelope []byte, err error)

// A Config is what a Dispatcher is made of.
type Config struct {
	// Catalog is the answer to tools/list: a JSON array of the tools in catalog
	// order, each an object with a name.
	Catalog []byte
	Call    Call
	Log     *slog.Logger
	// RequestTime bounds one Serve; ToolTime one call in it. Zero means the
	// values of the design: 28 s and 25 s.
	RequestTime, ToolTime time.Duration
}

// requestTime is how long a request may take, of the 30 s that API Gateway has.
const requestTime = 28 * time.Second

// travel is what is left of RequestTime for an answer to get back after a
// tool's deadline.
const travel = time.Second

// A Dispatcher answers the lines of requests. It holds no state between them and
// may be used by many goroutines.
type Dispatcher struct {
	catalog []byte // the tools, an array on one line
	list    []byte // the result of tools/list
	names   map[string]bool
	call    Call
	log     *slog.Logger

	requestTime, toolTime time.Duration
}

// New makes a Dispatcher. It fails if the catalog is not what it must be.
func New(config Config) (*Dispatcher, error) {
	if err := canon.Check(config.Catalog); err != nil {
		return nil, fmt.Errorf("wire: catalog: %w", err)
	}
	var tools []struct {
		Name string `json:"name"`
	}
	if err := json.Unmarshal(config.Catalog, &tools); err != nil {
		return nil, fmt.Errorf("wire: catalog: %w", err)
	}
	names := map[string]bool{}
	for _, t := range tools {
		if t.Name == "" || names[t.Name] || legacyTools[t.Name] {
			return nil, fmt.Errorf("wire: catalog: the name %q is empty, repeated or a legacy one", t.Name)
		}
		names[t.Name] = true
	}
	catalog := jsontext.Value(bytes.Clone(config.Catalog))
	if err := catalog.Compact(); err != nil { // a line has no line end in it
		return nil, fmt.Errorf("wire: catalog: %w", err)
	}
	if config.Call == nil {
		return nil, errors.New("wire: no way to call a tool")
	}
	d := &Dispatcher{
		catalog:     catalog,
		list:        []byte(`{"tools":` + string(catalog) + `}`),
		names:       names,
		call:        config.Call,
		log:         config.Log,
		requestTime: config.RequestTime,
		toolTime:    config.ToolTime,
	}
	if d.log == nil {
		d.log = slog.New(slog.DiscardHandler)
	}
	if d.requestTime == 0 {
		d.requestTime = requestTime
	}
	if d.toolTime == 0 {
		d.toolTime = 25 * time.Second
	}
	return d, nil
}

// A Caller is on whose behalf a request is answered.
type Caller struct {
	Principal tool.Principal
	// RequestID names the request in logs; a line's call gets it with the
	// number of the line behind it.
	RequestID string
}

// The reasons for which a request is refused as a whole. No line of it is run.
var (
	ErrBodyTooLarge = fmt.Errorf("the request is longer than %d bytes", MaxBody)
	ErrTooManyLines = fmt.Errorf("the request has more than %d messages", MaxLines)
	ErrNoMessage    = errors.New("the request has no message")
)

// Serve answers one request: the reply has one line for each message that is no
// notification, in their order. With one of the errors above the reply is a
// single error line, and the transport can say more.
//
// It returns when every line is answered, when the request's time is over, or
// when ctx ends; a line whose call had not answered by then becomes -32603 with
// an unknown outcome.
func (d *Dispatcher) Serve(ctx context.Context, caller Caller, body []byte) ([]byte, error) {
	if len(body) > MaxBody {
		return refuseRequest(ErrBodyTooLarge)
	}
	lines, err := split(body)
	if err != nil {
		return refuseRequest(err)
	}
	return d.serve(ctx, caller, lines), nil
}

// ServeOne answers a request whose body is one message, which may stand on
// several lines. A message beside it is trailing data.
func (d *Dispatcher) ServeOne(ctx context.Context, caller Caller, body []byte) ([]byte, error) {
	switch {
	case len(body) > MaxBody:
		return refuseRequest(ErrBodyTooLarge)
	case blank(body):
		return refuseRequest(ErrNoMessage)
	}
	return d.serve(ctx, caller, [][]byte{body}), nil
}

// serve answers the lines of a request, each one message.
func (d *Dispatcher) serve(ctx context.Context, caller Caller, lines [][]byte) []byte {
	ctx, cancel := context.WithTimeout(ctx, d.requestTime)
	defer cancel()

	type slot struct {
		message message
		call    call
		number  int // of the message in the request, from 1
		reply   []byte
	}
	var slots []*slot
	for i, line := range lines {
		m, f := readMessage(line)
		if f == nil && m.id == nil {
			continue // a notification
		}
		s := &slot{message: m, number: i + 1}
		if f != nil {
			s.reply = faultLine(m.id, f)
		}
		slots = append(slots, s)
	}
	bytesPerLine := share(len(slots))

	var calls []*slot
	for _, s := range slots {
		if s.reply != nil {
			continue
		}
		switch s.message.method {
		case "tools/list":
			s.reply = d.listLine(s.message, bytesPerLine)
		case "tools/call":
			var f *fault
			if s.call, f = d.readCall(s.message.params); f != nil {
				s.reply = faultLine(s.message.id, f)
			} else {
				calls = append(calls, s)
			}
		default:
			s.reply = faultLine(s.message.id, refuse(codeNoMethod, "the methods are tools/list and tools/call"))
		}
	}

	var wait sync.WaitGroup
	queue := make(chan *slot)
	for range min(SideBySide, len(calls)) {
		wait.Go(func() {
			for s := range queue {
				requestID := caller.RequestID + "." + strconv.Itoa(s.number)
				s.reply = d.answer(ctx, caller.Principal, requestID, s.message.id, s.call, bytesPerLine)
			}
		})
	}
	for _, s := range calls {
		queue <- s // a worker is never late: it leaves a call when ctx ends
	}
	close(queue)
	wait.Wait()

	size := 0
	for _, s := range slots {
		size += len(s.reply)
	}
	reply := make([]byte, 0, size)
	for _, s := range slots {
		reply = append(reply, s.reply...)
	}
	return reply
}

func refuseRequest(err error) ([]byte, error) {
	return faultLine(nil, refuse(codeInvalidRequest, err.Error())), err
}

// split returns the lines that are not blank. It stops at the first one over
// the limit, so that a body of line ends costs nothing.
func split(body []byte) ([][]byte, error) {
	var lines [][]byte
	for len(body) > 0 {
		line, rest, _ := bytes.Cut(body, []byte{'\n'})
		body = rest
		if blank(line) {
			continue
		}
		if len(lines) == MaxLines {
			return nil, ErrTooManyLines
		}
		lines = append(lines, line)
	}
	if len(lines) == 0 {
		return nil, ErrNoMessage
	}
	return lines, nil
}

// ErrNotStrict is of a message that is not strict JSON (W6).
var ErrNotStrict = errors.New("a message is not strict JSON")

// Check holds the messages of a body to the bounds and the strictness of the wire, and
// looks at nothing that they say: what another endpoint of this form must not be laxer
// about (L3).
func Check(body []byte, lines bool) error {
	if len(body) > MaxBody {
		return ErrBodyTooLarge
	}
	all := [][]byte{body}
	if lines {
		var err error
		if all, err = split(body); err != nil {
			return err
		}
	} else if blank(body) {
		return ErrNoMessage
	}
	for _, line := range all {
		if len(line) > MaxLine || canon.CheckGrammar(line) != nil {
			return ErrNotStrict
		}
	}
	return nil
}

func blank(line []byte) bool {
	for _, c := range line {
		if c != ' ' && c != '\t' && c != '\r' && c != '\n' {
			return false
		}
	}
	return true
}

func (d *Dispatcher) listLine(m message, bytesPerLine int) []byte {
	if f := readList(m.params); f != nil {
		return faultLine(m.id, f)
	}
	line := resultLine(m.id, d.list)
	if EscapedLen(line) > bytesPerLine {
		return faultLine(m.id, (&Failure{Reason: ReasonAnswerTooBig, Outcome: Done}).fault())
	}
	return line
}

// has reports whether there is such a tool, current or legacy.
func (d *Dispatcher) has(name string) bool { return d.names[name] || legacyTools[name] }

// readCall reads the params of tools/call and makes sure that there is such a tool.
func (d *Dispatcher) readCall(params jsontext.Value) (call, *fault) {
	c, f := readParams(params)
	if f == nil && !d.has(c.name) {
		f = refuse(codeInvalidParams, string(ErrNoTool))
	}
	return c, f
}

// answer runs one call and returns its reply line.
func (d *Dispatcher) answer(ctx context.Context, principal tool.Principal, requestID string, id jsontext.Value, c call, bytesPerLine int) []byte {
	envelope, failure := d.envelope(ctx, principal, requestID, c, bytesPerLine-EscapedLen(envelopeLine(id, nil)))
	if failure != nil {
		return faultLine(id, failure.fault())
	}
	return envelopeLine(id, envelope)
}

// envelope runs one call and returns its envelope, which takes at most share bytes,
// serialized and escaped.
func (d *Dispatcher) envelope(ctx context.Context, principal tool.Principal, requestID string, c call, share int) (jsontext.Value, *Failure) {
	if legacyTools[c.name] {
		return d.legacy(ctx, principal, requestID, c)
	}
	log := d.log.With("callId", requestID, "tool", c.name)
	start := time.Now()
	envelope, failure := d.reach(ctx, log, tool.Request{
		Version:   tool.RequestVersion,
		RequestID: requestID,
		Tool:      c.name,
		Principal: principal,
		Arguments: c.arguments,
		Assistant: c.assistant,
		ByteShare: share,
	})
	if failure == nil && EscapedLen(envelope) > share {
		failure = &Failure{Reason: ReasonAnswerTooBig, Outcome: Done}
	}
	ms := time.Since(start).Milliseconds()
	if failure != nil {
		log.WarnContext(ctx, "call failed", "ms", ms, "reason", failure.Reason, "retryable", failure.Retryable, "outcome", failure.Outcome, "cause", failure.Cause)
		return nil, failure
	}
	log.InfoContext(ctx, "call answered", "ms", ms, "bytes", len(envelope))
	return envelope, nil
}

// reach calls the tool, and stops waiting when ctx ends even if the call does
// not.
func (d *Dispatcher) reach(ctx context.Context, log *slog.Logger, request tool.Request) (jsontext.Value, *Failure) {
	now := time.Now()
	request.Deadline = now.Add(d.toolTime)
	if end, ok := ctx.Deadline(); ok && end.Add(-travel).Before(request.Deadline) {
		request.Deadline = end.Add(-travel)
	}
	if ctx.Err() != nil || !request.Deadline.After(now) {
		return nil, &Failure{Reason: ReasonNotStarted, Retryable: true, Outcome: Not}
	}
	type result struct {
		envelope []byte
		err      error
	}
	results := make(chan result, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				log.ErrorContext(ctx, "the call panicked", "stack", string(debug.Stack()))
				results <- result{err: &Failure{Reason: ReasonEndpoint, Retryable: true, Outcome: Unknown}}
			}
		}()
		envelope, err := d.call(ctx, request)
		results <- result{envelope, err}
	}()
	var got result
	select {
	case got = <-results:
	case <-ctx.Done():
		select {
		case got = <-results: // it answered at the last moment
		default:
			return nil, &Failure{Reason: ReasonTimeout, Retryable: true, Outcome: Unknown, Cause: context.Cause(ctx)}
		}
	}
	if got.err != nil {
		return nil, asFailure(got.err)
	}
	envelope, err := checkEnvelope(got.envelope)
	if err != nil {
		// The tool ran to its end; what it did stands.
		return nil, &Failure{Reason: ReasonAnswerInvalid, Outcome: Unknown, Cause: err}
	}
	return envelope, nil
}

// legacy answers a call of a legacy tool, and counts it (L2). The log line with the
// diagnosticId is what an operator finds the client by.
func (d *Dispatcher) legacy(ctx context.Context, principal tool.Principal, requestID string, c call) (jsontext.Value, *Failure) {
	diagnosticID := "diag_" + rand.Text()
	envelope, err := legacyEnvelope(c.name, diagnosticID)
	if err != nil {
		return nil, &Failure{Reason: ReasonEndpoint, Outcome: Not}
	}
	d.log.WarnContext(ctx, "legacy request refused", "callId", requestID, "kind", "tool", "entry", c.name,
		"diagnosticId", diagnosticID, "principal", principal.String())
	metric.Count(ctx, d.log, metric.LegacyRefusals, metric.Entry, c.name)
	return envelope, nil
}
