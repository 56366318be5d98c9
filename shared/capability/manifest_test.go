package capability_test

import (
	"fmt"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/pxhost/pxhost/shared/capability"
)

// A stored manifest is read again for each call.
//
// covers: C6
func TestARetryPolicyIsReadAsItWasWritten(t *testing.T) {
	const text = `{"max_attempts":3,"on":["network",429,502,503,504],"backoff_ms":10}`
	var r capability.Retry
	if err := json.Unmarshal([]byte(text), &r); err != nil || fmt.Sprint(r.On) != "[network 429 502 503 504]" {
		t.Fatal(r, err)
	}
	if again, err := json.Marshal(r); err != nil || string(again) != text {
		t.Errorf("%s %v", again, err)
	}
	for _, on := range []string{`"429"`, `network`, `500`, `"x"`, `""`, `{}`, `4.29e2`} {
		if err := json.Unmarshal([]byte(`{"on":[`+on+`]}`), &r); err == nil {
			t.Errorf("%s is taken for %v", on, r.On)
		}
	}
}

// covers: A3
func TestADestinationIsAnOriginAndAWayToGetACredential(t *testing.T) {
	base := capability.Connector{BaseURL: "https://api.example.com/v1", Auth: capability.Auth{Kind: "oauth2", Grant: "client_credentials", TokenURL: "https://auth.example.com/token"}}
	change := func(f func(*capability.Connector)) string {
		c := base
		f(&c)
		return c.Destination()
	}
	for name, same := range map[string]string{
		"another path":   change(func(c *capability.Connector) { c.BaseURL, c.Path = "https://api.example.com/v2", "/x" }),
		"capitals":       change(func(c *capability.Connector) { c.BaseURL = "HTTPS://API.Example.com/v1" }),
		"the port":       change(func(c *capability.Connector) { c.BaseURL = "https://api.example.com:443" }),
		"another title":  change(func(c *capability.Connector) { c.Title = "x" }),
		"another policy": change(func(c *capability.Connector) { c.Retry = &capability.Retry{} }),
	} {
		if same != base.Destination() {
			t.Errorf("%s is another destination", name)
		}
	}
	for name, other := range map[string]string{
		"another host":              change(func(c *capability.Connector) { c.BaseURL = "https://api.example.com.evil.com/v1" }),
		"another token URL":         change(func(c *capability.Connector) { c.Auth.TokenURL = "https://evil.com/token" }),
		"another authorization URL": change(func(c *capability.Connector) { c.Auth.AuthorizationURL = "https://evil.com/a" }),
		"another grant":             change(func(c *capability.Connector) { c.Auth.Grant = "authorization_code" }),
		"another kind":              change(func(c *capability.Connector) { c.Auth = capability.Auth{Kind: "bearer"} }),
	} {
		if other == base.Destination() {
			t.Errorf("%s is the same destination", name)
		}
	}
}
