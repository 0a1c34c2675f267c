package logbench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/skein-project/skein/bench/suite"
	"github.com/skein-project/skein/bench/testbed"
)

// writerCounts are how many goroutines append at once.
var writerCounts = []int{1, 64, mostWriters}

const mostWriters = 512

// hammer lets so many writers call f for d and returns the calls per second.
func hammer(writers int, d time.Duration, f func() error) (float64, error) {
	var n atomic.Int64
	var wg sync.WaitGroup
	errs := make(chan error, writers) // one slot each: never full
	began := time.Now()
	for range writers {
		wg.Go(func() {
			done := int64(0)
			defer func() { n.Add(done) }()
			for time.Since(began) < d {
				if err := f(); err != nil {
					errs <- err
					return
				}
				done++
			}
		})
	}
	wg.Wait()
	took := time.Since(began)
	select {
	case err := <-errs:
		return 0, err
	default:
		return float64(n.Load()) / took.Seconds(), nil
	}
}

// steady measures with f once settle is done. A busy machine may cost a cluster
// its leader meanwhile: then it measures anew, twice at most.
func steady(ctx context.Context, settle func(context.Context) error, f func() (float64, error)) (perSecond float64, err error) {
	for range 3 {
		if err := settle(ctx); err != nil {
			return 0, err
		}
		if perSecond, err = f(); err == nil {
			break
		}
	}
	return perSecond, err
}

// contender is one store of the comparison of appends.
type contender struct {
	name    string
	with    string                      // how it was set
	settle  func(context.Context) error // nil: it has no leader to lose
	open    func(dir string) (store, error)
	targets map[int]suite.Target // by number of writers
}

// contenders are the peers of the event log.
func contenders(peer *testbed.RaftTrio) []contender {
	return []contender{{
		name: "a bare file", with: "plain preallocated file, the same bytes per record, group commit with fdatasync, no hashes",
		open: openFile, targets: map[int]suite.Target{64: suite.Want("ratio", ">=", 0.8)},
	}, {
		name: "raft, 3 nodes", with: peerRaft + ", all nodes on one disk, 300-byte commands",
		settle: peer.Settle,
		open: func(string) (store, error) {
			leader := peer.Leader()
			if leader == nil {
				return nil, errors.New("raft has no leader")
			}
			return raftStore{leader}, nil
		},
		targets: map[int]suite.Target{64: suite.Want("ratio", ">=", 10)},
	}, {
		name: "pebble", with: "pebble v2.1.7, Set with Sync, its own commit pipeline, memory table of 64 MiB, 300-byte values",
		open: openPebble,
	}, {
		name: "SQLite", with: "SQLite (modernc.org/sqlite v1.61.1), WAL, synchronous=FULL, a transaction per group of waiting writers, 300-byte blobs",
		open: openSQLite,
	}, {
		name: "bbolt, grouped", with: "bbolt v1.5.0, a transaction per group of waiting writers, 300-byte values",
		open: openBoltGrouped,
	}, {
		name: "bbolt, each", with: "bbolt v1.5.0, Update per event, 300-byte values",
		open: openBoltEach,
	}}
}

// Appends compares durable appends. Every burst has a store of its own, so
// that what a store does in the background falls into nobody else's burst.
func Appends(ctx context.Context, s *suite.Suite, peer *testbed.RaftTrio) error {
	peers := contenders(peer)
	for _, writers := range writerCounts {
		rows := make([]suite.Series, len(peers))
		for i, c := range peers {
			rows[i] = suite.Series{
				Name: fmt.Sprintf("durable appends, %d writers, against %s", writers, c.name), Unit: "events/s",
				With: c.with, Target: c.targets[writers], Digest: suite.Median,
			}
		}
		b := burst{s: s, writers: writers, record: make([]byte, 300)}
		for round := range s.Size.Rounds + 1 {
			s.Progress("appends by %d writers, round %d of %d", writers, round, s.Size.Rounds)
			ours, figures, err := b.round(ctx, round, peers)
			if err != nil {
				return err
			}
			for i := range rows {
				if round > 0 { // the first warms up
					rows[i].Ours, rows[i].Peer = append(rows[i].Ours, ours), append(rows[i].Peer, figures[i])
				}
			}
		}
		for _, r := range rows {
			s.Add(r)
		}
	}
	return nil
}

// burst is one measurement with a number of writers.
type burst struct {
	s       *suite.Suite
	writers int
	record  []byte // what the peers store
	onDisk  int    // bytes that one of our events took
}

// round measures the event log and all peers, each round in another order and
// every other one backwards, so that nobody always has the same predecessor. In
// the first one the event log leads: the bare file writes as much as it.
func (b *burst) round(ctx context.Context, round int, peers []contender) (ours float64, figures []float64, err error) {
	figures = make([]float64, len(peers))
	all := len(peers) + 1
	for i := range all {
		if round%2 == 1 {
			i = all - i
		}
		at := (round + i) % all
		if at == 0 {
			ours, err = b.run(ctx, openLog, b.record)
		} else {
			record := b.record
			if at == 1 { // the bare file
				record = make([]byte, b.onDisk)
			}
			c := peers[at-1]
			run := func() (float64, error) { return b.run(ctx, c.open, record) }
			if c.settle != nil {
				figures[at-1], err = steady(ctx, c.settle, run)
			} else {
				figures[at-1], err = run()
			}
		}
		if err != nil {
			return 0, nil, err
		}
	}
	return ours, figures, nil
}

// run opens a store, lets it warm up and measures.
func (b *burst) run(ctx context.Context, open func(string) (store, error), record []byte) (perSecond float64, err error) {
	dir, err := os.MkdirTemp(b.s.Dir, "store-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	st, err := open(filepath.Join(dir))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, st.close()) }()
	f := func() error { return st.put(ctx, record) }
	if _, err := hammer(b.writers, b.s.Size.Burst/5, f); err != nil {
		return 0, err
	}
	if perSecond, err = hammer(b.writers, b.s.Size.Burst, f); err != nil {
		return 0, err
	}
	if l, ok := st.(*logStore); ok {
		b.onDisk = l.perEvent()
	}
	return perSecond, nil
}
