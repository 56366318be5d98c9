package quantity

import (
	"bytes"
	"maps"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/outcome"
)

// Decode reads a typed value against the port and checks its constraints. It
// reports every finding, up to 100; path is where the value stands. The Value is
// meaningful only where nothing was found.
//
// The form of a typed value:
//
//	number, integer, boolean, string, enum   {"value": 1.5, "unit": "m"}
//	the same with a shape                    {"value": [[1, 2], [3, 4]], "unit": "m"}
//	list of these                            {"value": [1, 2, 3], "unit": "m"}
//	list of records, lists, tables, files    {"value": [{"value": …}, …]}
//	record                                   {"value": {"span": {"value": 1, "unit": "m"}}}
//	table                                    {"columns": [{"columnKey", "type", "unit"}], "rows": [[…]]}
//	file                                     {"value": {"digest", "mediaType", "bytes"}}
//	null, of any type                        {"value": null}
//
// "unit" belongs to numbers alone; left out, it is "1". A number in another unit
// that fits is converted to the port's, rounded once. Nothing else is converted
// or repaired.
func (p Port) Decode(raw canon.Raw, path string) (Value, outcome.Findings) {
	var f finder
	v := p.decode(&f, raw, path, 1)
	if f.findings.Refused() {
		return nil, f.findings
	}
	p.checkValue(&f, v, path, true)
	if f.findings.Refused() {
		return nil, f.findings
	}
	return v, f.findings
}

// finder collects findings up to a bound, so that a table of bad cells does not
// become an answer of megabytes.
type finder struct {
	findings outcome.Findings
	full     bool
	decoder  jsontext.Decoder // of elements
}

func (f *finder) add(code outcome.Code, path string, params outcome.Params) {
	switch {
	case f.full:
	case len(f.findings) >= maxFindings:
		f.full = true
		f.findings.Add(outcome.LimitExceeded, path, outcome.Params{"limit": maxFindings, "observed": maxFindings + 1, "of": "findings"})
	default:
		f.findings.Add(code, path, params)
	}
}

func (f *finder) wrongType(path string, expected any, raw canon.Raw) {
	f.add(outcome.TypeMismatch, path, outcome.Params{"expected": expected, "found": kindName(raw)})
}

func kindName(raw canon.Raw) string {
	switch raw.Kind() {
	case 'n':
		return "null"
	case 't', 'f':
		return "boolean"
	case '"':
		return "string"
	case '0':
		return "number"
	case '{':
		return "object"
	case '[':
		return "array"
	}
	return "malformed"
}

// members reads an object strictly. ok is false, with a finding, where raw is
// not one.
func (f *finder) members(raw canon.Raw, path string, expected any) (map[string]canon.Raw, bool) {
	if raw.Kind() != '{' {
		f.wrongType(path, expected, raw)
		return nil, false
	}
	out := map[string]canon.Raw{}
	if err := json.Unmarshal(raw, &out); err != nil {
		f.add(outcome.SchemaInvalid, path, outcome.Params{"rule": "json"})
		return nil, false
	}
	return out, true
}

func (f *finder) only(members map[string]canon.Raw, path string, allowed ...string) {
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if !slices.Contains(allowed, name) {
			f.add(outcome.SchemaUnknownField, pointer(path, name), outcome.Params{"allowed": allowed})
		}
	}
}

// elements reads an array strictly.
func (f *finder) elements(raw canon.Raw, path string, expected any) ([]canon.Raw, bool) {
	if raw.Kind() != '[' {
		f.wrongType(path, expected, raw)
		return nil, false
	}
	d := &f.decoder
	d.Reset(bytes.NewBuffer(raw))
	if _, err := d.ReadToken(); err != nil {
		f.add(outcome.SchemaInvalid, path, outcome.Params{"rule": "json"})
		return nil, false
	}
	var out []canon.Raw
	for d.PeekKind() != ']' {
		v, err := d.ReadValue()
		if err != nil {
			f.add(outcome.SchemaInvalid, path, outcome.Params{"rule": "json"})
			return nil, false
		}
		// The decoder's own slice does not outlive the next read; raw does.
		end := d.InputOffset()
		out = append(out, raw[end-int64(len(v)):end])
	}
	return out, true
}

func (p Port) decode(f *finder, raw canon.Raw, path string, depth int) Value {
	if depth > MaxPortDepth {
		f.add(outcome.LimitExceeded, path, outcome.Params{"limit": MaxPortDepth, "observed": depth, "of": "portDepth"})
		return nil
	}
	members, ok := f.members(raw, path, "typed value")
	if !ok {
		return nil
	}
	inner, given := members["value"]
	if given && inner.Kind() == 'n' {
		f.only(members, path, "value", "unit")
		if _, unit := members["unit"]; unit {
			p.valueUnit(f, members["unit"], path+"/unit")
		}
		return Null{}
	}
	if p.Type == TableType {
		return p.decodeTable(f, members, path)
	}
	f.only(members, path, "value", "unit")
	unit := One
	element := p.element()
	if text, ok := members["unit"]; ok || element.Type == NumberType {
		if unit, ok = element.valueUnit(f, text, path+"/unit"); !ok {
			// The magnitude is still worth a look: all findings at once.
			unit = element.parsedOrOne()
		}
	}
	if !given {
		f.add(outcome.SchemaInvalid, path+"/value", outcome.Params{"rule": "required"})
		return nil
	}
	at := path + "/value"
	switch {
	case p.Type == RecordType:
		return p.decodeRecord(f, inner, at, depth)
	case p.Type == FileType:
		return decodeFile(f, inner, at)
	case p.Type == ListType && p.Of == nil:
		f.add(outcome.TypeMismatch, at, outcome.Params{"expected": p.Type, "found": "list without element type"})
		return nil
	case p.Type == ListType && !p.Of.Type.scalar():
		items, ok := f.elements(inner, at, p.Type)
		if !ok || !p.fewEnough(f, len(items), at) {
			return nil
		}
		out := make(List, len(items))
		for i, item := range items {
			out[i] = p.Of.decode(f, item, index(at, i), depth+1)
		}
		return out
	case p.Type == ListType:
		items, ok := f.elements(inner, at, p.Type)
		if !ok || !p.fewEnough(f, len(items), at) {
			return nil
		}
		out := make(List, len(items))
		for i, item := range items {
			if item.Kind() == 'n' { // a null element, whatever its shape
				out[i] = Null{}
				continue
			}
			out[i] = p.Of.decodeArray(f, item, unit, index(at, i))
		}
		return out
	default:
		return p.decodeArray(f, inner, unit, at)
	}
}

// element is the port whose unit a value's "unit" tells: the port itself, or the
// element of a list of scalars.
func (p Port) element() Port {
	if p.Type == ListType && p.Of != nil && p.Of.Type.scalar() {
		return *p.Of
	}
	return p
}

func (p Port) parsedOrOne() Unit {
	if u, ok := p.ParsedUnit(); ok {
		return u
	}
	return One
}

func (p Port) fewEnough(f *finder, n int, path string) bool {
	if n > MaxItemsBound {
		f.add(outcome.LimitExceeded, path, outcome.Params{"limit": MaxItemsBound, "observed": n})
		return false
	}
	return true
}

// valueUnit reads the unit of a value for this port. Left out it is "1".
func (p Port) valueUnit(f *finder, raw canon.Raw, path string) (Unit, bool) {
	unit := One
	if raw != nil {
		if p.Type != NumberType {
			f.add(outcome.UnitMismatch, path, outcome.Params{"reason": "only_numbers_have_a_unit", "type": p.Type})
			return One, false
		}
		var text string
		if raw.Kind() != '"' || json.Unmarshal(raw, &text) != nil {
			f.wrongType(path, StringType, raw)
			return One, false
		}
		var bad outcome.Findings
		u, ok := CheckUnit(&bad, path, text)
		if !ok {
			f.add(bad[0].Code, path, bad[0].Params)
			return One, false
		}
		unit = u
	}
	to, ok := p.ParsedUnit()
	if !ok || !unit.Convertible(to) {
		reason := "dimension"
		switch {
		case raw == nil:
			reason = "required"
		case ok && unit.Dimension() == to.Dimension():
			reason = "temperature_is_not_a_difference"
		}
		f.add(outcome.UnitMismatch, path, outcome.Params{"reason": reason, "expected": p.Unit})
		return One, false
	}
	return unit, true
}

// decodeArray reads a bare scalar, or the nested arrays of the port's shape.
func (p Port) decodeArray(f *finder, raw canon.Raw, unit Unit, path string) Value {
	return p.array(f, raw, path, p.Shape.sizes(), func(raw canon.Raw, path string) Value { return p.decodeScalar(f, raw, unit, path) })
}

// array reads nested arrays along dims, which are those of the shape with their sizes as
// far as they are known (see sized), and every cell by cell.
func (p Port) array(f *finder, raw canon.Raw, path string, dims []int, cell func(raw canon.Raw, path string) Value) Value {
	if len(dims) == 0 {
		return cell(raw, path)
	}
	if raw.Kind() != '[' {
		f.add(outcome.ShapeMismatch, path, outcome.Params{"expected": p.Shape.String(), "found": kindName(raw)})
		return nil
	}
	items, ok := f.elements(raw, path, "array")
	if !ok {
		return nil
	}
	if !sized(dims, len(items)) {
		f.add(outcome.ShapeMismatch, path, outcome.Params{"expected": p.Shape.String(), "size": len(items)})
		return nil
	}
	out := make(List, len(items))
	for i, item := range items {
		out[i] = p.array(f, item, index(path, i), dims[1:], cell)
	}
	return out
}

// plainScalar reads what most cells are, a small number or a boolean, without a
// path to tell findings at. ok is false for everything else, good or not.
func (p Port) plainScalar(raw canon.Raw, from, to Unit) (v Value, ok bool) {
	switch kind := raw.Kind(); {
	case kind == '0' && p.Type == NumberType:
		x, err := strconv.ParseFloat(string(raw), 64)
		if err != nil || math.Abs(x) > MaxInteger {
			return nil, false
		}
		n := Number{x + 0, from}.In(to)
		return n, !math.IsInf(n.Magnitude, 0)
	case kind == 't' || kind == 'f':
		return Boolean(kind == 't'), p.Type == BooleanType
	}
	return nil, false
}

func (p Port) decodeScalar(f *finder, raw canon.Raw, unit Unit, path string) Value {
	switch kind := raw.Kind(); {
	case kind == 'n':
		return Null{}
	case p.Type == BooleanType && (kind == 't' || kind == 'f'):
		return Boolean(kind == 't')
	case (p.Type == StringType || p.Type == EnumType) && kind == '"':
		var text string
		if json.Unmarshal(raw, &text) != nil {
			f.add(outcome.SchemaInvalid, path, outcome.Params{"rule": "json"})
			return nil
		}
		return Text(text)
	case p.Type == NumberType && kind == '0':
		x, ok := readNumber(f, raw, path)
		if !ok {
			return nil
		}
		to := p.parsedOrOne()
		n := Number{x, unit}.In(to)
		if math.IsInf(n.Magnitude, 0) {
			f.add(outcome.SchemaInvalid, path, outcome.Params{"rule": "range", "unit": to.String()})
			return nil
		}
		return n
	case p.Type == IntegerType && kind == '0':
		x, ok := readNumber(f, raw, path)
		switch {
		case !ok:
			return nil
		case !whole(string(raw)):
			f.add(outcome.TypeMismatch, path, outcome.Params{"expected": p.Type, "found": "number"})
			return nil
		case math.Abs(x) > MaxInteger:
			f.add(outcome.SchemaInvalid, path, outcome.Params{"rule": "range", "minimum": MinInteger, "maximum": MaxInteger})
			return nil
		}
		return Integer(x)
	}
	f.wrongType(path, p.Type, raw)
	return nil
}

// whole reports whether a number of the JSON grammar is an integer. It looks at
// the digits: binary64 has an integer next to 1e-400 and to 3.00000000000000000001.
func whole(text string) bool {
	mantissa, exponent := text, 0
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		mantissa = text[:i]
		e, err := strconv.Atoi(text[i+1:])
		if err != nil { // beyond int, and so beyond any number of digits
			if e = math.MaxInt; text[i+1] == '-' {
				e = math.MinInt
			}
		}
		exponent = e
	}
	integer, fraction, _ := strings.Cut(strings.TrimPrefix(mantissa, "-"), ".")
	digits := strings.TrimRight(integer+fraction, "0")
	// The last digit that is not 0 is the so-manieth behind the point.
	return digits == "" || len(digits)-len(integer) <= exponent
}

// readNumber reads a JSON number that binary64 holds: no overflow, and no whole
// number that would be rounded, but for the spelling that Encode gives a number.
// -0 is 0.
func readNumber(f *finder, raw canon.Raw, path string) (float64, bool) {
	text := string(raw)
	x, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsInf(x, 0) || math.IsNaN(x) {
		f.add(outcome.SchemaInvalid, path, outcome.Params{"rule": "range"})
		return 0, false
	}
	if math.Abs(x) > MaxInteger && !strings.ContainsAny(text, ".eE") {
		whole, ok := new(big.Int).SetString(text, 10)
		if !ok {
			return 0, false
		}
		// What canonical encoding writes for a large number is its shortest
		// spelling, which need not be exact: it is that number.
		exact, accuracy := new(big.Float).SetInt(whole).Float64()
		if (accuracy != big.Exact || exact != x) && text != strconv.FormatFloat(x, 'f', -1, 64) {
			f.add(outcome.SchemaInvalid, path, outcome.Params{"rule": "range", "minimum": MinInteger, "maximum": MaxInteger})
			return 0, false
		}
	}
	return x + 0, true // -0 + 0 is 0
}

func (p Port) decodeRecord(f *finder, raw canon.Raw, path string, depth int) Value {
	members, ok := f.members(raw, path, p.Type)
	if !ok {
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(members)) {
		if _, ok := p.Fields[key]; !ok {
			f.add(outcome.SchemaUnknownField, pointer(path, key), outcome.Params{"reason": "record_has_no_such_field"})
		}
	}
	out := make(Record, len(p.Fields))
	for _, key := range slices.Sorted(maps.Keys(p.Fields)) {
		item, ok := members[key]
		if !ok {
			f.add(outcome.SchemaInvalid, pointer(path, key), outcome.Params{"rule": "required"})
			continue
		}
		out[key] = p.Fields[key].decode(f, item, pointer(path, key), depth+1)
	}
	return out
}

func decodeFile(f *finder, raw canon.Raw, path string) Value {
	members, ok := f.members(raw, path, FileType)
	if !ok {
		return nil
	}
	f.only(members, path, "digest", "mediaType", "bytes")
	var out File
	for name, into := range map[string]any{"digest": &out.Digest, "mediaType": &out.MediaType, "bytes": &out.Bytes} {
		item, ok := members[name]
		if !ok {
			f.add(outcome.SchemaInvalid, path+"/"+name, outcome.Params{"rule": "required"})
		} else if json.Unmarshal(item, into) != nil {
			f.wrongType(path+"/"+name, map[string]string{"digest": "string", "mediaType": "string", "bytes": "integer"}[name], item)
		}
	}
	return out
}

// decodeTable reads columns and rows. The columns of a value name exactly the
// columns of the port, in any order; units may differ where they fit.
func (p Port) decodeTable(f *finder, members map[string]canon.Raw, path string) Value {
	f.only(members, path, "columns", "rows")
	order, units, ok := p.decodeColumns(f, members["columns"], path+"/columns")
	rows, given := members["rows"]
	if !given {
		f.add(outcome.SchemaInvalid, path+"/rows", outcome.Params{"rule": "required"})
		return nil
	}
	list, isList := f.elements(rows, path+"/rows", "rows")
	if !ok || !isList || !p.fewEnough(f, len(list), path+"/rows") {
		return nil
	}
	ports, targets := make([]Port, len(order)), make([]Unit, len(order))
	for i, column := range order {
		ports[i] = p.Columns[column].Port()
		targets[i] = ports[i].parsedOrOne()
	}
	rowsPath := path + "/rows"
	out := Table{Columns: p.Columns, Rows: make([][]Value, len(list))}
	for r, raw := range list {
		at := index(rowsPath, r)
		cells, ok := f.elements(raw, at, "row")
		if !ok {
			continue
		}
		if len(cells) != len(order) {
			f.add(outcome.ShapeMismatch, at, outcome.Params{"expected": len(order), "size": len(cells)})
			continue
		}
		row := make([]Value, len(order))
		for i, cell := range cells {
			v, ok := ports[i].plainScalar(cell, units[i], targets[i])
			if !ok {
				v = ports[i].decodeScalar(f, cell, units[i], index(at, i))
			}
			row[order[i]] = v
		}
		out.Rows[r] = row
	}
	return out
}

// decodeColumns returns, for each column of the value, the column of the port
// and the unit its cells are in.
func (p Port) decodeColumns(f *finder, raw canon.Raw, path string) (order []int, units []Unit, ok bool) {
	if raw == nil {
		f.add(outcome.SchemaInvalid, path, outcome.Params{"rule": "required"})
		return nil, nil, false
	}
	list, ok := f.elements(raw, path, "columns")
	if !ok {
		return nil, nil, false
	}
	seen := make([]bool, len(p.Columns))
	for i, item := range list {
		at := index(path, i)
		members, isObject := f.members(item, at, "column")
		if !isObject {
			ok = false
			continue
		}
		f.only(members, at, "columnKey", "type", "unit")
		var key, kind string
		if raw := members["columnKey"]; raw.Kind() != '"' || json.Unmarshal(raw, &key) != nil {
			f.add(outcome.SchemaInvalid, at+"/columnKey", outcome.Params{"rule": "required"})
			ok = false
			continue
		}
		j := slices.IndexFunc(p.Columns, func(c Column) bool { return c.ColumnKey == key })
		switch {
		case j < 0:
			f.add(outcome.ShapeMismatch, at+"/columnKey", outcome.Params{"reason": "table_has_no_such_column"})
			ok = false
			continue
		case seen[j]:
			f.add(outcome.SchemaInvalid, at+"/columnKey", outcome.Params{"rule": "duplicate"})
			ok = false
			continue
		}
		seen[j] = true
		column := p.Columns[j].Port()
		if raw, given := members["type"]; given {
			if raw.Kind() != '"' || json.Unmarshal(raw, &kind) != nil || Type(kind) != column.Type {
				f.add(outcome.TypeMismatch, at+"/type", outcome.Params{"expected": column.Type})
				ok = false
			}
		} else {
			f.add(outcome.SchemaInvalid, at+"/type", outcome.Params{"rule": "required"})
			ok = false
		}
		unit := One
		if raw, given := members["unit"]; given || column.Type == NumberType {
			var fits bool
			if unit, fits = column.valueUnit(f, raw, at+"/unit"); !fits {
				ok = false
			}
		}
		order, units = append(order, j), append(units, unit)
	}
	for j, was := range seen {
		if !was {
			f.add(outcome.ShapeMismatch, path, outcome.Params{"reason": "column_missing", "columnKey": p.Columns[j].ColumnKey})
			ok = false
		}
	}
	return order, units, ok
}

// CheckValue reports how a value breaks the port's contract: type, unit, shape,
// nullability and constraints. It serves results of Components and Functions and
// what a Conversion made; path is where the value stands, in the form of Decode.
func (p Port) CheckValue(v Value, path string) outcome.Findings {
	var f finder
	p.checkValue(&f, v, path, true)
	return f.findings
}

// checkValue walks v. wrapped says that v stands in a typed value of its own, so
// that its content is under "/value".
func (p Port) checkValue(f *finder, v Value, path string, wrapped bool) {
	at := path
	if wrapped && p.Type != TableType {
		at = path + "/value"
	}
	if _, null := v.(Null); null {
		if !p.AllowsNull() {
			f.add(outcome.NullabilityMismatch, path, outcome.Params{"expected": p.Type, "found": "null"})
		}
		return
	}
	if !p.Shape.IsScalar() {
		p.checkArray(f, v, at, p.Shape.sizes())
		return
	}
	switch p.Type {
	case RecordType:
		r, ok := v.(Record)
		if !ok {
			break
		}
		for _, key := range slices.Sorted(maps.Keys(p.Fields)) {
			item, ok := r[key]
			if !ok {
				f.add(outcome.ShapeMismatch, pointer(at, key), outcome.Params{"reason": "field_missing"})
				continue
			}
			p.Fields[key].checkValue(f, item, pointer(at, key), true)
		}
		for _, key := range slices.Sorted(maps.Keys(r)) {
			if _, ok := p.Fields[key]; !ok {
				f.add(outcome.ShapeMismatch, pointer(at, key), outcome.Params{"reason": "record_has_no_such_field"})
			}
		}
		return
	case ListType:
		list, ok := v.(List)
		if !ok || p.Of == nil {
			break
		}
		p.checkCount(f, len(list), at)
		for i, item := range list {
			p.Of.checkValue(f, item, index(at, i), !p.Of.Type.scalar())
		}
		return
	case TableType:
		t, ok := v.(Table)
		if !ok {
			break
		}
		p.checkTable(f, t, path)
		return
	case FileType:
		file, ok := v.(File)
		if !ok {
			break
		}
		p.checkFile(f, file, at)
		return
	default:
		p.checkScalar(f, v, at)
		return
	}
	f.add(outcome.TypeMismatch, at, outcome.Params{"expected": p.Type})
}

func (p Port) checkArray(f *finder, v Value, path string, dims []int) {
	if len(dims) == 0 {
		element := p
		element.Shape = Scalar
		element.checkValue(f, v, path, false)
		return
	}
	list, ok := v.(List)
	if !ok || !sized(dims, len(list)) {
		f.add(outcome.ShapeMismatch, path, outcome.Params{"expected": p.Shape.String()})
		return
	}
	for i, item := range list {
		p.checkArray(f, item, index(path, i), dims[1:])
	}
}

func (p Port) checkCount(f *finder, n int, path string) {
	least, most := p.items()
	if n < least {
		f.add(outcome.ConstraintViolated, path, outcome.Params{"constraint": "minItems", "limit": least, "observed": n})
	}
	if most >= 0 && n > most {
		f.add(outcome.ConstraintViolated, path, outcome.Params{"constraint": "maxItems", "limit": most, "observed": n})
	}
}

func (p Port) checkTable(f *finder, t Table, path string) {
	if len(t.Columns) != len(p.Columns) {
		f.add(outcome.ShapeMismatch, path+"/columns", outcome.Params{"expected": len(p.Columns), "size": len(t.Columns)})
		return
	}
	cells := make([]Port, len(p.Columns))
	for i, c := range p.Columns {
		if cells[i] = c.Port(); t.Columns[i].ColumnKey != c.ColumnKey {
			f.add(outcome.ShapeMismatch, index(path+"/columns", i), outcome.Params{"reason": "column_missing", "columnKey": c.ColumnKey})
			return
		}
	}
	rowsPath := path + "/rows"
	p.checkCount(f, len(t.Rows), rowsPath)
	for r, row := range t.Rows {
		if len(row) != len(cells) {
			f.add(outcome.ShapeMismatch, index(rowsPath, r), outcome.Params{"expected": len(cells), "size": len(row)})
			continue
		}
		for i, cell := range row {
			if plainlyFits(cells[i], cell) {
				continue
			}
			cells[i].checkValue(f, cell, index(index(rowsPath, r), i), false)
		}
	}
}

// plainlyFits spares the path of a cell that has nothing to violate.
func plainlyFits(p Port, v Value) bool {
	if p.Constraints != nil {
		return false
	}
	switch v := v.(type) {
	case Number:
		return p.Type == NumberType && v.Unit.String() == p.Unit && !math.IsInf(v.Magnitude, 0) && !math.IsNaN(v.Magnitude)
	case Boolean:
		return p.Type == BooleanType
	}
	return false
}

func (p Port) checkFile(f *finder, file File, path string) {
	if !digestForm(file.Digest) {
		f.add(outcome.SchemaInvalid, path+"/digest", outcome.Params{"rule": "not_a_digest"})
	}
	if !mediaTypeForm.MatchString(file.MediaType) {
		f.add(outcome.SchemaInvalid, path+"/mediaType", outcome.Params{"rule": "not_a_media_type"})
	} else if p.MediaType != "" && file.MediaType != p.MediaType {
		f.add(outcome.TypeMismatch, path+"/mediaType", outcome.Params{"expected": p.MediaType})
	}
	if file.Bytes < 0 || file.Bytes > MaxInteger {
		f.add(outcome.SchemaInvalid, path+"/bytes", outcome.Params{"rule": "out_of_range", "minimum": 0, "maximum": MaxInteger})
	}
}

func digestForm(s string) bool {
	hex, ok := strings.CutPrefix(s, "sha256:")
	return ok && len(hex) == 64 && strings.Trim(hex, "0123456789abcdef") == ""
}

func (p Port) checkScalar(f *finder, v Value, path string) {
	c := p.Constraints
	if c == nil {
		c = &Constraints{}
	}
	switch v := v.(type) {
	case Number:
		u, ok := p.ParsedUnit()
		switch {
		case p.Type != NumberType:
			f.add(outcome.TypeMismatch, path, outcome.Params{"expected": p.Type, "found": "number"})
		case math.IsNaN(v.Magnitude) || math.IsInf(v.Magnitude, 0):
			f.add(outcome.ConstraintViolated, path, outcome.Params{"constraint": "finite"})
		case !ok || !v.Unit.Same(u):
			f.add(outcome.UnitMismatch, path, outcome.Params{"expected": p.Unit})
		default:
			c.checkBounds(f, v.Magnitude, p.Unit, path)
		}
		return
	case Integer:
		switch {
		case p.Type != IntegerType:
			f.add(outcome.TypeMismatch, path, outcome.Params{"expected": p.Type, "found": "integer"})
		case v > MaxInteger || v < MinInteger:
			f.add(outcome.SchemaInvalid, path, outcome.Params{"rule": "range", "minimum": MinInteger, "maximum": MaxInteger})
		default:
			c.checkBounds(f, float64(v), "", path)
		}
		return
	case Boolean:
		if p.Type == BooleanType {
			return
		}
	case Text:
		switch p.Type {
		case EnumType:
			if !slices.Contains(p.Values, string(v)) {
				f.add(outcome.ConstraintViolated, path, outcome.Params{"constraint": "values", "limit": p.Values})
			}
			return
		case StringType:
			c.checkText(f, string(v), path)
			return
		}
	}
	f.add(outcome.TypeMismatch, path, outcome.Params{"expected": p.Type})
}

func (c *Constraints) checkBounds(f *finder, x float64, unit, path string) {
	violated := func(name string, limit float64) {
		params := outcome.Params{"constraint": name, "limit": limit}
		if unit != "" {
			params["unit"] = unit
		}
		f.add(outcome.ConstraintViolated, path, params)
	}
	if c.Minimum != nil && x < *c.Minimum {
		violated("minimum", *c.Minimum)
	}
	if c.ExclusiveMinimum != nil && x <= *c.ExclusiveMinimum {
		violated("exclusiveMinimum", *c.ExclusiveMinimum)
	}
	if c.Maximum != nil && x > *c.Maximum {
		violated("maximum", *c.Maximum)
	}
	if c.ExclusiveMaximum != nil && x >= *c.ExclusiveMaximum {
		violated("exclusiveMaximum", *c.ExclusiveMaximum)
	}
}

func (c *Constraints) checkText(f *finder, text, path string) {
	n := utf8.RuneCountInString(text)
	if n > MaxTextLength {
		f.add(outcome.LimitExceeded, path, outcome.Params{"limit": MaxTextLength, "observed": n})
		return
	}
	if c.MinLength != nil && n < *c.MinLength {
		f.add(outcome.ConstraintViolated, path, outcome.Params{"constraint": "minLength", "limit": *c.MinLength, "observed": n})
	}
	if c.MaxLength != nil && n > *c.MaxLength {
		f.add(outcome.ConstraintViolated, path, outcome.Params{"constraint": "maxLength", "limit": *c.MaxLength, "observed": n})
	}
	if c.Pattern != nil {
		if re, err := compile(*c.Pattern); err != nil || !re.MatchString(text) {
			f.add(outcome.ConstraintViolated, path, outcome.Params{"constraint": "pattern", "limit": *c.Pattern})
		}
	}
}
