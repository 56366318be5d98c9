package identity

import (
	"context"
	"crypto/rsa"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/pxhost/pxhost/shared/canon"
)

const (
	maxKeyID    = 256       // bytes
	maxKeyBody  = 256 << 10 // bytes of a JWKS or discovery document
	maxKeys     = 64        // usable keys in a set
	minKeyBits  = 2048
	maxKeyBits  = 8192            // verifying with more is a way to keep us busy
	fetchTime   = 3 * time.Second // for a JWKS and its discovery together
	freshFor    = 10 * time.Minute
	staleFor    = time.Hour        // how long keys outlive an issuer that does not answer
	retryAfter  = 10 * time.Second // between two fetches, whatever tokens ask for
	wellKnown   = "/.well-known/openid-configuration"
	contentType = "application/json"
)

// A keySet holds the issuer's keys by kid. It fetches them when they are first
// needed, when they are no longer fresh, and when a kid is unknown, but never
// more often than every retryAfter: a flood of made-up kids costs the issuer
// nothing.
type keySet struct {
	issuer, url string
	client      *http.Client
	now         func() time.Time
	turn        chan struct{} // holds one token: who has it may use what is below

	keys           map[string]*rsa.PublicKey
	fetched, tried time.Time
	failure        error // of the last try
}

func newKeySet(config Config, now func() time.Time) (*keySet, error) {
	for _, address := range []string{config.Issuer, config.KeysURL} {
		if err := checkAddress(address); err != nil && address != "" {
			return nil, err
		}
	}
	client := &http.Client{Timeout: fetchTime}
	if config.Client != nil {
		client.Transport, client.Jar = config.Client.Transport, nil
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	k := &keySet{issuer: config.Issuer, url: config.KeysURL, client: client, now: now, turn: make(chan struct{}, 1)}
	k.turn <- struct{}{}
	return k, nil
}

// checkAddress allows HTTPS, and HTTP to loopback.
func checkAddress(address string) error {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.User != nil || u.Fragment != "" {
		return errors.New("identity: an address of the issuer is not a URL")
	}
	if u.Scheme == "https" || u.Scheme == "http" && isLoopback(u.Hostname()) {
		return nil
	}
	return errors.New("identity: an address of the issuer is not HTTPS, and not HTTP to loopback")
}

func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

// key returns the key of a kid. The error is ReasonUnknownKey if the issuer's
// current set has no such key, and ReasonUnavailable if that cannot be told.
func (k *keySet) key(ctx context.Context, kid string) (*rsa.PublicKey, error) {
	select {
	case <-k.turn:
	case <-ctx.Done():
		return nil, &Error{Reason: ReasonUnavailable, Cause: context.Cause(ctx)}
	}
	defer func() { k.turn <- struct{}{} }()

	now := k.now()
	key, known := k.keys[kid]
	age := now.Sub(k.fetched)
	if known && age < freshFor {
		return key, nil
	}
	if k.tried.IsZero() || now.Sub(k.tried) >= retryAfter {
		k.tried = now
		var keys map[string]*rsa.PublicKey
		if keys, k.failure = k.fetch(ctx); k.failure == nil {
			k.keys, k.fetched, age = keys, now, 0
			key, known = keys[kid]
		}
	}
	switch {
	case known && age < staleFor:
		return key, nil
	case k.failure != nil:
		return nil, &Error{Reason: ReasonUnavailable, Cause: k.failure}
	}
	return nil, &Error{Reason: ReasonUnknownKey}
}

func (k *keySet) fetch(ctx context.Context) (map[string]*rsa.PublicKey, error) {
	// Not ended by one caller's hurry: the answer is for all who wait.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), fetchTime)
	defer cancel()
	address := k.url
	if address == "" {
		var document struct {
			Issuer  string `json:"issuer"`
			KeysURL string `json:"jwks_uri"`
		}
		if err := k.get(ctx, strings.TrimSuffix(k.issuer, "/")+wellKnown, &document); err != nil {
			return nil, err
		}
		if document.Issuer != k.issuer {
			return nil, errors.New("identity: the discovery document is another issuer's")
		}
		if err := checkAddress(document.KeysURL); err != nil {
			return nil, err
		}
		address = document.KeysURL
	}
	var set struct {
		Keys []struct {
			Type      string   `json:"kty"`
			Use       string   `json:"use"`
			Algorithm string   `json:"alg"`
			Ops       []string `json:"key_ops"`
			ID        string   `json:"kid"`
			N         string   `json:"n"`
			E         string   `json:"e"`
		} `json:"keys"`
	}
	if err := k.get(ctx, address, &set); err != nil {
		return nil, err
	}
	keys := map[string]*rsa.PublicKey{}
	for _, entry := range set.Keys {
		// A set may hold keys for other uses: they are none of ours.
		if entry.Type != "RSA" || entry.Use != "" && entry.Use != "sig" || entry.Algorithm != "" && entry.Algorithm != algorithm ||
			entry.Ops != nil && !slices.Contains(entry.Ops, "verify") || entry.ID == "" || len(entry.ID) > maxKeyID {
			continue
		}
		key, err := publicKey(entry.N, entry.E)
		if err != nil {
			return nil, err
		}
		if keys[entry.ID] != nil || len(keys) == maxKeys {
			return nil, errors.New("identity: the key set repeats a kid or has too many keys")
		}
		keys[entry.ID] = key
	}
	return keys, nil
}

func publicKey(n, e string) (*rsa.PublicKey, error) {
	encoding := base64.RawURLEncoding.Strict()
	modulus, err := encoding.DecodeString(n)
	if err != nil {
		return nil, errors.New("identity: a modulus of the key set is not base64url")
	}
	exponent, err := encoding.DecodeString(e)
	if err != nil || len(exponent) == 0 || len(exponent) > 4 {
		return nil, errors.New("identity: an exponent of the key set is not one")
	}
	key := &rsa.PublicKey{N: new(big.Int).SetBytes(modulus), E: int(new(big.Int).SetBytes(exponent).Int64())}
	if bits := key.N.BitLen(); bits < minKeyBits || bits > maxKeyBits || key.N.Bit(0) == 0 || key.E < 3 || key.E&1 == 0 || key.E > 1<<31-1 {
		return nil, errors.New("identity: a key of the key set is too weak, too large or no RSA key")
	}
	return key, nil
}

// get reads a strict JSON document of a bounded size.
func (k *keySet) get(ctx context.Context, address string, out any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return fmt.Errorf("identity: fetch keys: %w", err)
	}
	request.Header.Set("Accept", contentType)
	response, err := k.client.Do(request)
	if err != nil {
		return fmt.Errorf("identity: fetch keys: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("identity: fetch keys: status %d", response.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxKeyBody+1))
	if err != nil {
		return fmt.Errorf("identity: fetch keys: %w", err)
	}
	if len(body) > maxKeyBody {
		return errors.New("identity: fetch keys: the document is too large")
	}
	if err := canon.Check(body); err != nil {
		return fmt.Errorf("identity: fetch keys: %w", err)
	}
	if err := json.Unmarshal(body, out); err != nil {
		return errors.New("identity: fetch keys: the document has not the expected shape")
	}
	return nil
}
