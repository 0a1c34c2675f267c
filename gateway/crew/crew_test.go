package crew

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/gateway/desk"
	"github.com/skein-project/skein/scheduler/stream"
)

func id(i int) cluster.NodeID { return cluster.OutsideID([]byte{byte(i), byte(i >> 8)}) }

func attaching(i int) desk.Attach {
	return desk.Attach{Worker: id(i), Owner: fmt.Sprintf("visitor:%d", i), Slots: 1, Room: 2, Executors: []string{job.ExecutorWASM}}
}

func newCrew(t *testing.T, change func(*Options)) *Crew {
	t.Helper()
	o := Options{Now: func() time.Duration { return time.Hour }, Logger: zerolog.Nop()}
	if change != nil {
		change(&o)
	}
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// holder is the other end of a stream.
type holder struct {
	t    *testing.T
	conn net.Conn
	in   *stream.Decoder
	enc  stream.Encoder
	done chan struct{} // closed when the crew is done with it
}

func dial(t *testing.T, c *Crew, from cluster.NodeID, term cluster.Term) *holder {
	t.Helper()
	ours, theirs := net.Pipe()
	h := &holder{t: t, conn: ours, in: stream.NewCrewDecoder(ours), done: make(chan struct{})}
	go func() { defer close(h.done); c.Serve(t.Context(), from, theirs) }()
	h.say(stream.Frame{Hello: &stream.Hello{Term: term, Holder: from}})
	return h
}

func (h *holder) say(f stream.Frame) {
	h.t.Helper()
	b, err := h.enc.Append(nil, f)
	if err == nil {
		_, err = h.conn.Write(b)
	}
	if err != nil {
		h.t.Fatal(err)
	}
}

// hear returns the next frame that is not the host's own status.
func (h *holder) hear() stream.Frame {
	h.t.Helper()
	for {
		f, err := h.in.Read()
		if err != nil {
			h.t.Fatal(err)
		}
		if f.Status == nil || f.Worker != "" {
			return f
		}
	}
}

func (h *holder) welcomed() *holder {
	h.t.Helper()
	if f := h.hear(); f.Welcome == nil || !f.Welcome.Crew {
		h.t.Fatalf("%+v, want a welcome", f)
	}
	return h
}

func (h *holder) refused(term cluster.Term) {
	h.t.Helper()
	if f := h.hear(); f.Refused == nil || f.Refused.MaxTerm != term {
		h.t.Fatalf("%+v, want a refusal that names term %d", f, term)
	}
	h.ended()
}

func (h *holder) ended() {
	h.t.Helper()
	if f, err := h.in.Read(); err == nil {
		h.t.Fatalf("the stream goes on with %+v", f)
	}
	<-h.done
}

// TestFencing: the highest term is served, that the lease knows or a holder had, and of
// one term one host alone.
func TestFencing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		least, deny := cluster.Term(3), error(nil)
		c := newCrew(t, func(o *Options) {
			o.MinTerm = func() cluster.Term { mu.Lock(); defer mu.Unlock(); return least }
			o.CheckHolder = func(cluster.NodeID, cluster.Term) error { mu.Lock(); defer mu.Unlock(); return deny }
		})
		set := func(term cluster.Term, err error) { mu.Lock(); least, deny = term, err; mu.Unlock() }
		if _, _, err := c.Attach(attaching(1)); err != nil {
			t.Fatal(err)
		}
		dial(t, c, "a", 2).refused(3)
		set(3, errors.New("it has not got the lease"))
		dial(t, c, "a", 4).refused(3)
		set(3, nil)
		a := dial(t, c, "a", 4).welcomed()
		if f := a.hear(); f.Join == nil || f.Worker != id(1) {
			t.Fatalf("%+v", f)
		}
		dial(t, c, "b", 4).refused(4)
		dial(t, c, "a", 3).refused(4)
		again := dial(t, c, "a", 4).welcomed()
		a.refused(4)
		if f := again.hear(); f.Join == nil {
			t.Fatalf("%+v", f)
		}
		b := dial(t, c, "b", 5).welcomed()
		again.refused(5)
		b.hear() // the join
		b.say(stream.Frame{Worker: id(1), Query: &stream.Ping{Term: 4, Nonce: 1}})
		b.refused(5)
		b = dial(t, c, "b", 5).welcomed()
		b.hear()
		set(6, nil) // the lease has moved, and the holder does not know yet
		b.say(stream.Frame{Worker: id(1), Query: &stream.Ping{Term: 5, Nonce: 1}})
		b.refused(6)
		b = dial(t, c, "b", 7).welcomed()
		b.hear()
		b.say(stream.Frame{Worker: id(1), Part: &stream.Part{Session: 1}})
		b.refused(7)
		other := dial(t, c, "a", 8)
		other.welcomed()
		other.hear()
		if _, err := other.conn.Write([]byte{0, 0, 0, 2, '{', '}'}); err != nil {
			t.Fatal(err)
		}
		other.ended()
		lie := dial(t, c, "c", 9)
		lie.welcomed()
		lie.conn.Close()
		<-lie.done
		ours, theirs := net.Pipe()
		go c.Serve(t.Context(), "c", theirs)
		if err := stream.Write(ours, stream.Frame{Hello: &stream.Hello{Term: 9, Holder: "a"}}); err != nil {
			t.Fatal(err)
		}
		if f, err := stream.Read(ours); err != nil || f.Refused == nil {
			t.Errorf("who speaks for another: %+v, %v", f, err)
		}
	})
}

// TestConnections: a host has a few streams at once, and those that say nothing end.
func TestConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrew(t, nil)
		var open []net.Conn
		served := 0
		for range maxConnections + 3 {
			ours, theirs := net.Pipe()
			open = append(open, ours)
			go c.Serve(t.Context(), "a", theirs)
		}
		synctest.Wait()
		for _, conn := range open {
			_ = conn.SetReadDeadline(time.Now().Add(time.Millisecond))
			if _, err := conn.Read(make([]byte, 1)); errors.Is(err, context.DeadlineExceeded) || isTimeout(err) {
				served++
			}
		}
		if served != maxConnections {
			t.Errorf("%d streams are served, want %d", served, maxConnections)
		}
		time.Sleep(helloTimeout + time.Second)
		synctest.Wait()
		c.mu.Lock()
		defer c.mu.Unlock()
		if len(c.serving) != 0 {
			t.Errorf("%v are still there", c.serving)
		}
	})
}

func isTimeout(err error) bool {
	var n net.Error
	return errors.As(err, &n) && n.Timeout()
}

// TestSlowHolder: a holder that reads nothing loses its stream, and the next is told all.
func TestSlowHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrew(t, nil)
		s, _, err := c.Attach(attaching(1))
		if err != nil {
			t.Fatal(err)
		}
		h := dial(t, c, "a", 1).welcomed()
		h.hear()
		for range MaxWaiting + 2000 {
			if _, err := s.Beat(desk.Beat{Ready: true}); err != nil {
				t.Fatal(err)
			}
		}
		<-h.done
		c.mu.Lock()
		if c.sess != nil || c.desk.Waiting() > 0 {
			t.Errorf("%d frames wait for nobody", c.desk.Waiting())
		}
		c.mu.Unlock()
		h = dial(t, c, "a", 1).welcomed()
		if f := h.hear(); f.Join == nil {
			t.Errorf("%+v", f)
		}
		h.conn.Close()
		<-h.done
	})
}

// TestPushes: what waits for a worker is bounded, the numbers show what is missing, and
// who is replaced hears of it on the session that ends.
func TestPushes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrew(t, nil)
		s, _, err := c.Attach(attaching(1))
		if err != nil {
			t.Fatal(err)
		}
		h := dial(t, c, "a", 1).welcomed()
		h.hear()
		for i := range maxPushes + 10 {
			h.say(stream.Frame{Worker: id(1), Accepted: &stream.Accepted{Term: 1, Refs: []job.Attempt{{Job: "j", Chunk: i, Number: 1}}}})
		}
		synctest.Wait()
		<-s.Ready()
		got := s.Take()
		if len(got) != maxPushes || got[0].Seq != 11 || got[maxPushes-1].Seq != maxPushes+10 || len(s.Take()) != 0 {
			t.Errorf("%d pushes from %d on", len(got), got[0].Seq)
		}
		if st, err := s.Assigned(); err != nil || st.Seq != maxPushes+10 {
			t.Errorf("%+v, %v", st, err)
		}
		next, _, err := c.Attach(attaching(1))
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Take(); len(got) != 1 || got[0].Kind != desk.PushGone || got[0].After != s.Session() {
			t.Errorf("%+v", got)
		}
		if _, err := s.Beat(desk.Beat{}); !errors.Is(err, desk.ErrSession) {
			t.Errorf("%v", err)
		}
		if err := next.Bye(); err != nil || c.Stats() != (desk.Stats{}) || len(c.seats) != 0 {
			t.Errorf("%v, %+v, %d seats", err, c.Stats(), len(c.seats))
		}
		h.conn.Close()
		<-h.done
	})
}

// TestThousands: a new holder hears of all workers, each of them once.
func TestThousands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 3000
		c := newCrew(t, nil)
		for i := range n {
			if _, _, err := c.Attach(attaching(i)); err != nil {
				t.Fatal(err)
			}
		}
		h := dial(t, c, "a", 1).welcomed()
		var all []cluster.NodeID
		for range n {
			f := h.hear()
			if f.Join == nil {
				t.Fatalf("%+v", f)
			}
			all = append(all, f.Worker)
		}
		if slices.Sort(all); len(slices.Compact(all)) != n {
			t.Errorf("%d of %d workers joined", len(slices.Compact(all)), n)
		}
		h.conn.Close()
		<-h.done
	})
}

// TestManyAtOnce: workers attach, beat, complete and go from many goroutines, while
// holders follow each other.
func TestManyAtOnce(t *testing.T) {
	c := newCrew(t, nil)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for k := range 50 {
				s, _, err := c.Attach(attaching(i % 5))
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = s.Beat(desk.Beat{Ready: true})
				_, _ = s.Complete([]stream.Result{{Attempt: job.Attempt{Job: "j", Chunk: k, Number: 1}, Error: "x"}})
				s.Take()
				_ = s.Lose()
			}
		})
	}
	for term := range cluster.Term(20) {
		h := dial(t, c, "a", term+1).welcomed()
		h.conn.Close()
		<-h.done
	}
	wg.Wait()
}
