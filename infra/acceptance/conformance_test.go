package acceptance

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Why a server of tools alone does not pass what the conformance tool asks of its own
// reference server.
const (
	foreignTool  = "calls a tool that only the tool's reference server has"
	noResources  = "asks for resources; the server has tools alone, and says so in its capabilities"
	noPrompts    = "asks for prompts; the server has tools alone, and says so in its capabilities"
	noCompletion = "asks for completion; the server has tools alone, and says so in its capabilities"
	noLogging    = "asks for log messages; the server has tools alone, and says so in its capabilities"
	noSession    = "only a warning: the server keeps no session, which MCP leaves to it"
	noRequests   = "the server never asks its client for anything, and the tool that would is the reference server's"
)

// expected are the scenarios, or single checks of one, that fail, each with its reason.
// What passes and stands here fails the test too.
var expected = map[string]string{
	"logging-set-level":                                       noLogging,
	"completion-complete":                                     noCompletion,
	"tools-call-simple-text":                                  foreignTool,
	"tools-call-image":                                        foreignTool,
	"tools-call-audio":                                        foreignTool,
	"tools-call-embedded-resource":                            foreignTool,
	"tools-call-mixed-content":                                foreignTool,
	"tools-call-with-logging":                                 noLogging,
	"tools-call-error":                                        foreignTool,
	"tools-call-with-progress":                                foreignTool,
	"tools-call-sampling":                                     foreignTool,
	"tools-call-elicitation":                                  foreignTool,
	"json-schema-2020-12":                                     foreignTool,
	"elicitation-sep1034-defaults":                            foreignTool,
	"elicitation-sep1330-enums":                               foreignTool,
	"resources-list":                                          noResources,
	"resources-read-text":                                     noResources,
	"resources-read-binary":                                   noResources,
	"resources-templates-read":                                noResources,
	"resources-subscribe":                                     noResources,
	"resources-unsubscribe":                                   noResources,
	"sep-2164-resource-not-found":                             noResources,
	"prompts-list":                                            noPrompts,
	"prompts-get-simple":                                      noPrompts,
	"prompts-get-with-args":                                   noPrompts,
	"prompts-get-embedded-resource":                           noPrompts,
	"prompts-get-with-image":                                  noPrompts,
	"server-sse-polling":                                      noSession,
	"server-sse-multiple-streams":                             noSession,
	"caching:sep-2549-prompts-list-caching-hints":             noPrompts,
	"caching:sep-2549-resources-list-caching-hints":           noResources,
	"caching:sep-2549-resources-templates-list-caching-hints": noResources,
	"server-stateless:sep-2575-server-rejects-undeclared-capability":          noRequests,
	"server-stateless:sep-2575-missing-capability-http-400":                   noRequests,
	"server-stateless:sep-2575-http-server-no-independent-requests-on-stream": noRequests,
	"server-stateless:sep-2575-server-no-log-without-loglevel":                noLogging,
	"http-custom-header-server-validation":                                    "no tool of the server takes an argument from a header",
	"input-required-result-basic-elicitation":                                 noRequests,
	"input-required-result-basic-sampling":                                    noRequests,
	"input-required-result-basic-list-roots":                                  noRequests,
	"input-required-result-request-state":                                     noRequests,
	"input-required-result-multiple-input-requests":                           noRequests,
	"input-required-result-multi-round":                                       noRequests,
	"input-required-result-missing-input-response":                            noRequests,
	"input-required-result-non-tool-request":                                  noRequests,
	"input-required-result-result-type":                                       noRequests,
	"input-required-result-tampered-state":                                    noRequests,
	"input-required-result-capability-check":                                  noRequests,
	"input-required-result-ignore-extra-params":                               noRequests,
}

// needed are the scenarios that say something of a server of tools alone. They pass, and
// not because they looked at nothing.
var needed = map[string][]string{
	"2025-06-18": {"server-initialize", "ping", "tools-list"},
	"2025-11-25": {"server-initialize", "ping", "tools-list", "dns-rebinding-protection"},
	"2026-07-28": {"server-stateless", "tools-list", "dns-rebinding-protection", "caching", "http-header-validation"},
}

// The tool lists "  - name [versions]".
var listed = regexp.MustCompile(`(?m)^  - (\S+) \[([^\]]*)\]$`)

// The protocol's own conformance tool agrees with every version of the standard endpoint.
//
// covers: W9
func TestTheConformanceToolAgrees(t *testing.T) {
	t.Parallel()
	node, modules := node(t), nodeModules(t)
	h := start(t)
	endpoint := h.bearing(t, "engineer") + "/mcp"
	failed := map[string]bool{} // of expected
	var ran []string
	for _, run := range []struct{ tool, version string }{
		{"conformance-2025", "2025-06-18"}, {"conformance-2025", "2025-11-25"},
		{"conformance-2026", "2025-06-18"}, {"conformance-2026", "2025-11-25"}, {"conformance-2026", "2026-07-28"},
	} {
		program, results := filepath.Join(modules, run.tool, "dist", "index.js"), t.TempDir()
		list, err := exec.CommandContext(t.Context(), node, program, "list", "--server", "--spec-version", run.version).Output()
		if err != nil {
			t.Fatal(err)
		}
		// It exits with 1 where a check fails; which may, is judged here.
		c := exec.CommandContext(t.Context(), node, program, "server", "--url", endpoint, "--suite", "all", "--spec-version", run.version, "-o", results)
		c.Dir = results
		out, _ := c.CombinedOutput()
		scenarios := listed.FindAllStringSubmatch(string(list), -1)
		if len(scenarios) < 15 {
			t.Fatalf("%s of %s lists %d scenarios: %s", run.tool, run.version, len(scenarios), list)
		}
		for _, s := range scenarios {
			name := s[1]
			if !slices.Contains(strings.Split(s[2], ","), run.version) {
				continue
			}
			ran = append(ran, name)
			passed, wrong, err := checks(results, name)
			if err != nil {
				t.Errorf("%s of %s, %s: %v: %s", run.tool, run.version, name, err, out)
				continue
			}
			for id, why := range wrong {
				switch {
				case expected[name+":"+id] != "":
					failed[name+":"+id] = true
				case expected[name] != "":
					failed[name] = true
				default:
					t.Errorf("%s of %s, %s: %s: %s", run.tool, run.version, name, id, why)
				}
			}
			if slices.Contains(needed[run.version], name) && passed == 0 {
				t.Errorf("%s of %s, %s looked at nothing: %s", run.tool, run.version, name, out)
			}
		}
		for _, name := range needed[run.version] {
			if !slices.Contains(ran, name) {
				t.Errorf("%s of %s has no scenario %s", run.tool, run.version, name)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(expected)) {
		if !failed[name] {
			t.Errorf("%s passes: it is no expected failure (%s)", name, expected[name])
		}
	}
}

// checks reads the results of a scenario: how many checks passed, and which failed or
// warned, and why.
func checks(results, scenario string) (passed int, wrong map[string]string, _ error) {
	// The folder's name ends in the time, as 2026-11-30T18-08-53-010Z.
	found, err := filepath.Glob(filepath.Join(results, "server-"+scenario+"-[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T*", "checks.json"))
	if err != nil || len(found) != 1 {
		return 0, nil, fmt.Errorf("%d results: %v", len(found), err)
	}
	text, err := os.ReadFile(found[0])
	if err != nil {
		return 0, nil, err
	}
	var all []struct {
		ID, Status, ErrorMessage string
		Details                  json.RawMessage
	}
	if err := json.Unmarshal(text, &all); err != nil {
		return 0, nil, err
	}
	wrong = map[string]string{}
	for _, one := range all {
		switch one.Status {
		case "SUCCESS":
			passed++
		case "FAILURE", "WARNING":
			wrong[one.ID] = one.Status + " " + one.ErrorMessage + " " + string(one.Details)
		case "SKIPPED", "INFO":
		default:
			return 0, nil, fmt.Errorf("the status %q of %s is new", one.Status, one.ID)
		}
	}
	return passed, wrong, nil
}
