package sample

import (
	"reflect"
	"testing"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/flow"
	"github.com/pxhost/pxhost/shared/flow/source"
	"github.com/pxhost/pxhost/shared/python"
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

// What seeding knows of the sample Function is what Python reads in its source.
//
// covers: N1
func TestTheSampleFunctionIsWhatPythonReads(t *testing.T) {
	ask := python.Request{Kind: python.FunctionKind, Source: Resistance}
	known, err := resistanceReader.Read(t.Context(), ask)
	if err != nil {
		t.Fatal(err)
	}
	read, err := pythontest.Reader(t).Read(t.Context(), ask)
	if err != nil {
		t.Fatal(err)
	}
	if read.Function == nil || !reflect.DeepEqual(read.Function, known.Function) || len(known.Findings) > 0 {
		t.Errorf("known is %+v, read is %+v", known.Function, read.Function)
	}
	if _, err := resistanceReader.Read(t.Context(), python.Request{Kind: python.FunctionKind, Source: Resistance + "\n"}); err == nil {
		t.Error("another source is answered for")
	}
}
