package dynamodb

import (
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/pxhost/pxhost/infra/local/dynamodb/attribute"
)

// table is what is stored of a table besides its items.
type table struct {
	Name               string
	ID                 string
	Created            time.Time
	Keys               keySchema
	Attributes         []keyAttribute // all definitions, in the order they were given
	Indexes            []tableIndex
	OnDemand           bool
	Throughput         throughput
	DeletionProtection bool
	TTL                timeToLive
}

// keySchema is the key of a table or index: a partition key, perhaps a sort key.
type keySchema []keyAttribute

type keyAttribute struct {
	Name string
	Kind attribute.Kind
}

type tableIndex struct {
	Name       string
	Keys       keySchema
	Projection string // ALL, KEYS_ONLY, INCLUDE
	Include    []string
	Throughput throughput

	// The attributes that are in an index of Projection KEYS_ONLY or INCLUDE: the
	// keys of table and index, and Include. Of no meaning for ALL.
	Projected []string
}

type throughput struct{ Read, Write int64 }

type timeToLive struct {
	Enabled   bool
	Attribute string
}

func (t *table) itemBucket() []byte   { return []byte("items/" + t.ID) }
func (t *table) expiryBucket() []byte { return []byte("expiry/" + t.ID) }
func (t *table) indexBucket(i tableIndex) []byte {
	return []byte("index/" + t.ID + "/" + i.Name)
}

func (t *table) index(name string) *tableIndex {
	i := slices.IndexFunc(t.Indexes, func(i tableIndex) bool { return i.Name == name })
	if i < 0 {
		return nil
	}
	return &t.Indexes[i]
}

func (k keySchema) has(name string) bool {
	return slices.ContainsFunc(k, func(a keyAttribute) bool { return a.Name == name })
}

// appendKey appends the stored key of an item that has all key attributes.
func (k keySchema) appendKey(dst []byte, item attribute.Map) []byte {
	dst = append(dst, partitionPrefix(item[k[0].Name])...)
	if len(k) == 2 {
		dst = item[k[1].Name].AppendOrdered(dst)
	}
	return dst
}

// of returns the key attributes of an item.
func (k keySchema) of(item attribute.Map) attribute.Map {
	key := make(attribute.Map, len(k))
	for _, a := range k {
		key[a.Name] = item[a.Name]
	}
	return key
}

// entryKey is the item's key in the index; nil if the item is not in it, because
// it lacks one of the index's key attributes.
func (i *tableIndex) entryKey(item attribute.Map, itemKey []byte) []byte {
	for _, a := range i.Keys {
		if item[a.Name].IsZero() {
			return nil
		}
	}
	return append(i.Keys.appendKey(nil, item), itemKey...)
}

// view is the item as the index holds it.
func (i *tableIndex) view(item attribute.Map) attribute.Map {
	if i.Projection == "ALL" {
		return item
	}
	v := make(attribute.Map, len(i.Projected))
	for _, name := range i.Projected {
		if value, ok := item[name]; ok {
			v[name] = value
		}
	}
	return v
}

func (i *tableIndex) holds(name string) bool {
	return i.Projection == "ALL" || slices.Contains(i.Projected, name)
}

// createTable makes a table. Its answer says CREATING, as DynamoDB's does, but
// the table is usable at once and DescribeTable says ACTIVE.
func (s *Service) createTable(in *createTableInput) (any, *apiError) {
	t, err := newTable(in)
	if err != nil {
		return nil, err
	}
	return s.store.update(func(w *writeTx) (any, *apiError) {
		if w.table(t.Name) != nil {
			return nil, badRequest(dynamoService+"ResourceInUseException", "Table already exists: "+t.Name)
		}
		t.ID, t.Created = newID(), w.now
		buckets := [][]byte{t.itemBucket()}
		for _, i := range t.Indexes {
			buckets = append(buckets, t.indexBucket(i))
		}
		for _, b := range buckets {
			w.do(func() error { _, err := w.tx.CreateBucket(b); return err })
		}
		w.saveTable(t)
		return tableResult{TableDescription: s.describe(&w.readTx, t, "CREATING")}, nil
	})
}

// newID is a random UUID.
func newID() string {
	var b [16]byte
	rand.Read(b[:])
	b[6], b[8] = b[6]&0x0F|0x40, b[8]&0x3F|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// newTable checks a CreateTable request beyond its constraints.
func newTable(in *createTableInput) (*table, *apiError) {
	t := &table{Name: *in.TableName, OnDemand: deref(in.BillingMode) == "PAY_PER_REQUEST", DeletionProtection: deref(in.DeletionProtectionEnabled)}
	if err := t.setThroughput(in.ProvisionedThroughput); err != nil {
		return nil, err
	}
	for _, d := range in.AttributeDefinitions {
		kind, _ := attribute.KindOf(*d.AttributeType)
		t.Attributes = append(t.Attributes, keyAttribute{*d.AttributeName, kind})
	}
	if len(in.KeySchema) > len(t.Attributes) {
		return nil, errInvalid("Invalid KeySchema: Some index key attribute have no definition")
	}
	var err *apiError
	if t.Keys, err = t.schema(in.KeySchema); err != nil {
		return nil, err
	}
	if in.GlobalSecondaryIndexes == nil && len(t.Keys) != len(t.Attributes) {
		return nil, errParameter("Number of attributes in KeySchema does not exactly match number of attributes defined in AttributeDefinitions")
	}
	if err := t.setIndexes(in.GlobalSecondaryIndexes); err != nil {
		return nil, err
	}
	return t, t.checkDefinitions()
}

const maxThroughput = 1_000_000_000_000

func (t *table) setThroughput(p *provisionedThroughput) *apiError {
	switch {
	case t.OnDemand && p != nil:
		return errParameter("Neither ReadCapacityUnits nor WriteCapacityUnits can be specified when BillingMode is PAY_PER_REQUEST")
	case t.OnDemand:
		return nil
	case p == nil:
		return errParameter("ReadCapacityUnits and WriteCapacityUnits must both be specified when BillingMode is PROVISIONED")
	case *p.ReadCapacityUnits > maxThroughput:
		return errInvalid(fmt.Sprintf("Given value %d for ReadCapacityUnits is out of bounds", *p.ReadCapacityUnits))
	case *p.WriteCapacityUnits > maxThroughput:
		return errInvalid(fmt.Sprintf("Given value %d for WriteCapacityUnits is out of bounds", *p.WriteCapacityUnits))
	}
	t.Throughput = throughput{*p.ReadCapacityUnits, *p.WriteCapacityUnits}
	return nil
}

// schema checks the key schema of the table or of an index.
func (t *table) schema(elements []keySchemaElement) (keySchema, *apiError) {
	var keys keySchema
	var names, defined []string
	missing := false
	for _, e := range elements {
		i := slices.IndexFunc(t.Attributes, func(a keyAttribute) bool { return a.Name == *e.AttributeName })
		if missing = missing || i < 0; i >= 0 {
			keys = append(keys, t.Attributes[i])
		}
		names = append(names, *e.AttributeName)
	}
	for _, a := range t.Attributes {
		defined = append(defined, a.Name)
	}
	switch {
	case missing:
		return nil, errParameter("Some index key attributes are not defined in AttributeDefinitions. Keys: [" +
			strings.Join(names, ", ") + "], AttributeDefinitions: [" + strings.Join(defined, ", ") + "]")
	case len(keys) == 2 && keys[0].Name == keys[1].Name:
		return nil, errInvalid("Both the Hash Key and the Range Key element in the KeySchema have the same name")
	case *elements[0].KeyType != "HASH":
		return nil, errInvalid("Invalid KeySchema: The first KeySchemaElement is not a HASH key type")
	case len(keys) == 2 && *elements[1].KeyType != "RANGE":
		return nil, errInvalid("Invalid KeySchema: The second KeySchemaElement is not a RANGE key type")
	}
	return keys, nil
}

const (
	maxIndexes = 20
	maxInclude = 100 // attributes projected by name, over all indexes
)

func (t *table) setIndexes(indexes []globalSecondaryIndex) *apiError {
	if indexes != nil && len(indexes) == 0 {
		return errParameter("List of GlobalSecondaryIndexes is empty")
	}
	included := 0
	for _, in := range indexes {
		i := tableIndex{Name: *in.IndexName, Projection: deref(in.Projection.ProjectionType), Include: in.Projection.NonKeyAttributes}
		var err *apiError
		if i.Keys, err = t.schema(in.KeySchema); err != nil {
			return err
		}
		included += len(i.Include)
		switch {
		case i.Projection == "":
			return errParameter("Unknown ProjectionType: null")
		case i.Include != nil && i.Projection != "INCLUDE":
			return errParameter("ProjectionType is " + i.Projection + ", but NonKeyAttributes is specified")
		case i.Include == nil && i.Projection == "INCLUDE":
			return errParameter("ProjectionType is INCLUDE, but NonKeyAttributes is not specified")
		case t.OnDemand && in.ProvisionedThroughput != nil:
			return errParameter("ProvisionedThroughput should not be specified for index: " + i.Name + " when BillingMode is PAY_PER_REQUEST")
		case !t.OnDemand && in.ProvisionedThroughput == nil:
			return errParameter("ProvisionedThroughput is not specified for index: " + i.Name)
		case t.index(i.Name) != nil:
			return errParameter("Duplicate index name: " + i.Name)
		}
		if p := in.ProvisionedThroughput; p != nil {
			i.Throughput = throughput{*p.ReadCapacityUnits, *p.WriteCapacityUnits}
		}
		if i.Projection != "ALL" {
			for _, a := range slices.Concat(t.Keys, i.Keys) {
				i.Projected = append(i.Projected, a.Name)
			}
			i.Projected = append(i.Projected, i.Include...)
			slices.Sort(i.Projected)
			i.Projected = slices.Compact(i.Projected)
		}
		t.Indexes = append(t.Indexes, i)
	}
	switch {
	case len(indexes) > maxIndexes:
		return errParameter("GlobalSecondaryIndex count exceeds the per-table limit of 20")
	case included > maxInclude:
		return errParameter("The number of projected attributes exceeds the per-table limit of 100")
	}
	return nil
}

// checkDefinitions fails if an attribute is defined twice, or for no key.
func (t *table) checkDefinitions() *apiError {
	for i, a := range t.Attributes {
		if slices.ContainsFunc(t.Attributes[:i], func(b keyAttribute) bool { return b.Name == a.Name }) {
			return errParameter("Duplicate AttributeName in AttributeDefinitions: " + a.Name)
		}
		used := t.Keys.has(a.Name) || slices.ContainsFunc(t.Indexes, func(i tableIndex) bool { return i.Keys.has(a.Name) })
		if !used {
			return errParameter("Some AttributeDefinitions are not used. AttributeDefinitions: [" + a.Name + "]")
		}
	}
	return nil
}

func deref[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// tableResult is the answer of CreateTable and DeleteTable.
type tableResult struct{ TableDescription tableDescription }

type describeTableResult struct{ Table tableDescription }

type tableDescription struct {
	AttributeDefinitions      []describedAttribute
	BillingModeSummary        *billingModeSummary `json:",omitzero"`
	CreationDateTime          float64             // seconds since 1970
	DeletionProtectionEnabled bool
	GlobalSecondaryIndexes    []describedIndex `json:",omitzero"`
	ItemCount                 int
	KeySchema                 []describedKey
	ProvisionedThroughput     describedThroughput
	TableArn                  string
	TableId                   string
	TableName                 string
	TableSizeBytes            int
	TableStatus               string
}

type describedAttribute struct{ AttributeName, AttributeType string }

type describedKey struct{ AttributeName, KeyType string }

type billingModeSummary struct {
	BillingMode                       string
	LastUpdateToPayPerRequestDateTime float64
}

type describedThroughput struct{ NumberOfDecreasesToday, ReadCapacityUnits, WriteCapacityUnits int64 }

type describedIndex struct {
	IndexArn              string
	IndexName             string
	IndexSizeBytes        int
	IndexStatus           string
	ItemCount             int
	KeySchema             []describedKey
	Projection            describedProjection
	ProvisionedThroughput describedThroughput
}

type describedProjection struct {
	ProjectionType   string
	NonKeyAttributes []string `json:",omitzero"`
}

// describe describes a table. Counts are exact; sizes are the bytes that the
// items take in the file, where DynamoDB gives a figure up to six hours old.
func (s *Service) describe(r *readTx, t *table, status string) tableDescription {
	d := tableDescription{
		CreationDateTime:          float64(t.Created.UnixMilli()) / 1000,
		DeletionProtectionEnabled: t.DeletionProtection,
		KeySchema:                 t.Keys.describe(),
		ProvisionedThroughput:     t.Throughput.describe(),
		TableArn:                  "arn:aws:dynamodb:" + s.options.Region + ":" + s.options.AccountID + ":table/" + t.Name,
		TableId:                   t.ID,
		TableName:                 t.Name,
		TableStatus:               status,
	}
	if t.OnDemand {
		d.BillingModeSummary = &billingModeSummary{"PAY_PER_REQUEST", d.CreationDateTime}
	}
	for _, a := range t.Attributes {
		d.AttributeDefinitions = append(d.AttributeDefinitions, describedAttribute{a.Name, a.Kind.String()})
	}
	d.ItemCount, d.TableSizeBytes = measure(r.tx.Bucket(t.itemBucket()))
	for _, i := range t.Indexes {
		index := describedIndex{
			IndexArn: d.TableArn + "/index/" + i.Name, IndexName: i.Name, IndexStatus: status, KeySchema: i.Keys.describe(),
			Projection: describedProjection{i.Projection, i.Include}, ProvisionedThroughput: i.Throughput.describe(),
		}
		index.ItemCount, index.IndexSizeBytes = measure(r.tx.Bucket(t.indexBucket(i)))
		d.GlobalSecondaryIndexes = append(d.GlobalSecondaryIndexes, index)
	}
	return d
}

func measure(b *bbolt.Bucket) (count, size int) {
	if b == nil {
		return 0, 0
	}
	stats := b.Stats()
	if stats.KeyN == 0 {
		return 0, 0
	}
	return stats.KeyN, stats.LeafInuse + stats.InlineBucketInuse
}

func (k keySchema) describe() []describedKey {
	d := []describedKey{{k[0].Name, "HASH"}}
	if len(k) == 2 {
		d = append(d, describedKey{k[1].Name, "RANGE"})
	}
	return d
}

func (t throughput) describe() describedThroughput { return describedThroughput{0, t.Read, t.Write} }

func (s *Service) describeTable(in *describeTableInput) (any, *apiError) {
	var result describeTableResult
	err := s.store.view(func(r *readTx) *apiError {
		t := r.table(*in.TableName)
		if t == nil {
			return errNoTableNamed(*in.TableName)
		}
		result.Table = s.describe(r, t, "ACTIVE")
		return nil
	})
	return result, err
}

// deleteTable deletes a table at once; its answer says DELETING.
func (s *Service) deleteTable(in *deleteTableInput) (any, *apiError) {
	return s.store.update(func(w *writeTx) (any, *apiError) {
		t := w.table(*in.TableName)
		switch {
		case t == nil:
			return nil, errNoTableNamed(*in.TableName)
		case t.DeletionProtection:
			return nil, errInvalid("Resource cannot be deleted as it is currently protected against deletion. " +
				"Disable deletion protection first.")
		}
		result := tableResult{TableDescription: s.describe(&w.readTx, t, "DELETING")}
		buckets := [][]byte{t.itemBucket(), t.expiryBucket()}
		for _, i := range t.Indexes {
			buckets = append(buckets, t.indexBucket(i))
		}
		for _, b := range buckets {
			w.do(func() error { return ignoreMissing(w.tx.DeleteBucket(b)) })
		}
		w.do(func() error { return w.tx.Bucket(bucketTables).Delete([]byte(t.Name)) })
		return result, nil
	})
}

func ignoreMissing(err error) error {
	if errors.Is(err, bolterrors.ErrBucketNotFound) {
		return nil
	}
	return err
}

type listTablesResult struct {
	TableNames             []string
	LastEvaluatedTableName string `json:",omitzero"`
}

const maxTablesListed = 100

func (s *Service) listTables(in *listTablesInput) (any, *apiError) {
	limit := maxTablesListed
	if in.Limit != nil {
		limit = int(*in.Limit)
	}
	result := listTablesResult{TableNames: []string{}}
	err := s.store.view(func(r *readTx) *apiError {
		c := r.tx.Bucket(bucketTables).Cursor()
		start := deref(in.ExclusiveStartTableName)
		for name, _ := c.Seek([]byte(start)); name != nil; name, _ = c.Next() {
			switch {
			case string(name) == start:
			case len(result.TableNames) == limit:
				result.LastEvaluatedTableName = result.TableNames[limit-1]
				return nil
			default:
				result.TableNames = append(result.TableNames, string(name))
			}
		}
		return nil
	})
	return result, err
}
