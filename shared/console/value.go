package console

import (
	"bytes"
	"cmp"
	"fmt"
	"html/template"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/console/figure"
	"github.com/pxhost/pxhost/shared/quantity"
)

// A room is how much of one value is shown: rows of a table, items of a list or a record,
// characters of a text. Of what is more the page says how much, and leads to the value's own
// page, where all of it is, a table in pages.
type room struct{ rows, items, text int }

var (
	beside = room{20, 50, 1000} // others in a page
	alone  = room{200, 1 << 16, 1 << 20}
	little = room{1, 10, 200} // in a cell
)

const shownDepth = 8

// A Value is a typed value as a page shows it: its numbers are the very digits that the
// tools answer.
type Value struct {
	Kind   string // number, text, null, list, record, table, none
	Digits string
	Unit   string // "" of what has none
	Text   string
	Items  []Named
	Table  *Table
	More   int // items, rows or characters that are not shown
}

// A Named is a member of a list or a record.
type Named struct {
	Name  string
	Value Value
}

// Cut reports whether a part of the value is not shown.
func (v Value) Cut() bool {
	if v.More > 0 || v.Table != nil && v.Table.Part() {
		return true
	}
	return slices.ContainsFunc(v.Items, func(n Named) bool { return n.Value.Cut() })
}

// readValue reads a typed value. unit is that of the contract, for a value that comes
// without one; "1" is none.
func readValue(raw canon.Raw, unit string, in room) Value {
	if len(raw) == 0 {
		return Value{Kind: "none"}
	}
	return valueOf(jsontext.Value(raw), plainUnit(unit), in, 0)
}

func plainUnit(unit string) string {
	if unit == "1" {
		return ""
	}
	return unit
}

func valueOf(raw jsontext.Value, unit string, in room, depth int) Value {
	if depth > shownDepth {
		return Value{Kind: "text", Text: "…", More: len(raw)}
	}
	switch raw.Kind() {
	case 'n':
		return Value{Kind: "null"}
	case '0':
		return Value{Kind: "number", Digits: string(raw), Unit: unit}
	case 't', 'f':
		return Value{Kind: "text", Text: string(raw)}
	case '"':
		var text string
		if json.Unmarshal(raw, &text) != nil {
			return Value{Kind: "none"}
		}
		out := Value{Kind: "text", Text: text}
		if runes := []rune(text); len(runes) > in.text {
			out.Text, out.More = string(runes[:in.text])+"…", len(runes)-in.text
		}
		return out
	case '[':
		var list []jsontext.Value
		if json.Unmarshal(raw, &list) != nil {
			return Value{Kind: "none"}
		}
		out := Value{Kind: "list", Unit: unit}
		for i, item := range list {
			if i == in.items {
				out.More = len(list) - i
				break
			}
			out.Items = append(out.Items, Named{strconv.Itoa(i + 1), valueOf(item, unit, in, depth+1)})
		}
		return out
	case '{':
		return recordOf(raw, unit, in, depth)
	}
	return Value{Kind: "none"}
}

// recordOf reads an object: a number with its unit, a table, or a record.
func recordOf(raw jsontext.Value, unit string, in room, depth int) Value {
	members, err := membersOf(raw)
	if err != nil {
		return Value{Kind: "none"}
	}
	var own struct {
		Value jsontext.Value `json:"value"`
		Unit  *string        `json:"unit"`
	}
	if json.Unmarshal(raw, &own, json.RejectUnknownMembers(true)) == nil && len(own.Value) > 0 { // as every typed value but a table travels
		if own.Unit != nil {
			unit = plainUnit(*own.Unit)
		}
		return valueOf(own.Value, unit, in, depth+1)
	}
	if t, ok := tableOf(raw, in.rows); ok {
		return Value{Kind: "table", Table: t, More: t.Rows - len(t.Cells)}
	}
	out := Value{Kind: "record"}
	for i, m := range members {
		if i == in.items {
			out.More = len(members) - i
			break
		}
		out.Items = append(out.Items, Named{m.name, valueOf(m.value, "", in, depth+1)})
	}
	return out
}

type member struct {
	name  string
	value jsontext.Value
}

// membersOf returns the members of an object in their order.
func membersOf(raw jsontext.Value) ([]member, error) {
	d := jsontext.NewDecoder(bytes.NewReader(raw))
	if _, err := d.ReadToken(); err != nil {
		return nil, err
	}
	var out []member
	for d.PeekKind() != '}' {
		name, err := d.ReadToken()
		if err != nil {
			return nil, err
		}
		text := name.String()
		value, err := d.ReadValue()
		if err != nil {
			return nil, err
		}
		out = append(out, member{text, value.Clone()})
	}
	return out, nil
}

// A Table is a table result, or the beginning of one.
type Table struct {
	Columns []Column
	Cells   [][]Cell // of the rows that are shown
	First   int      // number of the first of them, from 1
	Rows    int      // that there are
	raw     [][]jsontext.Value
}

// A Column is a column of a Table.
type Column struct {
	Key, Unit string
	Type      string
	Number    bool
	Fraction  int // the most characters behind the point, or from an exponent on
}

// A Cell is a number, cut where its point is, so that those of a column stand below each
// other; or any other value.
type Cell struct {
	Whole, Fraction string
	Number, Null    bool
	Pad             int // class of the width that Fraction gets
}

// tableOf reads a table; rows is how many of them are shown.
func tableOf(raw jsontext.Value, rows int) (*Table, bool) {
	var in struct {
		Columns []quantity.Column  `json:"columns"`
		Rows    [][]jsontext.Value `json:"rows"`
	}
	if json.Unmarshal(raw, &in, json.RejectUnknownMembers(true)) != nil || in.Columns == nil || in.Rows == nil {
		return nil, false
	}
	t := &Table{Rows: len(in.Rows), raw: in.Rows}
	for _, row := range in.Rows {
		if len(row) != len(in.Columns) {
			return nil, false
		}
	}
	for _, c := range in.Columns {
		t.Columns = append(t.Columns, Column{Key: c.ColumnKey, Unit: plainUnit(c.Unit), Type: string(c.Type), Number: c.Type == quantity.NumberType || c.Type == quantity.IntegerType})
	}
	t.show(0, rows)
	return t, true
}

// Last is the number of the last row that is shown.
func (t *Table) Last() int { return t.First + len(t.Cells) - 1 }

// Part reports whether not all rows are shown.
func (t *Table) Part() bool { return len(t.Cells) < t.Rows }

// show makes the cells of so many rows from one on, the first of which is 0.
func (t *Table) show(from, rows int) {
	t.First, t.Cells = from+1, nil
	for i := range t.Columns {
		t.Columns[i].Fraction = 0
	}
	for _, row := range t.raw[min(from, len(t.raw)):min(from+rows, len(t.raw))] {
		cells := make([]Cell, len(row))
		for i, value := range row {
			cells[i] = cellOf(value)
			if cells[i].Number {
				t.Columns[i].Fraction = max(t.Columns[i].Fraction, len(cells[i].Fraction))
			}
		}
		t.Cells = append(t.Cells, cells)
	}
	for _, row := range t.Cells {
		for i := range row {
			row[i].Pad = min(t.Columns[i].Fraction, maxPad)
		}
	}
}

// maxPad is the widest fraction that the style has a class for.
const maxPad = 24

func cellOf(raw jsontext.Value) Cell {
	switch raw.Kind() {
	case 'n':
		return Cell{Whole: "null", Null: true}
	case '0':
		whole, fraction := cutNumber(string(raw))
		return Cell{Whole: whole, Fraction: fraction, Number: true}
	case '"':
		var text string
		if json.Unmarshal(raw, &text) == nil {
			return Cell{Whole: text}
		}
	}
	return Cell{Whole: string(raw)}
}

// cutNumber cuts a number before its point or exponent.
func cutNumber(digits string) (whole, fraction string) {
	if i := strings.IndexAny(digits, ".eE"); i >= 0 {
		return digits[:i], digits[i:]
	}
	return digits, ""
}

// maxPlots is how many plots stand below one table.
const maxPlots = 4

// A Drawing is a table as plots: one for each unit, over one column.
type Drawing struct {
	Plots []template.HTML
	Over  string   // the column of the horizontal axis; "" is the number of the row
	Could []string // the columns that it could be
	Left  []string // columns that no plot shows
}

// draw draws the numeric columns of a table; nil where there is nothing to draw. over
// names the column of the horizontal axis, "" the first numeric one if there is another,
// and "#" the number of the row. id is unique in the page.
func (t *Table) draw(id, title, over string) *Drawing {
	if t == nil || t.Rows == 0 {
		return nil
	}
	var numeric []int
	for i, c := range t.Columns {
		if c.Number {
			numeric = append(numeric, i)
		}
	}
	if len(numeric) == 0 {
		return nil
	}
	out := &Drawing{}
	x := -1
	for _, i := range numeric {
		out.Could = append(out.Could, t.Columns[i].Key)
		if t.Columns[i].Key == over || over == "" && x < 0 && len(numeric) > 1 {
			x = i
		}
	}
	axis := figure.Axis{Label: "row"}
	if x >= 0 {
		out.Over = t.Columns[x].Key
		axis = figure.Axis{Label: t.Columns[x].Key, Unit: t.Columns[x].Unit}
	}
	number := func(row, column int) (float64, bool) {
		if column < 0 {
			return float64(row + 1), true
		}
		raw := t.raw[row][column]
		if raw.Kind() != '0' {
			return 0, false
		}
		v, err := strconv.ParseFloat(string(raw), 64)
		return v, err == nil
	}
	var units []string
	byUnit := map[string][]int{}
	for _, i := range numeric {
		if i == x {
			continue
		}
		u := t.Columns[i].Unit
		if byUnit[u] == nil {
			units = append(units, u)
		}
		byUnit[u] = append(byUnit[u], i)
	}
	for n, u := range units {
		columns := byUnit[u]
		if n >= maxPlots {
			for _, i := range columns {
				out.Left = append(out.Left, t.Columns[i].Key)
			}
			continue
		}
		p := figure.Plot{ID: id + "-" + strconv.Itoa(n+1), X: axis, Y: figure.Axis{Unit: u}}
		var names []string
		for _, i := range columns {
			names = append(names, t.Columns[i].Key)
			s := figure.Series{Label: t.Columns[i].Key}
			for row := range t.raw {
				px, okX := number(row, x)
				py, okY := number(row, i)
				s.Points = append(s.Points, figure.Point{X: px, Y: py, Null: !okX || !okY})
			}
			p.Series = append(p.Series, s)
		}
		p.Y.Label = strings.Join(names, ", ")
		if len(names) > 3 {
			p.Y.Label = fmt.Sprintf("%s and %d more", names[0], len(names)-1)
		}
		p.Title = cmp.Or(title, "Table") + ": " + p.Y.Label + " over " + axis.Label
		out.Plots = append(out.Plots, p.HTML())
	}
	if len(out.Plots) == 0 {
		return nil
	}
	return out
}

// shape says a shape in words; "" of a scalar.
func shape(raw canon.Raw) string {
	text := strings.TrimSpace(string(raw))
	if text == "" || text == "null" || text == `"scalar"` {
		return ""
	}
	return text
}

// bytesText says a size: the number of bytes, and from a KiB on a rounded one before it.
func bytesText(n int64) string {
	exact := strconv.FormatInt(n, 10) + " bytes"
	switch {
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB (%s)", float64(n)/(1<<20), exact)
	case n >= 1<<10:
		return fmt.Sprintf("%.1f KiB (%s)", float64(n)/(1<<10), exact)
	}
	return exact
}
