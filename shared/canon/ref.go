package canon

import (
	"crypto/sha256"
	"encoding/binary"
)

// crockford is the alphabet of ULIDs.
const crockford = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

// Ref returns a reference that follows from its parts: the prefix, then 26
// characters of a ULID's alphabet, which are the first 130 bits of the parts' digest.
// So who knows the parts knows the reference, before anything is stored under it.
func Ref(prefix string, parts ...string) string {
	text, err := Encode(parts)
	if err != nil {
		panic(err) // texts that are no UTF-8, which nothing that is stored is
	}
	sum := sha256.Sum256(text)
	out := []byte(prefix)
	for i := range 26 {
		bit := i * 5
		window := binary.BigEndian.Uint16(sum[bit/8:]) << (bit % 8)
		out = append(out, crockford[window>>11])
	}
	return string(out)
}
