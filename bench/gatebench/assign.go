package gatebench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"time"

	client "github.com/centrifugal/centrifuge-go"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/bench/suite"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/gateway/push"
	"github.com/skein-project/skein/gateway/rpc"
)

// counter is a hall to whose workers connections lead: what a gateway is behind its
// proofs, tokens and limits.
type counter struct {
	*hall
	node    *push.Node
	addr    string
	seen    atomic.Pointer[chan time.Time] // where the arrival of a chunk is told, if there is room
	clients []*client.Client
	doing   sync.WaitGroup // completions
	end     func() error
}

// newCounter opens one that has enrolled n outside workers. It leads no term yet.
func newCounter(ctx context.Context, dir string, n int) (*counter, error) {
	h, err := newHall(ctx, dir, n)
	if err != nil {
		return nil, err
	}
	c := &counter{hall: h}
	service := rpc.New(rpc.Options{
		Crew: rpc.InMemory(h.crew), Owner: func(cluster.NodeID) (string, error) { return owner, nil }, Wall: time.Now,
		Push: func(w cluster.NodeID, p api.WorkPush) { c.node.Push(w, p) }, End: func(cluster.NodeID, string, api.Disconnect) {},
	})
	c.node, err = newNode(func(worker cluster.NodeID, conn, method string, text []byte) (any, *api.Problem) {
		out, err := service.Call(rpc.Caller{Worker: worker, Conn: conn}, method, text)
		if err == nil {
			return out, nil
		}
		if p, ok := errors.AsType[*api.Problem](err); ok {
			return nil, p
		}
		return nil, api.Errorf(api.CodeInternal, "%v", err)
	}, service.Gone)
	if err != nil {
		return nil, errors.Join(err, h.close())
	}
	if err := c.node.Start(); err != nil {
		return nil, errors.Join(err, h.close())
	}
	addr, end, err := serve(ctx, c.node)
	c.addr = addr
	c.end = func() error {
		err := h.holder.Resign()
		c.doing.Wait()
		for _, l := range c.clients {
			l.Close()
		}
		service.Close()
		c.node.Stop()
		return errors.Join(err, end(), h.close())
	}
	if err != nil {
		end = func() error { return nil }
		return nil, errors.Join(err, c.end())
	}
	return c, nil
}

// newcomer is what a worker says that attaches.
var newcomer = api.WorkAttach{
	Slots: 1, Room: 2, MemoryBytes: 8 << 30, Executors: []string{job.ExecutorWASM}, Running: []job.Attempt{}, Kept: []job.Attempt{}, Client: api.GatewayClient,
}

// hire has worker i attach over a connection, and answer each chunk as it comes.
func (c *counter) hire(ctx context.Context, i int) error {
	var session atomic.Uint64
	var l *client.Client
	l, err := connect(c.addr, cluster.OutsideID(outsider(i)), func(text []byte) {
		at := time.Now()
		var p api.WorkPush
		if err := json.Unmarshal(text, &p); err != nil || p.Chunks == nil {
			return
		}
		tell(&c.seen, at)
		c.doing.Go(func() { // the connection calls this one after the other
			_ = call(ctx, l, api.RPCComplete, results(session.Load(), p.Chunks), nil) // it is given to another, else
		})
	})
	if err != nil {
		return err
	}
	c.clients = append(c.clients, l)
	var st api.WorkState
	if err := call(ctx, l, api.RPCAttach, newcomer, &st); err != nil {
		return fmt.Errorf("attach: %w", err)
	}
	session.Store(st.Session)
	return nil
}

// results are those of chunks that took no time, as a guest writes them.
func results(session uint64, c *api.WorkChunks) api.WorkResults {
	out := api.WorkResults{WorkSession: api.WorkSession{Session: session}}
	for _, ref := range c.Refs {
		out.Results = append(out.Results, api.WorkResult{Attempt: ref, Seconds: 1e-5, Output: fmt.Sprintf(
			`{"iterations":%d,"metrics":{"x":{"n":%[1]d,"mean":0.5,"m2":0.1,"min":0,"max":1}}}`, c.Spec.Chunk)})
	}
	return out
}

func call(ctx context.Context, l *client.Client, method string, in, out any) error {
	text, err := json.Marshal(in)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, heardTime)
	defer cancel()
	got, err := l.RPC(ctx, method, text)
	if err != nil || out == nil {
		return err
	}
	return json.Unmarshal(got.Data, out)
}

// assignments measures how long a chunk takes to an outside worker, from when it can be
// given out.
func assignments(ctx context.Context, s *suite.Suite) (err error) {
	n := s.Size.Listeners
	dir, err := os.MkdirTemp(s.Dir, "gate-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	c, err := newCounter(ctx, dir, n)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.end()) }()
	for i := range n {
		if err := c.hire(ctx, i); err != nil {
			return err
		}
	}
	if err := errors.Join(c.holder.Lead(1), c.holder.Connected(ctx, n+1)); err != nil {
		return err
	}
	var took []float64
	for i := range s.Size.Rounds*s.Size.Submits + 1 {
		if err := suite.Pause(ctx, rand.N(20*time.Millisecond)); err != nil {
			return err
		}
		seen := make(chan time.Time, 1)
		c.seen.Store(&seen)
		if err := c.holder.Queue(ctx, owner, 1); err != nil {
			return err
		}
		at, err := arrival(ctx, seen)
		if err != nil {
			return err
		}
		if i > 0 { // the first opens what is opened late
			took = append(took, suite.Ms(at.Sub(*c.holder.Log.Synced.Load())))
		}
	}
	name := fmt.Sprintf("assignable to outside worker, %d workers, ", n)
	s.Add(suite.Series{Name: name + "p50", Unit: "ms", With: "none", Digest: suite.Median, Ours: took})
	s.Add(suite.Series{Name: name + "p99", Unit: "ms", With: "none", Target: suite.Want("ours", "<=", 20), Digest: suite.P99, Ours: took})
	return nil
}
