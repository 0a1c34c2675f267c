package sim

import (
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/lease"
)

// believes reports whether n runs and believes to hold.
func (w *World) believes(n *node) bool {
	if !n.up || n.paused || n.acting == 0 {
		return false
	}
	term, ok := n.core.Held(n.local())
	return ok && term == n.acting
}

func (w *World) believer() *node {
	var best *node
	for _, n := range w.nodes {
		if w.believes(n) && (best == nil || n.acting > best.acting) {
			best = n
		}
	}
	return best
}

// strict reports whether n may count on being the only holder: its stable
// configuration decides by majority, and so does every older one that a voter
// may still go by.
func (w *World) strict(n *node) bool {
	c := n.core.Status().Stable
	return c.Mode == cluster.ModeQuorum && !c.Split()
}

// judge looks for a second believer beside n.
func (w *World) judge(n *node) {
	if !w.believes(n) {
		return
	}
	for _, o := range w.nodes {
		if o != n && w.believes(o) && (w.strict(n) || w.strict(o)) {
			w.violate("I2 %s (term %d) and %s (term %d) both believe to hold", n.id, n.acting, o.id, o.acting)
			return
		}
	}
}

func (w *World) acquired(n *node, a lease.Acquired) {
	if prev, ok := w.terms[a.Term]; ok {
		w.violate("I1 %s acquires term %d, which %s had", n.id, a.Term, w.nodes[prev].id)
		return
	}
	w.terms[a.Term] = n.i
	if base := n.core.Status().Stable; w.believes(n) && w.stable.Newer(base) && base.Mode == cluster.ModeQuorum && !base.Split() {
		w.violate("I4 %s starts term %d from configuration %d/%d, %d/%d was stable",
			n.id, a.Term, base.Term, base.Epoch, w.stable.Term, w.stable.Epoch)
	}
	w.judge(n)
	w.alone(n)
	switch {
	case !w.believes(n):
	case w.releasedAt != 0:
		w.res.Handover = w.now - w.releasedAt
		w.releasedAt = 0
	case w.crashedAt != 0:
		if took := w.now - w.crashedAt; w.zones.lost >= 0 {
			w.res.ZoneLost = took
		} else {
			w.res.Failover = took
		}
		w.crashedAt = 0
	}
}

// grants is I5: over all its lives a voter gives a term to one candidate.
func (w *World) grants(n *node, term cluster.Term, to cluster.NodeID) {
	if had, ok := n.granted[term]; ok && had != to {
		w.violate("I5 %s grants term %d to %s after %s", n.id, term, to, had)
	}
	n.granted[term] = to
}

// lostLease judges the end of a tenure. A holder hands over to a better host on its
// own (I11) only after MinTenure of its own clock, and so does the cluster.
func (w *World) lostLease(n *node, a lease.Lost) {
	if a.Reason != "preempted by a better host" {
		return
	}
	least := time.Duration(float64(w.timing.MinTenure) / (1 + maxDrift))
	if w.now-n.since < least {
		w.violate("I11 %s hands over after %s", n.id, w.now-n.since)
	}
	if w.majority() && w.voluntary != 0 && w.now-w.voluntary < least {
		w.violate("I11 handovers at %s and %s", w.voluntary, w.now)
	}
	w.voluntary = w.now
}

// settled is I4 as far as the lease core knows of stable events: a holder that
// decides by majority starts from a configuration no older than the newest
// that was stable.
func (w *World) settled(c cluster.VoterConfig) {
	if c.Mode == cluster.ModeQuorum && !c.Split() && c.Newer(w.stable) {
		w.stable = c
	}
}

// settle bounds how long a healed cluster may be without a holder. Every host
// may be in quarantine, and a guard be renewed just before; then candidates
// wait for each other at most Defer.
func (w *World) settle() time.Duration {
	t := w.timing
	return 3*t.Lease + t.Suspect + t.Defer + time.Duration(len(w.nodes))*t.Skew + 5*time.Second + 10*w.zones.rtt
}

// examine is the final examination: heal, wait, look, hand over, crash.
func (w *World) examine() {
	t := w.timing
	again := func(d time.Duration) {
		w.script++
		w.push(event{at: w.now + d, kind: evPhase, node: -1})
	}
	switch w.script {
	case 0:
		if w.splitLong(again) {
			return
		}
		w.heal()
		again(w.settle())
	case 1:
		if w.believer() == nil {
			switch {
			case w.beheaded():
				w.script = -1
				return
			case !w.again: // it may be changing hands at this very moment
				w.again = true
				w.script--
				again(time.Second)
				return
			}
			w.violate("I10 no holder %s after the heal", w.settle())
			return
		}
		w.undo()
		again(t.MinTenure + t.PreemptCap + t.Suspect + t.Grace + 2*t.Lease + 5*time.Second)
	case 2:
		w.checkSettled()
		h := w.believer()
		if h == nil || w.fit() < 2 {
			w.script = -1
			return
		}
		w.tracef("examine handover")
		w.releasedAt = w.now
		w.handover(h)
		again(time.Second + 3*w.zones.rtt)
	case 3:
		if w.releasedAt != 0 && w.zones.count > 0 && !w.res.Late {
			// Each datagram of the release may be lost: then it takes as long as after a crash.
			w.res.Late = true
			w.script--
			again(w.failover())
			return
		}
		if w.releasedAt != 0 {
			w.violate("I13 no new holder %s after the release", time.Second+3*w.zones.rtt)
			return
		}
		again(2 * t.Lease)
	case 4:
		h := w.believer()
		if h == nil {
			w.violate("I10 no holder in a calm network")
			return
		}
		w.tracef("examine crash")
		h.crash()
		w.crashedAt = w.now
		again(w.failover())
	default:
		if w.crashedAt != 0 && w.live() > 2 && w.zones.next == 0 {
			w.violate("I10 no new holder after the holder's crash")
		} else if w.examineZones(again) {
			return
		}
		w.script = -1
	}
}

// beheaded reports whether the host that left for good takes the lease with it:
// it was the only voter or one of two when it left, and fell before the record
// said otherwise. Then only an operator can help.
func (w *World) beheaded() bool {
	var c cluster.VoterConfig
	for _, n := range w.nodes {
		if n != w.left && n.disk.Config.Newer(c) {
			c = n.disk.Config
		}
	}
	need := c.Majority()
	if c.Mode == cluster.ModeAvailable {
		need = 1
	}
	return w.left != nil && c.Has(w.left.id) && len(c.Voters)-1 < need
}

// fit is how many hosts may hold.
func (w *World) fit() int {
	k := 0
	for _, n := range w.nodes {
		if !n.witness && n != w.left {
			k++
		}
	}
	return k
}

// checkSettled is I10: the best eligible host holds, everyone agrees who it
// is, and every host is a voter of a stable configuration.
func (w *World) checkSettled() {
	var best *node
	for _, n := range w.nodes {
		if !n.witness && n != w.left && (best == nil || n.priority < best.priority) {
			best = n
		}
	}
	h := w.believer()
	if h != best {
		name := cluster.NodeID("nobody")
		if h != nil {
			name = h.id
		}
		w.violate("I10 %s holds, %s is the best host", name, best.id)
		return
	}
	w.checkDuty(h)
	st := h.core.Status()
	if st.Pending || len(st.Config.Voters) != w.live() || st.Config.Mode != w.modeFor(w.live()) {
		w.violate("I10 voters %v mode %s pending=%t in a healed cluster of %d", st.Config.Voters, st.Config.Mode, st.Pending, len(w.nodes))
	}
	for _, n := range w.nodes {
		if n == w.left {
			continue
		}
		if n.abstains() {
			w.violate("I10 %s still abstains", n.id)
		}
		s := n.core.Status()
		if s.Holder != h.id || s.Term != st.Term {
			w.violate("I10 %s believes that %q holds term %d, it is %s with %d", n.id, s.Holder, s.Term, h.id, st.Term)
		}
	}
}

// handover asks n to step down, n being idle or not.
func (w *World) handover(n *node) {
	if n.up && !n.paused && !n.busy {
		n.step(lease.StepDown{Reason: "asked"})
	}
}
