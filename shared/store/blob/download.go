package blob

import (
	"context"
	"fmt"
	"time"
)

// A DownloadClient is the part of *Bucket that Downloads uses.
type DownloadClient interface {
	Has(ctx context.Context, name string) (bool, error)
	Put(ctx context.Context, name string, body []byte, mediaType string) error
	Presign(ctx context.Context, name, disposition string, life time.Duration) (string, error)
}

// Downloads implements resource.Downloads: plain objects with their media type, and
// presigned addresses of them.
type Downloads struct{ Client DownloadClient }

// Address stores the body unless it is there, and presigns its address. The file
// name is a key of ours: it needs no quoting.
func (d Downloads) Address(ctx context.Context, name, fileName, mediaType string, life time.Duration, body func() ([]byte, error)) (string, error) {
	there, err := d.Client.Has(ctx, name)
	if err != nil {
		return "", plain("look for a download", err)
	}
	if !there {
		text, err := body()
		if err != nil {
			return "", err
		}
		if err := d.Client.Put(ctx, name, text, mediaType); err != nil {
			return "", plain("put a download", err)
		}
	}
	address, err := d.Client.Presign(ctx, name, fmt.Sprintf("attachment; filename=%q", fileName), life)
	if err != nil {
		return "", plain("presign", err)
	}
	return address, nil
}
