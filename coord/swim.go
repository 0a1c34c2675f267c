package coord

import (
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/coord/swim"
	"github.com/skein-project/skein/coord/transport"
	"github.com/skein-project/skein/coord/wire"
)

// Up to MaxDirect other hosts are sent heartbeats in every round. In a larger
// cluster the failure detector of package swim judges them, and heartbeats go
// to the holder, the voters, the publisher and fullRandom others, now and then.
// The holder and a voter judge each other by silence all the same: renewals and
// their answers are signs of life, as prompt as the profile is.
const (
	// fullEvery is the least time between heartbeats to one of these;
	// fullShare per member keeps what a voter gets within bounds.
	fullEvery  = time.Minute
	fullShare  = 200 * time.Millisecond
	fullRandom = 3
	// voterEvery is the time between a voter's heartbeats to the holder, which
	// hands over only to hosts whose log it knows to be good.
	voterEvery = 10 * time.Second
	// unheardShare per member is the least time between heartbeats to a host
	// that was never heard.
	unheardShare = 500 * time.Millisecond
	// maxUnheard bounds the heartbeats of a round to hosts that the failure
	// detector does not look after: many that start at once must not drown.
	maxUnheard = 16
	// byeRandom is how many hosts beside these are told that this one stops.
	byeRandom = 8
	// unfitFor is how long self-checks must fail until everyone is told: one that
	// fails for a moment, as on all hosts of a busy machine, is no news.
	unfitFor = 10 * time.Second
	// settleFor is how long both ways are gone when the cluster's size passes
	// MaxDirect: hosts do not learn of members at the same moment.
	settleFor = 30 * time.Second
	// wordRate bounds the heartbeats of a round by which a host that came to
	// hold the lease or to publish, or ceased to, tells everyone.
	wordRate = 32
)

// gossiping is the loop's side of the failure detector.
type gossiping struct {
	core  *swim.Core
	since time.Duration // of the last change between the two ways; 0: never
	// settled says that a way was chosen: the choice at the start is no change.
	settled bool
	full    time.Duration // next heartbeats to the random ones
	stats   swim.Stats    // last counted
	fitAt   time.Duration // when no self-check failed, last
	said    word          // last told to everyone
	tell    []cluster.NodeID
}

// word is what a host must say itself.
type word struct {
	term       cluster.Term // that it holds
	publishing bool
}

func newGossiping(o *Options) (gossiping, error) {
	core, err := swim.New(swim.Options{
		Self: o.Self, Boot: o.Boot, Eligible: true, Timing: swim.DefaultTiming(), Seed: uint64(o.Rand() * (1 << 53)),
	})
	return gossiping{core: core}, err
}

// swimStep feeds the failure detector and carries out what it answers.
func (s *Service) swimStep(ev swim.Event) {
	for _, a := range s.swim.core.Step(ev, s.now()) {
		switch a := a.(type) {
		case swim.Send:
			s.sendSwim(a)
		case swim.Changed:
			s.onVerdict(a)
		case swim.Informed:
			if p := s.peers[a.Node]; p != nil {
				p.beat.Eligible = !a.Ineligible
			}
		case swim.Answered:
			if p := s.peers[a.Node]; p != nil {
				p.rtt.echoed = max(p.rtt.echoed, a.Sent)
				s.sampleRTT(p, max(a.Trip, time.Microsecond))
			}
		}
	}
}

// dueSwim lets the failure detector's time pass.
func (s *Service) dueSwim(now time.Duration) {
	core := s.swim.core
	if large := len(s.members) > MaxDirect+1 && !s.removed; large != core.Active() {
		if s.swim.settled {
			s.swim.since = max(now, 1)
		}
		s.swimStep(swim.Activate{On: large})
		s.judgeAll(now)
		s.log.Info().Bool("swim", large).Int("members", len(s.members)).Msg("way of judging others changed")
	}
	s.swim.settled = true
	if now >= core.Deadline() {
		s.swimStep(swim.Tick{})
	}
}

// roundSwim is the failure detector's part of a round of heartbeats.
func (s *Service) roundSwim(now time.Duration) {
	core := s.swim.core
	s.swimStep(swim.SetEligible{Eligible: s.fit(now)})
	s.countSwim()
	if !core.Active() {
		s.swim.said, s.swim.tell = s.ownWord(), nil
		return
	}
	s.judgeAll(now)
	for node, p := range s.peers {
		switch at, heard := s.detector.LastHeard(node); {
		case !heard && p.beatAt > 0:
			s.swimStep(swim.Again{Node: node}) // it may know this host, and say no more
		case heard && s.pair(node) && now-at > s.o.Timing.Heartbeat && s.detector.Health(node) != cluster.Dead:
			s.swimStep(swim.Again{Node: node}) // before its silence says too much
		}
	}
	if w := s.ownWord(); w != s.swim.said {
		s.swim.said, s.swim.tell = w, nil
		for node := range s.peers {
			s.swim.tell = append(s.swim.tell, node)
		}
	}
	for range min(wordRate, len(s.swim.tell)) {
		to := s.swim.tell[0]
		s.swim.tell = s.swim.tell[1:]
		if s.detector.Health(to) == cluster.Alive {
			s.beatTo(to, now, false)
		}
	}
}

func (s *Service) ownWord() word {
	w := word{publishing: s.elector.Authority().MayPublish()}
	if st := s.elector.Status(); st.Role == cluster.RoleHolder {
		w.term = st.Term
	}
	return w
}

// swims reports whether the failure detector looks after node.
func (s *Service) swims(node cluster.NodeID) bool {
	if !s.swim.core.Active() {
		return false
	}
	_, confirmed := s.swim.core.State(node)
	return confirmed
}

// pair reports whether this host and node are the holder and a voter.
func (s *Service) pair(node cluster.NodeID) bool {
	st := s.elector.Status()
	switch st.Holder {
	case "":
		return false
	case s.o.Self:
		return st.Config.Has(node)
	}
	return st.Holder == node && st.Config.Has(s.o.Self)
}

// judgeAll settles of every other host who decides about it.
func (s *Service) judgeAll(now time.Duration) {
	for node := range s.peers {
		s.detector.Judge(node, s.swims(node) && !s.pair(node), now)
	}
}

// settling reports whether the way of judging others has just changed.
func (s *Service) settling(now time.Duration) bool {
	return s.swim.since != 0 && now-s.swim.since < max(settleFor, 3*s.o.Timing.Heartbeat)
}

// fullTargets are the hosts that get a heartbeat in this round though the
// failure detector looks after them.
func (s *Service) fullTargets(now time.Duration, leaving bool) map[cluster.NodeID]bool {
	out := make(map[cluster.NodeID]bool)
	st := s.elector.Status()
	every := max(fullEvery, time.Duration(len(s.members))*fullShare, 3*s.o.Timing.Heartbeat)
	random := 0
	switch {
	case leaving:
		random = byeRandom
	case now >= s.swim.full:
		random = fullRandom
		s.swim.full = now + every - every/20 + time.Duration(s.o.Rand()*float64(every/10))
	}
	for node, p := range s.peers {
		wait := every*3/4 + time.Duration(s.o.Rand()*float64(every/2)) // so that hosts do not go together
		if node == st.Holder && st.Config.Has(s.o.Self) {
			wait = voterEvery
		}
		if (node == st.Holder || node == st.Publisher || st.Config.Has(node)) && (leaving || now-p.sentAt >= wait) {
			out[node] = true
		}
	}
	for range random {
		if m := s.members[int(s.o.Rand()*float64(len(s.members)))%len(s.members)]; m.Node != s.o.Self &&
			s.detector.Health(m.Node) == cluster.Alive {
			out[m.Node] = true
		}
	}
	return out
}

// onVerdict follows what the failure detector decided.
func (s *Service) onVerdict(a swim.Changed) {
	now := s.now()
	var t member.Transition
	var ok bool
	switch a.State {
	case swim.Alive:
		t, ok = s.detector.Back(a.Node)
	case swim.Failed:
		t, ok = s.detector.Lost(a.Node, a.Since, now)
	case swim.Left, swim.Suspect:
		return // the leave was heard itself; a suspicion is no verdict
	}
	if ok {
		s.healthChanged(t)
	}
}

// swimHeard tells the failure detector of a heartbeat.
func (s *Service) swimHeard(p *peerState, boot uint64, hb *wire.Heartbeat, answers bool) {
	switch {
	case hb.Inc == nil:
		s.swimStep(swim.Remove{Node: p.node}) // it knows heartbeats only
		return
	case hb.Leaving:
		s.swimStep(swim.Leaving{Node: p.node, Boot: boot})
		return
	}
	s.swimStep(swim.Add{Node: p.node})
	s.swimStep(swim.Heard{
		Node: p.node, Boot: boot, HasState: true, Inc: *hb.Inc, Ineligible: !hb.Eligible, Round: answers,
	})
}

// vital takes any other authenticated message as a sign of life: where
// heartbeats are rare, those of the lease are not.
func (s *Service) vital(d transport.Delivery) {
	p := s.peers[d.Msg.Node]
	if p == nil || p.compat.major || !s.swims(p.node) {
		return
	}
	s.swimStep(swim.Heard{Node: p.node, Boot: d.Msg.Boot})
	s.swimAlive(p, d.At)
}

// swimAlive notes a direct sign of life, if the failure detector took it for
// one.
func (s *Service) swimAlive(p *peerState, at time.Duration) {
	if st, confirmed := s.swim.core.State(p.node); confirmed && st == swim.Alive {
		s.heard(p, at)
	}
}

// onSwim takes a message of the failure detector.
func (s *Service) onSwim(d transport.Delivery, m swim.Message, state *wire.SwimState) {
	p := s.peers[d.Msg.Node]
	switch {
	case p == nil:
		return // removed meanwhile
	case p.compat.major:
		s.net.Reject(p.node, wire.Refuse(reasonMajor, "%s: %s", p.node, p.compat.why))
		return
	}
	s.swimStep(swim.Add{Node: p.node})
	s.swimStep(swim.Receive{From: p.node, Boot: d.Msg.Boot, Msg: m})
	s.swimAlive(p, d.At)
	if p.beatAt == 0 {
		return // which version and profile it has is not known yet
	}
	p.beat.Eligible = !m.Ineligible
	if state != nil {
		s.onSwimState(p, state, d.At)
	}
}

// onSwimState takes what an ack says of its sender like a heartbeat.
func (s *Service) onSwimState(p *peerState, st *wire.SwimState, at time.Duration) {
	hb := p.beat
	hb.Role, hb.Term, hb.Holder = cluster.RoleStandby, st.Term, st.Holder
	hb.Members, hb.Log, hb.LogEvents = st.Members, st.Log, st.LogEvents
	if st.Publishing {
		hb.Role = cluster.RolePublisher
	}
	s.checkClaim(p, &hb)
	p.beat = hb
	s.ownLog.sample(at)
	p.caughtUp = s.ownLog.coveredBy(hb.Log, hb.LogEvents, s.now())
	if hb.Members != wire.Digest(s.records.Digest()) {
		s.records.Want(p.node, hb.Members)
	}
}

// swimState is what this host's acks say of it.
func (s *Service) swimState() *wire.SwimState {
	st, own := s.elector.Status(), s.ownLog.newest()
	return &wire.SwimState{
		Publishing: s.elector.Authority().MayPublish(), Term: st.Term, Holder: st.Holder, Members: s.records.Digest(),
		Log: own.Digest, LogEvents: min(own.Events, wire.MaxNumber),
	}
}

// sendSwim sends a message of the failure detector, with as much news as fits.
func (s *Service) sendSwim(a swim.Send) {
	if s.removed {
		return
	}
	own := a.Msg.Own()
	for {
		kind, payload := a.Msg.Payload(own, s.swimState)
		err := s.net.Send(a.To, kind, payload)
		if err == nil || wire.ReasonOf(err) != wire.ReasonSize || len(own.Deltas) == 0 {
			if err != nil && s.gate.Pass("swim/"+string(a.To)) {
				s.log.Debug().Err(err).Str("peer", string(a.To)).Msg("probe not sent")
			}
			return
		}
		own.Deltas = own.Deltas[:len(own.Deltas)-1]
	}
}

// fit is what everyone is told of whether this host stands for the lease.
func (s *Service) fit(now time.Duration) bool {
	if len(s.elector.Failing()) == 0 {
		s.swim.fitAt = now
	}
	return s.elector.Willing() && now-s.swim.fitAt < unfitFor
}

// slower is n, and less the less well this host is.
func (s *Service) slower(n int) int { return max(2, n/(1+s.swim.core.Score())) }

// countSwim brings the failure detector's counters into the metrics.
func (s *Service) countSwim() {
	now, was := s.swim.core.Stats(), s.swim.stats
	s.swim.stats = now
	for what, n := range map[string]uint64{
		"probe": now.Probes - was.Probes, "indirect": now.Indirect - was.Indirect,
		"unanswered": now.Unanswered - was.Unanswered, "suspicion": now.Suspicions - was.Suspicions,
		"failure": now.Failures - was.Failures, "refutation": now.Refutations - was.Refutations,
		"late": now.Late - was.Late, "refused": now.Refused - was.Refused,
	} {
		s.m.swim.WithLabelValues(what).Add(float64(n))
	}
	s.m.localHealth.Set(float64(s.swim.core.Score()))
}

// reach are the hosts that news of membership is pushed to; all others pull.
func (s *Service) reach() []cluster.NodeID {
	if !s.swim.core.Active() {
		return s.direct(s.now(), false)
	}
	out := make([]cluster.NodeID, 0, byeRandom)
	for i, at := 0, s.rotate; i < len(s.members) && len(out) < byeRandom; i++ {
		if m := s.members[(at*byeRandom+i)%len(s.members)]; m.Node != s.o.Self {
			out = append(out, m.Node)
		}
	}
	return out
}
