package acceptance

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/pxhost/pxhost/shared/boot"
	"github.com/pxhost/pxhost/shared/boot/pythonsource"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/python"
)

// reader is what a tool's Lambda reads sources with, under the operator's keys.
func (h *host) reader(t *testing.T) *python.Client {
	t.Helper()
	at, operator := h.operator(t)
	env := boot.NewEnv(func(name string) (string, bool) {
		v, ok := map[string]string{"AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": operator.AccessKeyID, "AWS_SECRET_ACCESS_KEY": operator.SecretAccessKey,
			"AWS_ENDPOINT_URL": at.AWSEndpoint, "PX_PYTHON_SOURCE": at.Environment["PX_PYTHON_SOURCE"]}[name]
		return v, ok
	})
	client := pythonsource.New(env)
	if err := env.Err(); err != nil {
		t.Fatal(err)
	}
	return client
}

// covers: N2, H2
func TestSourcesAreReadByTheLambdaOfTheTemplate(t *testing.T) {
	h := start(t)
	reader := h.reader(t)
	replies, err := reader.ReadAll(t.Context(), []python.Request{
		{Kind: python.FunctionKind, Source: "@px.function(key='f', version=1, description='거더', inputs={'a': px.number(unit='kN')}, results={'r': px.number(unit='kN')})\ndef f(a):\n    return {'r': a}\n"},
		{Kind: python.FunctionKind, Source: "import os\nraise SystemExit\n"},
		{Kind: python.FunctionKind, Source: "x = " + strings.Repeat("-", 50_000) + "1"},
	})
	if errors.Is(err, python.ErrUnavailable) && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if f := replies[0].Function; f == nil || f.FunctionKey != "f" || f.Inputs["a"].Unit != "kN" {
		t.Errorf("%+v", replies[0])
	}
	for i, reasons := range []string{"", "import_not_allowed statement_not_supported definition_missing", "nesting_too_deep"} {
		var got []string
		for _, f := range replies[i].Findings {
			got = append(got, f.Reason)
		}
		if strings.Join(got, " ") != reasons {
			t.Errorf("%d: %q", i, got)
		}
	}
}

// covers: H4
func TestAMachineWithoutPythonRunsEverythingElse(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	h := start(t)
	if want := "no python3 of version 3.11 or newer (python3 is not there) on this machine: pxhost-python_source cannot run, and everything else can"; !strings.Contains(h.out.String(), want) {
		t.Errorf("px local does not say %q", want)
	}
	_, err := h.reader(t).Read(t.Context(), python.Request{Kind: python.FunctionKind, Source: "x = 1"})
	if d, ok := python.Unavailable(err, "/commands/0/source"); !ok || d.Code != outcome.SandboxUnavailable || !d.Retryable {
		t.Errorf("%v", err)
	}
	if out := h.operate(t, "call", "project_search", `{"scope":{"kind":"principal"}}`); !strings.Contains(out, `"ok": true`) {
		t.Errorf("a tool: %s", out)
	}
}
