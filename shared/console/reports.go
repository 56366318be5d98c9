package console

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/quantity"
	"github.com/pxhost/pxhost/shared/target"
	runget "github.com/pxhost/pxhost/shared/tool/run_get"
)

// A reportText is what report_describe says of a Report, as far as the page shows it. It
// has the names of package report, which judges Reports with code that a page needs not.
type reportText struct {
	position
	BlockOrder []string `json:"blockOrder"`
	Blocks     map[string]struct {
		Kind   string            `json:"kind"`
		Label  map[string]string `json:"label"`
		Text   string            `json:"text"`
		Fields map[string]struct {
			Label    map[string]string `json:"label"`
			Contract quantity.Port     `json:"contract"`
			Value    canon.Raw         `json:"value"`
			Feeds    []mappingText     `json:"feeds"`
		} `json:"fields"`
	} `json:"blocks"`
	Connections map[string]connectionText `json:"connections"`
	Slots       []slotText                `json:"slots"`
}

type mappingText struct {
	ConnectionKey string `json:"connectionKey"`
	MappingKey    string `json:"mappingKey"`
	PortKey       string `json:"portKey"`
}

type connectionText struct {
	FlowTarget target.Flow `json:"flowTarget"`
	State      string      `json:"state"`
	Inputs     map[string]struct {
		PortKey string `json:"portKey"`
		Source  struct {
			BlockKey string `json:"blockKey"`
			FieldKey string `json:"fieldKey"`
		} `json:"source"`
		State string `json:"state"`
	} `json:"inputs"`
	Results map[string]struct {
		PortKey string `json:"portKey"`
		Target  struct {
			BlockKey string `json:"blockKey"`
			SlotKey  string `json:"slotKey"`
		} `json:"target"`
		State string `json:"state"`
	} `json:"results"`
	Missing    []string `json:"missing"`
	Generation int64    `json:"generation"`
	UnderWay   *struct {
		RunRef   string `json:"runRef"`
		BatchRef string `json:"batchRef"`
	} `json:"underWay"`
}

type slotText struct {
	BlockKey string            `json:"blockKey"`
	SlotKey  string            `json:"slotKey"`
	Label    map[string]string `json:"label"`
	Contract quantity.Port     `json:"contract"`
	From     *mappingText      `json:"from"`
	State    string            `json:"state"`
	Result   *struct {
		RunRef     string    `json:"runRef"`
		BatchRef   string    `json:"batchRef"`
		CaseKey    string    `json:"caseKey"`
		Generation int64     `json:"generation"`
		ResultKey  string    `json:"resultKey"`
		Type       string    `json:"type"`
		Unit       string    `json:"unit"`
		Value      canon.Raw `json:"value"`
	} `json:"result"`
}

// A shownBlock is a block of a Report as its page shows it.
type shownBlock struct {
	Key    string
	Kind   string
	Label  Words
	Text   string
	Fields []shownField
	Slots  []shownSlot
}

type shownField struct {
	Key   string
	To    string // its own page
	Label Words
	Value Value
	Feeds []mappingText
}

type shownSlot struct {
	Key              string
	Label            Words
	State            string
	Unit             string
	Value            Value
	HasValue         bool
	Result           *shownResult // of one that is larger than a number
	RunRef, RunTo    string
	BatchTo          string
	CaseKey          string
	From             *mappingText
	Reasons          []string // why it is Stale
	ResultGeneration int64
}

type shownConnection struct {
	Key        string
	FlowKey    string
	FlowTo     string
	Revision   string
	State      string
	Missing    []string
	Inputs     []shownMapping
	Results    []shownMapping
	Generation int
	UnderWay   string // where what is under way is shown
	Under      string
}

type shownMapping struct{ PortKey, Place, State string }

// reportPage shows one revision of a Report, with what its slots show now.
func (h *Handler) reportPage(ctx context.Context, v *Visit) (Answer, error) {
	key := v.Path["reportKey"]
	var doc reportText
	project, revision, envelope, err := h.described(ctx, v, "report", key, "report_describe", func(scope target.Scope, revision string) any {
		return target.Report{Scope: scope, ReportKey: key, RevisionRef: revision}
	}, &doc)
	if err != nil {
		return nil, err
	}
	path := projectPath(project) + "/reports/" + key
	data := struct {
		*reportText
		Key, Revision string
		Name          Words
		Findings      []outcome.Diagnostic
		Shown         []shownBlock
		Joined        []shownConnection
		HeadTo, More  string
		Here          string
	}{reportText: &doc, Key: key, Revision: revision, Name: v.words(doc.Label, key), Findings: envelope.Diagnostics, Here: path}
	if doc.Head != nil && !doc.Current {
		data.HeadTo = path
	}
	data.More = continued(path+"?revision="+revision, doc.Truncation)
	reasons, err := h.staleReasons(ctx, v, doc)
	if err != nil {
		return nil, err
	}
	for _, blockKey := range doc.BlockOrder {
		b, ok := doc.Blocks[blockKey]
		if !ok {
			continue // in another part of a Report that is larger than an answer
		}
		one := shownBlock{Key: blockKey, Kind: b.Kind, Label: v.words(b.Label, blockKey), Text: b.Text}
		for _, k := range slices.Sorted(maps.Keys(b.Fields)) {
			f := b.Fields[k]
			one.Fields = append(one.Fields, shownField{k, path + "/values/" + blockKey + "/" + k + "?" + url.Values{"revision": {revision}}.Encode(), v.words(f.Label, k), readValue(f.Value, f.Contract.Unit, beside), f.Feeds})
		}
		for _, s := range doc.Slots {
			if s.BlockKey == blockKey {
				one.Slots = append(one.Slots, slotOf(v, s, reasons))
			}
		}
		data.Shown = append(data.Shown, one)
	}
	if err := h.readSlots(ctx, v, doc, data.Shown); err != nil {
		return nil, err
	}
	for _, k := range slices.Sorted(maps.Keys(doc.Connections)) {
		data.Joined = append(data.Joined, connectionOf(k, doc.Connections[k]))
	}
	return Page{Title: data.Name.Text, Crumbs: projectCrumbs(project, Crumb{"Reports", projectPath(project) + "/reports"}), Body: "report", Data: &data}, nil
}

// fieldPage shows one authored value of a revision of a Report.
func (h *Handler) fieldPage(ctx context.Context, v *Visit) (Answer, error) {
	key, blockKey, fieldKey := v.Path["reportKey"], v.Path["blockKey"], v.Path["fieldKey"]
	project, revision, err := h.revision(ctx, v, "report", key)
	if err != nil {
		return nil, err
	}
	var doc reportText
	if _, err := h.tool(ctx, v, "report_describe", map[string]any{"target": target.Report{Scope: project.Scope(), ReportKey: key, RevisionRef: revision}}, &doc); err != nil {
		return nil, err
	}
	f, ok := doc.Blocks[blockKey].Fields[fieldKey]
	if !ok {
		p := refused(outcome.Findings{outcome.New(outcome.TargetNotFound, "/fieldKey", nil)})
		if doc.Truncation != nil {
			p.Text = "The Report is larger than one answer, and this value is in another part of it: report_describe tells it."
		}
		return nil, p
	}
	path := projectPath(project) + "/reports/" + key
	return h.valuePage(v, valueData{Key: fieldKey, Of: key, Back: path + "?" + url.Values{"revision": {revision}}.Encode(), Here: path + "/values/" + blockKey + "/" + fieldKey,
		Value: readValue(f.Value, f.Contract.Unit, alone)}, project, Crumb{v.words(doc.Label, key).Text, path})
}

func connectionOf(key string, c connectionText) shownConnection {
	out := shownConnection{Key: key, FlowKey: c.FlowTarget.FlowKey, FlowTo: flowPath(c.FlowTarget), Revision: c.FlowTarget.RevisionRef, State: c.State, Missing: c.Missing, Generation: int(c.Generation)}
	for _, k := range slices.Sorted(maps.Keys(c.Inputs)) {
		m := c.Inputs[k]
		out.Inputs = append(out.Inputs, shownMapping{m.PortKey, m.Source.BlockKey + " / " + m.Source.FieldKey, m.State})
	}
	for _, k := range slices.Sorted(maps.Keys(c.Results)) {
		m := c.Results[k]
		out.Results = append(out.Results, shownMapping{m.PortKey, m.Target.BlockKey + " / " + m.Target.SlotKey, m.State})
	}
	if u := c.UnderWay; u != nil {
		out.Under, out.UnderWay = u.RunRef, runPath(u.RunRef)
		if u.BatchRef != "" {
			out.Under, out.UnderWay = u.BatchRef, batchPath(u.BatchRef)
		}
	}
	return out
}

func slotOf(v *Visit, s slotText, reasons map[string][]string) shownSlot {
	out := shownSlot{Key: s.SlotKey, Label: v.words(s.Label, s.SlotKey), State: s.State, Unit: plainUnit(s.Contract.Unit), From: s.From}
	r := s.Result
	if r == nil {
		return out
	}
	out.CaseKey, out.ResultGeneration = r.CaseKey, r.Generation
	if r.RunRef != "" {
		out.RunRef, out.RunTo = r.RunRef, runPath(r.RunRef)
	}
	if r.BatchRef != "" {
		out.BatchTo = batchPath(r.BatchRef)
	}
	if len(r.Value) > 0 {
		out.Value, out.HasValue = readValue(r.Value, cmp.Or(r.Unit, s.Contract.Unit), beside), true
	}
	if s.State == "Stale" && s.From != nil {
		out.Reasons = reasons[s.From.ConnectionKey]
	}
	return out
}

// readSlots reads what slots show that is more than a small scalar.
func (h *Handler) readSlots(ctx context.Context, v *Visit, doc reportText, blocks []shownBlock) error {
	var wait sync.WaitGroup
	room, n := make(chan struct{}, 6), 0
	var mu sync.Mutex
	var failed error
	for b := range blocks {
		for i := range blocks[b].Slots {
			slot := &blocks[b].Slots[i]
			at := slices.IndexFunc(doc.Slots, func(s slotText) bool { return s.BlockKey == blocks[b].Key && s.SlotKey == slot.Key })
			r := doc.Slots[at].Result
			if r == nil || r.ResultKey == "" || slot.HasValue || r.RunRef == "" {
				continue
			}
			n++
			slot.Result = &shownResult{Key: r.ResultKey, To: resultPath(r.RunRef, r.ResultKey), Unread: n > readResults}
			if slot.Result.Unread {
				continue
			}
			id := "slot-" + strconv.Itoa(n)
			wait.Go(func() {
				room <- struct{}{}
				defer func() { <-room }()
				if err := h.readResult(ctx, v, "runRef", r.RunRef, slot.Result, beside, "", id); err != nil {
					mu.Lock()
					failed = cmp.Or(failed, err)
					mu.Unlock()
				}
			})
		}
	}
	wait.Wait()
	return failed
}

// staleReasons says what differs between what a connection's slots were computed from and
// what the Report says now. That a slot is Stale is the tool's to say; this only looks for
// the differences, and says so where it finds none.
func (h *Handler) staleReasons(ctx context.Context, v *Visit, doc reportText) (map[string][]string, error) {
	out := map[string][]string{}
	for _, s := range doc.Slots {
		if s.State != "Stale" || s.From == nil || s.Result == nil || out[s.From.ConnectionKey] != nil {
			continue
		}
		c, ok := doc.Connections[s.From.ConnectionKey]
		if !ok {
			continue
		}
		reasons, err := h.differences(ctx, v, doc, c, s.Result.RunRef, s.Result.BatchRef != "" || s.Result.CaseKey != "")
		if err != nil {
			return nil, err
		}
		out[s.From.ConnectionKey] = reasons
	}
	return out, nil
}

// differences compares a connection with a Run that was made from it. The inputs of a case
// of a Batch are in part the case's own, and are not compared.
func (h *Handler) differences(ctx context.Context, v *Visit, doc reportText, c connectionText, runRef string, ofBatch bool) ([]string, error) {
	other := "A value, a mapping or the Flow revision is another now."
	if runRef == "" {
		return []string{other}, nil
	}
	var told runget.Output
	if _, err := h.tool(ctx, v, "run_get", map[string]any{"runRef": runRef}, &told); err != nil {
		if p, ok := err.(*Problem); ok && len(p.Findings) > 0 {
			return []string{other}, nil
		}
		return nil, err
	}
	var reasons []string
	if told.Target.RevisionRef != c.FlowTarget.RevisionRef || told.Target.FlowKey != c.FlowTarget.FlowKey {
		reasons = append(reasons, "The connection is pinned to another revision of its Flow now.")
	}
	if ofBatch {
		if reasons == nil {
			reasons = []string{"A value or a mapping that the Batch was started with is another now."}
		}
		return reasons, nil
	}
	origin, findings, err := h.Runs.Origin(ctx, v.Principal(), runRef)
	if err != nil {
		return nil, err
	}
	if findings != nil {
		return []string{other}, nil
	}
	mapped := map[string]bool{}
	for _, k := range slices.Sorted(maps.Keys(c.Inputs)) {
		m := c.Inputs[k]
		mapped[m.PortKey] = true
		field, ok := doc.Blocks[m.Source.BlockKey].Fields[m.Source.FieldKey]
		if !ok {
			continue
		}
		then, given := origin.Inputs[m.PortKey]
		switch {
		case !given:
			reasons = append(reasons, fmt.Sprintf("Input %s is mapped now and was not.", m.PortKey))
		case !same(field.Contract, then, field.Value):
			reasons = append(reasons, fmt.Sprintf("%s was %s and is %s now.", v.words(field.Label, m.Source.FieldKey).Text, said(then), said(field.Value)))
		}
	}
	for _, port := range slices.Sorted(maps.Keys(origin.Inputs)) {
		if !mapped[port] {
			reasons = append(reasons, fmt.Sprintf("Input %s was mapped and is not now.", port))
		}
	}
	if reasons == nil {
		reasons = []string{"A mapping is another now."}
	}
	return reasons, nil
}

// same reports whether two typed values are one in the contract of their field.
func same(p quantity.Port, a, b canon.Raw) bool {
	x, badX := p.Decode(a, "")
	y, badY := p.Decode(b, "")
	if badX.Refused() || badY.Refused() {
		return string(a) == string(b)
	}
	if m, ok := x.(quantity.Number); ok {
		n, ok := y.(quantity.Number)
		return ok && quantity.Compare(m, n) == 0
	}
	return quantity.Equal(x, y)
}

// said is a value in few words.
func said(raw canon.Raw) string {
	v := readValue(raw, "", little)
	switch v.Kind {
	case "number":
		return strings.TrimSpace(v.Digits + " " + v.Unit)
	case "text":
		return v.Text
	case "null":
		return "null"
	case "none":
		return "nothing"
	case "table":
		return "a table of " + count(v.Table.Rows, "row")
	}
	return "another " + v.Kind
}
