package httpjson_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pxhost/pxhost/shared/adapter/httpjson"
	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/capability"
	"github.com/pxhost/pxhost/shared/outbound"
	"github.com/pxhost/pxhost/shared/outcome"
)

// A service answers by a list, one after another; the last for ever.
type service struct {
	answers    []answer
	seen       []outbound.Request
	dispatched int
	slept      []time.Duration
	stale      bool
	bearer     string
	refused    []string
	within     time.Duration // of a call; 0 is without an end
}

type answer struct {
	status int
	kind   string
	body   string
	header http.Header
	err    error // instead of an answer
	cut    error // in place of the end of the body
}

func (s *service) CheckURL(text string) (*url.URL, error) { return outbound.CheckURL(text) }

func (s *service) Send(_ context.Context, q outbound.Request) (*outbound.Response, error) {
	s.seen = append(s.seen, q)
	a := s.answers[min(len(s.seen), len(s.answers))-1]
	if a.err != nil {
		return nil, a.err
	}
	h := a.header.Clone()
	if h == nil {
		h = http.Header{}
	}
	if a.kind == "" {
		a.kind = "application/json; charset=utf-8"
	}
	h.Set("Content-Type", a.kind)
	var body io.Reader = strings.NewReader(a.body)
	if a.cut != nil {
		body = io.MultiReader(body, failing{a.cut})
	}
	return &outbound.Response{Status: a.status, Header: h, Body: io.NopCloser(body)}, nil
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func (s *service) Bearer(context.Context, capability.Call) (string, error) { return s.bearer, nil }

func (s *service) Refused(_ context.Context, _ capability.Call, refused string) error {
	s.refused = append(s.refused, refused)
	return nil
}

func (s *service) call(t *testing.T, runtime, arguments string, connector *capability.Connector) (capability.Result, error) {
	t.Helper()
	text, err := canon.Canonicalize([]byte(arguments))
	if err != nil {
		t.Fatal(err)
	}
	a := httpjson.Adapter{Sender: s, Credentials: s, Sleep: func(_ context.Context, d time.Duration) error { s.slept = append(s.slept, d); return nil }}
	ctx := t.Context()
	if s.within > 0 {
		bounded, stop := context.WithTimeout(ctx, s.within)
		defer stop()
		ctx = bounded
	}
	return a.Call(ctx, capability.Call{Capability: capability.Capability{Title: "제목", Runtime: canon.Raw(runtime)}, Arguments: text, Connector: connector,
		Dispatch: func(context.Context) error {
			if s.stale {
				return errors.New("stale")
			}
			s.dispatched++
			return nil
		}})
}

func connector(retry string) *capability.Connector {
	c := &capability.Connector{ConnectorID: "notes_api", BaseURL: "https://api.notes.com/", Path: "/v1/search", Auth: capability.Auth{Kind: "bearer"}}
	if retry != "" {
		c.Retry = new(capability.Retry)
		c.Retry.MaxAttempts, c.Retry.BackoffMs = 3, 100
		for on := range strings.SplitSeq(retry, " ") {
			c.Retry.On = append(c.Retry.On, capability.RetryOn(on))
		}
	}
	return c
}

const (
	notes        = `{"adapter":"http_json","connector_id":"notes_api","method":"POST","request_body":{"query":"{query}"},"response":{"summary_path":"message","data_path":"data"}}`
	repositories = `{"adapter":"http_json","endpoint":"https://api.github.com/search/repositories?per_page=2&sort=stars","method":"GET","request_params":{"q":"{query}","page":"{arguments.page}"},
		"response":{"collection_path":"items","id_path":"id","title_paths":["full_name"],"url_path":"html_url","content_paths":["description"],"max_items":2,"summary_prefix":"저장소 검색"}}`
)

// The original's two examples.
//
// covers: A3, A4, A5, A6
func TestTheExamplesOfTheContract(t *testing.T) {
	s := &service{answers: []answer{{status: 200, body: `{"message":"찾았습니다","data":{"n":1}}`}}, bearer: "s3cret"}
	got, err := s.call(t, notes, `{"query":"거더"}`, connector(""))
	if err != nil || got.Summary != "찾았습니다" || string(got.Data) != `{"n":1}` || s.dispatched != 1 {
		t.Errorf("%+v %v", got, err)
	}
	q := s.seen[0]
	if q.Method != "POST" || q.URL != "https://api.notes.com/v1/search" || string(q.Body) != `{"query":"거더"}` || q.Header.Get("Authorization") != "Bearer s3cret" || q.Header.Get("Content-Type") != "application/json" {
		t.Errorf("%+v", q)
	}
	s = &service{answers: []answer{{status: 200, body: `{"total_count":9,"items":[{"id":7,"full_name":"a/b","html_url":"https://github.com/a/b","description":null}]}`}}}
	got, err = s.call(t, repositories, `{"query":"go & gvisor","page":0}`, nil)
	if err != nil || got.Summary != "저장소 검색 (1)" || s.dispatched != 0 {
		t.Errorf("%+v %v", got, err)
	}
	if q := s.seen[0]; q.Method != "GET" || q.URL != "https://api.github.com/search/repositories?per_page=2&sort=stars&page=0&q=go+%26+gvisor" || q.Body != nil || q.Header.Get("Authorization") != "" {
		t.Errorf("%+v", q)
	}
	// Left out, and {}.
	for params, want := range map[string]string{"": "https://a.com/x?k=1&query=z", `,"request_params":{}`: "https://a.com/x?k=1"} {
		s := &service{answers: []answer{{status: 200, body: `{"summary":"s"}`}}}
		if _, err := s.call(t, `{"adapter":"http_json","endpoint":"https://a.com/x?k=1","method":"GET"`+params+`}`, `{"query":"z"}`, nil); err != nil || s.seen[0].URL != want {
			t.Errorf("%s: %v %v", params, s.seen, err)
		}
	}
	// A POST without a body that is declared, with parameters of its own.
	s = &service{answers: []answer{{status: 201, kind: "application/problem+json", body: `{"message":"s"}`}}}
	if _, err := s.call(t, `{"adapter":"http_json","endpoint":"https://a.com/x","method":"POST","request_params":{"a":false}}`, `{"query":"z"}`, nil); err != nil || s.seen[0].URL != "https://a.com/x?a=false" || string(s.seen[0].Body) != `{}` {
		t.Errorf("%+v %v", s.seen, err)
	}
}

func failed(kind outbound.Kind, written bool) error {
	return &outbound.Error{Kind: kind, Written: written, Cause: errors.New("cause")}
}

// What is known of a call that failed: of a POST that may have left, nothing, and it is
// not repeated.
//
// covers: C5, C6, A9
func TestHowACallFails(t *testing.T) {
	const get, post = "GET", "POST"
	all := "network 429 502 503 504"
	for _, c := range []struct {
		name, method, retry string
		answer              answer
		code                outcome.Code
		calls               int
	}{
		{"no connection", post, "", answer{err: failed(outbound.Unreachable, false)}, outcome.ExtensionNetworkRetryable, 1},
		{"no connection, tried again", post, all, answer{err: failed(outbound.Unreachable, false)}, outcome.ExtensionNetworkRetryable, 3},
		{"no connection, and only statuses are declared", post, "503", answer{err: failed(outbound.Unreachable, false)}, outcome.ExtensionNetworkRetryable, 1},
		{"a stranger", post, all, answer{err: failed(outbound.Untrusted, false)}, outcome.ExtensionResponseInvalid, 1},
		{"an address that is not public", post, all, answer{err: failed(outbound.Blocked, false)}, outcome.ExtensionPermissionDenied, 1},
		{"too late before it left", post, "", answer{err: failed(outbound.TimedOut, false)}, outcome.ExtensionTimeout, 1},
		{"too late after it left", post, all, answer{err: failed(outbound.TimedOut, true)}, outcome.ExtensionOutcomeUnknown, 1},
		{"it broke after it left", post, all, answer{err: failed(outbound.Broken, true)}, outcome.ExtensionOutcomeUnknown, 1},
		{"too much came", post, all, answer{err: failed(outbound.TooLarge, true)}, outcome.ExtensionOutcomeUnknown, 1},
		{"half an answer", post, all, answer{status: 200, body: `{"message`, cut: failed(outbound.Broken, true)}, outcome.ExtensionOutcomeUnknown, 1},
		{"a GET that broke", get, "", answer{err: failed(outbound.Broken, true)}, outcome.ExtensionNetworkRetryable, 1},
		{"a GET that broke, tried again", get, all, answer{err: failed(outbound.Broken, true)}, outcome.ExtensionNetworkRetryable, 3},
		{"half an answer to a GET", get, all, answer{status: 200, body: `{`, cut: failed(outbound.Broken, true)}, outcome.ExtensionNetworkRetryable, 3},
		{"a GET that is too late", get, "", answer{err: failed(outbound.TimedOut, true)}, outcome.ExtensionTimeout, 1},
		{"a GET with too much of an answer", get, all, answer{err: failed(outbound.TooLarge, true)}, outcome.ExtensionResponseInvalid, 1},
		{"a GET with a compressed answer", get, all, answer{err: failed(outbound.Encoded, true)}, outcome.ExtensionResponseInvalid, 1},
		{"429", post, "", answer{status: 429}, outcome.ExtensionNetworkRetryable, 1},
		{"429, tried again", post, "429", answer{status: 429}, outcome.ExtensionNetworkRetryable, 3},
		{"503, tried again", post, all, answer{status: 503}, outcome.ExtensionNetworkRetryable, 3},
		{"503, which is not declared", post, "429", answer{status: 503}, outcome.ExtensionNetworkRetryable, 1},
		{"502 of a POST", post, all, answer{status: 502}, outcome.ExtensionOutcomeUnknown, 1},
		{"504 of a POST", post, all, answer{status: 504}, outcome.ExtensionOutcomeUnknown, 1},
		{"500 of a POST", post, all, answer{status: 500}, outcome.ExtensionOutcomeUnknown, 1},
		{"501 of a POST", post, all, answer{status: 501}, outcome.ExtensionResponseInvalid, 1},
		{"502 of a GET", get, all, answer{status: 502}, outcome.ExtensionNetworkRetryable, 3},
		{"500 of a GET", get, all, answer{status: 500}, outcome.ExtensionResponseInvalid, 1},
		{"400", post, all, answer{status: 400, body: `{"message":"secret"}`}, outcome.ExtensionResponseInvalid, 1},
		{"401", post, all, answer{status: 401, body: `secret`}, outcome.ExtensionConnectionRequired, 1},
		{"403", get, all, answer{status: 403, body: `secret`}, outcome.ExtensionConnectionRequired, 1},
		{"a refusal whose body never ends", post, all, answer{status: 409, cut: failed(outbound.TimedOut, true)}, outcome.ExtensionResponseInvalid, 1},
		{"a redirect to this machine", get, all, answer{status: 302, header: http.Header{"Location": {"https://127.0.0.1/secret"}}}, outcome.ExtensionResponseInvalid, 1},
		{"no content", get, all, answer{status: 204}, outcome.ExtensionResponseInvalid, 1},
		{"a page", get, all, answer{status: 200, kind: "text/html", body: "secret"}, outcome.ExtensionResponseInvalid, 1},
		{"no content type that can be read", get, all, answer{status: 200, kind: ";;", body: `{"message":"s"}`}, outcome.ExtensionResponseInvalid, 1},
		{"invalid UTF-8", get, all, answer{status: 200, body: "{\"message\":\"\xff secret\"}"}, outcome.ExtensionResponseInvalid, 1},
		{"no message", get, all, answer{status: 200, body: `{"secret":1}`}, outcome.ExtensionResponseInvalid, 1},
	} {
		runtime := strings.Replace(notes, "POST", c.method, 1)
		if c.method == get {
			runtime = strings.Replace(runtime, `"request_body":{"query":"{query}"},`, "", 1)
		}
		s := &service{answers: []answer{c.answer}}
		_, err := s.call(t, runtime, `{"query":"secret"}`, connector(c.retry))
		f := (*capability.Failure)(nil)
		if !errors.As(err, &f) || f.Code != c.code || len(s.seen) != c.calls || len(s.slept) != c.calls-1 {
			t.Errorf("%s: %v after %d calls, want %s after %d", c.name, err, len(s.seen), c.code, c.calls)
			continue
		}
		if strings.Contains(fmt.Sprintf("%+v %v", f.Params, err), "secret") {
			t.Errorf("%s: %+v", c.name, f)
		}
		if f.Code == outcome.ExtensionNetworkRetryable && f.Params["rule"] == nil && f.Params["status"] == nil {
			t.Errorf("%s: nobody is told why", c.name)
		}
		if (s.dispatched > 0) != (c.method == post) {
			t.Errorf("%s: dispatched %d times", c.name, s.dispatched)
		}
	}
}

// A credential that was refused is noted. Without one, there is none to connect.
//
// covers: C5
func TestWhichCredentialWasRefusedIsNoted(t *testing.T) {
	for _, c := range []struct {
		status int
		auth   string
		code   outcome.Code
		noted  string
	}{
		{401, "bearer", outcome.ExtensionConnectionRequired, "[s3cret]"},
		{403, "bearer", outcome.ExtensionConnectionRequired, "[]"},
		{401, "none", outcome.ExtensionResponseInvalid, "[]"},
		{403, "none", outcome.ExtensionResponseInvalid, "[]"},
	} {
		s := &service{answers: []answer{{status: c.status}}, bearer: "s3cret"}
		k := connector("network 429")
		k.Auth.Kind = c.auth
		_, err := s.call(t, notes, `{"query":"x"}`, k)
		f := (*capability.Failure)(nil)
		if !errors.As(err, &f) || f.Code != c.code || fmt.Sprint(s.refused) != c.noted {
			t.Errorf("%d with %s: %v, noted %v", c.status, c.auth, err, s.refused)
		}
	}
}

func TestASuccessAfterFailuresIsOne(t *testing.T) {
	s := &service{answers: []answer{{status: 503, header: http.Header{"Retry-After": {"2"}}}, {err: failed(outbound.Unreachable, false)}, {status: 200, body: `{"message":"s","data":{}}`}}}
	if got, err := s.call(t, notes, `{"query":"x"}`, connector("network 503")); err != nil || got.Summary != "s" || fmt.Sprint(s.slept) != "[2s 200ms]" {
		t.Errorf("%+v %v, waited %v", got, err, s.slept)
	}
}

// covers: C6
func TestAServiceIsLeftAloneAsLongAsItAsks(t *testing.T) {
	for name, c := range map[string]struct {
		asks  string
		slept string
	}{
		"seconds":                    {"2", "[2s]"},
		"a date":                     {"DATE", "[7s]"},
		"a date that is over":        {"Sat, 01 Jan 2000 00:00:00 GMT", "[100ms]"},
		"less than the policy waits": {"0", "[100ms]"},
		"what is neither":            {"-2", "[100ms]"},
		"more than there is":         {"10", "[]"},
		"more than can be counted":   {"18446744073709551615", "[]"},
		"a date that is too late":    {"LATE", "[]"},
	} {
		synctest.Test(t, func(t *testing.T) {
			asks := strings.NewReplacer("DATE", time.Now().Add(7*time.Second).UTC().Format(http.TimeFormat), "LATE", time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)).Replace(c.asks)
			s := &service{answers: []answer{{status: 503, header: http.Header{"Retry-After": {asks}}}, {status: 200, body: `{"message":"s","data":{}}`}}, within: 10 * time.Second}
			_, err := s.call(t, notes, `{"query":"x"}`, connector("503"))
			if fmt.Sprint(s.slept) != c.slept || (err == nil) != (len(s.slept) == 1) || len(s.seen) != 1+len(s.slept) {
				t.Errorf("%s: %v, waited %v, sent %d", name, err, s.slept, len(s.seen))
			}
		})
	}
}

func TestNothingIsSentThatIsAnothersOrDoesNotFit(t *testing.T) {
	s := &service{answers: []answer{{status: 200}}, stale: true}
	if _, err := s.call(t, notes, `{"query":"x"}`, connector("")); err == nil || len(s.seen) != 0 {
		t.Error(err, s.seen)
	}
	s = &service{answers: []answer{{status: 200}}}
	for runtime, code := range map[string]outcome.Code{
		`{"adapter":"http_json","endpoint":"https://127.0.0.1/x","method":"GET"}`:                                        outcome.ExtensionPermissionDenied,
		`{"adapter":"http_json","endpoint":"https://a.com/x","method":"GET","request_params":{"a":"{arguments.o}"}}`:     outcome.ExtensionInputInvalid,
		`{"adapter":"http_json","endpoint":"https://a.com/x","method":"POST","request_body":{"a":"x {arguments.o}"}}`:    outcome.ExtensionInputInvalid,
		`{"adapter":"http_json","endpoint":"https://a.com/x","method":"POST","request_body":{"a":["{arguments.none}"]}}`: outcome.ExtensionInputInvalid,
	} {
		_, err := s.call(t, runtime, `{"query":"x","o":{"secret":1}}`, nil)
		f := (*capability.Failure)(nil)
		if !errors.As(err, &f) || f.Code != code || len(s.seen)+s.dispatched != 0 || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", runtime, err)
		}
	}
}
