package apigateway

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"
)

// function is a stand-in for Lambda that records events.
type function struct {
	event         map[string]any
	name          string
	out           string
	functionError string
	err           error
	wait          bool
}

func (f *function) invoke(ctx context.Context, name string, payload []byte) ([]byte, string, error) {
	f.name, f.event = name, nil
	if err := json.Unmarshal(payload, &f.event); err != nil {
		return nil, "", err
	}
	if f.wait {
		<-ctx.Done()
		return nil, "", ctx.Err()
	}
	return []byte(f.out), f.functionError, f.err
}

func handler(f *function, routes ...Route) http.Handler {
	for i := range routes {
		if routes[i].Timeout == 0 {
			routes[i].Timeout = 30 * time.Second
		}
	}
	return New(Options{
		Routes: routes, AccountID: "000000000000", APIID: "local", Invoke: f.invoke,
		Now: func() time.Time { return time.Date(2020, 3, 12, 19, 3, 58, 390e6, time.UTC) },
	})
}

// The event has the members and values of the example in the AWS documentation
// for payload format 2.0, for the same request.
//
// covers: H2
func TestEventOfTheDocumentation(t *testing.T) {
	f := &function{out: `{"statusCode":200}`}
	h := handler(f, Route{Method: "ANY", Path: "/my/{parameter1}", Function: "fn"})
	r := httptest.NewRequest("POST", "/my/value1?parameter1=value1&parameter1=value2&parameter2=value", strings.NewReader("Hello from Lambda"))
	r.Host = "id.execute-api.us-east-1.amazonaws.com"
	r.RemoteAddr = "192.0.2.1:4711"
	r.Header.Set("Content-Type", "text/plain")
	r.Header.Set("User-Agent", "agent")
	r.Header.Set("Header1", "value1")
	r.Header["Header2"] = []string{"value1", "value2"}
	r.Header["Cookie"] = []string{"cookie1=a; cookie2=b", "cookie3=c"}
	r.Header.Set("Connection", "keep-alive")
	h.ServeHTTP(httptest.NewRecorder(), r)
	headers, _ := f.event["headers"].(map[string]any)
	if trace, _ := headers["x-amzn-trace-id"].(string); !strings.HasPrefix(trace, "Root=1-5e6a879e-") {
		t.Errorf("trace %q", trace)
	}
	delete(headers, "x-amzn-trace-id")
	c, _ := f.event["requestContext"].(map[string]any)
	if id, _ := c["requestId"].(string); id == "" {
		t.Error("no request ID")
	}
	delete(c, "requestId")
	want := map[string]any{
		"version": "2.0", "routeKey": "ANY /my/{parameter1}", "rawPath": "/my/value1",
		"rawQueryString": "parameter1=value1&parameter1=value2&parameter2=value",
		"cookies":        []any{"cookie1=a", "cookie2=b", "cookie3=c"},
		"headers": map[string]any{
			"content-type": "text/plain", "content-length": "17", "user-agent": "agent", "header1": "value1", "header2": "value1,value2",
			"host": "id.execute-api.us-east-1.amazonaws.com", "x-forwarded-for": "192.0.2.1", "x-forwarded-port": "80", "x-forwarded-proto": "http",
		},
		"queryStringParameters": map[string]any{"parameter1": "value1,value2", "parameter2": "value"},
		"requestContext": map[string]any{
			"accountId": "000000000000", "apiId": "local", "domainName": "id.execute-api.us-east-1.amazonaws.com", "domainPrefix": "id",
			"http":     map[string]any{"method": "POST", "path": "/my/value1", "protocol": "HTTP/1.1", "sourceIp": "192.0.2.1", "userAgent": "agent"},
			"routeKey": "ANY /my/{parameter1}", "stage": "$default", "time": "12/Mar/2020:19:03:58 +0000", "timeEpoch": 1584039838390.0,
		},
		"body": "Hello from Lambda", "pathParameters": map[string]any{"parameter1": "value1"}, "isBase64Encoded": false,
	}
	for k := range want {
		if !reflect.DeepEqual(f.event[k], want[k]) {
			t.Errorf("%s:\n got %v\nwant %v", k, f.event[k], want[k])
		}
	}
	for k := range f.event {
		if _, ok := want[k]; !ok {
			t.Errorf("additional member %s", k)
		}
	}
}

func TestMembersWithoutAValueAreLeftOut(t *testing.T) {
	f := &function{out: `{}`}
	handler(f, Route{Method: "GET", Path: "/a", Function: "fn"}).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/a", nil))
	for _, k := range []string{"cookies", "queryStringParameters", "pathParameters", "body", "stageVariables"} {
		if v, ok := f.event[k]; ok {
			t.Errorf("%s is %v", k, v)
		}
	}
	if f.event["rawQueryString"] != "" {
		t.Errorf("rawQueryString %v", f.event["rawQueryString"])
	}
}

// covers: H2
func TestBodiesArriveAsTextOrBase64(t *testing.T) {
	for _, c := range []struct {
		contentType string
		text        bool
	}{
		{"application/json", true}, {"application/json; charset=utf-8", true}, {"Application/JSON", true}, {"text/plain", true}, {"text/csv;header=absent", true},
		{"application/xml", true}, {"application/javascript", true},
		{"application/x-ndjson", false}, {"application/vnd.api+json", false}, {"application/x-www-form-urlencoded", false}, {"application/octet-stream", false},
		{"image/png", false}, {"multipart/form-data; boundary=x", false}, {"", false},
	} {
		f := &function{out: `{}`}
		const body = `{"a":"ü\u2028"}` + "\n"
		r := httptest.NewRequest("POST", "/a", strings.NewReader(body))
		if c.contentType != "" {
			r.Header.Set("Content-Type", c.contentType)
		}
		handler(f, Route{Method: "POST", Path: "/a", Function: "fn"}).ServeHTTP(httptest.NewRecorder(), r)
		got, _ := f.event["body"].(string)
		want := body
		if !c.text {
			want = base64.StdEncoding.EncodeToString([]byte(body))
		}
		if got != want || f.event["isBase64Encoded"] != !c.text {
			t.Errorf("%q: isBase64Encoded %v, body %q", c.contentType, f.event["isBase64Encoded"], got)
		}
	}
}

func TestRouting(t *testing.T) {
	routes := []Route{
		{Method: "ANY", Path: "$default", Function: "default"},
		{Method: "ANY", Path: "/{proxy+}", Function: "greedy"},
		{Method: "GET", Path: "/pets/{id}", Function: "get-pet"},
		{Method: "ANY", Path: "/pets/{id}", Function: "any-pet"},
		{Method: "GET", Path: "/pets/dog", Function: "dog"},
		{Method: "POST", Path: "/pets/{proxy+}", Function: "pets-below"},
		{Method: "GET", Path: "/", Function: "root"},
	}
	for _, c := range []struct {
		method, path, want string
		vars               map[string]any
	}{
		{"GET", "/pets/dog", "dog", nil},
		{"GET", "/pets/cat", "get-pet", map[string]any{"id": "cat"}},
		{"GET", "/pets/a%2Fb%20c", "get-pet", map[string]any{"id": "a/b c"}},
		{"PUT", "/pets/cat", "any-pet", map[string]any{"id": "cat"}},
		{"POST", "/pets/cat", "any-pet", map[string]any{"id": "cat"}},
		{"POST", "/pets/cat/toys", "pets-below", map[string]any{"proxy": "cat/toys"}},
		{"GET", "/pets/cat/toys", "greedy", map[string]any{"proxy": "pets/cat/toys"}},
		{"GET", "/", "root", nil},
		{"POST", "/", "default", nil},
		{"GET", "/pets", "greedy", map[string]any{"proxy": "pets"}},
		{"GET", "/pets/", "greedy", map[string]any{"proxy": "pets/"}},
	} {
		f := &function{out: `{}`}
		handler(f, routes...).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(c.method, c.path, nil))
		vars, _ := f.event["pathParameters"].(map[string]any)
		if f.name != c.want || !reflect.DeepEqual(vars, c.vars) {
			t.Errorf("%s %s goes to %s with %v, want %s with %v", c.method, c.path, f.name, vars, c.want, c.vars)
		}
	}
	f := &function{}
	for _, c := range []struct{ method, path string }{{"GET", "/v1/mcp"}, {"POST", "/v1/mcp/"}, {"POST", "/v1"}, {"POST", "/V1/mcp"}, {"POST", "/v1/mcp/x"}} {
		w := httptest.NewRecorder()
		handler(f, Route{Method: "POST", Path: "/v1/mcp", Function: "x"}).ServeHTTP(w, httptest.NewRequest(c.method, c.path, nil))
		if w.Code != 404 || w.Body.String() != `{"message":"Not Found"}` || f.name != "" {
			t.Errorf("%s %s: %d %s", c.method, c.path, w.Code, w.Body)
		}
	}
}

// covers: H2
func TestResponses(t *testing.T) {
	for _, c := range []struct {
		name, out   string
		status      int
		body        string
		headers     map[string]string
		cookies     []string
		notexpected string // header that must be missing
	}{
		{name: "a whole response", out: `{"statusCode":201,"headers":{"Content-Type":"application/json","X-A":"1"},"body":"{\"a\":1}","cookies":["a=1; Secure","b=2"],"isBase64Encoded":false}`,
			status: 201, body: `{"a":1}`, headers: map[string]string{"Content-Type": "application/json", "X-A": "1"}, cookies: []string{"a=1; Secure", "b=2"}},
		{name: "a base64 body", out: `{"statusCode":200,"headers":{"content-type":"application/x-ndjson"},"body":"AAEC/w==","isBase64Encoded":true}`, status: 200, body: "\x00\x01\x02\xff", headers: map[string]string{"Content-Type": "application/x-ndjson"}},
		{name: "no body", out: `{"statusCode":202}`, status: 202, headers: map[string]string{"Content-Type": "text/plain;charset=UTF-8", "Content-Length": "0"}},
		{name: "204", out: `{"statusCode":204,"body":""}`, status: 204, notexpected: "Content-Type"},
		{name: "a status as a string", out: `{"statusCode":"404","body":"x"}`, status: 404, body: "x"},
		{name: "header values that are no strings", out: `{"statusCode":200,"headers":{"a":true,"b":1.5,"c":null}}`, status: 200, headers: map[string]string{"A": "true", "B": "1.5", "C": ""}},
		{name: "headers that belong to API Gateway", out: `{"statusCode":401,"headers":{"WWW-Authenticate":"Bearer resource_metadata=\"x\"","Server":"mine"}}`, status: 401,
			headers: map[string]string{"X-Amzn-Remapped-Www-Authenticate": `Bearer resource_metadata="x"`, "X-Amzn-Remapped-Server": "mine"}, notexpected: "Www-Authenticate"},
		{name: "an object without a status", out: `{"message":"hi"}`, status: 200, body: `{"message":"hi"}`, headers: map[string]string{"Content-Type": "application/json"}},
		{name: "a string", out: `"Hello from Lambda!"`, status: 200, body: "Hello from Lambda!", headers: map[string]string{"Content-Type": "application/json"}},
		{name: "a list", out: `[1,2]`, status: 200, body: "[1,2]"},
		{name: "null", out: `null`, status: 200, body: ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := &function{out: c.out}
			w := httptest.NewRecorder()
			handler(f, Route{Method: "GET", Path: "/a", Function: "fn"}).ServeHTTP(w, httptest.NewRequest("GET", "/a", nil))
			if w.Code != c.status || w.Body.String() != c.body {
				t.Errorf("%d %q, want %d %q", w.Code, w.Body, c.status, c.body)
			}
			for k, v := range c.headers {
				if w.Header().Get(k) != v {
					t.Errorf("%s: %q, want %q", k, w.Header().Get(k), v)
				}
			}
			if got := w.Header()["Set-Cookie"]; !reflect.DeepEqual(got, c.cookies) {
				t.Errorf("cookies %q", got)
			}
			if c.notexpected != "" && w.Header().Get(c.notexpected) != "" {
				t.Errorf("%s is there", c.notexpected)
			}
			if w.Header().Get("Apigw-Requestid") == "" {
				t.Error("no request ID")
			}
		})
	}
}

type coded string

func (c coded) Error() string     { return string(c) }
func (c coded) ErrorCode() string { return string(c) }

// covers: H2
func TestFailures(t *testing.T) {
	for _, c := range []struct {
		name   string
		f      function
		body   int
		status int
		text   string
	}{
		{"a function error", function{functionError: "Unhandled", out: `{"errorMessage":"secret"}`}, 0, 500, "Internal Server Error"},
		{"an answer that is not JSON", function{out: `hello`}, 0, 500, "Internal Server Error"},
		{"an empty answer", function{out: ``}, 0, 500, "Internal Server Error"},
		{"a body that is no string", function{out: `{"statusCode":200,"body":{}}`}, 0, 500, "Internal Server Error"},
		{"a status out of range", function{out: `{"statusCode":99}`}, 0, 500, "Internal Server Error"},
		{"a body that is not base64", function{out: `{"statusCode":200,"body":"!","isBase64Encoded":true}`}, 0, 500, "Internal Server Error"},
		{"a header with a line break", function{out: `{"statusCode":200,"headers":{"a":"b\r\nc: d"}}`}, 0, 500, "Internal Server Error"},
		{"a function that is too slow", function{wait: true}, 0, 503, "Service Unavailable"},
		{"a function that is throttled", function{err: coded("TooManyRequestsException")}, 0, 503, "Service Unavailable"},
		{"an event too large for Lambda", function{err: coded("RequestEntityTooLargeException")}, 0, 413, "Request Entity Too Large"},
		{"Lambda fails", function{err: errors.New("secret")}, 0, 500, "Internal Server Error"},
		{"a body of more than 10 MB", function{out: `{}`}, MaxBody + 1, 413, "Request Entity Too Large"},
	} {
		t.Run(c.name, func(t *testing.T) {
			srv := httptest.NewServer(handler(&c.f, Route{Method: "POST", Path: "/a", Function: "fn", Timeout: 60 * time.Millisecond}))
			defer srv.Close()
			resp, err := http.Post(srv.URL+"/a", "text/plain", strings.NewReader(strings.Repeat("x", c.body)))
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			b, _ := io.ReadAll(resp.Body)
			if resp.StatusCode != c.status || string(b) != `{"message":"`+c.text+`"}` || resp.Header.Get("Content-Type") != "application/json" {
				t.Errorf("%d %s", resp.StatusCode, b)
			}
		})
	}
	f := &function{out: `{}`}
	h := handler(f, Route{Method: "POST", Path: "/a", Function: "fn"})
	r := httptest.NewRequest("POST", "/a", strings.NewReader(strings.Repeat("x", MaxBody)))
	w := httptest.NewRecorder()
	if h.ServeHTTP(w, r); w.Code != 200 {
		t.Errorf("exactly 10 MB: %d", w.Code)
	}
	r = httptest.NewRequest("POST", "/a", nil)
	r.Header.Set("X-Long", strings.Repeat("x", MaxHeaders-len("/a")+1))
	w = httptest.NewRecorder()
	if h.ServeHTTP(w, r); w.Code != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("headers one byte too long: %d", w.Code)
	}
}

// The answer of a function is changed as the integration of its route says, for the
// statuses of that, and from what the function answered.
//
// covers: H2, W9
func TestAnswersAreMappedByTheirStatus(t *testing.T) {
	parse := func(pairs ...string) (out []Mapping) {
		for i := 0; i < len(pairs); i += 2 {
			m, err := ParseMapping(pairs[i], pairs[i+1])
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, m)
		}
		return out
	}
	responses := map[int][]Mapping{
		401: parse("remove:header.x-own", "''", "overwrite:header.WWW-Authenticate", "$response.header.x-own", "append:header.a", "2", "overwrite:header.Content-Type", "text/html", "overwrite:header.b", "$response.header.missing"),
		200: parse("append:header.a", "1"),
	}
	for _, c := range []struct {
		name, out string
		want      map[string]string
	}{
		{"a 401", `{"statusCode":401,"headers":{"WWW-Authenticate":"Bearer","X-Own":"Bearer x","A":"1","b":"kept"}}`,
			map[string]string{"Www-Authenticate": "Bearer x", "X-Amzn-Remapped-Www-Authenticate": "Bearer", "X-Own": "", "A": "1,2", "B": "kept", "Content-Type": "text/html"}},
		{"another status", `{"statusCode":403,"headers":{"WWW-Authenticate":"Bearer","X-Own":"Bearer x"}}`,
			map[string]string{"Www-Authenticate": "", "X-Amzn-Remapped-Www-Authenticate": "Bearer", "X-Own": "Bearer x", "A": ""}},
		{"an answer without a status", `{"a":1}`, map[string]string{"A": "1", "Content-Type": "application/json"}},
		{"a function that failed", `x`, map[string]string{"A": "", "Content-Type": "application/json"}},
	} {
		w := httptest.NewRecorder()
		handler(&function{out: c.out}, Route{Method: "GET", Path: "/a", Function: "fn", Responses: responses}).ServeHTTP(w, httptest.NewRequest("GET", "/a", nil))
		for name, want := range c.want {
			if got := w.Header().Get(name); got != want {
				t.Errorf("%s: %s is %q, not %q", c.name, name, got, want)
			}
		}
	}
}

func FuzzParseMapping(f *testing.F) {
	f.Add("overwrite:header.www-authenticate", "$response.header.x-own")
	f.Add("remove:header.a", "''")
	f.Add("append:header.x-amzn-a", "b")
	f.Fuzz(func(t *testing.T, destination, source string) {
		m, err := ParseMapping(destination, source)
		if err != nil {
			return
		}
		if mappable(m.Header) != nil || m.From != "" && mappable(m.From) != nil || strings.ContainsAny(m.Value, "\r\n") || m.Action == "remove" != (m.Value == "" && m.From == "") {
			t.Fatalf("%+v", m)
		}
	})
}

func FuzzWrite(f *testing.F) {
	for _, s := range []string{`{"statusCode":200,"headers":{"a":"b"},"cookies":["x"],"body":"y"}`, `{"statusCode":null}`, `"s"`, `[`, `{"statusCode":1e2,"headers":{"\u0000":"\n"}}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, out []byte) {
		w := httptest.NewRecorder()
		r := httptest.NewRequest("GET", "/", nil)
		if err := write(w, r, out, map[int][]Mapping{200: {{Action: "overwrite", Header: "B", From: "A"}}}); err != nil && (w.Body.Len() > 0 || w.Result().Header.Get("Content-Length") != "") {
			t.Fatal("an answer was begun although it is malformed")
		}
	})
}
