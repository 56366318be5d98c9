// Package invoke calls a Lambda and waits for its answer, with one signed request of
// HTTP. The client of the AWS SDK can do all that Lambda can, which is 2.6 MB in the
// bootstrap of a tool that needs this one call.
package invoke

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/pxhost/pxhost/shared/boot"
)

// maxAnswer is the largest answer of a Lambda, with room for what an emulator adds.
const maxAnswer = 7 << 20

// A Client invokes Lambdas.
type Client struct {
	config aws.Config
	signer *v4.Signer
	now    func() time.Time
}

// New returns a client of the environment's Lambda. Without a configured endpoint it
// is that of the region.
func New(env *boot.Env) *Client { return with(boot.AWS(env, "LAMBDA"), time.Now) }

func with(config aws.Config, now func() time.Time) *Client {
	if config.BaseEndpoint == nil {
		domain := "amazonaws.com"
		if strings.HasPrefix(config.Region, "cn-") {
			domain += ".cn"
		}
		config.BaseEndpoint = aws.String("https://lambda." + config.Region + "." + domain)
	}
	return &Client{config, v4.NewSigner(), now}
}

// An Answer is what a function answered: its result or, if it failed, the report of
// its failure.
type Answer struct {
	Payload []byte
	Failed  bool
}

// Invoke invokes a function once and never again, since that would repeat its
// effect. An error is of the way there or back, and quotes neither payload nor answer.
func (c *Client) Invoke(ctx context.Context, function string, payload []byte) (Answer, error) {
	header, body, err := c.send(ctx, function, payload, "RequestResponse", http.StatusOK)
	return Answer{body, header.Get("X-Amz-Function-Error") != ""}, err
}

// Start has a function invoked and does not wait for it. Lambda invokes it again, some
// minutes later, where it fails: what it does must be safe to repeat.
func (c *Client) Start(ctx context.Context, function string, payload []byte) error {
	_, _, err := c.send(ctx, function, payload, "Event", http.StatusAccepted)
	return err
}

func (c *Client) send(ctx context.Context, function string, payload []byte, kind string, want int) (http.Header, []byte, error) {
	at := strings.TrimRight(*c.config.BaseEndpoint, "/") + "/2015-03-31/functions/" + url.PathEscape(function) + "/invocations"
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, at, bytes.NewReader(payload))
	if err != nil {
		return nil, nil, fmt.Errorf("invoke: %w", err)
	}
	request.GetBody = nil // net/http would send it again over another connection
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("X-Amz-Invocation-Type", kind)
	credentials, err := c.config.Credentials.Retrieve(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("invoke: credentials: %w", err)
	}
	digest := sha256.Sum256(payload)
	if err := c.signer.SignHTTP(ctx, credentials, request, hex.EncodeToString(digest[:]), "lambda", c.config.Region, c.now()); err != nil {
		return nil, nil, fmt.Errorf("invoke: sign: %w", err)
	}
	response, err := c.config.HTTPClient.Do(request)
	if err != nil {
		return nil, nil, fmt.Errorf("invoke: %w", err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, nil, fmt.Errorf("invoke: %w", err)
	case len(body) > maxAnswer:
		return nil, nil, fmt.Errorf("invoke: an answer of more than %d bytes", maxAnswer)
	case response.StatusCode != want:
		kind, _, _ := strings.Cut(response.Header.Get("X-Amzn-Errortype"), ":")
		return nil, nil, fmt.Errorf("invoke: status %d %.100s", response.StatusCode, kind)
	}
	return response.Header, body, nil
}
