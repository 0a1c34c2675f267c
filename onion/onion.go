package onion

import (
	"context"
	"crypto/ecdh"
	"crypto/ed25519"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/coord/wire"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/lease"
	"github.com/skein-project/skein/onion/policy"
	"github.com/skein-project/skein/publisher"
	"github.com/skein-project/skein/publisher/descriptor"
	"github.com/skein-project/skein/tor"
)

// Tor is what a Host needs of this host's tor; a LocalTor is one.
type Tor interface {
	serviceTor
	directoryTor
	networkTor
	Dial(ctx context.Context, isolation, address string) (net.Conn, error)
	Node() tor.Service
	Socket(port int) string
	SendAway(addresses []string)
}

// Log is what a Host needs of the event log.
type Log interface {
	// Onions are the addresses that the cluster serves, Onion the settings of one,
	// which may be removed.
	Onions() []state.Onion
	Onion(descriptor.Address) state.Onion
	// LastTerm is the highest term in the log.
	LastTerm() cluster.Term
	// Changed is closed when the log changes.
	Changed() <-chan struct{}
	// Note queues an event; Append returns when it is in this host's log.
	Note(event.Kind, any)
	Append(context.Context, event.Kind, any) error
}

// Cluster is what a Host needs of membership and coordination.
type Cluster interface {
	View() View
	Members() []cluster.Member
	// Invited are the keys by which newcomers find this host.
	Invited(now time.Time) [][32]byte
	// PublishShare and ReportBackends replace what this host says of itself.
	PublishShare(pieces [][]byte, at time.Time) error
	ReportBackends([]wire.Backend)
}

// Options are what a Host is made of. All must be set unless it says otherwise.
type Options struct {
	Node   cluster.NodeID
	Key    ed25519.PrivateKey // of this host's identity
	Client []byte             // public key by which this host finds others' own services
	Dir    string             // of services, keys and marks
	Site   Site
	// Operators find this host's page, at an onion service of its own; none: nobody does.
	Operators map[string]*ecdh.PublicKey
	Points    int // introduction points that this host keeps; 0: by the number of hosts
	// SingleHost lets tor publish by itself while this host is the only member.
	SingleHost bool
	Weight     func() uint32 // this host's share of the points, as configured now
	Now        func() time.Duration

	Tor     Tor
	Log     Log
	Cluster Cluster

	Logger     zerolog.Logger
	Registerer prometheus.Registerer
}

// Host is this host's part in the cluster's onion addresses: it keeps the onion
// services of tor as the log says, tells the others its share of the addresses,
// and runs a publisher for each address whose key it has.
//
// The loop of Run owns what has no lock of its own.
type Host struct {
	o      Options
	log    zerolog.Logger
	m      *metrics
	limit  *repeats
	keys   *keyring
	wake   chan struct{} // capacity 1
	site   site
	inbox  inbox
	status atomic.Pointer[Status]
	wrong  atomic.Uint64 // introductions for another master
	points atomic.Uint32

	imports imports
	group   sync.WaitGroup // of what Run starts
	operators
	*loop
}

// loop is what only the loop of Run uses, or what is safe by itself.
type loop struct {
	services  *services
	admission admission
	shares    *shares
	own       ownShare
	pubs      *publishers
	policy    *policy.Policy
	soloTill  time.Time // until when the services of a former single host stay
}

const (
	turnEvery      = 250 * time.Millisecond
	descriptorLife = 3 * time.Hour // at clients
)

// New reads keys and marks, and sets the services that tor starts with, so tor
// must not run yet. It starts nothing.
func New(o Options) (*Host, error) {
	h := &Host{
		o: o, log: o.Logger.With().Str("component", "onion").Logger(), limit: newRepeats(), wake: make(chan struct{}, 1),
		imports: imports{at: map[descriptor.Address]time.Time{}}, operators: newOperators(o),
	}
	h.status.Store(&Status{})
	var err error
	if h.m, err = newMetrics(o.Registerer); err != nil {
		return nil, err
	}
	if h.keys, err = openKeyring(filepath.Join(o.Dir, "keys")); err != nil {
		return nil, err
	}
	for _, why := range h.keys.problems() {
		h.log.Error().Str("reason", why).Msg("key of an onion address left out")
	}
	if err := h.readDrain(); err != nil {
		return nil, err
	}
	h.loop = &loop{
		shares: newShares(), own: ownShare{node: o.Node}, policy: policy.New(),
		pubs: &publishers{
			dir: filepath.Join(o.Dir, "revisions"), keys: h.keys, tor: o.Tor, base: o.Logger, log: h.log, m: h.m, limit: h.limit,
			note: o.Log.Note, group: &h.group, running: map[descriptor.Address]*publishing{},
		},
	}
	if h.services, err = newServices(o.Tor, o.Dir, h.log, h.limit, &h.group, h.look); err != nil {
		return nil, err
	}
	if !o.Tor.Own() {
		return h, nil
	}
	settings := h.Settings()
	want := h.wanted(settings, h.solo(settings))
	if err := o.Tor.SetServices(want); err != nil {
		return nil, err
	}
	h.services.dropKeys(want)
	return h, nil
}

// look wakes the loop.
func (h *Host) look() {
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// SetDuty takes who has the publishing duty.
func (h *Host) SetDuty(d lease.Duty) {
	h.inbox.setDuty(d)
	h.look()
}

// Publish has new descriptors of an address made and posted, though nothing changed, if
// this host publishes it.
func (h *Host) Publish(a descriptor.Address) {
	h.inbox.publish(a)
	h.look()
}

// inbox is what comes from other goroutines for the loop.
type inbox struct {
	mu      sync.Mutex
	duty    lease.Duty
	net     *publisher.Network
	version uint64 // of net
	answers []answer
	again   []descriptor.Address // to be published anew
}

// answer is the result of a probe.
type answer struct {
	node cluster.NodeID
	ok   bool
	at   time.Duration
}

func (i *inbox) answer(a answer) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.answers = append(i.answers, a)
}

// take returns the duty, and the answers and what is to be published anew since it was
// last called.
func (i *inbox) take() (duty lease.Duty, list []answer, again []descriptor.Address) {
	i.mu.Lock()
	defer i.mu.Unlock()
	list, again = i.answers, i.again
	i.answers, i.again = nil, nil
	return i.duty, list, again
}

// publish asks for new descriptors of an address, once for however often it is called.
func (i *inbox) publish(a descriptor.Address) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if !slices.Contains(i.again, a) {
		i.again = append(i.again, a)
	}
}

func (i *inbox) setDuty(d lease.Duty) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.duty = d
}

func (i *inbox) setNetwork(n publisher.Network) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.net = &n
	i.version++
}

func (i *inbox) network() (*publisher.Network, uint64) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.net, i.version
}

// imports remembers when keys were imported, by this daemon.
type imports struct {
	mu sync.Mutex
	at map[descriptor.Address]time.Time
}

func (i *imports) add(a descriptor.Address) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.at[a] = time.Now()
}

// recent reports whether directories may still have a descriptor of whoever had
// the key before: if its revision is above tor's, tor could not publish.
func (i *imports) recent(a descriptor.Address) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	at, ok := i.at[a]
	return ok && time.Since(at) < descriptorLife
}

// Run serves and publishes until ctx ends.
func (h *Host) Run(ctx context.Context) error {
	defer h.group.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	h.group.Go(func() {
		watchNetwork(ctx, h.o.Tor, h.log, func(n publisher.Network) {
			h.inbox.setNetwork(n)
			h.look()
		})
	})
	h.group.Go(func() { h.watchMaster(ctx) })
	tick := time.NewTicker(turnEvery)
	defer tick.Stop()
	for {
		h.turn(ctx)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-h.wake:
		case <-tick.C:
		}
	}
}

// watchMaster counts clients that were sent here for an address that this host
// does not know.
func (h *Host) watchMaster(ctx context.Context) {
	sub := h.o.Tor.Subscribe(64)
	defer sub.Close()
	for {
		e, err := sub.Next(ctx)
		if err != nil {
			return
		}
		if _, ok := e.(tor.WrongMaster); ok {
			count := h.wrong.Add(1)
			if h.limit.first("wrong master") {
				h.log.Error().Msg("clients come for an onion address that this host does not serve")
				h.o.Log.Note(event.KindWrongMaster, event.OnionWrongMaster{Count: count})
			}
		}
	}
}

// turn makes everything as it should be by now.
func (h *Host) turn(ctx context.Context) {
	settings := h.Settings()
	solo := h.solo(settings)
	h.services.keep(ctx, h.wanted(settings, solo))
	h.services.follow(ctx, h.natives(settings))
	h.announce(settings)
	v := h.o.Cluster.View()
	for _, r := range h.shares.read(v) {
		h.pubs.refused("", r)
	}
	h.pubs.keep(ctx, settings)
	duty, answers, again := h.inbox.take()
	for _, a := range answers {
		h.policy.Answered(a.node, a.ok, a.at)
	}
	d := h.policy.Decide(h.input(v, settings, duty))
	for _, p := range d.Probes {
		h.probe(ctx, p)
	}
	h.carryOut(d, v, settings, duty, solo)
	for _, a := range again {
		if pub := h.pubs.running[a]; pub != nil {
			pub.p.Again()
		}
	}
}

// input is what the policy decides from.
func (h *Host) input(v View, settings []state.Onion, duty lease.Duty) policy.Input {
	in := policy.Input{
		Self: h.o.Node, Now: h.o.Now(), Large: v.Large, Split: v.Split, Hosts: h.shares.policy(v),
		Duty: duty, Logged: h.o.Log.LastTerm(),
	}
	for _, s := range settings {
		in.Addresses = append(in.Addresses, s.Key)
	}
	return in
}

// carryOut has the publishers do what was decided, and shows it.
func (h *Host) carryOut(d policy.Decision, v View, settings []state.Onion, duty lease.Duty, solo bool) {
	st := &Status{Hosts: map[cluster.NodeID]HostStatus{}, Check: h.o.Site.check()}
	for _, m := range v.Members {
		if r := h.shares.hosts[m.Node]; r != nil {
			x := HostStatus{Share: r.share, Backends: m.Backends, Failing: failing(r.share, m.Backends)}
			if m.Node == h.o.Node {
				x.Asked = h.services.asked()
			}
			if r.err != nil {
				x.Err = r.err.Error()
			}
			st.Hosts[m.Node] = x
		}
	}
	network, version := h.inbox.network()
	publishing := 0
	for i, p := range d.Addresses {
		for _, place := range p.Hosts {
			x := st.Hosts[place.Node]
			x.Placed, x.Reserve = true, place.Reserve
			st.Hosts[place.Node] = x
		}
		for _, out := range p.LeftOut {
			x := st.Hosts[out.Node]
			x.LeftOut = out.Why
			st.Hosts[out.Node] = x
		}
		shown := AddressStatus{Onion: settings[i], Keepers: p.Keepers, PublishedBy: p.Publisher, Awaited: p.Awaited}
		pub, ok := h.pubs.give(p.Address, order{
			duty:  lease.Duty{Publisher: h.o.Node, Publishing: p.Publish, ByLease: d.ByLease, Term: d.Term},
			hosts: h.shares.at(p.Hosts), solo: solo && h.nativeReady(p.Address) && !h.imports.recent(p.Address), network: network, version: version,
		})
		switch {
		case ok:
			shown.Publisher = &pub
			if p.Publish {
				publishing++
			}
		case duty.Publishing && v.Large && h.limit.first("no key of "+p.Address.String()):
			h.log.Error().Str("address", p.Address.String()).
				Msg("this host is to publish an address whose key it lacks, and in so large a cluster nobody stands in: `skein onion grant` it")
		}
		st.Addresses = append(st.Addresses, shown)
	}
	h.status.Store(st)
	h.m.addresses.Set(float64(len(settings)))
	h.m.publishing.Set(float64(publishing))
	h.m.serving.Set(float64(st.serving()))
	h.m.failing.Set(float64(st.failing()))
}

// solo reports whether tor may publish by itself: this host is the only member.
func (h *Host) solo(settings []state.Onion) bool {
	if !h.o.SingleHost || len(h.o.Site.Targets) == 0 || len(settings) == 0 || len(h.o.Cluster.Members()) != 1 || h.site.drained.Load() {
		return false
	}
	h.soloTill = time.Now().Add(descriptorLife)
	return true
}

// nativeReady reports whether tor serves an address with its own key, and has
// introduction points for it.
func (h *Host) nativeReady(a descriptor.Address) bool {
	s, ok := h.services.watch.latest(a.String())
	return ok && len(s.Relays) > 0
}

// natives are the services by which tor publishes addresses by itself, by
// directory.
func (h *Host) natives(settings []state.Onion) map[string]descriptor.Address {
	dirs := map[string]descriptor.Address{}
	for _, s := range settings {
		dirs[h.keys.at(s.Key)] = s.Key
	}
	return dirs
}

// maxStreams is the most that tor can be told.
const maxStreams = 65535

// wanted are the services that tor should have.
func (h *Host) wanted(settings []state.Onion, solo bool) []tor.Service {
	members := h.o.Cluster.Members()
	node := h.o.Tor.Node()
	if left := h.admission.update(h.o.Client, members, h.o.Cluster.Invited(time.Now())); left > 0 && h.limit.first("admitted") {
		h.log.Warn().Int("left_out", left).Int("limit", maxAdmitted).Msg("not all members and invites find this host's own onion")
	}
	node.Clients = h.admission.clients
	list := append([]tor.Service{node}, h.operators.offered()...)
	if len(h.o.Site.Targets) == 0 || len(settings) == 0 {
		return list
	}
	ports := []tor.Port{{Virtual: h.o.Site.Port, Target: "unix:" + h.socket()}}
	points := h.o.Points
	if points == 0 {
		points = min(max(descriptor.MaxPoints/max(len(members), 1), tor.MinIntroPoints), tor.MaxIntroPoints)
	}
	var masters []string
	for _, s := range settings {
		masters = append(masters, descriptor.Address(s.Key).String())
	}
	slices.Sort(masters)
	web := tor.Service{
		Ports: ports, IntroPoints: points, CircuitID: h.o.Site.PerCircuit > 0,
		// What the proxy refuses is still a stream; a circuit that goes on is closed.
		MaxStreams: min(2*h.o.Site.PerCircuit, maxStreams),
	}
	instance := web
	instance.Dir, instance.Masters = h.services.instanceDir(masters), masters
	list = append(list, instance)
	for _, s := range settings {
		if _, ok := h.keys.get(s.Key); !ok || !solo && time.Now().After(h.soloTill) {
			continue
		}
		native := web
		native.Dir, native.Clients = h.keys.at(s.Key), map[string]string{}
		for _, c := range s.Clients {
			native.Clients[c.Name] = clientEncoding.EncodeToString(c.Key)
		}
		list = append(list, native)
	}
	return list
}

// ready reports whether this host could publish at once.
func (h *Host) ready() bool {
	network, _ := h.inbox.network()
	return network != nil && h.o.Tor.Status().State == tor.StateReady
}

// share is what this host says of itself.
func (h *Host) share(settings []state.Onion) publisher.Share {
	s := publisher.Share{Healthy: h.site.healthy(), Weight: h.weight()}
	if h.ready() {
		for _, a := range h.keys.addresses() {
			if slices.ContainsFunc(settings, func(x state.Onion) bool { return x.Key == a }) {
				s.Keys = append(s.Keys, a)
			}
		}
	}
	instance, seen, ok := h.services.instance()
	a, err := descriptor.ParseAddress(seen.Address)
	if !ok || err != nil {
		return s
	}
	sig, err := h.own.prove(filepath.Join(instance.Dir, secretFile), a)
	if err != nil {
		if h.limit.first("proof: " + err.Error()) {
			h.log.Error().Err(err).Msg("own introduction points not published")
		}
		return s
	}
	h.services.announce(instance.Dir)
	s.Address, s.Proof, s.Text = a, sig, []byte(seen.Descriptor)
	for _, m := range instance.Masters {
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

// announce publishes this host's share to the others when it changed.
func (h *Host) announce(settings []state.Onion) {
	s := h.share(settings)
	changed, err := h.own.publish(s, h.o.Cluster.PublishShare)
	if err != nil && h.limit.first("share: "+err.Error()) {
		h.log.Error().Err(err).Msg("own introduction points not published")
	}
	if changed {
		h.points.Store(uint32(len(s.Relays))) //nolint:gosec // at most MaxPoints
		h.m.points.Set(float64(len(s.Relays)))
	}
}
