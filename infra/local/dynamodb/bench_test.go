package dynamodb

import (
	"fmt"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"go.etcd.io/bbolt"
)

// The benchmarks report operations a second of eight SDK clients over HTTP, each
// operation synced on disk, beside a reference in the same run: eight goroutines
// that put the same number of bytes straight into a bbolt file, their writes
// grouped into synced commits in the same way.

const benchClients = 8

// together runs n operations by benchClients goroutines and returns the rate.
func together(b *testing.B, n int, operation func(client, i int) error) float64 {
	b.Helper()
	var next atomic.Int64
	var workers sync.WaitGroup
	start := time.Now()
	for client := range benchClients {
		workers.Go(func() {
			for i := int(next.Add(1)); i <= n; i = int(next.Add(1)) {
				if err := operation(client, i); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	workers.Wait()
	return float64(n) / time.Since(start).Seconds()
}

// reference is the rate of raw grouped commits with puts keys of size bytes each.
func reference(b *testing.B, n, puts, size int) float64 {
	b.Helper()
	db, err := bbolt.Open(filepath.Join(b.TempDir(), "reference.db"), 0o600, &bbolt.Options{FreelistType: bbolt.FreelistMapType})
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	bucket := []byte("items")
	if err := db.Update(func(tx *bbolt.Tx) error { _, err := tx.CreateBucket(bucket); return err }); err != nil {
		b.Fatal(err)
	}
	// The grouping is the service's own; only what runs inside is raw.
	s := &store{db: db, clock: time.Now, jobs: make(chan *job), done: make(chan struct{})}
	go s.write()
	value := make([]byte, size)
	rate := together(b, n, func(_, i int) error {
		_, err := s.update(func(w *writeTx) (any, *apiError) {
			items := w.tx.Bucket(bucket)
			for k := range puts {
				key := fmt.Appendf(nil, "%08x/%d", uint32(i)*2654435761, k) // spread like hashes
				w.do(func() error { return items.Put(key, value) })
			}
			return nil, nil
		})
		if err != nil {
			return err
		}
		return nil
	})
	close(s.jobs)
	<-s.done
	return rate
}

// commits counts the commits of a file so far.
func commits(db *bbolt.DB) (n int) {
	_ = db.View(func(tx *bbolt.Tx) error {
		n = tx.ID()
		return nil
	})
	return n
}

func report(b *testing.B, rate, reference float64, commits int) {
	b.Helper()
	b.ReportMetric(float64(b.N)/float64(max(1, commits)), "ops/commit")
	b.ReportMetric(rate, "ops/s")
	b.ReportMetric(reference, "reference-ops/s")
	b.ReportMetric(rate/reference, "of-reference")
}

func benchItem(i int) item {
	return item{
		"pk": str("item-" + strconv.Itoa(i)), "name": str("girder_check"), "generation": num(i),
		"digest": str("sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"),
	}
}

func BenchmarkPutItem(b *testing.B) {
	f := newFixture(b)
	f.table(b, "items", "S")
	clients, before := benchmarkClients(f), commits(f.service.store.db)
	b.ResetTimer()
	rate := together(b, b.N, func(c, i int) error {
		_, err := clients[c].PutItem(b.Context(), &sdk.PutItemInput{TableName: aws.String("items"), Item: benchItem(i)})
		return err
	})
	b.StopTimer()
	report(b, rate, reference(b, b.N, 1, 160), commits(f.service.store.db)-before)
}

func BenchmarkTransactWriteItemsOfFive(b *testing.B) {
	f := newFixture(b)
	f.table(b, "items", "S")
	clients, before := benchmarkClients(f), commits(f.service.store.db)
	b.ResetTimer()
	rate := together(b, b.N, func(c, i int) error {
		in := &sdk.TransactWriteItemsInput{ClientRequestToken: aws.String("token-" + strconv.Itoa(i))}
		for k := range 5 {
			in.TransactItems = append(in.TransactItems, types.TransactWriteItem{Put: &types.Put{
				TableName: aws.String("items"), Item: benchItem(5*i + k), ConditionExpression: aws.String("attribute_not_exists(pk)"),
			}})
		}
		_, err := clients[c].TransactWriteItems(b.Context(), in)
		return err
	})
	b.StopTimer()
	report(b, rate, reference(b, b.N, 5, 160), commits(f.service.store.db)-before)
}

func BenchmarkGetItem(b *testing.B) {
	f := newFixture(b)
	f.table(b, "items", "S")
	f.put(b, "items", benchItem(1))
	clients := benchmarkClients(f)
	b.ResetTimer()
	rate := together(b, b.N, func(c, _ int) error {
		_, err := clients[c].GetItem(b.Context(), &sdk.GetItemInput{TableName: aws.String("items"), Key: item{"pk": str("item-1")}})
		return err
	})
	b.ReportMetric(rate, "ops/s")
}

func benchmarkClients(f *fixture) []*sdk.Client {
	clients := make([]*sdk.Client, benchClients)
	for i := range clients {
		clients[i] = client(f.url)
	}
	return clients
}
