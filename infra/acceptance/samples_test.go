package acceptance

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	anInstance   = regexp.MustCompile(`inst_[0-9A-Z]{26}`)
	aConnection  = regexp.MustCompile(`conn_[0-9A-Z]{26}`)
	anAddress    = regexp.MustCompile(`https://\S+`)
	anyPlugin    = filepath.Join("..", "sample", "plugins")
	theWorkspace = []string{"--workspace", "structural_team"}
)

// The samples that call outside, by the commands that an operator and a person type: a
// search over a public API, and a research over a real MCP server to which a person gives
// access to his account.
//
// covers: A3, A4, A6, A7, C1, C3
func TestTheSamplesThatCallOutsideByCommand(t *testing.T) {
	to := research(t, "s3cret-access")
	w := startWorld(t, nil)
	do := func(code int, args ...string) string {
		t.Helper()
		got, out, errs := w.px(t, "", args...)
		if got != code {
			t.Fatalf("px %v: %d\n%s%s", args, got, out, errs)
		}
		if strings.Contains(out+errs, "s3cret") {
			t.Errorf("px %v tells a secret: %s%s", args, out, errs)
		}
		return out + errs
	}
	do(0, "workspace", "grant", "structural_team", "--to", "engineer", "--rights", "use,manage")
	install := func(plugin string) string {
		t.Helper()
		return anInstance.FindString(do(0, append([]string{"install", filepath.Join(anyPlugin, plugin), "--grant", "all", "--as", "engineer"}, theWorkspace...)...))
	}

	repositories := install("repository_search")
	w.on(githubHost+"/search/repositories", says(200, `{"items":[{"id":7,"full_name":"google/gvisor","html_url":"https://github.com/google/gvisor","description":"a kernel"}]}`))
	if out := do(0, "invoke", repositories, "repository.search.find", `{"query": "go & gvisor", "page": 1}`, "--as", "engineer"); !strings.Contains(out, "저장소 검색 (1)") || !strings.Contains(out, "google/gvisor") {
		t.Error(out)
	}
	if got := w.taken(githubHost + "/search/repositories"); len(got) != 1 || got[0].uri != "/search/repositories?per_page=2&sort=stars&page=1&q=go+%26+gvisor" {
		t.Errorf("%+v", got)
	}

	papers := install("research_mcp")
	w.on(researchHost+"/mcp", proxied(to))
	do(1, "invoke", papers, "research.search", `{"query": "거더"}`, "--as", "engineer") // EXTENSION_CONNECTION_REQUIRED
	secret := filepath.Join(t.TempDir(), "secret.json")
	if err := os.WriteFile(secret, []byte(`{"clientId": "app", "clientSecret": "s3cret-client"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	out := do(0, "connection", "create", papers, "research_mcp", "--own", "--secret", secret, "--redirect", "http://127.0.0.1:4711/back", "--as", "engineer")
	begun, err := url.Parse(anAddress.FindString(out))
	if err != nil || begun.Host != researchHost || begun.Path != "/oauth/authorize" {
		t.Fatal(out, err)
	}
	ask := begun.Query()
	// The service takes the code of who can show what the challenge was made of.
	w.on(researchHost+"/oauth/token", func(out http.ResponseWriter, r *http.Request) {
		r.ParseForm()
		sum := sha256.Sum256([]byte(r.Form.Get("code_verifier")))
		user, password, _ := r.BasicAuth()
		switch {
		case r.Form.Get("code") != "c0de" || r.Form.Get("redirect_uri") != ask.Get("redirect_uri") || base64.RawURLEncoding.EncodeToString(sum[:]) != ask.Get("code_challenge") || user != "app" || password != "s3cret-client":
			says(400, `{"error":"invalid_grant"}`)(out, r)
		default:
			says(200, `{"access_token":"s3cret-access","token_type":"Bearer","expires_in":3600,"refresh_token":"s3cret-refresh"}`)(out, r)
		}
	})
	back := fmt.Sprintf("http://127.0.0.1:4711/back?code=c0de&state=%s", url.QueryEscape(ask.Get("state")))
	if out := do(0, "connection", "complete", back, "--as", "engineer"); !strings.Contains(out, "is live") {
		t.Error(out)
	}
	if out := do(0, "invoke", papers, "research.search", `{"query": "거더"}`, "--as", "engineer"); !strings.Contains(out, "3 papers on 거더") {
		t.Error(out)
	}
	// His account is his alone, and is gone when he says so.
	do(0, "workspace", "grant", "structural_team", "--to", "viewer", "--rights", "use")
	if out := do(1, "invoke", papers, "research.search", `{"query": "거더"}`, "--as", "viewer"); !strings.Contains(out, "EXTENSION_CONNECTION_REQUIRED") {
		t.Error(out)
	}
	list := do(0, append([]string{"connection", "list", "--as", "engineer"}, theWorkspace...)...)
	do(0, "connection", "remove", aConnection.FindString(list), "--as", "engineer")
	if out := do(1, "invoke", papers, "research.search", `{"query": "거더"}`, "--as", "engineer"); !strings.Contains(out, "EXTENSION_CONNECTION_REQUIRED") {
		t.Error(out)
	}
	w.silent("s3cret")
	for key, text := range w.dump(t) {
		if strings.Contains(text, "s3cret") {
			t.Errorf("a secret stands in %s", key)
		}
	}
}
