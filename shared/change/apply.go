package change

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/policy"
	"github.com/pxhost/pxhost/shared/target"
	"github.com/pxhost/pxhost/shared/wait"
)

// An Application is a request to apply a plan (P4).
type Application struct {
	Author
	Tool               string // the plan tool whose plans this may apply
	Project            target.Project
	Target             canon.Raw // the request's target, canonical
	Address            string    // the target without its revision: "flow/girder_check"
	RevisionRef        string    // of the target
	ExpectedGeneration int64
	PlanRef            string
	PlanDigest         string
	CommandID          string
	ApprovalRef        string // "" when left out
}

// An Applied is the answer of the first successful apply of a plan. It is stored
// as it is and returned word for word to every retry (P6).
type Applied struct {
	NewRevisionRef      string     `json:"newRevisionRef"`
	NewGeneration       int64      `json:"newGeneration"`
	Changed             []Saved    `json:"changed"`
	AuthoringProvenance Provenance `json:"authoringProvenance" schema:"bare" desc:"Who, with which assistant, plan, approval and commit."`
}

// DecodeApplied reads an answer of Apply.
func DecodeApplied(answer canon.Raw) (a Applied, err error) {
	if err = json.Unmarshal(answer, &a); err != nil {
		return Applied{}, fmt.Errorf("change: the stored answer: %w", err)
	}
	return a, nil
}

// A Saved is one target that a plan moved.
type Saved struct {
	Target         canon.Raw `json:"target"`
	NewRevisionRef string    `json:"newRevisionRef"`
	NewGeneration  int64     `json:"newGeneration"`
}

// A Provenance says who changed what on whose proposal (P10). It holds digests
// and references only.
type Provenance struct {
	Principal           string             `json:"principal"` // who used the right; never the assistant
	Assistant           *history.Assistant `json:"assistant,omitzero"`
	ToolContractVersion string             `json:"toolContractVersion"`
	RequestDigest       string             `json:"requestDigest"`
	PlanRef             string             `json:"planRef"`
	PlanDigest          string             `json:"planDigest"`
	CommandID           string             `json:"commandId"`
	ApprovedBy          string             `json:"approvedBy"`
	ApprovedAt          string             `json:"approvedAt"` // RFC 3339, UTC
	ApprovalRef         string             `json:"approvalRef,omitzero"`
	// Base is null for a first save.
	Base         *history.Revision `json:"base"`
	Result       history.Revision  `json:"result"`
	ChangeDigest string            `json:"changeDigest"`
	// CommitRef is the record itself, in the Project's history.
	CommitRef history.Ref `json:"commitRef"`
}

// A Recheck validates, again and with the code that runs now, what a plan would
// save: types, units, references, components (P5).
type Recheck func(ctx context.Context, project target.Project, root history.Ref, changes []Change) (outcome.Findings, error)

// An Appeared finds, in what changed between the snapshot that a plan was made on
// and a later one, what the plan would have moved too: a usage that came meanwhile.
// Each is a finding. What the plan itself moves is compared before.
type Appeared func(ctx context.Context, project target.Project, planned, now history.Ref, changes []Change) (outcome.Findings, error)

// An Applier applies plans, each once.
type Applier struct {
	Objects history.Objects
	Store   Store
	Policy  policy.Store // for approvals
	Catalog history.Catalog
	Recheck Recheck
	// Appeared is of tools whose plans move all usages of something (Draft.Root).
	Appeared Appeared
	// Under are the catalog keys of what a Recheck asks beside revisions that are
	// never lost, such as which packages are installed: where one of them moves while
	// an apply is under way, what was checked is checked again.
	Under []string
	Now   func() time.Time
	// Pause waits before another attempt; nil waits with jitter.
	Pause func(ctx context.Context, attempt int) error
}

// ErrBusy is returned when the head kept moving under an apply whose own targets
// did not move. Nothing was written; the same request can be sent again.
var ErrBusy = errors.New("change: the project is busy; send the same request again")

const attempts = 12

// CommandKey is the key of a command's row: another principal, verb, target or
// commandId is another command (P6). address is the target without its revision.
func CommandKey(verb, principal string, project target.Project, address, commandID string) string {
	digest, err := canon.DigestOf([]string{verb, principal, project.String(), address, commandID})
	if err != nil {
		panic(err) // strings always encode
	}
	return digest
}

// Apply applies a plan, or answers as the first apply of the same command did.
// The returned bytes are the canonical data of the answer. Findings refuse;
// an error says nothing about the request.
//
// Crash order: everything the commit names is durable before the one transaction
// that makes it true; the answer is among it, so that a retry after a lost reply
// finds the very bytes that were lost.
func (a *Applier) Apply(ctx context.Context, q Application) (canon.Raw, outcome.Findings, error) {
	space := history.Space(q.Project.String())
	key := CommandKey("apply", q.Principal, q.Project, q.Address, q.CommandID)
	var read reading
	for attempt := 0; attempt < attempts; attempt++ {
		if attempt > 0 {
			if err := a.pause(ctx, attempt); err != nil {
				return nil, nil, err
			}
		}
		opening, err := a.Store.Begin(ctx, q.Project, q.Principal, key, q.PlanRef)
		if err != nil {
			return nil, nil, err
		}
		// The command comes before everything else: whatever has happened to the
		// plan, the head or the right meanwhile, what was done stays done (P6).
		if opening.Command != nil {
			return a.again(ctx, space, *opening.Command, q)
		}
		answer, findings, err := a.once(ctx, space, key, q, opening, &read)
		if findings != nil {
			// What refuses may be what this very command has done since its row was
			// looked for: of two that are sent at once, one moves the generation
			// under the other.
			switch row, err := a.Store.Command(ctx, space, key); {
			case err == nil:
				return a.again(ctx, space, row, q)
			case !errors.Is(err, history.ErrNotFound):
				return nil, nil, err
			}
		}
		var conflict *ConflictError
		if !errors.As(err, &conflict) {
			return answer, findings, err
		}
		// Something moved between reading and writing. Reading it all again tells
		// what: a finding if it concerns this plan, another attempt if not.
	}
	return nil, nil, ErrBusy
}

// again answers a command as it was answered first.
func (a *Applier) again(ctx context.Context, space history.Space, row CommandRow, q Application) (canon.Raw, outcome.Findings, error) {
	if row.PlanRef != q.PlanRef || row.PlanDigest != q.PlanDigest {
		return nil, refuse(outcome.CommandReused, "/commandId", nil), nil
	}
	bodies, err := a.Objects.Get(ctx, space, row.Answer)
	if err != nil {
		return nil, nil, fmt.Errorf("change: the answer of a command: %w", err)
	}
	return bodies[0], nil, nil
}

// A reading is what the attempts of one apply need not read and check twice. A plan
// never changes. Whether its documents are valid with the code that runs now follows
// from them, from the revisions that they name, of which a Project loses none, and from
// what Applier.Under names. So the attempts of a plan of thousands of targets are short,
// and the head, which others move on, is passed rarely.
type reading struct {
	body    *Body
	checked bool
	under   []history.Ref // the revisions of Applier.Under when it was checked
}

func (a *Applier) once(ctx context.Context, space history.Space, key string, q Application, opening Opening, read *reading) (canon.Raw, outcome.Findings, error) {
	head, grant, rules := opening.Head, opening.Grant, opening.Policy
	if !grant.Allows(policy.Read) {
		return nil, refuse(outcome.TargetNotFound, "/target/scope", nil), nil
	}
	if !grant.Allows(policy.Edit) {
		return nil, refuse(outcome.PermissionDenied, "/target/scope", policy.Lacks(policy.Edit, q.Project)), nil
	}
	// A plan of somebody else, or of another tool, does not exist for this caller.
	if opening.Plan == nil || opening.Plan.Principal != q.Principal || opening.Plan.Tool != q.Tool {
		return nil, refuse(outcome.PlanNotFound, "/planRef", nil), nil
	}
	row := *opening.Plan
	if read.body == nil {
		body, err := ReadBody(ctx, a.Objects, row)
		if err != nil {
			return nil, nil, err
		}
		read.body = &body
	}
	body := *read.body
	if body.Subject == policy.OnBatch {
		// It moves no document: pxflow_run starts it.
		return nil, refuse(outcome.PlanMismatch, "/planRef", outcome.Params{"rule": "batch_plan", "startWith": "pxflow_run", "kind": "RunReportFlowBatch"}), nil
	}
	if findings, err := a.compare(ctx, space, head, row, body, q); findings != nil || err != nil {
		return nil, findings, err
	}
	now := a.Now().UTC()
	used, findings, err := a.approval(ctx, rules, row, body, q, now)
	if findings != nil || err != nil {
		return nil, findings, err
	}
	under, err := a.under(ctx, space, head.Root)
	if err != nil {
		return nil, nil, err
	}
	if a.Recheck != nil && !(read.checked && slices.Equal(read.under, under)) {
		if err := a.load(ctx, space, body.Changes); err != nil {
			return nil, nil, err
		}
		findings, err := a.Recheck(ctx, q.Project, head.Root, body.Changes)
		if err != nil {
			return nil, nil, err
		}
		if findings.Refused() {
			return nil, findings, nil
		}
		read.checked, read.under = true, under
	}
	return a.commit(ctx, space, key, q, row, body, head, grant, rules, used, now)
}

// compare holds the request against the plan, and the plan against the head:
// generation, revision, digest, expiry, in this order (P5, P7, decision 4).
func (a *Applier) compare(ctx context.Context, space history.Space, head history.Head, row PlanRow, body Body, q Application) (outcome.Findings, error) {
	var findings outcome.Findings
	keys := make([]string, len(body.Changes))
	for i, c := range body.Changes {
		keys[i] = c.CatalogKey()
	}
	entries, err := a.Catalog.Entries(ctx, space, head.Root, keys...)
	if err != nil {
		return nil, err
	}
	for i, c := range body.Changes {
		current := entries[i]
		own := keys[i] == q.Address
		path, params := "/planRef", outcome.Params{"target": keys[i]}
		if own {
			path = "/expectedGeneration"
		}
		switch {
		case c.Base == nil && current != nil:
			findings.Add(AlreadyExists(c.Kind), "/target/"+c.Kind+"Key", params)
		case c.Base == nil:
		case current == nil:
			findings.Add(outcome.TargetNotFound, "/target/"+c.Kind+"Key", params)
		case current.RevisionRef != c.Base.RevisionRef || current.Generation != c.Base.Generation:
			params["expected"], params["current"], params["currentRevisionRef"] = c.Base.Generation, current.Generation, string(current.RevisionRef)
			findings.Add(outcome.GenerationStale, path, params)
		case own && q.ExpectedGeneration != current.Generation:
			params["expected"], params["current"], params["currentRevisionRef"] = q.ExpectedGeneration, current.Generation, string(current.RevisionRef)
			findings.Add(outcome.GenerationStale, path, params)
		}
	}
	if body.Root != "" && body.Root != head.Root {
		if a.Appeared == nil {
			return nil, fmt.Errorf("change: a plan of all usages that nobody looks for")
		}
		appeared, err := a.Appeared(ctx, q.Project, body.Root, head.Root, body.Changes)
		if err != nil {
			return nil, err
		}
		findings = append(findings, appeared...)
	}
	if findings != nil {
		return findings, nil
	}
	mismatch := func(path string) { findings.Add(outcome.PlanMismatch, path, nil) }
	if string(q.Target) != string(body.Target) {
		mismatch("/target")
	}
	if q.ExpectedGeneration != body.ExpectedGeneration {
		mismatch("/expectedGeneration")
	}
	if q.PlanDigest != row.Digest {
		mismatch("/planDigest")
	}
	if body.ToolContractVersion != outcome.ContractVersion {
		mismatch("/planRef")
	}
	if findings != nil {
		return findings, nil
	}
	if state := row.StateAt(a.Now()); state != PlanOpen {
		return refuse(outcome.PlanExpired, "/planRef", outcome.Params{"state": string(state), "expiresAt": body.ExpiresAt}), nil
	}
	return nil, nil
}

// AlreadyExists is the code of a first save where there is a head.
func AlreadyExists(kind string) outcome.Code {
	switch kind {
	case "report":
		return outcome.ReportHeadAlreadyExists
	case "function":
		return outcome.FuncHeadAlreadyExists
	case "flow":
		return outcome.FlowHeadAlreadyExists
	default:
		return outcome.GenerationStale
	}
}

func (a *Applier) approval(ctx context.Context, rules policy.Policy, row PlanRow, body Body, q Application, now time.Time) (policy.Used, outcome.Findings, error) {
	need := body.Judge(rules)
	if q.ApprovalRef == "" {
		if need.Required {
			return policy.Used{}, refuse(outcome.ApprovalRequired, "/approvalRef", outcome.Params{"planRef": row.PlanRef, "reasons": need.Reasons}), nil
		}
		return policy.Used{}, nil, nil
	}
	asked := policy.Asked{Project: q.Project, PlanRef: row.PlanRef, Digest: row.Digest, Requester: q.Principal, At: now}
	used, reason, err := policy.Use(ctx, a.Policy, q.ApprovalRef, need, asked)
	if reason != "" {
		return policy.Used{}, refuse(outcome.ApprovalInvalid, "/approvalRef", outcome.Params{"reason": reason}), nil
	}
	return used, nil, err
}

// under returns the revisions of what a check asks beside, "" of what is not there.
func (a *Applier) under(ctx context.Context, space history.Space, root history.Ref) ([]history.Ref, error) {
	if len(a.Under) == 0 {
		return nil, nil
	}
	entries, err := a.Catalog.Entries(ctx, space, root, a.Under...)
	if err != nil {
		return nil, err
	}
	refs := make([]history.Ref, len(entries))
	for i, e := range entries {
		if e != nil {
			refs[i] = e.RevisionRef
		}
	}
	return refs, nil
}

// load fills in the documents that the plan staged.
func (a *Applier) load(ctx context.Context, space history.Space, changes []Change) error {
	refs := make([]history.Ref, len(changes))
	for i, c := range changes {
		refs[i] = c.Entry.RevisionRef
	}
	bodies, err := a.Objects.Get(ctx, space, refs...)
	if err != nil {
		return fmt.Errorf("change: a staged document: %w", err)
	}
	for i := range changes {
		changes[i].Document = bodies[i]
	}
	return nil
}

func (a *Applier) commit(ctx context.Context, space history.Space, key string, q Application, row PlanRow, body Body, head history.Head, grant policy.Grant, rules policy.Policy, used policy.Used, now time.Time) (canon.Raw, outcome.Findings, error) {
	edits := make([]history.Change, 0, 2*len(body.Changes))
	revised := make([]history.RevisedEntry, len(body.Changes))
	applied := Applied{Changed: make([]Saved, len(body.Changes))}
	for i, c := range body.Changes {
		next := c.Next()
		edit := history.Change{Key: c.CatalogKey(), Entry: &c.Entry, Text: &c.Text}
		if c.KeepText {
			edit.Text = nil
		}
		edits = append(edits, edit, history.Change{Key: RevisionKey(c.Kind, c.Key, next.RevisionRef), Entry: &history.Entry{RevisionRef: next.RevisionRef, Generation: next.Generation}})
		revised[i] = history.RevisedEntry{Key: c.CatalogKey(), Base: c.Base, Result: &next, Paths: c.Paths}
		saved, err := savedTarget(q.Project, c)
		if err != nil {
			return nil, nil, err
		}
		applied.Changed[i] = Saved{Target: saved, NewRevisionRef: string(next.RevisionRef), NewGeneration: next.Generation}
	}
	root, bodies, err := a.Catalog.Stage(ctx, space, head.Root, edits)
	if err != nil {
		return nil, nil, err
	}
	commit := history.Commit{
		Parent: head.Commit, Root: root, Version: head.Version + 1, Principal: q.Principal, Assistant: body.Assistant,
		Tool: row.Tool, ToolContractVersion: body.ToolContractVersion, RequestDigest: body.RequestDigest,
		PlanRef: row.PlanRef, PlanDigest: row.Digest, CommandID: q.CommandID, CommittedAt: now, Changes: revised,
	}
	// Where policy asks nobody, who applies approves by applying.
	approver, approvedAt := q.Principal, now
	if used.ApprovalRef != "" {
		approver, approvedAt = used.Approver, used.ApprovedAt
		commit.Approval = &history.Consent{ApprovalRef: used.ApprovalRef, Approver: approver, ApprovedAt: approvedAt}
	}
	commitRef, commitBody, err := history.EncodeCommit(commit)
	if err != nil {
		return nil, nil, err
	}
	changeDigest, err := canon.DigestOf(revised)
	if err != nil {
		return nil, nil, err
	}
	first := body.Changes[0]
	applied.NewRevisionRef, applied.NewGeneration = string(first.Entry.RevisionRef), first.Entry.Generation
	applied.AuthoringProvenance = Provenance{
		Principal: q.Principal, Assistant: body.Assistant, ToolContractVersion: body.ToolContractVersion, RequestDigest: body.RequestDigest,
		PlanRef: row.PlanRef, PlanDigest: row.Digest, CommandID: q.CommandID, ApprovedBy: approver,
		ApprovedAt: approvedAt.UTC().Format(time.RFC3339Nano), ApprovalRef: used.ApprovalRef,
		Base: first.Base, Result: first.Next(), ChangeDigest: changeDigest, CommitRef: commitRef,
	}
	answer, err := canon.Encode(applied)
	if err != nil {
		return nil, nil, err
	}
	if err := a.Objects.Put(ctx, space, append(bodies, commitBody, answer)...); err != nil {
		return nil, nil, err
	}
	err = a.Store.Commit(ctx, Commitment{
		Space: space, Read: head,
		Next:    history.Head{Commit: commitRef, Root: root, Version: head.Version + 1},
		Command: CommandRow{Key: key, PlanRef: row.PlanRef, PlanDigest: row.Digest, Answer: history.RefOf(answer)},
		PlanRef: row.PlanRef, Now: now,
		PolicyVersion: rules.Version, Principal: q.Principal, GrantVersion: grant.Version,
		ApprovalRef: used.ApprovalRef, Approver: used.By(q.Principal), ApproverVersion: used.ApproverVersion,
	})
	if err != nil {
		return nil, nil, err
	}
	return answer, nil, nil
}

// savedTarget is how the new revision is addressed: a Function by its version,
// digest and source, which stand in the entry's detail, all else by revisionRef.
func savedTarget(project target.Project, c Change) (canon.Raw, error) {
	members := map[string]any{}
	revision := "revisionRef"
	if c.Entry.Detail != nil {
		if err := json.Unmarshal(c.Entry.Detail, &members); err != nil {
			return nil, fmt.Errorf("change: the detail of %s: %w", c.CatalogKey(), err)
		}
		revision = "digest"
	}
	members["scope"], members[c.Kind+"Key"], members[revision] = project.Scope(), c.Key, c.Entry.RevisionRef
	return canon.Encode(members)
}

func refuse(code outcome.Code, path string, params outcome.Params) outcome.Findings {
	return outcome.Findings{outcome.New(code, path, params)}
}

func (a *Applier) pause(ctx context.Context, attempt int) error {
	if a.Pause != nil {
		return a.Pause(ctx, attempt)
	}
	// Full jitter: of many losers on one head, each comes back at another time.
	limit := min(time.Duration(1)<<attempt*5*time.Millisecond, 500*time.Millisecond)
	return wait.For(ctx, rand.N(limit))
}
