package scheduler

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/gateway/crew"
	"github.com/skein-project/skein/gateway/desk"
	"github.com/skein-project/skein/scheduler/stream"
)

// instant is one end of a stream that answers each assignment at once.
func instant(conn net.Conn, in *stream.Decoder, begin ...stream.Frame) {
	defer conn.Close()
	if f, err := in.Read(); err != nil || f.Hello == nil {
		return
	}
	var enc stream.Encoder
	var b []byte
	say := func(frames ...stream.Frame) bool {
		var err error
		b = b[:0]
		for _, f := range frames {
			if b, err = enc.Append(b, f); err != nil {
				panic(err)
			}
		}
		_, err = conn.Write(b)
		return err == nil
	}
	go func() { // a pipe holds nothing: what it reads meanwhile it answers afterwards
		frames := make(chan stream.Frame, 1<<16)
		go func() {
			defer close(frames)
			for {
				f, err := in.Read()
				if err != nil {
					return
				}
				frames <- f
			}
		}()
		if !say(begin...) {
			return
		}
		beat := time.NewTicker(2 * time.Second)
		defer beat.Stop()
		for {
			select {
			case f, ok := <-frames:
				if !ok {
					return
				}
				if out := honest(f); len(out) > 0 && !say(out...) {
					return
				}
			case <-beat.C:
				if !say(stream.Frame{Status: &stream.Status{Running: []job.Attempt{}, Ready: true}}) {
					return
				}
			}
		}
	}()
	<-make(chan struct{}) // the pipe ends with the benchmark
}

// chunksPerSecond runs a job of b.N chunks on 500 workers of one slot each: of as many hosts,
// each with its stream, or trusted outside workers at one host.
func chunksPerSecond(b *testing.B, outside bool) {
	const slots = 500
	log := newMemLog("a")
	var joins []stream.Frame
	if outside {
		if _, err := log.Append(b.Context(), []event.Draft{{Term: 1, Kind: event.KindUserSet, Body: event.UserSet{Name: "ann", Role: "submitter", Actor: "uid:0"}}}); err != nil {
			b.Fatal(err)
		}
		for i := range slots {
			key := sha256.Sum256([]byte{byte(i), byte(i >> 8)})
			n := cluster.OutsideID(key[:])
			if _, err := log.Append(b.Context(), []event.Draft{{Term: 1, Kind: event.KindWorkerEnrolled, Body: event.WorkerEnrolled{Worker: n, Key: key[:], Owner: "user:ann", Trusted: true, Actor: "uid:0"}}}); err != nil {
				b.Fatal(err)
			}
			joins = append(joins, joinOf(n, 1, "user:ann"))
		}
	}
	pipe := func(crew bool, begin ...stream.Frame) net.Conn {
		ours, theirs := net.Pipe()
		in := stream.NewDecoder(ours)
		if crew {
			in = stream.NewCrewDecoder(ours)
		}
		go instant(ours, in, begin...)
		return theirs
	}
	hosts := []cluster.NodeID{"a"}
	own := stream.Welcome{Slots: 1, Room: 2, Executors: []string{job.ExecutorWASM}, Assigned: []job.Attempt{}}
	if outside {
		own.Slots, own.Room, own.Crew = 0, 0, true
	}
	for i := 1; !outside && i < slots; i++ {
		hosts = append(hosts, cluster.NodeID(fmt.Sprintf("n%d", i)))
	}
	s, err := New(Options{
		Self: "a", Log: log, MayAct: func(cluster.Term) bool { return true }, Now: func() time.Duration { return time.Duration(time.Now().UnixNano()) },
		Dial: func(context.Context, cluster.NodeID) (net.Conn, error) {
			return pipe(false, stream.Frame{Welcome: &own}), nil
		},
		DialCrew: func(context.Context, cluster.NodeID) (net.Conn, error) {
			return pipe(true, append([]stream.Frame{{Welcome: &stream.Welcome{Executors: []string{}, Assigned: []job.Attempt{}, Crew: true}}}, joins...)...), nil
		},
		Logger: zerolog.Nop(),
	})
	if err != nil {
		b.Fatal(err)
	}
	s.SetWorkers(hosts)
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx, 1) }()
	for connected := 0; connected < len(hosts)+len(joins); time.Sleep(time.Millisecond) {
		connected = 0
		for _, w := range s.Workers() {
			if w.Connected {
				connected++
			}
		}
	}
	b.ResetTimer()
	id := job.ID("")
	for id == "" {
		got, err := s.Submit(ctx, testSpec("k", b.N), "user:ann", WaitLocal, true)
		if err != nil && !errors.Is(err, ErrNotHolder) {
			b.Fatal(err)
		}
		id = got.Job
	}
	for done := false; !done; time.Sleep(time.Millisecond) {
		log.View(func(st *state.State) {
			j, _ := st.Job(id)
			if done = j.State.Final(); done && j.Counts.Accepted != b.N {
				b.Errorf("%s, %s: %+v", j.State, j.Reason, j.Counts)
			}
		})
	}
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "chunks/s")
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		b.Error(err)
	}
}

func BenchmarkWorkStream(b *testing.B) { chunksPerSecond(b, false) }
func BenchmarkCrewStream(b *testing.B) { chunksPerSecond(b, true) }

// BenchmarkJoin tells a new holder of many outside workers at one host.
func BenchmarkJoin(b *testing.B) {
	for _, n := range []int{10_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) { manyJoin(b, n) })
	}
}

func manyJoin(b *testing.B, n int) {
	b.Helper()
	var was, is runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&was)
	c, err := crew.New(crew.Options{Desk: desk.Options{Workers: n}, Now: func() time.Duration { return time.Duration(time.Now().UnixNano()) }, Logger: zerolog.Nop()})
	if err != nil {
		b.Fatal(err)
	}
	var all []*crew.Seat
	for i := range n {
		s, _, err := c.Attach(desk.Attach{
			Worker: cluster.OutsideID([]byte{byte(i), byte(i >> 8), byte(i >> 16)}), Owner: fmt.Sprintf("visitor:%d", i), Slots: 4, Room: 8, Executors: []string{job.ExecutorWASM},
		})
		if err != nil {
			b.Fatal(err)
		}
		all = append(all, s)
	}
	term, bytes := cluster.Term(0), uint64(0)
	for b.Loop() {
		term++
		s, err := New(Options{
			Self: "a", Log: newMemLog("a"), MayAct: func(cluster.Term) bool { return true }, Now: func() time.Duration { return time.Duration(time.Now().UnixNano()) },
			Dial: func(context.Context, cluster.NodeID) (net.Conn, error) {
				ours, theirs := net.Pipe()
				go instant(ours, stream.NewDecoder(ours), stream.Frame{Welcome: &stream.Welcome{Executors: []string{}, Assigned: []job.Attempt{}, Crew: true}})
				return theirs, nil
			},
			DialCrew: func(context.Context, cluster.NodeID) (net.Conn, error) {
				ours, theirs := net.Pipe()
				go c.Serve(b.Context(), "a", ours)
				return theirs, nil
			},
			Logger: zerolog.Nop(),
		})
		if err != nil {
			b.Fatal(err)
		}
		ctx, cancel := context.WithCancel(b.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx, term) }()
		for len(s.Workers()) <= n {
			time.Sleep(time.Millisecond)
		}
		b.StopTimer()
		runtime.GC()
		runtime.ReadMemStats(&is)
		bytes = (is.HeapAlloc - was.HeapAlloc) / uint64(n)
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			b.Error(err)
		}
		b.StartTimer()
	}
	b.ReportMetric(float64(bytes), "B/worker")
	runtime.KeepAlive(all)
}
