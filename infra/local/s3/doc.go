// Package s3 is the local host's object store: gofakes3's HTTP handling on an
// own durable backend, behind a gate that lets through only the operations,
// fields and forms that the project uses and refuses all others by name.
//
// Supported are PutObject (with If-None-Match: * and If-Match, Content-MD5 and
// the checksums that the SDK sends, which are verified and kept), GetObject
// and HeadObject (with Range and the response-* overrides), DeleteObject and
// ListObjectsV2 (with its keys plain or URL-encoded). An answered write is on disk.
//
// Signatures, the expiry of presigned URLs and permissions are checked in
// front of it (awsapi), except for one rule that needs to know what is there:
// as on AWS, who may not list a bucket is told 403 for a key that is missing.
package s3
