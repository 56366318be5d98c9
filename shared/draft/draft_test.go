package draft_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pxhost/pxhost/shared/cursor"
	"github.com/pxhost/pxhost/shared/draft"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/policy"
	"github.com/pxhost/pxhost/shared/target"
)

var (
	bridge  = target.Project{WorkspaceKey: "team", ProjectKey: "bridge"}
	tunnel  = target.Project{WorkspaceKey: "team", ProjectKey: "tunnel"}
	holder  = draft.Holder{Principal: "https://issuer|engineer", Session: "s1"}
	aDraft  = draft.Draft{Kind: "flow", Key: "beam", Object: history.RefOf([]byte("{}"))}
	morning = time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)
)

// handles are sealed by a ring, at a time that a test may change.
func handles(ring cursor.Static, now *time.Time) draft.Handles {
	clock := func() time.Time { return *now }
	return draft.Handles{Sealer: cursor.New(ring, draft.Life, clock), Life: draft.Life, Now: clock}
}

// covers: T4
func TestAHandleOpensForItsHolderAlone(t *testing.T) {
	ctx, now, ring := t.Context(), morning, cursor.NewStatic()
	h := handles(ring, &now)
	handle, expires, err := h.Make(ctx, holder, bridge, aDraft)
	if err != nil || !expires.Equal(morning.Add(draft.Life)) || len(handle) > draft.MaxHandle {
		t.Fatalf("%d characters, until %v: %v", len(handle), expires, err)
	}
	if strings.Contains(handle, "beam") {
		t.Error("a handle tells what it is of")
	}
	opens := func(holder draft.Holder, project target.Project, kind, handle string) bool {
		t.Helper()
		got, ok, err := h.Open(ctx, holder, project, kind, handle)
		if err != nil || ok && got != aDraft || !ok && got.Key != "" && got.Kind == kind {
			t.Fatalf("%+v, %v, %v", got, ok, err)
		}
		return ok
	}
	for range 2 { // it is not used up
		if !opens(holder, bridge, "flow", handle) {
			t.Fatal("it does not open for its holder")
		}
	}
	asCursor, err := h.Sealer.Seal(ctx, cursor.Binding{Tool: "pxflow_search", Principal: holder.Principal}, cursor.Claims{Position: []byte(`{"kind":"flow","key":"beam","object":"x"}`)})
	if err != nil {
		t.Fatal(err)
	}
	other := handles(cursor.NewStatic(), &now)
	foreign, _, err := other.Make(ctx, holder, bridge, aDraft)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		holder  draft.Holder
		project target.Project
		kind    string
		handle  string
	}{
		"another principal":               {draft.Holder{Principal: "https://issuer|reviewer", Session: "s1"}, bridge, "flow", handle},
		"the subject of another issuer":   {draft.Holder{Principal: "https://elsewhere|engineer", Session: "s1"}, bridge, "flow", handle},
		"another session":                 {draft.Holder{Principal: holder.Principal, Session: "s2"}, bridge, "flow", handle},
		"no session":                      {draft.Holder{Principal: holder.Principal}, bridge, "flow", handle},
		"another Project":                 {holder, tunnel, "flow", handle},
		"another kind":                    {holder, bridge, "report", handle},
		"a cursor of the same key":        {holder, bridge, "flow", asCursor},
		"a handle of another host":        {holder, bridge, "flow", foreign},
		"nothing":                         {holder, bridge, "flow", ""},
		"a digest":                        {holder, bridge, "flow", string(aDraft.Object)},
		"a handle with more behind it":    {holder, bridge, "flow", handle + "A"},
		"a handle without its last part":  {holder, bridge, "flow", handle[:len(handle)-4]},
		"a handle in a line of its own":   {holder, bridge, "flow", handle + "\n"},
		"text that is longer than handle": {holder, bridge, "flow", strings.Repeat("A", draft.MaxHandle+1)},
	} {
		if opens(c.holder, c.project, c.kind, c.handle) {
			t.Errorf("%s opens it", name)
		}
	}
	for i := range handle {
		for _, bit := range []byte{1, 2, 4, 8, 16, 32} {
			altered := []byte(handle)
			altered[i] ^= bit
			if opens(holder, bridge, "flow", string(altered)) {
				t.Fatalf("with bit %d of character %d flipped it opens", bit, i)
			}
		}
	}
	now = morning.Add(draft.Life - time.Second)
	if !opens(holder, bridge, "flow", handle) {
		t.Error("it expires before its time")
	}
	if now = expires; opens(holder, bridge, "flow", handle) {
		t.Error("it opens when it has expired")
	}
	h.Life = time.Hour
	if _, expires, err := h.Make(ctx, holder, bridge, aDraft); err != nil || !expires.Equal(now.Add(time.Hour)) {
		t.Errorf("of an hour, it is good until %v: %v", expires, err)
	}
}

// A ring that cannot be read is no reason to say that there is no such draft.
//
// covers: T4
func TestAFailureIsNoDraftThatIsMissing(t *testing.T) {
	h := draft.Handles{Sealer: broken{}, Life: draft.Life, Now: time.Now}
	if _, ok, err := h.Open(t.Context(), holder, bridge, "flow", "A"); ok || !errors.Is(err, errBroken) {
		t.Errorf("%v, %v", ok, err)
	}
}

var errBroken = errors.New("broken")

type broken struct{}

func (broken) Seal(context.Context, cursor.Binding, cursor.Claims) (string, error) {
	return "", errBroken
}

func (broken) Open(context.Context, cursor.Binding, string) (cursor.Claims, error) {
	return cursor.Claims{}, errBroken
}

// store keeps objects, and grants rights by Project and principal. It fails if it is
// told to: the write first, or the answer behind it.
type store struct {
	policy.Store
	rights  map[string][]policy.Right
	objects map[history.Space][][]byte
	before  error
	after   error
}

func (s *store) Grant(_ context.Context, p target.Project, principal string) (policy.Grant, error) {
	return policy.Grant{Rights: s.rights[p.String()+" "+principal], Version: 1}, nil
}

func (s *store) Put(_ context.Context, space history.Space, bodies ...[]byte) error {
	if s.before != nil {
		return s.before
	}
	s.objects[space] = append(s.objects[space], bodies...)
	return s.after
}

func (s *store) Get(context.Context, history.Space, ...history.Ref) ([][]byte, error) {
	return nil, errors.New("nothing is read to make a draft")
}

// covers: T4
func TestMakingADraftTakesTheRightToEdit(t *testing.T) {
	reader, editor, blind := holder, holder, holder
	reader.Principal, editor.Principal, blind.Principal = "reader", "editor", "blind"
	sessionless := editor
	sessionless.Session = ""
	document := draft.Document{Kind: "flow", Key: "beam", Canonical: []byte(`{"flowKey":"beam"}`)}
	largest := draft.Document{Kind: "report", Key: "review", Canonical: bytes.Repeat([]byte{'x'}, draft.MaxBytes)}
	linked := draft.Document{Kind: "flow", Key: "beam", Canonical: []byte(`{"flowKey":"beam"}`), Source: bytes.Repeat([]byte{'#'}, draft.MaxSource)}
	long, apart := linked, linked
	long.Source = append(bytes.Clone(linked.Source), '#')
	apart.Refused.Add(outcome.SourceParity, "/document/authoring/sourceDigest", nil)
	larger := draft.Document{Kind: "report", Key: "review", Canonical: bytes.Repeat([]byte{'x'}, draft.MaxBytes+1)}
	for name, c := range map[string]struct {
		holder draft.Holder
		scope  target.Scope
		doc    draft.Document
		told   string // of the one finding
		fail   func(*store)
		failed bool
		stored int
	}{
		"by who may edit":                      {holder: editor, scope: bridge.Scope(), doc: document, stored: 1},
		"of the largest document":              {holder: editor, scope: bridge.Scope(), doc: largest, stored: 1},
		"of a document of one byte more":       {holder: editor, scope: bridge.Scope(), doc: larger, told: "PX_LIMIT_EXCEEDED /document"},
		"with the largest source":              {holder: editor, scope: bridge.Scope(), doc: linked, stored: 2},
		"with a source of one byte more":       {holder: editor, scope: bridge.Scope(), doc: long, told: "PX_LIMIT_EXCEEDED /source"},
		"with another source":                  {holder: editor, scope: bridge.Scope(), doc: apart, told: "PX_SOURCE_PARITY /document/authoring/sourceDigest"},
		"with another source by who may read":  {holder: reader, scope: bridge.Scope(), doc: apart, told: "PX_PERMISSION_DENIED /scope"},
		"by who may only read":                 {holder: reader, scope: bridge.Scope(), doc: document, told: "PX_PERMISSION_DENIED /scope"},
		"by who may edit and not read":         {holder: blind, scope: bridge.Scope(), doc: document, told: "PX_TARGET_NOT_FOUND /scope"},
		"in another Project":                   {holder: editor, scope: tunnel.Scope(), doc: document, told: "PX_TARGET_NOT_FOUND /scope"},
		"in no Project":                        {holder: editor, scope: target.Scope{Kind: target.WorkspaceScope, WorkspaceKey: "team"}, doc: document, told: "PX_TARGET_NOT_FOUND /scope"},
		"by a token without a session":         {holder: sessionless, scope: bridge.Scope(), doc: document, told: "PX_PERMISSION_DENIED "},
		"of a kind that nobody knows":          {holder: editor, scope: bridge.Scope(), doc: draft.Document{Kind: "function", Key: "f", Canonical: []byte("{}")}, failed: true},
		"where the write fails":                {holder: editor, scope: bridge.Scope(), doc: document, fail: func(s *store) { s.before = errBroken }, failed: true},
		"where the write's answer is lost":     {holder: editor, scope: bridge.Scope(), doc: document, fail: func(s *store) { s.after = errBroken }, failed: true, stored: 1},
		"again after the write's answer went,": {holder: editor, scope: bridge.Scope(), doc: document, fail: func(s *store) { s.objects["team/bridge"] = [][]byte{document.Canonical} }, stored: 2},
	} {
		s := &store{objects: map[history.Space][][]byte{}, rights: map[string][]policy.Right{
			"team/bridge reader": {policy.Read, policy.Run, policy.Approve}, "team/bridge editor": {policy.Read, policy.Edit}, "team/bridge blind": {policy.Edit}}}
		if c.fail != nil {
			c.fail(s)
		}
		now := morning
		d := draft.Drafts{Handles: handles(cursor.NewStatic(), &now), Objects: s, Policy: s}
		made, findings, err := d.Make(t.Context(), c.holder, c.scope, c.doc)
		told := ""
		for _, f := range findings {
			told += string(f.Code) + " " + f.Path
		}
		if told != c.told || (err != nil) != c.failed || len(s.objects["team/bridge"]) != c.stored || len(s.objects["team/tunnel"]) != 0 {
			t.Errorf("%s: told %q, %v, %d objects", name, told, err, len(s.objects["team/bridge"]))
		}
		if told != "" || err != nil {
			if made != (draft.Made{}) {
				t.Errorf("%s: %+v", name, made)
			}
			continue
		}
		ref := history.RefOf(c.doc.Canonical)
		opened, ok, err := d.Handles.Open(t.Context(), c.holder, bridge, c.doc.Kind, made.DocumentHandle)
		want := draft.Draft{Kind: c.doc.Kind, Key: c.doc.Key, Object: ref}
		if c.doc.Source != nil {
			want.Source = history.RefOf(c.doc.Source)
		}
		if !ok || err != nil || opened != want {
			t.Errorf("%s: it opens as %+v, %v, %v", name, opened, ok, err)
		}
		if made.Target != (draft.Target{Scope: bridge.Scope(), DocumentHandle: made.DocumentHandle}) || made.Digest != string(ref) || made.ExpiresAt != "2026-11-30T21:00:00Z" ||
			made.FlowKey+made.ReportKey != c.doc.Key || (made.FlowKey != "") != (c.doc.Kind == "flow") {
			t.Errorf("%s: %+v", name, made)
		}
	}
}

// No text but what was sealed opens, and none is a failure.
func FuzzOpen(f *testing.F) {
	now, ring := morning, cursor.NewStatic()
	h := handles(ring, &now)
	handle, _, err := h.Make(context.Background(), holder, bridge, aDraft)
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{handle, handle[1:], handle + "=", "", "A", strings.Repeat("A", 300), "AQ", "sha256:0", "\x00", "가"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, ok, err := h.Open(t.Context(), holder, bridge, "flow", text)
		if err != nil || ok != (text == handle) || ok && d != aDraft {
			t.Fatalf("%q opens: %+v, %v, %v", text, d, ok, err)
		}
	})
}
