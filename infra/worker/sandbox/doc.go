// Package sandbox runs Functions in single-use sandboxes: it keeps a pool of them
// warm, gives a job one, bounds what that may use, and destroys it.
//
// One use is a job, or the jobs of one Run that follow each other. Between those a
// sandbox is cleared as it is between two calls of one job: every process but the shim
// is killed, every file is removed, and each call has a process of its own. What a
// Function could do to the job after its own is what it can do to the call after its
// own. No sandbox is given to two Runs. A call of a plugin's package has one for itself.
//
// What makes a sandbox a wall is a driver's matter, which it reaches through Driver
// and Process; what a job is and where it comes from is the worker's.
package sandbox
