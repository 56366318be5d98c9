package local

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/pxhost/pxhost/infra/local/awsapi"
	"github.com/pxhost/pxhost/infra/local/lambda"
	"github.com/pxhost/pxhost/infra/local/s3"
	"github.com/pxhost/pxhost/infra/local/statedir"
)

// startServices opens the emulated services and makes in them what the
// template declares. It fills services for the AWS endpoint, and returns the
// functions, nil with ServicesOnly.
func (h *host) startServices(ctx context.Context, dir *statedir.Dir, run Running, services map[string]http.Handler) (*lambda.Host, error) {
	h.readPolicies(run.Template)
	if err := h.startS3(dir, run, services); err != nil {
		return nil, err
	}
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

func (h *host) startS3(dir *statedir.Dir, run Running, services map[string]http.Handler) error {
	objects, err := s3.Open(s3.Options{File: dir.Path("s3.db")})
	if err != nil {
		return err
	}
	h.onClose(objects.Close)
	for _, b := range run.Template.Buckets {
		if err := objects.MakeBucket(b.Name); err != nil {
			return fmt.Errorf("bucket %s: %w", b.Name, err)
		}
	}
	services["s3"] = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		bucket, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		if !h.allow(awsapi.Principal(r.Context()), "s3:ListBucket", "arn:aws:s3:::"+bucket) {
			r = r.WithContext(s3.WithoutList(r.Context()))
		}
		objects.ServeHTTP(w, r)
	})
	return nil
}
