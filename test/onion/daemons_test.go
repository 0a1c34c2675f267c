package onion

import (
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
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
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/internal/tornet"
	"github.com/skein-project/skein/internal/tornet/tornettest"
	"github.com/skein-project/skein/publisher/descriptor"
)

// TestOneAddressThreeHosts: a founder serves an address through its tor alone,
// two hosts join without a word of it and appear in the descriptor, clients
// reach all three; the publisher is killed, and the address is still served,
// published by one that was granted the key.
func TestOneAddressThreeHosts(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	client := tornettest.Run(t, f.net, "client")
	n1 := f.add("")
	n1.await("tor is ready", func(o api.Onion) bool { return o.Tor.State == "ready" })
	added, err := n1.api.AddOnion(f.ctx, api.OnionRequest{})
	if err != nil {
		t.Fatal(err)
	}
	address := added.Address
	n1.await("its tor publishes by itself", func(o api.Onion) bool { return len(o.Addresses) == 1 && o.Addresses[0].Solo })
	tries := 0
	for served := false; !served; tries++ {
		name, err := fetch(f.ctx, client, fmt.Sprint("solo", tries), address)
		if served = err == nil && name == "n1"; !served && f.ctx.Err() != nil {
			t.Fatal("not served by one host:", name, err)
		}
	}
	f.say("served by one host, %d tries", tries)

	n2, n3 := f.add(""), f.add("")
	all := []cluster.NodeID{"n1", "n2", "n3"}
	n1.await("all three in the descriptor", func(o api.Onion) bool {
		return has(o.Addresses[0].Points, all...) && o.Addresses[0].PublishedAt != nil && !o.Addresses[0].Solo
	})
	for _, h := range []*host{n2, n3} {
		if _, err := n1.api.GrantOnion(f.ctx, address, cluster.NodeID(h.name)); err != nil {
			t.Fatal(err)
		}
	}
	n3.await("three keepers", func(o api.Onion) bool { return len(o.Addresses) == 1 && len(o.Addresses[0].Keepers) == 3 })
	// A client keeps the descriptor that it fetches, so none may find an older one.
	eventually(t, "all directories have the points of all three", func(ctx context.Context) error {
		o, err := n1.api.Onion(ctx)
		if err != nil {
			return err
		}
		points := 0
		for _, n := range o.Addresses[0].Points {
			points += n // of both periods
		}
		v, err := n1.api.VerifyOnion(ctx, address)
		if err != nil {
			return err
		}
		if len(v.Dirs) == 0 || slices.ContainsFunc(v.Dirs, func(d api.OnionDirView) bool { return 2*d.Points != points }) {
			return fmt.Errorf("%d points wanted, %+v", points/2, v)
		}
		return nil
	})

	if err := client.Fresh(f.ctx); err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for i := 0; len(seen) < 3; i++ {
		if i == 60 {
			t.Fatalf("60 connections reached %v", seen)
		}
		seen[mustFetch(f.ctx, t, client, fmt.Sprint("all", i), address)]++
	}
	f.say("reached %v", seen)

	eventually(t, "verified at the directories", func(ctx context.Context) error {
		v, err := n2.api.VerifyOnion(ctx, address)
		if err == nil && (2*v.Found < len(v.Dirs) || v.Found == 0) {
			err = fmt.Errorf("%+v", v)
		}
		return err
	})
	f.publishedAnew(n3, address)
	dead := f.publisher("before the kill", func(api.OnionAddress) bool { return true })
	at := time.Now()
	dead.kill()
	left := make([]cluster.NodeID, 0, 2)
	for _, n := range all {
		if n != cluster.NodeID(dead.name) {
			left = append(left, n)
		}
	}
	next := f.publisher("without the dead host", func(a api.OnionAddress) bool {
		return has(a.Points, left...) && a.PublishedAt != nil && a.PublishedAt.After(at)
	})
	f.say("new descriptor %.1f s after the kill", time.Since(at).Seconds())
	if err := client.Fresh(f.ctx); err != nil {
		t.Fatal(err)
	}
	for i := range 6 {
		if name := mustFetch(f.ctx, t, client, fmt.Sprint("after", i), address); name == dead.name || name == "" {
			t.Fatalf("connection %d is served by %q", i, name)
		}
	}
	f.say("still served")

	// A drained host is out of the descriptor.
	other := left[0]
	if other == cluster.NodeID(next.name) {
		other = left[1]
	}
	if _, err := next.api.DrainOnion(f.ctx, api.OnionDrainRequest{Node: other}); err != nil {
		t.Fatal(err)
	}
	f.publisher("without the drained host", func(a api.OnionAddress) bool { return has(a.Points, cluster.NodeID(next.name)) })
	if _, err := next.api.DrainOnion(f.ctx, api.OnionDrainRequest{Node: other, Undo: true}); err != nil {
		t.Fatal(err)
	}
	f.publisher("with it again", func(a api.OnionAddress) bool { return has(a.Points, left...) })
	f.failBackends(next, f.named(other))
	f.stopUnnoticed(client, address, other)
}

// publishedAnew has one of the hosts asked for new descriptors, which the publisher makes,
// and the directories get.
func (f *fleet) publishedAnew(asked *host, address string) {
	f.t.Helper()
	newest := func(ctx context.Context) (newest uint64, err error) {
		v, err := asked.api.VerifyOnion(ctx, address)
		for _, d := range v.Dirs {
			if r, err := strconv.ParseUint(d.Revision, 10, 64); err == nil {
				newest = max(newest, r)
			}
		}
		return newest, err
	}
	before, err := newest(f.ctx)
	if err != nil || before == 0 {
		f.t.Fatalf("at the directories is %d, %v", before, err)
	}
	p, err := asked.api.PublishOnion(f.ctx, address)
	if err != nil || p.Address != address || p.Term == 0 {
		f.t.Fatalf("publish: %+v, %v", p, err)
	}
	if by := f.publisher("who was asked", func(a api.OnionAddress) bool { return a.Term == p.Term }); string(p.Node) != by.name {
		f.t.Errorf("%s publishes, the answer says %s", by.name, p.Node)
	}
	eventually(f.t, "directories have what was asked for", func(ctx context.Context) error {
		now, err := newest(ctx)
		if err == nil && now <= before {
			err = fmt.Errorf("revision %d still", now)
		}
		return err
	})
	eventually(f.t, "the log says who asked", func(ctx context.Context) error {
		found := 0
		err := asked.api.Events(ctx, api.EventQuery{}, api.FollowOptions{}, func(e api.Event) error {
			if e.Kind == event.KindPublishAsked && e.Source.Node == p.Node {
				found++
			}
			return nil
		})
		if err == nil && found != 1 {
			err = fmt.Errorf("%d events", found)
		}
		return err
	})
	f.say("published anew for %s, by %s under term %d", asked.name, p.Node, p.Term)
}

func (f *fleet) named(node cluster.NodeID) *host {
	f.t.Helper()
	for _, h := range f.hosts {
		if h.name == string(node) {
			return h
		}
	}
	f.t.Fatalf("no host %s", node)
	return nil
}

// failBackends lets the backends of the two hosts of an address fail and come
// back: one that fails alone is left out, both are not.
func (f *fleet) failBackends(publisher, other *host) {
	f.t.Helper()
	both := []cluster.NodeID{cluster.NodeID(publisher.name), cluster.NodeID(other.name)}
	awaitPoints := func(what string, want ...cluster.NodeID) {
		f.t.Helper()
		f.publisher(what, func(a api.OnionAddress) bool { return has(a.Points, want...) })
	}
	other.backend.fail()
	awaitPoints("without the host whose backend fails", both[0])
	publisher.await("shows the backend that fails", func(o api.Onion) bool {
		return slices.ContainsFunc(o.Hosts, func(h api.OnionHost) bool {
			return h.Node == both[1] && !h.Serving && slices.Contains(h.Backends, api.OnionBackend{Name: other.backend.addr})
		})
	})
	publisher.backend.fail()
	awaitPoints("with both, since both fail", both...)
	other.backend.start(f.t)
	awaitPoints("without itself, whose backend fails", both[1])
	publisher.backend.start(f.t)
	awaitPoints("with both again", both...)
}

// stopUnnoticed stops a host in good order while a client connects.
func (f *fleet) stopUnnoticed(client *tornet.Tor, address string, node cluster.NodeID) {
	f.t.Helper()
	h := f.named(node)
	if prove() {
		awaitCalm(40 * time.Second)
	}
	if err := client.Fresh(f.ctx); err != nil {
		f.t.Fatal(err)
	}
	if err := h.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		f.t.Fatal(err)
	}
	at := time.Now()
	after := 5
	var slowest time.Duration
	seen := map[string]int{}
	for i := 0; after > 0; i++ {
		select {
		case <-h.done:
			if after == 5 {
				f.say("%s stopped %.1f s after SIGTERM", h.name, time.Since(at).Seconds())
			}
			after--
		default:
		}
		begin := time.Now()
		seen[mustFetch(f.ctx, f.t, client, fmt.Sprint("stop", i), address)]++
		slowest = max(slowest, time.Since(begin))
	}
	f.say("connections meanwhile %v", seen)
	// A client that knows the descriptor of before is sent on by one point after
	// the other.
	bound(f.t, "slowest connection", slowest, 5*time.Second)
}

// TestOperations: what operators do to the addresses of a running cluster. A
// host alone takes over the key of another service, adds an address that only
// one client may find, gets a second host, changes its own onion key, and is
// alone again. Each time clients reach what they may.
func TestOperations(t *testing.T) {
	t.Parallel()
	long(t)
	f := newFleet(t)
	n1 := f.add("")
	n1.await("tor is ready", func(o api.Onion) bool { return o.Tor.State == "ready" })
	var seed [32]byte
	if _, err := rand.Read(seed[:]); err != nil {
		t.Fatal(err)
	}
	key := descriptor.NewSecretKey(seed)
	imported, err := n1.api.AddOnion(f.ctx, api.OnionRequest{KeyFile: key.File()})
	if err != nil || imported.Address != key.Address().String() {
		t.Fatalf("import: %v, %s, want %s", err, imported.Address, key.Address())
	}
	added, err := n1.api.AddOnion(f.ctx, api.OnionRequest{})
	if err != nil {
		t.Fatal(err)
	}
	open, closed := imported.Address, added.Address
	anyone := tornettest.Run(t, f.net, "anyone")
	for _, address := range []string{open, closed} {
		f.served(anyone, address, "n1")
	}

	secret, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	a, err := descriptor.ParseAddress(closed)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := n1.api.SetOnionClients(f.ctx, closed, api.OnionClientsRequest{Clients: map[string]string{"friend": descriptor.FormatClientKey(secret.PublicKey())}}); err != nil {
		t.Fatal(err)
	}
	keys := filepath.Join(f.dir, "client-keys")
	if err := os.Mkdir(keys, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(keys, "friend.auth_private"), []byte(descriptor.FormatClientSecret(a, secret)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	friend := tornettest.Run(t, f.net, "friend", "ClientOnionAuthDir "+keys)
	f.served(friend, closed, "n1")
	f.refused(anyone, closed)
	f.say("one client may find the second address, others not")

	n2 := f.add("")
	both := func(o api.Onion) bool {
		return len(o.Addresses) == 2 && !slices.ContainsFunc(o.Addresses, func(a api.OnionAddress) bool { return !has(a.Points, "n1", "n2") || a.PublishedAt == nil })
	}
	n1.await("two hosts in both descriptors", both)
	f.served(anyone, open, "n1", "n2")
	f.served(friend, closed, "n1", "n2")
	f.refused(anyone, closed)

	before := n1.await("own onion", func(o api.Onion) bool { return n1.onionOf(o) != "" })
	if _, err := n1.api.RotateOnion(f.ctx); err != nil {
		t.Fatal(err)
	}
	n1.await("another onion of its own in both descriptors", func(o api.Onion) bool {
		now := n1.onionOf(o)
		return now != "" && now != n1.onionOf(before) && both(o)
	})
	f.served(anyone, open, "n1", "n2")

	if _, err := n1.api.RemoveOnion(f.ctx, closed); err != nil {
		t.Fatal(err)
	}
	if _, err := n1.api.SetOnionClients(f.ctx, closed, api.OnionClientsRequest{}); !api.IsCode(err, api.CodeConflict) {
		t.Errorf("clients of an address that is removed: %v", err)
	}
	if err := n2.command("leave", "--yes"); err != nil {
		t.Fatal(err)
	}
	n1.await("one host, one address", func(o api.Onion) bool { return len(o.Addresses) == 1 && has(o.Addresses[0].Points, "n1") })
	f.served(anyone, open, "n1")
	f.refused(friend, closed)
}

// three makes the fleet serve one address by three hosts, and returns the founder
// and the address.
func (f *fleet) three() (founder *host, address string) { return f.threeWith("") }

// threeWith is three, with lines for the section onion of the configuration.
func (f *fleet) threeWith(extra string) (founder *host, address string) {
	f.t.Helper()
	founder = f.add(extra)
	founder.await("tor is ready", func(o api.Onion) bool { return o.Tor.State == "ready" })
	added, err := founder.api.AddOnion(f.ctx, api.OnionRequest{})
	if err != nil {
		f.t.Fatal(err)
	}
	f.add(extra)
	f.add(extra)
	f.publisher("all three", pointsOf("n1", "n2", "n3"))
	return founder, added.Address
}

// pointsOf holds of an address that is published with points of these hosts.
func pointsOf(names ...cluster.NodeID) func(api.OnionAddress) bool {
	return func(a api.OnionAddress) bool { return has(a.Points, names...) && a.PublishedAt != nil }
}

// TestSecondAddress: three hosts serve an address, and get a second one, for
// which each has a further instance. One of them then takes another onion key
// again and again. Clients of the first address hardly notice, whether they know
// the descriptor of before or not.
func TestSecondAddress(t *testing.T) {
	t.Parallel()
	long(t)
	f := newFleet(t)
	names := []cluster.NodeID{"n1", "n2", "n3"}
	n1, first := f.three()
	visitor, other := tornettest.Run(t, f.net, "visitor"), tornettest.Run(t, f.net, "other")
	f.served(visitor, first, "n1", "n2", "n3")

	visits, cancel := context.WithCancel(f.ctx)
	defer cancel()
	var wg sync.WaitGroup
	defer wg.Wait()
	const usual, lost = 10 * time.Second, 40 * time.Second
	count, failed, late, slowest := 0, 0, 0, time.Duration(0)
	wg.Go(func() {
		for ; visits.Err() == nil; count++ {
			begin := time.Now()
			name, err := fetch(f.ctx, visitor, fmt.Sprint("visit", count), first)
			if err != nil && f.ctx.Err() == nil {
				f.say("connection %d to the first address after %s: %q, %v", count, time.Since(begin), name, err)
				failed++
			}
			took := time.Since(begin)
			if err == nil && took > usual {
				late++
			}
			if took > slowest {
				slowest = took
				f.say("a connection to the first address by %s took %.1f s", name, took.Seconds())
			}
		}
	})
	at := time.Now()
	second, err := n1.api.AddOnion(f.ctx, api.OnionRequest{})
	if err != nil {
		t.Fatal(err)
	}
	serves := func(names ...cluster.NodeID) func(api.Onion) bool {
		return func(o api.Onion) bool {
			return slices.ContainsFunc(o.Addresses, func(a api.OnionAddress) bool {
				return a.Address == second.Address && a.PublishedAt != nil && has(a.Points, names...)
			})
		}
	}
	n1.await("the second address is served by all", serves(names...))
	f.say("all serve the second address after %.1f s", time.Since(at).Seconds())
	f.served(other, second.Address, "n1", "n2", "n3")
	f.served(other, first, "n1", "n2", "n3")

	// The third time it gives up the service that the visitor knows.
	n2 := f.hosts[1]
	for range 4 {
		before, err := n2.api.RotateOnion(f.ctx)
		if err != nil {
			t.Fatal(err)
		}
		n1.await("another onion of n2's own in both descriptors", func(o api.Onion) bool {
			now := n2.onionOf(o)
			return now != "" && now != before.From && len(o.Addresses) == 2 &&
				!slices.ContainsFunc(o.Addresses, func(a api.OnionAddress) bool { return !has(a.Points, names...) })
		})
	}
	f.served(other, first, "n1", "n2", "n3")
	time.Sleep(10 * time.Second) // to go on visiting
	cancel()
	wg.Wait()
	// A tor that reads its configuration may cut off who is just being connected,
	// and a relay that closes a circuit drops what it has queued there.
	f.say("%d of %d connections to the first address meanwhile, %d of them took more than %s", count-failed, count, late, usual)
	if failed+late > 1 {
		t.Errorf("%d of %d connections failed, %d took more than %s; at most one may", failed, count, late, usual)
	}
	bound(t, "slowest of them", slowest, lost)
}

// served has a client that knows nothing yet connect until all these hosts
// answered.
func (f *fleet) served(client *tornet.Tor, address string, names ...string) {
	f.t.Helper()
	seen := map[string]int{}
	for i := 0; len(seen) < len(names); i++ {
		if i%20 == 0 {
			if err := client.Fresh(f.ctx); err != nil {
				f.t.Fatal(err)
			}
		}
		name, err := fetch(f.ctx, client, fmt.Sprint("served", i), address)
		switch {
		case f.ctx.Err() != nil:
			f.t.Fatalf("%s is served by %v alone: %v", address, seen, err)
		case err == nil && !slices.Contains(names, name):
			f.t.Fatalf("%s is served by %q", address, name)
		case err == nil:
			seen[name]++
		}
	}
	f.say("%s is served by %v", address[:8], seen)
}

// refused has a client that knows nothing yet try, in vain.
func (f *fleet) refused(client *tornet.Tor, address string) {
	f.t.Helper()
	if err := client.Fresh(f.ctx); err != nil {
		f.t.Fatal(err)
	}
	if name, err := fetch(f.ctx, client, "refused", address); err == nil {
		f.t.Errorf("%s is served by %q to one who may not find it", address, name)
	}
}

// onionOf is the address of a host's own instance.
func (h *host) onionOf(o api.Onion) string {
	for _, x := range o.Hosts {
		if string(x.Node) == h.name {
			return x.Address
		}
	}
	return ""
}

// command runs a skein command on the host.
func (h *host) command(args ...string) error {
	out, err := exec.CommandContext(h.ctx, h.exe, append(args, "--config", h.config)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("skein %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}

// TestLostHosts: a host that hangs and one that dies, neither of which
// publishes. Each leaves the descriptor once it is suspected and does not answer
// behind its onion; fresh clients are served all the while, and the one that
// hung is back by itself.
func TestLostHosts(t *testing.T) {
	t.Parallel()
	long(t)
	f := newFleet(t)
	_, address := f.three()
	n2, n3 := f.hosts[1], f.hosts[2]
	client := tornettest.Run(t, f.net, "client")
	f.served(client, address, "n1", "n2", "n3")

	hang := time.Now()
	if err := syscall.Kill(-n3.cmd.Process.Pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	f.publisher("without the one that hangs", pointsOf("n1", "n2"))
	bound(t, "a host that hangs is out of the descriptor", time.Since(hang), suspectLAN+8*time.Second)
	f.unnoticed(client, address, "n1", "n2")
	if err := syscall.Kill(-n3.cmd.Process.Pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	f.publisher("with it again", pointsOf("n1", "n2", "n3"))

	death := time.Now()
	n2.kill()
	f.publisher("without the dead one", pointsOf("n1", "n3"))
	bound(t, "a dead host is out of the descriptor", time.Since(death), suspectLAN+3*time.Second)
	f.unnoticed(client, address, "n1", "n3")
}

// TestHangsBehindTCP: a proxy that passes bytes on has no answer of its own, yet a
// host whose daemon hangs leaves the descriptor long before it counts as dead.
func TestHangsBehindTCP(t *testing.T) {
	t.Parallel()
	long(t)
	f := newFleet(t)
	_, address := f.threeWith(`mode = "tcp"`)
	n3 := f.hosts[2]
	client := tornettest.Run(t, f.net, "client")
	f.served(client, address, "n1", "n2", "n3")
	hang := time.Now()
	n3.signal(syscall.SIGSTOP, n3.cmd.Process.Pid)
	f.publisher("without the one that hangs", pointsOf("n1", "n2"))
	bound(t, "a daemon that hangs behind mode tcp is out of the descriptor", time.Since(hang), suspectLAN+8*time.Second)
	f.unnoticed(client, address, "n1", "n2")
	n3.signal(syscall.SIGCONT, n3.cmd.Process.Pid)
	f.publisher("with it again", pointsOf("n1", "n2", "n3"))
}

// suspectLAN is how long a host is silent in the profile lan until the others
// suspect it.
const suspectLAN = 3 * time.Second

// unnoticed has a client that knows nothing yet connect 20 times.
func (f *fleet) unnoticed(client *tornet.Tor, address string, names ...string) {
	f.t.Helper()
	if err := client.Fresh(f.ctx); err != nil {
		f.t.Fatal(err)
	}
	var slowest time.Duration
	for i := range 20 {
		begin := time.Now()
		name, err := fetch(f.ctx, client, fmt.Sprint("unnoticed", i), address)
		if err != nil || !slices.Contains(names, name) {
			f.t.Errorf("connection %d after %s: %q, %v", i, time.Since(begin), name, err)
		}
		slowest = max(slowest, time.Since(begin))
	}
	bound(f.t, "slowest of 20 fresh connections after that", slowest, 5*time.Second)
}
