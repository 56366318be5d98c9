package door_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/pxhost/pxhost/shared/capability"
)

// Whatever managers do, in whatever order: the very next call and the very next catalog
// are of what there is then, each change moves the generation of the instance by one and
// that of the catalog, and nothing else does.
//
// covers: C3, C5
func TestTheNextCallIsOfWhatThereIsNow(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		b := newBench(t)
		id := b.install("one")
		// What must be so.
		generation, enabled, removed, mayUse, mine := 1, true, false, true, true
		granted := []string{}
		etag, n := b.catalogOf("user"), 0

		for range rapid.IntRange(1, 25).Draw(r, "steps") {
			n++
			changes := true
			verb := rapid.SampledFrom([]string{"enable", "disable", "grant", "actors", "update", "remove", "rights", "stale", "wrong", "call"}).Draw(r, "verb")
			body := object{"generation": generation}
			switch verb {
			case "enable", "disable":
				changes = enabled != (verb == "enable")
				enabled = verb == "enable" && !removed || enabled && removed
			case "grant":
				next := rapid.SampledFrom([][]string{{}, {"storage"}, {"network", "storage"}}).Draw(r, "granted")
				changes = !slices.Equal(next, granted)
				body["granted"] = next
				if !removed {
					granted = next
				}
			case "actors":
				next := rapid.Bool().Draw(r, "mine")
				changes = true
				body["actors"] = []string{issuer + map[bool]string{true: "user", false: "second"}[next], issuer + fmt.Sprint("somebody", n)}
				if !removed {
					mine = next
				}
			case "update":
				body["package"] = files(edited(notes, `"1.0.0","title"`, fmt.Sprintf(`"1.0.%d","title"`, n)))
			case "rights":
				mayUse = rapid.Bool().Draw(r, "use")
				b.member("user", map[bool][]capability.Right{true: {capability.Use}, false: {}}[mayUse]...)
				if now := b.catalogOf("second"); now == etag {
					r.Fatal("a change of rights moved nothing")
				}
				etag = b.catalogOf("second")
			case "stale":
				body["generation"], body["granted"] = generation+1, []string{"credentials"}
			case "wrong":
				body["granted"] = []string{"notifications"}
			}
			if verb != "rights" && verb != "call" {
				path := map[string]string{"actors": "grant", "stale": "grant", "wrong": "grant"}[verb]
				if path == "" {
					path = verb
				}
				a := b.send(person+"manager", "POST /v1/plugins/{instanceId}/"+path, []string{id}, body)
				refused := verb == "stale" || verb == "wrong" || removed && verb != "remove"
				if (a.status == 200) == refused {
					r.Fatalf("%s: %d %s", verb, a.status, a.body)
				}
				changes = changes && !refused && (verb != "remove" || !removed)
				if verb == "remove" {
					removed = true
				}
				if changes {
					generation++
				}
				if !refused && verb != "remove" && a.text("generation") != fmt.Sprint(generation) {
					r.Fatalf("%s made generation %s, want %d", verb, a.text("generation"), generation)
				}
				now := b.catalogOf("second")
				if (now != etag) != changes {
					r.Fatalf("%s: the catalog is %s after %s", verb, now, etag)
				}
				etag = now
			}
			for _, c := range []struct{ capability, permission string }{{"notes.tidy", ""}, {"notes.stored", "storage"}} {
				want := "200"
				switch {
				case removed || !mayUse || !mine:
					want = "EXTENSION_NOT_FOUND"
				case !enabled:
					want = "EXTENSION_DISABLED"
				case c.permission != "" && !slices.Contains(granted, c.permission):
					want = "EXTENSION_PERMISSION_DENIED"
				}
				a := b.send(ai+"user", invokeKey, []string{id, c.capability}, call("ui", fmt.Sprint("k", n), "메모", generation))
				got := a.told()
				if a.status == 200 && a.text("state") == "succeeded" {
					got = "200"
				}
				if got != want {
					r.Fatalf("after %s, %s is %s, want %s: %s", verb, c.capability, got, want, a.body)
				}
				shown := 0
				if a := b.send(ai+"user", catalogKey, nil, team); a.status == 200 {
					shown = len(a.data["capabilities"].([]any))
				}
				if seen := shown > 0; seen != (mayUse && mine && enabled && !removed) {
					r.Fatalf("after %s, the catalog shows %d", verb, shown)
				}
			}
		}
	})
}

// catalogOf is the ETag of a principal's catalog.
func (b *bench) catalogOf(as string) string {
	b.Helper()
	return b.send(ai+as, catalogKey, nil, team).header["etag"]
}
