package ecs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pxhost/pxhost/infra/local/child"
)

// A Program is what stands for a worker's image on this machine. It may have to be
// prepared, which the first time takes minutes; tasks that are asked for meanwhile
// start when it is ready.
type Program struct {
	path        string
	environment map[string]string // of every task; written before ready is closed
	ready       chan struct{}

	mu      sync.Mutex
	refused string
}

// Refused says why no task can run on this machine, or "".
func (p *Program) Refused() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.refused
}

func (p *Program) refuse(why string) {
	p.mu.Lock()
	p.refused = why
	p.mu.Unlock()
}

func (p *Program) wait(ctx context.Context) error {
	select {
	case <-p.ready:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if why := p.Refused(); why != "" {
		return errors.New(why)
	}
	return nil
}

// Prepare looks whether the worker program can run here, and has it prepare what it
// needs ("prepare --cache folder") while the caller goes on, until ctx is done. Each
// line that a person likes to know goes to say. done is closed when it has ended.
func Prepare(ctx context.Context, path, cache string, say func(string)) (p *Program, done <-chan struct{}) {
	ended := make(chan struct{})
	p = &Program{path: path, ready: make(chan struct{}), environment: map[string]string{
		"PX_STATE": "", // of the image; here it is the temporary folder
		// A Flow of six stages finds each of its sandboxes warm.
		"PX_POOL":   "6",
		"PX_DRIVER": "rootless", "PX_CACHE": cache, "PX_SLOTS": strconv.Itoa(max(1, min(runtime.NumCPU(), 4))),
	}}
	give := func(why string) {
		p.refuse(why)
		say("no Python: " + why + "; Functions answer PX_SANDBOX_UNAVAILABLE, everything else works")
	}
	if why := unable(path); why != "" {
		give(why)
		close(p.ready)
		close(ended)
		return p, ended
	}
	go func() {
		defer close(ended)
		defer close(p.ready)
		if err := p.prepare(ctx, cache, say); err != nil {
			if ctx.Err() == nil {
				give(err.Error())
			} else {
				p.refuse("px local stops")
			}
		}
	}()
	return p, ended
}

// unable says in one line what this machine lacks, or "".
func unable(path string) string {
	if runtime.GOOS != "linux" {
		return "gVisor runs on Linux only, and this is " + runtime.GOOS
	}
	if info, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return "there is no " + path + " (make build)"
	} else if err != nil || info.IsDir() || info.Mode()&0o111 == 0 {
		return path + " is no program"
	}
	if _, err := exec.LookPath("python3"); err != nil {
		return "there is no python3"
	}
	return ""
}

// quick is how long a preparation may take without a word about it: it had nothing to
// do.
const quick = 2 * time.Second

func (p *Program) prepare(ctx context.Context, cache string, say func(string)) error {
	var mu sync.Mutex // of all that follows
	begun, last := time.Now(), ""
	var held []string
	line := func(text string) {
		mu.Lock()
		defer mu.Unlock()
		text = strings.TrimSpace(text)
		var parts struct{ Runsc, Rootfs string }
		switch {
		case text == "":
			return
		case strings.HasPrefix(text, "{"):
			if json.Unmarshal([]byte(text), &parts) == nil {
				for name, value := range map[string]string{"PX_RUNSC": parts.Runsc, "PX_ROOTFS": parts.Rootfs} {
					if value != "" {
						p.environment[name] = value
					}
				}
				return
			}
		}
		if last = text; time.Since(begun) < quick {
			held = append(held, text)
			return
		}
		for _, t := range append(held, text) {
			say("preparing Python: " + t)
		}
		held = nil
	}
	spawner := child.NewSpawner()
	defer spawner.Close()
	cmd := exec.Command(p.path, "prepare", "--cache", cache)
	cmd.Dir = filepath.Dir(p.path)
	out := &child.Lines{Prefix: func() string { return "" }, Log: line}
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = out, out, time.Second
	if err := spawner.Start(cmd); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() { child.AwaitExit(cmd.Process.Pid); close(ended) }()
	select {
	case <-ended:
	case <-ctx.Done():
		child.Kill(cmd)
	}
	err := cmd.Wait()
	out.Flush()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil && last != "":
		return fmt.Errorf("preparing it failed: %s", last)
	case err != nil:
		return fmt.Errorf("preparing it failed: %w", err)
	}
	if time.Since(begun) >= quick {
		say("Python is ready")
	}
	return nil
}
