// Package projects wires what a Lambda needs to read and change Projects: the
// store over its tables and bucket, and the domain services on it.
package projects

import (
	"crypto/rand"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/pxhost/pxhost/shared/boot"
	"github.com/pxhost/pxhost/shared/boot/awsdynamodb"
	"github.com/pxhost/pxhost/shared/boot/awss3"
	"github.com/pxhost/pxhost/shared/capability/host"
	"github.com/pxhost/pxhost/shared/change"
	"github.com/pxhost/pxhost/shared/console/session"
	"github.com/pxhost/pxhost/shared/cursor"
	"github.com/pxhost/pxhost/shared/dependency"
	"github.com/pxhost/pxhost/shared/draft"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/project"
	"github.com/pxhost/pxhost/shared/resource"
	"github.com/pxhost/pxhost/shared/review"
	"github.com/pxhost/pxhost/shared/run"
	"github.com/pxhost/pxhost/shared/run/connected"
	"github.com/pxhost/pxhost/shared/snapshot"
	"github.com/pxhost/pxhost/shared/store/blob"
	"github.com/pxhost/pxhost/shared/store/dynamo"
	"github.com/pxhost/pxhost/shared/tool"
)

// cacheBytes is how much of the catalogs a process keeps in memory, of the 512 MB
// that a function has.
const cacheBytes = 96 << 20

// cursorLife is how long a search or a cut answer can be continued.
const cursorLife = 24 * time.Hour

// MaxPlanLife is the longest life that an operator may give a plan, a Run that waits
// for an approval, and an approval. It is less than the 90 days that their rows are
// kept, in which they are told as expired.
const MaxPlanLife = 30 * 24 * time.Hour

// Parts are the services of one process.
type Parts struct {
	Store        *dynamo.Store
	Catalog      history.Catalog
	cache        *history.Cache
	planLife     time.Duration // 0: change.DefaultPlanLife
	approvalLife time.Duration // 0: review.DefaultApprovalLife
}

// New returns the services over the tables and the bucket that the environment
// names.
func New(env *boot.Env) Parts {
	store := dynamo.New(dynamo.Config{
		Client: awsdynamodb.New(env),
		Tables: dynamo.Tables{
			Heads: env.Need("PX_TABLE_HEADS"), Objects: env.Need("PX_TABLE_OBJECTS"), Changes: env.Need("PX_TABLE_CHANGES"),
			Runs: env.Need("PX_TABLE_RUNS"), Host: env.Need("PX_TABLE_HOST"),
		},
		Blobs: blob.Store{Client: awss3.New(env)},
		Now:   time.Now,
	})
	cache := history.NewCache(cacheBytes)
	return Parts{
		Store: store, Catalog: history.NewCatalog(store, cache), cache: cache,
		planLife: env.Duration("PX_PLAN_LIFE", time.Second, MaxPlanLife), approvalLife: env.Duration("PX_APPROVAL_LIFE", time.Second, MaxPlanLife),
	}
}

// Frame is what stands around every tool.
func (p Parts) Frame() tool.Frame {
	return tool.Frame{Cursors: cursor.New(p.Store, cursorLife, time.Now), Log: boot.Logger()}
}

// Reader opens snapshots.
func (p Parts) Reader() snapshot.Reader {
	return snapshot.Reader{Objects: p.Store, Store: p.Store, Catalog: p.Catalog}
}

// Plugins keeps the rows of the capability host.
func (p Parts) Plugins() host.Store { return p.Store }

// Results tells what the slots of Reports show.
func (p Parts) Results() connected.Results {
	return connected.Results{Store: p.Store, Objects: p.Store}
}

// Planner stores plans.
func (p Parts) Planner() *change.Planner {
	return &change.Planner{Objects: p.Store, Store: p.Store, Now: time.Now, NewRef: NewRef, Life: p.planLife}
}

// Applier applies plans, after recheck has looked at what they would save.
func (p Parts) Applier(recheck change.Recheck) *change.Applier {
	return &change.Applier{Objects: p.Store, Store: p.Store, Policy: p.Store, Catalog: p.Catalog, Recheck: recheck, Under: []string{dependency.LockKey}, Now: time.Now}
}

// linkLife is how long a link to a large value can be followed, as often as one likes.
const linkLife = 24 * time.Hour

// Links makes the links to large values.
func (p Parts) Links() resource.Links {
	return resource.Links{Sealer: cursor.New(p.Store, linkLife, time.Now), Life: linkLife, Now: time.Now}
}

// Handles opens the handles of drafts.
func (p Parts) Handles() draft.Handles {
	return draft.Handles{Sealer: cursor.New(p.Store, draft.Life, time.Now), Life: draft.Life, Now: time.Now}
}

// Drafts makes drafts.
func (p Parts) Drafts() draft.Drafts {
	return draft.Drafts{Handles: p.Handles(), Objects: p.Store, Policy: p.Store}
}

// Reviews are what people decide about plans and about Runs that wait.
func (p Parts) Reviews() *review.Reviews {
	return &review.Reviews{Objects: p.Store, Plans: p.Store, Policy: p.Store, Approvals: p.Store, Now: time.Now, Life: p.approvalLife}
}

// ReadRuns are the Runs that are read and nothing else: it knows no state machine.
func (p Parts) ReadRuns() *run.Runs {
	r := &run.Runs{Objects: p.Store, Catalog: p.Catalog, Policy: p.Store, Store: p.Store, Now: time.Now}
	r.Batch = &run.Batches{Runs: r, Store: p.Store}
	return r
}

// RunList lists the Runs of Projects.
func (p Parts) RunList() run.List { return run.List{Policy: p.Store, Store: p.Store} }

// Queue lists what waits for people to decide.
func (p Parts) Queue() *review.Queue {
	return &review.Queue{Rows: p.Store, Policy: p.Store, Now: time.Now}
}

// Sessions are where people are signed in to the console.
func (p Parts) Sessions() session.Store { return p.Store }

// Projects creates Projects and lists them.
func (p Parts) Projects() *project.Projects { return project.New(p.Store, p.cache, time.Now) }

// NewRef returns a prefix and a new ULID. References of one millisecond do not
// follow from each other: the rest is random.
func NewRef(prefix string) string {
	return prefix + ulid.MustNew(ulid.Now(), rand.Reader).String()
}
