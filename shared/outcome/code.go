package outcome

import (
	"maps"
	"slices"
)

// A Code names one kind of finding. It never changes its meaning.
type Code string

// The codes of the tools. The text of each is in the registry below.
const (
	TargetNotFound           Code = "PX_TARGET_NOT_FOUND"
	TargetReadOnly           Code = "PX_TARGET_READ_ONLY"
	TargetAmbiguous          Code = "PX_TARGET_AMBIGUOUS"
	SchemaUnknownField       Code = "PX_SCHEMA_UNKNOWN_FIELD"
	SchemaUnsupportedVersion Code = "PX_SCHEMA_UNSUPPORTED_VERSION"
	SchemaInvalid            Code = "PX_SCHEMA_INVALID"
	PermissionDenied         Code = "PX_PERMISSION_DENIED"
	PlanNotFound             Code = "PX_PLAN_NOT_FOUND"
	PlanExpired              Code = "PX_PLAN_EXPIRED"
	PlanMismatch             Code = "PX_PLAN_MISMATCH"
	GenerationStale          Code = "PX_GENERATION_STALE"
	MergeConflict            Code = "PX_MERGE_CONFLICT"
	CommandReused            Code = "PX_COMMAND_REUSED"
	ApprovalRequired         Code = "PX_APPROVAL_REQUIRED"
	ApprovalInvalid          Code = "PX_APPROVAL_INVALID"
	CursorInvalid            Code = "PX_CURSOR_INVALID"
	TypeMismatch             Code = "PX_TYPE_MISMATCH"
	UnitMismatch             Code = "PX_UNIT_MISMATCH"
	UnitConverted            Code = "PX_UNIT_CONVERTED"
	ShapeMismatch            Code = "PX_SHAPE_MISMATCH"
	NullabilityMismatch      Code = "PX_NULLABILITY_MISMATCH"
	ConstraintViolated       Code = "PX_CONSTRAINT_VIOLATED"
	BindingMissing           Code = "PX_BINDING_MISSING"
	BindingCycle             Code = "PX_BINDING_CYCLE"
	ReferenceUnknown         Code = "PX_REFERENCE_UNKNOWN"
	ComponentNotRunnable     Code = "PX_COMPONENT_NOT_RUNNABLE"
	ComponentUnverifiable    Code = "PX_COMPONENT_UNVERIFIABLE"
	ComponentUnsigned        Code = "PX_COMPONENT_UNSIGNED"
	DependencyNotInstalled   Code = "PX_DEPENDENCY_NOT_INSTALLED"
	DependencyUnavailable    Code = "PX_DEPENDENCY_UNAVAILABLE"
	DependencyInUse          Code = "PX_DEPENDENCY_IN_USE"
	LicenseNotAccepted       Code = "PX_LICENSE_NOT_ACCEPTED"
	SourceInvalid            Code = "PX_SOURCE_INVALID"
	SourceParity             Code = "PX_SOURCE_PARITY"
	CaseActive               Code = "PX_CASE_ACTIVE"
	RunFailed                Code = "PX_RUN_FAILED"
	SandboxUnavailable       Code = "PX_SANDBOX_UNAVAILABLE"
	LimitExceeded            Code = "PX_LIMIT_EXCEEDED"
	FlowHeadAlreadyExists    Code = "FlowHeadAlreadyExists"
	ReportHeadAlreadyExists  Code = "ReportHeadAlreadyExists"
	FuncHeadAlreadyExists    Code = "FunctionHeadAlreadyExists"
)

// The codes of capabilities. Those up to ExtensionDependencyRequired also tell, in a
// catalog, why a capability is not ready.
const (
	ExtensionNotFound           Code = "EXTENSION_NOT_FOUND"
	ExtensionPermissionDenied   Code = "EXTENSION_PERMISSION_DENIED"
	ExtensionConnectionRequired Code = "EXTENSION_CONNECTION_REQUIRED"
	ExtensionDisabled           Code = "EXTENSION_DISABLED"
	ExtensionVersionMismatch    Code = "EXTENSION_VERSION_MISMATCH"
	ExtensionDependencyRequired Code = "EXTENSION_DEPENDENCY_REQUIRED"
	ExtensionInputInvalid       Code = "EXTENSION_INPUT_INVALID"
	ExtensionOutputInvalid      Code = "EXTENSION_OUTPUT_INVALID"
	ExtensionTimeout            Code = "EXTENSION_TIMEOUT"
	ExtensionNetworkRetryable   Code = "EXTENSION_NETWORK_RETRYABLE"
	ExtensionResponseInvalid    Code = "EXTENSION_RESPONSE_INVALID"
	ExtensionOutcomeUnknown     Code = "EXTENSION_OUTCOME_UNKNOWN"
	SlashCommandAmbiguous       Code = "SLASH_COMMAND_AMBIGUOUS"
	SlashCommandUnavailable     Code = "SLASH_COMMAND_UNAVAILABLE"
	PluginStorageConflict       Code = "PLUGIN_STORAGE_CONFLICT"
	PluginOutcomeChanged        Code = "PLUGIN_OUTCOME_CHANGED"
)

// A Fact is what the registry says of a code. Meaning is one English sentence
// for the reference page; it is never sent in place of the code.
type Fact struct {
	Severity  Severity
	Retryable bool
	Action    string // suggestedAction: the next step, as a constant
	Meaning   string
}

var registry = map[Code]Fact{
	TargetNotFound:           {Error, false, "SELECT_EXACT_TARGET", "The target does not exist, or this principal may not read it."},
	TargetReadOnly:           {Error, false, "OPEN_OWNING_PACKAGE", "The target belongs to a dependency package and is changed there; params hold the hand-off."},
	TargetAmbiguous:          {Error, false, "SELECT_EXACT_TARGET", "Several targets fit; params.candidates lists them with their Projects."},
	SchemaUnknownField:       {Error, false, "REMOVE_FIELD", "The schema has no such field. Legacy fields are refused by this code too."},
	SchemaUnsupportedVersion: {Error, false, "USE_CURRENT_CONTRACT", "A legacy tool or payload form; nothing translates it."},
	SchemaInvalid:            {Error, false, "CORRECT_REQUEST", "The value does not fit the schema."},
	PermissionDenied:         {Error, false, "REQUEST_PERMISSION", "The target is readable, but the principal lacks the right that params.right names."},
	PlanNotFound:             {Error, false, "PLAN_AGAIN", "No such plan for this principal, target and tool."},
	PlanExpired:              {Error, false, "PLAN_AGAIN", "The plan is past its expiresAt, or was already applied or rejected."},
	PlanMismatch:             {Error, false, "PLAN_AGAIN", "Target, plan digest, base digest or tool contract version is not the plan's."},
	GenerationStale:          {Error, false, "DESCRIBE_AND_PLAN_AGAIN", "The target has moved on since expectedGeneration."},
	MergeConflict:            {Error, false, "RESOLVE_CONFLICTS", "The old plan and newer changes touch the same paths; params.conflicts lists them."},
	CommandReused:            {Error, false, "USE_NEW_COMMAND_ID", "The commandId already stands for another plan or request."},
	ApprovalRequired:         {Error, false, "REQUEST_APPROVAL", "The Project's policy asks for an approval of this plan."},
	ApprovalInvalid:          {Error, false, "REQUEST_APPROVAL", "The approval is not of this plan, not of an allowed approver, used, or expired."},
	CursorInvalid:            {Error, false, "START_AGAIN_WITHOUT_CURSOR", "The cursor is not one of this principal, tool, query and filters, or it expired."},
	TypeMismatch:             {Error, false, "CORRECT_BINDING", "Producer and consumer, or value and port, have different types; params hold both contracts."},
	UnitMismatch:             {Error, false, "CORRECT_BINDING", "The units differ in dimension or quantity kind, or the unit is not one; params hold both contracts."},
	UnitConverted:            {Info, false, "NONE", "The units differ and fit; values are converted."},
	ShapeMismatch:            {Error, false, "CORRECT_BINDING", "The shapes differ; params hold both contracts."},
	NullabilityMismatch:      {Error, false, "CORRECT_BINDING", "The producer may be null where the consumer may not."},
	ConstraintViolated:       {Error, false, "CORRECT_VALUE", "The value breaks a constraint of its port; params.constraint names it."},
	BindingMissing:           {Error, false, "CONNECT_INPUT", "A required input or result has no binding."},
	BindingCycle:             {Error, false, "CORRECT_BINDING", "Nodes depend on each other in a circle; params.nodeKeys lists it."},
	ReferenceUnknown:         {Error, false, "SELECT_EXACT_TARGET", "A reference inside the document or command names nothing."},
	ComponentNotRunnable:     {Error, false, "SELECT_SUPPORTED_COMPONENT", "Only supported Functions and first-party Components can be placed, bound or run."},
	ComponentUnverifiable:    {Error, false, "CONTACT_PUBLISHER", "The file says that it is signed, and there is no trust authority that could verify that. It is not recorded."},
	ComponentUnsigned:        {Error, false, "ACCEPT_UNSIGNED", "Nobody signed the file. Recording it takes that this is accepted explicitly; it is a record and no admission."},
	DependencyNotInstalled:   {Error, false, "OPEN_PROJECT_DEPENDENCIES", "The exact release that owns the target is not installed in the Project; params.handoff names it. A person installs it; then describe again and plan anew."},
	DependencyUnavailable:    {Error, false, "OPEN_PROJECT_DEPENDENCIES", "The release that owns the target is installed and may no longer be used, or cannot be installed; params.reason says why. No other takes its place."},
	DependencyInUse:          {Error, false, "REPLACE_NODE_TARGETS", "Nodes run Functions of the package; params.users lists their Flows. It is neither removed nor moved to another version."},
	LicenseNotAccepted:       {Error, false, "ACCEPT_LICENSE", "Installing a package takes that its license, which params.license names, is accepted."},
	SourceInvalid:            {Error, false, "CORRECT_SOURCE", "The source is not one that is accepted; params.reason says which rule it breaks."},
	SourceParity:             {Error, false, "PLAN_AGAIN", "Source and materialized document do not agree."},
	CaseActive:               {Error, true, "READ_RUN_AND_RETRY", "The case of the Batch has a child Run that has not ended, or the Batch is being cancelled; a case is retried after that."},
	RunFailed:                {Error, false, "READ_RUN_DIAGNOSTICS", "The calculation could not be completed; params name the Node and the reason."},
	SandboxUnavailable:       {Error, true, "RETRY_LATER", "No isolated sandbox can run Python now. Where the Project pins a Python that is not there, it is not retryable, and suggestedAction is `CHANGE_PYTHON_PIN`."},
	LimitExceeded:            {Error, false, "REDUCE_REQUEST", "A limit is exceeded; params hold limit and observed. Where it is the caller's own budget, and a larger one would do, suggestedAction is `RAISE_BUDGET`."},
	FlowHeadAlreadyExists:    {Error, false, "DESCRIBE_AND_PLAN_AGAIN", "A Flow with this key exists already."},
	ReportHeadAlreadyExists:  {Error, false, "DESCRIBE_AND_PLAN_AGAIN", "A Report with this key exists already."},
	FuncHeadAlreadyExists:    {Error, false, "DESCRIBE_AND_PLAN_AGAIN", "A Function with this key exists already."},

	ExtensionNotFound:           {Error, false, "READ_CATALOG", "No such instance or capability, or not for this actor."},
	ExtensionPermissionDenied:   {Error, false, "REQUEST_PERMISSION", "The instance lacks a permission that the capability needs, or the actor the right to use it, or the capability does what it does not ask for or calls an address that is none of a public host; params name which."},
	ExtensionConnectionRequired: {Error, false, "CONNECT", "The capability's connector has no Connection, or its credential was rejected."},
	ExtensionDisabled:           {Error, false, "ENABLE_EXTENSION", "The instance is switched off."},
	ExtensionVersionMismatch:    {Error, false, "READ_CATALOG", "The instance has changed since the generation that the caller saw, or while the work ran."},
	ExtensionDependencyRequired: {Error, false, "INSTALL_DEPENDENCY", "A plugin that this one depends on is not installed, not enabled or of another version; params name it."},
	ExtensionInputInvalid:       {Error, false, "CORRECT_ARGUMENTS", "The arguments do not fit input_schema; nothing was called."},
	ExtensionOutputInvalid:      {Error, false, "CONTACT_DEVELOPER", "The result does not fit output_schema; nothing of it is passed on. What happened outside has happened."},
	ExtensionTimeout:            {Error, true, "RETRY_LATER", "The time of the capability was over before there was a result; nothing outside was changed by it."},
	ExtensionNetworkRetryable:   {Error, true, "RETRY_LATER", "The service could not be reached; nothing outside was changed by it."},
	ExtensionResponseInvalid:    {Error, false, "TRY_ALTERNATIVE", "The service answered what is no result; params hold the status or the rule."},
	ExtensionOutcomeUnknown:     {Error, false, "VERIFY_OUTSIDE", "The call may have had its effect, and nobody knows. It is not repeated."},
	SlashCommandAmbiguous:       {Error, false, "CHOOSE_PLUGIN", "Several plugins have the command; params.candidates lists them."},
	SlashCommandUnavailable:     {Error, false, "READ_CATALOG", "The chosen command is no longer there for this actor; no other is taken in its place."},
	PluginStorageConflict:       {Error, false, "REQUEST_AGAIN", "Storage that the work read has changed since; the current values are kept."},
	PluginOutcomeChanged:        {Error, false, "CONTACT_DEVELOPER", "The same job gave other actions than before; none is applied."},
}

// RaiseBudget is the suggestedAction of LimitExceeded, in place of the registry's,
// where the limit is the caller's own budget and a larger one is the cure (B3).
const RaiseBudget = "RAISE_BUDGET"

// ChangePythonPin is the suggestedAction of SandboxUnavailable, which then is not
// retryable, where the Project pins a Python that is not there.
const ChangePythonPin = "CHANGE_PYTHON_PIN"

// PythonPinned is the diagnostic of that.
func PythonPinned(path string, params Params) Diagnostic {
	d := New(SandboxUnavailable, path, params)
	d.Retryable, d.SuggestedAction = false, ChangePythonPin
	return d
}

// Codes returns every registered code in order.
func Codes() []Code { return slices.Sorted(maps.Keys(registry)) }

// Lookup returns what the registry says of a code.
func Lookup(code Code) (Fact, bool) {
	fact, ok := registry[code]
	return fact, ok
}
