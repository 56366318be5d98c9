package batch

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
)

// crockford is the alphabet of ULIDs.
const crockford = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

// ChildRunRef names the child Run of one attempt of a case. It follows from the
// Batch, the case and the attempt alone, so that writing the Batch registers every
// first child at once, and whoever prepares a child twice prepares one (R6).
func ChildRunRef(batchRef, caseKey string, attempt int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d:%s %d:%s %d", len(batchRef), batchRef, len(caseKey), caseKey, attempt))
	// 26 characters of 5 bits; a ULID's first is at most 7.
	hi, mid, lo := binary.BigEndian.Uint64(sum[:]), binary.BigEndian.Uint64(sum[8:]), sum[16]
	ref := make([]byte, 26)
	for i := range ref {
		ref[i] = crockford[hi>>59]
		hi = hi<<5 | mid>>59
		mid = mid<<5 | uint64(lo>>3)
		lo = 0
	}
	ref[0] = crockford[sum[0]>>5]
	return "run_" + string(ref)
}
