package tools_test

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"pgregory.net/rapid"
)

// Whatever a tool answers and whatever is asked of its size, the parts are the whole,
// and no character is cut: of lists, of long texts and of tables together.
//
// covers: B1, B2
func TestThePartsOfAnyAnswerJoinAtTheDoorOfATool(t *testing.T) {
	words := rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"a", `"`, `\`, "\n", "거더", "휨", "👩🏽‍🚀", "🇰🇷", "é", "\u2028"}), 0, 80).Draw(t, "words"), "")
	})
	rapid.Check(t, func(t *rapid.T) {
		data := doorData{Items: rapid.SliceOfN(words, 0, 30).Draw(t, "items"), Text: words.Draw(t, "text")}
		if n := rapid.IntRange(0, 40).Draw(t, "rows"); n > 0 {
			rows := make([]any, n)
			for i := range rows {
				rows[i] = []any{i, words.Draw(t, "cell")}
			}
			data.Value = map[string]any{"columns": []any{map[string]any{"columnKey": "x", "type": "number", "unit": "m"}, map[string]any{"columnKey": "거더", "type": "string"}}, "rows": rows}
		}
		limits := map[string]int{}
		for name, most := range map[string]int{"bytes": 4_000, "tokens": 2_000, "items": 12, "tableRows": 12} {
			if rapid.Bool().Draw(t, "bound "+name) {
				limits[name] = rapid.IntRange(1, most).Draw(t, name)
			}
		}
		budget, err := json.Marshal(limits, json.Deterministic(true))
		if err != nil {
			t.Fatal(err)
		}
		call := answerer(data, nil)
		whole := call(`{}`)
		var want, joint any
		if err := json.Unmarshal(whole.Data, &want); err != nil {
			t.Fatal(err)
		}
		arguments := fmt.Sprintf(`{"budget":%s}`, budget)
		for n := 0; ; n++ {
			e := call(arguments)
			if !e.OK {
				// A budget that holds no piece says so at the first part or never.
				if n > 0 || len(e.Diagnostics) != 1 || e.Diagnostics[0].Code != "PX_LIMIT_EXCEEDED" || e.Diagnostics[0].Path != "/budget" {
					t.Fatalf("part %d is refused: %+v", n, e.Diagnostics)
				}
				return
			}
			size := len(e.Data) + len(`{"data":,"diagnostics":[],"ok":true,"resources":[]}`)
			if limit, has := limits["bytes"]; has && size > limit {
				t.Fatalf("part %d has %d bytes of %d", n, size, limit)
			}
			if limit, has := limits["tokens"]; has && (size+1)/2 > limit {
				t.Fatalf("part %d has %d tokens of %d", n, (size+1)/2, limit)
			}
			if !utf8.Valid(e.Data) || strings.ContainsRune(string(e.Data), utf8.RuneError) {
				t.Fatalf("part %d cuts a character: %q", n, e.Data)
			}
			var part map[string]any
			if err := json.Unmarshal(e.Data, &part); err != nil {
				t.Fatal(err)
			}
			told, cut := part["truncation"].(map[string]any)
			delete(part, "truncation")
			if n == 0 {
				joint = part
			} else {
				var steps []string
				if at, ok := part["at"].(string); ok {
					steps = strings.Split(at, "/")[1:]
				}
				delete(part, "at")
				joint = joinPart(t, joint, part, steps)
			}
			if !cut {
				break
			}
			if n > 10_000 {
				t.Fatal("no end of parts")
			}
			arguments = fmt.Sprintf(`{"budget":%s,"cursor":%q}`, budget, told["continuation"].(map[string]any)["value"])
		}
		if !reflect.DeepEqual(joint, want) {
			t.Fatalf("the parts join to\n%v, the whole is\n%v", joint, want)
		}
	})
}

// joinPart adds a part to the whole as a client is told to: steps lead to where the
// part goes on, and are nil beside that way; what was not there is filled in.
func joinPart(t *rapid.T, whole, part any, steps []string) any {
	switch part := part.(type) {
	case string:
		switch {
		case steps != nil:
			return whole.(string) + part
		case whole == "":
			return part
		}
	case map[string]any:
		all := whole.(map[string]any)
		for name, value := range part {
			old, has := all[name]
			switch {
			case !has:
				all[name] = value
			case len(steps) > 0 && steps[0] == name:
				all[name] = joinPart(t, old, value, steps[1:])
			default:
				all[name] = joinPart(t, old, value, nil)
			}
		}
	case []any:
		all := whole.([]any)
		if len(steps) == 0 {
			if len(all) == 0 {
				return part
			}
			return all
		}
		at, err := strconv.Atoi(steps[0])
		if err != nil || at > len(all) {
			t.Fatalf("a list of %d goes on at %v", len(all), steps)
		}
		if at < len(all) && len(part) > 0 {
			all[at] = joinPart(t, all[at], part[0], steps[1:])
			part = part[1:]
		}
		return append(all, part...)
	}
	return whole
}
