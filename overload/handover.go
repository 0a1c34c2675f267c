package overload

import (
	"time"

	"github.com/skein-project/skein/cluster"
)

// Voter is another voter as a holder sees it.
type Voter struct {
	Node  cluster.NodeID
	Level Level
	// Fit voters could hold the lease now.
	Fit bool
}

// Seat is how a host stands to the lease. Times are of one monotonic clock.
type Seat struct {
	Level   Level
	Holding bool
	// Gave is when it last gave the lease away because of overload; GaveEver says that
	// it has.
	Gave     time.Duration
	GaveEver bool
	// MinTenure is for how long a holder keeps the lease before it goes elsewhere
	// because another host would be better.
	MinTenure time.Duration
}

// calmer returns the calmest voter that could hold and is at elevated or below, the
// first of several.
func calmer(voters []Voter) (best Voter, ok bool) {
	for _, v := range voters {
		if v.Fit && v.Level < High && (!ok || v.Level < best.Level) {
			best, ok = v, true
		}
	}
	return best, ok
}

// mostOverloaded says that a majority of all voters, of which self is one, is severe or
// worse: then the work is too much for the cluster, and moving the lease would be
// one more burden.
func mostOverloaded(self Level, voters []Voter) bool {
	n := 0
	for _, v := range voters {
		if v.Level.GivesUpLease() {
			n++
		}
	}
	if self.GivesUpLease() {
		n++
	}
	return 2*n > len(voters)+1
}

// HandTo says to whom a holder gives the lease because it is overloaded.
func (s Seat) HandTo(voters []Voter, now time.Duration) (cluster.NodeID, bool) {
	if !s.Holding || !s.Level.GivesUpLease() || s.GaveEver && now-s.Gave < s.MinTenure || mostOverloaded(s.Level, voters) {
		return "", false
	}
	best, ok := calmer(voters)
	return best.Node, ok
}

// Stands says that a host may stand for the lease, or keep it: one that is severe does
// not stand, lest it comes back to who gave it away, and one that is critical does not
// keep it, where others are calmer.
func (s Seat) Stands(voters []Voter) bool {
	if !s.Level.GivesUpLease() || s.Holding && s.Level.MayHold() || mostOverloaded(s.Level, voters) {
		return true
	}
	_, ok := calmer(voters)
	return !ok
}
