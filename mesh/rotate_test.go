package mesh

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/mesh/topo"
)

const (
	pingPort = 9
	// Just above 100 a second, and never at the same instant as all else.
	pingEvery = 9970 * time.Microsecond
)

// flow is numbered datagrams from one host to another.
type flow struct {
	from, to string
	sent     atomic.Uint64
	got      atomic.Uint64
	quit     chan struct{}
	ended    chan struct{}
}

// lost is what was sent and has not arrived.
func (f *flow) lost() uint64 { return f.sent.Load() - f.got.Load() }

// pings starts a flow between each two hosts, both ways.
func pings(t *testing.T, hosts []*host) []*flow {
	t.Helper()
	var flows []*flow
	for _, to := range hosts {
		in := map[string]*flow{}
		conn := to.pingSocket(t)
		for _, from := range hosts {
			if from == to {
				continue
			}
			f := &flow{from: string(from.node), to: string(to.node), quit: make(chan struct{}), ended: make(chan struct{})}
			in[from.ip4.String()] = f
			flows = append(flows, f)
		}
		go receivePings(conn, in)
	}
	for _, from := range hosts {
		conn := from.pingSocket(t)
		for _, f := range flows {
			if f.from != string(from.node) {
				continue
			}
			i := slices.IndexFunc(hosts, func(h *host) bool { return string(h.node) == f.to })
			go f.send(conn, udpAddr(hosts[i].ip4, pingPort))
		}
	}
	return flows
}

// pingSocket is the host's socket for pings, the second time one to send.
func (h *host) pingSocket(t *testing.T) net.PacketConn {
	t.Helper()
	conn, err := h.ListenPacket(t.Context(), netip.AddrPortFrom(h.ip4, pingPort))
	if err != nil {
		conn, err = h.ListenPacket(t.Context(), netip.AddrPortFrom(h.ip4, pingPort+1))
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func receivePings(conn net.PacketConn, in map[string]*flow) {
	buf := make([]byte, 64)
	for {
		_, from, err := conn.ReadFrom(buf)
		if err != nil {
			return
		}
		ap, _ := netip.ParseAddrPort(from.String())
		if f := in[ap.Addr().String()]; f != nil {
			f.got.Add(1)
		}
	}
}

func (f *flow) send(conn net.PacketConn, to net.Addr) {
	defer close(f.ended)
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	for {
		select {
		case <-f.quit:
			return
		case <-tick.C:
		}
		var b [8]byte
		binary.BigEndian.PutUint64(b[:], f.sent.Add(1))
		if _, err := conn.WriteTo(b[:], to); errors.Is(err, net.ErrClosed) {
			f.sent.Add(^uint64(0))
			return
		}
	}
}

// stopPings stops the flows and waits for what is on the way.
func stopPings(flows []*flow, wait time.Duration) (sent, lost, worst uint64) {
	for _, f := range flows {
		close(f.quit)
		<-f.ended
	}
	for end := time.Now().Add(wait); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if !slices.ContainsFunc(flows, func(f *flow) bool { return f.lost() > 0 }) {
			break
		}
	}
	for _, f := range flows {
		sent += f.sent.Load()
		lost += f.lost()
		worst = max(worst, f.lost())
	}
	return sent, lost, worst
}

func nextKey(i, turn int) [topo.KeyLen]byte {
	return sha256.Sum256(fmt.Appendf(nil, "key %d of host %d", turn, i))
}

// stage announces the key that hosts[i] is going to have.
func stage(t *testing.T, hosts []*host, members []cluster.Member, i int, key [topo.KeyLen]byte) {
	t.Helper()
	pub, err := topo.PublicKey(key)
	if err != nil {
		t.Fatal(err)
	}
	members[i].NextWG, members[i].NextAt = pub[:], 1
	for j, h := range hosts {
		if j != i {
			h.mustSet(t, members)
		}
	}
}

// change gives hosts[i] its announced key.
func change(t *testing.T, hosts []*host, members []cluster.Member, i int, key [topo.KeyLen]byte) {
	t.Helper()
	if err := hosts[i].SetKey(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	members[i].WGPub, members[i].NextWG, members[i].NextAt = members[i].NextWG, nil, 0
	hosts[i].mustSet(t, members)
}

// tell announces to all others that hosts[i] has its key.
func tell(t *testing.T, hosts []*host, members []cluster.Member, i int) {
	t.Helper()
	for j, h := range hosts {
		if j != i {
			h.mustSet(t, members)
		}
	}
}

// All hosts change their key in turn, several times, so that lower and higher
// keys meet in every way, under 100 packets a second on each path.
func TestBubbleRotate(t *testing.T) {
	for _, delay := range []time.Duration{time.Millisecond, 40 * time.Millisecond} {
		bubble(t, func(t *testing.T) {
			fn := newFakeNet(19)
			fn.delay = delay
			hosts, members := fakeHosts(t, 3, fn, false)
			for _, h := range hosts {
				h.mustSet(t, members)
			}
			time.Sleep(4 * time.Second)
			flows := pings(t, hosts)
			time.Sleep(time.Second)
			for turn := range 4 {
				for i := range hosts {
					key := nextKey(i, turn)
					stage(t, hosts, members, i, key)
					time.Sleep(time.Second)
					change(t, hosts, members, i, key)
					time.Sleep(300 * time.Millisecond)
					tell(t, hosts, members, i)
					time.Sleep(700 * time.Millisecond)
				}
			}
			sent, lost, worst := stopPings(flows, time.Second)
			t.Logf("12 changes of key, one-way delay %s: %d of %d packets lost, at most %d on one path", delay, lost, sent, worst)
			if worst > 2 {
				t.Errorf("%d packets lost on one path", worst)
			}
		})
	}
}

// What happens if the steps of a change come in another order, or not at all.
func TestBubbleRotateBadly(t *testing.T) {
	run := func(name string, limit uint64, steps func(t *testing.T, hosts []*host, members []cluster.Member, key [topo.KeyLen]byte)) {
		bubble(t, func(t *testing.T) {
			fn := newFakeNet(23)
			hosts, members := fakeHosts(t, 3, fn, false)
			for _, h := range hosts {
				h.mustSet(t, members)
			}
			time.Sleep(4 * time.Second)
			flows := pings(t, hosts)
			time.Sleep(time.Second)
			steps(t, hosts, members, nextKey(0, 1))
			time.Sleep(5 * time.Second)
			before := make([]uint64, len(flows))
			for i, f := range flows {
				before[i] = f.got.Load()
			}
			time.Sleep(time.Second)
			for i, f := range flows {
				if f.got.Load() < before[i]+90 {
					t.Errorf("%s: %s to %s: only %d packets in a second", name, f.from, f.to, f.got.Load()-before[i])
				}
			}
			sent, lost, worst := stopPings(flows, time.Second)
			t.Logf("%s: %d of %d packets lost, at most %d on one path", name, lost, sent, worst)
			if worst > limit {
				t.Errorf("%s: %d packets lost on one path", name, worst)
			}
		})
	}
	type hosts = []*host
	type members = []cluster.Member
	run("told 100 ms before the change", 12, func(t *testing.T, hs hosts, ms members, key [topo.KeyLen]byte) {
		stage(t, hs, ms, 0, key)
		time.Sleep(time.Second)
		ms[0].WGPub, ms[0].NextWG = ms[0].NextWG, nil
		tell(t, hs, ms, 0)
		time.Sleep(100 * time.Millisecond)
		if err := hs[0].SetKey(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		hs[0].mustSet(t, ms)
	})
	run("never told of the change", 1, func(t *testing.T, hs hosts, ms members, key [topo.KeyLen]byte) {
		stage(t, hs, ms, 0, key)
		time.Sleep(time.Second)
		change(t, hs, ms, 0, key)
	})
	run("told 300 ms after the change, not before", 80, func(t *testing.T, hs hosts, ms members, key [topo.KeyLen]byte) {
		pub, _ := topo.PublicKey(key)
		ms[0].NextWG = pub[:]
		change(t, hs, ms, 0, key)
		time.Sleep(300 * time.Millisecond)
		tell(t, hs, ms, 0)
	})
	run("two at once, told 300 ms later", 100, func(t *testing.T, hs hosts, ms members, key [topo.KeyLen]byte) {
		other := nextKey(1, 1)
		stage(t, hs, ms, 0, key)
		stage(t, hs, ms, 1, other)
		time.Sleep(time.Second)
		for i, k := range [][topo.KeyLen]byte{key, other} {
			if err := hs[i].SetKey(t.Context(), k); err != nil {
				t.Fatal(err)
			}
			ms[i].WGPub, ms[i].NextWG = ms[i].NextWG, nil
		}
		time.Sleep(300 * time.Millisecond)
		for _, h := range hs {
			h.mustSet(t, ms)
		}
	})
	run("announced, never done, taken back", 0, func(t *testing.T, hs hosts, ms members, key [topo.KeyLen]byte) {
		stage(t, hs, ms, 0, key)
		time.Sleep(2 * time.Second)
		ms[0].NextWG = nil
		tell(t, hs, ms, 0)
	})
}

// The first handshake with the new key is lost, and the one after it.
func TestBubbleRotateLossy(t *testing.T) {
	bubble(t, func(t *testing.T) {
		fn := newFakeNet(29)
		hosts, members := fakeHosts(t, 2, fn, false)
		for _, h := range hosts {
			h.mustSet(t, members)
		}
		time.Sleep(4 * time.Second)
		all := []*ears{hosts[0].heartbeats(t, hosts, 100*time.Millisecond), hosts[1].heartbeats(t, hosts, 100*time.Millisecond)}
		key := nextKey(0, 1)
		stage(t, hosts, members, 0, key)
		time.Sleep(time.Second)
		fn.set(1, nil)
		at := time.Now()
		change(t, hosts, members, 0, key)
		time.Sleep(500 * time.Millisecond)
		fn.set(0, nil)
		took := until(t, 20*time.Second, func() bool { return allHeard(hosts, all, at.Add(500*time.Millisecond)) })
		t.Logf("half a second without network: both heard again after another %s", took)
		if took > time.Second {
			t.Errorf("took %s", took)
		}
		if p := hosts[1].Observe()[0]; p.Key != hosts[0].Key() {
			t.Errorf("peer is %s, want %s", p.Key, hosts[0].Key())
		}
	})
}

// The same over real sockets and real time.
func TestRotateKey(t *testing.T) {
	hosts := newCluster(t, 3, nil)
	var members []cluster.Member
	for _, h := range hosts {
		eventually(t, "mesh", func() bool { return h.reached(2) })
		members = append(members, h.member(h.loopback()))
	}
	flows := pings(t, hosts)
	got := func(n uint64) func() bool {
		return func() bool { return !slices.ContainsFunc(flows, func(f *flow) bool { return f.got.Load() < n }) }
	}
	eventually(t, "pings", got(50))
	rounds := count(2, 20)
	for turn := range rounds {
		i := turn % len(hosts)
		key := nextKey(i, turn)
		stage(t, hosts, members, i, key)
		for j, h := range hosts {
			if j == i {
				continue
			}
			n := h.Observe()[slices.IndexFunc(h.Observe(), func(p PeerStatus) bool { return p.Node == hosts[i].node })]
			if n.Next != topo.Key(members[i].NextWG) {
				t.Errorf("%s does not show the announced key: %+v", h.node, n)
			}
		}
		change(t, hosts, members, i, key)
		for j, h := range hosts {
			eventually(t, "the handshake with the new key moves the addresses", func() bool {
				return j == i || slices.ContainsFunc(h.Observe(), func(p PeerStatus) bool {
					return p.Key == hosts[i].Key() && p.Live && len(p.Allowed) == 2
				})
			})
		}
		tell(t, hosts, members, i)
		eventually(t, "pings after", got(flows[0].got.Load()+50))
	}
	sent, lost, worst := stopPings(flows, 3*time.Second)
	t.Logf("%d changes of key: %d of %d packets lost, at most %d on one path", rounds, lost, sent, worst)
	if worst > 2*uint64(rounds) && !tooBusy(t) {
		t.Errorf("%d packets lost on one path", worst)
	}
}

func TestSetKeyRefuses(t *testing.T) {
	a := newHost(t, 1, nil)
	a.start(t)
	old := a.desired([]cluster.Member{a.member()})
	if err := a.SetKey(t.Context(), nextKey(1, 1)); err != nil {
		t.Fatal(err)
	}
	if err := a.Set(t.Context(), old); err == nil {
		t.Error("a plan for the old key was taken")
	}
	a.stop(t)
	if err := a.SetKey(t.Context(), nextKey(1, 2)); !errors.Is(err, ErrClosed) {
		t.Errorf("after the end: %v", err)
	}
}
