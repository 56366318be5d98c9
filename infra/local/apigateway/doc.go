// Package apigateway is the local host's API Gateway HTTP API: it routes
// requests to functions with payload format 2.0 in both directions.
//
// It follows what API Gateway does where a function could tell the difference:
//   - Only bodies of text/*, application/json, application/xml and
//     application/javascript arrive as text; every other content type, a
//     missing one and application/x-www-form-urlencoded included, arrives
//     base64-encoded (the AWS documentation says "binary" and gives no list;
//     this is the split that was observed on AWS).
//   - Header names are in lower case, several values are joined by commas,
//     cookies are taken out into a list.
//   - Some response headers belong to API Gateway and come back renamed:
//     WWW-Authenticate as x-amzn-remapped-www-authenticate. The response parameters
//     of an integration can write that header itself, from another one.
//   - A request is at most 10 MB, its headers 10,240 bytes, an integration 30 s.
//
// It knows no authorizers, CORS, stages or mapping of requests: the template
// reader refuses them. It does not know what a function does.
package apigateway
