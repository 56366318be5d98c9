package template

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/pxhost/pxhost/infra/local/apigateway"
)

var options = Options{Region: "us-east-1", AccountID: "000000000000", StackName: "px", APIEndpoint: "http://127.0.0.1:8787"}

const head = "AWSTemplateFormatVersion: \"2010-09-09\"\nTransform: AWS::Serverless-2016-10-31\n"

func parse(t *testing.T, text string) (*Template, error) {
	t.Helper()
	return Parse([]byte(head+text), t.TempDir(), options)
}

// covers: H2, H3
func TestProjectTemplate(t *testing.T) {
	opt := options
	opt.StackName = "pxhost"
	opt.Parameters = map[string]string{"IssuerUrl": "http://127.0.0.1:8787"}
	root := filepath.Join("..", "..", "..")
	tmpl, err := Load(filepath.Join(root, "template.yaml"), opt)
	if err != nil {
		t.Fatal(err)
	}
	abs, _ := filepath.Abs(root)
	for _, f := range tmpl.Functions {
		folder := filepath.Base(f.CodeDir)
		if want := filepath.Join(abs, ".build", "functions", folder); f.CodeDir != want {
			t.Errorf("%s is built in %s, want %s", f.LogicalID, f.CodeDir, want)
		}
		pascal := ""
		for _, p := range strings.Split(folder, "_") {
			pascal += strings.ToUpper(p[:1]) + p[1:]
		}
		if f.LogicalID != pascal {
			t.Errorf("functions/%s is the resource %s, want %s", folder, f.LogicalID, pascal)
		}
		if f.Name != "pxhost-"+folder && f.Name != "pxhost-tool-"+folder {
			t.Errorf("functions/%s has the name %s", folder, f.Name)
		}
		for _, s := range f.Policy {
			for _, a := range s.Actions {
				if strings.Contains(a, "*") {
					t.Errorf("%s is allowed %s", f.LogicalID, a)
				}
				// The reader of Python source believes no principal: it only reads. Nor do the
				// adapters: they are told an execution, whose record says who asked for it.
				// Whoever may invoke more could forge one.
				if a == "lambda:InvokeFunction" && f.LogicalID != "McpEndpoint" && f.LogicalID != "Console" {
					for _, r := range s.Resources {
						if !strings.HasSuffix(r, ":function:pxhost-python_source") && !strings.Contains(r, ":function:pxhost-adapter_") {
							t.Errorf("%s may invoke %s: then the principal in a payload cannot be trusted", f.LogicalID, r)
						}
					}
				}
			}
			for _, r := range s.Resources {
				if r == "*" && !strings.HasPrefix(s.Actions[0], "states:SendTask") {
					t.Errorf("%s is allowed %v on every resource", f.LogicalID, s.Actions)
				}
			}
		}
		if f.Environment["PX_TABLE_HEADS"] != "pxhost-Heads" {
			t.Errorf("%s has PX_TABLE_HEADS=%q", f.LogicalID, f.Environment["PX_TABLE_HEADS"])
		}
	}
	var tables []string
	for _, x := range tmpl.Tables {
		tables = append(tables, x.LogicalID)
	}
	if want := []string{"Changes", "Heads", "Host", "Objects", "Runs"}; !reflect.DeepEqual(tables, want) {
		t.Errorf("tables %v, want %v", tables, want)
	}
	for _, arch := range []string{"arm64", "x86_64"} {
		opt.Parameters["Architecture"] = arch
		if _, err := Load(filepath.Join(root, "template.yaml"), opt); err != nil {
			t.Errorf("%s: %v", arch, err)
		}
	}
}

const everything = `
Parameters:
  Stage: {Type: String, Default: dev, AllowedValues: [dev, prod]}
  Memory: {Type: Number, Default: 256, MinValue: 128}
Mappings:
  Sizes: {dev: {timeout: 7}, prod: {timeout: 20}}
Conditions:
  IsProd: !Equals [!Ref Stage, prod]
  NotProd: !Not [!Condition IsProd]
  Both: !And [!Condition NotProd, !Equals [a, a]]
Globals:
  Function:
    Runtime: provided.al2023
    Handler: bootstrap
    Architectures: [arm64]
    MemorySize: !Ref Memory
    Environment:
      Variables:
        TABLE: !Ref Items
        SHARED: global
    Policies:
      - Version: 2012-10-17
        Statement: {Effect: Deny, Action: "s3:*", Resource: "*"}
Resources:
  Items:
    Type: AWS::DynamoDB::Table
    DeletionPolicy: Retain
    Properties:
      BillingMode: PAY_PER_REQUEST
      AttributeDefinitions: [{AttributeName: pk, AttributeType: S}]
      KeySchema: [{AttributeName: pk, KeyType: HASH}]
      TimeToLiveSpecification: {AttributeName: ttl, Enabled: true}
  Named:
    Type: AWS::DynamoDB::Table
    Condition: Both
    Properties:
      TableName: !Join ["-", [!Ref "AWS::StackName", named]]
      BillingMode: PAY_PER_REQUEST
      AttributeDefinitions: [{AttributeName: pk, AttributeType: S}]
      KeySchema: [{AttributeName: pk, KeyType: HASH}]
  OnlyProd:
    Type: AWS::SQS::Queue
    Condition: IsProd
  Files:
    Type: AWS::S3::Bucket
  Api:
    Type: AWS::Serverless::HttpApi
  Worker:
    Type: AWS::Serverless::Function
    Properties:
      FunctionName: !Sub "${AWS::StackName}-worker"
      CodeUri: .build/worker
      Timeout: !FindInMap [Sizes, !Ref Stage, timeout]
      ReservedConcurrentExecutions: !If [IsProd, 5, !Ref AWS::NoValue]
      EventInvokeConfig: {MaximumRetryAttempts: 1, MaximumEventAgeInSeconds: 120}
      Environment:
        Variables:
          SHARED: own
          ARN: !GetAtt Items.Arn
          TEXT: !Sub ["${x}/${!literal}/${Named.Arn}", {x: !Select [1, !Split [",", "a,b"]]}]
          FLOW: !GetAtt Flow.Arn
          PUBLIC: !Sub "${Api.ApiEndpoint}/x"
      Policies:
        - Statement:
            - {Sid: One, Effect: Allow, Action: dynamodb:GetItem, Resource: [!GetAtt Items.Arn, !Sub "${Items.Arn}/index/*"]}
      Events:
        Get: {Type: HttpApi, Properties: {ApiId: !Ref Api, Method: get, Path: "/v1/{id}/{rest+}", TimeoutInMillis: 1500}}
        Any: {Type: HttpApi, Properties: {ApiId: !Ref Api}}
        Tick: {Type: Schedule, Properties: {Schedule: rate(5 minutes), Input: "{\"a\":1}"}}
        Off: {Type: Schedule, Properties: {Schedule: rate(1 minute), Enabled: false}}
  Flow:
    Type: AWS::Serverless::StateMachine
    Properties:
      Name: flow
      DefinitionUri: flow.asl.json
      DefinitionSubstitutions: {WorkerArn: !GetAtt Worker.Arn}
      Policies: {Statement: {Effect: Allow, Action: lambda:InvokeFunction, Resource: !GetAtt Worker.Arn}}
Outputs:
  Machine: {Value: !Ref Flow}
`

func TestEverythingThatIsRead(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "flow.asl.json"), []byte(`{"F":"${WorkerArn}","keep":"{% $x %}"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := Parse([]byte(head+everything), dir, options)
	if err != nil {
		t.Fatal(err)
	}
	arn := "arn:aws:lambda:us-east-1:000000000000:function:px-worker"
	table := "arn:aws:dynamodb:us-east-1:000000000000:table/"
	want := &Template{
		Parameters: map[string]string{"Stage": "dev", "Memory": "256"},
		Outputs:    map[string]string{"Machine": "arn:aws:states:us-east-1:000000000000:stateMachine:flow"},
		Functions: []Function{{
			LogicalID: "Worker", Name: "px-worker", ARN: arn, CodeDir: filepath.Join(dir, ".build", "worker"),
			Timeout: 7 * time.Second, MemoryMB: 256, MaxRetryAttempts: 1, MaxEventAge: 2 * time.Minute,
			Environment: map[string]string{
				"TABLE": "px-Items", "SHARED": "own", "ARN": table + "px-Items", "TEXT": "b/${literal}/" + table + "px-named",
				"FLOW": "arn:aws:states:us-east-1:000000000000:stateMachine:flow", "PUBLIC": "http://127.0.0.1:8787/x",
			},
			Policy: []Statement{
				{Deny: true, Actions: []string{"s3:*"}, Resources: []string{"*"}},
				{Actions: []string{"dynamodb:GetItem"}, Resources: []string{table + "px-Items", table + "px-Items/index/*"}},
			},
		}},
		Routes: []Route{
			{Method: "ANY", Path: "$default", Function: "px-worker", Timeout: 30 * time.Second},
			{Method: "GET", Path: "/v1/{id}/{rest+}", Function: "px-worker", Timeout: 1500 * time.Millisecond},
		},
		Schedules: []Schedule{{Name: "px-WorkerTick", ARN: "arn:aws:events:us-east-1:000000000000:rule/px-WorkerTick", Function: "px-worker", Every: 5 * time.Minute, Input: json.RawMessage(`{"a":1}`)}},
		StateMachines: []StateMachine{{
			LogicalID: "Flow", Name: "flow", ARN: "arn:aws:states:us-east-1:000000000000:stateMachine:flow",
			Definition: []byte(`{"F":"` + arn + `","keep":"{% $x %}"}`),
			Policy:     []Statement{{Actions: []string{"lambda:InvokeFunction"}, Resources: []string{arn}}},
		}},
		Tables: []Table{
			{LogicalID: "Items", Name: "px-Items", ARN: table + "px-Items", TTL: "ttl", CreateTable: json.RawMessage(`{"AttributeDefinitions":[{"AttributeName":"pk","AttributeType":"S"}],"BillingMode":"PAY_PER_REQUEST","KeySchema":[{"AttributeName":"pk","KeyType":"HASH"}],"TableName":"px-Items"}`)},
			{LogicalID: "Named", Name: "px-named", ARN: table + "px-named", CreateTable: json.RawMessage(`{"AttributeDefinitions":[{"AttributeName":"pk","AttributeType":"S"}],"BillingMode":"PAY_PER_REQUEST","KeySchema":[{"AttributeName":"pk","KeyType":"HASH"}],"TableName":"px-named"}`)},
		},
		Buckets: []Bucket{{LogicalID: "Files", Name: "px-files", ARN: "arn:aws:s3:::px-files"}},
	}
	for i := range reflect.TypeFor[Template]().NumField() {
		name := reflect.TypeFor[Template]().Field(i).Name
		g, w := reflect.ValueOf(*got).Field(i).Interface(), reflect.ValueOf(*want).Field(i).Interface()
		if !reflect.DeepEqual(g, w) {
			t.Errorf("%s:\n got %+v\nwant %+v", name, g, w)
		}
	}
}

// function wraps properties in a template with one function F.
func function(props string) string {
	return "Resources:\n  Api: {Type: AWS::Serverless::HttpApi}\n  F:\n    Type: AWS::Serverless::Function\n    Properties:\n      CodeUri: f\n" + indent(props, 6)
}

func resource(typ, props string) string {
	return "Resources:\n  R:\n    Type: " + typ + "\n    Properties:\n" + indent(props, 6)
}

func indent(s string, n int) string {
	pad := strings.Repeat(" ", n)
	return pad + strings.ReplaceAll(strings.TrimSpace(s), "\n", "\n"+pad) + "\n"
}

// gatewayed is a template with an HTTP API by its own resources; each edit replaces a
// text of it.
func gatewayed(edits ...string) string {
	s := `Resources:
  Api: {Type: AWS::ApiGatewayV2::Api, Properties: {ProtocolType: HTTP}}
  Stage: {Type: AWS::ApiGatewayV2::Stage, Properties: {ApiId: !Ref Api, StageName: $default, AutoDeploy: true}}
  F: {Type: AWS::Serverless::Function, Properties: {CodeUri: f}}
  In:
    Type: AWS::ApiGatewayV2::Integration
    Properties:
      ApiId: !Ref Api
      IntegrationType: AWS_PROXY
      IntegrationUri: !GetAtt F.Arn
      PayloadFormatVersion: "2.0"
      TimeoutInMillis: 1500
      ResponseParameters:
        "401":
          ResponseParameters:
            - {Destination: "overwrite:header.www-authenticate", Source: "$response.header.X-Own"}
            - {Destination: "remove:header.x-own", Source: "''"}
  May: {Type: AWS::Lambda::Permission, Properties: {Action: lambda:InvokeFunction, FunctionName: !Ref F, Principal: apigateway.amazonaws.com, SourceArn: !Sub "arn:aws:execute-api:${AWS::Region}:${AWS::AccountId}:${Api}/*"}}
  Way: {Type: AWS::ApiGatewayV2::Route, Properties: {ApiId: !Ref Api, RouteKey: "GET /v1/{id}", Target: !Sub "integrations/${In}"}}
  Rest: {Type: AWS::ApiGatewayV2::Route, Properties: {ApiId: !Ref Api, RouteKey: $default, Target: !Sub "integrations/${In}"}}
`
	for i := 0; i < len(edits); i += 2 {
		if !strings.Contains(s, edits[i]) {
			panic(edits[i])
		}
		s = strings.ReplaceAll(s, edits[i], edits[i+1])
	}
	return s
}

// An API that is declared by its own resources is read with what its integrations map.
//
// covers: H2
func TestRoutesHaveTheirIntegrationsAndWhatTheseMap(t *testing.T) {
	got, err := parse(t, gatewayed())
	if err != nil {
		t.Fatal(err)
	}
	mapped := map[int][]apigateway.Mapping{401: {{Action: "overwrite", Header: "Www-Authenticate", From: "X-Own"}, {Action: "remove", Header: "X-Own"}}}
	want := []Route{
		{Method: "ANY", Path: "$default", Function: "px-F", Timeout: 1500 * time.Millisecond, Responses: mapped},
		{Method: "GET", Path: "/v1/{id}", Function: "px-F", Timeout: 1500 * time.Millisecond, Responses: mapped},
	}
	if !reflect.DeepEqual(got.Routes, want) {
		t.Errorf("%+v", got.Routes)
	}
}

func event(props string) string {
	return function("Events:\n  E: {Type: HttpApi, Properties: {" + props + "}}")
}

const table = "BillingMode: PAY_PER_REQUEST\nAttributeDefinitions: [{AttributeName: pk, AttributeType: S}]\nKeySchema: [{AttributeName: pk, KeyType: HASH}]\n"

// worker is a container of a task, and task a task definition with containers.
const worker = "  - Name: worker\n    Image: i\n"

func task(props, containers string) string {
	return resource("AWS::ECS::TaskDefinition", props+"\nContainerDefinitions:\n"+containers)
}

// covers: H4
func TestATaskAndItsRoleAreReadAsTheyAreDeclared(t *testing.T) {
	got, err := parse(t, `Resources:
  Cluster: {Type: AWS::ECS::Cluster}
  Role: {Type: AWS::IAM::Role, Properties: {Policies: [{PolicyName: a, PolicyDocument: {Version: "2012-10-17", Statement: [{Effect: Allow, Action: a, Resource: !GetAtt Cluster.Arn}]}}]}}
  Task:
    Type: AWS::ECS::TaskDefinition
    Properties:
      Family: f
      TaskRoleArn: !GetAtt Role.Arn
      ContainerDefinitions: [{Name: worker, Image: i, Environment: [{Name: A, Value: !Ref Cluster}]}]
Outputs: {Task: {Value: !Ref Task}}
`)
	if err != nil {
		t.Fatal(err)
	}
	cluster, role, task := got.Clusters[0], got.Roles[0], got.Tasks[0]
	if task.Family != "f" || task.Container != "worker" || task.Image != "i" || task.Role != role.ARN || task.Environment["A"] != cluster.Name || got.Outputs["Task"] != task.ARN || !strings.HasSuffix(task.ARN, ":task-definition/f:1") {
		t.Errorf("%+v %+v %v", task, role, got.Outputs)
	}
	if len(role.Policy) != 1 || role.Policy[0].Resources[0] != cluster.ARN {
		t.Errorf("%+v", role.Policy)
	}
}

// covers: H4
func TestFindings(t *testing.T) {
	const p, f, r = "/Resources/F/Properties", "/Resources/F/Properties", "/Resources/R/Properties"
	for _, c := range []struct{ name, text, path, message string }{
		{"a resource type", resource("AWS::SQS::Queue", "QueueName: q"), "/Resources/R/Type", "the resource type AWS::SQS::Queue is not supported"},
		{"an unknown section", "Rules: {}\n" + function(""), "/Rules", "the section Rules is not supported"},
		{"globals of another kind", "Globals: {Api: {Name: x}}\n" + function(""), "/Globals/Api", "Globals of Api are not supported"},
		{"another runtime", function("Runtime: go1.x"), f + "/Runtime", `only "provided.al2023" and "python3.13" are supported by px local`},
		{"another minor of Python", function("Runtime: python3.12\nHandler: app.handler"), f + "/Runtime", `only "provided.al2023" and "python3.13" are supported by px local`},
		{"a handler in Python for an executable", function("Handler: app.handler"), f + "/Handler", `only "bootstrap" is supported by px local for provided.al2023`},
		{"an executable's handler for Python", function("Runtime: python3.13"), f + "/Handler", `module.function`},
		{"a handler in a folder below", function("Runtime: python3.13\nHandler: src/app.handler"), f + "/Handler", `module.function`},
		{"a function property", function("VpcConfig: {SubnetIds: [a]}"), f + "/VpcConfig", "VpcConfig is not supported"},
		{"a nested property", function("EventInvokeConfig: {DestinationConfig: {}}"), f + "/EventInvokeConfig/DestinationConfig", "DestinationConfig is not supported"},
		{"a misspelt property", function("Memorysize: 128"), f + "/Memorysize", "Memorysize is not supported"},
		{"memory below the smallest", function("MemorySize: 64"), f + "/MemorySize", "an integer from 128 to 10240"},
		{"a timeout that is no number", function("Timeout: soon"), f + "/Timeout", "an integer from 1 to 900"},
		{"a reserved variable", function("Environment: {Variables: {AWS_LAMBDA_RUNTIME_API: x}}"), f + "/Environment/Variables/AWS_LAMBDA_RUNTIME_API", "Lambda reserves"},
		{"code in a bucket", strings.Replace(function(""), "CodeUri: f", "CodeUri: s3://b/k", 1), f + "/CodeUri", "only a folder"},
		{"a SAM policy template", function("Policies: [{DynamoDBCrudPolicy: {TableName: t}}]"), f + "/Policies/0", "only policy documents"},
		{"a managed policy", function("Policies: [AWSLambdaExecute]"), f + "/Policies/0", "only policy documents"},
		{"a policy condition", function("Policies: [{Statement: [{Effect: Allow, Action: a, Resource: r, Condition: {}}]}]"), f + "/Policies/0/Statement/0/Condition", "a condition was expected"},
		{"a policy with NotAction", function("Policies: [{Statement: [{Effect: Allow, NotAction: a, Resource: r}]}]"), f + "/Policies/0/Statement/0/NotAction", "NotAction is not supported"},
		{"another event", function("Events:\n  E: {Type: SQS, Properties: {}}"), f + "/Events/E/Type", "the event type SQS is not supported"},
		{"a variable that is part of a segment", event(`ApiId: !Ref Api, Method: post, Path: "/v1/plans/{planRef}:approve"`), p + "/Events/E/Properties/Path", "a variable is a whole path segment"},
		{"a greedy variable in the middle", event(`ApiId: !Ref Api, Method: get, Path: "/{a+}/b"`), p + "/Events/E/Properties/Path", "a greedy variable is the last segment"},
		{"a variable twice", event(`ApiId: !Ref Api, Method: get, Path: "/{a}/{a}"`), p + "/Events/E/Properties/Path", "stands here twice"},
		{"a relative path", event(`ApiId: !Ref Api, Method: get, Path: v1`), p + "/Events/E/Properties/Path", "begins with /"},
		{"another method", event(`ApiId: !Ref Api, Method: fetch, Path: /a`), p + "/Events/E/Properties/Method", "not an HTTP method"},
		{"payload format 1.0", event(`ApiId: !Ref Api, Method: get, Path: /a, PayloadFormatVersion: "1.0"`), p + "/Events/E/Properties/PayloadFormatVersion", `only "2.0"`},
		{"an authorizer", event(`ApiId: !Ref Api, Method: get, Path: /a, Auth: {Authorizer: x}`), p + "/Events/E/Properties/Auth", "Auth is not supported"},
		{"the same route twice", function("Events:\n  A: {Type: HttpApi, Properties: {ApiId: !Ref Api, Method: get, Path: \"/{a}\"}}\n  B: {Type: HttpApi, Properties: {ApiId: !Ref Api, Method: get, Path: \"/{b}\"}}"), p + "/Events/B/Properties", "declared at /Resources/F/Properties/Events/A"},
		{"an event of an API with its own resources", gatewayed("F: {Type: AWS::Serverless::Function, Properties: {CodeUri: f}}", "F: {Type: AWS::Serverless::Function, Properties: {CodeUri: f, Events: {E: {Type: HttpApi, Properties: {ApiId: !Ref Api, Method: get, Path: /a}}}}}"), p + "/Events/E/Properties/ApiId", "are resources AWS::ApiGatewayV2::Route"},
		{"an API of WebSockets", gatewayed("ProtocolType: HTTP", "ProtocolType: WEBSOCKET"), "/Resources/Api/Properties/ProtocolType", `only "HTTP"`},
		{"an API with a definition too", gatewayed("ProtocolType: HTTP", "ProtocolType: HTTP, Body: {}"), "/Resources/Api/Properties/Body", "Body is not supported"},
		{"an API without a stage", gatewayed("  Stage: {Type: AWS::ApiGatewayV2::Stage, Properties: {ApiId: !Ref Api, StageName: $default, AutoDeploy: true}}\n", ""), "/Resources/Api/Properties", "has no stage"},
		{"a stage with a name", gatewayed("StageName: $default", "StageName: prod"), "/Resources/Stage/Properties/StageName", "only \"$default\""},
		{"a stage that does not deploy", gatewayed(", AutoDeploy: true", ""), "/Resources/Stage/Properties/AutoDeploy", "deploys by itself"},
		{"an integration with an address outside", gatewayed("AWS_PROXY", "HTTP_PROXY"), "/Resources/In/Properties/IntegrationType", `only "AWS_PROXY"`},
		{"an integration of no function", gatewayed("!GetAtt F.Arn", "arn:aws:lambda:us-east-1:000000000000:function:other"), "/Resources/In/Properties/IntegrationUri", "no function of this template"},
		{"events of format 1.0", gatewayed(`PayloadFormatVersion: "2.0"`, `PayloadFormatVersion: "1.0"`), "/Resources/In/Properties/PayloadFormatVersion", `only "2.0"`},
		{"mapped requests", gatewayed("      TimeoutInMillis", "      RequestParameters: {}\n      TimeoutInMillis"), "/Resources/In/Properties/RequestParameters", "RequestParameters is not supported"},
		{"a mapping of every status", gatewayed(`"401":`, `default:`), "/Resources/In/Properties/ResponseParameters/default", "a status from 200 to 599"},
		{"a mapping of 600", gatewayed(`"401":`, `"600":`), "/Resources/In/Properties/ResponseParameters/600", "a status from 200 to 599"},
		{"a mapping to a reserved header", gatewayed("overwrite:header.www-authenticate", "append:header.Access-Control-Allow-Origin"), "/Resources/In/Properties/ResponseParameters/401/ResponseParameters/0", "Access-Control-Allow-Origin is reserved"},
		{"a mapping from a reserved header", gatewayed("$response.header.X-Own", "$response.header.x-amzn-remapped-www-authenticate"), "/Resources/In/Properties/ResponseParameters/401/ResponseParameters/0", "x-amzn-remapped-www-authenticate is reserved"},
		{"a mapping of the status itself", gatewayed("overwrite:header.www-authenticate", "overwrite:statuscode"), "/Resources/In/Properties/ResponseParameters/401/ResponseParameters/0", "overwrite:statuscode is not supported"},
		{"a mapping by another action", gatewayed("overwrite:header.", "set:header."), "/Resources/In/Properties/ResponseParameters/401/ResponseParameters/0", "is none of overwrite:, append: and remove:header.NAME"},
		{"a mapping of the query", gatewayed("overwrite:header.www-authenticate", "overwrite:querystring.a"), "/Resources/In/Properties/ResponseParameters/401/ResponseParameters/0", "is none of"},
		{"a mapping from the context", gatewayed("$response.header.X-Own", "$context.requestId"), "/Resources/In/Properties/ResponseParameters/401/ResponseParameters/0", `"$context.requestId" is not supported`},
		{"a mapping from nothing", gatewayed(`, Source: "$response.header.X-Own"`, ""), "/Resources/In/Properties/ResponseParameters/401/ResponseParameters/0", "a text of one line"},
		{"a removal with a value", gatewayed(`"''"`, `x`), "/Resources/In/Properties/ResponseParameters/401/ResponseParameters/1", "the source of remove"},
		{"a header mapped twice", gatewayed("remove:header.x-own", "remove:header.WWW-Authenticate"), "/Resources/In/Properties/ResponseParameters/401/ResponseParameters/1", "is mapped twice"},
		{"another key of a mapping", gatewayed(`Source: "''"`, `Source: "''", Condition: x`), "/Resources/In/Properties/ResponseParameters/401/ResponseParameters/1/Condition", "Condition is not supported"},
		{"another key of a status", gatewayed(`"401":`, "\"401\":\n          Status: x"), "/Resources/In/Properties/ResponseParameters/401/Status", "Status is not supported"},
		{"an integration that no permission lets in", gatewayed("FunctionName: !Ref F", "FunctionName: other"), "/Resources/In/Properties", "API Gateway may not invoke px-F"},
		{"a permission of another route", gatewayed("${Api}/*", "${Api}/*/GET/v1/*"), "/Resources/May/Properties/SourceArn", "only every route"},
		{"a permission of another service", gatewayed("apigateway.amazonaws.com", "events.amazonaws.com"), "/Resources/May/Properties/Principal", `only "apigateway.amazonaws.com"`},
		{"an integration without a route", gatewayed("integrations/${In}", "integrations/none"), "/Resources/In/Properties", "no route leads"},
		{"a route to nothing", gatewayed("integrations/${In}", "integrations/none"), "/Resources/Way/Properties/Target", "an integration of this template"},
		{"a route key without a method", gatewayed("RouteKey: $default", "RouteKey: /v1"), "/Resources/Rest/Properties/RouteKey", "a route key is $default"},
		{"a route key of a method in lower case", gatewayed("GET /v1/{id}", "get /v1/{id}"), "/Resources/Way/Properties/RouteKey", "not an HTTP method"},
		{"the same route by two resources", gatewayed("RouteKey: $default", `RouteKey: "GET /v1/{other}"`), "/Resources/Way/Properties", "declared at /Resources/Rest/Properties"},
		{"a route with an authorizer", gatewayed("RouteKey: $default", "RouteKey: $default, AuthorizationType: JWT"), "/Resources/Rest/Properties/AuthorizationType", `only "NONE"`},
		{"a cron expression", function("Events:\n  E: {Type: Schedule, Properties: {Schedule: \"cron(0 12 * * ? *)\"}}"), f + "/Events/E/Properties/Schedule", "only rate("},
		{"rate(1 minutes)", function("Events:\n  E: {Type: Schedule, Properties: {Schedule: rate(1 minutes)}}"), f + "/Events/E/Properties/Schedule", "singular"},
		{"two APIs", "Resources:\n  A: {Type: AWS::Serverless::HttpApi}\n  B: {Type: AWS::Serverless::HttpApi}", "/Resources", "one HTTP API, the template has 2: A, B"},
		{"CORS", resource("AWS::Serverless::HttpApi", "CorsConfiguration: true"), r + "/CorsConfiguration", "CorsConfiguration is not supported"},
		{"provisioned capacity", resource("AWS::DynamoDB::Table", strings.Replace(table, "PAY_PER_REQUEST", "PROVISIONED", 1)), r + "/BillingMode", "only PAY_PER_REQUEST"},
		{"a stream", resource("AWS::DynamoDB::Table", table+"StreamSpecification: {StreamViewType: NEW_IMAGE}"), r + "/StreamSpecification", "StreamSpecification is not supported"},
		{"index throughput", resource("AWS::DynamoDB::Table", table+"GlobalSecondaryIndexes: [{IndexName: i, ProvisionedThroughput: {}}]"), r + "/GlobalSecondaryIndexes/0/ProvisionedThroughput", "not supported"},
		{"versioning of a bucket", resource("AWS::S3::Bucket", "VersioningConfiguration: {Status: Enabled}"), r + "/VersioningConfiguration", "not supported"},
		{"an express state machine", resource("AWS::Serverless::StateMachine", "Type: EXPRESS"), r + "/Type", `only "STANDARD"`},
		{"a definition that is not there", resource("AWS::Serverless::StateMachine", "DefinitionUri: none.json"), r + "/DefinitionUri", "cannot be read"},
		{"Ref of nothing", function("Description: !Ref Nothing"), f + "/Description/Ref", `no parameter or resource "Nothing"`},
		{"GetAtt of nothing", function("Description: !GetAtt Nothing.Arn"), f + "/Description/Fn::GetAtt", `no resource "Nothing"`},
		{"an unknown attribute", function("Description: !GetAtt Api.Id"), f + "/Description/Fn::GetAtt", `attribute "Id"`},
		{"Sub of nothing", function("Description: !Sub \"a${Nothing.Arn}b\""), f + "/Description/Fn::Sub", `no resource "Nothing"`},
		{"an intrinsic that cannot be known", function("Description: !ImportValue x"), f + "/Description/Fn::ImportValue", "Fn::ImportValue is not supported"},
		{"Select out of range", function("Description: !Select [2, [a, b]]"), f + "/Description/Fn::Select", "wrong arguments"},
		{"Join of what is no list", function("Description: !Join [a, b]"), f + "/Description/Fn::Join", "wrong arguments"},
		{"a map that lacks the key", "Mappings: {M: {a: {b: c}}}\n" + function("Description: !FindInMap [M, a, z]"), f + "/Description/Fn::FindInMap", "cannot be resolved"},
		{"a condition that is not there", function("Description: !If [C, a, b]"), f + "/Description/Fn::If", `no condition "C"`},
		{"conditions in a circle", "Conditions:\n  A: !Not [!Condition B]\n  B: !Not [!Condition A]\n" + function(""), "/Conditions/B/Fn::Not/0", "depends on itself"},
		{"names in a circle", "Resources:\n  A: {Type: AWS::S3::Bucket, Properties: {BucketName: !Ref B}}\n  B: {Type: AWS::S3::Bucket, Properties: {BucketName: !Ref A}}", "/Resources/B/Properties/BucketName/Ref", "depends on itself"},
		{"a parameter without a value", "Parameters: {P: {Type: String}}\n" + function(""), "/Parameters/P", "no default"},
		{"a value that is not allowed", "Parameters: {P: {Type: String, Default: c, AllowedValues: [a, b]}}\n" + function(""), "/Parameters/P", "none of AllowedValues"},
		{"a value that does not match", "Parameters: {P: {Type: String, Default: xay, AllowedPattern: a}}\n" + function(""), "/Parameters/P", "does not match AllowedPattern"},
		{"a list parameter", "Parameters: {P: {Type: CommaDelimitedList, Default: a}}\n" + function(""), "/Parameters/P/Type", `"CommaDelimitedList" is not supported`},
		{"a key twice", function("Timeout: 3\nTimeout: 4"), f + "/Timeout", "stands here twice"},
		{"an alias", "Metadata: {a: &x 1, b: *x}\n" + function(""), "/Metadata/b", "aliases are not supported"},
		{"an unknown tag", function("Description: !Other x"), f + "/Description", "the YAML tag !Other is not supported"},
		{"a task on instances", task("RequiresCompatibilities: [EC2]", worker), r + "/RequiresCompatibilities/0", `only "FARGATE"`},
		{"a task on the host's network", task("NetworkMode: host", worker), r + "/NetworkMode", `only "awsvpc"`},
		{"two containers", task("Cpu: 1", worker+worker), r + "/ContainerDefinitions", "only one container"},
		{"a command", task("Cpu: 1", worker+"    Command: [sh]\n"), r + "/ContainerDefinitions/0/Command", "Command is not supported"},
		{"secrets of a container", task("Cpu: 1", worker+"    Secrets: []\n"), r + "/ContainerDefinitions/0/Secrets", "Secrets is not supported"},
		{"a way into a task", resource("AWS::EC2::SecurityGroup", "SecurityGroupIngress: []"), r + "/SecurityGroupIngress", "SecurityGroupIngress is not supported"},
		{"a boundary of a role", resource("AWS::IAM::Role", "PermissionsBoundary: x"), r + "/PermissionsBoundary", "PermissionsBoundary is not supported"},
		{"a condition in a role's policy", resource("AWS::IAM::Role", "Policies: [{PolicyName: a, PolicyDocument: {Statement: [{Effect: Allow, Action: a, Resource: r, Condition: {StringEquals: {a: b}}}]}}]"), r + "/Policies/0/PolicyDocument/Statement/0/Condition/StringEquals", "StringEquals is not supported"},
		{"a bucket name with capitals", resource("AWS::S3::Bucket", "BucketName: Files"), r, "a bucket name is"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := parse(t, c.text)
			var found Findings
			if !errors.As(err, &found) {
				t.Fatalf("accepted, or %v", err)
			}
			for _, x := range found {
				if x.Path == c.path && strings.Contains(x.Message, c.message) {
					if x.Line < 3 {
						t.Errorf("line %d", x.Line)
					}
					return
				}
			}
			t.Errorf("no finding %q at %s in:\n%v", c.message, c.path, err)
		})
	}
	if _, err := parse(t, function("Timeout: 3")); err != nil {
		t.Errorf("the frame of the cases is itself refused: %v", err)
	}
	if _, err := parse(t, resource("AWS::DynamoDB::Table", table)); err != nil {
		t.Errorf("the frame of the cases is itself refused: %v", err)
	}
}

func TestAllFindingsAtOnce(t *testing.T) {
	_, err := parse(t, function("Timeout: 0\nLayers: [a]\nDescription: !Ref X")+"  Q: {Type: AWS::SQS::Queue}\n  W: {Type: AWS::SNS::Topic}\n")
	var found Findings
	if !errors.As(err, &found) || len(found) != 5 {
		t.Errorf("want 5 findings: %v", err)
	}
	for i := 1; i < len(found); i++ {
		if found[i].Line < found[i-1].Line {
			t.Error("findings are not in the order of lines")
		}
	}
}

func TestOverriddenParameters(t *testing.T) {
	opt := options
	opt.Parameters = map[string]string{"P": "b"}
	text := head + "Parameters: {P: {Type: String, AllowedValues: [a, b]}}\n" + function("Environment: {Variables: {V: !Ref P}}")
	got, err := Parse([]byte(text), ".", opt)
	if err != nil || got.Functions[0].Environment["V"] != "b" {
		t.Errorf("%+v, %v", got, err)
	}
	opt.Parameters["Typo"] = "x"
	if _, err := Parse([]byte(text), ".", opt); err == nil || !strings.Contains(err.Error(), `no parameter "Typo"`) {
		t.Errorf("a parameter that is not there: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(head + everything))
	f.Add([]byte(head + gatewayed()))
	f.Add([]byte(head + "Conditions:\n  A: !Not [!Condition B]\n  B: !Or [!Condition A, !Condition A]\n" + function("Description: !Sub [\"${a}\", {a: !If [A, b, c]}]")))
	f.Add([]byte("Resources: [!GetAtt , !Select [], !Split [a], !Join []]"))
	f.Add([]byte("Resources:\n  A: {Type: AWS::S3::Bucket, Properties: !Ref AWS::NoValue}\n  B: !Ref A"))
	f.Fuzz(func(t *testing.T, src []byte) {
		got, err := Parse(src, ".", options)
		if (got == nil) == (err == nil) {
			t.Fatal("a template or findings, one of them")
		}
	})
}
