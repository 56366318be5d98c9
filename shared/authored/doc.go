// Package authored is what the tools of every kind of authored document do alike:
// find documents, describe several at once, plan a change of one and apply a plan.
// A tool of Flows or of Reports says what is its own, and this package keeps the
// order of checks, the snapshots, the pages and the retries the same for all.
//
// It knows no document format, and no tool by its name.
package authored
