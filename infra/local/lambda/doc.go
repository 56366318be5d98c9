// Package lambda runs the project's real bootstraps as child processes and
// speaks Lambda's two HTTP interfaces: the Runtime API to the children and
// Invoke to callers.
//
// It must not know what a function does, nor verify signatures: Invoke
// requests that arrive here are authenticated and authorised already.
//
// How it holds together:
//   - One instance is one process and serves one invocation at a time. An
//     invocation takes an idle instance, or waits in the function's queue
//     while a new one starts; the first instance that is free takes it.
//     Above [Options.MaxInstances] invocations wait instead of being
//     throttled: the bound protects this machine and is no limit of AWS.
//     Reserved concurrency does throttle, as on AWS.
//   - The Runtime API address of a child carries two random path segments,
//     one of this start and one of the instance. A child of an earlier start,
//     or one that was given up, knows neither and gets 403.
//   - A function in Python is run by the machine's python3 and a Runtime API
//     client of ours (package python); nothing else is different about it. If
//     the machine has no python3, Open says so in the log, and an invocation
//     fails with the errorType PythonMissing.
//   - A child that overruns its timeout is killed with its process group.
//     Children die with the host: at Close, and on Linux also when the host
//     is killed (parent-death signal). Elsewhere an orphan's Runtime API
//     connection breaks and it ends by itself.
//   - An accepted asynchronous invocation is on disk before it is answered,
//     and is run at least once, as on AWS.
//
// Not emulated, and refused by name: versions and aliases, log tails,
// response streaming, durable executions, tenants, extensions.
package lambda
