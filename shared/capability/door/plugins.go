package door

import (
	"context"
	"encoding/base64"

	"github.com/pxhost/pxhost/shared/budget"
	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/capability"
	"github.com/pxhost/pxhost/shared/capability/installation"
	"github.com/pxhost/pxhost/shared/capability/packaging"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/tool"
	"github.com/pxhost/pxhost/shared/wire/route"
)

// maxPackage is the largest body with a package, in bytes: one of the largest size as
// base64, and what is said of it. As a Lambda takes 6 MB of a whole event, a package of
// many quotes and line breaks that is large has to be sent as a zip.
const maxPackage = packaging.MaxAll/3*4 + installation.MaxSettings + 64<<10

// A packageInput is a package as a zip or as its files.
type packageInput struct {
	_     struct{}          `schema:"oneOf=zip|files"`
	Zip   string            `json:"zip,omitzero" schema:"minLength=1,maxLength=4194304"` // base64
	Files map[string]string `json:"files,omitzero" schema:"keys=any,minItems=1"`         // texts by path
}

// read reads it.
func (in packageInput) read() (packaging.Package, outcome.Findings) {
	if in.Zip == "" {
		return packaging.Texts(in.Files)
	}
	text, err := base64.StdEncoding.Strict().DecodeString(in.Zip)
	if err != nil {
		return packaging.Package{}, outcome.Findings{outcome.New(outcome.SchemaInvalid, "", outcome.Params{"rule": "base64"})}
	}
	return packaging.Zip(text)
}

type (
	validateInput struct {
		tool.Common
		Package packageInput `json:"package"`
	}
	installInput struct {
		tool.Common
		WorkspaceKey   string                  `json:"workspaceKey" schema:"pattern=key"`
		IdempotencyKey string                  `json:"idempotencyKey" schema:"minLength=1,maxLength=200"`
		Package        packageInput            `json:"package"`
		Granted        []capability.Permission `json:"granted,omitzero" schema:"maxItems=16"`
		Actors         []string                `json:"actors,omitzero" schema:"minItems=1,maxItems=200,each.minLength=3,each.maxLength=600"`
		Settings       canon.Raw               `json:"settings,omitzero"`
		Enabled        *bool                   `json:"enabled,omitzero"` // true if absent
	}
	instanceInput struct {
		tool.Common
		InstanceID string `json:"instanceId" schema:"minLength=1,maxLength=64"`
	}
	// A subjectInput names an instance as its manager saw it.
	subjectInput struct {
		instanceInput
		Generation int64 `json:"generation" schema:"minimum=1"`
	}
	updateInput struct {
		subjectInput
		Package  packageInput `json:"package"`
		Settings canon.Raw    `json:"settings,omitzero"` // the old ones if absent
	}
	grantInput struct {
		_ struct{} `schema:"anyOf=granted|actors|everyone|settings"`
		_ struct{} `schema:"atMostOne=actors|everyone"`
		subjectInput
		Granted  *[]capability.Permission `json:"granted,omitzero" schema:"maxItems=16"`
		Actors   []string                 `json:"actors,omitzero" schema:"minItems=1,maxItems=200,each.minLength=3,each.maxLength=600"`
		Everyone bool                     `json:"everyone,omitzero"` // with the right to use
		Settings canon.Raw                `json:"settings,omitzero"`
	}
)

// A Judgement is what a package is, and whether it could be installed. What is wrong
// with it are the diagnostics.
type Judgement struct {
	Valid         bool                    `json:"valid"`
	PluginKey     string                  `json:"pluginKey,omitzero"`
	Version       string                  `json:"version,omitzero"`
	PackageDigest string                  `json:"packageDigest,omitzero"`
	Publisher     string                  `json:"publisher,omitzero"`
	Permissions   []capability.Permission `json:"permissions,omitzero"`
}

// managed is the answer of what a manager does.
func managed[Out any](out Out, findings outcome.Findings, err error) (tool.Answer[Out], error) {
	return tool.Answer[Out]{Data: out, Diagnostics: findings}, err
}

// inRequest puts findings about a package below its member of the request.
func inRequest(findings outcome.Findings) outcome.Findings {
	for i := range findings {
		findings[i].Path = "/package" + findings[i].Path
	}
	return findings
}

func (h Host) plugins(d *route.Door) {
	route.Add(d, route.Route{Key: "POST /v1/plugins/validate", Scopes: calling, MaxBody: maxPackage}, func(_ context.Context, c tool.Call[validateInput]) (tool.Answer[Judgement], error) {
		return h.validate(c.Input.Package)
	})
	list := []budget.Place{{Path: "/plugins", Counts: budget.AsItems}}
	route.Add(d, route.Route{Key: "GET /v1/plugins", Scopes: managing, Places: list}, func(ctx context.Context, c tool.Call[workspaceInput]) (tool.Answer[installation.List], error) {
		out, findings, err := h.Plugins.List(ctx, c.Principal.String(), c.Input.WorkspaceKey)
		return tool.Answer[installation.List]{Data: out, Diagnostics: findings, Pin: tag(out.CatalogGeneration)}, err
	})
	route.Add(d, route.Route{Key: "GET /v1/plugins/{instanceId}", Scopes: managing}, func(ctx context.Context, c tool.Call[instanceInput]) (tool.Answer[installation.Plugin], error) {
		return managed(h.Plugins.Read(ctx, c.Principal.String(), c.Input.InstanceID))
	})
	route.Add(d, route.Route{Key: "POST /v1/plugins", Scopes: managing, MaxBody: maxPackage}, func(ctx context.Context, c tool.Call[installInput]) (tool.Answer[installation.Plugin], error) {
		in := c.Input
		p, findings := h.read(in.Package)
		if findings != nil {
			return tool.Refuse[installation.Plugin](inRequest(findings)), nil
		}
		return managed(h.Plugins.Install(ctx, installation.Order{
			Actor: c.Principal.String(), Workspace: in.WorkspaceKey, Key: in.IdempotencyKey, Package: p, Granted: in.Granted, Actors: in.Actors, Settings: in.Settings,
			Enabled: in.Enabled == nil || *in.Enabled,
		}))
	})
	route.Add(d, route.Route{Key: "POST /v1/plugins/{instanceId}/update", Scopes: managing, MaxBody: maxPackage}, func(ctx context.Context, c tool.Call[updateInput]) (tool.Answer[installation.Plugin], error) {
		p, findings := h.read(c.Input.Package)
		if findings != nil {
			return tool.Refuse[installation.Plugin](inRequest(findings)), nil
		}
		return managed(h.Plugins.Update(ctx, c.Input.subject(c.Principal), p, c.Input.Settings))
	})
	for verb, enabled := range map[string]bool{"enable": true, "disable": false} {
		route.Add(d, route.Route{Key: "POST /v1/plugins/{instanceId}/" + verb, Scopes: managing}, func(ctx context.Context, c tool.Call[subjectInput]) (tool.Answer[installation.Plugin], error) {
			return managed(h.Plugins.Switch(ctx, c.Input.subject(c.Principal), enabled))
		})
	}
	route.Add(d, route.Route{Key: "POST /v1/plugins/{instanceId}/grant", Scopes: managing, MaxBody: 2 * installation.MaxSettings}, func(ctx context.Context, c tool.Call[grantInput]) (tool.Answer[installation.Plugin], error) {
		g := installation.Grant{Granted: c.Input.Granted, Settings: c.Input.Settings}
		if c.Input.Actors != nil || c.Input.Everyone {
			g.Actors = &c.Input.Actors
		}
		return managed(h.Plugins.Grant(ctx, c.Input.subject(c.Principal), g))
	})
	route.Add(d, route.Route{Key: "POST /v1/plugins/{instanceId}/remove", Scopes: managing}, func(ctx context.Context, c tool.Call[subjectInput]) (tool.Answer[installation.Removed], error) {
		return managed(h.Plugins.Remove(ctx, c.Input.subject(c.Principal)))
	})
}

func (in subjectInput) subject(who tool.Principal) installation.Subject {
	return installation.Subject{Actor: who.String(), InstanceID: in.InstanceID, Generation: in.Generation}
}

// read reads a package. Where its files are wrong, what is wrong with its manifest comes at
// once with it.
func (h Host) read(in packageInput) (packaging.Package, outcome.Findings) {
	p, findings := in.read()
	if findings != nil {
		_, findings = h.Plugins.JudgeRead(p, findings)
	}
	return p, findings
}

// validate judges a package and stores nothing. Whoever may call the Host may ask.
func (h Host) validate(in packageInput) (tool.Answer[Judgement], error) {
	p, findings := h.read(in)
	if findings != nil {
		return tool.Answer[Judgement]{Found: findings, Pin: "judgement"}, nil
	}
	manifest, findings := h.Plugins.Judge(p)
	digest, err := p.Digest()
	if err != nil {
		return tool.Answer[Judgement]{}, err
	}
	publisher, _ := p.Publisher()
	out := Judgement{findings == nil, manifest.PluginKey, manifest.Version, digest, publisher, manifest.Permissions}
	return tool.Answer[Judgement]{Data: out, Found: findings, Pin: digest}, nil
}
