package main

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

// update writes the tables of README.md from the commands that there are.
var update = flag.Bool("update", false, "write the tables of README.md")

// Help names every command, says of each what it takes, and the page beside it has the
// same commands and exit codes.
//
// covers: W10
func TestHelpIsComplete(t *testing.T) {
	d := openDoor(t, echo)
	code, list, _ := d.px(t, nil, "help")
	if code != exitOK {
		t.Fatal(code)
	}
	var table []string
	for _, c := range commands {
		if !strings.Contains(list, "\n  "+c.name+" ") || !strings.Contains(list, c.summary+"\n") {
			t.Errorf("px help lacks %s", c.name)
		}
		if len(c.name) > 13 || unicode.IsUpper([]rune(c.summary)[0]) || strings.HasSuffix(c.summary, ".") {
			t.Errorf("%s: %q does not stand as the others do", c.name, c.summary)
		}
		code, help, errs := d.px(t, nil, "help", c.name)
		_, again, _ := d.px(t, nil, c.name, "-h")
		if code != exitOK || errs != "" || help != again || !strings.HasPrefix(help, "usage: px "+c.name+" ") || !strings.Contains(help, "\n"+exitsLine+"\n") || !strings.Contains(help, "-state") {
			t.Errorf("px help %s: %d %s%s", c.name, code, help, errs)
		}
		for line := range strings.Lines(help) {
			if n := len([]rune(line)); n > 101 && !strings.HasPrefix(line, "    \t") && !strings.HasPrefix(line, "usage:") && !strings.HasPrefix(line, "       px ") {
				t.Errorf("px help %s has a line of %d columns: %s", c.name, n, line)
			}
		}
		if code, _, errs := d.px(t, nil, c.name, "--no-such-flag"); code != exitUsage || !strings.Contains(errs, "run px "+c.name+" -h for its flags") {
			t.Errorf("px %s --no-such-flag: %d %s", c.name, code, errs)
		}
		table = append(table, fmt.Sprintf("| `px %s` | %s |", c.name, c.summary))
	}
	if code, _, errs := d.px(t, nil, "aply"); code != exitUsage || !strings.Contains(errs, "did you mean px apply?") {
		t.Errorf("%d %s", code, errs)
	}
	if code, _, errs := d.px(t, nil); code != exitUsage || errs != list {
		t.Errorf("px alone: %d %s", code, errs)
	}
	_, out, _ := d.px(t, nil, "help", "exits")
	var codes []string
	for i, e := range exits {
		if e.code != i || !strings.Contains(out, fmt.Sprintf("%d  %s\n", e.code, e.meaning)) {
			t.Errorf("px help exits lacks %d:\n%s", e.code, out)
		}
		codes = append(codes, fmt.Sprintf("| %d | %s |", e.code, e.meaning))
	}

	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	for head, rows := range map[string][]string{"| command | |\n| --- | --- |\n": table, "| code | |\n| ---: | --- |\n": codes} {
		before, rest, ok := strings.Cut(page, head)
		end := strings.Index(rest, "\n\n")
		if !ok || end < 0 {
			t.Fatalf("README.md has no table %q", head)
		}
		want := strings.Join(rows, "\n")
		if rest[:end] != want && !*update {
			t.Errorf("README.md has drifted (go test ./infra/px -run TestHelp -update); want\n%s", want)
		}
		page = before + head + want + rest[end:]
	}
	if *update {
		if err := os.WriteFile("README.md", []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// Each exit code, as a program meets it.
//
// covers: W10
func TestExitCodes(t *testing.T) {
	s := &script{run: succeeded, results: results}
	d := s.open(t)
	for _, c := range []struct {
		name string
		args []string
		run  string
		code int
	}{
		{"an answer that says ok", []string{"call", "run_get", `{"runRef":"run_1"}`}, succeeded, exitOK},
		{"a Run that succeeded", []string{"watch", "run_1"}, succeeded, exitOK},
		{"a Run that failed", []string{"watch", "run_1"}, failed, exitFailed},
		{"arguments that are no JSON", []string{"call", "run_get", `{`}, succeeded, exitUsage},
		{"an unknown command", []string{"cal"}, succeeded, exitUsage},
		{"an unknown flag", []string{"call", "--jsn"}, succeeded, exitUsage},
		{"a file that is not there", []string{"call", "run_get", "@/nonexistent"}, succeeded, exitUsage},
		{"a lost answer", []string{"call", "pxflow_run", `{"commandId":"c"}`}, succeeded, exitUnknown},
		{"no host", []string{"call", "run_get", "--url", "http://127.0.0.1:1"}, succeeded, exitNoHost},
		{"no host for a reviewer", []string{"review", "plan_1", "--url", "http://127.0.0.1:1"}, succeeded, exitNoHost},
		{"a token that is not taken", []string{"call", "run_get", "--token", "x"}, succeeded, exitNoHost},
		{"no state folder", []string{"watch", "run_1", "--state", "/nonexistent"}, succeeded, exitNoHost},
	} {
		t.Run(c.name, func(t *testing.T) {
			s.set(c.run)
			s.lose = 1
			code, out, errs := d.px(t, strings.NewReader(""), c.args...)
			if code != c.code {
				t.Errorf("%d, want %d: %s%s", code, c.code, out, errs)
			}
			if c.code > exitFailed && strings.Count(errs, "\n") == 1 && !strings.Contains(errs, ";") && !strings.Contains(errs, ": ") {
				t.Errorf("what to do next is not said: %s", errs)
			}
		})
	}
	s.refuse = `{"code":"PX_TARGET_NOT_FOUND","path":"/target","severity":"error"}`
	if code, _, _ := d.px(t, nil, "call", "pxflow_run", "{}"); code != exitFailed {
		t.Errorf("a refusal: %d", code)
	}
}

var (
	codeBlock = regexp.MustCompile("(?ms)^```(?:sh|console)?\n(.*?)^```")
	codeSpan  = regexp.MustCompile("`(px [a-z][^`]*)`")
	pxWord    = regexp.MustCompile(`(?:^|[|(]\s*|\$\()(?:\.build/)?px ([a-z_]+)([^|\n]*)`)
	flagWord  = regexp.MustCompile(`(?:^|\s)--([a-z][a-z-]*)`)
)

// What the pages say of px is so: each command that they show exists, and has the flags
// that stand behind it.
func TestPagesNameWhatThereIs(t *testing.T) {
	known := map[string]bool{"help": true}
	for _, c := range commands {
		known[c.name] = true
	}
	pages, shown := 0, 0
	err := filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && (strings.HasPrefix(entry.Name(), ".") && len(entry.Name()) > 2 || entry.Name() == "node_modules" || entry.Name() == "testdata") {
			return filepath.SkipDir
		}
		if entry.IsDir() || !strings.HasSuffix(path, ".md") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		pages++
		var lines []string
		for _, m := range codeBlock.FindAllStringSubmatch(string(text), -1) {
			lines = append(lines, strings.Split(strings.ReplaceAll(m[1], "\\\n", " "), "\n")...)
		}
		for _, m := range codeSpan.FindAllStringSubmatch(string(text), -1) {
			lines = append(lines, m[1])
		}
		for _, line := range lines {
			line, _, _ = strings.Cut(line, "  #")
			for _, m := range pxWord.FindAllStringSubmatch(line, -1) {
				shown++
				if !known[m[1]] {
					t.Errorf("%s: there is no px %s: %s", path, m[1], line)
					continue
				}
				flags, _ := flagsOf(t.Context(), m[1])
				for _, f := range flagWord.FindAllStringSubmatch(m[2], -1) {
					if flags != nil && flags.Lookup(f[1]) == nil {
						t.Errorf("%s: px %s has no flag --%s: %s", path, m[1], f[1], line)
					}
				}
			}
		}
		return nil
	})
	if err != nil || pages < 4 || shown < 40 {
		t.Errorf("%v: %d commands on %d pages: the test looks at too little", err, shown, pages)
	}
}

// The scripts are run by the shells that they are for, and offer what there is.
//
// covers: W10
func TestCompletion(t *testing.T) {
	s := &script{run: succeeded, results: results}
	d := s.open(t)
	if code, _, errs := d.px(t, nil, "plan", "beam", `[]`, "--project", "w/p", "--json"); code != 0 {
		t.Fatal(errs)
	}
	if code, _, errs := d.px(t, nil, "run", `{"flowKey":"beam"}`, "--inputs", "{}", "--command-id", "mine"); code != 0 {
		t.Fatal(errs)
	}
	before := d.hits.Load()
	cases := []struct {
		line string
		want []string
		not  string
	}{
		{"px ca", []string{"call", "capabilities"}, "plan"},
		{"px call result", []string{"result_read"}, "run_get"},
		{"px call pxflow_run --sch", []string{"--schema"}, "--all"},
		{"px call pxflow_run --as ", []string{"engineer", "viewer"}, "root"},
		{"px run --color ", []string{"auto", "never"}, "sometimes"},
		{"px history ", []string{"log", "export", "verify"}, "page"},
		{"px apply ", []string{"plan_1"}, "mine"},
		{"px watch --color never ", []string{"run_1"}, "plan_1"},
		{"px run --retry ", []string{"mine"}, "plan_1"},
		{"px help exi", []string{"exits"}, "call"},
		{"px completion z", []string{"zsh"}, "bash"},
	}
	script := func(shell string) string {
		t.Helper()
		code, out, errs := d.px(t, nil, "completion", shell)
		if code != 0 {
			t.Fatal(errs)
		}
		return out
	}
	shells := map[string]func(words []string) string{
		// As bash calls a completion function, with the line taken apart.
		"bash": func(words []string) string {
			return script("bash") + fmt.Sprintf("COMP_WORDS=(%s)\nCOMP_CWORD=%d\n_px\nprintf '%%s\\n' \"${COMPREPLY[@]}\"\n", quotedWords(words), len(words)-1)
		},
		// zsh takes candidates only while somebody types: what would take them prints them.
		"zsh": func(words []string) string {
			return "compdef() { : }\n_files() { : }\n_describe() { print -l -- ${(P)2} }\n" + script("zsh") + fmt.Sprintf("words=(%s)\nCURRENT=%d\n_px\n", quotedWords(words), len(words))
		},
		"fish": func(words []string) string {
			return script("fish") + "complete -C '" + strings.Join(words, " ") + "'\n"
		},
	}
	for shell, ask := range shells {
		t.Run(shell, func(t *testing.T) {
			program, err := exec.LookPath(shell)
			if err != nil {
				skip(t, shell+" is not here")
			}
			for _, c := range cases {
				words := strings.Split(c.line, " ")
				args := map[string][]string{"bash": {"--norc", "-eu", "-c"}, "zsh": {"-f", "-c"}, "fish": {"--no-config", "-c"}}[shell]
				cmd := exec.Command(program, append(args, ask(words))...)
				cmd.Env = append(os.Environ(), "PX_TEST_AS_PX=1", "PX_STATE="+d.state)
				out, err := cmd.CombinedOutput()
				if err != nil {
					t.Fatalf("%s: %v\n%s", c.line, err, out)
				}
				got := map[string]bool{}
				for line := range strings.Lines(string(out)) {
					got[regexp.MustCompile(`^[^\t:\n]*`).FindString(line)] = true
				}
				for _, want := range c.want {
					if !got[want] {
						t.Errorf("%s: %s is not offered:\n%s", c.line, want, out)
					}
				}
				if got[c.not] {
					t.Errorf("%s: %s is offered", c.line, c.not)
				}
			}
		})
	}
	if d.hits.Load() != before {
		t.Error("completion asks the host")
	}
}

func quotedWords(words []string) string {
	var out []string
	for _, w := range words {
		out = append(out, quoted(w))
	}
	return strings.Join(out, " ")
}
