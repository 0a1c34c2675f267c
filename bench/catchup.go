package main

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

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord"
	"github.com/skein-project/skein/eventlog"
	"github.com/skein-project/skein/eventlog/state"
)

// logHost is a host with a log and the streams between hosts, TLS 1.3 over
// TCP, and no lease.
type logHost struct {
	id     *identity
	svc    *coord.Service
	log    *eventlog.Log
	cancel context.CancelFunc
	work   sync.WaitGroup
}

// logOptions are those of the log of one host of c, which may write under any
// term.
func (c *skeinCluster) logOptions(id *identity, dir string) eventlog.Options {
	return eventlog.Options{
		Dir: dir, Cluster: c.verifier.Cluster.String(), Self: id.node, Key: id.key, KeyOf: c.keyOf,
		MayAct: anyTerm, PullEvery: -1, Logger: zerolog.Nop(),
	}
}

func (c *skeinCluster) startLog(id *identity, lo eventlog.Options) (*logHost, error) {
	id.boot = max(id.boot, 1) // the first start of a founder knows nobody
	o, socks, err := c.options(id, &memoryStore{})
	if err != nil {
		return nil, err
	}
	o.Founder = false
	h := &logHost{id: id}
	lo.Dial = func(ctx context.Context, to cluster.NodeID) (net.Conn, error) {
		return h.svc.Dial(ctx, to, eventlog.Proto)
	}
	if h.log, err = eventlog.Open(lo); err != nil {
		socks.cut()
		return nil, err
	}
	if h.svc, err = coord.New(o); err != nil {
		socks.cut()
		return nil, errors.Join(err, h.log.Close())
	}
	h.svc.Handle(eventlog.Proto, h.log.Serve)
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

// catchUp measures how long an empty host takes until it has stored and folded
// everything that another has.
func catchUp(ctx context.Context, s *suite) error {
	c, err := newSkein(2, cluster.ProfileLAN, 7)
	if err != nil {
		return err
	}
	from, to := c.hosts[0], c.hosts[1]
	full := c.logOptions(from, filepath.Join(s.dir, "full"))
	if err := fill(ctx, full, s.size.history); err != nil {
		return err
	}
	peer, err := c.startLog(from, full)
	if err != nil {
		return err
	}
	defer peer.close()
	row := series{
		name: fmt.Sprintf("catch-up of %d events from a peer, stored and folded", s.size.history), unit: "s",
		with: "none", target: target{"ours", "<=", 10}, digest: median,
	}
	for i := range s.size.catchUps {
		s.progress("catch-up, round %d of %d", i+1, s.size.catchUps)
		took, err := c.catchUpOnce(ctx, to, peer, filepath.Join(s.dir, "empty"))
		if err != nil {
			return err
		}
		row.ours = append(row.ours, took.Seconds())
	}
	s.add(row)
	return nil
}

func (c *skeinCluster) catchUpOnce(ctx context.Context, id *identity, peer *logHost, dir string) (took time.Duration, err error) {
	h, err := c.startLog(id, c.logOptions(id, dir))
	if err != nil {
		return 0, err
	}
	defer func() {
		h.close()
		err = errors.Join(err, os.RemoveAll(dir))
	}()
	// Both services run already; the first stream must not wait for that.
	if err := poll(ctx, "the peer answers", 10*time.Second, func() bool {
		_, err := h.log.HeadsOf(ctx, peer.id.node, 0)
		return err == nil
	}); err != nil {
		return 0, err
	}
	began := time.Now()
	if err := h.log.Sync(ctx, peer.id.node); err != nil {
		return 0, err
	}
	h.log.View(func(*state.State) {}) // waits for the fold
	took = time.Since(began)
	if h.log.Digest() != peer.log.Digest() {
		return 0, errors.New("the host has caught up and holds something else")
	}
	return took, nil
}
