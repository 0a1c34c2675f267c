package daemon

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/journal"
	"github.com/skein-project/skein/membership"
	"github.com/skein-project/skein/membership/deviceplan"
	"github.com/skein-project/skein/scheduler"
)

// readTableTime bounds one look at the table of members.
const readTableTime = 2 * time.Second

// errAddress ends the daemon when a sponsor gave this host another address, on
// which its sockets are not.
var errAddress = errors.New("this host has a new mesh address: start again")

// follower makes the rest of the daemon follow what coordination learns.
type follower struct {
	peers   *peers
	roster  *membership.Roster
	planner *deviceplan.Planner
	sched   *scheduler.Scheduler
	beliefs *journal.Members
	members *members
	bound   netip.Addr // the mesh address that the sockets have
	finish  func(error)
	log     zerolog.Logger
}

// onMembers makes the rest of the daemon follow the membership. A host that
// finds itself removed ends: without the others it can do nothing, and its key
// is refused for ever.
func (f *follower) onMembers(ms []cluster.Member) {
	next := member.Roster{Members: ms, Retired: f.roster.Retired()}
	ctx, cancel := context.WithTimeout(context.Background(), readTableTime)
	defer cancel()
	if err := f.peers.svc.WithTable(ctx, func(t *member.Table) { next.Retired = t.Retired() }); err != nil {
		f.log.Debug().Err(err).Msg("retired members not read")
	}
	f.roster.Update(next)
	if err := f.roster.Gone(); err != nil && !f.members.own.Left() {
		f.finish(err)
	}
	f.planner.Wake()
	workers, zones := make([]cluster.NodeID, len(ms)), make(map[cluster.NodeID]string, len(ms))
	for i, m := range ms {
		workers[i], zones[m.Node] = m.Node, m.Zone
	}
	f.sched.SetWorkers(workers)
	f.sched.SetZones(zones)
	if self, ok := f.roster.Self(); ok && self.MeshAddr() != f.bound {
		f.finish(errAddress)
	}
}

// onHealth follows what is believed of the others.
func (f *follower) onHealth(id cluster.NodeID, h cluster.Health, stopped bool) {
	f.sched.SetHealth(id, h)
	f.beliefs.Changed(id, journal.Belief{Health: h, Stopped: stopped})
}

// onChange has contradictions among the records logged.
func (f *follower) onChange(_ member.Change, evidence []member.Evidence) {
	for _, e := range evidence {
		if e.Node == f.peers.self {
			f.members.own.Forked()
		}
	}
	f.members.conflicts.Seen(evidence)
}
