package figure

import (
	"cmp"
	"html/template"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// What is drawn as it is: so many points of a series, and so many series. Of a longer
// series each pixel column shows its first, its least, its greatest and its last value;
// further series stand in the words below.
const (
	PlotPoints = 1500
	PlotSeries = 12
	// plotMarks is how many points of a line are marked one by one.
	plotMarks = 120
)

// A Plot shows numeric series over one axis. Both scales are linear.
type Plot struct {
	ID     string // of its element in the page, unique there
	Title  string
	X, Y   Axis
	Series []Series
	// Scatter draws the points alone. Otherwise they are joined, in the order of X
	// where that never goes back.
	Scatter bool
}

// An Axis has a label and the unit of its numbers; "" and "1" are of numbers without.
type Axis struct{ Label, Unit string }

// A Series is a named list of points.
type Series struct {
	Label  string
	Points []Point
}

// A Point is a pair of numbers. A null of a table is Null; so is what is not finite,
// which no stored value is.
type Point struct {
	X, Y float64
	Null bool // nothing stands here: a line has a gap
}

func (p Point) null() bool {
	return p.Null || math.IsNaN(p.X) || math.IsInf(p.X, 0) || math.IsNaN(p.Y) || math.IsInf(p.Y, 0)
}

// Number writes a number as stored values and the answers of tools have it.
func Number(v float64) string { return jsontext.Float(v).String() }

// The sizes of a plot, in pixels.
const (
	areaWidth, areaHeight = 560.0, 300.0
	tickSize              = 12.0
	steps                 = 5
)

// A strand is a series as it is drawn: runs of points that are joined.
type strand struct {
	runs    [][]Point
	thinned bool
	joined  bool
	// of the whole series
	count, nulls        int
	lowest, highest     Point // by Y
	leftmost, rightmost Point // by X
	index               int
	label               string
}

// HTML draws the plot and says it in words.
func (p Plot) HTML() template.HTML {
	id := tag(p.ID)
	var strands []strand
	count := 0
	for i, s := range p.Series {
		strands = append(strands, measure(i, s))
		count += strands[i].count
	}
	var m markup
	m.add(`<figure class="figure plot" id="%s">`+"\n", id)
	if count == 0 {
		m.add(`<figcaption>%s: no values to draw.</figcaption></figure>`, p.Title)
		return template.HTML(m.String())
	}
	drawn := slices.DeleteFunc(slices.Clone(strands), func(s strand) bool { return s.count == 0 })
	drawn = drawn[:min(len(drawn), PlotSeries)]
	x, y := p.scales(drawn)
	for i, s := range drawn {
		drawn[i] = p.thin(s, p.Series[s.index].Points, x)
	}
	p.draw(&m, id, drawn, x, y)
	m.add("<figcaption>%s.", p.Title)
	p.remarks(&m, strands, drawn)
	m.add("</figcaption>\n")
	p.words(&m, strands, drawn)
	m.add("</figure>")
	return template.HTML(m.String())
}

// measure finds what there is in a series.
func measure(index int, s Series) strand {
	out := strand{index: index, label: s.Label, joined: true}
	previous := math.Inf(-1)
	for _, p := range s.Points {
		if p.null() {
			out.nulls++
			continue
		}
		if out.count == 0 {
			out.lowest, out.highest, out.leftmost, out.rightmost = p, p, p, p
		}
		out.count++
		if p.Y < out.lowest.Y {
			out.lowest = p
		}
		if p.Y > out.highest.Y {
			out.highest = p
		}
		if p.X < out.leftmost.X {
			out.leftmost = p
		}
		if p.X > out.rightmost.X {
			out.rightmost = p
		}
		out.joined = out.joined && p.X >= previous
		previous = p.X
	}
	return out
}

func (p Plot) scales(drawn []strand) (x, y scale) {
	left, right, low, high := math.Inf(1), math.Inf(-1), math.Inf(1), math.Inf(-1)
	for _, s := range drawn {
		left, right = min(left, s.leftmost.X), max(right, s.rightmost.X)
		low, high = min(low, s.lowest.Y), max(high, s.highest.Y)
	}
	return newScale(left, right, steps), newScale(low, high, steps)
}

// thin makes the runs that are drawn. A short series is drawn as it is. Of a long one
// each pixel column keeps four of its points, so that no value is lost that could be
// seen.
func (p Plot) thin(s strand, points []Point, x scale) strand {
	s.joined = s.joined && !p.Scatter
	var run []Point
	end := func() {
		if len(run) > 0 {
			s.runs = append(s.runs, run)
		}
		run = nil
	}
	if len(points) <= PlotPoints {
		for _, point := range points {
			if point.null() {
				end()
				continue
			}
			run = append(run, point)
		}
		end()
		return s
	}
	s.thinned = true
	type column struct {
		used                                              bool
		first, last, lowest, highest, leftmost, rightmost int
		gap                                               bool // a null before its first point, after the column before
	}
	columns := make([]column, int(areaWidth)+1)
	gap := false
	for i, point := range points {
		if point.null() {
			gap = true
			continue
		}
		c := &columns[int(x.at(point.X)*areaWidth)]
		if !c.used {
			*c = column{true, i, i, i, i, i, i, gap}
		}
		gap = false
		c.last = i
		if point.Y < points[c.lowest].Y {
			c.lowest = i
		}
		if point.Y > points[c.highest].Y {
			c.highest = i
		}
		if point.X < points[c.leftmost].X {
			c.leftmost = i
		}
		if point.X > points[c.rightmost].X {
			c.rightmost = i
		}
	}
	for _, c := range columns {
		if !c.used {
			continue
		}
		keep := []int{c.lowest, c.highest, c.leftmost, c.rightmost}
		if s.joined {
			keep = []int{c.first, c.lowest, c.highest, c.last}
		}
		slices.Sort(keep)
		if c.gap {
			end()
		}
		for _, i := range slices.Compact(keep) {
			run = append(run, points[i])
		}
	}
	end()
	return s
}

// draw draws axes, ticks and strands.
func (p Plot) draw(m *markup, id string, drawn []strand, x, y scale) {
	xs, ys := x.ticks(), y.ticks()
	wide := 0.0
	for _, t := range ys {
		wide = max(wide, em(t.label)*tickSize)
	}
	last := em(xs[len(xs)-1].label) * tickSize / 2
	first := em(xs[0].label) * tickSize / 2
	left, top := math.Ceil(max(wide+14, first+4)), 30.0
	width, height := left+areaWidth+max(last, 12)+4, top+areaHeight+46
	px := func(v float64) float64 { return left + v*areaWidth }
	py := func(v float64) float64 { return top + (1-v)*areaHeight }
	m.add(`<div class="figure-scroll" tabindex="0" role="region" aria-label="%s"><svg xmlns="http://www.w3.org/2000/svg" role="img" aria-labelledby="%s-title %s-desc" viewBox="0 0 %s %s" width="%s" height="%s">`,
		p.Title, id, id, width, height, width, height)
	m.add(`<title id="%s-title">%s</title><desc id="%s-desc">%s from %s to %s; %s from %s to %s. Values in words stand below.</desc>`+"\n", id, p.Title, id,
		p.X.text(), xs[0].label, xs[len(xs)-1].label, p.Y.text(), ys[0].label, ys[len(ys)-1].label)
	m.add(`<rect class="area" x="%s" y="%s" width="%s" height="%s"/>`+"\n", left, top, areaWidth, areaHeight)
	// Long labels would run into each other: every second, third, … is written.
	every := 1
	for _, t := range xs {
		room := areaWidth / float64(len(xs)-1)
		every = max(every, int(math.Ceil((em(t.label)*tickSize+10)/room)))
	}
	for i, t := range xs {
		m.add(`<path class="grid" d="M%s %sV%s"/>`, px(t.at), top, top+areaHeight)
		if i%every == 0 {
			m.add(`<text class="tick x" x="%s" y="%s">%s</text>`, px(t.at), top+areaHeight+17, t.label)
		}
	}
	for _, t := range ys {
		m.add(`<path class="grid" d="M%s %sH%s"/><text class="tick y" x="%s" y="%s">%s</text>`, left, py(t.at), left+areaWidth, left-6, py(t.at)+4, t.label)
	}
	m.add(`<text class="axis x" x="%s" y="%s">%s</text><text class="axis y" x="%s" y="%s">%s</text>`+"\n", left+areaWidth/2, height-8, p.X.text(), 4.0, 16.0, p.Y.text())
	for i, s := range drawn {
		m.add(`<g class="series s%s">`, strconv.Itoa(i%PlotSeries))
		m.add(`<title>%s</title>`, s.label)
		marks := !s.joined || s.count <= plotMarks
		for _, run := range s.runs {
			if s.joined && len(run) > 1 {
				m.add(`<path class="way" d="`)
				for k, point := range run {
					m.add(`%s%s %s`, [...]string{"M", "L"}[min(k, 1)], px(x.at(point.X)), py(y.at(point.Y)))
				}
				m.add(`"/>`)
			}
			for _, point := range run {
				if marks || len(run) == 1 {
					mark(m, i, px(x.at(point.X)), py(y.at(point.Y)))
					m.add(`<title>%s: %s, %s</title></path>`, s.label, with(Number(point.X), p.X.Unit), with(Number(point.Y), p.Y.Unit))
				}
			}
		}
		m.add("</g>\n")
	}
	m.add("</svg></div>\n")
}

// mark begins the mark of a point. Series differ in form as well as in colour.
func mark(m *markup, series int, x, y float64) {
	switch series % 4 {
	case 0:
		m.add(`<path class="mark" d="M%s %sa3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0 -7 0Z">`, x-3.5, y)
	case 1:
		m.add(`<path class="mark" d="M%s %sh6v6h-6Z">`, x-3, y-3)
	case 2:
		m.add(`<path class="mark" d="M%s %sl4 7h-8Z">`, x, y-4)
	case 3:
		m.add(`<path class="mark" d="M%s %sl4 4l-4 4l-4 -4Z">`, x, y-4)
	}
}

func (a Axis) text() string {
	if a.Unit == "" || a.Unit == "1" {
		return a.Label
	}
	return strings.TrimSpace(a.Label + " [" + a.Unit + "]")
}

func with(number, unit string) string {
	if unit == "" || unit == "1" {
		return number
	}
	return number + " " + unit
}

// remarks says what the drawing is not.
func (p Plot) remarks(m *markup, strands, drawn []strand) {
	if most := slices.MaxFunc(drawn, func(a, b strand) int { return cmp.Compare(a.count, b.count) }); slices.ContainsFunc(drawn, func(s strand) bool { return s.thinned }) {
		m.add(` Of more than %s points each pixel column shows its extremes (here up to %s): no peak is left out.`, strconv.Itoa(PlotPoints), strconv.Itoa(most.count))
	}
	if with := slices.DeleteFunc(slices.Clone(strands), func(s strand) bool { return s.count == 0 }); len(with) > len(drawn) {
		m.add(` %s of %s series are drawn; the others stand below.`, strconv.Itoa(len(drawn)), strconv.Itoa(len(with)))
	}
	nulls := 0
	for _, s := range strands {
		nulls += s.nulls
	}
	if nulls > 0 {
		m.add(` %s without a value: gaps.`, plural(nulls, "point", "points"))
	}
	if !p.Scatter && slices.ContainsFunc(drawn, func(s strand) bool { return !s.joined }) {
		m.add(` Points are not joined: they are not in the order of %s.`, p.X.Label)
	}
}

// words says each series: how many values, and its extremes with their places, as they
// are and not as the scales round them.
func (p Plot) words(m *markup, strands, drawn []strand) {
	m.add(`<div class="figure-scroll plain" tabindex="0" role="region" aria-label="Series of the drawing"><table class="legend"><thead><tr><th scope="col">Series</th><th scope="col">Values</th><th scope="col">Least</th><th scope="col">Greatest</th></tr></thead><tbody>` + "\n")
	for _, s := range strands {
		m.add(`<tr><th scope="row">`)
		if i := slices.IndexFunc(drawn, func(d strand) bool { return d.index == s.index }); i >= 0 {
			m.add(`<svg class="key s%s" aria-hidden="true" viewBox="0 0 28 12" width="28" height="12">`, strconv.Itoa(i%PlotSeries))
			if drawn[i].joined {
				m.add(`<path class="way" d="M0 6H28"/>`)
			}
			mark(m, i, 14, 6)
			m.add(`</path></svg> `)
		}
		m.add(`%s</th><td>%s</td>`, s.label, strconv.Itoa(s.count))
		if s.count == 0 {
			m.add(`<td></td><td></td></tr>` + "\n")
			continue
		}
		for _, point := range []Point{s.lowest, s.highest} {
			m.add(`<td>%s at %s</td>`, with(Number(point.Y), p.Y.Unit), with(Number(point.X), p.X.Unit))
		}
		m.add("</tr>\n")
	}
	m.add("</tbody></table></div>\n")
}
