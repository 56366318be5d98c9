package authored

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/pxhost/pxhost/shared/budget"
	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/semantic"
)

// covers: P8, B1, B3
func TestConflictsAreToldAsFarAsThereIsRoomAndNeverSilentlyFewer(t *testing.T) {
	many := func(n, size int) []semantic.Conflict {
		out := make([]semantic.Conflict, n)
		for i := range out {
			out[i] = semantic.Conflict{Path: fmt.Sprintf("/nodes/n%04d", i), Base: canon.Raw(`"` + strings.Repeat("x", size) + `"`)}
		}
		return out
	}
	quoted := many(1, 0)
	quoted[0].Base = canon.Raw(`"` + strings.Repeat(`\"`, 1000) + `"`)
	for name, c := range map[string]struct {
		conflicts      []semantic.Conflict
		limits         budget.Limits
		share          int
		shown, omitted int
		limited        bool
	}{
		"none":                              {nil, budget.Fixed, 0, 0, 0, false},
		"all there is room for":             {many(500, 10), budget.Fixed, 0, 500, 0, false},
		"one more than the items":           {many(501, 10), budget.Fixed, 0, 500, 0, true},
		"fewer items were asked for":        {many(3, 10), (&budget.Request{Items: 2}).Limits(), 0, 2, 0, true},
		"a value that is too large":         {append(many(1, 500_000), many(1, 10)...), budget.Fixed, 0, 2, 1, false},
		"a share that holds two":            {many(4, 1000), budget.Fixed, around + 2300, 4, 2, false},
		"a share that holds no path of all": {many(100, 0), budget.Fixed, around + 1000, 23, 0, true},
		"what is longer when it is escaped": {quoted, budget.Fixed, around + 3000, 1, 1, false},
		"no room at all":                    {many(2, 10), (&budget.Request{Bytes: 1}).Limits(), 0, 0, 0, true},
	} {
		refused, err := Refusal(c.conflicts, c.limits, c.share)
		if err != nil {
			t.Fatal(err)
		}
		if len(c.conflicts) == 0 {
			if refused != nil {
				t.Errorf("%s: %v", name, refused)
			}
			continue
		}
		var list []struct {
			Path    string    `json:"path"`
			Base    canon.Raw `json:"base"`
			Omitted bool      `json:"omitted"`
		}
		text, _ := canon.Encode(refused[0].Params["conflicts"])
		if err := json.Unmarshal(text, &list); err != nil {
			t.Fatal(err)
		}
		omitted := 0
		for i, l := range list {
			if l.Path != c.conflicts[i].Path || l.Omitted == (l.Base != nil) {
				t.Fatalf("%s: %+v", name, l)
			}
			if l.Omitted {
				omitted++
			}
		}
		if refused[0].Code != outcome.MergeConflict || len(list) != c.shown || omitted != c.omitted {
			t.Errorf("%s: %d shown, %d without values", name, len(list), omitted)
		}
		if limited := len(refused) == 2 && refused[1].Code == outcome.LimitExceeded && refused[1].Params["observed"] == len(c.conflicts) && refused[1].Params["limit"] == len(list); limited != c.limited {
			t.Errorf("%s: %v", name, refused[1:])
		}
		// As it is sent, it is within the limits.
		whole, _ := canon.Encode(outcome.Failure(refused...))
		if c.limits.Bytes > 1 && !budget.Fits(whole, c.limits, c.share, nil) {
			t.Errorf("%s: %d bytes do not fit", name, len(whole))
		}
	}
}
