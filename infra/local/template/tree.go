package template

import (
	"fmt"
	"sort"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// A Finding is one thing in a template that the local host cannot honour.
type Finding struct {
	Path    string // JSON Pointer into the template, for example /Resources/Runs/Properties/StreamSpecification
	Line    int    // 1-based line of the nearest node of the path; 0 if unknown
	Message string
}

func (f Finding) String() string {
	if f.Line > 0 {
		return fmt.Sprintf("line %d, %s: %s", f.Line, f.Path, f.Message)
	}
	return f.Path + ": " + f.Message
}

// Findings is the error of a template that was refused: every finding, by line.
type Findings []Finding

func (f Findings) Error() string {
	lines := make([]string, len(f))
	for i, x := range f {
		lines[i] = x.String()
	}
	noun := "findings"
	if len(f) == 1 {
		noun = "finding"
	}
	return fmt.Sprintf("template refused, %d %s:\n  %s", len(f), noun, strings.Join(lines, "\n  "))
}

// tree is a template as plain values (map[string]any, []any, string, float64,
// bool, nil) with short-form tags written out, and the line of every path.
type tree struct {
	lines    map[string]int
	findings Findings
}

func (t *tree) add(path, format string, args ...any) {
	f := Finding{Path: path, Message: fmt.Sprintf(format, args...)}
	for p := path; ; {
		if n, ok := t.lines[p]; ok {
			f.Line = n
			break
		}
		i := strings.LastIndexByte(p, '/')
		if i < 0 {
			break
		}
		p = p[:i]
	}
	t.findings = append(t.findings, f)
}

// err returns the findings ordered by line, each once, or nil.
func (t *tree) err() error {
	if len(t.findings) == 0 {
		return nil
	}
	sort.SliceStable(t.findings, func(i, j int) bool {
		a, b := t.findings[i], t.findings[j]
		if a.Line != b.Line {
			return a.Line < b.Line
		}
		return a.Path < b.Path
	})
	out := t.findings[:0:0]
	for i, f := range t.findings {
		if i == 0 || f != t.findings[i-1] {
			out = append(out, f)
		}
	}
	return out
}

// pointer appends one reference token to a JSON Pointer.
func pointer(path, token string) string {
	return path + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(token)
}

// shortForms are the YAML tags of CloudFormation and the key each stands for.
var shortForms = map[string]string{
	"!Ref": "Ref", "!Condition": "Condition", "!GetAtt": "Fn::GetAtt", "!Sub": "Fn::Sub",
	"!Join": "Fn::Join", "!Select": "Fn::Select", "!Split": "Fn::Split", "!If": "Fn::If",
	"!Equals": "Fn::Equals", "!And": "Fn::And", "!Or": "Fn::Or", "!Not": "Fn::Not",
	"!FindInMap": "Fn::FindInMap", "!Base64": "Fn::Base64", "!ImportValue": "Fn::ImportValue",
	"!GetAZs": "Fn::GetAZs", "!Cidr": "Fn::Cidr", "!Transform": "Fn::Transform",
}

// maxDepth bounds the nesting of a template.
const maxDepth = 100

func (t *tree) value(n *yaml.Node, path string, depth int) any {
	t.lines[path] = n.Line
	if depth > maxDepth {
		t.add(path, "nested deeper than %d levels", maxDepth)
		return nil
	}
	if long, ok := shortForms[n.Tag]; ok {
		plain := *n
		plain.Tag = ""
		inner := pointer(path, long)
		if long == "Fn::GetAtt" && n.Kind == yaml.ScalarNode {
			t.lines[inner] = n.Line
			id, attr, _ := strings.Cut(n.Value, ".")
			return map[string]any{long: []any{id, attr}}
		}
		if n.Kind == yaml.ScalarNode {
			t.lines[inner] = n.Line
			return map[string]any{long: n.Value}
		}
		return map[string]any{long: t.value(&plain, inner, depth+1)}
	}
	switch n.Kind {
	case yaml.MappingNode:
		m := make(map[string]any, len(n.Content)/2)
		for i := 0; i+1 < len(n.Content); i += 2 {
			k := n.Content[i]
			if k.Kind != yaml.ScalarNode || k.ShortTag() == "!!merge" {
				t.add(path, "a key must be a plain string (merge keys are not part of CloudFormation's YAML)")
				continue
			}
			p := pointer(path, k.Value)
			if _, dup := m[k.Value]; dup {
				t.lines[p] = k.Line
				t.add(p, "the key stands here twice")
				continue
			}
			m[k.Value] = t.value(n.Content[i+1], p, depth+1)
			t.lines[p] = k.Line
		}
		return m
	case yaml.SequenceNode:
		s := make([]any, 0, len(n.Content))
		for i, c := range n.Content {
			s = append(s, t.value(c, pointer(path, strconv.Itoa(i)), depth+1))
		}
		return s
	case yaml.ScalarNode:
		return t.scalar(n, path)
	case yaml.AliasNode:
		t.add(path, "YAML aliases are not supported")
	default:
		t.add(path, "this YAML node is not supported")
	}
	return nil
}

func (t *tree) scalar(n *yaml.Node, path string) any {
	switch tag := n.ShortTag(); tag {
	case "!!str", "!!timestamp": // 2012-10-17 is a date to YAML and a string to CloudFormation
		return n.Value
	case "!!null":
		return nil
	case "!!bool":
		var b bool
		if err := n.Decode(&b); err != nil {
			t.add(path, "not a boolean")
			return nil
		}
		return b
	case "!!int", "!!float":
		var f float64
		if err := n.Decode(&f); err != nil {
			t.add(path, "not a number")
			return nil
		}
		return f
	default:
		t.add(path, "the YAML tag %s is not supported", tag)
		return nil
	}
}
