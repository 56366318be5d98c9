package flow

import "github.com/pxhost/pxhost/shared/semantic"

// Conflicts returns where commands that were made for one revision of a Flow meet what
// changed from it to the head (P8); see semantic.Rebase. Whether they make a Flow that
// is in order on the head is Propose's to say.
func Conflicts(base, head Document, commands []Command) ([]semantic.Conflict, error) {
	return semantic.Rebase(base, head, commands, Apply, Diff)
}
