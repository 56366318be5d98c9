package console

import (
	"fmt"
	"net/http"

	"github.com/go-json-experiment/json"
)

// badge is the class of the badge of a state, of whatever has states. The word stands in
// it: colour says nothing alone.
func badge(state any) string {
	switch fmt.Sprint(state) {
	case "Succeeded", "Current", "done", "applied", "ready", "connected":
		return "badge good"
	case "Failed", "failed", "mismatch", "dangling", "missing", "broken", "unavailable":
		return "badge bad"
	case "Stale", "Cancelled", "Cancelling", "incomplete", "unchecked", "converted":
		return "badge warn"
	case "Running", "running", "Queued":
		return "badge live"
	}
	return "badge"
}

// badRequest is of an address or form that no page of the console makes.
func badRequest(text string) *Problem {
	return &Problem{Status: http.StatusBadRequest, Title: "The address or form is not right", Text: text}
}

func plain(value any) (string, error) {
	if text, ok := value.(string); ok {
		return text, nil
	}
	text, err := json.Marshal(value, json.Deterministic(true))
	return string(text), err
}
