package dynamo

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/pxhost/pxhost/shared/history"
)

// The kids of the cursor keys ascend as strings. The first key is made by
// whoever needs one first; a rotation is a row with the next kid, and the rows
// before it go on opening what they sealed.
const firstKid = "00000001"

const ring = history.Space("cursor")

// Key returns the key that new cursors are sealed with, 32 random bytes, and its
// kid. It makes the first one; of several processes that do so at once, all
// return the same.
func (s *Store) Key(ctx context.Context) (kid string, secret []byte, err error) {
	for range 2 {
		var out *dynamodb.QueryOutput
		err := repeat(ctx, s, "read cursor key", func(ctx context.Context) (err error) {
			out, err = s.client.Query(ctx, &dynamodb.QueryInput{
				TableName: &s.tables.Host, ConsistentRead: aws.Bool(true), ScanIndexForward: aws.Bool(false), Limit: aws.Int32(1),
				KeyConditionExpression:    aws.String("pk = :ring AND begins_with(sk, :key)"),
				ExpressionAttributeValues: attributes{":ring": str(string(ring)), ":key": str("key#")},
			}, noRetries)
			return err
		})
		if err != nil {
			return "", nil, err
		}
		if len(out.Items) > 0 {
			r := row{item: out.Items[0]}
			kid, secret := strings.TrimPrefix(r.str("sk"), "key#"), r.bin("key")
			return kid, bytes.Clone(secret), r.err
		}
		fresh := make([]byte, 32)
		rand.Read(fresh)
		item := key(ring, "key#"+firstKid)
		item["key"] = bin(fresh)
		setTime(item, "createdAt", s.now())
		// Taken already, or by an attempt of this call whose reply was lost: what
		// is stored is the key either way, and is read back.
		if err := s.create(ctx, "create cursor key", s.tables.Host, item); err != nil && !errors.Is(err, errCondition) {
			return "", nil, err
		}
	}
	return "", nil, errors.New("dynamo: the cursor key that was created cannot be read")
}

// Lookup returns the key of a kid, or history.ErrNotFound.
func (s *Store) Lookup(ctx context.Context, kid string) ([]byte, error) {
	r, err := s.get(ctx, "read cursor key", s.tables.Host, key(ring, "key#"+kid))
	if err != nil {
		return nil, err
	}
	if r == nil {
		return nil, fmt.Errorf("dynamo: cursor key: %w", history.ErrNotFound)
	}
	secret := r.bin("key")
	return bytes.Clone(secret), r.err
}
