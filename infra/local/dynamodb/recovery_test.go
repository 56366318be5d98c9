package dynamodb

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/bbolt"
)

// The recovery test kills a process in the middle of its writes. The process is
// this test binary, told by childVariable to be writeUntilKilled.
const childVariable = "PX_DYNAMODB_RECOVERY_CHILD"

const recoveryWorkers = 6

func TestMain(m *testing.M) {
	if path := os.Getenv(childVariable); path != "" {
		writeUntilKilled(path)
		return
	}
	os.Exit(m.Run())
}

const recoveryTable = `{"TableName":"items","BillingMode":"PAY_PER_REQUEST",
	"AttributeDefinitions":[{"AttributeName":"pk","AttributeType":"S"},{"AttributeName":"sk","AttributeType":"S"},{"AttributeName":"g","AttributeType":"S"}],
	"KeySchema":[{"AttributeName":"pk","KeyType":"HASH"},{"AttributeName":"sk","KeyType":"RANGE"}],
	"GlobalSecondaryIndexes":[{"IndexName":"by_g","KeySchema":[{"AttributeName":"g","KeyType":"HASH"}],"Projection":{"ProjectionType":"KEYS_ONLY"}}]}`

// recoveryWrite is the n-th write of a worker: one transaction that counts and
// adds two items, or a single item.
func recoveryWrite(worker, n int) (operation, body string) {
	if n%3 == 0 {
		return "PutItem", fmt.Sprintf(`{"TableName":"items","Item":{"pk":{"S":"%d"},"sk":{"S":"single %d"}},"ConditionExpression":"attribute_not_exists(pk)"}`, worker, n)
	}
	return "TransactWriteItems", fmt.Sprintf(`{"ClientRequestToken":"worker %[1]d write %[2]d","TransactItems":[
		{"Update":{"TableName":"items","Key":{"pk":{"S":"%[1]d"},"sk":{"S":"count"}},"UpdateExpression":"ADD n :one","ExpressionAttributeValues":{":one":{"N":"1"}}}},
		{"Put":{"TableName":"items","Item":{"pk":{"S":"%[1]d"},"sk":{"S":"left %[2]d"},"g":{"S":"%[1]d"}}}},
		{"Put":{"TableName":"items","Item":{"pk":{"S":"%[1]d"},"sk":{"S":"right %[2]d"},"g":{"S":"%[1]d"},"v":{"S":"%[3]s"}}}}]}`,
		worker, n, strings.Repeat("x", 300))
}

// writeUntilKilled writes with several workers and reports each write that was
// answered as a line "worker n". It goes on from PX_DYNAMODB_RECOVERY_FROM.
func writeUntilKilled(path string) {
	s, err := Open(Options{Path: path})
	if err != nil {
		panic(err)
	}
	var starts []int
	for _, n := range strings.Fields(os.Getenv("PX_DYNAMODB_RECOVERY_FROM")) {
		start, _ := strconv.Atoi(n)
		starts = append(starts, start)
	}
	var workers sync.WaitGroup
	for worker, n := range starts {
		workers.Go(func() {
			for ; ; n++ {
				operation, body := recoveryWrite(worker, n)
				if status, answer := s.Do(context.Background(), operation, []byte(body)); status != http.StatusOK {
					fmt.Printf("failed %s\n", answer)
					os.Exit(1)
				}
				fmt.Printf("%d %d\n", worker, n)
			}
		})
	}
	workers.Wait()
}

// covers: H1
func TestNothingAnsweredIsLostAndNothingIsHalfThereAfterAKill(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dynamodb.db")
	do := func(s *Service, operation, body string) answer {
		status, text := s.Do(t.Context(), operation, []byte(body))
		return parseAnswer(t, status, text)
	}
	open := func() *Service {
		s, err := Open(Options{Path: path})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := open()
	if a := do(s, "CreateTable", recoveryTable); a.failed() {
		t.Fatal(a)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	answered := make([]int, recoveryWorkers) // the last write of each worker that is known to be there
	total := 0
	for range 6 {
		n := killAWriter(t, path, answered)
		total += n
		s := open()
		for worker, n := range answered {
			checkWorker(t, s, do, worker, n)
			// The write that was under way may or may not have happened. Sent
			// again, it has happened once.
			operation, body := recoveryWrite(worker, n+1)
			if a := do(s, operation, body); a.failed() && !(operation == "PutItem" && a.kind() == "ConditionalCheckFailedException") {
				t.Errorf("worker %d, write %d sent again: %s", worker, n+1, a)
			}
			answered[worker]++
			checkWorker(t, s, do, worker, n+1)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d writes were answered before six kills", total)
	if total == 0 {
		t.Error("no write was answered: nothing was tested")
	}
}

// killAWriter runs a writer for a moment, kills it, and brings answered up to
// date with what it reported. It returns the number of writes reported.
func killAWriter(t *testing.T, path string, answered []int) (reported int) {
	t.Helper()
	var from []string
	for _, n := range answered {
		from = append(from, strconv.Itoa(n+1))
	}
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childVariable+"="+path, "PX_DYNAMODB_RECOVERY_FROM="+strings.Join(from, " "))
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	kill := time.AfterFunc(10*time.Second, func() { child.Process.Kill() }) // if it reports nothing
	defer kill.Stop()
	lines := bufio.NewScanner(out)
	limit := 20 + rand.IntN(150)
	for lines.Scan() {
		worker, n, ok := strings.Cut(lines.Text(), " ")
		w, err := strconv.Atoi(worker)
		if !ok || err != nil {
			t.Errorf("the writer reports %q", lines.Text())
			break
		}
		answered[w], _ = strconv.Atoi(n)
		if reported++; reported == limit {
			child.Process.Kill() // SIGKILL; what it has reported so far is still read
		}
	}
	child.Process.Kill()
	child.Wait()
	return reported
}

// checkWorker checks that the worker's writes up to n are there, that at most
// the next one is, and that none is there in part.
func checkWorker(t *testing.T, s *Service, do func(*Service, string, string) answer, worker, n int) {
	t.Helper()
	exists := func(sk string) bool {
		a := do(s, "GetItem", fmt.Sprintf(`{"TableName":"items","Key":{"pk":{"S":"%d"},"sk":{"S":"%s"}}}`, worker, sk))
		return a.body["Item"] != nil
	}
	transactions := 0
	for i := 1; i <= n+2; i++ {
		var there bool
		if i%3 == 0 {
			there = exists(fmt.Sprint("single ", i))
		} else {
			there = exists(fmt.Sprint("left ", i))
			if right := exists(fmt.Sprint("right ", i)); right != there {
				t.Errorf("worker %d, write %d is there in part: left %t, right %t", worker, i, there, right)
			}
			if there {
				transactions++
			}
		}
		if i <= n && !there {
			t.Errorf("worker %d, write %d was answered and is gone", worker, i)
		}
		if i > n+1 && there {
			t.Errorf("worker %d, write %d is there before the one before it was answered", worker, i)
		}
	}
	count := do(s, "GetItem", fmt.Sprintf(`{"TableName":"items","Key":{"pk":{"S":"%d"},"sk":{"S":"count"}}}`, worker))
	got := "0"
	if item, ok := count.body["Item"].(map[string]any); ok {
		got = item["n"].(map[string]any)["N"].(string)
	}
	if got != strconv.Itoa(transactions) {
		t.Errorf("worker %d: %d transactions are there, %s were counted", worker, transactions, got)
	}
	index := do(s, "Query", fmt.Sprintf(`{"TableName":"items","IndexName":"by_g","KeyConditionExpression":"g = :g","ExpressionAttributeValues":{":g":{"S":"%d"}},"Select":"COUNT"}`, worker))
	if got := index.body["Count"]; got != float64(2*transactions) {
		t.Errorf("worker %d: the index has %v items, the table %d", worker, got, 2*transactions)
	}
}

// covers: H1
func TestAnUnansweredTransactionSentAgainAfterARestartHappensOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dynamodb.db")
	for restart := range 3 {
		s, err := Open(Options{Path: path})
		if err != nil {
			t.Fatal(err)
		}
		if restart == 0 {
			s.Do(t.Context(), "CreateTable", []byte(`{"TableName":"items","BillingMode":"PAY_PER_REQUEST","AttributeDefinitions":[{"AttributeName":"pk","AttributeType":"S"}],"KeySchema":[{"AttributeName":"pk","KeyType":"HASH"}]}`))
		}
		status, text := s.Do(t.Context(), "TransactWriteItems", []byte(`{"ClientRequestToken":"once","TransactItems":[{"Update":{"TableName":"items","Key":{"pk":{"S":"a"}},"UpdateExpression":"ADD n :one","ExpressionAttributeValues":{":one":{"N":"1"}}}}]}`))
		if status != http.StatusOK {
			t.Fatalf("%s", text)
		}
		status, text = s.Do(t.Context(), "GetItem", []byte(`{"TableName":"items","Key":{"pk":{"S":"a"}}}`))
		if want := `{"Item":{"n":{"N":"1"},"pk":{"S":"a"}}}`; status != http.StatusOK || string(text) != want {
			t.Errorf("start %d: %s, want %s", restart, text, want)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// covers: H1
func TestAFileIsOpenOnceAndInItsOwnFormat(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dynamodb.db")
	s, err := Open(Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	if db := s.store.db; db.NoSync || db.NoGrowSync || db.NoFreelistSync {
		t.Error("commits are not synced")
	}
	if _, err := Open(Options{Path: path}); err == nil || !strings.Contains(err.Error(), "timeout") {
		t.Errorf("a second opening: %v", err)
	}
	_ = s.store.db.Update(func(tx *bbolt.Tx) error { return tx.Bucket(bucketMeta).Put(keyFormat, []byte("0")) })
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("closed twice: %v", err)
	}
	if status, _ := s.Do(t.Context(), "ListTables", []byte("{}")); status != http.StatusInternalServerError {
		t.Errorf("a closed service answers %d", status)
	}
	if _, err := Open(Options{Path: path}); err == nil || !strings.Contains(err.Error(), "format") {
		t.Errorf("a foreign format: %v", err)
	}
	if _, err := Open(Options{}); err == nil {
		t.Error("opened without a path")
	}
}
