package flow

import (
	"maps"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/component"
	"github.com/pxhost/pxhost/shared/quantity"
	"github.com/pxhost/pxhost/shared/schema"
	"github.com/pxhost/pxhost/shared/target"
)

// Format is the version of the document form that this package reads and writes.
const Format = "pxflow/1"

// The limits of one Flow (decision 16). The limit itself is allowed.
const (
	MaxNodes = 500
	MaxBytes = 1 << 20 // of the canonical encoding
)

// A Document is one Flow. What an author left out stays left out: encoding a
// decoded document gives the canonical form of the very text that was decoded,
// so that a revisionRef is the digest of what its author wrote (F2).
//
// Documents are values that are shared freely: nothing changes a map of one
// after it was decoded or returned by Apply.
type Document struct {
	Format    string                   `json:"format" schema:"enum=pxflow/1"`
	FlowKey   string                   `json:"flowKey" schema:"pattern=key"`
	Label     target.Label             `json:"label,omitzero"`
	Authoring Authoring                `json:"authoring"`
	Inputs    map[string]quantity.Port `json:"inputs"`
	Results   map[string]ResultPort    `json:"results"`
	Nodes     map[string]Node          `json:"nodes"`
}

// The kinds of authoring.
const (
	Native = "native" // the document itself is what people and commands edit
	SDK    = "sdk"    // the document is materialized from Python source
)

// Authoring says what the document is made from.
type Authoring struct {
	Kind         string `json:"kind" schema:"enum=native|sdk"`
	SourceDigest string `json:"sourceDigest,omitzero" kinds:"sdk!"` // of an SDK source, else empty
}

// A ResultPort is a public result and where its value comes from. Binding is nil
// until BindResult names one; a document with an unbound result is not valid.
type ResultPort struct {
	quantity.Port `schema:"widen"`
	Binding       Binding `json:"binding,omitzero" desc:"In results of a document only."`
}

// A Node is one calculation step.
type Node struct {
	Target        Target             `json:"target"`
	Settings      Settings           `json:"settings,omitzero"` // values are canonical
	InputBindings map[string]Binding `json:"inputBindings,omitzero"`
	Label         target.Label       `json:"label,omitzero"`
}

// Settings are the top-level settings of a Component, by settingKey; what they
// mean is the Component's to say. A Function has none.
type Settings map[string]canon.Raw

// SchemaRules makes names of settings what Components choose, for package schema.
func (Settings) SchemaRules() string { return "keys=member" }

// SchemaAlternatives lists the settings of every Component: the tool's input
// schema is where a model learns them (decision 13).
func (Settings) SchemaAlternatives() []schema.Alternative {
	var out []schema.Alternative
	for _, c := range component.All() {
		out = append(out, schema.Alternative{Name: c.Key(), Type: c.SettingsType(), Example: c.Example()})
	}
	return out
}

// A Target is what a Node runs: a ComponentTarget or a FunctionTarget. Targets
// can be compared with ==.
type Target interface {
	schema.Variant
	target()
}

// A ComponentTarget names one version of a Component.
type ComponentTarget struct {
	_ struct{} `desc:"A Component, such as px.formula."`

	Kind         schema.Kind[ComponentTarget] `json:"kind"`
	ComponentKey string                       `json:"componentKey" schema:"pattern=dotted,maxLength=130,copied"`
	Version      int                          `json:"version" schema:"minimum=1"`
}

// A FunctionTarget names one immutable Function version by its digest: of the Project,
// or of a package that it has installed.
type FunctionTarget struct {
	_ struct{} `desc:"A Function."`

	Kind        schema.Kind[FunctionTarget] `json:"kind"`
	FunctionKey string                      `json:"functionKey" schema:"pattern=key,copied"`
	Version     int                         `json:"version" schema:"minimum=1"`
	Digest      string                      `json:"digest" schema:"minLength=1,maxLength=200"`
	// Package is the exact release that owns the Function; zero for the Project's own.
	Package target.Package `json:"package,omitzero" schema:"brief" desc:"A package's, as described."`
}

// Owned reports whether a package owns the Function, and not the Project.
func (t FunctionTarget) Owned() bool { return t.Package != (target.Package{}) }

func (ComponentTarget) target() {}
func (FunctionTarget) target()  {}

// Variant returns the tag.
func (ComponentTarget) Variant() string { return "component" }

// Variant returns the tag.
func (FunctionTarget) Variant() string { return "function" }

// A Binding is where an input or a result gets its value: a FlowInput, a
// NodeResult or a Literal.
type Binding interface {
	schema.Variant
	binding()
}

// A FlowInput is the value of a public input port.
type FlowInput struct {
	Kind    schema.Kind[FlowInput] `json:"kind"`
	PortKey string                 `json:"portKey" schema:"pattern=key"`
}

// A NodeResult is what another Node gives at one of its result ports.
type NodeResult struct {
	Kind    schema.Kind[NodeResult] `json:"kind"`
	NodeKey string                  `json:"nodeKey" schema:"pattern=key"`
	PortKey string                  `json:"portKey" schema:"pattern=key"`
}

// A Literal is a value written into the document: {"value": 1, "unit": "ft"}.
type Literal struct {
	Kind  schema.Kind[Literal] `json:"kind"`
	Value canon.Raw            `json:"value" desc:"typed value"` // canonical
}

func (FlowInput) binding()  {}
func (NodeResult) binding() {}
func (Literal) binding()    {}

// Variant returns the tag.
func (FlowInput) Variant() string { return "flowInput" }

// Variant returns the tag.
func (NodeResult) Variant() string { return "nodeResult" }

// Variant returns the tag.
func (Literal) Variant() string { return "literal" }

var (
	_ = schema.Union[Target](ComponentTarget{}, FunctionTarget{})
	_ = schema.Union[Binding](FlowInput{}, NodeResult{}, Literal{})
)

// RevisionRef returns the document's canonical bytes and their digest, which is
// its revisionRef.
func (d Document) RevisionRef() (canonical []byte, ref string, err error) {
	canonical, err = canon.Encode(d)
	if err != nil {
		return nil, "", err
	}
	return canonical, canon.Digest(canonical), nil
}

// clone copies the maps that commands may change at the first level. A Node's
// own maps are copied by the command that changes them.
func (d Document) clone() Document {
	d.Inputs, d.Results, d.Nodes = orEmpty(maps.Clone(d.Inputs)), orEmpty(maps.Clone(d.Results)), orEmpty(maps.Clone(d.Nodes))
	return d
}

func orEmpty[M ~map[string]V, V any](m M) M {
	if m == nil {
		return M{}
	}
	return m
}
