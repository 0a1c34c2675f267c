package onion

import (
	"context"
	"crypto/ed25519"
	"errors"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/coord/wire"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/lease"
	"github.com/skein-project/skein/onion/policy"
	"github.com/skein-project/skein/proxy"
	"github.com/skein-project/skein/publisher"
	"github.com/skein-project/skein/publisher/descriptor"
	"github.com/skein-project/skein/tor"
)

// fakeTor has the services that it is told to have, makes their keys as tor
// does, and shows points of each at once. It reaches nobody.
type fakeTor struct {
	*tor.Tor // never run: no consensus, no events
	dir      string

	mu       sync.Mutex
	state    tor.State
	services []tor.Service
	keys     byte
	dialed   []string
	answers  func(net.Conn) // what is reached by Dial; nil: nobody
	away     []string
}

func newFakeTor(t *testing.T, dir string) *fakeTor {
	t.Helper()
	real, err := tor.New(tor.Options{Dir: filepath.Join(dir, "tor"), Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	return &fakeTor{Tor: real, dir: dir, state: tor.StateDown}
}

func (f *fakeTor) Status() tor.Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	return tor.Status{State: f.state, Pid: 1}
}

func (f *fakeTor) Services() []tor.Service {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.services)
}

func (f *fakeTor) SetServices(list []tor.Service) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.services = slices.Clone(list)
	for _, s := range list {
		if _, err := os.Stat(filepath.Join(s.Dir, secretFile)); err == nil {
			continue
		}
		f.keys++
		k := descriptor.NewSecretKey([32]byte{100, f.keys})
		if err := errors.Join(os.MkdirAll(s.Dir, 0o700),
			os.WriteFile(filepath.Join(s.Dir, addressFile), []byte(k.Address().String()+"\n"), 0o600),
			os.WriteFile(filepath.Join(s.Dir, secretFile), k.File(), 0o600)); err != nil {
			return err
		}
	}
	return nil
}

func (f *fakeTor) start() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.state = tor.StateReady
}

func (f *fakeTor) Reload(context.Context) error          { return nil }
func (f *fakeTor) Node() tor.Service                     { return tor.Service{Dir: filepath.Join(f.dir, "node")} }
func (f *fakeTor) Socket(int) string                     { return filepath.Join(f.dir, "80") }
func (f *fakeTor) Quiesce(context.Context, string) error { return nil }

func (f *fakeTor) SendAway(list []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.away = list
}

func (f *fakeTor) Watch(ctx context.Context, address string, tell func(tor.Snapshot)) error {
	tell(tor.Snapshot{Address: address, Descriptor: "descriptor of " + address, Relays: []string{strings.Repeat("AB", 20)}})
	<-ctx.Done()
	return nil
}

func (f *fakeTor) Dial(_ context.Context, isolation, address string) (net.Conn, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dialed = append(f.dialed, isolation+" "+address)
	if f.answers == nil {
		return nil, errors.New("nobody there")
	}
	ours, theirs := net.Pipe()
	go f.answers(theirs)
	return ours, nil
}

// fakeCluster is both the log and the cluster; members are what the host is to
// see of the others.
type fakeCluster struct {
	mu       sync.Mutex
	onions   []state.Onion
	self     Member
	members  map[cluster.NodeID]Member
	backends []wire.Backend
	notes    []event.Kind
}

func (f *fakeCluster) Onions() []state.Onion {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.onions
}

func (f *fakeCluster) Onion(a descriptor.Address) state.Onion {
	return state.Onion{Key: a}
}
func (f *fakeCluster) LastTerm() cluster.Term                        { return 1 }
func (f *fakeCluster) Changed() <-chan struct{}                      { return nil }
func (f *fakeCluster) Append(context.Context, event.Kind, any) error { return nil }
func (f *fakeCluster) Invited(time.Time) [][32]byte                  { return nil }
func (f *fakeCluster) Members() []cluster.Member                     { return make([]cluster.Member, 2) }

func (f *fakeCluster) Note(kind event.Kind, _ any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.notes = append(f.notes, kind)
}

func (f *fakeCluster) View() View {
	f.mu.Lock()
	defer f.mu.Unlock()
	v := View{Members: []Member{f.self}}
	for _, n := range slices.Sorted(maps.Keys(f.members)) {
		v.Members = append(v.Members, f.members[n])
	}
	return v
}

func (f *fakeCluster) PublishShare(pieces [][]byte, _ time.Time) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.self.say(pieces...)
	return nil
}

func (f *fakeCluster) ReportBackends(list []wire.Backend) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.backends, f.self.Backends = list, list
}

// set has the host see another one.
func (f *fakeCluster) set(m Member) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.members[m.Node] = m
}

func (f *fakeCluster) share(t *testing.T) publisher.Share {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	s, err := publisher.DecodeShare(f.self.Node, f.self.Pieces)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// hostTest is a host that runs, what it needs, and another host of its cluster.
type hostTest struct {
	*Host
	t       *testing.T
	tor     *fakeTor
	cluster *fakeCluster
	master  descriptor.Address // that the cluster serves
	other   publisher.Share    // of n2
}

// runHost runs n1, which has these targets and sees nobody else yet.
func runHost(t *testing.T, targets ...string) *hostTest {
	t.Helper()
	dir := t.TempDir()
	master := descriptor.NewSecretKey([32]byte{1}).Address()
	h := &hostTest{t: t, tor: newFakeTor(t, dir), master: master, cluster: &fakeCluster{
		onions: []state.Onion{{Key: master, Version: 1}}, self: Member{Node: "n1", Health: cluster.Alive}, members: map[cluster.NodeID]Member{},
	}}
	key := descriptor.NewSecretKey([32]byte{2})
	h.other = publisher.Share{
		Address: key.Address(), Proof: [64]byte(key.Sign(publisher.ProofText("n2"))), Weight: 100, Healthy: true, Text: []byte("x"),
		Relays: []descriptor.Fingerprint{{1}}, Serves: []descriptor.Address{master}, Keys: []descriptor.Address{master},
	}
	var err error
	if h.Host, err = New(Options{
		Node: "n1", Key: ed25519.NewKeyFromSeed(make([]byte, 32)), Client: clientPub(t, 1), Dir: filepath.Join(dir, "onion"),
		Site:   Site{Targets: targets, Mode: proxy.ModeHTTP, Port: 80, PerCircuit: 32},
		Weight: func() uint32 { return 100 }, Now: func() time.Duration { return time.Since(time.Unix(0, 0)) },
		Tor: h.tor, Log: h.cluster, Cluster: h.cluster, Logger: zerolog.Nop(), Registerer: prometheus.NewRegistry(),
	}); err != nil {
		t.Fatal(err)
	}
	if len(h.tor.Services()) != 2 {
		t.Fatalf("tor would start with %v", h.tor.Services())
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- h.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	h.tor.start()
	h.SetDuty(lease.Duty{Publisher: "n2"})
	h.settle()
	return h
}

func (h *hostTest) settle() {
	time.Sleep(3 * turnEvery)
	synctest.Wait() // what the others wrote may be read
}

// reserves fails unless these hosts are left out while others have points.
func (h *hostTest) reserves(what string, want ...cluster.NodeID) {
	h.t.Helper()
	h.settle()
	var got []cluster.NodeID
	for _, n := range []cluster.NodeID{"n1", "n2"} {
		if x := h.Status().Hosts[n]; !x.Placed {
			h.t.Errorf("%s: %s is no host of the address", what, n)
		} else if x.Reserve {
			got = append(got, n)
		} else if x.LeftOut != "" {
			h.t.Errorf("%s: %s is left out: %s", what, n, x.LeftOut)
		}
	}
	if !slices.Equal(got, want) {
		h.t.Errorf("%s: left out are %v, want %v", what, got, want)
	}
}

// TestHost: a host shows the share that its tor makes, is left out while its
// backend fails and another's does not, and asks a suspected host.
func TestHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := runHost(t, "127.0.0.1:8080")
		f, c := h.tor, h.cluster
		if s := c.share(t); !slices.Equal(s.Serves, []descriptor.Address{h.master}) || len(s.Relays) != 1 || s.Weight != 100 || !s.Healthy || h.Points() != 1 {
			t.Errorf("share %+v", s)
		}

		metrics := func(when string, healthy, failing float64) {
			t.Helper()
			var own, all dto.Metric
			if err := errors.Join(h.m.healthy.Write(&own), h.m.failing.Write(&all)); err != nil {
				t.Fatal(err)
			}
			if own.Gauge.GetValue() != healthy || all.Gauge.GetValue() != failing {
				t.Errorf("%s: the metrics say healthy %v, failing hosts %v", when, own.Gauge.GetValue(), all.Gauge.GetValue())
			}
		}

		c.set(memberOf(t, "n2", cluster.Alive, &h.other))
		h.reserves("all is well")
		metrics("all is well", 1, 0)
		if k := h.Keepers(h.master); !slices.Equal(k, []cluster.NodeID{"n2"}) {
			t.Errorf("keepers %v", k)
		}
		h.onBackend("127.0.0.1:8080", false, errors.New("refused"))
		h.reserves("own backend fails", "n1")
		metrics("own backend fails", 0, 1)
		if want := []wire.Backend{{Name: "127.0.0.1:8080"}}; !slices.Equal(c.backends, want) || c.share(t).Healthy || !slices.Contains(c.notes, event.KindOnionTarget) {
			t.Errorf("others hear of %v, notes %v", c.backends, c.notes)
		}
		failing := memberOf(t, "n2", cluster.Alive, &h.other)
		failing.Backends = []wire.Backend{{Name: "a"}, {Name: "b"}}
		c.set(failing)
		h.reserves("the other's fail as well")
		metrics("the other's fail as well", 0, 2)
		failing.Backends = []wire.Backend{{Name: "a"}, {Name: "b", Healthy: true}}
		c.set(failing)
		h.reserves("one of the other's is back", "n1")
		h.onBackend("127.0.0.1:8080", true, nil)
		h.reserves("own backend is back")
		metrics("own backend is back", 1, 0)

		c.set(memberOf(t, "n2", cluster.Suspect, &h.other))
		h.settle()
		if want := []string{"probe-n2 " + h.other.Address.String() + ":80"}; !slices.Equal(f.dialed, want) || h.Status().Hosts["n2"].Placed || h.Status().Hosts["n2"].LeftOut == "" {
			t.Errorf("dialed %v, suspected host is %+v", f.dialed, h.Status().Hosts["n2"])
		}

		if err := h.Drain(true); err != nil {
			t.Fatal(err)
		}
		if h.settle(); c.share(t).Weight != 0 {
			t.Error("drained, and has a weight")
		}
	})
}

// TestCircuitsAreBounded: tor tells the circuits of clients apart and bounds the
// streams of each, above what the proxy refuses; of what a host serves, all that
// bounds its clients reaches the proxy.
func TestCircuitsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := runHost(t, "127.0.0.1:8080")
		if s := h.tor.Services()[1]; !s.CircuitID || s.MaxStreams != 64 {
			t.Errorf("tor is told %+v", s)
		}
	})
	s := Site{
		Targets: []string{"a"}, Mode: "m", Port: 80, Host: "h", Check: proxy.Check{Path: "/"},
		Connections: 1, PerCircuit: 2, Body: 3, BodyRate: 4, Answer: 5, Idle: 6,
	}
	got, want := reflect.ValueOf(s.proxy()), reflect.ValueOf(s)
	for i := range want.NumField() {
		name := want.Type().Field(i).Name
		if name == "Port" { // tor's
			continue
		}
		if f := got.FieldByName(name); !f.IsValid() || !reflect.DeepEqual(f.Interface(), want.Field(i).Interface()) {
			t.Errorf("%s does not reach the proxy", name)
		}
	}
}

// TestProbe: a suspected host answers if its proxy does, or, where that passes bytes
// on, if its connection is kept.
func TestProbe(t *testing.T) {
	hangs := func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }
	answers := func(conn net.Conn) {
		go hangs(conn)
		_, _ = io.WriteString(conn, "HTTP/1.1 421 Misdirected Request\r\n\r\n")
	}
	closes := func(after time.Duration) func(net.Conn) {
		return func(conn net.Conn) { time.Sleep(after); _ = conn.Close() }
	}
	for _, c := range []struct {
		name, mode string
		there      func(net.Conn)
		ok         bool
	}{
		{"answers", proxy.ModeHTTP, answers, true},
		{"hangs", proxy.ModeHTTP, hangs, false},
		{"closes", proxy.ModeHTTP, closes(0), false},
		{"no way", proxy.ModeHTTP, nil, false},
		{"speaks first", proxy.ModeTCP, answers, true},
		{"waits for its client", proxy.ModeTCP, hangs, true},
		{"has no service", proxy.ModeTCP, closes(0), false},
		{"its tor is ended", proxy.ModeTCP, closes(holdTime - time.Millisecond), false},
		{"no way", proxy.ModeTCP, nil, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			h := &Host{o: Options{Site: Site{Mode: c.mode, Port: 80}, Tor: &fakeTor{answers: c.there}}}
			ctx, cancel := context.WithTimeout(t.Context(), probeTime)
			defer cancel()
			if err := h.ask(ctx, policy.Probe{Node: "n2"}); (err == nil) != c.ok {
				t.Errorf("%s, %s: %v", c.mode, c.name, err)
			}
		})
	}
}

// TestImport: the first descriptor of an address that was imported waits for the
// other host's points, which come with its next share, or for ten seconds.
func TestImport(t *testing.T) {
	for _, comes := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			h := runHost(t, "127.0.0.1:8080")
			h.cluster.set(memberOf(t, "n2", cluster.Alive, &h.other))
			h.SetDuty(lease.Duty{Publisher: "n1", Publishing: true, ByLease: true, Term: 2})
			h.settle()
			h.inbox.setNetwork(publisher.Network{}) // without it nobody could publish
			key := descriptor.NewSecretKey([32]byte{7})
			if err := h.AddKey(key, true); err != nil {
				t.Fatal(err)
			}
			h.cluster.mu.Lock()
			h.cluster.onions = append(slices.Clone(h.cluster.onions), state.Onion{Key: key.Address(), Version: 1})
			h.cluster.mu.Unlock()
			shows := func(what string, publishing bool, awaited ...cluster.NodeID) {
				t.Helper()
				x := h.Status().Addresses[1]
				if x.Publisher == nil || x.Publisher.Publishing != publishing || !slices.Equal(x.Awaited, awaited) || x.PublishedBy != "n1" {
					t.Errorf("%s: publisher %+v, named %q, waits for %v; want %t, %v", what, x.Publisher, x.PublishedBy, x.Awaited, publishing, awaited)
				}
			}
			time.Sleep(4 * time.Second) // services change after reloadGap
			h.settle()
			shows("imported", false, "n2")
			if !comes {
				time.Sleep(6 * time.Second)
				h.settle()
				shows("it does not come", true)
				return
			}
			h.other.Serves = append(h.other.Serves, key.Address())
			h.cluster.set(memberOf(t, "n2", cluster.Alive, &h.other))
			h.settle()
			shows("all are there", true)
		})
	}
}

// TestSeveralBackends: a host is left out when all of its backends fail, not
// when one does, and names each to the others.
func TestSeveralBackends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const web, app = "127.0.0.1:8080", "unix:/run/app.sock"
		h := runHost(t, web, app)
		c := h.cluster
		c.set(memberOf(t, "n2", cluster.Alive, &h.other))
		p, err := h.Proxy(t.Context(), nil, "")
		if err != nil {
			t.Fatal(err)
		}
		stopped, stop := context.WithCancel(t.Context())
		stop()
		defer func() {
			if err := p.Run(stopped); err != nil { // closes its socket
				t.Error(err)
			}
		}()
		says := func(what string, healthy bool, want ...wire.Backend) {
			t.Helper()
			h.settle()
			if !slices.Equal(c.backends, want) || c.share(t).Healthy != healthy {
				t.Errorf("%s: others hear of %v, want %v, share %+v", what, c.backends, want, c.share(t))
			}
		}
		h.reserves("none was looked at")
		says("none was looked at", true, wire.Backend{Name: web, Healthy: true}, wire.Backend{Name: app, Healthy: true})
		h.onBackend(app, false, errors.New("refused"))
		h.reserves("one fails")
		says("one fails", true, wire.Backend{Name: web, Healthy: true}, wire.Backend{Name: app})
		h.onBackend(web, false, errors.New("refused"))
		h.reserves("both fail", "n1")
		says("both fail", false, wire.Backend{Name: web}, wire.Backend{Name: app})
		h.onBackend(app, true, nil)
		h.reserves("one is back")
		says("one is back", true, wire.Backend{Name: web}, wire.Backend{Name: app, Healthy: true})
	})
}

// TestForeignPublisherIsLogged: what a publisher finds of another one with the key
// is counted and written down, with the revision and the directory that has it.
func TestForeignPublisherIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := runHost(t, "127.0.0.1:8080")
		key := descriptor.NewSecretKey([32]byte{7})
		if err := h.AddKey(key, true); err != nil {
			t.Fatal(err)
		}
		h.cluster.mu.Lock()
		h.cluster.onions = append(slices.Clone(h.cluster.onions), state.Onion{Key: key.Address(), Version: 1})
		h.cluster.mu.Unlock()
		time.Sleep(4 * time.Second) // services change after reloadGap
		h.settle()
		pub := h.pubs.running[key.Address()]
		if pub == nil {
			t.Fatal("nothing publishes the address")
		}
		var noted []any
		p := publishers{m: h.m, limit: h.pubs.limit, note: func(kind event.Kind, body any) {
			if kind == event.KindPublishForeign {
				noted = append(noted, body)
			}
		}}
		p.report(pub, publisher.Report{Address: key.Address(), Foreign: &publisher.Foreign{Dir: descriptor.Fingerprint{0xab}, Revision: 5_700_000_000}})
		var foreign dto.Metric
		if err := h.m.posts.WithLabelValues("foreign").Write(&foreign); err != nil {
			t.Fatal(err)
		}
		want := event.PublishForeign{Address: key.Address().String(), Revision: 5_700_000_000, Dir: descriptor.Fingerprint{0xab}.String()}
		if len(noted) != 1 || noted[0] != any(want) || foreign.Counter.GetValue() != 1 {
			t.Errorf("noted %+v, want %+v; counted %v", noted, want, foreign.Counter.GetValue())
		}
	})
}
