package apigateway

import (
	"net/url"
	"sort"
	"strings"
	"time"
)

// A Route sends requests to a function.
type Route struct {
	Method   string // upper case, or ANY
	Path     string // segments, {variable}, {greedy+}; or $default
	Function string
	Timeout  time.Duration // 50 ms to 30 s
	// Responses are the mappings of answers by their status.
	Responses map[int][]Mapping
}

// Key is the routeKey that the function sees.
func (r Route) Key() string {
	if r.Path == "$default" {
		return r.Path
	}
	return r.Method + " " + r.Path
}

// table is a list of routes, the most specific first.
type table []compiled

type compiled struct {
	Route
	segments []string
}

// Kinds of segments in order of preference.
func rank(segment string) int {
	switch {
	case strings.HasSuffix(segment, "+}"):
		return 2
	case strings.HasPrefix(segment, "{"):
		return 1
	}
	return 0
}

func compile(routes []Route) table {
	t := make(table, len(routes))
	for i, r := range routes {
		t[i].Route = r
		if r.Path != "$default" {
			t[i].segments = strings.Split(strings.TrimPrefix(r.Path, "/"), "/")
		}
	}
	sort.SliceStable(t, func(i, j int) bool {
		a, b := t[i], t[j]
		if (a.segments == nil) != (b.segments == nil) {
			return b.segments == nil
		}
		for k := 0; k < len(a.segments) && k < len(b.segments); k++ {
			if x, y := rank(a.segments[k]), rank(b.segments[k]); x != y {
				return x < y
			}
		}
		if len(a.segments) != len(b.segments) {
			return len(a.segments) > len(b.segments)
		}
		return a.Method != "ANY" && b.Method == "ANY"
	})
	return t
}

// find returns the most specific route of a request and its path variables.
// path is the escaped path; variables are unescaped.
func (t table) find(method, path string) (*Route, map[string]string) {
	parts := strings.Split(strings.TrimPrefix(path, "/"), "/")
	for i := range t {
		c := &t[i]
		if c.Method != "ANY" && c.Method != method {
			continue
		}
		if c.segments == nil {
			return &c.Route, nil
		}
		if vars, ok := c.match(parts); ok {
			return &c.Route, vars
		}
	}
	return nil, nil
}

func (c *compiled) match(parts []string) (map[string]string, bool) {
	var vars map[string]string
	set := func(k, v string) bool {
		plain, err := url.PathUnescape(v)
		if err != nil || plain == "" {
			return false
		}
		if vars == nil {
			vars = map[string]string{}
		}
		vars[k] = plain
		return true
	}
	for i, s := range c.segments {
		if i >= len(parts) {
			return nil, false
		}
		switch rank(s) {
		case 2:
			ok := set(s[1:len(s)-2], strings.Join(parts[i:], "/"))
			return vars, ok
		case 1:
			if !set(s[1:len(s)-1], parts[i]) {
				return nil, false
			}
		default:
			if plain, err := url.PathUnescape(parts[i]); err != nil || plain != s {
				return nil, false
			}
		}
	}
	return vars, len(parts) == len(c.segments)
}
