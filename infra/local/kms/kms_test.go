package kms

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/kms/types"
	"github.com/aws/smithy-go"
	"pgregory.net/rapid"
)

const (
	first  = "00000000-0000-8000-8000-000000000001"
	second = "00000000-0000-8000-8000-000000000002"
	prefix = "arn:aws:kms:us-east-1:000000000000:"
)

var declared = []Key{{ID: first, ARN: prefix + "key/" + first, Aliases: []string{"alias/connections"}}, {ID: second, ARN: prefix + "key/" + second}}

func open(t *testing.T, file string, keys ...Key) *Service {
	t.Helper()
	s, err := Open(Options{File: file, Region: "us-east-1", AccountID: "000000000000", Keys: keys})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func client(t *testing.T, s *Service) *kms.Client {
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return kms.New(kms.Options{Region: "us-east-1", BaseEndpoint: &server.URL, Credentials: credentials.NewStaticCredentialsProvider("a", "b", ""), RetryMaxAttempts: 1})
}

func fresh(t *testing.T) *kms.Client {
	return client(t, open(t, filepath.Join(t.TempDir(), "kms.json"), declared...))
}

func code(err error) string {
	var api smithy.APIError
	if errors.As(err, &api) {
		return api.ErrorCode()
	}
	return fmt.Sprint(err)
}

var bound = map[string]string{"workspace": "team", "connection": "conn_1"}

func generate(t *testing.T, c *kms.Client, key string) *kms.GenerateDataKeyOutput {
	t.Helper()
	out, err := c.GenerateDataKey(t.Context(), &kms.GenerateDataKeyInput{KeyId: &key, KeySpec: types.DataKeySpecAes256, EncryptionContext: bound})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// covers: H4
func TestADataKeyIsUnwrappedWithItsKeyAndItsContextAlone(t *testing.T) {
	c := fresh(t)
	for _, name := range []string{first, prefix + "key/" + first, "alias/connections", prefix + "alias/connections"} {
		made := generate(t, c, name)
		if *made.KeyId != prefix+"key/"+first || len(made.Plaintext) != 32 || bytes.Contains(made.CiphertextBlob, made.Plaintext) || len(*made.KeyMaterialId) != 64 {
			t.Errorf("%s: %+v", name, made)
		}
		for _, by := range []*string{nil, &name} {
			got, err := c.Decrypt(t.Context(), &kms.DecryptInput{CiphertextBlob: made.CiphertextBlob, EncryptionContext: maps.Clone(bound), KeyId: by})
			if err != nil || !bytes.Equal(got.Plaintext, made.Plaintext) || *got.KeyId != *made.KeyId || got.EncryptionAlgorithm != types.EncryptionAlgorithmSpecSymmetricDefault || *got.KeyMaterialId != *made.KeyMaterialId {
				t.Errorf("%s: %+v %v", name, got, err)
			}
		}
	}
	made := generate(t, c, first)
	if again := generate(t, c, first); bytes.Equal(again.Plaintext, made.Plaintext) {
		t.Error("two data keys are one")
	}
	cut := func(n int) []byte { return made.CiphertextBlob[:n] }
	for name, q := range map[string]struct {
		in   kms.DecryptInput
		code string
	}{
		"no context":         {kms.DecryptInput{}, "InvalidCiphertextException"},
		"less of a context":  {kms.DecryptInput{EncryptionContext: map[string]string{"workspace": "team"}}, "InvalidCiphertextException"},
		"more of a context":  {kms.DecryptInput{EncryptionContext: map[string]string{"workspace": "team", "connection": "conn_1", "x": ""}}, "InvalidCiphertextException"},
		"another context":    {kms.DecryptInput{EncryptionContext: map[string]string{"workspace": "team", "connection": "conn_2"}}, "InvalidCiphertextException"},
		"moved in a context": {kms.DecryptInput{EncryptionContext: map[string]string{"workspace": "teamconnection", "connection": "conn_1"}}, "InvalidCiphertextException"},
		"another case":       {kms.DecryptInput{EncryptionContext: map[string]string{"Workspace": "team", "connection": "conn_1"}}, "InvalidCiphertextException"},
		"another key":        {kms.DecryptInput{EncryptionContext: bound, KeyId: aws.String(second)}, "IncorrectKeyException"},
		"no such key":        {kms.DecryptInput{EncryptionContext: bound, KeyId: aws.String("00000000-0000-8000-8000-000000000009")}, "NotFoundException"},
		"cut":                {kms.DecryptInput{EncryptionContext: bound, CiphertextBlob: cut(len(made.CiphertextBlob) - 1)}, "InvalidCiphertextException"},
		"a head alone":       {kms.DecryptInput{EncryptionContext: bound, CiphertextBlob: cut(headSize)}, "InvalidCiphertextException"},
		"no ciphertext":      {kms.DecryptInput{EncryptionContext: bound, CiphertextBlob: []byte("x")}, "InvalidCiphertextException"},
		"nothing":            {kms.DecryptInput{EncryptionContext: bound, CiphertextBlob: []byte{}}, "ValidationException"},
		"6144 bytes":         {kms.DecryptInput{EncryptionContext: bound, CiphertextBlob: make([]byte, 6144)}, "InvalidCiphertextException"},
		"6145 bytes":         {kms.DecryptInput{EncryptionContext: bound, CiphertextBlob: make([]byte, 6145)}, "ValidationException"},
		"another algorithm":  {kms.DecryptInput{EncryptionContext: bound, EncryptionAlgorithm: types.EncryptionAlgorithmSpecRsaesOaepSha256}, "UnsupportedOperationException"},
		"a key of elsewhere": {kms.DecryptInput{EncryptionContext: bound, CiphertextBlob: bytes.Replace(made.CiphertextBlob, []byte(first), []byte("00000000-0000-8000-8000-000000000009"), 1)}, "AccessDeniedException"},
		"of the other key":   {kms.DecryptInput{EncryptionContext: bound, CiphertextBlob: bytes.Replace(made.CiphertextBlob, []byte(first), []byte(second), 1)}, "InvalidCiphertextException"},
	} {
		if q.in.CiphertextBlob == nil {
			q.in.CiphertextBlob = made.CiphertextBlob
		}
		if _, err := c.Decrypt(t.Context(), &q.in); code(err) != q.code {
			t.Errorf("%s: %v, want %s", name, err, q.code)
		}
	}
}

// No byte of a ciphertext can be changed.
//
// covers: H4
func TestACiphertextIsAuthenticated(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "kms.json"), declared...)
	rapid.Check(t, func(t *rapid.T) {
		plain := rapid.SliceOfN(rapid.Byte(), 1, 64).Draw(t, "plain")
		of := rapid.MapOfN(rapid.String(), rapid.String(), 0, 3).Draw(t, "context")
		blob, err := s.wrap(first, plain, of)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := s.unwrap(first, blob, of); !ok || !bytes.Equal(got, plain) {
			t.Fatal("it cannot be read")
		}
		at, bit := rapid.IntRange(0, len(blob)-1).Draw(t, "at"), rapid.IntRange(0, 7).Draw(t, "bit")
		blob[at] ^= 1 << bit
		if out, err := s.decrypt(decryptInput{CiphertextBlob: blob, EncryptionContext: of}); err == nil {
			t.Fatalf("changed at %d it is read: %v", at, out)
		}
	})
}

// covers: H4
func TestDataKeysHaveTheSizeThatIsAskedFor(t *testing.T) {
	c := fresh(t)
	for name, q := range map[string]struct {
		in   kms.GenerateDataKeyInput
		size int
		code string
	}{
		"256 bits":     {kms.GenerateDataKeyInput{KeySpec: types.DataKeySpecAes256}, 32, ""},
		"128 bits":     {kms.GenerateDataKeyInput{KeySpec: types.DataKeySpecAes128}, 16, ""},
		"a byte":       {kms.GenerateDataKeyInput{NumberOfBytes: aws.Int32(1)}, 1, ""},
		"1024 bytes":   {kms.GenerateDataKeyInput{NumberOfBytes: aws.Int32(1024)}, 1024, ""},
		"no byte":      {kms.GenerateDataKeyInput{NumberOfBytes: aws.Int32(0)}, 0, "ValidationException"},
		"1025 bytes":   {kms.GenerateDataKeyInput{NumberOfBytes: aws.Int32(1025)}, 0, "ValidationException"},
		"neither":      {kms.GenerateDataKeyInput{}, 0, "ValidationException"},
		"both":         {kms.GenerateDataKeyInput{KeySpec: types.DataKeySpecAes256, NumberOfBytes: aws.Int32(32)}, 0, "ValidationException"},
		"another spec": {kms.GenerateDataKeyInput{KeySpec: "AES_512"}, 0, "ValidationException"},
		"a large context": {kms.GenerateDataKeyInput{KeySpec: types.DataKeySpecAes256, EncryptionContext: map[string]string{"x": strings.Repeat("x", maxContext)}}, 0,
			"ValidationException"},
	} {
		q.in.KeyId = aws.String(second)
		out, err := c.GenerateDataKey(t.Context(), &q.in)
		if q.code != "" && code(err) != q.code || q.code == "" && (err != nil || len(out.Plaintext) != q.size) {
			t.Errorf("%s: %+v %v", name, out, err)
		}
	}
}

// covers: H4
func TestAKeyThatIsNotThereIsNotFound(t *testing.T) {
	c := fresh(t)
	for name, want := range map[string]string{
		"":                                     "ValidationException",
		"secret":                               "NotFoundException",
		"alias/secret":                         "NotFoundException",
		"alias/":                               "NotFoundException",
		"00000000-0000-8000-8000-000000000009": "NotFoundException",
		prefix + "key/00000000-0000-8000-8000-000000000009": "NotFoundException",
		prefix + "alias/none":                               "NotFoundException",
		"arn:aws:kms:eu-west-1:000000000000:key/" + first:   "NotFoundException",
		"arn:aws:kms:us-east-1:111111111111:key/" + first:   "NotFoundException",
		"key/" + first: "NotFoundException",
		prefix + first: "NotFoundException",
		strings.ToUpper(first[:8]) + "-A" + first[10:]: "NotFoundException",
		"<script>":                       "NotFoundException",
		strings.Repeat("x", maxKeyID+1):  "ValidationException",
		"connections":                    "NotFoundException",
		prefix + "key/alias/connections": "NotFoundException",
		"arn:aws:kms:us-east-1:000000000000:alias/connections/" + first + "/x": "NotFoundException",
	} {
		_, err := c.GenerateDataKey(t.Context(), &kms.GenerateDataKeyInput{KeyId: &name, KeySpec: types.DataKeySpecAes256})
		if code(err) != want {
			t.Errorf("%.60q: %v, want %s", name, err, want)
		}
		if strings.Contains(fmt.Sprint(err), "<") {
			t.Error("a caller's text is quoted", err)
		}
	}
}

// covers: H4
func TestMembersAreSupportedOrRefusedByName(t *testing.T) {
	inputs := map[string]reflect.Type{"GenerateDataKey": reflect.TypeFor[kms.GenerateDataKeyInput](), "Decrypt": reflect.TypeFor[kms.DecryptInput]()}
	c := fresh(t)
	made := generate(t, c, first)
	for op, typ := range inputs {
		n := 0
		for i := range typ.NumField() {
			f := typ.Field(i)
			if !f.IsExported() {
				continue
			}
			n++
			supported, listed := Fields[op][f.Name]
			if !listed {
				t.Errorf("%s: the SDK has a member %s that is neither supported nor refused", op, f.Name)
			}
			if supported {
				continue
			}
			in := reflect.New(typ)
			for name, value := range map[string]any{"KeyId": aws.String(first), "CiphertextBlob": made.CiphertextBlob, "EncryptionContext": bound, "KeySpec": types.DataKeySpecAes256} {
				if v := in.Elem().FieldByName(name); v.IsValid() {
					v.Set(reflect.ValueOf(value))
				}
			}
			switch v := in.Elem().FieldByName(f.Name); v.Interface().(type) {
			case *bool:
				v.Set(reflect.ValueOf(aws.Bool(false)))
			case []string:
				v.Set(reflect.ValueOf([]string{}))
			case *types.RecipientInfo:
				v.Set(reflect.ValueOf(&types.RecipientInfo{}))
			default:
				v.Set(reflect.MakeSlice(v.Type(), 0, 0))
			}
			out := reflect.ValueOf(c).MethodByName(op).Call([]reflect.Value{reflect.ValueOf(t.Context()), in})
			err, _ := out[1].Interface().(error)
			if code(err) != "UnsupportedOperationException" || !strings.Contains(err.Error(), f.Name) {
				t.Errorf("%s with %s: %v", op, f.Name, err)
			}
		}
		if n != len(Fields[op]) {
			t.Errorf("%s: %d members listed, the SDK has %d", op, len(Fields[op]), n)
		}
	}
	if len(inputs) != len(Fields) {
		t.Error("operations differ")
	}
	for name, call := range map[string]func(context.Context) error{
		"Encrypt": func(ctx context.Context) error {
			_, err := c.Encrypt(ctx, &kms.EncryptInput{KeyId: aws.String(first), Plaintext: []byte("x")})
			return err
		},
		"GenerateDataKeyWithoutPlaintext": func(ctx context.Context) error {
			_, err := c.GenerateDataKeyWithoutPlaintext(ctx, &kms.GenerateDataKeyWithoutPlaintextInput{KeyId: aws.String(first)})
			return err
		},
		"ScheduleKeyDeletion": func(ctx context.Context) error {
			_, err := c.ScheduleKeyDeletion(ctx, &kms.ScheduleKeyDeletionInput{KeyId: aws.String(first)})
			return err
		},
	} {
		if err := call(t.Context()); code(err) != "UnsupportedOperationException" || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// covers: H4
func TestARequestThatIsNoneIsRefused(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "kms.json"), declared...)
	for name, c := range map[string]struct{ target, kind, body, code string }{
		"no JSON":              {"TrentService.Decrypt", "application/x-amz-json-1.1", `{`, "SerializationException"},
		"null":                 {"TrentService.Decrypt", "application/x-amz-json-1.1", `null`, "SerializationException"},
		"a list":               {"TrentService.Decrypt", "application/x-amz-json-1.1", `[]`, "SerializationException"},
		"a member twice":       {"TrentService.Decrypt", "application/x-amz-json-1.1", `{"KeyId":"a","KeyId":"b"}`, "SerializationException"},
		"a number for a text":  {"TrentService.Decrypt", "application/x-amz-json-1.1", `{"KeyId":1}`, "SerializationException"},
		"no base64":            {"TrentService.Decrypt", "application/x-amz-json-1.1", `{"CiphertextBlob":"?"}`, "SerializationException"},
		"another member":       {"TrentService.Decrypt", "application/x-amz-json-1.1", `{"keyId":"a"}`, "UnsupportedOperationException"},
		"null is nothing":      {"TrentService.Decrypt", "application/x-amz-json-1.1", `{"GrantTokens":null}`, "ValidationException"},
		"another protocol":     {"TrentService.Decrypt", "application/x-amz-json-1.0", `{}`, "UnsupportedOperationException"},
		"another service":      {"DynamoDB_20120810.GetItem", "application/x-amz-json-1.1", `{}`, "UnsupportedOperationException"},
		"no operation":         {"TrentService.", "application/x-amz-json-1.1", `{}`, "UnsupportedOperationException"},
		"an operation to echo": {"TrentService.<script>", "application/x-amz-json-1.1", `{}`, "UnsupportedOperationException"},
	} {
		r := httptest.NewRequest("POST", "/", strings.NewReader(c.body))
		r.Header.Set("X-Amz-Target", c.target)
		r.Header.Set("Content-Type", c.kind)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if w.Code != 400 || !strings.Contains(w.Body.String(), `"__type":"`+c.code+`"`) || strings.Contains(w.Body.String(), "<") {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
}

// covers: H4
func TestKeysOutliveAStart(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kms.json")
	made := generate(t, client(t, open(t, file, declared...)), first)
	before, _ := os.ReadFile(file)
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("who may read the keys: %v %v", info, err)
	}
	// Declared no more, a key still reads what it encrypted, and encrypts nothing.
	third := Key{ID: "00000000-0000-8000-8000-000000000003", ARN: prefix + "key/00000000-0000-8000-8000-000000000003"}
	for _, keys := range [][]Key{declared, {declared[1]}, {third}, nil} {
		c := client(t, open(t, file, keys...))
		got, err := c.Decrypt(t.Context(), &kms.DecryptInput{CiphertextBlob: made.CiphertextBlob, EncryptionContext: bound})
		if err != nil || !bytes.Equal(got.Plaintext, made.Plaintext) {
			t.Errorf("%v: %v", keys, err)
		}
		_, err = c.GenerateDataKey(t.Context(), &kms.GenerateDataKeyInput{KeyId: aws.String(first), KeySpec: types.DataKeySpecAes256})
		if known := slices.ContainsFunc(keys, func(k Key) bool { return k.ID == first }); (err == nil) != known {
			t.Errorf("%v: %v", keys, err)
		}
	}
	if after, _ := os.ReadFile(file); len(after) <= len(before) {
		t.Error("a new key is not kept")
	}
	// What cannot be read is an error, and stays.
	for _, text := range []string{"", "{", `{"material":{"x":"AAAA"}}`, `{"material":{"` + first + `":"AAAA"}}`, `{"keys":{}}`} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(Options{File: file, Keys: declared}); err == nil {
			t.Errorf("%q is taken", text)
		}
		if now, _ := os.ReadFile(file); string(now) != text {
			t.Errorf("%q was replaced", text)
		}
	}
	if _, err := Open(Options{File: filepath.Join(t.TempDir(), "kms.json"), Keys: []Key{{ID: "x"}}}); err == nil {
		t.Error("an ID that is none is taken")
	}
}

// Who decides about permissions asks by which key.
func TestTheKeyOfARequest(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "kms.json"), declared...)
	blob, err := s.wrap(second, []byte("x"), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		blob []byte
		want string
	}{
		{first, nil, prefix + "key/" + first},
		{"alias/connections", blob, prefix + "key/" + first},
		{"", blob, prefix + "key/" + second},
		{"alias/none", blob, ""},
		{"", []byte("x"), ""},
		{"", nil, ""},
	} {
		if got := s.KeyARN(c.name, c.blob); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
