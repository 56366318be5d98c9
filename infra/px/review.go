package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/pxhost/pxhost/infra/local/oidc"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/review"
)

const decisionCodes = "Exit codes: 0 it is done, 1 it is refused or you said no, 2 there is no answer."

var reviewCommand = command{
	name:    "review",
	summary: "show what a plan or a costly run asks for",
	run: func(ctx context.Context, env *environment, args []string) error {
		fs := env.flags("review", "PLANREF|RUNREF [flags]\n\n"+decisionCodes)
		var to doorFlags
		to.add(fs)
		raw := fs.Bool("json", false, "print the answers as they are, one a line")
		ref, err := oneRef(env, fs, args)
		if err != nil {
			return err
		}
		d, err := env.reviewDoor(to, ref)
		if err != nil {
			return err
		}
		out := env.out
		if *raw {
			out = io.Discard
			d.each = func(answer []byte) { env.out.Write(append(bytes.TrimSpace(answer), '\n')) }
		}
		_, err = d.show(ctx, out)
		return err
	},
}

var (
	approveCommand = decisionCommand("approve", "show a plan or a costly run, ask, and approve it")
	rejectCommand  = decisionCommand("reject", "show a plan or a costly run, ask, and reject it for good")
)

func decisionCommand(verb, summary string) command {
	return command{name: verb, summary: summary, run: func(ctx context.Context, env *environment, args []string) error {
		fs := env.flags(verb, "PLANREF|RUNREF [flags]\n\nShows all that is asked for and wants the answer yes, unless --yes gives it before.\nWhat is decided about is exactly what was shown. "+decisionCodes)
		var to doorFlags
		to.add(fs)
		yes := fs.Bool("yes", false, "do not ask")
		comment := fs.String("comment", "", "`text` that is kept with the decision")
		ref, err := oneRef(env, fs, args)
		if err != nil {
			return err
		}
		d, err := env.reviewDoor(to, ref)
		if err != nil {
			return err
		}
		asked, err := d.show(ctx, env.out)
		if err != nil {
			return err
		}
		if !*yes {
			fmt.Fprintf(env.out, "\nType yes to %s it: ", verb)
			// A closed input is no.
			line, _ := bufio.NewReader(env.in).ReadString('\n')
			if strings.TrimSpace(line) != "yes" {
				return &exitError{exitFailed, fmt.Errorf("nothing was done")}
			}
		}
		body := map[string]string{}
		if *comment != "" {
			body["comment"] = *comment
		}
		if asked.RunRef != "" {
			body["requestDigest"] = asked.RequestDigest
		} else {
			body["planDigest"] = asked.PlanDigest
		}
		answer, err := d.send(ctx, http.MethodPost, "/"+verb, "", body)
		if err != nil {
			return err
		}
		if verb == "reject" {
			_, err = fmt.Fprintf(env.out, "\nrejected %s; it can never be applied or started\n", ref)
			return err
		}
		var approved review.Approved
		if err := json.Unmarshal(answer.Data, &approved); err != nil {
			return &exitError{exitUsage, errors.New("the answer cannot be read")}
		}
		_, err = fmt.Fprintf(env.out, "\napproved until %s\napprovalRef %s\nWho asked gives it with the same request again; it can be used once.\n", approved.ExpiresAt, approved.ApprovalRef)
		return err
	}}
}

func oneRef(env *environment, fs *flag.FlagSet, args []string) (string, error) {
	positional, err := env.parseMixed(fs, args)
	if err != nil {
		return "", err
	}
	if len(positional) != 1 || !strings.HasPrefix(positional[0], "plan_") && !strings.HasPrefix(positional[0], "run_") {
		return "", usagef("one planRef (plan_…) or runRef (run_…), as PX_APPROVAL_REQUIRED names it")
	}
	return positional[0], nil
}

// doorFlags are the flags of the commands of a reviewer.
type doorFlags struct{ token, as string }

func (f *doorFlags) add(fs *flag.FlagSet) {
	// Not --token: PX_TOKEN is what an AI's client uses, and never approves.
	fs.StringVar(&f.token, "approve-token", "", "bearer token with the scope "+oidc.ScopeApprove+"; better in PX_APPROVE_TOKEN, where no list of processes shows it")
	fs.StringVar(&f.as, "as", "reviewer", "without a token: the sample `principal` for whom one is made from the state folder: "+strings.Join(oidc.Subjects, ", "))
}

// A reviewDoor is where one plan or Run is reviewed.
type reviewDoor struct {
	base, token string
	http        *http.Client
	each        func(answer []byte) // of every answer to a read; may be nil
}

func (e *environment) reviewDoor(f doorFlags, ref string) (*reviewDoor, error) {
	base, err := e.baseURL()
	if err != nil {
		return nil, &exitError{exitUsage, err}
	}
	route := "/v1/plans/"
	if strings.HasPrefix(ref, "run_") {
		route = "/v1/runs/"
	}
	d := &reviewDoor{base: base + route + url.PathEscape(ref), token: f.token, http: &http.Client{
		Timeout:       35 * time.Second,
		Transport:     &http.Transport{DialContext: (&net.Dialer{Timeout: 5 * time.Second}).DialContext, Proxy: http.ProxyFromEnvironment},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	if d.token != "" {
		return d, nil
	}
	if !slices.Contains(oidc.Subjects, f.as) {
		return nil, usagef("--as takes one of %s", strings.Join(oidc.Subjects, ", "))
	}
	host, err := e.dir().ReadHost()
	if err == nil {
		var key *oidc.Key
		if key, err = oidc.Read(e.dir()); err == nil {
			d.token, err = key.Token(host.URL, f.as, oidc.ScopeApprove, time.Now())
		}
	}
	if err != nil {
		return nil, &exitError{exitUsage, fmt.Errorf("no token: give one by PX_APPROVE_TOKEN, or the state folder of a started px local by --state: %w", err)}
	}
	return d, nil
}

// maxDoorAnswer bounds what is read of an answer.
const maxDoorAnswer = 6 << 20

// send returns the envelope of a success. Its error ends px: with 1 for what is
// refused, with 2 where there is no answer.
func (d *reviewDoor) send(ctx context.Context, method, verb, cursor string, body any) (outcome.Envelope, error) {
	none := func(err error) (outcome.Envelope, error) { return outcome.Envelope{}, &exitError{exitUsage, err} }
	address := d.base + verb
	if cursor != "" {
		address += "?cursor=" + url.QueryEscape(cursor)
	}
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return none(errors.New("the comment is not UTF-8"))
		}
	}
	request, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(text))
	if err != nil {
		return none(err)
	}
	request.Header.Set("Authorization", "Bearer "+d.token)
	request.Header.Set("User-Agent", "px")
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := d.http.Do(request)
	if err != nil {
		return none(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxDoorAnswer))
	if err != nil {
		return none(err)
	}
	var envelope outcome.Envelope
	if err := json.Unmarshal(answer, &envelope); err != nil || !envelope.OK && len(envelope.Diagnostics) == 0 {
		return none(fmt.Errorf("HTTP status %d: %s", response.StatusCode, short(answer)))
	}
	if !envelope.OK {
		var told []string
		for _, n := range envelope.Diagnostics {
			params, _ := json.Marshal(n.Params, json.Deterministic(true))
			told = append(told, fmt.Sprintf("%s at %q %s", n.Code, n.Path, plainText(string(params))))
		}
		return outcome.Envelope{}, &exitError{exitFailed, errors.New(strings.Join(told, "\n"))}
	}
	if d.each != nil && method == http.MethodGet {
		d.each(answer)
	}
	return envelope, nil
}

// show prints all that is asked for, however many answers it takes, and returns the
// first of them.
func (d *reviewDoor) show(ctx context.Context, out io.Writer) (review.Asked, error) {
	var first review.Asked
	for cursor, part := "", 0; ; part++ {
		answer, err := d.send(ctx, http.MethodGet, "", cursor, nil)
		if err != nil {
			return review.Asked{}, err
		}
		var asked review.Asked
		var cut struct {
			Truncation *struct {
				Continuation struct {
					Value string `json:"value"`
				} `json:"continuation"`
			} `json:"truncation"`
		}
		if json.Unmarshal(answer.Data, &asked) != nil || json.Unmarshal(answer.Data, &cut) != nil {
			return review.Asked{}, &exitError{exitUsage, errors.New("the answer cannot be read")}
		}
		if part == 0 {
			first = asked
			showHead(out, asked)
		} else {
			fmt.Fprintf(out, "\n(continued)\n")
		}
		showBody(out, asked)
		if cut.Truncation == nil {
			return first, nil
		}
		cursor = cut.Truncation.Continuation.Value
	}
}

func showHead(out io.Writer, a review.Asked) {
	line := func(name, text string) {
		if text != "" {
			fmt.Fprintf(out, "%-11s %s\n", name, plainText(text))
		}
	}
	what := "Plan"
	if a.RunRef != "" {
		what = "Run"
	}
	line(what, a.PlanRef+a.RunRef)
	line("State", a.State+", until "+a.ExpiresAt)
	line("Digest", a.PlanDigest+a.RequestDigest)
	line("Project", a.Scope.WorkspaceKey+"/"+a.Scope.ProjectKey)
	line("Asked by", a.Requester)
	if a.Assistant != nil {
		line("Assistant", a.Assistant.Provider+" "+a.Assistant.Model+" (as the client says)")
	}
	line("Asked at", a.CreatedAt)
	line("Target", string(a.Target))
	line("Cost", fmt.Sprintf("%d (Node evaluations plus sandbox seconds)", a.Cost))
	switch {
	case a.Approval.Required:
		line("Approval", "required for: "+strings.Join(a.Approval.Reasons, ", "))
	default:
		line("Approval", "not required by the policy of now")
	}
	if a.Separate {
		line("", "the requester may not approve it")
	}
	if r := a.Rejection; r != nil {
		line("Rejected", "by "+r.RejectedBy+" at "+r.RejectedAt)
		line("Comment", r.Comment)
	}
	if a.Approved != nil {
		line("Approved", "by you, until "+a.Approved.ExpiresAt+": "+a.Approved.ApprovalRef)
	}
}

// oneLine is how long a command may be, in bytes, to be shown as it is.
const oneLine = 160

// showCommand shows a command on one line, or a long one by its members, and a list
// by its elements: each case of a Batch is a line that a person can read.
func showCommand(out io.Writer, command jsontext.Value) {
	if len(command) <= oneLine || command.Kind() != '{' {
		fmt.Fprintf(out, "  %s\n", plainText(string(command)))
		return
	}
	mark := "-"
	for name, value := range members(command) {
		if value.Kind() != '[' {
			fmt.Fprintf(out, "  %s %s: %s\n", mark, plainText(name), plainText(string(value)))
			mark = " "
			continue
		}
		var elements []jsontext.Value
		if err := json.Unmarshal(value, &elements); err != nil {
			elements = []jsontext.Value{value}
		}
		fmt.Fprintf(out, "  %s %s: %d\n", mark, plainText(name), len(elements))
		mark = " "
		for _, e := range elements {
			fmt.Fprintf(out, "      %s\n", plainText(string(e)))
		}
	}
}

// members goes through the members of an object in their order.
func members(object jsontext.Value) iter.Seq2[string, jsontext.Value] {
	return func(yield func(string, jsontext.Value) bool) {
		d := jsontext.NewDecoder(bytes.NewReader(object))
		if _, err := d.ReadToken(); err != nil {
			return
		}
		for d.PeekKind() != '}' {
			name, err := d.ReadToken()
			if err != nil {
				return
			}
			key := name.String()
			value, err := d.ReadValue()
			if err != nil || !yield(key, value) {
				return
			}
		}
	}
}

func showBody(out io.Writer, a review.Asked) {
	if r := a.Run; r != nil {
		what := r.Kind
		if r.ConnectionKey != "" {
			what += " of the connection " + r.ConnectionKey
		}
		fmt.Fprintf(out, "\n%s with the inputs\n", plainText(what))
		for _, key := range sortedKeys(r.Inputs) {
			fmt.Fprintf(out, "  %s = %s\n", plainText(key), plainText(string(r.Inputs[key])))
		}
		if r.Reason != "" {
			fmt.Fprintf(out, "Reason given: %s\n", plainText(r.Reason))
		}
	}
	p := a.Plan
	if p == nil {
		return
	}
	if len(p.Commands) > 0 {
		fmt.Fprint(out, "\nCommands\n")
		for _, c := range p.Commands {
			showCommand(out, jsontext.Value(c))
		}
	}
	var changes []struct {
		Path, Op, Unified string
		Before, After     jsontext.Value
	}
	if err := json.Unmarshal(p.Diff, &changes, json.MatchCaseInsensitiveNames(true)); err != nil {
		fmt.Fprintf(out, "\nDifference\n  %s\n", plainText(string(p.Diff)))
	} else if len(changes) > 0 {
		fmt.Fprint(out, "\nDifference\n")
		for _, c := range changes {
			fmt.Fprintf(out, "  %s %s\n", plainText(c.Op), plainText(c.Path))
			if c.Before != nil {
				fmt.Fprintf(out, "    - %s\n", plainText(string(c.Before)))
			}
			if c.After != nil {
				fmt.Fprintf(out, "    + %s\n", plainText(string(c.After)))
			}
			for line := range strings.Lines(c.Unified) {
				fmt.Fprintf(out, "    %s\n", plainText(strings.TrimRight(line, "\n")))
			}
		}
	}
	impact := p.Impact
	if len(impact) > 0 && impact.Indent(jsontext.WithIndentPrefix("  "), jsontext.WithIndent("  ")) == nil {
		fmt.Fprint(out, "\nImpact\n")
		for line := range strings.Lines("  " + string(impact)) {
			fmt.Fprintln(out, plainText(strings.TrimRight(line, "\n")))
		}
	}
}

func sortedKeys[V any](m map[string]V) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// plainText is what an AI wrote, as a terminal may show it to who decides by it:
// whatever is no visible character (escape sequences, changes of direction, what has
// no width) stands as its code.
func plainText(text string) string {
	var out strings.Builder
	for _, r := range text {
		if r == ' ' || unicode.IsGraphic(r) && !unicode.Is(unicode.Zs, r) {
			out.WriteRune(r)
		} else {
			fmt.Fprintf(&out, `\u{%x}`, r)
		}
	}
	return out.String()
}
