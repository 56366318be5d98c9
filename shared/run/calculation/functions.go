package calculation

import (
	"context"
	"fmt"
	"slices"

	"github.com/pxhost/pxhost/shared/component"
	"github.com/pxhost/pxhost/shared/dependency"
	"github.com/pxhost/pxhost/shared/flow"
	"github.com/pxhost/pxhost/shared/function"
	"github.com/pxhost/pxhost/shared/function/packages"
	"github.com/pxhost/pxhost/shared/function/saved"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/target"
)

// knownBytes is how much of Functions a process keeps.
const knownBytes = 16 << 20

// documentBytes is about how much a decoded document is of its text: ports are maps.
const documentBytes = 10

// A pinned reads the Function versions that a saved Flow names, those of packages from
// the catalog of packages. That the Project's own exist was
// a condition of saving it, and versions stay for ever: the catalog need not be asked
// again, whichever version is the newest by now (package function/saved asks it).
type pinned struct {
	objects history.Objects
	known   *history.Cache // of function.Document and of the texts of sources, by digest
	space   history.Space
	found   map[flow.FunctionTarget]function.Document // so far, of one Flow

	project target.Project
	catalog packages.Catalog
	carried map[history.Ref][]byte // the sources of packages' Functions, of one Flow
}

// Explain implements flow.Explainer. The Run was begun with what was installed.
func (p pinned) Explain(ref flow.FunctionTarget) (outcome.Code, outcome.Params) {
	if !ref.Owned() {
		return "", nil
	}
	is := ref.Package
	return saved.Explain(p.catalog, p.project, dependency.Lock{}.With(is.PackageKey, dependency.Installed{Version: is.Version, Digest: is.Digest}), ref)
}

// Functions implements flow.Contracts.
func (p pinned) Functions(ctx context.Context, refs []flow.FunctionTarget) (map[flow.FunctionTarget]component.Contract, error) {
	out := make(map[flow.FunctionTarget]component.Contract, len(refs))
	for _, r := range refs {
		if !r.Owned() {
			continue
		}
		f, ok := p.catalog.Owns(r.Package, r.FunctionKey)
		if ok && f.Document.Version == r.Version && f.Digest == r.Digest {
			out[r], p.found[r], p.carried[f.Document.Source()] = f.Document.Contract(), f.Document, f.Source()
		}
	}
	refs = slices.DeleteFunc(slices.Clone(refs), flow.FunctionTarget.Owned)
	digests := make([]history.Ref, len(refs))
	for i, r := range refs {
		digests[i] = history.Ref(r.Digest)
	}
	texts, err := p.read(ctx, digests, func(text []byte) (any, int, error) {
		doc, findings := function.Decode(text)
		if findings.Refused() {
			return nil, 0, fmt.Errorf("calculation: a saved Function cannot be read: %s at %s", findings[0].Code, findings[0].Path)
		}
		return doc, documentBytes * len(text), nil
	})
	if err != nil {
		return nil, err
	}
	for _, r := range refs {
		doc, ok := texts[history.Ref(r.Digest)].(function.Document)
		if ok && doc.FunctionKey == r.FunctionKey && doc.Version == r.Version {
			out[r], p.found[r] = doc.Contract(), doc
		}
	}
	return out, nil
}

// sources returns the texts of sources, by digest.
func (p pinned) sources(ctx context.Context, refs []history.Ref) (map[string]string, error) {
	out := make(map[string]string, len(refs))
	for _, ref := range refs {
		if text := p.carried[ref]; text != nil {
			out[string(ref)] = string(text)
		}
	}
	refs = slices.DeleteFunc(slices.Clone(refs), func(ref history.Ref) bool { return p.carried[ref] != nil })
	texts, err := p.read(ctx, refs, func(text []byte) (any, int, error) { return string(text), len(text), nil })
	if err != nil {
		return nil, err
	}
	for ref, text := range texts {
		out[string(ref)] = text.(string)
	}
	return out, nil
}

// read returns what decode makes of objects, from memory or in one read.
func (p pinned) read(ctx context.Context, refs []history.Ref, decode func([]byte) (value any, size int, err error)) (map[history.Ref]any, error) {
	out := make(map[history.Ref]any, len(refs))
	var unread []history.Ref
	for _, ref := range refs {
		if _, twice := out[ref]; twice {
			continue
		}
		if out[ref] = p.known.Get(p.space, ref); out[ref] == nil {
			unread = append(unread, ref)
		}
	}
	if unread == nil {
		return out, nil
	}
	bodies, err := p.objects.Get(ctx, p.space, unread...)
	if err != nil {
		return nil, fmt.Errorf("calculation: Functions: %w", err)
	}
	for i, ref := range unread {
		value, size, err := decode(bodies[i])
		if err != nil {
			return nil, err
		}
		p.known.Put(p.space, ref, value, size)
		out[ref] = value
	}
	return out, nil
}
