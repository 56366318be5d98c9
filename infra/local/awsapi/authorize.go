package awsapi

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/pxhost/pxhost/infra/local/lambda"
)

// Resources give the ARNs of what requests name.
type Resources struct {
	Table    func(name string) string      // DynamoDB table by name or ARN
	Function func(nameOrARN string) string // Lambda function by name or ARN
	// Key is a KMS key by its ID, ARN or alias, or by a ciphertext where it is not named;
	// "" is that there is none.
	Key func(name string, ciphertext []byte) string
}

// A Statement is one IAM statement.
type Statement struct {
	Deny               bool
	Actions, Resources []string // with * and ?
	// Present are condition keys that a request must have for the statement to be about
	// it.
	Present []string
}

// Permits evaluates statements as IAM does: what is denied is denied, else
// what is allowed is allowed, and nothing else. keys are the condition keys that the
// request has.
func Permits(statements []Statement, action, resource string, keys ...string) bool {
	has := func(key string) bool {
		return slices.ContainsFunc(keys, func(k string) bool { return strings.EqualFold(k, key) })
	}
	allowed := false
	for _, s := range statements {
		if !anyMatch(s.Actions, action, true) || !anyMatch(s.Resources, resource, false) || slices.ContainsFunc(s.Present, func(key string) bool { return !has(key) }) {
			continue
		}
		if s.Deny {
			return false
		}
		allowed = true
	}
	return allowed
}

func anyMatch(patterns []string, s string, fold bool) bool {
	if fold { // IAM compares actions without case
		s = strings.ToLower(s)
	}
	for _, p := range patterns {
		if fold {
			p = strings.ToLower(p)
		}
		if match(p, s) {
			return true
		}
	}
	return false
}

// match compares with * (any run of characters) and ? (one character).
func match(pattern, s string) bool {
	p, i, star, mark := 0, 0, -1, 0
	for i < len(s) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, i
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == s[i]):
			p++
			i++
		case star >= 0:
			mark++
			p, i = star+1, mark
		default:
			return false
		}
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}

// need is one permission that a request takes.
type need struct{ action, resource string }

// authorize returns why the request is denied, or "".
func (e *endpoint) authorize(principal, service string, r *http.Request, body []byte) string {
	if e.Allow == nil {
		return ""
	}
	var keys []string
	if service == "kms" {
		keys = contextKeys(body)
	}
	for _, n := range e.needs(service, r, body) {
		if !e.Allow(principal, n.action, n.resource, keys...) {
			return "User: " + principal + " is not authorized to perform: " + n.action + " on resource: " + n.resource + " because no identity-based policy allows the " + n.action + " action"
		}
	}
	return ""
}

// needs lists the permissions of a request. A request whose resources cannot
// be read needs the action on *, which no function of the project has: the
// service would refuse such a request anyway.
func (e *endpoint) needs(service string, r *http.Request, body []byte) []need {
	switch service {
	case "dynamodb":
		_, op, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
		return e.tableNeeds(op, body)
	case "states":
		_, op, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
		return stateNeeds(op, body)
	case "lambda":
		if name, ok := lambda.FunctionOf(r); ok {
			return []need{{"lambda:InvokeFunction", e.Resources.Function(name)}}
		}
		return []need{{"lambda:*", "*"}}
	case "s3":
		return objectNeeds(r)
	case "ecs":
		_, op, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
		return taskNeeds(op, body)
	case "kms":
		_, op, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
		return e.keyNeeds(op, body)
	}
	return []need{{service + ":*", "*"}}
}

func (e *endpoint) tableNeeds(op string, body []byte) []need {
	type named struct{ TableName string }
	var in struct {
		TableName     string
		IndexName     string
		RequestItems  map[string]json.RawMessage
		TransactItems []struct {
			Put, Update, Delete, ConditionCheck, Get *named
		}
	}
	action := "dynamodb:" + op
	if json.Unmarshal(body, &in) != nil {
		return []need{{action, "*"}}
	}
	var out []need
	switch op {
	case "TransactWriteItems", "TransactGetItems":
		for _, t := range in.TransactItems {
			for name, n := range map[string]*named{"PutItem": t.Put, "UpdateItem": t.Update, "DeleteItem": t.Delete, "ConditionCheckItem": t.ConditionCheck, "GetItem": t.Get} {
				if n != nil {
					out = append(out, need{"dynamodb:" + name, e.Resources.Table(n.TableName)})
				}
			}
		}
	case "BatchGetItem", "BatchWriteItem":
		for t := range in.RequestItems {
			out = append(out, need{action, e.Resources.Table(t)})
		}
	default:
		if in.TableName == "" {
			break
		}
		arn := e.Resources.Table(in.TableName)
		if in.IndexName != "" {
			arn += "/index/" + in.IndexName
		}
		out = append(out, need{action, arn})
	}
	if len(out) == 0 {
		out = append(out, need{action, "*"})
	}
	return out
}

func stateNeeds(op string, body []byte) []need {
	var in struct {
		StateMachineArn string `json:"stateMachineArn"`
		ExecutionArn    string `json:"executionArn"`
		MapRunArn       string `json:"mapRunArn"`
	}
	json.Unmarshal(body, &in)
	for _, arn := range []string{in.StateMachineArn, in.ExecutionArn, in.MapRunArn} {
		if arn != "" {
			return []need{{"states:" + op, arn}}
		}
	}
	return []need{{"states:" + op, "*"}} // the SendTask operations name no resource
}

// taskNeeds: tasks and their definitions are named by their ARN, which all functions
// use; by a family or an ID, they would have to be looked up first.
func taskNeeds(op string, body []byte) []need {
	var in struct {
		TaskDefinition string   `json:"taskDefinition"`
		Tasks          []string `json:"tasks"`
	}
	if json.Unmarshal(body, &in) != nil {
		return []need{{"ecs:" + op, "*"}}
	}
	var out []need
	for _, arn := range append(in.Tasks, in.TaskDefinition) {
		if strings.HasPrefix(arn, "arn:") {
			out = append(out, need{"ecs:" + op, arn})
		}
	}
	if len(out) == 0 {
		out = append(out, need{"ecs:" + op, "*"})
	}
	return out
}

// keyRequest is what of a request of KMS says whether it is permitted.
type keyRequest struct {
	KeyID             string `json:"KeyId"`
	CiphertextBlob    []byte
	EncryptionContext map[string]string
}

// keyNeeds: a key is permitted by its ARN, however the request names it.
func (e *endpoint) keyNeeds(op string, body []byte) []need {
	var in keyRequest
	if json.Unmarshal(body, &in) == nil {
		if arn := e.Resources.Key(in.KeyID, in.CiphertextBlob); arn != "" {
			return []need{{"kms:" + op, arn}}
		}
	}
	return []need{{"kms:" + op, "*"}}
}

// contextKeys are the condition keys that a request of KMS has: one for each name in its
// encryption context.
func contextKeys(body []byte) []string {
	var in keyRequest
	if json.Unmarshal(body, &in) != nil {
		return nil
	}
	var out []string
	for name := range in.EncryptionContext {
		out = append(out, "kms:EncryptionContext:"+name)
	}
	return out
}

func objectNeeds(r *http.Request) []need {
	bucket, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	arn := "arn:aws:s3:::" + bucket
	if key == "" {
		if r.Method == http.MethodGet && bucket != "" {
			return []need{{"s3:ListBucket", arn}}
		}
		return []need{{"s3:*", "*"}}
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		return []need{{"s3:GetObject", arn + "/" + key}}
	case http.MethodPut:
		return []need{{"s3:PutObject", arn + "/" + key}}
	case http.MethodDelete:
		return []need{{"s3:DeleteObject", arn + "/" + key}}
	}
	return []need{{"s3:*", "*"}}
}
