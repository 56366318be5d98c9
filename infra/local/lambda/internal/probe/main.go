// Command probe is the function that the tests of the local host run: a real
// bootstrap whose behaviour its payload chooses.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-lambda-go/lambdacontext"
)

var born = time.Now()
var calls int

type request struct {
	Do      string `json:"do"`
	Millis  int    `json:"millis"`
	Bytes   int    `json:"bytes"`
	Command string `json:"command"`
}

func main() {
	if os.Getenv("PROBE_INIT") == "exit" {
		fmt.Println("cannot start")
		os.Exit(3)
	}
	if os.Getenv("PROBE_INIT") == "hang" {
		time.Sleep(time.Hour)
	}
	lambda.Start(handle)
}

func handle(ctx context.Context, raw json.RawMessage) (any, error) {
	calls++
	var in request
	if json.Unmarshal(raw, &in) != nil || in.Do == "" {
		return raw, nil // echo
	}
	lc, _ := lambdacontext.FromContext(ctx)
	deadline, _ := ctx.Deadline()
	switch in.Do {
	case "error":
		return nil, errors.New("asked to fail")
	case "panic":
		panic("asked to panic")
	case "exit":
		os.Exit(7)
	case "print":
		fmt.Println("to stdout")
		fmt.Fprintln(os.Stderr, "to stderr")
	case "sleep":
		time.Sleep(time.Duration(in.Millis) * time.Millisecond)
	case "bytes":
		return strings.Repeat("x", in.Bytes), nil
	case "child": // a grandchild that outlives nothing
		cmd := exec.Command("/bin/sh", "-c", in.Command)
		if err := cmd.Start(); err != nil {
			return nil, err
		}
		time.Sleep(time.Duration(in.Millis) * time.Millisecond)
	case "allocate":
		b := make([]byte, in.Bytes)
		for i := range b {
			b[i] = 1
		}
		time.Sleep(time.Duration(in.Millis) * time.Millisecond)
		return len(b), nil
	case "http":
		return map[string]any{"statusCode": http.StatusTeapot, "headers": map[string]string{"WWW-Authenticate": "Bearer"}, "body": "short and stout"}, nil
	}
	return map[string]any{
		"pid": os.Getpid(), "calls": calls, "ageMillis": time.Since(born).Milliseconds(),
		"requestId": lc.AwsRequestID, "arn": lc.InvokedFunctionArn,
		"remainingMillis": time.Until(deadline).Milliseconds(), "env": os.Environ(),
	}, nil
}
