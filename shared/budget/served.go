package budget

import (
	"bytes"
	"strconv"
)

// served refuses a budget in which some later part could hold nothing, so that who
// was told the first part is told all of them. Where a part begins follows from what
// the parts before it took; so every piece is held to what it takes as the first of
// a part: all frames around it, the pointer "at" to it, and the room for telling
// that there is more. The part that has the tail has neither.
func (c *cutter) served(reserved cost, tail []byte) error {
	most := c.need(c.tree, reserved)
	err := c.later(func(tree *node) error {
		most = most.most(c.need(tree, reserved))
		if len(tail) > 0 {
			most = most.most(tree.frame.plus(costOf(tail)).plus(cost{bytes: 1, escaped: 1}))
		}
		return nil
	})
	if err != nil {
		return err
	}
	if len(tail) > 0 && c.last {
		most = most.most(c.tree.frame.plus(costOf(tail)).plus(cost{bytes: 1, escaped: 1}))
	}
	if name, over := c.over(most); over {
		return c.exceeded(name, most)
	}
	return nil
}

// most is the larger of two costs, budget by budget.
func (c cost) most(o cost) cost {
	return cost{max(c.bytes, o.bytes), max(c.escaped, o.escaped), max(c.items, o.items), max(c.rows, o.rows)}
}

// need is the most that a part of a tree takes that begins at any piece of it and
// holds this piece alone.
func (c *cutter) need(tree *node, reserved cost) cost {
	base := tree.frame.plus(reserved)
	return base.most(c.needIn(tree, base, costOf(`"at":""`).plus(cost{bytes: 1, escaped: 1})))
}

// needIn is need of the pieces inside a frame. base is what the frames around take,
// at what the member "at" takes that points to the frame.
func (c *cutter) needIn(n *node, base, at cost) (most cost) {
	if n.place {
		return c.needThrough(n, base, at)
	}
	for i, child := range n.children {
		if !child.inside {
			continue
		}
		deeper := at
		if !child.told { // pointers begin below what is told
			deeper = at.plus(n.stepCost(i))
		}
		most = most.most(c.needIn(child, base, deeper))
	}
	return most
}

func (c *cutter) needThrough(n *node, base, at cost) (most cost) {
	if n.kind == '"' {
		if whole := base.plus(at).plus(costOfPlain(n.plain)); !c.isOver(whole) {
			return whole
		}
		for from := 0; from < len(n.plain); {
			to := nextBoundary(n.plain, from)
			most = most.most(costOfPlain(n.plain[from:to]))
			from = to
		}
		return most.plus(base).plus(at)
	}
	for i, child := range n.children {
		around := n.around(i, false)
		n.count(&around)
		frames, pointer := base.plus(around), at.plus(n.stepCost(i))
		need := frames.plus(child.whole).plus(pointer)
		if child.inside && c.isOver(need) {
			// It is told piece by piece, unless that takes even more.
			inner := frames.plus(child.frame)
			if split := inner.plus(pointer).most(c.needIn(child, inner, pointer)); split.most(need) != split {
				need = split
			}
		}
		most = most.most(need)
	}
	return most
}

func (c *cutter) isOver(used cost) bool {
	_, over := c.over(used)
	return over
}

// stepCost is what one step of a JSON Pointer takes inside a serialized text: the
// slash, and the name with ~ and / escaped.
func (n *node) stepCost(i int) cost {
	if n.kind != '{' {
		digits := 1 + len(strconv.Itoa(i))
		return cost{bytes: digits, escaped: digits}
	}
	raw := n.names[i][1 : len(n.names[i])-1]
	more := 1 + bytes.Count(raw, []byte("~")) + bytes.Count(raw, []byte("/"))
	return costOf(raw).plus(cost{bytes: more, escaped: more})
}
