package sample

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/pxhost/pxhost/shared/capability"
	"github.com/pxhost/pxhost/shared/capability/host"
	"github.com/pxhost/pxhost/shared/change"
	"github.com/pxhost/pxhost/shared/cursor"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/policy"
	"github.com/pxhost/pxhost/shared/project"
	"github.com/pxhost/pxhost/shared/report"
	"github.com/pxhost/pxhost/shared/snapshot"
	"github.com/pxhost/pxhost/shared/store/memory"
	"github.com/pxhost/pxhost/shared/tool"
)

// memoryParts is an installation in memory whose commits can be made to fail.
type memoryParts struct {
	*memory.Store
	plans   int
	commits int
	failAt  int  // the commit that fails, from 1; 0: none
	written bool // it fails after it was written
	log     bytes.Buffer
}

var errLost = errors.New("the process died")

func (p *memoryParts) Commit(ctx context.Context, c change.Commitment) error {
	p.commits++
	if p.commits != p.failAt {
		return p.Store.Commit(ctx, c)
	}
	if p.written {
		if err := p.Store.Commit(ctx, c); err != nil {
			return err
		}
	}
	return errLost
}

func (p *memoryParts) catalog() history.Catalog { return history.NewCatalog(p.Store, nil) }

func (p *memoryParts) Frame() tool.Frame {
	return tool.Frame{Cursors: cursor.New(cursor.NewStatic(), time.Hour, time.Now), Log: slog.New(slog.NewTextHandler(&p.log, nil))}
}

func (p *memoryParts) Reader() snapshot.Reader {
	return snapshot.Reader{Objects: p.Store, Store: p.Store, Catalog: p.catalog()}
}

func (p *memoryParts) Planner() *change.Planner {
	return &change.Planner{Objects: p.Store, Store: p.Store, Now: time.Now, NewRef: func(prefix string) string {
		p.plans++
		return fmt.Sprintf("%s%026d", prefix, p.plans)
	}}
}

func (p *memoryParts) Applier(recheck change.Recheck) *change.Applier {
	return &change.Applier{Objects: p.Store, Store: p, Policy: p.Store, Catalog: p.catalog(), Recheck: recheck, Now: time.Now}
}

func (p *memoryParts) Projects() *project.Projects { return project.New(p.Store, nil, time.Now) }

func (p *memoryParts) Plugins() host.Store { return p.Store }

const issuer = "https://issuer.test"

// state tells what there is of the sample, by generations.
func (p *memoryParts) state(t *testing.T) string {
	t.Helper()
	ctx, space := t.Context(), history.Space(Project.String())
	head, err := p.Head(ctx, space)
	if err != nil {
		t.Fatal(err)
	}
	entries, err := p.catalog().Entries(ctx, space, head.Root, "flow/girder_check", "report/girder_review", "function/resistance", "flow/hs20_in_python")
	if err != nil {
		t.Fatal(err)
	}
	out := ""
	if entries[0] != nil {
		out = fmt.Sprintf("flow %d", entries[0].Generation)
	}
	if r := entries[1]; r != nil {
		bodies, err := p.Get(ctx, space, r.RevisionRef)
		if err != nil {
			t.Fatal(err)
		}
		doc, findings := report.Decode(bodies[0])
		if findings.Refused() {
			t.Fatal(findings)
		}
		out += fmt.Sprintf(", report %d with %d mappings", r.Generation, len(doc.Connections["girder_check"].Inputs)+len(doc.Connections["girder_check"].Results))
	}
	for i, name := range []string{"function", "flow in Python"} {
		if e := entries[2+i]; e != nil {
			out += fmt.Sprintf(", %s %d", name, e.Generation)
		}
	}
	return out
}

const (
	inPython = ", function 0, flow in Python 0"
	native   = "flow 0, report 1 with 9 mappings"
	whole    = native + inPython
)

// What is logged stands among what px local prints of its start.
func TestSeedingLogsFailuresAlone(t *testing.T) {
	p := &memoryParts{Store: memory.New(time.Now)}
	if seeded, err := Seed(t.Context(), p, issuer); !seeded || err != nil || p.log.Len() > 0 {
		t.Errorf("seeded %v, %v, and logged\n%s", seeded, err, p.log.String())
	}
	p = &memoryParts{Store: memory.New(time.Now), failAt: 1}
	if _, err := Seed(t.Context(), p, issuer); !errors.Is(err, errLost) || !strings.Contains(p.log.String(), errLost.Error()) {
		t.Errorf("it failed with %v, and logged\n%s", err, p.log.String())
	}
}

// covers: H4
func TestSeedingCompletesWhatACrashLeft(t *testing.T) {
	for failAt := range 6 { // five commits, and none that fails
		for _, written := range []bool{false, true} {
			p := &memoryParts{Store: memory.New(time.Now), failAt: failAt, written: written}
			seeded, err := Seed(t.Context(), p, issuer)
			if failAt == 0 {
				if !seeded || err != nil {
					t.Fatalf("the first time: %v %v", seeded, err)
				}
			} else if !errors.Is(err, errLost) {
				t.Fatalf("commit %d fails: %v", failAt, err)
			}
			if _, err := Seed(t.Context(), p, issuer); err != nil {
				t.Fatalf("after commit %d, written %v: %v", failAt, written, err)
			}
			if got := p.state(t); got != whole {
				t.Errorf("after commit %d, written %v, there is %s", failAt, written, got)
			}
			commits := p.commits
			if seeded, err := Seed(t.Context(), p, issuer); seeded || err != nil || p.commits != commits {
				t.Errorf("once it is whole: %v %v, %d commits", seeded, err, p.commits-commits)
			}
		}
	}
}

// A Project of an earlier program has the Flow alone. It gets the Report only where
// its users' own decisions leave room.
func TestSeedingChangesNothingThatIsThere(t *testing.T) {
	for name, c := range map[string]struct {
		before func(*testing.T, *memoryParts)
		want   string
	}{
		"the Flow alone": {func(*testing.T, *memoryParts) {}, whole},
		"the engineer may no longer edit": {func(t *testing.T, p *memoryParts) {
			if err := p.Projects().SetGrant(t.Context(), Project, issuer+"|engineer", []policy.Right{policy.Read}); err != nil {
				t.Fatal(err)
			}
		}, "flow 0" + inPython},
		"the engineer may no longer read": {func(t *testing.T, p *memoryParts) {
			if err := p.Projects().SetGrant(t.Context(), Project, issuer+"|engineer", nil); err != nil {
				t.Fatal(err)
			}
		}, "flow 0" + inPython},
		"Reports need an approval": {func(t *testing.T, p *memoryParts) {
			if err := p.Projects().SetPolicy(t.Context(), Project, []policy.Rule{{On: policy.OnReport, Approval: "required"}}); err != nil {
				t.Fatal(err)
			}
		}, "flow 0" + inPython},
	} {
		p := &memoryParts{Store: memory.New(time.Now), failAt: 4}
		if _, err := Seed(t.Context(), p, issuer); !errors.Is(err, errLost) {
			t.Fatal(err)
		}
		c.before(t, p)
		if seeded, err := Seed(t.Context(), p, issuer); err != nil || seeded != (c.want == whole) {
			t.Errorf("%s: %v %v", name, seeded, err)
		}
		if got := p.state(t); got != c.want {
			t.Errorf("%s: there is %s", name, got)
		}
	}
}

// Who made the Project before, with rules that ask for an approval of Functions, gets
// the sample without.
func TestSeedingAProjectWhoseRulesAskForAnApproval(t *testing.T) {
	p := &memoryParts{Store: memory.New(time.Now)}
	if err := p.Projects().Create(t.Context(), Project, nil, ""); err != nil {
		t.Fatal(err)
	}
	if err := p.Projects().SetPolicy(t.Context(), Project, Rules); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := Seed(t.Context(), p, issuer); err != nil {
			t.Fatal(err)
		}
		if got := p.state(t); got != native {
			t.Errorf("there is %s", got)
		}
	}
}

// The sample subjects may use the plugins of the workspace, and one may manage them. Who
// took that away is not overruled.
//
// covers: H4
func TestASeededWorkspaceHasItsMembers(t *testing.T) {
	p := &memoryParts{Store: memory.New(time.Now)}
	rights := func() string {
		var out []string
		for _, subject := range []string{"engineer", "reviewer", "viewer"} {
			m, err := p.Member(t.Context(), Project.WorkspaceKey, issuer+"|"+subject)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, fmt.Sprint(m.Rights))
		}
		return strings.Join(out, " ")
	}
	if _, err := Seed(t.Context(), p, issuer); err != nil {
		t.Fatal(err)
	}
	if got := rights(); got != "[use] [use manage] []" {
		t.Errorf("they may %s", got)
	}
	if _, err := p.Change(t.Context(), host.Change{Workspace: Project.WorkspaceKey, Member: &host.Membership{Actor: issuer + "|reviewer", Member: capability.Member{Version: 1}}}); err != nil {
		t.Fatal(err)
	}
	if seeded, err := Seed(t.Context(), p, issuer); seeded || err != nil {
		t.Error(seeded, err)
	}
	if got := rights(); got != "[use] [] []" {
		t.Errorf("afterwards they may %s", got)
	}
}

// The rules stand once the sample does, whatever was saved without them.
func TestASeededProjectHasItsRules(t *testing.T) {
	p := &memoryParts{Store: memory.New(time.Now)}
	if _, err := Seed(t.Context(), p, issuer); err != nil {
		t.Fatal(err)
	}
	now, err := p.Policy(t.Context(), Project)
	if err != nil || !reflect.DeepEqual(now.Rules, Rules) {
		t.Errorf("%+v %v", now, err)
	}
}
