package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/time/rate"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord"
	"github.com/skein-project/skein/coord/join"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/lease"
	"github.com/skein-project/skein/proxy"
	"github.com/skein-project/skein/publisher"
	"github.com/skein-project/skein/publisher/descriptor"
	"github.com/skein-project/skein/tor"
)

// onions is this host's part in the cluster's onion addresses: it keeps the
// onion services of tor as the log says, tells the others of its introduction
// points, and runs a publisher for each address whose key it has.
//
// run owns all that has no lock of its own; it looks every onionEvery and when
// woken. Beside it run a goroutine for the network, one per watched service, per
// instance that tor is to lose, per publisher and per probe; run waits for all of
// them.
type onions struct {
	n    *node
	tor  *torHost
	log  zerolog.Logger
	dir  string // of the services, their keys and the drain mark
	keys *keyring
	m    *onionMetrics
	wake chan struct{} // capacity 1

	serves  bool // this host has a target
	healthy atomic.Bool
	drained atomic.Bool
	// generation names the present instances, see generationFile.
	generation atomic.Pointer[string]
	leaving    atomic.Bool   // this daemon stops
	wrong      atomic.Uint64 // introductions for another master
	last       atomic.Uint64 // seconds since the epoch when something was published; 0: never
	points     atomic.Uint32
	status     atomic.Pointer[onionStatus]

	mu      sync.Mutex
	duty    lease.Duty
	network *publisher.Network
	sights  map[string]sight // by address
	probes  map[cluster.NodeID]probed
	stamps  map[string]time.Time // of events that repeat
	// imported says when the key of an address was, by this daemon.
	imported map[descriptor.Address]time.Time

	// run's own.
	wg        sync.WaitGroup
	watched   map[string]context.CancelFunc
	shares    *shares
	pubs      map[descriptor.Address]*publishing
	told      string // last share
	fedNet    *publisher.Network
	changed   time.Time            // services, last
	shown     map[string]time.Time // when an instance was last told, by directory
	proof     proof                // of the present instance
	unread    unread
	leavings  map[string]farewell // of instances, by directory
	admission admission
	reloads   *rate.Limiter
	soloTill  time.Time // until when the services of a former single host stay
}

// publishing is the publisher of one address.
type publishing struct {
	p       *publisher.Publisher
	clients string // what it was made with
	cancel  context.CancelFunc
	done    chan struct{}
	duty    lease.Duty
	given   bool   // duty was
	fed     string // last hosts
	solo    bool
	noted   uint64 // version told by an event
}

// onionStatus is what an operator sees; immutable.
type onionStatus struct {
	settings []state.Onion
	hosts    map[cluster.NodeID]publisher.Share
	errors   map[cluster.NodeID]string
	serving  map[cluster.NodeID]bool
	keepers  map[descriptor.Address][]cluster.NodeID
	pubs     map[descriptor.Address]publisher.Status
}

// Times of onions.
const (
	onionEvery     = 250 * time.Millisecond
	descriptorLife = 3 * time.Hour    // at clients
	repeatGap      = time.Minute      // between two equal events
	unhealthyGap   = 30 * time.Second // between two hints
	onionGrace     = 3 * time.Second
)

// newOnions reads keys and marks. Nothing runs before run.
func newOnions(n *node) (*onions, error) {
	o := &onions{
		n: n, log: n.log.With().Str("component", "onion").Logger(), dir: filepath.Join(n.cfg.StateDir, "onion"),
		wake: make(chan struct{}, 1), serves: n.cfg.Onion.Target != "", sights: map[string]sight{}, probes: map[cluster.NodeID]probed{},
		imported: map[descriptor.Address]time.Time{}, stamps: map[string]time.Time{}, watched: map[string]context.CancelFunc{},
		shares: newShares(), shown: map[string]time.Time{}, pubs: map[descriptor.Address]*publishing{},
		reloads: rate.NewLimiter(rate.Every(reloadEvery), reloadBurst),
	}
	o.healthy.Store(true)
	o.status.Store(&onionStatus{})
	var err error
	if o.m, err = newOnionMetrics(n.reg); err != nil {
		return nil, err
	}
	if o.keys, err = openKeyring(filepath.Join(o.dir, "keys")); err != nil {
		return nil, err
	}
	for _, why := range o.keys.problems() {
		o.log.Error().Str("reason", why).Msg("key of an onion address left out")
	}
	switch _, err := os.Stat(o.drainFile()); {
	case err == nil:
		o.drained.Store(true)
	case !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("mark of a drained onion: %w", err)
	}
	generation, err := os.ReadFile(o.generationFile())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("generation of the onion key: %w", err)
	}
	o.generation.Store(new(string(generation)))
	return o, nil
}

func (o *onions) socket() string { return o.tor.socket(o.n.cfg.Onion.Port) + ".web" }

// look wakes run.
func (o *onions) look() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// SetDuty implements dutyTaker.
func (o *onions) SetDuty(d lease.Duty) {
	o.mu.Lock()
	o.duty = d
	o.mu.Unlock()
	o.look()
}

// settings are the addresses that the cluster serves.
func (o *onions) settings() (list []state.Onion) {
	o.n.events.View(func(s *state.State) { list = s.Onions() })
	return list[:min(len(list), cluster.MaxOnions)]
}

// run serves and publishes until ctx ends.
func (o *onions) run(ctx context.Context) error {
	defer o.wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	o.wg.Go(func() { watchNetwork(ctx, o.tor.tor, o.log, o.setNetwork) })
	o.wg.Go(func() { o.watchMaster(ctx) })
	tick := time.NewTicker(onionEvery)
	defer tick.Stop()
	for {
		o.turn(ctx)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-o.wake:
		case <-tick.C:
		}
	}
}

func (o *onions) setNetwork(n publisher.Network) {
	o.mu.Lock()
	o.network = &n
	o.mu.Unlock()
	o.look()
}

// watchMaster counts clients that were sent here for an address that this host
// does not know.
func (o *onions) watchMaster(ctx context.Context) {
	sub := o.tor.tor.Subscribe(64)
	defer sub.Close()
	for {
		e, err := sub.Next(ctx)
		if err != nil {
			return
		}
		if _, ok := e.(tor.WrongMaster); ok {
			count := o.wrong.Add(1)
			if o.first("wrong master") {
				o.log.Error().Msg("clients come for an onion address that this host does not serve")
				o.n.note(cluster.KindWrongMaster, cluster.OnionWrongMaster{Count: count})
			}
		}
	}
}

// first reports whether what was not told for repeatGap.
func (o *onions) first(what string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	if now.Sub(o.stamps[what]) < repeatGap {
		return false
	}
	if len(o.stamps) > 4096 {
		clear(o.stamps)
	}
	o.stamps[what] = now
	return true
}

// turn makes everything as it should be by now.
func (o *onions) turn(ctx context.Context) {
	settings := o.settings()
	solo := o.solo(settings)
	o.keepServices(ctx, settings, solo)
	o.watchServices(ctx, settings)
	o.announce(settings)
	v := o.n.coord.View()
	for _, r := range o.shares.look(v) {
		o.refused("", r)
	}
	o.keepPublishers(ctx, settings)
	answers := func(n cluster.NodeID, a descriptor.Address) bool { return o.answers(ctx, n, a) }
	o.mu.Lock()
	duty, network := o.duty, o.network
	o.mu.Unlock()
	st := &onionStatus{
		settings: settings, hosts: map[cluster.NodeID]publisher.Share{}, errors: map[cluster.NodeID]string{}, serving: map[cluster.NodeID]bool{},
		keepers: map[descriptor.Address][]cluster.NodeID{}, pubs: map[descriptor.Address]publisher.Status{},
	}
	term := publishTerm(duty, o.n.id.Node, o.n.lastTerm())
	publishing := 0
	for _, s := range settings {
		keepers := o.shares.keepers(v, s.Key)
		for _, k := range keepers {
			st.keepers[s.Key] = append(st.keepers[s.Key], k.node)
		}
		hosts, digest := o.shares.serving(v, s.Key, answers)
		for _, h := range hosts {
			st.serving[h.Node] = true
		}
		pub := o.pubs[s.Key]
		if pub == nil {
			if duty.Publishing && len(v.Members) > coord.MaxDirect && o.first("no key of "+string(s.Key[:])) {
				o.log.Error().Str("address", descriptor.Address(s.Key).String()).
					Msg("this host is to publish an address whose key it lacks, and in so large a cluster nobody stands in: `skein onion grant` it")
			}
			continue
		}
		if network != nil && (o.fedNet != network || !pub.given) {
			pub.p.SetNetwork(*network)
		}
		if pub.fed != digest || !pub.given {
			pub.p.SetHosts(hosts)
			pub.fed = digest
		}
		if alone := solo && o.nativeReady(s.Key) && !o.justImported(s.Key); alone != pub.solo {
			pub.solo = alone
			pub.p.SetSolo(alone)
		}
		d := lease.Duty{
			Publisher: o.n.id.Node, Publishing: publishes(o.n.id.Node, duty, keepers, o.knows(v, duty.Publisher)),
			// Of leases that every part of a cut may hold none excludes a later one.
			ByLease: duty.Publishing && duty.ByLease && !v.Lease.Config.Split(), Term: term,
		}
		if !pub.given || d != pub.duty {
			pub.p.SetDuty(d)
		}
		pub.given, pub.duty = true, d
		st.pubs[s.Key] = pub.p.Status()
		if d.Publishing {
			publishing++
		}
	}
	o.fedNet = network
	for n, h := range o.shares.hosts {
		st.hosts[n] = h.share
		if h.err != nil {
			st.errors[n] = h.err.Error()
		}
	}
	o.status.Store(st)
	o.m.addresses.Set(float64(len(settings)))
	o.m.publishing.Set(float64(publishing))
	o.m.serving.Set(float64(len(st.serving)))
}

// solo reports whether tor may publish by itself: this host is the only member.
func (o *onions) solo(settings []state.Onion) bool {
	if !o.n.cfg.Onion.SingleHost || !o.serves || len(settings) == 0 || len(o.n.memberList()) != 1 || o.drained.Load() {
		return false
	}
	o.soloTill = time.Now().Add(descriptorLife)
	return true
}

// see takes what a watch saw that nobody ended.
func (o *onions) see(watch context.Context, address string, s sight) {
	o.mu.Lock()
	if watch.Err() == nil {
		o.sights[address] = s
	}
	o.mu.Unlock()
	o.look()
}

// unsee forgets a service.
func (o *onions) unsee(address string) {
	o.mu.Lock()
	delete(o.sights, address)
	o.mu.Unlock()
}

func (o *onions) sight(address string) (sight, bool) {
	o.mu.Lock()
	s := o.sights[address]
	o.mu.Unlock()
	return s, s.fresh(o.tor.tor.Status())
}

// justImported reports whether directories may still have a descriptor of whoever
// had the key before: if its revision is above tor's, tor could not publish.
func (o *onions) justImported(a descriptor.Address) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	at, ok := o.imported[a]
	return ok && time.Since(at) < descriptorLife
}

// nativeReady reports whether tor serves an address with its own key, and has
// introduction points for it.
func (o *onions) nativeReady(a descriptor.Address) bool {
	s, ok := o.sight(a.String())
	return ok && len(s.Relays) > 0
}

// ready reports whether this host could publish at once.
func (o *onions) ready() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.network != nil && o.tor.tor.Status().State == tor.StateReady
}

// share is what this host says of itself.
func (o *onions) share(settings []state.Onion) publisher.Share {
	s := publisher.Share{Healthy: o.healthy.Load()}
	if !o.drained.Load() && !o.leaving.Load() {
		s.Weight = o.n.conf().Onion.Weight
	}
	if o.ready() {
		for _, a := range o.keys.addresses() {
			if slices.ContainsFunc(settings, func(x state.Onion) bool { return x.Key == a }) {
				s.Keys = append(s.Keys, a)
			}
		}
	}
	own, seen, ok := o.instance()
	a, err := descriptor.ParseAddress(seen.Address)
	if !ok || err != nil {
		return s
	}
	if err := o.prove(own.Dir, a); err != nil {
		if o.first("proof: " + err.Error()) {
			o.log.Error().Err(err).Msg("own introduction points not told")
		}
		return s
	}
	o.shown[own.Dir] = time.Now()
	s.Address, s.Proof, s.Text = a, o.proof.sig, []byte(seen.Descriptor)
	for _, m := range own.Masters {
		if k, err := descriptor.ParseAddress(m); err == nil {
			s.Serves = append(s.Serves, k)
		}
	}
	for _, r := range seen.Relays {
		if f, err := descriptor.ParseFingerprint(r); err == nil && len(s.Relays) < descriptor.MaxPoints {
			s.Relays = append(s.Relays, f)
		}
	}
	return s
}

// announce tells the others when this host's share changed.
func (o *onions) announce(settings []state.Onion) {
	s := o.share(settings)
	pieces, err := s.Encode()
	if err != nil {
		if o.first("share: " + err.Error()) {
			o.log.Error().Err(err).Msg("own introduction points not told")
		}
		return
	}
	var text strings.Builder
	for _, p := range pieces {
		text.Write(p)
	}
	if text.String() == o.told {
		return
	}
	if err := o.n.coord.PublishIntroPoints(pieces, time.Now()); err != nil {
		o.log.Error().Err(err).Msg("own introduction points not told")
		return
	}
	o.told = text.String()
	o.points.Store(uint32(len(s.Relays))) //nolint:gosec // at most MaxPoints
	o.m.points.Set(float64(len(s.Relays)))
}

// answers reports whether a suspected host is reached behind its onion, asking
// it now and then; until the first answer it is taken to be.
func (o *onions) answers(ctx context.Context, node cluster.NodeID, a descriptor.Address) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	now, running := o.n.now(), 0
	for n, p := range o.probes {
		switch {
		case p.running:
			running++
		case now-p.at >= 2*probeEvery:
			delete(o.probes, n) // an answer of an earlier suspicion says nothing
		}
	}
	p := o.probes[node]
	known := p.at > 0
	if p.running || running >= maxProbes || known && now-p.at < probeEvery {
		return !known || p.ok
	}
	limit := probeTime
	if o.network != nil && o.network.Testing {
		limit = probeTimeTest
	}
	p.running = true
	o.probes[node] = p
	o.wg.Go(func() {
		probe, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		err := o.ask(probe, node, a)
		o.mu.Lock()
		o.probes[node] = probed{ok: err == nil, at: o.n.now()}
		o.mu.Unlock()
		o.log.Info().Str("peer", string(node)).Bool("answers", err == nil).Msg("suspected host asked behind its onion")
		o.look()
	})
	return !known || p.ok
}

// ask is nil when the proxy of a host answers behind its onion. That it connects
// says little: the tor and the kernel of a host whose daemon hangs still do that.
// A proxy that passes bytes on has no answer of its own.
func (o *onions) ask(ctx context.Context, node cluster.NodeID, a descriptor.Address) error {
	conn, err := o.tor.dial(ctx, probeIsolation+string(node), a.String(), o.n.cfg.Onion.Port)
	if err != nil {
		return err
	}
	defer conn.Close()
	if o.n.cfg.Onion.Mode != proxy.ModeHTTP {
		return nil
	}
	if by, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(by); err != nil {
			return err
		}
	}
	if _, err := fmt.Fprintf(conn, "OPTIONS * HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", a); err != nil {
		return err
	}
	_, err = io.ReadFull(conn, make([]byte, 1))
	return err
}

// keepPublishers runs a publisher for each address whose key is here.
func (o *onions) keepPublishers(ctx context.Context, settings []state.Onion) {
	for a, pub := range o.pubs {
		i := slices.IndexFunc(settings, func(s state.Onion) bool { return s.Key == a })
		ended := false
		select {
		case <-pub.done:
			ended = true
		default:
		}
		if i < 0 || ended || clientsText(settings[i].Clients) != pub.clients {
			pub.cancel()
			<-pub.done // it ends with its context, at once
			delete(o.pubs, a)
		}
	}
	for _, s := range settings {
		if o.pubs[s.Key] != nil {
			continue
		}
		key, ok := o.keys.get(s.Key)
		if !ok {
			continue
		}
		pub, err := o.newPublishing(key, s)
		if err != nil {
			if o.first("publisher: " + err.Error()) {
				o.log.Error().Err(err).Msg("onion address cannot be published")
			}
			continue
		}
		run, cancel := context.WithCancel(ctx)
		pub.cancel = cancel
		o.pubs[s.Key] = pub
		o.wg.Go(func() {
			defer close(pub.done)
			if err := pub.p.Run(run); err != nil && o.first(err.Error()) {
				o.log.Error().Err(err).Msg("publisher ended")
			}
		})
	}
}

func clientsText(list []cluster.OnionClient) string { return fmt.Sprint(list) }

func (o *onions) newPublishing(key descriptor.SecretKey, s state.Onion) (*publishing, error) {
	pub := &publishing{clients: clientsText(s.Clients), done: make(chan struct{})}
	opts := publisher.Options{
		Key: key, Uploader: torUploader{o.tor.tor}, Log: o.n.log,
		Floors: floorsFile{filepath.Join(o.dir, "revisions", key.Address().ID()+".json")},
		Report: func(r publisher.Report) { o.report(pub, r) },
	}
	for _, c := range s.Clients {
		k, err := clientKey(c.Key)
		if err != nil {
			return nil, fmt.Errorf("client %s of %s: %w", c.Name, key.Address(), err)
		}
		opts.Clients = append(opts.Clients, k)
	}
	var err error
	pub.p, err = publisher.New(opts)
	return pub, err
}

// report takes what a publisher found; it is called by the publisher's
// goroutine.
func (o *onions) report(pub *publishing, r publisher.Report) {
	a, st := r.Address.String(), pub.p.Status()
	switch {
	case r.Published != nil:
		o.last.Store(uint64(max(0, time.Now().Unix())))
		o.m.posts.WithLabelValues("done").Inc()
		o.m.published.Set(float64(time.Now().Unix()))
		if pub.noted == r.Published.Version {
			return // the other period's
		}
		pub.noted = r.Published.Version
		points := map[cluster.NodeID]int{}
		maps.Copy(points, st.Points)
		o.n.note(cluster.KindPublishDone, cluster.PublishDone{
			Address: a, Term: r.Published.Term, Points: points, Stored: r.Published.Stored, Asked: r.Published.Asked,
		})
	case r.Unpublished != nil:
		o.m.posts.WithLabelValues("failed").Inc()
		if o.first("unpublished " + a) {
			o.n.note(cluster.KindPublishFailed, cluster.PublishFailed{
				Address: a, Term: st.Term, Stored: r.Unpublished.Stored, Asked: r.Unpublished.Asked, Reason: "too few directories have it",
			})
		}
	case r.Failed != nil:
		o.m.posts.WithLabelValues("unmade").Inc()
		if o.first("failed " + a + r.Failed.Error()) {
			o.n.note(cluster.KindPublishFailed, cluster.PublishFailed{Address: a, Term: st.Term, Reason: clipReason(r.Failed.Error())})
		}
	case r.Fenced != nil:
		o.m.posts.WithLabelValues("fenced").Inc()
		o.n.note(cluster.KindPublishFenced, cluster.PublishFenced{Address: a, Term: r.Fenced.Own, Later: r.Fenced.Later})
	case r.Foreign != nil:
		o.m.posts.WithLabelValues("foreign").Inc()
		o.n.note(cluster.KindPublishForeign, cluster.PublishForeign{Address: a, Revision: r.Foreign.Revision, Dir: r.Foreign.Dir.String()})
	case r.Refused != nil:
		o.refused(a, *r.Refused)
	}
}

// refused tells of a host whose share or descriptor cannot be used.
func (o *onions) refused(address string, r publisher.Refused) {
	o.m.posts.WithLabelValues("refused").Inc()
	if !o.first("refused " + address + string(r.Node) + r.Err.Error()) {
		return
	}
	o.log.Warn().Err(r.Err).Str("peer", string(r.Node)).Msg("what a host says of its onion is refused")
	o.n.note(cluster.KindPublishRefused, cluster.PublishRefused{Address: address, Node: r.Node, Reason: clipReason(r.Err.Error())})
}

func clipReason(s string) string { return s[:min(len(s), cluster.MaxReason)] }

// proxyFor makes what this host runs behind its onion service.
func (o *onions) proxyFor(ctx context.Context) (*proxy.Proxy, error) {
	l, err := listenUnix(ctx, o.socket())
	if err != nil {
		return nil, err
	}
	c := o.n.cfg.Onion
	p, err := proxy.New(proxy.Options{
		Listen: l, Target: c.Target, Mode: c.Mode, Host: c.Host, Public: o.names,
		Dial: func(ctx context.Context, address string) (net.Conn, error) {
			return o.tor.tor.Dial(ctx, "proxy", address)
		},
		Join: o.n.door, JoinPath: join.PathPrefix,
		Connections: c.Connections, Body: c.BodyBytes, Answer: c.Answer, Idle: c.Idle,
		Log: o.log, OnHealth: o.onTarget,
	})
	if err != nil {
		_ = l.Close() // nobody uses it
		return nil, err
	}
	return p, nil
}

// names are the addresses that the cluster serves, as clients know them.
func (o *onions) names() []string {
	settings := o.status.Load().settings
	names := make([]string, len(settings))
	for i, x := range settings {
		names[i] = descriptor.Address(x.Key).String()
	}
	return names
}

// onTarget is told that the target fails or is back.
func (o *onions) onTarget(healthy bool, why error) {
	b := cluster.OnionTarget{Target: clipReason(o.n.cfg.Onion.Target), Healthy: healthy}
	if why != nil {
		b.Reason = clipReason(why.Error())
	}
	o.healthy.Store(healthy)
	o.m.healthy.Set(boolean(healthy))
	o.log.Warn().Bool("healthy", healthy).AnErr("err", why).Msg("target of the onion addresses")
	o.n.note(cluster.KindOnionTarget, b)
	if !healthy {
		if err := o.n.coord.ReportUnhealthy(o.n.cfg.Onion.Target); err != nil {
			o.log.Debug().Err(err).Msg("others not told of the target")
		}
	}
	o.look()
}

// startOnions starts this host's part in the onion addresses; tor runs already.
func (n *node) startOnions(ctx context.Context, l *lifecycle) error {
	if n.onions == nil {
		return nil
	}
	if n.onions.serves {
		p, err := n.onions.proxyFor(ctx)
		if err != nil {
			return err
		}
		l.start(stage{name: "onion proxy", run: p.Run, grace: onionGrace})
	}
	l.start(stage{name: "onion", run: n.onions.run, stop: n.onions.leave, grace: unpublishTime + lastVisits + onionGrace})
	return nil
}
