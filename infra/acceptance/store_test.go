package acceptance

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/pxhost/pxhost/infra/local"
)

// A dump is everything that is stored: a row or object by its table and key.
type dump map[string]string

// aws is a configuration with the operator's key of the state folder.
func (h *host) aws(t *testing.T) (aws.Config, map[string]string) {
	t.Helper()
	where, key := h.operator(t)
	return aws.Config{Region: local.Region, BaseEndpoint: &where.AWSEndpoint,
		Credentials: credentials.NewStaticCredentialsProvider(key.AccessKeyID, key.SecretAccessKey, "")}, where.Environment
}

// dump reads all tables and the bucket.
func (h *host) dump(t *testing.T) dump {
	t.Helper()
	config, names := h.aws(t)
	out := dump{}
	tables := dynamodb.NewFromConfig(config)
	for _, name := range []string{"HEADS", "OBJECTS", "CHANGES", "RUNS", "HOST"} {
		table := names["PX_TABLE_"+name]
		pages := dynamodb.NewScanPaginator(tables, &dynamodb.ScanInput{TableName: &table, ConsistentRead: aws.Bool(true)})
		for pages.HasMorePages() {
			page, err := pages.NextPage(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, item := range page.Items {
				out[fmt.Sprint(name, " ", plainValue(t, item["pk"]), " ", plainValue(t, item["sk"]))] = plainItem(t, item)
			}
		}
	}
	bucket := names["PX_BUCKET"]
	objects := s3.NewFromConfig(config, func(o *s3.Options) { o.UsePathStyle = true })
	pages := s3.NewListObjectsV2Paginator(objects, &s3.ListObjectsV2Input{Bucket: &bucket})
	for pages.HasMorePages() {
		page, err := pages.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range page.Contents {
			body, err := objects.GetObject(t.Context(), &s3.GetObjectInput{Bucket: &bucket, Key: o.Key})
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(body.Body)
			body.Body.Close()
			if err != nil {
				t.Fatal(err)
			}
			out["BUCKET "+*o.Key] = string(text)
		}
	}
	return out
}

// unchanged remembers what is stored; what it returns fails the test if that has
// changed since.
func (h *host) unchanged(t *testing.T) func(*testing.T) {
	t.Helper()
	before := h.dump(t)
	return func(t *testing.T) {
		t.Helper()
		after := h.dump(t)
		if changed := before.changes(after); len(changed) > 0 {
			t.Errorf("the store changed: %q", changed)
			before = after // what changed is told once
		}
	}
}

// plainItem is an item with its names in order.
func plainItem(t *testing.T, item map[string]types.AttributeValue) string {
	text := ""
	for _, name := range slices.Sorted(maps.Keys(item)) {
		text += fmt.Sprintf("%q=%s;", name, plainValue(t, item[name]))
	}
	return "{" + text + "}"
}

func plainValue(t *testing.T, v types.AttributeValue) string {
	switch v := v.(type) {
	case nil:
		return ""
	case *types.AttributeValueMemberS:
		return v.Value
	case *types.AttributeValueMemberN:
		return "N" + v.Value
	case *types.AttributeValueMemberB:
		return fmt.Sprintf("B%x", v.Value)
	case *types.AttributeValueMemberBOOL:
		return fmt.Sprint(v.Value)
	case *types.AttributeValueMemberNULL:
		return "NULL"
	case *types.AttributeValueMemberM:
		return plainItem(t, v.Value)
	case *types.AttributeValueMemberL:
		text := ""
		for _, e := range v.Value {
			text += plainValue(t, e) + ","
		}
		return "[" + text + "]"
	case *types.AttributeValueMemberSS:
		return fmt.Sprintf("%q", slices.Sorted(slices.Values(v.Value)))
	}
	t.Fatalf("an attribute of type %T", v)
	return ""
}

// changes are the keys whose rows differ.
func (d dump) changes(after dump) []string {
	changed := map[string]bool{}
	for key, row := range d {
		if now, ok := after[key]; !ok || now != row {
			changed[key] = true
		}
	}
	for key := range after {
		if _, ok := d[key]; !ok {
			changed[key] = true
		}
	}
	return slices.Sorted(maps.Keys(changed))
}
