package quantity

import (
	"errors"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/target"
)

// Bounds of one port contract.
const (
	MaxPortDepth   = 8 // nesting of record and list
	MaxPortMembers = 256
	MaxItemsBound  = 100_000
	MaxTextLength  = 65_536 // of a string value, in code points
	maxPattern     = 512
	maxEnumText    = 256
	maxFindings    = 100
)

// pointer appends one reference token to a JSON Pointer.
func pointer(path, token string) string {
	if strings.ContainsAny(token, "~/") {
		token = strings.NewReplacer("~", "~0", "/", "~1").Replace(token)
	}
	return path + "/" + token
}

func index(path string, i int) string { return path + "/" + strconv.Itoa(i) }

// Check reports what is wrong with the contract itself; path is where the port
// stands. An empty result means that values can be decoded against it.
func (p Port) Check(path string) outcome.Findings {
	var f outcome.Findings
	p.check(&f, path, 1)
	return f
}

func (p Port) check(f *outcome.Findings, path string, depth int) {
	if depth > MaxPortDepth {
		f.Add(outcome.LimitExceeded, path, outcome.Params{"limit": MaxPortDepth, "observed": depth, "of": "portDepth"})
		return
	}
	if !slices.Contains(Types(), p.Type) {
		f.Add(outcome.SchemaInvalid, path+"/type", outcome.Params{"rule": "enum", "allowed": Types()})
		return
	}
	before := len(*f)
	only := func(given bool, member string, types ...Type) {
		if given && !slices.Contains(types, p.Type) {
			f.Add(outcome.SchemaInvalid, path+"/"+member, outcome.Params{"rule": "not_for_this_type", "type": p.Type, "allowed": types})
		}
	}
	only(p.Unit != "", "unit", NumberType)
	only(p.QuantityKind != "", "quantityKind", NumberType)
	only(!p.Shape.IsScalar(), "shape", NumberType, IntegerType, BooleanType, StringType, EnumType)
	only(p.Values != nil, "values", EnumType)
	only(p.Fields != nil, "fields", RecordType)
	only(p.Of != nil, "of", ListType)
	only(p.MinItems != nil, "minItems", ListType, TableType)
	only(p.MaxItems != nil, "maxItems", ListType, TableType)
	only(p.Columns != nil, "columns", TableType)
	only(p.MediaType != "", "mediaType", FileType)

	switch p.Type {
	case NumberType:
		p.checkUnit(f, path)
	case EnumType:
		checkValues(f, path+"/values", p.Values)
	case RecordType:
		if !count(f, path+"/fields", len(p.Fields), MaxPortMembers) {
			break
		}
		for _, key := range slices.Sorted(maps.Keys(p.Fields)) {
			at := pointer(path+"/fields", key)
			checkKey(f, at, key)
			p.Fields[key].check(f, at, depth+1)
		}
	case ListType:
		if p.Of == nil {
			f.Add(outcome.SchemaInvalid, path+"/of", outcome.Params{"rule": "required"})
		} else {
			p.Of.check(f, path+"/of", depth+1)
		}
	case TableType:
		p.checkColumns(f, path+"/columns")
	case FileType:
		if p.MediaType != "" && !mediaTypeForm.MatchString(p.MediaType) {
			f.Add(outcome.SchemaInvalid, path+"/mediaType", outcome.Params{"rule": "not_a_media_type"})
		}
	}
	p.checkShape(f, path+"/shape")
	p.checkConstraints(f, path)
	if p.Default != nil && len(*f) == before {
		_, found := p.Decode(p.Default, path+"/default")
		*f = append(*f, found...)
	}
}

var mediaTypeForm = regexp.MustCompile(`^[a-z0-9][a-z0-9!#$&^_.+-]{0,63}/[a-z0-9][a-z0-9!#$&^_.+-]{0,63}$`)

func count(f *outcome.Findings, path string, n, limit int) bool {
	switch {
	case n == 0:
		f.Add(outcome.SchemaInvalid, path, outcome.Params{"rule": "required"})
	case n > limit:
		f.Add(outcome.LimitExceeded, path, outcome.Params{"limit": limit, "observed": n})
	default:
		return true
	}
	return false
}

func checkKey(f *outcome.Findings, path, key string) {
	if !target.ValidKey(key) {
		f.Add(outcome.SchemaInvalid, path, outcome.Params{"rule": "pattern", "pattern": target.KeyPattern})
	}
}

func (p Port) checkUnit(f *outcome.Findings, path string) {
	u, ok := CheckUnit(f, path+"/unit", p.Unit)
	if p.QuantityKind == "" {
		return
	}
	at := path + "/quantityKind"
	if !target.ValidKey(p.QuantityKind) {
		f.Add(outcome.SchemaInvalid, at, outcome.Params{"rule": "pattern", "pattern": target.KeyPattern})
		return
	}
	fixed, known := kinds[p.QuantityKind]
	switch {
	case !ok || !known:
	case fixed != u.Dimension():
		f.Add(outcome.UnitMismatch, at, outcome.Params{"reason": "unit_is_not_of_this_kind", "unit": p.Unit, "quantityKind": p.QuantityKind})
	case p.QuantityKind == "temperature" && u.Difference(), p.QuantityKind == "temperature_difference" && u.Absolute():
		f.Add(outcome.UnitMismatch, at, outcome.Params{"reason": "temperature_is_not_a_difference", "unit": p.Unit, "quantityKind": p.QuantityKind})
	}
}

// CheckUnit parses a unit that stands at path and adds a finding where it is
// none: PX_SCHEMA_INVALID when it is missing, PX_UNIT_MISMATCH otherwise.
func CheckUnit(f *outcome.Findings, path, text string) (Unit, bool) {
	u, err := ParseUnit(text)
	if err == nil {
		return u, true
	}
	var bad *UnitError
	if !errors.As(err, &bad) || bad.Reason == UnitEmpty {
		f.Add(outcome.SchemaInvalid, path, outcome.Params{"rule": "required"})
		return Unit{}, false
	}
	params := outcome.Params{"reason": bad.Reason, "offset": bad.Offset}
	if bad.Use != "" {
		params["use"] = bad.Use
	}
	f.Add(outcome.UnitMismatch, path, params)
	return Unit{}, false
}

func checkValues(f *outcome.Findings, path string, values []string) {
	if !count(f, path, len(values), MaxPortMembers) {
		return
	}
	seen := map[string]bool{}
	for i, v := range values {
		switch {
		case v == "" || len(v) > maxEnumText:
			f.Add(outcome.SchemaInvalid, index(path, i), outcome.Params{"rule": "length", "minimum": 1, "maximum": maxEnumText})
		case seen[v]:
			f.Add(outcome.SchemaInvalid, index(path, i), outcome.Params{"rule": "duplicate"})
		}
		seen[v] = true
	}
}

func (p Port) checkColumns(f *outcome.Findings, path string) {
	if !count(f, path, len(p.Columns), MaxPortMembers) {
		return
	}
	seen := map[string]bool{}
	for i, c := range p.Columns {
		at := index(path, i)
		checkKey(f, at+"/columnKey", c.ColumnKey)
		if seen[c.ColumnKey] {
			f.Add(outcome.SchemaInvalid, at+"/columnKey", outcome.Params{"rule": "duplicate"})
		}
		seen[c.ColumnKey] = true
		if !c.Type.scalar() {
			f.Add(outcome.SchemaInvalid, at+"/type", outcome.Params{"rule": "enum", "allowed": Types()[:5]})
			continue
		}
		c.Port().check(f, at, 1)
	}
}

func (p Port) checkShape(f *outcome.Findings, path string) {
	dims := p.Shape.dims
	bad := len(dims) > MaxShapeDims
	for _, d := range dims {
		bad = bad || d != AnySize && (d < 1 || d > MaxShapeSize)
	}
	if bad {
		f.Add(outcome.SchemaInvalid, path, outcome.Params{"rule": "shape", "maximumDimensions": MaxShapeDims, "maximumSize": MaxShapeSize})
	}
}

func (p Port) checkConstraints(f *outcome.Findings, path string) {
	c := p.Constraints
	if c == nil {
		c = &Constraints{}
	}
	at := path + "/constraints"
	only := func(given bool, member string, types ...Type) {
		if given && !slices.Contains(types, p.Type) {
			f.Add(outcome.SchemaInvalid, at+"/"+member, outcome.Params{"rule": "not_for_this_type", "type": p.Type, "allowed": types})
		}
	}
	only(c.Minimum != nil, "minimum", NumberType, IntegerType)
	only(c.ExclusiveMinimum != nil, "exclusiveMinimum", NumberType, IntegerType)
	only(c.Maximum != nil, "maximum", NumberType, IntegerType)
	only(c.ExclusiveMaximum != nil, "exclusiveMaximum", NumberType, IntegerType)
	only(c.MinLength != nil, "minLength", StringType)
	only(c.MaxLength != nil, "maxLength", StringType)
	only(c.Pattern != nil, "pattern", StringType)
	only(c.MinItems != nil, "minItems", ListType, TableType)
	only(c.MaxItems != nil, "maxItems", ListType, TableType)

	empty := func(member, against string) {
		f.Add(outcome.SchemaInvalid, at+"/"+member, outcome.Params{"rule": "allows_nothing", "against": against})
	}
	if c.Minimum != nil && c.Maximum != nil && *c.Minimum > *c.Maximum {
		empty("minimum", "maximum")
	}
	if c.Minimum != nil && c.ExclusiveMaximum != nil && *c.Minimum >= *c.ExclusiveMaximum {
		empty("minimum", "exclusiveMaximum")
	}
	if c.ExclusiveMinimum != nil && c.Maximum != nil && *c.ExclusiveMinimum >= *c.Maximum {
		empty("exclusiveMinimum", "maximum")
	}
	if c.ExclusiveMinimum != nil && c.ExclusiveMaximum != nil && *c.ExclusiveMinimum >= *c.ExclusiveMaximum {
		empty("exclusiveMinimum", "exclusiveMaximum")
	}
	bounds(f, at+"/minLength", c.MinLength, at+"/maxLength", c.MaxLength, MaxTextLength)
	bounds(f, at+"/minItems", c.MinItems, at+"/maxItems", c.MaxItems, MaxItemsBound)
	bounds(f, path+"/minItems", p.MinItems, path+"/maxItems", p.MaxItems, MaxItemsBound)
	if (c.MinItems != nil || c.MaxItems != nil) && (p.MinItems != nil || p.MaxItems != nil) {
		f.Add(outcome.SchemaInvalid, at, outcome.Params{"rule": "items_bounded_twice"})
	}
	if c.Pattern != nil {
		if len(*c.Pattern) > maxPattern {
			f.Add(outcome.LimitExceeded, at+"/pattern", outcome.Params{"limit": maxPattern, "observed": len(*c.Pattern)})
		} else if _, err := compile(*c.Pattern); err != nil {
			f.Add(outcome.SchemaInvalid, at+"/pattern", outcome.Params{"rule": "not_re2"})
		}
	}
}

func bounds(f *outcome.Findings, leastPath string, least *int, mostPath string, most *int, limit int) {
	for _, b := range []struct {
		path string
		n    *int
	}{{leastPath, least}, {mostPath, most}} {
		if b.n != nil && (*b.n < 0 || *b.n > limit) {
			f.Add(outcome.SchemaInvalid, b.path, outcome.Params{"rule": "out_of_range", "minimum": 0, "maximum": limit})
		}
	}
	if least != nil && most != nil && *least > *most {
		f.Add(outcome.SchemaInvalid, leastPath, outcome.Params{"rule": "allows_nothing", "against": mostPath})
	}
}

var patterns = struct {
	sync.Mutex
	compiled map[string]*regexp.Regexp
}{compiled: map[string]*regexp.Regexp{}}

// compile keeps a bounded number of compiled patterns: a list asks once an item.
func compile(pattern string) (*regexp.Regexp, error) {
	patterns.Lock()
	defer patterns.Unlock()
	if re := patterns.compiled[pattern]; re != nil {
		return re, nil
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil, err
	}
	if len(patterns.compiled) >= 256 {
		clear(patterns.compiled)
	}
	patterns.compiled[pattern] = re
	return re, nil
}
