package report

import (
	"maps"
	"slices"
	"strconv"

	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/semantic"
)

// Written are the semantic paths at which, or above which, commands write; "*" stands
// for a key. What a rule of a policy is to fit names one of them, or a path above or
// below one.
var Written = []string{"/label", "/blockOrder", "/blocks/*/fields/*/value", "/blocks/*/slots/*", "/blocks/*/text",
	"/connections/*/flowTarget", "/connections/*/inputs/*", "/connections/*/results/*"}

// Apply carries out the commands in order. base is nil when the Report does not
// exist yet, and then the one command is CreateReport.
//
// touched are the semantic paths that the commands write, in order and without
// a path below another: a block that is added or removed stands for all in it
// and for its place, and a connection that comes or goes for its mappings. The
// order of the blocks that stay is one fact, /blockOrder, so that plans which add
// or remove different blocks touch nothing in common. A path that is set to what
// it was before is touched all the same, since the plan says what it shall be.
//
// A command whose precondition does not hold is a finding with its index in the
// path (/commands/2/blockKey). It is left out and the ones after it are tried, so
// that the findings are all there are; the document is then of no use. Findings
// about the whole document are Validate's.
func Apply(base *Document, commands []Command) (next Document, touched []string, findings outcome.Findings) {
	e := &editor{touched: map[string]bool{}, owned: map[string]bool{}}
	creates := len(commands) > 0 && isCreate(commands[0])
	switch {
	case len(commands) == 0:
		e.findings.Add(outcome.SchemaInvalid, "/commands", outcome.Params{"rule": "min_items", "limit": 1})
	case base == nil && !creates:
		e.findings.Add(outcome.TargetNotFound, "/target/reportKey", nil)
		return Document{}, nil, e.findings
	case base != nil && creates:
		e.findings.Add(outcome.ReportHeadAlreadyExists, "/target/reportKey", outcome.Params{"reportKey": base.ReportKey})
		return *base, nil, e.findings
	case creates && len(commands) > 1:
		e.findings.Add(outcome.SchemaInvalid, "/commands/1", outcome.Params{"rule": "single_command"})
		commands = commands[:1]
	}
	if base != nil {
		e.doc = *base
		e.doc.BlockOrder = slices.Clone(base.BlockOrder)
		e.doc.Blocks, e.doc.Connections = orEmpty(maps.Clone(base.Blocks)), orEmpty(maps.Clone(base.Connections))
	}
	for i, command := range commands {
		e.index = i
		command.normalized().apply(e)
	}
	if base != nil && reordered(*base, e.doc) {
		e.touch("blockOrder") // by a block that went and came again elsewhere, too
	}
	return e.doc, semantic.Outermost(e.touched), e.findings
}

func isCreate(c Command) bool {
	_, ok := c.(CreateReport)
	return ok
}

// reordered reports whether the blocks that two documents share stand in another
// order.
func reordered(a, b Document) bool {
	shared := func(order []string, with Document) []string {
		return slices.DeleteFunc(slices.Clone(order), func(key string) bool { return with.Blocks[key] == nil })
	}
	return !slices.Equal(shared(shared(a.BlockOrder, a), b), shared(shared(b.BlockOrder, b), a))
}

// editor is a document in the middle of a list of commands. Its maps at the first
// level are its own; those inside blocks and connections are copied before the
// first command that changes them.
type editor struct {
	doc      Document
	index    int             // of the current command
	owned    map[string]bool // paths of blocks and connections whose maps were copied
	touched  map[string]bool
	findings outcome.Findings
}

// refuse adds a finding about a member of the current command.
func (e *editor) refuse(code outcome.Code, member string, params outcome.Params) {
	e.findings.Add(code, "/commands/"+strconv.Itoa(e.index)+"/"+member, params)
}

// unknown refuses a key that names nothing.
func (e *editor) unknown(member, key string) {
	e.refuse(outcome.ReferenceUnknown, member, outcome.Params{member: key})
}

// taken refuses a key that is to be added and is there already.
func (e *editor) taken(member, key string) {
	e.refuse(outcome.SchemaInvalid, member, outcome.Params{"rule": "exists_already", member: key})
}

func (e *editor) touch(names ...string) { e.touched[semantic.Pointer(names...)] = true }

// own reports whether the maps of a block or connection are still to be copied,
// and notes that they are.
func (e *editor) own(list, key string) bool {
	path := semantic.Pointer(list, key)
	if e.owned[path] {
		return false
	}
	e.owned[path] = true
	return true
}

func (e *editor) disown(list, key string) { delete(e.owned, semantic.Pointer(list, key)) }

func (c CreateReport) apply(e *editor) {
	if e.index > 0 {
		e.refuse(outcome.SchemaInvalid, "kind", outcome.Params{"rule": "single_command"})
		return
	}
	e.doc = c.Document
	e.touch()
}

func (c SetReportLabel) apply(e *editor) {
	e.doc.Label = c.Label
	e.touch("label")
}

// blockOf returns a block of one kind, or refuses the command.
func blockOf[B Block](e *editor, key string) (B, bool) {
	var want B
	switch block := e.doc.Blocks[key].(type) {
	case nil:
		e.unknown("blockKey", key)
	case B:
		return block, true
	default:
		e.refuse(outcome.SchemaInvalid, "blockKey", outcome.Params{"rule": "block_kind", "blockKey": key, "expected": want.Variant(), "found": block.Variant()})
	}
	return want, false
}

// after returns the index behind a block, or refuses the command. No block is
// otherwise.
func (e *editor) after(key string, otherwise int) (int, bool) {
	if key == "" {
		return otherwise, true
	}
	i := slices.Index(e.doc.BlockOrder, key)
	if i < 0 || e.doc.Blocks[key] == nil {
		e.unknown("afterBlockKey", key)
		return 0, false
	}
	return i + 1, true
}

func (c AddBlock) apply(e *editor) {
	at, ok := e.after(c.AfterBlockKey, len(e.doc.BlockOrder))
	if e.doc.Blocks[c.BlockKey] != nil {
		e.taken("blockKey", c.BlockKey)
		ok = false
	}
	if !ok {
		return
	}
	e.doc.Blocks[c.BlockKey] = c.Block
	e.doc.BlockOrder = slices.Insert(e.doc.BlockOrder, at, c.BlockKey)
	e.disown("blocks", c.BlockKey)
	e.touch("blocks", c.BlockKey)
}

func (c RemoveBlock) apply(e *editor) {
	if e.doc.Blocks[c.BlockKey] == nil {
		e.unknown("blockKey", c.BlockKey)
		return
	}
	delete(e.doc.Blocks, c.BlockKey)
	e.doc.BlockOrder = slices.DeleteFunc(e.doc.BlockOrder, func(key string) bool { return key == c.BlockKey })
	e.touch("blocks", c.BlockKey)
}

func (c MoveBlock) apply(e *editor) {
	ok := true
	if e.doc.Blocks[c.BlockKey] == nil {
		e.unknown("blockKey", c.BlockKey)
		ok = false
	}
	if _, found := e.after(c.AfterBlockKey, 0); !found {
		ok = false
	} else if c.AfterBlockKey == c.BlockKey && ok {
		e.refuse(outcome.SchemaInvalid, "afterBlockKey", outcome.Params{"rule": "after_itself"})
		ok = false
	}
	if !ok {
		return
	}
	e.doc.BlockOrder = slices.DeleteFunc(e.doc.BlockOrder, func(key string) bool { return key == c.BlockKey })
	at, _ := e.after(c.AfterBlockKey, 0)
	e.doc.BlockOrder = slices.Insert(e.doc.BlockOrder, at, c.BlockKey)
	e.touch("blockOrder")
}

// fields returns a values block whose fields may be changed.
func (e *editor) fields(key string) (ValuesBlock, bool) {
	block, ok := blockOf[ValuesBlock](e, key)
	if ok && e.own("blocks", key) {
		block.Fields = orEmpty(maps.Clone(block.Fields))
		e.doc.Blocks[key] = block
	}
	return block, ok
}

// slots returns a results block whose slots may be changed.
func (e *editor) slots(key string) (ResultsBlock, bool) {
	block, ok := blockOf[ResultsBlock](e, key)
	if ok && e.own("blocks", key) {
		block.Slots = orEmpty(maps.Clone(block.Slots))
		e.doc.Blocks[key] = block
	}
	return block, ok
}

func (c AddField) apply(e *editor) {
	block, ok := e.fields(c.BlockKey)
	if !ok {
		return
	}
	if _, ok := block.Fields[c.FieldKey]; ok {
		e.taken("fieldKey", c.FieldKey)
		return
	}
	block.Fields[c.FieldKey] = c.Field
	e.touch("blocks", c.BlockKey, "fields", c.FieldKey)
}

func (c RemoveField) apply(e *editor) {
	block, ok := e.fields(c.BlockKey)
	if !ok {
		return
	}
	if _, ok := block.Fields[c.FieldKey]; !ok {
		e.unknown("fieldKey", c.FieldKey)
		return
	}
	delete(block.Fields, c.FieldKey)
	e.touch("blocks", c.BlockKey, "fields", c.FieldKey)
}

func (c SetFieldValue) apply(e *editor) {
	block, ok := e.fields(c.BlockKey)
	if !ok {
		return
	}
	field, ok := block.Fields[c.FieldKey]
	if !ok {
		e.unknown("fieldKey", c.FieldKey)
		return
	}
	field.Value = c.Value
	if c.Value.Kind() == 'n' {
		field.Value = nil
	}
	block.Fields[c.FieldKey] = field
	e.touch("blocks", c.BlockKey, "fields", c.FieldKey, "value")
}

func (c AddSlot) apply(e *editor) {
	block, ok := e.slots(c.BlockKey)
	if !ok {
		return
	}
	if _, ok := block.Slots[c.SlotKey]; ok {
		e.taken("slotKey", c.SlotKey)
		return
	}
	block.Slots[c.SlotKey] = c.Slot
	e.touch("blocks", c.BlockKey, "slots", c.SlotKey)
}

func (c RemoveSlot) apply(e *editor) {
	block, ok := e.slots(c.BlockKey)
	if !ok {
		return
	}
	if _, ok := block.Slots[c.SlotKey]; !ok {
		e.unknown("slotKey", c.SlotKey)
		return
	}
	delete(block.Slots, c.SlotKey)
	e.touch("blocks", c.BlockKey, "slots", c.SlotKey)
}

func (c SetText) apply(e *editor) {
	block, ok := blockOf[TextBlock](e, c.BlockKey)
	if !ok {
		return
	}
	block.Text = c.Text
	e.doc.Blocks[c.BlockKey] = block
	e.touch("blocks", c.BlockKey, "text")
}

// connection returns a connection whose mappings may be changed.
func (e *editor) connection(key string) (Connection, bool) {
	connection, ok := e.doc.Connections[key]
	if ok && e.own("connections", key) {
		connection.Inputs, connection.Results = orEmpty(maps.Clone(connection.Inputs)), orEmpty(maps.Clone(connection.Results))
		e.doc.Connections[key] = connection
	}
	return connection, ok
}

func (c SetConnectionFlow) apply(e *editor) {
	connection, ok := e.connection(c.ConnectionKey)
	if ok {
		e.touch("connections", c.ConnectionKey, "flowTarget")
	} else {
		connection = Connection{Inputs: map[string]InputMapping{}, Results: map[string]ResultMapping{}}
		e.own("connections", c.ConnectionKey)
		e.touch("connections", c.ConnectionKey)
	}
	connection.FlowTarget = c.FlowTarget
	e.doc.Connections[c.ConnectionKey] = connection
}

func (c SetReportFlowInputSource) apply(e *editor) {
	connection, ok := e.connection(c.ConnectionKey)
	switch {
	case !ok:
		connection = Connection{FlowTarget: c.FlowTarget, Inputs: map[string]InputMapping{}, Results: map[string]ResultMapping{}}
		e.doc.Connections[c.ConnectionKey] = connection
		e.own("connections", c.ConnectionKey)
		e.touch("connections", c.ConnectionKey)
	case connection.FlowTarget != c.FlowTarget:
		e.refuse(outcome.SchemaInvalid, "flowTarget", outcome.Params{"rule": "one_flow_revision", "connectionKey": c.ConnectionKey, "connection": connection.FlowTarget, "mapping": c.FlowTarget})
		return
	}
	if _, ok := connection.Results[c.MappingKey]; ok {
		e.taken("mappingKey", c.MappingKey)
		return
	}
	connection.Inputs[c.MappingKey] = InputMapping{PortKey: c.PortKey, Source: c.Source}
	e.touch("connections", c.ConnectionKey, "inputs", c.MappingKey)
}

func (c SetReportFlowResultTarget) apply(e *editor) {
	connection, ok := e.connection(c.ConnectionKey)
	if !ok {
		e.unknown("connectionKey", c.ConnectionKey)
		return
	}
	if _, ok := connection.Inputs[c.MappingKey]; ok {
		e.taken("mappingKey", c.MappingKey)
		return
	}
	connection.Results[c.MappingKey] = ResultMapping{PortKey: c.PortKey, Target: c.Target}
	e.touch("connections", c.ConnectionKey, "results", c.MappingKey)
}

func (c RemoveReportFlowMapping) apply(e *editor) {
	connection, ok := e.connection(c.ConnectionKey)
	if !ok {
		e.unknown("connectionKey", c.ConnectionKey)
		return
	}
	_, isInput := connection.Inputs[c.MappingKey]
	_, isResult := connection.Results[c.MappingKey]
	if !isInput && !isResult {
		e.unknown("mappingKey", c.MappingKey)
		return
	}
	if isInput {
		delete(connection.Inputs, c.MappingKey)
		e.touch("connections", c.ConnectionKey, "inputs", c.MappingKey)
	}
	if isResult { // both, in a document that Validate refuses
		delete(connection.Results, c.MappingKey)
		e.touch("connections", c.ConnectionKey, "results", c.MappingKey)
	}
	if len(connection.Inputs)+len(connection.Results) == 0 {
		delete(e.doc.Connections, c.ConnectionKey)
		e.disown("connections", c.ConnectionKey)
		e.touch("connections", c.ConnectionKey)
	}
}
