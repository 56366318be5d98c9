package render_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/pxhost/pxhost/shared/budget"
	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/cursor"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/target"
	"github.com/pxhost/pxhost/shared/tool"
	"github.com/pxhost/pxhost/shared/tool/catalog/render"
)

type input struct {
	tool.Common
	Target target.Flow `json:"target" desc:"The exact revision."`
	Count  int64       `json:"count"`
}

type row struct {
	From target.Flow `json:"from"`
	To   target.Flow `json:"to"`
}

type output struct {
	Rows  []row     `json:"rows"`
	Value canon.Raw `json:"value"`
}

var definition = tool.Define[input, output](tool.Spec{
	Name: "example", Description: "Does what | an example does. No more.", Annotations: tool.Reads,
	Places: []budget.Place{{Path: "/rows", Counts: budget.AsItems}, {Path: "/value", Value: true}},
})

// covers: W7, W10, E1, B2
func TestEveryEnvelopeFitsTheOutputSchema(t *testing.T) {
	entry := render.EntryOf(definition)
	resolved, err := entry.OutputSchema.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	box := cursor.New(cursor.NewStatic(), time.Hour, time.Now)
	h := definition.Handler(tool.Frame{Cursors: box, Log: slog.New(slog.DiscardHandler)}, func(_ context.Context, call tool.Call[input]) (tool.Answer[output], error) {
		answer := tool.Answer[output]{Data: output{Value: canon.Raw(`{"value":[[[]]]}`)}, Pin: "x"}
		for range call.Input.Count {
			answer.Data.Rows = append(answer.Data.Rows, row{call.Input.Target, call.Input.Target})
		}
		answer.Diagnostics.Add(outcome.UnitConverted, "/x", nil)
		answer.Resources = []outcome.Resource{{URI: "x", MediaType: "y"}}
		return answer, nil
	})
	const exact = `"target":{"scope":{"kind":"project","workspaceKey":"a","projectKey":"b"},"flowKey":"c","revisionRef":"d"}`
	for name, arguments := range map[string]string{
		"a success":            `{` + exact + `,"count":3}`,
		"an empty list":        `{` + exact + `,"count":0}`,
		"a failure":            `{"count":true}`,
		"a cut answer":         `{` + exact + `,"count":501}`,
		"a value cut by depth": `{` + exact + `,"count":1,"budget":{"depth":2}}`,
	} {
		cursor := ""
		for part := 0; ; part++ {
			text := arguments
			if cursor != "" {
				text = strings.TrimSuffix(arguments, "}") + fmt.Sprintf(`,"cursor":%q}`, cursor)
			}
			got, err := h(context.Background(), tool.Request{Version: 1, Tool: "example", Arguments: []byte(text)})
			if err != nil {
				t.Fatal(err)
			}
			var value struct {
				Data struct {
					Truncation struct{ Continuation struct{ Value string } }
				}
			}
			var any any
			if json.Unmarshal(got, &value) != nil || json.Unmarshal(got, &any) != nil {
				t.Fatalf("%s", got)
			}
			if err := resolved.Validate(any); err != nil {
				t.Errorf("%s, part %d: %v\n%s", name, part, err, got)
			}
			if cursor = value.Data.Truncation.Continuation.Value; cursor == "" {
				if want := map[string]int{"a cut answer": 1, "a value cut by depth": 1}[name]; part != want {
					t.Errorf("%s has %d parts", name, part+1)
				}
				break
			}
		}
	}
}

// covers: W7, B2
func TestTheEntryOfAToolIsSmallAndWhole(t *testing.T) {
	text, err := render.Catalog([]tool.Defined{definition})
	if err != nil {
		t.Fatal(err)
	}
	if len(text) > 1500 {
		t.Errorf("the example takes %d bytes", len(text))
	}
	for _, want := range []string{
		`"annotations":{"readOnlyHint":true,"destructiveHint":false,"idempotentHint":true,"openWorldHint":false}`,
		`"cursor":{"type":"string","description":"From nextCursor or truncation`, `"properties":{"from":{},"to":{}}`, `"value":{}`,
		`"required":["ok","data","diagnostics","resources"]`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %s in %s", want, text)
		}
	}
}

// covers: W10
func TestTheReferenceNamesToolsMembersAndCodes(t *testing.T) {
	text, err := render.Readme([]string{"example", "later"}, []tool.Defined{definition})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| [`example`](#example) | none | Does what \\| an example does. |", "| `later` | | not there yet |",
		"| `target` | object, required | The exact revision. |", "| `budget` | object, optional |", "| `rows` | list of object, required |",
		"| `PX_PLAN_EXPIRED` | error | no | `PLAN_AGAIN` |",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %s", want)
		}
	}
}
