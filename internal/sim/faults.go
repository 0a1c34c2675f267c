package sim

import (
	"time"

	"github.com/skein-project/skein/cluster"
)

// fault makes one thing go wrong and plans the next.
func (w *World) fault() {
	if w.calm || w.now >= w.faultEnd {
		return
	}
	t := w.timing.Lease
	w.push(event{at: w.now + w.between(t/10, 2*t), kind: evFault, node: -1})
	n := w.victim()
	long := w.between(t/10, 3*t)
	kinds := 19
	if w.zones.count > 0 {
		kinds = 22
	}
	switch w.rng.IntN(kinds) {
	case 0, 1:
		n.crash()
		w.later(w.between(0, 2*t), n.start)
	case 2, 3:
		n.pause()
		w.later(w.between(t/10, 2*t), n.resume)
	case 4:
		w.isolate(n, true, true, long)
	case 5:
		w.isolate(n, w.rng.IntN(2) == 0, true, long)
	case 6:
		w.split(long)
	case 7:
		w.cutLink(w.rng.IntN(len(w.nodes)), w.rng.IntN(len(w.nodes)), long)
	case 8:
		w.loss = 0.4 * w.rng.Float64()
		w.tracef("loss %.2f", w.loss)
		w.later(long, func() { w.loss = w.lossAtBest() })
	case 9:
		w.extra = w.between(0, 2*time.Second)
		w.tracef("delay %s", w.extra)
		w.later(long, func() { w.extra = 0 })
		// A holder that is cut off just when its acks are late.
		w.later(w.between(0, long), func() {
			if h := w.believer(); h != nil && !w.calm {
				w.isolate(h, true, true, w.between(w.timing.Lease, 3*w.timing.Lease))
				w.extra = 0
			}
		})
	case 10:
		w.handover(n)
	case 11:
		w.sicken(n, long)
	case 12:
		n.suspend()
		w.later(w.between(t/10, 2*t), n.resume)
	case 13:
		// The smallest jump that a shell must notice is a quarter of T.
		n.leap(w.between(t/4, 3*t))
	case 14:
		w.drain(n, long)
	case 15:
		w.loseVote(n)
	case 16, 17:
		w.operate()
	case 18:
		w.leave(n)
	case 19, 20, 21:
		zone := w.rng.IntN(w.zones.count)
		if h := w.believer(); h != nil && w.rng.IntN(2) == 0 {
			zone = w.zones.of(h.i)
		}
		w.loseZone(zone, w.rng.IntN(2) == 0, long)
	}
}

// leave takes a host out of the cluster for good, one at most. The others
// learn it one after the other, it does last if it runs.
func (w *World) leave(n *node) {
	if !w.leaves || w.live() < len(w.nodes) {
		return
	}
	for _, o := range w.nodes {
		c := &o.disk.Config
		if o.abstains() || len(c.Voters) < 2 || len(c.Target) > 0 {
			return // who is left must be able to go on
		}
		if len(c.Voters) == 2 && (c.Mode != cluster.ModeAvailable || len(w.nodes) > 2 || w.operated) {
			return // of two by majority none can, and they may just become that
		}
	}
	w.tracef("%s leaves", n.id)
	w.left = n
	if w.rng.IntN(2) == 0 {
		n.crash()
		n.gone = true
	}
	for _, o := range w.nodes {
		w.later(w.between(0, w.timing.Lease), func() { o.learn(n.i) })
	}
}

// alone may let a host leave for good right after it took a term that others
// may not have heard of.
func (w *World) alone(n *node) {
	if w.calm || !w.leaves || n.core.Status().Stable.Mode != cluster.ModeAvailable || w.rng.IntN(4) != 0 {
		return
	}
	w.later(w.between(0, w.timing.Lease/2), func() {
		if !w.calm {
			w.leave(n)
		}
	})
}

// live is how many hosts did not leave.
func (w *World) live() int {
	if w.left != nil {
		return len(w.nodes) - 1
	}
	return len(w.nodes)
}

// drain makes a host stop standing, and starts it anew after a while.
func (w *World) drain(n *node, d time.Duration) {
	n.drain()
	gen := n.gen
	w.later(d, func() {
		if n.gen == gen && n.leaving {
			n.crash()
			n.start()
		}
	})
}

// victim is often the holder, where faults matter most.
func (w *World) victim() *node {
	if h := w.believer(); h != nil && w.rng.IntN(2) == 0 {
		return h
	}
	return w.nodes[w.rng.IntN(len(w.nodes))]
}

// voted may crash a voter right after its vote went out, and isolate or crash
// the candidate, so that only the disks know of the vote.
func (w *World) voted(n *node) {
	if w.calm || w.rng.IntN(12) != 0 {
		return
	}
	gen := n.gen
	w.later(w.between(0, 2*time.Millisecond), func() {
		if n.gen == gen {
			if w.mayLose() && w.rng.IntN(2) == 0 {
				n.lose(len(n.older) - 1) // what it just said
			} else {
				n.crash()
			}
			w.later(w.between(0, w.timing.Lease/4), n.start)
		}
	})
	w.later(w.between(0, w.timing.Lease/4), func() {
		if h := w.believer(); h != nil && !w.calm {
			w.isolate(h, true, true, w.between(w.timing.Lease, 4*w.timing.Lease))
		}
	})
}

// reconfigured may cut a host off, or crash it, right after it stored a change
// of voters that few others know of.
func (w *World) reconfigured(n *node) {
	if w.calm || w.rng.IntN(4) != 0 {
		return
	}
	t := w.timing.Lease
	if w.rng.IntN(2) == 0 {
		w.later(w.between(0, 5*time.Millisecond), func() {
			if w.calm {
				return
			}
			n.crash()
			w.later(w.between(0, t), n.start)
		})
	}
	if w.rng.IntN(2) == 0 {
		n = w.nodes[w.rng.IntN(len(w.nodes))]
	}
	w.later(w.between(0, 10*time.Millisecond), func() {
		if !w.calm {
			w.isolate(n, true, w.rng.IntN(3) > 0, w.between(t, 6*t))
		}
	})
}

func (w *World) isolate(n *node, out, in bool, d time.Duration) {
	for j := range w.nodes {
		if j == n.i {
			continue
		}
		if out {
			w.cutLink(n.i, j, d)
		}
		if in {
			w.cutLink(j, n.i, d)
		}
	}
}

// split puts every host on one of two sides.
func (w *World) split(d time.Duration) {
	sides := w.rng.Uint32()
	for a := range w.nodes {
		for b := range w.nodes {
			if (sides>>a)&1 != (sides>>b)&1 {
				w.cutLink(a, b, d)
			}
		}
	}
}

// cutLink cuts one direction for a while.
func (w *World) cutLink(a, b int, d time.Duration) {
	if a == b {
		return
	}
	w.tracef("cut %s->%s for %s", w.nodes[a].id, w.nodes[b].id, d)
	w.cut[a][b]++
	w.later(d, func() {
		if w.cut[a][b] > 0 {
			w.cut[a][b]--
			w.judgeDuty() // an opening counts, however short
		}
	})
}

func (w *World) sicken(n *node, d time.Duration) {
	if !n.up || n.paused || n.busy {
		return
	}
	n.ok = false
	n.selfCheck(false)
	gen := n.gen
	w.later(d, func() {
		if n.gen == gen && !n.ok {
			n.selfCheck(true)
		}
	})
}

// heal ends all faults.
func (w *World) heal() {
	w.tracef("heal")
	w.calm = true
	w.calmNet()
	w.cut = [maxNodes][maxNodes]uint8{}
	for _, n := range w.nodes {
		n.resume()
		if w.left != nil && !n.knows[w.left.i] {
			n.learn(w.left.i)
		}
		if n.leaving {
			n.crash()
		}
		n.start()
		if !n.ok && !n.gone {
			n.selfCheck(true)
		}
	}
}

// loseVote crashes a voter whose disk then turns out to hold an older vote
// record or none.
func (w *World) loseVote(n *node) {
	if n.up && w.mayLose() {
		n.lose(w.rng.IntN(len(n.older) + 2))
		w.later(w.between(0, 2*w.timing.Lease), n.start)
	}
}

// mayLose reports whether a voter may lose its record now. One at a time: the
// rest must be able to admit it again, and a majority of two is both.
func (w *World) mayLose() bool {
	for _, o := range w.nodes {
		c := &o.disk.Config
		if o.abstains() || len(c.Target) > 0 || len(c.Voters) < min(3, len(w.nodes)) || (len(c.Voters) < 3 && c.Mode != cluster.ModeAvailable) {
			return false
		}
	}
	return w.lossy && w.left == nil
}
