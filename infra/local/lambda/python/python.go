// Package python finds the machine's Python, and holds the small Runtime API client
// by which the local host runs a function whose runtime is Python.
//
// It starts Python only to ask for its version. It knows no function.
package python

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// Oldest is the oldest minor of Python 3 that the project's functions run on.
const Oldest = 11

//go:embed runtime.py
var client string

// An Interpreter is one Python.
type Interpreter struct {
	Path  string // of the executable itself, behind every link and wrapper
	Minor string // such as "3.13"
}

// ErrMissing says that this machine has no Python that the project can use.
var ErrMissing = errors.New("no python3 of version 3." + strconv.Itoa(Oldest) + " or newer")

// Find returns the interpreter that name leads to, a path or a name looked up in
// PATH; "" is python3. The error wraps ErrMissing, and says what was found instead.
func Find(name string) (Interpreter, error) {
	if name == "" {
		name = "python3"
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return Interpreter{}, fmt.Errorf("%w (%s is not there)", ErrMissing, name)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	ask := exec.CommandContext(ctx, path, "-I", "-S", "-B", "-c", "import sys; print(sys.executable); print('%d.%d' % sys.version_info[:2])")
	ask.WaitDelay = time.Second
	out, err := ask.Output()
	if err != nil {
		return Interpreter{}, fmt.Errorf("%w (%s does not start: %v)", ErrMissing, path, err)
	}
	lines := strings.Fields(strings.ReplaceAll(string(out), " ", "\x00"))
	if len(lines) != 2 {
		return Interpreter{}, fmt.Errorf("%w (%s does not tell its version)", ErrMissing, path)
	}
	found := Interpreter{Path: strings.ReplaceAll(lines[0], "\x00", " "), Minor: lines[1]}
	major, minor, _ := strings.Cut(found.Minor, ".")
	if n, err := strconv.Atoi(minor); err != nil || major != "3" || n < Oldest {
		return Interpreter{}, fmt.Errorf("%w (%s is %s)", ErrMissing, found.Path, found.Minor)
	}
	return found, nil
}

// Command returns the command line that serves a handler: the folder of its module,
// the handler and the Runtime API are in the environment, as on Lambda.
func (i Interpreter) Command() []string {
	return []string{i.Path, "-I", "-u", "-B", "-c", client}
}
