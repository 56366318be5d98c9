package datakey_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pxhost/pxhost/infra/local/kms"
	"github.com/pxhost/pxhost/shared/boot"
	"github.com/pxhost/pxhost/shared/boot/awsjson"
	"github.com/pxhost/pxhost/shared/connection"
	"github.com/pxhost/pxhost/shared/store/datakey"
)

const (
	id  = "00000000-0000-8000-8000-000000000001"
	arn = "arn:aws:kms:us-east-1:000000000000:key/" + id
)

// client calls a handler as a function calls KMS.
func client(t *testing.T, h http.Handler) *awsjson.Client {
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	values := map[string]string{"AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_ENDPOINT_URL": server.URL}
	return awsjson.KMS(boot.NewEnv(func(name string) (string, bool) { v, ok := values[name]; return v, ok }))
}

func service(t *testing.T) *kms.Service {
	s, err := kms.Open(kms.Options{File: filepath.Join(t.TempDir(), "kms.json"), Region: "us-east-1", AccountID: "000000000000", Keys: []kms.Key{{ID: id, ARN: arn}}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestAKeyIsUnwrappedForWhatItWasMadeForAlone(t *testing.T) {
	k := datakey.Keys{Client: client(t, service(t)), Key: arn}
	bound := map[string]string{"workspace": "team", "connection": "conn_1"}
	plain, wrapped, err := k.Generate(t.Context(), bound)
	if err != nil || len(plain) != 32 || bytes.Contains(wrapped, plain) {
		t.Fatalf("%d bytes, wrapped %d: %v", len(plain), len(wrapped), err)
	}
	if again, err := k.Unwrap(t.Context(), wrapped, bound); err != nil || !bytes.Equal(again, plain) {
		t.Error(err)
	}
	for name, other := range map[string]map[string]string{"another connection": {"workspace": "team", "connection": "conn_2"}, "none": nil} {
		if got, err := k.Unwrap(t.Context(), wrapped, other); err == nil || got != nil || !errors.Is(err, connection.ErrUnreadable) || !strings.Contains(err.Error(), "InvalidCiphertextException") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What KMS says of a refusal may quote the request; its code does not.
func TestARefusalIsToldByItsCode(t *testing.T) {
	k := datakey.Keys{Key: arn, Client: client(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, `{"__type":"AccessDeniedException","message":"secret"}`)
	}))}
	_, _, err := k.Generate(t.Context(), nil)
	if err == nil || err.Error() != "datakey: generate: AccessDeniedException" || errors.Is(err, connection.ErrUnreadable) {
		t.Error(err)
	}
	k.Client = client(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, `secret`) }))
	if _, err := k.Unwrap(t.Context(), []byte("x"), nil); err == nil || err.Error() != "datakey: unwrap: no readable answer" {
		t.Error(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := k.Unwrap(ctx, []byte("x"), nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
