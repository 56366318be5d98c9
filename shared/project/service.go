package project

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/policy"
	"github.com/pxhost/pxhost/shared/target"
)

var _ policy.Admin = (*Projects)(nil)

// Projects creates and lists Projects, and implements policy.Admin.
type Projects struct {
	store   Store
	catalog history.Catalog
	now     func() time.Time
}

// New returns the Projects of a store. cache may be nil.
func New(store Store, cache *history.Cache, now func() time.Time) *Projects {
	return &Projects{store, history.NewCatalog(store, cache), now}
}

// Create creates a Project that nobody may do anything in yet.
func (p *Projects) Create(ctx context.Context, project target.Project, label target.Label, description string) error {
	if !target.ValidKey(project.WorkspaceKey) || !target.ValidKey(project.ProjectKey) {
		return errors.New("project: workspace and project key must be keys")
	}
	return p.store.CreateProject(ctx, Record{Project: project, Label: label, Description: description, CreatedAt: p.now()})
}

// Directory is the Space of a principal ("iss|sub"). No Project's Space can be
// equal to it: a key has no "|".
func Directory(principal string) history.Space { return history.Space("principal/" + principal) }

func directoryKey(p target.Project) string { return "project/" + p.String() }

// operator is the actor of grants: whoever holds the operator's credentials.
const operator = "px|operator"

// maxPrincipal keeps the rows of a principal below a store's limit on keys (1,024
// bytes), with what stands before it.
const maxPrincipal = 900

// moves is how often a write is decided anew when what it was decided on moved.
const moves = 16

// SetGrant implements policy.Admin. Unknown and doubled rights are an error.
func (p *Projects) SetGrant(ctx context.Context, project target.Project, principal string, rights []policy.Right) error {
	if issuer, subject, ok := strings.Cut(principal, "|"); !ok || issuer == "" || subject == "" || len(principal) > maxPrincipal {
		return fmt.Errorf("project: a principal is issuer|subject, of at most %d bytes", maxPrincipal)
	}
	rights = slices.Sorted(slices.Values(rights))
	for i, r := range rights {
		if !slices.Contains([]policy.Right{policy.Read, policy.Edit, policy.Run, policy.Approve}, r) || (i > 0 && rights[i-1] == r) {
			return errors.New("project: an unknown or doubled right")
		}
	}
	record, err := p.store.Project(ctx, project)
	if err != nil {
		return err
	}
	directory := Directory(principal)
	for attempt := range moves {
		grant, err := p.store.Grant(ctx, project, principal)
		if err != nil {
			return err
		}
		// After the first attempt: an earlier one may have been performed, or
		// somebody else has granted the same.
		if attempt > 0 && grant.Version > 0 && slices.Equal(grant.Rights, rights) {
			return nil
		}
		head, err := p.store.Head(ctx, directory)
		if err != nil {
			return err
		}
		next, err := p.list(ctx, directory, head, record, slices.Contains(rights, policy.Read))
		if err != nil {
			return err
		}
		err = p.store.WriteGrant(ctx, GrantWrite{Project: project, Principal: principal, Read: grant.Version, Rights: rights, Directory: directory, From: head, To: next})
		if err == nil || ctx.Err() != nil || !(errors.Is(err, ErrMoved) || errors.Is(err, history.ErrOutcomeUnknown)) {
			return err
		}
		wait(ctx, attempt)
	}
	return errors.New("project: the grant keeps moving; try again")
}

// list stages the directory in which the Project is listed or not, and returns
// the head that it would have.
func (p *Projects) list(ctx context.Context, directory history.Space, head history.Head, record Record, readable bool) (history.Head, error) {
	change := history.Change{Key: directoryKey(record.Project)}
	revised := history.RevisedEntry{Key: change.Key}
	old, err := p.catalog.Entry(ctx, directory, head.Root, change.Key)
	if err != nil {
		return history.Head{}, err
	}
	if old != nil {
		revised.Base = &history.Revision{Generation: old.Generation}
	}
	if readable {
		change.Entry = &history.Entry{Label: record.Label, Description: record.Description}
		revised.Result = &history.Revision{}
	}
	root, bodies, err := p.catalog.Stage(ctx, directory, head.Root, []history.Change{change})
	if err != nil {
		return history.Head{}, err
	}
	version := head.Version + 1
	commit, body, err := history.EncodeCommit(history.Commit{
		Parent: head.Commit, Root: root, Version: version, Principal: operator, Tool: "px project grant", ToolContractVersion: "px-project/1",
		CommittedAt: p.now(), Changes: []history.RevisedEntry{revised},
	})
	if err != nil {
		return history.Head{}, err
	}
	if err := p.store.Put(ctx, directory, append(bodies, body)...); err != nil {
		return history.Head{}, fmt.Errorf("project: store directory: %w", err)
	}
	return history.Head{Commit: commit, Root: root, Version: version}, nil
}

// SetPolicy implements policy.Admin.
func (p *Projects) SetPolicy(ctx context.Context, project target.Project, rules []policy.Rule) error {
	for attempt := range moves {
		old, err := p.store.Policy(ctx, project)
		if err != nil {
			return err
		}
		err = p.store.WritePolicy(ctx, project, old.Version, rules)
		if err == nil || !errors.Is(err, ErrMoved) {
			return err
		}
		wait(ctx, attempt)
	}
	return errors.New("project: the policy keeps moving; try again")
}

func wait(ctx context.Context, attempt int) {
	timer := time.NewTimer(rand.N(time.Duration(attempt+1) * 10 * time.Millisecond))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// A Listed is a Project that a principal may read.
type Listed struct {
	Project     target.Project
	Label       target.Label
	Description string
}

// Snapshot returns the root of the principal's directory as it is now: the
// snapshot that a cursor pins. It is "" for who may read nothing.
func (p *Projects) Snapshot(ctx context.Context, principal string) (history.Ref, error) {
	head, err := p.store.Head(ctx, Directory(principal))
	return head.Root, err
}

// List returns what the principal could read at a snapshot of the directory, in
// order of workspace and project key: of one workspace, or of all with "". It
// begins with the first Project whose "workspace/project" is not less than from,
// and reads no more than is taken from it.
func (p *Projects) List(ctx context.Context, principal string, root history.Ref, workspaceKey, from string) iter.Seq2[Listed, error] {
	prefix := "project/"
	from = prefix + from
	if workspaceKey != "" {
		prefix += workspaceKey + "/"
	}
	return func(yield func(Listed, error) bool) {
		for l, err := range p.catalog.List(ctx, Directory(principal), root, from, prefix) {
			if err != nil {
				yield(Listed{}, err)
				return
			}
			workspace, key, _ := strings.Cut(strings.TrimPrefix(l.Key, "project/"), "/")
			if !yield(Listed{target.Project{WorkspaceKey: workspace, ProjectKey: key}, l.Entry.Label, l.Entry.Description}, nil) {
				return
			}
		}
	}
}
