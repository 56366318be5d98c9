// Package flow is the .pxflow document: its form, the closed union of commands
// that change it, the findings that keep a broken one from being saved or run,
// and the pure description, difference and plan of evaluation of a valid one.
//
// It stores nothing and asks no clock. What a first-party Component accepts and
// gives comes from package component, types and units from package quantity,
// and the contract of a Function from a small interface that its caller fills.
//
// Two forms of a JSON Pointer appear. A finding about a command points into the
// request (/commands/2/nodeKey); a finding about a whole document, a touched
// path and a difference point into the document (/nodes/moment/settings/results).
package flow
