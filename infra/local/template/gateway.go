package template

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pxhost/pxhost/infra/local/apigateway"
)

// APIID is what Ref of the HTTP API answers.
const APIID = "local"

// gateway is the HTTP API of a template that declares it by its own resources: what
// AWS::Serverless::HttpApi and its events cannot say, they can. One template has the
// one or the other, since API Gateway deletes such routes when it imports a definition
// again.
type gateway struct {
	declared     string // path of the API
	staged       bool
	integrations map[string]*integration // by what Ref of them answers
	permitted    map[string]bool         // names of the functions that the API may invoke
	routes       []rawRoute
}

type integration struct {
	path      string
	function  string // name
	timeout   time.Duration
	responses map[int][]apigateway.Mapping
}

type rawRoute struct {
	r      *reader
	route  Route
	target string
}

// ofAPI takes the ApiId of a resource.
func (b *builder) ofAPI(r *reader) {
	if id, _ := r.take("ApiId"); id != APIID {
		b.add(pointer(r.path, "ApiId"), "must be Ref of the template's AWS::ApiGatewayV2::Api")
	}
}

func (b *builder) rawAPI(id string, r *reader) {
	b.apis = append(b.apis, id)
	b.gateway.declared = r.path
	r.inert("Name", "Description", "Tags")
	if r.text("ProtocolType", "") != "HTTP" {
		b.add(pointer(r.path, "ProtocolType"), "only %q is supported by px local", "HTTP")
	}
	r.done()
}

func (b *builder) stage(r *reader) {
	b.ofAPI(r)
	r.inert("Description", "Tags")
	if r.text("StageName", "") != "$default" {
		b.add(pointer(r.path, "StageName"), "only %q is supported by px local", "$default")
	}
	if !r.boolean("AutoDeploy", false) {
		b.add(pointer(r.path, "AutoDeploy"), "only a stage that deploys by itself is supported by px local")
	}
	r.done()
	b.gateway.staged = true
}

func (b *builder) integration(id string, r *reader) {
	b.ofAPI(r)
	r.inert("Description")
	if r.text("IntegrationType", "") != "AWS_PROXY" {
		b.add(pointer(r.path, "IntegrationType"), "only %q is supported by px local", "AWS_PROXY")
	}
	r.only("IntegrationMethod", "POST")
	r.only("ConnectionType", "INTERNET")
	if r.text("PayloadFormatVersion", "") != "2.0" {
		b.add(pointer(r.path, "PayloadFormatVersion"), "only %q is supported by px local", "2.0")
	}
	in := &integration{
		path:     r.path,
		function: b.functionOf(r, "IntegrationUri"),
		timeout:  time.Duration(r.whole("TimeoutInMillis", 30000, 50, 30000)) * time.Millisecond,
	}
	if all := r.object("ResponseParameters"); all != nil {
		in.responses = map[int][]apigateway.Mapping{}
		for _, status := range sortedKeys(all.m) {
			n, err := strconv.Atoi(status)
			if err != nil || n < 200 || n > 599 || strconv.Itoa(n) != status {
				b.add(pointer(all.path, status), "response parameters are of a status from 200 to 599")
			}
			of := all.object(status)
			in.responses[n] = b.mappings(of)
			of.done()
		}
		all.done()
	}
	r.done()
	if b.gateway.integrations == nil {
		b.gateway.integrations = map[string]*integration{}
	}
	b.gateway.integrations[b.physical(id, r.path)] = in
}

// mappings reads the ResponseParameters of one status.
func (b *builder) mappings(of *reader) []apigateway.Mapping {
	var out []apigateway.Mapping
	seen := map[string]bool{}
	for i, v := range of.list("ResponseParameters") {
		one := b.reader(v, pointer(pointer(of.path, "ResponseParameters"), strconv.Itoa(i)))
		m, err := apigateway.ParseMapping(one.text("Destination", ""), one.text("Source", ""))
		switch {
		case err != nil:
			b.add(one.path, "%v", err)
		case seen[m.Header]:
			b.add(one.path, "the header %s is mapped twice", m.Header)
		}
		seen[m.Header] = true
		one.done()
		out = append(out, m)
	}
	return out
}

// functionOf takes a member that names a function by its ARN, or by its name where that
// is a permission's.
func (b *builder) functionOf(r *reader, member string) string {
	given := r.text(member, "")
	prefix := b.arn("AWS::Serverless::Function", "")
	resources, _ := b.root["Resources"].(map[string]any)
	for _, id := range sortedKeys(resources) {
		if typ, _ := b.resourceType(id); typ != "AWS::Serverless::Function" {
			continue
		}
		name := b.physical(id, r.path)
		if given == prefix+name || member == "FunctionName" && given == name {
			return name
		}
	}
	b.add(pointer(r.path, member), "is no function of this template")
	return ""
}

func (b *builder) rawRoute(r *reader) {
	b.ofAPI(r)
	r.inert("OperationName")
	r.only("AuthorizationType", "NONE")
	r.only("ApiKeyRequired", "false")
	route := Route{Method: "ANY", Path: r.text("RouteKey", "")}
	if method, path, has := strings.Cut(route.Path, " "); has {
		route.Method, route.Path = method, path
		if why := checkPath(path); why != "" {
			b.add(pointer(r.path, "RouteKey"), "%s", why)
		}
	} else if route.Path != "$default" {
		b.add(pointer(r.path, "RouteKey"), "a route key is $default, or a method and a path")
	}
	if !slices.Contains(methods, route.Method) {
		b.add(pointer(r.path, "RouteKey"), "not an HTTP method that API Gateway routes")
	}
	b.gateway.routes = append(b.gateway.routes, rawRoute{r, route, r.text("Target", "")})
	r.done()
}

// permission lets API Gateway invoke a function.
func (b *builder) permission(r *reader) {
	r.only("Action", "lambda:InvokeFunction")
	r.only("Principal", "apigateway.amazonaws.com")
	name := b.functionOf(r, "FunctionName")
	want := "arn:aws:execute-api:" + b.opt.Region + ":" + b.opt.AccountID + ":" + APIID + "/*"
	if r.text("SourceArn", "") != want {
		b.add(pointer(r.path, "SourceArn"), "only every route of the template's API, ending in ${Api}/*, is supported by px local")
	}
	for _, needed := range []string{"Action", "Principal"} {
		if _, has := r.take(needed); !has {
			b.add(pointer(r.path, needed), "is needed")
		}
	}
	r.done()
	if b.gateway.permitted == nil {
		b.gateway.permitted = map[string]bool{}
	}
	b.gateway.permitted[name] = true
}

// connect gives each route its integration, once all of them are read.
func (b *builder) connect() {
	g := b.gateway
	if g.declared != "" && !g.staged {
		b.add(g.declared, "the API has no stage, and so no address")
	}
	used := map[string]bool{}
	for _, one := range g.routes {
		id, ok := strings.CutPrefix(one.target, "integrations/")
		in := g.integrations[id]
		if !ok || in == nil {
			b.add(pointer(one.r.path, "Target"), "must be integrations/ and an integration of this template")
			continue
		}
		used[id] = true
		one.route.Function, one.route.Timeout, one.route.Responses = in.function, in.timeout, in.responses
		b.addRoute(one.r, one.route)
	}
	for _, id := range sortedKeys(g.integrations) {
		switch in := g.integrations[id]; {
		case !used[id]:
			b.add(in.path, "no route leads to this integration")
		case in.function != "" && !g.permitted[in.function]:
			b.add(in.path, "API Gateway may not invoke %s: an AWS::Lambda::Permission is missing", in.function)
		}
	}
}
