package endpoint

import (
	"net/netip"
	"slices"
	"time"

	"github.com/skein-project/skein/cluster"
)

const (
	// flapReturns is how often an endpoint must have come back to the one before:
	// a host that moves, or whose router gives it another port, does not come back.
	flapReturns = 3
	// flapLife is how long after its last return an endpoint counts as flapping.
	flapLife = 10 * time.Minute
)

// flap follows the endpoint of one key. WireGuard sends to where the last good
// packet of a key came from, so a key that two hosts use is seen at both in turn.
type flap struct {
	key     string
	at      [2]netip.AddrPort // now, and before
	returns int               // to the one before
	when    time.Duration     // of the last return
}

// see notes where key is at now.
func (f *flap) see(key []byte, at netip.AddrPort, now time.Duration) {
	if f.key != string(key) {
		*f = flap{key: string(key)}
	}
	switch at {
	case f.at[0]:
	case f.at[1]:
		if now-f.when > flapLife {
			f.returns = 0
		}
		f.at[0], f.at[1] = f.at[1], f.at[0]
		f.returns, f.when = f.returns+1, now
	default:
		f.at, f.returns = [2]netip.AddrPort{at, f.at[0]}, 0
	}
}

// flapping reports whether a key that should be m's goes back and forth, and not
// only between endpoints that m announces.
func (f *flap) flapping(m cluster.Member, now time.Duration) bool {
	return f.key == string(m.WGPub) && f.returns >= flapReturns && now-f.when <= flapLife &&
		(!slices.Contains(m.Endpoints, f.at[0]) || !slices.Contains(m.Endpoints, f.at[1]))
}

// follow notes where this host's device has the members.
func (e *Endpoints) follow(members []cluster.Member, now time.Duration) {
	for _, m := range members {
		at, ok := e.live[m.Node]
		if !ok || !at.IsValid() || m.Node == e.self {
			continue
		}
		f := e.flaps[m.Node]
		if f == nil {
			f = &flap{}
			e.flaps[m.Node] = f
		}
		f.see(m.WGPub, at, now)
	}
}

// Flaps returns the two endpoints between which m goes back and forth, as this
// host's device sees it; nil: it does not. What others see of this host it cannot
// learn: while they have the endpoint of somebody else, they tell that one.
func (e *Endpoints) Flaps(m cluster.Member, now time.Duration) []netip.AddrPort {
	f := e.flaps[m.Node]
	if f == nil || !f.flapping(m, now) {
		return nil
	}
	return slices.SortedFunc(slices.Values(f.at[:]), netip.AddrPort.Compare)
}
