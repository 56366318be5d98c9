package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pxhost/pxhost/infra/local/oidc"
	"github.com/pxhost/pxhost/shared/wire"
	"github.com/pxhost/pxhost/shared/wire/gateway"
)

// maxReply bounds what is read of an answer: no reply of one line is larger.
const maxReply = wire.MaxReplyLine + 1

// endpointFlags are the flags of the commands that speak to the wire.
type endpointFlags struct {
	token, as string
}

func (f *endpointFlags) add(fs *flag.FlagSet) {
	fs.StringVar(&f.token, "token", "", "bearer `token` with the scope "+oidc.ScopeTools+"; better in PX_TOKEN, where no list of processes shows it")
	fs.StringVar(&f.as, "as", "engineer", "without a token: the sample `principal` for whom one is made from the state folder: "+strings.Join(oidc.Subjects, ", "))
}

// An endpoint sends lines to the wire over HTTP, each as a request of its own.
// The dispatcher behind it is the one that answers every HTTP client, and so a
// line gets the same bytes here as there.
type endpoint struct {
	url  string
	kind string // the media type of lines and replies
	http *http.Client
	// mint makes a token; nil when one was given, which is then all there is.
	mint func() (string, error)

	mu    sync.Mutex
	token string
}

// endpoint returns the endpoint that the flags name.
func (e *environment) endpoint(f endpointFlags) (*endpoint, error) {
	base, err := e.baseURL()
	if err != nil {
		return nil, &exitError{exitNoHost, err}
	}
	out := &endpoint{
		url:   base + gateway.Path,
		kind:  ndjson,
		token: f.token,
		http: &http.Client{
			Timeout:       35 * time.Second, // API Gateway itself answers within 30
			Transport:     &http.Transport{DialContext: (&net.Dialer{Timeout: 5 * time.Second}).DialContext, MaxIdleConnsPerHost: wire.SideBySide, Proxy: http.ProxyFromEnvironment},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // a token goes to its host alone
		},
	}
	if f.token != "" {
		return out, nil
	}
	if !slices.Contains(oidc.Subjects, f.as) {
		return nil, usagef("--as takes one of %s", strings.Join(oidc.Subjects, ", "))
	}
	out.mint = func() (string, error) {
		// The issuer is the host of the state folder, whatever name of it --url uses.
		host, err := e.dir().ReadHost()
		if err != nil {
			return "", fmt.Errorf("no token: give one by PX_TOKEN, or the state folder of a started px local by --state: %w", err)
		}
		key, err := oidc.Read(e.dir())
		if err != nil {
			return "", fmt.Errorf("no token: %w", err)
		}
		return key.Token(host.URL, f.as, oidc.ScopeTools, time.Now())
	}
	if out.token, err = out.mint(); err != nil {
		return nil, &exitError{exitNoHost, err}
	}
	return out, nil
}

// send returns the reply to one line, nil if it has none. A failure says whether
// the line may have been run.
func (e *endpoint) send(ctx context.Context, line []byte) ([]byte, *wire.Failure) {
	return e.sendWith(ctx, nil, line)
}

// sendWith is send with more headers.
func (e *endpoint) sendWith(ctx context.Context, headers map[string]string, line []byte) ([]byte, *wire.Failure) {
	e.mu.Lock()
	token := e.token
	e.mu.Unlock()
	reply, failure := e.post(ctx, headers, line, token)
	if failure == nil || failure.Reason != wire.ReasonRefused || e.mint == nil {
		return reply, failure
	}
	// The token is too old, or the host has a new key. It was refused before the
	// line was read: sending the line again repeats nothing.
	token, err := e.mint()
	if err != nil {
		return nil, failure
	}
	e.mu.Lock()
	e.token = token
	e.mu.Unlock()
	return e.post(ctx, headers, line, token)
}

func (e *endpoint) post(ctx context.Context, headers map[string]string, line []byte, token string) ([]byte, *wire.Failure) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url, bytes.NewReader(line))
	if err != nil {
		return nil, &wire.Failure{Reason: wire.ReasonUnreachable, Outcome: wire.Not, Cause: err}
	}
	request.GetBody = nil // no second try inside the client
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Content-Type", e.kind)
	request.Header.Set("User-Agent", "px")
	for name, value := range headers {
		request.Header.Set(name, value)
	}
	response, err := e.http.Do(request)
	if err != nil {
		failure := &wire.Failure{Reason: wire.ReasonUnreachable, Retryable: true, Outcome: wire.Unknown, Cause: err}
		var dial *net.OpError
		if errors.As(err, &dial) && dial.Op == "dial" {
			failure.Outcome = wire.Not
		}
		return nil, failure
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxReply+1))
	if err != nil {
		return nil, &wire.Failure{Reason: wire.ReasonUnreachable, Retryable: true, Outcome: wire.Unknown, Cause: err}
	}
	if len(body) > maxReply {
		return nil, &wire.Failure{Reason: wire.ReasonAnswerInvalid, Outcome: wire.Unknown, Cause: fmt.Errorf("the reply is longer than the %d bytes that one may have: it is of another server", maxReply)}
	}
	kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	switch {
	case response.StatusCode == http.StatusAccepted && len(body) == 0:
		return nil, nil
	case kind == e.kind && len(body) > 0 && bytes.IndexByte(body, '\n') == len(body)-1 && (kind == ndjson || bytes.HasPrefix(body, []byte(`{"jsonrpc":`))):
		return body, nil // one line of the wire; a refusal has another status than 200
	}
	return nil, statusFailure(response, body)
}

// advice is what a person can do about a failure, as the end of its sentence.
func (e *endpoint) advice(f *wire.Failure) string {
	switch {
	case f.Reason == wire.ReasonUnreachable && f.Outcome == wire.Not:
		return "; start px local, or name another host with --url or PX_URL"
	case f.Reason == wire.ReasonRefused && e.mint == nil:
		return "; give another token by PX_TOKEN or --token, or none: then px makes one from the state folder"
	case f.Reason == wire.ReasonRefused:
		return "; the host that answers is not the one of the state folder: name its folder with --state, or give its token by PX_TOKEN"
	}
	return ""
}

const ndjson = "application/x-ndjson"

// statusFailure judges an answer that is not of the wire.
func statusFailure(response *http.Response, body []byte) *wire.Failure {
	f := &wire.Failure{Reason: wire.ReasonEndpoint, Retryable: true, Outcome: wire.Unknown, Cause: fmt.Errorf("HTTP status %d: %s", response.StatusCode, short(body))}
	switch response.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		f.Reason, f.Retryable, f.Outcome = wire.ReasonRefused, false, wire.Not
	case http.StatusTooManyRequests:
		f.Reason, f.Outcome = wire.ReasonThrottled, wire.Not
	case http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotAcceptable, http.StatusRequestEntityTooLarge,
		http.StatusUnsupportedMediaType, http.StatusMisdirectedRequest: // the same again gets the same answer
		f.Retryable, f.Outcome = false, wire.Not
	case http.StatusServiceUnavailable, http.StatusGatewayTimeout: // API Gateway's word for a function that is late
		f.Reason = wire.ReasonTimeout
	}
	return f
}

// short returns what of a foreign answer may stand in a message to a person.
func short(body []byte) string {
	text := strings.Map(func(r rune) rune {
		if r < 0x20 || r == 0x7f {
			return ' '
		}
		return r
	}, string(body[:min(len(body), 200)]))
	return strings.TrimSpace(strings.ToValidUTF8(text, "?"))
}
