package blob

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"

	emulator "github.com/pxhost/pxhost/infra/local/s3"
	"github.com/pxhost/pxhost/shared/history"
)

func config(server *httptest.Server) aws.Config {
	return aws.Config{BaseEndpoint: &server.URL, Region: "us-east-1", HTTPClient: server.Client(),
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "test", SecretAccessKey: "test", SessionToken: "session"}, nil
		})}
}

func emulated(t *testing.T) (*Bucket, *s3.Client) {
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
	return Open(config(server), "bucket"), s3.NewFromConfig(config(server), func(o *s3.Options) { o.UsePathStyle = true })
}

func TestABodyComesBackAndPuttingItAgainIsNoError(t *testing.T) {
	bucket, _ := emulated(t)
	store := Store{bucket}
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

// broken answers every call with an error.
type broken struct{ err error }

func (b broken) Get(context.Context, string, int64) ([]byte, error) { return nil, b.err }

func (b broken) Put(context.Context, string, []byte, string) error { return b.err }

// A failure is never taken for a body that is not there, and its text quotes
// nothing.
func TestAFailureIsNotAMissingBody(t *testing.T) {
	for name, err := range map[string]error{
		"a denial":        &smithy.GenericAPIError{Code: "AccessDenied", Message: "secret/name"},
		"a lost answer":   errors.New("read tcp: secret/name"),
		"a deadline":      context.DeadlineExceeded,
		"a cancelled one": context.Canceled,
	} {
		store := Store{broken{err}}
		_, got := store.Get(t.Context(), "secret/name")
		if got == nil || errors.Is(got, history.ErrNotFound) || strings.Contains(got.Error(), "secret") {
			t.Errorf("%s: %v", name, got)
		}
		if got := store.Put(t.Context(), "secret/name", nil); got == nil || strings.Contains(got.Error(), "secret") {
			t.Errorf("%s: put: %v", name, got)
		}
		if (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) && !errors.Is(got, err) {
			t.Errorf("%s is not told as one: %v", name, got)
		}
	}
}

// What is stored, and under which name, the SDK's client sees as it does its own.
func TestABucketIsThatOfTheSDK(t *testing.T) {
	bucket, sdk := emulated(t)
	ctx := t.Context()
	for _, name := range []string{"a", "ws/proj/sha256:abc", "a b/ü+&=?#%", "x//y", "(a)*'!~"} {
		if has, err := bucket.Has(ctx, name); has || err != nil {
			t.Errorf("%s is there before it was put: %v", name, err)
		}
		if err := bucket.Put(ctx, name, []byte("of "+name), "text/plain"); err != nil {
			t.Fatal(name, err)
		}
		out, err := sdk.GetObject(ctx, &s3.GetObjectInput{Bucket: aws.String("bucket"), Key: &name})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		body, err := io.ReadAll(out.Body)
		if err != nil || string(body) != "of "+name || aws.ToString(out.ContentType) != "text/plain" {
			t.Errorf("%s: %q %v %v", name, body, aws.ToString(out.ContentType), err)
		}
		if _, err := sdk.PutObject(ctx, &s3.PutObjectInput{Bucket: aws.String("bucket"), Key: &name, Body: strings.NewReader("of the SDK")}); err != nil {
			t.Fatal(err)
		}
		if got, err := bucket.Get(ctx, name, 100); err != nil || string(got) != "of the SDK" {
			t.Errorf("%s: %q %v", name, got, err)
		}
		if has, err := bucket.Has(ctx, name); !has || err != nil {
			t.Errorf("%s is not there: %v", name, err)
		}
	}
	if _, err := bucket.Get(ctx, "a", 9); err == nil {
		t.Error("more is read than was asked for")
	}
}

// An address that was presigned is the very one that the SDK presigns.
func TestAPresignedAddressIsThatOfTheSDK(t *testing.T) {
	bucket, sdk := emulated(t)
	now := time.Now()
	bucket.now = func() time.Time { return now }
	if err := bucket.Put(t.Context(), "download/a b", []byte("{}"), ""); err != nil {
		t.Fatal(err)
	}
	name, disposition := "download/a b", `attachment; filename="table.json"`
	address, err := bucket.Presign(t.Context(), name, disposition, 5*time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(answer.Body)
	answer.Body.Close()
	if answer.StatusCode != 200 || string(body) != "{}" || answer.Header.Get("Content-Disposition") != disposition {
		t.Errorf("%d %q %v", answer.StatusCode, body, answer.Header)
	}
	same, err := s3.NewPresignClient(sdk).PresignGetObject(t.Context(), &s3.GetObjectInput{Bucket: aws.String("bucket"), Key: &name, ResponseContentDisposition: &disposition}, s3.WithPresignExpires(5*time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	parts := func(address string) string {
		u, err := http.NewRequest("GET", address, nil)
		if err != nil {
			t.Fatal(err)
		}
		q := u.URL.Query()
		for _, moment := range []string{"X-Amz-Date", "X-Amz-Signature"} {
			if q.Get(moment) == "" {
				t.Errorf("there is no %s", moment)
			}
			q.Del(moment)
		}
		return u.URL.EscapedPath() + "?" + q.Encode()
	}
	if parts(address) != parts(same.URL) {
		t.Errorf("%s\n%s", parts(address), parts(same.URL))
	}
}

// covers: W5
func TestABucketTriesAgainWhatMayPassAndNothingElse(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		body   string
		calls  int
	}{
		"it is slow":     {503, "<Error><Code>SlowDown</Code></Error>", 3},
		"it failed":      {500, "", 3},
		"it is busy":     {429, "", 3},
		"it is denied":   {403, "<Error><Code>AccessDenied</Code><Message>secret</Message></Error>", 1},
		"no such bucket": {404, "<Error><Code>NoSuchBucket</Code></Error>", 1},
		"a redirect":     {301, "<Error><Code>PermanentRedirect</Code></Error>", 1},
	} {
		calls := 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			calls++
			w.WriteHeader(c.status)
			fmt.Fprint(w, c.body)
		}))
		bucket := Open(config(server), "bucket")
		bucket.pause = func(context.Context, int) error { return nil }
		_, err := bucket.Get(t.Context(), "x", 10)
		var refused smithy.APIError
		if !errors.As(err, &refused) || errors.Is(err, history.ErrNotFound) || calls != c.calls || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v after %d calls", name, err, calls)
		}
		server.Close()
	}
}

func TestABodyThatEndsEarlyIsReadAgainAndNeverTakenForWhole(t *testing.T) {
	calls := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls++
		w.Header().Set("Content-Length", "4")
		if calls == 2 {
			fmt.Fprint(w, "half")
			return
		}
		fmt.Fprint(w, "ha")
		conn, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			conn.Close()
		}
	}))
	defer server.Close()
	bucket := Open(config(server), "bucket")
	bucket.pause = func(context.Context, int) error { return nil }
	if body, err := bucket.Get(t.Context(), "x", 10); err != nil || string(body) != "half" {
		t.Errorf("%q %v", body, err)
	}
	calls = 3
	if body, err := bucket.Get(t.Context(), "x", 10); err == nil || calls != 6 {
		t.Errorf("%q after %d calls", body, calls-3)
	}
}

func TestWhereABucketIs(t *testing.T) {
	for _, c := range []struct{ region, name, want string }{
		{"eu-west-1", "bucket", "https://bucket.s3.eu-west-1.amazonaws.com/"},
		{"cn-north-1", "bucket", "https://bucket.s3.cn-north-1.amazonaws.com.cn/"},
		{"eu-west-1", "my.bucket", "https://s3.eu-west-1.amazonaws.com/my.bucket/"},
	} {
		if got := Open(aws.Config{Region: c.region}, c.name).at; got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
}
