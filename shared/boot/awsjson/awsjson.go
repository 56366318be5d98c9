// Package awsjson calls an AWS service that speaks JSON, one operation at a time, with
// signed requests of HTTP. The SDK's client of a service can do all that the service
// can, which is some megabytes in the bootstrap of a function that needs two calls.
package awsjson

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/smithy-go"
	"github.com/go-json-experiment/json"

	"github.com/pxhost/pxhost/shared/boot"
	"github.com/pxhost/pxhost/shared/wait"
)

// maxAnswer bounds an answer, in bytes.
const maxAnswer = 1 << 20

// attempts is how often a request is sent that got no answer, or one that says that
// it may be sent again: as often as the SDK would.
const attempts = 3

// A service is what a request says of the service that it is for.
type service struct {
	name    string // of its endpoint, and in signatures
	target  string // what stands before the operation in X-Amz-Target
	version string // of the protocol
}

// A Client calls one service.
type Client struct {
	service service
	config  aws.Config
	signer  *v4.Signer
	now     func() time.Time
	pause   func(ctx context.Context, attempt int) error
}

// ECS returns a client of the environment's ECS.
func ECS(env *boot.Env) *Client {
	return with(service{"ecs", "AmazonEC2ContainerServiceV20141113", "1.1"}, boot.AWS(env, "ECS"))
}

// SFN returns a client of the environment's Step Functions.
func SFN(env *boot.Env) *Client {
	return with(service{"states", "AWSStepFunctions", "1.0"}, boot.AWS(env, "SFN"))
}

// KMS returns a client of the environment's KMS.
func KMS(env *boot.Env) *Client {
	return with(service{"kms", "TrentService", "1.1"}, boot.AWS(env, "KMS"))
}

func with(s service, config aws.Config) *Client {
	if config.BaseEndpoint == nil {
		domain := "amazonaws.com"
		if strings.HasPrefix(config.Region, "cn-") {
			domain += ".cn"
		}
		config.BaseEndpoint = aws.String("https://" + s.name + "." + config.Region + "." + domain)
	}
	return &Client{s, config, v4.NewSigner(), time.Now, pause}
}

// pause waits before another attempt.
func pause(ctx context.Context, attempt int) error {
	return wait.For(ctx, time.Duration(rand.Int64N(int64(100*time.Millisecond)<<attempt)))
}

// Call performs an operation, up to three times while the service gives no answer or
// says that it is busy: only for operations that may be sent twice. A refusal is a
// smithy.APIError that holds the code alone, since a message may quote the request.
// What out does not name is left out of it.
func (c *Client) Call(ctx context.Context, operation string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("awsjson: %s: %w", operation, err)
	}
	for attempt := 1; ; attempt++ {
		var again bool
		if again, err = c.send(ctx, operation, body, out); !again || attempt == attempts || ctx.Err() != nil {
			return err
		}
		if waited := c.pause(ctx, attempt); waited != nil {
			return errors.Join(err, waited)
		}
	}
}

func (c *Client) send(ctx context.Context, operation string, body []byte, out any) (again bool, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimRight(*c.config.BaseEndpoint, "/")+"/", bytes.NewReader(body))
	if err != nil {
		return false, fmt.Errorf("awsjson: %s: %w", operation, err)
	}
	request.Header.Set("Content-Type", "application/x-amz-json-"+c.service.version)
	request.Header.Set("X-Amz-Target", c.service.target+"."+operation)
	credentials, err := c.config.Credentials.Retrieve(ctx)
	if err != nil {
		return false, fmt.Errorf("awsjson: %s: credentials: %w", operation, err)
	}
	digest := sha256.Sum256(body)
	if err := c.signer.SignHTTP(ctx, credentials, request, hex.EncodeToString(digest[:]), c.service.name, c.config.Region, c.now()); err != nil {
		return false, fmt.Errorf("awsjson: %s: sign: %w", operation, err)
	}
	response, err := c.config.HTTPClient.Do(request)
	if err != nil {
		return true, fmt.Errorf("awsjson: %s: %w", operation, err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	switch {
	case err != nil:
		return true, fmt.Errorf("awsjson: %s: %w", operation, err)
	case len(answer) > maxAnswer:
		return false, fmt.Errorf("awsjson: %s: an answer of more than %d bytes", operation, maxAnswer)
	case response.StatusCode != http.StatusOK:
		refusal := &smithy.GenericAPIError{Code: code(response, answer), Fault: smithy.FaultClient}
		if response.StatusCode >= 500 {
			refusal.Fault = smithy.FaultServer
		}
		return response.StatusCode >= 500 || response.StatusCode == http.StatusTooManyRequests || strings.HasPrefix(refusal.Code, "Throttling"), refusal
	}
	if err := json.Unmarshal(answer, out); err != nil {
		return false, fmt.Errorf("awsjson: %s: no readable answer", operation)
	}
	return false, nil
}

// code is the name of a refusal, which stands in a header or in the body, perhaps
// behind a namespace.
func code(response *http.Response, body []byte) string {
	var named struct {
		Type string `json:"__type"`
		Code string `json:"code"`
	}
	name := response.Header.Get("X-Amzn-Errortype")
	if name == "" && json.Unmarshal(body, &named) == nil {
		if name = named.Type; name == "" {
			name = named.Code
		}
	}
	name, _, _ = strings.Cut(name, ":")
	name = name[strings.LastIndex(name, "#")+1:]
	if name == "" || len(name) > 100 {
		return fmt.Sprint("status ", response.StatusCode)
	}
	return name
}
