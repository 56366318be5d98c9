package template

import (
	"path/filepath"
	"testing"
)

func TestProjectTemplate(t *testing.T) {
	tmpl, err := Load(filepath.Join("..", "..", "..", "template.yaml"), Options{
		Region: "us-east-1", AccountID: "000000000000", StackName: "pxhost", APIEndpoint: "http://127.0.0.1:1",
		Parameters: map[string]string{"IssuerUrl": "http://127.0.0.1:1"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", tmpl)
}
