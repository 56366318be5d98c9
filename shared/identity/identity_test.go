package identity

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/golang-jwt/jwt/v5"
)

// The keys are made once: making one takes a tenth of a second.
var (
	key     = sync.OnceValue(func() *rsa.PrivateKey { return makeKey(2048) })
	another = sync.OnceValue(func() *rsa.PrivateKey { return makeKey(2048) })
)

func makeKey(bits int) *rsa.PrivateKey {
	k, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		panic(err)
	}
	return k
}

func b64(data []byte) string { return base64.RawURLEncoding.EncodeToString(data) }

func jwk(kid string, k *rsa.PublicKey) map[string]any {
	return map[string]any{"kty": "RSA", "use": "sig", "alg": "RS256", "kid": kid, "n": b64(k.N.Bytes()), "e": b64(big.NewInt(int64(k.E)).Bytes())}
}

// An issuer publishes a key set that a test may change.
type issuer struct {
	url     string
	now     atomic.Int64 // Unix seconds
	fetches atomic.Int32
	body    atomic.Pointer[[]byte]
	status  atomic.Int32
}

func newIssuer(t testing.TB) *issuer {
	i := &issuer{}
	i.now.Store(1_800_000_000)
	i.status.Store(200)
	i.publish(map[string]any{"keys": []any{jwk("k1", &key().PublicKey)}})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/.well-known/openid-configuration":
			fmt.Fprintf(w, `{"issuer":%q,"jwks_uri":%q}`, i.url, i.url+"/keys")
		case "/moved":
			http.Redirect(w, r, "/keys", http.StatusFound)
		case "/keys":
			i.fetches.Add(1)
			w.WriteHeader(int(i.status.Load()))
			_, _ = w.Write(*i.body.Load())
		}
	}))
	t.Cleanup(server.Close)
	i.url = server.URL
	return i
}

func (i *issuer) publish(set any) {
	body, err := json.Marshal(set)
	if err != nil {
		panic(err)
	}
	i.body.Store(&body)
}

func (i *issuer) verifier(t testing.TB, change ...func(*Config)) *Verifier {
	t.Helper()
	config := Config{Issuer: i.url, Audience: "pxhost", Now: func() time.Time { return time.Unix(i.now.Load(), 0) }}
	for _, c := range change {
		c(&config)
	}
	v, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// good returns the claims of a token that is accepted.
func (i *issuer) good() map[string]any {
	now := i.now.Load()
	return map[string]any{"iss": i.url, "aud": "pxhost", "sub": "engineer", "iat": now, "nbf": now, "exp": now + 3600, "scope": "px.tools"}
}

var goodHeader = map[string]any{"alg": "RS256", "typ": "JWT", "kid": "k1"}

// sign makes a token of any header and claims; text stands for itself.
func sign(t testing.TB, k *rsa.PrivateKey, header, claims any) string {
	t.Helper()
	part := func(v any) string {
		if text, ok := v.(string); ok {
			return b64([]byte(text))
		}
		text, err := json.Marshal(v, json.Deterministic(true))
		if err != nil {
			t.Fatal(err)
		}
		return b64(text)
	}
	head := part(header) + "." + part(claims)
	sum := crypto.SHA256.New()
	sum.Write([]byte(head))
	signature, err := rsa.SignPKCS1v15(rand.Reader, k, crypto.SHA256, sum.Sum(nil))
	if err != nil {
		t.Fatal(err)
	}
	return head + "." + b64(signature)
}

func with(m map[string]any, pairs ...any) map[string]any {
	out := maps.Clone(m)
	for i := 0; i < len(pairs); i += 2 {
		if name := pairs[i].(string); pairs[i+1] == nil {
			delete(out, name)
		} else {
			out[name] = pairs[i+1]
		}
	}
	return out
}

func reason(err error) Reason {
	var own *Error
	if errors.As(err, &own) {
		return own.Reason
	}
	return ""
}

// covers: U6
func TestVerify(t *testing.T) {
	i := newIssuer(t)
	v := i.verifier(t)
	now := i.now.Load()
	// The key set lives a minute a token, so that an unknown kid is looked up
	// each time; the claims are judged at one moment.
	clock := time.Unix(now, 0)
	v.keys.now = func() time.Time { clock = clock.Add(time.Minute); return clock }
	publicDER, _ := x509.MarshalPKIXPublicKey(&key().PublicKey)
	publicPEM := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: publicDER})
	claims := func(pairs ...any) string { return sign(t, key(), goodHeader, with(i.good(), pairs...)) }
	header := func(pairs ...any) string { return sign(t, key(), with(goodHeader, pairs...), i.good()) }
	library := func(method jwt.SigningMethod, k any) string {
		token := jwt.NewWithClaims(method, jwt.MapClaims(i.good()))
		token.Header["kid"] = "k1"
		text, err := token.SignedString(k)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	elliptic, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	good := claims()
	head, rest, _ := strings.Cut(good, ".")
	body, signature, _ := strings.Cut(rest, ".")

	for _, c := range []struct {
		name, token string
		want        Reason
	}{
		{"a good token", good, ""},
		{"a token that a library made", library(jwt.SigningMethodRS256, key()), ""},
		{"typ at+jwt", header("typ", "at+jwt"), ""},
		{"no typ", header("typ", nil), ""},
		{"an audience among several", claims("aud", []string{"other", "pxhost"}), ""},
		{"scp as a list", claims("scope", nil, "scp", []string{"px.tools"}), ""},
		{"a scope among others", claims("scope", "openid px.tools"), ""},
		{"neither nbf nor iat", claims("nbf", nil, "iat", nil), ""},
		{"exp a fraction of a second ahead", claims("exp", float64(now)+0.5), ""},
		{"expired 59 seconds ago", claims("exp", now-59), ""},
		{"nbf 60 seconds ahead", claims("nbf", now+60), ""},
		{"iat 60 seconds ahead", claims("iat", now+60), ""},

		{"an unsigned token", head + "." + body + ".", ReasonSignature},
		{"alg none", b64([]byte(`{"alg":"none","kid":"k1"}`)) + "." + body + ".", ReasonAlgorithm},
		{"alg None", b64([]byte(`{"alg":"None","kid":"k1"}`)) + "." + body + ".", ReasonAlgorithm},
		{"alg none with a good signature", header("alg", "none"), ReasonAlgorithm},
		{"no alg", header("alg", nil), ReasonAlgorithm},
		{"alg as a list", header("alg", []string{"RS256"}), ReasonMalformed},
		{"alg in another case", header("alg", "rs256"), ReasonAlgorithm},
		{"HS256 with the public key's PEM", library(jwt.SigningMethodHS256, publicPEM), ReasonAlgorithm},
		{"HS256 with the public key's DER", library(jwt.SigningMethodHS256, publicDER), ReasonAlgorithm},
		{"HS256 with the modulus", library(jwt.SigningMethodHS256, key().N.Bytes()), ReasonAlgorithm},
		{"RS384 of the right key", library(jwt.SigningMethodRS384, key()), ReasonAlgorithm},
		{"PS256 of the right key", library(jwt.SigningMethodPS256, key()), ReasonAlgorithm},
		{"ES256", library(jwt.SigningMethodES256, elliptic), ReasonAlgorithm},
		{"a signature of another key", sign(t, another(), goodHeader, i.good()), ReasonSignature},
		{"a signature cut short", head + "." + body + "." + b64([]byte(decode(signature))[:255]), ReasonSignature},
		{"claims that were exchanged", head + "." + b64([]byte(strings.Replace(decode(body), "engineer", "reviewer", 1))) + "." + signature, ReasonSignature},
		{"a signature with a stray bit", good[:len(good)-1] + string(good[len(good)-1]^1), ReasonMalformed},

		{"no kid", header("kid", nil), ReasonUnknownKey},
		{"an empty kid", header("kid", ""), ReasonUnknownKey},
		{"a kid that is a path", header("kid", "../../dev/null"), ReasonUnknownKey},
		{"a kid that is a query", header("kid", "k1' OR '1'='1"), ReasonUnknownKey},
		{"a kid of 257 bytes", header("kid", strings.Repeat("k", 257)), ReasonUnknownKey},
		{"a kid that is a number", header("kid", 1), ReasonMalformed},
		{"a key in jwk", sign(t, another(), with(goodHeader, "jwk", jwk("k1", &another().PublicKey)), i.good()), ReasonSignature},
		{"a key in jwk under its own kid", sign(t, another(), with(goodHeader, "kid", "k2", "jwk", jwk("k2", &another().PublicKey)), i.good()), ReasonUnknownKey},
		{"a key set at jku", sign(t, another(), with(goodHeader, "kid", "k2", "jku", i.url+"/keys"), i.good()), ReasonUnknownKey},
		{"a certificate at x5u", sign(t, another(), with(goodHeader, "kid", "k2", "x5u", i.url+"/keys", "x5c", []string{"x"}), i.good()), ReasonUnknownKey},
		{"jku beside a good signature has no effect", header("jku", "https://elsewhere.example/keys"), ""},
		{"crit", header("crit", []string{"exp"}), ReasonMalformed},
		{"typ of a DPoP proof", header("typ", "dpop+jwt"), ReasonMalformed},
		{"two algs", sign(t, key(), `{"alg":"RS256","alg":"none","kid":"k1"}`, i.good()), ReasonMalformed},
		{"a header that is no object", sign(t, key(), `"RS256"`, i.good()), ReasonMalformed},

		{"another issuer", claims("iss", "https://elsewhere.example"), ReasonIssuer},
		{"the issuer with a slash", claims("iss", i.url+"/"), ReasonIssuer},
		{"no issuer", claims("iss", nil), ReasonIssuer},
		{"issuer in another case", claims("iss", nil, "ISS", i.url), ReasonIssuer},
		{"another audience", claims("aud", "other"), ReasonAudience},
		{"no audience", claims("aud", nil), ReasonAudience},
		{"an empty audience", claims("aud", []string{}), ReasonAudience},
		{"an audience that is an object", claims("aud", map[string]any{"pxhost": 1}), ReasonMalformed},
		{"expired 60 seconds ago", claims("exp", now-60), ReasonExpired},
		{"no exp", claims("exp", nil), ReasonNoExpiry},
		{"exp null", sign(t, key(), goodHeader, fmt.Sprintf(`{"iss":%q,"aud":"pxhost","sub":"e","exp":null,"scope":"px.tools"}`, i.url)), ReasonMalformed},
		{"exp as a string", claims("exp", fmt.Sprint(now+3600)), ReasonMalformed},
		{"exp beyond any date", claims("exp", 1e300), ReasonMalformed},
		{"exp zero", claims("exp", 0), ReasonExpired},
		{"EXP in another case", claims("exp", nil, "EXP", now+3600), ReasonNoExpiry},
		{"nbf 61 seconds ahead", claims("nbf", now+61), ReasonNotYet},
		{"iat 61 seconds ahead", claims("iat", now+61), ReasonNotYet},
		{"no subject", claims("sub", nil), ReasonSubject},
		{"an empty subject", claims("sub", ""), ReasonSubject},
		{"a subject of 256 bytes", claims("sub", strings.Repeat("s", 256)), ReasonSubject},
		{"a subject with NUL", claims("sub", "a\x00b"), ReasonSubject},
		{"a subject that is a number", claims("sub", 1), ReasonMalformed},
		{"two subjects", sign(t, key(), goodHeader, fmt.Sprintf(`{"iss":%q,"aud":"pxhost","sub":"viewer","sub":"engineer","exp":%d,"scope":"px.tools"}`, i.url, now+60)), ReasonMalformed},
		{"claims that are null", sign(t, key(), goodHeader, `null`), ReasonIssuer},
		{"claims that are a list", sign(t, key(), goodHeader, `[]`), ReasonMalformed},
		{"claims that are no JSON", sign(t, key(), goodHeader, `{"iss"`), ReasonMalformed},

		{"no scope", claims("scope", nil), ReasonScope},
		{"another scope", claims("scope", "openid"), ReasonScope},
		{"a scope that only begins like ours", claims("scope", "px.tools2 xpx.tools PX.TOOLS"), ReasonScope},
		{"the approver's scope", claims("scope", "px.approve"), ReasonScope},
		{"both scopes", claims("scope", "px.tools px.approve"), ReasonMixedScopes},
		{"both scopes in two claims", claims("scp", []string{"px.approve"}), ReasonMixedScopes},
		{"a scope that is an object", claims("scope", map[string]any{"px.tools": true}), ReasonMalformed},
		{"a scope that is null", sign(t, key(), goodHeader, fmt.Sprintf(`{"iss":%q,"aud":"pxhost","sub":"e","exp":%d,"scope":null}`, i.url, now+60)), ReasonMalformed},

		{"two parts", head + "." + body, ReasonMalformed},
		{"four parts", good + "." + signature, ReasonMalformed},
		{"five parts of an encrypted token", head + ".." + body + "." + signature + "." + signature, ReasonMalformed},
		{"nothing", "", ReasonMalformed},
		{"padding", good + "=", ReasonMalformed},
		{"plain base64", strings.ReplaceAll(good, "_", "/"), ReasonMalformed},
		{"two tokens", good + "," + good, ReasonMalformed},
		{"a token over the limit", strings.Repeat("a", MaxToken+1), ReasonTooLarge},
	} {
		t.Run(c.name, func(t *testing.T) {
			token, err := v.Verify(t.Context(), "Bearer "+c.token, ScopeTools)
			if reason(err) != c.want || (err != nil) != (c.want != "") {
				t.Fatalf("got %v, want %q", err, c.want)
			}
			if err == nil && (token.Issuer != i.url || token.Subject != "engineer" || !token.Has(ScopeTools) || token.Has(ScopeApprove)) {
				t.Errorf("got %+v", token)
			}
			if err != nil {
				for part := range strings.SplitSeq(c.token, ".") {
					if len(part) > 8 && strings.Contains(fmt.Sprintf("%v %+v", err, err), part) {
						t.Errorf("the error quotes the token: %v", err)
					}
				}
				if strings.Contains(err.Error(), "engineer") || strings.Contains(err.Error(), "dev/null") {
					t.Errorf("the error quotes a claim: %v", err)
				}
			}
		})
	}
}

func decode(segment string) string {
	text, _ := base64.RawURLEncoding.DecodeString(segment)
	return string(text)
}

// covers: T4
func TestASessionIsThatOfTheFirstClaimThatNamesOne(t *testing.T) {
	i := newIssuer(t)
	v := i.verifier(t)
	of := func(pairs ...any) string {
		t.Helper()
		token, err := v.Verify(t.Context(), "Bearer "+sign(t, key(), goodHeader, with(i.good(), pairs...)), ScopeTools)
		if err != nil {
			t.Fatal(err)
		}
		return token.Session
	}
	sid, origin, token := of("sid", "a"), of("origin_jti", "a"), of("jti", "a")
	for name, c := range map[string]struct {
		got, want string
	}{
		"no claim":                           {of(), ""},
		"texts that are empty":               {of("sid", "", "jti", ""), ""},
		"claims that are no text":            {of("sid", 7, "origin_jti", []string{"a"}, "jti", map[string]any{}), ""},
		"a session goes before a sign-in":    {of("sid", "a", "origin_jti", "b", "jti", "c"), sid},
		"a sign-in goes before a token":      {of("origin_jti", "a", "jti", "c"), origin},
		"a session that is no text":          {of("sid", 7, "jti", "a"), token},
		"the next token of the same session": {of("sid", "a", "jti", "d"), sid},
	} {
		if c.got != c.want {
			t.Errorf("%s: %q, want %q", name, c.got, c.want)
		}
	}
	if sid == origin || origin == token || sid == token || sid == of("sid", "b") || len(sid) != 22 {
		t.Errorf("%q, %q, %q", sid, origin, token)
	}
}

func TestTheAuthorizationHeader(t *testing.T) {
	i := newIssuer(t)
	v := i.verifier(t)
	good := sign(t, key(), goodHeader, i.good())
	for _, c := range []struct {
		name, header string
		want         Reason
	}{
		{"bearer", "Bearer " + good, ""},
		{"the scheme in another case", "bEARER " + good, ""},
		{"nothing", "", ReasonMissing},
		{"another scheme", "Basic dXNlcjpwYXNz", ReasonMissing},
		{"a bare token", good, ReasonMissing},
		{"a scheme alone", "Bearer", ReasonMalformed},
		{"two spaces", "Bearer  " + good, ReasonMalformed},
		{"two headers joined", "Bearer " + good + ", Bearer " + good, ReasonMalformed},
	} {
		if _, err := v.Verify(t.Context(), c.header, ScopeTools); reason(err) != c.want {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
}

func TestEachDoorAsksItsScope(t *testing.T) {
	i := newIssuer(t)
	v := i.verifier(t)
	approver := sign(t, key(), goodHeader, with(i.good(), "scope", "px.approve"))
	if token, err := v.Verify(t.Context(), "Bearer "+approver, ScopeApprove); err != nil || token.Subject != "engineer" {
		t.Errorf("got %+v, %v", token, err)
	}
	both := sign(t, key(), goodHeader, with(i.good(), "scope", "px.approve px.tools"))
	if _, err := v.Verify(t.Context(), "Bearer "+both, ScopeApprove); reason(err) != ReasonMixedScopes {
		t.Errorf("got %v", err)
	}
}

func TestAnswer(t *testing.T) {
	for _, c := range []struct {
		err       *Error
		status    int
		challenge string
	}{
		{&Error{Reason: ReasonMissing}, 401, `Bearer realm="pxhost"`},
		{&Error{Reason: ReasonExpired}, 401, `Bearer realm="pxhost", error="invalid_token", error_description="token_expired"`},
		{&Error{Reason: ReasonMixedScopes}, 401, `Bearer realm="pxhost", error="invalid_token", error_description="scopes_mixed"`},
		{&Error{Reason: ReasonScope, scope: ScopeTools}, 403, `Bearer realm="pxhost", error="insufficient_scope", scope="px.tools"`},
		{&Error{Reason: ReasonUnavailable}, 503, ``},
	} {
		status, header := Answer(fmt.Errorf("wrapped: %w", c.err))
		if status != c.status || header.Get("WWW-Authenticate") != c.challenge {
			t.Errorf("%v: %d %q", c.err, status, header.Get("WWW-Authenticate"))
		}
	}
	if _, header := Answer(&Error{Reason: ReasonUnavailable}); header.Get("Retry-After") != "10" {
		t.Errorf("Retry-After %q", header.Get("Retry-After"))
	}
	if status, _ := Answer(errors.New("x")); status != 500 {
		t.Errorf("an unknown error: %d", status)
	}
}

func TestKeysAreCachedAndRotated(t *testing.T) {
	i := newIssuer(t)
	v := i.verifier(t)
	verify := func(kid string, k *rsa.PrivateKey) Reason {
		_, err := v.Verify(t.Context(), "Bearer "+sign(t, k, with(goodHeader, "kid", kid), i.good()), ScopeTools)
		return reason(err)
	}
	expect := func(step string, got, want Reason, fetches int32) {
		t.Helper()
		if got != want || i.fetches.Load() != fetches {
			t.Errorf("%s: %q after %d fetches, want %q after %d", step, got, i.fetches.Load(), want, fetches)
		}
	}
	expect("the first token fetches", verify("k1", key()), "", 1)
	expect("the next does not", verify("k1", key()), "", 1)
	i.publish(map[string]any{"keys": []any{jwk("k2", &another().PublicKey)}})
	expect("an unknown kid waits its turn", verify("k2", another()), ReasonUnknownKey, 1)
	for range 100 {
		expect("a flood of kids", verify("k2", another()), ReasonUnknownKey, 1)
	}
	expect("a fresh key is used meanwhile", verify("k1", key()), "", 1)
	i.now.Add(10)
	expect("an unknown kid fetches", verify("k2", another()), "", 2)
	expect("a key that is gone is refused", verify("k1", key()), ReasonUnknownKey, 2)
	i.now.Add(599)
	expect("fresh for ten minutes", verify("k2", another()), "", 2)
	i.now.Add(1)
	expect("then it is looked up again", verify("k2", another()), "", 3)

	i.status.Store(500)
	i.now.Add(600)
	expect("a silent issuer is bridged", verify("k2", another()), "", 4)
	expect("without asking each time", verify("k2", another()), "", 4)
	expect("what cannot be told is no verdict", verify("k3", another()), ReasonUnavailable, 4)
	i.now.Add(3000) // an hour after the last good fetch
	expect("but not for longer than an hour", verify("k2", another()), ReasonUnavailable, 5)
	i.status.Store(200)
	i.now.Add(10)
	expect("it comes back", verify("k2", another()), "", 6)
}

// A token of someone else's issuer must not make us ask ours.
func TestOnlyTheIssuersTokensCauseAFetch(t *testing.T) {
	i := newIssuer(t)
	v := i.verifier(t)
	for _, token := range []string{sign(t, key(), goodHeader, with(i.good(), "iss", "https://x.example")), "a.b.c", sign(t, key(), with(goodHeader, "alg", "none"), i.good())} {
		if _, err := v.Verify(t.Context(), "Bearer "+token, ScopeTools); err == nil {
			t.Error("accepted")
		}
	}
	if i.fetches.Load() != 0 {
		t.Errorf("%d fetches", i.fetches.Load())
	}
}

func TestKeySetsThatAreNotUsed(t *testing.T) {
	small := makeKeyAllowingSmall(t)
	elliptic := map[string]any{"kty": "EC", "kid": "k1", "crv": "P-256", "x": "x", "y": "y"}
	good := jwk("k1", &key().PublicKey)
	many := make([]any, 65)
	for n := range many {
		many[n] = jwk(fmt.Sprint(n), &key().PublicKey)
	}
	for _, c := range []struct {
		name string
		set  any
		want Reason
	}{
		{"keys for other uses are passed over", map[string]any{"keys": []any{with(good, "kid", "e", "use", "enc"), elliptic, with(good, "alg", "RS512"), map[string]any{"kty": "oct", "kid": "k1", "k": "x"}, good}}, ""},
		{"an encryption key signs nothing", map[string]any{"keys": []any{with(good, "use", "enc")}}, ReasonUnknownKey},
		{"a key that may only sign", map[string]any{"keys": []any{with(good, "key_ops", []string{"sign"})}}, ReasonUnknownKey},
		{"a key of 1,024 bits", map[string]any{"keys": []any{jwk("k1", small)}}, ReasonUnavailable},
		{"an even exponent", map[string]any{"keys": []any{with(good, "e", b64([]byte{4}))}}, ReasonUnavailable},
		{"an exponent of one", map[string]any{"keys": []any{with(good, "e", b64([]byte{1}))}}, ReasonUnavailable},
		{"a kid twice", map[string]any{"keys": []any{good, jwk("k1", &another().PublicKey)}}, ReasonUnavailable},
		{"65 keys", map[string]any{"keys": many}, ReasonUnavailable},
		{"no keys", map[string]any{}, ReasonUnknownKey},
		{"a list", []any{good}, ReasonUnavailable},
		{"a document over the limit", map[string]any{"keys": []any{good}, "x": strings.Repeat("x", maxKeyBody)}, ReasonUnavailable},
	} {
		t.Run(c.name, func(t *testing.T) {
			i := newIssuer(t)
			i.publish(c.set)
			_, err := i.verifier(t).Verify(t.Context(), "Bearer "+sign(t, key(), goodHeader, i.good()), ScopeTools)
			if reason(err) != c.want {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// makeKeyAllowingSmall returns a public key of 1,024 bits, which the standard
// library makes no more.
func makeKeyAllowingSmall(t *testing.T) *rsa.PublicKey {
	t.Helper()
	p, err := rand.Prime(rand.Reader, 512)
	if err != nil {
		t.Fatal(err)
	}
	q, err := rand.Prime(rand.Reader, 512)
	if err != nil {
		t.Fatal(err)
	}
	return &rsa.PublicKey{N: new(big.Int).Mul(p, q), E: 65537}
}

func TestWhereKeysComeFrom(t *testing.T) {
	i := newIssuer(t)
	token := "Bearer " + sign(t, key(), goodHeader, i.good())
	for _, c := range []struct {
		name, url string
		want      Reason
	}{
		{"discovery", "", ""},
		{"an address that is given", i.url + "/keys", ""},
		{"a redirect is not followed", i.url + "/moved", ReasonUnavailable},
		{"an empty answer", i.url + "/nothing", ReasonUnavailable},
	} {
		v := i.verifier(t, func(c2 *Config) { c2.KeysURL = c.url })
		if _, err := v.Verify(t.Context(), token, ScopeTools); reason(err) != c.want {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
	for _, address := range []string{"http://issuer.example", "ftp://127.0.0.1", "127.0.0.1", "http://localhost.example", "http://[::2]", "https://user@issuer.example", "https://issuer.example#x"} {
		if _, err := New(Config{Issuer: address, Audience: "a"}); err == nil {
			t.Errorf("the issuer %s is accepted", address)
		}
		if _, err := New(Config{Issuer: "https://issuer.example", Audience: "a", KeysURL: address}); err == nil {
			t.Errorf("the key set %s is accepted", address)
		}
	}
	for _, config := range []Config{{Issuer: "https://issuer.example"}, {Audience: "a"}} {
		if _, err := New(config); err == nil {
			t.Errorf("%+v is accepted", config)
		}
	}
}

// The discovery document of another issuer is no source of keys.
func TestDiscoveryOfAnotherIssuer(t *testing.T) {
	i := newIssuer(t)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"issuer":%q,"jwks_uri":%q}`, i.url, i.url+"/keys")
	}))
	defer proxy.Close()
	v := i.verifier(t, func(c *Config) { c.Issuer = proxy.URL })
	if _, err := v.Verify(t.Context(), "Bearer "+sign(t, key(), goodHeader, with(i.good(), "iss", proxy.URL)), ScopeTools); reason(err) != ReasonUnavailable {
		t.Errorf("got %v", err)
	}
}

func TestManyAtOnceFetchOnce(t *testing.T) {
	i := newIssuer(t)
	v := i.verifier(t)
	token := "Bearer " + sign(t, key(), goodHeader, i.good())
	var wait sync.WaitGroup
	for range 32 {
		wait.Go(func() {
			if _, err := v.Verify(context.Background(), token, ScopeTools); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	if i.fetches.Load() != 1 {
		t.Errorf("%d fetches", i.fetches.Load())
	}
}

// Whatever is accepted must be accepted by the library with a plain reading of
// the same token, and carry the scope.
func FuzzVerify(f *testing.F) {
	i := newIssuer(f)
	v := i.verifier(f)
	good := sign(f, key(), goodHeader, i.good())
	f.Add("Bearer " + good)
	f.Add("Bearer " + sign(f, key(), `{"alg":"RS256","alg":"none","kid":"k1"}`, i.good()))
	f.Add("Bearer " + sign(f, key(), goodHeader, with(i.good(), "scope", "px.approve px.tools")))
	f.Add("Bearer " + b64([]byte(`{"alg":"none","kid":"k1"}`)) + "." + b64([]byte(`{}`)) + ".")
	f.Add("Bearer a.b.c")
	f.Add("")
	f.Fuzz(func(t *testing.T, authorization string) {
		token, err := v.Verify(t.Context(), authorization, ScopeTools)
		if err != nil {
			if reason(err) == "" {
				t.Fatalf("not an Error: %v", err)
			}
			if status, _ := Answer(err); status == 500 {
				t.Fatalf("no HTTP answer to %v", err)
			}
			return
		}
		_, text, _ := strings.Cut(authorization, " ")
		now := func() time.Time { return time.Unix(i.now.Load(), 0) }
		if _, err := jwt.Parse(text, func(*jwt.Token) (any, error) { return &key().PublicKey, nil }, jwt.WithTimeFunc(now), jwt.WithLeeway(Leeway)); err != nil {
			t.Fatalf("the library refuses what is accepted: %v", err)
		}
		if token.Subject == "" || !token.Has(ScopeTools) || token.Has(ScopeApprove) {
			t.Fatalf("got %+v", token)
		}
	})
}

func BenchmarkVerify(b *testing.B) {
	i := newIssuer(b)
	v := i.verifier(b)
	token := "Bearer " + sign(b, key(), goodHeader, i.good())
	for b.Loop() {
		if _, err := v.Verify(b.Context(), token, ScopeTools); err != nil {
			b.Fatal(err)
		}
	}
}
