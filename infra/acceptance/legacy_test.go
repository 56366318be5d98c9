package acceptance

import (
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pxhost/pxhost/infra/local"
)

// withOldEndpoint is a folder of the product's template and functions, with the function
// of an older installation beside them.
func withOldEndpoint(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	text, err := os.ReadFile(filepath.Join(built, "template.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	const outputs = "\nOutputs:\n"
	old := `
  OldEndpoint:
    Type: AWS::Serverless::Function
    Properties:
      FunctionName: old_endpoint
      CodeUri: .build/functions/old_endpoint
`
	if strings.Count(string(text), outputs) != 1 {
		t.Fatal("the template has no outputs")
	}
	functions := filepath.Join(dir, ".build", "functions")
	for _, err := range []error{
		os.WriteFile(filepath.Join(dir, "template.yaml"), []byte(strings.Replace(string(text), outputs, old+outputs, 1)), 0o600),
		os.Symlink(filepath.Join(built, "statemachines"), filepath.Join(dir, "statemachines")),
		os.MkdirAll(filepath.Join(functions, "old_endpoint"), 0o700),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	all, err := os.ReadDir(filepath.Join(built, ".build", "functions"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if err := os.Symlink(filepath.Join(built, ".build", "functions", f.Name()), filepath.Join(functions, f.Name())); err != nil {
			t.Fatal(err)
		}
	}
	build := exec.Command("go", "build", "-tags", "lambda.norpc", "-o", filepath.Join(functions, "old_endpoint", "bootstrap"), "./testdata/old_endpoint")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	return dir
}

const oldFunction = "arn:aws:lambda:" + local.Region + ":" + local.AccountID + ":function:old_endpoint"

// A legacy cohort is routed to its own endpoint where the template says so, and nowhere
// else: the formal endpoint is the same with it and without it.
//
// covers: L3, L1
func TestALegacyCohortHasAnEndpointOfItsOwn(t *testing.T) {
	t.Parallel()
	const legacyCall = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"project.search","arguments":{"projectId":"p1"}}}`
	templates := withOldEndpoint(t)
	send := func(h *host, path, token string) reply {
		t.Helper()
		q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.URL+path, strings.NewReader(legacyCall))
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("Content-Type", "application/json")
		if token != "" {
			q.Header.Set("Authorization", "Bearer "+token)
		}
		answer, err := client.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return reply{answer.StatusCode, answer.Header, string(body)}
	}
	off := startAt(t, t.TempDir(), templates)
	on := startAt(t, t.TempDir(), templates, "--parameter", "LegacyFunction="+oldFunction, "--parameter", "LegacyCohort=engineer")

	// Without a function to route to there is no route.
	if r := send(off, "/legacy/mcp", off.token(t, "engineer")); r.status != http.StatusNotFound {
		t.Errorf("off: %d %s", r.status, r.body)
	}
	formally := func(h *host) string {
		r := send(h, "/v1/mcp", h.token(t, "engineer"))
		got := read(t, r.body)
		if r.status != 200 || got.Envelope == nil || len(got.Envelope.Diagnostics) != 1 || got.Envelope.Diagnostics[0].Code != "PX_SCHEMA_UNSUPPORTED_VERSION" {
			t.Errorf("formally: %d %s", r.status, r.body)
		}
		return normalized(r.body)
	}
	if a, b := formally(off), formally(on); a != b {
		t.Errorf("the formal endpoint answers\n%s and with a cohort\n%s", a, b)
	}

	before := on.dump(t)
	r := send(on, "/legacy/mcp", on.token(t, "engineer"))
	if want := `{"authorized":false,"body":` + encode(t, legacyCall) + `,"who":"engineer"}`; r.status != 200 || r.body != want {
		t.Errorf("forwarded: %d %s", r.status, r.body)
	}
	if r := send(on, "/legacy/mcp", on.token(t, "viewer")); r.status != http.StatusForbidden || !strings.Contains(r.body, "not_of_the_legacy_cohort") {
		t.Errorf("who is not of the cohort: %d %s", r.status, r.body)
	}
	approver := strings.TrimSpace(on.operate(t, "token", "--as", "engineer", "--scope", "px.approve"))
	for name, token := range map[string]string{"no token": "", "a token of nobody": "x", "a token of another scope": approver, "another installation's token": off.token(t, "engineer")} {
		there, here := send(on, "/v1/mcp", token), send(on, "/legacy/mcp", token)
		if here.status != there.status || here.status < 401 || here.status > 403 || here.header.Get("WWW-Authenticate") != there.header.Get("WWW-Authenticate") {
			t.Errorf("%s: %d %s, and formally %d", name, here.status, here.body, there.status)
		}
	}
	if changed := before.changes(on.dump(t)); len(changed) != 0 {
		t.Errorf("written: %q", changed)
	}

	// A function of the installation itself is none that is isolated from it.
	own := startAt(t, t.TempDir(), templates, "--parameter", "LegacyFunction="+strings.Replace(oldFunction, "old_endpoint", "pxhost-mcp_endpoint", 1), "--parameter", "LegacyCohort=*")
	if r := send(own, "/legacy/mcp", own.token(t, "engineer")); r.status < 500 {
		t.Errorf("its own function is routed to: %d %s", r.status, r.body)
	}
}
