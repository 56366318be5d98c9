package dynamodb

import (
	"github.com/pxhost/pxhost/infra/local/dynamodb/attribute"
	"github.com/pxhost/pxhost/infra/local/dynamodb/expression"
)

// write is one write of one item: a request of its own or an action of a
// transaction. It goes through three steps: it is made from the request (prepare),
// meets its table (bind), and meets its item (decide). Only then does anything
// change (apply).
type write struct {
	verb      verb
	tableName string
	item      attribute.Map // of a put; of all others the key
	expressions
	returnOld bool // of the item whose condition fails

	table *table // since bind
	key   []byte // item key, since bind

	old, new attribute.Map // since decide; nil is no item
}

type verb int

const (
	verbPut verb = iota
	verbUpdate
	verbDelete
	verbCheck
)

// prepare checks what can be checked without a table. sent is the item of a put
// and the key of all others; between is called after the values have been
// checked and before the expressions are.
func (w *write) prepare(sent rawItem, between func() *apiError) *apiError {
	if err := w.checkPresence(); err != nil {
		return err
	}
	var err *apiError
	if w.item, err = sent.item(); err != nil {
		return err
	}
	if between != nil {
		if err := between(); err != nil {
			return err
		}
	}
	if w.verb == verbPut && w.item.Size() > maxItemBytes {
		return errInvalid("Item size has exceeded the maximum allowed size")
	}
	return w.parse()
}

// bind checks the write against its table.
func (w *write) bind(r *readTx) *apiError {
	if w.table = r.table(w.tableName); w.table == nil {
		return errNoTable()
	}
	var err *apiError
	switch w.verb {
	case verbPut:
		err = w.table.checkItem(w.item)
	case verbUpdate:
		if err = w.table.checkKey(w.item); err == nil {
			err = w.table.checkUpdate(w.update)
		}
	default:
		err = w.table.checkKey(w.item)
	}
	if err == nil {
		w.key = w.table.Keys.appendKey(nil, w.item)
	}
	return err
}

// decide reads the item, checks the condition and computes the new item. It
// changes nothing.
func (w *write) decide(tx *writeTx) *apiError {
	w.old = tx.get(w.table, w.key)
	if w.condition != nil && !w.condition.Match(w.old) {
		err := errCondition()
		if w.returnOld {
			err.Item = w.old
		}
		return err
	}
	switch w.verb {
	case verbPut:
		w.new = w.item
	case verbCheck:
		w.new = w.old
	case verbUpdate:
		return w.decideUpdate()
	}
	return nil
}

func (w *write) decideUpdate() *apiError {
	base := w.old
	if base == nil {
		base = w.item
	}
	if w.new = base; w.update == nil {
		return nil
	}
	item, fault := w.update.Apply(base)
	if fault != nil {
		return errInvalid(fault.Error())
	}
	if err := w.table.checkUpdated(item); err != nil {
		return err
	}
	if item.Size() > maxItemBytes {
		return errInvalid("Item size to update has exceeded the maximum allowed size")
	}
	for _, v := range item {
		if v.Depth() > maxValueDepth {
			return errInvalid("Nesting Levels have exceeded supported limits")
		}
	}
	w.new = item
	return nil
}

// apply stores what decide has computed.
func (w *write) apply(tx *writeTx) {
	if w.verb != verbCheck && (w.old != nil || w.new != nil) {
		tx.replace(w.table, w.key, w.old, w.new)
	}
}

// slot names the item among all items of all tables.
func (w *write) slot() string { return w.table.ID + string(w.key) }

// errOngoing is what a write gets whose item a transaction of the same commit
// has used: both were under way at the same time, and on AWS the later of the
// two would be refused.
func errOngoing() *apiError {
	return badRequest(dynamoService+"TransactionConflictException", transactionOngoing)
}

const transactionOngoing = "Transaction is ongoing for the item"

// single decides and applies a write that is no part of a transaction.
func (w *write) single(tx *writeTx) *apiError {
	if tx.group.touched[w.slot()]&touchedByTransaction != 0 {
		return errOngoing()
	}
	if err := w.decide(tx); err != nil {
		return err
	}
	tx.group.touched[w.slot()] |= touchedBySingle
	w.apply(tx)
	return nil
}

// write runs a write of a request of its own.
func (s *Service) write(w *write) *apiError {
	_, err := s.store.update(func(tx *writeTx) (any, *apiError) {
		if err := w.bind(&tx.readTx); err != nil {
			return nil, err
		}
		return nil, w.single(tx)
	})
	return err
}

// writeResult is the answer of PutItem, UpdateItem and DeleteItem.
type writeResult struct {
	Attributes       attribute.Map     `json:",omitzero"`
	ConsumedCapacity *consumedCapacity `json:",omitzero"`
}

func (w *write) result(attributes attribute.Map, capacity *string) writeResult {
	return writeResult{attributes, w.table.writeBill(w.old, w.new).report(w.table.Name, capacity)}
}

// onlyOld accepts the ReturnValues of puts and deletes.
func onlyOld(returnValues *string) func() *apiError {
	return func() *apiError {
		switch deref(returnValues) {
		case "", "NONE", "ALL_OLD":
			return nil
		}
		return errInvalid("ReturnValues can only be ALL_OLD or NONE")
	}
}

func (s *Service) putItem(in *putItemInput) (any, *apiError) {
	w := &write{
		verb: verbPut, tableName: *in.TableName, returnOld: deref(in.ReturnValuesOnConditionCheckFailure) == "ALL_OLD",
		expressions: expressions{
			sources: []source{{conditionMember, in.ConditionExpression}},
			names:   in.ExpressionAttributeNames, values: in.ExpressionAttributeValues,
		},
	}
	if err := w.prepare(in.Item, onlyOld(in.ReturnValues)); err != nil {
		return nil, err
	}
	return s.putOrDelete(w, in.ReturnValues, in.ReturnConsumedCapacity)
}

func (s *Service) deleteItem(in *deleteItemInput) (any, *apiError) {
	w := &write{
		verb: verbDelete, tableName: *in.TableName, returnOld: deref(in.ReturnValuesOnConditionCheckFailure) == "ALL_OLD",
		expressions: expressions{
			sources: []source{{conditionMember, in.ConditionExpression}},
			names:   in.ExpressionAttributeNames, values: in.ExpressionAttributeValues,
		},
	}
	if err := w.prepare(in.Key, onlyOld(in.ReturnValues)); err != nil {
		return nil, err
	}
	return s.putOrDelete(w, in.ReturnValues, in.ReturnConsumedCapacity)
}

func (s *Service) putOrDelete(w *write, returnValues, capacity *string) (any, *apiError) {
	if err := s.write(w); err != nil {
		return nil, err
	}
	var attributes attribute.Map
	if deref(returnValues) == "ALL_OLD" {
		attributes = w.old
	}
	return w.result(attributes, capacity), nil
}

func (s *Service) updateItem(in *updateItemInput) (any, *apiError) {
	w := &write{
		verb: verbUpdate, tableName: *in.TableName, returnOld: deref(in.ReturnValuesOnConditionCheckFailure) == "ALL_OLD",
		expressions: expressions{
			sources: []source{{updateMember, in.UpdateExpression}, {conditionMember, in.ConditionExpression}},
			names:   in.ExpressionAttributeNames, values: in.ExpressionAttributeValues,
		},
	}
	if err := w.prepare(in.Key, nil); err != nil {
		return nil, err
	}
	if err := s.write(w); err != nil {
		return nil, err
	}
	return w.result(w.updateAttributes(deref(in.ReturnValues)), in.ReturnConsumedCapacity), nil
}

func (w *write) updateAttributes(returnValues string) attribute.Map {
	changed := func(item attribute.Map) attribute.Map {
		switch {
		case item == nil:
			return nil
		case w.update == nil:
			return attribute.Map{}
		}
		return expression.Paths(w.update.Paths()).Apply(item)
	}
	switch returnValues {
	case "ALL_OLD":
		return w.old
	case "ALL_NEW":
		return w.new
	case "UPDATED_OLD":
		return changed(w.old)
	case "UPDATED_NEW":
		return changed(w.new)
	}
	return nil
}
