package apigateway

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// A Mapping changes one header of a function's answer before the client gets it, as
// the response parameters of an AWS::ApiGatewayV2::Integration say.
type Mapping struct {
	Action string // overwrite, append or remove
	Header string // canonical
	From   string // header of the answer whose value is taken, canonical; or empty
	Value  string // where From is empty
}

// reserved are the headers that the developer guide lets no mapping of an HTTP API
// read or write ("Transform API requests and responses", "Reserved headers").
// WWW-Authenticate is none of them.
var reserved = []string{
	"authorization", "connection", "content-encoding", "content-length", "content-location", "forwarded", "keep-alive",
	"origin", "proxy-authenticate", "proxy-authorization", "te", "trailers", "transfer-encoding", "upgrade", "via",
	"x-forwarded-for", "x-forwarded-host", "x-forwarded-proto",
}

var reservedPrefixes = []string{"access-control-", "apigw-", "x-amz-", "x-amzn-"}

var headerName = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")

func mappable(name string) error {
	if !headerName.MatchString(name) {
		return fmt.Errorf("%q is no name of a header", name)
	}
	lower := strings.ToLower(name)
	if slices.Contains(reserved, lower) || slices.ContainsFunc(reservedPrefixes, func(p string) bool { return strings.HasPrefix(lower, p) }) {
		return fmt.Errorf("the header %s is reserved by API Gateway: nothing is mapped from it or to it", name)
	}
	return nil
}

// ParseMapping reads one response parameter. Its error names what API Gateway refuses,
// and what it would take and is not there locally.
func ParseMapping(destination, source string) (Mapping, error) {
	action, location, _ := strings.Cut(destination, ":")
	name, isHeader := strings.CutPrefix(location, "header.")
	switch {
	case destination == "overwrite:statuscode":
		return Mapping{}, fmt.Errorf("%s is not supported by px local", destination)
	case !isHeader || action != "overwrite" && action != "append" && action != "remove":
		return Mapping{}, fmt.Errorf("the destination %q is none of overwrite:, append: and remove:header.NAME", destination)
	}
	if err := mappable(name); err != nil {
		return Mapping{}, err
	}
	m := Mapping{Action: action, Header: http.CanonicalHeaderKey(name)}
	from, ofHeader := strings.CutPrefix(source, "$response.header.")
	switch {
	case action == "remove":
		if source != "''" {
			return Mapping{}, fmt.Errorf("the source of remove is %q", "''")
		}
	case ofHeader:
		if err := mappable(from); err != nil {
			return Mapping{}, err
		}
		m.From = http.CanonicalHeaderKey(from)
	case strings.Contains(source, "$"):
		return Mapping{}, fmt.Errorf("the source %q is not supported by px local (a constant, or $response.header.NAME)", source)
	case source == "" || strings.ContainsAny(source, "\r\n"):
		return Mapping{}, fmt.Errorf("a source is a text of one line")
	default:
		m.Value = source
	}
	return m, nil
}

// apply changes the headers that a client gets. The sources are what the function
// answered, so that the order of the mappings means nothing; one that it did not
// answer changes nothing.
func apply(mappings []Mapping, header http.Header, answered map[string]string) {
	for _, m := range mappings {
		value, has := m.Value, true
		if m.From != "" {
			value, has = answered[m.From]
		}
		switch before := header.Get(m.Header); {
		case m.Action == "remove":
			header.Del(m.Header)
		case !has:
		case m.Action == "append" && before != "":
			header.Set(m.Header, before+","+value)
		default:
			header.Set(m.Header, value)
		}
	}
}
