package main

import (
	"strings"
	"testing"
)

// A reviewer reads a Batch case by case, all of them, and nothing in it passes for
// another line.
//
// covers: U6
func TestALongCommandIsShownByItsMembers(t *testing.T) {
	var out strings.Builder
	showCommand(&out, []byte(`{"kind":"RunReportFlowBatch","cases":[{"caseKey":"span_40","inputs":{"span":{"unit":"ft","value":40}}},`+
		`{"caseKey":"span_41","inputs":{"span":{"unit":"ft","value":41}}}],"merge":{"kind":"table"},"note":"a`+"\u202e"+`b"}`))
	want := `  - kind: "RunReportFlowBatch"
    cases: 2
      {"caseKey":"span_40","inputs":{"span":{"unit":"ft","value":40}}}
      {"caseKey":"span_41","inputs":{"span":{"unit":"ft","value":41}}}
    merge: {"kind":"table"}
    note: "a\u{202e}b"
`
	if out.String() != want {
		t.Errorf("shown as\n%s", out.String())
	}
	out.Reset()
	showCommand(&out, []byte(`{"kind":"SetReportLabel"}`))
	if out.String() != "  {\"kind\":\"SetReportLabel\"}\n" {
		t.Errorf("shown as\n%s", out.String())
	}
}
