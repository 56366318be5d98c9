// Package identity is the one verifier of bearer tokens: every door of pxhost
// that takes a token asks it, so that none is laxer than another.
//
// It accepts JWTs signed by RS256 with a key of the issuer's published set, and
// nothing else. It knows no tool, no Project and no right: what a principal may
// do is for package policy.
package identity

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// The scopes. One token never holds both: what an AI holds must not approve (U6).
const (
	ScopeTools   = "px.tools"   // for what an AI client holds
	ScopeApprove = "px.approve" // for a person's browser
)

// algorithm is the one that is accepted. The header's alg is compared with it and
// never selects anything.
const algorithm = "RS256"

// The bounds of a token.
const (
	MaxToken   = 8 << 10          // bytes of the token as sent
	MaxSubject = 255              // bytes
	Leeway     = 60 * time.Second // for exp, nbf and iat
)

// A Token is what a verified token says.
type Token struct {
	Issuer  string
	Subject string
	Scopes  []string // sorted, without repetition
	Expires time.Time
	// Session names the session that the token is of, as sessionOf says: the same
	// for all tokens of one sign-in, and of no meaning but to be compared. "" is a
	// token that names none.
	Session string
}

// Has reports whether the token holds a scope.
func (t Token) Has(scope string) bool { return slices.Contains(t.Scopes, scope) }

// A Config says whose tokens are accepted.
type Config struct {
	Issuer   string // exactly as in iss
	Audience string // one of aud
	// KeysURL is where the issuer's JWKS is. Empty means: ask the issuer's
	// /.well-known/openid-configuration. It is an HTTPS address; plain HTTP is
	// for loopback alone.
	KeysURL string
	Client  *http.Client     // nil means one of its own; redirects are never followed
	Now     func() time.Time // nil means time.Now
}

// A Verifier verifies tokens of one issuer for one audience. It may be used by
// many goroutines.
type Verifier struct {
	issuer string
	keys   *keySet
	parser *jwt.Parser
}

// New returns a Verifier. It fetches nothing before the first token.
func New(config Config) (*Verifier, error) {
	if config.Issuer == "" || config.Audience == "" {
		return nil, errors.New("identity: issuer and audience must be set")
	}
	now := config.Now
	if now == nil {
		now = time.Now
	}
	keys, err := newKeySet(config, now)
	if err != nil {
		return nil, err
	}
	return &Verifier{
		issuer: config.Issuer,
		keys:   keys,
		parser: jwt.NewParser(
			jwt.WithValidMethods([]string{algorithm}),
			jwt.WithStrictDecoding(),
			jwt.WithIssuer(config.Issuer),
			jwt.WithAudience(config.Audience),
			jwt.WithExpirationRequired(),
			jwt.WithIssuedAt(),
			jwt.WithLeeway(Leeway),
			jwt.WithTimeFunc(now),
		),
	}, nil
}

// Verify checks the value of an Authorization header and that its token holds
// the scope. Every error is an *Error.
func (v *Verifier) Verify(ctx context.Context, authorization, scope string) (Token, error) {
	token, err := v.verify(ctx, authorization)
	switch {
	case err != nil:
		return Token{}, err
	case token.Has(ScopeTools) && token.Has(ScopeApprove):
		return Token{}, &Error{Reason: ReasonMixedScopes}
	case !token.Has(scope):
		return Token{}, &Error{Reason: ReasonScope, scope: scope}
	}
	return token, nil
}

func (v *Verifier) verify(ctx context.Context, authorization string) (Token, error) {
	text, err := bearer(authorization)
	if err != nil {
		return Token{}, err
	}
	kid, err := readHeader(text)
	if err != nil {
		return Token{}, err
	}
	c := &claims{}
	_, err = v.parser.ParseWithClaims(text, c, func(*jwt.Token) (any, error) {
		// The key set is asked only for a token that claims to be the issuer's;
		// the claim is believed after the signature alone.
		if c.issuer != v.issuer {
			return nil, &Error{Reason: ReasonIssuer}
		}
		return v.keys.key(ctx, kid)
	})
	if err != nil {
		return Token{}, reasonOf(err, c)
	}
	return Token{Issuer: c.issuer, Subject: c.subject, Scopes: c.scopes, Expires: c.expires.Time, Session: c.session}, nil
}

// bearer returns the token of an Authorization header. Two headers arrive as one
// that is joined by a comma, which is no character of a token.
func bearer(authorization string) (string, error) {
	scheme, token, _ := strings.Cut(authorization, " ")
	switch {
	case authorization == "":
		return "", &Error{Reason: ReasonMissing}
	case len(authorization) > MaxToken+len("Bearer "):
		return "", &Error{Reason: ReasonTooLarge}
	case !strings.EqualFold(scheme, "Bearer"):
		return "", &Error{Reason: ReasonMissing} // another scheme is not offered here
	}
	for _, c := range []byte(token) {
		if c != '.' && c != '-' && c != '_' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			return "", &Error{Reason: ReasonMalformed}
		}
	}
	return token, nil
}
