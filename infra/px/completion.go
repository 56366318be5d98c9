package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/pxhost/pxhost/infra/local/oidc"
	"github.com/pxhost/pxhost/infra/px/term"
	"github.com/pxhost/pxhost/shared/tool/catalog"
)

// completing is the word with which a shell asks for candidates: the words of the
// command line behind px follow, the last of which is what is being typed.
const completing = "__complete"

// shells are the scripts, each with %s for the program, quoted. They hold nothing of px
// itself: it answers, from its own commands, their flags, the tools of its catalog, and
// what it keeps in the state folder. It never asks the host.
var shells = map[string]string{
	"bash": `# px completion for bash: eval "$(px completion bash)"
_px() {
	local IFS=$'\n' line
	COMPREPLY=()
	while read -r line; do
		COMPREPLY+=("${line%%%%$'\t'*}")
	done < <(%s __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o default -F _px px
`,
	"zsh": `#compdef px
# px completion for zsh: eval "$(px completion zsh)", after compinit
_px() {
	local line name
	local -a described
	for line in "${(@f)$(%s __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
		[[ -n $line ]] || continue
		name=${line%%%%$'\t'*}
		described+=("${name//:/\\:}:${line#*$'\t'}")
	done
	if (( $#described )); then
		_describe px described
	else
		_files
	fi
}
compdef _px px
`,
	"fish": `# px completion for fish: px completion fish | source
function __px_complete
	set -l words (commandline -opc) (commandline -ct)
	%s __complete $words[2..-1] 2>/dev/null
end
complete -c px -e
complete -c px -a '(__px_complete)'
`,
}

var completionCommand = command{
	name:    "completion",
	summary: "print the completion script of a shell",
	run: func(_ context.Context, env *environment, args []string) error {
		fs := env.flags("completion", `bash|zsh|fish

  bash, in ~/.bashrc:                 eval "$(px completion bash)"
  zsh, in ~/.zshrc, after compinit:   eval "$(px completion zsh)"
  fish, in config.fish:               px completion fish | source

Commands, flags and tools are completed, and the plans, Runs and commandIds that px
keeps in the state folder. The host is not asked. The script calls this very program by
its full path, so that it works for an alias of the name px as well.`)
		positional, err := env.parseMixed(fs, args)
		if err != nil {
			return err
		}
		if len(positional) != 1 || shells[positional[0]] == "" {
			return usagef("bash, zsh or fish")
		}
		program, err := os.Executable()
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(env.out, shells[positional[0]], quoted(program))
		return err
	},
}

// A candidate is a word, and what it is.
type candidate struct{ word, about string }

// complete prints the candidates for the last of the words.
func complete(ctx context.Context, env *environment, words []string) int {
	if len(words) == 0 {
		words = []string{""}
	}
	current := words[len(words)-1]
	for _, c := range candidates(ctx, env, words) {
		if strings.HasPrefix(c.word, current) {
			fmt.Fprintf(env.out, "%s\t%s\n", c.word, c.about)
		}
	}
	return exitOK
}

func candidates(ctx context.Context, env *environment, words []string) (all []candidate) {
	current, before := words[len(words)-1], words[:len(words)-1]
	if len(before) == 0 {
		for _, c := range commands {
			all = append(all, candidate{c.name, c.summary})
		}
		return append(all, candidate{"help", "list the commands"})
	}
	if before[0] == "help" {
		if len(before) == 1 {
			for _, c := range commands {
				all = append(all, candidate{c.name, c.summary})
			}
			all = append(all, candidate{"exits", "the exit codes"})
		}
		return all
	}
	flags, usage := flagsOf(ctx, before[0])
	if flags == nil {
		return nil
	}
	// bash takes --flag=value apart.
	if len(before) > 2 && before[len(before)-1] == "=" {
		before = before[:len(before)-1]
	} else if len(before) > 1 && current == "=" {
		return nil
	}
	isFlag := func(word string) *flag.Flag {
		if !strings.HasPrefix(word, "-") || strings.Contains(word, "=") {
			return nil
		}
		f := flags.Lookup(strings.TrimLeft(word, "-"))
		if b, ok := f0(f).(interface{ IsBoolFlag() bool }); f == nil || ok && b.IsBoolFlag() {
			return nil
		}
		return f
	}
	// The state folder that is meant, and the words that are no flags and none's value.
	env.state = ".local"
	if state, ok := env.lookup("PX_STATE"); ok {
		env.state = state
	}
	var positional []string
	for i := 1; i < len(before); i++ {
		f := isFlag(before[i])
		switch {
		case f != nil && i+1 == len(before):
			return valuesOf(env, before[0], f.Name)
		case f != nil:
			if i++; f.Name == "state" {
				env.state = before[i]
			}
		case strings.HasPrefix(before[i], "--state="):
			env.state = strings.TrimPrefix(before[i], "--state=")
		case !strings.HasPrefix(before[i], "-"):
			positional = append(positional, before[i])
		}
	}
	if strings.HasPrefix(current, "-") {
		flags.VisitAll(func(f *flag.Flag) {
			_, about := flag.UnquoteUsage(f)
			all = append(all, candidate{"--" + f.Name, about})
		})
		return all
	}
	if len(positional) > 0 {
		return nil
	}
	return append(verbsOf(before[0], usage), refsOf(env, before[0])...)
}

func f0(f *flag.Flag) flag.Value {
	if f == nil {
		return nil
	}
	return f.Value
}

// flagsOf returns the flags of a command and its usage, by asking it for help.
func flagsOf(ctx context.Context, name string) (*flag.FlagSet, string) {
	asked := &environment{in: strings.NewReader(""), out: io.Discard, err: io.Discard, lookup: func(string) (string, bool) { return "", false }}
	for _, c := range commands {
		if c.name == name {
			c.run(ctx, asked, []string{"-h"})
			return asked.asked, asked.usage
		}
	}
	return nil, ""
}

// valuesOf are the values of a flag, where there are few.
func valuesOf(env *environment, command, name string) (all []candidate) {
	var words []string
	switch name {
	case "as":
		if command != "project" {
			words = oidc.Subjects
		}
	case "color":
		words = []string{term.Auto, term.Always, term.Never}
	case "scope":
		words = []string{oidc.ScopeTools, oidc.ScopeApprove}
	case "retry":
		words = env.keptNames(keptCommands, mostKept)
	case "rebase":
		words = env.keptNames(keptPlans, mostKept)
	}
	for _, w := range words {
		all = append(all, candidate{w, name})
	}
	return all
}

// mostKept is how many references are offered, the newest.
const mostKept = 30

var verbs = regexp.MustCompile(`^(?:\s+px \S+ )?([a-z]+(?:\|[a-z]+)*)(?: |$)`)

// verbsOf are the words that a command's usage begins with.
func verbsOf(command, usage string) (all []candidate) {
	head, _, _ := strings.Cut(usage, "\n\n")
	for line := range strings.Lines(head) {
		m := verbs.FindStringSubmatch(strings.TrimRight(line, "\n"))
		if m == nil {
			continue
		}
		for word := range strings.SplitSeq(m[1], "|") {
			if c := (candidate{word, "px " + command}); !slices.Contains(all, c) {
				all = append(all, c)
			}
		}
	}
	return all
}

// refsOf are the references that a command takes first, as far as px has seen them.
func refsOf(env *environment, command string) (all []candidate) {
	switch command {
	case "call":
		tools, _ := catalogTools()
		for _, name := range catalog.Order {
			about := ""
			for _, t := range tools {
				if t.Name == name {
					about, _, _ = strings.Cut(t.Description, ". ")
				}
			}
			all = append(all, candidate{name, about})
		}
	case "apply", "review", "approve", "reject", "run":
		for _, name := range env.keptNames(keptPlans, mostKept) {
			var plan keptPlan
			if env.kept(keptPlans, name, &plan) && (command != "apply" || !plan.Batch) && (command != "run" || plan.Batch) {
				all = append(all, candidate{name, "until " + plan.ExpiresAt})
			}
		}
	case "watch":
		for _, name := range env.keptNames(keptCommands, mostKept) {
			var sent keptCommand
			if env.kept(keptCommands, name, &sent) && sent.Ref != "" {
				all = append(all, candidate{sent.Ref, name})
			}
		}
	}
	return all
}
