package flow

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/component"
	"github.com/pxhost/pxhost/shared/policy/policytest"
	"github.com/pxhost/pxhost/shared/quantity"
	"github.com/pxhost/pxhost/shared/schema"
	"github.com/pxhost/pxhost/shared/semantic"
	"github.com/pxhost/pxhost/shared/target"
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

// bridge is the Flow that the command cases start from.
var bridge = document(
	lengthInput+`,"other":{"type":"number","unit":"ft"}`,
	`"out":{"type":"number","unit":"m","binding":{"kind":"nodeResult","nodeKey":"second","portKey":"r"}},"free":{"type":"boolean"}`,
	node("first", "length", from("a", "span"))+`,`+
		`"second":{"target":{"kind":"function","functionKey":"length","version":1,"digest":"d"},"settings":{"k":1,"l":[2]},"inputBindings":{`+from("a", "first.r")+`},"label":{"en":"Second"}}`)

// covers: F1, E2
func TestEachCommand(t *testing.T) {
	const toFree = `"target":{"kind":"component","componentKey":"px.formula","version":1}`
	var wrote []string
	for name, c := range map[string]struct {
		commands string
		touched  string // one path a line
		diff     string // "op path" a line
		findings string // "CODE path" a line; then touched and diff are not looked at
	}{
		"a label is set":                              {`{"kind":"SetFlowLabel","label":{"en":"Bridge","ko":"교량"}}`, "/label", "add /label", ""},
		"a label in no language takes it away":        {`{"kind":"SetFlowLabel","label":{}}`, "/label", "", ""},
		"a node is added":                             {`{"kind":"AddNode","nodeKey":"n",` + toFree + `,"settings":{"x":1}}`, "/nodes/n", "add /nodes/n", ""},
		"a node is added twice":                       {`{"kind":"AddNode","nodeKey":"n",` + toFree + `},{"kind":"AddNode","nodeKey":"n",` + toFree + `}`, "", "", "PX_SCHEMA_INVALID /commands/1/nodeKey"},
		"a node is added that is there":               {`{"kind":"AddNode","nodeKey":"first",` + toFree + `}`, "", "", "PX_SCHEMA_INVALID /commands/0/nodeKey"},
		"a node is removed":                           {`{"kind":"RemoveNode","nodeKey":"first"}`, "/nodes/first", "remove /nodes/first", ""},
		"a node is removed that is not there":         {`{"kind":"RemoveNode","nodeKey":"third"}`, "", "", "PX_REFERENCE_UNKNOWN /commands/0/nodeKey"},
		"a node is removed twice":                     {`{"kind":"RemoveNode","nodeKey":"first"},{"kind":"RemoveNode","nodeKey":"first"}`, "", "", "PX_REFERENCE_UNKNOWN /commands/1/nodeKey"},
		"a node comes again with another target":      {`{"kind":"RemoveNode","nodeKey":"first"},{"kind":"AddNode","nodeKey":"first",` + toFree + `,"inputBindings":{` + from("a", "span") + `}}`, "/nodes/first", "replace /nodes/first/target", ""},
		"a target is replaced":                        {`{"kind":"ReplaceNodeTarget","nodeKey":"first",` + toFree + `}`, "/nodes/first/target", "replace /nodes/first/target", ""},
		"a target is replaced of no node":             {`{"kind":"ReplaceNodeTarget","nodeKey":"third",` + toFree + `}`, "", "", "PX_REFERENCE_UNKNOWN /commands/0/nodeKey"},
		"a setting is added":                          {`{"kind":"SetNodeSetting","nodeKey":"first","settingKey":"k","value":{"b":1,"a":2}}`, "/nodes/first/settings/k", "add /nodes/first/settings/k", ""},
		"a setting is replaced":                       {`{"kind":"SetNodeSetting","nodeKey":"second","settingKey":"k","value":2}`, "/nodes/second/settings/k", "replace /nodes/second/settings/k", ""},
		"a setting is set to what it is":              {`{"kind":"SetNodeSetting","nodeKey":"second","settingKey":"k","value":1.0}`, "/nodes/second/settings/k", "", ""},
		"null removes a setting":                      {`{"kind":"SetNodeSetting","nodeKey":"second","settingKey":"k","value":null}`, "/nodes/second/settings/k", "remove /nodes/second/settings/k", ""},
		"null removes a setting that is not there":    {`{"kind":"SetNodeSetting","nodeKey":"first","settingKey":"k","value":null}`, "", "", "PX_REFERENCE_UNKNOWN /commands/0/settingKey"},
		"a setting of no node":                        {`{"kind":"SetNodeSetting","nodeKey":"third","settingKey":"k","value":1}`, "", "", "PX_REFERENCE_UNKNOWN /commands/0/nodeKey"},
		"an input is connected":                       {`{"kind":"ConnectInput","nodeKey":"first","portKey":"b","binding":{"kind":"literal","value":{"value":1,"unit":"m"}}}`, "/nodes/first/inputBindings/b", "add /nodes/first/inputBindings/b", ""},
		"a connected input is connected anew":         {`{"kind":"ConnectInput","nodeKey":"first","portKey":"a","binding":{"kind":"flowInput","portKey":"other"}}`, "/nodes/first/inputBindings/a", "replace /nodes/first/inputBindings/a", ""},
		"an input of no node is connected":            {`{"kind":"ConnectInput","nodeKey":"third","portKey":"a","binding":{"kind":"flowInput","portKey":"other"}}`, "", "", "PX_REFERENCE_UNKNOWN /commands/0/nodeKey"},
		"an input is disconnected":                    {`{"kind":"DisconnectInput","nodeKey":"first","portKey":"a"}`, "/nodes/first/inputBindings/a", "remove /nodes/first/inputBindings/a", ""},
		"an input is disconnected that is not":        {`{"kind":"DisconnectInput","nodeKey":"first","portKey":"b"}`, "", "", "PX_REFERENCE_UNKNOWN /commands/0/portKey"},
		"an input of no node is disconnected":         {`{"kind":"DisconnectInput","nodeKey":"third","portKey":"a"}`, "", "", "PX_REFERENCE_UNKNOWN /commands/0/nodeKey"},
		"the original's example leaves all as it was": {`{"kind":"DisconnectInput","nodeKey":"first","portKey":"a"},{"kind":"ConnectInput","nodeKey":"first","portKey":"a","binding":{"kind":"flowInput","portKey":"span"}}`, "/nodes/first/inputBindings/a", "", ""},
		"an input port is added":                      {`{"kind":"AddInputPort","portKey":"width","contract":{"type":"number","unit":"m"}}`, "/inputs/width", "add /inputs/width", ""},
		"an input port is added that is there":        {`{"kind":"AddInputPort","portKey":"span","contract":{"type":"number","unit":"m"}}`, "", "", "PX_SCHEMA_INVALID /commands/0/portKey"},
		"an input port is changed":                    {`{"kind":"ChangeInputPort","portKey":"span","contract":{"type":"number","unit":"ft"}}`, "/inputs/span", "replace /inputs/span", ""},
		"an input port is changed that is not there":  {`{"kind":"ChangeInputPort","portKey":"width","contract":{"type":"number","unit":"ft"}}`, "", "", "PX_REFERENCE_UNKNOWN /commands/0/portKey"},
		"an input port is removed":                    {`{"kind":"RemoveInputPort","portKey":"other"}`, "/inputs/other", "remove /inputs/other", ""},
		"an input port is removed that is not there":  {`{"kind":"RemoveInputPort","portKey":"width"}`, "", "", "PX_REFERENCE_UNKNOWN /commands/0/portKey"},
		"a result port is added and bound":            {`{"kind":"AddResultPort","portKey":"more","contract":{"type":"number","unit":"m"}},{"kind":"BindResult","portKey":"more","binding":{"kind":"flowInput","portKey":"span"}}`, "/results/more", "add /results/more", ""},
		"a result port is added that is there":        {`{"kind":"AddResultPort","portKey":"out","contract":{"type":"number","unit":"m"}}`, "", "", "PX_SCHEMA_INVALID /commands/0/portKey"},
		"a result port is changed and stays bound":    {`{"kind":"ChangeResultPort","portKey":"out","contract":{"type":"number","unit":"ft"}}`, "/results/out", "replace /results/out", ""},
		"a result port is changed that is not there":  {`{"kind":"ChangeResultPort","portKey":"more","contract":{"type":"number","unit":"ft"}}`, "", "", "PX_REFERENCE_UNKNOWN /commands/0/portKey"},
		"a result port is removed":                    {`{"kind":"RemoveResultPort","portKey":"out"}`, "/results/out", "remove /results/out", ""},
		"a result port is removed that is not there":  {`{"kind":"RemoveResultPort","portKey":"more"}`, "", "", "PX_REFERENCE_UNKNOWN /commands/0/portKey"},
		"a result is bound":                           {`{"kind":"BindResult","portKey":"free","binding":{"kind":"nodeResult","nodeKey":"first","portKey":"r"}}`, "/results/free/binding", "add /results/free/binding", ""},
		"a bound result is bound anew":                {`{"kind":"BindResult","portKey":"out","binding":{"kind":"nodeResult","nodeKey":"first","portKey":"r"}}`, "/results/out/binding", "replace /results/out/binding", ""},
		"a result is bound that is not there":         {`{"kind":"BindResult","portKey":"more","binding":{"kind":"flowInput","portKey":"span"}}`, "", "", "PX_REFERENCE_UNKNOWN /commands/0/portKey"},
		"a port is renamed in one plan": {`{"kind":"AddInputPort","portKey":"length","contract":{"type":"number","unit":"m"}},{"kind":"ConnectInput","nodeKey":"first","portKey":"a","binding":{"kind":"flowInput","portKey":"length"}},{"kind":"RemoveInputPort","portKey":"span"}`,
			"/inputs/length\n/inputs/span\n/nodes/first/inputBindings/a", "add /inputs/length\nremove /inputs/span\nreplace /nodes/first/inputBindings/a", ""},
		"what was set on a new node is part of it": {`{"kind":"AddNode","nodeKey":"n",` + toFree + `},{"kind":"SetNodeSetting","nodeKey":"n","settingKey":"x","value":1},{"kind":"ConnectInput","nodeKey":"n","portKey":"a","binding":{"kind":"flowInput","portKey":"span"}}`, "/nodes/n", "add /nodes/n", ""},
		"all preconditions are reported": {`{"kind":"RemoveNode","nodeKey":"x"},{"kind":"RemoveNode","nodeKey":"first"},{"kind":"AddInputPort","portKey":"span","contract":{"type":"boolean"}},{"kind":"DisconnectInput","nodeKey":"first","portKey":"a"}`, "", "",
			"PX_REFERENCE_UNKNOWN /commands/0/nodeKey\nPX_SCHEMA_INVALID /commands/2/portKey\nPX_REFERENCE_UNKNOWN /commands/3/nodeKey"},
		"no command at all":                       {``, "", "", "PX_SCHEMA_INVALID /commands"},
		"a flow that exists is created":           {`{"kind":"CreateFlow","document":` + document(``, ``, ``) + `}`, "", "", "FlowHeadAlreadyExists /target/flowKey"},
		"a flow is created after another command": {`{"kind":"RemoveInputPort","portKey":"other"},{"kind":"CreateFlow","document":` + document(``, ``, ``) + `}`, "", "", "PX_SCHEMA_INVALID /commands/1/kind"},
	} {
		base := decode(t, bridge)
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
		if c.diff == "" && revision(t, next) != revision(t, base) {
			t.Errorf("%s: no difference, but another digest: %s", name, encoded(t, next))
		}
		if again, _, _ := Apply(&base, Normalized(list)); revision(t, again) != revision(t, next) {
			t.Errorf("%s: normalized, the commands make another document", name)
		}
	}
	policytest.Written(t, Written, wrote...)
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

// covers: F2
func TestCreateFlowTakesTheWholeDocumentAndIsAlone(t *testing.T) {
	create := `{"kind":"CreateFlow","document":` + bridge + `}`
	next, touched, findings := Apply(nil, commands(t, create))
	if len(findings) > 0 || !slices.Equal(touched, []string{""}) || revision(t, next) != revision(t, decode(t, bridge)) {
		t.Fatalf("touched %q, %s", touched, show(findings))
	}
	if got, want := showDiff(t, nil, next), "add /inputs/other\nadd /inputs/span\nadd /nodes/first\nadd /nodes/second\nadd /results/free\nadd /results/out"; got != want {
		t.Errorf("diff:\n got %s\nwant %s", got, want)
	}
	sdk := `{"kind":"CreateFlow","source":"import px","document":{"format":"pxflow/1","flowKey":"a","authoring":{"kind":"sdk","sourceDigest":"sha256:1"},"inputs":{},"results":{},"nodes":{}}}`
	for name, c := range map[string]struct{ commands, want string }{
		"another command beside it":     {create + `,{"kind":"RemoveNode","nodeKey":"first"}`, "PX_SCHEMA_INVALID /commands/1"},
		"a change of what is not there": {`{"kind":"RemoveNode","nodeKey":"first"}`, "PX_TARGET_NOT_FOUND /target/flowKey"},
		"source for a native flow":      {`{"kind":"CreateFlow","source":"import px","document":` + bridge + `}`, "PX_SCHEMA_INVALID /commands/0/source"},
		"an SDK flow without source":    {strings.Replace(sdk, `"source":"import px",`, "", 1), "PX_SCHEMA_INVALID /commands/0/source"},
		"an SDK flow of another source": {sdk, "PX_SOURCE_PARITY /commands/0/document/authoring/sourceDigest"},
	} {
		if _, _, findings := Apply(nil, commands(t, c.commands)); show(findings) != c.want {
			t.Errorf("%s: got %s, want %s", name, show(findings), c.want)
		}
	}
}

// covers: F4
func TestAnSDKFlowIsChangedOnlyTogetherWithItsSource(t *testing.T) {
	doc := decode(t, `{"format":"pxflow/1","flowKey":"a","authoring":{"kind":"sdk","sourceDigest":"sha256:1"},"inputs":{},"results":{},"nodes":{}}`)
	label := []Command{SetFlowLabel{Label: target.Label{"en": "x"}}}
	if _, _, err := Propose(context.Background(), &doc, label, NoFunctions{}, nil); err == nil {
		t.Error("proposed without a source")
	}
	settle := func(next Document) (string, error) {
		if next.Label["en"] != "x" {
			t.Errorf("the source is asked of %v", next)
		}
		return "sha256:2", nil
	}
	p, findings, err := Propose(context.Background(), &doc, label, NoFunctions{}, settle)
	if err != nil || len(findings) > 0 || p.Document.Authoring != (Authoring{Kind: SDK, SourceDigest: "sha256:2"}) || p.Analysis.RevisionRef != revision(t, p.Document) {
		t.Fatalf("%v %s %+v", err, show(findings), p.Document)
	}
	if doc.Authoring.SourceDigest != "sha256:1" || !slices.Equal(p.Touched, []string{"/label"}) {
		t.Errorf("touched %q", p.Touched)
	}
}

// covers: E2
func TestCommandsOfWrongFormAreRefusedWithEveryPath(t *testing.T) {
	for name, c := range map[string]struct{ command, want string }{
		"an unknown kind":                {`{"kind":"RenameNode","nodeKey":"a"}`, "PX_SCHEMA_INVALID /commands/0/kind"},
		"a kind in the wrong case":       {`{"kind":"removeNode","nodeKey":"a"}`, "PX_SCHEMA_INVALID /commands/0/kind"},
		"no kind":                        {`{"nodeKey":"a"}`, "PX_SCHEMA_INVALID /commands/0/kind"},
		"no node":                        {`{"kind":"RemoveNode"}`, "PX_SCHEMA_INVALID /commands/0/nodeKey"},
		"a member of another kind":       {`{"kind":"RemoveNode","nodeKey":"a","portKey":"b"}`, "PX_SCHEMA_UNKNOWN_FIELD /commands/0/portKey"},
		"a key with a slash":             {`{"kind":"RemoveNode","nodeKey":"a/b"}`, "PX_SCHEMA_INVALID /commands/0/nodeKey"},
		"a key with NUL":                 {`{"kind":"RemoveNode","nodeKey":"a\u0000"}`, "PX_SCHEMA_INVALID /commands/0/nodeKey"},
		"a key of 300 letters":           {`{"kind":"RemoveNode","nodeKey":"` + strings.Repeat("a", 300) + `"}`, "PX_SCHEMA_INVALID /commands/0/nodeKey"},
		"an emoji":                       {`{"kind":"RemoveInputPort","portKey":"🌉"}`, "PX_SCHEMA_INVALID /commands/0/portKey"},
		"a dotted port":                  {`{"kind":"DisconnectInput","nodeKey":"a","portKey":"nodes.a.b"}`, "PX_SCHEMA_UNSUPPORTED_VERSION /commands/0/portKey"},
		"a legacy field":                 {`{"kind":"RemoveNode","nodeKey":"a","nodeId":"a"}`, "PX_SCHEMA_UNKNOWN_FIELD /commands/0/nodeId"},
		"a binding that is no object":    {`{"kind":"ConnectInput","nodeKey":"a","portKey":"b","binding":"span"}`, "PX_SCHEMA_INVALID /commands/0/binding"},
		"a binding by a dotted path":     {`{"kind":"ConnectInput","nodeKey":"a","portKey":"b","binding":"nodes.check.utilization"}`, "PX_SCHEMA_UNSUPPORTED_VERSION /commands/0/binding"},
		"a rounded integer in a setting": {`{"kind":"SetNodeSetting","nodeKey":"a","settingKey":"b","value":{"c":[9007199254740993]}}`, "PX_SCHEMA_INVALID /commands/0/value/c/0"},
		"overflow in a literal":          {`{"kind":"BindResult","portKey":"b","binding":{"kind":"literal","value":{"value":1e400}}}`, "PX_SCHEMA_INVALID /commands/0/binding/value/value"},
		"a document within":              {`{"kind":"CreateFlow","document":{"format":"pxflow/1","flowKey":"a","authoring":{"kind":"native"},"inputs":{},"results":{},"nodes":{"A":{"target":{"kind":"component"}}}}}`, "PX_SCHEMA_INVALID /commands/0/document/nodes/A\nPX_SCHEMA_INVALID /commands/0/document/nodes/A/target/componentKey\nPX_SCHEMA_INVALID /commands/0/document/nodes/A/target/version"},
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
		"the order of names":       {`{"kind":"SetNodeSetting","nodeKey":"a","settingKey":"b","value":{"y":1,"x":2}}`, `{"value":{"x":2,"y":1},"settingKey":"b","nodeKey":"a","kind":"SetNodeSetting"}`},
		"minus zero":               {`{"kind":"SetNodeSetting","nodeKey":"a","settingKey":"b","value":-0.0}`, `{"kind":"SetNodeSetting","nodeKey":"a","settingKey":"b","value":0}`},
		"the spelling of a number": {`{"kind":"BindResult","portKey":"b","binding":{"kind":"literal","value":{"value":1e2,"unit":"m"}}}`, `{"kind":"BindResult","portKey":"b","binding":{"kind":"literal","value":{"unit":"m","value":100.0}}}`},
		"what is empty":            {`{"kind":"AddNode","nodeKey":"a","target":{"kind":"component","componentKey":"px.formula","version":1},"settings":{},"inputBindings":{},"label":{}}`, `{"kind":"AddNode","nodeKey":"a","target":{"kind":"component","componentKey":"px.formula","version":1}}`},
		"a default's spelling":     {`{"kind":"AddInputPort","portKey":"a","contract":{"type":"number","unit":"m","default":{"value":1.0,"unit":"m"}}}`, `{"kind":"AddInputPort","portKey":"a","contract":{"unit":"m","default":{"unit":"m","value":1},"type":"number"}}`},
	} {
		a, b := encoded(t, Normalized(commands(t, pair[0]))), encoded(t, Normalized(commands(t, pair[1])))
		if a != b {
			t.Errorf("%s:\n%s\n%s", name, a, b)
		}
	}
	// Go programs may leave a Raw as they wrote it.
	raw := Normalized([]Command{ConnectInput{NodeKey: "n", PortKey: "p", Binding: Literal{Value: canon.Raw(`{"value" : -0, "unit":"m"}`)}},
		ChangeResultPort{PortKey: "p", Contract: quantity.Port{Type: quantity.ListType, Of: &quantity.Port{Type: quantity.RecordType, Fields: map[string]quantity.Port{"f": {Type: quantity.IntegerType, Default: canon.Raw(`{"value": 1.0}`)}}}}}})
	if got := string(raw[0].(ConnectInput).Binding.(Literal).Value); got != `{"unit":"m","value":0}` {
		t.Errorf("the literal stays %s", got)
	}
	if got, want := encoded(t, raw), `[{"binding":{"kind":"literal","value":{"unit":"m","value":0}},"kind":"ConnectInput","nodeKey":"n","portKey":"p"},`+
		`{"contract":{"of":{"fields":{"f":{"default":{"value":1},"type":"integer"}},"type":"record"},"type":"list"},"kind":"ChangeResultPort","portKey":"p"}]`; got != want {
		t.Errorf(" got %s\nwant %s", got, want)
	}
}

// covers: P3
func TestLabelsAreOutsideOfWhatAPlanDigests(t *testing.T) {
	labelled := func(label string) []Command {
		return commands(t, `{"kind":"SetFlowLabel","label":{"en":"`+label+`"}},
			{"kind":"AddNode","nodeKey":"a","target":{"kind":"component","componentKey":"px.formula","version":1},"label":{"en":"`+label+`"}},
			{"kind":"CreateFlow","document":{"format":"pxflow/1","flowKey":"a","label":{"en":"`+label+`"},"authoring":{"kind":"native"},"inputs":{},"results":{},
				"nodes":{"n":{"label":{"en":"`+label+`"},"target":{"kind":"component","componentKey":"px.formula","version":1}}}}}`)
	}
	list := labelled("secret")
	a, b := encoded(t, Unlabelled(list)), encoded(t, Unlabelled(labelled("other")))
	if a != b || strings.Contains(a, "secret") {
		t.Errorf("%s\n%s", a, b)
	}
	if strings.Count(encoded(t, list), "secret") != 4 {
		t.Errorf("Unlabelled changed its input: %s", encoded(t, list))
	}
}

// The tool's input schema is made from these types: it has every command and the
// settings of every Component with an example (decision 13), and accepts what
// the decoder accepts.
func TestTheSchemaOfCommandsTeachesAndAccepts(t *testing.T) {
	form := schema.JSON[request](schema.Closed)
	text := encoded(t, form)
	for _, kind := range []string{"CreateFlow", "SetFlowLabel", "AddNode", "RemoveNode", "ReplaceNodeTarget", "SetNodeSetting", "ConnectInput", "DisconnectInput",
		"AddInputPort", "ChangeInputPort", "RemoveInputPort", "AddResultPort", "ChangeResultPort", "RemoveResultPort", "BindResult"} {
		// Commands with the same members stand together, their kinds in an enum.
		if !strings.Contains(text, `"const":"`+kind+`"`) && !regexp.MustCompile(`"kind":\{"enum":\[[^]]*"`+kind+`"`).MatchString(text) {
			t.Errorf("%s is not in the schema", kind)
		}
	}
	for _, c := range component.All() {
		if def := form.Defs[c.Key()]; def == nil || len(def.Examples) != 1 {
			t.Errorf("the settings of %s are not taught", c.Key())
		}
	}
	resolved, err := form.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	girder := encoded(t, sample(t))
	add := `{"kind":"AddNode","nodeKey":"n","target":{"kind":"component","componentKey":"px.formula","version":1},"settings":%s}`
	for name, c := range map[string]struct {
		command string
		ok      bool
	}{
		"the sample":           {`{"kind":"CreateFlow","document":` + girder + `}`, true},
		"a node with settings": {fmt.Sprintf(add, `{"results":{"r":{"expression":"1","unit":"1"}}}`), true},
		"a node without":       {fmt.Sprintf(add, `{}`), true},
		"settings of nothing":  {fmt.Sprintf(add, `{"colour":1}`), false},
		"a removed setting":    {`{"kind":"SetNodeSetting","nodeKey":"n","settingKey":"quantityKind","value":null}`, true},
		"a bad key":            {`{"kind":"RemoveNode","nodeKey":"a/b"}`, false},
		"an unknown field":     {`{"kind":"AddNode","nodeKey":"a","target":{"kind":"component","componentKey":"px.formula","version":1},"x":1}`, false},
		"half a command":       {`{"kind":"ChangeInputPort","portKey":"a"}`, false},
		"columns elsewhere":    {fmt.Sprintf(add, `{"columns":[{"columnKey":"a","type":"integer"}],"results":[{"expression":"1","unit":"1"}]}`), false},
		"a bound result":       {`{"kind":"BindResult","portKey":"a","binding":{"kind":"nodeResult","nodeKey":"n","portKey":"r"}}`, true},
		"an unknown kind":      {`{"kind":"Rename","nodeKey":"a"}`, false},
	} {
		var value any
		if err := json.Unmarshal([]byte(`{"commands":[`+c.command+`]}`), &value); err != nil {
			t.Fatal(err)
		}
		if err := resolved.Validate(value); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(text) > 14<<10 {
		t.Errorf("%d bytes: the list of all tools has 64 KB", len(text))
	}
}
