package link

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/scheduler/stream"
)

func metricsOf() *Metrics {
	return &Metrics{
		Open: prometheus.NewGauge(prometheus.GaugeOpts{Name: "open"}), Ends: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "ends"}, []string{"reason"}),
		Offences: prometheus.NewCounter(prometheus.CounterOpts{Name: "offences"}), Shed: prometheus.NewCounter(prometheus.CounterOpts{Name: "shed"}),
	}
}

// count sums up what a collector counts.
func count(t *testing.T, c prometheus.Collector) (sum float64) {
	t.Helper()
	reg := prometheus.NewRegistry()
	reg.MustRegister(c)
	fams, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range fams {
		for _, m := range f.GetMetric() {
			sum += m.GetCounter().GetValue()
		}
	}
	return sum
}

// TestShed: a link whose events nobody takes drops telemetry only.
func TestShed(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	m := metricsOf()
	l, _ := New(ctx, Options{Events: make(chan Event), Metrics: m})
	if !l.tell(ctx, Event{Pong: 1}) || count(t, m.Shed) != 1 {
		t.Error("telemetry was not shed")
	}
	for _, e := range []Event{{Result: &stream.Result{}}, {Join: &stream.Join{}}, {Part: &stream.Part{}}} {
		if l.tell(ctx, e) {
			t.Errorf("%+v was shed", e)
		}
	}
}

// TestRush: all outside workers of a host may be sent something at once, however many joined.
func TestRush(t *testing.T) {
	q := queue{most: crewFrames, ready: make(chan struct{}, 1)}
	const workers = 100_000
	for range workers {
		q.grow()
	}
	for i := range 2 * workers {
		if !q.put(stream.Frame{}) {
			t.Fatalf("frame %d of %d workers has no room", i, workers)
		}
	}
	for range worstFrames {
		q.grow()
	}
	if q.most != worstFrames {
		t.Errorf("%d frames may wait", q.most)
	}
}

// TestSlow: as many frames wait as may, in the order in which they were sent; with one
// more the stream ends, and another is opened.
func TestSlow(t *testing.T) {
	for _, crew := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			worker := cluster.NodeID("")
			if crew {
				worker = cluster.OutsideID(nil)
			}
			most := map[bool]int{false: outFrames, true: crewFrames}[crew]
			m, events, dials := metricsOf(), make(chan Event, 16), make(chan net.Conn, 16)
			ctx, cancel := context.WithCancel(t.Context())
			l, run := New(ctx, Options{
				Node: "g", Self: "h", Term: 3, Crew: crew, Events: events, Metrics: m, Logger: zerolog.Nop(), Now: func() time.Duration { return 1 },
				Dial: func(context.Context, cluster.NodeID) (net.Conn, error) {
					ours, theirs := net.Pipe()
					dials <- theirs
					return ours, nil
				},
			})
			done := make(chan struct{})
			go func() { defer close(done); run() }()
			open := func() (net.Conn, *stream.Decoder, *Session) {
				conn := <-dials
				in := stream.NewDecoder(conn)
				if crew {
					in = stream.NewCrewDecoder(conn)
				}
				if f, err := in.Read(); err != nil || f.Hello == nil || f.Hello.Term != 3 || f.Hello.Holder != "h" {
					t.Fatalf("%+v, %v", f, err)
				}
				if err := stream.Write(conn, stream.Frame{Welcome: &stream.Welcome{Slots: 1}}); err != nil {
					t.Fatal(err)
				}
				e := <-events
				if !e.Up || e.Sess.Crew != crew {
					t.Fatalf("%+v", e)
				}
				return conn, in, e.Sess
			}
			_, in, s := open()
			for i := range most {
				s.Send(stream.Frame{Worker: worker, Query: &stream.Ping{Term: 3, Nonce: uint64(i)}})
			}
			for i := range most / 2 {
				if f, err := in.Read(); err != nil || f.Query == nil || f.Query.Nonce != uint64(i) || f.Worker != worker {
					t.Fatalf("frame %d: %+v, %v", i, f, err)
				}
			}
			synctest.Wait()
			for range 2*most + 1 { // the writer may have taken as many as wait
				s.Send(stream.Frame{Worker: worker, Query: &stream.Ping{Term: 3}})
			}
			if e := <-events; !errors.Is(e.Down, ErrSlow) || count(t, m.Ends) > 1 {
				t.Errorf("%+v", e)
			}
			conn, _, _ := open()
			if err := stream.Write(conn, stream.Frame{Status: &stream.Status{}}); err != nil {
				t.Fatal(err)
			}
			if e := <-events; e.Status == nil || e.Worker != "" {
				t.Errorf("%+v", e)
			}
			l.Stop()
			<-done
			cancel()
		})
	}
}

// TestFarHost: a worker that is far has as much more time to let a stream be opened as it takes.
func TestFarHost(t *testing.T) {
	for rtt, want := range map[time.Duration]time.Duration{0: 5 * time.Second, 300 * time.Millisecond: 5900 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			began := time.Now()
			var took time.Duration
			_, run := New(ctx, Options{
				Node: "n2", Self: "n1", RTT: func() time.Duration { return rtt }, Metrics: metricsOf(), Logger: zerolog.Nop(),
				Dial: func(dial context.Context, _ cluster.NodeID) (net.Conn, error) {
					<-dial.Done()
					took = time.Since(began)
					cancel()
					return nil, dial.Err()
				},
			})
			if run(); took != want {
				t.Errorf("%s away: given up after %s, want %s", rtt, took, want)
			}
		})
	}
}
