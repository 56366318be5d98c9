package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/pxhost/pxhost/shared/wire/gateway"
)

// What is wrong with a host is told by its name, whatever else is.
//
// covers: W9
func TestSmokeNamesWhatIsWrong(t *testing.T) {
	for _, c := range []struct {
		name   string
		header string
		told   string
	}{
		{"a gateway that renames", "X-Amzn-Remapped-Www-Authenticate", "API Gateway has renamed WWW-Authenticate"},
		{"a challenge without the metadata", "WWW-Authenticate", `WWW-Authenticate is "Bearer x", without resource_metadata=`},
		{"no challenge", "X-Other", `WWW-Authenticate is ""`},
	} {
		d := openDoor(t, echo)
		d.front = func(w http.ResponseWriter, r *http.Request) bool {
			switch r.URL.Path {
			case gateway.StandardPath:
				w.Header().Set(c.header, "Bearer x")
				w.WriteHeader(http.StatusUnauthorized)
			case gateway.MetadataPath + gateway.StandardPath:
				fmt.Fprintf(w, `{"resource":%q,"authorization_servers":["https://issuer.invalid"],"scopes_supported":["px.approve"]}`, d.url)
			default:
				return false
			}
			return true
		}
		code, out, errs := d.px(t, strings.NewReader(""), "smoke")
		if code != exitFailed || !strings.Contains(out, "FAILED  a request without a token") || !strings.Contains(out, c.told) || !strings.Contains(out, "FAILED  the metadata names") ||
			!strings.Contains(out, "ok      the formal endpoint") || strings.Count(out, "\n") != 9 || !strings.Contains(errs, "8 checks failed at "+d.url) {
			t.Errorf("%s: %d %s %s", c.name, code, out, errs)
		}
	}
}
