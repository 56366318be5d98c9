package pythonsource

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/pxhost/pxhost/shared/boot"
	"github.com/pxhost/pxhost/shared/boot/invoke"
	"github.com/pxhost/pxhost/shared/python"
)

type fake struct {
	calls    int
	function string
	payload  string
	answer   invoke.Answer
	err      error
}

func (f *fake) Invoke(_ context.Context, function string, payload []byte) (invoke.Answer, error) {
	f.calls++
	f.function, f.payload = function, string(payload)
	return f.answer, f.err
}

func TestTheFunctionIsInvokedOnceAndItsFailuresAreTold(t *testing.T) {
	failed := func(report string) invoke.Answer { return invoke.Answer{Payload: []byte(report), Failed: true} }
	for name, c := range map[string]struct {
		fake        fake
		unavailable bool
		text        string // of the error; empty: none
	}{
		"an answer":                    {fake: fake{answer: invoke.Answer{Payload: []byte(`{"a":1}`)}}},
		"a machine without Python":     {fake{answer: failed(`{"errorType":"Local.PythonMissing","errorMessage":"RequestId: x Error: no python3"}`)}, true, "no Python is available"},
		"an exception":                 {fake{answer: failed(`{"errorType":"ValueError","errorMessage":"secret source"}`)}, false, "failed: ValueError"},
		"a report that is none":        {fake{answer: failed(`secret`)}, false, "failed"},
		"a function that is not there": {fake{err: errors.New("ResourceNotFoundException")}, false, "px-python_source: ResourceNotFoundException"},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := exchange(&c.fake, "px-python_source")(t.Context(), []byte(`{"v":1}`))
			if (err != nil) != (c.text != "") || errors.Is(err, python.ErrUnavailable) != c.unavailable {
				t.Fatalf("%s, %v", out, err)
			}
			if err != nil && (!strings.Contains(err.Error(), c.text) || strings.Contains(err.Error(), "secret")) {
				t.Error(err)
			}
			if err == nil && string(out) != `{"a":1}` {
				t.Errorf("%s", out)
			}
			if c.fake.calls != 1 || c.fake.function != "px-python_source" || c.fake.payload != `{"v":1}` {
				t.Errorf("%+v", c.fake)
			}
		})
	}
}

func TestTheEnvironmentNamesTheFunction(t *testing.T) {
	env := boot.NewEnv(func(string) (string, bool) { return "", false })
	New(env)
	if err := env.Err(); err == nil || !strings.Contains(err.Error(), "PX_PYTHON_SOURCE") {
		t.Errorf("%v", err)
	}
}
