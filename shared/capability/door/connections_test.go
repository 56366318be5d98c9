package door_test

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/pxhost/pxhost/shared/capability"
	"github.com/pxhost/pxhost/shared/connection"
	"github.com/pxhost/pxhost/shared/outbound"
)

// dataKeys are data keys as KMS gives them.
type dataKeys struct {
	mu  sync.Mutex
	all map[string][]byte
}

func (k *dataKeys) Generate(_ context.Context, bound map[string]string) (plain, wrapped []byte, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.all == nil {
		k.all = map[string][]byte{}
	}
	plain = make([]byte, 32)
	rand.Read(plain)
	name := rand.Text()
	k.all[name+fmt.Sprint(bound)] = append([]byte{}, plain...)
	return plain, []byte(name), nil
}

func (k *dataKeys) Unwrap(_ context.Context, wrapped []byte, bound map[string]string) ([]byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	plain, ok := k.all[string(wrapped)+fmt.Sprint(bound)]
	if !ok {
		return nil, fmt.Errorf("InvalidCiphertextException: %w", connection.ErrUnreadable)
	}
	return append([]byte{}, plain...), nil
}

// tokens is a token URL.
type tokens struct {
	forms  []url.Values
	status int // 0 is 200
}

func (s *tokens) Send(_ context.Context, q outbound.Request) (*outbound.Response, error) {
	form, err := url.ParseQuery(string(q.Body))
	if err != nil || q.URL != "https://auth.example.com/token" {
		return nil, fmt.Errorf("%s: %w", q.URL, err)
	}
	s.forms = append(s.forms, form)
	status, body := 200, `{"access_token":"s3cret-access","token_type":"Bearer","expires_in":600,"refresh_token":"s3cret-refresh"}`
	if s.status != 0 {
		status, body = s.status, `{"error":"invalid_grant","error_description":"s3cret"}`
	}
	return &outbound.Response{Status: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}, nil
}

const (
	connectionsKey = "GET /v1/connections"
	connectKey     = "POST /v1/connections"
	completeKey    = "POST /v1/connections/complete"
	rotateKey      = "POST /v1/connections/{connectionId}/rotate"
	authorizeKey   = "POST /v1/connections/{connectionId}/authorize"
	disconnectKey  = "POST /v1/connections/{connectionId}/remove"

	back = "https://chat.example.com/back"
)

// withAccounts is the notes whose API asks for a person's account.
func (b *bench) withAccounts(id string) {
	b.Helper()
	b.update(id, `"auth":{"kind":"bearer"}`, `"auth":{"kind":"oauth2","grant":"authorization_code","token_url":"https://auth.example.com/token","authorization_url":"https://auth.example.com/authorize","scopes":["read"]}`)
}

func connect(id, owner string, secret object) object {
	return object{"instanceId": id, "connectorId": "api", "owner": owner, "secret": secret}
}

// readiness is what the catalog says of what asks for the Connection.
func (b *bench) readiness(as string) string {
	b.Helper()
	for _, c := range b.send(ai+as, catalogKey, nil, team).data["capabilities"].([]any) {
		if c.(object)["capabilityId"] == "notes.search" {
			ready := c.(object)["ready"].(string)
			if params, ok := c.(object)["params"].(object); ok && params["reason"] != nil {
				ready += " " + params["reason"].(string)
			}
			return ready
		}
	}
	return ""
}

func (b *bench) generation() int64 {
	b.Helper()
	g, err := b.store.Generation(b.Context(), "team")
	b.must(err)
	return g
}

// silent fails if a secret stands in the log or in any row, and in what was answered.
func (b *bench) silent(answers ...answer) {
	b.Helper()
	seen := b.log.String()
	for _, a := range answers {
		seen += a.body + fmt.Sprint(a.header)
	}
	all, err := b.store.Workspace(b.Context(), "team")
	b.must(err)
	for _, c := range all.Connections {
		seen += fmt.Sprintf("%+v %s", c, c.Sealed)
	}
	for _, secret := range []string{"s3cret", base64.StdEncoding.EncodeToString([]byte("s3cret"))[:8]} {
		if strings.Contains(seen, secret) {
			b.Errorf("a secret came out: %.2000s", seen)
		}
	}
}

// Each change of a Connection is seen by the very next look at the catalog.
//
// covers: C3
func TestAConnectionIsMadeRotatedAndRemovedAndTheCatalogSeesEach(t *testing.T) {
	b := newBench(t)
	id := b.install("one", "network", "credentials")
	if got := b.readiness("user"); got != "EXTENSION_CONNECTION_REQUIRED none" {
		t.Fatal(got)
	}
	before := b.generation()
	made := b.send(person+"manager", connectKey, nil, connect(id, "everyone", object{"token": "s3cret"}))
	ref := made.text("connectionId")
	if made.status != 200 || made.text("state") != "live" || made.text("catalogGeneration") != fmt.Sprint(before+1) || b.readiness("user") != "READY" {
		t.Fatal(made.status, made.body, b.readiness("user"))
	}
	call := capability.Call{Workspace: "team", InstanceID: id, Actor: issuer + "user", Connector: &capability.Connector{ConnectorID: "api", BaseURL: "https://api.example.com", Auth: capability.Auth{Kind: "bearer"}}}
	token := func(want string) {
		t.Helper()
		if got, err := b.connections.Bearer(t.Context(), call); err != nil || got != want {
			t.Errorf("the token is %q %v, want %q", got, err, want)
		}
	}
	token("s3cret")
	// The same order again is the same; another secret has to be a rotation.
	again := b.send(person+"manager", connectKey, nil, connect(id, "everyone", object{"token": "s3cret"}))
	if again.status != 200 || again.text("connectionId") != ref || again.text("catalogGeneration") != fmt.Sprint(before+1) {
		t.Error(again.status, again.body)
	}
	other := b.send(person+"manager", connectKey, nil, connect(id, "everyone", object{"token": "s3cret2"}))
	if other.status != 409 || other.found[0] != "PX_COMMAND_REUSED /connectorId" || other.params[0]["connectionId"] != ref {
		t.Error(other.status, other.body)
	}
	token("s3cret")
	rotated := b.send(person+"manager", rotateKey, []string{ref}, object{"secret": object{"token": "s3cret2"}})
	if rotated.status != 200 || rotated.text("connectionId") != ref || b.generation() != before+2 {
		t.Error(rotated.status, rotated.body)
	}
	token("s3cret2")
	list := b.send(person+"user", connectionsKey, nil, team)
	one := list.data["connections"].([]any)[0].(object)
	if one["connectionId"] != ref || one["owner"] != "everyone" || one["kind"] != "bearer" || one["state"] != "live" || one["createdBy"] != issuer+"manager" || one["expiresAt"] != nil || len(one) != 8 {
		t.Error(one)
	}
	// What the service refuses is told by the catalog and the list.
	b.must(b.connections.Refused(t.Context(), call, "s3cret2"))
	rejected := b.send(person+"user", connectionsKey, nil, team)
	if got := b.readiness("user"); got != "EXTENSION_CONNECTION_REQUIRED rejected" || rejected.data["connections"].([]any)[0].(object)["state"] != "rejected" {
		t.Error(got, rejected.body)
	}
	b.send(person+"manager", connectKey, nil, connect(id, "everyone", object{"token": "s3cret3"}))
	token("s3cret3")
	generation := b.generation()
	gone := b.send(person+"manager", disconnectKey, []string{ref}, object{})
	if gone.status != 200 || gone.text("catalogGeneration") != fmt.Sprint(generation+1) || b.readiness("user") != "EXTENSION_CONNECTION_REQUIRED none" {
		t.Error(gone.status, gone.body)
	}
	if a := b.send(person+"manager", disconnectKey, []string{ref}, object{}); a.status != 404 || a.found[0] != "EXTENSION_NOT_FOUND" {
		t.Error(a.status, a.body)
	}
	b.silent(made, again, other, rotated, list, rejected, gone)
}

// Everyone's takes the right to manage; one's own the right to use. Another's own is
// not there.
func TestWhoMayConnectWhat(t *testing.T) {
	b := newBench(t)
	id := b.install("one", "network", "credentials")
	secret := object{"token": "s3cret"}
	for as, want := range map[string]int{"manager": 200, "user": 403, "stranger": 404} {
		if a := b.send(person+as, connectKey, nil, connect(id, "everyone", secret)); a.status != want {
			t.Errorf("%s for everyone: %d %s", as, a.status, a.body)
		}
	}
	refs := map[string]string{}
	for as, want := range map[string]int{"manager": 200, "user": 200, "stranger": 404} {
		a := b.send(person+as, connectKey, nil, connect(id, "self", object{"token": "s3cret-" + as}))
		if refs[as] = a.text("connectionId"); a.status != want {
			t.Errorf("%s for himself: %d %s", as, a.status, a.body)
		}
	}
	counts := map[string]int{}
	for _, as := range []string{"manager", "user", "second", "stranger"} {
		a := b.send(person+as, connectionsKey, nil, team)
		if all, ok := a.data["connections"].([]any); ok {
			counts[as] = len(all)
		} else if a.status != 403 {
			t.Error(a.status, a.body)
		}
	}
	if fmt.Sprint(counts) != "map[manager:3 second:1 user:2]" {
		t.Errorf("they see %v", counts)
	}
	mine := []string{refs["user"]}
	for _, c := range []struct {
		as, key string
		body    object
		status  int
	}{
		{"second", rotateKey, object{"secret": secret}, 404},
		{"second", disconnectKey, object{}, 404},
		{"stranger", disconnectKey, object{}, 404},
		{"manager", rotateKey, object{"secret": secret}, 403}, // nobody acts in another's name
		{"manager", authorizeKey, object{"redirectUri": back}, 403},
		{"user", rotateKey, object{"secret": object{"token": "s3cret-new"}}, 200},
		{"manager", disconnectKey, object{}, 200},
		{"user", rotateKey, object{"secret": secret}, 404},
	} {
		if a := b.send(person+c.as, c.key, mine, c.body); a.status != c.status {
			t.Errorf("%s %s: %d %s", c.as, c.key, a.status, a.body)
		}
	}
	// Who may not use the instance has nothing to connect to it, and is told of nothing.
	b.send(person+"second", connectKey, nil, connect(id, "self", secret))
	b.manage(id, "grant", object{"generation": 1, "actors": []string{issuer + "user"}})
	if a := b.send(person+"second", connectKey, nil, connect(id, "self", secret)); a.status != 404 {
		t.Error(a.status, a.body)
	}
	if a := b.send(person+"second", connectionsKey, nil, team); a.status != 200 || len(a.data["connections"].([]any)) != 0 {
		t.Error(a.status, a.body)
	}
	// What an AI holds connects nothing.
	for key, body := range map[string]any{connectionsKey: team, connectKey: connect(id, "self", secret), completeKey: object{"state": "x", "code": "y"}} {
		if a := b.send(ai+"manager", key, nil, body); a.status != 403 {
			t.Errorf("%s by an AI: %d", key, a.status)
		}
	}
	b.silent()
}

// covers: C3
func TestAnAccountIsConnectedByWhoSaidYes(t *testing.T) {
	b := newBench(t)
	id := b.install("one", "network", "credentials")
	b.withAccounts(id)
	order := connect(id, "self", object{"clientId": "app", "clientSecret": "s3cret-app"})
	order["redirectUri"] = back
	begin := func(as string) (string, url.Values) {
		t.Helper()
		a := b.send(person+as, connectKey, nil, order)
		u, err := url.Parse(a.text("authorizeUrl"))
		if a.status != 200 || a.text("state") != "pending" || err != nil || u.Host != "auth.example.com" {
			t.Fatal(a.status, a.body)
		}
		b.silent(a)
		return a.text("connectionId"), u.Query()
	}
	ref, q := begin("user")
	if q.Get("code_challenge_method") != "S256" || q.Get("redirect_uri") != back || !strings.HasPrefix(q.Get("state"), ref+".") {
		t.Error(q)
	}
	state := q.Get("state")
	for name, c := range map[string]struct {
		as     string
		body   object
		status int
		want   string
	}{
		"another person":      {"second", object{"state": state, "code": "c"}, 404, "EXTENSION_NOT_FOUND /state"},
		"a manager":           {"manager", object{"state": state, "code": "c"}, 404, "EXTENSION_NOT_FOUND /state"},
		"another state":       {"user", object{"state": ref + ".x", "code": "c"}, 409, "EXTENSION_CONNECTION_REQUIRED"},
		"a state of nothing":  {"user", object{"state": "x", "code": "c"}, 404, "EXTENSION_NOT_FOUND /state"},
		"neither":             {"user", object{"state": state}, 400, "PX_SCHEMA_INVALID"},
		"both":                {"user", object{"state": state, "code": "c", "error": "e"}, 400, "PX_SCHEMA_INVALID"},
		"a no with no state ": {"user", object{"state": ref + ".", "error": "access_denied"}, 409, "EXTENSION_CONNECTION_REQUIRED"},
	} {
		a := b.send(person+c.as, completeKey, nil, c.body)
		if a.status != c.status || a.told() != c.want || len(b.tokens.forms) != 0 {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	before := b.generation()
	done := b.send(person+"user", completeKey, nil, object{"state": state, "code": "c0de"})
	if done.status != 200 || done.text("state") != "live" || b.readiness("user") != "READY" || b.readiness("second") != "EXTENSION_CONNECTION_REQUIRED none" || b.generation() <= before {
		t.Error(done.status, done.body)
	}
	if f := b.tokens.forms[0]; f.Get("code") != "c0de" || f.Get("code_verifier") == "" || f.Get("redirect_uri") != back {
		t.Error(f)
	}
	twice := b.send(person+"user", completeKey, nil, object{"state": state, "code": "c0de"})
	if twice.status != 409 || len(b.tokens.forms) != 1 {
		t.Error(twice.status, twice.body)
	}
	// Again, with the client that is known; and this time the answer is no.
	anew := b.send(person+"user", authorizeKey, []string{ref}, object{"redirectUri": "http://127.0.0.1:4711/back"})
	u, _ := url.Parse(anew.text("authorizeUrl"))
	if anew.status != 200 || u.Query().Get("state") == state || u.Query().Get("client_id") != "app" || b.readiness("user") != "EXTENSION_CONNECTION_REQUIRED pending" {
		t.Error(anew.status, anew.body)
	}
	no := b.send(person+"user", completeKey, nil, object{"state": u.Query().Get("state"), "error": "access_denied"})
	list := b.send(person+"user", connectionsKey, nil, team)
	if no.status != 409 || no.params[0]["reason"] != "denied" || list.data["connections"].([]any)[0].(object)["state"] != "rejected" {
		t.Error(no.status, no.body, list.body)
	}
	// A code that the service does not take.
	_, q = begin("user")
	b.tokens.status = 400
	bad := b.send(person+"user", completeKey, nil, object{"state": q.Get("state"), "code": "s3cret"})
	if bad.status != 409 || bad.told() != "EXTENSION_CONNECTION_REQUIRED" || b.send(person+"user", connectionsKey, nil, team).data["connections"].([]any)[0].(object)["state"] != "rejected" {
		t.Error(bad.status, bad.body)
	}
	b.silent(done, twice, anew, no, list, bad)
}

func TestWhatIsNoConnectionIsRefusedAndNothingIsKept(t *testing.T) {
	b := newBench(t)
	id := b.install("one", "network", "credentials")
	bearer, account := b.install("two", "network", "credentials"), id
	b.withAccounts(account)
	with := func(o object, name string, v any) object { o[name] = v; return o }
	app := object{"clientId": "app"}
	b.store.writes.Store(0)
	for name, c := range map[string]struct {
		body object
		want string
	}{
		"an instance that is not there": {connect("inst_none", "everyone", object{"token": "s3cret"}), "EXTENSION_NOT_FOUND"},
		"a connector of nobody":         {with(connect(bearer, "everyone", object{"token": "s3cret"}), "connectorId", "other"), "PX_REFERENCE_UNKNOWN /connectorId"},
		"no secret":                     {connect(bearer, "everyone", object{}), "PX_SCHEMA_INVALID /secret"},
		"another kind of secret":        {connect(bearer, "everyone", object{"clientId": "s3cret"}), "PX_SCHEMA_INVALID /secret"},
		"more than a secret":            {connect(bearer, "everyone", object{"token": "s3cret", "clientId": "s3cret"}), "PX_SCHEMA_INVALID /secret"},
		"a secret that splits a header": {connect(bearer, "everyone", object{"token": "s3cret\r\nx: y"}), "PX_SCHEMA_INVALID /secret"},
		"a long secret":                 {connect(bearer, "everyone", object{"token": strings.Repeat("s3cret", 2000)}), "PX_SCHEMA_INVALID /secret/token"},
		"an unknown member":             {connect(bearer, "everyone", object{"token": "s3cret", "other": "s3cret"}), "PX_SCHEMA_UNKNOWN_FIELD /secret"},
		"another owner":                 {connect(bearer, issuer+"second", object{"token": "s3cret"}), "PX_SCHEMA_INVALID /owner"},
		"a way back for a token":        {with(connect(bearer, "everyone", object{"token": "s3cret"}), "redirectUri", back), "PX_SCHEMA_INVALID /redirectUri"},
		"no way back":                   {connect(account, "everyone", app), "PX_SCHEMA_INVALID /redirectUri"},
		"a way back without TLS":        {with(connect(account, "everyone", app), "redirectUri", "http://chat.example.com/"), "PX_SCHEMA_INVALID /redirectUri"},
		"a way back to a neighbour":     {with(connect(account, "everyone", app), "redirectUri", "http://10.0.0.1:80/"), "PX_SCHEMA_INVALID /redirectUri"},
		"a way back to an inside":       {with(connect(account, "everyone", app), "redirectUri", "https://10.0.0.1/"), "PX_SCHEMA_INVALID /redirectUri"},
		"a way back with a name in it":  {with(connect(account, "everyone", app), "redirectUri", "http://s3cret@127.0.0.1:80/"), "PX_SCHEMA_INVALID /redirectUri"},
		"a way back that is a script":   {with(connect(account, "everyone", app), "redirectUri", "javascript:alert(1)"), "PX_SCHEMA_INVALID /redirectUri"},
	} {
		a := b.send(person+"manager", connectKey, nil, c.body)
		if !strings.HasPrefix(a.told(), c.want) {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
		b.silent(a)
	}
	// Who did not know that there has to be a way back is told so.
	if a := b.send(person+"manager", connectKey, nil, connect(account, "everyone", app)); !strings.Contains(a.body, `"rule":"required"`) {
		t.Error(a.body)
	}
	if b.store.writes.Load() != 0 {
		t.Error("something was written")
	}
}

// A secret that was given for one service does not go to another that a new version of
// the plugin names, and people see that.
func TestAnUpdateToAnotherServiceAsksForAnotherConnection(t *testing.T) {
	b := newBench(t)
	id := b.install("one", "network", "credentials")
	made := b.send(person+"manager", connectKey, nil, connect(id, "everyone", object{"token": "s3cret"}))
	b.update(id, "https://api.example.com", "https://evil.example.com")
	list := b.send(person+"manager", connectionsKey, nil, team)
	if got := b.readiness("user"); got != "EXTENSION_CONNECTION_REQUIRED changed" || list.data["connections"].([]any)[0].(object)["state"] != "changed" {
		t.Error(got, list.body)
	}
	a := b.send(person+"manager", connectKey, nil, connect(id, "everyone", object{"token": "s3cret2"}))
	if a.status != 200 || a.text("connectionId") != made.text("connectionId") || b.readiness("user") != "READY" {
		t.Error(a.status, a.body)
	}
}

// A secret whose key is gone is given again as if there were none.
func TestWhatCannotBeOpenedAnyMoreIsGivenAgain(t *testing.T) {
	b := newBench(t)
	id := b.install("one", "network", "credentials")
	made := b.send(person+"manager", connectKey, nil, connect(id, "everyone", object{"token": "s3cret"}))
	b.connections.Keys = &dataKeys{}
	a := b.send(person+"manager", connectKey, nil, connect(id, "everyone", object{"token": "s3cret2"}))
	if a.status != 200 || a.text("connectionId") != made.text("connectionId") {
		t.Error(a.status, a.body)
	}
	b.silent(a)
}

// An authorization that was begun for one service is neither completed nor begun anew
// for another, with the client's secret of the first.
func TestAnAuthorizationIsOfTheServiceThatItWasBegunFor(t *testing.T) {
	b := newBench(t)
	id := b.install("one", "network", "credentials")
	b.withAccounts(id)
	order := connect(id, "self", object{"clientId": "app", "clientSecret": "s3cret-app"})
	order["redirectUri"] = back
	begun := b.send(person+"user", connectKey, nil, order)
	u, err := url.Parse(begun.text("authorizeUrl"))
	b.must(err)
	b.manage(id, "update", object{"generation": 2, "package": files(edited(notes, `"1.0.0","title"`, `"1.2.0","title"`, `"auth":{"kind":"bearer"}`,
		`"auth":{"kind":"oauth2","grant":"authorization_code","token_url":"https://evil.example.com/token","authorization_url":"https://evil.example.com/authorize","scopes":["read"]}`))})
	for key, refs := range map[string][]string{completeKey: nil, authorizeKey: {begun.text("connectionId")}} {
		body := object{"redirectUri": back}
		if key == completeKey {
			body = object{"state": u.Query().Get("state"), "code": "c0de"}
		}
		a := b.send(person+"user", key, refs, body)
		if a.status != 409 || a.told() != "EXTENSION_CONNECTION_REQUIRED" || a.params[0]["reason"] != "changed" || len(b.tokens.forms) != 0 {
			t.Errorf("%s: %d %s", key, a.status, a.body)
		}
		b.silent(a)
	}
}
