// Package acceptance holds the tests of the whole system: the binaries that
// make build makes, started as people start them, spoken to over HTTP and
// standard input, and looked at through the AWS endpoint.
//
// Nothing here is imported by anything, and nothing here may reach into a running
// process: what a test knows of the system it knows from its answers and from
// what is stored. Expected digests, moments and pages are calculated by the tests
// themselves, not by the packages under test.
//
// The package builds once, into a folder of its own, so that it neither needs an
// earlier make build nor disturbs one (PX_ACCEPTANCE_BUILD names a folder that is
// kept, which makes the next build quicker); its tests run side by side, each on hosts
// of its own with ports that were free. It needs no order among the packages. It
// takes a minute or two on two cores; go test -short leaves it out.
//
// The tests of crashes kill hosts and functions at named and at random moments
// while a workload runs, and hold what comes back to the workload's journal. Their
// moments follow from a seed that they print; -crash.seed and -crash.point choose.
package acceptance
