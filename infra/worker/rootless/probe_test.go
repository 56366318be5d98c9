//go:build linux

package rootless

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/pxhost/pxhost/infra/worker/probe"
	"github.com/pxhost/pxhost/infra/worker/sandbox"
)

func TestThisMachineIsProbed(t *testing.T) {
	if python, err := probe.Run(t.Context(), driver(t), t.TempDir()); err != nil || python == "" {
		t.Fatal(python, err)
	}
}

// Each machine here lets one thing through, with a real sandbox where that can be.
//
// covers: X5
func TestAMachineThatLetsOneThingThroughIsRefused(t *testing.T) {
	good := driver(t).(*Driver)
	for _, c := range []struct {
		name   string
		driver func(t *testing.T, secret string) sandbox.Driver
		want   string
	}{
		{"no runsc", func(t *testing.T, _ string) sandbox.Driver {
			return &Driver{runsc: filepath.Join(t.TempDir(), "runsc"), root: good.root, state: t.TempDir()}
		}, probe.Starts},
		{"a rootfs without Python", func(t *testing.T, _ string) sandbox.Driver {
			return &Driver{runsc: good.runsc, root: t.TempDir(), state: t.TempDir()}
		}, probe.Starts},
		{"a root that may be written", func(t *testing.T, _ string) sandbox.Driver {
			return changed(good, t, func(c object) { c["root"].(object)["readonly"] = false }, func(c object) {
				c["process"].(object)["user"] = object{"uid": 0, "gid": 0}
			})
		}, probe.ROFS},
		{"another uid", func(t *testing.T, _ string) sandbox.Driver {
			return changed(good, t, func(c object) { c["process"].(object)["user"] = object{"uid": 1000, "gid": 1000} })
		}, probe.ROFS},
		{"a folder of this machine in the sandbox", func(t *testing.T, secret string) sandbox.Driver {
			return changed(good, t, func(c object) {
				c["mounts"] = append(c["mounts"].([]any), object{"destination": secret, "type": "bind", "source": secret, "options": []string{"rbind", "ro"}})
			})
		}, probe.Secret},
		{"a variable of the worker", func(t *testing.T, _ string) sandbox.Driver {
			return changed(good, t, func(c object) {
				c["process"].(object)["env"] = append(c["process"].(object)["env"].([]any), "AWS_SECRET_ACCESS_KEY=x")
			})
		}, probe.Bare},
		{"the network of this machine", func(t *testing.T, _ string) sandbox.Driver {
			return changed(good, t, func(c object) {
				c["linux"].(object)["namespaces"] = []any{object{"type": "pid"}, object{"type": "mount"}}
			}).with("--network=host")
		}, probe.Network},
		{"a Sentry that is not confined", func(*testing.T, string) sandbox.Driver {
			return spoilt{good, func(p sandbox.Process) sandbox.Process { return loose{p.(*process)} }}
		}, probe.Threads},
		{"a sandbox that does not go away", func(*testing.T, string) sandbox.Driver {
			return spoilt{good, func(p sandbox.Process) sandbox.Process { return sticky{p.(*process)} }}
		}, probe.Gone},
	} {
		t.Run(c.name, func(t *testing.T) {
			secret := t.TempDir()
			_, err := probe.Run(t.Context(), c.driver(t, secret), secret)
			var failed *probe.Failure
			if !errors.As(err, &failed) || failed.Check != c.want {
				t.Errorf("%v, want %s", err, c.want)
			}
		})
	}
}

type object = map[string]any

// changed is a driver whose sandboxes get another configuration.
func changed(d *Driver, t *testing.T, changes ...func(object)) reconfigured {
	t.Helper()
	return reconfigured{d, changes, nil}
}

type reconfigured struct {
	*Driver
	changes []func(object)
	flags   []string
}

func (r reconfigured) with(flag string) reconfigured {
	r.flags = append(r.flags, flag)
	return r
}

func (r reconfigured) Start(context.Context) (sandbox.Process, error) {
	return r.Driver.start(func(config []byte) ([]byte, error) {
		var c object
		if err := json.Unmarshal(config, &c); err != nil {
			return nil, err
		}
		for _, change := range r.changes {
			change(c)
		}
		return json.Marshal(c)
	}, r.flags...)
}

type spoilt struct {
	*Driver
	how func(sandbox.Process) sandbox.Process
}

func (s spoilt) Start(ctx context.Context) (sandbox.Process, error) {
	p, err := s.Driver.Start(ctx)
	if err != nil {
		return nil, err
	}
	return s.how(p), nil
}

type loose struct{ *process }

func (loose) Confined() error { return errors.New("a thread without seccomp") }

type sticky struct{ *process }

func (sticky) Remains() error { return os.ErrExist }
