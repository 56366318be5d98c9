// Package runget is the tool run_get: how a Run or a Batch stands.
package runget

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/pxhost/pxhost/shared/budget"
	"github.com/pxhost/pxhost/shared/dependency"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/run"
	"github.com/pxhost/pxhost/shared/search"
	"github.com/pxhost/pxhost/shared/target"
	"github.com/pxhost/pxhost/shared/tool"
)

// Name of the tool.
const Name = "run_get"

// Input of the tool.
type Input struct {
	tool.Common
	_        struct{} `schema:"oneOf=runRef|batchRef"`
	RunRef   string   `json:"runRef,omitzero" schema:"minLength=1,maxLength=64"`
	BatchRef string   `json:"batchRef,omitzero" schema:"minLength=1,maxLength=64"`
}

// Output of the tool.
type Output struct {
	RunRef   string    `json:"runRef,omitzero"`
	BatchRef string    `json:"batchRef,omitzero"`
	State    run.State `json:"state"`
	Progress Progress  `json:"progress" desc:"Nodes of a Run, cases of a Batch."`
	// Of a Batch, before the diagnostics, of which there is one for each case that
	// failed: the first part of an answer that is cut shall tell cases.
	Cases        []run.CaseReport     `json:"cases,omitzero"`
	Diagnostics  []outcome.Diagnostic `json:"diagnostics"`
	Results      []run.ResultSummary  `json:"results"`
	Target       target.Flow          `json:"target" schema:"bare"`
	InputsDigest string               `json:"inputsDigest,omitzero"`
	StartedAt    string               `json:"startedAt,omitzero"` // RFC 3339, UTC
	EndedAt      string               `json:"endedAt,omitzero"`
	// RanBy says what ran the Functions of a Run, as Ran tells it. The list of tools has
	// no room for more of a schema.
	RanBy []string `json:"ranBy,omitzero"`
	// Packages are the releases whose Functions a Run calls, as PACKAGE@VERSION#DIGEST.
	Packages []string `json:"packages,omitzero"`
	// Of a Batch:
	Report                     *target.Report     `json:"report,omitzero" schema:"bare"`
	ProjectionIntentGeneration int64              `json:"projectionIntentGeneration,omitzero"`
	Failed                     int                `json:"failed,omitzero"`
	NextCursor                 string             `json:"nextCursor,omitzero"`
	Truncation                 *search.Truncation `json:"truncation,omitzero" schema:"bare"`
}

// A Progress tells how far a Run or a Batch is. Of a Batch, completed are the cases
// that came to an end of their own, Succeeded or Failed, and not those that were
// cancelled; a Batch has no stages.
type Progress struct {
	Completed int  `json:"completed"`
	Total     int  `json:"total"`
	Stage     *int `json:"stage,omitzero"` // of a Run: stages done
}

// Definition of the tool.
var Definition = tool.Define[Input, Output](tool.Spec{
	Name: Name,
	Description: "Tell how a Run or a Batch stands: its state, progress, diagnostics and the results there are; of a Batch also each case with its child Run, page by page. " +
		"Ask after pxflow_run until the state is Succeeded, Failed or Cancelled.",
	Annotations: tool.Reads,
	Places:      []budget.Place{{Path: "/diagnostics", Counts: budget.AsItems}, {Path: "/results", Counts: budget.AsItems}, {Path: "/cases", Counts: budget.AsItems}},
})

// Runs reads Runs.
type Runs interface {
	Get(ctx context.Context, principal, runRef string) (run.Report, outcome.Findings, error)
}

// Batches reads Batches.
type Batches interface {
	Get(ctx context.Context, principal, batchRef string, first int) (run.BatchReport, outcome.Findings, error)
}

// New returns the tool.
func New(frame tool.Frame, runs Runs, batches Batches) tool.Handler {
	return Definition.Handler(frame, func(ctx context.Context, call tool.Call[Input]) (tool.Answer[Output], error) {
		if call.Input.BatchRef != "" {
			return ofBatch(ctx, call, batches)
		}
		r, findings, err := runs.Get(ctx, call.Principal.String(), call.Input.RunRef)
		if findings != nil || err != nil {
			return tool.Refuse[Output](findings), err
		}
		// A Run that moves on between the parts of an answer makes another answer,
		// which the frame refuses to join to the first.
		return tool.Answer[Output]{Pin: call.Input.RunRef, Data: Output{RunRef: r.RunRef, State: r.State, Progress: Progress{r.Progress.Completed, r.Progress.Total, &r.Progress.Stage}, Diagnostics: r.Diagnostics,
			Results: r.Results, Target: r.Target, InputsDigest: r.InputsDigest, StartedAt: r.StartedAt, EndedAt: r.EndedAt, RanBy: ran(r.RanBy), Packages: releases(r.Pins)}}, nil
	})
}

// ran writes what ran stages, one text for each: "python=3.11.2 gvisor=… driver=rootless
// stages=1,3", the stages counted from 0.
func ran(by []run.Ran) (out []string) {
	for _, r := range by {
		stages := make([]string, len(r.Stages))
		for i, s := range r.Stages {
			stages[i] = strconv.Itoa(s)
		}
		out = append(out, fmt.Sprintf("python=%s gvisor=%s driver=%s stages=%s", r.Python, r.GVisor, r.Driver, strings.Join(stages, ",")))
	}
	return out
}

func releases(pins run.Pins) (out []string) {
	for _, p := range pins.Packages {
		out = append(out, dependency.Text(p))
	}
	return out
}

// ofBatch answers one page of a Batch. Cases never change their places, so that the
// pages together tell each once; each as it stands when its page is read.
func ofBatch(ctx context.Context, call tool.Call[Input], batches Batches) (tool.Answer[Output], error) {
	first := 0
	if call.Page != "" {
		var err error
		if first, err = strconv.Atoi(call.Page); err != nil {
			return tool.Refuse[Output](tool.CursorInvalid()), nil
		}
	}
	ref := call.Input.BatchRef
	r, findings, err := batches.Get(ctx, call.Principal.String(), ref, first)
	if findings != nil || err != nil {
		return tool.Refuse[Output](findings), err
	}
	out := Output{BatchRef: r.BatchRef, State: r.State, Progress: Progress{Completed: r.Tally.Ended - r.Tally.Cancelled, Total: r.Count}, Diagnostics: r.Diagnostics, Results: r.Results,
		Target: r.FlowTarget, StartedAt: r.StartedAt, EndedAt: r.EndedAt, Report: &r.Target, ProjectionIntentGeneration: r.Generation, Failed: r.Tally.Failed, Cases: r.Cases}
	if r.Next > 0 {
		if out.NextCursor, err = call.NextCursor(ctx, ref, strconv.Itoa(r.Next)); err != nil {
			return tool.Answer[Output]{}, err
		}
		out.Truncation = search.PageLimit()
	}
	return tool.Answer[Output]{Data: out, Pin: ref}, nil
}
