package states

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"go.etcd.io/bbolt"

	"github.com/pxhost/pxhost/infra/local/jsonata"
	"github.com/pxhost/pxhost/infra/local/states/asl"
)

// Options of a Service.
type Options struct {
	Path      string           // the bbolt file; made when it does not exist
	Clock     func() time.Time // default time.Now
	Region    string           // default "us-east-1"
	AccountID string           // default "000000000000"
	Lambda    Invoker
	// Objects are what an ItemReader reads. Nil: there are none.
	Objects Objects
	// Permits tells whether the role of a machine may do something, where that is
	// the emulator's own doing: states:StartExecution of a Map Run's children, and
	// s3:GetObject of its items. Nil: everything is permitted.
	Permits func(machine, action, resource string) bool
	// KeepHistories is of how many executions that ended the history is kept.
	// Default 2,000.
	KeepHistories int
	// Random gives numbers in [0, 1) for retry jitter. Default math/rand.
	Random func() float64
	// Logger is told what no caller is: a write that failed. Default: nobody.
	Logger *slog.Logger
}

// Objects is an object store. The error's text is told to the state machine.
type Objects interface {
	Object(ctx context.Context, bucket, key string) ([]byte, error)
}

// Service is the emulated Step Functions of one account and region.
type Service struct {
	options Options
	engine  *jsonata.Engine
	store   *store
	secret  []byte
	timers  *timers

	ctx    context.Context // ends when the service closes
	cancel context.CancelFunc

	life struct {
		sync.Mutex
		closed bool
		work   sync.WaitGroup // loops, calls, the clock
	}

	admin sync.Mutex // held over a change of a machine, so that machines below follows the file

	mu       sync.Mutex
	machines map[string]machineRecord
	parsed   map[string]*asl.Machine // by digest of the definition
	running  map[uint64]*execution
	orphans  []*execution // children whose Map Run was over when the file was opened

	pruner pruner
}

// Open opens the file and goes on with every execution that runs: waits and
// timeouts fire at the times they were due, tokens stay valid, and a function
// whose answer was not written down is called again.
func Open(options Options) (*Service, error) {
	if options.Lambda == nil {
		return nil, errors.New("states: Options.Lambda is needed")
	}
	if options.Clock == nil {
		options.Clock = time.Now
	}
	if options.Region == "" {
		options.Region = "us-east-1"
	}
	if options.AccountID == "" {
		options.AccountID = "000000000000"
	}
	if options.Random == nil {
		options.Random = mathrand.Float64
	}
	if options.KeepHistories == 0 {
		options.KeepHistories = 2000
	}
	if options.Logger == nil {
		options.Logger = slog.New(slog.DiscardHandler)
	}
	store, err := openStore(options.Path)
	if err != nil {
		return nil, fmt.Errorf("states: %w", err)
	}
	s := &Service{options: options, store: store, engine: jsonata.New(jsonata.Options{Clock: options.Clock}),
		machines: map[string]machineRecord{}, parsed: map[string]*asl.Machine{}, running: map[uint64]*execution{}, pruner: pruner{wake: make(chan struct{}, 1)}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.timers = newTimers(s.now, func(ex *execution) {
		ex.post(message{apply: func() error { ex.tick(); return nil }})
	})
	if err := s.load(); err != nil {
		s.cancel()
		store.close()
		return nil, fmt.Errorf("states: load %s: %w", options.Path, err)
	}
	s.begin()
	go func() {
		defer s.end()
		s.timers.run(s.ctx)
	}()
	s.begin()
	go func() {
		defer s.end()
		s.runPruner()
	}()
	// Both lists are taken first: executions change them as soon as they go on.
	var resumed []*execution
	for _, ex := range s.running {
		resumed = append(resumed, ex)
	}
	var deleted []string
	for name, m := range s.machines {
		if m.Deleting && !s.runsOf(name) {
			deleted = append(deleted, name)
		}
	}
	for _, name := range deleted {
		s.removeMachine(name)
	}
	for _, ex := range resumed {
		ex.post(message{apply: ex.resume})
	}
	for _, ex := range s.orphans {
		ex.post(message{apply: ex.orphaned})
	}
	s.orphans = nil
	return s, nil
}

// Close stops all work and closes the file. Executions that run go on at the
// next Open. It waits for calls under way to notice that their context ended.
func (s *Service) Close() error {
	s.life.Lock()
	if s.life.closed {
		s.life.Unlock()
		return nil
	}
	s.life.closed = true
	s.life.Unlock()
	s.cancel()
	s.life.work.Wait()
	return s.store.close()
}

// begin registers a piece of work that Close waits for.
func (s *Service) begin() bool {
	s.life.Lock()
	defer s.life.Unlock()
	if s.life.closed {
		return false
	}
	s.life.work.Add(1)
	return true
}

func (s *Service) end() { s.life.work.Done() }

func (s *Service) now() time.Time { return s.options.Clock().UTC() }

func (s *Service) machineARN(name string) string {
	return fmt.Sprintf("arn:aws:states:%s:%s:stateMachine:%s", s.options.Region, s.options.AccountID, name)
}

func (s *Service) executionARN(machine, name string) string {
	return fmt.Sprintf("arn:aws:states:%s:%s:execution:%s:%s", s.options.Region, s.options.AccountID, machine, name)
}

// load reads machines and running executions; of those that ended it reads nothing.
func (s *Service) load() error {
	if err := s.store.db.Update(func(tx *bbolt.Tx) error {
		meta := tx.Bucket(bucketMeta)
		if secret := meta.Get([]byte("secret")); secret != nil {
			s.secret = bytes.Clone(secret)
			return nil
		}
		s.secret = make([]byte, 32)
		rand.Read(s.secret)
		return meta.Put([]byte("secret"), s.secret)
	}); err != nil {
		return err
	}
	type refused struct {
		key []byte
		why error
	}
	var rejected []refused
	if err := s.store.view(func(tx *bbolt.Tx) error {
		if err := tx.Bucket(bucketMachines).ForEach(func(name, text []byte) error {
			var m machineRecord
			if err := json.Unmarshal(text, &m); err != nil {
				return fmt.Errorf("machine %s: %w", name, err)
			}
			s.machines[string(name)] = m
			return nil
		}); err != nil {
			return err
		}
		return tx.Bucket(bucketRunning).ForEach(func(key, text []byte) error {
			ex, err := s.loadExecution(tx, key, text)
			if errors.Is(err, errNotAccepted) {
				rejected = append(rejected, refused{bytes.Clone(key), err})
				return nil
			}
			if err != nil {
				return fmt.Errorf("execution %x: %w", key, err)
			}
			s.running[ex.seq] = ex
			return nil
		})
	}); err != nil {
		return err
	}
	if err := s.store.view(func(tx *bbolt.Tx) (err error) {
		s.pruner.kept.Store(int64(tx.Bucket(bucketKept).Stats().KeyN))
		s.orphans, err = s.adopt(tx)
		return err
	}); err != nil {
		return err
	}
	for _, r := range rejected {
		if err := s.store.update(func(tx *bbolt.Tx) error { return s.reject(tx, r.key, r.why) }); err != nil {
			return fmt.Errorf("execution %x: %w", r.key, err)
		}
	}
	return nil
}

// errNotAccepted: a file of an earlier version holds a definition that this
// version's parser refuses.
var errNotAccepted = errors.New("this version of the local host does not accept the definition")

// reject ends an execution that cannot go on, because its definition is not
// accepted any more. The others, and the host, are not held up by it.
func (s *Service) reject(tx *bbolt.Tx, key []byte, why error) error {
	var record executionRecord
	if err := json.Unmarshal(tx.Bucket(bucketExecutions).Get(key), &record); err != nil {
		return err
	}
	var last progress
	if err := json.Unmarshal(tx.Bucket(bucketRunning).Get(key), &last); err != nil {
		return err
	}
	name, cause := errRuntime, why.Error()
	record.Status, record.Stopped, record.Error, record.Cause = statusFailed, s.now(), &name, &cause
	e := event{ID: last.Event + 1, Previous: last.Event, Timestamp: epoch(record.Stopped), Type: "ExecutionFailed",
		ExecutionFailed: &failureDetails{Error: &name, Cause: &cause}}
	frames := tx.Bucket(bucketFrames)
	for id := range last.Frame {
		if err := frames.Delete(subKey(beUint64(key), int64(id))); err != nil {
			return err
		}
	}
	return errors.Join(
		putJSON(tx.Bucket(bucketExecutions), key, record),
		putJSON(tx.Bucket(bucketHistory), subKey(beUint64(key), e.ID), e),
		tx.Bucket(bucketRunning).Delete(key),
		putEnded(tx, record.Stopped, beUint64(key)),
	)
}

func (s *Service) loadExecution(tx *bbolt.Tx, key, progressText []byte) (*execution, error) {
	var record executionRecord
	if err := json.Unmarshal(tx.Bucket(bucketExecutions).Get(key), &record); err != nil {
		return nil, err
	}
	machine, err := s.machine(record.Definition, tx)
	if err != nil {
		return nil, err
	}
	ex := s.newExecution(beUint64(key), record, machine)
	if err := json.Unmarshal(progressText, &ex.progress); err != nil {
		return nil, err
	}
	c := tx.Bucket(bucketFrames).Cursor()
	for k, v := c.Seek(key); k != nil && bytes.HasPrefix(k, key); k, v = c.Next() {
		f := &frame{}
		if err := json.Unmarshal(v, f); err != nil {
			return nil, err
		}
		ex.frames[f.ID] = f
	}
	if ex.frames[0] == nil {
		return nil, errors.New("its root frame is missing")
	}
	return ex, nil
}

// resume puts a loaded execution to work. A frame that was about to enter a
// state enters it; a call whose answer is missing is made again.
func (ex *execution) resume() error {
	for _, f := range ex.frames {
		if parent := ex.frames[f.Parent]; parent != nil {
			parent.started++
			if f.Phase == phaseDone {
				parent.finished++
				parent.Prev = max(parent.Prev, f.Prev)
			}
		}
	}
	for id := range ex.progress.Frame {
		f := ex.frames[id]
		if f == nil {
			continue
		}
		switch f.Phase {
		case phaseEnter, phaseAttempt:
			ex.ready = append(ex.ready, f)
		case phaseTask, phaseRead:
			ex.launches = append(ex.launches, f)
		case phaseJoin:
			if f.MapRun != nil {
				ex.advanceMap(f)
			}
		}
	}
	ex.tick()
	return nil
}

func beUint64(key []byte) uint64 {
	var v uint64
	for _, b := range key[:8] {
		v = v<<8 | uint64(b)
	}
	return v
}

func (s *Service) forget(ex *execution) {
	finish := func() bool {
		m, ok := s.machines[ex.record.Machine]
		return ok && m.Deleting && !s.runsOf(ex.record.Machine)
	}
	s.mu.Lock()
	delete(s.running, ex.seq)
	last := finish()
	s.mu.Unlock()
	if !last {
		return
	}
	s.admin.Lock()
	defer s.admin.Unlock()
	s.mu.Lock()
	last = finish()
	s.mu.Unlock()
	if last {
		s.removeMachine(ex.record.Machine)
	}
}

// runsOf tells whether an execution of the machine runs. Caller holds mu.
func (s *Service) runsOf(machine string) bool {
	for _, ex := range s.running {
		if ex.record.Machine == machine {
			return true
		}
	}
	return false
}

// machine gives the parsed definition of a digest.
func (s *Service) machine(digest string, tx *bbolt.Tx) (*asl.Machine, error) {
	s.mu.Lock()
	m := s.parsed[digest]
	s.mu.Unlock()
	if m != nil {
		return m, nil
	}
	var text []byte
	read := func(tx *bbolt.Tx) error {
		text = bytes.Clone(tx.Bucket(bucketDefinitions).Get([]byte(digest)))
		return nil
	}
	if tx != nil {
		read(tx)
	} else if err := s.store.view(read); err != nil {
		return nil, err
	}
	if text == nil {
		return nil, fmt.Errorf("the definition %s is missing", digest)
	}
	m, diagnostics := asl.Parse(text, s.engine)
	if m == nil {
		return nil, fmt.Errorf("%w: %v", errNotAccepted, diagnostics[0])
	}
	s.mu.Lock()
	s.parsed[digest] = m
	s.mu.Unlock()
	return m, nil
}

func digestOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// newID is a random UUID.
func newID() string {
	var b [16]byte
	rand.Read(b[:])
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[0:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// compactJSON checks that a text is one JSON value, strictly (no duplicate
// names, valid UTF-8, numbers within a double's range), and takes the white
// space away.
func compactJSON(text []byte) ([]byte, error) {
	d := jsontext.NewDecoder(bytes.NewReader(text))
	value, err := d.ReadValue()
	if err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), "jsontext: "))
	}
	out := bytes.Clone(value)
	if _, err := d.ReadToken(); err == nil || err.Error() != "EOF" {
		return nil, errors.New("there is more after the JSON value")
	}
	v := jsontext.Value(out)
	if err := v.Compact(); err != nil {
		return nil, err
	}
	if err := checkNumbers(v); err != nil {
		return nil, err
	}
	return v, nil
}

func checkNumbers(text []byte) error {
	d := jsontext.NewDecoder(bytes.NewReader(text))
	for {
		t, err := d.ReadToken()
		if err != nil {
			return nil // the end; the text is valid
		}
		if t.Kind() == '0' {
			if f, err := json.Number(t.String()).Float64(); err != nil || f > 1.7976931348623157e308 || f < -1.7976931348623157e308 {
				return errors.New("a number is out of a double's range")
			}
		}
	}
}
