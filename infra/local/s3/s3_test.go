package s3

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
)

func client(t testing.TB, h http.Handler) *s3.Client {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return s3.New(s3.Options{
		Region: "us-east-1", BaseEndpoint: &srv.URL, UsePathStyle: true, RetryMaxAttempts: 1,
		Credentials: credentials.NewStaticCredentialsProvider("a", "b", ""),
	})
}

func open(t testing.TB, file string) *Service {
	t.Helper()
	s, err := Open(Options{File: file})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	if err := s.MakeBucket("b"); err != nil {
		t.Fatal(err)
	}
	return s
}

func code(err error) string {
	var e smithy.APIError
	if errors.As(err, &e) {
		return e.ErrorCode()
	}
	return ""
}

var T = aws.String

// covers: H3, H4
func TestObjects(t *testing.T) {
	ctx := context.Background()
	c := client(t, open(t, filepath.Join(t.TempDir(), "s3.db")))
	const key = "results/ä b+c/%41"
	body := bytes.Repeat([]byte("0123456789"), 100_000)
	put, err := c.PutObject(ctx, &s3.PutObjectInput{
		Bucket: T("b"), Key: T(key), Body: bytes.NewReader(body), ContentType: T("text/csv"), ContentEncoding: T("gzip"),
		ContentDisposition: T("inline"), Metadata: map[string]string{"digest": "sha256:00"}, ChecksumAlgorithm: types.ChecksumAlgorithmCrc32,
	})
	if err != nil {
		t.Fatal(err)
	}
	get, err := c.GetObject(ctx, &s3.GetObjectInput{Bucket: T("b"), Key: T(key), ChecksumMode: types.ChecksumModeEnabled})
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(get.Body)
	if err != nil || !bytes.Equal(got, body) {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
	if *get.ContentType != "text/csv" || *get.ContentEncoding != "gzip" || *get.ContentDisposition != "inline" || get.Metadata["digest"] != "sha256:00" ||
		*get.ContentLength != int64(len(body)) || *get.ETag != *put.ETag || get.ChecksumCRC32 == nil || time.Since(*get.LastModified) > time.Minute {
		t.Errorf("%+v", get)
	}
	head, err := c.HeadObject(ctx, &s3.HeadObjectInput{Bucket: T("b"), Key: T(key)})
	if err != nil || *head.ContentLength != int64(len(body)) || head.Metadata["digest"] != "sha256:00" {
		t.Errorf("head %+v, %v", head, err)
	}
	part, err := c.GetObject(ctx, &s3.GetObjectInput{Bucket: T("b"), Key: T(key), Range: T("bytes=999995-")})
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := io.ReadAll(part.Body); string(got) != "56789" || *part.ContentRange != "bytes 999995-999999/1000000" {
		t.Errorf("range %q %s", got, *part.ContentRange)
	}
	over, err := c.GetObject(ctx, &s3.GetObjectInput{Bucket: T("b"), Key: T(key), ResponseContentDisposition: T("attachment"), ResponseContentType: T("x/y")})
	if err != nil || *over.ContentDisposition != "attachment" || *over.ContentType != "x/y" {
		t.Errorf("overrides %+v, %v", over, err)
	}
	// An overwrite leaves nothing of what was before.
	if _, err := c.PutObject(ctx, &s3.PutObjectInput{Bucket: T("b"), Key: T(key), Body: strings.NewReader("")}); err != nil {
		t.Fatal(err)
	}
	head, err = c.HeadObject(ctx, &s3.HeadObjectInput{Bucket: T("b"), Key: T(key)})
	if err != nil || *head.ContentLength != 0 || len(head.Metadata) != 0 || head.ContentEncoding != nil || head.ContentDisposition != nil {
		t.Errorf("after overwrite %+v, %v", head, err)
	}
	for range 2 { // deleting what is not there succeeds
		if _, err := c.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: T("b"), Key: T(key)}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.GetObject(ctx, &s3.GetObjectInput{Bucket: T("b"), Key: T(key)}); code(err) != "NoSuchKey" {
		t.Errorf("after delete: %v", err)
	}
	var nf *types.NotFound
	if _, err := c.HeadObject(ctx, &s3.HeadObjectInput{Bucket: T("b"), Key: T(key)}); !errors.As(err, &nf) {
		t.Errorf("head after delete: %v", err)
	}
}

func TestConditionalPut(t *testing.T) {
	ctx := context.Background()
	c := client(t, open(t, filepath.Join(t.TempDir(), "s3.db")))
	create := func(body string) error {
		_, err := c.PutObject(ctx, &s3.PutObjectInput{Bucket: T("b"), Key: T("k"), Body: strings.NewReader(body), IfNoneMatch: T("*")})
		return err
	}
	// Of many creators one wins.
	errs := make(chan error, 16)
	for i := range 16 {
		go func() { errs <- create(fmt.Sprint("body ", i)) }()
	}
	won := 0
	for range 16 {
		err := <-errs
		switch {
		case err == nil:
			won++
		case code(err) != "PreconditionFailed":
			t.Error(err)
		}
	}
	if won != 1 {
		t.Errorf("%d creators won", won)
	}
	head, err := c.HeadObject(ctx, &s3.HeadObjectInput{Bucket: T("b"), Key: T("k")})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.PutObject(ctx, &s3.PutObjectInput{Bucket: T("b"), Key: T("k"), Body: strings.NewReader("x"), IfMatch: T(`"00"`)}); code(err) != "PreconditionFailed" {
		t.Errorf("If-Match of another: %v", err)
	}
	if _, err := c.PutObject(ctx, &s3.PutObjectInput{Bucket: T("b"), Key: T("k"), Body: strings.NewReader("x"), IfMatch: head.ETag}); err != nil {
		t.Errorf("If-Match: %v", err)
	}
}

func TestListing(t *testing.T) {
	ctx := context.Background()
	c := client(t, open(t, filepath.Join(t.TempDir(), "s3.db")))
	var want []string
	for i := range 25 {
		k := fmt.Sprintf("p/%02d", i)
		want = append(want, k)
		if _, err := c.PutObject(ctx, &s3.PutObjectInput{Bucket: T("b"), Key: &k, Body: strings.NewReader(k)}); err != nil {
			t.Fatal(err)
		}
	}
	for _, k := range []string{"a", "p", "p0", "q/1"} { // around the prefix
		c.PutObject(ctx, &s3.PutObjectInput{Bucket: T("b"), Key: &k, Body: strings.NewReader(k)})
	}
	for _, size := range []int32{1, 7, 25, 26} {
		var got []string
		p := s3.NewListObjectsV2Paginator(c, &s3.ListObjectsV2Input{Bucket: T("b"), Prefix: T("p/"), MaxKeys: &size})
		for p.HasMorePages() {
			page, err := p.NextPage(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if int32(len(page.Contents)) > size {
				t.Errorf("a page of %d keys, asked for %d", len(page.Contents), size)
			}
			for _, o := range page.Contents {
				got = append(got, *o.Key)
				if *o.Size != int64(len(*o.Key)) {
					t.Errorf("%s has size %d", *o.Key, *o.Size)
				}
			}
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("pages of %d: %q", size, got)
		}
	}
	out, err := c.ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: T("b"), Prefix: T("p/"), StartAfter: T("p/22")})
	if err != nil || len(out.Contents) != 2 || *out.Contents[0].Key != "p/23" {
		t.Errorf("start after: %+v, %v", out, err)
	}
	if _, err := c.ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: T("none")}); code(err) != "NoSuchBucket" {
		t.Errorf("another bucket: %v", err)
	}
}

// The AWS CLI and Python's SDK ask every list with its keys encoded, and decode them.
func TestAListingWhoseKeysAreEncoded(t *testing.T) {
	ctx := context.Background()
	c := client(t, open(t, filepath.Join(t.TempDir(), "s3.db")))
	keys := []string{"e (1).png", "e&<2>/거더+", "e/3%"}
	for _, k := range keys {
		if _, err := c.PutObject(ctx, &s3.PutObjectInput{Bucket: T("b"), Key: &k, Body: strings.NewReader("four")}); err != nil {
			t.Fatal(err)
		}
	}
	plain, err := c.ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: T("b")})
	if err != nil || plain.EncodingType != "" || *plain.Contents[1].Key != keys[1] {
		t.Fatalf("not encoded: %+v, %v", plain, err)
	}
	in := &s3.ListObjectsV2Input{Bucket: T("b"), Prefix: T("e"), StartAfter: T("e "), MaxKeys: aws.Int32(2), EncodingType: types.EncodingTypeUrl}
	first, err := c.ListObjectsV2(ctx, in)
	if err != nil || first.EncodingType != types.EncodingTypeUrl || *first.Prefix != "e" || *first.StartAfter != "e+" || !*first.IsTruncated || *first.KeyCount != 2 || len(first.Contents) != 2 {
		t.Fatalf("encoded: %+v, %v", first, err)
	}
	in.ContinuationToken, in.StartAfter = first.NextContinuationToken, nil
	last, err := c.ListObjectsV2(ctx, in)
	if err != nil || *last.IsTruncated || len(last.Contents) != 1 {
		t.Fatalf("the next page: %+v, %v", last, err)
	}
	want := []string{"e+%281%29.png", "e%26%3C2%3E/%EA%B1%B0%EB%8D%94%2B", "e/3%25"}
	for i, o := range append(first.Contents, last.Contents...) {
		is := plain.Contents[i]
		if *o.Key != want[i] || *o.Size != 4 || *o.ETag != *is.ETag || !o.LastModified.Equal(*is.LastModified) {
			t.Errorf("%q is listed as %+v", keys[i], *o.Key)
		}
	}
	if _, err := c.ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: T("none"), EncodingType: types.EncodingTypeUrl}); code(err) != "NoSuchBucket" {
		t.Errorf("another bucket: %v", err)
	}
	if _, err := c.ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: T("b"), EncodingType: "base64"}); code(err) != "InvalidArgument" {
		t.Errorf("another encoding: %v", err)
	}
}

// covers: H4
func TestFieldsAreSupportedOrRefusedByName(t *testing.T) {
	inputs := map[string]any{
		"PutObject": s3.PutObjectInput{}, "GetObject": s3.GetObjectInput{}, "HeadObject": s3.HeadObjectInput{},
		"DeleteObject": s3.DeleteObjectInput{}, "ListObjectsV2": s3.ListObjectsV2Input{},
	}
	for op, in := range inputs {
		typ := reflect.TypeOf(in)
		n := 0
		for i := range typ.NumField() {
			f := typ.Field(i)
			if !f.IsExported() {
				continue
			}
			n++
			if _, ok := Fields[op][f.Name]; !ok {
				t.Errorf("%s: the SDK has a field %s that is neither supported nor refused", op, f.Name)
			}
		}
		if n != len(Fields[op]) {
			t.Errorf("%s: %d fields listed, the SDK has %d", op, len(Fields[op]), n)
		}
	}
	if len(inputs) != len(Fields) {
		t.Error("operations differ")
	}

	// Each refused field, set with the SDK, is refused.
	c := client(t, open(t, filepath.Join(t.TempDir(), "s3.db")))
	ctx := context.Background()
	if _, err := c.PutObject(ctx, &s3.PutObjectInput{Bucket: T("b"), Key: T("k"), Body: strings.NewReader("x")}); err != nil {
		t.Fatal(err)
	}
	for op, fields := range Fields {
		for name, supported := range fields {
			if supported {
				continue
			}
			in := reflect.New(reflect.TypeOf(inputs[op]))
			e := in.Elem()
			e.FieldByName("Bucket").Set(reflect.ValueOf(T("b")))
			if k := e.FieldByName("Key"); k.IsValid() {
				k.Set(reflect.ValueOf(T("k")))
			}
			if b := e.FieldByName("Body"); b.IsValid() {
				b.Set(reflect.ValueOf(strings.NewReader("x")))
			}
			fill(t, e.FieldByName(name))
			out := reflect.ValueOf(c).MethodByName(op).Call([]reflect.Value{reflect.ValueOf(ctx), in})
			err, _ := out[1].Interface().(error)
			var status interface{ HTTPStatusCode() int }
			if !errors.As(err, &status) || status.HTTPStatusCode() != http.StatusNotImplemented {
				t.Errorf("%s with %s: %v, want 501", op, name, err)
			}
			if err != nil && op != "HeadObject" && !strings.Contains(err.Error(), "px local does not support the") {
				t.Errorf("%s with %s is not named: %v", op, name, err)
			}
		}
	}
}

func fill(t *testing.T, v reflect.Value) {
	t.Helper()
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	switch {
	case v.Type() == reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(time.Unix(1_700_000_000, 0)))
	case v.Kind() == reflect.String:
		v.SetString("x")
	case v.Kind() == reflect.Bool:
		v.SetBool(true)
	case v.CanInt():
		v.SetInt(1)
	case v.Kind() == reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(t, v.Index(0))
	default:
		t.Fatalf("cannot fill a %s", v.Type())
	}
}

func TestOtherOperationsAndFormsAreRefused(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "s3.db"))
	c := client(t, s)
	ctx := context.Background()
	for name, call := range map[string]func() error{
		"ListBuckets":  func() error { _, err := c.ListBuckets(ctx, &s3.ListBucketsInput{}); return err },
		"CreateBucket": func() error { _, err := c.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: T("c")}); return err },
		"DeleteBucket": func() error { _, err := c.DeleteBucket(ctx, &s3.DeleteBucketInput{Bucket: T("b")}); return err },
		"ListObjects":  func() error { _, err := c.ListObjects(ctx, &s3.ListObjectsInput{Bucket: T("b")}); return err },
		"CopyObject": func() error {
			_, err := c.CopyObject(ctx, &s3.CopyObjectInput{Bucket: T("b"), Key: T("k"), CopySource: T("b/l")})
			return err
		},
		"CreateMultipartUpload": func() error {
			_, err := c.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{Bucket: T("b"), Key: T("k")})
			return err
		},
		"DeleteObjects": func() error {
			_, err := c.DeleteObjects(ctx, &s3.DeleteObjectsInput{Bucket: T("b"), Delete: &types.Delete{Objects: []types.ObjectIdentifier{{Key: T("k")}}}})
			return err
		},
		"GetObjectTagging": func() error {
			_, err := c.GetObjectTagging(ctx, &s3.GetObjectTaggingInput{Bucket: T("b"), Key: T("k")})
			return err
		},
	} {
		if err := call(); code(err) != "NotImplemented" {
			t.Errorf("%s: %v", name, err)
		}
	}
	r := httptest.NewRequest("PUT", "/b/k", strings.NewReader("x"))
	r.Header.Set("X-Amz-Checksum-Crc32", "AAAAAA==")
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	if w.Code != 400 || !strings.Contains(w.Body.String(), "BadDigest") {
		t.Errorf("wrong checksum: %d %s", w.Code, w.Body)
	}
}

func TestWhoMayNotListIsNotToldWhatIsMissing(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "s3.db"))
	c := client(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.ServeHTTP(w, r.WithContext(WithoutList(r.Context()))) }))
	ctx := context.Background()
	if _, err := c.GetObject(ctx, &s3.GetObjectInput{Bucket: T("b"), Key: T("k")}); code(err) != "AccessDenied" {
		t.Errorf("missing: %v", err)
	}
	if _, err := c.PutObject(ctx, &s3.PutObjectInput{Bucket: T("b"), Key: T("k"), Body: strings.NewReader("x")}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.GetObject(ctx, &s3.GetObjectInput{Bucket: T("b"), Key: T("k")}); err != nil {
		t.Errorf("there: %v", err)
	}
}

// A process that puts objects is killed at a random moment; what it had been
// told is stored is there, whole.
//
// covers: H4
func TestAcknowledgedObjectsSurviveKill(t *testing.T) {
	if file := os.Getenv("S3_KILL_CHILD"); file != "" {
		putUntilKilled(t, file)
		return
	}
	for round := range 5 {
		file := filepath.Join(t.TempDir(), "s3.db")
		cmd := exec.Command(os.Args[0], "-test.run", "^TestAcknowledgedObjectsSurviveKill$")
		cmd.Env = append(os.Environ(), "S3_KILL_CHILD="+file)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var acked int
		lines := make(chan string)
		go func() {
			defer close(lines)
			buf := make([]byte, 1)
			var line []byte
			for {
				if _, err := out.Read(buf); err != nil {
					return
				}
				if buf[0] == '\n' {
					lines <- string(line)
					line = line[:0]
				} else {
					line = append(line, buf[0])
				}
			}
		}()
		<-lines
		stop := time.After(time.Duration(20+round*35) * time.Millisecond)
	read:
		for {
			select {
			case l, ok := <-lines:
				if !ok {
					t.Fatal("the child ended")
				}
				fmt.Sscanf(l, "acked %d", &acked)
			case <-stop:
				cmd.Process.Kill()
				break read
			}
		}
		for l := range lines {
			fmt.Sscanf(l, "acked %d", &acked)
		}
		cmd.Wait()
		c := client(t, open(t, file))
		for i := 1; i <= acked; i++ {
			get, err := c.GetObject(context.Background(), &s3.GetObjectInput{Bucket: T("b"), Key: T(fmt.Sprint("k", i))})
			if err != nil {
				t.Fatalf("round %d: object %d of %d acknowledged: %v", round, i, acked, err)
			}
			if got, _ := io.ReadAll(get.Body); len(got) != 1000*i%70000 || *get.ContentLength != int64(len(got)) {
				t.Fatalf("object %d has %d bytes", i, len(got))
			}
		}
		t.Logf("round %d: %d acknowledged", round, acked)
	}
}

func putUntilKilled(t *testing.T, file string) {
	c := client(t, open(t, file))
	fmt.Println("started")
	for i := 1; ; i++ {
		if _, err := c.PutObject(context.Background(), &s3.PutObjectInput{Bucket: T("b"), Key: T(fmt.Sprint("k", i)), Body: bytes.NewReader(make([]byte, 1000*i%70000))}); err != nil {
			t.Fatal(err)
		}
		fmt.Println("acked", i)
	}
}
