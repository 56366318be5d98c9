package report

import (
	"slices"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/semantic"
)

// Conflicts returns where commands that were made for one revision meet what
// changed from it to the head (P8): none, and they may be proposed on the head.
//
// The paths that count are those that the commands touch on their own base. Where
// commands do not apply there, having been written for the head, what they touch
// on the head counts too. Whether they make a Report that is in order on the head is
// Propose's to say.
func Conflicts(base, head Document, commands []Command) ([]semantic.Conflict, error) {
	proposed, touched, found := Apply(&base, commands)
	if found.Refused() {
		_, more, _ := Apply(&head, commands)
		touched = slices.Concat(touched, more)
	}
	changed, err := Diff(&base, head)
	if err != nil {
		return nil, err
	}
	documents, err := canon.EncodeEach([]Document{base, head, proposed})
	if err != nil {
		return nil, err
	}
	return semantic.Conflicts(touched, changed, documents[0], documents[1], documents[2])
}
