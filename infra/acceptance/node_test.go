package acceptance

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// lacks skips a test of something that this machine does not have. In continuous
// integration that is a failure.
func lacks(t *testing.T, why string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal(why)
	}
	t.Skip(why)
}

// nodeModules is the directory of the npm packages of .ci/node.
func nodeModules(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("PX_NODE_MODULES")
	if dir == "" {
		lacks(t, "PX_NODE_MODULES does not name node_modules of .ci/node (npm ci --prefix .ci/node)")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// node is a Node that is new enough for the conformance tool and the Inspector, 22.19:
// the one among the packages, or else the machine's.
func node(t *testing.T) string {
	t.Helper()
	if found, _ := filepath.Glob(filepath.Join(nodeModules(t), "node-*", "bin", "node")); len(found) > 0 {
		return found[0]
	}
	out, err := exec.CommandContext(t.Context(), "node", "--version").Output()
	major, rest, _ := strings.Cut(strings.TrimPrefix(string(out), "v"), ".")
	minor, _, _ := strings.Cut(rest, ".")
	n, _ := strconv.Atoi(major)
	if m, _ := strconv.Atoi(minor); err != nil || n < 22 || n == 22 && m < 19 {
		lacks(t, "there is no Node 22.19 or later")
	}
	return "node"
}

// bearing is the host behind a proxy that gives every request the token of a principal,
// for programs that have no flag for one. What a request says of its host and its page is
// that of the proxy only where it is the proxy's own.
func (h *host) bearing(t *testing.T, as string) string {
	t.Helper()
	to, err := url.Parse(h.URL)
	if err != nil {
		t.Fatal(err)
	}
	token := h.token(t, as)
	proxy := httptest.NewUnstartedServer(nil)
	proxy.Config.Handler = &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		own := proxy.Listener.Addr().String()
		_, port, _ := strings.Cut(own, ":")
		mine := func(host string) bool { return host == own || host == "localhost:"+port }
		r.SetURL(to)
		if !mine(r.In.Host) {
			r.Out.Host = r.In.Host
		}
		if origin, ok := strings.CutPrefix(r.In.Header.Get("Origin"), "http://"); ok && mine(origin) {
			r.Out.Header.Set("Origin", h.URL)
		}
		r.Out.Header.Set("Authorization", "Bearer "+token)
	}, ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
		http.Error(w, err.Error(), http.StatusBadGateway)
	}}
	proxy.Start()
	t.Cleanup(proxy.Close)
	return proxy.URL
}
