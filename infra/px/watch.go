package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/pxhost/pxhost/infra/px/readable"
	"github.com/pxhost/pxhost/infra/px/term"
	"github.com/pxhost/pxhost/shared/wait"
)

// A seen is what following a Run looks at of run_get.
type seen struct {
	RunRef   string `json:"runRef"`
	BatchRef string `json:"batchRef"`
	State    string `json:"state"`
	Progress struct {
		Completed int  `json:"completed"`
		Total     int  `json:"total"`
		Stage     *int `json:"stage"` // stages that are done
	} `json:"progress"`
	Failed  int `json:"failed"`
	Results []struct {
		ResultKey string `json:"resultKey"`
		Type      string `json:"type"`
		Unit      string `json:"unit"`
		Bytes     int64  `json:"bytes"`
	} `json:"results"`
	Cases     []jsontext.Value `json:"cases"`
	StartedAt string           `json:"startedAt"`
	EndedAt   string           `json:"endedAt"`
}

func (s seen) ended() bool {
	return s.State == "Succeeded" || s.State == "Failed" || s.State == "Cancelled"
}

// Between two looks.
const (
	firstLook   = 150 * time.Millisecond
	longestLook = 2 * time.Second
	// losses are how many looks in a row may get no answer: a host that is started
	// again is waited for.
	losses = 15
	// maxShown is the largest result, in bytes, that is printed with the others.
	maxShown = 16 << 10
	// maxCases is how many cases of a Batch are printed with its results.
	maxCases = 25
	// maxFound is how many diagnostics are: a Batch has one for each case that failed.
	maxFound = 20
)

// follow shows how far a Run or a Batch is until it ends, and then what came of it.
func (e *environment) follow(ctx context.Context, to *endpoint, as showing, ref string) error {
	member := "runRef"
	if strings.HasPrefix(ref, "batch_") {
		member = "batchRef"
	}
	// The first interrupt ends ctx: then a person is asked, and the host still has to be.
	work := context.WithoutCancel(ctx)
	interrupts := make(chan os.Signal, 2)
	signal.Notify(interrupts, os.Interrupt)
	defer signal.Stop(interrupts)
	bar := &bar{screen: term.Of(e.err, as.colour, e.lookup), started: time.Now()}
	pause, lost, cancelled := firstLook, 0, false
	for {
		var now seen
		err := to.ask(work, "run_get", map[string]any{member: ref, "budget": map[string]any{"items": 1}}, &now)
		exit, unanswered := errors.AsType[*exitError](err)
		switch {
		case unanswered && exit.code != exitUsage && lost < losses:
			if lost++; lost == 1 {
				bar.say(fmt.Sprintf("no answer (%v); asking again", exit.err))
			}
		case unanswered:
			bar.end()
			return &exitError{exitUnknown, fmt.Errorf("%w\n  it may run on: px watch %s goes on from here", exit.err, ref)}
		case err != nil:
			bar.end()
			return e.explained(as, err)
		default:
			lost = 0
			bar.show(now)
			if now.ended() {
				bar.end()
				return e.outcome(work, to, as, member, ref, now)
			}
		}
		if ctx.Err() == nil {
			if wait.For(ctx, pause) == nil {
				pause = min(pause*3/2, longestLook)
				continue
			}
		} else if cancelled {
			select {
			case <-interrupts:
			case <-time.After(pause):
				pause = min(pause*3/2, longestLook)
				continue
			}
		}
		bar.end()
		switch e.onInterrupt(interrupts, cancelled) {
		case 'c':
			var answer jsontext.Value
			if err := to.ask(work, "run_cancel", map[string]any{member: ref, "commandId": newCommandID()}, &answer); err != nil {
				return e.explained(as, err)
			}
			cancelled, pause = true, firstLook
			fmt.Fprintln(e.err, "asked it to stop")
		default:
			stop := fmt.Sprintf("px call run_cancel '{\"%s\": \"%s\", \"commandId\": \"%s\"}'", member, ref, newCommandID())
			return &exitError{exitUnknown, fmt.Errorf("it runs on\n  px watch %s goes on from here\n  %s stops it", ref, stop)}
		}
	}
}

// onInterrupt asks a person who pressed Ctrl-C what shall be. Whoever asks px to end
// otherwise is not asked, nor is who pressed it again.
func (e *environment) onInterrupt(interrupts <-chan os.Signal, again bool) rune {
	select {
	case <-interrupts:
	case <-time.After(100 * time.Millisecond): // it is on its way if there is one
		return 'l'
	}
	if again || !term.IsTerminal(e.in) {
		return 'l'
	}
	fmt.Fprint(e.err, "\nCancel it, or leave it running? [c/L] ")
	typed := make(chan rune, 1)
	go func() {
		line := make([]byte, 16)
		n, _ := e.in.Read(line)
		text := strings.ToLower(strings.TrimSpace(string(line[:n])))
		if text == "c" || text == "cancel" {
			typed <- 'c'
		} else {
			typed <- 'l'
		}
	}()
	select {
	case answer := <-typed:
		return answer
	case <-interrupts:
		fmt.Fprintln(e.err)
		return 'l'
	}
}

// A bar shows how far a Run is.
type bar struct {
	screen  *term.Screen
	started time.Time
	last    string // what was told, without the time
	open    bool   // the line is not ended
}

// width of the bar itself, in columns.
const barWidth = 24

func (b *bar) show(now seen) {
	p := now.Progress
	what, stage := "Nodes", ""
	if now.BatchRef != "" {
		what = "cases"
	}
	if p.Stage != nil && !now.ended() {
		stage = fmt.Sprintf("stage %d  ", *p.Stage+1)
	}
	told := fmt.Sprintf("%s  %s%d of %d %s", plainText(now.State), stage, p.Completed, p.Total, what)
	if now.Failed > 0 {
		told += fmt.Sprintf(", %d failed", now.Failed)
	}
	if !b.screen.Terminal {
		if told != b.last {
			fmt.Fprintln(b.screen, told)
		}
		b.last = told
		return
	}
	done := 0
	if p.Total > 0 {
		done = min(barWidth, max(0, barWidth*p.Completed/p.Total))
	}
	// A line that is too long would be broken, and could not be written over.
	line := fmt.Sprintf("%s  %d s", told, int(time.Since(b.started).Seconds()))
	if room := b.screen.Columns - barWidth - 6; term.Width(line) <= room {
		line = "[" + b.screen.Paint(term.Green, strings.Repeat("#", done)) + strings.Repeat("-", barWidth-done) + "]  " + line
	} else if r := []rune(line); len(r) >= b.screen.Columns {
		line = string(r[:b.screen.Columns-1])
	}
	if b.open && stage != "" && b.last != stage && b.last != "" {
		fmt.Fprintln(b.screen) // the stage that is over keeps its line
	}
	b.last = stage
	fmt.Fprintf(b.screen, "\r%s\x1b[K", line)
	b.open = true
}

// say tells something beside the bar.
func (b *bar) say(text string) {
	b.end()
	fmt.Fprintln(b.screen, plainText(text))
}

// end ends the line of the bar.
func (b *bar) end() {
	if b.open {
		fmt.Fprintln(b.screen)
		b.open = false
	}
}

// outcome prints what came of a Run or a Batch that ended.
func (e *environment) outcome(ctx context.Context, to *endpoint, as showing, member, ref string, last seen) error {
	arguments, err := json.Marshal(map[string]any{member: ref}, json.Deterministic(true))
	if err != nil {
		return err
	}
	// All of a Run; of a Batch, which may have thousands of cases, the first part.
	get := to.call
	if member == "runRef" && !as.json {
		get = func(ctx context.Context, tool string, arguments []byte) (answered, error) {
			return to.whole(ctx, tool, arguments, func(answered) error { return nil })
		}
	}
	answer, err := get(ctx, "run_get", arguments)
	if err != nil {
		return err
	}
	var now seen
	if !answer.OK || as.json {
		err := e.show(as, answer, moreNone)
		return firstError(err, ending(last.State))
	}
	if err := json.Unmarshal(answer.Data, &now); err != nil {
		return &exitError{exitUnknown, errors.New("the answer of run_get cannot be read")}
	}
	s := e.screen(as.colour)
	colour := term.Red
	if now.State == "Succeeded" {
		colour = term.Green
	}
	fmt.Fprintf(s, "%s  %s%s\n", ref, s.Paint(colour, plainText(now.State)), took(now))
	found := diagnosticsOf(answer.Data)
	shown, err := json.Marshal(map[string]any{"diagnostics": found[:min(len(found), maxFound)]})
	if err == nil {
		err = readable.Diagnostics(s, "", shown)
	}
	if err != nil {
		return err
	}
	if len(now.Results) > 0 {
		if err := e.results(ctx, to, s, member, ref, now); err != nil {
			return err
		}
	}
	if len(now.Cases) > 0 {
		cases := now.Cases[:min(len(now.Cases), maxCases)]
		fmt.Fprintf(s, "\n%s\n", s.Paint(term.Bold, "cases"))
		if err := readable.Rows(s, "  ", cases); err != nil {
			return err
		}
	}
	if len(found) > maxFound || len(now.Cases) > maxCases || cursorOf(answer.Data) != "" {
		command, err := json.Marshal(map[string]string{member: ref})
		if err != nil {
			return err
		}
		fmt.Fprintf(s, "\n%s\n  px call run_get %s --all\n", s.Paint(term.Yellow, "This is not all, but the first of it. All there is:"), quoted(string(command)))
	}
	return ending(now.State)
}

// diagnosticsOf returns those of a Run, which are data.
func diagnosticsOf(data jsontext.Value) []jsontext.Value {
	var d struct {
		Diagnostics []jsontext.Value `json:"diagnostics"`
	}
	if json.Unmarshal(data, &d) != nil {
		return nil
	}
	return d.Diagnostics
}

// took says how long it was, by the host's clock.
func took(now seen) string {
	from, err := time.Parse(time.RFC3339Nano, now.StartedAt)
	until, err2 := time.Parse(time.RFC3339Nano, now.EndedAt)
	if err != nil || err2 != nil {
		return ""
	}
	return fmt.Sprintf("  in %.1f s", until.Sub(from).Seconds())
}

// ending is how px ends.
func ending(state string) error {
	switch state {
	case "Succeeded":
		return nil
	case "Failed", "Cancelled":
		return &exitError{code: exitFailed}
	}
	return &exitError{code: exitUnknown}
}

// results prints the results as a table. A value that is large is named with the command
// that reads it.
func (e *environment) results(ctx context.Context, to *endpoint, s *term.Screen, member, ref string, now seen) error {
	var rows []jsontext.Value
	for _, r := range now.Results {
		read := map[string]any{member: ref, "resultKey": r.ResultKey}
		command, err := json.Marshal(read, json.Deterministic(true))
		if err != nil {
			return err
		}
		row := map[string]any{"result": r.ResultKey, "type": r.Type}
		var result struct {
			Value   jsontext.Value `json:"value"`
			Preview jsontext.Value `json:"preview"`
		}
		if r.Bytes <= maxShown {
			if err := to.ask(ctx, "result_read", read, &result); err != nil {
				if _, refused := err.(*refusal); !refused {
					return err
				}
				row["refused"] = err.Error()
			}
		}
		switch {
		case result.Value != nil:
			row["value"], row["unit"] = unwrapped(result.Value, r.Unit)
		case row["refused"] == nil:
			row["value"] = fmt.Sprintf("%d bytes: px call result_read %s", r.Bytes, quoted(string(command)))
		}
		var out jsontext.Value = []byte("{")
		for _, name := range []string{"result", "value", "unit", "type", "refused"} {
			if v, ok := row[name]; ok && v != "" {
				text, err := json.Marshal(v)
				if err != nil {
					return err
				}
				if len(out) > 1 {
					out = append(out, ',')
				}
				out = append(append(out, '"'), name...)
				out = append(append(out, '"', ':'), text...)
			}
		}
		rows = append(rows, append(out, '}'))
	}
	fmt.Fprintln(s)
	return readable.Rows(s, "", rows)
}

// unwrapped takes the unit from a typed value, for a column of its own.
func unwrapped(value jsontext.Value, unit string) (jsontext.Value, string) {
	var typed map[string]jsontext.Value
	if json.Unmarshal(value, &typed) != nil || typed["value"] == nil || len(typed) > 2 {
		return value, unit
	}
	if text, ok := typed["unit"]; ok {
		var own string
		if json.Unmarshal(text, &own) != nil {
			return value, unit
		}
		return typed["value"], own
	}
	return typed["value"], unit
}
