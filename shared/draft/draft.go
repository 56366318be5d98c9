// Package draft keeps local drafts: documents that a trusted host has open and
// nobody has saved, which tools can read by a handle (T4).
//
// A draft is an object of its Project that no catalog names, and the handle is all
// there is of it: no row, no list. The handle is sealed and names nothing to whoever
// holds it. It opens for one principal, in one session, in one Project, for as long
// as it is good, and gives no right: whoever opens one asks again for the rights that
// it takes. When it is lost, or has expired, the host makes another, of the same
// object if the document is the same.
//
// The object may be young or old, or be a saved revision's too; no sweep takes what
// is younger than seven days, and a handle lives for hours.
//
// # Whom it is bound to
//
// The session is that of the token, not one that a request names: what a request
// names, the AI that sends it could copy beside the handle, and nothing would be
// bound. So a handle that leaks, in a log or a transcript, is of no use to the same
// person's other clients, and signing out ends it with the session's last token. A
// token that names no session makes no draft and opens none. The host that makes a
// draft and the client that uses it must therefore hold tokens of one session, as
// they do where the host hands its own token on or refreshes it.
//
// The package knows no document format, no tool, no transport and no AWS.
package draft

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/cursor"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/policy"
	"github.com/pxhost/pxhost/shared/target"
)

// Life is how long a handle is good: a working day. A session may end before.
const Life = 12 * time.Hour

// MaxBytes is the size of the largest document, in canonical encoding: that of a
// Flow and of a Report (decision 16). The limit itself is allowed.
const MaxBytes = 1 << 20

// MaxSource is the size of the largest source that an SDK-linked Flow is made from, in
// bytes (decision 16). The limit itself is allowed.
const MaxSource = 256 << 10

// MaxHandle is the longest text that may be a handle, in characters.
const MaxHandle = 1024

// A Holder is who makes and uses handles.
type Holder struct {
	Principal string // "iss|sub"
	Session   string // identity.Token.Session; "" is none
}

// A Draft is what a handle stands for.
type Draft struct {
	Kind   string      `json:"kind"` // "flow", "report", as in the catalog
	Key    string      `json:"key"`  // the document's own flowKey or reportKey
	Object history.Ref `json:"object"`
	// Source is the source that came with the document of an SDK-linked Flow, "" if
	// none did.
	Source history.Ref `json:"source,omitzero"`
}

// A Sealer seals and opens handles; *cursor.Box does.
type Sealer interface {
	Seal(ctx context.Context, to cursor.Binding, claims cursor.Claims) (string, error)
	Open(ctx context.Context, from cursor.Binding, text string) (cursor.Claims, error)
}

// Handles makes and opens handles. Life is that of what Sealer seals.
type Handles struct {
	Sealer Sealer
	Life   time.Duration
	Now    func() time.Time
}

// binding is what a handle is good for. No tool has this name, so that a cursor is
// no handle and a handle no cursor.
func binding(holder Holder, project target.Project) (cursor.Binding, error) {
	to, err := canon.DigestOf(map[string]string{"session": holder.Session, "project": project.String()})
	return cursor.Binding{Tool: "POST /v1/drafts", Principal: holder.Principal, ArgsDigest: to}, err
}

// Make returns a handle of a draft in a Project, and until when it is good. That the
// holder may have one is for the caller to have checked.
func (h Handles) Make(ctx context.Context, holder Holder, project target.Project, d Draft) (string, time.Time, error) {
	claims, err := json.Marshal(d, json.Deterministic(true))
	if err != nil {
		return "", time.Time{}, fmt.Errorf("draft: %w", err)
	}
	to, err := binding(holder, project)
	if err != nil {
		return "", time.Time{}, err
	}
	expires := h.Now().Add(h.Life)
	handle, err := h.Sealer.Seal(ctx, to, cursor.Claims{Position: claims})
	if err == nil && len(handle) > MaxHandle {
		err = fmt.Errorf("draft: a handle of %d characters", len(handle))
	}
	return handle, expires, err
}

// Open returns the draft of a handle. ok is false for everything that is no handle
// of this holder, Project and kind, and does not tell why: what was altered, is
// another's or has expired does not exist.
func (h Handles) Open(ctx context.Context, holder Holder, project target.Project, kind, handle string) (d Draft, ok bool, err error) {
	if holder.Session == "" || len(handle) > MaxHandle {
		return Draft{}, false, nil
	}
	from, err := binding(holder, project)
	if err != nil {
		return Draft{}, false, err
	}
	claims, err := h.Sealer.Open(ctx, from, handle)
	if errors.Is(err, cursor.ErrInvalid) {
		return Draft{}, false, nil
	}
	if err != nil {
		return Draft{}, false, err
	}
	if json.Unmarshal(claims.Position, &d, json.RejectUnknownMembers(true)) != nil || d.Kind != kind {
		return Draft{}, false, nil // of another kind, or sealed by another version of this code
	}
	return d, true, nil
}

// Drafts makes drafts.
type Drafts struct {
	Handles Handles
	Objects history.Objects
	Policy  policy.Store
}

// A Document is one that can be decoded as what it says it is. Whether it is valid
// is not asked: that is what a draft is for.
type Document struct {
	Kind, Key string
	Canonical []byte
	Source    []byte // of an SDK-linked Flow, or nil
	// Refused are findings about how the parts belong together. They are told after
	// those about the rights.
	Refused outcome.Findings
}

// A Target addresses a draft, as the tools take it.
type Target struct {
	Scope          target.Scope `json:"scope"`
	DocumentHandle string       `json:"documentHandle"`
}

// A Made is a draft that was made.
type Made struct {
	DocumentHandle string `json:"documentHandle"`
	ExpiresAt      string `json:"expiresAt"` // RFC 3339, UTC
	// Target is what to give to a tool.
	Target    Target `json:"target"`
	FlowKey   string `json:"flowKey,omitzero"`   // of a .pxflow
	ReportKey string `json:"reportKey,omitzero"` // of a .pxreport
	// Digest is that of the document: the revisionRef that it gets when it is saved
	// as it is.
	Digest string `json:"digest"`
}

// Make stores a document as an object of the Project and returns its handle. It takes
// the right to edit: a draft is the beginning of a change, and puts bytes into the
// Project. Nothing is stored for whoever lacks it, and no row is written at all.
func (d Drafts) Make(ctx context.Context, holder Holder, scope target.Scope, doc Document) (Made, outcome.Findings, error) {
	refuse := func(code outcome.Code, path string, params outcome.Params) (Made, outcome.Findings, error) {
		return Made{}, outcome.Findings{outcome.New(code, path, params)}, nil
	}
	project, ok := scope.Project()
	if !ok {
		return refuse(outcome.TargetNotFound, "/scope", nil)
	}
	grant, err := d.Policy.Grant(ctx, project, holder.Principal)
	switch {
	case err != nil:
		return Made{}, nil, err
	case !grant.Allows(policy.Read):
		return refuse(outcome.TargetNotFound, "/scope", nil)
	case !grant.Allows(policy.Edit):
		return refuse(outcome.PermissionDenied, "/scope", policy.Lacks(policy.Edit, project))
	case holder.Session == "":
		return refuse(outcome.PermissionDenied, "", outcome.Params{"right": "session", "requestFrom": "issuer of the token (claims sid, origin_jti or jti)"})
	}
	refused := slices.Clone(doc.Refused)
	if n := len(doc.Canonical); n > MaxBytes {
		refused.Add(outcome.LimitExceeded, "/document", outcome.Params{"limit": MaxBytes, "observed": n})
	}
	if n := len(doc.Source); n > MaxSource {
		refused.Add(outcome.LimitExceeded, "/source", outcome.Params{"limit": MaxSource, "observed": n})
	}
	if refused != nil {
		return Made{}, refused, nil
	}
	var made Made
	switch doc.Kind {
	case "flow":
		made.FlowKey = doc.Key
	case "report":
		made.ReportKey = doc.Key
	default:
		return Made{}, nil, fmt.Errorf("draft: a document of kind %q", doc.Kind)
	}
	object := history.RefOf(doc.Canonical)
	of, bodies := Draft{Kind: doc.Kind, Key: doc.Key, Object: object}, [][]byte{doc.Canonical}
	if doc.Source != nil {
		of.Source, bodies = history.RefOf(doc.Source), append(bodies, doc.Source)
	}
	// The objects first: a handle always has them.
	if err := d.Objects.Put(ctx, history.Space(project.String()), bodies...); err != nil {
		return Made{}, nil, fmt.Errorf("draft: %w", err)
	}
	handle, expires, err := d.Handles.Make(ctx, holder, project, of)
	if err != nil {
		return Made{}, nil, err
	}
	made.DocumentHandle, made.ExpiresAt, made.Target, made.Digest = handle, expires.UTC().Format(time.RFC3339), Target{project.Scope(), handle}, string(object)
	return made, nil, nil
}
