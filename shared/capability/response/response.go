// Package response makes a result of the answer of a JSON API (A6): of a single answer
// a summary and an object, of a list a page of items in one form. Which of the two it
// is, and where the parts are, a capability declares; they do not mix.
//
// A place that is declared and is not there, or is of another type, is a failure and
// never an empty result. A number is never another one: a result that would hold one
// only rounded is a failure too, and one that is an ID or a content keeps its digits.
package response

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/capability"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/schema"
)

// The rules that answers break.
const (
	NoJSON    = "json"      // it is no strict JSON
	NoObject  = "object"    // an object is needed here
	NoText    = "text"      // a text that is not empty is needed here
	NoList    = "list"      // a list is needed here
	NoScalar  = "scalar"    // a string or a number is needed here
	NoSummary = "summary"   // neither summary nor message is a text
	NotThere  = "not_there" // the place is not there
	NotHeld   = "range"     // a number that would be rounded
)

// An AnswerError says which rule an answer breaks, and at which declared place. It
// quotes nothing of the answer.
type AnswerError struct {
	Rule  string
	Place string // the member of response, "" is none
}

func (e *AnswerError) Error() string {
	return "response: the answer breaks the rule " + e.Rule + " at " + e.Place
}

// any item of a list.
const each = "*"

// maxItems is how many items a list has where it does not say.
const maxItems = 20

// A Shape reads answers. The zero Shape is of a capability that declares none.
type Shape struct {
	declared              bool
	prefix                string
	summary, data         []string
	collection, id, url   []string
	titles, contents      [][]string
	most                  int
	hasSummary, hasData   bool
	hasURL, hasCollection bool
}

// Parse reads what a capability declares, at a JSON Pointer. nil declares nothing.
func Parse(r *capability.Response, at string) (Shape, outcome.Findings) {
	var findings outcome.Findings
	if r == nil {
		return Shape{}, nil
	}
	invalid := func(member, rule string) {
		findings.Add(outcome.SchemaInvalid, at+"/"+member, outcome.Params{"rule": rule})
	}
	path := func(member, text string, many bool) []string {
		parts := strings.Split(text, ".")
		for _, p := range parts {
			if p == "" || p == each && !many {
				invalid(member, "path")
				break
			}
		}
		return parts
	}
	s := Shape{declared: true, prefix: r.SummaryPrefix, most: maxItems}
	list := map[string]bool{"collection_path": r.CollectionPath != "", "id_path": r.IDPath != "", "title_paths": r.TitlePaths != nil, "url_path": r.URLPath != "",
		"content_paths": r.ContentPaths != nil, "max_items": r.MaxItems != 0}
	isList := false
	for _, there := range list {
		isList = isList || there
	}
	if isList {
		for _, member := range []string{"summary_path", "data_path"} {
			if member == "summary_path" && r.SummaryPath != "" || member == "data_path" && r.DataPath != "" {
				invalid(member, "not_of_a_list")
			}
		}
		for _, member := range []string{"collection_path", "id_path", "title_paths"} {
			if !list[member] {
				invalid(member, "required")
			}
		}
		if findings != nil {
			return s, findings
		}
		s.hasCollection = true
		s.collection, s.id = path("collection_path", r.CollectionPath, true), path("id_path", r.IDPath, false)
		for i, p := range r.TitlePaths {
			s.titles = append(s.titles, path("title_paths/"+strconv.Itoa(i), p, true))
		}
		for i, p := range r.ContentPaths {
			s.contents = append(s.contents, path("content_paths/"+strconv.Itoa(i), p, true))
		}
		if s.hasURL = r.URLPath != ""; s.hasURL {
			s.url = path("url_path", r.URLPath, false)
		}
		if r.MaxItems > 0 {
			s.most = r.MaxItems
		}
		return s, findings
	}
	if r.SummaryPath != "" && r.SummaryPrefix != "" {
		invalid("summary_prefix", "either_path_or_prefix")
	}
	if s.hasSummary = r.SummaryPath != ""; s.hasSummary {
		s.summary = path("summary_path", r.SummaryPath, false)
	}
	if s.hasData = r.DataPath != ""; s.hasData {
		s.data = path("data_path", r.DataPath, false)
	}
	return s, findings
}

// Read makes a result of an answer. title stands for a summary where a list declares no
// prefix.
func (s Shape) Read(body []byte, title string) (capability.Result, error) {
	if canon.Check(body) != nil {
		return capability.Result{}, &AnswerError{Rule: NoJSON}
	}
	text := canon.Raw(bytes.TrimSpace(body))
	if s.hasCollection {
		return s.list(text, title)
	}
	out := capability.Result{Data: text, Summary: s.prefix}
	if text.Kind() != '{' {
		return capability.Result{}, &AnswerError{Rule: NoObject}
	}
	if s.hasData {
		data, there := one(text, s.data)
		if !there || data.Kind() != '{' {
			return capability.Result{}, &AnswerError{missing(there, NoObject), "data_path"}
		}
		out.Data = data
	}
	var ok bool
	if out.Data, ok = held(out.Data); !ok {
		return capability.Result{}, &AnswerError{Rule: NotHeld, Place: s.dataPlace()}
	}
	switch {
	case s.hasSummary:
		value, there := one(text, s.summary)
		summary, ok := textOf(value)
		if !ok {
			return capability.Result{}, &AnswerError{missing(there, NoText), "summary_path"}
		}
		out.Summary = summary
	case s.prefix == "":
		for _, name := range []string{"summary", "message"} {
			value, _ := one(text, []string{name})
			if summary, ok := textOf(value); ok {
				out.Summary = summary
				return out, nil
			}
		}
		return capability.Result{}, &AnswerError{Rule: NoSummary}
	}
	return out, nil
}

// held is a value in canonical form, if every number in it can be held: an integer that
// binary64 would round is another one afterwards, as an ID of 64 bits is.
func held(value canon.Raw) (canon.Raw, bool) {
	var out canon.Raw
	findings := schema.DecodeAt(value, "", &out)
	return out, findings == nil
}

// dataPlace is the member of response by which the data was found.
func (s Shape) dataPlace() string {
	if s.hasData {
		return "data_path"
	}
	return ""
}

func missing(there bool, rule string) string {
	if there {
		return rule
	}
	return NotThere
}

// An Item is an item of a list in the one form.
type Item struct {
	ID      string `json:"id"`
	Title   string `json:"title"`
	URL     string `json:"url,omitzero"`
	Content string `json:"content,omitzero"`
}

// list makes data.items and data.results, which are the same, of the first items of a
// list; total is how many there are.
func (s Shape) list(text canon.Raw, title string) (capability.Result, error) {
	found := all(text, s.collection)
	var items []canon.Raw
	if len(found) == 0 && s.collection[len(s.collection)-1] != each {
		return capability.Result{}, &AnswerError{NotThere, "collection_path"}
	}
	for _, part := range found {
		if s.collection[len(s.collection)-1] == each {
			items = append(items, part)
			continue
		}
		var list []canon.Raw
		if part.Kind() != '[' || json.Unmarshal(part, &list) != nil {
			return capability.Result{}, &AnswerError{NoList, "collection_path"}
		}
		items = append(items, list...)
	}
	out := make([]Item, 0, min(len(items), s.most))
	for _, item := range items[:min(len(items), s.most)] {
		read, err := s.item(item)
		if err != nil {
			return capability.Result{}, err
		}
		out = append(out, read)
	}
	data, err := canon.Encode(map[string]any{"items": out, "results": out, "total": len(items)})
	if err != nil {
		return capability.Result{}, fmt.Errorf("response: %w", err)
	}
	if s.prefix != "" {
		title = s.prefix
	}
	return capability.Result{Summary: fmt.Sprintf("%s (%d)", title, len(out)), Data: data}, nil
}

func (s Shape) item(text canon.Raw) (Item, error) {
	if text.Kind() != '{' {
		return Item{}, &AnswerError{NoObject, "collection_path"}
	}
	var out Item
	id, there := one(text, s.id)
	switch {
	case id.Kind() == '0':
		out.ID = digits(id)
	default:
		var ok bool
		if out.ID, ok = textOf(id); !ok {
			return Item{}, &AnswerError{missing(there, NoScalar), "id_path"}
		}
	}
	titled := false
	for _, p := range s.titles {
		for _, value := range all(text, p) {
			if out.Title, titled = textOf(value); titled {
				break
			}
		}
		if titled {
			break
		}
	}
	if !titled {
		return Item{}, &AnswerError{NoText, "title_paths"}
	}
	if s.hasURL {
		if value, there := one(text, s.url); there && value.Kind() != 'n' {
			var ok bool
			if out.URL, ok = textOf(value); !ok {
				return Item{}, &AnswerError{NoText, "url_path"}
			}
		}
	}
	var contents []string
	for _, p := range s.contents {
		for _, value := range all(text, p) {
			// What has nothing to say in some items is null, or not there.
			switch value.Kind() {
			case 'n':
			case '"':
				if content, ok := textOf(value); ok {
					contents = append(contents, content)
				}
			case '0':
				contents = append(contents, digits(value))
			case 't', 'f':
				contents = append(contents, string(value))
			default:
				return Item{}, &AnswerError{NoScalar, "content_paths"}
			}
		}
	}
	out.Content = strings.Join(contents, "\n")
	return out, nil
}

var integer = regexp.MustCompile(`^-?[1-9][0-9]*$`)

// digits is a number as text: an integer with all its digits, any other as canonical
// JSON writes it.
func digits(number canon.Raw) string {
	if integer.Match(number) {
		return string(number)
	}
	text, err := canon.Canonicalize(number)
	if err != nil { // it was checked with the whole answer
		return string(number)
	}
	return string(text)
}

// textOf is a string that is not empty.
func textOf(value canon.Raw) (string, bool) {
	var text string
	if value.Kind() != '"' || json.Unmarshal(value, &text) != nil {
		return "", false
	}
	return text, text != ""
}

// one follows a path without *.
func one(value canon.Raw, path []string) (canon.Raw, bool) {
	found := all(value, path)
	if len(found) == 0 {
		return nil, false
	}
	return found[0], true
}

// all follows a path: names of members, indices of items, and * for all items.
func all(value canon.Raw, path []string) []canon.Raw {
	if len(path) == 0 {
		return []canon.Raw{value}
	}
	switch value.Kind() {
	case '{':
		var members map[string]canon.Raw
		if json.Unmarshal(value, &members) != nil {
			return nil
		}
		if below, there := members[path[0]]; there {
			return all(below, path[1:])
		}
	case '[':
		var list []canon.Raw
		if json.Unmarshal(value, &list) != nil {
			return nil
		}
		if path[0] == each {
			var out []canon.Raw
			for _, below := range list {
				out = append(out, all(below, path[1:])...)
			}
			return out
		}
		if i, err := strconv.Atoi(path[0]); err == nil && i >= 0 && i < len(list) && strconv.Itoa(i) == path[0] {
			return all(list[i], path[1:])
		}
	}
	return nil
}
