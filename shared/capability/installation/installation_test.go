package installation_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/capability"
	"github.com/pxhost/pxhost/shared/capability/execution"
	"github.com/pxhost/pxhost/shared/capability/host"
	"github.com/pxhost/pxhost/shared/capability/installation"
	"github.com/pxhost/pxhost/shared/capability/packaging"
	"github.com/pxhost/pxhost/shared/capability/safeschema"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/outbound"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/store/memory"
)

var errStore = errors.New("the store failed")

// faults is a store whose write of a number fails, before it was done or after.
type faults struct {
	*memory.Store
	writes, fail int
	after        bool
}

func (f *faults) write(do func() error) error {
	f.writes++
	if f.writes != f.fail {
		return do()
	}
	if f.after {
		if err := do(); err != nil {
			return err
		}
	}
	return errStore
}

func (f *faults) Put(ctx context.Context, space history.Space, bodies ...[]byte) error {
	return f.write(func() error { return f.Store.Put(ctx, space, bodies...) })
}

func (f *faults) Change(ctx context.Context, c host.Change) (generation int64, err error) {
	err = f.write(func() error { generation, err = f.Store.Change(ctx, c); return err })
	return generation, err
}

const manager = "https://issuer|manager"

func plugin(t *testing.T, version string) packaging.Package {
	t.Helper()
	p, findings := packaging.Texts(map[string]string{"manifest.json": `{"pluginKey":"acme.notes","version":"` + version + `","title":"n","permissions":["storage"],"capabilities":[
		{"id":"a","kind":"tool","title":"t","description":"d","permissions":["storage"],"timeout_seconds":30,"runtime":{"adapter":"text_template","template":"x","background":{"interval_minutes":15}}}]}`})
	if findings != nil {
		t.Fatal(findings)
	}
	return p
}

// A write that failed is done again by the same request, whatever of it was done: there
// is one instance, each change moved its generation once, and nothing is left over.
//
// covers: C3
func TestAFailedWriteIsMendedByTheSameRequest(t *testing.T) {
	for fail := 1; fail <= 12; fail++ {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprint(fail, after), func(t *testing.T) {
				now := func() time.Time { return time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC) }
				f := &faults{Store: memory.New(now)}
				if _, err := f.Store.Change(t.Context(), host.Change{Workspace: "team", Member: &host.Membership{Actor: manager, Member: capability.Member{Rights: []capability.Right{capability.Manage, capability.Use}}}}); err != nil {
					t.Fatal(err)
				}
				m := &installation.Manager{Store: f, Objects: f, Workspaces: &execution.Reader{Store: f, Objects: f}, Schemas: new(safeschema.Cache), CheckURL: outbound.CheckURL, Now: now}
				failed := 0
				// until does something again until it does not fail.
				until := func(do func() (outcome.Findings, error)) {
					t.Helper()
					for {
						findings, err := do()
						if errors.Is(err, errStore) {
							failed++
							continue
						}
						if err != nil || findings != nil {
							t.Fatal(findings, err)
						}
						return
					}
				}
				f.fail, f.after = fail, after
				var p installation.Plugin
				until(func() (findings outcome.Findings, err error) {
					p, findings, err = m.Install(t.Context(), installation.Order{Actor: manager, Workspace: "team", Key: "k", Package: plugin(t, "1.0.0"), Enabled: true})
					return findings, err
				})
				subject := func(generation int64) installation.Subject {
					return installation.Subject{Actor: manager, InstanceID: p.InstanceID, Generation: generation}
				}
				granted := []capability.Permission{capability.Storage}
				for generation, step := range []func(s installation.Subject) (installation.Plugin, outcome.Findings, error){
					func(s installation.Subject) (installation.Plugin, outcome.Findings, error) {
						return m.Grant(t.Context(), s, installation.Grant{Granted: &granted})
					},
					func(s installation.Subject) (installation.Plugin, outcome.Findings, error) {
						return m.Update(t.Context(), s, plugin(t, "1.1.0"), nil)
					},
					func(s installation.Subject) (installation.Plugin, outcome.Findings, error) {
						return m.Switch(t.Context(), s, false)
					},
					func(s installation.Subject) (installation.Plugin, outcome.Findings, error) {
						return m.Switch(t.Context(), s, true)
					},
				} {
					until(func() (outcome.Findings, error) {
						told, findings, err := step(subject(int64(generation) + 1))
						if err == nil && findings == nil && told.Generation != int64(generation)+2 {
							t.Errorf("step %d made generation %d", generation, told.Generation)
						}
						return findings, err
					})
				}
				for _, c := range []string{"conn_1", "conn_2"} {
					if _, err := f.Store.Change(t.Context(), host.Change{Workspace: "team", Connection: &host.Connection{ConnectionID: c, Workspace: "team", InstanceID: p.InstanceID, ConnectorID: "api", State: host.Live}}); err != nil {
						t.Fatal(err)
					}
				}
				if slots, err := f.DueSlots(t.Context(), now().Add(time.Hour), 10); err != nil || len(slots) != 1 {
					t.Error(slots, err)
				}
				i, err := f.Instance(t.Context(), p.InstanceID)
				if err != nil || i.Generation != 5 || i.PluginVersion != "1.1.0" || len(i.Granted) != 1 || string(i.Settings) != string(canon.Raw(`{}`)) {
					t.Fatalf("%+v %v", i, err)
				}
				until(func() (outcome.Findings, error) {
					_, findings, err := m.Remove(t.Context(), subject(5))
					return findings, err
				})
				read, err := f.Workspace(t.Context(), "team")
				if err != nil || len(read.Instances)+len(read.Connections) != 0 {
					t.Errorf("%+v %v", read, err)
				}
				if slots, err := f.DueSlots(t.Context(), now().Add(time.Hour), 10); err != nil || len(slots) != 0 {
					t.Error(slots, err)
				}
				if want := min(1, max(0, f.writes-fail+1)); failed != want {
					t.Errorf("%d writes failed of %d, want %d", failed, f.writes, want)
				}
			})
		}
	}
}
