package main

import (
	"strings"
	"testing"

	"github.com/pxhost/pxhost/infra/sample"
	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/policy"
)

// A rule that could never fit is a gate that its author believes in and that is not
// there: it is refused by name.
//
// covers: U6
func TestAPolicyIsRefusedWhereARuleCouldNeverFit(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"a kind that nothing has":             {`{"rules":[{"on":"report","kinds":["SetFieldvalue"],"approval":"required"}]}`, `PX_SCHEMA_INVALID at "/rules/0/kinds/0" {"allowed":["CreateReport",`},
		"a kind of another subject":           {`{"rules":[{"on":"flow","approval":"none"},{"on":"run","kinds":["RunFlow","SetText"],"approval":"required"}]}`, `at "/rules/1/kinds/1" {"allowed":["RunFlow","RunReportFlowConnection","RetryBatchCase"],"rule":"enum"}`},
		"a Batch is a subject of its own":     {`{"rules":[{"on":"report","kinds":["RunReportFlowBatch"],"approval":"required"}]}`, `at "/rules/0/kinds/0"`},
		"an unknown subject":                  {`{"rules":[{"on":"plan","approval":"required"}]}`, `PX_SCHEMA_INVALID at "/rules/0/on" {"allowed":["report","flow","function","run","batch"],"rule":"enum"}`},
		"no rules":                            {`{}`, `PX_SCHEMA_INVALID at "/rules" {"rule":"required"}`},
		"a path that nothing writes":          {`{"rules":[{"on":"flow","paths":["/nodes/*/targets"],"approval":"required"}]}`, `PX_SCHEMA_INVALID at "/rules/0/paths/0" {"allowed":["/label",`},
		"a path of another subject":           {`{"rules":[{"on":"report","paths":["/connections","/nodes"],"approval":"required"}]}`, `at "/rules/0/paths/1"`},
		"a path that is none":                 {`{"rules":[{"on":"flow","paths":["nodes/a"],"approval":"required"}]}`, `at "/rules/0/paths/0"`},
		"a path of what is no document":       {`{"rules":[{"on":"run","paths":[""],"approval":"required"}]}`, `at "/rules/0/paths/0" {"allowed":[],"rule":"enum"}`},
		"paths of each subject":               {`{"rules":[{"on":"flow","paths":["","/nodes","/nodes/a","/nodes/*/target/version","/nodes/a/settings"],"approval":"required"},{"on":"report","paths":["/blocks/basis/fields"],"approval":"required"},{"on":"function","paths":["/source"],"approval":"required"}]}`, ""},
		"a kind of each subject":              {`{"rules":[{"on":"report","kinds":["SetFieldValue","CreateReport"],"approval":"required"},{"on":"flow","kinds":["AddNode"],"approval":"required"},{"on":"function","kinds":["CreateFunctionVersion"],"approval":"required"},{"on":"run","kinds":["RetryBatchCase"],"approval":"required"},{"on":"batch","kinds":["RunReportFlowBatch"],"approval":"required"}]}`, ""},
		"rules of any kind, and of none left": {`{"rules":[{"on":"run","approval":"none"}]}`, ""},
	} {
		rules, version, err := readPolicy([]byte(c.text))
		if c.want == "" {
			if err != nil || len(rules) == 0 || version != nil {
				t.Errorf("%s: %v %v %v", name, rules, version, err)
			}
		} else if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: it is %v, not %s", name, err, c.want)
		}
	}
}

// What px project policy prints may be given back to it.
func TestAPolicyAsItIsPrintedMayBeGivenBack(t *testing.T) {
	text, err := canon.Encode(policy.Policy{Version: 3, Rules: sample.Rules})
	if err != nil {
		t.Fatal(err)
	}
	rules, version, err := readPolicy(text)
	if err != nil || version == nil || *version != 3 || len(rules) != len(sample.Rules) || len(rules) == 0 {
		t.Errorf("it is %v of version %v, %v", rules, version, err)
	}
}
