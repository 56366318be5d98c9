package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/pxhost/pxhost/infra/local/oidc"
	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/capability"
	hostdoor "github.com/pxhost/pxhost/shared/capability/door"
	"github.com/pxhost/pxhost/shared/capability/execution"
	"github.com/pxhost/pxhost/shared/capability/host"
	"github.com/pxhost/pxhost/shared/capability/slash"
	"github.com/pxhost/pxhost/shared/wait"
)

// calling are the flags of who calls capabilities, as an AI's host does.
type calling struct{ endpointFlags }

func (f *calling) door(env *environment) (*reviewDoor, error) {
	d, err := env.routes(f.token, f.as, oidc.ScopeTools, "PX_TOKEN")
	if d != nil {
		d.next = nextStep
	}
	return d, err
}

// ofWorkspace runs a command that reads what a principal is told of a workspace into an
// answer, or prints it as JSON, which ends the command. A flag says which.
func (env *environment) ofWorkspace(ctx context.Context, args []string, command, explains, path, asJSON string, into any) (workspace string, ended bool, err error) {
	fs := env.flags(command, "--workspace WORKSPACE [flags]\n\n"+explains)
	var to calling
	to.add(fs)
	key := aWorkspace(fs)
	raw := fs.Bool("json", false, asJSON)
	if err := env.parse(fs, args, false); err != nil {
		return "", false, err
	}
	if err := needWorkspace(*key); err != nil {
		return "", false, err
	}
	d, err := to.door(env)
	if err != nil {
		return "", false, err
	}
	text, err := d.whole(ctx, path+"?workspaceKey="+url.QueryEscape(*key))
	if err != nil {
		return "", false, err
	}
	if *raw {
		return *key, true, printJSON(env.out, canon.Raw(text))
	}
	if err := json.Unmarshal(text, into); err != nil {
		return "", false, &exitError{exitUnknown, errors.New("the answer cannot be read")}
	}
	return *key, false, nil
}

var capabilitiesCommand = command{
	name:    "capabilities",
	summary: "list what a principal may call of a workspace's plugins",
	run: func(ctx context.Context, env *environment, args []string) error {
		var catalog capability.Catalog
		workspace, ended, err := env.ofWorkspace(ctx, args, "capabilities", "What an AI sees at its next turn. What is not ready says the code of why.",
			"/v1/capabilities", "print the catalog, schemas included", &catalog)
		if err != nil || ended {
			return err
		}
		if len(catalog.Capabilities) == 0 {
			_, err := fmt.Fprintf(env.out, "nothing in %s is for this principal; a manager's px plugin list --workspace %s lists what is installed\n", workspace, workspace)
			return err
		}
		for _, c := range catalog.Capabilities {
			fmt.Fprintf(env.out, "%-8s %s %s  %s  [%s]\n", c.Kind, c.InstanceID, plainText(c.CapabilityID), plainText(c.Title), c.Ready)
		}
		for _, c := range catalog.Commands {
			fmt.Fprintf(env.out, "/%-7s %s %s  %s  [%s]\n", plainText(c.Command), c.InstanceID, plainText(c.CommandID), plainText(c.Title), c.Ready)
		}
		return nil
	},
}

var invokeCommand = command{
	name:    "invoke",
	summary: "call a capability and print what came of it",
	run: func(ctx context.Context, env *environment, args []string) error {
		fs := env.flags("invoke", `INSTANCE CAPABILITY [ARGUMENTS|-] [flags]

ARGUMENTS is a JSON object, - reads it from standard input, and without it there are
none. A key stands for one execution: the same call with the same key does not call
again, and tells what became of it.`)
		var to calling
		to.add(fs)
		surface := fs.String("surface", "ai", "where the call comes from: ai, ui, slash")
		generation := fs.Int64("generation", 0, "the `generation` of the instance as it was seen; ui must say it")
		key := fs.String("key", "", "the idempotency `key` (default: a new one)")
		patience := fs.Duration("wait", 0, "how long to go on asking after an execution that takes more than 20 seconds")
		positional, err := env.parseMixed(fs, args)
		if err != nil {
			return err
		}
		if len(positional) < 2 || len(positional) > 3 {
			return usagef("an instance (inst_…), a capability, and at most one JSON object of arguments")
		}
		arguments := canon.Raw(`{}`)
		if len(positional) == 3 {
			if arguments, err = env.arguments(positional[2]); err != nil {
				return err
			}
		}
		d, err := to.door(env)
		if err != nil {
			return err
		}
		return d.invoke(ctx, env, call{positional[0], positional[1], arguments, *surface, *generation, *key}, *patience)
	},
}

// arguments reads the JSON object of a command line.
func (e *environment) arguments(text string) (canon.Raw, error) {
	if text == "-" {
		all, err := io.ReadAll(io.LimitReader(e.in, 2*execution.MaxArguments))
		if err != nil {
			return nil, &exitError{exitUsage, err}
		}
		return asObject(all)
	}
	return asObject([]byte(text))
}

// A call is what is called.
type call struct {
	instance, capability string
	arguments            canon.Raw
	surface              string
	generation           int64
	key                  string
}

func (d *reviewDoor) invoke(ctx context.Context, env *environment, c call, patience time.Duration) error {
	if c.key == "" {
		c.key = "px-" + rand.Text()
	}
	body := map[string]any{"arguments": c.arguments, "surface": c.surface, "idempotencyKey": c.key}
	if c.generation != 0 {
		body["generation"] = c.generation
	}
	answer, err := d.send(ctx, http.MethodPost, "/v1/capabilities/"+url.PathEscape(c.instance)+"/"+url.PathEscape(c.capability)+"/invoke", "", body)
	if err != nil {
		return again(err, c.key)
	}
	return d.follow(ctx, env, answer.Data, patience)
}

func executionPath(id string) string { return "/v1/executions/" + url.PathEscape(id) }

// follow prints an execution, after waiting for its end as long as patience lasts. One
// whose answer was cut is read whole.
func (d *reviewDoor) follow(ctx context.Context, env *environment, data []byte, patience time.Duration) error {
	until := time.Now().Add(patience)
	for {
		var e hostdoor.Execution
		var cut struct {
			Truncation *struct{} `json:"truncation"`
		}
		if json.Unmarshal(data, &cut) != nil || json.Unmarshal(data, &e) != nil || e.ExecutionID == "" {
			return &exitError{exitUnknown, errors.New("the answer cannot be read")}
		}
		if e.State == host.Running && time.Now().Before(until) {
			if err := wait.For(ctx, min(time.Second, time.Until(until))); err != nil {
				return err
			}
		} else if cut.Truncation == nil {
			return ended(env, e, data)
		}
		var err error
		if data, err = d.whole(ctx, executionPath(e.ExecutionID)); err != nil {
			return err
		}
	}
}

// ended prints an execution, and ends px with what became of it.
func ended(env *environment, e hostdoor.Execution, data []byte) error {
	if err := printJSON(env.out, canon.Raw(data)); err != nil {
		return err
	}
	switch e.State {
	case host.Succeeded:
		return nil
	case host.Running:
		return &exitError{exitUnknown, fmt.Errorf("it runs still: px execution get %s tells what became of it, px execution cancel %s stops it", e.ExecutionID, e.ExecutionID)}
	}
	told := fmt.Errorf("the execution is %s", e.State)
	if e.Failure != nil {
		told = fmt.Errorf("%w: %s", told, e.Failure.Code)
		if step := nextStep(e.Failure.Code, e.Failure.Params); step != "" {
			told = fmt.Errorf("%w\n  %s", told, step)
		}
	}
	return &exitError{exitFailed, told}
}

var slashCommand = command{
	name:    "slash",
	summary: "resolve a typed /command, and call it",
	run: func(ctx context.Context, env *environment, args []string) error {
		fs := env.flags("slash", `"/COMMAND TEXT" --workspace WORKSPACE [flags]

Finds the command in the catalog of now and calls its capability. Where several plugins
have the name, --instance and --command choose, as a menu does.`)
		var to calling
		to.add(fs)
		workspace := aWorkspace(fs)
		instance := fs.String("instance", "", "the chosen `instance`")
		chosen := fs.String("command", "", "the `ID` of the chosen command")
		only := fs.Bool("resolve", false, "print what it stands for, and call nothing")
		key := fs.String("key", "", "the idempotency `key` (default: a new one)")
		patience := fs.Duration("wait", 0, "how long to go on asking after an execution that takes more than 20 seconds")
		positional, err := env.parseMixed(fs, args)
		if err != nil {
			return err
		}
		if len(positional) == 0 {
			return usagef("a command such as \"/notes girder\"")
		}
		if err := needWorkspace(*workspace); err != nil {
			return err
		}
		if (*instance == "") != (*chosen == "") {
			return usagef("--instance and --command choose a command together, as px capabilities lists them")
		}
		body := map[string]any{"workspaceKey": *workspace, "text": strings.Join(positional, " ")}
		if *instance != "" {
			body["instanceId"] = *instance
		}
		if *chosen != "" {
			body["commandId"] = *chosen
		}
		d, err := to.door(env)
		if err != nil {
			return err
		}
		answer, err := d.send(ctx, http.MethodPost, "/v1/slash/resolve", "", body)
		if err != nil {
			return err
		}
		if *only {
			return printJSON(env.out, canon.Raw(answer.Data))
		}
		var found slash.Resolved
		if err := json.Unmarshal(answer.Data, &found); err != nil {
			return &exitError{exitUnknown, errors.New("the answer cannot be read")}
		}
		return d.invoke(ctx, env, call{found.InstanceID, found.CapabilityID, found.Arguments, "slash", found.Generation, *key}, *patience)
	},
}

var executionCommand = command{
	name:    "execution",
	summary: "read or cancel an execution of a capability",
	run: func(ctx context.Context, env *environment, args []string) error {
		fs := env.flags("execution", "get|cancel EXECUTION [flags]\n\nWhat is at work outside cannot be undone: cancel tells what is known of it.")
		var to calling
		to.add(fs)
		patience := fs.Duration("wait", 0, "how long to go on asking until it is over")
		positional, err := env.parseMixed(fs, args)
		if err != nil {
			return err
		}
		if len(positional) != 2 || positional[0] != "get" && positional[0] != "cancel" {
			return usagef("get or cancel, and an execution (exec_…)")
		}
		d, err := to.door(env)
		if err != nil {
			return err
		}
		if positional[0] == "get" {
			text, err := d.whole(ctx, executionPath(positional[1]))
			if err != nil {
				return err
			}
			return d.follow(ctx, env, text, *patience)
		}
		answer, err := d.send(ctx, http.MethodPost, executionPath(positional[1])+"/cancel", "", map[string]any{})
		if err != nil {
			return err
		}
		err = d.follow(ctx, env, answer.Data, *patience)
		var e hostdoor.Execution
		if json.Unmarshal(answer.Data, &e) == nil && e.State == host.Cancelled {
			return nil // as it was asked to be
		}
		return err
	},
}

var notificationsCommand = command{
	name:    "notifications",
	summary: "print what the plugins of a workspace told a principal",
	run: func(ctx context.Context, env *environment, args []string) error {
		var list hostdoor.Notifications
		_, ended, err := env.ofWorkspace(ctx, args, "notifications", "The newest come first, each with its time here.", "/v1/notifications", "print the answer as JSON", &list)
		if err != nil || ended {
			return err
		}
		for _, n := range list.Notifications {
			if n.Withheld != "" {
				fmt.Fprintf(env.out, "%s  withheld: %s of %s\n", n.At.Local().Format(time.DateTime), n.Withheld, n.InstanceID)
				continue
			}
			fmt.Fprintf(env.out, "%s  %s\n", n.At.Local().Format(time.DateTime), plainText(n.Title))
			if n.Text != "" {
				fmt.Fprintf(env.out, "  %s\n", plainText(n.Text))
			}
		}
		return nil
	},
}
