// Package target holds the names by which everything in pxhost is addressed:
// scopes, keys and exact revisions. A target is never completed, guessed or
// moved to a newer revision (T1, T2, T3).
package target

import "regexp"

var keyForm = regexp.MustCompile(`^[a-z][a-z0-9_]{0,63}$`)

// KeyPattern is the form of every key that a user chooses.
const KeyPattern = `^[a-z][a-z0-9_]{0,63}$`

// ValidKey reports whether s is a key: a lower-case letter, then at most 63
// lower-case letters, digits and underscores.
func ValidKey(s string) bool { return keyForm.MatchString(s) }

// ScopeKind tells what a scope reaches.
type ScopeKind string

// The scope kinds. Tools that write take ProjectScope only.
const (
	ProjectScope   ScopeKind = "project"
	WorkspaceScope ScopeKind = "workspace"
	PrincipalScope ScopeKind = "principal"
	ProductScope   ScopeKind = "product"
)

// A Scope says where a target lives. Where package schema reads one, a part that
// is missing or does not belong to the kind is a finding; the rule only=… of a
// field tells which kinds are allowed there (T1).
type Scope struct {
	Kind         ScopeKind `json:"kind" schema:"enum=project|workspace|principal|product"`
	WorkspaceKey string    `json:"workspaceKey,omitzero" schema:"pattern=key,copied" kinds:"project!,workspace!"`
	ProjectKey   string    `json:"projectKey,omitzero" schema:"pattern=key,copied" kinds:"project!"`
}

// Project is the address of one Project. The zero value is no Project.
type Project struct {
	WorkspaceKey string
	ProjectKey   string
}

// String returns "workspace/project", the form used in storage keys.
func (p Project) String() string { return p.WorkspaceKey + "/" + p.ProjectKey }

// Scope returns the scope that names this Project.
func (p Project) Scope() Scope {
	return Scope{Kind: ProjectScope, WorkspaceKey: p.WorkspaceKey, ProjectKey: p.ProjectKey}
}

// Project returns the Project that the scope names exactly. ok is false for any
// other kind and for a missing, malformed or superfluous part.
func (s Scope) Project() (p Project, ok bool) {
	if s.Kind != ProjectScope || !ValidKey(s.WorkspaceKey) || !ValidKey(s.ProjectKey) {
		return Project{}, false
	}
	return Project{s.WorkspaceKey, s.ProjectKey}, true
}

// Flow addresses one exact revision of a Flow.
type Flow struct {
	Scope       Scope  `json:"scope" schema:"only=project"`
	FlowKey     string `json:"flowKey" schema:"pattern=key,copied"`
	RevisionRef string `json:"revisionRef" schema:"minLength=1,maxLength=200"`
}

// Report addresses one exact revision of a Report.
type Report struct {
	Scope       Scope  `json:"scope" schema:"only=project"`
	ReportKey   string `json:"reportKey" schema:"pattern=key,copied"`
	RevisionRef string `json:"revisionRef" schema:"minLength=1,maxLength=200"`
}

// FlowDocument addresses a Flow's document that can be read and planned from: a
// saved revision, or a local draft by the handle that a trusted host has of it (T4).
// What runs, applies or refers takes a Flow, and so a saved revision alone.
type FlowDocument struct {
	_ struct{} `schema:"forms=flowKey+revisionRef|documentHandle"`

	Scope          Scope  `json:"scope" schema:"only=project"`
	FlowKey        string `json:"flowKey,omitzero" schema:"pattern=key,copied"`
	RevisionRef    string `json:"revisionRef,omitzero" schema:"minLength=1,maxLength=200"`
	DocumentHandle string `json:"documentHandle,omitzero" schema:"minLength=1,maxLength=4096" desc:"Of a local draft, for flowKey and revisionRef."`
}

// ReportDocument is of a Report what FlowDocument is of a Flow.
type ReportDocument struct {
	_ struct{} `schema:"forms=reportKey+revisionRef|documentHandle"`

	Scope          Scope  `json:"scope" schema:"only=project"`
	ReportKey      string `json:"reportKey,omitzero" schema:"pattern=key,copied"`
	RevisionRef    string `json:"revisionRef,omitzero" schema:"minLength=1,maxLength=200"`
	DocumentHandle string `json:"documentHandle,omitzero" schema:"minLength=1,maxLength=4096" desc:"Of a local draft, for reportKey and revisionRef."`
}

// Function addresses one exact version of a Function: of the Project, or of a package
// that the Project may use.
type Function struct {
	Scope        Scope   `json:"scope" schema:"only=project"`
	FunctionKey  string  `json:"functionKey" schema:"pattern=key,copied"`
	Version      int     `json:"version" schema:"minimum=1"`
	Digest       string  `json:"digest" schema:"minLength=1,maxLength=200"`
	SourceDigest string  `json:"sourceDigest" schema:"minLength=1,maxLength=200"`
	Package      Package `json:"package,omitzero"`
}

// FunctionChange addresses what a change of Functions is about: the exact version
// that it begins from, or, of a Function that does not exist yet, its key alone.
type FunctionChange struct {
	Scope        Scope   `json:"scope" schema:"only=project"`
	FunctionKey  string  `json:"functionKey" schema:"pattern=key"`
	Version      int     `json:"version,omitzero" schema:"minimum=1"`
	Digest       string  `json:"digest,omitzero" schema:"minLength=1,maxLength=200"`
	SourceDigest string  `json:"sourceDigest,omitzero" schema:"minLength=1,maxLength=200"`
	Package      Package `json:"package,omitzero"`
}

// functionForm is what an input says of a target that is copied from an answer: the
// decoder holds each member to its form.
const functionForm = `{"type":"object","properties":{"scope":{"type":"object"},"functionKey":{"type":"string"},"version":{"type":"integer"},"digest":{"type":"string"},` +
	`"sourceDigest":{"type":"string"},"package":{"type":"object"}},"required":["scope","functionKey"]}`

// JSONSchema is the short form for package schema.
func (Function) JSONSchema() string { return functionForm }

// JSONSchema is the short form for package schema.
func (FunctionChange) JSONSchema() string { return functionForm }

// Package names one exact release of a package that owns a target (T4).
type Package struct {
	PackageKey string `json:"packageKey" schema:"pattern=key,copied"`
	Version    string `json:"version" schema:"minLength=1,maxLength=64"`
	Digest     string `json:"digest" schema:"minLength=1,maxLength=200"`
}

// An Address is a target of any kind of document: "flow", "report". Of a draft it
// has Handle instead of Key and RevisionRef.
type Address struct {
	Scope       Scope
	Kind        string
	Key         string
	RevisionRef string
	Handle      string
}

// Address returns the target as one of any kind.
func (f Flow) Address() Address { return Address{f.Scope, "flow", f.FlowKey, f.RevisionRef, ""} }

// Address returns the target as one of any kind.
func (r Report) Address() Address { return Address{r.Scope, "report", r.ReportKey, r.RevisionRef, ""} }

// Address returns the target as one of any kind.
func (f FlowDocument) Address() Address {
	return Address{f.Scope, "flow", f.FlowKey, f.RevisionRef, f.DocumentHandle}
}

// Address returns the target as one of any kind.
func (r ReportDocument) Address() Address {
	return Address{r.Scope, "report", r.ReportKey, r.RevisionRef, r.DocumentHandle}
}

// Saved returns the target of a saved revision; of a draft, which has no key yet, it
// is none.
func (f FlowDocument) Saved() Flow { return Flow{f.Scope, f.FlowKey, f.RevisionRef} }

// Saved returns the target of a saved revision; of a draft, which has no key yet, it
// is none.
func (r ReportDocument) Saved() Report { return Report{r.Scope, r.ReportKey, r.RevisionRef} }

// Address returns the target as one of any kind; its revision is the digest.
func (f Function) Address() Address { return Address{f.Scope, "function", f.FunctionKey, f.Digest, ""} }

// Address returns the target as one of any kind; its revision is the digest, or "" of
// a Function that does not exist yet.
func (f FunctionChange) Address() Address {
	return Address{f.Scope, "function", f.FunctionKey, f.Digest, ""}
}

// Label is a text in several languages, by BCP 47 tag.
type Label map[string]string

// SchemaRules states the form of the tags and of the texts for package schema.
func (Label) SchemaRules() string {
	return "keys=language,each.minLength=1,each.maxLength=500,each.text=line"
}
