// Package slash finds what a slash command stands for (C7, C8): from a choice in a menu,
// of which nothing is believed but the two IDs, or from a typed name, where it is the
// only one. It is found in the catalog as it is now, and never is another taken in its
// place.
package slash

import (
	"maps"
	"strings"
	"unicode"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/capability"
	"github.com/pxhost/pxhost/shared/capability/template"
	"github.com/pxhost/pxhost/shared/outcome"
)

// A Choice is what a person sent: the text of the message and, from a menu, which command
// of which instance was chosen.
type Choice struct {
	Text                  string
	InstanceID, CommandID string // both, or none
}

// A Resolved is what it stands for.
type Resolved struct {
	InstanceID   string    `json:"instanceId"`
	CapabilityID string    `json:"capabilityId"`
	CommandID    string    `json:"commandId"`
	Generation   int64     `json:"generation"` // of the instance
	Arguments    canon.Raw `json:"arguments"`
}

// A Candidate is one of several that fit.
type Candidate struct {
	InstanceID string                `json:"instanceId"`
	CommandID  string                `json:"commandId"`
	Title      string                `json:"title"`
	Plugin     capability.PluginName `json:"plugin"`
}

// Resolve finds it in an actor's catalog, or says why it cannot be.
func Resolve(catalog capability.Catalog, choice Choice) (Resolved, error) {
	name, rest, typed := cut(choice.Text)
	var found []capability.Command
	for _, c := range catalog.Commands {
		if choice.CommandID != "" {
			if c.InstanceID == choice.InstanceID && c.CommandID == choice.CommandID {
				found = append(found, c)
			}
		} else if typed && capability.FoldCommand(c.Command) == name {
			found = append(found, c)
		}
	}
	// A name is one plugin's alone or it is nobody's: that another plugin could not be
	// used now is no choice of the person's.
	if len(found) > 1 {
		candidates := []Candidate{}
		for _, c := range found {
			candidates = append(candidates, Candidate{c.InstanceID, c.CommandID, c.Title, c.Plugin})
		}
		return Resolved{}, &capability.Failure{Code: outcome.SlashCommandAmbiguous, Params: outcome.Params{"candidates": candidates}}
	}
	if len(found) == 0 {
		return Resolved{}, &capability.Failure{Code: outcome.SlashCommandUnavailable, Params: outcome.Params{"reason": "not_there"}}
	}
	c := found[0]
	// Where a permission was lost, the command is not there any more.
	if c.Ready == string(outcome.ExtensionPermissionDenied) {
		return Resolved{}, &capability.Failure{Code: outcome.SlashCommandUnavailable, Params: outcome.Params{"reason": "permission"}}
	}
	// From a menu, the text is what the person wrote, with the command or without it.
	if choice.CommandID != "" && (!typed || name != capability.FoldCommand(c.Command)) {
		rest = strings.TrimSpace(choice.Text)
	}
	arguments, err := argumentsOf(c, rest)
	if err != nil {
		return Resolved{}, err
	}
	out := Resolved{InstanceID: c.InstanceID, CapabilityID: c.CapabilityID, CommandID: c.CommandID, Arguments: arguments}
	for _, e := range catalog.Capabilities {
		if e.InstanceID == c.InstanceID && e.CapabilityID == c.CapabilityID {
			out.Generation = e.Generation
		}
	}
	return out, nil
}

// cut takes a typed command apart: its folded name, and what follows.
func cut(text string) (name, rest string, typed bool) {
	text, typed = strings.CutPrefix(strings.TrimSpace(text), "/")
	if !typed {
		return "", "", false
	}
	name = text
	if i := strings.IndexFunc(text, unicode.IsSpace); i >= 0 {
		name, rest = text[:i], strings.TrimSpace(text[i:])
	}
	return capability.FoldCommand(name), rest, true
}

// argumentsOf are the command's own, with what was written as the query where it names
// none itself.
func argumentsOf(c capability.Command, rest string) (canon.Raw, error) {
	given := template.Arguments{}
	if rest != "" {
		text, err := canon.Encode(rest)
		if err != nil {
			return nil, &capability.Failure{Code: outcome.ExtensionInputInvalid, Params: outcome.Params{"reason": "text"}}
		}
		given["query"] = text
	}
	arguments := maps.Clone(given)
	if c.Template != nil {
		value, _ := template.ParseValue(c.Template, "")
		text, err := value.Render(given)
		if err != nil {
			return nil, &capability.Failure{Code: outcome.ExtensionInputInvalid, Params: outcome.Params{"reason": "query_missing"}}
		}
		own, err := template.Read(text)
		if err != nil {
			return nil, err
		}
		if names := value.Names(); len(names) > 0 {
			arguments = template.Arguments{} // it says itself where the text goes
		}
		maps.Copy(arguments, own)
	}
	return canon.Encode(map[string]canon.Raw(arguments))
}
