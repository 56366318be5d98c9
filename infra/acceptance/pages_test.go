package acceptance

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pxhost/pxhost/infra/local"
	"github.com/pxhost/pxhost/shared/boot"
	"github.com/pxhost/pxhost/shared/boot/projects"
	"github.com/pxhost/pxhost/shared/component/planned"
	"github.com/pxhost/pxhost/shared/tool"
	pxflowapplychange "github.com/pxhost/pxhost/shared/tool/pxflow_apply_change"
	pxflowplanchange "github.com/pxhost/pxhost/shared/tool/pxflow_plan_change"
)

// parts are the services of this process over the host's tables, with the operator's
// key.
func (h *host) parts(t *testing.T) projects.Parts {
	t.Helper()
	where, key := h.operator(t)
	env := boot.NewEnv(func(name string) (string, bool) {
		switch name {
		case "AWS_REGION":
			return local.Region, true
		case "AWS_ENDPOINT_URL":
			return where.AWSEndpoint, true
		case "AWS_ACCESS_KEY_ID":
			return key.AccessKeyID, true
		case "AWS_SECRET_ACCESS_KEY":
			return key.SecretAccessKey, true
		}
		value, ok := where.Environment[name]
		return value, ok
	})
	parts := projects.New(env)
	if err := env.Err(); err != nil {
		t.Fatal(err)
	}
	return parts
}

// fill saves Flows quickly: through the tools, but in this process, with the
// operator's key.
func (h *host) fill(t *testing.T, scope m, documents []m) {
	t.Helper()
	parts := h.parts(t)
	call := func(handle tool.Handler, name string, arguments m) (out plan, err error) {
		for attempt := 0; ; attempt++ {
			text, err := handle(t.Context(), tool.Request{Version: tool.RequestVersion, RequestID: "fill", Tool: name, ByteShare: 2 << 20, Deadline: time.Now().Add(25 * time.Second),
				Principal: tool.Principal{Issuer: h.URL, Subject: "engineer"}, Arguments: []byte(encode(t, arguments))})
			if err != nil && attempt < 10 && t.Context().Err() == nil {
				continue // busy
			}
			if err != nil {
				return out, err
			}
			var e envelope
			if err := json.Unmarshal(text, &e); err != nil || !e.OK {
				return out, fmt.Errorf("%s: %s %v", name, text, err)
			}
			return out, json.Unmarshal(e.Data, &out)
		}
	}
	plans, applies := pxflowplanchange.New(parts.Frame(), parts.Reader(), parts.Planner(), nil, nil, planned.Catalog{}), pxflowapplychange.New(parts.Frame(), parts.Applier(pxflowapplychange.Recheck(parts.Reader(), nil)))
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	queue := make(chan m)
	var workers sync.WaitGroup
	for range 3 {
		workers.Go(func() {
			for document := range queue {
				target := flowTarget{scope, document["flowKey"].(string), digest(t, document)}
				p, err := call(plans, pxflowplanchange.Name, m{"target": target, "expectedGeneration": 0, "commands": list{m{"kind": "CreateFlow", "document": document}}})
				if err == nil {
					_, err = call(applies, pxflowapplychange.Name, p.application("fill-"+target.FlowKey))
				}
				if err != nil {
					cancel(err)
				}
			}
		})
	}
	for _, d := range documents {
		if ctx.Err() == nil {
			queue <- d
		}
	}
	close(queue)
	workers.Wait()
	if err := context.Cause(ctx); err != nil {
		t.Fatal(err)
	}
}

type page struct {
	Items        []flowHead
	NextCursor   *string
	AppliedLimit int
	Truncation   m
}

// covers: S1, S2, S3, S5
func TestPagesJoinToTheWholeWhileFlowsChange(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.operate(t, "project", "create", "structural_team/many_flows")
	h.operate(t, "project", "grant", "structural_team/many_flows", "--to", "engineer", "--rights", "read,edit,run")
	h.operate(t, "project", "grant", "structural_team/many_flows", "--to", "viewer", "--rights", "read")
	scope := with(sample, m{"projectKey": "many_flows"})
	const count = 300
	var documents []m
	revisions := map[string]string{}
	for i := range count {
		d := beam(fmt.Sprintf("beam_%03d", i))
		// Labels are in the opposite order of keys: they must not sort.
		d["label"] = m{"en": fmt.Sprintf("%03d %s beam", count-i, []string{"Even", "Odd"}[i%2]), "ko": []string{"짝수", "홀수"}[i%2] + " 보"}
		documents = append(documents, d)
		revisions[d["flowKey"].(string)] = digest(t, d)
	}
	h.fill(t, scope, documents)
	engineer, viewer := h.as(t, "engineer"), h.as(t, "viewer")

	// read reads one page and holds it to its form.
	read := func(c caller, arguments m) page {
		t.Helper()
		var p page
		c.ok(t, "pxflow_search", arguments, &p)
		if p.NextCursor == nil && p.Truncation != nil || p.NextCursor != nil && !reflect.DeepEqual(p.Truncation, m{"truncated": true, "reason": "page_limit"}) {
			t.Fatalf("nextCursor and truncation do not tell the same: %+v", p)
		}
		if p.NextCursor != nil && len(p.Items) != p.AppliedLimit {
			t.Fatalf("a page of %d, limit %d, that is not the last", len(p.Items), p.AppliedLimit)
		}
		return p
	}
	all := func(c caller, arguments m, between func(int)) (items []flowHead) {
		t.Helper()
		for n := 0; ; n++ {
			p := read(c, arguments)
			items = append(items, p.Items...)
			if p.NextCursor == nil {
				return items
			}
			arguments = with(arguments, m{"cursor": *p.NextCursor})
			if between != nil {
				between(n)
			}
		}
	}
	check := func(name string, items []flowHead, keep func(int) bool) {
		t.Helper()
		i := 0
		for n := range count {
			if !keep(n) {
				continue
			}
			key := fmt.Sprintf("beam_%03d", n)
			if i >= len(items) || items[i].Target.FlowKey != key || items[i].Generation != 0 || items[i].Target.RevisionRef != revisions[key] {
				t.Fatalf("%s: item %d is not %s as it was: %+v", name, i, key, items[min(i, len(items)-1)])
			}
			i++
		}
		if i != len(items) {
			t.Errorf("%s: %d items, want %d", name, len(items), i)
		}
	}
	every := func(int) bool { return true }
	odd := func(n int) bool { return n%2 == 1 }
	if p := read(engineer, m{"scope": scope}); p.AppliedLimit != 25 || len(p.Items) != 25 || p.NextCursor == nil {
		t.Errorf("without a limit: %d of %d", len(p.Items), p.AppliedLimit)
	}
	check("all", all(engineer, m{"scope": scope, "limit": 100}, nil), every)
	// Typed otherwise, the same is found: case, width, and Hangul in pieces.
	for _, query := range []string{"odd", "ODD Beam", "ｏｄｄ", "홀수", "\u1112\u1169\u11af\u1109\u116e"} {
		check(query, all(viewer, m{"scope": scope, "query": query, "limit": 60}, nil), odd)
	}
	check("by port and unit", all(viewer, m{"scope": scope, "query": "span kn/m", "limit": 100}, nil), every)
	if p := read(viewer, m{"scope": scope, "query": "odd even"}); len(p.Items) != 0 || p.NextCursor != nil {
		t.Errorf("both words in one: %+v", p)
	}
	// As many as the limit: no page follows.
	if p := read(viewer, m{"scope": scope, "query": "beam_29", "limit": 10}); len(p.Items) != 10 || p.NextCursor != nil {
		t.Errorf("ten of ten: %+v", p)
	}
	if p := read(viewer, m{"scope": scope, "query": "beam_29", "limit": 9}); len(p.Items) != 9 || p.NextCursor == nil {
		t.Errorf("nine of ten: %+v", p)
	}

	// Between the pages Flows before, on and behind the page are made and changed.
	written := 0
	check("while Flows change", all(engineer, m{"scope": scope, "limit": 37}, func(n int) {
		written++
		engineer.create(t, scope, with(beam(fmt.Sprintf("beam_%03d_b", 40*n)), m{"label": m{"en": "New"}}))
		f := flowHead{flowTarget{scope, fmt.Sprintf("beam_%03d", 299-n), revisions[fmt.Sprintf("beam_%03d", 299-n)]}, 0}
		engineer.change(t, f, fmt.Sprint("between-", n), m{"kind": "SetFlowLabel", "label": m{"en": "Changed"}})
	}), every)
	if written != 8 {
		t.Errorf("300 in pages of 37 have %d pages between which to write", written)
	}
	now := all(engineer, m{"scope": scope, "limit": 100}, nil)
	if len(now) != count+written || !slices.IsSortedFunc(now, func(a, b flowHead) int { return strings.Compare(a.Target.FlowKey, b.Target.FlowKey) }) {
		t.Errorf("a new search finds %d, want %d", len(now), count+written)
	}

	// A cursor is for its request alone.
	request := m{"scope": scope, "query": "odd", "limit": 10}
	cursor := *read(viewer, request).NextCursor
	next := read(viewer, with(request, m{"cursor": cursor}))
	if again := read(viewer, with(request, m{"cursor": cursor})); !reflect.DeepEqual(again.Items, next.Items) {
		t.Error("a cursor that is used again leads elsewhere")
	}
	flip := func(at int) string {
		b := []byte(cursor)
		b[at] = map[bool]byte{true: 'B', false: 'A'}[b[at] == 'A']
		return string(b)
	}
	for name, c := range map[string]struct {
		who  caller
		tool string
		more m
	}{
		"an altered beginning":     {viewer, "pxflow_search", m{"cursor": flip(0)}},
		"an altered key ID":        {viewer, "pxflow_search", m{"cursor": flip(9)}},
		"an altered middle":        {viewer, "pxflow_search", m{"cursor": flip(len(cursor) / 2)}},
		"an altered end":           {viewer, "pxflow_search", m{"cursor": flip(len(cursor) - 2)}},
		"a cursor cut short":       {viewer, "pxflow_search", m{"cursor": cursor[:len(cursor)-4]}},
		"a cursor with more in it": {viewer, "pxflow_search", m{"cursor": cursor + "AAAA"}},
		"another principal":        {engineer, "pxflow_search", m{"cursor": cursor}},
		"another query":            {viewer, "pxflow_search", m{"cursor": cursor, "query": "even"}},
		"another filter":           {viewer, "pxflow_search", m{"cursor": cursor, "filters": m{"functionKey": "resistance"}}},
		"another scope":            {viewer, "pxflow_search", m{"cursor": cursor, "scope": sample}},
		"another tool":             {viewer, "project_search", m{"cursor": cursor, "scope": m{"kind": "principal"}}},
	} {
		arguments := with(request, c.more)
		t.Run(name, func(t *testing.T) { c.who.refused(t, c.tool, arguments, "PX_CURSOR_INVALID /cursor") })
	}
	// Whoever lost the right to read is told of no page more.
	h.operate(t, "project", "grant", "structural_team/many_flows", "--to", "viewer")
	viewer.refused(t, "pxflow_search", with(request, m{"cursor": cursor}), "PX_TARGET_NOT_FOUND /scope")
}

// continued follows an answer through its parts and returns their data.
func (c caller) continued(t *testing.T, tool string, arguments m) (parts []m, budgets map[string]bool) {
	t.Helper()
	budgets = map[string]bool{}
	for {
		var data m
		e := c.ok(t, tool, arguments, &data)
		if len(e.Diagnostics) > 0 {
			t.Fatalf("told %q", e.told())
		}
		size := len(encode(t, m{"ok": true, "data": data, "diagnostics": list{}, "resources": list{}}))
		if limit, ok := arguments["budget"].(m)["bytes"].(int); ok && size > limit {
			t.Fatalf("a part of %d bytes, allowed are %d", size, limit)
		}
		if limit, ok := arguments["budget"].(m)["tokens"].(int); ok && (size+1)/2 > limit {
			t.Fatalf("a part of %d tokens, allowed are %d", (size+1)/2, limit)
		}
		told, cut := data["truncation"].(m)
		delete(data, "truncation")
		parts = append(parts, data)
		if !cut {
			return parts, budgets
		}
		next, ok := told["continuation"].(m)
		if len(told) != 5 || told["truncated"] != true || !ok || len(next) != 2 || told["observed"].(float64) <= told["limit"].(float64) {
			t.Fatalf("a cut is told as %v", told)
		}
		budgets[told["budget"].(string)] = true
		arguments = with(arguments, m{next["member"].(string): next["value"]})
		if len(parts) > 2000 {
			t.Fatal("no end of parts")
		}
	}
}

// joined puts parts together as the contract's reader does: along the pointer "at"
// the first element of a list is the one of that index, and what follows is
// appended; an empty list or a member that was not there is filled; everything
// else stands in every part.
func joined(t *testing.T, whole, part any, steps []string) any {
	t.Helper()
	switch part := part.(type) {
	case m:
		all := whole.(m)
		for name, value := range part {
			old, has := all[name]
			switch {
			case !has:
				all[name] = value
			case len(steps) > 0 && strings.NewReplacer("~1", "/", "~0", "~").Replace(steps[0]) == name:
				all[name] = joined(t, old, value, steps[1:])
			default:
				all[name] = joined(t, old, value, nil)
			}
		}
		return all
	case list:
		all := whole.(list)
		if len(steps) == 0 {
			if len(all) == 0 {
				return part
			}
			return all
		}
		at, err := strconv.Atoi(steps[0])
		if err != nil || at > len(all) {
			t.Fatalf("a list of %d goes on at %v", len(all), steps)
		}
		if at < len(all) && len(part) > 0 {
			all[at] = joined(t, all[at], part[0], steps[1:])
			part = part[1:]
		}
		return append(all, part...)
	}
	return whole
}

// covers: B1, B2, B3, D4
func TestADescribeInPartsJoinsToTheWhole(t *testing.T) {
	t.Parallel()
	h := start(t)
	text, err := os.ReadFile(filepath.Join("..", "sample", "girder_check.pxflow"))
	if err != nil {
		t.Fatal(err)
	}
	var girder m
	if err := json.Unmarshal(text, &girder); err != nil {
		t.Fatal(err)
	}
	var documents []m
	var targets list
	for i := range 25 { // what a search finds on one page
		d := with(girder, m{"flowKey": fmt.Sprintf("girder_%02d", i)})
		documents = append(documents, d)
		targets = append(targets, flowTarget{sample, d["flowKey"].(string), digest(t, d)})
	}
	h.fill(t, sample, documents)
	engineer := h.as(t, "engineer")

	// All that one search found is described in one answer, uncut.
	var whole m
	request := m{"targets": targets}
	engineer.ok(t, "pxflow_describe", request, &whole)
	if whole["truncation"] != nil || len(whole["items"].(list)) != len(targets) {
		t.Fatalf("25 Flows of an ordinary Project: %d described, %v", len(whole["items"].(list)), whole["truncation"])
	}
	for i, item := range whole["items"].(list) {
		if key := item.(m)["target"].(m)["flowKey"]; key != targets[i].(flowTarget).FlowKey {
			t.Fatalf("item %d is %v", i, key)
		}
	}
	want := encode(t, whole)
	for name, c := range map[string]struct {
		budget m
		bound  string
		parts  int // at least
	}{
		"four items":               {m{"items": 4}, "items", 7},
		"twenty thousand bytes":    {m{"bytes": 20_000}, "bytes", 8},
		"six thousand tokens":      {m{"tokens": 6_000}, "tokens", 12},
		"less than one Flow":       {m{"bytes": 6_000}, "bytes", 40},
		"the larger of two bounds": {m{"bytes": 1_000_000, "items": 24}, "items", 2},
	} {
		t.Run(name, func(t *testing.T) {
			parts, budgets := engineer.continued(t, "pxflow_describe", with(request, m{"budget": c.budget}))
			if len(parts) < c.parts || !reflect.DeepEqual(budgets, map[string]bool{c.bound: true}) {
				t.Errorf("%d parts, cut by %v", len(parts), budgets)
			}
			all := any(parts[0])
			for _, part := range parts[1:] {
				var steps []string
				if at, ok := part["at"].(string); ok {
					steps = strings.Split(at, "/")[1:]
				}
				delete(part, "at")
				all = joined(t, all, part, steps)
			}
			if got := encode(t, all); got != want {
				t.Errorf("%d parts join to %d bytes, the whole has %d", len(parts), len(got), len(want))
			}
		})
	}
	// What cannot hold one piece says so, and no budget is a failure of the machine.
	for _, bytes := range []int{1, 300, 1200} {
		got := engineer.call(t, "pxflow_describe", with(request, m{"budget": m{"bytes": bytes}}))
		if got.Envelope == nil || got.Envelope.OK || !slices.Equal(got.Envelope.told(), []string{"PX_LIMIT_EXCEEDED /budget"}) {
			t.Errorf("%d bytes: %+v", bytes, got)
		}
	}
	engineer.refused(t, "pxflow_describe", with(request, m{"budget": m{"tokens": 200_001}}), "PX_SCHEMA_INVALID /budget/tokens")

	// Sixty-four lines of one request share its room: each is cut to its share, and
	// none fails. Each is continued alone.
	lines := make([]string, 64)
	for i := range lines {
		lines[i] = line(t, i, "pxflow_describe", request)
	}
	r := post(t, h.URL, engineer.token, strings.Join(lines, "\n"))
	if len(r.lines()) != len(lines) || len(r.body) > 5_500_000 {
		t.Fatalf("%d lines of %d bytes", len(r.lines()), len(r.body))
	}
	var first []string
	for i, text := range r.lines() {
		got := read(t, text)
		var data m
		if got.Envelope == nil || !got.Envelope.OK || json.Unmarshal(got.Envelope.Data, &data) != nil || string(got.ID) != fmt.Sprint(i) {
			t.Fatalf("line %d: %.300s", i, text)
		}
		told, cut := data["truncation"].(m)
		if !cut || told["budget"] != "bytes" {
			t.Fatalf("line %d of 64 is not cut: %v", i, told)
		}
		delete(data, "truncation")
		first = append(first, encode(t, data))
	}
	sort.Strings(first)
	if first[0] != first[len(first)-1] {
		t.Error("equal lines of a request have other shares")
	}
}
