package blob

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

// shelf is a bucket and its presigner. fail names the call that fails.
type shelf struct {
	bodies, kinds map[string]string
	fail          string
	put           int
	signed        *s3.GetObjectInput
	life          time.Duration
}

var errShelf = errors.New("shelf")

func (s *shelf) HeadObject(_ context.Context, in *s3.HeadObjectInput, _ ...func(*s3.Options)) (*s3.HeadObjectOutput, error) {
	if s.fail == "head" {
		return nil, errShelf
	}
	if _, ok := s.bodies[*in.Key]; !ok {
		return nil, &types.NotFound{}
	}
	return &s3.HeadObjectOutput{}, nil
}

func (s *shelf) PutObject(_ context.Context, in *s3.PutObjectInput, _ ...func(*s3.Options)) (*s3.PutObjectOutput, error) {
	if s.fail == "put" {
		return nil, errShelf
	}
	text, err := io.ReadAll(in.Body)
	s.put++
	s.bodies[*in.Key], s.kinds[*in.Key] = string(text), *in.ContentType
	return &s3.PutObjectOutput{}, err
}

func (s *shelf) PresignGetObject(_ context.Context, in *s3.GetObjectInput, options ...func(*s3.PresignOptions)) (*v4.PresignedHTTPRequest, error) {
	if s.fail == "presign" {
		return nil, errShelf
	}
	var o s3.PresignOptions
	for _, f := range options {
		f(&o)
	}
	s.signed, s.life = in, o.Expires
	return &v4.PresignedHTTPRequest{URL: "https://bucket/" + *in.Key}, nil
}

// covers: U3
func TestADownloadIsStoredOnceAndAddressedForAsLongAsItWasSaid(t *testing.T) {
	s := &shelf{bodies: map[string]string{}, kinds: map[string]string{}}
	d := Downloads{Client: s, Presign: s, Bucket: "bucket"}
	address := func(body func() ([]byte, error)) (string, error) {
		return d.Address(t.Context(), "download/a", "table.json", "application/json", 5*time.Minute, body)
	}
	bytes := func() ([]byte, error) { return []byte("{}"), nil }
	for _, fail := range []string{"head", "put", "presign"} {
		s.fail = fail
		if url, err := address(bytes); err == nil || url != "" || errors.Is(err, errShelf) {
			t.Errorf("%s fails: %q, %v", fail, url, err)
		}
	}
	delete(s.bodies, "download/a")
	s.fail, s.put = "", 0
	if _, err := address(func() ([]byte, error) { return nil, io.ErrUnexpectedEOF }); !errors.Is(err, io.ErrUnexpectedEOF) || s.put != 0 {
		t.Errorf("a body that cannot be read: %v, put %d times", err, s.put)
	}
	for range 2 {
		url, err := address(bytes)
		if err != nil || url != "https://bucket/download/a" || s.put != 1 || s.bodies["download/a"] != "{}" || s.kinds["download/a"] != "application/json" {
			t.Errorf("%q, %v, put %d times: %v %v", url, err, s.put, s.bodies, s.kinds)
		}
	}
	if s.life != 5*time.Minute || *s.signed.Bucket != "bucket" || *s.signed.ResponseContentDisposition != `attachment; filename="table.json"` {
		t.Errorf("signed for %v: %+v", s.life, s.signed)
	}
}
