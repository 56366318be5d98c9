// Package awsapi is the one endpoint behind which the local host offers its
// emulated AWS services (awsEndpoint in the ready file).
//
// It verifies Signature Version 4 of every request, in the Authorization header
// or (S3 only) in the query of a presigned URL, decides by IAM statements
// whether the caller may do what it asks, and hands the request to the service
// that the credential scope names. The services behind it trust what arrives.
//
// Without this any local process could write to the tables, or invoke a tool's
// function with a principal of its choice. Refusals have AWS's own error types
// and texts, in the protocol of the service that was addressed.
//
// It must not know how a service works; it reads only as much of a request as
// names the resources for the permission check.
package awsapi
