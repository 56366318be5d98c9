package console

import (
	"context"
	"net/http"
	"strings"
)

// A route is one address of the console: "GET /console/plans/{planRef}". A variable is one
// whole segment.
type route struct {
	method, path string
	handle       func(context.Context, *Visit) (Answer, error)
}

// table is every page there is.
func (h *Handler) table() []route {
	return []route{
		{http.MethodGet, Root, h.home},
		{http.MethodPost, Root + "/sign-out", h.signOut},
	}
}

// find returns the route of a request and its variables; or none, and by which methods
// the path could be asked for.
func find(routes []route, method, path string) (found *route, allow string, vars map[string]string) {
	var methods []string
	for i := range routes {
		r := &routes[i]
		vars, ok := match(r.path, path)
		switch {
		case !ok:
		case r.method == method:
			return r, "", vars
		default:
			methods = append(methods, r.method)
		}
	}
	return nil, strings.Join(methods, ", "), nil
}

func match(pattern, path string) (map[string]string, bool) {
	want, got := strings.Split(pattern, "/"), strings.Split(path, "/")
	if len(want) != len(got) {
		return nil, false
	}
	vars := map[string]string{}
	for i, part := range want {
		switch {
		case strings.HasPrefix(part, "{"):
			if got[i] == "" {
				return nil, false
			}
			vars[part[1:len(part)-1]] = got[i]
		case part != got[i]:
			return nil, false
		}
	}
	return vars, true
}
