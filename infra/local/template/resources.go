package template

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

func (b *builder) resource(id string, v any) {
	path := pointer("/Resources", id)
	if !logicalID.MatchString(id) {
		b.add(path, "a logical ID has letters and digits only")
	}
	r := b.reader(v, path)
	typ := r.text("Type", "")
	if c := r.text("Condition", ""); c != "" && !b.condition(c, pointer(path, "Condition")) {
		return
	}
	// DependsOn orders creation, the deletion policies act when a stack goes,
	// Metadata is for build tools: none of the three exists locally.
	r.inert("DependsOn", "DeletionPolicy", "UpdateReplacePolicy", "Metadata")
	props := r.object("Properties")
	if props == nil {
		props = &reader{b: b, path: pointer(path, "Properties"), m: map[string]any{}, taken: map[string]bool{}}
	}
	switch typ {
	case "AWS::Serverless::Function":
		b.function(id, props)
	case "AWS::Serverless::HttpApi":
		b.api(id, props)
	case "AWS::ApiGatewayV2::Api":
		b.rawAPI(id, props)
	case "AWS::ApiGatewayV2::Stage":
		b.stage(props)
	case "AWS::ApiGatewayV2::Integration":
		b.integration(id, props)
	case "AWS::ApiGatewayV2::Route":
		b.rawRoute(props)
	case "AWS::Lambda::Permission":
		b.permission(props)
	case "AWS::Serverless::StateMachine":
		b.stateMachine(id, props)
	case "AWS::DynamoDB::Table":
		b.table(id, props)
	case "AWS::S3::Bucket":
		b.bucket(id, props)
	case "AWS::KMS::Key":
		b.key(id, props)
	case "AWS::KMS::Alias":
		b.alias(id, props)
	case "AWS::ECS::Cluster":
		b.cluster(id, props)
	case "AWS::ECS::TaskDefinition":
		b.taskDefinition(id, props)
	case "AWS::IAM::Role":
		b.role(id, props)
	case "AWS::EC2::SecurityGroup":
		// There is one network here, the loopback, and nobody can be let in or out.
		props.inert("GroupName", "GroupDescription", "VpcId", "SecurityGroupEgress", "Tags")
		props.done()
	case "AWS::Logs::LogGroup":
		props.inert("LogGroupName", "RetentionInDays", "Tags")
		props.done()
	default:
		b.add(pointer(path, "Type"), "the resource type %s is not supported by px local", typ)
	}
	r.done()
}

var logicalID = regexp.MustCompile(`^[A-Za-z0-9]{1,255}$`)

func (b *builder) function(id string, props *reader) {
	r := &reader{b: b, path: props.path, m: b.merged(props.m), taken: map[string]bool{}}
	f := Function{LogicalID: id, Name: b.physical(id, r.path)}
	f.ARN = b.arn("AWS::Serverless::Function", f.Name)
	r.inert("FunctionName", "Description", "Tags", "LoggingConfig", "Tracing")
	f.Handler = b.handler(r)
	r.only("PackageType", "Zip")
	for i, a := range r.list("Architectures") {
		if a != "arm64" && a != "x86_64" {
			b.add(pointer(pointer(r.path, "Architectures"), strconv.Itoa(i)), "an architecture is arm64 or x86_64")
		}
	}
	if uri := r.text("CodeUri", ""); uri == "" {
		b.add(pointer(r.path, "CodeUri"), "the folder of the code is needed")
	} else if strings.Contains(uri, "://") {
		b.add(pointer(r.path, "CodeUri"), "only a folder is supported by px local")
	} else {
		f.CodeDir = b.file(uri)
	}
	f.Timeout = time.Duration(r.whole("Timeout", 3, 1, 900)) * time.Second
	f.MemoryMB = r.whole("MemorySize", 128, 128, 10240)
	f.Environment = map[string]string{}
	if env := r.object("Environment"); env != nil {
		if vars := env.object("Variables"); vars != nil {
			for _, k := range sortedKeys(vars.m) {
				if reservedVariable(k) {
					b.add(pointer(vars.path, k), "Lambda reserves this variable")
				}
				f.Environment[k] = vars.text(k, "")
			}
		}
		env.done()
	}
	if _, ok := r.take("ReservedConcurrentExecutions"); ok {
		n := r.whole("ReservedConcurrentExecutions", 0, 0, 1000)
		f.ReservedConcurrency = &n
	}
	f.MaxRetryAttempts, f.MaxEventAge = 2, 6*time.Hour
	if c := r.object("EventInvokeConfig"); c != nil {
		f.MaxRetryAttempts = c.whole("MaximumRetryAttempts", 2, 0, 2)
		f.MaxEventAge = time.Duration(c.whole("MaximumEventAgeInSeconds", 21600, 60, 21600)) * time.Second
		c.done()
	}
	f.Policy = b.policies(r)
	if ev := r.object("Events"); ev != nil {
		for _, k := range sortedKeys(ev.m) {
			b.event(id, f.Name, k, ev.object(k))
		}
	}
	r.done()
	b.out.Functions = append(b.out.Functions, f)
}

// The runtimes that px local has: executables, and the machine's own Python, which
// may be of another minor than this one. Code must hold on both.
const (
	executableRuntime = "provided.al2023"
	pythonRuntime     = "python3.13"
)

var pythonHandler = regexp.MustCompile(`^[a-z][a-z0-9_]{0,63}\.[a-z][a-z0-9_]{0,63}$`)

// handler reads Runtime and Handler; it returns "" for an executable.
func (b *builder) handler(r *reader) string {
	runtime, handler := r.text("Runtime", executableRuntime), r.text("Handler", "bootstrap")
	switch runtime {
	case executableRuntime:
		if handler != "bootstrap" {
			b.add(pointer(r.path, "Handler"), "only %q is supported by px local for %s", "bootstrap", runtime)
		}
		return ""
	case pythonRuntime:
		if !pythonHandler.MatchString(handler) {
			b.add(pointer(r.path, "Handler"), "a handler in Python is module.function, both of lower-case letters, digits and underscores, in the folder itself")
		}
		return handler
	}
	b.add(pointer(r.path, "Runtime"), "only %q and %q are supported by px local", executableRuntime, pythonRuntime)
	return ""
}

// reservedVariable tells the names a Lambda configuration may not set.
func reservedVariable(name string) bool {
	switch name {
	case "_HANDLER", "_X_AMZN_TRACE_ID", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_EXECUTION_ENV",
		"AWS_ACCESS_KEY", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN",
		"LAMBDA_TASK_ROOT", "LAMBDA_RUNTIME_DIR":
		return true
	}
	return strings.HasPrefix(name, "AWS_LAMBDA_")
}

func (b *builder) file(uri string) string {
	if filepath.IsAbs(uri) {
		return filepath.Clean(uri)
	}
	return filepath.Join(b.dir, filepath.FromSlash(uri))
}

func (b *builder) event(id, function, name string, r *reader) {
	typ := r.text("Type", "")
	props := r.object("Properties")
	r.done()
	if props == nil {
		b.add(r.path, "an event has Properties")
		return
	}
	switch typ {
	case "HttpApi":
		b.route(function, props)
	case "Schedule":
		b.schedule(id, function, name, props)
	default:
		b.add(pointer(r.path, "Type"), "the event type %s is not supported by px local", typ)
		return
	}
	props.done()
}

func (b *builder) route(function string, r *reader) {
	raw, explicit := r.m["ApiId"]
	r.inert("ApiId")
	if explicit {
		ref, _ := raw.(map[string]any)
		target, _ := ref["Ref"].(string)
		if typ, _ := b.resourceType(target); typ != "AWS::Serverless::HttpApi" {
			why := "must be Ref of the template's HttpApi"
			if typ == "AWS::ApiGatewayV2::Api" {
				why += "; routes of an AWS::ApiGatewayV2::Api are resources AWS::ApiGatewayV2::Route"
			}
			b.add(pointer(r.path, "ApiId"), "%s", why)
		}
	}
	r.only("PayloadFormatVersion", "2.0")
	route := Route{
		Method:   strings.ToUpper(r.text("Method", "")),
		Path:     r.text("Path", ""),
		Function: function,
		Timeout:  time.Duration(r.whole("TimeoutInMillis", 30000, 50, 30000)) * time.Millisecond,
	}
	switch {
	case route.Path == "" && route.Method == "":
		route.Path, route.Method = "$default", "ANY"
	case route.Path == "$default":
		route.Method = "ANY"
	default:
		if why := checkPath(route.Path); why != "" {
			b.add(pointer(r.path, "Path"), "%s", why)
		}
		switch route.Method {
		case "X-AMAZON-APIGATEWAY-ANY-METHOD", "*":
			route.Method = "ANY"
		default:
			if !slices.Contains(methods, route.Method) {
				b.add(pointer(r.path, "Method"), "not an HTTP method that API Gateway routes")
			}
		}
	}
	b.addRoute(r, route)
}

var methods = []string{"ANY", "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}

// addRoute takes a route that no other one has.
func (b *builder) addRoute(r *reader, route Route) {
	key := route.Method + " " + anonymous(route.Path)
	if other, dup := b.routeIDs[key]; dup {
		b.add(r.path, "the route is declared at %s already", other)
	}
	b.routeIDs[key] = r.path
	b.out.Routes = append(b.out.Routes, route)
}

var variableSegment = regexp.MustCompile(`^\{[A-Za-z0-9._:-]+\+?\}$`)

// checkPath says why a route path is not one that API Gateway accepts, or "".
func checkPath(p string) string {
	if !strings.HasPrefix(p, "/") {
		return "a path begins with /"
	}
	segments := strings.Split(p[1:], "/")
	seen := map[string]bool{}
	for i, s := range segments {
		if s == "" && len(segments) > 1 {
			return "a path has no empty segment"
		}
		if !strings.ContainsAny(s, "{}") {
			continue
		}
		if !variableSegment.MatchString(s) {
			return "a variable is a whole path segment (" + s + " is not)"
		}
		name := strings.Trim(s, "{}+")
		if seen[name] {
			return "the variable " + name + " stands here twice"
		}
		seen[name] = true
		if strings.HasSuffix(s, "+}") && i != len(segments)-1 {
			return "a greedy variable is the last segment"
		}
	}
	return ""
}

// anonymous replaces variable names, so that two routes that match the same
// requests compare equal.
func anonymous(p string) string {
	segments := strings.Split(p, "/")
	for i, s := range segments {
		if strings.HasSuffix(s, "+}") {
			segments[i] = "{+}"
		} else if strings.HasPrefix(s, "{") {
			segments[i] = "{}"
		}
	}
	return strings.Join(segments, "/")
}

var rateExpression = regexp.MustCompile(`^rate\(([1-9][0-9]{0,4}) (minute|minutes|hour|hours|day|days)\)$`)

func (b *builder) schedule(id, function, event string, r *reader) {
	r.inert("Description")
	s := Schedule{Function: function, Name: r.text("Name", b.opt.StackName+"-"+id+event)}
	s.ARN = "arn:aws:events:" + b.opt.Region + ":" + b.opt.AccountID + ":rule/" + s.Name
	expr := r.text("Schedule", "")
	if m := rateExpression.FindStringSubmatch(expr); m == nil {
		b.add(pointer(r.path, "Schedule"), "only rate(n minutes|hours|days) is supported by px local")
	} else {
		n, _ := strconv.Atoi(m[1])
		if (n == 1) == strings.HasSuffix(m[2], "s") {
			b.add(pointer(r.path, "Schedule"), "rate takes a singular unit with 1 and a plural unit otherwise")
		}
		unit := map[byte]time.Duration{'m': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour}[m[2][0]]
		s.Every = time.Duration(n) * unit
	}
	if in := r.text("Input", ""); in != "" {
		if !json.Valid([]byte(in)) {
			b.add(pointer(r.path, "Input"), "must be JSON text")
		}
		s.Input = json.RawMessage(in)
	}
	if r.boolean("Enabled", true) {
		b.out.Schedules = append(b.out.Schedules, s)
	}
}

func (b *resolver) usesImplicitAPI() bool {
	resources, _ := b.root["Resources"].(map[string]any)
	if _, own := resources[implicitAPI]; own {
		return false
	}
	for _, v := range resources {
		m, _ := v.(map[string]any)
		props, _ := m["Properties"].(map[string]any)
		events, _ := props["Events"].(map[string]any)
		for _, e := range events {
			em, _ := e.(map[string]any)
			ep, _ := em["Properties"].(map[string]any)
			if _, has := ep["ApiId"]; em["Type"] == "HttpApi" && !has {
				return true
			}
		}
	}
	return false
}

func (b *builder) api(id string, r *reader) {
	b.apis = append(b.apis, id)
	r.inert("Name", "Description", "Tags")
	r.only("StageName", "$default")
	r.only("FailOnWarnings", "true")
	r.done()
}

func (b *builder) stateMachine(id string, r *reader) {
	m := StateMachine{LogicalID: id, Name: b.physical(id, r.path)}
	m.ARN = b.arn("AWS::Serverless::StateMachine", m.Name)
	r.inert("Name", "Tags", "Logging", "Tracing")
	r.only("Type", "STANDARD")
	uri := r.text("DefinitionUri", "")
	at := pointer(r.path, "DefinitionUri")
	subs := map[string]string{}
	if s := r.object("DefinitionSubstitutions"); s != nil {
		for _, k := range sortedKeys(s.m) {
			subs[k] = s.text(k, "")
		}
	}
	m.Policy = b.policies(r)
	r.done()
	if uri == "" {
		b.add(at, "the file of the definition is needed")
		return
	}
	src, err := os.ReadFile(b.file(uri))
	if err != nil {
		b.add(at, "cannot be read: %s", strings.TrimPrefix(err.Error(), "open "))
		return
	}
	used := map[string]bool{}
	text := definitionVariable.ReplaceAllStringFunc(string(src), func(s string) string {
		name := s[2 : len(s)-1]
		v, ok := subs[name]
		if !ok {
			b.add(at, "the definition uses ${%s}, which DefinitionSubstitutions does not give", name)
			return s
		}
		used[name] = true
		quoted, _ := json.Marshal(v)
		return string(quoted[1 : len(quoted)-1]) // it stands inside a JSON string
	})
	for _, k := range sortedKeys(subs) {
		if !used[k] {
			b.add(pointer(pointer(r.path, "DefinitionSubstitutions"), k), "the definition does not use it")
		}
	}
	if !json.Valid([]byte(text)) {
		b.add(at, "the definition is not JSON")
	}
	m.Definition = []byte(text)
	b.out.StateMachines = append(b.out.StateMachines, m)
}

var definitionVariable = regexp.MustCompile(`\$\{[A-Za-z0-9]+\}`)

func (b *builder) table(id string, r *reader) {
	t := Table{LogicalID: id, Name: b.physical(id, r.path)}
	t.ARN = b.arn("AWS::DynamoDB::Table", t.Name)
	// Backups, encryption at rest and deletion protection are the account's
	// business: nothing a client of the table could see.
	r.inert("TableName", "PointInTimeRecoverySpecification", "SSESpecification", "DeletionProtectionEnabled", "Tags")
	in := map[string]any{"TableName": t.Name, "BillingMode": "PAY_PER_REQUEST"}
	if mode := r.text("BillingMode", "PROVISIONED"); mode != "PAY_PER_REQUEST" {
		b.add(pointer(r.path, "BillingMode"), "only PAY_PER_REQUEST is supported by px local")
	}
	for _, k := range []string{"AttributeDefinitions", "KeySchema"} {
		if in[k] = r.list(k); len(in[k].([]any)) == 0 {
			b.add(pointer(r.path, k), "is needed")
		}
	}
	if g := r.list("GlobalSecondaryIndexes"); len(g) > 0 {
		for i, v := range g {
			ix := b.reader(v, pointer(pointer(r.path, "GlobalSecondaryIndexes"), strconv.Itoa(i)))
			ix.inert("IndexName", "KeySchema", "Projection")
			ix.done()
		}
		in["GlobalSecondaryIndexes"] = g
	}
	if s := r.object("TimeToLiveSpecification"); s != nil {
		name := s.text("AttributeName", "")
		if s.boolean("Enabled", false) {
			t.TTL = name
			if name == "" {
				b.add(pointer(s.path, "AttributeName"), "is needed")
			}
		}
		s.done()
	}
	r.done()
	t.CreateTable = mustJSON(in)
	b.out.Tables = append(b.out.Tables, t)
}

func (b *builder) bucket(id string, r *reader) {
	k := Bucket{LogicalID: id, Name: b.physical(id, r.path)}
	k.ARN = b.arn("AWS::S3::Bucket", k.Name)
	// Encryption at rest and public access (there is none locally) cannot be
	// seen by a client with credentials.
	r.inert("BucketName", "BucketEncryption", "PublicAccessBlockConfiguration", "OwnershipControls", "Tags")
	r.done()
	if !bucketName.MatchString(k.Name) {
		b.add(r.path, "a bucket name is 3 to 63 lower-case letters, digits, dots and hyphens")
	}
	b.out.Buckets = append(b.out.Buckets, k)
}

var bucketName = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`)

// policies reads SAM's Policies: a policy document or a list of them. SAM's
// policy templates and managed policies would have to be looked up in AWS's
// own lists, and name more than a function needs: they are refused.
func (b *builder) policies(r *reader) []Statement {
	v, ok := r.take("Policies")
	if !ok {
		return nil
	}
	list, isList := v.([]any)
	if !isList {
		list = []any{v}
	}
	var out []Statement
	for i, p := range list {
		path := pointer(r.path, "Policies")
		if isList {
			path = pointer(path, strconv.Itoa(i))
		}
		out = append(out, b.document(p, path)...)
	}
	return out
}

// document reads one policy document.
func (b *builder) document(p any, path string) []Statement {
	m, isMap := p.(map[string]any)
	if !isMap || m["Statement"] == nil {
		b.add(path, "only policy documents with a Statement are supported by px local")
		return nil
	}
	doc := b.reader(m, path)
	doc.only("Version", "2012-10-17")
	sts, isList := m["Statement"].([]any)
	if !isList {
		sts = []any{m["Statement"]}
	}
	doc.taken["Statement"] = true
	doc.done()
	var out []Statement
	for j, s := range sts {
		at := pointer(path, "Statement")
		if isList {
			at = pointer(at, strconv.Itoa(j))
		}
		st := b.reader(s, at)
		st.inert("Sid")
		effect := st.text("Effect", "")
		if effect != "Allow" && effect != "Deny" {
			b.add(pointer(at, "Effect"), "Allow or Deny was expected")
		}
		one := Statement{Deny: effect == "Deny", Actions: st.oneOrMany("Action"), Resources: st.oneOrMany("Resource")}
		if c := st.object("Condition"); c != nil {
			one.Present, one.Every = c.present(), c.every()
			if c.done(); len(c.m) == 0 {
				b.add(c.path, "a condition was expected")
			}
		}
		out = append(out, one)
		st.done()
	}
	return out
}

// present reads the condition Null with "false", which a request meets that has the key.
// The keys are those of encryption contexts.
func (r *reader) present() []string {
	null := r.object("Null")
	if null == nil {
		return nil
	}
	var out []string
	for _, key := range sortedKeys(null.m) {
		null.only(key, "false")
		if !strings.HasPrefix(key, "kms:EncryptionContext:") {
			r.b.add(pointer(null.path, key), "the condition key %s is not supported by px local", key)
		}
		out = append(out, key)
	}
	null.done()
	return out
}

const forAll = "ForAllValues:StringLike"

// every reads the condition ForAllValues:StringLike of the partition keys of a table. A
// Scan has none and meets it: whoever is granted one by such a statement may read all.
func (r *reader) every() map[string][]string {
	c := r.object(forAll)
	if c == nil {
		return nil
	}
	out := map[string][]string{}
	for _, key := range sortedKeys(c.m) {
		if key != "dynamodb:LeadingKeys" {
			r.b.add(pointer(c.path, key), "the condition key %s is not supported by px local", key)
		}
		out[key] = c.oneOrMany(key)
	}
	c.done()
	return out
}

func (r *reader) oneOrMany(name string) []string {
	v, ok := r.take(name)
	if !ok {
		r.b.add(pointer(r.path, name), "is needed")
		return nil
	}
	list, isList := v.([]any)
	if !isList {
		list = []any{v}
	}
	out := make([]string, 0, len(list))
	for _, e := range list {
		s, isString := e.(string)
		if !isString {
			r.b.add(pointer(r.path, name), "strings were expected")
			continue
		}
		out = append(out, s)
	}
	return out
}
