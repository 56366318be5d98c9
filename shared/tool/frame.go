package tool

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/pxhost/pxhost/shared/budget"
	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/cursor"
	"github.com/pxhost/pxhost/shared/metric"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/schema"
)

// A Cursors seals and opens cursors; *cursor.Box does.
type Cursors interface {
	Seal(ctx context.Context, to cursor.Binding, claims cursor.Claims) (string, error)
	Open(ctx context.Context, from cursor.Binding, text string) (cursor.Claims, error)
}

// A Frame is what is around every call of a tool. All fields are required but
// Tokens.
type Frame struct {
	Cursors Cursors
	Log     *slog.Logger
	// Tokens counts the tokens of so many bytes; nil is budget.TokensOf.
	Tokens func(bytes int) int
}

// A Call is one request, decoded.
type Call[In Input] struct {
	Input     In
	Request   Request // as it came; Arguments are raw
	Principal Principal
	// Digest is that of the canonical arguments without budget, cursor and what
	// the Spec calls free: the structured request digest.
	Digest string
	// Pin is what the answer that is continued was made of, as its Answer said;
	// "" when there is no cursor. With a pin, a tool makes the same answer again
	// from the same snapshot, and does nothing else: nothing is planned, applied
	// or started a second time.
	Pin string
	// Page is the page position, of a tool that has pages; "" is the first page.
	Page string

	seal func(ctx context.Context, pin string, p place) (string, error)
}

// NextCursor seals the position of the next page of the snapshot pin (S1, S2).
// The next call has them as Pin and Page.
func (c *Call[In]) NextCursor(ctx context.Context, pin, page string) (string, error) {
	return c.seal(ctx, pin, place{Page: page})
}

// An Answer is what a tool answers. If any diagnostic is an error, the request
// is refused, and Data and Resources are not sent.
type Answer[Out any] struct {
	Data        Out
	Diagnostics outcome.Findings
	// Found are findings about what was asked about, such as a document that is
	// not valid. They are told as diagnostics and refuse nothing, errors included.
	Found     outcome.Findings
	Resources []outcome.Resource
	// Whole makes the link to all of what Data describes. It is asked for when the
	// answer is cut, and stands in every part, so that who needs all of it at once has
	// another way than to ask for part after part (D2). nil where there is none. A
	// caller's own budget with no room for the link has the parts without it.
	Whole func(ctx context.Context) (outcome.Resource, error)
	// Beside makes links that belong to the answer whether it is cut or not, such as
	// that to a source, which is never told inline. They stand in every part, unless
	// a caller's own budget has no room for them. nil where there are none.
	Beside func(ctx context.Context) ([]outcome.Resource, error)
	// Pin names the snapshot that Data is made of: a catalog root, a planRef, a
	// digest. An answer that may be cut needs one; it is sealed in the cursor.
	Pin string
	// Cause is logged with the diagnostics and never sent.
	Cause error
}

// Refuse returns the answer of a refused request. There must be a finding.
func Refuse[Out any](findings outcome.Findings) Answer[Out] {
	return Answer[Out]{Diagnostics: findings}
}

// CursorInvalid refuses a cursor whose snapshot can no longer be told.
func CursorInvalid() outcome.Findings {
	return outcome.Findings{outcome.New(outcome.CursorInvalid, "/cursor", nil)}
}

// place is where a cursor goes on: a page, and the part of its answer.
type place struct {
	Page string `json:"p,omitzero"`
	Part []byte `json:"b,omitzero"`
}

// A Handler answers one request with an envelope, or fails with a *Failure.
type Handler func(ctx context.Context, request Request) (stdjson.RawMessage, error)

// Handler puts the frame around what a tool does: it decodes strictly and
// refuses with everything that is wrong (E2), opens the cursor, calls handle,
// bounds the answer (B1 to B3), gives every diagnostic an ID and a log line
// (E3), and turns errors and panics into Failures (W5).
func (d Definition[In, Out]) Handler(f Frame, handle func(context.Context, Call[In]) (Answer[Out], error)) Handler {
	return func(ctx context.Context, request Request) (envelope stdjson.RawMessage, err error) {
		log := f.Log.With("tool", d.spec.Name, "requestId", request.RequestID, "principal", principalHash(request.Principal))
		defer func() {
			if p := recover(); p != nil {
				log.ErrorContext(ctx, "panic", "panic", panicText(p), "stack", string(debug.Stack()))
				envelope, err = nil, Fatal(fmt.Errorf("tool: panic in %s", d.spec.Name))
				return
			}
			if err != nil {
				failure := failureOf(err)
				log.ErrorContext(ctx, "failure", "errorType", failure.Type, "cause", err.Error())
				envelope, err = nil, failure
			}
		}()
		if request.Version != RequestVersion || request.Tool != d.spec.Name {
			return nil, Fatal(fmt.Errorf("tool: a request of version %d for %q", request.Version, request.Tool))
		}
		if !request.Deadline.IsZero() {
			var cancel context.CancelFunc
			ctx, cancel = context.WithDeadline(ctx, request.Deadline)
			defer cancel()
		}
		return d.answer(ctx, f, log, request, handle)
	}
}

// answer makes the envelope.
func (d Definition[In, Out]) answer(ctx context.Context, f Frame, log *slog.Logger, request Request, handle func(context.Context, Call[In]) (Answer[Out], error)) ([]byte, error) {
	bounds := bounds{limits: budget.Fixed, share: request.ByteShare, tokens: f.Tokens, log: log, metrics: f.Log}
	arguments := request.Arguments
	if len(arguments) == 0 {
		arguments = jsontext.Value("{}")
	}
	call := Call[In]{Request: request, Principal: request.Principal}
	if found := schema.Decode(arguments, &call.Input); found.Refused() {
		return bounds.refuse(ctx, found, nil)
	}
	common := call.Input.common()
	bounds.limits = common.Budget.Limits()
	var err error
	if call.Digest, err = digest(arguments, d.spec.Free); err != nil {
		return nil, err
	}
	binding := cursor.Binding{Tool: d.spec.Name, Principal: request.Principal.String(), ArgsDigest: call.Digest}
	call.seal = func(ctx context.Context, pin string, p place) (string, error) {
		position, err := json.Marshal(p)
		if err != nil {
			return "", fmt.Errorf("tool: position: %w", err)
		}
		return f.Cursors.Seal(ctx, binding, cursor.Claims{Root: pin, Position: position})
	}
	var from place
	if common.Cursor != "" {
		claims, err := f.Cursors.Open(ctx, binding, common.Cursor)
		if err == nil {
			call.Pin = claims.Root
			if json.Unmarshal(claims.Position, &from) != nil {
				err = cursor.ErrInvalid // sealed by another version of this code
			}
			call.Page = from.Page
		}
		if errors.Is(err, cursor.ErrInvalid) {
			return bounds.refuseCursor(ctx)
		}
		if err != nil {
			return nil, err
		}
	}

	answer, err := handle(ctx, call)
	if err != nil {
		return nil, err
	}
	if answer.Diagnostics.Refused() {
		return bounds.refuse(ctx, answer.Diagnostics, answer.Cause)
	}
	text, err := bounds.parts(ctx, answer.Whole, answer.Beside, success{
		Data: answer.Data, Diagnostics: slices.Concat(answer.Diagnostics, answer.Found), Resources: answer.Resources,
	}, d.spec.Places, from.Part, func(part []byte) (string, error) {
		if answer.Pin == "" {
			return "", fmt.Errorf("tool: %s cut an answer without a pin", d.spec.Name)
		}
		return call.seal(ctx, answer.Pin, place{Page: call.Page, Part: part})
	})
	switch exceeded := (*budget.ExceededError)(nil); {
	case errors.Is(err, budget.ErrPosition):
		return bounds.refuseCursor(ctx)
	case errors.As(err, &exceeded):
		found := outcome.New(outcome.LimitExceeded, "/budget", outcome.Params{"budget": exceeded.Budget, "limit": exceeded.Limit, "observed": exceeded.Observed})
		// The limit may be the caller's, the contract's or the line's share of the reply.
		if most := budget.Fixed.Of(exceeded.Budget); exceeded.Limit == bounds.limits.Of(exceeded.Budget) && exceeded.Limit < most && exceeded.Observed <= most {
			found.SuggestedAction = outcome.RaiseBudget
		}
		return bounds.refuse(ctx, outcome.Findings{found}, nil)
	case err != nil:
		return nil, err
	}
	if len(answer.Diagnostics)+len(answer.Found) == 0 {
		return text, nil
	}
	return bounds.seal(ctx, text, answer.Cause)
}

// bounds makes envelopes that obey the limits of one request.
type bounds struct {
	limits budget.Limits
	share  int
	tokens func(int) int
	log    *slog.Logger
	// metrics gets the counts, without what log says of the request.
	metrics *slog.Logger
}

// idForm is what stands for a diagnosticId until the answer is cut, so that it
// has its final length and does not change which part fits.
const idForm = "00000000000000000000000000"

func newID() string { return rand.Text() } // 26 characters, 130 random bits

// success is an outcome.Envelope whose data are not encoded yet.
type success struct {
	OK          bool                 `json:"ok"`
	Data        any                  `json:"data"`
	Diagnostics []outcome.Diagnostic `json:"diagnostics"`
	Resources   []outcome.Resource   `json:"resources"`
}

// parts makes one part of a success, with the links beside it, and that to the whole
// where there is one and the answer is cut. Such links are made anew for each part and
// differ: they are no part of what is cut.
func (b *bounds) parts(ctx context.Context, whole func(context.Context) (outcome.Resource, error), beside func(context.Context) ([]outcome.Resource, error), all success, places []budget.Place, from []byte, seal func([]byte) (string, error)) ([]byte, error) {
	text, more, err := b.succeed(all, true, places, from, seal)
	if err != nil || beside == nil && (whole == nil || !more && from == nil) {
		return text, err
	}
	linked := all
	if beside != nil {
		if linked.Resources, err = beside(ctx); err != nil {
			return nil, err
		}
	}
	if whole != nil && (more || from != nil) {
		link, err := whole(ctx)
		if err != nil {
			return nil, err
		}
		linked.Resources = append(slices.Clip(linked.Resources), link)
	}
	with, _, err := b.succeed(linked, false, places, from, seal)
	if exceeded := (*budget.ExceededError)(nil); errors.As(err, &exceeded) {
		return text, nil
	}
	return with, err
}

// succeed makes one part. Resources that cannot be cut stand in every part.
func (b *bounds) succeed(all success, cutResources bool, places []budget.Place, from []byte, seal func([]byte) (string, error)) (part []byte, more bool, err error) {
	withForm := slices.Clone(all.Diagnostics)
	for i := range withForm {
		withForm[i].DiagnosticID = idForm
	}
	// The data are encoded where they stand, not first by themselves.
	around := outcome.Success(nil, withForm, all.Resources)
	document, err := json.Marshal(success{around.OK, all.Data, around.Diagnostics, around.Resources}, json.Deterministic(true))
	if err != nil {
		return nil, false, fmt.Errorf("tool: envelope: %w", err)
	}
	cuts := []budget.Place{{Path: "/diagnostics", Counts: budget.AsItems}}
	if cutResources {
		cuts = append(cuts, budget.Place{Path: "/resources", Counts: budget.AsItems})
	}
	for _, p := range places {
		p.Path = "/data" + p.Path
		cuts = append(cuts, p)
	}
	return budget.Cut(budget.Answer{
		Document: document, Told: "data", Places: cuts, Limits: b.limits, Share: b.share, Tokens: b.tokens,
		From: from, Member: "cursor", MaxValue: maxContinuation, Continue: seal,
	})
}

// maxContinuation is how long a cursor of a part may be, in characters: its room
// is kept free in every part that is cut.
const maxContinuation = 1024

// refuseCursor answers that the cursor is not valid here, not why.
func (b *bounds) refuseCursor(ctx context.Context) ([]byte, error) {
	return b.refuse(ctx, CursorInvalid(), nil)
}

// refuse answers a failure envelope. It has no data that could tell of a cut:
// when not all diagnostics fit, the last says how many there are.
func (b *bounds) refuse(ctx context.Context, found outcome.Findings, cause error) ([]byte, error) {
	if len(found) == 0 {
		return nil, fmt.Errorf("tool: refused without a diagnostic")
	}
	b.count(ctx, found)
	for shown := min(len(found), b.limits.Items); ; shown /= 2 {
		list := slices.Clone(found[:shown])
		if shown < len(found) {
			if shown > 0 {
				list = list[:shown-1]
			}
			cut := outcome.New(outcome.LimitExceeded, "", outcome.Params{"of": "diagnostics", "limit": len(list), "observed": len(found)})
			if b.limits != budget.Fixed {
				cut.SuggestedAction = outcome.RaiseBudget // there may be room for more of them
			}
			list = append(list, cut)
		}
		for i := range list {
			list[i].DiagnosticID = idForm
		}
		text, err := json.Marshal(outcome.Failure(list...), json.Deterministic(true))
		if err != nil {
			return nil, fmt.Errorf("tool: envelope: %w", err)
		}
		if budget.Fits(text, b.limits, b.share, b.tokens) || shown <= 1 {
			return b.seal(ctx, text, cause)
		}
	}
}

// count counts a refused request by each legacy entry that it has, once, whether
// or not the answer has room for the diagnostic (L2).
func (b *bounds) count(ctx context.Context, found outcome.Findings) {
	counted := map[string]bool{}
	for _, d := range found {
		// One of the fixed names of L1.
		if entry, ok := d.Params["legacy"].(string); ok && !counted[entry] {
			counted[entry] = true
			metric.Count(ctx, b.metrics, metric.LegacyRefusals, metric.Entry, entry)
		}
	}
}

// seal gives the diagnostics of a finished envelope their IDs and writes a log
// line for each.
func (b *bounds) seal(ctx context.Context, text []byte, cause error) ([]byte, error) {
	var envelope outcome.Envelope
	if err := json.Unmarshal(text, &envelope); err != nil {
		return nil, fmt.Errorf("tool: envelope: %w", err)
	}
	if len(envelope.Diagnostics) == 0 {
		return text, nil
	}
	for i := range envelope.Diagnostics {
		n := &envelope.Diagnostics[i]
		n.DiagnosticID = newID()
		attributes := []any{"diagnosticId", n.DiagnosticID, "code", n.Code, "path", n.Path, "severity", n.Severity}
		if entry, ok := n.Params["legacy"]; ok { // one of the fixed names of L1
			attributes = append(attributes, "legacy", entry)
		}
		if cause != nil {
			attributes = append(attributes, "cause", cause.Error())
		}
		b.log.InfoContext(ctx, "diagnostic", attributes...)
	}
	text, err := json.Marshal(envelope, json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("tool: envelope: %w", err)
	}
	return text, nil
}

// digest is that of the canonical arguments without what is free.
func digest(arguments jsontext.Value, free []string) (string, error) {
	var members map[string]jsontext.Value
	if err := json.Unmarshal(arguments, &members); err != nil {
		return "", fmt.Errorf("tool: arguments: %w", err)
	}
	for _, name := range append([]string{"budget", "cursor"}, free...) {
		delete(members, name)
	}
	return canon.DigestOf(members)
}

// panicText is what a log line says of a panic: a runtime error in full, and of
// anything else its type, since its text may hold what the caller sent (E3). The
// stack tells the place.
func panicText(p any) string {
	if err, ok := p.(runtime.Error); ok {
		return err.Error()
	}
	return fmt.Sprintf("a panic of type %T", p)
}

// principalHash names a principal in logs without its subject.
func principalHash(p Principal) string {
	sum := sha256.Sum256([]byte(p.String()))
	return hex.EncodeToString(sum[:8])
}

var _ Cursors = (*cursor.Box)(nil)
