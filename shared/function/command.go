package function

import (
	"github.com/pxhost/pxhost/shared/schema"
	"github.com/pxhost/pxhost/shared/target"
)

// A Command makes a version of a Function, or moves one Node to it. The union is
// closed: the types below are all there are. A definition is a whole, structured
// thing: no command patches lines, replaces a file or names a Python symbol (N2).
type Command interface {
	schema.Variant // the tag of the command on the wire
	command()
}

// CreateFunction is the first save of a Function, as version 1.
type CreateFunction struct {
	_ struct{} `desc:"First save, version 1."`

	Kind   schema.Kind[CreateFunction] `json:"kind"`
	Source string                      `json:"source" schema:"minLength=1"`
}

// CreateFunctionVersion makes the next version, and moves everything in the Project
// that uses the Function to it.
type CreateFunctionVersion struct {
	_ struct{} `desc:"Next version; moves every Node and Report that uses it."`

	Kind            schema.Kind[CreateFunctionVersion] `json:"kind"`
	FunctionRef     Ref                                `json:"functionRef" desc:"As in target."`
	Source          string                             `json:"source" schema:"minLength=1"`
	ReferencePolicy string                             `json:"referencePolicy" schema:"enum=all_current_usages"`
}

// BranchProjectFunction makes another Function of a version that stays: for Nodes
// that need another implementation, each moved by a ReplaceNodeTarget of the same
// plan.
type BranchProjectFunction struct {
	_ struct{} `desc:"Another Function, version 1, made of one that stays."`

	Kind        schema.Kind[BranchProjectFunction] `json:"kind"`
	FunctionRef Ref                                `json:"functionRef" desc:"That stays."`
	FunctionKey string                             `json:"functionKey" schema:"pattern=key,copied"`
	Source      string                             `json:"source" schema:"minLength=1"`
}

// ReplaceNodeTarget makes one Node run the Function that the same plan creates.
type ReplaceNodeTarget struct {
	_ struct{} `desc:"After CreateFunction or BranchProjectFunction: one Node runs the new Function."`

	Kind       schema.Kind[ReplaceNodeTarget] `json:"kind"`
	FlowTarget target.Flow                    `json:"flowTarget" schema:"brief" desc:"As pxflow_describe gave it."`
	NodeKey    string                         `json:"nodeKey" schema:"pattern=key,copied"`
	Target     NodeTarget                     `json:"target"`
}

// A NodeTarget is what a Node runs after the plan. The digest of a version that the
// plan itself creates may be left out (decision 17).
type NodeTarget struct {
	Kind        string `json:"kind" schema:"enum=function"`
	FunctionKey string `json:"functionKey" schema:"pattern=key,copied"`
	Version     int    `json:"version" schema:"minimum=1"`
	Digest      string `json:"digest,omitzero" schema:"minLength=1,maxLength=200" desc:"Left out."`
}

func (CreateFunction) command()        {}
func (CreateFunctionVersion) command() {}
func (BranchProjectFunction) command() {}
func (ReplaceNodeTarget) command()     {}

// Variant returns the tag.
func (CreateFunction) Variant() string { return "CreateFunction" }

// Variant returns the tag.
func (CreateFunctionVersion) Variant() string { return "CreateFunctionVersion" }

// Variant returns the tag.
func (BranchProjectFunction) Variant() string { return "BranchProjectFunction" }

// Variant returns the tag.
func (ReplaceNodeTarget) Variant() string { return "ReplaceNodeTarget" }

var _ = schema.Union[Command](CreateFunction{}, CreateFunctionVersion{}, BranchProjectFunction{}, ReplaceNodeTarget{})
