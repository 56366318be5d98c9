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
// Sequences have one to four bytes. So a word of two Hangul syllables has three of
// the longest, and a number that is part of a key is told from its neighbours, whose
// digits are in part the same.
//
// Its form is a bit set, 64 bytes to 8 KB, a power of two: the smallest of which
// at most a quarter is set. So it follows from the leaf alone.
type summary []byte

const (
	summaryBits  = 1 << 16 // of the largest
	summaryLeast = 512     // of the smallest
)

// sequence returns the bit of a sequence in the largest form; in a smaller form it
// is the same number without its upper bits.
func sequence(last byte, before uint32, length uint32) uint32 {
	const odd = 0x9e3779b1
	return ((before<<8|uint32(last))*odd ^ length*0x85ebca6b) * odd >> 16
}

// summarize returns the summary of the values of a leaf.
func summarize(items []item) summary {
	var words [summaryBits / 64]uint64
	set := func(bit uint32) { words[bit/64] |= 1 << (bit % 64) }
	for _, it := range items {
		var before uint32 // the three bytes before
		for i, c := range it.value {
			set(sequence(c, 0, 1))
			if i > 0 {
				set(sequence(c, before&0xff, 2))
			}
			if i > 1 {
				set(sequence(c, before&0xffff, 3))
			}
			if i > 2 {
				set(sequence(c, before, 4))
			}
			before = before<<8&0xffffff | uint32(c)
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
		// Shorter ones too, although they are where the longer are: each is one more
		// chance that a leaf without the text says so.
		for length := min(len(text), 4); length > 0; length-- {
			for i := 0; i+length <= len(text); i++ {
				before := uint32(0)
				for _, c := range []byte(text[i : i+length-1]) {
					before = before<<8 | uint32(c)
				}
				out = append(out, sequence(text[i+length-1], before, uint32(length)))
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
