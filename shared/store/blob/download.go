package blob

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

// A DownloadClient is the part of *s3.Client that Downloads uses.
type DownloadClient interface {
	HeadObject(context.Context, *s3.HeadObjectInput, ...func(*s3.Options)) (*s3.HeadObjectOutput, error)
	PutObject(context.Context, *s3.PutObjectInput, ...func(*s3.Options)) (*s3.PutObjectOutput, error)
}

// A Presigner is the part of *s3.PresignClient that is used.
type Presigner interface {
	PresignGetObject(context.Context, *s3.GetObjectInput, ...func(*s3.PresignOptions)) (*v4.PresignedHTTPRequest, error)
}

// Downloads implements resource.Downloads: plain objects with their media type, and
// presigned addresses of them.
type Downloads struct {
	Client  DownloadClient
	Presign Presigner
	Bucket  string
}

// Address stores the body unless it is there, and presigns its address. The file
// name is a key of ours: it needs no quoting.
func (d Downloads) Address(ctx context.Context, name, fileName, mediaType string, life time.Duration, body func() ([]byte, error)) (string, error) {
	_, err := d.Client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &d.Bucket, Key: &name})
	var missing *types.NotFound
	switch {
	case errors.As(err, &missing):
		text, err := body()
		if err != nil {
			return "", err
		}
		if _, err := d.Client.PutObject(ctx, &s3.PutObjectInput{Bucket: &d.Bucket, Key: &name, Body: bytes.NewReader(text), ContentType: &mediaType}); err != nil {
			return "", plain("put a download", err)
		}
	case err != nil:
		return "", plain("look for a download", err)
	}
	disposition := fmt.Sprintf("attachment; filename=%q", fileName)
	signed, err := d.Presign.PresignGetObject(ctx, &s3.GetObjectInput{Bucket: &d.Bucket, Key: &name, ResponseContentDisposition: &disposition}, s3.WithPresignExpires(life))
	if err != nil {
		return "", plain("presign", err)
	}
	return signed.URL, nil
}
