// Package template reads the project's SAM template for the local host.
//
// It turns template.yaml into the few things the local host starts: functions,
// HTTP routes, schedules, state machines, tables and buckets, each with its
// physical name, and the IAM statements of each function and state machine.
// What it does not know it refuses by name and with its path, all findings of
// a template in one error: a property that is silently left out locally would
// work here and fail on AWS, or the other way round.
//
// It starts nothing, opens no socket and knows nothing of how a service is
// emulated. Two groups of properties are read and have no local effect; they
// are listed one by one where a resource is read (function [reader.inert]).
package template
