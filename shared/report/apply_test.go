package report

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/pxhost/pxhost/shared/policy/policytest"
	"github.com/pxhost/pxhost/shared/schema"
	"github.com/pxhost/pxhost/shared/semantic"
)

// request is what a plan tool decodes.
type request struct {
	Commands []Command `json:"commands"`
}

// commands decodes the text of a command list as a plan tool does.
func commands(t testing.TB, text string) []Command {
	t.Helper()
	var r request
	if findings := schema.Decode([]byte(`{"commands":[`+text+`]}`), &r); len(findings) > 0 {
		t.Fatalf("%s\n%s", show(findings), text)
	}
	return r.Commands
}

func showDiff(t testing.TB, before *Document, after Document) string {
	t.Helper()
	changes, err := Diff(before, after)
	if err != nil {
		t.Fatal(err)
	}
	lines := make([]string, len(changes))
	for i, c := range changes {
		lines[i] = c.Op + " " + c.Path
		if (c.Before == nil) != (c.Op == semantic.OpAdd) || (c.After == nil) != (c.Op == semantic.OpRemove) {
			t.Errorf("%s: before %s, after %s", lines[i], c.Before, c.After)
		}
	}
	return strings.Join(lines, "\n")
}

func setInput(connection, mapping, flow, port, place string) string {
	_, rest, _ := strings.Cut(in("", place, port), ":")
	return `{"kind":"SetReportFlowInputSource","connectionKey":"` + connection + `","mappingKey":"` + mapping + `","flowTarget":` + flow + `,` + rest[1:]
}

func setResult(connection, mapping, port, place string) string {
	_, rest, _ := strings.Cut(out("", port, place), ":")
	return `{"kind":"SetReportFlowResultTarget","connectionKey":"` + connection + `","mappingKey":"` + mapping + `",` + rest[1:]
}

func unmap(connection, mapping string) string {
	return `{"kind":"RemoveReportFlowMapping","connectionKey":"` + connection + `","mappingKey":"` + mapping + `"}`
}

// covers: R1, E2
func TestEachCommand(t *testing.T) {
	const field, slot = `"field":{"type":"boolean","value":{"value":true}}`, `"slot":{"type":"boolean"}`
	var wrote []string
	for name, c := range map[string]struct {
		commands string
		touched  string // one path a line
		diff     string // "op path" a line
		findings string // "CODE path" a line; then touched and diff are not looked at
	}{
		"a label is set":                       {`{"kind":"SetReportLabel","label":{"en":"Review","ko":"검토"}}`, "/label", "add /label", ""},
		"a label in no language takes it away": {`{"kind":"SetReportLabel","label":{}}`, "/label", "", ""},

		"a block is added":                       {`{"kind":"AddBlock","blockKey":"n","block":{"kind":"text","text":"x"}}`, "/blocks/n", "add /blocks/n", ""},
		"a block is added after another":         {`{"kind":"AddBlock","blockKey":"n","block":{"kind":"values","fields":{}},"afterBlockKey":"basis"}`, "/blocks/n", "add /blocks/n", ""},
		"a block is added after none":            {`{"kind":"AddBlock","blockKey":"n","block":{"kind":"text","text":""},"afterBlockKey":"gone"}`, "", "", "PX_REFERENCE_UNKNOWN /commands/0/afterBlockKey"},
		"a block is added that is there":         {`{"kind":"AddBlock","blockKey":"basis","block":{"kind":"text","text":""}}`, "", "", "PX_SCHEMA_INVALID /commands/0/blockKey"},
		"a block is added wrongly in two ways":   {`{"kind":"AddBlock","blockKey":"basis","block":{"kind":"text","text":""},"afterBlockKey":"gone"}`, "", "", "PX_REFERENCE_UNKNOWN /commands/0/afterBlockKey\nPX_SCHEMA_INVALID /commands/0/blockKey"},
		"a block is removed":                     {`{"kind":"RemoveBlock","blockKey":"method"}`, "/blocks/method", "remove /blocks/method", ""},
		"a block is removed twice":               {`{"kind":"RemoveBlock","blockKey":"method"},{"kind":"RemoveBlock","blockKey":"method"}`, "", "", "PX_REFERENCE_UNKNOWN /commands/1/blockKey"},
		"a block comes again elsewhere":          {`{"kind":"RemoveBlock","blockKey":"method"},{"kind":"AddBlock","blockKey":"method","block":{"kind":"text","text":"As usual."}}`, "/blockOrder\n/blocks/method", "replace /blockOrder", ""},
		"a block comes again as another kind":    {`{"kind":"RemoveBlock","blockKey":"method"},{"kind":"AddBlock","blockKey":"method","block":{"kind":"values","fields":{}},"afterBlockKey":"basis"}`, "/blocks/method", "replace /blocks/method", ""},
		"a block is moved to the first place":    {`{"kind":"MoveBlock","blockKey":"summary"}`, "/blockOrder", "replace /blockOrder", ""},
		"a block is moved after another":         {`{"kind":"MoveBlock","blockKey":"basis","afterBlockKey":"summary"}`, "/blockOrder", "replace /blockOrder", ""},
		"a block is moved to where it is":        {`{"kind":"MoveBlock","blockKey":"method","afterBlockKey":"basis"}`, "/blockOrder", "", ""},
		"a block is moved after itself":          {`{"kind":"MoveBlock","blockKey":"method","afterBlockKey":"method"}`, "", "", "PX_SCHEMA_INVALID /commands/0/afterBlockKey"},
		"a block is moved that is not there":     {`{"kind":"MoveBlock","blockKey":"gone","afterBlockKey":"lost"}`, "", "", "PX_REFERENCE_UNKNOWN /commands/0/blockKey\nPX_REFERENCE_UNKNOWN /commands/0/afterBlockKey"},
		"a new block is moved":                   {`{"kind":"AddBlock","blockKey":"n","block":{"kind":"text","text":""}},{"kind":"MoveBlock","blockKey":"n"}`, "/blockOrder\n/blocks/n", "add /blocks/n", ""},
		"a field is added":                       {`{"kind":"AddField","blockKey":"basis","fieldKey":"n",` + field + `}`, "/blocks/basis/fields/n", "add /blocks/basis/fields/n", ""},
		"a field is added that is there":         {`{"kind":"AddField","blockKey":"basis","fieldKey":"span",` + field + `}`, "", "", "PX_SCHEMA_INVALID /commands/0/fieldKey"},
		"a field is added to no block":           {`{"kind":"AddField","blockKey":"gone","fieldKey":"n",` + field + `}`, "", "", "PX_REFERENCE_UNKNOWN /commands/0/blockKey"},
		"a field is added to a text":             {`{"kind":"AddField","blockKey":"method","fieldKey":"n",` + field + `}`, "", "", "PX_SCHEMA_INVALID /commands/0/blockKey"},
		"a field is removed":                     {`{"kind":"RemoveField","blockKey":"basis","fieldKey":"open"}`, "/blocks/basis/fields/open", "remove /blocks/basis/fields/open", ""},
		"a field is removed that is not there":   {`{"kind":"RemoveField","blockKey":"basis","fieldKey":"gone"}`, "", "", "PX_REFERENCE_UNKNOWN /commands/0/fieldKey"},
		"a field is removed from results":        {`{"kind":"RemoveField","blockKey":"summary","fieldKey":"moment"}`, "", "", "PX_SCHEMA_INVALID /commands/0/blockKey"},
		"a field comes again with another value": {`{"kind":"RemoveField","blockKey":"basis","fieldKey":"open"},{"kind":"AddField","blockKey":"basis","fieldKey":"open","field":{` + metres + `,"value":{"value":1,"unit":"m"}}}`, "/blocks/basis/fields/open", "add /blocks/basis/fields/open/value", ""},
		"a value is set":                         {`{"kind":"SetFieldValue","blockKey":"basis","fieldKey":"span","value":{"value":11,"unit":"m"}}`, "/blocks/basis/fields/span/value", "replace /blocks/basis/fields/span/value", ""},
		"a value is set to what it is":           {`{"kind":"SetFieldValue","blockKey":"basis","fieldKey":"span","value":{"unit":"m","value":1e1}}`, "/blocks/basis/fields/span/value", "", ""},
		"a first value is set":                   {`{"kind":"SetFieldValue","blockKey":"basis","fieldKey":"open","value":{"value":1,"unit":"m"}}`, "/blocks/basis/fields/open/value", "add /blocks/basis/fields/open/value", ""},
		"null removes a value":                   {`{"kind":"SetFieldValue","blockKey":"basis","fieldKey":"span","value":null}`, "/blocks/basis/fields/span/value", "remove /blocks/basis/fields/span/value", ""},
		"a value null is a value":                {`{"kind":"SetFieldValue","blockKey":"basis","fieldKey":"maybe","value":{"value":null}}`, "/blocks/basis/fields/maybe/value", "", ""},
		"a value of no field":                    {`{"kind":"SetFieldValue","blockKey":"basis","fieldKey":"gone","value":{"value":1,"unit":"m"}}`, "", "", "PX_REFERENCE_UNKNOWN /commands/0/fieldKey"},
		"a value of no block":                    {`{"kind":"SetFieldValue","blockKey":"gone","fieldKey":"span","value":{"value":1,"unit":"m"}}`, "", "", "PX_REFERENCE_UNKNOWN /commands/0/blockKey"},
		"a result cannot be written":             {`{"kind":"SetFieldValue","blockKey":"summary","fieldKey":"moment","value":{"value":1,"unit":"kN*m"}}`, "", "", "PX_SCHEMA_INVALID /commands/0/blockKey"},
		"a slot is added":                        {`{"kind":"AddSlot","blockKey":"summary","slotKey":"n",` + slot + `}`, "/blocks/summary/slots/n", "add /blocks/summary/slots/n", ""},
		"a slot is added that is there":          {`{"kind":"AddSlot","blockKey":"summary","slotKey":"moment",` + slot + `}`, "", "", "PX_SCHEMA_INVALID /commands/0/slotKey"},
		"a slot is added to values":              {`{"kind":"AddSlot","blockKey":"basis","slotKey":"n",` + slot + `}`, "", "", "PX_SCHEMA_INVALID /commands/0/blockKey"},
		"a slot is removed":                      {`{"kind":"RemoveSlot","blockKey":"summary","slotKey":"feet"}`, "/blocks/summary/slots/feet", "remove /blocks/summary/slots/feet", ""},
		"a slot is removed that is not there":    {`{"kind":"RemoveSlot","blockKey":"summary","slotKey":"gone"}`, "", "", "PX_REFERENCE_UNKNOWN /commands/0/slotKey"},
		"a slot is removed of no block":          {`{"kind":"RemoveSlot","blockKey":"gone","slotKey":"moment"}`, "", "", "PX_REFERENCE_UNKNOWN /commands/0/blockKey"},
		"a text is set":                          {`{"kind":"SetText","blockKey":"method","text":"거더"}`, "/blocks/method/text", "replace /blocks/method/text", ""},
		"a text of values":                       {`{"kind":"SetText","blockKey":"basis","text":"x"}`, "", "", "PX_SCHEMA_INVALID /commands/0/blockKey"},
		"a text of no block":                     {`{"kind":"SetText","blockKey":"gone","text":"x"}`, "", "", "PX_REFERENCE_UNKNOWN /commands/0/blockKey"},

		"a connection is pinned to another revision":  {`{"kind":"SetConnectionFlow","connectionKey":"main","flowTarget":` + on("check", "r2") + `}`, "/connections/main/flowTarget", "replace /connections/main/flowTarget", ""},
		"a connection begins with its Flow":           {`{"kind":"SetConnectionFlow","connectionKey":"other","flowTarget":` + on("constant", "r1") + `},` + setResult("other", "pi_out", "pi", "summary.length"), "/connections/other", "add /connections/other", ""},
		"an input is mapped":                          {setInput("main", "factor_in", on("check", "r1"), "factor", "basis.open"), "/connections/main/inputs/factor_in", "add /connections/main/inputs/factor_in", ""},
		"an input is mapped anew":                     {setInput("main", "span_in", on("check", "r1"), "span", "basis.feet"), "/connections/main/inputs/span_in", "replace /connections/main/inputs/span_in", ""},
		"the first mapping makes the connection":      {setInput("other", "span_in", on("check", "r2"), "span", "basis.span"), "/connections/other", "add /connections/other", ""},
		"another revision of the Flow":                {setInput("main", "factor_in", on("check", "r2"), "factor", "basis.open"), "", "", "PX_SCHEMA_INVALID /commands/0/flowTarget"},
		"two revisions in one plan":                   {setInput("other", "a", on("check", "r1"), "span", "basis.span") + `,` + setInput("other", "b", on("check", "r2"), "load", "basis.load"), "", "", "PX_SCHEMA_INVALID /commands/1/flowTarget"},
		"another Flow":                                {setInput("main", "span_in", on("odd", "r1"), "maybe", "basis.open"), "", "", "PX_SCHEMA_INVALID /commands/0/flowTarget"},
		"another revision after the connection moved": {`{"kind":"SetConnectionFlow","connectionKey":"main","flowTarget":` + on("check", "r2") + `},` + setInput("main", "factor_in", on("check", "r2"), "factor", "basis.open"), "/connections/main/flowTarget\n/connections/main/inputs/factor_in", "replace /connections/main/flowTarget\nadd /connections/main/inputs/factor_in", ""},
		"an input under the key of a result":          {setInput("main", "ratio_out", on("check", "r1"), "factor", "basis.open"), "", "", "PX_SCHEMA_INVALID /commands/0/mappingKey"},
		"a result is mapped":                          {setResult("main", "more", "moment", "summary.feet"), "/connections/main/results/more", "add /connections/main/results/more", ""},
		"a result is mapped anew":                     {setResult("main", "ratio_out", "moment", "summary.feet"), "/connections/main/results/ratio_out", "replace /connections/main/results/ratio_out", ""},
		"a result of no connection":                   {setResult("other", "more", "moment", "summary.feet"), "", "", "PX_REFERENCE_UNKNOWN /commands/0/connectionKey"},
		"a result under the key of an input":          {setResult("main", "span_in", "moment", "summary.feet"), "", "", "PX_SCHEMA_INVALID /commands/0/mappingKey"},
		"a mapping of an input is removed":            {unmap("main", "span_in"), "/connections/main/inputs/span_in", "remove /connections/main/inputs/span_in", ""},
		"a mapping of a result is removed":            {unmap("main", "ratio_out"), "/connections/main/results/ratio_out", "remove /connections/main/results/ratio_out", ""},
		"a mapping is removed that is not there":      {unmap("main", "gone"), "", "", "PX_REFERENCE_UNKNOWN /commands/0/mappingKey"},
		"a mapping is removed of no connection":       {unmap("other", "span_in"), "", "", "PX_REFERENCE_UNKNOWN /commands/0/connectionKey"},
		"the last mapping takes the connection along": {unmap("main", "span_in") + `,` + unmap("main", "load_in") + `,` + unmap("main", "moment_out") + `,` + unmap("main", "ratio_out"), "/connections/main", "remove /connections/main", ""},
		"and the key is free for another Flow": {unmap("main", "span_in") + `,` + unmap("main", "load_in") + `,` + unmap("main", "moment_out") + `,` + unmap("main", "ratio_out") + `,` + setInput("main", "x", on("odd", "r1"), "maybe", "basis.maybe"),
			"/connections/main", "replace /connections/main/flowTarget\nremove /connections/main/inputs/load_in\nremove /connections/main/inputs/span_in\nadd /connections/main/inputs/x\nremove /connections/main/results/moment_out\nremove /connections/main/results/ratio_out", ""},

		"what was set on a new block is part of it": {`{"kind":"AddBlock","blockKey":"n","block":{"kind":"values","fields":{}}},{"kind":"AddField","blockKey":"n","fieldKey":"f",` + field + `},{"kind":"SetFieldValue","blockKey":"n","fieldKey":"f","value":{"value":false}}`, "/blocks/n", "add /blocks/n", ""},
		"all preconditions are reported": {`{"kind":"RemoveBlock","blockKey":"x"},{"kind":"RemoveBlock","blockKey":"method"},{"kind":"SetText","blockKey":"method","text":""},` + unmap("main", "x"), "", "",
			"PX_REFERENCE_UNKNOWN /commands/0/blockKey\nPX_REFERENCE_UNKNOWN /commands/2/blockKey\nPX_REFERENCE_UNKNOWN /commands/3/mappingKey"},
		"no command at all":                   {``, "", "", "PX_SCHEMA_INVALID /commands"},
		"a Report that exists is created":     {`{"kind":"CreateReport","document":` + document("", ``, ``) + `}`, "", "", "ReportHeadAlreadyExists /target/reportKey"},
		"a Report is created after a command": {`{"kind":"RemoveBlock","blockKey":"method"},{"kind":"CreateReport","document":` + document("", ``, ``) + `}`, "", "", "PX_SCHEMA_INVALID /commands/1/kind"},
	} {
		base := decode(t, review)
		before := encoded(t, base)
		list := commands(t, c.commands)
		next, touched, findings := Apply(&base, list)
		if after := encoded(t, base); after != before {
			t.Errorf("%s: the base was changed: %s", name, after)
		}
		if got := show(findings); got != c.findings {
			t.Errorf("%s: findings:\n got %s\nwant %s", name, got, c.findings)
		}
		if c.findings != "" || len(findings) > 0 {
			continue
		}
		wrote = append(wrote, touched...)
		if got := strings.Join(touched, "\n"); got != c.touched {
			t.Errorf("%s: touched:\n got %s\nwant %s", name, got, c.touched)
		}
		if got := showDiff(t, &base, next); got != c.diff {
			t.Errorf("%s: diff:\n got %s\nwant %s", name, got, c.diff)
		}
		if (c.diff == "") != (revision(t, next) == revision(t, base)) {
			t.Errorf("%s: difference %q, but the digest says otherwise: %s", name, c.diff, encoded(t, next))
		}
		if again, _, _ := Apply(&base, Normalized(list)); revision(t, again) != revision(t, next) {
			t.Errorf("%s: normalized, the commands make another document", name)
		}
	}
	policytest.Written(t, Written, wrote...)
}

// covers: R1
func TestBlocksStandWhereTheCommandsPutThem(t *testing.T) {
	text := func(key, after string) string {
		if after != "" {
			after = `,"afterBlockKey":"` + after + `"`
		}
		return `{"kind":"AddBlock","blockKey":"` + key + `","block":{"kind":"text","text":""}` + after + `}`
	}
	for name, c := range map[string]struct{ commands, want string }{
		"added as the last":           {text("n", ""), "basis method summary n"},
		"added after the first":       {text("n", "basis"), "basis n method summary"},
		"added after a new one":       {text("n", "basis") + `,` + text("k", "n"), "basis n k method summary"},
		"moved to the first place":    {`{"kind":"MoveBlock","blockKey":"summary"}`, "summary basis method"},
		"moved forward":               {`{"kind":"MoveBlock","blockKey":"basis","afterBlockKey":"method"}`, "method basis summary"},
		"moved back":                  {`{"kind":"MoveBlock","blockKey":"summary","afterBlockKey":"basis"}`, "basis summary method"},
		"removed":                     {`{"kind":"RemoveBlock","blockKey":"method"}`, "basis summary"},
		"moved after what then moves": {`{"kind":"MoveBlock","blockKey":"basis","afterBlockKey":"summary"},{"kind":"MoveBlock","blockKey":"summary"}`, "summary method basis"},
	} {
		base := decode(t, review)
		next, _, findings := Apply(&base, commands(t, c.commands))
		if got := strings.Join(next.BlockOrder, " "); got != c.want || len(findings) > 0 {
			t.Errorf("%s: %s %s", name, got, show(findings))
		}
		if _, findings := validate(t, next); strings.Contains(show(findings), "blockOrder") {
			t.Errorf("%s: %s", name, show(findings))
		}
	}
}

// covers: R1
func TestCreateReportTakesTheWholeDocumentAndIsAlone(t *testing.T) {
	create := `{"kind":"CreateReport","document":` + review + `}`
	next, touched, findings := Apply(nil, commands(t, create))
	if len(findings) > 0 || !slices.Equal(touched, []string{""}) || revision(t, next) != revision(t, decode(t, review)) {
		t.Fatalf("touched %q, %s", touched, show(findings))
	}
	if got, want := showDiff(t, nil, next), "add /blocks/basis\nadd /blocks/method\nadd /blocks/summary\nadd /connections/main"; got != want {
		t.Errorf("diff:\n got %s\nwant %s", got, want)
	}
	for name, c := range map[string]struct{ commands, want string }{
		"another command beside it":     {create + `,{"kind":"RemoveBlock","blockKey":"method"}`, "PX_SCHEMA_INVALID /commands/1"},
		"a change of what is not there": {`{"kind":"RemoveBlock","blockKey":"method"}`, "PX_TARGET_NOT_FOUND /target/reportKey"},
	} {
		if _, _, findings := Apply(nil, commands(t, c.commands)); show(findings) != c.want {
			t.Errorf("%s: got %s, want %s", name, show(findings), c.want)
		}
	}
}

// covers: R1, R3, E2
func TestCommandsOfWrongFormAreRefusedWithEveryPath(t *testing.T) {
	for name, c := range map[string]struct{ command, want string }{
		"an unknown kind":           {`{"kind":"RenameBlock","blockKey":"a"}`, "PX_SCHEMA_INVALID /commands/0/kind"},
		"a command of a Flow":       {`{"kind":"ConnectInput","nodeKey":"a","portKey":"b","binding":{"kind":"flowInput","portKey":"c"}}`, "PX_SCHEMA_INVALID /commands/0/kind"},
		"a Run":                     {`{"kind":"RunReportFlowConnection","connectionKey":"a"}`, "PX_SCHEMA_INVALID /commands/0/kind"},
		"no kind":                   {`{"blockKey":"a"}`, "PX_SCHEMA_INVALID /commands/0/kind"},
		"a member of another kind":  {`{"kind":"RemoveBlock","blockKey":"a","fieldKey":"b"}`, "PX_SCHEMA_UNKNOWN_FIELD /commands/0/fieldKey"},
		"a key with a slash":        {`{"kind":"RemoveBlock","blockKey":"a/b"}`, "PX_SCHEMA_INVALID /commands/0/blockKey"},
		"an empty anchor":           {`{"kind":"MoveBlock","blockKey":"a","afterBlockKey":""}`, "PX_SCHEMA_INVALID /commands/0/afterBlockKey"},
		"a legacy field":            {`{"kind":"RemoveBlock","blockKey":"a","flowId":"a"}`, "PX_SCHEMA_UNKNOWN_FIELD /commands/0/flowId"},
		"a mapping without a Flow":  {`{"kind":"SetReportFlowInputSource","connectionKey":"a","mappingKey":"b","portKey":"c","source":{"kind":"reportValue","blockKey":"d","fieldKey":"e"}}`, "PX_SCHEMA_INVALID /commands/0/flowTarget"},
		"a source by a dotted path": {`{"kind":"SetReportFlowInputSource","connectionKey":"a","mappingKey":"b","flowTarget":` + on("f", "r") + `,"portKey":"c","source":"basis.span"}`, "PX_SCHEMA_UNSUPPORTED_VERSION /commands/0/source"},
		"a slot as a source":        {`{"kind":"SetReportFlowInputSource","connectionKey":"a","mappingKey":"b","flowTarget":` + on("f", "r") + `,"portKey":"c","source":{"kind":"reportResultSlot","blockKey":"d","slotKey":"e"}}`, "PX_SCHEMA_INVALID /commands/0/source/kind\nPX_SCHEMA_UNKNOWN_FIELD /commands/0/source/slotKey\nPX_SCHEMA_INVALID /commands/0/source/fieldKey"},
		"a workspace as a scope":    {`{"kind":"SetConnectionFlow","connectionKey":"a","flowTarget":{"scope":{"kind":"workspace","workspaceKey":"w"},"flowKey":"f","revisionRef":"r"}}`, "PX_SCHEMA_INVALID /commands/0/flowTarget/scope/kind\nPX_SCHEMA_INVALID /commands/0/flowTarget/scope/projectKey"},
		"a document within":         {`{"kind":"CreateReport","document":{"format":"pxreport/1","reportKey":"a","blockOrder":[],"blocks":{"A":{"kind":"text"}},"connections":{}}}`, "PX_SCHEMA_INVALID /commands/0/document/blocks/A\nPX_SCHEMA_INVALID /commands/0/document/blocks/A/text"},
	} {
		var r request
		if got := show(schema.Decode([]byte(`{"commands":[`+c.command+`]}`), &r)); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
		}
	}
}

// covers: P2, P3
func TestCommandsThatSayTheSameHaveOneNormalForm(t *testing.T) {
	for name, pair := range map[string][2]string{
		"the order of names":       {`{"kind":"SetFieldValue","blockKey":"a","fieldKey":"b","value":{"value":1,"unit":"m"}}`, `{"value":{"unit":"m","value":1.0},"fieldKey":"b","blockKey":"a","kind":"SetFieldValue"}`},
		"minus zero":               {`{"kind":"SetFieldValue","blockKey":"a","fieldKey":"b","value":{"value":-0.0,"unit":"m"}}`, `{"kind":"SetFieldValue","blockKey":"a","fieldKey":"b","value":{"value":0,"unit":"m"}}`},
		"what is empty":            {`{"kind":"AddBlock","blockKey":"a","block":{"kind":"values","label":{},"fields":{"f":{"type":"boolean","label":{}}}}}`, `{"kind":"AddBlock","blockKey":"a","block":{"kind":"values","fields":{"f":{"type":"boolean"}}}}`},
		"the spelling of a number": {`{"kind":"AddField","blockKey":"a","fieldKey":"b","field":{"type":"integer","value":{"value":1e2},"label":{}}}`, `{"kind":"AddField","blockKey":"a","fieldKey":"b","field":{"type":"integer","value":{"value":100.0}}}`},
		"an empty slot label":      {`{"kind":"AddSlot","blockKey":"a","slotKey":"b","slot":{"type":"integer","label":{}}}`, `{"kind":"AddSlot","blockKey":"a","slotKey":"b","slot":{"type":"integer"}}`},
	} {
		a, b := encoded(t, Normalized(commands(t, pair[0]))), encoded(t, Normalized(commands(t, pair[1])))
		if a != b {
			t.Errorf("%s:\n%s\n%s", name, a, b)
		}
	}
}

// covers: P3
func TestLabelsAreOutsideOfWhatAPlanDigestsAndTextIsInside(t *testing.T) {
	labelled := func(label string) []Command {
		l := `"label":{"en":"` + label + `"}`
		block := `{"kind":"values",` + l + `,"fields":{"f":{"type":"boolean",` + l + `}}}`
		slots := `{"kind":"results",` + l + `,"slots":{"s":{"type":"boolean",` + l + `}}}`
		text := `{"kind":"text",` + l + `,"text":"kept"}`
		return commands(t, `{"kind":"SetReportLabel",`+l+`},{"kind":"AddBlock","blockKey":"a","block":`+block+`},{"kind":"AddBlock","blockKey":"b","block":`+slots+`},{"kind":"AddBlock","blockKey":"c","block":`+text+`},
			{"kind":"AddField","blockKey":"a","fieldKey":"g","field":{"type":"boolean",`+l+`}},{"kind":"AddSlot","blockKey":"b","slotKey":"g","slot":{"type":"boolean",`+l+`}},{"kind":"SetText","blockKey":"c","text":"kept"},
			{"kind":"CreateReport","document":{"format":"pxreport/1","reportKey":"r",`+l+`,"blockOrder":["a","b","c"],"blocks":{"a":`+block+`,"b":`+slots+`,"c":`+text+`},"connections":{}}}`)
	}
	list := labelled("secret")
	a, b := encoded(t, Unlabelled(list)), encoded(t, Unlabelled(labelled("other")))
	if a != b || strings.Contains(a, "secret") || strings.Count(a, "kept") != 3 {
		t.Errorf("%s\n%s", a, b)
	}
	if strings.Count(encoded(t, list), "secret") != 14 {
		t.Errorf("Unlabelled changed its input: %s", encoded(t, list))
	}
}

// original are the commands of the contract, as it writes them.
var original = []string{`{
      "kind": "SetReportFlowInputSource",
      "connectionKey": "girder_check",
      "mappingKey": "span_input",
      "flowTarget": {
        "scope": {
          "kind": "project",
          "workspaceKey": "structural_team",
          "projectKey": "bridge_package"
        },
        "flowKey": "girder_check",
        "revisionRef": "sha256:flow-revision-digest"
      },
      "portKey": "span",
      "source": {
        "kind": "reportValue",
        "blockKey": "design_basis",
        "fieldKey": "span"
      }
    }`, `{
  "kind": "SetReportFlowResultTarget",
  "connectionKey": "girder_check",
  "mappingKey": "utilization_result",
  "portKey": "utilization",
  "target": {
    "kind": "reportResultSlot",
    "blockKey": "check_summary",
    "slotKey": "utilization"
  }
}`}

// covers: R1, R2
func TestTheCommandsOfTheContractAreTakenAsTheyStand(t *testing.T) {
	base := decode(t, document("design_basis check_summary", values("design_basis", `"span":{`+metres+`,"value":{"value":32.5,"unit":"m"}}`)+`,`+results("check_summary", `"utilization":{"type":"number","unit":"1"}`), ``))
	next, touched, findings := Apply(&base, commands(t, strings.Join(original, ",")))
	if len(findings) > 0 || !slices.Equal(touched, []string{"/connections/girder_check"}) {
		t.Fatalf("%q %s", touched, show(findings))
	}
	// They name what does not exist here, and are refused for that alone.
	if _, findings := validate(t, next); show(findings) != "PX_TARGET_NOT_FOUND /connections/girder_check/flowTarget" {
		t.Errorf("%s", show(findings))
	}
}

// The tool's input schema is made from these types: it has every command and
// accepts what the decoder accepts.
func TestTheSchemaOfCommandsTeachesAndAccepts(t *testing.T) {
	form := schema.JSON[request](schema.Closed)
	text := encoded(t, form)
	kinds := []string{"CreateReport", "SetReportLabel", "AddBlock", "RemoveBlock", "MoveBlock", "AddField", "RemoveField", "SetFieldValue", "AddSlot", "RemoveSlot", "SetText",
		"SetConnectionFlow", "SetReportFlowInputSource", "SetReportFlowResultTarget", "RemoveReportFlowMapping"}
	for _, kind := range kinds {
		if !strings.Contains(text, `"const":"`+kind+`"`) {
			t.Errorf("%s is not in the schema", kind)
		}
	}
	resolved, err := form.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		command string
		ok      bool
	}{
		"a whole Report":       {`{"kind":"CreateReport","document":` + review + `}`, true},
		"the original's input": {original[0], true},
		"the original's slot":  {original[1], true},
		"a block of values":    {`{"kind":"AddBlock","blockKey":"b","block":{"kind":"values","fields":{"f":{"type":"number","unit":"m","value":{"value":1,"unit":"m"},"label":{"ko":"지간"}}}}}`, true},
		"a block of nothing":   {`{"kind":"AddBlock","blockKey":"b","block":{"kind":"picture"}}`, false},
		"a removed value":      {`{"kind":"SetFieldValue","blockKey":"b","fieldKey":"f","value":null}`, true},
		"a bad key":            {`{"kind":"AddBlock","blockKey":"a/b","block":{"kind":"text","text":""}}`, false},
		"an unknown field":     {`{"kind":"AddBlock","blockKey":"a","block":{"kind":"text","text":""},"x":1}`, false},
		"an unknown kind":      {`{"kind":"Rename","blockKey":"a"}`, false},
	} {
		var value any
		if err := json.Unmarshal([]byte(`{"commands":[`+c.command+`]}`), &value); err != nil {
			t.Fatal(err)
		}
		if err := resolved.Validate(value); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(text) > 20<<10 {
		t.Errorf("%d bytes: the list of all tools has 64 KB", len(text))
	}
}
