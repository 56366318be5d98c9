package texttemplate_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/pxhost/pxhost/shared/adapter/texttemplate"
	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/capability"
	"github.com/pxhost/pxhost/shared/outcome"
)

// covers: A1
func TestATextIsMadeOfArgumentsAlone(t *testing.T) {
	for _, c := range []struct{ template, arguments, summary, data, code string }{
		{`요청을 다음 형식으로 정리합니다: {query}`, `{"query":"{arguments.x} {{1+1}}","x":1}`, "요청을 다음 형식으로 정리합니다: {arguments.x} {{1+1}}", `{"text":"요청을 다음 형식으로 정리합니다: {arguments.x} {{1+1}}"}`, ""},
		{`{arguments.n}`, `{"n":0}`, "0", `{"text":"0"}`, ""},
		{`{query}`, `{"query":""}`, "제목", `{"text":""}`, ""},
		{`{query}`, `{"query":"` + strings.Repeat("가", 201) + `"}`, strings.Repeat("가", 199) + "…", `{"text":"` + strings.Repeat("가", 201) + `"}`, ""},
		{`{query}`, `{}`, "", "", "EXTENSION_INPUT_INVALID"},
		{`{arguments.__proto__}`, `{"query":"secret"}`, "", "", "EXTENSION_INPUT_INVALID"},
		{`{query}`, `{"query":{"secret":1}}`, "", "", "EXTENSION_INPUT_INVALID"},
	} {
		runtime, err := canon.Encode(map[string]string{"adapter": "text_template", "template": c.template})
		if err != nil {
			t.Fatal(err)
		}
		got, err := texttemplate.Adapter{}.Call(t.Context(), capability.Call{Capability: capability.Capability{Title: "제목", Runtime: runtime}, Arguments: canon.Raw(c.arguments)})
		if c.code != "" {
			f := (*capability.Failure)(nil)
			if !errors.As(err, &f) || f.Code != outcome.Code(c.code) || strings.Contains(err.Error(), "secret") {
				t.Errorf("%s: %v", c.template, err)
			}
			continue
		}
		if err != nil || got.Summary != c.summary || string(got.Data) != c.data || got.Actions != nil {
			t.Errorf("%s: %q %s %v", c.template, got.Summary, got.Data, err)
		}
	}
	if _, err := (texttemplate.Adapter{}).Call(t.Context(), capability.Call{Capability: capability.Capability{Runtime: canon.Raw(`{"adapter":"calendar_store","operation":"list","namespace":"a"}`)}, Arguments: canon.Raw(`{}`)}); err == nil {
		t.Error("another's runtime is taken")
	}
}
