package console

import (
	"context"
	"fmt"
	"net/url"

	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/run"
	"github.com/pxhost/pxhost/shared/target"
	runget "github.com/pxhost/pxhost/shared/tool/run_get"
)

// A batchData is the page of one Batch: a page of its cases, and what was merged.
type batchData struct {
	live
	BatchRef              string
	State                 run.State
	Terminal              bool
	Ended, Total, Failed  int
	Cases                 []shownCase
	Next                  string // the next page of cases
	Later                 bool   // this is not the first page
	Diagnostics           []outcome.Diagnostic
	Results               []shownResult
	Governing             *shownResult
	GoverningCase         string
	GoverningTo           string
	FlowKey, Revision     string
	FlowTo                string
	ReportKey, ReportTo   string
	ReportRevision        string
	Generation            int64
	StartedAt, EndedAt    string
	Took, Command, Cancel string
	CancelSent            bool
	Project               target.Project
}

// A shownCase is one case with its child Run.
type shownCase struct {
	Key, RunRef, To string
	State           run.State
	Governs         bool
}

// governingKey is the result of a Batch's envelope that names the governing case.
const governingKey = "governing"

func (h *Handler) batchPage(ctx context.Context, v *Visit) (Answer, error) {
	data, err := h.readBatch(ctx, v)
	if err != nil {
		return nil, err
	}
	page := Page{Title: "Batch of " + data.FlowKey, Crumbs: projectCrumbs(data.Project, Crumb{"Runs", projectPath(data.Project) + "/runs"}), Body: "batch", Data: data}
	if !data.Terminal {
		page.Reload = reloadSeconds
	}
	return page, nil
}

func (h *Handler) batchLive(ctx context.Context, v *Visit) (Answer, error) {
	data, err := h.readBatch(ctx, v)
	if err != nil {
		return nil, err
	}
	return Fragment{Body: "batch-live", Data: data}, nil
}

func (h *Handler) cancelBatch(ctx context.Context, v *Visit) (Answer, error) {
	return h.cancel(ctx, v, "batchRef", v.Path["batchRef"], batchPath(v.Path["batchRef"]))
}

func (h *Handler) readBatch(ctx context.Context, v *Visit) (*batchData, error) {
	ref, cursor := v.Path["batchRef"], v.Query.Get("cursor")
	arguments := map[string]any{"batchRef": ref}
	if cursor != "" {
		arguments["cursor"] = cursor
	}
	var told runget.Output
	if _, err := h.tool(ctx, v, "run_get", arguments, &told); err != nil {
		return nil, err
	}
	project, _ := told.Target.Scope.Project()
	d := &batchData{
		BatchRef: told.BatchRef, State: told.State, Terminal: told.State.Terminal(), Ended: told.Progress.Completed, Total: told.Progress.Total, Failed: told.Failed,
		Diagnostics: told.Diagnostics, FlowKey: told.Target.FlowKey, Revision: told.Target.RevisionRef, FlowTo: flowPath(told.Target), Generation: told.ProjectionIntentGeneration,
		StartedAt: told.StartedAt, EndedAt: told.EndedAt, Took: took(told.StartedAt, told.EndedAt), Command: commandOf(v), Cancel: batchPath(ref) + "/cancel",
		CancelSent: v.Query.Get("asked") == "cancel", Project: project, Later: cursor != "",
	}
	if told.Report != nil {
		d.ReportKey, d.ReportRevision = told.Report.ReportKey, told.Report.RevisionRef
		d.ReportTo = projectPath(project) + "/reports/" + told.Report.ReportKey
	}
	if told.NextCursor != "" {
		d.Next = batchPath(ref) + "?" + url.Values{"cursor": {told.NextCursor}}.Encode()
	}
	d.Said = fmt.Sprintf("%s. %d of %s done.", told.State, d.Ended, count(d.Total, "case"))
	if d.Terminal {
		var err error
		if d.Results, err = h.readResults(ctx, v, "batchRef", ref, told.Results); err != nil {
			return nil, err
		}
		for i, r := range d.Results {
			if r.Key != governingKey {
				continue
			}
			d.Governing = &d.Results[i]
			for _, m := range r.Value.Items {
				if m.Name == "caseKey" {
					d.GoverningCase = m.Value.Text
				}
			}
		}
	} else {
		d.live = watched(v, batchPath(ref), d.Command, d.Said)
	}
	for _, c := range told.Cases {
		d.Cases = append(d.Cases, shownCase{c.CaseKey, c.RunRef, runPath(c.RunRef), c.State, c.CaseKey == d.GoverningCase && d.GoverningCase != ""})
		if c.CaseKey == d.GoverningCase {
			d.GoverningTo = runPath(c.RunRef)
		}
	}
	return d, nil
}
