package mesh

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
)

// Devices are closed while TCP and UDP are in full flow, from both ends in
// turn. Nothing may panic, hang or stay behind.
func TestCloseUnderLoad(t *testing.T) {
	cycles := count(60, 1000)
	before := goroutines()
	for i := range cycles {
		closeUnderLoad(t, i%2 == 0)
	}
	eventually(t, "goroutines gone", func() bool { return runtime.NumGoroutine() <= before+2 })
	t.Logf("%d cycles, %d goroutines before, %d after", cycles, before, runtime.NumGoroutine())
}

func closeUnderLoad(t *testing.T, serverFirst bool) {
	a, b := newHost(t, 1, nil), newHost(t, 2, nil)
	run := func(h *host) (stop func()) {
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- h.Run(ctx) }()
		<-h.Ready()
		return func() {
			cancel()
			select {
			case err := <-ended:
				if err != nil {
					t.Error(err)
				}
			case <-time.After(waitFor):
				t.Error("did not stop")
			}
		}
	}
	stops := []func(){run(a), run(b)}
	members := []cluster.Member{a.member(a.loopback()), b.member(b.loopback())}
	b.mustSet(t, members)
	a.mustSet(t, members)

	var load sync.WaitGroup
	l, err := b.Listen(t.Context(), netip.AddrPortFrom(b.ip4, 9))
	if err != nil {
		t.Fatal(err)
	}
	load.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			load.Go(func() {
				defer c.Close()
				_, _ = io.Copy(io.Discard, c)
			})
		}
	})
	c, err := a.Dial(t.Context(), netip.AddrPortFrom(b.ip4, 9))
	if err != nil {
		t.Fatal(err)
	}
	flowing := make(chan struct{}, 3)
	write := func(f func() error) {
		load.Go(func() {
			for n := 0; ; n++ {
				if f() != nil {
					return
				}
				if n == 3 {
					flowing <- struct{}{}
				}
			}
		})
	}
	chunk := make([]byte, 32<<10)
	write(func() error { _, err := c.Write(chunk); return err })
	for _, h := range []*host{a, b} {
		to := b
		if h == b {
			to = a
		}
		pc, err := h.ListenPacket(t.Context(), netip.AddrPortFrom(h.ip4, 10))
		if err != nil {
			t.Fatal(err)
		}
		addr := udpAddr(to.ip4, 10)
		write(func() error { _, err := pc.WriteTo(chunk[:1000], addr); return err })
		load.Go(func() {
			buf := make([]byte, 2000)
			for {
				if _, _, err := pc.ReadFrom(buf); err != nil {
					return
				}
			}
		})
	}
	for range 3 {
		select {
		case <-flowing:
		case <-time.After(waitFor):
			t.Fatal("no load")
		}
	}
	if serverFirst {
		stops[0], stops[1] = stops[1], stops[0]
	}
	// Who lost its peer is closed next: first the ones that it waits for.
	_ = c.SetDeadline(time.Now())
	stops[0]()
	stops[1]()
	done := make(chan struct{})
	go func() { load.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(waitFor):
		t.Fatal("someone still waits on a closed mesh")
	}
}

// scaleEnv marks the process that TestManyHosts measures.
const scaleEnv = "SKEIN_MESH_SCALE"

// Many hosts of one process find each other, within the time and the memory
// that a test of a whole cluster may take.
func TestManyHosts(t *testing.T) { runChild(t, "TestScaleHosts", scaleEnv) }

func TestScaleHosts(t *testing.T) {
	if os.Getenv(scaleEnv) == "" {
		t.Skip("runs in a child process of TestManyHosts")
	}
	n := count(30, 100)
	if raceEnabled {
		n = min(n, 20)
	}
	// A busy machine lets packets pile up; the collector is to work for it.
	debug.SetMemoryLimit(900 << 20)
	var (
		hosts   []*host
		members []cluster.Member
	)
	for i := 1; i <= n; i++ {
		h := newHost(t, i, nil)
		h.start(t)
		hosts = append(hosts, h)
		members = append(members, h.member(h.loopback()))
	}
	begin := time.Now()
	for _, h := range hosts {
		h.mustSet(t, members)
	}
	set := time.Since(begin)
	for _, h := range hosts {
		for !h.reached(n - 1) {
			if time.Since(begin) > 3*time.Minute {
				t.Fatalf("%s does not reach all", h.node)
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	took, rss := time.Since(begin), peakMemory(t)
	t.Logf("%d devices, %d pairs: configured in %s, full mesh after %s, %d MB at most",
		n, n*(n-1)/2, set.Round(time.Millisecond), took.Round(time.Millisecond), rss>>20)
	if raceEnabled {
		return // which takes several times the time and the memory
	}
	if rss > 1<<30 {
		t.Errorf("%d MB, want 1 GB", rss>>20)
	}
	if took > 8*time.Second && !tooBusy(t) {
		t.Errorf("full mesh after %s, want 8 s", took)
	}
}

// tooBusy reports, and says, that figures of this machine mean nothing now. A
// proof judges them all the same: it is to be run where they do.
func tooBusy(t *testing.T) bool {
	t.Helper()
	text, err := os.ReadFile("/proc/loadavg")
	var load float64
	if err == nil {
		_, err = fmt.Sscan(string(text), &load)
	}
	if prove() || err != nil || load <= 2*float64(runtime.NumCPU()) {
		return false
	}
	t.Logf("load average %g: figures are not judged", load)
	return true
}

// peakMemory is the most that this process has had resident.
func peakMemory(t *testing.T) uint64 {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Logf("memory unknown: %v", err)
		return 0
	}
	for line := range strings.Lines(string(status)) {
		var kib uint64
		if n, _ := fmt.Sscanf(line, "VmHWM: %d kB", &kib); n == 1 {
			return kib << 10
		}
	}
	t.Fatal("no VmHWM in /proc/self/status")
	return 0
}

// A device without traffic costs little.
func TestIdleMemory(t *testing.T) {
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc + m.StackInuse
	}
	before, routines := heap(), goroutines()
	hosts := newCluster(t, 3, nil)
	for _, h := range hosts {
		eventually(t, "mesh", func() bool { return h.reached(2) })
	}
	per := (int64(heap()) - int64(before)) / int64(len(hosts))
	t.Logf("a device with 2 peers: %d KiB heap and stacks, %d goroutines", per>>10, (goroutines()-routines)/len(hosts))
	if per > 8<<20 {
		t.Errorf("a device costs %d bytes", per)
	}
}

// BenchmarkTCP sends through two devices over loopback.
func BenchmarkTCP(b *testing.B) {
	for _, mtu := range []int{1420, 8920} {
		b.Run("mtu "+itoa(mtu), func(b *testing.B) {
			hosts := newCluster(b, 2, func(o *Options) { o.MTU = mtu })
			from, to := hosts[0], hosts[1]
			l, err := to.Listen(b.Context(), netip.AddrPortFrom(to.ip4, 9))
			if err != nil {
				b.Fatal(err)
			}
			defer l.Close()
			got := make(chan int64, 1)
			go func() {
				c, err := l.Accept()
				if err != nil {
					return
				}
				defer c.Close()
				n, _ := io.Copy(io.Discard, c)
				got <- n
			}()
			c, err := from.Dial(b.Context(), netip.AddrPortFrom(to.ip4, 9))
			if err != nil {
				b.Fatal(err)
			}
			chunk := make([]byte, 256<<10)
			b.SetBytes(int64(len(chunk)))
			var sent int64
			for b.Loop() {
				n, err := c.Write(chunk)
				sent += int64(n)
				if err != nil {
					b.Fatal(err)
				}
			}
			c.Close()
			if n := <-got; n != sent {
				b.Errorf("%d of %d bytes arrived", n, sent)
			}
		})
	}
}

// BenchmarkUDPRoundTrip is one small datagram there and back.
func BenchmarkUDPRoundTrip(b *testing.B) {
	hosts := newCluster(b, 2, nil)
	hosts[1].serveEcho(b)
	pc, err := hosts[0].ListenPacket(b.Context(), netip.AddrPortFrom(hosts[0].ip4, 0))
	if err != nil {
		b.Fatal(err)
	}
	defer pc.Close()
	buf := make([]byte, 2000)
	to := udpAddr(hosts[1].ip4, 7)
	for b.Loop() {
		if _, err := pc.WriteTo(buf[:300], to); err != nil {
			b.Fatal(err)
		}
		if err := pc.SetReadDeadline(time.Now().Add(waitFor)); err != nil {
			b.Fatal(err)
		}
		if _, _, err := pc.ReadFrom(buf); err != nil {
			b.Fatal(err)
		}
	}
}
