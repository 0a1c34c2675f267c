package logbench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/bench/suite"
	"github.com/skein-project/skein/bench/testbed"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord"
	"github.com/skein-project/skein/eventlog"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/eventlog/wire"
)

// logHost is a host with a log and the streams between hosts, TLS 1.3 over
// TCP, and no lease.
type logHost struct {
	id     *testbed.Identity
	svc    *coord.Service
	log    *eventlog.Log
	cancel context.CancelFunc
	work   sync.WaitGroup
}

// logOptions are those of the log of one host of c, which may write under any
// term.
func logOptions(c *testbed.SkeinCluster, id *testbed.Identity, dir string) eventlog.Options {
	return eventlog.Options{
		Dir: dir, Cluster: c.Verifier.Cluster.String(), Self: id.Node, Key: id.Key, KeyOf: c.KeyOf,
		MayAct: testbed.AnyTerm, PullEvery: -1, Logger: zerolog.Nop(),
	}
}

func startLog(c *testbed.SkeinCluster, id *testbed.Identity, lo eventlog.Options) (*logHost, error) {
	id.Boot = max(id.Boot, 1) // the first start of a founder knows nobody
	o, socks, err := c.Options(id, &testbed.MemoryStore{})
	if err != nil {
		return nil, err
	}
	o.Founder = false
	h := &logHost{id: id}
	lo.Dial = func(ctx context.Context, to cluster.NodeID) (net.Conn, error) {
		return h.svc.Dial(ctx, to, wire.Proto)
	}
	if h.log, err = eventlog.Open(lo); err != nil {
		socks.Cut()
		return nil, err
	}
	if h.svc, err = coord.New(o); err != nil {
		socks.Cut()
		return nil, errors.Join(err, h.log.Close())
	}
	h.svc.Handle(wire.Proto, h.log.Serve)
	ctx, cancel := context.WithCancel(context.Background())
	h.cancel = cancel
	h.work.Go(func() { _ = h.log.Run(ctx) }) // what is measured was durable before
	h.work.Go(func() { _ = h.svc.Run(ctx) })
	return h, nil
}

func (h *logHost) close() {
	h.cancel()
	h.work.Wait()
}

// CatchUp measures how long an empty host takes until it has stored and folded
// everything that another has.
func CatchUp(ctx context.Context, s *suite.Suite) error {
	c, err := testbed.NewSkein(2, cluster.ProfileLAN, 7)
	if err != nil {
		return err
	}
	from, to := c.Hosts[0], c.Hosts[1]
	full := logOptions(c, from, filepath.Join(s.Dir, "full"))
	if err := fill(ctx, full, s.Size.History); err != nil {
		return err
	}
	peer, err := startLog(c, from, full)
	if err != nil {
		return err
	}
	defer peer.close()
	row := suite.Series{
		Name: fmt.Sprintf("catch-up of %d events from a peer, stored and folded", s.Size.History), Unit: "s",
		With: "none", Target: suite.Want("ours", "<=", 10), Digest: suite.Median,
	}
	for i := range s.Size.CatchUps {
		s.Progress("catch-up, round %d of %d", i+1, s.Size.CatchUps)
		took, err := catchUpOnce(ctx, c, to, peer, filepath.Join(s.Dir, "empty"))
		if err != nil {
			return err
		}
		row.Ours = append(row.Ours, took.Seconds())
	}
	s.Add(row)
	return nil
}

func catchUpOnce(ctx context.Context, c *testbed.SkeinCluster, id *testbed.Identity, peer *logHost, dir string) (took time.Duration, err error) {
	h, err := startLog(c, id, logOptions(c, id, dir))
	if err != nil {
		return 0, err
	}
	defer func() {
		h.close()
		err = errors.Join(err, os.RemoveAll(dir))
	}()
	// Both services run already; the first stream must not wait for that.
	if err := suite.Poll(ctx, "the peer answers", 10*time.Second, func() bool {
		_, err := h.log.HeadsOf(ctx, peer.id.Node, 0)
		return err == nil
	}); err != nil {
		return 0, err
	}
	began := time.Now()
	if err := h.log.Sync(ctx, peer.id.Node); err != nil {
		return 0, err
	}
	h.log.View(func(*state.State) {}) // waits for the fold
	took = time.Since(began)
	if h.log.Digest() != peer.log.Digest() {
		return 0, errors.New("the host has caught up and holds something else")
	}
	return took, nil
}
