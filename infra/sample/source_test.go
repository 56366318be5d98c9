package sample

import (
	"testing"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/flow"
	"github.com/pxhost/pxhost/shared/flow/source"
	"github.com/pxhost/pxhost/shared/python/pythontest"
)

// covers: F4
func TestTheSampleInPythonSaysWhatTheSampleSays(t *testing.T) {
	native, findings := flow.Decode(GirderCheck)
	if findings != nil {
		t.Fatal(findings)
	}
	linked := native
	linked.Authoring = flow.Authoring{Kind: flow.SDK, SourceDigest: flow.SourceDigest(GirderCheckSource)}
	p, findings, err := source.Propose(t.Context(), pythontest.Reader(t), nil, "", []flow.Command{flow.CreateFlow{Document: linked, Source: GirderCheckSource}}, flow.NoFunctions{})
	if err != nil || findings.Refused() {
		t.Fatal(err, findings)
	}
	native.Authoring, p.Document.Authoring = flow.Authoring{}, flow.Authoring{}
	a, _ := canon.DigestOf(native)
	if b, _ := canon.DigestOf(p.Document); a != b {
		t.Errorf("%s, and in Python %s", a, b)
	}
}
