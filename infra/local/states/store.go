package states

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/bbolt"

	"github.com/pxhost/pxhost/infra/local/boltfile"
	"github.com/pxhost/pxhost/infra/local/failpoint"
)

// The file's layout. Executions are numbered from 1 in the order they started;
// seq is that number, 8 bytes, big-endian.
//
//	meta         what the file is: version, secret of the task tokens
//	machines     name → machineRecord
//	definitions  sha256 of the text → the text; what a running execution was
//	             started with stays, whatever the machine is updated to
//	executions   seq → executionRecord; written when it starts and when it ends
//	names        machine \0 name → seq
//	byMachine    machine \0 ^start ^seq → nothing; newest first
//	running      seq → progress; only executions that run, so that a start does
//	             not read the finished ones
//	frames       seq, frame (4 bytes) → frame; of running executions only
//	history      seq, event (4 bytes) → event
//	mapRuns      run → the next item's index; of Map Runs that run only. A run is
//	             its execution's seq and its number there, 4 bytes
//	items        run, index (4 bytes) → the item; of those without a child
//	results      run, index → how the child ended, one byte, and its element
//	garbage      run → nothing; Map Runs whose items and results are to go
//	ended        end in ms (8 bytes), seq → nothing; executions that ended
//	kept         the same, of those that still have their history
var buckets = [][]byte{bucketMeta, bucketMachines, bucketDefinitions, bucketExecutions, bucketNames, bucketByMachine, bucketRunning, bucketFrames, bucketHistory,
	bucketMapRuns, bucketItems, bucketResults, bucketGarbage, bucketEnded, bucketKept}

var (
	bucketMeta        = []byte("meta")
	bucketMachines    = []byte("machines")
	bucketDefinitions = []byte("definitions")
	bucketExecutions  = []byte("executions")
	bucketNames       = []byte("names")
	bucketByMachine   = []byte("byMachine")
	bucketRunning     = []byte("running")
	bucketFrames      = []byte("frames")
	bucketHistory     = []byte("history")
	bucketMapRuns     = []byte("mapRuns")
	bucketItems       = []byte("items")
	bucketResults     = []byte("results")
	bucketGarbage     = []byte("garbage")
	bucketEnded       = []byte("ended")
	bucketKept        = []byte("kept")
)

// fileVersion 1 had no distributed Maps and no order of ends.
const fileVersion = "2"

type machineRecord struct {
	Name       string    `json:"name"`
	RoleARN    string    `json:"roleArn"`
	Definition string    `json:"definition"` // digest
	Revision   string    `json:"revision"`   // changes with each update; "INITIAL" before the first
	Created    time.Time `json:"created"`
	Deleting   bool      `json:"deleting,omitempty"`
}

type executionRecord struct {
	Machine    string          `json:"machine"`
	Name       string          `json:"name"`
	RoleARN    string          `json:"roleArn"`
	Definition string          `json:"definition"` // digest
	Status     string          `json:"status"`
	Input      string          `json:"input"` // as given
	Output     json.RawMessage `json:"output,omitempty"`
	Error      *string         `json:"error,omitempty"`
	Cause      *string         `json:"cause,omitempty"`
	Started    time.Time       `json:"started"`
	Stopped    time.Time       `json:"stopped,omitzero"`
	Child      *childOf        `json:"child,omitempty"` // of a distributed Map
}

// progress is what changes with each step and has no better place.
type progress struct {
	Event int64 `json:"e"`           // the last event's id
	Frame int   `json:"f"`           // the next frame's id
	Task  int64 `json:"t"`           // the last task's number
	Run   int64 `json:"r,omitempty"` // the last Map Run's number
}

func seqKey(seq uint64) []byte { return binary.BigEndian.AppendUint64(nil, seq) }

func subKey(seq uint64, id int64) []byte {
	return binary.BigEndian.AppendUint32(seqKey(seq), uint32(id))
}

func nameKey(machine, name string) []byte { return []byte(machine + "\x00" + name) }

func byMachineKey(machine string, started time.Time, seq uint64) []byte {
	k := append([]byte(machine), 0)
	k = binary.BigEndian.AppendUint64(k, ^uint64(started.UnixMilli()))
	return binary.BigEndian.AppendUint64(k, ^seq)
}

// store is the bbolt file with group commit: writes that arrive while one is
// being synced share the next sync.
type store struct {
	db      *bbolt.DB
	writes  chan write
	stop    chan struct{}
	stopped chan struct{}
	// fault is asked before and after each group is committed; nil but in tests.
	fault func(committed bool) error
}

type write struct {
	apply func(*bbolt.Tx) error
	done  chan error
}

// errRefused marks an error that apply returns before it wrote anything; the
// other writes of the group go on.
type errRefused struct{ error }

func openStore(path string) (*store, error) {
	db, err := boltfile.Open(path, 5*time.Second)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		for _, name := range buckets {
			if _, err := tx.CreateBucketIfNotExists(name); err != nil {
				return err
			}
		}
		meta := tx.Bucket(bucketMeta)
		switch v := meta.Get([]byte("version")); {
		case v == nil:
			return meta.Put([]byte("version"), []byte(fileVersion))
		case string(v) == "1":
			return upgrade(tx)
		case string(v) != fileVersion:
			return fmt.Errorf("the file has version %s, this program reads %s", v, fileVersion)
		}
		return nil
	})
	if err != nil {
		db.Close()
		return nil, fmt.Errorf("prepare %s: %w", path, err)
	}
	s := &store{db: db, writes: make(chan write, 256), stop: make(chan struct{}), stopped: make(chan struct{})}
	go s.run()
	return s, nil
}

var errClosed = errors.New("the service is closed")

// update applies one write durably. It returns when the file is synced.
func (s *store) update(apply func(*bbolt.Tx) error) error {
	w := write{apply, make(chan error, 1)}
	select {
	case s.writes <- w:
	case <-s.stop:
		return errClosed
	}
	select {
	case err := <-w.done:
		return err
	case <-s.stopped:
		// The last group may have been committed while the store stopped.
		select {
		case err := <-w.done:
			return err
		default:
			return errClosed
		}
	}
}

func (s *store) view(read func(*bbolt.Tx) error) error { return s.db.View(read) }

const maxGroup = 256

func (s *store) run() {
	defer close(s.stopped)
	for {
		var group []write
		select {
		case w := <-s.writes:
			group = append(group, w)
		case <-s.stop:
			return
		}
		for more := true; more && len(group) < maxGroup; {
			select {
			case w := <-s.writes:
				group = append(group, w)
			default:
				more = false
			}
		}
		results := make([]error, len(group))
		err := s.commit(func(tx *bbolt.Tx) error {
			for i, w := range group {
				err := w.apply(tx)
				var refused errRefused
				if errors.As(err, &refused) {
					results[i] = refused.error
					continue
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
		for i, w := range group {
			if err != nil {
				w.done <- fmt.Errorf("write: %w", err)
				continue
			}
			w.done <- results[i]
		}
	}
}

func (s *store) commit(apply func(*bbolt.Tx) error) error {
	if s.fault != nil {
		if err := s.fault(false); err != nil {
			return err
		}
	}
	if err := s.db.Update(func(tx *bbolt.Tx) error {
		if err := apply(tx); err != nil {
			return err
		}
		failpoint.Hit(failpoint.StatesCommitting)
		return nil
	}); err != nil {
		return err
	}
	failpoint.Hit(failpoint.StatesCommitted)
	if s.fault != nil {
		return s.fault(true)
	}
	return nil
}

func (s *store) close() error {
	close(s.stop)
	<-s.stopped
	return s.db.Close()
}

// encode is json.Marshal without HTML escapes, which would change the text, and
// so the size, of payloads that are saved and read again.
func encode(value any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

func putJSON(b *bbolt.Bucket, key []byte, value any) error {
	text, err := encode(value)
	if err != nil {
		return err
	}
	return b.Put(key, text)
}
