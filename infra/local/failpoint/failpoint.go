// Package failpoint lets the local host be killed at a named moment, so that a
// test can hold it to what it promises about crashes.
//
// A point stands wherever the order of two effects matters: between a write and
// the reply that acknowledges it, between a state that is on disk and what it
// leads to. At most one point is armed, once, before the host starts; an unarmed
// point costs one atomic load. It knows nothing of the host.
package failpoint

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
)

// A Point is a moment at which the process can be killed.
type Point string

// The points, each with what has happened and what has not.
const (
	StartLocked   Point = "start.locked"    // the state folder is ours, nothing else is done
	StartKeys     Point = "start.keys"      // the keys are there, no database is open
	StartTables   Point = "start.tables"    // tables are made, buckets and state machines are not
	StartBuckets  Point = "start.buckets"   // buckets are made, functions cannot be started
	StartResumed  Point = "start.resumed"   // executions that were left go on, but no address answers
	StartServing  Point = "start.serving"   // addresses answer, no file says where
	StartHostFile Point = "start.host-file" // the folder says where the host listens, nothing is seeded
	StartSeeded   Point = "start.seeded"    // the sample is there, the ready file is not

	DynamoDBCommitting Point = "dynamodb.committing" // a group of writes is complete, nothing of it is on disk
	DynamoDBCommitted  Point = "dynamodb.committed"  // the group is on disk, nobody has been told

	StatesCommitting Point = "states.committing" // steps of executions are complete, nothing of them is on disk
	StatesCommitted  Point = "states.committed"  // the steps are on disk, nothing has been done about them
	StatesStarted    Point = "states.started"    // a new execution is on disk, StartExecution has not answered
	StatesLaunching  Point = "states.launching"  // a task is on disk as scheduled, its function has not been called
	StatesAnswered   Point = "states.answered"   // a task's function has answered, nothing of that is on disk
	StatesMapped     Point = "states.mapped"     // children of a distributed Map are on disk, none has begun
	StatesJoining    Point = "states.joining"    // a child of a Map has ended on disk, its parent has not been told
	StatesEnded      Point = "states.ended"      // the end of an execution is on disk, nobody has been told

	LambdaHanded   Point = "lambda.handed"   // an instance has its invocation
	LambdaAnswered Point = "lambda.answered" // an instance has answered, its caller has not been told
	LambdaAccepted Point = "lambda.accepted" // an asynchronous invocation is on disk and not begun
	LambdaAttempt  Point = "lambda.attempt"  // an asynchronous invocation has succeeded, the queue still holds it

	APIGatewayAnswered Point = "apigateway.answered" // the function has answered, the client has no byte of it

	ScheduleDue  Point = "schedule.due"  // a rule is due, its event is not sent
	ScheduleSent Point = "schedule.sent" // the event is accepted

	S3Storing Point = "s3.storing" // an object has been received, nothing of it is on disk
	S3Stored  Point = "s3.stored"  // the object is on disk, the client has not been told
)

// Points are all points, in the order of a host's life.
var Points = []Point{
	StartLocked, StartKeys, StartTables, StartBuckets, StartResumed, StartServing, StartHostFile, StartSeeded,
	DynamoDBCommitting, DynamoDBCommitted,
	StatesCommitting, StatesCommitted, StatesStarted, StatesLaunching, StatesAnswered, StatesMapped, StatesJoining, StatesEnded,
	LambdaHanded, LambdaAnswered, LambdaAccepted, LambdaAttempt,
	APIGatewayAnswered,
	ScheduleDue, ScheduleSent,
	S3Storing, S3Stored,
}

// armed is the point that kills, nil for none.
var armed atomic.Pointer[trigger]

type trigger struct {
	point Point
	left  atomic.Int64 // hits until the one that kills
}

// Arm makes the n-th hit of a point kill the process, given as "name" or
// "name:n" with n from 1. An empty text arms nothing. It is called at most once,
// before anything is hit.
func Arm(text string) error {
	if text == "" {
		return nil
	}
	name, count, counted := strings.Cut(text, ":")
	if !slices.Contains(Points, Point(name)) {
		return fmt.Errorf("there is no point %q", name)
	}
	n := int64(1)
	if counted {
		var err error
		if n, err = strconv.ParseInt(count, 10, 64); err != nil || n < 1 {
			return errors.New("the number of the hit is no integer from 1")
		}
	}
	t := &trigger{point: Point(name)}
	t.left.Store(n)
	armed.Store(t)
	return nil
}

// Hit kills the process at once, without any cleaning up, if it is the hit that
// was armed. It does not return then.
func Hit(p Point) {
	if t := armed.Load(); t != nil && t.point == p && t.left.Add(-1) == 0 {
		kill()
		select {} // until the signal arrives; nothing may happen after the point
	}
}
