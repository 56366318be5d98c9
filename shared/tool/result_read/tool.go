// Package resultread is the tool result_read: one named result of a Run.
package resultread

import (
	"context"

	"github.com/pxhost/pxhost/shared/budget"
	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/resource"
	"github.com/pxhost/pxhost/shared/run"
	"github.com/pxhost/pxhost/shared/tool"
)

// Name of the tool.
const Name = "result_read"

// Input of the tool.
type Input struct {
	tool.Common
	_         struct{} `schema:"oneOf=runRef|batchRef"`
	RunRef    string   `json:"runRef,omitzero" schema:"minLength=1,maxLength=64"`
	BatchRef  string   `json:"batchRef,omitzero" schema:"minLength=1,maxLength=64"`
	ResultKey string   `json:"resultKey" schema:"pattern=key,copied" desc:"As run_get lists them."`
}

// A value is told inline up to InlineBytes, and a table up to InlineRows. Both are
// so that what is inline is never cut, unless the caller asks for a smaller budget:
// 64 KiB count as 32,768 tokens, a sixth of an answer's budget, and fit the share of
// each line even in a request of 64 lines; 1,000 rows are the budget's own limit.
// What is larger is no reading for a model: it gets the schema, the first rows, and a
// link for whoever works with it.
const (
	InlineBytes = 64 << 10
	InlineRows  = 1000
)

// Output of the tool.
type Output struct {
	ResultKey string    `json:"resultKey"`
	Type      string    `json:"type"`
	Unit      string    `json:"unit,omitzero"`
	Shape     canon.Raw `json:"shape"`
	Value     canon.Raw `json:"value,omitzero" desc:"A typed value, with its unit."`
	// The rest stands in place of a large value.
	Schema  *Schema   `json:"schema,omitzero"`
	Bytes   int64     `json:"bytes,omitzero"`
	Preview canon.Raw `json:"preview,omitzero" desc:"See resources for all."`
}

// A Schema is what a large value is like.
type Schema struct {
	Columns canon.Raw `json:"columns,omitzero"`
	Rows    int       `json:"rows,omitzero"`
}

// Definition of the tool.
var Definition = tool.Define[Input, Output](tool.Spec{
	Name: Name,
	Description: "Read one named result of a Run that succeeded, as a typed value with its unit. Results never change. " +
		"A large one comes as schema, preview and a link to fetch it.",
	Annotations: tool.Reads,
	Places:      []budget.Place{{Path: "/value", Value: true}},
})

// Links makes links to values; resource.Links does.
type Links interface {
	Make(ctx context.Context, principal string, link resource.Link) (outcome.Resource, error)
}

// Runs reads results of Runs, or those of Batches.
type Runs interface {
	Result(ctx context.Context, principal, runRef, resultKey string) (run.Result, outcome.Findings, error)
}

// New returns the tool.
func New(frame tool.Frame, links Links, runs, batches Runs) tool.Handler {
	return Definition.Handler(frame, func(ctx context.Context, call tool.Call[Input]) (tool.Answer[Output], error) {
		in := call.Input
		from, ref := runs, in.RunRef
		if in.BatchRef != "" {
			from, ref = batches, in.BatchRef
		}
		r, findings, err := from.Result(ctx, call.Principal.String(), ref, in.ResultKey)
		if findings != nil || err != nil {
			return tool.Refuse[Output](findings), err
		}
		out := tool.Answer[Output]{Data: Output{ResultKey: r.ResultKey, Type: r.Type, Unit: r.Unit, Shape: r.Shape}, Pin: ref}
		table, err := columnsOf(r.Value)
		if err != nil {
			return tool.Answer[Output]{}, err
		}
		if len(r.Value) <= InlineBytes && table.Rows <= InlineRows {
			out.Data.Value = r.Value
			return out, nil
		}
		out.Data.Schema, out.Data.Bytes = &table, int64(len(r.Value))
		if out.Data.Preview, err = preview(r.Value); err != nil {
			return tool.Answer[Output]{}, err
		}
		link, err := links.Make(ctx, call.Principal.String(), resource.Link{
			Project: r.Project, Object: r.Object, MediaType: "application/json", Bytes: int64(len(r.Value)), Name: r.ResultKey + ".json"})
		out.Resources = []outcome.Resource{link}
		return out, err
	})
}
