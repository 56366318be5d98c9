package local

import (
	"context"
	"net/http"

	"github.com/pxhost/pxhost/infra/local/lambda"
	"github.com/pxhost/pxhost/infra/local/statedir"
)

// startServices opens the emulated services and makes in them what the
// template declares. It fills services for the AWS endpoint, and returns the
// functions, nil with ServicesOnly.
func (h *host) startServices(ctx context.Context, dir *statedir.Dir, run Running, services map[string]http.Handler) (*lambda.Host, error) {
	h.readPolicies(run.Template)
	var functions *lambda.Host
	if !h.cfg.ServicesOnly {
		var err error
		if functions, err = h.startLambda(dir, run); err != nil {
			return nil, err
		}
		h.onClose(functions.Close)
		services["lambda"] = functions
	}
	return functions, nil
}
