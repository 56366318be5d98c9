// Package functiondescribe is the tool function_describe: what one or several exact
// versions of Functions take and give, who owns them, where they are used, and what the
// principal may do with them.
package functiondescribe

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/pxhost/pxhost/shared/authored"
	"github.com/pxhost/pxhost/shared/budget"
	"github.com/pxhost/pxhost/shared/component"
	"github.com/pxhost/pxhost/shared/dependency"
	"github.com/pxhost/pxhost/shared/flow"
	"github.com/pxhost/pxhost/shared/function"
	"github.com/pxhost/pxhost/shared/function/packages"
	"github.com/pxhost/pxhost/shared/function/planning"
	"github.com/pxhost/pxhost/shared/function/saved"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/policy"
	"github.com/pxhost/pxhost/shared/semantic"
	"github.com/pxhost/pxhost/shared/snapshot"
	"github.com/pxhost/pxhost/shared/target"
	"github.com/pxhost/pxhost/shared/tool"
)

// Name of the tool.
const Name = "function_describe"

// Input of the tool.
type Input = authored.DescribeInput[target.Function]

// Output of the tool: the description of one target, or items of several.
type Output struct {
	*Function
	Items []Function `json:"items,omitzero" schema:"each.bare" desc:"One a target, in request order, with the members above."`
}

// A Function is the description of one version (D3). Its source is not in it: a link
// to it stands in resources.
type Function struct {
	authored.Position[target.Function]
	planning.Contract
	Label target.Label `json:"label"`
	Owner Owner        `json:"owner"`
	// Availability says whether the Project has the Function, or has installed the very
	// release that owns it; of a release that it has not, DependencyHandoff leads to where
	// dependencies are kept. Of one that it has, OwnerHandoff leads to where it is changed.
	Availability      string            `json:"availability" schema:"enum=installed|available"`
	DependencyHandoff *packages.Handoff `json:"dependencyHandoff,omitzero" schema:"bare"`
	OwnerHandoff      *packages.Handoff `json:"ownerHandoff,omitzero" schema:"bare"`

	Usages     []Usage              `json:"usages" schema:"each.bare" desc:"By Flow: Nodes that run it, in any version."`
	Policy     PolicySummary        `json:"policy"`
	Operations []authored.Operation `json:"operations" desc:"What this principal may do next."`
}

// An Owner is who can change the Function.
type Owner struct {
	Kind           string                        `json:"kind" schema:"enum=project|package"`
	Package        *component.PackageRelease     `json:"packageRelease,omitzero"`
	License        string                        `json:"license,omitzero"`
	Signature      component.SignatureState      `json:"signature,omitzero"`
	RevocationList component.RevocationListState `json:"revocationList,omitzero"`
}

// A Usage is one Flow whose head uses the Function.
type Usage struct {
	FlowKey     string      `json:"flowKey"`
	RevisionRef history.Ref `json:"revisionRef"`
	Nodes       []UsingNode `json:"nodes"`
}

// A UsingNode is one Node that runs a version of the Function.
type UsingNode struct {
	NodeKey string `json:"nodeKey"`
	Version int    `json:"version"`
}

// A PolicySummary is what the Project's policy asks of the next version and of the Flows
// that move with it.
type PolicySummary struct {
	ChangeNeedsApproval bool `json:"changeNeedsApproval"`
}

// Definition of the tool.
var Definition = tool.Define[Input, Output](tool.Spec{
	Name: Name,
	Description: "Describe exact Function versions: owner, inputs and results with units, capabilities, every use in the Project, policy and what you may do next. resources link to the " +
		"source. Use it before planning a change; of any version it tells the head.",
	Annotations: tool.Reads,
	Places: []budget.Place{
		// A Function is one item; what is in it is bounded by tokens (B1).
		{Path: "/inputs"}, {Path: "/results"}, {Path: "/usages", Counts: budget.AsItems}, {Path: "/usages/*/nodes"},
		{Path: "/items", Counts: budget.AsItems}, {Path: "/items/*/inputs"}, {Path: "/items/*/results"}, {Path: "/items/*/usages", Counts: budget.AsItems}, {Path: "/items/*/usages/*/nodes"},
	},
})

// New returns the tool.
func New(frame tool.Frame, reader snapshot.Reader, links authored.Links) tool.Handler {
	d := describing{reader, links, history.NewCache(knownBytes), history.NewCache(knownBytes)}
	return Definition.Handler(frame, d.handle)
}

type describing struct {
	reader snapshot.Reader
	links  authored.Links
	known  *history.Cache // of function.Document
	using  *history.Cache // of map[string][]UsingNode, of Flow revisions
}

// knownBytes is how much of Functions, and of Flows that use them, a process keeps.
const knownBytes = 16 << 20

func (d describing) learn(ctx context.Context, asked authored.Revisions[target.Function]) ([]function.Document, error) {
	return authored.Learn(ctx, asked.Snapshot, d.known, asked.Found, func(documents [][]byte) (out []function.Document, keep []bool, err error) {
		for _, text := range documents {
			doc, findings := function.Decode(text)
			if findings.Refused() {
				return nil, nil, errors.New("function_describe: a saved document cannot be read")
			}
			out = append(out, doc)
		}
		return out, nil, nil
	})
}

func (d describing) handle(ctx context.Context, call tool.Call[Input]) (tool.Answer[Output], error) {
	if owned, refused := ofPackages(call.Input); owned || refused != nil {
		if refused != nil {
			return tool.Refuse[Output](refused), nil
		}
		return d.describePackages(ctx, call)
	}
	asked, findings, err := authored.Locate(ctx, d.reader, nil, call)
	for i := range findings {
		if at, ok := strings.CutSuffix(findings[i].Path, "/revisionRef"); ok {
			findings[i].Path = at + "/digest"
		}
	}
	if findings != nil || err != nil {
		return tool.Refuse[Output](findings), err
	}
	documents, err := d.learn(ctx, asked)
	if err != nil {
		return tool.Answer[Output]{}, err
	}
	for i, t := range asked.Targets {
		path := "/target"
		if !asked.One {
			path = fmt.Sprintf("/targets/%d", i)
		}
		// The digest is of this version; what stands beside it has to be, too.
		if t.Version != documents[i].Version {
			findings.Add(outcome.TargetNotFound, path+"/version", outcome.Params{"functionKey": t.FunctionKey})
		}
		if t.SourceDigest != documents[i].SourceDigest {
			findings.Add(outcome.TargetNotFound, path+"/sourceDigest", outcome.Params{"functionKey": t.FunctionKey})
		}
	}
	if findings != nil {
		return tool.Refuse[Output](findings), nil
	}
	answer := tool.Answer[Output]{Pin: asked.Snapshot.Pin(), Whole: asked.Whole(d.links, call.Principal.String())}
	functions := make([]Function, len(asked.Targets))
	for i := range asked.Targets {
		if functions[i], err = d.describe(ctx, asked, i, documents[i]); err != nil {
			return tool.Answer[Output]{}, err
		}
	}
	if !asked.One {
		answer.Data.Items = functions
		return answer, nil
	}
	answer.Data.Function = &functions[0]
	answer.Beside = asked.Source(d.links, call.Principal.String(), documents[0].Source())
	return answer, nil
}

// ofPackages reports whether Functions of packages are asked about: all of a list, or
// none.
func ofPackages(in Input) (owned bool, refused outcome.Findings) {
	if in.Targets == nil {
		return in.Target.Package != (target.Package{}), nil
	}
	owned = in.Targets[0].Package != (target.Package{})
	for i, t := range in.Targets {
		if (t.Package != (target.Package{})) != owned {
			refused.Add(outcome.SchemaInvalid, fmt.Sprintf("/targets/%d/package", i), outcome.Params{"rule": "one_owner"})
		}
	}
	return owned, refused
}

// describePackages describes Functions that packages own, to whoever may read the
// Project in whose scope they are asked for.
func (d describing) describePackages(ctx context.Context, call tool.Call[Input]) (tool.Answer[Output], error) {
	targets, path := call.Input.Targets, func(i int) string { return fmt.Sprintf("/targets/%d", i) }
	one := targets == nil
	if one {
		targets, path = []target.Function{call.Input.Target}, func(int) string { return "/target" }
	}
	s, findings, err := d.reader.Open(ctx, call.Principal.String(), targets[0].Scope, call.Pin, path(0)+"/scope")
	if findings != nil || err != nil {
		return tool.Refuse[Output](findings), err
	}
	lock, err := dependency.In(ctx, s)
	if err != nil {
		return tool.Answer[Output]{}, err
	}
	out := make([]Function, len(targets))
	for i, t := range targets {
		f, ok := packages.Product().Find(t)
		switch {
		case t.Scope != targets[0].Scope:
			findings.Add(outcome.SchemaInvalid, path(i)+"/scope", outcome.Params{"rule": "same_scope"})
			continue
		case !ok:
			params := outcome.Params{"functionKey": t.FunctionKey}
			code, why := saved.Explain(packages.Product(), s.Project, lock, function.Ref{FunctionKey: t.FunctionKey, Version: t.Version, Digest: t.Digest}.Of(t.Package))
			if code == "" {
				code = outcome.TargetNotFound
			}
			maps.Copy(params, why)
			findings.Add(code, path(i)+"/package", params)
			continue
		}
		readOnly := func(name string) authored.Operation {
			return authored.Operation{Tool: name, Missing: []string{"projectOwned"}}
		}
		out[i] = Function{
			Position: authored.Position[target.Function]{Target: t, Current: true}, Label: f.Document.Label, Usages: []Usage{},
			Owner:      Owner{"package", &f.PackageRelease, f.License, f.Signature, f.RevocationList},
			Contract:   planning.ContractOf(function.Ref{FunctionKey: t.FunctionKey, Version: t.Version, Digest: t.Digest}, f.Document),
			Operations: []authored.Operation{readOnly("function_plan_change"), readOnly("function_apply_change")},
		}
		if lock.Has(t.Package) {
			handoff := f.Handoff(s.Project, packages.OpenOwningPackage)
			out[i].Availability, out[i].OwnerHandoff = "installed", &handoff
			if out[i].Usages, err = d.usages(ctx, s, dependency.UseKey(t.Package.PackageKey), usedAs(t.Package.PackageKey, t.FunctionKey)); err != nil {
				return tool.Answer[Output]{}, err
			}
		} else {
			handoff := f.Handoff(s.Project, packages.OpenDependencies)
			out[i].Availability, out[i].DependencyHandoff = "available", &handoff
		}
		if out[i].Label == nil {
			out[i].Label = target.Label{}
		}
	}
	if findings != nil {
		return tool.Refuse[Output](findings), nil
	}
	answer := tool.Answer[Output]{Pin: s.Pin()}
	if one {
		answer.Data.Function = &out[0]
	} else {
		answer.Data.Items = out
	}
	return answer, nil
}

func (d describing) describe(ctx context.Context, asked authored.Revisions[target.Function], i int, doc function.Document) (Function, error) {
	t, s := asked.Targets[i], asked.Snapshot
	f := Function{
		Position: asked.Position(i), Label: doc.Label, Owner: Owner{Kind: "project"}, Availability: "installed", Usages: []Usage{},
		Contract: planning.ContractOf(function.Ref{FunctionKey: t.FunctionKey, Version: t.Version, Digest: t.Digest}, doc),
		Operations: []authored.Operation{
			asked.Operation(i, "function_validate_change", policy.Read, authored.Head),
			asked.Operation(i, "function_plan_change", policy.Edit, authored.Head, "CreateFunctionVersion"),
			asked.Operation(i, "function_plan_change", policy.Edit, authored.Saved, "BranchProjectFunction"),
			asked.Operation(i, "function_apply_change", policy.Edit, authored.Head),
		},
	}
	if f.Label == nil {
		f.Label = target.Label{}
	}
	var err error
	if f.Usages, err = d.usages(ctx, s, history.Key(function.Kind, t.FunctionKey), usedAs("", t.FunctionKey)); err != nil {
		return f, err
	}
	f.Policy.ChangeNeedsApproval = s.Policy.JudgeAll(0, moves(f.Usages)...).Required
	return f, nil
}

// moves are the deeds of a next version: itself, and the Flows that it moves. Which
// Reports are pinned to those, a plan finds out.
func moves(usages []Usage) []policy.Deed {
	deeds := []policy.Deed{{On: policy.OnFunction, Kinds: []string{function.CreateFunctionVersion{}.Variant()}, Paths: []string{function.SourcePath}}}
	if len(usages) == 0 {
		return deeds
	}
	flows := policy.Deed{On: policy.OnFlow, Kinds: []string{flow.ReplaceNodeTarget{}.Variant()}}
	for _, u := range usages {
		for _, node := range u.Nodes {
			flows.Paths = append(flows.Paths, semantic.Pointer("nodes", node.NodeKey, "target"))
		}
	}
	return append(deeds, flows)
}

// usedAs names a Function among those that a Flow runs: packageKey is "" of the Project's
// own.
func usedAs(packageKey, functionKey string) string { return packageKey + "/" + functionKey }

// usages finds the Flows that use a Function as they stand, and their Nodes. The Flows
// are a range of the catalog, of those that use what used is the key of: a Function, or a
// package, of which they may use another. What is in a revision never changes and is read
// once.
func (d describing) usages(ctx context.Context, s snapshot.Snapshot, used, as string) ([]Usage, error) {
	out := []Usage{}
	var keys []string
	prefix := history.Key("flow", "")
	for user, err := range s.Catalog.UsersFrom(ctx, s.Space, s.Root, used, "", prefix) {
		if err != nil {
			return nil, err
		}
		keys = append(keys, user)
	}
	entries, err := s.Catalog.Entries(ctx, s.Space, s.Root, keys...)
	if err != nil {
		return nil, err
	}
	const together = 500 // documents in memory at once
	for start := 0; start < len(keys); start += together {
		end := min(start+together, len(keys))
		using := make([]map[string][]UsingNode, end-start)
		var unread []*snapshot.Saved
		var at []int
		for i, e := range entries[start:end] {
			if e == nil {
				return nil, fmt.Errorf("function_describe: %s uses a Function and is not in the catalog", keys[start+i])
			}
			var ok bool
			if using[i], ok = d.using.Get(s.Space, e.RevisionRef).(map[string][]UsingNode); !ok {
				unread, at = append(unread, &snapshot.Saved{Ref: e.RevisionRef}), append(at, i)
			}
		}
		if unread != nil {
			if err := s.Read(ctx, unread...); err != nil {
				return nil, err
			}
		}
		for k, i := range at {
			if using[i], err = nodesOf(unread[k].Document); err != nil {
				return nil, err
			}
			size := 64
			for _, nodes := range using[i] {
				size += 128 * (1 + len(nodes))
			}
			d.using.Put(s.Space, unread[k].Ref, using[i], size)
		}
		for i, nodes := range using {
			if nodes[as] != nil {
				out = append(out, Usage{strings.TrimPrefix(keys[start+i], prefix), entries[start+i].RevisionRef, nodes[as]})
			}
		}
	}
	return out, nil
}

// nodesOf returns the Nodes of a saved Flow that run Functions, by what they are used as. It does
// not judge the document, which was valid when it was saved.
func nodesOf(document []byte) (map[string][]UsingNode, error) {
	var saved struct {
		Nodes map[string]struct {
			Target struct {
				Kind        string `json:"kind"`
				FunctionKey string `json:"functionKey"`
				Version     int    `json:"version"`
				Package     struct {
					PackageKey string `json:"packageKey"`
				} `json:"package"`
			} `json:"target"`
		} `json:"nodes"`
	}
	if err := json.Unmarshal(document, &saved); err != nil {
		return nil, fmt.Errorf("function_describe: a saved Flow: %w", err)
	}
	out := map[string][]UsingNode{}
	for _, key := range slices.Sorted(maps.Keys(saved.Nodes)) {
		if t := saved.Nodes[key].Target; t.Kind == "function" {
			as := usedAs(t.Package.PackageKey, t.FunctionKey)
			out[as] = append(out[as], UsingNode{key, t.Version})
		}
	}
	return out, nil
}
