package outbound

import (
	"errors"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
)

// A Rule is a reason why a URL is refused.
type Rule string

// The rules of URLs.
const (
	NotURL      Rule = "url"        // it cannot be read as an absolute URL
	NotHTTPS    Rule = "https"      // another scheme
	HasUser     Rule = "userinfo"   // a name or password in it
	HasFragment Rule = "fragment"   // a # in it
	WrongPort   Rule = "port"       // a port other than 443
	NotName     Rule = "host_name"  // an address, in whatever notation, or no DNS name in ASCII
	NotPublic   Rule = "not_public" // a name that is never one of a public host
)

// An URLError says which rule a URL breaks. It does not quote it.
type URLError struct{ Rule Rule }

func (e *URLError) Error() string { return "outbound: the URL breaks the rule " + string(e.Rule) }

// hostName is a DNS name of at least two labels, in ASCII. A name in another script is
// written in its ASCII form, in which look-alikes do not look alike.
var hostName = regexp.MustCompile(`^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// number is how the last label of an IPv4 address may be written; no top-level domain
// is (https://url.spec.whatwg.org/#ends-in-a-number-checker).
var number = regexp.MustCompile(`^([0-9]+|0x[0-9a-f]*)$`)

// special are the domains that are reserved for something other than public hosts.
var special = []string{"localhost", "local", "internal", "intranet", "lan", "home.arpa", "onion", "invalid", "test", "example", "alt", "arpa"}

// CheckURL reads an absolute https URL of a public host by its form alone, or returns a
// *URLError. Where it leads is judged when it is used.
func CheckURL(text string) (*url.URL, error) { return checkURL(text, nil) }

func checkURL(text string, exceptions map[string]string) (*url.URL, error) {
	if len(text) > maxURL || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '\\' }) {
		return nil, &URLError{NotURL}
	}
	u, err := url.Parse(text)
	if err != nil || u.Opaque != "" || u.Host == "" && u.Scheme != "" {
		return nil, &URLError{NotURL}
	}
	host := strings.ToLower(u.Hostname())
	switch {
	case u.Scheme != "https":
		return nil, &URLError{NotHTTPS}
	case u.User != nil:
		return nil, &URLError{HasUser}
	case u.Fragment != "" || strings.HasSuffix(text, "#"):
		return nil, &URLError{HasFragment}
	case u.Port() != "" && u.Port() != "443" || strings.HasSuffix(u.Host, ":"):
		return nil, &URLError{WrongPort}
	case exceptions[host] != "":
		return u, nil
	case len(host) > 253 || !hostName.MatchString(host) || number.MatchString(host[strings.LastIndexByte(host, '.')+1:]):
		return nil, &URLError{NotName}
	}
	for _, domain := range special {
		if host == domain || strings.HasSuffix(host, "."+domain) {
			return nil, &URLError{NotPublic}
		}
	}
	return u, nil
}

// maxURL is the longest URL in bytes: request_params alone may have 16 KiB.
const maxURL = 32 << 10

// prefixes parses a list of prefixes.
func prefixes(texts ...string) (out []netip.Prefix) {
	for _, t := range texts {
		out = append(out, netip.MustParsePrefix(t))
	}
	return out
}

// Of IPv4 all is public but what the IANA registry of special-purpose addresses has
// (RFC 6890), multicast and the reserved rest. Of IPv6 only what is given out as global
// unicast, without the parts of it that lead to IPv4 or to nobody: all others, mapped
// and translated addresses among them, are outside 2000::/3.
var (
	notPublic4 = prefixes("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24",
		"192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.168.0.0/16", "192.175.48.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
		"224.0.0.0/4", "240.0.0.0/4")
	public6    = netip.MustParsePrefix("2000::/3")
	notPublic6 = prefixes("2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20")
)

// Public reports whether an address is one of a public host.
func Public(a netip.Addr) bool {
	within := func(list []netip.Prefix) bool {
		for _, p := range list {
			if p.Contains(a) {
				return true
			}
		}
		return false
	}
	a = a.Unmap()
	switch {
	case a.Zone() != "":
		return false
	case a.Is4():
		return !within(notPublic4)
	}
	return public6.Contains(a) && !within(notPublic6)
}

// errBlocked is the cause of an attempt to reach what is not public.
var errBlocked = errors.New("outbound: the address is not one of a public host, or the port not 443")
