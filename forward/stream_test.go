package forward

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
)

// pair is two hosts; n1 holds the lease as long as holding says so.
type pair struct {
	holder, other *Router
	holding       atomic.Bool
	served        sync.WaitGroup
}

func newPair(t *testing.T, fn func(ctx context.Context, send func(api.Job) error) error) *pair {
	t.Helper()
	p := &pair{}
	p.holding.Store(true)
	lease := func(self cluster.NodeID) func() Lease {
		return func() Lease {
			if !p.holding.Load() {
				return Lease{}
			}
			return Lease{Holder: "n1", Holding: self == "n1"}
		}
	}
	var err error
	if p.holder, err = New(Options{Self: "n1", Lease: lease("n1")}); err != nil {
		t.Fatal(err)
	}
	HandleStream(p.holder, FollowJob, func(ctx context.Context, _ Asker, _ JobName, send func(api.Job) error) error {
		return fn(ctx, send)
	})
	if p.other, err = New(Options{Self: "n2", Lease: lease("n2"), Dial: func(context.Context, cluster.NodeID) (net.Conn, error) {
		return p.dial(), nil
	}}); err != nil {
		t.Fatal(err)
	}
	return p
}

// dial opens a stream of n2 to the holder.
func (p *pair) dial() net.Conn {
	near, far := net.Pipe()
	p.served.Go(func() {
		p.holder.Serve(context.Background(), "n2", far)
		far.Close()
	})
	return near
}

func (p *pair) follow(ctx context.Context, f func(api.Job) error) error {
	return FollowHolder(ctx, p.other, FollowJob, "", JobName{Job: "j"}, f)
}

// idle sends nothing until it is told to stop, and says when.
func idle(stopped chan<- error) func(context.Context, func(api.Job) error) error {
	return func(ctx context.Context, _ func(api.Job) error) error {
		<-ctx.Done()
		stopped <- context.Cause(ctx)
		return ctx.Err()
	}
}

// TestStream carries frames in order, over pauses longer than any deadline.
func TestStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, func(_ context.Context, send func(api.Job) error) error {
			for i := range 5 {
				if err := send(api.Job{Attempts: api.AttemptCounts{Assigned: uint64(i)}}); err != nil {
					return err
				}
				time.Sleep(time.Minute)
			}
			return nil
		})
		n := uint64(0)
		if err := p.follow(t.Context(), func(j api.Job) error {
			if j.Attempts.Assigned != n {
				t.Errorf("frame %d is %d", n, j.Attempts.Assigned)
			}
			n++
			return nil
		}); err != nil || n != 5 {
			t.Errorf("%d frames, then %v", n, err)
		}
		p.served.Wait()
		if p.holder.open.total != 0 || len(p.holder.open.count) != 0 {
			t.Errorf("still counted: %+v", &p.holder.open)
		}
	})
}

// TestStreamEndsInWords: what the handler says reaches the asker.
func TestStreamEndsInWords(t *testing.T) {
	p := newPair(t, func(_ context.Context, send func(api.Job) error) error {
		if err := send(api.Job{}); err != nil {
			return err
		}
		return api.Errorf(api.CodeNotFound, "no job j")
	})
	if err := p.follow(t.Context(), func(api.Job) error { return nil }); !api.IsCode(err, api.CodeNotFound) {
		t.Error(err)
	}
	stop := errors.New("enough")
	if err := p.follow(t.Context(), func(api.Job) error { return stop }); !errors.Is(err, stop) {
		t.Error(err)
	}
	// The same without a network.
	if err := FollowHolder(t.Context(), p.holder, FollowJob, "", JobName{}, func(api.Job) error { return nil }); !api.IsCode(err, api.CodeNotFound) {
		t.Error(err)
	}
	if err := FollowHolder(t.Context(), p.holder, FollowJob, "", JobName{}, func(api.Job) error { return stop }); !errors.Is(err, stop) {
		t.Error(err)
	}
	p.served.Wait()
}

// TestStreamCancelled: an asker that goes away in the middle ends the handler
// at once.
func TestStreamCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stopped := make(chan error, 1)
		p := newPair(t, idle(stopped))
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		began := time.Now()
		err := p.follow(ctx, func(api.Job) error { return nil })
		if err == nil || time.Since(began) != time.Hour {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		if cause := <-stopped; !errors.Is(cause, errGone) || time.Since(began) != time.Hour {
			t.Errorf("the handler stopped for %v after %s", cause, time.Since(began))
		}
		p.served.Wait()
	})
}

// TestStreamOfALostLease: a holder that is none any more stops sending, and its
// asker stops waiting.
func TestStreamOfALostLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stopped := make(chan error, 1)
		p := newPair(t, idle(stopped))
		began := time.Now()
		time.AfterFunc(time.Minute, func() { p.holding.Store(false) })
		err := p.follow(t.Context(), func(api.Job) error { return nil })
		if err == nil || !strings.Contains(err.Error(), "no longer holds the lease") || time.Since(began) > time.Minute+time.Second {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		<-stopped //nolint:errcheck // only that it ended matters
		p.served.Wait()
		if err := p.follow(t.Context(), nil); !api.IsCode(err, api.CodeNoHolder) {
			t.Error(err)
		}
	})
}

// TestSlowReader: a reader that does not read holds the writer up, and is cut
// when that takes too long; the reason is counted.
func TestSlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sent atomic.Int64
		p := newPair(t, func(_ context.Context, send func(api.Job) error) error {
			for {
				if err := send(api.Job{}); err != nil {
					return err
				}
				sent.Add(1)
			}
		})
		began := time.Now()
		n := 0
		err := p.follow(t.Context(), func(api.Job) error {
			if n++; n == 3 {
				if n := sent.Load(); n > 4 {
					t.Errorf("%d frames sent to who has read 3", n)
				}
				time.Sleep(stall - time.Second) // not yet too slow
			}
			if n == 5 {
				time.Sleep(time.Hour)
			}
			return nil
		})
		if err == nil || n != 5 {
			t.Errorf("%d frames, then %v", n, err)
		}
		p.served.Wait()
		if got := counted(t, p.holder, cutSlow); got != 1 {
			t.Errorf("%v streams cut for slowness after %s", got, time.Since(began))
		}
	})
}

// raw asks for a stream by hand.
func (p *pair) raw(t *testing.T) net.Conn {
	t.Helper()
	conn := p.dial()
	if _, err := conn.Write([]byte(`{"actor":"x","follow_job":{"job":"j"}}` + "\n")); err != nil {
		t.Fatal(err)
	}
	return conn
}

// TestHostileAskers: who sends nothing, too much or nonsense is cut, and told
// why if it reads.
func TestHostileAskers(t *testing.T) {
	for name, hostile := range map[string]struct {
		reason string
		do     func(net.Conn)
	}{
		"silent":   {cutSilent, func(net.Conn) {}},
		"nonsense": {cutProtocol, func(c net.Conn) { _, _ = c.Write([]byte(`{"frame":{}}` + "\n")) }},
		"flood": {cutProtocol, func(c net.Conn) {
			for {
				if _, err := c.Write([]byte("\n\n\n\n")); err != nil {
					return
				}
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				stopped := make(chan error, 1)
				p := newPair(t, idle(stopped))
				conn := p.raw(t)
				defer conn.Close()
				go hostile.do(conn)
				lines := bufio.NewScanner(conn)
				last := ""
				for lines.Scan() {
					if lines.Text() != "" {
						last = lines.Text()
					}
				}
				if !strings.Contains(last, `{"problem":`) || !strings.Contains(last, "n2 was cut") {
					t.Errorf("told %q", last)
				}
				<-stopped //nolint:errcheck // only that it ended matters
				p.served.Wait()
				if counted(t, p.holder, hostile.reason) != 1 {
					t.Error("not counted")
				}
			})
		})
	}
}

// TestManyStreams bounds how many streams one member has open.
func TestManyStreams(t *testing.T) {
	stopped := make(chan error, 2*maxPeerStreams)
	p := newPair(t, idle(stopped))
	var conns []net.Conn
	for range maxPeerStreams {
		conns = append(conns, p.raw(t))
	}
	deadline := time.Now().Add(10 * time.Second)
	for open := 0; open < maxPeerStreams; {
		p.holder.open.mu.Lock()
		open = p.holder.open.total
		p.holder.open.mu.Unlock()
		if time.Now().After(deadline) {
			t.Fatalf("%d open", open)
		}
	}
	if err := p.follow(t.Context(), nil); !api.IsCode(err, api.CodeOverloaded) {
		t.Errorf("one more: %v", err)
	}
	for _, c := range conns {
		c.Close()
		<-stopped //nolint:errcheck // only that it ended matters
	}
	p.served.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.follow(ctx, nil); err == nil || api.IsCode(err, api.CodeOverloaded) {
		t.Errorf("after all have gone: %v", err)
	}
	p.served.Wait()
	if !p.holder.open.enter("n3") {
		t.Error("another member is refused")
	}
}

// TestHostileAnswers: whatever a host sends in place of frames, the asker ends
// with an error in words, soon, and without keeping more than a frame.
func TestHostileAnswers(t *testing.T) {
	for name, answer := range map[string]struct {
		send func(net.Conn)
		want string
	}{
		"nothing":   {func(net.Conn) { time.Sleep(time.Hour) }, "too long"},
		"end":       {func(c net.Conn) { c.Close() }, "in the middle"},
		"half":      {func(c net.Conn) { fmt.Fprint(c, `{"frame":{"id"`); c.Close() }, "in the middle"},
		"no object": {func(c net.Conn) { fmt.Fprintln(c, `7`) }, "protocol"},
		"no job":    {func(c net.Conn) { fmt.Fprintln(c, `{"frame":[]}`) }, "cannot unmarshal"},
		"huge": {func(c net.Conn) {
			for s := strings.Repeat("x", 1<<16); ; {
				if _, err := fmt.Fprint(c, s); err != nil {
					return
				}
			}
		}, "more than 1048576 bytes"},
		"trickle": {func(c net.Conn) {
			for {
				if _, err := fmt.Fprint(c, " "); err != nil {
					return
				}
				time.Sleep(time.Second)
			}
		}, "too long"},
		"old": {func(c net.Conn) { legacyHost(c, true, nil) }, "does not know"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var served sync.WaitGroup
				r, err := New(Options{Self: "n2", Lease: func() Lease { return Lease{Holder: "n1"} }, Dial: func(context.Context, cluster.NodeID) (net.Conn, error) {
					near, far := net.Pipe()
					served.Go(func() {
						defer far.Close()
						if name != "old" {
							if _, err := bufio.NewReader(far).ReadString('\n'); err != nil {
								t.Error(err)
							}
						}
						answer.send(far)
					})
					return near, nil
				}})
				if err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				err = FollowHolder(t.Context(), r, FollowJob, "", JobName{}, func(api.Job) error { return nil })
				if err == nil || !strings.Contains(err.Error(), answer.want) {
					t.Errorf("%v, want %q", err, answer.want)
				}
				if gone := time.Since(began); gone > silence {
					t.Errorf("after %s", gone)
				}
				served.Wait()
			})
		})
	}
}

// TestHugeFrame: a handler whose answer fits no frame says so.
func TestHugeFrame(t *testing.T) {
	p := newPair(t, func(_ context.Context, send func(api.Job) error) error {
		return send(api.Job{Name: strings.Repeat("x", MaxFrame)})
	})
	if err := p.follow(t.Context(), nil); !api.IsCode(err, api.CodeTooLarge) {
		t.Error(err)
	}
	p.served.Wait()
}
