package states

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Random machines of Pass, Choice, Map, distributed Map, Parallel, Fail and Succeed, over
// integers, against the tiny interpreter below. It shares no code with the
// engine: it walks its own tree, depth first, and knows nothing of frames,
// events or JSON. Jumps lead forward, so every machine ends. All errors count
// as one, since which of several branches fails first is nobody's business.

var errFailed = errors.New("failed")

type scope struct {
	outer *scope
	vars  map[string]int
	index *int // of the iteration
}

func (s *scope) find(name string) (int, bool) {
	for ; s != nil; s = s.outer {
		if v, ok := s.vars[name]; ok {
			return v, true
		}
	}
	return 0, false
}

// expr is an integer expression: its JSONata text and its meaning.
type expr struct {
	text string
	eval func(input int, s *scope) (int, error)
}

func genExpr(t *rapid.T, depth int, vars []string, inMap bool) expr {
	kinds := []string{"constant", "input", "input"}
	if len(vars) > 0 {
		kinds = append(kinds, "variable", "variable")
	}
	if inMap {
		kinds = append(kinds, "index")
	}
	if depth > 0 {
		kinds = append(kinds, "sum", "product")
	}
	switch kind := rapid.SampledFrom(kinds).Draw(t, "expr"); kind {
	case "constant":
		n := rapid.IntRange(-9, 9).Draw(t, "n")
		return expr{fmt.Sprint(n), func(int, *scope) (int, error) { return n, nil }}
	case "input":
		return expr{"$states.input", func(input int, _ *scope) (int, error) { return input, nil }}
	case "variable":
		name := rapid.SampledFrom(vars).Draw(t, "name")
		return expr{"$" + name, func(_ int, s *scope) (int, error) {
			if v, ok := s.find(name); ok {
				return v, nil
			}
			return 0, errFailed // undefined: a jump went past the assignment
		}}
	case "index":
		return expr{"$states.context.Map.Item.Index", func(_ int, s *scope) (int, error) {
			for ; s.index == nil; s = s.outer {
			}
			return *s.index, nil
		}}
	default:
		a, b := genExpr(t, depth-1, vars, inMap), genExpr(t, depth-1, vars, inMap)
		op, f := "+", func(x, y int) int { return x + y }
		if kind == "product" {
			op, f = "*", func(x, y int) int { return x * y }
		}
		return expr{"((" + a.text + " " + op + " " + b.text + ") % 1000)", func(input int, s *scope) (int, error) {
			x, err := a.eval(input, s)
			if err != nil {
				return 0, err
			}
			y, err := b.eval(input, s)
			return f(x, y) % 1000, err
		}}
	}
}

// step is a state: its JSON and its meaning, which gives the output and the
// position of the next step (len of the workflow: the end).
type step struct {
	json string
	run  func(input int, s *scope) (output, next int, err error)
}

type gen struct {
	*rapid.T
	names int
}

func (g *gen) name() string {
	g.names++
	return fmt.Sprint("S", g.names)
}

// workflow gives the text of StartAt and States, and the meaning.
func (g *gen) workflow(depth int, outer []string, inMap bool) (string, func(input int, s *scope) (int, error)) {
	n := rapid.IntRange(1, 5).Draw(g.T, "states")
	names := make([]string, n+1)
	for i := range names {
		names[i] = g.name()
	}
	own := []string{fmt.Sprint("v", depth, "a"), fmt.Sprint("v", depth, "b")}
	vars := append(append([]string{}, outer...), own...)
	steps := make([]step, n)
	states := make([]string, n)
	for i := range steps {
		// Most workflows begin by assigning their variables, or nearly every
		// machine would fail over one that is undefined.
		if i == 0 && n > 1 && rapid.IntRange(0, 9).Draw(g.T, "begin") > 0 {
			steps[i] = g.begin(names[1], own, outer, inMap)
		} else {
			steps[i] = g.step(i, names, depth, vars, own, inMap)
		}
		states[i] = `"` + names[i] + `":` + steps[i].json
	}
	states = append(states, `"`+names[n]+`":{"Type":"Succeed"}`)
	return `"StartAt":"` + names[0] + `","States":{` + strings.Join(states, ",") + `}`,
		func(input int, s *scope) (int, error) {
			for at := 0; at < n; {
				output, next, err := steps[at].run(input, s)
				if err != nil {
					return 0, err
				}
				input, at = output, next
			}
			return input, nil
		}
}

func (g *gen) begin(next string, own, outer []string, inMap bool) step {
	a, b := genExpr(g.T, 1, outer, inMap), genExpr(g.T, 1, outer, inMap)
	return step{fmt.Sprintf(`{"Type":"Pass","Assign":{"%s":"{%% %s %%}","%s":"{%% %s %%}"},"Next":"%s"}`, own[0], a.text, own[1], b.text, next),
		func(input int, s *scope) (int, int, error) {
			x, err := a.eval(input, s)
			if err != nil {
				return 0, 0, err
			}
			y, err := b.eval(input, s)
			s.vars[own[0]], s.vars[own[1]] = x, y
			return input, 1, err
		}}
}

func (g *gen) step(i int, names []string, depth int, vars, own []string, inMap bool) step {
	kinds := []string{"pass", "pass", "choice", "choice"}
	if depth > 0 {
		kinds = append(kinds, "map", "parallel", "map", "parallel")
	}
	if i == len(names)-2 {
		kinds = append(kinds, "fail")
	}
	value := func() expr { return genExpr(g.T, 2, vars, inMap) }
	next := `"Next":"` + names[i+1] + `"`
	switch rapid.SampledFrom(kinds).Draw(g.T, "kind") {
	case "fail":
		// Reached by a jump or not at all: the state before still leads on.
		limit := rapid.IntRange(-50, 900).Draw(g.T, "limit")
		fails := g.name()
		return step{fmt.Sprintf(`{"Type":"Choice","Choices":[{"Condition":"{%% $states.input > %d %%}","Next":"%s"}],"Default":"%s"},"%s":{"Type":"Fail","Error":"E"}`, limit, fails, names[i+1], fails),
			func(input int, _ *scope) (int, int, error) {
				if input > limit {
					return 0, 0, errFailed
				}
				return input, i + 1, nil
			}}
	case "pass":
		output, assigned, name := value(), value(), rapid.SampledFrom(own).Draw(g.T, "assign")
		return step{`{"Type":"Pass","Output":"{% ` + output.text + ` %}","Assign":{"` + name + `":"{% ` + assigned.text + ` %}"},` + next + `}`,
			func(input int, s *scope) (int, int, error) {
				v, err := assigned.eval(input, s)
				if err != nil {
					return 0, 0, err
				}
				out, err := output.eval(input, s)
				if err != nil {
					return 0, 0, err
				}
				s.vars[name] = v
				return out, i + 1, nil
			}}
	case "choice":
		a, b := value(), value()
		to := rapid.IntRange(i+1, len(names)-1).Draw(g.T, "to")
		return step{`{"Type":"Choice","Choices":[{"Condition":"{% ` + a.text + ` < ` + b.text + ` %}","Next":"` + names[to] + `"}],"Default":"` + names[i+1] + `"}`,
			func(input int, s *scope) (int, int, error) {
				x, err := a.eval(input, s)
				if err != nil {
					return 0, 0, err
				}
				y, err := b.eval(input, s)
				if err != nil {
					return 0, 0, err
				}
				if x < y {
					return input, to, nil
				}
				return input, i + 1, nil
			}}
	case "map":
		items := rapid.SliceOfN(rapid.IntRange(-5, 5), 0, 4).Draw(g.T, "items")
		list, _ := json.Marshal(append([]int{}, items...))
		selector := value()
		// A child of a distributed Map sees neither variables nor index of its parent.
		distributed, config, seen := rapid.Bool().Draw(g.T, "distributed"), "", vars
		if distributed {
			config, seen = `"ProcessorConfig":{"Mode":"DISTRIBUTED","ExecutionType":"STANDARD"},`, nil
		}
		body, run := g.workflow(depth-1, seen, !distributed)
		text := fmt.Sprintf(`{"Type":"Map","Items":%s,"MaxConcurrency":%d,"ItemSelector":"{%% ($states.context.Map.Item.Value + %s) %% 1000 %%}","ItemProcessor":{%s%s},"Output":"{%% $sum($states.result) %%}",%s`,
			list, rapid.IntRange(0, 3).Draw(g.T, "concurrency"), selector.text, config, body, next)
		return g.caught(text, i, func(input int, s *scope) (int, error) {
			sum := 0
			for k, item := range items {
				inner := &scope{outer: s, vars: map[string]int{}, index: &k}
				if distributed {
					inner = &scope{vars: map[string]int{}}
				}
				// The selector stands in the Map's own scope, with the item that starts.
				x, err := selector.eval(input, &scope{outer: s, index: &k})
				if err != nil {
					return 0, err
				}
				out, err := run((item+x)%1000, inner)
				if err != nil {
					return 0, err
				}
				sum += out
			}
			return sum, nil
		})
	default:
		argument := value()
		n := rapid.IntRange(1, 3).Draw(g.T, "branches")
		var branches []string
		var runs []func(int, *scope) (int, error)
		for range n {
			body, run := g.workflow(depth-1, vars, inMap)
			branches, runs = append(branches, "{"+body+"}"), append(runs, run)
		}
		text := `{"Type":"Parallel","Arguments":"{% ` + argument.text + ` %}","Branches":[` + strings.Join(branches, ",") + `],"Output":"{% $sum($states.result) %}",` + next
		return g.caught(text, i, func(input int, s *scope) (int, error) {
			x, err := argument.eval(input, s)
			if err != nil {
				return 0, err
			}
			sum := 0
			for _, run := range runs {
				out, err := run(x, &scope{outer: s, vars: map[string]int{}})
				if err != nil {
					return 0, err
				}
				sum += out
			}
			return sum, nil
		})
	}
}

// caught closes a Map or Parallel, perhaps with a catcher that leads on with 7.
func (g *gen) caught(text string, i int, run func(int, *scope) (int, error)) step {
	caught := rapid.Bool().Draw(g.T, "caught")
	if caught {
		_, next, _ := strings.Cut(text[strings.LastIndex(text, `"Next":`):], `:`)
		text += `,"Catch":[{"ErrorEquals":["States.ALL"],"Output":7,"Next":` + next + `}]`
	}
	return step{text + `}`, func(input int, s *scope) (int, int, error) {
		out, err := run(input, s)
		switch {
		case err != nil && caught:
			return 7, i + 1, nil
		case err != nil:
			return 0, 0, err
		}
		return out, i + 1, nil
	}}
}

func TestRandomMachines(t *testing.T) {
	h := newHost(t, functions{})
	h.patience = time.Minute
	n := 0
	failures := 0
	rapid.Check(t, func(t *rapid.T) {
		g := &gen{T: t}
		body, run := g.workflow(2, nil, false)
		input := rapid.IntRange(-99, 99).Draw(t, "input")
		want, err := run(input, &scope{vars: map[string]int{}})
		n++
		definition := `{"QueryLanguage":"JSONata",` + body + `}`
		_, createErr := h.try("CreateStateMachine", map[string]any{"name": fmt.Sprint("m", n), "definition": definition, "roleArn": roleARN})
		if createErr != nil {
			t.Fatalf("%v\n%s", createErr, definition)
		}
		out := h.wait(h.start(h.machineARN(fmt.Sprint("m", n)), "e", fmt.Sprint(input)))
		switch {
		case err != nil && out["status"] != statusFailed:
			t.Fatalf("it ends %v, want a failure\n%s", out, definition)
		case err == nil && out["output"] != fmt.Sprint(want):
			t.Fatalf("it ends %v, want %d\n%s", out, want, definition)
		case err != nil:
			failures++
		}
	})
	h.settled()
	t.Logf("%d of %d machines failed", failures, n)
	if failures == 0 || failures == n {
		t.Errorf("%d of %d machines failed: the generator is one-sided", failures, n)
	}
}
