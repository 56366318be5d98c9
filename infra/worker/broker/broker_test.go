package broker

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"reflect"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
)

type invoked struct {
	payload string
	answer  string
	failed  *string
}

func (i *invoked) Invoke(_ context.Context, in *lambda.InvokeInput, _ ...func(*lambda.Options)) (*lambda.InvokeOutput, error) {
	i.payload = string(in.Payload)
	return &lambda.InvokeOutput{Payload: []byte(i.answer), FunctionError: i.failed}, nil
}

// The texts are the protocol: the host's side refuses a member too many or too few.
func TestWhatIsSaidToTheBroker(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer string
		ask    func(Broker) (any, error)
		want   string
		got    any
	}{
		{"claim", `{"job":{"jobRef":"job_1","fence":2,"until":"2026-11-30T09:00:00Z","spec":"{}","signature":"c2ln"}}`, func(b Broker) (any, error) {
			l, _, err := b.Claim(t.Context(), Claim{Slots: 2, Python: "3.11.2", GVisor: "v0", Driver: "task"})
			if l == nil {
				return nil, err
			}
			return []any{l.JobRef, l.Fence, l.Spec, string(l.Signature)}, err
		}, `{"v":1,"op":"claim","worker":"wrk_1","slots":2,"python":"3.11.2","gvisor":"v0","driver":"task"}`, []any{"job_1", int64(2), "{}", "sig"}},
		{"claim of nothing", `{"job":null}`, func(b Broker) (any, error) {
			l, leave, err := b.Claim(t.Context(), Claim{Slots: 1, Python: "3.11.2", GVisor: "v0", Driver: "rootless", Tenant: "ws"})
			return l == nil && !leave, err
		}, `{"v":1,"op":"claim","worker":"wrk_1","slots":1,"python":"3.11.2","gvisor":"v0","driver":"rootless","tenant":"ws"}`, true},
		{"claim by one that is in the way", `{"job":null,"leave":true}`, func(b Broker) (any, error) {
			l, leave, err := b.Claim(t.Context(), Claim{Slots: 1, Python: "3.11.2", GVisor: "v0", Driver: "task"})
			return l == nil && leave, err
		}, `{"v":1,"op":"claim","worker":"wrk_1","slots":1,"python":"3.11.2","gvisor":"v0","driver":"task"}`, true},
		{"heartbeat", `{"cancel":true}`, func(b Broker) (any, error) {
			beat, err := b.Heartbeat(t.Context(), "job_1", 2)
			return beat.Cancel, err
		},
			`{"v":1,"op":"heartbeat","worker":"wrk_1","jobRef":"job_1","fence":2}`, true},
		{"complete", `{"accepted":true}`, func(b Broker) (any, error) { return b.Complete(t.Context(), "job_1", 2, []byte(`{"v":1}`)) },
			`{"v":1,"op":"complete","worker":"wrk_1","jobRef":"job_1","fence":2,"result":{"v":1}}`, true},
		{"fail", `{"accepted":false}`, func(b Broker) (any, error) { return b.Fail(t.Context(), "job_1", 2, SpecRefused) },
			`{"v":1,"op":"complete","worker":"wrk_1","jobRef":"job_1","fence":2,"failure":{"reason":"spec_refused"}}`, false},
		{"drain", `{}`, func(b Broker) (any, error) { return nil, b.Drain(t.Context()) }, `{"v":1,"op":"drain","worker":"wrk_1"}`, nil},
		{"unfit", `{}`, func(b Broker) (any, error) { return nil, b.Unfit(t.Context(), "sandbox_starts") }, `{"v":1,"op":"unfit","worker":"wrk_1","reason":"sandbox_starts"}`, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			i := &invoked{answer: c.answer}
			got, err := c.ask(Broker{Lambda: i, Function: "f", Worker: "wrk_1"})
			if err != nil || i.payload != c.want || !reflect.DeepEqual(got, c.got) {
				t.Errorf("said %s\nwant %s\ngot %v %v, want %v", i.payload, c.want, got, err, c.got)
			}
		})
	}
}

func TestOnlyAFatalErrorIsARefusal(t *testing.T) {
	for answer, refused := range map[string]bool{
		`{"errorMessage":"sandbox: malformed: request","errorType":"px.Fatal"}`: true,
		`{"errorMessage":"a table is busy","errorType":"px.Retryable"}`:         false,
		`{"errorMessage":"it was killed","errorType":"Runtime.ExitError"}`:      false,
		`{"errorMessage":"x"}`: false,
		`x`:                    false,
	} {
		i := &invoked{answer: answer, failed: aws.String("Unhandled")}
		if err := (Broker{Lambda: i}).Drain(t.Context()); err == nil || errors.Is(err, ErrRefused) != refused {
			t.Errorf("%s: %v", answer, err)
		}
	}
}

// The sample of the host's side is a claim as this side writes it.
func TestTheHostsSampleIsOneOfOurs(t *testing.T) {
	text, err := os.ReadFile("../../../events/sandbox_broker.json")
	if err != nil {
		t.Fatal(err)
	}
	var sample struct {
		Worker string `json:"worker"`
		Claim
	}
	if err := json.Unmarshal(text, &sample); err != nil {
		t.Fatal(err)
	}
	i := &invoked{answer: `{"job":null}`}
	if _, _, err := (Broker{Lambda: i, Worker: sample.Worker}).Claim(t.Context(), sample.Claim); err != nil {
		t.Fatal(err)
	}
	var want, got any
	if json.Unmarshal(text, &want) != nil || json.Unmarshal([]byte(i.payload), &got) != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("we say %s, the sample is %s", i.payload, text)
	}
}
