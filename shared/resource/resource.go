// Package resource makes and follows the links by which a large value is fetched
// instead of being told inline (U3).
//
// A link leads to our own route and names nothing: its reference is sealed, and
// opens only for the principal that it was made for. Permission is checked when it
// is made and again whenever it is used; what it then gives is an address of the
// object store that is good for five minutes. The package knows no tool, no
// transport and no AWS.
package resource

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/pxhost/pxhost/shared/cursor"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/policy"
	"github.com/pxhost/pxhost/shared/target"
)

// Path is the route of links, the reference behind it. A link's URI is this path: it
// is resolved against the host that answered, whatever its name is, as a browser
// resolves it; no tool needs to know the address at which it is reached.
const Path = "/v1/resources/"

// AddressLife is how long the address of the object store is good for. A right that
// is revoked ends a download at most so late.
const AddressLife = 5 * time.Minute

// A Link is what a reference stands for.
type Link struct {
	Project   target.Project `json:"project"`
	Object    history.Ref    `json:"object"`
	MediaType string         `json:"mediaType"`
	Bytes     int64          `json:"bytes"`
	Name      string         `json:"name"` // of the file
}

// A Sealer seals and opens references; *cursor.Box does.
type Sealer interface {
	Seal(ctx context.Context, to cursor.Binding, claims cursor.Claims) (string, error)
	Open(ctx context.Context, from cursor.Binding, text string) (cursor.Claims, error)
}

// Links makes references. Life is that of what Sealer seals.
type Links struct {
	Sealer Sealer
	Life   time.Duration
	Now    func() time.Time
}

// binding is what a reference is good for. No tool has this name, so that a cursor
// is no reference and a reference no cursor.
func binding(principal string) cursor.Binding {
	return cursor.Binding{Tool: "GET " + Path, Principal: principal}
}

// Make returns the link for a principal, who may read its object: that is for the
// caller to have checked.
func (l Links) Make(ctx context.Context, principal string, link Link) (outcome.Resource, error) {
	claims, err := json.Marshal(link, json.Deterministic(true))
	if err != nil {
		return outcome.Resource{}, fmt.Errorf("resource: %w", err)
	}
	expires := l.Now().Add(l.Life)
	ref, err := l.Sealer.Seal(ctx, binding(principal), cursor.Claims{Position: claims})
	if err != nil {
		return outcome.Resource{}, err
	}
	return outcome.Resource{URI: Path + ref, MediaType: link.MediaType, Bytes: link.Bytes, ExpiresAt: expires.UTC().Format(time.RFC3339)}, nil
}

// Downloads lets objects be fetched from where they are stored.
type Downloads interface {
	// Address returns an address at which the bytes of body can be fetched for as
	// long as life, as an attachment. name and its bytes always belong together:
	// body is called if the store does not have them yet.
	Address(ctx context.Context, name, fileName, mediaType string, life time.Duration, body func() ([]byte, error)) (string, error)
}

// Resources follows links.
type Resources struct {
	Links     Links
	Objects   history.Objects
	Policy    policy.Store
	Downloads Downloads
}

// A Download is where a resource can be fetched.
type Download struct {
	URL       string `json:"url"`
	MediaType string `json:"mediaType"`
	Bytes     int64  `json:"bytes"`
	Digest    string `json:"digest"` // of the bytes
	Name      string `json:"name"`
	ExpiresAt string `json:"expiresAt"` // RFC 3339, UTC
}

// Use returns the download of a reference. A reference that is none, is another
// principal's, expired, or leads where the principal may not read any more is one
// that does not exist.
//
// The object is first copied to where it can be fetched as it is: objects of a
// Project are stored compressed, and small ones in no object store. The copy is
// content-addressed within its Project, so that making it again changes nothing and
// losing it loses nothing.
func (r Resources) Use(ctx context.Context, principal, ref string) (Download, outcome.Findings, error) {
	missing := outcome.Findings{outcome.New(outcome.TargetNotFound, "/ref", nil)}
	claims, err := r.Links.Sealer.Open(ctx, binding(principal), ref)
	if errors.Is(err, cursor.ErrInvalid) {
		return Download{}, missing, nil
	}
	if err != nil {
		return Download{}, nil, err
	}
	var link Link
	if json.Unmarshal(claims.Position, &link, json.RejectUnknownMembers(true)) != nil {
		return Download{}, missing, nil // sealed by another version of this code
	}
	grant, err := r.Policy.Grant(ctx, link.Project, principal)
	if err != nil {
		return Download{}, nil, err
	}
	if !grant.Allows(policy.Read) {
		return Download{}, missing, nil
	}
	now := r.Links.Now()
	name := "download/" + link.Project.String() + "/" + strings.Replace(string(link.Object), ":", "-", 1)
	address, err := r.Downloads.Address(ctx, name, link.Name, link.MediaType, AddressLife, func() ([]byte, error) {
		bodies, err := r.Objects.Get(ctx, history.Space(link.Project.String()), link.Object)
		if err != nil {
			return nil, fmt.Errorf("resource: the object of a link: %w", err)
		}
		return bodies[0], nil
	})
	if err != nil {
		return Download{}, nil, err
	}
	return Download{URL: address, MediaType: link.MediaType, Bytes: link.Bytes, Digest: string(link.Object), Name: link.Name,
		ExpiresAt: now.Add(AddressLife).UTC().Format(time.RFC3339)}, nil, nil
}
