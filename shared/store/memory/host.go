package memory

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/pxhost/pxhost/shared/capability"
	"github.com/pxhost/pxhost/shared/capability/host"
)

var _ host.Store = (*Store)(nil)

// hosted is what the capability host keeps.
type hosted struct {
	generations   map[string]int64
	members       map[memberKey]capability.Member
	instances     map[string]capability.Instance
	connections   map[string]host.Connection
	executions    map[string]host.Execution
	namespaces    map[host.Namespace]int64
	items         map[host.Namespace]map[string]host.Item
	notifications map[string]host.Notification
	slots         map[slotKey]host.Slot
	// graves are the last versions of rows that are gone and may come again: who has read
	// one before must not write the next.
	graves map[any]int64
}

type (
	memberKey struct{ workspace, actor string }
	slotKey   struct{ instanceID, capabilityID string }
	// The keys of graves, besides slotKey.
	connectionGrave   string
	notificationGrave string
)

func newHosted() hosted {
	return hosted{
		generations: map[string]int64{}, members: map[memberKey]capability.Member{}, instances: map[string]capability.Instance{}, connections: map[string]host.Connection{},
		executions: map[string]host.Execution{}, namespaces: map[host.Namespace]int64{}, items: map[host.Namespace]map[string]host.Item{},
		notifications: map[string]host.Notification{}, slots: map[slotKey]host.Slot{},
		graves: map[any]int64{},
	}
}

// Generation implements host.Store.
func (s *Store) Generation(ctx context.Context, workspace string) (int64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.host.generations[workspace], nil
}

// Workspace implements host.Store.
func (s *Store) Workspace(ctx context.Context, workspace string) (host.Read, error) {
	if err := ctx.Err(); err != nil {
		return host.Read{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	out := host.Read{Generation: s.host.generations[workspace]}
	for _, i := range s.host.instances {
		if i.Workspace == workspace && !i.Removed {
			out.Instances = append(out.Instances, i)
		}
	}
	for _, c := range s.host.connections {
		if c.Workspace == workspace {
			c.Sealed = nil
			out.Connections = append(out.Connections, c)
		}
	}
	slices.SortFunc(out.Instances, func(a, b capability.Instance) int { return cmp.Compare(a.InstanceID, b.InstanceID) })
	slices.SortFunc(out.Connections, func(a, b host.Connection) int { return cmp.Compare(a.ConnectionID, b.ConnectionID) })
	return out, nil
}

// Member implements host.Store.
func (s *Store) Member(ctx context.Context, workspace, actor string) (capability.Member, error) {
	if err := ctx.Err(); err != nil {
		return capability.Member{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.host.members[memberKey{workspace, actor}], nil
}

// one reads a row.
func one[K comparable, V any](ctx context.Context, s *Store, of func() map[K]V, key K) (V, error) {
	var none V
	if err := ctx.Err(); err != nil {
		return none, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	v, ok := of()[key]
	if !ok {
		return none, host.ErrNotFound
	}
	return v, nil
}

// Instance implements host.Store.
func (s *Store) Instance(ctx context.Context, instanceID string) (capability.Instance, error) {
	return one(ctx, s, func() map[string]capability.Instance { return s.host.instances }, instanceID)
}

// Connection implements host.Store.
func (s *Store) Connection(ctx context.Context, connectionID string) (host.Connection, error) {
	return one(ctx, s, func() map[string]host.Connection { return s.host.connections }, connectionID)
}

// Execution implements host.Store.
func (s *Store) Execution(ctx context.Context, executionID string) (host.Execution, error) {
	return one(ctx, s, func() map[string]host.Execution { return s.host.executions }, executionID)
}

// NoteConnection implements host.Store.
func (s *Store) NoteConnection(ctx context.Context, c host.Connection) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if old, ok := s.host.connections[c.ConnectionID]; !ok || old.Version != c.Version {
		return host.ErrMoved
	}
	c.Version++
	s.host.connections[c.ConnectionID] = c
	return nil
}

// Change implements host.Store.
func (s *Store) Change(ctx context.Context, c host.Change) (int64, error) {
	if err := cmp.Or(ctx.Err(), c.Check()); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	h := &s.host
	switch {
	case c.Instance != nil:
		i := *c.Instance
		if old := h.instances[i.InstanceID]; old.Version != i.Version || old.Removed {
			return 0, host.ErrMoved
		}
		if i.Version == 0 {
			installed := 0
			for _, other := range h.instances {
				if other.Workspace == c.Workspace && !other.Removed {
					installed++
				}
			}
			if installed >= host.MaxInstances {
				return 0, host.ErrFull
			}
		}
		i.Version++
		h.instances[i.InstanceID] = i
	case c.Connection != nil:
		k := *c.Connection
		if h.connections[k.ConnectionID].Version != k.Version {
			return 0, host.ErrMoved
		}
		k.Version = max(k.Version, h.graves[connectionGrave(k.ConnectionID)]) + 1
		h.connections[k.ConnectionID] = k
	case c.Forget != nil:
		if k, ok := h.connections[c.Forget.ConnectionID]; !ok || k.Version != c.Forget.Version {
			return 0, host.ErrMoved
		}
		delete(h.connections, c.Forget.ConnectionID)
		h.graves[connectionGrave(c.Forget.ConnectionID)] = c.Forget.Version + 1
	case c.Member != nil:
		key := memberKey{c.Workspace, c.Member.Actor}
		if h.members[key].Version != c.Member.Version {
			return 0, host.ErrMoved
		}
		m := c.Member.Member
		m.Version++
		h.members[key] = m
	}
	for _, slot := range c.Drop {
		key := slotKey{slot.InstanceID, slot.CapabilityID}
		if old, there := h.slots[key]; there {
			h.graves[key] = old.Version + 1
			delete(h.slots, key)
		}
	}
	for _, slot := range c.Slots {
		key := slotKey{slot.InstanceID, slot.CapabilityID}
		slot.Version = max(h.slots[key].Version, h.graves[key]) + 1
		h.slots[key] = slot
	}
	h.generations[c.Workspace]++
	return h.generations[c.Workspace], nil
}

// CreateExecution implements host.Store.
func (s *Store) CreateExecution(ctx context.Context, e host.Execution) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.host.executions[e.ExecutionID]; ok {
		return host.ErrExists
	}
	e.Version = 1
	s.host.executions[e.ExecutionID] = e
	return nil
}

// Apply implements host.Store.
func (s *Store) Apply(ctx context.Context, step host.Step) error {
	if err := cmp.Or(ctx.Err(), step.Check()); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	h := &s.host
	e := step.Execution
	if old, ok := h.executions[e.ExecutionID]; !ok || old.Version != e.Version || old.State.Terminal() {
		return host.ErrMoved
	}
	if step.Instance != 0 && h.instances[e.InstanceID].Version != step.Instance {
		return host.ErrInstanceMoved
	}
	at := func(x host.Expectation) host.Namespace {
		return host.Namespace{Workspace: e.Workspace, InstanceID: e.InstanceID, Name: x.Namespace}
	}
	expected := slices.Concat(step.Unchanged, step.Deletes)
	for _, p := range step.Puts {
		expected = append(expected, p.Expectation)
	}
	for _, x := range expected {
		now := h.namespaces[at(x)]
		if x.Key != "" {
			now = h.items[at(x)][x.Key].Version
		}
		if now != x.Version || x.Written != 0 && h.items[at(x)][x.Key].Written != x.Written {
			return &host.ConflictError{Namespace: x.Namespace, Key: x.Key}
		}
	}
	changed := map[host.Namespace]bool{}
	for n, more := range step.Grows() {
		if n := at(host.Expectation{Namespace: n}); more > 0 && len(h.items[n])+more > host.MaxItems {
			return host.ErrFull
		}
	}
	for _, p := range step.Puts {
		n := at(p.Expectation)
		if h.items[n] == nil {
			h.items[n] = map[string]host.Item{}
		}
		h.items[n][p.Key] = host.Item{Key: p.Key, Value: p.Value, Version: p.Version + 1, UpdatedAt: s.now(), Written: h.namespaces[n] + 1}
		changed[n] = true
	}
	for _, x := range step.Deletes {
		delete(h.items[at(x)], x.Key)
		changed[at(x)] = true
	}
	for n := range changed {
		h.namespaces[n]++
	}
	for _, n := range step.Schedule {
		if _, there := h.notifications[n.NotificationID]; !there {
			n.Version = h.graves[notificationGrave(n.NotificationID)] + 1
			h.notifications[n.NotificationID] = n
		}
	}
	for _, id := range step.Withdraw {
		if old, there := h.notifications[id]; there && old.DeliveredAt.IsZero() {
			h.graves[notificationGrave(id)] = old.Version + 1
			delete(h.notifications, id)
		}
	}
	e.Version++
	h.executions[e.ExecutionID] = e
	return nil
}

// DueExecutions implements host.Store.
func (s *Store) DueExecutions(ctx context.Context, now time.Time, limit int) ([]string, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []host.Execution
	for _, e := range s.host.executions {
		if !e.DueAt.IsZero() && !e.DueAt.After(now) {
			found = append(found, e)
		}
	}
	slices.SortFunc(found, func(a, b host.Execution) int {
		return cmp.Or(a.DueAt.Compare(b.DueAt), cmp.Compare(a.ExecutionID, b.ExecutionID))
	})
	var out []string
	for _, e := range found[:min(limit, len(found))] {
		out = append(out, e.ExecutionID)
	}
	return out, nil
}

// Items implements host.Store.
func (s *Store) Items(ctx context.Context, n host.Namespace) ([]host.Item, int64, error) {
	if err := ctx.Err(); err != nil {
		return nil, 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []host.Item
	for _, item := range s.host.items[n] {
		out = append(out, item)
	}
	slices.SortFunc(out, func(a, b host.Item) int { return cmp.Compare(a.Key, b.Key) })
	return out, s.host.namespaces[n], nil
}

// Some implements host.Store.
func (s *Store) Some(ctx context.Context, n host.Namespace, keys []string) ([]host.Item, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []host.Item
	for i, key := range keys {
		if item, ok := s.host.items[n][key]; ok && !slices.Contains(keys[:i], key) {
			out = append(out, item)
		}
	}
	return out, nil
}

// Notifications implements host.Store.
func (s *Store) Notifications(ctx context.Context, workspace, actor string, limit int) ([]host.Notification, error) {
	return s.notified(ctx, limit, func(n host.Notification) bool {
		return n.Workspace == workspace && n.Actor == actor && !n.DeliveredAt.IsZero()
	}, func(a, b host.Notification) int {
		return cmp.Or(b.DeliveredAt.Compare(a.DeliveredAt), cmp.Compare(b.NotificationID, a.NotificationID))
	})
}

// DueNotifications implements host.Store.
func (s *Store) DueNotifications(ctx context.Context, now time.Time, limit int) ([]host.Notification, error) {
	return s.notified(ctx, limit, func(n host.Notification) bool { return n.DeliveredAt.IsZero() && !n.At.After(now) }, func(a, b host.Notification) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.NotificationID, b.NotificationID))
	})
}

func (s *Store) notified(ctx context.Context, limit int, fits func(host.Notification) bool, order func(a, b host.Notification) int) ([]host.Notification, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []host.Notification
	for _, n := range s.host.notifications {
		if fits(n) {
			out = append(out, n)
		}
	}
	slices.SortFunc(out, order)
	return out[:min(limit, len(out))], nil
}

// Deliver implements host.Store.
func (s *Store) Deliver(ctx context.Context, n host.Notification) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if n.DeliveredAt.IsZero() && n.Version > 0 {
		return errors.New("host: a delivery without its time")
	}
	if old, ok := s.host.notifications[n.NotificationID]; !ok || old.Version != n.Version || !old.DeliveredAt.IsZero() {
		return host.ErrMoved
	}
	n.Version++
	s.host.notifications[n.NotificationID] = n
	return nil
}

// DueSlots implements host.Store.
func (s *Store) DueSlots(ctx context.Context, now time.Time, limit int) ([]host.Slot, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []host.Slot
	for _, slot := range s.host.slots {
		if !slot.At.After(now) {
			out = append(out, slot)
		}
	}
	slices.SortFunc(out, func(a, b host.Slot) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.InstanceID+a.CapabilityID, b.InstanceID+b.CapabilityID))
	})
	return out[:min(limit, len(out))], nil
}

// StartSlot implements host.Store.
func (s *Store) StartSlot(ctx context.Context, next host.Slot, e *host.Execution) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := slotKey{next.InstanceID, next.CapabilityID}
	if old, ok := s.host.slots[key]; !ok || old.Version != next.Version {
		return host.ErrMoved
	}
	if e != nil {
		if _, there := s.host.executions[e.ExecutionID]; there {
			return host.ErrExists
		}
		stored := *e
		stored.Version = 1
		s.host.executions[e.ExecutionID] = stored
	}
	next.Version++
	s.host.slots[key] = next
	return nil
}
