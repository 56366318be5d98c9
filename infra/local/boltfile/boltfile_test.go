package boltfile

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.etcd.io/bbolt"
)

func TestAHalfMadeFileIsMadeAnew(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	// What a power cut leaves while a file is made: its length without its pages.
	if err := os.WriteFile(path+".new", make([]byte, 16384), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 { // made, then opened
		db, err := Open(path, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if err := db.Update(func(tx *bbolt.Tx) error {
			_, err := tx.CreateBucketIfNotExists([]byte("b"))
			return err
		}); err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	names, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*"))
	if err != nil || len(names) != 1 {
		t.Errorf("there are %v, %v", names, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}
