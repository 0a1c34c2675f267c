package eventlog

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/skein-project/skein/cluster"
)

// stability counts which voters hold the own chain.
type stability struct {
	mu      sync.Mutex
	cfg     cluster.VoterConfig
	voters  map[cluster.NodeID]*voter // the others
	own     voter                     // this host, whether it votes or not
	src     cluster.SourceID          // the own chain
	changed chan struct{}             // closed and replaced on every change
	stable  uint64                    // highest own event known to be stable
	// lost are own events at or below stable that are not stable themselves:
	// a majority had promised a higher term before it held them.
	lost map[uint64]bool
}

// voter is what is known of a voter.
type voter struct {
	connected bool
	acked     uint64          // it holds the own chain up to here
	refused   map[uint64]bool // but had promised a higher term before
}

// checkEvery bounds how long WaitStable overlooks a lost lease.
const checkEvery = 100 * time.Millisecond

func (s *stability) init() {
	s.voters = map[cluster.NodeID]*voter{}
	s.lost = map[uint64]bool{}
	s.own.refused = map[uint64]bool{}
	s.changed = make(chan struct{})
}

func (s *stability) notifyLocked() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// SetVoters tells the log who votes. New own events are pushed to the other
// voters at once, and stability counts them.
func (l *Log) SetVoters(cfg cluster.VoterConfig) {
	s := &l.rep.stab
	s.mu.Lock()
	cfg.Voters = slices.Clone(cfg.Voters)
	s.cfg = cfg
	next := map[cluster.NodeID]*voter{}
	for _, v := range cfg.Voters {
		if v == l.o.Self {
			continue
		}
		if next[v] = s.voters[v]; next[v] == nil {
			next[v] = &voter{refused: map[uint64]bool{}}
		}
	}
	s.voters = next
	s.notifyLocked()
	s.mu.Unlock()
	l.advanceStable()
}

// setConnected notes that a voter can or cannot be reached.
func (l *Log) setConnected(v cluster.NodeID, up bool) {
	s := &l.rep.stab
	s.mu.Lock()
	if vt := s.voters[v]; vt != nil {
		vt.connected = up
		if up {
			vt.acked = 0 // it says what it holds; its disk may have changed
		}
		s.notifyLocked()
	}
	s.mu.Unlock()
	if !up {
		l.advanceStable() // in available mode it no longer holds anyone up
	}
}

// acked notes a voter's answer: it holds the own chain up to a.mark.Seq, and
// its promised term was a.promised at a moment after that.
func (l *Log) acked(v cluster.NodeID, src cluster.SourceID, a ack) {
	events := l.pendingTerms(src)
	s := &l.rep.stab
	s.mu.Lock()
	if vt := s.voters[v]; vt != nil && src == s.src && a.mark.Seq > vt.acked {
		vt.hold(events, a)
		result := "stored"
		if vt.refused[a.mark.Seq] {
			result = "refused"
		}
		l.m.acks.WithLabelValues(result).Inc()
		s.notifyLocked()
	}
	s.mu.Unlock()
	l.advanceStable()
}

// hold notes that the voter holds the own chain up to a.mark.Seq, and that the
// events of lower terms than it had promised by then do not count.
func (v *voter) hold(events []ownTerm, a ack) {
	for _, e := range beyond(upTo(events, a.mark.Seq), v.acked) {
		if e.term > 0 && e.term < a.promised {
			v.refused[e.seq] = true
		}
	}
	v.acked = a.mark.Seq
}

// forget drops what it knows of events below seq.
func (v *voter) forget(seq uint64) {
	maps.DeleteFunc(v.refused, func(s uint64, _ bool) bool { return s < seq })
}

// ownAck counts this host's own vote, for what became durable here before.
// Like that of any voter it is not given in a term below the promised one:
// whoever was promised more may have asked for heads before this.
func (l *Log) ownAck() {
	l.mu.RLock()
	events, head := l.unstable, l.own.head
	l.mu.RUnlock()
	a := ack{mark: cluster.Mark{Seq: head.Seq, Hash: head.Hash}, promised: l.o.Promised()}
	s := &l.rep.stab
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.mark.Seq > s.own.acked {
		s.own.hold(events, a)
		s.notifyLocked()
	}
}

// resetVoters forgets all answers: the own chain is that of src, durable here
// up to seq.
func (l *Log) resetVoters(src cluster.SourceID, seq uint64) {
	s := &l.rep.stab
	s.mu.Lock()
	s.src = src
	for _, v := range s.voters {
		v.acked, v.refused = 0, map[uint64]bool{}
	}
	s.own = voter{refused: map[uint64]bool{}, acked: seq}
	s.stable = 0
	clear(s.lost)
	s.notifyLocked()
	s.mu.Unlock()
}

// pendingTerms returns the own events after the last stable one, if src is
// still the own chain.
func (l *Log) pendingTerms(src cluster.SourceID) []ownTerm {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.own.src != src {
		return nil
	}
	return l.unstable
}

func addTerms(pending []ownTerm, events []cluster.Event) []ownTerm {
	for i := range events {
		pending = append(pending, ownTerm{seq: events[i].Seq, term: events[i].Term})
	}
	return pending
}

// count says how many voters hold seq so that it counts, this host included,
// and how many there still may be. stab.mu is held.
func (s *stability) count(self cluster.NodeID, seq uint64) (have, possible int) {
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
	if s.cfg.Has(self) {
		add(&s.own)
	}
	for _, v := range s.voters {
		add(v)
	}
	return have, possible
}

// enough says whether have voters make seq stable.
func (s *stability) enough(self cluster.NodeID, seq uint64) (have int, ok, hopeless bool) {
	have, possible := s.count(self, seq)
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

// held returns a seq that no stable event can be above: what enough voters
// hold, whatever they had promised.
func (s *stability) held(self cluster.NodeID) uint64 {
	if s.cfg.IsZero() {
		return 0
	}
	var marks []uint64
	if s.cfg.Has(self) {
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

// advanceStable moves the mark of the highest stable event, and forgets what
// is needed for events below it only.
func (l *Log) advanceStable() {
	l.mu.RLock()
	pending := l.unstable
	l.mu.RUnlock()
	s := &l.rep.stab
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range slices.Backward(upTo(pending, s.held(l.o.Self))) {
		if e.seq <= s.stable {
			break
		}
		if _, ok, _ := s.enough(l.o.Self, e.seq); !ok {
			continue
		}
		for _, below := range beyond(upTo(pending, e.seq-1), s.stable) {
			if _, ok, _ := s.enough(l.o.Self, below.seq); !ok {
				s.lost[below.seq] = true
			}
		}
		s.stable = e.seq
		for _, v := range s.voters {
			v.forget(e.seq)
		}
		s.own.forget(e.seq)
		l.m.stable.Set(float64(e.seq))
		s.notifyLocked()
		break
	}
	l.trimPending(s.stable)
}

// trimPending forgets the terms of events up to the stable one. Readers may
// still hold the old slice, so it is cut and not changed.
func (l *Log) trimPending(stable uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unstable = l.unstable[len(upTo(l.unstable, stable)):]
}

// StableSeq returns the last event of the own chain that is known to be
// stable.
func (l *Log) StableSeq() uint64 {
	s := &l.rep.stab
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stable
}

// WaitStable waits until the own event seq, 0 for the last one, is stable and returns how many
// voters hold it. In single mode that is this host alone, in quorum mode a
// majority of the configured voters, in available mode every voter that can
// be reached, at least this one. An error wraps ErrUnknown: the lease was
// lost, too many voters have promised a higher term, or ctx ended; the event
// may become stable all the same.
func (l *Log) WaitStable(ctx context.Context, seq uint64) (voters int, err error) {
	src := l.Source()
	if seq == 0 {
		// Whatever is here: the caller asks about something older.
		seq = l.Head(src).Seq
	}
	term := l.termOf(seq)
	tick := time.NewTicker(checkEvery)
	defer tick.Stop()
	for {
		durable := l.Changed()
		acked, n, done, err := l.stableNow(src, seq, term)
		if done || err != nil {
			return n, err
		}
		select {
		case <-durable:
		case <-acked:
		case <-tick.C:
		case <-ctx.Done():
			return n, fmt.Errorf("wait until event %d is stable: %w: %w", seq, ErrUnknown, context.Cause(ctx))
		}
	}
}

func (l *Log) termOf(seq uint64) cluster.Term {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if p := upTo(l.unstable, seq); len(p) > 0 && p[len(p)-1].seq == seq {
		return p[len(p)-1].term
	}
	return 0
}

// stableNow looks once. acked is closed when the voters' answers change.
func (l *Log) stableNow(src cluster.SourceID, seq uint64, term cluster.Term) (acked <-chan struct{}, n int, done bool, err error) {
	l.mu.RLock()
	now, poisoned := l.own.src, l.poisoned
	l.mu.RUnlock()
	s := &l.rep.stab
	s.mu.Lock()
	defer s.mu.Unlock()
	n, ok, hopeless := s.enough(l.o.Self, seq)
	switch {
	case now != src:
		err = fmt.Errorf("event %d: %w: %w", seq, ErrUnknown, ErrRolledBack)
	case s.lost[seq] || !ok && hopeless:
		err = fmt.Errorf("event %d: %w: %w", seq, ErrUnknown, ErrRefused)
	case ok || seq <= s.stable && seq > 0:
		return s.changed, n, true, nil
	case poisoned != nil:
		err = fmt.Errorf("event %d: %w: %w", seq, ErrUnknown, poisoned)
	case term > 0 && !l.o.MayAct(term):
		err = fmt.Errorf("event %d: %w: lease of term %d lost", seq, ErrUnknown, term)
	}
	return s.changed, n, false, err
}
