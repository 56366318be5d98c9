package flow

// A StageKind says who carries out a stage.
type StageKind string

// The kinds of stages.
const (
	BuiltinStage StageKind = "builtin" // built-in Components, evaluated in process
	SandboxStage StageKind = "sandbox" // Functions, all in one sandbox job
)

// A Stage is a group of Nodes that runs as one step of a Run.
type Stage struct {
	Kind StageKind `json:"kind"`
	// NodeKeys are in an order in which each Node comes after those of the same
	// stage that it needs. The Nodes of a sandbox stage do not need each other.
	NodeKeys []string `json:"nodeKeys"`
}

// stages lays an acyclic document out: all built-in Nodes that need no result of
// a Function which did not run yet are one stage, then all Functions whose inputs
// are there are one sandbox stage, and so on. sorted is g's order.
//
// That is the least number of sandbox jobs in a row: a Function is in the n-th
// sandbox stage exactly when the longest chain of Functions that it needs has n-1.
func stages(doc Document, g graph, sorted []int) []Stage {
	level := make([]int, len(g.keys)) // sandbox stages that must be over before the Node's own stage
	var out []Stage
	deepest := 0
	python := func(i int) bool {
		_, ok := doc.Nodes[g.keys[i]].Target.(FunctionTarget)
		return ok
	}
	for _, i := range sorted {
		for _, j := range g.needs[i] {
			over := level[j]
			if python(j) {
				over++
			}
			level[i] = max(level[i], over)
		}
		deepest = max(deepest, level[i])
	}
	for l := range deepest + 1 {
		builtin, sandbox := Stage{Kind: BuiltinStage}, Stage{Kind: SandboxStage}
		for _, i := range sorted {
			switch {
			case level[i] != l:
			case python(i):
				sandbox.NodeKeys = append(sandbox.NodeKeys, g.keys[i])
			default:
				builtin.NodeKeys = append(builtin.NodeKeys, g.keys[i])
			}
		}
		for _, stage := range []Stage{builtin, sandbox} {
			if len(stage.NodeKeys) > 0 {
				out = append(out, stage)
			}
		}
	}
	return out
}
