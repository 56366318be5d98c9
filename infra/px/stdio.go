package main

import (
	"bytes"
	"context"
	"fmt"
	"net/url"
	"strings"
	"sync"

	"github.com/pxhost/pxhost/shared/target"
	"github.com/pxhost/pxhost/shared/wire"
	"github.com/pxhost/pxhost/shared/wire/gateway"
)

var stdioCommand = command{
	name:    "stdio",
	summary: "answer MCP lines of standard input on standard output",
	run: func(ctx context.Context, env *environment, args []string) error {
		fs := env.flags("stdio", "[flags] < lines > replies")
		var to endpointFlags
		to.add(fs)
		standard := fs.Bool("standard", false, "speak the standard protocol, for MCP clients that start a command")
		workspace := fs.String("workspace", "", "with --standard: the `workspace` whose plugins are the tools, in place of pxhost's own")
		if err := env.parse(fs, args, false); err != nil {
			return err
		}
		if *workspace != "" && !*standard {
			return usagef("--workspace needs --standard")
		}
		if *workspace != "" && !target.ValidKey(*workspace) {
			return usagef("--workspace takes the key of a workspace, which is %s", target.KeyPattern)
		}
		endpoint, err := env.endpoint(to)
		if err != nil {
			return err
		}
		if *standard {
			return stdioStandard(ctx, env, endpoint, *workspace)
		}
		return stdio(ctx, env, endpoint)
	},
}

// stdio sends each line as a request of its own, at most eight side by side, and
// writes the replies in the order of the lines. A line that cannot be sent gets
// a -32603 of its own; what a person should know goes to standard error, once.
func stdio(ctx context.Context, env *environment, to *endpoint) error {
	tell := env.telling(to)
	err := wire.Stream(ctx, env.in, env.out, func(ctx context.Context, line []byte) []byte {
		reply, failure := to.send(ctx, line)
		if failure == nil {
			return reply
		}
		tell(failure)
		return wire.FailLine(line, failure)
	})
	if ctx.Err() != nil {
		return nil // asked to stop
	}
	return err
}

// telling returns what writes failures to standard error, each reason once.
func (e *environment) telling(to *endpoint) func(*wire.Failure) {
	var mu sync.Mutex
	told := map[wire.Reason]bool{}
	return func(failure *wire.Failure) {
		mu.Lock()
		defer mu.Unlock()
		if !told[failure.Reason] {
			told[failure.Reason] = true
			fmt.Fprintf(e.err, "px stdio: %v%s\n", failure, to.advice(failure))
		}
	}
}

// stdioStandard is the standard protocol for clients that start a command: each request
// goes to the standard endpoint, which answers every client by URL too.
func stdioStandard(ctx context.Context, env *environment, to *endpoint, workspace string) error {
	to.url, to.kind = strings.TrimSuffix(to.url, gateway.Path)+gateway.StandardPath, "application/json"
	if workspace != "" {
		to.url = strings.TrimSuffix(to.url, gateway.StandardPath) + gateway.CapabilitiesPath + "?" + url.Values{"workspaceKey": {workspace}}.Encode()
	}
	tell := env.telling(to)
	err := wire.StreamStandard(ctx, env.in, env.out, func(ctx context.Context, post wire.Post) []byte {
		// What API Gateway puts in place of bytes that are no UTF-8 is refused there, and
		// here it was sent: it stands in strings alone, where it may be escaped.
		reply, failure := to.sendWith(ctx, post.Headers, bytes.ReplaceAll(post.Body, []byte("\ufffd"), []byte(`\ufffd`)))
		if failure == nil {
			return reply
		}
		if ctx.Err() == nil { // it was not cancelled
			tell(failure)
		}
		return wire.FailLine(post.Body, failure)
	})
	if ctx.Err() != nil {
		return nil // asked to stop
	}
	return err
}
