package election

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/skein-project/skein/cluster"
)

// Authority is what this host may do by the lease. It is safe for concurrent
// use.
type Authority struct {
	now        func() time.Duration
	bound      atomic.Pointer[bound]
	promised   atomic.Uint64
	abstains   atomic.Bool
	publishing atomic.Bool
}

// bound is the lease as MayAct sees it: never more than what the core holds, and
// taken back before anything that follows from losing it.
type bound struct {
	term   cluster.Term
	until  time.Duration
	margin time.Duration
}

func newAuthority(now func() time.Duration) *Authority {
	a := &Authority{now: now}
	a.bound.Store(&bound{})
	return a
}

// MayAct reports whether this host may use term now: it holds that term, the
// lease goes on for a margin, and the vote behind it is on disk.
func (a *Authority) MayAct(term cluster.Term) bool {
	b := a.bound.Load()
	return term != 0 && b.term == term && a.now()+b.margin < b.until
}

// Term is the term that this host may use now, 0 if none.
func (a *Authority) Term() cluster.Term {
	if term := a.bound.Load().term; a.MayAct(term) {
		return term
	}
	return 0
}

// PromisedTerm is the highest term that this host has promised: it must not
// acknowledge authority of a lower one.
func (a *Authority) PromisedTerm() cluster.Term { return cluster.Term(a.promised.Load()) }

// VoterTerm is the lowest term whose authority this host may acknowledge:
// PromisedTerm, or while it abstains the highest that there is.
func (a *Authority) VoterTerm() cluster.Term {
	if a.abstains.Load() {
		return math.MaxUint64
	}
	return a.PromisedTerm()
}

// MayPublish reports whether this host has the publishing duty: as the holder
// of the lease, or because no lease is visible and no better host is there. It
// is not exclusive, unlike a term: two hosts that do not hear each other both
// have it.
func (a *Authority) MayPublish() bool { return a.publishing.Load() }
