// Package boltfile opens the local host's databases, so that no crash leaves half
// of a new one. It knows nothing of what is in them.
package boltfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/bbolt"
)

// Open opens a bbolt file, and makes it, for its owner alone, if it is not there.
// It waits for the lock of another process at most so long.
//
// Crash order: bbolt makes a file by writing its first pages, and refuses one that
// has only some of them. So a new file is made under another name, is synced, and
// gets its own name only then; and the folder is synced, or the file with all that
// is acknowledged in it could be without a name after a power cut. One process at
// a time makes the file.
func Open(path string, timeout time.Duration) (*bbolt.DB, error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		if err := create(path); err != nil {
			return nil, err
		}
	}
	// A host may have died between the rename and the sync of the folder.
	syncFolder(filepath.Dir(path))
	return open(path, timeout)
}

func open(path string, timeout time.Duration) (*bbolt.DB, error) {
	return bbolt.Open(path, 0o600, &bbolt.Options{Timeout: timeout, FreelistType: bbolt.FreelistMapType})
}

func create(path string) error {
	draft := path + ".new"
	if err := os.Remove(draft); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	db, err := open(draft, time.Second)
	if err != nil {
		return err
	}
	if err := db.Close(); err != nil {
		return err
	}
	return os.Rename(draft, path)
}

// syncFolder makes names durable, where a folder can be synced.
func syncFolder(path string) {
	if dir, err := os.Open(path); err == nil {
		dir.Sync()
		dir.Close()
	}
}
