package figure

import (
	"cmp"
	"fmt"
	"html/template"
	"math"
	"slices"
	"strconv"
	"strings"
)

// The largest graph that is drawn Node by Node: in one layer, and in all. Of more, the
// Nodes of one kind in one layer, or in some layers that follow each other, are drawn as
// one with their number, which leads to the list.
const (
	LayerNodes = 40
	GraphNodes = 300
)

// bands is how many columns a graph of too many layers is drawn in.
const bands = 20

// A Graph is a directed graph: what uses what, or where values go. It is drawn from
// left to right.
type Graph struct {
	ID    string // of its element in the page, unique there
	Title string
	// Nodes are in the order of the list, and of the drawing where edges leave it open.
	Nodes []Node
	Edges []Edge
	// ListHref is where all Nodes are listed, for those that are drawn together; "" is
	// the list that stands below the drawing.
	ListHref string
}

// A Node is one thing. Its Key is unique in its graph.
type Node struct {
	Key   string
	Kind  string // the word for it: "Flow", "Node"; many of it add an s
	Label string
	Lang  string // BCP 47 tag of the Label, or ""
	Note  string // one short line more: a version, what it runs, what becomes of it
	State string // a word about it that also chooses its look: "stale", "done"; or ""
	Href  string // where it leads, or ""
}

// An Edge leads from one Node to another. Label says what goes there; several edges
// between two Nodes are drawn as one, and each is listed.
type Edge struct {
	From, To string
	Label    string
}

// The sizes of the drawing, in pixels.
const (
	boxWidth, boxHeight = 204.0, 46.0
	columnGap, rowGap   = 64.0, 14.0
	passHeight          = 12.0 // of an edge that passes a layer
	margin              = 8.0
	labelSize, noteSize = 13.0, 11.0
)

// A vertex is a Node in its layer, a group of Nodes, or a place where an edge passes.
type vertex struct {
	node  Node
	count int // of Nodes in the group; 0: no group
	pass  bool
	layer int
	y     float64 // of its middle
	next  []*vertex
	prev  []*vertex
	at    int // in its layer
}

func (v *vertex) height() float64 {
	if v.pass {
		return passHeight
	}
	return boxHeight
}

// A line is an edge as it is drawn.
type line struct {
	from, to *vertex
	back     bool // against the direction of the layers: part of a cycle
	titles   []string
	path     []*vertex // from left to right, with both ends
}

// HTML draws the graph and lists it.
func (g Graph) HTML() template.HTML {
	id := tag(g.ID)
	nodes, edges := g.complete()
	layers, lines, groups := arrange(nodes, edges)
	width, height := place(layers)
	var m markup
	m.add(`<figure class="figure graph" id="%s">`, id)
	if len(nodes) == 0 {
		m.add(`<figcaption>%s: nothing.</figcaption></figure>`, g.Title)
		return template.HTML(m.String())
	}
	m.add("\n"+`<div class="figure-scroll" tabindex="0" role="region" aria-label="%s"><svg xmlns="http://www.w3.org/2000/svg" role="group" aria-labelledby="%s-title %s-desc" viewBox="0 0 %s %s" width="%s" height="%s">`,
		g.Title, id, id, width, height, width, height)
	m.add(`<title id="%s-title">%s</title><desc id="%s-desc">%s, %s. The same is listed below the drawing.</desc>`, id, g.Title, id, plural(len(nodes), "box", "boxes"), plural(len(edges), "arrow", "arrows"))
	for _, l := range lines {
		l.draw(&m)
	}
	list := g.ListHref
	if list == "" {
		list = "#" + id + "-list"
	}
	for _, layer := range layers {
		for _, v := range layer {
			if !v.pass {
				v.draw(&m, list)
			}
		}
	}
	m.add("</svg></div>\n<figcaption>%s.", g.Title)
	if groups > 0 {
		m.add(` There are %s, more than a drawing can show: some boxes stand for many. <a href="%s">All are listed.</a>`, plural(len(nodes), "box", "boxes"), list)
	}
	m.add("</figcaption>\n")
	g.list(&m, id, nodes, edges)
	m.add("</figure>")
	return template.HTML(m.String())
}

// complete returns the Nodes, with one for each that only an edge names, and the edges,
// each once.
func (g Graph) complete() ([]Node, []Edge) {
	known := map[string]bool{}
	var nodes []Node
	for _, n := range g.Nodes {
		if !known[n.Key] {
			known[n.Key] = true
			n.Href = leads(n.Href)
			nodes = append(nodes, n)
		}
	}
	seen := map[Edge]bool{}
	var edges []Edge
	for _, e := range g.Edges {
		if seen[e] {
			continue
		}
		seen[e] = true
		edges = append(edges, e)
		for _, key := range []string{e.From, e.To} {
			if !known[key] {
				known[key] = true
				nodes = append(nodes, Node{Key: key, Label: key, State: "missing", Note: "is not there"})
			}
		}
	}
	return nodes, edges
}

// arrange gives each Node a layer and an order in it, and puts together what is too
// much. groups is how many boxes stand for several Nodes.
func arrange(nodes []Node, edges []Edge) (layers [][]*vertex, lines []*line, groups int) {
	rank := ranks(nodes, edges)
	of, layers := together(nodes, rank)
	for _, layer := range layers {
		for _, v := range layer {
			if v.count > 0 {
				groups++
			}
		}
	}
	byEnds := map[[2]*vertex]*line{}
	for _, e := range edges {
		from, to := of[e.From], of[e.To]
		if from == to && from.count > 0 {
			continue // inside of a group
		}
		l := byEnds[[2]*vertex{from, to}]
		if l == nil {
			l = &line{from: from, to: to, back: from.layer > to.layer || from.layer == to.layer && from != to}
			byEnds[[2]*vertex{from, to}] = l
			lines = append(lines, l)
		}
		if e.Label != "" {
			l.titles = append(l.titles, e.Label)
		}
	}
	for _, l := range lines {
		a, b := l.from, l.to
		if a.layer > b.layer {
			a, b = b, a
		}
		l.path = []*vertex{a}
		for i := a.layer + 1; i < b.layer; i++ {
			p := &vertex{pass: true, layer: i}
			layers[i] = append(layers[i], p)
			l.path = append(l.path, p)
		}
		l.path = append(l.path, b)
		for i := 1; i < len(l.path) && a.layer != b.layer; i++ {
			l.path[i-1].next = append(l.path[i-1].next, l.path[i])
			l.path[i].prev = append(l.path[i].prev, l.path[i-1])
		}
	}
	order(layers)
	return layers, lines, groups
}

// ranks gives each Node the length of the longest way to it, edges that close a cycle
// left out. The edges that do are the same for the same input: a walk goes through the
// Nodes, and from each through its edges, in order.
func ranks(nodes []Node, edges []Edge) map[string]int {
	next := map[string][]string{}
	for _, e := range edges {
		next[e.From] = append(next[e.From], e.To)
	}
	const open, done = 1, 2
	state := map[string]int{}
	back := map[[2]string]bool{}
	var behind []string // each after all that it leads to
	type step struct {
		key string
		at  int
	}
	for _, n := range nodes {
		if state[n.Key] != 0 {
			continue
		}
		stack := []step{{key: n.Key}}
		state[n.Key] = open
		for len(stack) > 0 {
			top := &stack[len(stack)-1]
			if top.at == len(next[top.key]) {
				state[top.key] = done
				behind = append(behind, top.key)
				stack = stack[:len(stack)-1]
				continue
			}
			to := next[top.key][top.at]
			top.at++
			switch state[to] {
			case open:
				back[[2]string{top.key, to}] = true
			case 0:
				state[to] = open
				stack = append(stack, step{key: to})
			}
		}
	}
	rank := map[string]int{}
	for _, key := range slices.Backward(behind) {
		for _, to := range next[key] {
			if !back[[2]string{key, to}] {
				rank[to] = max(rank[to], rank[key]+1)
			}
		}
	}
	return rank
}

// together makes the boxes: one a Node where that can be read, else one for many.
func together(nodes []Node, rank map[string]int) (of map[string]*vertex, layers [][]*vertex) {
	count := 0
	for _, n := range nodes {
		count = max(count, rank[n.Key]+1)
	}
	boxes := func(span int, most int) int {
		of = map[string]*vertex{}
		layers = make([][]*vertex, (count+span-1)/span)
		perLayer := make([]int, len(layers))
		for _, n := range nodes {
			perLayer[rank[n.Key]/span]++
		}
		kinds := map[string]*vertex{}
		total := 0
		for _, n := range nodes {
			i := rank[n.Key] / span
			if perLayer[i] <= most {
				of[n.Key] = &vertex{node: n, layer: i}
			} else {
				group := strconv.Itoa(i) + " " + n.Kind
				if kinds[group] == nil {
					kinds[group] = &vertex{node: Node{Key: group, Kind: n.Kind}, layer: i}
				} else {
					of[n.Key] = kinds[group]
					kinds[group].count++
					continue
				}
				kinds[group].count = 1
				of[n.Key] = kinds[group]
			}
			layers[i] = append(layers[i], of[n.Key])
			total++
		}
		return total
	}
	if count > 0 && boxes(1, LayerNodes) > GraphNodes {
		boxes((count+bands-1)/bands, 0)
	}
	for _, layer := range layers {
		for _, v := range layer {
			if v.count > 0 {
				v.node.Label = plural(v.count, cmp.Or(v.node.Kind, "Node"), cmp.Or(v.node.Kind, "Node")+"s")
				v.node.Note, v.node.State = "see the list", "group"
			}
		}
	}
	return of, layers
}

// sweeps is how often the layers are put in order by their neighbours.
const sweeps = 12

// order puts each layer in an order in which few edges cross: by the middle of the
// neighbours, forth and back, and the best that was seen counts.
func order(layers [][]*vertex) {
	number := func() {
		for _, layer := range layers {
			for i, v := range layer {
				v.at = i
			}
		}
	}
	number()
	best, fewest := snapshot(layers), crossings(layers)
	for s := 0; s < sweeps && fewest > 0; s++ {
		for k := range layers {
			i, of := k, func(v *vertex) []*vertex { return v.prev }
			if s%2 == 1 {
				i, of = len(layers)-1-k, func(v *vertex) []*vertex { return v.next }
			}
			key := map[*vertex]float64{}
			for _, v := range layers[i] {
				key[v] = float64(v.at)
				if near := of(v); len(near) > 0 {
					sum := 0.0
					for _, n := range near {
						sum += float64(n.at)
					}
					key[v] = sum / float64(len(near))
				}
			}
			slices.SortStableFunc(layers[i], func(a, b *vertex) int { return cmp.Compare(key[a], key[b]) })
			for at, v := range layers[i] {
				v.at = at
			}
		}
		if n := crossings(layers); n < fewest {
			best, fewest = snapshot(layers), n
		}
	}
	for i := range layers {
		copy(layers[i], best[i])
	}
	number()
}

func snapshot(layers [][]*vertex) [][]*vertex {
	out := make([][]*vertex, len(layers))
	for i := range layers {
		out[i] = slices.Clone(layers[i])
	}
	return out
}

// crossings counts how often edges cross between neighbouring layers.
func crossings(layers [][]*vertex) int {
	total := 0
	for i, layer := range layers {
		if i+1 == len(layers) {
			break
		}
		// Inversions of the ends, taken in the order of the beginnings, by a tree of sums.
		size := len(layers[i+1])
		sums := make([]int, size+1)
		seen := 0
		for _, v := range layer {
			ends := make([]int, len(v.next))
			for k, n := range v.next {
				ends[k] = n.at
			}
			for _, end := range ends {
				upTo := 0
				for k := end + 1; k > 0; k -= k & -k {
					upTo += sums[k]
				}
				total += seen - upTo
			}
			for _, end := range ends {
				for k := end + 1; k <= size; k += k & -k {
					sums[k]++
				}
				seen++
			}
		}
	}
	return total
}

// place gives each vertex its height in the drawing and returns the drawing's size.
func place(layers [][]*vertex) (width, height float64) {
	for _, layer := range layers {
		y := 0.0
		for i, v := range layer {
			if i > 0 {
				y += apart(layer[i-1], v)
			}
			v.y = y
		}
	}
	for s := range 8 {
		for k := range layers {
			i, of := k, func(v *vertex) []*vertex { return v.prev }
			if s%2 == 1 {
				i, of = len(layers)-1-k, func(v *vertex) []*vertex { return v.next }
			}
			settle(layers[i], of)
		}
	}
	top, bottom := math.Inf(1), math.Inf(-1)
	for _, layer := range layers {
		for _, v := range layer {
			top, bottom = min(top, v.y-v.height()/2), max(bottom, v.y+v.height()/2)
		}
	}
	for _, layer := range layers {
		for _, v := range layer {
			v.y += margin - top
		}
	}
	if len(layers) == 0 {
		return 0, 0
	}
	n := float64(len(layers))
	return n*boxWidth + (n-1)*columnGap + 2*margin, bottom - top + 2*margin
}

func apart(a, b *vertex) float64 { return (a.height()+b.height())/2 + rowGap }

// settle moves a layer as near to its neighbours as its order and the room that each
// needs allow: the sum of squares is least. Who wants to be above its forerunner is
// pooled with it.
func settle(layer []*vertex, of func(*vertex) []*vertex) {
	type pool struct {
		sum, weight float64
		count       int
	}
	var pools []pool
	room := make([]float64, len(layer)) // from the first to each, at least
	for i, v := range layer {
		if i > 0 {
			room[i] = room[i-1] + apart(layer[i-1], v)
		}
		want, weight := v.y, 0.01
		if near := of(v); len(near) > 0 {
			want, weight = 0, 1
			for _, n := range near {
				want += n.y / float64(len(near))
			}
		}
		pools = append(pools, pool{(want - room[i]) * weight, weight, 1})
		for n := len(pools); n > 1 && pools[n-2].sum/pools[n-2].weight > pools[n-1].sum/pools[n-1].weight; n = len(pools) {
			pools[n-2] = pool{pools[n-2].sum + pools[n-1].sum, pools[n-2].weight + pools[n-1].weight, pools[n-2].count + pools[n-1].count}
			pools = pools[:n-1]
		}
	}
	i := 0
	for _, p := range pools {
		for range p.count {
			layer[i].y = p.sum/p.weight + room[i]
			i++
		}
	}
}

func (v *vertex) left() float64  { return margin + float64(v.layer)*(boxWidth+columnGap) }
func (v *vertex) right() float64 { return v.left() + boxWidth }

// draw draws an edge: through the middle of the columns that it passes, with its head
// at its end.
func (l *line) draw(m *markup) {
	class := "edge"
	if l.back {
		class += " back"
	}
	m.add(`<g class="%s">`, class)
	titles := l.titles
	if len(titles) > 12 {
		titles = append(slices.Clone(titles[:12]), fmt.Sprintf("and %d more, listed below", len(titles)-12))
	}
	m.add(`<title>%s → %s%s</title>`, l.from.node.Label, l.to.node.Label, joined(": ", titles))
	first, last := l.path[0], l.path[len(l.path)-1]
	switch {
	case l.from == l.to: // a loop over the upper right corner
		x, y := first.right(), first.y
		m.add(`<path class="way" d="M%s %sC%s %s %s %s %s %s"/>`, x-24, y-boxHeight/2, x-18, y-boxHeight/2-rowGap, x+22, y-14.0, x+7, y-8.0)
		head(m, x, y-8, -1)
	case first.layer == last.layer: // part of a cycle, on the right of both
		x, bend := first.right(), columnGap/2
		m.add(`<path class="way" d="M%s %sC%s %s %s %s %s %s"/>`, x, l.from.y+6, x+bend, l.from.y+6, x+bend, l.to.y-6, x+7, l.to.y-6)
		head(m, x, l.to.y-6, -1)
	default:
		begin, end := first.right(), last.left()
		if l.back {
			begin += 7
		} else {
			end -= 7
		}
		m.add(`<path class="way" d="M%s %s`, begin, first.y)
		x, y := begin, first.y
		for _, v := range l.path[1:] {
			to := v.left()
			if v == last {
				to = end
			}
			m.add(`C%s %s %s %s %s %s`, x+columnGap/2, y, to-columnGap/2, v.y, to, v.y)
			x, y = to, v.y
			if v.pass {
				x = v.right()
				m.add(`H%s`, x)
			}
		}
		m.add(`"/>`)
		if l.back {
			head(m, first.right(), first.y, -1)
		} else {
			head(m, last.left(), last.y, 1)
		}
	}
	m.add("</g>\n")
}

// head draws the head of an arrow whose point is at x, y; side is 1 if it comes from
// the left.
func head(m *markup, x, y, side float64) {
	m.add(`<path class="head" d="M%s %sL%s %sV%sZ"/>`, x, y, x-8*side, y-4, y+4)
}

func (v *vertex) draw(m *markup, list string) {
	n := v.node
	href := n.Href
	if v.count > 0 {
		href = list
	}
	whole := strings.TrimSpace(n.Kind + " " + n.Label)
	if v.count > 0 {
		whole = n.Label
	}
	said := whole + joined(", ", nonEmpty(n.State, n.Note))
	if href != "" {
		m.add(`<a href="%s" aria-label="%s">`, href, said)
	}
	m.add(`<g class="%s">`, strings.Join(nonEmpty("node", class("kind-", n.Kind), class("is-", n.State)), " "))
	m.add(`<title>%s</title><rect class="box" x="%s" y="%s" width="%s" height="%s" rx="6"/>`, said, v.left(), v.y-boxHeight/2, boxWidth, boxHeight)
	label, _ := fit(Visible(n.Label), (boxWidth-20)/labelSize)
	note := n.Note
	if n.Kind != "" && v.count == 0 {
		note = strings.Join(nonEmpty(n.Kind, n.State, n.Note), " · ")
	} else if v.count == 0 {
		note = strings.Join(nonEmpty(n.State, n.Note), " · ")
	}
	note, _ = fit(Visible(note), (boxWidth-20)/noteSize)
	y := v.y + 4.5
	if note != "" {
		y = v.y - 3
	}
	m.add(`<text class="label" x="%s" y="%s"`, v.left()+10, y)
	if n.Lang != "" {
		m.add(` lang="%s"`, n.Lang)
	}
	m.add(`>%s</text>`, label)
	if note != "" {
		m.add(`<text class="note" x="%s" y="%s">%s</text>`, v.left()+10, v.y+13, note)
	}
	m.add(`</g>`)
	if href != "" {
		m.add(`</a>`)
	}
	m.add("\n")
}

// list says the graph in words: each Node, and where it leads.
func (g Graph) list(m *markup, id string, nodes []Node, edges []Edge) {
	byKey := make(map[string]Node, len(nodes))
	for _, n := range nodes {
		byKey[n.Key] = n
	}
	type way struct{ from, to string }
	labels := map[way][]string{}
	targets := map[string][]string{}
	for _, e := range edges {
		w := way{e.From, e.To}
		if _, known := labels[w]; !known {
			targets[e.From] = append(targets[e.From], e.To)
			labels[w] = nil
		}
		if e.Label != "" {
			labels[w] = append(labels[w], e.Label)
		}
	}
	m.add(`<details class="figure-list" id="%s-list"><summary>The drawing as a list (%s)</summary><ul>`+"\n", id, plural(len(nodes), "box", "boxes"))
	name := func(n Node) {
		if n.Href != "" {
			m.add(`<a href="%s">`, n.Href)
		}
		if n.Lang != "" {
			m.add(`<span lang="%s">%s</span>`, n.Lang, n.Label)
		} else {
			m.add(`%s`, n.Label)
		}
		if n.Href != "" {
			m.add(`</a>`)
		}
	}
	for _, n := range nodes {
		m.add(`<li>`)
		if n.Kind != "" {
			m.add(`%s `, n.Kind)
		}
		name(n)
		m.add(`%s`, joined(", ", nonEmpty(n.State, n.Note)))
		for i, to := range targets[n.Key] {
			m.add(`%s`, [...]string{" → ", "; → "}[min(i, 1)])
			name(byKey[to])
			if l := labels[way{n.Key, to}]; len(l) > 0 {
				m.add(` (%s)`, strings.Join(l, "; "))
			}
		}
		m.add("</li>\n")
	}
	m.add("</ul></details>")
}

// class makes a class of a word: its letters and digits, in lower case.
func class(before, word string) string {
	word = strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return -1
	}, word)
	if word == "" {
		return ""
	}
	return before + word
}

func nonEmpty(texts ...string) []string {
	return slices.DeleteFunc(texts, func(s string) bool { return s == "" })
}

func joined(before string, texts []string) string {
	if len(texts) == 0 {
		return ""
	}
	return before + strings.Join(texts, ", ")
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}
