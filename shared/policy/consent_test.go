package policy_test

import (
	"testing"
	"time"

	"github.com/pxhost/pxhost/shared/policy"
	"github.com/pxhost/pxhost/shared/target"
)

// covers: U6, P5
func TestWhyAnApprovalDoesNotServe(t *testing.T) {
	now := time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)
	bridge := target.Project{WorkspaceKey: "team", ProjectKey: "bridge"}
	given := policy.Approval{ApprovalRef: "approval_1", Project: bridge, PlanRef: "plan_1", Digest: "sha256:a", Requester: "iss|engineer", Approver: "iss|reviewer", ExpiresAt: now.Add(1)}
	asked := policy.Asked{Project: bridge, PlanRef: "plan_1", Digest: "sha256:a", Requester: "iss|engineer", At: now}
	may := policy.Grant{Rights: []policy.Right{policy.Read, policy.Approve}}
	separate := policy.Need{Required: true, Separate: true}
	for name, c := range map[string]struct {
		edit  func(*policy.Approval, *policy.Asked)
		need  policy.Need
		grant policy.Grant
		want  string
	}{
		"it serves in the last nanosecond": {func(*policy.Approval, *policy.Asked) {}, separate, may, ""},
		"it expires this nanosecond":       {func(a *policy.Approval, _ *policy.Asked) { a.ExpiresAt = now }, separate, may, policy.ApprovalEnded},
		"it is used":                       {func(a *policy.Approval, _ *policy.Asked) { a.UsedBy = "command" }, separate, may, policy.AlreadyUsed},
		"of another plan":                  {func(_ *policy.Approval, q *policy.Asked) { q.PlanRef = "plan_2" }, separate, may, policy.NotOfThis},
		"of another digest":                {func(_ *policy.Approval, q *policy.Asked) { q.Digest = "sha256:b" }, separate, may, policy.NotOfThis},
		"of another Project":               {func(_ *policy.Approval, q *policy.Asked) { q.Project.ProjectKey = "tunnel" }, separate, may, policy.NotOfThis},
		"by who asks":                      {func(_ *policy.Approval, q *policy.Asked) { q.Requester = "iss|reviewer" }, separate, may, policy.SamePerson},
		"by who asks, where policy lets":   {func(_ *policy.Approval, q *policy.Asked) { q.Requester = "iss|reviewer" }, policy.Need{Required: true}, may, ""},
		"by whose right is gone":           {func(*policy.Approval, *policy.Asked) {}, separate, policy.Grant{Rights: []policy.Right{policy.Read}}, policy.NoRight},
		"used, and of another plan: no more is told than that": {func(a *policy.Approval, q *policy.Asked) { a.UsedBy, q.PlanRef = "command", "plan_2" }, separate, may, policy.NotOfThis},
	} {
		a, q := given, asked
		c.edit(&a, &q)
		if got := a.Refuses(c.need, q, c.grant); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
