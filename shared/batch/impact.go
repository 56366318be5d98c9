package batch

import (
	"github.com/pxhost/pxhost/shared/quantity"
)

// A MergeImpact is how a plan tells a merge: what there will be to read, with
// everything decided that the command left open.
type MergeImpact struct {
	Kind    string       `json:"kind"`
	Results []string     `json:"results"` // the resultKeys of the Batch
	Columns []ToldColumn `json:"columns,omitempty"`
	By      Extreme      `json:"by,omitzero"`
	// PortKeys are compared by an envelope, in Unit.
	PortKeys []string `json:"portKeys,omitempty"`
	Unit     string   `json:"unit,omitzero"`
}

// A ToldColumn is one column of a merged table.
type ToldColumn struct {
	ColumnKey string        `json:"columnKey"`
	From      Source        `json:"from,omitzero"` // absent of caseKey
	Type      quantity.Type `json:"type"`
	Unit      string        `json:"unit,omitzero"`
}

// Impact tells the merge.
func (r Resolved) Impact() MergeImpact {
	out := MergeImpact{Kind: r.Kind, Results: []string{}, By: r.By}
	switch r.Kind {
	case Table{}.Variant():
		out.Results = append(out.Results, TableKey)
		out.Columns = append(out.Columns, ToldColumn{ColumnKey: CaseColumn, Type: quantity.StringType})
		for _, c := range r.Columns {
			out.Columns = append(out.Columns, ToldColumn{c.ColumnKey, c.From, c.Port.Type, c.Port.Unit})
		}
	case Envelope{}.Variant():
		out.Results, out.Unit = append(out.Results, GoverningKey), r.Value().Unit
		for _, p := range r.Ports {
			out.PortKeys = append(out.PortKeys, p.PortKey)
		}
		for _, p := range r.Mapped {
			out.Results = append(out.Results, p.PortKey)
		}
	}
	return out
}
