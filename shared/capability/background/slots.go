// Package background is what the capability host does by itself each minute: it starts
// background capabilities, tells people what they are to be told, and goes on with
// executions that are due.
//
// It knows no HTTP, no adapter and no schedule but that it is called each minute or so.
// Nothing breaks when two minutes run at once, or when one dies anywhere: each slot,
// each notification and each step of an execution is one write on the row that was read.
//
// # Slots
//
// Time is cut into slots of interval_minutes, on a grid that follows from the instance
// and the capability alone, so that no change of an instance moves it and the instances
// of a workspace do not all run in one minute. A background capability runs once in each
// slot in which its instance is enabled and has been granted what it asks for: as soon as
// the slot begins, or as soon as that is so. It has one due row exactly as long, which
// the write that changes that changes too.
//
// The execution of a slot follows from instance, capability and slot, and is stored in
// the write that moves the row on: two who find one slot due make one execution. A slot
// whose predecessor still runs is skipped: its execution is cancelled from the beginning,
// with {"reason": "skipped"}. After an outage the newest slot alone runs; those that were
// missed leave nothing. An execution whose timeout is over before its adapter could be
// started fails with EXTENSION_TIMEOUT, and the next slot runs.
//
// # Notifications
//
// A notification is told once: it is moved, in one write, from what is due into what its
// person reads. Whether the instance may still tell it is asked then; what it may not is
// withheld, and says so. Nothing leaves the host: a topic that others subscribe to could
// only be told at least once, and what people are told would be in the hands of whoever
// subscribes.
//
// # Whose it is
//
// A background execution is its installer's: the person who answers for the instance
// sees it, his right to use is checked when it runs, it takes the Connections that he may
// take, and what it schedules is told to him. When he may not use the instance any more,
// its slots fail with the code that a call of his would. Another takes over by installing
// the plugin himself. There is no principal of the instance's own: it would have rights
// that nobody was given, and what it is told nobody would read.
package background

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"time"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/capability"
	"github.com/pxhost/pxhost/shared/capability/host"
)

// Slots are the due rows of an instance as it is.
func Slots(in capability.Installed, now time.Time) (out []host.Slot) {
	if !in.Instance.Enabled || in.Instance.Removed {
		return nil
	}
	for _, c := range in.Manifest.Capabilities {
		b := in.Runtimes[c.ID].Background
		if _, granted := in.Instance.Grants(c); b == nil || !granted {
			continue
		}
		s := host.Slot{Workspace: in.Instance.Workspace, InstanceID: in.Instance.InstanceID, CapabilityID: c.ID, Minutes: b.IntervalMinutes}
		s.At = newest(s, now)
		// The one before may be at work still, whatever has changed since it began.
		s.Last = ExecutionID(s, s.At.Add(-interval(s)))
		out = append(out, s)
	}
	return out
}

// A Timetable is when a capability of an instance is called: in the newest slot that has
// begun, in the one before it, and next.
type Timetable struct {
	CapabilityID string
	Minutes      int
	On           bool // that it has a due row
	Begun        [2]Slot
	Next         time.Time
}

// A Slot is one of its slots, which may have no execution: there is none of a time before
// the plugin was installed or enabled, nor of one that was missed.
type Slot struct {
	At          time.Time
	ExecutionID string
}

// Timetables are those of an instance, by capability.
func Timetables(in capability.Installed, now time.Time) (out []Timetable) {
	on := Slots(in, now)
	for _, c := range in.Manifest.Capabilities {
		b := in.Runtimes[c.ID].Background
		if b == nil {
			continue
		}
		s := host.Slot{InstanceID: in.Instance.InstanceID, CapabilityID: c.ID, Minutes: b.IntervalMinutes}
		at := newest(s, now)
		before := at.Add(-interval(s))
		out = append(out, Timetable{c.ID, b.IntervalMinutes, slices.ContainsFunc(on, func(o host.Slot) bool { return o.CapabilityID == c.ID }),
			[2]Slot{{at, ExecutionID(s, at)}, {before, ExecutionID(s, before)}}, following(s, now)})
	}
	return out
}

// Dropped are the due rows that an instance may have had and has no more.
func Dropped(before, after capability.Installed) (out []host.Slot) {
	stay := Slots(after, time.Unix(0, 0))
	for _, c := range before.Manifest.Capabilities {
		if before.Runtimes[c.ID].Background == nil || slices.ContainsFunc(stay, func(s host.Slot) bool { return s.CapabilityID == c.ID }) {
			continue
		}
		out = append(out, host.Slot{Workspace: before.Instance.Workspace, InstanceID: before.Instance.InstanceID, CapabilityID: c.ID})
	}
	return out
}

// ExecutionID is the execution of a slot.
func ExecutionID(s host.Slot, at time.Time) string {
	return canon.Ref("exec_", "slot", s.InstanceID, s.CapabilityID, at.UTC().Format(time.RFC3339))
}

func interval(s host.Slot) time.Duration { return time.Duration(s.Minutes) * time.Minute }

// newest is the last slot that is not after a time.
func newest(s host.Slot, now time.Time) time.Time {
	sum := sha256.Sum256([]byte(s.InstanceID + "\x00" + s.CapabilityID))
	offset := time.Duration(binary.BigEndian.Uint64(sum[:])%uint64(s.Minutes)) * time.Minute
	return now.UTC().Add(-offset).Truncate(interval(s)).Add(offset)
}

// following is the first slot after a time.
func following(s host.Slot, now time.Time) time.Time { return newest(s, now).Add(interval(s)) }
