package dynamo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/wait"
)

// A Client is the part of *dynamodb.Client that is used. The SDK's own retries
// are switched off for every call: they hide whether an attempt may have been
// performed, which is what Commit has to know.
type Client interface {
	GetItem(context.Context, *dynamodb.GetItemInput, ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error)
	BatchGetItem(context.Context, *dynamodb.BatchGetItemInput, ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error)
	BatchWriteItem(context.Context, *dynamodb.BatchWriteItemInput, ...func(*dynamodb.Options)) (*dynamodb.BatchWriteItemOutput, error)
	PutItem(context.Context, *dynamodb.PutItemInput, ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error)
	Query(context.Context, *dynamodb.QueryInput, ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error)
	TransactWriteItems(context.Context, *dynamodb.TransactWriteItemsInput, ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error)
}

// Blobs stores what is too large for an item. Both calls may be repeated; Put of
// a name always has the same bytes. Get of a name that is not there returns an
// error that wraps history.ErrNotFound.
type Blobs interface {
	Put(ctx context.Context, name string, body []byte) error
	Get(ctx context.Context, name string) ([]byte, error)
}

// Tables are the names of the tables. A Lambda that never uses one may leave it
// empty; using it then fails.
type Tables struct {
	Heads, Objects, Changes, Runs, Host string
}

// Config is what a Store needs.
type Config struct {
	Client Client
	Tables Tables
	// Blobs may be nil where nothing large is stored or read; doing so then fails.
	Blobs Blobs
	Now   func() time.Time
	// Attempt bounds one attempt of a call; 0 is 3 seconds. A caller's deadline
	// bounds all attempts together, and 20 seconds where there is none.
	Attempt time.Duration
}

// A Store implements every store contract of the domain packages. It is safe for
// use by many goroutines.
type Store struct {
	client  Client
	tables  Tables
	blobs   Blobs
	now     func() time.Time
	attempt time.Duration
	ring    keyRing
	signs   jobKey
}

const (
	defaultAttempt = 3 * time.Second
	wholeCall      = 20 * time.Second
)

// New returns a store.
func New(c Config) *Store {
	if c.Attempt == 0 {
		c.Attempt = defaultAttempt
	}
	return &Store{client: c.Client, tables: c.Tables, blobs: c.Blobs, now: c.Now, attempt: c.Attempt}
}

func noRetries(o *dynamodb.Options) { o.Retryer = aws.NopRetryer{} }

// bounded gives a call without a deadline one.
func bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, wholeCall)
}

// A verdict is what one failed attempt says about the request.
type verdict int

const (
	refused verdict = iota // not performed, and repeating it is no use
	busy                   // not performed; the same request may be later
	unknown                // may or may not have been performed
)

// judge says what an attempt's error means. Only an error that DynamoDB itself
// sent with a client fault says that nothing was done; a server fault, a broken
// connection, a reply that cannot be read and a timeout say nothing.
func judge(err error) verdict {
	var invalid smithy.InvalidParamsError
	if errors.As(err, &invalid) {
		return refused
	}
	var api smithy.APIError
	if !errors.As(err, &api) {
		return unknown
	}
	switch api.ErrorCode() {
	case "ThrottlingException", "ProvisionedThroughputExceededException", "RequestLimitExceeded", "LimitExceededException",
		"TransactionConflictException": // a transaction holds the item; the SDK does not retry this
		return busy
	case "TransactionInProgressException", "RequestTimeout":
		// Somebody's attempt with this very token is under way, most likely ours.
		return unknown
	}
	var reply interface{ HTTPStatusCode() int }
	if errors.As(err, &reply) {
		switch status := reply.HTTPStatusCode(); {
		case status >= http.StatusInternalServerError || status == http.StatusRequestTimeout:
			return unknown
		case status == http.StatusTooManyRequests: // of something in between
			return busy
		}
	}
	if api.ErrorFault() == smithy.FaultServer {
		return unknown
	}
	if api.ErrorFault() == smithy.FaultUnknown && reply == nil {
		return unknown
	}
	return refused
}

// plain turns an SDK error into one of ours: the operation and the error code,
// never a message, which may quote what was stored.
func plain(op string, err error) error {
	if ctxErr := contextError(err); ctxErr != nil {
		return fmt.Errorf("dynamo: %s: %w", op, ctxErr)
	}
	var api smithy.APIError
	if errors.As(err, &api) {
		return fmt.Errorf("dynamo: %s: %s", op, api.ErrorCode())
	}
	return fmt.Errorf("dynamo: %s: no readable answer", op)
}

func contextError(err error) error {
	for _, known := range []error{context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, known) {
			return known
		}
	}
	return nil
}

// pause waits before another attempt, longer each time and never in step with
// others. It returns false when ctx ends first.
func pause(ctx context.Context, attempt int) bool {
	most := min(20*time.Millisecond<<min(attempt, 6), time.Second)
	return wait.For(ctx, most/4+rand.N(most)) == nil
}

// tries is how often a request that may be repeated freely is sent.
const tries = 6

// repeat sends a request that has the same effect however often it is performed.
func repeat(ctx context.Context, s *Store, op string, send func(context.Context) error) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	for attempt := 0; ; attempt++ {
		one, done := context.WithTimeout(ctx, s.attempt)
		err := send(one)
		done()
		if err == nil {
			return nil
		}
		var failed *types.ConditionalCheckFailedException
		switch {
		case errors.As(err, &failed):
			return errCondition
		case judge(err) == refused || attempt+1 == tries:
			return plain(op, err)
		case !pause(ctx, attempt):
			return fmt.Errorf("dynamo: %s: %w", op, ctx.Err())
		}
	}
}

// errCondition stays inside this package.
var errCondition = errors.New("dynamo: condition failed")

type attributes = map[string]types.AttributeValue

func str(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

func num(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: fmt.Sprint(n)}
}

func bin(b []byte) types.AttributeValue { return &types.AttributeValueMemberB{Value: b} }

func key(space history.Space, sk string) attributes {
	return attributes{"pk": str(string(space)), "sk": str(sk)}
}

// A row reads attributes and remembers the first that is not as it should be.
type row struct {
	item attributes
	err  error
}

func (r *row) fail(name string) {
	if r.err == nil {
		r.err = fmt.Errorf("dynamo: stored attribute %s is missing or of another type", name)
	}
}

func (r *row) str(name string) string {
	v, ok := r.item[name].(*types.AttributeValueMemberS)
	if !ok {
		r.fail(name)
		return ""
	}
	return v.Value
}

func (r *row) optional(name string) string {
	if r.item[name] == nil {
		return ""
	}
	return r.str(name)
}

func (r *row) num(name string) int64 {
	v, ok := r.item[name].(*types.AttributeValueMemberN)
	if !ok {
		r.fail(name)
		return 0
	}
	var n int64
	if _, err := fmt.Sscan(v.Value, &n); err != nil {
		r.fail(name)
	}
	return n
}

func (r *row) bin(name string) []byte {
	v, ok := r.item[name].(*types.AttributeValueMemberB)
	if !ok {
		r.fail(name)
		return nil
	}
	return v.Value
}

func (r *row) time(name string) time.Time {
	if r.item[name] == nil {
		return time.Time{}
	}
	return time.Unix(0, r.num(name)).UTC()
}

// set adds an attribute unless the value is the zero value.
func set(item attributes, name, value string) {
	if value != "" {
		item[name] = str(value)
	}
}

func setTime(item attributes, name string, t time.Time) {
	if !t.IsZero() {
		item[name] = num(t.UnixNano())
	}
}

// get reads one row consistently; nil when it is not there.
func (s *Store) get(ctx context.Context, op, table string, key attributes) (*row, error) {
	var out *dynamodb.GetItemOutput
	err := repeat(ctx, s, op, func(ctx context.Context) (err error) {
		out, err = s.client.GetItem(ctx, &dynamodb.GetItemInput{TableName: &table, Key: key, ConsistentRead: aws.Bool(true)}, noRetries)
		return err
	})
	if err != nil || len(out.Item) == 0 {
		return nil, err
	}
	return &row{item: out.Item}, nil
}

// batchGet reads items of several tables consistently or not, as want says, until
// none is left unprocessed. What is not there is not in the answer.
func (s *Store) batchGet(ctx context.Context, op string, want map[string]types.KeysAndAttributes) (map[string][]attributes, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	found := map[string][]attributes{}
	for attempt := 0; ; attempt++ {
		var out *dynamodb.BatchGetItemOutput
		err := repeat(ctx, s, op, func(ctx context.Context) (err error) {
			out, err = s.client.BatchGetItem(ctx, &dynamodb.BatchGetItemInput{RequestItems: want}, noRetries)
			return err
		})
		if err != nil {
			return nil, err
		}
		for table, items := range out.Responses {
			found[table] = append(found[table], items...)
		}
		if len(out.UnprocessedKeys) == 0 {
			return found, nil
		}
		// An answer of 16 MB is cut there: what follows is more work, not overload.
		if count(out.UnprocessedKeys) < count(want) {
			attempt = -1
			want = out.UnprocessedKeys
			continue
		}
		if !pause(ctx, attempt) {
			return nil, fmt.Errorf("dynamo: %s: keys stay unprocessed: %w", op, ctx.Err())
		}
	}
}

func count(want map[string]types.KeysAndAttributes) (keys int) {
	for _, w := range want {
		keys += len(w.Keys)
	}
	return keys
}

// create stores a row unless its key is taken, and then returns errCondition.
func (s *Store) create(ctx context.Context, op, table string, item attributes) error {
	return repeat(ctx, s, op, func(ctx context.Context) error {
		_, err := s.client.PutItem(ctx, &dynamodb.PutItemInput{TableName: &table, Item: item, ConditionExpression: aws.String("attribute_not_exists(pk)")}, noRetries)
		return err
	})
}
