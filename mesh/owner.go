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

	"github.com/skein-project/skein/internal/wait"
	"github.com/skein-project/skein/mesh/device"
	"github.com/skein-project/skein/mesh/reach"
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
	// passage is how long a packet that is no longer held takes to leave the device.
	passage = 5 * time.Millisecond
	// repairEvery is the pause after an operation that failed.
	repairEvery = 5 * time.Second
)

// owner is the goroutine of Run: the only one that changes the device.
type owner struct {
	mesh *Mesh
	dev  device.Device
	log  zerolog.Logger
	rand func() float64

	want     topo.Desired
	has      bool // want is set
	repairAt time.Time
	links    map[topo.Key]*reach.Link
	keys     []topo.Key // of links, sorted by node
	tokens   reach.Pace
	last     device.Reading
	tally    tally
	dueReads int  // readings still to make for a hint
	twofold  bool // a wanted peer has two keys
	staged   bool // a link is
}

// tally counts what was done to reach peers.
type tally struct {
	attempts uint64 // handshakes
	moves    uint64 // endpoints
}

func newOwner(m *Mesh, dev device.Device) *owner {
	return &owner{mesh: m, dev: dev, log: m.log, rand: m.opts.Rand, links: map[topo.Key]*reach.Link{}}
}

// loop serves requests, hints and time until ctx is done or the device stops.
func (o *owner) loop(ctx context.Context) error {
	timer := time.NewTimer(readIdle)
	defer timer.Stop()
	var rested time.Time // no turn before
	for {
		hints := o.dev.Hints()
		if o.dueReads > 0 {
			hints = nil // a reading is already due
		}
		select {
		case <-ctx.Done():
			return nil
		case <-o.dev.Done():
			return errors.New("device stopped by itself")
		case req := <-o.mesh.requests:
			req.done <- o.serve(req, time.Now())
		case <-hints:
			o.dueReads = hintReads
			timer.Reset(max(hintDelay, time.Until(rested)))
			continue
		case <-timer.C:
		}
		pause, rest := o.turn(time.Now()), o.rest()
		if pause == readIdle {
			pause = wait.Until(time.Now(), readIdle) // with the other tickers
		}
		rested = time.Now().Add(rest)
		timer.Reset(max(pause, rest))
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
	key, err := topo.PublicKey(private)
	if err != nil {
		return fmt.Errorf("mesh: set key: %w", err)
	}
	for _, k := range o.keys {
		if l := o.links[k]; !l.Staged() && !o.mesh.opts.naive {
			l.Held = true
			o.dev.Hold(k, l.Addrs, true)
			o.dev.Firm(k)
		}
	}
	time.Sleep(passage)
	if err := o.dev.SetPrivateKey(private); err != nil {
		return fmt.Errorf("mesh: set key: %w", err) // the next turn lets the packets go
	}
	o.mesh.key.Store(&key)
	o.want.Key = key
	for _, k := range o.keys {
		if l := o.links[k]; !l.Staged() {
			l.Rekey(now, o.rand())
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
		if err := o.dev.Apply(op); err != nil {
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
			o.dev.Forget(key)
			delete(o.links, key)
		}
	}
	o.sortKeys()
}

func (o *owner) relinkPeer(p topo.Peer, now time.Time) {
	l := o.links[p.Key]
	if l == nil {
		l = reach.New(p, o.want.Key, now, o.rand())
		if o.rekeyed(p) {
			l.Yield(now, o.rand())
		}
		o.links[p.Key] = l
		if i := slices.IndexFunc(o.last.Peers, func(r topo.PeerReading) bool { return r.Key == p.Key }); i >= 0 {
			l.See(o.last.Peers[i], now) // the device has it from an earlier run
		}
		l.Held = !l.Staged() && !l.Live(now) && !o.mesh.opts.naive
	}
	switch {
	case l.Staged() && p.Follows.IsZero():
		l.Held = !l.Live(now) && !o.mesh.opts.naive
		l.Initiator = topo.Initiates(o.want.Key, p.Key)
		if l.Held {
			l.Yield(now, o.rand())
		}
		o.log.Info().Str("peer", string(p.Node)).Msg("peer has changed its key")
	case !p.Follows.IsZero():
		if l.Held {
			o.dev.Forget(p.Key)
		}
		l.Held = false
	case l.Held && !slices.Equal(l.Want.Endpoints, p.Endpoints):
		l.StartOver(now, o.rand()) // new candidates are worth a new search
	}
	l.Update(p)
	if l.Held {
		o.dev.Hold(p.Key, l.Addrs, true)
	}
}

// rekeyed reports whether p is a peer that had another key until now.
func (o *owner) rekeyed(p topo.Peer) bool {
	if !p.Follows.IsZero() || p.Node == "" {
		return false
	}
	for key, l := range o.links {
		if l.Want.Node == p.Node && !slices.ContainsFunc(o.want.Peers, func(w topo.Peer) bool { return w.Key == key }) {
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
		if l := o.links[p.Key]; l != nil && l.Want.Follows != p.Follows {
			return true
		}
	}
	return false
}

// observed is the last reading with ages.
func (o *owner) observed(now time.Time) topo.Observed {
	obs := topo.Observed{Port: o.last.Port, MTU: o.last.MTU, Addrs: o.last.Addrs}
	for _, p := range o.last.Peers {
		p.Age = topo.Never
		if l := o.links[p.Key]; l != nil {
			p.Age = l.Age(now)
		}
		obs.Peers = append(obs.Peers, p.ObservedPeer)
	}
	return obs
}

// read takes a reading of the device.
func (o *owner) read(now time.Time) error {
	r, err := o.dev.Observe()
	if err != nil {
		return err
	}
	o.last = r
	for _, p := range r.Peers {
		if l := o.links[p.Key]; l != nil {
			l.See(p, now)
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
	if o.tokens.Few(now) {
		// Who was tried least comes first.
		keys = slices.Clone(keys)
		slices.SortStableFunc(keys, func(a, b topo.Key) int { return cmp.Compare(o.links[a].Search.Tries, o.links[b].Search.Tries) })
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
func (o *owner) tend(key topo.Key, l *reach.Link, now time.Time) time.Duration {
	if o.mesh.opts.naive || l.Staged() {
		return readIdle
	}
	switch live := l.Live(now); {
	case live && l.Held:
		if wait := reach.Settle - l.Age(now); l.Rekeyed && wait > 0 {
			return wait
		}
		l.Held, l.Rekeyed = false, false
		l.Initiator = topo.Initiates(o.want.Key, key)
		o.dev.Hold(key, l.Addrs, false)
		o.log.Info().Str("peer", string(l.Want.Node)).Stringer("addr", l.Last.Endpoint).Msg("peer reached")
	case !live && !l.Held && l.Seen:
		l.Held = true
		o.dev.Hold(key, l.Addrs, true)
		l.StartOver(now, o.rand())
		o.log.Info().Str("peer", string(l.Want.Node)).Msg("peer out of reach")
	}
	if !l.Seen {
		return readBusy
	}
	a := l.Due(now, o.rand(), &o.tokens)
	if a.Endpoint.IsValid() {
		if err := o.dev.Apply(topo.SetEndpoint{Key: key, Endpoint: a.Endpoint}); err != nil {
			o.log.Debug().Err(err).Msg("candidate not usable")
		}
		l.Last.Endpoint = a.Endpoint
		o.tally.moves++
	}
	if a.Handshake && l.Last.Endpoint.IsValid() {
		o.tally.attempts++
		if err := o.dev.Handshake(key, a.Force); err != nil {
			o.log.Debug().Err(err).Str("peer", string(l.Want.Node)).Msg("handshake not started")
		}
	}
	if l.Reachable(now) {
		return readIdle
	}
	wait := min(o.busy(), l.Search.RotateAt.Sub(now))
	if !l.Live(now) {
		wait = min(wait, l.Search.NextTry.Sub(now))
	}
	return max(wait, time.Millisecond)
}

// shaken counts handshakes in a way that any new one changes.
func (o *owner) shaken() int64 {
	var sum int64
	for _, l := range o.links {
		sum += l.Last.Handshake
	}
	return sum
}

// keepaliveDue reports whether a peer with a session lacks its keepalive.
func (o *owner) keepaliveDue() bool {
	for _, l := range o.links {
		if l.Last.Handshake != 0 && l.Last.Keepalive != l.Want.Keepalive {
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
		return cmp.Or(cmp.Compare(o.links[a].Want.Node, o.links[b].Want.Node), bytes.Compare(a[:], b[:]))
	})
}

// publish makes the present state visible to Observe and the metrics.
func (o *owner) publish(now time.Time) {
	s := &snapshot{
		port: o.last.Port, mtu: o.last.MTU,
		counters: o.dev.Counters(), tally: o.tally,
	}
	next := map[topo.Key]topo.Key{}
	for key, l := range o.links {
		if l.Staged() {
			next[l.Want.Follows] = key
		}
	}
	s.peers = make([]PeerStatus, 0, len(o.keys))
	for _, key := range o.keys {
		l := o.links[key]
		if l.Staged() {
			continue
		}
		p := PeerStatus{
			Node: l.Want.Node, Key: key, Next: next[key], Allowed: l.Last.Allowed, Endpoint: l.Last.Endpoint, Candidates: l.Candidates(),
			Live: l.Live(now), Reachable: l.Reachable(now), Initiator: l.Initiator, Attempts: l.Search.Tries,
			Keepalive: l.Last.Keepalive, Rx: l.Last.Rx, Tx: l.Last.Tx,
		}
		if l.Last.Handshake != 0 {
			p.LastHandshake = time.Unix(0, l.Last.Handshake)
		}
		s.peers = append(s.peers, p)
	}
	o.mesh.snap.Store(s)
}
