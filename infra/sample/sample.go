// Package sample is the sample Project, and how it is put into an empty
// installation: through the same checks, plans and commits as everything else.
package sample

import (
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/capability"
	"github.com/pxhost/pxhost/shared/capability/host"
	"github.com/pxhost/pxhost/shared/change"
	"github.com/pxhost/pxhost/shared/component/planned"
	"github.com/pxhost/pxhost/shared/flow"
	"github.com/pxhost/pxhost/shared/function"
	"github.com/pxhost/pxhost/shared/function/planning"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/policy"
	"github.com/pxhost/pxhost/shared/project"
	"github.com/pxhost/pxhost/shared/report"
	"github.com/pxhost/pxhost/shared/snapshot"
	"github.com/pxhost/pxhost/shared/target"
	"github.com/pxhost/pxhost/shared/tool"
	functionapplychange "github.com/pxhost/pxhost/shared/tool/function_apply_change"
	functionplanchange "github.com/pxhost/pxhost/shared/tool/function_plan_change"
	pxflowapplychange "github.com/pxhost/pxhost/shared/tool/pxflow_apply_change"
	pxflowplanchange "github.com/pxhost/pxhost/shared/tool/pxflow_plan_change"
	reportapplychange "github.com/pxhost/pxhost/shared/tool/report_apply_change"
	reportplanchange "github.com/pxhost/pxhost/shared/tool/report_plan_change"
)

// Project is the sample Project.
var Project = target.Project{WorkspaceKey: "structural_team", ProjectKey: "bridge_package"}

// GirderCheck is the sample Flow: the live load moment of the HS20-44 truck and
// the bending check of a girder.
//
//go:embed girder_check.pxflow
var GirderCheck []byte

// GirderCheckSource says the same in Python. It is not seeded: a machine without
// Python has a sample too.
//
//go:embed girder_check.py
var GirderCheckSource string

// Rights are what the sample subjects may do in the Project. A subject that is
// not listed may do nothing.
var Rights = map[string][]policy.Right{
	"engineer": {policy.Read, policy.Edit, policy.Run},
	"reviewer": {policy.Read, policy.Approve},
	"viewer":   {policy.Read},
}

// PluginRights are what the sample subjects may do with the plugins of the workspace. A
// subject that is not listed may do nothing.
var PluginRights = map[string][]capability.Right{
	"engineer": {capability.Use},
	"reviewer": {capability.Use, capability.Manage},
}

// Rules ask for a second person where a change reaches far or a Run costs much.
// A Batch of more than 200 cases does, of girder_check with its 10 Nodes: cost counts
// Node evaluations.
var Rules = []policy.Rule{
	{On: policy.OnFunction, Approval: "required"},
	{On: policy.OnBatch, MaxCost: 2000, Approval: "required"},
}

// Parts are what seeding needs of an installation; projects.Parts has them.
type Parts interface {
	Frame() tool.Frame
	Reader() snapshot.Reader
	Planner() *change.Planner
	Applier(recheck change.Recheck) *change.Applier
	Projects() *project.Projects
	Plugins() host.Store
}

// Seed puts the sample Project into the installation: the Flow, the same with a
// Function in Python, and the Report that is connected to the Flow, saved by the
// issuer's engineer. After a crash on the way it completes what is missing, and so it
// does with the Report in an installation of an earlier program that had none.
//
// What is there is never changed: once the Flow is saved the Project belongs to its
// users, and what is in Python is not added any more. Where their rights, their policy
// or their own Flow of that name leave no room for the Report, there is none, and that
// is no error.
func Seed(ctx context.Context, parts Parts, issuer string) (seeded bool, err error) {
	flowDoc, findings := flow.Decode(GirderCheck)
	if findings.Refused() {
		return false, fmt.Errorf("sample: the Flow is not well formed: %s at %s", findings[0].Code, findings[0].Path)
	}
	reportDoc, findings := report.Decode(GirderReview)
	if findings.Refused() {
		return false, fmt.Errorf("sample: the Report is not well formed: %s at %s", findings[0].Code, findings[0].Path)
	}
	_, flowRef, err := flowDoc.RevisionRef()
	if err != nil {
		return false, err
	}
	_, reportRef, err := reportDoc.RevisionRef()
	if err != nil {
		return false, err
	}
	s := seeding{
		parts: quiet{parts}, as: tool.Principal{Issuer: issuer, Subject: "engineer"},
		flow:   target.Flow{Scope: Project.Scope(), FlowKey: flowDoc.FlowKey, RevisionRef: flowRef},
		report: target.Report{Scope: Project.Scope(), ReportKey: reportDoc.ReportKey, RevisionRef: reportRef},
	}
	if seeded, err = s.members(ctx); err != nil {
		return false, err
	}
	there, err := s.look(ctx)
	if err != nil {
		return seeded, err
	}
	if there.flow == nil {
		if err := s.open(ctx); err != nil {
			return false, err
		}
		if err := s.python(ctx, there, flowDoc); err != nil {
			return false, err
		}
		// Its rules ask for an approval of every change of a Function: from here on.
		if err := parts.Projects().SetPolicy(ctx, Project, Rules); err != nil {
			return false, err
		}
		if err := s.save(ctx, flowTools, s.flow, "seed-"+flowDoc.FlowKey, flow.CreateFlow{Document: flowDoc}); err != nil {
			return false, err
		}
		seeded = true
	}
	// The Report and its connection are completed unless a user was at them.
	if there.report == nil && (there.flow == nil || there.ours) {
		if err := s.save(ctx, reportTools, s.report, "seed-"+reportDoc.ReportKey, report.CreateReport{Document: reportDoc}); err != nil {
			return seeded, room(err)
		}
		seeded, there.report = true, &history.Entry{RevisionRef: history.Ref(reportRef)}
	}
	if r := there.report; r != nil && r.Generation == 0 && r.RevisionRef == history.Ref(reportRef) {
		var commands []any
		for _, c := range ConnectGirderReview(s.flow) {
			commands = append(commands, c)
		}
		if err := s.save(ctx, reportTools, s.report, "seed-"+reportDoc.ReportKey+"-connections", commands...); err != nil {
			return seeded, room(err)
		}
		seeded = true
	}
	return seeded, nil
}

// room makes of a refusal for want of a right or an approval no error.
func room(err error) error {
	var refused *refusedError
	if errors.As(err, &refused) && (refused.Code == outcome.PermissionDenied || refused.Code == outcome.ApprovalRequired || refused.Path == "/target/scope") {
		return nil
	}
	return err
}

// quiet are parts whose tools log failures alone: who starts px local reads what it
// prints, and a refusal is the error of Seed.
type quiet struct{ Parts }

func (q quiet) Frame() tool.Frame {
	f := q.Parts.Frame()
	f.Log = slog.New(warnings{f.Log.Handler()})
	return f
}

// warnings passes on what is a warning or worse.
type warnings struct{ slog.Handler }

func (w warnings) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && w.Handler.Enabled(ctx, level)
}

func (w warnings) WithAttrs(attrs []slog.Attr) slog.Handler {
	return warnings{w.Handler.WithAttrs(attrs)}
}

func (w warnings) WithGroup(name string) slog.Handler { return warnings{w.Handler.WithGroup(name)} }

type seeding struct {
	parts  Parts
	as     tool.Principal
	flow   target.Flow
	report target.Report
}

// there is what an installation has of the sample.
type there struct {
	flow, report       *history.Entry // nil: not there
	ours               bool           // the sample's revision of the Flow was saved once
	function, inPython *history.Entry
}

func (s seeding) look(ctx context.Context) (there, error) {
	reader := s.parts.Reader()
	opening, err := reader.Store.Begin(ctx, Project, s.as.String(), "", "")
	if err != nil {
		return there{}, err
	}
	flowKey := history.Key("flow", s.flow.FlowKey)
	entries, err := reader.Catalog.Entries(ctx, history.Space(Project.String()), opening.Head.Root,
		flowKey, history.RevisionKey(flowKey, history.Ref(s.flow.RevisionRef)), history.Key("report", s.report.ReportKey),
		history.Key(function.Kind, resistanceKey), history.Key("flow", inPythonKey))
	if err != nil {
		return there{}, err
	}
	return there{flow: entries[0], report: entries[2], ours: entries[1] != nil, function: entries[3], inPython: entries[4]}, nil
}

// open makes the Project, with its rights.
func (s seeding) open(ctx context.Context) error {
	admin := s.parts.Projects()
	err := admin.Create(ctx, Project, target.Label{"en": "Bridge package", "ko": "교량 패키지"}, "Sample: girder checks of a highway bridge.")
	if err != nil && !errors.Is(err, project.ErrExists) {
		return err
	}
	for subject, rights := range Rights {
		if err := admin.SetGrant(ctx, Project, s.as.Issuer+"|"+subject, rights); err != nil {
			return err
		}
	}
	return nil
}

// members gives the sample subjects their rights to plugins, unless anybody ever gave
// them or took them away.
func (s seeding) members(ctx context.Context) (seeded bool, err error) {
	store := s.parts.Plugins()
	for subject, rights := range PluginRights {
		actor := s.as.Issuer + "|" + subject
		old, err := store.Member(ctx, Project.WorkspaceKey, actor)
		if err != nil {
			return seeded, err
		}
		if old.Version != 0 {
			continue
		}
		_, err = store.Change(ctx, host.Change{Workspace: Project.WorkspaceKey, Member: &host.Membership{Actor: actor, Member: capability.Member{Rights: rights}}})
		if err != nil && !errors.Is(err, host.ErrMoved) {
			return seeded, err
		}
		seeded = true
	}
	return seeded, nil
}

// python saves the sample Function and the Flow that runs it. Where somebody made the
// Project before, and its rules leave no room for them, there are none.
func (s seeding) python(ctx context.Context, there there, girder flow.Document) error {
	ref, err := resistanceRef(ctx)
	if err != nil {
		return err
	}
	if there.function == nil {
		at := target.FunctionChange{Scope: Project.Scope(), FunctionKey: resistanceKey}
		if err := s.save(ctx, functionTools, at, "seed-"+resistanceKey, function.CreateFunction{Source: Resistance}); err != nil {
			return room(err)
		}
	} else if string(there.function.RevisionRef) != ref.Digest {
		return nil
	}
	if there.inPython != nil {
		return nil
	}
	doc := InPython(girder, ref)
	_, revision, err := doc.RevisionRef()
	if err != nil {
		return err
	}
	at := target.Flow{Scope: Project.Scope(), FlowKey: doc.FlowKey, RevisionRef: revision}
	return room(s.save(ctx, flowTools, at, "seed-"+doc.FlowKey, flow.CreateFlow{Document: doc}))
}

// A pair of tools plans and applies changes of one kind of document.
type pair struct {
	planName, applyName string
	plan                func(Parts) tool.Handler
	apply               func(Parts) tool.Handler
}

var flowTools = pair{pxflowplanchange.Name, pxflowapplychange.Name,
	func(p Parts) tool.Handler {
		return pxflowplanchange.New(p.Frame(), p.Reader(), p.Planner(), nil, nil, planned.Catalog{})
	},
	func(p Parts) tool.Handler {
		return pxflowapplychange.New(p.Frame(), p.Applier(pxflowapplychange.Recheck(p.Reader(), nil)))
	}}

var reportTools = pair{reportplanchange.Name, reportapplychange.Name,
	func(p Parts) tool.Handler {
		return reportplanchange.New(p.Frame(), p.Reader(), p.Planner(), nil, nil)
	},
	func(p Parts) tool.Handler {
		return reportapplychange.New(p.Frame(), p.Applier(reportapplychange.Recheck(p.Reader())))
	}}

var functionTools = pair{functionplanchange.Name, functionapplychange.Name,
	func(p Parts) tool.Handler {
		return functionplanchange.New(p.Frame(), p.Reader(), p.Planner(), planning.New(resistanceReader, nil))
	},
	func(p Parts) tool.Handler {
		return functionapplychange.New(p.Frame(), p.Applier(planning.Recheck(p.Reader(), resistanceReader)))
	}}

// save plans and applies a change of a document at generation 0, or a first save,
// through the tools themselves.
func (s seeding) save(ctx context.Context, tools pair, at any, commandID string, commands ...any) error {
	var plan struct {
		PlanRef    string `json:"planRef"`
		PlanDigest string `json:"planDigest"`
	}
	if err := s.call(ctx, tools.plan(s.parts), tools.planName, map[string]any{"target": at, "expectedGeneration": 0, "commands": commands}, &plan); err != nil {
		return err
	}
	var applied struct{}
	return s.call(ctx, tools.apply(s.parts), tools.applyName, map[string]any{
		"target": at, "expectedGeneration": 0, "planRef": plan.PlanRef, "planDigest": plan.PlanDigest, "commandId": commandID,
	}, &applied)
}

// A refusedError is the first diagnostic of a refusal.
type refusedError struct {
	Tool string
	Code outcome.Code
	Path string
}

func (e *refusedError) Error() string {
	return fmt.Sprintf("sample: %s refuses with %s at %s", e.Tool, e.Code, e.Path)
}

func (s seeding) call(ctx context.Context, handle tool.Handler, name string, arguments, data any) error {
	text, err := canon.Encode(arguments)
	if err != nil {
		return err
	}
	answer, err := handle(ctx, tool.Request{
		Version: tool.RequestVersion, RequestID: "seed-" + rand.Text(), Tool: name, Principal: s.as, Arguments: text,
		Deadline: time.Now().Add(25 * time.Second), ByteShare: 2 << 20,
	})
	if err != nil {
		return err
	}
	var envelope outcome.Envelope
	if err := json.Unmarshal(answer, &envelope); err != nil {
		return err
	}
	if !envelope.OK {
		d := envelope.Diagnostics[0]
		return &refusedError{name, d.Code, d.Path}
	}
	return json.Unmarshal(envelope.Data, data)
}
