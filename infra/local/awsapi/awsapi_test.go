package awsapi

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	ddbtypes "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/smithy-go"
)

const region = "us-east-1"

var (
	operator = Credential{AccessKeyID: "PXOP", Secret: "operator-secret", Principal: "operator"}
	function = Credential{AccessKeyID: "PXFN", Secret: "function-secret", Token: "session", Principal: "pxhost-tool-x"}
)

// backend records the requests that got through.
type backend struct {
	seen    []string
	failing bool
	faults  []string
}

func (b *backend) handler(name string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		b.seen = append(b.seen, name+" "+Principal(r.Context())+" "+r.Method+" "+r.URL.Path+" "+string(body))
		if b.failing {
			w.WriteHeader(http.StatusInternalServerError)
			io.WriteString(w, `{"__type":"InternalServerError","message":"no space left"}`+"\n")
			return
		}
		if name == "dynamodb" || name == "states" {
			w.Header().Set("Content-Type", "application/x-amz-json-1.0")
			io.WriteString(w, "{}")
		}
	})
}

type rig struct {
	*backend
	url string
	now time.Time
}

func start(t testing.TB, allow func(p, a, r string) bool) *rig {
	t.Helper()
	if allow == nil {
		return startWith(t, nil)
	}
	return startWith(t, func(p, a, r string, _ Context) bool { return allow(p, a, r) })
}

func startWith(t testing.TB, allow func(p, a, r string, with Context) bool) *rig {
	t.Helper()
	g := &rig{backend: &backend{}, now: time.Now()}
	services := map[string]http.Handler{}
	for _, s := range []string{"dynamodb", "states", "lambda", "s3", "ecs", "kms"} {
		services[s] = g.handler(s)
	}
	srv := httptest.NewServer(New(Options{
		Region: region, Services: services, Allow: allow, Now: func() time.Time { return g.now },
		Fault: func(service, answer string) { g.faults = append(g.faults, service+" "+answer) },
		Resources: Resources{
			Table:    func(n string) string { return "arn:aws:dynamodb:us-east-1:000000000000:table/" + n },
			Function: func(n string) string { return "arn:aws:lambda:us-east-1:000000000000:function:" + n },
			Key: func(name string, ciphertext []byte) string {
				if name == "" {
					name = string(ciphertext)
				}
				return map[string]string{"alias/a": "arn:key", "arn:key": "arn:key", "blob": "arn:key"}[name]
			},
		},
		Credential: func(id string) (Credential, bool) {
			for _, c := range []Credential{operator, function} {
				if c.AccessKeyID == id {
					return c, true
				}
			}
			return Credential{}, false
		},
	}))
	t.Cleanup(srv.Close)
	g.url = srv.URL
	return g
}

func provider(c Credential) aws.CredentialsProvider {
	return credentials.NewStaticCredentialsProvider(c.AccessKeyID, c.Secret, c.Token)
}

func (g *rig) tables(c Credential, region string) *dynamodb.Client {
	return dynamodb.New(dynamodb.Options{Region: region, BaseEndpoint: &g.url, Credentials: provider(c), RetryMaxAttempts: 1})
}
func (g *rig) objects(c Credential) *s3.Client {
	return s3.New(s3.Options{Region: region, BaseEndpoint: &g.url, Credentials: provider(c), RetryMaxAttempts: 1, UsePathStyle: true})
}
func (g *rig) functions(c Credential) *lambda.Client {
	return lambda.New(lambda.Options{Region: region, BaseEndpoint: &g.url, Credentials: provider(c), RetryMaxAttempts: 1})
}
func (g *rig) machines(c Credential) *sfn.Client {
	return sfn.New(sfn.Options{Region: region, BaseEndpoint: &g.url, Credentials: provider(c), RetryMaxAttempts: 1})
}

func (g *rig) containers(c Credential) *ecs.Client {
	return ecs.New(ecs.Options{Region: region, BaseEndpoint: &g.url, Credentials: provider(c), RetryMaxAttempts: 1})
}

func code(err error) string {
	var e smithy.APIError
	if errors.As(err, &e) {
		return e.ErrorCode()
	}
	return ""
}

func TestAServiceThatFailsByItselfIsToldToTheOperator(t *testing.T) {
	g := start(t, func(string, string, string) bool { return true })
	list := func() error {
		_, err := g.tables(operator, region).ListTables(t.Context(), &dynamodb.ListTablesInput{}, func(o *dynamodb.Options) { o.Retryer = aws.NopRetryer{} })
		return err
	}
	if err := list(); err != nil || len(g.faults) != 0 {
		t.Fatal(err, g.faults)
	}
	g.failing = true
	if err := list(); code(err) != "InternalServerError" || !slices.Equal(g.faults, []string{`dynamodb {"__type":"InternalServerError","message":"no space left"}`}) {
		t.Fatal(err, g.faults)
	}
	if _, err := g.functions(operator).Invoke(t.Context(), &lambda.InvokeInput{FunctionName: aws.String("x")}, func(o *lambda.Options) { o.Retryer = aws.NopRetryer{} }); err == nil || len(g.faults) != 1 {
		t.Fatal(err, g.faults)
	}
}

// covers: H3
func TestTheSDKsSignaturesAreAccepted(t *testing.T) {
	ctx := context.Background()
	for _, cred := range []Credential{operator, function} {
		g := start(t, nil)
		for _, c := range []struct {
			want string
			call func() error
		}{
			{"dynamodb " + cred.Principal + ` POST / {"TableName":"T"}`, func() error {
				_, err := g.tables(cred, region).DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: aws.String("T")})
				return err
			}},
			{"states " + cred.Principal + ` POST / {"executionArn":"e"}`, func() error {
				_, err := g.machines(cred).DescribeExecution(ctx, &sfn.DescribeExecutionInput{ExecutionArn: aws.String("e")})
				return err
			}},
			{"lambda " + cred.Principal + " POST /2015-03-31/functions/arn:aws:lambda:us-east-1:000000000000:function:f/invocations [1]", func() error {
				_, err := g.functions(cred).Invoke(ctx, &lambda.InvokeInput{FunctionName: aws.String("arn:aws:lambda:us-east-1:000000000000:function:f"), Payload: []byte("[1]")})
				return err
			}},
			{"s3 " + cred.Principal + " PUT /b/a key+with ~odd/ü&=?%20 body", func() error {
				_, err := g.objects(cred).PutObject(ctx, &s3.PutObjectInput{Bucket: aws.String("b"), Key: aws.String("a key+with ~odd/ü&=?%20"), Body: strings.NewReader("body"), Metadata: map[string]string{"a": "  two   spaces "}})
				return err
			}},
			{"s3 " + cred.Principal + " GET /b ", func() error {
				_, err := g.objects(cred).ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: aws.String("b"), Prefix: aws.String("x y+z/&"), StartAfter: aws.String("ä")})
				if err != nil && strings.Contains(err.Error(), "EOF") {
					return nil // our backend answers no listing
				}
				return err
			}},
		} {
			err := c.call()
			if len(g.seen) == 0 || strings.TrimSuffix(g.seen[len(g.seen)-1], "/ ") != strings.TrimSuffix(c.want, "/ ") {
				t.Errorf("%s: got through: %q (%v)", c.want, g.seen, err)
			}
		}
	}
}

// covers: H4
func TestRefusedSignatures(t *testing.T) {
	ctx := context.Background()
	describe := func(c *dynamodb.Client, opts ...func(*dynamodb.Options)) error {
		_, err := c.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: aws.String("T")}, opts...)
		return err
	}
	wrong := func(f func(*Credential)) Credential { c := function; f(&c); return c }
	for _, c := range []struct {
		name, code string
		call       func(*rig) error
	}{
		{"unsigned", "MissingAuthenticationTokenException", func(g *rig) error {
			return describe(dynamodb.New(dynamodb.Options{Region: region, BaseEndpoint: &g.url, Credentials: aws.AnonymousCredentials{}, RetryMaxAttempts: 1}))
		}},
		{"an unknown access key", "UnrecognizedClientException", func(g *rig) error {
			return describe(g.tables(wrong(func(c *Credential) { c.AccessKeyID = "NONE" }), region))
		}},
		{"the wrong secret", "InvalidSignatureException", func(g *rig) error {
			return describe(g.tables(wrong(func(c *Credential) { c.Secret = "x" }), region))
		}},
		{"the session token left out", "UnrecognizedClientException", func(g *rig) error {
			return describe(g.tables(wrong(func(c *Credential) { c.Token = "" }), region))
		}},
		{"another session token", "UnrecognizedClientException", func(g *rig) error {
			return describe(g.tables(wrong(func(c *Credential) { c.Token = "session2" }), region))
		}},
		{"another region", "InvalidSignatureException", func(g *rig) error { return describe(g.tables(function, "eu-west-1")) }},
		{"signed more than five minutes ago", "InvalidSignatureException", func(g *rig) error {
			g.now = g.now.Add(MaxSkew + 2*time.Second)
			return describe(g.tables(function, region))
		}},
		{"signed more than five minutes ahead", "InvalidSignatureException", func(g *rig) error {
			g.now = g.now.Add(-MaxSkew - 2*time.Second)
			return describe(g.tables(function, region))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := start(t, nil)
			if err := c.call(g); code(err) != c.code {
				t.Errorf("%v, want %s", err, c.code)
			}
			if len(g.seen) != 0 {
				t.Errorf("the service got %q", g.seen)
			}
		})
	}
}

// Requests that the SDK would not send: each changes one signed thing.
func TestAlteredRequests(t *testing.T) {
	g := start(t, nil)
	sign := func(body string, signedBody string) *http.Request {
		r, _ := http.NewRequest("POST", g.url+"/?b=2&a=1", strings.NewReader(body))
		r.Header.Set("X-Amz-Target", "DynamoDB_20120810.GetItem")
		r.Header.Set("Content-Type", "application/x-amz-json-1.0")
		if err := v4.NewSigner().SignHTTP(context.Background(), aws.Credentials{AccessKeyID: operator.AccessKeyID, SecretAccessKey: operator.Secret}, r, hash(signedBody), "dynamodb", region, g.now); err != nil {
			t.Fatal(err)
		}
		return r
	}
	for _, c := range []struct {
		name   string
		change func(*http.Request) *http.Request
		code   string // "" passes
	}{
		{"unchanged", func(r *http.Request) *http.Request { return r }, ""},
		{"query in another order is the same request", func(r *http.Request) *http.Request { r.URL.RawQuery = "a=1&b=2"; return r }, ""},
		{"an unsigned header of no meaning to AWS", func(r *http.Request) *http.Request { r.Header.Set("X-Other", "1"); return r }, ""},
		{"an altered body", func(*http.Request) *http.Request { return sign(`{"TableName":"U"}`, `{"TableName":"T"}`) }, "InvalidSignatureException"},
		{"another operation", func(r *http.Request) *http.Request {
			r.Header.Set("X-Amz-Target", "DynamoDB_20120810.PutItem")
			return r
		}, "InvalidSignatureException"},
		{"an added x-amz header", func(r *http.Request) *http.Request { r.Header.Set("X-Amz-Extra", "1"); return r }, "InvalidSignatureException"},
		{"another path", func(r *http.Request) *http.Request { r.URL.Path = "/x"; return r }, "InvalidSignatureException"},
		{"another query", func(r *http.Request) *http.Request { r.URL.RawQuery = "a=1&b=3"; return r }, "InvalidSignatureException"},
		{"another method", func(r *http.Request) *http.Request { r.Method = "PUT"; return r }, "InvalidSignatureException"},
		{"another host", func(r *http.Request) *http.Request { r.Host = "example.com"; return r }, "InvalidSignatureException"},
		{"the host not signed", func(r *http.Request) *http.Request {
			r.Header.Set("Authorization", strings.Replace(r.Header.Get("Authorization"), "host;", "", 1))
			return r
		}, "InvalidSignatureException"},
		{"another date of the same signature", func(r *http.Request) *http.Request {
			r.Header.Set("X-Amz-Date", g.now.Add(time.Second).UTC().Format(timeFormat))
			return r
		}, "InvalidSignatureException"},
		{"no date", func(r *http.Request) *http.Request { r.Header.Del("X-Amz-Date"); return r }, "IncompleteSignatureException"},
		{"half an Authorization header", func(r *http.Request) *http.Request {
			h, _, _ := strings.Cut(r.Header.Get("Authorization"), ", Signature")
			r.Header.Set("Authorization", h)
			return r
		}, "IncompleteSignatureException"},
		{"a bearer token", func(r *http.Request) *http.Request { r.Header.Set("Authorization", "Bearer x"); return r }, "IncompleteSignatureException"},
		{"a service that is not here", func(r *http.Request) *http.Request {
			r.Header.Set("Authorization", strings.Replace(r.Header.Get("Authorization"), "/dynamodb/", "/sqs/", 1))
			return r
		}, "InvalidSignatureException"},
		{"the signature of another service", func(r *http.Request) *http.Request {
			r.Header.Set("Authorization", strings.Replace(r.Header.Get("Authorization"), "/dynamodb/", "/states/", 1))
			return r
		}, "InvalidSignatureException"},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := len(g.seen)
			resp, err := http.DefaultClient.Do(c.change(sign(`{"TableName":"T"}`, `{"TableName":"T"}`)))
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			body, _ := io.ReadAll(resp.Body)
			passed := len(g.seen) > before
			if passed != (c.code == "") || !passed && (!bytes.Contains(body, []byte(`"__type":"com.amazon.coral.service#`+c.code+`"`)) || resp.StatusCode != 400) {
				t.Errorf("passed %v, answer %d %s, want %q", passed, resp.StatusCode, body, c.code)
			}
		})
	}
}

func TestPresignedURLs(t *testing.T) {
	g := start(t, nil)
	ctx := context.Background()
	link := func(expires time.Duration) string {
		req, err := s3.NewPresignClient(g.objects(function)).PresignGetObject(ctx, &s3.GetObjectInput{Bucket: aws.String("b"), Key: aws.String("k/ü"), ResponseContentDisposition: aws.String(`attachment; filename="a b.csv"`)}, s3.WithPresignExpires(expires))
		if err != nil {
			t.Fatal(err)
		}
		return req.URL
	}
	get := func(url string) (int, string) {
		resp, err := http.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(b)
	}
	good := link(5 * time.Minute)
	if st, body := get(good); st != 200 || len(g.seen) != 1 {
		t.Fatalf("good link: %d %s", st, body)
	}
	for _, c := range []struct {
		name, url string
		later     time.Duration
		code      string
	}{
		{"just before its end", good, 5*time.Minute - 2*time.Second, ""},
		{"after its end", good, 5*time.Minute + 2*time.Second, "AccessDenied"},
		{"another key", strings.Replace(good, "/k/", "/l/", 1), 0, "SignatureDoesNotMatch"},
		{"a longer life written into it", strings.Replace(good, "X-Amz-Expires=300", "X-Amz-Expires=3000", 1), 0, "SignatureDoesNotMatch"},
		{"a life of more than seven days", strings.Replace(good, "X-Amz-Expires=300", "X-Amz-Expires=604801", 1), 0, "AuthorizationHeaderMalformed"},
		{"another file name", strings.Replace(good, "a%20b.csv", "c.exe", 1), 0, "SignatureDoesNotMatch"},
		{"for another service", strings.Replace(good, "%2Fs3%2F", "%2Fdynamodb%2F", 1), 0, "IncompleteSignatureException"},
	} {
		before := len(g.seen)
		real := g.now
		g.now = g.now.Add(c.later)
		st, body := get(c.url)
		g.now = real
		passed := len(g.seen) > before
		if passed != (c.code == "") || !passed && !strings.Contains(body, c.code) {
			t.Errorf("%s: passed %v, %d %s, want %q", c.name, passed, st, body, c.code)
		}
	}
	resp, err := http.Post(good, "text/plain", strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 403 {
		t.Errorf("a GET link used for POST: %d", resp.StatusCode)
	}
}

func hash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

// The permission check sees every resource that a request touches.
func TestPermissionsAreAskedForEveryResource(t *testing.T) {
	ctx := context.Background()
	var asked []string
	g := startWith(t, func(p, a, r string, with Context) bool {
		name := a + " " + r[strings.LastIndexByte(r, ':')+1:]
		if keys := with[LeadingKeys]; keys != nil {
			name += " of " + strings.Join(keys, " ")
		}
		asked = append(asked, name)
		return true
	})
	db, key := g.tables(function, region), map[string]ddbtypes.AttributeValue{"pk": &ddbtypes.AttributeValueMemberS{Value: "x"}}
	T := aws.String
	for _, c := range []struct {
		name string
		want []string
		call func()
	}{
		{"GetItem", []string{"dynamodb:GetItem table/A of x"}, func() { db.GetItem(ctx, &dynamodb.GetItemInput{TableName: T("A"), Key: key}) }},
		{"a Query", []string{"dynamodb:Query table/A of x"}, func() {
			db.Query(ctx, &dynamodb.QueryInput{TableName: T("A"), KeyConditionExpression: T("sk BETWEEN :a AND :b AND #p = :p"), ExpressionAttributeNames: map[string]string{"#p": "pk"}, ExpressionAttributeValues: map[string]ddbtypes.AttributeValue{":p": key["pk"]}})
		}},
		{"a Query without a partition key", []string{"dynamodb:Query table/A of "}, func() {
			db.Query(ctx, &dynamodb.QueryInput{TableName: T("A"), KeyConditionExpression: T("sk = :p"), ExpressionAttributeValues: map[string]ddbtypes.AttributeValue{":p": key["pk"]}})
		}},
		{"Query of an index", []string{"dynamodb:Query table/A/index/due of x"}, func() {
			db.Query(ctx, &dynamodb.QueryInput{TableName: T("A"), IndexName: T("due"), KeyConditionExpression: T("dueShard = :s AND dueAt <= :t"), ExpressionAttributeValues: map[string]ddbtypes.AttributeValue{":s": key["pk"]}})
		}},
		{"a Scan", []string{"dynamodb:Scan table/A"}, func() { db.Scan(ctx, &dynamodb.ScanInput{TableName: T("A")}) }},
		{"a batch of writes", []string{"dynamodb:BatchWriteItem table/A of x x"}, func() {
			db.BatchWriteItem(ctx, &dynamodb.BatchWriteItemInput{RequestItems: map[string][]ddbtypes.WriteRequest{"A": {{PutRequest: &ddbtypes.PutRequest{Item: key}}, {DeleteRequest: &ddbtypes.DeleteRequest{Key: key}}}}})
		}},
		{"a transaction", []string{"dynamodb:ConditionCheckItem table/D of x", "dynamodb:DeleteItem table/C of x", "dynamodb:PutItem table/A of x", "dynamodb:UpdateItem table/B of x"}, func() {
			db.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: []ddbtypes.TransactWriteItem{
				{Put: &ddbtypes.Put{TableName: T("A"), Item: key}}, {Update: &ddbtypes.Update{TableName: T("B"), Key: key, UpdateExpression: T("x")}},
				{Delete: &ddbtypes.Delete{TableName: T("C"), Key: key}}, {ConditionCheck: &ddbtypes.ConditionCheck{TableName: T("D"), Key: key, ConditionExpression: T("x")}},
			}})
		}},
		{"a batch", []string{"dynamodb:BatchGetItem table/A of x", "dynamodb:BatchGetItem table/B of x"}, func() {
			db.BatchGetItem(ctx, &dynamodb.BatchGetItemInput{RequestItems: map[string]ddbtypes.KeysAndAttributes{"A": {Keys: []map[string]ddbtypes.AttributeValue{key}}, "B": {Keys: []map[string]ddbtypes.AttributeValue{key}}}})
		}},
		{"ListTables", []string{"dynamodb:ListTables *"}, func() { db.ListTables(ctx, &dynamodb.ListTablesInput{}) }},
		{"Invoke", []string{"lambda:InvokeFunction f"}, func() { g.functions(function).Invoke(ctx, &lambda.InvokeInput{FunctionName: T("f")}) }},
		{"StartExecution", []string{"states:StartExecution m"}, func() {
			g.machines(function).StartExecution(ctx, &sfn.StartExecutionInput{StateMachineArn: T("arn:aws:states:us-east-1:0:stateMachine:m")})
		}},
		{"SendTaskSuccess", []string{"states:SendTaskSuccess *"}, func() {
			g.machines(function).SendTaskSuccess(ctx, &sfn.SendTaskSuccessInput{TaskToken: T("t"), Output: T("{}")})
		}},
		{"RunTask", []string{"ecs:RunTask 1"}, func() { // of a definition's ARN, the revision comes last
			g.containers(function).RunTask(ctx, &ecs.RunTaskInput{Cluster: T("c"), TaskDefinition: T("arn:aws:ecs:us-east-1:0:task-definition/f:1")})
		}},
		{"RunTask by family", []string{"ecs:RunTask *"}, func() {
			g.containers(function).RunTask(ctx, &ecs.RunTaskInput{Cluster: T("c"), TaskDefinition: T("f")})
		}},
		{"DescribeTasks", []string{"ecs:DescribeTasks task/c/a", "ecs:DescribeTasks task/c/b"}, func() {
			g.containers(function).DescribeTasks(ctx, &ecs.DescribeTasksInput{Cluster: T("c"), Tasks: []string{"arn:aws:ecs:us-east-1:0:task/c/a", "arn:aws:ecs:us-east-1:0:task/c/b"}})
		}},
		{"PutObject", []string{"s3:PutObject b/k/l"}, func() {
			g.objects(function).PutObject(ctx, &s3.PutObjectInput{Bucket: T("b"), Key: T("k/l"), Body: strings.NewReader("")})
		}},
		{"HeadObject", []string{"s3:GetObject b/k"}, func() { g.objects(function).HeadObject(ctx, &s3.HeadObjectInput{Bucket: T("b"), Key: T("k")}) }},
		{"ListObjectsV2", []string{"s3:ListBucket b"}, func() { g.objects(function).ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: T("b")}) }},
	} {
		asked = nil
		c.call()
		slices.Sort(asked)
		if !slices.Equal(asked, c.want) {
			t.Errorf("%s asks for %q, want %q", c.name, asked, c.want)
		}
	}
}

func TestDeniedRequests(t *testing.T) {
	ctx := context.Background()
	// Everything but one resource of a transaction is allowed.
	g := start(t, func(p, a, r string) bool {
		return !strings.HasSuffix(r, "/Secret") && p == function.Principal && a != "lambda:InvokeFunction"
	})
	put := func(table string) ddbtypes.TransactWriteItem {
		return ddbtypes.TransactWriteItem{Put: &ddbtypes.Put{TableName: &table, Item: map[string]ddbtypes.AttributeValue{"pk": &ddbtypes.AttributeValueMemberS{Value: "x"}}}}
	}
	_, err := g.tables(function, region).TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: []ddbtypes.TransactWriteItem{put("Open"), put("Secret")}})
	if code(err) != "AccessDeniedException" || !strings.Contains(err.Error(), "pxhost-tool-x is not authorized to perform: dynamodb:PutItem on resource: arn:aws:dynamodb:us-east-1:000000000000:table/Secret") {
		t.Errorf("transaction: %v", err)
	}
	if _, err = g.functions(function).Invoke(ctx, &lambda.InvokeInput{FunctionName: aws.String("f")}); code(err) != "AccessDeniedException" {
		t.Errorf("Invoke: %v", err)
	}
	if len(g.seen) != 0 {
		t.Errorf("got through: %q", g.seen)
	}
}

func TestPermits(t *testing.T) {
	statements := []Statement{
		{Actions: []string{"dynamodb:Get*", "dynamodb:query"}, Resources: []string{"arn:table/A", "arn:table/A/index/*"}},
		{Actions: []string{"s3:*"}, Resources: []string{"arn:bucket/?/x"}},
		{Deny: true, Actions: []string{"*"}, Resources: []string{"arn:bucket/z/x"}},
	}
	for _, c := range []struct {
		action, resource string
		want             bool
	}{
		{"dynamodb:GetItem", "arn:table/A", true},
		{"dynamodb:Query", "arn:table/A/index/due", true},
		{"dynamodb:GetItem", "arn:table/AB", false},
		{"dynamodb:PutItem", "arn:table/A", false},
		{"dynamodb:GetItem", "arn:table/a", false},
		{"s3:GetObject", "arn:bucket/y/x", true},
		{"s3:GetObject", "arn:bucket/z/x", false},
		{"s3:GetObject", "arn:bucket/yy/x", false},
	} {
		if got := Permits(statements, c.action, c.resource, nil); got != c.want {
			t.Errorf("%s on %s: %v", c.action, c.resource, got)
		}
	}
	if Permits(nil, "a", "b", nil) {
		t.Error("nothing allows something")
	}
	bound := []Statement{{Actions: []string{"kms:Decrypt"}, Resources: []string{"arn:key"}, Present: []string{"kms:EncryptionContext:a", "kms:EncryptionContext:b"}}}
	for _, c := range []struct {
		with Context
		want bool
	}{
		{nil, false},
		{Context{"kms:encryptioncontext:a": {"1"}}, false},
		{Context{"kms:encryptioncontext:b": {"1"}, "kms:encryptioncontext:a": {"2"}, "kms:encryptioncontext:c": {"3"}}, true},
	} {
		if got := Permits(bound, "kms:Decrypt", "arn:key", c.with); got != c.want {
			t.Errorf("with %q: %v", c.with, got)
		}
	}
	every := []Statement{{Actions: []string{"*"}, Resources: []string{"*"}, Every: map[string][]string{"dynamodb:LeadingKeys": {"cursor", "told#*"}}}}
	for _, c := range []struct {
		keys []string
		want bool
	}{
		{nil, true}, // as IAM does
		{[]string{"cursor"}, true},
		{[]string{"cursor", "told#a", "told#"}, true},
		{[]string{"cursor", "session#a"}, false},
		{[]string{"cursors"}, false},
		{[]string{""}, false},
	} {
		if got := Permits(every, "dynamodb:GetItem", "arn", Context{LeadingKeys: c.keys}); got != c.want {
			t.Errorf("with %q: %v", c.keys, got)
		}
	}
	denied := append([]Statement{{Deny: true, Actions: []string{"*"}, Resources: []string{"*"}, Present: []string{"x"}}}, bound...)
	denied[1].Present = nil
	if !Permits(denied, "kms:Decrypt", "arn:key", nil) || Permits(denied, "kms:Decrypt", "arn:key", Context{"x": {"y"}}) {
		t.Error("what is denied with a condition is denied where it holds")
	}
}

// A key is permitted by its ARN, whatever a request calls it.
//
// covers: H4
func TestAKeyIsPermittedByItsARNAndWhatTheContextHas(t *testing.T) {
	var asked []string
	g := startWith(t, func(p, a, r string, with Context) bool {
		asked = append(asked, a+" "+r+" "+strings.Join(slices.Sorted(maps.Keys(with)), ","))
		return r != "*"
	})
	c := kms.New(kms.Options{Region: region, BaseEndpoint: &g.url, RetryMaxAttempts: 1, Credentials: credentials.NewStaticCredentialsProvider(function.AccessKeyID, function.Secret, function.Token)})
	both := map[string]string{"workspace": "w", "connection": "c"}
	for name, call := range map[string]struct {
		want string
		do   func() error
	}{
		"by its alias": {"kms:GenerateDataKey arn:key kms:encryptioncontext:connection,kms:encryptioncontext:workspace", func() error {
			_, err := c.GenerateDataKey(t.Context(), &kms.GenerateDataKeyInput{KeyId: aws.String("alias/a"), EncryptionContext: both})
			return err
		}},
		"by the ciphertext": {"kms:Decrypt arn:key ", func() error {
			_, err := c.Decrypt(t.Context(), &kms.DecryptInput{CiphertextBlob: []byte("blob")})
			return err
		}},
		"by a name that is none": {"kms:Decrypt * ", func() error {
			_, err := c.Decrypt(t.Context(), &kms.DecryptInput{CiphertextBlob: []byte("blob"), KeyId: aws.String("other")})
			if code(err) != "AccessDeniedException" {
				return errors.New("it is permitted")
			}
			return nil
		}},
		"another operation": {"kms:Encrypt arn:key ", func() error {
			_, err := c.Encrypt(t.Context(), &kms.EncryptInput{KeyId: aws.String("arn:key"), Plaintext: []byte("x")})
			return err
		}},
	} {
		asked = nil
		if err := call.do(); err != nil && strings.Contains(err.Error(), "permitted") || !slices.Equal(asked, []string{call.want}) {
			t.Errorf("%s: %q, %v", name, asked, err)
		}
	}
}

func FuzzReadSignature(f *testing.F) {
	f.Add("AWS4-HMAC-SHA256 Credential=a/20260101/us-east-1/s3/aws4_request, SignedHeaders=host;x-amz-date, Signature=00", "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=a%2F1%2Fr%2Fs3%2Faws4_request&X-Amz-Expires=1", "20260101T000000Z")
	f.Add("AWS4-HMAC-SHA256 ,,,===", "&&=%zz", "")
	f.Fuzz(func(t *testing.T, header, query, date string) {
		r := httptest.NewRequest("GET", "/", nil)
		r.URL.RawQuery = query
		r.RequestURI = "/?" + query
		if header != "" {
			r.Header["Authorization"] = []string{header}
		}
		r.Header["X-Amz-Date"] = []string{date}
		s, bad := readSignature(r)
		if (s == nil) == (bad == nil) {
			t.Fatal("a signature or a fault, one of them")
		}
		if s == nil {
			return
		}
		if s.verify(r, nil, Credential{AccessKeyID: s.accessKey, Secret: "unknown to the fuzzer", Token: s.token}, s.region, s.at) == nil {
			t.Fatal("a made-up signature was accepted")
		}
	})
}
