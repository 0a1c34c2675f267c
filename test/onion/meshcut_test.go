package onion

import (
	"bytes"
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"encoding/base32"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/config"
	"github.com/skein-project/skein/coord/join"
	"github.com/skein-project/skein/daemon"
	"github.com/skein-project/skein/internal/tornet"
	"github.com/skein-project/skein/internal/tornet/tornettest"
	statedir "github.com/skein-project/skein/offline"
	"github.com/skein-project/skein/tor"
)

// offline holds the WireGuard addresses (netip.AddrPort) of the hosts that are
// cut off: no relay passes anything to them or from them.
var offline sync.Map

// underlay is the one way to a host's WireGuard port, as the others know it: a
// relay of datagrams, and a firewall around the hosts that are offline.
type underlay struct {
	conn  *net.UDPConn
	host  netip.AddrPort
	wg    sync.WaitGroup
	mu    sync.Mutex
	back  map[netip.AddrPort]*net.UDPConn // guarded by mu: by who sends to the host
	ended bool                            // guarded by mu
}

func newUnderlay(t *testing.T, host netip.AddrPort) *underlay {
	t.Helper()
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	u := &underlay{conn: conn, host: host, back: map[netip.AddrPort]*net.UDPConn{}}
	u.wg.Go(u.in)
	t.Cleanup(func() {
		_ = conn.Close()
		u.mu.Lock()
		u.ended = true
		for _, c := range u.back {
			_ = c.Close()
		}
		u.mu.Unlock()
		u.wg.Wait()
		u.setCut(false)
	})
	return u
}

// setCut takes the host off the mesh, in both directions, or puts it back.
func (u *underlay) setCut(cut bool) {
	if cut {
		offline.Store(u.host, true)
	} else {
		offline.Delete(u.host)
	}
}

func (u *underlay) addr() netip.AddrPort { return u.conn.LocalAddr().(*net.UDPAddr).AddrPort() }

func (u *underlay) closedTo(sender netip.AddrPort) bool {
	_, host := offline.Load(u.host)
	_, other := offline.Load(sender)
	return host || other
}

// in passes on what others send to the host, from a socket for each of them.
func (u *underlay) in() {
	buf := make([]byte, 64<<10)
	for {
		n, from, err := u.conn.ReadFromUDPAddrPort(buf)
		if err != nil {
			return
		}
		if u.closedTo(from) {
			continue
		}
		if c := u.socket(from); c != nil {
			_, _ = c.Write(buf[:n])
		}
	}
}

func (u *underlay) socket(from netip.AddrPort) *net.UDPConn {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.ended {
		return nil
	}
	if c := u.back[from]; c != nil {
		return c
	}
	c, err := net.DialUDP("udp4", nil, net.UDPAddrFromAddrPort(u.host))
	if err != nil {
		return nil
	}
	u.back[from] = c
	u.wg.Go(func() {
		buf := make([]byte, 64<<10)
		for {
			n, err := c.Read(buf)
			if err != nil {
				if u.conn.SetReadDeadline(time.Time{}) != nil {
					return // ended; else the host was not listening yet
				}
				u.mu.Lock()
				ended := u.ended
				u.mu.Unlock()
				if ended {
					return
				}
				continue
			}
			if !u.closedTo(from) {
				_, _ = u.conn.WriteToUDPAddrPort(buf[:n], from)
			}
		}
	})
	return c
}

// real is a daemon with a tor of its own on the private network.
type real struct {
	t      *testing.T
	name   string
	cfg    config.Config
	api    *api.Client
	net    *underlay
	log    *safeBuffer
	cancel context.CancelFunc
	done   chan error
}

type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer // guarded by mu
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func freePort(t *testing.T, network string) netip.AddrPort {
	t.Helper()
	at := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 0)
	if network == "tcp" {
		l, err := net.ListenTCP("tcp4", net.TCPAddrFromAddrPort(at))
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		return l.Addr().(*net.TCPAddr).AddrPort()
	}
	c, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(at))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	return c.LocalAddr().(*net.UDPAddr).AddrPort()
}

func newReal(t *testing.T, n *tornet.Network, name string) *real {
	t.Helper()
	dir, err := os.MkdirTemp("", "sk") //nolint:usetesting // short enough for a socket's address
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // best effort
	wg := freePort(t, "udp")
	r := &real{t: t, name: name, net: newUnderlay(t, wg), log: &safeBuffer{}}
	r.cfg, err = config.Load(config.Options{
		Hostname: func() (string, error) { return name, nil },
		Flags: map[string]string{
			"state_dir": filepath.Join(dir, "s"), "mesh.backend": config.BackendNetstack, "mesh.listen": wg.String(),
			"mesh.advertise": r.net.addr().String(), "mesh.probe_mtu": "false", "join.listen": freePort(t, "tcp").String(),
			"status.socket": filepath.Join(dir, "k"), "lease.profile": "lan", "tor.enabled": "true", "log.format": "json",
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	r.cfg.Tor.Torrc = n.Torrc()
	if r.api, err = api.Dial(r.cfg.Status.Socket); err != nil {
		t.Fatal(err)
	}
	return r
}

// run starts the daemon; token joins a cluster, empty is for a member.
func (r *real) run(token string) {
	r.t.Helper()
	o := daemon.RunOptions{Version: "0.1.0", Stderr: r.log, RunnerArgv: []string{"/bin/false"}}
	if token != "" {
		o.Join = filepath.Join(r.t.TempDir(), "token")
		if err := os.WriteFile(o.Join, []byte(token), 0o600); err != nil {
			r.t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel, r.done = cancel, make(chan error, 1)
	go func() { r.done <- daemon.Run(ctx, r.cfg, o) }()
	r.t.Cleanup(func() {
		cancel()
		if err := <-r.done; err != nil {
			r.t.Errorf("%s: %v", r.name, err)
		}
		if r.t.Failed() {
			log := r.log.String()
			r.t.Logf("end of the log of %s:\n%s", r.name, log[max(0, len(log)-6000):])
		}
	})
}

// until waits for f, which may fail for a while.
func until(t *testing.T, what string, within time.Duration, f func(context.Context) error) time.Duration {
	t.Helper()
	start := time.Now()
	for {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		err := f(ctx)
		cancel()
		if err == nil {
			return time.Since(start)
		}
		if time.Since(start) > within {
			t.Fatalf("%s: not within %s: %v", what, within, err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// reaches is nil when each of the hosts sees all the others alive by that path.
func reaches(hosts []*real, path string) func(context.Context) error {
	return func(ctx context.Context) error {
		for _, r := range hosts {
			s, err := r.api.Members(ctx)
			if err != nil {
				return err
			}
			if len(s.Members) != len(hosts) {
				return fmt.Errorf("%s knows %d hosts", r.name, len(s.Members))
			}
			for _, m := range s.Members {
				if !m.Self && (m.State != cluster.Alive || m.Path != path) {
					return fmt.Errorf("%s sees %s %s, path %q", r.name, m.Node, m.State, m.Path)
				}
			}
		}
		return nil
	}
}

// overOnions measures how messages go between a and another host over onions: the
// round trips of heartbeats, requests, and how soon heartbeats come again once the
// other's tor is killed.
func overOnions(t *testing.T, a, other *real) {
	t.Helper()
	var trips []time.Duration
	for range 100 {
		m, err := a.api.Mesh(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range m.Peers {
			if p.RTTSeconds != nil {
				trips = append(trips, time.Duration(*p.RTTSeconds*float64(time.Second)))
			}
		}
		time.Sleep(200 * time.Millisecond) // what is sampled changes with time
	}
	if len(trips) == 0 {
		t.Fatal("no round trip was measured")
	}
	slices.Sort(trips)
	bound(t, fmt.Sprintf("round trip of heartbeats over onions, smoothed, p95 of %d samples", len(trips)), trips[(len(trips)*95-1)/100], 500*time.Millisecond)

	ask := func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		_, err := a.api.DrainOnion(ctx, api.OnionDrainRequest{Node: cluster.NodeID(other.name), Undo: true})
		return err
	}
	var asked []time.Duration
	for range 5 { // a host takes few changes at once
		begin := time.Now()
		if err := ask(t.Context()); err != nil {
			t.Fatal(err)
		}
		asked = append(asked, time.Since(begin))
	}
	bound(t, "request to another host over its onion, slowest of 5", slices.Max(asked), 2*time.Second)

	// Its onion has other points then, which a's tor may learn of after a wait of
	// half a minute; its own tor finds a's at once.
	begin := time.Now()
	killTor(t, filepath.Join(other.cfg.StateDir, "tor"))
	until(t, "heartbeats after the other's tor was killed", 3*limit, func(ctx context.Context) error {
		s, err := a.api.Members(ctx)
		if err != nil {
			return err
		}
		for _, m := range s.Members {
			// What was under way may arrive a moment after the kill.
			if string(m.Node) == other.name && m.Path == "onion" && m.SeenSeconds != nil &&
				time.Since(begin)-time.Duration(*m.SeenSeconds*float64(time.Second)) > 2*time.Second {
				return nil
			}
		}
		return errors.New("none yet")
	})
	bound(t, "heartbeats again over onions after the other's tor was killed", time.Since(begin), 30*time.Second)
}

// killTor kills the tor whose data lies in a directory.
func killTor(t *testing.T, dir string) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range all {
		line, _ := os.ReadFile(name) // it may be gone
		if pid, err := strconv.Atoi(strings.Split(name, "/")[2]); err == nil && pid != os.Getpid() && bytes.Contains(line, []byte(dir)) {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
	t.Fatalf("no tor runs in %s", dir)
}

func token(t *testing.T, r *real, via api.TokenVia) (text string) {
	t.Helper()
	until(t, "a token", 2*limit, func(ctx context.Context) error {
		tok, err := r.api.Invite(ctx, api.TokenRequest{TTLSeconds: 600, Uses: 1, Via: via})
		if err == nil {
			text = tok.Secret.Reveal()
		}
		return err
	})
	return text
}

// TestDaemonsWithoutMesh: three real daemons that serve one address. The third
// is cut off the mesh from its first moment and knows nothing but a token with an
// onion address; it joins, appears in the descriptor and is reached. Then the mesh
// is cut between all. They stay alive to each other, write to their log, publish
// a change of the descriptor over onion services, and return to the mesh when it
// is back.
func TestDaemonsWithoutMesh(t *testing.T) {
	long(t)
	t.Parallel()
	n := sharedNetwork(t)
	client := tornettest.Run(t, n, "client")
	a, b, c := newReal(t, n, "host-a"), newReal(t, n, "host-b"), newReal(t, n, "host-c")
	all := []*real{a, b, c}
	for _, r := range all {
		r.cfg.Onion.Targets = []string{named(t, r.name).addr}
	}
	if err := statedir.Init(a.cfg, statedir.InitOptions{ClusterName: "onions"}); err != nil {
		t.Fatal(err)
	}
	a.run("")
	b.run(token(t, a, ""))
	until(t, "two hosts on the mesh", 2*limit, reaches(all[:2], "direct"))
	address := serve(t, a)
	until(t, "two hosts in the descriptor", 3*limit, published(all[:2], time.Time{}, "host-a", "host-b"))

	invite := token(t, a, api.ViaOnion)
	outside(t, runTor(t, tor.Options{Torrc: n.Torrc()}), a, nil)
	c.net.setCut(true)
	begin := time.Now()
	since := func() time.Duration { return time.Since(begin).Round(100 * time.Millisecond) }
	c.run(invite)
	until(t, "the third answers", 4*limit, func(ctx context.Context) error {
		_, err := c.api.Status(ctx)
		return err
	})
	t.Logf("joined over tor and up after %s", since())
	until(t, "the third is alive over onions", 4*limit, func(ctx context.Context) error {
		for _, r := range all[:2] {
			if err := seesAt(ctx, r, c, "onion"); err != nil {
				return err
			}
		}
		return nil
	})
	t.Logf("alive to all over onions after %s", since())
	until(t, "three hosts in the descriptor", 3*limit, published(all, time.Time{}, "host-a", "host-b", "host-c"))
	t.Logf("in the descriptor after %s", since())
	reached(t, client, address, "host-a", "host-b", "host-c")
	t.Logf("reached by a client after %s", since())

	// Only members find the own onions of hosts, and who is invited.
	stranger, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	x := runTor(t, tor.Options{Torrc: n.Torrc()})
	for _, r := range all {
		outside(t, x, r, stranger)
		id, _, err := join.Load(r.cfg.StateDir)
		if err != nil {
			t.Fatal(err)
		}
		key, log := id.OnionClient().Bytes(), r.log.String()
		if strings.Contains(log, base64.StdEncoding.EncodeToString(key)) || strings.Contains(log, base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(key)) {
			t.Errorf("the log of %s contains its key", r.name)
		}
	}

	for _, r := range all {
		r.net.setCut(true)
	}
	took := until(t, "all over onions", 3*limit, reaches(all, "onion"))
	t.Logf("all alive over onions %s after the mesh was cut", took.Round(100*time.Millisecond))
	for _, r := range all {
		until(t, "an event through "+r.name, 3*limit, func(ctx context.Context) error {
			_, err := r.api.CreateToken(ctx, time.Minute, 1)
			if api.IsCode(err, api.CodeConflict) {
				return nil
			}
			return err
		})
	}
	m, err := a.api.Mesh(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range m.Peers {
		if p.Path != "onion" || !strings.HasSuffix(p.Onion, ".onion") || p.PathSeconds == nil {
			t.Errorf("mesh shows %+v", p)
		}
		if p.RTTSeconds != nil {
			t.Logf("round trip to %s over onions: %.0f ms", p.Node, 1000**p.RTTSeconds)
		}
	}
	begin = time.Now()
	if _, err := b.api.DrainOnion(t.Context(), api.OnionDrainRequest{}); err != nil {
		t.Fatal(err)
	}
	until(t, "a change published without the mesh", 3*limit, published(all, begin, "host-a", "host-c"))
	t.Logf("a drained host out of the descriptor after %s, without the mesh", since())
	reached(t, client, address, "host-a", "host-c")
	if prove() {
		overOnions(t, a, c)
	}

	for _, r := range all {
		r.net.setCut(false)
	}
	took = until(t, "all on the mesh again", 4*limit, reaches(all, "direct"))
	t.Logf("all on the mesh %s after it was back", took.Round(100*time.Millisecond))
	until(t, "a holder", 3*limit, func(ctx context.Context) error {
		for _, r := range all {
			s, err := r.api.Status(ctx)
			if err != nil {
				return err
			}
			if s.Lease.Holder == "" {
				return fmt.Errorf("%s knows no holder", r.name)
			}
		}
		return nil
	})
}

// outside holds that a tor does not find the own onion of a host, with the key
// or without one.
func outside(t *testing.T, x *tor.Tor, r *real, key *ecdh.PrivateKey) {
	t.Helper()
	own, err := (&tor.Service{Dir: filepath.Join(r.cfg.StateDir, "onion", "node")}).Address()
	if err != nil {
		t.Fatal(err)
	}
	want := "wants client authorization"
	dial := x.Dial
	if key != nil {
		want = "wrong client authorization"
		dial = func(ctx context.Context, isolation, address string) (net.Conn, error) {
			return x.DialPrivate(ctx, isolation, address, key)
		}
	}
	until(t, "an answer of "+r.name+" to a stranger", 2*limit, func(ctx context.Context) error {
		conn, err := dial(ctx, "stranger", own+":443")
		if err == nil {
			conn.Close()
			t.Fatalf("a stranger finds the own onion of %s", r.name)
		}
		if !strings.Contains(err.Error(), want) {
			return err
		}
		return nil
	})
}

// seesAt is nil when r has o alive by that path.
func seesAt(ctx context.Context, r, o *real, path string) error {
	s, err := r.api.Members(ctx)
	if err != nil {
		return err
	}
	for _, m := range s.Members {
		if string(m.Node) == o.name && m.State == cluster.Alive && m.Path == path {
			return nil
		}
	}
	return fmt.Errorf("%s has no %s alive by path %s", r.name, o.name, path)
}

// serve has the cluster serve an address whose key one host keeps.
func serve(t *testing.T, keeper *real) (address string) {
	t.Helper()
	until(t, "an address", 2*limit, func(ctx context.Context) error {
		made, err := keeper.api.AddOnion(ctx, api.OnionRequest{})
		address = made.Address
		return err
	})
	return address
}

// published is nil when one of the hosts published, after since, a descriptor of
// the hosts named.
func published(hosts []*real, since time.Time, names ...cluster.NodeID) func(context.Context) error {
	return func(ctx context.Context) error {
		var last error
		for _, r := range hosts {
			o, err := r.api.Onion(ctx)
			if err != nil {
				return err
			}
			if len(o.Addresses) == 1 {
				x := o.Addresses[0]
				if x.Publishing && x.PublishedAt != nil && x.PublishedAt.After(since) && has(x.Points, names...) {
					return nil
				}
				last = fmt.Errorf("%s: publishing %t, points %v, at %v", r.name, x.Publishing, x.Points, x.PublishedAt)
			}
		}
		return last
	}
}

// reached has a client that knows nothing yet connect until each host named
// answered.
func reached(t *testing.T, client *tornet.Tor, address string, names ...string) {
	t.Helper()
	seen := map[string]int{}
	for i := 0; len(seen) < len(names); i++ {
		if i%20 == 0 {
			if err := client.Fresh(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		name := mustFetch(t.Context(), t, client, fmt.Sprint("reached", i, time.Now().UnixNano()), address)
		if !slices.Contains(names, name) {
			t.Fatalf("served by %q", name)
		}
		if seen[name]++; i > 200 {
			t.Fatalf("reached %v of %v", seen, names)
		}
	}
	t.Logf("a client reached %v", seen)
}

// TestJoinThroughMaster: a host that knows only the address that the cluster
// serves to everyone joins through whichever host it comes out at, which passes
// it on to the sponsor.
func TestJoinThroughMaster(t *testing.T) {
	t.Parallel()
	n := sharedNetwork(t)
	a, b, c := newReal(t, n, "host-a"), newReal(t, n, "host-b"), newReal(t, n, "host-c")
	for _, r := range []*real{a, b, c} {
		r.cfg.Onion.Targets = []string{named(t, r.name).addr}
	}
	if err := statedir.Init(a.cfg, statedir.InitOptions{ClusterName: "onions"}); err != nil {
		t.Fatal(err)
	}
	a.run("")
	b.run(token(t, a, ""))
	until(t, "two hosts on the mesh", 2*limit, reaches([]*real{a, b}, "direct"))
	serve(t, a)
	until(t, "two hosts in the descriptor", 3*limit, published([]*real{a, b}, time.Time{}, "host-a", "host-b"))
	invite := token(t, a, api.ViaMaster)
	begin := time.Now()
	c.run(invite)
	until(t, "the third answers", 5*limit, func(ctx context.Context) error {
		_, err := c.api.Status(ctx)
		return err
	})
	t.Logf("joined through the address of the cluster, and up, after %s", time.Since(begin).Round(100*time.Millisecond))
	until(t, "three hosts in the descriptor", 3*limit, published([]*real{a, b, c}, time.Time{}, "host-a", "host-b", "host-c"))
	t.Logf("in the descriptor after %s", time.Since(begin).Round(100*time.Millisecond))
}
