package main

import (
	"context"
	"fmt"
	"sync"

	"github.com/pxhost/pxhost/shared/wire"
)

var stdioCommand = command{
	name:    "stdio",
	summary: "answer MCP lines of standard input on standard output",
	run: func(ctx context.Context, env *environment, args []string) error {
		fs := env.flags("stdio", "[flags] < lines > replies")
		var to endpointFlags
		to.add(fs)
		if err := env.parse(fs, args, false); err != nil {
			return err
		}
		endpoint, err := env.endpoint(to)
		if err != nil {
			return err
		}
		return stdio(ctx, env, endpoint)
	},
}

// stdio sends each line as a request of its own, at most eight side by side, and
// writes the replies in the order of the lines. A line that cannot be sent gets
// a -32603 of its own; what a person should know goes to standard error, once.
func stdio(ctx context.Context, env *environment, to *endpoint) error {
	var mu sync.Mutex
	told := map[wire.Reason]bool{}
	err := wire.Stream(ctx, env.in, env.out, func(ctx context.Context, line []byte) []byte {
		reply, failure := to.send(ctx, line)
		if failure == nil {
			return reply
		}
		mu.Lock()
		if !told[failure.Reason] {
			told[failure.Reason] = true
			fmt.Fprintf(env.err, "px stdio: %v%s\n", failure, to.advice(failure))
		}
		mu.Unlock()
		return wire.FailLine(line, failure)
	})
	if ctx.Err() != nil {
		return nil // asked to stop
	}
	return err
}
