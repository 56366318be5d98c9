package acceptance

import (
	"strings"
	"testing"
)

// newReport saves a Report with places that no port of the world's Flow fits, and
// connects it to that Flow's head.
func (w *world) newReport(t *testing.T, engineer caller) reportHead {
	t.Helper()
	document := reviewOf("bridge_review")
	fields, slots := at(document, "blocks", "basis", "fields"), at(document, "blocks", "summary", "slots")
	fields["mass"] = with(scalar("kg"), m{"value": number(1, "kg")})
	fields["word"] = m{"type": "string", "value": m{"value": "x"}}
	fields["three"] = with(scalar("m"), m{"shape": list{3}, "value": m{"value": list{1, 2, 3}, "unit": "m"}})
	fields["maybe"] = with(scalar("m"), m{"nullable": true, "value": m{"value": nil}})
	slots["energy"] = with(scalar("kN*m"), m{"quantityKind": "energy"})
	slots["count"] = m{"type": "integer"}
	slots["three"] = with(scalar("kN*m"), m{"shape": list{3}})
	slots["force"] = scalar("kN")
	slots["spare"] = scalar("kN*m")
	r := engineer.createReport(t, document)
	w.unready = r
	return engineer.changeReport(t, r, "connect-bridge_review", feed(w.flow, "span_in", "span", "basis", "span"), feed(w.flow, "load_in", "load", "basis", "load"),
		showIn("moment_out", "moment", "summary", "moment"))
}

// badReports are lines about Reports that are refused.
func (w *world) badReports(t *testing.T, add func(name, line string, told ...string) *bad) {
	const connection = "/connections/check"
	planning := func(commands ...any) string {
		return line(t, 1, "report_plan_change", m{"target": w.report.Target, "expectedGeneration": w.report.Generation, "commands": commands})
	}
	// Of another unit, type, shape, nullability: a field into an input, and a result
	// into a slot.
	for field, code := range map[string]string{"mass": "PX_UNIT_MISMATCH", "word": "PX_TYPE_MISMATCH", "three": "PX_SHAPE_MISMATCH", "maybe": "PX_NULLABILITY_MISMATCH"} {
		add("a field that does not fit its port: "+field, planning(feed(w.flow, "span_in", "span", "basis", field)), code+" "+connection+"/inputs/span_in")
	}
	for slot, code := range map[string]string{"force": "PX_UNIT_MISMATCH", "count": "PX_TYPE_MISMATCH", "three": "PX_SHAPE_MISMATCH"} {
		told := []string{code + " " + connection + "/results/moment_out"}
		add("a slot that does not fit its port: "+slot, planning(showIn("moment_out", "moment", "summary", slot)), append([]string{"PX_UNIT_CONVERTED " + connection + "/inputs/span_in"}, told...)...)
	}
	add("a mapping to another Flow revision", planning(feed(w.old, "load_in", "load", "basis", "load")), "PX_SCHEMA_INVALID /commands/0/flowTarget").params = m{"rule": "one_flow_revision"}
	two := []any{feed(w.flow, "a", "span", "basis", "span"), feed(w.old, "b", "load", "basis", "load")}
	for _, c := range two {
		c.(m)["connectionKey"] = "second"
	}
	add("two mappings of a new connection to two revisions", planning(two...), "PX_SCHEMA_INVALID /commands/1/flowTarget")
	add("a slot that two mappings show", planning(showIn("again", "moment", "summary", "moment")),
		"PX_UNIT_CONVERTED "+connection+"/inputs/span_in", "PX_SCHEMA_INVALID "+connection+"/results/moment_out/target")
	add("a port that two mappings feed", planning(feed(w.flow, "again", "span", "basis", "span")),
		"PX_UNIT_CONVERTED "+connection+"/inputs/again", "PX_UNIT_CONVERTED "+connection+"/inputs/span_in", "PX_SCHEMA_INVALID "+connection+"/inputs/span_in/portKey")
	add("a mappingKey for both directions", planning(showIn("span_in", "moment", "summary", "spare")), "PX_SCHEMA_INVALID /commands/0/mappingKey")
	add("a port that the Flow does not have", planning(feed(w.flow, "span_in", "gone", "basis", "span")),
		"PX_BINDING_MISSING "+connection+"/inputs", "PX_REFERENCE_UNKNOWN "+connection+"/inputs/span_in/portKey")
	add("a field that is not there", planning(feed(w.flow, "span_in", "span", "basis", "gone")), "PX_REFERENCE_UNKNOWN "+connection+"/inputs/span_in/source")
	add("a field that is removed while it is mapped", planning(m{"kind": "RemoveField", "blockKey": "basis", "fieldKey": "load"}),
		"PX_REFERENCE_UNKNOWN "+connection+"/inputs/load_in/source", "PX_UNIT_CONVERTED "+connection+"/inputs/span_in")
	nowhere := flowHead{Target: flowTarget{with(sample, m{"projectKey": "nowhere"}), w.flow.Target.FlowKey, w.flow.Target.RevisionRef}}
	gone := flowHead{Target: flowTarget{sample, w.flow.Target.FlowKey, "sha256:" + strings.Repeat("0", 64)}}
	for name, to := range map[string]flowHead{"of another Project": nowhere, "that nobody saved": gone} {
		add("a connection to a Flow revision "+name, planning(m{"kind": "SetConnectionFlow", "connectionKey": "check", "flowTarget": to.Target}), "PX_TARGET_NOT_FOUND "+connection+"/flowTarget")
	}
	add("a value of another unit", planning(m{"kind": "SetFieldValue", "blockKey": "basis", "fieldKey": "span", "value": number(1, "kg")}),
		"PX_UNIT_MISMATCH /blocks/basis/fields/span/value/unit", "PX_UNIT_CONVERTED "+connection+"/inputs/span_in")
	add("a field of a results block", planning(m{"kind": "AddField", "blockKey": "summary", "fieldKey": "f", "field": scalar("m")}), "PX_SCHEMA_INVALID /commands/0/blockKey")
	add("a stale Report revision", line(t, 1, "report_plan_change", m{"target": w.report.Target, "expectedGeneration": 0, "commands": list{m{"kind": "SetReportLabel", "label": m{"en": "x"}}}}),
		"PX_GENERATION_STALE /expectedGeneration").params = m{"current": 1.0, "currentRevisionRef": w.report.Target.RevisionRef}
	running := func(r reportHead, more m) string {
		return line(t, 1, "pxflow_run", with(connectionRequest(r, "bad"), with(m{"connectionKey": "check"}, more)))
	}
	add("a connection of a stale Report revision that runs", running(w.unready, nil), "PX_GENERATION_STALE /target/revisionRef").params = m{"currentRevisionRef": w.report.Target.RevisionRef}
	add("a connection that is none and runs", running(w.report, m{"connectionKey": "other"}), "PX_REFERENCE_UNKNOWN /connectionKey")
	add("a Batch of a stale Report revision", line(t, 1, "report_plan_change", m{"target": w.unready.Target, "expectedGeneration": w.unready.Generation,
		"commands": list{batchOf("check", m{"kind": "none"}, m{"caseKey": "a", "inputs": m{}})}}), "PX_GENERATION_STALE /expectedGeneration", "PX_GENERATION_STALE /target/revisionRef")
	add("a Report that is not there", line(t, 1, "report_describe", m{"target": reportTarget{sample, "nothing", "sha256:x"}}), "PX_TARGET_NOT_FOUND /target/reportKey")

	// What a reviewer reads is what is there: in every label and text of both kinds of
	// documents, by command and by first save.
	const turned = "safe\u202eelbisrever"
	add("a label that is read the other way", planning(m{"kind": "SetReportLabel", "label": m{"en": turned}}), "PX_SCHEMA_INVALID /commands/0/label/en").params =
		m{"rule": "characters", "refused": "bidirectional", "offset": 4.0}
	add("a label with a line of its own", planning(m{"kind": "SetReportLabel", "label": m{"en": "a\nApproved: yes"}}), "PX_SCHEMA_INVALID /commands/0/label/en").params = m{"refused": "control"}
	add("a label in one language twice", planning(m{"kind": "SetReportLabel", "label": m{"en": "a", "EN": "b"}}), "PX_SCHEMA_INVALID /commands/0/label/en").params = m{"rule": "duplicate"}
	add("a language with a control character", planning(m{"kind": "SetReportLabel", "label": m{"e\u200en": "a"}}), "PX_SCHEMA_INVALID /commands/0/label/e\u200en").params = m{"rule": "pattern"}
	add("a text that is read the other way", planning(m{"kind": "SetText", "blockKey": "method", "text": "a\n" + turned}), "PX_SCHEMA_INVALID /commands/0/text")
	add("a block whose label is read the other way", planning(m{"kind": "AddBlock", "blockKey": "b", "block": m{"kind": "text", "label": m{"ko": turned}, "text": "a\r\nb"}}),
		"PX_SCHEMA_INVALID /commands/0/block/label/ko", "PX_SCHEMA_INVALID /commands/0/block/text")
	add("a field whose label is read the other way", planning(m{"kind": "AddField", "blockKey": "basis", "fieldKey": "f", "field": with(scalar("m"), m{"label": m{"en": turned}})}),
		"PX_SCHEMA_INVALID /commands/0/field/label/en")
	document := reviewOf("turned_review")
	document["label"] = m{"en": turned}
	at(document, "blocks", "summary", "slots", "moment")["label"] = m{"en": "a\tb"}
	add("a first save that is read the other way", line(t, 1, "report_plan_change", m{"target": reportTarget{sample, "turned_review", digest(t, document)}, "expectedGeneration": 0,
		"commands": list{m{"kind": "CreateReport", "document": document}}}),
		"PX_SCHEMA_INVALID /commands/0/document/blocks/summary/slots/moment/label/en", "PX_SCHEMA_INVALID /commands/0/document/label/en")
	add("a Flow's label that is read the other way", w.planning(t, encode(t, list{m{"kind": "SetFlowLabel", "label": m{"en": turned}}})), "PX_SCHEMA_INVALID /commands/0/label/en")
	add("a Flow's label in one language twice", w.planning(t, encode(t, list{m{"kind": "SetFlowLabel", "label": m{"ko": "a", "KO": "b"}}})), "PX_SCHEMA_INVALID /commands/0/label/ko")
	turnedFlow := beam("turned")
	at(turnedFlow, "nodes", "moment")["label"] = m{"en": turned}
	add("a Flow whose Node is read the other way", w.creating(t, `"turned"`, encode(t, turnedFlow)), "PX_SCHEMA_INVALID /commands/0/document/nodes/moment/label/en")
}
