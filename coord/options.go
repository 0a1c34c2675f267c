package coord

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/election"
	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/coord/ownlog"
	"github.com/skein-project/skein/coord/transport"
	"github.com/skein-project/skein/coord/wire"
	"github.com/skein-project/skein/lease"
)

// Port is where every host listens inside the mesh, UDP and TCP.
const Port = 51821

// DefaultTolerance is how far a message's timestamp may be off.
const DefaultTolerance = 5 * time.Second

// Store keeps what must survive a restart.
type Store interface {
	election.Store
	// SaveRecords replaces the saved membership records.
	SaveRecords(rs member.Records) error
}

// LogState is the local event log in brief.
type LogState = ownlog.State

// Local is what this host says of itself in a heartbeat.
type Local struct {
	Slots, Busy uint32
	// Draining hosts hand the lease over, if they hold it, and do not stand
	// while it lasts. It is looked at before the first step of the lease and
	// then with every heartbeat.
	Draining    bool
	IntroPoints uint32
	LastPublish *uint64
	Load        *wire.Load // nil: not known
}

// Options are what a Service is made of. Fields without "optional" must be
// set.
type Options struct {
	Self     cluster.NodeID
	Key      ed25519.PrivateKey // identity
	Verifier member.Verifier    // cluster id and root key
	// Records are the membership records known at the start. They must hold
	// this host's own certificate and announcement.
	Records member.Records
	Store   Store
	// Boot rises with every start and is that of no other process: the
	// persisted counter, raised for this start, through MarkBoot.
	Boot uint64
	// Founder says that this host created the cluster. If it has no vote
	// record and knows no other host, it begins as the only voter.
	Founder bool
	// Secret keys the proof in peer_announce; optional, the cluster id if
	// empty. Records are what admits a host, not this.
	Secret []byte

	// PacketConn and Listener are this host's sockets at its mesh address.
	// Run closes both.
	PacketConn net.PacketConn
	Listener   net.Listener
	// DialTCP opens a connection inside the mesh.
	DialTCP func(ctx context.Context, to netip.AddrPort) (net.Conn, error)
	// Fallback is how hosts are reached when the mesh does not carry; optional.
	Fallback *transport.Fallback
	// Port of the other hosts; optional, Port if 0.
	Port uint16

	Profile cluster.Profile
	// Timing replaces the profile's durations; optional, for tests.
	Timing *lease.Timing
	Mode   cluster.Mode // auto, quorum or available
	// MaxVoters is how many voters the holder chooses, see lease.Options;
	// optional. LastTerm is the highest term that this host's log knows of.
	MaxVoters int
	LastTerm  cluster.Term
	// Tolerance of timestamps; optional, DefaultTolerance if 0.
	Tolerance time.Duration

	// Now is the local clock that goes on in suspend; Mono one that does not,
	// optional, Go's own if nil. Wall is the time of day, optional, time.Now
	// if nil.
	Now  func() time.Duration
	Mono func() time.Duration
	Wall func() time.Time
	// Rand returns a number in [0,1); optional.
	Rand func() float64

	// Version of the program, "MAJOR.MINOR..."; others hear its first wire.MaxShortText bytes.
	Version string
	// Log and Local are called by the loop and must not block; both optional.
	Log   func() LogState
	Local func() Local

	// OnMembers gets the members, this host included, after every change of
	// them, of the endpoints at which they are seen, or of this host's
	// PublicEndpoint or NAT, and once at the start. OnHealth gets what is believed of another
	// host after every change, and whether that is because it said that it stops. Both are optional and called by one goroutine,
	// which a slow callee delays without delaying the loop; what came
	// meanwhile is collapsed to the latest.
	OnMembers func([]cluster.Member)
	OnHealth  func(node cluster.NodeID, h cluster.Health, stopped bool)
	// OnChange gets what records did to the membership, with the contradictions
	// among them that are new, each once and in order. It is called by the same
	// goroutine, before OnMembers. If more than 256 wait, the oldest are lost,
	// counted. Optional.
	OnChange func(member.Change, []member.Evidence)

	// Observed returns the endpoints at which this host's own WireGuard device
	// has its peers now; Interfaces the addresses of this host outside the
	// mesh, by which it tells that it is behind NAT. Both are called by the
	// loop with every round of heartbeats, must not block, and are optional.
	Observed   func() map[cluster.NodeID]netip.AddrPort
	Interfaces func() []netip.Addr
	// MTU returns the mesh device's MTU, by which full-sized packets to each
	// peer are probed; optional, no probes if nil. OnBlackhole is told that
	// packets of size from do not reach peer while small ones do, and to which
	// smaller MTU to go; it is called like OnChange. Optional.
	MTU         func() int
	OnBlackhole func(peer cluster.NodeID, from, to int)

	// OnDuplicate is told once that two processes use the identity of a host,
	// which may be this one; boot is that of the one that counts. It is called
	// like OnChange. Optional.
	OnDuplicate func(node cluster.NodeID, boot uint64)

	// OnLoop is called by the loop at every turn, at least once a second; it
	// must not block. A watchdog is fed here. Optional.
	OnLoop func()

	Logger     zerolog.Logger
	Registerer prometheus.Registerer // optional
}

// Tunables are the options that may change while a Service runs; the zero
// value of a field has the meaning that it has in Options.
type Tunables struct {
	Tolerance time.Duration
}

// check reports the first option that cannot work and fills in defaults.
func (o *Options) check() error {
	switch {
	case len(o.Key) != ed25519.PrivateKeySize:
		return errors.New("identity key missing")
	case o.Store == nil:
		return errors.New("store missing")
	case o.Boot == 0:
		return errors.New("boot counter is 0")
	case o.Now == nil:
		return errors.New("clock missing")
	case o.Tolerance < 0:
		return fmt.Errorf("clock tolerance %s", o.Tolerance)
	}
	if _, err := cluster.ParseNodeID(string(o.Self)); err != nil {
		return fmt.Errorf("self: %w", err)
	}
	if o.Timing == nil {
		t, err := lease.TimingFor(o.Profile)
		if err != nil {
			return err
		}
		o.Timing = &t
	}
	// A build may have a longer name than a heartbeat has room for; its beginning tells.
	o.Version = o.Version[:min(len(o.Version), wire.MaxShortText)]
	if o.Port == 0 {
		o.Port = Port
	}
	if o.Tolerance == 0 {
		o.Tolerance = DefaultTolerance
	}
	if len(o.Secret) == 0 {
		o.Secret = o.Verifier.Cluster[:]
	}
	if o.Mono == nil {
		start := time.Now()
		o.Mono = func() time.Duration { return time.Since(start) }
	}
	if o.Wall == nil {
		o.Wall = time.Now
	}
	if o.Rand == nil {
		o.Rand = rand.Float64
	}
	if o.Log == nil {
		o.Log = func() LogState { return LogState{} }
	}
	if o.Local == nil {
		o.Local = func() Local { return Local{} }
	}
	return nil
}
