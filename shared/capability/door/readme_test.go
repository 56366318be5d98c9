package door_test

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pxhost/pxhost/shared/outbound"
	"github.com/pxhost/pxhost/shared/outcome"
)

// The page for developers tells every code with what the registry advises, every route
// with the tokens that it takes, and an example that can be installed.
//
// covers: C5
func TestThePageForDevelopersIsTrue(t *testing.T) {
	text, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	told := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([A-Z_]+)` \\|.*`([A-Z_]+)` \\|$").FindAllStringSubmatch(page, -1) {
		told[row[1]] = row[2]
	}
	for _, code := range outcome.Codes() {
		name := string(code)
		if !strings.HasPrefix(name, "EXTENSION_") && !strings.HasPrefix(name, "SLASH_") && !strings.HasPrefix(name, "PLUGIN_") {
			continue
		}
		if want := outcome.New(code, "", nil).SuggestedAction; told[name] != want {
			t.Errorf("%s is told with %q, want %q", name, told[name], want)
		}
		delete(told, name)
	}
	if len(told) > 0 {
		t.Errorf("there are no codes %v", told)
	}

	b := newBench(t)
	routes := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| `((?:GET|POST|ANY) /[^`]+)`( †)? \\|").FindAllStringSubmatch(page, -1) {
		routes[row[1]] = row[2] != ""
	}
	for _, key := range b.door.Routes() {
		persons, there := routes[key]
		if !there {
			t.Errorf("%s is not told", key)
		}
		delete(routes, key)
		refs := make([]string, strings.Count(key, "{"))
		if a := b.send("px.tools user", key, refs, nil); (a.status == 403 && strings.Contains(a.header["www-authenticate"], "insufficient_scope")) != persons {
			t.Errorf("%s takes the token of an AI: %d", key, a.status)
		}
	}
	if len(routes) > 0 {
		t.Errorf("there are no routes %v", routes)
	}

	_, example, _ := strings.Cut(page, "```json\n")
	example, _, _ = strings.Cut(example, "\n```")
	if !json.Valid([]byte(example)) {
		t.Fatal("the example is no JSON")
	}
	judged := b.send(ai+"user", validateKey, nil, object{"package": files(example)})
	if judged.text("valid") != "true" || !strings.Contains(page, judged.text("packageDigest")) {
		t.Error(judged.body)
	}
	if !slices.Contains(strings.Split(page, "\n"), judged.text("packageDigest")+", nobody signed it") {
		t.Error("the digest is not that of the example")
	}
}

// Who is told a rule finds on the page what to do about it.
//
// covers: C4
func TestThePageForDevelopersTellsEveryRuleOfAPackage(t *testing.T) {
	text, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, there := strings.Cut(string(text), "\n## What is wrong with a package\n")
	section, _, more := strings.Cut(section, "\n## ")
	if !there || !more {
		t.Fatal("the page has no such section")
	}
	rules := map[string]bool{"adapter_of_tool": true, "adapter_of_skill": true}
	for _, file := range []string{"validation/validation.go", "packaging/packaging.go", "installation/installation.go", "safeschema/safeschema.go", "template/template.go", "response/response.go", "door/plugins.go"} {
		source, err := os.ReadFile("../" + file)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range regexp.MustCompile(`(?:invalid\(.*?, |"rule": |wrong\()"([a-zA-Z_]+)"`).FindAllStringSubmatch(string(source), -1) {
			rules[found[1]] = true
		}
	}
	for _, rule := range []outbound.Rule{outbound.NotHTTPS, outbound.HasUser, outbound.HasFragment, outbound.WrongPort, outbound.NotName, outbound.NotPublic} {
		rules["url_"+string(rule)] = true
	}
	delete(rules, "adapter_of_")
	for _, ofSchemas := range []string{"minLength"} { // "and their like"
		delete(rules, ofSchemas)
	}
	for rule := range rules {
		if !strings.Contains(section, "`"+rule+"`") {
			t.Errorf("%s is not told", rule)
		}
	}
	if len(rules) < 50 {
		t.Errorf("only %d rules are looked for", len(rules))
	}
}
