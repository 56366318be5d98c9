package tools_test

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/pxhost/pxhost/shared/budget"
	"github.com/pxhost/pxhost/shared/cursor"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/tool"
)

// A doored is a tool with nothing but an answer.
type doored struct {
	tool.Common
}

type doorData struct {
	Items []string `json:"items,omitzero"`
	Text  string   `json:"text,omitzero"`
	Value any      `json:"value,omitzero"`
}

// answerer is the door of a tool that answers data, whose tokens are counted by tokens.
func answerer(data doorData, tokens func(int) int) func(arguments string) outcome.Envelope {
	definition := tool.Define[doored, map[string]any](tool.Spec{Name: "test_door", Description: "Answers.", Annotations: tool.Reads,
		Places: []budget.Place{{Path: "/items", Counts: budget.AsItems}, {Path: "/text"}, {Path: "/value", Value: true}}})
	text, err := json.Marshal(data)
	if err != nil {
		panic(err)
	}
	var members map[string]any
	if err := json.Unmarshal(text, &members); err != nil {
		panic(err)
	}
	frame := tool.Frame{Cursors: cursor.New(cursor.NewStatic(), time.Hour, time.Now), Log: slog.New(slog.DiscardHandler), Tokens: tokens}
	handle := definition.Handler(frame, func(context.Context, tool.Call[doored]) (tool.Answer[map[string]any], error) {
		return tool.Answer[map[string]any]{Data: members, Pin: "pin"}, nil
	})
	return func(arguments string) (out outcome.Envelope) {
		answer, err := handle(context.Background(), tool.Request{Version: tool.RequestVersion, Tool: "test_door", Principal: costPrincipal, Arguments: []byte(arguments)})
		if err != nil {
			panic(err)
		}
		if err := json.Unmarshal(answer, &out); err != nil {
			panic(err)
		}
		return out
	}
}

// The limits of the contract at the door of a tool, where the whole envelope counts:
// the limit itself comes in one answer, one more in two.
//
// covers: B1, B2
func TestEveryLimitHoldsAtTheDoorOfATool(t *testing.T) {
	few := func(int) int { return 1 }
	list := func(n int) []string { return make([]string, n) }
	rows := func(n int) any {
		out := make([]any, n)
		for i := range out {
			out[i] = []any{i}
		}
		return map[string]any{"columns": []any{map[string]any{"columnKey": "x", "type": "number", "unit": "m"}}, "rows": out}
	}
	deep := func(n int) any {
		var v any = map[string]any{"value": 1}
		for range n {
			v = map[string]any{"value": []any{v}}
		}
		return v
	}
	around := len(`{"data":{"text":""},"diagnostics":[],"ok":true,"resources":[]}`)
	text := func(envelope int) doorData { return doorData{Text: strings.Repeat("x", envelope-around)} }
	for name, c := range map[string]struct {
		bound         string
		limit         int
		at, over      doorData
		tokens        func(int) int
		parts, larger int // of one more; what it is observed as
	}{
		"items":  {"items", 500, doorData{Items: list(500)}, doorData{Items: list(501)}, nil, 2, 501},
		"rows":   {"tableRows", 1000, doorData{Value: rows(1000)}, doorData{Value: rows(1001)}, nil, 2, 1001},
		"depth":  {"depth", 8, doorData{Value: deep(8)}, doorData{Value: deep(9)}, nil, 2, 9},
		"bytes":  {"bytes", 2_097_152, text(2_097_152), text(2_097_153), few, 2, 2_097_153},
		"tokens": {"tokens", 200_000, text(400_000), text(400_001), nil, 2, 200_001},
	} {
		t.Run(name, func(t *testing.T) {
			call := answerer(c.at, c.tokens)
			if e := call(`{}`); !e.OK || strings.Contains(string(e.Data), `"truncation"`) {
				t.Errorf("the limit itself is cut: %.200s", e.Data)
			}
			call = answerer(c.over, c.tokens)
			arguments, parts := `{}`, 0
			for {
				e := call(arguments)
				var told struct {
					Truncation *struct {
						Truncated       bool
						Budget          string
						Limit, Observed int
						Continuation    struct{ Member, Value string }
					}
				}
				if err := json.Unmarshal(e.Data, &told, json.MatchCaseInsensitiveNames(true)); err != nil || !e.OK {
					t.Fatalf("%v %+v", err, e.Diagnostics)
				}
				parts++
				if told.Truncation == nil {
					break
				}
				if tr := *told.Truncation; parts == 1 && (!tr.Truncated || tr.Budget != c.bound || tr.Limit != c.limit || tr.Observed != c.larger || tr.Continuation.Member != "cursor") {
					t.Errorf("told %+v", tr)
				}
				arguments = fmt.Sprintf(`{"cursor":%q}`, told.Truncation.Continuation.Value)
			}
			if parts != c.parts {
				t.Errorf("%d parts", parts)
			}
		})
	}
}

// Budgets that nobody can have, each told where it stands, all at once.
//
// covers: B3, E2
func TestEveryBudgetThatCannotBeIsToldWhereItStands(t *testing.T) {
	call := answerer(doorData{Text: "x"}, nil)
	for _, name := range []string{"tokens", "bytes", "items", "tableRows", "depth"} {
		for _, value := range []string{"0", "-1", "2097153", "1.5", `"5"`, "true"} {
			e := call(fmt.Sprintf(`{"budget":{%q:%s}}`, name, value))
			var told []string
			for _, n := range e.Diagnostics {
				told = append(told, string(n.Code)+" "+n.Path)
			}
			if e.OK || !reflect.DeepEqual(told, []string{"PX_SCHEMA_INVALID /budget/" + name}) {
				t.Errorf("%s of %s: %v", name, value, told)
			}
		}
	}
	e := call(`{"budget":{"items":0,"depth":9,"rows":5}}`)
	found := map[string]bool{}
	for _, n := range e.Diagnostics {
		found[string(n.Code)+" "+n.Path] = true
	}
	if want := map[string]bool{"PX_SCHEMA_INVALID /budget/items": true, "PX_SCHEMA_INVALID /budget/depth": true, "PX_SCHEMA_UNKNOWN_FIELD /budget/rows": true}; e.OK || !reflect.DeepEqual(found, want) {
		t.Errorf("told %v", found)
	}
}
