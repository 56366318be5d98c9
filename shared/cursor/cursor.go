// Package cursor seals the opaque values by which a client continues a search or
// an answer that was cut.
//
// A cursor is authenticated and encrypted: it can be neither read nor made nor
// changed by a client, and it opens only for the principal, tool and arguments
// that it was made for (S2). It knows nothing of what a position means.
package cursor

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"
)

// MaxLength is the longest cursor, in characters. Sealing a longer one fails.
const MaxLength = 4096

// ErrInvalid is returned for everything that is not a cursor of this key ring,
// principal, tool and arguments, or that expired. It does not tell which.
var ErrInvalid = errors.New("cursor: not valid here")

// ErrNoKey is what a key ring returns for an ID that it does not have.
var ErrNoKey = errors.New("cursor: no such key")

// A Key seals cursors. Secret is 32 random bytes.
type Key struct {
	ID     [8]byte
	Secret [32]byte
}

// Keys is the key ring. Keys of all processes of one installation are the same:
// the store creates the first one conditionally.
type Keys interface {
	// Current returns the key to seal with.
	Current(ctx context.Context) (Key, error)
	// Key returns a key of the ring, the current one or an earlier one, or
	// ErrNoKey.
	Key(ctx context.Context, id [8]byte) (Key, error)
}

// A Binding is what a cursor is good for.
type Binding struct {
	Tool       string
	Principal  string // "iss|sub"
	ArgsDigest string // of the arguments that pin the answer
}

// Claims are what a cursor holds.
type Claims struct {
	// Root pins the snapshot that the answer is made of.
	Root string
	// Position is where to go on, in the words of whoever sealed it.
	Position []byte
}

// A Box seals and opens cursors.
type Box struct {
	keys Keys
	ttl  time.Duration
	now  func() time.Time
}

// New returns a box whose cursors are good for ttl.
func New(keys Keys, ttl time.Duration, now func() time.Time) *Box {
	return &Box{keys: keys, ttl: ttl, now: now}
}

// The layout, in bytes: version 1, key ID 8, salt 16, nonce 12, ciphertext.
const (
	version   = 1
	saltAt    = 1 + 8
	nonceAt   = saltAt + 16
	sealedAt  = nonceAt + 12
	shortest  = sealedAt + 8 + 2 + 16 // expiry, length of Root, tag
	keyDomain = "pxhost cursor v1"
)

// strict refuses a last character whose unused bits are set, so that no two
// texts are one cursor.
var strict = base64.RawURLEncoding.Strict()

// Seal returns a cursor that is good for the binding.
func (b *Box) Seal(ctx context.Context, to Binding, claims Claims) (string, error) {
	key, err := b.keys.Current(ctx)
	if err != nil {
		return "", fmt.Errorf("cursor: current key: %w", err)
	}
	if len(claims.Root) > 0xffff {
		return "", fmt.Errorf("cursor: a root of %d bytes is too long", len(claims.Root))
	}
	head := make([]byte, sealedAt, 256)
	head[0] = version
	copy(head[1:], key.ID[:])
	rand.Read(head[saltAt:sealedAt])
	plain := binary.BigEndian.AppendUint64(nil, uint64(b.now().Add(b.ttl).Unix()))
	plain = binary.BigEndian.AppendUint16(plain, uint16(len(claims.Root)))
	plain = append(plain, claims.Root...)
	plain = append(plain, claims.Position...)
	text := strict.EncodeToString(key.aead(head).Seal(head, head[nonceAt:sealedAt], plain, associated(head, to)))
	if len(text) > MaxLength {
		return "", fmt.Errorf("cursor: %d characters are more than %d", len(text), MaxLength)
	}
	return text, nil
}

// Open returns the claims of a cursor, or ErrInvalid. Any other error is the key
// ring's.
func (b *Box) Open(ctx context.Context, from Binding, text string) (Claims, error) {
	if len(text) > MaxLength || strings.ContainsAny(text, "\r\n") { // the decoder would pass over line ends
		return Claims{}, ErrInvalid
	}
	sealed, err := strict.DecodeString(text)
	if err != nil || len(sealed) < shortest || sealed[0] != version {
		return Claims{}, ErrInvalid
	}
	key, err := b.keys.Key(ctx, [8]byte(sealed[1:saltAt]))
	if errors.Is(err, ErrNoKey) {
		return Claims{}, ErrInvalid
	}
	if err != nil {
		return Claims{}, fmt.Errorf("cursor: key: %w", err)
	}
	head := sealed[:sealedAt]
	plain, err := key.aead(head).Open(nil, head[nonceAt:], sealed[sealedAt:], associated(head, from))
	if err != nil {
		return Claims{}, ErrInvalid
	}
	if expires := time.Unix(int64(binary.BigEndian.Uint64(plain)), 0); !b.now().Before(expires) {
		return Claims{}, ErrInvalid
	}
	n := int(binary.BigEndian.Uint16(plain[8:]))
	rest := plain[10:]
	if n > len(rest) {
		return Claims{}, ErrInvalid // sealed by another version of this code
	}
	return Claims{Root: string(rest[:n]), Position: rest[n:]}, nil
}

// aead returns AES-256-GCM under a key of its own for every cursor, derived from
// the salt, so that the number of cursors per secret is not bounded by the
// 96-bit nonce.
func (k Key) aead(head []byte) cipher.AEAD {
	derived, err := hkdf.Key(sha256.New, k.Secret[:], head[saltAt:nonceAt], keyDomain, 32)
	if err != nil {
		panic(fmt.Sprintf("cursor: derive a key: %v", err)) // 32 bytes are never too many
	}
	block, err := aes.NewCipher(derived)
	if err != nil {
		panic(fmt.Sprintf("cursor: cipher: %v", err))
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		panic(fmt.Sprintf("cursor: GCM: %v", err))
	}
	return aead
}

// associated binds the header and what the cursor is good for. Lengths stand in
// front, so that no two bindings have one form.
func associated(head []byte, to Binding) []byte {
	out := append([]byte(nil), head...)
	for _, part := range []string{to.Tool, to.Principal, to.ArgsDigest} {
		out = binary.BigEndian.AppendUint32(out, uint32(len(part)))
		out = append(out, part...)
	}
	return out
}

// Static is a key ring of one key, for tests and for a host of one process.
type Static Key

// NewStatic returns a ring with one new key.
func NewStatic() Static {
	var k Static
	rand.Read(k.ID[:])
	rand.Read(k.Secret[:])
	return k
}

// Current returns the key.
func (s Static) Current(context.Context) (Key, error) { return Key(s), nil }

// Key returns the key if the ID is its own.
func (s Static) Key(_ context.Context, id [8]byte) (Key, error) {
	if id != s.ID {
		return Key{}, ErrNoKey
	}
	return Key(s), nil
}
