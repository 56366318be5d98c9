// Package component holds the first-party Components, version 1 of each, and the
// stored registry state by which they are admitted (K2, K3).
//
// A Component is a pure calculation. Its ports derive from its settings, so that
// settings are all there is to review; it sees no clock, file, network or random
// number, and every list, text and expression that it reads is bounded.
//
// # Numbers
//
// Formulas are evaluated in coherent SI. An input is brought there with one
// rounding and a result leaves with one. Every operation is one binary64
// operation: products and sums are never fused, and the functions that binary64
// does not define are calculated in package component itself (see portable.go),
// so that x86_64 and arm64 give the same bits.
//
// The package must not know Flows, Nodes or Runs: paths of Evaluate's findings
// are relative to the Node, and the caller puts the Node in front.
package component
