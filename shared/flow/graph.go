package flow

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// graph is who needs whom: for each Node, in order, the Nodes of the document
// that its inputs are bound to. Dangling bindings are no edges.
type graph struct {
	keys  []string // in order
	index map[string]int
	needs [][]int // per Node, sorted, without repetition
}

func graphOf(doc Document) graph {
	g := graph{keys: slices.Sorted(maps.Keys(doc.Nodes)), index: make(map[string]int, len(doc.Nodes))}
	for i, key := range g.keys {
		g.index[key] = i
	}
	g.needs = make([][]int, len(g.keys))
	for i, key := range g.keys {
		for _, binding := range doc.Nodes[key].InputBindings {
			if from, ok := binding.(NodeResult); ok {
				if j, ok := g.index[from.NodeKey]; ok {
					g.needs[i] = append(g.needs[i], j)
				}
			}
		}
		slices.Sort(g.needs[i])
		g.needs[i] = slices.Compact(g.needs[i])
	}
	return g
}

// order returns the Nodes so that each comes after all it needs, the smallest
// key first where there is a choice, and whether no cycle prevented that. Nodes
// of a cycle and all that need them are left out.
func (g graph) order() (sorted []int, acyclic bool) {
	missing := make([]int, len(g.keys))
	neededBy := make([][]int, len(g.keys))
	var ready []int // a sorted list; Flows are small enough for insertion
	for i, needs := range g.needs {
		missing[i] = len(needs)
		for _, j := range needs {
			neededBy[j] = append(neededBy[j], i)
		}
		if len(needs) == 0 {
			ready = append(ready, i)
		}
	}
	for len(ready) > 0 {
		i := ready[0]
		ready = ready[1:]
		sorted = append(sorted, i)
		for _, j := range neededBy[i] {
			if missing[j]--; missing[j] == 0 {
				at, _ := slices.BinarySearch(ready, j)
				ready = slices.Insert(ready, at, j)
			}
		}
	}
	return sorted, len(sorted) == len(g.keys)
}

// cycles returns cycles such that every Node that is on any cycle is on one of
// them: for each such Node, in order of keys, that none of the earlier ones
// holds, a shortest cycle through it. All cycles of a graph may be exponentially
// many; these are at most as many as Nodes, and breaking them all and asking
// again ends.
//
// A cycle is given in the direction in which values flow, from its smallest key.
func (g graph) cycles() [][]string {
	var out [][]string
	covered := make([]bool, len(g.keys))
	component := g.components()
	for start := range g.keys {
		if covered[start] {
			continue
		}
		cycle := g.shortestCycle(start, component)
		if cycle == nil {
			continue
		}
		for _, i := range cycle {
			covered[i] = true
		}
		out = append(out, g.named(cycle))
	}
	slices.SortFunc(out, func(a, b []string) int {
		return cmp.Or(strings.Compare(a[0], b[0]), slices.Compare(a, b))
	})
	return out
}

// shortestCycle searches breadth first along needs, inside start's strongly
// connected component, for the way back to start.
func (g graph) shortestCycle(start int, component []int) []int {
	from := map[int]int{}
	queue := []int{start}
	for len(queue) > 0 {
		i := queue[0]
		queue = queue[1:]
		for _, j := range g.needs[i] {
			if j == start {
				cycle := []int{i}
				for i != start {
					i = from[i]
					cycle = append(cycle, i)
				}
				// cycle runs from the last need back to start: the direction of
				// values is from what is needed to what needs it.
				return cycle
			}
			if _, seen := from[j]; !seen && component[j] == component[start] {
				from[j] = i
				queue = append(queue, j)
			}
		}
	}
	return nil
}

// named turns the cycle so that its smallest key comes first.
func (g graph) named(cycle []int) []string {
	least := slices.Index(cycle, slices.Min(cycle))
	out := make([]string, 0, len(cycle))
	for k := range cycle {
		out = append(out, g.keys[cycle[(least+k)%len(cycle)]])
	}
	return out
}

// components numbers the strongly connected components (Tarjan, without
// recursion, so that a long chain is no deep stack).
func (g graph) components() []int {
	n := len(g.keys)
	const unseen = -1
	var (
		number, low = make([]int, n), make([]int, n)
		component   = make([]int, n)
		next        = make([]int, n) // position in needs
		onStack     = make([]bool, n)
		stack, path []int
		count, id   int
	)
	for i := range number {
		number[i] = unseen
	}
	enter := func(i int) {
		number[i], low[i] = count, count
		count++
		stack, path = append(stack, i), append(path, i)
		onStack[i] = true
	}
	for root := range n {
		if number[root] != unseen {
			continue
		}
		enter(root)
		for len(path) > 0 {
			i := path[len(path)-1]
			if next[i] < len(g.needs[i]) {
				j := g.needs[i][next[i]]
				next[i]++
				switch {
				case number[j] == unseen:
					enter(j)
				case onStack[j]:
					low[i] = min(low[i], number[j])
				}
				continue
			}
			path = path[:len(path)-1]
			if len(path) > 0 {
				low[path[len(path)-1]] = min(low[path[len(path)-1]], low[i])
			}
			if low[i] == number[i] {
				for {
					j := stack[len(stack)-1]
					stack = stack[:len(stack)-1]
					onStack[j] = false
					component[j] = id
					if j == i {
						break
					}
				}
				id++
			}
		}
	}
	return component
}
