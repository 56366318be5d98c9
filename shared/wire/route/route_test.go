package route_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pxhost/pxhost/shared/cursor"
	"github.com/pxhost/pxhost/shared/identity"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/tool"
	"github.com/pxhost/pxhost/shared/wire/event"
	"github.com/pxhost/pxhost/shared/wire/route"
)

// tokens are "scope subject"; one of the scope both is refused for holding two.
type tokens struct{}

func (tokens) Verify(_ context.Context, authorization, scope string) (identity.Token, error) {
	has, subject, ok := strings.Cut(strings.TrimPrefix(authorization, "Bearer "), " ")
	switch {
	case !ok:
		return identity.Token{}, &identity.Error{Reason: identity.ReasonMissing}
	case has == "both":
		return identity.Token{}, &identity.Error{Reason: identity.ReasonMixedScopes}
	case has != scope:
		return identity.Token{}, &identity.Error{Reason: identity.ReasonScope}
	}
	return identity.Token{Issuer: "iss", Subject: subject, Scopes: []string{has}}, nil
}

type input struct {
	tool.Common
	First  string `json:"first"`
	Second string `json:"second"`
	More   int    `json:"more,omitzero"`
}

type output struct {
	Deep  map[string]string `json:"deep"`
	State string            `json:"state"`
	Who   string            `json:"who"`
}

func door(before func(context.Context, *event.Request, tool.Principal) (*event.Response, error)) *route.Door {
	frame := tool.Frame{Cursors: cursor.New(cursor.NewStatic(), time.Hour, time.Now), Log: slog.New(slog.NewTextHandler(io.Discard, nil))}
	d := route.New(tokens{}, frame, func(code outcome.Code) int { return http.StatusTeapot })
	route.Add(d, route.Route{Key: "POST /v1/a/{first}/b/{second}/c", Scopes: []string{"one", "two"}, MaxBody: 100, Before: before, Finish: func(_ *event.Request, told route.Told, answer *event.Response) {
		var state string
		if told.Member("nothing", &state) || !told.Member("state", &state) {
			answer.Status = http.StatusInternalServerError
		}
		answer.Header.Set("X-State", state)
	}}, func(_ context.Context, c tool.Call[input]) (tool.Answer[output], error) {
		if c.Input.More == 1 {
			return tool.Refuse[output](outcome.Findings{outcome.New(outcome.TargetNotFound, "/more", nil)}), nil
		}
		return tool.Answer[output]{Data: output{map[string]string{"state": "not this"}, c.Input.First + "-" + c.Input.Second, c.Principal.String()}}, nil
	})
	return d
}

func TestARouteIsAToolWithAPath(t *testing.T) {
	for name, c := range map[string]struct {
		token, body string
		status      int
		state       string
	}{
		"either scope":                     {"one me", `{}`, 200, "x-y"},
		"or the other":                     {"two me", `{}`, 200, "x-y"},
		"another scope":                    {"three me", `{}`, 403, ""},
		"two scopes in one token":          {"both me", `{}`, 401, ""},
		"no token":                         {"", `{}`, 401, ""},
		"a refusal":                        {"one me", `{"more":1}`, 418, ""},
		"a member that it has not":         {"one me", `{"less":1}`, 418, ""},
		"what the path says, said again":   {"one me", `{"second":"z"}`, 400, ""},
		"a body that is too large":         {"one me", `{"more":` + strings.Repeat(" ", 100) + `1}`, 413, ""},
		"a body that is no JSON":           {"one me", `{`, 400, ""},
		"a body that says one thing twice": {"one me", `{"more":1,"more":2}`, 400, ""},
		"a body that is no object":         {"one me", `[]`, 400, ""},
		"a body of another kind":           {"one me", "", 415, ""},
	} {
		t.Run(name, func(t *testing.T) {
			kind := "application/json"
			if c.status == 415 {
				kind = "text/plain"
			}
			payload, err := json.Marshal(map[string]any{"routeKey": "POST /v1/a/{first}/b/{second}/c", "pathParameters": map[string]string{"first": "x", "second": "y"}, "body": c.body,
				"headers": map[string]string{"authorization": "Bearer " + c.token, "content-type": kind}, "requestContext": map[string]any{"http": map[string]string{"method": "POST"}}})
			if err != nil {
				t.Fatal(err)
			}
			text, err := door(nil).Invoke(t.Context(), payload)
			if err != nil {
				t.Fatal(err)
			}
			var out struct {
				StatusCode int
				Headers    map[string]string
			}
			if err := json.Unmarshal(text, &out); err != nil || out.StatusCode != c.status || out.Headers["x-state"] != c.state {
				t.Errorf("%s %v", text, err)
			}
		})
	}
}

func TestARouteMayAnswerBeforeItLooksAtTheArguments(t *testing.T) {
	asked := 0
	d := door(func(_ context.Context, _ *event.Request, who tool.Principal) (*event.Response, error) {
		asked++
		if who.Subject == "fails" {
			return nil, io.ErrUnexpectedEOF
		}
		return &event.Response{Status: http.StatusNotModified, Header: http.Header{}}, nil
	})
	for token, want := range map[string]string{"one me": `{"statusCode":304`, "one fails": `{"statusCode":503`, "none me": `{"statusCode":403`} {
		payload := `{"routeKey":"POST /v1/a/{first}/b/{second}/c","headers":{"authorization":"Bearer ` + token + `"},"requestContext":{"http":{"method":"POST"}}}`
		if text, err := d.Invoke(t.Context(), []byte(payload)); err != nil || !strings.HasPrefix(string(text), want) {
			t.Errorf("%s: %s %v", token, text, err)
		}
	}
	if asked != 2 {
		t.Errorf("it was asked %d times: who has no token is told nothing", asked)
	}
	if text, _ := d.Invoke(t.Context(), []byte(`{"routeKey":"GET /v1/none"}`)); !strings.HasPrefix(string(text), `{"statusCode":404`) {
		t.Errorf("%s", text)
	}
}
