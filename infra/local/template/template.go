package template

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/pxhost/pxhost/infra/local/apigateway"
)

// Options say where the template is deployed to, locally.
type Options struct {
	// Parameters override the defaults of the template's parameters. A name
	// that is no parameter of the template is refused.
	Parameters map[string]string
	Region     string // AWS::Region
	AccountID  string // AWS::AccountId
	StackName  string // AWS::StackName
	// APIEndpoint is what GetAtt of the HTTP API's ApiEndpoint answers.
	APIEndpoint string
}

// A Template is what the local host starts, each list ordered by logical ID.
type Template struct {
	Functions     []Function
	Routes        []Route
	Schedules     []Schedule
	StateMachines []StateMachine
	Tables        []Table
	Buckets       []Bucket
	Keys          []Key
	Clusters      []Cluster
	Tasks         []Task
	Roles         []Role
	Parameters    map[string]string // as resolved
	Outputs       map[string]string
}

// A Function is one AWS::Serverless::Function with Globals merged in.
type Function struct {
	LogicalID   string
	Name, ARN   string
	CodeDir     string        // CodeUri, absolute; the bootstrap or the Python module lies in it
	Handler     string        // module.function of a function in Python; empty: it has a bootstrap
	Timeout     time.Duration // 1 s to 900 s
	MemoryMB    int           // 128 to 10240
	Environment map[string]string
	// ReservedConcurrency is nil where the template reserves none.
	ReservedConcurrency *int
	MaxRetryAttempts    int           // of an asynchronous invocation, 0 to 2
	MaxEventAge         time.Duration // of an asynchronous invocation, 60 s to 6 h
	Policy              []Statement
}

// A Route is one route of the HTTP API: an HttpApi event, or an AWS::ApiGatewayV2::Route
// with its integration.
type Route struct {
	Method   string // upper case, or ANY
	Path     string // with {variable} and {proxy+} segments, or $default
	Function string // function name
	Timeout  time.Duration
	// Responses are the integration's response parameters by status.
	Responses map[int][]apigateway.Mapping
}

// A Schedule is one Schedule event with a rate expression.
type Schedule struct {
	Name     string
	ARN      string
	Function string // function name
	Every    time.Duration
	Input    json.RawMessage // nil: the scheduled event itself is sent
}

// A StateMachine is one AWS::Serverless::StateMachine of type STANDARD.
type StateMachine struct {
	LogicalID  string
	Name, ARN  string
	Definition []byte // with DefinitionSubstitutions applied
	Policy     []Statement
}

// A Table is one AWS::DynamoDB::Table.
type Table struct {
	LogicalID   string
	Name, ARN   string
	CreateTable json.RawMessage // the input of DynamoDB's CreateTable
	TTL         string          // the attribute of TimeToLiveSpecification, or empty
}

// A Bucket is one AWS::S3::Bucket.
type Bucket struct {
	LogicalID string
	Name, ARN string
}

// A Key is one AWS::KMS::Key, symmetric and for encryption.
type Key struct {
	LogicalID string
	ID, ARN   string   // the ID is a UUID
	Aliases   []string // of AWS::KMS::Alias, each alias/…
}

// A Cluster is one AWS::ECS::Cluster.
type Cluster struct {
	LogicalID string
	Name, ARN string
}

// A Task is one AWS::ECS::TaskDefinition of one container, in its first revision.
type Task struct {
	LogicalID     string
	Family, ARN   string
	Role          string // ARN of the role that the container acts as
	ExecutionRole string // ARN of the role that starts it
	Container     string // name
	Image         string
	Environment   map[string]string
}

// A Role is one AWS::IAM::Role.
type Role struct {
	LogicalID string
	Name, ARN string
	Policy    []Statement
}

// A Statement is one statement of an IAM policy.
type Statement struct {
	Deny      bool
	Actions   []string // may contain * and ?
	Resources []string // may contain * and ?
	// Present are the condition keys that a request must have: the condition Null with
	// "false".
	Present []string
	// Every are patterns by condition key: the condition ForAllValues:StringLike. No other
	// condition is supported.
	Every map[string][]string
}

// maxTemplate is CloudFormation's limit for a template body read from S3.
const maxTemplate = 1 << 20

// Declared returns the names of the parameters that the template at path declares, so
// that a caller sets those alone.
func Declared(path string) ([]string, error) {
	src, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var doc struct {
		Parameters map[string]yaml.Node `yaml:"Parameters"`
	}
	if err := yaml.Unmarshal(src, &doc); err != nil {
		return nil, nil // Load says what is wrong with it
	}
	return sortedKeys(doc.Parameters), nil
}

// Load reads the template at path. CodeUri and DefinitionUri are relative to
// its folder. The error is [Findings] if the template was read but refused.
func Load(path string, opt Options) (*Template, error) {
	src, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return Parse(src, filepath.Dir(path), opt)
}

// Parse is [Load] for a template in memory; dir is what its paths start from.
func Parse(src []byte, dir string, opt Options) (*Template, error) {
	t := &tree{lines: map[string]int{}}
	if len(src) > maxTemplate {
		t.add("", "larger than %d bytes", maxTemplate)
		return nil, t.err()
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(src, &doc); err != nil {
		t.add("", "not YAML: %v", err)
		return nil, t.err()
	}
	if len(doc.Content) != 1 {
		t.add("", "the template is empty")
		return nil, t.err()
	}
	root, ok := t.value(doc.Content[0], "", 0).(map[string]any)
	if !ok {
		t.add("", "a template is a mapping")
		return nil, t.err()
	}
	if err := t.err(); err != nil {
		return nil, err // the tree itself is broken: what follows would only repeat it
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	b := &builder{
		dir: abs,
		resolver: resolver{
			tree: t, opt: opt, root: root, parameters: map[string]any{},
			conditions: map[string]bool{}, visiting: map[string]bool{}, ids: map[string]string{},
		},
		out: &Template{Parameters: map[string]string{}, Outputs: map[string]string{}},
	}
	b.build()
	if err := t.err(); err != nil {
		return nil, err
	}
	return b.out, nil
}

const implicitAPI = "ServerlessHttpApi"

type builder struct {
	resolver
	dir      string
	out      *Template
	apis     []string
	gateway  gateway
	routeIDs map[string]string // "METHOD path" → where it was declared
	aliases  []alias           // of keys, wherever they stand
}

func (b *builder) build() {
	for _, k := range sortedKeys(b.root) {
		switch k {
		case "AWSTemplateFormatVersion", "Description", "Metadata", "Parameters", "Globals", "Conditions", "Mappings", "Resources", "Outputs", "Transform":
		default:
			b.add(pointer("", k), "the section %s is not supported by px local", k)
		}
	}
	if v, ok := b.root["AWSTemplateFormatVersion"]; ok && v != "2010-09-09" {
		b.add("/AWSTemplateFormatVersion", "must be 2010-09-09")
	}
	if b.root["Transform"] != "AWS::Serverless-2016-10-31" {
		b.add("/Transform", "must be AWS::Serverless-2016-10-31")
	}
	b.readParameters()
	if c, ok := b.root["Conditions"].(map[string]any); ok {
		for _, k := range sortedKeys(c) {
			b.condition(k, pointer("/Conditions", k))
		}
	}
	b.checkGlobals()
	b.routeIDs = map[string]string{}
	resources, ok := b.root["Resources"].(map[string]any)
	if !ok || len(resources) == 0 {
		b.add("/Resources", "a template has resources")
		return
	}
	if b.usesImplicitAPI() {
		b.apis = append(b.apis, implicitAPI)
	}
	for _, id := range sortedKeys(resources) {
		b.resource(id, resources[id])
	}
	b.nameKeys()
	b.connect()
	if len(b.apis) > 1 {
		b.add("/Resources", "px local serves one HTTP API, the template has %d: %s", len(b.apis), strings.Join(b.apis, ", "))
	}
	if o, ok := b.root["Outputs"].(map[string]any); ok {
		for _, k := range sortedKeys(o) {
			b.output(k, o[k])
		}
	}
	sort.Slice(b.out.Routes, func(i, j int) bool {
		x, y := b.out.Routes[i], b.out.Routes[j]
		if x.Path != y.Path {
			return x.Path < y.Path
		}
		return x.Method < y.Method
	})
}

func (b *builder) readParameters() {
	declared, _ := b.root["Parameters"].(map[string]any)
	for _, name := range sortedKeys(b.opt.Parameters) {
		if _, ok := declared[name]; !ok {
			b.add("/Parameters", "there is no parameter %q to set", name)
		}
	}
	for _, name := range sortedKeys(declared) {
		path := pointer("/Parameters", name)
		r := b.reader(declared[name], path)
		r.inert("Description", "ConstraintDescription", "NoEcho")
		typ := r.text("Type", "")
		if typ != "String" && typ != "Number" {
			b.add(pointer(path, "Type"), "the parameter type %q is not supported by px local (String, Number)", typ)
		}
		def, hasDefault := r.take("Default")
		value := asString(def)
		if o, ok := b.opt.Parameters[name]; ok {
			value = o
		} else if !hasDefault {
			b.add(path, "has no default and was not set")
		}
		if allowed, ok := r.take("AllowedValues"); ok {
			list, _ := allowed.([]any)
			found := false
			for _, a := range list {
				found = found || asString(a) == value
			}
			if !found {
				b.add(path, "the value is none of AllowedValues")
			}
		}
		if p := r.text("AllowedPattern", ""); p != "" {
			re, err := regexp.Compile("^(?:" + p + ")$")
			if err != nil {
				b.add(pointer(path, "AllowedPattern"), "not a pattern that Go can read")
			} else if !re.MatchString(value) {
				b.add(path, "the value does not match AllowedPattern")
			}
		}
		for _, bound := range []string{"MinLength", "MaxLength", "MinValue", "MaxValue"} {
			v, ok := r.take(bound)
			if !ok {
				continue
			}
			limit, err := strconv.ParseFloat(asString(v), 64)
			got := float64(len([]rune(value)))
			if strings.HasSuffix(bound, "Value") {
				if got, err = strconv.ParseFloat(value, 64); err != nil {
					b.add(path, "the value is not a number")
					continue
				}
			}
			if err != nil || (bound[:3] == "Min" && got < limit) || (bound[:3] == "Max" && got > limit) {
				b.add(path, "the value breaks %s", bound)
			}
		}
		if typ == "Number" {
			if _, err := strconv.ParseFloat(value, 64); err != nil {
				b.add(path, "the value is not a number")
			}
		}
		r.done()
		b.parameters[name] = value
		b.out.Parameters[name] = value
	}
}

// checkGlobals refuses what Globals may not hold; functionProperties and
// apiProperties merge what it may.
func (b *builder) checkGlobals() {
	g, _ := b.root["Globals"].(map[string]any)
	for _, k := range sortedKeys(g) {
		if k != "Function" {
			b.add(pointer("/Globals", k), "Globals of %s are not supported by px local", k)
		}
	}
}

// merged lays a function's properties over Globals.Function as SAM does: maps
// are merged, lists are joined with the global part first, all else is replaced.
func (b *builder) merged(own map[string]any) map[string]any {
	g, _ := b.root["Globals"].(map[string]any)
	global, ok := g["Function"].(map[string]any)
	if !ok {
		return own
	}
	return merge(global, own).(map[string]any)
}

func merge(global, own any) any {
	if _, _, call := intrinsic(own); call {
		return own
	}
	if _, _, call := intrinsic(global); call {
		return own
	}
	switch o := own.(type) {
	case map[string]any:
		g, ok := global.(map[string]any)
		if !ok {
			return own
		}
		m := make(map[string]any, len(g)+len(o))
		for k, v := range g {
			m[k] = v
		}
		for k, v := range o {
			if base, both := m[k]; both {
				v = merge(base, v)
			}
			m[k] = v
		}
		return m
	case []any:
		g, ok := global.([]any)
		if !ok {
			return own
		}
		return append(append([]any{}, g...), o...)
	}
	return own
}

func (b *builder) output(name string, v any) {
	path := pointer("/Outputs", name)
	r := b.reader(v, path)
	r.inert("Description", "Export")
	if c := r.text("Condition", ""); c != "" && !b.condition(c, path) {
		return
	}
	value, ok := r.take("Value")
	if !ok {
		b.add(path, "an output has a Value")
	}
	r.done()
	b.out.Outputs[name] = asString(value)
}
