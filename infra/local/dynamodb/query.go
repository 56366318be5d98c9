package dynamodb

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"strings"

	"github.com/pxhost/pxhost/infra/local/dynamodb/attribute"
	"github.com/pxhost/pxhost/infra/local/dynamodb/expression"
)

// maxPageBytes ends a page: the item with which a page reaches this size is the
// last that it examines.
const maxPageBytes = 1 << 20

const invalidStart = "The provided starting key is invalid"

// pageRequest is a Query or a Scan.
type pageRequest struct {
	tableName  string
	indexName  string // empty for the table itself
	selects    string
	limit      int // items to examine; 0 for no limit
	consistent bool
	backward   bool
	sentStart  rawItem
	start      attribute.Map // nil to start at the beginning
	capacity   *string
	expressions

	table *table      // since bind
	index *tableIndex // since bind; nil for the table itself
	keys  keySchema   // since bind: of the index or the table

	low, high []byte // bounds of the stored keys: low ≤ key < high; nil for none
	after     []byte // the stored key of start
}

type pageResult struct {
	Count            int
	ScannedCount     int
	Items            []attribute.Map
	LastEvaluatedKey attribute.Map     `json:",omitzero"`
	ConsumedCapacity *consumedCapacity `json:",omitzero"`
}

// countResult is the answer to Select COUNT: it has no Items.
type countResult struct {
	Count            int
	ScannedCount     int
	LastEvaluatedKey attribute.Map     `json:",omitzero"`
	ConsumedCapacity *consumedCapacity `json:",omitzero"`
}

func (s *Service) query(in *queryInput) (any, *apiError) {
	p := &pageRequest{
		tableName: *in.TableName, indexName: deref(in.IndexName), selects: deref(in.Select), limit: int(deref(in.Limit)),
		consistent: deref(in.ConsistentRead), backward: in.ScanIndexForward != nil && !*in.ScanIndexForward,
		sentStart: in.ExclusiveStartKey, capacity: in.ReturnConsumedCapacity,
		expressions: expressions{
			sources: []source{
				{projectionMember, in.ProjectionExpression}, {filterMember, in.FilterExpression}, {keyMember, in.KeyConditionExpression},
			},
			names: in.ExpressionAttributeNames, values: in.ExpressionAttributeValues,
		},
	}
	if err := p.checkPresence(); err != nil {
		return nil, err
	}
	if err := p.prepareStart(); err != nil {
		return nil, err
	}
	if in.KeyConditionExpression == nil {
		return nil, errInvalid("Either the KeyConditions or KeyConditionExpression parameter must be specified in the request.")
	}
	if err := p.parse(); err != nil {
		return nil, err
	}
	if err := p.checkSelect("Querying"); err != nil {
		return nil, err
	}
	return s.page(p, func() *apiError {
		if p.start != nil && len(p.start) != len(p.startKeys()) {
			return errInvalid(invalidStart)
		}
		if err := p.bindKeyCondition(); err != nil {
			return err
		}
		return p.bindQueryStart()
	})
}

func (s *Service) scan(in *scanInput) (any, *apiError) {
	p := &pageRequest{
		tableName: *in.TableName, indexName: deref(in.IndexName), selects: deref(in.Select), limit: int(deref(in.Limit)),
		consistent: deref(in.ConsistentRead), sentStart: in.ExclusiveStartKey, capacity: in.ReturnConsumedCapacity,
		expressions: expressions{
			sources: []source{{projectionMember, in.ProjectionExpression}, {filterMember, in.FilterExpression}},
			names:   in.ExpressionAttributeNames, values: in.ExpressionAttributeValues,
		},
	}
	if err := p.checkPresence(); err != nil {
		return nil, err
	}
	if err := p.prepareStart(); err != nil {
		return nil, err
	}
	if err := checkSegment(in.Segment, in.TotalSegments); err != nil {
		return nil, err
	}
	if err := p.parse(); err != nil {
		return nil, err
	}
	if err := p.checkSelect("Scanning"); err != nil {
		return nil, err
	}
	return s.page(p, func() *apiError {
		if p.start != nil && len(p.start) != len(p.startKeys()) {
			if p.index != nil {
				return errInvalid(invalidStart)
			}
			return errInvalid(invalidStart + ": " + schemaMismatch)
		}
		if p.index != nil {
			for i := range p.keys {
				if err := p.checkStart(i); err != nil {
					return err
				}
			}
		}
		return p.bindScan(in.Segment, in.TotalSegments)
	})
}

func checkSegment(segment, total *int64) *apiError {
	switch {
	case segment != nil && total == nil:
		return errInvalid("The TotalSegments parameter is required but was not present in the request when Segment parameter is present")
	case segment == nil && total != nil:
		return errInvalid("The Segment parameter is required but was not present in the request when parameter TotalSegments is present")
	case total != nil && *segment >= *total:
		return errInvalid(fmt.Sprintf("The Segment parameter is zero-based and must be less than parameter TotalSegments: "+
			"Segment: %d is not less than TotalSegments: %d", *segment, *total))
	}
	return nil
}

// prepareStart checks the values of ExclusiveStartKey. Faults of numbers and
// sets are told without the prefix that other faults get.
func (p *pageRequest) prepareStart() (err *apiError) {
	if p.sentStart == nil {
		return nil
	}
	if p.start, err = p.sentStart.item(); err == nil {
		return nil
	}
	for _, bare := range []string{"contains duplicates", "number set", "numeric value", "significant digits", "number with magnitude"} {
		if strings.Contains(err.Message, bare) {
			return err
		}
	}
	return errInvalid(invalidStart + ": " + err.Message)
}

func (p *pageRequest) checkSelect(doing string) *apiError {
	projected := p.projection != nil
	switch {
	case p.selects == "COUNT" && projected:
		return errInvalid("Cannot specify the ProjectionExpression when choosing to get only the Count")
	case p.selects == "ALL_ATTRIBUTES" && projected, p.selects == "ALL_PROJECTED_ATTRIBUTES" && projected:
		return errInvalid("Cannot specify the ProjectionExpression when choosing to get " + p.selects)
	case p.selects == "SPECIFIC_ATTRIBUTES" && !projected:
		return errInvalid("Must specify the AttributesToGet or ProjectionExpression when choosing to get SPECIFIC_ATTRIBUTES")
	case p.selects == "ALL_PROJECTED_ATTRIBUTES" && p.indexName == "":
		return errInvalid("ALL_PROJECTED_ATTRIBUTES can be used only when " + doing + " using an IndexName")
	}
	return nil
}

// page binds the request to its table and reads one page. bindRange sets the
// bounds of the keys.
func (s *Service) page(p *pageRequest, bindRange func() *apiError) (any, *apiError) {
	var result any
	err := s.store.view(func(r *readTx) *apiError {
		if err := p.bind(r); err != nil {
			return err
		}
		if err := bindRange(); err != nil {
			return err
		}
		if err := p.checkExpressions(); err != nil {
			return err
		}
		result = p.run(r)
		return nil
	})
	return result, err
}

// bind finds the table and the index.
func (p *pageRequest) bind(r *readTx) *apiError {
	if p.table = r.table(p.tableName); p.table == nil {
		return errNoTable()
	}
	p.keys = p.table.Keys
	if p.indexName == "" {
		return nil
	}
	if p.index = p.table.index(p.indexName); p.index == nil {
		return errInvalid("The table does not have the specified index: " + p.indexName)
	}
	if p.consistent {
		return errInvalid("Consistent reads are not supported on global secondary indexes")
	}
	p.keys = p.index.Keys
	return nil
}

// startKeys are the attributes of a start key: those of table and index.
func (p *pageRequest) startKeys() []string {
	var names []string
	for _, a := range slices.Concat(p.table.Keys, p.keys) {
		if !slices.Contains(names, a.Name) {
			names = append(names, a.Name)
		}
	}
	return names
}

// checkStart checks the value that a start key has for one of the keys.
func (p *pageRequest) checkStart(i int) *apiError {
	if p.start == nil {
		return nil
	}
	a := p.keys[i]
	switch v := p.start[a.Name]; {
	case v.IsZero():
		return errInvalid(invalidStart)
	case v.Kind() != a.Kind:
		return errInvalid(schemaMismatch)
	default:
		return checkKeyValue(v, a.Name, i == 0)
	}
}

// checkTableStart checks the part of a start key that belongs to the table.
func (p *pageRequest) checkTableStart() *apiError {
	key := make(attribute.Map)
	for _, a := range p.table.Keys {
		if v, ok := p.start[a.Name]; ok {
			key[a.Name] = v
		}
	}
	if err := p.table.checkKey(key); err != nil {
		return errInvalid(invalidStart + ": " + err.Message)
	}
	return nil
}

// storedStart is the stored key that a start key stands for.
func (p *pageRequest) storedStart() []byte {
	key := p.table.Keys.appendKey(nil, p.start)
	if p.index != nil {
		return p.index.entryKey(p.start, key)
	}
	return key
}

func (p *pageRequest) term(name string) *expression.KeyTerm {
	for i, t := range p.key {
		if t.Attribute == name {
			return &p.key[i]
		}
	}
	return nil
}

// bindKeyCondition checks the key condition against the keys and sets the
// bounds of the range that it describes.
func (p *pageRequest) bindKeyCondition() *apiError {
	for i, a := range p.keys {
		if err := p.checkStart(i); err != nil {
			return err
		}
		t := p.term(a.Name)
		switch {
		case i == 0 && len(p.keys) == 1 && len(p.key) > 1:
			return errInvalid("Query key condition not supported")
		case t == nil && (i == 0 || len(p.key) > 1):
			return errInvalid("Query condition missed key schema element: " + a.Name)
		case t == nil:
			continue
		}
		for _, v := range t.Values {
			if v.Kind() != a.Kind {
				return errParameter("Condition parameter type does not match schema type")
			}
			if kind, empty := emptyText(v); empty && t.Operator != "begins_with" {
				return errInvalid("One or more parameter values are not valid. The AttributeValue for a key attribute " +
					"cannot contain an empty " + kind + " value. Key: " + a.Name)
			}
			if err := checkKeySize(v, i == 0); err != nil {
				return err
			}
		}
		if i == 0 && t.Operator != "=" {
			return errInvalid("Query key condition not supported")
		}
	}
	partition := partitionPrefix(p.term(p.keys[0].Name).Values[0])
	p.low, p.high = partition, after(partition)
	if len(p.key) == 2 {
		p.narrow(partition, p.term(p.keys[1].Name))
	}
	return nil
}

// narrow sets the bounds to the part of the partition where the sort key
// fulfils the term.
func (p *pageRequest) narrow(partition []byte, t *expression.KeyTerm) {
	at := func(i int) []byte { return t.Values[i].AppendOrdered(slices.Clone(partition)) }
	switch t.Operator {
	case "=":
		p.low, p.high = at(0), after(at(0))
	case "<":
		p.high = at(0)
	case "<=":
		p.high = after(at(0))
	case ">":
		p.low = after(at(0))
	case ">=":
		p.low = at(0)
	case "BETWEEN":
		p.low, p.high = at(0), after(at(1))
	case "begins_with":
		prefix := t.Values[0].AppendOrderedPrefix(slices.Clone(partition))
		p.low, p.high = prefix, after(prefix)
	}
}

// bindQueryStart checks that the start key lies where the query may look.
func (p *pageRequest) bindQueryStart() *apiError {
	if p.start == nil {
		return nil
	}
	if err := p.checkTableStart(); err != nil {
		return err
	}
	hash := p.keys[0].Name
	samePartition := p.start[hash].Equal(p.term(hash).Values[0])
	if len(p.key) == 1 {
		if !samePartition {
			return errInvalid("The provided starting key is outside query boundaries based on provided conditions")
		}
	} else {
		partition := partitionPrefix(p.term(hash).Values[0])
		at := p.start[p.keys[1].Name].AppendOrdered(partition)
		if bytes.Compare(at, p.low) < 0 || p.high != nil && bytes.Compare(at, p.high) >= 0 {
			return errInvalid("The provided starting key does not match the range key predicate")
		}
		if !samePartition {
			return errInvalid("The query can return at most one row and cannot be restarted")
		}
	}
	p.after = p.storedStart()
	return nil
}

// bindScan sets the bounds to the segment: an equal share of the hashes.
func (p *pageRequest) bindScan(segment, total *int64) *apiError {
	if p.start != nil {
		if err := p.checkTableStart(); err != nil {
			return err
		}
	}
	if total != nil {
		p.low, p.high = segmentStart(*segment, *total), segmentStart(*segment+1, *total)
	}
	if p.start == nil {
		return nil
	}
	p.after = p.storedStart()
	if total != nil && (bytes.Compare(p.after, p.low) < 0 || p.high != nil && bytes.Compare(p.after, p.high) >= 0) {
		return errInvalid(fmt.Sprintf(invalidStart+": Invalid ExclusiveStartKey. Please use ExclusiveStartKey with correct Segment. "+
			"TotalSegments: %d Segment: %d", *total, *segment))
	}
	return nil
}

// segmentStart is the first hash of a segment, ⌈2^64 × segment / total⌉; nil
// for the end of the last.
func segmentStart(segment, total int64) []byte {
	if segment == total {
		return nil
	}
	quotient, remainder := bits.Div64(uint64(segment), 0, uint64(total))
	if remainder > 0 {
		quotient++
	}
	return binary.BigEndian.AppendUint64(nil, quotient)
}

// checkExpressions checks filter and projection against table and index.
func (p *pageRequest) checkExpressions() *apiError {
	if p.projection != nil {
		if err := p.table.checkScalarKeys(p.projection.Nested()); err != nil {
			return err
		}
	}
	if p.filter != nil && p.key != nil {
		for _, a := range p.keys {
			if slices.Contains(p.filter.Roots(), a.Name) {
				return errInvalid("Filter Expression can only contain non-primary key attributes: Primary key attribute: " + a.Name)
			}
		}
	}
	if p.index != nil && p.selects == "ALL_ATTRIBUTES" && p.index.Projection != "ALL" {
		return errParameter("Select type ALL_ATTRIBUTES is not supported for global secondary index " +
			p.index.Name + " because its projection type is not ALL")
	}
	if p.filter != nil {
		if err := p.table.checkScalarKeys(p.filter.Nested()); err != nil {
			return err
		}
	}
	return p.checkProjected()
}

// checkProjected fails if an expression asks for attributes that the index does
// not hold.
func (p *pageRequest) checkProjected() *apiError {
	if p.index == nil {
		return nil
	}
	missing := map[string]bool{}
	collect := func(names []string) {
		for _, name := range names {
			if !p.index.holds(name) {
				missing[name] = true
			}
		}
	}
	if p.projection != nil {
		collect(p.projection.Roots())
	}
	if p.filter != nil {
		collect(p.filter.Roots())
	}
	if len(missing) == 0 {
		return nil
	}
	return errParameter("Global secondary index " + p.index.Name + " does not project [" +
		strings.Join(slices.Sorted(maps.Keys(missing)), ", ") + "]")
}

// run examines items from the start until a limit is reached.
func (p *pageRequest) run(r *readTx) any {
	var page pageResult
	page.Items = []attribute.Map{}
	var last attribute.Map
	size := 0
	for item := range p.examine(r) {
		page.ScannedCount++
		size += item.Size()
		if p.filter == nil || p.filter.Match(item) {
			page.Count++
			if p.selects != "COUNT" {
				page.Items = append(page.Items, p.projected(item))
			}
		}
		if page.ScannedCount == p.limit || size >= maxPageBytes {
			last = item
			break
		}
	}
	if last != nil {
		page.LastEvaluatedKey = make(attribute.Map)
		for _, name := range p.startKeys() {
			page.LastEvaluatedKey[name] = last[name]
		}
	}
	page.ConsumedCapacity = p.bill(size).report(p.tableName, p.capacity)
	if p.selects == "COUNT" {
		return countResult{page.Count, page.ScannedCount, page.LastEvaluatedKey, page.ConsumedCapacity}
	}
	return page
}

func (p *pageRequest) projected(item attribute.Map) attribute.Map {
	if p.projection == nil {
		return item
	}
	return p.projection.Apply(item)
}

// bill is the price of a page of the given size: its items are added up before
// they are rounded to units.
func (p *pageRequest) bill(size int) bill {
	n := max(1, units(size, readUnit))
	if !p.consistent {
		n /= 2
	}
	if p.index == nil {
		return bill{table: n}
	}
	return bill{indexes: map[string]float64{p.index.Name: n}}
}

// examine yields the items within the bounds, in order, as the table or the
// index holds them.
func (p *pageRequest) examine(r *readTx) func(yield func(attribute.Map) bool) {
	bucket := p.table.itemBucket()
	if p.index != nil {
		bucket = p.table.indexBucket(*p.index)
	}
	c := r.tx.Bucket(bucket).Cursor()
	next := c.Next
	if p.backward {
		next = c.Prev
	}
	return func(yield func(attribute.Map) bool) {
		for key, value := p.first(c); key != nil && p.within(key); key, value = next() {
			var item attribute.Map
			if p.index != nil {
				item = p.index.view(r.get(p.table, value))
			} else {
				item = r.decode(p.table, value)
			}
			if !yield(item) {
				return
			}
		}
	}
}

// cursor is the part of a bbolt cursor that finds the first item of a page.
type cursor interface {
	First() (key, value []byte)
	Last() (key, value []byte)
	Next() (key, value []byte)
	Prev() (key, value []byte)
	Seek([]byte) (key, value []byte)
}

// first moves to the first key of the page in its direction.
func (p *pageRequest) first(c cursor) (key, value []byte) {
	if !p.backward {
		from := p.low
		if p.after != nil {
			from = p.after
		}
		if from == nil {
			return c.First()
		}
		if key, value = c.Seek(from); p.after != nil && bytes.Equal(key, p.after) {
			return c.Next()
		}
		return key, value
	}
	before := p.high
	if p.after != nil {
		before = p.after
	}
	if before == nil {
		return c.Last()
	}
	if key, _ = c.Seek(before); key == nil {
		return c.Last() // all keys lie before
	}
	return c.Prev()
}

func (p *pageRequest) within(key []byte) bool {
	return bytes.Compare(key, p.low) >= 0 && (p.high == nil || bytes.Compare(key, p.high) < 0)
}
