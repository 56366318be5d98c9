package awsapi

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// Options configure the endpoint.
type Options struct {
	Region string
	// Credential finds an access key.
	Credential func(accessKeyID string) (Credential, bool)
	// Services by the name in the credential scope: dynamodb, states, lambda,
	// s3, ecs, kms. A service that is not here is refused by name.
	Services map[string]http.Handler
	// Allow decides about one action of a principal on one resource; keys are the
	// condition keys that the request has.
	Allow func(principal, action, resource string, with Context) bool
	// Resources name what an action touches.
	Resources Resources
	Now       func() time.Time
	// Fault is told what a service answered that failed by itself, as on a full
	// disk: its callers keep only the code, since a message could hold a value. Of
	// Lambda it is not told, whose failures are its functions'. nil is nobody.
	Fault func(service, answer string)
}

type endpoint struct{ Options }

// New makes the handler of the endpoint.
func New(opt Options) http.Handler {
	if opt.Now == nil {
		opt.Now = time.Now
	}
	return &endpoint{opt}
}

// Largest bodies, in bytes: what the services themselves allow, and for S3
// what an object of this project may be in one PutObject.
var maxBody = map[string]int64{"dynamodb": 16 << 20, "states": 1 << 20, "lambda": 7 << 20, "s3": 128 << 20, "ecs": 1 << 20, "kms": 256 << 10}

func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	sig, bad := readSignature(r)
	if bad != nil {
		writeFault(w, r, protocolOf(r), bad)
		return
	}
	service := e.Services[sig.service]
	if service == nil {
		writeFault(w, r, protocolOf(r), refuse(faultScope, "px local does not have the service %q; it has %s.", printable(sig.service), strings.Join(e.names(), ", ")))
		return
	}
	if sig.presigned && sig.service != "s3" {
		writeFault(w, r, sig.service, refuse(faultIncomplete, "px local supports presigned URLs of S3 only."))
		return
	}
	cred, ok := e.Credential(sig.accessKey)
	if !ok {
		writeFault(w, r, sig.service, refuse(faultKey, "The security token included in the request is invalid."))
		return
	}
	limit := maxBody[sig.service]
	body, err := io.ReadAll(io.LimitReader(r.Body, limit+1))
	if err != nil {
		return // the client went away
	}
	if int64(len(body)) > limit {
		io.Copy(io.Discard, io.LimitReader(r.Body, 64<<20)) // so that the client reads our answer
		writeError(w, r, sig.service, http.StatusRequestEntityTooLarge, "RequestEntityTooLargeException", fmt.Sprintf("Request must be smaller than %d bytes", limit))
		return
	}
	if bad := sig.verify(r, body, cred, e.Region, e.Now()); bad != nil {
		writeFault(w, r, sig.service, bad)
		return
	}
	if denied := e.authorize(cred.Principal, sig.service, r, body); denied != "" {
		status := http.StatusBadRequest
		if sig.service == "lambda" || sig.service == "s3" {
			status = http.StatusForbidden
		}
		writeError(w, r, sig.service, status, "AccessDeniedException", denied)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if e.Fault != nil && sig.service != "lambda" {
		watched := &watcher{ResponseWriter: w}
		defer func() {
			if watched.failed {
				e.Fault(sig.service, strings.TrimSpace(string(watched.answer)))
			}
		}()
		w = watched
	}
	service.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), principalKey{}, cred.Principal)))
}

// watcher keeps the beginning of an answer of status 500 and above.
type watcher struct {
	http.ResponseWriter
	failed bool
	answer []byte
}

const maxWatched = 500 // bytes

func (w *watcher) WriteHeader(status int) {
	w.failed = w.failed || status >= http.StatusInternalServerError
	w.ResponseWriter.WriteHeader(status)
}

func (w *watcher) Write(text []byte) (int, error) {
	if w.failed {
		w.answer = append(w.answer, text[:min(len(text), maxWatched-len(w.answer))]...)
	}
	return w.ResponseWriter.Write(text)
}

// Unwrap is for http.ResponseController.
func (w *watcher) Unwrap() http.ResponseWriter { return w.ResponseWriter }

type principalKey struct{}

// Principal is who signed the request that ctx belongs to, for services behind
// the endpoint.
func Principal(ctx context.Context) string {
	p, _ := ctx.Value(principalKey{}).(string)
	return p
}

func (e *endpoint) names() []string {
	var out []string
	for _, s := range []string{"dynamodb", "states", "lambda", "s3", "ecs", "kms"} {
		if e.Services[s] != nil {
			out = append(out, s)
		}
	}
	return out
}

// protocolOf guesses the service of a request that does not say.
func protocolOf(r *http.Request) string {
	t := r.Header.Get("X-Amz-Target")
	switch {
	case strings.HasPrefix(t, "AWSStepFunctions."):
		return "states"
	case strings.HasPrefix(t, "AmazonEC2ContainerService"):
		return "ecs"
	case strings.HasPrefix(t, "TrentService."):
		return "kms"
	case t != "":
		return "dynamodb"
	case strings.HasPrefix(r.URL.Path, "/2015-03-31/"):
		return "lambda"
	}
	return "s3"
}

// printable keeps a caller's text out of our messages unless it is a name.
func printable(s string) string {
	for _, c := range s {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return "?"
		}
	}
	if len(s) > 30 {
		return "?"
	}
	return s
}

// codes of the faults: JSON services, S3, and the HTTP status that S3 and
// Lambda give (the JSON services answer 400).
var codes = map[fault]struct {
	json, s3 string
	status   int
}{
	faultMissing:    {"MissingAuthenticationTokenException", "AccessDenied", 403},
	faultIncomplete: {"IncompleteSignatureException", "AuthorizationHeaderMalformed", 400},
	faultKey:        {"UnrecognizedClientException", "InvalidAccessKeyId", 403},
	faultSignature:  {"InvalidSignatureException", "SignatureDoesNotMatch", 403},
	faultSkew:       {"InvalidSignatureException", "RequestTimeTooSkewed", 403},
	faultExpired:    {"InvalidSignatureException", "AccessDenied", 403},
	faultBody:       {"InvalidSignatureException", "XAmzContentSHA256Mismatch", 400},
	faultScope:      {"InvalidSignatureException", "AuthorizationHeaderMalformed", 400},
	faultPayload:    {"InvalidSignatureException", "NotImplemented", 501},
}

func writeFault(w http.ResponseWriter, r *http.Request, service string, bad *authError) {
	c := codes[bad.fault]
	switch service {
	case "s3":
		writeError(w, r, service, c.status, c.s3, bad.text)
	case "lambda":
		writeError(w, r, service, c.status, c.json, bad.text)
	default:
		writeError(w, r, service, http.StatusBadRequest, c.json, bad.text)
	}
}

// writeError answers in the error format of the service.
func writeError(w http.ResponseWriter, r *http.Request, service string, status int, code, message string) {
	head := w.Header()
	id := rand.Text()
	switch service {
	case "s3":
		if code == "AccessDeniedException" {
			code = "AccessDenied"
		}
		head.Set("Content-Type", "application/xml")
		head.Set("X-Amz-Request-Id", id)
		w.WriteHeader(status)
		if r.Method == http.MethodHead {
			return
		}
		io.WriteString(w, xml.Header)
		xml.NewEncoder(w).Encode(struct {
			XMLName   xml.Name `xml:"Error"`
			Code      string
			Message   string
			RequestID string `xml:"RequestId"`
		}{Code: code, Message: message, RequestID: id})
	case "lambda":
		head.Set("Content-Type", "application/json")
		head.Set("X-Amzn-Requestid", id)
		head.Set("X-Amzn-Errortype", code)
		w.WriteHeader(status)
		json.NewEncoder(w).Encode(map[string]string{"message": message, "Message": message})
	default:
		head.Set("Content-Type", "application/x-amz-json-1.0")
		head.Set("X-Amzn-Requestid", id)
		w.WriteHeader(status)
		json.NewEncoder(w).Encode(map[string]string{"__type": "com.amazon.coral.service#" + code, "message": message})
	}
}
