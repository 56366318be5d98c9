package capability

import (
	"github.com/go-json-experiment/json"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/schema"
)

// An AdapterName names one of the five adapters.
type AdapterName string

// The adapters.
const (
	TextTemplate  AdapterName = "text_template"
	CalendarStore AdapterName = "calendar_store"
	HTTPJSON      AdapterName = "http_json"
	MCPHTTP       AdapterName = "mcp_http"
	SandboxPython AdapterName = "sandbox_python"
)

// Adapters are all of them.
var Adapters = []AdapterName{TextTemplate, CalendarStore, HTTPJSON, MCPHTTP, SandboxPython}

// A Placement is what every runtime may have beside its adapter.
type Placement struct {
	Role       string      `json:"role,omitzero" schema:"enum=search"` // of a provider
	Background *Background `json:"background,omitzero"`
}

// MaxBackground is how many capabilities of a package may be started by the Host. The
// limit itself is allowed.
const MaxBackground = 40

// A Background runtime is started by the Host, not by a person.
type Background struct {
	IntervalMinutes int       `json:"interval_minutes" schema:"minimum=15,maximum=10080"`
	Arguments       canon.Raw `json:"arguments,omitzero"` // an object; {} if absent
}

// The runtimes, by adapter.
type (
	// A TextTemplateRuntime writes a text (A1).
	TextTemplateRuntime struct {
		Placement
		Adapter  AdapterName `json:"adapter" schema:"enum=text_template"`
		Template string      `json:"template" schema:"minLength=1,maxLength=65536"`
	}

	// A CalendarStoreRuntime keeps dated items and reminds of them (A2).
	CalendarStoreRuntime struct {
		Placement
		Adapter   AdapterName `json:"adapter" schema:"enum=calendar_store"`
		Operation string      `json:"operation" schema:"enum=save|list|get|delete|reminder|cancel_reminder"`
		Namespace string      `json:"namespace" schema:"pattern=dotted,maxLength=200"`
	}

	// An HTTPJSONRuntime calls one operation of a JSON API (A3 to A6). Its place is
	// Endpoint, or the connector's; where it names both, they have one origin.
	HTTPJSONRuntime struct {
		Placement
		Adapter       AdapterName          `json:"adapter" schema:"enum=http_json"`
		ConnectorID   string               `json:"connector_id,omitzero" schema:"pattern=key"`
		Endpoint      string               `json:"endpoint,omitzero" schema:"minLength=1,maxLength=4000"`
		Method        string               `json:"method" schema:"enum=GET|POST"`
		RequestParams map[string]canon.Raw `json:"request_params,omitzero" schema:"keys=any,maxItems=32"` // nil is not {}
		RequestBody   canon.Raw            `json:"request_body,omitzero"`
		Response      *Response            `json:"response,omitzero"`
	}

	// An MCPHTTPRuntime calls one tool of an MCP server outside (A7).
	MCPHTTPRuntime struct {
		Placement
		Adapter          AdapterName `json:"adapter" schema:"enum=mcp_http"`
		ConnectorID      string      `json:"connector_id" schema:"pattern=key"`
		ToolName         string      `json:"tool_name" schema:"minLength=1,maxLength=200"`
		ProtocolVersion  string      `json:"protocol_version" schema:"enum=2025-03-26|2025-06-18|2025-11-25"`
		ArgumentTemplate canon.Raw   `json:"argument_template,omitzero"`
	}

	// A SandboxPythonRuntime runs a file of the package behind gVisor (A8). The file has a
	// function main that is called with one object and returns the result:
	//
	//	def main(input):
	//	    words = input["arguments"]["text"].split()
	//	    kept = input["storage"]["study.notes"]       # declared by reads, as the Host read it
	//	    return {
	//	        "summary": f"{len(words)} words",        # what people are told
	//	        "data": {"words": words},                # held to output_schema
	//	        "evidence": [{"notes": len(kept)}],
	//	        "actions": [                             # may be left out
	//	            {"kind": "storage.put", "namespace": "study.notes", "key": "last", "value": words},
	//	        ],
	//	    }
	//
	// input has "arguments", which passed input_schema, "settings" of the instance, and
	// "storage": {namespace: {key: {"value": …, "version": …}}}. What main returns is JSON as
	// the json module writes it, with no other members; of evidence and data nothing may be
	// left out. What is printed goes nowhere.
	//
	// src is where Python imports from: src/text/words.py is text.words. The standard
	// library is there, without what needs a network, a terminal or a database; random
	// numbers follow from the execution, so that they are the same where it is run again,
	// and the clock is not. /tmp can be written, and is gone afterwards.
	SandboxPythonRuntime struct {
		Placement
		Adapter    AdapterName `json:"adapter" schema:"enum=sandbox_python"`
		Entrypoint string      `json:"entrypoint" pattern:"^src/[A-Za-z0-9_]+(/[A-Za-z0-9_]+)*\\.py$"`
		Reads      []Read      `json:"reads,omitzero" schema:"maxItems=16"`
	}
)

// A Runtime is one of the runtimes. A provider may have no adapter: then all are nil,
// and nothing can be called.
type Runtime struct {
	Placement
	Adapter       AdapterName
	TextTemplate  *TextTemplateRuntime
	CalendarStore *CalendarStoreRuntime
	HTTPJSON      *HTTPJSONRuntime
	MCPHTTP       *MCPHTTPRuntime
	SandboxPython *SandboxPythonRuntime
}

// ReadRuntime reads the runtime of a capability that stands at a JSON Pointer.
func ReadRuntime(text canon.Raw, at string) (Runtime, outcome.Findings) {
	var which struct {
		Adapter *AdapterName `json:"adapter"`
	}
	if json.Unmarshal(text, &which) != nil {
		params := outcome.Params{"rule": "type", "expected": "object"}
		if text.Kind() == '{' {
			return Runtime{}, outcome.Findings{outcome.New(outcome.SchemaInvalid, at+"/adapter", outcome.Params{"rule": "type", "expected": "string"})}
		}
		return Runtime{}, outcome.Findings{outcome.New(outcome.SchemaInvalid, at, params)}
	}
	var r Runtime
	if which.Adapter == nil {
		return r, schema.DecodeAt(text, at, &r.Placement)
	}
	var findings outcome.Findings
	switch r.Adapter = *which.Adapter; r.Adapter {
	case TextTemplate:
		r.TextTemplate, findings = readRuntime[TextTemplateRuntime](text, at)
		r.Placement = r.TextTemplate.Placement
	case CalendarStore:
		r.CalendarStore, findings = readRuntime[CalendarStoreRuntime](text, at)
		r.Placement = r.CalendarStore.Placement
	case HTTPJSON:
		r.HTTPJSON, findings = readRuntime[HTTPJSONRuntime](text, at)
		r.Placement = r.HTTPJSON.Placement
	case MCPHTTP:
		r.MCPHTTP, findings = readRuntime[MCPHTTPRuntime](text, at)
		r.Placement = r.MCPHTTP.Placement
	case SandboxPython:
		r.SandboxPython, findings = readRuntime[SandboxPythonRuntime](text, at)
		r.Placement = r.SandboxPython.Placement
	default:
		r.Adapter = ""
		findings.Add(outcome.SchemaInvalid, at+"/adapter", outcome.Params{"rule": "enum", "allowed": Adapters})
	}
	return r, findings
}

func readRuntime[T any](text canon.Raw, at string) (*T, outcome.Findings) {
	r := new(T)
	return r, schema.DecodeAt(text, at, r)
}

// A Read is what of the storage a sandbox job is handed: all of a namespace, or some
// keys of it.
type Read struct {
	Namespace string   `json:"namespace" schema:"pattern=dotted,maxLength=200"`
	Keys      []string `json:"keys,omitzero" schema:"minItems=1,maxItems=100,each.minLength=1,each.maxLength=200"`
}

// A Response says what of an answer is the result (A6): of a single one by SummaryPath
// or SummaryPrefix and DataPath, of a list by CollectionPath and what follows it. The
// two do not mix. Paths are names and indices joined by dots.
type Response struct {
	SummaryPath   string `json:"summary_path,omitzero" schema:"minLength=1,maxLength=500"`
	SummaryPrefix string `json:"summary_prefix,omitzero" schema:"minLength=1,maxLength=500"`
	DataPath      string `json:"data_path,omitzero" schema:"minLength=1,maxLength=500"`

	CollectionPath string   `json:"collection_path,omitzero" schema:"minLength=1,maxLength=500"`
	IDPath         string   `json:"id_path,omitzero" schema:"minLength=1,maxLength=500"`
	TitlePaths     []string `json:"title_paths,omitzero" schema:"minItems=1,maxItems=8,each.minLength=1,each.maxLength=500"`
	URLPath        string   `json:"url_path,omitzero" schema:"minLength=1,maxLength=500"`
	ContentPaths   []string `json:"content_paths,omitzero" schema:"minItems=1,maxItems=16,each.minLength=1,each.maxLength=500"`
	MaxItems       int      `json:"max_items,omitzero" schema:"minimum=1,maximum=200"`
}
