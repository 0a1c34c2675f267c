package state

import (
	"cmp"
	"maps"
	"slices"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
)

// MaxTerms is how many of the highest terms are kept one by one, and how many
// ends of terms per holder.
const MaxTerms = 1024

type termKey struct {
	term cluster.Term
	at   key
}

func (k termKey) compare(o termKey) int {
	switch {
	case k.term < o.term:
		return -1
	case k.term > o.term:
		return 1
	}
	return k.at.compare(o.at)
}

// termInfo is never changed.
type termInfo struct {
	previous cluster.NodeID
	grants   []cluster.NodeID
	voters   []cluster.NodeID
	profile  cluster.Profile
	split    bool
}

// olderTerms sums up the terms that are no longer kept one by one.
type olderTerms struct {
	terms  uint64
	splits uint64
	first  termKey // zero: none
}

// release is how the holder of a term left it.
type release struct {
	term      cluster.Term
	at        key
	successor cluster.NodeID
	reason    string
}

// Term is one entry of the history of the lease.
type Term struct {
	Term     cluster.Term     `json:"term"`
	Holder   cluster.NodeID   `json:"holder"`
	Previous cluster.NodeID   `json:"previous,omitempty"`
	Started  cluster.HLC      `json:"started"`
	Grants   []cluster.NodeID `json:"grants"`
	Voters   []cluster.NodeID `json:"voters"`
	Profile  cluster.Profile  `json:"profile,omitempty"`
	// Split says that others may have held at the same time.
	Split bool `json:"split,omitempty"`
	// Released is zero unless the holder told of the end: it stepped down, or
	// ran on when it had lost the lease. Reason says why.
	Released  cluster.HLC    `json:"released,omitempty"`
	Successor cluster.NodeID `json:"successor,omitempty"`
	Reason    string         `json:"reason,omitempty"`
}

// TermSummary counts the terms that are no longer kept one by one.
type TermSummary struct {
	Terms  uint64 `json:"terms"`
	Splits uint64 `json:"splits"`
	// First is the lowest of them and Since when it started; 0: there are none.
	First cluster.Term `json:"first"`
	Since cluster.HLC  `json:"since"`
}

func (s *State) applyTermStart(src *source, e *event.Event) (rebuild bool) {
	body, ok := decode[event.TermStart](s, e)
	if !ok {
		return false
	}
	if body.Term != e.Term || !validTermStart(body) {
		s.malformed++
		return false
	}
	at := keyOf(e)
	f := newFence(at, body)
	// What others did who held at the same time is not void for that: where it
	// collides, the first counts.
	fencing := !body.Split
	if fencing && s.base.reaches(f) {
		s.refuse(refusal(e, "its cut voids events below the base"))
		s.void++
		return false
	}
	unseated := fencing && s.fences.add(f)
	if s.isVoid(src, e) {
		s.void++
		return unseated
	}
	src.last[e.Term] = e.Seq
	s.addTerm(termKey{term: body.Term, at: at}, &termInfo{
		previous: body.Previous, grants: body.Grants, voters: body.Voters, profile: body.Profile, split: body.Split,
	})
	return unseated || fencing && s.voidsFolded(f)
}

func validTermStart(b event.TermStart) bool {
	for _, m := range b.Cut {
		if !isNode(m.Source.Node, false) {
			return false
		}
	}
	return areNodes(b.Grants) && areNodes(b.Voters) && isNode(b.Previous, true) && len(b.Profile) <= cluster.MaxNodeIDLen
}

// voidsFolded reports whether f lies before an event that counted already.
func (s *State) voidsFolded(f *fence) bool {
	for id, src := range s.sources {
		for term, last := range src.last {
			if term < f.term && last > f.cut[id] {
				return true
			}
		}
	}
	return false
}

// addTerm keeps the highest terms and sums up the others.
func (s *State) addTerm(k termKey, info *termInfo) {
	s.terms[k] = info
	if len(s.terms) <= MaxTerms {
		return
	}
	lowest := k
	for o := range s.terms {
		if o.compare(lowest) < 0 {
			lowest = o
		}
	}
	s.older.terms++
	if s.terms[lowest].split {
		s.older.splits++
	}
	if s.older.terms == 1 || lowest.compare(s.older.first) < 0 {
		s.older.first = lowest
	}
	delete(s.terms, lowest)
}

// leaseEnded keeps what a holder tells of the end of its term, the first word
// of it.
func (s *State) leaseEnded(e *event.Event, b event.LeaseReleased) {
	if !isNode(b.Successor, true) {
		s.malformed++
		return
	}
	holder := e.Source.Node
	r := release{term: b.Term, at: keyOf(e), successor: b.Successor, reason: clip(b.Reason, cluster.MaxReason)}
	list := s.releases[holder]
	i, found := slices.BinarySearchFunc(list, b.Term, func(r release, t cluster.Term) int { return cmp.Compare(r.term, t) })
	switch {
	case !found:
		list = slices.Insert(list, i, r)
		if len(list) > MaxTerms {
			list = slices.Delete(list, 0, 1)
		}
		s.releases[holder] = list
	case r.at.less(list[i].at):
		list[i] = r
	}
}

func (s *State) release(k termKey) (release, bool) {
	list := s.releases[k.at.src.Node]
	i, ok := slices.BinarySearchFunc(list, k.term, func(r release, t cluster.Term) int { return cmp.Compare(r.term, t) })
	if !ok {
		return release{}, false
	}
	return list[i], true
}

func (s *State) configChanged(e *event.Event, b event.ConfigChanged) {
	if b.Config.Validate() != nil {
		s.malformed++
		return
	}
	at := keyOf(e)
	if s.config.v.Newer(b.Config) || !b.Config.Newer(s.config.v) && !at.less(s.config.at) {
		return
	}
	s.config = stamped[cluster.VoterConfig]{at: at, v: b.Config}
}

// Terms returns the live terms, the lowest first, at most the MaxTerms highest.
func (s *State) Terms() []Term {
	keys := s.termKeys()
	out := make([]Term, 0, len(keys))
	for _, k := range keys {
		out = append(out, s.term(k))
	}
	return out
}

// LastTerm returns the highest live term.
func (s *State) LastTerm() (Term, bool) {
	var last termKey
	for k := range s.terms {
		if last.term < k.term || last.term == k.term && k.at.less(last.at) { // of several the first
			last = k
		}
	}
	if last.term == 0 {
		return Term{}, false
	}
	return s.term(last), true
}

func (s *State) term(k termKey) Term {
	info := s.terms[k]
	t := Term{
		Term: k.term, Holder: k.at.src.Node, Previous: info.previous, Started: k.at.hlc,
		Grants: slices.Clone(info.grants), Voters: slices.Clone(info.voters), Profile: info.profile, Split: info.split,
	}
	if r, ok := s.release(k); ok {
		t.Released, t.Successor, t.Reason = r.at.hlc, r.successor, r.reason
	}
	return t
}

func (s *State) termKeys() []termKey { return slices.SortedFunc(maps.Keys(s.terms), termKey.compare) }

// OlderTerms sums up the live terms that Terms no longer lists.
func (s *State) OlderTerms() TermSummary {
	o := s.older
	return TermSummary{Terms: o.terms, Splits: o.splits, First: o.first.term, Since: o.first.at.hlc}
}

// Voters returns the newest stable voter configuration that was logged; it is
// zero before the first.
func (s *State) Voters() cluster.VoterConfig {
	c := s.config.v
	c.Voters = slices.Clone(c.Voters)
	return c
}
