package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/pxhost/pxhost/infra/px/readable"
	"github.com/pxhost/pxhost/infra/px/term"
	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/tool/catalog"
	"github.com/pxhost/pxhost/shared/wire"
)

// showing are the flags of the commands that show answers.
type showing struct {
	json, readable bool
	colour         string
}

func (f *showing) add(fs *flag.FlagSet) {
	fs.BoolVar(&f.json, "json", false, "print the answer's exact bytes on one line")
	fs.BoolVar(&f.readable, "readable", false, "print as for a person, terminal or not")
	addColour(fs, &f.colour)
}

func addColour(fs *flag.FlagSet, mode *string) {
	*mode = term.Auto
	fs.Func("color", "`when` to use colour: auto (on a terminal, unless NO_COLOR is set or TERM is dumb), always, never", func(text string) error {
		if text != term.Auto && text != term.Always && text != term.Never {
			return errors.New("it takes auto, always or never")
		}
		*mode = text
		return nil
	})
}

// screen is where a person reads what a command prints.
func (e *environment) screen(colour string) *term.Screen { return term.Of(e.out, colour, e.lookup) }

// show prints an answer: for a person on a terminal, as indented JSON elsewhere, since
// there a program reads it. Its error says that it is refused.
func (e *environment) show(f showing, answer answered, more readable.More) error {
	var err error
	switch {
	case f.json:
		_, err = fmt.Fprintf(e.out, "%s\n", answer.text)
	case f.readable || term.IsTerminal(e.out):
		err = readable.Envelope(e.screen(f.colour), answer.text, more)
	default:
		text := answer.text.Clone()
		if err := text.Indent(jsontext.WithIndent("  ")); err != nil {
			return err
		}
		_, err = fmt.Fprintf(e.out, "%s\n", text)
	}
	if err == nil && !answer.OK {
		err = &exitError{code: exitFailed}
	}
	return err
}

var callCommand = command{
	name:    "call",
	summary: "call one tool and print its answer",
	run: func(ctx context.Context, env *environment, args []string) error {
		fs := env.flags("call", `TOOL [ARGUMENTS|@FILE|-] [flags]
       px call --list
       px call TOOL --schema

ARGUMENTS is a JSON object, @FILE and - (standard input) are where one is read from,
and without it there are none. On a terminal the answer is shown for a person; in a
pipe or a file it is the envelope as indented JSON, and with --json its exact bytes.
An answer that is cut says so, and the command that goes on: the same with --continue,
or with --all, which reads every part and shows them as one (with --json: the parts as
they came, one a line). --list prints the tools, --schema what one takes; neither asks
the host. All of it, with what each code means: shared/tool/README.md.`)
		var to endpointFlags
		to.add(fs)
		var as showing
		as.add(fs)
		goOn := fs.Bool("continue", false, "the part that comes after the last answer to the same call")
		all := fs.Bool("all", false, "every part, shown as one")
		list := fs.Bool("list", false, "print the tools")
		takes := fs.Bool("schema", false, "print the JSON Schema of what the tool takes")
		positional, err := env.parseMixed(fs, args)
		if err != nil {
			return err
		}
		switch {
		case *list && len(positional) == 0:
			return listTools(env, as)
		case *takes && len(positional) == 1:
			return showSchema(env, positional[0])
		case *list || *takes:
			return usagef("--list stands alone, and --schema beside one tool")
		case len(positional) == 0 || len(positional) > 2:
			return usagef("one tool and at most one JSON object of arguments are taken; px call --list prints the tools")
		case *goOn && *all:
			return usagef("--continue is the next part, --all is all of them")
		}
		tool, arguments := positional[0], []byte("{}")
		if len(positional) == 2 {
			if arguments, err = env.given(positional[1], "the arguments"); err != nil {
				return err
			}
		}
		if err := checkJSON(arguments, "the arguments"); err != nil {
			return err
		}
		endpoint, err := env.endpoint(to)
		if err != nil {
			return err
		}
		name := callName(endpoint, to, tool, arguments)
		if *goOn {
			var kept struct{ Cursor string }
			if !env.kept(keptCursors, name, &kept) {
				return usagef("there is nothing to go on with: the last answer to this very call was whole, or it was not made with this state folder")
			}
			if arguments, err = withCursor(arguments, kept.Cursor); err != nil {
				return err
			}
		}
		if *all {
			answer, err := endpoint.whole(ctx, tool, arguments, func(part answered) error {
				if as.json {
					return env.show(as, part, readable.More{})
				}
				return nil
			})
			if err != nil || as.json {
				return err
			}
			return env.show(as, answer, readable.More{})
		}
		answer, err := endpoint.call(ctx, tool, arguments)
		if err != nil {
			return err
		}
		env.keepPlan(endpoint, tool, answer)
		var more readable.More
		if cursor := cursorOf(answer.Data); cursor == "" {
			env.forget(keptCursors, name)
		} else if again := commandLine(args); env.keep(keptCursors, name, struct{ Cursor string }{cursor}) == nil {
			more = readable.More{Next: again + " --continue", All: again + " --all"}
		} else {
			more = readable.More{Next: "the same with the member cursor set to " + cursor, All: again + " --all"}
		}
		return env.show(as, answer, more)
	},
}

// callName names a call: the same tool with the same arguments at the same host.
func callName(to *endpoint, f endpointFlags, tool string, arguments []byte) string {
	who := f.as
	if to.mint == nil {
		who = "given"
	}
	canonical, err := canon.Canonicalize(arguments)
	if err != nil {
		canonical = arguments
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%s\n%s", to.url, who, tool, canonical))
	return hex.EncodeToString(sum[:16])
}

// commandLine is the command as it was given, as a person can give it again, without
// what says which part is wanted, and without a token.
func commandLine(args []string) string {
	words := []string{"px", "call"}
	for i := 0; i < len(args); i++ {
		switch a := args[i]; {
		case a == "--continue", a == "-continue", a == "--all", a == "-all":
		case a == "--token", a == "-token":
			i++
		case strings.HasPrefix(a, "--token="), strings.HasPrefix(a, "-token="):
		default:
			words = append(words, quoted(a))
		}
	}
	return strings.Join(words, " ")
}

// quoted is a word as a shell reads it.
func quoted(word string) string {
	if word != "" && strings.Trim(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:=@,+") == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// cursorOf is how an answer goes on, "" if it is whole or the last.
func cursorOf(data jsontext.Value) string {
	var told struct {
		NextCursor string `json:"nextCursor"`
		Truncation *struct {
			Continuation struct {
				Value string `json:"value"`
			} `json:"continuation"`
		} `json:"truncation"`
	}
	if data.Kind() != '{' || json.Unmarshal(data, &told) != nil {
		return ""
	}
	if told.Truncation != nil && told.Truncation.Continuation.Value != "" {
		return told.Truncation.Continuation.Value
	}
	return told.NextCursor
}

// withCursor sets the member cursor of arguments.
func withCursor(arguments []byte, cursor string) ([]byte, error) {
	var members map[string]jsontext.Value
	if err := json.Unmarshal(arguments, &members); err != nil || members == nil {
		return nil, usagef("the arguments are no JSON object")
	}
	text, err := json.Marshal(cursor)
	if err != nil {
		return nil, err
	}
	members["cursor"] = text
	return json.Marshal(members, json.Deterministic(true))
}

// whole reads every part of every page, and puts them together as one answer. each gets
// the parts as they come. What is refused ends it, and is the answer.
func (e *endpoint) whole(ctx context.Context, tool string, arguments []byte, each func(answered) error) (answered, error) {
	var pages paged
	var page joined
	diagnostics, resources := []jsontext.Value{}, []jsontext.Value{}
	seen := map[string]bool{}
	unique := func(all *[]jsontext.Value, more []jsontext.Value) {
		for _, v := range more {
			if !seen[string(v)] {
				seen[string(v)] = true
				*all = append(*all, v)
			}
		}
	}
	parts := 0
	for cursor := ""; ; {
		answer, err := e.call(ctx, tool, arguments)
		if err == nil {
			err = each(answer)
		}
		if err != nil {
			return answered{}, err
		}
		next := cursorOf(answer.Data)
		if parts++; parts == 1 && next == "" || !answer.OK {
			return answer, nil
		}
		var found struct {
			Diagnostics []jsontext.Value `json:"diagnostics"`
		}
		if err := json.Unmarshal(answer.text, &found); err != nil {
			return answered{}, &exitError{exitUnknown, errors.New("the endpoint's reply is no envelope")}
		}
		inPage, err := page.add(answer.Data)
		if err == nil && inPage == "" {
			err = pages.add(page)
			page = joined{}
		}
		if err != nil {
			return answered{}, &exitError{exitFailed, fmt.Errorf("the answer cannot be put together: %w; px call %s --all --json prints its parts", err, tool)}
		}
		unique(&diagnostics, found.Diagnostics)
		unique(&resources, answer.Resources)
		if next == "" {
			break
		}
		if next == cursor {
			return answered{}, &exitError{exitFailed, errors.New("the answer goes on with itself; that is a mistake of the host")}
		}
		cursor = next
		if arguments, err = withCursor(arguments, cursor); err != nil {
			return answered{}, err
		}
	}
	text, err := pages.text()
	if err != nil {
		return answered{}, err
	}
	var whole answered
	if whole.text, err = json.Marshal(struct {
		OK          bool             `json:"ok"`
		Data        jsontext.Value   `json:"data"`
		Diagnostics []jsontext.Value `json:"diagnostics"`
		Resources   []jsontext.Value `json:"resources"`
	}{true, text, diagnostics, resources}); err != nil {
		return answered{}, err
	}
	return whole, json.Unmarshal(whole.text, &whole)
}

// A paged is an answer that came in pages, put together again: what a list has in a
// later page that no earlier one had is appended to it, and everything else is as the
// last page says.
type paged struct {
	whole map[string]any
	seen  map[string]map[string]bool
}

func (p *paged) add(page joined) error {
	text, err := page.text()
	if err != nil {
		return err
	}
	var members map[string]jsontext.Value
	if err := json.Unmarshal(text, &members); err != nil {
		return err
	}
	if p.whole == nil {
		p.whole, p.seen = map[string]any{}, map[string]map[string]bool{}
	}
	delete(p.whole, "nextCursor")
	for name, v := range members {
		var list []jsontext.Value
		if v.Kind() != '[' || json.Unmarshal(v, &list) != nil {
			p.whole[name] = v
			continue
		}
		all, _ := p.whole[name].([]jsontext.Value)
		earlier := p.seen[name]
		now := map[string]bool{}
		for _, e := range list {
			if !earlier[string(e)] {
				all = append(all, e)
				now[string(e)] = true
			}
		}
		for e := range earlier {
			now[e] = true
		}
		if all == nil {
			all = []jsontext.Value{}
		}
		p.whole[name], p.seen[name] = all, now
	}
	return nil
}

func (p *paged) text() (jsontext.Value, error) {
	if p.whole == nil {
		return jsontext.Value("null"), nil
	}
	return json.Marshal(p.whole, json.Deterministic(true))
}

// given reads what a person gives for JSON: itself, @FILE, or - for standard input.
func (e *environment) given(text, what string) ([]byte, error) {
	var in io.Reader
	switch {
	case text == "-":
		in = e.in
	case strings.HasPrefix(text, "@"):
		f, err := os.Open(text[1:])
		if err != nil {
			return nil, usagef("%s: %v", what, err)
		}
		defer f.Close()
		in = f
	default:
		return []byte(text), nil
	}
	all, err := io.ReadAll(io.LimitReader(in, wire.MaxLine+1))
	if err != nil {
		return nil, usagef("%s: %v", what, err)
	}
	return all, nil
}

// checkJSON says where a text stops being JSON, and never what stands there.
func checkJSON(text []byte, what string) error {
	var syntax *canon.SyntaxError
	if err := canon.CheckGrammar(text); !errors.As(err, &syntax) {
		return nil
	}
	before := text[:min(max(syntax.Offset, 0), int64(len(text)))]
	line := 1 + bytes.Count(before, []byte("\n"))
	column := 1 + len([]rune(string(before[bytes.LastIndexByte(before, '\n')+1:])))
	return usagef("%s are %v: line %d, column %d", what, syntax, line, column)
}

// callLine returns the line that calls a tool. The arguments may stand on many lines.
func callLine(tool string, arguments []byte) ([]byte, error) {
	if err := checkJSON(arguments, "the arguments"); err != nil {
		return nil, err
	}
	compact := jsontext.Value(slices.Clone(arguments))
	if err := compact.Compact(); err != nil {
		return nil, usagef("the arguments are not JSON")
	}
	name, err := json.Marshal(tool)
	if err != nil {
		return nil, usagef("the tool's name is not text")
	}
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%s,"arguments":%s}}`, name, compact), nil
}

// A listed tool, as the catalog has it.
type listedTool struct {
	Name        string         `json:"name"`
	Description string         `json:"description"`
	InputSchema jsontext.Value `json:"inputSchema"`
}

func catalogTools() (tools []listedTool, err error) {
	return tools, json.Unmarshal(catalog.JSON, &tools)
}

func listTools(env *environment, as showing) error {
	if as.json {
		_, err := fmt.Fprintf(env.out, "%s\n", bytes.TrimSpace(catalog.JSON))
		return err
	}
	tools, err := catalogTools()
	if err != nil {
		return err
	}
	s := env.screen(as.colour)
	for _, t := range tools {
		lines := term.Wrap(t.Description, s.Columns-26)
		if _, err := fmt.Fprintf(s, "%s  %s\n", s.Paint(term.Bold, term.Pad(t.Name, 24)), strings.Join(lines, "\n"+strings.Repeat(" ", 26))); err != nil {
			return err
		}
	}
	return nil
}

func showSchema(env *environment, name string) error {
	tools, err := catalogTools()
	if err != nil {
		return err
	}
	for _, t := range tools {
		if t.Name == name {
			text := t.InputSchema
			if err := text.Indent(jsontext.WithIndent("  ")); err != nil {
				return err
			}
			_, err := fmt.Fprintf(env.out, "%s\n", text)
			return err
		}
	}
	return usagef("there is no tool %q%s", plainText(name), otherTools(name))
}
