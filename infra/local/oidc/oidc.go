// Package oidc is the local host's OpenID issuer: an RS256 key made at first
// start, discovery, a key set, and tokens for the sample principals.
//
// Tokens are minted from the state folder alone, without asking a running
// host. It knows nothing of who may do what: a token names a subject and one
// scope, and never both scopes, since what an AI holds must not approve.
package oidc

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net/http"
	"os"
	"time"

	"github.com/pxhost/pxhost/infra/local/statedir"
)

// Audience is the aud of every token.
const Audience = "pxhost"

// Lifetime of a token.
const Lifetime = time.Hour

// Scopes a token may have, one at a time.
const (
	ScopeTools   = "px.tools"
	ScopeApprove = "px.approve"
)

// Subjects are the sample principals.
var Subjects = []string{"engineer", "reviewer", "viewer", "other"}

const keyFile = "oidc-key.pem"

// A Key signs tokens.
type Key struct {
	private *rsa.PrivateKey
	id      string // RFC 7638 thumbprint
}

// Open returns the folder's key, made at first use.
func Open(d *statedir.Dir) (*Key, error) {
	b, err := d.Keep(keyFile, func() ([]byte, error) {
		k, err := rsa.GenerateKey(rand.Reader, 2048)
		if err != nil {
			return nil, err
		}
		der, err := x509.MarshalPKCS8PrivateKey(k)
		if err != nil {
			return nil, err
		}
		return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
	})
	if err != nil {
		return nil, err
	}
	return parse(d.Path(keyFile), b)
}

// Read returns the key of a host that has started; the error is
// [statedir.ErrNotStarted] otherwise.
func Read(d *statedir.Dir) (*Key, error) {
	b, err := os.ReadFile(d.Path(keyFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", d.Root(), statedir.ErrNotStarted)
	}
	if err != nil {
		return nil, err
	}
	return parse(d.Path(keyFile), b)
}

func parse(path string, b []byte) (*Key, error) {
	block, _ := pem.Decode(b)
	if block == nil {
		return nil, fmt.Errorf("%s is damaged: no PEM block", path)
	}
	any, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s is damaged: %w", path, err)
	}
	k, ok := any.(*rsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("%s is damaged: not an RSA key", path)
	}
	// RFC 7638: the required members, in lexical order, without spaces.
	sum := sha256.Sum256([]byte(`{"e":"` + exponent(k) + `","kty":"RSA","n":"` + b64(k.N.Bytes()) + `"}`))
	return &Key{private: k, id: b64(sum[:])}, nil
}

func b64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

func exponent(k *rsa.PrivateKey) string { return b64(big.NewInt(int64(k.E)).Bytes()) }

// Token mints a token of issuer for subject with one scope, valid for
// [Lifetime] from now. The state folder is one person's, who signs in by having
// it: all tokens that are made from it for a subject are of one session, which
// lasts as long as the key.
func (k *Key) Token(issuer, subject, scope string, now time.Time) (string, error) {
	return k.TokenOf("", issuer, subject, scope, now)
}

// TokenOf mints a token as Token does, of another session of the subject: the one
// of this name.
func (k *Key) TokenOf(session, issuer, subject, scope string, now time.Time) (string, error) {
	if scope != ScopeTools && scope != ScopeApprove {
		return "", fmt.Errorf("the scope is %s or %s, never both", ScopeTools, ScopeApprove)
	}
	if issuer == "" || subject == "" {
		return "", errors.New("a token has an issuer and a subject")
	}
	head, err := json.Marshal(map[string]string{"alg": "RS256", "typ": "JWT", "kid": k.id})
	if err != nil {
		return "", err
	}
	body, err := json.Marshal(map[string]any{
		"iss": issuer, "sub": subject, "aud": Audience, "scope": scope, "jti": rand.Text(), "sid": k.session(subject, session),
		"iat": now.Unix(), "nbf": now.Unix(), "exp": now.Add(Lifetime).Unix(),
	})
	if err != nil {
		return "", err
	}
	text := b64(head) + "." + b64(body)
	sum := sha256.Sum256([]byte(text))
	sig, err := rsa.SignPKCS1v15(rand.Reader, k.private, crypto.SHA256, sum[:])
	if err != nil {
		return "", err
	}
	return text + "." + b64(sig), nil
}

// session is the sid of a subject's tokens.
func (k *Key) session(subject, name string) string {
	sum := sha256.Sum256([]byte(k.id + "\x00" + subject + "\x00" + name))
	return b64(sum[:16])
}

// Paths that Handler serves.
const (
	DiscoveryPath = "/.well-known/openid-configuration"
	KeysPath      = "/.well-known/jwks.json"
)

// Handler serves discovery, as OpenID Connect and as RFC 8414 have it, and the key set
// of issuer.
func (k *Key) Handler(issuer string) http.Handler {
	metadata := map[string]any{
		"issuer": issuer, "jwks_uri": issuer + KeysPath,
		"authorization_endpoint": issuer + AuthorizePath, "token_endpoint": issuer + TokenPath, "registration_endpoint": issuer + RegisterPath,
		"id_token_signing_alg_values_supported":          []string{"RS256"},
		"response_types_supported":                       []string{"code"},
		"response_modes_supported":                       []string{"query"},
		"grant_types_supported":                          []string{"authorization_code"},
		"code_challenge_methods_supported":               []string{"S256"},
		"token_endpoint_auth_methods_supported":          []string{"none"},
		"authorization_response_iss_parameter_supported": true,
		"subject_types_supported":                        []string{"public"},
		"scopes_supported":                               []string{ScopeTools, ScopeApprove},
	}
	documents := map[string]any{
		DiscoveryPath: metadata,
		MetadataPath:  metadata,
		KeysPath: map[string]any{"keys": []any{map[string]string{
			"kty": "RSA", "use": "sig", "alg": "RS256", "kid": k.id, "n": b64(k.private.N.Bytes()), "e": exponent(k.private),
		}}},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		doc, ok := documents[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "public, max-age=300")
		w.Header().Set("Access-Control-Allow-Origin", "*") // clients that are pages read it too
		json.NewEncoder(w).Encode(doc)
	})
}
