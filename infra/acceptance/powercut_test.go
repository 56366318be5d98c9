//go:build linux

package acceptance

import (
	"bufio"
	"context"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A power cut loses what was not synced. strace records what a host writes to its
// state folder, with times; the test then builds the folder as a cut at some time
// could have left it, starts a host on it, and holds that to the journal of what
// had been acknowledged by that time.
//
// What the model takes from a disk: writes to a file that no completed sync of the
// file follows are there, or not, or in part, sector by sector and in any order;
// names in a folder that no completed sync of the folder follows are there up to
// some point, in the order in which they were made.

// A traced call is one system call that matters, from its start to its end.
type tracedCall struct {
	name       string
	start, end time.Time // end is zero for one that never returned
	path       string    // of the file or folder
	to         string    // of a rename
	data       []byte
	offset     int64
	create     bool
}

var (
	traceLine    = regexp.MustCompile(`^(\d+)\s+(\d+)\.(\d{6}) (.*)$`)
	traceResumed = regexp.MustCompile(`^<\.\.\. (\w+) resumed>`)
	traceEnd     = regexp.MustCompile(` = (-?\d+)(?:<([^>]*)>)?(?: \w+ \([^)]*\))?(?: <(\d+\.\d+)>)?$`)
	traceString  = regexp.MustCompile(`"((?:\\x[0-9a-f]{2})*)"`)
	traceFD      = regexp.MustCompile(`^\w+\((?:\d+|AT_FDCWD)<((?:\\x[0-9a-f]{2}|\(deleted\))*)>`)
)

func unhex(t *testing.T, s string) string {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, `\x`, ""))
	if err != nil {
		t.Fatalf("a string of strace: %.80q: %v", s, err)
	}
	return string(b)
}

// readTrace reads the calls that concern a folder, in the order they began.
func readTrace(t *testing.T, file, folder string) []*tracedCall {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var calls []*tracedCall
	begun := map[string]*tracedCall{} // by thread
	lines := bufio.NewReaderSize(f, 1<<20)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return calls
		}
		parts := traceLine.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		if parts == nil {
			t.Fatalf("a line of strace: %.200q", line)
		}
		thread, text := parts[1], parts[4]
		seconds, _ := strconv.ParseInt(parts[2], 10, 64)
		micros, _ := strconv.ParseInt(parts[3], 10, 64)
		at := time.Unix(seconds, micros*1000)
		var c *tracedCall
		switch {
		case strings.HasPrefix(text, "+++") || strings.HasPrefix(text, "---"):
			continue
		case traceResumed.MatchString(text):
			if c = begun[thread]; c == nil {
				continue
			}
			delete(begun, thread)
		default:
			if c = readCall(t, text, folder); c == nil {
				continue
			}
			c.start = at
			calls = append(calls, c)
			if strings.HasSuffix(text, "<unfinished ...>") {
				begun[thread] = c
				continue
			}
		}
		end := traceEnd.FindStringSubmatch(text)
		if end == nil { // such as "= ?" of a call in which the process died
			continue
		}
		if strings.HasPrefix(end[1], "-") {
			c.name = "failed"
		}
		took, _ := strconv.ParseFloat(end[3], 64)
		c.end = c.start.Add(time.Duration(took * float64(time.Second)))
	}
}

// readCall reads a call up to its result, nil if it does not concern the folder.
func readCall(t *testing.T, text, folder string) *tracedCall {
	t.Helper()
	name, _, _ := strings.Cut(text, "(")
	c := &tracedCall{name: name}
	if m := traceFD.FindStringSubmatch(text); m != nil {
		c.path = unhex(t, strings.ReplaceAll(m[1], "(deleted)", ""))
	}
	var texts []string
	for _, m := range traceString.FindAllStringSubmatch(text, 2) {
		texts = append(texts, m[1])
	}
	switch name {
	case "openat", "mkdirat", "unlinkat", "renameat", "renameat2":
		if len(texts) == 0 {
			return nil
		}
		c.path = unhex(t, texts[0])
		if len(texts) > 1 {
			c.to = unhex(t, texts[1])
		}
		if c.create = strings.Contains(text, "O_CREAT"); name == "openat" && !c.create {
			return nil
		}
		if strings.Contains(text, "O_TRUNC") && strings.HasPrefix(c.path, folder) { // a process that is started opens /dev/null so
			t.Fatalf("a file of the state folder is truncated as it is opened: %.200s", text)
		}
	case "pwrite64":
		if len(texts) == 0 || !strings.HasPrefix(c.path, folder) {
			return nil
		}
		c.data = []byte(unhex(t, texts[0]))
		numbers := regexp.MustCompile(`", (\d+), (\d+)`).FindStringSubmatch(text)
		if numbers == nil || numbers[1] != fmt.Sprint(len(c.data)) {
			t.Fatalf("strace cut a write: %.200s", text)
		}
		c.offset, _ = strconv.ParseInt(numbers[2], 10, 64)
	case "ftruncate":
		m := regexp.MustCompile(`>, (\d+)`).FindStringSubmatch(text)
		c.offset, _ = strconv.ParseInt(m[1], 10, 64)
	case "fsync", "fdatasync":
	case "???": // the thread died before strace had looked
		return nil
	default:
		if strings.HasPrefix(name, "syscall_0x") {
			// No call of Linux has such a number: what strace read of a thread that
			// was being killed. It wrote nothing.
			return nil
		}
		t.Fatalf("strace shows a call that was not asked for: %.200s", text)
	}
	if !strings.HasPrefix(c.path, folder) && !(name == "fsync" && c.path == filepath.Dir(folder)) {
		return nil
	}
	return c
}

// A diskFile is what is known of one file: what is on the disk, and what may be.
type diskFile struct {
	synced  []byte
	pending []*tracedCall
	whole   bool // written by write(2), which is not traced, and then synced
}

func apply(content []byte, c *tracedCall, random *rand.Rand) []byte {
	if c.name == "ftruncate" {
		if n := int(c.offset); n <= len(content) {
			return content[:n]
		}
		return append(content, make([]byte, int(c.offset)-len(content))...)
	}
	const sector = 512
	for at := 0; at < len(c.data); at += sector {
		if random != nil && random.IntN(3) == 0 {
			continue // this sector did not get there
		}
		part := c.data[at:min(at+sector, len(c.data))]
		if end := int(c.offset) + at + len(part); end > len(content) {
			content = append(content, make([]byte, end-len(content))...)
		}
		copy(content[int(c.offset)+at:], part)
	}
	return content
}

// cutAt builds in image what a cut at a time could have left of the folder. final
// is the folder as the host left it, for the few files that are written as a whole
// and renamed into place. It tells how many writes were not synced.
func cutAt(t *testing.T, calls []*tracedCall, folder, final, image string, at time.Time, random *rand.Rand) (unsynced int) {
	t.Helper()
	names := map[string]*diskFile{}           // as the host sees them
	var changes []func(map[string]*diskFile)  // of names, in order
	kept, made, madeSynced := 0, false, false // changes that are synced; the folder itself
	for _, c := range calls {
		if c.start.After(at) {
			break
		}
		completed := !c.end.IsZero() && !c.end.After(at)
		change := func(f func(map[string]*diskFile)) {
			f(names)
			changes = append(changes, f)
		}
		switch c.name {
		case "failed":
		case "mkdirat":
			if c.path != folder {
				t.Fatalf("a folder %s in the state folder: extend the model", c.path)
			}
			made = true
		case "openat":
			if names[c.path] == nil {
				file := &diskFile{}
				change(func(n map[string]*diskFile) { n[c.path] = file })
			}
		case "renameat", "renameat2":
			file := names[c.path]
			if file == nil {
				t.Fatalf("%s is renamed and was not made", c.path)
			}
			if len(file.synced) == 0 && !file.whole {
				t.Fatalf("%s gets its name before it is synced", c.to)
			}
			change(func(n map[string]*diskFile) { delete(n, c.path); n[c.to] = file })
		case "unlinkat":
			change(func(n map[string]*diskFile) { delete(n, c.path) })
		case "pwrite64", "ftruncate":
			names[c.path].pending = append(names[c.path].pending, c)
		case "fsync", "fdatasync":
			switch {
			case c.path == filepath.Dir(folder):
				madeSynced = madeSynced || made && completed
			case c.path == folder:
				if completed {
					kept = len(changes)
				}
			default:
				file := names[c.path]
				if file == nil {
					t.Fatalf("%s is synced and was not made", c.path)
				}
				if !completed {
					break
				}
				file.whole = file.whole || len(file.synced)+len(file.pending) == 0
				file.pending = slices.DeleteFunc(file.pending, func(w *tracedCall) bool {
					done := !w.end.IsZero() && !w.end.After(c.start)
					if done {
						file.synced = apply(file.synced, w, nil)
					}
					return done
				})
			}
		}
	}
	for _, file := range names {
		unsynced += len(file.pending)
	}
	if !madeSynced && random.IntN(2) == 0 {
		return unsynced
	}
	if err := os.Mkdir(image, 0o700); err != nil {
		t.Fatal(err)
	}
	left := map[string]*diskFile{}
	for _, change := range changes[:kept+random.IntN(len(changes)-kept+1)] {
		change(left)
	}
	for path, file := range left {
		name := filepath.Base(path)
		content := slices.Clone(file.synced)
		if file.whole {
			if strings.HasPrefix(name, ".") {
				continue // a draft that nobody reads
			}
			text, err := os.ReadFile(filepath.Join(final, name))
			if err != nil {
				t.Fatal(err)
			}
			content = text
		}
		for _, w := range file.pending {
			if random.IntN(3) > 0 {
				content = apply(content, w, random)
			}
		}
		if err := os.WriteFile(filepath.Join(image, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return unsynced
}

// covers: R6, U5, P9, H4
func TestNothingAcknowledgedIsLostToAPowerCut(t *testing.T) {
	if out, err := exec.Command("strace", "-D", "-f", "--seccomp-bpf", "-o", "/dev/null", "true").CombinedOutput(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("strace does not work here: %v %s", err, out)
		}
		t.Skipf("strace does not work here: %v %s", err, out)
	}
	t.Parallel()
	random := crashRandom(t)
	cuts, lossy, applied, ran, failed := 0, 0, 0, 0, 0
	for session := range 2 {
		s := newSite(t, random)
		trace := filepath.Join(s.dir, "trace")
		h, ready := s.launch(t, []string{"strace", "-D", "-f", "--seccomp-bpf", "-y", "-xx", "-ttt", "-T", "-s", "100000000", "-e", "signal=kill",
			"-e", "trace=openat,pwrite64,fdatasync,fsync,ftruncate,rename,renameat,renameat2,unlink,unlinkat,mkdir,mkdirat", "-o", trace})
		if !ready {
			t.Fatalf("px local does not start under strace: %s", h.out)
		}
		w := newWorkload(fmt.Sprint("p", session), 3, random)
		w.clients[0].large = 1 - session
		ctx, cancel := context.WithCancel(t.Context())
		worked := make(chan error, 1)
		go func() { worked <- w.run(ctx, s.caller()) }()
		time.Sleep(4 * time.Second)
		h.process.Process.Kill()
		<-h.ended
		killed := time.Now()
		cancel()
		if err := <-worked; err != nil {
			t.Fatal(err)
		}
		s.noOrphans(t)
		awaitTrace(t, trace, h.process.Process.Pid)
		calls := readTrace(t, trace, h.state)
		os.Remove(trace)
		var syncs, first []*tracedCall
		for _, c := range calls {
			if c.name == "fdatasync" && !c.end.IsZero() {
				syncs = append(syncs, c)
				if !slices.ContainsFunc(first, func(f *tracedCall) bool { return f.path == c.path }) {
					first = append(first, c)
				}
			}
		}
		if len(syncs) < 20 {
			t.Fatalf("%d syncs in %d calls: strace did not see the databases", len(syncs), len(calls))
		}
		within := func(c *tracedCall) time.Time {
			return c.start.Add(time.Duration(random.Int64N(int64(c.end.Sub(c.start)) + 1)))
		}
		for cut := range 8 {
			at := calls[0].start.Add(time.Duration(random.Int64N(int64(killed.Sub(calls[0].start)))))
			switch cut {
			case 0:
				at = killed
			case 1, 2, 5: // while a database is made
				at = within(first[random.IntN(len(first))])
			case 3, 4: // while a commit is being synced
				at = within(syncs[random.IntN(len(syncs))])
			}
			dir := t.TempDir()
			unsynced := cutAt(t, calls, h.state, h.state, filepath.Join(dir, "state"), at, random)
			cuts++
			if unsynced > 0 {
				lossy++
			}
			image := siteAt(t, dir, s.address)
			again, ready := image.launch(t, nil)
			if !ready {
				t.Fatalf("px local does not start after a cut %v after the first call, with %d writes not synced: %s", at.Sub(calls[0].start), unsynced, again.out)
			}
			err := w.verify(t.Context(), image.caller(), at, 1_000_000)
			if err == nil {
				err = w.verifyHistory(t, again, at, false)
			}
			applies, runs := w.acknowledged(at)
			applied, ran, failed = applied+applies, ran+runs, failed+w.failures()
			if err != nil {
				t.Fatalf("a cut %v after the first call, with %d writes not synced, %d changes and %d runs acknowledged: %v", at.Sub(calls[0].start), unsynced, applies, runs, err)
			}
			again.process.Process.Kill()
			<-again.ended
			image.noOrphans(t)
			os.RemoveAll(dir)
		}
	}
	t.Logf("%d cuts, %d of them with writes that were not synced; %d changes and %d runs that had been acknowledged, each there once; %d of them failed, as they must", cuts, lossy, applied, ran, failed)
	if lossy < cuts/4 {
		t.Errorf("only %d of %d cuts lost writes", lossy, cuts)
	}
}

// awaitTrace waits until strace has written down the end of the process.
func awaitTrace(t *testing.T, path string, pid int) {
	t.Helper()
	end := fmt.Sprintf("%d ", pid)
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		info, _ := f.Stat()
		tail := make([]byte, min(info.Size(), 64<<10))
		f.ReadAt(tail, info.Size()-int64(len(tail)))
		f.Close()
		for line := range strings.Lines(string(tail)) {
			if strings.HasPrefix(line, end) && strings.Contains(line, "+++ killed by SIGKILL") {
				return
			}
		}
	}
	t.Fatal("strace does not end")
}
