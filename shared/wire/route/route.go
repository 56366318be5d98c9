// Package route is what stands around the routes of an HTTP door: it takes API Gateway
// events, verifies the token for the scopes of the route, makes one object of what a
// path, a query and a body say, and answers envelopes like those of the tools, each
// with the status that HTTP has for it.
//
// There is no CORS header: no page of another origin can read an answer, and none
// can send the Authorization header that every route wants.
//
// It knows no route.
package route

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/pxhost/pxhost/shared/budget"
	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/identity"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/tool"
	"github.com/pxhost/pxhost/shared/wire/event"
)

// MaxBody is the largest body of a route that says nothing else, in bytes.
const MaxBody = 64 << 10

// maxAnswer is the most bytes of an answer, as escaped in the event's answer: a
// longer one is cut, as a tool's is, and goes on with ?cursor=. Lambda takes 6 MB.
const maxAnswer = 5 << 20

// A Verifier checks an Authorization header; *identity.Verifier does.
type Verifier interface {
	Verify(ctx context.Context, authorization, scope string) (identity.Token, error)
}

// A Route is one operation. The variables of its path, and what a body or a query say
// together, are the arguments of its handler, which decodes them as a tool does.
type Route struct {
	Key string // as "GET /v1/plans/{planRef}"
	// Scopes are those of which a token must hold one.
	Scopes  []string
	MaxBody int // bytes; 0 is MaxBody
	// Places are where an answer may be cut.
	Places []budget.Place
	// Free are members that may differ when a cursor is used.
	Free []string
	// Before may answer a request whose token was accepted, before its arguments are
	// looked at; nil is that it does not.
	Before func(ctx context.Context, in *event.Request, who tool.Principal) (*event.Response, error)
	// Finish makes something of a success other than 200; nil is 200.
	Finish func(in *event.Request, told Told, answer *event.Response)
}

// Told is the envelope of a success, of which members of the data are read one by one:
// most answers are large, and what a status is made of stands at their beginning.
type Told []byte

// began is how the envelope of a success begins.
var began = []byte(`{"ok":true,"data":`)

// Member reads a member of the data, and reports whether it is there.
func (t Told) Member(name string, into any) bool {
	d := jsontext.NewDecoder(bytes.NewBuffer(t[len(began):]), jsontext.AllowDuplicateNames(true))
	if token, err := d.ReadToken(); err != nil || token.Kind() != '{' {
		return false
	}
	for d.PeekKind() == '"' {
		token, err := d.ReadToken()
		if err != nil {
			return false
		}
		if token.String() != name {
			if d.SkipValue() != nil {
				return false
			}
			continue
		}
		value, err := d.ReadValue()
		return err == nil && json.Unmarshal(value, into) == nil
	}
	return false
}

// A Door answers events. It has the method of a Lambda handler.
type Door struct {
	verifier Verifier
	frame    tool.Frame
	status   func(outcome.Code) int
	routes   map[string]served
	others   map[string]func(context.Context, *event.Request) event.Response
}

// served is a route with what serves it.
type served struct {
	Route
	variables []string
	handle    tool.Handler
}

// New returns a Door without routes. status is how HTTP says the first diagnostic of a
// refusal; the envelope says all of them exactly.
func New(verifier Verifier, frame tool.Frame, status func(outcome.Code) int) *Door {
	return &Door{verifier, frame, status, map[string]served{}, map[string]func(context.Context, *event.Request) event.Response{}}
}

// Handle adds a route that is all its own: nothing of what stands around a route stands
// around it, the token included.
func (d *Door) Handle(key string, answer func(context.Context, *event.Request) event.Response) {
	d.others[key] = answer
}

// Add adds a route. What a tool has around it (strict decoding, budgets, cursors,
// diagnosticIds, log lines) stands around a route too; its name there is the route
// key.
func Add[In tool.Input, Out any](d *Door, r Route, handle func(context.Context, tool.Call[In]) (tool.Answer[Out], error)) {
	var variables []string
	for _, part := range strings.Split(r.Key, "/") {
		if strings.HasPrefix(part, "{") {
			variables = append(variables, strings.Trim(part, "{}"))
		}
	}
	if r.MaxBody == 0 {
		r.MaxBody = MaxBody
	}
	def := tool.Define[In, Out](tool.Spec{Name: r.Key, Description: "A route of people and hosts.", Places: r.Places, Free: r.Free})
	d.routes[r.Key] = served{r, variables, def.Handler(d.frame, handle)}
}

// Routes are the route keys that are served, in order.
func (d *Door) Routes() []string {
	all := slices.AppendSeq(slices.Collect(maps.Keys(d.routes)), maps.Keys(d.others))
	slices.Sort(all)
	return all
}

// Invoke answers one event.
func (d *Door) Invoke(ctx context.Context, payload []byte) ([]byte, error) {
	return event.Serve(ctx, payload, d.answer)
}

func (d *Door) answer(ctx context.Context, in *event.Request) event.Response {
	if answer, ok := d.others[in.RouteKey]; ok {
		return answer(ctx, in)
	}
	to, ok := d.routes[in.RouteKey]
	if !ok {
		return event.Problem(http.StatusNotFound, "no_such_route")
	}
	token, err := d.verify(ctx, in, to.Scopes)
	if err != nil {
		return event.Refused(ctx, d.frame.Log, in, err)
	}
	who := tool.Principal{Issuer: token.Issuer, Subject: token.Subject, Scopes: token.Scopes, Session: token.Session}
	if to.Before != nil {
		switch answer, err := to.Before(ctx, in, who); {
		case err != nil:
			d.frame.Log.ErrorContext(ctx, "failure", "route", to.Key, "apiRequestId", in.RequestContext.RequestID, "cause", err)
			return tryAgain()
		case answer != nil:
			return *answer
		}
	}
	arguments, problem := to.arguments(in)
	if problem != nil {
		return *problem
	}
	text, err := to.handle(ctx, tool.Request{
		Version: tool.RequestVersion, RequestID: in.RequestContext.RequestID, Tool: to.Key, Arguments: arguments, ByteShare: maxAnswer, Principal: who,
	})
	if err != nil { // the frame has logged it
		var failure *tool.Failure
		if errors.As(err, &failure) && failure.Type == tool.FatalErrorType {
			return event.Problem(http.StatusInternalServerError, "internal")
		}
		return tryAgain()
	}
	out := event.Response{Status: http.StatusOK, Header: http.Header{"Content-Type": {event.JSON}}, Body: append(text, '\n')}
	if bytes.HasPrefix(text, began) {
		if to.Finish != nil {
			to.Finish(in, Told(text), &out)
		}
		return out
	}
	var envelope outcome.Envelope
	if err := json.Unmarshal(text, &envelope); err != nil || envelope.OK {
		return event.Problem(http.StatusInternalServerError, "internal")
	}
	out.Status = d.status(envelope.Diagnostics[0].Code)
	return out
}

// verify holds the token to one of the scopes. The refusal names the last.
func (d *Door) verify(ctx context.Context, in *event.Request, scopes []string) (identity.Token, error) {
	var token identity.Token
	var err error
	for _, scope := range scopes {
		token, err = d.verifier.Verify(ctx, in.Headers["authorization"], scope)
		var refusal *identity.Error
		if !errors.As(err, &refusal) || refusal.Reason != identity.ReasonScope {
			return token, err
		}
	}
	return token, err
}

func tryAgain() event.Response {
	r := event.Problem(http.StatusServiceUnavailable, "try_again")
	r.Header.Set("Retry-After", "1")
	return r
}

// arguments are the body's members, or those of the query, and the path's variables.
func (r served) arguments(in *event.Request) (jsontext.Value, *event.Response) {
	refuse := func(status int, reason string) (jsontext.Value, *event.Response) {
		p := event.Problem(status, reason)
		return nil, &p
	}
	members := map[string]jsontext.Value{}
	quote := func(text string) (jsontext.Value, error) { return jsontext.AppendQuote(nil, text) }
	if in.RequestContext.HTTP.Method == http.MethodPost {
		kind, params, err := mime.ParseMediaType(in.Headers["content-type"])
		charset, has := params["charset"]
		switch {
		case err != nil || kind != event.JSON || has && !strings.EqualFold(charset, "utf-8"):
			return refuse(http.StatusUnsupportedMediaType, "send "+event.JSON)
		case in.Headers["content-encoding"] != "" && !strings.EqualFold(in.Headers["content-encoding"], "identity"):
			return refuse(http.StatusUnsupportedMediaType, "a compressed body is not supported")
		case len(in.Query) > 0:
			return refuse(http.StatusBadRequest, "there is no query here")
		}
		body, err := in.Body()
		switch {
		case err != nil:
			return refuse(http.StatusBadRequest, err.Error())
		case len(body) > r.MaxBody:
			return refuse(http.StatusRequestEntityTooLarge, "the body is too large")
		case canon.CheckGrammar(body) != nil || json.Unmarshal(body, &members) != nil:
			return refuse(http.StatusBadRequest, "the body is no strict JSON object")
		}
		for _, v := range r.variables {
			if members[v] != nil {
				return refuse(http.StatusBadRequest, "the body repeats what the path says")
			}
		}
	} else {
		for name, value := range in.Query {
			text, err := quote(value)
			if err != nil || slices.Contains(r.variables, name) {
				return refuse(http.StatusBadRequest, "the query cannot be read")
			}
			members[name] = text
		}
	}
	for _, v := range r.variables {
		text, err := quote(in.Path[v])
		if err != nil {
			return refuse(http.StatusBadRequest, "the path is not UTF-8")
		}
		members[v] = text
	}
	arguments, err := json.Marshal(members, json.Deterministic(true))
	if err != nil {
		return refuse(http.StatusBadRequest, "the request cannot be read")
	}
	return arguments, nil
}
