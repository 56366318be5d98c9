// Package sandbox runs Functions in single-use sandboxes: it keeps a pool of them
// warm, gives a job one, bounds what that may use, and destroys it.
//
// What makes a sandbox a wall is a driver's matter, which it reaches through Driver
// and Process; what a job is and where it comes from is the worker's.
package sandbox
