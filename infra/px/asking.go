package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/tool/catalog"
	"github.com/pxhost/pxhost/shared/wire"
)

// codeParams is the JSON-RPC code of an unknown tool and of arguments that are no
// object.
const codeParams = -32602

// An answered is the answer of a tool, as it came.
type answered struct {
	text        jsontext.Value       // the envelope, its exact bytes
	OK          bool                 `json:"ok"`
	Data        jsontext.Value       `json:"data"`
	Diagnostics []outcome.Diagnostic `json:"diagnostics"`
	Resources   []jsontext.Value     `json:"resources"`
}

// call calls a tool. Its error ends px: with exitUsage for what no host takes, with
// exitNoHost where nothing was done, with exitUnknown where nobody knows. What is
// refused is an answer, and no error.
func (e *endpoint) call(ctx context.Context, tool string, arguments []byte) (answered, error) {
	line, err := callLine(tool, arguments)
	if err != nil {
		return answered{}, err
	}
	reply, failure := e.send(ctx, line)
	if failure != nil {
		code, again := exitUnknown, ""
		if failure.Outcome == wire.Not {
			code = exitNoHost
		} else if e.advice(failure) == "" {
			again = sameAgain(arguments)
		}
		return answered{}, &exitError{code, fmt.Errorf("%w%s%s", failure, e.advice(failure), again)}
	}
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
		return answered{}, &exitError{exitUnknown, errors.New("the endpoint's reply cannot be read" + sameAgain(arguments))}
	}
	switch {
	case message.Error != nil && message.Error.Data != nil:
		var data struct {
			Outcome wire.Outcome `json:"outcome"`
		}
		code, again := exitUnknown, sameAgain(arguments)
		if json.Unmarshal(message.Error.Data, &data) == nil && data.Outcome == wire.Not {
			code, again = exitNoHost, "; nothing was done: try again in a while"
		}
		return answered{}, &exitError{code, fmt.Errorf("error %d: %s %s%s", message.Error.Code, message.Error.Message, plainText(string(message.Error.Data)), again)}
	case message.Error != nil && message.Error.Code == codeParams && !slices.Contains(catalog.Order, tool):
		return answered{}, &exitError{exitUsage, fmt.Errorf("error %d: %s%s", message.Error.Code, message.Error.Message, otherTools(tool))}
	case message.Error != nil:
		return answered{}, &exitError{exitUsage, fmt.Errorf("error %d: %s; px call %s --schema says what it takes", message.Error.Code, message.Error.Message, plainText(tool))}
	case message.Result == nil || message.Result.StructuredContent == nil:
		return answered{}, &exitError{exitUnknown, errors.New("the endpoint's reply has no structuredContent")}
	}
	answer := answered{text: message.Result.StructuredContent}
	if err := json.Unmarshal(answer.text, &answer); err != nil {
		return answered{}, &exitError{exitUnknown, errors.New("the endpoint's reply is no envelope")}
	}
	return answer, nil
}

// sameAgain says what to do about a lost answer.
func sameAgain(arguments []byte) string {
	var command struct {
		CommandID string `json:"commandId"`
	}
	if json.Unmarshal(arguments, &command) == nil && command.CommandID != "" {
		return "\n  it may have been done: the very same request, with the same commandId, does it once and answers what came of it"
	}
	return "\n  send it again: it changes nothing"
}

// otherTools says which tools there are, the nearest first.
func otherTools(name string) string {
	type near struct {
		tool     string
		distance int
	}
	var all []near
	for _, t := range catalog.Order {
		all = append(all, near{t, distance(name, t)})
	}
	slices.SortStableFunc(all, func(a, b near) int { return a.distance - b.distance })
	var meant []string
	for _, n := range all[:3] {
		if n.distance <= max(3, len(name)/3) || strings.Contains(n.tool, name) && name != "" {
			meant = append(meant, n.tool)
		}
	}
	text := ""
	if meant != nil {
		text = "\n  did you mean " + strings.Join(meant, ", ") + "?"
	}
	return text + "\n  the tools are " + strings.Join(catalog.Order, ", ")
}

// distance is how many letters differ: Levenshtein's.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		last := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := last
			if a[i] != b[j] {
				cost++
			}
			last, row[j+1] = row[j+1], min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
