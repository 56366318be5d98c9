package main

import (
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/pxhost/pxhost/infra/local/statedir"
)

// What an operator does is done where --url says, or not at all: without the check,
// px project create --url https://elsewhere makes the project on this machine.
func TestAnOperatorsWorkIsDoneAtTheHostThatIsNamed(t *testing.T) {
	state := t.TempDir()
	dir, err := statedir.Open(state)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	if _, err := dir.Operator(); err != nil {
		t.Fatal(err)
	}
	tables := map[string]string{}
	for _, name := range []string{"HEADS", "OBJECTS", "CHANGES", "RUNS", "HOST"} {
		tables["PX_TABLE_"+name] = "pxhost-" + name
	}
	tables["PX_BUCKET"] = "b"
	if err := dir.WriteHost(statedir.Host{URL: "http://127.0.0.1:1", AWSEndpoint: "http://127.0.0.1:2", Environment: tables}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		args []string
		url  string // PX_URL
		told string
	}{
		{"no URL", nil, "", ""},
		{"the host's own", []string{"--url", "http://127.0.0.1:1/"}, "", ""},
		{"another by flag", []string{"--url", "http://127.0.0.1:3"}, "", "is at http://127.0.0.1:1, not at http://127.0.0.1:3"},
		{"another by environment", nil, "http://127.0.0.1:3", "is at http://127.0.0.1:1, not at http://127.0.0.1:3"},
		{"the flag before the environment", []string{"--url", "http://127.0.0.1:1"}, "http://127.0.0.1:3", ""},
	} {
		env := &environment{out: io.Discard, err: io.Discard, lookup: func(name string) (string, bool) { return c.url, name == "PX_URL" && c.url != "" }}
		if err := env.parse(env.flags("x", ""), slices.Concat(c.args, []string{"--state", state}), false); err != nil {
			t.Fatal(err)
		}
		_, issuer, err := env.operator()
		if c.told == "" && (err != nil || issuer != "http://127.0.0.1:1") || c.told != "" && (err == nil || !strings.Contains(err.Error(), c.told)) {
			t.Errorf("%s: at %q, %v", c.name, issuer, err)
		}
	}
}
