package jsonata

import (
	"crypto/md5"
	"crypto/rand"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	mathrand "math/rand/v2"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf16"

	"github.com/dlclark/regexp2/v2"
	"github.com/dop251/goja"
)

// Version is the version of the vendored implementation.
const Version = "2.0.6"

// librarySHA256 is the sum of npm's jsonata.js of that version.
const librarySHA256 = "8327cafae2779d31512939cc45eba2f1b3fff3c09cdf7906ed457c31f198302b"

//go:embed vendored/jsonata.js
var librarySource string

//go:embed glue.js
var glueSource string

// The functions of JSONata 2.0.6 plus those Step Functions adds, less $eval.
var functions = map[string]bool{}

func init() {
	// goja's backtracking matcher cannot be interrupted, and gives up only after
	// this time, which is for ever by default. To JavaScript that looks like no
	// match; but by then the evaluation's own limit, which began before, has
	// passed too, and its interrupt is the first thing JavaScript sees.
	regexp2.DefaultMatchTimeout = defaultLimit
	for name := range strings.FieldsSeq(`
		sum count max min average string substring substringBefore substringAfter lowercase uppercase length trim pad
		match contains replace split join formatNumber formatBase formatInteger parseInteger number floor ceil round
		abs sqrt power random boolean not map zip filter single reduce sift keys lookup append exists spread merge
		reverse each error assert type sort shuffle distinct base64encode base64decode encodeUrlComponent encodeUrl
		decodeUrlComponent decodeUrl toMillis fromMillis clone now millis
		partition range hash uuid parse`) {
		functions[name] = true
	}
}

// compiledLibrary is compiled once a process: a runtime then starts in a few
// milliseconds instead of about fifteen.
var compiledLibrary = sync.OnceValues(func() ([2]*goja.Program, error) {
	library, err := goja.Compile("jsonata.js", "(function(){var module={exports:{}};var exports=module.exports;\n"+librarySource+"\nreturn module.exports;})()", false)
	if err != nil {
		return [2]*goja.Program{}, fmt.Errorf("compile jsonata.js: %w", err)
	}
	glue, err := goja.Compile("glue.js", glueSource, false)
	if err != nil {
		return [2]*goja.Program{}, fmt.Errorf("compile glue.js: %w", err)
	}
	return [2]*goja.Program{library, glue}, nil
})

// Error is why an expression does not compile or gives no JSON value.
type Error struct {
	Code    string // JSONata's code ("T2001"), or empty
	Message string
	// Undefined tells that the expression returned nothing. Step Functions
	// words that case in its own way.
	Undefined bool
}

func (e *Error) Error() string {
	if e.Code == "" {
		return e.Message
	}
	return e.Code + ": " + e.Message
}

// Options of an Engine.
type Options struct {
	// Clock is what $now and $millis read. Default time.Now.
	Clock func() time.Time
	// Limit bounds one evaluation. Default 5 s, which is also the most: a regular
	// expression that backtracks without end is not given up earlier.
	Limit time.Duration
}

const defaultLimit = 5 * time.Second

// Engine compiles and evaluates. It is safe for concurrent use: each
// evaluation has a JavaScript runtime for itself, taken from a pool.
type Engine struct {
	options Options
	pool    sync.Pool

	mu       sync.Mutex
	programs map[string]*Program
}

// New makes an engine.
func New(options Options) *Engine {
	if options.Clock == nil {
		options.Clock = time.Now
	}
	if options.Limit <= 0 || options.Limit > defaultLimit {
		options.Limit = defaultLimit
	}
	return &Engine{options: options, programs: map[string]*Program{}}
}

// Program is a compiled expression.
type Program struct {
	Source string
	path   []string // of a plain path: the variable, then the names
	used   []string // variables to bind, `states` left out
	states []string // members of $states that are read; nil when none
}

// Bindings are the values an expression sees, as JSON texts. Each is asked for
// only when the expression reads it.
type Bindings struct {
	// States finds a member of $states: input, result, errorOutput or context.
	// May be nil.
	States func(member string) ([]byte, bool)
	// Var finds a variable's value. May be nil.
	Var func(name string) ([]byte, bool)
}

// maxPrograms bounds the cache of compiled expressions; over it, it starts anew.
const maxPrograms = 4096

// Compile checks an expression (without its {% %}) and returns its program.
// The error is an *Error when the expression is at fault.
func (e *Engine) Compile(source string) (*Program, error) {
	e.mu.Lock()
	program := e.programs[source]
	e.mu.Unlock()
	if program != nil {
		return program, nil
	}
	vm, err := e.take()
	if err != nil {
		return nil, err
	}
	program, err = vm.inspect(source)
	if overflow := (*goja.StackOverflowError)(nil); errors.As(err, &overflow) {
		return nil, &Error{Message: "the expression nests too deeply"} // and the runtime is given up
	}
	e.pool.Put(vm)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	if len(e.programs) >= maxPrograms {
		e.programs = map[string]*Program{}
	}
	e.programs[source] = program
	e.mu.Unlock()
	return program, nil
}

// Eval evaluates a program to a JSON text. The error is an *Error when the
// expression or its values are at fault.
func (e *Engine) Eval(p *Program, b Bindings) ([]byte, error) {
	if p.path != nil {
		if out, ok := evalPath(p.path, b); ok {
			if out == nil {
				return nil, undefined()
			}
			return out, nil
		}
	}
	return e.evalScript(p, b)
}

func undefined() *Error {
	return &Error{Message: "returned nothing (undefined)", Undefined: true}
}

func (e *Engine) evalScript(p *Program, b Bindings) ([]byte, error) {
	vm, err := e.take()
	if err != nil {
		return nil, err
	}
	out, healthy, err := vm.eval(p, b, e.options.Limit)
	if healthy {
		e.pool.Put(vm)
	}
	return out, err
}

func (e *Engine) take() (*runtime, error) {
	if vm, ok := e.pool.Get().(*runtime); ok {
		return vm, nil
	}
	return newRuntime(e.options.Clock)
}

// runtime is one JavaScript world. Not safe for concurrent use.
type runtime struct {
	js                                  *goja.Runtime
	compile, inspectFn, evaluate, descr goja.Callable
	parse                               goja.Callable
	expressions                         map[string]goja.Value
	result                              goja.Value
	failure                             goja.Value
	settled                             bool
	done                                goja.Value
}

func newRuntime(clock func() time.Time) (*runtime, error) {
	programs, err := compiledLibrary()
	if err != nil {
		return nil, err
	}
	js := goja.New()
	js.SetTimeSource(clock)
	js.SetMaxCallStackSize(2048)
	library, err := js.RunProgram(programs[0])
	if err != nil {
		return nil, fmt.Errorf("start jsonata.js: %w", err)
	}
	glueValue, err := js.RunProgram(programs[1])
	if err != nil {
		return nil, fmt.Errorf("start glue.js: %w", err)
	}
	glue, _ := goja.AssertFunction(glueValue)
	host := js.NewObject()
	for name, value := range map[string]any{
		"hash": hashHex, "uuid": newUUID,
		"random":       func() float64 { return mathrand.Float64() },
		"randomSeeded": func(seed int64) float64 { return mathrand.New(mathrand.NewPCG(uint64(seed), 0)).Float64() },
	} {
		if err := host.Set(name, value); err != nil {
			return nil, err
		}
	}
	out, err := glue(goja.Undefined(), library, host)
	if err != nil {
		return nil, fmt.Errorf("start glue.js: %w", err)
	}
	object := out.ToObject(js)
	vm := &runtime{js: js, expressions: map[string]goja.Value{}}
	for name, target := range map[string]*goja.Callable{
		"compile": &vm.compile, "inspect": &vm.inspectFn, "evaluate": &vm.evaluate, "describe": &vm.descr, "parse": &vm.parse,
	} {
		call, ok := goja.AssertFunction(object.Get(name))
		if !ok {
			return nil, fmt.Errorf("glue.js has no function %s", name)
		}
		*target = call
	}
	vm.done = js.ToValue(func(call goja.FunctionCall) goja.Value {
		vm.result, vm.failure, vm.settled = call.Argument(0), call.Argument(1), true
		return goja.Undefined()
	})
	return vm, nil
}

func (vm *runtime) expression(source string) (goja.Value, error) {
	if expression := vm.expressions[source]; expression != nil {
		return expression, nil
	}
	expression, err := vm.compile(goja.Undefined(), vm.js.ToValue(source))
	if err != nil {
		return nil, vm.thrown(err)
	}
	if len(vm.expressions) >= maxPrograms {
		vm.expressions = map[string]goja.Value{}
	}
	vm.expressions[source] = expression
	return expression, nil
}

// thrown turns what JavaScript threw into an *Error.
func (vm *runtime) thrown(err error) error {
	var exception *goja.Exception
	if !errors.As(err, &exception) {
		return err
	}
	return vm.describe(exception.Value())
}

func (vm *runtime) describe(value goja.Value) error {
	out, err := vm.descr(goja.Undefined(), value)
	if err != nil {
		return fmt.Errorf("describe a JSONata error: %w", err)
	}
	pair := out.ToObject(vm.js)
	return &Error{Code: pair.Get("0").String(), Message: pair.Get("1").String()}
}

func (vm *runtime) inspect(source string) (*Program, error) {
	if strings.TrimSpace(source) == "" {
		return nil, &Error{Message: "the expression is empty"}
	}
	expression, err := vm.expression(source)
	if err != nil {
		return nil, err
	}
	out, err := vm.inspectFn(goja.Undefined(), expression)
	if err != nil {
		return nil, fmt.Errorf("inspect %q: %w", source, err)
	}
	var found struct {
		Used, Bound, Called, States, Plain []string
		AllStates                          bool
		Context                            *string
	}
	if err := json.Unmarshal([]byte(out.String()), &found); err != nil {
		return nil, fmt.Errorf("inspect %q: %w", source, err)
	}
	if found.Context != nil {
		return nil, &Error{Message: "there is no context value at the top level: " + *found.Context + " cannot be used there"}
	}
	bound := map[string]bool{}
	for _, name := range found.Bound {
		bound[name] = true
	}
	for _, name := range found.Called {
		switch {
		case bound[name]:
		case name == "eval":
			return nil, &Error{Message: "$eval is not supported; use $parse to read JSON"}
		case !functions[name]:
			return nil, &Error{Message: "there is no function $" + name}
		}
	}
	program := &Program{Source: source}
	for _, name := range found.Used {
		switch {
		case name == "eval" && !bound[name]:
			return nil, &Error{Message: "$eval is not supported; use $parse to read JSON"}
		case name == "states" || name == "" || name == "$":
		default:
			program.used = append(program.used, name)
		}
	}
	sort.Strings(program.used)
	program.states = found.States
	if found.AllStates {
		program.states = []string{"input", "result", "errorOutput", "context"}
	}
	if len(found.Plain) > 0 && !functions[found.Plain[0]] && !(found.Plain[0] == "states" && len(found.Plain) == 1) {
		program.path = found.Plain
	}
	return program, nil
}

// eval reports, beside the result, whether the runtime can be used again: one
// that was interrupted or overflowed its stack may hold half-run jobs.
func (vm *runtime) eval(p *Program, b Bindings, limit time.Duration) (out []byte, healthy bool, err error) {
	expression, err := vm.expression(p.Source)
	if err != nil {
		return nil, true, err
	}
	bindings := vm.js.NewObject()
	bind := func(object *goja.Object, name string, text []byte) error {
		value, err := vm.parse(goja.Undefined(), vm.js.ToValue(string(text)))
		if err != nil {
			// Not JSON to JavaScript, such as a number beyond a double's range.
			return &Error{Message: "the value of $" + name + " cannot be read: " + vm.thrown(err).Error()}
		}
		return object.Set(name, value)
	}
	for _, name := range p.used {
		if b.Var == nil {
			break
		}
		if text, ok := b.Var(name); ok {
			if err := bind(bindings, name, text); err != nil {
				return nil, true, err
			}
		}
	}
	if p.states != nil {
		states := vm.js.NewObject()
		for _, name := range p.states {
			if b.States == nil {
				break
			}
			if text, ok := b.States(name); ok {
				if err := bind(states, name, text); err != nil {
					return nil, true, err
				}
			}
		}
		if err := bindings.Set("states", states); err != nil {
			return nil, true, err
		}
	}
	vm.result, vm.failure, vm.settled = nil, nil, false
	timer := time.AfterFunc(limit, func() { vm.js.Interrupt("limit") })
	_, err = vm.evaluate(goja.Undefined(), expression, bindings, vm.done)
	stopped := timer.Stop()
	if err != nil {
		var interrupted *goja.InterruptedError
		var overflow *goja.StackOverflowError
		switch {
		case errors.As(err, &interrupted):
			return nil, false, &Error{Message: "the evaluation took longer than " + limit.String()}
		case errors.As(err, &overflow):
			return nil, false, &Error{Message: "the evaluation nests too deeply"}
		}
		return nil, false, vm.thrown(err)
	}
	if !vm.settled {
		return nil, false, &Error{Message: "the evaluation did not end"}
	}
	// A timer that fired just now would interrupt the next evaluation.
	healthy = stopped
	if vm.failure != nil && !goja.IsUndefined(vm.failure) {
		return nil, healthy, vm.describe(vm.failure)
	}
	if vm.result == nil || goja.IsUndefined(vm.result) {
		return nil, healthy, undefined()
	}
	out, err = appendJSON(nil, vm.result, 0)
	return out, healthy, err
}

const maxDepth = 200

// appendJSON is JSON.stringify without its silences: it refuses what has no
// JSON form instead of dropping it or writing null.
func appendJSON(dst []byte, value goja.Value, depth int) ([]byte, error) {
	if depth > maxDepth {
		return nil, &Error{Message: "the result nests too deeply"}
	}
	if goja.IsNull(value) {
		return append(dst, "null"...), nil
	}
	object, ok := value.(*goja.Object)
	if !ok {
		switch v := value.Export().(type) {
		case bool:
			return strconv.AppendBool(dst, v), nil
		case string:
			return appendString(dst, value)
		case int64:
			return strconv.AppendInt(dst, v, 10), nil
		case float64:
			if math.IsNaN(v) || math.IsInf(v, 0) {
				return nil, &Error{Message: "the result has a number that is not finite"}
			}
			if v == 0 {
				return append(dst, '0'), nil
			}
			return append(dst, value.String()...), nil
		}
		return nil, &Error{Message: "the result has a value without a JSON form"}
	}
	switch object.ClassName() {
	case "Array":
		dst = append(dst, '[')
		length := int(object.Get("length").ToInteger())
		for i := range length {
			if i > 0 {
				dst = append(dst, ',')
			}
			item := object.Get(strconv.Itoa(i))
			if item == nil || goja.IsUndefined(item) {
				return nil, &Error{Message: "the result has an array item that is nothing (undefined)", Undefined: true}
			}
			var err error
			if dst, err = appendJSON(dst, item, depth+1); err != nil {
				return nil, err
			}
		}
		return append(dst, ']'), nil
	case "Object":
		if lambda := object.Get("_jsonata_lambda"); lambda != nil && lambda.ToBoolean() {
			return nil, &Error{Message: "the result has a function, which has no JSON form"}
		}
		if builtin := object.Get("_jsonata_function"); builtin != nil && builtin.ToBoolean() {
			return nil, &Error{Message: "the result has a function, which has no JSON form"}
		}
		dst = append(dst, '{')
		n := 0
		for _, key := range object.Keys() {
			item := object.Get(key)
			if item == nil || goja.IsUndefined(item) {
				continue // as JSONata's own object constructor leaves it out
			}
			if n > 0 {
				dst = append(dst, ',')
			}
			n++
			dst = appendText(dst, key)
			dst = append(dst, ':')
			var err error
			if dst, err = appendJSON(dst, item, depth+1); err != nil {
				return nil, err
			}
		}
		return append(dst, '}'), nil
	}
	return nil, &Error{Message: "the result has a " + object.ClassName() + ", which has no JSON form"}
}

// appendString refuses lone surrogates, which UTF-8 cannot carry.
func appendString(dst []byte, value goja.Value) ([]byte, error) {
	text, ok := value.(goja.String)
	if ok {
		for i := 0; i < text.Length(); i++ {
			unit := rune(text.CharAt(i))
			if !utf16.IsSurrogate(unit) {
				continue
			}
			if i+1 >= text.Length() || utf16.DecodeRune(unit, rune(text.CharAt(i+1))) == '\uFFFD' {
				return nil, &Error{Message: "the result has a string with half a surrogate pair"}
			}
			i++
		}
	}
	return appendText(dst, value.String()), nil
}

func appendText(dst []byte, text string) []byte {
	quoted, err := json.Marshal(text)
	if err != nil { // a string always has a JSON form
		panic(err)
	}
	// json.Marshal escapes <, > and & for HTML; JavaScript does not.
	if strings.ContainsAny(text, "<>&") {
		replaced := strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(string(quoted))
		return append(dst, replaced...)
	}
	return append(dst, quoted...)
}

func hashHex(text, algorithm string) string {
	data := []byte(text)
	switch algorithm {
	case "MD5":
		sum := md5.Sum(data)
		return hex.EncodeToString(sum[:])
	case "SHA-1":
		sum := sha1.Sum(data)
		return hex.EncodeToString(sum[:])
	case "SHA-256":
		sum := sha256.Sum256(data)
		return hex.EncodeToString(sum[:])
	case "SHA-384":
		sum := sha512.Sum384(data)
		return hex.EncodeToString(sum[:])
	case "SHA-512":
		sum := sha512.Sum512(data)
		return hex.EncodeToString(sum[:])
	}
	return ""
}

func newUUID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails: crypto/rand ends the program instead
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[0:4], b[4:6], b[6:8], b[8:10], b[10:])
}
