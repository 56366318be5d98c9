package quantity

import (
	"fmt"
	"maps"

	"github.com/pxhost/pxhost/shared/canon"
)

// Canonical returns the port with a canonical default, at every depth; nothing is
// added, left out or reordered in meaning. It panics for a default that is no
// strict JSON: such text was refused when it was decoded, and a Go program that
// puts it into a port is wrong.
func (p Port) Canonical() Port {
	if p.Default != nil {
		text, err := canon.Canonicalize(p.Default)
		if err != nil {
			panic(fmt.Sprintf("quantity: a default that was never decoded: %v", err))
		}
		p.Default = text
	}
	if p.Of != nil {
		of := p.Of.Canonical()
		p.Of = &of
	}
	p.Fields = maps.Clone(p.Fields)
	for key, field := range p.Fields {
		p.Fields[key] = field.Canonical()
	}
	return p
}
