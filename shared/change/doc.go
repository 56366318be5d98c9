// Package change is the one way anything in a Project changes: a plan that
// writes nothing but itself, and an apply that writes everything once or nothing
// at all.
//
// It knows no document format: package flow (and report, function) compile their
// commands into edits, and this package checks, stores and commits them.
package change
