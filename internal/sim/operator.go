package sim

import (
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/lease"
)

// operate lets an operator ask the holder for other voters or another mode.
// What the core refuses changes nothing, so much of it is nonsense.
func (w *World) operate() {
	if !w.operated {
		return
	}
	h := w.believer()
	if w.rng.IntN(8) == 0 {
		h = w.nodes[w.rng.IntN(len(w.nodes))]
	}
	for _, n := range w.nodes {
		if n.abstains() {
			return // who is to vote then is not well asked
		}
	}
	if h == nil {
		return
	}
	var req lease.SetVoters
	switch w.rng.IntN(4) {
	case 0:
		req.Auto = true
	case 1:
		req.Mode = []cluster.Mode{cluster.ModeAuto, cluster.ModeQuorum, cluster.ModeAvailable}[w.rng.IntN(3)]
	default:
		// Mostly most of the hosts, in any order.
		for _, i := range w.rng.Perm(len(w.nodes)) {
			if len(req.Voters) == 0 || w.rng.IntN(4) > 0 {
				req.Voters = append(req.Voters, w.nodes[i].id)
			}
		}
	}
	h.setVoters(req)
}

// undo gives the choice of voters back to the holder, and then that of the
// mode: in available mode a holder would have to be a voter at once.
func (w *World) undo() {
	if !w.operated {
		return
	}
	var ask func(lease.SetVoters)
	ask = func(r lease.SetVoters) {
		if h := w.believer(); h != nil {
			h.setVoters(r)
			return
		}
		w.later(time.Second, func() { ask(r) })
	}
	// Once more after a while: in mode available another side's record, which
	// does not have the wish, may win when both meet.
	again := func() { ask(lease.SetVoters{Auto: true}) }
	again()
	w.later(w.timing.PreemptDelay/2, again)
	w.later(w.timing.PreemptDelay, func() { ask(lease.SetVoters{Mode: w.setting}) })
}

func (n *node) setVoters(r lease.SetVoters) {
	if !n.up || n.paused {
		return
	}
	if n.busy {
		gen := n.gen
		n.w.later(10*time.Millisecond, func() {
			if n.gen == gen {
				n.setVoters(r)
			}
		})
		return
	}
	n.step(r)
}
