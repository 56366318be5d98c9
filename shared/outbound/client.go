package outbound

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// MaxBody is the most bytes of an answer's body. The limit itself is allowed.
const MaxBody = 2 << 20

const (
	maxHeader = 64 << 10         // bytes of an answer's header
	dialFor   = 10 * time.Second // for name, connection and TLS; the caller's deadline may be sooner
)

// A Kind says how a request failed.
type Kind string

// The kinds.
const (
	Blocked     Kind = "blocked"     // the URL or the address is not one of a public host
	Unreachable Kind = "unreachable" // no name, no connection
	Untrusted   Kind = "untrusted"   // the host did not show that it is the one
	TimedOut    Kind = "timed_out"   // the deadline was over, or the caller left
	Broken      Kind = "broken"      // the connection ended or said what is no HTTP
	TooLarge    Kind = "too_large"   // the answer is larger than MaxBody or has too large a header
	Encoded     Kind = "encoded"     // the answer is compressed, which was not asked for
)

// An Error says how a request failed, and whether any of it was sent.
type Error struct {
	Kind Kind
	// Written is whether a byte of the request may have left. Where it is false, the
	// host has not seen the request.
	Written bool
	Cause   error // for a log: it names hosts, and never a path, a query or a header
}

func (e *Error) Error() string {
	if e.Cause == nil {
		return "outbound: " + string(e.Kind)
	}
	return "outbound: " + string(e.Kind) + ": " + e.Cause.Error()
}

func (e *Error) Unwrap() error { return e.Cause }

// A Request is a GET or a POST.
type Request struct {
	Method string
	URL    string
	Header http.Header
	Body   []byte // of a POST
}

// A Response is an answer, whatever its status. Who has it closes its Body.
type Response struct {
	Status int
	Header http.Header
	// Body ends with an *Error where the answer does not end as it should.
	Body io.ReadCloser
}

// Exceptions let tests reach hosts that are not public: names by which they are
// addressed, with where they listen, and who vouches for them. Nothing but a test has
// any.
type Exceptions struct {
	Hosts map[string]string // host name → IP address and port
	Roots *x509.CertPool
}

// A Client sends requests. It is safe for use by many goroutines.
type Client struct {
	transport *http.Transport
	except    Exceptions
}

// New returns a client for public hosts.
func New() *Client { return NewWith(Exceptions{}, nil) }

// NewWith is New for tests: with exceptions, and a resolver of their own unless it is
// nil.
func NewWith(except Exceptions, resolver *net.Resolver) *Client {
	dialer := &net.Dialer{Timeout: dialFor, Resolver: resolver, ControlContext: public, FallbackDelay: 200 * time.Millisecond}
	c := &Client{except: except}
	c.transport = &http.Transport{
		Proxy: nil,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			host, _, err := net.SplitHostPort(address)
			if err != nil {
				return nil, err
			}
			var conn net.Conn
			if to := except.Hosts[strings.ToLower(host)]; to != "" {
				conn, err = (&net.Dialer{Timeout: dialFor}).DialContext(ctx, network, to)
			} else {
				conn, err = dialer.DialContext(ctx, network, address)
			}
			if err != nil {
				return nil, err
			}
			return &noting{Conn: conn}, nil
		},
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: except.Roots, NextProtos: []string{"http/1.1"}},
		TLSHandshakeTimeout:    dialFor,
		TLSNextProto:           map[string]func(string, *tls.Conn) http.RoundTripper{}, // no HTTP/2
		DisableKeepAlives:      true,
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxHeader,
	}
	return c
}

// public refuses to connect anywhere but to port 443 of a public address.
func public(_ context.Context, network, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil || !strings.HasPrefix(network, "tcp") || to.Port() != 443 || !Public(to.Addr()) {
		return errBlocked
	}
	return nil
}

// noting is a connection that notes the first write of a request. It has none while
// the connection is being secured.
type noting struct {
	net.Conn
	written atomic.Pointer[atomic.Bool]
}

func (c *noting) Write(b []byte) (int, error) {
	if written := c.written.Load(); written != nil {
		written.Store(true)
	}
	return c.Conn.Write(b)
}

// note has writes noted of the one request that a connection serves. What cannot be
// seen is taken for written.
func note(conn net.Conn, written *atomic.Bool) {
	secured, _ := conn.(*tls.Conn)
	if secured != nil {
		if c, ok := secured.NetConn().(*noting); ok {
			c.written.Store(written)
			return
		}
	}
	written.Store(true)
}

// CheckURL is the function of that name for this client's exceptions too.
func (c *Client) CheckURL(text string) (*url.URL, error) { return checkURL(text, c.except.Hosts) }

// Send sends a request and returns the answer's head, or an *Error. ctx bounds the
// answer's body too, and must have a deadline.
func (c *Client) Send(ctx context.Context, q Request) (*Response, error) {
	u, err := c.CheckURL(q.URL)
	if err != nil {
		return nil, &Error{Kind: Blocked, Cause: err}
	}
	if _, bounded := ctx.Deadline(); !bounded || q.Method != http.MethodGet && q.Method != http.MethodPost || q.Method == http.MethodGet && q.Body != nil {
		return nil, errors.New("outbound: a request is a GET without or a POST with a body, and has a deadline")
	}
	written := new(atomic.Bool)
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) { note(got.Conn, written) }})
	request := (&http.Request{Method: q.Method, URL: u, Host: u.Host, Header: q.Header.Clone(), ContentLength: int64(len(q.Body))}).WithContext(ctx)
	if request.Header == nil {
		request.Header = http.Header{}
	}
	if request.Header.Get("User-Agent") == "" {
		request.Header.Set("User-Agent", "pxhost/1")
	}
	request.Header.Set("Accept-Encoding", "identity")
	if q.Method == http.MethodPost {
		request.Body = io.NopCloser(bytes.NewReader(q.Body))
	}
	answer, err := c.transport.RoundTrip(request)
	if err != nil {
		return nil, failure(ctx, written.Load(), err)
	}
	body := &limited{body: answer.Body, ctx: ctx, left: MaxBody}
	switch encoding := answer.Header.Get("Content-Encoding"); {
	case answer.StatusCode == http.StatusSwitchingProtocols:
		answer.Body.Close()
		return nil, &Error{Kind: Broken, Written: true, Cause: errors.New("it switched protocols")}
	case encoding != "" && !strings.EqualFold(encoding, "identity"):
		answer.Body.Close()
		return nil, &Error{Kind: Encoded, Written: true}
	case answer.ContentLength > MaxBody:
		answer.Body.Close()
		return nil, &Error{Kind: TooLarge, Written: true}
	}
	return &Response{Status: answer.StatusCode, Header: answer.Header, Body: body}, nil
}

// RetryAfter is how long a service asks to be left alone, at most a day: a number of
// seconds, or until a date (RFC 9110, 10.2.3). What is neither asks for nothing.
func (r *Response) RetryAfter() time.Duration {
	text := r.Header.Get("Retry-After")
	if seconds, err := strconv.ParseUint(text, 10, 64); err == nil {
		return time.Duration(min(seconds, 24*60*60)) * time.Second
	}
	if date, err := http.ParseTime(text); err == nil {
		return min(max(0, time.Until(date)), 24*time.Hour)
	}
	return 0
}

// ReadAll reads a body to its end and closes it.
func (r *Response) ReadAll() ([]byte, error) {
	defer r.Body.Close()
	return io.ReadAll(r.Body)
}

// failure says what an error of net/http is.
func failure(ctx context.Context, written bool, err error) *Error {
	e := &Error{Kind: Broken, Written: written, Cause: err}
	var (
		dns     *net.DNSError
		dial    *net.OpError
		unknown *tls.CertificateVerificationError
		record  tls.RecordHeaderError
		slow    net.Error
	)
	switch {
	case errors.Is(err, errBlocked):
		e.Kind = Blocked
	case ctx.Err() != nil:
		e.Kind, e.Cause = TimedOut, ctx.Err()
	case errors.As(err, &unknown), errors.As(err, &record):
		e.Kind = Untrusted
	case errors.As(err, &slow) && slow.Timeout() && e.Written:
		e.Kind = TimedOut
	case errors.As(err, &dns), errors.As(err, &dial) && dial.Op == "dial", !e.Written:
		e.Kind = Unreachable
	case strings.Contains(err.Error(), "server response headers exceeded"):
		e.Kind = TooLarge
	}
	return e
}

// limited reads at most left bytes of a body.
type limited struct {
	body io.ReadCloser
	ctx  context.Context
	left int64
}

func (l *limited) Read(p []byte) (int, error) {
	if l.left < 0 {
		return 0, &Error{Kind: TooLarge, Written: true}
	}
	// One byte more than may be left tells whether there is one.
	if int64(len(p)) > l.left+1 {
		p = p[:l.left+1]
	}
	n, err := l.body.Read(p)
	if l.left -= int64(n); l.left < 0 {
		return 0, &Error{Kind: TooLarge, Written: true}
	}
	if err != nil && err != io.EOF {
		kind := Broken
		if l.ctx.Err() != nil {
			kind, err = TimedOut, l.ctx.Err()
		}
		err = &Error{Kind: kind, Written: true, Cause: fmt.Errorf("its body: %w", err)}
	}
	return n, err
}

func (l *limited) Close() error { return l.body.Close() }
