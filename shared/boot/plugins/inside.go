package plugins

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/pxhost/pxhost/shared/adapter/calendarstore"
	"github.com/pxhost/pxhost/shared/capability"
	"github.com/pxhost/pxhost/shared/capability/background"
	"github.com/pxhost/pxhost/shared/capability/execution"
)

// CalendarStore is the handler of calendar_store, whose results change the storage.
func (p *Plugins) CalendarStore() lambda.Handler {
	return p.Serve(calendarstore.New(p.store, time.Now))
}

// Minute does what is due. It starts the adapters' functions and does not wait for them:
// a minute has no time for what takes five.
func (p *Plugins) Minute() background.Minute {
	return background.Minute{Desk: p.desk(starting{adapters(p.env)})}
}

// starting starts functions. One that Lambda invokes again finds what is left to do.
type starting struct{ functions }

// Invoke implements execution.Invoker.
func (s starting) Invoke(ctx context.Context, adapter capability.AdapterName, executionID string) error {
	name, payload, err := s.of(adapter, executionID)
	if err != nil {
		return err
	}
	if err := s.client.Start(ctx, name, payload); err != nil {
		return fmt.Errorf("plugins: %s: %w", name, err)
	}
	return nil
}

var _ execution.Invoker = starting{}
