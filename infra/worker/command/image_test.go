//go:build linux

package command

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/pxhost/pxhost/infra/worker/prepare"
)

// text is a file of the repository, with the lines of a shell command joined.
func text(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return regexp.MustCompile(`\\\n\s*`).ReplaceAllString(string(b), "")
}

// The image is built by Docker, which tests do not have: what can be held without it
// is that the Dockerfile builds what make and prepare build, of the same versions, and
// sets what the worker reads. What runs in it is tested in package task, in a container
// that is confined as the image's is.
//
// covers: X5
func TestTheImageHoldsWhatIsBuiltAndTestedElsewhere(t *testing.T) {
	docker, mod, makefile, template := text(t, "../Dockerfile"), text(t, "../go.mod"), text(t, "../../../Makefile"), text(t, "../../../template.yaml")
	one := func(where, pattern string) string {
		t.Helper()
		found := regexp.MustCompile(`(?m)` + pattern).FindStringSubmatch(where)
		if found == nil {
			t.Fatalf("there is no %s", pattern)
		}
		return found[1]
	}
	if image, module := one(docker, `^ARG GO=(\S+)$`), one(mod, `^go (\d+\.\d+)`); image != module {
		t.Errorf("it is built with Go %s, and the module wants %s", image, module)
	}
	// What python_source accepts must compile in the sandbox.
	if image, lambda := one(docker, `^ARG PYTHON=(\S+)$`), one(template, `Runtime: python(\S+)`); image != lambda {
		t.Errorf("Functions run on Python %s, and are read by %s", image, lambda)
	}
	flags := one(makefile, `^GOBUILD := go build (.*)$`)
	flags = strings.TrimSuffix(flags, `"`)
	builds := regexp.MustCompile(`go build .*? -o (\S+) (\S+)`).FindAllStringSubmatch(docker, -1)
	made := map[string]string{}
	for _, b := range builds {
		if !strings.HasPrefix(b[0], "go build "+flags) {
			t.Errorf("%s is not built with %s", b[1], flags)
		}
		made[b[1]] = b[2]
	}
	if made["/out/px-prepare"] != "." || made["/out/px-worker"] != "./fargate" || made["/out/runsc"] != prepare.Runsc || len(made) != 3 {
		t.Errorf("it builds %v", made)
	}
	if !strings.Contains(docker, "-X gvisor.dev/gvisor/runsc/version.version=") {
		t.Error("runsc does not know its version")
	}
	if !strings.Contains(docker, "\nENV CGO_ENABLED=0\n") {
		t.Error("nothing is there to link with")
	}
	if !strings.Contains(docker, "mkfs.erofs -E noinline_data -T0 --all-root ") || !strings.Contains(text(t, "../task/task_test.go"), `"mkfs.erofs", "-E", "noinline_data", "-T0", "--all-root", `) {
		t.Error("its EROFS is not made as the one that is tested")
	}
	// The last stage is all that is deployed.
	last := docker[strings.LastIndex(docker, "\nFROM "):]
	if !strings.HasPrefix(last, "\nFROM scratch\n") || strings.Contains(last, "\nRUN ") {
		t.Error("there is more in the image than what is copied to it")
	}
	set, read := map[string]string{}, map[string]bool{}
	for _, pair := range strings.Fields(one(last, `^ENV (.*)$`)) {
		name, value, _ := strings.Cut(pair, "=")
		set[name] = value
	}
	c, err := configFrom(func(name string) string { read[name] = true; return set[name] })
	if err != nil || c.Driver != "task" || c.State != c.Jail {
		t.Errorf("%+v, %v", c, err)
	}
	for name := range set {
		if !read[name] && name != "TMPDIR" {
			t.Errorf("%s is set, and the worker does not read it", name)
		}
	}
	for _, path := range []string{c.Runsc, c.Rootfs, c.Image} {
		if !regexp.MustCompile(`(?m)^COPY .*/?` + regexp.QuoteMeta(strings.TrimPrefix(path, "/")) + `\b`).MatchString(last) {
			t.Errorf("%s is not in the image", path)
		}
	}
	// Everything but the volume is read-only there, and each variable of the task is read.
	task := template[strings.Index(template, "\n  SandboxTask:"):strings.Index(template, "\n  SandboxInstanceRole:")]
	if one(task, `ContainerPath: (\S+),`) != c.Jail || !strings.Contains(task, "ReadonlyRootFilesystem: true") {
		t.Errorf("%s is no volume", c.Jail)
	}
	for _, found := range regexp.MustCompile(`Name: (PX_\w+)`).FindAllStringSubmatch(task, -1) {
		if !read[found[1]] {
			t.Errorf("the task sets %s, and the worker does not read it", found[1])
		}
	}
}
