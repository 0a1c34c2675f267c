package logbench

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"github.com/skein-project/skein/bench/suite"
	"github.com/skein-project/skein/bench/testbed"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog"
)

// commits compares what three nodes commit, on the disks of a majority, which
// is one disk here.
func commits(ctx context.Context, s *suite.Suite, ours *testbed.Trio, peer *testbed.RaftTrio) error {
	const writers = 64
	row := suite.Series{
		Name: "replicated log, 3 nodes, 64 writers, 300 B", Unit: "commits/s", With: peerRaft,
		Target: suite.Want("ratio", ">=", 1), Digest: suite.Median,
	}
	command := make([]byte, 300)
	for i := range s.Size.Rounds + 1 {
		s.Progress("commits, round %d of %d", i, s.Size.Rounds)
		var a, b float64
		err := suite.InTurn(i, func() (err error) {
			a, err = steady(ctx, ours.Settle, func() (float64, error) {
				holder := ours.Holder()
				if holder == nil {
					return 0, errors.New("no holder to write to")
				}
				term := holder.Svc.View().Lease.Term
				if err := stable(ctx, holder.Log, testbed.Submission(term)); err != nil {
					return 0, err
				}
				draft := testbed.Draft(term)
				return hammer(writers, s.Size.Burst, func() error { return stable(ctx, holder.Log, draft) })
			})
			return err
		}, func() (err error) {
			b, err = steady(ctx, peer.Settle, func() (float64, error) {
				leader := peer.Leader()
				if leader == nil {
					return 0, errors.New("no leader to write to")
				}
				return hammer(writers, s.Size.Burst, func() error { return leader.Raft.Apply(command, 10*time.Second).Error() })
			})
			return err
		})
		if err != nil {
			return err
		}
		if i > 0 { // the first warms up
			row.Ours, row.Peer = append(row.Ours, a), append(row.Peer, b)
		}
	}
	s.Add(row)
	return nil
}

// stable appends an event and waits until a majority has it.
func stable(ctx context.Context, l *eventlog.Log, draft []event.Draft) error {
	events, err := l.Append(ctx, draft)
	if err != nil {
		return err
	}
	_, err = l.WaitStable(ctx, events[0].Seq)
	return err
}

// WithRaft starts three nodes of raft for a group.
func WithRaft(group func(context.Context, *suite.Suite, *testbed.RaftTrio) error) func(context.Context, *suite.Suite) error {
	return func(ctx context.Context, s *suite.Suite) error {
		peer, err := testbed.NewRaftTrio(ctx, filepath.Join(s.Dir, "raft-"+s.Group))
		if err != nil {
			return err
		}
		return errors.Join(group(ctx, s, peer), peer.Close())
	}
}
