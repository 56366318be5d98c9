// Package session is where a person is signed in to the console.
//
// A session is a row that ends with the token by which the person signed in, or before,
// when he signs out. What the browser has of it is a random key in a cookie, and what the
// store has of that is a digest: who reads the table can sign in as nobody. The token
// itself is kept nowhere. It was looked at once, at the sign-in; the console acts by what
// it said (the principal) and calls nobody who wants it. So there is nothing in a page, a
// cookie or a row that any other door would take.
//
// It is a row and not a sealed cookie because a sealed cookie cannot end before its time:
// who signs out of somebody else's machine must be signed out of it. The price is one
// consistent read for each page.
package session

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"strings"
	"time"
)

// A Session is of one person in one browser.
type Session struct {
	ID      string    `json:"-"` // the digest of the key, by which it is stored
	Issuer  string    `json:"iss"`
	Subject string    `json:"sub"`
	Scopes  []string  `json:"scopes"`            // of the token
	Token   string    `json:"session,omitempty"` // the token's own session; see identity.Token
	Begun   time.Time `json:"begun"`
	Expires time.Time `json:"expires"`
}

// ErrNone is of a session that does not exist: it never did, has expired or was ended.
var ErrNone = errors.New("session: there is none")

// Store keeps sessions.
type Store interface {
	// BeginSession stores a new session. Storing the same one again is no error.
	BeginSession(ctx context.Context, s Session) error
	// Session returns a session by its ID, consistently read, or ErrNone. It may return
	// one that has expired.
	Session(ctx context.Context, id string) (Session, error)
	// EndSession ends a session for ever. Ending what does not exist is no error.
	EndSession(ctx context.Context, id string, until time.Time) error
}

// keyBytes are random.
const keyBytes = 32

// A Key is what a browser holds. It is a secret.
type Key string

// NewKey returns a new key.
func NewKey() Key {
	var b [keyBytes]byte
	rand.Read(b[:])
	return Key(base64.RawURLEncoding.EncodeToString(b[:]))
}

// ReadKey returns what a cookie holds, if it can be a key.
func ReadKey(text string) (Key, bool) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	return Key(text), err == nil && len(b) == keyBytes && !strings.ContainsAny(text, "\r\n")
}

// ID is what the session of a key is stored by.
func (k Key) ID() string { return k.derive("session") }

// FormToken is what every form of the session holds and no page of another origin can
// know: it follows from the key, which no script can read.
func (k Key) FormToken() string { return k.derive("form") }

// Made reports whether a form of this session has this token.
func (k Key) Made(formToken string) bool {
	return subtle.ConstantTimeCompare([]byte(formToken), []byte(k.FormToken())) == 1
}

func (k Key) derive(purpose string) string {
	m := hmac.New(sha256.New, []byte(k))
	m.Write([]byte("pxhost console " + purpose))
	return base64.RawURLEncoding.EncodeToString(m.Sum(nil))
}
