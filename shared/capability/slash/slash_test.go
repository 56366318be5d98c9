package slash_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/capability"
	"github.com/pxhost/pxhost/shared/capability/slash"
	"github.com/pxhost/pxhost/shared/outcome"
)

func command(instance, id, name, ready, template string) capability.Command {
	c := capability.Command{InstanceID: instance, CommandID: id, Command: name, CapabilityID: "cap." + id, Title: "t", Ready: ready, Plugin: capability.PluginName{PluginKey: "p", Title: "플러그인 " + instance}}
	if template != "" {
		c.Template = canon.Raw(template)
	}
	return c
}

var catalog = capability.Catalog{
	Capabilities: []capability.Entry{{InstanceID: "i1", CapabilityID: "cap.notes", Generation: 7}, {InstanceID: "i2", CapabilityID: "cap.other", Generation: 9}},
	Commands: []capability.Command{
		command("i1", "notes", "notes", "READY", `{}`),
		command("i2", "other", "notes", "READY", ""),
		command("i1", "one", "One-2", "READY", `{"q":"{query}","limit":5}`),
		command("i1", "korean", "노트", string(outcome.ExtensionConnectionRequired), ""),
		command("i2", "lost", "lost", string(outcome.ExtensionPermissionDenied), ""),
		command("i2", "fixed", "fixed", "READY", `{"mode":"x"}`),
		command("i1", "half", "half", "READY", ""),
		command("i2", "half", "half", string(outcome.ExtensionPermissionDenied), ""),
	},
}

// covers: C7, C8
func TestWhatACommandStandsFor(t *testing.T) {
	for _, c := range []struct {
		choice slash.Choice
		want   string // instance capability generation arguments, or code
	}{
		{slash.Choice{Text: "/one-2  girder  span ", InstanceID: "", CommandID: ""}, `i1 cap.one 0 {"limit":5,"q":"girder  span"}`},
		{slash.Choice{Text: "/ＯＮＥ-2 x"}, `i1 cap.one 0 {"limit":5,"q":"x"}`},
		{slash.Choice{Text: "/one-2"}, `i1 cap.one 0 {"limit":5}`},
		{slash.Choice{Text: "/노트 경간"}, `i1 cap.korean 0 {"query":"경간"}`},
		{slash.Choice{Text: "/fixed y"}, `i2 cap.fixed 0 {"mode":"x","query":"y"}`},
		{slash.Choice{Text: "/notes x"}, "SLASH_COMMAND_AMBIGUOUS"},
		{slash.Choice{Text: "/half x"}, "SLASH_COMMAND_AMBIGUOUS"}, // one of them cannot be used, which chooses none
		{slash.Choice{Text: "/half x", InstanceID: "i1", CommandID: "half"}, `i1 cap.half 0 {"query":"x"}`},
		{slash.Choice{Text: "/half x", InstanceID: "i2", CommandID: "half"}, "SLASH_COMMAND_UNAVAILABLE permission"},
		{slash.Choice{Text: "/notes x", InstanceID: "i2", CommandID: "other"}, `i2 cap.other 9 {"query":"x"}`},
		{slash.Choice{Text: "x y", InstanceID: "i1", CommandID: "notes"}, `i1 cap.notes 7 {"query":"x y"}`},
		{slash.Choice{Text: "/other x", InstanceID: "i1", CommandID: "notes"}, `i1 cap.notes 7 {"query":"/other x"}`},
		{slash.Choice{Text: "", InstanceID: "i1", CommandID: "notes"}, `i1 cap.notes 7 {}`},
		{slash.Choice{Text: "/notes x", InstanceID: "i3", CommandID: "notes"}, "SLASH_COMMAND_UNAVAILABLE not_there"},
		{slash.Choice{Text: "/notes x", InstanceID: "i1", CommandID: "other"}, "SLASH_COMMAND_UNAVAILABLE not_there"},
		{slash.Choice{Text: "/lost x", InstanceID: "i2", CommandID: "lost"}, "SLASH_COMMAND_UNAVAILABLE permission"},
		{slash.Choice{Text: "/lost"}, "SLASH_COMMAND_UNAVAILABLE permission"},
		{slash.Choice{Text: "/none"}, "SLASH_COMMAND_UNAVAILABLE not_there"},
		{slash.Choice{Text: "notes x"}, "SLASH_COMMAND_UNAVAILABLE not_there"},
		{slash.Choice{Text: "//notes"}, "SLASH_COMMAND_UNAVAILABLE not_there"},
		{slash.Choice{Text: "/"}, "SLASH_COMMAND_UNAVAILABLE not_there"},
	} {
		r, err := slash.Resolve(catalog, c.choice)
		got := fmt.Sprintf("%s %s %d %s", r.InstanceID, r.CapabilityID, r.Generation, r.Arguments)
		if err != nil {
			failed := (*capability.Failure)(nil)
			if !errors.As(err, &failed) {
				t.Fatal(err)
			}
			reason, _ := failed.Params["reason"].(string)
			got = strings.TrimSpace(string(failed.Code) + " " + reason)
		}
		if got != c.want {
			t.Errorf("%+v: %s, want %s", c.choice, got, c.want)
		}
		again, _ := slash.Resolve(catalog, c.choice)
		if fmt.Sprint(again) != fmt.Sprint(r) {
			t.Errorf("%+v: sent again it stands for %v", c.choice, again)
		}
	}
	_, err := slash.Resolve(catalog, slash.Choice{Text: "/notes"})
	failed := (*capability.Failure)(nil)
	if !errors.As(err, &failed) || len(failed.Params["candidates"].([]slash.Candidate)) != 2 || failed.Params["candidates"].([]slash.Candidate)[1].Plugin.Title != "플러그인 i2" {
		t.Error(failed)
	}
}
