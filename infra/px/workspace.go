package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/pxhost/pxhost/shared/capability"
	"github.com/pxhost/pxhost/shared/capability/host"
	"github.com/pxhost/pxhost/shared/target"
)

var workspaceCommand = command{
	name:    "workspace",
	summary: "grant rights to the plugins of a workspace",
	run: func(ctx context.Context, env *environment, args []string) error {
		fs := env.flags("workspace", `grant WORKSPACE --to SUBJECT [--rights use,manage] [flags]

No route does this: it needs an operator's credentials. use sees and calls what is
installed; manage installs, updates, grants, connects and removes. Neither implies the
other. grant replaces all rights of the subject; without --rights it takes them away.
The subject's next call sees it.`)
		to := fs.String("to", "", "the `subject` of the installation's issuer, or ISSUER|SUBJECT")
		rights := fs.String("rights", "", "comma separated: use, manage")
		positional, err := env.parseMixed(fs, args)
		if err != nil {
			return err
		}
		if len(positional) != 2 || positional[0] != "grant" || !target.ValidKey(positional[1]) {
			return usagef("grant and a workspace, which is %s", target.KeyPattern)
		}
		if *to == "" {
			return usagef("--to names whom to grant")
		}
		list := []capability.Right{}
		for _, r := range separate(*rights) {
			switch right := capability.Right(r); right {
			case capability.Use, capability.Manage:
				list = append(list, right)
			default:
				return usagef("%q is no right: use, manage", r)
			}
		}
		parts, issuer, err := env.operator()
		if err != nil {
			return err
		}
		actor := *to
		if !strings.Contains(actor, "|") {
			actor = issuer + "|" + actor
		}
		if _, err := setMember(ctx, parts.Store, positional[1], actor, list); err != nil {
			return err
		}
		_, err = fmt.Fprintf(env.out, "%s may now do with the plugins of %s: %v\n", actor, positional[1], list)
		return err
	},
}

// memberRows is what setMember needs of a store.
type memberRows interface {
	Member(ctx context.Context, workspace, actor string) (capability.Member, error)
	Change(ctx context.Context, c host.Change) (int64, error)
}

// setMember replaces what an actor may do, whoever else does so at once.
func setMember(ctx context.Context, s memberRows, workspace, actor string, rights []capability.Right) (generation int64, err error) {
	for {
		old, err := s.Member(ctx, workspace, actor)
		if err != nil {
			return 0, err
		}
		generation, err := s.Change(ctx, host.Change{Workspace: workspace, Member: &host.Membership{Actor: actor, Member: capability.Member{Rights: rights, Version: old.Version}}})
		if !errors.Is(err, host.ErrMoved) {
			return generation, err
		}
	}
}

// separate returns the parts of a list on a command line.
func separate(list string) []string {
	return strings.FieldsFunc(list, func(c rune) bool { return c == ',' || c == ' ' })
}
