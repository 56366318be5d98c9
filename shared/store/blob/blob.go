// Package blob keeps bodies that are too large for a DynamoDB item in an S3
// bucket. Names are content-addressed, so writing one twice writes the same
// bytes. It is the edge: no AWS error leaves it.
package blob

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/smithy-go"

	"github.com/pxhost/pxhost/shared/history"
)

// A Client is the part of *Bucket that is used.
type Client interface {
	Get(ctx context.Context, name string, most int64) ([]byte, error)
	Put(ctx context.Context, name string, body []byte, mediaType string) error
}

// MaxBytes bounds what is read: no body that pxhost stores is larger.
const MaxBytes = 64 << 20

// Store implements dynamo.Blobs.
type Store struct{ Client Client }

// Put stores a body. It may be repeated.
func (s Store) Put(ctx context.Context, name string, body []byte) error {
	if err := s.Client.Put(ctx, name, body, ""); err != nil {
		return plain("put", err)
	}
	return nil
}

// Get returns a body, or an error that wraps history.ErrNotFound.
func (s Store) Get(ctx context.Context, name string) ([]byte, error) {
	body, err := s.Client.Get(ctx, name, MaxBytes)
	if errors.Is(err, history.ErrNotFound) {
		return nil, err
	}
	if err != nil {
		return nil, plain("get", err)
	}
	return body, nil
}

// plain keeps the error's code and drops its message, which may quote a name.
func plain(op string, err error) error {
	for _, known := range []error{context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, known) {
			return fmt.Errorf("blob: %s: %w", op, known)
		}
	}
	var api smithy.APIError
	if errors.As(err, &api) {
		return fmt.Errorf("blob: %s: %s", op, api.ErrorCode())
	}
	return fmt.Errorf("blob: %s: no readable answer", op)
}
