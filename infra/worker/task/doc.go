// Package task starts sandboxes inside an ordinary container, as on Fargate: no
// namespace can be made there, and stock runsc makes some before it starts anything.
// gVisor's Sentry itself needs none. So the worker starts the unmodified Sentry in a
// chroot, under a uid that nothing else has, and tells it over its control socket to
// start the container; the Sentry installs its own seccomp filters as always.
//
// Against normal runsc this is weaker where the Sentry itself is broken: the network
// and PID namespaces of the task are shared, and a chroot is not a mount namespace.
// The next wall is the virtual machine that Fargate gives each task, so that a task
// runs the jobs of one tenant. What must hold is looked at in every thread of the
// Sentry before each job (Confined), and fails closed.
//
// The packages of gVisor used here promise no stability: their version is pinned, and
// another must pass the tests of this package, which emulate a task with runc.
package task
