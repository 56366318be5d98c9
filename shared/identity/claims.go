package identity

import (
	"crypto/sha256"
	"encoding/base64"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/golang-jwt/jwt/v5"

	"github.com/pxhost/pxhost/shared/canon"
)

// claims are the claims that are read. They are decoded strictly: names match
// by case, and a repeated one is refused, so that two readers cannot see two
// different tokens.
type claims struct {
	issuer, subject            string
	audience                   jwt.ClaimStrings
	expires, notBefore, issued *jwt.NumericDate
	scopes                     []string
	session                    string
}

// UnmarshalJSON reads the payload of a token.
func (c *claims) UnmarshalJSON(text []byte) error {
	malformed := &Error{Reason: ReasonMalformed}
	if canon.Check(text) != nil {
		return malformed
	}
	var in struct {
		Issuer    string         `json:"iss"`
		Subject   string         `json:"sub"`
		Audience  jsontext.Value `json:"aud"`
		Expires   jsontext.Value `json:"exp"`
		NotBefore jsontext.Value `json:"nbf"`
		IssuedAt  jsontext.Value `json:"iat"`
		Scope     jsontext.Value `json:"scope"`
		SCP       jsontext.Value `json:"scp"`
		SessionID jsontext.Value `json:"sid"`
		Origin    jsontext.Value `json:"origin_jti"`
		TokenID   jsontext.Value `json:"jti"`
	}
	if json.Unmarshal(text, &in) != nil {
		return malformed
	}
	if in.Subject == "" || len(in.Subject) > MaxSubject || strings.ContainsFunc(in.Subject, func(r rune) bool { return r < 0x20 || r == 0x7f }) {
		return &Error{Reason: ReasonSubject}
	}
	*c = claims{issuer: in.Issuer, subject: in.Subject, session: sessionOf(in.SessionID, in.Origin, in.TokenID)}
	audience, ok := list(in.Audience, false)
	if !ok {
		return malformed
	}
	c.audience = audience
	for _, date := range []struct {
		value jsontext.Value
		out   **jwt.NumericDate
	}{{in.Expires, &c.expires}, {in.NotBefore, &c.notBefore}, {in.IssuedAt, &c.issued}} {
		if date.value == nil {
			continue
		}
		var seconds float64
		// Beyond the year 5138 is no date; a huge one would overflow time.
		if date.value.Kind() != '0' || json.Unmarshal(date.value, &seconds) != nil || math.Abs(seconds) > 1e11 {
			return malformed
		}
		whole, fraction := math.Modf(seconds)
		*date.out = &jwt.NumericDate{Time: time.Unix(int64(whole), int64(fraction*1e9))}
	}
	for _, scopes := range []jsontext.Value{in.Scope, in.SCP} {
		names, ok := list(scopes, true)
		if !ok {
			return malformed
		}
		c.scopes = append(c.scopes, names...)
	}
	slices.Sort(c.scopes)
	c.scopes = slices.Compact(c.scopes)
	return nil
}

// sessionOf is the session of a token, from the first of these claims that it has:
//
//   - sid, the issuer's own name for a session of one user at one device (OpenID
//     Connect Front-Channel Logout); it outlives the tokens of the session;
//   - origin_jti, by which Cognito names in every access token the sign-in that the
//     token goes back to;
//   - jti, the token itself: where an issuer tells no more than that, a session
//     ends with its token.
//
// It is a digest, so that what an issuer knows a session by stays in here, and it
// covers the claim's name, so that no two claims give one session. A claim that is
// no text names nothing.
func sessionOf(sid, origin, token jsontext.Value) string {
	for _, claim := range []struct {
		name  string
		value jsontext.Value
	}{{"sid", sid}, {"origin_jti", origin}, {"jti", token}} {
		var text string
		if claim.value.Kind() != '"' || json.Unmarshal(claim.value, &text) != nil || text == "" {
			continue
		}
		sum := sha256.Sum256([]byte(claim.name + "\x00" + text))
		return base64.RawURLEncoding.EncodeToString(sum[:16])
	}
	return ""
}

// list reads a string or a list of strings. Where the string is a scope, it holds
// names between spaces.
func list(value jsontext.Value, spaced bool) ([]string, bool) {
	var out []string
	switch value.Kind() {
	case 0: // absent
		return nil, value == nil
	case '"':
		out = make([]string, 1)
		if json.Unmarshal(value, &out[0]) != nil {
			return nil, false
		}
	case '[':
		if json.Unmarshal(value, &out) != nil {
			return nil, false
		}
	default:
		return nil, false
	}
	if !spaced {
		return out, true
	}
	var names []string
	for _, text := range out {
		for name := range strings.SplitSeq(text, " ") {
			if name != "" {
				names = append(names, name)
			}
		}
	}
	return names, true
}

// The methods of jwt.Claims.

func (c *claims) GetExpirationTime() (*jwt.NumericDate, error) { return c.expires, nil }
func (c *claims) GetIssuedAt() (*jwt.NumericDate, error)       { return c.issued, nil }
func (c *claims) GetNotBefore() (*jwt.NumericDate, error)      { return c.notBefore, nil }
func (c *claims) GetIssuer() (string, error)                   { return c.issuer, nil }
func (c *claims) GetSubject() (string, error)                  { return c.subject, nil }
func (c *claims) GetAudience() (jwt.ClaimStrings, error)       { return c.audience, nil }

// readHeader reads what is used of a JOSE header and returns the kid. Where a key
// is (jku, jwk, x5u, x5c) is never taken from a token: those members are not
// looked at. crit names extensions that must be understood, and none is.
func readHeader(token string) (string, error) {
	malformed := &Error{Reason: ReasonMalformed}
	segment, _, _ := strings.Cut(token, ".")
	text, err := base64.RawURLEncoding.Strict().DecodeString(segment)
	if err != nil || canon.Check(text) != nil {
		return "", malformed
	}
	var header struct {
		Algorithm string         `json:"alg"`
		KeyID     string         `json:"kid"`
		Type      *string        `json:"typ"`
		Critical  jsontext.Value `json:"crit"`
	}
	if json.Unmarshal(text, &header) != nil || header.Critical != nil {
		return "", malformed
	}
	if header.Type != nil {
		switch strings.TrimPrefix(strings.ToLower(*header.Type), "application/") {
		case "jwt", "at+jwt":
		default:
			return "", malformed // a token of another kind, such as a DPoP proof
		}
	}
	if header.Algorithm != algorithm {
		return "", &Error{Reason: ReasonAlgorithm}
	}
	if header.KeyID == "" || len(header.KeyID) > maxKeyID {
		return "", &Error{Reason: ReasonUnknownKey}
	}
	return header.KeyID, nil
}
