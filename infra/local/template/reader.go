package template

import (
	"encoding/json"
	"math"
	"strconv"
)

// reader takes the members of one mapping, resolved, and at the end refuses
// those that nobody took.
type reader struct {
	b     *builder
	path  string
	m     map[string]any
	taken map[string]bool
}

func (b *builder) reader(v any, path string) *reader {
	m, ok := v.(map[string]any)
	if _, _, call := intrinsic(v); call {
		m, ok = b.resolve(v, path).(map[string]any)
	}
	if !ok {
		b.add(path, "a mapping was expected")
	}
	return &reader{b: b, path: path, m: m, taken: map[string]bool{}}
}

// take returns the resolved member, and whether it is there (AWS::NoValue is not).
func (r *reader) take(name string) (any, bool) {
	r.taken[name] = true
	raw, ok := r.m[name]
	if !ok {
		return nil, false
	}
	v := r.b.resolve(raw, pointer(r.path, name))
	if v == (noValue{}) {
		return nil, false
	}
	return v, v != nil
}

func (r *reader) text(name, def string) string {
	v, ok := r.take(name)
	if !ok {
		return def
	}
	switch v.(type) {
	case string, float64, bool:
		return asString(v)
	}
	r.b.add(pointer(r.path, name), "a string was expected")
	return def
}

// whole reads an integer in [min, max]; a numeric string counts, as in CloudFormation.
func (r *reader) whole(name string, def, min, max int) int {
	v, ok := r.take(name)
	if !ok {
		return def
	}
	f, err := strconv.ParseFloat(asString(v), 64)
	if err != nil || f != math.Trunc(f) || f < float64(min) || f > float64(max) {
		r.b.add(pointer(r.path, name), "an integer from %d to %d was expected", min, max)
		return def
	}
	return int(f)
}

func (r *reader) boolean(name string, def bool) bool {
	v, ok := r.take(name)
	if !ok {
		return def
	}
	switch v {
	case true, "true":
		return true
	case false, "false":
		return false
	}
	r.b.add(pointer(r.path, name), "true or false was expected")
	return def
}

// only accepts a member that has this one value, and refuses any other by name.
func (r *reader) only(name, value string) {
	if v, ok := r.take(name); ok && asString(v) != value {
		r.b.add(pointer(r.path, name), "only %q is supported by px local", value)
	}
}

// object reads a mapping member; nil if it is not there.
func (r *reader) object(name string) *reader {
	raw, ok := r.m[name]
	r.taken[name] = true
	if !ok {
		return nil
	}
	if _, _, call := intrinsic(raw); call {
		v, there := r.take(name)
		if !there {
			return nil
		}
		raw = v
	}
	return r.b.reader(raw, pointer(r.path, name))
}

func (r *reader) list(name string) []any {
	v, ok := r.take(name)
	if !ok {
		return nil
	}
	l, ok := v.([]any)
	if !ok {
		r.b.add(pointer(r.path, name), "a list was expected")
	}
	return l
}

// inert reads members that change nothing locally. They are still resolved, so
// that a wrong reference in them is found.
func (r *reader) inert(names ...string) {
	for _, n := range names {
		r.take(n)
	}
}

func (r *reader) done() {
	for _, k := range sortedKeys(r.m) {
		if !r.taken[k] {
			r.b.add(pointer(r.path, k), "%s is not supported by px local", k)
		}
	}
}

func mustJSON(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // only plain values come here
	}
	return b
}
