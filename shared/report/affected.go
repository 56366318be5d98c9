package report

import (
	"cmp"
	"maps"
	"slices"

	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/quantity"
	"github.com/pxhost/pxhost/shared/semantic"
	"github.com/pxhost/pxhost/shared/target"
)

// A PortChange is a difference of one public port between two revisions of a Flow.
// Before is nil of a port that comes, After of one that goes.
type PortChange struct {
	Direction     Direction
	PortKey       string
	Before, After *quantity.Port
}

// A PortEffect is what a changed port is to a mapping that would move to it.
type PortEffect string

// The effects.
const (
	PortFits     PortEffect = "fits"     // both ends still fit
	PortConverts PortEffect = "converts" // they fit, and the unit is converted on the way
	PortMismatch PortEffect = "mismatch" // they do not fit any more
	PortRemoved  PortEffect = "removed"  // the port is gone
	PortRequired PortEffect = "required" // the port must be fed, and the connection has no mapping for it
)

// An AffectedMapping is a mapping that would meet a changed port if its connection
// moved to the new revision of the Flow. Until SetConnectionFlow moves it, it stays
// on the revision that it is pinned to, and nothing about it changes.
type AffectedMapping struct {
	Path          string    `json:"path"` // of the mapping, or of the connection's inputs where one is missing
	ConnectionKey string    `json:"connectionKey"`
	MappingKey    string    `json:"mappingKey,omitzero"` // absent where a mapping is missing
	Direction     Direction `json:"direction"`
	PortKey       string    `json:"portKey"`
	// RevisionRef is the Flow revision that the connection is pinned to. It need not
	// be the one that the port had Before in.
	RevisionRef string `json:"revisionRef"`
	// Contract is that of the field or slot.
	Contract *quantity.Port `json:"contract,omitzero"`
	Before   *quantity.Port `json:"before,omitzero"`
	After    *quantity.Port `json:"after,omitzero"`
	Effect   PortEffect     `json:"effect"`
}

// Affected returns the mappings of a Report that changed ports of a Flow concern,
// in order of paths and ports. revisionRef of the target does not count: every
// connection to the Flow may be moved to its next revision.
func Affected(doc Document, flow target.Flow, changes []PortChange) []AffectedMapping {
	var out []AffectedMapping
	for _, key := range slices.Sorted(maps.Keys(doc.Connections)) {
		c := doc.Connections[key]
		if c.FlowTarget.Scope != flow.Scope || c.FlowTarget.FlowKey != flow.FlowKey {
			continue
		}
		for _, change := range changes {
			a := AffectedMapping{ConnectionKey: key, Direction: change.Direction, PortKey: change.PortKey, RevisionRef: c.FlowTarget.RevisionRef,
				Before: change.Before, After: change.After}
			mapped := false
			if change.Direction == Input {
				for name, m := range c.Inputs {
					if m.PortKey != change.PortKey {
						continue
					}
					mapped = true
					a.Path, a.MappingKey, a.Contract = semantic.Pointer("connections", key, "inputs", name), name, nil
					f, ok := doc.field(m.Source)
					if ok {
						a.Contract = &f.Port
					}
					a.Effect = effectOn(a.Contract, change.After)
					out = append(out, a)
				}
				if !mapped && change.After != nil && !optional(*change.After) {
					a.Path, a.MappingKey, a.Contract, a.Effect = semantic.Pointer("connections", key, "inputs"), "", nil, PortRequired
					out = append(out, a)
				}
				continue
			}
			for name, m := range c.Results {
				if m.PortKey != change.PortKey {
					continue
				}
				a.Path, a.MappingKey, a.Contract = semantic.Pointer("connections", key, "results", name), name, nil
				s, ok := doc.slot(m.Target)
				if ok {
					a.Contract = &s.Port
				}
				a.Effect = effectOn(change.After, a.Contract)
				out = append(out, a)
			}
		}
	}
	slices.SortFunc(out, func(a, b AffectedMapping) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.PortKey, b.PortKey))
	})
	return out
}

// effectOn compares the two ends of a mapping as they would be. One that is not
// there is the port, since a saved Report has every place that it maps.
func effectOn(producer, consumer *quantity.Port) PortEffect {
	if producer == nil || consumer == nil {
		return PortRemoved
	}
	_, findings := quantity.Fits(*producer, *consumer, "")
	switch {
	case findings.Refused():
		return PortMismatch
	case slices.ContainsFunc(findings, func(d outcome.Diagnostic) bool { return d.Code == outcome.UnitConverted }):
		return PortConverts
	}
	return PortFits
}
