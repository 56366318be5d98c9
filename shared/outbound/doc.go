// Package outbound is the one way out: HTTPS requests to public hosts, of which it is
// known whether a byte of them was sent.
//
// A URL is judged by its form (CheckURL) when a plugin is validated, and by the address
// that it leads to each time a connection is made: at the moment of connecting, so that
// a name which resolves to something else the second time gains nothing. Only port 443
// of a public address is dialled, through no proxy. Redirects are answers like any
// other. A connection serves one request: one that is used again may be found closed
// after part of a request was sent, and nobody could tell of what.
//
// It knows no plugin and no credential; headers are the caller's.
package outbound
