package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/pxhost/pxhost/infra/local/statedir"
)

// What px itself keeps, in the folder px of the state folder: readable by its owner
// alone, and never a credential. Losing it loses nothing that a person cannot give again.
const (
	keptPlans    = "plans"    // by planRef: what applying takes
	keptCommands = "commands" // by commandId: the exact request, for sending it again
	keptCursors  = "cursors"  // by the digest of a call: how it goes on
)

// keptFor is how long it is kept: as long as a host tells of the row of a plan.
const keptFor = 90 * 24 * time.Hour

var keptName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,200}$`)

func (e *environment) keptPath(kind, name string) string {
	return e.dir().Path(filepath.Join("px", kind, name+".json"))
}

// keep keeps a value so that it is there after a crash.
func (e *environment) keep(kind, name string, v any) error {
	if !keptName.MatchString(name) {
		return errors.New("its name is no reference")
	}
	text, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return err
	}
	path := e.keptPath(kind, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	old, _ := os.ReadDir(filepath.Dir(path))
	for _, f := range old {
		if info, err := f.Info(); err == nil && time.Since(info.ModTime()) > keptFor {
			os.Remove(filepath.Join(filepath.Dir(path), f.Name()))
		}
	}
	return statedir.WriteFile(path, text)
}

// kept reads a value that was kept. there is false if none is, or if it cannot be read.
func (e *environment) kept(kind, name string, v any) (there bool) {
	if !keptName.MatchString(name) {
		return false
	}
	text, err := os.ReadFile(e.keptPath(kind, name))
	return err == nil && json.Unmarshal(text, v) == nil
}

// forget removes what is kept.
func (e *environment) forget(kind, name string) {
	if keptName.MatchString(name) {
		os.Remove(e.keptPath(kind, name))
	}
}

// keptNames lists what is kept, the newest first, at most so many.
func (e *environment) keptNames(kind string, most int) []string {
	type aged struct {
		name string
		at   time.Time
	}
	files, err := os.ReadDir(filepath.Dir(e.keptPath(kind, "x")))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var all []aged
	for _, f := range files {
		name, ok := strings.CutSuffix(f.Name(), ".json")
		if info, err := f.Info(); ok && err == nil && keptName.MatchString(name) {
			all = append(all, aged{name, info.ModTime()})
		}
	}
	slices.SortFunc(all, func(a, b aged) int { return b.at.Compare(a.at) })
	var names []string
	for _, a := range all[:min(most, len(all))] {
		names = append(names, a.name)
	}
	return names
}
