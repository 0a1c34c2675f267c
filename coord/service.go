package coord

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/clocks"
	"github.com/skein-project/skein/coord/health"
	"github.com/skein-project/skein/coord/pathmtu"
	"github.com/skein-project/skein/coord/share"
	"github.com/skein-project/skein/coord/swim"
	"github.com/skein-project/skein/coord/transport"
	"github.com/skein-project/skein/coord/wire"
)

const tidyEvery = time.Second // between runs of tidy

// Service is a host's part in the cluster: who is there, who holds the lease,
// and streams to the others. Its parts say what they own; the Service is the loop
// that gives each its turn. See the package comment for its goroutines.
type Service struct {
	*Members
	*Lease

	self     cluster.NodeID
	local    func() Local
	net      *transport.Transport
	loop     *loop
	views    *views
	clocks   *clocks.Clocks
	health   *health.Monitor
	listener *listener
	beats    *heartbeats
	prober   *pathmtu.Prober
	shares   *share.Shares

	duplicates *duplicates
	tidyAt     time.Duration // next run of tidy
}

// Run takes part in the cluster until ctx ends. On its way out it gives the
// lease away if it still holds it, says that this host leaves, and closes both
// sockets. It may be called once.
func (s *Service) Run(ctx context.Context) error {
	loopCtx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if err := s.loop.begin(loopCtx); err != nil {
		return fmt.Errorf("coord of %s: %w", s.self, err)
	}
	var workers sync.WaitGroup
	workers.Go(func() { s.net.Run(loopCtx, cancel) }) // a socket that fails ends the loop
	back, stopBack := context.WithCancel(context.WithoutCancel(ctx))
	workers.Go(func() { s.views.notifier.Run(back) })
	workers.Go(func() { s.Members.records.Run(back) })

	s.turns(loopCtx)
	cancel(nil)
	close(s.loop.done)
	s.net.CloseSend()
	stopBack()
	workers.Wait() // the last datagrams are sent, the records saved
	s.loop.tasks.Wait()
	if cause := context.Cause(loopCtx); ctx.Err() == nil && cause != nil && !errors.Is(cause, context.Canceled) {
		return fmt.Errorf("coord of %s: %w", s.self, cause)
	}
	return nil
}

// Dial opens a stream of proto to a member, which may be this host. The caller
// closes it; it fails when the member is removed or Run ends.
func (s *Service) Dial(ctx context.Context, to cluster.NodeID, proto string) (net.Conn, error) {
	return s.net.Dial(ctx, to, proto)
}

// Handle registers who serves streams of proto.
func (s *Service) Handle(proto string, h transport.Handler) { s.net.Handle(proto, h) }

// PublishShare replaces this host's share of the onion addresses and sends it
// to the others: at once where the pieces fit a datagram or the others pull
// them, and by the digest in every heartbeat to those that it did not reach. It
// may be called from any goroutine, before Run too. The error says which limit
// the pieces exceed.
func (s *Service) PublishShare(pieces [][]byte, fetchedAt time.Time) error {
	return s.shares.Publish(pieces, fetchedAt)
}

// ReportBackends replaces what this host says of its backends; it names at least
// one. A backend that fails is reported to the others at once and every 30 s
// while it does, and they forget it 100 s after the last report. It may be
// called from any goroutine.
func (s *Service) ReportBackends(list []wire.Backend) { s.shares.ReportBackends(list) }

// Tune changes what may change while the service runs.
func (s *Service) Tune(t Tunables) {
	if t.Tolerance <= 0 {
		t.Tolerance = DefaultTolerance
	}
	s.net.SetTolerance(t.Tolerance)
}

// View returns the latest view; it is never nil.
func (s *Service) View() *View {
	v := *s.views.latest.Load()
	v.Rejected = s.net.Refused()
	return &v
}

// turns is the single owner of membership, health and lease state, until ctx
// ends.
func (s *Service) turns(ctx context.Context) {
	s.beats.schedule.at = s.now()
	s.Lease.elector.Start(s.Members.formerMembers(), s.local().Draining)
	s.views.tellMembers()
	s.Members.waiting.addAll(introduceFull)
	timer := time.NewTimer(0)
	defer timer.Stop()
	s.clocks.Start()
	for {
		select {
		case <-ctx.Done():
			s.leave()
			return
		case d := <-s.net.Inbox():
			s.clocks.Turn()
			s.receive(d)
		case f := <-s.loop.commands:
			s.clocks.Turn()
			f()
		case <-timer.C:
			s.clocks.Turn()
		}
		s.due()
		now := s.now()
		s.views.due(now)
		planned := max(0, min(s.deadline(), now+time.Second)-now)
		s.clocks.Waits(planned)
		timer.Reset(planned)
	}
}

// due does what time asks for.
func (s *Service) due() {
	now := s.now()
	s.health.Due(now, len(s.Members.hosts.members), s.Members.hosts.removed)
	s.net.Paths().Due(now)
	s.health.Silence(now)
	if now >= s.beats.schedule.at {
		s.beat(now)
	}
	s.beats.introduce(now)
	if h := s.Members.hosts; !h.removed {
		s.prober.Look(now, h.members, s.beats.schedule.round)
	}
	s.tidy(now)
	s.Members.due(now)
	s.Lease.elector.Due(now)
	s.Lease.reportPeers(now)
	if s.Lease.elector.Expired(now) {
		s.Lease.elector.Tick()
	}
}

// beat is a round of heartbeats, with what is done once a round.
func (s *Service) beat(now time.Duration) {
	s.beats.begin(now)
	s.Lease.elector.Drain(s.local().Draining)
	s.beats.look(now)
	s.health.Round(now, s.Lease.elector.Willing(), len(s.Lease.elector.Failing()) > 0)
	s.beats.announceDuties(now)
	s.beats.sendRound(now, false)
	s.views.touch()
}

// tidy does what is due once in a while, whatever happens.
func (s *Service) tidy(now time.Duration) {
	if now < s.tidyAt {
		return
	}
	s.tidyAt = now + tidyEvery
	s.duplicates.judge(now)
	s.shares.Tidy(now)
}

// deadline is when due has something to do at the latest.
func (s *Service) deadline() time.Duration {
	at := min(s.beats.deadline(), s.Lease.elector.Deadline(), s.health.Deadline(s.now()))
	if d, ok := s.net.Paths().Deadline(); ok {
		at = min(at, d)
	}
	if d, ok := s.views.deadline(); ok {
		at = min(at, d)
	}
	return at
}

// receive handles one authenticated message.
func (s *Service) receive(d transport.Delivery) {
	if !d.Onion {
		s.net.Paths().Heard(d.Msg.Node)
	}
	if hb, ok := d.Payload.(wire.Heartbeat); ok {
		s.views.touchSoft()
		s.listener.heartbeat(d, hb)
		return
	}
	if m, state, ok := swim.FromPayload(d.Payload); ok {
		s.views.touchSoft()
		s.listener.swim(d, m, state)
		return
	}
	s.views.touch()
	s.listener.vital(d)
	switch p := d.Payload.(type) {
	case wire.PeerAnnounce:
		s.Members.records.OnAnnounce(d, p)
	case wire.Claim:
		s.Lease.elector.Receive(d.Msg.Node, wire.TypeLeaseClaim, p.Raw)
	case wire.Release:
		s.Lease.elector.Receive(d.Msg.Node, wire.TypeLeaseRelease, p.Raw)
	case wire.Revoke:
		s.Members.records.OnRevoke(d, p)
	case wire.Share:
		s.shares.OnShare(d, p)
	case wire.BackendUnhealthy:
		s.shares.OnBackends(d, p)
	}
}

// leave is the loop's last turn.
func (s *Service) leave() {
	s.Lease.elector.Stop()
	s.Lease.elector.EndDuty()
	s.beats.sendRound(s.now(), true)
	s.views.publish(s.now())
}
