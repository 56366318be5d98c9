package acceptance

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
)

var (
	readmeSection = regexp.MustCompile(`(?m)^## (.*)$`)
	readmeBlock   = regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```")
)

// The newcomer's path: what README says to paste works as it stands, in its order, in
// front of a terminal. What it leaves out, a planRef, an approvalRef and a target, is
// what the lines before have shown.
//
// covers: W10
func TestWhatReadmeSaysToPasteWorks(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	h := start(t)
	dir := t.TempDir()
	seen := map[string]string{}
	shows := map[string]string{
		"px run girder_check":         "806.5333333333334",
		"px apply plan_…":             "newRevisionRef",
		"px run report/girder_review": "1164.8999999999999",
		"px call report_describe":     "Current",
		"px run plan_… --watch":       "span_120",
		"px plan function/bending":    "px approve plan_",
		"px approve plan_…":           "approvalRef approval_",
	}
	sections := readmeSection.FindAllStringSubmatchIndex(string(text), -1)
	ran := 0
	for i, at := range sections {
		name, end := string(text[at[2]:at[3]]), len(text)
		if i+1 < len(sections) {
			end = sections[i+1][0]
		}
		if name != "A first conversation" && name != "Reports, Batches and approvals" && name != "Functions in Python" {
			continue
		}
		for _, block := range readmeBlock.FindAllStringSubmatch(string(text[at[1]:end]), -1) {
			if block[1] == "python" {
				if err := os.WriteFile(filepath.Join(dir, "bending.py"), []byte(block[2]), 0o600); err != nil {
					t.Fatal(err)
				}
				continue
			}
			for _, command := range commandsOf(block[2]) {
				line := command
				for name, value := range map[string]string{"plan_…": seen["plan"], "approval_…": seen["approval"], "TARGET": seen["target"]} {
					if strings.Contains(line, name) && value == "" {
						t.Fatalf("%s: nothing before it shows %s", command, name)
					}
					line = strings.ReplaceAll(line, name, value)
				}
				shown := h.pasted(t, dir, line)
				ran++
				for begin, want := range shows {
					if strings.HasPrefix(command, begin) && !strings.Contains(shown, want) {
						t.Errorf("%s shows no %q but\n%s", command, want, shown)
					}
				}
				for name, pattern := range map[string]string{"plan": `\b(plan_\w{26})\b`, "approval": `approvalRef (approval_\w{26})`, "target": `target\S*  (\{.*\})\n`} {
					for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(shown, -1) {
						seen[name] = m[1]
					}
				}
			}
		}
	}
	if ran < 11 {
		t.Errorf("only %d commands were run", ran)
	}
}

// commandsOf takes a block apart: a command goes on while its quotes are open or a line
// ends in a backslash.
func commandsOf(block string) (commands []string) {
	command := ""
	for line := range strings.Lines(block) {
		command += line
		if strings.HasSuffix(strings.TrimSpace(line), `\`) || strings.Count(command, "'")%2 == 1 {
			continue
		}
		if command = strings.TrimSpace(command); strings.HasPrefix(command, "px ") {
			commands = append(commands, command)
		}
		command = ""
	}
	return commands
}

// pasted runs a command line in bash, in front of a person who says yes to what is asked.
func (h *host) pasted(t *testing.T, dir, line string) string {
	t.Helper()
	cmd := exec.Command("bash", "-c", "px() { \"$PX\" \"$@\"; }\n"+line)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PX="+px(), "PX_STATE="+h.state, "TERM=xterm", "NO_COLOR=1")
	file, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 50, Cols: 120})
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var out output
	done := make(chan struct{})
	go func() {
		defer close(done)
		buffer, asked := make([]byte, 4096), 0
		for {
			n, err := file.Read(buffer)
			out.Write(buffer[:n])
			for _, question := range []string{"[y/N] ", "Type yes to approve it: "} {
				if strings.HasSuffix(out.String(), question) && asked < 3 {
					asked++
					io.WriteString(file, "yes\n")
				}
			}
			if err != nil {
				return
			}
		}
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		cmd.Process.Kill()
		t.Fatalf("%s does not end; it shows\n%s", line, out.String())
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%s: %v\n%s", line, err, out.String())
	}
	return strings.ReplaceAll(out.String(), "\r\n", "\n")
}
