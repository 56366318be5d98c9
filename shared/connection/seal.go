package connection

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/pxhost/pxhost/shared/canon"
)

// DataKeys makes keys that encrypt one secret each, and wraps them with a key that never
// leaves where it is. The context is bound to what is wrapped: with another one it
// cannot be unwrapped.
type DataKeys interface {
	// Generate returns a new 256-bit key, and the key as only Unwrap can read it.
	Generate(ctx context.Context, bound map[string]string) (plain, wrapped []byte, err error)
	// Unwrap returns an error that wraps ErrUnreadable for what is none of this key's, or
	// of another context.
	Unwrap(ctx context.Context, wrapped []byte, bound map[string]string) (plain []byte, err error)
}

// envelope is a sealed secret.
type envelope struct {
	V      int    `json:"v"`
	Key    []byte `json:"key"` // wrapped
	Nonce  []byte `json:"nonce"`
	Sealed []byte `json:"sealed"` // AES-256-GCM, bound to the context
}

// ErrUnreadable says that what is stored cannot be opened, and never will be: it was
// changed, is another row's, or its key is gone. It says nothing of what is sealed.
var ErrUnreadable = errors.New("connection: what is stored cannot be opened")

// seal encrypts a secret for a context.
func seal(ctx context.Context, keys DataKeys, bound map[string]string, plain []byte) ([]byte, error) {
	key, wrapped, err := keys.Generate(ctx, bound)
	if err != nil {
		return nil, fmt.Errorf("connection: a data key: %w", err)
	}
	defer clear(key)
	aead, err := aeadOf(key)
	if err != nil {
		return nil, err
	}
	nonce := make([]byte, aead.NonceSize())
	rand.Read(nonce)
	return canon.Encode(envelope{1, wrapped, nonce, aead.Seal(nil, nonce, plain, additional(bound))})
}

// open decrypts it.
func open(ctx context.Context, keys DataKeys, bound map[string]string, text []byte) ([]byte, error) {
	var e envelope
	if err := json.Unmarshal(text, &e, json.RejectUnknownMembers(true)); err != nil || e.V != 1 {
		return nil, ErrUnreadable
	}
	key, err := keys.Unwrap(ctx, e.Key, bound)
	if err != nil {
		return nil, fmt.Errorf("connection: a data key: %w", err)
	}
	defer clear(key)
	aead, err := aeadOf(key)
	if err != nil || len(e.Nonce) != aead.NonceSize() {
		return nil, ErrUnreadable
	}
	plain, err := aead.Open(nil, e.Nonce, e.Sealed, additional(bound))
	if err != nil {
		return nil, ErrUnreadable
	}
	return plain, nil
}

func aeadOf(key []byte) (cipher.AEAD, error) {
	if len(key) != 32 {
		return nil, errors.New("connection: a data key has 256 bits")
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, ErrUnreadable
	}
	return cipher.NewGCM(block)
}

// additional is the context as bytes, each name and value behind its length.
func additional(bound map[string]string) []byte {
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(bound)) {
		fmt.Fprintf(&out, "%d:%s%d:%s", len(name), name, len(bound[name]), bound[name])
	}
	return []byte(out.String())
}
