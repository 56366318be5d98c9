// Package pythontest gives tests the real reader of Python source: the code of
// functions/python_source in a python3 of this machine, reached by its standard
// input and output. Nothing else may import it.
package pythontest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/pxhost/pxhost/shared/python"
)

// Reader returns a Reader. Where the machine has no Python of at least 3.11, the
// test is skipped, or fails if CI is true. PX_PYTHON names another interpreter than
// python3.
//
// All tests of a binary share one process. It ends when the binary does, because its
// standard input does.
func Reader(t testing.TB) *python.Client {
	t.Helper()
	return python.New(Exchange(t), "")
}

// Exchange is Reader without its decoding.
func Exchange(t testing.TB) python.Exchange {
	t.Helper()
	exchange, err := start()
	if err != nil && os.Getenv("CI") == "true" {
		t.Fatalf("not skipped under CI: %v", err)
	}
	if err != nil {
		t.Skip(err)
	}
	return exchange
}

// Interpreter is the path of the Python that Reader uses, or skips as Reader does.
func Interpreter(t testing.TB) string {
	t.Helper()
	Exchange(t)
	return interpreter
}

// interpreter is set by start.
var interpreter string

// Folder is the folder of functions/python_source. It looks at every file there, so
// that go test knows them as inputs of the test: else an old result would be taken
// from its cache when they change.
func Folder() string {
	_, file, _, _ := runtime.Caller(0)
	folder := filepath.Join(filepath.Dir(file), "..", "..", "..", "functions", "python_source")
	err := filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
		if err == nil {
			_, err = os.Stat(path)
		}
		return err
	})
	if err != nil {
		panic(err) // it is part of the repository
	}
	return folder
}

var start = sync.OnceValues(func() (python.Exchange, error) {
	name := os.Getenv("PX_PYTHON")
	if name == "" {
		name = "python3"
	}
	// python3 may be a script that looks for the interpreter, which takes its time.
	found, err := exec.Command(name, "-I", "-S", "-B", "-c", "import sys; assert sys.version_info >= (3, 11); print(sys.executable)").Output()
	if err != nil {
		return nil, fmt.Errorf("no %s of at least 3.11: %w", name, err)
	}
	interpreter = strings.TrimSpace(string(found))
	command := exec.Command(interpreter, "-I", "-S", "-B", filepath.Join(Folder(), "app.py"))
	command.Stderr = os.Stderr
	in, err := command.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, err
	}
	lines := bufio.NewReader(out)
	var turn sync.Mutex
	return func(_ context.Context, request []byte) ([]byte, error) {
		turn.Lock()
		defer turn.Unlock()
		if bytes.IndexByte(request, '\n') >= 0 {
			return nil, errors.New("pythontest: a request is one line")
		}
		if _, err := in.Write(append(bytes.Clone(request), '\n')); err != nil {
			return nil, err
		}
		return lines.ReadBytes('\n')
	}, nil
})
