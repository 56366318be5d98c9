package dynamo

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pxhost/pxhost/shared/change"
	"github.com/pxhost/pxhost/shared/history"
)

// troubled answers the next writes in its own way and keeps what was sent.
type troubled struct {
	service http.Handler
	mu      sync.Mutex
	trouble []func(w http.ResponseWriter, perform func() *httptest.ResponseRecorder)
	sent    []string
}

func (h *troubled) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	operation := r.Header.Get("X-Amz-Target")
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	h.mu.Lock()
	var trouble func(http.ResponseWriter, func() *httptest.ResponseRecorder)
	if strings.HasSuffix(operation, "TransactWriteItems") {
		h.sent = append(h.sent, string(body))
		if len(h.trouble) > 0 {
			trouble, h.trouble = h.trouble[0], h.trouble[1:]
		}
	}
	h.mu.Unlock()
	if trouble == nil {
		h.service.ServeHTTP(w, r)
		return
	}
	trouble(w, func() *httptest.ResponseRecorder {
		out := httptest.NewRecorder()
		h.service.ServeHTTP(out, r)
		return out
	})
}

func hangUp(w http.ResponseWriter) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err == nil {
		conn.Close()
	}
}

func answer(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	w.WriteHeader(status)
	io.WriteString(w, `{"__type":"com.amazonaws.dynamodb.v20120810#`+code+`","message":"m"}`)
}

// What the judgement of errors rests on is how the SDK reports them, so here the
// trouble is on the wire and the SDK is real. Each attempt of ours must be one
// request: a retry inside the SDK would be one that transact does not know of.
//
// covers: P9
func TestCommitThroughTheRealClientSurvivesTroubleOnTheWire(t *testing.T) {
	type act = func(http.ResponseWriter, func() *httptest.ResponseRecorder)
	rows := map[string]struct {
		trouble act
		refused bool // definitely not written, and no use repeating
		fresh   bool // the next attempt has a fresh token
		silent  bool
	}{
		"hung up before": {trouble: func(w http.ResponseWriter, _ func() *httptest.ResponseRecorder) { hangUp(w) }},
		"hung up after":  {trouble: func(w http.ResponseWriter, do func() *httptest.ResponseRecorder) { do(); hangUp(w) }},
		"500 before": {trouble: func(w http.ResponseWriter, _ func() *httptest.ResponseRecorder) {
			answer(w, 500, "InternalServerError")
		}},
		"500 after": {trouble: func(w http.ResponseWriter, do func() *httptest.ResponseRecorder) {
			do()
			answer(w, 500, "InternalServerError")
		}},
		"503 of a proxy after": {trouble: func(w http.ResponseWriter, do func() *httptest.ResponseRecorder) {
			do()
			http.Error(w, "<html>", http.StatusServiceUnavailable)
		}},
		"half an answer after": {trouble: func(w http.ResponseWriter, do func() *httptest.ResponseRecorder) {
			do()
			w.Header().Set("Content-Length", "100")
			w.WriteHeader(200)
			io.WriteString(w, `{"Item`)
		}},
		"nonsense after": {trouble: func(w http.ResponseWriter, do func() *httptest.ResponseRecorder) { do(); io.WriteString(w, "<html>") }},
		"silence before": {silent: true, trouble: func(http.ResponseWriter, func() *httptest.ResponseRecorder) { time.Sleep(700 * time.Millisecond) }},
		"silence after": {silent: true, trouble: func(w http.ResponseWriter, do func() *httptest.ResponseRecorder) {
			do()
			time.Sleep(700 * time.Millisecond)
		}},
		"throttled": {trouble: func(w http.ResponseWriter, _ func() *httptest.ResponseRecorder) {
			answer(w, 400, "ThrottlingException")
		}},
		"429 of a proxy": {trouble: func(w http.ResponseWriter, _ func() *httptest.ResponseRecorder) {
			http.Error(w, "<html>", http.StatusTooManyRequests)
		}},
		"too much": {trouble: func(w http.ResponseWriter, _ func() *httptest.ResponseRecorder) {
			answer(w, 400, "ProvisionedThroughputExceededException")
		}},
		"in progress after": {trouble: func(w http.ResponseWriter, do func() *httptest.ResponseRecorder) {
			do()
			answer(w, 400, "TransactionInProgressException")
		}},
		"a collision": {fresh: true, trouble: func(w http.ResponseWriter, _ func() *httptest.ResponseRecorder) {
			w.WriteHeader(400)
			io.WriteString(w, `{"__type":"com.amazonaws.dynamodb.v20120810#TransactionCanceledException","Message":"m","CancellationReasons":[{"Code":"TransactionConflict","Message":"m"},{"Code":"None"},{"Code":"None"},{"Code":"ThrottlingError"},{"Code":"None"}]}`)
		}},
		"no permission": {refused: true, trouble: func(w http.ResponseWriter, _ func() *httptest.ResponseRecorder) {
			answer(w, 400, "AccessDeniedException")
		}},
		"expired token": {refused: true, trouble: func(w http.ResponseWriter, _ func() *httptest.ResponseRecorder) {
			answer(w, 400, "ExpiredTokenException")
		}},
		"not valid": {refused: true, trouble: func(w http.ResponseWriter, _ func() *httptest.ResponseRecorder) {
			answer(w, 400, "ValidationException")
		}},
		"no such table": {refused: true, trouble: func(w http.ResponseWriter, _ func() *httptest.ResponseRecorder) {
			answer(w, 400, "ResourceNotFoundException")
		}},
		"a strange code": {refused: true, trouble: func(w http.ResponseWriter, _ func() *httptest.ResponseRecorder) { answer(w, 400, "SomethingNew") }},
		"not one of ours": {refused: true, trouble: func(w http.ResponseWriter, _ func() *httptest.ResponseRecorder) {
			w.WriteHeader(400)
			io.WriteString(w, `{"__type":"com.amazonaws.dynamodb.v20120810#TransactionCanceledException","Message":"m","CancellationReasons":[{"Code":"ValidationError"},{"Code":"None"},{"Code":"None"},{"Code":"None"},{"Code":"None"}]}`)
		}},
	}
	h := &troubled{}
	client := emulatedBehind(t, func(service http.Handler) http.Handler { h.service = service; return h })
	patient := New(Config{Client: client, Tables: names, Now: clock})
	hasty := New(Config{Client: client, Tables: names, Now: clock, Attempt: 300 * time.Millisecond})
	for name, row := range rows {
		s := patient
		if row.silent {
			s = hasty
		}
		c := commitment(strings.ReplaceAll(name, " ", "_"))
		c.Space = history.Space(c.PlanRef)
		p := plan(c.PlanRef)
		p.Space = c.Space
		if err := s.CreatePlan(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		h.trouble, h.sent = []act{row.trouble, row.trouble}, nil
		err := s.Commit(t.Context(), c)
		h.mu.Lock()
		sent := h.sent
		h.mu.Unlock()
		head, headErr := s.Head(t.Context(), c.Space)
		if headErr != nil {
			t.Fatal(headErr)
		}
		if row.refused {
			var conflict *change.ConflictError
			if err == nil || errors.Is(err, history.ErrOutcomeUnknown) || errors.As(err, &conflict) || len(sent) != 1 || head.Version != 0 {
				t.Errorf("%s: %v after %d requests, head %d", name, err, len(sent), head.Version)
			}
			continue
		}
		if err != nil || len(sent) < 3 || (len(sent) > 3 && !row.silent) || head != c.Next {
			t.Errorf("%s: %v after %d requests, head %v", name, err, len(sent), head)
			continue
		}
		if same := sent[0] == sent[1] && sent[1] == sent[2]; same == row.fresh {
			t.Errorf("%s: requests are the same bytes: %v", name, same)
		}
	}
}
