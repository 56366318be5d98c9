package acceptance

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/pxhost/pxhost/shared/tool/catalog"
)

// An ordinary is a client that has connected.
type ordinary struct {
	version string // agreed on, where the client tells
	tools   []string
	// call calls a tool and returns the result of tools/call.
	call func(t *testing.T, tool string, arguments any) result
}

// A result is that of tools/call.
type result struct {
	Content           []struct{ Type, Text string }
	StructuredContent json.RawMessage
	IsError           bool
}

// clients are the ordinary clients, each by how it connects to a host. As is who it is.
var clients = map[string]struct {
	version string
	connect func(t *testing.T, h *host, as string) ordinary
}{
	"TypeScript SDK 1 by URL":                        {"", bridged("1", "", true)},
	"TypeScript SDK 1 by command":                    {"", bridged("1", "", false)},
	"TypeScript SDK 2 by URL, with a handshake":      {"2025-11-25", bridged("2", "legacy", true)},
	"TypeScript SDK 2 by URL":                        {"2026-07-28", bridged("2", "auto", true)},
	"TypeScript SDK 2 by command, with a handshake":  {"2025-11-25", bridged("2", "legacy", false)},
	"TypeScript SDK 2 by command":                    {"2026-07-28", bridged("2", "auto", false)},
	"Go SDK by URL":                                  {"2026-07-28", inGo("", true)},
	"Go SDK by URL, with a handshake":                {"2025-06-18", inGo("2025-06-18", true)},
	"Go SDK by command":                              {"2026-07-28", inGo("", false)},
	"Go SDK by command, with a handshake":            {"2025-03-26", inGo("2025-03-26", false)},
	"Inspector by URL, with a handshake":             {"", inspector("legacy", true)},
	"Inspector by URL, without one":                  {"", inspector("modern", true)},
	"Inspector by command, whatever the server says": {"", inspector("auto", false)},
}

// Each ordinary client does what an engineer's AI does: it finds a Flow, changes it by
// plan and apply, runs it and reads the result, and is told what it did wrong.
//
// covers: W9
func TestOrdinaryClientsWork(t *testing.T) {
	t.Parallel()
	h := start(t)
	// They take turns: each changes the same Flow.
	for name, c := range clients {
		t.Run(name, func(t *testing.T) {
			key := strings.Map(func(r rune) rune {
				if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
					return r
				}
				return '-'
			}, strings.ToLower(name))
			o := c.connect(t, h, "engineer")
			if o.version != c.version && c.version != "" {
				t.Errorf("it speaks %s", o.version)
			}
			if len(o.tools) != 21 || o.tools[0] != "project_search" {
				t.Errorf("its tools are %q", o.tools)
			}
			converse(t, o, key)
		})
	}
}

// converse is a conversation of a client that saw no other.
func converse(t *testing.T, o ordinary, key string) {
	t.Helper()
	say := func(tool string, arguments, into any) {
		t.Helper()
		r := o.call(t, tool, arguments)
		var e envelope
		if err := json.Unmarshal(r.StructuredContent, &e); err != nil || !e.OK || r.IsError {
			t.Fatalf("%s: %v %s", tool, err, r.StructuredContent)
		}
		if len(r.Content) != 1 || r.Content[0].Type != "text" || !same(t, []byte(r.Content[0].Text), r.StructuredContent) {
			t.Errorf("%s: its text is %.200v, and not %.200s", tool, r.Content, r.StructuredContent)
		}
		if err := json.Unmarshal(e.Data, into); err != nil {
			t.Fatal(err)
		}
	}
	var found struct{ Items []flowHead }
	say("pxflow_search", m{"scope": sample, "query": "girder check"}, &found)
	var f flowHead
	for _, one := range found.Items {
		if one.Target.FlowKey == "girder_check" {
			f = one
		}
	}
	var p struct{ PlanRef, PlanDigest string }
	say("pxflow_plan_change", m{"target": f.Target, "expectedGeneration": f.Generation, "commands": []m{{"kind": "SetFlowLabel", "label": m{"en": "Girder check, " + key}}}}, &p)
	var applied struct {
		Changed []struct{ Target flowTarget }
	}
	say("pxflow_apply_change", m{"target": f.Target, "expectedGeneration": f.Generation, "planRef": p.PlanRef, "planDigest": p.PlanDigest, "commandId": "label-" + key}, &applied)
	q := func(value float64, unit string) m { return m{"value": value, "unit": unit} }
	var run struct{ RunRef, State string }
	say("pxflow_run", m{"kind": "RunFlow", "target": applied.Changed[0].Target, "commandId": "run-" + key, "inputs": m{
		"span": q(60, "ft"), "dead_load": q(1.2, "kip/ft"), "impact": q(0.3, "1"), "section_modulus": q(1500, "in^3"), "yield_stress": q(50, "ksi")}}, &run)
	for run.State != "Succeeded" {
		say("run_get", m{"runRef": run.RunRef}, &run)
		if run.State == "Failed" || run.State == "Cancelled" || run.State == "Interrupted" || t.Context().Err() != nil {
			t.Fatalf("the Run is %s", run.State)
		}
	}
	var moment struct {
		Value struct {
			Value float64
			Unit  string
		}
	}
	say("result_read", m{"runRef": run.RunRef, "resultKey": "live_moment"}, &moment)
	if want := 72*math.Pow(60./2-7./3, 2)/60 - 112; math.Abs(moment.Value.Value-want) > 1e-12*want || moment.Value.Unit != "kip*ft" {
		t.Errorf("the moment is %v", moment.Value)
	}
	// What a tool refuses is an error of the tool, with its diagnostics.
	refused := o.call(t, "pxflow_describe", m{"target": m{"scope": sample}})
	if !refused.IsError || !strings.Contains(string(refused.StructuredContent), "PX_SCHEMA_INVALID") {
		t.Errorf("%v %s", refused.IsError, refused.StructuredContent)
	}
}

func same(t *testing.T, a, b []byte) bool {
	t.Helper()
	var x, y any
	if err := json.Unmarshal(a, &x); err != nil {
		return false
	}
	if err := json.Unmarshal(b, &y); err != nil {
		return false
	}
	return encode(t, x) == encode(t, y)
}

// command is how a client starts pxhost, for a person whose token it is given.
func (h *host) command() []string { return []string{px(), "stdio", "--standard", "--state", h.state} }

// bridged is a client of an official TypeScript SDK.
func bridged(sdk, era string, byURL bool) func(*testing.T, *host, string) ordinary {
	return func(t *testing.T, h *host, as string) ordinary {
		args := []string{"testdata/bridge.mjs", nodeModules(t), sdk, era}
		if byURL {
			args = append(args, h.URL+"/mcp", h.token(t, as))
		} else {
			args = append(args, append(h.command(), "--as", as)...)
		}
		c := exec.CommandContext(t.Context(), node(t), args...)
		in, err := c.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := c.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		var errs output
		c.Stderr = &errs
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			in.Close()
			if err := c.Wait(); (err != nil || errs.String() != "") && t.Context().Err() == nil {
				t.Errorf("%v: %s", err, errs.String())
			}
		})
		lines := bufio.NewReader(out)
		read := func(t *testing.T, into any) {
			t.Helper()
			line, err := lines.ReadBytes('\n')
			if err == nil {
				err = json.Unmarshal(line, into)
			}
			if err != nil {
				t.Fatalf("%v: %s", err, errs.String())
			}
		}
		var hello struct {
			Version string
			Tools   []string
		}
		read(t, &hello)
		return ordinary{hello.Version, hello.Tools, func(t *testing.T, tool string, arguments any) (r result) {
			t.Helper()
			if _, err := fmt.Fprintf(in, "%s\n", encode(t, m{"tool": tool, "arguments": arguments})); err != nil {
				t.Fatal(err)
			}
			read(t, &r)
			return r
		}}
	}
}

type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

// inGo is a client of the official Go SDK.
func inGo(version string, byURL bool) func(*testing.T, *host, string) ordinary {
	return func(t *testing.T, h *host, as string) ordinary {
		var transport mcp.Transport
		if byURL {
			transport = &mcp.StreamableClientTransport{Endpoint: h.URL + "/mcp", HTTPClient: &http.Client{Transport: bearer(h.token(t, as))}, DisableStandaloneSSE: true}
		} else {
			c := exec.Command(h.command()[0], append(h.command()[1:], "--as", as)...)
			c.Stderr = os.Stderr
			transport = &mcp.CommandTransport{Command: c}
		}
		ctx := context.WithoutCancel(t.Context()) // it is closed before
		s, err := mcp.NewClient(&mcp.Implementation{Name: "acceptance", Version: "1"}, nil).Connect(ctx, transport, &mcp.ClientSessionOptions{ProtocolVersion: version})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		list, err := s.ListTools(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		// What a client does without asking a person.
		for _, tool := range list.Tools {
			a := tool.Annotations
			writes := strings.HasSuffix(tool.Name, "_apply_change") || tool.Name == "pxflow_run" || tool.Name == "run_cancel"
			if a == nil || a.ReadOnlyHint == writes || a.DestructiveHint == nil || *a.DestructiveHint || !a.IdempotentHint || a.OpenWorldHint == nil || *a.OpenWorldHint || tool.Title != catalog.Titles[tool.Name] || a.Title != tool.Title {
				t.Errorf("the annotations of %s are %+v, and its title %q", tool.Name, a, tool.Title)
			}
		}
		o := ordinary{version: s.InitializeResult().ProtocolVersion}
		for _, tool := range list.Tools {
			o.tools = append(o.tools, tool.Name)
		}
		o.call = func(t *testing.T, tool string, arguments any) (r result) {
			t.Helper()
			got, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: arguments})
			if err != nil {
				t.Fatalf("%s: %v", tool, err)
			}
			if err := json.Unmarshal([]byte(encode(t, got)), &r); err != nil {
				t.Fatal(err)
			}
			return r
		}
		return o
	}
}

// inspector is the protocol's own Inspector, by its command line, each call a process.
func inspector(era string, byURL bool) func(*testing.T, *host, string) ordinary {
	return func(t *testing.T, h *host, as string) ordinary {
		i := inspection{node(t), nodeModules(t), t.TempDir(), []string{"--protocol-era", era}}
		if byURL {
			i.flags = append(i.flags, "--server-url", h.URL+"/mcp", "--transport", "http", "--header", "Authorization: Bearer "+h.token(t, as))
		} else {
			config := filepath.Join(i.home, "servers.json")
			c := h.command()
			write(t, config, encode(t, m{"mcpServers": m{"pxhost": m{"command": c[0], "args": append(c[1:], "--as", as)}}}))
			i.flags = append(i.flags, "--config", config, "--server", "pxhost")
		}
		var o ordinary
		var list struct {
			Result struct{ Tools []struct{ Name string } }
		}
		// It holds the schemas to what most clients can take, too.
		i.do(t, &list, "--method", "tools/list", "--strict")
		for _, tool := range list.Result.Tools {
			o.tools = append(o.tools, tool.Name)
		}
		o.call = func(t *testing.T, tool string, arguments any) result {
			t.Helper()
			var r struct{ Result result }
			i.do(t, &r, "--method", "tools/call", "--tool-name", tool, "--tool-args-json", encode(t, arguments))
			return r.Result
		}
		return o
	}
}

type inspection struct {
	node, modules, home string
	flags               []string
}

// do runs it once.
func (i inspection) do(t *testing.T, into any, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	program := filepath.Join(i.modules, "@modelcontextprotocol", "inspector", "clients", "launcher", "build", "index.js")
	c := exec.CommandContext(ctx, i.node, append(append([]string{program, "--cli", "--format", "json"}, i.flags...), args...)...)
	c.Env = append(os.Environ(), "HOME="+i.home)
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	// It exits with 5 where the result is an error of the tool.
	if err := c.Run(); err != nil && !strings.Contains(out.String(), `"isError":true`) {
		t.Fatalf("%q: %v: %s%s", args, err, out.String(), errs.String())
	}
	if err := json.Unmarshal(out.Bytes(), into); err != nil {
		t.Fatalf("%q: %v: %s", args, err, out.String())
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Many calls at a time by one client are all answered.
//
// covers: W9
func TestAClientMayCallSideBySide(t *testing.T) {
	t.Parallel()
	h := start(t)
	i := inspection{node(t), nodeModules(t), t.TempDir(), []string{"--protocol-era", "modern", "--server-url", h.URL + "/mcp", "--transport", "http", "--header", "Authorization: Bearer " + h.token(t, "engineer")}}
	type counts struct{ Requests, OK, ToolErrors, Errors int }
	var got struct{ Result counts }
	i.do(t, &got, "--method", "tools/call", "--tool-name", "project_search", "--tool-args-json", encode(t, m{"scope": m{"kind": "principal"}}), "--load", "--load-requests", "100", "--load-concurrency", "16")
	if (got.Result != counts{Requests: 100, OK: 100}) {
		t.Errorf("%+v", got)
	}
}
