package membership

import (
	"context"
	"slices"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord"
	"github.com/skein-project/skein/coord/join/token"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/forward"
)

const (
	// ephemeralLife is how long an ephemeral member may be dead before a sponsor removes it,
	// ephemeralEvery how often sponsors look.
	ephemeralLife  = time.Hour
	ephemeralEvery = time.Minute
	// ephemeralTurn is how much later the next sponsor does what the one before it did not.
	ephemeralTurn = 5 * time.Minute
	// drainTime is how long an ephemeral member that stops lets its chunks go on before it
	// leaves.
	drainTime = 15 * time.Second
	// EphemeralGrace bounds the stop of an ephemeral member, as far as it is about leaving.
	EphemeralGrace = drainTime + 10*time.Second
	// ephemeralActor is who removes ephemeral members.
	ephemeralActor = "sponsor"
)

// View shows the fold of the log.
type View interface{ View(func(*state.State)) }

// ephemeral reports whether a member joined by an invite for ephemeral ones.
func ephemeral(clusterSecret []byte, m state.Member) bool {
	return token.Ephemeral(clusterSecret, m.Invite, m.Sponsor)
}

// turn is how many other sponsors come before this one in removing members; others are
// the sponsors that live. Those that see the same hosts take turns.
func turn(self cluster.NodeID, others []cluster.NodeID) (n int) {
	for _, o := range others {
		if o < self {
			n++
		}
	}
	return n
}

// gone lists the ephemeral members that have been dead for ephemeralLife, by the log and
// by what this host knows, and for as long again as the sponsors before this one have to
// act.
func gone(clusterSecret []byte, logged []state.Member, dead func(cluster.NodeID) bool, turn int, now time.Time) (out []cluster.NodeID) {
	for _, m := range logged {
		if m.Status == state.MemberJoined && m.Health == cluster.Dead && now.Sub(m.HealthAt.Time()) >= ephemeralLife+time.Duration(turn)*ephemeralTurn &&
			ephemeral(clusterSecret, m) && dead(m.Node) {
			out = append(out, m.Node)
		}
	}
	return out
}

// reap removes ephemeral members that are dead, until ctx ends. Sponsors take turns, by
// name, so that one of them removes a member, signs that and logs it; the next finds
// nothing to do.
func (s *Sponsor) reap(ctx context.Context) {
	tick := time.NewTicker(ephemeralEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if !s.Active() || s.o.Log == nil {
			continue
		}
		var logged []state.Member
		s.o.Log.View(func(st *state.State) { logged = st.Members() })
		view := s.o.Coord.View()
		dead := func(n cluster.NodeID) bool {
			i := slices.IndexFunc(view.Members, func(m coord.MemberView) bool { return m.Node == n })
			return i >= 0 && view.Members[i].Health == cluster.Dead
		}
		for _, n := range gone(s.o.Identity.ClusterSecret(), logged, dead, turn(s.o.Identity.Node, s.o.Others()), s.o.Wall()) {
			by := forward.Asker{From: s.o.Identity.Node, Self: s.o.Identity.Node, Actor: forward.At(ephemeralActor, s.o.Identity.Node)}
			if _, err := s.Remove(ctx, by, forward.RemoveNode{Node: n, Reason: "ephemeral, and dead for an hour"}); err != nil {
				s.o.Logger.Warn().Err(err).Str("peer", string(n)).Msg("dead ephemeral member not removed")
			}
		}
	}
}

// Ephemeral reports whether this host leaves when it stops: by its configuration, or by the
// invite with which it joined.
func (s *Own) Ephemeral() bool {
	if s.o.Ephemeral {
		return true
	}
	is := false
	if s.o.Log != nil {
		s.o.Log.View(func(st *state.State) {
			for _, m := range st.Members() {
				is = is || m.Node == s.o.Identity.Node && ephemeral(s.o.Identity.ClusterSecret(), m)
			}
		})
	}
	return is
}

// Stop drains the worker and leaves the cluster, if this host is ephemeral and was not told
// to leave before.
func (s *Own) Stop(ctx context.Context) error {
	if s.left.Load() || !s.Ephemeral() {
		return nil
	}
	draining, cancel := context.WithTimeout(ctx, drainTime)
	err := s.o.Drain(draining)
	cancel()
	if err != nil {
		s.o.Logger.Warn().Err(err).Msg("leaves with work that has not ended")
	}
	_, err = s.Leave(ctx, "stop@"+string(s.o.Identity.Node))
	return err
}
