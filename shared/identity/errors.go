package identity

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// A Reason says why a token is refused. It may be shown to anyone: it is one of
// the constants below and holds nothing of the token.
type Reason string

// The reasons.
const (
	ReasonMissing     Reason = "token_missing"
	ReasonTooLarge    Reason = "token_too_large"
	ReasonMalformed   Reason = "token_malformed"
	ReasonAlgorithm   Reason = "algorithm_not_allowed"
	ReasonUnknownKey  Reason = "key_unknown"
	ReasonSignature   Reason = "signature_invalid"
	ReasonIssuer      Reason = "issuer_not_accepted"
	ReasonAudience    Reason = "audience_not_accepted"
	ReasonSubject     Reason = "subject_not_accepted"
	ReasonExpired     Reason = "token_expired"
	ReasonNoExpiry    Reason = "expiry_missing"
	ReasonNotYet      Reason = "token_not_yet_valid"
	ReasonMixedScopes Reason = "scopes_mixed" // px.tools and px.approve in one token
	ReasonScope       Reason = "scope_missing"
	ReasonUnavailable Reason = "keys_unavailable" // not the token's fault: the key set cannot be read now
)

// An Error is a refusal. Its text is its reason; the cause is for a log, and
// holds nothing of the token either.
type Error struct {
	Reason Reason
	Cause  error // of ReasonUnavailable
	scope  string
}

func (e *Error) Error() string { return "identity: " + string(e.Reason) }

func (e *Error) Unwrap() error { return e.Cause }

// reasonOf turns an error of the parser into ours. The parser's own texts are
// dropped: some of them quote the token.
func reasonOf(err error, c *claims) *Error {
	var own *Error
	if errors.As(err, &own) {
		return own
	}
	// In the order in which the parser looks; several claims may be wrong.
	for _, known := range []struct {
		err    error
		reason Reason
	}{
		{jwt.ErrTokenMalformed, ReasonMalformed},
		{jwt.ErrTokenInvalidIssuer, ReasonIssuer},
		{jwt.ErrTokenInvalidAudience, ReasonAudience},
		{jwt.ErrTokenExpired, ReasonExpired},
		{jwt.ErrTokenNotValidYet, ReasonNotYet},
		{jwt.ErrTokenUsedBeforeIssued, ReasonNotYet},
	} {
		if errors.Is(err, known.err) {
			return &Error{Reason: known.reason}
		}
	}
	switch {
	case errors.Is(err, jwt.ErrTokenRequiredClaimMissing) && len(c.audience) == 0:
		return &Error{Reason: ReasonAudience}
	case errors.Is(err, jwt.ErrTokenRequiredClaimMissing): // iss was looked at before
		return &Error{Reason: ReasonNoExpiry}
	case errors.Is(err, jwt.ErrTokenSignatureInvalid):
		return &Error{Reason: ReasonSignature}
	}
	return &Error{Reason: ReasonMalformed}
}

// Answer returns how HTTP answers a refusal: the status and the headers, as RFC
// 6750 wants them. What could not be checked is 503, not the client's fault.
func Answer(err error) (status int, header http.Header) {
	header = http.Header{}
	var own *Error
	if !errors.As(err, &own) {
		return http.StatusInternalServerError, header
	}
	challenge := `Bearer realm="pxhost"`
	switch own.Reason {
	case ReasonUnavailable:
		header.Set("Retry-After", strconv.Itoa(int(retryAfter/time.Second)))
		return http.StatusServiceUnavailable, header
	case ReasonMissing: // no error code for who has not tried
		status = http.StatusUnauthorized
	case ReasonScope:
		status = http.StatusForbidden
		challenge += `, error="insufficient_scope", scope="` + own.scope + `"`
	default:
		status = http.StatusUnauthorized
		challenge += `, error="invalid_token", error_description="` + string(own.Reason) + `"`
	}
	header.Set("WWW-Authenticate", challenge)
	return status, header
}
