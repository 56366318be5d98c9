package dynamo

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	emulator "github.com/pxhost/pxhost/infra/local/dynamodb"
	"github.com/pxhost/pxhost/shared/capability/host"
	"github.com/pxhost/pxhost/shared/run"
	"github.com/pxhost/pxhost/shared/store/storetest"
	"github.com/pxhost/pxhost/shared/target"
)

var names = Tables{Heads: "heads", Objects: "objects", Changes: "changes", Runs: "runs", Host: "host"}

func clock() time.Time { return storetest.Now }

func over(c Client) *Store {
	return New(Config{Client: c, Tables: names, Blobs: &heap{blobs: map[string][]byte{}}, Now: clock})
}

// emulated returns a client of an empty DynamoDB with the tables of template.yaml.
func emulated(t testing.TB) *dynamodb.Client {
	t.Helper()
	return emulatedBehind(t, func(h http.Handler) http.Handler { return h })
}

// emulatedBehind puts something between client and service.
func emulatedBehind(t testing.TB, between func(http.Handler) http.Handler) *dynamodb.Client {
	t.Helper()
	service, err := emulator.Open(emulator.Options{Path: filepath.Join(t.TempDir(), "dynamodb")})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(between(service))
	t.Cleanup(func() {
		server.Close()
		if err := service.Close(); err != nil {
			t.Error(err)
		}
	})
	client := dynamodb.New(dynamodb.Options{
		BaseEndpoint: &server.URL, Region: "us-east-1", HTTPClient: server.Client(),
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "test", SecretAccessKey: "test"}, nil
		}),
	})
	for _, table := range []string{names.Heads, names.Objects, names.Changes, names.Runs, names.Host} {
		in := &dynamodb.CreateTableInput{
			TableName: &table, BillingMode: types.BillingModePayPerRequest,
			AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("pk"), AttributeType: types.ScalarAttributeTypeS}},
			KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("pk"), KeyType: types.KeyTypeHash}},
		}
		if table != names.Objects {
			in.AttributeDefinitions = append(in.AttributeDefinitions, types.AttributeDefinition{AttributeName: aws.String("sk"), AttributeType: types.ScalarAttributeTypeS})
			in.KeySchema = append(in.KeySchema, types.KeySchemaElement{AttributeName: aws.String("sk"), KeyType: types.KeyTypeRange})
		}
		if table == names.Runs || table == names.Host || table == names.Changes { // as template.yaml has it
			in.AttributeDefinitions = append(in.AttributeDefinitions,
				types.AttributeDefinition{AttributeName: aws.String("dueShard"), AttributeType: types.ScalarAttributeTypeS},
				types.AttributeDefinition{AttributeName: aws.String("dueAt"), AttributeType: types.ScalarAttributeTypeN})
			in.GlobalSecondaryIndexes = []types.GlobalSecondaryIndex{{
				IndexName: aws.String("due"), Projection: &types.Projection{ProjectionType: types.ProjectionTypeKeysOnly},
				KeySchema: []types.KeySchemaElement{{AttributeName: aws.String("dueShard"), KeyType: types.KeyTypeHash}, {AttributeName: aws.String("dueAt"), KeyType: types.KeyTypeRange}},
			}}
		}
		if table == names.Runs {
			in.AttributeDefinitions = append(in.AttributeDefinitions,
				types.AttributeDefinition{AttributeName: aws.String("listed"), AttributeType: types.ScalarAttributeTypeS},
				types.AttributeDefinition{AttributeName: aws.String("listedAt"), AttributeType: types.ScalarAttributeTypeS})
			in.GlobalSecondaryIndexes = append(in.GlobalSecondaryIndexes, types.GlobalSecondaryIndex{
				IndexName: aws.String("listed"), Projection: &types.Projection{ProjectionType: types.ProjectionTypeKeysOnly},
				KeySchema: []types.KeySchemaElement{{AttributeName: aws.String("listed"), KeyType: types.KeyTypeHash}, {AttributeName: aws.String("listedAt"), KeyType: types.KeyTypeRange}},
			})
		}
		if _, err := client.CreateTable(t.Context(), in); err != nil {
			t.Fatal(err)
		}
	}
	return client
}

// The fake behind the fault tests has to be as good as the emulator, so it
// passes the same suite.
func TestStoreOverTheFake(t *testing.T) {
	storetest.Run(t, func(*testing.T) storetest.Store { return over(newFake()) })
}

// covers: P4, P5, P9
func TestStoreOverTheEmulator(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Store { return over(emulated(t)) })
}

// covers: U1, U5, H1
func TestRunsOverTheEmulator(t *testing.T) {
	storetest.Runs(t, func(t *testing.T) storetest.RunStore { return over(emulated(t)) })
}

// covers: A8, U5
func TestJobsOverTheEmulator(t *testing.T) {
	storetest.Jobs(t, func(t *testing.T) storetest.JobStore { return over(emulated(t)) })
}

// covers: C3, X3, X4
func TestHostOverTheEmulator(t *testing.T) {
	storetest.Host(t, func(t *testing.T) host.Store { return over(emulated(t)) })
}

// A rotation is a row; warm processes see it within a minute, and old cursors
// stay good.
func TestCursorKeysRotateByARow(t *testing.T) {
	f := newFake()
	now := storetest.Now
	s := New(Config{Client: f, Tables: names, Now: func() time.Time { return now }})
	old, err := s.Current(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	item := ringKey("00000002")
	item["key"] = bin([]byte("0123456789abcdef0123456789abcdef"))
	f.tables[names.Host][place(names.Host, item)] = item
	if key, err := s.Current(t.Context()); err != nil || key != old || f.counts["Query"] != 2 {
		t.Fatalf("within the minute: %v after %v", err, f.counts)
	}
	now = now.Add(currentFor)
	key, err := s.Current(t.Context())
	if err != nil || string(key.ID[:]) != "00000002" {
		t.Fatalf("after it: %s, %v", key.ID, err)
	}
	if again, err := over(f).Key(t.Context(), old.ID); err != nil || again != old {
		t.Fatalf("the old key: %v", err)
	}
	item["key"] = bin([]byte("short"))
	if _, err := over(f).Current(t.Context()); err == nil {
		t.Fatal("a key of another length is accepted")
	}
}

// What is stored may be anything; reading it never panics and never gives more
// than its size says, and what was compressed comes back.
func FuzzDecompress(f *testing.F) {
	enc, stored := compress(bytes.Repeat([]byte("girder "), 100))
	f.Add(enc, stored, int64(700))
	f.Add(encPlain, []byte("short"), int64(5))
	f.Add(encDeflate, stored, int64(-1))
	f.Add("9", []byte{}, int64(1<<62))
	f.Fuzz(func(t *testing.T, enc string, stored []byte, size int64) {
		if body, err := decompress(enc, stored, size); err == nil && enc == encDeflate && int64(len(body)) > size {
			t.Fatalf("%d bytes where %d were said", len(body), size)
		}
		e, s := compress(stored)
		if body, err := decompress(e, s, int64(len(stored))); err != nil || !bytes.Equal(body, stored) {
			t.Fatalf("%d bytes come back as %d: %v", len(stored), len(body), err)
		}
	})
}

// reading counts what is asked of the service for a list.
type reading struct {
	Client
	queries, batches, rows int
}

func (r *reading) Query(ctx context.Context, in *dynamodb.QueryInput, options ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	r.queries++
	return r.Client.Query(ctx, in, options...)
}

func (r *reading) BatchGetItem(ctx context.Context, in *dynamodb.BatchGetItemInput, options ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error) {
	r.batches++
	for _, keys := range in.RequestItems {
		r.rows += len(keys.Keys)
	}
	return r.Client.BatchGetItem(ctx, in, options...)
}

// A page of a Project's Runs costs the same, however many the Project has.
func TestAPageOfRunsIsOneQueryAndItsRows(t *testing.T) {
	client := &reading{Client: emulated(t)}
	s := over(client)
	place := target.Project{WorkspaceKey: "team", ProjectKey: "bridge"}
	for i := range 60 {
		row := run.Row{RunRef: fmt.Sprintf("run_%026d", i), Project: place, State: run.Queued, CreatedAt: clock().Add(time.Duration(i) * time.Second), DueAt: clock()}
		if err := s.CreateChild(t.Context(), row, nil); err != nil {
			t.Fatal(err)
		}
		if i != 25 && i != 59 {
			continue
		}
		for _, before := range []string{"", run.ListPlace(clock().Add(time.Duration(i)*time.Second), "run_")} {
			client.queries, client.batches, client.rows = 0, 0, 0
			page, err := s.Recent(t.Context(), place, before, 20)
			if err != nil || len(page) != 20 || client.queries != 1 || client.batches != 1 || client.rows != 20 {
				t.Errorf("of %d Runs: %d with %d queries and %d reads of %d rows, %v", i+1, len(page), client.queries, client.batches, client.rows, err)
			}
		}
	}
}
