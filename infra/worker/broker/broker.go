// Package broker asks the broker of an installation for jobs and tells it their
// results: JSON over the Lambda Invoke API. It is all of AWS that a worker may use.
package broker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"

	"github.com/pxhost/pxhost/infra/worker/job"
)

// An Invoker is the one call of the Lambda client that is used.
type Invoker interface {
	Invoke(context.Context, *lambda.InvokeInput, ...func(*lambda.Options)) (*lambda.InvokeOutput, error)
}

// A Broker speaks for one worker.
type Broker struct {
	Lambda   Invoker
	Function string // its name or ARN
	Worker   string // wrk_…
}

// A Claim says what the worker is.
type Claim struct {
	Slots  int    `json:"slots"`
	Python string `json:"python"`
	GVisor string `json:"gvisor"`
	Driver string `json:"driver"`
	Tenant string `json:"tenant,omitempty"`
}

// A Leased is a job with the lease on it. Nothing in Spec may be believed before
// job.Open has seen Signature.
type Leased struct {
	JobRef    string    `json:"jobRef"`
	Fence     int64     `json:"fence"`
	Until     time.Time `json:"until"`
	Spec      string    `json:"spec"`
	Signature []byte    `json:"signature"`
}

// A Beat answers a heartbeat.
type Beat struct {
	Until  time.Time `json:"until"`
	Cancel bool      `json:"cancel"`
	Stale  bool      `json:"stale"`
}

// A Failure says why a job could not be run at all.
type Failure string

// The failures. Only the first is tried again, by another worker.
const (
	SandboxFailed     Failure = "sandbox_failed"
	PythonUnavailable Failure = "python_unavailable"
	SpecRefused       Failure = "spec_refused"
	SignatureInvalid  Failure = "signature_invalid"
)

type request struct {
	V      int    `json:"v"`
	Op     string `json:"op"`
	Worker string `json:"worker"`
	*Claim
	JobRef  string          `json:"jobRef,omitempty"`
	Fence   int64           `json:"fence,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Failure *failure        `json:"failure,omitempty"`
	Reason  string          `json:"reason,omitempty"`
}

type failure struct {
	Reason Failure `json:"reason"`
}

// ErrRefused says that the broker would refuse the request again. Any other error may
// pass: of the way there and back, of a function that died, or of what is behind it.
var ErrRefused = errors.New("broker: it refused the request")

// fatal is the errorType of what would be refused again.
const fatal = "px.Fatal"

// Claim leases a job, or returns nil where there is none; then others may wait for the
// place that this worker takes.
func (b Broker) Claim(ctx context.Context, c Claim) (leased *Leased, leave bool, err error) {
	var out struct {
		Job   *Leased `json:"job"`
		Leave bool    `json:"leave"`
	}
	err = b.call(ctx, request{Op: "claim", Claim: &c}, &out)
	return out.Job, out.Leave, err
}

// Heartbeat carries a lease on.
func (b Broker) Heartbeat(ctx context.Context, jobRef string, fence int64) (Beat, error) {
	var beat Beat
	err := b.call(ctx, request{Op: "heartbeat", JobRef: jobRef, Fence: fence}, &beat)
	return beat, err
}

// Complete ends a job with its result. Not accepted: the lease is another's.
func (b Broker) Complete(ctx context.Context, jobRef string, fence int64, result []byte) (accepted bool, err error) {
	return b.complete(ctx, request{Op: "complete", JobRef: jobRef, Fence: fence, Result: result})
}

// Fail ends a job, or this attempt of it, without a result.
func (b Broker) Fail(ctx context.Context, jobRef string, fence int64, why Failure) (accepted bool, err error) {
	return b.complete(ctx, request{Op: "complete", JobRef: jobRef, Fence: fence, Failure: &failure{why}})
}

func (b Broker) complete(ctx context.Context, q request) (bool, error) {
	var out struct {
		Accepted bool `json:"accepted"`
	}
	err := b.call(ctx, q, &out)
	return out.Accepted, err
}

// Drain says that this worker is about to end.
func (b Broker) Drain(ctx context.Context) error {
	return b.call(ctx, request{Op: "drain"}, &struct{}{})
}

// Unfit says that this worker cannot isolate, and by which check.
func (b Broker) Unfit(ctx context.Context, check string) error {
	return b.call(ctx, request{Op: "unfit", Reason: check}, &struct{}{})
}

func (b Broker) call(ctx context.Context, q request, out any) error {
	q.V, q.Worker = job.Version, b.Worker
	payload, err := json.Marshal(q)
	if err != nil {
		return err
	}
	reply, err := b.Lambda.Invoke(ctx, &lambda.InvokeInput{FunctionName: aws.String(b.Function), Payload: payload})
	if err != nil {
		return fmt.Errorf("broker: %s: %w", q.Op, err)
	}
	if reply.FunctionError != nil {
		var report struct {
			Type string `json:"errorType"`
		}
		if json.Unmarshal(reply.Payload, &report) == nil && report.Type == fatal {
			return fmt.Errorf("%w: %s: %.200s", ErrRefused, q.Op, reply.Payload)
		}
		return fmt.Errorf("broker: %s failed: %.200s", q.Op, reply.Payload)
	}
	if err := json.Unmarshal(reply.Payload, out); err != nil {
		return fmt.Errorf("broker: %s: its answer: %w", q.Op, err)
	}
	return nil
}
