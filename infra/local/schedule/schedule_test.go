package schedule

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// covers: H2
func TestRulesFireEachPeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var mu sync.Mutex
		var fired, logged []string
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			Run(ctx, Options{
				Rules:  []Rule{{ARN: "one", Every: time.Minute, Function: "a"}, {ARN: "five", Every: 5 * time.Minute, Function: "b", Input: json.RawMessage("{}")}},
				Region: "r", AccountID: "0",
				Invoke: func(f string, p []byte) error {
					mu.Lock()
					defer mu.Unlock()
					fired = append(fired, fmt.Sprint(f, " ", time.Since(start)))
					if f == "b" {
						return errors.New("throttled")
					}
					return nil
				},
				Log: func(l string) { mu.Lock(); defer mu.Unlock(); logged = append(logged, l) },
			})
		}()
		time.Sleep(6*time.Minute + time.Second)
		cancel()
		<-done
		slices.Sort(fired)
		if want := []string{"a 1m0s", "a 2m0s", "a 3m0s", "a 4m0s", "a 5m0s", "a 6m0s", "b 5m0s"}; !reflect.DeepEqual(fired, want) {
			t.Errorf("fired %v", fired)
		}
		if want := []string{"schedule five: throttled"}; !reflect.DeepEqual(logged, want) {
			t.Errorf("logged %v", logged)
		}
	})
}

func TestEvent(t *testing.T) {
	var got map[string]any
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.FixedZone("", 3600))
	if err := json.Unmarshal(Event(Rule{ARN: "arn:rule"}, "us-east-1", "000000000000", at), &got); err != nil {
		t.Fatal(err)
	}
	if id, _ := got["id"].(string); len(id) != 36 {
		t.Errorf("id %q", id)
	}
	delete(got, "id")
	want := map[string]any{
		"version": "0", "detail-type": "Scheduled Event", "source": "aws.events", "account": "000000000000", "time": "2026-01-02T02:04:05Z",
		"region": "us-east-1", "resources": []any{"arn:rule"}, "detail": map[string]any{},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%v", got)
	}
	if in := Event(Rule{Input: json.RawMessage(`{"a":1}`)}, "", "", at); string(in) != `{"a":1}` {
		t.Errorf("input %s", in)
	}
}
