package mesh

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/mesh/topo"
)

const (
	// readIdle and readBusy are the intervals between readings of the device,
	// with all peers in reach and not; readBusy grows with the peers.
	readIdle = time.Second
	readBusy = 250 * time.Millisecond
	// readStaged is the interval while a peer has announced another key: what
	// it sends with that one is lost until its first handshake is noticed.
	readStaged = 20 * time.Millisecond
	// A hint of a finished handshake brings a reading after hintDelay, and
	// hintReads-1 more, hintAgain apart, for a slow machine.
	hintDelay = 2 * time.Millisecond
	hintAgain = 15 * time.Millisecond
	hintReads = 3
	// After a turn the owner rests restPerPeer for each peer, at most readBusy:
	// otherwise each of many peers, with its own times, would cost a reading of
	// all of them.
	restPerPeer = 2 * time.Millisecond
	// passage is how long a packet that is held no more takes to leave the device.
	passage = 5 * time.Millisecond
	// repairEvery is the pause after an operation that failed.
	repairEvery = 5 * time.Second
)

// owner is the goroutine of Run: the only one that changes the device.
type owner struct {
	mesh *Mesh
	dev  device
	log  zerolog.Logger
	rand func() float64

	want     topo.Desired
	has      bool // want is set
	repairAt time.Time
	links    map[topo.Key]*link
	keys     []topo.Key // of links, sorted by node
	tokens   bucket
	last     reading
	attempts uint64
	moves    uint64
	dueReads int  // readings still to make for a hint
	twofold  bool // a wanted peer has two keys
	staged   bool // a link is
}

func newOwner(m *Mesh, dev device) *owner {
	return &owner{mesh: m, dev: dev, log: m.log, rand: m.opts.Rand, links: map[topo.Key]*link{}}
}

// loop serves requests, hints and time until ctx is done or the device stops.
func (o *owner) loop(ctx context.Context) error {
	timer := time.NewTimer(readIdle)
	defer timer.Stop()
	var rested time.Time // no turn before
	for {
		hints := o.dev.hints()
		if o.dueReads > 0 {
			hints = nil // a reading is already due
		}
		select {
		case <-ctx.Done():
			return nil
		case <-o.dev.done():
			return errors.New("device stopped by itself")
		case req := <-o.mesh.requests:
			req.done <- o.serve(req, time.Now())
		case <-hints:
			o.dueReads = hintReads
			timer.Reset(max(hintDelay, time.Until(rested)))
			continue
		case <-timer.C:
		}
		wait, rest := o.turn(time.Now()), o.rest()
		rested = time.Now().Add(rest)
		timer.Reset(max(wait, rest))
	}
}

// rest is the least time between two turns.
func (o *owner) rest() time.Duration {
	rest := min(time.Duration(len(o.keys))*restPerPeer, readBusy)
	if o.staged {
		rest = min(rest, readStaged)
	}
	return rest
}

// busy is the interval between readings while a peer is out of reach.
func (o *owner) busy() time.Duration {
	return min(max(readBusy, 5*time.Duration(len(o.keys))*restPerPeer), readIdle)
}

// serve carries out a request.
func (o *owner) serve(req request, now time.Time) error {
	if req.private != nil {
		return o.setKey(*req.private, time.Now())
	}
	return o.set(req.want, now)
}

// setKey changes the device's key. From before the change packets wait until
// the peers have noticed it: one that the device sees in between would make it
// start a handshake of its own, and the two would spoil each other.
func (o *owner) setKey(private [topo.KeyLen]byte, now time.Time) error {
	key, err := PublicKey(private)
	if err != nil {
		return fmt.Errorf("mesh: set key: %w", err)
	}
	for _, k := range o.keys {
		if l := o.links[k]; !l.staged() && !o.mesh.opts.naive {
			l.held = true
			o.dev.hold(k, l.addrs, true)
			o.dev.firm(k)
		}
	}
	time.Sleep(passage)
	if err := o.dev.setPrivateKey(private); err != nil {
		return fmt.Errorf("mesh: set key: %w", err) // the next turn lets the packets go
	}
	o.mesh.key.Store(&key)
	o.want.Key = key
	for _, k := range o.keys {
		if l := o.links[k]; !l.staged() {
			l.rekey(now, o.rand())
			o.tend(k, l, now)
		}
	}
	o.publish(now)
	return nil
}

// set takes over a new desired state.
func (o *owner) set(want topo.Desired, now time.Time) error {
	if own := o.mesh.Key(); want.Key != own {
		return fmt.Errorf("mesh: set: device key is %s, want names %s", own, want.Key)
	}
	o.want, o.has = want, true
	o.twofold = slices.ContainsFunc(want.Peers, func(p topo.Peer) bool { return !p.Next.IsZero() })
	refused, err := o.reconcile(now)
	switch {
	case err != nil:
		return fmt.Errorf("mesh: set: %w", err)
	case len(refused) > 0:
		return &RefusedError{Refusals: refused}
	}
	return nil
}

// reconcile reads the device, carries out the difference to what is wanted
// and reads it again.
func (o *owner) reconcile(now time.Time) ([]topo.Refusal, error) {
	o.repairAt = now.Add(repairEvery)
	if err := o.read(now); err != nil {
		return nil, err
	}
	o.relink(now)
	ops, refused := topo.Diff(o.want, o.observed(now))
	for _, op := range ops {
		o.log.Debug().Stringer("op", op).Msg("changing device")
		if err := o.dev.apply(op); err != nil {
			return refused, errors.Join(err, o.read(now))
		}
	}
	o.repairAt = time.Time{}
	if len(ops) > 0 {
		if err := o.read(now); err != nil {
			return refused, err
		}
	}
	o.publish(now)
	return refused, nil
}

// relink makes the links equal to the wanted peers. New peers are held before
// they get an address, so that no packet passes ahead of its turn.
func (o *owner) relink(now time.Time) {
	peers := topo.Resolve(o.want, o.observed(now)).Peers
	wanted := make(map[topo.Key]bool, len(peers))
	o.staged = false
	for _, p := range peers {
		if p.Key == o.want.Key || p.Key.IsZero() || wanted[p.Key] {
			continue // Diff refuses it
		}
		wanted[p.Key] = true
		o.staged = o.staged || !p.Follows.IsZero()
		o.relinkPeer(p, now)
	}
	for key := range o.links {
		if !wanted[key] {
			o.dev.forget(key)
			delete(o.links, key)
		}
	}
	o.sortKeys()
}

func (o *owner) relinkPeer(p topo.Peer, now time.Time) {
	l := o.links[p.Key]
	if l == nil {
		l = newLink(p, o.want.Key, now, o.rand())
		if o.rekeyed(p) {
			l.yield(now, o.rand())
		}
		o.links[p.Key] = l
		if i := slices.IndexFunc(o.last.peers, func(r peerReading) bool { return r.Key == p.Key }); i >= 0 {
			l.see(o.last.peers[i], now) // the device has it from an earlier run
		}
		l.held = !l.staged() && !l.live(now) && !o.mesh.opts.naive
	}
	switch {
	case l.staged() && p.Follows.IsZero():
		l.held = !l.live(now) && !o.mesh.opts.naive
		l.initiator = topo.Initiates(o.want.Key, p.Key)
		if l.held {
			l.yield(now, o.rand())
		}
		o.log.Info().Str("peer", string(p.Node)).Msg("peer has changed its key")
	case !p.Follows.IsZero():
		if l.held {
			o.dev.forget(p.Key)
		}
		l.held = false
	case l.held && !slices.Equal(l.want.Endpoints, p.Endpoints):
		l.startOver(now, o.rand()) // new candidates are worth a new search
	}
	l.update(p)
	if l.held {
		o.dev.hold(p.Key, l.addrs, true)
	}
}

// rekeyed reports whether p is a peer that had another key until now.
func (o *owner) rekeyed(p topo.Peer) bool {
	if !p.Follows.IsZero() || p.Node == "" {
		return false
	}
	for key, l := range o.links {
		if l.want.Node == p.Node && !slices.ContainsFunc(o.want.Peers, func(w topo.Peer) bool { return w.Key == key }) {
			return true
		}
	}
	return false
}

// switched reports whether a peer with two keys now shows another one than it
// did.
func (o *owner) switched(now time.Time) bool {
	if !o.twofold {
		return false
	}
	for _, p := range topo.Resolve(o.want, o.observed(now)).Peers {
		if l := o.links[p.Key]; l != nil && l.want.Follows != p.Follows {
			return true
		}
	}
	return false
}

// observed is the last reading with ages.
func (o *owner) observed(now time.Time) topo.Observed {
	obs := topo.Observed{Port: o.last.port, MTU: o.last.mtu, Addrs: o.last.addrs}
	for _, p := range o.last.peers {
		p.Age = topo.Never
		if l := o.links[p.Key]; l != nil {
			p.Age = l.age(now)
		}
		obs.Peers = append(obs.Peers, p.ObservedPeer)
	}
	return obs
}

// read takes a reading of the device.
func (o *owner) read(now time.Time) error {
	r, err := o.dev.observe()
	if err != nil {
		return err
	}
	o.last = r
	for _, p := range r.peers {
		if l := o.links[p.Key]; l != nil {
			l.see(p, now)
		}
	}
	return nil
}

// turn is one round of looking after the peers; it returns when the next one
// is due.
func (o *owner) turn(now time.Time) time.Duration {
	o.dueReads = max(0, o.dueReads-1)
	before := o.shaken()
	if err := o.read(now); err != nil {
		o.log.Error().Err(err).Msg("cannot read device")
		return readIdle
	}
	if o.has && (o.shaken() != before && o.keepaliveDue() || o.switched(now) ||
		!o.repairAt.IsZero() && !now.Before(o.repairAt)) {
		if _, err := o.reconcile(now); err != nil {
			o.log.Warn().Err(err).Msg("device differs from what is wanted")
		}
	}
	next := readIdle
	keys := o.keys
	if o.tokens.few(now) {
		// Who was tried least comes first.
		keys = slices.Clone(keys)
		slices.SortStableFunc(keys, func(a, b topo.Key) int { return cmp.Compare(o.links[a].tries, o.links[b].tries) })
	}
	for _, key := range keys {
		if wait := o.tend(key, o.links[key], now); wait < next {
			next = wait
		}
	}
	o.publish(now)
	if o.staged {
		next = min(next, readStaged)
	}
	if o.dueReads > 0 {
		next = min(next, hintAgain)
	}
	return next
}

// tend looks after one peer and returns how long it can wait.
func (o *owner) tend(key topo.Key, l *link, now time.Time) time.Duration {
	if o.mesh.opts.naive || l.staged() {
		return readIdle
	}
	switch live := l.live(now); {
	case live && l.held:
		if wait := settle - l.age(now); l.rekeyed && wait > 0 {
			return wait
		}
		l.held, l.rekeyed = false, false
		l.initiator = topo.Initiates(o.want.Key, key)
		o.dev.hold(key, l.addrs, false)
		o.log.Info().Str("peer", string(l.want.Node)).Stringer("addr", l.endpoint).Msg("peer reached")
	case !live && !l.held && l.seen:
		l.held = true
		o.dev.hold(key, l.addrs, true)
		l.startOver(now, o.rand())
		o.log.Info().Str("peer", string(l.want.Node)).Msg("peer out of reach")
	}
	if !l.seen {
		return readBusy
	}
	a := l.due(now, o.rand(), &o.tokens)
	if a.endpoint.IsValid() {
		if err := o.dev.apply(topo.SetEndpoint{Key: key, Endpoint: a.endpoint}); err != nil {
			o.log.Debug().Err(err).Msg("candidate not usable")
		}
		l.endpoint = a.endpoint
		o.moves++
	}
	if a.handshake && l.endpoint.IsValid() {
		o.attempts++
		if err := o.dev.handshake(key, a.force); err != nil {
			o.log.Debug().Err(err).Str("peer", string(l.want.Node)).Msg("handshake not started")
		}
	}
	if l.reachable(now) {
		return readIdle
	}
	wait := min(o.busy(), l.rotateAt.Sub(now))
	if !l.live(now) {
		wait = min(wait, l.nextTry.Sub(now))
	}
	return max(wait, time.Millisecond)
}

// shaken counts handshakes in a way that any new one changes.
func (o *owner) shaken() int64 {
	var sum int64
	for _, l := range o.links {
		sum += l.handshake
	}
	return sum
}

// keepaliveDue reports whether a peer with a session lacks its keepalive.
func (o *owner) keepaliveDue() bool {
	for _, l := range o.links {
		if l.handshake != 0 && l.keepalive != l.want.Keepalive {
			return true
		}
	}
	return false
}

// sortKeys lists the links by node.
func (o *owner) sortKeys() {
	o.keys = o.keys[:0]
	for k := range o.links {
		o.keys = append(o.keys, k)
	}
	slices.SortFunc(o.keys, func(a, b topo.Key) int {
		return cmp.Or(cmp.Compare(o.links[a].want.Node, o.links[b].want.Node), bytes.Compare(a[:], b[:]))
	})
}

// publish makes the present state visible to Observe and the metrics.
func (o *owner) publish(now time.Time) {
	s := &snapshot{
		port: o.last.port, mtu: o.last.mtu,
		counters: o.dev.counters(), attempts: o.attempts, moves: o.moves,
	}
	next := map[topo.Key]topo.Key{}
	for key, l := range o.links {
		if l.staged() {
			next[l.want.Follows] = key
		}
	}
	s.peers = make([]PeerStatus, 0, len(o.keys))
	for _, key := range o.keys {
		l := o.links[key]
		if l.staged() {
			continue
		}
		p := PeerStatus{
			Node: l.want.Node, Key: key, Next: next[key], Allowed: l.allowed, Endpoint: l.endpoint, Candidates: l.candidates(),
			Live: l.live(now), Reachable: l.reachable(now), Initiator: l.initiator, Attempts: l.tries,
			Keepalive: l.keepalive, Rx: l.rx, Tx: l.tx,
		}
		if l.handshake != 0 {
			p.LastHandshake = time.Unix(0, l.handshake)
		}
		s.peers = append(s.peers, p)
	}
	o.mesh.snap.Store(s)
}
