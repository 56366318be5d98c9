// Package schedule is the local host's EventBridge: it sends the scheduled
// event of each rule when a period of its rate has passed.
//
// Periods are counted from the start of the host, as EventBridge counts them
// from the creation of a rule: what was missed while the host was off is not
// sent later. It knows no cron expressions and no function.
package schedule

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"time"

	"github.com/pxhost/pxhost/infra/local/failpoint"
)

// A Rule fires once every period.
type Rule struct {
	ARN      string
	Every    time.Duration
	Function string
	Input    json.RawMessage // sent instead of the event, if not nil
}

// Options configure [Run].
type Options struct {
	Rules     []Rule
	Region    string
	AccountID string
	// Invoke accepts one asynchronous invocation.
	Invoke func(function string, payload []byte) error
	// Log receives failures to invoke; a rule goes on.
	Log func(line string)
}

// Run fires the rules until ctx is done.
func Run(ctx context.Context, opt Options) {
	done := make(chan struct{}, len(opt.Rules))
	for _, r := range opt.Rules {
		go func() {
			defer func() { done <- struct{}{} }()
			tick := time.NewTicker(r.Every)
			defer tick.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case at := <-tick.C:
					failpoint.Hit(failpoint.ScheduleDue)
					if err := opt.Invoke(r.Function, Event(r, opt.Region, opt.AccountID, at)); err != nil && ctx.Err() == nil {
						opt.Log("schedule " + r.ARN + ": " + err.Error())
					}
					failpoint.Hit(failpoint.ScheduleSent)
				}
			}
		}()
	}
	for range opt.Rules {
		<-done
	}
}

// Event is the payload of one firing: the rule's input, or EventBridge's
// scheduled event.
func Event(r Rule, region, account string, at time.Time) []byte {
	if r.Input != nil {
		return r.Input
	}
	var id [16]byte
	rand.Read(id[:])
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	b, err := json.Marshal(struct {
		Version    string   `json:"version"`
		ID         string   `json:"id"`
		DetailType string   `json:"detail-type"`
		Source     string   `json:"source"`
		Account    string   `json:"account"`
		Time       string   `json:"time"`
		Region     string   `json:"region"`
		Resources  []string `json:"resources"`
		Detail     struct{} `json:"detail"`
	}{
		Version: "0", ID: fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:]),
		DetailType: "Scheduled Event", Source: "aws.events", Account: account,
		Time: at.UTC().Format(time.RFC3339), Region: region, Resources: []string{r.ARN},
	})
	if err != nil {
		panic(err) // plain strings
	}
	return b
}
