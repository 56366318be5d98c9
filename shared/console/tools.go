package console

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/tool"
)

// callable are the tools that the console calls. All of them read, but run_cancel: a
// session that may approve must plan, apply and start nothing, or one credential would do
// both sides of a review (U6).
var callable = []string{"project_search", "pxflow_search", "pxflow_describe", "report_search", "report_describe", "function_search", "function_describe", "run_get", "run_cancel", "result_read"}

const (
	toolTime  = 20 * time.Second
	toolShare = 2 << 20 // bytes of an answer
)

// tool calls a tool as the person who is signed in, and reads the data of its answer into
// out. What the tool refuses is a *Problem with its findings, which the caller may look at.
func (h *Handler) tool(ctx context.Context, v *Visit, name string, arguments, out any) (outcome.Envelope, error) {
	if !slices.Contains(callable, name) {
		return outcome.Envelope{}, fmt.Errorf("console: %s is not called from here", name)
	}
	text, err := json.Marshal(arguments, json.Deterministic(true))
	if err != nil {
		return outcome.Envelope{}, fmt.Errorf("console: %s: %w", name, err)
	}
	ctx, cancel := context.WithTimeout(ctx, toolTime)
	defer cancel()
	deadline, _ := ctx.Deadline()
	answer, err := h.Call(ctx, tool.Request{Version: tool.RequestVersion, RequestID: v.RequestID, Tool: name, Principal: v.Who, Arguments: text, Deadline: deadline, ByteShare: toolShare})
	if err != nil {
		return outcome.Envelope{}, fmt.Errorf("console: %s: %w", name, err)
	}
	var envelope outcome.Envelope
	if err := json.Unmarshal(answer, &envelope); err != nil {
		return outcome.Envelope{}, fmt.Errorf("console: %s: the answer is no envelope: %w", name, err)
	}
	if !envelope.OK {
		return envelope, refused(envelope.Diagnostics)
	}
	if out == nil {
		return envelope, nil
	}
	if err := json.Unmarshal(envelope.Data, out); err != nil {
		return envelope, fmt.Errorf("console: %s: the answer has not the expected shape: %w", name, err)
	}
	return envelope, nil
}
