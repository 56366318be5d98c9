package dynamodb

import (
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
)

// conflict tells whether a write has met another on the same item.
func conflict(err error) bool {
	var api smithy.APIError
	return errors.As(err, &api) && (api.ErrorCode() == "TransactionConflictException" ||
		api.ErrorCode() == "TransactionCanceledException" && strings.Contains(api.ErrorMessage(), "TransactionConflict"))
}

// covers: H1
func TestOneOfManyConditionalPutsWins(t *testing.T) {
	f := newFixture(t)
	f.table(t, "items", "S")
	for round := range 5 {
		key := item{"pk": str(strconv.Itoa(round))}
		var winners, losers atomic.Int32
		var all sync.WaitGroup
		for client := range 32 {
			all.Go(func() {
				_, err := f.PutItem(t.Context(), &sdk.PutItemInput{
					TableName: aws.String("items"), Item: item{"pk": key["pk"], "by": num(client)}, ConditionExpression: aws.String("attribute_not_exists(pk)"),
				})
				var failed *types.ConditionalCheckFailedException
				switch {
				case err == nil:
					winners.Add(1)
				case errors.As(err, &failed):
					losers.Add(1)
				default:
					t.Error(err)
				}
			})
		}
		all.Wait()
		if winners.Load() != 1 || losers.Load() != 31 {
			t.Errorf("%d won, %d lost", winners.Load(), losers.Load())
		}
	}
}

// covers: H1
func TestTransactionsThatMoveMoneyKeepTheSum(t *testing.T) {
	const accounts, clients, moves = 6, 8, 40
	f := newFixture(t)
	f.table(t, "accounts", "S")
	key := func(i int) item { return item{"pk": str(strconv.Itoa(i))} }
	for i := range accounts {
		f.put(t, "accounts", item{"pk": str(strconv.Itoa(i)), "balance": num(100)})
	}
	balances := func() (sum int, negative bool) {
		in := &sdk.TransactGetItemsInput{}
		for i := range accounts {
			in.TransactItems = append(in.TransactItems, types.TransactGetItem{Get: &types.Get{TableName: aws.String("accounts"), Key: key(i)}})
		}
		out, err := f.TransactGetItems(t.Context(), in)
		if err != nil {
			t.Error(err)
			return 0, false
		}
		for _, r := range out.Responses {
			n, _ := strconv.Atoi(r.Item["balance"].(*types.AttributeValueMemberN).Value)
			sum, negative = sum+n, negative || n < 0
		}
		return sum, negative
	}
	var moved, refused, conflicts atomic.Int32
	var writers, reader sync.WaitGroup
	stop := make(chan struct{})
	reader.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				if sum, negative := balances(); sum != accounts*100 || negative {
					t.Errorf("in between, the sum is %d, negative %t", sum, negative)
					return
				}
			}
		}
	})
	for range clients {
		writers.Go(func() {
			for range moves {
				from := rand.IntN(accounts)
				to := (from + 1 + rand.IntN(accounts-1)) % accounts
				amount := item{":n": num(1 + rand.IntN(60))}
				debit := updateAction("accounts", key(from), "SET balance = balance - :n", amount)
				debit.Update.ConditionExpression = aws.String("balance >= :n")
				err := f.transact(t, "", debit, updateAction("accounts", key(to), "SET balance = balance + :n", amount))
				for conflict(err) {
					conflicts.Add(1)
					err = f.transact(t, "", debit, updateAction("accounts", key(to), "SET balance = balance + :n", amount))
				}
				var cancelled *types.TransactionCanceledException
				switch {
				case err == nil:
					moved.Add(1)
				case errors.As(err, &cancelled):
					refused.Add(1) // not enough money
				default:
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	close(stop)
	reader.Wait()
	if sum, negative := balances(); sum != accounts*100 || negative {
		t.Errorf("the sum is %d, negative %t", sum, negative)
	}
	t.Logf("%d moved, %d refused, %d conflicts", moved.Load(), refused.Load(), conflicts.Load())
	if moved.Load() == 0 || moved.Load()+refused.Load() != clients*moves {
		t.Errorf("%d moved and %d refused of %d", moved.Load(), refused.Load(), clients*moves)
	}
}

// covers: H1
func TestIncrementsAreNotLost(t *testing.T) {
	const clients, each = 8, 25
	f := newFixture(t)
	f.table(t, "items", "S")
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			for range each {
				_, err := f.UpdateItem(t.Context(), &sdk.UpdateItemInput{
					TableName: aws.String("items"), Key: item{"pk": str("a")}, UpdateExpression: aws.String("ADD n :one"), ExpressionAttributeValues: item{":one": num(1)},
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if got := f.get(t, "items", item{"pk": str("a")}); !same(got, item{"pk": str("a"), "n": num(clients * each)}) {
		t.Errorf("got %s", showItem(got))
	}
}

// group runs jobs in one commit, in order, however slow the machine is.
func group(t *testing.T, s *Service, jobs ...func(*writeTx) (any, *apiError)) []*job {
	t.Helper()
	var list []*job
	for _, run := range jobs {
		list = append(list, &job{run: run, ended: make(chan struct{})})
	}
	// The writer holds the file only while it commits; with no request under
	// way, this commit is like one of its own.
	s.store.commit(list)
	return list
}

func singleJob(w *write) func(*writeTx) (any, *apiError) {
	return func(tx *writeTx) (any, *apiError) {
		if err := w.bind(&tx.readTx); err != nil {
			return nil, err
		}
		return nil, w.single(tx)
	}
}

func transactionJob(actions ...*write) func(*writeTx) (any, *apiError) {
	return func(tx *writeTx) (any, *apiError) {
		return runTransaction(tx, actions, &transactWriteItemsInput{}, nil)
	}
}

func plainPut(t *testing.T, key, condition string) *write {
	t.Helper()
	w := &write{verb: verbPut, tableName: "items"}
	if condition != "" {
		w.sources = []source{{conditionMember, &condition}}
	}
	if err := w.prepare(rawItem{{"pk", rawValue{{kind: 1, text: key}}}}, nil); err != nil {
		t.Fatal(err)
	}
	return w
}

// covers: H1
func TestWritesThatShareACommitConflictOnlyWithTransactions(t *testing.T) {
	for _, c := range []struct {
		name string
		jobs func(*testing.T) []func(*writeTx) (any, *apiError)
		want []string // error types and messages; "" for success
	}{
		{"two single writes do not conflict", func(t *testing.T) []func(*writeTx) (any, *apiError) {
			return []func(*writeTx) (any, *apiError){singleJob(plainPut(t, "a", "")), singleJob(plainPut(t, "a", "attribute_exists(pk)"))}
		}, []string{"", ""}},
		{"a failed condition leaves the others of its commit alone", func(t *testing.T) []func(*writeTx) (any, *apiError) {
			return []func(*writeTx) (any, *apiError){singleJob(plainPut(t, "a", "")), singleJob(plainPut(t, "b", "attribute_exists(pk)")), singleJob(plainPut(t, "c", ""))}
		}, []string{"", "ConditionalCheckFailedException", ""}},
		{"two transactions on different items do not conflict", func(t *testing.T) []func(*writeTx) (any, *apiError) {
			return []func(*writeTx) (any, *apiError){transactionJob(plainPut(t, "a", "")), transactionJob(plainPut(t, "b", ""))}
		}, []string{"", ""}},
		{"the later of two transactions on one item conflicts, in the item's place", func(t *testing.T) []func(*writeTx) (any, *apiError) {
			return []func(*writeTx) (any, *apiError){transactionJob(plainPut(t, "a", "")), transactionJob(plainPut(t, "b", ""), plainPut(t, "a", ""))}
		}, []string{"", "TransactionCanceledException [None, TransactionConflict]"}},
		{"a single write conflicts with a transaction before it", func(t *testing.T) []func(*writeTx) (any, *apiError) {
			return []func(*writeTx) (any, *apiError){transactionJob(plainPut(t, "a", "")), singleJob(plainPut(t, "a", "")), singleJob(plainPut(t, "b", ""))}
		}, []string{"", "TransactionConflictException", ""}},
		{"a transaction conflicts with a single write before it", func(t *testing.T) []func(*writeTx) (any, *apiError) {
			return []func(*writeTx) (any, *apiError){singleJob(plainPut(t, "a", "")), transactionJob(plainPut(t, "a", ""))}
		}, []string{"", "TransactionCanceledException [TransactionConflict]"}},
		{"a cancelled transaction is in nobody's way", func(t *testing.T) []func(*writeTx) (any, *apiError) {
			return []func(*writeTx) (any, *apiError){transactionJob(plainPut(t, "a", "attribute_exists(pk)")), transactionJob(plainPut(t, "a", "")), singleJob(plainPut(t, "b", ""))}
		}, []string{"TransactionCanceledException [ConditionalCheckFailed]", "", ""}},
	} {
		f := newFixture(t)
		f.table(t, "items", "S")
		for i, j := range group(t, f.service, c.jobs(t)...) {
			if want := c.want[i]; want == "" && j.err != nil || want != "" && (j.err == nil || !matches(j.err, want)) {
				t.Errorf("%s: request %d: %v, want %q", c.name, i, j.err, want)
			}
		}
	}
}

// covers: H1
func TestABatchLeavesWhatATransactionHasUsed(t *testing.T) {
	f := newFixture(t)
	f.table(t, "items", "S")
	batch := []*write{plainPut(t, "a", ""), plainPut(t, "b", "")}
	jobs := group(t, f.service, transactionJob(plainPut(t, "b", "")), func(tx *writeTx) (any, *apiError) { return runBatch(tx, batch, nil) })
	result, ok := jobs[1].result.(batchWriteResult)
	if !ok || jobs[1].err != nil {
		t.Fatalf("%v, %v", jobs[1].result, jobs[1].err)
	}
	left := result.UnprocessedItems["items"]
	if len(left) != 1 || left[0].PutRequest == nil || left[0].PutRequest.Item["pk"].Text() != "b" || left[0].DeleteRequest != nil {
		t.Errorf("left unprocessed: %+v", left)
	}
	if f.get(t, "items", item{"pk": str("a")}) == nil {
		t.Error("the other write of the batch is missing")
	}
}

// matches tells whether an error has the type and the codes that want lists.
func matches(err *apiError, want string) bool {
	typ, codes, _ := strings.Cut(want, " ")
	return strings.HasSuffix(err.Type, "#"+typ) && strings.HasSuffix(err.Message, codes)
}

// covers: H1
func TestAFaultOfTheFileFailsTheWholeCommit(t *testing.T) {
	f := newFixture(t)
	f.table(t, "items", "S")
	broken := errors.New("no space left")
	for name, fault := range map[string]func(*writeTx) (any, *apiError){
		"an error of the file": func(w *writeTx) (any, *apiError) {
			w.do(func() error { return broken })
			return nil, nil
		},
		"a panic": func(*writeTx) (any, *apiError) { panic("damaged") },
		"a refusal after a change": func(w *writeTx) (any, *apiError) {
			w.do(func() error { return nil })
			return nil, errCondition()
		},
	} {
		for _, j := range group(t, f.service, singleJob(plainPut(t, "a", "")), fault, singleJob(plainPut(t, "b", ""))) {
			if j.err == nil || j.err.status != 500 {
				t.Errorf("%s: %v", name, j.err)
			}
		}
		if f.get(t, "items", item{"pk": str("a")}) != nil || f.get(t, "items", item{"pk": str("b")}) != nil {
			t.Errorf("%s: a part of the commit was written", name)
		}
	}
	f.put(t, "items", item{"pk": str("a")}) // and the service goes on
}
