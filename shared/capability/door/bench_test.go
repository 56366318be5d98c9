package door_test

import (
	"encoding/json"
	"fmt"
	"testing"
)

// many is a manifest of so many tools, with schemas and texts as developers write them.
func many(plugin string, count int) string {
	var list []object
	for i := range count {
		list = append(list, object{
			"id": fmt.Sprintf("%s.tool_%d", plugin, i), "kind": "tool", "title": fmt.Sprint("노트 검색 ", i), "permissions": []string{}, "timeout_seconds": 30,
			"description": "Finds notes in the connected service by a query, and answers their titles with what they begin with.",
			"input_schema": object{"type": "object", "additionalProperties": false, "required": []string{"query"}, "properties": object{
				"query": object{"type": "string", "maxLength": 500, "description": "What is looked for."}, "limit": object{"type": "integer", "minimum": 1, "maximum": 100}}},
			"output_schema": object{"type": "object", "required": []string{"text"}, "properties": object{"text": object{"type": "string"}}},
			"runtime":       object{"adapter": "text_template", "template": "{query}"},
		})
	}
	text, err := json.Marshal(object{"pluginKey": plugin, "version": "1.0.0", "title": "Notes", "capabilities": list})
	if err != nil {
		panic(err)
	}
	return string(text)
}

// BenchmarkCatalog is the door's answer with a catalog of 500 capabilities, over a store
// in memory. The reference is one of no capability.
func BenchmarkCatalog(b *testing.B) {
	for _, c := range []struct {
		name    string
		plugins int
	}{{"none", 0}, {"500", 5}} {
		b.Run(c.name, func(b *testing.B) {
			w := newBench(b)
			for i := range c.plugins {
				key := fmt.Sprintf("acme.p%d", i)
				if a := w.send(person+"manager", installKey, nil, order(key, files(many(key, 100)))); a.status != 200 {
					b.Fatal(a.body)
				}
			}
			payload := w.event(ai+"user", catalogKey, nil, team)
			if a := w.send(ai+"user", catalogKey, nil, team); len(a.data["capabilities"].([]any)) != 100*c.plugins || a.data["truncation"] != nil {
				b.Fatal(len(a.body), a.data["truncation"])
			}
			for b.Loop() {
				if _, err := w.door.Invoke(b.Context(), payload); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
