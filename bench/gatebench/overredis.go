package gatebench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	client "github.com/centrifugal/centrifuge-go"
	"github.com/rs/zerolog"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/bench/suite"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/gateway/crew"
	"github.com/skein-project/skein/gateway/desk"
	"github.com/skein-project/skein/gateway/rpc"
	"github.com/skein-project/skein/internal/servertest"
	"github.com/skein-project/skein/scheduler/stream"
)

// rpcWorkers ask at the same time.
const rpcWorkers = 50

// room is a gateway, whose workers hear what a holder says of them on its stream, and may ask
// what workers ask.
type room struct {
	*wire
	askers   []*client.Client // who are told nothing
	sessions []uint64         // of these
}

// newRoom opens one with n workers of a crew; dial opens the stream of a holder to them, and
// shut ends what is behind both.
func newRoom(ctx context.Context, name string, n int, at desk.Crew, dial func() (net.Conn, error), shut func() error) (r *room, err error) {
	said := make(chan cluster.NodeID, 1024)
	r = &room{wire: &wire{name: name, push: func(worker cluster.NodeID) { said <- worker }}}
	ends := []func() error{shut}
	r.close = func() (err error) {
		for _, c := range slices.Concat(r.clients, r.askers) {
			c.Close()
		}
		for _, end := range slices.Backward(ends) {
			err = errors.Join(err, end())
		}
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("%s: %w", name, err), r.close())
		}
	}()
	var service *rpc.Service
	node, err := newNode(func(worker cluster.NodeID, conn, method string, text []byte) (any, *api.Problem) {
		return answersBy(service)(worker, conn, method, text)
	}, func(string) {})
	if err != nil {
		return r, err
	}
	service = rpc.New(rpc.Options{
		Crew: at, Owner: func(cluster.NodeID) (string, error) { return owner, nil }, Wall: time.Now,
		Push: func(w cluster.NodeID, p api.WorkPush) { node.Push(w, p) },
	})
	if err := node.Start(); err != nil {
		return r, err
	}
	ends = append(ends, func() error {
		service.Close()
		node.Stop()
		return nil
	})
	if shared, ok := at.(desk.Shared); ok {
		shared.OnPush(service.Tell)
	}
	conn, err := dial()
	if err != nil {
		return r, err
	}
	ends = append(ends, conn.Close)
	var enc stream.Encoder
	if err := greet(conn, &enc); err != nil {
		return r, err
	}
	ended := make(chan struct{})
	ends = append(ends, func() error { close(ended); return nil })
	go speak(conn, &enc, said, ended)
	addr, end, err := serve(ctx, node)
	if err != nil {
		return r, err
	}
	ends = append(ends, end)
	if err := r.listen(addr, n); err != nil {
		return r, err
	}
	for i := range n + min(n, rpcWorkers) {
		var c *client.Client
		if i < n {
			c = r.clients[i]
		} else if c, err = connect(addr, cluster.OutsideID(outsider(i)), func([]byte) {}); err != nil {
			return r, err
		} else {
			r.askers = append(r.askers, c)
		}
		var st api.WorkState
		if err := call(ctx, c, api.RPCAttach, newcomer, &st); err != nil {
			return r, err
		}
		if i >= n {
			r.sessions = append(r.sessions, st.Session)
		}
	}
	return r, nil
}

// answersBy answers what workers ask over their connections.
func answersBy(service *rpc.Service) func(worker cluster.NodeID, conn, method string, text []byte) (any, *api.Problem) {
	return func(worker cluster.NodeID, conn, method string, text []byte) (any, *api.Problem) {
		out, err := service.Call(rpc.Caller{Worker: worker, Conn: conn}, method, text)
		if err == nil {
			return out, nil
		}
		if p, ok := errors.AsType[*api.Problem](err); ok {
			return nil, p
		}
		return nil, api.Errorf(api.CodeInternal, "%v", err)
	}
}

// greet makes a holder of who has the stream, which does not listen: its end is that of conn.
func greet(conn net.Conn, enc *stream.Encoder) error {
	hello, err := enc.Append(nil, stream.Frame{Hello: &stream.Hello{Term: 1, Holder: "holder"}})
	if err == nil {
		_, err = conn.Write(hello)
	}
	if err == nil {
		go func() { _, _ = io.Copy(io.Discard, conn) }()
	}
	return err
}

// speak has a holder give each worker that is said a chunk, and settle it the next time.
func speak(conn net.Conn, enc *stream.Encoder, said <-chan cluster.NodeID, ended <-chan struct{}) {
	of := job.NewID(owner, "bench")
	spec := job.Spec{Key: "bench", Artefact: cluster.Hash{1}, Config: cluster.Hash{2}, Iterations: 1 << 40, Chunk: 1 << 21, Seed: 1 << 60}.WithDefaults()
	has := map[cluster.NodeID]int{}
	seq := 0
	frame := func(to cluster.NodeID) stream.Frame {
		if chunk, ok := has[to]; ok {
			delete(has, to)
			return stream.Frame{Worker: to, Accepted: &stream.Accepted{Term: 1, Refs: []job.Attempt{{Job: of, Chunk: chunk, Number: 1}}}}
		}
		seq++
		has[to] = seq
		return stream.Frame{Worker: to, Assign: &stream.Assign{Term: 1, Seq: uint64(seq), Job: of, Spec: spec, Owner: owner, Chunks: []job.Attempt{{Chunk: seq, Number: 1}}}}
	}
	var buf []byte
	for {
		var err error
		select {
		case to := <-said:
			buf, err = enc.Append(buf[:0], frame(to))
		case <-ended:
			return
		}
	more:
		for err == nil && len(buf) < 32<<10 { // as the holder's link does
			select {
			case to := <-said:
				buf, err = enc.Append(buf, frame(to))
			default:
				break more
			}
		}
		if err == nil {
			_, err = conn.Write(buf)
		}
		for err != nil { // it is seen that pushes are missing
			select {
			case <-said:
			case <-ended:
				return
			}
		}
	}
}

func inMemory(ctx context.Context, n int) (*room, error) {
	began := time.Now()
	c, err := crew.New(crew.Options{Now: func() time.Duration { return time.Since(began) }, Logger: zerolog.Nop()})
	if err != nil {
		return nil, err
	}
	running, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { _ = c.Run(running) }) // says that it was cancelled
	return newRoom(ctx, "in memory", n, rpc.InMemory(c), func() (net.Conn, error) {
		ours, theirs := net.Pipe()
		wg.Go(func() { c.Serve(running, "holder", theirs) })
		return ours, nil
	}, func() error {
		stop()
		wg.Wait()
		return nil
	})
}

func overRedis(ctx context.Context, socket string, n int) (*room, error) {
	gate, err := newStore(socket, "gateway-0")
	if err != nil {
		return nil, err
	}
	holder, err := newStore(socket, "holder")
	if err != nil {
		return nil, err
	}
	running, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	return newRoom(ctx, "over Redis", n, gate, func() (net.Conn, error) {
		if err := errors.Join(runStore(running, &wg, gate), runStore(running, &wg, holder)); err != nil {
			return nil, err
		}
		return holder.Dial(running)
	}, func() error {
		stop()
		wg.Wait()
		return nil
	})
}

// asks is how many beats a second workers are answered, each by its connection.
func (r *room) asks(ctx context.Context, burst time.Duration) (float64, error) {
	var asking sync.WaitGroup
	var answered atomic.Int64
	var failed atomic.Pointer[error]
	began := time.Now()
	for i, c := range r.askers {
		asking.Go(func() {
			for time.Since(began) < burst && failed.Load() == nil {
				var seq api.WorkSeq
				b := api.WorkBeat{WorkSession: api.WorkSession{Session: r.sessions[i]}, Have: []api.WorkProgress{}, Ready: true}
				if err := call(ctx, c, api.RPCBeat, b, &seq); err != nil {
					failed.Store(&err)
					return
				}
				answered.Add(1)
			}
		})
	}
	asking.Wait()
	if err := failed.Load(); err != nil {
		return 0, *err
	}
	return float64(answered.Load()) / time.Since(began).Seconds(), nil
}

// OverRedis compares what a holder tells outside workers, and what these ask, on a Redis with
// the same in the memory of their gateway.
func OverRedis(ctx context.Context, s *suite.Suite) (err error) {
	if _, err := servertest.Find("redis-server", "redis-server"); err != nil {
		s.Skip("gateways on a Redis", err.Error())
		return nil
	}
	dir, err := os.MkdirTemp(s.Dir, "or-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	server, err := servertest.StartRedis(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	n := s.Size.Listeners
	ours, err := overRedis(ctx, server.Socket, n)
	if err != nil {
		return err
	}
	theirs, err := inMemory(ctx, n)
	if err != nil {
		return errors.Join(err, ours.close())
	}
	defer func() { err = errors.Join(err, ours.close(), theirs.close()) }()
	const with = "skein: the same gateway with its workers in its own memory"
	pushes := suite.Series{Name: fmt.Sprintf("Redis: pushes of a holder to %d outside workers", n), Unit: "pushes/s", With: with, Digest: suite.Median}
	p50 := suite.Series{Name: fmt.Sprintf("Redis: a push of a holder to one of %d outside workers, p50", n), Unit: "ms", With: with, Digest: suite.Median}
	p99 := suite.Series{Name: fmt.Sprintf("Redis: a push of a holder to one of %d outside workers, p99", n), Unit: "ms", With: with, Digest: suite.P99}
	asks := suite.Series{Name: fmt.Sprintf("Redis: beats by RPC of %d outside workers", min(n, rpcWorkers)), Unit: "RPC/s", With: with, Digest: suite.Median}
	for i := range s.Size.Rounds + 1 {
		s.Progress("gateways on a Redis, round %d of %d", i, s.Size.Rounds)
		var a, b [2]float64
		var as, bs []float64
		measure := func(r *room, rates *[2]float64, took *[]float64) func() error {
			return func() (err error) {
				if rates[0], err = r.rate(ctx, s.Size.Burst); err != nil {
					return fmt.Errorf("%s: pushes: %w", r.name, err)
				}
				for range s.Size.Submits {
					ms, err := r.one(ctx)
					if err := errors.Join(err, suite.Pause(ctx, rand.N(5*time.Millisecond))); err != nil {
						return fmt.Errorf("%s: a push: %w", r.name, err)
					}
					*took = append(*took, ms)
				}
				if rates[1], err = r.asks(ctx, s.Size.Burst); err != nil {
					return fmt.Errorf("%s: beats: %w", r.name, err)
				}
				return nil
			}
		}
		if err := suite.InTurn(i, measure(ours, &a, &as), measure(theirs, &b, &bs)); err != nil {
			return err
		}
		if i > 0 { // the first one warms up
			pushes.Ours, pushes.Peer = append(pushes.Ours, a[0]), append(pushes.Peer, b[0])
			asks.Ours, asks.Peer = append(asks.Ours, a[1]), append(asks.Peer, b[1])
			p50.Ours, p50.Peer = append(p50.Ours, as...), append(p50.Peer, bs...)
		}
	}
	p99.Ours, p99.Peer = p50.Ours, p50.Peer
	for _, row := range []suite.Series{pushes, p50, p99, asks} {
		s.Add(row)
	}
	return nil
}
