package connection_test

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pxhost/pxhost/shared/capability"
	"github.com/pxhost/pxhost/shared/capability/host"
	"github.com/pxhost/pxhost/shared/connection"
	"github.com/pxhost/pxhost/shared/outbound"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/store/memory"
)

// keys are data keys as KMS gives them: what was wrapped with one context cannot be
// unwrapped with another.
type keys struct {
	mu  sync.Mutex
	all map[string][]byte
}

func (k *keys) Generate(_ context.Context, bound map[string]string) (plain, wrapped []byte, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	plain = make([]byte, 32)
	rand.Read(plain)
	if k.all == nil {
		k.all = map[string][]byte{}
	}
	name := rand.Text()
	k.all[name+fmt.Sprint(bound)] = append([]byte{}, plain...)
	return plain, []byte(name), nil
}

func (k *keys) Unwrap(_ context.Context, wrapped []byte, bound map[string]string) ([]byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	plain, ok := k.all[string(wrapped)+fmt.Sprint(bound)]
	if !ok {
		return nil, fmt.Errorf("InvalidCiphertextException: %w", connection.ErrUnreadable)
	}
	return append([]byte{}, plain...), nil
}

// A service is a token URL.
type service struct {
	mu      sync.Mutex
	forms   []url.Values
	headers []http.Header
	give    func(n int, form url.Values) (int, string, error)
}

func (s *service) Send(_ context.Context, q outbound.Request) (*outbound.Response, error) {
	form, err := url.ParseQuery(string(q.Body))
	if err != nil || q.Method != "POST" || q.URL != tokenURL {
		return nil, fmt.Errorf("%+v: %w", q, err)
	}
	s.mu.Lock()
	s.forms, s.headers = append(s.forms, form), append(s.headers, q.Header)
	n := len(s.forms)
	s.mu.Unlock()
	status, body, err := s.give(n, form)
	if err != nil {
		return nil, err
	}
	return &outbound.Response{Status: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}, nil
}

const tokenURL = "https://auth.example.com/token"

type world struct {
	*testing.T
	*connection.Service
	clock   time.Time
	store   *memory.Store
	service *service
}

func open(t *testing.T) *world {
	w := &world{T: t, clock: time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC), service: &service{}}
	now := func() time.Time { return w.clock }
	w.store = memory.New(now)
	w.service.give = func(n int, _ url.Values) (int, string, error) {
		return 200, fmt.Sprintf(`{"access_token":"access%d","token_type":"Bearer","expires_in":600,"refresh_token":"refresh%d"}`, n, n), nil
	}
	w.Service = &connection.Service{Store: w.store, Keys: &keys{}, Sender: w.service, Now: now, Sleep: func(ctx context.Context, d time.Duration) error {
		time.Sleep(d)
		return ctx.Err()
	}}
	return w
}

func connector(auth capability.Auth) capability.Connector {
	return capability.Connector{ConnectorID: "api", BaseURL: "https://api.example.com", Auth: auth}
}

var (
	bearer = connector(capability.Auth{Kind: "bearer"})
	client = connector(capability.Auth{Kind: "oauth2", Grant: "client_credentials", TokenURL: tokenURL, Scopes: []string{"read", "write"}})
	person = connector(capability.Auth{Kind: "oauth2", Grant: "authorization_code", TokenURL: tokenURL, AuthorizationURL: "https://auth.example.com/authorize?a=1", Scopes: []string{"read"}})
)

func wanted(c capability.Connector, s connection.Secret) connection.Wanted {
	return connection.Wanted{Workspace: "team", InstanceID: "inst", Connector: c, By: "manager", Secret: s, Redirect: "https://pxhost.example.com/v1/connections/complete"}
}

func call(c capability.Connector) capability.Call {
	return capability.Call{Workspace: "team", InstanceID: "inst", Actor: "engineer", Connector: &c}
}

func (w *world) create(q connection.Wanted) connection.Made {
	w.Helper()
	made, f, err := w.Create(w.Context(), q)
	if f != nil || err != nil {
		w.Fatal(f, err)
	}
	return made
}

func (w *world) token(c capability.Connector, want string) {
	w.Helper()
	if got, err := w.Bearer(w.Context(), call(c)); err != nil || got != want {
		w.Errorf("the token is %q %v, want %q", got, err, want)
	}
}

func code(err error) outcome.Code {
	f := (*capability.Failure)(nil)
	if errors.As(err, &f) && f != nil {
		return f.Code
	}
	return ""
}

func TestABearerTokenIsGivenToTheCallAndToNobodyElse(t *testing.T) {
	w := open(t)
	if _, err := w.Bearer(t.Context(), call(bearer)); code(err) != outcome.ExtensionConnectionRequired {
		t.Error(err)
	}
	before, _ := w.store.Generation(t.Context(), "team")
	made := w.create(wanted(bearer, connection.Secret{Token: "s3cret"}))
	w.token(bearer, "s3cret")
	c, err := w.store.Connection(t.Context(), made.ConnectionID)
	if err != nil || made.Generation != before+1 || strings.Contains(fmt.Sprintf("%+v %s", c, c.Sealed), "s3cret") {
		t.Errorf("%+v %v", c, err)
	}
	// Another owner's is not taken; one's own comes before everyone's.
	other := wanted(bearer, connection.Secret{Token: "other"})
	other.Owner = "reviewer"
	w.create(other)
	w.token(bearer, "s3cret")
	own := wanted(bearer, connection.Secret{Token: "own"})
	own.Owner = "engineer"
	w.create(own)
	w.token(bearer, "own")
	// A new one takes the place of the old.
	w.create(wanted(bearer, connection.Secret{Token: "rotated"}))
	again, _ := w.store.Connection(t.Context(), made.ConnectionID)
	if again.Version != c.Version+1 {
		t.Errorf("%d, was %d", again.Version, c.Version)
	}
	if _, err := w.Refresh(t.Context(), call(bearer), "rotated"); !errors.Is(err, capability.ErrNoRefresh) {
		t.Error(err)
	}
	if _, err := w.store.Change(t.Context(), host.Change{Workspace: "team", Forget: &again}); err != nil {
		t.Error(err)
	}
	if got, err := w.Bearer(t.Context(), capability.Call{Workspace: "team", InstanceID: "inst", Actor: "viewer", Connector: &bearer}); code(err) != outcome.ExtensionConnectionRequired {
		t.Error(got, err)
	}
	none := connector(capability.Auth{Kind: "none"})
	w.token(none, "")
}

func TestASecretThatDoesNotFitIsRefusedAndNotQuoted(t *testing.T) {
	w := open(t)
	for _, c := range []struct {
		of   capability.Connector
		s    connection.Secret
		rule string
	}{
		{bearer, connection.Secret{}, "token_alone"},
		{bearer, connection.Secret{Token: "a", ClientID: "b"}, "token_alone"},
		{bearer, connection.Secret{Token: "s3cret\r\nX-Evil: 1"}, "characters"},
		{bearer, connection.Secret{Token: strings.Repeat("x", 8<<10+1)}, "too_long"},
		{client, connection.Secret{ClientID: "a"}, "client_and_secret"},
		{client, connection.Secret{ClientID: "a", ClientSecret: "b", Token: "s3cret"}, "client_and_secret"},
		{person, connection.Secret{ClientSecret: "s3cret"}, "client"},
		{connector(capability.Auth{Kind: "none"}), connection.Secret{Token: "s3cret"}, "none"},
	} {
		_, f, err := w.Create(t.Context(), wanted(c.of, c.s))
		if err != nil || f == nil || f.Params["rule"] != c.rule || strings.Contains(fmt.Sprintf("%+v", f), "s3cret") {
			t.Errorf("%+v: %+v %v", c.of.Auth, f, err)
		}
	}
	if all, _ := w.store.Workspace(t.Context(), "team"); len(all.Connections) != 0 {
		t.Error("something was stored")
	}
}

// A sealed secret is of its row: moved to another it cannot be opened.
func TestASealedSecretIsOfItsRow(t *testing.T) {
	w := open(t)
	a := w.create(wanted(bearer, connection.Secret{Token: "a"}))
	q := wanted(bearer, connection.Secret{Token: "b"})
	q.InstanceID = "other"
	b := w.create(q)
	from, _ := w.store.Connection(t.Context(), a.ConnectionID)
	to, _ := w.store.Connection(t.Context(), b.ConnectionID)
	to.Sealed = from.Sealed
	if err := w.store.NoteConnection(t.Context(), to); err != nil {
		t.Fatal(err)
	}
	c := call(bearer)
	c.InstanceID = "other"
	if got, err := w.Bearer(t.Context(), c); code(err) != outcome.ExtensionConnectionRequired || got != "" || !errors.Is(err, connection.ErrUnreadable) {
		t.Errorf("%q was opened elsewhere: %v", got, err)
	}
	to, _ = w.store.Connection(t.Context(), b.ConnectionID)
	to.Sealed[len(to.Sealed)/2] ^= 1
	if err := w.store.NoteConnection(t.Context(), to); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Bearer(t.Context(), c); code(err) != outcome.ExtensionConnectionRequired {
		t.Error("an altered byte was not seen", err)
	}
	// Given again, it can be.
	w.create(q)
	if got, err := w.Bearer(t.Context(), c); err != nil || got != "b" {
		t.Error(got, err)
	}
}

// Whoever could write a row could say that its secret is for another place; then it
// cannot be opened.
func TestASealedSecretIsOfItsDestination(t *testing.T) {
	w := open(t)
	made := w.create(wanted(bearer, connection.Secret{Token: "s3cret"}))
	evil := bearer
	evil.BaseURL = "https://evil.example.com"
	row, _ := w.store.Connection(t.Context(), made.ConnectionID)
	row.Destination = evil.Destination()
	if err := w.store.NoteConnection(t.Context(), row); err != nil {
		t.Fatal(err)
	}
	if got, err := w.Bearer(t.Context(), call(evil)); got != "" || !errors.Is(err, connection.ErrUnreadable) {
		t.Errorf("%q is given for another place: %v", got, err)
	}
}

func TestATokenOfAClientIsRenewedBeforeItEnds(t *testing.T) {
	w := open(t)
	w.create(wanted(client, connection.Secret{ClientID: "id:1", ClientSecret: "s3cret&"}))
	generation, _ := w.store.Generation(t.Context(), "team")
	w.token(client, "access1")
	w.token(client, "access1")
	w.clock = w.clock.Add(569 * time.Second)
	w.token(client, "access1")
	w.clock = w.clock.Add(2 * time.Second)
	w.token(client, "access2")
	if len(w.service.forms) != 2 || w.service.forms[0].Encode() != "grant_type=client_credentials&scope=read+write" ||
		w.service.headers[0].Get("Authorization") != "Basic "+base64.StdEncoding.EncodeToString([]byte("id%3A1:s3cret%26")) {
		t.Error(w.service.forms, w.service.headers)
	}
	// A refused one is renewed at once, and once for all who were refused with it.
	for range 3 {
		if got, err := w.Refresh(t.Context(), call(client), "access2"); err != nil || got != "access3" {
			t.Error(got, err)
		}
	}
	if now, _ := w.store.Generation(t.Context(), "team"); now != generation {
		t.Error("a use of a Connection moves the generation")
	}
}

// Of many calls that find a token over, one renews it.
func TestOneRenewsAToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := open(t)
		w.service.give = func(n int, _ url.Values) (int, string, error) {
			time.Sleep(time.Second)
			return 200, fmt.Sprintf(`{"access_token":"access%d","token_type":"bearer"}`, n), nil
		}
		w.create(wanted(client, connection.Secret{ClientID: "a", ClientSecret: "b"}))
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() { w.token(client, "access1") })
		}
		all.Wait()
		if len(w.service.forms) != 1 {
			t.Errorf("%d asked", len(w.service.forms))
		}
	})
}

// covers: C5
func TestHowARenewalFails(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		body   string
		err    error
		code   outcome.Code
		state  host.ConnectionState
	}{
		"the client is refused":          {401, `{"error":"invalid_client s3cret"}`, nil, outcome.ExtensionConnectionRequired, host.Rejected},
		"the grant is refused":           {400, `{"error":"invalid_grant"}`, nil, outcome.ExtensionConnectionRequired, host.Rejected},
		"a redirect":                     {302, ``, nil, outcome.ExtensionConnectionRequired, host.Rejected},
		"it is down":                     {503, ``, nil, outcome.ExtensionNetworkRetryable, host.Live},
		"it is busy":                     {429, ``, nil, outcome.ExtensionNetworkRetryable, host.Live},
		"no connection":                  {0, ``, &outbound.Error{Kind: outbound.Unreachable}, outcome.ExtensionNetworkRetryable, host.Live},
		"no answer":                      {0, ``, &outbound.Error{Kind: outbound.TimedOut, Written: true}, outcome.ExtensionTimeout, host.Live},
		"a place that is not public":     {0, ``, &outbound.Error{Kind: outbound.Blocked}, outcome.ExtensionPermissionDenied, host.Live},
		"nobody vouches for it":          {0, ``, &outbound.Error{Kind: outbound.Untrusted}, outcome.ExtensionResponseInvalid, host.Live},
		"too much":                       {0, ``, &outbound.Error{Kind: outbound.TooLarge, Written: true}, outcome.ExtensionResponseInvalid, host.Live},
		"no JSON":                        {200, `<s3cret>`, nil, outcome.ExtensionResponseInvalid, host.Live},
		"no token":                       {200, `{"token_type":"bearer"}`, nil, outcome.ExtensionResponseInvalid, host.Live},
		"a token of another kind":        {200, `{"access_token":"s3cret","token_type":"mac"}`, nil, outcome.ExtensionResponseInvalid, host.Live},
		"a token that splits the header": {200, `{"access_token":"s3cret\r\nX: 1","token_type":"bearer"}`, nil, outcome.ExtensionResponseInvalid, host.Live},
	} {
		w := open(t)
		made := w.create(wanted(client, connection.Secret{ClientID: "a", ClientSecret: "b"}))
		w.service.give = func(int, url.Values) (int, string, error) { return c.status, c.body, c.err }
		_, err := w.Bearer(t.Context(), call(client))
		now, _ := w.store.Connection(t.Context(), made.ConnectionID)
		if code(err) != c.code || now.State != c.state || !now.Refreshing.IsZero() || strings.Contains(fmt.Sprint(err), "s3cret") {
			t.Errorf("%s: %v, and it is %s until %v", name, err, now.State, now.Refreshing)
		}
		if failed := (*capability.Failure)(nil); c.code == outcome.ExtensionConnectionRequired && (!errors.As(err, &failed) || failed.Params["connectorId"] != client.ConnectorID || failed.Params["instanceId"] != "inst" || failed.Params["status"] != c.status) {
			t.Errorf("%s: who is to connect what is not told: %v", name, failed)
		}
		if c.state == host.Rejected {
			if _, err := w.Bearer(t.Context(), call(client)); code(err) != outcome.ExtensionConnectionRequired || len(w.service.forms) != 1 {
				t.Errorf("%s: it is asked for again: %v", name, err)
			}
		}
	}
}

// Who died while renewing a token leaves it to the next, soon.
func TestALeaseEnds(t *testing.T) {
	w := open(t)
	made := w.create(wanted(client, connection.Secret{ClientID: "a", ClientSecret: "b"}))
	c, _ := w.store.Connection(t.Context(), made.ConnectionID)
	c.Refreshing = w.clock.Add(20 * time.Second)
	if err := w.store.NoteConnection(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := w.Bearer(ctx, call(client)); err == nil {
		t.Error("a token came from nowhere")
	}
	w.clock = w.clock.Add(20 * time.Second)
	w.token(client, "access1")
}

func TestAPersonSaysYesOnce(t *testing.T) {
	w := open(t)
	made := w.create(wanted(person, connection.Secret{ClientID: "a", ClientSecret: "s"}))
	u, err := url.Parse(made.Authorize)
	q := u.Query()
	if err != nil || made.State != host.Pending || q.Get("a") != "1" || q.Get("response_type") != "code" || q.Get("scope") != "read" || q.Get("code_challenge_method") != "S256" || len(q.Get("state")) < 40 ||
		q.Get("redirect_uri") != "https://pxhost.example.com/v1/connections/complete" || strings.Contains(made.Authorize, "client_secret") {
		t.Errorf("%s %v", made.Authorize, err)
	}
	if _, err := w.Bearer(t.Context(), call(person)); code(err) != outcome.ExtensionConnectionRequired {
		t.Error("a pending one is used", err)
	}
	c, _ := w.store.Connection(t.Context(), made.ConnectionID)
	for _, state := range []string{"", "x", q.Get("state") + "x"} {
		if _, f, err := w.Complete(t.Context(), c, person, state, "code"); f == nil || f.Params["reason"] != "state" || err != nil {
			t.Errorf("%q: %v %v", state, f, err)
		}
	}
	before, _ := w.store.Generation(t.Context(), "team")
	if generation, f, err := w.Complete(t.Context(), c, person, q.Get("state"), "code1"); f != nil || err != nil || generation <= before {
		t.Fatal(generation, f, err)
	}
	form := w.service.forms[0]
	sum := sha256.Sum256([]byte(form.Get("code_verifier")))
	if form.Get("grant_type") != "authorization_code" || form.Get("code") != "code1" || base64.RawURLEncoding.EncodeToString(sum[:]) != q.Get("code_challenge") || form.Get("redirect_uri") == "" {
		t.Error(form)
	}
	w.token(person, "access1")
	// The state was used, by whatever reading of the row.
	now, _ := w.store.Connection(t.Context(), made.ConnectionID)
	if now.State != host.Live {
		t.Error(now.State)
	}
	for _, row := range []host.Connection{c, now} {
		if _, f, err := w.Complete(t.Context(), row, person, q.Get("state"), "code2"); f == nil || err != nil || len(w.service.forms) != 1 {
			t.Error(f, err)
		}
	}
	w.clock = w.clock.Add(600 * time.Second)
	w.token(person, "access2")
	if form := w.service.forms[1]; form.Get("grant_type") != "refresh_token" || form.Get("refresh_token") != "refresh1" {
		t.Error(form)
	}
}

func TestAnAuthorizationThatTakesTooLongOrFailsIsBegunAnew(t *testing.T) {
	w := open(t)
	made := w.create(wanted(person, connection.Secret{ClientID: "a"}))
	c, _ := w.store.Connection(t.Context(), made.ConnectionID)
	u, _ := url.Parse(made.Authorize)
	w.clock = w.clock.Add(10 * time.Minute)
	if _, f, err := w.Complete(t.Context(), c, person, u.Query().Get("state"), "code"); f == nil || f.Params["reason"] != "authorization_over" || err != nil || len(w.service.forms) != 0 {
		t.Error(f, err)
	}
	made = w.create(wanted(person, connection.Secret{ClientID: "a"}))
	c, _ = w.store.Connection(t.Context(), made.ConnectionID)
	u, _ = url.Parse(made.Authorize)
	w.service.give = func(int, url.Values) (int, string, error) { return 400, `{"error":"invalid_grant"}`, nil }
	if _, f, err := w.Complete(t.Context(), c, person, u.Query().Get("state"), "code"); f == nil || f.Code != outcome.ExtensionConnectionRequired || err != nil {
		t.Error(f, err)
	}
	if form := w.service.forms[0]; form.Get("client_id") != "a" || w.service.headers[0].Get("Authorization") != "" {
		t.Error(form)
	}
	if _, f, _ := w.Complete(t.Context(), c, person, u.Query().Get("state"), "code"); f == nil || len(w.service.forms) != 1 {
		t.Error("a code that failed was sent again")
	}
	if now, _ := w.store.Connection(t.Context(), made.ConnectionID); now.State != host.Rejected {
		t.Errorf("of a code that the service refused it is %s", now.State)
	}
}

// Who says no is not asked again, and nothing is sent.
//
// covers: C3
func TestAPersonSaysNo(t *testing.T) {
	w := open(t)
	made := w.create(wanted(person, connection.Secret{ClientID: "a"}))
	c, _ := w.store.Connection(t.Context(), made.ConnectionID)
	u, _ := url.Parse(made.Authorize)
	if _, f, err := w.Complete(t.Context(), c, person, "other", ""); f == nil || f.Params["reason"] != "state" || err != nil {
		t.Error("anybody can say no", f, err)
	}
	before, _ := w.store.Generation(t.Context(), "team")
	if _, f, err := w.Complete(t.Context(), c, person, u.Query().Get("state"), ""); f == nil || f.Params["reason"] != "denied" || err != nil {
		t.Error(f, err)
	}
	now, _ := w.store.Connection(t.Context(), made.ConnectionID)
	if after, _ := w.store.Generation(t.Context(), "team"); now.State != host.Rejected || after <= before || len(w.service.forms) != 0 {
		t.Errorf("it is %s, generation %d after %d", now.State, after, before)
	}
}

// What the service takes for no token any more is not sent again.
//
// covers: C3, C5
func TestARefusedTokenIsNotUsedAgain(t *testing.T) {
	w := open(t)
	made := w.create(wanted(bearer, connection.Secret{Token: "a"}))
	w.create(wanted(bearer, connection.Secret{Token: "b"}))
	before, _ := w.store.Generation(t.Context(), "team")
	// One that was replaced meanwhile is nobody's.
	if err := w.Refused(t.Context(), call(bearer), "a"); err != nil {
		t.Error(err)
	}
	w.token(bearer, "b")
	if after, _ := w.store.Generation(t.Context(), "team"); after != before {
		t.Error("the generation has moved")
	}
	if err := w.Refused(t.Context(), call(bearer), "b"); err != nil {
		t.Error(err)
	}
	now, _ := w.store.Connection(t.Context(), made.ConnectionID)
	after, _ := w.store.Generation(t.Context(), "team")
	if _, err := w.Bearer(t.Context(), call(bearer)); code(err) != outcome.ExtensionConnectionRequired || now.State != host.Rejected || after != before+1 {
		t.Errorf("%v, it is %s, generation %d after %d", err, now.State, after, before)
	}
	if err := w.Refused(t.Context(), call(bearer), "b"); err != nil {
		t.Error(err)
	}
	// A token that can be got anew is got anew, with the next call.
	w.create(wanted(client, connection.Secret{ClientID: "a", ClientSecret: "b"}))
	w.token(client, "access1")
	if err := w.Refused(t.Context(), call(client), "other"); err != nil {
		t.Error(err)
	}
	w.token(client, "access1")
	if err := w.Refused(t.Context(), call(client), "access1"); err != nil {
		t.Error(err)
	}
	w.token(client, "access2")
}

// covers: C5
func TestATokenThatIsOverAndCannotBeRenewedAsksForAPerson(t *testing.T) {
	w := open(t)
	w.service.give = func(int, url.Values) (int, string, error) {
		return 200, `{"access_token":"access","token_type":"Bearer","expires_in":600}`, nil
	}
	made := w.create(wanted(person, connection.Secret{ClientID: "a"}))
	c, _ := w.store.Connection(t.Context(), made.ConnectionID)
	u, _ := url.Parse(made.Authorize)
	if _, f, err := w.Complete(t.Context(), c, person, u.Query().Get("state"), "code"); f != nil || err != nil {
		t.Fatal(f, err)
	}
	w.token(person, "access")
	w.clock = w.clock.Add(600 * time.Second)
	_, err := w.Bearer(t.Context(), call(person))
	if now, _ := w.store.Connection(t.Context(), made.ConnectionID); code(err) != outcome.ExtensionConnectionRequired || now.State != host.Rejected {
		t.Errorf("%v, it is %s", err, now.State)
	}
}

// What people gave for one service is not sent to another that a later version of the
// plugin names.
func TestASecretIsForTheDestinationThatItWasGivenFor(t *testing.T) {
	for name, change := range map[string]func(*capability.Connector){
		"another host":      func(c *capability.Connector) { c.BaseURL = "https://evil.example.com" },
		"another scheme":    func(c *capability.Connector) { c.BaseURL = "http://api.example.com" },
		"another token URL": func(c *capability.Connector) { c.Auth.TokenURL = "https://evil.example.com/token" },
		"another kind":      func(c *capability.Connector) { c.Auth = capability.Auth{Kind: "bearer"} },
	} {
		w := open(t)
		w.create(wanted(client, connection.Secret{ClientID: "a", ClientSecret: "s3cret"}))
		other := client
		change(&other)
		if got, err := w.Bearer(t.Context(), call(other)); code(err) != outcome.ExtensionConnectionRequired || len(w.service.forms) != 0 {
			t.Errorf("%s: %q %v", name, got, err)
		}
		same := client
		same.BaseURL, same.Path, same.Auth.Scopes = "https://API.example.com:443/v2", "/x", nil
		w.token(same, "access1")
	}
}
