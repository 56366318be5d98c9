// Package probe finds out whether this machine isolates, before a worker takes its
// first job. It believes nothing that it can look at, and one failed check is enough:
// there is no weaker way to run a Function.
package probe

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/pxhost/pxhost/infra/worker/job"
	"github.com/pxhost/pxhost/infra/worker/sandbox"
)

// A Failure is a check that did not hold. Check is a word of the protocol.
type Failure struct {
	Check string
	Cause error
}

func (f *Failure) Error() string { return "probe: " + f.Check + ": " + f.Cause.Error() }
func (f *Failure) Unwrap() error { return f.Cause }

// The checks.
const (
	Starts  = "sandbox_starts"      // one is ready within 20 s
	Threads = "sentry_confined"     // uid, groups, capabilities, no_new_privs and seccomp of every thread
	GVisor  = "kernel_is_gvisor"    // uname says so
	Answers = "json_round_trips"    // and Python runs what it is sent
	Secret  = "host_files_absent"   // a secret file of ours, /etc/shadow and others cannot be read
	Network = "network_is_absent"   // no listener of ours, no metadata address, no name
	ROFS    = "root_is_read_only"   // writing gives EROFS
	Bare    = "environment_is_ours" // nothing of this process's environment
	Gone    = "nothing_is_left"     // after the kill
)

// A Remainder is a Process that can say what of it is still on the machine. Both
// drivers' are.
type Remainder interface{ Remains() error }

// metadata are addresses that give credentials on AWS.
var metadata = []string{"169.254.170.2:80", "169.254.169.254:80"}

// Run starts one sandbox and looks at it from outside and from inside. secret is a
// folder that this process can write to and no sandbox may see.
func Run(ctx context.Context, d sandbox.Driver, secret string) (python string, err error) {
	s, err := sandbox.Warm(ctx, d)
	if err != nil {
		return "", &Failure{Starts, err}
	}
	err = errors.Join(inspect(ctx, s, secret), s.Kill())
	if err != nil {
		return "", err
	}
	r, ok := s.Process().(Remainder)
	if !ok {
		return "", &Failure{Gone, errors.New("the driver cannot tell")}
	}
	if err := r.Remains(); err != nil {
		return "", &Failure{Gone, err}
	}
	return s.Python, nil
}

func inspect(ctx context.Context, s *sandbox.Sandbox, folder string) error {
	if err := s.Process().Confined(); err != nil {
		return &Failure{Threads, err}
	}
	nonce := make([]byte, 16)
	rand.Read(nonce)
	token := hex.EncodeToString(nonce)
	file := filepath.Join(folder, "secret-"+token)
	if err := os.WriteFile(file, nonce, 0o644); err != nil {
		return &Failure{Secret, err}
	}
	defer os.Remove(file)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return &Failure{Network, err}
	}
	defer listener.Close()
	abstract, err := net.Listen("unix", "@px-probe-"+token)
	if err != nil {
		return &Failure{Network, err}
	}
	defer abstract.Close()
	spec, text, err := canary(token, file, append([]string{listener.Addr().String()}, metadata...), "px-probe-"+token)
	if err != nil {
		return &Failure{Answers, err}
	}
	ctx, stop := context.WithTimeout(ctx, 10*time.Second)
	defer stop()
	entries, err := s.Serve(ctx, spec, text)
	if err != nil {
		return &Failure{Answers, err}
	}
	return judge(token, entries[0])
}

// judge reads what the canary found. What it does not say, did not hold.
func judge(token string, e job.Entry) error {
	if e.Error != nil {
		return &Failure{Answers, fmt.Errorf("the canary failed: %s %s in line %d", e.Error.Reason, e.Error.Exception, e.Error.Line)}
	}
	var echo string
	var found []string
	if json.Unmarshal(e.Values["echo"], &echo) != nil || echo != token {
		return &Failure{Answers, errors.New("it did not echo what it was sent")}
	}
	if json.Unmarshal(e.Values["held"], &found) != nil {
		return &Failure{Answers, errors.New("it did not say what held")}
	}
	held := map[string]bool{}
	for _, f := range found {
		held[f] = true
	}
	for _, check := range []string{GVisor, Secret, Network, ROFS, Bare} {
		if !held[check] {
			return &Failure{check, errors.New("the canary could do what it must not")}
		}
	}
	return nil
}
