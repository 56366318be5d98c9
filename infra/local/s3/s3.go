package s3

import (
	"bytes"
	"context"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"encoding/xml"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"maps"
	"net/http"
	"net/url"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/johannesboyne/gofakes3"
	bolt "go.etcd.io/bbolt"

	"github.com/pxhost/pxhost/infra/local/boltfile"
)

// Options configure a [Service].
type Options struct {
	File string // bbolt file
	Now  func() time.Time
}

// A Service is the object store.
type Service struct {
	backend *backend
	fake    http.Handler
}

// Open opens or makes the store.
func Open(opt Options) (*Service, error) {
	if opt.Now == nil {
		opt.Now = time.Now
	}
	db, err := boltfile.Open(opt.File, time.Second)
	if err != nil {
		return nil, fmt.Errorf("objects in %s: %w", opt.File, err)
	}
	b := &backend{db: db, now: opt.Now}
	return &Service{backend: b, fake: gofakes3.New(b, gofakes3.WithTimeSkewLimit(0), gofakes3.WithTimeSource(clock{opt.Now})).Server()}, nil
}

type clock struct{ now func() time.Time }

func (c clock) Now() time.Time                  { return c.now() }
func (c clock) Since(t time.Time) time.Duration { return c.now().Sub(t) }

// Close closes the file.
func (s *Service) Close() error { return s.backend.db.Close() }

// MakeBucket makes a bucket if it is not there.
func (s *Service) MakeBucket(name string) error { return s.backend.CreateBucket(name) }

type noList struct{}

// WithoutList marks a request whose sender may not list the bucket.
func WithoutList(ctx context.Context) context.Context { return context.WithValue(ctx, noList{}, true) }

// Fields lists every field of the inputs of the supported operations: true is
// supported, false is refused by name where it is set. A test compares it with
// the SDK. Which header or query parameter carries a field is in headers and
// parameters.
var Fields = map[string]map[string]bool{
	"PutObject": {
		"Bucket": true, "Key": true, "Body": true, "ContentLength": true,
		"ContentType": true, "ContentDisposition": true, "ContentEncoding": true, "ContentMD5": true,
		"IfMatch": true, "IfNoneMatch": true, "Metadata": true,
		"ChecksumAlgorithm": true, "ChecksumCRC32": true, "ChecksumCRC32C": true, "ChecksumSHA1": true, "ChecksumSHA256": true,
		"ChecksumCRC64NVME": false, "ChecksumMD5": false, "ChecksumSHA512": false, "ChecksumXXHASH128": false, "ChecksumXXHASH3": false, "ChecksumXXHASH64": false,
		"ACL": false, "BucketKeyEnabled": false, "CacheControl": false, "ContentLanguage": false, "ExpectedBucketOwner": false, "Expires": false,
		"GrantFullControl": false, "GrantRead": false, "GrantReadACP": false, "GrantWriteACP": false,
		"ObjectLockEventHold": false, "ObjectLockEventHoldDurationDays": false, "ObjectLockEventHoldDurationYears": false,
		"ObjectLockLegalHoldStatus": false, "ObjectLockMode": false, "ObjectLockRetainUntilDate": false,
		"RequestPayer": false, "SSECustomerAlgorithm": false, "SSECustomerKey": false, "SSECustomerKeyMD5": false, "SSEKMSEncryptionContext": false, "SSEKMSKeyId": false,
		"ServerSideEncryption": false, "StorageClass": false, "Tagging": false, "WebsiteRedirectLocation": false, "WriteOffsetBytes": false,
	},
	"GetObject":  readFields,
	"HeadObject": readFields,
	"DeleteObject": {
		"Bucket": true, "Key": true,
		"BypassGovernanceRetention": false, "ExpectedBucketOwner": false, "IfMatch": false, "IfMatchLastModifiedTime": false, "IfMatchSize": false,
		"MFA": false, "RequestPayer": false, "VersionId": false,
	},
	"ListObjectsV2": {
		"Bucket": true, "Prefix": true, "MaxKeys": true, "ContinuationToken": true, "StartAfter": true, "EncodingType": true,
		"Delimiter": false, "ExpectedBucketOwner": false, "FetchOwner": false, "OptionalObjectAttributes": false, "RequestPayer": false,
	},
}

var readFields = map[string]bool{
	"Bucket": true, "Key": true, "Range": true, "ChecksumMode": true,
	"ResponseCacheControl": true, "ResponseContentDisposition": true, "ResponseContentEncoding": true, "ResponseContentLanguage": true, "ResponseContentType": true, "ResponseExpires": true,
	"IfMatch": false, "IfModifiedSince": false, "IfNoneMatch": false, "IfUnmodifiedSince": false, "PartNumber": false,
	"ExpectedBucketOwner": false, "RequestPayer": false, "SSECustomerAlgorithm": false, "SSECustomerKey": false, "SSECustomerKeyMD5": false, "VersionId": false,
}

var responseParameters = []string{"response-cache-control", "response-content-disposition", "response-content-encoding", "response-content-language", "response-content-type", "response-expires"}

// headers that an operation may carry, apart from x-amz-meta- and those in plain.
var headers = map[string][]string{
	"PutObject": {"Content-Type", "Content-Disposition", "Content-Encoding", "Content-Md5", "If-Match", "If-None-Match",
		"X-Amz-Sdk-Checksum-Algorithm", "X-Amz-Checksum-Crc32", "X-Amz-Checksum-Crc32c", "X-Amz-Checksum-Sha1", "X-Amz-Checksum-Sha256"},
	"GetObject": {"Range", "X-Amz-Checksum-Mode"}, "HeadObject": {"Range", "X-Amz-Checksum-Mode"},
	"DeleteObject": {}, "ListObjectsV2": {},
}

// parameters of the query that an operation may carry, apart from a signature's.
var parameters = map[string][]string{
	"PutObject": {"x-id"}, "GetObject": append([]string{"x-id"}, responseParameters...), "HeadObject": append([]string{"x-id"}, responseParameters...),
	"DeleteObject": {"x-id"}, "ListObjectsV2": {"list-type", "prefix", "max-keys", "continuation-token", "start-after", "encoding-type"},
}

// plain headers say nothing to S3: transport, signing, and what the SDK tells
// of itself.
var plain = map[string]bool{
	"Accept": true, "Accept-Encoding": true, "Accept-Language": true, "Amz-Sdk-Invocation-Id": true, "Amz-Sdk-Request": true, "Authorization": true,
	"Cache-Control": true, "Connection": true, "Content-Length": true, "Cookie": true, "Expect": true, "Pragma": true, "Priority": true, "Referer": true,
	"User-Agent": true, "X-Amz-Content-Sha256": true, "X-Amz-Date": true, "X-Amz-Security-Token": true, "X-Amz-User-Agent": true,
	"Dnt": true, "Upgrade-Insecure-Requests": true, "X-Amzn-Trace-Id": true,
}

// ignorable tells headers that change nothing. On PutObject, S3 would keep
// Cache-Control with the object.
func ignorable(op, name string) bool {
	if op == "PutObject" && name == "Cache-Control" {
		return false
	}
	return plain[name] || strings.HasPrefix(name, "Sec-")
}

func operation(r *http.Request) (op, bucket, key string) {
	bucket, key, _ = strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	switch {
	case bucket == "":
	case key == "" && r.Method == http.MethodGet && r.URL.Query().Get("list-type") == "2":
		op = "ListObjectsV2"
	case key == "":
	case r.Method == http.MethodGet:
		op = "GetObject"
	case r.Method == http.MethodHead:
		op = "HeadObject"
	case r.Method == http.MethodPut:
		op = "PutObject"
	case r.Method == http.MethodDelete:
		op = "DeleteObject"
	}
	return op, bucket, key
}

// ServeHTTP answers a request in path style whose signature was checked.
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	op, bucket, key := operation(r)
	if op == "" {
		refuse(w, r, http.StatusNotImplemented, "NotImplemented", "px local does not support this operation of S3; it has PutObject, GetObject, HeadObject, DeleteObject and ListObjectsV2")
		return
	}
	allowed := map[string]bool{}
	for _, k := range headers[op] {
		allowed[k] = true
	}
	for _, k := range sorted(r.Header) {
		if !allowed[k] && !ignorable(op, k) && !(op == "PutObject" && strings.HasPrefix(k, "X-Amz-Meta-")) {
			refuse(w, r, http.StatusNotImplemented, "NotImplemented", "px local does not support the header "+k+" of "+op)
			return
		}
	}
	query := r.URL.Query()
	known := map[string]bool{}
	for _, k := range parameters[op] {
		known[k] = true
	}
	for _, k := range sorted(query) {
		signing := false
		switch k {
		case "X-Amz-Algorithm", "X-Amz-Credential", "X-Amz-Date", "X-Amz-Expires", "X-Amz-SignedHeaders", "X-Amz-Signature", "X-Amz-Security-Token", "X-Amz-Content-Sha256":
			signing = true
		case "X-Amz-Checksum-Mode", "x-amz-checksum-mode":
			signing = op == "GetObject" || op == "HeadObject"
		}
		if !known[k] && !signing {
			refuse(w, r, http.StatusNotImplemented, "NotImplemented", "px local does not support the parameter "+k+" of "+op)
			return
		}
	}
	if len(key) > 1024 {
		refuse(w, r, http.StatusBadRequest, "KeyTooLongError", "Your key is too long")
		return
	}
	in := r.Clone(r.Context())
	in.Header = http.Header{}
	for k, v := range r.Header {
		if allowed[k] || strings.HasPrefix(k, "X-Amz-Meta-") {
			in.Header[k] = v
		}
	}
	var checksums bool
	switch op {
	case "PutObject":
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the client went away
		}
		if bad := verifyChecksums(in.Header, body); bad != "" {
			refuse(w, r, http.StatusBadRequest, "BadDigest", "The "+bad+" you specified did not match the calculated checksum.")
			return
		}
		if v := in.Header.Get("If-None-Match"); v != "" && v != "*" {
			refuse(w, r, http.StatusNotImplemented, "NotImplemented", "A header you provided implies functionality that is not implemented: If-None-Match takes *")
			return
		}
		in.Header.Del("X-Amz-Sdk-Checksum-Algorithm")
		in.Header.Set("Content-Length", strconv.Itoa(len(body)))
		if in.Header.Get("Content-Type") == "" {
			in.Header.Set("Content-Type", "binary/octet-stream")
		}
		in.Body = io.NopCloser(bytes.NewReader(body))
	case "GetObject", "HeadObject":
		checksums = strings.EqualFold(r.Header.Get("X-Amz-Checksum-Mode"), "ENABLED") && r.Header.Get("Range") == ""
		in.Header.Del("X-Amz-Checksum-Mode")
		if r.Context().Value(noList{}) != nil {
			if there, err := s.exists(bucket, key); err == nil && !there {
				refuse(w, r, http.StatusForbidden, "AccessDenied", "Access Denied: there is no such key, and the caller may not s3:ListBucket and so may not be told")
				return
			}
		}
	case "ListObjectsV2":
		if v := query.Get("max-keys"); v != "" {
			if n, err := strconv.Atoi(v); err != nil || n < 0 {
				refuse(w, r, http.StatusBadRequest, "InvalidArgument", "Provided max-keys not an integer or within integer range")
				return
			}
		}
		switch query.Get("encoding-type") {
		case "":
		case "url": // as the AWS CLI and Python's SDK always ask
			s.listEncoded(w, in)
			return
		default:
			refuse(w, r, http.StatusBadRequest, "InvalidArgument", "Invalid Encoding Method specified in Request")
			return
		}
	}
	s.fake.ServeHTTP(&filter{ResponseWriter: w, checksums: checksums}, in)
}

// listEncoded answers a listing whose keys are encoded as in a URL's query, with
// slashes left as they are, which gofakes3 does not do.
func (s *Service) listEncoded(w http.ResponseWriter, in *http.Request) {
	plain := &kept{header: http.Header{}, status: http.StatusOK}
	s.fake.ServeHTTP(plain, in)
	maps.Copy(w.Header(), plain.header)
	body := plain.body.Bytes()
	if plain.status == http.StatusOK {
		var list struct {
			gofakes3.ListBucketResultV2
			EncodingType string
		}
		err := xml.Unmarshal(body, &list)
		for _, o := range list.Contents {
			o.Key = urlEncoded(o.Key)
		}
		list.Prefix, list.StartAfter, list.EncodingType = urlEncoded(list.Prefix), urlEncoded(list.StartAfter), "url"
		text, again := xml.Marshal(list)
		if err := errors.Join(err, again); err != nil {
			refuse(w, in, http.StatusInternalServerError, "InternalError", err.Error())
			return
		}
		body = append([]byte(xml.Header), text...)
		w.Header().Del("Content-Length")
	}
	f := &filter{ResponseWriter: w}
	f.WriteHeader(plain.status)
	f.Write(body)
}

func urlEncoded(key string) string { return strings.ReplaceAll(url.QueryEscape(key), "%2F", "/") }

// kept keeps an answer.
type kept struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (k *kept) Header() http.Header         { return k.header }
func (k *kept) WriteHeader(status int)      { k.status = status }
func (k *kept) Write(p []byte) (int, error) { return k.body.Write(p) }

// Object gives an object's bytes to another emulated service. Permissions are
// the caller's matter, as are the names: the error is for people.
func (s *Service) Object(_ context.Context, bucket, key string) ([]byte, error) {
	o, err := s.backend.GetObject(bucket, key, nil)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(o.Contents)
}

func (s *Service) exists(bucket, key string) (there bool, err error) {
	err = s.backend.db.View(func(tx *bolt.Tx) error {
		m := tx.Bucket(metaName(bucket))
		there = m == nil || m.Get([]byte(key)) != nil // a missing bucket has its own error
		return nil
	})
	return there, err
}

// filter takes out response headers that S3 would not send: gofakes3's CORS,
// and checksums that were not asked for.
type filter struct {
	http.ResponseWriter
	checksums bool
	done      bool
}

func (f *filter) WriteHeader(status int) {
	if !f.done {
		f.done = true
		h := f.Header()
		for k := range h {
			if strings.HasPrefix(k, "Access-Control-") || strings.HasPrefix(k, "X-Amz-Checksum-") && !f.checksums || k == "X-Amz-Delete-Marker" {
				h.Del(k)
			}
		}
	}
	f.ResponseWriter.WriteHeader(status)
}

func (f *filter) Write(p []byte) (int, error) {
	if !f.done {
		f.WriteHeader(http.StatusOK)
	}
	return f.ResponseWriter.Write(p)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// verifyChecksums compares the checksums of a request with its body, and names
// the one that is wrong, or "".
func verifyChecksums(h http.Header, body []byte) string {
	for name, make := range map[string]func() hash.Hash{
		"X-Amz-Checksum-Crc32":  func() hash.Hash { return crc32.NewIEEE() },
		"X-Amz-Checksum-Crc32c": func() hash.Hash { return crc32.New(castagnoli) },
		"X-Amz-Checksum-Sha1":   sha1.New, "X-Amz-Checksum-Sha256": sha256.New, "Content-Md5": md5.New,
	} {
		want := h.Get(name)
		if want == "" {
			continue
		}
		sum := make()
		sum.Write(body)
		if base64.StdEncoding.EncodeToString(sum.Sum(nil)) != want {
			return name
		}
	}
	return ""
}

func refuse(w http.ResponseWriter, r *http.Request, status int, code, message string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	if r.Method == http.MethodHead {
		return
	}
	io.WriteString(w, xml.Header)
	xml.NewEncoder(w).Encode(struct {
		XMLName xml.Name `xml:"Error"`
		Code    string
		Message string
	}{Code: code, Message: message})
}

func sorted(m map[string][]string) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}
