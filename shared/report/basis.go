package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/semantic"
	"github.com/pxhost/pxhost/shared/target"
)

// A basis is all that a shown result was computed from. Two are equal exactly when
// a result that was Current under one is Current under the other.
type basis struct {
	ConnectionKey string      `json:"connectionKey"`
	FlowTarget    target.Flow `json:"flowTarget"`
	PortKey       string      `json:"portKey"`
	Mapping       string      `json:"mapping"` // digest of the fields by input port
	Values        string      `json:"values"`  // digest of their values by input port
}

// Basis returns the digest of what the result in a slot depends on: the pinned
// Flow revision, the mappings of the connection, and the values of the mapped
// fields. A projection keeps the digest of the Report that its Run was made from;
// where it differs from the one of the Report that is read, the slot is Stale.
//
// A value counts as what it is in its field's contract: 1000 mm and 1 m in a field
// of metres are one value. Labels, mapping keys and the slot's own contract, which
// only says how the result is shown, are no part of it. ok is false when the
// connection does not feed the slot.
func Basis(doc Document, connectionKey string, slot ReportResultSlot) (digest string, ok bool, err error) {
	b, ok, err := connectionBases(doc, connectionKey)
	if err != nil || !ok {
		return "", false, err
	}
	parts, ok := b[slot]
	if !ok {
		return "", false, nil
	}
	digest, err = canon.DigestOf(parts)
	return digest, err == nil, err
}

// Bases returns the Basis of every slot that the connection feeds. ok is false when
// there is no such connection.
func Bases(doc Document, connectionKey string) (digests map[ReportResultSlot]string, ok bool, err error) {
	b, ok, err := connectionBases(doc, connectionKey)
	if err != nil || !ok {
		return nil, false, err
	}
	digests = make(map[ReportResultSlot]string, len(b))
	for slot, parts := range b {
		if digests[slot], err = canon.DigestOf(parts); err != nil {
			return nil, false, err
		}
	}
	return digests, true, nil
}

func connectionBases(doc Document, key string) (map[ReportResultSlot]basis, bool, error) {
	c, ok := doc.Connections[key]
	if !ok {
		return nil, false, nil
	}
	mapping := make(map[string]ReportValue, len(c.Inputs))
	values := make(map[string]canon.Raw, len(c.Inputs))
	for _, name := range slices.Sorted(maps.Keys(c.Inputs)) {
		m := c.Inputs[name]
		mapping[m.PortKey] = m.Source
		if f, ok := doc.field(m.Source); ok {
			text, err := f.settledValue()
			if err != nil {
				return nil, false, err
			}
			values[m.PortKey] = text
		}
	}
	common := basis{ConnectionKey: key, FlowTarget: c.FlowTarget}
	var err error
	if common.Mapping, err = canon.DigestOf(mapping); err != nil {
		return nil, false, err
	}
	if common.Values, err = canon.DigestOf(values); err != nil {
		return nil, false, err
	}
	out := make(map[ReportResultSlot]basis, len(c.Results))
	for _, name := range slices.Sorted(maps.Keys(c.Results)) {
		b := common
		b.PortKey = c.Results[name].PortKey
		out[c.Results[name].Target] = b
	}
	return out, true, nil
}

// settledValue is the field's value in the unit and form of its contract; null
// where it has none, and as it is written where it does not fit.
func (f Field) settledValue() (canon.Raw, error) {
	if f.Value == nil {
		return canon.Raw(`null`), nil
	}
	value, findings := f.Decode(f.Value, "")
	if findings.Refused() {
		return canonicalRaw(f.Value), nil
	}
	text, err := f.Encode(value)
	if err != nil {
		return nil, fmt.Errorf("report: encode a field's value: %w", err)
	}
	return text, nil
}

// A StaleReason says what of a slot's basis a plan changes.
type StaleReason string

// The reasons.
const (
	StaleValue   StaleReason = "value"        // of a mapped field
	StaleMapping StaleReason = "mapping"      // of the slot or of an input, or it is gone
	StaleFlow    StaleReason = "flowRevision" // that the connection is pinned to
)

// A StaleSlot is a slot whose result, where it has a Current one, turns Stale.
type StaleSlot struct {
	Path          string        `json:"path"` // of the slot
	BlockKey      string        `json:"blockKey"`
	SlotKey       string        `json:"slotKey"`
	ConnectionKey string        `json:"connectionKey"` // that the result came through
	Reasons       []StaleReason `json:"reasons"`
	// Current says whether the slot has a Current result now, which is what turns
	// Stale. It is absent where nobody looked.
	Current *bool `json:"current,omitzero"`
}

// staleSlots compares the bases of the slots that both documents have and that
// were mapped in before, in order of paths. A slot without a mapping before has no
// result, and a slot that is removed shows none.
func staleSlots(before *Document, after Document) ([]StaleSlot, error) {
	out := []StaleSlot{}
	if before == nil {
		return out, nil
	}
	now := map[ReportResultSlot]basis{}
	for key := range after.Connections {
		bases, _, err := connectionBases(after, key)
		if err != nil {
			return nil, err
		}
		maps.Copy(now, bases)
	}
	for key := range before.Connections {
		bases, _, err := connectionBases(*before, key)
		if err != nil {
			return nil, err
		}
		for slot, was := range bases {
			if _, stays := after.slot(slot); !stays {
				continue
			}
			is := now[slot]
			s := StaleSlot{Path: slot.path(), BlockKey: slot.BlockKey, SlotKey: slot.SlotKey, ConnectionKey: key}
			if is.ConnectionKey != was.ConnectionKey || is.PortKey != was.PortKey || is.Mapping != was.Mapping {
				s.Reasons = append(s.Reasons, StaleMapping)
			}
			if is.ConnectionKey == was.ConnectionKey && is.FlowTarget != was.FlowTarget {
				s.Reasons = append(s.Reasons, StaleFlow)
			}
			if is.ConnectionKey == was.ConnectionKey && is.Values != was.Values {
				s.Reasons = append(s.Reasons, StaleValue)
			}
			if s.Reasons != nil {
				out = append(out, s)
			}
		}
	}
	slices.SortFunc(out, func(a, b StaleSlot) int { return cmp.Compare(a.Path, b.Path) })
	return out, nil
}

// An Effect is what a plan does to a place of the Report that it need not write.
type Effect string

// The effects.
const (
	EffectMapped   Effect = "mapped"   // a mapping comes to the place, or leads to another port or Flow revision
	EffectUnmapped Effect = "unmapped" // a mapping leaves the place
)

// A Place is a field or slot of the Report after the plan, with what the plan does
// to its mappings.
type Place struct {
	Path          string `json:"path"`
	Effect        Effect `json:"effect"`
	ConnectionKey string `json:"connectionKey"`
	MappingKey    string `json:"mappingKey"`
}

// An end is where a mapping leads, on both sides.
type end struct {
	place, connectionKey, mappingKey, portKey string
	flow                                      target.Flow
}

// ends returns the end of each mapping by its path.
func ends(doc Document) map[string]end {
	out := map[string]end{}
	for key, c := range doc.Connections {
		for name, m := range c.Inputs {
			out[semantic.Pointer("connections", key, "inputs", name)] = end{m.Source.path(), key, name, m.PortKey, c.FlowTarget}
		}
		for name, m := range c.Results {
			out[semantic.Pointer("connections", key, "results", name)] = end{m.Target.path(), key, name, m.PortKey, c.FlowTarget}
		}
	}
	return out
}

// affected returns the fields and slots whose mappings a plan changes, in order.
func affected(before *Document, after Document) []Place {
	out := []Place{}
	was := map[string]end{}
	if before != nil {
		was = ends(*before)
	}
	is := ends(after)
	exists := map[string]bool{}
	for key, b := range after.Blocks {
		switch b := b.(type) {
		case ValuesBlock:
			for name := range b.Fields {
				exists[ReportValue{BlockKey: key, FieldKey: name}.path()] = true
			}
		case ResultsBlock:
			for name := range b.Slots {
				exists[ReportResultSlot{BlockKey: key, SlotKey: name}.path()] = true
			}
		}
	}
	for path, e := range is {
		if was[path] != e {
			out = append(out, Place{e.place, EffectMapped, e.connectionKey, e.mappingKey})
		}
	}
	for path, e := range was {
		if is[path].place != e.place && exists[e.place] {
			out = append(out, Place{e.place, EffectUnmapped, e.connectionKey, e.mappingKey})
		}
	}
	slices.SortFunc(out, func(a, b Place) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.ConnectionKey, b.ConnectionKey), cmp.Compare(a.MappingKey, b.MappingKey), cmp.Compare(a.Effect, b.Effect))
	})
	return out
}
