package sim

import (
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/lease"
)

// dutyJudge watches the publishing duty: in every part of the network that
// holds together and has a host fit for it, somebody publishes, but for a
// bounded time after a change; nobody publishes who sees the lease of another;
// a witness never does; and in a calm network the holder does alone.
type dutyJudge struct {
	on [maxNodes]publishing
	// print is what is around each host, changed when that last changed, gap
	// since when nobody in its part publishes (0: somebody does), crowd since
	// when anything but the holder alone publishes in a calm network.
	print   [maxNodes]uint64
	changed [maxNodes]time.Duration
	gap     [maxNodes]time.Duration
	crowd   time.Duration
	rough   time.Duration // when the network last lost or delayed
	// apart says that the long split before the heal is over.
	apart bool
}

// publishing is what a life of a host said last.
type publishing struct {
	gen uint32
	on  bool
}

// splitsAtEnd is the share of worlds, in percent, that end their faults with
// one long split, long enough for the plain rule to be seen at work.
const splitsAtEnd = 50

// publishes reports whether n runs and has the publishing duty.
func (w *World) publishes(n *node) bool {
	p := w.duty.on[n.i]
	return n.up && !n.paused && p.gen == n.gen && p.on
}

// eligible is what n says of itself in its heartbeats.
func (n *node) eligible() bool { return n.ok && !n.witness && !n.leaving }

// holds is the term that n says to hold in its heartbeats, 0 if none.
func (n *node) holds() cluster.Term {
	if term, ok := n.core.Held(n.local()); ok {
		return term
	}
	return 0
}

// checkDuty looks at a settled cluster: its holder publishes, and nobody else.
func (w *World) checkDuty(holder *node) {
	for _, n := range w.nodes {
		if w.publishes(n) != (n == holder) {
			w.violate("%s publishes %t in a healed cluster that %s holds", n.id, w.publishes(n), holder.id)
		}
	}
}

// dutyStepped looks at what a step of n did.
func (w *World) dutyStepped(n *node, acts []lease.Action) {
	look, was := false, false
	for _, a := range acts {
		switch a := a.(type) {
		case lease.Duty:
			w.duty.on[n.i], was = publishing{gen: n.gen, on: a.Publishing}, w.publishes(n)
			look = true
		case lease.Observed:
			look = true
		}
	}
	if !look {
		return
	}
	st := n.core.Status()
	switch {
	case st.Publishing != (st.Publisher == n.id):
		w.violate("duty of %s: publishing %t, publisher %q", n.id, st.Publishing, st.Publisher)
	case n.witness && st.Publishing:
		w.violate("%s publishes and is a witness", n.id)
	case st.Holder != "" && st.Publisher != st.Holder:
		w.violate("%s believes %q to publish and sees the lease of %s", n.id, st.Publisher, st.Holder)
	}
	if was && !st.Publishing {
		w.gaveUp(n)
	}
	w.judgeDuty()
}

// gaveUp judges a host that publishes no more: in a network that loses nothing
// and in which nothing has changed for a while it leaves no gap.
func (w *World) gaveUp(n *node) {
	mask := w.parts()[n.i]
	d := &w.duty
	if w.around(n.i, mask) != d.print[n.i] || w.loss > 0 || w.extra > 0 {
		return
	}
	if w.now-max(d.changed[n.i], d.rough) < w.lastWord() {
		return
	}
	for j, o := range w.nodes {
		if mask&(1<<j) != 0 && w.publishes(o) {
			return
		}
	}
	w.violate("%s gives the publishing duty up to nobody", n.id)
}

// judgeDuty looks at every part of the network. It is called at every change
// of the duty and at every round of heartbeats.
func (w *World) judgeDuty() {
	d := &w.duty
	if w.loss > 0 || w.extra > 0 {
		d.rough = w.now
	}
	parts := w.parts()
	for i, mask := range parts {
		if p := w.around(i, mask); p != d.print[i] {
			d.print[i], d.changed[i], d.gap[i] = p, w.now, 0
		}
		fit, busy := false, false
		for j, n := range w.nodes {
			if mask&(1<<j) == 0 {
				continue
			}
			fit = fit || n.eligible()
			busy = busy || w.publishes(n)
		}
		switch {
		case busy || !fit:
			d.gap[i] = 0
		case d.gap[i] == 0:
			d.gap[i] = w.now
		case w.now-max(d.gap[i], d.changed[i]) > w.dutyGap():
			w.violate("nobody around %s publishes for %s", w.nodes[i].id, w.now-d.gap[i])
			return
		}
	}
	w.judgeCrowd()
}

// judgeCrowd looks whether, once all is calm, the holder publishes alone.
func (w *World) judgeCrowd() {
	d := &w.duty
	alone := false
	if h := w.believer(); h != nil && w.publishes(h) {
		alone = true
		for _, n := range w.nodes {
			alone = alone && (n == h || !w.publishes(n))
		}
	}
	switch {
	case alone || !w.calm:
		d.crowd = 0
	case d.crowd == 0:
		d.crowd = w.now
	case w.now-max(d.crowd, d.changed[0]) > w.settle()+w.dutyGap():
		w.violate("for %s in a calm network not the holder alone publishes", w.now-d.crowd)
	}
}

// lastWord bounds how long a host may believe the last word of another one: it
// was on its way for 2 s, and it takes Suspect and Grace, and a look at every
// heartbeat, until the other is not believed to live any more.
func (w *World) lastWord() time.Duration {
	d := w.timing.Suspect + w.timing.Grace + 2*w.timing.Heartbeat
	return d + d/50 + 2*time.Second + w.delay + w.zones.rtt
}

// dutyGap bounds how long nobody publishes after a change: the last guard of a
// lease runs out, the plain rule waits, and all of it by a slow clock, with
// what was said on its way for 2 s.
func (w *World) dutyGap() time.Duration {
	t := w.timing
	d := t.Lease + t.Suspect + t.Grace
	return d + d/50 + 2*t.Heartbeat + 2500*time.Millisecond
}

// parts returns for every host that runs who is connected with it, in at least
// one direction and over any number of others; 0 for the rest.
func (w *World) parts() [maxNodes]uint8 {
	var part [maxNodes]uint8
	for i, n := range w.nodes {
		if n.up && !n.paused {
			part[i] = 1 << i
		}
	}
	for again := true; again; {
		again = false
		for a := range w.nodes {
			for b := range a {
				if part[a] == 0 || part[b] == 0 || part[a] == part[b] || (w.cut[a][b] > 0 && w.cut[b][a] > 0) {
					continue
				}
				part[a] |= part[b]
				part[b] = part[a]
				again = true
			}
		}
	}
	return part
}

// around sums up what the duty in one part of the network depends on: who is
// in it, in which life and how well, and every link. It is 0 for a host that
// does not run.
func (w *World) around(i int, mask uint8) uint64 {
	if mask == 0 {
		return 0
	}
	sum := uint64(mask)
	add := func(v uint64) { sum = (sum ^ v) * 0x100000001b3 }
	for a, n := range w.nodes {
		if mask&(1<<a) == 0 {
			continue
		}
		v := uint64(n.gen) << 1
		if n.eligible() {
			v |= 1
		}
		add(v)
		add(uint64(n.offset)) // which jumps
		for b := range w.nodes {
			if mask&(1<<b) != 0 && w.cut[a][b] > 0 {
				add(uint64(a<<8 | b))
			}
		}
	}
	return sum | 1<<63 | uint64(i)
}

// splitLong plays, once per world and in half of them, a last fault: one split
// that lasts long enough for the plain rule. It reports whether it did.
func (w *World) splitLong(again func(time.Duration)) bool {
	if w.duty.apart {
		return false
	}
	w.duty.apart = true
	if w.rng.IntN(100) >= splitsAtEnd {
		return false
	}
	d := 2 * w.dutyGap()
	w.tracef("split for %s", d)
	w.split(d)
	if w.rng.IntN(2) == 0 {
		n := w.victim()
		n.crash()
		w.later(d, n.start)
	}
	w.script-- // the examination has not begun
	again(d)
	return true
}
