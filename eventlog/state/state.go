package state

import (
	"iter"
	"maps"

	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/state/canon"
	"github.com/skein-project/skein/eventlog/state/flows"
	"github.com/skein-project/skein/eventlog/state/jobs"
	"github.com/skein-project/skein/eventlog/state/loads"
	"github.com/skein-project/skein/eventlog/state/registry"
	"github.com/skein-project/skein/eventlog/state/schedules"
)

// State is the meaning of the events applied so far. The zero value is not
// usable, see New.
//
// It hands each event to the part that it is about. The embedded parts answer
// readers themselves.
type State struct {
	chains // which events count
	leaseHistory
	hosts
	groups
	onions
	users
	owners
	outside registry.Registry
	flows   *flows.Fold
	jobs    *jobs.Fold
	beside
	bodies

	applied uint64
	void    uint64
	stale   bool // a rebuild was asked for
}

// beside is what runs beside jobs and workflows, or begins them.
type beside struct {
	schedules *schedules.Fold
	loads     *loads.Fold
	reservations
}

func (b beside) clone() beside {
	return beside{schedules: b.schedules.Clone(), loads: b.loads.Clone(), reservations: maps.Clone(b.reservations)}
}

// New returns the State of an empty log.
func New() *State {
	return &State{
		chains: newChains(), leaseHistory: newLeaseHistory(), hosts: newHosts(), groups: make(groups), onions: make(onions),
		users: newUsers(), owners: make(owners), outside: registry.New(),
		flows: flows.New(), jobs: jobs.New(), beside: beside{schedules: schedules.New(), loads: loads.New(), reservations: make(reservations)},
	}
}

// Clone returns an independent copy.
func (s *State) Clone() *State {
	return &State{
		chains: s.chains.clone(), leaseHistory: s.leaseHistory.clone(), hosts: s.hosts.clone(),
		groups: maps.Clone(s.groups), onions: maps.Clone(s.onions), users: s.users.clone(), owners: maps.Clone(s.owners),
		outside: s.outside.Clone(), flows: s.flows.Clone(), jobs: s.jobs.Clone(), beside: s.beside.clone(),
		bodies:  bodies{malformed: s.malformed},
		applied: s.applied, void: s.void, stale: s.stale,
	}
}

// Apply folds one event. Events of one source must come in sequence; one that
// was applied already, or stands behind a fork of its source, is ignored. It
// reports true when this one makes events void that were applied before: the
// State is then stale, and the caller must call Refold with all events, this one
// included, before reading it.
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
			s.jobs.Reconsider()
		}
	} else {
		rebuild = s.applyAuthority(src, &e)
	}
	s.stale = s.stale || rebuild
	return rebuild
}

// Fork tells that a source signed two histories that differ from its event seq
// on, which is at least 1. No event of it from there on counts, on whichever of
// them it stands, except what lies below the base; of several forks of a source
// the lowest counts. Like Apply it reports true when the caller must call
// Refold before reading the State.
func (s *State) Fork(id event.SourceID, seq uint64) (rebuild bool) {
	if !s.fork(id, seq) {
		return false
	}
	s.jobs.Reconsider()
	s.stale = true
	return true
}

// Refold folds events from the beginning: from nothing, or from base, which it
// leaves as it is; then the events are those beyond base's positions, and
// others are ignored. The sequence is read until no event voids an earlier one
// any more, at least once; each time it must yield the same events, and those
// of one source in order. A stale base is a bug of the caller.
func (s *State) Refold(base *State, events iter.Seq[event.Event]) {
	if base == nil {
		s.chains.rebase(nil)
		s.jobs.Rebase(nil)
	} else {
		if base.stale {
			panic("state: refold from a stale base")
		}
		// What was learned without this base may reach under it.
		base = base.Clone()
		base.settle()
		s.chains.rebase(&base.chains)
		s.jobs.Rebase(base.jobs)
	}
	for {
		s.restart(base)
		again := false
		for e := range events {
			// Read on after a rebuild: every fence that is learned now saves
			// a pass.
			again = s.Apply(e) || again
		}
		if !again {
			s.jobs.Rebuilt()
			return
		}
	}
}

// restart begins one pass of Refold: with nothing, or with a copy of base. What
// was learned of which events count is kept.
func (s *State) restart(base *State) {
	next := New()
	if base != nil {
		next = base.Clone()
	}
	next.chains.inherit(&s.chains)
	next.jobs.Inherit(s.jobs)
	next.scratch = s.scratch
	*s = *next
}

// settle makes what is folded so far the base.
func (s *State) settle() {
	s.jobs.SetBase()
	s.flows.Settle()
	s.schedules.Settle()
	s.loads.Settle()
	s.setBase()
}

// Spoil makes the State stale: not all events were read.
func (s *State) Spoil() { s.stale = true }

// Counts says how many events were applied, and of these how many are void by
// a fence and how many could not be understood.
func (s *State) Counts() (applied, void, malformed uint64) {
	return s.applied, s.void, s.malformed + s.jobs.Malformed()
}

// applyPlain folds an event that needs no authority.
func (s *State) applyPlain(e *event.Event) {
	switch e.Kind {
	case event.KindLeaseReleased:
		if b, ok := read[event.LeaseReleased](&s.bodies, e); ok {
			s.note(s.leaseHistory.ended(e, b))
		}
	case event.KindLeaseLost:
		if b, ok := read[event.LeaseLost](&s.bodies, e); ok {
			s.note(s.leaseHistory.ended(e, event.LeaseReleased{Term: b.Term, Reason: b.Reason}))
		}
	case event.KindOnionSet:
		if b, ok := read[event.OnionSet](&s.bodies, e); ok {
			s.note(s.onions.set(e, b))
		}
	case event.KindGatewayOpened:
		if b, ok := read[event.GatewayOpened](&s.bodies, e); ok {
			s.note(s.outside.Open(e, b))
		}
	default:
		s.hosts.apply(e, &s.bodies)
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
		if b, ok := read[event.ConfigChanged](&s.bodies, e); ok {
			s.note(s.configured(e, b))
		}
		return false
	case event.KindGroupSet:
		if b, ok := read[event.GroupSet](&s.bodies, e); ok {
			s.note(s.groups.set(e, b))
		}
		return false
	case event.KindReservationSet:
		if b, ok := read[event.ReservationSet](&s.bodies, e); ok {
			s.note(s.reservations.set(e, b))
		}
		return false
	case event.KindUserSet:
		if b, ok := read[event.UserSet](&s.bodies, e); ok {
			s.note(s.setUser(e, b))
		}
		return false
	case event.KindHostOwnerSet:
		if b, ok := read[event.HostOwnerSet](&s.bodies, e); ok {
			s.note(s.setOwner(e, b))
		}
		return false
	case event.KindWorkerEnrolled:
		if b, ok := read[event.WorkerEnrolled](&s.bodies, e); ok {
			s.note(s.outside.Enrol(e, b))
		}
		return false
	case event.KindWorkerRevoked:
		if b, ok := read[event.WorkerRevoked](&s.bodies, e); ok {
			s.note(s.outside.Revoke(e, b))
		}
		return false
	case event.KindAccessSet:
		if b, ok := read[event.AccessSet](&s.bodies, e); ok {
			s.note(s.outside.Access(e, b))
		}
		return false
	}
	if about, ok := s.flows.Apply(e); about {
		s.note(ok)
		return false
	}
	if about, ok := s.schedules.Apply(e); about {
		s.note(ok)
		return false
	}
	if about, ok := s.loads.Apply(e); about {
		s.note(ok)
		return false
	}
	rebuild, refused := s.jobs.Apply(e)
	for _, reason := range refused {
		s.refuse(e, reason)
	}
	return rebuild
}

func (s *State) applyTermStart(src *source, e *event.Event) (rebuild bool) {
	b, ok := read[event.TermStart](&s.bodies, e)
	if !ok {
		return false
	}
	if b.Term != e.Term || !validTermStart(b) {
		s.malformed++
		return false
	}
	counts, rebuild := s.termStart(src, e, b)
	if counts {
		s.started(canon.KeyOf(e), b)
	} else {
		s.void++
	}
	return rebuild
}
