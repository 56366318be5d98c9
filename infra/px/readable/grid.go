package readable

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/pxhost/pxhost/infra/px/term"
)

// maxCell is how wide a cell may be, in columns. What is wider stands below its row.
const maxCell = 60

// A column of a grid.
type column struct {
	name   string
	cells  []string
	width  int
	number bool // every cell is a number: they end below each other
	below  bool // what it says stands below each row
	tall   []bool
}

// seeBelow stands in the row for what is too tall or too wide for it.
const seeBelow = "(below)"

// grid writes objects as rows. Members that take too much room for a column, or that are
// to be copied, stand below each row. keys, under a name of their own, are the first
// column; else it is the key of the target, where rows have one.
func (p *page) grid(indent, keyName string, keys []string, rows []jsontext.Value) {
	var columns []*column
	byName := map[string]*column{}
	values := make([]map[string]jsontext.Value, len(rows))
	for i, row := range rows {
		values[i] = map[string]jsontext.Value{}
		for name, v := range Members(row) {
			values[i][name] = v
			if byName[name] == nil {
				byName[name] = &column{name: name, cells: make([]string, len(rows)), number: true, tall: make([]bool, len(rows))}
				columns = append(columns, byName[name])
			}
		}
	}
	for _, c := range columns {
		cells, tall := 0, 0
		for i := range rows {
			v, ok := values[i][c.name]
			if !ok {
				continue
			}
			cells++
			text, fits := inline(c.name, v, maxCell)
			if c.tall[i] = !fits || isTarget(v) || isScope(v); c.tall[i] {
				text = seeBelow
				tall++
			} else {
				c.number = c.number && v.Kind() == '0'
			}
			c.cells[i] = text
		}
		c.below = 2*tall > cells
		c.measure()
	}
	if keys == nil && len(rows) > 0 {
		if target, ok := values[0]["target"]; ok && isTarget(target) {
			keyName, _ = ShortTarget(target)
			for i := range rows {
				_, key := ShortTarget(values[i]["target"])
				keys = append(keys, key)
			}
		}
	}
	if keys != nil {
		first := &column{name: keyName, cells: make([]string, len(rows))}
		for i, k := range keys {
			first.cells[i] = term.Plain(k)
		}
		first.measure()
		columns = slices.Insert(columns, 0, first)
	}
	// The widest give way until the rest fits.
	for {
		total, widest := len(indent)-2, -1
		for i, c := range columns {
			if c.below {
				continue
			}
			total += c.width + 2
			if i > 0 && (widest < 0 || c.width > columns[widest].width) {
				widest = i
			}
		}
		if total <= p.Columns || widest < 0 {
			break
		}
		columns[widest].below = true
	}
	var line []*column
	under := 0
	for _, c := range columns {
		if !c.below {
			line = append(line, c)
		}
		if !c.below && !slices.Contains(c.tall, true) {
			continue
		}
		if w := term.Width(term.Plain(c.name)); w <= maxName {
			under = max(under, w)
		}
	}
	if len(line) > 0 {
		head := make([]string, len(line))
		for i, c := range line {
			head[i] = term.Plain(c.name)
		}
		p.line(indent, line, head, term.Dim)
	}
	for i := range rows {
		if len(line) > 0 {
			cells := make([]string, len(line))
			for j, c := range line {
				cells[j] = c.cells[i]
			}
			p.line(indent, line, cells, "")
		}
		mark := indent + "  "
		if len(line) == 0 {
			mark = indent + "- "
		}
		for _, c := range columns {
			if !c.below && (c.tall == nil || !c.tall[i]) {
				continue
			}
			v, ok := values[i][c.name]
			if !ok {
				continue
			}
			p.member(mark, indent+"  ", under, c.name, v)
			mark = indent + "  "
		}
	}
}

func (c *column) measure() {
	c.width = term.Width(term.Plain(c.name))
	for _, cell := range c.cells {
		c.width = max(c.width, term.Width(cell))
	}
}

// line writes one line of a grid, without blanks at its end.
func (p *page) line(indent string, columns []*column, cells []string, colour term.Colour) {
	var out strings.Builder
	for i, c := range columns {
		if i > 0 {
			out.WriteString("  ")
		}
		if c.number {
			out.WriteString(term.PadLeft(cells[i], c.width))
		} else {
			out.WriteString(term.Pad(cells[i], c.width))
		}
	}
	text := strings.TrimRight(out.String(), " ")
	if colour != "" {
		text = p.Paint(colour, text)
	}
	p.printf("%s%s\n", indent, text)
}

// table writes a table value: the unit of a column stands in its head.
func (p *page) table(indent string, heads, rows []jsontext.Value) {
	columns := make([]*column, len(heads))
	for i, h := range heads {
		name := textOf(member(h, "columnKey"))
		if name == "" {
			name = compact(h)
		}
		if unit := textOf(member(h, "unit")); unit != "" {
			name += " [" + unit + "]"
		}
		columns[i] = &column{name: name, cells: make([]string, len(rows)), number: true}
	}
	for i, row := range rows {
		for j, cell := range elements(row) {
			for j >= len(columns) { // a row that is longer than the head hides nothing
				columns = append(columns, &column{cells: make([]string, len(rows))})
			}
			text, ok := inline("", cell, 1<<30)
			if !ok {
				text = term.Plain(compact(cell))
			}
			columns[j].cells[i] = text
			columns[j].number = columns[j].number && (cell.Kind() == '0' || cell.Kind() == 'n')
		}
	}
	head := make([]string, len(columns))
	for i, c := range columns {
		c.measure()
		head[i] = term.Plain(c.name)
	}
	p.line(indent, columns, head, term.Dim)
	for i := range rows {
		cells := make([]string, len(columns))
		for j, c := range columns {
			cells[j] = c.cells[i]
		}
		p.line(indent, columns, cells, "")
	}
	if len(rows) == 0 {
		p.printf("%sno rows\n", indent)
	}
}
