package transport

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/wire"
	"github.com/skein-project/skein/internal/loglimit"
)

var benchTime = time.Unix(1_700_000_000, 0)

// peer is another host of a test.
type peer struct {
	node cluster.NodeID
	addr netip.Addr
	key  ed25519.PrivateKey
}

func seedKey(name string) ed25519.PrivateKey {
	h := sha256.Sum256([]byte(name))
	return ed25519.NewKeyFromSeed(h[:])
}

func publicKey(k ed25519.PrivateKey) ed25519.PublicKey {
	return k.Public().(ed25519.PublicKey) //nolint:errcheck,forcetypeassert // of that type
}

// benchAcceptor is host-a's acceptor without a service; host-b is a member.
func benchAcceptor(tb testing.TB) (a *acceptor, b *peer, clock *time.Duration) {
	tb.Helper()
	b = &peer{node: "host-b", addr: netip.MustParseAddr("10.0.0.2"), key: seedKey("host-b")}
	m, err := newMetrics(&Options{})
	if err != nil {
		tb.Fatal(err)
	}
	var dir atomic.Pointer[Directory]
	dir.Store(NewDirectory([]cluster.Member{
		{Node: "host-a", IDPub: publicKey(seedKey("host-a")), IP4: netip.MustParseAddr("10.0.0.1")},
		{Node: b.node, IDPub: publicKey(b.key), IP4: b.addr},
	}))
	now := time.Hour
	clock = &now
	read := func() time.Duration { return *clock }
	times := &timestamps{now: read, wall: func() time.Time { return benchTime }}
	times.tolerance.Store(int64(5 * time.Second))
	gate := loglimit.New(read, 10*time.Second)
	a = &acceptor{
		self: "host-a", dir: &dir, times: times, out: make(chan Delivery, 1), m: m,
		refusals: &refusals{total: m.rejected, gate: gate, n: make(map[wire.Reason]uint64)},
		skews:    &skews{m: make(map[cluster.NodeID]Skew)}, twins: &twins{m: make(map[cluster.NodeID]twin)},
		log: zerolog.Nop(), gate: gate, peers: make(map[cluster.NodeID]*acceptPeer), limits: make(limiter),
	}
	return a, b, clock
}

func sealFor(tb testing.TB, from *peer, h wire.Header, payload any) []byte {
	tb.Helper()
	data, err := wire.Seal(from.key, h, payload)
	if err != nil {
		tb.Fatal(err)
	}
	return data
}

// BenchmarkReject is what a datagram costs that is refused, by reason; ns per
// datagram times the rate of a flood is the share of a core that it takes.
func BenchmarkReject(b *testing.B) {
	a, other, _ := benchAcceptor(b)
	beat := wire.Heartbeat{Role: cluster.RoleStandby, Version: "0.1.0", Profile: cluster.ProfileLAN, SentUS: 1}
	for _, node := range []cluster.NodeID{"host-c", "host-d", "host-e", "host-f"} {
		beat.KnownPeers = append(beat.KnownPeers, wire.PeerHint{Node: node, TunnelIP: netip.MustParseAddr("10.0.0.9")})
	}
	header := func(f func(*wire.Header)) wire.Header {
		h := wire.Header{Node: other.node, Time: benchTime.Unix(), Type: wire.TypeHeartbeat, To: "host-a", Boot: 1, Seq: 1}
		if f != nil {
			f(&h)
		}
		return h
	}
	stranger := &peer{node: "host-x", key: seedKey("host-x")}
	forged := &peer{node: other.node, key: seedKey("mallory")}
	source := netip.AddrPortFrom(other.addr, 51821)
	from := simAddr(source.String())
	good := sealFor(b, other, header(nil), beat)
	if _, _, err := a.check(good, other.addr); err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		reason wire.Reason
		data   []byte
		slow   bool // the rate does not refuse it first
	}{
		{"size", wire.ReasonSize, bytes.Repeat([]byte("x"), 9001), false},
		{"garbage", wire.ReasonParse, bytes.Repeat([]byte("x"), 1000), false},
		{"deep", wire.ReasonParse, []byte(`{"a":` + string(bytes.Repeat([]byte("["), 550)) + string(bytes.Repeat([]byte("]"), 550)) + `}`), false},
		{"unknown_sender", wire.ReasonUnknownSender, sealFor(b, stranger, header(func(h *wire.Header) { h.Node = "host-x" }), beat), false},
		{"rate", wire.ReasonRate, good, false},
		{"replay", wire.ReasonReplay, good, true},
		{"signature", wire.ReasonSignature, sealFor(b, forged, header(func(h *wire.Header) { h.Seq = 2 }), beat), true},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if c.slow {
					clear(a.limits)
				}
				m, _, err := a.check(c.data, other.addr)
				if err == nil || (wire.ReasonOf(err) != c.reason && c.reason != wire.ReasonRate) {
					b.Fatalf("%v, want %s", err, c.reason)
				}
				a.refuse(m, from, err)
			}
		})
	}
}

// simAddr is an address that a datagram came from.
type simAddr string

func (simAddr) Network() string  { return "udp" }
func (s simAddr) String() string { return string(s) }
