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
		fs := env.flags("token", "--as engineer|reviewer|viewer|other [flags]")
		as := fs.String("as", "", "the `principal`: "+strings.Join(oidc.Subjects, ", "))
		scope := fs.String("scope", oidc.ScopeTools, "`scope`: "+oidc.ScopeTools+", or "+oidc.ScopeApprove+" for what a person approves with")
		session := fs.String("session", "", "`name` of another session than the one of all other tokens of the principal: a draft is good in its own session alone")
		if err := env.parse(fs, args, false); err != nil {
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
		key, err := oidc.Read(env.dir())
		if errors.Is(err, statedir.ErrNotStarted) {
			return fmt.Errorf("%w: start px local first", err)
		}
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
