package testbed

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
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/coord"
	"github.com/skein-project/skein/coord/member"
	coordstore "github.com/skein-project/skein/coord/store"
	"github.com/skein-project/skein/eventlog"
	"github.com/skein-project/skein/eventlog/wire"
	"github.com/skein-project/skein/lease"
)

// Trio is a skein cluster of three voters with logs and vote stores on disk.
type Trio struct {
	c    *SkeinCluster
	dir  string
	up   map[cluster.NodeID]*SkeinHost
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
		case x.Acquired.Before(t) || x.node == not:
		case got.term == 0 || x.term == got.term && x.node == got.node:
			got = x
		}
	}
	return got, got.term != 0
}

// SkeinHost is one that runs.
type SkeinHost struct {
	Id     *Identity
	Svc    *coord.Service
	Log    *eventlog.Log
	socks  *Sockets
	cancel context.CancelFunc
	work   sync.WaitGroup
}

// NewTrio starts three hosts and waits until all of them vote.
func NewTrio(ctx context.Context, dir string, profile cluster.Profile) (*Trio, error) {
	c, err := NewSkein(3, profile, 1)
	if err != nil {
		return nil, err
	}
	t := &Trio{c: c, dir: dir, up: map[cluster.NodeID]*SkeinHost{}}
	for i, id := range c.Hosts {
		if err := t.Start(id); err != nil {
			return nil, errors.Join(err, t.Close())
		}
		if i == 0 {
			err := suite.Poll(ctx, "the founder holds", 10*time.Second, func() bool { return t.Holder() != nil })
			if err != nil {
				return nil, errors.Join(err, t.Close())
			}
		}
	}
	if err := t.up[c.Hosts[0].Node].Svc.AddRecords(ctx, c.Records()); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	if err := t.Settle(ctx); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

// Start starts a host with what is on its disk.
func (t *Trio) Start(id *Identity) error {
	dir := filepath.Join(t.dir, string(id.Node))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	o, socks, err := t.c.Options(id, coordstore.New(dir, t.c.Verifier.Cluster, id.Node))
	if err != nil {
		return err
	}
	h := &SkeinHost{Id: id, socks: socks}
	h.Log, err = eventlog.Open(eventlog.Options{
		Dir: filepath.Join(dir, "log"), Cluster: t.c.Verifier.Cluster.String(), Self: id.Node, Key: id.Key, KeyOf: t.c.KeyOf,
		MayAct:   func(term cluster.Term) bool { return h.Svc.MayAct(term) },
		Promised: func() cluster.Term { return h.Svc.PromisedTerm() },
		Dial: func(ctx context.Context, to cluster.NodeID) (net.Conn, error) {
			return h.Svc.Dial(ctx, to, wire.Proto)
		},
		Peers: h.reachable, Logger: zerolog.Nop(),
	})
	if err != nil {
		socks.Cut()
		return err
	}
	o.Log = func() coord.LogState {
		var n uint64
		for _, head := range h.Log.Heads() {
			n += head.Seq
		}
		return coord.LogState{Digest: h.Log.Digest(), Events: n}
	}
	if h.Svc, err = coord.New(o); err != nil {
		socks.Cut()
		return errors.Join(err, h.Log.Close())
	}
	h.Svc.Handle(wire.Proto, h.Log.Serve)
	h.run(t.c.profile, t.seen.add)
	t.up[id.Node] = h
	return nil
}

// run starts the goroutines of h; they end when h.cancel was called.
func (h *SkeinHost) run(profile cluster.Profile, note func(moment)) {
	ctx, cancel := context.WithCancel(context.Background())
	h.cancel = cancel
	ready := make(chan struct{})
	d := &duty{svc: h.Svc, log: h.Log, profile: profile, ready: ready, note: note}
	h.work.Go(func() { _ = h.Log.Run(ctx) }) // a host that was cut ends with errors
	h.work.Go(func() { _ = h.Svc.Run(ctx) })
	h.work.Go(func() { d.run(ctx) })
	h.work.Go(func() {
		if h.confirmOwnChain(ctx) {
			close(ready)
		}
	})
}

// confirmOwnChain asks the voters for the own chain before anything is
// appended, as the daemon does, and writes the first event.
func (h *SkeinHost) confirmOwnChain(ctx context.Context) bool {
	began := time.Now()
	for {
		cfg := h.Svc.View().Lease.Config
		var others []cluster.NodeID
		for _, v := range cfg.Voters {
			if v != h.Id.Node {
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
		answered, _ := h.Log.CheckOwnHead(try, others)
		cancel()
		if !cfg.IsZero() && answered+1 >= cfg.Majority() || cfg.Mode != cluster.ModeQuorum && time.Since(began) > 3*time.Second {
			break
		}
		if suite.Pause(ctx, 200*time.Millisecond) != nil {
			return false
		}
	}
	_, err := h.Log.Append(ctx, []event.Draft{{
		Kind: event.KindHostStarted, Body: event.HostStarted{Version: "bench", Boot: h.Id.Boot},
	}})
	return err == nil
}

func (h *SkeinHost) reachable() []cluster.NodeID {
	var out []cluster.NodeID
	for _, m := range h.Svc.View().Members {
		if m.Node != h.Id.Node && m.Health == cluster.Alive {
			out = append(out, m.Node)
		}
	}
	return out
}

// Crash stops h as a power cut does: its sockets are gone before anything else
// of it ends, so that it cannot say goodbye. It returns when that is so; wait
// waits for the rest.
func (t *Trio) Crash(h *SkeinHost) (wait func()) {
	delete(t.up, h.Id.Node)
	h.socks.Cut()
	h.cancel()
	return h.work.Wait
}

// Close crashes all that run.
func (t *Trio) Close() error {
	for _, h := range t.up {
		t.Crash(h)()
	}
	return nil
}

// Holder is the host that may act, nil if there is not exactly one.
func (t *Trio) Holder() *SkeinHost {
	var found *SkeinHost
	for _, h := range t.up {
		if st := h.Svc.View().Lease; st.Role == cluster.RoleHolder && h.Svc.MayAct(st.Term) {
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
func (t *Trio) settled() bool {
	holder := t.Holder()
	if holder == nil || len(t.up) != len(t.c.Hosts) {
		return false
	}
	now := bootTime()
	for _, h := range t.up {
		v := h.Svc.View()
		st := v.Lease
		if st.Holder != holder.Id.Node || len(st.Config.Voters) != len(t.c.Hosts) || st.Pending || st.QuarantineUntil > now {
			return false
		}
		if h == holder && (!st.Ready || !t.seen.committed(st.Term)) {
			return false
		}
		if len(v.Members) != len(t.c.Hosts) {
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
		if x.term == term && !x.Committed.IsZero() {
			return true
		}
	}
	return false
}

// Settle waits until one holds and the others follow.
func (t *Trio) Settle(ctx context.Context) error {
	err := suite.Poll(ctx, "skein's three hosts settle", 3*time.Minute, t.settled)
	if err == nil {
		return nil
	}
	for _, h := range t.up {
		v := h.Svc.View()
		err = fmt.Errorf("%w; %s: %+v", err, h.Id.Node, v.Lease)
		for _, m := range v.Members {
			err = fmt.Errorf("%w, %s %s eligible=%t caught_up=%t", err, m.Node, m.Health, m.Eligible, m.CaughtUp)
		}
	}
	return err
}

// Next waits for the first term after t of another host than not, and for its
// first commit.
func (t *Trio) Next(ctx context.Context, since time.Time, not cluster.NodeID) (moment, error) {
	var got moment
	err := suite.Poll(ctx, "a new holder of skein commits", time.Minute, func() bool {
		var ok bool
		got, ok = t.seen.after(since, not)
		return ok && !got.Committed.IsZero()
	})
	return got, err
}

// MemoryStore is a coord.Store of hosts whose disk is not measured.
type MemoryStore struct {
	mu    sync.Mutex
	vote  lease.VoteRecord
	found bool
}

// LoadVote returns what SaveVote got last.
func (m *MemoryStore) LoadVote() (lease.VoteRecord, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.vote, m.found, nil
}

// SaveVote keeps the vote.
func (m *MemoryStore) SaveVote(v lease.VoteRecord) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.vote, m.found = v, true
	return nil
}

// SaveRecords forgets them.
func (m *MemoryStore) SaveRecords(member.Records) error { return nil }

var _ coord.Store = (*MemoryStore)(nil)
