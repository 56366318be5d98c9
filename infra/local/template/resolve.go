package template

import (
	"encoding/base64"
	"regexp"
	"sort"
	"strconv"
	"strings"

	"github.com/awslabs/goformation/v7/intrinsics"
)

// noValue stands for a property that Ref AWS::NoValue removes.
type noValue struct{}

// resolver replaces intrinsic functions by values. goformation's handlers
// evaluate the functions that only compute; Ref, GetAtt, Sub, If and
// conditions are our own, since goformation answers null for what it cannot
// resolve and we must name it.
type resolver struct {
	*tree
	opt        Options
	root       map[string]any
	parameters map[string]any
	conditions map[string]bool
	visiting   map[string]bool // resources and conditions being resolved, against cycles
	ids        map[string]string
}

var computed = map[string]struct {
	handler  intrinsics.IntrinsicHandler
	min, max int // arguments
}{
	"Fn::Join":      {intrinsics.FnJoin, 2, 2},
	"Fn::Select":    {intrinsics.FnSelect, 2, 2},
	"Fn::Split":     {intrinsics.FnSplit, 2, 2},
	"Fn::FindInMap": {intrinsics.FnFindInMap, 3, 3},
	"Fn::Equals":    {intrinsics.FnEquals, 2, 2},
	"Fn::And":       {intrinsics.FnAnd, 2, 10},
	"Fn::Or":        {intrinsics.FnOr, 2, 10},
	"Fn::Not":       {intrinsics.FnNot, 1, 1},
}

// intrinsic tells whether v is one intrinsic function call, and which.
func intrinsic(v any) (name string, arg any, ok bool) {
	m, isMap := v.(map[string]any)
	if !isMap || len(m) != 1 {
		return "", nil, false
	}
	for k, a := range m {
		if k == "Ref" || strings.HasPrefix(k, "Fn::") {
			return k, a, true
		}
	}
	return "", nil, false
}

// resolve returns v with every intrinsic function in it replaced. A value that
// cannot be resolved becomes nil and a finding.
func (r *resolver) resolve(v any, path string) any {
	name, arg, ok := intrinsic(v)
	if !ok {
		switch x := v.(type) {
		case map[string]any:
			m := make(map[string]any, len(x))
			for _, k := range sortedKeys(x) {
				if e := r.resolve(x[k], pointer(path, k)); e != (noValue{}) {
					m[k] = e
				}
			}
			return m
		case []any:
			s := make([]any, 0, len(x))
			for i, e := range x {
				if e := r.resolve(e, pointer(path, strconv.Itoa(i))); e != (noValue{}) {
					s = append(s, e)
				}
			}
			return s
		}
		return v
	}
	at := pointer(path, name)
	switch name {
	case "Ref":
		id, isString := arg.(string)
		if !isString {
			r.add(at, "Ref takes a name")
			return nil
		}
		return r.ref(id, at)
	case "Fn::GetAtt":
		id, attr := "", ""
		switch a := arg.(type) {
		case string:
			id, attr, _ = strings.Cut(a, ".")
		case []any:
			if len(a) == 2 {
				id, _ = a[0].(string)
				attr, _ = a[1].(string)
			}
		}
		return r.getAtt(id, attr, at)
	case "Fn::Sub":
		return r.sub(arg, at)
	case "Fn::If":
		a, isList := arg.([]any)
		if !isList || len(a) != 3 {
			r.add(at, "Fn::If takes a condition name and two values")
			return nil
		}
		cond, isString := a[0].(string)
		if !isString {
			r.add(at, "Fn::If takes the name of a condition first")
			return nil
		}
		i := 2
		if r.condition(cond, at) {
			i = 1
		}
		return r.resolve(a[i], pointer(at, strconv.Itoa(i)))
	case "Fn::Base64":
		s, isString := r.resolve(arg, at).(string)
		if !isString {
			r.add(at, "Fn::Base64 takes a string")
			return nil
		}
		return base64.StdEncoding.EncodeToString([]byte(s))
	}
	c, known := computed[name]
	if !known {
		r.add(at, "%s is not supported by px local", name)
		return nil
	}
	before := len(r.findings)
	var args []any
	if raw, isList := arg.([]any); isList && (name == "Fn::And" || name == "Fn::Or" || name == "Fn::Not") {
		for i, e := range raw {
			args = append(args, r.truth(e, pointer(at, strconv.Itoa(i))))
		}
	} else {
		args, _ = r.resolve(arg, at).([]any)
	}
	if len(r.findings) > before {
		return nil // the argument's own finding says what is wrong
	}
	if len(args) < c.min || len(args) > c.max || !computable(name, args) {
		r.add(at, "%s has the wrong arguments", name)
		return nil
	}
	if name == "Fn::Equals" { // CloudFormation compares as strings
		args = []any{asString(args[0]), asString(args[1])}
	}
	out := c.handler(name, args, r.root)
	if list, isStrings := out.([]string); isStrings {
		anys := make([]any, len(list))
		for i, s := range list {
			anys[i] = s
		}
		out = anys
	}
	if out == nil {
		r.add(at, "%s cannot be resolved", name)
	}
	return out
}

// computable checks what goformation's handlers would skip or panic on.
func computable(name string, args []any) bool {
	switch name {
	case "Fn::Join":
		_, delim := args[0].(string)
		parts, list := args[1].([]any)
		for _, p := range parts {
			if _, ok := p.(string); !ok {
				return false
			}
		}
		return delim && list
	case "Fn::Select":
		list, ok := args[1].([]any)
		i, err := strconv.Atoi(asString(args[0]))
		return ok && err == nil && i >= 0 && i < len(list)
	case "Fn::Split":
		_, a := args[0].(string)
		_, b := args[1].(string)
		return a && b
	}
	return true
}

// truth evaluates one operand of And, Or, Not: a condition function or
// {"Condition": name}.
func (r *resolver) truth(v any, path string) any {
	if m, ok := v.(map[string]any); ok && len(m) == 1 {
		if name, ok := m["Condition"].(string); ok {
			return r.condition(name, path)
		}
	}
	before := len(r.findings)
	b, ok := r.resolve(v, path).(bool)
	if !ok && len(r.findings) == before {
		r.add(path, "a condition was expected")
	}
	return b
}

func (r *resolver) condition(name, path string) bool {
	if b, ok := r.conditions[name]; ok {
		return b
	}
	all, _ := r.root["Conditions"].(map[string]any)
	v, ok := all[name]
	if !ok {
		r.add(path, "there is no condition %q", name)
		return false
	}
	key := "condition " + name
	if r.visiting[key] {
		r.add(path, "the condition %q depends on itself", name)
		return false
	}
	r.visiting[key] = true
	defer delete(r.visiting, key)
	b, _ := r.truth(v, pointer("/Conditions", name)).(bool)
	r.conditions[name] = b
	return b
}

func (r *resolver) pseudo(id string) (any, bool) {
	switch id {
	case "AWS::Region":
		return r.opt.Region, true
	case "AWS::AccountId":
		return r.opt.AccountID, true
	case "AWS::StackName":
		return r.opt.StackName, true
	case "AWS::StackId":
		return "arn:aws:cloudformation:" + r.opt.Region + ":" + r.opt.AccountID + ":stack/" + r.opt.StackName + "/local", true
	case "AWS::Partition":
		return "aws", true
	case "AWS::URLSuffix":
		return "amazonaws.com", true
	case "AWS::NoValue":
		return noValue{}, true
	}
	return nil, false
}

func (r *resolver) ref(id, path string) any {
	if v, ok := r.pseudo(id); ok {
		return v
	}
	if v, ok := r.parameters[id]; ok {
		return v
	}
	if typ, ok := r.resourceType(id); ok {
		if typ == "AWS::ApiGatewayV2::Api" {
			return APIID
		}
		name := r.physical(id, path)
		// Ref of a key is its ID, of an alias its name.
		if typ == "AWS::Serverless::StateMachine" || typ == "AWS::ECS::TaskDefinition" {
			return r.arn(typ, name) // Ref of these is the ARN
		}
		return name
	}
	r.add(path, "there is no parameter or resource %q", id)
	return nil
}

func (r *resolver) getAtt(id, attr, path string) any {
	typ, ok := r.resourceType(id)
	if !ok {
		r.add(path, "there is no resource %q", id)
		return nil
	}
	name := r.physical(id, path)
	switch typ + "." + attr {
	case "AWS::Serverless::Function.Arn", "AWS::DynamoDB::Table.Arn", "AWS::S3::Bucket.Arn", "AWS::Serverless::StateMachine.Arn",
		"AWS::ECS::Cluster.Arn", "AWS::IAM::Role.Arn", "AWS::KMS::Key.Arn":
		return r.arn(typ, name)
	case "AWS::EC2::SecurityGroup.GroupId":
		return name
	case "AWS::Serverless::StateMachine.Name":
		return name
	case "AWS::Serverless::HttpApi.ApiEndpoint", "AWS::ApiGatewayV2::Api.ApiEndpoint":
		return r.opt.APIEndpoint
	}
	r.add(path, "the attribute %q of %s is not supported by px local", attr, typ)
	return nil
}

func (r *resolver) arn(typ, name string) string {
	switch typ {
	case "AWS::Serverless::Function":
		return "arn:aws:lambda:" + r.opt.Region + ":" + r.opt.AccountID + ":function:" + name
	case "AWS::Serverless::StateMachine":
		return "arn:aws:states:" + r.opt.Region + ":" + r.opt.AccountID + ":stateMachine:" + name
	case "AWS::DynamoDB::Table":
		return "arn:aws:dynamodb:" + r.opt.Region + ":" + r.opt.AccountID + ":table/" + name
	case "AWS::S3::Bucket":
		return "arn:aws:s3:::" + name
	case "AWS::KMS::Key":
		return "arn:aws:kms:" + r.opt.Region + ":" + r.opt.AccountID + ":key/" + name
	case "AWS::ECS::Cluster":
		return "arn:aws:ecs:" + r.opt.Region + ":" + r.opt.AccountID + ":cluster/" + name
	case "AWS::ECS::TaskDefinition":
		return "arn:aws:ecs:" + r.opt.Region + ":" + r.opt.AccountID + ":task-definition/" + name + ":1"
	case "AWS::IAM::Role":
		return "arn:aws:iam::" + r.opt.AccountID + ":role/" + name
	}
	return ""
}

// resourceType tells the type of a resource that exists (its condition holds).
func (r *resolver) resourceType(id string) (string, bool) {
	all, _ := r.root["Resources"].(map[string]any)
	m, ok := all[id].(map[string]any)
	if !ok {
		if id == implicitAPI && r.usesImplicitAPI() {
			return "AWS::Serverless::HttpApi", true
		}
		return "", false
	}
	if c, has := m["Condition"].(string); has && !r.condition(c, pointer(pointer("/Resources", id), "Condition")) {
		return "", false
	}
	typ, _ := m["Type"].(string)
	return typ, typ != ""
}

// nameProperty is the property that sets a resource's physical name.
var nameProperty = map[string]string{
	"AWS::Serverless::Function": "FunctionName", "AWS::Serverless::StateMachine": "Name",
	"AWS::DynamoDB::Table": "TableName", "AWS::S3::Bucket": "BucketName",
	"AWS::ECS::Cluster": "ClusterName", "AWS::ECS::TaskDefinition": "Family", "AWS::IAM::Role": "RoleName", "AWS::KMS::Alias": "AliasName",
}

// physical gives a resource's name: its name property, or stack and logical ID.
// AWS adds random characters to the second form; here it must be the same at
// every start, since the state folder knows the resource by it.
func (r *resolver) physical(id, path string) string {
	if s, ok := r.ids[id]; ok {
		return s
	}
	if r.visiting["resource "+id] {
		r.add(path, "the name of %q depends on itself", id)
		return ""
	}
	r.visiting["resource "+id] = true
	defer delete(r.visiting, "resource "+id)
	typ, _ := r.resourceType(id)
	name := r.opt.StackName + "-" + id
	switch typ {
	case "AWS::S3::Bucket":
		name = strings.ToLower(name)
	case "AWS::KMS::Key":
		name = keyID(name)
	}
	all, _ := r.root["Resources"].(map[string]any)
	m, _ := all[id].(map[string]any)
	props, _ := m["Properties"].(map[string]any)
	if p, ok := nameProperty[typ]; ok && props[p] != nil {
		at := pointer(pointer(pointer("/Resources", id), "Properties"), p)
		switch v := r.resolve(props[p], at).(type) {
		case string:
			name = v
		case noValue, nil:
		default:
			r.add(at, "a name was expected")
		}
	}
	r.ids[id] = name
	return name
}

var subVariable = regexp.MustCompile(`\$\{(!?)([^}]*)\}`)

func (r *resolver) sub(arg any, path string) any {
	text, isString := arg.(string)
	vars := map[string]any{}
	if list, isList := arg.([]any); isList && len(list) == 2 {
		text, isString = list[0].(string)
		m, isMap := list[1].(map[string]any)
		isString = isString && isMap
		for _, k := range sortedKeys(m) {
			vars[k] = r.resolve(m[k], pointer(pointer(path, "1"), k))
		}
	}
	if !isString {
		r.add(path, "Fn::Sub takes a string, or a string and a map")
		return nil
	}
	return subVariable.ReplaceAllStringFunc(text, func(s string) string {
		g := subVariable.FindStringSubmatch(s)
		if g[1] == "!" {
			return "${" + g[2] + "}"
		}
		name := strings.TrimSpace(g[2])
		v, ok := vars[name]
		if !ok {
			if id, attr, dotted := strings.Cut(name, "."); dotted {
				v = r.getAtt(id, attr, path)
			} else {
				v = r.ref(name, path)
			}
		}
		switch v.(type) {
		case string, float64, bool:
			return asString(v)
		case nil:
			return "" // has its finding
		}
		r.add(path, "${%s} is not a string", name)
		return ""
	})
}

// asString writes a scalar as CloudFormation passes it to a resource.
func asString(v any) string {
	switch x := v.(type) {
	case string:
		return x
	case float64:
		return strconv.FormatFloat(x, 'f', -1, 64)
	case bool:
		return strconv.FormatBool(x)
	}
	return ""
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}
