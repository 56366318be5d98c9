package acceptance

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// kill ends the processes of a function as a machine that loses its power would: they
// write nothing any more.
func (w *outerWorld) kill(function string) (killed int) {
	program := filepath.Join(w.site, ".build", "functions", function, "bootstrap")
	all, _ := filepath.Glob("/proc/[0-9]*/exe")
	for _, link := range all {
		if to, err := os.Readlink(link); err != nil || to != program {
			continue
		}
		if pid, err := strconv.Atoi(strings.Split(link, "/")[2]); err == nil && syscall.Kill(pid, syscall.SIGKILL) == nil {
			killed++
		}
	}
	return killed
}

// An adapter that dies when a request has left and before its end is written leaves an
// outcome that nobody knows. It is told as such, and neither the minute tick nor who asks
// again sends anything a second time.
//
// covers: A9, X6
func TestAnAdapterThatDiesBetweenSendAndRecordSendsNothingAgain(t *testing.T) {
	w := startWorld(t, nil, "--minute", "500ms")
	w.install(plugin(list{connectorTo("api", notesHost, "/pay", patient), connectorTo("mcp", mcpHost, "/mcp", patient, m{"protocol": "mcp"})}, list{
		skill("pay.http", 8, m{"adapter": "http_json", "connector_id": "api", "method": "POST", "request_body": m{"amount": "{arguments.amount}"}}),
		skill("pay.mcp", 8, m{"adapter": "mcp_http", "connector_id": "mcp", "tool_name": "pay", "protocol_version": "2025-11-25"}),
	}))
	type count struct {
		killed, calls atomic.Int32
		once          sync.Once
		dead          chan struct{}
	}
	counts := map[string]*count{"adapter_http_json": {dead: make(chan struct{})}, "adapter_mcp_http": {dead: make(chan struct{})}}
	dies := func(function string, r *http.Request) {
		n := counts[function]
		n.calls.Add(1)
		n.killed.Add(int32(w.kill(function)))
		n.once.Do(func() { close(n.dead) })
		<-r.Context().Done() // its connection is gone with it
	}
	w.on(notesHost+"/pay", func(_ http.ResponseWriter, r *http.Request) { dies("adapter_http_json", r) })
	w.on(mcpHost+"/mcp", func(out http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		switch body := string(text); {
		case strings.Contains(body, `"initialize"`):
			says(200, `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"x","version":"1"}}}`)(out, r)
		case strings.Contains(body, "initialized"):
			out.WriteHeader(202)
		default:
			dies("adapter_mcp_http", r)
		}
	})
	// Tokens and keys are made one by one.
	w.token(t, "engineer")
	var callers sync.WaitGroup
	answers := map[string][]executed{"pay.http": make([]executed, 4), "pay.mcp": make([]executed, 4)}
	functions := map[string]string{"pay.http": "adapter_http_json", "pay.mcp": "adapter_mcp_http"}
	for capability, all := range answers {
		for i := range all { // of one key: three at once, and one while there is time and nobody has written an end
			callers.Go(func() {
				if i == len(all)-1 {
					select {
					case <-counts[functions[capability]].dead:
					case <-time.After(60 * time.Second):
						t.Errorf("%s: nothing was sent", capability)
						return
					}
				}
				all[i] = w.call(capability, m{"amount": 7}, "pay")
			})
		}
	}
	callers.Wait()
	for capability, function := range functions {
		id, last := answers[capability][0].ExecutionID, executed{}
		for deadline := time.Now().Add(60 * time.Second); ; time.Sleep(200 * time.Millisecond) {
			if last = w.look(id); last.State != "running" || time.Now().After(deadline) {
				break
			}
		}
		if n := counts[function].killed.Load(); last.State != "outcome_unknown" || last.code() != "EXTENSION_OUTCOME_UNKNOWN" || last.Failure.Retryable || n < 1 {
			t.Errorf("%s: %s after %d kills", capability, last.body, n)
		}
		for range 2 { // who asks again is told the same
			if again := w.call(capability, m{"amount": 7}, "pay"); again.ExecutionID != id || again.State != "outcome_unknown" {
				t.Errorf("%s: %s", capability, again.body)
			}
		}
		for _, a := range answers[capability] {
			if a.ExecutionID != id {
				t.Errorf("%s: one key, two executions: %s", capability, a.body)
			}
		}
	}
	time.Sleep(2 * time.Second) // four ticks
	for function, n := range counts {
		if n.calls.Load() != 1 {
			t.Errorf("%s sent %d times", function, n.calls.Load())
		}
	}
	// The function is none the worse for it.
	w.on(notesHost+"/pay", says(200, `{"message":"s"}`))
	if e := w.call("pay.http", m{"amount": 7}, "another"); e.State != "succeeded" {
		t.Error(e.body)
	}
}
