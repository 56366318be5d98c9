package render

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/pxhost/pxhost/shared/budget"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/schema"
	"github.com/pxhost/pxhost/shared/tool"
)

// Readme is the reference page of tools and codes.
func Readme(order []string, tools []tool.Defined) ([]byte, error) {
	var out bytes.Buffer
	line := func(format string, values ...any) { fmt.Fprintf(&out, format+"\n", values...) }
	line("<!-- Generated from the tools' Go types by go generate ./shared/tool/catalog. Do not edit. -->")
	line("")
	line("# Tools and codes")
	line("")
	line("Every tool takes one JSON object and answers one envelope: `{ok, data, diagnostics, resources}`. A refused")
	line("request has `ok: false`, `data: null` and every reason in `diagnostics`. Unknown members are refused. The")
	line("contract version is `%s`.", outcome.ContractVersion)
	line("")
	line("| tool | state change | |")
	line("| --- | --- | --- |")
	byName := make(map[string]tool.Defined)
	for _, d := range tools {
		byName[d.Spec().Name] = d
	}
	for _, name := range order {
		if d, ok := byName[name]; ok {
			effect := "none"
			if !d.Spec().Annotations.ReadOnlyHint {
				effect = "yes"
			}
			line("| [`%s`](#%s) | %s | %s |", name, name, effect, cell(firstSentence(d.Spec().Description)))
		} else {
			line("| `%s` | | not there yet |", name)
		}
	}
	line("")
	line("A diagnostic has `code`, `path` (a JSON Pointer), `severity` (`error`, `warning`, `info`), `retryable`, `params`,")
	line("`suggestedAction` and `diagnosticId`; a resource has `uri`, `mediaType`, `bytes` and, where it expires, `expiresAt`.")
	line("")
	line("## Limits of an answer")
	line("")
	line("| tokens | bytes | items | tableRows | depth |")
	line("| ---: | ---: | ---: | ---: | ---: |")
	f := budget.Fixed
	line("| %d | %d | %d | %d | %d |", f.Tokens, f.Bytes, f.Items, f.TableRows, f.Depth)
	line("")
	line("The limit itself is allowed. A larger answer is cut and `data.truncation` says so:")
	line("`{truncated, budget, limit, observed, continuation: {member, value}}`. Send the same request with the member")
	line("`cursor` set to the value for the next part. Members outside the lists, maps and texts that may be cut stand in")
	line("every part. `data.at` is the JSON Pointer, into the whole, of the element or text with which a part goes on: along")
	line("it, the first element of a list in the part is the one with that index in the whole, and the rest is appended. A")
	line("typed value that is nested too deep is `null` and follows as `data.nested: {path, value}`.")
	for _, d := range tools {
		e := EntryOf(d)
		line("")
		line("## %s", e.Name)
		line("")
		line("%s", e.Description)
		line("")
		a := d.Spec().Annotations
		line("Annotations: readOnlyHint %t, destructiveHint %t, idempotentHint %t, openWorldHint %t.", a.ReadOnlyHint, a.DestructiveHint, a.IdempotentHint, a.OpenWorldHint)
		line("")
		line("| input | | |")
		line("| --- | --- | --- |")
		members(line, e.InputSchema, e.InputSchema)
		commands(line, e.InputSchema)
		line("")
		line("| data | | |")
		line("| --- | --- | --- |")
		_, data := d.Types()
		whole := schema.JSONFor(data, schema.Open)
		members(line, whole, whole)
		if places := d.Spec().Places; len(places) > 0 {
			var cut []string
			for _, p := range places {
				cut = append(cut, "`"+p.Path+"`")
			}
			line("")
			line("May be cut: %s.", strings.Join(cut, ", "))
		}
		examplesOf(line, e.Name)
	}
	line("")
	line("## Codes")
	line("")
	line("| code | severity | retryable | suggestedAction | meaning |")
	line("| --- | --- | --- | --- | --- |")
	for _, code := range outcome.Codes() {
		fact, _ := outcome.Lookup(code)
		retryable := "no"
		if fact.Retryable {
			retryable = "yes"
		}
		line("| `%s` | %s | %s | `%s` | %s |", code, fact.Severity, retryable, fact.Action, cell(fact.Meaning))
	}
	return out.Bytes(), nil
}

// members writes a row for each member of an object.
func members(line func(string, ...any), s, root *jsonschema.Schema) {
	for _, name := range s.PropertyOrder {
		p := s.Properties[name]
		need := "optional"
		if slices.Contains(s.Required, name) {
			need = "required"
		}
		line("| `%s` | %s, %s | %s |", name, typeText(p, root), need, cell(p.Description))
	}
}

// commands writes a row for each kind of command that an input takes.
func commands(line func(string, ...any), input *jsonschema.Schema) {
	list := input.Properties["commands"]
	if list == nil || list.Items == nil || len(list.Items.OneOf) == 0 {
		return
	}
	line("")
	line("| command | members | |")
	line("| --- | --- | --- |")
	for _, c := range list.Items.OneOf {
		kind := ""
		var told []string
		for _, name := range c.PropertyOrder {
			p := c.Properties[name]
			if name == "kind" && p.Const != nil {
				kind = fmt.Sprintf("`%v`", *p.Const)
				continue
			}
			if name == "kind" && p.Enum != nil {
				kind = typeText(p, input)
				continue
			}
			text := fmt.Sprintf("`%s` %s", name, typeText(p, input))
			if !slices.Contains(c.Required, name) {
				text += ", optional"
			}
			told = append(told, text)
		}
		line("| %s | %s | %s |", kind, cell(strings.Join(told, "; ")), cell(c.Description))
	}
}

// typeText says what a schema is in a few words.
func typeText(s, root *jsonschema.Schema) string {
	name, isRef := strings.CutPrefix(s.Ref, "#/$defs/")
	switch {
	case isRef:
		return typeText(root.Defs[name], root)
	case s.Const != nil:
		return fmt.Sprintf("`%v`", *s.Const)
	case s.Enum != nil:
		var values []string
		for _, v := range s.Enum {
			values = append(values, fmt.Sprintf("`%v`", v))
		}
		return strings.Join(values, " or ")
	case s.Items != nil:
		return "list of " + typeText(s.Items, root)
	case s.Types != nil:
		return strings.Join(s.Types, " or ")
	case s.Type != "":
		return s.Type
	case len(s.OneOf) > 0:
		return fmt.Sprintf("one of %d objects, by `kind`", len(s.OneOf))
	case len(s.AnyOf) > 0:
		var parts []string
		for _, a := range s.AnyOf {
			parts = append(parts, typeText(a, root))
		}
		return strings.Join(parts, " or ")
	}
	return "any value"
}

// cell makes a text fit into a table.
func cell(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(text, "\n", " "), "|", "\\|")
}

func firstSentence(text string) string {
	text = strings.ReplaceAll(text, "\n", " ")
	if i := strings.Index(text, ". "); i >= 0 {
		return text[:i+1]
	}
	return text
}
