package policy

import (
	"fmt"
	"slices"
	"strings"
)

// A Need is what a policy asks of one change or run.
type Need struct {
	Required bool
	// Separate says that the approver may not be the requester.
	Separate bool
	// Reasons name the rules that asked, such as "function" or
	// "batch costing over 200 (Node evaluations plus sandbox seconds)".
	Reasons []string
}

// A Deed is what is judged: what is done to things of one kind.
type Deed struct {
	On Subject
	// Kinds are the kinds of commands that do it, or would; none: any.
	Kinds []string
	// Paths are the semantic paths that are written, of all the documents together;
	// none: there are none, or nobody knows yet.
	Paths []string
}

// Judge returns what the policy asks of a subject with these command kinds and
// this cost.
func (p Policy) Judge(on Subject, kinds []string, cost int64) Need {
	return p.JudgeAll(cost, Deed{On: on, Kinds: kinds})
}

// JudgeAll returns what the policy asks of deeds that are done at once. Of the rules
// on one subject, the first that fits a kind of command and a path decides for these
// two; two that need approval are enough for all. Which command writes which path is
// not asked: each is held to be done at each, so that too much may be asked, and never
// too little.
func (p Policy) JudgeAll(cost int64, deeds ...Deed) (need Need) {
	for _, d := range deeds {
		var rules []Rule
		paths := d.Paths
		for _, r := range p.Rules {
			if r.On == d.On && (cost > r.MaxCost || r.MaxCost == 0) {
				rules = append(rules, r)
			}
		}
		if len(paths) == 0 || !slices.ContainsFunc(rules, func(r Rule) bool { return len(r.Paths) > 0 }) {
			paths = []string{nowhere} // no rule tells one path from another
		}
		kinds := d.Kinds
		if len(kinds) == 0 {
			kinds = []string{""}
		}
		for _, kind := range kinds {
			of := slices.DeleteFunc(slices.Clone(rules), func(r Rule) bool { return len(r.Kinds) > 0 && !slices.Contains(r.Kinds, kind) })
			for _, path := range paths {
				for _, r := range of {
					at, fits := r.fits(path)
					if !fits {
						continue
					}
					if r.Approval == required {
						need.Required = true
						need.Separate = need.Separate || r.SeparateApprover == nil || *r.SeparateApprover
						if reason := r.reason(kind, at); !slices.Contains(need.Reasons, reason) {
							need.Reasons = append(need.Reasons, reason)
						}
					}
					break
				}
			}
		}
	}
	return need
}

const (
	required = "required"
	nowhere  = "nowhere" // no path begins like this
)

// fits reports whether the rule is about a path that is written, and which of its own
// paths that is, "" for every path.
func (r Rule) fits(path string) (at string, fits bool) {
	for _, pattern := range r.Paths {
		if path != nowhere && Covers(pattern, path, r.Approval == required) {
			return pattern, true
		}
	}
	return "", len(r.Paths) == 0
}

// Covers reports whether a semantic path lies at or below what the pattern names, in
// which "*" stands for any one name, or, where above says so, above it.
func Covers(pattern, path string, above bool) bool {
	names, written := strings.Split(pattern, "/")[1:], strings.Split(path, "/")[1:]
	if len(names) > len(written) && !above {
		return false
	}
	for i := range min(len(names), len(written)) {
		if names[i] != "*" && names[i] != written[i] {
			return false
		}
	}
	return true
}

// reason names the rule for people.
func (r Rule) reason(kind, at string) string {
	reason := string(r.On)
	if len(r.Kinds) > 0 {
		reason += " " + kind
	}
	if len(r.Paths) > 0 {
		reason += " at " + at
	}
	if r.MaxCost > 0 {
		reason += fmt.Sprintf(" costing over %d (Node evaluations plus sandbox seconds)", r.MaxCost)
	}
	return reason
}

// Lacks are the params of a refusal for want of a right: which right, where, and
// how to ask for it. An operator grants rights; no tool does.
func Lacks(right Right, project interface{ String() string }) map[string]any {
	return map[string]any{"right": string(right), "project": project.String(), "requestFrom": "project operator (px project grant)"}
}
