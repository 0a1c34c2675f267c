package state

import (
	"maps"
	"math"
	"slices"

	"github.com/skein-project/skein/cluster"
)

// fences are the term_starts seen, void ones included.
type fences struct {
	all     map[key]*fence
	live    []*fence                    // by term
	version uint64                      // rises with every change of live or forks
	forks   map[cluster.SourceID]uint64 // see State.Fork; never changed in place
}

type fence struct {
	at   key
	term cluster.Term
	cut  map[cluster.SourceID]uint64
}

// add learns a term_start and reports whether one that lived is void now.
func (f *fences) add(at key, body cluster.TermStart) (unseated bool) {
	if f.all == nil {
		f.all = make(map[key]*fence)
	}
	if _, ok := f.all[at]; ok {
		return false
	}
	n := &fence{at: at, term: body.Term, cut: make(map[cluster.SourceID]uint64, len(body.Cut))}
	for _, m := range body.Cut {
		n.cut[m.Source] = m.Seq
	}
	f.all[at] = n
	if f.limit(at.src, body.Term) < at.seq {
		return false // void from the start
	}
	f.version++
	for _, o := range f.live {
		if o.term < n.term && o.at.seq > n.cut[o.at.src] {
			unseated = true
		}
	}
	if unseated {
		f.recompute()
		return true
	}
	f.insert(n)
	return false
}

func (f *fences) insert(n *fence) {
	i, _ := slices.BinarySearchFunc(f.live, n.term, func(o *fence, t cluster.Term) int {
		if o.term <= t {
			return -1
		}
		return 1
	})
	f.live = slices.Insert(f.live, i, n)
}

// recompute decides from the highest term down which fences live: only a live
// one of a higher term can void one of a lower.
func (f *fences) recompute() {
	byTerm := slices.SortedFunc(maps.Values(f.all), func(a, b *fence) int {
		switch {
		case a.term != b.term && a.term > b.term, a.term == b.term && a.at.less(b.at):
			return -1
		}
		return 1
	})
	f.live = nil
	for _, n := range byTerm {
		if n.at.seq <= f.limit(n.at.src, n.term) {
			f.insert(n)
		}
	}
}

// limit is the last event of src in term that no higher term has fenced off.
func (f *fences) limit(src cluster.SourceID, term cluster.Term) uint64 {
	limit := uint64(math.MaxUint64)
	if fork, ok := f.forks[src]; ok {
		limit = fork - 1
	}
	for _, n := range slices.Backward(f.live) {
		if n.term <= term {
			break
		}
		limit = min(limit, n.cut[src])
	}
	return limit
}

// isVoid reports whether a higher term has fenced e off.
func (s *State) isVoid(src *source, e *cluster.Event) bool {
	if src.version != s.fences.version || src.term != e.Term || src.version == 0 {
		src.term, src.version = e.Term, s.fences.version
		src.fence = s.fences.limit(e.Source, e.Term)
	}
	return e.Seq > src.fence
}

type termKey struct {
	term cluster.Term
	at   key
}

type termInfo struct {
	holder cluster.NodeID
	body   cluster.TermStart
}

// releaseKey names a term as its holder left it.
type releaseKey struct {
	term   cluster.Term
	holder cluster.NodeID
}

type release struct {
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

func (s *State) applyTermStart(src *source, e *cluster.Event) (rebuild bool) {
	body, ok := decode[cluster.TermStart](s, e)
	if !ok {
		return false
	}
	if body.Term != e.Term {
		s.malformed++
		return false
	}
	at := keyOf(e)
	// What others did who held at the same time is not void for that: where it
	// collides, the first counts.
	fencing := !body.Split
	unseated := fencing && s.fences.add(at, body)
	if s.isVoid(src, e) {
		s.void++
		return unseated
	}
	src.last[e.Term] = e.Seq
	s.terms[termKey{term: body.Term, at: at}] = &termInfo{holder: e.Source.Node, body: body}
	return unseated || fencing && s.voidsFolded(body)
}

// voidsFolded reports whether the fence of body lies before an event that
// counted already.
func (s *State) voidsFolded(body cluster.TermStart) bool {
	for id, src := range s.sources {
		limit, known := uint64(0), false
		for term, last := range src.last {
			if term >= body.Term {
				continue
			}
			if !known {
				limit, known = body.Cut.Seq(id), true
			}
			if last > limit {
				return true
			}
		}
	}
	return false
}

// leaseEnded keeps what a holder tells of the end of its term, the first word
// of it.
func (s *State) leaseEnded(e *cluster.Event, b cluster.LeaseReleased) {
	k := releaseKey{term: b.Term, holder: e.Source.Node}
	at := keyOf(e)
	if old, ok := s.releases[k]; ok && old.at.less(at) {
		return
	}
	s.releases[k] = release{at: at, successor: b.Successor, reason: clip(b.Reason, cluster.MaxReason)}
}

func (s *State) configChanged(e *cluster.Event, b cluster.ConfigChanged) {
	if b.Config.Validate() != nil {
		s.malformed++
		return
	}
	at := keyOf(e)
	if s.config.Newer(b.Config) || !b.Config.Newer(s.config) && !at.less(s.configAt) {
		return
	}
	s.config, s.configAt = b.Config, at
}

// Terms returns the live terms, the lowest first.
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
		if last.term < k.term || last.term == k.term && k.at.less(last.at) {
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
		Term: k.term, Holder: info.holder, Previous: info.body.Previous, Started: k.at.hlc,
		Grants: slices.Clone(info.body.Grants), Voters: slices.Clone(info.body.Voters), Profile: info.body.Profile,
		Split: info.body.Split,
	}
	if r, ok := s.releases[releaseKey{term: k.term, holder: info.holder}]; ok {
		t.Released, t.Successor, t.Reason = r.at.hlc, r.successor, r.reason
	}
	return t
}

func (s *State) termKeys() []termKey {
	return slices.SortedFunc(maps.Keys(s.terms), func(a, b termKey) int {
		switch {
		case a == b:
			return 0
		case a.term < b.term, a.term == b.term && a.at.less(b.at):
			return -1
		}
		return 1
	})
}

// Voters returns the newest stable voter configuration that was logged; it is
// zero before the first.
func (s *State) Voters() cluster.VoterConfig {
	c := s.config
	c.Voters = slices.Clone(c.Voters)
	return c
}
