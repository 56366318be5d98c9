package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"

	"github.com/go-json-experiment/json"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/connection"
)

var connectionCommand = command{
	name:    "connection",
	summary: "give plugins the credentials that their connectors need",
	run: func(ctx context.Context, env *environment, args []string) error {
		fs := env.flags("connection", `list --workspace WORKSPACE
       px connection create INSTANCE CONNECTOR --secret FILE|- [--own] [--redirect URL]
       px connection rotate CONNECTION --secret FILE|- [--redirect URL]
       px connection authorize CONNECTION --redirect URL
       px connection complete ADDRESS
       px connection remove CONNECTION

The secret is a JSON object in a file or on standard input, and never on a command line,
which lists of processes show: {"token": "…"} of a connector that takes a bearer token,
{"clientId": "…", "clientSecret": "…"} of oauth2. It goes in and never comes out. Where a
person has to say yes, create prints the address to open; the service then sends the
browser to the redirect URL, and complete takes the whole address that it was sent to.`)
		var to managing
		to.add(fs)
		workspace := aWorkspace(fs)
		secret := fs.String("secret", "", "the `file` with the secret, - for standard input (create, rotate)")
		own := fs.Bool("own", false, "it is yours alone, not everyone's who may use the instance (create)")
		redirect := fs.String("redirect", "", "the `URL` where the service sends the browser back to (create, rotate, authorize)")
		positional, err := env.parseMixed(fs, args)
		if err != nil {
			return err
		}
		wrong := usagef("list, create INSTANCE CONNECTOR, rotate, authorize or remove CONNECTION, or complete ADDRESS")
		if len(positional) == 0 {
			return wrong
		}
		verb, rest := positional[0], positional[1:]
		want, known := map[string]int{"list": 0, "create": 2, "rotate": 1, "authorize": 1, "complete": 1, "remove": 1}[verb]
		if !known || len(rest) != want {
			return wrong
		}
		body := map[string]any{}
		if *redirect != "" {
			body["redirectUri"] = *redirect
		}
		if verb == "create" || verb == "rotate" {
			if body["secret"], err = env.secret(*secret); err != nil {
				return err
			}
		}
		path := "/v1/connections"
		switch verb {
		case "list":
			if err := needWorkspace(*workspace); err != nil {
				return err
			}
			path += "?workspaceKey=" + url.QueryEscape(*workspace)
		case "create":
			body["instanceId"], body["connectorId"], body["owner"] = rest[0], rest[1], connection.Everyone
			if *own {
				body["owner"] = connection.Self
			}
		case "complete":
			path += "/complete"
			address, err := url.Parse(rest[0])
			if err != nil || address.Query().Get("state") == "" {
				return usagef("the address is none with ?state=…, as the service sends a browser to")
			}
			for _, name := range []string{"state", "code", "error"} {
				if value := address.Query().Get(name); value != "" {
					body[name] = value
				}
			}
		default:
			path += "/" + url.PathEscape(rest[0]) + "/" + verb
		}
		d, err := to.door(env)
		if err != nil {
			return err
		}
		if verb == "list" {
			text, err := d.whole(ctx, path)
			if err != nil {
				return err
			}
			return printJSON(env.out, canon.Raw(text))
		}
		answer, err := d.send(ctx, http.MethodPost, path, "", body)
		if err != nil {
			return err
		}
		if verb == "remove" {
			_, err := fmt.Fprintf(env.out, "%s is removed; what needs it says EXTENSION_CONNECTION_REQUIRED from now on\n", rest[0])
			return err
		}
		var made connection.Made
		if err := json.Unmarshal(answer.Data, &made); err != nil {
			return &exitError{exitUnknown, errors.New("the answer cannot be read")}
		}
		fmt.Fprintf(env.out, "%s is %s\n", made.ConnectionID, made.State)
		if made.Authorize != "" {
			fmt.Fprintf(env.out, "open this address, say yes, and give px connection complete the address where the browser ends:\n%s\n", plainText(made.Authorize))
		}
		return nil
	},
}

// secret reads a secret. What is wrong with it is told without a part of it.
func (e *environment) secret(file string) (canon.Raw, error) {
	var text []byte
	var err error
	switch file {
	case "":
		return nil, usagef("--secret names the file with the secret, - is standard input")
	case "-":
		text, err = io.ReadAll(io.LimitReader(e.in, 64<<10))
	default:
		text, err = os.ReadFile(file)
	}
	if err != nil {
		return nil, &exitError{exitUsage, err}
	}
	canonical, err := canon.Canonicalize(text)
	if err != nil || canon.Raw(canonical).Kind() != '{' {
		return nil, usagef(`the secret is no JSON object such as {"token": "…"}`)
	}
	return canonical, nil
}
