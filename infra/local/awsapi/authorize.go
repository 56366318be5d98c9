package awsapi

import (
	"encoding/json"
	"net/http"
	"regexp"
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
	// Every are the values, with * and ?, of which each value that a request has for a
	// condition key must be one (ForAllValues:StringLike). As IAM does, it takes a request
	// that has none.
	Every map[string][]string
}

// A Context are the condition keys that a request has, in lower case, with their values.
type Context map[string][]string

// LeadingKeys is the condition key of the partition keys that a request of DynamoDB names.
const LeadingKeys = "dynamodb:leadingkeys"

// Permits evaluates statements as IAM does: what is denied is denied, else
// what is allowed is allowed, and nothing else.
func Permits(statements []Statement, action, resource string, with Context) bool {
	allowed := false
	for _, s := range statements {
		if !anyMatch(s.Actions, action, true) || !anyMatch(s.Resources, resource, false) || !s.holds(with) {
			continue
		}
		if s.Deny {
			return false
		}
		allowed = true
	}
	return allowed
}

// holds reports whether a request meets the conditions.
func (s Statement) holds(with Context) bool {
	for _, key := range s.Present {
		if with[strings.ToLower(key)] == nil {
			return false
		}
	}
	for key, patterns := range s.Every {
		for _, value := range with[strings.ToLower(key)] {
			if !anyMatch(patterns, value, false) {
				return false
			}
		}
	}
	return true
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

// need is one permission that a request takes, with the condition keys that it has for
// it.
type need struct {
	action, resource string
	with             Context
}

// authorize returns why the request is denied, or "".
func (e *endpoint) authorize(principal, service string, r *http.Request, body []byte) string {
	if e.Allow == nil {
		return ""
	}
	for _, n := range e.needs(service, r, body) {
		if !e.Allow(principal, n.action, n.resource, n.with) {
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
			return []need{{action: "lambda:InvokeFunction", resource: e.Resources.Function(name)}}
		}
		return []need{{action: "lambda:*", resource: "*"}}
	case "s3":
		return objectNeeds(r)
	case "ecs":
		_, op, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
		return taskNeeds(op, body)
	case "kms":
		_, op, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
		return e.keyNeeds(op, body)
	}
	return []need{{action: service + ":*", resource: "*"}}
}

// Every table of the project has its partition key under this name, which is how the
// partition keys of a request are told without asking for its table.
const partition = "pk"

// tableRequest is what of a request of DynamoDB says what it is about.
type tableRequest struct {
	TableName, IndexName      string
	Key, Item                 map[string]keyValue
	KeyConditionExpression    string
	ExpressionAttributeNames  map[string]string
	ExpressionAttributeValues map[string]keyValue
}

// keyValue is a value that can be a key here.
type keyValue struct{ S *string }

// equalTo finds what a key is held equal to in a condition of a Query.
var equalTo = regexp.MustCompile(`(#?[A-Za-z_][A-Za-z0-9_]*)\s*=\s*(:[A-Za-z0-9_]+)`)

// leading are the partition keys that a request names. One that cannot be read is "",
// which no key is and no pattern of ours takes.
func leading(values ...keyValue) Context {
	out := make([]string, len(values))
	for i, v := range values {
		if v.S != nil {
			out[i] = *v.S
		}
	}
	return Context{LeadingKeys: out}
}

// leads are the partition keys of a request of one table.
func (in tableRequest) leads() Context {
	switch {
	case in.Key != nil:
		return leading(in.Key[partition])
	case in.Item != nil:
		return leading(in.Item[partition])
	case in.KeyConditionExpression == "":
		return nil // a Scan has none
	}
	for _, pair := range equalTo.FindAllStringSubmatch(in.KeyConditionExpression, -1) {
		name := pair[1]
		if strings.HasPrefix(name, "#") {
			name = in.ExpressionAttributeNames[name]
		}
		if name == partition || in.IndexName != "" {
			return leading(in.ExpressionAttributeValues[pair[2]])
		}
	}
	return leading(keyValue{})
}

func (e *endpoint) tableNeeds(op string, body []byte) []need {
	type put struct{ Key, Item map[string]keyValue }
	var in struct {
		tableRequest
		RequestItems  map[string]json.RawMessage
		TransactItems []struct {
			Put, Update, Delete, ConditionCheck, Get *tableRequest
		}
	}
	action := "dynamodb:" + op
	if json.Unmarshal(body, &in) != nil {
		return []need{{action: action, resource: "*"}}
	}
	var out []need
	switch op {
	case "TransactWriteItems", "TransactGetItems":
		for _, t := range in.TransactItems {
			for name, n := range map[string]*tableRequest{"PutItem": t.Put, "UpdateItem": t.Update, "DeleteItem": t.Delete, "ConditionCheckItem": t.ConditionCheck, "GetItem": t.Get} {
				if n != nil {
					out = append(out, need{"dynamodb:" + name, e.Resources.Table(n.TableName), n.leads()})
				}
			}
		}
	case "BatchGetItem", "BatchWriteItem":
		for t, text := range in.RequestItems {
			var values []keyValue
			var get struct{ Keys []map[string]keyValue }
			var write []struct{ PutRequest, DeleteRequest *put }
			switch {
			case json.Unmarshal(text, &write) == nil:
				for _, w := range write {
					switch {
					case w.PutRequest != nil:
						values = append(values, w.PutRequest.Item[partition])
					case w.DeleteRequest != nil:
						values = append(values, w.DeleteRequest.Key[partition])
					}
				}
			case json.Unmarshal(text, &get) == nil:
				for _, key := range get.Keys {
					values = append(values, key[partition])
				}
			default:
				values = []keyValue{{}}
			}
			out = append(out, need{action, e.Resources.Table(t), leading(values...)})
		}
	default:
		if in.TableName == "" {
			break
		}
		arn := e.Resources.Table(in.TableName)
		if in.IndexName != "" {
			arn += "/index/" + in.IndexName
		}
		out = append(out, need{action, arn, in.leads()})
	}
	if len(out) == 0 {
		out = append(out, need{action: action, resource: "*"})
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
			return []need{{action: "states:" + op, resource: arn}}
		}
	}
	return []need{{action: "states:" + op, resource: "*"}} // the SendTask operations name no resource
}

// taskNeeds: tasks and their definitions are named by their ARN, which all functions
// use; by a family or an ID, they would have to be looked up first.
func taskNeeds(op string, body []byte) []need {
	var in struct {
		TaskDefinition string   `json:"taskDefinition"`
		Tasks          []string `json:"tasks"`
	}
	if json.Unmarshal(body, &in) != nil {
		return []need{{action: "ecs:" + op, resource: "*"}}
	}
	var out []need
	for _, arn := range append(in.Tasks, in.TaskDefinition) {
		if strings.HasPrefix(arn, "arn:") {
			out = append(out, need{action: "ecs:" + op, resource: arn})
		}
	}
	if len(out) == 0 {
		out = append(out, need{action: "ecs:" + op, resource: "*"})
	}
	return out
}

// keyRequest is what of a request of KMS says whether it is permitted.
type keyRequest struct {
	KeyID             string `json:"KeyId"`
	CiphertextBlob    []byte
	EncryptionContext map[string]string
}

// keyNeeds: a key is permitted by its ARN, however the request names it. Its condition
// keys are the names in its encryption context.
func (e *endpoint) keyNeeds(op string, body []byte) []need {
	var in keyRequest
	if json.Unmarshal(body, &in) != nil {
		return []need{{action: "kms:" + op, resource: "*"}}
	}
	with := Context{}
	for name, value := range in.EncryptionContext {
		with["kms:encryptioncontext:"+strings.ToLower(name)] = []string{value}
	}
	if arn := e.Resources.Key(in.KeyID, in.CiphertextBlob); arn != "" {
		return []need{{"kms:" + op, arn, with}}
	}
	return []need{{"kms:" + op, "*", with}}
}

func objectNeeds(r *http.Request) []need {
	bucket, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	arn := "arn:aws:s3:::" + bucket
	if key == "" {
		if r.Method == http.MethodGet && bucket != "" {
			return []need{{action: "s3:ListBucket", resource: arn}}
		}
		return []need{{action: "s3:*", resource: "*"}}
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		return []need{{action: "s3:GetObject", resource: arn + "/" + key}}
	case http.MethodPut:
		return []need{{action: "s3:PutObject", resource: arn + "/" + key}}
	case http.MethodDelete:
		return []need{{action: "s3:DeleteObject", resource: arn + "/" + key}}
	}
	return []need{{action: "s3:*", resource: "*"}}
}
