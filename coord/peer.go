package coord

import (
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/health"
	"github.com/skein-project/skein/coord/pathmtu"
	"github.com/skein-project/skein/coord/transport"
	"github.com/skein-project/skein/coord/wire"
	"github.com/skein-project/skein/lease"
)

// peerState is what the loop remembers of another member.
type peerState struct {
	node         cluster.NodeID
	since        time.Duration  // when it became a member here
	beat         wire.Heartbeat // last one
	beatAt       time.Duration  // when it came; 0: none yet
	skew         time.Duration  // of its clock, by that one
	sentAt       time.Duration  // last heartbeat to it
	introducedAt time.Duration  // last introduction to it
	departs      time.Duration  // until when the lease does without it, see Depart
	caughtUp     bool
	core         reported
	rtt          health.RoundTrips
	compat       compatibility
	left         lastWord
	path         pathmtu.Path // of full packets
	twin         twinState
}

// holds is the term that p says to hold itself, 0 if none.
func (p *peerState) holds() cluster.Term {
	if p.beat.Holder != p.node {
		return 0
	}
	return p.beat.Term
}

// lastSign is when p was last heard, or became known.
func (p *peerState) lastSign(h *health.Monitor) time.Duration {
	if at, ok := h.LastHeard(p.node); ok {
		return at
	}
	return p.since
}

// reported is what the lease core was last told about a host.
type reported struct {
	lease.PeerChanged
	known bool // it was told something
}

// twinState is about a second process with a host's identity.
type twinState struct {
	seenBoot uint64 // boot of this host that counts, by that host's last heartbeat; 0: it hears only one
	found    bool   // two processes of the host are heard
}

// skewLife is how long a clock's offset counts after it was last seen.
const skewLife = 5 * time.Minute

// skewed returns the latest known offset of p's clock, by its last heartbeat or by
// a message that net has refused because of it since.
func (p *peerState) skewed(net *transport.Transport, now time.Duration) (time.Duration, bool) {
	if refused, ok := net.Skew(p.node); ok && refused.At > p.beatAt && now-refused.At < skewLife {
		return refused.Offset, true
	}
	return p.skew, p.beatAt > 0 && now-p.beatAt < skewLife
}

// lastWord is the message in which a process of a host said that it was ending.
type lastWord struct{ boot, seq uint64 }

// overtakes reports whether m was on its way while its host ended.
func (w lastWord) overtakes(m wire.Message) bool { return m.Boot == w.boot && m.Seq < w.seq }

// compatibility says what a host cannot take part in.
type compatibility struct {
	major   bool   // it runs another major version
	profile bool   // it has another profile
	why     string // for people; empty: nothing
}
