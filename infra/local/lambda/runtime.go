package lambda

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/pxhost/pxhost/infra/local/failpoint"
)

// serveRuntime answers the Runtime API, 2018-06-01, under
// /<secret of this start>/<instance>/.
func (h *Host) serveRuntime(w http.ResponseWriter, r *http.Request) {
	parts := strings.SplitN(strings.TrimPrefix(r.URL.Path, "/"), "/", 3)
	if len(parts) != 3 || !equal(parts[0], h.secret) {
		runtimeError(w, http.StatusForbidden, "Forbidden", "this process does not belong to the running local host")
		return
	}
	i := h.instance(parts[1])
	if i == nil {
		runtimeError(w, http.StatusForbidden, "Forbidden", "this instance is not running")
		return
	}
	route := r.Method + " /" + parts[2]
	switch {
	case route == "GET /2018-06-01/runtime/invocation/next":
		h.next(w, r, i)
	case route == "POST /2018-06-01/runtime/init/error":
		h.initError(w, r, i)
	case r.Method == http.MethodPost && strings.HasPrefix(parts[2], "2018-06-01/runtime/invocation/"):
		id, action, _ := strings.Cut(strings.TrimPrefix(parts[2], "2018-06-01/runtime/invocation/"), "/")
		switch action {
		case "response", "error":
			h.answer(w, r, i, id, action == "error")
			return
		}
		fallthrough
	default:
		runtimeError(w, http.StatusNotFound, "NotFound", "px local does not support this part of the Runtime API: "+r.Method+" /"+parts[2])
	}
}

func runtimeError(w http.ResponseWriter, status int, typ, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(map[string]string{"errorType": typ, "errorMessage": message})
}

// next ends the instance's invocation and waits for another.
func (h *Host) next(w http.ResponseWriter, r *http.Request, i *instance) {
	h.mu.Lock()
	f := i.fn
	switch i.phase {
	case starting:
		f.starting--
	case busy:
		if !i.answered {
			h.mu.Unlock()
			runtimeError(w, http.StatusForbidden, "InvalidState", "the invocation has not been answered")
			return
		}
		i.timer.Stop()
		f.inFlight--
		f.settling--
		i.current = nil
		i.requestID.Store(nil)
	default:
		h.mu.Unlock()
		runtimeError(w, http.StatusForbidden, "InvalidState", "this instance may not ask for work")
		return
	}
	i.phase, i.since = idle, time.Now()
	if len(f.waiting) > 0 {
		inv := f.waiting[0]
		f.waiting = f.waiting[1:]
		h.give(i, inv)
	} else {
		f.idle = append(f.idle, i)
	}
	h.mu.Unlock()

	select {
	case inv := <-i.work:
		head := w.Header()
		head.Set("Content-Type", "application/json")
		head.Set("Lambda-Runtime-Aws-Request-Id", inv.id)
		head.Set("Lambda-Runtime-Deadline-Ms", strconv.FormatInt(h.opt.Now().Add(f.Timeout).UnixMilli(), 10))
		head.Set("Lambda-Runtime-Invoked-Function-Arn", f.ARN)
		head.Set("Lambda-Runtime-Trace-Id", traceID(h.opt.Now()))
		if inv.clientContext != "" {
			head.Set("Lambda-Runtime-Client-Context", inv.clientContext)
		}
		head.Set("Content-Length", strconv.Itoa(len(inv.payload)))
		w.Write(inv.payload)
		if f, ok := w.(http.Flusher); ok {
			f.Flush() // the instance has it now, and need not wait for the handler to return
		}
		failpoint.Hit(failpoint.LambdaHanded)
	case <-r.Context().Done():
		// The process is gone, or going: run sees its end. An invocation that
		// was handed over at this very moment fails there, as it would on AWS.
		h.mu.Lock()
		f.drop(i)
		i.phase = ending
		i.kill()
		h.mu.Unlock()
	case <-h.stop:
	}
}

// traceID makes an unsampled X-Ray header.
func traceID(now time.Time) string {
	return fmt.Sprintf("Root=1-%08x-%s;Sampled=0", now.Unix(), randomHex()[:24])
}

// answer takes a function's response or error for invocation id.
func (h *Host) answer(w http.ResponseWriter, r *http.Request, i *instance, id string, failed bool) {
	if r.Header.Get("Lambda-Runtime-Function-Response-Mode") != "" {
		runtimeError(w, http.StatusBadRequest, "UnsupportedResponseMode", "px local does not support response streaming")
		h.complete(i, id, func() result {
			return result{functionError: "Unhandled", payload: errorDocument("Runtime.UnsupportedResponseMode", id, "px local does not support response streaming")}
		})
		return
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, MaxResponse+1))
	if err != nil {
		runtimeError(w, http.StatusBadRequest, "InvalidRequest", "the body could not be read")
		return
	}
	if len(body) > MaxResponse {
		io.Copy(io.Discard, io.LimitReader(r.Body, 64<<20))
		text := fmt.Sprintf("Response payload size exceeded maximum allowed payload size (%d bytes).", MaxResponse)
		if !h.complete(i, id, func() result {
			doc, _ := json.Marshal(map[string]string{"errorType": "Function.ResponseSizeTooLarge", "errorMessage": text})
			return result{functionError: "Unhandled", payload: doc}
		}) {
			runtimeError(w, http.StatusBadRequest, "InvalidRequestID", "not the invocation of this instance")
			return
		}
		runtimeError(w, http.StatusRequestEntityTooLarge, "RequestEntityTooLarge", text)
		return
	}
	// A reader that failed while it was sent says so in trailers.
	if t := r.Trailer.Get("Lambda-Runtime-Function-Error-Type"); t != "" {
		failed = true
		body, _ = json.Marshal(map[string]string{"errorType": t, "errorMessage": "the function's response could not be read to its end"})
	}
	if !h.complete(i, id, func() result {
		res := result{payload: body}
		if failed {
			res.functionError = "Unhandled"
		}
		return res
	}) {
		runtimeError(w, http.StatusBadRequest, "InvalidRequestID", "not the invocation of this instance")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusAccepted)
	io.WriteString(w, `{"status":"OK"}`)
}

// complete answers the caller once; false if id is not what the instance runs.
func (h *Host) complete(i *instance, id string, make func() result) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if i.phase != busy || i.answered || i.current == nil || i.current.id != id {
		return false
	}
	failpoint.Hit(failpoint.LambdaAnswered)
	i.answered = true
	i.fn.settling++
	i.current.finish(make())
	return true
}

// initError takes the report of a runtime that could not start its function.
func (h *Host) initError(w http.ResponseWriter, r *http.Request, i *instance) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxErrorBody))
	h.mu.Lock()
	ok := err == nil && i.phase == starting
	if ok {
		i.cause = func(string) result { return result{functionError: "Unhandled", payload: body} }
	}
	h.mu.Unlock()
	if !ok {
		runtimeError(w, http.StatusForbidden, "InvalidState", "the function has started already")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusAccepted)
	io.WriteString(w, `{"status":"OK"}`)
}
