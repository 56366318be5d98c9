package acceptance

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
)

// tabular is a Flow that hands its table through.
func tabular() m {
	contract := m{"type": "table", "columns": list{m{"columnKey": "x", "type": "number", "unit": "m"}, m{"columnKey": "note", "type": "string"}}}
	return m{"format": "pxflow/1", "flowKey": "tabular", "label": m{"en": "Tabular"}, "authoring": m{"kind": "native"},
		"inputs": m{"table": contract}, "nodes": m{},
		"results": m{"table": with(contract, m{"binding": flowInput("table")})}}
}

func tableOf(rows int, note string) m {
	out := list{}
	for i := range rows {
		out = append(out, list{float64(i) / 7, note})
	}
	return m{"columns": list{m{"columnKey": "x", "type": "number", "unit": "m"}, m{"columnKey": "note", "type": "string"}}, "rows": out}
}

type large struct {
	Value   json.RawMessage
	Schema  struct{ Rows int }
	Bytes   int64
	Preview struct{ Rows []any }
}

// covers: U3, G1, G2, U4
func TestALargeResultIsFetchedByALinkThatChecksPermission(t *testing.T) {
	t.Parallel()
	h := start(t)
	engineer, viewer := h.as(t, "engineer"), h.as(t, "viewer")
	f := engineer.create(t, sample, tabular())
	run := func(table m) string {
		t.Helper()
		var started struct{ RunRef string }
		engineer.ok(t, "pxflow_run", m{"kind": "RunFlow", "target": f.Target, "commandId": fmt.Sprint(len(table["rows"].(list)), len(fmt.Sprint(table))), "inputs": m{"table": table}}, &started)
		if r := engineer.finished(t, started.RunRef); r.State != "Succeeded" {
			t.Fatalf("%+v", r)
		}
		return started.RunRef
	}
	// At the limits it is inline; one row more, or a few bytes, and it is a link.
	for _, c := range []struct {
		rows   int
		note   string
		inline bool
	}{{1000, "", true}, {1001, "", false}, {100, strings.Repeat("가", 200), true}, {120, strings.Repeat("가", 200), false}} {
		var got large
		e := viewer.ok(t, "result_read", m{"runRef": run(tableOf(c.rows, c.note)), "resultKey": "table"}, &got)
		if inline := got.Value != nil; inline != c.inline || (len(e.Resources) == 1) == c.inline {
			t.Errorf("%d rows of %d bytes: %.300s", c.rows, len(c.note), e.Data)
		}
	}

	// 12,000 rows are more than a row of the database takes; what is fetched is the
	// canonical result, byte for byte.
	runRef := run(tableOf(12_000, "checked"))
	var got large
	told := viewer.ok(t, "result_read", m{"runRef": runRef, "resultKey": "table"}, &got)
	if got.Value != nil || got.Schema.Rows != 12_000 || len(got.Preview.Rows) != 10 || len(told.Resources) != 1 {
		t.Fatalf("%.500s", told.Data)
	}
	link, _ := told.Resources[0]["uri"].(string)
	if !strings.HasPrefix(link, "/v1/resources/") || told.Resources[0]["mediaType"] != "application/json" || told.Resources[0]["bytes"] != float64(got.Bytes) || told.Resources[0]["expiresAt"] == nil {
		t.Errorf("the resource is %v", told.Resources[0])
	}
	follow := func(token string) (int, string) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, h.URL+link, nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+token)
		request.Header.Set("Accept", "*/*")
		// Not followed by the client: the token is for one host alone.
		response, err := client.Transport.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		io.Copy(io.Discard, response.Body)
		return response.StatusCode, response.Header.Get("Location")
	}
	status, location := follow(h.token(t, "viewer"))
	if status != http.StatusFound {
		t.Fatalf("the link answers %d", status)
	}
	fetch := func(address string) (*http.Response, string) {
		t.Helper()
		response, err := client.Get(address)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response, string(text)
	}
	response, text := fetch(location)
	var want, have any
	if err := json.Unmarshal([]byte(encode(t, tableOf(12_000, "checked"))), &want); err != nil {
		t.Fatal(err)
	}
	if json.Unmarshal([]byte(text), &have) != nil || int64(len(text)) != got.Bytes || digest(t, have) != digest(t, want) || fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(text))) != digest(t, want) {
		t.Errorf("%d bytes were fetched, %d promised", len(text), got.Bytes)
	}
	if response.Header.Get("Content-Type") != "application/json" || response.Header.Get("Content-Disposition") != `attachment; filename="table.json"` {
		t.Errorf("fetched with %v", response.Header)
	}
	// The address is good for five minutes, as it stands and not otherwise.
	address, err := url.Parse(location)
	if err != nil || address.Query().Get("X-Amz-Expires") != strconv.Itoa(300) {
		t.Errorf("%v, %s", err, location)
	}
	query := address.Query()
	query.Set("X-Amz-Expires", "3000")
	altered := *address
	altered.RawQuery = query.Encode()
	if response, _ := fetch(altered.String()); response.StatusCode != http.StatusForbidden {
		t.Errorf("an address that was given more time answers %d", response.StatusCode)
	}
	altered = *address
	altered.RawQuery = ""
	if response, _ := fetch(altered.String()); response.StatusCode != http.StatusForbidden {
		t.Errorf("an address without its signature answers %d", response.StatusCode)
	}

	// Nobody else follows it, and nobody at all once the right is gone.
	before := h.dump(t)
	decided := func(name, token, path string, status int) {
		t.Helper()
		if got, _, e := h.decide(t, token, http.MethodGet, path, ""); got != status || status == 404 && strings.Join(e.told(), " ") != "PX_TARGET_NOT_FOUND /ref" {
			t.Errorf("%s: %d %v", name, got, e)
		}
	}
	decided("another principal who may read", h.token(t, "engineer"), link, http.StatusNotFound)
	decided("a stranger", h.token(t, "other"), link, http.StatusNotFound)
	decided("what people approve with", h.approver(t, "viewer"), link, http.StatusForbidden)
	decided("without a token", "", link, http.StatusUnauthorized)
	decided("a guess", h.token(t, "viewer"), "/v1/resources/"+strings.Repeat("A", 300), http.StatusNotFound)
	decided("the digest", h.token(t, "viewer"), "/v1/resources/"+digest(t, want), http.StatusNotFound)
	altering := []byte(link)
	altering[len(altering)/2] ^= 1
	decided("altered by one bit", h.token(t, "viewer"), string(altering), http.StatusNotFound)
	if changed := before.changes(h.dump(t)); len(changed) > 0 {
		t.Errorf("the store changed: %q", changed)
	}
	h.operate(t, "project", "grant", "structural_team/bridge_package", "--to", "viewer")
	decided("after the right was taken away", h.token(t, "viewer"), link, http.StatusNotFound)
	viewer.refused(t, "result_read", m{"runRef": runRef, "resultKey": "table"}, "PX_TARGET_NOT_FOUND /runRef")
}
