package console

import (
	"context"
	"net/url"

	"github.com/pxhost/pxhost/shared/target"
)

// perHome is how many Projects the first page shows at once: what waits is looked up for
// each of them.
const perHome = 10

// A homeProject is a line of the first page.
type homeProject struct {
	WorkspaceKey, ProjectKey string
	To                       string
	Label                    string
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
	}{}
	for _, item := range found.Items {
		scope := item.Target.Scope
		if scope.ProjectKey == "" {
			scope = item.Scope
		}
		p := target.Project{WorkspaceKey: scope.WorkspaceKey, ProjectKey: scope.ProjectKey}
		data.Projects = append(data.Projects, homeProject{p.WorkspaceKey, p.ProjectKey, projectPath(p), label(item.Label)})
	}
	if found.NextCursor != "" {
		data.Next = Root + "?" + url.Values{"cursor": {found.NextCursor}}.Encode()
	}
	return Page{Title: "Projects", Body: "home", Data: data}, nil
}

// label is one text of a label: the English one, else the first by its language.
func label(texts map[string]string) string {
	if text, ok := texts["en"]; ok {
		return text
	}
	first := ""
	for language := range texts {
		if first == "" || language < first {
			first = language
		}
	}
	return texts[first]
}
