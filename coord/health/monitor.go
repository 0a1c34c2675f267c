package health

import (
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/coord/swim"
	"github.com/skein-project/skein/coord/wire"
)

const (
	// MaxDirect is how many other hosts are judged by their silence, each of them
	// sent a heartbeat in every round; in a larger cluster swim judges them.
	MaxDirect = 64
	// SettleFor is the least time for which both ways are gone when the cluster's
	// size passes MaxDirect: hosts do not learn of members at the same moment.
	SettleFor = 30 * time.Second
	// unfitFor is how long self-checks must fail until everyone is told: one that
	// fails for a moment, as on all hosts of a busy machine, is no news.
	unfitFor = 10 * time.Second
)

// Monitor knows the health of the other hosts. It has one owner.
type Monitor struct {
	o        Options
	m        *metrics
	detector *member.Detector
	core     *swim.Core

	switched time.Duration // of the last change between the two ways; 0: never
	// settled says that a way was chosen: the choice at the start is no change.
	settled bool
	fitAt   time.Duration // when no self-check failed, last
	counted swim.Stats    // in the metrics
}

// New returns a Monitor that knows no host.
func New(o Options) (*Monitor, error) {
	m, err := newMetrics(o.Registerer)
	if err != nil {
		return nil, err
	}
	core, err := swim.New(swim.Options{Self: o.Self, Boot: o.Boot, Eligible: true, Timing: swim.DefaultTiming(), Seed: o.Seed})
	if err != nil {
		return nil, err
	}
	return &Monitor{
		o: o, m: m, core: core,
		detector: member.NewDetector(member.Timing{Suspect: o.Timing.Suspect, Grace: o.Timing.Grace, Dead: member.DefaultDead}),
	}, nil
}

// Add makes a new member known from now on.
func (m *Monitor) Add(node cluster.NodeID, now time.Duration) { m.detector.Add(node, now) }

// Forget drops a host that is no longer a member.
func (m *Monitor) Forget(node cluster.NodeID) {
	m.step(swim.Remove{Node: node})
	m.detector.Forget(node)
}

// Of returns what is believed of node, "" if it is not known.
func (m *Monitor) Of(node cluster.NodeID) cluster.Health { return m.detector.Health(node) }

// HasStopped reports whether node is dead because it said that it stops.
func (m *Monitor) HasStopped(node cluster.NodeID) bool { return m.detector.Stopped(node) }

// LastHeard returns the local time of node's last sign of life; ok is false if
// there was none.
func (m *Monitor) LastHeard(node cluster.NodeID) (at time.Duration, ok bool) {
	return m.detector.LastHeard(node)
}

// Present reports whether node counts as a candidate for the lease: it did not
// stop, and its silence is not longer than suspicion and grace.
func (m *Monitor) Present(node cluster.NodeID, now time.Duration) bool {
	return m.detector.Present(node, now)
}

// SetSlack allows node that much more silence.
func (m *Monitor) SetSlack(node cluster.NodeID, slack time.Duration) {
	m.detector.SetSlack(node, slack)
}

// Shift makes up for a time in which this host could hear nobody.
func (m *Monitor) Shift(gap time.Duration) { m.detector.Shift(gap) }

// Due chooses the way of judging in a cluster of that many members, this host
// included, and lets swim's time pass. A host that was removed judges by silence.
func (m *Monitor) Due(now time.Duration, members int, removed bool) {
	if large := members > MaxDirect+1 && !removed; large != m.core.Active() {
		if m.settled {
			m.switched = max(now, 1)
		}
		m.step(swim.Activate{On: large})
		m.judgeAll(now)
		m.o.Logger.Info().Bool("swim", large).Int("members", members).Msg("way of judging others changed")
	}
	m.settled = true
	if now >= m.core.Deadline() {
		m.step(swim.Tick{})
	}
}

// Silence reports the hosts that have been silent for too long.
func (m *Monitor) Silence(now time.Duration) {
	for _, t := range m.detector.Tick(now) {
		m.o.Changed(t)
	}
}

// Deadline is when Due or Silence has something to do at the latest, or Present
// another answer.
func (m *Monitor) Deadline(now time.Duration) time.Duration {
	at := m.core.Deadline()
	if d, ok := m.detector.Deadline(now); ok {
		at = min(at, d)
	}
	return at
}

// Round is Monitor's part of a round of heartbeats: it has swim ask hosts of which
// too little is heard. Willing says that this host wants to stand for the lease,
// failing that a self-check fails.
func (m *Monitor) Round(now time.Duration, willing, failing bool) {
	if !failing {
		m.fitAt = now
	}
	m.step(swim.SetEligible{Eligible: willing && now-m.fitAt < unfitFor})
	m.count()
	if !m.core.Active() {
		return
	}
	m.judgeAll(now)
	for node, spoke := range m.o.Others {
		switch at, heard := m.detector.LastHeard(node); {
		case !heard && spoke:
			m.step(swim.Again{Node: node}) // it may know this host, and say no more
		case heard && m.pair(node) && now-at > m.o.Timing.Heartbeat && m.detector.Health(node) != cluster.Dead:
			m.step(swim.Again{Node: node}) // before its silence says too much
		}
	}
}

// judgeAll settles of every other host who decides about it.
func (m *Monitor) judgeAll(now time.Duration) {
	for node := range m.o.Others {
		m.detector.Judge(node, m.Probes(node) && !m.pair(node), now)
	}
}

// pair reports whether this host and node are the holder and a voter.
func (m *Monitor) pair(node cluster.NodeID) bool {
	st := m.o.Lease()
	switch st.Holder {
	case "":
		return false
	case m.o.Self:
		return st.Config.Has(node)
	}
	return st.Holder == node && st.Config.Has(m.o.Self)
}

// Large reports whether swim is at work: the cluster has more hosts than are
// judged by silence.
func (m *Monitor) Large() bool { return m.core.Active() }

// Probes reports whether swim looks after node.
func (m *Monitor) Probes(node cluster.NodeID) bool {
	if !m.core.Active() {
		return false
	}
	_, confirmed := m.core.State(node)
	return confirmed
}

// Settling reports whether the way of judging others has just changed.
func (m *Monitor) Settling(now time.Duration) bool {
	return m.switched != 0 && now-m.switched < max(SettleFor, 3*m.o.Timing.Heartbeat)
}

// Incarnation is what this host's heartbeats name for swim.
func (m *Monitor) Incarnation() uint64 { return m.core.Incarnation() }

// Score is how unwell this host finds itself, from 0 to 8.
func (m *Monitor) Score() int { return m.core.Score() }

// Slower scales n down as Score rises, to no less than 2.
func (m *Monitor) Slower(n int) int { return max(2, n/(1+m.core.Score())) }

// Heard notes a sign of life of node at that local time. It reports whether node
// was dead before.
func (m *Monitor) Heard(node cluster.NodeID, at time.Duration) (revived bool) {
	t, ok := m.detector.Heard(node, at)
	if !ok {
		return false
	}
	m.o.Changed(t)
	return t.From == cluster.Dead
}

// Stopped notes that node said it stops.
func (m *Monitor) Stopped(node cluster.NodeID) {
	if t, ok := m.detector.Leaving(node); ok {
		m.o.Changed(t)
	}
}

// Heartbeat tells swim of a heartbeat; answers says that its sender hears this
// host. A host whose heartbeats name no incarnation knows no probes.
func (m *Monitor) Heartbeat(from cluster.NodeID, boot uint64, hb *wire.Heartbeat, answers bool) {
	switch {
	case hb.Inc == nil:
		m.step(swim.Remove{Node: from})
		return
	case hb.Leaving:
		m.step(swim.Leaving{Node: from, Boot: boot})
		return
	}
	m.step(swim.Add{Node: from})
	m.step(swim.Heard{Node: from, Boot: boot, HasState: true, Inc: *hb.Inc, Ineligible: !hb.Eligible, Round: answers})
}

// Vital tells swim of any other message of a host.
func (m *Monitor) Vital(from cluster.NodeID, boot uint64) { m.step(swim.Heard{Node: from, Boot: boot}) }

// Receive hands swim a message of its own.
func (m *Monitor) Receive(from cluster.NodeID, boot uint64, msg swim.Message) {
	m.step(swim.Add{Node: from})
	m.step(swim.Receive{From: from, Boot: boot, Msg: msg})
}

// Confirmed reports whether swim looks after node and takes it to be alive.
func (m *Monitor) Confirmed(node cluster.NodeID) bool {
	st, confirmed := m.core.State(node)
	return confirmed && st == swim.Alive
}

// step feeds swim and carries out what it answers.
func (m *Monitor) step(ev swim.Event) {
	for _, a := range m.core.Step(ev, m.o.Now()) {
		switch a := a.(type) {
		case swim.Send:
			m.o.Send(a)
		case swim.Changed:
			m.verdict(a)
		case swim.Informed:
			m.o.Informed(a.Node, !a.Ineligible)
		case swim.Answered:
			m.o.Answered(a.Node, a.Sent, a.Trip)
		}
	}
}

// verdict follows what swim decided.
func (m *Monitor) verdict(a swim.Changed) {
	now := m.o.Now()
	var t member.Transition
	var ok bool
	switch a.State {
	case swim.Alive:
		t, ok = m.detector.Back(a.Node)
	case swim.Failed:
		t, ok = m.detector.Lost(a.Node, a.Since, now)
	case swim.Left, swim.Suspect:
		return // the leave was heard itself; a suspicion is no verdict
	}
	if ok {
		m.o.Changed(t)
	}
}

// count brings swim's counters into the metrics.
func (m *Monitor) count() {
	now, was := m.core.Stats(), m.counted
	m.counted = now
	for what, n := range map[string]uint64{
		"probe": now.Probes - was.Probes, "indirect": now.Indirect - was.Indirect,
		"unanswered": now.Unanswered - was.Unanswered, "suspicion": now.Suspicions - was.Suspicions,
		"failure": now.Failures - was.Failures, "refutation": now.Refutations - was.Refutations,
		"late": now.Late - was.Late, "refused": now.Refused - was.Refused,
	} {
		m.m.swim.WithLabelValues(what).Add(float64(n))
	}
	m.m.local.Set(float64(m.core.Score()))
}
