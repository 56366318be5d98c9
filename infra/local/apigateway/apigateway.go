package apigateway

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"sort"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pxhost/pxhost/infra/local/failpoint"
)

// Limits of HTTP APIs, in bytes.
const (
	MaxBody    = 10 << 20
	MaxHeaders = 10240 // request line and header values together
)

// Options configure the API.
type Options struct {
	Routes    []Route
	AccountID string
	APIID     string
	// Invoke runs a function; see lambda.Host.Invoke.
	Invoke func(ctx context.Context, function string, payload []byte) (out []byte, functionError string, err error)
	// Log receives one line for each request that a function did not answer well.
	Log func(line string)
	Now func() time.Time
}

type api struct {
	Options
	table table
}

// New makes the API's handler.
func New(opt Options) http.Handler {
	if opt.Now == nil {
		opt.Now = time.Now
	}
	if opt.Log == nil {
		opt.Log = func(string) {}
	}
	return &api{opt, compile(opt.Routes)}
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	requestID := rand.Text()[:16]
	w.Header().Set("Apigw-Requestid", requestID)
	size := len(r.RequestURI)
	for _, vs := range r.Header {
		for _, v := range vs {
			size += len(v)
		}
	}
	if size > MaxHeaders {
		message(w, http.StatusRequestHeaderFieldsTooLarge, "Request Header Fields Too Large")
		return
	}
	path, _, _ := strings.Cut(r.RequestURI, "?")
	route, vars := a.table.find(r.Method, path)
	if route == nil {
		message(w, http.StatusNotFound, "Not Found")
		return
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, MaxBody+1))
	if err != nil {
		message(w, http.StatusBadRequest, "Bad Request")
		return
	}
	if len(body) > MaxBody {
		io.Copy(io.Discard, io.LimitReader(r.Body, MaxBody)) // so that the client reads our answer
		message(w, http.StatusRequestEntityTooLarge, "Request Entity Too Large")
		return
	}
	event, err := a.event(r, route, vars, body, requestID)
	if err != nil {
		message(w, http.StatusBadRequest, "Bad Request")
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), route.Timeout)
	defer cancel()
	out, functionError, err := a.Invoke(ctx, route.Function, event)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		a.Log(route.Key() + " " + requestID + " | no answer from " + route.Function + " within " + route.Timeout.String())
		message(w, http.StatusServiceUnavailable, "Service Unavailable")
		return
	case err != nil:
		if r.Context().Err() != nil {
			return // the client went away
		}
		a.Log(route.Key() + " " + requestID + " | " + err.Error())
		var coded interface{ ErrorCode() string }
		if errors.As(err, &coded) {
			switch coded.ErrorCode() {
			case "RequestEntityTooLargeException": // what fits here may not fit Lambda's 6 MB once it is an event
				message(w, http.StatusRequestEntityTooLarge, "Request Entity Too Large")
				return
			case "TooManyRequestsException":
				message(w, http.StatusServiceUnavailable, "Service Unavailable")
				return
			}
		}
		message(w, http.StatusInternalServerError, "Internal Server Error")
		return
	case functionError != "":
		a.Log(route.Key() + " " + requestID + " | " + route.Function + " failed")
		message(w, http.StatusInternalServerError, "Internal Server Error")
		return
	}
	failpoint.Hit(failpoint.APIGatewayAnswered)
	if err := write(w, r, out, route.Responses); err != nil {
		a.Log(route.Key() + " " + requestID + " | the answer of " + route.Function + " is malformed: " + err.Error())
		message(w, http.StatusInternalServerError, "Internal Server Error")
	}
}

func message(w http.ResponseWriter, status int, text string) {
	b := `{"message":"` + text + `"}`
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	w.WriteHeader(status)
	io.WriteString(w, b)
}

// request is the event of payload format 2.0. Members without a value are left
// out, as API Gateway does.
type request struct {
	Version               string            `json:"version"`
	RouteKey              string            `json:"routeKey"`
	RawPath               string            `json:"rawPath"`
	RawQueryString        string            `json:"rawQueryString"`
	Cookies               []string          `json:"cookies,omitempty"`
	Headers               map[string]string `json:"headers"`
	QueryStringParameters map[string]string `json:"queryStringParameters,omitempty"`
	RequestContext        requestContext    `json:"requestContext"`
	PathParameters        map[string]string `json:"pathParameters,omitempty"`
	Body                  *string           `json:"body,omitempty"`
	IsBase64Encoded       bool              `json:"isBase64Encoded"`
}

type requestContext struct {
	AccountID    string `json:"accountId"`
	APIID        string `json:"apiId"`
	DomainName   string `json:"domainName"`
	DomainPrefix string `json:"domainPrefix"`
	HTTP         struct {
		Method    string `json:"method"`
		Path      string `json:"path"`
		Protocol  string `json:"protocol"`
		SourceIP  string `json:"sourceIp"`
		UserAgent string `json:"userAgent"`
	} `json:"http"`
	RequestID string `json:"requestId"`
	RouteKey  string `json:"routeKey"`
	Stage     string `json:"stage"`
	Time      string `json:"time"`
	TimeEpoch int64  `json:"timeEpoch"`
}

// hop are headers of one connection; they never reach a function.
var hop = map[string]bool{
	"Connection": true, "Keep-Alive": true, "Proxy-Authorization": true, "Proxy-Authenticate": true,
	"Proxy-Connection": true, "Te": true, "Trailer": true, "Transfer-Encoding": true, "Upgrade": true,
}

func (a *api) event(r *http.Request, route *Route, vars map[string]string, body []byte, requestID string) ([]byte, error) {
	path, query, _ := strings.Cut(r.RequestURI, "?")
	ip, _, _ := net.SplitHostPort(r.RemoteAddr)
	host, port, err := net.SplitHostPort(r.Host)
	if err != nil {
		host, port = r.Host, "80"
	}
	ev := request{
		Version: "2.0", RouteKey: route.Key(), RawPath: path, RawQueryString: query,
		Headers: map[string]string{}, PathParameters: vars,
	}
	for name, values := range r.Header {
		switch {
		case hop[name]:
		case name == "Cookie":
			for _, v := range values {
				for _, c := range strings.Split(v, ";") {
					if c = strings.TrimSpace(c); c != "" {
						ev.Cookies = append(ev.Cookies, c)
					}
				}
			}
		default:
			ev.Headers[strings.ToLower(name)] = strings.Join(values, ",")
		}
	}
	ev.Headers["host"] = r.Host
	ev.Headers["content-length"] = strconv.Itoa(len(body))
	forwarded := ip
	if before := ev.Headers["x-forwarded-for"]; before != "" {
		forwarded = before + ", " + ip
	}
	ev.Headers["x-forwarded-for"], ev.Headers["x-forwarded-port"], ev.Headers["x-forwarded-proto"] = forwarded, port, "http"
	now := a.Now()
	ev.Headers["x-amzn-trace-id"] = "Root=1-" + strconv.FormatInt(now.Unix(), 16) + "-" + traceRandom()
	if query != "" {
		values, err := url.ParseQuery(query)
		if err != nil {
			return nil, err
		}
		ev.QueryStringParameters = make(map[string]string, len(values))
		for k, v := range values {
			ev.QueryStringParameters[k] = strings.Join(v, ",")
		}
	}
	c := &ev.RequestContext
	c.AccountID, c.APIID, c.DomainName = a.AccountID, a.APIID, host
	c.DomainPrefix, _, _ = strings.Cut(host, ".")
	c.HTTP.Method, c.HTTP.Path, c.HTTP.Protocol, c.HTTP.SourceIP, c.HTTP.UserAgent = r.Method, path, r.Proto, ip, r.UserAgent()
	c.RequestID, c.RouteKey, c.Stage = requestID, route.Key(), "$default"
	c.Time, c.TimeEpoch = now.UTC().Format("02/Jan/2006:15:04:05 +0000"), now.UnixMilli()
	if len(body) > 0 {
		var text string
		if textual(r.Header.Get("Content-Type")) {
			text = strings.ToValidUTF8(string(body), string(utf8.RuneError))
		} else {
			text, ev.IsBase64Encoded = base64.StdEncoding.EncodeToString(body), true
		}
		ev.Body = &text
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(ev); err != nil {
		return nil, err
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

func traceRandom() string {
	var b [12]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// textual tells whether a body of this content type arrives as text.
func textual(contentType string) bool {
	t, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		t, _, _ = strings.Cut(contentType, ";")
		t = strings.ToLower(strings.TrimSpace(t))
	}
	switch t {
	case "application/json", "application/xml", "application/javascript":
		return true
	}
	return strings.HasPrefix(t, "text/")
}

// response is what a function answers in format 2.0.
type response struct {
	StatusCode      json.RawMessage            `json:"statusCode"`
	Headers         map[string]json.RawMessage `json:"headers"`
	Cookies         []string                   `json:"cookies"`
	Body            *string                    `json:"body"`
	IsBase64Encoded bool                       `json:"isBase64Encoded"`
}

// remapped are response headers that are API Gateway's own: a function's value
// travels under x-amzn-remapped-.
var remapped = map[string]bool{
	"Authorization": true, "Connection": true, "Content-Length": true, "Content-Md5": true, "Date": true,
	"Expect": true, "Host": true, "Max-Forwards": true, "Proxy-Authenticate": true, "Server": true, "Te": true,
	"Trailer": true, "Upgrade": true, "User-Agent": true, "Via": true, "Warning": true, "Www-Authenticate": true,
}

var errNoBase64 = errors.New("the body is not base64")

// write sends a function's answer, with the mappings of its status applied. Nothing is
// written if it returns an error.
func write(w http.ResponseWriter, r *http.Request, out []byte, mappings map[int][]Mapping) error {
	out = bytes.TrimSpace(out)
	var res response
	// A member of a wrong type is an error, and the others are there all the same.
	wrong := json.Unmarshal(out, &res)
	if !bytes.HasPrefix(out, []byte("{")) || res.StatusCode == nil {
		// No statusCode: API Gateway takes the whole answer as the body.
		if !json.Valid(out) {
			return errors.New("neither a response nor JSON")
		}
		body := out
		var text string
		if json.Unmarshal(out, &text) == nil {
			body = []byte(text)
		}
		w.Header().Set("Content-Type", "application/json")
		apply(mappings[http.StatusOK], w.Header(), nil)
		send(w, r, http.StatusOK, body)
		return nil
	}
	if wrong != nil {
		return wrong
	}
	var code *json.Number
	if err := json.Unmarshal(res.StatusCode, &code); err != nil {
		return err
	}
	if code == nil {
		return errors.New("statusCode is null")
	}
	status, err := strconv.Atoi(code.String())
	if err != nil || status < 200 || status > 599 {
		return errors.New("statusCode is no HTTP status")
	}
	var body []byte
	if res.Body != nil {
		body = []byte(*res.Body)
		if res.IsBase64Encoded {
			if body, err = base64.StdEncoding.DecodeString(*res.Body); err != nil {
				return errNoBase64
			}
		}
	}
	headers := map[string]string{}
	for k, raw := range res.Headers {
		var v any
		if err := json.Unmarshal(raw, &v); err != nil {
			return err
		}
		switch x := v.(type) {
		case string:
			headers[k] = x
		case bool, float64:
			headers[k] = string(raw)
		case nil:
		default:
			return errors.New("a header is not a string")
		}
		if strings.ContainsAny(k, "\r\n") || strings.ContainsAny(headers[k], "\r\n") {
			return errors.New("a header has a line break")
		}
	}
	names := make([]string, 0, len(headers))
	for k := range headers {
		names = append(names, k)
	}
	sort.Strings(names)
	w.Header().Set("Content-Type", "text/plain;charset=UTF-8")
	answered := map[string]string{}
	for _, k := range names {
		name := http.CanonicalHeaderKey(k)
		answered[name] = headers[k]
		switch {
		case name == "Transfer-Encoding" || name == "Keep-Alive":
		case remapped[name]:
			w.Header().Set("X-Amzn-Remapped-"+name, headers[k])
		default:
			w.Header().Set(name, headers[k])
		}
	}
	for _, c := range res.Cookies {
		w.Header().Add("Set-Cookie", strings.NewReplacer("\r", "", "\n", "").Replace(c))
	}
	apply(mappings[status], w.Header(), answered)
	send(w, r, status, body)
	return nil
}

func send(w http.ResponseWriter, r *http.Request, status int, body []byte) {
	bodyless := status == http.StatusNoContent || status == http.StatusNotModified
	if bodyless {
		w.Header().Del("Content-Type")
	} else {
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	}
	w.WriteHeader(status)
	if !bodyless && r.Method != http.MethodHead {
		w.Write(body)
	}
}
