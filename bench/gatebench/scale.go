package gatebench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/skein-project/skein/bench/suite"
	"github.com/skein-project/skein/bench/testbed"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/internal/servertest"
)

// cost is what outside workers take on one Redis, of a worker and a second unless said
// otherwise.
type cost struct {
	bytes    float64 // of Redis, of a worker
	heap     float64 // of the holder, of a worker, KiB
	commands float64
	redis    float64 // microseconds of its one thread
	holder   float64 // microseconds of the processor
	gateways float64
	joined   float64 // seconds until a new term has all of them
	rush     float64 // beats a second, as fast as may be
	beats    float64 // beats that one thread of Redis does in a second of its time
	said     said
}

// Scale is what outside workers cost on ten gateways and one Redis, each of which beats each
// ten seconds and does a chunk in thirty, by how many there are; and how long a new term takes
// until it has all of them.
func Scale(ctx context.Context, s *suite.Suite) error {
	if _, err := servertest.Find("redis-server", "redis-server"); err != nil {
		s.Skip("outside workers on one Redis", err.Error())
		return nil
	}
	var least *cost
	for _, n := range s.Size.Scale {
		c, err := scale(ctx, s, n)
		if err != nil {
			return fmt.Errorf("%d workers: %w", n, err)
		}
		add := func(name, unit string, get func(*cost) float64, target suite.Target) {
			row := suite.Series{Name: fmt.Sprintf(name, n), Unit: unit, With: "none", Digest: suite.Median, Ours: []float64{get(c)}}
			if least != nil {
				row.Peer, row.With, row.Target = []float64{get(least)}, fmt.Sprintf("skein with %d outside workers", s.Size.Scale[0]), target
			}
			s.Add(row)
		}
		flat := suite.Want("ratio", "<=", 1.25)
		add("Redis: memory of each of %d outside workers", "bytes", func(c *cost) float64 { return c.bytes }, flat)
		add("Redis: holder's memory for each of %d outside workers", "KiB", func(c *cost) float64 { return c.heap }, flat)
		add("Redis: commands for each of %d outside workers", "1/s", func(c *cost) float64 { return c.commands }, flat)
		add("Redis: its thread's time for each of %d outside workers", "us/s", func(c *cost) float64 { return c.redis }, flat)
		add("Redis: holder's processor for each of %d outside workers", "us/s", func(c *cost) float64 { return c.holder }, flat)
		add("Redis: gateways' processor for each of %d outside workers", "us/s", func(c *cost) float64 { return c.gateways }, flat)
		add("Redis: a new term has all %d outside workers", "s", func(c *cost) float64 { return c.joined }, suite.Target{})
		add("Redis: beats of %d outside workers, as fast as they go", "1/s", func(c *cost) float64 { return c.rush }, suite.Target{})
		if least == nil {
			least = c
		}
		s.Progress("%d workers: Redis %.0f bytes and %.2f commands/s each; processor %.1f us/s each of Redis, %.1f of the holder, %.1f of the gateways; all of a new term after %.2f s; %.0f beats/s as fast as may be, %.0f by a second of Redis",
			n, c.bytes, c.commands, c.redis, c.holder, c.gateways, c.joined, c.rush, c.beats)
	}
	return nil
}

func scale(ctx context.Context, s *suite.Suite, n int) (out *cost, err error) {
	dir, err := os.MkdirTemp(s.Dir, "rs-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	r, err := servertest.StartRedis(ctx, dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Stop()) }()
	running, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	heap := inUse(false)
	h, err := newRedisHolder(running, &wg, r.Socket, filepath.Join(dir, "log"), n)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	g, err := startGateways(ctx, r.Socket, n)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, g.stop()) }()
	c := &cost{}
	if _, err := g.ask("wait", 0); err != nil { // until they are connected
		return nil, err
	}
	empty, err := infoOf(ctx, r.Socket)
	if err != nil {
		return nil, err
	}
	if _, err := g.ask("attach", 0); err != nil {
		return nil, err
	}
	full, err := infoOf(ctx, r.Socket)
	if err != nil {
		return nil, err
	}
	c.bytes = (full["used_memory"] - empty["used_memory"]) / float64(n)
	for _, term := range []cluster.Term{1, 2} {
		if err := h.Resign(); err != nil {
			return nil, err
		}
		began := time.Now()
		if err := h.Lead(term); err != nil {
			return nil, err
		}
		if err := joined(ctx, h, n+1); err != nil {
			return nil, err
		}
		c.joined = time.Since(began).Seconds()
		if term == 1 {
			c.heap = float64(inUse(false)-heap) / 1024 / float64(n)
		}
	}
	if err := h.Queue(ctx, owner, 8*n); err != nil {
		return nil, err
	}
	if _, err := g.ask("run", s.Size.ScaleWindow); err != nil { // all have chunks then
		return nil, err
	}
	before, err := infoOf(ctx, r.Socket)
	if err != nil {
		return nil, err
	}
	own := ownCPU()
	if c.said, err = g.ask("run", s.Size.ScaleWindow); err != nil {
		return nil, err
	}
	c.holder = ownCPU() - own
	after, err := infoOf(ctx, r.Socket)
	if err != nil {
		return nil, err
	}
	each := float64(n) * c.said.Seconds
	c.holder *= 1e6 / each
	c.gateways = c.said.CPU * 1e6 / each
	c.commands = (after["total_commands_processed"] - before["total_commands_processed"]) / each
	c.redis = (thread(after) - thread(before)) * 1e6 / each
	s.Progress("%d workers: %.1f s of %.1f, %d beats and %d chunks done", n, c.said.Seconds, s.Size.ScaleWindow.Seconds(), c.said.Beats, c.said.Completes)
	if c.said.Completes == 0 {
		return nil, errors.New("no chunk was done")
	}
	rushed, err := g.ask("rush", s.Size.Burst)
	if err != nil {
		return nil, err
	}
	last, err := infoOf(ctx, r.Socket)
	if err != nil {
		return nil, err
	}
	c.rush = float64(rushed.Beats) / rushed.Seconds
	c.beats = float64(rushed.Beats) / max(thread(last)-thread(after), 1e-3)
	return c, nil
}

// newRedisHolder is a holder that knows n outside workers, all of ann, and finds them in a
// Redis.
func newRedisHolder(ctx context.Context, wg *sync.WaitGroup, socket, dir string, n int) (*testbed.Holder, error) {
	store, err := newStore(socket, "holder")
	if err != nil {
		return nil, err
	}
	if err := runStore(ctx, wg, store); err != nil {
		return nil, err
	}
	work, err := testbed.NewIdleWorker(0, 0)
	if err != nil {
		return nil, err
	}
	wg.Go(func() {
		<-ctx.Done()
		work.Close()
	})
	return testbed.NewHolder(ctx, dir, testbed.HolderOptions{
		Begin:    enrolment(n, false),
		Dial:     func(ctx context.Context, _ cluster.NodeID) (net.Conn, error) { return work.Dial(ctx) },
		DialCrew: func(ctx context.Context, _ cluster.NodeID) (net.Conn, error) { return store.Dial(ctx) },
	})
}

// joined waits until a holder has n workers, which it counts once a second if they are many.
func joined(ctx context.Context, h *testbed.Holder, n int) error {
	for end := time.Now().Add(crowdTime); ; {
		is := 0
		for _, w := range h.Workers() {
			if w.Connected {
				is++
			}
		}
		if is == n {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("%d of %d workers joined within %s", is, n, crowdTime)
		}
		if err := suite.Pause(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

// infoOf is what a Redis says of itself in numbers.
func infoOf(ctx context.Context, socket string) (map[string]float64, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(heardTime)) // of a socket
	if _, err := io.WriteString(conn, "INFO everything\r\n"); err != nil {
		return nil, err
	}
	in := bufio.NewReader(conn)
	line, err := in.ReadString('\n')
	if err != nil {
		return nil, err
	}
	size, err := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(line, "$")))
	if err != nil {
		return nil, fmt.Errorf("INFO: %.80q", line)
	}
	text := make([]byte, size)
	if _, err := io.ReadFull(in, text); err != nil {
		return nil, err
	}
	out := map[string]float64{}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			if v, err := strconv.ParseFloat(value, 64); err == nil {
				out[name] = v
			}
		}
	}
	return out, nil
}

// thread is the time of the one thread that does what Redis is asked for.
func thread(info map[string]float64) float64 {
	return info["used_cpu_user_main_thread"] + info["used_cpu_sys_main_thread"]
}
