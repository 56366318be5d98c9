package states

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.etcd.io/bbolt"

	"github.com/pxhost/pxhost/infra/local/failpoint"
	"github.com/pxhost/pxhost/infra/local/states/asl"
)

// A distributed Map: what it does, and where that comes from.
//
//   - A child's ARN is execution:MACHINE/LABEL:NAME, its machine's is
//     stateMachine:MACHINE/LABEL, the Map Run's mapRun:MACHINE/LABEL:ID (the API
//     reference of DescribeMapRun and ListMapRuns, and recorded answers).
//   - Without a ResultWriter the state's result is the array of the children's
//     outputs in the items' order (Transformation COMPACT, the developer guide's
//     page "ResultWriter"). A child that failed within the tolerance stands there
//     as its whole result: ExecutionArn, Input, Name, Status, Error, Cause and so
//     on, as with Transformation NONE (the same page). Over 262,144 bytes the
//     state fails with States.DataLimitExceeded.
//   - What counts as a failure is a child that failed or timed out; the share is
//     taken of all items. Without a threshold one failure is too much; with both,
//     either is ("Tolerated failure threshold"). Stopped children do not count.
//   - The role needs states:StartExecution on its own machine, and s3:GetObject
//     on the reader's object ("IAM policies for using Distributed Map states").
//   - A child has a history, a context object and variables of its own. Its
//     Execution.Input is its input; it has no Map.Item, which only ItemSelector
//     sees, and it does not see the parent's variables.
//   - The machine's TimeoutSeconds is the parent's; children end with it.
//
// Decided here: what goes wrong in ItemSelector fails the Map Run under its own
// error name; a reader that cannot be used, an object that is missing, not
// permitted or not what InputType says is States.ItemReaderFailed; a missing
// right to start children is States.Permissions; no items give [].
//
// # How it is kept
//
// The items lie in the file, not in memory: they are read and written before the
// first child starts, and an item goes in the transaction that starts its child.
// That transaction holds the child, its name, and the number of the next item,
// so that after a kill no item is without a child and none has two. The name is
// a digest of Map Run and index: it could not be another one. A child's last
// transaction holds what it gives to the array; its parent is told afterwards,
// in memory, and counts anew when the file is opened. The parent goes first when
// it ends early: children whose parent does not wait for them are stopped, after
// a kill at the next Open.

// mapRun is a distributed Map that runs, a part of its frame.
type mapRun struct {
	Number        int64    `json:"number"` // within the execution
	ID            string   `json:"id"`
	Limit         int      `json:"limit"`
	Count         *int64   `json:"count,omitempty"`   // tolerated
	Percent       *float64 `json:"percent,omitempty"` // tolerated
	Bucket        string   `json:"bucket,omitempty"`
	Key           string   `json:"key,omitempty"`
	JSONL         bool     `json:"jsonl,omitempty"`
	MaxItems      int      `json:"maxItems,omitempty"`
	Total         int      `json:"total,omitempty"` // known when the items are read
	items         []byte   // of a Map without a reader, until they are in the file
	next          int      // the first item that has no child; in the file under mapRuns
	ended, failed int
	size          int // of the results, in bytes
	children      map[int]*execution
	changed       bool // next is to be written
}

// childOf says whose child an execution is.
type childOf struct {
	Parent uint64 `json:"parent"`
	Run    int64  `json:"run"`
	Index  int    `json:"index"`
	Flow   int    `json:"workflow"`
	Map    string `json:"map"` // the Map Run's id
}

// birth is a child that starts with the step under way.
type birth struct {
	run    *mapRun
	record executionRecord
	root   *frame
	first  event
	seq    uint64
}

func runKey(parent uint64, run int64) []byte { return subKey(parent, run) }

func itemKey(parent uint64, run int64, index int) []byte {
	return binary.BigEndian.AppendUint32(runKey(parent, run), uint32(index))
}

// childName is a name in the form of a UUID, the same for a Map Run's item each
// time it is asked.
func childName(run string, index int) string {
	sum := sha256.Sum256([]byte(run + "/" + strconv.Itoa(index)))
	b := sum[:16]
	b[6], b[8] = b[6]&0x0f|0x80, b[8]&0x3f|0x80 // version 8: made as the maker likes
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[0:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// mapRunARN is of a Map Run of a child's machine, which is MACHINE/LABEL.
func (s *Service) mapRunARN(machine, id string) string {
	return fmt.Sprintf("arn:aws:states:%s:%s:mapRun:%s:%s", s.options.Region, s.options.AccountID, machine, id)
}

func (ex *execution) startDistributed(f *frame, s *asl.DistributedMap) {
	run := &mapRun{children: map[int]*execution{}}
	length := 0
	if s.Reader == nil {
		items := []byte(f.Input)
		if s.Items != nil {
			var err *stateError
			if items, err = ex.eval(f, s.Items, data{input: f.Input}); err != nil {
				ex.fail(f, err)
				return
			}
		}
		var list []json.RawMessage
		if json.Unmarshal(items, &list) != nil || list == nil {
			if s.Items != nil {
				ex.fail(f, ex.wrongType(f, s.Items, "array", items))
			} else {
				ex.fail(f, &stateError{Name: errQuery, location: "Items", Cause: ex.where(f) + "The state's input, which a Map without Items takes for its items, is not an array."})
			}
			return
		}
		run.items, length = items, len(list)
	} else if err := ex.readerOf(f, s.Reader, run); err != nil {
		ex.fail(f, err)
		return
	}
	if err := ex.runtimeOf(f, s, run); err != nil {
		ex.fail(f, err)
		return
	}
	ex.progress.Run++
	run.Number, run.ID = ex.progress.Run, newID()
	f.StartedEvent = ex.emit(f, event{Type: "MapStateStarted", MapStarted: &mapStartedDetails{Length: length}})
	ex.emit(f, event{Type: "MapRunStarted", MapRunStarted: &mapRunStartedDetails{ARN: ex.svc.mapRunARN(ex.record.Machine+"/"+s.Label, run.ID)}})
	f.MapRun, f.Phase = run, phaseRead
	ex.mark(f)
	if machine := ex.svc.machineARN(ex.record.Machine); !ex.svc.permits(ex.record.Machine, "states:StartExecution", machine) {
		ex.failMapRun(f, &stateError{Name: errPermissions, Cause: "The role of the state machine is not authorized to perform states:StartExecution on " + machine})
		return
	}
	ex.launches = append(ex.launches, f)
}

// readerOf evaluates what an ItemReader says.
func (ex *execution) readerOf(f *frame, r *asl.ItemReader, run *mapRun) *stateError {
	arguments, err := ex.eval(f, r.Arguments, data{input: f.Input})
	if err != nil {
		return err
	}
	var problem error
	if run.Bucket, run.Key, problem = asl.ReadReaderArguments(arguments); problem != nil {
		return &stateError{Name: errReader, Cause: ex.where(f) + problem.Error()}
	}
	run.JSONL = r.JSONL
	if r.MaxItems != nil {
		limit, err := ex.evalIntegerTo(f, r.MaxItems, 0, asl.MaxItems)
		if err != nil {
			return err
		}
		run.MaxItems = int(limit)
	}
	return nil
}

func (ex *execution) runtimeOf(f *frame, s *asl.DistributedMap, run *mapRun) *stateError {
	run.Limit = asl.DistributedConcurrency
	if s.MaxConcurrency != nil {
		limit, err := ex.evalInteger(f, s.MaxConcurrency, 0)
		if err != nil {
			return err
		}
		if limit > 0 {
			run.Limit = int(min(limit, asl.DistributedConcurrency))
		}
	}
	if s.ToleratedCount != nil {
		count, err := ex.evalInteger(f, s.ToleratedCount, 0)
		if err != nil {
			return err
		}
		run.Count = &count
	}
	if t := s.ToleratedPercent; t != nil {
		value, err := ex.eval(f, t, data{input: f.Input})
		if err != nil {
			return err
		}
		rate, parseErr := strconv.ParseFloat(string(value), 64)
		if typeName(value) != "number" {
			return ex.wrongType(f, t, "number", value)
		}
		if parseErr != nil || rate < 0 || rate > 100 {
			return ex.evaluationError(f, t, fmt.Sprintf("The value %s of the field '%s' is not a number from 0 to 100.", value, t.Location))
		}
		run.Percent = &rate
	}
	return nil
}

// exceeded tells whether more children failed than the state tolerates.
func (r *mapRun) exceeded() bool {
	if r.Count == nil && r.Percent == nil {
		return r.failed > 0
	}
	return r.Count != nil && int64(r.failed) > *r.Count || r.Percent != nil && float64(r.failed)*100 > *r.Percent*float64(r.Total)
}

// fetch gets the items into the file. Nothing else of the Map Run has happened,
// so that after a kill it is simply done again.
func (ex *execution) fetch(f *frame) {
	run := f.MapRun
	items, jsonl, limit := run.items, run.JSONL, run.MaxItems
	if run.Bucket == "" && items == nil { // after a restart
		s := ex.state(f).(*asl.DistributedMap)
		items = f.Input
		if s.Items != nil {
			var err *stateError
			if items, err = ex.eval(f, s.Items, data{input: f.Input}); err != nil {
				ex.post(message{apply: func() error { ex.fetched(f, run, 0, err); return nil }})
				return
			}
		}
	}
	run.items = nil
	if !ex.svc.begin() {
		return
	}
	ctx, cancel := context.WithCancel(ex.svc.ctx)
	ex.cancels[f.ID] = cancel
	bucket, key, machine, seq := run.Bucket, run.Key, ex.record.Machine, ex.seq
	go func() {
		defer ex.svc.end()
		defer cancel()
		var failure *stateError
		if bucket != "" {
			var err error
			if items, err = ex.svc.object(ctx, machine, bucket, key); err != nil {
				failure = &stateError{Name: errReader, Cause: fmt.Sprintf("Failed to read s3://%s/%s: %v", bucket, key, err)}
			}
		}
		total := 0
		if failure == nil {
			var err error
			if total, err = ex.svc.store.putItems(ctx, seq, run.Number, items, jsonl, limit); errors.Is(err, errNotWritten) {
				ex.post(message{apply: func() error { ex.breaks(err); return nil }})
				return
			} else if err != nil {
				failure = &stateError{Name: errReader, Cause: fmt.Sprintf("Failed to read the items: %v.", err)}
			}
		}
		if ctx.Err() != nil { // the Map is over, or the host closes
			// What was written after the pruner came by is found by its next round.
			ex.svc.store.update(func(tx *bbolt.Tx) error {
				if key := runKey(seq, run.Number); ex.svc.ctx.Err() == nil {
					return tx.Bucket(bucketGarbage).Put(key, nil)
				}
				return nil
			})
			ex.svc.prune()
			return
		}
		ex.post(message{apply: func() error { ex.fetched(f, run, total, failure); return nil }})
	}()
}

// errNotWritten: the file could not be written, which is no fault of the items.
var errNotWritten = errors.New("the items cannot be written")

// putItems writes the items of a Map Run, a group at a time.
func (s *store) putItems(ctx context.Context, parent uint64, run int64, items []byte, jsonl bool, limit int) (total int, err error) {
	const groupBytes = 1 << 20
	var group [][]byte
	size, first := 0, 0
	flush := func() error {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := s.update(func(tx *bbolt.Tx) error {
			b := tx.Bucket(bucketItems)
			for i, item := range group {
				if err := b.Put(itemKey(parent, run, first+i), item); err != nil {
					return err
				}
			}
			return nil
		})
		first, group, size = first+len(group), nil, 0
		if err != nil {
			return fmt.Errorf("%w: %w", errNotWritten, err)
		}
		return nil
	}
	err = readItems(items, jsonl, limit, func(item []byte) error {
		total++
		group, size = append(group, item), size+len(item)
		if size >= groupBytes || len(group) >= 1000 {
			return flush()
		}
		return nil
	})
	if err == nil && len(group) > 0 {
		err = flush()
	}
	return total, err
}

func (ex *execution) fetched(f *frame, run *mapRun, total int, failure *stateError) {
	if ex.ended || ex.frames[f.ID] != f || f.MapRun != run || f.Phase != phaseRead {
		return
	}
	if failure != nil {
		ex.failMapRun(f, failure)
		return
	}
	run.Total, run.changed = total, true
	f.Phase = phaseJoin
	ex.mark(f)
	ex.advanceMap(f)
}

// advanceMap starts the children that may start, or ends the Map Run.
func (ex *execution) advanceMap(f *frame) {
	run, s := f.MapRun, ex.state(f).(*asl.DistributedMap)
	if run.exceeded() {
		ex.failMapRun(f, &stateError{Name: errTolerated, Cause: "The specified tolerated failure threshold was exceeded"})
		return
	}
	if run.ended == run.Total {
		ex.finishMapRun(f)
		return
	}
	last := min(run.Total, run.ended+run.Limit)
	if run.next >= last {
		return
	}
	items := make([][]byte, 0, last-run.next)
	if err := ex.svc.store.view(func(tx *bbolt.Tx) error {
		b := tx.Bucket(bucketItems)
		for i := run.next; i < last; i++ {
			item := b.Get(itemKey(ex.seq, run.Number, i))
			if item == nil {
				return fmt.Errorf("item %d is missing", i)
			}
			items = append(items, bytes.Clone(item))
		}
		return nil
	}); err != nil {
		ex.failMapRun(f, &stateError{Name: errRuntime, Cause: err.Error()})
		return
	}
	now := ex.svc.now().Truncate(1e6)
	machine := ex.record.Machine + "/" + s.Label
	for _, item := range items {
		index, input := run.next, item
		if s.ItemSelector != nil {
			var err *stateError
			if input, err = ex.eval(f, s.ItemSelector, data{input: f.Input, item: item, index: index}); err == nil && len(input) > maxPayload {
				err = ex.tooLarge(f.State)
			}
			if err != nil {
				ex.failMapRun(f, err)
				return
			}
		}
		run.next++
		run.changed = true
		ex.births = append(ex.births, &birth{run: run,
			record: executionRecord{Machine: machine, Name: childName(run.ID, index), RoleARN: ex.record.RoleARN, Definition: ex.record.Definition,
				Status: statusRunning, Input: string(input), Started: now, Child: &childOf{Parent: ex.seq, Run: run.Number, Index: index, Flow: s.Processor.ID, Map: run.ID}},
			root: &frame{Parent: -1, Phase: phaseEnter, Workflow: s.Processor.ID, State: s.Processor.StartAt, Input: input},
			first: event{ID: 1, Timestamp: epoch(now), Type: "ExecutionStarted",
				ExecutionStarted: &executionStartedDetails{Input: string(input), RoleARN: ex.record.RoleARN}},
		})
	}
}

// bear writes a child in the step that starts it.
func (b *birth) bear(tx *bbolt.Tx) error {
	executions := tx.Bucket(bucketExecutions)
	var err error
	if b.seq, err = executions.NextSequence(); err != nil {
		return err
	}
	key, child := seqKey(b.seq), b.record.Child
	return errors.Join(
		putJSON(executions, key, b.record),
		tx.Bucket(bucketNames).Put(nameKey(b.record.Machine, b.record.Name), key),
		putJSON(tx.Bucket(bucketRunning), key, progress{Event: 1, Frame: 1}),
		putJSON(tx.Bucket(bucketFrames), subKey(b.seq, 0), b.root),
		putJSON(tx.Bucket(bucketHistory), subKey(b.seq, 1), b.first),
		tx.Bucket(bucketItems).Delete(itemKey(child.Parent, child.Run, child.Index)),
	)
}

// grow makes the children that were written run.
func (ex *execution) grow(births []*birth) {
	if len(births) > 0 {
		failpoint.Hit(failpoint.StatesMapped)
	}
	for _, b := range births {
		child := ex.svc.newExecution(b.seq, b.record, ex.machine)
		child.progress = progress{Event: 1, Frame: 1}
		child.frames[0] = b.root
		b.run.children[b.record.Child.Index] = child
		ex.svc.mu.Lock()
		ex.svc.running[b.seq] = child
		ex.svc.mu.Unlock()
		child.post(message{apply: child.resume})
	}
}

// A result is a child's element of the Map's array behind one byte that says
// how the child ended.
func result(record executionRecord, element []byte) []byte {
	return append([]byte{record.Status[0]}, element...)
}

// element is what a child gives to the array.
func (ex *execution) element() ([]byte, error) {
	if ex.record.Status == statusSucceeded {
		return ex.record.Output, nil
	}
	r := ex.record
	return encode(struct {
		ExecutionArn, Name, StateMachineArn, Status, StartDate, StopDate string
		Input                                                            string
		InputDetails                                                     struct{ Included bool }
		Error, Cause                                                     *string `json:",omitempty"`
		RedriveCount                                                     int
		RedriveStatus, RedriveStatusReason                               string
	}{ex.arn, r.Name, ex.svc.machineARN(r.Machine), r.Status, r.Started.UTC().Format(isoMillis), r.Stopped.UTC().Format(isoMillis),
		r.Input, struct{ Included bool }{true}, r.Error, r.Cause, 0, "NOT_REDRIVABLE", "the local host does not redrive executions"})
}

// putResult keeps a child's element with the child's end, while its Map Run
// waits for it.
func (ex *execution) putResult(tx *bbolt.Tx, element []byte) error {
	child := ex.record.Child
	if tx.Bucket(bucketMapRuns).Get(runKey(child.Parent, child.Run)) == nil {
		return nil
	}
	return tx.Bucket(bucketResults).Put(itemKey(child.Parent, child.Run, child.Index), result(ex.record, element))
}

// tellParent is called when a child's end is on disk.
func (ex *execution) tellParent() {
	failpoint.Hit(failpoint.StatesJoining)
	child := *ex.record.Child
	status, size := ex.record.Status, ex.elementSize
	if parent := ex.svc.inMemory(child.Parent); parent != nil {
		parent.post(message{apply: func() error { parent.childEnded(child, status, size); return nil }})
	}
}

func (ex *execution) childEnded(child childOf, status string, size int) {
	if ex.ended {
		return
	}
	for _, f := range ex.frames {
		if f.MapRun != nil && f.MapRun.Number == child.Run && f.Phase == phaseJoin {
			delete(f.MapRun.children, child.Index)
			f.MapRun.count(status[0], size)
			ex.joining = append(ex.joining, f)
		}
	}
}

// count takes a child that ended into account.
func (r *mapRun) count(status byte, size int) {
	r.ended++
	r.size += size
	if status == statusFailed[0] || status == statusTimedOut[0] {
		r.failed++
	}
}

// join goes on with the Map Runs whose children ended, once a step for all of
// them.
func (ex *execution) join() {
	joining := ex.joining
	ex.joining = nil
	for i, f := range joining {
		if !ex.ended && !slices.Contains(joining[:i], f) && ex.frames[f.ID] == f && f.MapRun != nil && f.Phase == phaseJoin {
			ex.advanceMap(f)
		}
	}
}

// finishMapRun gives the array of all results.
func (ex *execution) finishMapRun(f *frame) {
	run := f.MapRun
	if run.size+run.Total+1 > maxPayload {
		ex.failMapRun(f, ex.tooLarge(f.State))
		return
	}
	out := append(make([]byte, 0, run.size+run.Total+2), '[')
	if err := ex.svc.store.view(func(tx *bbolt.Tx) error {
		prefix := runKey(ex.seq, run.Number)
		c := tx.Bucket(bucketResults).Cursor()
		for k, v := c.Seek(prefix); k != nil && bytes.HasPrefix(k, prefix); k, v = c.Next() {
			if len(out) > 1 {
				out = append(out, ',')
			}
			out = append(out, v[1:]...)
		}
		return nil
	}); err != nil {
		ex.failMapRun(f, &stateError{Name: errRuntime, Cause: err.Error()})
		return
	}
	out = append(out, ']')
	ex.emit(f, event{Type: "MapRunSucceeded"})
	ex.joined(f, out)
}

// failMapRun ends a Map Run that failed: its children are stopped.
func (ex *execution) failMapRun(f *frame, failure *stateError) {
	if failure.location != "" && !failure.silent {
		ex.emitEvaluationFailed(f, failure)
		failure.silent = true
	}
	details := &failureDetails{Error: &failure.Name, Cause: &failure.Cause}
	ex.emit(f, event{Type: "MapRunFailed", MapRunFailed: details})
	ex.emit(f, event{Type: "MapStateFailed"})
	ex.fail(f, failure)
}

// dropMapRun forgets a frame's Map Run, however it ended.
func (ex *execution) dropMapRun(f *frame) {
	if f.MapRun == nil {
		return
	}
	ex.births = slices.DeleteFunc(ex.births, func(b *birth) bool { return b.run == f.MapRun })
	ex.over = append(ex.over, f.MapRun)
	f.MapRun = nil
	ex.mark(f)
}

// stopChildren stops what still runs of Map Runs that are over.
func (ex *execution) stopChildren(runs []*mapRun) {
	for _, run := range runs {
		for _, child := range run.children {
			child.post(message{apply: child.orphaned})
		}
	}
	if len(runs) > 0 {
		ex.svc.prune()
	}
}

// orphaned stops a child whose Map Run is over.
func (ex *execution) orphaned() error {
	return ex.stop("", "The Map Run that started the execution has ended.")
}

// adopt connects loaded children and their Map Runs, and gives those whose Map
// Run is over.
func (s *Service) adopt(tx *bbolt.Tx) (orphans []*execution, err error) {
	for _, ex := range s.running {
		for _, f := range ex.frames {
			if f.MapRun == nil {
				continue
			}
			f.MapRun.children = map[int]*execution{}
			if f.Phase != phaseJoin {
				continue
			}
			prefix := runKey(ex.seq, f.MapRun.Number)
			if err := json.Unmarshal(tx.Bucket(bucketMapRuns).Get(prefix), &f.MapRun.next); err != nil {
				return nil, fmt.Errorf("the Map Run %d of execution %d: %w", f.MapRun.Number, ex.seq, err)
			}
			c := tx.Bucket(bucketResults).Cursor()
			for k, v := c.Seek(prefix); k != nil && bytes.HasPrefix(k, prefix); k, v = c.Next() {
				f.MapRun.count(v[0], len(v)-1)
			}
		}
	}
	for _, ex := range s.running {
		child := ex.record.Child
		if child == nil {
			continue
		}
		found := false
		if parent := s.running[child.Parent]; parent != nil {
			for _, f := range parent.frames {
				if f.MapRun != nil && f.MapRun.Number == child.Run && f.Phase == phaseJoin {
					f.MapRun.children[child.Index], found = ex, true
				}
			}
		}
		if !found {
			orphans = append(orphans, ex)
		}
	}
	return orphans, nil
}

// baseMachine is the machine of an execution or of a child's parent.
func baseMachine(machine string) string {
	name, _, _ := strings.Cut(machine, "/")
	return name
}

func (s *Service) permits(machine, action, resource string) bool {
	return s.options.Permits == nil || s.options.Permits(baseMachine(machine), action, resource)
}

// object reads an ItemReader's object for a machine, if its role may.
func (s *Service) object(ctx context.Context, machine, bucket, key string) ([]byte, error) {
	if s.options.Objects == nil {
		return nil, errors.New("no object store is connected")
	}
	if arn := "arn:aws:s3:::" + bucket + "/" + key; !s.permits(machine, "s3:GetObject", arn) {
		return nil, fmt.Errorf("the role of the state machine is not authorized to perform s3:GetObject on %s", arn)
	}
	return s.options.Objects.Object(ctx, bucket, key)
}
