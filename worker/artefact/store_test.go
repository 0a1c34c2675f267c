package artefact

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/skein-project/skein/cluster"
)

func newStore(t *testing.T, change func(*Options)) *Store {
	t.Helper()
	o := Options{Dir: t.TempDir()}
	if change != nil {
		change(&o)
	}
	a, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func put(t *testing.T, a *Store, s string) cluster.Hash {
	t.Helper()
	h, err := a.Put(strings.NewReader(s), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestPutAndRead(t *testing.T) {
	a := newStore(t, nil)
	h := put(t, a, "hello")
	if again := put(t, a, "hello"); again != h {
		t.Fatalf("%s and %s for the same bytes", h, again)
	}
	if used, _ := a.Used(); used != 5 {
		t.Errorf("%d bytes used, want 5", used)
	}
	reopened := newStore(t, func(o *Options) { o.Dir = a.opts.Dir })
	b, err := reopened.Read(h, 100)
	if err != nil || string(b) != "hello" {
		t.Fatalf("%q, %v", b, err)
	}
	if used, _ := reopened.Used(); used != 5 {
		t.Errorf("%d bytes used after opening again, want 5", used)
	}
	if _, err := a.Read(h, 4); !errors.Is(err, ErrTooLarge) {
		t.Errorf("read beyond the limit: %v", err)
	}
	if _, err := a.Read(cluster.Hash{9}, 4); !errors.Is(err, ErrNotFound) {
		t.Errorf("read of nothing: %v", err)
	}
}

func TestPutRefuses(t *testing.T) {
	a := newStore(t, func(o *Options) { o.Quota = 10 })
	if _, err := a.Put(strings.NewReader("123456"), 5); !errors.Is(err, ErrTooLarge) {
		t.Errorf("over the limit: %v", err)
	}
	var quota *QuotaError
	if _, err := a.Put(strings.NewReader("12345678901"), 100); !errors.As(err, &quota) {
		t.Errorf("over the quota: %v", err)
	}
	broken := errors.New("broken")
	if _, err := a.Put(iotest.ErrReader(broken), 100); !errors.Is(err, broken) {
		t.Errorf("reader's error: %v", err)
	}
	if used, _ := a.Used(); used != 0 {
		t.Errorf("%d bytes counted, want 0", used)
	}
	if left, _ := os.ReadDir(a.opts.Dir); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestCrashLeavesNoHalfFile(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, tempPrefix+"1"), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	a := newStore(t, func(o *Options) { o.Dir = dir })
	if left, _ := os.ReadDir(a.opts.Dir); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestCollect(t *testing.T) {
	a := newStore(t, nil)
	keep, drop := put(t, a, "keep"), put(t, a, "drop")
	wanted := func(h cluster.Hash) bool { return h == keep }
	if freed, err := a.Collect(wanted, time.Hour); err != nil || freed != 0 {
		t.Fatalf("freed %d young bytes, %v", freed, err)
	}
	if freed, err := a.Collect(wanted, 0); err != nil || freed != 4 {
		t.Fatalf("freed %d, %v; want 4", freed, err)
	}
	if _, ok := a.Has(drop); ok {
		t.Error("not dropped")
	}
	if _, ok := a.Has(keep); !ok {
		t.Error("not kept")
	}
}

// mesh makes n stores that reach each other; names are a, b, c ...
func mesh(t *testing.T, n int) (map[cluster.NodeID]*Store, pipeNet) {
	t.Helper()
	nodes := pipeNet{}
	stores := map[cluster.NodeID]*Store{}
	var names []cluster.NodeID
	for i := range n {
		names = append(names, cluster.NodeID(rune('a'+i)))
	}
	for _, name := range names {
		stores[name] = newStore(t, func(o *Options) {
			o.Dial = nodes.dialer(name)
			o.Peers = func() []cluster.NodeID {
				return slices.DeleteFunc(slices.Clone(names), func(p cluster.NodeID) bool { return p == name })
			}
			o.Registerer = prometheus.NewRegistry()
		})
		nodes[name] = stores[name].Serve
	}
	return stores, nodes
}

func TestFetchFromWhoeverHasIt(t *testing.T) {
	stores, nodes := mesh(t, 3)
	big := strings.Repeat("0123456789abcdef", 64<<10) // 1 MiB
	h := put(t, stores["c"], big)
	if err := stores["a"].Fetch(t.Context(), h, nil); err != nil {
		t.Fatal(err)
	}
	if b, err := stores["a"].Read(h, 2<<20); err != nil || string(b) != big {
		t.Fatalf("%d bytes, %v", len(b), err)
	}
	delete(nodes, "c") // down
	if err := stores["b"].Fetch(t.Context(), h, []cluster.NodeID{"c", "a"}); err != nil {
		t.Fatalf("from the second: %v", err)
	}
	if err := stores["b"].Fetch(t.Context(), cluster.Hash{7}, nil); !errors.Is(err, ErrNotFound) {
		t.Fatalf("fetch of what nobody has: %v", err)
	}
}

func TestFetchesShareOneTransfer(t *testing.T) {
	stores, nodes := mesh(t, 2)
	h := put(t, stores["b"], "shared")
	var served atomic.Int32
	hold := make(chan struct{})
	nodes["b"] = func(ctx context.Context, from cluster.NodeID, conn net.Conn) {
		served.Add(1)
		<-hold
		stores["b"].Serve(ctx, from, conn)
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if err := stores["a"].Fetch(t.Context(), h, nil); err != nil {
				t.Error(err)
			}
		})
	}
	eventually(t, "the transfer", func() bool { return served.Load() == 1 })
	close(hold)
	all.Wait()
	if n := served.Load(); n != 1 {
		t.Errorf("%d transfers, want 1", n)
	}
}

func TestWaiterOutlivesTheFirstFetch(t *testing.T) {
	stores, nodes := mesh(t, 2)
	h := put(t, stores["b"], "shared")
	var served atomic.Int32
	hold := make(chan struct{})
	nodes["b"] = func(ctx context.Context, from cluster.NodeID, conn net.Conn) {
		if served.Add(1) == 1 {
			<-hold // the first caller gives up meanwhile
			conn.Close()
			return
		}
		stores["b"].Serve(ctx, from, conn)
	}
	ctx, cancel := context.WithCancel(t.Context())
	first := make(chan error, 1)
	go func() { first <- stores["a"].Fetch(ctx, h, nil) }()
	eventually(t, "the first transfer", func() bool { return served.Load() == 1 })
	second := make(chan error, 1)
	go func() { second <- stores["a"].Fetch(t.Context(), h, nil) }()
	cancel()
	close(hold)
	if err := <-first; err == nil {
		t.Error("a cancelled fetch succeeded")
	}
	if err := <-second; err != nil {
		t.Errorf("waiter: %v", err)
	}
}

func TestLyingHosts(t *testing.T) {
	for name, lie := range map[string]func(conn net.Conn){
		"other bytes": func(c net.Conn) { _ = writeBlobFrame(c, blobReply{Size: 5}); _, _ = c.Write([]byte("wrong")) },
		"cut off":     func(c net.Conn) { _ = writeBlobFrame(c, blobReply{Size: 500}); _, _ = c.Write([]byte("righ")) },
		"huge":        func(c net.Conn) { _ = writeBlobFrame(c, blobReply{Size: 1 << 40}) },
		"negative":    func(c net.Conn) { _ = writeBlobFrame(c, blobReply{Size: -1}) },
		"garbage":     func(c net.Conn) { _, _ = c.Write([]byte("HTTP/1.1 200 OK\r\n\r\n")) },
		"nothing":     func(net.Conn) {},
	} {
		t.Run(name, func(t *testing.T) {
			stores, nodes := mesh(t, 3)
			h := put(t, stores["c"], "right")
			nodes["b"] = func(_ context.Context, _ cluster.NodeID, conn net.Conn) {
				defer conn.Close()
				var req blobRequest
				if readBlobFrame(conn, &req) == nil {
					lie(conn)
				}
			}
			if err := stores["a"].Fetch(t.Context(), h, nil); err != nil { // asks b first
				t.Fatal(err)
			}
			if err := stores["a"].Remove(h); err != nil {
				t.Fatal(err)
			}
			delete(nodes, "c")
			if err := stores["a"].Fetch(t.Context(), h, nil); err == nil {
				t.Fatal("the lie was stored")
			}
			if used, _ := stores["a"].Used(); used != 0 {
				t.Errorf("%d bytes counted, want 0", used)
			}
		})
	}
}

func TestSpread(t *testing.T) {
	stores, nodes := mesh(t, 4)
	h := put(t, stores["a"], "module")
	delete(nodes, "d")
	stores["c"].opts.Quota = 3
	ok := stores["a"].Spread(t.Context(), h, []cluster.NodeID{"b", "c", "d"})
	if !slices.Equal(ok, []cluster.NodeID{"b"}) {
		t.Fatalf("spread to %v, want b alone: c is full, d is down", ok)
	}
	delete(nodes, "a") // may die now
	stores["c"].opts.Quota = 100
	if err := stores["c"].Fetch(t.Context(), h, nil); err != nil {
		t.Fatal(err)
	}
}

// TestAsk: whether a host has something, which may be in the store beside, or be gone from
// its disk.
func TestAsk(t *testing.T) {
	stores, nodes := mesh(t, 3)
	ask := func(h cluster.Hash, of cluster.NodeID) Asked { return stores["a"].Ask(t.Context(), h, of) }
	h := put(t, stores["b"], "module")
	beside := newStore(t, nil)
	stores["b"].opts.Beside = beside
	output, gone := put(t, beside, "rows"), put(t, stores["b"], "gone")
	if err := os.Remove(stores["b"].Path(gone)); err != nil {
		t.Fatal(err)
	}
	nodes["old"] = func(_ context.Context, _ cluster.NodeID, conn net.Conn) {
		defer conn.Close()
		var req blobRequest
		_ = readBlobFrame(conn, &req)
		_ = writeBlobFrame(conn, blobReply{Error: "invalid artefact frame: unknown operation"})
	}
	own := put(t, stores["a"], "own")
	for _, c := range []struct {
		h    cluster.Hash
		of   cluster.NodeID
		want Asked
	}{{h, "b", Present}, {output, "b", Present}, {gone, "b", Absent}, {h, "c", Absent}, {h, "old", Maybe}, {h, "down", Silent}, {own, "", Present}, {h, "", Absent}} {
		if got := ask(c.h, c.of); got != c.want {
			t.Errorf("%s at %q: %d, want %d", c.h, c.of, got, c.want)
		}
	}
}

func TestServeRefusesGarbage(t *testing.T) {
	a := newStore(t, nil)
	for name, in := range map[string][]byte{
		"length":    {0xff, 0xff, 0xff, 0xff},
		"not JSON":  {0, 0, 0, 2, 'h', 'i'},
		"operation": frameOf(t, blobRequest{Op: "delete"}),
		"absent":    frameOf(t, blobRequest{Op: opGet, Hash: cluster.Hash{1}}),
		"closed":    nil,
	} {
		near, far := net.Pipe()
		done := make(chan struct{})
		go func() { defer close(done); a.Serve(t.Context(), "x", far) }()
		go func() {
			defer near.Close()
			if in != nil {
				_, _ = near.Write(in)
				_, _ = near.Read(make([]byte, maxBlobFrame))
			}
		}()
		select {
		case <-done:
		case <-time.After(10 * time.Second):
			t.Fatalf("%s: still serving", name)
		}
	}
}

func frameOf(t *testing.T, v any) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := writeBlobFrame(&b, v); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func FuzzBlobFrame(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x0c{\"op\":\"get\"}"))
	f.Add([]byte("\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var req blobRequest
		if readBlobFrame(bytes.NewReader(b), &req) == nil && writeBlobFrame(&bytes.Buffer{}, req) != nil {
			t.Fatal("what was read cannot be written")
		}
	})
}

// pipeNet dials handlers by host name through net.Pipe.
type pipeNet map[cluster.NodeID]func(ctx context.Context, from cluster.NodeID, conn net.Conn)

func (p pipeNet) dialer(self cluster.NodeID) func(context.Context, cluster.NodeID) (net.Conn, error) {
	return func(_ context.Context, to cluster.NodeID) (net.Conn, error) {
		serve, ok := p[to]
		if !ok {
			return nil, fmt.Errorf("%s is down", to)
		}
		near, far := net.Pipe()
		go serve(context.Background(), self, far)
		return near, nil
	}
}

// eventually waits until ok.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("waited too long for %s", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// TestStream: a reader of another host's bytes never has all of them if they are others,
// and then finds those of an honest host.
func TestStream(t *testing.T) {
	text := strings.Repeat("right", 100_000)
	read := func(a *Store, h cluster.Hash) (string, error) {
		r, err := a.Stream(t.Context(), h, int64(len(text)), []cluster.NodeID{"b"})
		if err != nil {
			return "", err
		}
		defer r.Close()
		b, err := io.ReadAll(r)
		return string(b), err
	}
	for name, lie := range map[string]string{"other bytes": text[1:] + "x", "cut off": text[1:], "more": text + "x", "honest": text} {
		stores, nodes := mesh(t, 3)
		h := put(t, stores["c"], text)
		nodes["b"] = func(_ context.Context, _ cluster.NodeID, conn net.Conn) {
			defer conn.Close()
			var req blobRequest
			if readBlobFrame(conn, &req) == nil && writeBlobFrame(conn, blobReply{Size: int64(len(lie))}) == nil {
				_, _ = io.WriteString(conn, lie) // who does not want it hangs up
			}
		}
		b, err := read(stores["a"], h)
		if lied := name == "other bytes"; lied != errors.Is(err, ErrCorrupt) || lied && len(b) == len(text) || !lied && b != text {
			t.Errorf("%s: %d of %d bytes, %v", name, len(b), len(text), err)
		}
		if b, err := read(stores["a"], h); err != nil || b != text {
			t.Errorf("%s, again: %d bytes, %v", name, len(b), err)
		}
		if err := stores["a"].Fetch(t.Context(), h, []cluster.NodeID{"c"}); err != nil {
			t.Fatal(err)
		}
		// It decays on this disk.
		file := stores["a"].Path(h)
		if err := os.Chmod(file, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text[1:]+"x"), 0o600); err != nil {
			t.Fatal(err)
		}
		if b, err := read(stores["a"], h); !errors.Is(err, ErrCorrupt) || len(b) == len(text) {
			t.Errorf("%s, decayed: %d bytes, %v", name, len(b), err)
		}
		nodes["b"] = stores["b"].Serve
		if b, err := read(stores["a"], h); err != nil || b != text {
			t.Errorf("%s, after it decayed: %d bytes, %v", name, len(b), err)
		}
	}
}

// TestHeldBy: whoever wants to drop what it has made knows whether others have it.
func TestHeldBy(t *testing.T) {
	stores, nodes := mesh(t, 3)
	a, h := stores["a"], put(t, stores["a"], "made here")
	held := func(want bool, hosts ...cluster.NodeID) {
		t.Helper()
		if got := a.HeldBy(t.Context(), h, hosts); got != want {
			t.Errorf("held by %v: %v", hosts, got)
		}
	}
	held(false)
	held(false, "b")
	put(t, stores["b"], "made here")
	held(true, "b")
	held(false, "b", "c") // there are to be as many copies as are wanted
	put(t, stores["c"], "made here")
	held(true, "b", "c")
	delete(nodes, "c") // down
	held(false, "b", "c")
	if a.HeldBy(t.Context(), cluster.Hash{7}, []cluster.NodeID{"b"}) {
		t.Error("what nobody has is held")
	}
}

// TestFetchInTheOwnZone: an artefact crosses to a zone once. Whoever fetches it next there
// has it from the host that did.
func TestFetchInTheOwnZone(t *testing.T) {
	stores, nodes := mesh(t, 5)
	zone := []cluster.NodeID{"b", "c", "d", "e"} // a, which gives out the work, is elsewhere
	for _, n := range zone {
		stores[n].opts.Near = func() []cluster.NodeID {
			return slices.DeleteFunc(slices.Clone(zone), func(p cluster.NodeID) bool { return p == n })
		}
	}
	var mu sync.Mutex
	asked := map[cluster.NodeID]int{}
	for _, name := range []cluster.NodeID{"a", "b", "c", "d", "e"} {
		nodes[name] = func(ctx context.Context, from cluster.NodeID, conn net.Conn) {
			mu.Lock()
			asked[name]++
			mu.Unlock()
			stores[name].Serve(ctx, from, conn)
		}
	}
	for i := range 20 {
		h := put(t, stores["a"], fmt.Sprintf("module %d", i))
		for _, n := range zone {
			if err := stores[n].Fetch(t.Context(), h, []cluster.NodeID{"a"}); err != nil {
				t.Fatal(err)
			}
		}
	}
	mu.Lock()
	if asked["a"] != 20 {
		t.Errorf("the host elsewhere was asked %d times for 20 artefacts that four hosts fetch", asked["a"])
	}
	mu.Unlock()
	// What is read, and not kept, comes from there too.
	read := put(t, stores["a"], "read")
	if err := stores["b"].Fetch(t.Context(), read, nil); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	asked["a"] = 0
	mu.Unlock()
	r, err := stores["c"].Stream(t.Context(), read, 4, []cluster.NodeID{"a"})
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(r); err != nil || string(text) != "read" {
		t.Errorf("%q %v", text, err)
	}
	r.Close()
	if text, err := stores["d"].Get(t.Context(), read, 9); err != nil || string(text) != "read" {
		t.Errorf("%q %v", text, err)
	}
	mu.Lock()
	if asked["a"] != 0 {
		t.Errorf("the host elsewhere was asked %d times for what is near", asked["a"])
	}
	mu.Unlock()
	// Who is near and named is asked itself; one that is near and down is no obstacle.
	h := put(t, stores["b"], "near")
	if err := stores["c"].Fetch(t.Context(), h, []cluster.NodeID{"b"}); err != nil {
		t.Fatal(err)
	}
	delete(nodes, "b")
	delete(nodes, "c")
	delete(nodes, "e")
	far := put(t, stores["a"], "far")
	if r, err := stores["d"].Stream(t.Context(), far, 3, []cluster.NodeID{"a"}); err != nil {
		t.Error(err)
	} else {
		r.Close()
	}
	if err := stores["d"].Fetch(t.Context(), far, []cluster.NodeID{"a"}); err != nil {
		t.Fatal(err)
	}
}

// TestFarHost: a host that is far has as much more time to be reached, and for each step, as its
// messages take.
func TestFarHost(t *testing.T) {
	for rtt, want := range map[time.Duration][2]time.Duration{
		0: {5 * time.Second, 15 * time.Second}, 300 * time.Millisecond: {5900 * time.Millisecond, 15300 * time.Millisecond},
	} {
		a := newStore(t, func(o *Options) {
			o.RTT = func(n cluster.NodeID) time.Duration {
				if n != "far" {
					t.Errorf("asked of %s", n)
				}
				return rtt
			}
		})
		synctest.Test(t, func(t *testing.T) {
			for i, dial := range []func(context.Context, cluster.NodeID) (net.Conn, error){
				func(ctx context.Context, _ cluster.NodeID) (net.Conn, error) { <-ctx.Done(); return nil, ctx.Err() },
				func(context.Context, cluster.NodeID) (net.Conn, error) { // who takes what is said, and says nothing
					here, there := net.Pipe()
					go func() { _, _ = io.Copy(io.Discard, there) }()
					return here, nil
				},
			} {
				a.opts.Dial = dial
				began := time.Now()
				if said := a.Ask(t.Context(), cluster.Hash{1}, "far"); said != Silent || time.Since(began) != want[i] {
					t.Errorf("%s away, %d: %d after %s, want %s", rtt, i, said, time.Since(began), want[i])
				}
			}
			here, there := net.Pipe()
			began := time.Now()
			if a.Serve(t.Context(), "far", here); time.Since(began) != want[1] {
				t.Errorf("%s away: who asks nothing is cut after %s", rtt, time.Since(began))
			}
			there.Close()
		})
	}
}
