package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"path/filepath"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/eventlog"
)

// draft is of an event that takes about 300 bytes on disk.
func draft() []cluster.Draft {
	return []cluster.Draft{{Kind: cluster.KindHostStarted, Body: cluster.HostStarted{Version: strings.Repeat("x", 150)}}}
}

// commits compares what three nodes commit, on the disks of a majority, which
// is one disk here.
func commits(ctx context.Context, s *suite, ours *trio, peer *raftTrio) error {
	const writers = 64
	row := series{
		name: "replicated log, 3 nodes, 64 writers, 300 B", unit: "commits/s", with: peerRaft,
		target: target{"ratio", ">=", 1}, digest: median,
	}
	command := make([]byte, 300)
	for i := range s.size.rounds + 1 {
		s.progress("commits, round %d of %d", i, s.size.rounds)
		var a, b float64
		err := inTurn(i, func() (err error) {
			a, err = steady(ctx, ours.settle, func() (float64, error) {
				holder := ours.holder()
				if holder == nil {
					return 0, errors.New("no holder to write to")
				}
				return hammer(writers, s.size.burst, func() error { return stable(ctx, holder.log) })
			})
			return err
		}, func() (err error) {
			b, err = steady(ctx, peer.settle, func() (float64, error) {
				leader := peer.leader()
				if leader == nil {
					return 0, errors.New("no leader to write to")
				}
				return hammer(writers, s.size.burst, func() error { return leader.raft.Apply(command, 10*time.Second).Error() })
			})
			return err
		})
		if err != nil {
			return err
		}
		if i > 0 { // the first warms up
			row.ours, row.peer = append(row.ours, a), append(row.peer, b)
		}
	}
	s.add(row)
	return nil
}

// stable appends an event and waits until a majority has it.
func stable(ctx context.Context, l *eventlog.Log) error {
	events, err := l.Append(ctx, draft())
	if err != nil {
		return err
	}
	_, err = l.WaitStable(ctx, events[0].Seq)
	return err
}

// logOptions are those of a log that no other host shares. It may write under
// any term.
func logOptions(dir string) (eventlog.Options, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	return eventlog.Options{
		Dir: dir, Cluster: "bench", Self: "host-001", Key: key, MayAct: anyTerm, PullEvery: -1, Logger: zerolog.Nop(),
	}, err
}

func anyTerm(cluster.Term) bool { return true }

// withRaft starts three nodes of raft for a group.
func withRaft(group func(context.Context, *suite, *raftTrio) error) func(context.Context, *suite) error {
	return func(ctx context.Context, s *suite) error {
		peer, err := newRaftTrio(ctx, filepath.Join(s.dir, "raft-"+s.group))
		if err != nil {
			return err
		}
		return errors.Join(group(ctx, s, peer), peer.close())
	}
}

// runLog opens a log and runs it until stop is called, which returns how it
// ended.
func runLog(o eventlog.Options) (l *eventlog.Log, stop func() error, err error) {
	if l, err = eventlog.Open(o); err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	return l, func() error {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			return err
		}
		return nil
	}, nil
}
