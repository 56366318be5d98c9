// Package connection keeps the credentials of connectors: bearer tokens, OAuth 2.0
// client credentials, and OAuth 2.0 authorization codes with PKCE (RFC 6749, 7636).
//
// A secret goes in and never comes out: it is stored sealed, opened at the moment of a
// call, sent to the connector's own origin or its token URL, and is in no error, log or
// answer. A new secret of a Connection moves the generation of its workspace in the same
// write (C3).
//
// A token is renewed by one at a time: who is at it has a lease on the row. Who finds it
// leased waits for that one's token.
package connection

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/capability"
	"github.com/pxhost/pxhost/shared/capability/host"
	"github.com/pxhost/pxhost/shared/outbound"
	"github.com/pxhost/pxhost/shared/outcome"
)

// The kinds of credentials.
const (
	Bearer            = "bearer"
	ClientCredentials = "client_credentials"
	AuthorizationCode = "authorization_code"
)

const (
	early        = 30 * time.Second // a token is renewed so long before it ends
	leaseFor     = 20 * time.Second // of who renews it
	tokenFor     = 15 * time.Second // that a token URL has to answer: less than the lease
	authorizeFor = 10 * time.Minute // that a person has to say yes
	unsaid       = time.Hour        // how long a token is good whose service does not say
)

// A Secret is what a person gives.
type Secret struct {
	Token        string `json:"token,omitzero"` // of bearer
	ClientID     string `json:"clientId,omitzero"`
	ClientSecret string `json:"clientSecret,omitzero"`
}

// held is what is sealed.
type held struct {
	Secret
	Access   string `json:"access,omitzero"`
	Refresh  string `json:"refresh,omitzero"`
	Verifier string `json:"verifier,omitzero"` // while an authorization is under way
	State    string `json:"state,omitzero"`
	Redirect string `json:"redirect,omitzero"`
}

// A Sender sends requests; *outbound.Client does.
type Sender interface {
	Send(ctx context.Context, q outbound.Request) (*outbound.Response, error)
}

// Service makes, uses and renews Connections.
type Service struct {
	Store  host.Store
	Keys   DataKeys
	Sender Sender
	Now    func() time.Time
	// Sleep waits while another renews a token.
	Sleep func(ctx context.Context, d time.Duration) error
}

// bound is the context that a Connection's secret is sealed for: moved to another row it
// cannot be opened.
func bound(c host.Connection) map[string]string {
	return map[string]string{"workspace": c.Workspace, "connection": c.ConnectionID, "instance": c.InstanceID, "connector": c.ConnectorID, "destination": c.Destination}
}

func (s *Service) open(ctx context.Context, c host.Connection) (held, error) {
	text, err := open(ctx, s.Keys, bound(c), c.Sealed)
	if errors.Is(err, ErrUnreadable) { // a person must give it again
		f := required(c, "unreadable")
		f.Cause = err
		return held{}, f
	}
	if err != nil {
		return held{}, err
	}
	defer clear(text)
	var h held
	if err := json.Unmarshal(text, &h); err != nil {
		return held{}, ErrUnreadable
	}
	return h, nil
}

func (s *Service) seal(ctx context.Context, c *host.Connection, h held) error {
	text, err := canon.Encode(h)
	if err != nil {
		return ErrUnreadable
	}
	defer clear(text)
	c.Sealed, err = seal(ctx, s.Keys, bound(*c), text)
	return err
}

// A Wanted says what a new Connection is of.
type Wanted struct {
	Workspace, InstanceID string
	Connector             capability.Connector
	Owner                 string // the actor whose own it is, "" is everyone's
	By                    string
	Secret                Secret
	Redirect              string // of authorization_code: where the service sends the person back
}

// A Made is a new Connection. Authorize is where a person says yes, of
// authorization_code.
type Made struct {
	ConnectionID string               `json:"connectionId"`
	State        host.ConnectionState `json:"state"`
	Authorize    string               `json:"authorizeUrl,omitzero"`
	Generation   int64                `json:"catalogGeneration"`
}

// kindOf is the kind of credential that a connector takes.
func kindOf(a capability.Auth) string {
	if a.Kind == "oauth2" {
		return a.Grant
	}
	return a.Kind
}

// check says which part of a secret a connector's credential lacks, or must not have.
func check(kind string, s Secret) (rule string) {
	printable := func(text string) bool {
		return !strings.ContainsFunc(text, func(r rune) bool { return r < 0x21 || r > 0x7e })
	}
	switch {
	case len(s.Token) > 8<<10 || len(s.ClientID) > 1024 || len(s.ClientSecret) > 8<<10:
		return "too_long"
	case !printable(s.Token) || !printable(s.ClientID):
		return "characters"
	case kind == Bearer && (s.Token == "" || s.ClientID+s.ClientSecret != ""):
		return "token_alone"
	case kind == ClientCredentials && (s.ClientID == "" || s.ClientSecret == "" || s.Token != ""):
		return "client_and_secret"
	case kind == AuthorizationCode && (s.ClientID == "" || s.Token != ""):
		return "client"
	case kind == "none":
		return "none"
	}
	return ""
}

// id is the Connection of a connector and an owner: there is one.
func id(w Wanted) string {
	return canon.Ref("conn_", w.Workspace, w.InstanceID, w.Connector.ConnectorID, w.Owner)
}

// Create stores a credential, in place of the one that there was. Of an authorization
// code it begins the authorization, and until that is complete there is none.
func (s *Service) Create(ctx context.Context, w Wanted) (Made, *capability.Failure, error) {
	kind := kindOf(w.Connector.Auth)
	if rule := check(kind, w.Secret); rule != "" {
		return Made{}, &capability.Failure{Code: outcome.SchemaInvalid, Params: outcome.Params{"rule": rule}}, nil
	}
	old, err := s.Store.Connection(ctx, id(w))
	if err != nil && !errors.Is(err, host.ErrNotFound) {
		return Made{}, nil, err
	}
	c := host.Connection{ConnectionID: id(w), Workspace: w.Workspace, InstanceID: w.InstanceID, ConnectorID: w.Connector.ConnectorID, Owner: w.Owner, Kind: kind,
		Destination: w.Connector.Destination(), State: host.Live,
		CreatedAt: s.Now(), CreatedBy: w.By, Version: old.Version}
	h := held{Secret: w.Secret}
	made := Made{ConnectionID: c.ConnectionID, State: c.State}
	if kind == AuthorizationCode {
		c.State, made.State = host.Pending, host.Pending
		c.ExpiresAt = s.Now().Add(authorizeFor)
		h.State, h.Verifier, h.Redirect = c.ConnectionID+"."+random(), random(), w.Redirect
		if made.Authorize, err = authorizeURL(w, h); err != nil {
			return Made{}, nil, err
		}
	}
	if err := s.seal(ctx, &c, h); err != nil {
		return Made{}, nil, err
	}
	made.Generation, err = s.Store.Change(ctx, host.Change{Workspace: w.Workspace, Connection: &c})
	return made, nil, err
}

func random() string { return rand.Text() + rand.Text() }

// authorizeURL is where a person says yes (RFC 6749, 4.1.1; RFC 7636, 4.3).
func authorizeURL(w Wanted, h held) (string, error) {
	u, err := url.Parse(w.Connector.Auth.AuthorizationURL)
	if err != nil {
		return "", errors.New("connection: the authorization URL is none")
	}
	sum := sha256.Sum256([]byte(h.Verifier))
	q := u.Query()
	for name, value := range map[string]string{"response_type": "code", "client_id": h.ClientID, "redirect_uri": h.Redirect, "scope": strings.Join(w.Connector.Auth.Scopes, " "), "state": h.State,
		"code_challenge": base64.RawURLEncoding.EncodeToString(sum[:]), "code_challenge_method": "S256"} {
		if value != "" {
			q.Set(name, value)
		}
	}
	u.RawQuery = q.Encode()
	return u.String(), nil
}

// Complete takes what the service sent a person back with: a code, or "" where he said
// no. The state is used once. A no, and a code that the service does not take, leave the
// Connection rejected: it is authorized anew, or there is none.
func (s *Service) Complete(ctx context.Context, c host.Connection, connector capability.Connector, state, code string) (int64, *capability.Failure, error) {
	refuse := func(reason string) (int64, *capability.Failure, error) {
		return 0, required(c, reason), nil
	}
	if c.State != host.Pending || !c.ExpiresAt.After(s.Now()) {
		return refuse("authorization_over")
	}
	h, err := s.open(ctx, c)
	if err != nil {
		return 0, nil, err
	}
	if h.State == "" || subtle.ConstantTimeCompare([]byte(h.State), []byte(state)) != 1 {
		return refuse("state")
	}
	form := url.Values{"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {h.Redirect}, "code_verifier": {h.Verifier}}
	// The code is used once, whatever comes of it: the row is taken first.
	taken := c
	h.State = ""
	taken.ExpiresAt = s.Now()
	if code == "" {
		taken.State = host.Rejected
	}
	if err := s.seal(ctx, &taken, h); err != nil {
		return 0, nil, err
	}
	if _, err := s.Store.Change(ctx, host.Change{Workspace: c.Workspace, Connection: &taken}); err != nil {
		if errors.Is(err, host.ErrMoved) {
			return refuse("state")
		}
		return 0, nil, err
	}
	taken.Version++
	if code == "" {
		return refuse("denied")
	}
	t, failure, err := s.token(ctx, c, connector.Auth, h, form)
	if failure != nil && failure.Code == outcome.ExtensionConnectionRequired {
		err = s.reject(ctx, taken)
	}
	if failure != nil || err != nil {
		return 0, failure, err
	}
	h.Access, h.Verifier, h.Redirect = t.Access, "", ""
	if t.Refresh != "" {
		h.Refresh = t.Refresh
	}
	taken.State, taken.ExpiresAt = host.Live, s.Now().Add(t.life())
	if err := s.seal(ctx, &taken, h); err != nil {
		return 0, nil, err
	}
	generation, err := s.Store.Change(ctx, host.Change{Workspace: c.Workspace, Connection: &taken})
	return generation, nil, err
}

// token is what a token URL gives (RFC 6749, 5.1).
type token struct {
	Access  string `json:"access_token"`
	Type    string `json:"token_type"`
	Seconds int64  `json:"expires_in"`
	Refresh string `json:"refresh_token"`
}

func (t token) life() time.Duration {
	if t.Seconds <= 0 || t.Seconds > 10*365*24*3600 {
		return unsaid
	}
	return time.Duration(t.Seconds) * time.Second
}

// token asks for one. The client shows who it is in the header (RFC 6749, 2.3.1), or by
// its ID alone where it has no secret.
func (s *Service) token(ctx context.Context, c host.Connection, a capability.Auth, h held, form url.Values) (token, *capability.Failure, error) {
	header := http.Header{"Content-Type": {"application/x-www-form-urlencoded"}, "Accept": {"application/json"}}
	if h.ClientSecret != "" {
		header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(url.QueryEscape(h.ClientID)+":"+url.QueryEscape(h.ClientSecret))))
	} else {
		form.Set("client_id", h.ClientID)
	}
	ctx, stop := context.WithTimeout(ctx, tokenFor)
	defer stop()
	refuse := func(code outcome.Code, params outcome.Params, cause error) (token, *capability.Failure, error) {
		return token{}, &capability.Failure{Code: code, Params: params, Cause: cause}, nil
	}
	answer, err := s.Sender.Send(ctx, outbound.Request{Method: http.MethodPost, URL: a.TokenURL, Header: header, Body: []byte(form.Encode())})
	var text []byte
	if err == nil {
		text, err = answer.ReadAll()
	}
	if err != nil {
		failed := (*outbound.Error)(nil)
		if !errors.As(err, &failed) {
			return token{}, nil, err
		}
		switch failed.Kind {
		case outbound.Blocked:
			return refuse(outcome.ExtensionPermissionDenied, outcome.Params{"rule": "not_public"}, failed)
		case outbound.TimedOut:
			return refuse(outcome.ExtensionTimeout, nil, failed)
		case outbound.Unreachable, outbound.Broken:
			return refuse(outcome.ExtensionNetworkRetryable, nil, failed)
		}
		// Nobody vouches for it, or it says what is no answer: it would again.
		return refuse(outcome.ExtensionResponseInvalid, outcome.Params{"rule": string(failed.Kind)}, failed)
	}
	switch {
	case answer.Status == http.StatusTooManyRequests || answer.Status >= 500:
		return refuse(outcome.ExtensionNetworkRetryable, outcome.Params{"status": answer.Status}, nil)
	case answer.Status != http.StatusOK:
		f := required(c, "rejected")
		f.Params["status"] = answer.Status
		return token{}, f, nil
	}
	var t token
	canonical, err := canon.Canonicalize(text)
	if err != nil || json.Unmarshal(canonical, &t) != nil || t.Access == "" || !strings.EqualFold(t.Type, "bearer") || check(Bearer, Secret{Token: t.Access}) != "" {
		return refuse(outcome.ExtensionResponseInvalid, outcome.Params{"rule": "token"}, nil)
	}
	return t, nil, nil
}

// required is the failure of who needs a Connection and has none, and why.
func required(c host.Connection, reason string) *capability.Failure {
	return &capability.Failure{Code: outcome.ExtensionConnectionRequired, Params: outcome.Params{"connectorId": c.ConnectorID, "instanceId": c.InstanceID, "reason": reason}}
}

// reject says in the catalog that a person must connect again. Where the row has moved,
// it is another credential's.
func (s *Service) reject(ctx context.Context, c host.Connection) error {
	c.State = host.Rejected
	_, err := s.Store.Change(ctx, host.Change{Workspace: c.Workspace, Connection: &c})
	if errors.Is(err, host.ErrMoved) {
		return nil
	}
	return err
}

// find returns the Connection that an actor's call uses: his own before everyone's. One
// that was made for another destination than the connector has now is none.
func (s *Service) find(ctx context.Context, c capability.Call) (host.Connection, error) {
	for _, owner := range []string{c.Actor, ""} {
		found, err := s.Store.Connection(ctx, id(Wanted{Workspace: c.Workspace, InstanceID: c.InstanceID, Connector: *c.Connector, Owner: owner}))
		if errors.Is(err, host.ErrNotFound) || err == nil && (found.State != host.Live || found.Destination != c.Connector.Destination()) {
			continue
		}
		return found, err
	}
	return host.Connection{}, required(host.Connection{ConnectorID: c.Connector.ConnectorID, InstanceID: c.InstanceID}, "none")
}

// Bearer returns the token of a call, "" where its connector needs none.
func (s *Service) Bearer(ctx context.Context, c capability.Call) (string, error) {
	if c.Connector == nil || c.Connector.Auth.Kind == "none" {
		return "", nil
	}
	found, err := s.find(ctx, c)
	if err != nil {
		return "", err
	}
	h, err := s.open(ctx, found)
	if err != nil {
		return "", err
	}
	switch {
	case found.Kind == Bearer:
		return h.Token, nil
	case h.Access != "" && found.ExpiresAt.After(s.Now().Add(early)):
		return h.Access, nil
	}
	token, err := s.renew(ctx, c, h.Access)
	if errors.Is(err, capability.ErrNoRefresh) {
		// What a person once allowed is over, and the service gave nothing to go on with.
		return "", errors.Join(required(found, "expired"), s.reject(ctx, found))
	}
	return token, err
}

// Refresh returns another token than the one that was refused, or
// capability.ErrNoRefresh.
func (s *Service) Refresh(ctx context.Context, c capability.Call, refused string) (string, error) {
	if c.Connector == nil || kindOf(c.Connector.Auth) == "none" || kindOf(c.Connector.Auth) == Bearer {
		return "", capability.ErrNoRefresh
	}
	return s.renew(ctx, c, refused)
}

// Refused notes that the service took a token for none. One that can be got anew is over,
// and the next call gets another; of a bearer token a person must give another, and the
// catalog says so. A token that was replaced meanwhile is nobody's any more.
func (s *Service) Refused(ctx context.Context, c capability.Call, refused string) error {
	if c.Connector == nil || c.Connector.Auth.Kind == "none" {
		return nil
	}
	for {
		found, err := s.find(ctx, c)
		if err != nil {
			var none *capability.Failure
			if errors.As(err, &none) {
				return nil
			}
			return err
		}
		h, err := s.open(ctx, found)
		if err != nil {
			return err
		}
		switch {
		case found.Kind == Bearer && h.Token == refused:
			found.State = host.Rejected
			_, err = s.Store.Change(ctx, host.Change{Workspace: found.Workspace, Connection: &found})
		case found.Kind != Bearer && h.Access == refused && found.ExpiresAt.After(s.Now()):
			found.ExpiresAt = s.Now()
			err = s.note(ctx, &found)
		}
		if !errors.Is(err, host.ErrMoved) {
			return err
		}
	}
}

// renew gets a token in place of one, or finds that another has got it meanwhile.
func (s *Service) renew(ctx context.Context, c capability.Call, instead string) (string, error) {
	for {
		found, err := s.find(ctx, c)
		if err != nil {
			return "", err
		}
		h, err := s.open(ctx, found)
		if err != nil {
			return "", err
		}
		switch {
		case h.Access != "" && h.Access != instead && found.ExpiresAt.After(s.Now()):
			return h.Access, nil
		case found.Refreshing.After(s.Now()):
			if err := s.Sleep(ctx, 100*time.Millisecond); err != nil {
				return "", &capability.Failure{Code: outcome.ExtensionTimeout, Cause: err}
			}
			continue
		}
		form := url.Values{"grant_type": {"client_credentials"}}
		if found.Kind == AuthorizationCode {
			if h.Refresh == "" {
				return "", capability.ErrNoRefresh
			}
			form = url.Values{"grant_type": {"refresh_token"}, "refresh_token": {h.Refresh}}
		} else if len(c.Connector.Auth.Scopes) > 0 {
			form.Set("scope", strings.Join(c.Connector.Auth.Scopes, " "))
		}
		found.Refreshing = s.Now().Add(leaseFor)
		if err := s.note(ctx, &found); err != nil {
			if errors.Is(err, host.ErrMoved) {
				continue
			}
			return "", err
		}
		t, failure, err := s.token(ctx, found, c.Connector.Auth, h, form)
		found.Refreshing = time.Time{}
		if failure != nil || err != nil {
			if failure != nil && failure.Code == outcome.ExtensionConnectionRequired {
				return "", errors.Join(failure, s.reject(ctx, found))
			}
			return "", errors.Join(errOf(failure), err, s.note(ctx, &found))
		}
		h.Access = t.Access
		if t.Refresh != "" {
			h.Refresh = t.Refresh
		}
		found.ExpiresAt = s.Now().Add(t.life())
		if err := s.seal(ctx, &found, h); err != nil {
			return "", err
		}
		if err := s.note(ctx, &found); err != nil {
			// A Connection that was changed or removed meanwhile is not one any more; the
			// token was got by one that was.
			if errors.Is(err, host.ErrMoved) {
				continue
			}
			return "", err
		}
		return h.Access, nil
	}
}

func errOf(f *capability.Failure) error {
	if f == nil {
		return nil
	}
	return f
}

// note writes what a Connection's use changes: no one's catalog.
func (s *Service) note(ctx context.Context, c *host.Connection) error {
	if err := s.Store.NoteConnection(ctx, *c); err != nil {
		return fmt.Errorf("connection: %w", err)
	}
	c.Version++
	return nil
}
