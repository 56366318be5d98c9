package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/pxhost/pxhost/infra/local/oidc"
	"github.com/pxhost/pxhost/infra/px/term"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/policy"
	"github.com/pxhost/pxhost/shared/review"
	"github.com/pxhost/pxhost/shared/wire"
)

var reviewCommand = command{
	name:    "review",
	summary: "show what a plan or a costly run asks for",
	run: func(ctx context.Context, env *environment, args []string) error {
		fs := env.flags("review", "PLANREF|RUNREF [flags]\n\nOf long lists it shows the first entries and how many there are; --json prints all.")
		var to doorFlags
		to.add(fs)
		raw := fs.Bool("json", false, "print the answers as they are, one a line")
		var colour string
		addColour(fs, &colour)
		ref, err := oneRef(env, fs, args)
		if err != nil {
			return err
		}
		d, err := env.reviewDoor(to, ref)
		if err != nil {
			return err
		}
		out := env.screen(colour)
		if *raw {
			out.Writer = io.Discard
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
		fs := env.flags(verb, "PLANREF|RUNREF [flags]\n\nShows what is asked for, of long lists the first entries and how many there are, and\nwants the answer yes, unless --yes gives it before. What is decided about is the very\nplan or request that was shown.")
		var to doorFlags
		to.add(fs)
		yes := fs.Bool("yes", false, "do not ask")
		var colour string
		addColour(fs, &colour)
		comment := fs.String("comment", "", "`text` that is kept with the decision")
		ref, err := oneRef(env, fs, args)
		if err != nil {
			return err
		}
		d, err := env.reviewDoor(to, ref)
		if err != nil {
			return err
		}
		asked, err := d.show(ctx, env.screen(colour))
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
			return &exitError{exitUnknown, errors.New("the answer cannot be read")}
		}
		_, err = fmt.Fprintf(env.out, "\napproved until %s\napprovalRef %s\nWho asked gives it with the same request again; it can be used once:\n  %s\n", approved.ExpiresAt, approved.ApprovalRef, requested(asked, approved.ApprovalRef))
		return err
	}}
}

// requested is how who asked goes on with an approval.
func requested(a review.Asked, approval string) string {
	if a.RunRef != "" {
		return "px run --retry COMMANDID --approval " + approval
	}
	var command struct {
		Kind string `json:"kind"`
	}
	if p := a.Plan; p != nil && len(p.Commands) == 1 && json.Unmarshal(p.Commands[0], &command) == nil && command.Kind == batchKind {
		return "px run " + a.PlanRef + " --approval " + approval
	}
	return "px apply " + a.PlanRef + " --approval " + approval
}

// batchKind is the kind of the command of a plan that is started, and not applied.
const batchKind = "RunReportFlowBatch"

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
	// next says what a person can do about a refusal, "" if nothing special; may be nil.
	next func(outcome.Code, outcome.Params) string
	// variable is where the token could be given, with which scope; "" where none is taken.
	variable, scope string
	minted          bool // the token was made from the state folder
}

// A notDone is a failure before anything could be done.
type notDone struct{ error }

func (e notDone) Unwrap() error { return e.error }

// unanswered is the failure of an answer that is none of the host's: of API Gateway, which
// judges tokens, or of another server.
func (d *reviewDoor) unanswered(response *http.Response, answer []byte) error {
	failure := statusFailure(response, answer)
	if failure.Outcome != wire.Not {
		return failure.Cause
	}
	err := failure.Cause
	switch {
	case failure.Reason != wire.ReasonRefused || d.variable == "":
	case d.minted:
		err = fmt.Errorf("%w\n  the host that answers is not the one of the state folder: name its folder with --state, or give its token by %s", err, d.variable)
	case response.StatusCode == http.StatusForbidden:
		err = fmt.Errorf("%w\n  the token has to have the scope %s: give another one by %s, or none: then px makes one from the state folder", err, d.scope, d.variable)
	default:
		err = fmt.Errorf("%w\n  give another token by %s, or none: then px makes one from the state folder", err, d.variable)
	}
	return notDone{err}
}

func (e *environment) reviewDoor(f doorFlags, ref string) (*reviewDoor, error) {
	d, err := e.routes(f.token, f.as, oidc.ScopeApprove, "PX_APPROVE_TOKEN")
	if err != nil {
		return nil, err
	}
	route := "/v1/plans/"
	if strings.HasPrefix(ref, "run_") {
		route = "/v1/runs/"
	}
	d.base += route + url.PathEscape(ref)
	d.next = reviewStep
	return d, nil
}

// reviewStep is what a reviewer does about a refusal.
func reviewStep(code outcome.Code, params outcome.Params) string {
	switch code {
	case outcome.PlanNotFound, outcome.TargetNotFound:
		return "look at the reference, or sign in as one who may read it: --as, or PX_APPROVE_TOKEN"
	case outcome.PermissionDenied:
		return "decide it as one who may (--as, or PX_APPROVE_TOKEN); px project grant WORKSPACE/PROJECT --to SUBJECT --rights read,approve gives the right"
	case outcome.PlanMismatch:
		return "it is not what was shown: read it again with px review"
	case outcome.PlanExpired:
		return "it can no longer be decided; who asked may plan or ask again"
	case outcome.ApprovalInvalid:
		if params["reason"] == policy.SamePerson {
			return "you asked for it yourself: somebody else has to decide it (--as, or PX_APPROVE_TOKEN)"
		}
	}
	return ""
}

// routes returns the HTTP routes of the host. Without a token one of the scope is made for
// a sample principal; variable is where another one is given.
func (e *environment) routes(token, as, scope, variable string) (*reviewDoor, error) {
	base, err := e.baseURL()
	if err != nil {
		return nil, &exitError{exitNoHost, err}
	}
	d := &reviewDoor{base: base, token: token, variable: variable, scope: scope, minted: token == "", http: &http.Client{
		Timeout:       35 * time.Second,
		Transport:     &http.Transport{DialContext: (&net.Dialer{Timeout: 5 * time.Second}).DialContext, Proxy: http.ProxyFromEnvironment},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	if d.token != "" {
		return d, nil
	}
	if !slices.Contains(oidc.Subjects, as) {
		return nil, usagef("--as takes one of %s", strings.Join(oidc.Subjects, ", "))
	}
	host, err := e.dir().ReadHost()
	if err == nil {
		var key *oidc.Key
		if key, err = oidc.Read(e.dir()); err == nil {
			d.token, err = key.Token(host.URL, as, scope, time.Now())
		}
	}
	if err != nil {
		return nil, &exitError{exitNoHost, fmt.Errorf("no token: give one by %s, or the state folder of a started px local by --state: %w", variable, err)}
	}
	return d, nil
}

// maxDoorAnswer bounds what is read of an answer.
const maxDoorAnswer = 6 << 20

// send returns the envelope of a success. Its error ends px: with 1 for what is
// refused, with 2 where there is no answer.
func (d *reviewDoor) send(ctx context.Context, method, verb, cursor string, body any) (outcome.Envelope, error) {
	none := func(err error) (outcome.Envelope, error) {
		code := exitUnknown
		if _, before := errors.AsType[notDone](err); before || method == http.MethodGet {
			code = exitNoHost
		}
		return outcome.Envelope{}, &exitError{code, err}
	}
	address := d.base + verb
	if cursor != "" {
		mark := "?"
		if strings.Contains(verb, "?") {
			mark = "&"
		}
		address += mark + "cursor=" + url.QueryEscape(cursor)
	}
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return outcome.Envelope{}, usagef("what is sent is not UTF-8")
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
		if dial, ok := errors.AsType[*net.OpError](err); ok && dial.Op == "dial" {
			err = notDone{fmt.Errorf("%w\n  start px local, or name another host with --url or PX_URL", err)}
		}
		return none(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxDoorAnswer))
	if err != nil {
		return none(err)
	}
	var envelope outcome.Envelope
	if err := json.Unmarshal(answer, &envelope); err != nil || !envelope.OK && len(envelope.Diagnostics) == 0 {
		return none(d.unanswered(response, answer))
	}
	if !envelope.OK {
		var told []string
		for _, n := range envelope.Diagnostics {
			params, _ := json.Marshal(n.Params, json.Deterministic(true))
			told = append(told, fmt.Sprintf("%s at %q %s", n.Code, n.Path, plainText(string(params))))
			if d.next != nil {
				if step := d.next(n.Code, n.Params); step != "" {
					told[len(told)-1] += "\n  " + step
				}
			}
		}
		return outcome.Envelope{}, &exitError{exitFailed, errors.New(strings.Join(told, "\n"))}
	}
	if d.each != nil && method == http.MethodGet {
		d.each(answer)
	}
	return envelope, nil
}

// whole reads an answer, however many parts it takes.
func (d *reviewDoor) whole(ctx context.Context, verb string) ([]byte, error) {
	var whole joined
	for cursor := ""; ; {
		answer, err := d.send(ctx, http.MethodGet, verb, cursor, nil)
		if err != nil {
			return nil, err
		}
		if cursor, err = whole.add(answer.Data); err != nil {
			return nil, &exitError{exitUnknown, fmt.Errorf("the answer cannot be read: %w", err)}
		}
		if cursor == "" {
			break
		}
	}
	text, err := whole.text()
	if err != nil {
		return nil, &exitError{exitUnknown, fmt.Errorf("the answer cannot be read: %w", err)}
	}
	return text, nil
}

// show prints what is asked for and returns it.
func (d *reviewDoor) show(ctx context.Context, out *term.Screen) (review.Asked, error) {
	text, err := d.whole(ctx, "")
	if err != nil {
		return review.Asked{}, err
	}
	var asked review.Asked
	if err := json.Unmarshal(text, &asked); err != nil {
		return review.Asked{}, &exitError{exitUnknown, fmt.Errorf("the answer cannot be read: %w", err)}
	}
	showHead(out, asked)
	showBody(out, asked)
	return asked, nil
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
