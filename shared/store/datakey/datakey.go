// Package datakey gets the keys that encrypt credentials from KMS, one for each secret,
// and has them unwrapped again. It is the edge: of AWS's refusals it tells the code
// alone.
//
// It knows neither what is encrypted nor for whom; a key is bound to what its caller
// says, and KMS unwraps it for nothing else.
package datakey

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/smithy-go"

	"github.com/pxhost/pxhost/shared/connection"
)

// A Client performs operations of KMS that may be sent twice; *awsjson.Client does.
type Client interface {
	Call(ctx context.Context, operation string, in, out any) error
}

// Keys implements connection.DataKeys.
type Keys struct {
	Client Client
	Key    string // ARN of the key that wraps
}

var _ connection.DataKeys = Keys{}

// The parts of KMS's requests and answers that are used, by their names there.
type (
	generateRequest struct {
		KeyID             string            `json:"KeyId"`
		KeySpec           string            `json:"KeySpec"`
		EncryptionContext map[string]string `json:"EncryptionContext"`
	}
	generated struct {
		Plaintext      []byte `json:"Plaintext"`
		CiphertextBlob []byte `json:"CiphertextBlob"`
	}
	// The key is named, so that a ciphertext of another one is refused.
	decryptRequest struct {
		KeyID             string            `json:"KeyId"`
		CiphertextBlob    []byte            `json:"CiphertextBlob"`
		EncryptionContext map[string]string `json:"EncryptionContext"`
	}
	decrypted struct {
		Plaintext []byte `json:"Plaintext"`
	}
)

// Generate implements connection.DataKeys. Asked twice, KMS makes another key: one that
// nobody has used.
func (k Keys) Generate(ctx context.Context, bound map[string]string) (plain, wrapped []byte, err error) {
	var out generated
	if err := k.Client.Call(ctx, "GenerateDataKey", generateRequest{k.Key, "AES_256", bound}, &out); err != nil {
		return nil, nil, told("generate", err)
	}
	return out.Plaintext, out.CiphertextBlob, nil
}

// Unwrap implements connection.DataKeys.
func (k Keys) Unwrap(ctx context.Context, wrapped []byte, bound map[string]string) ([]byte, error) {
	var out decrypted
	if err := k.Client.Call(ctx, "Decrypt", decryptRequest{k.Key, wrapped, bound}, &out); err != nil {
		return nil, told("unwrap", err)
	}
	return out.Plaintext, nil
}

// told keeps the code of a refusal and drops its message.
func told(op string, err error) error {
	for _, known := range []error{context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, known) {
			return fmt.Errorf("datakey: %s: %w", op, known)
		}
	}
	var api smithy.APIError
	if errors.As(err, &api) {
		switch code := api.ErrorCode(); code {
		case "InvalidCiphertextException", "IncorrectKeyException":
			return fmt.Errorf("datakey: %s: %s: %w", op, code, connection.ErrUnreadable)
		default: // the key is disabled, or not to be used by this function: it may be again
			return fmt.Errorf("datakey: %s: %s", op, code)
		}
	}
	return fmt.Errorf("datakey: %s: no readable answer", op)
}
