package acceptance

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A block of shared/wire/README.md, under the heading of its client.
var fenced = regexp.MustCompile("(?ms)^## ([^\n]+)$|^```(json|toml|sh)\n(.*?)^```$")

// What a block of the page for those who connect a client says, works: it parses, and the
// URL or command of each server in it gives the 21 tools.
//
// covers: W9, W10
func TestTheConfigurationOfEachClientWorks(t *testing.T) {
	t.Parallel()
	h := start(t)
	page, err := os.ReadFile("../../shared/wire/README.md")
	if err != nil {
		t.Fatal(err)
	}
	// The page for newcomers has those for each client, folded away but for the first.
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	named := ""
	for _, part := range fenced.FindAllStringSubmatch(string(page), -1) {
		if part[1] != "" {
			named = part[1]
			continue
		}
		if strings.Contains(part[3], "headers") && named == "Claude Code" { // a second way
			continue
		}
		if !strings.Contains(string(readme), "```"+part[2]+"\n"+part[3]+"```\n") || !strings.Contains(string(readme), named) {
			t.Errorf("README.md has not the block of %s", named)
		}
	}
	// As on a person's machine: a clone, and a token in the environment.
	here := strings.NewReplacer("/path/to/pxhost/.local", h.state, "/path/to/pxhost/.build/px", px(), "http://127.0.0.1:8787", h.URL).Replace(string(page))
	if strings.Contains(here, "8787") || strings.Count(here, "/path/to") != 1 {
		t.Fatal("the page names another place than its own")
	}
	token := h.token(t, "engineer")
	client, servers := "", map[string]int{}
	for _, part := range fenced.FindAllStringSubmatch(here, -1) {
		if part[1] != "" {
			client = part[1]
			continue
		}
		if part[2] == "sh" {
			for line := range strings.Lines(part[3]) {
				servers[client]++
				inspected(t, line, token)
			}
			continue
		}
		var config map[string]any
		if part[2] == "toml" {
			if _, err := toml.Decode(part[3], &config); err != nil {
				t.Errorf("%s: %v", client, err)
			}
		} else if err := json.Unmarshal([]byte(part[3]), &config); err != nil {
			t.Errorf("%s: %v", client, err)
		}
		// Each has one member, whose members are the servers.
		for key, all := range config {
			if want := map[string]string{"VS Code": "servers", "Codex": "mcp_servers"}[client]; key != want && (want != "" || key != "mcpServers") {
				t.Errorf("%s has its servers at %s", client, key)
			}
			for name, server := range all.(map[string]any) {
				servers[client]++
				if tools := configured(t, server.(map[string]any), token); len(tools) != 21 {
					t.Errorf("%s, %s: its tools are %q", client, name, tools)
				}
			}
		}
	}
	for client, want := range map[string]int{"Claude Code": 3, "Claude Desktop": 1, "VS Code": 2, "Cursor": 2, "Codex": 2, "Gemini CLI": 2, "Inspector": 2} {
		if servers[client] != want {
			t.Errorf("%s has %d servers, and not %d", client, servers[client], want)
		}
	}
}

// configured connects to a server as a client with its configuration does, and returns
// the names of its tools.
func configured(t *testing.T, server map[string]any, token string) (tools []string) {
	t.Helper()
	known := func(names ...string) {
		for name := range server {
			if !strings.Contains(" "+strings.Join(names, " ")+" ", " "+name+" ") {
				t.Errorf("a member %s", name)
			}
		}
	}
	var transport mcp.Transport
	if command, ok := server["command"].(string); ok {
		known("type", "command", "args")
		var args []string
		for _, arg := range server["args"].([]any) {
			args = append(args, arg.(string))
		}
		c := exec.Command(command, args...)
		c.Dir = t.TempDir() // a client starts it wherever it is
		c.Stderr = os.Stderr
		transport = &mcp.CommandTransport{Command: c}
	} else {
		known("type", "url", "httpUrl", "headers", "bearer_token_env_var")
		url, _ := server["url"].(string)
		if url == "" {
			url = server["httpUrl"].(string)
		}
		// Each has its own way to name a variable of the environment.
		given := ""
		if headers, ok := server["headers"].(map[string]any); ok {
			given = strings.NewReplacer("${PX_TOKEN}", token, "${env:PX_TOKEN}", token, "$PX_TOKEN", token).Replace(headers["Authorization"].(string))
		} else if server["bearer_token_env_var"] == "PX_TOKEN" {
			given = "Bearer " + token
		}
		if given == "" { // it signs in: it is told where
			r, err := http.Post(url, "application/json", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`))
			if err != nil {
				t.Fatal(err)
			}
			r.Body.Close()
			if r.StatusCode != 401 || !strings.Contains(r.Header.Get("WWW-Authenticate"), "resource_metadata=") {
				t.Errorf("%d %v", r.StatusCode, r.Header)
			}
			given = "Bearer " + token
		}
		bare, ok := strings.CutPrefix(given, "Bearer ")
		if !ok {
			t.Errorf("the header is %q", given)
		}
		transport = &mcp.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: bearer(bare)}, DisableStandaloneSSE: true}
	}
	s, err := mcp.NewClient(&mcp.Implementation{Name: "acceptance", Version: "1"}, nil).Connect(context.WithoutCancel(t.Context()), transport, nil)
	if err != nil {
		t.Errorf("%v: %v", server, err)
		return nil
	}
	defer s.Close()
	list, err := s.ListTools(t.Context(), nil)
	if err != nil {
		t.Errorf("%v: %v", server, err)
		return nil
	}
	for _, tool := range list.Tools {
		tools = append(tools, tool.Name)
	}
	return tools
}

// inspected runs a line that starts the Inspector, with the one of .ci/node.
func inspected(t *testing.T, line, token string) {
	t.Helper()
	program := filepath.Join(nodeModules(t), "@modelcontextprotocol", "inspector", "clients", "launcher", "build", "index.js")
	rest, ok := strings.CutPrefix(line, "npx @modelcontextprotocol/inspector ")
	c := exec.CommandContext(t.Context(), "sh", "-c", `exec "$NODE" "$PROGRAM" `+rest)
	c.Env = append(os.Environ(), "NODE="+node(t), "PROGRAM="+program, "PX_TOKEN="+token, "HOME="+t.TempDir())
	out, err := c.Output()
	var got struct{ Tools []struct{ Name string } }
	if err == nil {
		err = json.Unmarshal(out, &got)
	}
	if !ok || err != nil || len(got.Tools) != 21 {
		t.Errorf("%s: %v %.300s", line, err, out)
	}
}
