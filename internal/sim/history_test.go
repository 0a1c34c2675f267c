package sim

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/skein-project/skein/cluster"
)

// spec is what the lease and the register look like to someone who sees one
// operation after the other.
type spec struct {
	held     cluster.Term // highest acquired
	released bool         // and given back
	reg      register
}

func model() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return spec{} },
		Step: func(state, input, _ any) (bool, any) {
			s, op := state.(spec), input.(Op)
			switch op.Kind {
			case OpAcquire:
				if op.Term <= s.held {
					return false, s
				}
				s.held, s.released = op.Term, false
			case OpRenew:
				return op.Term == s.held && !s.released, s
			case OpRelease:
				if op.Term == s.held {
					s.released = true
				}
			case OpWrite:
				if op.Term > s.held || op.OK != (op.Term >= s.reg.term) {
					return false, s
				}
				if op.OK {
					s.reg = register{op.Term, op.Value}
				}
			case OpRead:
				return op.Value == s.reg.value, s
			}
			return true, s
		},
		DescribeOperation: func(input, _ any) string { return input.(Op).String() },
	}
}

func check(ops []Op) porcupine.CheckResult {
	list := make([]porcupine.Operation, len(ops))
	for i, o := range ops {
		list[i] = porcupine.Operation{ClientId: o.Host, Input: o, Call: int64(o.Call), Return: int64(o.Return)}
	}
	return porcupine.CheckOperationsTimeout(model(), list, 20*time.Second)
}

// record returns the histories of n worlds that decide by majority.
func record(t *testing.T, n int, unfenced bool) (seeds []uint64, histories [][]Op) {
	for seed := *seedFlag; len(histories) < n; seed++ {
		w := NewWorld(seed)
		if !w.majority() {
			continue
		}
		w.Record()
		w.hist.unfenced = unfenced
		if res := w.Run(); len(res.Violations) > 0 {
			t.Fatalf("seed %d: %s", seed, res.Violations[0])
		}
		seeds = append(seeds, seed)
		histories = append(histories, w.History())
	}
	return seeds, histories
}

// histories is how many histories a test checks: more with SKEIN_PROVE=1.
func histories(n int) int {
	switch {
	case os.Getenv("SKEIN_PROVE") == "1":
		return 100 * n
	case testing.Short():
		return n / 3
	}
	return n
}

// TestLinearizable checks that what hosts did to the lease and to a fenced
// register looks as if it had been done one after the other: a term is
// acquired once and in order, renewed only until the next is acquired or it is
// released, and the register never takes a lower term after a higher one.
func TestLinearizable(t *testing.T) {
	seeds, list := record(t, histories(30), false)
	count := map[OpKind]int{}
	refused := 0
	for i, ops := range list {
		for _, o := range ops {
			count[o.Kind]++
			if o.Kind == OpWrite && !o.OK {
				refused++
			}
		}
		if got := check(ops); got != porcupine.Ok {
			t.Errorf("seed %d: the history of %d operations is %s", seeds[i], len(ops), got)
		}
	}
	t.Logf("histories=%d acquire=%d renew=%d release=%d write=%d refused=%d read=%d", len(list),
		count[OpAcquire], count[OpRenew], count[OpRelease], count[OpWrite], refused, count[OpRead])
	if refused == 0 || count[OpRead] == 0 || count[OpRelease] == 0 {
		t.Error("the histories show too little to prove anything")
	}
}

// TestHistoriesThatMustFail: a register without a fence, and histories in
// which one thing is false, are refused.
func TestHistoriesThatMustFail(t *testing.T) {
	_, list := record(t, histories(15), true)
	if !slices.ContainsFunc(list, func(ops []Op) bool { return check(ops) == porcupine.Illegal }) {
		t.Errorf("%d histories of a register without a fence all pass", len(list))
	}
	_, list = record(t, histories(15), false)
	for name, spoil := range map[string]func(ops []Op) bool{
		"a refused write passed": func(ops []Op) bool {
			end := ops[len(ops)-1].Return + 1
			return first(ops, func(o *Op) bool { return o.Kind == OpWrite && !o.OK }, func(o *Op) {
				o.OK, o.Call, o.Return = true, end, end
			})
		},
		"a write was refused for no reason": func(ops []Op) bool {
			return first(ops, func(o *Op) bool { return o.Kind == OpWrite && o.OK && o.Term > 1 }, func(o *Op) { o.OK = false })
		},
		"a value that nobody wrote was read": func(ops []Op) bool {
			return first(ops, func(o *Op) bool { return o.Kind == OpRead }, func(o *Op) { o.Value = 1 << 60 })
		},
		"a term was acquired twice": func(ops []Op) bool {
			had := ops[slices.IndexFunc(ops, func(o Op) bool { return o.Kind == OpAcquire })].Term
			return first(ops, func(o *Op) bool { return o.Kind == OpAcquire && o.Term > had }, func(o *Op) { o.Term = had })
		},
		"a term was renewed after the next was acquired": func(ops []Op) bool {
			i := slices.IndexFunc(ops, func(o Op) bool { return o.Kind == OpAcquire && o.Term > 1 })
			if i < 0 {
				return false
			}
			end := ops[i].Return
			return first(ops, func(o *Op) bool { return o.Kind == OpRenew && o.Term < ops[i].Term }, func(o *Op) {
				o.Call, o.Return = end+1, end+2
			})
		},
		"a term was renewed after its release": func(ops []Op) bool {
			i := slices.IndexFunc(ops, func(o Op) bool { return o.Kind == OpRelease })
			if i < 0 {
				return false
			}
			end := ops[i].Return
			return first(ops, func(o *Op) bool { return o.Kind == OpRenew && o.Term == ops[i].Term }, func(o *Op) {
				o.Call, o.Return = end+1, end+2
			})
		},
		"a term was used before it was acquired": func(ops []Op) bool {
			i := slices.IndexFunc(ops, func(o Op) bool { return o.Kind == OpAcquire && o.Term > 1 })
			if i < 0 {
				return false
			}
			return first(ops, func(o *Op) bool { return o.Kind == OpWrite && o.Term == ops[i].Term }, func(o *Op) {
				o.Call, o.Return = 0, 0
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, ops := range list {
				bad := slices.Clone(ops)
				if spoil(bad) && check(bad) == porcupine.Illegal {
					return
				}
			}
			t.Errorf("none of %d histories is refused", len(list))
		})
	}
}

// first changes the first operation that fits.
func first(ops []Op, fits func(*Op) bool, change func(*Op)) bool {
	for i := range ops {
		if fits(&ops[i]) {
			change(&ops[i])
			return true
		}
	}
	return false
}

// TestRecordingChangesNothing: a world runs the same with and without.
func TestRecordingChangesNothing(t *testing.T) {
	for seed := range uint64(5) {
		a, b := NewWorld(seed), NewWorld(seed)
		b.Record()
		if x, y := fmt.Sprint(a.Run()), fmt.Sprint(b.Run()); x != y {
			t.Errorf("seed %d: %s, recorded %s", seed, x, y)
		}
	}
}
