package blob

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"

	emulator "github.com/pxhost/pxhost/infra/local/s3"
	"github.com/pxhost/pxhost/shared/history"
)

func emulated(t *testing.T) *s3.Client {
	t.Helper()
	service, err := emulator.Open(emulator.Options{File: filepath.Join(t.TempDir(), "s3.db")})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(service)
	t.Cleanup(func() {
		server.Close()
		if err := service.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := service.MakeBucket("bucket"); err != nil {
		t.Fatal(err)
	}
	return s3.New(s3.Options{BaseEndpoint: &server.URL, Region: "us-east-1", UsePathStyle: true, HTTPClient: server.Client(),
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "test", SecretAccessKey: "test"}, nil
		})})
}

func TestABodyComesBackAndPuttingItAgainIsNoError(t *testing.T) {
	store := Store{Client: emulated(t), Bucket: "bucket"}
	body := bytes.Repeat([]byte{0, 1, 0xff, '\n'}, 200_000)
	for range 2 {
		if err := store.Put(t.Context(), "ws/proj/sha256:abc", body); err != nil {
			t.Fatal(err)
		}
	}
	got, err := store.Get(t.Context(), "ws/proj/sha256:abc")
	if err != nil || !bytes.Equal(got, body) {
		t.Fatal(len(got), err)
	}
	if _, err := store.Get(t.Context(), "ws/proj/sha256:none"); !errors.Is(err, history.ErrNotFound) {
		t.Fatal(err)
	}
}

// broken answers every call with an error, or a body that ends early.
type broken struct {
	Client
	err error
}

func (b broken) GetObject(context.Context, *s3.GetObjectInput, ...func(*s3.Options)) (*s3.GetObjectOutput, error) {
	if b.err != nil {
		return nil, b.err
	}
	return &s3.GetObjectOutput{Body: io.NopCloser(io.MultiReader(strings.NewReader("half"), failing{}))}, nil
}

func (b broken) PutObject(context.Context, *s3.PutObjectInput, ...func(*s3.Options)) (*s3.PutObjectOutput, error) {
	return nil, b.err
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// A failure is never taken for a body that is not there, and its text quotes
// nothing.
func TestAFailureIsNotAMissingBody(t *testing.T) {
	for name, err := range map[string]error{
		"a denial":        &smithy.GenericAPIError{Code: "AccessDenied", Message: "secret/name"},
		"a lost answer":   errors.New("read tcp: secret/name"),
		"half a body":     nil,
		"a deadline":      context.DeadlineExceeded,
		"a cancelled one": context.Canceled,
	} {
		store := Store{Client: broken{err: err}, Bucket: "bucket"}
		_, got := store.Get(t.Context(), "secret/name")
		if got == nil || errors.Is(got, history.ErrNotFound) || strings.Contains(got.Error(), "secret") {
			t.Errorf("%s: %v", name, got)
		}
		if err == nil {
			continue
		}
		if got := store.Put(t.Context(), "secret/name", nil); got == nil || strings.Contains(got.Error(), "secret") {
			t.Errorf("%s: put: %v", name, got)
		}
		if (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) && !errors.Is(got, err) {
			t.Errorf("%s is not told as one: %v", name, got)
		}
	}
}
