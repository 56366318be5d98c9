// Package calendarstore is the adapter calendar_store: it keeps dated items in a
// namespace of the instance's storage, and reminds of them (A2).
//
// It reads, and writes nothing: what it changes are actions of its result, which the Host
// applies in one write with the end of the execution. So an item, its reminder and the
// record of who changed it are there together or not at all, and an execution that is
// performed again changes nothing twice.
//
// # Operations
//
// Each takes the arguments that are named here and no others, whatever the input schema
// of the capability allows; its namespace is the runtime's.
//
//	save             itemId?, title, at, note?, expectedVersion?
//	get              itemId
//	list             from?, to?, query?, limit?, after?
//	delete           itemId, expectedVersion?
//	reminder         itemId?, title?, at?, note?, remindAt?, expectedVersion?
//	cancel_reminder  itemId, expectedVersion?
//
// In save and reminder, query is the title where there is none, so that what is written
// behind a slash command can become an item.
//
// # Versions
//
// An item's version grows by one with each change of it, the setting of a reminder
// included. Whoever replaces what an item says names the version that he saw: without
// expectedVersion, save and reminder make a new item, and where there is one under that
// itemId it is a conflict. The operations that keep what it says (delete, cancel_reminder,
// reminder with no more than a time) take it as it is unless expectedVersion is named. A
// conflict tells the version that is there and changes nothing.
//
// # Reminders
//
// A reminder is of one version of an item: it is scheduled and taken back in the write
// that makes that version. A save takes the reminder that is still to come along to the
// new version, with what the item says now; one at the item's own time moves with it. A
// time that has passed is due at once.
package calendarstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/capability"
	"github.com/pxhost/pxhost/shared/capability/host"
	"github.com/pxhost/pxhost/shared/capability/safeschema"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/schema"
)

// The limits of a page of a list.
const (
	MaxPage = 200
	page    = 100 // where no limit is asked for
)

// Storage is what the adapter reads.
type Storage interface {
	Items(ctx context.Context, n host.Namespace) (items []host.Item, version int64, err error)
	Some(ctx context.Context, n host.Namespace, keys []string) ([]host.Item, error)
}

// Adapter implements capability.Adapter.
type Adapter struct {
	Storage Storage
	Now     func() time.Time
}

// New returns the adapter over a storage.
func New(s Storage, now func() time.Time) *Adapter { return &Adapter{s, now} }

// kept is an item as it is stored; its ID is its key, and its version is the store's.
type kept struct {
	Title    string    `json:"title"`
	At       time.Time `json:"at"`
	Note     string    `json:"note,omitzero"`
	Reminder *reminder `json:"reminder,omitzero"`
}

// reminder is the notification that the item's version has.
type reminder struct {
	At          time.Time `json:"at"`
	ExecutionID string    `json:"executionId"` // that scheduled it
}

// An Item is an item as results show it.
type Item struct {
	ItemID   string    `json:"itemId"`
	Title    string    `json:"title"`
	At       time.Time `json:"at"` // in the zone in which it was given
	Note     string    `json:"note"`
	Version  int64     `json:"version"`
	RemindAt time.Time `json:"remindAt,omitzero"` // of the reminder that it was given last
}

// content is what an item says, as arguments give it. What is absent is nil.
type content struct {
	ItemID string     `json:"itemId,omitzero" schema:"minLength=1,maxLength=200,text=line"`
	Title  string     `json:"title,omitzero" schema:"minLength=1,maxLength=200,text=line"`
	Query  string     `json:"query,omitzero" schema:"maxLength=200,text=line"`
	At     *time.Time `json:"at,omitzero"`
	Note   *string    `json:"note,omitzero" schema:"maxLength=2000,text=prose"`
	// ExpectedVersion is the version that the caller saw; 0 is that there is no such item.
	ExpectedVersion *int64 `json:"expectedVersion,omitzero" schema:"minimum=0"`
}

type (
	save   struct{ content }
	remind struct {
		content
		RemindAt *time.Time `json:"remindAt,omitzero"` // the item's own time where it is absent
	}
	one struct {
		ItemID          string `json:"itemId" schema:"minLength=1,maxLength=200,text=line"`
		ExpectedVersion *int64 `json:"expectedVersion,omitzero" schema:"minimum=1"`
	}
	get struct {
		ItemID string `json:"itemId" schema:"minLength=1,maxLength=200,text=line"`
	}
	list struct {
		From  *time.Time `json:"from,omitzero"`
		To    *time.Time `json:"to,omitzero"`                           // not itself included
		Query string     `json:"query,omitzero" schema:"maxLength=200"` // in title or note
		Limit int        `json:"limit,omitzero" schema:"minimum=1,maximum=200"`
		After string     `json:"after,omitzero" schema:"minLength=1,maxLength=1000"` // next of the page before
	}
)

// A call is one execution at work.
type call struct {
	capability.Call
	storage Storage
	space   host.Namespace
	now     time.Time
}

// Call performs one operation.
func (a *Adapter) Call(ctx context.Context, c capability.Call) (capability.Result, error) {
	r, findings := capability.ReadRuntime(c.Capability.Runtime, "")
	if findings != nil || r.CalendarStore == nil {
		return capability.Result{}, fmt.Errorf("calendarstore: the runtime is another adapter's")
	}
	at := call{c, a.Storage, host.Namespace{Workspace: c.Workspace, InstanceID: c.InstanceID, Name: r.CalendarStore.Namespace}, a.Now()}
	switch r.CalendarStore.Operation {
	case "save":
		return perform(ctx, at, call.save)
	case "get":
		return perform(ctx, at, call.get)
	case "list":
		return perform(ctx, at, call.list)
	case "delete":
		return perform(ctx, at, call.delete)
	case "reminder":
		return perform(ctx, at, call.remind)
	case "cancel_reminder":
		return perform(ctx, at, call.cancel)
	}
	return capability.Result{}, fmt.Errorf("calendarstore: the operation is not one")
}

// perform reads the arguments of an operation, strictly.
func perform[T any](ctx context.Context, c call, do func(call, context.Context, T) (capability.Result, error)) (capability.Result, error) {
	var arguments T
	if findings := schema.Decode(c.Arguments, &arguments); findings != nil {
		return capability.Result{}, &capability.Failure{Code: outcome.ExtensionInputInvalid, Params: outcome.Params{"violations": violations(findings)}}
	}
	return do(c, ctx, arguments)
}

// violations tells findings as a schema's would be. Names that were sent are not
// repeated.
func violations(findings outcome.Findings) (out []safeschema.Violation) {
	for _, d := range findings {
		v := safeschema.Violation{Path: d.Path}
		v.Keyword, _ = d.Params["rule"].(string)
		if d.Code == outcome.SchemaUnknownField {
			v.Path, v.Keyword = d.Path[:strings.LastIndexByte(d.Path, '/')]+"/*", "additionalProperties"
		}
		out = append(out, v)
	}
	return out
}

// bad is an argument that does not do.
func bad(path, keyword string) error {
	return &capability.Failure{Code: outcome.ExtensionInputInvalid, Params: outcome.Params{"violations": []safeschema.Violation{{Path: path, Keyword: keyword}}}}
}

// conflict tells the version that is there, 0 where there is none.
func (c call) conflict(version int64) error {
	return &capability.Failure{Code: outcome.PluginStorageConflict, Params: outcome.Params{"namespace": c.space.Name, "version": version}}
}

// found is what there is under an ID.
type found struct {
	kept
	version int64 // 0 is nothing
	isItem  bool  // what a plugin's own code has put there may be none
}

func (c call) find(ctx context.Context, id string) (found, error) {
	items, err := c.storage.Some(ctx, c.space, []string{id})
	if err != nil || len(items) == 0 {
		return found{}, err
	}
	item, ok := read(items[0].Value)
	return found{item, items[0].Version, ok}, nil
}

// read reads what is stored.
func read(value canon.Raw) (kept, bool) {
	var k kept
	err := json.Unmarshal(value, &k, json.RejectUnknownMembers(true))
	return k, err == nil && k.Title != "" && !k.At.IsZero()
}

// existing is the item that an operation is about.
func (c call) existing(ctx context.Context, id string, expected *int64) (found, error) {
	f, err := c.find(ctx, id)
	switch {
	case err != nil:
		return f, err
	case expected != nil && *expected != f.version:
		return f, c.conflict(f.version)
	case f.version == 0:
		return f, bad("/itemId", "exists")
	case !f.isItem:
		return f, bad("/itemId", "item")
	}
	return f, nil
}

// result shows an item, and what is to be done.
func (c call) result(id string, k kept, version int64, actions []capability.Action) (capability.Result, error) {
	data, err := canon.Encode(map[string]any{"item": shown(id, k, version)})
	return capability.Result{Summary: c.summary(k.Title), Data: data, Actions: actions}, err
}

func shown(id string, k kept, version int64) Item {
	item := Item{ItemID: id, Title: k.Title, At: k.At, Note: k.Note, Version: version}
	if k.Reminder != nil {
		item.RemindAt = k.Reminder.At
	}
	return item
}

// summary says what was done, in the words of the capability.
func (c call) summary(of string) string { return c.Capability.Title + ": " + of }

// put is the action that stores an item.
func (c call) put(id string, k kept, expected int64) (capability.Action, error) {
	value, err := canon.Encode(k)
	return capability.Action{Kind: capability.PutItem, Namespace: c.space.Name, Key: id, Value: value, ExpectedVersion: &expected}, err
}

func (c call) schedule(id string, k kept) capability.Action {
	return capability.Action{Kind: capability.Schedule, Namespace: c.space.Name, Key: id, At: k.Reminder.At, Title: k.Title, Text: k.Note}
}

// withdraw takes back the reminder of an item that was.
func (c call) withdraw(id string, r *reminder) []capability.Action {
	if r == nil {
		return nil
	}
	return []capability.Action{{Kind: capability.TakeBack, Namespace: c.space.Name, Key: id, ExecutionID: r.ExecutionID}}
}

// id is the item's, or one that follows from the execution: performed again, it makes the
// same item.
func (c call) id(given string) string {
	if given != "" {
		return given
	}
	return canon.Ref("item_", c.ExecutionID)
}

// said is what the content makes of an item.
func (w content) said(k kept) kept {
	if w.Title == "" && k.Title == "" {
		w.Title = strings.TrimSpace(w.Query)
	}
	if w.Title != "" {
		k.Title = w.Title
	}
	if w.At != nil {
		k.At = *w.At
	}
	if w.Note != nil {
		k.Note = *w.Note
	}
	return k
}

func (c call) save(ctx context.Context, w save) (capability.Result, error) {
	id := c.id(w.ItemID)
	old, err := c.find(ctx, id)
	if err != nil {
		return capability.Result{}, err
	}
	next := w.said(kept{})
	// A reminder that is still to come is of the new version from now on.
	if r := old.Reminder; r != nil && r.At.After(c.now) {
		next.Reminder = &reminder{r.At, c.ExecutionID}
		if r.At.Equal(old.At) {
			next.Reminder.At = next.At
		}
	}
	return c.write(id, w.ExpectedVersion, old, next)
}

func (c call) remind(ctx context.Context, w remind) (capability.Result, error) {
	id := c.id(w.ItemID)
	old, err := c.find(ctx, id)
	if err != nil {
		return capability.Result{}, err
	}
	expected := w.ExpectedVersion
	if expected == nil && old.isItem && w.Title == "" && w.Query == "" && w.At == nil && w.Note == nil {
		expected = &old.version // what it says stays
	}
	next := w.said(old.kept)
	next.Reminder = &reminder{next.At, c.ExecutionID}
	if w.RemindAt != nil {
		next.Reminder.At = *w.RemindAt
	}
	if !inRange(next.Reminder.At) {
		return capability.Result{}, bad("/remindAt", "range")
	}
	return c.write(id, expected, old, next)
}

// write makes the next version of an item, or a new one; without an expected version
// there is none yet.
func (c call) write(id string, expected *int64, old found, next kept) (capability.Result, error) {
	if expected == nil {
		expected = new(int64)
	}
	switch {
	case *expected != old.version:
		return capability.Result{}, c.conflict(old.version)
	case next.Title == "":
		return capability.Result{}, bad("/title", "required")
	case next.At.IsZero():
		return capability.Result{}, bad("/at", "required")
	case !inRange(next.At):
		return capability.Result{}, bad("/at", "range")
	}
	put, err := c.put(id, next, old.version)
	if err != nil {
		return capability.Result{}, err
	}
	actions := append([]capability.Action{put}, c.withdraw(id, old.Reminder)...)
	if next.Reminder != nil {
		actions = append(actions, c.schedule(id, next))
	}
	return c.result(id, next, old.version+1, actions)
}

// inRange reports whether a time can be written in every zone.
func inRange(t time.Time) bool { return t.Year() >= 1 && t.Year() <= 9998 }

func (c call) get(ctx context.Context, w get) (capability.Result, error) {
	f, err := c.existing(ctx, w.ItemID, nil)
	if err != nil {
		return capability.Result{}, err
	}
	return c.result(w.ItemID, f.kept, f.version, nil)
}

func (c call) delete(ctx context.Context, w one) (capability.Result, error) {
	f, err := c.existing(ctx, w.ItemID, w.ExpectedVersion)
	if err != nil {
		return capability.Result{}, err
	}
	data, err := canon.Encode(map[string]any{"deleted": shown(w.ItemID, f.kept, f.version)})
	return capability.Result{Summary: c.summary(f.Title), Data: data, Actions: append([]capability.Action{
		{Kind: capability.DropItem, Namespace: c.space.Name, Key: w.ItemID, ExpectedVersion: &f.version}}, c.withdraw(w.ItemID, f.Reminder)...)}, err
}

func (c call) cancel(ctx context.Context, w one) (capability.Result, error) {
	f, err := c.existing(ctx, w.ItemID, w.ExpectedVersion)
	if err != nil {
		return capability.Result{}, err
	}
	if f.Reminder == nil {
		return c.result(w.ItemID, f.kept, f.version, nil)
	}
	next := f.kept
	next.Reminder = nil
	put, err := c.put(w.ItemID, next, f.version)
	if err != nil {
		return capability.Result{}, err
	}
	return c.result(w.ItemID, next, f.version+1, append([]capability.Action{put}, c.withdraw(w.ItemID, f.Reminder)...))
}

// list shows a page of the items, by time. total counts those that fit on all pages, next
// is there exactly when there is another page, and others counts what in the namespace is
// no item.
func (c call) list(ctx context.Context, w list) (capability.Result, error) {
	after, ok := readMark(w.After)
	if !ok {
		return capability.Result{}, bad("/after", "cursor")
	}
	all, _, err := c.storage.Items(ctx, c.space)
	if err != nil {
		return capability.Result{}, err
	}
	query := strings.ToLower(strings.TrimSpace(w.Query))
	items, others := []Item{}, 0
	for _, stored := range all {
		k, ok := read(stored.Value)
		switch {
		case !ok:
			others++
		case w.From != nil && k.At.Before(*w.From), w.To != nil && !k.At.Before(*w.To):
		case query != "" && !strings.Contains(strings.ToLower(k.Title), query) && !strings.Contains(strings.ToLower(k.Note), query):
		default:
			items = append(items, shown(stored.Key, k, stored.Version))
		}
	}
	slices.SortFunc(items, func(a, b Item) int { return markOf(a).compare(markOf(b)) })
	total := len(items)
	if w.After != "" {
		items = slices.DeleteFunc(items, func(i Item) bool { return markOf(i).compare(after) <= 0 })
	}
	if w.Limit == 0 {
		w.Limit = page
	}
	data := map[string]any{"total": total, "others": others}
	if len(items) > w.Limit {
		items = items[:w.Limit]
		data["next"] = markOf(items[len(items)-1]).String()
	}
	data["items"] = items
	text, err := canon.Encode(data)
	return capability.Result{Summary: c.summary(fmt.Sprintf("%d/%d", len(items), total)), Data: text}, err
}

// A mark is a place in the order of items. It holds whatever is added and removed.
type mark struct {
	at time.Time
	id string
}

func markOf(i Item) mark { return mark{i.At, i.ItemID} }

func (m mark) compare(o mark) int { return cmp.Or(m.at.Compare(o.at), cmp.Compare(m.id, o.id)) }

func (m mark) String() string { return m.at.UTC().Format(time.RFC3339Nano) + " " + m.id }

func readMark(text string) (mark, bool) {
	if text == "" {
		return mark{}, true
	}
	at, id, ok := strings.Cut(text, " ")
	when, err := time.Parse(time.RFC3339Nano, at)
	return mark{when, id}, ok && err == nil && id != ""
}
