package console

import (
	"context"
	"net/http"
	"strings"
)

// A route is one address of the console: "GET /console/plans/{ref}". A variable is one
// whole segment. The first page is /console, without a slash: API Gateway sends
// /console/{proxy+} only what has something behind the slash.
type route struct {
	method, path string
	handle       func(context.Context, *Visit) (Answer, error)
}

// resourcePath is the address of a link to a large value.
const resourcePath = Root + "/resources/{ref}"

// inProject is the address of a Project.
const inProject = Root + "/p/{workspaceKey}/{projectKey}"

// table is every page there is.
func (h *Handler) table() []route {
	return []route{
		{http.MethodGet, Root, h.home},
		{http.MethodPost, Root + "/sign-out", h.signOut},
		{http.MethodGet, Root + "/language", h.language},
		{http.MethodGet, Root + "/plans/{ref}", h.plan},
		{http.MethodGet, Root + "/plans/{ref}/diff/{n}", h.difference},
		{http.MethodPost, Root + "/plans/{ref}/approve", h.decide(h.approve)},
		{http.MethodPost, Root + "/plans/{ref}/reject", h.decide(h.reject)},
		{http.MethodGet, Root + "/runs/{runRef}", h.runPage},
		{http.MethodGet, Root + "/runs/{runRef}/live", h.runLive},
		{http.MethodPost, Root + "/runs/{runRef}/cancel", h.cancelRun},
		{http.MethodGet, Root + "/runs/{runRef}/results/{resultKey}", h.resultPage},
		{http.MethodGet, Root + "/runs/{runRef}/inputs/{portKey}", h.inputPage},
		{http.MethodGet, Root + "/batches/{batchRef}", h.batchPage},
		{http.MethodGet, Root + "/batches/{batchRef}/live", h.batchLive},
		{http.MethodPost, Root + "/batches/{batchRef}/cancel", h.cancelBatch},
		{http.MethodGet, Root + "/batches/{batchRef}/results/{resultKey}", h.resultPage},
		{http.MethodGet, resourcePath, h.resource},
		{http.MethodGet, inProject, h.projectPage},
		{http.MethodGet, inProject + "/reports", h.listPage("reports")},
		{http.MethodGet, inProject + "/flows", h.listPage("flows")},
		{http.MethodGet, inProject + "/functions", h.listPage("functions")},
		{http.MethodGet, inProject + "/runs", h.runsPage},
		{http.MethodGet, inProject + "/history", h.historyPage},
		{http.MethodGet, inProject + "/reports/{reportKey}", h.reportPage},
		{http.MethodGet, inProject + "/reports/{reportKey}/values/{blockKey}/{fieldKey}", h.fieldPage},
		{http.MethodGet, inProject + "/flows/{flowKey}", h.flowPage},
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
