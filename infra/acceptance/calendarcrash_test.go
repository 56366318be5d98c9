//go:build linux

package acceptance

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pxhost/pxhost/shared/capability"
)

// Wherever the host is killed while reminders are set and told, each item is there once,
// with its reminder, exactly if its execution has succeeded, and each reminder is told
// once.
//
// covers: A2, U5, X3
func TestNoReminderIsLostOrDoubledWhereverTheHostIsKilled(t *testing.T) {
	t.Parallel()
	random := crashRandom(t)
	s := newSite(t, random)
	h := s.mustLaunch(t)
	h.mayIn(t, "engineer", capability.Use)
	h.mayIn(t, "reviewer", capability.Use, capability.Manage)
	id := h.person(t, "reviewer").install(t, "study", strings.ReplaceAll(studyPlugin, `"timeout_seconds":30,`, `"timeout_seconds":10,`), "storage", "notifications")
	kill := func() {
		h.process.Process.Kill()
		<-h.ended
	}
	kill()
	var succeeded []string
	for _, point := range []string{"dynamodb.committing", "dynamodb.committed", "lambda.answered", "lambda.attempt", "schedule.sent", "apigateway.answered"} {
		if *crashPoint != "" && !strings.HasPrefix(point, *crashPoint) {
			continue
		}
		kind, _, _ := strings.Cut(point, ".")
		name := fmt.Sprintf("%s:%d", point, 1+random.IntN(map[string]int{"dynamodb": 40, "lambda": 8, "schedule": 2, "apigateway": 6}[kind]))
		if point == "lambda.attempt" { // of minutes, which are few
			name = fmt.Sprintf("%s:%d", point, 1+random.IntN(2))
		}
		var ready bool
		if h, ready = s.launch(t, nil, "--failpoint", name); !ready {
			h.died(t)
		}
		// What is sent until the host is gone, and answered or not.
		order := func(n int) (key string, arguments m) {
			arguments = m{"itemId": fmt.Sprint(point, " ", n), "title": fmt.Sprint(point, " ", n), "at": time.Now().UTC().Truncate(time.Hour).Format(time.RFC3339)}
			return fmt.Sprint(point, n), arguments
		}
		var sent []m
		ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
		go func() { <-h.ended; stop() }()
		for n := 0; ready && ctx.Err() == nil && n < 60; n++ {
			key, arguments := order(n)
			body := m{"arguments": arguments, "surface": "ai", "idempotencyKey": key}
			sent = append(sent, body)
			request, err := http.NewRequestWithContext(ctx, "POST", h.URL+"/v1/capabilities/"+id+"/study.remind/invoke", strings.NewReader(encode(t, body)))
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("Authorization", "Bearer "+s.token)
			request.Header.Set("Content-Type", "application/json")
			answer, err := client.Do(request)
			if err != nil {
				break // the host is gone
			}
			answer.Body.Close()
		}
		select {
		case <-h.ended:
			h.died(t)
		case <-time.After(30 * time.Second):
			t.Fatalf("%s was not hit", name)
		}
		stop()
		h = s.mustLaunch(t)
		model := plugClient{h, s.token}
		for _, body := range sent {
			item := body["arguments"].(m)["itemId"].(string)
			a := model.do(t, id, "study.remind", body["idempotencyKey"].(string), body["arguments"].(m))
			switch {
			case a.at("state") == "succeeded" && a.at("result", "data", "item", "version") == "1":
				succeeded = append(succeeded, item+"/")
			case a.at("failure", "code") != "EXTENSION_TIMEOUT":
				t.Errorf("%s, %s: %+v", name, item, a.envelope)
			}
		}
		slices.Sort(succeeded)
		var told []string
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(200 * time.Millisecond) {
			told = model.notified(t)
			slices.Sort(told)
			if len(told) >= len(succeeded) || time.Now().After(deadline) {
				break
			}
		}
		if !slices.Equal(told, succeeded) {
			t.Errorf("%s: told is %q, and there is %q", name, told, succeeded)
		}
		list := model.do(t, id, "study.list", "list "+point, m{"limit": 200})
		if list.at("result", "data", "total") != fmt.Sprint(len(succeeded)) {
			t.Errorf("%s: there are %s items, want %d", name, list.at("result", "data", "total"), len(succeeded))
		}
		t.Logf("%s: %d were sent, and %d reminders are told in all", name, len(sent), len(told))
		kill()
		if t.Failed() {
			return
		}
	}
	if len(succeeded) == 0 {
		t.Error("no reminder was ever set")
	}
}
