// Package pythontest gives tests the real reader of Python source: the code of
// functions/python_source in a python3 of this machine, reached by its standard
// input and output. Nothing else may import it.
package pythontest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"github.com/pxhost/pxhost/shared/python"
)

// Reader returns a Reader that lasts as long as the test. Where the machine has no
// Python of at least 3.11, the test is skipped, or fails if CI is true. PX_PYTHON
// names another interpreter than python3.
func Reader(t testing.TB) *python.Client {
	t.Helper()
	return python.New(Exchange(t), "")
}

// Exchange is Reader without its decoding.
func Exchange(t testing.TB) python.Exchange {
	t.Helper()
	name := os.Getenv("PX_PYTHON")
	if name == "" {
		name = "python3"
	}
	if err := exec.Command(name, "-I", "-S", "-B", "-c", "import sys; assert sys.version_info >= (3, 11)").Run(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("not skipped under CI: no %s of at least 3.11: %v", name, err)
		}
		t.Skipf("no %s of at least 3.11: %v", name, err)
	}
	command := exec.Command(name, "-I", "-B", filepath.Join(Folder(), "app.py"))
	command.Stderr = os.Stderr
	in, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close() // it ends by itself, with the process that it keeps
		command.Wait()
	})
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
	}
}

// Folder is the folder of functions/python_source.
func Folder() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..", "..", "functions", "python_source")
}
