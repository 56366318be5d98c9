package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/pxhost/pxhost/infra/px/term"
	"github.com/pxhost/pxhost/shared/budget"
	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/review"
)

// A reviewer reads a Batch case by case, and nothing in it passes for another line.
//
// covers: U6
func TestALongCommandIsShownByItsMembers(t *testing.T) {
	var out strings.Builder
	r := &reading{Screen: &term.Screen{Writer: &out, Columns: 100}}
	r.command([]byte(`{"kind":"RunReportFlowBatch","cases":[{"caseKey":"span_40","inputs":{"span":{"unit":"ft","value":40}}},` +
		`{"caseKey":"span_41","inputs":{"span":{"unit":"ft","value":41}}}],"merge":{"kind":"table"},"note":"a` + "\u202e" + `b","source":"one\ntwo\u001b\n"}`))
	want := `  - kind: "RunReportFlowBatch"
    cases: 2
      {"caseKey":"span_40","inputs":{"span":{"unit":"ft","value":40}}}
      {"caseKey":"span_41","inputs":{"span":{"unit":"ft","value":41}}}
    merge: {"kind":"table"}
    note: "a\u{202e}b"
    source:
      | one
      | two\u{1b}
`
	if out.String() != want {
		t.Errorf("shown as\n%s", out.String())
	}
	out.Reset()
	r.command([]byte(`{"kind":"SetReportLabel"}`))
	if out.String() != "  {\"kind\":\"SetReportLabel\"}\n" {
		t.Errorf("shown as\n%s", out.String())
	}
}

// moves is what a plan of a Function says that thousands of Flows use, one of which it
// changes otherwise.
func moves(flows int) review.Asked {
	var diff, uses []map[string]any
	diff = append(diff, map[string]any{"path": "/source", "op": "replace", "unified": "-return a\n+return 2 * a\n"})
	for i := range flows {
		diff = append(diff, map[string]any{"path": fmt.Sprintf("flow/f%d:/nodes/n/target", i), "op": "replace", "before": 1, "after": 2})
		uses = append(uses, map[string]any{"target": fmt.Sprintf("flow/f%d", i), "path": "/nodes/n/target", "effect": "moved"})
	}
	diff = append(diff, map[string]any{"path": "flow/odd:/nodes/n/settings/limit", "op": "remove", "before": 5})
	uses = append(uses, map[string]any{"target": "report/r", "path": "/connections/c/flowTarget", "effect": "moved"})
	text := func(v any) canon.Raw {
		raw, err := canon.Encode(v)
		if err != nil {
			panic(err)
		}
		return raw
	}
	return review.Asked{PlanRef: "plan_x", Plan: &review.PlanText{Diff: text(diff), Impact: text(map[string]any{"uses": uses, "cost": 7})}}
}

// Of thousands of entries a person sees the first of each kind, how many more there
// are, that the odd one is among them, and how to see all.
//
// covers: U6
func TestALongPlanIsSummedUpForAPerson(t *testing.T) {
	var out strings.Builder
	showBody(&term.Screen{Writer: &out, Columns: 100}, moves(4000))
	text := out.String()
	if n := strings.Count(text, "\n"); n > 150 {
		t.Errorf("shown on %d lines", n)
	}
	for _, want := range []string{"+return 2 * a\n", "replace flow/f19:/nodes/n/target\n", "… and 3980 more replace flow/*:/nodes/*/target\n", "remove flow/odd:/nodes/n/settings/limit\n",
		"uses: 4001\n", "… and 3980 more moved flow /nodes/*/target\n", `"target":"report/r"`, "cost: 7\n", "\n7960 entries of long lists are not shown here. All there is: px review plan_x --json\n"} {
		if strings.Count(text, want) != 1 {
			t.Errorf("%q is not shown once in\n%s", want, text)
		}
	}
	if strings.Contains(text, "flow/f20:") {
		t.Error("the one after the first is shown")
	}
	out.Reset()
	showBody(&term.Screen{Writer: &out, Columns: 100}, moves(firstEntries))
	if text := out.String(); strings.Contains(text, "more") || strings.Contains(text, "not shown") || !strings.Contains(text, fmt.Sprintf("flow/f%d:", firstEntries-1)) {
		t.Errorf("a list of as many as are shown is cut:\n%s", text)
	}
}

// What comes in parts is read as the whole that it is of: lists, elements that are cut
// inside, texts, and what is nested too deep.
//
// covers: B2, U6
func TestPartsOfAReviewAreJoined(t *testing.T) {
	deep := any(1.0)
	for range 12 {
		deep = map[string]any{"value": map[string]any{"in": deep}}
	}
	whole := map[string]any{"planRef": "plan_x", "run": map[string]any{"inputs": map[string]any{"a/b": deep, "list": map[string]any{"value": []any{1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0}}}},
		"plan": map[string]any{"diff": []any{}, "commands": []any{map[string]any{"kind": "x", "source": strings.Repeat("거더 a\n", 300)}, map[string]any{"kind": "y"}}}}
	diff := make([]any, 40)
	for i := range diff {
		diff[i] = map[string]any{"path": fmt.Sprint("/", i), "unified": strings.Repeat("+x\n", 10*i)}
	}
	whole["plan"].(map[string]any)["diff"] = diff
	document, err := json.Marshal(map[string]any{"data": whole})
	if err != nil {
		t.Fatal(err)
	}
	for _, bytes := range []int{900, 1500, 5000, math.MaxInt32} {
		var got joined
		parts := 0
		for from := []byte(nil); ; {
			cut := budget.Answer{Document: document, Told: "data", From: from, Member: "cursor", MaxValue: 100,
				Places: []budget.Place{{Path: "/data/plan/commands", Counts: budget.AsItems}, {Path: "/data/plan/commands/*/source"}, {Path: "/data/plan/diff", Counts: budget.AsItems},
					{Path: "/data/plan/diff/*/unified"}, {Path: "/data/run/inputs", Counts: budget.AsItems}, {Path: "/data/run/inputs/*", Value: true}},
				Limits:   budget.Limits{Tokens: math.MaxInt32, Bytes: bytes, Items: 500, TableRows: 100, Depth: 8},
				Continue: func(position []byte) (string, error) { return base64.StdEncoding.EncodeToString(position), nil }}
			part, _, err := budget.Cut(cut)
			if err != nil {
				t.Fatal(bytes, err)
			}
			var told struct{ Data json.RawMessage }
			if err := json.Unmarshal(part, &told); err != nil {
				t.Fatal(err)
			}
			cursor, err := got.add(told.Data)
			if err != nil {
				t.Fatalf("%d bytes, part %d: %v", bytes, parts, err)
			}
			parts++
			if cursor == "" {
				break
			}
			if from, err = base64.StdEncoding.DecodeString(cursor); err != nil {
				t.Fatal(err)
			}
		}
		text, err := got.text()
		var back any
		if err != nil || json.Unmarshal(text, &back) != nil || !reflect.DeepEqual(back, any(whole)) {
			t.Errorf("%d bytes, %d parts: %v\n%s", bytes, parts, err, text)
		}
	}
}

// Parts that do not belong together are an error, and never a plan that nobody made.
func TestPartsThatDoNotFitAreRefused(t *testing.T) {
	for name, parts := range map[string][]string{
		"an element too far":      {`{"l":[1]}`, `{"l":[2],"at":"/l/5"}`},
		"no index":                {`{"l":[1]}`, `{"l":[2],"at":"/l/x"}`},
		"an object for a list":    {`{"l":[1]}`, `{"l":{},"at":"/l/1"}`},
		"a text for an object":    {`{"l":{}}`, `{"l":"x","at":"/l"}`},
		"nested where nothing is": {`{"l":[1]}`, `{"nested":{"path":"/l/7","value":{"value":1}}}`},
		"no object":               {`[]`},
	} {
		var got joined
		var err error
		for _, p := range parts {
			if _, err = got.add([]byte(p)); err != nil {
				break
			}
		}
		if err == nil {
			_, err = got.text()
		}
		if err == nil {
			t.Errorf("%s is joined", name)
		}
	}
}

// Every refusal of a review says the next step, behind its code.
func TestARefusedReviewSaysTheNextStep(t *testing.T) {
	for code, step := range map[outcome.Code]string{
		outcome.PlanNotFound:     "look at the reference",
		outcome.TargetNotFound:   "look at the reference",
		outcome.PermissionDenied: "decide it as one who may",
		outcome.PlanMismatch:     "read it again",
		outcome.PlanExpired:      "who asked may plan or ask again",
		outcome.ApprovalInvalid:  "somebody else has to decide it",
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusConflict)
			fmt.Fprintf(w, `{"ok":false,"data":null,"diagnostics":[{"code":%q,"path":"/planRef","severity":"error","retryable":false,"params":{"reason":"approver is requester"},"suggestedAction":"X","diagnosticId":"D"}],"resources":[]}`, code)
		}))
		d, err := (&environment{url: server.URL}).reviewDoor(doorFlags{token: "t"}, "plan_x")
		if err != nil {
			t.Fatal(err)
		}
		_, err = d.send(t.Context(), http.MethodGet, "", "", nil)
		server.Close()
		if err == nil || !strings.HasPrefix(err.Error(), string(code)+` at "/planRef"`) || !strings.Contains(err.Error(), "\n  ") || !strings.Contains(err.Error(), step) {
			t.Errorf("%s: %v", code, err)
		}
	}
}
