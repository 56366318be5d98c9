package sandbox

import (
	"context"
	"crypto/ed25519"
	"slices"
)

// domain stands before what is signed, so that a signature of a job is one of
// nothing else.
const domain = "pxhost job v1\n"

// Keys holds the key that signs jobs. All processes of one installation have the
// same: the store creates it conditionally. Workers get its public half when they
// are started, and run nothing that it did not sign.
type Keys interface {
	JobKey(ctx context.Context) (ed25519.PrivateKey, error)
}

// Sign signs the canonical bytes of a spec.
func Sign(key ed25519.PrivateKey, spec []byte) []byte {
	return ed25519.Sign(key, slices.Concat([]byte(domain), spec))
}

// Verify reports whether the bytes of a spec were signed by the key.
func Verify(key ed25519.PublicKey, spec, signature []byte) bool {
	return len(key) == ed25519.PublicKeySize && ed25519.Verify(key, slices.Concat([]byte(domain), spec), signature)
}
