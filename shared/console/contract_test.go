package console

import (
	"reflect"
	"strings"
	"testing"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/flow"
	pxflowdescribe "github.com/pxhost/pxhost/shared/tool/pxflow_describe"
	reportdescribe "github.com/pxhost/pxhost/shared/tool/report_describe"
)

// memberOf finds a member of a type by its name in JSON, in what it embeds too.
func memberOf(t reflect.Type, name string) (reflect.Type, bool) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil, false
	}
	for i := range t.NumField() {
		f := t.Field(i)
		own, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && own == "" {
			if found, ok := memberOf(f.Type, name); ok {
				return found, true
			}
			continue
		}
		if own == name {
			return f.Type, true
		}
	}
	return nil, false
}

// variants are the types behind the sealed interfaces of an answer.
var variants = map[reflect.Type][]reflect.Type{
	reflect.TypeFor[flow.Binding](): {reflect.TypeFor[flow.FlowInput](), reflect.TypeFor[flow.NodeResult](), reflect.TypeFor[flow.Literal]()},
	reflect.TypeFor[flow.Target]():  {reflect.TypeFor[flow.ComponentTarget](), reflect.TypeFor[flow.FunctionTarget]()},
}

// reads holds that whatever a page reads of an answer is in the answer, under that name and
// of that form.
func reads(t *testing.T, at string, page, answer reflect.Type) {
	for page.Kind() == reflect.Pointer {
		page = page.Elem()
	}
	for answer.Kind() == reflect.Pointer {
		answer = answer.Elem()
	}
	if page == answer || page == reflect.TypeFor[canon.Raw]() || answer == reflect.TypeFor[canon.Raw]() {
		return
	}
	if of := variants[answer]; of != nil {
		for i := range page.NumField() {
			name, _, _ := strings.Cut(page.Field(i).Tag.Get("json"), ",")
			there := false
			for _, variant := range of {
				_, ok := memberOf(variant, name)
				there = there || ok
			}
			if !there {
				t.Errorf("%s/%s is in no answer", at, name)
			}
		}
		return
	}
	if page.Kind() != answer.Kind() {
		t.Errorf("%s is a %v, and is read as a %v", at, answer, page)
		return
	}
	switch page.Kind() {
	case reflect.Map, reflect.Slice:
		reads(t, at+"/*", page.Elem(), answer.Elem())
	case reflect.Struct:
		for i := range page.NumField() {
			f := page.Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if f.Anonymous && name == "" {
				reads(t, at, f.Type, answer)
				continue
			}
			if name == "truncation" {
				continue // written by the frame, around every answer
			}
			found, ok := memberOf(answer, name)
			if !ok {
				t.Errorf("%s/%s is in no answer", at, name)
				continue
			}
			reads(t, at+"/"+name, f.Type, found)
		}
	}
}

// Pages read what the tools answer: a member that is renamed there is missed here at once,
// and not shown as empty.
//
// covers: W10
func TestPagesReadWhatTheToolsAnswer(t *testing.T) {
	_, out := pxflowdescribe.Definition.Types()
	reads(t, "pxflow_describe", reflect.TypeFor[flowText](), out)
	_, out = reportdescribe.Definition.Types()
	reads(t, "report_describe", reflect.TypeFor[reportText](), out)
}
