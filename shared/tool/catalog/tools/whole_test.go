package tools_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/pxhost/pxhost/shared/canon"
	components "github.com/pxhost/pxhost/shared/component/planned"
	"github.com/pxhost/pxhost/shared/cursor"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/resource"
	"github.com/pxhost/pxhost/shared/snapshot"
	"github.com/pxhost/pxhost/shared/tool"
	pxflowdescribe "github.com/pxhost/pxhost/shared/tool/pxflow_describe"
)

// made remembers what links were asked for.
type made struct {
	principal string
	link      resource.Link
	n         int
}

func (m *made) Make(_ context.Context, principal string, link resource.Link) (outcome.Resource, error) {
	m.principal, m.link = principal, link
	m.n++
	return outcome.Resource{URI: resource.Path + "sealed", MediaType: link.MediaType, Bytes: link.Bytes}, nil
}

// A description that is cut says so, and gives beside its continuation a link to the
// whole document for this principal; one that is whole has none.
//
// covers: D2
func TestACutDescriptionLinksToItsDocument(t *testing.T) {
	i := install(t, 3)
	var links made
	frame := tool.Frame{Cursors: cursor.New(cursor.NewStatic(), time.Hour, time.Now), Log: slog.New(slog.DiscardHandler)}
	handle := pxflowdescribe.New(frame, snapshot.Reader{Objects: i.count, Store: i.count, Catalog: history.NewCatalog(i.count, history.NewCache(64<<20))}, &links, nil, components.Catalog{})
	describe := func(arguments map[string]any) outcome.Envelope {
		t.Helper()
		text, err := canon.Encode(arguments)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := handle(t.Context(), tool.Request{Version: tool.RequestVersion, RequestID: "r", Tool: pxflowdescribe.Name, Principal: costPrincipal,
			Arguments: text, Deadline: time.Now().Add(time.Minute), ByteShare: 2 << 20})
		var envelope outcome.Envelope
		if err == nil {
			err = json.Unmarshal(answer, &envelope)
		}
		if err != nil || !envelope.OK {
			t.Fatalf("%s %v", answer, err)
		}
		return envelope
	}

	whole := describe(map[string]any{"target": i.flow})
	if links.n != 0 || len(whole.Resources) != 0 {
		t.Fatalf("a description that is whole has %d links", len(whole.Resources))
	}
	for _, forbidden := range []string{`"history"`, `"source"`, `"commit`, `"runRef"`} {
		if strings.Contains(string(whole.Data), forbidden) {
			t.Errorf("a description has %s", forbidden)
		}
	}
	budget := map[string]any{"bytes": len(whole.Data)*2/3 + 1000}
	var more struct {
		Truncation struct {
			Truncated       bool
			Budget          string
			Limit, Observed int
			Continuation    struct{ Value string }
		}
	}
	parts := 0
	for next := ""; parts == 0 || next != ""; parts++ {
		arguments := map[string]any{"target": i.flow, "budget": budget}
		if next != "" {
			arguments["cursor"] = next
		}
		part := describe(arguments)
		if len(part.Resources) != 1 || part.Resources[0].URI != resource.Path+"sealed" {
			t.Fatalf("part %d has the links %v", parts, part.Resources)
		}
		more.Truncation.Continuation.Value = ""
		if err := json.Unmarshal(part.Data, &more, json.MatchCaseInsensitiveNames(true)); err != nil {
			t.Fatal(err)
		}
		if next = more.Truncation.Continuation.Value; next != "" && (more.Truncation.Budget != "bytes" || more.Truncation.Observed <= more.Truncation.Limit) {
			t.Errorf("part %d is cut for %+v", parts, more.Truncation)
		}
	}
	if parts < 2 {
		t.Fatal("nothing was cut")
	}
	if string(links.link.Object) != i.flow["revisionRef"] || links.principal != costPrincipal.String() || links.link.Project != costProject {
		t.Errorf("the link leads %s to %+v", links.principal, links.link)
	}
	bodies, err := i.count.Get(t.Context(), history.Space(costProject.String()), links.link.Object)
	if err != nil || int64(len(bodies[0])) != links.link.Bytes {
		t.Errorf("the link tells %d bytes: %v", links.link.Bytes, err)
	}
}
