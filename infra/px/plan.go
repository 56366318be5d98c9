package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/pxhost/pxhost/infra/px/readable"
	"github.com/pxhost/pxhost/infra/px/term"
	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/change"
	"github.com/pxhost/pxhost/shared/review"
)

var moreNone readable.More

// A keptPlan is what applying a plan takes, as the host told it.
type keptPlan struct {
	URL                string         `json:"url"`
	Tool               string         `json:"tool"` // that planned it
	PlanRef            string         `json:"planRef"`
	PlanDigest         string         `json:"planDigest"`
	ExpiresAt          string         `json:"expiresAt"`
	Target             jsontext.Value `json:"target"`
	ExpectedGeneration int64          `json:"expectedGeneration"`
	Batch              bool           `json:"batch,omitzero"`     // it is started, not applied
	CommandID          string         `json:"commandId,omitzero"` // once it was applied or started
}

// keepPlan keeps what applying takes of the answer that is a plan.
func (e *environment) keepPlan(to *endpoint, tool string, answer answered) (keptPlan, bool) {
	var plan keptPlan
	var kinds struct {
		Commands []struct {
			Kind string `json:"kind"`
		} `json:"commands"`
	}
	if !answer.OK || answer.Data.Kind() != '{' || json.Unmarshal(answer.Data, &plan) != nil || plan.PlanRef == "" || plan.PlanDigest == "" {
		return plan, false
	}
	if json.Unmarshal(answer.Data, &kinds) == nil && len(kinds.Commands) == 1 {
		plan.Batch = kinds.Commands[0].Kind == batchKind
	}
	plan.URL, plan.Tool = to.url, tool
	var earlier keptPlan
	if e.kept(keptPlans, plan.PlanRef, &earlier) { // another part of the same answer
		plan.CommandID, plan.Batch = earlier.CommandID, earlier.Batch
	}
	return plan, e.keep(keptPlans, plan.PlanRef, plan) == nil
}

var planCommand = command{
	name:    "plan",
	summary: "plan a change, and show what it would do",
	run: func(ctx context.Context, env *environment, args []string) error {
		fs := env.flags("plan", `TARGET [COMMANDS|@FILE|-|SOURCE.py] [flags]

`+targetForms+`

COMMANDS are the typed commands of the change, a JSON list or one of them; px call
pxflow_plan_change --schema names them all, and so for report_ and function_. Of a
Function its whole source is enough: a file whose name ends in .py makes a new Function
or the next version of one. Nothing is changed: the plan is shown with its difference
and its impact, and px apply PLANREF applies it, within half an hour.`)
		var to endpointFlags
		to.add(fs)
		var as showing
		as.add(fs)
		project := projectFlag(fs)
		generation := fs.Int64("generation", -1, "the expected `generation` (default: the one that describing the exact target tells)")
		rebase := fs.String("rebase", "", "`planRef` of an older plan of yours, whose commands are planned again")
		positional, err := env.parseMixed(fs, args)
		if err != nil {
			return err
		}
		if len(positional) != 2 && (len(positional) != 1 || *rebase == "") {
			return usagef("a target, and the commands of the change; --rebase PLANREF has those of an older plan")
		}
		endpoint, err := env.endpoint(to)
		if err != nil {
			return err
		}
		source := len(positional) == 2 && strings.HasSuffix(positional[1], ".py")
		of := []string{"flow", "report", "function"}
		if source {
			of = []string{"function"}
		}
		at, err := env.name(ctx, endpoint, "plan", positional[0], *project, of...)
		if source && at.none && at.target != nil {
			err = nil // the first version of it
			fmt.Fprintf(env.err, "px plan: no Function has that key: it would be a new one, %s\n", at.target)
		}
		if err != nil {
			return env.explained(as, err)
		}
		expected, err := endpoint.generation(ctx, at, *generation)
		if err != nil {
			return env.explained(as, err)
		}
		request := map[string]any{"target": at.target, "expectedGeneration": expected}
		if *rebase != "" {
			request["rebaseFromPlanRef"] = *rebase
		}
		if len(positional) == 2 {
			if request["commands"], err = env.commands(at, positional[1], source); err != nil {
				return err
			}
		}
		tool := map[string]string{"flow": "pxflow", "report": "report", "function": "function"}[at.kind] + "_plan_change"
		arguments, err := json.Marshal(request, json.Deterministic(true))
		if err != nil {
			return err
		}
		var plan keptPlan
		kept := false
		answer, err := endpoint.whole(ctx, tool, arguments, func(part answered) error {
			if plan.PlanRef == "" {
				plan, kept = env.keepPlan(endpoint, tool, part)
			}
			if as.json {
				return env.show(as, part, moreNone)
			}
			return nil
		})
		if err != nil || as.json {
			return err
		}
		if !answer.OK || !as.readable && !term.IsTerminal(env.out) {
			return env.show(as, answer, moreNone)
		}
		return env.showPlan(env.screen(as.colour), answer, plan, kept)
	},
}

// generation is what a plan expects: as it is given, as a search told it, or as
// describing the exact target tells it. A target that is no longer the head is not
// planned from, unless the generation is given.
func (e *endpoint) generation(ctx context.Context, at named, given int64) (int64, error) {
	switch {
	case given >= 0:
		return given, nil
	case at.none:
		return 0, nil
	case at.generation != nil:
		return *at.generation, nil
	}
	var described struct {
		Generation int64          `json:"generation"`
		Current    bool           `json:"current"`
		Head       jsontext.Value `json:"head"`
	}
	tool := map[string]string{"flow": "pxflow", "report": "report", "function": "function"}[at.kind] + "_describe"
	if err := e.ask(ctx, tool, map[string]any{"target": at.target, "budget": map[string]any{"items": 1}}, &described); err != nil {
		return 0, err
	}
	if !described.Current {
		return 0, &exitError{exitFailed, fmt.Errorf("the target is not the head any more; that is %s\n  plan from it, or say by --generation what you expect", plainText(string(described.Head)))}
	}
	return described.Generation, nil
}

// commands reads the commands of a change.
func (e *environment) commands(at named, text string, source bool) (any, error) {
	if source {
		code, err := e.file(text)
		if err != nil {
			return nil, err
		}
		if !utf8.Valid(code) {
			return nil, usagef("%s is not UTF-8", plainText(text))
		}
		if at.none {
			return []any{map[string]any{"kind": "CreateFunction", "source": string(code)}}, nil
		}
		var ref struct {
			FunctionKey string `json:"functionKey"`
			Version     int    `json:"version"`
			Digest      string `json:"digest"`
		}
		if err := json.Unmarshal(at.target, &ref); err != nil {
			return nil, usagef("the target cannot be read")
		}
		return []any{map[string]any{"kind": "CreateFunctionVersion", "functionRef": ref, "source": string(code), "referencePolicy": "all_current_usages"}}, nil
	}
	given, err := e.given(text, "the commands")
	if err == nil {
		err = checkJSON(given, "the commands")
	}
	if err != nil {
		return nil, err
	}
	commands := jsontext.Value(given)
	if commands.Kind() == '{' {
		return []jsontext.Value{commands}, nil
	}
	return commands, nil
}

// showPlan shows a plan as a reviewer sees it, and what comes next.
func (e *environment) showPlan(s *term.Screen, answer answered, plan keptPlan, kept bool) error {
	var told struct {
		Commands    []canon.Raw         `json:"commands"`
		Diff        canon.Raw           `json:"diff"`
		Impact      canon.Raw           `json:"impact"`
		Approval    change.ApprovalNeed `json:"approval"`
		RebasedFrom jsontext.Value      `json:"rebasedFrom"`
	}
	if err := json.Unmarshal(answer.Data, &told); err != nil {
		return &exitError{exitUnknown, errors.New("the plan cannot be read")}
	}
	line := func(name, text string) { fmt.Fprintf(s, "%-11s %s\n", name, plainText(text)) }
	line("Plan", plan.PlanRef)
	line("Digest", plan.PlanDigest)
	line("Target", string(plan.Target))
	line("Generation", fmt.Sprint(plan.ExpectedGeneration))
	line("Until", plan.ExpiresAt)
	if told.RebasedFrom != nil {
		line("Rebased", string(told.RebasedFrom))
	}
	r := &reading{Screen: s}
	r.plan(review.PlanText{Commands: told.Commands, Diff: told.Diff, Impact: told.Impact})
	if len(answer.Diagnostics) > 0 {
		r.section("Notes")
		if err := readable.Diagnostics(s, "  ", answer.text); err != nil {
			return err
		}
	}
	if r.left > 0 {
		r.printf("\n%d entries of long lists are not shown here. All there is: px review %s --json\n", r.left, plainText(plan.PlanRef))
	}
	verb := "apply"
	if plan.Batch {
		verb = "run"
	}
	r.section("Next")
	if told.Approval.Required {
		r.printf("  It takes an approval (%s): a reviewer runs px approve %s, then\n", plainText(strings.Join(told.Approval.Reasons, ", ")), plan.PlanRef)
		r.printf("  px %s %s --approval APPROVALREF\n", verb, plan.PlanRef)
	} else {
		r.printf("  px %s %s\n", verb, plan.PlanRef)
	}
	if !kept {
		r.printf("  The plan could not be kept beside the state: px apply -h says what to give with it.\n")
	}
	return nil
}

var applyCommand = command{
	name:    "apply",
	summary: "apply a plan, exactly as it was shown",
	run: func(ctx context.Context, env *environment, args []string) error {
		fs := env.flags("apply", `PLANREF [flags]

Digest, target and generation are those that px plan, or px call …_plan_change, showed:
px keeps them in the state folder. Of a plan that was made elsewhere all three are
given. On a terminal the digest is shown, and y applies it; --yes needs --digest, so
that what nobody looks at again is named exactly. The commandId is made and kept before
anything is sent: the same px apply again, after a lost answer, is the same command, and
is done once.`)
		var to endpointFlags
		to.add(fs)
		var as showing
		as.add(fs)
		yes := fs.Bool("yes", false, "do not ask; needs --digest")
		digest := fs.String("digest", "", "the plan's `digest`")
		target := fs.String("target", "", "the plan's exact `target`, as JSON")
		generation := fs.Int64("generation", -1, "the plan's expected `generation`")
		approval := fs.String("approval", "", "`approvalRef`, where the plan takes an approval")
		command := fs.String("command-id", "", "`commandId` (default: one of its own, which is printed)")
		positional, err := env.parseMixed(fs, args)
		if err != nil {
			return err
		}
		if len(positional) != 1 || !strings.HasPrefix(positional[0], "plan_") {
			return usagef("one planRef (plan_…)")
		}
		if *yes && *digest == "" {
			return usagef("--yes needs --digest: what nobody looks at again is named exactly")
		}
		endpoint, err := env.endpoint(to)
		if err != nil {
			return err
		}
		plan, err := env.planOf(endpoint, positional[0], *digest, *target, *generation)
		if err != nil {
			return err
		}
		if plan.Batch {
			return usagef("the plan is of a Batch, which is started: px run %s", plan.PlanRef)
		}
		if !*yes {
			if !term.IsTerminal(env.in) {
				return usagef("nobody can be asked: give --yes --digest %s", plan.PlanDigest)
			}
			fmt.Fprintf(env.err, "Plan        %s, until %s\nDigest      %s\nTarget      %s\nApply it? [y/N] ", plainText(plan.PlanRef), plainText(plan.ExpiresAt), plainText(plan.PlanDigest), plainText(string(plan.Target)))
			if !saysYes(env) {
				return &exitError{exitFailed, errors.New("nothing was done")}
			}
		}
		if err := env.commandOf(&plan, *command); err != nil {
			return err
		}
		request := map[string]any{"target": plan.Target, "expectedGeneration": plan.ExpectedGeneration, "planRef": plan.PlanRef, "planDigest": plan.PlanDigest, "commandId": plan.CommandID}
		if *approval != "" {
			request["approvalRef"] = *approval
		}
		arguments, err := json.Marshal(request, json.Deterministic(true))
		if err != nil {
			return err
		}
		answer, err := endpoint.call(ctx, strings.TrimSuffix(plan.Tool, "_plan_change")+"_apply_change", arguments)
		if err != nil {
			return err
		}
		return env.show(as, answer, moreNone)
	},
}

// saysYes reads a line. A closed input is no.
func saysYes(env *environment) bool {
	line, _ := bufio.NewReader(env.in).ReadString('\n')
	line = strings.ToLower(strings.TrimSpace(line))
	return line == "y" || line == "yes"
}

// planOf finds what applying a plan takes: as it was kept, which what is given must not
// contradict, or as it is given.
func (e *environment) planOf(to *endpoint, ref, digest, target string, generation int64) (keptPlan, error) {
	var given jsontext.Value
	kind := ""
	if target != "" {
		text, err := e.given(target, "the target")
		if err == nil {
			err = checkJSON(text, "the target")
		}
		if err != nil {
			return keptPlan{}, err
		}
		at, err := exact(text, []string{"flow", "report", "function"})
		if err != nil {
			return keptPlan{}, err
		}
		given, kind = at.target, at.kind
	}
	var plan keptPlan
	if !e.kept(keptPlans, ref, &plan) {
		if digest == "" || given == nil || generation < 0 {
			return keptPlan{}, usagef("%s was not planned with the state folder %s: give its --digest, --target and --generation, as the plan's answer has them, or name the folder with --state", plainText(ref), plainText(e.state))
		}
		plan = keptPlan{URL: to.url, Tool: map[string]string{"flow": "pxflow", "report": "report", "function": "function"}[kind] + "_plan_change",
			PlanRef: ref, PlanDigest: digest, Target: given, ExpectedGeneration: generation}
		return plan, nil
	}
	same := func(a, b jsontext.Value) bool {
		x, errA := canon.Canonicalize(a)
		y, errB := canon.Canonicalize(b)
		return errA == nil && errB == nil && string(x) == string(y)
	}
	switch {
	case plan.URL != to.url:
		return keptPlan{}, usagef("the plan was made at %s, and this is %s: name the host with --url or --state", plainText(plan.URL), plainText(to.url))
	case digest != "" && digest != plan.PlanDigest:
		return keptPlan{}, usagef("--digest is not that of the plan that was shown, which is %s", plainText(plan.PlanDigest))
	case given != nil && !same(given, plan.Target):
		return keptPlan{}, usagef("--target is not that of the plan that was shown, which is %s", plainText(string(plan.Target)))
	case generation >= 0 && generation != plan.ExpectedGeneration:
		return keptPlan{}, usagef("--generation is not that of the plan that was shown, which is %d", plan.ExpectedGeneration)
	}
	return plan, nil
}

// commandOf gives a plan its commandId, and keeps it before anything is sent.
func (e *environment) commandOf(plan *keptPlan, given string) error {
	switch {
	case given != "":
		plan.CommandID = given
	case plan.CommandID == "":
		plan.CommandID = newCommandID()
	}
	fmt.Fprintf(e.err, "commandId   %s\n", plainText(plan.CommandID))
	if err := e.keep(keptPlans, plan.PlanRef, plan); err != nil {
		fmt.Fprintf(e.err, "px: the commandId could not be kept: after a lost answer give it by --command-id: %v\n", err)
	}
	return nil
}

func newCommandID() string { return "px-" + rand.Text() }
