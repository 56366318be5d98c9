// Package sample is the sample Project, and how it is put into an empty
// installation: through the same checks, plans and commits as everything else.
package sample

import (
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/pxhost/pxhost/shared/boot/projects"
	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/flow"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/policy"
	"github.com/pxhost/pxhost/shared/project"
	"github.com/pxhost/pxhost/shared/target"
	"github.com/pxhost/pxhost/shared/tool"
	pxflowapplychange "github.com/pxhost/pxhost/shared/tool/pxflow_apply_change"
	pxflowplanchange "github.com/pxhost/pxhost/shared/tool/pxflow_plan_change"
)

// Project is the sample Project.
var Project = target.Project{WorkspaceKey: "structural_team", ProjectKey: "bridge_package"}

// GirderCheck is the sample Flow: the live load moment of the HS20-44 truck and
// the bending check of a girder.
//
//go:embed girder_check.pxflow
var GirderCheck []byte

// Rights are what the sample subjects may do in the Project. A subject that is
// not listed may do nothing.
var Rights = map[string][]policy.Right{
	"engineer": {policy.Read, policy.Edit, policy.Run},
	"reviewer": {policy.Read, policy.Approve},
	"viewer":   {policy.Read},
}

// Rules ask for a second person where a change reaches far or a Run costs much.
var Rules = []policy.Rule{
	{On: policy.OnFunction, Approval: "required"},
	{On: policy.OnBatch, MaxCost: 200, Approval: "required"},
}

// Seed puts the sample Project into the installation, with the Flow saved by the
// issuer's engineer. Where the Flow is already, nothing is changed: the Project
// belongs to its users. After a crash on the way it completes what is missing.
func Seed(ctx context.Context, parts projects.Parts, issuer string) (seeded bool, err error) {
	space := history.Space(Project.String())
	head, err := parts.Store.Head(ctx, space)
	if err != nil {
		return false, err
	}
	doc, findings := flow.Decode(GirderCheck)
	if findings.Refused() {
		return false, fmt.Errorf("sample: the Flow is not well formed: %s at %s", findings[0].Code, findings[0].Path)
	}
	entry, err := parts.Catalog.Entry(ctx, space, head.Root, history.Key("flow", doc.FlowKey))
	if err != nil || entry != nil {
		return false, err
	}
	admin := parts.Projects()
	err = admin.Create(ctx, Project, target.Label{"en": "Bridge package", "ko": "교량 패키지"}, "Sample: girder checks of a highway bridge.")
	if err != nil && !errors.Is(err, project.ErrExists) {
		return false, err
	}
	for subject, rights := range Rights {
		if err := admin.SetGrant(ctx, Project, issuer+"|"+subject, rights); err != nil {
			return false, err
		}
	}
	if err := admin.SetPolicy(ctx, Project, Rules); err != nil {
		return false, err
	}
	return true, save(ctx, parts, tool.Principal{Issuer: issuer, Subject: "engineer"}, doc)
}

// save plans and applies the first save of a Flow, through the tools themselves.
func save(ctx context.Context, parts projects.Parts, as tool.Principal, doc flow.Document) error {
	_, revision, err := doc.RevisionRef()
	if err != nil {
		return err
	}
	at := map[string]any{"scope": Project.Scope(), "flowKey": doc.FlowKey, "revisionRef": revision}
	var plan struct {
		PlanRef    string `json:"planRef"`
		PlanDigest string `json:"planDigest"`
	}
	err = call(ctx, pxflowplanchange.New(parts.Frame(), parts.Reader(), parts.Planner()), pxflowplanchange.Name, as, map[string]any{
		"target": at, "expectedGeneration": 0, "commands": []any{flow.CreateFlow{Document: doc}},
	}, &plan)
	if err != nil {
		return err
	}
	var applied struct{}
	return call(ctx, pxflowapplychange.New(parts.Frame(), parts.Applier(pxflowapplychange.Recheck)), pxflowapplychange.Name, as, map[string]any{
		"target": at, "expectedGeneration": 0, "planRef": plan.PlanRef, "planDigest": plan.PlanDigest, "commandId": "seed-" + doc.FlowKey,
	}, &applied)
}

func call(ctx context.Context, handle tool.Handler, name string, as tool.Principal, arguments, data any) error {
	text, err := canon.Encode(arguments)
	if err != nil {
		return err
	}
	answer, err := handle(ctx, tool.Request{
		Version: tool.RequestVersion, RequestID: "seed-" + rand.Text(), Tool: name, Principal: as, Arguments: text,
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
		return fmt.Errorf("sample: %s refuses with %s at %s", name, d.Code, d.Path)
	}
	return json.Unmarshal(envelope.Data, data)
}
