package console

import (
	"context"
	"net/url"
	"strings"
	"time"

	"github.com/pxhost/pxhost/shared/cursor"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/run"
	"github.com/pxhost/pxhost/shared/target"
)

// How many of each a Project's page shows, and how many a page of a list does.
const (
	perSection = 8
	perList    = 25
	perHistory = 20
)

// projectCrumbs are the links above a page of a Project.
func projectCrumbs(p target.Project, more ...Crumb) []Crumb {
	return append([]Crumb{{p.WorkspaceKey + "/" + p.ProjectKey, projectPath(p)}}, more...)
}

func projectOf(v *Visit) target.Project {
	return target.Project{WorkspaceKey: v.Path["workspaceKey"], ProjectKey: v.Path["projectKey"]}
}

// A found is a document that a search found, at its head.
type found struct {
	Key         string
	Label       Words
	To          string
	Generation  int64
	Revision    string
	Description string
	Version     int
	Owner       string
}

// A listing is a page of things of a Project.
type listing struct {
	Items []found
	Runs  []listedRun
	Next  string // the next page
	All   string // the page of all of them
	Query string
	Here  string
	Kind  string // "Reports", …
}

// A listedRun is a Run or a Batch in a list.
type listedRun struct {
	run.Listed
	To       string
	ReportTo string
}

// searches are the tools that list documents.
var searches = map[string]struct{ tool, title, one string }{
	"reports":   {"report_search", "Reports", "Report"},
	"flows":     {"pxflow_search", "Flows", "Flow"},
	"functions": {"function_search", "Functions", "Function"},
}

// search reads a page of the documents of a kind.
func (h *Handler) search(ctx context.Context, v *Visit, p target.Project, kind string, limit int, query, cursor string) (listing, error) {
	of := searches[kind]
	here := projectPath(p) + "/" + kind
	arguments := map[string]any{"scope": p.Scope(), "limit": limit}
	if query != "" {
		arguments["query"] = query
	}
	if cursor != "" {
		arguments["cursor"] = cursor
	}
	var told struct {
		Items []struct {
			Target struct {
				ReportKey   string         `json:"reportKey"`
				FlowKey     string         `json:"flowKey"`
				FunctionKey string         `json:"functionKey"`
				RevisionRef string         `json:"revisionRef"`
				Digest      string         `json:"digest"`
				Version     int            `json:"version"`
				Package     target.Package `json:"package"`
			} `json:"target"`
			Generation  int64             `json:"generation"`
			Label       map[string]string `json:"label"`
			Description string            `json:"description"`
			Owner       string            `json:"owner"`
		} `json:"items"`
		NextCursor string `json:"nextCursor"`
	}
	if _, err := h.tool(ctx, v, of.tool, arguments, &told); err != nil {
		return listing{}, err
	}
	out := listing{All: here, Query: query, Here: here, Kind: of.title}
	for _, i := range told.Items {
		f := found{Generation: i.Generation, Description: i.Description, Owner: i.Owner, Version: i.Target.Version, Revision: i.Target.RevisionRef}
		switch kind {
		case "reports":
			f.Key = i.Target.ReportKey
		case "flows":
			f.Key = i.Target.FlowKey
		default:
			f.Key, f.Revision = i.Target.FunctionKey, i.Target.Digest
			if i.Owner == "package" {
				f.Owner = "package " + i.Target.Package.PackageKey + " " + i.Target.Package.Version
			}
		}
		if kind != "functions" {
			f.To = here + "/" + f.Key
		}
		f.Label = v.words(i.Label, f.Key)
		out.Items = append(out.Items, f)
	}
	if told.NextCursor != "" {
		next := url.Values{"cursor": {told.NextCursor}}
		if query != "" {
			next.Set("q", query)
		}
		out.Next = here + "?" + next.Encode()
	}
	return out, nil
}

// recent reads a page of the Runs of a Project.
func (h *Handler) recent(ctx context.Context, v *Visit, p target.Project, limit int, before string) (listing, error) {
	page, next, findings, err := h.RunList.Recent(ctx, v.Principal(), p, before, limit)
	if findings != nil {
		return listing{}, refused(findings)
	}
	if err != nil {
		return listing{}, err
	}
	here := projectPath(p) + "/runs"
	out := listing{All: here, Here: here, Kind: "Runs"}
	for _, l := range page {
		one := listedRun{Listed: l, To: runPath(l.Ref)}
		if l.Batch {
			one.To = batchPath(l.Ref)
		}
		if l.ReportKey != "" {
			one.ReportTo = projectPath(p) + "/reports/" + l.ReportKey
		}
		out.Runs = append(out.Runs, one)
	}
	if next != "" {
		out.Next = here + "?" + url.Values{"before": {next}}.Encode()
	}
	return out, nil
}

// projectPage shows what there is in a Project: a few of each, with the way to all.
func (h *Handler) projectPage(ctx context.Context, v *Visit) (Answer, error) {
	p := projectOf(v)
	data := struct {
		Project                         target.Project
		Here                            string
		Runs, Reports, Flows, Functions listing
		History                         []shownCommit
		HistoryTo                       string
		Waiting                         waitingList
	}{Project: p, Here: projectPath(p), HistoryTo: projectPath(p) + "/history"}
	var err error
	if data.Runs, err = h.recent(ctx, v, p, perSection, ""); err != nil {
		return nil, err
	}
	if data.Waiting, err = h.waiting(ctx, v, p, v.Query.Get("waiting"), perWaiting); err != nil {
		return nil, err
	}
	for kind, into := range map[string]*listing{"reports": &data.Reports, "flows": &data.Flows, "functions": &data.Functions} {
		if *into, err = h.search(ctx, v, p, kind, perSection, "", ""); err != nil {
			return nil, err
		}
	}
	if data.History, _, err = h.commits(ctx, v, p, "", 5); err != nil {
		return nil, err
	}
	return Page{Title: p.WorkspaceKey + "/" + p.ProjectKey, Body: "project", Data: data}, nil
}

// listPage shows a page of the documents of one kind.
func (h *Handler) listPage(kind string) func(context.Context, *Visit) (Answer, error) {
	return func(ctx context.Context, v *Visit) (Answer, error) {
		p := projectOf(v)
		data, err := h.search(ctx, v, p, kind, perList, strings.TrimSpace(v.Query.Get("q")), v.Query.Get("cursor"))
		if err != nil {
			return nil, err
		}
		return Page{Title: data.Kind, Crumbs: projectCrumbs(p), Body: "list", Data: data}, nil
	}
}

// runsPage shows a page of the Runs of a Project.
func (h *Handler) runsPage(ctx context.Context, v *Visit) (Answer, error) {
	p := projectOf(v)
	data, err := h.recent(ctx, v, p, perList, v.Query.Get("before"))
	if err != nil {
		return nil, err
	}
	return Page{Title: "Runs", Crumbs: projectCrumbs(p), Body: "runs", Data: data}, nil
}

// A shownCommit is a change of a Project as its history shows it.
type shownCommit struct {
	history.Commit
	Ref    string
	At     time.Time
	Shown  []shownChange
	PlanTo string
}

// A shownChange is what a commit did to one document.
type shownChange struct {
	Kind, Key string
	Label     Words
	To        string
	Did       string // created, changed, removed
	From, Is  *history.Revision
	Paths     []string
	More      int // paths that are not shown
}

// shownPaths is how many paths of a change stand in the list.
const shownPaths = 12

// historyTool is what the cursor of a history is bound to. No tool has this name.
const historyTool = "GET /console/…/history"

// commits reads commits, the newest first. The cursor is sealed: a commit that somebody
// names from elsewhere may never have been applied.
func (h *Handler) commits(ctx context.Context, v *Visit, p target.Project, from string, limit int) ([]shownCommit, string, error) {
	s, findings, err := h.Snapshots.Open(ctx, v.Principal(), p.Scope(), "", "/scope")
	if findings != nil {
		return nil, "", refused(findings)
	}
	if err != nil {
		return nil, "", err
	}
	binding := cursor.Binding{Tool: historyTool, Principal: v.Principal(), ArgsDigest: p.String()}
	var at history.Ref
	if from != "" {
		claims, err := h.Cursors.Open(ctx, binding, from)
		if err != nil {
			return nil, "", refused(outcome.Findings{outcome.New(outcome.CursorInvalid, "/cursor", nil)})
		}
		at = history.Ref(claims.Position)
	}
	page, next, err := s.Log(ctx, at, limit)
	if err != nil {
		return nil, "", err
	}
	var keys []string
	for _, c := range page {
		for _, e := range c.Commit.Changes {
			keys = append(keys, e.Key)
		}
	}
	labels := map[string]map[string]string{}
	if len(keys) > 0 {
		entries, err := s.Catalog.Entries(ctx, s.Space, s.Root, keys...)
		if err != nil {
			return nil, "", err
		}
		for i, e := range entries {
			if e != nil {
				labels[keys[i]] = e.Label
			}
		}
	}
	var out []shownCommit
	for _, c := range page {
		one := shownCommit{Commit: c.Commit, Ref: string(c.Ref), At: c.Commit.CommittedAt}
		if c.Commit.PlanRef != "" {
			one.PlanTo = Root + "/plans/" + url.PathEscape(c.Commit.PlanRef)
		}
		for _, e := range c.Commit.Changes {
			one.Shown = append(one.Shown, changeOf(v, p, e, labels[e.Key]))
		}
		out = append(out, one)
	}
	if next == "" {
		return out, "", nil
	}
	sealed, err := h.Cursors.Seal(ctx, binding, cursor.Claims{Position: []byte(next)})
	return out, sealed, err
}

func changeOf(v *Visit, p target.Project, e history.RevisedEntry, label map[string]string) shownChange {
	kind, key, _ := strings.Cut(e.Key, "/")
	c := shownChange{Kind: kind, Key: key, Label: v.words(label, key), From: e.Base, Is: e.Result, Did: "changed"}
	for _, path := range e.Paths {
		if path != "" { // of the whole document: what was done says it
			c.Paths = append(c.Paths, path)
		}
	}
	switch {
	case e.Base == nil:
		c.Did = "created"
	case e.Result == nil:
		c.Did = "removed"
	}
	if len(c.Paths) > shownPaths {
		c.Paths, c.More = c.Paths[:shownPaths], len(c.Paths)-shownPaths
	}
	if e.Result != nil && (kind == "flow" || kind == "report") {
		c.To = projectPath(p) + "/" + kind + "s/" + key + "?" + url.Values{"revision": {string(e.Result.RevisionRef)}}.Encode()
	}
	return c
}

// historyPage shows the changes of a Project.
func (h *Handler) historyPage(ctx context.Context, v *Visit) (Answer, error) {
	p := projectOf(v)
	page, next, err := h.commits(ctx, v, p, v.Query.Get("cursor"), perHistory)
	if err != nil {
		return nil, err
	}
	data := struct {
		Project target.Project
		Commits []shownCommit
		Next    string
		Later   bool
	}{p, page, "", v.Query.Get("cursor") != ""}
	if next != "" {
		data.Next = projectPath(p) + "/history?" + url.Values{"cursor": {next}}.Encode()
	}
	return Page{Title: "History", Crumbs: projectCrumbs(p), Body: "history", Data: data}, nil
}
