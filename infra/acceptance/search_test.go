package acceptance

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/text/unicode/norm"
)

// A finding is one page of any search; items are kept as they came.
type finding struct {
	Items        []json.RawMessage
	NextCursor   *string
	AppliedLimit int
	Truncation   m
}

// find reads one page and holds it to S1.
func (c caller) find(t *testing.T, tool string, arguments m) (p finding) {
	t.Helper()
	c.ok(t, tool, arguments, &p)
	if (p.NextCursor == nil) != (p.Truncation == nil) || p.Truncation != nil && !reflect.DeepEqual(p.Truncation, m{"truncated": true, "reason": "page_limit"}) || len(p.Items) > p.AppliedLimit {
		t.Fatalf("%s: no page: %+v", tool, p)
	}
	return p
}

// pages follows the pages, and calls between before each but the first.
func (c caller) pages(t *testing.T, tool string, arguments m, between func(int)) (items []string) {
	t.Helper()
	for n := 1; ; n++ {
		p := c.find(t, tool, arguments)
		for _, i := range p.Items {
			items = append(items, string(i))
		}
		if p.NextCursor == nil {
			return items
		}
		arguments = with(arguments, m{"cursor": *p.NextCursor})
		if between != nil {
			between(n)
		}
	}
}

// While another client applies 200 changes to Flows and Reports, before, on and
// behind the pages, the pages are what the catalog was at the first.
//
// covers: S1, S2, S3
func TestPagesAreTheSnapshotOfTheFirstWhile200ChangesAreApplied(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.operate(t, "project", "grant", "structural_team/bridge_package", "--to", "viewer", "--rights", "read,edit")
	engineer, other := h.as(t, "engineer"), h.as(t, "viewer")
	var documents []m
	for i := range 60 {
		documents = append(documents, with(beam(fmt.Sprintf("beam_%02d", i)), m{"label": m{"en": fmt.Sprintf("Beam %d", 60-i), "ko": "보"}}))
	}
	h.fill(t, sample, documents)
	var reports []reportHead
	for i := range 20 {
		reports = append(reports, engineer.createReport(t, with(reviewOf(fmt.Sprintf("review_%02d", i)), m{"label": m{"en": fmt.Sprintf("Review %d", 20-i), "ko": "검토서"}})))
	}
	want := map[string][]string{}
	for _, tool := range []string{"pxflow_search", "report_search"} {
		want[tool] = engineer.pages(t, tool, m{"scope": sample, "limit": 100}, nil)
	}
	if len(want["pxflow_search"]) != 62 || len(want["report_search"]) != 21 {
		t.Fatalf("%d Flows and %d Reports", len(want["pxflow_search"]), len(want["report_search"]))
	}
	changes := 0
	change := func() { // of the other client
		changes++
		switch i := changes / 2; {
		case changes%2 == 0:
			k := i * 7 % len(reports)
			reports[k] = other.changeReport(t, reports[k], fmt.Sprint("other-", changes), m{"kind": "SetReportLabel", "label": m{"en": fmt.Sprint("Changed ", changes)}})
		case i%2 == 0:
			other.create(t, sample, beam(fmt.Sprintf("beam_%02d_%d", i*7%60, i)))
		default:
			f := other.head(t, sample, fmt.Sprintf("beam_%02d", i*11%60))
			other.change(t, f, fmt.Sprint("other-", changes), m{"kind": "SetFlowLabel", "label": m{"en": fmt.Sprint("Changed ", changes)}})
		}
	}
	// 61 Flows in pages of 7 leave 8 times to write, 21 Reports in pages of 3 leave 6.
	for _, c := range []struct {
		tool         string
		limit, times int
	}{{"pxflow_search", 7, 15}, {"report_search", 3, 15}} {
		before := want[c.tool]
		if c.tool == "report_search" { // what has changed since, at its own first page
			before = engineer.pages(t, c.tool, m{"scope": sample, "limit": 100}, nil)
		}
		got := engineer.pages(t, c.tool, m{"scope": sample, "limit": c.limit}, func(int) {
			for range c.times {
				change()
			}
		})
		if !reflect.DeepEqual(got, before) {
			t.Errorf("%s: %d items, not the %d of the first page's snapshot", c.tool, len(got), len(before))
		}
		if now := engineer.pages(t, c.tool, m{"scope": sample, "limit": 100}, nil); reflect.DeepEqual(now, before) {
			t.Errorf("%s: nothing has changed meanwhile", c.tool)
		}
	}
	if changes < 200 {
		t.Errorf("%d changes were applied", changes)
	}
}

// altered are cursors that differ from one by a bit: one in every byte of what it
// seals, and each bit of its last character that carries nothing.
func altered(t *testing.T, cursor string) map[string]string {
	t.Helper()
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for i := range sealed {
		sealed[i] ^= 1 << (i % 8)
		out[fmt.Sprintf("bit %d of byte %d", i%8, i)] = base64.RawURLEncoding.EncodeToString(sealed)
		sealed[i] ^= 1 << (i % 8)
	}
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	last := strings.IndexByte(alphabet, cursor[len(cursor)-1])
	for bit := range len(cursor)*6 - len(sealed)*8 {
		out[fmt.Sprintf("bit %d of the last character", bit)] = cursor[:len(cursor)-1] + alphabet[last^1<<bit:][:1]
	}
	return out
}

// A cursor serves the request that it was given for, and no other: whatever of the
// request, the caller, the tool or its own bits differs.
//
// covers: S2
func TestACursorOfEverySearchServesItsOwnRequestAlone(t *testing.T) {
	t.Parallel()
	h, foreign := start(t), start(t)
	for _, key := range []string{"a_package", "b_package"} {
		h.operate(t, "project", "create", "structural_team/"+key, "--label", "en=Package of bridges", "--label", "ko=교량 묶음")
		h.operate(t, "project", "grant", "structural_team/"+key, "--to", "engineer", "--rights", "read")
		h.operate(t, "project", "grant", "structural_team/"+key, "--to", "viewer", "--rights", "read")
	}
	engineer := h.as(t, "engineer")
	for _, key := range []string{"beam_a", "beam_b", "beam_c"} {
		engineer.create(t, sample, beam(key))
		engineer.createReport(t, reviewOf(key))
	}
	refused := func(name string, who caller, tool string, arguments m) {
		t.Helper()
		if got := who.call(t, tool, arguments); got.Envelope == nil || got.Envelope.OK || !reflect.DeepEqual(got.Envelope.told(), []string{"PX_CURSOR_INVALID /cursor"}) {
			t.Errorf("%s, %s: %+v", tool, name, got)
		}
	}
	workspace := m{"kind": "workspace", "workspaceKey": "structural_team"}
	another := with(sample, m{"projectKey": "a_package"})
	for tool, c := range map[string]struct {
		request m
		others  map[string]m
	}{
		"project_search": {m{"scope": workspace, "query": "package", "limit": 1},
			map[string]m{"another scope": {"scope": m{"kind": "principal"}}, "another query": {"query": "packag"}, "another limit": {"limit": 2}}},
		"pxflow_search": {m{"scope": sample, "query": "beam", "limit": 1},
			map[string]m{"another scope": {"scope": another}, "another query": {"query": "bea"}, "another filter": {"filters": m{"functionKey": "resistance"}}, "another limit": {"limit": 2}}},
		"report_search": {m{"scope": sample, "query": "beam", "limit": 1},
			map[string]m{"another scope": {"scope": another}, "another query": {"query": "bea"}, "another filter": {"filters": m{"flowKey": "beam_a"}}, "another limit": {"limit": 2}}},
		"component_search": {m{"scope": sample, "query": "px", "limit": 1},
			map[string]m{"another scope": {"scope": m{"kind": "product"}}, "another query": {"query": "p"}, "another limit": {"limit": 2}}},
	} {
		first := engineer.find(t, tool, c.request)
		if first.NextCursor == nil {
			t.Fatalf("%s: %d found, and no second page", tool, len(first.Items))
		}
		cursor := *first.NextCursor
		unchanged, unchangedThere := h.unchanged(t), foreign.unchanged(t)
		used := with(c.request, m{"cursor": cursor})
		second := engineer.find(t, tool, used)
		if again := engineer.find(t, tool, used); !reflect.DeepEqual(again.Items, second.Items) || reflect.DeepEqual(again.Items, first.Items) {
			t.Errorf("%s: the cursor leads to %s, then to %s", tool, second.Items, again.Items)
		}
		for name, more := range c.others {
			refused(name, engineer, tool, with(used, more))
		}
		refused("another principal", h.as(t, "viewer"), tool, used)
		// The request is one that the other installation serves, but for the cursor.
		refused("another installation", foreign.as(t, "engineer"), tool, used)
		for name, text := range map[string]string{"half of it": cursor[:len(cursor)/2], "more than it": cursor + "AAAA", "something else": "eyJwIjoxfQ"} {
			refused(name, engineer, tool, with(used, m{"cursor": text}))
		}
		for name, text := range altered(t, cursor) {
			refused(name, engineer, tool, with(used, m{"cursor": text}))
		}
		for next, arguments := range map[string]m{"project_search": {"scope": m{"kind": "principal"}}, "pxflow_search": {"scope": sample}, "report_search": {"scope": sample}, "component_search": {"scope": sample}} {
			if next != tool {
				refused("of "+tool, engineer, next, with(arguments, m{"query": c.request["query"], "limit": 1, "cursor": cursor}))
			}
		}
		unchanged(t)
		unchangedThere(t)
	}

	// The cursor of an answer that is cut is one of them: of descriptions, too.
	// Its target is in both installations.
	h.operate(t, "seed")
	foreign.operate(t, "seed")
	flow, report := engineer.head(t, sample, "girder_check"), engineer.report(t, "girder_review")
	for tool, c := range map[string]struct{ target, another any }{
		"pxflow_describe": {flow.Target, engineer.head(t, sample, "beam_b").Target}, "report_describe": {report.Target, engineer.report(t, "beam_b").Target},
	} {
		whole := len(engineer.ok(t, tool, m{"target": c.target}, nil).Data)
		request := m{"target": c.target, "budget": m{"bytes": whole * 2 / 3}}
		cut := func(who caller) string {
			var data struct {
				Truncation struct{ Continuation struct{ Value string } }
			}
			who.ok(t, tool, request, &data)
			return data.Truncation.Continuation.Value
		}
		cursor := cut(engineer)
		unchanged := h.unchanged(t)
		if again := cut(engineer); again == "" || again == cursor {
			t.Errorf("%s: the cursors of two answers are %q and %q", tool, cursor, again)
		}
		used := with(request, m{"cursor": cursor})
		engineer.ok(t, tool, used, nil)
		engineer.ok(t, tool, with(used, m{"budget": m{"bytes": whole}}), nil) // how much one asks for at once is one's own affair
		refused("another target", engineer, tool, with(used, m{"target": c.another}))
		refused("a list of the target", engineer, tool, m{"targets": list{c.target}, "budget": request["budget"], "cursor": cursor})
		refused("another principal", h.as(t, "viewer"), tool, used)
		refused("another installation", foreign.as(t, "engineer"), tool, used)
		for name, text := range altered(t, cursor) {
			refused(name, engineer, tool, with(used, m{"cursor": text}))
		}
		unchanged(t)
	}

	// What is no filter, no limit or too long a query is told where it stands.
	for _, c := range []struct {
		tool      string
		arguments m
		told      string
	}{
		{"pxflow_search", m{"scope": sample, "filters": m{"reportKey": "x"}}, "PX_SCHEMA_UNKNOWN_FIELD /filters/reportKey"},
		{"pxflow_search", m{"scope": sample, "filters": m{"functionKey": "Not a key"}}, "PX_SCHEMA_INVALID /filters/functionKey"},
		{"report_search", m{"scope": sample, "filters": m{"functionKey": "x"}}, "PX_SCHEMA_UNKNOWN_FIELD /filters/functionKey"},
		{"project_search", m{"scope": workspace, "filters": m{"x": 1}}, "PX_SCHEMA_UNKNOWN_FIELD /filters"},
		{"component_search", m{"scope": sample, "filters": m{"x": 1}}, "PX_SCHEMA_UNKNOWN_FIELD /filters"},
		{"pxflow_search", m{"scope": sample, "limit": 0}, "PX_SCHEMA_INVALID /limit"},
		{"report_search", m{"scope": sample, "limit": 101}, "PX_SCHEMA_INVALID /limit"},
		{"project_search", m{"scope": workspace, "limit": 1.5}, "PX_SCHEMA_INVALID /limit"},
		{"component_search", m{"query": fmt.Sprintf("%01001d", 0)}, "PX_SCHEMA_INVALID /query"},
	} {
		engineer.refused(t, c.tool, c.arguments, c.told)
	}
}

// What is stored in one form is found in every other that a person takes for it, by
// every search.
//
// covers: S5
func TestTextIsFoundHoweverItIsTypedByEverySearch(t *testing.T) {
	t.Parallel()
	h := start(t)
	label := m{"en": "Straße ｆｕｌｌ width", "ko": "가다 검토", "tr": "kiriş ISPARTA"}
	h.operate(t, "project", "create", "structural_team/typed_package", "--label", "en=Straße ｆｕｌｌ width", "--label", "ko=가다 검토", "--label", "tr=kiriş ISPARTA")
	h.operate(t, "project", "grant", "structural_team/typed_package", "--to", "engineer", "--rights", "read,edit")
	engineer := h.as(t, "engineer")
	engineer.create(t, sample, with(beam("typed"), m{"label": label}))
	engineer.createReport(t, with(reviewOf("typed"), m{"label": label}))
	for query, found := range map[string]bool{
		"가다": true, norm.NFD.String("가다 검토"): true, "\uffa1\uffc2\uffa7\uffc2": true, "ㄱㅏㄷㅏ": true, "검토 가다": true, "고다": false,
		"STRASSE": true, "straße": true, "STRAẞE": true, "FULL": true, "ｗｉｄｔｈ": true, "isparta": true, "KİRİŞ": true, "kiriş": true, norm.NFD.String("kiriş"): true, "KIRIŞ": true,
		"straße girders": false,
	} {
		for tool, scope := range map[string]m{"pxflow_search": sample, "report_search": sample, "project_search": {"kind": "principal"}} {
			want := 0
			if found {
				want = 1
			}
			if p := engineer.find(t, tool, m{"scope": scope, "query": query}); len(p.Items) != want {
				t.Errorf("%s: %q finds %d", tool, query, len(p.Items))
			}
		}
	}
}
