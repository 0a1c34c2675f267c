package testbed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"

	"github.com/skein-project/skein/bench/suite"
)

// RaftTrio is a cluster of three hashicorp/raft nodes with the library's
// default configuration and its usual store, bbolt with fsync.
type RaftTrio struct {
	dir   string
	addrs []raft.ServerAddress
	up    map[int]*RaftNode
	lead  leaderships
}

// RaftNode is one of the three.
type RaftNode struct {
	I     int
	Raft  *raft.Raft
	trans *raft.NetworkTransport
	layer *streamLayer
	store *raftboltdb.BoltStore
	stop  chan struct{} // closed to end the watcher
	work  sync.WaitGroup

	Applied *applied
}

// leadership is when a node became leader, and when its first command was
// committed and applied.
type leadership struct {
	node        *RaftNode
	At, Applied time.Time
}

// leaderships collects what the nodes' watchers saw.
type leaderships struct {
	mu  sync.Mutex
	all []leadership
}

func (l *leaderships) add(x leadership) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, x)
}

func (l *leaderships) after(t time.Time, not *RaftNode) (leadership, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, x := range l.all {
		if !x.At.Before(t) && x.node != not {
			return x, true
		}
	}
	return leadership{}, false
}

// NewRaftTrio starts three nodes and waits for a leader.
func NewRaftTrio(ctx context.Context, dir string) (*RaftTrio, error) {
	t := &RaftTrio{dir: dir, up: map[int]*RaftNode{}}
	prefix := Subnet(2)
	for i := range 3 {
		addr := netip.AddrFrom4([4]byte{prefix[0], prefix[1], prefix[2], byte(i + 1)})
		port, err := FreePort(addr)
		if err != nil {
			return nil, fmt.Errorf("raft: %w", err)
		}
		t.addrs = append(t.addrs, raft.ServerAddress(netip.AddrPortFrom(addr, port).String()))
	}
	if err := t.begin(ctx); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

func (t *RaftTrio) begin(ctx context.Context) error {
	for i := range t.addrs {
		if err := t.Start(i); err != nil {
			return err
		}
	}
	var servers []raft.Server
	for i, a := range t.addrs {
		servers = append(servers, raft.Server{ID: t.id(i), Address: a})
	}
	if err := t.up[0].Raft.BootstrapCluster(raft.Configuration{Servers: servers}).Error(); err != nil {
		return fmt.Errorf("raft: %w", err)
	}
	return t.Settle(ctx)
}

func (t *RaftTrio) id(i int) raft.ServerID { return raft.ServerID(fmt.Sprintf("node-%d", i+1)) }

// Start starts node i with what is on its disk.
func (t *RaftTrio) Start(i int) error {
	dir := filepath.Join(t.dir, string(t.id(i)))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	n := &RaftNode{I: i, stop: make(chan struct{}), Applied: &applied{}}
	var err error
	if n.store, err = raftboltdb.New(raftboltdb.Options{Path: filepath.Join(dir, "raft.db")}); err != nil {
		return fmt.Errorf("raft: %w", err)
	}
	snaps, err := raft.NewFileSnapshotStore(dir, 1, io.Discard)
	if err != nil {
		return errors.Join(fmt.Errorf("raft: %w", err), n.store.Close())
	}
	log := hclog.NewNullLogger()
	l, err := net.Listen("tcp4", string(t.addrs[i]))
	if err != nil {
		return errors.Join(fmt.Errorf("raft: %w", err), n.store.Close())
	}
	n.layer = &streamLayer{Listener: l, streams: newStreams(&Meter{})}
	n.trans = raft.NewNetworkTransportWithLogger(n.layer, 3, 10*time.Second, log)
	leading := make(chan bool, 16) // read at once by the watcher; full: raft waits
	cfg := raft.DefaultConfig()
	cfg.LocalID, cfg.Logger, cfg.NotifyCh = t.id(i), log, leading
	if n.Raft, err = raft.NewRaft(cfg, n.Applied, n.store, n.store, snaps, n.trans); err != nil {
		return errors.Join(fmt.Errorf("raft: %w", err), n.trans.Close(), n.store.Close())
	}
	n.work.Go(func() {
		for {
			select {
			case <-n.stop:
				return
			case is := <-leading:
				if !is {
					continue
				}
				x := leadership{node: n, At: time.Now()}
				if n.Raft.Apply([]byte("first"), 5*time.Second).Error() == nil {
					x.Applied = time.Now()
					t.lead.add(x)
				}
			}
		}
	})
	t.up[i] = n
	return nil
}

// Crash takes the node's sockets away and then stops it.
func (t *RaftTrio) Crash(n *RaftNode) (wait func() error) {
	delete(t.up, n.I)
	n.layer.Close()
	n.layer.streams.cut()
	return func() error {
		stopped := n.Raft.Shutdown().Error()
		close(n.stop)
		n.work.Wait()
		return errors.Join(stopped, n.trans.Close(), n.store.Close())
	}
}

// streamLayer is raft's plain TCP layer with streams that can be cut: the
// transport's own Close would let a leader go on dialling.
type streamLayer struct {
	net.Listener
	streams *streams
}

func (l *streamLayer) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return l.streams.keep(c)
}

// Dial implements raft.StreamLayer.
func (l *streamLayer) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	c, err := net.DialTimeout("tcp", string(address), timeout)
	if err != nil {
		return nil, err
	}
	return l.streams.keep(c)
}

// Close crashes all that run.
func (t *RaftTrio) Close() error {
	var errs []error
	for _, n := range t.up {
		errs = append(errs, t.Crash(n)())
	}
	return errors.Join(errs...)
}

// Leader is the node that leads, or nil.
func (t *RaftTrio) Leader() *RaftNode {
	for _, n := range t.up {
		if n.Raft.State() == raft.Leader {
			return n
		}
	}
	return nil
}

// Settle waits until there is a leader whose log all have.
func (t *RaftTrio) Settle(ctx context.Context) error {
	return suite.Poll(ctx, "raft's three nodes settle", time.Minute, func() bool {
		l := t.Leader()
		if l == nil || len(t.up) != len(t.addrs) || l.Raft.VerifyLeader().Error() != nil {
			return false
		}
		for _, n := range t.up {
			at, _ := n.Raft.LeaderWithID()
			if n.Raft.LastIndex() != l.Raft.LastIndex() || at != t.addrs[l.I] || n.Raft.AppliedIndex() != l.Raft.AppliedIndex() {
				return false
			}
		}
		return true
	})
}

// Next waits for the first leader after since that commits.
func (t *RaftTrio) Next(ctx context.Context, since time.Time, not *RaftNode) (leadership, error) {
	var got leadership
	err := suite.Poll(ctx, "a new raft leader commits", time.Minute, func() bool {
		var ok bool
		got, ok = t.lead.after(since, not)
		return ok
	})
	return got, err
}

// Follower is a node other than the leader of a settled cluster.
func (t *RaftTrio) Follower(leader *RaftNode) *RaftNode {
	for _, n := range t.up {
		if n != leader {
			return n
		}
	}
	return nil
}

// applied is a state machine that only notes how far it is.
type applied struct {
	nothing

	mu   sync.Mutex
	last uint64
	want uint64        // 0: nobody waits
	got  chan struct{} // closed when last reaches want
}

// Apply implements raft.FSM.
func (a *applied) Apply(l *raft.Log) any {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.last = l.Index; a.want > 0 && a.last >= a.want {
		close(a.got)
		a.want = 0
	}
	return nil
}

// Wait returns how long after began the command at index was applied. One
// goroutine may wait at a time.
func (a *applied) Wait(ctx context.Context, index uint64, began time.Time) (time.Duration, error) {
	a.mu.Lock()
	there := a.last >= index
	if !there {
		a.want, a.got = index, make(chan struct{})
	}
	got := a.got
	a.mu.Unlock()
	if there {
		return time.Since(began), nil
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	select {
	case <-got:
		return time.Since(began), nil
	case <-ctx.Done():
		return 0, fmt.Errorf("raft's follower does not apply: %w", context.Cause(ctx))
	}
}

// nothing is a state machine without state.
type nothing struct{}

func (nothing) Snapshot() (raft.FSMSnapshot, error) { return nothing{}, nil }
func (nothing) Restore(r io.ReadCloser) error       { return r.Close() }
func (nothing) Persist(s raft.SnapshotSink) error   { return s.Close() }
func (nothing) Release()                            {}
