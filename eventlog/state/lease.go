package state

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/state/canon"
)

// MaxTerms is how many of the highest terms are kept one by one, and how many
// ends of terms per holder.
const MaxTerms = 1024

// leaseHistory is what the log tells of the lease: its terms, how holders left
// them, and who votes.
type leaseHistory struct {
	terms    map[termKey]*termInfo // the highest
	older    olderTerms
	releases map[cluster.NodeID][]release // the highest terms of each holder, by term
	config   canon.Register[cluster.VoterConfig]
}

func newLeaseHistory() leaseHistory {
	return leaseHistory{terms: make(map[termKey]*termInfo), releases: make(map[cluster.NodeID][]release)}
}

func (h *leaseHistory) clone() leaseHistory {
	c := *h
	c.terms = maps.Clone(h.terms) // the values are never changed
	c.releases = make(map[cluster.NodeID][]release, len(h.releases))
	for n, r := range h.releases {
		c.releases[n] = slices.Clone(r)
	}
	return c
}

type termKey struct {
	term cluster.Term
	at   canon.Key
}

func (k termKey) compare(o termKey) int {
	switch {
	case k.term < o.term:
		return -1
	case k.term > o.term:
		return 1
	}
	return k.at.Compare(o.at)
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
	at        canon.Key
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
	// Released is zero unless the holder reported the end: it stepped down, or
	// ran on when it had lost the lease. Reason says why.
	Released  cluster.HLC    `json:"released,omitempty"`
	Successor cluster.NodeID `json:"successor,omitempty"`
	Reason    string         `json:"reason,omitempty"`
}

func validTermStart(b event.TermStart) bool {
	for _, m := range b.Cut {
		if !canon.IsNode(m.Source.Node, false) {
			return false
		}
	}
	return areNodes(b.Grants) && areNodes(b.Voters) && canon.IsNode(b.Previous, true) && len(b.Profile) <= cluster.MaxNodeIDLen
}

// started keeps the highest terms and sums up the others.
func (h *leaseHistory) started(at canon.Key, b event.TermStart) {
	k := termKey{term: b.Term, at: at}
	info := &termInfo{previous: b.Previous, grants: b.Grants, voters: b.Voters, profile: b.Profile, split: b.Split}
	h.terms[k] = info
	if len(h.terms) <= MaxTerms {
		return
	}
	lowest := k
	for o := range h.terms {
		if o.compare(lowest) < 0 {
			lowest = o
		}
	}
	h.older.terms++
	if h.terms[lowest].split {
		h.older.splits++
	}
	if h.older.terms == 1 || lowest.compare(h.older.first) < 0 {
		h.older.first = lowest
	}
	delete(h.terms, lowest)
}

// ended keeps the first report that a holder gives of the end of its term.
// It reports false if the event cannot be what it says.
func (h *leaseHistory) ended(e *event.Event, b event.LeaseReleased) bool {
	if !canon.IsNode(b.Successor, true) {
		return false
	}
	holder := e.Source.Node
	r := release{term: b.Term, at: canon.KeyOf(e), successor: b.Successor, reason: canon.Clip(b.Reason, cluster.MaxReason)}
	list := h.releases[holder]
	i, found := slices.BinarySearchFunc(list, b.Term, func(r release, t cluster.Term) int { return cmp.Compare(r.term, t) })
	switch {
	case !found:
		list = slices.Insert(list, i, r)
		if len(list) > MaxTerms {
			list = slices.Delete(list, 0, 1)
		}
		h.releases[holder] = list
	case r.at.Less(list[i].at):
		list[i] = r
	}
	return true
}

func (h *leaseHistory) release(k termKey) (release, bool) {
	list := h.releases[k.at.Source.Node]
	i, ok := slices.BinarySearchFunc(list, k.term, func(r release, t cluster.Term) int { return cmp.Compare(r.term, t) })
	if !ok {
		return release{}, false
	}
	return list[i], true
}

// configured keeps the newest voter configuration. It reports false if the event
// cannot be what it says.
func (h *leaseHistory) configured(e *event.Event, b event.ConfigChanged) bool {
	if b.Config.Validate() != nil {
		return false
	}
	at := canon.KeyOf(e)
	if h.config.V.Newer(b.Config) || !b.Config.Newer(h.config.V) && !at.Less(h.config.At) {
		return true
	}
	h.config = canon.Register[cluster.VoterConfig]{At: at, V: b.Config}
	return true
}

// Terms returns the live terms, the lowest first, at most the MaxTerms highest.
func (h *leaseHistory) Terms() []Term {
	keys := h.termKeys()
	out := make([]Term, 0, len(keys))
	for _, k := range keys {
		out = append(out, h.term(k))
	}
	return out
}

// LastTerm returns the highest live term.
func (h *leaseHistory) LastTerm() (Term, bool) {
	var last termKey
	for k := range h.terms {
		if last.term < k.term || last.term == k.term && k.at.Less(last.at) { // of several the first
			last = k
		}
	}
	if last.term == 0 {
		return Term{}, false
	}
	return h.term(last), true
}

func (h *leaseHistory) term(k termKey) Term {
	info := h.terms[k]
	t := Term{
		Term: k.term, Holder: k.at.Source.Node, Previous: info.previous, Started: k.at.HLC,
		Grants: slices.Clone(info.grants), Voters: slices.Clone(info.voters), Profile: info.profile, Split: info.split,
	}
	if r, ok := h.release(k); ok {
		t.Released, t.Successor, t.Reason = r.at.HLC, r.successor, r.reason
	}
	return t
}

func (h *leaseHistory) termKeys() []termKey {
	return slices.SortedFunc(maps.Keys(h.terms), termKey.compare)
}

// Voters returns the newest stable voter configuration that was logged; it is
// zero before the first.
func (h *leaseHistory) Voters() cluster.VoterConfig {
	c := h.config.V
	c.Voters = slices.Clone(c.Voters)
	return c
}

func (h *leaseHistory) write(w *canon.Writer) {
	w.Num(h.older.terms)
	if h.older.terms > 0 {
		w.Num(h.older.splits)
		w.Num(uint64(h.older.first.term))
		w.Key(h.older.first.at)
	}
	terms := h.termKeys()
	w.Count(len(terms))
	for _, k := range terms {
		info := h.terms[k]
		w.Num(uint64(k.term))
		w.Key(k.at)
		w.Node(info.previous)
		w.Nodes(info.grants)
		w.Nodes(info.voters)
		w.Text(string(info.profile))
		w.Flag(info.split)
	}
	w.Count(len(h.releases))
	for _, n := range slices.Sorted(maps.Keys(h.releases)) {
		w.Node(n)
		w.Count(len(h.releases[n]))
		for _, r := range h.releases[n] {
			w.Num(uint64(r.term))
			w.Key(r.at)
			w.Node(r.successor)
			w.Text(r.reason)
		}
	}
	canon.WriteRegister(w, h.config, func(c cluster.VoterConfig) {
		b, err := json.Marshal(c)
		if err != nil {
			panic("state: a valid voter config cannot be encoded: " + err.Error())
		}
		w.Text(string(b))
	})
}

func (h *leaseHistory) read(r *canon.Reader) {
	if h.older.terms = r.Num(); h.older.terms > 0 {
		h.older.splits = r.Num()
		h.older.first = termKey{term: r.Term(), at: r.Key()}
	}
	n := r.Count()
	r.Check(n <= MaxTerms, "number of terms")
	for i := 0; i < n && r.OK(); i++ {
		k := termKey{term: r.Term(), at: r.Key()}
		h.terms[k] = &termInfo{
			previous: r.Node(true), grants: r.Nodes(), voters: r.Nodes(),
			profile: cluster.Profile(r.Text(cluster.MaxNodeIDLen)), split: r.Flag(),
		}
	}
	for n := r.Count(); n > 0 && r.OK(); n-- {
		holder, n := r.Node(false), r.Count()
		r.Check(n > 0 && n <= MaxTerms, "number of ends")
		var list []release
		for i := 0; i < n && r.OK(); i++ {
			list = append(list, release{
				term: r.Term(), at: r.Key(), successor: r.Node(true), reason: r.Text(cluster.MaxReason),
			})
			r.Check(i == 0 || list[i-1].term < list[i].term, "order of ends")
		}
		h.releases[holder] = list
	}
	h.config = canon.ReadRegister(r, func() cluster.VoterConfig { return readVoterConfig(r) })
}

func readVoterConfig(r *canon.Reader) (c cluster.VoterConfig) {
	b := r.Text(1 << 16)
	if !r.OK() {
		return c
	}
	if err := json.Unmarshal([]byte(b), &c); err != nil {
		r.Fail("voter config: %v", err)
	} else if err := c.Validate(); err != nil {
		r.Fail("%v", err)
	}
	return c
}

func areNodes(list []cluster.NodeID) bool {
	for _, n := range list {
		if !canon.IsNode(n, false) {
			return false
		}
	}
	return len(list) <= cluster.MaxVoters
}
