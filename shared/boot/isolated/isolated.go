// Package isolated wires the one function that the proxy of a legacy cohort may invoke.
package isolated

import (
	"context"
	"errors"
	"strings"

	"github.com/pxhost/pxhost/shared/boot"
	"github.com/pxhost/pxhost/shared/boot/invoke"
	"github.com/pxhost/pxhost/shared/wire/legacy"
)

// errFailed is of a function that failed. What it reported may quote what it worked on.
var errFailed = errors.New("isolated: the function failed")

// New returns the Call of the environment's legacy endpoint. It is of another
// installation: a function of this one would not be isolated from it.
func New(env *boot.Env) legacy.Call {
	client, function := invoke.New(env), env.Need("PX_LEGACY_FUNCTION")
	own := strings.TrimSuffix(env.Need("PX_TOOL_PREFIX"), "tool-")
	if _, name, named := strings.Cut(function, ":function:"); own != "" && named && strings.HasPrefix(name, own) {
		env.Refuse("PX_LEGACY_FUNCTION", "is a function of this installation")
	}
	return func(ctx context.Context, event []byte) ([]byte, error) {
		answer, err := client.Invoke(ctx, function, event)
		if err == nil && answer.Failed {
			err = errFailed
		}
		return answer.Payload, err
	}
}
