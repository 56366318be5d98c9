package tool

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// A Principal is who the verified token says is calling.
type Principal struct {
	Issuer  string   `json:"iss"`
	Subject string   `json:"sub"`
	Scopes  []string `json:"scopes"`
	// Session names the session of the token, for what is bound to it; see
	// identity.Token. Nothing else depends on it: a principal is who it is in every
	// session.
	Session string `json:"session,omitzero"`
}

// String returns "issuer|subject", the form used in grants and keys.
func (p Principal) String() string { return p.Issuer + "|" + p.Subject }

// An Assistant is what the client says of the AI behind it. It is provenance
// and never decides anything.
type Assistant struct {
	Provider string `json:"provider"`
	Model    string `json:"model"`
}

// RequestVersion is the version of the payload below.
const RequestVersion = 1

// A Request is the payload with which the endpoint invokes a tool's Lambda. Only
// the endpoint and the console may invoke tools, so the principal is trusted.
type Request struct {
	Version   int            `json:"v"`
	RequestID string         `json:"requestId"`
	Tool      string         `json:"tool"`
	Principal Principal      `json:"principal"`
	Arguments jsontext.Value `json:"arguments"`
	Assistant *Assistant     `json:"assistant,omitzero"`
	Deadline  time.Time      `json:"deadline"`
	// ByteShare is how many bytes this answer may use, serialized and escaped
	// (decision 19). The tool obeys it as a budget.
	ByteShare int `json:"byteShare"`
}

// The error types of a tool Lambda, as the endpoint reads them from errorType.
// Both become JSON-RPC -32603; they differ in data.retryable.
const (
	RetryableErrorType = "px.Retryable"
	FatalErrorType     = "px.Fatal"
)
