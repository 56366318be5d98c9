package project

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/policy"
	"github.com/pxhost/pxhost/shared/search"
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

const directoryPrefix = "project/"

func directoryKey(p target.Project) string { return directoryPrefix + p.String() }

// searchText is what a search finds a Project by.
func searchText(r Record) string {
	parts := []string{r.Project.WorkspaceKey, r.Project.ProjectKey, r.Description}
	for _, tag := range slices.Sorted(maps.Keys(r.Label)) {
		parts = append(parts, r.Label[tag])
	}
	return search.Normalize(parts...)
}

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
		text := searchText(record)
		change.Entry, change.Text = &history.Entry{Label: record.Label, Description: record.Description}, &text
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

// Texts returns the search texts of what the principal could read at a snapshot of
// the directory, in order of workspace and project key: of one workspace, or of all
// with "". Keys are "workspace/project", from the first that is not less than from.
// What certainly has not all terms is left out, as history.Catalog.Texts says.
func (p *Projects) Texts(ctx context.Context, principal string, root history.Ref, workspaceKey, from string, terms ...string) iter.Seq2[history.Text, error] {
	prefix := directoryPrefix
	if workspaceKey != "" {
		prefix += workspaceKey + "/"
	}
	return func(yield func(history.Text, error) bool) {
		for t, err := range p.catalog.Texts(ctx, Directory(principal), root, directoryPrefix+from, prefix, terms...) {
			t.Key = strings.TrimPrefix(t.Key, directoryPrefix)
			if !yield(t, err) || err != nil {
				return
			}
		}
	}
}

// Listed returns what a snapshot of the directory says of Projects, which are
// listed there, with one read a level.
func (p *Projects) Listed(ctx context.Context, principal string, root history.Ref, projects ...target.Project) ([]Listed, error) {
	keys := make([]string, len(projects))
	for i, project := range projects {
		keys[i] = directoryKey(project)
	}
	entries, err := p.catalog.Entries(ctx, Directory(principal), root, keys...)
	if err != nil {
		return nil, err
	}
	out := make([]Listed, len(projects))
	for i, e := range entries {
		if e == nil {
			return nil, fmt.Errorf("%w: a directory has the text of a Project that it does not list", history.ErrCorrupt)
		}
		out[i] = Listed{projects[i], e.Label, e.Description}
	}
	return out, nil
}
