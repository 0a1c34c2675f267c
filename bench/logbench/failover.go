package logbench

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/skein-project/skein/bench/suite"
	"github.com/skein-project/skein/bench/testbed"
	"github.com/skein-project/skein/cluster"
)

// peerRaft is what the rows say of the peer.
const peerRaft = "hashicorp/raft v1.7.3, DefaultConfig (heartbeat and election timeout 1 s), TCP transport, bbolt store with fsync"

// Takeover measures how long three hosts are without a holder: after a crash,
// and in a handover. Both clusters run side by side all the time; what is
// measured takes turns.
func Takeover(ctx context.Context, s *suite.Suite) error {
	ours, err := testbed.NewTrio(ctx, filepath.Join(s.Dir, "skein"), cluster.ProfileFast)
	if err != nil {
		return err
	}
	defer func() { _ = ours.Close() }() // the disks are thrown away
	peer, err := testbed.NewRaftTrio(ctx, filepath.Join(s.Dir, "raft"))
	if err != nil {
		return err
	}
	defer func() { _ = peer.Close() }()

	var crash, hand takeovers
	for i := range s.Size.Crashes {
		s.Progress("crash %d of %d", i+1, s.Size.Crashes)
		if err := suite.InTurn(i, func() error { return crash.ours(ctx, ours, crashOurs) }, func() error { return crash.theirs(ctx, peer, crashPeer) }); err != nil {
			return err
		}
	}
	for i := range s.Size.Handovers {
		s.Progress("handover %d of %d", i+1, s.Size.Handovers)
		if err := suite.InTurn(i, func() error { return hand.ours(ctx, ours, handOurs) }, func() error { return hand.theirs(ctx, peer, handPeer) }); err != nil {
			return err
		}
	}
	relative, second := suite.Want("ratio", "<=", 1), suite.Want("ours", "<=", 2600)
	row := func(name, unit string, t suite.Target, digest func([]float64) float64, ours, peer []float64) {
		s.Add(suite.Series{Name: name, Unit: unit, With: peerRaft, Target: t, Digest: digest, Ours: ours, Peer: peer})
	}
	row("crash failover to holder, fast, p50", "ms", relative, suite.Median, crash.oursHeld, crash.peerHeld)
	row("crash failover to holder, fast, p99", "ms", second, suite.P99, crash.oursHeld, crash.peerHeld)
	row("crash failover to first commit, fast, p50", "ms", relative, suite.Median, crash.oursDone, crash.peerDone)
	row("crash failover to first commit, fast, p99", "ms", second, suite.P99, crash.oursDone, crash.peerDone)
	row("handover to new holder, p50", "ms", suite.Want("ours", "<=", 100), suite.Median, hand.oursHeld, hand.peerHeld)
	row("handover to new holder, p99", "ms", suite.Want("ours", "<=", 100), suite.P99, hand.oursHeld, hand.peerHeld)
	return commits(ctx, s, ours, peer)
}

// takeovers are samples in milliseconds: until somebody else holds, and until
// its first effect is on the disks of a majority.
type takeovers struct {
	oursHeld, oursDone, peerHeld, peerDone []float64
}

// ready returns who leads a settled cluster at any moment of its timers. A busy
// machine may cost it that one meanwhile: then it is settled again.
func ready[H any](ctx context.Context, settle func(context.Context) error, leads func() *H) (*H, error) {
	for {
		if err := errors.Join(settle(ctx), suite.Phase(ctx)); err != nil {
			return nil, err
		}
		if h := leads(); h != nil {
			return h, nil
		}
	}
}

func (t *takeovers) ours(ctx context.Context, c *testbed.Trio, provoke func(context.Context, *testbed.Trio, *testbed.SkeinHost) (func() error, error)) error {
	holder, err := ready(ctx, c.Settle, c.Holder)
	if err != nil {
		return err
	}
	began := time.Now()
	mend, err := provoke(ctx, c, holder)
	if err != nil {
		return err
	}
	got, err := c.Next(ctx, began, holder.Id.Node)
	if err != nil {
		return err
	}
	t.oursHeld = append(t.oursHeld, suite.Ms(got.Acquired.Sub(began)))
	t.oursDone = append(t.oursDone, suite.Ms(got.Committed.Sub(began)))
	return mend()
}

// crashOurs cuts the holder off and stops it; mend starts it anew.
func crashOurs(_ context.Context, c *testbed.Trio, holder *testbed.SkeinHost) (mend func() error, err error) {
	wait := c.Crash(holder)
	return func() error {
		wait()
		return c.Start(holder.Id)
	}, nil
}

// handOurs asks the holder to hand over. It returns as soon as that is asked:
// the call itself ends when the old holder has let go.
func handOurs(ctx context.Context, _ *testbed.Trio, holder *testbed.SkeinHost) (mend func() error, err error) {
	asked := make(chan error, 1)
	go func() { asked <- holder.Svc.StepDown(ctx, "", "bench", false) }()
	return func() error {
		if err := <-asked; err != nil {
			return fmt.Errorf("handover of %s: %w", holder.Id.Node, err)
		}
		return nil
	}, nil
}

func (t *takeovers) theirs(ctx context.Context, c *testbed.RaftTrio, provoke func(*testbed.RaftTrio, *testbed.RaftNode) (func() error, error)) error {
	leader, err := ready(ctx, c.Settle, c.Leader)
	if err != nil {
		return err
	}
	began := time.Now()
	mend, err := provoke(c, leader)
	if err != nil {
		return err
	}
	got, err := c.Next(ctx, began, leader)
	if err != nil {
		return err
	}
	t.peerHeld = append(t.peerHeld, suite.Ms(got.At.Sub(began)))
	t.peerDone = append(t.peerDone, suite.Ms(got.Applied.Sub(began)))
	return mend()
}

func crashPeer(c *testbed.RaftTrio, leader *testbed.RaftNode) (mend func() error, err error) {
	wait := c.Crash(leader)
	return func() error {
		_ = wait() // its sockets were torn away
		return c.Start(leader.I)
	}, nil
}

func handPeer(_ *testbed.RaftTrio, leader *testbed.RaftNode) (mend func() error, err error) {
	asked := leader.Raft.LeadershipTransfer()
	return func() error {
		_ = asked.Error() // another node leads by now, even if this one waited for it in vain
		return nil
	}, nil
}
