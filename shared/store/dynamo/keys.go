package dynamo

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/pxhost/pxhost/shared/cursor"
	"github.com/pxhost/pxhost/shared/history"
)

var _ cursor.Keys = (*Store)(nil)

// The IDs of the cursor keys are eight characters that ascend as strings. The
// first key is made by whoever needs one first; a rotation is a row with the next
// ID, and the keys before it go on opening what they sealed.
const firstKey = "00000001"

const ring = history.Space("cursor")

// currentFor is how long a process goes on sealing with a key that it has seen to
// be the current one. Keys themselves never change.
const currentFor = time.Minute

// keyRing is what a process has seen of the ring.
type keyRing struct {
	mu      sync.Mutex
	keys    map[[8]byte]cursor.Key
	current [8]byte
	seen    time.Time
}

func (k *keyRing) get(id [8]byte) (cursor.Key, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	key, ok := k.keys[id]
	return key, ok
}

func (k *keyRing) add(key cursor.Key) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.keys == nil {
		k.keys = map[[8]byte]cursor.Key{}
	}
	k.keys[key.ID] = key
}

// Current implements cursor.Keys. It makes the first key; of several processes
// that do so at once, all return the same.
func (s *Store) Current(ctx context.Context) (cursor.Key, error) {
	now := s.now()
	s.ring.mu.Lock()
	recent, key := now.Sub(s.ring.seen) < currentFor && !now.Before(s.ring.seen), s.ring.keys[s.ring.current]
	s.ring.mu.Unlock()
	if recent {
		return key, nil
	}
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
			return cursor.Key{}, err
		}
		if len(out.Items) > 0 {
			key, err := keyOf(&row{item: out.Items[0]})
			if err != nil {
				return cursor.Key{}, err
			}
			s.ring.add(key)
			s.ring.mu.Lock()
			s.ring.current, s.ring.seen = key.ID, now
			s.ring.mu.Unlock()
			return key, nil
		}
		fresh := make([]byte, len(cursor.Key{}.Secret))
		rand.Read(fresh)
		item := ringKey(firstKey)
		item["key"] = bin(fresh)
		setTime(item, "createdAt", now)
		// Taken already, or by an attempt of this call whose reply was lost: what
		// is stored is the key either way, and is read back.
		if err := s.create(ctx, "create cursor key", s.tables.Host, item); err != nil && !errors.Is(err, errCondition) {
			return cursor.Key{}, err
		}
	}
	return cursor.Key{}, errors.New("dynamo: the cursor key that was created cannot be read")
}

func ringKey(id string) attributes { return key(ring, "key#"+id) }

func keyOf(r *row) (cursor.Key, error) {
	var out cursor.Key
	id, secret := strings.TrimPrefix(r.str("sk"), "key#"), r.bin("key")
	if len(id) != len(out.ID) || len(secret) != len(out.Secret) {
		r.fail("key")
	}
	copy(out.ID[:], id)
	copy(out.Secret[:], secret)
	return out, r.err
}

// Key implements cursor.Keys. The ID comes from a client's cursor, so it may be
// anything.
func (s *Store) Key(ctx context.Context, id [8]byte) (cursor.Key, error) {
	if key, ok := s.ring.get(id); ok {
		return key, nil
	}
	for _, c := range id {
		if c < '0' || c > '9' {
			return cursor.Key{}, cursor.ErrNoKey
		}
	}
	r, err := s.get(ctx, "read cursor key", s.tables.Host, ringKey(string(id[:])))
	if err != nil {
		return cursor.Key{}, err
	}
	if r == nil {
		return cursor.Key{}, cursor.ErrNoKey
	}
	key, err := keyOf(r)
	if err == nil {
		s.ring.add(key)
	}
	return key, err
}
