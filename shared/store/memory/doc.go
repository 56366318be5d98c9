// Package memory keeps what package dynamo keeps, in maps: for tests, and to
// show what the store contracts mean. It checks the same conditions, returns the
// same errors and shares no bytes with its callers. It forgets everything with
// the process.
package memory
