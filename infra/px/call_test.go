package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/pxhost/pxhost/shared/tool"
)

// pages answers three pages of items, the second of them cut in two by a budget.
func pages(_ context.Context, request tool.Request) ([]byte, error) {
	var in struct {
		Cursor string `json:"cursor"`
		Query  string `json:"query"`
	}
	if err := json.Unmarshal(request.Arguments, &in); err != nil {
		return nil, err
	}
	const page = `"appliedLimit":2,"truncation":{"truncated":true,"reason":"page_limit"}`
	data := map[string]string{
		"": `{"items":[{"n":1},{"n":2}],"nextCursor":"p2",` + page + `}`,
		"p2": `{"items":[{"n":3}],"nextCursor":"p3","appliedLimit":2,"at":"","truncation":{"truncated":true,"budget":"bytes","limit":9,"observed":20,` +
			`"continuation":{"member":"cursor","value":"p2b"}}}`,
		"p2b": `{"items":[{"n":4}],"nextCursor":"p3","appliedLimit":2,"at":"/items/1"}`,
		"p3":  `{"items":[{"n":5}],"appliedLimit":2}`,
	}[in.Cursor]
	if in.Query == "none" {
		data = `{"items":[]}`
	}
	return []byte(`{"ok":true,"data":` + data + `,"diagnostics":[],"resources":[]}`), nil
}

// covers: W10
func TestCallGoesOn(t *testing.T) {
	d := openDoor(t, pages)
	show := func(args ...string) string {
		t.Helper()
		code, out, errs := d.px(t, nil, append([]string{"call", "pxflow_describe"}, args...)...)
		if code != 0 || errs != "" {
			t.Fatalf("%v: %d %s", args, code, errs)
		}
		return out
	}
	const query = `{"query": "x'y"}`
	first := show(query, "--readable")
	next := regexp.MustCompile(`the next part:  (.*)\n`).FindStringSubmatch(first)
	if next == nil || next[1] != `px call pxflow_describe '{"query": "x'\''y"}' --readable --continue` || !strings.Contains(first, "all parts:      px call pxflow_describe '{\"query\": \"x'\\''y\"}' --readable --all\n") {
		t.Fatalf("how it goes on is told as\n%s", first)
	}
	for _, want := range []string{"3", "4", "5"} {
		if out := show(query, "--readable", "--continue"); !strings.Contains(out, want) {
			t.Errorf("the part that has %s is\n%s", want, out)
		}
	}
	// The last one is whole: there is nothing behind it, nor behind a call that was not made.
	for _, args := range [][]string{{query}, {`{"query": "other"}`}, {query, "--as", "viewer"}} {
		if code, _, errs := d.px(t, nil, append([]string{"call", "pxflow_describe", "--continue"}, args...)...); code != exitUsage || !strings.Contains(errs, "there is nothing to go on with") {
			t.Errorf("%v: %d %s", args, code, errs)
		}
	}
	var all struct {
		OK   bool
		Data struct {
			Items      []struct{ N int }
			NextCursor *string
			Truncation *struct{}
		}
	}
	if err := json.Unmarshal([]byte(show(query, "--all")), &all, json.MatchCaseInsensitiveNames(true)); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(all.Data.Items); !all.OK || got != "[{1} {2} {3} {4} {5}]" || all.Data.NextCursor != nil || all.Data.Truncation != nil {
		t.Errorf("all of it is %+v", all)
	}
	if out := show(query, "--all", "--json"); strings.Count(out, "\n") != 4 || !strings.Contains(out, `"value":"p2b"`) {
		t.Errorf("the parts as they came are\n%s", out)
	}
	if out := show(query, "--all", "--readable"); strings.Contains(out, "not all") || !strings.Contains(out, "5") {
		t.Errorf("all of it is\n%s", out)
	}
	file := filepath.Join(t.TempDir(), "query.json")
	if err := os.WriteFile(file, []byte(query), 0o600); err != nil {
		t.Fatal(err)
	}
	if show("@"+file) != show(query) {
		t.Error("a file is read otherwise than the command line")
	}
}

// large answers twenty parts of a MiB.
func large(_ context.Context, request tool.Request) ([]byte, error) {
	var in struct {
		Cursor string `json:"cursor"`
	}
	if err := json.Unmarshal(request.Arguments, &in); err != nil {
		return nil, err
	}
	part := len(in.Cursor)
	var rows strings.Builder
	for i := range 10_000 {
		if i > 0 {
			rows.WriteByte(',')
		}
		fmt.Fprintf(&rows, `{"n":%d,"text":%q}`, part*10_000+i, strings.Repeat("거더", 12))
	}
	next := fmt.Sprintf(`,"nextCursor":%q`, in.Cursor+"x")
	if part == 19 {
		next = ""
	}
	return fmt.Appendf(nil, `{"ok":true,"data":{"items":[%s]%s},"diagnostics":[],"resources":[]}`, &rows, next), nil
}

// What is very large is printed whole; and when nobody reads on, px ends without a word.
//
// covers: W10
func TestALargeAnswer(t *testing.T) {
	d := openDoor(t, large)
	for _, flags := range [][]string{{"--readable"}, {"--json"}} {
		code, out, errs := d.px(t, nil, append([]string{"call", "pxflow_describe", "--all"}, flags...)...)
		if code != 0 || errs != "" || len(out) < 14<<20 || !strings.Contains(out, "199999") {
			t.Errorf("%v: %d %s, %d bytes", flags, code, errs, len(out))
		}
	}
	for _, flag := range []string{"--json"} {
		cmd := d.process("call", "pxflow_describe", "--all", flag)
		var errs bytes.Buffer
		cmd.Stderr = &errs
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(out, make([]byte, 1000)); err != nil {
			t.Error(err)
		}
		out.Close()
		err = cmd.Wait()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGPIPE || errs.Len() > 0 {
			t.Errorf("%s: it ends with %v: %s", flag, err, &errs)
		}
	}
}

// No reply is as long as this one; it is none of the host's, and is not read to its end.
func TestAReplyThatIsTooLong(t *testing.T) {
	d := openDoor(t, echo)
	d.front = func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Content-Type", ndjson)
		for range 20 {
			w.Write(bytes.Repeat([]byte("secret "), 1<<17)) // until px goes away
		}
		return true
	}
	code, out, errs := d.px(t, nil, "call", "pxflow_describe")
	if code != exitUnknown || out != "" || !strings.Contains(errs, "the reply is longer than") || strings.Contains(errs, "secret") {
		t.Errorf("%d %s%s", code, out, errs)
	}
}

// process is px as a process, at this door.
func (d *door) process(args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), "PX_TEST_AS_PX=1", "PX_STATE="+d.state, "TERM=xterm-256color")
	return cmd
}

// A terminal is a px process with a person in front of it.
type terminal struct {
	t    *testing.T
	cmd  *exec.Cmd
	file *os.File
	out  *output
	done chan struct{}
}

func openTerminal(t *testing.T, cmd *exec.Cmd, columns int) *terminal {
	t.Helper()
	file, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 40, Cols: uint16(columns)})
	if err != nil {
		t.Fatal(err)
	}
	term := &terminal{t, cmd, file, &output{}, make(chan struct{})}
	go func() {
		io.Copy(term.out, file) // ends with an error when the process does
		close(term.done)
	}()
	t.Cleanup(func() { cmd.Process.Kill(); file.Close() })
	return term
}

// sees waits until the person sees a text.
func (c *terminal) sees(text string) {
	c.t.Helper()
	eventually(c.t, fmt.Sprintf("%q on the terminal, which shows %q", text, c.out), func() bool { return strings.Contains(c.out.String(), text) })
}

func (c *terminal) types(text string) { c.file.WriteString(text) }

// ends waits for the end and returns the exit code and what was shown.
func (c *terminal) ends() (int, string) {
	c.t.Helper()
	select {
	case <-c.done:
	case <-time.After(15 * time.Second):
		c.t.Fatalf("px does not end; it shows\n%s", c.out)
	}
	c.cmd.Wait()
	return c.cmd.ProcessState.ExitCode(), strings.ReplaceAll(c.out.String(), "\r\n", "\n")
}

// hostile is an answer whose texts would like to be more than texts.
func hostile(context.Context, tool.Request) ([]byte, error) {
	label := jsontext.String("거더\x1b]0;owned\x07\x1b[2J\u202egnp.exe").String()
	text, err := json.Marshal(map[string]any{"label": map[string]string{"ko": label}, "\x1b[31mname": "x", "rows": []any{map[string]string{"k": "거더", "v": "1"}, map[string]string{"k": "abcd", "v": "2"}}}, json.Deterministic(true))
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, `{"ok":true,"data":%s,"diagnostics":[],"resources":[]}`, text), nil
}

// On a terminal an answer is shown for a person, in its colours unless they are not
// wanted, and nothing that the answer says acts on the terminal.
//
// covers: W10
func TestCallOnATerminal(t *testing.T) {
	d := openDoor(t, hostile)
	colours := regexp.MustCompile(`\x1b\[[0-9]+m`)
	for _, c := range []struct {
		name   string
		env    []string
		flags  []string
		colour bool
	}{
		{"by default", nil, nil, true},
		{"NO_COLOR", []string{"NO_COLOR=1"}, nil, false},
		{"NO_COLOR that is empty", []string{"NO_COLOR="}, nil, true},
		{"a dumb terminal", []string{"TERM=dumb"}, nil, false},
		{"never", nil, []string{"--color=never"}, false},
		{"always", []string{"NO_COLOR=1", "TERM=dumb"}, []string{"--color", "always"}, true},
		{"PX_COLOR", []string{"PX_COLOR=never"}, nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd := d.process(append([]string{"call", "pxflow_describe"}, c.flags...)...)
			cmd.Env = append(cmd.Env, c.env...)
			code, out := openTerminal(t, cmd, 80).ends()
			if code != 0 || colours.MatchString(out) != c.colour {
				t.Errorf("%d %q", code, out)
			}
			plain := colours.ReplaceAllString(out, "")
			if strings.ContainsAny(plain, "\x1b\x07\u202e") || !strings.Contains(plain, `거더\u{1b}]0;owned\u{7}\u{1b}[2J\u{202e}gnp.exe`) || !strings.Contains(plain, `\u{1b}[31mname`) {
				t.Errorf("shown as %q", plain)
			}
			if !strings.Contains(plain, "  k     v\n  거더  1\n  abcd  2\n") {
				t.Errorf("columns are not below each other:\n%s", plain)
			}
		})
	}
	// A program that reads gets JSON, as it always did.
	if code, out, _ := d.px(t, nil, "call", "pxflow_describe"); code != 0 || !strings.HasPrefix(out, "{\n  \"ok\": true,\n") {
		t.Errorf("in a pipe it is %s", out)
	}
	cmd := d.process("call", "pxflow_describe", "--json")
	if code, out := openTerminal(t, cmd, 80).ends(); code != 0 || !strings.HasPrefix(out, `{"ok":true,`) {
		t.Errorf("--json on a terminal is %s", out)
	}
}

// covers: W10
func TestToolsAreListedWithoutAHost(t *testing.T) {
	d := openDoor(t, echo)
	code, out, _ := d.px(t, nil, "call", "--list", "--state", "/nonexistent")
	if code != 0 || strings.Count(out, "\n") < 21 || !strings.Contains(out, "result_read") {
		t.Errorf("%d %s", code, out)
	}
	code, out, _ = d.px(t, nil, "call", "pxflow_run", "--schema", "--state", "/nonexistent")
	var schema struct{ Required []string }
	if err := json.Unmarshal([]byte(out), &schema, json.MatchCaseInsensitiveNames(true)); err != nil || code != 0 || len(schema.Required) == 0 {
		t.Errorf("%d %v %s", code, err, out)
	}
	if code, _, errs := d.px(t, nil, "call", "result_rea", "--schema"); code != exitUsage || !strings.Contains(errs, "did you mean result_read") {
		t.Errorf("%d %s", code, errs)
	}
}
