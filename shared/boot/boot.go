// Package boot starts a Lambda: its configuration from the environment, its
// logger, its handler. The AWS clients are in packages below it, one a service,
// so that a binary links only the services that it uses.
//
// It knows no domain. Configuration is read here and handed on as values:
// no other package looks at the environment.
package boot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-lambda-go/lambda/messages"
	"github.com/aws/aws-lambda-go/lambdacontext"
	"github.com/go-json-experiment/json"

	"github.com/pxhost/pxhost/shared/tool"
)

// An Env is the environment of the process. It remembers what was needed and
// not there, so that one start reports everything that is missing.
type Env struct {
	lookup  func(string) (string, bool)
	missing []string
	wrong   []string // what is set and cannot be read, and what it must be
}

// NewEnv returns an Env over a function like os.LookupEnv.
func NewEnv(lookup func(string) (string, bool)) *Env { return &Env{lookup: lookup} }

// Need returns a variable that must be set and not empty.
func (e *Env) Need(name string) string {
	value := e.Get(name)
	if value == "" && !slices.Contains(e.missing, name) {
		e.missing = append(e.missing, name)
	}
	return value
}

// Get returns a variable, or "".
func (e *Env) Get(name string) string {
	value, _ := e.lookup(name)
	return value
}

// Duration returns a variable that holds a duration as Go writes it ("30m"), from
// least to most, or 0 if it is not set.
func (e *Env) Duration(name string, least, most time.Duration) time.Duration {
	value := e.Get(name)
	if value == "" {
		return 0
	}
	d, err := time.ParseDuration(value)
	if err != nil || d < least || d > most {
		e.wrong = append(e.wrong, fmt.Sprintf("%s is no duration from %v to %v", name, least, most))
		return 0
	}
	return d
}

// Whole returns a variable that holds an integer from least to most, or 0 if it is not
// set.
func (e *Env) Whole(name string, least, most int) int {
	value := e.Get(name)
	if value == "" {
		return 0
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < least || n > most {
		e.wrong = append(e.wrong, fmt.Sprintf("%s is no integer from %d to %d", name, least, most))
		return 0
	}
	return n
}

// PlannedCatalog is the switch of the planned catalog of Components (K4).
const PlannedCatalog = "PX_PLANNED_CATALOG"

// Switch returns a variable that is on or off; not set, it is off.
func (e *Env) Switch(name string) bool {
	switch e.Get(name) {
	case "on":
		return true
	case "", "off":
	default:
		e.wrong = append(e.wrong, name+" is neither on nor off")
	}
	return false
}

// Refuse says that a variable is set and cannot be used, and why.
func (e *Env) Refuse(name, why string) { e.wrong = append(e.wrong, name+" "+why) }

// Err names the variables that Need did not find and those that cannot be read.
func (e *Env) Err() error {
	var errs []error
	if len(e.missing) > 0 {
		errs = append(errs, fmt.Errorf("boot: the environment lacks %s", strings.Join(e.missing, ", ")))
	}
	for _, text := range e.wrong {
		errs = append(errs, errors.New("boot: "+text))
	}
	return errors.Join(errs...)
}

// Check ends the process if there is an error: an init that fails is retried by
// Lambda in a new process, and says why in the log.
func Check(err error) {
	if err != nil {
		Logger().Error("the function cannot start", "cause", err)
		os.Exit(1)
	}
}

// Must returns the value, or ends the process as Check does.
func Must[T any](value T, err error) T {
	Check(err)
	return value
}

// Start serves invocations with the handler until the process ends. It does not
// return.
func Start(handler lambda.Handler) {
	spendMemory(NewEnv(os.LookupEnv))
	lambda.Start(reporter{handler})
}

// spendMemory lets garbage pile up in the memory that the function is paid for:
// by default, the few megabytes that live here were collected every few calls. The
// limit keeps a large call from taking more than there is.
func spendMemory(env *Env) {
	if mb, err := strconv.ParseInt(env.Get("AWS_LAMBDA_FUNCTION_MEMORY_SIZE"), 10, 64); err == nil && mb > 0 {
		debug.SetGCPercent(400)
		debug.SetMemoryLimit(mb << 20 * 3 / 4)
	}
}

// Tool returns the handler of a tool: the envelope goes out as it is.
func Tool(handle tool.Handler) lambda.Handler {
	return handlerFunc(func(ctx context.Context, payload []byte) ([]byte, error) {
		var request tool.Request
		if err := json.Unmarshal(payload, &request, json.RejectUnknownMembers(true)); err != nil {
			Logger().ErrorContext(ctx, "the payload is not a tool's request", "cause", err)
			return nil, tool.Fatal(err)
		}
		return handle(ctx, request)
	})
}

// Handle returns the handler of a typed function: its input and output are JSON,
// read strictly and written compactly.
func Handle[In, Out any](f func(context.Context, In) (Out, error)) lambda.Handler {
	return handlerFunc(func(ctx context.Context, payload []byte) ([]byte, error) {
		var in In
		if err := json.Unmarshal(payload, &in, json.RejectUnknownMembers(true)); err != nil {
			Logger().ErrorContext(ctx, "the payload is not what this function takes", "cause", err)
			return nil, tool.Fatal(err)
		}
		out, err := f(ctx, in)
		if err != nil {
			return nil, err
		}
		return json.Marshal(out, json.Deterministic(true))
	})
}

type handlerFunc func(context.Context, []byte) ([]byte, error)

func (f handlerFunc) Invoke(ctx context.Context, payload []byte) ([]byte, error) {
	return f(ctx, payload)
}

// A reporter gives each error the errorType by which the endpoint and the state
// machines tell failures apart: that of the first error in the chain with a
// method ErrorType() string, as a *tool.Failure has. An error that says nothing
// is retryable, because nobody knows that it would happen again.
//
// A panic ends the process, since nobody knows what it left behind. What was
// panicked with may quote what was worked on, so its type alone is reported; a
// runtime error says nothing but its kind.
type reporter struct{ handler lambda.Handler }

func (r reporter) Invoke(ctx context.Context, payload []byte) ([]byte, error) {
	defer func() {
		if p := recover(); p != nil {
			text := fmt.Sprintf("a panic with a %T", p)
			if known, ok := p.(runtime.Error); ok {
				text = known.Error()
			}
			Logger().ErrorContext(ctx, "the function panicked", "cause", text, "stack", string(debug.Stack()))
			panic(messages.InvokeResponse_Error{Message: text, Type: "Runtime.Panic", ShouldExit: true})
		}
	}()
	out, err := r.handler.Invoke(ctx, payload)
	if err == nil {
		return out, nil
	}
	kind := tool.RetryableErrorType
	var typed interface {
		error
		ErrorType() string
	}
	if errors.As(err, &typed) {
		kind = typed.ErrorType()
	}
	// The text of a *tool.Failure is fixed; the frame has logged its cause.
	Logger().ErrorContext(ctx, "the invocation failed", "errorType", kind, "cause", err)
	return nil, messages.InvokeResponse_Error{Message: err.Error(), Type: kind}
}

// Logger returns the process's logger: JSON lines on standard error, with the
// function's name and, inside an invocation, the requestId of the invocation.
// PX_LOG_LEVEL or AWS_LAMBDA_LOG_LEVEL sets the level (DEBUG, INFO, WARN, ERROR).
func Logger() *slog.Logger { return logger }

var logger = newLogger(os.Stderr, NewEnv(os.LookupEnv))

func newLogger(out io.Writer, env *Env) *slog.Logger {
	var level slog.Level // INFO
	for _, name := range []string{"AWS_LAMBDA_LOG_LEVEL", "PX_LOG_LEVEL"} {
		// What is no level stays INFO: a log must not keep a function from starting.
		_ = level.UnmarshalText([]byte(env.Get(name)))
	}
	var handler slog.Handler = slog.NewJSONHandler(out, &slog.HandlerOptions{Level: level})
	if name := env.Get("AWS_LAMBDA_FUNCTION_NAME"); name != "" {
		handler = handler.WithAttrs([]slog.Attr{slog.String("function", name)})
	}
	return slog.New(invocationHandler{handler})
}

// An invocationHandler adds the requestId of the invocation that ctx belongs to.
type invocationHandler struct{ slog.Handler }

func (h invocationHandler) Handle(ctx context.Context, record slog.Record) error {
	if invocation, ok := lambdacontext.FromContext(ctx); ok {
		record.AddAttrs(slog.String("requestId", invocation.AwsRequestID))
	}
	return h.Handler.Handle(ctx, record)
}

func (h invocationHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return invocationHandler{h.Handler.WithAttrs(attrs)}
}

func (h invocationHandler) WithGroup(name string) slog.Handler {
	return invocationHandler{h.Handler.WithGroup(name)}
}
