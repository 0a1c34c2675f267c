package discover

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/skein-project/skein/discover/source"
)

// zone is a Resolver of tests.
type zone struct {
	addresses map[string][]netip.Addr
	targets   map[string][]Target
	ttl       time.Duration
	delay     time.Duration
	err       error

	mu        sync.Mutex
	asked     int
	now, most atomic.Int64 // questions at once
}

func (z *zone) begin(ctx context.Context) error {
	z.mu.Lock()
	z.asked++
	err := z.err
	z.mu.Unlock()
	z.most.Store(max(z.most.Load(), z.now.Add(1)))
	defer z.now.Add(-1)
	select {
	case <-time.After(z.delay):
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (z *zone) Addresses(ctx context.Context, name string) ([]netip.Addr, time.Duration, error) {
	if err := z.begin(ctx); err != nil {
		return nil, 0, err
	}
	list, ok := z.addresses[name]
	if !ok {
		return nil, 0, ErrNone
	}
	return list, z.ttl, nil
}

func (z *zone) Targets(ctx context.Context, name string) ([]Target, time.Duration, error) {
	if err := z.begin(ctx); err != nil {
		return nil, 0, err
	}
	return z.targets[name], z.ttl, nil
}

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

func finder(t *testing.T, z *zone, sources ...string) *Finder {
	t.Helper()
	o := Options{Resolver: z, Rand: func() float64 { return 0 }, Own: func(at netip.AddrPort) bool { return at == netip.MustParseAddrPort("192.0.2.9:51820") }}
	for _, s := range sources {
		one, err := source.Parse(s)
		if err != nil {
			t.Fatal(err)
		}
		o.Sources = append(o.Sources, one)
	}
	return New(o)
}

// TestSources has what each kind of source finds, and what of it is left out.
func TestSources(t *testing.T) {
	dir := t.TempDir()
	file, fifo := filepath.Join(dir, "hosts"), filepath.Join(dir, "fifo")
	if err := errors.Join(os.WriteFile(file, []byte("# hosts\n192.0.2.7\n192.0.2.7:7 # again\nfoo\n[2001:db8::7]:9\n2001:db8::8\n\x00\xff\n192.0.2.9\n"), 0o600), unix.Mkfifo(fifo, 0o600)); err != nil {
		t.Fatal(err)
	}
	z := &zone{
		addresses: map[string][]netip.Addr{
			"mesh.example": {addr("192.0.2.1"), addr("::ffff:192.0.2.1"), addr("192.0.2.9"), addr("0.0.0.0"), addr("224.0.0.1"), addr("fe80::1"), {}, addr("2001:db8::1")},
			"n1.example.":  {addr("192.0.2.11")}, "n2.example.": {addr("192.0.2.12")},
		},
		targets: map[string][]Target{"_skein._udp.mesh.example": {{"n1.example.", 5000}, {".", 5000}, {"n2.example.", 0}, {"gone.example.", 5000}, {"n2.example.", 6000}}},
	}
	f := finder(t, z, "dns:mesh.example", "dns:mesh.example:7", "srv:_skein._udp.mesh.example", "file:"+file, "file:"+fifo, "file:"+dir+"/none", "dns:none.example")
	got := fmt.Sprint(f.Find(t.Context()))
	want := "[192.0.2.1:51820 [2001:db8::1]:51820 192.0.2.1:7 192.0.2.9:7 [2001:db8::1]:7 192.0.2.11:5000 192.0.2.12:6000 192.0.2.7:51820 192.0.2.7:7 [2001:db8::7]:9 [2001:db8::8]:51820]"
	if got != want {
		t.Errorf("found %s\nwant  %s", got, want)
	}
}

// TestHostile: of 10,000 records the first 64 count, own addresses do not, and no more than 10
// questions run at once.
func TestHostile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := &zone{addresses: make(map[string][]netip.Addr), targets: make(map[string][]Target), delay: 10 * time.Millisecond}
		for i := range 10_000 {
			a := netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)})
			z.addresses["many.example"] = append(z.addresses["many.example"], addr("192.0.2.9"), a)
			name := fmt.Sprintf("h%d.example.", i)
			z.addresses[name] = []netip.Addr{a}
			z.targets["_skein._udp.many.example"] = append(z.targets["_skein._udp.many.example"], Target{name, 9})
		}
		f := finder(t, z, "dns:many.example", "srv:_skein._udp.many.example")
		list := f.Find(t.Context())
		if len(list) != 2*source.MaxEndpoints || list[0].String() != "10.1.0.0:51820" || list[63].String() != "10.1.0.63:51820" || list[64].String() != "10.1.0.0:9" {
			t.Errorf("%d endpoints, %v", len(list), list)
		}
		if z.asked != 2+64 || z.most.Load() > askWidth || z.most.Load() < 2 {
			t.Errorf("%d questions, %d at once", z.asked, z.most.Load())
		}
		slow := finder(t, &zone{delay: time.Hour}, "dns:slow.example", "srv:_skein._udp.slow.example")
		began := time.Now()
		if list := slow.Find(t.Context()); len(list) != 0 || time.Since(began) != askTime {
			t.Errorf("%v after %s", list, time.Since(began))
		}
	})
}

// TestRun: nothing is asked while nobody wants to know; then as often as answers allow.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := &zone{addresses: map[string][]netip.Addr{"a.example": {addr("192.0.2.1")}}, ttl: time.Second}
		var changed atomic.Int32
		f := finder(t, z, "dns:a.example")
		f.o.Changed = func() { changed.Add(1) }
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- f.Run(ctx) }()
		asked := func(after time.Duration) int {
			time.Sleep(after)
			synctest.Wait()
			z.mu.Lock()
			defer z.mu.Unlock()
			n := z.asked
			z.asked = 0
			return n
		}
		if n := asked(time.Hour); n != 0 {
			t.Errorf("%d questions while nobody wants to know", n)
		}
		f.Want(true)
		if n := asked(time.Minute + time.Second); n != 13 || changed.Load() != 1 || !slices.Equal(f.Found(), []netip.AddrPort{netip.MustParseAddrPort("192.0.2.1:51820")}) {
			t.Errorf("%d questions in a minute, %d changes, %v", n, changed.Load(), f.Found())
		}
		z.mu.Lock()
		z.err = errors.New("server failure")
		z.mu.Unlock()
		if n := asked(time.Minute); n < 8 || n > 16 || len(f.Found()) != 1 {
			t.Errorf("%d questions in a minute of failures, %v", n, f.Found())
		}
		f.Want(false)
		asked(time.Minute)
		if n := asked(time.Hour); n != 0 {
			t.Errorf("%d questions after that", n)
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}
