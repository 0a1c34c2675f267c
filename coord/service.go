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
	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/coord/path"
	"github.com/skein-project/skein/coord/wire"
	"github.com/skein-project/skein/lease"
)

// Capacities of the loop's channels.
const (
	inboxSize   = 256  // accepted messages; a full one drops the newest, counted as reason "queue"
	sendSize    = 512  // datagrams to send; a full one drops the newest, counted
	urgentSize  = 1024 // revocations to send, before all else; the same
	commandSize = 64   // calls of other goroutines; a full one makes the caller wait
	actionSize  = 256  // lease actions for the daemon; see deliver
)

// Service is a host's part in the cluster: who is there, who holds the lease,
// and streams to the others. See the package comment for its goroutines.
type Service struct {
	o       Options
	log     zerolog.Logger
	logGate *logGate
	m       *metrics
	rejects *rejects
	skews   *skews

	duplicates *duplicates
	tuned      atomic.Pointer[tuned]

	dir      atomic.Pointer[directory]
	view     atomic.Pointer[View]
	bound    atomic.Pointer[leaseBound]
	promised atomic.Uint64
	abstains atomic.Bool
	// publishing says that this host has the publishing duty.
	publishing atomic.Bool
	running    atomic.Bool

	acceptor *acceptor
	streams  *streams
	notifier *notifier
	saver    *saver
	inbox    chan delivery
	sendq    chan datagram
	urgent   chan datagram
	commands chan func()
	actions  chan lease.Action
	done     chan struct{} // closed when the loop ended
	pulls    sync.WaitGroup

	// The rest belongs to the loop.
	table     *member.Table
	detector  *member.Detector
	members   []cluster.Member // sorted by node id
	self      cluster.Member
	digest    [16]byte
	peers     map[cluster.NodeID]*peerState
	endpoints endpoints
	swim      gossiping
	fallback  *fallback
	clock     Clock       // what happened to it
	ownLogs   []logSample // ring, newest last
	seq       uint64
	removed   bool // this host is no member any more: it says nothing

	lease     lease.State
	toldSelf  lease.PeerChanged // last told to the core about this host
	signed    proven            // last voter configuration that this host signed
	checked   proven            // last one of another that was good
	failing   map[string]string // self-checks that fail; copied on write
	leaving   bool              // asked to leave: does not stand again
	draining  bool              // what the daemon last said
	drained   bool              // draining, and the core was told not to stand
	unsaved   *lease.VoteRecord // vote that could not be saved
	saveAgain time.Duration
	savePause time.Duration

	intro    introState // own points; introSet: the daemon publishes some
	introSet bool
	hinted   []hint // of own backends
	tidyAt   time.Duration

	ownDuplicate bool // the others hear two processes of this host

	beatAt    time.Duration // next heartbeat
	kickedAt  time.Duration // when all silent hosts were last tried at once
	probeAt   time.Duration // next look at probes
	expireAt  time.Duration // next look at records that may be over
	rotate    int           // of known_peers
	announce  []cluster.NodeID
	announceN int // announcements still allowed this second
	announceT time.Duration
	// tellRecords is how many introductions are to bring records in a large
	// cluster.
	tellRecords int
	lastNow     time.Duration
	lastMono    time.Duration
	lastWall    time.Time
	waits       time.Duration // since when the loop waits, and
	slept       time.Duration // for how long it means to
	// distrusts says that the self-check of the clock fails until distrustTill.
	distrusts    bool
	distrustTill time.Duration
	dirty        bool // the view is to be made anew
	// soft says that a heartbeat changed the view a little: in a large cluster
	// that waits, see viewPause.
	soft   bool
	viewAt time.Duration
	// tellMembers says that OnMembers is to be called, after that.
	tellMembers bool
	runCtx      context.Context //nolint:containedctx // lent to pulls, which the loop starts
}

type datagram struct {
	to   net.Addr
	kind wire.Type
	data []byte
}

// rejects counts refusals for the view; the metrics count them for themselves.
type rejects struct {
	mu sync.Mutex
	n  map[wire.Reason]uint64
}

func (r *rejects) add(reason wire.Reason) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.n[reason]++
}

func (r *rejects) snapshot() map[string]uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make(map[string]uint64, len(r.n))
	for k, v := range r.n {
		out[string(k)] = v
	}
	return out
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
		o: o, log: log, logGate: newLogGate(o.Now, 10*time.Second), m: m,
		rejects: &rejects{n: make(map[wire.Reason]uint64)},
		skews:   &skews{m: make(map[cluster.NodeID]skew)},

		duplicates: &duplicates{m: make(map[cluster.NodeID]duplicate)},
		notifier:   newNotifier(&o, m),
		inbox:      make(chan delivery, inboxSize),
		sendq:      make(chan datagram, sendSize),
		urgent:     make(chan datagram, urgentSize),
		commands:   make(chan func(), commandSize),
		actions:    make(chan lease.Action, actionSize),
		done:       make(chan struct{}),
		table:      member.NewTable(o.Verifier),
		detector:   member.NewDetector(member.Timing{Suspect: t.Suspect, Grace: t.Grace, Dead: member.DefaultDead}),
		peers:      make(map[cluster.NodeID]*peerState),
		failing:    make(map[string]string),

		endpoints: newEndpoints(), fallback: newFallback(&o),
	}
	s.Tune(Tunables{Tolerance: o.Tolerance, Legacy: o.Legacy})
	s.saver = &saver{save: o.Store.SaveRecords, wake: make(chan struct{}, 1), fail: func(err error) {
		log.Error().Err(err).Msg("membership records not saved")
	}}
	if _, err := s.table.Restore(o.Records, o.Wall()); err != nil {
		log.Warn().Err(err).Msg("saved membership records refused")
	}
	self, ok := s.table.Announced(o.Self)
	if !ok {
		return nil, fmt.Errorf("coord of %s: no certificate and announcement of this host in its records", o.Self)
	}
	if !newDirectory([]cluster.Member{self}).same(o.Self, publicKey(o.Key)) {
		return nil, fmt.Errorf("coord of %s: identity key is not the certified one", o.Self)
	}
	s.self = self
	cert, err := identityCertificate(o.Key)
	if err != nil {
		return nil, err
	}
	if err := s.newLease(); err != nil {
		return nil, fmt.Errorf("coord of %s: %w", o.Self, err)
	}
	s.acceptor = &acceptor{
		self: o.Self, conn: o.PacketConn, dir: &s.dir, tuned: &s.tuned, now: o.Now, wall: o.Wall,
		out: s.inbox, m: m, rejects: s.rejects, skews: s.skews, twins: s.duplicates, log: log, logGate: s.logGate,
		peers: make(map[cluster.NodeID]*acceptPeer), limits: make(limiter),
	}
	s.streams = &streams{
		self: o.Self, port: o.Port, listener: o.Listener, dialTCP: o.DialTCP, cert: cert, dir: &s.dir, m: m, log: log,
		logGate: s.logGate, handlers: make(map[string]Handler), conns: make(map[*streamConn]struct{}),
		pending: make(map[net.Conn]struct{}), counts: make(map[streamKey]int), hands: make(map[cluster.NodeID]int),
		fallback: o.Fallback, detoured: s.fallback.onion,
	}
	busy := m.streamErrors.WithLabelValues("busy").Inc
	s.streams.handle(ProtoPull, newGuard(pullGuard, o.Now, busy, s.servePull).serve)
	s.streams.handle(ProtoIntro, newGuard(introGuard, o.Now, busy, s.serveIntro).serve)
	if o.Fallback != nil {
		s.streams.handle(ProtoOnion, newGuard(onionGuard, o.Now, busy, s.serveOnion).serve)
	}
	s.bound.Store(&leaseBound{})
	if s.swim, err = newGossiping(&o); err != nil {
		return nil, fmt.Errorf("coord of %s: %w", o.Self, err)
	}
	s.refreshMembers()
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
	s.acceptor.started = s.now()

	var readers, workers sync.WaitGroup
	// The acceptor and the streams end the loop when they fail.
	readers.Go(func() {
		if err := s.acceptor.run(loopCtx); err != nil {
			cancel(err)
		}
	})
	readers.Go(func() {
		if err := s.streams.run(loopCtx); err != nil {
			cancel(err)
		}
	})
	workers.Go(s.sendAll)
	back, stopBack := context.WithCancel(context.WithoutCancel(ctx))
	workers.Go(func() { s.notifier.run(back) })
	workers.Go(func() { s.saver.run(back) })

	s.loop(loopCtx)
	cancel(nil)
	close(s.done)
	close(s.urgent)
	close(s.sendq)
	stopBack()
	workers.Wait() // the last datagrams are sent, the records saved
	_ = s.o.PacketConn.Close()
	readers.Wait()
	s.pulls.Wait()
	if cause := context.Cause(loopCtx); ctx.Err() == nil && cause != nil && !errors.Is(cause, context.Canceled) {
		return fmt.Errorf("coord of %s: %w", s.o.Self, cause)
	}
	return nil
}

// sendAll writes datagrams until both queues are closed, revocations first.
func (s *Service) sendAll() {
	urgent, sendq := s.urgent, s.sendq
	for urgent != nil || sendq != nil {
		var d datagram
		ok := false
		select {
		case d, ok = <-urgent:
			if !ok {
				urgent = nil
			}
		default:
			select {
			case d, ok = <-urgent:
				if !ok {
					urgent = nil
				}
			case d, ok = <-sendq:
				if !ok {
					sendq = nil
				}
			}
		}
		if ok {
			s.write(d)
		}
	}
}

func (s *Service) write(d datagram) {
	_ = s.o.PacketConn.SetWriteDeadline(time.Now().Add(time.Second)) // a socket without deadlines does not wait
	if _, err := s.o.PacketConn.WriteTo(d.data, d.to); err != nil {
		s.m.unsent.WithLabelValues("write").Inc()
		if s.logGate.pass("send/" + d.to.String()) {
			s.log.Debug().Err(err).Stringer("addr", d.to).Msg("datagram not sent")
		}
		return
	}
	s.m.sent.WithLabelValues(string(d.kind)).Inc()
}

// Dial opens a stream of proto to a member, which may be this host. The caller
// closes it; it fails when the member is removed or Run ends.
func (s *Service) Dial(ctx context.Context, to cluster.NodeID, proto string) (net.Conn, error) {
	return s.streams.dial(ctx, to, proto)
}

// Handle registers who serves streams of proto.
func (s *Service) Handle(proto string, h Handler) { s.streams.handle(proto, h) }

// AddRecords merges membership records that did not come from a peer: those
// of a host that this one admitted, or its own newer announcement. Members
// that are new are introduced to everyone. The error tells which records were
// refused.
func (s *Service) AddRecords(ctx context.Context, rs member.Records) error {
	var refused error
	err := s.call(ctx, func() { refused = s.addRecords(rs, "", true) })
	if err != nil {
		return fmt.Errorf("add records: %w", err)
	}
	return refused
}

// Records returns all membership records that this host has.
func (s *Service) Records(ctx context.Context) (member.Records, error) {
	var rs member.Records
	if err := s.call(ctx, func() { rs = s.table.Records() }); err != nil {
		return member.Records{}, fmt.Errorf("read records: %w", err)
	}
	return rs, nil
}

// WithTable calls f with the membership table in the loop, for questions that
// a sponsor has: which addresses and slices are free. f must be quick and must
// not keep or change the table.
func (s *Service) WithTable(ctx context.Context, f func(*member.Table)) error {
	if err := s.call(ctx, func() { f(s.table) }); err != nil {
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
		return ErrStopped
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-ran:
		return nil
	case <-s.done:
		return ErrStopped
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

func (s *Service) now() time.Duration { return s.o.Now() }

// loop is the single owner of membership, health and lease state.
func (s *Service) loop(ctx context.Context) {
	now := s.now()
	s.beatAt = now
	s.startLease()
	s.notifier.setMembers(s.members)
	s.tellRecords = announceFull
	s.introduceAll()
	timer := time.NewTimer(0)
	defer timer.Stop()
	s.lastNow, s.lastMono, s.lastWall = s.readClocks()
	s.waits = s.lastNow
	for {
		select {
		case <-ctx.Done():
			s.leave()
			return
		case d := <-s.inbox:
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
			s.notifier.setMembers(s.members)
		}
		s.slept, s.waits = max(0, min(s.deadline(), now+time.Second)-now), s.now()
		timer.Reset(s.slept)
	}
}

// due does what time asks for.
func (s *Service) due() {
	now := s.now()
	s.dueSwim(now)
	s.duePath(now)
	for _, t := range s.detector.Tick(now) {
		s.healthChanged(t)
	}
	if now >= s.beatAt {
		s.beat(now)
	}
	s.announceSome(now)
	s.probeSome(now)
	s.tidy(now)
	s.expire(now)
	s.tellEndpoints(now)
	s.retrySave(now)
	if s.draining && !s.drained {
		s.drain(true) // once the handover is done
	}
	s.reportPeers(now)
	if now >= lease.Deadline(s.lease) {
		s.step(lease.Tick{Jitter: s.o.Rand()})
	}
}

// deadline is when due has something to do at the latest.
func (s *Service) deadline() time.Duration {
	at := min(s.beatAt, lease.Deadline(s.lease), s.swim.core.Deadline())
	if s.fallback.core != nil {
		if d, ok := s.fallback.core.Deadline(); ok {
			at = min(at, d)
		}
	}
	if d, ok := s.detector.Deadline(s.now()); ok {
		at = min(at, d)
	}
	if s.unsaved != nil {
		at = min(at, s.saveAgain)
	}
	if s.soft {
		at = min(at, s.viewAt+s.viewPause())
	}
	if len(s.announce) > 0 && s.announceN <= 0 {
		at = min(at, s.announceT+time.Second)
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
func (s *Service) receive(d delivery) {
	if !d.onion && d.payload != nil {
		s.pathStep(path.Heard{Node: d.msg.Node})
	}
	if hb, ok := d.payload.(wire.Heartbeat); ok {
		s.soft = true
		s.onHeartbeat(d, hb)
		return
	}
	if m, state, ok := swimMessage(d.payload); ok {
		s.soft = true
		s.onSwim(d, m, state)
		return
	}
	s.dirty = true
	s.vital(d)
	switch p := d.payload.(type) {
	case wire.PeerAnnounce:
		s.onAnnounce(d, p)
	case wire.Claim:
		s.onLease(d.msg.Node, wire.TypeLeaseClaim, p.Raw)
	case wire.Release:
		s.onLease(d.msg.Node, wire.TypeLeaseRelease, p.Raw)
	case wire.Revoke:
		s.onRevoke(d, p)
	case wire.IntroPoints:
		s.onIntroPoints(d, p)
	case wire.BackendUnhealthy:
		s.onUnhealthy(d, p)
	case nil:
		s.onLegacy(d)
	}
}

// reject counts a refusal that only the loop could decide.
func (s *Service) reject(node cluster.NodeID, err error) {
	reason := wire.ReasonOf(err)
	s.m.rejected.WithLabelValues(string(reason)).Inc()
	s.rejects.add(reason)
	if s.logGate.pass("reject/" + string(reason) + "/" + string(node)) {
		s.log.Warn().Err(err).Str("peer", string(node)).Msg("message refused")
	}
}

// leave is the loop's last turn.
func (s *Service) leave() {
	s.stopLease()
	s.endDuty()
	s.beatAll(s.now(), true)
	s.publishView(s.now())
}
