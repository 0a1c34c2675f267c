//go:build linux

package netns_test

import (
	"context"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/skein-project/skein/internal/nstest"
	"github.com/skein-project/skein/internal/require"
)

const backendKernel = "kernel"

// kernelFleet is a full mesh of daemons whose device is the kernel's. The
// device outlives its daemon: the test removes it as an operator would.
func kernelFleet(t *testing.T, size int) *fleet {
	t.Helper()
	require.Need(t, require.KernelWG)
	f := newFleet(t, backendKernel, size)
	t.Cleanup(func() {
		for _, d := range f.all {
			if d.alive() {
				d.end(syscall.SIGTERM)
			}
			d.clean()
		}
	})
	f.up()
	return f
}

// clean removes the device that the daemon left.
func (d *daemon) clean() {
	d.f.t.Helper()
	// Not the fleet's context, which ends with the test.
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if out, err := d.Command(ctx, exe, "net", "cleanup", "--config", d.config()).CombinedOutput(); err != nil {
		d.f.t.Errorf("net cleanup: %v: %s", err, out)
	}
}

// TestKernelDaemons is one test because a fleet takes a while to come up on an
// emulated processor.
func TestKernelDaemons(t *testing.T) {
	f := kernelFleet(t, 3)
	t.Run("restart", func(t *testing.T) { kernelRestart(t, f) })
	t.Run("first packet", func(t *testing.T) { kernelFirstPacket(t, f) })
}

// kernelFirstPacket starts all hosts at once with new devices. As soon as two
// of them know each other both send; the first answer must come soon, although
// both ends ask for a handshake.
func kernelFirstPacket(t *testing.T, f *fleet) {
	addrs := make([]netip.Addr, len(f.all))
	for i, d := range f.all {
		addrs[i] = d.meshAddr()
	}
	for round := range pick(1, 3) {
		for _, d := range f.all {
			d.end(syscall.SIGTERM)
			d.clean()
		}
		for _, d := range f.all {
			d.run()
		}
		f.await("all hosts know all others", 2*time.Minute, func() error { return f.configured() })
		answers := make(chan time.Duration, len(f.all)) // one each, never blocks
		for i, d := range f.all {
			j := (i + 1) % len(f.all)
			go func() { answers <- firstAnswer(t, d.Host, f.all[j].Host, addrs[i], addrs[j]) }()
		}
		for range f.all {
			took := <-answers
			t.Logf("round %d: first answer after %.3f s", round, took.Seconds())
			if took > bound(time.Second) {
				t.Errorf("the first answer took %s", took)
			}
		}
		f.await("full mesh", 2*time.Minute, f.meshed)
	}
}

// configured reports what is missing until each device has all peers.
func (f *fleet) configured() error {
	for _, d := range f.all {
		m, err := d.api.Mesh(f.ctx)
		if err != nil {
			return err
		}
		if len(m.Peers) != len(f.all)-1 {
			return net.ErrClosed
		}
	}
	return nil
}

// firstAnswer sends a datagram every 10 ms until one comes back.
func firstAnswer(t *testing.T, from, to *nstest.Host, src, dst netip.Addr) time.Duration {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	echo, err := to.ListenPacket(ctx, netip.AddrPortFrom(dst, 0).String())
	if err != nil {
		t.Error(err)
		return 0
	}
	defer echo.Close()
	conn, err := from.ListenPacket(ctx, netip.AddrPortFrom(src, 0).String())
	if err != nil {
		t.Error(err)
		return 0
	}
	defer conn.Close()
	go func() { // ends when echo is closed
		buf := make([]byte, 64)
		for {
			n, peer, err := echo.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = echo.WriteTo(buf[:n], peer) // the next one asks again
		}
	}()
	start := time.Now()
	buf := make([]byte, 64)
	for ctx.Err() == nil {
		_, _ = conn.WriteTo([]byte("first"), echo.LocalAddr()) // no route yet: again
		_ = conn.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
		if _, _, err := conn.ReadFrom(buf); err == nil {
			return time.Since(start)
		}
	}
	t.Errorf("no answer from %s to %s", dst, src)
	return time.Since(start)
}

// kernelRestart restarts one daemon, and then kills one, while the mesh carries
// traffic: the kernel goes on with it.
func kernelRestart(t *testing.T, f *fleet) {
	a, b := f.all[0], f.all[1]
	pings := nstest.Ping(a.Host, b.Host, a.meshAddr(), b.meshAddr(), 10*time.Millisecond)
	sent := func(n int) {
		f.await("pings", time.Minute, func() error {
			if pings.Sent() < n {
				return context.DeadlineExceeded
			}
			return nil
		})
	}
	sent(100)
	b.end(syscall.SIGTERM)
	sent(pings.Sent() + 100)
	b.run()
	f.await("full mesh", 2*time.Minute, f.meshed)
	sent(pings.Sent() + 100)
	a.end(syscall.SIGKILL)
	sent(pings.Sent() + 100)
	a.run()
	f.await("full mesh", 2*time.Minute, f.meshed)
	sent(max(1000, pings.Sent()+100))
	r := pings.Stop()
	t.Logf("%d of %d pings lost over two restarts, longest gap %s", r.Lost, r.Sent, r.Gap)
	if r.Lost > 0 {
		t.Errorf("%d of %d pings lost", r.Lost, r.Sent)
	}
}
