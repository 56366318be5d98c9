package console

import (
	"context"
	"net/url"

	"github.com/pxhost/pxhost/shared/target"
)

// perHome is how many Projects the first page shows at once, and homeWaiting how much of
// what waits in each: it is looked up for each of them, in two reads and one of the right.
const (
	perHome     = 10
	homeWaiting = 5
)

// A homeProject is a line of the first page.
type homeProject struct {
	WorkspaceKey, ProjectKey string
	To                       string
	Label                    Words
	Waiting                  waitingList
}

// projectPath is the address of a Project's page.
func projectPath(p target.Project) string {
	return Root + "/p/" + p.WorkspaceKey + "/" + p.ProjectKey
}

// home shows the Projects of the person.
func (h *Handler) home(ctx context.Context, v *Visit) (Answer, error) {
	arguments := map[string]any{"scope": map[string]string{"kind": "principal"}, "limit": perHome}
	if cursor := v.Query.Get("cursor"); cursor != "" {
		arguments["cursor"] = cursor
	}
	var found struct {
		Items []struct {
			Target struct {
				Scope target.Scope `json:"scope"`
			} `json:"target"`
			Scope target.Scope      `json:"scope"`
			Label map[string]string `json:"label"`
		} `json:"items"`
		NextCursor string `json:"nextCursor"`
	}
	if _, err := h.tool(ctx, v, "project_search", arguments, &found); err != nil {
		return nil, err
	}
	data := struct {
		Projects []homeProject
		Next     string
		Waits    bool // anything does, in these Projects
	}{}
	for _, item := range found.Items {
		scope := item.Target.Scope
		if scope.ProjectKey == "" {
			scope = item.Scope
		}
		p := target.Project{WorkspaceKey: scope.WorkspaceKey, ProjectKey: scope.ProjectKey}
		waiting, err := h.waiting(ctx, v, p, "", homeWaiting)
		if err != nil {
			return nil, err
		}
		data.Waits = data.Waits || len(waiting.Rows) > 0
		data.Projects = append(data.Projects, homeProject{p.WorkspaceKey, p.ProjectKey, projectPath(p), v.words(item.Label, p.ProjectKey), waiting})
	}
	if found.NextCursor != "" {
		data.Next = Root + "?" + url.Values{"cursor": {found.NextCursor}}.Encode()
	}
	return Page{Title: "Projects", Body: "home", Data: data}, nil
}
