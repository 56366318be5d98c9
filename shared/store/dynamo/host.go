package dynamo

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/go-json-experiment/json"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/capability"
	"github.com/pxhost/pxhost/shared/capability/host"
)

var _ host.Store = (*Store)(nil)

// # How the capability host is stored
//
// Every row has a version that only grows, and what it holds as JSON in the attribute
// row. A row that may come again after it is gone stays as a grave, a version without a
// row: so every condition here is one on a version that only grows, as transact asks,
// and who has read what was there before can write nothing to what is there now. Items
// of plugins are the exception; they are always written together with the version of
// their namespace.
//
// What is listed by workspace is stored twice in one transaction: by its ID, which is
// how it is looked up, and in the partition of its workspace, which is how it is listed.
//
// A reading of many rows is no snapshot. It stands between two readings of the one row
// that every write of them moves, the generation or the namespace; and because a reading
// may come between the parts of a transaction that is just being written, that row says
// what its last write has changed, and the reading is good only if it has seen that.

const (
	rowAttribute = "row"
	generations  = "generation"
	spaceRow     = "namespace"
	itemPrefix   = "item#"
	slotPrefix   = "slot#"
	instancesOf  = "instance#"
	linksOf      = "connection#"
	executionsOf = "execution#"
	toldLater    = "notification#"
)

func hostKey(pk, sk string) attributes { return attributes{"pk": str(pk), "sk": str(sk)} }

func workspaceKey(workspace, sk string) attributes { return hostKey("workspace#"+workspace, sk) }

func instanceKey(id string) attributes { return hostKey(instancesOf+id, "instance") }

func slotRow(slot host.Slot) attributes {
	return hostKey(instancesOf+slot.InstanceID, slotPrefix+slot.CapabilityID)
}

func connectionKey(id string) attributes { return hostKey(linksOf+id, "connection") }

func memberKey(workspace, actor string) attributes { return hostKey("members#"+workspace, actor) }

func executionKey(id string) attributes { return hostKey(executionsOf+id, "execution") }

func notificationKey(id string) attributes { return hostKey(toldLater+id, "notification") }

func told(workspace, actor string) string { return "told#" + workspace + "#" + actor }

// partitionOf is the partition of a namespace. Only its name may hold a '#', so that no two
// share one.
func partitionOf(n host.Namespace) string {
	return "storage#" + n.Workspace + "#" + n.InstanceID + "#" + n.Name
}

// hosted adds a row to its key.
func hosted(key attributes, v any, version int64) (attributes, error) {
	text, err := canon.Encode(v)
	if err != nil {
		return nil, err
	}
	item := maps.Clone(key)
	item[rowAttribute], item["version"] = str(string(text)), num(version)
	return item, nil
}

// grave is what stays of a row.
func grave(key attributes, version int64) attributes {
	item := maps.Clone(key)
	item["version"] = num(version)
	return item
}

// dueIn makes a row due.
func dueIn(item attributes, kind, id string, at time.Time) attributes {
	if !at.IsZero() {
		item["dueShard"], item["dueAt"] = str(kind+strings.TrimPrefix(dueShard(id), "run")), num(at.UnixNano())
	}
	return item
}

// dead reports that there is no row: nothing, or a grave.
func dead(r *row) bool { return r == nil || r.item[rowAttribute] == nil }

// versionOf is a row's version, 0 where nothing ever was.
func versionOf(r *row) int64 {
	if r == nil {
		return 0
	}
	return r.num("version")
}

// content reads what a row holds.
func content[T any](r *row, what string) (out T, err error) {
	if err := json.Unmarshal([]byte(r.str(rowAttribute)), &out, json.RejectUnknownMembers(true)); err != nil {
		return out, fmt.Errorf("dynamo: %s: stored row: %w", what, err)
	}
	return out, r.err
}

// ---- reading many ----

// touched is what the last write of a workspace or a namespace has changed: the version
// of each row by its sort key, 0 of one that it removed.
type touched map[string]int64

func (t touched) attribute() types.AttributeValue { return encoded(t) }

// shows reports whether rows were read after the last write.
func (t touched) shows(rows map[string]*row) bool {
	for sk, version := range t {
		if r := rows[sk]; version == 0 && r != nil || version != 0 && (r == nil || r.num("version") < version) {
			return false
		}
	}
	return true
}

// A mark is the row that every write of some others moves.
type mark struct {
	version int64
	count   int64 // of what is limited
	last    touched
}

func (s *Store) mark(ctx context.Context, op string, key attributes) (mark, error) {
	r, err := s.get(ctx, op, s.tables.Host, key)
	if err != nil {
		return mark{}, err
	}
	return markOf(r)
}

func markOf(r *row) (m mark, err error) {
	if r == nil {
		return mark{}, nil
	}
	m.version, m.count = r.num("version"), r.num("count")
	if err := json.Unmarshal([]byte(r.str("last")), &m.last); err != nil {
		return m, fmt.Errorf("dynamo: stored mark: %w", err)
	}
	return m, r.err
}

// put is the mark's next row.
func (m mark) put(key attributes, more int64, last touched) attributes {
	item := grave(key, m.version+1)
	item["count"], item["last"] = num(m.count+more), last.attribute()
	return item
}

// partition reads all rows of a partition, by their sort keys, in order.
func (s *Store) partition(ctx context.Context, op, pk string) (rows map[string]*row, order []string, err error) {
	rows = map[string]*row{}
	in := dynamodb.QueryInput{TableName: &s.tables.Host, ConsistentRead: aws.Bool(true),
		KeyConditionExpression: aws.String("pk = :pk"), ExpressionAttributeValues: attributes{":pk": str(pk)}}
	for {
		var out *dynamodb.QueryOutput
		err := repeat(ctx, s, op, func(ctx context.Context) (err error) {
			out, err = s.client.Query(ctx, &in, noRetries)
			return err
		})
		if err != nil {
			return nil, nil, err
		}
		for _, item := range out.Items {
			r := &row{item: item}
			sk := r.str("sk")
			if r.err != nil {
				return nil, nil, r.err
			}
			rows[sk], order = r, append(order, sk)
		}
		if in.ExclusiveStartKey = out.LastEvaluatedKey; len(in.ExclusiveStartKey) == 0 {
			return rows, order, nil
		}
	}
}

// settled reads a partition as it was at one version of its mark.
func (s *Store) settled(ctx context.Context, op, pk, marked string) (rows map[string]*row, order []string, version int64, err error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	before, err := s.mark(ctx, op, hostKey(pk, marked))
	if err != nil || before.version == 0 {
		return nil, nil, 0, err
	}
	for attempt := 0; ; attempt++ {
		if rows, order, err = s.partition(ctx, op, pk); err != nil {
			return nil, nil, 0, err
		}
		after, err := s.mark(ctx, op, hostKey(pk, marked))
		if err != nil {
			return nil, nil, 0, err
		}
		if after.version == before.version && after.last.shows(rows) {
			return rows, order, after.version, nil
		}
		if before = after; !pause(ctx, attempt) {
			return nil, nil, 0, fmt.Errorf("dynamo: %s: it changes all the time: %w", op, ctx.Err())
		}
	}
}

// some reads rows by key, consistently.
func (s *Store) some(ctx context.Context, op string, keys []attributes) (map[string]*row, error) {
	found := map[string]*row{}
	for part := range slices.Chunk(keys, 100) {
		got, err := s.batchGet(ctx, op, map[string]types.KeysAndAttributes{s.tables.Host: {Keys: part, ConsistentRead: aws.Bool(true)}})
		if err != nil {
			return nil, err
		}
		for _, item := range got[s.tables.Host] {
			r := &row{item: item}
			if found[id(item)] = r; r.err != nil {
				return nil, r.err
			}
		}
	}
	return found, nil
}

// id is a row's key as a text.
func id(key attributes) string {
	r := row{item: key}
	return r.str("pk") + "\x00" + r.str("sk")
}

// ---- writing many ----

// A writing is one transaction under construction.
type writing struct {
	table string
	items []types.TransactWriteItem
}

// add adds a part and returns its position.
func (w *writing) add(part types.TransactWriteItem) int {
	w.items = append(w.items, part)
	return len(w.items) - 1
}

func (w *writing) put(c condition, item attributes) int { return w.add(c.put(w.table, item)) }

func (w *writing) check(c condition, key attributes) int { return w.add(c.check(w.table, key)) }

func (w *writing) remove(c condition, key attributes) int {
	return w.add(types.TransactWriteItem{Delete: &types.Delete{TableName: &w.table, Key: key,
		ConditionExpression: &c.text, ExpressionAttributeNames: c.names, ExpressionAttributeValues: c.values}})
}

// beside puts and without removes a row that has no condition of its own.
func (w *writing) beside(item attributes) {
	w.add(types.TransactWriteItem{Put: &types.Put{TableName: &w.table, Item: item}})
}

func (w *writing) without(key attributes) {
	w.add(types.TransactWriteItem{Delete: &types.Delete{TableName: &w.table, Key: key}})
}

// perform performs a writing. Its token is its own: of two processes that write the same
// at once, one is told that it did.
func (s *Store) perform(ctx context.Context, op string, w writing) (result, error) {
	return s.transact(ctx, op, w.items, op, rand.Text())
}

// spelled is attributes as one text, the same for the same.
func spelled(a attributes) string {
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(a)) {
		switch v := a[name].(type) {
		case *types.AttributeValueMemberS:
			fmt.Fprintf(&out, "%s=%q ", name, v.Value)
		case *types.AttributeValueMemberN:
			fmt.Fprintf(&out, "%s=%s ", name, v.Value)
		default:
			panic("dynamo: an attribute that rows of the host do not have")
		}
	}
	return out.String()
}

// alive is the condition that a row is the one that was read and carries no such mark.
func alive(version int64, never string) condition {
	c := at(version)
	if version != 0 {
		c.text += " AND attribute_not_exists(#never)"
		c.names = map[string]string{"#version": "version", "#never": never}
	}
	return c
}

// again calls one until it says that it is done: it is not when a row that it has read
// for its write had moved by then.
func (s *Store) again(ctx context.Context, op string, one func(context.Context) (done bool, err error)) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	for attempt := 0; ; attempt++ {
		if done, err := one(ctx); done || err != nil {
			return err
		}
		if !pause(ctx, attempt) {
			return fmt.Errorf("dynamo: %s: not written: %w", op, ctx.Err())
		}
	}
}

// ---- what is installed ----

// Generation implements host.Store.
func (s *Store) Generation(ctx context.Context, workspace string) (int64, error) {
	r, err := s.get(ctx, "read generation", s.tables.Host, workspaceKey(workspace, generations))
	if err != nil || r == nil {
		return 0, err
	}
	return r.num("version"), r.err
}

// Workspace implements host.Store.
func (s *Store) Workspace(ctx context.Context, workspace string) (host.Read, error) {
	var out host.Read
	rows, order, generation, err := s.settled(ctx, "read workspace", "workspace#"+workspace, generations)
	if err != nil {
		return out, err
	}
	out.Generation = generation
	for _, sk := range order {
		switch {
		case strings.HasPrefix(sk, instancesOf):
			i, err := instanceOf(rows[sk])
			if err != nil {
				return host.Read{}, err
			}
			out.Instances = append(out.Instances, i)
		case strings.HasPrefix(sk, linksOf):
			c, err := connectionOf(rows[sk])
			if err != nil {
				return host.Read{}, err
			}
			out.Connections = append(out.Connections, c)
		}
	}
	return out, nil
}

func instanceOf(r *row) (capability.Instance, error) {
	i, err := content[capability.Instance](r, "instance")
	i.Version = r.num("version")
	return i, errors.Join(err, r.err)
}

func connectionOf(r *row) (host.Connection, error) {
	c, err := content[host.Connection](r, "connection")
	c.Version = r.num("version")
	return c, errors.Join(err, r.err)
}

// Member implements host.Store.
func (s *Store) Member(ctx context.Context, workspace, actor string) (capability.Member, error) {
	r, err := s.get(ctx, "read member", s.tables.Host, memberKey(workspace, actor))
	if err != nil || r == nil {
		return capability.Member{}, err
	}
	rights, err := content[[]capability.Right](r, "member")
	return capability.Member{Rights: rights, Version: r.num("version")}, errors.Join(err, r.err)
}

// Instance implements host.Store.
func (s *Store) Instance(ctx context.Context, instanceID string) (capability.Instance, error) {
	r, err := s.get(ctx, "read instance", s.tables.Host, instanceKey(instanceID))
	switch {
	case err != nil:
		return capability.Instance{}, err
	case dead(r):
		return capability.Instance{}, host.ErrNotFound
	}
	return instanceOf(r)
}

// Connection implements host.Store.
func (s *Store) Connection(ctx context.Context, connectionID string) (host.Connection, error) {
	r, err := s.get(ctx, "read connection", s.tables.Host, connectionKey(connectionID))
	switch {
	case err != nil:
		return host.Connection{}, err
	case dead(r):
		return host.Connection{}, host.ErrNotFound
	}
	return connectionOf(r)
}

// connect adds a Connection's two rows: the one by its ID, whose condition it has, and
// the one of its workspace, which has no secret.
func (w *writing) connect(c host.Connection, read int64) (position int, err error) {
	item, err := hosted(connectionKey(c.ConnectionID), c, read+1)
	if err != nil {
		return 0, err
	}
	c.Sealed = nil
	listed, err := hosted(workspaceKey(c.Workspace, linksOf+c.ConnectionID), c, read+1)
	if err != nil {
		return 0, err
	}
	position = w.put(at(read), item)
	w.beside(listed)
	return position, nil
}

// NoteConnection implements host.Store.
func (s *Store) NoteConnection(ctx context.Context, c host.Connection) error {
	if c.Version < 1 {
		return host.ErrMoved
	}
	w := writing{table: s.tables.Host}
	if _, err := w.connect(c, c.Version); err != nil {
		return err
	}
	r, err := s.perform(ctx, "note connection", w)
	switch {
	case err != nil || r.failed == nil:
		return err
	case r.doubtful && s.stands(ctx, w.items[0].Put.Item):
		return nil
	}
	return host.ErrMoved
}

// stands reports whether a row is stored just so: of two writers of one version only one
// has written it, so that it was written by who asks, or by another in the same words.
func (s *Store) stands(ctx context.Context, item attributes) bool {
	r, err := s.get(ctx, "read a row back", s.tables.Host, attributes{"pk": item["pk"], "sk": item["sk"]})
	return err == nil && r != nil && spelled(r.item) == spelled(item)
}

// Change implements host.Store.
func (s *Store) Change(ctx context.Context, c host.Change) (generation int64, err error) {
	if err := c.Check(); err != nil {
		return 0, err
	}
	err = s.again(ctx, "change workspace", func(ctx context.Context) (done bool, err error) {
		generation, err = s.change(ctx, c)
		return generation != 0, err
	})
	return generation, err
}

// change tries a change at the generation that there is now, and returns 0 when that had
// moved.
func (s *Store) change(ctx context.Context, c host.Change) (int64, error) {
	key := workspaceKey(c.Workspace, generations)
	now, err := s.mark(ctx, "read generation", key)
	if err != nil {
		return 0, err
	}
	w := writing{table: s.tables.Host}
	more, last := int64(0), touched{}
	switch {
	case c.Instance != nil:
		if more, err = s.install(ctx, &w, *c.Instance, now, last); err != nil {
			return 0, err
		}
	case c.Connection != nil:
		read := c.Connection.Version
		if read == 0 { // after the grave, if there is one
			r, err := s.get(ctx, "read connection", s.tables.Host, connectionKey(c.Connection.ConnectionID))
			switch {
			case err != nil:
				return 0, err
			case !dead(r):
				return 0, host.ErrMoved
			}
			read = versionOf(r)
		}
		if _, err := w.connect(*c.Connection, read); err != nil {
			return 0, err
		}
		last[linksOf+c.Connection.ConnectionID] = read + 1
	case c.Forget != nil:
		if c.Forget.Version < 1 {
			return 0, host.ErrMoved
		}
		key := connectionKey(c.Forget.ConnectionID)
		is := at(c.Forget.Version)
		is.text, is.names = is.text+" AND attribute_exists(#row)", map[string]string{"#version": "version", "#row": rowAttribute}
		w.put(is, grave(key, c.Forget.Version+1))
		w.without(workspaceKey(c.Workspace, linksOf+c.Forget.ConnectionID))
		last[linksOf+c.Forget.ConnectionID] = 0
	case c.Member != nil:
		rights := c.Member.Rights
		if rights == nil {
			rights = []capability.Right{}
		}
		item, err := hosted(memberKey(c.Workspace, c.Member.Actor), rights, c.Member.Version+1)
		if err != nil {
			return 0, err
		}
		w.put(at(c.Member.Version), item)
	}
	if err := s.slots(ctx, &w, c); err != nil {
		return 0, err
	}
	w.put(at(now.version), now.put(key, more, last))
	r, err := s.perform(ctx, "change workspace", w)
	switch {
	case err != nil:
		return 0, err
	case r.failed == nil:
		return now.version + 1, nil
	case r.failed[0] && r.doubtful && s.stands(ctx, w.items[0].Put.Item):
		return s.Generation(ctx, c.Workspace)
	case r.failed[0]:
		return 0, host.ErrMoved
	}
	return 0, nil
}

// install adds an instance's rows, and tells by how many instances the workspace grows.
func (s *Store) install(ctx context.Context, w *writing, i capability.Instance, now mark, last touched) (more int64, err error) {
	item, err := hosted(instanceKey(i.InstanceID), i, i.Version+1)
	if err != nil {
		return 0, err
	}
	listed := workspaceKey(i.Workspace, instancesOf+i.InstanceID)
	switch {
	case i.Removed:
		item["removed"] = num(1)
		w.put(alive(i.Version, "removed"), item)
		w.without(listed)
		last[instancesOf+i.InstanceID] = 0
		return -1, nil
	case i.Version == 0:
		if now.count >= host.MaxInstances {
			if r, err := s.get(ctx, "read instance", s.tables.Host, instanceKey(i.InstanceID)); err != nil || r != nil {
				return 0, errors.Join(err, host.ErrMoved)
			}
			return 0, host.ErrFull
		}
		more = 1
	}
	w.put(alive(i.Version, "removed"), item)
	if listed, err = hosted(listed, i, i.Version+1); err != nil {
		return 0, err
	}
	w.beside(listed)
	last[instancesOf+i.InstanceID] = i.Version + 1
	return more, nil
}

// slots adds the slots of a change, by what is there now.
func (s *Store) slots(ctx context.Context, w *writing, c host.Change) error {
	var keys []attributes
	for _, slot := range c.Slots {
		keys = append(keys, slotRow(slot))
	}
	var drop []host.Slot
	for _, slot := range c.Drop {
		if !slices.ContainsFunc(c.Slots, func(other host.Slot) bool { return other.CapabilityID == slot.CapabilityID }) {
			keys, drop = append(keys, slotRow(slot)), append(drop, slot)
		}
	}
	found, err := s.some(ctx, "read slots", keys)
	if err != nil {
		return err
	}
	for _, slot := range c.Slots {
		read := versionOf(found[id(slotRow(slot))])
		item, err := slotItem(slot, read+1)
		if err != nil {
			return err
		}
		w.put(at(read), item)
	}
	for _, slot := range drop {
		if r := found[id(slotRow(slot))]; !dead(r) {
			w.put(at(versionOf(r)), grave(slotRow(slot), versionOf(r)+1))
		}
	}
	return nil
}

// ---- executions ----

// executionItem is the row of an execution. One that has ended is not due, and never
// changes.
func executionItem(e host.Execution, version int64) (attributes, error) {
	item, err := hosted(executionKey(e.ExecutionID), e, version)
	if err != nil {
		return nil, err
	}
	if e.State.Terminal() {
		item["ended"] = num(1)
	}
	return dueIn(item, "execution", e.ExecutionID, e.DueAt), nil
}

// CreateExecution implements host.Store.
func (s *Store) CreateExecution(ctx context.Context, e host.Execution) error {
	item, err := executionItem(e, 1)
	if err != nil {
		return err
	}
	err = s.create(ctx, "create execution", s.tables.Host, item)
	if errors.Is(err, errCondition) {
		return host.ErrExists // by an attempt of this call too: who is told reads it
	}
	return err
}

// Execution implements host.Store.
func (s *Store) Execution(ctx context.Context, executionID string) (host.Execution, error) {
	r, err := s.get(ctx, "read execution", s.tables.Host, executionKey(executionID))
	if err != nil {
		return host.Execution{}, err
	}
	if r == nil {
		return host.Execution{}, host.ErrNotFound
	}
	e, err := content[host.Execution](r, "execution")
	e.Version = r.num("version")
	return e, errors.Join(err, r.err)
}

// Apply implements host.Store. What changes no storage is one write; else the versions
// of the namespaces that change, and what is scheduled, are read before it.
func (s *Store) Apply(ctx context.Context, step host.Step) error {
	if err := step.Check(); err != nil {
		return err
	}
	if step.Execution.Version < 1 {
		return host.ErrMoved
	}
	if alone := step.Instance == 0 && len(step.Unchanged)+len(step.Puts)+len(step.Deletes)+len(step.Schedule)+len(step.Withdraw) == 0; alone {
		item, err := executionItem(step.Execution, step.Execution.Version+1)
		if err != nil {
			return err
		}
		return s.putHost(ctx, "replace execution", alive(step.Execution.Version, "ended"), item)
	}
	return s.again(ctx, "apply step", func(ctx context.Context) (bool, error) { return s.apply(ctx, step) })
}

// putHost stores a row on a condition, else ErrMoved.
func (s *Store) putHost(ctx context.Context, op string, c condition, item attributes) error {
	err := repeat(ctx, s, op, func(ctx context.Context) error {
		_, err := s.client.PutItem(ctx, &dynamodb.PutItemInput{TableName: &s.tables.Host, Item: item,
			ConditionExpression: &c.text, ExpressionAttributeNames: c.names, ExpressionAttributeValues: c.values}, noRetries)
		return err
	})
	if errors.Is(err, errCondition) {
		return host.ErrMoved
	}
	return err
}

// apply tries a step, and returns false when what it had read had moved.
func (s *Store) apply(ctx context.Context, step host.Step) (done bool, err error) {
	e := step.Execution
	space := func(name string) string {
		return partitionOf(host.Namespace{Workspace: e.Workspace, InstanceID: e.InstanceID, Name: name})
	}
	grows := step.Grows()
	var keys []attributes
	for name := range grows {
		keys = append(keys, hostKey(space(name), spaceRow))
	}
	for _, n := range step.Schedule {
		keys = append(keys, notificationKey(n.NotificationID))
	}
	for _, ref := range step.Withdraw {
		keys = append(keys, notificationKey(ref))
	}
	found, err := s.some(ctx, "read what a step changes", keys)
	if err != nil {
		return false, err
	}

	w := writing{table: s.tables.Host}
	item, err := executionItem(e, e.Version+1)
	if err != nil {
		return false, err
	}
	w.put(alive(e.Version, "ended"), item)
	instance := 0
	if step.Instance != 0 {
		instance = w.check(at(step.Instance), instanceKey(e.InstanceID))
	}
	bound := map[int]host.Expectation{} // by position, in the order in which they are told
	expected := map[string]int64{}
	last := map[string]touched{}
	for name := range grows {
		last[name] = touched{}
	}
	changed := map[[2]string]host.Expectation{}
	for _, x := range step.Deletes {
		changed[[2]string{x.Namespace, x.Key}] = x
	}
	for _, p := range step.Puts {
		changed[[2]string{p.Namespace, p.Key}] = p.Expectation
	}
	for _, x := range step.Unchanged {
		_, grown := grows[x.Namespace]
		place := [2]string{x.Namespace, x.Key}
		other, replaced := changed[place]
		switch {
		case x.Key == "" && grown:
			expected[x.Namespace] = x.Version
		case x.Key == "":
			bound[w.check(at(x.Version), hostKey(space(x.Namespace), spaceRow))] = x
		case replaced && (other.Version != x.Version || other.Written != 0 && x.Written != 0 && other.Written != x.Written):
			// Two versions at once: one of them is not what there is.
			return true, s.unless(ctx, e, &host.ConflictError{Namespace: x.Namespace, Key: x.Key})
		case replaced: // the change has the condition of both
			other.Written = max(other.Written, x.Written)
			changed[place] = other
		default:
			bound[w.check(asRead(x), hostKey(space(x.Namespace), itemPrefix+x.Key))] = x
		}
	}
	marks := map[string]mark{}
	for name := range grows {
		if marks[name], err = markOf(found[id(hostKey(space(name), spaceRow))]); err != nil {
			return false, err
		}
	}
	for _, x := range step.Deletes {
		key := hostKey(space(x.Namespace), itemPrefix+x.Key)
		if x.Version == 0 {
			bound[w.check(at(0), key)] = x
			continue
		}
		bound[w.remove(asRead(changed[[2]string{x.Namespace, x.Key}]), key)] = x
		last[x.Namespace][itemPrefix+x.Key] = 0
	}
	for _, p := range step.Puts {
		item := hostKey(space(p.Namespace), itemPrefix+p.Key)
		item["value"], item["version"] = str(string(p.Value)), num(p.Version+1)
		setTime(item, "updatedAt", s.now())
		// The namespace is written at its version in the same write, so this is the next.
		written, held := expected[p.Namespace]
		if !held {
			written = marks[p.Namespace].version
		}
		item["written"] = num(written + 1)
		bound[w.put(asRead(changed[[2]string{p.Namespace, p.Key}]), item)] = p.Expectation
		last[p.Namespace][itemPrefix+p.Key] = p.Version + 1
	}
	for _, name := range slices.Sorted(maps.Keys(grows)) {
		key, now := hostKey(space(name), spaceRow), marks[name]
		is := at(now.version)
		version, held := expected[name]
		if held {
			is = at(version)
			bound[len(w.items)] = host.Expectation{Namespace: name}
		}
		if more := int64(grows[name]); more > 0 && now.count+more > host.MaxItems && (!held || version == now.version) {
			return true, s.unless(ctx, e, host.ErrFull)
		}
		w.put(is, now.put(key, int64(grows[name]), last[name]))
	}
	for _, n := range step.Schedule {
		r := found[id(notificationKey(n.NotificationID))]
		if !dead(r) || r != nil && r.item["told"] != nil {
			continue // it is there, or was
		}
		item, err := notificationItem(n, versionOf(r)+1)
		if err != nil {
			return false, err
		}
		w.put(at(versionOf(r)), item)
	}
	for _, ref := range step.Withdraw {
		if r := found[id(notificationKey(ref))]; !dead(r) {
			w.put(at(versionOf(r)), grave(notificationKey(ref), versionOf(r)+1))
		}
	}

	r, err := s.perform(ctx, "apply step", w)
	switch {
	case err != nil || r.failed == nil:
		return true, err
	case r.failed[0]:
		return true, host.ErrMoved
	case instance > 0 && r.failed[instance]:
		return true, host.ErrInstanceMoved
	}
	for _, position := range slices.Sorted(maps.Keys(bound)) {
		if r.failed[position] {
			return true, &host.ConflictError{Namespace: bound[position].Namespace, Key: bound[position].Key}
		}
	}
	return false, nil
}

// asRead is the condition that an item is the one that was read.
func asRead(x host.Expectation) condition {
	c := at(x.Version)
	if x.Written != 0 {
		c.text += " AND #written = :written"
		c.names = map[string]string{"#version": "version", "#written": "written"}
		c.values = attributes{":version": num(x.Version), ":written": num(x.Written)}
	}
	return c
}

// unless returns why a step cannot be applied, unless its execution has moved: then it
// may have been, and who reads sees it.
func (s *Store) unless(ctx context.Context, e host.Execution, reason error) error {
	now, err := s.Execution(ctx, e.ExecutionID)
	switch {
	case errors.Is(err, host.ErrNotFound) || err == nil && (now.Version != e.Version || now.State.Terminal()):
		return host.ErrMoved
	case err != nil:
		return err
	}
	return reason
}

// hostDue returns the keys of rows that are due of a kind.
func (s *Store) hostDue(ctx context.Context, kind string, now time.Time, limit int) ([]attributes, error) {
	return s.dueKeys(ctx, s.tables.Host, kind, now, limit)
}

// DueExecutions implements host.Store.
func (s *Store) DueExecutions(ctx context.Context, now time.Time, limit int) ([]string, error) {
	keys, err := s.hostDue(ctx, "execution", now, limit)
	var out []string
	for _, key := range keys {
		r := row{item: key}
		if out = append(out, strings.TrimPrefix(r.str("pk"), executionsOf)); r.err != nil {
			return nil, r.err
		}
	}
	return out, err
}

// ---- what plugins keep ----

func itemOf(r *row) (host.Item, error) {
	i := host.Item{Key: strings.TrimPrefix(r.str("sk"), itemPrefix), Value: canon.Raw(r.str("value")), Version: r.num("version"), UpdatedAt: r.time("updatedAt"), Written: r.num("written")}
	return i, r.err
}

// Items implements host.Store.
func (s *Store) Items(ctx context.Context, n host.Namespace) (items []host.Item, version int64, err error) {
	rows, order, version, err := s.settled(ctx, "read namespace", partitionOf(n), spaceRow)
	if err != nil {
		return nil, 0, err
	}
	for _, sk := range order {
		if sk == spaceRow {
			continue
		}
		i, err := itemOf(rows[sk])
		if err != nil {
			return nil, 0, err
		}
		items = append(items, i)
	}
	return items, version, nil
}

// Some implements host.Store.
func (s *Store) Some(ctx context.Context, n host.Namespace, keys []string) ([]host.Item, error) {
	var want []attributes
	for i, key := range keys {
		if !slices.Contains(keys[:i], key) {
			want = append(want, hostKey(partitionOf(n), itemPrefix+key))
		}
	}
	found, err := s.some(ctx, "read items", want)
	if err != nil {
		return nil, err
	}
	var out []host.Item
	for _, key := range want {
		if r := found[id(key)]; r != nil {
			i, err := itemOf(r)
			if err != nil {
				return nil, err
			}
			out = append(out, i)
		}
	}
	return out, nil
}

// ---- what people are told ----

func notificationItem(n host.Notification, version int64) (attributes, error) {
	item, err := hosted(notificationKey(n.NotificationID), n, version)
	if err != nil {
		return nil, err
	}
	return dueIn(item, "notification", n.NotificationID, n.At), nil
}

func notificationOf(r *row) (host.Notification, error) {
	n, err := content[host.Notification](r, "notification")
	n.Version = r.num("version")
	return n, errors.Join(err, r.err)
}

// Notifications implements host.Store.
func (s *Store) Notifications(ctx context.Context, workspace, actor string, limit int) ([]host.Notification, error) {
	var out []host.Notification
	in := dynamodb.QueryInput{TableName: &s.tables.Host, ConsistentRead: aws.Bool(true), ScanIndexForward: aws.Bool(false),
		KeyConditionExpression: aws.String("pk = :pk"), ExpressionAttributeValues: attributes{":pk": str(told(workspace, actor))}}
	for len(out) < limit {
		in.Limit = aws.Int32(int32(limit - len(out)))
		var page *dynamodb.QueryOutput
		err := repeat(ctx, s, "query notifications", func(ctx context.Context) (err error) {
			page, err = s.client.Query(ctx, &in, noRetries)
			return err
		})
		if err != nil {
			return nil, err
		}
		for _, item := range page.Items {
			n, err := notificationOf(&row{item: item})
			if err != nil {
				return nil, err
			}
			out = append(out, n)
		}
		if in.ExclusiveStartKey = page.LastEvaluatedKey; len(in.ExclusiveStartKey) == 0 {
			break
		}
	}
	return out, nil
}

// dueContents reads the rows that are due of a kind, in order of time. What the index
// shows too late is left out.
func dueContents[T any](ctx context.Context, s *Store, kind string, now time.Time, limit int, read func(*row) (T, error)) ([]T, error) {
	keys, err := s.hostDue(ctx, kind, now, limit)
	if err != nil || len(keys) == 0 {
		return nil, err
	}
	for i, k := range keys {
		keys[i] = attributes{"pk": k["pk"], "sk": k["sk"]}
	}
	found, err := s.some(ctx, "read what is due", keys)
	if err != nil {
		return nil, err
	}
	var rows []*row
	for _, key := range keys {
		if r := found[id(key)]; !dead(r) && r.item["dueAt"] != nil && r.num("dueAt") <= now.UnixNano() {
			rows = append(rows, r)
		}
	}
	slices.SortStableFunc(rows, func(a, b *row) int { return cmp.Compare(a.num("dueAt"), b.num("dueAt")) })
	var out []T
	for _, r := range rows {
		one, err := read(r)
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return out, nil
}

// DueNotifications implements host.Store.
func (s *Store) DueNotifications(ctx context.Context, now time.Time, limit int) ([]host.Notification, error) {
	return dueContents(ctx, s, "notification", now, limit, notificationOf)
}

// Deliver implements host.Store. What stays in the place of the notification says that
// it was told, so that it is not scheduled again.
func (s *Store) Deliver(ctx context.Context, n host.Notification) error {
	if n.Version < 1 {
		return host.ErrMoved
	}
	if n.DeliveredAt.IsZero() {
		return errors.New("host: a delivery without its time")
	}
	w := writing{table: s.tables.Host}
	is := at(n.Version)
	is.text, is.names = is.text+" AND attribute_exists(#row)", map[string]string{"#version": "version", "#row": rowAttribute}
	gone := grave(notificationKey(n.NotificationID), n.Version+1)
	gone["told"] = num(1)
	w.put(is, gone)
	item, err := hosted(hostKey(told(n.Workspace, n.Actor), fmt.Sprintf("%020d#%s", n.DeliveredAt.UnixNano(), n.NotificationID)), n, n.Version+1)
	if err != nil {
		return err
	}
	w.beside(item)
	r, err := s.perform(ctx, "deliver notification", w)
	if err != nil || r.failed == nil {
		return err
	}
	return host.ErrMoved
}

// ---- what runs by the clock ----

func slotItem(slot host.Slot, version int64) (attributes, error) {
	item, err := hosted(slotRow(slot), slot, version)
	if err != nil {
		return nil, err
	}
	return dueIn(item, "slot", slot.InstanceID+"#"+slot.CapabilityID, slot.At), nil
}

// DueSlots implements host.Store.
func (s *Store) DueSlots(ctx context.Context, now time.Time, limit int) ([]host.Slot, error) {
	return dueContents(ctx, s, "slot", now, limit, func(r *row) (host.Slot, error) {
		slot, err := content[host.Slot](r, "slot")
		slot.Version = r.num("version")
		return slot, errors.Join(err, r.err)
	})
}

// StartSlot implements host.Store. After a lost reply it may meet its own write: that is
// ErrMoved too, and its execution is due as any other.
func (s *Store) StartSlot(ctx context.Context, next host.Slot, e *host.Execution) error {
	if next.Version < 1 {
		return host.ErrMoved
	}
	w := writing{table: s.tables.Host}
	item, err := slotItem(next, next.Version+1)
	if err != nil {
		return err
	}
	w.put(at(next.Version), item)
	if e != nil {
		item, err := executionItem(*e, 1)
		if err != nil {
			return err
		}
		w.put(at(0), item)
	}
	r, err := s.perform(ctx, "start slot", w)
	switch {
	case err != nil || r.failed == nil:
		return err
	case r.failed[0]:
		return host.ErrMoved
	}
	return host.ErrExists
}
