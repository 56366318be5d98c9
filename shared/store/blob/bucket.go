package blob

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/smithy-go"

	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/wait"
)

// attempts is how often a request is sent that got no answer, or one that says that it
// may be sent again: as often as the SDK would. Each operation here may be repeated.
const attempts = 3

// A Bucket calls S3 with signed requests of HTTP, in the four operations that pxhost
// uses. The SDK's client can do all that S3 can, which is some megabytes in the bootstrap
// of every function that reads an object. It is safe for use by many goroutines.
type Bucket struct {
	config aws.Config
	at     string // where the bucket is, with a / at its end
	signer *v4.Signer
	now    func() time.Time
	pause  func(ctx context.Context, attempt int) error
}

// Open returns a bucket. At an endpoint of its own, as the local host has, the bucket
// stands in the path: its name is no host there. So it does where its name has a dot,
// which the certificate of S3 does not cover.
func Open(config aws.Config, name string) *Bucket {
	domain := "amazonaws.com"
	if strings.HasPrefix(config.Region, "cn-") {
		domain += ".cn"
	}
	at := "https://" + name + ".s3." + config.Region + "." + domain + "/"
	switch {
	case config.BaseEndpoint != nil:
		at = strings.TrimRight(*config.BaseEndpoint, "/") + "/" + name + "/"
	case strings.Contains(name, "."):
		at = "https://s3." + config.Region + "." + domain + "/" + name + "/"
	}
	signer := v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true }) // as S3 asks for
	return &Bucket{config, at, signer, time.Now, pause}
}

// pause waits before another attempt.
func pause(ctx context.Context, attempt int) error {
	return wait.For(ctx, time.Duration(rand.Int64N(int64(100*time.Millisecond)<<attempt)))
}

// Put stores an object in place of the one of that name. mediaType may be "".
func (b *Bucket) Put(ctx context.Context, name string, body []byte, mediaType string) error {
	header := http.Header{}
	if mediaType != "" {
		header.Set("Content-Type", mediaType)
	}
	answer, err := b.call(ctx, http.MethodPut, name, header, body)
	if err != nil {
		return err
	}
	return answer.Body.Close()
}

// Get returns an object, whose size most bounds, or an error that wraps
// history.ErrNotFound.
func (b *Bucket) Get(ctx context.Context, name string, most int64) ([]byte, error) {
	for attempt := 1; ; attempt++ {
		answer, err := b.call(ctx, http.MethodGet, name, http.Header{}, nil)
		if err != nil {
			return nil, err
		}
		body, err := io.ReadAll(io.LimitReader(answer.Body, most+1))
		answer.Body.Close()
		switch {
		case err == nil && int64(len(body)) > most:
			return nil, fmt.Errorf("blob: an object of more than %d bytes", most)
		case err == nil:
			return body, nil
		case attempt == attempts || ctx.Err() != nil || b.pause(ctx, attempt) != nil:
			return nil, fmt.Errorf("blob: read: %w", err)
		}
	}
}

// Has reports whether there is an object of that name.
func (b *Bucket) Has(ctx context.Context, name string) (bool, error) {
	answer, err := b.call(ctx, http.MethodHead, name, http.Header{}, nil)
	if errors.Is(err, history.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, answer.Body.Close()
}

// Presign returns an address from which an object can be had for a while by who has no
// credentials, with a header Content-Disposition.
func (b *Bucket) Presign(ctx context.Context, name, disposition string, life time.Duration) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, b.at+escape(name), nil)
	if err != nil {
		return "", fmt.Errorf("blob: %w", err)
	}
	q := url.Values{"X-Amz-Expires": {strconv.FormatInt(int64(life/time.Second), 10)}, "response-content-disposition": {disposition}, "x-id": {"GetObject"}}
	request.URL.RawQuery = q.Encode()
	credentials, err := b.config.Credentials.Retrieve(ctx)
	if err != nil {
		return "", fmt.Errorf("blob: credentials: %w", err)
	}
	signed, _, err := b.signer.PresignHTTP(ctx, credentials, request, "UNSIGNED-PAYLOAD", "s3", b.config.Region, b.now())
	if err != nil {
		return "", fmt.Errorf("blob: presign: %w", err)
	}
	return signed, nil
}

// escape is a name in a path: / stays, and all but the unreserved characters of RFC 3986
// are percent-encoded, which is how S3 signs it.
func escape(name string) string {
	var out strings.Builder
	for _, c := range []byte(name) {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-_.~/", c) >= 0 {
			out.WriteByte(c)
		} else {
			fmt.Fprintf(&out, "%%%02X", c)
		}
	}
	return out.String()
}

// call sends a request until there is an answer that stands. A refusal is a
// smithy.APIError that holds the code alone.
func (b *Bucket) call(ctx context.Context, method, name string, header http.Header, body []byte) (*http.Response, error) {
	digest := sha256.Sum256(body)
	for attempt := 1; ; attempt++ {
		answer, again, err := b.send(ctx, method, name, header, body, hex.EncodeToString(digest[:]))
		if err == nil || !again || attempt == attempts || ctx.Err() != nil {
			return answer, err
		}
		if waited := b.pause(ctx, attempt); waited != nil {
			return nil, errors.Join(err, waited)
		}
	}
}

func (b *Bucket) send(ctx context.Context, method, name string, header http.Header, body []byte, digest string) (*http.Response, bool, error) {
	request, err := http.NewRequestWithContext(ctx, method, b.at+escape(name), bytes.NewReader(body))
	if err != nil {
		return nil, false, fmt.Errorf("blob: %w", err)
	}
	if body == nil {
		request.Body, request.ContentLength = http.NoBody, 0
	}
	request.Header = header.Clone()
	request.Header.Set("X-Amz-Content-Sha256", digest)
	credentials, err := b.config.Credentials.Retrieve(ctx)
	if err != nil {
		return nil, false, fmt.Errorf("blob: credentials: %w", err)
	}
	if err := b.signer.SignHTTP(ctx, credentials, request, digest, "s3", b.config.Region, b.now()); err != nil {
		return nil, false, fmt.Errorf("blob: sign: %w", err)
	}
	answer, err := b.config.HTTPClient.Do(request)
	if err != nil {
		return nil, true, fmt.Errorf("blob: %w", err)
	}
	if answer.StatusCode == http.StatusOK {
		return answer, false, nil
	}
	defer answer.Body.Close()
	var said struct {
		Code string `xml:"Code"`
	}
	text, _ := io.ReadAll(io.LimitReader(answer.Body, 64<<10))
	if xml.Unmarshal(text, &said) != nil || said.Code == "" || len(said.Code) > 100 {
		said.Code = "status " + strconv.Itoa(answer.StatusCode)
	}
	if answer.StatusCode == http.StatusNotFound && (said.Code == "NoSuchKey" || method == http.MethodHead) {
		return nil, false, fmt.Errorf("blob: %w", history.ErrNotFound)
	}
	refusal := &smithy.GenericAPIError{Code: said.Code, Fault: smithy.FaultClient}
	again := answer.StatusCode >= 500 || answer.StatusCode == http.StatusTooManyRequests
	if again {
		refusal.Fault = smithy.FaultServer
	}
	return nil, again, refusal
}
