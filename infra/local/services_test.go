package local

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pxhost/pxhost/infra/local/dynamodb"
	"github.com/pxhost/pxhost/infra/local/template"
)

// covers: H4
func TestTablesOfAnEarlierStart(t *testing.T) {
	opt := template.Options{Region: Region, AccountID: AccountID, StackName: StackName, APIEndpoint: "http://127.0.0.1:1", Parameters: map[string]string{IssuerParameter: "http://127.0.0.1:1"}}
	tmpl, err := template.Load(filepath.Join("..", "..", "template.yaml"), opt)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "dynamodb.db")
	ctx := context.Background()
	for range 3 {
		s, err := dynamodb.Open(dynamodb.Options{Path: file})
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range tmpl.Tables {
			if err := makeTable(ctx, s, x); err != nil {
				t.Errorf("%s: %v", x.Name, err)
			}
		}
		if out, _, err := ask(ctx, s, "DescribeTimeToLive", mustJSON(map[string]string{"TableName": "pxhost-Changes"})); err != nil || !strings.Contains(string(out), `"AttributeName":"ttl"`) {
			t.Errorf("time to live: %s, %v", out, err)
		}
		s.Close()
	}
	s, err := dynamodb.Open(dynamodb.Options{Path: file})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, x := range tmpl.Tables {
		if x.LogicalID == "Runs" {
			changed := x
			changed.CreateTable = []byte(strings.Replace(string(x.CreateTable), "KEYS_ONLY", "ALL", 1))
			if err := makeTable(ctx, s, changed); err == nil || !strings.Contains(err.Error(), "make clean") {
				t.Errorf("another projection: %v", err)
			}
			changed.CreateTable = []byte(strings.Replace(string(x.CreateTable), `"AttributeName":"sk","AttributeType":"S"`, `"AttributeName":"sk","AttributeType":"N"`, 1))
			if err := makeTable(ctx, s, changed); err == nil || !strings.Contains(err.Error(), "make clean") {
				t.Errorf("another key type: %v", err)
			}
		}
	}
}
