package memory

import (
	"testing"
	"time"

	"github.com/pxhost/pxhost/shared/capability/host"
	"github.com/pxhost/pxhost/shared/console/session"
	"github.com/pxhost/pxhost/shared/store/storetest"
)

func clock() time.Time { return storetest.Now }

func TestStore(t *testing.T) {
	storetest.Run(t, func(*testing.T) storetest.Store { return New(clock) })
}

func TestRuns(t *testing.T) {
	storetest.Runs(t, func(*testing.T) storetest.RunStore { return New(clock) })
}

func TestJobs(t *testing.T) {
	storetest.Jobs(t, func(*testing.T) storetest.JobStore { return New(clock) })
}

func TestHost(t *testing.T) {
	storetest.Host(t, func(*testing.T) host.Store { return New(clock) })
}

func TestMemoryListsWhatWaits(t *testing.T) {
	storetest.Waiting(t, func(*testing.T) storetest.WaitingStore { return New(clock) })
}

func TestMemoryKeepsSessions(t *testing.T) {
	storetest.Sessions(t, func(*testing.T) session.Store { return New(clock) })
}
