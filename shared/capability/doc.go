// Package capability says what a plugin is: its manifest, the package that carries it,
// the instance that a workspace has of it, what of it an actor may use now, and how an
// adapter is asked to perform it.
//
// It knows no store, no HTTP and no adapter. Names of members are those that plugin
// developers write (input_schema, timeout_seconds); members that the host adds are
// camelCase, as everywhere else.
package capability
