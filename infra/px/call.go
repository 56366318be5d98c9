package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/wire"
)

var callCommand = command{
	name:    "call",
	summary: "call one tool and print its answer",
	run: func(ctx context.Context, env *environment, args []string) error {
		fs := env.flags("call", "TOOL [ARGUMENTS|-] [flags]\n\nARGUMENTS is a JSON object, - reads it from standard input, and without it there\nare none. Exit codes: 0 the answer says ok, 1 it refuses, 2 there is no answer.\n\nThe tools and what they take: shared/tool/README.md, or\n  echo '{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}' | px stdio")
		var to endpointFlags
		to.add(fs)
		raw := fs.Bool("json", false, "print the answer's exact bytes on one line")
		positional, err := env.parseMixed(fs, args)
		if err != nil {
			return err
		}
		if len(positional) == 0 || len(positional) > 2 {
			return usagef("one tool and at most one JSON object of arguments are taken")
		}
		arguments := []byte("{}")
		if len(positional) == 2 {
			arguments = []byte(positional[1])
		}
		if string(arguments) == "-" {
			if arguments, err = io.ReadAll(io.LimitReader(env.in, wire.MaxLine+1)); err != nil {
				return &exitError{exitUsage, err}
			}
		}
		line, err := callLine(positional[0], arguments)
		if err != nil {
			return err
		}
		endpoint, err := env.endpoint(to)
		if err != nil {
			return err
		}
		reply, failure := endpoint.send(ctx, line)
		if failure != nil {
			return &exitError{exitUsage, fmt.Errorf("%w%s", failure, endpoint.advice(failure))}
		}
		return printAnswer(env.out, reply, *raw)
	},
}

// codeParams is the JSON-RPC code of an unknown tool and of arguments that are no
// object.
const codeParams = -32602

// callLine returns the line that calls a tool. The arguments may stand on many
// lines; what is wrong with them as JSON is told here, where they can be seen.
func callLine(tool string, arguments []byte) ([]byte, error) {
	var syntax *canon.SyntaxError
	if err := canon.CheckGrammar(arguments); errors.As(err, &syntax) {
		return nil, usagef("the arguments are %v", err)
	}
	compact := jsontext.Value(arguments)
	if err := compact.Compact(); err != nil {
		return nil, usagef("the arguments are not JSON")
	}
	name, err := json.Marshal(tool)
	if err != nil {
		return nil, usagef("the tool's name is not text")
	}
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%s,"arguments":%s}}`, name, compact), nil
}

// printAnswer prints the envelope of a reply.
func printAnswer(out io.Writer, reply []byte, raw bool) error {
	var message struct {
		Result *struct {
			StructuredContent jsontext.Value `json:"structuredContent"`
		} `json:"result"`
		Error *struct {
			Code    int            `json:"code"`
			Message string         `json:"message"`
			Data    jsontext.Value `json:"data"`
		} `json:"error"`
	}
	if err := json.Unmarshal(reply, &message); err != nil {
		return &exitError{exitUsage, errors.New("the endpoint's reply cannot be read")}
	}
	switch {
	case message.Error != nil && message.Error.Data != nil:
		return &exitError{exitUsage, fmt.Errorf("error %d: %s %s", message.Error.Code, message.Error.Message, message.Error.Data)}
	case message.Error != nil && message.Error.Code == codeParams:
		return &exitError{exitUsage, fmt.Errorf("error %d: %s; px call -h says how to list the tools and what they take", message.Error.Code, message.Error.Message)}
	case message.Error != nil:
		return &exitError{exitUsage, fmt.Errorf("error %d: %s", message.Error.Code, message.Error.Message)}
	case message.Result == nil || message.Result.StructuredContent == nil:
		return &exitError{exitUsage, errors.New("the endpoint's reply has no structuredContent")}
	}
	answer := message.Result.StructuredContent
	var envelope struct {
		OK bool `json:"ok"`
	}
	if err := json.Unmarshal(answer, &envelope); err != nil {
		return &exitError{exitUsage, errors.New("the endpoint's reply is no envelope")}
	}
	if !raw {
		if err := answer.Indent(jsontext.WithIndent("  ")); err != nil {
			return err
		}
	}
	if _, err := fmt.Fprintf(out, "%s\n", answer); err != nil {
		return err
	}
	if !envelope.OK {
		return &exitError{code: exitFailed}
	}
	return nil
}
