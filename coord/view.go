package coord

import (
	"net/netip"
	"slices"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/coord/clocks"
	"github.com/skein-project/skein/coord/distance"
	"github.com/skein-project/skein/coord/share"
	"github.com/skein-project/skein/coord/wire"
	"github.com/skein-project/skein/lease"
)

// View is what this host knows at one moment. It is immutable.
type View struct {
	Self    cluster.NodeID
	At      time.Duration // local clock when it was made
	Version string
	Profile cluster.Profile
	// Members is sorted by node id and holds this host too.
	Members []MemberView
	// Digest is over the membership records.
	Digest [16]byte
	Lease  lease.Status
	// Publisher is who has the publishing duty as far as this host knows, empty
	// if nobody; Publishing says that it is this host. Lease.PublishWhy says what
	// gives the publisher its duty.
	Publisher  cluster.NodeID
	Publishing bool
	// LocalHealth is how unwell this host finds itself, from 0 to 8: while it is,
	// it waits longer before it accuses others.
	LocalHealth int
	// Failing says which self-checks fail, by name; while one does, this host
	// does not hold.
	Failing map[string]string
	// Rejected counts refused datagrams since the start, by reason; reasons
	// that never occurred are absent.
	Rejected map[string]uint64

	// PublicEndpoint is where the other hosts see this host's WireGuard, the
	// zero value if they do not agree. NAT says that its address is none of
	// this host's own.
	PublicEndpoint netip.AddrPort
	NAT            bool
	Clock          Clock
	// Zones is how far the zones are, as far as that is known.
	Zones map[string]distance.Zone
}

// Clock is what a host knows of its own wall clock.
type Clock = clocks.View

// MemberView is what this host knows of a member.
type MemberView struct {
	cluster.Member
	Health cluster.Health
	// Stopped says that it said that it stops, and nothing was heard of it since.
	Stopped bool
	// LastHeard is the local time of the last sign of life; Heard is false if
	// there was none.
	LastHeard time.Duration
	Heard     bool
	RTT       time.Duration // smoothed; 0 if not measured
	Answered  bool          // it answered a heartbeat of this host
	Role      cluster.Role  // holder, standby or witness, as the lease goes
	Version   string
	// Level says which kinds of event its program knows, see event.Level.
	Level   uint32
	Profile cluster.Profile
	// Term and TermHolder are the lease as that host sees it.
	Term       cluster.Term
	TermHolder cluster.NodeID
	// Publishing says that, by its own word, it has the publishing duty.
	Publishing bool
	Eligible   bool
	CaughtUp   bool
	// Abstains says that, by its own word, it lost its record of votes.
	Abstains bool
	// LogEvents is how many events that host has.
	LogEvents uint64
	// Load is how loaded it says that it is; nil: it does not.
	Load *wire.Load
	// LogDigest is what that host said of its log within the last seconds; zero: it
	// said nothing.
	LogDigest [16]byte
	// Observed are endpoints at which other hosts see that host, at most 3,
	// none of them announced by itself; the latest first.
	Observed []netip.AddrPort
	// Flaps are the two endpoints between which that host goes back and forth, as
	// this host sees it; none: it does not.
	Flaps []netip.AddrPort
	// Stale says that nothing was heard of that host for 5 minutes.
	Stale bool
	// Skew is how far that host's clock is ahead of this one, to the second;
	// SkewKnown is false if it was not heard lately.
	Skew      time.Duration
	SkewKnown bool
	// Synced says that its last heartbeat came from the same membership records
	// as this host has: it knows all that this host announced.
	Synced bool
	// PathMTU is the largest MTU of the mesh at which full packets to that
	// host were seen to arrive, 0 if none was probed.
	PathMTU int
	// Share is that host's latest share of the onion addresses, at most 20 pieces
	// of 2 KiB, none while it is dead. Backends is what it said of its backends
	// within 100 s, those that fail first; none: nothing fails, as far as known.
	Share    share.Share
	Backends []wire.Backend
	// Path is "direct" or "onion": how messages reach that host, empty while they
	// do not; PathSince is the local time of the last change, 0 if there was none.
	Path      string
	PathSince time.Duration
	// Duplicate says that two processes use that host's identity. Only the one
	// started last counts.
	Duplicate bool
	// Incompatible says why messages of that host are refused, empty if they
	// are not.
	Incompatible string
}

// Unaware lists the members that live and do not know events of a kind: none may be
// written yet.
func (v *View) Unaware(kind event.Kind) []cluster.NodeID {
	var out []cluster.NodeID
	for _, m := range v.Members {
		if m.Heard && m.Health != cluster.Dead && m.Health != cluster.Left && m.Level < kind.Since() {
			out = append(out, m.Node)
		}
	}
	return out
}

// Member returns what is known of node.
func (v *View) Member(node cluster.NodeID) (MemberView, bool) {
	i, ok := slices.BinarySearchFunc(v.Members, node, func(m MemberView, n cluster.NodeID) int {
		switch {
		case m.Node < n:
			return -1
		case m.Node > n:
			return 1
		}
		return 0
	})
	if !ok {
		return MemberView{}, false
	}
	return v.Members[i], true
}
