package state

import (
	"encoding/json"
	"iter"
	"maps"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
)

// State is the meaning of the events applied so far. The zero value is not
// usable, see New.
type State struct {
	// What a rebuild keeps: it decides what counts, not what is.
	fences  fences
	winners map[job.ID]key  // submission that defines the job, once disputed
	tombs   map[job.ID]tomb // of forgotten jobs
	base    *base           // what no event can change any more; nil: nothing

	// What a rebuild begins anew.
	stale     bool // a rebuild was asked for
	sources   map[event.SourceID]*source
	members   map[cluster.NodeID]*member
	actions   []stamped[Action]      // the latest, oldest first
	published []stamped[Publication] // the latest, oldest first
	terms     map[termKey]*termInfo
	older     olderTerms
	releases  map[cluster.NodeID][]release // the highest terms of each holder, by term
	config    stamped[cluster.VoterConfig]
	groups    map[string]stamped[group]
	onions    map[onionKey]stamped[onion]
	jobs      map[job.ID]*foldedJob
	applied   uint64
	void      uint64
	malformed uint64
	refused   uint64
	refusals  []Refusal // the latest, oldest first

	scratch *event.Scratch // of decoding; nil: to be made
}

// key orders events of all sources: the lower comes first.
type key struct {
	hlc cluster.HLC
	src event.SourceID
	seq uint64
}

func keyOf(e *event.Event) key { return key{hlc: e.HLC, src: e.Source, seq: e.Seq} }

func (k key) isZero() bool { return k.seq == 0 && k.hlc == 0 }

func (k key) less(o key) bool { return k.compare(o) < 0 }

func (k key) later(o key) key {
	if k.less(o) {
		return o
	}
	return k
}

func (k key) compare(o key) int {
	switch {
	case k.hlc < o.hlc:
		return -1
	case k.hlc > o.hlc:
		return 1
	}
	if c := k.src.Compare(o.src); c != 0 {
		return c
	}
	switch {
	case k.seq < o.seq:
		return -1
	case k.seq > o.seq:
		return 1
	}
	return 0
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
	s := &State{winners: make(map[job.ID]key), tombs: make(map[job.ID]tomb)}
	s.reset()
	return s
}

// reset forgets what a rebuild begins anew.
func (s *State) reset() {
	*s = State{
		fences: s.fences, winners: s.winners, tombs: s.tombs, base: s.base, scratch: s.scratch,
		sources:  make(map[event.SourceID]*source),
		members:  make(map[cluster.NodeID]*member),
		terms:    make(map[termKey]*termInfo),
		releases: make(map[cluster.NodeID][]release),
		groups:   make(map[string]stamped[group]),
		onions:   make(map[onionKey]stamped[onion]),
		jobs:     make(map[job.ID]*foldedJob),
	}
}

// Apply folds one event. Events of one source must come in sequence; one that
// was applied already, or stands behind a fork of its source, is ignored. It
// reports true when events applied before have lost their meaning by this one: the State is then stale, and the caller
// must call Refold with all events, this one included, before reading it.
func (s *State) Apply(e event.Event) (rebuild bool) {
	if end, ok := s.end(e.Source); ok && e.Seq >= end {
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
	if e.Kind == event.KindTermStart {
		if rebuild = s.applyTermStart(src, &e); rebuild {
			clear(s.winners) // a winner may be void now
			s.unbury()
		}
	} else {
		rebuild = s.applyAuthority(src, &e)
	}
	s.stale = s.stale || rebuild
	return rebuild
}

// Refold folds events from the beginning: from nothing, or from base, which it
// leaves as it is; then the events are those beyond base's positions, and
// others are ignored. The sequence is read until no event voids an earlier one
// any more, at least once; each time it must yield the same events, and those
// of one source in order. A stale base is a bug of the caller.
func (s *State) Refold(base *State, events iter.Seq[event.Event]) {
	switch {
	case base != nil && base.stale:
		panic("state: refold from a stale base")
	case base != nil:
		// What was learned without this base may reach under it.
		base = base.Clone()
		base.settle()
		forks := lowest(base.fences.forks, s.fences.forks)
		s.fences, s.winners, s.tombs = base.fences.clone(), make(map[job.ID]key), maps.Clone(base.tombs)
		s.fences.forks = forks
	case s.base != nil:
		s.fences, s.winners, s.base = fences{forks: s.fences.forks}, make(map[job.ID]key), nil
		s.unbury()
	}
	for {
		if base != nil {
			fences, winners, tombs := s.fences, s.winners, s.tombs
			*s = *base.Clone()
			s.fences, s.winners, s.tombs = fences, winners, tombs
			s.buryAll()
			s.refuseForks()
		} else {
			s.reset()
		}
		again := false
		for e := range events {
			// Read on after a rebuild: every fence that is learned now saves
			// a pass.
			again = s.Apply(e) || again
		}
		if !again {
			clear(s.winners) // the jobs tell the same by now
			return
		}
	}
}

// Spoil makes the State stale: not all events were read.
func (s *State) Spoil() { s.stale = true }

func (s *State) source(id event.SourceID) *source {
	src, ok := s.sources[id]
	if !ok {
		src = &source{last: make(map[cluster.Term]uint64)}
		s.sources[id] = src
	}
	return src
}

func (s *State) applyPlain(e *event.Event) {
	if s.applyMember(e) {
		return
	}
	switch e.Kind {
	case event.KindLeaseReleased:
		if b, ok := decode[event.LeaseReleased](s, e); ok {
			s.leaseEnded(e, b)
		}
	case event.KindLeaseLost:
		if b, ok := decode[event.LeaseLost](s, e); ok {
			s.leaseEnded(e, event.LeaseReleased{Term: b.Term, Reason: b.Reason})
		}
	case event.KindOnionSet:
		if b, ok := decode[event.OnionSet](s, e); ok {
			s.onionSet(e, b)
		}
	case event.KindPublishing:
		if b, ok := decode[event.Publishing](s, e); ok {
			s.publishing(e, b)
		}
	default:
		s.applyAction(e)
	}
}

// applyAuthority folds an exercise of the lease, other than term_start.
func (s *State) applyAuthority(src *source, e *event.Event) (rebuild bool) {
	if s.isVoid(src, e) {
		s.void++
		return false
	}
	src.last[e.Term] = e.Seq
	switch e.Kind {
	case event.KindConfigChanged:
		if b, ok := decode[event.ConfigChanged](s, e); ok {
			s.configChanged(e, b)
		}
		return false
	case event.KindGroupSet:
		if b, ok := decode[event.GroupSet](s, e); ok {
			s.groupSet(e, b)
		}
		return false
	case event.KindJobsForgotten:
		if b, ok := decode[event.JobsForgotten](s, e); ok {
			return s.forget(e, b)
		}
		return false
	case event.KindJobSubmitted:
		if b, ok := decode[event.JobSubmitted](s, e); ok {
			return s.jobSubmitted(e, b)
		}
		return false
	}
	s.applyJob(e)
	return false
}

// decode reads the body of e and counts what cannot be read.
func decode[T any](s *State, e *event.Event) (T, bool) {
	var body T
	if s.scratch == nil {
		s.scratch = event.NewScratch()
	}
	if event.ReadCompact(&body, e.Body, s.scratch) {
		return body, true
	}
	body = *new(T)
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

// isNode reports whether n can name a host; with optional, also that it names
// none.
func isNode(n cluster.NodeID, optional bool) bool {
	if n == "" {
		return optional
	}
	_, err := cluster.ParseNodeID(string(n))
	return err == nil
}

func areNodes(list []cluster.NodeID) bool {
	for _, n := range list {
		if !isNode(n, false) {
			return false
		}
	}
	return len(list) <= cluster.MaxVoters
}
