package response_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/capability"
	"github.com/pxhost/pxhost/shared/capability/response"
	"github.com/pxhost/pxhost/shared/schema"
)

// shape reads a declaration as a package has it; "" declares nothing.
func shape(t *testing.T, text string) response.Shape {
	t.Helper()
	if text == "" {
		s, _ := response.Parse(nil, "")
		return s
	}
	var r capability.Response
	if findings := schema.Decode([]byte(text), &r); findings != nil {
		t.Fatal(findings)
	}
	s, findings := response.Parse(&r, "")
	if findings != nil {
		t.Fatal(findings)
	}
	return s
}

// covers: A6
func TestASingleAnswer(t *testing.T) {
	const body = `{"message":"확인했습니다","empty":"","n":3,"data":{"a":[{"b":"c"}],"l":[1]},"null":null}`
	for _, c := range []struct{ declared, body, summary, data, rule string }{
		{`{"summary_path":"message","data_path":"data"}`, body, "확인했습니다", `{"a":[{"b":"c"}],"l":[1]}`, ""},
		{`{"summary_path":"data.a.0.b"}`, body, "c", "", ""},
		{`{"summary_prefix":"고정"}`, body, "고정", "", ""},
		{`{"summary_prefix":"고정","data_path":"data"}`, body, "고정", `{"a":[{"b":"c"}],"l":[1]}`, ""},
		{``, body, "확인했습니다", "", ""},
		{``, `{"summary":"s","message":"m"}`, "s", "", ""},
		{``, `{"summary":"","message":"m"}`, "m", "", ""},
		{`{}`, `{"summary":"s"}`, "s", "", ""},
		{`{"data_path":"data"}`, body, "확인했습니다", `{"a":[{"b":"c"}],"l":[1]}`, ""},
		{``, `{"summary":3}`, "", "", response.NoSummary},
		{``, `{}`, "", "", response.NoSummary},
		{``, `[]`, "", "", response.NoObject},
		{``, `"summary"`, "", "", response.NoObject},
		{``, `{"summary":"a","summary":"b"}`, "", "", response.NoJSON},
		{``, `{"summary":"a"} x`, "", "", response.NoJSON},
		{``, "{\"summary\":\"\xff\"}", "", "", response.NoJSON},
		{``, `<html>`, "", "", response.NoJSON},
		{`{"summary_prefix":"s"}`, ` {"b":1e2,"a":0.10,"n":9007199254740991} `, "s", "", ""},
		{`{"summary_prefix":"s"}`, `{"id":12345678901234567890}`, "", "", response.NotHeld},
		{`{"summary_path":"m","data_path":"d"}`, `{"m":"s","d":{"a":[{"id":9007199254740993}]}}`, "", "", response.NotHeld},
		{`{"summary_path":"m","data_path":"d"}`, `{"id":9007199254740993,"m":"s","d":{}}`, "s", `{}`, ""}, // nothing of it is passed on
		{``, ``, "", "", response.NoJSON},
		{`{"summary_path":"none"}`, body, "", "", response.NotThere},
		{`{"summary_path":"n"}`, body, "", "", response.NoText},
		{`{"summary_path":"empty"}`, body, "", "", response.NoText},
		{`{"summary_path":"null"}`, body, "", "", response.NoText},
		{`{"summary_path":"data.a.01.b"}`, body, "", "", response.NotThere},
		{`{"summary_path":"data.a.1.b"}`, body, "", "", response.NotThere},
		{`{"summary_path":"message","data_path":"data.l"}`, body, "", "", response.NoObject},
		{`{"summary_path":"message","data_path":"null"}`, body, "", "", response.NoObject},
		{`{"summary_path":"message","data_path":"dat"}`, body, "", "", response.NotThere},
	} {
		got, err := shape(t, c.declared).Read([]byte(c.body), "title")
		if c.rule != "" {
			failed := (*response.AnswerError)(nil)
			if !errors.As(err, &failed) || failed.Rule != c.rule || strings.Contains(err.Error(), "확인") {
				t.Errorf("%s of %s: %v, want %s", c.declared, c.body, err, c.rule)
			}
			continue
		}
		if c.data == "" {
			text, err := canon.Canonicalize([]byte(c.body))
			if err != nil {
				t.Fatal(err)
			}
			c.data = string(text)
		}
		if err != nil || got.Summary != c.summary || string(got.Data) != c.data {
			t.Errorf("%s: %q %s %v", c.declared, got.Summary, got.Data, err)
		}
	}
}

// covers: A6
func TestAList(t *testing.T) {
	const repositories = `{"items":[{"id":1,"full_name":"a/b","html_url":"https://x","description":null},{"id":"two","full_name":"","name":"n","description":"d","topics":["t","u"]},{"id":3,"full_name":"c"}]}`
	const declared = `{"collection_path":"items","id_path":"id","title_paths":["full_name","name"],"url_path":"html_url","content_paths":["description","topics.*"],"max_items":2,"summary_prefix":"저장소 검색"}`
	got, err := shape(t, declared).Read([]byte(repositories), "title")
	items := `[{"id":"1","title":"a/b","url":"https://x"},{"content":"d\nt\nu","id":"two","title":"n"}]`
	if want := `{"items":` + items + `,"results":` + items + `,"total":3}`; err != nil || got.Summary != "저장소 검색 (2)" || string(got.Data) != want {
		t.Errorf("%q %s %v", got.Summary, got.Data, err)
	}
	const plain = `{"collection_path":"a","id_path":"i","title_paths":["t"]}`
	for _, c := range []struct{ declared, body, data, rule string }{
		{plain, `{"a":[]}`, `{"items":[],"results":[],"total":0}`, ""},
		{`{"collection_path":"a.*.b","id_path":"i","title_paths":["t"]}`, `{"a":[{"b":[{"i":1,"t":"x"}]},{"b":[]},{"b":[{"i":2,"t":"y"}]}]}`,
			`{"items":[{"id":"1","title":"x"},{"id":"2","title":"y"}],"results":[{"id":"1","title":"x"},{"id":"2","title":"y"}],"total":2}`, ""},
		{`{"collection_path":"*","id_path":"i","title_paths":["t"]}`, `[{"i":1,"t":"x"}]`, `{"items":[{"id":"1","title":"x"}],"results":[{"id":"1","title":"x"}],"total":1}`, ""},
		{`{"collection_path":"*","id_path":"i","title_paths":["t"]}`, `[]`, `{"items":[],"results":[],"total":0}`, ""},
		{`{"collection_path":"a","id_path":"i","title_paths":["t"],"content_paths":["c","d"]}`, `{"a":[{"i":12345678901234567890,"t":"x","c":-9007199254740993,"d":1e2,"more":12345678901234567890}]}`,
			`{"items":[{"content":"-9007199254740993\n100","id":"12345678901234567890","title":"x"}],"results":[{"content":"-9007199254740993\n100","id":"12345678901234567890","title":"x"}],"total":1}`, ""},
		{plain, `{"a":[{"i":1.0,"t":"x"}]}`, `{"items":[{"id":"1","title":"x"}],"results":[{"id":"1","title":"x"}],"total":1}`, ""},
		{plain, `{}`, "", response.NotThere},
		{plain, `{"a":null}`, "", response.NoList},
		{plain, `{"a":{}}`, "", response.NoList},
		{plain, `{"a":["x"]}`, "", response.NoObject},
		{plain, `{"a":[{"t":"x"}]}`, "", response.NotThere},
		{plain, `{"a":[{"i":true,"t":"x"}]}`, "", response.NoScalar},
		{plain, `{"a":[{"i":1,"t":""}]}`, "", response.NoText},
		{plain, `{"a":[{"i":1}]}`, "", response.NoText},
		{`{"collection_path":"a","id_path":"i","title_paths":["t"],"url_path":"u"}`, `{"a":[{"i":1,"t":"x","u":3}]}`, "", response.NoText},
		{`{"collection_path":"a","id_path":"i","title_paths":["t"],"content_paths":["c"]}`, `{"a":[{"i":1,"t":"x","c":{}}]}`, "", response.NoScalar},
	} {
		got, err := shape(t, c.declared).Read([]byte(c.body), "title")
		if c.rule != "" {
			failed := (*response.AnswerError)(nil)
			if !errors.As(err, &failed) || failed.Rule != c.rule {
				t.Errorf("%s of %s: %v, want %s", c.declared, c.body, err, c.rule)
			}
		} else if err != nil || string(got.Data) != c.data || !strings.HasPrefix(got.Summary, "title (") {
			t.Errorf("%s of %s: %q %s %v", c.declared, c.body, got.Summary, got.Data, err)
		}
	}
}

// A list that declares no limit shows twenty, and says how many there are.
func TestAListIsNotCutSilently(t *testing.T) {
	body := `{"a":[` + strings.TrimSuffix(strings.Repeat(`{"i":1,"t":"x"},`, 21), ",") + `]}`
	got, err := shape(t, `{"collection_path":"a","id_path":"i","title_paths":["t"]}`).Read([]byte(body), "title")
	if err != nil || got.Summary != "title (20)" || !strings.HasSuffix(string(got.Data), `"total":21}`) {
		t.Errorf("%q %v", got.Summary, err)
	}
}

// covers: A6
func TestTheTwoShapesDoNotMix(t *testing.T) {
	for text, want := range map[string]string{
		`{"summary_path":"a","collection_path":"b","id_path":"c","title_paths":["d"]}`: "/r/summary_path not_of_a_list",
		`{"data_path":"a","max_items":2}`:                                              "/r/data_path not_of_a_list /r/collection_path required /r/id_path required /r/title_paths required",
		`{"collection_path":"b"}`:                                                      "/r/id_path required /r/title_paths required",
		`{"summary_path":"a","summary_prefix":"b"}`:                                    "/r/summary_prefix either_path_or_prefix",
		`{"summary_path":"a.*"}`:                                                       "/r/summary_path path",
		`{"data_path":"*"}`:                                                            "/r/data_path path",
		`{"data_path":"a..b"}`:                                                         "/r/data_path path",
		`{"collection_path":"b","id_path":"c.*","title_paths":["d",".e"]}`:             "/r/id_path path /r/title_paths/1 path",
	} {
		var r capability.Response
		if findings := schema.Decode([]byte(text), &r); findings != nil {
			t.Fatal(findings)
		}
		_, findings := response.Parse(&r, "/r")
		var got []string
		for _, f := range findings {
			got = append(got, f.Path+" "+f.Params["rule"].(string))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v, want %s", text, got, want)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add(`{"summary":"a"}`)
	f.Add(`{"a":[{"i":1,"t":"x","c":[{"d":1}]}]}`)
	f.Fuzz(func(t *testing.T, body string) {
		for _, declared := range []string{"", `{"summary_path":"a.0.b","data_path":"c"}`, `{"collection_path":"a","id_path":"i","title_paths":["t"],"url_path":"u","content_paths":["c.*.d"]}`} {
			if got, err := shape(t, declared).Read([]byte(body), "title"); err == nil && (got.Summary == "" || got.Data.Kind() != '{' || canon.Check(got.Data) != nil) {
				t.Errorf("%q %s", got.Summary, got.Data)
			}
		}
	})
}
