package states

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"sync/atomic"
	"time"

	"go.etcd.io/bbolt"
)

// What is kept of executions that ended, children of Map Runs among them:
//
//   - For 90 days, as on AWS: the record, so that an execution can be described
//     and listed and its name is not taken again.
//   - The history of the last Options.KeepHistories that ended. Histories are
//     most of the file, and a batch of 10,000 children would leave 200,000
//     events a run.
//   - Items and results of a Map Run: until it ends.
//
// bbolt uses the room again, so the file stops growing.

// retention is AWS's: an execution that ended is gone after 90 days.
const retention = 90 * 24 * time.Hour

// pruneGroup bounds the executions, or keys of a Map Run, of one transaction.
const pruneGroup, pruneKeys = 50, 2000

type pruner struct {
	kept atomic.Int64 // histories of executions that ended
	wake chan struct{}
}

func endedKey(stopped time.Time, seq uint64) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, uint64(stopped.UnixMilli())), seq)
}

func putEnded(tx *bbolt.Tx, stopped time.Time, seq uint64) error {
	key := endedKey(stopped, seq)
	return errors.Join(tx.Bucket(bucketEnded).Put(key, nil), tx.Bucket(bucketKept).Put(key, nil))
}

// upgrade gives a file of version 1 the order of its ends.
func upgrade(tx *bbolt.Tx) error {
	if err := tx.Bucket(bucketExecutions).ForEach(func(key, text []byte) error {
		var record executionRecord
		if err := json.Unmarshal(text, &record); err != nil {
			return err
		}
		if record.Status == statusRunning {
			return nil
		}
		return putEnded(tx, record.Stopped, beUint64(key))
	}); err != nil {
		return err
	}
	return tx.Bucket(bucketMeta).Put([]byte("version"), []byte(fileVersion))
}

// ended counts an execution that ended; a tenth more histories than are kept
// wakes the pruner.
func (s *Service) ended() {
	if n := s.pruner.kept.Add(1); n > int64(s.options.KeepHistories)*11/10 {
		s.prune()
	}
}

func (s *Service) prune() {
	select {
	case s.pruner.wake <- struct{}{}:
	default:
	}
}

func (s *Service) runPruner() {
	ticker := time.NewTicker(time.Hour)
	defer ticker.Stop()
	for {
		for _, step := range []func(*bbolt.Tx) (bool, error){s.pruneRuns, s.pruneHistories, s.pruneRecords} {
			for more := s.overdue(); more && s.ctx.Err() == nil; {
				if err := s.store.update(func(tx *bbolt.Tx) (err error) {
					more, err = step(tx)
					return err
				}); err != nil {
					if !errors.Is(err, errClosed) {
						s.options.Logger.Error("what is over cannot be removed from the file", "error", err)
					}
					break
				}
			}
		}
		select {
		case <-s.ctx.Done():
			return
		case <-ticker.C:
		case <-s.pruner.wake:
		}
	}
}

// overdue tells whether there is anything to remove, so that nothing is written
// when there is not.
func (s *Service) overdue() (is bool) {
	if s.pruner.kept.Load() > int64(s.options.KeepHistories) {
		return true
	}
	// A file that cannot be read is told by what else reads it.
	s.store.view(func(tx *bbolt.Tx) error {
		run, _ := tx.Bucket(bucketGarbage).Cursor().First()
		oldest, _ := tx.Bucket(bucketEnded).Cursor().First()
		is = run != nil || oldest != nil && bytes.Compare(oldest, endedKey(s.now().Add(-retention), 0)) < 0
		return nil
	})
	return is
}

// pruneRuns removes items and results of a Map Run that is over.
func (s *Service) pruneRuns(tx *bbolt.Tx) (more bool, err error) {
	garbage := tx.Bucket(bucketGarbage)
	run, _ := garbage.Cursor().First()
	if run == nil {
		return false, nil
	}
	run = bytes.Clone(run)
	n := 0
	for _, name := range [][]byte{bucketItems, bucketResults} {
		b := tx.Bucket(name)
		keys := prefixed(b, run, pruneKeys-n)
		for _, k := range keys {
			if err := b.Delete(k); err != nil {
				return false, err
			}
		}
		if n += len(keys); n == pruneKeys {
			return true, nil
		}
	}
	return true, garbage.Delete(run)
}

// prefixed gives up to limit keys that begin with a prefix.
func prefixed(b *bbolt.Bucket, prefix []byte, limit int) [][]byte {
	var keys [][]byte
	c := b.Cursor()
	for k, _ := c.Seek(prefix); k != nil && bytes.HasPrefix(k, prefix) && len(keys) < limit; k, _ = c.Next() {
		keys = append(keys, bytes.Clone(k))
	}
	return keys
}

// pruneHistories removes the oldest histories over the number that is kept.
func (s *Service) pruneHistories(tx *bbolt.Tx) (more bool, err error) {
	over := int(s.pruner.kept.Load()) - s.options.KeepHistories
	if over <= 0 {
		return false, nil
	}
	oldest := prefixed(tx.Bucket(bucketKept), nil, min(over, pruneGroup))
	for _, key := range oldest {
		if err := s.removeHistory(tx, key); err != nil {
			return false, err
		}
	}
	return len(oldest) == pruneGroup, nil
}

func (s *Service) removeHistory(tx *bbolt.Tx, ended []byte) error {
	b := tx.Bucket(bucketHistory)
	for _, k := range prefixed(b, ended[8:], maxEvents+1) {
		if err := b.Delete(k); err != nil {
			return err
		}
	}
	kept := tx.Bucket(bucketKept)
	// A group of writes that fails is not undone in this count: it may be too
	// small until the next start, which keeps a few histories more.
	s.pruner.kept.Add(-1)
	return kept.Delete(ended)
}

// pruneRecords removes what ended longer ago than the retention.
func (s *Service) pruneRecords(tx *bbolt.Tx) (more bool, err error) {
	limit := endedKey(s.now().Add(-retention), 0)
	oldest := prefixed(tx.Bucket(bucketEnded), nil, pruneGroup)
	for _, key := range oldest {
		if bytes.Compare(key, limit) >= 0 {
			return false, nil
		}
		if tx.Bucket(bucketKept).Get(key) != nil {
			if err := s.removeHistory(tx, key); err != nil {
				return false, err
			}
		}
		var record executionRecord
		executions := tx.Bucket(bucketExecutions)
		if err := json.Unmarshal(executions.Get(key[8:]), &record); err != nil {
			return false, err
		}
		if err := errors.Join(
			executions.Delete(key[8:]),
			tx.Bucket(bucketNames).Delete(nameKey(record.Machine, record.Name)),
			tx.Bucket(bucketByMachine).Delete(byMachineKey(record.Machine, record.Started, beUint64(key[8:]))),
			tx.Bucket(bucketEnded).Delete(key),
		); err != nil {
			return false, err
		}
	}
	return len(oldest) == pruneGroup, nil
}
