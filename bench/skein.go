package main

import (
	"context"
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

// skeinCluster is who the hosts of a skein cluster are: keys, records and
// addresses. The first is the founder.
type skeinCluster struct {
	profile  cluster.Profile
	verifier member.Verifier
	port     uint16
	m        *meter
	hosts    []*identity
}

type identity struct {
	node cluster.NodeID
	addr netip.Addr // in the mesh
	key  ed25519.PrivateKey
	own  member.Records
	boot uint64
}

// newSkein makes n hosts, the better the earlier.
func newSkein(n int, profile cluster.Profile, kind byte) (*skeinCluster, error) {
	rootPub, root, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	c := &skeinCluster{profile: profile, m: &meter{}, verifier: member.Verifier{RootPub: rootPub}}
	_, _ = rand.Read(c.verifier.Cluster[:]) // never fails
	net := subnet(kind)
	for i := range n {
		addr := netip.AddrFrom4([4]byte{10, net[1], net[2], byte(i + 1)})
		h, err := c.certify(root, i, addr)
		if err != nil {
			return nil, err
		}
		c.hosts = append(c.hosts, h)
	}
	c.port, err = freePort(onLoopback(netip.AddrPortFrom(c.hosts[0].addr, 0)).Addr())
	return c, err
}

func (c *skeinCluster) certify(root ed25519.PrivateKey, i int, addr netip.Addr) (*identity, error) {
	pub, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	h := &identity{node: cluster.NodeID(fmt.Sprintf("host-%03d", i+1)), addr: addr, key: key}
	now := time.Now().Unix()
	cert, err := member.Cert{
		Cluster: c.verifier.Cluster, Node: h.node, IDPub: pub, IP4: addr, IP6: member.ULA(c.verifier.Cluster, pub),
		Serial: uint64(i + 1), Issued: now, Since: now, Expires: now + int64((90 * 24 * time.Hour).Seconds()), Issuer: c.verifier.RootPub,
	}.Sign(root)
	if err != nil {
		return nil, fmt.Errorf("certificate of %s: %w", h.node, err)
	}
	ann, err := member.Ann{
		IDPub: pub, WGPub: [32]byte{1, byte(i + 1)}, Epoch: 1, Issued: now, Zone: "bench", Priority: uint32(10 * (i + 1)),
		Endpoints: []netip.AddrPort{netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(i + 1)}), 51820)},
	}.Sign(key)
	if err != nil {
		return nil, fmt.Errorf("announcement of %s: %w", h.node, err)
	}
	h.own = member.Records{Certs: []member.Signed{cert}, Anns: []member.Signed{ann}}
	return h, nil
}

// records are those of all hosts.
func (c *skeinCluster) records() member.Records {
	var all member.Records
	for _, h := range c.hosts {
		all.Certs = append(all.Certs, h.own.Certs...)
		all.Anns = append(all.Anns, h.own.Anns...)
	}
	return all
}

// keyOf is the identity key of a host, nil if there is none of that name.
func (c *skeinCluster) keyOf(node cluster.NodeID) ed25519.PublicKey {
	for _, h := range c.hosts {
		if h.node == node {
			return h.key.Public().(ed25519.PublicKey) //nolint:errcheck // an Ed25519 key's
		}
	}
	return nil
}

// options are those of the next start of h, on new sockets. A founder that
// starts for the first time knows itself only: what it founds is a cluster of
// one, to which the others are added.
func (c *skeinCluster) options(h *identity, store coord.Store) (coord.Options, *sockets, error) {
	s, err := listen(netip.AddrPortFrom(h.addr, c.port), c.m)
	if err != nil {
		return coord.Options{}, nil, err
	}
	h.boot++
	known := c.records()
	if h == c.hosts[0] && h.boot == 1 {
		known = h.own
	}
	return coord.Options{
		Self: h.node, Key: h.key, Verifier: c.verifier, Records: known, Store: store, Boot: h.boot, Founder: h == c.hosts[0],
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

// poll waits until f holds, at most limit.
func poll(ctx context.Context, what string, limit time.Duration, f func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !f() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: not within %s", what, limit)
		case <-tick.C:
		}
	}
	return nil
}

// pause waits for d.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
