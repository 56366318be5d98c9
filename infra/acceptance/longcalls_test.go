package acceptance

import (
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/pxhost/pxhost/shared/capability/execution"
)

// A caller waits 20 seconds and not longer, and what he asked for goes on without him.
// Who asks for the end of what is at work outside is told what came of it.
//
// covers: C6, A9
func TestACallThatTakesLongerThanItsCallerWaits(t *testing.T) {
	t.Parallel()
	w := startWorld(t, nil)
	slowly := func(path string) m {
		return m{"adapter": "http_json", "connector_id": path, "method": "POST", "request_body": m{"query": "{query}"}, "response": m{"summary_path": "message"}}
	}
	w.install(plugin(list{connectorTo("long", notesHost, "/long"), connectorTo("brief", notesHost, "/brief")},
		list{skill("slow.long", 60, slowly("long")), skill("slow.brief", 60, slowly("brief"))}))
	after := func(d time.Duration) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			select {
			case <-time.After(d):
				w.Header().Set("Content-Type", "application/json")
				io.WriteString(w, `{"message":"done"}`)
			case <-r.Context().Done():
			}
		}
	}
	w.on(notesHost+"/long", after(24*time.Second))
	w.on(notesHost+"/brief", after(3*time.Second))
	w.token(t, "engineer")
	id := func(capability, key string) string {
		return execution.Request{Actor: w.actor, InstanceID: w.id, CapabilityID: capability, Key: key}.ID()
	}

	var done sync.WaitGroup
	done.Go(func() { // asked to end while it is at work
		done.Go(func() { w.call("slow.brief", m{"query": "x"}, "brief") })
		begun := func() bool {
			return w.look(id("slow.brief", "brief")).State == "running" && w.asked(notesHost+"/brief") == 1
		}
		if !eventually(begun) {
			t.Error("the call did not begin")
			return
		}
		status, _, e := w.decide(t, w.token(t, "engineer"), "POST", "/v1/executions/"+id("slow.brief", "brief")+"/cancel", "{}")
		if got := w.executed(status, e); got.status != 202 || got.State != "running" {
			t.Errorf("asked to end: %d %s", got.status, got.body)
		}
		if !eventually(func() bool { return w.look(id("slow.brief", "brief")).State != "running" }) {
			t.Error("it does not end")
		}
		if got := w.look(id("slow.brief", "brief")); got.State != "succeeded" || got.Result.Summary != "done" {
			t.Errorf("what happened outside is not told: %s", got.body)
		}
	})
	began := time.Now()
	first := w.call("slow.long", m{"query": "x"}, "long")
	if waited := time.Since(began); first.status != 202 || first.State != "running" || waited < 19*time.Second || waited > 25*time.Second {
		t.Errorf("%d after %v: %s", first.status, waited, first.body)
	}
	// Who asks again under the same key waits for the same.
	again := w.call("slow.long", m{"query": "x"}, "long")
	if again.status != 200 || again.ExecutionID != first.ExecutionID || again.State != "succeeded" || again.Result.Summary != "done" {
		t.Errorf("%d %s", again.status, again.body)
	}
	if got := w.look(first.ExecutionID); got.status != 200 || got.State != "succeeded" {
		t.Errorf("%d %s", got.status, got.body)
	}
	if n := w.asked(notesHost + "/long"); n != 1 {
		t.Errorf("the service was asked %d times", n)
	}
	done.Wait()
	if n := w.asked(notesHost + "/brief"); n != 1 {
		t.Errorf("the service was asked %d times", n)
	}
}

// asked is how often a place was asked.
func (w *outerWorld) asked(place string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, s := range w.seen {
		if s.host+s.uri == place {
			n++
		}
	}
	return n
}
