// Package report is the .pxreport document: its form, the closed union of
// commands that change it, the findings that keep a broken one from being saved
// or run, and what follows from a valid one alone: its description, its
// differences, the inputs that a connection gives to its Flow, and the basis by
// which a result is told Current or Stale.
//
// It stores nothing, asks no clock and changes no Flow (R3): the public ports of
// a Flow come through a small interface that its caller fills. Results are never
// in a document; they are a projection that is kept beside it.
//
// Two forms of a JSON Pointer appear. A finding about a command points into the
// request (/commands/2/blockKey); a finding about a whole document, a touched
// path and a difference point into the document
// (/blocks/design_basis/fields/span/value).
package report
