package dynamodb

import (
	"context"
	"encoding/binary"
	"time"

	"github.com/pxhost/pxhost/infra/local/dynamodb/attribute"
)

// Items whose time to live has passed stay visible until a sweep deletes them.
// AWS deletes them within days; here a sweep runs every sweepInterval and deletes
// what expired at least sweepInterval before, so that nobody relies on an item
// being gone the moment it expires. As on AWS, an item that expired more than
// five years ago is left alone, and so is one whose attribute is no number.
const (
	sweepInterval = time.Minute
	tooOld        = 5 * 365 * 24 * time.Hour
	sweepChunk    = 500 // deletions a commit
)

// expiryKey is the item's key in the table's expiry bucket: nil if it never
// expires.
func (t *table) expiryKey(item attribute.Map, itemKey []byte) []byte {
	v := item[t.TTL.Attribute]
	if v.Kind() != attribute.N || v.Number().Sign() < 0 {
		return nil
	}
	seconds, whole := v.Number().Int64()
	if !whole {
		return nil // a fraction, or beyond any clock
	}
	return append(timePrefix(seconds), itemKey...)
}

// SweepExpired deletes items whose time to live has passed, and forgets request
// tokens whose window has. It returns the number of items deleted. The service
// calls it every minute; a test may call it at will.
func (s *Service) SweepExpired(ctx context.Context) (deleted int, err error) {
	for {
		if err := ctx.Err(); err != nil {
			return deleted, err
		}
		done, fault := s.update(func(w *writeTx) (any, *apiError) {
			dropped := w.forgetTokens(sweepChunk)
			swept := w.sweep(sweepChunk)
			deleted += swept
			return dropped < sweepChunk && swept < sweepChunk, nil
		})
		if fault != nil {
			return deleted, fault
		}
		if done.(bool) {
			return deleted, nil
		}
	}
}

// sweep deletes up to limit expired items.
func (w *writeTx) sweep(limit int) (deleted int) {
	for _, t := range w.tables() {
		if !t.TTL.Enabled {
			continue
		}
		for _, key := range w.expired(t, limit-deleted) {
			w.replace(t, key, w.get(t, key), nil)
			deleted++
		}
	}
	return deleted
}

// tables lists all tables.
func (r *readTx) tables() []*table {
	var tables []*table
	c := r.tx.Bucket(bucketTables).Cursor()
	for name, _ := c.First(); name != nil; name, _ = c.Next() {
		tables = append(tables, r.table(string(name)))
	}
	return tables
}

// expired returns the keys of up to limit items to delete.
func (w *writeTx) expired(t *table, limit int) [][]byte {
	var keys [][]byte
	oldest := max(0, w.now.Add(-tooOld).Unix())
	newest := w.now.Add(-sweepInterval).Unix()
	c := w.tx.Bucket(t.expiryBucket()).Cursor()
	for k, _ := c.Seek(timePrefix(oldest)); k != nil && len(keys) < limit; k, _ = c.Next() {
		if int64(binary.BigEndian.Uint64(k)) > newest {
			break
		}
		keys = append(keys, append([]byte(nil), k[8:]...))
	}
	return keys
}

type updateTimeToLiveResult struct{ TimeToLiveSpecification ttlSpecification }

type ttlSpecification struct {
	AttributeName string
	Enabled       bool
}

type describeTimeToLiveResult struct{ TimeToLiveDescription ttlDescription }

type ttlDescription struct {
	AttributeName    string `json:",omitzero"`
	TimeToLiveStatus string
}

// updateTimeToLive turns expiry on or off at once. AWS refuses a second change
// within the hour; this emulator does not.
func (s *Service) updateTimeToLive(in *updateTimeToLiveInput) (any, *apiError) {
	name, enable := *in.TimeToLiveSpecification.AttributeName, *in.TimeToLiveSpecification.Enabled
	return s.update(func(w *writeTx) (any, *apiError) {
		old := w.table(*in.TableName)
		switch {
		case old == nil:
			return nil, errNoTableNamed(*in.TableName)
		case enable && old.TTL.Enabled && old.TTL.Attribute == name:
			return nil, errInvalid("TimeToLive is already enabled")
		case enable && old.TTL.Enabled:
			return nil, errInvalid("TimeToLive is active on a different AttributeName: current AttributeName is " + old.TTL.Attribute)
		case !enable && !old.TTL.Enabled:
			return nil, errInvalid("TimeToLive is already disabled")
		case !enable && old.TTL.Attribute != name:
			return nil, errInvalid("TimeToLive is active on a different AttributeName: current AttributeName is " + old.TTL.Attribute)
		}
		changed := *old
		if changed.TTL = (timeToLive{}); enable {
			changed.TTL = timeToLive{Enabled: true, Attribute: name}
			w.indexExpiry(&changed)
		} else {
			w.do(func() error { return w.tx.DeleteBucket(changed.expiryBucket()) })
		}
		w.saveTable(&changed)
		return updateTimeToLiveResult{ttlSpecification{name, enable}}, nil
	})
}

// indexExpiry builds the expiry bucket of a table from its items.
func (w *writeTx) indexExpiry(t *table) {
	w.do(func() error {
		b, err := w.tx.CreateBucket(t.expiryBucket())
		if err != nil {
			return err
		}
		return w.tx.Bucket(t.itemBucket()).ForEach(func(key, raw []byte) error {
			if entry := t.expiryKey(w.decode(t, raw), key); entry != nil {
				return b.Put(entry, nil)
			}
			return nil
		})
	})
}

func (s *Service) describeTimeToLive(in *describeTimeToLiveInput) (any, *apiError) {
	var result describeTimeToLiveResult
	err := s.store.view(func(r *readTx) *apiError {
		t := r.table(*in.TableName)
		switch {
		case t == nil:
			return errNoTableNamed(*in.TableName)
		case t.TTL.Enabled:
			result.TimeToLiveDescription = ttlDescription{t.TTL.Attribute, "ENABLED"}
		default:
			result.TimeToLiveDescription = ttlDescription{TimeToLiveStatus: "DISABLED"}
		}
		return nil
	})
	return result, err
}
