//go:build linux

package netns_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/join"
	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/coord/wire"
)

// nobody is a user without rights on a member host.
const nobody = 65534

// forger is what an attacker has at hand: a host on the underlay without keys,
// an account on a member host, and what it once recorded.
type forger struct {
	*fleet
	victim, inside, other *daemon // inside is the member host with the account
	victimAddr            netip.Addr
	insideAddr            netip.Addr
	sample                wire.Message // a genuine message of inside
}

func newForger(t *testing.T) *forger {
	t.Helper()
	f := newFleet(t, backendTUN, 0)
	f.profile = cluster.ProfileLAN // what a busy machine does is not to look like a forger's success
	for range 3 {
		f.add(backendTUN)
	}
	f.up()
	f.await("three voters", 30*time.Second, func() error {
		s, err := f.all[0].api.Status(f.ctx)
		if err == nil && s.Lease.Voters != 3 {
			err = fmt.Errorf("%d voters", s.Lease.Voters)
		}
		return err
	})
	x := &forger{fleet: f, victim: f.all[0], inside: f.all[1], other: f.all[2]}
	x.inside.end(syscall.SIGTERM) // so that it has an earlier start
	x.inside.run()
	f.await("full mesh", 30*time.Second, f.meshed)
	x.victimAddr, x.insideAddr = x.victim.meshAddr(), x.inside.meshAddr()
	x.sample, _ = x.record()
	return x
}

// record returns a genuine message from inside to the victim, as seen on the
// mesh device of inside.
func (x *forger) record() (wire.Message, []byte) {
	x.t.Helper()
	c := x.inside.Capture(device)
	var m wire.Message
	var raw []byte
	x.await("a genuine message", 20*time.Second, func() error {
		packets := c.Packets()
		for _, p := range slices.Backward(packets) {
			payload, ok := udpPayload(p, x.insideAddr, x.victimAddr)
			if !ok {
				continue
			}
			if got, err := wire.Parse(payload); err == nil && string(got.Node) == x.inside.Name() {
				m, raw = got, payload
				return nil
			}
		}
		return fmt.Errorf("none among %d packets", len(packets))
	})
	if _, err := c.Stop(); err != nil {
		x.t.Fatal(err)
	}
	return m, raw
}

// udpPayload is the content of an IPv4 packet from src to the coordination
// port of dst.
func udpPayload(p []byte, src, dst netip.Addr) ([]byte, bool) {
	if len(p) < 28 || p[0] != 0x45 || p[9] != syscall.IPPROTO_UDP ||
		!bytes.Equal(p[12:16], src.AsSlice()) || !bytes.Equal(p[16:20], dst.AsSlice()) ||
		binary.BigEndian.Uint16(p[22:]) != coordPort {
		return nil, false
	}
	return p[28:], true
}

// local sends a datagram as a user without rights on a member host, count
// times, from the address src to the victim.
func (x *forger) local(from *daemon, src netip.Addr, payload []byte, count int) {
	x.t.Helper()
	err := from.DoAs(nobody, func() error {
		conn, err := net.DialUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(src, 0)),
			net.UDPAddrFromAddrPort(netip.AddrPortFrom(x.victimAddr, coordPort)))
		if err != nil {
			return err
		}
		defer conn.Close()
		for range count {
			if _, err := conn.Write(payload); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		x.t.Fatal(err)
	}
}

// refuses runs attack and waits until the victim counted count refusals for
// reason more than before.
func (x *forger) refuses(reason wire.Reason, count int, attack func()) {
	x.t.Helper()
	before := x.victim.rejected(string(reason))
	attack()
	x.await(fmt.Sprintf("%d refused for %s", count, reason), 10*time.Second, func() error {
		if got := x.victim.rejected(string(reason)) - before; got < float64(count) {
			return fmt.Errorf("%g counted", got)
		}
		return nil
	})
}

// header is that of a message of inside that none of the cheap checks refuses:
// newer than its last, and inside the window, so that the genuine ones that
// follow still count.
func (x *forger) header(typ wire.Type) wire.Header {
	h := x.sample.Header
	h.Type, h.Time, h.To = typ, time.Now().Unix(), cluster.NodeID(x.victim.Name())
	h.Seq += 500
	return h
}

func (x *forger) seal(key ed25519.PrivateKey, h wire.Header, payload any) []byte {
	x.t.Helper()
	data, err := wire.Seal(key, h, payload)
	if err != nil {
		x.t.Fatal(err)
	}
	return data
}

func (x *forger) key() ed25519.PrivateKey {
	x.t.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		x.t.Fatal(err)
	}
	return key
}

// beliefs is what must not change by any forgery.
type beliefs struct {
	members []string
	holder  cluster.NodeID
	term    cluster.Term
	peers   []string
}

func (x *forger) beliefs() (b beliefs) {
	x.t.Helper()
	ms, err := x.victim.api.Members(x.ctx)
	if err != nil {
		x.t.Fatal(err)
	}
	for _, m := range ms.Members {
		b.members = append(b.members, fmt.Sprintf("%s %s %s %s", m.Node, m.Addr, m.Addr6, m.State))
	}
	var l api.Lease
	if l, err = x.victim.api.Lease(x.ctx); err != nil {
		x.t.Fatal(err)
	}
	b.holder, b.term = l.Holder, l.Term
	mesh, err := x.victim.api.Mesh(x.ctx)
	if err != nil {
		x.t.Fatal(err)
	}
	for _, p := range mesh.Peers {
		b.peers = append(b.peers, fmt.Sprintf("%s %s %s", p.Node, p.Addr, p.Endpoint))
	}
	return b
}

// TestForgeries: each is refused, counted by its reason, named in the log, and
// changes nothing.
func TestForgeries(t *testing.T) {
	parallel(t)
	x := newForger(t)
	before := x.beliefs()
	heartbeat := wire.Heartbeat{Role: cluster.RoleStandby, Profile: x.profile, KnownPeers: []wire.PeerHint{}}
	for _, c := range []struct {
		name   string
		reason wire.Reason
		data   func() []byte
	}{
		{"by a local user without the key", wire.ReasonSignature, func() []byte {
			return x.seal(x.key(), x.header(wire.TypeHeartbeat), heartbeat)
		}},
		{"replay", wire.ReasonReplay, func() []byte { _, raw := x.record(); return raw }},
		{"of an earlier start of the sender", wire.ReasonBoot, func() []byte {
			h := x.header(wire.TypeHeartbeat)
			h.Boot--
			return x.seal(x.key(), h, heartbeat)
		}},
		{"of an hour ago", wire.ReasonClock, func() []byte {
			h := x.header(wire.TypeHeartbeat)
			h.Time -= 3600
			return x.seal(x.key(), h, heartbeat)
		}},
		{"for another host", wire.ReasonTo, func() []byte {
			h := x.header(wire.TypeHeartbeat)
			h.To = cluster.NodeID(x.other.Name())
			return x.seal(x.key(), h, heartbeat)
		}},
		{"of another host", wire.ReasonSource, func() []byte {
			h := x.header(wire.TypeHeartbeat)
			h.Node = cluster.NodeID(x.other.Name())
			return x.seal(x.key(), h, heartbeat)
		}},
		{"of nobody known", wire.ReasonUnknownSender, func() []byte {
			h := x.header(wire.TypeHeartbeat)
			h.Node = "mallory"
			return x.seal(x.key(), h, heartbeat)
		}},
		{"record of an uncertified key", wire.ReasonRecord, x.uncertified},
		{"claim without term", wire.ReasonTerm, func() []byte {
			id, _, err := join.Load(x.inside.state())
			if err != nil {
				t.Fatal(err)
			}
			return x.seal(id.IDKey(), x.header(wire.TypeLeaseClaim), json.RawMessage(`{"priority":1}`))
		}},
		{"64 KiB", wire.ReasonSize, func() []byte { return bytes.Repeat([]byte("x"), 65507) }},
		{"deep", wire.ReasonParse, func() []byte { return []byte(strings.Repeat("[", 500) + strings.Repeat("]", 500)) }},
		{"duplicate key", wire.ReasonParse, func() []byte {
			_, raw := x.record()
			return append([]byte(`{"node_id":"n3",`), raw[1:]...)
		}},
		{"case variant", wire.ReasonParse, func() []byte {
			_, raw := x.record()
			return append([]byte(`{"NODE_ID":"n3",`), raw[1:]...)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			data := c.data()
			x.refuses(c.reason, 1, func() { x.local(x.inside, x.insideAddr, data, 1) })
		})
	}
	t.Run("flood", func(t *testing.T) {
		data := x.seal(x.key(), x.header(wire.TypeHeartbeat), heartbeat)
		x.refuses(wire.ReasonRate, 50, func() { x.local(x.inside, x.insideAddr, data, 400) })
		x.await("all alive in spite of it", 20*time.Second, x.meshed)
	})
	t.Run("stolen address", x.stolenAddress)
	t.Run("from the underlay", x.fromUnderlay)
	x.await("the full mesh", 30*time.Second, x.meshed)
	if after := x.beliefs(); !reflect.DeepEqual(after, before) {
		t.Errorf("beliefs changed\nfrom %+v\nto   %+v", before, after)
	}
	text, err := os.ReadFile(x.victim.logs())
	if err != nil {
		t.Fatal(err)
	}
	for _, reason := range []wire.Reason{wire.ReasonSource, wire.ReasonSignature, wire.ReasonRecord, wire.ReasonTerm} {
		if !bytes.Contains(text, []byte("message refused ("+string(reason)+")")) {
			t.Errorf("the log does not tell of a refusal for %s", reason)
		}
	}
	t.Run("after a restart", x.afterRestart)
	x.await("the full mesh again", 30*time.Second, x.meshed)
}

// uncertified is the introduction of a host whose certificate is signed by a
// key that nobody certified. Its address is the sender's, so that only the
// certificate is wrong.
func (x *forger) uncertified() []byte {
	x.t.Helper()
	id, _, err := join.Load(x.inside.state())
	if err != nil {
		x.t.Fatal(err)
	}
	key, sponsor := x.key(), x.key()
	pub := key.Public().(ed25519.PublicKey)
	now := time.Now().Unix()
	cert, err := member.Cert{
		Cluster: id.Cluster, Node: "mallory", IDPub: pub, IP4: x.insideAddr, IP6: member.ULA(id.Cluster, pub),
		Serial: 1, Issued: now, Expires: now + 3600, Issuer: sponsor.Public().(ed25519.PublicKey),
	}.Sign(sponsor)
	if err != nil {
		x.t.Fatal(err)
	}
	ann, err := member.Ann{IDPub: pub, WGPub: [32]byte{1}, Epoch: 1, Issued: now}.Sign(key)
	if err != nil {
		x.t.Fatal(err)
	}
	h := x.header(wire.TypePeerAnnounce)
	h.Node, h.Boot, h.Seq = "mallory", 1, 1
	a := wire.PeerAnnounce{WGPub: wire.WGKey{1}, TunnelIP: x.insideAddr, Cert: cert.String(), Ann: ann.String()}
	a.ClusterToken = wire.AnnounceToken(id.ClusterSecret(), h.Node, a)
	return x.seal(key, h, a)
}

// stolenAddress gives a member host the mesh address of another, as its root
// could: WireGuard on the victim drops what comes from there, and no host
// believes anything else than before.
func (x *forger) stolenAddress(t *testing.T) {
	otherAddr := x.other.meshAddr()
	x.inside.Exec("ip", "addr", "add", otherAddr.String()+"/32", "dev", device)
	defer x.inside.Exec("ip", "addr", "del", otherAddr.String()+"/32", "dev", device)
	parse := x.victim.rejected(string(wire.ReasonParse))
	seen := x.victim.Capture(device)
	x.local(x.inside, otherAddr, []byte("stolen"), 20)
	// The same from its own address arrives, so what was sent before did not.
	x.refuses(wire.ReasonParse, 1, func() { x.local(x.inside, x.insideAddr, []byte("genuine"), 1) })
	packets, err := seen.Stop()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range packets {
		if bytes.Contains(p, []byte("stolen")) {
			t.Fatal("a packet from a stolen address left the victim's mesh device")
		}
	}
	if got := x.victim.rejected(string(wire.ReasonParse)) - parse; got != 1 {
		t.Errorf("%g datagrams reached the daemon, want the one", got)
	}
}

// fromUnderlay forges a peer's mesh address on a host that has no key. It
// reaches any socket that is merely bound to the victim's mesh address, with
// reverse path filtering off and loose alike, and never the daemon's.
func (x *forger) fromUnderlay(t *testing.T) {
	mallory := x.net.Host("mallory")
	mallory.Exec("ip", "route", "add", x.victimAddr.String()+"/32", "via", x.victim.Addr().String())
	bait, err := x.victim.ListenPacket(x.ctx, netip.AddrPortFrom(x.victimAddr, 9999).String())
	if err != nil {
		t.Fatal(err)
	}
	defer bait.Close()
	for _, filter := range []string{"0", "2"} {
		for _, link := range []string{"all", "eth0", device} {
			x.victim.Sysctl("net.ipv4.conf."+link+".rp_filter", filter)
		}
		src := netip.AddrPortFrom(x.insideAddr, coordPort)
		parse, dropped := x.victim.rejected(string(wire.ReasonParse)), x.noPorts()
		for range 20 {
			if err := mallory.Spoof(src, netip.AddrPortFrom(x.victimAddr, coordPort), []byte("forged")); err != nil {
				t.Fatal(err)
			}
		}
		if err := mallory.Spoof(src, netip.AddrPortFrom(x.victimAddr, 9999), []byte("forged")); err != nil {
			t.Fatal(err)
		}
		if err := bait.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
			t.Fatal(err)
		}
		var buf [64]byte
		n, from, err := bait.ReadFrom(buf[:])
		if err != nil || string(buf[:n]) != "forged" || from.String() != src.String() {
			t.Fatalf("rp_filter %s: the attack itself fails: %q from %v, %v", filter, buf[:n], from, err)
		}
		if got := x.victim.rejected(string(wire.ReasonParse)) - parse; got != 0 {
			t.Errorf("rp_filter %s: %g forged datagrams reached the daemon", filter, got)
		}
		x.await("the kernel counts what it refused", 10*time.Second, func() error {
			if got := x.noPorts() - dropped; got < 20 {
				return fmt.Errorf("rp_filter %s: %d, want 20", filter, got)
			}
			return nil
		})
	}
}

// noPorts is how many datagrams for which the victim has no socket its kernel
// counted.
func (x *forger) noPorts() int {
	x.t.Helper()
	var text []byte
	if err := x.victim.Do(func() (err error) {
		text, err = os.ReadFile("/proc/thread-self/net/snmp")
		return err
	}); err != nil {
		x.t.Fatal(err)
	}
	var names []string
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] != "Udp:" {
			continue
		}
		if names == nil {
			names = fields
			continue
		}
		n, err := strconv.Atoi(fields[slices.Index(names, "NoPorts")])
		if err != nil {
			x.t.Fatal(err)
		}
		return n
	}
	x.t.Fatal("the kernel counts no datagrams")
	return 0
}

// afterRestart plays a message to the victim that it accepted before its
// restart, while the message's time is still good.
func (x *forger) afterRestart(t *testing.T) {
	m, raw := x.record()
	x.victim.end(syscall.SIGKILL)
	x.victim.run()
	x.await("the victim answers again", 20*time.Second, func() error {
		ctx, cancel := context.WithTimeout(x.ctx, time.Second)
		defer cancel()
		_, err := x.victim.api.Status(ctx)
		return err
	})
	refused := func() float64 {
		return x.victim.rejected(string(wire.ReasonClock)) + x.victim.rejected(string(wire.ReasonReplay)) +
			x.victim.rejected(string(wire.ReasonBoot))
	}
	before := refused()
	x.await("the replay is refused", 20*time.Second, func() error {
		x.local(x.inside, x.insideAddr, raw, 5)
		if got := refused() - before; got < 5 {
			return fmt.Errorf("%g counted", got)
		}
		return nil
	})
	t.Logf("replayed %.1f s after it was sent", time.Since(time.Unix(m.Time, 0)).Seconds())
}
