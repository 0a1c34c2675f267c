package coord

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/clockwatch"
	"github.com/skein-project/skein/coord/election"
	"github.com/skein-project/skein/coord/endpoint"
	"github.com/skein-project/skein/coord/gossip"
	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/coord/notify"
	"github.com/skein-project/skein/coord/share"
	"github.com/skein-project/skein/coord/swim"
	"github.com/skein-project/skein/coord/transport"
	"github.com/skein-project/skein/coord/wire"
	"github.com/skein-project/skein/internal/loglimit"
)

// Capacities of the loop's channels.
const (
	tidyEvery   = time.Second     // between looks at what is over
	expireEvery = 5 * time.Minute // between looks at records that may be over
	commandSize = 64              // calls of other goroutines; a full one makes the caller wait
)

// Service is a host's part in the cluster: who is there, who holds the lease,
// and streams to the others. See the package comment for its goroutines.
type Service struct {
	o    Options
	log  zerolog.Logger
	gate *loglimit.Gate
	m    *metrics
	net  *transport.Transport

	view    atomic.Pointer[View]
	running atomic.Bool

	notifier *notify.Notifier
	commands chan func()
	done     chan struct{} // closed when the loop ended
	pulls    sync.WaitGroup

	// The rest belongs to the loop.
	records   *gossip.Records
	detector  *member.Detector
	members   []cluster.Member // sorted by node id
	self      cluster.Member
	peers     map[cluster.NodeID]*peerState
	endpoints *endpoint.Endpoints
	swim      gossiping
	clock     Clock // what happened to it
	ownLog    ownLog
	removed   bool // this host is no longer a member: it says nothing

	elector *election.Elector

	shares *share.Shares
	tidyAt time.Duration

	ownDuplicate bool // the others hear two processes of this host

	beatAt        time.Duration // next heartbeat
	kickedAt      time.Duration // when all silent hosts were last tried at once
	probeAt       time.Duration // next look at probes
	expireAt      time.Duration // next look at records that may be over
	rotate        int           // of known_peers
	introductions introductions
	watch         *clockwatch.Watch
	dirty         bool // the view is to be made anew
	// soft says that a heartbeat changed the view a little: in a large cluster
	// that waits, see viewPause.
	soft   bool
	viewAt time.Duration
	// tellMembers says that OnMembers is to be called, after that.
	tellMembers bool
	runCtx      context.Context //nolint:containedctx // lent to pulls, which the loop starts
}

// New checks o, loads the vote record and judges the records. It starts
// nothing.
func New(o Options) (*Service, error) {
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("coord of %s: %w", o.Self, err)
	}
	m, err := newMetrics(o.Registerer)
	if err != nil {
		return nil, fmt.Errorf("coord of %s: %w", o.Self, err)
	}
	log := o.Logger.With().Str("component", "coord").Logger()
	t := *o.Timing
	s := &Service{
		o: o, log: log, gate: loglimit.New(o.Now, 10*time.Second), m: m,
		notifier: notify.New(o.OnMembers, o.OnHealth, m.dropped.WithLabelValues("notice").Inc),
		commands: make(chan func(), commandSize),
		done:     make(chan struct{}),
		detector: member.NewDetector(member.Timing{Suspect: t.Suspect, Grace: t.Grace, Dead: member.DefaultDead}),
		peers:    make(map[cluster.NodeID]*peerState),

		introductions: introductions{queued: make(map[cluster.NodeID]bool)},
		watch:         clockwatch.New(t.Lease),
		ownLog:        ownLog{read: o.Log, within: max(caughtUpWithin, 2*t.Heartbeat)},
		endpoints:     endpoint.New(o.Self, member.ULAPrefix(o.Verifier.Cluster)),
	}
	s.net, err = transport.New(transport.Options{
		Self: o.Self, Key: o.Key, Boot: o.Boot, PacketConn: o.PacketConn, Listener: o.Listener, DialTCP: o.DialTCP, Port: o.Port,
		Fallback: o.Fallback, Heartbeat: t.Heartbeat, Suspect: t.Suspect, Tolerance: o.Tolerance,
		Now: o.Now, Wall: o.Wall, Rand: o.Rand, Post: s.post, OnPath: s.pathChanged,
		Reasons: []wire.Reason{reasonMajor, reasonProfile, election.ReasonProof, election.ReasonConfigProof, reasonStaleClaim},
		Logger:  log, Gate: s.gate, Registerer: o.Registerer,
	})
	if err != nil {
		return nil, fmt.Errorf("coord of %s: %w", o.Self, err)
	}
	s.records, err = gossip.New(gossip.Options{
		Self: o.Self, Verifier: o.Verifier, Secret: o.Secret, Known: o.Records, Save: o.Store.SaveRecords, Now: o.Now, Wall: o.Wall,
		Net: s.net, Post: s.post, Call: s.call, Go: s.start, Changed: s.recordsChanged, Stored: func() {
			s.dirty, s.tellMembers = true, true
			s.membersChanged()
		}, Merged: s.merged,
		Reach: s.reach, Alive: func(n cluster.NodeID) bool { return s.detector.Health(n) == cluster.Alive },
		TimedOut: func(n cluster.NodeID) {
			if p := s.peers[n]; p != nil {
				p.probe.next = 0
			}
		},
		Logger: log, Gate: s.gate, Registerer: o.Registerer,
	})
	if err != nil {
		return nil, fmt.Errorf("coord of %s: %w", o.Self, err)
	}
	self, ok := s.records.Table().Announced(o.Self)
	if !ok {
		return nil, fmt.Errorf("coord of %s: no certificate and announcement of this host in its records", o.Self)
	}
	if !transport.NewDirectory([]cluster.Member{self}).Same(o.Self, publicKey(o.Key)) {
		return nil, fmt.Errorf("coord of %s: identity key is not the certified one", o.Self)
	}
	s.self = self
	s.elector, err = election.New(election.Options{
		Self: self, Key: o.Key, Cluster: o.Verifier.Cluster, Store: o.Store, FirstStart: firstBoot(o.Boot),
		Alone:   o.Founder && len(s.records.Table().Members()) == 1 && len(s.records.Table().Retired()) == 0,
		Profile: o.Profile, Timing: t, Mode: o.Mode, MaxVoters: o.MaxVoters, LastTerm: o.LastTerm,
		Now: o.Now, Mono: o.Mono, Rand: o.Rand, Send: s.net.Send, Reject: s.net.Reject, Judge: s.judge,
		KeyOf: s.keyOf, Former: s.formerKeys, Changed: func() { s.dirty = true },
		Dropped: func(kind string) { m.dropped.WithLabelValues(kind).Inc() },
		Logger:  log, Gate: s.gate, Registerer: o.Registerer,
	})
	if err != nil {
		return nil, fmt.Errorf("coord of %s: %w", o.Self, err)
	}
	s.shares, err = share.New(share.Options{
		Now: o.Now, Wall: o.Wall, Net: s.net, Post: s.post, Call: s.call, Go: s.start, Audience: s.audience,
		Large: func() bool { return len(s.members) > MaxDirect },
		Keeps: func() bool {
			st := s.elector.Status()
			return st.Publishing || st.Role == cluster.RoleHolder
		},
		Changed: func() { s.dirty = true }, Logger: log, Gate: s.gate, Registerer: o.Registerer,
	})
	if err != nil {
		return nil, fmt.Errorf("coord of %s: %w", o.Self, err)
	}
	if s.swim, err = newGossiping(&o); err != nil {
		return nil, fmt.Errorf("coord of %s: %w", o.Self, err)
	}
	s.membersChanged()
	s.publishView(s.now())
	return s, nil
}

// Run takes part in the cluster until ctx ends. On its way out it gives the
// lease away if it still holds it, says that this host leaves, and closes both
// sockets. It may be called once.
func (s *Service) Run(ctx context.Context) error {
	if !s.running.CompareAndSwap(false, true) {
		return fmt.Errorf("coord of %s: %w", s.o.Self, errors.New("run twice"))
	}
	loopCtx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s.runCtx = loopCtx
	var workers sync.WaitGroup
	workers.Go(func() { s.net.Run(loopCtx, cancel) }) // a socket that fails ends the loop
	back, stopBack := context.WithCancel(context.WithoutCancel(ctx))
	workers.Go(func() { s.notifier.Run(back) })
	workers.Go(func() { s.records.Run(back) })

	s.loop(loopCtx)
	cancel(nil)
	close(s.done)
	s.net.CloseSend()
	stopBack()
	workers.Wait() // the last datagrams are sent, the records saved
	s.pulls.Wait()
	if cause := context.Cause(loopCtx); ctx.Err() == nil && cause != nil && !errors.Is(cause, context.Canceled) {
		return fmt.Errorf("coord of %s: %w", s.o.Self, cause)
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

// AddRecords merges membership records that did not come from a peer: those
// of a host that this one admitted, or its own newer announcement. Members
// that are new are introduced to everyone. The error tells which records were
// refused.
func (s *Service) AddRecords(ctx context.Context, rs member.Records) error {
	var refused error
	err := s.call(ctx, func() { refused = s.records.Add(rs, "", true) })
	if err != nil {
		return fmt.Errorf("add records: %w", err)
	}
	return refused
}

// Records returns all membership records that this host has.
func (s *Service) Records(ctx context.Context) (member.Records, error) {
	var rs member.Records
	if err := s.call(ctx, func() { rs = s.records.Table().Records() }); err != nil {
		return member.Records{}, fmt.Errorf("read records: %w", err)
	}
	return rs, nil
}

// WithTable calls f with the membership table in the loop, for questions that
// a sponsor has: which addresses and slices are free. f must be quick and must
// not keep or change the table.
func (s *Service) WithTable(ctx context.Context, f func(*member.Table)) error {
	if err := s.call(ctx, func() { f(s.records.Table()) }); err != nil {
		return fmt.Errorf("read membership table: %w", err)
	}
	return nil
}

// call runs f in the loop and waits for it.
func (s *Service) call(ctx context.Context, f func()) error {
	ran := make(chan struct{})
	select {
	case s.commands <- func() { f(); close(ran) }:
	case <-s.done:
		return transport.ErrStopped
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-ran:
		return nil
	case <-s.done:
		return transport.ErrStopped
	}
}

// post runs f in the loop some time; it waits only while the loop is busy with
// commandSize other calls, and does nothing after the loop ended.
func (s *Service) post(f func()) {
	select {
	case s.commands <- f:
	case <-s.done:
	}
}

// start runs f in a goroutine whose context ends with the loop; it reports
// whether the loop runs.
func (s *Service) start(f func(context.Context)) bool {
	if s.runCtx == nil {
		return false
	}
	ctx := s.runCtx
	s.pulls.Go(func() { f(ctx) })
	return true
}

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

// recordsChanged passes on what records did to the membership.
func (s *Service) recordsChanged(ch member.Change, evidence []member.Evidence) {
	if f := s.o.OnChange; f != nil {
		s.notifier.Notice(func() { f(ch, evidence) })
	}
}

// audience are the living hosts to which news go at once: all, or in a large
// cluster those that hold or publish. The rest learn from heartbeats.
func (s *Service) audience() []cluster.NodeID {
	st := s.elector.Status()
	var out []cluster.NodeID
	for _, m := range s.members {
		p := s.peers[m.Node]
		if p == nil || s.detector.Health(m.Node) != cluster.Alive {
			continue
		}
		if len(s.members) <= MaxDirect || m.Node == st.Holder || m.Node == st.Publisher || p.beat.Role == cluster.RolePublisher {
			out = append(out, m.Node)
		}
	}
	return out
}

// tidy does what needs a look now and then.
func (s *Service) tidy(now time.Duration) {
	if now < s.tidyAt {
		return
	}
	s.tidyAt = now + tidyEvery
	s.judgeDuplicates(now)
	s.shares.Tidy(now)
}

func (s *Service) now() time.Duration { return s.o.Now() }

// loop is the single owner of membership, health and lease state.
func (s *Service) loop(ctx context.Context) {
	now := s.now()
	s.beatAt = now
	var gone []cluster.NodeID
	for _, r := range s.records.Table().Retired() {
		gone = append(gone, r.Node)
	}
	s.elector.Start(gone, s.o.Local().Draining)
	s.notifier.SetMembers(s.members)
	s.introductions.records = introduceFull
	s.introduceAll()
	timer := time.NewTimer(0)
	defer timer.Stop()
	s.watch.Start(s.readClocks())
	for {
		select {
		case <-ctx.Done():
			s.leave()
			return
		case d := <-s.net.Inbox():
			s.turn()
			s.receive(d)
		case f := <-s.commands:
			s.turn()
			f()
		case <-timer.C:
			s.turn()
		}
		s.due()
		now := s.now()
		if s.dirty || (s.soft && now >= s.viewAt+s.viewPause()) {
			s.dirty, s.soft, s.viewAt = false, false, now
			s.publishView(now)
		}
		if s.tellMembers {
			s.tellMembers = false
			s.notifier.SetMembers(s.members)
		}
		planned := max(0, min(s.deadline(), now+time.Second)-now)
		s.watch.Waits(s.now(), planned)
		timer.Reset(planned)
	}
}

// due does what time asks for.
func (s *Service) due() {
	now := s.now()
	s.dueSwim(now)
	s.net.Paths().Due(now)
	for _, t := range s.detector.Tick(now) {
		s.healthChanged(t)
	}
	if now >= s.beatAt {
		s.beat(now)
	}
	s.introduceSome(now)
	s.probeSome(now)
	s.tidy(now)
	if now >= s.expireAt {
		s.expireAt = now + expireEvery
		s.records.Expire()
	}
	if s.endpoints.Due(now) {
		s.dirty, s.tellMembers = true, true
	}
	s.elector.Due(now)
	s.reportPeers(now)
	if s.elector.Expired(now) {
		s.elector.Tick()
	}
}

// deadline is when due has something to do at the latest.
func (s *Service) deadline() time.Duration {
	at := min(s.beatAt, s.elector.Deadline(), s.swim.core.Deadline())
	if d, ok := s.net.Paths().Deadline(); ok {
		at = min(at, d)
	}
	if d, ok := s.detector.Deadline(s.now()); ok {
		at = min(at, d)
	}
	if s.soft {
		at = min(at, s.viewAt+s.viewPause())
	}
	if d, ok := s.introductions.deadline(); ok {
		at = min(at, d)
	}
	return at
}

// viewPause is how long what a heartbeat changed may stay unseen: making a view
// costs as much as there are members, and so many send heartbeats.
func (s *Service) viewPause() time.Duration {
	if len(s.members) <= 16 {
		return 0
	}
	return time.Duration(len(s.members)) * time.Millisecond
}

// receive handles one authenticated message.
func (s *Service) receive(d transport.Delivery) {
	if !d.Onion {
		s.net.Paths().Heard(d.Msg.Node)
	}
	if hb, ok := d.Payload.(wire.Heartbeat); ok {
		s.soft = true
		s.onHeartbeat(d, hb)
		return
	}
	if m, state, ok := swim.FromPayload(d.Payload); ok {
		s.soft = true
		s.onSwim(d, m, state)
		return
	}
	s.dirty = true
	s.vital(d)
	switch p := d.Payload.(type) {
	case wire.PeerAnnounce:
		s.records.OnAnnounce(d, p)
	case wire.Claim:
		s.elector.Receive(d.Msg.Node, wire.TypeLeaseClaim, p.Raw)
	case wire.Release:
		s.elector.Receive(d.Msg.Node, wire.TypeLeaseRelease, p.Raw)
	case wire.Revoke:
		s.records.OnRevoke(d, p)
	case wire.Share:
		s.shares.OnShare(d, p)
	case wire.BackendUnhealthy:
		s.shares.OnBackends(d, p)
	}
}

// leave is the loop's last turn.
func (s *Service) leave() {
	s.elector.Stop()
	s.elector.EndDuty()
	s.beatAll(s.now(), true)
	s.publishView(s.now())
}
