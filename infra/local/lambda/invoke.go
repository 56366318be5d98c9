package lambda

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
)

const pathPrefix, pathSuffix = "/2015-03-31/functions/", "/invocations"

// FunctionOf returns the name or ARN that an Invoke request addresses, or
// false if the request is no Invoke.
func FunctionOf(r *http.Request) (string, bool) {
	rest, ok := strings.CutPrefix(r.URL.Path, pathPrefix)
	if !ok || r.Method != http.MethodPost {
		return "", false
	}
	name, ok := strings.CutSuffix(rest, pathSuffix)
	if !ok || name == "" || strings.Contains(name, "/") {
		return "", false
	}
	return name, true
}

// InputFields lists every field of the SDK's InvokeInput: true is supported,
// false is refused by name where it is set. A test compares it with the SDK.
var InputFields = map[string]bool{
	"FunctionName": true, "InvocationType": true, "Payload": true, "ClientContext": true,
	"LogType":   true, // None only
	"Qualifier": true, // $LATEST only
	"TenantId":  false, "DurableExecutionName": false,
}

// ServeHTTP answers Lambda's Invoke API for a request whose signature and
// permission were checked. Any other operation of Lambda is refused by name.
func (h *Host) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	requestID := newRequestID()
	w.Header().Set("X-Amzn-Requestid", requestID)
	name, ok := FunctionOf(r)
	if !ok {
		writeError(w, &Error{Status: 404, Code: "UnsupportedOperationException", Message: "px local supports only Invoke of Lambda, not " + r.Method + " " + r.URL.Path})
		return
	}
	if err := checkInput(r); err != nil {
		writeError(w, err)
		return
	}
	kind := r.Header.Get("X-Amz-Invocation-Type")
	limit := MaxRequest
	if kind == "Event" {
		limit = MaxEventRequest
	}
	payload, err := io.ReadAll(io.LimitReader(r.Body, int64(limit)+1))
	if err != nil {
		writeError(w, &Error{Status: 400, Code: "InvalidRequestContentException", Message: "The request body could not be read."})
		return
	}
	if len(payload) > limit {
		io.Copy(io.Discard, io.LimitReader(r.Body, 32<<20)) // so that the client reads our answer
		writeError(w, tooLarge(limit))
		return
	}
	switch kind {
	case "", "RequestResponse":
		res := h.invoke(r.Context(), name, payload, r.Header.Get("X-Amz-Client-Context"), requestID)
		if res.err != nil {
			writeError(w, res.err)
			return
		}
		head := w.Header()
		head.Set("Content-Type", "application/json")
		head.Set("X-Amz-Executed-Version", "$LATEST")
		if res.functionError != "" {
			head.Set("X-Amz-Function-Error", res.functionError)
		}
		head.Set("Content-Length", strconv.Itoa(len(res.payload)))
		w.Write(res.payload)
	case "Event":
		if err := h.InvokeEvent(name, payload); err != nil {
			writeError(w, err)
			return
		}
		w.WriteHeader(http.StatusAccepted)
	case "DryRun":
		if _, err := h.lookup(name); err != nil {
			writeError(w, err)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	default:
		writeError(w, &Error{Status: 400, Code: "InvalidParameterValueException", Message: "InvocationType must be RequestResponse, Event or DryRun."})
	}
}

func checkInput(r *http.Request) error {
	q := r.URL.Query()
	if v := q.Get("Qualifier"); v != "" && v != "$LATEST" {
		return &Error{Status: 400, Code: "InvalidParameterValueException", Message: "px local does not support versions or aliases (Qualifier)."}
	}
	if v := r.Header.Get("X-Amz-Log-Type"); v != "" && v != "None" {
		return &Error{Status: 400, Code: "InvalidParameterValueException", Message: "px local does not support LogType Tail; it prints the functions' logs."}
	}
	for header, field := range map[string]string{"X-Amz-Tenant-Id": "TenantId", "X-Amz-Durable-Execution-Name": "DurableExecutionName"} {
		if r.Header.Get(header) != "" {
			return &Error{Status: 400, Code: "InvalidParameterValueException", Message: "px local does not support " + field + "."}
		}
	}
	for k := range q {
		if k != "Qualifier" {
			return &Error{Status: 400, Code: "InvalidParameterValueException", Message: "px local does not support the query parameter " + k + "."}
		}
	}
	return nil
}

func writeError(w http.ResponseWriter, err error) {
	var e *Error
	if !errors.As(err, &e) {
		e = &Error{Status: 500, Code: "ServiceException", Message: "The invocation was given up: " + err.Error()}
	}
	body := map[string]string{"Message": e.Message, "Type": "User"}
	if e.Status >= 500 {
		body["Type"] = "Server"
	}
	if e.Reason != "" {
		body["Reason"] = e.Reason
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Amzn-Errortype", e.Code)
	w.WriteHeader(e.Status)
	json.NewEncoder(w).Encode(body)
}
