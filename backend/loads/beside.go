package loads

import (
	"context"
	"slices"
	"sync"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/config"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/load/slice"
)

// Term is what goes on while this host holds the lease.
type Term interface {
	Run(ctx context.Context, term cluster.Term) error
	Quiesce(ctx context.Context) error
}

// Beside carries out load tests while a scheduler runs.
func (l *Loads) Beside(s Term) Term { return both{s, l} }

type both struct {
	Term
	l *Loads
}

// Run implements Term.
func (b both) Run(ctx context.Context, term cluster.Term) error {
	ctx, cancel := context.WithCancel(ctx)
	var serving sync.WaitGroup
	defer serving.Wait()
	defer cancel()
	serving.Go(func() { b.l.Run(ctx, term) })
	return b.Term.Run(ctx, term)
}

// Allowed is what [load] of the configuration allows.
func Allowed(c config.LoadTests) slice.Allowed {
	return slice.Allowed{
		Enabled: c.Enabled, Owners: c.Owners, Targets: c.Targets, MaxRate: float64(c.MaxRate), MaxUsers: int(c.MaxUsers), Secrets: c.Secrets, User: c.User,
	}
}

// MemberOf reports whether an owner is in a group, by the log.
func MemberOf(log interface{ View(func(*state.State)) }) func(owner, group string) bool {
	return func(owner, group string) (in bool) {
		log.View(func(s *state.State) {
			g, _ := s.Group(group)
			_, in = slices.BinarySearch(g.Members, owner)
		})
		return in
	}
}
