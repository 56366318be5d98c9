package states

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/bbolt"
)

const clients = 8

func eightClients(b *testing.B, work func(n int64)) {
	b.SetParallelism((clients + runtime.GOMAXPROCS(0) - 1) / runtime.GOMAXPROCS(0))
	var n atomic.Int64
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			work(n.Add(1))
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "op/s")
}

// The reference: one small synced bbolt update an operation, from eight
// clients, one transaction each (which is what bbolt does by itself) and over
// this package's group commit.
func BenchmarkReferenceUpdates(b *testing.B) {
	value := make([]byte, 500)
	put := func(tx *bbolt.Tx, n int64) error {
		return tx.Bucket(bucketHistory).Put(seqKey(uint64(n)), value)
	}
	for name, update := range map[string]func(*store, int64) error{
		"one transaction each": func(s *store, n int64) error {
			return s.db.Update(func(tx *bbolt.Tx) error { return put(tx, n) })
		},
		"group commit": func(s *store, n int64) error { return s.update(func(tx *bbolt.Tx) error { return put(tx, n) }) },
	} {
		b.Run(name, func(b *testing.B) {
			s, err := openStore(filepath.Join(b.TempDir(), "bench.db"))
			if err != nil {
				b.Fatal(err)
			}
			defer s.close()
			eightClients(b, func(n int64) {
				if err := update(s, n); err != nil {
					b.Error(err)
				}
			})
		})
	}
}

// One operation is a whole execution: StartExecution, three Tasks of a function
// that does nothing, and the end, seen by the client. It is at least five synced
// steps (start, three calls, end).
func BenchmarkThreeTasks(b *testing.B) {
	h := newHost(b, functions{"f": answers(`{"ok":true}`)})
	m := h.create("m", machine("A", `
		"A":{`+callF+`,"Assign":{"a":"{% $states.result.Payload.ok %}"},"Output":"{% $states.input %}","Next":"B"},
		"B":{`+callF+`,"Output":"{% $states.input %}","Next":"C"},
		"C":{`+callF+`,"Output":{"ok":"{% $a %}"},"End":true}`))
	eightClients(b, func(n int64) {
		arn := h.start(m, fmt.Sprint("e", n), `{"project":"ws/proj","runRef":"run_1"}`)
		for {
			text, err := h.Do(b.Context(), "DescribeExecution", []byte(`{"executionArn":"`+arn+`"}`))
			if err != nil {
				b.Error(err)
				return
			}
			var out struct{ Status string }
			if err := json.Unmarshal(text, &out); err != nil {
				b.Error(err)
			}
			if out.Status == statusSucceeded {
				return
			}
			time.Sleep(500 * time.Microsecond)
		}
	})
}

// BenchmarkOpen is a start with thousands of executions that have ended.
func BenchmarkOpen(b *testing.B) {
	path := filepath.Join(b.TempDir(), "states.db")
	h := open(b, path, functions{})
	m := h.create("m", passing)
	arns := make(chan string, 5000)
	for i := range 2000 {
		arns <- h.start(m, fmt.Sprint("e", i), `{}`)
	}
	close(arns)
	for arn := range arns {
		h.wait(arn)
	}
	h.Close()
	for b.Loop() {
		h := open(b, path, functions{})
		h.Close()
	}
}

// One operation is a Map Run of 1,000 children, 50 at once, each three Tasks of
// a function that does nothing, its items from an object of a line each. Heap is
// what lives at most while it runs (seen every 5 ms, after the last collection),
// file the size of states.db when it is over. The reference is
// BenchmarkThreeTasks, whose operation is one such child.
func BenchmarkDistributedMap(b *testing.B) {
	const children = 1000
	var lines strings.Builder
	for i := range children {
		fmt.Fprintf(&lines, `{"caseKey":"c%d","inputs":{"span":{"value":%d,"unit":"ft"}}}`+"\n", i, 40+i)
	}
	path := filepath.Join(b.TempDir(), "states.db")
	h := open(b, path, functions{"f": answers(`{"ok":true}`)}, withObjects(objects{"b/cases": lines.String()}))
	defer h.Close()
	m := h.create("m", distributedMap(readerOf(`"InputType":"JSONL"`)+`,"MaxConcurrency":50,"ToleratedFailurePercentage":100`, "A", `
		"A":{`+callF+`,"Assign":{"a":"{% $states.result.Payload.ok %}"},"Output":"{% $states.input %}","Next":"B"},
		"B":{`+callF+`,"Output":"{% $states.input %}","Next":"C"},
		"C":{`+callF+`,"Output":{"ok":"{% $a %}"},"End":true}`))
	var most uint64
	for n := 0; b.Loop(); n++ {
		arn := h.start(m, fmt.Sprint("e", n), `{"key":"cases"}`)
		sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		for {
			out := h.do("DescribeExecution", map[string]any{"executionArn": arn})
			metrics.Read(sample)
			most = max(most, sample[0].Value.Uint64())
			if out["status"] == statusSucceeded {
				break
			}
			if out["status"] != statusRunning {
				b.Fatal(out)
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	b.ReportMetric(float64(b.N)*children/b.Elapsed().Seconds(), "children/s")
	b.ReportMetric(float64(most)/(1<<20), "MB-heap")
	if info, err := os.Stat(path); err == nil {
		b.ReportMetric(float64(info.Size())/(1<<20), "MB-file")
	}
}
