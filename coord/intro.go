package coord

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/wire"
)

// ProtoIntro is the stream protocol by which a host fetches another's
// introduction points when they do not fit a datagram: the asker sends an
// empty object, the other answers the payload of intro_points, both framed
// like a pull, and closes.
const ProtoIntro = "skein-intro/1"

const (
	maxIntroPulls = 4 // at once, of all peers
	// introPause is after the first pull that failed; it doubles.
	introPause    = time.Second
	maxIntroPause = time.Minute
	// maxIntroRetry is that of a host that is alive and was not reached: it may
	// just have changed its onion service.
	maxIntroRetry = 10 * time.Second
	tidyEvery     = time.Second // between looks at what is over
	// hintLife is how long a hint about a backend counts, hintPause how long
	// the same one is not sent again, maxHints how many are kept of one host.
	hintLife  = 5 * time.Minute
	hintPause = 30 * time.Second
	maxHints  = 16
)

// IntroPoints are a host's introduction points, opaque here.
type IntroPoints struct {
	Known     bool // they are what the host said last
	Points    [][]byte
	FetchedAt time.Time // by that host's clock
}

// introState is what the loop knows of one host's introduction points.
type introState struct {
	list   []wire.IntroPoint // never changed, only replaced
	digest wire.Digest       // of list
	at     uint64            // fetched_at

	// boot and seq are of the newest message that spoke of them; told is the
	// digest that it named.
	boot, seq uint64
	told      wire.Digest
	publishes bool // its host, by its last heartbeat
	running   bool // a pull
	again     time.Duration
	pause     time.Duration
}

// newer notes a message that speaks of the points, if it is the newest.
func (i *introState) newer(m wire.Message, told wire.Digest) bool {
	if m.Boot < i.boot || m.Boot == i.boot && m.Seq < i.seq {
		return false
	}
	i.boot, i.seq, i.told = m.Boot, m.Seq, told
	return true
}

// hint is a backend that its host calls unhealthy.
type hint struct {
	backend string
	at      time.Duration
}

// PublishIntroPoints replaces what this host says of its introduction points
// and tells the others: at once where the list fits a datagram or the others
// pull it, and by the digest in every heartbeat to whom that did not reach. It
// may be called from any goroutine, before Run too. The error says what of the
// list is out of bounds.
func (s *Service) PublishIntroPoints(points [][]byte, fetchedAt time.Time) error {
	list := make([]wire.IntroPoint, len(points))
	for i, p := range points {
		list[i].Data = slices.Clone(p)
	}
	if err := wire.CheckIntroPoints(list); err != nil {
		return fmt.Errorf("publish introduction points: %w", err)
	}
	own := introState{list: list, digest: wire.IntroDigest(list), at: uint64(max(0, fetchedAt.Unix()))}
	s.post(func() {
		if own.digest == s.intro.digest && own.at == s.intro.at {
			return
		}
		s.intro, s.introSet, s.dirty = own, true, true
		s.sendIntro()
	})
	return nil
}

// ReportUnhealthy tells the others that a backend of this host fails; the same
// one at most every 30 s. It is a hint: each host judges for itself, and forgets
// it after 5 minutes. It may be called from any goroutine.
func (s *Service) ReportUnhealthy(backend string) error {
	p := wire.BackendUnhealthy{Backend: backend}
	if err := wire.Check(p); err != nil {
		return fmt.Errorf("report backend: %w", err)
	}
	s.post(func() {
		now := s.now()
		i := slices.IndexFunc(s.hinted, func(h hint) bool { return h.backend == backend })
		if i >= 0 && now-s.hinted[i].at < hintPause {
			return
		}
		s.hinted, s.dirty = noteHint(s.hinted, backend, now), true
		for _, m := range s.audience() {
			s.sendOr(m, wire.TypeBackendUnhealthy, p)
		}
	})
	return nil
}

// audience are the living hosts that are told at once: all, or in a large
// cluster those that hold or publish. The rest learn from heartbeats.
func (s *Service) audience() []cluster.NodeID {
	st := s.lease.Status()
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

func (s *Service) sendOr(to cluster.NodeID, kind wire.Type, p wire.Payload) {
	if err := s.send(to, kind, p); err != nil && s.logGate.pass(string(kind)+"/"+string(to)) {
		s.log.Warn().Err(err).Str("peer", string(to)).Str("type", string(kind)).Msg("message not sent")
	}
}

// introMessage is what this host says of its points: the list if it fits a
// datagram, its digest if not.
func (s *Service) introMessage() wire.IntroPoints {
	p := wire.IntroPoints{Points: s.intro.list, FetchedAt: min(s.intro.at, uint64(max(0, s.o.Wall().Unix())))}
	if p.Points == nil {
		p.Points = []wire.IntroPoint{}
	}
	size := 0
	for _, x := range p.Points {
		size += len(x.Data)*4/3 + 16
	}
	if size > introInline {
		p.Count, p.Digest, p.Points = uint32(len(p.Points)), s.intro.digest, []wire.IntroPoint{}
	}
	return p
}

// introInline is how many bytes a list may take in a datagram: what the longest
// names leave of it.
const introInline = 700

func (s *Service) sendIntro() {
	p := s.introMessage()
	for _, to := range s.audience() {
		s.sendOr(to, wire.TypeIntroPoints, p)
	}
}

// introCount is how many points this host has: what the daemon says, or else as
// many as it published.
func (s *Service) introCount(local Local) uint32 {
	if s.introSet && local.IntroPoints == 0 {
		return uint32(len(s.intro.list))
	}
	return local.IntroPoints
}

// onIntroPoints takes a host's own list, or what it says of it.
func (s *Service) onIntroPoints(d delivery, p wire.IntroPoints) {
	peer := s.peers[d.msg.Node]
	if peer == nil {
		return // removed meanwhile
	}
	told := p.Digest
	if p.Whole() {
		told = wire.IntroDigest(p.Points)
	}
	if !peer.intro.newer(d.msg, told) {
		return // overtaken by a later one
	}
	switch {
	case p.Whole():
		peer.intro.list, peer.intro.digest, peer.intro.at = p.Points, told, p.FetchedAt
	case told == peer.intro.digest:
		peer.intro.at = p.FetchedAt // the same points, seen again
	default:
		s.wantIntro(peer)
	}
}

// introBeat compares what a heartbeat says of its sender's points with what
// this host has, and tells one that begins to publish of its own: in a large
// cluster it heard nothing of them before.
func (s *Service) introBeat(p *peerState, m wire.Message, hb *wire.Heartbeat) {
	told := hb.Intro
	publishes := hb.Role == cluster.RolePublisher
	if publishes && !p.intro.publishes && len(s.members) > MaxDirect && len(s.intro.list) > 0 {
		s.sendOr(p.node, wire.TypeIntroPoints, s.introMessage())
	}
	p.intro.publishes = publishes
	if !p.intro.newer(m, told) || told == p.intro.digest {
		return
	}
	if told == (wire.Digest{}) {
		p.intro.list, p.intro.digest, p.intro.at, s.dirty = nil, told, 0, true
		return
	}
	s.wantIntro(p)
}

// wantIntro starts a pull of a host's points, if this host is one that keeps
// them: in a large cluster only those that publish or hold do.
func (s *Service) wantIntro(p *peerState) {
	now, st := s.now(), s.lease.Status()
	if len(s.members) > MaxDirect && !st.Publishing && st.Role != cluster.RoleHolder {
		return
	}
	running := 0
	for _, o := range s.peers {
		if o.intro.running {
			running++
		}
	}
	if p.intro.running || now < p.intro.again || running >= maxIntroPulls || s.runCtx == nil {
		return
	}
	p.intro.running = true
	ctx, node := s.runCtx, p.node
	s.pulls.Go(func() {
		list, err := s.pullIntro(ctx, node)
		s.post(func() { s.introPulled(node, list, err) })
	})
}

func (s *Service) introPulled(node cluster.NodeID, list wire.IntroPoints, err error) {
	outcome := "new"
	if err != nil {
		outcome = "error"
		if s.logGate.pass("intro/" + string(node)) {
			s.log.Warn().Err(err).Str("peer", string(node)).Msg("pull of introduction points")
		}
	}
	s.m.introPulls.WithLabelValues(outcome).Inc()
	p := s.peers[node]
	if p == nil {
		return
	}
	i := &p.intro
	i.running = false
	if err == nil {
		i.list, i.digest, i.at, s.dirty = list.Points, wire.IntroDigest(list.Points), list.FetchedAt, true
	}
	if i.digest == i.told {
		i.pause, i.again = 0, 0
		return
	}
	longest := maxIntroPause
	if err != nil {
		longest = maxIntroRetry
	}
	i.pause = min(max(2*i.pause, introPause), longest)
	i.again = s.now() + i.pause
}

func (s *Service) pullIntro(ctx context.Context, from cluster.NodeID) (wire.IntroPoints, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeFor(from, pullTimeout))
	defer cancel()
	conn, err := s.streams.dial(ctx, from, ProtoIntro)
	if err != nil {
		return wire.IntroPoints{}, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(s.timeFor(from, pullTimeout))); err != nil {
		return wire.IntroPoints{}, fmt.Errorf("ask %s: %w", from, err)
	}
	if err := writeFrame(conn, struct{}{}); err != nil {
		return wire.IntroPoints{}, fmt.Errorf("ask %s: %w", from, err)
	}
	var body json.RawMessage
	if err := readFrame(conn, wire.MaxIntroListBytes, &body); err != nil {
		return wire.IntroPoints{}, fmt.Errorf("ask %s: %w", from, err)
	}
	list, err := wire.DecodeIntroList(body)
	if err != nil {
		return wire.IntroPoints{}, fmt.Errorf("introduction points of %s: %w", from, err)
	}
	return list, nil
}

// serveIntro answers with this host's points.
func (s *Service) serveIntro(ctx context.Context, from cluster.NodeID, conn net.Conn) {
	err := func() error {
		if err := conn.SetDeadline(time.Now().Add(s.timeFor(from, pullTimeout))); err != nil {
			return err
		}
		var req struct{}
		if err := readFrame(conn, 64, &req); err != nil {
			return err
		}
		var reply wire.IntroPoints
		if err := s.call(ctx, func() {
			reply = wire.IntroPoints{Points: s.intro.list, FetchedAt: s.intro.at}
		}); err != nil {
			return err
		}
		if reply.Points == nil {
			reply.Points = []wire.IntroPoint{}
		}
		return writeFrame(conn, reply)
	}()
	if err != nil && ctx.Err() == nil && !errors.Is(err, ErrStopped) && s.logGate.pass("serve-intro/"+string(from)) {
		s.log.Debug().Err(err).Str("peer", string(from)).Msg("introduction points not served")
	}
}

// onUnhealthy notes a hint about a backend.
func (s *Service) onUnhealthy(d delivery, b wire.BackendUnhealthy) {
	if p := s.peers[d.msg.Node]; p != nil {
		p.hints = noteHint(p.hints, b.Backend, s.now())
	}
}

// noteHint notes a hint; the oldest goes when there are too many.
func noteHint(list []hint, backend string, now time.Duration) []hint {
	list = slices.DeleteFunc(slices.Clone(list), func(h hint) bool { return h.backend == backend })
	if len(list) >= maxHints {
		oldest := slices.MinFunc(list, func(a, b hint) int { return cmp.Compare(a.at, b.at) })
		list = slices.DeleteFunc(list, func(h hint) bool { return h == oldest })
	}
	return append(list, hint{backend: backend, at: now})
}

// tidy does what needs a look now and then: it forgets hints that are over. The
// points of a dead host are not shown, and wait for what it says when it is back.
func (s *Service) tidy(now time.Duration) {
	if now < s.tidyAt {
		return
	}
	s.tidyAt = now + tidyEvery
	s.judgeDuplicates(now)
	for _, p := range s.peers {
		p.hints = s.tidyHints(p.hints, now)
	}
	s.hinted = s.tidyHints(s.hinted, now)
}

func (s *Service) tidyHints(list []hint, now time.Duration) []hint {
	over := func(h hint) bool { return now-h.at >= hintLife }
	if !slices.ContainsFunc(list, over) {
		return list
	}
	s.dirty = true
	return slices.DeleteFunc(list, over)
}

// introView are a host's points and the backends that it calls unhealthy, for
// the view.
func introView(i *introState, hints []hint) (IntroPoints, []string) {
	out := IntroPoints{Known: i.boot > 0 && i.told == i.digest}
	if len(i.list) > 0 {
		out.FetchedAt = time.Unix(int64(i.at), 0) //nolint:gosec // below 2^53, checked when read
		for _, p := range i.list {
			out.Points = append(out.Points, p.Data)
		}
	}
	var names []string
	for _, h := range hints {
		names = append(names, h.backend)
	}
	slices.Sort(names)
	return out, names
}
