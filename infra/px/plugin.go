package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/pxhost/pxhost/infra/local/oidc"
	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/capability"
	"github.com/pxhost/pxhost/shared/capability/installation"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/target"
)

// The codes of px call and of a reviewer hold for these commands as well.
// managing are the flags of who manages plugins: a person, whose token no AI has.
type managing struct{ doorFlags }

// door returns the routes, with what a manager can do about a refusal.
func (f *managing) door(env *environment) (*reviewDoor, error) {
	d, err := env.routes(f.token, f.as, oidc.ScopeApprove, "PX_APPROVE_TOKEN")
	if d != nil {
		d.next = nextStep
	}
	return d, err
}

// nextStep says what a person can do about a refusal or a failure of the capability
// host, with the names that it gives.
func nextStep(code outcome.Code, params outcome.Params) string {
	var named []string
	for param, place := range map[string]string{"instanceId": "INSTANCE", "connectorId": "CONNECTOR", "connectionId": "CONNECTION"} {
		if name, ok := params[param].(string); ok && name != "" {
			named = append(named, place, plainText(name))
		}
	}
	return strings.NewReplacer(named...).Replace(step(code, params))
}

func step(code outcome.Code, params outcome.Params) string {
	text := func(name string) string { s, _ := params[name].(string); return s }
	switch code {
	case outcome.ExtensionNotFound:
		switch text("reason") {
		case "execution":
			return "it is another principal's, or there was none: --as or the token says who asks"
		case "connection":
			return "px connection list --workspace WORKSPACE lists them; what was completed once, or waited too long, begins anew by px connection authorize"
		}
		return "px capabilities --workspace WORKSPACE lists what you may call, px plugin list --workspace WORKSPACE what is installed"
	case outcome.ExtensionPermissionDenied:
		if right := text("right"); right != "" {
			return "an operator grants it: px workspace grant WORKSPACE --to SUBJECT --rights " + right + " (with the other rights that are to stay)"
		}
		switch {
		case text("reason") == "not_asked_for":
			return "nobody can grant it: the plugin's developer adds " + text("permission") + " to the permissions of the capability"
		case text("rule") != "":
			return "nobody can grant it: the plugin names an address that is none of a public host, and its developer another one"
		}
		if permission := text("permission"); permission != "" {
			return "a manager grants it: px plugin grant INSTANCE --grant " + permission + " (with the others that are to stay)"
		}
		return "px plugin show INSTANCE says what is granted and to whom"
	case outcome.ExtensionDisabled:
		return "a manager enables it: px plugin enable INSTANCE"
	case outcome.ExtensionVersionMismatch:
		return "the instance has changed: px capabilities --workspace WORKSPACE --json or px plugin show INSTANCE say what it is now, then the same again"
	case outcome.ExtensionConnectionRequired:
		switch text("reason") {
		case "pending":
			return "a person has to say yes: px connection list --workspace WORKSPACE, px connection authorize CONNECTION --redirect URL gives an address to open, and px connection complete ADDRESS takes what comes back"
		case "changed":
			return "the plugin leads elsewhere now, and takes no credential along: px connection list --workspace WORKSPACE, and px connection rotate CONNECTION --secret FILE"
		case "rejected":
			return "the service refuses the credential: px connection list --workspace WORKSPACE, and px connection rotate CONNECTION --secret FILE"
		}
		return "the service wants a credential: px connection create INSTANCE CONNECTOR --secret FILE"
	case outcome.ExtensionDependencyRequired:
		switch text("state") {
		case "disabled":
			return "a manager enables that plugin: px plugin list --workspace WORKSPACE shows its INSTANCE, px plugin enable INSTANCE"
		case "other_version":
			return "a manager puts a version from " + text("minimum") + " to below the next major one in its place: px plugin update INSTANCE DIR"
		}
		return "install that plugin first: px install DIR --workspace WORKSPACE"
	case outcome.ExtensionInputInvalid:
		return "px capabilities --workspace WORKSPACE --json shows the inputSchema"
	case outcome.ExtensionOutputInvalid, outcome.PluginOutcomeChanged:
		return "the plugin's developer has to mend it; what happened outside has happened"
	case outcome.ExtensionResponseInvalid:
		return "params say what the answer, or what main returned, is: shared/capability/README.md lists the rules"
	case outcome.PluginStorageConflict:
		return "what is stored has changed, and stays: read it, then call again under another --key"
	case outcome.ExtensionTimeout, outcome.ExtensionNetworkRetryable:
		return "the same call can be made again under another --key"
	case outcome.ExtensionOutcomeUnknown:
		return "it may have happened: look at the service before you call it again under another --key"
	case outcome.CommandReused:
		if text("connectionId") != "" {
			return "there is a connection already, with another secret: px connection rotate CONNECTION --secret FILE"
		}
		return "--key stands for another request already: take another key"
	case outcome.SlashCommandAmbiguous:
		return "choose one of them: --instance INSTANCE --command COMMAND_ID"
	case outcome.SlashCommandUnavailable:
		return "px capabilities --workspace WORKSPACE lists the commands there are"
	}
	return ""
}

// aWorkspace adds the flag of a workspace, which nothing fills in.
func aWorkspace(fs *flag.FlagSet) *string {
	return fs.String("workspace", "", "the `workspace`")
}

func needWorkspace(workspace string) error {
	if !target.ValidKey(workspace) {
		return usagef("--workspace names the workspace, which is %s", target.KeyPattern)
	}
	return nil
}

// permissions reads --grant: "all" are those that the package asks for.
func permissions(list string, asked []capability.Permission) ([]capability.Permission, error) {
	switch list {
	case "all":
		return asked, nil
	case "none":
		return []capability.Permission{}, nil
	}
	out := []capability.Permission{}
	for _, name := range separate(list) {
		if !slices.Contains(capability.Permission("").Enum(), name) {
			return nil, usagef("%q is no permission: all, none, %s", name, strings.Join(capability.Permission("").Enum(), ", "))
		}
		out = append(out, capability.Permission(name))
	}
	return out, nil
}

// people reads --actors.
func people(list string) ([]string, error) {
	out := separate(list)
	for _, one := range out {
		if !capability.ValidActor(one) {
			return nil, usagef("%q is no ISSUER|SUBJECT; the issuer of px local is the URL that it prints", plainText(one))
		}
	}
	return out, nil
}

// object reads a JSON object from a file, or standard input for "-".
func (e *environment) object(file string) (canon.Raw, error) {
	var text []byte
	var err error
	if file == "-" {
		text, err = io.ReadAll(io.LimitReader(e.in, 1<<20))
	} else {
		text, err = os.ReadFile(file)
	}
	if err != nil {
		return nil, &exitError{exitUsage, err}
	}
	return asObject(text)
}

func asObject(text []byte) (canon.Raw, error) {
	canonical, err := canon.Canonicalize(text)
	if err != nil {
		return nil, usagef("it is no strict JSON: %v", err)
	}
	if canon.Raw(canonical).Kind() != '{' {
		return nil, usagef("it is no JSON object")
	}
	return canonical, nil
}

var installCommand = command{
	name:    "install",
	summary: "install a plugin package in a workspace",
	run: func(ctx context.Context, env *environment, args []string) error {
		fs := env.flags("install", `DIR|ZIP --workspace WORKSPACE [--grant all|PERMISSION,…] [--settings FILE|-] [flags]

Who installs needs the right manage. What a package asks for and is not granted, its
capabilities cannot do: they are listed, and say which permission they lack. The same
--key again is the same instance.`)
		var to managing
		to.add(fs)
		workspace := aWorkspace(fs)
		grant := fs.String("grant", "", "comma separated `permissions`, or all that the package asks for")
		settings := fs.String("settings", "", "a `file` with the settings as a JSON object, - for standard input")
		actors := fs.String("actors", "", "comma separated ISSUER|SUBJECT who may use it; without it, everyone with the right use")
		disabled := fs.Bool("disabled", false, "install it without enabling it")
		key := fs.String("key", "", "the idempotency `key` (default: a new one)")
		positional, err := env.parseMixed(fs, args)
		if err != nil {
			return err
		}
		if len(positional) != 1 {
			return usagef("one folder or zip of a package")
		}
		if err := needWorkspace(*workspace); err != nil {
			return err
		}
		p, sent, err := sendable(positional[0])
		if err != nil {
			return err
		}
		m, _ := judgement.Judge(p)
		granted, err := permissions(*grant, m.Permissions)
		if err != nil {
			return err
		}
		body := map[string]any{"workspaceKey": *workspace, "package": sent, "granted": granted, "enabled": !*disabled}
		if body["idempotencyKey"] = *key; *key == "" {
			body["idempotencyKey"] = "px-" + rand.Text()
		}
		if *actors != "" {
			if body["actors"], err = people(*actors); err != nil {
				return err
			}
		}
		if *settings != "" {
			if body["settings"], err = env.object(*settings); err != nil {
				return err
			}
		}
		d, err := to.door(env)
		if err != nil {
			return err
		}
		plugin, err := d.manage(ctx, "/v1/plugins", body)
		if err != nil {
			return again(err, fmt.Sprint(body["idempotencyKey"]))
		}
		return showPlugin(env.out, plugin)
	},
}

// again says how to find out what became of a write without an answer.
func again(err error, key string) error {
	var exit *exitError
	if _, before := errors.AsType[notDone](err); !before && errors.As(err, &exit) && exit.code == exitUnknown && exit.err != nil {
		return &exitError{exit.code, fmt.Errorf("%w\nit may have been done: the same with --key %s does it once", exit.err, key)}
	}
	return err
}

// manage makes a change and returns the plugin as it is then.
func (d *reviewDoor) manage(ctx context.Context, path string, body any) (installation.Plugin, error) {
	var plugin installation.Plugin
	answer, err := d.send(ctx, http.MethodPost, path, "", body)
	if err == nil && json.Unmarshal(answer.Data, &plugin) != nil {
		err = &exitError{exitUnknown, errors.New("the answer cannot be read")}
	}
	return plugin, err
}

// showPlugin prints what an instance is, and what is missing for it to work.
func showPlugin(out io.Writer, p installation.Plugin) error {
	state := "enabled"
	if !p.Enabled {
		state = "disabled"
	}
	fmt.Fprintf(out, "%s  %s %s  %s, generation %d, in %s\n", p.InstanceID, plainText(p.PluginKey), p.Version, state, p.Generation, p.WorkspaceKey)
	for _, c := range p.Capabilities {
		fmt.Fprintf(out, "  %-8s %s  %s\n", c.Kind, plainText(c.CapabilityID), plainText(c.Title))
	}
	for _, c := range p.Connectors {
		if c.Auth != "none" {
			back := ""
			if c.Grant == "authorization_code" {
				back = " --redirect URL"
			}
			fmt.Fprintf(out, "  connector %s takes a credential: %s; px connection create %s %s --secret FILE%s\n", c.ConnectorID, strings.TrimSpace(c.Auth+" "+c.Grant), p.InstanceID, c.ConnectorID, back)
		}
	}
	var missing []capability.Permission
	for _, asked := range p.Permissions {
		if !slices.Contains(p.Granted, asked) {
			missing = append(missing, asked)
		}
	}
	if len(p.Actors) > 0 {
		fmt.Fprintf(out, "  only for: %s; px plugin grant %s --everyone lifts that\n", plainText(strings.Join(p.Actors, ", ")), p.InstanceID)
	}
	if len(p.Granted) > 0 {
		fmt.Fprintf(out, "  granted: %s\n", listed(p.Granted))
	}
	if len(missing) > 0 {
		fmt.Fprintf(out, "  not granted: %s; px plugin grant %s --grant all grants what it asks for\n", listed(missing), p.InstanceID)
	}
	if !p.Enabled {
		fmt.Fprintf(out, "  px plugin enable %s enables it\n", p.InstanceID)
	}
	for _, t := range p.Schedule {
		next := "not while it is disabled or lacks a permission"
		if !t.NextAt.IsZero() {
			next = "next " + t.NextAt.UTC().Format(time.RFC3339)
		}
		fmt.Fprintf(out, "  every %d minutes  %s  %s\n", t.IntervalMinutes, plainText(t.CapabilityID), next)
		for _, s := range t.Past {
			fmt.Fprintf(out, "    %s  %s\n", s.At.UTC().Format(time.RFC3339), strings.Join(slices.DeleteFunc([]string{string(s.State), string(s.Code), plainText(s.Reason), s.ExecutionID}, func(t string) bool { return t == "" }), "  "))
		}
	}
	return nil
}

func listed(permissions []capability.Permission) string {
	var names []string
	for _, p := range permissions {
		names = append(names, string(p))
	}
	return strings.Join(names, ", ")
}

var pluginCommand = command{
	name:    "plugin",
	summary: "list, update, switch, grant and remove plugins",
	run: func(ctx context.Context, env *environment, args []string) error {
		fs := env.flags("plugin", `list --workspace WORKSPACE
       px plugin show INSTANCE
       px plugin update INSTANCE DIR|ZIP [--settings FILE|-]
       px plugin enable|disable INSTANCE
       px plugin grant INSTANCE [--grant all|none|PERMISSION,…] [--settings FILE|-] [--actors ISSUER|SUBJECT,…|--everyone]
       px plugin remove INSTANCE

It takes the right manage. grant replaces what it names and leaves the rest. A change is
made to the instance as it is now, or as it was at --generation; it shows at the very
next call of anyone.`)
		var to managing
		to.add(fs)
		workspace := aWorkspace(fs)
		grant := fs.String("grant", "", "comma separated `permissions`, or all that the package asks for, or none (grant)")
		settings := fs.String("settings", "", "a `file` with the settings as a JSON object, - for standard input (update, grant)")
		actors := fs.String("actors", "", "comma separated ISSUER|SUBJECT who may use it (grant)")
		everyone := fs.Bool("everyone", false, "everyone with the right use may use it (grant)")
		generation := fs.Int64("generation", 0, "the `generation` of the instance that is meant (default: the present one)")
		raw := fs.Bool("json", false, "print the answer as JSON")
		positional, err := env.parseMixed(fs, args)
		if err != nil {
			return err
		}
		if len(positional) == 1 && positional[0] == "list" {
			if err := needWorkspace(*workspace); err != nil {
				return err
			}
			d, err := to.door(env)
			if err != nil {
				return err
			}
			return listPlugins(ctx, env, d, *workspace, *raw)
		}
		verbs := []string{"show", "update", "enable", "disable", "grant", "remove"}
		want := map[string]int{"update": 3}
		if len(positional) == 0 || !slices.Contains(verbs, positional[0]) || len(positional) != max(2, want[positional[0]]) {
			return usagef("list, or one of %s and an instance (inst_…), and a package for update", strings.Join(verbs, ", "))
		}
		verb, path := positional[0], "/v1/plugins/"+url.PathEscape(positional[1])
		body := map[string]any{}
		if *settings != "" && (verb == "update" || verb == "grant") {
			if body["settings"], err = env.object(*settings); err != nil {
				return err
			}
		}
		if verb == "update" {
			if _, body["package"], err = sendable(positional[2]); err != nil {
				return err
			}
		}
		d, err := to.door(env)
		if err != nil {
			return err
		}
		now, err := d.plugin(ctx, path)
		if err != nil {
			return err
		}
		show := func(p installation.Plugin) error {
			if *raw {
				return printJSON(env.out, p)
			}
			return showPlugin(env.out, p)
		}
		if verb == "show" {
			return show(now)
		}
		if body["generation"] = now.Generation; *generation != 0 {
			body["generation"] = *generation
		}
		if verb == "grant" {
			if *grant != "" {
				if body["granted"], err = permissions(*grant, now.Permissions); err != nil {
					return err
				}
			}
			if *actors != "" {
				if body["actors"], err = people(*actors); err != nil {
					return err
				}
			}
			if *everyone {
				body["everyone"] = true
			}
			if len(body) == 1 {
				return usagef("grant names something: --grant, --settings, --actors or --everyone")
			}
		}
		if verb == "remove" {
			if _, err := d.send(ctx, http.MethodPost, path+"/remove", "", body); err != nil {
				return err
			}
			_, err = fmt.Fprintf(env.out, "%s is removed; what runs of it is told so, and its storage is not deleted\n", positional[1])
			return err
		}
		changed, err := d.manage(ctx, path+"/"+verb, body)
		if err != nil {
			return err
		}
		return show(changed)
	},
}

// plugin reads an instance.
func (d *reviewDoor) plugin(ctx context.Context, path string) (installation.Plugin, error) {
	var p installation.Plugin
	text, err := d.whole(ctx, path)
	if err == nil && json.Unmarshal(text, &p) != nil {
		err = &exitError{exitUnknown, errors.New("the answer cannot be read")}
	}
	return p, err
}

func listPlugins(ctx context.Context, env *environment, d *reviewDoor, workspace string, raw bool) error {
	text, err := d.whole(ctx, "/v1/plugins?workspaceKey="+url.QueryEscape(workspace))
	if err != nil {
		return err
	}
	if raw {
		return printJSON(env.out, canon.Raw(text))
	}
	var list installation.List
	if err := json.Unmarshal(text, &list); err != nil {
		return &exitError{exitUnknown, errors.New("the answer cannot be read")}
	}
	if len(list.Plugins) == 0 {
		_, err := fmt.Fprintf(env.out, "nothing is installed in %s; px install DIR --workspace %s does it\n", workspace, workspace)
		return err
	}
	for _, p := range list.Plugins {
		if err := showPlugin(env.out, p); err != nil {
			return err
		}
	}
	return nil
}
