package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pxhost/pxhost/infra/local/oidc"
	"github.com/pxhost/pxhost/infra/local/statedir"
)

var tokenCommand = command{
	name:    "token",
	summary: "print a token for a sample principal",
	run: func(_ context.Context, env *environment, args []string) error {
		fs := env.flags("token", "--as engineer|reviewer|viewer|other [flags]\n       px token --sign-in")
		as := fs.String("as", "", "the `principal`: "+strings.Join(oidc.Subjects, ", "))
		scope := fs.String("scope", oidc.ScopeTools, "`scope`: "+oidc.ScopeTools+", or "+oidc.ScopeApprove+" for what a person approves with")
		session := fs.String("session", "", "`name` of another session than the one of all other tokens of the principal: a draft is good in its own session alone")
		signIn := fs.Bool("sign-in", false, "print what the page asks for on which a person signs in to a client")
		if err := env.parse(fs, args, false); err != nil {
			return err
		}
		if *signIn {
			key, err := readKey(env)
			if err == nil {
				_, err = fmt.Fprintln(env.out, key.Code())
			}
			return err
		}
		if !slices.Contains(oidc.Subjects, *as) {
			return usagef("--as takes one of %s", strings.Join(oidc.Subjects, ", "))
		}
		if *scope != oidc.ScopeTools && *scope != oidc.ScopeApprove {
			return usagef("--scope takes %s or %s, one of them", oidc.ScopeTools, oidc.ScopeApprove)
		}
		issuer, err := env.baseURL()
		if err != nil {
			return err
		}
		key, err := readKey(env)
		if err != nil {
			return err
		}
		token, err := key.TokenOf(*session, issuer, *as, *scope, time.Now())
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(env.out, token)
		return err
	},
}

// readKey reads the key of a host that has started.
func readKey(env *environment) (*oidc.Key, error) {
	key, err := oidc.Read(env.dir())
	if errors.Is(err, statedir.ErrNotStarted) {
		return nil, fmt.Errorf("%w: start px local first", err)
	}
	return key, err
}
