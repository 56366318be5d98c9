package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/pxhost/pxhost/shared/batch"
	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/flow"
	"github.com/pxhost/pxhost/shared/function"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/policy"
	"github.com/pxhost/pxhost/shared/project"
	reports "github.com/pxhost/pxhost/shared/report"
	"github.com/pxhost/pxhost/shared/run/connected"
	"github.com/pxhost/pxhost/shared/schema"
	"github.com/pxhost/pxhost/shared/target"
)

var projectCommand = command{
	name:    "project",
	summary: "create a project, grant rights, set its policy, its dependencies and its Python",
	run: func(ctx context.Context, env *environment, args []string) error {
		fs := env.flags("project", `create WORKSPACE/PROJECT [--label en=TEXT]… [--description TEXT]
       px project grant WORKSPACE/PROJECT --to SUBJECT [--rights read,edit,run,approve]
       px project policy WORKSPACE/PROJECT [FILE|-]
       px project dependency WORKSPACE/PROJECT add PACKAGE@VERSION#DIGEST --as SUBJECT --accept-license LICENSE
       px project dependency WORKSPACE/PROJECT remove PACKAGE@VERSION#DIGEST --as SUBJECT
       px project dependency WORKSPACE/PROJECT list --as SUBJECT
       px project component WORKSPACE/PROJECT add FILE|- --as SUBJECT --accept-unsigned
       px project component WORKSPACE/PROJECT remove PACKAGE@VERSION#DIGEST --as SUBJECT
       px project component WORKSPACE/PROJECT list --as SUBJECT
       px project python WORKSPACE/PROJECT 3.N|any --as SUBJECT

No tool does this: it needs an operator's credentials. grant replaces all rights
of the subject; without --rights it takes them away. policy replaces the rules
by those of a JSON file, {"rules": [{"on": "function", "approval": "required"}]};
without a file it prints them. What it prints may be changed and given back: the
version in it must still be the present one.

Of the rules on one subject (function, flow, report, run, batch) the first that
fits decides. "kinds" are the kinds of the commands that are sent. "paths" are
what is written, whichever command does it, with * for any one key:
{"on": "flow", "paths": ["/nodes/*/target"], "approval": "required"} asks before
any Node gets another target, and before one is added or removed. A new version
of a Function moves the Flows and Reports that use it: rules on flow fit it as
ReplaceNodeTarget, rules on report as SetConnectionFlow.

dependency installs the exact release of a package that owns Functions, as a
hand-off names it; there is no newest one. --as says whose right to edit is used and
who accepts the license; the history of the project keeps both. A package that Nodes
use is neither removed nor moved to another version. python pins the minor of Python,
3.11 or newer, that reads and runs the project's Functions; dependency list shows
it. component records the Components of a package that somebody brings in a file.
There is no authority that could verify one: a signed file is refused, and an unsigned
one is recorded as absent and not-checked where that is accepted. A record is no
admission: nobody finds, places or runs it. Asking again for what is so already changes
nothing.`)
		as := fs.String("as", "", "the `subject` who does it, of the installation's issuer, or ISSUER|SUBJECT (dependency, component, python)")
		acceptUnsigned := fs.Bool("accept-unsigned", false, "accept that nobody signed the file (component add)")
		license := fs.String("accept-license", "", "the `license` of the package, which is accepted (dependency add)")
		label := labels{}
		fs.Var(label, "label", "`LANGUAGE=TEXT`, again for each language (create)")
		description := fs.String("description", "", "what search shows (create)")
		to := fs.String("to", "", "the `subject` of the installation's issuer, or ISSUER|SUBJECT (grant)")
		rights := fs.String("rights", "", "comma separated: read, edit, run, approve (grant)")
		positional, err := env.parseMixed(fs, args)
		if err != nil {
			return err
		}
		if len(positional) < 2 {
			return usagef("create, grant, policy, dependency, component or python, and WORKSPACE/PROJECT")
		}
		workspace, key, _ := strings.Cut(positional[1], "/")
		p := target.Project{WorkspaceKey: workspace, ProjectKey: key}
		if !target.ValidKey(workspace) || !target.ValidKey(key) {
			return usagef("a project is WORKSPACE/PROJECT, each %s", target.KeyPattern)
		}
		rest := positional[2:]
		switch verb := positional[0]; {
		case verb == "create" && len(rest) == 0:
			return createProject(ctx, env, p, target.Label(label), *description)
		case verb == "grant" && len(rest) == 0:
			return grantRights(ctx, env, p, *to, *rights)
		case verb == "policy" && len(rest) <= 1:
			return projectPolicy(ctx, env, p, rest)
		case verb == "dependency" && len(rest) > 0:
			return projectDependency(ctx, env, p, rest[0], rest[1:], *as, *license)
		case verb == "component" && len(rest) > 0:
			return projectComponent(ctx, env, p, rest[0], rest[1:], *as, *acceptUnsigned)
		case verb == "python" && len(rest) == 1:
			return projectPython(ctx, env, p, rest[0], *as)
		}
		return usagef("create, grant, policy, dependency, component or python, and WORKSPACE/PROJECT")
	},
}

// labels is a flag that may be given once a language.
type labels target.Label

func (l labels) String() string { return "" }

func (l labels) Set(text string) error {
	language, label, ok := strings.Cut(text, "=")
	if !ok || language == "" || label == "" {
		return errors.New("want LANGUAGE=TEXT, such as en=\"Bridge package\"")
	}
	l[language] = label
	return nil
}

func createProject(ctx context.Context, env *environment, p target.Project, label target.Label, description string) error {
	parts, _, err := env.operator()
	if err != nil {
		return err
	}
	if err := parts.Projects().Create(ctx, p, label, description); errors.Is(err, project.ErrExists) {
		return fmt.Errorf("project %s exists already; grant rights in it with px project grant", p)
	} else if err != nil {
		return err
	}
	_, err = fmt.Fprintf(env.out, "created %s; nobody may do anything in it yet: px project grant %s --to SUBJECT --rights read\n", p, p)
	return err
}

func grantRights(ctx context.Context, env *environment, p target.Project, to, list string) error {
	if to == "" {
		return usagef("--to names whom to grant")
	}
	rights := []policy.Right{}
	for _, r := range strings.FieldsFunc(list, func(c rune) bool { return c == ',' || c == ' ' }) {
		switch right := policy.Right(r); right {
		case policy.Read, policy.Edit, policy.Run, policy.Approve:
			rights = append(rights, right)
		default:
			return usagef("%q is no right: read, edit, run, approve", r)
		}
	}
	parts, issuer, err := env.operator()
	if err != nil {
		return err
	}
	principal := to
	if !strings.Contains(to, "|") {
		principal = issuer + "|" + to
	}
	if err := parts.Projects().SetGrant(ctx, p, principal, rights); err != nil {
		return missing(err, p)
	}
	_, err = fmt.Fprintf(env.out, "%s may now do in %s: %v\n", principal, p, rights)
	return err
}

// missing says what to do about a Project that does not exist.
func missing(err error, p target.Project) error {
	if errors.Is(err, history.ErrNotFound) {
		return fmt.Errorf("there is no project %s; create it with px project create %s", p, p)
	}
	return err
}

func printJSON(out io.Writer, v any) error {
	text, err := canon.Encode(v)
	if err != nil {
		return err
	}
	value := canon.Raw(text)
	if err := value.Indent(jsontext.WithIndent("  ")); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s\n", value)
	return err
}

func projectPolicy(ctx context.Context, env *environment, p target.Project, file []string) error {
	parts, _, err := env.operator()
	if err != nil {
		return err
	}
	if len(file) == 1 {
		var text []byte
		if file[0] == "-" {
			text, err = io.ReadAll(io.LimitReader(env.in, 1<<20))
		} else {
			text, err = os.ReadFile(file[0])
		}
		if err != nil {
			return err
		}
		rules, version, err := readPolicy(text)
		if err != nil {
			return err
		}
		if version != nil {
			now, err := parts.Store.Policy(ctx, p)
			if err != nil {
				return err
			}
			if now.Version != *version {
				return fmt.Errorf("the policy has moved on: it is version %d, and the file is of version %d; print it and change it again", now.Version, *version)
			}
		}
		if err := parts.Projects().SetPolicy(ctx, p, rules); err != nil {
			return missing(err, p)
		}
	}
	now, err := parts.Store.Policy(ctx, p)
	if err != nil {
		return err
	}
	return printJSON(env.out, now)
}

// readPolicy reads the JSON of a policy: rules, and the version that they were made
// from, which may be left out.
//
// A kind that the subject does not have is refused, and so is a path that nothing
// writes: its rule would never fit, and who wrote it would believe in a gate that is not
// there.
func readPolicy(text []byte) (rules []policy.Rule, version *int64, err error) {
	var in struct {
		Version *int64        `json:"version,omitzero"`
		Rules   []policy.Rule `json:"rules" schema:"maxItems=100"`
	}
	findings := schema.Decode(text, &in)
	if !findings.Refused() {
		for i, rule := range in.Rules {
			written := pathsOf(rule.On)
			for k, path := range rule.Paths {
				if !slices.ContainsFunc(written, func(w string) bool { return meet(path, w) }) {
					findings.Add(outcome.SchemaInvalid, fmt.Sprintf("/rules/%d/paths/%d", i, k), outcome.Params{"rule": "enum", "allowed": written})
				}
			}
			allowed := kindsOf(rule.On)
			for k, kind := range rule.Kinds {
				if !slices.Contains(allowed, kind) {
					findings.Add(outcome.SchemaInvalid, fmt.Sprintf("/rules/%d/kinds/%d", i, k), outcome.Params{"rule": "enum", "allowed": allowed})
				}
			}
		}
	}
	if findings.Refused() {
		var all []error
		for _, d := range findings {
			params, err := canon.Encode(d.Params)
			if err != nil {
				return nil, nil, err
			}
			all = append(all, fmt.Errorf("%s at %q %s", d.Code, d.Path, params))
		}
		return nil, nil, fmt.Errorf("the policy is not well formed:\n%w", errors.Join(all...))
	}
	return in.Rules, in.Version, nil
}

// kindsOf returns the command kinds that a policy is asked about for a subject.
func kindsOf(on policy.Subject) []string {
	switch on {
	case policy.OnReport:
		return schema.Kinds[reports.Command]()
	case policy.OnFlow:
		return schema.Kinds[flow.Command]()
	case policy.OnFunction:
		return schema.Kinds[function.Command]()
	case policy.OnBatch:
		return []string{batch.RunReportFlowBatch{}.Variant()}
	}
	return []string{"RunFlow", connected.Kind, "RetryBatchCase"}
}

// pathsOf returns the semantic paths at or above which commands write to documents of a
// subject: none for what is no document.
func pathsOf(on policy.Subject) []string {
	switch on {
	case policy.OnReport:
		return reports.Written
	case policy.OnFlow:
		return flow.Written
	case policy.OnFunction:
		return []string{function.SourcePath}
	}
	return []string{}
}

// meet reports whether one of two paths lies at or above the other, where "*" stands for
// any key.
func meet(path, written string) bool {
	if path != "" && path[0] != '/' {
		return false
	}
	a, b := strings.Split(path, "/"), strings.Split(written, "/")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] && a[i] != "*" && b[i] != "*" {
			return false
		}
	}
	return true
}
