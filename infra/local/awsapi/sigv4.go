package awsapi

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"sort"
	"strconv"
	"strings"
	"time"
)

// MaxSkew is how far a signature's time may lie from ours, either way.
const MaxSkew = 5 * time.Minute

const (
	algorithm     = "AWS4-HMAC-SHA256"
	timeFormat    = "20060102T150405Z"
	unsigned      = "UNSIGNED-PAYLOAD"
	maxPresignSec = 7 * 24 * 60 * 60
)

// A Credential is one access key.
type Credential struct {
	AccessKeyID string
	Secret      string
	Token       string // session token that must come with the key; empty for a permanent key
	Principal   string // who holds it, for messages and for the permission check
}

// signature is what a request says of its own signing.
type signature struct {
	accessKey, date, region, service string
	signedHeaders                    []string
	mac                              string
	at                               time.Time
	presigned                        bool
	expires                          time.Duration
	token                            string
}

type fault int

const (
	faultMissing    fault = iota // no signature at all
	faultIncomplete              // a signature that cannot be read
	faultKey                     // unknown access key, or wrong session token
	faultSignature               // does not match
	faultSkew                    // signed too long ago, or in the future
	faultExpired                 // presigned URL past its time
	faultBody                    // the body is not the one that was signed
	faultScope                   // signed for another region
	faultPayload                 // a way of signing the payload that is not supported
)

type authError struct {
	fault fault
	text  string
}

func (e *authError) Error() string { return e.text }

func refuse(f fault, format string, args ...any) *authError {
	return &authError{f, fmt.Sprintf(format, args...)}
}

// readSignature parses the signature of a request without believing it.
func readSignature(r *http.Request) (*signature, *authError) {
	if h := r.Header.Get("Authorization"); h != "" {
		return readHeader(r, h)
	}
	q := r.URL.Query()
	if q.Get("X-Amz-Algorithm") != "" || q.Get("X-Amz-Signature") != "" {
		return readQuery(q)
	}
	return nil, refuse(faultMissing, "Missing Authentication Token")
}

func readHeader(r *http.Request, h string) (*signature, *authError) {
	rest, ok := strings.CutPrefix(h, algorithm+" ")
	if !ok {
		return nil, refuse(faultIncomplete, "Unsupported AWS 'algorithm': only %s is supported.", algorithm)
	}
	s := &signature{token: r.Header.Get("X-Amz-Security-Token")}
	seen := map[string]bool{}
	for _, part := range strings.Split(rest, ",") {
		k, v, _ := strings.Cut(strings.TrimSpace(part), "=")
		if seen[k] {
			return nil, refuse(faultIncomplete, "Authorization header has '%s' twice.", k)
		}
		seen[k] = true
		switch k {
		case "Credential":
			if !s.scope(v) {
				return nil, refuse(faultIncomplete, "Credential must have exactly 5 slash-delimited elements, e.g. keyid/date/region/service/term.")
			}
		case "SignedHeaders":
			s.signedHeaders = strings.Split(v, ";")
		case "Signature":
			s.mac = v
		default:
			return nil, refuse(faultIncomplete, "Authorization header has an unknown parameter.")
		}
	}
	for _, k := range []string{"Credential", "Signature", "SignedHeaders"} {
		if !seen[k] {
			return nil, refuse(faultIncomplete, "Authorization header requires '%s' parameter.", k)
		}
	}
	at, err := time.Parse(timeFormat, r.Header.Get("X-Amz-Date"))
	if err != nil {
		return nil, refuse(faultIncomplete, "Authorization header requires existence of a valid 'X-Amz-Date' header.")
	}
	s.at = at
	return s, nil
}

func readQuery(q url.Values) (*signature, *authError) {
	if q.Get("X-Amz-Algorithm") != algorithm {
		return nil, refuse(faultIncomplete, "X-Amz-Algorithm only supports %q.", algorithm)
	}
	s := &signature{presigned: true, mac: q.Get("X-Amz-Signature"), token: q.Get("X-Amz-Security-Token")}
	if !s.scope(q.Get("X-Amz-Credential")) {
		return nil, refuse(faultIncomplete, "Error parsing the X-Amz-Credential parameter; the Credential is mal-formed.")
	}
	s.signedHeaders = strings.Split(q.Get("X-Amz-SignedHeaders"), ";")
	at, err := time.Parse(timeFormat, q.Get("X-Amz-Date"))
	if err != nil {
		return nil, refuse(faultIncomplete, "X-Amz-Date must be in the ISO8601 Long Format \"yyyyMMdd'T'HHmmss'Z'\"")
	}
	sec, err := strconv.Atoi(q.Get("X-Amz-Expires"))
	if err != nil || sec < 1 || sec > maxPresignSec {
		return nil, refuse(faultIncomplete, "X-Amz-Expires must be a number from 1 to %d.", maxPresignSec)
	}
	s.at, s.expires = at, time.Duration(sec)*time.Second
	return s, nil
}

func (s *signature) scope(v string) bool {
	p := strings.Split(v, "/")
	if len(p) != 5 || p[4] != "aws4_request" || p[0] == "" {
		return false
	}
	s.accessKey, s.date, s.region, s.service = p[0], p[1], p[2], p[3]
	return true
}

// verify checks the signature s of r against a credential. body is the whole
// body of the request.
func (s *signature) verify(r *http.Request, body []byte, c Credential, region string, now time.Time) *authError {
	if subtle.ConstantTimeCompare([]byte(s.token), []byte(c.Token)) != 1 {
		return refuse(faultKey, "The security token included in the request is invalid.")
	}
	if s.region != region {
		return refuse(faultScope, "Credential should be scoped to a valid region: this host is %s.", region)
	}
	if s.date != s.at.Format("20060102") {
		return refuse(faultSignature, "Date in Credential scope does not match YYYYMMDD from ISO-8601 version of date from HTTP")
	}
	age := now.Sub(s.at)
	switch {
	case s.presigned && age < -MaxSkew:
		return refuse(faultExpired, "Request is not yet valid")
	case s.presigned && age > s.expires:
		return refuse(faultExpired, "Request has expired")
	case s.presigned:
	case age > MaxSkew:
		return refuse(faultSkew, "Signature expired: %s is now earlier than %s (%s - 5 min.)", s.at.Format(timeFormat), now.Add(-MaxSkew).UTC().Format(timeFormat), now.UTC().Format(timeFormat))
	case age < -MaxSkew:
		return refuse(faultSkew, "Signature not yet current: %s is still later than %s (%s + 5 min.)", s.at.Format(timeFormat), now.Add(MaxSkew).UTC().Format(timeFormat), now.UTC().Format(timeFormat))
	}
	signed := map[string]bool{}
	for i, h := range s.signedHeaders {
		if h != strings.ToLower(h) || i > 0 && s.signedHeaders[i-1] >= h {
			return refuse(faultIncomplete, "SignedHeaders must be in lower case, sorted and each once.")
		}
		signed[h] = true
	}
	if !signed["host"] {
		return refuse(faultSignature, "'Host' must be a 'SignedHeader' in the AWS Authorization.")
	}
	for h := range r.Header {
		if l := strings.ToLower(h); strings.HasPrefix(l, "x-amz-") && !signed[l] {
			return refuse(faultSignature, "There were headers present in the request which were not signed: %s", l)
		}
	}
	hash := r.Header.Get("X-Amz-Content-Sha256")
	sum := sha256.Sum256(body)
	actual := hex.EncodeToString(sum[:])
	switch {
	case s.presigned && (hash == "" || hash == unsigned):
		hash = unsigned
	case hash == "":
		hash = actual
	case strings.HasPrefix(hash, "STREAMING-") || hash == unsigned:
		return refuse(faultPayload, "px local does not support x-amz-content-sha256: %s; sign the payload", hash)
	case hash != actual:
		return refuse(faultBody, "The provided 'x-amz-content-sha256' header does not match what was computed.")
	}
	want := s.compute(r, hash, c.Secret)
	if subtle.ConstantTimeCompare([]byte(want), []byte(s.mac)) != 1 {
		return refuse(faultSignature, "The request signature we calculated does not match the signature you provided. Check your AWS Secret Access Key and signing method. Consult the service documentation for details.")
	}
	return nil
}

// compute makes the signature that r should carry.
func (s *signature) compute(r *http.Request, payloadHash, secret string) string {
	var c strings.Builder
	c.WriteString(r.Method)
	c.WriteByte('\n')
	path, rawQuery, _ := strings.Cut(r.RequestURI, "?")
	if path == "" {
		path = "/"
	}
	if s.service != "s3" { // all but S3 sign the path escaped once more than it is sent
		path = escape(path, true)
	}
	c.WriteString(path)
	c.WriteByte('\n')
	c.WriteString(canonicalQuery(rawQuery))
	c.WriteByte('\n')
	for _, h := range s.signedHeaders {
		c.WriteString(h)
		c.WriteByte(':')
		switch h {
		case "host":
			c.WriteString(r.Host)
		case "content-length": // net/http takes it out of the header
			c.WriteString(strconv.FormatInt(r.ContentLength, 10))
		default:
			for i, v := range r.Header.Values(h) {
				if i > 0 {
					c.WriteByte(',')
				}
				c.WriteString(strings.Join(strings.Fields(v), " "))
			}
		}
		c.WriteByte('\n')
	}
	c.WriteByte('\n')
	c.WriteString(strings.Join(s.signedHeaders, ";"))
	c.WriteByte('\n')
	c.WriteString(payloadHash)
	sum := sha256.Sum256([]byte(c.String()))
	toSign := algorithm + "\n" + s.at.Format(timeFormat) + "\n" + s.date + "/" + s.region + "/" + s.service + "/aws4_request\n" + hex.EncodeToString(sum[:])
	key := mac(mac(mac(mac([]byte("AWS4"+secret), s.date), s.region), s.service), "aws4_request")
	return hex.EncodeToString(mac(key, toSign))
}

func mac(key []byte, data string) []byte {
	m := hmac.New(sha256.New, key)
	m.Write([]byte(data))
	return m.Sum(nil)
}

// canonicalQuery sorts the parameters of a query by their escaped names and
// values, and leaves the signature itself out.
func canonicalQuery(raw string) string {
	if raw == "" {
		return ""
	}
	var pairs [][2]string
	for _, p := range strings.Split(raw, "&") {
		if p == "" {
			continue
		}
		k, v, _ := strings.Cut(p, "=")
		k, v = reescape(k), reescape(v)
		if k != "X-Amz-Signature" {
			pairs = append(pairs, [2]string{k, v})
		}
	}
	sort.Slice(pairs, func(i, j int) bool {
		if pairs[i][0] != pairs[j][0] {
			return pairs[i][0] < pairs[j][0]
		}
		return pairs[i][1] < pairs[j][1]
	})
	out := make([]string, len(pairs))
	for i, p := range pairs {
		out[i] = p[0] + "=" + p[1]
	}
	return strings.Join(out, "&")
}

func reescape(s string) string {
	plain, err := url.QueryUnescape(s)
	if err != nil {
		plain = s
	}
	return escape(plain, false)
}

// escape percent-encodes all but the unreserved characters of RFC 3986, and
// the slash where it is kept.
func escape(s string, keepSlash bool) string {
	const hexDigits = "0123456789ABCDEF"
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_', c == '.', c == '~', c == '/' && keepSlash:
			b.WriteByte(c)
		default:
			b.WriteByte('%')
			b.WriteByte(hexDigits[c>>4])
			b.WriteByte(hexDigits[c&15])
		}
	}
	return b.String()
}
