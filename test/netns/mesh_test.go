//go:build linux

package netns_test

import (
	"fmt"
	"net/netip"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/internal/nstest"
)

// TestFullMesh starts a cluster whose hosts know each other, all at once.
func TestFullMesh(t *testing.T) {
	parallel(t)
	for _, c := range []struct {
		name    string
		backend string
		size    int
		bound   time.Duration
	}{
		{"tun", backendTUN, 3, 3 * time.Second},
		{"netstack", backendNetstack, 3, 3 * time.Second},
		{"many", backend(), pick(6, 20), 10 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			parallel(t)
			f := newFleet(t, c.backend, c.size)
			f.up()
			for _, d := range f.all {
				_ = d.cmd.Process.Signal(syscall.SIGTERM) // waited for below
			}
			for _, d := range f.all {
				d.end(syscall.SIGTERM)
			}
			for _, d := range f.all {
				d.run()
			}
			took := f.await("full mesh", time.Minute, f.meshed)
			within(t, "full mesh", took, c.bound)
			if c.backend == backendTUN && c.size == 3 {
				f.carries()
			}
		})
	}
}

// carries checks that any program's packets pass between all hosts, over IPv4
// and IPv6.
func (f *fleet) carries() {
	f.t.Helper()
	ms, err := f.all[0].api.Members(f.ctx)
	if err != nil {
		f.t.Fatal(err)
	}
	addrs := map[cluster.NodeID][2]netip.Addr{}
	for _, m := range ms.Members {
		addrs[m.Node] = [2]netip.Addr{netip.MustParseAddr(m.Addr), netip.MustParseAddr(m.Addr6)}
	}
	for _, a := range f.all {
		for _, b := range f.all {
			for i := range 2 {
				if a == b {
					continue
				}
				src, dst := addrs[cluster.NodeID(a.Name())][i], addrs[cluster.NodeID(b.Name())][i]
				p := nstest.Ping(a.Host, b.Host, src, dst, 5*time.Millisecond)
				f.await("pings are sent", 10*time.Second, func() error {
					if p.Sent() < 10 {
						return fmt.Errorf("%d so far", p.Sent())
					}
					return nil
				})
				if r := p.Stop(); r.Lost > 0 {
					f.t.Errorf("%s to %s: %d of %d lost", src, dst, r.Lost, r.Sent)
				}
			}
		}
	}
}

// TestChain: each host joins through the one before; all end in the full mesh.
func TestChain(t *testing.T) {
	parallel(t)
	f := newFleet(t, backend(), 4)
	f.found()
	for i, d := range f.all[1:] {
		sponsor := f.all[min(i, 1)] // whom the founder admitted may admit others
		d.join(sponsor)
		f.await(d.Name()+" joined", 30*time.Second, func() error { return meshed(f.ctx, []*daemon{sponsor, d}) })
	}
	took := f.await("full mesh", time.Minute, f.meshed)
	t.Logf("full mesh %.2f s after the last join", took.Seconds())
}

// TestCutHeals cuts one host off until it is noticed, at full length until it
// is believed dead, and lets it back.
func TestCutHeals(t *testing.T) {
	parallel(t)
	f := newFleet(t, backend(), 3)
	f.up()
	lost, rest := f.all[2], f.all[:2]
	lost.Cut()
	cut := time.Now()
	f.await("the others notice the cut", 30*time.Second, func() error {
		return believes(f.ctx, rest, []*daemon{lost}, cluster.Suspect)
	})
	t.Logf("suspected after %.2f s", time.Since(cut).Seconds())
	f.pass(pick(15*time.Second, 200*time.Second) - time.Since(cut))
	if proving() {
		if err := believes(f.ctx, rest, []*daemon{lost}, cluster.Dead); err != nil {
			t.Error(err)
		}
	}
	lost.Heal()
	within(t, "heal", f.await("heal", time.Minute, f.meshed), 10*time.Second)
}

// TestAddressChange gives one host another underlay address.
func TestAddressChange(t *testing.T) {
	parallel(t)
	f := newFleet(t, backend(), 3)
	f.up()
	moved := f.all[2]
	to := netip.MustParseAddr("192.0.2.202")
	moved.ChangeAddress(to)
	took := f.await("peers at the new address", time.Minute, func() error { return f.endpointIs(moved, to) })
	took += f.await("full mesh", time.Minute, f.meshed)
	within(t, "address change", took, 15*time.Second)
}

// TestLossIsNoDeath: a fifth of all packets lost in each direction, and no
// host is ever believed dead.
func TestLossIsNoDeath(t *testing.T) {
	parallel(t)
	f := newFleet(t, backend(), 3)
	f.up()
	f.lossy(20)
	end := time.Now().Add(pick(20*time.Second, 5*time.Minute))
	looks, suspicions := 0, 0
	for ; time.Now().Before(end); looks++ {
		if err := believes(f.ctx, f.all, f.all, cluster.Alive, cluster.Suspect); err != nil {
			t.Fatalf("%s before the end: %v", time.Until(end), err)
		}
		if believes(f.ctx, f.all, f.all, cluster.Alive) != nil {
			suspicions++
		}
		f.pass(100 * time.Millisecond)
	}
	t.Logf("%d of %d looks found a host suspected, none one dead", suspicions, looks)
	f.lossy(0)
	f.await("all alive again", 20*time.Second, f.meshed)
}

// TestBehindNAT: hosts behind routers with address translation, in front of
// each other too, end in the full mesh, know that they are behind NAT and keep
// their routers' doors open.
func TestBehindNAT(t *testing.T) {
	parallel(t)
	f := newFleet(t, backend(), 2)
	for range 2 {
		f.addHidden(backend())
	}
	f.up()
	hidden := f.all[2:]
	f.await("hosts know that they are hidden", time.Minute, func() error {
		ms, err := f.all[0].api.Members(f.ctx)
		if err != nil {
			return err
		}
		for _, m := range ms.Members {
			want := m.Node == cluster.NodeID(hidden[0].Name()) || m.Node == cluster.NodeID(hidden[1].Name())
			if m.NAT != want {
				return fmt.Errorf("%s: nat is %t", m.Node, m.NAT)
			}
		}
		return nil
	})
	f.await("keepalive towards those behind NAT only", 30*time.Second, func() error {
		for _, d := range f.all {
			for _, o := range f.all {
				if o == d {
					continue
				}
				p, err := d.peer(o)
				if err != nil {
					return err
				}
				want := slices.Contains(hidden, d) || slices.Contains(hidden, o)
				if (p.KeepaliveSeconds > 0) != want {
					return fmt.Errorf("%s to %s: keepalive %g s", d.Name(), o.Name(), p.KeepaliveSeconds)
				}
			}
		}
		return nil
	})
	// Both at once start anew: what they learned of each other is cached.
	for _, d := range hidden {
		d.end(syscall.SIGTERM)
		d.run()
	}
	took := f.await("full mesh after a restart", time.Minute, f.meshed)
	t.Logf("full mesh %.2f s after the restart of the hidden hosts", took.Seconds())
}
