package history

import (
	"math/bits"
)

// A summary is a set of the short byte sequences that occur in the values of one
// leaf. It stands beside the leaf's digest in the node above, so that who looks
// for a text passes over leaves without reading them. It may say of a sequence
// that it occurs where it does not, and never the other way round: a leaf that is
// passed over has nothing that is looked for.
//
// Sequences have one, two and three bytes, so that a word of two Hangul syllables
// has four of them and is told from others as well as a long English word.
//
// Its form is a bit set, 64 bytes to 8 KB, a power of two: the smallest of which
// at most a quarter is set. So it follows from the leaf alone.
type summary []byte

const (
	summaryBits  = 1 << 16 // of the largest
	summaryLeast = 512     // of the smallest
)

// The functions below return the bit of a sequence in the largest form; in a smaller form it
// it is the same number without its upper bits.
func sequenceOne(a byte) uint32    { return spread(1<<24 | uint32(a)) }
func sequenceTwo(a, b byte) uint32 { return spread(2<<24 | uint32(a)<<8 | uint32(b)) }
func sequenceThree(a, b, c byte) uint32 {
	return spread(3<<24 | uint32(a)<<16 | uint32(b)<<8 | uint32(c))
}

func spread(sequence uint32) uint32 { return sequence * 0x9e3779b1 >> 16 }

// summarize returns the summary of the values of a leaf.
func summarize(items []item) summary {
	var words [summaryBits / 64]uint64
	set := func(bit uint32) { words[bit/64] |= 1 << (bit % 64) }
	for _, it := range items {
		for i, c := range it.value {
			set(sequenceOne(c))
			if i > 0 {
				set(sequenceTwo(it.value[i-1], c))
			}
			if i > 1 {
				set(sequenceThree(it.value[i-2], it.value[i-1], c))
			}
		}
	}
	// Each half is laid over the other while what comes of it is sparse.
	form := words[:]
	for len(form)*64 > summaryLeast {
		half := len(form) / 2
		folded := make([]uint64, half)
		count := 0
		for i := range folded {
			folded[i] = form[i] | form[half+i]
			count += bits.OnesCount64(folded[i])
		}
		if 4*count > 64*half {
			break
		}
		form = folded
	}
	out := make(summary, 0, 8*len(form))
	for _, w := range form {
		for i := range 8 {
			out = append(out, byte(w>>(8*i)))
		}
	}
	return out
}

// lookedFor returns the sequences of texts that are looked for.
func lookedFor(texts []string) []uint32 {
	var out []uint32
	for _, text := range texts {
		switch len(text) {
		case 0:
		case 1:
			out = append(out, sequenceOne(text[0]))
		case 2:
			out = append(out, sequenceTwo(text[0], text[1]))
		default:
			for i := range len(text) - 2 {
				out = append(out, sequenceThree(text[i], text[i+1], text[i+2]))
			}
		}
	}
	return out
}

// may reports whether all sequences may occur. No summary says nothing.
func (s summary) may(sequences []uint32) bool {
	if len(s) == 0 {
		return true
	}
	mask := uint32(8*len(s) - 1)
	for _, bit := range sequences {
		if bit &= mask; s[bit/8]&(1<<(bit%8)) == 0 {
			return false
		}
	}
	return true
}

// wellFormed reports whether s has one of the sizes of a summary; none is one.
func (s summary) wellFormed() bool {
	return len(s) == 0 || bits.OnesCount(uint(len(s))) == 1 && 8*len(s) >= summaryLeast && 8*len(s) <= summaryBits
}
