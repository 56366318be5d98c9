package dynamodb

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// covers: H1
func TestTheServiceSweepsByItself(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dynamodb.db")
	synctest.Test(t, func(t *testing.T) {
		s, err := Open(Options{Path: path})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		do := func(operation, body string) string {
			status, text := s.Do(t.Context(), operation, []byte(body))
			if status != http.StatusOK {
				t.Fatalf("%s: %s", operation, text)
			}
			return string(text)
		}
		do("CreateTable", `{"TableName":"items","BillingMode":"PAY_PER_REQUEST","AttributeDefinitions":[{"AttributeName":"pk","AttributeType":"S"}],"KeySchema":[{"AttributeName":"pk","KeyType":"HASH"}]}`)
		do("UpdateTimeToLive", `{"TableName":"items","TimeToLiveSpecification":{"AttributeName":"until","Enabled":true}}`)
		do("PutItem", fmt.Sprintf(`{"TableName":"items","Item":{"pk":{"S":"a"},"until":{"N":"%d"}}}`, time.Now().Add(time.Minute).Unix()))
		there := func() bool {
			return strings.Contains(do("GetItem", `{"TableName":"items","Key":{"pk":{"S":"a"}}}`), "Item")
		}
		time.Sleep(90 * time.Second)
		if synctest.Wait(); !there() {
			t.Error("the item went with its time")
		}
		time.Sleep(2 * time.Minute)
		if synctest.Wait(); there() {
			t.Error("the item is still there")
		}
	})
}
