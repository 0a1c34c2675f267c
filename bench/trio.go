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
	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/eventlog"
	"github.com/skein-project/skein/lease"
)

// trio is a skein cluster of three voters with logs and vote stores on disk.
type trio struct {
	c    *skeinCluster
	dir  string
	up   map[cluster.NodeID]*skeinHost
	seen moments
}

// moments collects what the hosts note; any goroutine may add.
type moments struct {
	mu  sync.Mutex
	all []moment
}

func (m *moments) add(x moment) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all = append(m.all, x)
}

// after returns the first term that was acquired after t by another host than
// not, with its commit if there was one.
func (m *moments) after(t time.Time, not cluster.NodeID) (moment, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var got moment
	for _, x := range m.all {
		switch {
		case x.acquired.Before(t) || x.node == not:
		case got.term == 0 || x.term == got.term && x.node == got.node:
			got = x
		}
	}
	return got, got.term != 0
}

// skeinHost is one that runs.
type skeinHost struct {
	id     *identity
	svc    *coord.Service
	log    *eventlog.Log
	socks  *sockets
	cancel context.CancelFunc
	work   sync.WaitGroup
}

// newTrio starts three hosts and waits until all of them vote.
func newTrio(ctx context.Context, dir string, profile cluster.Profile) (*trio, error) {
	c, err := newSkein(3, profile, 1)
	if err != nil {
		return nil, err
	}
	t := &trio{c: c, dir: dir, up: map[cluster.NodeID]*skeinHost{}}
	for i, id := range c.hosts {
		if err := t.start(id); err != nil {
			return nil, errors.Join(err, t.close())
		}
		if i == 0 {
			err := poll(ctx, "the founder holds", 10*time.Second, func() bool { return t.holder() != nil })
			if err != nil {
				return nil, errors.Join(err, t.close())
			}
		}
	}
	if err := t.up[c.hosts[0].node].svc.AddRecords(ctx, c.records()); err != nil {
		return nil, errors.Join(err, t.close())
	}
	if err := t.settle(ctx); err != nil {
		return nil, errors.Join(err, t.close())
	}
	return t, nil
}

func (t *trio) start(id *identity) error {
	dir := filepath.Join(t.dir, string(id.node))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	o, socks, err := t.c.options(id, coord.NewFileStore(dir, t.c.verifier.Cluster, id.node))
	if err != nil {
		return err
	}
	h := &skeinHost{id: id, socks: socks}
	h.log, err = eventlog.Open(eventlog.Options{
		Dir: filepath.Join(dir, "log"), Cluster: t.c.verifier.Cluster.String(), Self: id.node, Key: id.key, KeyOf: t.c.keyOf,
		MayAct:   func(term cluster.Term) bool { return h.svc.MayAct(term) },
		Promised: func() cluster.Term { return h.svc.PromisedTerm() },
		Dial: func(ctx context.Context, to cluster.NodeID) (net.Conn, error) {
			return h.svc.Dial(ctx, to, eventlog.Proto)
		},
		Peers: h.reachable, Logger: zerolog.Nop(),
	})
	if err != nil {
		socks.cut()
		return err
	}
	o.Log = func() coord.LogState {
		var n uint64
		for _, head := range h.log.Heads() {
			n += head.Seq
		}
		return coord.LogState{Digest: h.log.Digest(), Events: n}
	}
	if h.svc, err = coord.New(o); err != nil {
		socks.cut()
		return errors.Join(err, h.log.Close())
	}
	h.svc.Handle(eventlog.Proto, h.log.Serve)
	h.run(t.c.profile, t.seen.add)
	t.up[id.node] = h
	return nil
}

// run starts the goroutines of h; they end when h.cancel was called.
func (h *skeinHost) run(profile cluster.Profile, note func(moment)) {
	ctx, cancel := context.WithCancel(context.Background())
	h.cancel = cancel
	ready := make(chan struct{})
	d := &duty{svc: h.svc, log: h.log, profile: profile, ready: ready, note: note}
	h.work.Go(func() { _ = h.log.Run(ctx) }) // a host that was cut ends with errors
	h.work.Go(func() { _ = h.svc.Run(ctx) })
	h.work.Go(func() { d.run(ctx) })
	h.work.Go(func() {
		if h.confirmOwnChain(ctx) {
			close(ready)
		}
	})
}

// confirmOwnChain asks the voters for the own chain before anything is
// appended, as the daemon does, and writes the first event.
func (h *skeinHost) confirmOwnChain(ctx context.Context) bool {
	began := time.Now()
	for {
		cfg := h.svc.View().Lease.Config
		var others []cluster.NodeID
		for _, v := range cfg.Voters {
			if v != h.id.node {
				others = append(others, v)
			}
		}
		if !cfg.IsZero() && len(others) == 0 {
			break
		}
		if len(others) == 0 {
			others = h.reachable()
		}
		try, cancel := context.WithTimeout(ctx, 2*time.Second)
		answered, _ := h.log.CheckOwnHead(try, others)
		cancel()
		if !cfg.IsZero() && answered+1 >= cfg.Majority() || cfg.Mode != cluster.ModeQuorum && time.Since(began) > 3*time.Second {
			break
		}
		if pause(ctx, 200*time.Millisecond) != nil {
			return false
		}
	}
	_, err := h.log.Append(ctx, []cluster.Draft{{
		Kind: cluster.KindHostStarted, Body: cluster.HostStarted{Version: "bench", Boot: h.id.boot},
	}})
	return err == nil
}

func (h *skeinHost) reachable() []cluster.NodeID {
	var out []cluster.NodeID
	for _, m := range h.svc.View().Members {
		if m.Node != h.id.node && m.Health == cluster.Alive {
			out = append(out, m.Node)
		}
	}
	return out
}

// crash stops h as a power cut does: its sockets are gone before anything else
// of it ends, so that it cannot say goodbye. It returns when that is so; wait
// waits for the rest.
func (t *trio) crash(h *skeinHost) (wait func()) {
	delete(t.up, h.id.node)
	h.socks.cut()
	h.cancel()
	return h.work.Wait
}

func (t *trio) close() error {
	for _, h := range t.up {
		t.crash(h)()
	}
	return nil
}

// holder is the host that may act, nil if there is not exactly one.
func (t *trio) holder() *skeinHost {
	var found *skeinHost
	for _, h := range t.up {
		if st := h.svc.View().Lease; st.Role == cluster.RoleHolder && h.svc.MayAct(st.Term) {
			if found != nil {
				return nil
			}
			found = h
		}
	}
	return found
}

// settled reports whether three voters agree on one holder, whose term is open
// and to whom the others are able to succeed.
func (t *trio) settled() bool {
	holder := t.holder()
	if holder == nil || len(t.up) != len(t.c.hosts) {
		return false
	}
	now := bootTime()
	for _, h := range t.up {
		v := h.svc.View()
		st := v.Lease
		if st.Holder != holder.id.node || len(st.Config.Voters) != len(t.c.hosts) || st.Pending || st.QuarantineUntil > now {
			return false
		}
		if h == holder && (!st.Ready || !t.seen.committed(st.Term)) {
			return false
		}
		if len(v.Members) != len(t.c.hosts) {
			return false
		}
		for _, m := range v.Members {
			if m.Health != cluster.Alive || !m.Eligible || !m.CaughtUp {
				return false
			}
		}
	}
	return true
}

func (m *moments) committed(term cluster.Term) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, x := range m.all {
		if x.term == term && !x.committed.IsZero() {
			return true
		}
	}
	return false
}

func (t *trio) settle(ctx context.Context) error {
	err := poll(ctx, "skein's three hosts settle", 3*time.Minute, t.settled)
	if err == nil {
		return nil
	}
	for _, h := range t.up {
		v := h.svc.View()
		err = fmt.Errorf("%w; %s: %+v", err, h.id.node, v.Lease)
		for _, m := range v.Members {
			err = fmt.Errorf("%w, %s %s eligible=%t caught_up=%t", err, m.Node, m.Health, m.Eligible, m.CaughtUp)
		}
	}
	return err
}

// next waits for the first term after t of another host than not, and for its
// first commit.
func (t *trio) next(ctx context.Context, since time.Time, not cluster.NodeID) (moment, error) {
	var got moment
	err := poll(ctx, "a new holder of skein commits", time.Minute, func() bool {
		var ok bool
		got, ok = t.seen.after(since, not)
		return ok && !got.committed.IsZero()
	})
	return got, err
}

// memoryStore is a coord.Store of hosts whose disk is not measured.
type memoryStore struct {
	mu    sync.Mutex
	vote  lease.VoteRecord
	found bool
}

func (m *memoryStore) LoadVote() (lease.VoteRecord, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.vote, m.found, nil
}

func (m *memoryStore) SaveVote(v lease.VoteRecord) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.vote, m.found = v, true
	return nil
}

func (m *memoryStore) SaveRecords(member.Records) error { return nil }

var _ coord.Store = (*memoryStore)(nil)
