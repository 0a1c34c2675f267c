package member

import (
	"slices"
	"strings"
	"time"

	"github.com/skein-project/skein/cluster"
)

// Timing is when silence becomes what. All are counted from the last sign of
// life.
type Timing struct {
	Suspect time.Duration // silent this long: suspect
	Grace   time.Duration // suspect this long: no longer present, others may stand for the lease
	Dead    time.Duration // silent this long: dead, its work goes elsewhere
}

// DefaultDead is Timing.Dead in every profile.
const DefaultDead = 120 * time.Second

// Transition is a change of what is believed of a host.
type Transition struct {
	Node     cluster.NodeID
	From, To cluster.Health
}

// Detector judges hosts by when they were last heard. The caller tells it
// every authenticated sign of life and lets time pass with Tick.
//
//	Joining --heard--> Alive --Suspect--> Suspect --Dead--> Dead
//	   any --stops, or Joining for Dead--> Dead     Suspect, Dead --heard--> Alive
//
// Of a judged host somebody else decides whether it is lost: its silence counts
// from the last sign of life that the verdict names, and not before there is
// one. See Judge.
//
// A host that was never heard is not suspected; it is Dead when it should have
// been heard for that long. Dead is not gone: a sign of life brings it back. A
// member is never Left: who leaves for good is no longer a member. The zero
// Detector is not usable.
type Detector struct {
	timing Timing
	peers  map[cluster.NodeID]*peer
}

type peer struct {
	health cluster.Health
	ever   bool          // it was heard
	heard  time.Duration // last; when it was added if it never was
	slack  time.Duration // allowed beyond Timing
	judged bool          // silence says nothing, see Judge
	lost   bool          // by verdict
	lostAt time.Duration // last sign of life, by that verdict
	// stopped says that it said so: it is Dead, and not for its silence.
	stopped bool
}

// quiet is how long p's silence counts, and whether it counts at all.
func (p *peer) quiet(now time.Duration) (silent time.Duration, counts bool) {
	switch {
	case !p.judged || !p.ever:
		return now - p.heard - p.slack, true
	case p.lost:
		return now - p.lostAt, true
	}
	return 0, false
}

// NewDetector returns a Detector that knows no host.
func NewDetector(t Timing) *Detector {
	t.Dead = max(t.Dead, t.Suspect)
	return &Detector{timing: t, peers: map[cluster.NodeID]*peer{}}
}

// SetSlack allows node that much more silence: in a large cluster hosts are
// heard in turn.
func (d *Detector) SetSlack(node cluster.NodeID, slack time.Duration) {
	if p := d.peers[node]; p != nil {
		p.slack = max(slack, 0)
	}
}

// Add makes node known as Joining from now on; a known one is left as it is.
func (d *Detector) Add(node cluster.NodeID, now time.Duration) {
	if d.peers[node] == nil {
		d.peers[node] = &peer{health: cluster.Joining, heard: now}
	}
}

// Forget drops node.
func (d *Detector) Forget(node cluster.NodeID) { delete(d.peers, node) }

// Heard notes a sign of life of node at now. It reports whether the health
// changed, and how.
func (d *Detector) Heard(node cluster.NodeID, now time.Duration) (Transition, bool) {
	d.Add(node, now)
	p := d.peers[node]
	if !p.ever || now > p.heard {
		p.ever, p.heard = true, now
	}
	p.lost = false
	return d.set(node, cluster.Alive)
}

// Judge says whether verdicts decide about node from now on, Lost and Back, or
// its silence. Its health stays as it is: one that was silent is lost until it
// is back, and of one that is alive silence begins now.
func (d *Detector) Judge(node cluster.NodeID, judged bool, now time.Duration) {
	p := d.peers[node]
	if p == nil || p.judged == judged {
		return
	}
	p.judged = judged
	switch {
	case judged:
		p.lost, p.lostAt = p.health != cluster.Alive, p.heard
	case p.lost:
		p.lost, p.heard = false, max(p.heard, p.lostAt)
	default:
		p.heard = max(p.heard, now)
	}
}

// Lost is the verdict that a judged node cannot be reached; since is its last
// sign of life. It is Suspect at once and Dead when that is long ago.
func (d *Detector) Lost(node cluster.NodeID, since, now time.Duration) (Transition, bool) {
	p := d.peers[node]
	if p == nil || !p.judged || !p.ever || p.lost || p.health == cluster.Dead {
		return Transition{}, false
	}
	p.lost, p.lostAt = true, min(max(since, p.heard), now)
	return d.set(node, d.verdict(p, now))
}

// Back is the verdict that a judged node can be reached after all.
func (d *Detector) Back(node cluster.NodeID) (Transition, bool) {
	p := d.peers[node]
	if p == nil || !p.judged || !p.ever {
		return Transition{}, false
	}
	p.lost = false
	return d.set(node, cluster.Alive)
}

// verdict is the health of a lost host.
func (d *Detector) verdict(p *peer, now time.Duration) cluster.Health {
	if now-p.lostAt >= d.timing.Dead {
		return cluster.Dead
	}
	return cluster.Suspect
}

// Leaving notes that node said it stops: it is Dead without a doubt.
func (d *Detector) Leaving(node cluster.NodeID) (Transition, bool) {
	p := d.peers[node]
	if p == nil {
		return Transition{}, false
	}
	p.stopped = true
	return d.set(node, cluster.Dead)
}

// Stopped reports whether node is Dead because it said that it stops.
func (d *Detector) Stopped(node cluster.NodeID) bool {
	p := d.peers[node]
	return p != nil && p.stopped
}

// Tick lets time pass and returns what changed, ordered by node id.
func (d *Detector) Tick(now time.Duration) []Transition {
	var out []Transition
	for node, p := range d.peers {
		if p.health == cluster.Dead {
			continue
		}
		to := p.health
		switch silent, counts := p.quiet(now); {
		case !counts:
		case silent >= d.timing.Dead:
			to = cluster.Dead
		case !p.ever:
		case silent >= d.timing.Suspect, p.judged:
			to = cluster.Suspect
		}
		if t, ok := d.set(node, to); ok {
			out = append(out, t)
		}
	}
	slices.SortFunc(out, func(a, b Transition) int { return strings.Compare(string(a.Node), string(b.Node)) })
	return out
}

// Deadline returns when Tick or Present next changes its answer if nobody is
// heard; ok is false when it never does.
func (d *Detector) Deadline(now time.Duration) (at time.Duration, ok bool) {
	for _, p := range d.peers {
		if p.health == cluster.Dead {
			continue
		}
		silent, counts := p.quiet(now)
		if !counts {
			continue
		}
		steps := [...]time.Duration{d.timing.Dead, d.timing.Suspect, d.timing.Suspect + d.timing.Grace}
		for i, t := range steps {
			if next := now - silent + t; next > now && (!ok || next < at) && (i == 0 || p.ever) {
				at, ok = next, true
			}
		}
	}
	return at, ok
}

// Health returns what is believed of node, "" if it is not known.
func (d *Detector) Health(node cluster.NodeID) cluster.Health {
	if p := d.peers[node]; p != nil {
		return p.health
	}
	return ""
}

// LastHeard returns when node was last heard; ok is false if never.
func (d *Detector) LastHeard(node cluster.NodeID) (at time.Duration, ok bool) {
	p := d.peers[node]
	if p == nil || !p.ever {
		return 0, false
	}
	return p.heard, true
}

// Present reports whether node was heard within Suspect + Grace and did not
// stop: it counts as a candidate and as a better one.
func (d *Detector) Present(node cluster.NodeID, now time.Duration) bool {
	p := d.peers[node]
	if p == nil || (p.health != cluster.Alive && p.health != cluster.Suspect) {
		return false
	}
	silent, counts := p.quiet(now)
	return !counts || silent < d.timing.Suspect+d.timing.Grace
}

// Shift moves every last sign of life later by gap: the local host slept that
// long and could hear nobody.
func (d *Detector) Shift(gap time.Duration) {
	for _, p := range d.peers {
		p.heard += max(gap, 0)
		p.lostAt += max(gap, 0)
	}
}

func (d *Detector) set(node cluster.NodeID, to cluster.Health) (Transition, bool) {
	p := d.peers[node]
	if p.health == to {
		return Transition{}, false
	}
	t := Transition{Node: node, From: p.health, To: to}
	p.health, p.stopped = to, p.stopped && to == cluster.Dead
	return t, true
}
