// Package texttemplate is the adapter text_template: it puts arguments into a text (A1).
// It reaches nothing outside and changes nothing.
package texttemplate

import (
	"context"
	"fmt"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/capability"
	"github.com/pxhost/pxhost/shared/capability/template"
)

// Adapter implements capability.Adapter.
type Adapter struct{}

// summaryLength is how much of the text the summary shows, in code points.
const summaryLength = 200

// Call puts the arguments into the template. The text is data.text; the summary is its
// beginning.
func (Adapter) Call(_ context.Context, c capability.Call) (capability.Result, error) {
	r, findings := capability.ReadRuntime(c.Capability.Runtime, "")
	if findings != nil || r.TextTemplate == nil {
		return capability.Result{}, fmt.Errorf("texttemplate: the runtime is another adapter's")
	}
	t, err := template.Parse(r.TextTemplate.Template)
	if err != nil {
		return capability.Result{}, fmt.Errorf("texttemplate: %w", err)
	}
	arguments, err := template.Read(c.Arguments)
	if err != nil {
		return capability.Result{}, err
	}
	text, err := t.Render(arguments)
	if err != nil {
		return capability.Result{}, capability.BadArgument(err)
	}
	data, err := canon.Encode(map[string]string{"text": text})
	if err != nil {
		return capability.Result{}, err
	}
	summary := []rune(text)
	if len(summary) > summaryLength {
		summary = append(summary[:summaryLength-1], '…')
	}
	if text == "" {
		summary = []rune(c.Capability.Title)
	}
	return capability.Result{Summary: string(summary), Data: data}, nil
}
