package authored

import (
	"context"
	"fmt"

	"github.com/pxhost/pxhost/shared/change"
	"github.com/pxhost/pxhost/shared/draft"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/snapshot"
	"github.com/pxhost/pxhost/shared/target"
	"github.com/pxhost/pxhost/shared/tool"
)

// Drafts opens the handles of local drafts (T4); draft.Handles does.
type Drafts interface {
	Open(ctx context.Context, holder draft.Holder, project target.Project, kind, handle string) (draft.Draft, bool, error)
}

// HolderOf is who holds the handles that a principal sends.
func HolderOf(p tool.Principal) draft.Holder {
	return draft.Holder{Principal: p.String(), Session: p.Session}
}

// A Place is a target, and where it stands in the request.
type Place struct {
	At   target.Address
	Path string // /target, /targets/3
}

// atHandle is where a target names a draft.
const atHandle = "/documentHandle"

// LocateIn finds saved revisions and drafts, all those of one snapshot's Project, and
// leaves their documents unread. All that do not exist are reported.
func LocateIn(ctx context.Context, s snapshot.Snapshot, drafts Drafts, holder draft.Holder, places ...Place) ([]Located, outcome.Findings, error) {
	out := make([]Located, len(places))
	var findings outcome.Findings
	var saved []snapshot.Address
	var savedAt, draftAt []int
	var heads []string
	for i, p := range places {
		if p.At.Handle == "" {
			saved, savedAt = append(saved, snapshot.Address{Kind: p.At.Kind, Key: p.At.Key, Ref: history.Ref(p.At.RevisionRef), Path: p.Path}), append(savedAt, i)
			continue
		}
		d, ok, err := drafts.Open(ctx, holder, s.Project, p.At.Kind, p.At.Handle)
		if err != nil {
			return nil, nil, err
		}
		if !ok {
			findings.Add(outcome.TargetNotFound, p.Path+atHandle, nil)
			continue
		}
		out[i] = Located{Saved: snapshot.Saved{Ref: d.Object}, Key: d.Key, Draft: true, Source: d.Source}
		heads, draftAt = append(heads, history.Key(d.Kind, d.Key)), append(draftAt, i)
	}
	if saved != nil {
		located, missing, err := s.Locate(ctx, saved...)
		if err != nil {
			return nil, nil, err
		}
		findings = append(findings, missing...)
		for k, l := range located {
			out[savedAt[k]] = Located{Saved: l, Key: saved[k].Key}
		}
	}
	if heads != nil {
		entries, err := s.Catalog.Entries(ctx, s.Space, s.Root, heads...)
		if err != nil {
			return nil, nil, err
		}
		for k, e := range entries {
			if e != nil {
				out[draftAt[k]].Head = *e
			}
		}
	}
	if findings != nil {
		return nil, findings, nil
	}
	return out, nil, nil
}

// Alone refuses what a plan from a draft has no room for: its one command is the first
// save of the draft's document, and there is nothing that it could go on from. A plan
// of saved revisions needs one of the two.
func Alone(at target.Address, commands, rebases bool) (refused outcome.Findings) {
	if at.Handle == "" {
		if !commands && !rebases {
			refused.Add(outcome.SchemaInvalid, "", outcome.Params{"rule": "anyOf", "fields": []string{"commands", "rebaseFromPlanRef"}})
		}
		return refused
	}
	for _, m := range []struct {
		there bool
		path  string
	}{{commands, "/commands"}, {rebases, atRebase}} {
		if m.there {
			refused.Add(outcome.SchemaInvalid, m.path, outcome.Params{"rule": "not_with_draft"})
		}
	}
	return refused
}

// FirstSave reads the draft that a plan is made from. Where something was saved under
// its key already, the draft cannot be planned: it says nothing of what it would
// change of that, and nobody said which revision it began from. The refusal names the
// head, which can be described and changed by commands.
func FirstSave(ctx context.Context, s snapshot.Snapshot, drafts Drafts, principal tool.Principal, at target.Address) (document []byte, found Located, refused outcome.Findings, err error) {
	located, refused, err := LocateIn(ctx, s, drafts, HolderOf(principal), Place{at, "/target"})
	if refused != nil || err != nil {
		return nil, found, refused, err
	}
	found = located[0]
	if found.Head.RevisionRef != "" {
		refused.Add(change.AlreadyExists(at.Kind), "/target"+atHandle, outcome.Params{at.Kind + "Key": found.Key,
			"currentRevisionRef": string(found.Head.RevisionRef), "current": found.Head.Generation})
		return nil, found, refused, nil
	}
	if err := s.Read(ctx, &found.Saved); err != nil {
		return nil, found, nil, fmt.Errorf("authored: the object of a draft: %w", err)
	}
	return found.Document, found, nil, nil
}
