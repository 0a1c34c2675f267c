package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"time"

	"github.com/skein-project/skein/cluster"
)

// peerRaft is what the rows say of the peer.
const peerRaft = "hashicorp/raft v1.7.3, DefaultConfig (heartbeat and election timeout 1 s), TCP transport, bbolt store with fsync"

// takeover measures how long three hosts are without a holder: after a crash,
// and in a handover. Both clusters run side by side all the time; what is
// measured takes turns.
func takeover(ctx context.Context, s *suite) error {
	ours, err := newTrio(ctx, filepath.Join(s.dir, "skein"), cluster.ProfileFast)
	if err != nil {
		return err
	}
	defer func() { _ = ours.close() }() // the disks are thrown away
	peer, err := newRaftTrio(ctx, filepath.Join(s.dir, "raft"))
	if err != nil {
		return err
	}
	defer func() { _ = peer.close() }()

	var crash, hand takeovers
	for i := range s.size.crashes {
		s.progress("crash %d of %d", i+1, s.size.crashes)
		if err := inTurn(i, func() error { return crash.ours(ctx, ours, crashOurs) }, func() error { return crash.theirs(ctx, peer, crashPeer) }); err != nil {
			return err
		}
	}
	for i := range s.size.handovers {
		s.progress("handover %d of %d", i+1, s.size.handovers)
		if err := inTurn(i, func() error { return hand.ours(ctx, ours, handOurs) }, func() error { return hand.theirs(ctx, peer, handPeer) }); err != nil {
			return err
		}
	}
	relative, second := target{"ratio", "<=", 1}, target{"ours", "<=", 2600}
	row := func(name, unit string, t target, digest func([]float64) float64, ours, peer []float64) {
		s.add(series{name: name, unit: unit, with: peerRaft, target: t, digest: digest, ours: ours, peer: peer})
	}
	row("crash failover to holder, fast, p50", "ms", relative, median, crash.oursHeld, crash.peerHeld)
	row("crash failover to holder, fast, p99", "ms", second, p99, crash.oursHeld, crash.peerHeld)
	row("crash failover to first commit, fast, p50", "ms", relative, median, crash.oursDone, crash.peerDone)
	row("crash failover to first commit, fast, p99", "ms", second, p99, crash.oursDone, crash.peerDone)
	row("handover to new holder, p50", "ms", target{"ours", "<=", 100}, median, hand.oursHeld, hand.peerHeld)
	row("handover to new holder, p99", "ms", target{"ours", "<=", 100}, p99, hand.oursHeld, hand.peerHeld)
	return commits(ctx, s, ours, peer)
}

// inTurn runs both, and changes who goes first.
func inTurn(round int, ours, peer func() error) error {
	if round%2 == 1 {
		ours, peer = peer, ours
	}
	if err := ours(); err != nil {
		return err
	}
	return peer()
}

// takeovers are samples in milliseconds: until somebody else holds, and until
// its first effect is on the disks of a majority.
type takeovers struct {
	oursHeld, oursDone, peerHeld, peerDone []float64
}

// phase waits up to half a second more, so that the rounds do not start in
// step with anyone's timers.
func phase(ctx context.Context) error {
	return pause(ctx, time.Duration(rand.Int64N(int64(500*time.Millisecond))))
}

// ready returns who leads a settled cluster at any moment of its timers. A busy
// machine may cost it that one meanwhile: then it is settled again.
func ready[H any](ctx context.Context, settle func(context.Context) error, leads func() *H) (*H, error) {
	for {
		if err := errors.Join(settle(ctx), phase(ctx)); err != nil {
			return nil, err
		}
		if h := leads(); h != nil {
			return h, nil
		}
	}
}

func (t *takeovers) ours(ctx context.Context, c *trio, provoke func(context.Context, *trio, *skeinHost) (func() error, error)) error {
	holder, err := ready(ctx, c.settle, c.holder)
	if err != nil {
		return err
	}
	began := time.Now()
	mend, err := provoke(ctx, c, holder)
	if err != nil {
		return err
	}
	got, err := c.next(ctx, began, holder.id.node)
	if err != nil {
		return err
	}
	t.oursHeld = append(t.oursHeld, ms(got.acquired.Sub(began)))
	t.oursDone = append(t.oursDone, ms(got.committed.Sub(began)))
	return mend()
}

// crashOurs cuts the holder off and stops it; mend starts it anew.
func crashOurs(_ context.Context, c *trio, holder *skeinHost) (mend func() error, err error) {
	wait := c.crash(holder)
	return func() error {
		wait()
		return c.start(holder.id)
	}, nil
}

// handOurs asks the holder to hand over. It returns as soon as that is asked:
// the call itself ends when the old holder has let go.
func handOurs(ctx context.Context, _ *trio, holder *skeinHost) (mend func() error, err error) {
	asked := make(chan error, 1)
	go func() { asked <- holder.svc.StepDown(ctx, "", "bench", false) }()
	return func() error {
		if err := <-asked; err != nil {
			return fmt.Errorf("handover of %s: %w", holder.id.node, err)
		}
		return nil
	}, nil
}

func (t *takeovers) theirs(ctx context.Context, c *raftTrio, provoke func(*raftTrio, *raftNode) (func() error, error)) error {
	leader, err := ready(ctx, c.settle, c.leader)
	if err != nil {
		return err
	}
	began := time.Now()
	mend, err := provoke(c, leader)
	if err != nil {
		return err
	}
	got, err := c.next(ctx, began, leader)
	if err != nil {
		return err
	}
	t.peerHeld = append(t.peerHeld, ms(got.at.Sub(began)))
	t.peerDone = append(t.peerDone, ms(got.applied.Sub(began)))
	return mend()
}

func crashPeer(c *raftTrio, leader *raftNode) (mend func() error, err error) {
	wait := c.crash(leader)
	return func() error {
		_ = wait() // its sockets were torn away
		return c.start(leader.i)
	}, nil
}

func handPeer(_ *raftTrio, leader *raftNode) (mend func() error, err error) {
	asked := leader.raft.LeadershipTransfer()
	return func() error {
		_ = asked.Error() // another node leads by now, even if this one waited for it in vain
		return nil
	}, nil
}
