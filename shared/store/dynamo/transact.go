package dynamo

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/pxhost/pxhost/shared/history"
)

// A result is a definite answer about a transaction.
type result struct {
	// failed tells by position whose condition did not hold; nil when the
	// transaction was performed.
	failed []bool
	// doubtful is set when an attempt before the answer may have been performed:
	// then conditions may have failed because the transaction itself had made
	// them false, and the caller must look.
	doubtful bool
}

// transact performs a transaction exactly once or not at all, and says which.
// At least one item must carry a condition that the transaction itself makes
// false for ever: so it is performed at most once, however often and under however
// many tokens it is sent. The other conditions should be of the same kind, or on
// fixed times or versions that only grow: what is false of them now stays false.
// Where one is not (a Project that may yet be created), the caller may take its
// failure for final only when nothing is doubtful.
//
// All that follows is about knowing whether it was.
//
// An attempt ends in one of these ways:
//
//   - Performed. Done.
//   - Cancelled, and a condition failed. That is definite for all attempts, those
//     that may still be on their way included: a condition on a growing version,
//     a used-up row or a fixed time that is false now stays false, so none of
//     them can be performed any more. But one of them may have been already, and
//     have made the condition false. Within the ten minutes that DynamoDB
//     remembers a token, the same token would have been answered with success;
//     a fresh token, or the same one later, is not. Hence doubtful.
//   - Cancelled by a collision with another transaction, or throttled. This
//     attempt was not performed. The next has a fresh token: a token stands for
//     one outcome, and this one's is told. Should an earlier attempt of unknown
//     outcome under the old token still be performed, the fresh one finds its
//     conditions false: the case above.
//   - Refused by throttling before it began: nothing was done under the token, so
//     the identical request follows.
//   - Unknown: the server failed, the connection broke, no answer came in time,
//     or the token is in progress. The identical bytes with the identical token
//     follow until there is an answer; DynamoDB then answers for the attempt
//     that it has, and completes it if it lay half done.
//   - Refused for another reason, such as permission. Nothing was done, unless an
//     earlier attempt's outcome is unknown.
//
// At ctx's deadline the error wraps history.ErrOutcomeUnknown if any attempt's
// outcome is unknown, and else guarantees that nothing was written.
func (s *Store) transact(ctx context.Context, op string, items []types.TransactWriteItem, identity ...string) (result, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	series := uint64(0)
	input := &dynamodb.TransactWriteItemsInput{TransactItems: items, ClientRequestToken: token(series, identity)}
	var body pin
	doubtful := false
	stop := func(err error) (result, error) {
		if doubtful {
			return result{}, fmt.Errorf("dynamo: %s: %w", op, history.ErrOutcomeUnknown)
		}
		return result{}, err
	}
	for attempt := 0; ; attempt++ {
		if err := ctx.Err(); err != nil {
			return stop(fmt.Errorf("dynamo: %s: not written: %w", op, err))
		}
		one, done := context.WithTimeout(ctx, s.attempt)
		_, err := s.client.TransactWriteItems(one, input, noRetries, body.same)
		done()
		if err == nil {
			return result{}, nil
		}
		var cancelled *types.TransactionCanceledException
		if errors.As(err, &cancelled) {
			failed, retry := reasons(cancelled, len(items))
			switch {
			case failed != nil:
				return result{failed, doubtful}, nil
			case !retry:
				return stop(plain(op, err))
			}
			series++
			input.ClientRequestToken, body = token(series, identity), pin{}
		} else {
			switch judge(err) {
			case refused:
				return stop(plain(op, err))
			case unknown:
				doubtful = true
			}
		}
		pause(ctx, attempt)
	}
}

// A pin makes every request that it is given to carry the bytes of the first one.
// The SDK writes an item's attributes in another order each time, and whether
// DynamoDB takes that for the same request under a token is written nowhere.
type pin struct{ body []byte }

func (p *pin) same(o *dynamodb.Options) {
	o.APIOptions = append(o.APIOptions, func(stack *middleware.Stack) error {
		return stack.Build.Add(middleware.BuildMiddlewareFunc("pxhost.SameBody", func(ctx context.Context, in middleware.BuildInput, next middleware.BuildHandler) (middleware.BuildOutput, middleware.Metadata, error) {
			request, ok := in.Request.(*smithyhttp.Request)
			if !ok {
				return middleware.BuildOutput{}, middleware.Metadata{}, errors.New("dynamo: not an HTTP request")
			}
			if p.body == nil {
				var err error
				if p.body, err = io.ReadAll(request.GetStream()); err != nil {
					return middleware.BuildOutput{}, middleware.Metadata{}, err
				}
			}
			request, err := request.SetStream(bytes.NewReader(p.body))
			if err != nil {
				return middleware.BuildOutput{}, middleware.Metadata{}, err
			}
			in.Request = request
			return next.HandleBuild(ctx, in)
		}), middleware.Before)
	})
}

// reasons returns whose conditions failed, or else whether all that happened was
// a collision or throttling.
func reasons(cancelled *types.TransactionCanceledException, items int) (failed []bool, retry bool) {
	retry = len(cancelled.CancellationReasons) == items
	marks := make([]bool, items)
	any := false
	for i, reason := range cancelled.CancellationReasons {
		switch aws.ToString(reason.Code) {
		case "ConditionalCheckFailed":
			if i < items {
				marks[i], any = true, true
			}
		case "None", "", "TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded":
		default:
			retry = false
		}
	}
	if any {
		return marks, false
	}
	return nil, retry
}

// token derives a ClientRequestToken (at most 36 characters) from everything
// that makes the transaction what it is. Equal tokens mean equal requests.
func token(series uint64, identity []string) *string {
	h := sha256.New()
	var size [8]byte
	for _, part := range identity {
		h.Write(binary.BigEndian.AppendUint64(size[:0], uint64(len(part))))
		h.Write([]byte(part))
	}
	h.Write(binary.BigEndian.AppendUint64(size[:0], series))
	return aws.String(base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:27]))
}

// An expression's names and values, so that no attribute meets a reserved word.
type condition struct {
	text   string
	names  map[string]string
	values attributes
}

// at is the condition that a row has the version that was read; version 0 is a
// row that is not there.
func at(version int64) condition {
	if version == 0 {
		return condition{text: "attribute_not_exists(pk)"}
	}
	return condition{"#version = :version", map[string]string{"#version": "version"}, attributes{":version": num(version)}}
}

func (c condition) check(table string, key attributes) types.TransactWriteItem {
	return types.TransactWriteItem{ConditionCheck: &types.ConditionCheck{TableName: &table, Key: key,
		ConditionExpression: &c.text, ExpressionAttributeNames: c.names, ExpressionAttributeValues: c.values}}
}

func (c condition) put(table string, item attributes) types.TransactWriteItem {
	return types.TransactWriteItem{Put: &types.Put{TableName: &table, Item: item,
		ConditionExpression: &c.text, ExpressionAttributeNames: c.names, ExpressionAttributeValues: c.values}}
}

func (c condition) update(table string, key attributes, update string) types.TransactWriteItem {
	return types.TransactWriteItem{Update: &types.Update{TableName: &table, Key: key, UpdateExpression: &update,
		ConditionExpression: &c.text, ExpressionAttributeNames: c.names, ExpressionAttributeValues: c.values}}
}
