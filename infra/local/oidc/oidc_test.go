package oidc

import (
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/pxhost/pxhost/infra/local/statedir"
)

func open(t *testing.T) (*Key, *statedir.Dir) {
	t.Helper()
	d, err := statedir.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	k, err := Open(d)
	if err != nil {
		t.Fatal(err)
	}
	return k, d
}

// An independent library verifies tokens with what the issuer publishes.
//
// covers: H4
func TestTokensVerifyAgainstThePublishedKeys(t *testing.T) {
	k, d := open(t)
	srv := httptest.NewServer(nil)
	defer srv.Close()
	srv.Config.Handler = k.Handler(srv.URL)
	get := func(url string, into any) {
		t.Helper()
		resp, err := http.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if err := json.NewDecoder(resp.Body).Decode(into); err != nil || resp.StatusCode != 200 {
			t.Fatalf("%s: %d, %v", url, resp.StatusCode, err)
		}
	}
	var disco struct{ Issuer, JWKS_URI string }
	get(srv.URL+DiscoveryPath, &disco)
	if disco.Issuer != srv.URL {
		t.Errorf("issuer %q", disco.Issuer)
	}
	var set struct {
		Keys []struct{ Kty, Kid, N, E, Alg, Use string }
	}
	get(disco.JWKS_URI, &set)
	keyOf := func(tok *jwt.Token) (any, error) {
		for _, j := range set.Keys {
			if j.Kid == tok.Header["kid"] && j.Kty == "RSA" {
				n, err1 := base64.RawURLEncoding.DecodeString(j.N)
				e, err2 := base64.RawURLEncoding.DecodeString(j.E)
				return &rsa.PublicKey{N: new(big.Int).SetBytes(n), E: int(new(big.Int).SetBytes(e).Int64())}, errors.Join(err1, err2)
			}
		}
		return nil, errors.New("no such key")
	}
	now := time.Now()
	parser := func(at time.Time) *jwt.Parser {
		return jwt.NewParser(jwt.WithValidMethods([]string{"RS256"}), jwt.WithIssuer(srv.URL), jwt.WithAudience("pxhost"), jwt.WithExpirationRequired(), jwt.WithTimeFunc(func() time.Time { return at }))
	}
	again, err := Read(d) // what px token does, offline
	if err != nil {
		t.Fatal(err)
	}
	for _, scope := range []string{ScopeTools, ScopeApprove} {
		token, err := again.Token(srv.URL, "engineer", scope, now)
		if err != nil {
			t.Fatal(err)
		}
		claims := jwt.MapClaims{}
		if _, err := parser(now).ParseWithClaims(token, claims, keyOf); err != nil {
			t.Fatal(err)
		}
		if claims["sub"] != "engineer" || claims["scope"] != scope {
			t.Errorf("%v", claims)
		}
		if _, err := parser(now.Add(Lifetime-time.Second)).Parse(token, keyOf); err != nil {
			t.Errorf("just before its end: %v", err)
		}
		if _, err := parser(now.Add(Lifetime+time.Second)).Parse(token, keyOf); !errors.Is(err, jwt.ErrTokenExpired) {
			t.Errorf("after its end: %v", err)
		}
		other, _ := open(t)
		foreign, _ := other.Token(srv.URL, "engineer", scope, now)
		if _, err := parser(now).Parse(foreign, keyOf); err == nil {
			t.Error("a token of another state folder is accepted")
		}
	}
}

// covers: T4
func TestAllTokensOfASubjectAreOfOneSessionUnlessAnotherIsNamed(t *testing.T) {
	k, d := open(t)
	again, err := Read(d)
	if err != nil {
		t.Fatal(err)
	}
	other, _ := open(t)
	sid := func(k *Key, session, subject string, when time.Time) string {
		t.Helper()
		token, err := k.TokenOf(session, "https://issuer", subject, ScopeTools, when)
		if err != nil {
			t.Fatal(err)
		}
		claims := jwt.MapClaims{}
		if _, _, err := jwt.NewParser().ParseUnverified(token, claims); err != nil {
			t.Fatal(err)
		}
		text, _ := claims["sid"].(string)
		return text
	}
	now := time.Now()
	first := sid(k, "", "engineer", now)
	if first == "" || sid(again, "", "engineer", now.Add(time.Hour)) != first {
		t.Error("a later token of the subject is of another session")
	}
	for name, sid := range map[string]string{
		"another subject": sid(k, "", "reviewer", now), "a session of its own": sid(k, "x", "engineer", now), "another key": sid(other, "", "engineer", now),
	} {
		if sid == first || sid == "" {
			t.Errorf("%s: %q", name, sid)
		}
	}
}

func TestNoTokenHasBothScopes(t *testing.T) {
	k, _ := open(t)
	for _, scope := range []string{"", "px.tools px.approve", "px.approve px.tools", "px.admin"} {
		if tok, err := k.Token("http://x", "engineer", scope, time.Now()); err == nil {
			t.Errorf("scope %q: %s", scope, tok)
		}
	}
}

func TestTheKeyStays(t *testing.T) {
	k, d := open(t)
	again, err := Open(d)
	if err != nil || again.id != k.id {
		t.Errorf("another key after a restart: %v", err)
	}
	st, err := os.Stat(d.Path(keyFile))
	if err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", st.Mode(), err)
	}
	if _, err := Read(statedir.At(t.TempDir())); !errors.Is(err, statedir.ErrNotStarted) {
		t.Errorf("no key yet: %v", err)
	}
	for _, damage := range []string{"", "not PEM", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"} {
		if err := d.Write(keyFile, []byte(damage)); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(d); err == nil || !strings.Contains(err.Error(), "is damaged") {
			t.Errorf("damaged key %q: %v", damage, err)
		}
	}
}
