package target_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/schema"
	"github.com/pxhost/pxhost/shared/target"
)

// A saved revision is the same text as one kind of target and as the other, so that a
// plan made from either has the same digest.
//
// covers: T4
func TestASavedRevisionIsWrittenAlikeAsADocument(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.StringMatching(`[a-z][a-z0-9_]{0,10}`)
		scope := target.Project{WorkspaceKey: key.Draw(t, "workspace"), ProjectKey: key.Draw(t, "project")}.Scope()
		flow := target.Flow{Scope: scope, FlowKey: key.Draw(t, "flow"), RevisionRef: "sha256:" + key.Draw(t, "revision")}
		report := target.Report{Scope: scope, ReportKey: flow.FlowKey, RevisionRef: flow.RevisionRef}
		flowText, err := canon.Encode(flow)
		if err != nil {
			t.Fatal(err)
		}
		reportText, err := canon.Encode(report)
		if err != nil {
			t.Fatal(err)
		}
		var f target.FlowDocument
		var r target.ReportDocument
		if found := append(schema.Decode(flowText, &f), schema.Decode(reportText, &r)...); found != nil {
			t.Fatal(found)
		}
		if f.Saved() != flow || r.Saved() != report || f.Address() != flow.Address() || r.Address() != report.Address() {
			t.Fatalf("%+v, %+v", f, r)
		}
		for text, again := range map[string]any{string(flowText): f, string(reportText): r} {
			if got, err := canon.Encode(again); err != nil || string(got) != text {
				t.Fatalf("%s is %s: %v", text, got, err)
			}
		}
	})
}

// covers: T1, T4
func TestADraftHasItsScopeAndItsHandleAndNothingElse(t *testing.T) {
	const scope = `"scope":{"kind":"project","workspaceKey":"a","projectKey":"b"}`
	for name, c := range map[string]struct {
		text string
		ok   bool
	}{
		"a draft":                       {`{` + scope + `,"documentHandle":"h"}`, true},
		"without its scope":             {`{"documentHandle":"h"}`, false},
		"with half its scope":           {`{"scope":{"kind":"project","workspaceKey":"a"},"documentHandle":"h"}`, false},
		"with nothing as its handle":    {`{` + scope + `,"documentHandle":""}`, false},
		"with a key too":                {`{` + scope + `,"documentHandle":"h","flowKey":"f"}`, false},
		"with a revision too":           {`{` + scope + `,"documentHandle":"h","revisionRef":"r"}`, false},
		"with the key of another kind":  {`{` + scope + `,"documentHandle":"h","reportKey":"f"}`, false},
		"with a handle that is no text": {`{` + scope + `,"documentHandle":null}`, false},
	} {
		var f target.FlowDocument
		if found := schema.Decode([]byte(c.text), &f); found.Refused() == c.ok {
			t.Errorf("%s: %+v", name, found)
		}
	}
}
