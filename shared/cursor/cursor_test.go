package cursor_test

import (
	"context"
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pxhost/pxhost/shared/cursor"
)

var start = time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)

func box(keys cursor.Keys, at time.Time) *cursor.Box {
	return cursor.New(keys, time.Hour, func() time.Time { return at })
}

var binding = cursor.Binding{Tool: "pxflow_search", Principal: "https://issuer|engineer", ArgsDigest: "sha256:00"}

// covers: S2
func TestACursorOpensOnlyAsItWasSealed(t *testing.T) {
	ctx := context.Background()
	keys := cursor.NewStatic()
	text, err := box(keys, start).Seal(ctx, binding, cursor.Claims{Root: "sha256:root", Position: []byte("girder")})
	if err != nil {
		t.Fatal(err)
	}
	got, err := box(keys, start.Add(time.Hour-time.Second)).Open(ctx, binding, text)
	if err != nil || got.Root != "sha256:root" || string(got.Position) != "girder" {
		t.Fatalf("got %v, %v", got, err)
	}
	other := func(change func(*cursor.Binding)) cursor.Binding {
		b := binding
		change(&b)
		return b
	}
	for name, c := range map[string]struct {
		box  *cursor.Box
		from cursor.Binding
		text string
	}{
		"another principal":               {box(keys, start), other(func(b *cursor.Binding) { b.Principal = "https://issuer|reviewer" }), text},
		"another tool":                    {box(keys, start), other(func(b *cursor.Binding) { b.Tool = "report_search" }), text},
		"other arguments":                 {box(keys, start), other(func(b *cursor.Binding) { b.ArgsDigest = "sha256:01" }), text},
		"a character moved between parts": {box(keys, start), other(func(b *cursor.Binding) { b.Tool += "h"; b.Principal = b.Principal[1:] }), text},
		"the moment it expires":           {box(keys, start.Add(time.Hour)), binding, text},
		"another ring":                    {box(cursor.NewStatic(), start), binding, text},
		"nothing":                         {box(keys, start), binding, ""},
		"padding":                         {box(keys, start), binding, text + "="},
		"a line end":                      {box(keys, start), binding, text + "\n"},
		"what is too long":                {box(keys, start), binding, strings.Repeat("A", cursor.MaxLength+1)},
	} {
		if _, err := c.box.Open(ctx, c.from, c.text); !errors.Is(err, cursor.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// covers: S2
func TestEveryAlteredBitIsRefused(t *testing.T) {
	ctx := context.Background()
	b := box(cursor.NewStatic(), start)
	text, err := b.Seal(ctx, binding, cursor.Claims{Root: "r", Position: []byte("p")})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	for bit := range len(raw) * 8 {
		raw[bit/8] ^= 1 << (bit % 8)
		if _, err := b.Open(ctx, binding, base64.RawURLEncoding.EncodeToString(raw)); !errors.Is(err, cursor.ErrInvalid) {
			t.Errorf("bit %d: %v", bit, err)
		}
		raw[bit/8] ^= 1 << (bit % 8)
	}
	for cut := range text {
		if _, err := b.Open(ctx, binding, text[:cut]); !errors.Is(err, cursor.ErrInvalid) {
			t.Errorf("cut at %d: %v", cut, err)
		}
	}
	alphabet := "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	for i := range text { // also the unused bits of the last character
		for _, c := range alphabet {
			if byte(c) == text[i] {
				continue
			}
			if _, err := b.Open(ctx, binding, text[:i]+string(c)+text[i+1:]); err == nil {
				t.Errorf("character %d as %c is accepted", i, c)
			}
		}
	}
}

func TestACursorHoldsAnyClaims(t *testing.T) {
	ctx := context.Background()
	b := box(cursor.NewStatic(), start)
	rapid.Check(t, func(t *rapid.T) {
		claims := cursor.Claims{Root: rapid.StringN(0, 200, 300).Draw(t, "root"), Position: rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "position")}
		to := cursor.Binding{Tool: rapid.String().Draw(t, "tool"), Principal: rapid.String().Draw(t, "principal"), ArgsDigest: rapid.String().Draw(t, "digest")}
		text, err := b.Seal(ctx, to, claims)
		if err != nil {
			t.Fatal(err)
		}
		got, err := b.Open(ctx, to, text)
		if err != nil || got.Root != claims.Root || string(got.Position) != string(claims.Position) {
			t.Fatalf("got %v, %v", got, err)
		}
	})
}

func TestSealRefusesWhatIsTooLong(t *testing.T) {
	b := box(cursor.NewStatic(), start)
	for name, claims := range map[string]cursor.Claims{
		"position": {Position: make([]byte, cursor.MaxLength)},
		"root":     {Root: strings.Repeat("x", 1<<16)},
	} {
		if _, err := b.Seal(context.Background(), binding, claims); err == nil {
			t.Errorf("a long %s is sealed", name)
		}
	}
}

type broken struct{ cursor.Static }

var errRing = errors.New("ring is out of reach")

func (broken) Key(context.Context, [8]byte) (cursor.Key, error) { return cursor.Key{}, errRing }

func TestARingOutOfReachIsNoInvalidCursor(t *testing.T) {
	keys := broken{cursor.NewStatic()}
	text, err := box(keys, start).Seal(context.Background(), binding, cursor.Claims{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := box(keys, start).Open(context.Background(), binding, text); !errors.Is(err, errRing) || errors.Is(err, cursor.ErrInvalid) {
		t.Errorf("got %v", err)
	}
}

func FuzzCursorOpen(f *testing.F) {
	b := box(cursor.NewStatic(), start)
	text, err := b.Seal(context.Background(), binding, cursor.Claims{Root: "r", Position: []byte("p")})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add("")
	f.Add("AQ")
	f.Add(strings.Repeat("A", 100))
	f.Fuzz(func(t *testing.T, other string) {
		_, err := b.Open(context.Background(), binding, other)
		if other != text && !errors.Is(err, cursor.ErrInvalid) {
			t.Fatalf("%q: %v", other, err)
		}
	})
}

func BenchmarkSealAndOpen(b *testing.B) {
	box := box(cursor.NewStatic(), start)
	claims := cursor.Claims{Root: "sha256:0123456789012345678901234567890123456789012345678901234567890123", Position: []byte("structural_team/bridge_package/girder_check")}
	for b.Loop() {
		text, err := box.Seal(context.Background(), binding, claims)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := box.Open(context.Background(), binding, text); err != nil {
			b.Fatal(err)
		}
	}
}
