package dynamodb

import (
	"fmt"
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/pxhost/pxhost/infra/local/dynamodb/attribute"
)

// apiError is an answer that a client gets instead of a result.
type apiError struct {
	Type    string               `json:"__type"`
	Message string               `json:"message"`
	Item    attribute.Map        `json:"Item,omitzero"`                // of a failed condition, when asked for
	Reasons []cancellationReason `json:"CancellationReasons,omitzero"` // of a cancelled transaction

	status  int
	upfront bool // told as a transaction's own error: see upfront in keys.go
}

// cancellationReason tells, in an action's place, whether it failed and why.
type cancellationReason struct {
	Code    string
	Message string        `json:",omitzero"`
	Item    attribute.Map `json:",omitzero"`
}

func (e *apiError) Error() string { return e.Type + ": " + e.Message }

func (e *apiError) body() []byte {
	// The name of an unknown operation may be anything.
	body, err := json.Marshal(e, jsontext.AllowInvalidUTF8(true), json.Deterministic(true))
	if err != nil {
		panic(fmt.Sprintf("dynamodb: an error that has no JSON: %v", err))
	}
	return body
}

// Namespaces of error types, as DynamoDB's own front end sends them.
const (
	coralService  = "com.amazon.coral.service#"
	coralValidate = "com.amazon.coral.validate#"
	dynamoService = "com.amazonaws.dynamodb.v20120810#"
)

func badRequest(typ, message string) *apiError {
	return &apiError{Type: typ, Message: message, status: http.StatusBadRequest}
}

// errInvalid is a ValidationException.
func errInvalid(message string) *apiError {
	return badRequest(coralValidate+"ValidationException", message)
}

// errParameter is the ValidationException of a value that is wrong by itself.
func errParameter(message string) *apiError {
	return errInvalid("One or more parameter values were invalid: " + message)
}

// errShape is a SerializationException: JSON of a wrong type.
func errShape(message string) *apiError {
	return badRequest(coralService+"SerializationException", message)
}

// errRefused is how this emulator refuses what DynamoDB has and it has not.
func errRefused(what string) *apiError {
	return errInvalid(what + " is not supported by the local DynamoDB and is refused rather than ignored")
}

func errCondition() *apiError {
	return badRequest(dynamoService+"ConditionalCheckFailedException", conditionFailed)
}

const conditionFailed = "The conditional request failed"

// errNoTable is what item operations say of a table that does not exist.
func errNoTable() *apiError {
	return badRequest(dynamoService+"ResourceNotFoundException", "Requested resource not found")
}

// errNoTableNamed is what table operations say of it.
func errNoTableNamed(name string) *apiError {
	return badRequest(dynamoService+"ResourceNotFoundException", "Requested resource not found: Table: "+name+" not found")
}

// errInternal hides a fault of the emulator itself or of the disk.
func errInternal(err error) *apiError {
	return &apiError{
		Type: dynamoService + "InternalServerError", Message: "The local DynamoDB failed: " + err.Error(),
		status: http.StatusInternalServerError,
	}
}
