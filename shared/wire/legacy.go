package wire

import (
	"github.com/go-json-experiment/json"

	"github.com/pxhost/pxhost/shared/outcome"
)

// legacyTools are the fifteen tool names of the original's table. A call of one
// is a business answer with a stable diagnostic, so that a model cannot take
// silence for success; nothing resolves or translates it (L1).
var legacyTools = map[string]bool{
	"project.search": true,
	"adapter.search": true, "adapter.describe": true,
	"pxflow.search": true, "pxflow.describe": true, "pxflow.validate": true, "pxflow.change": true, "pxflow.run": true,
	"report.search": true, "report.describe": true, "report.change": true, "report.render": true,
	"run.get": true, "run.cancel": true,
	"result.read": true,
}

// legacyEnvelope returns the answer to a call of a legacy tool.
func legacyEnvelope(name, diagnosticID string) ([]byte, error) {
	diagnostic := outcome.New(outcome.SchemaUnsupportedVersion, "/name", outcome.Params{"kind": "tool", "entry": name})
	diagnostic.DiagnosticID = diagnosticID
	return json.Marshal(outcome.Failure(diagnostic), json.Deterministic(true))
}
