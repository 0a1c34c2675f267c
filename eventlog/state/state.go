package state

import (
	"encoding/json"
	"iter"

	"github.com/skein-project/skein/cluster"
)

// State is the meaning of the events applied so far. The zero value is not
// usable, see New.
type State struct {
	// What a rebuild keeps: it decides what counts, not what is.
	fences  fences
	winners map[cluster.JobID]key // submission that defines the job, once disputed

	// What a rebuild begins anew.
	sources   map[cluster.SourceID]*source
	members   map[cluster.NodeID]*Member
	terms     map[termKey]*termInfo
	releases  map[releaseKey]release
	config    cluster.VoterConfig
	configAt  key
	jobs      map[cluster.JobID]*job
	applied   uint64
	void      uint64
	malformed uint64
}

// key orders events of all sources: the lower comes first.
type key struct {
	hlc cluster.HLC
	src cluster.SourceID
	seq uint64
}

func keyOf(e *cluster.Event) key { return key{hlc: e.HLC, src: e.Source, seq: e.Seq} }

func (k key) isZero() bool { return k.seq == 0 && k.hlc == 0 }

func (k key) less(o key) bool {
	if k.hlc != o.hlc {
		return k.hlc < o.hlc
	}
	if c := k.src.Compare(o.src); c != 0 {
		return c < 0
	}
	return k.seq < o.seq
}

// source is what is known of one chain.
type source struct {
	seq uint64 // last applied
	// last holds, per term, the last authority event that counted.
	last map[cluster.Term]uint64
	// The fence that applied last: events of term up to fence live.
	term    cluster.Term
	fence   uint64
	version uint64 // of the fences it was computed from
}

// New returns the State of an empty log.
func New() *State {
	s := &State{winners: make(map[cluster.JobID]key)}
	s.reset()
	return s
}

func (s *State) reset() {
	s.sources = make(map[cluster.SourceID]*source)
	s.members = make(map[cluster.NodeID]*Member)
	s.terms = make(map[termKey]*termInfo)
	s.releases = make(map[releaseKey]release)
	s.config, s.configAt = cluster.VoterConfig{}, key{}
	s.jobs = make(map[cluster.JobID]*job)
	s.applied, s.void, s.malformed = 0, 0, 0
}

// Apply folds one event. Events of one source must come in sequence; one that
// was applied already, or stands behind a fork of its source, is ignored. It
// reports true when events applied before
// have lost their meaning by this one: the State is then stale, and the caller
// must call Refold with all events, this one included, before reading it.
func (s *State) Apply(e cluster.Event) (rebuild bool) {
	if fork, ok := s.fences.forks[e.Source]; ok && e.Seq >= fork {
		return false
	}
	src := s.source(e.Source)
	if e.Seq <= src.seq {
		return false
	}
	src.seq = e.Seq
	s.applied++
	if !e.Kind.Authority() {
		s.applyPlain(&e)
		return false
	}
	if e.Term == 0 {
		s.malformed++ // authority without a term is none
		return false
	}
	if e.Kind == cluster.KindTermStart {
		if rebuild = s.applyTermStart(src, &e); rebuild {
			clear(s.winners) // a winner may be void now
		}
		return rebuild
	}
	return s.applyAuthority(src, &e)
}

// Refold folds all events from the beginning. The sequence is read until no
// event voids an earlier one any more, at least once; each time it must yield
// the same events, and those of one source in order.
func (s *State) Refold(events iter.Seq[cluster.Event]) {
	for {
		s.reset()
		again := false
		for e := range events {
			// Read on after a rebuild: every fence that is learned now saves
			// a pass.
			again = s.Apply(e) || again
		}
		if !again {
			return
		}
	}
}

func (s *State) source(id cluster.SourceID) *source {
	src, ok := s.sources[id]
	if !ok {
		src = &source{last: make(map[cluster.Term]uint64)}
		s.sources[id] = src
	}
	return src
}

func (s *State) applyPlain(e *cluster.Event) {
	switch e.Kind {
	case cluster.KindHostStarted:
		if b, ok := decode[cluster.HostStarted](s, e); ok {
			s.hostStarted(e, b)
		}
	case cluster.KindMemberJoined:
		if b, ok := decode[cluster.MemberJoined](s, e); ok {
			s.memberJoined(e, b)
		}
	case cluster.KindLeaseReleased:
		if b, ok := decode[cluster.LeaseReleased](s, e); ok {
			s.leaseEnded(e, b)
		}
	case cluster.KindLeaseLost:
		if b, ok := decode[cluster.LeaseLost](s, e); ok {
			s.leaseEnded(e, cluster.LeaseReleased{Term: b.Term, Reason: b.Reason})
		}
	}
}

// applyAuthority folds an exercise of the lease, other than term_start.
func (s *State) applyAuthority(src *source, e *cluster.Event) (rebuild bool) {
	if s.isVoid(src, e) {
		s.void++
		return false
	}
	src.last[e.Term] = e.Seq
	switch e.Kind {
	case cluster.KindConfigChanged:
		if b, ok := decode[cluster.ConfigChanged](s, e); ok {
			s.configChanged(e, b)
		}
		return false
	case cluster.KindJobSubmitted:
		if b, ok := decode[cluster.JobSubmitted](s, e); ok {
			return s.jobSubmitted(e, b)
		}
		return false
	}
	s.applyJob(e)
	return false
}

// decode reads the body of e and counts what cannot be read.
func decode[T any](s *State, e *cluster.Event) (T, bool) {
	var body T
	if err := json.Unmarshal(e.Body, &body); err != nil {
		s.malformed++
		return body, false
	}
	return body, true
}

// clip bounds a text.
func clip(text string, limit int) string {
	return text[:min(len(text), limit)]
}
