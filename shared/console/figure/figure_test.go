package figure

import (
	"encoding/xml"
	"fmt"
	"html/template"
	"io"
	"math"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// A tree is markup that was read again.
type tree struct {
	XMLName  xml.Name
	Attrs    []xml.Attr `xml:",any,attr"`
	Children []tree     `xml:",any"`
	Text     string     `xml:",chardata"`
}

func (n tree) attr(name string) string {
	for _, a := range n.Attrs {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

// all returns the elements of a name, and of a class unless it is "".
func (n tree) all(name, class string) (out []tree) {
	if n.XMLName.Local == name && (class == "" || slices.Contains(strings.Fields(n.attr("class")), class)) {
		out = append(out, n)
	}
	for _, c := range n.Children {
		out = append(out, c.all(name, class)...)
	}
	return out
}

func (n tree) text() string {
	out := n.Text
	for _, c := range n.Children {
		out += c.text()
	}
	return out
}

type fataler interface {
	Helper()
	Fatalf(string, ...any)
}

// read reads a figure as XML and holds it to what every figure must be.
func read(t fataler, html template.HTML) tree {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(string(html)))
	var out tree
	if err := d.Decode(&out); err != nil {
		t.Fatalf("no XML: %v\n%s", err, html)
	}
	if _, err := d.Token(); err != io.EOF {
		t.Fatalf("more than one element")
	}
	var walk func(tree)
	ids := map[string]bool{}
	walk = func(n tree) {
		for _, a := range n.Attrs {
			switch {
			case a.Name.Local == "style" || strings.HasPrefix(a.Name.Local, "on") || n.XMLName.Local == "script" || n.XMLName.Local == "style":
				t.Fatalf("a style or a script: <%s %s>", n.XMLName.Local, a.Name.Local)
			case a.Name.Local == "href" && leads(a.Value) == "":
				t.Fatalf("a link leads away: %q", a.Value)
			case a.Name.Local == "id" && ids[a.Value]:
				t.Fatalf("two elements have the ID %q", a.Value)
			case strings.Contains(a.Value, "NaN") || strings.Contains(a.Value, "Inf"):
				if a.Name.Local != "aria-label" && a.Name.Local != "class" {
					t.Fatalf("no number: %s=%q", a.Name.Local, a.Value)
				}
			case a.Name.Local == "id":
				ids[a.Value] = true
			}
		}
		for _, c := range n.Children {
			walk(c)
		}
	}
	walk(out)
	return out
}

var number = regexp.MustCompile(`-?[0-9]+(\.[0-9]+)?`)

func numbers(text string) (out []float64) {
	for _, s := range number.FindAllString(text, -1) {
		f, _ := strconv.ParseFloat(s, 64)
		out = append(out, f)
	}
	return out
}

// A spot is a place in a drawing.
type spot struct{ x, y float64 }

// spots returns the points of the joined lines of a plot, and the middles of its marks.
func spots(plot tree) (out []spot) {
	for _, series := range plot.all("g", "series") {
		for _, p := range series.all("path", "way") {
			n := numbers(p.attr("d"))
			for i := 0; i+1 < len(n); i += 2 {
				out = append(out, spot{n[i], n[i+1]})
			}
		}
		for _, p := range series.all("path", "mark") {
			n := numbers(p.attr("d"))
			d := p.attr("d")
			switch {
			case strings.Contains(d, "a3.5"):
				out = append(out, spot{n[0] + 3.5, n[1]})
			case strings.Contains(d, "h6"):
				out = append(out, spot{n[0] + 3, n[1] + 3})
			default:
				out = append(out, spot{n[0], n[1] + 4})
			}
		}
	}
	return out
}

func area(plot tree) (left, top, right, bottom float64) {
	r := plot.all("rect", "area")[0]
	f := func(name string) float64 { v, _ := strconv.ParseFloat(r.attr(name), 64); return v }
	return f("x"), f("y"), f("x") + f("width"), f("y") + f("height")
}

func rat(t fataler, label string) *big.Rat {
	t.Helper()
	out, ok := new(big.Rat).SetString(label)
	if !ok {
		t.Fatalf("no number on an axis: %q", label)
	}
	return out
}

var wild = rapid.OneOf(
	rapid.Float64Range(-1e3, 1e3),
	rapid.Float64(),
	rapid.SampledFrom([]float64{0, 1, -1, 1e-300, -1e-300, 1e300, -1e300, math.MaxFloat64, -math.MaxFloat64, math.SmallestNonzeroFloat64, 5e-310, 0.1, 1e15 + 0.125, 1e15, 999999.9999}),
)

// Whatever the data, the ticks of an axis go up, are evenly spread, cover the data
// closely, and stand where their labels say.
func TestTicksAreNiceNumbersThatCoverTheData(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := wild.Draw(t, "a"), wild.Draw(t, "b")
		if rapid.Bool().Draw(t, "near") {
			b = math.Nextafter(a, b)
		}
		least, most := min(a, b), max(a, b)
		s := newScale(least, most, steps)
		ticks := s.ticks()
		if len(ticks) < 2 || len(ticks) > 12 {
			t.Fatalf("%v to %v: %d ticks", least, most, len(ticks))
		}
		exact := func(v float64) *big.Rat { return rat(t, strconv.FormatFloat(v, 'g', -1, 64)) }
		low, high := rat(t, ticks[0].label), rat(t, ticks[len(ticks)-1].label)
		if low.Cmp(exact(least)) > 0 || high.Cmp(exact(most)) < 0 {
			t.Fatalf("%v to %v: ticks from %s to %s", least, most, ticks[0].label, ticks[len(ticks)-1].label)
		}
		step := new(big.Rat).Sub(rat(t, ticks[1].label), low)
		for i, tick := range ticks[1:] {
			if d := new(big.Rat).Sub(rat(t, tick.label), rat(t, ticks[i].label)); d.Sign() <= 0 || d.Cmp(step) != 0 {
				t.Fatalf("%v to %v: ticks are not even: %v", least, most, ticks)
			}
			if tick.at <= ticks[i].at {
				t.Fatalf("ticks do not go up: %v", ticks)
			}
		}
		if least != most && len(ticks) > 3 { // no more room than a step at either end
			for _, gap := range []*big.Rat{new(big.Rat).Sub(exact(least), low), new(big.Rat).Sub(high, exact(most))} {
				if gap.Cmp(step) >= 0 {
					t.Fatalf("%v to %v: a step too much: %v", least, most, ticks)
				}
			}
		}
		// A value stands where the ticks say, to what a float64 can tell of it.
		v := rapid.Float64Range(0, 1).Draw(t, "part")
		v = least/2*(1-v)*2 + most/2*v*2
		if v = min(max(v, least), most); math.IsInf(v, 0) || math.IsNaN(v) {
			return
		}
		want, _ := new(big.Rat).Quo(new(big.Rat).Sub(exact(v), low), new(big.Rat).Sub(high, low)).Float64()
		ulp := max(math.Abs(least), math.Abs(most)) * 0x1p-52
		if got := s.at(v); math.Abs(got-want) > 1e-9+2*ulp/(s.step*s.steps) && s.step > 1e-310 || got < 0 || got > 1 {
			t.Fatalf("%v to %v: %v stands at %v, not %v", least, most, v, got, want)
		}
	})
}

func TestTicksOfCommonAxes(t *testing.T) {
	for _, c := range []struct {
		least, most float64
		want        string
	}{
		{0, 10, "0 2 4 6 8 10"},
		{0, 1, "0 0.2 0.4 0.6 0.8 1"},
		{-1.05, 0.93, "-1.5 -1 -0.5 0 0.5 1"},
		{32.5, 32.5, "20 40"},
		{0, 0, "-0.5 0 0.5"},
		{60, 120, "60 80 100 120"},
		{806.5, 2000, "500 1000 1500 2000"},
		{-7, -7, "-10 -5"},
		{0, 1234567, "0 500000 1000000 1500000"},
		{0, 5e9, "0 1e9 2e9 3e9 4e9 5e9"},
		{1e-300, 1e300, "0 2e299 4e299 6e299 8e299 1e300"},
		{-math.MaxFloat64, math.MaxFloat64, "-2e308 -1e308 0 1e308 2e308"},
		{0, math.SmallestNonzeroFloat64, "0 1e-323"},
		{1e15, 1e15 + 1, "1e15 1000000000000000.2 1000000000000000.4 1000000000000000.6 1000000000000000.8 1.000000000000001e15"},
		{0.00001, 0.00005, "0.00001 0.00002 0.00003 0.00004 0.00005"},
		{0.000001, 0.000002, "1e-6 1.2e-6 1.4e-6 1.6e-6 1.8e-6 2e-6"},
	} {
		var got []string
		for _, tick := range newScale(c.least, c.most, steps).ticks() {
			got = append(got, tick.label)
		}
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("%v to %v: %s, not %s", c.least, c.most, text, c.want)
		}
	}
}

var texts = rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", "moment", "거더 검토", "<b>&amp;\"'", "a\u202eb", "\x00\x1f", "\xff\xfe", "]]>", "javascript:alert(1)", strings.Repeat("long ", 40)}))

// Whatever is in a table, what is drawn of it stands inside of the plot's area, and the
// extremes stand where they stand if nothing else is drawn.
func TestAPlotKeepsToItsAreaAndKeepsExtremes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Plot{ID: "p", Title: texts.Draw(t, "title"), X: Axis{"x", texts.Draw(t, "unit")}, Y: Axis{texts.Draw(t, "label"), "kN"}, Scatter: rapid.Bool().Draw(t, "scatter")}
		extremes := p
		extremes.Scatter = true
		all, count := 0, rapid.IntRange(0, 3).Draw(t, "series")
		for range count {
			s := Series{Label: texts.Draw(t, "name")}
			n := rapid.SampledFrom([]int{0, 1, 2, 7, 40, PlotPoints, PlotPoints + 1, 4000}).Draw(t, "points")
			values := rapid.SliceOfN(wild, 1, 12).Draw(t, "values")
			nulls := rapid.IntRange(0, 5).Draw(t, "nulls")
			sorted := rapid.Bool().Draw(t, "sorted")
			for i := range n {
				x := values[(i*7)%len(values)]
				if sorted {
					x = float64(i)
				}
				y := values[(i*i+i/3)%len(values)]
				s.Points = append(s.Points, Point{x, y, nulls > 0 && i%7 < nulls})
			}
			p.Series = append(p.Series, s)
			m := measure(0, s)
			all += m.count
			if m.count > 0 {
				extremes.Series = append(extremes.Series, Series{Points: []Point{m.lowest, m.highest, m.leftmost, m.rightmost}})
			}
		}
		html := p.HTML()
		if again := p.HTML(); again != html {
			t.Fatalf("the same plot is drawn in two ways")
		}
		got := read(t, html)
		if all == 0 {
			if len(got.all("svg", "")) > 0 || !strings.Contains(got.text(), "no values") {
				t.Fatalf("nothing is drawn as something: %s", html)
			}
			return
		}
		left, top, right, bottom := area(got)
		drawn, wanted := spots(got), spots(read(t, extremes.HTML()))
		if len(drawn) > count*(4*int(areaWidth)+4+PlotPoints)*2 {
			t.Fatalf("%d points are drawn", len(drawn))
		}
		for _, s := range drawn {
			if s.x < left-.06 || s.x > right+.06 || s.y < top-.06 || s.y > bottom+.06 {
				t.Fatalf("%v is outside of %v %v %v %v", s, left, top, right, bottom)
			}
		}
		for _, w := range wanted {
			if !slices.ContainsFunc(drawn, func(s spot) bool { return math.Abs(s.y-w.y) < .11 }) {
				t.Fatalf("an extreme is not drawn: %v", w)
			}
			if !slices.ContainsFunc(drawn, func(s spot) bool { return math.Abs(s.x-w.x) < .11 }) {
				t.Fatalf("an end is not drawn: %v", w)
			}
		}
	})
}

func line3(n int, y func(i int) float64) []Point {
	var out []Point
	for i := range n {
		out = append(out, Point{X: float64(i), Y: y(i)})
	}
	return out
}

func TestWhatAPlotSays(t *testing.T) {
	moment := Axis{"moment", "kN*m"}
	peak := line3(100000, func(i int) float64 {
		if i == 54321 {
			return 1e6
		}
		return math.Sin(float64(i))
	})
	gaps := line3(9, func(i int) float64 { return float64(i) })
	gaps[4].Null = true
	for name, c := range map[string]struct {
		plot Plot
		want []string
		not  []string
	}{
		"its units":             {Plot{X: Axis{"span", "m"}, Y: moment, Series: []Series{{"live", gaps[:3]}}}, []string{"span [m]", "moment [kN*m]", "0 kN*m at 0 m", "2 kN*m at 2 m"}, nil},
		"no unit of a ratio":    {Plot{X: Axis{"utilization", "1"}, Y: moment, Series: []Series{{"live", gaps[:3]}}}, []string{"utilization"}, []string{"[1]"}},
		"a peak among many":     {Plot{Y: moment, Series: []Series{{"live", peak}}}, []string{"each pixel column shows its extremes (here up to 100000)", "1000000 kN*m at 54321"}, nil},
		"gaps":                  {Plot{Y: moment, Series: []Series{{"live", gaps}}}, []string{"1 point without a value"}, nil},
		"no gaps":               {Plot{Y: moment, Series: []Series{{"live", gaps[:4]}}}, nil, []string{"without a value"}},
		"an order that is none": {Plot{X: Axis{"span", "m"}, Y: moment, Series: []Series{{"live", []Point{{X: 2}, {X: 1}}}}}, []string{"not in the order of span"}, nil},
		"series beyond twelve":  {Plot{Y: moment, Series: slices.Repeat([]Series{{"live", gaps[:2]}}, 30)}, []string{"12 of 30 series are drawn"}, nil},
		"an empty series":       {Plot{Y: moment, Series: []Series{{"live", gaps[:2]}, {"dead", nil}}}, []string{"dead"}, nil},
	} {
		c.plot.ID, c.plot.Title = "p", "Moments"
		text := read(t, c.plot.HTML()).text()
		for _, w := range c.want {
			if !strings.Contains(text, w) {
				t.Errorf("%s: %q is not in %.3000s", name, w, text)
			}
		}
		for _, w := range c.not {
			if strings.Contains(text, w) {
				t.Errorf("%s: %q is in it", name, w)
			}
		}
	}
	// A gap is one: two lines, of 4 points each.
	if ways := read(t, Plot{ID: "p", Series: []Series{{"s", gaps}}}.HTML()).all("g", "series")[0].all("path", "way"); len(ways) != 2 || len(numbers(ways[0].attr("d"))) != 8 {
		t.Errorf("a gap: %v", ways)
	}
	// The thinned line keeps gaps, too.
	wide := line3(4000, func(i int) float64 { return float64(i % 3) })
	for i := 1000; i < 2000; i++ {
		wide[i].Null = true
	}
	if ways := read(t, Plot{ID: "p", Series: []Series{{"s", wide}}}.HTML()).all("g", "series")[0].all("path", "way"); len(ways) != 2 {
		t.Errorf("a gap in a thinned line: %d lines", len(ways))
	}
	if html := string(Plot{ID: "p", Series: []Series{{"s", []Point{{Y: math.NaN()}, {X: math.Inf(1)}}}}}.HTML()); !strings.Contains(html, "no values") {
		t.Errorf("what is not finite is drawn: %s", html)
	}
}

// A box is where a Node stands in a drawing.
type box struct {
	label          string
	x, y           float64
	group          bool
	width, height_ float64
}

func boxesOf(g tree) (out []box) {
	for _, n := range g.all("g", "node") {
		r := n.all("rect", "box")[0]
		f := func(name string) float64 { v, _ := strconv.ParseFloat(r.attr(name), 64); return v }
		out = append(out, box{n.all("title", "")[0].Text, f("x"), f("y"), slices.Contains(strings.Fields(n.attr("class")), "is-group"), f("width"), f("height")})
	}
	return out
}

// Whatever the graph, boxes do not overlap, each Node is drawn or counted, everything is
// listed, and the list says each edge.
func TestAGraphShowsOrCountsAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := Graph{ID: "g", Title: texts.Draw(t, "title")}
		n := rapid.SampledFrom([]int{0, 1, 3, 10, 60, 300, 700}).Draw(t, "nodes")
		kinds := []string{"Function", "Flow", "Report"}
		for i := range n {
			g.Nodes = append(g.Nodes, Node{Key: fmt.Sprint("n", i), Kind: kinds[i%3], Label: fmt.Sprint("label ", i, "."), Note: "note", Href: fmt.Sprint("/console/", i)})
		}
		edges := 0
		if n > 0 {
			edges = rapid.IntRange(0, 2*n).Draw(t, "edges")
		}
		spread := rapid.IntRange(1, n+1).Draw(t, "spread")
		seed := rapid.IntRange(0, 1<<20).Draw(t, "seed")
		for i := range edges {
			seed = (seed*1103515245 + 12345) & 0x7fffffff
			from := seed >> 8 % n
			g.Edges = append(g.Edges, Edge{fmt.Sprint("n", from), fmt.Sprint("n", (from+i%spread)%n), fmt.Sprint("port ", i)})
		}
		html := g.HTML()
		if g.HTML() != html {
			t.Fatalf("the same graph is drawn in two ways")
		}
		got := read(t, html)
		boxes := boxesOf(got)
		if len(boxes) > GraphNodes {
			t.Fatalf("%d boxes", len(boxes))
		}
		svg := tree{}
		if n > 0 {
			svg = got.all("svg", "")[0]
		}
		size := func(name string) float64 { v, _ := strconv.ParseFloat(svg.attr(name), 64); return v }
		counted := 0
		for i, a := range boxes {
			if a.x < 0 || a.y < 0 || a.x+a.width > size("width") || a.y+a.height_ > size("height") {
				t.Fatalf("a box is outside of the drawing: %v", a)
			}
			for _, b := range boxes[:i] {
				if math.Abs(a.x-b.x) < a.width && math.Abs(a.y-b.y) < a.height_ {
					t.Fatalf("boxes overlap: %v %v", a, b)
				}
			}
			if a.group {
				count, _ := strconv.Atoi(strings.Fields(a.label)[0])
				counted += count
			} else {
				counted++
			}
		}
		if counted != n {
			t.Fatalf("%d of %d Nodes are drawn or counted", counted, n)
		}
		text := got.text()
		for i := range n {
			if !strings.Contains(text, fmt.Sprint("label ", i, ".")) {
				t.Fatalf("Node %d is not listed", i)
			}
		}
		list := ""
		if n > 0 {
			list = got.all("details", "")[0].text()
		}
		for i := range edges {
			if !strings.Contains(list, fmt.Sprint("port ", i)) {
				t.Fatalf("edge %d is not listed", i)
			}
		}
	})
}

func TestAGraphIsReadFromLeftToRight(t *testing.T) {
	g := Graph{ID: "impact", Title: "Touched", ListHref: "#touched", Nodes: []Node{
		{Key: "function/resistance", Kind: "Function", Label: "resistance", Note: "version 4", Href: "/console/f"},
		{Key: "flow/girder", Kind: "Flow", Label: "거더 검토", Lang: "ko", State: "moved", Href: "javascript:alert(1)"},
		{Key: "report/review", Kind: "Report", Label: "<script>", State: "stale"},
	}, Edges: []Edge{{"function/resistance", "flow/girder", "node check"}, {"function/resistance", "flow/girder", "node again"}, {"flow/girder", "report/review", ""}}}
	got := read(t, g.HTML())
	boxes := boxesOf(got)
	if len(boxes) != 3 || !(boxes[0].x < boxes[1].x && boxes[1].x < boxes[2].x) || boxes[0].y != boxes[1].y || boxes[1].y != boxes[2].y {
		t.Errorf("a chain is no line: %v", boxes)
	}
	if edges := got.all("g", "edge"); len(edges) != 2 || !strings.Contains(edges[0].text(), "node check, node again") {
		t.Errorf("edges: %v", edges)
	}
	if len(got.all("a", "")) != 2 { // the box, and its line of the list
		t.Errorf("links: %v", got.all("a", ""))
	}
	if b := got.all("g", "is-stale"); len(b) != 1 || b[0].all("text", "label")[0].Text != "<script>" {
		t.Errorf("a state: %v", b)
	}
	if b := got.all("g", "is-moved")[0].all("text", "label")[0]; b.attr("lang") != "ko" || b.Text != "거더 검토" {
		t.Errorf("a label in Korean: %v", b)
	}

	many := Graph{ID: "impact", Title: "Touched", ListHref: "#touched", Nodes: []Node{{Key: "f", Kind: "Function", Label: "f"}}}
	for i := range 2000 {
		many.Nodes = append(many.Nodes, Node{Key: fmt.Sprint(i), Kind: "Flow", Label: fmt.Sprint("flow_", i)})
		many.Edges = append(many.Edges, Edge{"f", fmt.Sprint(i), ""})
	}
	got = read(t, many.HTML())
	if boxes := boxesOf(got); len(boxes) != 2 || !strings.HasPrefix(boxes[1].label, "2000 Flows") {
		t.Errorf("many: %v", boxes)
	}
	if a := got.all("svg", "")[0].all("a", ""); len(a) != 1 || a[0].attr("href") != "#touched" || !strings.Contains(got.all("figcaption", "")[0].text(), "There are 2001 boxes") {
		t.Errorf("where all are listed: %v", a)
	}

	// What only an edge names is shown as missing; a cycle and a loop are drawn.
	got = read(t, Graph{ID: "g", Title: "t", Nodes: []Node{{Key: "a", Label: "a"}, {Key: "b", Label: "b"}}, Edges: []Edge{{"a", "b", ""}, {"b", "a", ""}, {"b", "b", ""}, {"gone", "a", "x"}}}.HTML())
	if len(got.all("g", "is-missing")) != 1 || len(got.all("g", "edge")) != 4 || len(got.all("g", "back")) != 1 || len(boxesOf(got)) != 3 {
		t.Errorf("a cycle: %v", got.text())
	}
}

// An order in which edges do not cross is found where it is near.
func TestEdgesThatNeedNotCrossDoNot(t *testing.T) {
	var g Graph
	for i := range 12 {
		g.Nodes = append(g.Nodes, Node{Key: fmt.Sprint("a", i)}, Node{Key: fmt.Sprint("b", 11-i)})
		g.Edges = append(g.Edges, Edge{fmt.Sprint("a", i), fmt.Sprint("b", i), ""})
	}
	layers, _, _ := arrange(g.Nodes, g.Edges)
	if n := crossings(layers); n != 0 {
		t.Errorf("%d crossings", n)
	}
	// A graph in which two of nine edges must cross: counted by hand.
	nodes := []Node{{Key: "a"}, {Key: "b"}, {Key: "x"}, {Key: "y"}}
	layers, _, _ = arrange(nodes, []Edge{{"a", "x", ""}, {"a", "y", ""}, {"b", "x", ""}, {"b", "y", ""}})
	if n := crossings(layers); n != 1 {
		t.Errorf("two by two, all joined: %d crossings, not 1", n)
	}
}

func TestMarksAreShown(t *testing.T) {
	for text, want := range map[string]string{
		"moment": "moment", "거더": "거더", "a\u202eb": "a[U+202E]b", "\u2066x\u2069": "[U+2066]x[U+2069]", "\x00\t": "[U+0000][U+0009]", "\xff": "\ufffd", "\ufffe": "[U+FFFE]", "\u200b": "[U+200B]",
	} {
		if got := Visible(text); got != want {
			t.Errorf("%q is shown as %q, not %q", text, got, want)
		}
	}
}

func FuzzFigures(f *testing.F) {
	f.Add("moment", "kN*m", 1.0, 2.0, -1e300, uint8(3))
	f.Add("a\u202e<\x00", "\xff", 0.0, 5e-324, 1e300, uint8(200))
	f.Fuzz(func(t *testing.T, label, unit string, a, b, c float64, n uint8) {
		points := []Point{{X: a, Y: b}, {X: b, Y: c}, {X: c, Y: a}}
		got := read(t, Plot{ID: "p", Title: label, X: Axis{label, unit}, Y: Axis{unit, label}, Series: []Series{{label, points}, {unit, points[:n%4%3]}}}.HTML())
		if r := got.all("rect", "area"); len(r) > 0 {
			left, top, right, bottom := area(got)
			for _, s := range spots(got) {
				if s.x < left-.06 || s.x > right+.06 || s.y < top-.06 || s.y > bottom+.06 {
					t.Fatalf("%v is outside", s)
				}
			}
		}
		g := Graph{ID: "g", Title: label}
		for i := range int(n) {
			key := fmt.Sprint(label, i%17)
			g.Nodes = append(g.Nodes, Node{Key: key, Kind: unit, Label: label, Lang: unit, Note: unit, State: label, Href: label})
			g.Edges = append(g.Edges, Edge{key, fmt.Sprint(label, (i*i)%23), unit})
		}
		read(t, g.HTML())
	})
}
