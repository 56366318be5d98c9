//go:build linux

package command

import (
	"bufio"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestMain is also the worker of the first test: it makes its state, says where, and
// waits to be killed.
func TestMain(m *testing.M) {
	below := os.Getenv("STATE_TEST_BELOW")
	if below == "" {
		os.Exit(m.Run())
	}
	s, err := newState(context.Background(), below)
	if err != nil {
		panic(err)
	}
	if err := os.MkdirAll(filepath.Join(s.path, "px-1", "state"), 0o700); err != nil {
		panic(err)
	}
	println(s.path)
	// A child that outlives the worker does not hold its lock.
	child := exec.Command("sleep", "60")
	if err := child.Start(); err != nil {
		panic(err)
	}
	runtime.GC() // closes files that nothing refers to
	runtime.GC()
	println(child.Process.Pid)
	time.Sleep(time.Hour) // it is killed; to wait for nothing would be a deadlock
}

func there(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// covers: X5
func TestAWorkerRemovesWhatKilledOnesLeftBehindAndNoMore(t *testing.T) {
	below := t.TempDir()
	type worker struct {
		cmd   *exec.Cmd
		state string
	}
	var workers []worker
	for range 2 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "STATE_TEST_BELOW="+below)
		out, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewReader(out)
		state, _ := lines.ReadString('\n')
		child, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			cmd.Process.Kill()
			cmd.Wait()
			exec.Command("kill", strings.TrimSpace(child)).Run()
		})
		workers = append(workers, worker{cmd, strings.TrimSpace(state)})
	}
	elsewhere := filepath.Join(t.TempDir(), "not of a worker")
	others := []string{filepath.Join(below, "px-worker-1234"), filepath.Join(below, "building-1"), elsewhere}
	for _, path := range others {
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	link, file := filepath.Join(below, statePrefix+"link"), filepath.Join(below, statePrefix+"file")
	if err := errors.Join(os.Symlink(elsewhere, link), os.WriteFile(file, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	killed, living := workers[0], workers[1]
	if err := killed.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = killed.cmd.Wait()
	s, err := newState(t.Context(), below)
	if err != nil {
		t.Fatal(err)
	}
	if there(killed.state) {
		t.Error("what a killed worker left behind is still there")
	}
	for _, path := range append(others, living.state, link, file, s.path) {
		if !there(path) {
			t.Errorf("%s was removed", path)
		}
	}
	if err := s.Close(); err != nil || there(s.path) {
		t.Error("its own folder is still there", err)
	}
}

// Workers that start at once do not take the folders of each other for left behind.
func TestNoWorkerRemovesTheFolderOfOneThatStarts(t *testing.T) {
	below := t.TempDir()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 200 {
				s, err := newState(t.Context(), below)
				if err != nil {
					t.Error(err)
					return
				}
				if err := os.WriteFile(filepath.Join(s.path, "file"), nil, 0o600); err != nil {
					t.Error(err)
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if left, err := os.ReadDir(below); err != nil || len(left) > 0 {
		t.Errorf("%d folders are left, %v", len(left), err)
	}
}
