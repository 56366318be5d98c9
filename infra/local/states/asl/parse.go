package asl

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/pxhost/pxhost/infra/local/jsonata"
)

// Codes of diagnostics. AWS documents the form, not a closed list.
const (
	CodeJSON        = "INVALID_JSON_DESCRIPTION"
	CodeSchema      = "SCHEMA_VALIDATION_FAILED"
	CodeTransition  = "MISSING_TRANSITION_TARGET"
	CodeDuplicate   = "DUPLICATE_STATE_NAME"
	CodeExpression  = "INVALID_JSONATA_EXPRESSION"
	CodeUnsupported = "UNSUPPORTED_BY_THE_LOCAL_HOST"
)

// Diagnostic is one reason why a definition is refused.
type Diagnostic struct {
	Code     string
	Message  string
	Location string // "/States/A/Retry[0]/ErrorEquals"
}

func (d Diagnostic) String() string { return d.Code + ": " + d.Message + " at " + d.Location }

// Limits that AWS documents.
const (
	MaxDefinitionBytes = 1 << 20
	maxSeconds         = 99999999
	maxNameRunes       = 80
	maxStates          = 10000 // ours; AWS bounds the definition's size alone
)

// Parse checks a definition. The machine is nil when there are diagnostics.
func Parse(definition []byte, engine *jsonata.Engine) (*Machine, []Diagnostic) {
	p := &parser{engine: engine, stateNames: map[string]bool{}, labels: map[string]bool{}}
	if len(definition) > MaxDefinitionBytes {
		p.say(CodeSchema, "", "the definition is longer than %d bytes", MaxDefinitionBytes)
		return nil, p.found
	}
	root, err := readNode(definition)
	if err != nil {
		p.say(CodeJSON, "", "%v", err)
		return nil, p.found
	}
	machine := &Machine{}
	if !p.object(root, "", fields{
		"Comment": text, "StartAt": nil, "States": nil, "Version": text, "TimeoutSeconds": nil, "QueryLanguage": text,
	}, nil) {
		return nil, p.found
	}
	p.language(root, "", true)
	if v := root.get("Version"); v != nil && v.text != "1.0" {
		p.say(CodeSchema, "/Version", `Version must be "1.0"`)
	}
	if c := root.get("Comment"); c != nil {
		machine.Comment = c.text
	}
	if n := root.get("TimeoutSeconds"); n != nil {
		machine.TimeoutSeconds = p.integer(n, "/TimeoutSeconds", 1, maxSeconds)
	}
	machine.Workflow = *p.workflow(root, "", nil)
	if len(p.found) > 0 {
		return nil, p.found
	}
	return machine, nil
}

type parser struct {
	engine     *jsonata.Engine
	found      []Diagnostic
	stateNames map[string]bool
	labels     map[string]bool // of distributed Maps
	workflows  int
}

func (p *parser) say(code, location, format string, args ...any) {
	if location == "" {
		location = "/"
	}
	p.found = append(p.found, Diagnostic{Code: code, Message: fmt.Sprintf(format, args...), Location: location})
}

// fields lists the names an object may have; a kind other than nil is checked.
type fields map[string]*kind

type kind struct {
	name string
	is   func(*node) bool
}

var (
	text  = &kind{"a string", func(n *node) bool { return n.kind == '"' }}
	flag  = &kind{"a boolean", func(n *node) bool { return n.kind == 't' || n.kind == 'f' }}
	array = &kind{"an array", func(n *node) bool { return n.kind == '[' }}
)

// refused names what the language knows and this host, or JSONata, does not.
var jsonPathFields = []string{"InputPath", "OutputPath", "ResultPath", "ResultSelector", "Parameters", "Result", "ItemsPath",
	"SecondsPath", "TimestampPath", "TimeoutSecondsPath", "HeartbeatSecondsPath", "ErrorPath", "CausePath", "MaxConcurrencyPath",
	"ToleratedFailureCountPath", "ToleratedFailurePercentagePath", "Variable"}

// object checks that n is an object with allowed names only.
func (p *parser) object(n *node, location string, allowed fields, unsupported map[string]string) bool {
	if n.kind != '{' {
		p.say(CodeSchema, location, "this must be an object")
		return false
	}
	for i, name := range n.names {
		here := location + "/" + name
		k, ok := allowed[name]
		switch {
		case ok && k != nil && !k.is(n.values[i]):
			p.say(CodeSchema, here, "%s must be %s", name, k.name)
			// What follows may rely on the kind: take the member away.
			delete(n.members, name)
		case ok:
		case unsupported[name] != "":
			p.say(CodeUnsupported, here, "%s is not supported: %s", name, unsupported[name])
		case slices.Contains(jsonPathFields, name):
			p.say(CodeSchema, here, "%s is a JSONPath field; the query language is JSONata", name)
		default:
			p.say(CodeSchema, here, "there is no field %s here", name)
		}
	}
	return true
}

func (p *parser) language(n *node, location string, required bool) {
	l := n.get("QueryLanguage")
	switch {
	case l == nil && required:
		p.say(CodeUnsupported, location+"/QueryLanguage", `the query language JSONPath, which is the default, is not supported: set QueryLanguage to "JSONata"`)
	case l != nil && l.text == "JSONPath":
		p.say(CodeUnsupported, location+"/QueryLanguage", "the query language JSONPath is not supported")
	case l != nil && l.text != "JSONata":
		p.say(CodeSchema, location+"/QueryLanguage", `QueryLanguage must be "JSONata"`)
	}
}

var stateFields = map[string]fields{
	"Pass":     {"Output": nil, "Assign": nil},
	"Succeed":  {"Output": nil},
	"Fail":     {"Error": nil, "Cause": nil},
	"Task":     {"Resource": text, "Arguments": nil, "TimeoutSeconds": nil, "HeartbeatSeconds": nil, "Retry": array, "Catch": array, "Output": nil, "Assign": nil},
	"Choice":   {"Choices": array, "Default": text, "Output": nil, "Assign": nil},
	"Wait":     {"Seconds": nil, "Timestamp": nil, "Output": nil, "Assign": nil},
	"Parallel": {"Branches": array, "Arguments": nil, "Retry": array, "Catch": array, "Output": nil, "Assign": nil},
	"Map":      {"Items": nil, "ItemSelector": nil, "ItemProcessor": nil, "MaxConcurrency": nil, "Retry": array, "Catch": array, "Output": nil, "Assign": nil},
	distributedMap: {"Items": nil, "ItemReader": nil, "ItemSelector": nil, "ItemProcessor": nil, "MaxConcurrency": nil, "ToleratedFailureCount": nil,
		"ToleratedFailurePercentage": nil, "Label": text, "Retry": array, "Catch": array, "Output": nil, "Assign": nil},
}

// distributedMap stands for a Map with Mode DISTRIBUTED in the tables of fields.
const distributedMap = "Map DISTRIBUTED"

func init() {
	for name, f := range stateFields {
		f["Type"], f["Comment"], f["QueryLanguage"] = text, text, text
		if name != "Choice" && name != "Succeed" && name != "Fail" {
			f["Next"], f["End"] = text, flag
		}
	}
}

const distributed = "it belongs to a Map with Mode DISTRIBUTED"

var unsupportedFields = map[string]map[string]string{
	"Task": {"Credentials": "every call is made with the local host's own rights"},
	"Map": {"ItemReader": distributed, "ItemBatcher": distributed, "ResultWriter": distributed, "Label": distributed,
		"ToleratedFailureCount": distributed, "ToleratedFailurePercentage": distributed,
		"Iterator": "its name is ItemProcessor"},
	distributedMap: {"ItemBatcher": "a child runs for one item", "ResultWriter": "the state's output is the array of the children's outputs",
		"Iterator": "its name is ItemProcessor"},
}

// workflow reads StartAt and States. outer holds the variable names of the
// scopes around it, which it must not assign.
func (p *parser) workflow(n *node, location string, outer map[string]bool) *Workflow {
	w := &Workflow{States: map[string]State{}, ID: p.workflows}
	p.workflows++
	start, states := n.get("StartAt"), n.get("States")
	if start == nil || start.kind != '"' {
		p.say(CodeSchema, location+"/StartAt", "StartAt must be the name of a state")
	} else {
		w.StartAt = start.text
	}
	if states == nil || states.kind != '{' || len(states.names) == 0 {
		p.say(CodeSchema, location+"/States", "States must be an object with at least one state")
		return w
	}
	scope := map[string]bool{}
	for name := range outer {
		scope[name] = true
	}
	for i, name := range states.names {
		p.assigned(states.values[i], location+"/States/"+name, outer, scope)
	}
	for i, name := range states.names {
		here := location + "/States/" + name
		switch {
		case p.stateNames[name]:
			p.say(CodeDuplicate, here, "another state of the machine is named %q", name)
		case name == "" || utf8.RuneCountInString(name) > maxNameRunes:
			p.say(CodeSchema, here, "a state's name has 1 to %d characters", maxNameRunes)
		case len(p.stateNames) >= maxStates:
			p.say(CodeSchema, here, "a machine has at most %d states", maxStates)
			return w
		}
		p.stateNames[name] = true
		if state := p.state(name, states.values[i], here, scope); state != nil {
			w.States[name] = state
		}
	}
	p.transitions(w, states, location)
	return w
}

// assigned collects the names that a state assigns in its workflow's scope.
func (p *parser) assigned(state *node, location string, outer, scope map[string]bool) {
	note := func(n *node, location string) {
		assign := n.get("Assign")
		if assign == nil || assign.kind != '{' {
			return
		}
		for _, name := range assign.names {
			if outer[name] {
				p.say(CodeSchema, location+"/Assign/"+name, "the variable %s belongs to an outer scope, which can only be read here", name)
			}
			scope[name] = true
		}
	}
	note(state, location)
	for _, list := range []string{"Catch", "Choices"} {
		if n := state.get(list); n != nil {
			for i, item := range n.values {
				note(item, fmt.Sprintf("%s/%s[%d]", location, list, i))
			}
		}
	}
}

func (p *parser) state(name string, n *node, location string, scope map[string]bool) State {
	if n.kind != '{' {
		p.say(CodeSchema, location, "a state must be an object")
		return nil
	}
	t := n.get("Type")
	if t == nil || t.kind != '"' {
		p.say(CodeSchema, location+"/Type", "Type must be the name of a kind of state")
		return nil
	}
	table := t.text
	if table == "Map" && mapMode(n) == "DISTRIBUTED" {
		table = distributedMap
	}
	allowed := stateFields[table]
	if allowed == nil || t.text == distributedMap {
		p.say(CodeSchema, location+"/Type", "there is no state type %q", t.text)
		return nil
	}
	p.object(n, location, allowed, unsupportedFields[table])
	p.language(n, location, false)
	f := Fields{Name: name, Type: t.text}
	if _, ok := allowed["Next"]; ok {
		next, end := n.get("Next"), n.get("End")
		switch {
		case next != nil && end != nil && end.kind == 't':
			p.say(CodeSchema, location, "a state has either Next or End, not both")
		case next != nil:
			f.Next = next.text
			if f.Next == "" {
				p.say(CodeSchema, location+"/Next", "Next must be the name of a state")
			}
		case end == nil || end.kind != 't':
			p.say(CodeSchema, location, `the state has neither Next nor "End": true`)
		}
	}
	if _, ok := allowed["Assign"]; ok && n.get("Assign") != nil {
		f.Assign = p.assignAt(n.get("Assign"), location, "Assign")
	}
	if _, ok := allowed["Output"]; ok && n.get("Output") != nil {
		f.Output = p.template(n.get("Output"), location, "Output")
	}
	switch t.text {
	case "Pass":
		return &Pass{Fields: f}
	case "Succeed":
		return &Succeed{Fields: f}
	case "Fail":
		return &Fail{Fields: f, Error: p.textTemplate(n, location, "Error"), Cause: p.textTemplate(n, location, "Cause")}
	case "Task":
		return p.task(f, n, location)
	case "Choice":
		return p.choice(f, n, location)
	case "Wait":
		return p.wait(f, n, location)
	case "Parallel":
		return p.parallel(f, n, location, scope)
	default:
		if table == distributedMap {
			return p.distributedMap(f, n, location)
		}
		return p.mapState(f, n, location, scope)
	}
}

// mapMode gives the Mode of a Map's processor, "" when there is none.
func mapMode(n *node) string {
	processor := n.get("ItemProcessor")
	if processor == nil || processor.kind != '{' {
		return ""
	}
	config := processor.get("ProcessorConfig")
	if config == nil || config.kind != '{' || config.get("Mode") == nil {
		return ""
	}
	return config.get("Mode").text
}

var resourcePattern = regexp.MustCompile(`^arn:aws(-cn|-us-gov)?:states:::lambda:(invoke(?:\.waitForTaskToken)?)$`)

func (p *parser) task(f Fields, n *node, location string) State {
	s := &Task{Fields: f, Handlers: p.handlers(n, location)}
	resource := n.get("Resource")
	if resource == nil {
		p.say(CodeSchema, location+"/Resource", "a Task needs a Resource")
	} else if m := resourcePattern.FindStringSubmatch(resource.text); m != nil {
		s.Resource = m[2]
		s.WaitForToken = strings.HasSuffix(m[2], ".waitForTaskToken")
	} else {
		p.say(CodeUnsupported, location+"/Resource", "the resource %q is not supported; lambda:invoke and lambda:invoke.waitForTaskToken are", resource.text)
	}
	s.Arguments = p.lambdaArguments(n.get("Arguments"), location)
	s.TimeoutSeconds = p.number(n, location, "TimeoutSeconds", 1, maxSeconds)
	s.HeartbeatSeconds = p.number(n, location, "HeartbeatSeconds", 1, maxSeconds)
	if s.HeartbeatSeconds != nil {
		if s.Resource != "" && !s.WaitForToken {
			p.say(CodeUnsupported, location+"/HeartbeatSeconds", "HeartbeatSeconds is not supported without .waitForTaskToken: the function has no token to send a heartbeat with")
		}
		if s.TimeoutSeconds != nil {
			heartbeat, _ := strconv.ParseInt(string(s.HeartbeatSeconds.literal), 10, 64)
			timeout, err := strconv.ParseInt(string(s.TimeoutSeconds.literal), 10, 64)
			if err == nil && heartbeat >= timeout {
				p.say(CodeSchema, location+"/HeartbeatSeconds", "HeartbeatSeconds must be smaller than TimeoutSeconds")
			}
		}
	}
	return s
}

// lambdaArguments checks what can be seen of the arguments before they are
// evaluated; CheckLambdaArguments sees the rest.
func (p *parser) lambdaArguments(n *node, location string) *Template {
	here := location + "/Arguments"
	if n == nil {
		p.say(CodeSchema, here, "lambda:invoke needs Arguments with a FunctionName")
		return nil
	}
	t := p.template(n, location, "Arguments")
	if n.kind != '{' {
		if t != nil && t.program == nil {
			p.say(CodeSchema, here, "Arguments must be an object or an expression")
		}
		return t
	}
	for i, name := range n.names {
		if problem := lambdaArgument(name, n.values[i]); problem != "" {
			p.say(CodeUnsupported, here+"/"+name, "%s", problem)
		}
	}
	if n.get("FunctionName") == nil {
		p.say(CodeSchema, here, "lambda:invoke needs a FunctionName")
	}
	return t
}

func lambdaArgument(name string, value *node) string {
	switch name {
	case "FunctionName":
		if value.kind != '"' {
			return "FunctionName must be a string"
		}
	case "Payload":
	case "InvocationType":
		if value.kind != '"' || value.text != "RequestResponse" && !isExpression(value.text) {
			return "an InvocationType other than RequestResponse is not supported"
		}
	default:
		return "the argument " + name + " of lambda:invoke is not supported"
	}
	return ""
}

// LambdaArguments are the evaluated arguments of lambda:invoke.
type LambdaArguments struct {
	FunctionName string
	Payload      []byte // {} when absent or null, as AWS sends it
}

// ReadLambdaArguments reads evaluated arguments; the error is a sentence.
func ReadLambdaArguments(arguments []byte) (LambdaArguments, error) {
	n, err := readNode(arguments)
	if err != nil {
		return LambdaArguments{}, err
	}
	if n.kind != '{' {
		return LambdaArguments{}, errors.New("the arguments of lambda:invoke must be an object")
	}
	for i, name := range n.names {
		if isExpression(n.values[i].text) && name == "InvocationType" {
			return LambdaArguments{}, errors.New("an InvocationType other than RequestResponse is not supported")
		}
		if problem := lambdaArgument(name, n.values[i]); problem != "" {
			return LambdaArguments{}, errors.New(problem)
		}
	}
	name := n.get("FunctionName")
	if name == nil || name.text == "" {
		return LambdaArguments{}, errors.New("lambda:invoke needs a FunctionName")
	}
	out := LambdaArguments{FunctionName: name.text, Payload: []byte("{}")}
	if payload := n.get("Payload"); payload != nil && payload.kind != 'n' {
		out.Payload = payload.raw
	}
	return out, nil
}

func (p *parser) choice(f Fields, n *node, location string) State {
	s := &Choice{Fields: f}
	if d := n.get("Default"); d != nil {
		s.Default = d.text
		if d.text == "" {
			p.say(CodeSchema, location+"/Default", "Default must be the name of a state")
		}
	}
	choices := n.get("Choices")
	if choices == nil || len(choices.values) == 0 {
		p.say(CodeSchema, location+"/Choices", "Choices must be an array of at least one rule")
		return s
	}
	for i, item := range choices.values {
		here := fmt.Sprintf("Choices[%d]", i)
		at := location + "/" + here
		if !p.object(item, at, fields{"Condition": nil, "Next": text, "Output": nil, "Assign": nil, "Comment": text}, nil) {
			continue
		}
		rule := Rule{}
		condition := item.get("Condition")
		switch {
		case condition == nil:
			p.say(CodeSchema, at+"/Condition", "a rule needs a Condition")
		case condition.kind == '"' && isExpression(condition.text):
			rule.Condition = p.template(condition, location, here+"/Condition")
		default:
			p.say(CodeSchema, at+"/Condition", "Condition must be an expression")
		}
		if next := item.get("Next"); next == nil || next.text == "" {
			p.say(CodeSchema, at+"/Next", "a rule needs Next")
		} else {
			rule.Next = next.text
		}
		if a := item.get("Assign"); a != nil {
			rule.Assign = p.assignAt(a, location, here+"/Assign")
		}
		if o := item.get("Output"); o != nil {
			rule.Output = p.template(o, location, here+"/Output")
		}
		s.Rules = append(s.Rules, rule)
	}
	return s
}

func (p *parser) wait(f Fields, n *node, location string) State {
	s := &Wait{Fields: f}
	seconds, timestamp := n.get("Seconds"), n.get("Timestamp")
	if (seconds == nil) == (timestamp == nil) {
		p.say(CodeSchema, location, "a Wait has exactly one of Seconds and Timestamp")
		return s
	}
	s.Seconds = p.number(n, location, "Seconds", 0, maxSeconds)
	if s.Timestamp = p.textTemplate(n, location, "Timestamp"); s.Timestamp != nil && s.Timestamp.program == nil {
		if _, err := ReadTimestamp(timestamp.text); err != nil {
			p.say(CodeSchema, location+"/Timestamp", "%v", err)
		}
	}
	return s
}

var timestampPattern = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)$`)

// ReadTimestamp reads the profile of RFC 3339 that the language allows: a
// capital T between date and time, and Z or a numeric offset at the end.
func ReadTimestamp(s string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil || !timestampPattern.MatchString(s) {
		return time.Time{}, errors.New("a timestamp is written like 2016-08-18T17:33:00Z")
	}
	return t, nil
}

func (p *parser) parallel(f Fields, n *node, location string, scope map[string]bool) State {
	s := &Parallel{Fields: f, Handlers: p.handlers(n, location)}
	if a := n.get("Arguments"); a != nil {
		s.Arguments = p.template(a, location, "Arguments")
		if a.kind != '{' && (s.Arguments == nil || s.Arguments.program == nil) {
			p.say(CodeSchema, location+"/Arguments", "Arguments must be an object or an expression")
		}
	}
	branches := n.get("Branches")
	if branches == nil || len(branches.values) == 0 {
		p.say(CodeSchema, location+"/Branches", "Branches must be an array of at least one branch")
		return s
	}
	for i, item := range branches.values {
		at := fmt.Sprintf("%s/Branches[%d]", location, i)
		if !p.object(item, at, fields{"StartAt": nil, "States": nil, "Comment": text, "QueryLanguage": text}, nil) {
			continue
		}
		p.language(item, at, false)
		s.Branches = append(s.Branches, p.workflow(item, at, scope))
	}
	return s
}

func (p *parser) mapState(f Fields, n *node, location string, scope map[string]bool) State {
	s := &Map{Fields: f, Handlers: p.handlers(n, location), Processor: &Workflow{}}
	s.Items, s.ItemSelector = p.items(n, location)
	s.MaxConcurrency = p.number(n, location, "MaxConcurrency", 0, maxSeconds)
	processor, at := p.processor(n, location)
	if processor == nil {
		return s
	}
	if config := processor.get("ProcessorConfig"); config != nil {
		at := at + "/ProcessorConfig"
		if p.object(config, at, fields{"Mode": text}, map[string]string{"ExecutionType": distributed}) {
			if mode := config.get("Mode"); mode != nil && mode.text != "INLINE" {
				p.say(CodeSchema, at+"/Mode", "Mode must be INLINE or DISTRIBUTED")
			}
		}
	}
	s.Processor = p.workflow(processor, at, scope)
	return s
}

// items reads what both modes of a Map say of their items.
func (p *parser) items(n *node, location string) (items, selector *Template) {
	if v := n.get("Items"); v != nil {
		if v.kind != '[' && !(v.kind == '"' && isExpression(v.text)) {
			p.say(CodeSchema, location+"/Items", "Items must be an array or an expression")
		}
		items = p.template(v, location, "Items")
	}
	if v := n.get("ItemSelector"); v != nil {
		selector = p.template(v, location, "ItemSelector")
	}
	return items, selector
}

// processor gives a Map's ItemProcessor, nil when it cannot be read.
func (p *parser) processor(n *node, location string) (processor *node, at string) {
	processor, at = n.get("ItemProcessor"), location+"/ItemProcessor"
	if processor == nil {
		p.say(CodeSchema, at, "a Map needs an ItemProcessor")
		return nil, at
	}
	if !p.object(processor, at, fields{"StartAt": nil, "States": nil, "Comment": text, "QueryLanguage": text, "ProcessorConfig": nil}, nil) {
		return nil, at
	}
	p.language(processor, at, false)
	return processor, at
}

// MaxItems is AWS's bound of the field of that name.
const MaxItems = 100_000_000

const maxLabel = 40 // characters

// labelPattern: AWS names what a Label must not hold; letters, digits, - and _
// are what every place that shows an ARN takes.
var labelPattern = regexp.MustCompile(`^[A-Za-z0-9_-]{1,40}$`)

// distributedMap reads a Map with Mode DISTRIBUTED. Its processor sees no
// variable of the states around it, and so may use their names for its own: on
// AWS a state in a distributed Map cannot refer to variables of outer scopes.
func (p *parser) distributedMap(f Fields, n *node, location string) State {
	s := &DistributedMap{Fields: f, Handlers: p.handlers(n, location), Processor: &Workflow{}}
	s.Items, s.ItemSelector = p.items(n, location)
	s.MaxConcurrency = p.number(n, location, "MaxConcurrency", 0, maxSeconds)
	s.ToleratedCount = p.number(n, location, "ToleratedFailureCount", 0, maxSeconds)
	if v := n.get("ToleratedFailurePercentage"); v != nil {
		if rate, err := strconv.ParseFloat(string(v.raw), 64); !(v.kind == '"' && isExpression(v.text)) && (v.kind != '0' || err != nil || rate < 0 || rate > 100) {
			p.say(CodeSchema, location+"/ToleratedFailurePercentage", "ToleratedFailurePercentage must be a number from 0 to 100")
		}
		s.ToleratedPercent = p.template(v, location, "ToleratedFailurePercentage")
	}
	if reader := n.get("ItemReader"); reader != nil {
		if n.get("Items") != nil {
			p.say(CodeSchema, location, "a Map has either Items or an ItemReader, not both")
		}
		s.Reader = p.itemReader(reader, location)
	}
	s.Label = p.label(f.Name, n, location)
	processor, at := p.processor(n, location)
	if processor == nil {
		return s
	}
	here := at + "/ProcessorConfig"
	if config := processor.get("ProcessorConfig"); p.object(config, here, fields{"Mode": text, "ExecutionType": text}, nil) {
		switch kind := config.get("ExecutionType"); {
		case kind == nil:
			p.say(CodeSchema, here+"/ExecutionType", "the Mode DISTRIBUTED needs an ExecutionType")
		case kind.text == "EXPRESS":
			p.say(CodeUnsupported, here+"/ExecutionType", "the ExecutionType EXPRESS is not supported")
		case kind.text != "STANDARD":
			p.say(CodeSchema, here+"/ExecutionType", "ExecutionType must be STANDARD")
		}
	}
	s.Processor = p.workflow(processor, at, nil)
	return s
}

// label gives a distributed Map's Label, made from the state's name where there
// is none: AWS makes one up, and asks only that they differ within a machine.
func (p *parser) label(name string, n *node, location string) string {
	label := ""
	if v := n.get("Label"); v != nil {
		label = v.text
		if !labelPattern.MatchString(label) {
			p.say(CodeSchema, location+"/Label", "a Label has 1 to %d letters, digits, - and _", maxLabel)
		}
	} else {
		for _, r := range name {
			if len(label) == maxLabel {
				break
			}
			if r > 127 || !labelPattern.MatchString(string(r)) {
				r = '_'
			}
			label += string(r)
		}
	}
	if p.labels[label] {
		p.say(CodeSchema, location+"/Label", "another Map of the machine has the label %q", label)
	}
	p.labels[label] = true
	return label
}

var readerTypes = map[string]bool{"CSV": true, "MANIFEST": true, "PARQUET": true}

func (p *parser) itemReader(n *node, location string) *ItemReader {
	r := &ItemReader{}
	at := location + "/ItemReader"
	if !p.object(n, at, fields{"Resource": text, "ReaderConfig": nil, "Arguments": nil}, nil) {
		return r
	}
	if resource := n.get("Resource"); resource == nil {
		p.say(CodeSchema, at+"/Resource", "an ItemReader needs a Resource")
	} else if !readerResource.MatchString(resource.text) {
		p.say(CodeUnsupported, at+"/Resource", "the resource %q is not supported; s3:getObject is", resource.text)
	}
	if arguments := n.get("Arguments"); arguments == nil {
		p.say(CodeSchema, at+"/Arguments", "s3:getObject needs Arguments with Bucket and Key")
	} else {
		r.Arguments = p.template(arguments, location, "ItemReader/Arguments")
		switch {
		case arguments.kind == '{':
			for i, name := range arguments.names {
				if problem := readerArgument(name, arguments.values[i]); problem != "" {
					p.say(CodeUnsupported, at+"/Arguments/"+name, "%s", problem)
				}
			}
			for _, name := range []string{"Bucket", "Key"} {
				if arguments.get(name) == nil {
					p.say(CodeSchema, at+"/Arguments", "s3:getObject needs a %s", name)
				}
			}
		case r.Arguments != nil && r.Arguments.program == nil:
			p.say(CodeSchema, at+"/Arguments", "Arguments must be an object or an expression")
		}
	}
	config := n.get("ReaderConfig")
	if config == nil {
		p.say(CodeSchema, at+"/ReaderConfig", "s3:getObject needs a ReaderConfig with an InputType")
		return r
	}
	here := at + "/ReaderConfig"
	if !p.object(config, here, fields{"InputType": text, "MaxItems": nil}, map[string]string{
		"CSVHeaderLocation": "the InputType CSV is not", "CSVHeaders": "the InputType CSV is not", "CSVDelimiter": "the InputType CSV is not",
		"ManifestType": "the InputType MANIFEST is not", "Transformation": "it belongs to s3:listObjectsV2", "ItemsPointer": "the object is the array of items",
	}) {
		return r
	}
	switch kind := config.get("InputType"); {
	case kind == nil:
		p.say(CodeSchema, here+"/InputType", "s3:getObject needs an InputType")
	case kind.text == "JSONL":
		r.JSONL = true
	case kind.text == "JSON":
	case readerTypes[kind.text]:
		p.say(CodeUnsupported, here+"/InputType", "the InputType %s is not supported; JSON and JSONL are", kind.text)
	default:
		p.say(CodeSchema, here+"/InputType", "InputType must be JSON or JSONL")
	}
	if v := config.get("MaxItems"); v != nil {
		if !(v.kind == '"' && isExpression(v.text)) {
			p.integer(v, here+"/MaxItems", 0, MaxItems)
		}
		r.MaxItems = p.template(v, location, "ItemReader/ReaderConfig/MaxItems")
	}
	return r
}

var readerResource = regexp.MustCompile(`^arn:aws(-cn|-us-gov)?:states:::s3:getObject$`)

func readerArgument(name string, value *node) string {
	switch name {
	case "Bucket", "Key":
		if value.kind != '"' {
			return name + " must be a string"
		}
		return ""
	}
	return "the argument " + name + " of s3:getObject is not supported"
}

// ReadReaderArguments reads an ItemReader's evaluated arguments; the error is a
// sentence.
func ReadReaderArguments(arguments []byte) (bucket, key string, err error) {
	n, err := readNode(arguments)
	if err != nil {
		return "", "", err
	}
	if n.kind != '{' {
		return "", "", errors.New("the arguments of s3:getObject must be an object")
	}
	for i, name := range n.names {
		if problem := readerArgument(name, n.values[i]); problem != "" {
			return "", "", errors.New(problem)
		}
	}
	for name, target := range map[string]*string{"Bucket": &bucket, "Key": &key} {
		v := n.get(name)
		if v == nil || v.text == "" {
			return "", "", errors.New("s3:getObject needs a " + name)
		}
		*target = v.text
	}
	return bucket, key, nil
}

func (p *parser) handlers(n *node, location string) Handlers {
	var h Handlers
	if list := n.get("Retry"); list != nil {
		for i, item := range list.values {
			at := fmt.Sprintf("%s/Retry[%d]", location, i)
			if !p.object(item, at, fields{"ErrorEquals": array, "IntervalSeconds": nil, "MaxAttempts": nil, "BackoffRate": nil, "MaxDelaySeconds": nil, "JitterStrategy": text, "Comment": text}, nil) {
				continue
			}
			h.Retry = append(h.Retry, p.retrier(item, at, i == len(list.values)-1))
		}
	}
	if list := n.get("Catch"); list != nil {
		for i, item := range list.values {
			here := fmt.Sprintf("Catch[%d]", i)
			at := location + "/" + here
			if !p.object(item, at, fields{"ErrorEquals": array, "Next": text, "Output": nil, "Assign": nil, "Comment": text}, nil) {
				continue
			}
			c := Catcher{ErrorEquals: p.errorEquals(item, at, i == len(list.values)-1)}
			if next := item.get("Next"); next == nil || next.text == "" {
				p.say(CodeSchema, at+"/Next", "a catcher needs Next")
			} else {
				c.Next = next.text
			}
			if a := item.get("Assign"); a != nil {
				c.Assign = p.assignAt(a, location, here+"/Assign")
			}
			if o := item.get("Output"); o != nil {
				c.Output = p.template(o, location, here+"/Output")
			}
			h.Catch = append(h.Catch, c)
		}
	}
	return h
}

func (p *parser) retrier(n *node, at string, last bool) Retrier {
	r := Retrier{ErrorEquals: p.errorEquals(n, at, last), Interval: time.Second, MaxAttempts: 3, BackoffRate: 2}
	if v := n.get("IntervalSeconds"); v != nil {
		r.Interval = time.Duration(p.integer(v, at+"/IntervalSeconds", 1, maxSeconds)) * time.Second
	}
	if v := n.get("MaxAttempts"); v != nil {
		r.MaxAttempts = p.integer(v, at+"/MaxAttempts", 0, maxSeconds)
	}
	if v := n.get("BackoffRate"); v != nil {
		rate, err := strconv.ParseFloat(string(v.raw), 64)
		if v.kind != '0' || err != nil || rate < 1 {
			p.say(CodeSchema, at+"/BackoffRate", "BackoffRate must be a number of at least 1.0")
		}
		r.BackoffRate = rate
	}
	if v := n.get("MaxDelaySeconds"); v != nil {
		r.MaxDelay = time.Duration(p.integer(v, at+"/MaxDelaySeconds", 1, 31622399)) * time.Second
		if r.MaxDelay > 0 && r.MaxDelay <= r.Interval {
			p.say(CodeSchema, at+"/MaxDelaySeconds", "MaxDelaySeconds must be greater than IntervalSeconds")
		}
	}
	if v := n.get("JitterStrategy"); v != nil {
		switch v.text {
		case "FULL":
			r.FullJitter = true
		case "NONE":
		default:
			p.say(CodeSchema, at+"/JitterStrategy", "JitterStrategy must be FULL or NONE")
		}
	}
	return r
}

// Names of the language's own errors.
var knownErrors = map[string]bool{
	"States.ALL": true, "States.TaskFailed": true, "States.Timeout": true, "States.HeartbeatTimeout": true, "States.Permissions": true,
	"States.DataLimitExceeded": true, "States.Runtime": true, "States.QueryEvaluationError": true, "States.NoChoiceMatched": true,
	"States.BranchFailed": true, "States.ExceedToleratedFailureThreshold": true, "States.ItemReaderFailed": true,
	"States.ResultWriterFailed": true, "States.Http.Socket": true,
}

func (p *parser) errorEquals(n *node, at string, last bool) []string {
	at += "/ErrorEquals"
	list := n.get("ErrorEquals")
	if list == nil || len(list.values) == 0 {
		p.say(CodeSchema, at, "ErrorEquals must be an array of at least one error name")
		return nil
	}
	var names []string
	for _, item := range list.values {
		switch {
		case item.kind != '"' || item.text == "":
			p.say(CodeSchema, at, "an error name must be a string")
			continue
		case strings.HasPrefix(item.text, "States.") && !knownErrors[item.text]:
			p.say(CodeSchema, at, "there is no error %s in a JSONata workflow", item.text)
		case item.text == "States.ALL" && (len(list.values) > 1 || !last):
			p.say(CodeSchema, at, "States.ALL must stand alone, and last")
		}
		names = append(names, item.text)
	}
	return names
}

func (p *parser) integer(n *node, at string, low, high int64) int64 {
	v, err := strconv.ParseInt(string(n.raw), 10, 64)
	if n.kind != '0' || err != nil || v < low || v > high {
		p.say(CodeSchema, at, "this must be an integer from %d to %d", low, high)
		return 0
	}
	return v
}

// number reads a field that is an integer or an expression.
func (p *parser) number(n *node, location, name string, low, high int64) *Template {
	v := n.get(name)
	if v == nil {
		return nil
	}
	if !(v.kind == '"' && isExpression(v.text)) {
		p.integer(v, location+"/"+name, low, high)
	}
	return p.template(v, location, name)
}

// textTemplate reads a field that is a string or an expression.
func (p *parser) textTemplate(n *node, location, name string) *Template {
	v := n.get(name)
	if v == nil {
		return nil
	}
	if v.kind != '"' {
		p.say(CodeSchema, location+"/"+name, "%s must be a string", name)
		return nil
	}
	return p.template(v, location, name)
}

func (p *parser) assignAt(n *node, location, place string) *Template {
	at := location + "/" + place
	if n.kind != '{' {
		p.say(CodeSchema, at, "Assign must be an object")
		return nil
	}
	for _, name := range n.names {
		if !variableName(name) {
			p.say(CodeSchema, at+"/"+name, "a variable's name starts with a letter, goes on with letters, digits and _, and has at most %d characters", maxNameRunes)
		}
		if name == "states" {
			p.say(CodeSchema, at+"/states", "the variable states is reserved")
		}
	}
	t := &Template{Location: place}
	for i, name := range n.names {
		part := p.template(n.values[i], location, place+"/"+name)
		if part == nil {
			continue
		}
		t.names, t.parts = append(t.names, name), append(t.parts, part)
	}
	return t
}

func variableName(name string) bool {
	if name == "" || utf8.RuneCountInString(name) > maxNameRunes {
		return false
	}
	for i, r := range name {
		switch {
		case unicode.IsLetter(r) || unicode.Is(unicode.Nl, r):
		case i > 0 && (r == '_' || unicode.IsDigit(r) || unicode.Is(unicode.Mn, r) || unicode.Is(unicode.Mc, r) || unicode.Is(unicode.Pc, r)):
		default:
			return false
		}
	}
	return true
}

// isExpression tells {% … %} from a plain string: both marks must stand at the
// very ends.
func isExpression(s string) bool {
	return len(s) >= 4 && strings.HasPrefix(s, "{%") && strings.HasSuffix(s, "%}")
}

func (p *parser) template(n *node, location, place string) *Template {
	t := &Template{Location: place}
	switch n.kind {
	case '"':
		if !isExpression(n.text) {
			if strings.HasPrefix(n.text, "{%") {
				p.say(CodeExpression, location+"/"+place, "the expression does not end with %%}")
			}
			break
		}
		program, err := p.engine.Compile(n.text[2 : len(n.text)-2])
		if err != nil {
			p.say(CodeExpression, location+"/"+place, "%v", err)
			return nil
		}
		t.program = program
		return t
	case '{', '[':
		t.array = n.kind == '['
		literal := true
		for i, value := range n.values {
			at := place + "[" + strconv.Itoa(i) + "]"
			if !t.array {
				at = place + "/" + n.names[i]
			}
			part := p.template(value, location, at)
			if part == nil {
				return nil
			}
			literal = literal && part.literal != nil
			t.parts = append(t.parts, part)
		}
		if !literal {
			t.names = n.names
			return t
		}
		t.parts = nil
	case '0':
		if v, err := strconv.ParseFloat(string(n.raw), 64); err != nil || math.IsInf(v, 0) {
			p.say(CodeSchema, location+"/"+place, "the number is out of a double's range")
		}
	}
	t.literal = n.raw
	return t
}

// transitions checks that every target exists, every state can be reached, and
// the workflow can end.
func (p *parser) transitions(w *Workflow, states *node, location string) {
	known := func(name string) bool { return states.get(name) != nil }
	if w.StartAt != "" && !known(w.StartAt) {
		p.say(CodeTransition, location+"/StartAt", "there is no state %q", w.StartAt)
	}
	ends := false
	targets := map[string][]string{}
	for name, state := range w.States {
		at := location + "/States/" + name
		to := func(target, place string) {
			if target == "" {
				return
			}
			if !known(target) {
				p.say(CodeTransition, at+"/"+place, "there is no state %q", target)
			}
			targets[name] = append(targets[name], target)
		}
		f := state.Common()
		to(f.Next, "Next")
		var catch []Catcher
		switch s := state.(type) {
		case *Choice:
			to(s.Default, "Default")
			for i, rule := range s.Rules {
				to(rule.Next, fmt.Sprintf("Choices[%d]/Next", i))
			}
		case *Succeed, *Fail:
			ends = true
		case *Task:
			catch = s.Catch
		case *Parallel:
			catch = s.Catch
		case *Map:
			catch = s.Catch
		case *DistributedMap:
			catch = s.Catch
		}
		for i, c := range catch {
			to(c.Next, fmt.Sprintf("Catch[%d]/Next", i))
		}
		if f.Next == "" && f.Type != "Choice" {
			ends = true
		}
	}
	if len(w.States) < len(states.names) {
		return // a state that could not be read has been reported
	}
	if !ends {
		p.say(CodeSchema, location+"/States", "no state ends the workflow")
	}
	reached := map[string]bool{}
	queue := []string{w.StartAt}
	for len(queue) > 0 {
		name := queue[0]
		queue = queue[1:]
		if reached[name] {
			continue
		}
		reached[name] = true
		queue = append(queue, targets[name]...)
	}
	if !known(w.StartAt) {
		return
	}
	for _, name := range states.names {
		if !reached[name] {
			p.say(CodeTransition, location+"/States/"+name, "the state %q is not reachable", name)
		}
	}
}

func appendQuoted(dst []byte, s string) []byte {
	out, err := jsontext.AppendQuote(dst, s)
	if err != nil { // names were read from valid JSON
		panic(err)
	}
	return out
}
