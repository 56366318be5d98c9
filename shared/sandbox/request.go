package sandbox

import (
	"fmt"
	"time"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/schema"
)

// A Request is what a worker sends to the broker, by the Lambda Invoke API. Which
// members an operation takes is in the comments; every other one is refused.
type Request struct {
	V      int    `json:"v" schema:"minimum=1,maximum=1"`
	Op     string `json:"op" schema:"enum=claim|heartbeat|complete|drain|unfit"`
	Worker string `json:"worker" pattern:"^wrk_[0-9A-Za-z]{1,64}$"`

	// claim: what the worker is. Each claim says that it is alive too.
	Slots  int    `json:"slots,omitzero" schema:"minimum=1,maximum=64"` // jobs it runs at once
	Python string `json:"python,omitzero" pattern:"^3\\.[0-9]{1,3}(\\.[0-9A-Za-z+]{1,20})?$"`
	GVisor string `json:"gvisor,omitzero" schema:"maxLength=100,text=line"`
	Driver string `json:"driver,omitzero" schema:"enum=rootless|task"`
	// Tenant may narrow what the worker is given to one workspace, or to one instance of a
	// plugin in one; optional.
	Tenant string `json:"tenant,omitzero" pattern:"^[a-z][a-z0-9_]{0,63}(/inst_[0-9A-HJKMNP-TV-Z]{26})?$"`

	// heartbeat and complete: the lease.
	JobRef string `json:"jobRef,omitzero" pattern:"^job_[0-9A-HJKMNP-TV-Z]{26}$"`
	Fence  int64  `json:"fence,omitzero" schema:"minimum=1"`

	// complete: one of the two.
	Result  canon.Raw `json:"result,omitzero"`
	Failure *Failure  `json:"failure,omitzero"`

	// unfit: which check of the probe failed, a word for the log.
	Reason string `json:"reason,omitzero" schema:"pattern=key"`
}

// A Failure is a worker's answer where it could not run a job at all.
type Failure struct {
	Reason Reason `json:"reason" schema:"pattern=key"`
}

// Claimed answers a claim. Job is null where there is none. Leave asks a worker that has
// nothing to do to end now, and not when it has been idle for long: others wait for the
// place that it takes.
type Claimed struct {
	Job   *LeasedJob `json:"job"`
	Leave bool       `json:"leave,omitzero"`
}

// A LeasedJob is a job with the lease on it.
type LeasedJob struct {
	JobRef    string    `json:"jobRef"`
	Fence     int64     `json:"fence"`
	Until     time.Time `json:"until"`
	Spec      string    `json:"spec"`      // the canonical text that is signed
	Signature []byte    `json:"signature"` // base64
}

// Beaten answers a heartbeat: until when the lease is now, or that it is no lease
// any more. Cancel asks the worker to kill the sandbox; there is nothing to
// complete after that.
type Beaten struct {
	Until  time.Time `json:"until,omitzero"`
	Cancel bool      `json:"cancel,omitzero"`
	Stale  bool      `json:"stale,omitzero"`
}

// Completed answers a complete. Accepted is true where the lease was held: the job
// has ended by this, if only as failed because the result was refused, or waits for
// another attempt. What is not accepted counts for nothing. Neither is to be sent
// again.
type Completed struct {
	Accepted bool `json:"accepted"`
}

// Noted answers drain and unfit.
type Noted struct{}

// DecodeRequest reads a request strictly.
func DecodeRequest(text []byte) (Request, error) {
	var q Request
	if err := malformed("request", schema.Decode(text, &q)); err != nil {
		return Request{}, err
	}
	return q, q.check()
}

func (q Request) check() error {
	is := map[string]bool{
		"slots": q.Slots != 0, "python": q.Python != "", "gvisor": q.GVisor != "", "driver": q.Driver != "", "tenant": q.Tenant != "",
		"jobRef": q.JobRef != "", "fence": q.Fence != 0, "outcome": (q.Result != nil) != (q.Failure != nil), "result": q.Result != nil, "failure": q.Failure != nil, "reason": q.Reason != "",
	}
	must, may := members[q.Op][0], members[q.Op][1]
	for _, name := range must {
		if !is[name] {
			return fmt.Errorf("%w: request: %s lacks %s", ErrMalformed, q.Op, name)
		}
		delete(is, name)
	}
	for _, name := range may {
		delete(is, name)
	}
	for name, there := range is {
		if there {
			return fmt.Errorf("%w: request: %s takes no %s", ErrMalformed, q.Op, name)
		}
	}
	if _, known := final[reasonOf(q)]; q.Failure != nil && !known {
		return fmt.Errorf("%w: request: failure.reason is none that a worker gives", ErrMalformed)
	}
	return nil
}

func reasonOf(q Request) Reason {
	if q.Failure == nil {
		return ""
	}
	return q.Failure.Reason
}

// members are what each operation must and may have.
var members = map[string][2][]string{
	"claim":     {{"slots", "python", "gvisor", "driver"}, {"tenant"}},
	"heartbeat": {{"jobRef", "fence"}},
	"complete":  {{"jobRef", "fence", "outcome"}, {"result", "failure"}},
	"drain":     {},
	"unfit":     {{"reason"}},
}
