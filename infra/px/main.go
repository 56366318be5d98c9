// Command px runs and drives pxhost on this machine.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// A command is one subcommand. To add one, write its file and list it in
// commands.
type command struct {
	name    string
	summary string // one line, for px help
	// run gets the arguments after the name. It parses them with
	// environment.flags. Its error is printed; usageError exits with exitUsage,
	// exitError with its code, any other with exitFailed.
	run func(ctx context.Context, env *environment, args []string) error
}

// commands are in the order of px help. It is filled when px starts, since some of them
// speak of all.
var commands []command

func init() {
	commands = []command{localCommand, tokenCommand, callCommand, planCommand, applyCommand, runCommand, watchCommand, stdioCommand, projectCommand, draftCommand, historyCommand, reviewCommand, approveCommand, rejectCommand, seedCommand, smokeCommand,
		workspaceCommand, validateCommand, installCommand, pluginCommand, connectionCommand, capabilitiesCommand, invokeCommand, slashCommand, executionCommand, notificationsCommand, completionCommand}
}

// usageError is a mistake in the command line.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

func usagef(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }

// exitError ends px with a code; without an error, nothing is printed.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return fmt.Sprint(e.err) }
func (e *exitError) Unwrap() error { return e.err }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], &environment{lookup: os.LookupEnv, in: os.Stdin, out: os.Stdout, err: os.Stderr})
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string, env *environment) int {
	if len(args) == 0 {
		help(env.err)
		return exitUsage
	}
	if len(args) == 2 && args[0] == "help" && args[1] == "exits" {
		for _, e := range exits {
			fmt.Fprintf(env.out, "%d  %s\n", e.code, e.meaning)
		}
		return exitOK
	}
	if len(args) == 2 && args[0] == "help" { // px help call is px call -h
		args = []string{args[1], "-h"}
	}
	if args[0] == "help" || args[0] == "-h" || args[0] == "--help" {
		help(env.out)
		return exitOK
	}
	if args[0] == completing {
		return complete(ctx, env, args[1:])
	}
	for _, c := range commands {
		if c.name != args[0] {
			continue
		}
		err := c.run(ctx, env, args[1:])
		var usage *usageError
		var exit *exitError
		switch {
		case err == nil, errors.Is(err, flag.ErrHelp):
			return exitOK
		case errors.As(err, &usage):
			fmt.Fprintf(env.err, "px %s: %s\nrun px %s -h for its flags\n", c.name, usage.text, c.name)
			return exitUsage
		case errors.As(err, &exit):
			if exit.err != nil {
				fmt.Fprintf(env.err, "px %s: %v\n", c.name, exit.err)
			}
			return exit.code
		default:
			fmt.Fprintf(env.err, "px %s: %v\n", c.name, err)
			return exitFailed
		}
	}
	fmt.Fprintf(env.err, "px: there is no command %q%s; px help lists them\n", plainText(args[0]), otherCommand(args[0]))
	return exitUsage
}

func help(w io.Writer) {
	fmt.Fprint(w, "px runs and drives pxhost on this machine.\n\nCommands:\n")
	for _, c := range commands {
		fmt.Fprintf(w, "  %-13s %s\n", c.name, c.summary)
	}
	fmt.Fprint(w, "\npx help COMMAND says what a command takes, px help exits what the exit codes mean. Every\ncommand has -h, --state (or PX_STATE) and --url (or PX_URL).\n")
}

// otherCommand says which command may be meant.
func otherCommand(name string) string {
	best, least := "", 3
	for _, c := range commands {
		if d := distance(name, c.name); d < least {
			best, least = c.name, d
		}
	}
	if best == "" {
		return ""
	}
	return ", did you mean px " + best + "?"
}
