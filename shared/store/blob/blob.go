// Package blob keeps bodies that are too large for a DynamoDB item in an S3
// bucket. Names are content-addressed, so writing one twice writes the same
// bytes. It is the edge: no AWS error leaves it.
package blob

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"

	"github.com/pxhost/pxhost/shared/history"
)

// A Client is the part of *s3.Client that is used.
type Client interface {
	GetObject(context.Context, *s3.GetObjectInput, ...func(*s3.Options)) (*s3.GetObjectOutput, error)
	PutObject(context.Context, *s3.PutObjectInput, ...func(*s3.Options)) (*s3.PutObjectOutput, error)
}

// MaxBytes bounds what is read: no body that pxhost stores is larger.
const MaxBytes = 64 << 20

// Store implements dynamo.Blobs.
type Store struct {
	Client Client
	Bucket string
}

// Put stores a body. It may be repeated.
func (s Store) Put(ctx context.Context, name string, body []byte) error {
	_, err := s.Client.PutObject(ctx, &s3.PutObjectInput{Bucket: &s.Bucket, Key: &name, Body: bytes.NewReader(body)})
	if err != nil {
		return plain("put", err)
	}
	return nil
}

// Get returns a body, or an error that wraps history.ErrNotFound.
func (s Store) Get(ctx context.Context, name string) ([]byte, error) {
	out, err := s.Client.GetObject(ctx, &s3.GetObjectInput{Bucket: &s.Bucket, Key: &name})
	var missing *types.NoSuchKey
	if errors.As(err, &missing) {
		return nil, fmt.Errorf("blob: get: %w", history.ErrNotFound)
	}
	if err != nil {
		return nil, plain("get", err)
	}
	defer out.Body.Close()
	body, err := io.ReadAll(io.LimitReader(out.Body, MaxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("blob: get: read: %w", err)
	}
	if len(body) > MaxBytes {
		return nil, errors.New("blob: get: larger than anything that was stored")
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
