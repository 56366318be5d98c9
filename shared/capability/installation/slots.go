package installation

import (
	"slices"
	"time"

	"github.com/pxhost/pxhost/shared/capability"
	"github.com/pxhost/pxhost/shared/capability/host"
)

// slots are the due rows of an instance's background capabilities as they are after a
// change: one of each while the instance is enabled. The first slot is one interval from
// now. An instance that changes begins to wait anew, so that a new version never runs at
// a time of the old one's interval.
func (m *Manager) slots(in capability.Installed) []host.Slot {
	if !in.Instance.Enabled || in.Instance.Removed {
		return nil
	}
	var out []host.Slot
	for _, c := range in.Manifest.Capabilities {
		if b := in.Runtimes[c.ID].Background; b != nil {
			out = append(out, host.Slot{
				Workspace: in.Instance.Workspace, InstanceID: in.Instance.InstanceID, CapabilityID: c.ID,
				At: m.Now().UTC().Truncate(time.Minute).Add(time.Duration(b.IntervalMinutes) * time.Minute), Minutes: b.IntervalMinutes,
			})
		}
	}
	return out
}

// dropped are the due rows that an instance had before a change and has no more.
func dropped(before, after capability.Installed) []host.Slot {
	var out []host.Slot
	for _, c := range before.Manifest.Capabilities {
		if before.Runtimes[c.ID].Background == nil {
			continue
		}
		stays := after.Instance.Enabled && !after.Instance.Removed && slices.ContainsFunc(after.Manifest.Capabilities, func(one capability.Capability) bool {
			return one.ID == c.ID && after.Runtimes[c.ID].Background != nil
		})
		if !stays {
			out = append(out, host.Slot{Workspace: before.Instance.Workspace, InstanceID: before.Instance.InstanceID, CapabilityID: c.ID})
		}
	}
	return out
}
