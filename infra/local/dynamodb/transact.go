package dynamodb

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/pxhost/pxhost/infra/local/dynamodb/attribute"
)

const (
	maxTransactionBytes = 4 << 20
	tokenWindow         = 10 * time.Minute
	duplicateItem       = "Transaction request cannot include multiple operations on one item"
)

type transactWriteResult struct {
	ConsumedCapacity []*consumedCapacity `json:",omitzero"`
}

// transactWriteItems runs all actions or none. body is the request as it was
// sent: its TransactItems are what a ClientRequestToken stands for.
func (s *Service) transactWriteItems(in *transactWriteItemsInput, body []byte) (any, *apiError) {
	actions := make([]*write, len(in.TransactItems))
	size := 0
	for i, item := range in.TransactItems {
		w, err := item.prepare()
		if err != nil {
			return nil, err
		}
		actions[i] = w
		size += w.payload()
	}
	if size > maxTransactionBytes {
		return nil, errInvalid("Transaction payload size cannot exceed 4 MB")
	}
	var token *tokenRecord
	if in.ClientRequestToken != nil {
		token = &tokenRecord{Fingerprint: fingerprint(body)}
	}
	return s.store.update(func(tx *writeTx) (any, *apiError) {
		if token != nil {
			switch earlier := tx.token(*in.ClientRequestToken); {
			case earlier == nil:
			case earlier.Fingerprint != token.Fingerprint:
				return nil, badRequest(dynamoService+"IdempotentParameterMismatchException",
					"The request uses the same client token as a previous, but non-identical request.")
			default:
				return repeated(tx, actions, in.ReturnConsumedCapacity)
			}
		}
		return runTransaction(tx, actions, in, token)
	})
}

// prepare checks an action by itself.
func (item transactWriteItem) prepare() (*write, *apiError) {
	var w *write
	var sent rawItem
	given := 0
	if a := item.ConditionCheck; a != nil {
		given++
		w, sent = newAction(verbCheck, a.TableName, nil, a.ConditionExpression, a.ExpressionAttributeNames,
			a.ExpressionAttributeValues, a.ReturnValuesOnConditionCheckFailure), a.Key
	}
	if a := item.Put; a != nil {
		given++
		w, sent = newAction(verbPut, a.TableName, nil, a.ConditionExpression, a.ExpressionAttributeNames,
			a.ExpressionAttributeValues, a.ReturnValuesOnConditionCheckFailure), a.Item
	}
	if a := item.Delete; a != nil {
		given++
		w, sent = newAction(verbDelete, a.TableName, nil, a.ConditionExpression, a.ExpressionAttributeNames,
			a.ExpressionAttributeValues, a.ReturnValuesOnConditionCheckFailure), a.Key
	}
	if a := item.Update; a != nil {
		given++
		w, sent = newAction(verbUpdate, a.TableName, a.UpdateExpression, a.ConditionExpression, a.ExpressionAttributeNames,
			a.ExpressionAttributeValues, a.ReturnValuesOnConditionCheckFailure), a.Key
	}
	switch {
	case given == 0:
		return nil, errInvalid("Invalid Request: TransactWriteRequest should contain Delete or Put or Update request")
	case given > 1:
		return nil, errInvalid("TransactItems can only contain one of Check, Put, Update or Delete")
	}
	return w, w.prepare(sent, nil)
}

func newAction(v verb, table, update, condition *string, names nameMap, values rawItem, onFailure *string) *write {
	w := &write{verb: v, tableName: *table, returnOld: deref(onFailure) == "ALL_OLD"}
	w.names, w.values = names, values
	if v == verbUpdate {
		w.sources = append(w.sources, source{updateMember, update})
	}
	w.sources = append(w.sources, source{conditionMember, condition})
	return w
}

// payload is what the action counts for in the limit on a transaction: what it
// says, not the size of the item it finds.
func (w *write) payload() int {
	size := w.item.Size()
	for _, s := range w.sources {
		size += len(deref(s.text))
	}
	for _, v := range w.values {
		value, _ := v.value.value() // parse has checked it
		size += len(v.name) + value.Size()
	}
	return size
}

func runTransaction(tx *writeTx, actions []*write, in *transactWriteItemsInput, token *tokenRecord) (any, *apiError) {
	if err := bindAll(tx, actions); err != nil {
		return nil, err
	}
	reasons := make([]cancellationReason, len(actions))
	cancelled := false
	for i, w := range actions {
		reasons[i].Code = "None"
		if tx.group.touched[w.slot()] != 0 {
			reasons[i], cancelled = cancellationReason{Code: "TransactionConflict", Message: transactionOngoing}, true
		} else if err := w.decide(tx); err != nil {
			reasons[i], cancelled = reasonOf(err), true
		}
	}
	if cancelled {
		return nil, errCancelled(reasons)
	}
	result := bills{}
	for _, w := range actions {
		w.apply(tx)
		tx.group.touched[w.slot()] |= touchedByTransaction
		result.add(w.tableName, w.table.writeBill(w.old, w.new))
	}
	if token != nil {
		tx.saveToken(*in.ClientRequestToken, token)
	}
	return transactWriteResult{result.reportTransaction(in.ReturnConsumedCapacity, true)}, nil
}

// bindAll checks all actions against their tables. The first fault ends the
// check; it cancels the transaction, or is the answer itself if it is a missing
// table or an empty key.
func bindAll(tx *writeTx, actions []*write) *apiError {
	seen := make(map[string]bool, len(actions))
	var first *apiError
	for i, w := range actions {
		err := w.bind(&tx.readTx)
		switch {
		case w.table == nil || err != nil && err.upfront:
			return err
		case err != nil && first == nil:
			reasons := make([]cancellationReason, len(actions))
			for j := range reasons {
				reasons[j].Code = "None"
			}
			reasons[i] = reasonOf(err)
			first = errCancelled(reasons)
		case err == nil && seen[w.slot()]:
			return errInvalid(duplicateItem)
		case err == nil:
			seen[w.slot()] = true
		}
	}
	return first
}

func reasonOf(err *apiError) cancellationReason {
	code := "ValidationError"
	if strings.HasSuffix(err.Type, "#ConditionalCheckFailedException") {
		code = "ConditionalCheckFailed"
	}
	return cancellationReason{Code: code, Message: err.Message, Item: err.Item}
}

func errCancelled(reasons []cancellationReason) *apiError {
	codes := make([]string, len(reasons))
	for i, r := range reasons {
		codes[i] = r.Code
	}
	return &apiError{
		Type:    dynamoService + "TransactionCanceledException",
		Message: "Transaction cancelled, please refer cancellation reasons for specific reasons [" + strings.Join(codes, ", ") + "]",
		Reasons: reasons,
		status:  http.StatusBadRequest,
	}
}

// repeated answers a transaction whose token has been used for the same request
// before: nothing is done, and the capacity is that of reading the items.
func repeated(tx *writeTx, actions []*write, asked *string) (any, *apiError) {
	result := bills{}
	for _, w := range actions {
		if w.bind(&tx.readTx) == nil {
			result.add(w.tableName, readBill(tx.get(w.table, w.key), true))
		}
	}
	return transactWriteResult{result.reportTransaction(asked, false)}, nil
}

// tokenRecord remembers a transaction that was done, for tokenWindow.
type tokenRecord struct {
	Fingerprint string // of TransactItems
	Expires     int64  // seconds since 1970
}

// fingerprint identifies the TransactItems of a request, however its members
// are ordered and its JSON is spaced.
func fingerprint(body []byte) string {
	var request struct {
		TransactItems jsontext.Value
	}
	if err := json.Unmarshal(body, &request); err != nil {
		panic(fmt.Sprintf("dynamodb: a decoded request does not decode: %v", err))
	}
	if err := request.TransactItems.Canonicalize(); err != nil {
		panic(fmt.Sprintf("dynamodb: a decoded request has no canonical form: %v", err))
	}
	sum := sha256.Sum256(request.TransactItems)
	return hex.EncodeToString(sum[:])
}

// token returns the record of a token that is still remembered, or nil.
func (w *writeTx) token(token string) *tokenRecord {
	raw := w.tx.Bucket(bucketTokens).Get([]byte(token))
	if raw == nil {
		return nil
	}
	record := new(tokenRecord)
	if err := json.Unmarshal(raw, record); err != nil {
		panic(fmt.Sprintf("dynamodb: the record of a token is damaged: %v", err))
	}
	if record.Expires <= w.now.Unix() {
		return nil
	}
	return record
}

// saveToken remembers a token in the same commit as what it stands for.
func (w *writeTx) saveToken(token string, record *tokenRecord) {
	record.Expires = w.now.Add(tokenWindow).Unix()
	raw, err := json.Marshal(record)
	if err != nil {
		panic(err)
	}
	w.do(func() error { return w.tx.Bucket(bucketTokens).Put([]byte(token), raw) })
	w.do(func() error {
		return w.tx.Bucket(bucketTokenExpiry).Put(append(timePrefix(record.Expires), token...), nil)
	})
}

// forgetTokens drops up to limit tokens whose window has passed.
func (w *writeTx) forgetTokens(limit int) (dropped int) {
	var due [][]byte
	c := w.tx.Bucket(bucketTokenExpiry).Cursor()
	for k, _ := c.First(); k != nil && len(due) < limit; k, _ = c.Next() {
		if int64(binary.BigEndian.Uint64(k)) > w.now.Unix() {
			break
		}
		due = append(due, k)
	}
	for _, k := range due {
		token := k[8:]
		if w.token(string(token)) == nil { // it may have been used again since
			w.do(func() error { return w.tx.Bucket(bucketTokens).Delete(token) })
		}
		w.do(func() error { return w.tx.Bucket(bucketTokenExpiry).Delete(k) })
	}
	return len(due)
}

type transactGetResult struct {
	Responses        []itemResponse
	ConsumedCapacity []*consumedCapacity `json:",omitzero"`
}

type itemResponse struct {
	Item attribute.Map `json:",omitzero"`
}

// transactGetItems reads all items in one state of the file. It never conflicts:
// what it reads is the state after the last commit.
func (s *Service) transactGetItems(in *transactGetItemsInput) (any, *apiError) {
	gets := make([]*read, len(in.TransactItems))
	for i, item := range in.TransactItems {
		g := item.Get
		gets[i] = &read{tableName: *g.TableName, expressions: expressions{
			sources: []source{{projectionMember, g.ProjectionExpression}}, names: g.ExpressionAttributeNames,
		}}
		if err := gets[i].prepare(g.Key); err != nil {
			return nil, err
		}
	}
	result := transactGetResult{Responses: make([]itemResponse, len(gets))}
	err := s.store.view(func(r *readTx) *apiError {
		if err := bindReads(r, gets); err != nil {
			return err
		}
		size, total := 0, bills{}
		for i, g := range gets {
			item := r.get(g.table, g.key)
			size += item.Size()
			total.add(g.tableName, readBill(item, true))
			result.Responses[i].Item = g.project(item)
		}
		if size > maxTransactionBytes {
			return errInvalid("Transaction size cannot exceed 4 MB: the items take " + fmt.Sprint(size) + " bytes")
		}
		result.ConsumedCapacity = total.reportTransaction(in.ReturnConsumedCapacity, false)
		return nil
	})
	return result, err
}

func bindReads(r *readTx, gets []*read) *apiError {
	seen := make(map[string]bool, len(gets))
	for i, g := range gets {
		err := g.bind(r)
		switch {
		case g.table == nil || err != nil && err.upfront:
			return err
		case err != nil:
			reasons := make([]cancellationReason, len(gets))
			for j := range reasons {
				reasons[j].Code = "None"
			}
			reasons[i] = reasonOf(err)
			return errCancelled(reasons)
		case seen[g.table.ID+string(g.key)]:
			return errInvalid(duplicateItem)
		}
		seen[g.table.ID+string(g.key)] = true
	}
	return nil
}
