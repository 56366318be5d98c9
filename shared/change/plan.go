package change

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/policy"
	"github.com/pxhost/pxhost/shared/target"
)

// DefaultPlanLife is how long a plan can be applied.
const DefaultPlanLife = 30 * time.Minute

// A Change moves one target from its base to a new revision.
type Change struct {
	Kind string `json:"kind"` // flow, report or function
	Key  string `json:"key"`
	// Base is nil when the target must not exist yet.
	Base *history.Revision `json:"base,omitzero"`
	// Entry is what the catalog will say: its RevisionRef is the digest of
	// Document.
	Entry history.Entry `json:"entry"`
	// Text is what search matches, normalized. KeepText says that it is what the
	// base has: then Text is empty, and no text is read or written.
	Text     string `json:"text"`
	KeepText bool   `json:"keepText,omitzero"`
	// Paths are the semantic paths touched in this document.
	Paths []string `json:"paths"`
	// Kinds are, of a document that moves with the plan's subject, the kinds of the
	// commands that would move it on its own. The Project's policy judges them.
	Kinds []string `json:"kinds,omitzero"`
	// Document is the canonical new document, an object of its own and not part
	// of the stored plan.
	Document []byte `json:"-"`
	// Objects are further objects that the document names by their digest, such as
	// the source that it was read from. A plan makes them durable with the document;
	// an apply does not read them again.
	Objects [][]byte `json:"-"`
}

// CatalogKey returns the key of the target in the catalog, "flow/girder_check".
func (c Change) CatalogKey() string { return history.Key(c.Kind, c.Key) }

// Next returns the revision that the change makes.
func (c Change) Next() history.Revision {
	return history.Revision{RevisionRef: c.Entry.RevisionRef, Generation: c.Entry.Generation}
}

// RevisionKey is the catalog key under which a saved revision is remembered, so
// that an old revision can be told from a document that was planned and never
// saved. It stands beside its target's key and holds the revision's generation.
func RevisionKey(kind, key string, revision history.Ref) string {
	return history.RevisionKey(history.Key(kind, key), revision)
}

// Base is what a plan was made from.
type Base struct {
	RevisionRef  string `json:"revisionRef,omitzero"` // absent for a first save
	SourceDigest string `json:"sourceDigest,omitzero"`
}

// A Draft is what a domain made of a request: everything that a plan says.
type Draft struct {
	Tool    string // the plan tool
	Project target.Project
	// Target is the request's target, canonical.
	Target             canon.Raw
	ExpectedGeneration int64
	Base               Base
	// Commands are the normalized commands, canonical and in order.
	Commands []canon.Raw
	// Unlabelled are the same commands without labels and localized text: what
	// the plan digest covers (P3).
	Unlabelled []canon.Raw
	// Subject, Kinds and Cost are what the Project's policy judges, with what Changes
	// write where, Policy as it was read when the request began.
	Policy  policy.Policy
	Subject policy.Subject
	Kinds   []string
	Cost    int64

	TouchedSemanticPaths []string
	Diff                 canon.Raw
	Impact               canon.Raw
	Changes              []Change

	// Root is the snapshot on which a set of usages was found that the plan moves;
	// "" for a plan that moves what its commands name and nothing else. What uses
	// the same things and is not among Changes must not appear until it is applied
	// (Applier.Appeared). It is outside the digest: equal commands on equal
	// revisions are one plan, whatever else the Project has.
	Root history.Ref

	// RebasedFrom is the earlier plan that this one goes on from, nil for none. It
	// is provenance: outside the digest, so that a rebased plan and a fresh one of
	// the same commands on the same base are equal.
	RebasedFrom *RebasedFrom
}

// A RebasedFrom names the plan from which another was made on a newer revision
// (P8). That plan stays what it was.
type RebasedFrom struct {
	PlanRef    string `json:"planRef"`
	PlanDigest string `json:"planDigest"`
	Base       Base   `json:"base"`
}

// A Body is the whole plan as it is stored, immutable. Reviewers read it, and
// apply takes everything it does from it, never from the request.
type Body struct {
	ToolContractVersion  string             `json:"toolContractVersion"`
	Tool                 string             `json:"tool"`
	Principal            string             `json:"principal"`
	Assistant            *history.Assistant `json:"assistant,omitzero"`
	RequestDigest        string             `json:"requestDigest"`
	CreatedAt            string             `json:"createdAt"`
	ExpiresAt            string             `json:"expiresAt"`
	Target               canon.Raw          `json:"target"`
	ExpectedGeneration   int64              `json:"expectedGeneration"`
	Base                 Base               `json:"base"`
	Commands             []canon.Raw        `json:"commands"`
	TouchedSemanticPaths []string           `json:"touchedSemanticPaths"`
	Diff                 canon.Raw          `json:"diff"`
	Impact               canon.Raw          `json:"impact"`
	Changes              []Change           `json:"changes"`
	Root                 history.Ref        `json:"root,omitzero"`
	Subject              policy.Subject     `json:"subject"`
	Kinds                []string           `json:"kinds"`
	Cost                 int64              `json:"cost"`
	// Approval is what policy asked when the plan was made: what its author was
	// told. Apply asks the policy of its own time.
	Approval    ApprovalNeed `json:"approval"`
	RebasedFrom *RebasedFrom `json:"rebasedFrom,omitzero"`
}

// digestInput is what planDigest covers, and nothing else (P3).
type digestInput struct {
	ToolContractVersion  string      `json:"toolContractVersion"`
	Target               canon.Raw   `json:"target"`
	ExpectedGeneration   int64       `json:"expectedGeneration"`
	Base                 Base        `json:"base"`
	Commands             []canon.Raw `json:"commands"`
	Atomic               bool        `json:"atomic"`
	TouchedSemanticPaths []string    `json:"touchedSemanticPaths"`
}

// Digest returns the plan digest of a draft: equal drafts have equal digests on
// every machine, whatever the order in which paths were found.
func (d Draft) Digest() (string, error) {
	return canon.DigestOf(digestInput{
		ToolContractVersion: outcome.ContractVersion, Target: d.Target, ExpectedGeneration: d.ExpectedGeneration, Base: d.Base,
		Commands: d.Unlabelled, Atomic: true, TouchedSemanticPaths: sortedPaths(d.TouchedSemanticPaths),
	})
}

func sortedPaths(paths []string) []string {
	out := slices.Clone(paths)
	slices.Sort(out)
	return append([]string{}, slices.Compact(out)...)
}

// Author is who asks, and on whose proposal.
type Author struct {
	Principal string // "iss|sub"
	Assistant *history.Assistant
	// RequestDigest is the digest of the request's arguments.
	RequestDigest string
}

// A Plan is the answer of planning: what there is to review (P2).
type Plan struct {
	PlanRef              string       `json:"planRef"`
	PlanDigest           string       `json:"planDigest"`
	ExpiresAt            string       `json:"expiresAt"`
	Target               canon.Raw    `json:"target"`
	ExpectedGeneration   int64        `json:"expectedGeneration"`
	Base                 Base         `json:"base"`
	Commands             []canon.Raw  `json:"commands"`
	Atomic               bool         `json:"atomic"`
	TouchedSemanticPaths []string     `json:"touchedSemanticPaths"`
	Diff                 canon.Raw    `json:"diff"`
	Impact               canon.Raw    `json:"impact"`
	Approval             ApprovalNeed `json:"approval"`
	RebasedFrom          *RebasedFrom `json:"rebasedFrom,omitzero" schema:"bare"`
}

// ApprovalNeed says whether the Project's policy asks for an approval, and why.
type ApprovalNeed struct {
	Required bool     `json:"required"`
	Reasons  []string `json:"reasons"`
}

// A Planner stores plans. It changes nothing else (P1).
type Planner struct {
	Objects history.Objects
	Store   Store
	Now     func() time.Time
	NewRef  func(prefix string) string // "plan_" gives "plan_" and a ULID
	Life    time.Duration              // 0 is DefaultPlanLife
}

// MaxTargets is how many targets one plan may move (decision 16).
const MaxTargets = 5000

// Plan stores a draft and returns the plan of it. The documents it would save
// are durable before the plan is.
func (p *Planner) Plan(ctx context.Context, author Author, d Draft) (Plan, outcome.Findings, error) {
	if n := len(d.Changes); n > MaxTargets {
		return Plan{}, outcome.Findings{outcome.New(outcome.LimitExceeded, "/commands", outcome.Params{"limit": MaxTargets, "observed": n, "of": "targets"})}, nil
	}
	digest, err := d.Digest()
	if err != nil {
		return Plan{}, nil, err
	}
	need := d.Policy.JudgeAll(d.Cost, deeds(d.Subject, d.Kinds, d.Changes)...)
	life := p.Life
	if life == 0 {
		life = DefaultPlanLife
	}
	// Whole seconds: what the caller is told is exactly what is stored.
	now := p.Now().UTC().Truncate(time.Second)
	expires := now.Add(life)
	body := Body{
		ToolContractVersion: outcome.ContractVersion, Tool: d.Tool, Principal: author.Principal, Assistant: author.Assistant,
		RequestDigest: author.RequestDigest, CreatedAt: now.Format(time.RFC3339), ExpiresAt: expires.Format(time.RFC3339),
		Target: d.Target, ExpectedGeneration: d.ExpectedGeneration, Base: d.Base, Commands: d.Commands,
		TouchedSemanticPaths: sortedPaths(d.TouchedSemanticPaths), Diff: d.Diff, Impact: d.Impact, Changes: d.Changes, Root: d.Root,
		Subject: d.Subject, Kinds: d.Kinds, Cost: d.Cost, Approval: ApprovalNeed{Required: need.Required, Reasons: append([]string{}, need.Reasons...)}, RebasedFrom: d.RebasedFrom,
	}
	text, err := canon.Encode(body)
	if err != nil {
		return Plan{}, nil, err
	}
	space := history.Space(d.Project.String())
	bodies := [][]byte{text}
	for _, c := range d.Changes {
		if history.RefOf(c.Document) != c.Entry.RevisionRef {
			return Plan{}, nil, fmt.Errorf("change: the document of %s is not its revision", c.CatalogKey())
		}
		bodies = append(append(bodies, c.Document), c.Objects...)
	}
	if err := p.Objects.Put(ctx, space, bodies...); err != nil {
		return Plan{}, nil, err
	}
	row := PlanRow{
		PlanRef: p.NewRef("plan_"), Space: space, Tool: d.Tool, Principal: author.Principal, Digest: digest,
		Body: history.Ref(canon.Digest(text)), CreatedAt: now, ExpiresAt: expires, State: PlanOpen,
		Asks: need.Required, About: About(d.Target), Targets: len(d.Changes),
	}
	if err := p.Store.CreatePlan(ctx, row); err != nil {
		return Plan{}, nil, err
	}
	return planOf(row, body), nil, nil
}

// Judge returns what a policy asks of the plan.
func (b Body) Judge(rules policy.Policy) policy.Need {
	return rules.JudgeAll(b.Cost, deeds(b.Subject, b.Kinds, b.Changes)...)
}

// deeds are what a plan does: its commands to its subject, first, and what they move of
// other kinds.
func deeds(subject policy.Subject, kinds []string, changes []Change) []policy.Deed {
	out := []policy.Deed{{On: subject, Kinds: kinds}}
	paths := []map[string]bool{{}}
	for _, c := range changes {
		i := slices.IndexFunc(out, func(d policy.Deed) bool { return string(d.On) == c.Kind })
		if i < 0 {
			i = len(out)
			out, paths = append(out, policy.Deed{On: policy.Subject(c.Kind)}), append(paths, map[string]bool{})
		}
		for _, path := range c.Paths {
			if !paths[i][path] { // thousands of documents are written at the same
				paths[i][path] = true
				out[i].Paths = append(out[i].Paths, path)
			}
		}
		for _, kind := range c.Kinds {
			if i > 0 && !slices.Contains(out[i].Kinds, kind) {
				out[i].Kinds = append(out[i].Kinds, kind)
			}
		}
	}
	return out
}

func planOf(row PlanRow, body Body) Plan {
	return Plan{
		PlanRef: row.PlanRef, PlanDigest: row.Digest, ExpiresAt: body.ExpiresAt, Target: body.Target, ExpectedGeneration: body.ExpectedGeneration,
		Base: body.Base, Commands: body.Commands, Atomic: true, TouchedSemanticPaths: body.TouchedSemanticPaths, Diff: body.Diff, Impact: body.Impact,
		Approval: body.Approval, RebasedFrom: body.RebasedFrom,
	}
}

// Recall returns a stored plan as Plan answered it, whatever became of it.
func (p *Planner) Recall(ctx context.Context, space history.Space, planRef string) (Plan, error) {
	row, err := p.Store.Plan(ctx, space, planRef)
	if err != nil {
		return Plan{}, err
	}
	body, err := ReadBody(ctx, p.Objects, row)
	if err != nil {
		return Plan{}, err
	}
	return planOf(row, body), nil
}

// Earlier returns a stored plan of a principal and a tool, for a request that goes
// on from it, whatever became of it: expired, applied and rejected plans say what
// was to be changed as well as open ones do. Of anybody else, or of another tool,
// there is none.
func (p *Planner) Earlier(ctx context.Context, space history.Space, principal, tool, planRef string) (body Body, from RebasedFrom, found bool, err error) {
	row, err := p.Store.Plan(ctx, space, planRef)
	if errors.Is(err, history.ErrNotFound) || err == nil && (row.Principal != principal || row.Tool != tool) {
		return body, from, false, nil
	}
	if err == nil {
		body, err = ReadBody(ctx, p.Objects, row)
	}
	return body, RebasedFrom{row.PlanRef, row.Digest, body.Base}, err == nil, err
}

// ReadBody returns what a stored plan says.
func ReadBody(ctx context.Context, objects history.Objects, row PlanRow) (Body, error) {
	var body Body
	bodies, err := objects.Get(ctx, row.Space, row.Body)
	if err == nil {
		err = json.Unmarshal(bodies[0], &body)
	}
	if err != nil {
		return Body{}, fmt.Errorf("change: the body of a plan: %w", err)
	}
	return body, nil
}
