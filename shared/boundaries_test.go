// Package shared holds the import boundaries between the packages below it.
package shared

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/pxhost/pxhost/"

// edges are the packages of the module with what each imports, tests left out.
func edges(t *testing.T) map[string][]string {
	t.Helper()
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports", module+"...").Output()
	if err != nil {
		t.Fatal(err)
	}
	packages := map[string][]string{}
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct {
			ImportPath string
			Imports    []string
		}
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return packages
		} else if err != nil {
			t.Fatal(err)
		}
		packages[strings.TrimPrefix(p.ImportPath, module)] = p.Imports
	}
}

// edge are the packages that may know AWS: they turn its types and errors into
// ours.
var edge = []string{"shared/boot", "shared/store/dynamo", "shared/store/blob", "shared/store/execution", "shared/store/capacity", "shared/store/datakey", "shared/wire/toolcall"}

func in(path string, folders ...string) bool {
	return slices.ContainsFunc(folders, func(f string) bool { return path == f || strings.HasPrefix(path, f+"/") })
}

// covers: H3
func TestDomainPackagesImportNoAWS(t *testing.T) {
	reached := map[string]bool{}
	for path, imports := range edges(t) {
		if !in(path, "shared") {
			continue
		}
		for _, i := range imports {
			aws := strings.HasPrefix(i, "github.com/aws/")
			if aws && !in(path, edge...) {
				t.Errorf("%s imports %s", path, i)
			}
			if own := strings.TrimPrefix(i, module); aws {
				for _, e := range edge {
					reached[e] = reached[e] || in(path, e)
				}
			} else if own != i && in(own, edge...) && !in(path, edge...) {
				t.Errorf("%s imports %s, which knows AWS", path, own)
			}
		}
	}
	for _, e := range edge {
		if !reached[e] {
			t.Errorf("%s is listed as an edge and imports no AWS package", e)
		}
	}
}

func TestToolsDoNotImportEachOther(t *testing.T) {
	tool := func(path string) string {
		name, ok := strings.CutPrefix(path, "shared/tool/")
		if !ok || in(path, "shared/tool/catalog") {
			return ""
		}
		return name
	}
	for path, imports := range edges(t) {
		for _, i := range imports {
			if from, to := tool(path), tool(strings.TrimPrefix(i, module)); from != "" && to != "" {
				t.Errorf("the tool %s imports the tool %s", from, to)
			}
		}
	}
}

// The whole catalog of tools links everything: what a Lambda imports must not
// reach it.
func TestOnlyGeneratorsImportTheWholeCatalog(t *testing.T) {
	for path, imports := range edges(t) {
		if slices.Contains(imports, module+"shared/tool/catalog/tools") && !in(path, "shared/tool/catalog", "infra/local") {
			t.Errorf("%s imports the whole catalog", path)
		}
	}
}

func TestSharedKnowsNeitherInfraNorFunctions(t *testing.T) {
	for path, imports := range edges(t) {
		for _, i := range imports {
			own := strings.TrimPrefix(i, module)
			if in(path, "shared") && in(own, "infra", "functions") {
				t.Errorf("%s imports %s", path, own)
			}
			if in(path, "functions") && in(own, "infra") {
				t.Errorf("%s imports %s", path, own)
			}
			for _, name := range []string{"utils", "common", "types", "helpers"} {
				if own != i && strings.HasSuffix(own, "/"+name) {
					t.Errorf("%s imports %s", path, own)
				}
			}
		}
	}
}

// What stands around every tool, and what wires them, is linked into every Lambda: it must
// not reach what evaluates Components, which is megabytes that most of them never run.
func TestWhatEveryLambdaLinksDoesNotEvaluate(t *testing.T) {
	all := edges(t)
	for _, from := range []string{"shared/tool", "shared/boot", "shared/boot/projects", "shared/wire/gateway", "shared/wire/legacy"} {
		seen, next := map[string]bool{}, []string{from}
		for len(next) > 0 {
			path := next[0]
			next = next[1:]
			if seen[path] {
				continue
			}
			seen[path] = true
			if in(path, "shared/component") {
				t.Errorf("%s reaches %s", from, path)
			}
			for _, i := range all[path] {
				if own := strings.TrimPrefix(i, module); own != i {
					next = append(next, own)
				}
			}
		}
	}
}
