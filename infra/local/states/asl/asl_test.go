package asl

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/pxhost/pxhost/infra/local/jsonata"
)

var engine = jsonata.New(jsonata.Options{})

func machine(start, states string) string {
	return `{"QueryLanguage":"JSONata","StartAt":"` + start + `","States":{` + states + `}}`
}

const (
	invoke = `"Type":"Task","Resource":"arn:aws:states:::lambda:invoke","Arguments":{"FunctionName":"f"}`
	done   = `"Z":{"Type":"Succeed"}`
	inner  = `"StartAt":"I","States":{"I":{"Type":"Pass","End":true}}`
	// processor is a distributed Map's.
	processor = `"ItemProcessor":{"ProcessorConfig":{"Mode":"DISTRIBUTED","ExecutionType":"STANDARD"},` + inner + `}`
)

func distributedWith(fields string) string {
	return machine("M", `"M":{"Type":"Map",`+fields+`,"End":true}`)
}

func reader(config string) string {
	return `"ItemReader":{"Resource":"arn:aws:states:::s3:getObject","Arguments":{"Bucket":"b","Key":"k"},"ReaderConfig":{` + config + `}},`
}

// Every refusal has the code, the place and the name of what is refused.
//
// covers: H2
func TestRefused(t *testing.T) {
	for _, c := range []struct{ name, definition, code, location, message string }{
		{"what is not JSON", `{`, CodeJSON, "/", ""},
		{"a duplicate name", `{"StartAt":"A","StartAt":"A"}`, CodeJSON, "/", "duplicate"},
		{"trailing data", machine("Z", done) + ` 1`, CodeJSON, "/", "more"},
		{"an array", `[]`, CodeSchema, "/", "object"},
		{"no query language, which is JSONPath", `{"StartAt":"Z","States":{` + done + `}}`, CodeUnsupported, "/QueryLanguage", "JSONPath"},
		{"JSONPath", `{"QueryLanguage":"JSONPath","StartAt":"Z","States":{` + done + `}}`, CodeUnsupported, "/QueryLanguage", "JSONPath"},
		{"JSONPath in one state", machine("Z", `"Z":{"Type":"Succeed","QueryLanguage":"JSONPath"}`), CodeUnsupported, "/States/Z/QueryLanguage", "JSONPath"},
		{"another version", `{"QueryLanguage":"JSONata","Version":"2.0","StartAt":"Z","States":{` + done + `}}`, CodeSchema, "/Version", "1.0"},
		{"an unknown field at the top", `{"QueryLanguage":"JSONata","Extra":1,"StartAt":"Z","States":{` + done + `}}`, CodeSchema, "/Extra", "Extra"},
		{"an unknown field of a state", machine("Z", `"Z":{"Type":"Succeed","Extra":1}`), CodeSchema, "/States/Z/Extra", "Extra"},
		{"a field in the wrong case", machine("Z", `"Z":{"Type":"Succeed","output":1}`), CodeSchema, "/States/Z/output", "output"},
		{"a JSONPath field", machine("A", `"A":{"Type":"Pass","ResultPath":"$.x","End":true}`), CodeSchema, "/States/A/ResultPath", "JSONPath"},
		{"Result, which is JSONPath's", machine("A", `"A":{"Type":"Pass","Result":1,"End":true}`), CodeSchema, "/States/A/Result", "JSONPath"},
		{"an unknown state type", machine("A", `"A":{"Type":"Magic"}`), CodeSchema, "/States/A/Type", "Magic"},
		{"a missing type", machine("A", `"A":{}`), CodeSchema, "/States/A/Type", "Type"},
		{"no states", machine("A", ``), CodeSchema, "/States", "at least one"},
		{"no start", `{"QueryLanguage":"JSONata","States":{` + done + `}}`, CodeSchema, "/StartAt", "StartAt"},
		{"a start that does not exist", machine("B", done), CodeTransition, "/StartAt", `"B"`},
		{"a target that does not exist", machine("A", `"A":{"Type":"Pass","Next":"B"},`+done), CodeTransition, "/States/A/Next", `"B"`},
		{"a state that cannot be reached", machine("Z", done+`,"Y":{"Type":"Succeed"}`), CodeTransition, "/States/Y", "reachable"},
		{"neither Next nor End", machine("A", `"A":{"Type":"Pass"}`), CodeSchema, "/States/A", "neither"},
		{"both Next and End", machine("A", `"A":{"Type":"Pass","Next":"Z","End":true},`+done), CodeSchema, "/States/A", "not both"},
		{"End on a Choice", machine("A", `"A":{"Type":"Choice","Choices":[{"Condition":"{% true %}","Next":"Z"}],"End":true},`+done), CodeSchema, "/States/A/End", "End"},
		{"a workflow without an end", machine("A", `"A":{"Type":"Pass","Next":"B"},"B":{"Type":"Pass","Next":"A"}`), CodeSchema, "/States", "ends"},
		{"a name used twice, in a branch", machine("P", `"P":{"Type":"Parallel","Branches":[{"StartAt":"P","States":{"P":{"Type":"Succeed"}}}],"End":true}`), CodeDuplicate, "/States/P/Branches[0]/States/P", `"P"`},
		{"too long a name", machine(strings.Repeat("n", 81), `"`+strings.Repeat("n", 81)+`":{"Type":"Succeed"}`), CodeSchema, "/States/" + strings.Repeat("n", 81), "80"},
		{"another resource", machine("A", `"A":{"Type":"Task","Resource":"arn:aws:states:::sqs:sendMessage","Arguments":{"FunctionName":"f"},"End":true}`), CodeUnsupported, "/States/A/Resource", "sqs:sendMessage"},
		{"a function's own ARN as resource", machine("A", `"A":{"Type":"Task","Resource":"arn:aws:lambda:us-east-1:1:function:f","Arguments":{"FunctionName":"f"},"End":true}`), CodeUnsupported, "/States/A/Resource", "lambda:invoke"},
		{"credentials", machine("A", `"A":{`+invoke+`,"Credentials":{},"End":true}`), CodeUnsupported, "/States/A/Credentials", "Credentials"},
		{"no arguments", machine("A", `"A":{"Type":"Task","Resource":"arn:aws:states:::lambda:invoke","End":true}`), CodeSchema, "/States/A/Arguments", "FunctionName"},
		{"another argument of lambda:invoke", machine("A", `"A":{"Type":"Task","Resource":"arn:aws:states:::lambda:invoke","Arguments":{"FunctionName":"f","Qualifier":"1"},"End":true}`), CodeUnsupported, "/States/A/Arguments/Qualifier", "Qualifier"},
		{"an asynchronous invocation", machine("A", `"A":{"Type":"Task","Resource":"arn:aws:states:::lambda:invoke","Arguments":{"FunctionName":"f","InvocationType":"Event"},"End":true}`), CodeUnsupported, "/States/A/Arguments/InvocationType", "RequestResponse"},
		{"a heartbeat nobody can send", machine("A", `"A":{`+invoke+`,"HeartbeatSeconds":5,"End":true}`), CodeUnsupported, "/States/A/HeartbeatSeconds", "waitForTaskToken"},
		{"a heartbeat as long as the timeout", machine("A", `"A":{"Type":"Task","Resource":"arn:aws:states:::lambda:invoke.waitForTaskToken","Arguments":{"FunctionName":"f"},"HeartbeatSeconds":5,"TimeoutSeconds":5,"End":true}`), CodeSchema, "/States/A/HeartbeatSeconds", "smaller"},
		{"a timeout of 0", machine("A", `"A":{`+invoke+`,"TimeoutSeconds":0,"End":true}`), CodeSchema, "/States/A/TimeoutSeconds", "integer"},
		{"a fractional timeout", machine("A", `"A":{`+invoke+`,"TimeoutSeconds":1.5,"End":true}`), CodeSchema, "/States/A/TimeoutSeconds", "integer"},
		{"a plain string for a timeout", machine("A", `"A":{`+invoke+`,"TimeoutSeconds":"5","End":true}`), CodeSchema, "/States/A/TimeoutSeconds", "integer"},
		{"a syntax error in an expression", machine("A", `"A":{"Type":"Pass","Output":{"x":["{% 1 + %}"]},"End":true}`), CodeExpression, "/States/A/Output/x[0]", "S0207"},
		{"an expression without its end", machine("A", `"A":{"Type":"Pass","Output":"{% 1","End":true}`), CodeExpression, "/States/A/Output", "%}"},
		{"$eval", machine("A", `"A":{"Type":"Pass","Output":"{% $eval('1') %}","End":true}`), CodeExpression, "/States/A/Output", "$eval"},
		{"an unknown function", machine("A", `"A":{"Type":"Choice","Choices":[{"Condition":"{% $nope() %}","Next":"Z"}]},`+done), CodeExpression, "/States/A/Choices[0]/Condition", "$nope"},
		{"a condition that is no expression", machine("A", `"A":{"Type":"Choice","Choices":[{"Condition":"x","Next":"Z"}]},`+done), CodeSchema, "/States/A/Choices[0]/Condition", "Condition"},
		{"a JSONPath choice rule", machine("A", `"A":{"Type":"Choice","Choices":[{"Variable":"$.x","IsNull":true,"Next":"Z"}]},`+done), CodeSchema, "/States/A/Choices[0]/Variable", "JSONPath"},
		{"no choices", machine("A", `"A":{"Type":"Choice","Choices":[],"Default":"Z"},`+done), CodeSchema, "/States/A/Choices", "at least one"},
		{"a wait without a time", machine("A", `"A":{"Type":"Wait","End":true}`), CodeSchema, "/States/A", "exactly one"},
		{"a wait with two times", machine("A", `"A":{"Type":"Wait","Seconds":1,"Timestamp":"2016-08-18T17:33:00Z","End":true}`), CodeSchema, "/States/A", "exactly one"},
		{"a negative wait", machine("A", `"A":{"Type":"Wait","Seconds":-1,"End":true}`), CodeSchema, "/States/A/Seconds", "integer"},
		{"a timestamp without a zone", machine("A", `"A":{"Type":"Wait","Timestamp":"2016-08-18T17:33:00","End":true}`), CodeSchema, "/States/A/Timestamp", "2016"},
		{"a timestamp in lower case", machine("A", `"A":{"Type":"Wait","Timestamp":"2016-08-18t17:33:00z","End":true}`), CodeSchema, "/States/A/Timestamp", "2016"},
		{"Assign on Succeed", machine("Z", `"Z":{"Type":"Succeed","Assign":{"x":1}}`), CodeSchema, "/States/Z/Assign", "Assign"},
		{"the reserved variable", machine("A", `"A":{"Type":"Pass","Assign":{"states":1},"End":true}`), CodeSchema, "/States/A/Assign/states", "reserved"},
		{"a bad variable name", machine("A", `"A":{"Type":"Pass","Assign":{"1x":1},"End":true}`), CodeSchema, "/States/A/Assign/1x", "letter"},
		{"an outer variable assigned in a branch", machine("A", `"A":{"Type":"Pass","Assign":{"x":1},"Next":"P"},"P":{"Type":"Parallel","Branches":[{"StartAt":"B","States":{"B":{"Type":"Pass","Assign":{"x":2},"End":true}}}],"End":true}`), CodeSchema, "/States/P/Branches[0]/States/B/Assign/x", "outer"},
		{"an outer variable of a catcher assigned in a Map", machine("M", `"M":{"Type":"Map","ItemProcessor":{"StartAt":"B","States":{"B":{"Type":"Pass","Assign":{"x":2},"End":true}}},"Catch":[{"ErrorEquals":["E"],"Assign":{"x":1},"Next":"Z"}],"End":true},`+done), CodeSchema, "/States/M/ItemProcessor/States/B/Assign/x", "outer"},
		{"an EXPRESS child", distributedWith(`"ItemProcessor":{"ProcessorConfig":{"Mode":"DISTRIBUTED","ExecutionType":"EXPRESS"},` + inner + `}`), CodeUnsupported, "/States/M/ItemProcessor/ProcessorConfig/ExecutionType", "EXPRESS"},
		{"a child without a type", distributedWith(`"ItemProcessor":{"ProcessorConfig":{"Mode":"DISTRIBUTED"},` + inner + `}`), CodeSchema, "/States/M/ItemProcessor/ProcessorConfig/ExecutionType", "ExecutionType"},
		{"an unknown Mode", machine("M", `"M":{"Type":"Map","ItemProcessor":{"ProcessorConfig":{"Mode":"EVERYWHERE"},`+inner+`},"End":true}`), CodeSchema, "/States/M/ItemProcessor/ProcessorConfig/Mode", "DISTRIBUTED"},
		{"an ItemBatcher", distributedWith(`"ItemBatcher":{"MaxItemsPerBatch":2},` + processor), CodeUnsupported, "/States/M/ItemBatcher", "ItemBatcher"},
		{"a ResultWriter", distributedWith(`"ResultWriter":{},` + processor), CodeUnsupported, "/States/M/ResultWriter", "ResultWriter"},
		{"a CSV reader", distributedWith(reader(`"InputType":"CSV","CSVHeaderLocation":"FIRST_ROW"`) + processor), CodeUnsupported, "/States/M/ItemReader/ReaderConfig/InputType", "CSV"},
		{"a MANIFEST reader", distributedWith(reader(`"InputType":"MANIFEST"`) + processor), CodeUnsupported, "/States/M/ItemReader/ReaderConfig/InputType", "MANIFEST"},
		{"a pointer into the object", distributedWith(reader(`"InputType":"JSON","ItemsPointer":"/a"`) + processor), CodeUnsupported, "/States/M/ItemReader/ReaderConfig/ItemsPointer", "ItemsPointer"},
		{"a reader that says no type", distributedWith(reader(``) + processor), CodeSchema, "/States/M/ItemReader/ReaderConfig/InputType", "InputType"},
		{"a listing reader", distributedWith(`"ItemReader":{"Resource":"arn:aws:states:::s3:listObjectsV2","Arguments":{"Bucket":"b","Key":"k"},"ReaderConfig":{"InputType":"JSON"}},` + processor), CodeUnsupported, "/States/M/ItemReader/Resource", "listObjectsV2"},
		{"a reader of a version", distributedWith(`"ItemReader":{"Resource":"arn:aws:states:::s3:getObject","Arguments":{"Bucket":"b","Key":"k","VersionId":"1"},"ReaderConfig":{"InputType":"JSON"}},` + processor), CodeUnsupported, "/States/M/ItemReader/Arguments/VersionId", "VersionId"},
		{"JSONPath Parameters of a reader", distributedWith(`"ItemReader":{"Resource":"arn:aws:states:::s3:getObject","Parameters":{"Bucket":"b","Key":"k"},"ReaderConfig":{"InputType":"JSON"}},` + processor), CodeSchema, "/States/M/ItemReader/Parameters", "JSONPath"},
		{"a reader and Items", distributedWith(reader(`"InputType":"JSON"`) + `"Items":[1],` + processor), CodeSchema, "/States/M", "either"},
		{"a percentage over 100", distributedWith(`"ToleratedFailurePercentage":101,` + processor), CodeSchema, "/States/M/ToleratedFailurePercentage", "100"},
		{"a negative count", distributedWith(`"ToleratedFailureCount":-1,` + processor), CodeSchema, "/States/M/ToleratedFailureCount", "integer"},
		{"a label with a blank", distributedWith(`"Label":"a b",` + processor), CodeSchema, "/States/M/Label", "Label"},
		{"a label of 41 characters", distributedWith(`"Label":"` + strings.Repeat("a", 41) + `",` + processor), CodeSchema, "/States/M/Label", "Label"},
		{"an ItemReader", machine("M", `"M":{"Type":"Map","ItemReader":{},"ItemProcessor":{`+inner+`},"End":true}`), CodeUnsupported, "/States/M/ItemReader", "ItemReader"},
		{"a tolerated failure", machine("M", `"M":{"Type":"Map","ToleratedFailureCount":1,"ItemProcessor":{`+inner+`},"End":true}`), CodeUnsupported, "/States/M/ToleratedFailureCount", "ToleratedFailureCount"},
		{"the old Iterator", machine("M", `"M":{"Type":"Map","Iterator":{`+inner+`},"End":true}`), CodeUnsupported, "/States/M/Iterator", "ItemProcessor"},
		{"a Map without a processor", machine("M", `"M":{"Type":"Map","End":true}`), CodeSchema, "/States/M/ItemProcessor", "ItemProcessor"},
		{"Items that are an object", machine("M", `"M":{"Type":"Map","Items":{},"ItemProcessor":{`+inner+`},"End":true}`), CodeSchema, "/States/M/Items", "Items"},
		{"no branches", machine("P", `"P":{"Type":"Parallel","Branches":[],"End":true}`), CodeSchema, "/States/P/Branches", "at least one"},
		{"a retry of nothing", machine("A", `"A":{`+invoke+`,"Retry":[{"ErrorEquals":[]}],"End":true}`), CodeSchema, "/States/A/Retry[0]/ErrorEquals", "at least one"},
		{"States.ALL with company", machine("A", `"A":{`+invoke+`,"Retry":[{"ErrorEquals":["States.ALL","X"]}],"End":true}`), CodeSchema, "/States/A/Retry[0]/ErrorEquals", "alone"},
		{"States.ALL before another", machine("A", `"A":{`+invoke+`,"Catch":[{"ErrorEquals":["States.ALL"],"Next":"Z"},{"ErrorEquals":["X"],"Next":"Z"}],"End":true},`+done), CodeSchema, "/States/A/Catch[0]/ErrorEquals", "last"},
		{"an error of the language that does not exist", machine("A", `"A":{`+invoke+`,"Retry":[{"ErrorEquals":["States.Nope"]}],"End":true}`), CodeSchema, "/States/A/Retry[0]/ErrorEquals", "States.Nope"},
		{"a backoff below one", machine("A", `"A":{`+invoke+`,"Retry":[{"ErrorEquals":["X"],"BackoffRate":0.5}],"End":true}`), CodeSchema, "/States/A/Retry[0]/BackoffRate", "1.0"},
		{"an interval of 0", machine("A", `"A":{`+invoke+`,"Retry":[{"ErrorEquals":["X"],"IntervalSeconds":0}],"End":true}`), CodeSchema, "/States/A/Retry[0]/IntervalSeconds", "integer"},
		{"a maximum delay below the interval", machine("A", `"A":{`+invoke+`,"Retry":[{"ErrorEquals":["X"],"IntervalSeconds":5,"MaxDelaySeconds":5}],"End":true}`), CodeSchema, "/States/A/Retry[0]/MaxDelaySeconds", "greater"},
		{"an unknown jitter", machine("A", `"A":{`+invoke+`,"Retry":[{"ErrorEquals":["X"],"JitterStrategy":"HALF"}],"End":true}`), CodeSchema, "/States/A/Retry[0]/JitterStrategy", "FULL"},
		{"Retry on a Pass", machine("A", `"A":{"Type":"Pass","Retry":[],"End":true}`), CodeSchema, "/States/A/Retry", "Retry"},
		{"a number beyond a double", machine("A", `"A":{"Type":"Pass","Output":{"x":1e400},"End":true}`), CodeSchema, "/States/A/Output/x", "double"},
		{"nesting without end", machine("A", `"A":{"Type":"Pass","Output":`+strings.Repeat("[", 300)+strings.Repeat("]", 300)+`,"End":true}`), CodeJSON, "/", "nests"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, found := Parse([]byte(c.definition), engine)
			if m != nil {
				t.Fatal("accepted")
			}
			for _, d := range found {
				if d.Code == c.code && d.Location == c.location && strings.Contains(d.Message, c.message) {
					return
				}
			}
			t.Errorf("got %v, want %s at %s with %q", found, c.code, c.location, c.message)
		})
	}
}

func TestAllViolationsAreReported(t *testing.T) {
	_, found := Parse([]byte(machine("A", `"A":{"Type":"Pass","Foo":1,"Bar":2,"Next":"Nowhere"},"B":{"Type":"Task","End":true}`)), engine)
	var all []string
	for _, d := range found {
		all = append(all, d.Location)
	}
	for _, want := range []string{"/States/A/Foo", "/States/A/Bar", "/States/A/Next", "/States/B/Resource", "/States/B/Arguments", "/States/B"} {
		if !strings.Contains(strings.Join(all, " ")+" ", want+" ") {
			t.Errorf("%s is not among %v", want, all)
		}
	}
}

// Siblings may use one name each for itself; only the scopes around are closed.
func TestSiblingScopesMayShareAName(t *testing.T) {
	branch := func(n string) string {
		return `{"StartAt":"` + n + `","States":{"` + n + `":{"Type":"Pass","Assign":{"x":1},"End":true}}}`
	}
	m, found := Parse([]byte(machine("P", `"P":{"Type":"Parallel","Branches":[`+branch("A")+`,`+branch("B")+`],"Assign":{"y":1},"End":true}`)), engine)
	if m == nil {
		t.Fatal(found)
	}
}

func TestPartitionsOfTheResource(t *testing.T) {
	for _, partition := range []string{"aws", "aws-cn", "aws-us-gov"} {
		m, found := Parse([]byte(machine("A", `"A":{"Type":"Task","Resource":"arn:`+partition+`:states:::lambda:invoke.waitForTaskToken","Arguments":{"FunctionName":"f"},"HeartbeatSeconds":5,"TimeoutSeconds":6,"End":true}`)), engine)
		if m == nil {
			t.Fatal(found)
		}
		if s := m.States["A"].(*Task); !s.WaitForToken || s.Resource != "invoke.waitForTaskToken" {
			t.Errorf("%+v", s)
		}
	}
}

func TestRetryDelay(t *testing.T) {
	s := time.Second
	for _, c := range []struct {
		name   string
		r      Retrier
		n      int64
		random float64
		want   time.Duration
	}{
		{"the first delay is the interval", Retrier{Interval: 3 * s, BackoffRate: 2}, 0, 0.5, 3 * s},
		{"the second is multiplied once", Retrier{Interval: 3 * s, BackoffRate: 2}, 1, 0.5, 6 * s},
		{"the third twice", Retrier{Interval: 3 * s, BackoffRate: 1.5}, 2, 0.5, 6750 * time.Millisecond},
		{"a rate of 1 stays", Retrier{Interval: 3 * s, BackoffRate: 1}, 50, 0.5, 3 * s},
		{"the cap holds", Retrier{Interval: 3 * s, BackoffRate: 2, MaxDelay: 10 * s}, 5, 0.5, 10 * s},
		{"full jitter takes a part", Retrier{Interval: 8 * s, BackoffRate: 2, FullJitter: true}, 0, 0.25, 2 * s},
		{"full jitter is below the cap", Retrier{Interval: 8 * s, BackoffRate: 2, MaxDelay: 20 * s, FullJitter: true}, 9, 0.5, 10 * s},
		{"full jitter may be nothing", Retrier{Interval: 8 * s, BackoffRate: 2, FullJitter: true}, 3, 0, 0},
		{"an overflow is capped", Retrier{Interval: 8 * s, BackoffRate: 1e300}, 9, 0, maxSeconds * s},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.r.Delay(c.n, func() float64 { return c.random }); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func TestDefaultsOfARetrier(t *testing.T) {
	m, found := Parse([]byte(machine("A", `"A":{`+invoke+`,"Retry":[{"ErrorEquals":["X"]}],"End":true}`)), engine)
	if m == nil {
		t.Fatal(found)
	}
	r := m.States["A"].(*Task).Retry[0]
	if r.Interval != time.Second || r.MaxAttempts != 3 || r.BackoffRate != 2 || r.MaxDelay != 0 || r.FullJitter {
		t.Errorf("%+v", r)
	}
}

// Whatever the text, the parser ends, and says either what the machine is or
// why it is none.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		``, `{`, `[]`, `null`, `{"QueryLanguage":"JSONata"}`, machine("Z", done),
		machine("A", `"A":{`+invoke+`,"Retry":[{"ErrorEquals":["X"],"BackoffRate":1.5}],"Catch":[{"ErrorEquals":["States.ALL"],"Next":"Z"}],"End":true},`+done),
		machine("M", `"M":{"Type":"Map","Items":[1],"ItemProcessor":{`+inner+`},"End":true}`),
		machine("A", `"A":{"Type":"Choice","Choices":[{"Condition":"{% true %}","Next":"Z"}]},`+done),
		machine("A", `"A":{"Type":"Wait","Timestamp":"2016-08-18T17:33:00Z","End":true}`),
		machine("A", `"A":[]`), machine("A", `"A":{"Type":"Parallel","Branches":[1]}`), `{"States":{"A":{"Assign":1,"Catch":[3]}}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, definition []byte) {
		m, found := Parse(definition, engine)
		if (m == nil) == (len(found) == 0) {
			t.Fatalf("machine %v with diagnostics %v", m, found)
		}
		if m == nil {
			return
		}
		m.Walk(func(w *Workflow) {
			if w.States[w.StartAt] == nil {
				t.Fatalf("%s does not start", definition)
			}
			for name, s := range w.States {
				if next := s.Common().Next; next != "" && w.States[next] == nil {
					t.Fatalf("%s leads nowhere", name)
				}
			}
		})
	})
}

func FuzzReadLambdaArguments(f *testing.F) {
	for _, seed := range []string{`{"FunctionName":"f"}`, `{"FunctionName":"f","Payload":null}`, `{"FunctionName":1}`, `[]`, `{"Payload":{"a":[1]},"FunctionName":"f","InvocationType":"RequestResponse"}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, arguments []byte) {
		a, err := ReadLambdaArguments(arguments)
		if err == nil && (a.FunctionName == "" || len(a.Payload) == 0) {
			t.Fatalf("%s gives %+v", arguments, a)
		}
	})
}

func TestNoDelayIsNegative(t *testing.T) {
	r := Retrier{Interval: math.MaxInt32 * time.Second, BackoffRate: math.MaxFloat64}
	for n := range int64(100) {
		if d := r.Delay(n, func() float64 { return 0.999 }); d < 0 {
			t.Fatalf("attempt %d waits %v", n, d)
		}
	}
}
