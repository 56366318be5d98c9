//go:build linux

package command

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"syscall"
)

// statePrefix begins the name of every state folder.
const statePrefix = "px-worker-state-"

// A state is the folder of one worker process for its files. The process holds a lock
// on the folder, which falls when it ends, however it ends: so a folder whose lock can
// be had is of nobody. (systemd-tmpfiles, too, leaves a locked folder alone.)
type state struct {
	path string
	lock *os.File
}

// held are the locks of this process's states: a file that nothing refers to is closed,
// and its lock falls, however long the process goes on.
var held sync.Map

// newState makes the state of this process below a folder, "" being the temporary one,
// and removes there what workers left behind that were killed.
func newState(ctx context.Context, below string) (state, error) {
	if below == "" {
		below = os.TempDir()
	}
	sweep(ctx, below)
	for {
		path, err := os.MkdirTemp(below, statePrefix)
		if err != nil {
			return state{}, err
		}
		lock, err := lockFolder(path)
		switch {
		case err == nil:
			held.Store(path, lock)
			return state{path, lock}, nil
		case !errors.Is(err, errNotOurs):
			return state{}, errors.Join(err, os.RemoveAll(path))
		}
		// Another worker took it for one of nobody before it was locked: it removes it.
	}
}

// Close removes the folder.
func (s state) Close() error {
	held.Delete(s.path)
	return errors.Join(os.RemoveAll(s.path), s.lock.Close())
}

// sweep removes the folders of this user's workers that have ended. What cannot be
// removed is no reason not to work.
func sweep(ctx context.Context, below string) {
	found, err := filepath.Glob(filepath.Join(below, statePrefix+"*"))
	if err != nil {
		return
	}
	for _, path := range found {
		lock, err := lockFolder(path)
		if err != nil { // a living worker's, or another user's
			continue
		}
		if err := (state{path, lock}).Close(); err != nil {
			slog.WarnContext(ctx, "what a worker left behind stays", "folder", path, "cause", err.Error())
		} else {
			slog.InfoContext(ctx, "what a worker left behind was removed", "folder", path)
		}
	}
}

// errNotOurs says that a folder is another process's or another user's, or gone.
var errNotOurs = errors.New("the folder is not this process's")

// lockFolder locks the folder that has this name, and goes on to have it.
func lockFolder(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ELOOP) {
		return nil, errNotOurs
	}
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = errNotOurs
	}
	if err == nil {
		var locked, named os.FileInfo
		if locked, err = f.Stat(); err == nil {
			named, err = os.Lstat(path)
		}
		// It may have been removed between open and lock.
		if errors.Is(err, os.ErrNotExist) || err == nil && (!os.SameFile(locked, named) || int(locked.Sys().(*syscall.Stat_t).Uid) != os.Geteuid()) {
			err = errNotOurs
		}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
