package safeschema_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/capability/safeschema"
)

// repeated is a list of n times the same.
func repeated(one string, n int) string {
	return strings.TrimSuffix(strings.Repeat(one+",", n), ",")
}

// listOf is a schema of objects whose member a is a list.
func listOf(items, more string) string {
	return `{"type":"object","properties":{"a":{"type":"array","items":` + items + more + `}}}`
}

// What would take minutes, or all memory of a function, is a verdict at once.
//
// covers: C4
func TestNoSchemaMakesAValueSlow(t *testing.T) {
	var numbers []string
	for i := range 512 {
		numbers = append(numbers, fmt.Sprint(1000+i))
	}
	anyOf := func(inner string, n int) string { return `{"anyOf":[` + repeated(inner, n) + `]}` }
	var hollow []string // all different, with nothing in them
	for i := range 20_000 {
		hollow = append(hollow, "["+strings.NewReplacer("0", "[],", "1", "[[]],").Replace(fmt.Sprintf("%b", i))+"[]]")
	}
	for name, c := range map[string][2]string{
		"numbers held to an enum of numbers":    {listOf(`{"enum":[`+strings.Join(numbers, ",")+`]}`, ""), repeated("9", 60_000)},
		"alternatives of alternatives":          {listOf(anyOf(anyOf(anyOf(`{"minLength":3}`, 6), 8), 8), ""), repeated(`""`, 60_000)},
		"a pattern of many states":              {listOf(`{"pattern":"`+strings.Repeat("(a?){1000}", 5)+`b"}`, ""), `"` + strings.Repeat("a", 250_000) + `"`},
		"many patterns of some states":          {listOf(anyOf(anyOf(`{"pattern":"(a?){200}b"}`, 8), 8), ""), `"` + strings.Repeat("a", 100_000) + `"`},
		"objects without all that is required":  {listOf(`{"type":"object","required":["x`+strings.Join(numbers, `","x`)+`"]}`, ""), repeated("{}", 80_000)},
		"lists of nothing that must be unlike":  {listOf(`{}`, `,"uniqueItems":true`), strings.Join(hollow, ",")},
		"lists held to an enum of long lists":   {listOf(`{"enum":[`+repeated("["+repeated("1", 100)+"]", 100)+`]}`, ""), repeated("["+repeated("1", 99)+",2]", 1000)},
		"an object held to alternatives by ref": {`{"type":"object","$defs":{"s":` + anyOf(`{"minLength":3}`, 8) + `},"properties":{"a":{"type":"array","items":` + anyOf(`{"$ref":"#/$defs/s"}`, 8) + `}}}`, repeated(`""`, 80_000)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := compile(t, c[0])
			got, err := s.Validate(canon.Raw(`{"a":[` + c[1] + `]}`))
			if err != nil || len(got) != 1 || got[0].Keyword != safeschema.Work || got[0].Path != "" {
				t.Fatalf("%.300v, %v", got, err)
			}
		})
	}
}

// What plugins have is judged as before, in the largest sizes.
//
// covers: C4
func TestWhatIsLargeAndPlainIsJudged(t *testing.T) {
	row := `{"name":"beam-17","kind":"girder","at":"2026-12-14T09:00:00+09:00","x":1.5,"tags":["a","b"]}`
	rows := `{"type":"object","properties":{
		"name":{"type":"string","pattern":"^[a-z]+-[0-9]{1,6}$"},"kind":{"enum":["girder","deck","pier"]},"at":{"type":"string","format":"date-time"},
		"x":{"type":["number","null"]},"tags":{"type":"array","uniqueItems":true,"items":{"type":"string","maxLength":20}}},"required":["name","kind","at"],"additionalProperties":false}`
	var objects []string
	for i := range 10_000 {
		objects = append(objects, fmt.Sprintf(`{"id":%d}`, i))
	}
	for name, c := range map[string][2]string{
		"two million numbers":       {listOf(`{"type":"number"}`, ""), repeated("1", 2_000_000)},
		"a megabyte of rows":        {listOf(rows, ""), repeated(row, 10_000)},
		"ten thousand unlike ones":  {listOf(`{"type":"object"}`, `,"uniqueItems":true`), strings.Join(objects, ",")},
		"one text and a pattern":    {listOf(`{"type":"string","pattern":"^[^<>]*$"}`, ""), `"` + strings.Repeat("a", 1<<20) + `"`},
		"one of eight kinds of row": {listOf(`{"oneOf":[`+rows+`,`+repeated(`{"type":"string"}`, 7)+`]}`, ""), repeated(row, 2_500)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got, err := compile(t, c[0]).Validate(canon.Raw(`{"a":[` + c[1] + `]}`)); err != nil || got != nil {
				t.Fatalf("%.300v, %v", got, err)
			}
		})
	}
}

// What is told is stored with an execution and read by a model: it stays small, and says
// that it is not all.
//
// covers: C4, C9
func TestOfManyViolationsSomeAreTold(t *testing.T) {
	long := strings.Repeat("n", 1000)
	schema := `{"type":"object","properties":{"a":{"type":"array","items":{"type":"string"}},"` + long + `":{"type":"array","items":{"type":"string"}}}}`
	s := compile(t, schema)
	for value, most := range map[string]int{
		`{"a":[` + repeated("1", 100) + `]}`:               100,
		`{"a":[` + repeated("1", 101) + `]}`:               101,
		`{"a":[` + repeated("1", 70_000) + `]}`:            101,
		`{"` + long + `":[` + repeated("1", 50_000) + `]}`: 20,
	} {
		got, err := s.Validate(canon.Raw(value))
		if err != nil || len(got) > most || most >= 100 && len(got) != most {
			t.Fatal(len(got), most, err)
		}
		if last := got[len(got)-1]; (last.Keyword == safeschema.More) != (most != 100) || (last.Path == "") != (most != 100) {
			t.Fatal(most, last.Keyword)
		}
	}
}
