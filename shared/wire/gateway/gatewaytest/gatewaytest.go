// Package gatewaytest puts an HTTP server in front of a handler of API Gateway
// events, for tests: it makes the events as API Gateway does. The full local
// host is infra/local; this is the part that a test of one handler needs.
package gatewaytest

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"strings"
)

// An Invoker is a Lambda handler.
type Invoker interface {
	Invoke(ctx context.Context, payload []byte) ([]byte, error)
}

// Event returns the event of a request.
func Event(r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	headers := map[string]string{}
	for name, values := range r.Header {
		headers[strings.ToLower(name)] = strings.Join(values, ",")
	}
	headers["host"], headers["x-forwarded-proto"] = r.Host, "http"
	event := map[string]any{
		"version": "2.0", "routeKey": r.Method + " " + r.URL.Path, "rawPath": r.URL.Path, "rawQueryString": r.URL.RawQuery,
		"headers": headers, "isBase64Encoded": false,
		"requestContext": map[string]any{"requestId": "request", "http": map[string]any{"method": r.Method, "path": r.URL.Path}},
	}
	if len(body) > 0 {
		switch kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); {
		case kind == "application/json", strings.HasPrefix(kind, "text/"):
			event["body"] = strings.ToValidUTF8(string(body), "\ufffd")
		default:
			event["body"], event["isBase64Encoded"] = base64.StdEncoding.EncodeToString(body), true
		}
	}
	return json.Marshal(event)
}

// Handler serves HTTP by the invoker.
func Handler(invoker Invoker) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		event, err := Event(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		answer, err := invoker.Invoke(r.Context(), event)
		var out struct {
			StatusCode int               `json:"statusCode"`
			Headers    map[string]string `json:"headers"`
			Body       string            `json:"body"`
		}
		if err == nil {
			err = json.Unmarshal(answer, &out)
		}
		if err != nil {
			http.Error(w, `{"message":"Internal Server Error"}`, http.StatusInternalServerError)
			return
		}
		for name, value := range out.Headers {
			w.Header().Set(name, value)
		}
		w.WriteHeader(out.StatusCode)
		_, _ = io.WriteString(w, out.Body)
	})
}
