package main

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
)

// A joined is an answer that came in parts, put together again as package budget tells
// whoever reads one.
type joined struct {
	whole  any
	nested map[string]any // by pointer: what was too deep for the part that it belongs to
	order  []string       // of nested
}

var errParts = errors.New("its parts do not fit together")

// add adds the data of the next part, and returns the cursor of the one after it, ""
// behind the last.
func (j *joined) add(data []byte) (cursor string, err error) {
	var part map[string]any
	var told struct {
		At         *string
		Nested     *struct{ Path string }
		Truncation *struct {
			Continuation struct{ Value string }
		}
	}
	err = json.Unmarshal(data, &part)
	if err == nil {
		err = json.Unmarshal(data, &told, json.MatchCaseInsensitiveNames(true))
	}
	if err != nil {
		return "", err
	}
	if told.Truncation != nil {
		cursor = told.Truncation.Continuation.Value
	}
	var steps []string
	if told.At != nil {
		steps = stepsOf(*told.At)
	}
	nested, _ := part["nested"].(map[string]any)
	for _, name := range []string{"at", "nested", "truncation"} {
		delete(part, name)
	}
	if told.Nested == nil {
		j.whole, err = join(j.whole, part, steps)
		return cursor, err
	}
	if j.whole, err = join(j.whole, part, nil); err != nil {
		return "", err
	}
	path := told.Nested.Path
	old, again := j.nested[path]
	if !again {
		j.order = append(j.order, path)
	}
	if j.nested == nil {
		j.nested = map[string]any{}
	}
	// The pointer of a part that goes on leads through /nested/value.
	j.nested[path], err = join(old, nested["value"], steps[min(2, len(steps)):])
	return cursor, err
}

// text is the whole answer.
func (j *joined) text() ([]byte, error) {
	for _, path := range j.order {
		content := j.nested[path]
		if typed, ok := content.(map[string]any); ok {
			if value, ok := typed["value"]; ok { // a table stands by itself
				content = value
			}
		}
		if err := put(j.whole, stepsOf(path), content); err != nil {
			return nil, err
		}
	}
	return json.Marshal(j.whole, json.Deterministic(true))
}

func stepsOf(pointer string) []string {
	steps := strings.Split(pointer, "/")[1:]
	for i, s := range steps {
		steps[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(s)
	}
	return steps
}

// join adds a part to what is there: steps lead to where the part goes on, and are nil
// beside that way, where everything stands in every part.
func join(whole, part any, steps []string) (any, error) {
	if whole == nil {
		return part, nil
	}
	var err error
	switch part := part.(type) {
	case string:
		text, ok := whole.(string)
		switch {
		case !ok:
			return nil, errParts
		case steps != nil:
			return text + part, nil
		case text == "":
			return part, nil
		}
	case map[string]any:
		all, ok := whole.(map[string]any)
		if !ok {
			return nil, errParts
		}
		for name, value := range part {
			var rest []string
			if len(steps) > 0 && steps[0] == name {
				rest = steps[1:]
			}
			if all[name], err = join(all[name], value, rest); err != nil {
				return nil, err
			}
		}
	case []any:
		all, ok := whole.([]any)
		if !ok {
			return nil, errParts
		}
		if len(steps) == 0 {
			if len(all) == 0 {
				return part, nil
			}
			return all, nil
		}
		at, err := strconv.Atoi(steps[0])
		if err != nil || at > len(all) {
			return nil, errParts
		}
		if at < len(all) && len(part) > 0 {
			if all[at], err = join(all[at], part[0], steps[1:]); err != nil {
				return nil, err
			}
			part = part[1:]
		}
		return slices.Concat(all, part), nil
	}
	return whole, nil
}

// put replaces what stands at a pointer.
func put(whole any, steps []string, value any) error {
	if len(steps) == 0 {
		return errParts
	}
	switch w := whole.(type) {
	case map[string]any:
		if len(steps) > 1 {
			return put(w[steps[0]], steps[1:], value)
		}
		w[steps[0]] = value
		return nil
	case []any:
		i, err := strconv.Atoi(steps[0])
		if err != nil || i >= len(w) {
			return errParts
		}
		if len(steps) > 1 {
			return put(w[i], steps[1:], value)
		}
		w[i] = value
		return nil
	}
	return errParts
}
