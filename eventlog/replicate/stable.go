package replicate

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/store"
	"github.com/skein-project/skein/eventlog/wire"
)

// Stability counts which voters hold the own chain.
type Stability struct {
	self     cluster.NodeID
	st       *store.Store
	mayAct   func(cluster.Term) bool
	promised func() cluster.Term
	m        *metrics

	mu      sync.Mutex
	cfg     cluster.VoterConfig
	voters  map[cluster.NodeID]*voter // the others
	own     voter                     // this host, whether it votes or not
	src     event.SourceID            // the own chain
	pending []ownTerm                 // own events after the last stable one, dense
	stable  uint64                    // highest own event known to be stable
	reached uint64                    // what enough voters and this host hold, at the last look
	waiters waiters
	// lost are own events at or below stable that are not stable themselves:
	// a majority had promised a higher term before it held them.
	lost map[uint64]bool
}

// waiters are the callers of Wait.
type waiters struct {
	changed chan struct{} // closed and replaced when a Wait may end
	inside  int
	left    int       // when the last own event became stable
	at      time.Time // when that was
	round   uint64    // how often it was
}

// ownTerm is the term of one own event.
type ownTerm struct {
	seq  uint64
	term cluster.Term
}

// voter is what is known of a voter.
type voter struct {
	connected bool
	acked     uint64          // it holds the own chain up to here
	refused   map[uint64]bool // but had promised a higher term before
}

// checkEvery bounds how long Stability.Wait overlooks a lost lease.
const checkEvery = 100 * time.Millisecond

func newStability(o Options, m *metrics) *Stability {
	return &Stability{
		self: o.Self, st: o.Store, mayAct: o.MayAct, promised: o.Promised, m: m,
		voters: map[cluster.NodeID]*voter{}, own: voter{refused: map[uint64]bool{}},
		waiters: waiters{changed: make(chan struct{})}, lost: map[uint64]bool{},
	}
}

func (s *Stability) notifyLocked() {
	close(s.waiters.changed)
	s.waiters.changed = make(chan struct{})
}

// SetVoters tells who votes. New own events are pushed to the other voters at
// once, and stability counts them.
func (s *Stability) SetVoters(cfg cluster.VoterConfig) {
	s.mu.Lock()
	defer s.mu.Unlock()
	cfg.Voters = slices.Clone(cfg.Voters)
	s.cfg = cfg
	next := map[cluster.NodeID]*voter{}
	for _, v := range cfg.Voters {
		if v == s.self {
			continue
		}
		if next[v] = s.voters[v]; next[v] == nil {
			next[v] = &voter{refused: map[uint64]bool{}}
		}
	}
	s.voters = next
	s.notifyLocked()
	s.advanceLocked()
}

// Voters is who votes, as far as is known.
func (s *Stability) Voters() cluster.VoterConfig {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cfg
}

// others returns the other voters, and a channel that is closed when something
// changes.
func (s *Stability) others() (voters map[cluster.NodeID]bool, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	voters = make(map[cluster.NodeID]bool, len(s.voters))
	for v := range s.voters {
		voters[v] = true
	}
	return voters, s.waiters.changed
}

// acknowledged says up to where each other voter holds the own chain.
func (s *Stability) acknowledged() map[cluster.NodeID]uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make(map[cluster.NodeID]uint64, len(s.voters))
	for n, v := range s.voters {
		out[n] = v.acked
	}
	return out
}

// setConnected notes that a voter can or cannot be reached.
func (s *Stability) setConnected(v cluster.NodeID, up bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if vt := s.voters[v]; vt != nil {
		vt.connected = up
		if up {
			vt.acked = 0 // it says what it holds; its disk may have changed
		}
		s.notifyLocked()
	}
	if !up {
		s.advanceLocked() // in available mode it no longer holds anyone up
	}
}

// acked notes a voter's answer: it holds the own chain up to a.Mark.Seq, and
// its promised term was a.Promised at a moment after that.
func (s *Stability) acked(v cluster.NodeID, src event.SourceID, a wire.Ack) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if vt := s.voters[v]; vt != nil && src == s.src && a.Mark.Seq > vt.acked {
		s.hold(vt, a)
		result := "stored"
		if vt.refused[a.Mark.Seq] {
			result = "refused"
		}
		s.m.acks.WithLabelValues(result).Inc()
	}
	s.advanceLocked()
}

// hold notes that the voter holds the own chain up to a.Mark.Seq, and that the
// events of lower terms than it had promised by then do not count. s.mu is held.
func (s *Stability) hold(v *voter, a wire.Ack) {
	refused := false
	for _, e := range beyond(upTo(s.pending, a.Mark.Seq), v.acked) {
		if e.term > 0 && e.term < a.Promised {
			v.refused[e.seq] = true
			refused = true
		}
	}
	v.acked = a.Mark.Seq
	if refused {
		s.notifyLocked() // for who waits there may be no hope
	}
}

// forget drops what it knows of events below seq.
func (v *voter) forget(seq uint64) {
	maps.DeleteFunc(v.refused, func(s uint64, _ bool) bool { return s < seq })
}

// Expect notes own events that are durable here, before anybody can see them:
// an acknowledgement must not arrive before the terms are known.
func (s *Stability) Expect(events []event.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range events {
		s.pending = append(s.pending, ownTerm{seq: events[i].Seq, term: events[i].Term})
	}
}

// Durable counts this host's own vote, for what became durable here up to head
// before. Like that of any voter it is not given in a term below the promised
// one: whoever was promised more may have asked for heads before this.
func (s *Stability) Durable(head event.Head) {
	a := wire.Ack{Mark: event.Mark{Seq: head.Seq, Hash: head.Hash}, Promised: s.promised()}
	s.mu.Lock()
	defer s.mu.Unlock()
	if head.Source == s.src && head.Seq > s.own.acked {
		s.hold(&s.own, a)
	}
	s.advanceLocked()
}

// Reset forgets all answers: the own chain is that of src, durable here up to
// seq.
func (s *Stability) Reset(src event.SourceID, seq uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.src = src
	for _, v := range s.voters {
		v.acked, v.refused = 0, map[uint64]bool{}
	}
	s.own = voter{refused: map[uint64]bool{}, acked: seq}
	s.pending = nil
	s.stable = 0
	clear(s.lost)
	s.notifyLocked()
}

// count says how many voters hold seq so that it counts, this host included,
// and how many there still may be. s.mu is held.
func (s *Stability) count(seq uint64) (have, possible int) {
	add := func(v *voter) {
		switch {
		case v.refused[seq]:
		case v.acked >= seq:
			have++
			possible++
		default:
			possible++
		}
	}
	if s.cfg.Has(s.self) {
		add(&s.own)
	}
	for _, v := range s.voters {
		add(v)
	}
	return have, possible
}

// enough says whether have voters make seq stable.
func (s *Stability) enough(seq uint64) (have int, ok, hopeless bool) {
	have, possible := s.count(seq)
	if s.cfg.IsZero() || seq > s.own.acked {
		return have, false, false
	}
	if s.cfg.Mode == cluster.ModeAvailable {
		for _, v := range s.voters {
			if v.connected && v.acked < seq {
				return have, false, false
			}
			if v.connected && v.refused[seq] {
				return have, false, true
			}
		}
		return have, have > 0, s.own.refused[seq]
	}
	need := s.cfg.Majority()
	return have, have >= need, possible < need
}

// Held reports whether a majority of the voters holds the own chain up to seq, in
// whatever mode.
func (s *Stability) Held(seq uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	have, _ := s.count(seq)
	return !s.cfg.IsZero() && have >= s.cfg.Majority()
}

// held returns a seq that no stable event can be above: what enough voters
// hold, whatever they had promised.
func (s *Stability) held() uint64 {
	if s.cfg.IsZero() {
		return 0
	}
	var marks []uint64
	if s.cfg.Has(s.self) {
		marks = append(marks, s.own.acked)
	}
	for _, v := range s.voters {
		if s.cfg.Mode != cluster.ModeAvailable || v.connected {
			marks = append(marks, v.acked)
		}
	}
	slices.Sort(marks)
	need := len(marks) // available: all of them
	if s.cfg.Mode != cluster.ModeAvailable {
		need = s.cfg.Majority()
	}
	if need == 0 || need > len(marks) {
		return 0
	}
	return marks[len(marks)-need]
}

// beyond returns the part of pending, which is dense, above seq.
func beyond(pending []ownTerm, seq uint64) []ownTerm {
	if len(pending) == 0 || seq < pending[0].seq {
		return pending
	}
	return pending[min(uint64(len(pending)), seq-pending[0].seq+1):]
}

// upTo returns the part of pending, which is dense, up to seq.
func upTo(pending []ownTerm, seq uint64) []ownTerm {
	if len(pending) == 0 || seq < pending[0].seq {
		return nil
	}
	return pending[:min(uint64(len(pending)), seq-pending[0].seq+1)]
}

// advanceLocked moves the mark of the highest stable event, and forgets what
// is needed for events below it only. Those who wait are woken when enough voters
// hold more, not with every answer.
func (s *Stability) advanceLocked() {
	held := s.held()
	if reached := min(held, s.own.acked); reached != s.reached {
		s.reached = reached
		s.notifyLocked()
	}
	for _, e := range slices.Backward(upTo(s.pending, held)) {
		if e.seq <= s.stable {
			break
		}
		if _, ok, _ := s.enough(e.seq); !ok {
			continue
		}
		for _, below := range beyond(upTo(s.pending, e.seq-1), s.stable) {
			if _, ok, _ := s.enough(below.seq); !ok {
				s.lost[below.seq] = true
			}
		}
		s.stable = e.seq
		for _, v := range s.voters {
			v.forget(e.seq)
		}
		s.own.forget(e.seq)
		s.m.stable.Set(float64(e.seq))
		break
	}
	s.pending = s.pending[len(upTo(s.pending, s.stable)):]
	if w := &s.waiters; len(s.pending) == 0 && w.inside > 0 {
		w.left, w.inside, w.at = w.inside, 0, time.Now()
		w.round++
	}
}

// Wait waits until the own event seq, 0 for the last one, is stable and returns
// how many voters hold it. In single mode that is this host alone, in quorum
// mode a majority of the configured voters, in available mode every voter that
// can be reached, at least this one. An error wraps ErrUnknown: the lease was
// lost, too many voters have promised a higher term, or ctx ended; the event
// may become stable all the same.
func (s *Stability) Wait(ctx context.Context, seq uint64) (voters int, err error) {
	src := s.st.Source()
	if seq == 0 {
		// Whatever is here: the caller asks about something older.
		seq = s.st.Head(src).Seq
	}
	term := s.termOf(seq)
	if _, n, done, err := s.now(src, seq, term); done || err != nil {
		return n, err
	}
	defer s.waits()()
	tick := time.NewTicker(checkEvery)
	defer tick.Stop()
	for {
		acked, n, done, err := s.now(src, seq, term)
		if done || err != nil {
			return n, err
		}
		select {
		case <-acked:
		case <-tick.C:
		case <-ctx.Done():
			return n, fmt.Errorf("wait until event %d is stable: %w: %w", seq, ErrUnknown, context.Cause(ctx))
		}
	}
}

// waits counts a caller of Wait until leave is called, or it is counted among those who left.
func (s *Stability) waits() (leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiters.inside++
	round := s.waiters.round
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.waiters.round == round {
			s.waiters.inside--
		}
	}
}

// Waiting returns how many callers of Wait there are while own events are not stable, or
// how many left when the last one became stable, less than recent ago; changed is closed
// when that may be another number.
func (s *Stability) Waiting(recent time.Duration) (still, left int, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case len(s.pending) > 0:
		still = s.waiters.inside
	case time.Since(s.waiters.at) < recent:
		left = s.waiters.left
	}
	return still, left, s.waiters.changed
}

// Wake has those who wait look again: the store says why nothing more is written.
func (s *Stability) Wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notifyLocked()
}

func (s *Stability) termOf(seq uint64) cluster.Term {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := upTo(s.pending, seq); len(p) > 0 && p[len(p)-1].seq == seq {
		return p[len(p)-1].term
	}
	return 0
}

// now looks once. acked is closed when the voters' answers change.
func (s *Stability) now(src event.SourceID, seq uint64, term cluster.Term) (acked <-chan struct{}, n int, done bool, err error) {
	poisoned := s.st.Err()
	s.mu.Lock()
	defer s.mu.Unlock()
	n, ok, hopeless := s.enough(seq)
	switch {
	case s.src != src:
		err = fmt.Errorf("event %d: %w: %w", seq, ErrUnknown, store.ErrRolledBack)
	case s.lost[seq] || !ok && hopeless:
		err = fmt.Errorf("event %d: %w: %w", seq, ErrUnknown, ErrRefused)
	case ok || seq <= s.stable && seq > 0:
		return s.waiters.changed, n, true, nil
	case poisoned != nil:
		err = fmt.Errorf("event %d: %w: %w", seq, ErrUnknown, poisoned)
	case term > 0 && !s.mayAct(term):
		err = fmt.Errorf("event %d: %w: lease of term %d lost", seq, ErrUnknown, term)
	}
	return s.waiters.changed, n, false, err
}

// Voters is who votes, as far as is known.
func (r *Replicator) Voters() cluster.VoterConfig { return r.stab.Voters() }
