package dynamodb

import (
	"github.com/pxhost/pxhost/infra/local/dynamodb/attribute"
)

// read is the read of one item: a request of its own or part of one.
type read struct {
	tableName string
	key       []byte // item key, since bind
	sent      attribute.Map
	expressions

	table *table // since bind
}

// prepare checks what can be checked without a table.
func (g *read) prepare(key rawItem) (err *apiError) {
	if err := g.checkPresence(); err != nil {
		return err
	}
	if g.sent, err = key.item(); err != nil {
		return err
	}
	return g.parse()
}

// bind checks the read against its table.
func (g *read) bind(r *readTx) *apiError {
	if err := g.bindKey(r); err != nil {
		return err
	}
	return g.checkProjection()
}

func (g *read) bindKey(r *readTx) *apiError {
	if g.table = r.table(g.tableName); g.table == nil {
		return errNoTable()
	}
	if err := g.table.checkKey(g.sent); err != nil {
		return err
	}
	g.key = g.table.Keys.appendKey(nil, g.sent)
	return nil
}

func (g *read) checkProjection() *apiError {
	if g.projection == nil {
		return nil
	}
	return g.table.checkScalarKeys(g.projection.Nested())
}

// project returns the part of the item that the read asks for.
func (g *read) project(item attribute.Map) attribute.Map {
	if item == nil || g.projection == nil {
		return item
	}
	return g.projection.Apply(item)
}

type getItemResult struct {
	Item             attribute.Map     `json:",omitzero"`
	ConsumedCapacity *consumedCapacity `json:",omitzero"`
}

func (s *Service) getItem(in *getItemInput) (any, *apiError) {
	g := &read{tableName: *in.TableName, expressions: expressions{
		sources: []source{{projectionMember, in.ProjectionExpression}}, names: in.ExpressionAttributeNames,
	}}
	if err := g.prepare(in.Key); err != nil {
		return nil, err
	}
	var result getItemResult
	err := s.store.view(func(r *readTx) *apiError {
		if err := g.bind(r); err != nil {
			return err
		}
		item := r.get(g.table, g.key)
		result.Item = g.project(item)
		result.ConsumedCapacity = readBill(item, deref(in.ConsistentRead)).report(g.tableName, in.ReturnConsumedCapacity)
		return nil
	})
	return result, err
}
