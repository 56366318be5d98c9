package semantic

import (
	"slices"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/outcome"
)

// Rebase returns where commands that were made for one revision of a document meet
// what changed from it to the head (P8): none, and they may be proposed on the head.
// apply and diff are those of the kind of document.
//
// The paths that count are those that the commands touch on their own base. Where
// commands do not apply there, having been written for the head, what they touch on
// the head counts too.
func Rebase[D, C any](base, head D, commands []C, apply func(*D, []C) (D, []string, outcome.Findings), diff func(*D, D) ([]Change, error)) ([]Conflict, error) {
	proposed, touched, found := apply(&base, commands)
	if found.Refused() {
		_, more, _ := apply(&head, commands)
		touched = slices.Concat(touched, more)
	}
	changed, err := diff(&base, head)
	if err != nil {
		return nil, err
	}
	documents, err := canon.EncodeEach([]D{base, head, proposed})
	if err != nil {
		return nil, err
	}
	return Conflicts(touched, changed, documents[0], documents[1], documents[2])
}
