// Package function is the Project's Functions: the stored contract of one version,
// the closed union of commands that make new versions, and what such a version means
// for the Flows and Reports that use the Function.
//
// A Function is two objects. Its document is the contract that was read from the
// source, in canonical JSON; the digest of the document is the digest of the
// FunctionRef and the Function's revisionRef. Its source is the draft as it was
// written, a module of its own with one decorated definition, and the document holds
// its digest. So no edit of another Function touches a byte of it.
//
// It executes nothing and parses no Python: what a source says comes from package
// python, and is judged here. It stores nothing and asks no clock.
package function
