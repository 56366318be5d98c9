package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/pxhost/pxhost/infra/local/oidc"
	"github.com/pxhost/pxhost/shared/wire"
	"github.com/pxhost/pxhost/shared/wire/gateway"
)

var smokeCommand = command{
	name:    "smoke",
	summary: "check what MCP clients ask of a host first, after it was deployed",
	run: func(ctx context.Context, env *environment, args []string) error {
		fs := env.flags("smoke", "[flags]")
		var to endpointFlags
		to.add(fs)
		if err := env.parse(fs, args, false); err != nil {
			return err
		}
		endpoint, err := env.endpoint(to)
		if err != nil {
			return err
		}
		s := &smoke{endpoint: endpoint, base: strings.TrimSuffix(endpoint.url, gateway.Path)}
		failed := 0
		for _, check := range s.checks() {
			if err := check.run(ctx); err != nil {
				failed++
				fmt.Fprintf(env.out, "FAILED  %s: %v\n", check.name, err)
				continue
			}
			fmt.Fprintf(env.out, "ok      %s\n", check.name)
		}
		if failed > 0 {
			return &exitError{exitFailed, fmt.Errorf("%d checks failed at %s", failed, s.base)}
		}
		return nil
	},
}

// A smoke looks at a host from outside, as a client that has never seen it.
type smoke struct {
	*endpoint
	base     string
	metadata string // where the host says that its metadata is
	issuer   string
}

type smokeCheck struct {
	name string
	run  func(context.Context) error
}

// checks are in the order in which a client asks; each stands on those before it.
func (s *smoke) checks() []smokeCheck {
	return []smokeCheck{
		{"a request without a token says in WWW-Authenticate where to get one", s.challenge},
		{"the metadata names this resource, its scope and who gives tokens (RFC 9728)", s.resource},
		{"who gives tokens says so itself, with the same name", s.authorization},
		{"the formal endpoint asks for a token as well", s.formal},
		{"a stream of the server's own is not offered (405)", s.stream},
		{"a page of another origin is refused (403)", s.foreign},
		{"a client with a handshake gets 21 tools", s.list},
		{"a client without a handshake is told the versions", s.discover},
		{"a tool answers", s.call},
	}
}

const (
	smokeMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"` + wire.Modern + `","io.modelcontextprotocol/clientCapabilities":{}}`
	smokeList = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
)

// ask sends a request; headers are pairs, and one of Authorization is in place of the
// token. It returns what came back.
func (s *smoke) ask(ctx context.Context, method, url, body string, headers ...string) (*http.Response, []byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	if strings.HasPrefix(url, s.base+"/") { // a token goes to its host alone
		request.Header.Set("Authorization", "Bearer "+s.token)
	}
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Accept", "application/json, text/event-stream")
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i+1] == "" {
			request.Header.Del(headers[i])
			continue
		}
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := s.http.Do(request)
	if err != nil {
		return nil, nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxReply))
	return response, text, err
}

// status is ask for an answer of which the status alone matters.
func (s *smoke) status(ctx context.Context, want int, method, url, body string, headers ...string) (*http.Response, []byte, error) {
	response, text, err := s.ask(ctx, method, url, body, headers...)
	if err == nil && response.StatusCode != want {
		err = fmt.Errorf("the status is %d, and not %d: %s", response.StatusCode, want, short(text))
	}
	return response, text, err
}

var metadataIn = regexp.MustCompile(`(?i)^Bearer .*\bresource_metadata="([^"]+)"`)

// asks makes sure that an answer asks for a token where clients look.
func asks(response *http.Response) (challenge string, _ error) {
	challenge = response.Header.Get("WWW-Authenticate")
	switch {
	case challenge == "" && response.Header.Get("X-Amzn-Remapped-Www-Authenticate") != "":
		return "", errors.New("API Gateway has renamed WWW-Authenticate, and the response parameters of the integration do not give it back")
	case !strings.HasPrefix(challenge, "Bearer "):
		return "", fmt.Errorf("WWW-Authenticate is %q", short([]byte(challenge)))
	}
	return challenge, nil
}

func (s *smoke) challenge(ctx context.Context) error {
	response, _, err := s.status(ctx, http.StatusUnauthorized, http.MethodPost, s.base+gateway.StandardPath, smokeList, "Authorization", "")
	if err != nil {
		return err
	}
	challenge, err := asks(response)
	if err != nil {
		return err
	}
	found := metadataIn.FindStringSubmatch(challenge)
	if want := s.base + gateway.MetadataPath + gateway.StandardPath; found == nil || found[1] != want {
		return fmt.Errorf("WWW-Authenticate is %q, without resource_metadata=%q", short([]byte(challenge)), want)
	}
	s.metadata = found[1]
	return nil
}

func (s *smoke) resource(ctx context.Context) error {
	if s.metadata == "" {
		s.metadata = s.base + gateway.MetadataPath + gateway.StandardPath
	}
	_, text, err := s.status(ctx, http.StatusOK, http.MethodGet, s.metadata, "", "Authorization", "")
	if err != nil {
		return err
	}
	var got struct {
		Resource string   `json:"resource"`
		Servers  []string `json:"authorization_servers"`
		Scopes   []string `json:"scopes_supported"`
	}
	if err := json.Unmarshal(text, &got); err != nil {
		return err
	}
	if got.Resource != s.base+gateway.StandardPath || len(got.Servers) != 1 || !slices.Contains(got.Scopes, oidc.ScopeTools) {
		return fmt.Errorf("it says %s", short(text))
	}
	s.issuer = got.Servers[0]
	return nil
}

func (s *smoke) authorization(ctx context.Context) error {
	if s.issuer == "" {
		return errors.New("the metadata names nobody")
	}
	// An issuer may have either document; clients look for both.
	var failed error
	for _, path := range []string{"/.well-known/openid-configuration", "/.well-known/oauth-authorization-server"} {
		_, text, err := s.status(ctx, http.StatusOK, http.MethodGet, s.issuer+path, "", "Authorization", "")
		var got struct {
			Issuer string `json:"issuer"`
			Keys   string `json:"jwks_uri"`
		}
		if err == nil {
			err = json.Unmarshal(text, &got)
		}
		if err == nil && (got.Issuer != s.issuer || got.Keys == "") {
			err = fmt.Errorf("it says %s", short(text))
		}
		if err == nil {
			return nil
		}
		failed = errors.Join(failed, fmt.Errorf("%s: %w", path, err))
	}
	return failed
}

func (s *smoke) formal(ctx context.Context) error {
	response, _, err := s.status(ctx, http.StatusUnauthorized, http.MethodPost, s.base+gateway.Path, smokeList, "Authorization", "", "Content-Type", ndjson)
	if err != nil {
		return err
	}
	_, err = asks(response)
	return err
}

func (s *smoke) stream(ctx context.Context) error {
	response, _, err := s.status(ctx, http.StatusMethodNotAllowed, http.MethodGet, s.base+gateway.StandardPath, "", "Accept", "text/event-stream")
	if err == nil && response.Header.Get("Allow") != http.MethodPost {
		err = fmt.Errorf("the header Allow is %q", response.Header.Get("Allow"))
	}
	return err
}

func (s *smoke) foreign(ctx context.Context) error {
	_, _, err := s.status(ctx, http.StatusForbidden, http.MethodPost, s.base+gateway.StandardPath, smokeList, "Origin", "https://pxhost.invalid")
	return err
}

// reply sends a message and reads the result of its reply.
func (s *smoke) reply(ctx context.Context, into any, body string, headers ...string) error {
	_, text, err := s.status(ctx, http.StatusOK, http.MethodPost, s.base+gateway.StandardPath, body, headers...)
	if err != nil {
		return err
	}
	var got struct{ Result json.RawMessage }
	if err := json.Unmarshal(text, &got); err != nil || got.Result == nil {
		return fmt.Errorf("no result: %s", short(text))
	}
	return json.Unmarshal(got.Result, into)
}

func (s *smoke) list(ctx context.Context) error {
	var hello struct{ ProtocolVersion string }
	version := wire.Handshake[0]
	if err := s.reply(ctx, &hello, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"`+version+`","capabilities":{},"clientInfo":{"name":"px smoke","version":"1"}}}`); err != nil {
		return err
	}
	if hello.ProtocolVersion != version {
		return fmt.Errorf("it agrees to %q", hello.ProtocolVersion)
	}
	var got struct{ Tools []struct{ Name string } }
	if err := s.reply(ctx, &got, smokeList, "MCP-Protocol-Version", version); err != nil {
		return err
	}
	if len(got.Tools) != 21 {
		return fmt.Errorf("there are %d", len(got.Tools))
	}
	return nil
}

func (s *smoke) discover(ctx context.Context) error {
	var got struct{ SupportedVersions []string }
	if err := s.reply(ctx, &got, `{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{`+smokeMeta+`}}`, "MCP-Protocol-Version", wire.Modern, "Mcp-Method", "server/discover"); err != nil {
		return err
	}
	if !slices.Contains(got.SupportedVersions, wire.Modern) {
		return fmt.Errorf("they are %q", got.SupportedVersions)
	}
	return nil
}

func (s *smoke) call(ctx context.Context) error {
	var got struct {
		StructuredContent struct {
			OK          bool `json:"ok"`
			Diagnostics json.RawMessage
		}
	}
	if err := s.reply(ctx, &got, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"project_search","arguments":{"scope":{"kind":"principal"}}}}`); err != nil {
		return err
	}
	if !got.StructuredContent.OK {
		return fmt.Errorf("it is refused: %s", short(bytes.TrimSpace(got.StructuredContent.Diagnostics)))
	}
	return nil
}
