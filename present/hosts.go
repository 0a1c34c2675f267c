package present

import (
	"strconv"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
)

// Removed is how tables call a host that others took out of the cluster; the API
// says left, with a mark.
const Removed cluster.Health = "removed"

// Stopped is how tables call a host that said that it stops; the API says dead, with
// a mark.
const Stopped cluster.Health = "stopped"

// StateOf is the state of a host in one word.
func StateOf(m api.Member) cluster.Health {
	if m.Removed {
		return Removed
	}
	return health(m.State, m.Stopped)
}

func health(h cluster.Health, stopped bool) cluster.Health {
	if stopped {
		return Stopped
	}
	return h
}

// peerState is how the way to a peer is, in one word.
func peerState(p api.MeshPeer) string {
	if p.Stopped {
		return string(Stopped)
	}
	return string(p.State)
}

// fresh is a round trip where the host answers; what was measured before it fell silent
// says nothing of now.
func fresh(answers bool, seconds *float64) *float64 {
	if !answers {
		return nil
	}
	return seconds
}

// answers says whether a host in this state does: how it was reached and how fast it is are
// true of now.
func answers(h cluster.Health) bool { return h == cluster.Alive || h == cluster.Joining }

// way is by what path a host that answers is reached, or another word that is true of now.
func way(answers bool, path string) Cell {
	if !answers {
		path = ""
	}
	return word(path)
}

// tripTo is the round trip to a peer, over whatever path: without a session it may be its
// onion service.
func tripTo(p api.MeshPeer) *float64 { return fresh(peerAnswers(p), p.RTTSeconds) }

func peerAnswers(p api.MeshPeer) bool { return p.State != api.PeerSilent && !p.Stopped }

// Members shows the hosts of the cluster.
func Members(m api.Members) Table {
	type M = api.Member
	observed := m.ObservedAt
	return tableOf(m.Members,
		col("NODE", Text, 0, func(x M) Cell {
			if x.Self {
				return Cell{Text: string(x.Node) + "*", Plain: string(x.Node)}
			}
			return Cell{Text: string(x.Node)}
		}),
		col("ADDR", Text, 5, func(x M) Cell { return word(x.Addr) }),
		col("STATE", State, 0, func(x M) Cell { return word(StateOf(x)) }),
		col("ROLE", State, 0, func(x M) Cell { return word(x.Role) }),
		col("TERM", Number, 4, func(x M) Cell { return term(x.Term) }),
		col("SEEN", Time, 1, func(x M) Cell { return since(x.SeenSeconds, observed) }),
		col("RTT", Time, 2, func(x M) Cell { return span(fresh(answers(x.State), x.RTTSeconds)) }),
		col("PATH", Text, 3, func(x M) Cell { return way(x.Self || answers(x.State), x.Path) }),
		col("VERSION", Text, 6, func(x M) Cell { return word(x.Version) }),
		more("VOTER", Text, func(x M) Cell { return yes(x.Voter) }),
		more("PUBLISHER", Text, func(x M) Cell {
			if x.Publisher && !x.Self && !answers(x.State) {
				return Cell{Text: Unknown}
			}
			return yes(x.Publisher)
		}),
		more("LOAD", State, func(x M) Cell { return way(x.Self || answers(x.State), x.Load) }),
		more("LAG", Number, func(x M) Cell { return Cell{Text: Lag(x.LagEvents)} }),
		more("PRIORITY", Number, func(x M) Cell { return whole(x.Priority) }),
		more("ZONE", Text, func(x M) Cell { return word(x.Zone) }),
		more("ADDR6", Text, func(x M) Cell { return word(x.Addr6) }),
		more("ENDPOINTS", Text, func(x M) Cell { return names(x.Endpoints) }),
		more("SPONSOR", Text, func(x M) Cell { return yes(x.Sponsor) }),
		more("NAT", Text, func(x M) Cell { return yes(x.NAT) }),
		more("SKEW", Number, func(x M) Cell { return skew(x.SkewSeconds) }),
		more("CERT", Time, func(x M) Cell { return moment(x.CertExpiresAt) }),
		more("GONE", Time, func(x M) Cell { return moment(x.GoneAt) }),
		more("REASON", Text, func(x M) Cell { return word(x.Reason) }),
	)
}

// Hosts is Members with what the hosts compute, as far as the holder tells.
func Hosts(m api.Members, workers []api.Worker) Table {
	of := make(map[cluster.NodeID]api.Worker, len(workers))
	for _, w := range workers {
		of[w.Node] = w
	}
	t := Members(m)
	t.Columns = append(t.Columns, Column{Name: "SLOTS", Kind: Text, Rank: 3}, Column{Name: "RATE", Kind: Number, Rank: 3})
	for i, x := range m.Members {
		slots, speed := Cell{Text: Unknown}, Cell{Text: Unknown}
		// The holder counts both, and one that is suspect keeps its chunks until it is dead.
		// What a host has beyond its slots waits there.
		if w, ok := of[x.Node]; ok && w.Slots > 0 && (x.Self || answers(x.State) || x.State == cluster.Suspect) {
			slots.Text, speed = strconv.Itoa(min(w.Assigned, w.Slots))+"/"+strconv.Itoa(w.Slots), rate(w.RatePerSecond)
		}
		t.Rows[i] = append(t.Rows[i], slots, speed)
	}
	return t
}

// skew is a difference of clocks with its sign.
func skew(seconds *float64) Cell {
	if seconds == nil {
		return Cell{Text: Unknown}
	}
	return Cell{Text: strconv.FormatFloat(*seconds, 'f', 3, 64) + "s", Plain: PlainSeconds(*seconds)}
}

// Peers shows the peers of a host's device.
func Peers(m api.Mesh) Table {
	type P = api.MeshPeer
	observed := m.ObservedAt
	return tableOf(m.Peers,
		col("NODE", Text, 0, func(p P) Cell { return word(p.Node) }),
		col("ADDR", Text, 7, func(p P) Cell { return word(p.Addr) }),
		col("STATE", State, 0, func(p P) Cell { return word(peerState(p)) }),
		col("PATH", Text, 3, func(p P) Cell { return way(peerAnswers(p), p.Path) }),
		col("ENDPOINT", Text, 4, func(p P) Cell { return word(p.Endpoint) }),
		col("HANDSHAKE", Time, 2, func(p P) Cell { return since(p.HandshakeSeconds, observed) }),
		col("RECEIVED", Number, 6, func(p P) Cell { return size(p.ReceivedBytes) }),
		col("SENT", Number, 5, func(p P) Cell { return size(p.SentBytes) }),
		col("RTT", Time, 1, func(p P) Cell { return span(tripTo(p)) }),
		more("MTU", Number, func(p P) Cell { return Cell{Text: peerMTU(p)} }),
		more("KEEPALIVE", Time, func(p P) Cell { return keepalive(p) }),
		more("ADDR6", Text, func(p P) Cell { return word(p.Addr6) }),
		more("KEY", Text, func(p P) Cell { return word(p.PublicKey) }),
		more("NEXT_KEY", Text, func(p P) Cell { return word(p.NextPublicKey) }),
		more("CANDIDATES", Text, func(p P) Cell { return names(p.Candidates) }),
	)
}

func peerMTU(p api.MeshPeer) string {
	if p.MTU == nil {
		return Unknown
	}
	return strconv.Itoa(*p.MTU)
}

func keepalive(p api.MeshPeer) Cell {
	if p.KeepaliveSeconds <= 0 {
		return Cell{Text: "off"}
	}
	return span(&p.KeepaliveSeconds)
}

// Device names the device of the mesh and how it is made.
func Device(m api.MeshSummary) string {
	if m.Interface == "" {
		return OrDash(m.Backend)
	}
	return m.Interface + " (" + m.Backend + ")"
}

// MTU is the size of packets inside the mesh.
func MTU(m api.Mesh) string {
	mtu := TermOf(uint64(max(0, m.MTU)))
	if m.MTUAuto {
		mtu += " auto"
	}
	return mtu
}

// Peer is all that is known of the way to one peer.
func Peer(m api.Mesh, p api.MeshPeer) []Field {
	path := way(peerAnswers(p), p.Path).Text
	if path == "onion" {
		path = "onion, the mesh has not carried messages for " + AgeOf(p.PathSeconds)
	}
	tried := Unknown
	for i, c := range p.Candidates {
		if i == 0 {
			tried = c
			continue
		}
		tried += ", " + c
	}
	fields := []Field{
		{"state", OrDash(peerState(p))},
		{"address", OrDash(p.Addr) + ", " + OrDash(p.Addr6)},
		{"path", path},
		{"endpoint", OrDash(p.Endpoint)},
		{"tried", tried},
		{"handshake", AgeOf(p.HandshakeSeconds)},
		{"rtt", span(tripTo(p)).Text},
		{"received", BytesOf(p.ReceivedBytes)},
		{"sent", BytesOf(p.SentBytes)},
		{"mtu", peerMTU(p) + " to this peer, " + MTU(m) + " on the device"},
		{"keepalive", keepalive(p).Text},
		{"key", OrDash(p.PublicKey)},
	}
	if p.Onion != "" {
		fields = append(fields, Field{"onion", p.Onion})
	}
	if p.NextPublicKey != "" {
		fields = append(fields, Field{"next key", p.NextPublicKey})
	}
	return fields
}
