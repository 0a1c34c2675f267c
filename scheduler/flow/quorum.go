package flow

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/skein-project/skein/cluster/flow"
)

// checkQuorum refuses a quorum of more steps than it counts.
func checkQuorum(d flow.Def) error {
	plain := slices.DeleteFunc(slices.Clone(d.Steps), func(s flow.Step) bool { return s.Role != "" })
	if d.Quorum < 0 || d.Quorum > len(plain) {
		return flow.Invalidf("quorum is %d of %d steps without a role", d.Quorum, len(plain))
	}
	return nil
}

// completed is how many steps have completed of those that a quorum counts, and how many
// may still.
func completed(m *Machine) (done, left int) {
	for i := range m.steps {
		switch s := m.steps[i].state; {
		case m.g.nodes[i].Role != "":
		case !s.Final():
			left++
		case m.g.nodes[i].good(s):
			done++
		}
	}
	return done, left
}

// weigh ends a run with a quorum once that is reached, or cannot be any more.
func weigh(m *Machine) {
	q := m.g.Def.Quorum
	if q == 0 || m.ending.stopping {
		return
	}
	switch done, left := completed(m); {
	case done >= q && left > 0:
		m.stop(flow.StopQuorum, fmt.Sprintf("%d steps have completed", done), false, true)
	case done+left < q:
		why := fmt.Sprintf("%d steps have completed, and %d must", done, q)
		m.failure = cmp.Or(m.failure, why)
		m.stop(flow.StopFailure, why, false, true)
	}
}
