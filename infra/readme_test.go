// Package infra holds the operator's page against what it is about.
package infra

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/pxhost/pxhost/shared/metric"
	"github.com/pxhost/pxhost/shared/wire"
	"github.com/pxhost/pxhost/shared/wire/legacy"
)

var update = flag.Bool("update", false, "write the table of parameters anew")

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// parameters is the table of the template's parameters, in their order.
func parameters(t *testing.T) string {
	t.Helper()
	var template struct {
		Parameters yaml.Node `yaml:"Parameters"`
	}
	if err := yaml.Unmarshal([]byte(read(t, "../template.yaml")), &template); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	out.WriteString("| parameter | default | values | meaning |\n| --- | --- | --- | --- |\n")
	cell := strings.NewReplacer("|", `\|`, "<", "&lt;").Replace
	for i := 0; i < len(template.Parameters.Content); i += 2 {
		var p struct {
			Type           string   `yaml:"Type"`
			Default        *string  `yaml:"Default"`
			AllowedValues  []string `yaml:"AllowedValues"`
			AllowedPattern string   `yaml:"AllowedPattern"`
			MinValue       string   `yaml:"MinValue"`
			MaxValue       string   `yaml:"MaxValue"`
			MaxLength      string   `yaml:"MaxLength"`
			Description    string   `yaml:"Description"`
		}
		name, node := template.Parameters.Content[i].Value, template.Parameters.Content[i+1]
		if err := node.Decode(&p); err != nil {
			t.Fatal(err)
		}
		if p.Description == "" {
			t.Errorf("%s has no description", name)
		}
		byDefault := "needed"
		if p.Default != nil {
			byDefault = "`" + *p.Default + "`"
			if *p.Default == "" {
				byDefault = "empty"
			}
		}
		var values []string
		if p.AllowedValues != nil {
			values = append(values, "`"+strings.Join(p.AllowedValues, "`, `")+"`")
		}
		if p.MinValue != "" {
			values = append(values, p.MinValue+" to "+p.MaxValue)
		}
		if p.AllowedPattern != "" {
			values = append(values, "`"+cell(p.AllowedPattern)+"`")
		}
		if p.MaxLength != "" {
			values = append(values, "at most "+p.MaxLength+" characters")
		}
		fmt.Fprintf(&out, "| `%s` | %s | %s | %s |\n", name, byDefault, strings.Join(values, "; "), cell(p.Description))
	}
	return out.String()
}

const (
	begin = "<!-- parameters: written by go test ./infra -update from template.yaml -->\n"
	end   = "<!-- end of parameters -->\n"
)

// The table is generated, so that no parameter is without its meaning.
func TestThePageHasTheParametersOfTheTemplate(t *testing.T) {
	page := read(t, "README.md")
	before, rest, ok := strings.Cut(page, begin)
	told, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatal("the page has no place for the parameters")
	}
	want := parameters(t)
	if told == want {
		return
	}
	if !*update {
		t.Fatal("the page's parameters are not the template's; run go test ./infra -update")
	}
	if err := os.WriteFile("README.md", []byte(before+begin+want+end+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

// What the page says of flags, routes, metrics and bounds is so.
//
// covers: L3
func TestThePageTellsWhatIsThere(t *testing.T) {
	page, template := read(t, "README.md"), read(t, "../template.yaml")
	flags := regexp.MustCompile(`fs\.(?:StringVar|BoolVar|Func|DurationVar|String|Bool)\((?:&[\w.]+, )?"([a-z-]+)"`)
	found := flags.FindAllStringSubmatch(read(t, "px/local.go")+read(t, "px/environment.go"), -1)
	if len(found) < 10 {
		t.Errorf("px local has the flags %q", found)
	}
	for _, f := range found {
		if !strings.Contains(page, "| `--"+f[1]) {
			t.Errorf("the page does not tell of --%s", f[1])
		}
	}
	for _, want := range []string{
		"`POST " + legacy.Path + "`", "`" + metric.LegacyCalls + "` in the namespace `" + metric.LegacyNamespace + "`", "`" + metric.Namespace + " " + metric.LegacyRefusals + "` (dimension `" + metric.Entry + "`)",
		"--dimensions Name=" + metric.Outcome + ",Value=forwarded", fmt.Sprintf("a body of the wire is at most %d MiB, a line %d MiB, %d lines", wire.MaxBody>>20, wire.MaxLine>>20, wire.MaxLines),
		fmt.Sprintf("at most %.1f MB as escaped", float64(wire.ReplyBytes)/1e6),
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	for _, name := range []string{"/pxhost/${AWS::StackName}/legacy", "/pxhost/${AWS::StackName}/sandbox"} {
		if !strings.Contains(template, name) || !strings.Contains(page, "`"+strings.ReplaceAll(name, "${AWS::StackName}", "STACK")+"`") {
			t.Errorf("the log group %s is not that of the page", name)
		}
	}
}
