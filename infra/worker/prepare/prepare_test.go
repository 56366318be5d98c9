//go:build linux

package prepare

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// fakeGo stands for go: it lists two packages, writes down each build, and builds when
// the file gate is there, or fails when it says so.
const fakeGo = `#!/bin/sh
case "$1" in
list) printf 'a\nb\n' ;;
build)
	mkdir -p "${GOTMPDIR:-$FAKE/tmp}/go-build1"
	echo $$ >> "$FAKE/builds"
	while [ ! -e "$FAKE/gate" ]; do sleep 0.05; done
	if [ -s "$FAKE/gate" ]; then cat "$FAKE/gate" >&2; exit 1; fi
	while [ "$1" != -o ]; do shift; done
	echo built > "$2"
	;;
esac
`

func TestMain(m *testing.M) {
	if cache := os.Getenv("PREPARE_TEST_CACHE"); cache != "" { // a process that builds
		name, err := Build(context.Background(), cache, module, "x/y", func(line string) { fmt.Println(line) })
		fmt.Println(name, err)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

var module = Module{Mod: []byte("module x\n"), Sum: []byte{}}

// world is a cache, a folder for what the fake go is told and tells, and processes that
// build.
type world struct {
	*testing.T
	cache, fake string
}

func open(t *testing.T) world {
	w := world{t, t.TempDir(), t.TempDir()}
	if err := os.WriteFile(filepath.Join(w.fake, "go"), []byte(fakeGo), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", w.fake+":"+os.Getenv("PATH"))
	t.Setenv("FAKE", w.fake)
	return w
}

func (w world) gate(text string) {
	if err := os.WriteFile(filepath.Join(w.fake, "gate"), []byte(text), 0o644); err != nil {
		w.Fatal(err)
	}
}

// builds are the process ids of the builds that began, of which there are at least n.
func (w world) builds(n int) (pids []int) {
	w.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		text, _ := os.ReadFile(filepath.Join(w.fake, "builds"))
		pids = nil
		for line := range strings.Lines(string(text)) {
			if pid, err := strconv.Atoi(strings.TrimSpace(line)); err == nil {
				pids = append(pids, pid)
			}
		}
		if len(pids) >= n {
			return pids
		}
	}
	w.Fatalf("%d builds began, want %d", len(pids), n)
	return nil
}

func (w world) start() (*exec.Cmd, *bufio.Scanner) {
	w.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "PREPARE_TEST_CACHE="+w.cache)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return cmd, bufio.NewScanner(out)
}

// left are the names in the cache.
func (w world) left() string {
	var names []string
	entries, err := os.ReadDir(w.cache)
	if err != nil {
		w.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return strings.Join(names, " ")
}

// Ctrl-C in px local kills the process that prepares, half way.
//
// covers: H4
func TestABuildEndsWithWhoWantedItAndIsBegunAgain(t *testing.T) {
	w := open(t)
	cmd, _ := w.start()
	pid := w.builds(1)[0]
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); syscall.Kill(pid, 0) == nil; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the build goes on though nobody waits for it")
		}
	}
	if _, err := os.Stat(filepath.Join(w.fake, "tmp")); err == nil {
		t.Error("a killed build leaves the folder of go where nobody removes it")
	}
	w.gate("")
	name, err := Build(t.Context(), w.cache, module, "x/y", func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(name); err != nil || string(text) != "built\n" {
		t.Errorf("%q %v", text, err)
	}
	if want := filepath.Base(name) + " " + filepath.Base(name) + ".lock"; w.left() != want {
		t.Errorf("the cache holds %s, want %s", w.left(), want)
	}
}

// covers: H4
func TestACacheMayBeNamedFromWhereOneIs(t *testing.T) {
	w := open(t)
	w.gate("")
	t.Chdir(filepath.Dir(w.cache))
	name, err := Build(t.Context(), filepath.Base(w.cache), module, "x/y", func(string) {})
	if err != nil || filepath.Dir(name) != w.cache {
		t.Errorf("%q %v, want a file in %s", name, err, w.cache)
	}
}

// covers: H4
func TestTwoWhoWantItBuildItOnce(t *testing.T) {
	w := open(t)
	_, first := w.start()
	w.builds(1)
	_, second := w.start()
	for second.Scan() && second.Text() != "another process is building it" {
	}
	w.gate("")
	var all sync.WaitGroup
	var last [2]string
	for n, out := range []*bufio.Scanner{first, second} {
		all.Go(func() {
			for out.Scan() {
				last[n] = out.Text()
			}
		})
	}
	all.Wait()
	if last[0] != last[1] || !strings.HasSuffix(last[0], " <nil>") {
		t.Errorf("%q", last)
	}
	if n := len(w.builds(1)); n != 1 {
		t.Errorf("it was built %d times", n)
	}
}

// covers: H4
func TestABuildThatFailsSaysWhyAndMayBeTriedAgain(t *testing.T) {
	w := open(t)
	w.gate("x/y/y.go:1:1: no network\n")
	if _, err := Build(t.Context(), w.cache, module, "x/y", func(string) {}); err == nil || !strings.Contains(err.Error(), "no network") {
		t.Fatal(err)
	}
	w.gate("")
	if name, err := Build(t.Context(), w.cache, module, "x/y", func(string) {}); err != nil || !strings.HasPrefix(filepath.Base(name), "y-") {
		t.Error(name, err)
	}
}

// covers: H4
func TestARootfsThatWasHalfMadeIsRemoved(t *testing.T) {
	cache := t.TempDir()
	if err := os.MkdirAll(filepath.Join(cache, "rootfs-building-1", "usr"), 0o755); err != nil {
		t.Fatal(err)
	}
	parts, err := All(t.Context(), cache, Module{}, "python3", func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	if left := (world{T: t, cache: cache}).left(); left != filepath.Base(parts.Rootfs)+" rootfs.lock" {
		t.Errorf("the cache holds %s", left)
	}
}
