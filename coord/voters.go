package coord

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/internal/wait"
	"github.com/skein-project/skein/lease"
)

// SetVoters asks the lease core, on the holder, for other voters or another
// mode, and waits until the wish is in a stable voter configuration, which a
// later holder follows as well; the changes themselves come afterwards, one at
// a time. An error wraps ErrNotHolder, or lease.ErrVoters if the request cannot
// be followed, and nothing changed then; or it wraps that of ctx, and the wish
// may come true all the same.
func (l *Lease) SetVoters(ctx context.Context, r lease.SetVoters) error {
	return l.ChangeVoters(ctx, func(*View) (lease.SetVoters, error) { return r, nil })
}

// ChangeVoters is SetVoters for a wish that depends on the present one: want
// is called once, between two steps of the lease core, with a view that has
// all wishes before. Its error is returned, and nothing changed then.
func (l *Lease) ChangeVoters(ctx context.Context, want func(*View) (lease.SetVoters, error)) error {
	var refused error
	var term cluster.Term
	var epoch uint64
	err := l.loop.call(ctx, func() {
		term, epoch, refused = l.elector.Change(func() (lease.SetVoters, error) {
			l.views.publish(l.now())
			return want(l.views.latest.Load())
		})
	})
	switch {
	case err != nil:
		return fmt.Errorf("set voters: %w", err)
	case errors.Is(refused, lease.ErrNotHolding):
		return fmt.Errorf("set voters: %w", ErrNotHolder)
	case refused != nil:
		return refused
	}
	for {
		var st lease.Status
		if err := l.loop.call(ctx, func() { st = l.elector.Status() }); err != nil {
			return fmt.Errorf("set voters: %w", err)
		}
		switch {
		case st.Role != cluster.RoleHolder || st.Term != term:
			return fmt.Errorf("set voters: %w: the lease was lost before enough voters agreed", ErrNotHolder)
		case st.Stable.Term == term && st.Stable.Epoch >= epoch:
			return nil
		}
		if err := wait.For(ctx, 5*time.Millisecond); err != nil {
			return fmt.Errorf("set voters: not agreed to by enough voters: %w", err)
		}
	}
}

// VoteLost tells the lease core that promises of this voter are not known any
// more: the other hosts know more of its log than its own disk does, or the
// like. The host abstains, across restarts, until the holder has taken it out
// of the voters and in again.
func (l *Lease) VoteLost(reason string) {
	l.loop.post(func() { l.elector.Step(lease.VoteLost{Reason: reason}) })
}
