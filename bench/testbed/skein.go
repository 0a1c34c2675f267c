package testbed

import (
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"net/netip"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord"
	"github.com/skein-project/skein/coord/member"
)

// SkeinCluster is who the hosts of a skein cluster are: keys, records and
// addresses. The first is the founder.
type SkeinCluster struct {
	profile  cluster.Profile
	Verifier member.Verifier
	port     uint16
	M        *Meter
	Hosts    []*Identity
}

// Identity is one of its hosts before it runs.
type Identity struct {
	Node cluster.NodeID
	addr netip.Addr // in the mesh
	Key  ed25519.PrivateKey
	own  member.Records
	Boot uint64
}

// NewSkein makes n hosts, the better the earlier.
func NewSkein(n int, profile cluster.Profile, kind byte) (*SkeinCluster, error) {
	rootPub, root, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	c := &SkeinCluster{profile: profile, M: &Meter{}, Verifier: member.Verifier{RootPub: rootPub}}
	_, _ = rand.Read(c.Verifier.Cluster[:]) // never fails
	net := Subnet(kind)
	for i := range n {
		addr := netip.AddrFrom4([4]byte{10, net[1], net[2], byte(i + 1)})
		h, err := c.certify(root, i, addr)
		if err != nil {
			return nil, err
		}
		c.Hosts = append(c.Hosts, h)
	}
	c.port, err = FreePort(onLoopback(netip.AddrPortFrom(c.Hosts[0].addr, 0)).Addr())
	return c, err
}

func (c *SkeinCluster) certify(root ed25519.PrivateKey, i int, addr netip.Addr) (*Identity, error) {
	pub, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	h := &Identity{Node: cluster.NodeID(fmt.Sprintf("host-%03d", i+1)), addr: addr, Key: key}
	now := time.Now().Unix()
	cert, err := member.Cert{
		Cluster: c.Verifier.Cluster, Node: h.Node, IDPub: pub, IP4: addr, IP6: member.ULA(c.Verifier.Cluster, pub),
		Serial: uint64(i + 1), Issued: now, Since: now, Expires: now + int64((90 * 24 * time.Hour).Seconds()), Issuer: c.Verifier.RootPub,
	}.Sign(root)
	if err != nil {
		return nil, fmt.Errorf("certificate of %s: %w", h.Node, err)
	}
	ann, err := member.Ann{
		IDPub: pub, WGPub: [32]byte{1, byte(i + 1)}, Epoch: 1, Issued: now, Zone: "bench", Priority: uint32(10 * (i + 1)),
		Endpoints: []netip.AddrPort{netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(i + 1)}), 51820)},
	}.Sign(key)
	if err != nil {
		return nil, fmt.Errorf("announcement of %s: %w", h.Node, err)
	}
	h.own = member.Records{Certs: []member.Signed{cert}, Anns: []member.Signed{ann}}
	return h, nil
}

// Records are those of all hosts.
func (c *SkeinCluster) Records() member.Records {
	var all member.Records
	for _, h := range c.Hosts {
		all.Certs = append(all.Certs, h.own.Certs...)
		all.Anns = append(all.Anns, h.own.Anns...)
	}
	return all
}

// KeyOf is the identity key of a host, nil if there is none of that name.
func (c *SkeinCluster) KeyOf(node cluster.NodeID) ed25519.PublicKey {
	for _, h := range c.Hosts {
		if h.Node == node {
			return h.Key.Public().(ed25519.PublicKey) //nolint:errcheck // an Ed25519 key's
		}
	}
	return nil
}

// Options are those of the next start of h, on new sockets. A founder that
// starts for the first time knows itself only: what it founds is a cluster of
// one, to which the others are added.
func (c *SkeinCluster) Options(h *Identity, store coord.Store) (coord.Options, *Sockets, error) {
	s, err := listen(netip.AddrPortFrom(h.addr, c.port), c.M)
	if err != nil {
		return coord.Options{}, nil, err
	}
	h.Boot++
	known := c.Records()
	if h == c.Hosts[0] && h.Boot == 1 {
		known = h.own
	}
	return coord.Options{
		Self: h.Node, Key: h.Key, Verifier: c.Verifier, Records: known, Store: store, Boot: h.Boot, Founder: h == c.Hosts[0],
		PacketConn: packets{s.udp, s}, Listener: listener{s.tcp, s}, DialTCP: s.dial, Port: c.port,
		Profile: c.profile, Mode: cluster.ModeAuto, Now: bootTime, Version: "0.0.0", Logger: zerolog.Nop(),
	}, s, nil
}

// bootTime is the clock that skein's daemon uses.
func bootTime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic("bench: CLOCK_BOOTTIME is not readable: " + err.Error())
	}
	return time.Duration(ts.Nano())
}
