package s3_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	sdk "github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/pxhost/pxhost/infra/local/awsapi"
	"github.com/pxhost/pxhost/infra/local/s3"
)

// A resource link's whole way: the SDK signs the address with a function's
// credentials, a browser without any opens it, and gets an attachment of the
// type that the address says, whatever is stored with the object, for five
// minutes of the host's clock.
//
// covers: U3
func TestPresignedDownloads(t *testing.T) {
	store, err := s3.Open(s3.Options{File: filepath.Join(t.TempDir(), "s3.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if err := store.MakeBucket("results"); err != nil {
		t.Fatal(err)
	}
	now, allowed := time.Now(), true
	function := awsapi.Credential{AccessKeyID: "PXFN", Secret: "secret", Token: "session", Principal: "review_api"}
	srv := httptest.NewServer(awsapi.New(awsapi.Options{
		Region: "us-east-1", Services: map[string]http.Handler{"s3": store}, Now: func() time.Time { return now },
		Allow: func(principal, action, resource string, _ awsapi.Context) bool {
			return allowed && principal == "review_api" && strings.HasPrefix(resource, "arn:aws:s3:::results/")
		},
		Credential: func(id string) (awsapi.Credential, bool) { return function, id == function.AccessKeyID },
	}))
	defer srv.Close()
	client := sdk.New(sdk.Options{Region: "us-east-1", BaseEndpoint: &srv.URL, UsePathStyle: true, RetryMaxAttempts: 1,
		Credentials: credentials.NewStaticCredentialsProvider(function.AccessKeyID, function.Secret, function.Token)})
	const key, body = "ws/proj/sha256:00", "<html>caseKey,span\n"
	if _, err := client.PutObject(t.Context(), &sdk.PutObjectInput{Bucket: aws.String("results"), Key: aws.String(key),
		Body: strings.NewReader(body), ContentType: aws.String("text/html"), ContentDisposition: aws.String("inline")}); err != nil {
		t.Fatal(err)
	}
	const disposition = `attachment; filename="girder review.csv"; filename*=UTF-8''%EA%B1%B0%EB%8D%94.csv`
	request, err := sdk.NewPresignClient(client).PresignGetObject(t.Context(), &sdk.GetObjectInput{
		Bucket: aws.String("results"), Key: aws.String(key),
		ResponseContentDisposition: aws.String(disposition), ResponseContentType: aws.String("text/csv; charset=utf-8"),
	}, sdk.WithPresignExpires(5*time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	signed := now
	for _, c := range []struct {
		name    string
		url     string
		after   time.Duration
		allowed bool
		status  int
		code    string
	}{
		{"at once", request.URL, 0, true, 200, ""},
		{"just before five minutes", request.URL, 5*time.Minute - 2*time.Second, true, 200, ""},
		{"after five minutes", request.URL, 5*time.Minute + 2*time.Second, true, 403, "AccessDenied"},
		{"shown in the page instead", strings.Replace(request.URL, "attachment", "inline", 1), 0, true, 403, "SignatureDoesNotMatch"},
		{"as a web page", strings.Replace(request.URL, "text%2Fcsv", "text%2Fhtml", 1), 0, true, 403, "SignatureDoesNotMatch"},
		{"without its type", strings.Replace(request.URL, "response-content-type=text%2Fcsv%3B%20charset%3Dutf-8&", "", 1), 0, true, 403, "SignatureDoesNotMatch"},
		{"when the function's right is gone", request.URL, 0, false, 403, "AccessDenied"},
	} {
		t.Run(c.name, func(t *testing.T) {
			now, allowed = signed.Add(c.after), c.allowed
			response, err := http.Get(c.url)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			text, err := io.ReadAll(response.Body)
			if err != nil || response.StatusCode != c.status || !strings.Contains(string(text), c.code) {
				t.Fatalf("%d %s (%v)", response.StatusCode, text, err)
			}
			if c.status != 200 {
				if strings.Contains(string(text), "caseKey") {
					t.Error("a refusal holds the object")
				}
				return
			}
			got := fmt.Sprint(response.Header["Content-Disposition"], response.Header["Content-Type"], string(text))
			if want := fmt.Sprint([]string{disposition}, []string{"text/csv; charset=utf-8"}, body); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}
