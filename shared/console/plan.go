package console

import (
	"cmp"
	"context"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aymanbagabas/go-udiff"
	"github.com/go-json-experiment/json"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/change"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/policy"
	"github.com/pxhost/pxhost/shared/review"
	"github.com/pxhost/pxhost/shared/schema"
	"github.com/pxhost/pxhost/shared/target"
)

// perWaiting is how many things that wait a Project's page shows at once.
const perWaiting = 10

// How much of a plan one page shows. The rest is on further pages: a plan may move 5,000
// targets, and nothing of it is left out.
const (
	perDiff  = 40
	perTable = 100
	perCases = 100
)

// planPath is the page of a plan, or of a Run that waits.
func planPath(ref string) string { return Root + "/plans/" + ref }

// subjectOf tells plans from Runs by their reference.
func subjectOf(ref string) review.Subject {
	if strings.HasPrefix(ref, "run_") {
		return review.Run
	}
	return review.Plan
}

// A part is one page of a list.
type part[T any] struct {
	Items           []T
	Total, From, To int    // From counts from 1
	Prev, Next      string // addresses; "" where there is none
	Name            string
}

// paged cuts the page of a list that the query asks for, as ?name=41.
func paged[T any](v *Visit, name string, all []T, per int) part[T] {
	first, err := strconv.Atoi(v.Query.Get(name))
	if err != nil || first < 1 || first > len(all) {
		first = 1
	}
	last := min(first-1+per, len(all))
	out := part[T]{Items: all[first-1 : last], Total: len(all), From: first, To: last, Name: name}
	to := func(at int) string {
		q := url.Values{}
		for k, list := range v.Query {
			q[k] = list
		}
		q.Set(name, strconv.Itoa(at))
		path, _, _ := strings.Cut(v.here, "?")
		return path + "?" + q.Encode() + "#" + name
	}
	if len(all) == 0 {
		out.From = 0
	}
	if first > 1 {
		out.Prev = to(max(1, first-per))
	}
	if last < len(all) {
		out.Next = to(last + 1)
	}
	return out
}

// A planPage is what the page of a plan shows.
type planPage struct {
	review.Asked
	Ref, Digest string
	IsRun       bool
	About       string
	Targets     int
	Own         bool // who reads asked for it
	Open        bool
	Expired     bool
	Diff        part[entry]
	Touched     part[string]
	Commands    part[command]
	Cases       *table
	Graph       template.HTML
	Checks      part[check]
	Converted   int
	Mismatched  int
	Rest        []section
	Inputs      []fact
	MoreThan    bool // there is more than this page shows
}

// asked reads what somebody asks for, as the person who is signed in may see it.
func (h *Handler) asked(ctx context.Context, v *Visit, ref string) (review.Asked, error) {
	asked, findings, err := h.Reviews.Read(ctx, v.Principal(), subjectOf(ref), ref)
	if err == nil && findings != nil {
		err = refused(findings)
	}
	return asked, err
}

// plan shows a plan, or a Run that waits, as who may approve it or asked for it sees it.
func (h *Handler) plan(ctx context.Context, v *Visit) (Answer, error) {
	ref := v.Path["ref"]
	asked, err := h.asked(ctx, v, ref)
	if err != nil {
		return nil, err
	}
	project, _ := asked.Scope.Project()
	p := planPage{
		Asked: asked, Ref: ref, Digest: asked.PlanDigest + asked.RequestDigest, IsRun: asked.Run != nil, About: change.About(asked.Target),
		Own: asked.Requester == v.Principal(), Open: asked.State == string(change.PlanOpen), Expired: asked.State == string(change.PlanExpired),
	}
	if asked.Plan != nil {
		err = p.readPlan(v, *asked.Plan)
	} else if asked.Run != nil {
		err = p.readRun(*asked.Run)
	}
	if err != nil {
		return nil, err
	}
	title := "Plan for " + p.About
	if p.IsRun {
		title = "Run of " + p.About
	}
	return Page{Title: title, Crumbs: []Crumb{{project.String(), projectPath(project)}}, Body: "plan", Data: p}, nil
}

func (p *planPage) readRun(r review.RunText) error {
	for _, key := range sortedKeys(r.Inputs) {
		value, err := decode(r.Inputs[key])
		if err != nil {
			return err
		}
		p.Inputs = append(p.Inputs, fact{key, show(value)})
	}
	return nil
}

func (p *planPage) readPlan(v *Visit, text review.PlanText) error {
	entries, err := differences(text)
	if err != nil {
		return err
	}
	for i := range entries {
		entries[i].Whole = fmt.Sprintf("%s/diff/%d", planPath(p.Ref), i+1)
	}
	targets := map[string]bool{}
	for _, path := range text.TouchedSemanticPaths {
		of, _ := splitPath(path)
		targets[of] = true
	}
	p.Targets = len(targets)
	p.Diff = paged(v, "diff", entries, perDiff)
	p.Touched = paged(v, "paths", text.TouchedSemanticPaths, perTable)
	var commands []command
	for i, raw := range text.Commands {
		c, cases, err := readCommand(raw)
		if err != nil {
			return err
		}
		c.Number = i + 1
		commands = append(commands, c)
		if cases != nil {
			t := objectsOf(v, "cases", cases, perCases)
			p.Cases = &t
		}
	}
	p.Commands = paged(v, "commands", commands, perTable)
	if err := p.readImpact(v, text); err != nil {
		return err
	}
	p.MoreThan = p.Diff.Total > len(p.Diff.Items) || p.Touched.Total > len(p.Touched.Items) || p.Commands.Total > len(p.Commands.Items) ||
		p.Checks.Total > len(p.Checks.Items) || p.Cases != nil && p.Cases.Rows.Total > len(p.Cases.Rows.Items)
	for _, s := range p.Rest {
		p.MoreThan = p.MoreThan || s.Table != nil && s.Table.Rows.Total > len(s.Table.Rows.Items)
	}
	return nil
}

// difference shows one entry of a diff, whole.
func (h *Handler) difference(ctx context.Context, v *Visit) (Answer, error) {
	ref := v.Path["ref"]
	asked, err := h.asked(ctx, v, ref)
	if err != nil {
		return nil, err
	}
	missing := &Problem{Status: http.StatusNotFound, Title: "There is no such difference", Link: &Crumb{"To the plan", planPath(ref)}}
	n, err := strconv.Atoi(v.Path["n"])
	if err != nil || asked.Plan == nil {
		return nil, missing
	}
	entries, err := differences(*asked.Plan)
	if err != nil {
		return nil, err
	}
	if n < 1 || n > len(entries) {
		return nil, missing
	}
	e := entries[n-1]
	e.whole = true
	project, _ := asked.Scope.Project()
	return Page{Title: "Difference " + strconv.Itoa(n) + " of " + strconv.Itoa(len(entries)), Body: "difference", Data: e,
		Crumbs: []Crumb{{project.String(), projectPath(project)}, {"Plan for " + change.About(asked.Target), planPath(ref)}}}, nil
}

// A decisionForm is what is sent to decide. Its bounds are those of the door of reviews.
type decisionForm struct {
	Digest  string `json:"digest" schema:"minLength=1,maxLength=200"`
	Comment string `json:"comment,omitzero" schema:"maxLength=2000,text=prose"`
}

// decide approves or rejects exactly what the form was made for: it holds the digest of
// what was shown, so that another plan under this address is refused.
func (h *Handler) decide(do func(context.Context, review.Decision) (outcome.Findings, error)) func(context.Context, *Visit) (Answer, error) {
	return func(ctx context.Context, v *Visit) (Answer, error) {
		ref := v.Path["ref"]
		back := &Crumb{"Back to the plan", planPath(ref)}
		form := decisionForm{v.Form.Get("digest"), strings.ReplaceAll(v.Form.Get("comment"), "\r\n", "\n")}
		text, err := json.Marshal(form)
		if err != nil { // no UTF-8
			return nil, &Problem{Status: http.StatusBadRequest, Title: "The form cannot be read", Text: "Nothing was decided.", Link: back}
		}
		if findings := schema.Decode(text, new(decisionForm)); findings.Refused() {
			return nil, &Problem{Status: http.StatusBadRequest, Title: "Nothing was decided", Link: back, Findings: findings,
				Text: "A comment has at most 2,000 characters, and none that hides or turns text."}
		}
		findings, err := do(ctx, review.Decision{Principal: v.Principal(), Subject: subjectOf(ref), Ref: ref, Digest: form.Digest, Comment: form.Comment})
		if err != nil {
			return nil, err
		}
		if findings != nil {
			return nil, undecided(findings, back)
		}
		return Redirect(planPath(ref) + "#decision"), nil
	}
}

// undecided says why nothing was decided.
func undecided(findings outcome.Findings, back *Crumb) *Problem {
	p := refused(findings)
	p.Link = back
	switch findings[0].Code {
	case outcome.PlanMismatch:
		p.Title, p.Text = "This is not what you saw", "Nothing was decided: the form was made for another plan than the one that is here. Read it again."
	case outcome.PlanExpired:
		p.Title, p.Text = "This can no longer be decided", "Nothing was decided now."
		switch state, _ := findings[0].Params["state"].(string); change.PlanState(state) {
		case change.PlanApplied:
			p.Text += " It was applied meanwhile."
		case change.PlanRejected:
			p.Text += " It was rejected meanwhile."
		case change.PlanExpired:
			p.Text += " Its time is over; who asked can ask again."
		}
	case outcome.ApprovalInvalid:
		if findings[0].Params["reason"] == policy.SamePerson {
			p.Title, p.Text = "You asked for this yourself", "Nothing was decided: somebody else has to approve it."
		}
	}
	return p
}

func (h *Handler) approve(ctx context.Context, d review.Decision) (outcome.Findings, error) {
	_, findings, err := h.Reviews.Approve(ctx, d)
	return findings, err
}

func (h *Handler) reject(ctx context.Context, d review.Decision) (outcome.Findings, error) {
	_, findings, err := h.Reviews.Reject(ctx, d)
	return findings, err
}

// ---- what waits ----

// A waitingRow is a line of a list of what waits.
type waitingRow struct {
	review.Waiting
	To    string
	IsRun bool
	Left  string // until it expires
}

// waitingList is what waits in one Project.
type waitingList struct {
	Rows   []waitingRow
	Next   string
	Denied bool // the person may not approve here
}

// waiting lists what waits in a Project for the person to decide.
func (h *Handler) waiting(ctx context.Context, v *Visit, p target.Project, after string, limit int) (waitingList, error) {
	rows, next, findings, err := h.Queue.List(ctx, v.Principal(), p, after, limit)
	if err != nil {
		return waitingList{}, err
	}
	if len(findings) > 0 && findings[0].Code == outcome.PermissionDenied {
		return waitingList{Denied: true}, nil
	}
	if findings != nil {
		return waitingList{}, refused(findings)
	}
	var out waitingList
	for _, w := range rows {
		out.Rows = append(out.Rows, waitingRow{w, planPath(w.Ref), w.Subject == review.Run, left(w.ExpiresAt.Sub(h.Now()))})
	}
	if next != "" {
		out.Next = projectPath(p) + "?" + url.Values{"waiting": {next}}.Encode() + "#waiting"
	}
	return out, nil
}

// left says how long something lasts yet, rounded down so that it never promises more.
func left(d time.Duration) string {
	switch {
	case d < time.Minute:
		return "less than a minute"
	case d < time.Hour:
		return count(int(d/time.Minute), "minute")
	case d < 48*time.Hour:
		return count(int(d/time.Hour), "hour")
	}
	return count(int(d/(24*time.Hour)), "day")
}

// ---- differences ----

// An entry is one difference of a plan.
type entry struct {
	Target, Path  string // Target is "" for the plan's own
	Op            string // add, remove, replace
	Word          string
	Before, After *shown
	Unified       []codeLine
	Whole         string // the address of all of it
	whole         bool
	lines         int
}

// A codeLine is a line of a unified diff.
type codeLine struct {
	Class, Text string
}

// Cut reports how many lines of the unified diff are shown on a page of their own only.
func (e entry) Cut() int { return e.lines - len(e.Lines()) }

// Lines are those that are shown here.
func (e entry) Lines() []codeLine {
	if e.whole || len(e.Unified) <= maxLines {
		return e.Unified
	}
	return e.Unified[:maxLines]
}

// maxLines and maxValue are how much of one difference stands in the page of the plan.
const (
	maxLines = 300
	maxValue = 4000 // characters
)

// Shown is what stands here of a value.
func (e entry) Shown(s *shown) string {
	if e.whole && s.Whole != "" {
		return s.Whole
	}
	if e.whole || len(s.Text) <= maxValue {
		return s.Text
	}
	n := maxValue
	for n > 0 && s.Text[n]&0xc0 == 0x80 { // not inside of a character
		n--
	}
	return s.Text[:n]
}

// Left is how many bytes of a value are shown on a page of their own only.
func (e entry) Left(s *shown) int {
	if e.whole {
		return 0
	}
	return len(s.Text) - len(e.Shown(s))
}

func splitPath(path string) (of, rest string) {
	if of, rest, ok := strings.Cut(path, ":/"); ok && !strings.HasPrefix(path, "/") {
		return of, "/" + rest
	}
	return "", path
}

var opWords = map[string]string{"add": "added", "remove": "removed", "replace": "changed"}

// differences are what a plan changes, with the whole of every Python that it brings. The
// diff of the plan has a source only where there was one before; of a first one it tells
// what is read from it (ports, Nodes), and nobody approves a program that he cannot read.
func differences(text review.PlanText) ([]entry, error) {
	entries, err := readDiff(text.Diff)
	if err != nil || slices.ContainsFunc(entries, func(e entry) bool { return e.Target == "" && e.Unified != nil }) {
		return entries, err
	}
	var brought []entry
	for i, raw := range text.Commands {
		var members map[string]canon.Raw
		if err := json.Unmarshal(raw, &members); err != nil {
			return nil, fmt.Errorf("console: a command cannot be read: %w", err)
		}
		var source string
		if json.Unmarshal(members["source"], &source) != nil || source == "" {
			continue // of a Report's command, a source is a value and stands with its members
		}
		e := entry{Path: "/source", Op: "add", Word: opWords["add"]}
		if len(text.Commands) > 1 {
			e.Path = fmt.Sprintf("/commands/%d/source", i)
		}
		e.unify(udiff.Unified("before", "after", "", source))
		brought = append(brought, e)
	}
	return append(brought, entries...), nil
}

// unify takes the lines of a unified diff.
func (e *entry) unify(text string) {
	for n, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		e.Unified = append(e.Unified, codeLine{classOf(n, line), line})
	}
	e.lines = len(e.Unified)
}

func readDiff(text canon.Raw) ([]entry, error) {
	var raw []struct {
		Path    string    `json:"path"`
		Op      string    `json:"op"`
		Before  canon.Raw `json:"before"`
		After   canon.Raw `json:"after"`
		Unified string    `json:"unified"`
	}
	if len(text) == 0 {
		return nil, nil
	}
	if err := json.Unmarshal(text, &raw); err != nil {
		return nil, fmt.Errorf("console: a diff cannot be read: %w", err)
	}
	out := make([]entry, len(raw))
	for i, r := range raw {
		e := &out[i]
		e.Target, e.Path = splitPath(r.Path)
		e.Op, e.Word = r.Op, cmp.Or(opWords[r.Op], r.Op)
		for _, side := range []struct {
			raw canon.Raw
			out **shown
		}{{r.Before, &e.Before}, {r.After, &e.After}} {
			if len(side.raw) == 0 {
				continue
			}
			value, err := decode(side.raw)
			if err != nil {
				return nil, err
			}
			s := show(value)
			*side.out = &s
		}
		if r.Unified != "" {
			e.unify(r.Unified)
		}
	}
	return out, nil
}

// classOf is the look of a line. The first two name the files; a later one that begins as
// they do is a line of Python that begins with -- or ++.
func classOf(n int, line string) string {
	switch {
	case n < 2:
		return "file"
	case strings.HasPrefix(line, "@@"):
		return "at"
	case strings.HasPrefix(line, "+"):
		return "plus"
	case strings.HasPrefix(line, "-"):
		return "minus"
	}
	return ""
}

// ---- commands ----

// A command is one command of a plan, as it was asked for.
type command struct {
	Number  int
	Kind    string
	Members []fact
}

// readCommand reads a command, and the cases of one that has a Batch. What stands in the
// diff as well (a whole document, a source) is only named.
func readCommand(raw canon.Raw) (command, []any, error) {
	value, err := decode(raw)
	if err != nil {
		return command{}, nil, err
	}
	members, _ := value.(map[string]any)
	c := command{}
	c.Kind, _ = members["kind"].(string)
	var cases []any
	for _, key := range sortedKeys(members) {
		switch inner := members[key].(type) {
		case string:
			if key == "source" {
				c.Members = append(c.Members, fact{key, shown{Text: fmt.Sprintf("%d bytes of Python; see the differences", len(inner))}})
				continue
			}
		case []any:
			if key == "cases" && len(inner) > 0 {
				cases = inner
				c.Members = append(c.Members, fact{key, shown{Text: count(len(inner), "case") + "; listed below"}})
				continue
			}
		case map[string]any:
			if key == "document" {
				c.Members = append(c.Members, fact{key, shown{Text: "a whole document; see the differences"}})
				continue
			}
		}
		if key != "kind" {
			c.Members = append(c.Members, fact{key, show(members[key])})
		}
	}
	return c, cases, nil
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
