package dynamodb

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"go.etcd.io/bbolt"

	"github.com/pxhost/pxhost/infra/local/boltfile"
	"github.com/pxhost/pxhost/infra/local/dynamodb/attribute"
	"github.com/pxhost/pxhost/infra/local/failpoint"
)

// The file has these top-level buckets:
//
//	meta                 format → formatVersion
//	tables               table name → table (JSON)
//	items/<table ID>     item key → item (attribute.AppendStored)
//	index/<table ID>/<index name>   index key → item key
//	expiry/<table ID>    8-byte expiry time, item key → nothing (if TTL is on)
//	tokens               ClientRequestToken → tokenRecord (JSON)
//	token expiry         8-byte expiry time, token → nothing
//
// An item key is 8 bytes of the hash of the partition key, the partition key and
// the sort key in their ordered encodings. An index key is the same of the
// index's keys, followed by the item key. So a partition is a key range, sorted
// by sort key, and a scan is in the order of the hashes, as on AWS.
const formatVersion = "1"

var (
	bucketMeta        = []byte("meta")
	bucketTables      = []byte("tables")
	bucketTokens      = []byte("tokens")
	bucketTokenExpiry = []byte("token expiry")
	keyFormat         = []byte("format")
)

// maxGroup bounds the requests that one commit carries, and with it the time
// that the first of them waits.
const maxGroup = 256

// store runs reads on snapshots and writes one after another, in groups: the
// writes that wait while a commit is being synced share the next commit. Each
// keeps its own result, and sees the writes of the group before it.
type store struct {
	db    *bbolt.DB
	clock func() time.Time
	jobs  chan *job
	done  chan struct{} // closed when the writer has ended

	// The tables as they were last decoded, by name. An entry is only good for
	// a transaction that reads the same bytes.
	cache sync.Map // string → *cachedTable
}

type cachedTable struct {
	raw   []byte
	table *table
}

// job is one write request on its way through the writer.
type job struct {
	run    func(*writeTx) (any, *apiError)
	result any
	err    *apiError
	ended  chan struct{}
}

func openStore(path string, clock func() time.Time) (*store, error) {
	db, err := boltfile.Open(path, time.Second)
	if err != nil {
		return nil, fmt.Errorf("dynamodb: open %s: %w", path, err)
	}
	s := &store{db: db, clock: clock, jobs: make(chan *job), done: make(chan struct{})}
	if err := db.Update(initialise); err != nil {
		return nil, errors.Join(fmt.Errorf("dynamodb: open %s: %w", path, err), db.Close())
	}
	go s.write()
	return s, nil
}

func initialise(tx *bbolt.Tx) error {
	for _, name := range [][]byte{bucketMeta, bucketTables, bucketTokens, bucketTokenExpiry} {
		if _, err := tx.CreateBucketIfNotExists(name); err != nil {
			return err
		}
	}
	switch version := tx.Bucket(bucketMeta).Get(keyFormat); {
	case version == nil:
		return tx.Bucket(bucketMeta).Put(keyFormat, []byte(formatVersion))
	case string(version) != formatVersion:
		return fmt.Errorf("the file has format %q, this program writes %q", version, formatVersion)
	}
	return nil
}

// close ends the writer and closes the file. No update may run or follow.
func (s *store) close() error {
	close(s.jobs)
	<-s.done
	return s.db.Close()
}

// update runs a write and returns when it is synced on disk. run must find all
// its faults before it changes anything.
func (s *store) update(run func(*writeTx) (any, *apiError)) (any, *apiError) {
	j := &job{run: run, ended: make(chan struct{})}
	s.jobs <- j
	<-j.ended
	return j.result, j.err
}

// write is the one goroutine that changes the file.
func (s *store) write() {
	defer close(s.done)
	for first := range s.jobs {
		s.commit(s.collect(first))
	}
}

// collect adds to the first job those that wait already.
func (s *store) collect(first *job) []*job {
	group := []*job{first}
	for len(group) < maxGroup {
		select {
		case j, ok := <-s.jobs:
			if !ok {
				return group // closing: the range in write ends next
			}
			group = append(group, j)
		default:
			return group
		}
	}
	return group
}

// commit runs a group in one transaction. If the transaction itself fails, none
// of the group has happened and all are told so.
func (s *store) commit(group []*job) {
	err := s.db.Update(func(tx *bbolt.Tx) error {
		shared := &groupState{touched: make(map[string]touch)}
		for _, j := range group {
			w := &writeTx{readTx: readTx{tx: tx, store: s}, now: s.clock(), group: shared}
			w.run(j)
			switch {
			case w.failed != nil:
				return w.failed
			case j.err != nil && w.changed:
				return fmt.Errorf("a write failed after it had begun: %w", j.err)
			}
		}
		failpoint.Hit(failpoint.DynamoDBCommitting)
		return nil
	})
	if err == nil {
		failpoint.Hit(failpoint.DynamoDBCommitted)
	}
	for _, j := range group {
		if err != nil {
			j.result, j.err = nil, errInternal(err)
		}
		close(j.ended)
	}
}

// run runs a job. A panic, such as over a damaged item, fails the group and not
// the program.
func (w *writeTx) run(j *job) {
	defer func() {
		if fault := recover(); fault != nil {
			w.failed = fmt.Errorf("%v", fault)
		}
	}()
	j.result, j.err = j.run(w)
}

// view runs a read on the state after the last commit.
func (s *store) view(run func(*readTx) *apiError) (result *apiError) {
	defer func() {
		if fault := recover(); fault != nil {
			result = errInternal(fmt.Errorf("%v", fault))
		}
	}()
	err := s.db.View(func(tx *bbolt.Tx) error {
		result = run(&readTx{tx: tx, store: s})
		return nil
	})
	if err != nil {
		return errInternal(err)
	}
	return result
}

// readTx reads one state of the file.
type readTx struct {
	tx    *bbolt.Tx
	store *store
}

// table returns the table with the name, or nil.
func (r *readTx) table(name string) *table {
	raw := r.tx.Bucket(bucketTables).Get([]byte(name))
	if raw == nil {
		return nil
	}
	if c, ok := r.store.cache.Load(name); ok && bytes.Equal(c.(*cachedTable).raw, raw) {
		return c.(*cachedTable).table
	}
	t := new(table)
	if err := json.Unmarshal(raw, t); err != nil {
		panic(fmt.Sprintf("dynamodb: table %s is damaged: %v", name, err))
	}
	r.store.cache.Store(name, &cachedTable{bytes.Clone(raw), t})
	return t
}

// get returns the item with the item key, or nil.
func (r *readTx) get(t *table, key []byte) attribute.Map {
	raw := r.tx.Bucket(t.itemBucket()).Get(key)
	if raw == nil {
		return nil
	}
	return r.decode(t, raw)
}

// decode reads a stored item of the table.
func (r *readTx) decode(t *table, raw []byte) attribute.Map {
	item, err := attribute.ReadStored(raw)
	if err != nil {
		panic(fmt.Sprintf("dynamodb: an item of table %s is damaged: %v", t.Name, err))
	}
	return item
}

// writeTx is one write within the transaction of a group.
type writeTx struct {
	readTx
	now     time.Time
	group   *groupState
	changed bool
	failed  error // of the file: the group cannot be committed
}

// groupState is what the writes of a group know of each other.
type groupState struct {
	touched map[string]touch // by table ID and item key
}

// touch tells which kind of request of the group has used an item.
type touch int

const (
	touchedBySingle touch = 1 << iota
	touchedByTransaction
)

// do performs one change. After the first that fails, none is tried.
func (w *writeTx) do(change func() error) {
	w.changed = true
	if w.failed == nil {
		w.failed = change()
	}
}

// replace stores the item under the key, or deletes it if item is nil, and keeps
// indexes and expiry in step. old is what is there now, nil for nothing.
func (w *writeTx) replace(t *table, key []byte, old, item attribute.Map) {
	items := w.tx.Bucket(t.itemBucket())
	if item == nil {
		w.do(func() error { return items.Delete(key) })
	} else {
		w.do(func() error { return items.Put(key, item.AppendStored(nil)) })
	}
	for _, index := range t.Indexes {
		w.move(t.indexBucket(index), index.entryKey(old, key), index.entryKey(item, key), key)
	}
	if t.TTL.Enabled {
		w.move(t.expiryBucket(), t.expiryKey(old, key), t.expiryKey(item, key), nil)
	}
}

// move replaces one entry of a derived bucket. A nil key is no entry.
func (w *writeTx) move(bucket, from, to, value []byte) {
	if bytes.Equal(from, to) {
		return
	}
	b := w.tx.Bucket(bucket)
	if from != nil {
		w.do(func() error { return b.Delete(from) })
	}
	if to != nil {
		w.do(func() error { return b.Put(to, value) })
	}
}

// saveTable stores what is known of a table.
func (w *writeTx) saveTable(t *table) {
	raw, err := json.Marshal(t, json.Deterministic(true))
	w.do(func() error { return errors.Join(err, w.tx.Bucket(bucketTables).Put([]byte(t.Name), raw)) })
}

// partitionPrefix is what the keys of all items of a partition begin with.
func partitionPrefix(hash attribute.Value) []byte {
	encoded := hash.AppendOrdered(nil)
	sum := sha256.Sum256(encoded)
	return append(sum[:8:8], encoded...)
}

// timePrefix orders by time: seconds since 1970, not negative.
func timePrefix(seconds int64) []byte {
	return binary.BigEndian.AppendUint64(nil, uint64(seconds))
}

// after returns the first key that does not begin with prefix and is greater;
// nil if there is none.
func after(prefix []byte) []byte {
	end := bytes.Clone(prefix)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i]++; end[i] != 0 {
			return end[:i+1]
		}
	}
	return nil
}
