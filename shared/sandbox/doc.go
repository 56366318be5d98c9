// Package sandbox is the queue of jobs that run untrusted Python: what a job is,
// who may run it, and how its result becomes the one result.
//
// A job is put into the queue by a stage of a Run or by an execution of a plugin, is
// leased to a worker with a fence that grows with each lease, and ends once: done,
// failed or cancelled. Of a worker that was given up and wakes again, neither a
// heartbeat nor a result counts, since its fence is stale (X5, U5). The execution is told
// of its job by whoever completes it (Executions), and looks by itself if nobody is left.
//
// The package knows neither Python nor gVisor nor AWS: workers reach it through
// Broker, a state machine through Tokens, machines through Starter, rows through
// Store.
//
// # Order of writes
//
// Each is safe to die after, and the next process goes on from there:
//
//  1. The spec is an object before a row names it.
//  2. Row and queue entry are one write. Only then are workers looked at, so that
//     a worker which ends has either seen the job or is seen to be ending.
//  3. A lease is a write of the row; its fence counts from then on.
//  4. The result is an object before the row says done; the row leaves the queue in
//     the write that ends it.
//  5. The task token is answered after the job has ended, and forgotten after that.
//     Until it is, the row is due and the minute tick answers it. An answer that
//     comes twice is none the second time.
package sandbox
