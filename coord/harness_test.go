package coord

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/internal/simnet"
	"github.com/skein-project/skein/lease"
)

// memStore is a Store in memory that can be told to fail.
type memStore struct {
	mu      sync.Mutex
	vote    lease.VoteRecord
	found   bool
	records member.Records
	fail    atomic.Bool
}

func (m *memStore) LoadVote() (lease.VoteRecord, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.vote, m.found, nil
}

func (m *memStore) SaveVote(v lease.VoteRecord) error {
	if m.fail.Load() {
		return errors.New("disk full")
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.found && v.PromisedTerm < m.vote.PromisedTerm {
		panic(fmt.Sprintf("promised term falls from %d to %d", m.vote.PromisedTerm, v.PromisedTerm))
	}
	m.vote, m.found = v, true
	return nil
}

func (m *memStore) SaveRecords(rs member.Records) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.records = rs
	return nil
}

// world is a cluster on a simulated network.
type world struct {
	t       *testing.T
	net     *simnet.Network
	profile cluster.Profile
	rootKey ed25519.PrivateKey
	verify  member.Verifier
	hosts   map[cluster.NodeID]*host
	order   []cluster.NodeID
	zones   []string // of the hosts that are made, in turn; none: all in z
}

// host is one host of a world, running or not.
type host struct {
	w        *world
	node     cluster.NodeID
	addr     netip.Addr
	key      ed25519.PrivateKey
	cert     member.Signed
	ann      member.Signed
	store    *memStore
	dir      string         // of its files, if it has some
	known    member.Records // what it starts with
	boot     uint64
	founder  bool
	version  string
	profile  cluster.Profile
	log      atomic.Pointer[LogState]
	draining atomic.Bool
	tweak    func(*Options) // before each start; nil: none

	svc    *Service
	port   uint16 // of real sockets
	reg    *prometheus.Registry
	cancel context.CancelFunc
	done   chan error
	daemon sync.WaitGroup

	mu      sync.Mutex
	actions []lease.Action
	members []cluster.Member
	health  map[cluster.NodeID]cluster.Health
}

func seedKey(name string) ed25519.PrivateKey {
	h := sha256.Sum256([]byte(name))
	return ed25519.NewKeyFromSeed(h[:])
}

func newWorld(t *testing.T, profile cluster.Profile, seed uint64, link simnet.Link) *world {
	root := seedKey("root")
	return &world{
		t: t, net: simnet.New(seed, link), profile: profile, rootKey: root, hosts: make(map[cluster.NodeID]*host),
		verify: member.Verifier{Cluster: member.ClusterID{1, 2, 3}, RootPub: publicKey(root)},
	}
}

// add makes a host whose records exist and that knows only itself.
func (w *world) add(node cluster.NodeID, priority uint32) *host {
	w.t.Helper()
	return w.addAt(node, priority, netip.AddrFrom4([4]byte{10, 0, 0, byte(len(w.order) + 1)}))
}

func (w *world) addAt(node cluster.NodeID, priority uint32, addr netip.Addr) *host {
	w.t.Helper()
	n := len(w.order) + 1
	h := &host{
		w: w, node: node, addr: addr, key: seedKey(string(node)),
		store: &memStore{}, version: "0.1.0", profile: w.profile, health: make(map[cluster.NodeID]cluster.Health),
	}
	h.log.Store(&LogState{})
	zone := "z"
	if len(w.zones) > 0 {
		zone = w.zones[(n-1)%len(w.zones)]
	}
	now := time.Now().Unix()
	var err error
	h.cert, err = member.Cert{
		Cluster: w.verify.Cluster, Node: node, IDPub: publicKey(h.key), IP4: h.addr,
		IP6: member.ULA(w.verify.Cluster, publicKey(h.key)), Serial: uint64(n), Issued: now, Since: now,
		Expires: now + int64((90 * 24 * time.Hour).Seconds()), Issuer: publicKey(w.rootKey),
	}.Sign(w.rootKey)
	if err != nil {
		w.t.Fatal(err)
	}
	h.ann, err = member.Ann{
		IDPub: publicKey(h.key), WGPub: [32]byte{byte(n), byte(n >> 8)}, Epoch: 1, Issued: now, Zone: zone, Priority: priority,
		Endpoints: []netip.AddrPort{netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(n)}), 51820)},
	}.Sign(h.key)
	if err != nil {
		w.t.Fatal(err)
	}
	h.known = h.records()
	w.hosts[node] = h
	w.order = append(w.order, node)
	return h
}

func (h *host) records() member.Records {
	return member.Records{Certs: []member.Signed{h.cert}, Anns: []member.Signed{h.ann}}
}

// knows lets h start with the records of others.
func (h *host) knows(others ...*host) {
	for _, o := range others {
		h.known.Certs = append(h.known.Certs, o.cert)
		h.known.Anns = append(h.known.Anns, o.ann)
	}
}

// baseOptions are options without sockets.
func (h *host) baseOptions(boot uint64) Options {
	h.boot = boot
	start := time.Now()
	h.reg = prometheus.NewRegistry()
	return Options{
		Self: h.node, Key: h.key, Verifier: h.w.verify, Records: h.known, Store: h.store, Boot: h.boot, Founder: h.founder,
		Profile: h.profile, Mode: cluster.ModeAuto,
		Now: func() time.Duration { return time.Since(start) + time.Hour }, Version: h.version,
		Log: func() LogState { return *h.log.Load() }, Local: func() Local { return Local{Slots: 4, Busy: 1, Draining: h.draining.Load()} },
		OnMembers: func(ms []cluster.Member) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.members = ms
		},
		OnHealth: func(n cluster.NodeID, v cluster.Health, _ bool) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.health[n] = v
		},
		Logger: testLogger(), Registerer: h.reg,
	}
}

func (h *host) options() Options {
	h.w.t.Helper()
	nh := h.w.net.Host(h.addr)
	pc, err := nh.ListenPacket(Port)
	if err != nil {
		h.w.t.Fatal(err)
	}
	ln, err := nh.Listen(Port)
	if err != nil {
		h.w.t.Fatal(err)
	}
	o := h.baseOptions(h.boot)
	o.PacketConn, o.Listener, o.DialTCP = pc, ln, nh.Dial
	if h.tweak != nil {
		h.tweak(&o)
	}
	return o
}

func testLogger() zerolog.Logger {
	if os.Getenv("SKEIN_TEST_LOG") == "" {
		return zerolog.Nop()
	}
	return zerolog.New(zerolog.ConsoleWriter{Out: os.Stderr, NoColor: true}).Level(zerolog.DebugLevel)
}

// start runs the host's service and a small daemon that answers the lease.
func (h *host) start() {
	h.w.t.Helper()
	h.boot++
	h.run(h.options())
}

func (h *host) optionsAt(boot uint64) Options {
	h.boot = boot
	return h.options()
}

func (h *host) run(o Options) *Service {
	h.w.t.Helper()
	svc, err := New(o)
	if err != nil {
		h.w.t.Fatal(err)
	}
	h.svc = svc
	ctx, cancel := context.WithCancel(context.Background())
	h.cancel, h.done = cancel, make(chan error, 1)
	h.daemon.Go(func() { h.follow(ctx, svc) })
	go func() { h.done <- svc.Run(ctx) }()
	return svc
}

// large marks a test of many simulated minutes, which take ten to thirty times
// as long under the race detector: `make test` runs it without
// (internal/testrun/parts.go lists them).
func large(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("large: runs without -short")
	}
}

func prove() bool { return os.Getenv("SKEIN_PROVE") == "1" }

func (h *host) follow(ctx context.Context, svc *Service) {
	for {
		select {
		case <-ctx.Done():
			return
		case a := <-svc.Actions():
			h.mu.Lock()
			h.actions = append(h.actions, a)
			h.mu.Unlock()
			switch a := a.(type) {
			case lease.Acquired:
				svc.TermReady(a.Term, a.Config.Epoch)
			case lease.ConfigStable:
				svc.TermReady(a.Term, a.Config.Epoch)
			case lease.Quiesce:
				svc.Quiesced(a.Term)
			}
		}
	}
}

// stop ends the service in good order.
func (h *host) stop() {
	h.w.t.Helper()
	if h.svc == nil {
		return
	}
	h.cancel()
	if err := <-h.done; err != nil {
		h.w.t.Errorf("%s: run: %v", h.node, err)
	}
	h.daemon.Wait()
	h.svc = nil
}

// crash ends the service as a power cut does: the others hear nothing of it.
func (h *host) crash() {
	h.w.net.Host(h.addr).Crash()
	h.cancel()
	if err := <-h.done; err != nil {
		h.w.t.Logf("%s: %v", h.node, err) // its sockets were torn away
	}
	h.daemon.Wait()
	h.svc = nil
}

func (h *host) restart() {
	h.w.net.Host(h.addr).Start()
	h.store.mu.Lock()
	if !h.store.records.Empty() {
		h.known = h.store.records
	}
	h.store.mu.Unlock()
	h.start()
}

func (w *world) stopAll() {
	for _, n := range w.order {
		w.hosts[n].stop()
	}
}

// until lets fake time pass until f holds; it fails the test after limit.
func (w *world) until(what string, limit time.Duration, f func() bool) time.Duration {
	w.t.Helper()
	start := time.Now()
	for {
		synctest.Wait()
		if f() {
			return time.Since(start)
		}
		if time.Since(start) > limit {
			for _, n := range w.order {
				if s := w.hosts[n].svc; s != nil {
					v := s.View()
					w.t.Logf("%s: lease %+v rejected %v failing %v", n, v.Lease, v.Rejected, v.Failing)
					for _, m := range v.Members {
						w.t.Logf("   %s %s eligible=%t caught_up=%t %s", m.Node, m.Health, m.Eligible, m.CaughtUp, m.Incompatible)
					}
				}
			}
			w.t.Fatalf("%s: not within %s", what, limit)
		}
		time.Sleep(max(5*time.Millisecond, time.Since(start)/200)) // looking costs more than waiting
	}
}

// acters returns the hosts that may act now.
func (w *world) acters() []cluster.NodeID {
	var out []cluster.NodeID
	for _, n := range w.order {
		if s := w.hosts[n].svc; s != nil {
			if s.Lease.elector.Authority().Term() != 0 {
				out = append(out, n)
			}
		}
	}
	return out
}

// holder returns the one host that may act and that all running hosts of
// among (all if none given) agree on.
func (w *world) holder(among ...cluster.NodeID) cluster.NodeID {
	if len(among) == 0 {
		among = w.order
	}
	var found cluster.NodeID
	for _, n := range w.acters() {
		if slices.Contains(among, n) {
			if found != "" {
				return ""
			}
			found = n
		}
	}
	for _, n := range among {
		if s := w.hosts[n].svc; s != nil && s.View().Lease.Holder != found {
			return ""
		}
	}
	return found
}

func (w *world) voters(n int) bool {
	for _, node := range w.order {
		if s := w.hosts[node].svc; s != nil {
			st := s.View().Lease
			if len(st.Config.Voters) != n || st.Pending {
				return false
			}
		}
	}
	return true
}

// three starts hosts a, b and c as a cluster of three voters, a first.
func (w *world) three() (a, b, c *host) {
	w.t.Helper()
	return w.threeWith(func(*host) {})
}

// threeWith is three whose hosts are prepared before they start.
func (w *world) threeWith(prepare func(*host)) (a, b, c *host) {
	w.t.Helper()
	a, b, c = w.add("host-a", 10), w.add("host-b", 20), w.add("host-c", 30)
	for _, h := range []*host{a, b, c} {
		prepare(h)
	}
	a.founder = true
	b.knows(a)
	c.knows(a)
	a.start()
	w.until("the founder holds", 3*time.Second, func() bool { return w.holder() == a.node })
	b.start()
	c.start()
	for _, h := range []*host{b, c} {
		if err := a.svc.AddRecords(context.Background(), h.records()); err != nil {
			w.t.Fatal(err)
		}
	}
	w.until("three voters", 5*w.timing().Lease, func() bool {
		return w.voters(3) && w.holder() == a.node && w.allAlive()
	})
	return a, b, c
}

// many starts n hosts that know each other, the first one the only voter.
func (w *world) many(n int) []*host {
	w.t.Helper()
	var hosts []*host
	for i := range n {
		hosts = append(hosts, w.addAt(cluster.NodeID(fmt.Sprintf("host-%03d", i)), uint32(i),
			netip.AddrFrom4([4]byte{10, 0, byte((i + 1) >> 8), byte(i + 1)})))
	}
	hosts[0].store.vote, hosts[0].store.found = lease.VoteRecord{Config: cluster.VoterConfig{
		Epoch: 1, Voters: []cluster.NodeID{hosts[0].node}, Mode: cluster.ModeSingle,
	}}, true
	all := member.Records{}
	for _, h := range hosts {
		all.Certs, all.Anns = append(all.Certs, h.cert), append(all.Anns, h.ann)
	}
	for _, h := range hosts {
		h.known = all
	}
	return hosts
}

// revoke is the root's revocation of h, or h's own if it leaves.
func (w *world) revoke(h *host, leaves bool) member.Signed {
	w.t.Helper()
	r := member.Revoke{
		Cluster: w.verify.Cluster, IDPub: publicKey(h.key), Reason: "stolen", Issued: time.Now().Unix(),
		Expires: time.Now().Add(90 * 24 * time.Hour).Unix(), Issuer: publicKey(w.rootKey),
	}
	key := w.rootKey
	if leaves {
		r.Reason, r.Issuer, key = member.ReasonLeft, publicKey(h.key), h.key
	}
	rec, err := r.Sign(key)
	if err != nil {
		w.t.Fatal(err)
	}
	return rec
}

// allAlive reports whether every running host sees every other alive.
func (w *world) allAlive() bool {
	for _, n := range w.order {
		s := w.hosts[n].svc
		if s == nil {
			continue
		}
		v := s.View()
		if len(v.Members) != len(w.order) {
			return false
		}
		for _, m := range v.Members {
			if m.Health != cluster.Alive || (m.Node != n && m.RTT == 0) {
				return false
			}
		}
	}
	return true
}

func (w *world) timing() lease.Timing {
	t, err := lease.TimingFor(w.profile)
	if err != nil {
		w.t.Fatal(err)
	}
	return t
}

func (h *host) rejected(reason string) uint64 { return h.svc.View().Rejected[reason] }

// metric returns the value of a counter of h with that label value.
func (h *host) metric(name, label string) float64 {
	h.w.t.Helper()
	families, err := h.reg.Gather()
	if err != nil {
		h.w.t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name && len(m.GetLabel()) == 1 && m.GetLabel()[0].GetValue() == label {
				return m.GetCounter().GetValue()
			}
		}
	}
	return 0
}

// Bounds of package transport, as its documentation has them.
const (
	handshakeTimeout = 5 * time.Second
	maxPeerStreams   = 48
	maxHandshakes    = 64
	maxNameless      = 32
	linkFlood        = 400 // frames at once

	// Datagrams per second and at once: of a member, of a member that names
	// another boot than the one heard, of hosts that are no members.
	memberRate, memberBurst       = 50, 100
	otherBootRate, otherBootBurst = 5, 20
	strangerBurst                 = 64
)

// certificate is a self-signed one of key.
func certificate(t *testing.T, key ed25519.PrivateKey) tls.Certificate {
	t.Helper()
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(24 * time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// clientTLS is what a host with key shows that believes everyone.
func clientTLS(t *testing.T, key ed25519.PrivateKey, protos ...string) *tls.Config {
	t.Helper()
	return &tls.Config{
		MinVersion: tls.VersionTLS13, InsecureSkipVerify: true, //nolint:gosec // the other end is tested
		Certificates: []tls.Certificate{certificate(t, key)}, NextProtos: protos,
	}
}

func udpAddr(a netip.Addr) netip.AddrPort { return netip.AddrPortFrom(a, Port) }

var _ net.PacketConn = (*simnet.PacketConn)(nil)
