package dynamodb

import (
	"math"
	"slices"

	"github.com/pxhost/pxhost/infra/local/dynamodb/attribute"
)

const (
	readUnit  = 4 << 10 // bytes that one read unit pays for
	writeUnit = 1 << 10 // bytes that one write unit pays for
)

// consumedCapacity is what ReturnConsumedCapacity asks for, of one table.
type consumedCapacity struct {
	TableName              string
	CapacityUnits          float64
	ReadCapacityUnits      float64             `json:",omitzero"` // of transactions only
	WriteCapacityUnits     float64             `json:",omitzero"` // of transactions only
	Table                  *capacity           `json:",omitzero"`
	GlobalSecondaryIndexes map[string]capacity `json:",omitzero"`
}

type capacity struct {
	CapacityUnits      float64
	ReadCapacityUnits  float64 `json:",omitzero"`
	WriteCapacityUnits float64 `json:",omitzero"`
}

// bill adds up what one request consumes of one table.
type bill struct {
	table   float64
	indexes map[string]float64
}

func (b *bill) add(c bill) {
	b.table += c.table
	for name, units := range c.indexes {
		b.addIndex(name, units)
	}
}

func (b *bill) addIndex(name string, units float64) {
	if units == 0 {
		return
	}
	if b.indexes == nil {
		b.indexes = make(map[string]float64)
	}
	b.indexes[name] += units
}

// units is the number of units of the given size that size bytes take.
func units(size, unit int) float64 { return math.Ceil(float64(size) / float64(unit)) }

// readBill is the price of reading one item, or of finding nothing.
func readBill(item attribute.Map, consistent bool) bill {
	n := max(1, units(item.Size(), readUnit))
	if !consistent {
		n /= 2
	}
	return bill{table: n}
}

// writeBill is the price of replacing old by item, either of which may be nil:
// the larger of the two, and for each index the entries that change.
func (t *table) writeBill(old, item attribute.Map) bill {
	b := bill{table: max(1, units(old.Size(), writeUnit), units(item.Size(), writeUnit))}
	for _, i := range t.Indexes {
		before, after := i.entry(old), i.entry(item)
		switch {
		case before.Equal(after):
		case before != nil && after != nil && i.Keys.of(before).Equal(i.Keys.of(after)):
			b.addIndex(i.Name, max(units(before.Size(), writeUnit), units(after.Size(), writeUnit)))
		default:
			b.addIndex(i.Name, units(before.Size(), writeUnit)+units(after.Size(), writeUnit))
		}
	}
	return b
}

// entry is the item as it stands in the index, nil if it does not.
func (i *tableIndex) entry(item attribute.Map) attribute.Map {
	if i.entryKey(item, nil) == nil {
		return nil
	}
	return i.view(item)
}

// report returns the bill as the request asked for it, nil if it did not.
func (b bill) report(table string, asked *string) *consumedCapacity {
	if asked == nil || *asked == "NONE" {
		return nil
	}
	c := &consumedCapacity{TableName: table, CapacityUnits: b.table}
	for _, units := range b.indexes {
		c.CapacityUnits += units
	}
	if *asked == "INDEXES" {
		c.Table = &capacity{CapacityUnits: b.table}
		for name, units := range b.indexes {
			if c.GlobalSecondaryIndexes == nil {
				c.GlobalSecondaryIndexes = make(map[string]capacity)
			}
			c.GlobalSecondaryIndexes[name] = capacity{CapacityUnits: units}
		}
	}
	return c
}

// bills are the bills of a request on several tables.
type bills map[string]*bill

func (b bills) add(table string, part bill) {
	if b[table] == nil {
		b[table] = &bill{}
	}
	b[table].add(part)
}

// report lists the bills by table name.
func (b bills) report(asked *string) []*consumedCapacity {
	var list []*consumedCapacity
	for name, part := range b {
		if c := part.report(name, asked); c != nil {
			list = append(list, c)
		}
	}
	slices.SortFunc(list, func(a, b *consumedCapacity) int {
		if a.TableName < b.TableName {
			return -1
		}
		return 1
	})
	return list
}

// reportTransaction lists the bills of a transaction, whose units are doubled
// and also told by their direction.
func (b bills) reportTransaction(asked *string, writes bool) []*consumedCapacity {
	split := func(units float64) (total, read, write float64) {
		if writes {
			return 2 * units, 0, 2 * units
		}
		return 2 * units, 2 * units, 0
	}
	list := b.report(asked)
	for _, c := range list {
		c.CapacityUnits, c.ReadCapacityUnits, c.WriteCapacityUnits = split(c.CapacityUnits)
		if c.Table != nil {
			c.Table.CapacityUnits, c.Table.ReadCapacityUnits, c.Table.WriteCapacityUnits = split(c.Table.CapacityUnits)
		}
		for name, part := range c.GlobalSecondaryIndexes {
			part.CapacityUnits, part.ReadCapacityUnits, part.WriteCapacityUnits = split(part.CapacityUnits)
			c.GlobalSecondaryIndexes[name] = part
		}
	}
	return list
}
