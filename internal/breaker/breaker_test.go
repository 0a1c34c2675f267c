package breaker

import (
	"cmp"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// TestOpensAndCloses follows one breaker: 5 failures in a row open it, its pauses double up to
// a minute, a failed try opens it again and 3 successes close it.
func TestOpensAndCloses(t *testing.T) {
	var b breaker
	now := time.Hour
	fails := func(n int) {
		for range n {
			if ok, _ := b.allow(1, now); !ok {
				t.Fatal("not let in")
			}
			b.record(true, 1, 0.5, now)
		}
	}
	fails(4)
	b.record(false, 1, 0.5, now)
	now += time.Hour // those count no more
	fails(4)
	if b.state != Closed {
		t.Fatal("open after 4 in a row")
	}
	fails(1)
	for _, pause := range []time.Duration{10, 20, 40, 60, 60} {
		pause *= time.Second
		if ok, wait := b.allow(1, now+pause-1); ok || wait != 1 {
			t.Fatalf("let in %s before the end of %s", wait, pause)
		}
		now += pause
		fails(1)
		if b.state != Open {
			t.Fatalf("state %d after a try that failed", b.state)
		}
	}
	now += time.Minute
	for range 3 {
		if ok, _ := b.allow(1, now); !ok {
			t.Fatal("not tried")
		}
	}
	if ok, wait := b.allow(1, now); ok || wait != busyPause {
		t.Error("a fourth try at once")
	}
	b.pass() // one says nothing
	if ok, _ := b.allow(1, now); !ok {
		t.Error("the place of one that said nothing is lost")
	}
	for i := range 3 {
		if b.state != HalfOpen {
			t.Fatalf("state %d after %d successes", b.state, i)
		}
		b.record(false, 1, 0.5, now)
	}
	if b.state != Closed {
		t.Fatalf("state %d after 3 successes", b.state)
	}
	fails(5)
	if b.until != now+firstPause {
		t.Errorf("the first pause after it was closed is %s", b.until-now)
	}
}

// TestHalfOfTen: half of the last 10 within 30 s open it, never mind the order; older ones do
// not.
func TestHalfOfTen(t *testing.T) {
	for _, c := range []struct {
		every time.Duration
		want  State
	}{{3 * time.Second, Open}, {4 * time.Second, Closed}} {
		var b breaker
		now := time.Hour
		for i := range 10 {
			now += c.every
			b.record(i%2 == 0, 1, 0, now)
		}
		b.record(true, 1, 0, now)
		if b.state != c.want {
			t.Errorf("every %s: state %d, want %d", c.every, b.state, c.want)
		}
	}
}

// TestJitterAndLife: pauses differ by a fifth; a host that started anew is tried at once, and
// so is one that answered what had to be asked.
func TestJitterAndLife(t *testing.T) {
	for range 1000 {
		var b breaker
		j := rand.Float64()
		b.open(1, j, 0)
		if b.until < 8*time.Second || b.until > 12*time.Second {
			t.Fatalf("a pause of %s", b.until)
		}
		if ok, _ := b.allow(1, time.Second); ok {
			t.Fatal("let in")
		}
		answered := b
		if ok, _ := b.allow(2, time.Second); !ok || b.state != HalfOpen {
			t.Fatal("a host that started anew is not tried")
		}
		b.record(true, 2, 0.5, time.Second)
		if b.state != Open || b.until != 21*time.Second {
			t.Fatalf("state %d until %s", b.state, b.until)
		}
		answered.record(false, 1, j, time.Second)
		if ok, _ := answered.allow(1, time.Second); !ok {
			t.Fatal("a host that answered is not tried")
		}
	}
}

// TestVerdicts has what each end of a stream says of the host.
func TestVerdicts(t *testing.T) {
	local := errors.New("too many streams")
	for what, c := range map[string]struct {
		kind string // none: blob
		dial func(ctx context.Context) (net.Conn, error)
		use  func(c net.Conn)
		want State
	}{
		"refused port": {dial: func(context.Context) (net.Conn, error) { return nil, syscall.ECONNREFUSED }, want: Open},
		"no route in time": {dial: func(context.Context) (net.Conn, error) {
			time.Sleep(2 * time.Second)
			return nil, context.DeadlineExceeded
		}, want: Open},
		"an impatient dial": {dial: func(context.Context) (net.Conn, error) { return nil, context.DeadlineExceeded }},
		"the caller left":   {dial: func(context.Context) (net.Conn, error) { return nil, context.Canceled }},
		"a bound of ours":   {dial: func(context.Context) (net.Conn, error) { return nil, local }},
		"closed by a guard": {dial: func(context.Context) (net.Conn, error) { return nil, io.EOF }},
		"silence": {use: func(c net.Conn) {
			_ = c.SetReadDeadline(time.Now().Add(15 * time.Second))
			if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
				panic(err)
			}
			_ = c.Close()
		}, want: Open},
		"an impatient reader": {use: func(c net.Conn) {
			_ = c.SetReadDeadline(time.Now().Add(time.Second))
			_, _ = c.Read(make([]byte, 1))
			_ = c.Close()
		}},
		"a reader of logs": {kind: Log, use: func(c net.Conn) {
			_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
			_, _ = c.Read(make([]byte, 1))
			_ = c.Close()
		}, want: Open},
		"given up": {use: func(c net.Conn) { _ = c.Close() }},
	} {
		synctest.Test(t, func(t *testing.T) {
			s, now := testSet(local)
			for i := range 20 {
				conn, err := s.Dial(t.Context(), "n2", cmp.Or(c.kind, Blob), func() (net.Conn, error) {
					if c.dial != nil {
						return c.dial(t.Context())
					}
					here, there := net.Pipe()
					t.Cleanup(func() { _ = there.Close() })
					return here, nil
				})
				var open *OpenError
				switch {
				case errors.As(err, &open):
					if c.want != Open || i != 5 || open.Wait <= 0 || open.Peer != "n2" {
						t.Fatalf("%s: stream %d: %v", what, i, err)
					}
					return
				case err == nil:
					c.use(conn)
				}
			}
			if c.want == Open || len(s.Count()) > 0 {
				t.Errorf("%s: not open after %s: %v", what, now(), s.Count())
			}
		})
	}
}

// TestSet: each host and kind has a breaker of its own, what must be tried is, and an answer
// opens the way for others.
func TestSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := testSet(nil)
		var changes []State
		s.o.Changed = func(k Key, st State) {
			if k != (Key{"n2", "watch"}) {
				t.Errorf("%+v changed", k)
			}
			changes = append(changes, st)
		}
		dead := func() (net.Conn, error) { return nil, syscall.ECONNREFUSED }
		alive := func() (net.Conn, error) {
			here, there := net.Pipe()
			go func() { _, _ = there.Write([]byte("x")); _ = there.Close() }()
			return here, nil
		}
		watch := Asking(t.Context(), "watch", false)
		for range 5 {
			_, _ = s.Dial(watch, "n2", "api", dead)
		}
		if s.Count()["watch"] != 1 {
			t.Fatalf("%v are open", s.Count())
		}
		dials := func(ctx context.Context, peer string) bool {
			c, err := s.Dial(ctx, peer, "api", alive)
			if err != nil {
				return false
			}
			_, _ = c.Read(make([]byte, 1))
			return c.Close() == nil
		}
		if dials(watch, "n2") || !dials(t.Context(), "n2") || !dials(watch, "n3") {
			t.Error("a breaker is that of others")
		}
		if !dials(Asking(t.Context(), "watch", true), "n2") || !dials(watch, "n2") || !dials(watch, "n2") || len(s.Count()) > 0 {
			t.Errorf("after answers: %v", s.Count())
		}
		if len(changes) != 3 || changes[0] != Open || changes[1] != HalfOpen || changes[2] != Closed {
			t.Errorf("changes %v", changes)
		}
	})
}

func testSet(local error) (*Set, func() time.Duration) {
	began := time.Now()
	now := func() time.Duration { return time.Since(began) }
	return NewSet(Options{
		Now: now, Life: func(string) uint64 { return 1 }, Jitter: func() float64 { return 0.5 },
		Local: func(err error) bool { return local != nil && errors.Is(err, local) }, Changed: func(Key, State) {},
	}), now
}
