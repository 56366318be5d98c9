// Package statedir is the folder in which the local host keeps all that
// outlives a start: databases, keys, and where the host last listened.
//
// One host at a time: [Open] takes an exclusive lock that the operating system
// gives back when the process ends, however it ends. Commands that only read
// (px token) use [At], which takes no lock, so that they work while a host runs.
//
// Secrets are made at first use and readable by their owner alone (0600).
package statedir

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// ErrLocked says that another host runs on the folder.
var ErrLocked = errors.New("another px local runs on this state folder")

// ErrNotStarted says that no host ever started on the folder.
var ErrNotStarted = errors.New("no px local has started on this state folder")

// A Dir is a state folder.
type Dir struct {
	path string
	lock *os.File
}

// At names a folder that need not exist, without locking it.
func At(path string) *Dir { return &Dir{path: path} }

// Open makes the folder if need be and locks it. The error is [ErrLocked] if
// another process holds it.
func Open(path string) (*Dir, error) {
	if err := makeFolder(path); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(path, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := lockFile(f); err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &Dir{path: path, lock: f}, nil
}

// makeFolder makes a folder, and those that it is in, and syncs the names: what is
// acknowledged in a folder must not be lost with the folder.
func makeFolder(path string) error {
	path = filepath.Clean(path)
	parent := filepath.Dir(path)
	err := os.Mkdir(path, 0o700)
	if errors.Is(err, fs.ErrNotExist) && parent != path {
		if err = makeFolder(parent); err == nil {
			err = os.Mkdir(path, 0o700)
		}
	}
	if info, e := os.Stat(path); e == nil && info.IsDir() {
		err = nil // it was there, perhaps of a start that died before the sync
	}
	if err == nil {
		syncFolder(parent)
	}
	return err
}

// syncFolder makes the names in a folder durable. Not everywhere can a folder be
// synced, and not every folder may be opened.
func syncFolder(path string) {
	if dir, err := os.Open(path); err == nil {
		dir.Sync()
		dir.Close()
	}
}

// Close gives the lock back.
func (d *Dir) Close() error {
	if d.lock == nil {
		return nil
	}
	return d.lock.Close()
}

// Path names a file in the folder.
func (d *Dir) Path(name string) string { return filepath.Join(d.path, name) }

// Root is the folder itself.
func (d *Dir) Root() string { return d.path }

// Write replaces a file so that after a crash it is the old one or the new
// one, whole. It is readable by its owner alone.
func (d *Dir) Write(name string, data []byte) error { return WriteFile(d.Path(name), data) }

// WriteFile is [Dir.Write] for any path.
func WriteFile(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails once it was renamed
	if _, err = f.Write(data); err == nil {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	syncFolder(filepath.Dir(path))
	return nil
}

// Keep returns the file, or makes it from create if it is not there.
func (d *Dir) Keep(name string, create func() ([]byte, error)) ([]byte, error) {
	b, err := os.ReadFile(d.Path(name))
	if !errors.Is(err, fs.ErrNotExist) {
		return b, err
	}
	if b, err = create(); err != nil {
		return nil, err
	}
	return b, d.Write(name, b)
}

// An Operator is the access key that may do everything on awsEndpoint.
type Operator struct {
	AccessKeyID     string `json:"accessKeyId"`
	SecretAccessKey string `json:"secretAccessKey"`
}

const operatorFile = "operator.json"

// Operator returns the folder's operator key, made at first use.
func (d *Dir) Operator() (Operator, error) {
	b, err := d.Keep(operatorFile, func() ([]byte, error) {
		return json.Marshal(Operator{AccessKeyID: "PXOP" + rand.Text()[:16], SecretAccessKey: rand.Text() + rand.Text()})
	})
	if err != nil {
		return Operator{}, err
	}
	return decode[Operator](d.Path(operatorFile), b)
}

// ReadOperator returns the operator key of a host that has started, or
// [ErrNotStarted].
func (d *Dir) ReadOperator() (Operator, error) { return read[Operator](d, operatorFile) }

// A Host says where the last start listened.
type Host struct {
	URL         string `json:"url"`
	AWSEndpoint string `json:"awsEndpoint"`
	// Environment are the variables that all functions have: the names of
	// tables, bucket and state machine, which an operator needs too.
	Environment map[string]string `json:"environment"`
}

const hostFile = "host.json"

// ReadHost returns where the last start listened, or [ErrNotStarted].
func (d *Dir) ReadHost() (Host, error) { return read[Host](d, hostFile) }

// WriteHost records where this start listens.
func (d *Dir) WriteHost(h Host) error {
	b, err := json.Marshal(h)
	if err != nil {
		return err
	}
	return d.Write(hostFile, b)
}

func read[T any](d *Dir, name string) (T, error) {
	b, err := os.ReadFile(d.Path(name))
	if errors.Is(err, fs.ErrNotExist) {
		var none T
		return none, fmt.Errorf("%s: %w", d.path, ErrNotStarted)
	}
	if err != nil {
		var none T
		return none, err
	}
	return decode[T](d.Path(name), b)
}

func decode[T any](path string, b []byte) (T, error) {
	var v T
	if err := json.Unmarshal(b, &v); err != nil {
		return v, fmt.Errorf("%s is damaged: %w", path, err)
	}
	return v, nil
}
