package acceptance

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pxhost/pxhost/shared/tool/catalog/render"
)

// The examples of the reference page, each made as it stands there, in their order.
//
// covers: W10
func TestTheReferencesExamplesWork(t *testing.T) {
	h := start(t)
	given := map[string]string{}
	for _, e := range render.Examples {
		if e.Approval != "" {
			var ref string
			json.Unmarshal([]byte(given[e.Approval]), &ref)
			given["APPROVAL"] = strconv.Quote(found(t, `approvalRef (approval_\w+)`, h.operate(t, "approve", ref, "--yes")))
		}
		arguments := render.Named.ReplaceAllStringFunc(e.Arguments, func(name string) string {
			if name[0] == '"' {
				return name
			}
			return given[name]
		})
		var answer struct {
			OK   bool
			Data any
		}
		for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
			code, out, errs := h.px(t, "", "call", "--json", e.Tool, arguments)
			if code != 0 {
				t.Fatalf("%s %s: %d %s%s", e.Tool, arguments, code, out, errs)
			}
			if err := json.Unmarshal([]byte(out), &answer); err != nil || !answer.OK {
				t.Fatalf("%s %s: %v %s", e.Tool, arguments, err, out)
			}
			if !e.Ends || !strings.Contains(out, `"state":"Queued"`) && !strings.Contains(out, `"state":"Running"`) {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s does not end: %s", arguments, out)
			}
		}
		for name, pointer := range e.Gives {
			at := answer.Data
			for step := range strings.SplitSeq(pointer[1:], "/") {
				switch v := at.(type) {
				case map[string]any:
					at = v[step]
				case []any:
					i, err := strconv.Atoi(step)
					if err != nil || i >= len(v) {
						t.Fatalf("%s: the answer has no %s", e.Tool, pointer)
					}
					at = v[i]
				}
			}
			text, err := json.Marshal(at)
			if err != nil || at == nil {
				t.Fatalf("%s: the answer has no %s", e.Tool, pointer)
			}
			given[name] = string(text)
		}
	}
}
