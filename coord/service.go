package coord

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/coord/wire"
	"github.com/skein-project/skein/lease"
)

// Capacities of the loop's channels.
const (
	inboxSize   = 256 // accepted messages; a full one drops the newest, counted as reason "queue"
	sendSize    = 512 // datagrams to send; a full one drops the newest, counted
	commandSize = 64  // calls of other goroutines; a full one makes the caller wait
	actionSize  = 256 // lease actions for the daemon; see deliver
)

// Service is a host's part in the cluster: who is there, who holds the lease,
// and streams to the others. See the package comment for its goroutines.
type Service struct {
	o       Options
	log     zerolog.Logger
	logGate *logGate
	m       *metrics
	rejects *rejects

	dir      atomic.Pointer[directory]
	view     atomic.Pointer[View]
	bound    atomic.Pointer[leaseBound]
	promised atomic.Uint64
	running  atomic.Bool

	acceptor *acceptor
	streams  *streams
	notifier *notifier
	saver    *saver
	inbox    chan delivery
	sendq    chan datagram
	commands chan func()
	actions  chan lease.Action
	done     chan struct{} // closed when the loop ended
	pulls    sync.WaitGroup

	// The rest belongs to the loop.
	table    *member.Table
	detector *member.Detector
	members  []cluster.Member // sorted by node id
	self     cluster.Member
	digest   [16]byte
	peers    map[cluster.NodeID]*peerState
	ownLogs  []logSample // ring, newest last
	seq      uint64

	lease     lease.State
	failing   map[string]string // self-checks that fail; copied on write
	leaving   bool              // asked to leave: does not stand again
	draining  bool              // what the daemon last said
	drained   bool              // draining, and the core was told not to stand
	unsaved   *lease.VoteRecord // vote that could not be saved
	saveAgain time.Duration
	savePause time.Duration

	beatAt    time.Duration // next heartbeat
	rotate    int           // of known_peers
	announce  []cluster.NodeID
	announceN int // announcements still allowed this second
	announceT time.Duration
	lastNow   time.Duration
	lastMono  time.Duration
	lastWall  time.Time
	dirty     bool
	runCtx    context.Context //nolint:containedctx // lent to pulls, which the loop starts
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
		rejects:  &rejects{n: make(map[wire.Reason]uint64)},
		notifier: newNotifier(&o),
		inbox:    make(chan delivery, inboxSize),
		sendq:    make(chan datagram, sendSize),
		commands: make(chan func(), commandSize),
		actions:  make(chan lease.Action, actionSize),
		done:     make(chan struct{}),
		table:    member.NewTable(o.Verifier),
		detector: member.NewDetector(member.Timing{Suspect: t.Suspect, Grace: t.Grace, Dead: member.DefaultDead}),
		peers:    make(map[cluster.NodeID]*peerState),
		failing:  make(map[string]string),
	}
	s.saver = &saver{save: o.Store.SaveRecords, wake: make(chan struct{}, 1), fail: func(err error) {
		log.Error().Err(err).Msg("membership records not saved")
	}}
	if _, err := s.table.Restore(o.Records, o.Wall()); err != nil {
		log.Warn().Err(err).Msg("saved membership records refused")
	}
	self, ok := s.table.Member(o.Self)
	if !ok {
		return nil, fmt.Errorf("coord of %s: no certificate and announcement of this host in its records", o.Self)
	}
	if !newDirectory([]cluster.Member{self}).same(o.Self, publicKey(o.Key)) {
		return nil, fmt.Errorf("coord of %s: identity key is not the certified one", o.Self)
	}
	s.self = self
	cert, err := identityCertificate(o.Self, o.Key)
	if err != nil {
		return nil, err
	}
	if err := s.newLease(); err != nil {
		return nil, fmt.Errorf("coord of %s: %w", o.Self, err)
	}
	s.acceptor = &acceptor{
		self: o.Self, conn: o.PacketConn, dir: &s.dir, tolerance: o.Tolerance, now: o.Now, wall: o.Wall,
		out: s.inbox, m: m, rejects: s.rejects, log: log, logGate: s.logGate,
		peers: make(map[cluster.NodeID]*acceptPeer),
	}
	s.streams = &streams{
		self: o.Self, port: o.Port, listener: o.Listener, dialTCP: o.DialTCP, cert: cert, dir: &s.dir, m: m, log: log,
		logGate: s.logGate, handlers: make(map[string]Handler), conns: make(map[*streamConn]struct{}),
		pending: make(map[net.Conn]struct{}), counts: make(map[streamKey]int),
	}
	s.streams.handle(ProtoPull, s.servePull)
	s.bound.Store(&leaseBound{})
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
	s.acceptor.started = s.o.Wall()

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

// sendAll writes datagrams until the queue is closed.
func (s *Service) sendAll() {
	for d := range s.sendq {
		_ = s.o.PacketConn.SetWriteDeadline(time.Now().Add(time.Second)) // a socket without deadlines does not wait
		if _, err := s.o.PacketConn.WriteTo(d.data, d.to); err != nil {
			s.m.unsent.WithLabelValues("write").Inc()
			if s.logGate.pass("send/" + d.to.String()) {
				s.log.Debug().Err(err).Stringer("addr", d.to).Msg("datagram not sent")
			}
			continue
		}
		s.m.sent.WithLabelValues(string(d.kind)).Inc()
	}
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
	s.lastNow, s.lastMono, s.lastWall = now, s.o.Mono(), s.o.Wall()
	s.beatAt = now
	s.startLease()
	s.notifier.setMembers(s.members)
	for _, m := range s.members {
		s.introduce(m.Node)
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
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
		if s.dirty {
			s.dirty = false
			s.publishView(now)
		}
		timer.Reset(max(0, min(s.deadline(), now+time.Second)-now))
	}
}

// turn begins a turn of the loop: it feeds the watchdog and compares the
// clocks.
func (s *Service) turn() {
	if s.o.OnLoop != nil {
		s.o.OnLoop()
	}
	// The two clocks cannot be read at once: a pause between the readings
	// must not look like sleep of the machine.
	var now, mono time.Duration
	for range 3 {
		before := s.o.Mono()
		now = s.now()
		if mono = s.o.Mono(); mono-before < 10*time.Millisecond {
			break
		}
	}
	wall := s.o.Wall()
	gap := (now - s.lastNow) - (mono - s.lastMono)
	jump := wall.Sub(s.lastWall).Round(0) - (now - s.lastNow)
	s.lastNow, s.lastMono, s.lastWall = now, mono, wall.Round(0)
	if gap > s.o.Timing.Lease/4 {
		s.m.suspends.Inc()
		s.log.Warn().Float64("dur_seconds", gap.Seconds()).Msg("machine was suspended")
		s.detector.Shift(gap)
		s.step(lease.Suspended{})
	}
	if time.Duration(math.Abs(float64(jump))) > s.o.Tolerance/2 {
		s.m.clockJumps.Inc()
		s.log.Warn().Float64("dur_seconds", jump.Seconds()).Msg("wall clock jumped")
	}
}

// due does what time asks for.
func (s *Service) due() {
	now := s.now()
	for _, t := range s.detector.Tick(now) {
		s.healthChanged(t)
	}
	if now >= s.beatAt {
		s.beat(now)
	}
	s.announceSome(now)
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
	at := min(s.beatAt, lease.Deadline(s.lease))
	if d, ok := s.detector.Deadline(s.now()); ok {
		at = min(at, d)
	}
	if s.unsaved != nil {
		at = min(at, s.saveAgain)
	}
	if len(s.announce) > 0 && s.announceN <= 0 {
		at = min(at, s.announceT+time.Second)
	}
	return at
}

// receive handles one authenticated message.
func (s *Service) receive(d delivery) {
	s.dirty = true
	switch p := d.payload.(type) {
	case wire.Heartbeat:
		s.onHeartbeat(d, p)
	case wire.PeerAnnounce:
		s.onAnnounce(d, p)
	case wire.Claim:
		s.onLease(d.msg.Node, wire.TypeLeaseClaim, p.Raw)
	case wire.Release:
		s.onLease(d.msg.Node, wire.TypeLeaseRelease, p.Raw)
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
	s.beatAll(s.now(), true)
	s.publishView(s.now())
}
