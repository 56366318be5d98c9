package dynamodb

import (
	"strings"

	"github.com/pxhost/pxhost/infra/local/dynamodb/attribute"
)

const (
	maxBatchGet        = 100
	maxBatchWrite      = 25
	maxBatchGetBytes   = 16 << 20
	duplicateBatchKeys = "Provided list of item keys contains duplicates"
)

type batchGetResult struct {
	Responses        map[string][]attribute.Map
	UnprocessedKeys  map[string]*unprocessedKeys
	ConsumedCapacity []*consumedCapacity `json:",omitzero"`
}

type unprocessedKeys struct {
	Keys                     []attribute.Map
	ConsistentRead           *bool             `json:",omitzero"`
	ProjectionExpression     *string           `json:",omitzero"`
	ExpressionAttributeNames map[string]string `json:",omitzero"`
}

func (k keysAndAttributes) unprocessed() *unprocessedKeys {
	u := &unprocessedKeys{ConsistentRead: k.ConsistentRead, ProjectionExpression: k.ProjectionExpression}
	for _, n := range k.ExpressionAttributeNames {
		if u.ExpressionAttributeNames == nil {
			u.ExpressionAttributeNames = make(map[string]string)
		}
		u.ExpressionAttributeNames[n.Placeholder] = n.Attribute
	}
	return u
}

// batchGetItem reads its items one by one, in the state after the last commit.
// What would make the answer larger than 16 MB is left unprocessed.
func (s *Service) batchGetItem(in *batchGetItemInput) (any, *apiError) {
	batches := make([][]*read, len(in.RequestItems))
	count := 0
	for i, entry := range in.RequestItems {
		var err *apiError
		if batches[i], err = entry.Value.prepare(entry.Key, &count); err != nil {
			return nil, err
		}
	}
	result := batchGetResult{Responses: map[string][]attribute.Map{}, UnprocessedKeys: map[string]*unprocessedKeys{}}
	err := s.store.view(func(r *readTx) *apiError {
		for _, batch := range batches {
			for _, g := range batch {
				if err := g.bindKey(r); err != nil {
					return err
				}
			}
		}
		for _, batch := range batches {
			if err := batch[0].checkProjection(); err != nil { // shared by the batch
				return err
			}
		}
		size, total := 0, bills{}
		for i, batch := range batches {
			entry := in.RequestItems[i]
			result.Responses[entry.Key] = []attribute.Map{}
			for _, g := range batch {
				item := r.get(g.table, g.key)
				if size += item.Size(); size > maxBatchGetBytes {
					if result.UnprocessedKeys[entry.Key] == nil {
						result.UnprocessedKeys[entry.Key] = entry.Value.unprocessed()
					}
					rest := result.UnprocessedKeys[entry.Key]
					rest.Keys = append(rest.Keys, g.sent)
					continue
				}
				total.add(entry.Key, readBill(item, deref(entry.Value.ConsistentRead)))
				if item != nil {
					result.Responses[entry.Key] = append(result.Responses[entry.Key], g.project(item))
				}
			}
		}
		result.ConsumedCapacity = total.report(in.ReturnConsumedCapacity)
		return nil
	})
	return result, err
}

// prepare makes the reads of one table. count is the number of keys so far.
func (k keysAndAttributes) prepare(table string, count *int) ([]*read, *apiError) {
	shared := expressions{sources: []source{{projectionMember, k.ProjectionExpression}}, names: k.ExpressionAttributeNames}
	if err := shared.checkPresence(); err != nil {
		return nil, err
	}
	if err := shared.parse(); err != nil {
		return nil, err
	}
	var reads []*read
	seen := make(map[string]bool)
	for _, key := range k.Keys {
		sent, err := key.item()
		if err != nil {
			return nil, err
		}
		if stored := string(sent.AppendStored(nil)); seen[stored] {
			return nil, errInvalid(duplicateBatchKeys)
		} else {
			seen[stored] = true
		}
		if *count++; *count > maxBatchGet {
			return nil, errInvalid("Too many items requested for the BatchGetItem call")
		}
		reads = append(reads, &read{tableName: table, sent: sent, expressions: shared})
	}
	return reads, nil
}

type batchWriteResult struct {
	UnprocessedItems map[string][]unprocessedWrite
	ConsumedCapacity []*consumedCapacity `json:",omitzero"`
}

type unprocessedWrite struct {
	PutRequest    *itemOf `json:",omitzero"`
	DeleteRequest *keyOf  `json:",omitzero"`
}

type itemOf struct{ Item attribute.Map }

type keyOf struct{ Key attribute.Map }

func (w *write) unprocessed() unprocessedWrite {
	if w.verb == verbPut {
		return unprocessedWrite{PutRequest: &itemOf{w.item}}
	}
	return unprocessedWrite{DeleteRequest: &keyOf{w.item}}
}

// batchWriteItem does its writes one by one; they share a commit. A write whose
// item a transaction of the same commit has used is left unprocessed.
func (s *Service) batchWriteItem(in *batchWriteItemInput) (any, *apiError) {
	var writes []*write
	for _, entry := range in.RequestItems {
		for _, request := range entry.Value {
			if (request.PutRequest == nil) == (request.DeleteRequest == nil) {
				return nil, errInvalid("Supplied AttributeValue has more than one datatypes set, must contain exactly one of the supported datatypes")
			}
		}
		for _, request := range entry.Value {
			w, err := request.prepare(entry.Key)
			if err != nil {
				return nil, err
			}
			writes = append(writes, w)
		}
	}
	if len(writes) > maxBatchWrite {
		return nil, errInvalid("Too many items requested for the BatchWriteItem call")
	}
	return s.store.update(func(tx *writeTx) (any, *apiError) { return runBatch(tx, writes, in.ReturnConsumedCapacity) })
}

func runBatch(tx *writeTx, writes []*write, asked *string) (any, *apiError) {
	seen := make(map[string]bool)
	for _, w := range writes {
		if err := w.bind(&tx.readTx); err != nil {
			return nil, batchKeyError(w, err)
		}
		if seen[w.slot()] {
			return nil, errInvalid(duplicateBatchKeys)
		}
		seen[w.slot()] = true
	}
	result := batchWriteResult{UnprocessedItems: map[string][]unprocessedWrite{}}
	total := bills{}
	for _, w := range writes {
		// Without condition or update, nothing but a conflict can be in the way.
		if err := w.single(tx); err != nil {
			result.UnprocessedItems[w.tableName] = append(result.UnprocessedItems[w.tableName], w.unprocessed())
			continue
		}
		total.add(w.tableName, w.table.writeBill(w.old, w.new))
	}
	result.ConsumedCapacity = total.report(asked)
	return result, nil
}

func (request writeRequest) prepare(table string) (*write, *apiError) {
	if request.PutRequest != nil {
		w := &write{verb: verbPut, tableName: table}
		return w, w.prepare(request.PutRequest.Item, nil)
	}
	w := &write{verb: verbDelete, tableName: table}
	return w, w.prepare(request.DeleteRequest.Key, nil)
}

// batchKeyError is the text that a batch has for an item that lacks a key or has
// one of a wrong type.
func batchKeyError(w *write, err *apiError) *apiError {
	if w.verb == verbPut && (strings.Contains(err.Message, "Missing the key") || strings.Contains(err.Message, "Type mismatch for key")) {
		return errInvalid(schemaMismatch)
	}
	return err
}
